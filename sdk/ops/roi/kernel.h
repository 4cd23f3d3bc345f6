/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h: pools regions of images (regions of interest) that are divided into bins: roi_align,
 * roi_pool, psroi_pool and their gradients. */
#ifndef BP_OPS_ROI_KERNEL_H
#define BP_OPS_ROI_KERNEL_H

#include "../../dialect/dialect.h"

/* Regions of images [n, channels, in 0, in 1], divided into out 0 by out 1 bins. Each bin is
 * sampled at `sampling` by `sampling` points (0: the bin's extent, rounded up). */
struct roi_args {
    i64 n, channels, regions, in[2], out[2], sampling, max, whole, wide;
    host_real scale;
};
#define roi_align_args roi_args
#define roi_align_back_args roi_args

/* roi_pool does not use sampling, max and whole. */
#define roi_pool_args roi_args
#define roi_pool_back_args roi_args

/* psroi_pool does not use these three fields either; x has channels for each bin. */
#define psroi_pool_args roi_args
#define psroi_pool_back_args roi_args

struct roi_fill_args {
    i64 unused;
};
#define roi_finish_args roi_fill_args

#ifdef ELEM
#include "../../dialect/entry.h"
#include "../../dialect/maths.h"

/* A region: number of the image and, along each axis, begin of the first bin, extent of a bin, and
 * sampling points in a bin. */
struct roi_region {
    i64 image, places[2];
    real begin[2], bin[2];
};

/* Returns the number of the image of region r; 0, after setting the fault, if there is no such
 * image. */
KFN i64 roi_image_at(const struct roi_args *a, i64 r, GLOBAL const void *images, GLOBAL u32 *fault)
{
    i64 image = index_at(images, a->wide, r);

    if (image >= 0 && image < a->n) return image;
    fault_set(fault, 1);
    return 0;
}

KFN struct roi_region roi_region_at(const struct roi_args *a, i64 r, GLOBAL const f32 *rois,
                                    GLOBAL const void *images, GLOBAL u32 *fault)
{
    struct roi_region g;
    real shift = a->whole ? 0 : (real)0.5;

    g.image = roi_image_at(a, r, images, fault);
    for (int s = 0; s < 2; s++) {
        real begin = fma((real)rois[4 * r + 1 - s], a->scale, -shift);
        real end = fma((real)rois[4 * r + 3 - s], a->scale, -shift), length = end - begin;
        if (a->whole && !(length > 1)) length = 1;
        g.begin[s] = begin;
        g.bin[s] = length / (real)a->out[s];
        g.places[s] = a->sampling > 0 ? a->sampling
                      : g.bin[s] > 0  ? (i64)ceil(g.bin[s] < 4096 ? g.bin[s] : (real)4096)
                                      : 0;
    }
    return g;
}

/* Two neighbours along an axis and their weights. outside: the point is more than one element
 * outside of x. */
struct roi_pair {
    i64 outside, at[2];
    real weight[2];
};

KFN struct roi_pair roi_pair_at(const struct roi_args *a, const struct roi_region *g, int s, i64 o,
                                i64 k)
{
    real p = fma((real)o, g->bin[s], g->begin[s]) +
             ((real)k + (real)0.5) * g->bin[s] / (real)g->places[s];
    struct roi_pair r;

    r.outside = !(p >= -1 && p <= (real)a->in[s]);
    p = p > 0 ? p : 0;
    r.at[0] = r.outside ? 0 : (i64)p;
    r.at[1] = r.at[0] + 1;
    if (r.at[0] >= a->in[s] - 1) {
        r.at[0] = r.at[1] = a->in[s] - 1;
        p = (real)r.at[0];
    }
    r.weight[1] = p - (real)r.at[0];
    r.weight[0] = 1 - r.weight[1];
    return r;
}

/* The range of sampling points of bin o along axis s that may be inside x; it may contain some
 * others. A region may be far larger than x: points outside count as 0, and most of its points may
 * be outside. slack: largest error of rounding, in points. */
struct roi_range {
    i64 begin, end;
};

KFN struct roi_range roi_near(const struct roi_args *a, const struct roi_region *g, int s, i64 o)
{
    i64 n = g->places[s];
    struct roi_range r = {0, n};
    real first = fma((real)o, g->bin[s], g->begin[s]), step = g->bin[s] / (real)n, low, high, slack;

    if (n <= 16 || !(step > 0)) return r;
    low = (-1 - first) / step;
    high = ((real)a->in[s] - first) / step;
    slack = 2 + (fabs(low) + fabs(high) + fabs(g->begin[s]) / step + (real)n) / (1 << 20);
    if (low - slack > 0) r.begin = low - slack < (real)n ? (i64)(low - slack) : n;
    if (high + slack < (real)n) r.end = high + slack > 0 ? (i64)(high + slack) + 1 : 0;
    return r;
}

