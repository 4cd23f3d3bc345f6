/* SPDX-License-Identifier: Apache-2.0 */
/* walk.h: where the elements of operands of one shape lie, for kernels of devices: given by value,
 * so that no lane reads it from device memory. Launches fill it: walk_plan.h. */
#ifndef BP_DIALECT_WALK_H
#define BP_DIALECT_WALK_H

#include "dialect.h"

enum { BY_VALUE_RANK = 8, BY_VALUE_OPERANDS = 4 };

/* Axis 0 is the outermost; strides count elements, 0 repeats. rank 0: elements lie side by side, in
 * every operand alike. */
struct walk_by_value {
    i64 count, rank;
    i64 shape[BY_VALUE_RANK];
    i64 stride[BY_VALUE_OPERANDS][BY_VALUE_RANK];
};

/* n elements: in operand k the first lies at[k] elements after that of the operand, and the others
 * step[k] apart. */
struct walk_run {
    i64 n;
    i64 at[BY_VALUE_OPERANDS], step[BY_VALUE_OPERANDS];
};

/* Elements from number begin on, in row-major order: n of them, or as many as go on evenly. */
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

/* Whether operand k, of elements of so many bytes and with its first at this address, may be gone
 * through by n elements together, a power of two: from each multiple of n on they lie side by side,
 * at a multiple of their bytes or of 16, or are one that repeats. Fewer may be left at the end. */
KFN int walk_is_even(const struct walk_by_value *walk, int k, int bytes, u64 address, int n)
{
    u64 odd = (u64)(bytes * n < 16 ? bytes * n - 1 : 15);
    i64 last = walk->rank - 1;

    if (last > 0 && walk->shape[last] & (n - 1)) return 0; /* some would lie in two rows */
    if (last >= 0 && walk->stride[k][last] == 0) return k > 0;
    if (last >= 0 && walk->stride[k][last] != 1) return 0;
    ROLLED
    for (i64 axis = 0; axis < last; axis++) address |= (u64)(walk->stride[k][axis] * bytes);
    return !(address & odd);
}

/* Runs of `left` elements from begin on; both are variables, until there are none. */
#define FOR_RUNS(r, walk, begin, left) \
    for (struct walk_run r; left > 0 && (r = walk_from(walk, begin, left), 1); \
         begin += r.n, left -= r.n)

#endif
