/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h: samples images at the positions of a grid, and makes affine grids. Positions and
 * weights along the axes are computed once for all channels. The gradient of the image is computed
 * by the lane that owns a channel: the lane visits all points in order. */
#ifndef BP_OPS_GRID_SAMPLE_KERNEL_H
#define BP_OPS_GRID_SAMPLE_KERNEL_H

#include "../../dialect/dialect.h"

enum { SAMPLE_TILE = 64 };
enum { SAMPLE_LINEAR, SAMPLE_NEAREST, SAMPLE_CUBIC };
enum { SAMPLE_ZEROS, SAMPLE_BORDER, SAMPLE_REFLECTION };

/* There are three spatial axes; images with two have a first one of extent 1. first: the first axis
 * that exists. Strides: x and y of N, C and the spatial axes; grid of N, the spatial axes and the
 * coordinates. */
struct sample_args {
    i64 first, mode, padding, align, channels, points;
    i64 in[3], out[3], x[5], y[5], grid[5];
};
#define grid_sample_args sample_args
#define grid_to_input_args sample_args
#define grid_to_grid_args sample_args

struct grid_sample_fill_args {
    i64 unused;
};
#define grid_sample_finish_args grid_sample_fill_args

/* `axes` coordinates for each position in an image of three extents, the first of which may be
 * 1. */
struct affine_args {
    i64 axes, align, points, extent[3];
};
#define affine_grid_args affine_args
#define affine_grid_grad_args affine_args

#ifdef ELEM
#include "../../dialect/entry.h"
#include "../../dialect/maths.h"

#ifdef ON_HOST
enum { SAMPLE_ROOM = SAMPLE_TILE };
#else
enum { SAMPLE_ROOM = 1 };
#endif

/* Along one axis: n elements of x (-1: outside, which is zero), their weights, and the derivatives
 * of the weights by grid's coordinate. */
struct sample_axis {
    i64 n, at[4];
    real weight[4], slope[4];
};

/* A position along an axis, and its derivative by grid's coordinate. */
struct sample_place {
    real p, slope;
};

/* Reflects a position about the centres of the first and last element (align), or about their outer
 * edges, until it is between them. */
KFN struct sample_place sample_reflect(struct sample_place s, i64 n, i64 align)
{
    real low = align ? 0 : (real)-0.5, span = (real)(align ? n - 1 : n), past, rest, turns;

    past = s.p - low;
    if (span <= 0) {
        s.p = s.slope = 0;
        return s;
    }
    if (past < 0) {
        past = -past;
        s.slope = -s.slope;
    }
    rest = fmod(past, span);
    turns = floor(past / span);
    if (fmod(turns, (real)2) != 0) {
        rest = span - rest;
        s.slope = -s.slope;
    }
    s.p = rest + low;
    return s;
}

KFN struct sample_place sample_inside(struct sample_place s, i64 n)
{
    if (s.p < 0 || s.p > (real)(n - 1)) {
        s.p = s.p < 0 ? 0 : (real)(n - 1);
        s.slope = 0;
    }
    return s;
}

KFN struct sample_place sample_padded(const struct sample_args *a, struct sample_place s, i64 n)
{
    if (a->padding == SAMPLE_REFLECTION) s = sample_reflect(s, n, a->align);
    return a->padding == SAMPLE_ZEROS ? s : sample_inside(s, n);
}

KFN real sample_cubic(real d)
{
    real c = (real)-0.75;

    d = d < 0 ? -d : d;
    if (d < 1) return (1 - d) * (1 + d - (c + 2) * d * d);
    return d < 2 ? c * (d - 1) * (d - 2) * (d - 2) : 0;
}

KFN real sample_cubic_slope(real d)
{
    real c = (real)-0.75, sign = d < 0 ? -1 : 1;

    d = d < 0 ? -d : d;
    if (d < 1) return sign * (3 * (c + 2) * d - 2 * (c + 3)) * d;
    return d < 2 ? sign * c * (3 * d - 4) * (d - 2) : 0;
}

KFN struct sample_axis sample_find(const struct sample_args *a, i64 axis, real g)
{
    i64 n = a->in[axis], f;
    struct sample_place s, here;
    struct sample_axis r;

    s.p = a->align ? (g + 1) / 2 * (real)(n - 1) : fma(g + 1, (real)n, (real)-1) / 2;
    s.slope = (real)(a->align ? n - 1 : n) / 2;
    if (!(s.p > (real)-1e9 && s.p < (real)1e9)) {
        s.p = s.p > 0 ? (real)1e9 : (real)-1e9;
        s.slope = 0;
    }
    if (a->mode != SAMPLE_CUBIC) s = sample_padded(a, s, n);
    f = (i64)floor(s.p);
    r.n = a->mode == SAMPLE_NEAREST ? 1 : a->mode == SAMPLE_LINEAR ? 2 : 4;
    for (i64 k = 0; k < r.n; k++) {
        i64 at = a->mode == SAMPLE_NEAREST  ? (i64)rint(s.p)
                 : a->mode == SAMPLE_LINEAR ? f + k
                                            : f + k - 1;
        real d = s.p - (real)at;
        r.weight[k] = a->mode == SAMPLE_NEAREST ? 1
                      : a->mode == SAMPLE_CUBIC ? sample_cubic(d)
                                                : 1 - (k ? -d : d);
        r.slope[k] = a->mode == SAMPLE_NEAREST ? 0
                     : a->mode == SAMPLE_CUBIC ? sample_cubic_slope(d) * s.slope
                     : k                       ? s.slope
                                               : -s.slope;
        if (a->mode == SAMPLE_CUBIC && a->padding != SAMPLE_ZEROS) {
            here.p = (real)at;
            here.slope = 1;
            at = (i64)rint(sample_padded(a, here, n).p);
        }
        r.at[k] = at < 0 || at >= n ? -1 : at;
    }
    return r;
}

