/* SPDX-License-Identifier: Apache-2.0 */
/* half.h: converts f16 (IEEE binary16) and bf16 (upper half of a binary32), which are stored in
 * u16. Conversions round to nearest even, keep infinities and the sign of zero, produce subnormal
 * numbers, and convert a NaN to a quiet NaN. They contain no branch that a compiler cannot replace
 * by a selection, so that loops over them vectorise. */
#ifndef BP_DIALECT_HALF_H
#define BP_DIALECT_HALF_H

#include "dialect.h"

/* Computes with normal numbers of f32 only, because a device may treat subnormal ones as 0. */
KFN f32 f16_to_f32_normal(u16 h)
{
    u32 fraction = h & 0x3ff, exponent = h & 0x7c00, rest = (u32)(h & 0x7fff) << 13;
    u32 bits = exponent == 0x7c00 ? 0x7f800000 | rest : rest + (112u << 23);

    bits = exponent ? bits : f32_bits((f32)fraction * 0x1p-24f);
    return f32_from_bits(bits | (u32)(h & 0x8000) << 16);
}

KFN f32 f16_to_f32(u16 h)
{
#ifdef __OPENCL_C_VERSION__
    return f16_to_f32_normal(h);
#else
    /* Exponent and fraction, shifted to their f32 position, are the value times 2^-112, also for
     * subnormal numbers. */
    u32 rest = (u32)(h & 0x7fff) << 13;
    u32 bits = f32_bits(f32_from_bits(rest) * 0x1p112f);
    u32 special = (h & 0x7c00) == 0x7c00 ? 0x7f800000 | rest : 0;

    return f32_from_bits((special ? special : bits) | (u32)(h & 0x8000) << 16);
#endif
}

KFN u16 f16_from_f32(f32 x)
{
    u32 sign = f32_bits(x) >> 16 & 0x8000, u = f32_bits(x) & 0x7fffffff;
    /* Below 2^-14: adding 0.5, whose last digit is 2^-24, rounds x to a multiple of 2^-24. A
     * subnormal x is negligible beside the 0.5, and may be treated as 0. */
    u32 small = f32_bits(f32_from_bits(u) + 0.5f) - 0x3f000000;
    u32 normal = (u + 0xc8000fff + (u >> 13 & 1)) >> 13;
    u32 h = u < 0x38800000 ? small : normal;

    h = u >= 0x477ff000 ? 0x7c00 : h; /* 65520 and above */
    h = u > 0x7f800000 ? 0x7e00 | (u >> 13 & 0x3ff) : h;
    return (u16)(sign | h);
}

KFN f32 bf16_to_f32(u16 h)
{
    return f32_from_bits((u32)h << 16);
}

KFN u16 bf16_from_f32(f32 x)
{
    u32 u = f32_bits(x);
    u32 rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;

    return (u16)((u & 0x7fffffff) > 0x7f800000 ? u >> 16 | 0x40 : rounded);
}

#ifdef HAS_F64
/* Rounds x toward zero, and sets the last bit if that was inexact ("to odd"). Rounding the result
 * further to a type of at most 22 bits equals rounding x itself. */
KFN f32 f32_from_f64_odd(f64 x)
{
    f32 nearest = (f32)x;
    u32 bits = f32_bits(nearest);

    if (x != x || (f64)nearest == x) return nearest;
    if ((nearest < 0 ? -(f64)nearest : (f64)nearest) > (x < 0 ? -x : x)) bits--;
    return f32_from_bits(bits | 1);
}
#endif

#endif
