/* SPDX-License-Identifier: Apache-2.0 */
/* test_pass_clean.c: tests the pass `clean`: nodes that nothing reads, nodes that compute the same,
 * and identities; and the nodes of each kind that must stay. */
#include "pass_kit.h"

/* Elementwise operators round once each; values are below 8. */
static const double clean_terms = 64;

struct clean_case {
    const char *text, *ops;
    bool random; /* runs draw other numbers */
};

static void expect_clean(const struct clean_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct text_graph g = text_begin();
        struct pass_run run;
        g.apart = true;
        text_record(&g, cases[i].text);
        pass_begin(&g, &run);
        pass_apply(&run, bp_pass_clean);
        cr_assert_str_eq(run.ops, cases[i].ops, "%s:\n%s", cases[i].text, run.text);
        pass_finish(&run);
        if (!cases[i].random) pass_check_values(&g, clean_terms);
        text_finish(&g);
    }
}

Test(clean, nodes_that_nothing_reads_go)
{
    static const struct clean_case cases[] = {
        {"y = neg(x)\nreturn abs(x)", "abs", false},
        {"y = neg(x)\nz = relu(y)\nu = add(z, y)\nreturn abs(x)", "abs", false},
        {"y = transpose(x; perm=0_2_1)\nreturn abs(x)", "abs", false},
        {"y = neg(x)\nz = relu(y)\nreturn abs(y)", "neg abs", false},
    };

    expect_clean(cases, sizeof cases / sizeof *cases);
}

/* A random node that nothing reads goes, and an update stays. */
Test(clean, unread_random_nodes_go_and_updates_stay)
{
    static const struct clean_case cases[] = {
        {"y = dropout(x)\nreturn abs(x)", "abs", false},
        {"y = neg(uniform(_; shape=4))\nreturn abs(x)", "abs", false},
        {"y = dropout(x)\nreturn dropout(x)", "dropout", true},
        {"y = sgd(x, g[4,4,4], 0.25)\nreturn abs(g)", "sgd abs", true},
    };

    expect_clean(cases, sizeof cases / sizeof *cases);
}

Test(clean, equal_nodes_merge)
{
    static const struct clean_case cases[] = {
        {"add(neg(x), neg(x))", "neg add", false},
        {"add(relu(neg(x)), abs(relu(neg(x))))", "neg relu abs add", false},
        {"add(leaky_relu(x; slope=0.25), leaky_relu(x; slope=0.25))", "leaky_relu add", false},
        {"mul(transpose(x; perm=0_2_1), neg(transpose(x; perm=0_2_1)))", "transpose neg mul",
         false},
        {"add(neg(c~), neg(c~))", "neg add", false},
        {"add(clip(x; min=0, max=1), clip(x; min=0, max=1))", "clip add", false},
        {"a = neg(x)\nreturn a, abs(neg(x))", "neg abs", false},
    };

    expect_clean(cases, sizeof cases / sizeof *cases);
}

Test(clean, nodes_that_differ_stay)
{
    static const struct clean_case cases[] = {
        {"add(leaky_relu(x; slope=0.25), leaky_relu(x; slope=0.5))", "leaky_relu leaky_relu add",
         false},
        {"add(elu(x; alpha=0.25), elu(x; alpha=0.5))", "elu elu add", false},
        {"add(mean(reshape(x; shape=16_4)), mean(reshape(x; shape=4_16); axes=1))",
         "reshape mean reshape mean add", false},
        {"add(sum(reshape(x; shape=4_16)), sum(reshape(x; shape=16_4)))",
         "reshape sum reshape sum add", false},
        {"add(transpose(x; perm=0_2_1), transpose(x; perm=2_1_0))", "transpose transpose add",
         false},
        {"add(sum(x; axes=0), sum(x; axes=0_1))", "sum sum add", false},
        {"add(sub(x, y), sub(y, x))", "sub sub add", false},
        {"add(batch_norm(x, a!, _, m!, v!), batch_norm(x, _, a!, m!, v!))",
         "batch_norm batch_norm add", false},
        {"add(dropout(x; p=0.25), dropout(x; p=0.75))", "dropout dropout add", true},
        {"add(dropout(x; p=0.25), dropout(x; p=0.25))", "dropout dropout add", true},
        {"add(uniform(_; shape=4), uniform(_; shape=4))", "uniform uniform add", true},
        {"return neg(x), neg(x)", "neg neg", false},
        {"b = abs(neg(x))\nreturn neg(x), b", "neg abs neg", false},
        {"return transpose(neg(x); perm=0_2_1), transpose(neg(x); perm=0_2_1)",
         "neg transpose neg transpose", false},
    };

    expect_clean(cases, sizeof cases / sizeof *cases);
}

