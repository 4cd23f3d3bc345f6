/* SPDX-License-Identifier: Apache-2.0 */
/* where.h: z = x where c, else y, element by element, for one size of elements (elem.h). */
#ifndef BP_KERNELS_WHERE_H
#define BP_KERNELS_WHERE_H

#include "elem.h"
#include "walk.h"

KFN elem where_elem(int c, elem x, elem y)
{
    if (c) return x;
    return y;
}

#ifndef ON_HOST
/* z, c, x, y: operands 0 to 3 of walk; x or y may be NULL: zero. z may be x or y, exactly. */
KERNEL(NAME(where))(struct walk_by_value walk, GLOBAL elem *z, GLOBAL const u8 *c,
                    GLOBAL const elem *x, GLOBAL const elem *y)
{
    elem zero = elem_put(acc_zero());

    FOR_ALL(i, walk.count)
    {
        int first = c[walk_at(&walk, 1, i)] != 0;
        elem p = x ? x[walk_at(&walk, 2, i)] : zero, q = y ? y[walk_at(&walk, 3, i)] : zero;
        z[walk_at(&walk, 0, i)] = where_elem(first, p, q);
    }
}
#endif

#endif
