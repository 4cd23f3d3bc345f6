/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h: reads and writes elements of any type at positions that indices or a mask in memory
 * name. */
#ifndef BP_OPS_INDEX_KERNEL_H
#define BP_OPS_INDEX_KERNEL_H

#include "kernel_row.h"

struct gather_args {
    struct index_rows by;
};

/* y[c] = x[c with index[c] in place of the coordinate along axis], for coordinates c of index.
 * extent and x_step: of x along axis; shape: of index; stride: of x, 0 along axis. */
struct take_args {
    i64 extent, x_step, wide, rank;
    i64 shape[INDEX_AXES], stride[INDEX_AXES];
};

/* x and y are [n, inner]; x is candidate number `which` of `count`. fill: rows of other candidates
 * become 0. */
struct multiplex_args {
    i64 inner, wide, which, count, fill;
};

/* n elements, in parts of `part`. m: the number of values to write, or the room for results. */
struct masked_args {
    i64 n, part, parts, m;
};
#define masked_count_args masked_args
#define masked_scan_args masked_args
#define masked_take_args masked_args
#define masked_put_args masked_args

/* A tensor of this shape, whose element at coordinates c is first + the sum of c y_stride elements
 * into the result, and the sum of c value_stride elements into value. */
struct place_args {
    i64 first, rank;
    i64 shape[INDEX_AXES], y_stride[INDEX_AXES], value_stride[INDEX_AXES];
};

struct copy_args {
    i64 unused;
};

/* Elements t_step apart are steps of a sequence, elements b_step apart are in different sequences;
 * inner: the smaller of both. */
struct reverse_args {
    i64 steps, t_step, batch, b_step, inner, wide;
};

struct gather_tree_args {
    i64 steps, batch, beams;
};

#ifdef ELEM
/* y[o, j, i] = x[o, row named by index j, i]. */
KFN void gather_span(const struct gather_args *a, i64 begin, i64 count, GLOBAL elem *y,
                     GLOBAL const elem *x, GLOBAL const void *index, GLOBAL u32 *fault)
{
    const struct index_rows *r = &a->by;
    i64 line = begin / r->inner, i = begin % r->inner, end = begin + count;
    i64 o = line / r->n, j = line % r->n;

    for (i64 at = begin; at < end; i = 0) {
        i64 stop = at + r->inner - i, from = row_at(r, index, o * r->step + j * r->k, fault);
        stop = stop < end ? stop : end;
        if (from < 0 || from == r->pad) {
            for (; at < stop; at++) y[at] = elem_zero();
        } else {
            from = (o * r->rows + from) * r->inner + i;
            for (; at < stop; at++, from++) y[at] = x[from];
        }
        if (++j == r->n) {
            j = 0;
            o++;
        }
    }
}
ENTRY_SPANS_4(gather, elem, const elem, const void, u32)

KFN void take_span(const struct take_args *a, i64 begin, i64 count, GLOBAL elem *y,
                   GLOBAL const elem *x, GLOBAL const void *index, GLOBAL u32 *fault)
{
    i64 at[INDEX_AXES], from = 0, rest = begin, last = a->rank - 1, end = begin + count;

    for (i64 k = last; k >= 0; k--) {
        at[k] = rest % a->shape[k];
        rest /= a->shape[k];
        from += at[k] * a->stride[k];
    }
    for (i64 i = begin; i < end;) {
        i64 run = a->shape[last] - at[last], step = a->stride[last];
        run = run < end - i ? run : end - i;
        for (i64 r = 0; r < run; r++, i++) {
            i64 k = index_within(index_at(index, a->wide, i), a->extent, 1);
            if (k < 0) fault_set(fault, 1);
            y[i] = k < 0 ? elem_zero() : x[from + r * step + k * a->x_step];
        }
        from += run * step;
        at[last] += run;
        for (i64 k = last; k > 0 && at[k] == a->shape[k]; k--) {
            from += a->stride[k - 1] - a->shape[k] * a->stride[k];
            at[k] = 0;
            at[k - 1]++;
        }
    }
}
ENTRY_SPANS_4(take, elem, const elem, const void, u32)

/* Writes the rows of y that come from x, candidate number `which`. */
KFN void multiplex_span(const struct multiplex_args *a, i64 begin, i64 count, GLOBAL elem *y,
                        GLOBAL const elem *x, GLOBAL const void *index, GLOBAL u32 *fault)
{
    i64 row = begin / a->inner, i = begin % a->inner, end = begin + count;

    for (i64 at = begin; at < end; row++, i = 0) {
        i64 stop = at + a->inner - i, from = index_at(index, a->wide, row);
        stop = stop < end ? stop : end;
        if (from < 0 || from >= a->count) fault_set(fault, 1);
        if (from == a->which)
            for (; at < stop; at++) y[at] = x[at];
        else if (a->fill)
            for (; at < stop; at++) y[at] = elem_zero();
        at = stop;
    }
}
ENTRY_SPANS_4(multiplex, elem, const elem, const void, u32)

/* Counts the set elements of each part. */
KFN void masked_count_span(const struct masked_args *a, i64 begin, i64 count, GLOBAL i64 *found,
                           GLOBAL const u8 *mask)
{
    for (i64 p = begin; p < begin + count; p++) {
        i64 end = (p + 1) * a->part, set = 0;
        end = end < a->n ? end : a->n;
        SIMD_SUM(set)
        for (i64 i = p * a->part; i < end; i++) set += mask[i] != 0;
        found[p] = set;
    }
}
ENTRY_SPANS_2(masked_count, i64, const u8)

