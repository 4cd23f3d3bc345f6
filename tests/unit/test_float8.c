/* SPDX-License-Identifier: Apache-2.0 */
/* test_float8.c: tests the conversions of the f8 formats against their definitions: all codes to
 * f32, and to the codes all numbers, middles between two numbers, and the f32 beside these, also
 * when the processor treats subnormal numbers of f32 as 0. */
#include "flush.h"
#include <criterion/criterion.h>
#include <dialect/float8.h>
#include <math.h>
#include <stdbool.h>

/* last is the code of the largest number, beyond that of what is larger without saturation. */
struct format {
    const char *name;
    f32 (*to_f32)(u8 b);
    u8 (*from_f32)(f32 x, int saturate);
    int fraction_bits, bias;
    u32 last, beyond;
    bool fnuz;
};

static const struct format formats[] = {
    {"f8e4m3", f8e4m3_to_f32, f8e4m3_from_f32, 3, 7, 0x7e, 0x7f, false},
    {"f8e5m2", f8e5m2_to_f32, f8e5m2_from_f32, 2, 15, 0x7b, 0x7c, false},
    {"f8e4m3fnuz", f8e4m3fnuz_to_f32, f8e4m3fnuz_from_f32, 3, 8, 0x7f, 0x80, true},
    {"f8e5m2fnuz", f8e5m2fnuz_to_f32, f8e5m2fnuz_from_f32, 2, 16, 0x7f, 0x80, true},
};
enum { FORMATS = sizeof formats / sizeof *formats };

/* The value of a magnitude by the definition of a number, as if no code were special. */
static double magnitude_of(const struct format *f, u32 code)
{
    int exponent = (int)(code >> f->fraction_bits);
    double fraction = code & ((1u << f->fraction_bits) - 1), one = 1u << f->fraction_bits;

    return exponent ? ldexp(one + fraction, exponent - f->bias - f->fraction_bits)
                    : ldexp(fraction, 1 - f->bias - f->fraction_bits);
}

static double code_value(const struct format *f, u32 code)
{
    u32 magnitude = code & 0x7f;
    double value = magnitude_of(f, magnitude);

    if (f->fnuz ? code == 0x80 : magnitude > f->last)
        value = !f->fnuz && magnitude == 0x7c ? (double)INFINITY : (double)NAN;
    return code & 0x80 ? -value : value;
}

/* Whether a code stands for NaN; there are several in f8e5m2. */
static bool is_nan(const struct format *f, u32 code)
{
    return isnan(code_value(f, code));
}

/* Rounds a number to nearest, ties to the even code, by a search among all numbers. */
static u32 nearest_code(const struct format *f, double x, bool saturate)
{
    double size = fabs(x), middle;
    u32 code = 0, sign = signbit(x) ? 0x80 : 0;

    while (code < f->last && magnitude_of(f, code + 1) <= size) code++;
    middle = (magnitude_of(f, code) + magnitude_of(f, code + 1)) / 2;
    if (size > middle || (size == middle && code % 2)) code++;
    if (code > f->last) code = saturate ? f->last : f->beyond;
    return f->fnuz && (!code || code == 0x80) ? code : sign | code;
}

static void expect_read(const struct format *f)
{
    for (u32 code = 0; code < 256; code++) {
        u32 got = f32_bits(f->to_f32((u8)code));
        double want = code_value(f, code);
        if (isnan(want)) cr_assert_gt(got & 0x7fffffff, 0x7f800000, "%s %x", f->name, code);
        else cr_assert_eq(got, f32_bits((f32)want), "%s %x: %08x", f->name, code, got);
    }
}

static void expect_written(const struct format *f, f32 x)
{
    for (int saturate = 0; saturate < 2; saturate++)
        for (int sign = 0; sign < 2; sign++) {
            f32 number = f32_from_bits(f32_bits(x) | (u32)sign << 31);
            u32 got = f->from_f32(number, saturate), want = nearest_code(f, number, saturate);
            cr_assert_eq(got, want, "%s: %a is %x, expected %x", f->name, (double)number, got,
                         want);
        }
}

/* Tests the numbers at and beside x. */
static void expect_around(const struct format *f, double x)
{
    u32 bits = f32_bits((f32)x);

    for (u32 step = 0; step < 3; step++)
        if (bits + step) expect_written(f, f32_from_bits(bits + step - 1));
}

static void expect_all_written(void)
{
    for (size_t i = 0; i < FORMATS; i++) {
        const struct format *f = &formats[i];
        for (u32 code = 0; code <= f->last; code++) {
            expect_around(f, magnitude_of(f, code));
            expect_around(f, (magnitude_of(f, code) + magnitude_of(f, code + 1)) / 2);
        }
        expect_around(f, magnitude_of(f, f->last + 1));
        for (int exponent = -140; exponent < 128; exponent++)
            expect_written(f, (f32)ldexp(1.3, exponent));
        expect_written(f, (f32)INFINITY);
    }
}

