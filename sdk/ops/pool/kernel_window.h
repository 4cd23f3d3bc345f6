/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_window.h: numbers of the kernels of kernel.h, and which places of an axis the
 * window of a pool has. */
#ifndef BP_OPS_POOL_KERNEL_WINDOW_H
#define BP_OPS_POOL_KERNEL_WINDOW_H

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

/* A range of whole numbers, of which end is not one. */
struct pool_range {
    i64 begin, end;
};

KFN i64 pool_up(i64 a, i64 b)
{
    return a > 0 ? (a + b - 1) / b : -(-a / b);
}

/* Floor and ceiling of o in / out: where adaptive windows begin and end. */
KFN struct pool_range pool_part(i64 o, i64 in, i64 out)
{
    struct pool_range r;

    r.begin = o * in / out;
    r.end = ((o + 1) * in + out - 1) / out;
    return r;
}

/* Places of the window at o that lie on x: numbers in the window, or places of x where windows are
 * adaptive. Along the run: those at which any of the windows at o to o + w - 1 lies on x. A window
 * may be far larger than x, where padding is. */
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

/* The place in x of number t. */
KFN i64 pool_at(const struct pool_args *a, i64 s, i64 o, i64 t)
{
    struct pool_axis x = a->axis[s];

    return a->adaptive ? t : o * x.stride - x.before + t * x.dilation;
}

/* How many places of axis s the window at o counts. */
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
