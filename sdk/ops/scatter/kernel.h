/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h: puts, adds and multiplies elements at positions that indices in memory name. Results
 * are the same with any number of lanes, even if a position is named several times: one lane owns a
 * column of the result and applies all indices in order. So columns run in parallel, and a result
 * with one column is the work of one lane.
 *
 * The kernels compute in `work`, of type sum: f32 for half types, which are rounded once at the
 * end; else `work` is the result. */
#ifndef BP_OPS_SCATTER_KERNEL_H
#define BP_OPS_SCATTER_KERNEL_H

#include "../index/kernel_row.h"

/* The effect on the old element. */
enum { PUT_REPLACE, PUT_ADD, PUT_MULTIPLY };

struct scatter_start_args {
    i64 unused;
};
struct scatter_finish_args {
    i64 unused;
};

/* Updates are [outer, n, inner], the result is [outer, rows, inner]. put: one of the constants
 * above. */
struct scatter_args {
    struct index_rows by;
    i64 put;
};

/* The columns: the axes of index except the indexed one, at least one. n, extent: the extents of
 * the indexed axis in index and in the result; x_step, step: its strides in the result, and in
 * index and updates. */
struct along_args {
    i64 n, extent, x_step, step, wide, put, axes;
    i64 shape[INDEX_AXES - 1], x_stride[INDEX_AXES - 1], stride[INDEX_AXES - 1];
};

/* shape: that of the update; stride, to: strides of the update and of the cache. axis: along which
 * the cache has `extent` places. step: the stride of `at`; 0: one number for all. */
struct cache_write_args {
    i64 rank, axis, extent, step, wide, circular;
    i64 shape[INDEX_AXES], stride[INDEX_AXES], to[INDEX_AXES];
};

/* y is [outer, depth, inner]; index is [outer, inner]. */
struct one_hot_args {
    i64 depth, inner, wide, lenient;
    host_real on, off;
};

/* x is [n, inner]; y is [segments, inner]. */
struct segment_args {
    i64 n, segments, inner, wide, mode;
};
#define segment_check_args segment_args
#define segment_pool_args segment_args
#define segment_grad_args segment_args

/* n numbers, in parts of `part`. Each part has `bins` partial sums. */
struct bincount_args {
    i64 n, part, parts, bins, wide;
};
#define bincount_add_args bincount_args

#ifdef ELEM
#ifdef ELEM_HALF
typedef f32 sum;
#define SUM_GET(s) (s)
#define SUM_PUT(a) (a)
#else
typedef elem sum;
#define SUM_GET(s) elem_get(s)
#define SUM_PUT(a) elem_put(a)
#endif

/* Copies x to work, or writes zeros if x is NULL. */
KFN void scatter_start_span(const struct scatter_start_args *a, i64 begin, i64 count,
                            GLOBAL sum *work, GLOBAL const elem *x)
{
    (void)a;
    if (x)
        for (i64 i = begin; i < begin + count; i++) work[i] = SUM_PUT(elem_get(x[i]));
    else
        for (i64 i = begin; i < begin + count; i++) work[i] = SUM_PUT(acc_zero());
}
ENTRY_SPANS_2(scatter_start, sum, const elem)

KFN void scatter_finish_span(const struct scatter_finish_args *a, i64 begin, i64 count,
                             GLOBAL elem *y, GLOBAL const sum *work)
{
    (void)a;
    for (i64 i = begin; i < begin + count; i++) y[i] = elem_put(SUM_GET(work[i]));
}
ENTRY_SPANS_2(scatter_finish, elem, const sum)

KFN sum combined(i64 put, sum s, elem u)
{
    return put == PUT_ADD        ? SUM_PUT(acc_add(SUM_GET(s), elem_get(u)))
           : put == PUT_MULTIPLY ? SUM_PUT(acc_mul(SUM_GET(s), elem_get(u)))
                                 : SUM_PUT(elem_get(u));
}

/* Applies all indices to columns begin to begin + count - 1 of outer x inner. updates NULL: writes
 * zeros. */
KFN void scatter_span(const struct scatter_args *a, i64 begin, i64 count, GLOBAL sum *work,
                      GLOBAL const elem *updates, GLOBAL const void *index, GLOBAL u32 *fault)
{
    const struct index_rows *r = &a->by;

    for (i64 end = begin + count; begin < end;) {
        i64 o = begin / r->inner, i = begin % r->inner, run = r->inner - i;
        run = run < end - begin ? run : end - begin;
        for (i64 j = 0; j < r->n; j++) {
            i64 row = row_at(r, index, o * r->step + j * r->k, fault);
            i64 to = (o * r->rows + row) * r->inner + i, u = (o * r->n + j) * r->inner + i;
            if (row < 0 || row == r->pad) continue;
            if (!updates)
                for (i64 c = 0; c < run; c++) work[to + c] = SUM_PUT(acc_zero());
            else if (a->put == PUT_ADD)
                for (i64 c = 0; c < run; c++)
                    work[to + c] = combined(PUT_ADD, work[to + c], updates[u + c]);
            else
                for (i64 c = 0; c < run; c++)
                    work[to + c] = combined(PUT_REPLACE, work[to + c], updates[u + c]);
        }
        begin += run;
    }
}
ENTRY_SPANS_4(scatter, sum, const elem, const void, u32)

