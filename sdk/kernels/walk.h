/* SPDX-License-Identifier: Apache-2.0 */
/* walk.h: where the elements of operands of one shape lie, for kernels of a GPU: given by value, so
 * that no lane reads it from device memory. Hosts walk in runs of their own. */
#ifndef BP_KERNELS_WALK_H
#define BP_KERNELS_WALK_H

#include "dialect.h"

enum { BY_VALUE_RANK = 8, BY_VALUE_OPERANDS = 4 };

/* Axis 0 is the outermost; strides count elements, 0 repeats. rank 0: elements lie side by side, in
 * every operand alike. */
struct walk_by_value {
    i64 count;
    i64 shape[BY_VALUE_RANK];
    i64 stride[BY_VALUE_OPERANDS][BY_VALUE_RANK];
    i32 rank;
};

#ifndef ON_HOST
/* Elements from the first of an operand to number i in row-major order. */
KFN i64 walk_at(const struct walk_by_value *walk, int operand, i64 i)
{
    i64 at = 0;

    if (!walk->rank) return i;
    for (int axis = walk->rank - 1; axis >= 0; axis--) {
        at += i % walk->shape[axis] * walk->stride[operand][axis];
        i /= walk->shape[axis];
    }
    return at;
}
#endif

#endif
