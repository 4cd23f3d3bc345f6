/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_formulas.h: numbers the operators that share a kernel: those that are a formula,
 * reductions, optimizers, random numbers. */
#ifndef BP_OPS_COMMON_KERNEL_FORMULAS_H
#define BP_OPS_COMMON_KERNEL_FORMULAS_H

/* Each family counts from 0. */
enum {
#define BINARY_NUMBER(op, formula) BINARY_##op,
#define BINARY_FIELD(op, formula) BINARY_##op,
#define BINARY_FLOAT(op, formula) BINARY_##op,
#define BINARY_REAL(op, formula) BINARY_##op,
#define BINARY_INT(op, formula) BINARY_##op,
#define BINARY_BITS(op, formula) BINARY_##op,
#include "../binary/kernels.def"
};
enum {
#define UNARY_NUMBER(op, formula) UNARY_##op,
#define UNARY_REAL(op, formula) UNARY_##op,
#define UNARY_SIGNED(op, formula) UNARY_##op,
#define UNARY_BITS(op, formula) UNARY_##op,
#define UNARY_FLOAT(op, formula) UNARY_##op,
#define UNARY_FORM(op, formula) UNARY_##op,
#include "../unary/kernels.def"
};
enum {
#define COMPARE_ANY(op, formula) COMPARE_##op,
#define COMPARE_TRUTH(op, formula) COMPARE_##op,
#define COMPARE_REAL(op, formula) COMPARE_##op,
#define COMPARE_FLOAT(op, formula) COMPARE_##op,
#include "../compare/kernels.def"
};
enum {
#define TERNARY_FLOAT(op, formula) TERNARY_##op,
#include "../binary/kernels_ternary.def"
};
enum { WHERE_where, WHERE_mask, WHERE_masked_fill };
enum {
#define COMPLEX_MAKE(op, first, second) COMPLEX_##op,
#define COMPLEX_PAIR(op, first, second) COMPLEX_##op,
#define COMPLEX_PART(op, formula) COMPLEX_##op,
#include "../complex/kernels.def"
};

/* Reductions and scans, grouped by their kernel: reduce/kernel.h, minmax/kernel.h,
 * reduce/kernel_count.h, scan/kernel.h. */
enum {
    REDUCE_prod, REDUCE_nansum, REDUCE_exp, REDUCE_count, REDUCE_abs, REDUCE_square, REDUCE_power,
    REDUCE_largest, REDUCE_smallest, REDUCE_sum
};
enum { MINMAX_max, MINMAX_min };
enum { COUNT_any, COUNT_all, COUNT_nonzero };
enum { SCAN_sum, SCAN_prod, SCAN_exp };

/* Optimizer steps: optimizer/kernel.h. OPTIMIZER_moments is the first part of lamb. */
enum {
    OPTIMIZER_momentum, OPTIMIZER_adam, OPTIMIZER_adamw, OPTIMIZER_adamax, OPTIMIZER_adagrad,
    OPTIMIZER_adadelta, OPTIMIZER_rmsprop, OPTIMIZER_lamb, OPTIMIZER_lars, OPTIMIZER_moments
};

/* Random numbers: random/kernel.h. */
enum { DRAW_normal, DRAW_truncated_normal, DRAW_exponential };

enum {
#define PREDICATE_ANY(op, formula) PREDICATE_##op,
#define PREDICATE_FLOAT(op, formula) PREDICATE_##op,
#include "../compare/kernels_predicate.def"
};

#endif