/* Applies all indices to columns begin to begin + count - 1, in runs along the last axis. */
KFN void along_span(const struct along_args *a, i64 begin, i64 count, GLOBAL sum *work,
                    GLOBAL const elem *updates, GLOBAL const void *index, GLOBAL u32 *fault)
{
    i64 last = a->axes - 1;

    for (i64 end = begin + count; begin < end;) {
        i64 rest = begin, to = 0, from = 0, run = a->shape[last] - begin % a->shape[last];
        for (i64 k = last; k >= 0; k--) {
            i64 at = rest % a->shape[k];
            rest /= a->shape[k];
            to += at * a->x_stride[k];
            from += at * a->stride[k];
        }
        run = run < end - begin ? run : end - begin;
        for (i64 j = 0; j < a->n; j++)
            for (i64 c = 0; c < run; c++) {
                i64 u = from + j * a->step + c * a->stride[last];
                i64 row = index_within(index_at(index, a->wide, u), a->extent, 1);
                i64 t = to + c * a->x_stride[last] + row * a->x_step;
                if (row < 0) fault_set(fault, 1);
                else work[t] = combined(a->put, work[t], updates[u]);
            }
        begin += run;
    }
}
ENTRY_SPANS_4(along, sum, const elem, const void, u32)

/* Writes elements of the update, in runs along the last axis. A part that does not fit at its
 * position sets the fault, and is not written. */
KFN void cache_write_span(const struct cache_write_args *a, i64 begin, i64 count,
                          GLOBAL elem *cache, GLOBAL const elem *update, GLOBAL const void *at,
                          GLOBAL u32 *fault)
{
    i64 last = a->rank - 1;

    for (i64 end = begin + count; begin < end;) {
        i64 rest = begin, from = 0, to = 0, row = 0, first = 0, place, run, fits;
        run = a->axis == last ? 1 : a->shape[last] - begin % a->shape[last];
        run = run < end - begin ? run : end - begin;
        for (i64 k = last; k >= 0; k--) {
            first = rest % a->shape[k];
            rest /= a->shape[k];
            from += first * a->stride[k];
            if (k == a->axis) row = first;
            else to += first * a->to[k];
        }
        place = at ? index_at(at, a->wide, first * a->step) : 0;
        fits = place >= 0 && (a->circular || place <= a->extent - a->shape[a->axis]);
        row = fits ? place % a->extent + row : 0;
        row -= row >= a->extent ? a->extent : 0;
        to += row * a->to[a->axis];
        if (!fits) fault_set(fault, 1);
        for (i64 i = 0; i < run && fits; i++)
            cache[to + i * a->to[last]] = update[from + i * a->stride[last]];
        begin += run;
    }
}
ENTRY_SPANS_4(cache_write, elem, const elem, const void, u32)

/* Converts an attribute to this type; integers are truncated. */
KFN elem elem_of_real(real x)
{
#if defined(ELEM_FLOAT) || defined(ELEM_COMPLEX)
    return elem_put(number(x));
#else
    return (elem)(i64)x;
#endif
}

KFN void one_hot_span(const struct one_hot_args *a, i64 begin, i64 count, GLOBAL elem *y,
                      GLOBAL const void *index, GLOBAL u32 *fault)
{
    elem on = elem_of_real(a->on), off = elem_of_real(a->off);

    for (i64 at = begin; at < begin + count; at++) {
        i64 line = at / a->inner, i = at % a->inner;
        i64 o = line / a->depth, d = line % a->depth;
        i64 k = index_within(index_at(index, a->wide, o * a->inner + i), a->depth, 1);
        if (k < 0 && !a->lenient) fault_set(fault, 1);
        y[at] = k == d ? on : off;
    }
}
ENTRY_SPANS_3(one_hot, elem, const void, u32)

/* Sets the fault unless the ids ascend and name segments. */
KFN void segment_check_span(const struct segment_args *a, i64 begin, i64 count,
                            GLOBAL const void *ids, GLOBAL u32 *fault)
{
    for (i64 i = begin; i < begin + count; i++) {
        i64 id = index_at(ids, a->wide, i);
        if (id < 0 || id >= a->segments || (i && id < index_at(ids, a->wide, i - 1)))
            fault_set(fault, 1);
    }
}

/* Returns the number of ids below id, which is the first row of its segment. */
KFN i64 segment_begin(const struct segment_args *a, GLOBAL const void *ids, i64 id)
{
    i64 low = 0, high = a->n;

    while (low < high) {
        i64 middle = low + (high - low) / 2;
        if (index_at(ids, a->wide, middle) < id) low = middle + 1;
        else high = middle;
    }
    return low;
}

#ifndef ELEM_COMPLEX
/* Returns the larger (mode 2) or smaller of two elements; NaN wins over numbers. */
KFN elem segment_better(elem a, elem b, i64 mode)
{
    ord x = elem_ord(a), y = elem_ord(b);

    return ord_nan(y) || (mode == 2 ? y > x : y < x) ? b : a;
}

