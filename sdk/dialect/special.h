/* SPDX-License-Identifier: Apache-2.0 */
/* special.h: computes lgamma, digamma, trigamma and the inverse of erf, of one number of type acc,
 * for float types. */
#ifndef BP_DIALECT_SPECIAL_H
#define BP_DIALECT_SPECIAL_H

#include "maths.h"

#ifdef ELEM_FLOAT

#define PI ((acc)3.14159265358979323846)

/* lgamma of a host stores the sign of gamma in a global variable that other threads see; lgamma_r,
 * which Unix systems declare if _DEFAULT_SOURCE or _GNU_SOURCE is defined, does not. */
KFN acc acc_lgamma(acc x)
{
#ifdef ON_HOST
    int sign;

#ifdef ELEM_f64
    return lgamma_r(x, &sign);
#else
    return lgammaf_r(x, &sign);
#endif
#else
    return MATH(lgamma)(x);
#endif
}

/* Returns the signed distance of x from the nearest integer, exactly. */
KFN acc acc_from_integer(acc x)
{
    return x - MATH(rint)(x);
}

/* From GAMMA_FAR on, numbers are large enough for the asymptotic series below. */
#ifdef ELEM_f64
enum { GAMMA_FAR = 10 };
#else
enum { GAMMA_FAR = 6 };
#endif

/* digamma for x > 0: psi(x) = psi(x + n) - 1 / x - ... - 1 / (x + n - 1), and from GAMMA_FAR on log
 * x - 1 / (2 x) - the sum of B_2k / (2 k x^2k); the error after eight terms (f32: four) is below
 * rounding. */
KFN acc acc_digamma_positive(acc x)
{
    acc down = 0, s, series;

    for (int i = 0; i < GAMMA_FAR; i++) {
        down += x < GAMMA_FAR ? 1 / x : 0;
        x += x < GAMMA_FAR ? 1 : 0;
    }
    s = 1 / (x * x);
#ifdef ELEM_f64
    series = -3617.0 / 8160;
    series = series * s + 1.0 / 12;
    series = series * s - 691.0 / 32760;
    series = series * s + 1.0 / 132;
    series = series * s - 1.0 / 240;
#else
    series = -1.0f / 240;
#endif
    series = series * s + (acc)1 / 252;
    series = series * s - (acc)1 / 120;
    series = series * s + (acc)1 / 12;
    return FUNC(log)(x) - (acc)0.5 / x - series * s - down;
}

/* For x < 0, psi(x) = psi(1 - x) - pi / tan(pi x). Near zero the second term is about 1 / x; it is
 * subtracted last, so that no accuracy is lost. */
KFN acc acc_digamma(acc x)
{
    acc part = acc_from_integer(x), mirrored;

    if (x > 0) return x < acc_infinity() ? acc_digamma_positive(x) : x;
    if (x == 0) return -1 / x;
    if (part == 0 || !(x > -acc_infinity())) return acc_infinity() - acc_infinity();
    mirrored = acc_digamma_positive(1 - x);
    return mirrored - PI / MATH(tan)(PI * part);
}

/* trigamma for x > 0: psi1(x) = psi1(x + n) + 1 / x^2 + ..., and from GAMMA_FAR on
 * 1 / x + 1 / (2 x^2) + the sum of B_2k / x^(2k + 1). */
KFN acc acc_trigamma_positive(acc x)
{
    acc far = x, s, series;

    for (int i = 0; i < GAMMA_FAR; i++) far += far < GAMMA_FAR ? 1 : 0;
    s = 1 / (far * far);
#ifdef ELEM_f64
    series = -3617.0 / 510;
    series = series * s + 7.0 / 6;
    series = series * s - 691.0 / 2730;
    series = series * s + 5.0 / 66;
    series = series * s - 1.0 / 30;
#else
    series = -1.0f / 30;
#endif
    series = series * s + (acc)1 / 42;
    series = series * s - (acc)1 / 30;
    series = series * s + (acc)1 / 6;
    series = 1 / far + s * (acc)0.5 + series * s / far;
    for (int i = GAMMA_FAR - 1; i >= 0; i--) { /* the largest term is added last: the sums before it
                                                  are small */
        acc near = x + i;
        series += near < GAMMA_FAR ? (1 / near) * (1 / near) : 0; /* near * near may underflow */
    }
    return series;
}

