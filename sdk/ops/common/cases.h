/* SPDX-License-Identifier: Apache-2.0 */
/* cases.h: declares a case of the conformance suite `kernel`, and the functions that build cases. A
 * case is an operator, its inputs and their memory layouts, its attributes, and the kernel row that
 * must run it (or no row: the operator makes views, or is defined by other operators). The cases.c
 * file of each family builds the cases; suites/kernel.c of the suite runs them.
 *
 * The suite `gradient` (suites/gradient.c) runs those cases of the same families that are marked,
 * once per operator, in f64. Each operator that has a gradient must have a marked case. One line in
 * a family is enough if the operator is smooth on the case's numbers (DATA_APART keeps the numbers
 * away from kinks at multiples of 1/2 and at equal elements):
 *
 *     `case_smooth(made, 2);`                              marks a case of the list, if it is small
 *     `case_gradient(maker, "2x3+3", DATA_POSITIVE, 2);`   adds a case of that suite only
 *
 * The order 2 tests second derivatives too; the order is 1 where a rule has no second
 * derivative. */
#ifndef BP_OPS_COMMON_CASES_H
#define BP_OPS_COMMON_CASES_H

#include "reference.h"
#include <backplane/device.h>

enum {
    CASE_PORTS = 12,
    CASE_LISTS = 4,
    CASE_ID = 192
};

/* The number of elements of an array. */
#define COUNT(list) ((int)(sizeof(list) / sizeof *(list)))

/* The layout of an input in its allocation. */
enum layout {
    LAYOUT_DENSE,    /* row-major, aligned */
    LAYOUT_OFFSET,   /* row-major, one element off the alignment */
    LAYOUT_PERMUTED, /* the first axis is the innermost */
    LAYOUT_GAPS,     /* every other element, and rows further apart */
    LAYOUT_REPEAT,   /* stride 0 along the first axis */
    LAYOUT_LAST,     /* channels-last: axis 1 is the innermost; for rank 3 and above */
    LAYOUT_ORDER,    /* for rank 4: the axes in order number `order` of the 24 */
};

enum data {
    DATA_PLAIN,     /* floats in [-2, 2); integers of any value */
    DATA_EXACT,     /* integers of -3 to 3, so that sums of them are exact */
    DATA_POSITIVE,  /* floats in [0.5, 1.5): no cancellation */
    DATA_WIDE,      /* floats in [-40, 40) */
    DATA_UNIT,      /* floats in [-1, 1) */
    DATA_LARGE,     /* floats in [-10000, 10000) */
    DATA_RANGE,     /* floats of any exponent that the type has; integers of any value */
    DATA_LOGIT,     /* probabilities that add up to about 1 */
    DATA_NONFINITE, /* as DATA_PLAIN, with some NaN and infinities */
    DATA_SPECIAL,   /* the extremes of the type, zeros of both signs, subnormals, ties, then
                       plain */
    DATA_SPARSE,    /* as DATA_PLAIN, but about half are zeros of both signs, and some are NaN */
    DATA_ZERO,      /* zeros of both signs */
    DATA_INDEX,     /* integers from low to high - 1 (case_index) */
    DATA_SHUFFLED,  /* each integer from 0 to count - 1 once, in any order */
    DATA_LIST,      /* the numbers of `list`, repeated */
    DATA_UNREAD,    /* NaN or the largest integer: the operator may use the shape only */
    DATA_APART,     /* floats in [-2, 2) away from kinks: no two of a case are within 1/200 of each
                       other, and none is within 1/200 of a multiple of 1/2; at most 40 per input */
};

struct kernel_input {
    bool present;
    uint32_t dtype;
    int rank;
    int64_t shape[REF_RANK];
    enum layout layout;
    int order; /* for LAYOUT_ORDER: 0 is row-major, 23 is the reverse */
    enum data data;
    bool frozen;       /* a constant: plans may keep a packed copy */
    int64_t low, high; /* for DATA_INDEX */
    const double *list; /* for DATA_LIST: n_list numbers, static */
    int n_list;
};

