/* SPDX-License-Identifier: Apache-2.0 */
/* check.c: runs one graph call by call, node by node and as a program, in several ways, and
 * compares results, side effects and the state of the generator. */
#include "graphs.h"

#include <compare.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The function that runs the graph. */
enum runner {
    RUN_CALLS,
    RUN_GRAPH,
    RUN_PROGRAM
};

/* Properties of a run. */
enum {
    WITH_GIVEN = 1,   /* outputs are tensors of the app, with other strides for some */
    WITH_STRIDED = 2, /* inputs of rank 2 and more have their axes in reverse order in memory */
    WITH_OTHER = 4,   /* another stream */
    WITH_QUEUE = 8,   /* a stream with a queue */
    WITH_SAME = 16,   /* inputs of one type are one tensor, or a constant */
    WITH_ORDER = 64,  /* nodes were recorded in another order */
    WITH_OVER = 32    /* an output is the tensor of an input or a constant of its type */
};

struct checker {
    const struct fuzz_place *place;
    struct fuzz_built built;
    struct bp_program *program;
    struct fuzz_report *report;
    uint64_t perturb;
    bool is_compiled; /* the last run of the program */
};

/* The tensors of one run. */
struct run {
    struct bp_tensor *in[FUZZ_VALUES], *out[FUZZ_OUTPUTS];
    bool is_shared[FUZZ_VALUES]; /* the tensor of another input, or of a constant */
    struct bp_tensor *over;      /* the input or constant that an output overwrites, or NULL */
};

static const char *const runners[] = {"calls one by one", "bp_graph_run", "bp_program_run"};

static bool value_is_like(const struct fuzz_value *a, const struct fuzz_value *b)
{
    return a->dtype == b->dtype && a->rank == b->rank && a->data == b->data &&
           a->limit == b->limit && !memcmp(a->shape, b->shape, a->rank * sizeof *a->shape);
}

static bool has_updates(const struct fuzz_recipe *r)
{
    for (uint32_t n = 0; n < r->n_node; n++)
        if (!r->node[n].dropped && fuzz_node_is_update(&r->node[n])) return true;
    return false;
}

/* ---- the tensors of a run ---- */

static enum bp_status run_inputs(struct checker *c, struct run *run, uint32_t set, uint32_t with,
                                 struct bp_stream *stream)
{
    const struct fuzz_recipe *r = c->built.recipe;

    for (uint32_t i = 0; i < c->built.n_input; i++) {
        const struct fuzz_value *v = &r->value[c->built.input[i]];
        for (uint32_t k = 0; k < i && with & WITH_SAME; k++)
            if (!run->is_shared[i] && value_is_like(v, &r->value[c->built.input[k]])) {
                run->in[i] = run->in[k];
                run->is_shared[i] = true;
            }
        for (uint32_t k = 0; k < r->n_value && with & WITH_SAME; k++)
            if (!run->is_shared[i] && c->built.constant[k] && value_is_like(v, &r->value[k])) {
                run->in[i] = c->built.constant[k];
                run->is_shared[i] = true;
            }
        if (run->is_shared[i]) continue;
        if (fuzz_tensor(c->place, v, with & WITH_STRIDED, &run->in[i]) ||
            !fuzz_write(r, c->built.input[i], set, stream, run->in[i]))
            return BP_ERR_INTERNAL;
    }
    return BP_OK;
}

static bool value_has_alias(const struct fuzz_recipe *r, uint32_t v)
{
    for (uint32_t k = 0; k < r->n_value; k++)
        if (r->value[k].kind == FUZZ_CONSTANT && r->value[k].base == v) return true;
    return r->value[v].base != FUZZ_ABSENT;
}

