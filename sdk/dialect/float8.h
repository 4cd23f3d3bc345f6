/* SPDX-License-Identifier: Apache-2.0 */
/* float8.h: converts f8e4m3 and f8e5m2 (OCP 8-bit Floating Point Specification, revision 1.0),
 * which are stored in u8. Conversions from f32 round to nearest even and keep the sign of zero. A
 * number that rounds beyond the format, and an infinity, becomes the largest number of the format
 * with its sign if saturate is set; otherwise it becomes NaN as f8e4m3, which has no infinity, and
 * an infinity as f8e5m2. They contain no branch that a compiler cannot replace by a selection. */
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
    u32 b = u < 113u << 23 ? small : normal;

    b = b > 0x7b ? saturate ? 0x7b : 0x7c : b;
    b = u > 0x7f800000 ? 0x7e : b;
    return (u8)(sign | b);
}

KFN u8 f8e4m3_from_f32(f32 x, int saturate)
{
    u32 sign = f32_bits(x) >> 24 & 0x80, u = f32_bits(x) & 0x7fffffff;
    u32 small = f32_bits(f32_from_bits(u) + 16384.0f) - 0x46800000;
    u32 normal = (u + 0xc407ffff + (u >> 20 & 1)) >> 20;
    u32 b = u < 121u << 23 ? small : normal;

    b = u > 0x43e80000 ? saturate ? 0x7e : 0x7f : b; /* above 464, the tie of 448 and 480 */
    b = u > 0x7f800000 ? 0x7f : b;
    return (u8)(sign | b);
}

#endif