struct kernel_case {
    char id[CASE_ID];
    const struct conform_op *op;
    const char *row;    /* name, in the plugin; NULL: no kernel of the operator runs */
    uint32_t row_flags; /* enum bp_kernel_flags */
    struct kernel_input in[CASE_PORTS];
    int n_in;
    int n_out, part; /* outputs of the call, if there are several, and which of them is checked:
                        case_parts makes a case for each */
    bool in_place; /* the output is the memory of the input that it may share */
    bool quick;    /* belongs to a quick run */
    bool twice;    /* runs on two streams from two threads together, each with different numbers */
    /* For a case with `twice`: the n_twice cases of the row, the largest first. The first case that
     * the row accepts runs. The list of cases owns them. */
    const struct kernel_case **of_twice;
    int n_twice;
    bool real;     /* inputs have sizes at which rows switch to a vendor's library (case_real) */
    bool thin;     /* for a case with `real`: it consists of products of one row or column, or of a
                      depthwise convolution along one axis, which rows for special forms may
                      decline at any size (case_real_thin) */
    bool in_program; /* the row takes tensors in layouts of the plugin: runs in a program that
                        converts them */
    bool decompose;   /* runs as the decomposition of the operator, whatever kernel rows the device
                         has */
    const char *via; /* for `decompose`: the row, of an operator of the decomposition, that must
                        run */
    int64_t sweep; /* runs with each extent of the last axis of all inputs, 1 to this; 0: no */
    int64_t large; /* elements: inputs of one axis are repeated up to this number; 0: no */
    enum layout out; /* layout of the preallocated output */
    bool given;    /* for a view: the output is preallocated, so that elements are copied */
    bool may_copy; /* for a view: elements are copied if the input's layout does not allow a view */
    uint32_t host; /* BP_I32 or BP_I64: attributes that may be inputs are tensors of it; 0: no */
    uint64_t seed, offset; /* of the random numbers */
    int gradient;      /* the suite `gradient` runs it: 0 no, 1 first order, 2 second order too */
    uint32_t fixed_out; /* in the suite `gradient`: a bit for each output that the rule treats as a
                           constant, such as saved statistics */
    int64_t dims[CASE_LISTS][REF_RANK]; /* storage for the lists of attrs */
    union { /* the member named after the operator is used */
        size_t size;
#define OP(op, ins, outs, facts)
#define OPA(op, ins, outs, attrs, facts) struct bp_##op##_attrs op;
#include "../ops.def"
    } attrs;
    struct kernel_case *next;
};

/* The ways in which a row runs that are counted separately: each row that has cases of a kind must
 * run in one of them. X(NAME, number, key of the JSON report, text). */
#define ROW_FACTS(X) \
    X(REAL, 0, real, "at real size") \
    X(FROZEN, 1, frozen, "frozen") \
    X(WITHIN, 2, within, "inside decompositions") \
    X(TWICE, 3, twice, "on two streams")
enum row_fact {
#define X(NAME, number, key, text) ROW_##NAME = number,
    ROW_FACTS(X)
#undef X
    ROW_FACT_COUNT,
    ROW_MAY_DECLINE = ROW_FACT_COUNT, /* not a way of running: the row need not run such a case,
                                         since it may decline it */
};

/* A bit for each way in which the row of the case runs, if the row runs. */
uint32_t kernel_case_facts(const struct kernel_case *made);

/* The case builder's input to a family: one row with one dtype for each type variable: T U I R. */
struct case_builder {
    const struct conform_op *op;
    const char *row; /* NULL: the operator has no kernel row */
    uint32_t row_flags;
    uint32_t dtype[4];
    bool gradients;       /* for the suite `gradient`: all floats are f64, and cases that are not
                             marked are dropped */
    bool has_layouts;     /* the row takes tensors in layouts of the plugin */
    uint64_t seed;        /* for randomly drawn extents */
    const void *defaults; /* of the operator's attributes; NULL: the operator has none */
    size_t attrs_size;
    void (*made)(void *ctx, struct kernel_case *made); /* receives each finished case and owns it */
    void *ctx;
};

typedef void cases_fn(struct case_builder *builder);

/* An operator as the suite knows it: one line of the operator table. */
struct conform_op {
    const char *name;
    ref_fn *reference;
    ref_family_fn *family; /* used in place of `reference` */
    cases_fn *cases;
    double ulp; /* from TOL */
    int terms;
    bool grad, decompose, nodiff; /* the words that its operator definition has */
};
const struct conform_op *conform_op(const char *name); /* NULL: no operator of that name */

/* Returns a new case with inputs of the given shapes, such as "2x3+3" ("scalar" has no axes, "-" is
 * an absent input). All inputs are of dtype[0], DATA_PLAIN and dense; attributes have their
 * defaults. The case is not yet in the list. */
struct kernel_case *case_begin(const struct case_builder *builder, const char *shapes);

/* Marks a case for the suite `gradient` if the case is small: 1 to CASE_SMOOTH elements in all
 * inputs together, dense inputs, and no attribute that is a tensor. In that suite, kinds of numbers
 * on which no operator is smooth (special, not finite, zeros) are replaced by plain ones. order:
 * see struct kernel_case. */
void case_smooth(struct kernel_case *made, int order);
enum {
    CASE_SMOOTH = 40
};

/* Adds a case with default attributes that only the suite `gradient` runs; has no effect in other
 * suites. */
void case_gradient(const struct case_builder *builder, const char *shapes, enum data data,
                   int order);

/* Returns a copy of a case. The copy has its own lists. */
struct kernel_case *case_copy(const struct kernel_case *made);

