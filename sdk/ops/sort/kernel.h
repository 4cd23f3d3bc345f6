/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h: sorts lines, and computes results from sorted values (topk, mode, unique, search).
 * Values become keys: integers in the order of the values. A line is sorted as pairs of key and
 * index: one lane sorts each part, then runs of parts are merged with one lane for each part; the
 * lane finds by bisection where its share of the result begins in the two runs. */
#ifndef BP_OPS_SORT_KERNEL_H
#define BP_OPS_SORT_KERNEL_H

#include "../../dialect/dialect.h"

/* The key by which a value is sorted, and the value's index along its line. */
struct sort_pair {
    u64 key;
    i64 at;
};

enum { SORT_PART = 1024, SORT_RUN = 16, PICK_MOST = 16 };

/* Several entries share one struct of arguments: the macros below name the struct for each
 * entry. */

/* Lines of extent elements of [outer, extent, inner], beginning with line number `first`. The pairs
 * of a line are contiguous, line after line. down: the largest value first. */
struct sort_args {
    i64 first, extent, inner, down;
};
#define sort_load_args sort_args
#define sort_parts_args sort_args

/* Merges sorted runs of `width` pairs into runs of twice that width. */
struct sort_merge_args {
    i64 extent, width;
};

/* Writes `take` sorted values of each line, beginning with value number `skip`. */
struct sort_write_args {
    i64 first, extent, inner, skip, take;
};
struct mode_args {
    i64 first, extent, inner;
};
struct pick_args {
    i64 extent, inner, down, skip, take;
};

/* n pairs, in parts of `part`. */
struct unique_args {
    i64 n, part, parts;
};
#define unique_count_args unique_args
#define unique_scan_args unique_args
#define unique_write_args unique_args

/* Searches m values for each line of n sorted values. shared: there is one sorted line for all
 * values. */
struct search_args {
    i64 n, m, shared, right, wide;
};

struct shard_args {
    i64 count, size, shard, ignored;
};

/* The meaning of the four numbers of a box: two corners, the first below the second; two opposite
 * corners in any order; the centre and the extents. */
enum { NMS_CORNERS, NMS_OPPOSITE, NMS_CENTRE };

/* Lines of scores of n boxes, beginning with line number `first`; each batch of boxes has `classes`
 * lines. */
struct nms_args {
    i64 first, n, most, classes, form;
    host_real threshold, score;
};
struct nms_write_args {
    i64 most, classes;
};

#include "kernel_histogram.h"

#ifdef ELEM
#include "../../dialect/entry.h"

/* Floats sort like their bits read as integers with a sign and a magnitude. NaN is above all
 * numbers; all NaN are one value, and so are both zeros. */
KFN u64 sort_key(elem x, i64 down)
{
    u64 key;
#if defined(ELEM_f64)
    u64 bits = f64_bits(x + 0.0), sign = (u64)1 << 63;
    key = x != x ? ~(u64)0 : bits & sign ? ~bits : bits | sign;
#elif defined(ELEM_FLOAT)
    f32 v = elem_get(x) + 0.0f;
    u32 bits = f32_bits(v), sign = 0x80000000u;
    key = v != v ? ~(u64)0 : bits & sign ? (u64)(u32)~bits : (u64)(bits | sign);
#elif defined(ELEM_SIGNED)
    key = (u64)(i64)elem_ord(x) ^ (u64)1 << 63;
#else
    key = (u64)x;
#endif
    return down ? ~key : key;
}

/* The offset of line number `line` of [outer, extent, inner]. */
KFN i64 line_begin(i64 line, i64 extent, i64 inner)
{
    return line / inner * extent * inner + line % inner;
}

/* Loads the pairs of elements begin to begin + count - 1 of all lines, unsorted. */
KFN void sort_load_span(const struct sort_args *a, i64 begin, i64 count,
                        GLOBAL struct sort_pair *pairs, GLOBAL const elem *x)
{
    for (i64 i = begin; i < begin + count; i++) {
        i64 at = i % a->extent, line = a->first + i / a->extent;
        pairs[i].key = sort_key(x[line_begin(line, a->extent, a->inner) + at * a->inner], a->down);
        pairs[i].at = at;
    }
}
ENTRY_SPANS_2(sort_load, struct sort_pair, const elem)

