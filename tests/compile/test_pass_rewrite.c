/* SPDX-License-Identifier: Apache-2.0 */
/* test_pass_rewrite.c: tests the pass of a plugin, which edits graphs as flat arrays: right edits,
 * here and in another process, and results that are refused whole. */
#include "pass_kit.h"

#include <backplane/ops.h>
#include <backplane/program.h>
#include <plugin/entry.h>
#include <plugin/patterns.h>
#include <stdlib.h>

static char rewrite_log[16384];

static void rewrite_note(void *ctx, uint32_t level, const char *text)
{
    size_t n = strlen(rewrite_log);

    (void)ctx, (void)level;
    snprintf(rewrite_log + n, sizeof rewrite_log - n, "%s\n", text);
}

/* word: of BP_REWRITE, or NULL. */
static struct text_graph rewrite_begin(const char *word)
{
    struct text_graph g;

    if (word) setenv("BP_REWRITE", word, 1);
    else unsetenv("BP_REWRITE");
    g = text_begin_on("patterned:0", PATTERNED_PLUGIN);
    g.f.core->log = rewrite_note;
    *rewrite_log = 0;
    return g;
}

static void rewrite_apply(struct text_graph *g, struct pass_run *run)
{
    struct bp_plugin_rewrite *r = g->f.device->entry->rewrite;

    cr_assert_not_null(r);
    pass_begin(g, run);
    pass_apply_to(run, &(const struct bp_pass){.run = bp_pass_rewrite, .rewrite = r});
}

static void rewrite_expect(const char *word, const char *text, const char *ops)
{
    struct text_graph g = rewrite_begin(word);
    struct pass_run run;

    text_record(&g, text);
    rewrite_apply(&g, &run);
    cr_assert_str_eq(run.ops, ops, "%s\nbefore:\n%safter:\n%s%s", text, run.before, run.text,
                     rewrite_log);
    cr_assert_str_eq(rewrite_log, "");
    cr_assert(run.ir->shaped, "no template may be made of this program");
    pass_finish(&run);
    if (!strstr(text, "fill(")) pass_check_values(&g, 64);
    text_finish(&g);
}

static void right_edits(const char *word)
{
    rewrite_expect(word, "exp(neg(neg(x)))", "exp");
    rewrite_expect(word, "exp(neg(neg(neg(neg(neg(x))))))", "neg exp");
    rewrite_expect(word, "neg(neg(x))", "neg neg"); /* an output is no view of an input */
    rewrite_expect(word, "a = neg(x)\nb = exp(neg(a))\nreturn a, b", "neg exp");
    rewrite_expect(word, "sub(exp(x), neg(y))", "exp add");
    rewrite_expect(word, "a = neg(y)\nb = sub(x, a)\nc = sub(x, exp(a))\nreturn b, c",
                   "neg add exp sub");
    rewrite_expect(word, "abs(scale(scale(x; factor=3); factor=0.5))", "scale abs");
    rewrite_expect(word, "scale(scale(x; factor=3, bias=1); factor=0.5)", "scale scale");
    rewrite_expect(word, "a = exp(neg(neg(x)))\nb = sub(y, neg(a))\nreturn a, b", "exp add");
    rewrite_expect(word, "a = neg(u)\nfill(u)\nb = exp(neg(a))\nreturn b", "neg fill neg exp");
    rewrite_expect(word, "tanh(x)", "tanh");
}

Test(pass_rewrite, edits_are_applied)
{
    right_edits(NULL);
}

Test(pass_rewrite, another_process_finds_the_edits)
{
    right_edits("process");
}

Test(pass_rewrite, attributes_are_those_of_the_plugin)
{
    struct text_graph g = rewrite_begin(NULL);
    struct pass_run run;

    text_record(&g, "scale(scale(x; factor=3); factor=0.5)");
    rewrite_apply(&g, &run);
    cr_assert(strstr(run.text, "factor=1.5"), "%s", run.text);
    cr_assert_eq(run.changes, 2);
    pass_finish(&run);
    text_finish(&g);
}

/* ---- results that are wrong ---- */

static void lie_refused(const char *word, const char *text, const char *why)
{
    struct text_graph g = rewrite_begin(word);
    struct pass_run run;

    text_record(&g, text);
    rewrite_apply(&g, &run);
    pass_expect_same(&run, word);
    cr_expect(strstr(rewrite_log, "patterned.rewrite is refused: ") && strstr(rewrite_log, why),
              "%s: '%s', expected %s", word, rewrite_log, why);
    pass_finish(&run);
    text_finish(&g);
}

