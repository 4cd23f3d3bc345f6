/* SPDX-License-Identifier: Apache-2.0 */
/* exp.h: computes exp and functions based on it, in code that compilers vectorise.
 *
 * x = k ln 2 + r with |r| <= ln 2 / 2; exp(x) = 2^k exp(r), with ln 2 in two parts, the first of
 * which times k is exact. 2^k is multiplied in two steps, so that results may be subnormal. exp(r)
 * of f64 is its Taylor series, that of f32 is 1 + r + r r q(r), where q is the minimax polynomial
 * of degree 5 for the relative error of expm1, by Remez' exchange, whose coefficients were rounded
 * one by one and the others fitted again: off by less than 2^-28.7. Within 1.5 ulp. exp(-inf) = 0;
 * NaN gives NaN. */
#ifndef BP_DIALECT_EXP_H
#define BP_DIALECT_EXP_H

#include "half.h"

/* Returns 2^k for k in the range of normal numbers, by setting its bits. */
KFN f32 exp2_f32(u32 k)
{
    return f32_from_bits((k + 127) << 23);
}

/* Returns e^r - 1. */
KFN f32 expm1_near_f32(f32 r)
{
    f32 q = 0x1.a030c8p-13f;

    q = q * r + 0x1.6d73f0p-10f;
    q = q * r + 0x1.11118cp-7f;
    q = q * r + 0x1.5554b0p-5f;
    q = q * r + 0x1.555554p-3f;
    q = q * r + 0.5f;
    return q * (r * r) + r;
}

/* Returns p 2^n, n modulo 2^32; n is halved by an arithmetic shift. */
KFN f32 exp_scale_f32(f32 p, u32 n)
{
    u32 part = n >> 1 | (n & 0x80000000);

    return p * exp2_f32(part) * exp2_f32(n - part);
}

/* Returns e^(x + tail), where tail is much smaller than 1, for x in [-113, 90]. */
KFN f32 exp_sum_f32(f32 x, f32 tail)
{
    const f32 shift = 0x1.8p23f; /* adding it leaves the nearest integer in the low bits */
    f32 t = x * 0x1.715476p0f + shift, k = t - shift;
    f32 r = x - k * 0x1.62e4p-1f - k * 0x1.7f7d1cp-20f + tail;

    return exp_scale_f32(expm1_near_f32(r) + 1.0f, f32_bits(t) - f32_bits(shift));
}

KFN f32 exp_f32(f32 x)
{
    const f32 shift = 0x1.8p23f;

    x = x < -110.0f ? -110.0f : x;
    x = x > 90.0f ? 90.0f : x;
    f32 t = x * 0x1.715476p0f + shift, k = t - shift;
    f32 r = x - k * 0x1.62e4p-1f - k * 0x1.7f7d1cp-20f;

    return exp_scale_f32(expm1_near_f32(r) + 1.0f, f32_bits(t) - f32_bits(shift));
}

/* Returns e^x with the bits of exp_f32, for x of at most 0, in fewer steps: 2^(k + 64) is a normal
 * number wherever the result is not 0. */
KFN f32 exp_negative_f32(f32 x)
{
    const f32 shift = 0x1.8p23f;

    x = x < -110.0f ? -110.0f : x;
    f32 t = x * 0x1.715476p0f + shift, k = t - shift;
    f32 r = x - k * 0x1.62e4p-1f - k * 0x1.7f7d1cp-20f;

    return (expm1_near_f32(r) + 1.0f) * exp2_f32(f32_bits(t) - f32_bits(shift) + 64) * 0x1p-64f;
}

/* Returns e^x for x in [-87, 88]: one multiplication by 2^k suffices. */
KFN f32 exp_normal_f32(f32 x)
{
    const f32 shift = 0x1.8p23f;
    f32 t = x * 0x1.715476p0f + shift, k = t - shift;
    f32 r = x - k * 0x1.62e4p-1f - k * 0x1.7f7d1cp-20f;

    return (expm1_near_f32(r) + 1.0f) * exp2_f32(f32_bits(t) - f32_bits(shift));
}

