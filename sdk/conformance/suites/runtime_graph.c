/* SPDX-License-Identifier: Apache-2.0 */
/* runtime_graph.c: tests that recorded calls give the same results as the same eager calls, in the
 * streams' order. */
#include "graph_work.h"
#include "suites.h"

enum {
    CHAIN = 40
};

static void graph_once(struct check *c, const int64_t *arg)
{
    struct bp_graph_info info = {.size = sizeof info};
    struct graph g;

    if (graph_begin(&g, c, arg) && graph_record(&g) && graph_run(&g, 0, g.x, 0) &&
        work_has(&g.w, 0, g.out[0], 7, 2, "the graph's result") &&
        check_ok(c, bp_graph_get_info(g.graph, &info), "bp_graph_get_info"))
        check_that(c, info.nodes == 3 && info.inputs == 2 && info.outputs == 1 && info.values == 5,
                   "%u nodes, %u values, %u inputs, %u outputs; expected 3, 5, 2, 1", info.nodes,
                   info.values, info.inputs, info.outputs);
    graph_finish(&g);
}

static void graph_twice(struct check *c, const int64_t *arg)
{
    struct graph g;

    if (graph_begin(&g, c, arg) && graph_record(&g) && graph_run(&g, 0, g.x, 0) &&
        work_put(&g.w, 0, g.x, 2, 0) && work_put(&g.w, 0, g.y, 4, 5) && graph_run(&g, 0, g.x, 1) &&
        work_has(&g.w, 0, g.out[1], 14, 10, "the result of other inputs"))
        work_has(&g.w, 0, g.out[0], 7, 2, "the first result");
    graph_finish(&g);
}

/* The same calls are made eagerly on the same stream. */
static void graph_eager(struct check *c, const int64_t *arg)
{
    struct bp_tensor *t[3] = {0};
    struct graph g;

    if (graph_begin(&g, c, arg)) {
        struct bp_scope *scope = bp_stream_scope(g.w.stream[0]);
        if (work_shut(&g.w, 0) && work_add(&g.w, scope, g.x, g.y, &t[0]) &&
            work_add(&g.w, scope, t[0], g.x, &t[1]) && work_add(&g.w, scope, t[1], t[0], &t[2]) &&
            graph_record(&g) && graph_run(&g, 0, g.x, 0)) {
            work_open(&g.w, 0);
            if (work_has(&g.w, 0, t[2], 7, 2, "calls one by one"))
                work_has(&g.w, 0, g.out[0], 7, 2, "the graph's result");
        }
    }
    for (int i = 0; i < 3; i++) bp_tensor_destroy(t[i]);
    graph_finish(&g);
}

/* Inputs are overwritten and destroyed before the graph's work can begin. */
static void graph_held(struct check *c, const int64_t *arg)
{
    struct graph g;

    if (graph_begin(&g, c, arg) && graph_record(&g) && work_shut(&g.w, 0) &&
        graph_run(&g, 0, g.x, 0) && work_put(&g.w, 0, g.x, 9, 9) && graph_run(&g, 0, g.x, 1)) {
        bp_tensor_destroy(g.x);
        bp_tensor_destroy(g.y);
        g.x = g.y = NULL;
        bp_graph_destroy(g.graph);
        g.graph = NULL;
        work_open(&g.w, 0);
        /* x = 9 i + 9, y = 2 i + 1 */
        if (work_has(&g.w, 0, g.out[0], 7, 2, "what was given first"))
            work_has(&g.w, 0, g.out[1], 31, 29,
                        "what was given when an input had been written again");
    }
    graph_finish(&g);
}

static void graph_given(struct check *c, const int64_t *arg)
{
    struct graph g;

    if (graph_begin(&g, c, arg) && graph_record(&g) &&
        work_floats(&g.w, WORK_HOST, GRAPH_N, &g.out[0])) {
        struct bp_tensor *mine = g.out[0];
        if (work_put(&g.w, 0, mine, 0, 77) && graph_run(&g, 0, g.x, 0) &&
            check_that(c, g.out[0] == mine, "bp_graph_run replaced an output that was given"))
            work_has(&g.w, 0, mine, 7, 2, "an output that was given");
    }
    graph_finish(&g);
}

/* A tensor with data is a constant of the graph, which keeps a reference to it. */
static void graph_constant(struct check *c, const int64_t *arg)
{
    struct graph g;
    struct bp_tensor *in[1];

    if (graph_begin(&g, c, arg) && graph_input(&g, 0, "x") && graph_sums(&g, g.symbol[0], g.y)) {
        bp_tensor_destroy(g.y);
        g.y = NULL;
        in[0] = g.x;
        if (work_floats(&g.w, WORK_HOST, GRAPH_N, &g.y) && work_put(&g.w, 0, g.y, 0, 1000) &&
            check_ok(c, bp_graph_run(g.graph, g.w.stream[0], in, 1, g.out, 1), "bp_graph_run"))
            work_has(&g.w, 0, g.out[0], 7, 2, "a result with a constant");
    }
    graph_finish(&g);
}

static void graph_chain(struct check *c, const int64_t *arg)
{
    struct bp_tensor *t[CHAIN + 1] = {0}, *in[2];
    struct graph g;
    bool ok = graph_begin(&g, c, arg) && graph_input(&g, 0, "x") && graph_input(&g, 1, "y");

    for (int i = 0; ok && i < CHAIN; i++)
        ok = work_add(&g.w, bp_graph_scope(g.graph), i ? t[i - 1] : g.symbol[1], g.symbol[0],
                      &t[i]);
    in[0] = g.x, in[1] = g.y;
    if (ok && check_ok(c, bp_graph_output(g.graph, t[CHAIN - 1], NULL), "bp_graph_output") &&
        work_shut(&g.w, 0) &&
        check_ok(c, bp_graph_run(g.graph, g.w.stream[0], in, 2, g.out, 1), "bp_graph_run")) {
        work_open(&g.w, 0);
        work_has(&g.w, 0, g.out[0], CHAIN + 2, 1, "a chain");
    }
    for (int i = 0; i < CHAIN; i++) bp_tensor_destroy(t[i]);
    graph_finish(&g);
}

/* The result of one stream is the input of the other, behind an event. */
static void two_streams(struct check *c, const int64_t *arg)
{
    struct graph g;

    if (graph_begin(&g, c, arg) && graph_record(&g) && work_shut(&g.w, 0) &&
        graph_run(&g, 0, g.x, 0) && work_record(&g.w, 0, 0) && work_wait_held(&g.w, 1, 0, 0) &&
        graph_run(&g, 1, g.out[0], 1) && work_record(&g.w, 1, 1)) {
        work_pause(&g.w, 1);
        work_open(&g.w, 0);
        /* x = 7 i + 2, y = 2 i + 1: 3 x + 2 y */
        if (work_has(&g.w, 1, g.out[1], 25, 8, "a result of the second stream"))
            work_has(&g.w, 0, g.out[0], 7, 2, "that of the first");
    }
    graph_finish(&g);
}

const struct check_kinds suite_runtime_graph[] = {
    {"graph/once", graph_once, 1},   {"graph/twice", graph_twice, 1},
    {"graph/eager", graph_eager, 1}, {"graph/held", graph_held, 1},
    {"graph/given", graph_given, 1}, {"graph/constant", graph_constant, 1},
    {"graph/chain", graph_chain, 1}, {"graph/two-streams", two_streams, 2},
    {NULL, NULL, 0},
};
