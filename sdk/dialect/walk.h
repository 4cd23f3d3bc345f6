/* SPDX-License-Identifier: Apache-2.0 */
/* walk.h: describes at which offsets the elements of operands of one shape lie, for device kernels.
 * The description is passed by value, so that no lane reads it from device memory. Launch functions
 * fill it: walk_plan.h. */
#ifndef BP_DIALECT_WALK_H
#define BP_DIALECT_WALK_H

#include "dialect.h"

enum { BY_VALUE_RANK = 8, BY_VALUE_OPERANDS = 4 };

/* A walk. Axis 0 is the outermost; strides count elements, and stride 0 repeats an element. rank 0:
 * the elements are adjacent, in every operand in the same order. */
struct walk_by_value {
    i64 count, rank;
    i64 shape[BY_VALUE_RANK];
    i64 stride[BY_VALUE_OPERANDS][BY_VALUE_RANK];
};

/* A run of n elements: in operand k the first one lies at[k] elements after the operand's first
 * element, and consecutive ones are step[k] elements apart. */
struct walk_run {
    i64 n;
    i64 at[BY_VALUE_OPERANDS], step[BY_VALUE_OPERANDS];
};

/* Returns the run that begins at element number begin in row-major order: n elements, or as many as
 * have constant steps. */
KFN struct walk_run walk_from(const struct walk_by_value *walk, i64 begin, i64 n)
{
    struct walk_run r = {n, {begin, begin, begin, begin}, {1, 1, 1, 1}};
    i64 last = walk->rank - 1;

    if (last < 0) return r;
    for (int k = 0; k < BY_VALUE_OPERANDS; k++) {
        r.at[k] = 0;
        r.step[k] = walk->stride[k][last];
    }
    for (i64 axis = last, rest = begin; axis >= 0; axis--) {
        i64 extent = walk->shape[axis], above = 0, index;
        if (axis) /* 64-bit divisions cost a GPU several times as much */
            above = walk->count >> 31 ? rest / extent : (i64)((u32)rest / (u32)extent);
        index = rest - above * extent;
        rest = above;
        if (axis == last && extent - index < n) r.n = extent - index;
        for (int k = 0; k < BY_VALUE_OPERANDS; k++) r.at[k] += index * walk->stride[k][axis];
    }
    return r;
}

/* Returns whether a lane may access operand k, with elements of so many bytes and its first element
 * at this address, n elements at a time, n a power of two: from each multiple of n on, the n
 * elements must be adjacent and begin at a multiple of their total size or of 16 bytes, or be one
 * repeated element. Fewer elements may remain at the end. */
KFN int walk_is_even(const struct walk_by_value *walk, int k, int bytes, u64 address, int n)
{
    u64 odd = (u64)(bytes * n < 16 ? bytes * n - 1 : 15);
    i64 last = walk->rank - 1;

    if (last > 0 && walk->shape[last] & (n - 1)) return 0; /* some runs would lie in two rows */
    if (last >= 0 && walk->stride[k][last] == 0) return k > 0;
    if (last >= 0 && walk->stride[k][last] != 1) return 0;
    ROLLED
    for (i64 axis = 0; axis < last; axis++) address |= (u64)(walk->stride[k][axis] * bytes);
    return !(address & odd);
}

/* Loops over the runs of `left` elements from begin on; both are variables that the loop updates
 * until no elements are left. */
#define FOR_RUNS(r, walk, begin, left) \
    for (struct walk_run r; left > 0 && (r = walk_from(walk, begin, left), 1); \
         begin += r.n, left -= r.n)

#endif