KFN elem segment_mean(acc s, i64 n)
{
#ifdef ELEM_FLOAT
    return elem_put(s / (acc)n);
#else
    return elem_of_ord(elem_ord(elem_put(s)) / (ord)n);
#endif
}

/* Reduces one column of one segment: rows from to end - 1. */
KFN elem segment_column(const struct segment_args *a, i64 from, i64 end, GLOBAL const elem *x)
{
    acc s = acc_zero();
    elem best;

    if (from >= end) return elem_zero();
    best = x[from * a->inner];
    if (a->mode >= 2) {
        for (i64 r = from + 1; r < end; r++)
            best = segment_better(best, x[r * a->inner], a->mode);
        return best;
    }
    for (i64 r = from; r < end; r++) s = acc_add(s, elem_get(x[r * a->inner]));
    return a->mode == 1 ? segment_mean(s, end - from) : elem_put(s);
}

/* Computes elements of y. */
KFN void segment_pool_span(const struct segment_args *a, i64 begin, i64 count, GLOBAL elem *y,
                           GLOBAL const elem *x, GLOBAL const void *ids)
{
    i64 segment = begin / a->inner, i = begin % a->inner, end = begin + count;

    for (i64 at = begin; at < end; segment++, i = 0) {
        i64 from = segment_begin(a, ids, segment), stop = segment_begin(a, ids, segment + 1);
        for (; i < a->inner && at < end; i++, at++) y[at] = segment_column(a, from, stop, x + i);
    }
}

/* Computes elements of dx. */
KFN void segment_grad_span(const struct segment_args *a, i64 begin, i64 count, GLOBAL elem *dx,
                           GLOBAL const elem *x, GLOBAL const void *ids, GLOBAL const elem *y,
                           GLOBAL const elem *dy)
{
    i64 row = begin / a->inner, i = begin % a->inner, end = begin + count;

    for (i64 at = begin; at < end; row++, i = 0) {
        i64 id = index_at(ids, a->wide, row), n = 1;
        i64 in_range = id >= 0 && id < a->segments;
        if (in_range && a->mode == 1)
            n = segment_begin(a, ids, id + 1) - segment_begin(a, ids, id);
        n = n < 1 ? 1 : n;
        for (; i < a->inner && at < end; i++, at++) {
            i64 from = id * a->inner + i;
            i64 mine = in_range && (a->mode < 2 || elem_ord(x[at]) == elem_ord(y[from]));
            dx[at] = !mine          ? elem_zero()
                     : a->mode == 1 ? segment_mean(elem_get(dy[from]), n)
                                    : dy[from];
        }
    }
}
#else
KFN void segment_pool_span(const struct segment_args *a, i64 begin, i64 count, GLOBAL elem *y,
                           GLOBAL const elem *x, GLOBAL const void *ids)
{
    (void)a, (void)begin, (void)count, (void)y, (void)x, (void)ids; /* no kernel row */
}
KFN void segment_grad_span(const struct segment_args *a, i64 begin, i64 count, GLOBAL elem *dx,
                           GLOBAL const elem *x, GLOBAL const void *ids, GLOBAL const elem *y,
                           GLOBAL const elem *dy)
{
    (void)a, (void)begin, (void)count, (void)dx, (void)x, (void)ids, (void)y, (void)dy;
}
#endif
ENTRY_SPANS_2(segment_check, const void, u32)
ENTRY_SPANS_3(segment_pool, elem, const elem, const void)
ENTRY_SPANS_5(segment_grad, elem, const elem, const void, const elem, const elem)

/* Computes the partial sums of each part; weights NULL: all weights are 1. */
KFN void bincount_span(const struct bincount_args *a, i64 begin, i64 count, GLOBAL acc *sums,
                       GLOBAL const void *x, GLOBAL const elem *weights, GLOBAL u32 *fault)
{
    for (i64 p = begin; p < begin + count; p++) {
        GLOBAL acc *mine = sums + p * a->bins;
        i64 end = (p + 1) * a->part < a->n ? (p + 1) * a->part : a->n;
        for (i64 b = 0; b < a->bins; b++) mine[b] = acc_zero();
        for (i64 i = p * a->part; i < end; i++) {
            i64 b = index_within(index_at(x, a->wide, i), a->bins, 0);
            if (b < 0) fault_set(fault, 1);
            else mine[b] = acc_add(mine[b], weights ? elem_get(weights[i]) : number(1));
        }
    }
}
ENTRY_SPANS_4(bincount, acc, const void, const elem, u32)

KFN void bincount_add_span(const struct bincount_args *a, i64 begin, i64 count, GLOBAL elem *y,
                           GLOBAL const acc *sums)
{
    for (i64 b = begin; b < begin + count; b++) {
        acc s = acc_zero();
        for (i64 p = 0; p < a->parts; p++) s = acc_add(s, sums[p * a->bins + b]);
        y[b] = elem_put(s);
    }
}
ENTRY_SPANS_2(bincount_add, elem, const acc)

#undef SUM_GET
#undef SUM_PUT
#endif

#endif