/* Run by one lane: replaces the counts by the number of set elements before each part, and writes
 * the total to result. */
KFN void masked_scan_span(const struct masked_args *a, i64 begin, i64 count, GLOBAL i64 *found,
                          GLOBAL i64 *result)
{
    i64 before = begin, set;

    (void)count;
    for (i64 p = 0; p < a->parts; p++) {
        set = found[p];
        found[p] = before;
        before += set;
    }
    if (result) *result = before;
}
ENTRY_SPANS_2(masked_scan, i64, i64)

KFN void masked_take_span(const struct masked_args *a, i64 begin, i64 count, GLOBAL elem *y,
                          GLOBAL const elem *x, GLOBAL const u8 *mask, GLOBAL const i64 *before)
{
    for (i64 p = begin; p < begin + count; p++) {
        i64 end = (p + 1) * a->part, to = before[p];
        end = end < a->n ? end : a->n;
        for (i64 i = p * a->part; i < end; i++)
            if (mask[i]) y[to++] = x[i];
    }
}
ENTRY_SPANS_4(masked_take, elem, const elem, const u8, const i64)

/* y = the values, in order, where mask is set, and 0 where it is not. */
KFN void masked_put_span(const struct masked_args *a, i64 begin, i64 count, GLOBAL elem *y,
                         GLOBAL const elem *values, GLOBAL const u8 *mask,
                         GLOBAL const i64 *before, GLOBAL u32 *fault)
{
    for (i64 p = begin; p < begin + count; p++) {
        i64 end = (p + 1) * a->part, from = before[p];
        end = end < a->n ? end : a->n;
        for (i64 i = p * a->part; i < end; i++) {
            if (mask[i] && from >= a->m) fault_set(fault, 1);
            y[i] = mask[i] && from < a->m ? values[from] : elem_zero();
            from += mask[i] != 0;
        }
    }
}
ENTRY_SPANS_5(masked_put, elem, const elem, const u8, const i64, u32)

KFN void copy_span(const struct copy_args *a, i64 begin, i64 count, GLOBAL elem *y,
                   GLOBAL const elem *x)
{
    (void)a;
    for (i64 i = begin; i < begin + count; i++) y[i] = x[i];
}
ENTRY_SPANS_2(copy, elem, const elem)

/* Copies elements of value, or zeros if value is NULL, to their positions in y. */
KFN void place_span(const struct place_args *a, i64 begin, i64 count, GLOBAL elem *y,
                    GLOBAL const elem *value)
{
    i64 at[INDEX_AXES], to = a->first, from = 0, rest = begin, last = a->rank - 1;
    i64 end = begin + count;

    for (i64 k = last; k >= 0; k--) {
        at[k] = rest % a->shape[k];
        rest /= a->shape[k];
        to += at[k] * a->y_stride[k];
        from += at[k] * a->value_stride[k];
    }
    for (i64 i = begin; i < end;) {
        i64 run = a->shape[last] - at[last], y_step = a->y_stride[last],
            step = a->value_stride[last];
        run = run < end - i ? run : end - i;
        for (i64 r = 0; r < run; r++)
            y[to + r * y_step] = value ? value[from + r * step] : elem_zero();
        i += run;
        to += run * y_step;
        from += run * step;
        at[last] += run;
        for (i64 k = last; k > 0 && at[k] == a->shape[k]; k--) {
            to += a->y_stride[k - 1] - a->shape[k] * a->y_stride[k];
            from += a->value_stride[k - 1] - a->shape[k] * a->value_stride[k];
            at[k] = 0;
            at[k - 1]++;
        }
    }
}
ENTRY_SPANS_2(place, elem, const elem)

KFN void reverse_span(const struct reverse_args *a, i64 begin, i64 count, GLOBAL elem *y,
                      GLOBAL const elem *x, GLOBAL const void *lengths, GLOBAL u32 *fault)
{
    i64 end = begin + count;

    for (i64 at = begin; at < end;) {
        i64 t = at / a->t_step % a->steps, stop = at - at % a->inner + a->inner, by = 0;
        i64 length = index_at(lengths, a->wide, at / a->b_step % a->batch);
        if (length < 0 || length > a->steps) fault_set(fault, 1);
        else if (t < length) by = (length - 1 - 2 * t) * a->t_step;
        for (stop = stop < end ? stop : end; at < stop; at++) y[at] = x[at + by];
    }
}
ENTRY_SPANS_4(reverse, elem, const elem, const void, u32)

/* Follows one beam of the last step back to the first: beam w of batch b is column number b beams +
 * w. */
KFN void gather_tree_span(const struct gather_tree_args *a, i64 begin, i64 count, GLOBAL elem *y,
                          GLOBAL const elem *ids, GLOBAL const elem *parents, GLOBAL u32 *fault)
{
    i64 step = a->batch * a->beams;

    for (i64 column = begin; column < begin + count; column++) {
        i64 first = column - column % a->beams, beam = column % a->beams;
        for (i64 t = a->steps - 1; t >= 0; t--) {
            i64 from = t * step + first + beam;
            y[t * step + column] = ids[from];
            beam = elem_index(parents[from]);
            if (t && (beam < 0 || beam >= a->beams)) fault_set(fault, 1);
            if (beam < 0 || beam >= a->beams) beam = 0;
        }
    }
}
ENTRY_SPANS_4(gather_tree, elem, const elem, const elem, u32)
#endif

#endif