/* Equal reads before and after an update read other numbers, also through views of the memory. */
Test(clean, reads_around_an_update_stay)
{
    static const struct clean_case cases[] = {
        {"a = neg(x)\nsgd(x, g[4,4,4], 0.25)\nb = neg(x)\nreturn add(a, b)", "neg sgd neg add",
         true},
        {"v = transpose(x; perm=0_2_1)\na = neg(v)\nsgd(x, g[4,4,4], 0.25)\nb = neg(v)\n"
         "return add(a, b)",
         "transpose neg sgd neg add", true},
        {"v = transpose(x; perm=0_2_1)\na = neg(x)\nsgd(v, g[4,4,4], 0.25)\nb = neg(x)\n"
         "return add(a, b)",
         "transpose neg sgd neg add", true},
        {"a = neg(c~[4,4,4])\nsgd(c, g[4,4,4], 0.25)\nb = neg(c)\nreturn add(a, b)",
         "neg sgd neg add", true},
        {"a = cast(x; to=f32)\nsgd(x, g[4,4,4], 0.25)\nreturn add(a, x)", "cast sgd add", true},
        {"a = sgd(x, g[4,4,4], 0.25)\nb = sgd(x, g, 0.25)\nreturn add(a, b)", "sgd sgd add", true},
    };

    expect_clean(cases, sizeof cases / sizeof *cases);
}

Test(clean, identities_go)
{
    static const struct clean_case cases[] = {
        {"abs(reshape(x; shape=4_4_4))", "abs", false},
        {"abs(reshape(x; shape=4_-1_4))", "abs", false},
        {"abs(expand(x; shape=4_4_4))", "abs", false},
        {"abs(expand(x; shape=-1_4_-1))", "abs", false},
        {"abs(transpose(x; perm=0_1_2))", "abs", false},
        {"abs(flatten(x[4,4]; start_axis=1))", "abs", false},
        {"abs(cast(cast(x:f64; to=f64); to=f64))", "abs", false},
        {"abs(transpose(reshape(x; shape=4_4_4); perm=0_1_2))", "abs", false},
        {"abs(transpose(x[4]))", "abs", false},
    };

    expect_clean(cases, sizeof cases / sizeof *cases);
}

Test(clean, nodes_that_change_something_stay)
{
    static const struct clean_case cases[] = {
        {"abs(transpose(x; perm=0_2_1))", "transpose abs", false},
        {"abs(transpose(x))", "transpose abs", false},
        {"abs(transpose(x[4,4]))", "transpose abs", false},
        {"abs(reshape(x; shape=4_16))", "reshape abs", false},
        {"abs(cast(x; to=f64))", "cast abs", false},
        {"abs(cast(cast(x; to=f16); to=f32))", "cast cast abs", false},
        {"add(x, 0)", "add", false},
        {"mul(x, 0)", "mul", false},
        {"maximum(x, x)", "maximum", false},
        {"return reshape(x; shape=4_4_4)", "reshape", false},
        {"y = neg(x)\nreturn cast(y; to=f32), y", "neg cast", false},
        {"y = cast(x; to=f32)\nreturn transpose(y; perm=0_2_1)", "cast transpose", false},
    };

    expect_clean(cases, sizeof cases / sizeof *cases);
}

/* One of two equal calls names its kernel. */
Test(clean, a_pinned_call_does_not_merge_with_another)
{
    struct text_graph g = text_begin();
    struct pass_run run;

    g.apart = true;
    g.edit = (struct text_edit){TEXT_PIN, 1};
    text_record(&g, "add(neg(x), neg(x))");
    pass_begin(&g, &run);
    pass_apply(&run, bp_pass_clean);
    pass_expect_same(&run, "a pinned kernel");
    pass_finish(&run);
    text_finish(&g);
}