/* Finds an input or a constant of the type of an output, to write the output over it. */
static struct bp_tensor *run_find_over(const struct checker *c, const struct run *run,
                                       const struct fuzz_value *output, bool constants)
{
    const struct fuzz_recipe *r = c->built.recipe;
    struct fuzz_value like = *output;

    for (uint32_t i = 0; i < c->built.n_input && !constants; i++) {
        like.data = r->value[c->built.input[i]].data;
        like.limit = r->value[c->built.input[i]].limit;
        if (value_is_like(&like, &r->value[c->built.input[i]])) return run->in[i];
    }
    for (uint32_t v = 0; v < r->n_value && constants; v++) {
        like.data = r->value[v].data;
        if (c->built.constant[v] && !r->value[v].frozen && !value_has_alias(r, v) &&
            value_is_like(&like, &r->value[v]))
            return c->built.constant[v];
    }
    return NULL;
}

static enum bp_status run_outputs(struct checker *c, struct run *run, uint32_t with)
{
    const struct fuzz_recipe *r = c->built.recipe;

    for (uint32_t o = 0; o < r->n_output && with & WITH_OVER && !run->over; o++) {
        const struct fuzz_value *v = &r->value[r->output[o]];
        run->over = run_find_over(c, run, v, r->seed % 2);
        if (!run->over) run->over = run_find_over(c, run, v, !(r->seed % 2));
        run->out[o] = run->over;
    }
    for (uint32_t o = 0; o < r->n_output && with & WITH_GIVEN; o++)
        if (!run->out[o] &&
            fuzz_tensor(c->place, &r->value[r->output[o]], o % 3 == 1, &run->out[o]))
            return BP_ERR_INTERNAL;
    return BP_OK;
}

static bool reset_constants(struct checker *c, uint32_t set, struct bp_stream *stream)
{
    const struct fuzz_recipe *r = c->built.recipe;

    for (uint32_t v = 0; v < r->n_value; v++)
        if (c->built.constant[v] && !r->value[v].frozen && r->value[v].base == FUZZ_ABSENT &&
            !fuzz_write(r, v, set, stream, c->built.constant[v]))
            return false;
    return bp_stream_set_generator(stream, c->place->generator) == BP_OK &&
           bp_generator_set(c->place->generator, r->seed, 16 * (uint64_t)set) == BP_OK;
}

static void run_keep(struct checker *c, const struct run *run, struct bp_stream *stream,
                     struct fuzz_snapshot *s)
{
    const struct fuzz_recipe *r = c->built.recipe;
    uint64_t seed;

    for (uint32_t o = 0; o < r->n_output; o++)
        fuzz_snapshot_add(s, stream, run->out[o], "output", r->output[o]);
    for (uint32_t i = 0; i < c->built.n_input; i++) {
        fuzz_snapshot_add(s, stream, run->in[i], "input", c->built.input[i]);
        if (s->n && run->over == run->in[i]) s->array[s->n - 1].ignored = true;
    }
    for (uint32_t v = 0; v < r->n_value; v++)
        if (c->built.constant[v]) {
            fuzz_snapshot_add(s, stream, c->built.constant[v], "constant", v);
            if (s->n && run->over == c->built.constant[v]) s->array[s->n - 1].ignored = true;
        }
    bp_generator_get(c->place->generator, &seed, &s->drawn);
}

static enum bp_status run_now(struct checker *c, enum runner runner, struct run *run,
                              struct bp_stream *stream)
{
    struct fuzz_built *b = &c->built;
    enum bp_status status;

    if (runner == RUN_CALLS)
        return fuzz_execute(b, stream, c->place->generator, run->in, run->out, c->perturb,
                            c->report);
    if (runner == RUN_GRAPH)
        return bp_graph_run(b->graph, stream, run->in, b->n_input, run->out, b->n_output);
    status = bp_program_run(c->program, stream, run->in, b->n_input, run->out, b->n_output);
    if (status == BP_OK) {
        struct bp_program_info info = {.size = sizeof info};
        bp_program_get_info(c->program, &info);
        c->report->runs++;
        c->report->compiled += info.compiled;
        c->is_compiled = info.compiled;
    }
    return status;
}

static void run_finish(const struct checker *c, struct run *run)
{
    for (uint32_t o = 0; o < c->built.n_output; o++)
        if (!run->over || run->out[o] != run->over) bp_tensor_destroy(run->out[o]);
    for (uint32_t i = 0; i < c->built.n_input; i++)
        if (!run->is_shared[i]) bp_tensor_destroy(run->in[i]);
}

