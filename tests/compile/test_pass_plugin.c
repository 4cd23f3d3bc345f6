/* SPDX-License-Identifier: Apache-2.0 */
/* test_pass_plugin.c: tests patterns of plugins: each kind on a graph that matches and on near
 * misses, and patterns that are wrong, which harm only themselves. */
#include "pass_kit.h"

#include <backplane/ops.h>
#include <backplane/program.h>
#include <plugin/entry.h>
#include <plugin/patterns.h>
#include <stdlib.h>

static struct text_graph plugin_begin(void)
{
    return text_begin_on("patterned:0", PATTERNED_PLUGIN);
}

static struct bp_plugin_pattern *plugin_find(const struct text_graph *g, const char *name)
{
    const struct bp_plugin_entry *entry = g->f.device->entry;

    for (uint32_t i = 0; i < entry->n_pattern; i++)
        if (!strcmp(entry->pattern[i].row.name, name)) return &entry->pattern[i];
    cr_assert(false, "there is no pattern %s", name);
    return NULL;
}

/* Runs one pattern on the graph of a text, which then has these operators. */
static void plugin_expect_in(struct text_graph *g, const char *pattern, const char *text,
                             const char *ops)
{
    struct bp_plugin_pattern *p = plugin_find(g, pattern);
    struct pass_run run;

    cr_assert_null(p->reason, "%s: %s", pattern, p->reason);
    text_record(g, text);
    pass_begin(g, &run);
    pass_apply_pattern(&run, bp_pass_plugin, p);
    cr_assert_str_eq(run.ops, ops, "%s on %s\nbefore:\n%safter:\n%s", pattern, text, run.before,
                     run.text);
    pass_finish(&run);
    if (!strstr(text, "fill(")) pass_check_values(g, 64); /* else the next input differs */
}

static void plugin_expect(const char *pattern, const char *text, const char *ops)
{
    struct text_graph g = plugin_begin();

    plugin_expect_in(&g, pattern, text, ops);
    text_finish(&g);
}

/* The pattern finds nothing in the graph of a text. */
static void plugin_miss(const char *pattern, const char *text)
{
    struct text_graph g = plugin_begin();
    struct pass_run run;

    text_record(&g, text);
    pass_begin(&g, &run);
    pass_apply_pattern(&run, bp_pass_plugin, plugin_find(&g, pattern));
    pass_expect_same(&run, text);
    pass_finish(&run);
    if (!strstr(text, "fill(")) pass_check_values(&g, 64);
    text_finish(&g);
}

Test(plugin_patterns, an_own_operator_gets_a_number)
{
    plugin_expect("axpy", "add(mul(x, 2[1]), y)", "patterned.axpy");
    plugin_expect("axpy", "add(y, mul(2[1], x))", "patterned.axpy");
    plugin_expect("axpy", "a = add(mul(x, 2[1]), y)\nb = add(mul(a, 3[1]), x)\nreturn a, b",
                  "patterned.axpy patterned.axpy");
    plugin_miss("axpy", "add(mul(x, c~[1]), y)");
    plugin_miss("axpy", "add(mul(x, 2[4]), y)");
    plugin_miss("axpy", "add(mul(x[1,4], 2[1]), y)");
    plugin_miss("axpy", "add(mul(x:f64, 2:f64[1]), y:f64)");
    plugin_miss("axpy", "m = mul(x, 2[1])\na = add(m, y)\nb = exp(m)\nreturn a, b");
    plugin_miss("axpy", "m = mul(x, 2[1])\na = add(m, y)\nreturn a, m");
    plugin_miss("axpy", "a = add(mul(x, 2[1]), y)\nfill(x)\nreturn a");
    plugin_miss("axpy", "sub(mul(x, 2[1]), y)");
}

Test(plugin_patterns, two_results_share_an_input)
{
    plugin_expect("pair", "a = neg(x)\nb = exp(x)\nreturn a, b", "patterned.pair");
    plugin_expect("pair", "b = exp(x)\na = neg(x)\nreturn a, b", "patterned.pair");
    /* Readers between the two nodes run after them. */
    plugin_expect("pair", "a = neg(x)\nc = sqrt(a)\nd = sin(c)\nb = exp(x)\nreturn b, c, d",
                  "patterned.pair sqrt sin");
    plugin_miss("pair", "a = neg(x)\nb = exp(y)\nreturn a, b");
    plugin_miss("pair", "neg(exp(x))");
}

/* A node outside that reads the result of one node of the match and computes what another one reads
 * could run neither before nor after the result. */
