/* SPDX-License-Identifier: Apache-2.0 */
/* device_f64.h: computes f64 functions for devices whose own libraries round their results less
 * accurately than the operators promise. OpenCL allows errors of 4 ulp for sin, cos and hypot, 5
 * for tan and 6 for atan2; CUDA's tan, atan2, hypot are 2 ulp off. glibc's: see sin_f64. */
#ifndef BP_DIALECT_DEVICE_F64_H
#define BP_DIALECT_DEVICE_F64_H

#include "dialect.h"

#ifdef ELEM_f64

/* A number as the sum of two parts: low is less than half an ulp of high. */
struct f64_pair {
    f64 high, low;
};

/* PI / 2 as the sum of two parts, and as the sum of three, the middle one of 33 digits. */
#define HALF_PI 1.5707963267948966
#define HALF_PI_LOW 6.123233995736766e-17
#define HALF_PI_MIDDLE 6.12323399538461e-17
#define HALF_PI_LAST 3.5215598651832e-27

/* Returns the sum of two numbers, the first of which is the larger one, together with its rounding
 * error plus low. */
KFN struct f64_pair sum_f64(f64 larger, f64 smaller, f64 low)
{
    struct f64_pair sum;

    sum.high = larger + smaller;
    sum.low = (larger - sum.high) + smaller + low;
    return sum;
}

/* sin, cos and tan reduce their argument to the rest that is left of it after the subtraction of
 * the nearest multiple of pi / 2. The rest is at most pi / 4 and has two parts: near a multiple it
 * has up to 61 digits less than the argument. sin and cos of the rest are Taylor series, up to
 * terms of 1e-19. At most 0.81 ulp off for sin and cos and 1.1 ulp for tan, tried on 16 million
 * numbers each, 4 million of them next to multiples of pi / 2. */

/* The angle `quarter` times pi / 2, modulo a whole turn, plus the rest. */
struct f64_angle {
    struct f64_pair rest;
    u32 quarter;
};

/* Reduces x, 0 <= x < 2^20, by a multiple of each part of pi / 2 (Cody and Waite: Software Manual
 * for the Elementary Functions, 1980). The fma and the product with the middle part are exact, so
 * that a compiler that contracts expressions does not change them. `back` serves to compute the
 * rounding error of w - p, for any w and p (Knuth). */
KFN struct f64_angle angle_near_f64(f64 x)
{
    f64 n = rint(x * 0.6366197723675814), w = fma(-n, HALF_PI, x), p = n * HALF_PI_MIDDLE, back;
    struct f64_angle angle;

    angle.rest.high = w - p;
    back = angle.rest.high - w;
    angle.rest.low = (w - (angle.rest.high - back)) - (p + back) - n * HALF_PI_LAST;
    angle.quarter = (u32)(i32)n;
    return angle;
}

/* Multiplies a fraction, whose 192 bits are words w[0] (the highest) to w[5], by an integer m, and
 * stores the first 192 bits of the product's fraction in w. m is below 2^53. */
KFN void angle_product_f64(u64 m, u32 *w)
{
    u64 carry = 0, below = 0;

    for (int i = 5; i >= 0; i--) {
        u64 low = w[i] * (m & 0xffffffff) + (carry & 0xffffffff);
        u64 high = below * (m >> 32) + (low & 0xffffffff);
        below = w[i];
        w[i] = (u32)high;
        carry = (carry >> 32) + (low >> 32) + (high >> 32);
    }
}

/* Reduces a finite x of at least 2^20 (Payne and Hanek: Radian Reduction for Trigonometric
 * Functions, 1983): multiplies the 53 digits of x by 192 bits of 2 / pi. Bits before these would
 * contribute whole turns; bits after them change the rest by less than 2^-136. The first two bits
 * of the product's fraction are the quarter; the others, read as a signed number, are the rest as
 * a fraction of pi / 2. */
