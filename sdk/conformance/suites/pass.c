/* SPDX-License-Identifier: Apache-2.0 */
/* pass.c: tests the patterns of a plugin: each on graphs that are made from its own rows, in all
 * dtypes, ranks and attributes that it admits, and on near misses. The core compares the results of
 * programs with and without the pattern (BP_VALIDATE=passes-values). */
#include "networks.h"
#include "pattern_build.h"
#include "suites.h"

#include <backplane/graph.h>
#include <backplane/plugin.h>
#include <backplane/program.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum {
    SETTING = 16384,
    VARIANTS = 3,
    SEEDS = 5
};

/* A case: one pass of the plugin. */
struct passed {
    struct check *c;
    char name[160];             /* PLUGIN.PATTERN */
    const struct bp_pattern *p; /* NULL: it is the plugin's rewrite */
    uint32_t graphs, fired;     /* that were recorded, and in which the pass changed something */
};

/* The rows of the plugin, from the library itself. */
static const struct bp_pattern *pattern_find(struct check *c, const char *name)
{
    void *library = dlopen(c->fixture->library, RTLD_NOW | RTLD_LOCAL), *symbol;
    const struct bp_plugin *(*get)(void) = NULL;
    const struct bp_plugin *plugin;

    symbol = library ? dlsym(library, "bp_plugin_get") : NULL;
    memcpy(&get, &symbol, sizeof get); /* ISO C has no cast for this */
    plugin = get ? get() : NULL;
    if (!plugin || !plugin->passes) return NULL;
    for (size_t i = 0; i < plugin->passes->count; i++) {
        const struct bp_pattern *p = BP_ROW(struct bp_pattern, plugin->passes->first,
                                            plugin->passes->stride, i);
        if (p->name && !strcmp(p->name, name)) return p;
    }
    return NULL;
}

/* Begins a case for pass number `index` of the device. false: the case has ended. */
static bool passed_begin(struct passed *x, struct check *c, int64_t index)
{
    struct bp_pass_info info = {.size = sizeof info};
    const char *dot;

    *x = (struct passed){.c = c};
    if (!check_ok(c, bp_device_pass(c->fixture->device, (uint32_t)index, &info),
                  "bp_device_pass") ||
        !check_that(c, !*info.reason, "the core does not use it: %s", info.reason))
        return false;
    snprintf(x->name, sizeof x->name, "%s", info.name);
    dot = strchr(x->name, '.');
    if (dot) x->p = pattern_find(c, dot + 1);
    if (x->p && x->p->allow) {
        check_unsupported(c, "the pattern needs an app that allows %#x", x->p->allow);
        return false;
    }
    return true;
}

/* Leaves out all other passes: BP_PASSES. */
static void only_this(const struct passed *x)
{
    struct bp_pass_info info = {.size = sizeof info};
    char text[SETTING] = "";
    size_t n = 0;

    for (uint32_t i = 0; !bp_device_pass(x->c->fixture->device, i, &info); i++)
        if (strcmp(info.name, x->name) && n < sizeof text - 200)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s-%s", n ? "," : "", info.name);
    setenv("BP_PASSES", text, 1);
    setenv("BP_VALIDATE", "passes,passes-values,rewrite", 1);
}

/* Compiles a graph with this pass only. Counts whether the pass changed something. false: the case
 * has failed. */
static bool passed_compile(struct passed *x, struct bp_graph *graph, const char *what)
{
    struct bp_pass_result result = {.size = sizeof result};
    struct bp_program *program = NULL;
    enum bp_status status;
    bool good = check_ok(x->c, bp_program_create(graph, x->c->fixture->device, &program),
                         "bp_program_create");

    if (!good) return false;
    only_this(x);
    status = bp_program_compile(program);
    unsetenv("BP_PASSES");
    unsetenv("BP_VALIDATE");
    if (status && strstr(bp_error_message(), x->name))
        good = check_that(x->c, false, "%s: %s", what, bp_error_message());
    for (uint32_t i = 0; !status && !bp_program_pass(program, i, &result); i++)
        if (!strcmp(result.name, x->name)) x->fired += result.changes > 0;
    x->graphs += !status;
    bp_program_destroy(program);
    return good;
}

static void choice_text(const struct build_choice *choice, char *text, size_t size)
{
    snprintf(text, size, "dtype %s, ranks %#x, alternative %u, variant %u%s%s",
             bp_dtype_name(choice->dtype), choice->ranks, choice->alternative, choice->variant,
             choice->skips ? ", without optional nodes" : "",
             choice->seed ? ", in another order" : "");
}

