/* SPDX-License-Identifier: Apache-2.0 */
/* cast_run.c: converts elements between every pair of real dtypes, f8 types and bool, in two steps:
 * a run of elements is widened to a type that holds all values exactly, then narrowed. So there are
 * 18 widening and 18 narrowing loops for the wide types instead of 324 conversions, and each value
 * is rounded once. The file is compiled for each instruction level.
 *
 * Wide types: int64_t, uint64_t (for uint64 only), float (between the small floats), double (for
 * all floats). */
#include "cast.h"
#include "cast_half.h"
#include "dtype.h"
#include <dialect/float8.h>
#include <stdbool.h>
#include <string.h>

/* The number of elements that are converted in one step. */
enum { RUN = 512 };

union wide {
    int64_t i[RUN];
    uint64_t u[RUN];
    float f[RUN];
    double d[RUN];
};

enum wide_kind { WIDE_I, WIDE_U, WIDE_F, WIDE_D };
static const uint8_t wide_dtype[] = {BP_I64, BP_U64, BP_F32, BP_F64};

static bool is_f8(uint8_t dtype)
{
    return BP_MASK_F8 >> dtype & 1;
}

static bool is_small_float(uint8_t dtype)
{
    return dtype == BP_F16 || dtype == BP_BF16 || dtype == BP_F32 || is_f8(dtype);
}

static void f8_widen(uint8_t from, const uint8_t *x, int64_t n, float *y)
{
    switch (from) {
    case BP_F8E4M3: for (int64_t i = 0; i < n; i++) y[i] = f8e4m3_to_f32(x[i]); break;
    case BP_F8E5M2: for (int64_t i = 0; i < n; i++) y[i] = f8e5m2_to_f32(x[i]); break;
    case BP_F8E8M0: for (int64_t i = 0; i < n; i++) y[i] = f8e8m0_to_f32(x[i]); break;
    case BP_F8E4M3FNUZ: for (int64_t i = 0; i < n; i++) y[i] = f8e4m3fnuz_to_f32(x[i]); break;
    default: for (int64_t i = 0; i < n; i++) y[i] = f8e5m2fnuz_to_f32(x[i]); break;
    }
}

static void f8_widen_f64(uint8_t from, const uint8_t *x, int64_t n, double *y)
{
    float some[RUN];

    for (int64_t i = 0, m; i < n; i += m) {
        m = n - i < RUN ? n - i : RUN;
        f8_widen(from, x + i, m, some);
        for (int64_t j = 0; j < m; j++) y[i + j] = (double)some[j];
    }
}

static void cast_run_widen(uint8_t from, bool small, const void *x, int64_t n, void *to, int nt)
{
    int64_t *wide_i = to;
    uint64_t *wide_u = to;
    float *wide_f = to;
    double *wide_d = to;
    const uint8_t *x8 = x;
    const uint16_t *x16 = x;
    const uint32_t *x32 = x;
    const uint64_t *x64 = x;
    const float *float32 = x;
    const double *float64 = x;

    if (is_f8(from)) {
        if (small) f8_widen(from, x8, n, wide_f);
        else f8_widen_f64(from, x8, n, wide_d);
        return;
    }
    switch (from) {
    case BP_BOOL: for (int64_t i = 0; i < n; i++) wide_i[i] = x8[i] != 0; break;
    case BP_I8: for (int64_t i = 0; i < n; i++) wide_i[i] = (int8_t)x8[i]; break;
    case BP_I16: for (int64_t i = 0; i < n; i++) wide_i[i] = (int16_t)x16[i]; break;
    case BP_I32: for (int64_t i = 0; i < n; i++) wide_i[i] = (int32_t)x32[i]; break;
    case BP_I64: for (int64_t i = 0; i < n; i++) wide_i[i] = (int64_t)x64[i]; break;
    case BP_U8: for (int64_t i = 0; i < n; i++) wide_i[i] = x8[i]; break;
    case BP_U16: for (int64_t i = 0; i < n; i++) wide_i[i] = x16[i]; break;
    case BP_U32: for (int64_t i = 0; i < n; i++) wide_i[i] = x32[i]; break;
    case BP_U64: for (int64_t i = 0; i < n; i++) wide_u[i] = x64[i]; break;
    case BP_F16:
        if (small) halves_widen(x16, n, wide_f, nt);
        else for (int64_t i = 0; i < n; i++) wide_d[i] = f16_to_f32(x16[i]);
        break;
    case BP_BF16:
        if (small) for (int64_t i = 0; i < n; i++) wide_f[i] = bf16_to_f32(x16[i]);
        else for (int64_t i = 0; i < n; i++) wide_d[i] = bf16_to_f32(x16[i]);
        break;
    case BP_F32:
        if (small) for (int64_t i = 0; i < n; i++) wide_f[i] = float32[i];
        else for (int64_t i = 0; i < n; i++) wide_d[i] = float32[i];
        break;
    default: for (int64_t i = 0; i < n; i++) wide_d[i] = float64[i]; break;
    }
}