/* Runs the graph once from a defined state, and keeps what there is afterwards. */
static struct fuzz_snapshot *check_run(struct checker *c, enum runner runner, uint32_t set,
                                       uint32_t with)
{
    struct bp_stream *stream = c->place->stream[with & WITH_OTHER ? 1 : with & WITH_QUEUE ? 2 : 0];
    struct fuzz_snapshot *s = calloc(1, sizeof *s);
    struct run *run = calloc(1, sizeof *run);

    if (!s || !run) abort();
    s->status = reset_constants(c, set, stream) ? run_inputs(c, run, set, with, stream)
                                                : BP_ERR_INTERNAL;
    if (s->status == BP_OK) s->status = run_outputs(c, run, with);
    if (s->status == BP_OK) s->status = run_now(c, runner, run, stream);
    if (s->status) snprintf(s->message, sizeof s->message, "%s", bp_error_message());
    else run_keep(c, run, stream, s);
    run_finish(c, run);
    free(run);
    return s;
}

static void snapshot_free(struct fuzz_snapshot *s)
{
    if (s) fuzz_snapshot_clear(s);
    free(s);
}

/* ---- tolerances ---- */

enum {
    SAMPLES = 8
};

/* Adds how far each element of a perturbed run is from the run without, but at least a quarter of
 * the float's unit in the last place: tolerance_widen makes two units of it, for the roundings that
 * a pass adds or leaves out. */
static void tolerance_add(double *tolerance, const struct fuzz_array *a, const struct fuzz_array *b)
{
    const struct num_type *type = num_type(a->dtype);
    struct ref_array x = {0}, y = {0};
    int64_t n = (int64_t)(a->bytes / type->size);

    ref_array_init(&x, a->dtype, 1, &n);
    ref_array_init(&y, a->dtype, 1, &n);
    ref_array_decode(&x, a->data);
    ref_array_decode(&y, b->data);
    for (int64_t i = 0; i < n; i++) {
        long double d = x.v ? fabsl(x.v[i] - y.v[i])
                            : fabsl((long double)(int64_t)x.u[i] - (long double)(int64_t)y.u[i]);
        if (x.v && isfinite(y.v[i])) d = fmaxl(d, num_ulp(type, y.v[i]) / 4);
        if (d > (long double)tolerance[i]) tolerance[i] = (double)d;
    }
    ref_array_finish(&x);
    ref_array_finish(&y);
}

static void tolerance_widen(double *tolerance, uint64_t n)
{
    double sum = 0;

    for (uint64_t i = 0; i < n; i++) sum += tolerance[i];
    for (uint64_t i = 0; i < n; i++) tolerance[i] = 8 * tolerance[i] + 2 * sum / (double)n;
}

/* How far results may differ from those of `expected` if each node keeps within its tolerance:
 * found by runs call by call that move each result by its tolerance, up or down at random. */
static double **check_tolerance(struct checker *c, const struct fuzz_snapshot *expected,
                                uint32_t set, uint32_t with)
{
    double **tolerance = calloc(expected->n + 1, sizeof *tolerance);

    if (!tolerance) abort();
    for (uint32_t a = 0; a < expected->n; a++)
        tolerance[a] = calloc(expected->array[a].bytes + 1, sizeof **tolerance);
    for (uint64_t k = 0; k < SAMPLES; k++) {
        struct fuzz_snapshot *s;
        c->perturb = fuzz_mix(c->built.recipe->seed + k) | 1;
        s = check_run(c, RUN_CALLS, set, with);
        for (uint32_t a = 0; a < expected->n && s->n == expected->n; a++)
            tolerance_add(tolerance[a], &s->array[a], &expected->array[a]);
        snapshot_free(s);
    }
    c->perturb = 0;
    for (uint32_t a = 0; a < expected->n; a++)
        tolerance_widen(tolerance[a],
                        expected->array[a].bytes / num_type(expected->array[a].dtype)->size);
    return tolerance;
}

