/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_args.h: numbers of the kernels of kernel.h, which launches work out. */
#ifndef BP_KERNELS_POOL_ARGS_H
#define BP_KERNELS_POOL_ARGS_H

#include "../../dialect/dialect.h"

enum { POOL_AXES = 5, POOL_TILE = 64 };

/* A spatial axis: extents of the image x and of the result y, the window; limit: windows count
 * places before it, if those of pad count. x, y, index: strides. number: what a step counts in an
 * index. */
struct pool_axis {
    i64 in, out, window, stride, dilation, before, limit;
    i64 x, y, index, number;
};

/* An axis of what is made (the result, or the gradient of x), from the outermost in memory to the
 * innermost. spatial: which spatial axis it is, or -1. */
struct pool_place {
    i64 extent, spatial, x, y, index, number;
};

/* run: which spatial axis the innermost one is, along which windows move by one step: elements in
 * tiles of `tile` are made together; -1: they have one window. */
struct pool_args {
    i64 rank, run, tile, adaptive, include_pad, whole, wide;
    host_real divisor; /* 0: the count */
    struct pool_place place[POOL_AXES];
    struct pool_axis axis[3];
};
#define max_pool_args pool_args
#define max_pool_index_args pool_args
#define avg_pool_args pool_args
#define max_pool_grad_args pool_args
#define avg_pool_grad_args pool_args

#endif
