/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h: moves elements of any type to other positions: in any order of axes, reversed,
 * repeated, or with borders. Innermost runs are loops with one stride; those of stride 1 are plain
 * copies. */
#ifndef BP_OPS_COPY_KERNEL_H
#define BP_OPS_COPY_KERNEL_H

#include "../../dialect/dialect.h"

enum { MOVE_AXES = 16, BORDER_AXES = 8 };

/* A tensor of this shape, axis 0 the outermost. The element at coordinates c is y_first + the sum
 * of c y_stride elements into the result, and x_first + the sum of c x_stride into the input.
 * Strides may be negative. rank is 1 or more. */
struct move_strided_args {
    i64 rank, y_first, x_first;
    i64 shape[MOVE_AXES], y_stride[MOVE_AXES], x_stride[MOVE_AXES];
};

/* As move_strided_args, with one value in place of x: its bits, for elements of 16 bytes in two
 * halves. */
struct move_fill_args {
    u64 low, high;
    i64 rank, y_first;
    i64 shape[BORDER_AXES], y_stride[BORDER_AXES];
};

/* y of this shape, from x of these extents: x's first element is number `before` of y along each
 * axis. mode: the mode of the operator pad. */
struct move_border_args {
    u64 low, high;
    i64 rank, mode;
    i64 shape[BORDER_AXES], y_stride[BORDER_AXES];
    i64 extent[BORDER_AXES], before[BORDER_AXES], x_stride[BORDER_AXES];
};

/* Matrices one after the other. The element at i, j is kept where j - i <= diagonal, or with
 * `upper` where j - i >= diagonal; other elements become 0. */
struct move_triangle_args {
    i64 rows, columns, diagonal, upper;
};

#ifdef ELEM
#include "../../dialect/entry.h"

/* Makes an element from its bits. */
KFN elem elem_of_bits(u64 low, u64 high)
{
#if defined(ELEM_c128)
    elem z;
    z.re = f64_from_bits(low);
    z.im = f64_from_bits(high);
    return z;
#else
    (void)high;
    return (elem)low;
#endif
}

/* Copies n elements with these strides. */
KFN void move_run(GLOBAL elem *y, i64 y_step, GLOBAL const elem *x, i64 x_step, i64 n)
{
    if (y_step == 1 && x_step == 1) {
        SIMD for (i64 i = 0; i < n; i++) y[i] = x[i];
    } else if (y_step == 1 && x_step == 0) {
        elem value = x[0];
        SIMD for (i64 i = 0; i < n; i++) y[i] = value;
    } else if (y_step == 1 && x_step == -1) {
        SIMD for (i64 i = 0; i < n; i++) y[i] = x[-i];
    } else {
        for (i64 i = 0; i < n; i++) y[i * y_step] = x[i * x_step];
    }
}

KFN void move_value(GLOBAL elem *y, i64 y_step, elem value, i64 n)
{
    if (y_step == 1) {
        SIMD for (i64 i = 0; i < n; i++) y[i] = value;
    } else {
        for (i64 i = 0; i < n; i++) y[i * y_step] = value;
    }
}

KFN void move_strided_span(const struct move_strided_args *a, i64 begin, i64 count, GLOBAL elem *y,
                           GLOBAL const elem *x)
{
    i64 at[MOVE_AXES], to = a->y_first, from = a->x_first, rest = begin, last = a->rank - 1;
    i64 end = begin + count;

    for (i64 k = last; k >= 0; k--) {
        at[k] = rest % a->shape[k];
        rest /= a->shape[k];
        to += at[k] * a->y_stride[k];
        from += at[k] * a->x_stride[k];
    }
    for (i64 i = begin; i < end;) {
        i64 run = a->shape[last] - at[last];
        run = run < end - i ? run : end - i;
        move_run(y + to, a->y_stride[last], x + from, a->x_stride[last], run);
        i += run;
        to += run * a->y_stride[last];
        from += run * a->x_stride[last];
        at[last] += run;
        for (i64 k = last; k > 0 && at[k] == a->shape[k]; k--) {
            to += a->y_stride[k - 1] - a->shape[k] * a->y_stride[k];
            from += a->x_stride[k - 1] - a->shape[k] * a->x_stride[k];
            at[k] = 0;
            at[k - 1]++;
        }
    }
}
ENTRY_SPANS_2(move_strided, elem, const elem)

KFN void move_fill_span(const struct move_fill_args *a, i64 begin, i64 count, GLOBAL elem *y)
{
    i64 at[BORDER_AXES], to = a->y_first, rest = begin, last = a->rank - 1, end = begin + count;
    elem value = elem_of_bits(a->low, a->high);

    for (i64 k = last; k >= 0; k--) {
        at[k] = rest % a->shape[k];
        rest /= a->shape[k];
        to += at[k] * a->y_stride[k];
    }
    for (i64 i = begin; i < end;) {
        i64 run = a->shape[last] - at[last];
        run = run < end - i ? run : end - i;
        move_value(y + to, a->y_stride[last], value, run);
        i += run;
        to += run * a->y_stride[last];
        at[last] += run;
        for (i64 k = last; k > 0 && at[k] == a->shape[k]; k--) {
            to += a->y_stride[k - 1] - a->shape[k] * a->y_stride[k];
            at[k] = 0;
            at[k - 1]++;
        }
    }
}
ENTRY_SPANS_1(move_fill, elem)

