/* SPDX-License-Identifier: Apache-2.0 */
/* log.h: computes logarithms of f32 in code that compilers vectorise.
 *
 * x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); log(x) = k ln 2 + log(1 + f), and
 * log(1 + f) = f + (f^3 q(f) - f f / 2), q the minimax polynomial of degree 8 for the relative
 * error of log(1 + f), by Remez' exchange with rounded coefficients: off by less than 2^-28.2. */
#ifndef BP_DIALECT_LOG_H
#define BP_DIALECT_LOG_H

#include "exp.h"

/* Returns log(1 + f) - f. */
KFN f32 log_rest_f32(f32 f)
{
    f32 q = 0x1.144fc2p-4f;

    q = q * f - 0x1.de3832p-4f;
    q = q * f + 0x1.e6f0c2p-4f;
    q = q * f - 0x1.fc2210p-4f;
    q = q * f + 0x1.233766p-3f;
    q = q * f - 0x1.555c52p-3f;
    q = q * f + 0x1.99a4b6p-3f;
    q = q * f - 0x1.000006p-2f;
    q = q * f + 0x1.555548p-2f;
    return (q * f - 0.5f) * (f * f);
}

/* Returns k of a positive normal number. */
KFN i32 log_exponent_f32(f32 x)
{
    return (i32)(f32_bits(x) - 0x3f3504f3) >> 23;
}

/* Returns x / 2^k. */
KFN f32 log_fraction_f32(f32 x, i32 k)
{
    return f32_from_bits(f32_bits(x) - ((u32)k << 23));
}

/* Returns y, the logarithm of x, if x is positive and finite; for any other x the logarithm's limit
 * or NaN. */
KFN f32 log_ends_f32(f32 x, f32 y)
{
    const f32 infinite = f32_from_bits(0x7f800000);

    y = x < infinite ? y : x; /* also for NaN */
    y = x < 0 ? f32_from_bits(0x7fc00000) : y;
    return x == 0 ? -infinite : y;
}

/* log_scaled_f32 returns x, or 2^23 times x if x is subnormal; log_excess_f32 returns by how much
 * the base-2 logarithm of that is too large. */
KFN f32 log_scaled_f32(f32 x)
{
    return x < 0x1p-126f ? x * 0x1p23f : x;
}
KFN f32 log_excess_f32(f32 x)
{
    return x < 0x1p-126f ? 23.0f : 0.0f;
}

KFN f32 log_f32(f32 x)
{
    f32 scaled = log_scaled_f32(x);
    i32 exponent = log_exponent_f32(scaled);
    f32 k = (f32)exponent - log_excess_f32(x);
    f32 f = log_fraction_f32(scaled, exponent) - 1.0f;

    return log_ends_f32(x, k * 0x1.7f7d1cp-20f + log_rest_f32(f) + f + k * 0x1.62e4p-1f);
}

/* log2 e = 1 + 0.4427: the product of the larger part is exact. */
KFN f32 log2_f32(f32 x)
{
    f32 scaled = log_scaled_f32(x);
    i32 exponent = log_exponent_f32(scaled);
    f32 k = (f32)exponent - log_excess_f32(x);
    f32 f = log_fraction_f32(scaled, exponent) - 1.0f, rest = log_rest_f32(f);

    return log_ends_f32(x, (rest * 0x1.c551dap-2f + f * 0x1.c551dap-2f) + rest + f + k);
}

/* log10 e and log10 2 are each split into two parts, the first of few digits. */
KFN f32 log10_f32(f32 x)
{
    f32 scaled = log_scaled_f32(x);
    i32 exponent = log_exponent_f32(scaled);
    f32 k = (f32)exponent - log_excess_f32(x);
    f32 f = log_fraction_f32(scaled, exponent) - 1.0f, rest = log_rest_f32(f);
    f32 y = (rest + f) * 0x1.6f62a4p-11f + k * 0x1.3509f8p-18f;

    y = y + rest * 0x1.bcp-2f;
    return log_ends_f32(x, y + f * 0x1.bcp-2f + k * 0x1.344p-2f);
}

/* log(1 + x): 1 + x, rounded, gives k, but f = 2^-k x + (2^-k - 1) is computed from x itself. Above
 * 2^100, where 2^-k may not be representable and the 1 is negligible, x 2^-30 is used in place of
 * x. */
KFN f32 log1p_f32(f32 x)
{
    f32 large = x > 0x1p100f ? 30.0f : 0.0f;
    f32 part = x > 0x1p100f ? x * 0x1p-30f : x;
    i32 exponent = log_exponent_f32(1.0f + part);
    f32 down = exp2_f32((u32)-exponent), k = (f32)exponent + large;
    f32 f = down * part + (down - 1.0f);
    f32 y = k * 0x1.7f7d1cp-20f + log_rest_f32(f) + f + k * 0x1.62e4p-1f;
    const f32 infinite = f32_from_bits(0x7f800000);

    y = x < infinite ? y : x;
    y = x < -1.0f ? f32_from_bits(0x7fc00000) : y;
    return x == -1.0f ? -infinite : y;
}

#endif
