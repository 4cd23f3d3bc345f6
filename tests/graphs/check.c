/* SPDX-License-Identifier: Apache-2.0 */
/* check.c: runs one graph call by call, node by node and as a program, in several ways, and
 * compares results, side effects and the state of the generator. */
#include "check.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const runners[] = {"calls one by one", "bp_graph_run", "bp_program_run"};

/* ---- comparisons ---- */

/* Whether results may have other bits than those of bp_graph_run with new outputs. Node by node,
 * kernels write into strided outputs, and later ones read them, in another order of sums. */
static bool may_round(const struct fuzz_checker *c, enum fuzz_runner runner, uint32_t with)
{
    if (with & (WITH_GIVEN | WITH_OVER) && (runner == RUN_GRAPH || !c->is_compiled)) return true;
    return runner == RUN_PROGRAM && !c->place->bitwise;
}

static bool check_pair(struct fuzz_checker *c, enum fuzz_runner runner,
                       const struct fuzz_snapshot *got, const struct fuzz_snapshot *expected,
                       uint32_t set, uint32_t with)
{
    struct fuzz_report *report = c->report;
    char text[FUZZ_MESSAGE - 200];

    if (report->fault) return false;
    if (fuzz_same(got, expected, NULL, text, sizeof text)) return true;
    if (may_round(c, runner, with) && got->status == BP_OK && expected->status == BP_OK &&
        fuzz_near(c, got, expected, set, with & (WITH_STRIDED | WITH_SAME), text, sizeof text))
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

/* Whether a kernel's name has the operator's: "xpu_gather", "cpu_gather_f32". */
static bool kernel_is_of(const char *kernel, const char *op)
{
    const char *at = strchr(kernel, '_');
    size_t n = strlen(op);

    return at && !strncmp(at + 1, op, n) && (!at[n + 1] || at[n + 1] == '_');
}

/* Whether a fault may be that of a node on which no output and no update depends: the compiler
 * removes the node, and so its fault is not reported. The message names the kernel. */
static bool fault_is_unread(const struct fuzz_recipe *r, const char *message)
{
    const char *at = strstr(message, "kernel ");
    bool needed[FUZZ_VALUES] = {false};
    char kernel[64] = "";

    if (!at || sscanf(at, "kernel %63s found bad values", kernel) != 1) return false;
    for (uint32_t o = 0; o < r->n_output; o++) needed[r->output[o]] = true;
    for (uint32_t n = r->n_node; n-- > 0;) {
        const struct fuzz_node *node = &r->node[n];
        bool is_needed = fuzz_node_is_update(node);
        if (node->dropped) continue;
        for (uint32_t i = 0; i < node->n_out; i++) is_needed |= needed[node->out[i]];
        for (uint32_t i = 0; i < node->n_in && is_needed; i++)
            if (node->in[i] != FUZZ_ABSENT) needed[node->in[i]] = true;
        if (!is_needed && node->op && kernel_is_of(kernel, node->op->name)) return true;
    }
    return false;
}

static bool fault_is_removed(const struct fuzz_checker *c, const struct fuzz_snapshot *got,
                             const struct fuzz_snapshot *expected)
{
    return got->status == BP_OK && expected->status == BP_ERR_FAULT && c->is_compiled &&
           fault_is_unread(c->built.recipe, expected->message);
}

/* Runs the program, and bp_graph_run in the same way if the way changes results: if inputs are one
 * tensor, or if they are strided. A run with strides of axes of extent 1 is compiled, and computes
 * as for dense inputs. */
static bool check_program(struct fuzz_checker *c, uint32_t set, uint32_t with,
                          const struct fuzz_snapshot *expected)
{
    struct fuzz_snapshot *got = fuzz_run_once(c, RUN_PROGRAM, set, with), *graph = NULL;
    bool ok;

    if (with & WITH_SAME || (with & WITH_STRIDED && !c->is_compiled))
        expected = graph = fuzz_run_once(c, RUN_GRAPH, set, with & (WITH_STRIDED | WITH_SAME));
    ok = fault_is_removed(c, got, expected) ||
         check_pair(c, RUN_PROGRAM, got, expected, set, with);
    fuzz_snapshot_free(got);
    fuzz_snapshot_free(graph);
    return ok;
}

/* ---- threads ---- */

struct worker {
    struct fuzz_checker *c;
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
        struct fuzz_run *run = calloc(1, sizeof *run);
        if (!s || !run) abort();
        s->status = fuzz_run_inputs(w->c, run, w->set, 0, w->stream);
        if (s->status == BP_OK)
            s->status = bp_program_run(w->c->program, w->stream, run->in, b->n_input, run->out,
                                       b->n_output);
        for (uint32_t o = 0; o < b->n_output; o++)
            fuzz_snapshot_add(s, w->stream, run->out[o], "output", b->recipe->output[o]);
        for (uint32_t i = 0; i < s->n; i++) s->array[i].ignored = false;
        s->drawn = w->expected->drawn;
        for (uint32_t i = s->n; i < w->expected->n; i++) s->array[i].ignored = true;
        w->ok = fuzz_same(s, w->expected, NULL, w->text, sizeof w->text);
        fuzz_run_finish(w->c, run);
        free(run);
        fuzz_snapshot_free(s);
    }
    return NULL;
}