/* Insertion sort: stable, and fast for few pairs. */
KFN void sort_run(GLOBAL struct sort_pair *p, i64 n)
{
    for (i64 i = 1; i < n; i++) {
        struct sort_pair mine = p[i];
        i64 k = i;
        for (; k > 0 && p[k - 1].key > mine.key; k--) p[k] = p[k - 1];
        p[k] = mine;
    }
}

/* Writes count pairs of a merge to `to`, from pair i of a and pair k of b on; for equal keys those
 * of a come first. */
KFN void sort_merge_some(GLOBAL struct sort_pair *to, i64 count, GLOBAL const struct sort_pair *a,
                         i64 i, i64 n_a, GLOBAL const struct sort_pair *b, i64 k, i64 n_b)
{
    for (i64 t = 0; t < count; t++)
        to[t] = i < n_a && (k >= n_b || a[i].key <= b[k].key) ? a[i++] : b[k++];
}

/* Each lane sorts a part: part p of line l is item l parts + p. */
KFN void sort_parts_span(const struct sort_args *a, i64 begin, i64 count,
                         GLOBAL struct sort_pair *pairs, GLOBAL struct sort_pair *spare)
{
    i64 parts = (a->extent + SORT_PART - 1) / SORT_PART;

    for (i64 item = begin; item < begin + count; item++) {
        i64 first = item % parts * SORT_PART, n = a->extent - first;
        GLOBAL struct sort_pair *from = pairs + item / parts * a->extent + first;
        GLOBAL struct sort_pair *to = spare + item / parts * a->extent + first, *other;
        i64 turns = 0;
        n = n < SORT_PART ? n : SORT_PART;
        for (i64 i = 0; i < n; i += SORT_RUN)
            sort_run(from + i, n - i < SORT_RUN ? n - i : SORT_RUN);
        for (i64 width = SORT_RUN; width < n; width *= 2, turns++) {
            for (i64 i = 0; i < n; i += 2 * width) {
                i64 n_a = n - i < width ? n - i : width, n_b = n - i - n_a;
                n_b = n_b < width ? n_b : width;
                sort_merge_some(to + i, n_a + n_b, from + i, 0, n_a, from + i + n_a, 0, n_b);
            }
            other = from;
            from = to;
            to = other;
        }
        if (turns % 2)
            for (i64 i = 0; i < n; i++) to[i] = from[i];
    }
}
ENTRY_SPANS_2(sort_parts, struct sort_pair, struct sort_pair)

/* Each lane merges one part of the result: item l parts + p writes the SORT_PART pairs of line l
 * from p SORT_PART on, from the two runs that are merged there. */
KFN void sort_merge_span(const struct sort_merge_args *a, i64 begin, i64 count,
                         GLOBAL struct sort_pair *to, GLOBAL const struct sort_pair *from)
{
    i64 parts = (a->extent + SORT_PART - 1) / SORT_PART;

    for (i64 item = begin; item < begin + count; item++) {
        i64 line = item / parts * a->extent, place = item % parts * SORT_PART;
        i64 pair = place / (2 * a->width) * (2 * a->width), skip = place - pair;
        i64 n_a = a->extent - pair < a->width ? a->extent - pair : a->width;
        i64 n_b = a->extent - pair - n_a < a->width ? a->extent - pair - n_a : a->width;
        i64 n = a->extent - place < SORT_PART ? a->extent - place : SORT_PART;
        GLOBAL const struct sort_pair *x = from + line + pair, *y = x + n_a;
        i64 low = skip > n_b ? skip - n_b : 0, high = skip < n_a ? skip : n_a;
        while (low < high) { /* finds how many of the first `skip` pairs are in the first run */
            i64 middle = low + (high - low) / 2;
            if (x[middle].key <= y[skip - middle - 1].key) low = middle + 1;
            else high = middle;
        }
        sort_merge_some(to + line + place, n, x, low, n_a, y, skip - low, n_b);
    }
}
ENTRY_SPANS_2(sort_merge, struct sort_pair, const struct sort_pair)