/* Marks the values that are exact: copies, selections and the like of inputs and constants. No pass
 * may change their bits. */
static void find_exact(const struct fuzz_recipe *r, bool *exact)
{
    for (uint32_t v = 0; v < r->n_value; v++) exact[v] = r->value[v].kind != FUZZ_RESULT;
    for (uint32_t n = 0; n < r->n_node; n++) {
        const struct fuzz_node *node = &r->node[n];
        const struct conform_op *op = node->op ? conform_op(node->op->name) : NULL;
        bool is_exact = op && op->ulp == 0 && !op->terms && !fuzz_node_is_update(node);
        if (node->dropped) continue;
        for (uint32_t i = 0; i < node->n_in; i++)
            is_exact = is_exact && (node->in[i] == FUZZ_ABSENT || exact[node->in[i]]);
        for (uint32_t i = 0; i < node->n_out; i++) exact[node->out[i]] = is_exact;
    }
}

static bool check_near(struct checker *c, const struct fuzz_snapshot *got,
                       const struct fuzz_snapshot *expected, uint32_t set, uint32_t with,
                       char *text, size_t size)
{
    const struct fuzz_recipe *r = c->built.recipe;
    double **tolerance = check_tolerance(c, expected, set, with);
    bool exact[FUZZ_VALUES], ok;

    find_exact(r, exact);
    for (uint32_t o = 0; o < r->n_output && o < expected->n && !has_updates(r); o++)
        if (exact[r->output[o]]) memset(tolerance[o], 0, expected->array[o].bytes * sizeof(double));
    ok = fuzz_same(got, expected, tolerance, text, size);
    for (uint32_t a = 0; a < expected->n; a++) free(tolerance[a]);
    free(tolerance);
    return ok;
}

/* ---- comparisons ---- */

/* Whether results may have other bits than those of bp_graph_run with new outputs. Node by node,
 * kernels write into strided outputs, and later ones read them, in another order of sums. */
static bool may_round(const struct checker *c, enum runner runner, uint32_t with)
{
    if (with & (WITH_GIVEN | WITH_OVER) && (runner == RUN_GRAPH || !c->is_compiled)) return true;
    return runner == RUN_PROGRAM && !c->place->bitwise;
}

static bool check_pair(struct checker *c, enum runner runner, const struct fuzz_snapshot *got,
                       const struct fuzz_snapshot *expected, uint32_t set, uint32_t with)
{
    struct fuzz_report *report = c->report;
    char text[FUZZ_MESSAGE - 200];

    if (report->fault) return false;
    if (fuzz_same(got, expected, NULL, text, sizeof text)) return true;
    if (may_round(c, runner, with) && got->status == BP_OK && expected->status == BP_OK &&
        check_near(c, got, expected, set, with & (WITH_STRIDED | WITH_SAME), text, sizeof text))
        return true;
    report->fault = runner == RUN_PROGRAM ? FUZZ_PROGRAM : FUZZ_GRAPH;
    snprintf(report->message, sizeof report->message, "%s, numbers %u%s%s%s%s%s%s%s: %s",
             runners[runner], set, with & WITH_GIVEN ? ", given outputs" : "",
             with & WITH_STRIDED ? ", strided inputs" : "",
             with & WITH_OTHER ? ", another stream" : "", with & WITH_QUEUE ? ", a queue" : "",
             with & WITH_SAME ? ", one tensor as several inputs" : "",
             with & WITH_OVER ? ", an output over an input or a constant" : "",
             with & WITH_ORDER ? ", nodes in another order" : "", text);
    return false;
}

/* Runs the program, and bp_graph_run in the same way if the way changes results: if inputs are one
 * tensor, or if they are strided. A run with strides of axes of extent 1 is compiled, and computes
 * as for dense inputs. */
