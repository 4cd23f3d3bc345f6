/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_histogram.h: computes histograms and suppresses overlapping boxes (nms,
 * non_max_suppression). */

#ifndef BP_OPS_SORT_KERNEL_HISTOGRAM_H
#define BP_OPS_SORT_KERNEL_HISTOGRAM_H

#include "../../dialect/dialect.h"

/* n values in parts of `part`. data: the range is computed from the values and read from memory. */
struct histogram_args {
    i64 n, part, parts, bins, data;
    host_real low, high;
};
#define histogram_range_args histogram_args
#define histogram_count_args histogram_args
#define histogram_add_args histogram_args

#ifdef ELEM
#include "../../dialect/entry.h"

/* The type in which bins are computed. */
#ifdef ELEM_FLOAT
typedef acc binned;
#define BINNED(x) elem_get(x)
#else
typedef real binned;
#define BINNED(x) ((real)elem_ord(x))
#endif

/* Writes the smallest and the largest value of part p to range[2 p] and range[2 p + 1]; for a part
 * without values the smallest is above the largest. */
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

/* Counts the values of each part, in `bins` counters for each part. range: that of all parts. */
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

struct nms_box {
    acc low[2], high[2];
};

KFN struct nms_box nms_box_at(GLOBAL const elem *p, i64 form)
{
    struct nms_box b;

    for (int k = 0; k < 2; k++) {
        acc u = elem_get(p[k]), v = elem_get(p[k + 2]);
        i64 transposed = form == NMS_OPPOSITE && v < u;
        b.low[k] = form == NMS_CENTRE ? u - v / 2 : transposed ? v : u;
        b.high[k] = form == NMS_CENTRE ? u + v / 2 : transposed ? u : v;
    }
    return b;
}

/* Whether two boxes share more of their union than the threshold allows. */
KFN i64 nms_overlap(struct nms_box a, struct nms_box b, acc threshold)
{
    acc area = (a.high[0] - a.low[0]) * (a.high[1] - a.low[1]) +
               (b.high[0] - b.low[0]) * (b.high[1] - b.low[1]);
    acc width = (a.high[0] < b.high[0] ? a.high[0] : b.high[0]) -
                (a.low[0] > b.low[0] ? a.low[0] : b.low[0]);
    acc height = (a.high[1] < b.high[1] ? a.high[1] : b.high[1]) -
                 (a.low[1] > b.low[1] ? a.low[1] : b.low[1]);
    acc shared = width > 0 && height > 0 ? width * height : 0;

    return shared / (area - shared) > threshold;
}

/* Each team has one line of scores: it visits the boxes in sorted order, and each kept box removes
 * later boxes that overlap it. scores may be NULL: all boxes count. `index` has room for `most`
 * kept boxes of each line. */
KFN void nms_team(const struct nms_args *a, i64 team, LOCAL acc *s, GLOBAL i64 *index,
                  GLOBAL i64 *counts, GLOBAL const elem *boxes, GLOBAL const elem *scores,
                  GLOBAL const struct sort_pair *pairs, GLOBAL u8 *removed)
{
    i64 line = a->first + team, kept = 0;

    (void)s;
    boxes += line / a->classes * a->n * 4;
    pairs += team * a->n;
    removed += team * a->n;
    FOR_LANES(i, a->n) removed[i] = 0;
    for (i64 i = 0; i < a->n && kept < a->most; i++) {
        i64 at = pairs[i].at;
        struct nms_box box = nms_box_at(boxes + 4 * at, a->form);
        BARRIER();
        if (removed[i]) continue; /* all lanes read the same value */
        if (scores && elem_get(scores[line * a->n + at]) <= (acc)a->score) break;
        if (LANE == 0) index[line * a->most + kept] = at;
        kept++;
        FOR_LANES(k, a->n - i - 1)
        {
            i64 other = i + 1 + k;
            if (nms_overlap(box, nms_box_at(boxes + 4 * pairs[other].at, a->form),
                            (acc)a->threshold))
                removed[other] = 1;
        }
    }
    if (LANE == 0) counts[line] = kept;
}

/* Writes the lists: position i most + k is kept box k of line i, if that line has so many.
 * before[i]: number of kept boxes in the lines before line i; its last element is the number of
 * all. */
KFN void nms_write_span(const struct nms_write_args *a, i64 begin, i64 count, GLOBAL i64 *y,
                        GLOBAL const i64 *index, GLOBAL const i64 *before)
{
    for (i64 i = begin; i < begin + count; i++) {
        i64 line = i / a->most, to = before[line] + i % a->most;
        if (to >= before[line + 1]) continue;
        y[3 * to] = line / a->classes;
        y[3 * to + 1] = line % a->classes;
        y[3 * to + 2] = index[i];
    }
}

#undef BINNED
#endif

#endif