/* Returns 2^x: with x = k + r, 2^x = 2^k e^(r ln 2). */
KFN f32 exp_base2_f32(f32 x)
{
    const f32 shift = 0x1.8p23f;

    x = x < -160.0f ? -160.0f : x;
    x = x > 129.0f ? 129.0f : x;
    f32 t = x + shift, r = (x - (t - shift)) * 0x1.62e430p-1f;

    return exp_scale_f32(expm1_near_f32(r) + 1.0f, f32_bits(t) - f32_bits(shift));
}

/* e^x - 1 = 2^k (e^r - 1) + (2^k - 1), computed for half of 2^k, because 2^k may overflow. Near
 * zero k is 0, and nothing cancels. */
KFN f32 expm1_f32(f32 x)
{
    const f32 shift = 0x1.8p23f;

    x = x < -20.0f ? -20.0f : x;
    x = x > 89.0f ? 89.0f : x;
    f32 t = x * 0x1.715476p0f + shift, k = t - shift;
    f32 r = x - k * 0x1.62e4p-1f - k * 0x1.7f7d1cp-20f;
    f32 half_scale = exp2_f32(f32_bits(t) - f32_bits(shift) - 1), near = expm1_near_f32(r);

    /* If k is 0, near may be subnormal, and halving it would lose a bit. */
    return k == 0 ? near : 2.0f * (half_scale * near + (half_scale - 0.5f));
}

/* Returns tanh(x) - x for |x| < 0.625: x^3 q(x x), q minimax as above, of degree 4 and for the
 * relative error of tanh: less than 2^-26.8. */
KFN f32 tanh_rest_f32(f32 x)
{
    f32 s = x * x, q = -0x1.75e2f4p-8f;

    q = q * s + 0x1.5226dap-6f;
    q = q * s - 0x1.b83c62p-5f;
    q = q * s + 0x1.110726p-3f;
    q = q * s - 0x1.555532p-2f;
    return q * (s * x);
}

/* Returns 1 - 2 / (e^(2 |x|) + 1) with the sign of x, which from 9.02 on is 1. Within 1.9 ulp. */
KFN f32 tanh_f32(f32 x)
{
    f32 a = x < 0 ? -x : x;
    f32 wide = 1.0f - 2.0f / (exp_normal_f32(2.0f * (a > 9.5f ? 9.5f : a)) + 1.0f);

    return a < 0.625f ? x + tanh_rest_f32(x) : x < 0 ? -wide : wide;
}

/* Returns e^x for x of at most 0, in fewer steps: 2^k (1 + r q(r)), q minimax of degree 4 for the
 * relative error of the whole: less than 2^-23, and with all roundings within 3.4 times 2^-24.
 * Below 2^-126.5 the result is 0, because 2^-127 has the bits of 0. e^0 is 1. */
KFN f32 exp_f32_below(f32 x)
{
    const f32 shift = 0x1.8p23f, least = -0x1.601814p6f;

    x = x < least ? least : x;
    f32 t = x * 0x1.715476p0f + shift, k = t - shift;
    f32 r = x - k * 0x1.62e4p-1f - k * 0x1.7f7d1cp-20f, q = 0x1.0fa834p-7f;
    q = q * r + 0x1.573a54p-5f;
    q = q * r + 0x1.555a6ap-3f;
    q = q * r + 0x1.fffdc6p-2f;
    q = q * r + 0x1.fffff8p-1f;
    return (q * r + 1.0f) * f32_from_bits((f32_bits(t) << 23) + 0x3f800000);
}

#ifdef HAS_F64
KFN f64 exp2_f64(u64 k)
{
    return f64_from_bits((k + 1023) << 52);
}

KFN f64 exp_f64(f64 x)
{
    const f64 shift = 0x1.8p52;

    x = x < -760.0 ? -760.0 : x;
    x = x > 712.0 ? 712.0 : x;
    f64 t = x * 0x1.71547652b82fep0 + shift, k = t - shift;
    f64 r = x - k * 0x1.62e42feep-1 - k * 0x1.a39ef35793c76p-33;
    f64 p = 1.0 / 6227020800;
    p = p * r + 1.0 / 479001600;
    p = p * r + 1.0 / 39916800;
    p = p * r + 1.0 / 3628800;
    p = p * r + 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = p * (r * r) + r + 1.0;

    u64 n = f64_bits(t) - f64_bits(shift), part = n >> 1 | (n & (u64)1 << 63);
    return p * exp2_f64(part) * exp2_f64(n - part);
}
#endif

#endif
