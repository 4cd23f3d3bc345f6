/* SPDX-License-Identifier: Apache-2.0 */
/* cases.h: one case of the suite `kernel`: an operator, its inputs and how they lie in
 * memory, its attributes, the row that must run it (or none: the operator makes views, or is
 * defined in others). The cases.c of families make them, suites/kernel.c of the suite runs them.
 *
 * The suite `gradient` (suites/gradient.c) runs cases of the same families once an operator, in
 * f64, those that are marked. Each operator that has a gradient must have one. One line in a family
 * does it, where the operator is smooth on the case's numbers (where it bends at multiples of 1/2,
 * or at equal elements, DATA_APART keeps them away):
 *
 *     case_smooth(made, 2);                              marks a case of the list, if it is small
 *     case_gradient(maker, "2x3+3", DATA_POSITIVE, 2);   a case of that suite alone
 *
 * 2: second order too; 1 where a rule has none. */
#ifndef BP_OPS_COMMON_CASES_H
#define BP_OPS_COMMON_CASES_H

#include "reference.h"
#include <backplane/device.h>

enum {
    CASE_PORTS = 12,
    CASE_LISTS = 4,
    CASE_ID = 192
};

/* Of an array. */
#define COUNT(list) ((int)(sizeof(list) / sizeof *(list)))

/* How an input lies in its allocation. */
enum layout {
    LAYOUT_DENSE,    /* row-major, aligned */
    LAYOUT_OFFSET,   /* row-major, one element off the alignment */
    LAYOUT_PERMUTED, /* the first axis is the innermost */
    LAYOUT_GAPS,     /* every other element, and rows further apart */
    LAYOUT_REPEAT,   /* stride 0 along the first axis */
    LAYOUT_LAST,     /* channels-last: axis 1 is the innermost; of rank 3 and more */
    LAYOUT_ORDER,    /* of rank 4: the axes in order number `order` of the 24 */
};

enum data {
    DATA_PLAIN,     /* floats in [-2, 2), any integers */
    DATA_EXACT,     /* integers of -3 to 3, so that sums of them are exact */
    DATA_POSITIVE,  /* floats in [0.5, 1.5): no cancellation */
    DATA_WIDE,      /* floats in [-40, 40) */
    DATA_UNIT,      /* floats in [-1, 1) */
    DATA_LARGE,     /* floats in [-10000, 10000) */
    DATA_RANGE,     /* floats of any exponent that the type has, any integers */
    DATA_LOGIT,     /* probabilities that add up to about 1 */
    DATA_NONFINITE, /* plain, with some NaN and infinities */
    DATA_SPECIAL,   /* the ends of the type, zeros of both signs, subnormals, ties, then plain */
    DATA_SPARSE,    /* plain, but about half are zeros, of both signs, and there are some NaN */
    DATA_ZERO,      /* zeros of both signs */
    DATA_INDEX,     /* integers from low to high - 1 (case_index) */
    DATA_SHUFFLED,  /* 0 to count - 1, each once, in any order */
    DATA_LIST,      /* the numbers of list, again and again */
    DATA_UNREAD,    /* NaN or the largest integer: only the shape may be used */
    DATA_APART,     /* floats in [-2, 2) with no kink near: no two of a case are within 1/200, none
                       is that near a multiple of 1/2; up to 40 an input */
};

struct kernel_input {
    bool present;
    uint32_t dtype;
    int rank;
    int64_t shape[REF_RANK];
    enum layout layout;
    int order; /* of LAYOUT_ORDER: 0 is row-major, 23 the reverse */
    enum data data;
    bool frozen;       /* a constant: plans may keep it in a form of their own */
    int64_t low, high; /* of DATA_INDEX */
    const double *list; /* n_list of DATA_LIST, static */
    int n_list;
};

