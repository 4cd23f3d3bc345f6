/* SPDX-License-Identifier: Apache-2.0 */
/* test_ccl_reduce.c: tests sums, products and averages of all pairs of numbers of the f8
 * types, as collectives compute them, against the conversions of kernels, which test_float8.c
 * tests. */
#include "ccl/shm/reduce.h"
#include <criterion/criterion.h>
#include <dialect/float8.h>
#include <stdbool.h>

enum { PAIRS = 256 * 256 };

static f32 f8_read(uint32_t dtype, u8 b)
{
    switch (dtype) {
    case BP_F8E4M3: return f8e4m3_to_f32(b);
    case BP_F8E5M2: return f8e5m2_to_f32(b);
    case BP_F8E8M0: return f8e8m0_to_f32(b);
    case BP_F8E4M3FNUZ: return f8e4m3fnuz_to_f32(b);
    default: return f8e5m2fnuz_to_f32(b);
    }
}

/* A number that rounds beyond the type becomes an infinity or NaN; one below f8e8m0 its smallest
 * number. */
static u8 f8_written(uint32_t dtype, f32 x)
{
    switch (dtype) {
    case BP_F8E4M3: return f8e4m3_from_f32(x, 0);
    case BP_F8E5M2: return f8e5m2_from_f32(x, 0);
    case BP_F8E8M0: return x >= 0x1.8p127f ? 255 : f8e8m0_from_f32(x, 1, F8_NEAREST);
    case BP_F8E4M3FNUZ: return f8e4m3fnuz_from_f32(x, 0);
    default: return f8e5m2fnuz_from_f32(x, 0);
    }
}

static void check_pairs(uint32_t dtype, uint32_t reduction)
{
    static u8 a[PAIRS], b[PAIRS], got[PAIRS];
    const void *src[] = {a, b};

    for (int i = 0; i < PAIRS; i++) a[i] = (u8)i, b[i] = (u8)(i >> 8);
    bp_ccl_reduce_of(dtype, reduction, got, src, 2, PAIRS, 2);
    for (int i = 0; i < PAIRS; i++) {
        f32 x = f8_read(dtype, a[i]), y = f8_read(dtype, b[i]), z = f8_read(dtype, got[i]);
        f32 exact = reduction == BP_REDUCE_PRODUCT ? x * y : x + y;
        u8 want = f8_written(dtype, reduction == BP_REDUCE_AVERAGE ? exact / 2 : exact);
        f32 number = f8_read(dtype, want);
        cr_assert(got[i] == want || (z != z && number != number),
                  "dtype %u, reduction %u: %a and %a are 0x%02x, expected 0x%02x", dtype,
                  reduction, (double)x, (double)y, got[i], want);
    }
}

Test(ccl_reduce, results_of_f8_are_rounded_once)
{
    int dtypes = 0;

    for (uint32_t dtype = 0; dtype < 64; dtype++) {
        if (!(BP_MASK_F8 >> dtype & 1)) continue;
        cr_assert(bp_ccl_reduces(dtype, BP_REDUCE_SUM));
        check_pairs(dtype, BP_REDUCE_SUM);
        check_pairs(dtype, BP_REDUCE_PRODUCT);
        check_pairs(dtype, BP_REDUCE_AVERAGE);
        dtypes++;
    }
    cr_assert_eq(dtypes, 5);
}

Test(ccl_reduce, numbers_that_are_no_dtype_are_refused)
{
    for (uint32_t dtype = 17; dtype < 20; dtype++)
        cr_assert(!bp_ccl_reduces(dtype, BP_REDUCE_SUM), "%u", dtype);
    cr_assert(!bp_ccl_reduces(23, BP_REDUCE_SUM));
}
