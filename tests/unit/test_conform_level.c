/* SPDX-License-Identifier: Apache-2.0 */
/* test_conform_level.c: tests which level a device gets in the conformance suite, with made-up
 * reports. */
#include <criterion/criterion.h>
#include <backplane/backplane.h>
#include <report/report.h>
#include <stdlib.h>
#include <string.h>

enum {
    CASES = 4096
};

struct run {
    struct conform_options options;
    struct report report;
    struct report_row row;
    struct report_case at[CASES];
};

static struct report_case *conform_level_add(struct run *run, enum suite suite,
                                             enum outcome outcome, const char *format,
                                             const char *name)
{
    struct report_case *c = &run->at[run->report.n++];

    cr_assert_leq(run->report.n, CASES);
    *c = (struct report_case){.suite = suite, .row = -1, .selected = true, .outcome = outcome};
    c->message = "";
    if (asprintf(&c->id, format, name) < 0) abort();
    return c;
}

/* A device that passes everything: kernels in f32, or i64 if an operator has no floats. */
static struct run *conform_level_whole(void)
{
    struct run *run = calloc(1, sizeof *run);
    struct report_case *c;

    run->report = (struct report){.options = &run->options, .at = run->at, .row = &run->row};
    run->report.n_row = 1;
    run->row = (struct report_row){.name = "row", .usable = true};
    conform_level_add(run, SUITE_PLUGIN, OUTCOME_PASS, "plugin/%s", "one");
    conform_level_add(run, SUITE_RUNTIME, OUTCOME_PASS, "runtime/%s", "one");
    conform_level_add(run, SUITE_MEMORY, OUTCOME_PASS, "memory/%s", "one");
    for (uint32_t i = 0; i < bp_opinfo_count(); i++) {
        const struct bp_opinfo *op = bp_opinfo_at(i);
        bool floats = op->types[0] >> BP_F32 & 1;
        conform_level_add(run, SUITE_KERNEL, OUTCOME_PASS, "kernel/%s/i64/one/1@none", op->name);
        if (floats)
            conform_level_add(run, SUITE_KERNEL, OUTCOME_PASS, "kernel/%s/f32/one/1@none",
                              op->name);
        if (floats)
            conform_level_add(run, SUITE_GRADIENT, OUTCOME_PASS, "gradient/%s/one/1", op->name);
    }
    c = conform_level_add(run, SUITE_KERNEL, OUTCOME_PASS, "kernel/%s/f32/two/2@row", "add");
    c->row = 0;
    c->executed = true;
    conform_level_add(run, SUITE_CCL, OUTCOME_PASS, "ccl/%s", "one");
    return run;
}

static struct report_case *conform_level_find(struct run *run, const char *id)
{
    size_t i = 0;

    while (i < run->report.n && strcmp(run->at[i].id, id)) i++;
    cr_assert(i < run->report.n, "no case %s", id);
    return &run->at[i];
}

/* Expects this level, and these words in its reason. */
static void conform_level_expect(struct run *run, enum level level, const char *words)
{
    report_judge(&run->report);
    cr_expect_str_eq(level_name(run->report.level), level_name(level), "%s",
                     run->report.level_reason);
    cr_expect(strstr(run->report.level_reason, words), "%s", run->report.level_reason);
    for (size_t i = 0; i < run->report.n; i++) {
        free(run->at[i].id);
        free(run->at[i].step);
    }
    free(run->report.within);
    free(run->report.missing);
    free(run);
}

/* Replaces one case of the complete device by an unsupported one. */
static void expect_without(const char *id, const char *instead, enum level level, const char *words)
{
    struct run *run = conform_level_whole();
    struct report_case *c = conform_level_find(run, id);

    free(c->id);
    c->id = strdup(instead);
    c->outcome = OUTCOME_UNSUPPORTED;
    conform_level_expect(run, level, words);
}

Test(conform_level, of_a_device_that_has_all)
{
    conform_level_expect(conform_level_whole(), LEVEL_CCL, "there is none above");
}

Test(conform_level, inference_needs_the_operators_of_models)
{
    expect_without("kernel/conv/f32/one/1@none", "kernel/conv/f32@none", LEVEL_CORE,
                   "for inference the device must run conv, of suite kernel");
    expect_without("kernel/conv/f32/one/1@none", "kernel/conv/f32-i32@none", LEVEL_CORE,
                   "run conv");
    expect_without("kernel/conv/f32/one/1@none", "kernel/conv/f32/one/1@none", LEVEL_CORE,
                   "run conv");
    expect_without("kernel/bitwise_and/i64/one/1@none", "kernel/bitwise_and/i64@none", LEVEL_CORE,
                   "run bitwise_and");
    expect_without("kernel/conv/i64/one/1@none", "kernel/conv/i64@none", LEVEL_CCL, "none above");
}