/* Integers to half types: returns a double that rounds to the half type exactly as x does. Beyond
 * 53 bits the low bits, which matter for ties only by not being zero, are joined into one bit. */
static inline double f64_from_u64_odd(uint64_t x)
{
    uint64_t joined = x >> 11 << 11 | (uint64_t)((x & 2047) != 0) << 11;
    return (double)(x >> 53 ? joined : x);
}

static inline double f64_from_i64_odd(int64_t x)
{
    return x < 0 ? -f64_from_u64_odd(0 - (uint64_t)x) : f64_from_u64_odd((uint64_t)x);
}

/* Integers wrap: unsigned arithmetic, and conversion to unsigned, are modulo 2^n. */
static void narrow_u64(uint8_t dtype, const uint64_t *x, int64_t n, void *y)
{
    uint8_t *y8 = y;
    uint16_t *y16 = y;
    uint32_t *y32 = y;
    uint64_t *y64 = y;
    float *float32 = y;
    double *float64 = y;

    switch (dtype) {
    case BP_BOOL: for (int64_t i = 0; i < n; i++) y8[i] = x[i] != 0; break;
    case BP_I8: case BP_U8: for (int64_t i = 0; i < n; i++) y8[i] = (uint8_t)x[i]; break;
    case BP_I16: case BP_U16: for (int64_t i = 0; i < n; i++) y16[i] = (uint16_t)x[i]; break;
    case BP_I32: case BP_U32: for (int64_t i = 0; i < n; i++) y32[i] = (uint32_t)x[i]; break;
    case BP_I64: case BP_U64: for (int64_t i = 0; i < n; i++) y64[i] = x[i]; break;
    case BP_F16:
        for (int64_t i = 0; i < n; i++)
            y16[i] = f16_from_f32(f32_from_f64_odd(f64_from_u64_odd(x[i])));
        break;
    case BP_BF16:
        for (int64_t i = 0; i < n; i++)
            y16[i] = bf16_from_f32(f32_from_f64_odd(f64_from_u64_odd(x[i])));
        break;
    case BP_F32: for (int64_t i = 0; i < n; i++) float32[i] = (float)x[i]; break;
    default: for (int64_t i = 0; i < n; i++) float64[i] = (double)x[i]; break;
    }
}

static void narrow_i64(uint8_t dtype, const int64_t *x, int64_t n, void *y)
{
    uint16_t *y16 = y;
    float *float32 = y;
    double *float64 = y;

    switch (dtype) {
    case BP_F16:
        for (int64_t i = 0; i < n; i++)
            y16[i] = f16_from_f32(f32_from_f64_odd(f64_from_i64_odd(x[i])));
        break;
    case BP_BF16:
        for (int64_t i = 0; i < n; i++)
            y16[i] = bf16_from_f32(f32_from_f64_odd(f64_from_i64_odd(x[i])));
        break;
    case BP_F32: for (int64_t i = 0; i < n; i++) float32[i] = (float)x[i]; break;
    case BP_F64: for (int64_t i = 0; i < n; i++) float64[i] = (double)x[i]; break;
    default: narrow_u64(dtype, (const uint64_t *)x, n, y); break; /* same bits as unsigned */
    }
}