/* Tries one choice. *out_fired: whether the pass changed the graph. false: the case has failed. */
static bool passed_try(struct passed *x, struct build_choice *choice, bool *out_fired)
{
    uint32_t before = x->fired;
    char text[160];
    struct build b;
    bool good = true;

    *out_fired = false;
    if (!build_find(&b, x->c, x->p, choice)) return true;
    choice_text(choice, text, sizeof text);
    good = passed_compile(x, b.graph, text);
    *out_fired = x->fired > before;
    build_finish(&b);
    return good;
}

/* Ends a case in which the pass has changed nothing. */
static void passed_ends_unfired(struct passed *x)
{
    if (!x->graphs) check_skip(x->c, "no graph could be made from the rows of the pattern");
    else
        check_that(x->c, x->fired,
                   "the pattern changed none of %u graphs that were made from its "
                   "rows",
                   x->graphs);
}

/* Finds a choice for which the pass changes something. false: the case has ended. */
static bool passed_find(struct passed *x, struct build_choice *out)
{
    static const uint32_t dtypes[] = {BP_F32, BP_F64, BP_F16, BP_BF16, BP_I32, BP_I64, BP_BOOL};
    bool fired;

    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (uint32_t ranks = 0; ranks < BUILD_RANKS; ranks++)
            for (uint32_t variant = 0; variant < VARIANTS; variant++) {
                *out = (struct build_choice){
                    .dtype = dtypes[d], .ranks = ranks, .variant = variant};
                if (!passed_try(x, out, &fired)) return false;
                if (fired) return true;
            }
    passed_ends_unfired(x);
    return false;
}

/* pass/fires@PASS */
void pass_fires(struct check *c, const int64_t *arg)
{
    struct build_choice choice;
    struct passed x;

    if (!passed_begin(&x, c, arg[0])) return;
    if (!check_that(c, x.p != NULL, "the library has no pattern of this name")) return;
    passed_find(&x, &choice);
}

/* pass/values@PASS: all that the pattern admits has right values. */
void pass_values(struct check *c, const int64_t *arg)
{
    static const uint32_t dtypes[] = {BP_F32, BP_F64, BP_F16, BP_BF16, BP_I32, BP_I64, BP_BOOL};
    struct passed x;
    bool fired;

    if (!passed_begin(&x, c, arg[0]) || !x.p) return;
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (uint32_t ranks = 0; ranks < BUILD_RANKS; ranks++)
            for (uint32_t k = 0; k < 2 * VARIANTS * 2; k++) {
                struct build_choice choice = {.dtype = dtypes[d],
                                              .ranks = ranks,
                                              .variant = k % VARIANTS,
                                              .alternative = k / VARIANTS % 2,
                                              .skips = k / VARIANTS / 2};
                if (!passed_try(&x, &choice, &fired)) return;
            }
    passed_ends_unfired(&x);
}

/* pass/order@PASS: nodes in another order match too. */
void pass_order(struct check *c, const int64_t *arg)
{
    struct build_choice choice;
    struct passed x;
    bool fired;

    if (!passed_begin(&x, c, arg[0]) || !x.p || !passed_find(&x, &choice)) return;
    for (choice.seed = 1; choice.seed <= SEEDS; choice.seed++) {
        if (!passed_try(&x, &choice, &fired)) return;
        if (!check_that(c, fired, "the pattern does not match with its nodes in order %u",
                        choice.seed))
            return;
    }
}

static const char *const near_names[NEAR_COUNT] = {"nothing",
                                                   "a constant that is an input",
                                                   "a constant that is not frozen",
                                                   "more than one element",
                                                   "elements that differ",
                                                   "an element below its range",
                                                   "an element above its range",
                                                   "another dtype",
                                                   "one axis more",
                                                   "a result that the app reads",
                                                   "an attribute with another value",
                                                   "an attribute that is not the default"};

/* Tries one near miss. false: the case has failed. */
static bool near_try(struct passed *x, struct build_choice choice, enum build_near near,
                     uint32_t at, uint32_t row, uint32_t *tried)
{
    uint32_t before = x->fired;
    struct build b;
    bool good;

    choice.near = near;
    choice.at = at;
    choice.row = row;
    if (!build_make(&b, x->c, x->p, &choice)) {
        build_finish(&b);
        return true;
    }
    ++*tried;
    good = passed_compile(x, b.graph, near_names[near]);
    build_finish(&b);
    return good && check_that(x->c, x->fired == before, "it matches with %s (%s %u, row %u)",
                              near_names[near], near < NEAR_ATTR ? "value" : "node", at, row);
}

