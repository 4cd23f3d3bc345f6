/* SPDX-License-Identifier: Apache-2.0 */
/* test_exp.c: tests that the exponential for numbers of at most 0 has the bits of the general one:
 * subnormal results, 0 of large negative numbers, and NaN. */
#include <criterion/criterion.h>
#include <dialect/exp.h>
#include <math.h>

Test(exp, negative_equals_general)
{
    const u32 step = 401; /* of bits: 5 million numbers from -0 to -infinity */
    u32 end = f32_bits(-INFINITY);

    for (u32 bits = 0x80000000; bits < end; bits += step) {
        f32 x = f32_from_bits(bits), got = exp_negative_f32(x), expected = exp_f32(x);
        if (f32_bits(got) != f32_bits(expected))
            cr_assert(false, "e^%a is %a in place of %a", (double)x, (double)got, (double)expected);
    }
    cr_assert_eq(exp_negative_f32(-INFINITY), 0);
    cr_assert_eq(exp_negative_f32(0), 1);
    cr_assert_eq(exp_negative_f32(-0.0f), 1);
    cr_assert(exp_negative_f32(-103.0f) > 0, "a subnormal result");
    cr_assert(isnan(exp_negative_f32(NAN)));
}
