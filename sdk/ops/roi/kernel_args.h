/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_args.h: numbers of the kernels of kernel.h, which launches work out. */
#ifndef BP_KERNELS_BOXES_ARGS_H
#define BP_KERNELS_BOXES_ARGS_H

#include "../../dialect/dialect.h"

/* Regions of images [n, channels, in 0, in 1], cut into out 0 by out 1 bins, each sampled at
 * `sampling` by `sampling` places (0: as many as its extent, rounded up). */
struct roi_args {
    i64 n, channels, regions, in[2], out[2], sampling, max, whole, wide;
    host_real scale;
};
#define roi_align_args roi_args
#define roi_align_back_args roi_args

/* Without sampling, max and whole. */
#define roi_pool_args roi_args
#define roi_pool_back_args roi_args

struct roi_fill_args {
    i64 unused;
};
#define roi_finish_args roi_fill_args

#endif
