/* SPDX-License-Identifier: Apache-2.0 */
/* number.h: reads and writes elements of float types, for the stand-ins for vendors' libraries. */
#ifndef SIM_NUMBER_H
#define SIM_NUMBER_H

#include <dialect/half.h>
#include <stddef.h>

enum sim_type { SIM_F32, SIM_F64, SIM_F16, SIM_BF16, SIM_TYPES };

static inline size_t sim_size(enum sim_type type)
{
    return type == SIM_F64 ? 8 : type == SIM_F32 ? 4 : 2;
}

static inline double sim_get(enum sim_type type, const void *from, int64_t at)
{
    switch (type) {
    case SIM_F32: return (double)((const float *)from)[at];
    case SIM_F64: return ((const double *)from)[at];
    case SIM_F16: return (double)f16_to_f32(((const uint16_t *)from)[at]);
    default: return (double)bf16_to_f32(((const uint16_t *)from)[at]);
    }
}

static inline void sim_put(enum sim_type type, void *to, int64_t at, double value)
{
    switch (type) {
    case SIM_F32: ((float *)to)[at] = (float)value; break;
    case SIM_F64: ((double *)to)[at] = value; break;
    case SIM_F16: ((uint16_t *)to)[at] = f16_from_f32((float)value); break;
    default: ((uint16_t *)to)[at] = bf16_from_f32((float)value); break;
    }
}

/* The value after rounding to the type. */
static inline double sim_rounded(enum sim_type type, double value)
{
    _Alignas(8) unsigned char at[8];

    sim_put(type, at, 0, value);
    return sim_get(type, at, 0);
}

/* A factor, in the type of the sums for elements of this type. */
static inline double sim_factor(enum sim_type type, const void *from)
{
    return type == SIM_F64 ? *(const double *)from : (double)*(const float *)from;
}

/* The value truncated to TF32. */
static inline double sim_tf32(double value)
{
    return (double)f32_from_bits(f32_bits((float)value) & 0xffffe000);
}

#endif
