/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h: computes y = f(x) element by element, for one dtype (elem.h). kernels.def has the
 * formulas. */
#ifndef BP_OPS_UNARY_KERNEL_H
#define BP_OPS_UNARY_KERNEL_H

#include "../../dialect/elem.h"
#include "../common/kernel_formulas.h"
#include "../../dialect/maths.h"
#include "../../dialect/special.h"

KFN acc acc_neg(acc x)
{
#ifdef ELEM_COMPLEX
    return (acc){-x.re, -x.im};
#else
    return -x;
#endif
}

#ifdef ELEM_FLOAT
/* CUDA's and HIP's own sin and cos of f64 are at most 2 ulp off. OpenCL allows 4, and drivers use
 * that: Intel's for processors is 3.3 ulp off. */
#if defined(ELEM_f64) && !defined(__CUDACC__) && !defined(__HIP__)
#define SIN_COS(name) name##_f64
#else
#define SIN_COS(name) MATH(name)
#endif

/* The largest finite number of the element type. */
KFN acc acc_largest(void)
{
#if defined(ELEM_f64)
    return f64_from_bits(((u64)0x7ff << 52) - 1);
#elif defined(ELEM_f16)
    return 65504.0f;
#elif defined(ELEM_bf16)
    return 0x1.fep127f;
#else
    return 0x1.fffffep127f;
#endif
}
#endif

#if defined(ELEM_FLOAT) || defined(ELEM_SIGNED)
KFN ord ord_abs(ord x)
{
#ifdef ELEM_FLOAT
    return MATH(fabs)(x);
#else
    return x < 0 ? (ord)(0 - (acc)x) : x;
#endif
}

/* Returns NaN for NaN. */
KFN ord ord_sign(ord x)
{
    return x > 0 ? 1 : x < 0 ? -(ord)1 : x;
}
#elif !defined(ELEM_COMPLEX)
KFN ord ord_sign(ord x)
{
    return x > 0;
}
#endif

#ifndef ELEM_COMPLEX
/* Returns max if min is above max; returns NaN for NaN. */
KFN ord ord_clip(ord x, ord min, ord max)
{
    x = x < min ? min : x;
    return x > max ? max : x;
}
#endif

#if !defined(ELEM_FLOAT) && !defined(ELEM_COMPLEX)
/* Converts a bound v to an integer of the element type, rounded up or down; a v outside of the type
 * becomes the nearest integer of the type. NaN becomes the end of the type that does not limit
 * anything. */
KFN acc integer_bound(real v, int up)
{
#ifdef ELEM_SIGNED
    u64 top = (u64)1 << (8 * sizeof(elem) - 1); /* the first integer that is too large */
    real low = -(real)top, high = (real)top;
    acc lowest = (acc)(0 - top), highest = (acc)(top - 1);
#else
    real low = 0, high = 2 * (real)((u64)1 << (8 * sizeof(elem) - 1));
    acc lowest = 0, highest = (acc)(elem)~(u64)0;
#endif

    v = up ? ceil(v) : floor(v);
    if (v != v) return up ? lowest : highest;
    if (v <= low) return lowest;
    if (v >= high) return highest;
    return v < 0 ? (acc)(i64)v : (acc)(u64)v;
}
#endif

/* Returns attribute number i (from 0) of an operator in the form that its formula uses. */
KFN acc unary_number(int op, int i, real v)
{
#if defined(ELEM_FLOAT)
    acc n = number(v);

    if (op != UNARY_nan_to_num || !i) return n;
    return n > acc_largest() ? acc_largest() : n < -acc_largest() ? -acc_largest() : n;
#elif defined(ELEM_COMPLEX)
    (void)op;
    (void)i;
    return number(v);
#else
    (void)op; /* clip */
    return integer_bound(v, i == 0);
#endif
}

/* Defines unary_exp(e, a, b, c) and so on: the result for one element; a, b, c are those of
 * unary_number. */
#define UNARY_OF(type, get, put, of, formula) \
    KFN elem of(elem e, acc a, acc b, acc c) \
    { \
        type x = get(e); \
        (void)a; \
        (void)b; \
        (void)c; \
        return put(formula); \
    }
#define UNARY_NUMBER(op, formula) UNARY_OF(acc, elem_get, elem_put, unary_##op, formula)
#ifndef ELEM_COMPLEX
#define UNARY_REAL(op, formula) UNARY_OF(ord, elem_ord, elem_of_ord, unary_##op, formula)
#if defined(ELEM_FLOAT)
#define UNARY_SIGNED(op, formula) UNARY_OF(ord, elem_ord, elem_of_ord, unary_##op, formula)
#define UNARY_FLOAT(op, formula) UNARY_OF(acc, elem_get, elem_put, unary_##op, formula)
#define UNARY_FORM(op, formula) UNARY_OF(acc, elem_get, elem_put, unary_##op, formula)
#else
#define UNARY_BITS(op, formula) UNARY_OF(acc, elem_get, elem_put, unary_##op, formula)
#if defined(ELEM_SIGNED)
#define UNARY_SIGNED(op, formula) UNARY_OF(ord, elem_ord, elem_of_ord, unary_##op, formula)
#endif
#endif
#endif
#include "kernels.def"
#undef UNARY_OF

/* Whether a formula has only few instructions, so that a GPU computes several neighbouring elements
 * in one lane. op is a constant where this is inlined. */
KFN int unary_is_short(int op)
{
    switch (op) {
#define UNARY_NUMBER(op, formula) case UNARY_##op:
#define UNARY_REAL(op, formula) case UNARY_##op:
#define UNARY_SIGNED(op, formula) case UNARY_##op:
#define UNARY_BITS(op, formula) case UNARY_##op:
#include "kernels.def"
    case UNARY_ceil: case UNARY_floor: case UNARY_round: case UNARY_trunc: case UNARY_frac:
    case UNARY_nan_to_num: case UNARY_rad2deg: case UNARY_deg2rad: case UNARY_relu:
    case UNARY_leaky_relu: case UNARY_relu6: case UNARY_thresholded_relu: case UNARY_hard_shrink:
    case UNARY_soft_shrink: case UNARY_shrink: case UNARY_hard_sigmoid: case UNARY_hard_swish:
    case UNARY_hard_tanh: return 1;
    default: return 0;
    }
}

#endif
