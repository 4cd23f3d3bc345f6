/* SPDX-License-Identifier: Apache-2.0 */
/* exp.h: exp for arguments of at most 0, as softmax needs it, in code that compilers vectorise.
 *
 * x = k ln 2 + r with |r| <= ln 2 / 2; exp(x) = 2^k exp(r), exp(r) by its Taylor series, ln 2 in
 * two parts of which the first times k is exact. 2^k is multiplied in two steps, so that results
 * may be subnormal. Within 1.5 ulp. exp(-inf) = 0; NaN gives NaN. */
#ifndef CPU_EXP_H
#define CPU_EXP_H

#include <kernels/half.h>

/* 2^k for k of the normal range, by its bits. */
static inline float exp2_f32(uint32_t k)
{
    return f32_from_bits((k + 127) << 23);
}

static inline double exp2_f64(uint64_t k)
{
    return f64_from_bits((k + 1023) << 52);
}

static inline float exp_f32(float x)
{
    const float shift = 0x1.8p23f; /* adding it leaves the nearest integer in the low bits */

    x = x < -110.0f ? -110.0f : x;
    float t = x * 0x1.715476p0f + shift, k = t - shift;
    float r = x - k * 0x1.62e4p-1f - k * 0x1.7f7d1cp-20f;
    float p = 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * (r * r) + r + 1.0f;

    uint32_t n = f32_bits(t) - f32_bits(shift),
             half = n >> 1 | (n & 0x80000000); /* modulo 2^32; n is negative */
    return p * exp2_f32(half) * exp2_f32(n - half);
}

static inline double exp_f64(double x)
{
    const double shift = 0x1.8p52;

    x = x < -760.0 ? -760.0 : x;
    double t = x * 0x1.71547652b82fep0 + shift, k = t - shift;
    double r = x - k * 0x1.62e42feep-1 - k * 0x1.a39ef35793c76p-33;
    double p = 1.0 / 6227020800;
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

    uint64_t n = f64_bits(t) - f64_bits(shift), half = n >> 1 | (n & UINT64_C(1) << 63);
    return p * exp2_f64(half) * exp2_f64(n - half);
}

#endif