Test(conform_level, an_operator_that_runs_in_part_does_not_run)
{
    struct run *run = conform_level_whole();

    conform_level_add(run, SUITE_KERNEL, OUTCOME_UNSUPPORTED, "kernel/%s/f32@none", "conv")->fixed =
        true;
    conform_level_expect(run, LEVEL_CORE, "it lacks rows for some");
}

/* The operators that a run lacks are ordered by level, then by the number of models. */
Test(conform_level, all_missing_operators_are_listed)
{
    struct run *run = conform_level_whole();
    static const char *const lacking[] = {"sgd", "erf", "add", "matmul"};
    static const char *const order[] = {"add", "matmul", "erf", "sgd"};

    for (int i = 0; i < 4; i++) {
        char id[64];
        snprintf(id, sizeof id, "kernel/%s/f32/one/1@none", lacking[i]);
        conform_level_find(run, id)->outcome = OUTCOME_UNSUPPORTED;
    }
    conform_level_find(run, "kernel/add/f32/two/2@row")->outcome = OUTCOME_UNSUPPORTED;
    report_judge(&run->report);
    cr_assert_eq(run->report.n_missing, 4);
    for (int i = 0; i < 4; i++) cr_expect_str_eq(run->report.missing[i].op, order[i]);
    cr_expect_eq(report_missing_of(&run->report, LEVEL_INFERENCE), 3);
    cr_expect_eq(report_missing_of(&run->report, LEVEL_TRAINING), 1);
    conform_level_expect(run, LEVEL_CORE, "operators that are missing: 3");
}

Test(conform_level, core_needs_the_rows_that_the_user_leaves_out)
{
    struct run *run = conform_level_whole();
    struct report_case *c = conform_level_add(run, SUITE_KERNEL, OUTCOME_SKIP, "kernel/add@%s",
                                              "other");

    c->fixed = true;
    c->message = "left out by BP_KERNELS (-other)";
    conform_level_expect(run, LEVEL_RUNTIME, "kernel/add@other: left out by BP_KERNELS (-other)");
    run = conform_level_whole();
    c = conform_level_add(run, SUITE_KERNEL, OUTCOME_SKIP, "kernel/add@%s", "other");
    c->message = "this processor lacks avx512";
    conform_level_expect(run, LEVEL_CCL, "there is none above");
}

Test(conform_level, inference_needs_nothing_else)
{
    expect_without("kernel/sgd/f32/one/1@none", "kernel/sgd/f32@none", LEVEL_INFERENCE,
                   "for training the device must run sgd");
    expect_without("kernel/kron/f32/one/1@none", "kernel/kron/f32@none", LEVEL_CCL, "none above");
}

Test(conform_level, training_needs_gradients)
{
    struct run *run = conform_level_whole();

    expect_without("gradient/conv/one/1", "gradient/conv", LEVEL_INFERENCE,
                   "run conv, of suite gradient");
    for (size_t i = 0; i < run->report.n; i++)
        if (run->at[i].suite == SUITE_GRADIENT) run->at[i].outcome = OUTCOME_UNSUPPORTED;
    conform_level_expect(run, LEVEL_INFERENCE, "gradients must pass");
    run = conform_level_whole();
    conform_level_find(run, "gradient/conv/one/1")->outcome = OUTCOME_XFAIL;
    conform_level_expect(run, LEVEL_INFERENCE, "only expected");
}

Test(conform_level, ccl_needs_all_of_its_suite)
{
    struct run *run = conform_level_whole();

    run->report.left_out[SUITE_CCL] = true;
    conform_level_expect(run, LEVEL_TRAINING, "not all of it was run");
}

Test(conform_level, a_failed_level_denies_all_above)
{
    struct run *run = conform_level_whole();

    conform_level_find(run, "kernel/kron/f32/one/1@none")->outcome = OUTCOME_FAIL;
    conform_level_expect(run, LEVEL_RUNTIME, "kernel/kron/f32/one/1@none: fail");
}

/* Adds a case of the only row, which runs it in one way. */
static struct report_case *add_way(struct run *run, enum row_fact fact, enum outcome outcome)
{
    struct report_case *c = conform_level_add(run, SUITE_KERNEL, outcome,
                                              "kernel/add/f32/way/%s@row", "3");