Test(pass_rewrite, a_wrong_result_is_refused)
{
    static const struct {
        const char *word, *why;
    } lie[] = {
        {"size", "edit 0: its size is 8"},
        {"node", "edit 0: it removes node 7, the graph has 2"},
        {"none", "edit 0: it removes 0 nodes, expected 1 to 2"},
        {"null", "edit 0: it removes 1 nodes"},
        {"twice", "edit 0: it removes node neg_0, which is removed already"},
        {"two", "edit 1: it removes node exp_1, which is removed already"},
        {"reads", "edit 0: it reads value 9, there are 3"},
        {"early", "edit 0: it reads value 3 before a new node computes it"},
        {"computes", "edit 0: it computes value 9, which is none or computed already"},
        {"between", "edit 0: it computes value 3, which is none or computed already"},
        {"many", "edit 0: it has 1048576 values between new nodes"},
        {"dtype", "edit 0: it replaces exp_1 by a value of another dtype or shape"},
        {"shape", "edit 0: it replaces exp_1 by a value of another dtype or shape"},
        {"op", "edit 0: this core has no operator shine"},
        {"unnamed", "edit 0: this core has no operator (NULL)"},
        {"random", "edit 0: dropout draws random numbers"},
        {"ports", "edit 0: exp has 1 inputs and 2 outputs"},
        {"inputs", "edit 0: exp has 2 inputs and 1 outputs"},
        {"stride", "edit 0: its new nodes cannot be walked"},
        {"foreign", "edit 0: it replaces value 1, which no node computes that it removes"},
        {"input", "edit 0: it replaces value 0, which no node computes that it removes"},
        {"again", "edit 0: it replaces exp_1, which is replaced already"},
        {"left", "neg_0 is read, and the node that computes it is removed"},
        {"output", "exp_1 is read, and the node that computes it is removed"},
        {"circle", "nodes would depend on their own results"},
        {"cycle", "nodes would depend on their own results"},
        {"view", "edit 0: it makes exp_1, which the app gets, a view of another value"},
        {"nothing", "edit 0: it replaces value 2 by no value"},
        {"half", "neg_0 is read, and the node that computes it is removed"},
        {"fails", "rewrite failed and gave no reason"},
    };

    for (size_t i = 0; i < sizeof lie / sizeof *lie; i++)
        lie_refused(lie[i].word, "exp(neg(x))", lie[i].why);
    lie_refused("mutual", "abs(exp(neg(x)))", "values are replaced by each other in a circle");
    lie_refused("kernel", "exp(neg(x:f64))", "no kernel of the device takes one of its new nodes");
}

/* New nodes do not read memory that the graph updates, and its readers are not removed. */
Test(pass_rewrite, memory_that_is_updated_stays)
{
    lie_refused("updated", "a = neg(u)\nb = exp(a)\nfill(u)\nreturn b",
                "it reads input_0, whose memory the graph updates");
    lie_refused("must", "a = neg(u)\nfill(u)\nb = exp(a)\nreturn b",
                "it removes node neg_0, which must stay");
    lie_refused("must", "dropout(x)", "it removes node dropout_0, which must stay");
}

/* A new node needs the result of a node behind an update: nodes that use the memory keep their
 * order. */
Test(pass_rewrite, updates_keep_their_order)
{
    struct text_graph g = rewrite_begin("pull");
    struct pass_run run;

    text_record(&g, "a = neg(x)\nb = mul(u, x)\nfill(u)\nc = exp(u)\nreturn a, b, c");
    rewrite_apply(&g, &run);
    cr_assert_str_eq(run.ops, "mul fill exp sub", "%s", run.text);
    pass_finish(&run);
    text_finish(&g);
}

Test(pass_rewrite, one_that_goes_on_is_stopped)
{
    struct text_graph g = rewrite_begin("endless");
    struct bp_plugin_rewrite *r = g.f.device->entry->rewrite;
    struct pass_run run;

    text_record(&g, "exp(neg(x))");
    rewrite_apply(&g, &run);
    cr_assert_str_eq(run.ops, "neg exp");
    cr_assert(atomic_load(&r->stopped));
    cr_assert_eq(run.changes, 8);
    cr_assert(strstr(rewrite_log, "patterned.rewrite is not used any more"), "%s", rewrite_log);
    pass_finish(&run);
    pass_check_values(&g, 64);
    text_finish(&g);
}

/* ---- the pass among the others ---- */

static uint32_t rewrite_changes(const char *text, uint32_t *out_ran)
{
    struct text_graph g = rewrite_begin(NULL);
    struct bp_pass_result result = {.size = sizeof result};
    struct bp_program *program;
    uint32_t changes = 0, found = 0;

    text_record(&g, text);
    OK(bp_program_create(g.graph, g.f.device, &program));
    OK(bp_program_compile(program));
    for (uint32_t i = 0; !bp_program_pass(program, i, &result); i++) {
        if (strcmp(result.name, "patterned.rewrite")) continue;
        changes = result.changes;
        *out_ran = result.ran;
        found++;
    }
    cr_assert_eq(found, 1);
    bp_program_destroy(program);
    text_finish(&g);
    return changes;
}

Test(pass_rewrite, it_is_a_pass_of_its_name)
{
    uint32_t ran;

    setenv("BP_VALIDATE", "passes,passes-values", 1);
    cr_assert_eq(rewrite_changes("sub(exp(x), neg(y))", &ran), 2);
    cr_assert_eq(ran, 1);
    setenv("BP_PASSES", "-patterned.rewrite", 1);
    cr_assert_eq(rewrite_changes("sub(exp(x), neg(y))", &ran), 0);
    cr_assert_eq(ran, 0);
    cr_assert_not(strstr(rewrite_log, "is no pass"), "%s", rewrite_log);
    unsetenv("BP_PASSES");
}
