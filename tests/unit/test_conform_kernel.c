/* SPDX-License-Identifier: Apache-2.0 */
/* test_conform_kernel.c: tests how the conformance suite runs a kernel case. */
#include <criterion/criterion.h>
#include <backplane/kernel.h>
#include <math.h>
#include <case_fixture.h>
#include <list_make.h>
#include <stdlib.h>
#include <suites/suites.h>

static void conform_kernel_take(void *ctx, struct kernel_case *made)
{
    *(struct kernel_case **)ctx = made;
}

/* All boxes are equal, so only the first one is kept; with the other threshold that the suite
 * tries, all are kept: the result grows from 24 bytes to 48,000. */
Test(kernel_case, results_grow_with_an_attribute)
{
    static const double box[] = {0, 0, 8, 8};
    struct bp_non_max_suppression_attrs attrs = {sizeof attrs, 2000, 0.25, -INFINITY, 0};
    struct kernel_case *made = NULL;
    struct case_builder builder = {.op = conform_op("non_max_suppression"),
                                   .row = "cpu_non_max_suppression",
                                   .row_flags = BP_KERNEL_DETERMINISTIC,
                                   .dtype = {BP_F32, BP_F32, BP_I64, BP_F32},
                                   .defaults = &attrs,
                                   .attrs_size = sizeof attrs,
                                   .made = conform_kernel_take,
                                   .ctx = &made};
    struct fixture fixture = {0};
    struct result result = {0};
    struct check check = {&fixture, &result, "growing"};

    cr_assert_eq(fixture_init(&fixture, "cpu", "", "", true), 0);
    made = case_begin(&builder, "1x2000x4+1x1x2000");
    case_list(made, 0, 4, box);
    case_end(&builder, made, "growing");
    kernel_case_run(&check, made);
    cr_expect(result.executed);
    cr_expect_eq(result.outcome, OUTCOME_PASS, "%s", result.message);
    free(made);
    fixture_finish(&fixture);
}

static void conform_kernel_count(void *ctx, struct kernel_case *made)
{
    ++*(int *)ctx;
    free(made);
}

/* Variable R has only an input in the host's memory: rows that do not name R have its dtype from
 * T. Such a row has the cases of one that names R. */
Test(kernel_case, rows_without_the_variable_of_a_host_input)
{
    const struct bp_opinfo *op = bp_opinfo_find("repeat_interleave");
    const uint64_t with[BP_VAR_COUNT] = {BP_M(F32), 0, 0, BP_M(I64)};
    const uint64_t without[BP_VAR_COUNT] = {BP_M(F32)};
    int n[2] = {0};

    for (int i = 0; i < 2; i++) {
        struct case_builder builder = {.op = conform_op(op->name),
                                       .row = "a_row",
                                       .defaults = op->defaults,
                                       .attrs_size = op->attrs_size,
                                       .made = conform_kernel_count,
                                       .ctx = &n[i]};
        list_add_dtypes(&builder, op, i ? without : with, 0);
    }
    cr_assert_gt(n[0], 0);
    cr_assert_eq(n[1], n[0]);
}
