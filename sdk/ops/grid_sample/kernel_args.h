/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_args.h: numbers of the kernels of kernel.h, which launches work out. */
#ifndef BP_KERNELS_SAMPLE_ARGS_H
#define BP_KERNELS_SAMPLE_ARGS_H

#include "../../dialect/dialect.h"

enum { SAMPLE_TILE = 64 };
enum { SAMPLE_LINEAR, SAMPLE_NEAREST, SAMPLE_CUBIC };
enum { SAMPLE_ZEROS, SAMPLE_BORDER, SAMPLE_REFLECTION };

/* Three spatial axes; images of two have a first one of extent 1. first: the first that there is.
 * Strides: x and y of N C and the spatial axes, grid of N, the spatial axes and the coordinates. */
struct sample_args {
    i64 first, mode, padding, align, channels, points;
    i64 in[3], out[3], x[5], y[5], grid[5];
};
#define grid_sample_args sample_args
#define grid_to_input_args sample_args
#define grid_to_grid_args sample_args

struct sample_fill_args {
    i64 unused;
};
#define sample_finish_args sample_fill_args

/* axes coordinates of places of three extents, the first of which may be 1. */
struct affine_args {
    i64 axes, align, points, extent[3];
};
#define affine_grid_args affine_args
#define affine_grid_grad_args affine_args

#endif
