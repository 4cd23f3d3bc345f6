/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h: reads windows of images whose elements have offsets, and computes the gradients. The
 * four neighbours of a position and their weights are computed once for all channels of a group.
 * The gradient of the image is computed by the lane that owns a channel. */
#ifndef BP_OPS_DEFORM_KERNEL_H
#define BP_OPS_DEFORM_KERNEL_H

#include "../../dialect/dialect.h"

enum { DEFORM_TILE = 64 };

/* groups: of offsets; channels: of one of these groups. taps: positions of a window; places:
 * windows of an image. */
struct deform_args {
    i64 groups, channels, taps, places;
    i64 in[2], out_columns, kernel_columns, stride[2], dilation[2], before[2];
};
#define deform_unfold_args deform_args
#define deform_to_input_args deform_args
#define deform_to_offset_args deform_args

struct deform_fill_args {
    i64 unused;
};
#define deform_finish_args deform_fill_args

#ifdef ELEM
#include "../../dialect/entry.h"
#include "../../dialect/maths.h"

#ifdef ON_HOST
enum { DEFORM_ROOM = DEFORM_TILE };
#else
enum { DEFORM_ROOM = 1 };
#endif

/* Up to DEFORM_ROOM points of one row: the points of one image, group and tap. part[s][k]: along
 * axis s, the weight of the lower (k 0) and of the upper neighbour. at[k]: position in the plane
 * of corner k, whose row is the upper one if k is 2 or 3, and whose column is the upper one if k
 * is odd; -1 outside. by: the mask. */
struct deform_points {
    i64 row, first, n; /* first: number of the first point in its row */
    i64 at[4][DEFORM_ROOM];
    acc part[2][2][DEFORM_ROOM], by[DEFORM_ROOM];
};

KFN acc deform_floor(acc x)
{
    return MATH(floor)(x);
}

/* Sets the corners of point j, whose position is the offset plus `base`. */
KFN void deform_corner(const struct deform_args *a, struct deform_points *p, i64 j, const i64 *base,
                       acc *offset)
{
    i64 low[2] = {0, 0}, far = 0;

    for (int s = 0; s < 2; s++) {
        acc whole = deform_floor(offset[s]);
        if (!(offset[s] > (acc)-1e9 && offset[s] < (acc)1e9)) {
            far = 1;
            whole = offset[s] = 0;
        }
        low[s] = base[s] + (i64)whole;
        p->part[s][1][j] = offset[s] - whole;
        p->part[s][0][j] = 1 - p->part[s][1][j];
    }
    for (int k = 0; k < 4; k++) {
        i64 row = low[0] + k / 2, column = low[1] + k % 2;
        p->at[k][j] = far || row < 0 || row >= a->in[0] || column < 0 || column >= a->in[1]
                          ? -1
                          : row * a->in[1] + column;
    }
}

/* Finds the points from number e on: at most n. */
KFN void deform_find(const struct deform_args *a, i64 e, i64 n, struct deform_points *p,
                     GLOBAL const elem *offset, GLOBAL const elem *mask)
{
    i64 tap;

    p->row = e / a->places;
    p->first = e % a->places;
    p->n = a->places - p->first < n ? a->places - p->first : n;
    if (p->n > DEFORM_ROOM) p->n = DEFORM_ROOM;
    tap = p->row % a->taps;
    offset += 2 * p->row * a->places + p->first;
    for (i64 j = 0; j < p->n; j++) {
        i64 o[2], base[2];
        acc by[2];
        o[0] = (p->first + j) / a->out_columns;
        o[1] = (p->first + j) % a->out_columns;
        base[0] = o[0] * a->stride[0] - a->before[0] + tap / a->kernel_columns * a->dilation[0];
        base[1] = o[1] * a->stride[1] - a->before[1] + tap % a->kernel_columns * a->dilation[1];
        by[0] = elem_get(offset[j]);
        by[1] = elem_get(offset[a->places + j]);
        deform_corner(a, p, j, base, by);
        p->by[j] = mask ? elem_get(mask[e + j]) : 1;
    }
}

KFN acc deform_weight(const struct deform_points *p, int k, i64 j)
{
    return p->part[0][k / 2][j] * p->part[1][k % 2][j];
}

/* Returns corner k of point j in a plane, 0 outside. */
KFN acc deform_value(const struct deform_points *p, int k, i64 j, GLOBAL const elem *plane)
{
    i64 at = p->at[k][j];
    acc v = elem_get(plane[at < 0 ? 0 : at]);

    return at < 0 ? 0 : v;
}

/* Returns the number, among the channels of all images, of the first channel of a row's group. */
KFN i64 deform_channel(const struct deform_args *a, i64 row)
{
    return row / a->taps * a->channels;
}