/* Whether a flag of a value is one that the near miss breaks. */
static bool near_applies(const struct passed *x, uint64_t made, enum build_near near, uint32_t v)
{
    static const uint32_t flag[NEAR_READER] = {
        [NEAR_CONSTANT] = BP_WANT_CONSTANT | BP_WANT_FROZEN | BP_WANT_ALIKE | BP_WANT_RANGE,
        [NEAR_FROZEN] = BP_WANT_FROZEN | BP_WANT_ALIKE | BP_WANT_RANGE,
        [NEAR_ONE] = BP_WANT_ONE,
        [NEAR_ALIKE] = BP_WANT_ALIKE,
        [NEAR_BELOW] = BP_WANT_RANGE,
        [NEAR_ABOVE] = BP_WANT_RANGE};
    const struct bp_want_value *want = build_value(x->p, v);
    bool is_out = false;

    for (uint32_t i = 0; i < x->p->n_out; i++) is_out |= x->p->out[i] == (int16_t)v;
    if (near == NEAR_READER) return made >> v & 1 && !is_out;
    if (near == NEAR_DTYPE) return want->dtypes != 0;
    if (near == NEAR_RANK) return want->rank_max != 0;
    if (near == NEAR_FROZEN && want->flags == BP_WANT_CONSTANT) return false;
    return want->flags & flag[near];
}

static bool near_values(struct passed *x, const struct build_choice *choice, uint32_t *tried)
{
    uint64_t made = 0;

    for (uint32_t n = 0; n < x->p->n_node; n++)
        for (uint32_t i = 0; i < build_node(x->p, n)->n_out; i++)
            if (build_node(x->p, n)->out[i] >= 0)
                made |= UINT64_C(1) << build_node(x->p, n)->out[i];
    for (uint32_t v = 0; v < x->p->n_value; v++)
        for (enum build_near near = NEAR_CONSTANT; near <= NEAR_READER; near++)
            if (near_applies(x, made, near, v) && !near_try(x, *choice, near, v, 0, tried))
                return false;
    return true;
}

static bool near_nodes(struct passed *x, const struct build_choice *choice, uint32_t *tried)
{
    for (uint32_t n = 0; n < x->p->n_node; n++) {
        const struct bp_want_node *node = build_node(x->p, n);
        const struct bp_opinfo *op = build_op(node, choice->alternative);
        for (uint32_t i = 0; i < node->n_attr; i++)
            if (build_attr(node, i)->test != BP_TEST_ANY &&
                !near_try(x, *choice, NEAR_ATTR, n, i, tried))
                return false;
        for (uint32_t i = 0; op && i < op->n_attr; i++)
            if (!near_try(x, *choice, NEAR_OTHER, n, i, tried)) return false;
    }
    return true;
}

/* pass/near@PASS: no near miss matches. Optional nodes could match in another way. */
void pass_near(struct check *c, const int64_t *arg)
{
    struct build_choice choice;
    struct passed x;
    uint32_t tried = 0;

    if (!passed_begin(&x, c, arg[0]) || !x.p) return;
    for (uint32_t n = 0; n < x.p->n_node; n++)
        if (build_node(x.p, n)->flags & BP_NODE_OPTIONAL) {
            check_skip(c, "the pattern has optional nodes, without which near misses may match");
            return;
        }
    if (!passed_find(&x, &choice)) return;
    if (near_values(&x, &choice, &tried) && near_nodes(&x, &choice, &tried) && !tried)
        check_skip(c, "the pattern has no test that can be broken alone");
}

/* pass/rewrite@PASS: the plugin's own pass leaves results as they are, and its edits are right. */
void pass_rewrite(struct check *c, const int64_t *arg)
{
    struct passed x;

    if (!passed_begin(&x, c, arg[0])) return;
    for (uint32_t i = 0; i < NETWORKS; i++) {
        struct network n;
        bool good = network_record(&n, c, i) && passed_compile(&x, n.graph, network_name(i));
        network_finish(&n);
        if (!good) return;
    }
    if (!x.graphs) check_unsupported(c, "the device compiles no network: %s", bp_error_message());
}