/* Clamps x to low and high, both of which the integer type can hold; NaN becomes 0. */
static inline double cast_run_clamp(double x, double low, double high)
{
    x = x > low ? x : x <= low ? low : 0;
    return x < high ? x : high;
}

/* 2^63 - 1 and 2^64 - 1 cannot be doubles, so x is compared with the power of two. */
static inline int64_t i64_from_f64(double x)
{
    if (x >= 0x1p63) return INT64_MAX;
    if (x <= -0x1p63) return INT64_MIN;
    return x != x ? 0 : (int64_t)x;
}

static inline uint64_t u64_from_f64(double x)
{
    if (x >= 0x1p64) return UINT64_MAX;
    return x > 0 ? (uint64_t)x : 0;
}

static void narrow_f64(uint8_t dtype, const double *x, int64_t n, void *y)
{
    int8_t *int8 = y;
    int16_t *int16 = y;
    int32_t *int32 = y;
    int64_t *int64 = y;
    uint8_t *uint8 = y;
    uint16_t *uint16 = y;
    uint32_t *uint32 = y;
    uint64_t *uint64 = y;
    float *float32 = y;
    double *float64 = y;

    switch (dtype) {
    case BP_BOOL: for (int64_t i = 0; i < n; i++) uint8[i] = x[i] != 0; break;
    case BP_I8:
        for (int64_t i = 0; i < n; i++) int8[i] = (int8_t)cast_run_clamp(x[i], INT8_MIN, INT8_MAX);
        break;
    case BP_I16:
        for (int64_t i = 0; i < n; i++)
            int16[i] = (int16_t)cast_run_clamp(x[i], INT16_MIN, INT16_MAX);
        break;
    case BP_I32:
        for (int64_t i = 0; i < n; i++)
            int32[i] = (int32_t)cast_run_clamp(x[i], INT32_MIN, INT32_MAX);
        break;
    case BP_I64: for (int64_t i = 0; i < n; i++) int64[i] = i64_from_f64(x[i]); break;
    case BP_U8:
        for (int64_t i = 0; i < n; i++) uint8[i] = (uint8_t)cast_run_clamp(x[i], 0, UINT8_MAX);
        break;
    case BP_U16:
        for (int64_t i = 0; i < n; i++) uint16[i] = (uint16_t)cast_run_clamp(x[i], 0, UINT16_MAX);
        break;
    case BP_U32:
        for (int64_t i = 0; i < n; i++) uint32[i] = (uint32_t)cast_run_clamp(x[i], 0, UINT32_MAX);
        break;
    case BP_U64: for (int64_t i = 0; i < n; i++) uint64[i] = u64_from_f64(x[i]); break;
    case BP_F16:
        for (int64_t i = 0; i < n; i++) uint16[i] = f16_from_f32(f32_from_f64_odd(x[i]));
        break;
    case BP_BF16:
        for (int64_t i = 0; i < n; i++) uint16[i] = bf16_from_f32(f32_from_f64_odd(x[i]));
        break;
    case BP_F32: for (int64_t i = 0; i < n; i++) float32[i] = (float)x[i]; break;
    default: for (int64_t i = 0; i < n; i++) float64[i] = x[i]; break;
    }
}

static void narrow_f32(uint8_t dtype, const float *x, int64_t n, void *y, int nt)
{
    uint16_t *uint16 = y;
    float *float32 = y;

    switch (dtype) {
    case BP_F16: halves_narrow(x, n, uint16, nt); break;
    case BP_BF16: for (int64_t i = 0; i < n; i++) uint16[i] = bf16_from_f32(x[i]); break;
    default: for (int64_t i = 0; i < n; i++) float32[i] = x[i]; break;
    }
}

