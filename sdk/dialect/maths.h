/* SPDX-License-Identifier: Apache-2.0 */
/* maths.h: defines functions of one number of type acc, for float types, such as acc_exp and
 * acc_tanh. f32 has its own code where compilers should vectorise it; other types use the functions
 * of math.h. */
#ifndef BP_DIALECT_MATHS_H
#define BP_DIALECT_MATHS_H

#include "device_f64.h"
#include "elem.h"
#include "erf.h"
#include "exp.h"
#include "log.h"

#ifdef ELEM_FLOAT

/* MATH(exp) is exp for f64 and expf for f32; OpenCL has one name for both. */
#if defined(__OPENCL_C_VERSION__) || defined(ELEM_f64)
#define MATH(name) name
#else
#define MATH(name) name##f
#endif

/* FUNC(exp) is exp_f32 for f32 and half types; for f64 it is the function of math.h. */
#ifdef ELEM_f64
#define FUNC(name) name
#else
#define FUNC(name) name##_f32
#endif

/* OpenCL allows an error of 5 ulp for tan of f32, and CUDA's is 4 ulp off. Computed in f64 and
 * rounded, both are accurate. */
KFN acc acc_tan(acc x)
{
#ifdef ELEM_f64
    return tan_f64(x);
#elif !defined(ON_HOST) && defined(HAS_F64)
    return (acc)tan((f64)x);
#else
    return MATH(tan)(x);
#endif
}

KFN acc acc_infinity(void)
{
#ifdef ELEM_f64
    return f64_from_bits((u64)0x7ff << 52);
#else
    return f32_from_bits(0x7f800000);
#endif
}

KFN acc acc_exp(acc x)
{
#ifdef ELEM_f64
    return exp_f64(x);
#else
    return exp_f32(x);
#endif
}

/* For x of at most 0. */
KFN acc acc_exp_negative(acc x)
{
#ifdef ELEM_f64
    return exp_f64(x);
#else
    return exp_negative_f32(x);
#endif
}

/* For x of at most 0, in uses where a result below the normal numbers may be 0. */
KFN acc acc_exp_below(acc x)
{
#ifdef ELEM_f64
    return exp_f64(x);
#else
    return exp_f32_below(x);
#endif
}

KFN acc acc_exp2(acc x)
{
#ifdef ELEM_f64
    return exp2(x);
#else
    return exp_base2_f32(x);
#endif
}

/* Returns e^(-x x / 2). */
KFN acc acc_normal_density(acc x)
{
#ifdef ELEM_f64
    return exp_f64((acc)-0.5 * (x * x));
#else
    return normal_density_f32(x);
#endif
}

/* A NaN stays NaN. */
KFN acc acc_relu(acc x)
{
    return x < 0 ? 0 : x;
}

/* Returns max if min is above max; a NaN stays NaN. */
KFN acc acc_clip(acc x, acc min, acc max)
{
    x = x < min ? min : x;
    return x > max ? max : x;
}

KFN acc acc_abs(acc x)
{
    return MATH(fabs)(x);
}

KFN acc acc_sigmoid(acc x)
{
    acc e = acc_exp_negative(-acc_abs(x));

    return (x < 0 ? e : 1) / (1 + e);
}

/* Returns log(1 + e^x). */
KFN acc acc_softplus(acc x)
{
    return acc_relu(x) + FUNC(log1p)(acc_exp_negative(-acc_abs(x)));
}

/* Returns softplus(beta x) / beta, or x if beta x is above threshold. */
KFN acc acc_softplus_scaled(acc x, acc beta, acc threshold)
{
    acc scaled = beta * x;

    return scaled > threshold ? x : acc_softplus(scaled) / beta;
}

/* tanh(log(1 + e^x)) = n / (n + 2) with n = e^x (e^x + 2); from x = 30 on it is 1. */
KFN acc acc_mish(acc x)
{
    acc e = acc_exp(x > 30 ? 30 : x), n = e * (e + 2);

    return x * (n / (n + 2));
}

KFN acc acc_tanh_shrink(acc x)
{
#ifdef ELEM_f64
    return x - tanh(x);
#else
    f32 a = x < 0 ? -x : x;

    return a < 0.625f ? -tanh_rest_f32(x) : x - tanh_f32(x);
#endif
}

/* Returns x above zero, and alpha (e^x - 1) otherwise. */
KFN acc acc_elu(acc x, acc alpha)
{
    return x > 0 ? x : alpha * FUNC(expm1)(x);
}

KFN acc acc_celu(acc x, acc alpha)
{
    return x > 0 ? x : alpha * FUNC(expm1)(x / alpha);
}

KFN acc acc_gelu(acc x)
{
#ifdef ELEM_f64
    return 0.5 * x * erfc(x * -0x1.6a09e667f3bcdp-1);
#else
    return gelu_f32(x);
#endif
}

/* Returns P(x) + x P'(x), where P(x) is the probability that a standard normal number is below
 * x. */
KFN acc acc_gelu_slope(acc x)
{
#ifdef ELEM_f64
    return 0.5 * erfc(x * -0x1.6a09e667f3bcdp-1) +
           x * (0x1.9884533d43651p-2 * acc_normal_density(x));
#else
    return gelu_slope_f32(x);
#endif
}

/* Returns x / 2 (1 + tanh(u)) = x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3). */
KFN acc acc_gelu_tanh(acc x)
{
    acc root = (acc)1.5957691216057308; /* 2 sqrt(2 / pi) */

    return x * acc_sigmoid(x * (root + root * (acc)0.044715 * (x * x)));
}

/* With v = 2 u and s = sigmoid(v), returns s + x s (1 - s) v'. */
KFN acc acc_gelu_tanh_slope(acc x)
{
    acc root = (acc)1.5957691216057308, part = root * (acc)0.044715, s, e;

    x = acc_clip(x, -100, 100); /* the slope is 0 or 1 long before these bounds */
    s = x * (root + part * (x * x));
    e = acc_exp_negative(-acc_abs(s));
    s = (s < 0 ? e : 1) / (1 + e);
    return s + x * (root + 3 * part * (x * x)) * (e / ((1 + e) * (1 + e)));
}

/* Near 1/2 the logit is log(1 + z), z = (2 x - 1) / (1 - x), whose numerator is exact. */
KFN acc acc_logit(acc x, acc eps)
{
    acc rest;

    x = eps > 0 ? acc_clip(x, eps, 1 - eps) : x;
    rest = 1 - x;
    return x > (acc)0.3 && x < (acc)0.7 ? FUNC(log1p)((2 * x - 1) / rest) : FUNC(log)(x / rest);
}

/* Between -3 and 3 the slope is (2 x + 3) / 6. */
KFN acc acc_hard_swish_slope(acc x)
{
    return x >= 3 ? 1 : x > -3 ? (2 * x + 3) / 6 : 0;
}

#endif

#endif
