/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_window.h: the arguments of the pooling kernels, and the positions of an axis that a window
 * covers. */
#ifndef BP_OPS_POOL_KERNEL_WINDOW_H
#define BP_OPS_POOL_KERNEL_WINDOW_H

#include "../../dialect/dialect.h"

enum { POOL_AXES = 5, POOL_TILE = 64 };

/* A spatial axis: extents of image x and of result y, and the window. limit: the window counts
 * positions below it if padding counts. x, y, index: strides. number: step in the values of an
 * index. */
struct pool_axis {
    i64 in, out, window, stride, dilation, before, limit;
    i64 x, y, index, number;
};

/* An axis of the output (the pool's result, or the gradient of x), from the outermost in memory to
 * the innermost. spatial: number of the spatial axis, or -1. */
struct pool_place {
    i64 extent, spatial, x, y, index, number;
};

/* run: number of the spatial axis that is innermost in the output, or -1: the elements of a tile
 * then share one window. Along the run, windows move by one stride; `tile` elements are computed
 * together. */
struct pool_args {
    i64 rank, run, tile, adaptive, include_pad, whole, wide;
    host_real divisor; /* 0: the number of elements */
    struct pool_place place[POOL_AXES];
    struct pool_axis axis[3];
};

/* A range of integers from begin to end - 1. */
struct pool_range {
    i64 begin, end;
};

KFN i64 pool_up(i64 a, i64 b)
{
    return a > 0 ? (a + b - 1) / b : -(-a / b);
}

/* Floor of o in / out and ceiling of (o + 1) in / out: begin and end of an adaptive window. */
KFN struct pool_range pool_part(i64 o, i64 in, i64 out)
{
    struct pool_range r;

    r.begin = o * in / out;
    r.end = ((o + 1) * in + out - 1) / out;
    return r;
}

/* The positions of the window at o that are inside x: indices in the window or, for adaptive
 * windows, positions of x. Along the run: the indices at which any of the windows o to o + w - 1 is
 * inside x. A window may be far larger than x, with the rest in padding. */
KFN struct pool_range pool_taps(const struct pool_args *a, i64 s, i64 o, i64 w)
{
    struct pool_axis x = a->axis[s];
    i64 start = o * x.stride - x.before, last = start + (s == a->run ? (w - 1) * x.stride : 0);
    struct pool_range r;

    if (a->adaptive) return pool_part(o, x.in, x.out);
    r.begin = 0;
    r.end = x.window;
    if (last < 0) r.begin = pool_up(-last, x.dilation);
    if (start + (x.window - 1) * x.dilation >= x.in) r.end = pool_up(x.in - start, x.dilation);
    return r;
}

/* The position in x of index t of the window at o. */
KFN i64 pool_at(const struct pool_args *a, i64 s, i64 o, i64 t)
{
    struct pool_axis x = a->axis[s];

    return a->adaptive ? t : o * x.stride - x.before + t * x.dilation;
}

/* The number of positions along axis s that the window at o counts. */
KFN i64 pool_count(const struct pool_args *a, i64 s, i64 o)
{
    struct pool_axis x = a->axis[s];
    i64 start = o * x.stride - x.before, begin = 0, end = x.window, limit = x.in;
    struct pool_range r;

    if (a->whole) return x.window;
    if (a->adaptive) {
        r = pool_part(o, x.in, x.out);
        return r.end - r.begin;
    }
    if (a->include_pad) limit = x.limit;
    else if (start < 0) begin = pool_up(-start, x.dilation);
    if (start + (x.window - 1) * x.dilation >= limit) end = pool_up(limit - start, x.dilation);
    return end - begin;
}

#endif