/* Converts a run to floats that round to the f8 types exactly as its elements do. */
static void floats_from(enum wide_kind wide, const void *x, int64_t n, float *y)
{
    const int64_t *wide_i = x;
    const uint64_t *wide_u = x;
    const double *wide_d = x;

    switch (wide) {
    case WIDE_I:
        for (int64_t i = 0; i < n; i++) y[i] = f32_from_f64_odd(f64_from_i64_odd(wide_i[i]));
        break;
    case WIDE_U:
        for (int64_t i = 0; i < n; i++) y[i] = f32_from_f64_odd(f64_from_u64_odd(wide_u[i]));
        break;
    case WIDE_F: memcpy(y, x, (size_t)n * sizeof *y); break;
    case WIDE_D: for (int64_t i = 0; i < n; i++) y[i] = f32_from_f64_odd(wide_d[i]); break;
    }
}

static void f8_narrow(uint8_t to, struct cast_rule rule, const float *x, int64_t n, uint8_t *y)
{
    bool s = rule.saturate;

    switch (to) {
    case BP_F8E4M3: for (int64_t i = 0; i < n; i++) y[i] = f8e4m3_from_f32(x[i], s); break;
    case BP_F8E5M2: for (int64_t i = 0; i < n; i++) y[i] = f8e5m2_from_f32(x[i], s); break;
    case BP_F8E8M0:
        for (int64_t i = 0; i < n; i++) y[i] = f8e8m0_from_f32(x[i], s, rule.round);
        break;
    case BP_F8E4M3FNUZ: for (int64_t i = 0; i < n; i++) y[i] = f8e4m3fnuz_from_f32(x[i], s); break;
    default: for (int64_t i = 0; i < n; i++) y[i] = f8e5m2fnuz_from_f32(x[i], s); break;
    }
}

static void narrow_f8(enum wide_kind wide, uint8_t to, struct cast_rule rule, const char *x,
                      int64_t n, uint8_t *y)
{
    int size = dtype_size(wide_dtype[wide]);
    float some[RUN];

    for (int64_t i = 0, m; i < n; i += m) {
        m = n - i < RUN ? n - i : RUN;
        floats_from(wide, x + i * size, m, some);
        f8_narrow(to, rule, some, m, y + i);
    }
}

static enum wide_kind wide_for(uint8_t from, uint8_t to)
{
    if (is_small_float(from) && is_small_float(to)) return WIDE_F;
    if (is_small_float(from) || from == BP_F64) return WIDE_D;
    return from == BP_U64 ? WIDE_U : WIDE_I;
}

static void cast_run_narrow(enum wide_kind wide, uint8_t to, struct cast_rule rule, const void *x,
                            int64_t n, void *y, int nt)
{
    if (is_f8(to)) {
        narrow_f8(wide, to, rule, x, n, y);
        return;
    }
    switch (wide) {
    case WIDE_I: narrow_i64(to, x, n, y); break;
    case WIDE_U: narrow_u64(to, x, n, y); break;
    case WIDE_F: narrow_f32(to, x, n, y, nt); break;
    case WIDE_D: narrow_f64(to, x, n, y); break;
    }
}

#define JOINED(a, b) a##b
#define LEVELED(name, level) JOINED(name, level)
cpu_cast_fn LEVELED(cpu_cast_run, ISA);
void LEVELED(cpu_cast_run, ISA)(uint8_t from, uint8_t to, struct cast_rule rule, int64_t n, char *y,
                                  const char *x, int nt)
{
    enum wide_kind kind = wide_for(from, to);
    int x_size = dtype_size(from), y_size = dtype_size(to);
    bool wide_already = from == wide_dtype[kind], wide_still = to == wide_dtype[kind];
    union wide wide;

    if (wide_already) {
        cast_run_narrow(kind, to, rule, x, n, y, nt);
        return;
    }
    if (wide_still) {
        cast_run_widen(from, kind == WIDE_F, x, n, y, nt);
        return;
    }
    for (int64_t i = 0, some; i < n; i += some) {
        some = n - i < RUN ? n - i : RUN;
        cast_run_widen(from, kind == WIDE_F, x + i * x_size, some, &wide, 0);
        cast_run_narrow(kind, to, rule, &wide, some, y + i * y_size, 0);
    }
}
