/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_case.h: one case of the suite `kernel`: an operator, its inputs and how they lie in
 * memory, its attributes, the row that must run it (or none: the operator makes views, or is
 * defined in others). Families (cases/) make them; suites/kernel.c
 * runs them. */
#ifndef BP_CONFORM_KERNEL_CASE_H
#define BP_CONFORM_KERNEL_CASE_H

#include "reference/reference.h"
#include <backplane/device.h>

enum {
    CASE_PORTS = 8,
    CASE_LISTS = 4,
    CASE_NEEDS = 5,
    CASE_ID = 192
};

/* How an input lies in its allocation. */
enum layout {
    LAYOUT_DENSE,    /* row-major, aligned */
    LAYOUT_OFFSET,   /* row-major, one element off the alignment */
    LAYOUT_PERMUTED, /* the first axis is the innermost */
    LAYOUT_GAPS,     /* every other element, and rows further apart */
    LAYOUT_REPEAT,   /* stride 0 along the first axis */
};

enum data {
    DATA_PLAIN,     /* floats in [-2, 2), any integers */
    DATA_EXACT,     /* integers of -3 to 3, so that sums of them are exact */
    DATA_POSITIVE,  /* floats in [0.5, 1.5): no cancellation */
    DATA_WIDE,      /* floats in [-40, 40) */
    DATA_LOGIT,     /* probabilities that add up to about 1 */
    DATA_NONFINITE, /* plain, with some NaN and infinities */
    DATA_SPECIAL,   /* the ends of the type, zeros of both signs, subnormals, ties, then plain */
    DATA_SPARSE,    /* plain, but about half are zeros, of both signs, and there are some NaN */
    DATA_ZERO,      /* zeros of both signs */
    DATA_UNREAD,    /* NaN or the largest integer: only the shape may be used */
};

struct kernel_input {
    bool present;
    uint32_t dtype;
    int rank;
    int64_t shape[REF_RANK];
    enum layout layout;
    enum data data;
};

struct kernel_case {
    char id[CASE_ID];
    const struct conform_op *op;
    const char *row;    /* name, of the plugin; NULL: no kernel of the operator runs */
    uint32_t row_flags; /* enum bp_kernel_flags */
    struct kernel_input in[CASE_PORTS];
    int n_in;
    int n_out, part; /* outputs of the call, if it is not one, and which of them is looked at */
    bool in_place; /* the output is the input that it may share */
    bool quick;    /* part of a quick run */
    enum layout out; /* of the output that is given */
    bool given;    /* of a view: the output is given, so that elements are copied */
    uint32_t host; /* BP_I32 or BP_I64: attributes that may be inputs are such tensors; 0: no */
    uint64_t seed, offset; /* of random numbers */
    /* Rows that the device must have for it, besides that of the operator. */
    struct {
        const char *op;
        uint32_t dtype;
    } needs[CASE_NEEDS];
    int64_t dims[CASE_LISTS][REF_RANK]; /* lists of attrs lie here */
    union { /* by op */
        size_t size;
        struct bp_cast_attrs cast;
        struct bp_sum_attrs sum;
        struct bp_sum_grad_attrs sum_grad;
        struct bp_matmul_attrs matmul;
        struct bp_softmax_attrs softmax;
        struct bp_softmax_grad_attrs softmax_grad;
        struct bp_scale_attrs scale;
        struct bp_reshape_attrs reshape; /* expand too */
        struct bp_transpose_attrs transpose;
        struct bp_slice_attrs slice; /* and its gradient */
        struct bp_concat_attrs concat;
        struct bp_split_attrs split;
        struct bp_uniform_attrs uniform;
        struct bp_conv_attrs conv; /* and its gradients, which have the same members */
    } attrs;
    struct kernel_case *next;
};

/* What a family is given: one row with one dtype for each type variable. */
struct case_maker {
    const struct conform_op *op;
    const char *row; /* NULL: the operator has none */
    uint32_t row_flags;
    uint32_t dtype[4];
    const void *defaults; /* of the operator's attributes; NULL: it has none */
    size_t attrs_size;
    void (*made)(void *ctx, struct kernel_case *made); /* takes it */
    void *ctx;
};

typedef void cases_fn(struct case_maker *maker);

/* An operator as the suite knows it. */
struct conform_op {
    const char *name;
    ref_fn *reference;
    cases_fn *cases;
    double ulp; /* of TOL */
    int terms;
};
const struct conform_op *conform_op(const char *name); /* NULL: unknown here */

/* A case with inputs of shapes such as "2x3+3" ("scalar" has no axes, "-" is absent), all of
 * dtype[0], plain and dense, default attributes, not yet in the list. */
struct kernel_case *case_begin(const struct case_maker *maker, const char *shapes);

/* Names it kernel/<op>/<dtypes>/<variant>/<shapes>@<row> and hands it over. */
void case_end(const struct case_maker *maker, struct kernel_case *made, const char *variant, ...)
    __attribute__((format(printf, 3, 4)));

void case_data(struct kernel_case *made, enum data data); /* of all inputs */

/* Whether the dtype of variable T is a float (or complex), an integer. */
bool case_is_float(const struct case_maker *maker);
bool case_is_complex(const struct case_maker *maker);

/* List number list of the case, of n numbers: for an attribute. n 0: none. */
struct bp_dims case_dims(struct kernel_case *made, int list, int64_t n, const int64_t *at);

/* The case needs a row of op for dtype too. */
void case_needs(struct kernel_case *made, const char *op, uint32_t dtype);

/* For a case that a family has made up to its name: the same in other layouts of each input and of
 * the output, and in place if the row may. made is handed over too, under the name variant. */
void case_layouts(const struct case_maker *maker, struct kernel_case *made, const char *variant,
                  bool share);

#endif
