/* SPDX-License-Identifier: Apache-2.0 */
/* reference.h: declares the reference of each operator: a slow computation that defines the correct
 * result, exact where possible, and independent of core, plugins and kernels. A reference also
 * computes the shape of its result.
 *
 * Integers are exact, modulo 2 to the width. Floats are computed in long double (64 digits or
 * more), and each result has a bound on the error of a correct computation: docs/accuracy.md. */
#ifndef BP_OPS_COMMON_REFERENCE_H
#define BP_OPS_COMMON_REFERENCE_H

#include "reference_number.h"
#include <backplane/attrs.h>

enum {
    REF_RANK = 8,
    REF_OUTPUTS = 8, /* maximum of one call */
};

/* A dense, row-major array. Integers and bools are in u, floats in v: type->parts numbers per
 * element. */
struct ref_array {
    const struct num_type *type;
    int rank;
    int64_t shape[REF_RANK];
    int64_t count;
    uint64_t *u;
    long double *v;

    /* For results that are floats, one bound for each number of v, in units of the unit roundoff of
     * the type in which sums are computed: the error of a computation without the error of its last
     * rounding. */
    long double *bound;
    bool exact; /* v has not been rounded, so that a tie is exactly a tie */
    bool flush; /* results below the smallest normal number of the computing type may be 0 */
};

/* Makes an array of zeros. The process ends if memory runs out. */
void ref_array_init(struct ref_array *array, uint32_t dtype, int rank, const int64_t *shape);
void ref_array_finish(struct ref_array *array);

/* Reads the elements from, or writes them to, dense memory in the array's dtype. */
void ref_array_decode(struct ref_array *array, const void *data);
void ref_array_encode(const struct ref_array *array, void *data);

/* Moves `at` to the next coordinates in row-major order; returns false after the last ones, when
 * `at` is zero again. */
bool ref_next(int rank, const int64_t *shape, int64_t *at);

/* Returns the index in array of the element at coordinates of rank axes, to which array
 * broadcasts. */
int64_t ref_index(const struct ref_array *array, int rank, const int64_t *at);

/* Copies element `from` of in to element `to` of out; both are of one dtype. */
void ref_array_copy(struct ref_array *out, int64_t to, const struct ref_array *in, int64_t from);

/* Returns attribute number i, from 1, of a struct whose attributes are all F64, rounded to the type
 * in which `type` is computed; 0 if there is no such attribute. */
long double ref_number(const struct num_type *type, const void *attrs, size_t i);

/* Computes the shape to which a and b broadcast; returns its rank. */
int ref_broadcast(const struct ref_array *a, const struct ref_array *b, int64_t *shape);

/* Returns an axis from 0 on; a negative one counts from the last axis. */
static inline int ref_axis(int64_t axis, int rank)
{
    return (int)(axis < 0 ? axis + rank : axis);
}

/* A shape viewed as outer x n x inner around an axis. */
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

/* Returns by how many unit roundoffs a sum may be off, relative to the sum of the magnitudes of its
 * terms, if each term passes through at most n roundings. 0 if n is below 1. The last rounding of a
 * result is not counted: the ulp of the operator definition covers it. */
long double ref_growth(int64_t n);

/* Turns out->bound, the sums of magnitudes, into error bounds. Sums of whole numbers are exact in
 * any order if the type of sums holds their magnitudes exactly: their bound becomes 0. Other bounds
 * are multiplied by growth. */
void ref_bound_whole(struct ref_array *out, bool whole, long double growth);

/* Computes one operator. out: the reference initializes one array for each output of the operator,
 * and for each tensor of an output of any number. in: an absent input has type NULL, and so has the
 * end of the inputs of a variadic port; inputs that give an attribute are left out. Where an
 * operator draws random numbers, in[0] is two u64, seed and offset, and the operator's inputs
 * follow. */
typedef void ref_fn(const struct ref_array *in, const void *attrs, struct ref_array *out);

/* Computes one of several operators that differ by a formula, chosen by name. */
typedef void ref_family_fn(const char *op, const struct ref_array *in, const void *attrs,
                           struct ref_array *out);

/* ref_add, ref_cast, ...: an operator without a reference does not link, unless it has a family
 * (REF). */
#define OP(op, ins, outs, facts) ref_fn ref_##op facts;
#define OPA(op, ins, outs, attrs, facts) ref_fn ref_##op facts;
#define REF(family) __attribute__((weak))
#include "../ops.def"

#define OP(op, ins, outs, facts) facts
#define OPA(op, ins, outs, attrs, facts) facts
#define REF(family) ref_family_fn ref_family_##family;
#include "../ops.def"

#endif
