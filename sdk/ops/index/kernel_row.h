/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_row.h: finds the row that an index in memory names, for kernels that read (kernel.h) and
 * write (scatter/kernel.h) rows. */
#ifndef BP_OPS_INDEX_KERNEL_ROW_H
#define BP_OPS_INDEX_KERNEL_ROW_H

#include "../../dialect/dialect.h"

enum { INDEX_AXES = 8 };

/* How rows of a tensor [outer, rows, inner] are named: each by k adjacent indices, one for each of
 * k axes of extents dim, whose product is rows. There are n names for each outer; the names of the
 * next outer are `step` indices further (0: all share one list). wide: indices are i64, otherwise
 * i32. wrap: negative indices count from the end. pad: a row that reads as zeros and is not written
 * (-1: none). */
struct index_rows {
    i64 rows, inner, n, k, step, wide, wrap, pad;
    i64 dim[INDEX_AXES];
};

#ifdef ELEM
#include "../../dialect/entry.h"

/* Returns an index into extent, counted from the first; -1 if it is outside. wrap: negative indices
 * count from the end. */
KFN i64 index_within(i64 i, i64 extent, i64 wrap)
{
    i += i < 0 && wrap ? extent : 0;
    return i < 0 || i >= extent ? -1 : i;
}

/* Returns the row that the k indices from number `at` on name; if an index is outside, sets the
 * fault and returns -1. */
KFN i64 row_at(const struct index_rows *r, GLOBAL const void *index, i64 at, GLOBAL u32 *fault)
{
    i64 row = 0;

    for (i64 a = 0; a < r->k && row >= 0; a++) {
        i64 i = index_within(index_at(index, r->wide, at + a), r->dim[a], r->wrap);
        row = i < 0 ? -1 : row * r->dim[a] + i;
    }
    if (row < 0) fault_set(fault, 1);
    return row;
}

KFN elem elem_zero(void)
{
    return elem_put(acc_zero());
}

/* Returns an element of i32 or i64 as an index; for other types the result is meaningless. */
KFN i64 elem_index(elem x)
{
#ifdef ELEM_COMPLEX
    return (i64)x.re;
#elif defined(ELEM_i32)
    return (i32)x;
#else
    return (i64)x;
#endif
}
#endif

#endif