    c->row = 0;
    c->facts = 1u << fact;
    c->executed = outcome == OUTCOME_PASS;
    return c;
}

Test(conform_level, a_row_runs_in_each_way_that_it_has_cases_for)
{
    for (enum row_fact fact = 0; fact < ROW_FACT_COUNT; fact++) {
        struct run *run = conform_level_whole();

        add_way(run, fact, OUTCOME_SKIP);
        report_judge(&run->report);
        cr_expect_eq(run->report.fact[fact].total, 1);
        cr_expect_eq(run->report.fact[fact].executed, 0);
        cr_expect_eq(run->report.rows_executed, 1);
        cr_expect_not(report_is_good(&run->report), "%s", report_fact_text[fact]);
        conform_level_expect(run, LEVEL_RUNTIME, "row was not");
        run = conform_level_whole();
        add_way(run, fact, OUTCOME_SKIP);
        add_way(run, fact, OUTCOME_PASS);
        report_judge(&run->report);
        cr_expect_eq(run->report.fact[fact].executed, 1);
        cr_expect(report_is_good(&run->report), "%s", report_fact_text[fact]);
        conform_level_expect(run, LEVEL_CCL, "none above");
    }
}

/* Adds a case of an operator whose decomposition has the only row's operator, which must run
 * there. */
static struct report_case *add_step(struct run *run, const char *op, enum outcome outcome)
{
    struct report_case *c = add_way(run, ROW_WITHIN, outcome);

    free(c->id);
    if (asprintf(&c->id, "kernel/%s/f32/real/3.expanded@row", op) < 0) abort();
    return c;
}

Test(conform_level, a_row_runs_in_each_operator_that_is_made_of_its_own)
{
    struct run *run = conform_level_whole();
    struct report_case *c;

    add_step(run, "linear", OUTCOME_PASS);
    c = add_step(run, "lstm", OUTCOME_SKIP);
    report_judge(&run->report);
    cr_expect_eq(run->report.fact[ROW_WITHIN].total, 1);
    cr_expect_eq(run->report.fact[ROW_WITHIN].executed, 0, "it has not run in lstm");
    cr_expect_not(report_is_good(&run->report));
    c->facts |= 1u << ROW_MAY_DECLINE;
    report_judge(&run->report);
    cr_expect_eq(run->report.fact[ROW_WITHIN].executed, 1, "it need not");
    c->facts = 1u << ROW_WITHIN;
    report_case_steps(&run->report, conform_level_find(run, "kernel/linear/f32/one/1@none"),
                      " row other ");
    report_judge(&run->report);
    cr_expect_not(report_is_good(&run->report), "it has run in another");
    c = conform_level_find(run, "kernel/lstm/f32/one/1@none");
    report_case_steps(&run->report, c, " other rows row ");
    cr_expect_eq(c->n_step, 1, "rows that nobody has");
    report_judge(&run->report);
    cr_expect_eq(run->report.fact[ROW_WITHIN].executed, 1, "it has run in lstm");
    cr_expect(report_is_good(&run->report));
    conform_level_expect(run, LEVEL_CCL, "none above");
}

Test(conform_level, a_way_is_judged_where_all_of_it_was_run)
{
    struct run *run = conform_level_whole();

    add_way(run, ROW_REAL, OUTCOME_SKIP);
    run->options.shards = 2;
    report_judge(&run->report);
    cr_expect(report_is_good(&run->report));
    run->options.shards = 0;
    add_way(run, ROW_FROZEN, OUTCOME_UNSUPPORTED);
    report_judge(&run->report);
    cr_expect_eq(run->report.fact[ROW_FROZEN].total, 0, "what the device lacks");
    cr_expect_not(report_is_good(&run->report));
    run->at[run->report.n - 2].expected = true;
    report_judge(&run->report);
    cr_expect_eq(run->report.fact[ROW_REAL].total, 0, "what its vendor leaves out");
    conform_level_expect(run, LEVEL_RUNTIME, "only expected");
}

Test(conform_level, a_row_that_is_only_a_step_was_not_executed)
{
    struct run *run = conform_level_whole();

    add_way(run, ROW_WITHIN, OUTCOME_PASS);
    conform_level_find(run, "kernel/add/f32/two/2@row")->executed = false;
    report_judge(&run->report);
    cr_expect_eq(run->report.rows_executed, 0);
    cr_expect_not(report_is_good(&run->report));
    conform_level_expect(run, LEVEL_RUNTIME, "row was not");
}