static bool check_program(struct checker *c, uint32_t set, uint32_t with,
                          const struct fuzz_snapshot *expected)
{
    struct fuzz_snapshot *got = check_run(c, RUN_PROGRAM, set, with), *graph = NULL;
    bool ok;

    if (with & WITH_SAME || (with & WITH_STRIDED && !c->is_compiled))
        expected = graph = check_run(c, RUN_GRAPH, set, with & (WITH_STRIDED | WITH_SAME));
    ok = check_pair(c, RUN_PROGRAM, got, expected, set, with);
    snapshot_free(got);
    snapshot_free(graph);
    return ok;
}

/* ---- threads ---- */

struct worker {
    struct checker *c;
    const struct fuzz_snapshot *expected;
    struct bp_stream *stream;
    uint32_t set;
    bool ok;
    char text[600];
    pthread_t thread;
};

static void *worker_run(void *arg)
{
    struct worker *w = arg;
    struct fuzz_built *b = &w->c->built;

    w->ok = true;
    for (int round = 0; round < 4 && w->ok; round++) {
        struct fuzz_snapshot *s = calloc(1, sizeof *s);
        struct run *run = calloc(1, sizeof *run);
        if (!s || !run) abort();
        s->status = run_inputs(w->c, run, w->set, 0, w->stream);
        if (s->status == BP_OK)
            s->status = bp_program_run(w->c->program, w->stream, run->in, b->n_input, run->out,
                                       b->n_output);
        for (uint32_t o = 0; o < b->n_output; o++)
            fuzz_snapshot_add(s, w->stream, run->out[o], "output", b->recipe->output[o]);
        for (uint32_t i = 0; i < s->n; i++) s->array[i].ignored = false;
        s->drawn = w->expected->drawn;
        for (uint32_t i = s->n; i < w->expected->n; i++) s->array[i].ignored = true;
        w->ok = fuzz_same(s, w->expected, NULL, w->text, sizeof w->text);
        run_finish(w->c, run);
        free(run);
        snapshot_free(s);
    }
    return NULL;
}

/* Runs the program on several threads at once, each with its own stream and inputs: each run must
 * have the bits of a run alone. */
static void check_threads(struct checker *c)
{
    struct fuzz_snapshot *expected = check_run(c, RUN_PROGRAM, 0, 0);
    struct worker worker[16] = {0};
    uint32_t n = c->place->threads < 16 ? c->place->threads : 16;

    if (!reset_constants(c, 0, c->place->stream[0])) n = 0;
    for (uint32_t i = 0; i < n; i++) {
        worker[i] = (struct worker){.c = c, .expected = expected};
        if (bp_stream_create(c->place->device, &worker[i].stream) ||
            pthread_create(&worker[i].thread, NULL, worker_run, &worker[i]))
            abort();
    }
    for (uint32_t i = 0; i < n; i++) {
        pthread_join(worker[i].thread, NULL);
        bp_stream_destroy(worker[i].stream);
        if (worker[i].ok || c->report->fault) continue;
        c->report->fault = FUZZ_PROGRAM;
        snprintf(c->report->message, sizeof c->report->message, "on %u threads: %s", n,
                 worker[i].text);
    }
    snapshot_free(expected);
}

/* ---- all runs of a graph ---- */

/* Whether the order of nodes that do not depend on each other matters: gradients are added up in
 * that order. */
static bool has_order(const struct fuzz_recipe *r)
{
    return has_updates(r) || r->has[FUZZ_HAS_RANDOM] || r->has[FUZZ_HAS_GRADIENT];
}

/* Runs a program of the same graph whose nodes were recorded in another order. */
static bool check_shuffled(struct checker *c, const struct fuzz_snapshot *expected)
{
    struct checker other = {.place = c->place, .report = c->report};
    struct fuzz_snapshot *got;
    bool ok = false;

    if (fuzz_build(c->place, c->built.recipe, fuzz_mix(c->built.recipe->seed) | 1, &other.built,
                   c->report) &&
        bp_program_create(other.built.graph, c->place->device, &other.program) == BP_OK) {
        got = check_run(&other, RUN_PROGRAM, 0, 0);
        ok = check_pair(&other, RUN_PROGRAM, got, expected, 0, WITH_ORDER);
        snapshot_free(got);
    }
    bp_program_destroy(other.program);
    fuzz_unbuild(&other.built);
    return ok;
}

