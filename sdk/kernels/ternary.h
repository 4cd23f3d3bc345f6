/* SPDX-License-Identifier: Apache-2.0 */
/* ternary.h: w = f(x, y, z), element by element, for one float dtype (elem.h). Formulas are in
 * ternary.def. */
#ifndef BP_KERNELS_TERNARY_H
#define BP_KERNELS_TERNARY_H

#include "elem.h"
#include "formulas.h"
#include "walk.h"

/* op is a constant where this is inlined, or the same for all lanes. */
KFN elem ternary_elem(int op, elem p, elem q, elem r, acc a)
{
    acc x = elem_get(p), y = elem_get(q), z = elem_get(r);

    switch (op) {
#define TERNARY_FLOAT(op, formula) case TERNARY_##op: return elem_put(formula);
#include "ternary.def"
    default: return p;
    }
}

#ifndef ON_HOST
/* w, x, y, z: operands 0 to 3 of walk. w may be one of the others, exactly. */
KERNEL(NAME(ternary))(struct walk_by_value walk, int op, real a, GLOBAL elem *w,
                      GLOBAL const elem *x, GLOBAL const elem *y, GLOBAL const elem *z)
{
    FOR_ALL(i, walk.count)
    {
        w[walk_at(&walk, 0, i)] = ternary_elem(op, x[walk_at(&walk, 1, i)], y[walk_at(&walk, 2, i)],
                                               z[walk_at(&walk, 3, i)], number(a));
    }
}
#endif

#endif