struct kernel_case {
    char id[CASE_ID];
    const struct conform_op *op;
    const char *row;    /* name, of the plugin; NULL: no kernel of the operator runs */
    uint32_t row_flags; /* enum bp_kernel_flags */
    struct kernel_input in[CASE_PORTS];
    int n_in;
    int n_out, part; /* outputs of the call, if it is not one, and which of them is looked at:
                        case_parts makes a case for each */
    bool in_place; /* the output is the input that it may share */
    bool quick;    /* part of a quick run */
    bool twice;    /* runs on two streams from two threads at once, each with its own numbers */
    /* Of such a case: the row's cases, n_twice of them, the largest first: the first that the row
       takes runs. They are the list's. */
    const struct kernel_case **of_twice;
    int n_twice;
    bool real;     /* inputs have sizes at which rows go over to libraries (case_real) */
    bool thin;     /* of one that is real: it is made of products of one row or column, which rows
                      of libraries may decline at any size (case_real_thin) */
    bool decompose;   /* runs as the operators that it is defined in, whatever rows the device
                         has */
    const char *via; /* of such a case: the row, of one of these operators, that is to run there */
    int64_t sweep; /* runs with each extent of the last axis of all inputs, from 1 to this; 0: no */
    int64_t large; /* elements: its inputs, of one axis, are repeated to as many; 0: they are not */
    enum layout out; /* of the output that is given */
    bool given;    /* of a view: the output is given, so that elements are copied */
    bool may_copy; /* of a view: how the input lies may not allow it, so that elements are copied */
    uint32_t host; /* BP_I32 or BP_I64: attributes that may be inputs are such tensors; 0: no */
    uint64_t seed, offset; /* of random numbers */
    int gradient;      /* the suite `gradient` runs it: 0 no, 1 first order, 2 second order too */
    uint32_t fixed_out; /* there: bit of each output that the rule takes as a constant, such as
                           statistics that are saved */
    int64_t dims[CASE_LISTS][REF_RANK]; /* lists of attrs lie here */
    union { /* by op */
        size_t size;
#define OP(op, ins, outs, facts)
#define OPA(op, ins, outs, attrs, facts) struct bp_##op##_attrs op;
#include "../ops.def"
    } attrs;
    struct kernel_case *next;
};

/* How a row runs, besides at all: each row that has cases of a kind must run in one of them.
 * X(NAME, number, key of the JSON report, text). */
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
    ROW_MAY_DECLINE = ROW_FACT_COUNT, /* no way, but: the row may decline what there is of this */
};

/* Bit of each way in which the row of the case runs, if it runs. */
uint32_t kernel_case_facts(const struct kernel_case *made);

/* What a family is given: one row with one dtype for each type variable: T U I R. */
struct case_maker {
    const struct conform_op *op;
    const char *row; /* NULL: the operator has none */
    uint32_t row_flags;
    uint32_t dtype[4];
    bool gradients;       /* for the suite `gradient`: all floats are f64, and what is not marked
                             is dropped */
    uint64_t seed;        /* of extents that are drawn */
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
    ref_family_fn *family; /* in its place */
    cases_fn *cases;
    double ulp; /* of TOL */
    int terms;
    bool grad, decompose, nodiff; /* the words that its row has */
};
const struct conform_op *conform_op(const char *name); /* NULL: unknown here */

/* A case with inputs of shapes such as "2x3+3" ("scalar" has no axes, "-" is absent), all of
 * dtype[0], plain and dense, default attributes, not yet in the list. */
struct kernel_case *case_begin(const struct case_maker *maker, const char *shapes);

/* Marks it for the suite `gradient` if it is small: 1 to CASE_SMOOTH elements in all inputs, which
 * are dense, attributes that are no tensors. There, numbers of kinds that no operator is smooth on
 * (special, not finite, zeros) are plain ones. order: of struct kernel_case. */
void case_smooth(struct kernel_case *made, int order);
enum {
    CASE_SMOOTH = 40
};

/* A case with default attributes that only the suite `gradient` runs; nothing for other suites. */
void case_gradient(const struct case_maker *maker, const char *shapes, enum data data, int order);

/* The same case once more, with lists of its own. */
struct kernel_case *case_copy(const struct kernel_case *made);

