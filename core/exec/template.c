/* SPDX-License-Identifier: Apache-2.0 */
/* template.c: makes templates of programs, and programs of templates. */
#include "../compile/templates.h"

#include "program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a < 0 ? -a : a;
}

/* The differences of the parameters must have no common divisor: a number that is rounded to
 * multiples of k (floor divisions, remainders) then is no line through the samples. */
static enum bp_status set_parameters(struct bp_template *t, const int64_t *at, size_t n)
{
    int64_t divisor = 0;

    for (uint32_t k = 0; k < n; k++) {
        if (at[k] < 0 || at[k] >> 40)
            return bp_error(BP_ERR_INVALID, "bp_template_create: parameter %lld", (long long)at[k]);
        for (uint32_t i = 0; i < k; i++)
            if (at[i] == at[k])
                return bp_error(BP_ERR_INVALID,
                                "bp_template_create: two samples have parameter "
                                "%lld",
                                (long long)at[k]);
        t->samples.at[k] = at[k];
        if (at[k] > at[t->samples.base]) t->samples.base = k;
        divisor = common_divisor(divisor, at[k] - at[0]);
    }
    t->samples.n = (uint32_t)n;
    if (divisor == 1) return BP_OK;
    return bp_error(BP_ERR_UNSUPPORTED,
                    "bp_template_create: the parameters differ by multiples "
                    "of %lld",
                    (long long)divisor);
}

static bool same_text(const char *a, const char *b)
{
    return a && b ? !strcmp(a, b) : a == b;
}

static enum bp_status check_sample(const struct bp_program *first, const struct bp_program *p)
{
    if (p->device != first->device || p->flags != first->flags ||
        !same_text(p->cache, first->cache))
        return bp_error(BP_ERR_INVALID, "bp_template_create: the programs have other devices or "
                                        "options");
    if (p->derived)
        return bp_error(BP_ERR_UNSUPPORTED, "bp_template_create: a program was made from a "
                                            "template itself");
    return BP_OK;
}

/* ---- comparison ---- */

struct comparing {
    struct bp_template *t;
    struct bp_stream *stream;
    struct bp_program *const *program;
    const struct bp_schedule *schedule[BP_SAMPLES_MAX];
    struct bp_ir *ir[BP_SAMPLES_MAX];
};

static enum bp_status compare_graphs(struct comparing *c)
{
    struct bp_parts part[BP_SAMPLES_MAX];
    struct bp_template *t = c->t;

    for (uint32_t k = 0; k < t->samples.n; k++) part[k] = bp_parts_of_graph(c->program[k]->graph);
    TRY(bp_changes_find(&t->samples, part, &t->of_graph));
    return bp_constants_find(&t->samples, part, c->stream, &t->of_graph, &t->constants, NULL);
}

/* Marks the values of an IR that were computed from others that depend on the parameter, also by
 * nodes that passes have removed. Returns whether one was added. */
static bool mark_results(const struct bp_ir *ir, bool *depends)
{
    bool added = false;

    for (uint32_t n = 0; n < ir->n_node; n++) {
        const struct bp_node *node = &ir->node[n].call;
        bool reads = false;
        for (uint32_t i = 0; i < node->n_in && !reads; i++)
            reads = node->in[i] != BP_NO_VALUE &&
                    (depends[node->in[i]] || depends[bp_ir_same(ir, node->in[i])]);
        for (uint32_t i = 0; i < node->n_out && reads; i++) {
            if (node->out[i] == BP_NO_VALUE || depends[node->out[i]]) continue;
            depends[node->out[i]] = added = true;
        }
    }
    return added;
}

/* Passes must not have read the contents of what depends on the parameter: another value might make
 * them do something else. */
static enum bp_status check_read(const struct comparing *c)
{
    for (uint32_t k = 0; c->t->constants.n && k < c->t->samples.n; k++) {
        const struct bp_ir *ir = c->schedule[k]->ir;
        bool *depends = calloc(ir->n_value + 1, sizeof *depends), read = false;
        if (!depends) return bp_template_no_memory();
        memcpy(depends, c->t->of_graph.value, c->t->graph->n_value * sizeof *depends);
        while (mark_results(ir, depends)) {
        }
        for (uint32_t v = 0; v < ir->n_value; v++) read = read || (ir->value[v].read && depends[v]);
        free(depends);
        if (read)
            return bp_error(BP_ERR_UNSUPPORTED, "passes have read a constant that depends on the "
                                                "parameter");
    }
    return BP_OK;
}

