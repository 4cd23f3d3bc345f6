/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h: converts floating-point numbers to small integers by a scale and a zero point, and
 * back. */
#ifndef BP_OPS_QUANTIZE_KERNEL_H
#define BP_OPS_QUANTIZE_KERNEL_H

#include "../../dialect/dialect.h"

/* The integer types. */
enum {
    QUANT_i8,
    QUANT_u8,
    QUANT_i16,
    QUANT_u16,
    QUANT_i32
};

/* A run of `inner` elements has one scale: that with index run % channels. */
struct quantize_args {
    i64 type, inner, channels;
};
struct dequantize_args {
    i64 type, inner, channels;
};

#ifdef ELEM
#include "../../dialect/entry.h"
#include "../../dialect/maths.h"

/* Marks a function in which `type` is a constant at each call. */
#ifdef ON_HOST
#define QUANT_FN static inline __attribute__((always_inline))
#else
#define QUANT_FN KFN
#endif

QUANT_FN i64 quant_get(int type, GLOBAL const void *x, i64 i)
{
    switch (type) {
    case QUANT_i8: return ((GLOBAL const i8 *)x)[i];
    case QUANT_u8: return ((GLOBAL const u8 *)x)[i];
    case QUANT_i16: return ((GLOBAL const i16 *)x)[i];
    case QUANT_u16: return ((GLOBAL const u16 *)x)[i];
    default: return ((GLOBAL const i32 *)x)[i];
    }
}

QUANT_FN void quant_put(int type, GLOBAL void *y, i64 i, i32 q)
{
    switch (type) {
    case QUANT_i8: ((GLOBAL i8 *)y)[i] = (i8)q; break;
    case QUANT_u8: ((GLOBAL u8 *)y)[i] = (u8)q; break;
    case QUANT_i16: ((GLOBAL i16 *)y)[i] = (i16)q; break;
    default: ((GLOBAL u16 *)y)[i] = (u16)q; break;
    }
}

QUANT_FN i32 quant_low(int type)
{
    return type == QUANT_i8 ? -128 : type == QUANT_i16 ? -32768 : 0;
}
QUANT_FN i32 quant_high(int type)
{
    return type == QUANT_i8 ? 127 : type == QUANT_u8 ? 255 : type == QUANT_i16 ? 32767 : 65535;
}

/* Quantises a run with one scale. The limits are reduced by the zero point, so that all operations
 * after the rounding are exact. */
QUANT_FN void quantize_run(int type, i64 from, i64 n, acc scale, i32 zero, GLOBAL void *y,
                           GLOBAL const elem *x)
{
    acc low = (acc)(quant_low(type) - zero), high = (acc)(quant_high(type) - zero);

    SIMD for (i64 i = from; i < from + n; i++)
    {
        acc q = MATH(rint)(elem_get(x[i]) / scale);
        q = q < low ? low : q;
        q = q > high ? high : q;
        q = q == q ? q : 0;
        quant_put(type, y, i, (i32)q + zero);
    }
}

QUANT_FN void quantize_type(int type, const struct quantize_args *a, i64 begin, i64 n,
                            GLOBAL void *y, GLOBAL const elem *x, GLOBAL const elem *scale,
                            GLOBAL const void *zero)
{
    for (i64 i = begin, run; i < begin + n; i += run) {
        i64 channel = i / a->inner % a->channels;
        run = a->inner - i % a->inner;
        run = run < begin + n - i ? run : begin + n - i;
        quantize_run(type, i, run, elem_get(scale[channel]),
                     zero ? (i32)quant_get(type, zero, channel) : 0, y, x);
    }
}

KFN void quantize_span(const struct quantize_args *a, i64 begin, i64 n, GLOBAL void *y,
                       GLOBAL const elem *x, GLOBAL const elem *scale, GLOBAL const void *zero)
{
    switch (a->type) {
    case QUANT_i8: quantize_type(QUANT_i8, a, begin, n, y, x, scale, zero); break;
    case QUANT_u8: quantize_type(QUANT_u8, a, begin, n, y, x, scale, zero); break;
    case QUANT_i16: quantize_type(QUANT_i16, a, begin, n, y, x, scale, zero); break;
    default: quantize_type(QUANT_u16, a, begin, n, y, x, scale, zero); break;
    }
}
ENTRY_SPANS_4(quantize, void, const elem, const elem, const void)

QUANT_FN void dequantize_type(int type, const struct dequantize_args *a, i64 begin, i64 n,
                              GLOBAL elem *y, GLOBAL const void *x, GLOBAL const elem *scale,
                              GLOBAL const void *zero)
{
    for (i64 i = begin, run; i < begin + n; i += run) {
        i64 channel = i / a->inner % a->channels;
        i64 less = zero ? quant_get(type, zero, channel) : 0;
        acc factor = elem_get(scale[channel]);
        run = a->inner - i % a->inner;
        run = run < begin + n - i ? run : begin + n - i;
        SIMD for (i64 k = i; k < i + run; k++)
            y[k] = elem_put((acc)(quant_get(type, x, k) - less) * factor);
    }
}

KFN void dequantize_span(const struct dequantize_args *a, i64 begin, i64 n, GLOBAL elem *y,
                         GLOBAL const void *x, GLOBAL const elem *scale, GLOBAL const void *zero)
{
    switch (a->type) {
    case QUANT_i8: dequantize_type(QUANT_i8, a, begin, n, y, x, scale, zero); break;
    case QUANT_u8: dequantize_type(QUANT_u8, a, begin, n, y, x, scale, zero); break;
    case QUANT_i16: dequantize_type(QUANT_i16, a, begin, n, y, x, scale, zero); break;
    case QUANT_u16: dequantize_type(QUANT_u16, a, begin, n, y, x, scale, zero); break;
    default: dequantize_type(QUANT_i32, a, begin, n, y, x, scale, zero); break;
    }
}
ENTRY_SPANS_4(dequantize, elem, const void, const elem, const void)

#undef QUANT_FN
#endif

#endif