/* Computes elements of y: [regions, channels, out 0, out 1]. */
KFN void roi_align_span(const struct roi_args *a, i64 begin, i64 n, GLOBAL elem *y,
                        GLOBAL const elem *x, GLOBAL const f32 *rois, GLOBAL const void *images,
                        GLOBAL u32 *fault)
{
    for (i64 e = begin; e < begin + n; e++) {
        i64 o1 = e % a->out[1], o0 = e / a->out[1] % a->out[0];
        i64 c = e / a->out[1] / a->out[0] % a->channels;
        i64 region = e / a->out[1] / a->out[0] / a->channels, count, any = 0;
        struct roi_region g = roi_region_at(a, region, rois, images, fault);
        GLOBAL const elem *plane = x + (g.image * a->channels + c) * a->in[0] * a->in[1];
        acc sum = 0, best = 0;
        struct roi_range h = roi_near(a, &g, 0, o0), w = roi_near(a, &g, 1, o1);
        any = h.end - h.begin < g.places[0] || w.end - w.begin < g.places[1]; /* 0s outside of x */
        for (i64 i = h.begin; i < h.end; i++)
            for (i64 j = w.begin; j < w.end; j++) {
                struct roi_pair p = roi_pair_at(a, &g, 0, o0, i), q = roi_pair_at(a, &g, 1, o1, j);
                for (int k = 0; k < 4; k++) {
                    acc v = 0;
                    if (!p.outside && !q.outside)
                        v = number(p.weight[k / 2] * q.weight[k % 2]) *
                            elem_get(plane[p.at[k / 2] * a->in[1] + q.at[k % 2]]);
                    sum += v;
                    if (!any || v > best || v != v) best = v;
                    any = 1;
                }
            }
        count = g.places[0] * g.places[1];
        y[e] = elem_put(a->max ? best : sum / (acc)(count > 1 ? count : 1));
    }
}
ENTRY_SPANS_5(roi_align, elem, const elem, const f32, const void, u32)

/* Gradients of half types are summed in f32, in the workspace. */
KFN void roi_fill_span(const struct roi_fill_args *a, i64 begin, i64 n, GLOBAL acc *work)
{
    (void)a;
    for (i64 i = begin; i < begin + n; i++) work[i] = 0;
}
ENTRY_SPANS_1(roi_fill, acc)

KFN void roi_finish_span(const struct roi_finish_args *a, i64 begin, i64 n, GLOBAL elem *y,
                         GLOBAL const acc *work)
{
    (void)a;
    for (i64 i = begin; i < begin + n; i++) y[i] = elem_put(work[i]);
}
ENTRY_SPANS_2(roi_finish, elem, const acc)

/* Corner number k of all sampling points of bin o: its position in the plane (-1: outside) and its
 * weight. */
struct roi_corner {
    i64 at;
    acc weight;
};

KFN struct roi_corner roi_corner_at(const struct roi_args *a, const struct roi_region *g, i64 o,
                                    i64 k)
{
    struct roi_pair p = roi_pair_at(a, g, 0, o / a->out[1], k / 4 / g->places[1]);
    struct roi_pair q = roi_pair_at(a, g, 1, o % a->out[1], k / 4 % g->places[1]);
    i64 i = k % 4 / 2, j = k % 2;
    struct roi_corner r;

    r.at = p.outside || q.outside ? -1 : p.at[i] * a->in[1] + q.at[j];
    r.weight = r.at < 0 ? 0 : number(p.weight[i] * q.weight[j]);
    return r;
}

/* Returns the corner that was the largest of a bin. */
KFN struct roi_corner roi_largest(const struct roi_args *a, const struct roi_region *g, i64 o,
                                  GLOBAL const elem *plane)
{
    i64 corners = 4 * g->places[0] * g->places[1];
    struct roi_corner found = roi_corner_at(a, g, o, 0);
    acc best = found.at < 0 ? 0 : found.weight * elem_get(plane[found.at]);

    for (i64 k = 1; k < corners; k++) {
        struct roi_corner r = roi_corner_at(a, g, o, k);
        acc v = r.at < 0 ? 0 : r.weight * elem_get(plane[r.at]);
        if (v > best || v != v) {
            best = v;
            found = r;
        }
    }
    return found;
}

/* Computes whole planes (image number / channels, channel number % channels), and adds all regions
 * in order. */