KFN struct f64_angle angle_far_f64(f64 x)
{
    /* 2 / pi; the first two words are before the point. */
    const u32 digits[39] = {
        0x00000000, 0x00000000, 0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599,
        0x3c439041, 0xfe5163ab, 0xdebbc561, 0xb7246e3a, 0x424dd2e0, 0x06492eea, 0x09d1921c,
        0xfe1deb1c, 0xb129a73e, 0xe88235f5, 0x2ebb4484, 0xe99c7026, 0xb45f7e41, 0x3991d639,
        0x835339f4, 0x9c845f8b, 0xbdf9283b, 0x1ff897ff, 0xde05980f, 0xef2f118b, 0x5a0a6d1f,
        0x6d367ecf, 0x27cb09b7, 0x4f463f66, 0x9e5fea2d, 0x7527bac7, 0xebe5f17b, 0x3d0739f7,
        0x8a5292ea, 0x6bfb5fb1, 0x1f8d5d08, 0x56033046,
    };
    u64 bits = f64_bits(x);
    u32 w[6], at = (u32)(bits >> 52) - 1075 + 62; /* index of the first of the bits */
    struct f64_angle angle;
    struct f64_pair part;

    for (u32 i = 0; i < 6; i++) {
        u64 two = (u64)digits[at / 32 + i] << 32 | digits[at / 32 + i + 1];
        w[i] = (u32)(two << at % 32 >> 32);
    }
    angle_product_f64((bits & (((u64)1 << 52) - 1)) | (u64)1 << 52, w);
    angle.quarter = (w[0] >> 30) + (w[0] >> 29 & 1);
    for (int i = 0; i < 4; i++) w[i] = w[i] << 2 | w[i + 1] >> 30;
    part = sum_f64((f64)(i32)w[0] * 0x1p-32, w[1] * 0x1p-64, 0);
    part = sum_f64(part.high, w[2] * 0x1p-96, part.low + w[3] * 0x1p-128);
    angle.rest.high = part.high * HALF_PI;
    angle.rest.low = fma(part.high, HALF_PI, -angle.rest.high) + part.high * HALF_PI_LOW +
                     part.low * HALF_PI;
    return angle;
}

/* Reduces a finite x of at least 0. */
KFN struct f64_angle angle_f64(f64 x)
{
    if (x < 0x1p20) return angle_near_f64(x);
    return angle_far_f64(x);
}

KFN struct f64_pair angle_sin_f64(struct f64_pair r)
{
    f64 z = r.high * r.high, s = 1.0 / 355687428096000;

    s = z * s - 1.0 / 1307674368000;
    s = z * s + 1.0 / 6227020800;
    s = z * s - 1.0 / 39916800;
    s = z * s + 1.0 / 362880;
    s = z * s - 1.0 / 5040;
    s = z * s + 1.0 / 120;
    s = z * s - 1.0 / 6;
    return sum_f64(r.high, r.high * z * s + r.low * (1 - z / 2), 0);
}

KFN struct f64_pair angle_cos_f64(struct f64_pair r)
{
    f64 z = r.high * r.high, w = 1 - z / 2, s = -1.0 / 6402373705728000;

    s = z * s + 1.0 / 20922789888000;
    s = z * s - 1.0 / 87178291200;
    s = z * s + 1.0 / 479001600;
    s = z * s - 1.0 / 3628800;
    s = z * s + 1.0 / 40320;
    s = z * s - 1.0 / 720;
    s = z * s + 1.0 / 24;
    return sum_f64(w, ((1 - w) - z / 2) + (z * z * s - r.high * r.low), 0);
}

/* Returns the sine of x plus `more` times pi / 2, x >= 0; NaN for infinity and NaN. */
KFN f64 angle_wave_f64(f64 x, u32 more)
{
    struct f64_angle angle;
    f64 s, c;

    if (!(x < (f64)INFINITY)) return x - x;
    angle = angle_f64(x);
    s = angle_sin_f64(angle.rest).high;
    c = angle_cos_f64(angle.rest).high;
    more += angle.quarter;
    s = more & 1 ? c : s;
    return more & 2 ? -s : s;
}

/* glibc's functions are accurate up to 1e8; from there on they are up to 233 ulp off near multiples
 * of pi / 2 (version 2.36). */
KFN int angle_is_host_f64(f64 x)
{
#ifdef ON_HOST
    return fabs(x) < 0x1p26;
#else
    (void)x;
    return 0;
#endif
}

KFN f64 sin_f64(f64 x)
{
    if (angle_is_host_f64(x)) return sin(x);
    return copysign(1.0, x) * angle_wave_f64(fabs(x), 0);
}

