/* SPDX-License-Identifier: Apache-2.0 */
/* predicate.h: whether f(x), element by element, for one dtype (elem.h), as a bool: a byte of 0 or
 * 1. Formulas are in predicate.def. */
#ifndef BP_KERNELS_PREDICATE_H
#define BP_KERNELS_PREDICATE_H

#include "elem.h"
#include "formulas.h"
#include "maths.h"
#include "walk.h"

KFN int acc_is_zero(acc x)
{
#ifdef ELEM_COMPLEX
    return x.re == 0 && x.im == 0;
#else
    return x == 0;
#endif
}

/* predicate_isnan(e) and so on: what one element gives. */
#define PREDICATE_ANY(op, formula) \
    KFN u8 predicate_##op(elem e) \
    { \
        acc x = elem_get(e); \
        return (u8)(formula); \
    }
#ifdef ELEM_FLOAT
#define PREDICATE_FLOAT(op, formula) PREDICATE_ANY(op, formula)
#endif
#include "predicate.def"

#ifndef ON_HOST
/* op is the same for all lanes. */
KFN u8 predicate_elem(int op, elem e)
{
    switch (op) {
#define PREDICATE_ANY(op, formula) case PREDICATE_##op: return predicate_##op(e);
#ifdef ELEM_FLOAT
#define PREDICATE_FLOAT(op, formula) PREDICATE_ANY(op, formula)
#endif
#include "predicate.def"
    default: return 0;
    }
}

/* y, x: operands 0, 1 of walk. */
KERNEL(NAME(predicate))(struct walk_by_value walk, int op, GLOBAL u8 *y, GLOBAL const elem *x)
{
    FOR_ALL(i, walk.count) y[walk_at(&walk, 0, i)] = predicate_elem(op, x[walk_at(&walk, 1, i)]);
}
#endif

#endif