KFN void roi_align_back_span(const struct roi_args *a, i64 begin, i64 n, GLOBAL acc *work,
                             GLOBAL const elem *dy, GLOBAL const f32 *rois,
                             GLOBAL const void *images, GLOBAL const elem *x, GLOBAL u32 *fault)
{
    i64 bins = a->out[0] * a->out[1], size = a->in[0] * a->in[1];

    for (i64 plane = begin; plane < begin + n; plane++) {
        i64 image = plane / a->channels, c = plane % a->channels;
        GLOBAL acc *to = work + plane * size;
        for (i64 r = 0; r < a->regions; r++) {
            struct roi_region g = roi_region_at(a, r, rois, images, fault);
            i64 count = g.places[0] * g.places[1];
            if (g.image != image || !count) continue;
            for (i64 o = 0; o < bins; o++) {
                acc v = elem_get(dy[(r * a->channels + c) * bins + o]);
                if (a->max) {
                    struct roi_corner k = roi_largest(a, &g, o, x + plane * size);
                    if (k.at >= 0) to[k.at] += k.weight * v;
                    continue;
                }
                v = v / (acc)count;
                for (i64 k = 0; k < 4 * count; k++) {
                    struct roi_corner t = roi_corner_at(a, &g, o, k);
                    if (t.at >= 0) to[t.at] += t.weight * v;
                }
            }
        }
    }
}
ENTRY_SPANS_6(roi_align_back, acc, const elem, const f32, const void, const elem, u32)

/* Rounds to an integer, halves away from 0; large values, and NaN, become positions far outside. */
KFN i64 roi_whole(real p)
{
    if (!(p > -1e9f)) return -1000000000;
    return p < 1e9f ? (i64)round(p) : 1000000000;
}

/* A region in integers: number of the image and, along each axis, first position and length. */
struct roi_places {
    i64 image, first[2], length[2];
};

KFN struct roi_places roi_places_at(const struct roi_args *a, i64 r, GLOBAL const f32 *rois,
                                    GLOBAL const void *images, GLOBAL u32 *fault)
{
    struct roi_places g;

    g.image = roi_image_at(a, r, images, fault);
    for (int s = 0; s < 2; s++) {
        i64 last = roi_whole((real)rois[4 * r + 3 - s] * a->scale);
        g.first[s] = roi_whole((real)rois[4 * r + 1 - s] * a->scale);
        g.length[s] = last < g.first[s] ? 1 : last - g.first[s] + 1;
    }
    return g;
}

/* Returns the position in the plane of the first largest element of bin o; -1 if the bin is
 * empty. */
KFN i64 roi_pool_place(const struct roi_args *a, const struct roi_places *g, i64 o,
                       GLOBAL const elem *plane)
{
    i64 bin[2], from[2], to[2], found = -1;
    acc best = 0;

    bin[0] = o / a->out[1];
    bin[1] = o % a->out[1];
    for (int s = 0; s < 2; s++) {
        from[s] = g->first[s] + bin[s] * g->length[s] / a->out[s];
        to[s] = g->first[s] + ((bin[s] + 1) * g->length[s] + a->out[s] - 1) / a->out[s];
        from[s] = from[s] < 0 ? 0 : from[s];
        to[s] = to[s] < a->in[s] ? to[s] : a->in[s];
    }
    for (i64 i = from[0]; i < to[0]; i++)
        for (i64 j = from[1]; j < to[1]; j++) {
            acc v = elem_get(plane[i * a->in[1] + j]);
            if (found >= 0 && !(v > best || (v != v && best == best))) continue;
            best = v;
            found = i * a->in[1] + j;
        }
    return found;
}

/* Computes elements of y: [regions, channels, out 0, out 1]. */
KFN void roi_pool_span(const struct roi_args *a, i64 begin, i64 n, GLOBAL elem *y,
                       GLOBAL const elem *x, GLOBAL const f32 *rois, GLOBAL const void *images,
                       GLOBAL u32 *fault)
{
    i64 bins = a->out[0] * a->out[1];

    for (i64 e = begin; e < begin + n; e++) {
        i64 c = e / bins % a->channels, at;
        struct roi_places g = roi_places_at(a, e / bins / a->channels, rois, images, fault);
        GLOBAL const elem *plane = x + (g.image * a->channels + c) * a->in[0] * a->in[1];
        at = roi_pool_place(a, &g, e % bins, plane);
        y[e] = at < 0 ? elem_put(0) : plane[at];
    }
}
ENTRY_SPANS_5(roi_pool, elem, const elem, const f32, const void, u32)