/* The runs beyond the first ones: each graph gets some of them. */
static void check_more(struct checker *c, struct fuzz_snapshot *const *graph)
{
    const struct fuzz_recipe *r = c->built.recipe;
    uint64_t pick = fuzz_mix(r->seed);
    uint32_t given = r->has[FUZZ_HAS_BOUND] ? 0 : WITH_GIVEN; /* extents are known after a run */
    bool ok = check_program(c, 1, given, graph[1]) &&
              check_program(c, 0, WITH_OTHER | (pick & 1 ? given : 0), graph[0]) &&
              check_program(c, 1, 0, graph[1]);

    pick >>= 8;
    if (ok && pick % 4 < 2) ok = check_program(c, 0, WITH_STRIDED, graph[0]);
    if (ok && pick % 4 == 2) ok = check_program(c, 1, WITH_SAME, graph[1]);
    if (ok && pick % 4 == 3 && given && !has_updates(r))
        ok = check_program(c, 0, WITH_OVER | WITH_GIVEN, graph[0]);
    pick >>= 8;
    if (ok && pick % 4 == 1 && given) {
        struct fuzz_snapshot *other = check_run(c, RUN_GRAPH, 1, WITH_GIVEN);
        ok = check_pair(c, RUN_GRAPH, other, graph[1], 1, WITH_GIVEN);
        snapshot_free(other);
    }
    if (ok && pick % 4 == 0 && c->place->stream[2]) ok = check_program(c, 0, WITH_QUEUE, graph[0]);
    pick >>= 8;
    if (ok && pick % 4 < 2 && !has_order(r)) ok = check_shuffled(c, graph[0]);
    if (ok && c->place->threads && !has_order(r) && graph[0]->status == BP_OK)
        check_threads(c);
}

static void check_runs(struct checker *c)
{
    struct fuzz_snapshot *calls = check_run(c, RUN_CALLS, 0, 0), *graph[2];
    bool lasts = calls->status == BP_ERR_FAULT; /* of an asynchronous stream, which is lost then */

    if (lasts && bp_stream_check_calls(c->place->stream[0])) {
        snapshot_free(calls);
        return;
    }
    graph[0] = check_run(c, RUN_GRAPH, 0, 0);
    graph[1] = check_run(c, RUN_GRAPH, 1, 0);
    if (check_pair(c, RUN_GRAPH, graph[0], calls, 0, 0) && check_program(c, 0, 0, graph[0]) &&
        !lasts && graph[1]->status != BP_ERR_FAULT)
        check_more(c, graph);
    snapshot_free(calls);
    snapshot_free(graph[0]);
    snapshot_free(graph[1]);
}

static uint64_t count_live(const struct fuzz_place *place)
{
    struct bp_memory_stats stats = {.size = sizeof stats};

    if (bp_device_synchronize(place->device) || bp_device_memory(place->device, &stats)) return 0;
    return stats.live;
}

void fuzz_check(const struct fuzz_place *place, const struct fuzz_recipe *recipe,
                struct fuzz_report *report)
{
    struct checker *c = calloc(1, sizeof *c);
    uint64_t live = count_live(place), now;

    if (!c) abort();
    memset(report, 0, sizeof *report);
    c->place = place;
    c->report = report;
    if (fuzz_build(place, recipe, 0, &c->built, report)) {
        if (bp_program_create(c->built.graph, place->device, &c->program)) {
            report->fault = FUZZ_RECORD;
            snprintf(report->message, sizeof report->message, "%s", bp_error_message());
        } else {
            check_runs(c);
        }
        bp_program_destroy(c->program);
    }
    fuzz_unbuild(&c->built);
    free(c);
    now = count_live(place);
    if (now == live || report->fault) return;
    report->fault = FUZZ_LEAK;
    snprintf(report->message, sizeof report->message,
             "%" PRIu64 " tensors live afterwards, %" PRIu64 " before", now, live);
}