/* Returns which element of x the element i along an axis of y is; below 0: the value. */
KFN i64 border_at(const struct move_border_args *a, i64 axis, i64 i)
{
    i64 n = a->extent[axis], k = i - a->before[axis];

    if (k >= 0 && k < n) return k;
    if (a->mode == 1) return k < 0 ? -k : 2 * (n - 1) - k;
    if (a->mode == 2) return k < 0 ? 0 : n - 1;
    if (a->mode == 3) return k < 0 ? k + n : k - n;
    return -1;
}

/* Writes elements first to end - 1 of the last axis, which are all in the border. */
KFN void move_edge(const struct move_border_args *a, i64 first, i64 end, GLOBAL elem *y,
                   GLOBAL const elem *x, elem value)
{
    i64 last = a->rank - 1, step = a->y_stride[last];

    if (a->mode == 0) {
        move_value(y + first * step, step, value, end - first);
        return;
    }
    for (i64 i = first; i < end; i++) y[i * step] = x[border_at(a, last, i) * a->x_stride[last]];
}

/* Writes elements first to end - 1 of a line along the last axis; x NULL: the whole line is the
 * value. */
KFN void move_line(const struct move_border_args *a, i64 first, i64 end, GLOBAL elem *y,
                   GLOBAL const elem *x, elem value)
{
    i64 last = a->rank - 1, low = a->before[last], high = low + a->extent[last];
    i64 step = a->y_stride[last], x_step = a->x_stride[last];

    if (!x) {
        move_value(y + first * step, step, value, end - first);
        return;
    }
    low = low < first ? first : low > end ? end : low;
    high = high < low ? low : high > end ? end : high;
    if (first < low) move_edge(a, first, low, y, x, value);
    if (low < high)
        move_run(y + low * step, step, x + (low - a->before[last]) * x_step, x_step, high - low);
    if (high < end) move_edge(a, high, end, y, x, value);
}

KFN void move_border_span(const struct move_border_args *a, i64 begin, i64 count, GLOBAL elem *y,
                          GLOBAL const elem *x)
{
    i64 at[BORDER_AXES], rest = begin, last = a->rank - 1, end = begin + count;
    elem value = elem_of_bits(a->low, a->high);

    for (i64 k = last; k >= 0; k--) {
        at[k] = rest % a->shape[k];
        rest /= a->shape[k];
    }
    for (i64 i = begin; i < end;) {
        i64 to = 0, from = 0, run = a->shape[last] - at[last], inside = 1;
        run = run < end - i ? run : end - i;
        for (i64 k = 0; k < last; k++) {
            i64 c = border_at(a, k, at[k]);
            inside = inside && c >= 0;
            to += at[k] * a->y_stride[k];
            from += c * a->x_stride[k];
        }
        move_line(a, at[last], at[last] + run, y + to, inside ? x + from : (GLOBAL const elem *)0,
                  value);
        i += run;
        at[last] += run;
        for (i64 k = last; k > 0 && at[k] == a->shape[k]; k--) {
            at[k] = 0;
            at[k - 1]++;
        }
    }
}
ENTRY_SPANS_2(move_border, elem, const elem)

/* y may be x: then elements that are kept are not written. */
KFN void move_triangle_span(const struct move_triangle_args *a, i64 begin, i64 count,
                            GLOBAL elem *y, GLOBAL const elem *x)
{
    i64 j = begin % a->columns, row = begin / a->columns, r = row % a->rows, end = begin + count;

    for (i64 i = begin; i < end;) {
        /* Columns below cut are on one side of the diagonal. */
        i64 cut = r + a->diagonal + (a->upper ? 0 : 1), stop = i + a->columns - j, middle;
        stop = stop < end ? stop : end;
        middle = i + (cut < j ? 0 : cut - j);
        middle = middle < stop ? middle : stop;
        if (a->upper) {
            move_value(y + i, 1, elem_of_bits(0, 0), middle - i);
            if (x != y) move_run(y + middle, 1, x + middle, 1, stop - middle);
        } else {
            if (x != y) move_run(y + i, 1, x + i, 1, middle - i);
            move_value(y + middle, 1, elem_of_bits(0, 0), stop - middle);
        }
        i = stop;
        j = 0;
        r = r + 1 == a->rows ? 0 : r + 1;
    }
}
ENTRY_SPANS_2(move_triangle, elem, const elem)
#endif

#endif