/* psi1(x) = (pi / sin(pi x))^2 - psi1(1 - x). */
KFN acc acc_trigamma(acc x)
{
    acc part = acc_from_integer(x), side;

    if (x > 0) return x < acc_infinity() ? acc_trigamma_positive(x) : 0;
    if (x != x) return x;
    if (part == 0 || !(x > -acc_infinity())) return acc_infinity();
    side = PI / MATH(sin)(PI * part);
    return side * side - acc_trigamma_positive(1 - x);
}

/* erfinv(x) = x p(w), w = -log(1 - x x). Below w = 5, p is of degree 9 in w - 2.5, with a relative
 * error of less than 2^-23.8; above, p is of degree 8 in sqrt(w) - 3, with less than 2^-23.0:
 * minimax polynomials by Remez' exchange, with rounded coefficients. The result is infinite at 1,
 * and NaN beyond 1. */
KFN f32 erfinv_near(f32 w)
{
    f32 p = -0x1.2e09d4p-27f;

    w = w - 2.5f;
    p = p * w + 0x1.8f201ep-26f;
    p = p * w + 0x1.f48a14p-22f;
    p = p * w - 0x1.d0c116p-19f;
    p = p * w - 0x1.4d152ep-18f;
    p = p * w + 0x1.c9e6c2p-13f;
    p = p * w - 0x1.48662p-10f;
    p = p * w - 0x1.11c4ecp-8f;
    p = p * w + 0x1.f91e8ap-3f;
    return p * w + 0x1.805c5cp0f;
}

KFN f32 erfinv_far(f32 root)
{
    f32 p = -0x1.687386p-13f;

    root = root - 3.0f;
    p = p * root + 0x1.87916ap-14f;
    p = p * root + 0x1.566b9p-10f;
    p = p * root - 0x1.e0a58ep-9f;
    p = p * root + 0x1.797d02p-8f;
    p = p * root - 0x1.f39c8ep-8f;
    p = p * root + 0x1.353154p-7f;
    p = p * root + 0x1.006db6p0f;
    return p * root + 0x1.6a9efep1f;
}

#ifdef ELEM_f64
/* Improves the f32 approximation by four steps of Halley's method; above 1/2 on 1 - erf, whose root
 * is known more accurately there. */
KFN acc acc_erfinv(acc x)
{
    acc a = fabs(x), y, w = -log((1 - a) * (1 + a));

    if (!(a < 1)) return a == 1 ? x * acc_infinity() : acc_infinity() - acc_infinity();
    /* beyond the range of f32's polynomials, the far branch continues as the square root */
    y = w < 5 ? a * erfinv_near((f32)w) : w < 16 ? a * erfinv_far((f32)sqrt(w)) : sqrt(w - 1.5);
    for (int i = 0; i < 4; i++) {
        acc over = a > 0.5 ? (1 - a) - erfc(y) : erf(y) - a;
        acc step = over / (0x1.20dd750429b6dp0 * exp_f64(-y * y));
        y -= step / (1 + y * step);
    }
    return x < 0 ? -y : y;
}
#else
KFN acc acc_erfinv(acc x)
{
    f32 a = x < 0 ? -x : x, w = -log_f32((1.0f - a) * (1.0f + a));
    f32 y = x * (w < 5.0f ? erfinv_near(w) : erfinv_far(MATH(sqrt)(w)));

    return a == 1.0f ? x * acc_infinity() : y;
}
#endif

#undef PI

#endif

#endif
