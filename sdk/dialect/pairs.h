/* SPDX-License-Identifier: Apache-2.0 */
/* pairs.h: defines functions of two numbers, for one dtype (elem.h): of type acc, or of type ord if
 * signs and order matter. If f64 exists and the type is narrower, functions of more than a few
 * operations are computed in f64 and rounded, so that they meet the tolerances, regardless of the
 * accuracy of the device's own f32 functions. */
#ifndef BP_DIALECT_PAIRS_H
#define BP_DIALECT_PAIRS_H

#include "maths.h"

#if defined(ELEM_FLOAT)

#ifdef HAS_F64
typedef f64 inner;
#define INNER(name) name
#else
typedef f32 inner;
#define INNER(name) MATH(name)
#endif

KFN ord ord_fmod(ord x, ord y)
{
    return MATH(fmod)(x, y);
}

/* The remainder with the sign of y; NaN if there is no remainder. */
KFN ord ord_mod(ord x, ord y)
{
    ord r = MATH(fmod)(x, y);

    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

/* The dividend minus the remainder, divided by y, is a whole number except for its rounding. If the
 * remainder is NaN, y is 0 or x is infinite. */
KFN ord ord_floor_divide(ord x, ord y)
{
    ord r = MATH(fmod)(x, y), q = MATH(rint)((x - r) / y);

    if (r != r) return x / y;
    return r != 0 && (r < 0) != (y < 0) ? q - 1 : q;
}

/* powf of the C library is as accurate as pow for f64: it computes in f64. */
KFN ord ord_pow(ord x, ord y)
{
#if defined(ON_HOST) && defined(ELEM_f32)
    return powf(x, y);
#else
    return (ord)INNER(pow)((inner)x, (inner)y);
#endif
}

KFN acc acc_atan2(acc x, acc y)
{
#if !defined(ON_HOST) && defined(ELEM_f64)
    return atan2_f64(x, y);
#else
    return (acc)INNER(atan2)((inner)x, (inner)y);
#endif
}

/* Squares of f32 fit in f64. The result is infinite if either argument is, even if the other is
 * NaN. */
KFN acc acc_hypot(acc x, acc y)
{
#if defined(HAS_F64) && !defined(ELEM_f64)
    f64 a = (f64)x * x, b = (f64)y * y;

    return a > 0x1p1000 || b > 0x1p1000 ? (acc)INFINITY : (acc)sqrt(a + b);
#elif !defined(ON_HOST) && defined(ELEM_f64)
    return hypot_f64(x, y);
#else
    return MATH(hypot)(x, y);
#endif
}

KFN acc acc_xlogy(acc x, acc y)
{
    return x == 0 && y == y ? 0 : (acc)(x * INNER(log)((inner)y));
}

KFN acc acc_div(acc x, acc y)
{
    return x / y;
}

/* Returns whether |x - y| is at most atol + rtol |y|; an infinity is close only to itself. nans:
 * NaN is close to NaN. */
KFN int acc_close(acc x, acc y, acc rtol, acc atol, int nans)
{
    acc d = MATH(fabs)(x - y);

    return (x == y) | ((d <= atol + rtol * MATH(fabs)(y)) & (d < (acc)INFINITY)) |
           (nans & (x != x) & (y != y));
}

#elif defined(ELEM_COMPLEX)

#ifdef ELEM_c64
typedef f32 part;
#else
typedef f64 part;
#endif

/* Divides by the ratio of the two parts of y, so that the squares of these parts are not needed
 * (Smith 1962). c is the part of y of larger magnitude, a the corresponding part of x. */
KFN acc acc_div(acc x, acc y)
{
    part re = y.re < 0 ? -y.re : y.re, im = y.im < 0 ? -y.im : y.im;
    int real_first = re >= im;
    part a = real_first ? x.re : x.im, b = real_first ? x.im : x.re;
    part c = real_first ? y.re : y.im, d = real_first ? y.im : y.re;
    part r = d / c, n = c + d * r;
    acc z;

    z.re = (a + b * r) / n;
    z.im = (real_first ? b - a * r : a * r - b) / n;
    return z;
}

#else /* integers */

enum { WIDTH = 8 * (int)sizeof(elem) };

/* Division by 0 gives 0. y = -1 is separate, because the lowest value divided by -1 would
 * overflow. */
KFN ord ord_fmod(ord x, ord y)
{
    if (y == 0) return 0;
#ifdef ELEM_SIGNED
    if (y == -1) return 0;
#endif
    return x % y;
}

KFN ord ord_mod(ord x, ord y)
{
    ord r = ord_fmod(x, y);

#ifdef ELEM_SIGNED
    if (r != 0 && (r < 0) != (y < 0)) r += y;
#endif
    return r;
}

KFN ord ord_floor_divide(ord x, ord y)
{
    if (y == 0) return 0;
#ifdef ELEM_SIGNED
    if (y == -1) return (ord)(0 - (acc)x);
    return x / y - (x % y != 0 && (x < 0) != (y < 0));
#else
    return x / y;
#endif
}

/* Computes the power by repeated squaring, modulo 2 to the width of the type. */
KFN ord ord_pow(ord x, ord y)
{
    acc base = (acc)x, z = 1;

#ifdef ELEM_SIGNED
    if (y < 0) return x == 1 ? 1 : x == -1 ? (y & 1 ? -1 : 1) : 0;
#endif
    for (acc n = (acc)y; n; n >>= 1, base *= base)
        if (n & 1) z *= base;
    return (ord)z;
}

KFN acc ord_magnitude(ord x)
{
#ifdef ELEM_SIGNED
    return x < 0 ? 0 - (acc)x : (acc)x;
#else
    return x;
#endif
}

KFN acc acc_gcd(acc a, acc b)
{
    while (b) {
        acc rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

KFN ord ord_gcd(ord x, ord y)
{
    return (ord)acc_gcd(ord_magnitude(x), ord_magnitude(y));
}

KFN ord ord_lcm(ord x, ord y)
{
    acc a = ord_magnitude(x), b = ord_magnitude(y), g = acc_gcd(a, b);

    return g ? (ord)(a / g * b) : 0;
}

/* A shift by a negative number is treated like a shift by a number that is too large. */
KFN ord ord_left(ord x, ord n)
{
    return (acc)n < WIDTH ? (ord)((acc)x << (acc)n) : 0;
}

KFN ord ord_right(ord x, ord n)
{
#ifdef ELEM_SIGNED
    return x >> ((acc)n < WIDTH ? n : WIDTH - 1);
#else
    return n < WIDTH ? x >> n : 0;
#endif
}

#endif

/* max and min return NaN if either argument is NaN; fmax and fmin return the other argument. */
#ifndef ELEM_COMPLEX
KFN ord ord_max(ord x, ord y)
{
    return (x > y) | ord_nan(x) ? x : y;
}
KFN ord ord_min(ord x, ord y)
{
    return (x < y) | ord_nan(x) ? x : y;
}
KFN ord ord_fmax(ord x, ord y)
{
    return (x >= y) | ord_nan(y) ? x : y;
}
KFN ord ord_fmin(ord x, ord y)
{
    return (x <= y) | ord_nan(y) ? x : y;
}
KFN ord ord_heaviside(ord x, ord y)
{
    return x == 0 ? y : x > 0 ? 1 : ord_nan(x) ? x : 0;
}
#endif

#endif
