/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h: computes comparisons and logic of two inputs: whether f(x, y) holds, element by
 * element, for one dtype (elem.h; bool as u8). The formulas are in kernels.def. A result is 0 or
 * 1. */
#ifndef BP_OPS_COMPARE_KERNEL_H
#define BP_OPS_COMPARE_KERNEL_H

#include "../../dialect/elem.h"
#include "../common/kernel_formulas.h"
#include "../../dialect/pairs.h"

KFN int elem_equal(elem x, elem y)
{
#ifdef ELEM_COMPLEX
    return (x.re == y.re) & (x.im == y.im);
#else
    return elem_get(x) == elem_get(y);
#endif
}

KFN int elem_truth(elem x)
{
#ifdef ELEM_COMPLEX
    return (x.re != 0) | (x.im != 0);
#else
    return elem_get(x) != 0;
#endif
}

/* op is a constant where these functions are inlined, otherwise it is equal for all lanes. */
KFN int compare_truth(int op, int x, int y)
{
    switch (op) {
#define COMPARE_TRUTH(op, formula) case COMPARE_##op: return formula;
#include "kernels.def"
    default: return 0;
    }
}

#ifndef ELEM_COMPLEX
KFN int compare_ord(int op, ord x, ord y)
{
    switch (op) {
#define COMPARE_REAL(op, formula) case COMPARE_##op: return formula;
#include "kernels.def"
    default: return 0;
    }
}
#endif

#ifdef ELEM_FLOAT
KFN int compare_acc(int op, acc x, acc y, acc a, acc b, int c)
{
    switch (op) {
#define COMPARE_FLOAT(op, formula) case COMPARE_##op: return formula;
#include "kernels.def"
    default: return 0;
    }
}
#endif

KFN u8 compare_elem(int op, elem x, elem y, acc a, acc b, int c)
{
    (void)a;
    (void)b;
    (void)c;
    switch (op) {
#define COMPARE_ANY(op, formula) case COMPARE_##op: return (u8)(formula);
#include "kernels.def"
#define COMPARE_TRUTH(op, formula) case COMPARE_##op:
#include "kernels.def"
        return (u8)compare_truth(op, elem_truth(x), elem_truth(y));
#ifndef ELEM_COMPLEX
#define COMPARE_REAL(op, formula) case COMPARE_##op:
#include "kernels.def"
        return (u8)compare_ord(op, elem_ord(x), elem_ord(y));
#endif
#ifdef ELEM_FLOAT
#define COMPARE_FLOAT(op, formula) case COMPARE_##op:
#include "kernels.def"
        return (u8)compare_acc(op, elem_get(x), elem_get(y), a, b, c);
#endif
    default: return 0;
    }
}

#endif