/* Whether two representations of equal nodes differ in what lowering reads beside these. */
static bool same_remarks(const struct bp_ir *a, const struct bp_ir *b)
{
    bool same = !a->dense == !b->dense && a->allow == b->allow && !a->random_blocks &&
                (!a->dense || !memcmp(a->dense, b->dense, a->n_output * sizeof *a->dense));

    for (uint32_t v = 0; v < a->n_value; v++)
        same = same && a->value[v].root == b->value[v].root &&
               a->value[v].folded == b->value[v].folded && a->value[v].uses == b->value[v].uses;
    for (uint32_t n = 0; n < a->n_node; n++)
        same = same && a->node[n].made == b->node[n].made &&
               same_text(a->node[n].prefer, b->node[n].prefer);
    return same;
}

/* Copies the representations, and finds their changes. revive, origin: of each sample, or NULL. */
static enum bp_status compact_irs(struct comparing *c, bool *const *revive, uint32_t *const *origin,
                                  struct bp_parts part[BP_SAMPLES_MAX])
{
    struct bp_template *t = c->t;

    for (uint32_t k = 0; k < t->samples.n; k++) {
        const struct bp_compaction how = {c->schedule[k]->ir, c->program[k]->graph,
                                          revive ? revive[k] : NULL, origin ? origin[k] : NULL};
        bp_ir_destroy(c->ir[k]);
        c->ir[k] = NULL;
        TRY(bp_ir_compact(&how, &c->ir[k]));
        part[k] = bp_parts_of_ir(c->ir[k]);
    }
    bp_changes_finish(&t->of_ir);
    TRY(bp_changes_find(&t->samples, part, &t->of_ir));
    if (c->schedule[0]->ir->shaped)
        return bp_error(BP_ERR_UNSUPPORTED, "a pattern of the plugin depends on extents");
    for (uint32_t k = 1; k < t->samples.n; k++)
        if (!same_remarks(c->ir[0], c->ir[k]))
            return bp_error(BP_ERR_UNSUPPORTED, "layouts or kernel rows differ");
    return BP_OK;
}

/* Compares the representations. Folded constants that are no lines and no blocks are computed for
 * each parameter: the nodes for them, which the pass has removed, become part of the template. */
static enum bp_status compare_irs(struct comparing *c, bool **revive, uint32_t **origin)
{
    struct bp_parts part[BP_SAMPLES_MAX];
    struct bp_template *t = c->t;
    enum bp_status status;
    bool *unknown;

    TRY(compact_irs(c, NULL, origin, part));
    unknown = calloc(part->n_value + 1, sizeof *unknown);
    if (!unknown) return bp_template_no_memory();
    status = bp_constants_find(&t->samples, part, c->stream, &t->of_ir, &t->constants, unknown);
    for (uint32_t v = 0; v < part->n_value && !status; v++) {
        if (!unknown[v]) continue;
        if (!c->ir[0]->value[v].folded)
            status = bp_error(BP_ERR_UNSUPPORTED, "a constant does not depend on the parameter by "
                                                  "sums with multiples");
        for (uint32_t k = 0; k < t->samples.n; k++) revive[k][origin[k][v]] = t->folds = true;
    }
    free(unknown);
    if (status || !t->folds) return status;
    TRY(compact_irs(c, revive, NULL, part));
    return bp_constants_find(&t->samples, part, c->stream, &t->of_ir, &t->constants, NULL);
}

static enum bp_status compare_compiled(struct comparing *c)
{
    bool *revive[BP_SAMPLES_MAX] = {NULL};
    uint32_t *origin[BP_SAMPLES_MAX] = {NULL};
    enum bp_status status = BP_OK;

    for (uint32_t k = 0; k < c->t->samples.n; k++) {
        uint32_t n = c->schedule[k]->ir->n_value;
        revive[k] = calloc(n + 1, sizeof *revive[k]);
        origin[k] = calloc(n + 1, sizeof *origin[k]);
        if (!revive[k] || !origin[k]) status = bp_template_no_memory();
    }
    if (!status) status = compare_irs(c, revive, origin);
    for (uint32_t k = 0; k < c->t->samples.n; k++) {
        free(revive[k]);
        free(origin[k]);
    }
    return status;
}

/* Finds the call of each node. A copy of a result or for a view follows it under another row. */
static enum bp_status take_calls(struct bp_template *t, const struct bp_schedule *s)
{
    uint32_t *number = malloc((s->ir->n_node + 1) * sizeof *number), i;

    t->prepared = calloc(t->ir->n_node + 1, sizeof(struct bp_prepared *));
    if (!number || !t->prepared) {
        free(number);
        return bp_template_no_memory();
    }
    i = t->ir->n_node - s->ir->living; /* nodes that compute constants come first */
    for (uint32_t n = s->ir->first; n != BP_NO_VALUE; n = s->ir->node[n].next) number[n] = i++;
    for (uint32_t l = 0; l < s->n_launch; l++) {
        struct bp_prepared *p = s->launch[l].prepared;
        struct bp_prepared **place = &t->prepared[number[s->launch[l].node]];
        if (*place || p->row != s->ir->node[s->launch[l].node].call.row) continue;
        bp_prepared_retain(p);
        *place = p;
    }
    free(number);
    return BP_OK;
}

