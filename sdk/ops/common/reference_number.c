/* SPDX-License-Identifier: Apache-2.0 */
/* reference_number.c: reads and writes elements of all dtypes. f32 and f64 are the compiler's
 * types; half and f8 types are decoded and encoded by hand. */
#include "reference_number.h"
#include <math.h>
#include <string.h>

static const struct num_type types[] = {
#define X(NAME, name, number, bits, cls) \
    [BP_##NAME] = {#name, BP_##NAME, (bits) / 8, NUM_##cls, 1, 0, 0, 0},
    BP_DTYPES(X)
#undef X
};
enum {
    N_TYPES = sizeof types / sizeof *types
};

/* The float types, with the facts that X() does not have. */
static const struct num_type floats[] = {
    {"f8e4m3", BP_F8E4M3, 1, NUM_FLOAT, 1, 4, -6, 8},
    {"f8e5m2", BP_F8E5M2, 1, NUM_FLOAT, 1, 3, -14, 15},
    {"f8e8m0", BP_F8E8M0, 1, NUM_FLOAT, 1, 1, -127, 127},
    {"f8e4m3fnuz", BP_F8E4M3FNUZ, 1, NUM_FLOAT, 1, 4, -7, 7},
    {"f8e5m2fnuz", BP_F8E5M2FNUZ, 1, NUM_FLOAT, 1, 3, -15, 15},
    {"f16", BP_F16, 2, NUM_FLOAT, 1, 11, -14, 15},
    {"bf16", BP_BF16, 2, NUM_FLOAT, 1, 8, -126, 127},
    {"f32", BP_F32, 4, NUM_FLOAT, 1, 24, -126, 127},
    {"f64", BP_F64, 8, NUM_FLOAT, 1, 53, -1022, 1023},
    {"c64", BP_C64, 8, NUM_COMPLEX, 2, 24, -126, 127},
    {"c128", BP_C128, 16, NUM_COMPLEX, 2, 53, -1022, 1023},
};

const struct num_type *num_type(uint32_t dtype)
{
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
        if (floats[i].dtype == dtype) return &floats[i];
    return dtype < N_TYPES && types[dtype].name ? &types[dtype] : NULL;
}

const struct num_type *num_accumulate(const struct num_type *type)
{
    if (num_is_half(type) || num_is_f8(type) || type->dtype == BP_C64) return num_type(BP_F32);
    return type->dtype == BP_C128 ? num_type(BP_F64) : type;
}

uint64_t num_get_int(const struct num_type *type, const void *at)
{
    uint64_t value = 0;

    memcpy(&value, at, type->size); /* little-endian, as every machine that runs this suite */
    if (type->class == NUM_SIGNED && type->size < 8 && value >> (8 * type->size - 1))
        value |= UINT64_MAX << 8 * type->size;
    return value;
}

void num_set_int(const struct num_type *type, void *at, uint64_t value)
{
    if (type->class == NUM_BOOL) value = value != 0;
    memcpy(at, &value, type->size);
}

/* Returns 2 to the power of n. Each number of a result is compared with several powers, and ldexpl
 * is slow. */
static long double ref_number_power(int n)
{
    uint64_t bits = (uint64_t)(n + 1023) << 52;
    double d;

    if (n < -1022 || n > 1023) return ldexpl(1, n);
    memcpy(&d, &bits, sizeof d);
    return d;
}

/* Returns the value of ilogbl for a positive finite number. */
static int exponent_of(long double value)
{
    double d = (double)value;
    uint64_t bits;
    int n;

    memcpy(&bits, &d, sizeof bits);
    n = (int)(bits >> 52) - 1023;
    if (n < -1022 || n > 1023) return ilogbl(value);
    return ref_number_power(n) > value ? n - 1
                                       : n; /* the cast to double may have rounded up to the next
                                               power */
}

static bool is_f32(const struct num_type *type)
{
    return type->digits == 24;
}

static long double half_decode(const struct num_type *type, uint16_t bits)
{
    int fraction_bits = type->digits - 1;
    int exponent = (bits & 0x7fff) >> fraction_bits;
    int fraction = bits & ((1 << fraction_bits) - 1);
    long double value;

    if (exponent == type->emax - type->emin + 2) value = fraction ? NAN : INFINITY;
    else if (exponent == 0) value = fraction * ref_number_power(type->emin - fraction_bits);
    else
        value = (fraction + (1 << fraction_bits)) *
                ref_number_power(type->emin + exponent - 1 - fraction_bits);
    return bits & 0x8000 ? -value : value;
}

static uint16_t half_encode(const struct num_type *type, long double value)
{
    int fraction_bits = type->digits - 1;
    uint32_t infinity = (uint32_t)(type->emax - type->emin + 2) << fraction_bits, bits;
    uint16_t sign = signbit(value) ? 0x8000 : 0;

    if (isnan(value)) return (uint16_t)(sign | infinity | 1u << (fraction_bits - 1));
    value = fabsl(value);
    if (isinf(value)) return (uint16_t)(sign | infinity);
    if (value == 0) return sign;

    int exponent = exponent_of(value);
    if (exponent < type->emin) exponent = type->emin;
    if (exponent > type->emax) return (uint16_t)(sign | infinity);
    /* The significand as an integer, rounded; a carry out of it moves into the exponent by itself,
     * and without the hidden digit the number is subnormal. */
    bits = (uint32_t)rintl(value * ref_number_power(fraction_bits - exponent));
    bits += (uint32_t)(exponent - type->emin) << fraction_bits;
    return (uint16_t)(sign | (bits > infinity ? infinity : bits));
}

/* The special codes of the f8 types: last is that of the largest number. The code after it is an
 * infinity as f8e5m2, and NaN as the others. */
static const struct f8 {
    uint32_t dtype;
    uint8_t last, nan;
    bool one_nan; /* and no negative zero: the bit of the sign alone is NaN */
} f8_types[] = {
    {BP_F8E4M3, 0x7e, 0x7f, false},     {BP_F8E5M2, 0x7b, 0x7e, false},
    {BP_F8E4M3FNUZ, 0x7f, 0x80, true}, {BP_F8E5M2FNUZ, 0x7f, 0x80, true},
};

static const struct f8 *f8_of(const struct num_type *type)
{
    const struct f8 *f = f8_types;

    while (f->dtype != type->dtype) f++;
    return f;
}

static long double f8_decode(const struct num_type *type, uint8_t bits)
{
    const struct f8 *f = f8_of(type);
    int fraction_bits = type->digits - 1, exponent = (bits & 0x7f) >> fraction_bits;
    int fraction = bits & ((1 << fraction_bits) - 1);
    long double value;

    if (f->one_nan ? bits == f->nan : (bits & 0x7f) > f->last)
        value = type->dtype == BP_F8E5M2 && !fraction ? INFINITY : NAN;
    else if (exponent == 0) value = fraction * ref_number_power(type->emin - fraction_bits);
    else
        value = (fraction + (1 << fraction_bits)) *
                ref_number_power(type->emin + exponent - 1 - fraction_bits);
    return bits & 0x80 ? -value : value;
}

/* Looks for the number among all numbers of the format: neighbours have neighbouring codes. */
static uint8_t f8_encode(const struct num_type *type, long double value)
{
    const struct f8 *f = f8_of(type);
    uint8_t sign = signbit(value) ? 0x80 : 0, code = 0;
    long double low, high;

    if (isnan(value)) return sign | f->nan;
    value = fabsl(value);
    while (code < f->last && f8_decode(type, code + 1) <= value) code++;
    low = f8_decode(type, code);
    high = low + num_ulp(type, low);
    if (value - low > high - value || (value - low == high - value && code % 2)) code++;
    if (isinf(value)) code = f->last + 1;
    return f->one_nan && !code ? 0 : sign | code;
}

/* f8e8m0: code b is 2^(b - 127). */
static long double power_decode(uint8_t bits)
{
    return bits == 255 ? (long double)NAN : ref_number_power(bits - 127);
}

static uint8_t power_encode(long double value)
{
    int exponent;

    if (isnan(value) || value < 0) return 255;
    if (value < ref_number_power(-127)) return 0;
    if (isinf(value)) return 255;
    exponent = exponent_of(value);
    if (value >= 1.5L * ref_number_power(exponent)) exponent++;
    return (uint8_t)(exponent > 127 ? 255 : exponent + 127);
}

long double num_get_float(const struct num_type *type, const void *at)
{
    float f;
    double d;
    uint16_t h;

    if (type->dtype == BP_F8E8M0) return power_decode(*(const uint8_t *)at);
    if (num_is_f8(type)) return f8_decode(type, *(const uint8_t *)at);
    if (num_is_half(type)) return memcpy(&h, at, sizeof h), half_decode(type, h);
    if (is_f32(type)) return memcpy(&f, at, sizeof f), f;
    return memcpy(&d, at, sizeof d), d;
}

void num_set_float(const struct num_type *type, void *at, long double value)
{
    float f;
    double d;
    uint16_t h;

    if (type->dtype == BP_F8E8M0) *(uint8_t *)at = power_encode(value);
    else if (num_is_f8(type)) *(uint8_t *)at = f8_encode(type, value);
    else if (num_is_half(type)) h = half_encode(type, value), memcpy(at, &h, sizeof h);
    else if (is_f32(type)) f = (float)value, memcpy(at, &f, sizeof f);
    else d = (double)value, memcpy(at, &d, sizeof d);
}

long double num_ulp(const struct num_type *type, long double value)
{
    int exponent = type->emin;

    value = fabsl(value);
    if (isfinite(value) && value >= num_min_normal(type)) exponent = exponent_of(value);
    if (exponent > type->emax) exponent = type->emax;
    return ref_number_power(exponent - type->digits + 1);
}

long double num_unit(const struct num_type *type)
{
    return ref_number_power(-type->digits);
}

long double num_max(const struct num_type *type)
{
    if (type->dtype == BP_F8E4M3) return 448; /* the code above it is NaN */
    return (2 - ref_number_power(1 - type->digits)) * ref_number_power(type->emax);
}

long double num_min_normal(const struct num_type *type)
{
    return ref_number_power(type->emin);
}
