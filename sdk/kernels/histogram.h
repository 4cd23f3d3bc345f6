/* SPDX-License-Identifier: Apache-2.0 */
/* histogram.h: histograms and the suppression of overlapping boxes: the rest of order.h, which
 * includes it and makes the entries. */
#ifndef BP_KERNELS_HISTOGRAM_H
#define BP_KERNELS_HISTOGRAM_H

#include "entry.h"
#include "order_args.h"

/* What bins are computed in. */
#ifdef ELEM_FLOAT
typedef acc binned;
#define BINNED(x) elem_get(x)
#else
typedef real binned;
#define BINNED(x) ((real)elem_ord(x))
#endif

/* The least and the largest of each part, at places 2 p and 2 p + 1; of nothing the least is above
 * the largest. */
KFN void histogram_range_span(const struct histogram_args *a, i64 begin, i64 count,
                              GLOBAL binned *range, GLOBAL const elem *x)
{
    for (i64 p = begin; p < begin + count; p++) {
        i64 end = (p + 1) * a->part < a->n ? (p + 1) * a->part : a->n;
        binned low = 1, high = 0;
        i64 any = 0;
        for (i64 i = p * a->part; i < end; i++) {
            binned v = BINNED(x[i]);
            if (v != v) continue;
            low = !any || v < low ? v : low;
            high = !any || v > high ? v : high;
            any = 1;
        }
        range[2 * p] = low;
        range[2 * p + 1] = high;
    }
}

/* Counts of each part in bins places of its own; range: of all parts. */
KFN void histogram_count_span(const struct histogram_args *a, i64 begin, i64 count,
                              GLOBAL i64 *counts, GLOBAL const elem *x, GLOBAL const binned *range)
{
    binned low = (binned)a->low, high = (binned)a->high, width;
    i64 any = !a->data;

    for (i64 p = 0; a->data && p < a->parts; p++) {
        binned least = range[2 * p], most = range[2 * p + 1];
        if (least > most) continue;
        low = !any || least < low ? least : low;
        high = !any || most > high ? most : high;
        any = 1;
    }
    if (low == high) {
        low -= 1;
        high += 1;
    }
    width = high - low;
    for (i64 p = begin; p < begin + count; p++) {
        i64 end = (p + 1) * a->part < a->n ? (p + 1) * a->part : a->n;
        GLOBAL i64 *mine = counts + p * a->bins;
        for (i64 b = 0; b < a->bins; b++) mine[b] = 0;
        for (i64 i = p * a->part; i < end; i++) {
            binned v = BINNED(x[i]);
            i64 b;
            if (!(v >= low && v <= high) || width - width != 0) continue; /* not finite */
            b = (i64)((v - low) * (binned)a->bins / width);
            mine[b < a->bins ? b : a->bins - 1]++;
        }
    }
}

KFN void histogram_add_span(const struct histogram_args *a, i64 begin, i64 count, GLOBAL i64 *y,
                            GLOBAL const i64 *counts)
{
    for (i64 b = begin; b < begin + count; b++) {
        i64 sum = 0;
        for (i64 p = 0; p < a->parts; p++) sum += counts[p * a->bins + b];
        y[b] = sum;
    }
}

#ifdef ELEM_FLOAT
/* Whether boxes a and b share more of their union than allowed. */
KFN i64 nms_overlap(GLOBAL const elem *a, GLOBAL const elem *b, acc threshold)
{
    acc left = elem_get(a[0]), top = elem_get(a[1]), right = elem_get(a[2]), end = elem_get(a[3]);
    acc left_b = elem_get(b[0]), top_b = elem_get(b[1]);
    acc right_b = elem_get(b[2]), end_b = elem_get(b[3]);
    acc area = (right - left) * (end - top) + (right_b - left_b) * (end_b - top_b);
    acc width = (right < right_b ? right : right_b) - (left > left_b ? left : left_b);
    acc height = (end < end_b ? end : end_b) - (top > top_b ? top : top_b);
    acc shared = width > 0 && height > 0 ? width * height : 0;

    return shared / (area - shared) > threshold;
}
#else
KFN i64 nms_overlap(GLOBAL const elem *a, GLOBAL const elem *b, acc threshold)
{
    (void)a, (void)b, (void)threshold; /* no row */
    return 0;
}
#endif

/* The one team: box after box in their order, each that stays removes others behind it. */
KFN void nms_team(const struct nms_args *a, i64 team, LOCAL acc *s, GLOBAL i64 *index,
                  GLOBAL const elem *boxes, GLOBAL const struct sort_pair *pairs,
                  GLOBAL u8 *removed, GLOBAL i64 *result)
{
    i64 kept = team;

    (void)s;
    FOR_LANES(i, a->n) removed[i] = 0;
    for (i64 i = 0; i < a->n; i++) {
        GLOBAL const elem *box = boxes + 4 * pairs[i].at;
        BARRIER();
        if (removed[i]) continue; /* all lanes see the same */
        if (LANE == 0) index[kept] = pairs[i].at;
        kept++;
        FOR_LANES(k, a->n - i - 1)
        {
            i64 other = i + 1 + k;
            if (nms_overlap(box, boxes + 4 * pairs[other].at, (acc)a->threshold))
                removed[other] = 1;
        }
    }
    if (LANE == 0) *result = kept;
}

#undef BINNED

#endif