/* Names it kernel/<op>/<dtypes>/<variant>/<shapes>@<row>, or gradient/<op>/<variant>/<shapes>, and
 * hands it over. */
void case_end(const struct case_maker *maker, struct kernel_case *made, const char *variant, ...)
    __attribute__((format(printf, 3, 4)));

/* An extent from least to most that depends on the run's seed, the operator and which: one that the
 * cases with fixed extents may not have. */
int64_t case_drawn(const struct case_maker *maker, int which, int64_t least, int64_t most);

/* Two such extents as a shape, up to 40 and up to 800: "17x412". Answers text. */
const char *case_drawn_shape(const struct case_maker *maker, char *text, size_t size);

/* Hands over a case whose inputs end with one axis of the same extent: it runs with each extent of
 * that axis from 1 to CASE_EXTENTS. For one dtype, f32 where the operator has it. */
void case_extents(const struct case_maker *maker, struct kernel_case *made, const char *variant);

/* Hands over a case of inputs of one axis and of equal extents, an elementwise operator's: it runs
 * with as many elements as lie past 2^24, which repeat those of the inputs. For one dtype. */
void case_large(const struct case_maker *maker, struct kernel_case *made, const char *variant);
enum {
    CASE_EXTENTS = 384,
    CASE_LARGE = 16777259 /* a prime */
};

/* For a case of the size that inputs of models have, at which rows go over to libraries: hands it
 * over as it is, and once more as "<variant>.frozen" with inputs from `from` on frozen, as weights
 * are. Of floats only. */
void case_real(const struct case_maker *maker, struct kernel_case *made, int from,
               const char *variant);

/* The same of products of one row or column: no row is asked to take part in them. */
void case_real_thin(const struct case_maker *maker, struct kernel_case *made, int from,
                    const char *variant);

/* The same for inputs of any type. */
void case_real_of_any(const struct case_maker *maker, struct kernel_case *made, int from,
                      const char *variant);

void case_data(struct kernel_case *made, enum data data); /* of all inputs */

/* Input number in is of dtype, with integers from low to high - 1. */
void case_index(struct kernel_case *made, int in, uint32_t dtype, int64_t low, int64_t high);

/* Input number in has these numbers, over and over; list stays where it is. */
void case_list(struct kernel_case *made, int in, int n, const double *list);

/* Hands over a case of an operator with n outputs once for each, as "<variant>.<its name>". */
void case_parts(const struct case_maker *maker, struct kernel_case *made, int n,
                const char *variant);

/* Whether the operator is this one of a family. */
bool case_is(const struct case_maker *maker, const char *op);

/* The dtype in which what is made of several operators computes: f32 for half types. */
uint32_t case_wide(uint32_t dtype);

/* Whether the dtype of variable T is a float (or complex), an integer. */
bool case_is_float(const struct case_maker *maker);
bool case_is_complex(const struct case_maker *maker);

/* List number list of the case, of n numbers: for an attribute. n 0: none. */
struct bp_dims case_dims(struct kernel_case *made, int list, int64_t n, const int64_t *at);

/* Cases with default attributes, one a line; those with NaN where they are floats. */
struct case_line {
    const char *variant, *shapes;
    enum data data;
    bool quick;
};
void case_lines(const struct case_maker *maker, const struct case_line *lines, int n);

/* Hands over copies with input number in, where it has four axes, in each of the other 23 orders of
 * them: models bring others than the two that have names, and libraries take them for one of those.
 * made stays with the caller. */
void case_orders(const struct case_maker *maker, const struct kernel_case *made, int in,
                 const char *variant);

/* For a case that a family has made up to its name: the same in other layouts of each input and of
 * the output, and in place if the row may; if the first input has four axes, in all orders of
 * them. made is handed over too, under the name variant. */
void case_layouts(const struct case_maker *maker, struct kernel_case *made, const char *variant,
                  bool share);

/* The same for each of n outputs, as "<variant>.<its name>". */
void case_part_layouts(const struct case_maker *maker, struct kernel_case *made, int n,
                       const char *variant);

#endif
