/* SPDX-License-Identifier: Apache-2.0 */
/* test_half.c: tests conversions of f16 when the processor treats subnormal numbers of f32 as 0, as
 * some GPUs do. It tests the form of f16_to_f32 for these devices for all 65,536 numbers, and
 * f16_from_f32 at and beside each number, and each middle of two numbers, that it rounds to a
 * subnormal one. */
#include "flush.h"
#include <criterion/criterion.h>
#include <dialect/half.h>

/* Converts by the definition of f16. */
static f64 half_value_of(u16 h)
{
    int exponent = h >> 10 & 31;
    f64 fraction = (h & 0x3ff) / 1024.0;
    f64 x = exponent ? ldexp(1 + fraction, exponent - 15) : ldexp(fraction, -14);

    return h & 0x8000 ? -x : x;
}

static void expect_all(void)
{
    for (u32 h = 0; h < 65536; h++) {
        u32 got = f32_bits(f16_to_f32_normal((u16)h));
        u32 expected = f32_bits((f32)half_value_of((u16)h));
        if ((h & 0x7c00) == 0x7c00)
            expected = (h & 0x8000) << 16 | 0x7f800000 | (h & 0x3ff) << 13;
        cr_assert_eq(got, expected, "%04x: %08x, not %08x", h, got, expected);
    }
}

Test(half, all_numbers_are_read)
{
    expect_all();
}

Test(half, all_numbers_are_read_where_subnormal_ones_are_0)
{
    if (!flush_set(true)) cr_skip_test("this processor is not known to flush");
    cr_assert(flush_is_on());
    expect_all();
    flush_set(false);
}

/* Rounds a number beside the middle of two neighbours of f16; the middle is given in halves of
 * 2^-24. */
static u32 half_rounded(u32 halves, int step)
{
    f32 x = f32_from_bits(f32_bits((f32)halves * 0x1p-25f) + (u32)step);

    return f16_from_f32(x);
}

Test(half, small_numbers_are_rounded_where_subnormal_ones_are_0)
{
    if (!flush_set(true)) cr_skip_test("this processor is not known to flush");
    cr_assert(flush_is_on());
    for (u32 halves = 1; halves <= 2048; halves++) {
        u32 below = halves / 2, above = (halves + 1) / 2, even = below & 1 ? above : below;
        cr_assert_eq(half_rounded(halves, -1), halves & 1 ? below : above, "below %u", halves);
        cr_assert_eq(half_rounded(halves, 0), halves & 1 ? even : below, "%u", halves);
        cr_assert_eq(half_rounded(halves, 1), above, "above %u", halves);
    }
    for (u32 bits = 0; bits < 0x800000; bits += 4097)
        cr_assert_eq(f16_from_f32(f32_from_bits(0x80000000 | bits)), 0x8000, "%x", bits);
    flush_set(false);
}
