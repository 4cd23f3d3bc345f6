/* SPDX-License-Identifier: Apache-2.0 */
/* test_rows.c: tests that stand-ins compute by the portable kernels: strides, attributes, indices
 * out of range, extents that depend on data. TAP. */
#include "rows.h"
#include <stdio.h>
#include <string.h>

static int number, failed;

static void test_rows_report(bool good, const char *name)
{
    printf("%s %d - %s\n", good ? "ok" : "not ok", ++number, name);
    failed += !good;
}

static void test_binary(void)
{
    float x[] = {1, 2, 3, 4, 5, 6}, y[] = {10, 20}, z[6] = {0};
    struct base_tensor a = {x, BP_F32, 2, {3, 2}, {2, 1}}, b = {y, BP_F32, 1, {2}, {1}};
    struct base_tensor c = {z, BP_F32, 2, {3, 2}, {1, 3}}; /* transposed */
    struct base_call call = {.op = "add",
                             .type = {BP_F32, 255, 255, 255},
                             .n_in = 2,
                             .n_out = 1,
                             .in = {&a, &b},
                             .out = {&c}};
    float expected[] = {11, 13, 15, 22, 24, 26};

    test_rows_report(!base_compute(&call) && !memcmp(z, expected, sizeof z),
                     "add broadcasts, and writes by strides");
}

static void test_reduce(void)
{
    float x[] = {1, 2, 3, 4, 5, 6}, y[2] = {0};
    int64_t axes[] = {0};
    struct base_tensor a = {x, BP_F32, 2, {2, 3}, {1, 2}}, b = {y, BP_F32, 1, {2}, {1}};
    struct bp_sum_attrs attrs = {.size = sizeof attrs};
    struct base_call call = {.op = "sum",
                             .type = {BP_F32, 255, 255, 255},
                             .attrs = &attrs,
                             .n_in = 1,
                             .n_out = 1,
                             .in = {&a},
                             .out = {&b}};

    axes[0] = 1;
    attrs.axes.at = axes;
    attrs.axes.n = 1;
    test_rows_report(!base_compute(&call) && y[0] == 9 && y[1] == 12, "sum, strided, one axis");
}

static void test_index(void)
{
    float x[] = {1, 2, 3}, y[2];
    int64_t at[] = {2, 0};
    struct bp_gather_attrs attrs = {.size = sizeof attrs};
    struct base_tensor a = {x, BP_F32, 1, {3}, {1}}, i = {at, BP_I64, 1, {2}, {1}};
    struct base_tensor b = {y, BP_F32, 1, {2}, {1}};
    struct base_call call = {.op = "gather",
                             .type = {BP_F32, 255, BP_I64, 255},
                             .attrs = &attrs,
                             .n_in = 2,
                             .n_out = 1,
                             .in = {&a, &i},
                             .out = {&b}};
    bool good = !base_compute(&call) && y[0] == 3 && y[1] == 1;

    at[1] = 3;
    test_rows_report(good && base_compute(&call) == BASE_FAULT,
                     "gather, and an index out of range");
    call.op = "no_such_operator";
    test_rows_report(base_compute(&call) == BASE_NO_KERNEL, "no such operator");
}

int main(void)
{
    test_binary();
    test_reduce();
    test_index();
    printf("1..%d\n", number);
    return failed != 0;
}