/* Compiles the samples. A schedule lives as long as its program. */
static enum bp_status compile_samples(struct comparing *c)
{
    for (uint32_t k = 0; k < c->t->samples.n; k++) {
        TRY(bp_program_compile(c->program[k]));
        c->schedule[k] = c->program[k]->schedule;
    }
    return BP_OK;
}

/* Compares the graphs first, which takes less time than a compilation. */
static enum bp_status compare_all(struct comparing *c)
{
    struct bp_template *t = c->t;
    enum bp_status status;

    for (uint32_t k = 0; k < t->samples.n; k++) TRY(check_sample(c->program[0], c->program[k]));
    TRY(bp_compile_stream(t->device, &c->stream));
    status = compare_graphs(c);
    if (!status) status = compile_samples(c);
    if (!status) status = check_read(c);
    if (!status) status = compare_compiled(c);
    bp_stream_destroy(c->stream);
    t->ir = c->ir[t->samples.base];
    c->ir[t->samples.base] = NULL;
    return status ? status : take_calls(t, c->schedule[t->samples.base]);
}

static enum bp_status template_init(struct bp_template *t, struct bp_program *const *sample,
                                    const int64_t *at, size_t n)
{
    struct comparing c = {.t = t, .program = sample};
    const struct bp_program *base;
    enum bp_status status;

    TRY(set_parameters(t, at, n));
    base = sample[t->samples.base];
    t->graph = base->graph;
    bp_graph_retain(t->graph);
    atomic_fetch_add(&t->graph->programs, 1);
    t->device = base->device;
    bp_device_retain(t->device);
    t->flags = base->flags;
    if (base->cache) {
        t->cache = strdup(base->cache);
        if (!t->cache) return bp_template_no_memory();
    }
    status = compare_all(&c);
    for (uint32_t k = 0; k < t->samples.n; k++) bp_ir_destroy(c.ir[k]);
    return status;
}

static void template_free(struct bp_template *t)
{
    for (uint32_t n = 0; t->prepared && t->ir && n < t->ir->n_node; n++)
        if (t->prepared[n]) bp_prepared_release(t->prepared[n]);
    free(t->prepared);
    bp_changes_finish(&t->of_graph);
    bp_changes_finish(&t->of_ir);
    bp_constants_finish(&t->constants);
    bp_ir_destroy(t->ir);
    free(t->cache);
    t->magic = 0;
    free(t);
}

enum bp_status bp_template_create(struct bp_program *const *samples, const int64_t *at, size_t n,
                                  struct bp_template **out_template)
{
    struct bp_template *t;
    enum bp_status status;

    if (!samples || !at || !out_template)
        return bp_error(BP_ERR_INVALID, "bp_template_create: samples, at or out_template is NULL");
    if (n < BP_SAMPLES_MIN || n > BP_SAMPLES_MAX)
        return bp_error(BP_ERR_INVALID, "bp_template_create: %zu samples, expected %d to %d", n,
                        BP_SAMPLES_MIN, BP_SAMPLES_MAX);
    for (size_t k = 0; k < n; k++)
        if (!bp_program_is(samples[k])) return bp_not_a("program");
    t = bp_handle_alloc(sizeof *t);
    if (!t) return bp_template_no_memory();
    t->magic = bp_magic(BP_MAGIC_TEMPLATE);
    atomic_init(&t->refs, 1);
    t->free = template_free;
    status = template_init(t, samples, at, n);
    if (status) bp_template_destroy(t);
    else *out_template = t;
    return status;
}

void bp_template_destroy(struct bp_template *t)
{
    struct bp_graph *graph;
    struct bp_device *device;

    if (!bp_template_is(t)) return;
    graph = t->graph;
    device = t->device;
    t->magic = 0;
    if (t->ir) bp_ir_drop_constants(t->ir);
    bp_constants_finish(&t->constants);
    if (graph) {
        atomic_fetch_sub(&graph->programs, 1);
        bp_graph_release(graph);
    }
    t->graph = NULL; /* what is left may be freed by a task of a queue */
    t->device = NULL;
    bp_template_release(t);
    if (device) bp_device_release(device);
}

/* ---- derived programs ---- */

static enum bp_status check_parameter(const struct bp_template *t, int64_t at)
{
    int64_t least = INT64_MAX;