/* Writes elements of the results, of [outer, take, inner]; y or index may be NULL. Items are
 * counted line by line. */
KFN void sort_write_span(const struct sort_write_args *a, i64 begin, i64 count, GLOBAL elem *y,
                         GLOBAL i64 *index, GLOBAL const elem *x,
                         GLOBAL const struct sort_pair *pairs)
{
    for (i64 i = begin; i < begin + count; i++) {
        i64 line = i / a->take, j = i % a->take, number = a->first + line;
        i64 at = pairs[line * a->extent + a->skip + j].at;
        i64 to = line_begin(number, a->take, a->inner) + j * a->inner;
        if (y) y[to] = x[line_begin(number, a->extent, a->inner) + at * a->inner];
        if (index) index[to] = at;
    }
}
ENTRY_SPANS_4(sort_write, elem, i64, const elem, const struct sort_pair)

/* Finds the first of the longest runs of equal keys in a line, and returns the last pair of the
 * run. Each lane has one line. */
KFN void mode_span(const struct mode_args *a, i64 begin, i64 count, GLOBAL elem *y,
                   GLOBAL i64 *index, GLOBAL const elem *x, GLOBAL const struct sort_pair *pairs)
{
    for (i64 line = begin; line < begin + count; line++) {
        GLOBAL const struct sort_pair *p = pairs + line * a->extent;
        i64 best = 0, most = 0, run = 0, number = a->first + line;
        for (i64 i = 0; i < a->extent; i++) {
            run = i && p[i].key == p[i - 1].key ? run + 1 : 1;
            best = run > most ? i : best;
            most = run > most ? run : most;
        }
        y[number] = x[line_begin(number, a->extent, a->inner) + p[best].at * a->inner];
        index[number] = p[best].at;
    }
}
ENTRY_SPANS_4(mode, elem, i64, const elem, const struct sort_pair)

/* Picks few values of each line in one pass over the line; the best values so far are kept in
 * sorted order. */
KFN void pick_span(const struct pick_args *a, i64 begin, i64 count, GLOBAL elem *y,
                   GLOBAL i64 *index, GLOBAL const elem *x)
{
    struct sort_pair best[PICK_MOST];

    for (i64 line = begin; line < begin + count; line++) {
        i64 from = line_begin(line, a->extent, a->inner), n = 0, most = a->skip + a->take;
        i64 to = line_begin(line, a->take, a->inner);
        for (i64 i = 0; i < a->extent; i++) {
            u64 key = sort_key(x[from + i * a->inner], a->down);
            i64 k = n;
            if (n == most && key >= best[n - 1].key) continue;
            n += n < most;
            for (k = n - 1; k > 0 && best[k - 1].key > key; k--) best[k] = best[k - 1];
            best[k].key = key;
            best[k].at = i;
        }
        for (i64 j = 0; j < a->take; j++) {
            i64 at = best[a->skip + j].at;
            y[to + j * a->inner] = x[from + at * a->inner];
            index[to + j * a->inner] = at;
        }
    }
}
ENTRY_SPANS_3(pick, elem, i64, const elem)

KFN i64 unique_is_first(GLOBAL const struct sort_pair *pairs, i64 i)
{
    return !i || pairs[i].key != pairs[i - 1].key;
}

/* Counts the distinct values that begin in each part. */
KFN void unique_count_span(const struct unique_args *a, i64 begin, i64 count, GLOBAL i64 *found,
                           GLOBAL const struct sort_pair *pairs)
{
    for (i64 p = begin; p < begin + count; p++) {
        i64 end = (p + 1) * a->part < a->n ? (p + 1) * a->part : a->n, n = 0;
        for (i64 i = p * a->part; i < end; i++) n += unique_is_first(pairs, i);
        found[p] = n;
    }
}
ENTRY_SPANS_2(unique_count, i64, const struct sort_pair)