/* Runs the program on several threads at once, each with its own stream and inputs: each run must
 * have the bits of a run alone. */
static void check_threads(struct fuzz_checker *c)
{
    struct fuzz_snapshot *expected = fuzz_run_once(c, RUN_PROGRAM, 0, 0);
    struct worker worker[16] = {0};
    uint32_t n = c->place->threads < 16 ? c->place->threads : 16;

    if (!fuzz_run_reset(c, 0, c->place->stream[0])) n = 0;
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
    fuzz_snapshot_free(expected);
}

/* ---- all runs of a graph ---- */

/* Whether the order of nodes that do not depend on each other matters: gradients are added up in
 * that order. */
static bool has_order(const struct fuzz_recipe *r)
{
    return fuzz_has_updates(r) || r->has[FUZZ_HAS_RANDOM] || r->has[FUZZ_HAS_GRADIENT];
}

/* Runs a program of the same graph whose nodes were recorded in another order. */
static bool check_shuffled(struct fuzz_checker *c, const struct fuzz_snapshot *expected)
{
    struct fuzz_checker other = {.place = c->place, .report = c->report};
    struct fuzz_snapshot *got;
    bool ok = false;

    if (fuzz_build(c->place, c->built.recipe, fuzz_mix(c->built.recipe->seed) | 1, &other.built,
                   c->report) &&
        bp_program_create(other.built.graph, c->place->device, &other.program) == BP_OK) {
        got = fuzz_run_once(&other, RUN_PROGRAM, 0, 0);
        ok = fault_is_removed(&other, got, expected) ||
             check_pair(&other, RUN_PROGRAM, got, expected, 0, WITH_ORDER);
        fuzz_snapshot_free(got);
    }
    bp_program_destroy(other.program);
    fuzz_unbuild(&other.built);
    return ok;
}

/* The runs beyond the first ones: each graph gets some of them. */
static void check_more(struct fuzz_checker *c, struct fuzz_snapshot *const *graph)
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
    if (ok && pick % 4 == 3 && given && !fuzz_has_updates(r))
        ok = check_program(c, 0, WITH_OVER | WITH_GIVEN, graph[0]);
    pick >>= 8;
    if (ok && pick % 4 == 1 && given) {
        struct fuzz_snapshot *other = fuzz_run_once(c, RUN_GRAPH, 1, WITH_GIVEN);
        ok = check_pair(c, RUN_GRAPH, other, graph[1], 1, WITH_GIVEN);
        fuzz_snapshot_free(other);
    }
    if (ok && pick % 4 == 0 && c->place->stream[2]) ok = check_program(c, 0, WITH_QUEUE, graph[0]);
    pick >>= 8;
    if (ok && pick % 4 < 2 && !has_order(r)) ok = check_shuffled(c, graph[0]);
    if (ok && c->place->threads && !has_order(r) && graph[0]->status == BP_OK)
        check_threads(c);
}

static void check_runs(struct fuzz_checker *c)
{
    struct fuzz_snapshot *calls = fuzz_run_once(c, RUN_CALLS, 0, 0), *graph[2];

    graph[0] = fuzz_run_once(c, RUN_GRAPH, 0, 0);
    graph[1] = fuzz_run_once(c, RUN_GRAPH, 1, 0);
    if (check_pair(c, RUN_GRAPH, graph[0], calls, 0, 0) && check_program(c, 0, 0, graph[0]))
        check_more(c, graph);
    fuzz_snapshot_free(calls);
    fuzz_snapshot_free(graph[0]);
    fuzz_snapshot_free(graph[1]);
}

/* No work runs here that may fail: a fault of a graph has been reported by the run. */
static uint64_t count_live(const struct fuzz_place *place, struct fuzz_report *report)
{
    struct bp_memory_stats stats = {.size = sizeof stats};

    if (bp_device_synchronize(place->device) == BP_OK &&
        bp_device_memory(place->device, &stats) == BP_OK)
        return stats.live;
    if (report->fault) return 0;
    report->fault = FUZZ_STREAM;
    snprintf(report->message, sizeof report->message, "the device beside runs: %s",
             bp_error_message());
    return 0;
}

void fuzz_check(struct fuzz_place *place, const struct fuzz_recipe *recipe,
                struct fuzz_report *report)
{
    struct fuzz_checker *c = calloc(1, sizeof *c);
    uint64_t live, now;

    if (!c) abort();
    memset(report, 0, sizeof *report);
    live = count_live(place, report);
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
    now = count_live(place, report);
    if (now == live || report->fault) return;
    report->fault = FUZZ_LEAK;
    snprintf(report->message, sizeof report->message,
             "%" PRIu64 " tensors live afterwards, %" PRIu64 " before", now, live);
}
