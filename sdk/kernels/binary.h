/* SPDX-License-Identifier: Apache-2.0 */
/* binary.h: z = f(x, y), element by element, for one dtype (elem.h). Formulas are in binary.def. */
#ifndef BP_KERNELS_BINARY_H
#define BP_KERNELS_BINARY_H

#include "elem.h"
#include "formulas.h"
#include "walk.h"

/* op is a constant where this is inlined, or the same for all lanes. */
KFN acc binary_acc(int op, acc x, acc y)
{
    switch (op) {
#define BINARY_NUMBER(op, formula) case BINARY_##op: return formula;
#ifdef ELEM_FLOAT
#define BINARY_FLOAT(op, formula) case BINARY_##op: return formula;
#endif
#include "binary.def"
    default: return x;
    }
}

KFN elem binary_elem(int op, elem x, elem y)
{
    return elem_put(binary_acc(op, elem_get(x), elem_get(y)));
}

#ifndef ON_HOST
/* z, x, y: operands 0, 1, 2 of walk. z may be x or y, exactly. */
KERNEL(NAME(binary))(struct walk_by_value walk, int op, GLOBAL elem *z, GLOBAL const elem *x,
                     GLOBAL const elem *y)
{
    FOR_ALL(i, walk.count)
    {
        z[walk_at(&walk, 0, i)] = binary_elem(op, x[walk_at(&walk, 1, i)], y[walk_at(&walk, 2, i)]);
    }
}
#endif

#endif
