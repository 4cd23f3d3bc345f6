/* SPDX-License-Identifier: Apache-2.0 */
/* fused_functions.h: has the functions that printed kernels of `fused` call, for one float dtype
 * (elem.h): unary_exp, binary_add, ternary_lerp, scale_elem, compare_equal and so on. Each
 * operator has a function of its own: with a switch over all operators (binary_elem), a compiler
 * that does not optimise would compile every formula for every instruction. Each result is
 * rounded to elem, as the operator's own kernel rounds it. Compilers of drivers read this file:
 * embed.py. */
#ifndef BP_DIALECT_FUSED_FUNCTIONS_H
#define BP_DIALECT_FUSED_FUNCTIONS_H

#include "pairs.h"
#include "../ops/binary/kernel_where.h"
#include "../ops/compare/kernel.h"
#include "../ops/compare/kernel_predicate.h"
#include "../ops/unary/kernel.h"

/* Defines binary_add(p, q, a, b) and so on; a and b are attributes. */
#define BINARY_OF(type, get, put, of, formula) \
    KFN elem of(elem p, elem q, acc a, acc b) \
    { \
        type x = get(p), y = get(q); \
        (void)x; \
        (void)y; \
        (void)a; \
        (void)b; \
        return put(formula); \
    }
#define BINARY_NUMBER(op, formula) BINARY_OF(acc, elem_get, elem_put, binary_##op, formula)
#define BINARY_FIELD(op, formula) BINARY_OF(acc, elem_get, elem_put, binary_##op, formula)
#define BINARY_FLOAT(op, formula) BINARY_OF(acc, elem_get, elem_put, binary_##op, formula)
#define BINARY_REAL(op, formula) BINARY_OF(ord, elem_ord, elem_of_ord, binary_##op, formula)
#include "../ops/binary/kernels.def"
#undef BINARY_OF

/* Defines ternary_lerp(p, q, r, a) and so on; a is an attribute. */
#define TERNARY_FLOAT(op, formula) \
    KFN elem ternary_##op(elem p, elem q, elem r, acc a) \
    { \
        acc x = elem_get(p), y = elem_get(q), z = elem_get(r); \
        (void)a; \
        return elem_put(formula); \
    }
#include "../ops/binary/kernels_ternary.def"

KFN elem scale_elem(elem x, acc factor, acc bias)
{
    return elem_put(elem_get(x) * factor + bias);
}

/* Defines compare_equal(p, q), compare_less_than(p, q) and so on: truth values are 0 or 1. */
#define COMPARE_OF(of, type, get, formula) \
    KFN u8 of(elem p, elem q) \
    { \
        type x = get(p), y = get(q); \
        return (u8)(formula); \
    }
#define COMPARE_ANY(op, formula) COMPARE_OF(compare_##op, elem, , formula)
#define COMPARE_REAL(op, formula) COMPARE_OF(compare_##op, ord, elem_ord, formula)
#include "../ops/compare/kernels.def"
#undef COMPARE_OF

/* Defines truth_logical_and(x, y) and so on. */
#define COMPARE_TRUTH(op, formula) \
    KFN u8 truth_##op(u8 x, u8 y) \
    { \
        return (u8)(formula); \
    }
#include "../ops/compare/kernels.def"

KFN u8 truth_logical_not(u8 x)
{
    return (u8)(x ^ 1);
}

KFN elem select_where(u8 c, elem x, elem y)
{
    return where_elem(c, x, y);
}

KFN elem select_masked_fill(elem x, u8 c, elem y)
{
    return where_elem(c, y, x);
}

/* mask; without: where the condition is 1, the result is 0. */
KFN elem select_mask(elem x, u8 c, int without)
{
    return where_elem(c != without, x, elem_put(0));
}

/* Returns the result of an instruction. A GPU's compiler joins a product with a sum behind it into
 * one rounding, within an operator as in the operator's own kernel; it must not join two
 * instructions, because each result is rounded. -0 changes no number, and NaN stays NaN. */
KFN elem fused_value(elem x)
{
#if defined(__HIP__) && !defined(ELEM_HALF)
    __asm__("" : "+v"(x));
#elif defined(__CUDACC__) && defined(ELEM_f32)
    x = __fadd_rn(x, -0.0f);
#elif defined(__CUDACC__) && defined(ELEM_f64)
    x = __dadd_rn(x, -0.0);
#endif
    return x;
}

/* Divides the number of an element, below count, by an extent. 64-bit divisions cost a GPU several
 * times as much. A launch that computes a part of the elements has a smaller count than an
 * extent may be. */
KFN i64 fused_divide(i64 at, i64 extent, i64 count)
{
    return (count | extent) >> 31 ? at / extent : (i64)((u32)at / (u32)extent);
}

#endif