/* A point of grid, along each axis; an axis that does not exist has its only element. */
struct sample_point {
    i64 x, y, grid; /* offsets without channels */
    struct sample_axis axis[3];
};

KFN struct sample_point sample_point_at(const struct sample_args *a, i64 i,
                                        GLOBAL const elem *grid)
{
    struct sample_point p;
    i64 o[3], n;

    o[2] = i % a->out[2];
    o[1] = i / a->out[2] % a->out[1];
    o[0] = i / a->out[2] / a->out[1] % a->out[0];
    n = i / a->out[2] / a->out[1] / a->out[0];
    p.x = n * a->x[0];
    p.y = n * a->y[0] + o[0] * a->y[2] + o[1] * a->y[3] + o[2] * a->y[4];
    p.grid = n * a->grid[0] + o[0] * a->grid[1] + o[1] * a->grid[2] + o[2] * a->grid[3];
    for (i64 s = 0; s < 3; s++) {
        p.axis[s].n = 1;
        p.axis[s].at[0] = 0;
        p.axis[s].weight[0] = 1;
        p.axis[s].slope[0] = 0;
        if (s >= a->first)
            p.axis[s] = sample_find(a, s, (real)elem_get(grid[p.grid + (2 - s) * a->grid[4]]));
    }
    return p;
}

/* Number k of the elements that a point reads: its offset in x (-1: outside) and its weight. by:
 * the axis whose slope replaces its weight (-1: none). */
struct sample_tap {
    i64 at;
    real weight;
};

KFN struct sample_tap sample_tap_at(const struct sample_args *a, const struct sample_point *p,
                                    i64 k, i64 by)
{
    struct sample_tap t;
    i64 k2 = k % p->axis[2].n, k1 = k / p->axis[2].n % p->axis[1].n;
    i64 k0 = k / p->axis[2].n / p->axis[1].n;
    i64 a0 = p->axis[0].at[k0], a1 = p->axis[1].at[k1], a2 = p->axis[2].at[k2];

    t.at = a0 < 0 || a1 < 0 || a2 < 0 ? -1 : a0 * a->x[2] + a1 * a->x[3] + a2 * a->x[4];
    t.weight = (by == 0 ? p->axis[0].slope[k0] : p->axis[0].weight[k0]) *
               (by == 1 ? p->axis[1].slope[k1] : p->axis[1].weight[k1]) *
               (by == 2 ? p->axis[2].slope[k2] : p->axis[2].weight[k2]);
    return t;
}

/* Computes points begin to begin + n - 1. */
KFN void grid_sample_span(const struct sample_args *a, i64 begin, i64 n, GLOBAL elem *y,
                          GLOBAL const elem *x, GLOBAL const elem *grid)
{
    acc s[SAMPLE_ROOM];

    for (i64 i = begin; i < begin + n; i++) {
        struct sample_point p = sample_point_at(a, i, grid);
        i64 taps = p.axis[0].n * p.axis[1].n * p.axis[2].n;
        for (i64 c = 0; c < a->channels; c += SAMPLE_ROOM) {
            i64 w = a->channels - c < SAMPLE_ROOM ? a->channels - c : SAMPLE_ROOM;
            for (i64 j = 0; j < w; j++) s[j] = 0;
            for (i64 k = 0; k < taps; k++) {
                struct sample_tap t = sample_tap_at(a, &p, k, -1);
                acc by = number(t.weight);
                GLOBAL const elem *from = x + p.x + t.at + c * a->x[1];
                if (t.at < 0) continue;
                if (a->x[1] == 1) {
                    SIMD
                    for (i64 j = 0; j < w; j++) s[j] += by * elem_get(from[j]);
                } else {
                    for (i64 j = 0; j < w; j++) s[j] += by * elem_get(from[j * a->x[1]]);
                }
            }
            for (i64 j = 0; j < w; j++) y[p.y + (c + j) * a->y[1]] = elem_put(s[j]);
        }
    }
}
ENTRY_SPANS_3(grid_sample, elem, const elem, const elem)

/* Half types are added up in f32, in the workspace. */
KFN void grid_sample_fill_span(const struct grid_sample_fill_args *a, i64 begin, i64 n,
                               GLOBAL acc *work)
{
    (void)a;
    for (i64 i = begin; i < begin + n; i++) work[i] = 0;
}
ENTRY_SPANS_1(grid_sample_fill, acc)

