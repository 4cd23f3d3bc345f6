/* SPDX-License-Identifier: Apache-2.0 */
/* test_fused_divide.c: tests the division by which kernels of `fused` find an element's index, also
 * by extents that 32 bits do not hold: a launch computes a part of the elements, and its count may
 * be small although an extent is not. */
#include <dialect/fused_functions.h>
#include <criterion/criterion.h>

static const int64_t extents[] = {1, 2, 3, 7, 1000, INT32_MAX, INT64_C(1) << 31, UINT32_MAX,
                                  INT64_C(1) << 32, (INT64_C(1) << 32) + 5, INT64_C(5) << 32};
static const int64_t elements[] = {0, 1, 6, 999, 1000000, INT32_MAX - 1, INT32_MAX,
                                   INT64_C(1) << 31, UINT32_MAX, INT64_C(3) << 33};

Test(fused_divide, is_exact)
{
    for (size_t e = 0; e < sizeof extents / sizeof *extents; e++)
        for (size_t i = 0; i < sizeof elements / sizeof *elements; i++) {
            int64_t at = elements[i], got = fused_divide(at, extents[e], at + 1);
            cr_expect_eq(got, at / extents[e], "%lld / %lld is %lld", (long long)at,
                         (long long)extents[e], (long long)got);
        }
}
