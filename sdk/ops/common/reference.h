/* SPDX-License-Identifier: Apache-2.0 */
/* reference.h: what each operator means, computed slowly, exactly where that is possible, and
 * apart from core, plugins and kernels. A reference finds the shape of its result too.
 *
 * Integers are exact, modulo 2 to the width. Floats are computed in long double (64 digits or
 * more), and each result comes with a bound of what a sound computation may miss it by:
 * docs/accuracy.md. */
#ifndef BP_OPS_COMMON_REFERENCE_H
#define BP_OPS_COMMON_REFERENCE_H

#include "reference_number.h"
#include <backplane/attrs.h>

enum {
    REF_RANK = 8,
    REF_OUTPUTS = 8, /* of one call, at most */
};

/* Dense, row-major. Integers and bools are in u, floats in v: parts of them an element. */
struct ref_array {
    const struct num_type *type;
    int rank;
    int64_t shape[REF_RANK];
    int64_t count;
    uint64_t *u;
    long double *v;

    /* Of results that are floats, for each number of v, in units of the unit roundoff of the
     * type in which sums are made: the error of a computation besides that of its last
     * roundings. */
    long double *bound;
    bool exact; /* v has not been rounded, so that a tie is a tie */
    bool flush; /* results below the smallest normal number of the computing type may be 0 */
};

/* Makes an array of zeros. Memory that is missing ends the process. */
void ref_array_init(struct ref_array *array, uint32_t dtype, int rank, const int64_t *shape);
void ref_array_finish(struct ref_array *array);

/* Elements from and to memory in the array's dtype, dense. */
void ref_array_decode(struct ref_array *array, const void *data);
void ref_array_encode(const struct ref_array *array, void *data);

/* The next coordinates in row-major order; false after the last, when they are zero again. */
bool ref_next(int rank, const int64_t *shape, int64_t *at);

/* The index in array of the element at coordinates of rank axes, to which array broadcasts. */
int64_t ref_index(const struct ref_array *array, int rank, const int64_t *at);

/* Element to of out becomes element from of in, of the same dtype. */
void ref_array_copy(struct ref_array *out, int64_t to, const struct ref_array *in, int64_t from);

/* Attribute number i, from 1, of a struct whose attributes are all F64, rounded to the type in
 * which type is computed; 0 if there is none. */
long double ref_number(const struct num_type *type, const void *attrs, size_t i);

/* The shape to which a and b broadcast; result: its rank. */
int ref_broadcast(const struct ref_array *a, const struct ref_array *b, int64_t *shape);

/* An axis that may count from the last. */
static inline int ref_axis(int64_t axis, int rank)
{
    return (int)(axis < 0 ? axis + rank : axis);
}

/* A shape seen as outer x n x inner around an axis. */
struct ref_around {
    int64_t outer, n, inner;
};
static inline struct ref_around ref_around(const struct ref_array *x, int64_t axis)
{
    int at = ref_axis(axis, x->rank);
    struct ref_around a = {1, x->shape[at], 1};

    for (int i = 0; i < x->rank; i++)
        if (i < at) a.outer *= x->shape[i];
        else if (i > at) a.inner *= x->shape[i];
    return a;
}

/* By how many unit roundoffs a sum may be off, relative to the sum of the magnitudes of its
 * terms, if each term passes through at most n roundings. 0 below 1. The last rounding of a
 * result is not counted: it is in the ulp of the operator's row. */
long double ref_growth(int64_t n);

/* Sums of whole numbers, whose magnitudes in out->bound are no larger than the type of sums holds
 * exactly, are exact in any order: of these the bound becomes 0, of the others it is times growth.
 */
void ref_bound_whole(struct ref_array *out, bool whole, long double growth);

/* out: made by the reference, one for each output of the operator, and for each tensor of an output
 * of any number. in: absent ones have type NULL, those of a variadic port end with one that is;
 * inputs that give an attribute have no place. Where an operator draws random numbers, in[0] is two
 * u64: seed and offset, and its inputs come after that. */
typedef void ref_fn(const struct ref_array *in, const void *attrs, struct ref_array *out);

/* The same for operators that differ by a formula, by name. */
typedef void ref_family_fn(const char *op, const struct ref_array *in, const void *attrs,
                           struct ref_array *out);

/* ref_add, ref_cast, ...: a row without one does not link, unless its family has one (REF). */
#define OP(op, ins, outs, facts) ref_fn ref_##op facts;
#define OPA(op, ins, outs, attrs, facts) ref_fn ref_##op facts;
#define REF(family) __attribute__((weak))
#include "../ops.def"

#define OP(op, ins, outs, facts) facts
#define OPA(op, ins, outs, attrs, facts) facts
#define REF(family) ref_family_fn ref_family_##family;
#include "../ops.def"

#endif
