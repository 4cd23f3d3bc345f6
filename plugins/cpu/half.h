/* SPDX-License-Identifier: Apache-2.0 */
/* half.h: f16 (IEEE binary16) and bf16 (upper half of a binary32), kept in uint16_t. Conversions
 * round to nearest even, keep infinities and the sign of zero, make subnormals, and give a quiet
 * NaN for a NaN. They have no branches that a compiler cannot turn into selections: loops over
 * them vectorise. */
#ifndef CPU_HALF_H
#define CPU_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t f32_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float f32_from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float f16_to_f32(uint16_t h)
{
    /* Exponent and fraction moved into place are the value times 2^-112, subnormals too. */
    uint32_t rest = (uint32_t)(h & 0x7fff) << 13;
    uint32_t bits = f32_bits(f32_from_bits(rest) * 0x1p112f);
    uint32_t special = (h & 0x7c00) == 0x7c00 ? 0x7f800000 | rest : 0;

    return f32_from_bits((special ? special : bits) | (uint32_t)(h & 0x8000) << 16);
}

static inline uint16_t f16_from_f32(float x)
{
    uint32_t sign = f32_bits(x) >> 16 & 0x8000, u = f32_bits(x) & 0x7fffffff;
    /* Below 2^-14: adding 0.5, whose last place is 2^-24, rounds to a multiple of that. */
    uint32_t small = f32_bits(f32_from_bits(u) + 0.5f) - 0x3f000000;
    uint32_t normal = (u + 0xc8000fff + (u >> 13 & 1)) >> 13;
    uint32_t h = u < 0x38800000 ? small : normal;

    h = u >= 0x477ff000 ? 0x7c00 : h; /* 65520 and more */
    h = u > 0x7f800000 ? 0x7e00 | (u >> 13 & 0x3ff) : h;
    return (uint16_t)(sign | h);
}

static inline float bf16_to_f32(uint16_t h)
{
    return f32_from_bits((uint32_t)h << 16);
}

static inline uint16_t bf16_from_f32(float x)
{
    uint32_t u = f32_bits(x);
    uint32_t rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;

    return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? u >> 16 | 0x40 : rounded);
}

/* x rounded toward zero, with the last bit set if that was inexact ("to odd"). Rounded further
 * to a type of at most 22 bits, it gives what rounding x itself would give. */
static inline float f32_from_f64_odd(double x)
{
    float nearest = (float)x;
    uint32_t bits = f32_bits(nearest);

    if (x != x || (double)nearest == x) return nearest;
    if ((nearest < 0 ? -(double)nearest : (double)nearest) > (x < 0 ? -x : x)) bits--;
    return f32_from_bits(bits | 1);
}

#endif