/* One lane replaces the count of each part by the sum of the counts before it, and writes the
 * lengths of the outputs: number of all values, and of elements for the inverse. An output that is
 * not wanted is NULL. */
KFN void unique_scan_span(const struct unique_args *a, i64 begin, i64 count, GLOBAL i64 *found,
                          GLOBAL i64 *result, GLOBAL i64 *first, GLOBAL i64 *inverse,
                          GLOBAL i64 *counts)
{
    i64 before = begin;

    (void)count;
    for (i64 p = 0; p < a->parts; p++) {
        i64 n = found[p];
        found[p] = before;
        before += n;
    }
    *result = before;
    if (first) *first = before;
    if (inverse) *inverse = a->n;
    if (counts) *counts = before;
}
ENTRY_SPANS_5(unique_scan, i64, i64, i64, i64, i64)

KFN void unique_write_span(const struct unique_args *a, i64 begin, i64 count, GLOBAL elem *y,
                           GLOBAL i64 *first, GLOBAL i64 *inverse, GLOBAL i64 *counts,
                           GLOBAL const elem *x, GLOBAL const struct sort_pair *pairs,
                           GLOBAL const i64 *before)
{
    for (i64 p = begin; p < begin + count; p++) {
        i64 end = (p + 1) * a->part < a->n ? (p + 1) * a->part : a->n, to = before[p] - 1;
        for (i64 i = p * a->part; i < end; i++) {
            i64 stop = i + 1;
            if (unique_is_first(pairs, i)) {
                y[++to] = x[pairs[i].at];
                if (first) first[to] = pairs[i].at;
                while (counts && stop < a->n && pairs[stop].key == pairs[i].key) stop++;
                if (counts) counts[to] = stop - i;
            }
            if (inverse) inverse[pairs[i].at] = to;
        }
    }
}
ENTRY_SPANS_7(unique_write, elem, i64, i64, i64, const elem, const struct sort_pair, const i64)

/* Computes elements of index. */
KFN void search_span(const struct search_args *a, i64 begin, i64 count, GLOBAL void *index,
                     GLOBAL const elem *sorted, GLOBAL const elem *x)
{
    for (i64 i = begin; i < begin + count; i++) {
        GLOBAL const elem *line = sorted + (a->shared ? 0 : i / a->m * a->n);
        u64 key = sort_key(x[i], 0);
        i64 low = 0, high = a->n;
        while (low < high) {
            i64 middle = low + (high - low) / 2;
            u64 there = sort_key(line[middle], 0);
            if (a->right ? there <= key : there < key) low = middle + 1;
            else high = middle;
        }
        index_put(index, a->wide, i, low);
    }
}
ENTRY_SPANS_3(search, void, const elem, const elem)

/* For i32 and i64. */
KFN void shard_span(const struct shard_args *a, i64 begin, i64 count, GLOBAL elem *y,
                    GLOBAL const elem *x, GLOBAL u32 *fault)
{
    for (i64 i = begin; i < begin + count; i++) {
        i64 v = (i64)elem_ord(x[i]);
        if (v < 0 || v >= a->count) fault_set(fault, 1);
        y[i] = (elem)(v >= 0 && v / a->size == a->shard ? v % a->size : a->ignored);
    }
}
ENTRY_SPANS_3(shard, elem, const elem, u32)

ENTRY_SPANS_2(histogram_range, binned, const elem)
ENTRY_SPANS_3(histogram_count, i64, const elem, const binned)
ENTRY_SPANS_2(histogram_add, i64, const i64)
ENTRY_TEAMS_6(nms, i64, i64, const elem, const elem, const struct sort_pair, u8)
ENTRY_SPANS_3(nms_write, i64, const i64, const i64)
#endif

#endif
