/* SPDX-License-Identifier: Apache-2.0 */
/* walk.h: where the elements of operands of one shape lie, for kernels of devices: given by value,
 * so that no lane reads it from device memory. Launches fill it: walk_plan.h. */
#ifndef BP_KERNELS_WALK_H
#define BP_KERNELS_WALK_H

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

/* Runs of elements begin to begin + n - 1, which are variables of the span, until it has none. */
#define FOR_RUNS(r, walk, begin, n) \
    for (struct walk_run r; n > 0 && (r = walk_from(walk, begin, n), 1); begin += r.n, n -= r.n)

#endif