KFN void grid_sample_finish_span(const struct grid_sample_finish_args *a, i64 begin, i64 n,
                                 GLOBAL elem *y, GLOBAL const acc *work)
{
    (void)a;
    for (i64 i = begin; i < begin + n; i++) y[i] = elem_put(work[i]);
}
ENTRY_SPANS_2(grid_sample_finish, elem, const acc)

/* Computes channels of all images; a channel's number is image * channels + c. */
KFN void grid_to_input_span(const struct sample_args *a, i64 begin, i64 n, GLOBAL acc *work,
                            GLOBAL const elem *dy, GLOBAL const elem *grid)
{
    for (i64 c = begin, w; c < begin + n; c += w) {
        i64 image = c / a->channels, channel = c % a->channels;
        w = a->channels - channel;
        w = w < begin + n - c ? w : begin + n - c;
        w = w < SAMPLE_ROOM ? w : SAMPLE_ROOM;
        for (i64 i = image * a->points; i < (image + 1) * a->points; i++) {
            struct sample_point p = sample_point_at(a, i, grid);
            i64 taps = p.axis[0].n * p.axis[1].n * p.axis[2].n;
            for (i64 k = 0; k < taps; k++) {
                struct sample_tap t = sample_tap_at(a, &p, k, -1);
                i64 to = p.x + t.at + channel * a->x[1], from = p.y + channel * a->y[1];
                if (t.at < 0) continue;
                for (i64 j = 0; j < w; j++)
                    work[to + j * a->x[1]] += number(t.weight) * elem_get(dy[from + j * a->y[1]]);
            }
        }
    }
}
ENTRY_SPANS_3(grid_to_input, acc, const elem, const elem)

/* Computes all coordinates of points. dgrid has the layout of grid, dense. */
KFN void grid_to_grid_span(const struct sample_args *a, i64 begin, i64 n, GLOBAL elem *dgrid,
                           GLOBAL const elem *dy, GLOBAL const elem *x, GLOBAL const elem *grid)
{
    for (i64 i = begin; i < begin + n; i++) {
        struct sample_point p = sample_point_at(a, i, grid);
        i64 taps = p.axis[0].n * p.axis[1].n * p.axis[2].n;
        for (i64 s = a->first; s < 3; s++) {
            acc sum = 0;
            for (i64 k = 0; k < taps; k++) {
                struct sample_tap t = sample_tap_at(a, &p, k, s);
                acc part = 0;
                if (t.at < 0 || t.weight == 0) continue;
                for (i64 c = 0; c < a->channels; c++)
                    part += elem_get(dy[p.y + c * a->y[1]]) *
                            elem_get(x[p.x + t.at + c * a->x[1]]);
                sum += number(t.weight) * part;
            }
            dgrid[p.grid + (2 - s) * a->grid[4]] = elem_put(sum);
        }
    }
}
ENTRY_SPANS_4(grid_to_grid, elem, const elem, const elem, const elem)

/* Returns coordinate k of position i in an image: the last axis is coordinate 0. After the last
 * coordinate, 1. */
KFN acc affine_base(const struct affine_args *a, i64 i, i64 k)
{
    i64 at, n;

    if (k == a->axes) return 1;
    for (i64 s = 2; s > 2 - k; s--) i /= a->extent[s];
    n = a->extent[2 - k];
    at = i % n;
    if (a->align) return n == 1 ? 0 : number((real)(2 * at - (n - 1)) / (real)(n - 1));
    return number((real)(2 * at + 1 - n) / (real)n);
}

/* Computes elements of grid. */
KFN void affine_grid_span(const struct affine_args *a, i64 begin, i64 n, GLOBAL elem *grid,
                          GLOBAL const elem *theta)
{
    for (i64 e = begin; e < begin + n; e++) {
        i64 k = e % a->axes, i = e / a->axes % a->points, image = e / a->axes / a->points;
        acc s = 0;
        for (i64 j = 0; j <= a->axes; j++)
            s += elem_get(theta[(image * a->axes + k) * (a->axes + 1) + j]) * affine_base(a, i, j);
        grid[e] = elem_put(s);
    }
}
ENTRY_SPANS_2(affine_grid, elem, const elem)

/* Computes elements of dtheta. */
KFN void affine_grid_grad_team(const struct affine_args *a, i64 e, LOCAL acc *s,
                               GLOBAL elem *dtheta, GLOBAL const elem *dgrid)
{
    i64 j = e % (a->axes + 1), row = e / (a->axes + 1), k = row % a->axes, image = row / a->axes;
    acc sum = 0;

    SIMD_SUM(sum)
    FOR_LANES(i, a->points)
        sum += elem_get(dgrid[(image * a->points + i) * a->axes + k]) * affine_base(a, i, j);
    sum = team_sum(sum, s);
    if (LANE == 0) dtheta[e] = elem_put(sum);
}
ENTRY_TEAMS_2(affine_grid_grad, elem, const elem)
#endif

#endif
