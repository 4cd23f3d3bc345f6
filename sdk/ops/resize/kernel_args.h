/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_args.h: numbers of the kernels of kernel.h, which launches work out. */
#ifndef BP_KERNELS_RESIZE_ARGS_H
#define BP_KERNELS_RESIZE_ARGS_H

#include "../../dialect/dialect.h"

enum { RESIZE_AXES = 8, RESIZE_TILE = 64, RESIZE_TAPS = 4 };
enum { RESIZE_NEAREST, RESIZE_LINEAR, RESIZE_CUBIC };

/* Place j of the result is at (j + ahead) num / den + shift of x. shrink: what distances are
 * multiplied with before they are weighed; a place weighs on those less than reach away. crop:
 * outside of x the result is `outside`. sum: weights are divided by their sum.
 *
 * Axes of what is made lie in the order of memory, the innermost last; number `axis` is the one
 * that changes, with strides 0 in what is read, where neighbours are `step` apart. */
struct resize_args {
    i64 mode, nearest, in, out, crop, exclude, sum;
    host_real ahead, num, den, shift, shrink, reach, cubic, outside;
    i64 rank, axis, step;
    i64 shape[RESIZE_AXES], made[RESIZE_AXES], read[RESIZE_AXES];
};
#define resize_copy_args resize_args
#define resize_weigh_args resize_args
#define resize_back_args resize_args

#endif
