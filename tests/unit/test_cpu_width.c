/* SPDX-License-Identifier: Apache-2.0 */
/* test_cpu_width.c: tests the rule of the cpu plugin for the number of threads of a kernel: one if
 * the work is small, all if it is large. */
#include "../../plugins/cpu/cpu.h"
#include <criterion/criterion.h>

/* Multiplications, bytes and threads of six. */
static const struct width_case {
    const char *name;
    double terms, bytes;
    uint32_t width;
} cases[] = {
    {"64 x 64 x 64", 262144, 3 * 16384, 1},
    {"64 x 64 x 124", 507904, 80384, 1},
    {"64 x 64 x 128", 524288, 81920, 6},
    {"512 x 512 x 512", 134217728, 3 * 1048576, 6},
    {"few terms, in the caches", 65536, 524288, 1},
    {"few terms, 1 MB", 65536, 1048576, 6},
    {"nothing", 0, 0, 1},
};

Test(cpu_width, a_product_uses_all_threads_if_it_is_large)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct width_case *c = &cases[i];
        uint32_t width = cpu_width_choose(6, cpu_product_work(c->terms, c->bytes));
        cr_expect_eq(width, c->width, "%s: %u threads", c->name, width);
    }
}

/* A launch and a plan choose alike. */
Test(cpu_width, a_launch_follows_the_same_rule)
{
    const struct bp_launch launch = {.width = 6};

    for (double work = 1024; work < 1 << 24; work *= 2)
        cr_expect_eq(cpu_team_width(&launch, work), cpu_width_choose(6, work), "work of %g", work);
    cr_expect_eq(cpu_team_width(&launch, 65535), 1);
    cr_expect_eq(cpu_team_width(&launch, 65536), 6);
}