Test(plugin_patterns, a_path_through_others_is_no_match)
{
    plugin_expect("wide", "a = neg(x)\nb = add(x, y)\nreturn a, b", "neg sub");
    plugin_expect("wide", "a = neg(x)\nb = add(exp(y), x)\nreturn a, b", "exp neg sub");
    plugin_miss("wide", "a = neg(x)\nb = add(x, exp(a))\nreturn a, b");
    plugin_miss("wide", "a = neg(x)\nb = add(x, sqrt(exp(a)))\nreturn b");
}

/* A reader between two nodes of a match would have to run later: not where something is updated. */
Test(plugin_patterns, a_reader_that_must_stay_is_no_match)
{
    plugin_miss("pair", "a = neg(x)\nd = mul(a, u)\nfill(u)\nb = exp(x)\nreturn b, d");
    plugin_expect("pair", "a = neg(x)\nfill(u)\nb = exp(x)\nd = mul(a, u)\nreturn b, d",
                  "fill patterned.pair mul");
}

Test(plugin_patterns, optional_nodes_may_be_absent)
{
    plugin_expect("middle", "square(abs(x))", "mul");
    plugin_expect("middle", "square(x)", "mul");
    plugin_expect("middle", "a = abs(x)\nb = square(a)\nreturn a, b", "abs mul");
    plugin_expect("end", "relu(sigmoid(x))", "neg exp scale reciprocal");
    plugin_expect("end", "sigmoid(x)", "neg exp scale reciprocal");
    plugin_expect("end", "s = sigmoid(x)\nr = relu(s)\nreturn r, s",
                  "neg exp scale reciprocal relu");
    plugin_miss("middle", "abs(x)");
    plugin_miss("end", "relu(x)");
}

Test(plugin_patterns, values_are_compared)
{
    plugin_expect("twice", "mul(x, x)", "square");
    plugin_miss("twice", "mul(x, y)");
    plugin_expect("like", "sub(x, y)", "neg add");
    plugin_miss("like", "sub(x, y[4])");
    plugin_miss("like", "sub(x, y[1,4,4])");
    plugin_miss("like", "sub(x[4], y)");
}

/* The pattern that docs/plugin-guide.md explains. */
Test(plugin_patterns, the_one_of_the_guide)
{
    plugin_expect("shift", "softmax(add(x, 3[1]); axis=1)", "softmax");
    plugin_miss("shift", "softmax(add(x, 3[4]); axis=1)");
    plugin_miss("shift", "softmax(add(x, 30[1]); axis=1)");
    plugin_miss("shift", "softmax(add(x, c~[1]); axis=1)");
    plugin_miss("shift", "softmax(add(x[4], 3[1,4,4]); axis=1)");
}

Test(plugin_patterns, alternatives_serve_alike)
{
    plugin_expect("either", "relu(exp(x))", "exp");
    plugin_expect("either", "abs(exp(x))", "exp");
    plugin_miss("either", "neg(exp(x))");
}

Test(plugin_patterns, a_group_is_taken_whole)
{
    plugin_expect("rest", "neg(neg(concat(x, y, z; axis=1)))", "concat");
    plugin_expect("rest", "neg(neg(concat(x; axis=1)))", "concat");
    plugin_miss("rest", "neg(abs(concat(x, y; axis=1)))");
}

Test(plugin_patterns, lists_are_compared_and_given)
{
    plugin_expect("list", "neg(sum(x; axes=-1))", "neg sum");
    plugin_expect("list", "neg(sum(x; axes=2, keep=1))", "neg sum");
    plugin_miss("list", "neg(sum(x; axes=1))");
    plugin_miss("list", "neg(sum(x; axes=1_2))");
    plugin_miss("list", "neg(sum(x))");
}

Test(plugin_patterns, numbers_are_compared_and_given)
{
    plugin_expect("number", "leaky_relu(x; slope=0.25)", "scale maximum");
    plugin_expect("number", "leaky_relu(x; slope=1)", "scale maximum");
    plugin_miss("number", "leaky_relu(x; slope=0.5)");
    plugin_miss("number", "leaky_relu(x; slope=1.5)");
    plugin_miss("number", "leaky_relu(x; slope=-0.5)");
    plugin_expect("same", "clip(clip(x; min=-1, max=1); min=-1, max=1)", "clip");
    plugin_miss("same", "clip(clip(x; min=-1, max=1); min=-1, max=0.5)");
}

Test(plugin_patterns, an_attribute_without_a_test_has_its_default)
{
    plugin_expect("asked", "neg(scale(x; factor=3))", "scale");
    plugin_miss("asked", "neg(scale(x; factor=3, bias=1))");
}

