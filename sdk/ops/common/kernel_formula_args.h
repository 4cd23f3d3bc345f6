/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_formula_args.h: numbers of the kernels of kernel_formula.h: where operands lie, the result
 * first; which formula (kernel_formulas.h); attributes. */
#ifndef BP_KERNELS_FORMULA_ARGS_H
#define BP_KERNELS_FORMULA_ARGS_H

#include "../../dialect/walk.h"

struct unary_args {
    struct walk_by_value walk;
    i64 op;
    host_real a, b, c;
};
struct binary_args {
    struct walk_by_value walk;
    i64 op;
    host_real a, b;
};
struct predicate_args {
    struct walk_by_value walk;
    i64 op;
};
struct compare_args {
    struct walk_by_value walk;
    i64 op, flag;
    host_real a, b;
};
struct ternary_args {
    struct walk_by_value walk;
    i64 op;
    host_real a;
};
struct where_args {
    struct walk_by_value walk;
};

/* Strides count elements of each operand's own kind: complex numbers, or parts. */
struct complex_make_args {
    struct walk_by_value walk;
    i64 op;
};
struct complex_pair_args {
    struct walk_by_value walk;
    i64 op;
};
struct complex_part_args {
    struct walk_by_value walk;
    i64 op;
};

#endif
