/* SPDX-License-Identifier: Apache-2.0 */
/* erf.h: computes erf and the normal distribution, of f32, in code that compilers vectorise.
 * Polynomials are minimax polynomials by Remez' exchange, whose coefficients were rounded to f32
 * one by one and the others fitted again; the stated errors are those of the rounded polynomials in
 * exact arithmetic. */
#ifndef BP_DIALECT_ERF_H
#define BP_DIALECT_ERF_H

#include "exp.h"

/* Below 0.92: x + x p(x x), p of degree 5: error 2^-25.1 of the result. From 0.92 to 4, where the
 * result is 1: 1 - e^-g(x), g = -log(1 - erf) of degree 7: error 2^-27.5 of the result. */
KFN f32 erf_f32(f32 x)
{
    f32 a = x < 0 ? -x : x, s = x * x;
    f32 p = -0x1.3a8a9ap-11f;
    p = p * s + 0x1.47575ap-8f;
    p = p * s - 0x1.b68ff6p-6f;
    p = p * s + 0x1.ce1abap-4f;
    p = p * s - 0x1.8126e6p-2f;
    p = p * s + 0x1.06eba4p-3f;

    f32 b = a > 4.0f ? 4.0f : a;
    f32 g = 0x1.13ff3ep-16f;
    g = g * b - 0x1.851aaep-12f;
    g = g * b + 0x1.f3f664p-9f;
    g = g * b - 0x1.8a0146p-6f;
    g = g * b + 0x1.b3eb2ap-4f;
    g = g * b + 0x1.4538d8p-1f;
    g = g * b + 0x1.20e700p0f;
    g = g * b + 0x1.73f09ep-15f;
    f32 wide = 1.0f - exp_normal_f32(-g);

    wide = x < 0 ? -wide : wide;
    return a < 0.92f ? x + x * p : wide;
}

/* Returns the density of a standard normal number at x times sqrt(2 pi): e^(-x x / 2). The square
 * is computed in two parts, the first of them exact, because the exponential turns an error of the
 * square into a relative error of the result that is larger by the factor of the square. */
KFN f32 normal_density_f32(f32 x)
{
    f32 a = x < 0 ? -x : x;

    a = a > 15.0f ? 15.0f : a;
    f32 high = f32_from_bits(f32_bits(a) & 0xfffff000);
    return exp_sum_f32(-0.5f * (high * high), -0.5f * ((a - high) * (a + high)));
}

/* With e = normal_density_f32(x): e times this function's result is the probability that a standard
 * normal number is above |x|. The result is a quotient of polynomials of degrees 4 and 5 with
 * positive coefficients, so that nothing cancels, fitted by least squares with weights that make
 * the largest error small (Lawson), with rounded coefficients: error 2^-28.1 of the result near 0,
 * where accuracy matters, and up to 2^-23.5 of it in the far tail. */
KFN f32 normal_tail_f32(f32 x)
{
    f32 a = x < 0 ? -x : x;

    a = a > 15.0f ? 15.0f : a;
    f32 p = 0x1.d3de90p-9f;
    p = p * a + 0x1.2ebffap-5f;
    p = p * a + 0x1.60f78ep-3f;
    p = p * a + 0x1.b1cebap-2f;
    p = p * a + 0.5f;
    f32 q = 0x1.252faap-7f;
    q = q * a + 0x1.7b7c70p-4f;
    q = q * a + 0x1.c34dd2p-2f;
    q = q * a + 0x1.2847c2p0f;
    q = q * a + 0x1.a52988p0f;
    q = q * a + 1.0f;
    return p / q;
}

KFN f32 gelu_f32(f32 x)
{
    f32 above = normal_density_f32(x) * normal_tail_f32(x);

    return x * (x < 0 ? above : 1.0f - above);
}

/* Returns P(x) + x P'(x), where P(x) is the probability below x: the value for x is one minus the
 * value for -x. */
KFN f32 gelu_slope_f32(f32 x)
{
    f32 a = x < 0 ? -x : x;
    f32 below = normal_density_f32(x) * (normal_tail_f32(x) - a * 0x1.988454p-2f);

    return x < 0 ? below : 1.0f - below;
}

#endif
