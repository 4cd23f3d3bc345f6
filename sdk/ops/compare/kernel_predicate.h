/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_predicate.h: computes predicates of one input, such as isnan: whether f(x) holds, element
 * by element, for one dtype (elem.h), as a bool: a byte of 0 or 1. The formulas are in
 * kernels_predicate.def. */
#ifndef BP_OPS_COMPARE_KERNEL_PREDICATE_H
#define BP_OPS_COMPARE_KERNEL_PREDICATE_H

#include "../../dialect/elem.h"
#include "../common/kernel_formulas.h"
#include "../../dialect/maths.h"

KFN int acc_is_zero(acc x)
{
#ifdef ELEM_COMPLEX
    return x.re == 0 && x.im == 0;
#else
    return x == 0;
#endif
}

/* predicate_isnan(e) and so on: the result for one element. */
#define PREDICATE_OF(of, formula) \
    KFN u8 of(elem e) \
    { \
        acc x = elem_get(e); \
        return (u8)(formula); \
    }
#define PREDICATE_ANY(op, formula) PREDICATE_OF(predicate_##op, formula)
#ifdef ELEM_FLOAT
#define PREDICATE_FLOAT(op, formula) PREDICATE_OF(predicate_##op, formula)
#endif
#include "kernels_predicate.def"
#undef PREDICATE_OF

#endif