/* Names the case kernel/<op>/<dtypes>/<variant>/<shapes>@<row>, or
 * gradient/<op>/<variant>/<shapes>, and passes it to `maker->made`, which owns it from then on. */
void case_end(const struct case_builder *builder, struct kernel_case *made, const char *variant,
              ...) __attribute__((format(printf, 3, 4)));

/* Returns an extent from least to most that depends on the run's seed, the operator and `which`: an
 * extent that the cases with fixed extents may not have. */
int64_t case_drawn(const struct case_builder *builder, int which, int64_t least, int64_t most);

/* Writes two drawn extents as a shape, up to 40 and up to 800: "17x412". Returns text. */
const char *case_drawn_shape(const struct case_builder *builder, char *text, size_t size);

/* Adds a case whose inputs all end with an axis of the same extent: the case runs with each extent
 * of that axis from 1 to CASE_EXTENTS. Only one dtype gets it: f32 if the operator has f32. */
void case_extents(const struct case_builder *builder, struct kernel_case *made,
                  const char *variant);

/* Adds a case of an elementwise operator whose inputs have one axis and equal extents: the case
 * runs with CASE_LARGE elements, more than 2^24, which repeat those of the inputs. Only one dtype
 * gets it. */
void case_large(const struct case_builder *builder, struct kernel_case *made, const char *variant);
enum {
    CASE_EXTENTS = 384,
    CASE_LARGE = 16777259 /* a prime */
};

/* Adds a case of the size that inputs of models have, at which rows switch to libraries: once
 * unchanged, and once more as "<variant>.frozen" with the inputs from number `from` on frozen, like
 * weights. For floats only. */
void case_real(const struct case_builder *builder, struct kernel_case *made, int from,
               const char *variant);

/* Adds cases for a row with layouts of the plugin: if its operator takes any shapes, images and
 * matrices whose channels and columns fill a block of 8 or 16, or end beside one, and empty
 * ones. */
void case_blocks(const struct case_builder *builder);

/* As case_real, for products of one row or column and depthwise convolutions along one axis: no row
 * is required to run them. */
void case_real_thin(const struct case_builder *builder, struct kernel_case *made, int from,
                    const char *variant);

/* As case_real, for inputs of any type. */
void case_real_of_any(const struct case_builder *builder, struct kernel_case *made, int from,
                      const char *variant);

void case_data(struct kernel_case *made, enum data data); /* sets it for all inputs */

/* Gives input number `in` this dtype, and integers from low to high - 1. */
void case_index(struct kernel_case *made, int in, uint32_t dtype, int64_t low, int64_t high);

/* Gives input number `in` these n numbers, repeated. `list` is not copied and must be static. */
void case_list(struct kernel_case *made, int in, int n, const double *list);

/* Adds a case of an operator with n outputs once for each output, as "<variant>.<name of the
 * output>". */
void case_parts(const struct case_builder *builder, struct kernel_case *made, int n,
                const char *variant);

/* Whether the operator is `op`, for a function that builds the cases of several operators. */
bool case_is(const struct case_builder *builder, const char *op);

/* The dtype in which decompositions compute: f32 for half types, otherwise dtype itself. */
uint32_t case_wide(uint32_t dtype);

/* Whether the dtype of variable T is a float (real or complex); whether it is complex. */
bool case_is_float(const struct case_builder *builder);
bool case_is_complex(const struct case_builder *builder);

/* Attributes may also refer to lists that are not the case's, and that last longer than it.
 *
 * Sets list number `list` of the case to n numbers and returns it, for an attribute. n 0: an empty
 * list. */
struct bp_dims case_dims(struct kernel_case *made, int list, int64_t n, const int64_t *at);

/* Cases with default attributes, one per line of a table. case_lines adds lines with DATA_NONFINITE
 * for floats only. */
struct case_line {
    const char *variant, *shapes;
    enum data data;
    bool quick;
};
void case_lines(const struct case_builder *builder, const struct case_line *lines, int n);

/* Adds copies of a case in which input number `in`, if it has four axes, has each of the other 23
 * orders of axes: models use more orders than the two that have names, and libraries mistake them
 * for one of those two. The caller keeps `made`. */
void case_orders(const struct case_builder *builder, const struct kernel_case *made, int in,
                 const char *variant);

/* Adds a case and its copies with other layouts of each input and of the output, and in place if
 * the row allows that; if the first input has four axes, also in all orders of the axes. `made`
 * must be complete except for its name; it is added too, under the name `variant`. */
void case_layouts(const struct case_builder *builder, struct kernel_case *made, const char *variant,
                  bool share);

/* As case_layouts, for each of n outputs, as "<variant>.<name of the output>". */
void case_part_layouts(const struct case_builder *builder, struct kernel_case *made, int n,
                       const char *variant);

#endif
