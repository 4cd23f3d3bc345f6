/* SPDX-License-Identifier: Apache-2.0 */
/* float8.h: converts 8-bit floats, which are stored in u8.
 *
 * f8e4m3 and f8e5m2 are formats of the OCP 8-bit Floating Point Specification, revision 1.0; the
 * exponents of f8e4m3fnuz and f8e5m2fnuz have a bias that is larger by one; f8e8m0 belongs to the
 * OCP Microscaling Formats Specification, version 1.0.
 *
 * Conversions from f32 round to nearest even and keep the sign of zero. A number that rounds beyond
 * the format, and an infinity, becomes the largest number of the format with its sign if saturate
 * is set; otherwise it becomes an infinity as f8e5m2, and NaN as the other formats, which have no
 * infinity. They contain no branch that a compiler cannot replace by a selection. f8e8m0 has its
 * own rules: see f8e8m0_from_f32. */
#ifndef BP_DIALECT_FLOAT8_H
#define BP_DIALECT_FLOAT8_H

#include "half.h"

/* f8e5m2 is the upper half of an f16. */
KFN f32 f8e5m2_to_f32(u8 b)
{
    return f16_to_f32((u16)((u32)b << 8));
}

/* Computes with normal numbers of f32 only, because a device may treat subnormal ones as 0. */
KFN f32 f8e4m3_to_f32(u8 b)
{
    u32 rest = (u32)(b & 0x7f) << 20, bits = rest + (120u << 23);

    bits = rest >= 8u << 20 ? bits : f32_bits((f32)(b & 7) * 0x1p-9f);
    bits = (b & 0x7f) == 0x7f ? 0x7fc00000 : bits;
    return f32_from_bits(bits | (u32)(b & 0x80) << 24);
}

/* Below the normal numbers of a format, x is added to a power of two whose last digit is the
 * smallest number of the format. A subnormal x is negligible there, and may be treated as 0. */
KFN u8 f8e5m2_from_f32(f32 x, int saturate)
{
    u32 sign = f32_bits(x) >> 24 & 0x80, u = f32_bits(x) & 0x7fffffff;
    u32 small = f32_bits(f32_from_bits(u) + 128.0f) - 0x43000000;
    u32 normal = (u + 0xc80fffff + (u >> 21 & 1)) >> 21;
    u32 b = u < 113u << 23 ? small : normal, beyond = saturate ? 0x7b : 0x7c;

    b = b > 0x7b ? beyond : b;
    b = u > 0x7f800000 ? 0x7e : b;
    return (u8)(sign | b);
}

KFN u8 f8e4m3_from_f32(f32 x, int saturate)
{
    u32 sign = f32_bits(x) >> 24 & 0x80, u = f32_bits(x) & 0x7fffffff;
    u32 small = f32_bits(f32_from_bits(u) + 16384.0f) - 0x46800000;
    u32 normal = (u + 0xc407ffff + (u >> 20 & 1)) >> 20;
    u32 b = u < 121u << 23 ? small : normal, beyond = saturate ? 0x7e : 0x7f;

    b = b > 0x7e ? beyond : b;
    b = u > 0x7f800000 ? 0x7f : b;
    return (u8)(sign | b);
}

/* The fnuz formats have no infinity, no negative zero, and one NaN, whose code is that of the
 * negative zero of other formats. Returns the code of x, whose rounded magnitude is b. */
KFN u8 f8fnuz_signed(f32 x, u32 b, int saturate)
{
    u32 sign = f32_bits(x) >> 24 & 0x80, u = f32_bits(x) & 0x7fffffff;
    int nan = (u > 0x7f800000) | ((b > 0x7f) & !saturate);

    b = b > 0x7f ? 0x7f : b;
    b = b ? sign | b : 0;
    return (u8)(nan ? 0x80 : b);
}

KFN f32 f8e4m3fnuz_to_f32(u8 b)
{
    u32 rest = (u32)(b & 0x7f) << 20, bits = rest + (119u << 23);

    bits = rest >= 8u << 20 ? bits : f32_bits((f32)(b & 7) * 0x1p-10f);
    bits |= (u32)(b & 0x80) << 24;
    return f32_from_bits(b == 0x80 ? 0x7fc00000 : bits);
}

KFN u8 f8e4m3fnuz_from_f32(f32 x, int saturate)
{
    u32 u = f32_bits(x) & 0x7fffffff;
    u32 small = f32_bits(f32_from_bits(u) + 8192.0f) - 0x46000000;
    u32 normal = (u + 0xc487ffff + (u >> 20 & 1)) >> 20;

    return f8fnuz_signed(x, u < 120u << 23 ? small : normal, saturate);
}

KFN f32 f8e5m2fnuz_to_f32(u8 b)
{
    u32 rest = (u32)(b & 0x7f) << 21, bits = rest + (111u << 23);

    bits = rest >= 4u << 21 ? bits : f32_bits((f32)(b & 3) * 0x1p-17f);
    bits |= (u32)(b & 0x80) << 24;
    return f32_from_bits(b == 0x80 ? 0x7fc00000 : bits);
}

KFN u8 f8e5m2fnuz_from_f32(f32 x, int saturate)
{
    u32 u = f32_bits(x) & 0x7fffffff;
    u32 small = f32_bits(f32_from_bits(u) + 64.0f) - 0x42800000;
    u32 normal = (u + 0xc88fffff + (u >> 21 & 1)) >> 21;

    return f8fnuz_signed(x, u < 112u << 23 ? small : normal, saturate);
}

/* f8e8m0 is the exponent of an f32. Its smallest number, 2^-127, is a subnormal f32. */
KFN f32 f8e8m0_to_f32(u8 b)
{
    u32 bits = b ? (u32)b << 23 : 0x400000;

    return f32_from_bits(b == 0xff ? 0x7fc00000 : bits);
}

/* How f8e8m0_from_f32 rounds: enum bp_cast_round (attrs.h). */
enum { F8_NEAREST, F8_UP, F8_DOWN };

/* Rounds to a power of two: to the nearest one, the middle of two to the larger one; up or down. A
 * number below 2^-127, zero too, or above 2^127 becomes this nearest power if saturate is set, and
 * NaN otherwise. A negative number becomes NaN. `rest` is the fraction of x beyond the power of two
 * below x, in units of 2^-23 of that power. */
KFN u8 f8e8m0_from_f32(f32 x, int saturate, int round)
{
    u32 u = f32_bits(x) & 0x7fffffff, exponent = u >> 23;
    u32 rest = exponent ? u & 0x7fffff : (u - 0x400000) << 1;
    u32 step = round == F8_UP ? rest != 0 : round == F8_DOWN ? 0 : rest >> 22;
    u32 b = exponent + step;
    int below = u < 0x400000, above = u > 254u << 23, negative = f32_bits(x) > 0x80000000;
    int nan = (u > 0x7f800000) | negative | ((below | above) & !saturate);

    b = below ? 0 : above ? 254 : b;
    return (u8)(nan ? 0xff : b);
}

#endif
