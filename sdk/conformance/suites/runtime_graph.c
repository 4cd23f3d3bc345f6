/* SPDX-License-Identifier: Apache-2.0 */
/* runtime_graph.c: recorded calls give what the same calls give at once, in the streams' order. */
#include "suites.h"
#include "work.h"
#include <stdio.h>
#include <string.h>

enum { N = 96, CHAIN = 40 };

/* a = x + y, b = a + x, c = b + a: 7 i + 2 k for x = i, y = 2 i + k. */
struct graph {
    struct work w;
    struct bp_graph *graph;
    struct bp_tensor *symbol[5]; /* x, y, a, b, c */
    struct bp_tensor *x, *y, *out[2];
};

static bool has_add(struct check *c)
{
    for (uint32_t i = 0; i < bp_device_kernels(c->place->device); i++) {
        struct bp_kernel_info info = {.size = sizeof info};
        if (!bp_device_kernel(c->place->device, i, &info) && !strcmp(info.op, "add") &&
            !*info.reason && info.types[0] >> BP_F32 & 1)
            return true;
    }
    check_unsupported(c, "the device has no row that adds f32");
    return false;
}

static bool floats(struct graph *g, struct bp_tensor **out)
{
    int64_t n = N;

    return check_ok(g->w.c, bp_tensor_create(g->w.device, BP_F32, 1, &n, out), "bp_tensor_create");
}

/* i * factor + add for element i. */
static bool put(struct graph *g, int stream, struct bp_tensor *t, int factor, int add)
{
    float v[N];

    for (int i = 0; i < N; i++) v[i] = (float)(i * factor + add);
    return check_ok(g->w.c, bp_tensor_write(g->w.stream[stream], t, v, sizeof v),
                    "bp_tensor_write");
}

static bool holds(struct graph *g, int stream, struct bp_tensor *t, int factor, int add,
                  const char *what)
{
    float v[N] = {0};

    if (!check_ok(g->w.c, bp_tensor_read(g->w.stream[stream], t, v, sizeof v), "bp_tensor_read"))
        return false;
    for (int i = 0; i < N; i++)
        if (v[i] != (float)(i * factor + add))
            return check_that(g->w.c, false, "%s: element %d is %g, expected %d", what, i,
                              (double)v[i], i * factor + add);
    return true;
}

static bool add(struct graph *g, struct bp_scope *scope, struct bp_tensor *x, struct bp_tensor *y,
                struct bp_tensor **out)
{
    struct bp_arg in[2] = {{&x, 1}, {&y, 1}};
    struct bp_call call = {.size = sizeof call, .op = "add", .in = in, .n_in = 2};

    return check_ok(g->w.c, bp_call_run(scope, &call, out, 1, NULL), "bp_call_run of add");
}

static bool begin(struct graph *g, struct check *c, const int64_t *arg)
{
    memset(g, 0, sizeof *g);
    work_init(&g->w, c);
    return has_add(c) && work_stream(&g->w, 0, arg[0]) && work_stream(&g->w, 1, arg[1]) &&
           check_ok(c, bp_graph_create(c->place->core, &g->graph), "bp_graph_create") &&
           floats(g, &g->x) && floats(g, &g->y) && put(g, 0, g->x, 1, 0) && put(g, 0, g->y, 2, 1) &&
           work_sync(&g->w, 0);
}

static bool input(struct graph *g, int i, const char *name)
{
    int64_t n = N;

    return check_ok(g->w.c, bp_graph_input(g->graph, name, BP_F32, 1, &n, &g->symbol[i]),
                    "bp_graph_input");
}

static bool sums(struct graph *g, struct bp_tensor *x, struct bp_tensor *y)
{
    struct bp_scope *scope = bp_graph_scope(g->graph);

    return add(g, scope, x, y, &g->symbol[2]) && add(g, scope, g->symbol[2], x, &g->symbol[3]) &&
           add(g, scope, g->symbol[3], g->symbol[2], &g->symbol[4]) &&
           check_ok(g->w.c, bp_graph_output(g->graph, g->symbol[4], "c"), "bp_graph_output");
}

static bool record(struct graph *g)
{
    return input(g, 0, "x") && input(g, 1, "y") && sums(g, g->symbol[0], g->symbol[1]);
}

static bool run(struct graph *g, int stream, struct bp_tensor *x, int out)
{
    struct bp_tensor *in[2] = {x, g->y};

    return check_ok(g->w.c, bp_graph_run(g->graph, g->w.stream[stream], in, 2, &g->out[out], 1),
                    "bp_graph_run");
}

static void finish(struct graph *g)
{
    for (int i = 0; i < 5; i++) bp_tensor_destroy(g->symbol[i]);
    bp_tensor_destroy(g->x);
    bp_tensor_destroy(g->y);
    bp_tensor_destroy(g->out[0]);
    bp_tensor_destroy(g->out[1]);
    bp_graph_destroy(g->graph);
    work_finish(&g->w);
}

static void once(struct check *c, const int64_t *arg)
{
    struct bp_graph_info info = {.size = sizeof info};
    struct graph g;

    if (begin(&g, c, arg) && record(&g) && run(&g, 0, g.x, 0) &&
        holds(&g, 0, g.out[0], 7, 2, "the graph's result") &&
        check_ok(c, bp_graph_info(g.graph, &info), "bp_graph_info"))
        check_that(c, info.nodes == 3 && info.inputs == 2 && info.outputs == 1 && info.values == 5,
                   "%u nodes, %u values, %u inputs, %u outputs; expected 3, 5, 2, 1", info.nodes,
                   info.values, info.inputs, info.outputs);
    finish(&g);
}

