/* SPDX-License-Identifier: Apache-2.0 */
/* move.h: elements from one place to another, of any strides, for one size of elements (elem.h). */
#ifndef BP_KERNELS_MOVE_H
#define BP_KERNELS_MOVE_H

#include "entry.h"
#include "move_args.h"

/* x may be NULL: zero. */
KFN void move_span(const struct move_args *a, i64 begin, i64 n, GLOBAL elem *y,
                   GLOBAL const elem *x)
{
    elem zero = elem_put(acc_zero());

    FOR_RUNS(r, &a->walk, begin, n)
    {
        for (i64 i = 0; i < r.n; i++)
            y[r.at[0] + i * r.step[0]] = x ? x[r.at[1] + i * r.step[1]] : zero;
    }
}
ENTRY_SPANS_2(move, elem, const elem)

#endif