Test(float8, all_codes_are_read)
{
    for (size_t i = 0; i < FORMATS; i++) expect_read(&formats[i]);
}

/* f8e5m2 is read as f16: test_half.c tests the form for devices that flush. */
Test(float8, all_codes_are_read_where_subnormal_numbers_are_0)
{
    if (!flush_set(true)) cr_skip_test("this processor is not known to flush");
    cr_assert(flush_is_on());
    for (size_t i = 0; i < FORMATS; i++)
        if (formats[i].to_f32 != f8e5m2_to_f32) expect_read(&formats[i]);
    flush_set(false);
}

Test(float8, numbers_and_middles_are_rounded)
{
    expect_all_written();
}

Test(float8, numbers_and_middles_are_rounded_where_subnormal_numbers_are_0)
{
    if (!flush_set(true)) cr_skip_test("this processor is not known to flush");
    expect_all_written();
    flush_set(false);
}

Test(float8, a_code_that_is_read_and_written_is_the_same)
{
    for (size_t i = 0; i < FORMATS; i++)
        for (u32 code = 0; code < 256; code++) {
            const struct format *f = &formats[i];
            u32 again = f->from_f32(f->to_f32((u8)code), 0);
            if (is_nan(f, code)) cr_assert(is_nan(f, again), "%s %x: %x", f->name, code, again);
            else cr_assert_eq(again, code, "%s %x: %x", f->name, code, again);
        }
}

Test(float8, nan_is_written_as_nan)
{
    static const u32 nans[] = {0x7f800001, 0x7fc00000, 0x7fffffff, 0xff800001, 0xffc00000};

    for (size_t i = 0; i < FORMATS; i++)
        for (size_t n = 0; n < sizeof nans / sizeof *nans; n++)
            for (int saturate = 0; saturate < 2; saturate++) {
                const struct format *f = &formats[i];
                u32 got = f->from_f32(f32_from_bits(nans[n]), saturate);
                cr_assert(is_nan(f, got), "%s %08x: %x", f->name, nans[n], got);
                cr_assert(!f->fnuz || got == 0x80, "%s %08x: %x", f->name, nans[n], got);
            }
}

/* Rounds to a power of two by comparisons of doubles, all of which are exact. */
static u32 nearest_power(double x, bool saturate, int round)
{
    int exponent = 127;
    double rest;

    if (isnan(x) || x < 0) return 0xff;
    if (x < 0x1p-127) return saturate ? 0 : 0xff;
    if (x > 0x1p127) return saturate ? 254 : 0xff;
    while (ldexp(1, exponent) > x) exponent--;
    rest = x - ldexp(1, exponent);
    if (round == F8_UP ? rest > 0 : round == F8_NEAREST && rest >= ldexp(1, exponent - 1))
        exponent++;
    return (u32)(exponent + 127);
}

static void expect_power(u32 bits)
{
    f32 x = f32_from_bits(bits);

    for (int saturate = 0; saturate < 2; saturate++)
        for (int round = F8_NEAREST; round <= F8_DOWN; round++) {
            u32 got = f8e8m0_from_f32(x, saturate, round);
            u32 want = nearest_power((double)x, saturate, round);
            cr_assert_eq(got, want, "%08x, saturate %d, round %d: %x, expected %x", bits, saturate,
                         round, got, want);
        }
}

Test(float8, all_exponents_are_read)
{
    for (u32 code = 0; code < 255; code++) {
        f32 got = f8e8m0_to_f32((u8)code);
        cr_assert_eq((double)got, ldexp(1, (int)code - 127), "%x: %a", code, (double)got);
        for (int round = F8_NEAREST; round <= F8_DOWN; round++)
            cr_assert_eq(f8e8m0_from_f32(got, 0, round), code, "%x, round %d", code, round);
    }
    cr_assert(isnan(f8e8m0_to_f32(255)));
}

/* Fractions at and beside 0, a half and the end of each exponent, of both signs. */
Test(float8, numbers_are_rounded_to_exponents)
{
    static const u32 fractions[] = {0, 1, 2, 0x200000, 0x3fffff, 0x400000, 0x400001, 0x5fffff,
                                    0x600000, 0x600001, 0x7fffff};

    for (u32 exponent = 0; exponent < 256; exponent++)
        for (size_t i = 0; i < sizeof fractions / sizeof *fractions; i++) {
            expect_power(exponent << 23 | fractions[i]);
            expect_power(exponent << 23 | fractions[i] | 0x80000000);
        }
}