KFN f64 cos_f64(f64 x)
{
    if (angle_is_host_f64(x)) return cos(x);
    return angle_wave_f64(fabs(x), 1);
}

KFN f64 tan_f64(f64 x)
{
    struct f64_pair s, c, over, under;
    struct f64_angle angle;
    f64 q;

    if (angle_is_host_f64(x)) return tan(x);
    if (!(fabs(x) < (f64)INFINITY)) return x - x;
    angle = angle_f64(fabs(x));
    s = angle_sin_f64(angle.rest);
    c = angle_cos_f64(angle.rest);
    over = angle.quarter & 1 ? c : s;
    under = angle.quarter & 1 ? s : c;
    q = over.high / under.high;
    q += (fma(-q, under.high, over.high) + over.low - q * under.low) / under.high;
    return (angle.quarter & 1 ? -q : q) * copysign(1.0, x);
}

/* Returns the angle whose tangent is b / a, 0 < b <= a. With c the nearest of 0, 1/2 and 1 to b /
 * a, the angle is atan(c) + atan((b - c a) / (a + c b)); the second term is computed by a Taylor
 * series, up to terms of 1e-18. */
KFN struct f64_pair octant_f64(f64 a, f64 b)
{
    f64 c = b < 0.25 * a ? 0 : b < 0.75 * a ? 0.5 : 1;
    f64 high = c == 0 ? 0 : c == 0.5 ? 0.4636476090008061 : 0.7853981633974483;
    f64 high_low = c == 0 ? 0 : c == 0.5 ? 2.2698777452961687e-17 : 3.061616997868383e-17;
    struct f64_pair over = b < c * a ? sum_f64(-c * a, b, 0) : sum_f64(b, -c * a, 0);
    struct f64_pair under = sum_f64(a, c * b, 0);
    f64 r = over.high / under.high, z = r * r, s = 0;
    f64 low = (fma(-r, under.high, over.high) + over.low - r * under.low) / under.high;

    for (int k = 29; k >= 3; k -= 2) s = z * ((f64)1 / k - s);
    low = low * (1 - z) + high_low - r * s;
    return c == 0 ? sum_f64(r, low, 0) : sum_f64(high, r, low);
}

/* Computes the cases whose quotient is neither tiny nor huge; the device's own function is accurate
 * in the other cases. At most 0.6 ulp off, tried on 9 million pairs. */
KFN f64 atan2_f64(f64 y, f64 x)
{
    f64 a = fabs(x), b = fabs(y), larger = a < b ? b : a, smaller = a < b ? a : b, angle;
    struct f64_pair p;

    if (!(larger < 0x1p1000 && smaller > 0x1p-900 && smaller > larger * 0x1p-60))
        return atan2(y, x);
    p = octant_f64(larger, smaller);
    if (a < b) p = sum_f64(HALF_PI, -p.high, HALF_PI_LOW - p.low);
    if (x < 0) p = sum_f64(2 * HALF_PI, -p.high, 2 * HALF_PI_LOW - p.low);
    angle = p.high + p.low;
    return y < 0 ? -angle : angle;
}

/* Returns the root of the sum of squares, corrected by the error of its square divided by twice the
 * root (Borges: An Improved Algorithm for hypot(a,b), 2019). Infinite if either argument is, even
 * if the other is NaN. At most 0.6 ulp off, for subnormal numbers 0.75, tried on 9 million
 * pairs. */
KFN f64 hypot_f64(f64 x, f64 y)
{
    f64 a = fabs(x), b = fabs(y), larger = a < b ? b : a, smaller = a < b ? a : b, scale = 1;
    f64 h, h_square, square, error;

    if (a == (f64)INFINITY || b == (f64)INFINITY) return (f64)INFINITY;
    if (a != a || b != b) return a + b;
    if (smaller <= larger * 0x1p-54) return larger;
    if (larger > 0x1p500) scale = 0x1p-600;
    else if (smaller < 0x1p-450) scale = 0x1p600;
    larger *= scale;
    smaller *= scale;
    square = larger * larger;
    h = sqrt(fma(larger, larger, smaller * smaller));
    h_square = h * h;
    error = fma(-smaller, smaller, h_square - square) + fma(h, h, -h_square) -
            fma(larger, larger, -square);
    return (h - error / (2 * h)) / scale;
}

#endif
#endif