Test(plugin_patterns, elements_and_ranks_are_compared)
{
    plugin_expect("range", "maximum(x, 2)", "sub relu add");
    plugin_expect("range", "maximum(3, x)", "sub relu add");
    plugin_expect("range", "maximum(x, 3.01)", "sub relu add");
    plugin_miss("range", "maximum(x, 3.1)");
    plugin_miss("range", "maximum(x, 1.9)");
    plugin_miss("range", "maximum(x, c~)");
    plugin_miss("range", "maximum(x[4], 2)");
    plugin_miss("range", "maximum(x[1,1,1,4], 2)");
}

Test(plugin_patterns, inputs_may_match_in_any_order)
{
    plugin_expect("order", "cast(logical_not(equal(x, c~)); to=11)", "not_equal cast");
    plugin_expect("order", "cast(logical_not(equal(c~, x)); to=11)", "not_equal cast");
    plugin_miss("order", "cast(logical_not(equal(x, y)); to=11)");
}

Test(plugin_patterns, the_plugin_decides)
{
    struct text_graph g = plugin_begin();
    struct pass_run run;

    text_record(&g, "neg(scale(x; factor=3))");
    pass_begin(&g, &run);
    cr_assert_not(run.ir->shaped);
    pass_apply_pattern(&run, bp_pass_plugin, plugin_find(&g, "asked"));
    cr_assert(strstr(run.text, "factor=-3"), "%s", run.text);
    cr_assert(run.ir->shaped, "no template may be made of this program");
    pass_finish(&run);
    text_finish(&g);
    plugin_miss("asked", "neg(scale(x[2,4,4]; factor=3))");
    plugin_miss("asked", "neg(scale(abs(x[4]); factor=3))");
}

Test(plugin_patterns, a_result_without_a_kernel_is_refused)
{
    plugin_expect("declined", "reciprocal(exp(x))", "patterned.pair exp");
    plugin_miss("declined", "reciprocal(exp(x:f64))");
}

Test(plugin_patterns, a_pinned_kernel_does_not_match)
{
    for (uint32_t place = 0; place < 2; place++) {
        struct text_graph g = plugin_begin();
        struct pass_run run;
        g.edit = (struct text_edit){TEXT_PIN, place};
        text_record(&g, "relu(exp(x))");
        cr_assert_gt(g.places, place);
        pass_begin(&g, &run);
        pass_apply_pattern(&run, bp_pass_plugin, plugin_find(&g, "either"));
        pass_expect_same(&run, "a pinned kernel");
        pass_finish(&run);
        text_finish(&g);
    }
}

/* ---- passes ---- */

/* Patterns are among the passes by their priorities, and programs say what they did. */
Test(plugin_patterns, each_is_a_pass_of_its_name)
{
    struct text_graph g = plugin_begin();
    struct bp_pass_info info = {.size = sizeof info}, last = {.size = sizeof last};
    struct bp_pass_result result = {.size = sizeof result};
    struct bp_program *program;
    uint32_t found = 0, changed = 0;

    last.priority = INT32_MAX;
    for (uint32_t i = 0; !bp_device_pass(g.f.device, i, &info); i++, last = info) {
        cr_assert_leq(info.priority, last.priority, "%s", info.name);
        cr_assert_str_eq(info.reason, "");
        found += !strncmp(info.name, "patterned.", 10);
    }
    cr_assert_eq(found, g.f.device->entry->n_pattern + 1, "and patterned.rewrite");
    text_record(&g, "square(add(mul(x, 2[1]), y))");
    OK(bp_program_create(g.graph, g.f.device, &program));
    OK(bp_program_compile(program));
    for (uint32_t i = 0; !bp_program_pass(program, i, &result); i++)
        if (!strcmp(result.name, "patterned.axpy") || !strcmp(result.name, "patterned.middle"))
            changed += result.changes;
    cr_assert_eq(changed, 2);
    bp_program_destroy(program);
    text_finish(&g);
}

Test(plugin_patterns, one_is_left_out_by_its_name)
{
    struct text_graph g = plugin_begin();
    struct bp_pass_result result = {.size = sizeof result};
    struct bp_program *program;

    setenv("BP_PASSES", "-patterned.axpy", 1);
    text_record(&g, "add(mul(x, 2[1]), y)");
    OK(bp_program_create(g.graph, g.f.device, &program));
    OK(bp_program_compile(program));
    for (uint32_t i = 0; !bp_program_pass(program, i, &result); i++)
        if (!strcmp(result.name, "patterned.axpy")) cr_assert_eq(result.ran, 0);
    bp_program_destroy(program);
    text_finish(&g);
    unsetenv("BP_PASSES");
}

