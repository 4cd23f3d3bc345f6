/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h: creates tensors from arguments alone: evenly spaced numbers, lists of numbers, indices
 * of triangles. */
#ifndef BP_OPS_CREATE_KERNEL_H
#define BP_OPS_CREATE_KERNEL_H

#include "../../dialect/dialect.h"

enum { CREATE_NUMBERS = 8 };

/* Evenly spaced numbers, computed as real: start + i step for i below middle, last - (n - 1 - i)
 * step from there on. For integers: first + i by. */
struct create_line_args {
    host_real start, last, step;
    i64 n, middle, first, by;
};

/* A list of numbers, each written `step` elements after the one before. */
struct create_numbers_args {
    i64 step;
    i64 number[CREATE_NUMBERS];
};

/* The indices of a triangle. Row i of the lower one has i + offset + 1 elements from row `first`
 * on, and all columns from row `full` on; the upper one has all other elements. n: the number of
 * elements. */
struct create_triangle_args {
    i64 n, rows, columns, first, full, offset, upper;
};

#ifdef ELEM
#include "../../dialect/entry.h"

/* Converts a number to an element; to half types without an intermediate rounding. */
KFN elem elem_of_real(real x)
{
#if defined(ELEM_HALF) && defined(HAS_F64)
    return elem_put(f32_from_f64_odd(x));
#else
    return elem_put((acc)x);
#endif
}

KFN void create_line_span(const struct create_line_args *a, i64 begin, i64 count, GLOBAL elem *y)
{
#ifdef ELEM_FLOAT
    i64 end = begin + count, middle = a->middle < begin ? begin : a->middle;

    middle = middle < end ? middle : end;
    for (i64 i = begin; i < middle; i++) y[i] = elem_of_real(a->start + (real)i * a->step);
    for (i64 i = middle; i < end; i++)
        y[i] = elem_of_real(a->last - (real)(a->n - 1 - i) * a->step);
#else
    for (i64 i = begin; i < begin + count; i++) y[i] = (elem)((u64)a->first + (u64)i * (u64)a->by);
#endif
}
ENTRY_SPANS_1(create_line, elem)

KFN void create_numbers_span(const struct create_numbers_args *a, i64 begin, i64 count,
                             GLOBAL elem *y)
{
    for (i64 i = begin; i < begin + count; i++) y[i * a->step] = elem_put((acc)a->number[i]);
}
ENTRY_SPANS_1(create_numbers, elem)

/* Returns the number of elements of the lower triangle in rows before `row`. */
KFN i64 create_lower(const struct create_triangle_args *a, i64 row)
{
    i64 part = (row < a->full ? row : a->full) - a->first;

    if (part < 0) return 0;
    return part * (a->first + a->offset + 1) + part * (part - 1) / 2 +
           (row > a->full ? (row - a->full) * a->columns : 0);
}

KFN i64 create_before(const struct create_triangle_args *a, i64 row)
{
    i64 lower = create_lower(a, row);

    return a->upper ? row * a->columns - lower : lower;
}

/* Writes elements k of the lists of rows and of columns. The first row is found by bisection. */
KFN void create_triangle_span(const struct create_triangle_args *a, i64 begin, i64 count,
                              GLOBAL elem *y)
{
    i64 row = 0, over = a->rows, end = begin + count;

    while (over - row > 1) {
        i64 middle = row + (over - row) / 2;
        if (create_before(a, middle) <= begin) row = middle;
        else over = middle;
    }
    for (i64 k = begin; k < end; row++) {
        i64 from = create_before(a, row), to = create_before(a, row + 1);
        i64 stop = to < end ? to : end, column = (a->upper ? a->columns - (to - from) : 0) - from;
        for (; k < stop; k++) {
            y[k] = elem_put((acc)row);
            y[a->n + k] = elem_put((acc)(column + k));
        }
    }
}
ENTRY_SPANS_1(create_triangle, elem)
#endif

#endif