    for (uint32_t k = 0; k < t->samples.n; k++)
        if (t->samples.at[k] < least) least = t->samples.at[k];
    if (at >= least && at <= t->samples.at[t->samples.base]) return BP_OK;
    return bp_error(BP_ERR_UNSUPPORTED,
                    "parameter %lld is outside %lld to %lld, those of the "
                    "template's samples",
                    (long long)at, (long long)least, (long long)t->samples.at[t->samples.base]);
}

static enum bp_status derive_graph(struct bp_template *t, int64_t at, struct bp_tensor *const *made,
                                   struct bp_graph **out_graph)
{
    struct bp_graph *graph;
    struct bp_parts parts;
    enum bp_status status;

    TRY(bp_graph_borrow(t->graph, &graph));
    parts = bp_parts_of_graph(graph);
    status = bp_changes_apply(&t->of_graph, &t->constants, &t->samples, at, made, t->device,
                              &parts);
    if (status) bp_graph_release(graph);
    else *out_graph = graph;
    return status;
}

static enum bp_status derive_schedule(struct bp_template *t, int64_t at,
                                      struct bp_tensor *const *made, struct bp_program *p)
{
    struct bp_ir *ir;
    enum bp_status status;

    TRY(bp_ir_derive(t, at, made, &ir));
    status = bp_compile_checks("passes") ? bp_ir_verify(ir) : BP_OK;
    if (status) {
        bp_ir_destroy(ir);
        return status;
    }
    status = bp_program_tuner_begin(p);
    if (status) bp_ir_destroy(ir);
    else status = bp_schedule_create(ir, p->tuner, &p->schedule);
    bp_program_tuner_end(p);
    p->derived = !status;
    return status;
}

enum bp_status bp_template_program(struct bp_template *t, int64_t at, struct bp_graph **out_graph,
                                   struct bp_program **out_program)
{
    struct bp_program_options options = {.size = sizeof options};
    struct bp_tensor **made;
    struct bp_graph *graph = NULL;
    struct bp_program *p = NULL;
    enum bp_status status;

    if (!bp_template_is(t)) return bp_not_a("template");
    if (!out_graph || !out_program)
        return bp_error(BP_ERR_INVALID, "bp_template_program: out_graph or out_program is NULL");
    TRY(check_parameter(t, at));
    options.flags = t->flags;
    options.cache = t->cache ? t->cache : "";
    made = calloc(t->constants.n + 1, sizeof *made);
    if (!made) return bp_template_no_memory();
    status = bp_constants_make(&t->constants, &t->samples, at, t->device, made);
    if (!status) status = derive_graph(t, at, made, &graph);
    if (!status) status = bp_program_create_with(graph, t->device, &options, &p);
    if (!status) status = derive_schedule(t, at, made, p);
    for (uint32_t i = 0; i < t->constants.n; i++) bp_tensor_destroy(made[i]);
    free(made);
    if (status) {
        bp_program_destroy(p);
        bp_graph_destroy(graph);
        return status;
    }
    *out_graph = graph;
    *out_program = p;
    return BP_OK;
}

/* Compares two graphs: as samples of one parameter, for which nothing may differ. */
static enum bp_status compare_two(struct bp_device *device, const struct bp_graph *a,
                                  const struct bp_graph *b)
{
    const struct bp_samples two = {.n = 2};
    const struct bp_parts part[] = {bp_parts_of_graph(a), bp_parts_of_graph(b)};
    struct bp_changed_constants constants = {0};
    struct bp_changes changes;
    struct bp_stream *stream;
    enum bp_status status;

    TRY(bp_compile_stream(device, &stream));
    status = bp_changes_find(&two, part, &changes);
    if (!status) status = bp_constants_find(&two, part, stream, &changes, &constants, NULL);
    bp_changes_finish(&changes);
    bp_constants_finish(&constants);
    bp_stream_destroy(stream);
    return status;
}

enum bp_status bp_template_check(struct bp_template *t, int64_t at, struct bp_graph *recorded)
{
    struct bp_tensor **made;
    struct bp_graph *graph = NULL;
    enum bp_status status;

    if (!bp_template_is(t)) return bp_not_a("template");
    if (!bp_graph_is(recorded)) return bp_not_a("graph");
    TRY(check_parameter(t, at));
    made = calloc(t->constants.n + 1, sizeof *made);
    if (!made) return bp_template_no_memory();
    status = bp_constants_make(&t->constants, &t->samples, at, t->device, made);
    if (!status) status = derive_graph(t, at, made, &graph);
    if (!status && compare_two(t->device, graph, recorded))
        status = bp_error_more(BP_ERR_INTERNAL,
                               "a template gives another graph than a recording "
                               "for parameter %lld: %s",
                               (long long)at, bp_error_message());
    bp_graph_destroy(graph);
    for (uint32_t i = 0; i < t->constants.n; i++) bp_tensor_destroy(made[i]);
    free(made);
    return status;
}