/* Computes whole planes, as roi_align_back does. */
KFN void roi_pool_back_span(const struct roi_args *a, i64 begin, i64 n, GLOBAL acc *work,
                            GLOBAL const elem *dy, GLOBAL const f32 *rois,
                            GLOBAL const void *images, GLOBAL const elem *x, GLOBAL u32 *fault)
{
    i64 bins = a->out[0] * a->out[1], size = a->in[0] * a->in[1];

    for (i64 plane = begin; plane < begin + n; plane++) {
        i64 image = plane / a->channels, c = plane % a->channels;
        for (i64 r = 0; r < a->regions; r++) {
            struct roi_places g = roi_places_at(a, r, rois, images, fault);
            for (i64 o = 0; o < bins && g.image == image; o++) {
                i64 at = roi_pool_place(a, &g, o, x + plane * size);
                if (at >= 0)
                    work[plane * size + at] += elem_get(dy[(r * a->channels + c) * bins + o]);
            }
        }
    }
}
ENTRY_SPANS_6(roi_pool_back, acc, const elem, const f32, const void, const elem, u32)

/* Limits a position to 0 to n: positions before x, and NaN, become 0; positions after x become
 * n. */
KFN i64 psroi_within(real p, i64 n)
{
    if (!(p > 0)) return 0;
    return p < (real)n ? (i64)p : n;
}

/* The elements of x in bin o of region r: number of the image, and a range along each axis. */
struct psroi_bin {
    i64 image, from[2], to[2], places;
};

KFN struct psroi_bin psroi_bin_at(const struct roi_args *a, i64 r, i64 o, GLOBAL const f32 *rois,
                                  GLOBAL const void *images, GLOBAL u32 *fault)
{
    struct psroi_bin g;

    g.image = roi_image_at(a, r, images, fault);
    for (int s = 0; s < 2; s++) {
        i64 k = s ? o % a->out[1] : o / a->out[1];
        real begin = (real)roi_whole(rois[4 * r + 1 - s]) * a->scale;
        real end = (real)(roi_whole(rois[4 * r + 3 - s]) + 1), bin;
        real length = fma(end, a->scale, -begin);
        bin = (length > (real)0.1 ? length : (real)0.1) / (real)a->out[s];
        g.from[s] = psroi_within(floor(fma((real)k, bin, begin)), a->in[s]);
        g.to[s] = psroi_within(ceil(fma((real)(k + 1), bin, begin)), a->in[s]);
    }
    g.places = g.to[0] > g.from[0] && g.to[1] > g.from[1]
                   ? (g.to[0] - g.from[0]) * (g.to[1] - g.from[1])
                   : 0;
    return g;
}

/* Computes elements of y: [regions, channels, out 0, out 1]. Element k of a region pools channel k
 * of x. */
KFN void psroi_pool_span(const struct roi_args *a, i64 begin, i64 n, GLOBAL elem *y,
                         GLOBAL const elem *x, GLOBAL const f32 *rois, GLOBAL const void *images,
                         GLOBAL u32 *fault)
{
    i64 bins = a->out[0] * a->out[1], channels = a->channels * bins;

    for (i64 e = begin; e < begin + n; e++) {
        struct psroi_bin g = psroi_bin_at(a, e / channels, e % bins, rois, images, fault);
        GLOBAL const elem *plane = x + (g.image * channels + e % channels) * a->in[0] * a->in[1];
        acc sum = 0;
        for (i64 i = g.from[0]; i < g.to[0]; i++)
            for (i64 j = g.from[1]; j < g.to[1]; j++) sum += elem_get(plane[i * a->in[1] + j]);
        y[e] = elem_put(g.places ? sum / (acc)g.places : 0);
    }
}
ENTRY_SPANS_5(psroi_pool, elem, const elem, const f32, const void, u32)

/* Computes whole planes, as roi_align_back does; x is not read. */
KFN void psroi_pool_back_span(const struct roi_args *a, i64 begin, i64 n, GLOBAL acc *work,
                              GLOBAL const elem *dy, GLOBAL const f32 *rois,
                              GLOBAL const void *images, GLOBAL const elem *x, GLOBAL u32 *fault)
{
    i64 bins = a->out[0] * a->out[1], channels = a->channels * bins, size = a->in[0] * a->in[1];

    (void)x;
    for (i64 plane = begin; plane < begin + n; plane++) {
        i64 k = plane % channels;
        for (i64 r = 0; r < a->regions; r++) {
            struct psroi_bin g = psroi_bin_at(a, r, k % bins, rois, images, fault);
            acc part;
            if (g.image != plane / channels || !g.places) continue;
            part = elem_get(dy[r * channels + k]) / (acc)g.places;
            for (i64 i = g.from[0]; i < g.to[0]; i++)
                for (i64 j = g.from[1]; j < g.to[1]; j++)
                    work[plane * size + i * a->in[1] + j] += part;
        }
    }
}
ENTRY_SPANS_6(psroi_pool_back, acc, const elem, const f32, const void, const elem, u32)
#endif

#endif