static void twice(struct check *c, const int64_t *arg)
{
    struct graph g;

    if (begin(&g, c, arg) && record(&g) && run(&g, 0, g.x, 0) && put(&g, 0, g.x, 2, 0) &&
        put(&g, 0, g.y, 4, 5) && run(&g, 0, g.x, 1) &&
        holds(&g, 0, g.out[1], 14, 10, "the result of other inputs"))
        holds(&g, 0, g.out[0], 7, 2, "the first result");
    finish(&g);
}

/* As the calls themselves, on the same stream. */
static void eager(struct check *c, const int64_t *arg)
{
    struct bp_tensor *t[3] = {0};
    struct graph g;

    if (begin(&g, c, arg)) {
        struct bp_scope *scope = bp_stream_scope(g.w.stream[0]);
        if (work_shut(&g.w, 0) && add(&g, scope, g.x, g.y, &t[0]) &&
            add(&g, scope, t[0], g.x, &t[1]) && add(&g, scope, t[1], t[0], &t[2]) && record(&g) &&
            run(&g, 0, g.x, 0)) {
            work_open(&g.w, 0);
            if (holds(&g, 0, t[2], 7, 2, "calls one by one"))
                holds(&g, 0, g.out[0], 7, 2, "the graph's result");
        }
    }
    for (int i = 0; i < 3; i++) bp_tensor_destroy(t[i]);
    finish(&g);
}

/* Inputs are written again, and go, before the graph's work can begin. */
static void held(struct check *c, const int64_t *arg)
{
    struct graph g;

    if (begin(&g, c, arg) && record(&g) && work_shut(&g.w, 0) && run(&g, 0, g.x, 0) &&
        put(&g, 0, g.x, 9, 9) && run(&g, 0, g.x, 1)) {
        bp_tensor_destroy(g.x);
        bp_tensor_destroy(g.y);
        g.x = g.y = NULL;
        bp_graph_destroy(g.graph);
        g.graph = NULL;
        work_open(&g.w, 0);
        /* x = 9 i + 9, y = 2 i + 1 */
        if (holds(&g, 0, g.out[0], 7, 2, "what was given first"))
            holds(&g, 0, g.out[1], 31, 29, "what was given when an input had been written again");
    }
    finish(&g);
}

static void given(struct check *c, const int64_t *arg)
{
    struct graph g;

    if (begin(&g, c, arg) && record(&g) && floats(&g, &g.out[0])) {
        struct bp_tensor *mine = g.out[0];
        if (put(&g, 0, mine, 0, 77) && run(&g, 0, g.x, 0) &&
            check_that(c, g.out[0] == mine, "bp_graph_run replaced an output that was given"))
            holds(&g, 0, mine, 7, 2, "an output that was given");
    }
    finish(&g);
}

/* A real tensor is a constant of the graph, which keeps it. */
static void constant(struct check *c, const int64_t *arg)
{
    struct graph g;
    struct bp_tensor *in[1];

    if (begin(&g, c, arg) && input(&g, 0, "x") && sums(&g, g.symbol[0], g.y)) {
        bp_tensor_destroy(g.y);
        g.y = NULL;
        in[0] = g.x;
        if (floats(&g, &g.y) && put(&g, 0, g.y, 0, 1000) &&
            check_ok(c, bp_graph_run(g.graph, g.w.stream[0], in, 1, g.out, 1), "bp_graph_run"))
            holds(&g, 0, g.out[0], 7, 2, "a result with a constant");
    }
    finish(&g);
}

static void chain(struct check *c, const int64_t *arg)
{
    struct bp_tensor *t[CHAIN + 1] = {0}, *in[2];
    struct graph g;
    bool ok = begin(&g, c, arg) && input(&g, 0, "x") && input(&g, 1, "y");

    for (int i = 0; ok && i < CHAIN; i++)
        ok = add(&g, bp_graph_scope(g.graph), i ? t[i - 1] : g.symbol[1], g.symbol[0], &t[i]);
    in[0] = g.x, in[1] = g.y;
    if (ok && check_ok(c, bp_graph_output(g.graph, t[CHAIN - 1], NULL), "bp_graph_output") &&
        work_shut(&g.w, 0) &&
        check_ok(c, bp_graph_run(g.graph, g.w.stream[0], in, 2, g.out, 1), "bp_graph_run")) {
        work_open(&g.w, 0);
        holds(&g, 0, g.out[0], CHAIN + 2, 1, "a chain");
    }
    for (int i = 0; i < CHAIN; i++) bp_tensor_destroy(t[i]);
    finish(&g);
}

/* One stream's result is the other's input, behind an event. */
static void two_streams(struct check *c, const int64_t *arg)
{
    struct graph g;

    if (begin(&g, c, arg) && record(&g) && work_shut(&g.w, 0) && run(&g, 0, g.x, 0) &&
        work_record(&g.w, 0, 0) && work_wait_held(&g.w, 1, 0, 0) && run(&g, 1, g.out[0], 1)) {
        work_pause();
        work_open(&g.w, 0);
        /* x = 7 i + 2, y = 2 i + 1: 3 x + 2 y */
        if (holds(&g, 1, g.out[1], 25, 8, "a result of the second stream"))
            holds(&g, 0, g.out[0], 7, 2, "that of the first");
    }
    finish(&g);
}

const struct check_kinds suite_runtime_graph[] = {
    {"graph/once", once, 1},     {"graph/twice", twice, 1},
    {"graph/eager", eager, 1},   {"graph/held", held, 1},
    {"graph/given", given, 1},   {"graph/constant", constant, 1},
    {"graph/chain", chain, 1},   {"graph/two-streams", two_streams, 2},
    {NULL, NULL, 0},
};