/* Computes points begin to begin + n - 1, for all channels of their groups. */
KFN void deform_unfold_span(const struct deform_args *a, i64 begin, i64 n, GLOBAL elem *y,
                            GLOBAL const elem *x, GLOBAL const elem *offset,
                            GLOBAL const elem *mask)
{
    struct deform_points p;
    acc weight[4][DEFORM_ROOM];

    for (i64 e = begin; e < begin + n; e += p.n) {
        deform_find(a, e, begin + n - e, &p, offset, mask);
        for (int k = 0; k < 4; k++)
            for (i64 j = 0; j < p.n; j++) weight[k][j] = deform_weight(&p, k, j);
        for (i64 c = 0; c < a->channels; c++) {
            i64 channel = deform_channel(a, p.row) + c;
            GLOBAL const elem *from = x + channel * a->in[0] * a->in[1];
            GLOBAL elem *to =
                y + (channel * a->taps + p.row % a->taps) * a->places + p.first;
            SIMD
            for (i64 j = 0; j < p.n; j++) {
                acc s = weight[0][j] * deform_value(&p, 0, j, from);
                s += weight[1][j] * deform_value(&p, 1, j, from);
                s += weight[2][j] * deform_value(&p, 2, j, from);
                s += weight[3][j] * deform_value(&p, 3, j, from);
                to[j] = elem_put(s * p.by[j]);
            }
        }
    }
}
ENTRY_SPANS_4(deform_unfold, elem, const elem, const elem, const elem)

/* Half types are added up in f32, in the workspace. */
KFN void deform_fill_span(const struct deform_fill_args *a, i64 begin, i64 n, GLOBAL acc *work)
{
    (void)a;
    for (i64 i = begin; i < begin + n; i++) work[i] = 0;
}
ENTRY_SPANS_1(deform_fill, acc)

KFN void deform_finish_span(const struct deform_finish_args *a, i64 begin, i64 n, GLOBAL elem *y,
                            GLOBAL const acc *work)
{
    (void)a;
    for (i64 i = begin; i < begin + n; i++) y[i] = elem_put(work[i]);
}
ENTRY_SPANS_2(deform_finish, elem, const acc)

/* Computes channels of all images: each adds the points of its group in order. */
KFN void deform_to_input_span(const struct deform_args *a, i64 begin, i64 n, GLOBAL acc *work,
                              GLOBAL const elem *dy, GLOBAL const elem *offset,
                              GLOBAL const elem *mask)
{
    struct deform_points p;

    for (i64 first = begin, w; first < begin + n; first += w) {
        i64 group = first / a->channels, of = a->taps * a->places;
        w = (group + 1) * a->channels - first;
        w = w < begin + n - first ? w : begin + n - first;
        for (i64 e = group * of; e < (group + 1) * of; e += p.n) {
            deform_find(a, e, (group + 1) * of - e, &p, offset, mask);
            for (i64 c = first; c < first + w; c++) {
                GLOBAL acc *to = work + c * a->in[0] * a->in[1];
                GLOBAL const elem *from =
                    dy + (c * a->taps + p.row % a->taps) * a->places + p.first;
                for (i64 j = 0; j < p.n; j++)
                    for (int k = 0; k < 4; k++)
                        if (p.at[k][j] >= 0)
                            to[p.at[k][j]] +=
                                elem_get(from[j]) * (deform_weight(&p, k, j) * p.by[j]);
            }
        }
    }
}
ENTRY_SPANS_4(deform_to_input, acc, const elem, const elem, const elem)

/* Computes points: the sums over the channels of a group. The slope of a weight along an axis is 1
 * for the upper neighbour and -1 for the lower one. dmask may be absent. */
KFN void deform_to_offset_span(const struct deform_args *a, i64 begin, i64 n, GLOBAL elem *doffset,
                               GLOBAL elem *dmask, GLOBAL const elem *dy, GLOBAL const elem *x,
                               GLOBAL const elem *offset, GLOBAL const elem *mask)
{
    struct deform_points p;
    acc sum[3][DEFORM_ROOM];

    for (i64 e = begin; e < begin + n; e += p.n) {
        GLOBAL elem *to;
        deform_find(a, e, begin + n - e, &p, offset, mask);
        for (i64 j = 0; j < p.n; j++) sum[0][j] = sum[1][j] = sum[2][j] = 0;
        for (i64 c = 0; c < a->channels; c++) {
            i64 channel = deform_channel(a, p.row) + c;
            GLOBAL const elem *plane = x + channel * a->in[0] * a->in[1];
            GLOBAL const elem *from =
                dy + (channel * a->taps + p.row % a->taps) * a->places + p.first;
            SIMD
            for (i64 j = 0; j < p.n; j++) {
                acc d = elem_get(from[j]), v[4], row[2];
                v[0] = deform_value(&p, 0, j, plane);
                v[1] = deform_value(&p, 1, j, plane);
                v[2] = deform_value(&p, 2, j, plane);
                v[3] = deform_value(&p, 3, j, plane);
                row[0] = p.part[1][0][j] * v[0] + p.part[1][1][j] * v[1];
                row[1] = p.part[1][0][j] * v[2] + p.part[1][1][j] * v[3];
                sum[0][j] += d * (row[1] - row[0]);
                sum[1][j] += d * (p.part[0][0][j] * (v[1] - v[0]) +
                                  p.part[0][1][j] * (v[3] - v[2]));
                sum[2][j] += d * (p.part[0][0][j] * row[0] + p.part[0][1][j] * row[1]);
            }
        }
        to = doffset + 2 * p.row * a->places + p.first;
        for (i64 j = 0; j < p.n; j++) {
            to[j] = elem_put(sum[0][j] * p.by[j]);
            to[a->places + j] = elem_put(sum[1][j] * p.by[j]);
            if (dmask) dmask[e + j] = elem_put(sum[2][j]);
        }
    }
}
ENTRY_SPANS_6(deform_to_offset, elem, elem, const elem, const elem, const elem, const elem)
#endif

#endif
