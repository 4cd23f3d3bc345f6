/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_args.h: numbers of the kernels of kernel.h, which launches work out. */
#ifndef BP_KERNELS_REARRANGE_ARGS_H
#define BP_KERNELS_REARRANGE_ARGS_H

#include "../../dialect/dialect.h"

enum { MOVE_AXES = 16, BORDER_AXES = 8 };

/* A tensor of this shape, axis 0 the outermost: the element at coordinates c lies y_first + the sum
 * of c y_stride elements into the result, and x_first + the sum of c x_stride into the input.
 * Strides may be negative. rank is 1 or more. */
struct move_strided_args {
    i64 rank, y_first, x_first;
    i64 shape[MOVE_AXES], y_stride[MOVE_AXES], x_stride[MOVE_AXES];
};

/* The same with one value: its bits, for elements of 16 bytes in two halves. */
struct move_fill_args {
    u64 low, high;
    i64 rank, y_first;
    i64 shape[BORDER_AXES], y_stride[BORDER_AXES];
};

/* y of this shape from x of these extents, whose first element is y's number before along each
 * axis; mode: of the operator pad. */
struct move_border_args {
    u64 low, high;
    i64 rank, mode;
    i64 shape[BORDER_AXES], y_stride[BORDER_AXES];
    i64 extent[BORDER_AXES], before[BORDER_AXES], x_stride[BORDER_AXES];
};

/* Matrices one after the other. The element at i, j stays where j - i <= diagonal, or with upper
 * where it is >= diagonal. */
struct move_triangle_args {
    i64 rows, columns, diagonal, upper;
};

#endif