/* ---- patterns that are wrong ---- */

static char lies_log[65536];

static void lies_note(void *ctx, uint32_t level, const char *text)
{
    size_t n = strlen(lies_log);

    (void)ctx, (void)level;
    snprintf(lies_log + n, sizeof lies_log - n, "%s\n", text);
}

static struct text_graph lies_begin(void)
{
    struct text_graph g;

    setenv("BP_PATTERNED", "lies", 1);
    g = plugin_begin();
    g.f.core->log = lies_note;
    return g;
}

Test(plugin_patterns, a_wrong_one_has_a_reason_and_the_others_work)
{
    static const struct {
        const char *name, *why;
    } wrong[] = {
        {"input", "input 0 is value 4, which is none (node 0)"},
        {"output", "output 0 is value 7, which is none (node 0)"},
        {"later", "input 0 is value 2, which is computed later (node 0)"},
        {"twice", "value 1 is computed twice (node 1)"},
        {"unknown", "has no operator shine (node 0)"},
        {"random", "dropout draws random numbers"},
        {"result", "has no operator shine (node 0 of the result)"},
        {"inner", "input 0 is value 1, which is not there (node 0 of the result)"},
        {"lacks", "its result lacks a value that it replaces"},
        {"last", "its last node computes no value of the result"},
        {"attribute", "sinh has no attribute slope (node 0)"},
        {"given", "cosh has no attribute slope (node 0 of the result)"},
        {"like", "value 0 is like value 9, which is none"},
        {"optional", "it is optional: expected one output and a first input (node 0)"},
        {"empty", "it has no nodes, or no result"},
        {"many", "it has 65 values, at most 64 are possible"},
        {"stride", "the stride of its values is 12"},
        {"null", "its 2 values are at NULL"},
        {"?", "its name is \"a name\", expected letters"},
        {"apart", "its nodes are not connected with the last one by values"},
    };
    struct text_graph g = lies_begin();

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const struct bp_plugin_pattern *p = plugin_find(&g, wrong[i].name);
        cr_expect(p->reason && strstr(p->reason, wrong[i].why), "%s: %s, expected %s",
                  wrong[i].name, p->reason ? p->reason : "it is used", wrong[i].why);
    }
    for (uint32_t i = 0, sounds = 0; i < g.f.device->entry->n_pattern; i++) {
        const struct bp_plugin_pattern *p = &g.f.device->entry->pattern[i];
        if (strcmp(p->row.name, "sound")) continue;
        cr_expect(!p->reason == !sounds++, "the second pattern of a name: %s",
                  p->reason ? p->reason : "used");
    }
    plugin_expect_in(&g, "sound", "neg(neg(x))", "relu sub add");
    text_finish(&g);
}

static void lies_miss(const char *pattern, const char *text, const char *log)
{
    struct text_graph g = lies_begin();
    struct pass_run run;

    *lies_log = 0;
    text_record(&g, text);
    pass_begin(&g, &run);
    pass_apply_pattern(&run, bp_pass_plugin, plugin_find(&g, pattern));
    pass_expect_same(&run, pattern);
    cr_assert(strstr(lies_log, log), "%s: %s", pattern, lies_log);
    pass_finish(&run);
    pass_check_values(&g, 64);
    text_finish(&g);
}

Test(plugin_patterns, a_result_of_another_type_is_refused)
{
    lies_miss("shape", "sinh(x)",
              "pattern patterned.shape is refused at node sinh_0: the result has another dtype or "
              "shape");
    lies_miss("dtype", "cosh(x)", "pattern patterned.dtype is refused at node cosh_0");
}

/* An output of the graph does not become a view of an input; another value may. */
Test(plugin_patterns, an_output_does_not_become_a_view)
{
    struct text_graph g = lies_begin();

    lies_miss("view", "exp(log(x))", "");
    text_finish(&g);
}

Test(plugin_patterns, a_pattern_that_matches_its_own_result_is_stopped)
{
    struct text_graph g = lies_begin();
    struct bp_plugin_pattern *p = plugin_find(&g, "endless");
    struct pass_run run;

    *lies_log = 0;
    text_record(&g, "tan(x)");
    pass_begin(&g, &run);
    pass_apply_pattern(&run, bp_pass_plugin, p);
    cr_assert_str_eq(run.ops, "tan");
    cr_assert(atomic_load(&p->stopped));
    cr_assert(strstr(lies_log, "pattern patterned.endless is not used any more"), "%s", lies_log);
    pass_finish(&run);
    pass_check_values(&g, 64);
    text_finish(&g);
}
