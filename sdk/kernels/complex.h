/* SPDX-License-Identifier: Apache-2.0 */
/* complex.h: complex numbers from real ones and back, element by element, for f32 (c64) and f64
 * (c128): elem is a part, and a complex number two of them, side by side. Formulas are in
 * complex.def. Strides count elements of each operand's own kind. */
#ifndef BP_KERNELS_COMPLEX_H
#define BP_KERNELS_COMPLEX_H

#include "elem.h"
#include "formulas.h"
#include "pairs.h"
#include "walk.h"

/* op is a constant where these are inlined, or the same for all lanes. */
KFN elem complex_part(int op, elem re, elem im)
{
    switch (op) {
#define COMPLEX_PART(op, formula) case COMPLEX_##op: return formula;
#include "complex.def"
    default: return re;
    }
}

/* Part number i of a complex result. */
KFN elem complex_pair(int op, int i, elem re, elem im)
{
    switch (op) {
#define COMPLEX_MAKE(op, first, second) case COMPLEX_##op: return i ? second : first;
#define COMPLEX_PAIR(op, first, second) case COMPLEX_##op: return i ? second : first;
#include "complex.def"
    default: return re;
    }
}

#ifndef ON_HOST
/* y, x: operands 0, 1 of walk; y is real. */
KERNEL(NAME(complex_part))(struct walk_by_value walk, int op, GLOBAL elem *y, GLOBAL const elem *x)
{
    FOR_ALL(i, walk.count)
    {
        i64 at = 2 * walk_at(&walk, 1, i);
        y[walk_at(&walk, 0, i)] = complex_part(op, x[at], x[at + 1]);
    }
}

/* y, x: operands 0, 1 of walk, both complex. y may be x, exactly. */
KERNEL(NAME(complex_pair))(struct walk_by_value walk, int op, GLOBAL elem *y, GLOBAL const elem *x)
{
    FOR_ALL(i, walk.count)
    {
        i64 at = 2 * walk_at(&walk, 1, i), to = 2 * walk_at(&walk, 0, i);
        elem re = x[at], im = x[at + 1];
        y[to] = complex_pair(op, 0, re, im);
        y[to + 1] = complex_pair(op, 1, re, im);
    }
}

/* z, re, im: operands 0, 1, 2 of walk; z is complex. */
KERNEL(NAME(complex_make))(struct walk_by_value walk, int op, GLOBAL elem *z,
                           GLOBAL const elem *re, GLOBAL const elem *im)
{
    FOR_ALL(i, walk.count)
    {
        i64 to = 2 * walk_at(&walk, 0, i);
        elem first = re[walk_at(&walk, 1, i)], second = im[walk_at(&walk, 2, i)];
        z[to] = complex_pair(op, 0, first, second);
        z[to + 1] = complex_pair(op, 1, first, second);
    }
}
#endif

#endif
