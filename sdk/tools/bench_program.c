/* SPDX-License-Identifier: Apache-2.0 */
/* bench_program.c: measures programs beside calls one by one: a graph of many small calls, a node
 * of a long chain, and a chain of elementwise operators on large tensors, beside a copy. */
#include "bench.h"
#include <backplane/ops.h>
#include <stdlib.h>

enum {
    CALLS = 100,
    NODES = 1000,
    ELEMENTS = 16,
    LARGE = 1 << 24, /* elements of the chain */
    LARGE_QUICK = 1 << 20
};

struct programs {
    struct bench *bench;
    struct bp_graph *graph;
    struct bp_program *program;
    struct bp_tensor *x, *y;
    struct bp_prepared *prepared; /* one add of the chain */
};

static void programs_finish(struct programs *p)
{
    bp_program_destroy(p->program);
    bp_graph_destroy(p->graph);
    bp_tensor_destroy(p->x);
    bp_tensor_destroy(p->y);
    bp_prepared_destroy(p->prepared);
}

static bool program_replay(void *ctx)
{
    struct programs *p = ctx;

    return !bp_program_run(p->program, p->bench->stream, &p->x, 1, &p->y, 1) &&
           !bp_stream_synchronize(p->bench->stream);
}

static bool node_by_node(void *ctx)
{
    struct programs *p = ctx;

    return !bp_graph_run(p->graph, p->bench->stream, &p->x, 1, &p->y, 1) &&
           !bp_stream_synchronize(p->bench->stream);
}

/* y = x + x + ...: sums of integers, which stay separate calls. */
static bool program_record(struct programs *p, const int64_t *shape, int calls)
{
    struct bp_scope *scope = bp_graph_scope(p->graph);
    struct bp_tensor *x = NULL, *sum = NULL, *next = NULL;
    bool ok = !bp_graph_input(p->graph, "x", BP_I32, 1, shape, &x);

    for (int i = 0; ok && i < calls; i++) {
        ok = !bp_op_add(scope, i ? sum : x, x, &next);
        bp_tensor_destroy(sum);
        sum = next;
        next = NULL;
    }
    ok = ok && !bp_graph_output(p->graph, sum, NULL);
    bp_tensor_destroy(sum);
    bp_tensor_destroy(x);
    return ok;
}

static bool program_setup(struct programs *p, int calls)
{
    const int64_t shape[1] = {ELEMENTS};
    static const int32_t zero[ELEMENTS];

    return !bp_tensor_create(p->bench->device, BP_I32, 1, shape, &p->x) &&
           !bp_tensor_create(p->bench->device, BP_I32, 1, shape, &p->y) &&
           !bp_tensor_write(p->bench->stream, p->x, zero, sizeof zero) &&
           !bp_graph_create(p->bench->core, &p->graph) && program_record(p, shape, calls) &&
           !bp_program_create(p->graph, p->bench->device, &p->program) && program_replay(p) &&
           program_replay(p);
}

static void program_calls(struct bench *bench)
{
    struct programs p = {.bench = bench};
    const struct bench_case c = {"program/100 calls",
                                 "ns",
                                 BENCH_TIME,
                                 0,
                                 {.body = program_replay, .ctx = &p},
                                 "node by node",
                                 {.body = node_by_node, .ctx = &p},
                                 0,
                                 0};

    if (!bench_wants(bench, c.name)) return;
    if (program_setup(&p, CALLS)) bench_run(bench, &c);
    else bench_failed(bench, c.name);
    programs_finish(&p);
}

/* --- a node of 1,000 beside a prepared call --------------------------------------------------- */

/* Runs the chain until `calls` nodes have run; returns the seconds of one node. */
static double nodes_block(void *ctx, int calls)
{
    int runs = (calls + NODES - 1) / NODES;
    double start = bench_now();

    for (int i = 0; i < runs; i++)
        if (!program_replay(ctx)) return -1;
    return (bench_now() - start) / ((double)runs * NODES);
}

static bool node_prepare(struct programs *p)
{
    struct bp_arg in[2] = {{&p->x, 1}, {&p->x, 1}};
    struct bp_call call = {.size = sizeof call, .op = "add", .in = in, .n_in = 2};

    return !bp_prepared_create(p->bench->device, &call, NULL, 0, &p->prepared);
}

static bool node_prepared(void *ctx)
{
    struct programs *p = ctx;
    struct bp_tensor *const in[2] = {p->x, p->x};

    return !bp_prepared_run(p->prepared, p->bench->stream, in, 2, &p->y, 1, NULL);
}

static void program_nodes(struct bench *bench)
{
    struct programs p = {.bench = bench};
    const struct bench_case c = {"program/node of 1000 over prepared",
                                 "ns",
                                 BENCH_OVER,
                                 0,
                                 {.block = nodes_block, .ctx = &p},
                                 "a prepared call",
                                 {.body = node_prepared, .ctx = &p},
                                 0,
                                 0};

    if (!bench_wants(bench, c.name)) return;
    if (program_setup(&p, NODES) && node_prepare(&p)) bench_run(bench, &c);
    else bench_failed(bench, c.name);
    programs_finish(&p);
}

/* --- 8 elementwise operators ------------------------------------------------------------------ */

static bool program_copy(void *ctx)
{
    struct programs *p = ctx;

    return !bp_tensor_copy(p->bench->stream, p->y, p->x) &&
           !bp_stream_synchronize(p->bench->stream);
}

/* Creates a frozen tensor of one number. */
static struct bp_tensor *chain_number(struct bench *bench, float number)
{
    const int64_t one = 1;
    struct bp_tensor *t = NULL;

    if (bp_tensor_create(bench->device, BP_F32, 1, &one, &t) ||
        bp_tensor_write(bench->stream, t, &number, sizeof number) || bp_tensor_freeze(t)) {
        bp_tensor_destroy(t);
        return NULL;
    }
    return t;
}

/* add, mul, sub, maximum, minimum with numbers, then abs, neg and relu. */
static bool chain_record(struct programs *p, const int64_t *shape, struct bp_tensor *const *a)
{
    struct bp_scope *s = bp_graph_scope(p->graph);
    struct bp_tensor *v[9] = {NULL};
    bool ok = a[0] && a[1] && !bp_graph_input(p->graph, "x", BP_F32, 1, shape, &v[0]) &&
              !bp_op_add(s, v[0], a[0], &v[1]) && !bp_op_mul(s, v[1], a[1], &v[2]) &&
              !bp_op_sub(s, v[2], a[0], &v[3]) && !bp_op_maximum(s, v[3], a[1], &v[4]) &&
              !bp_op_minimum(s, v[4], a[0], &v[5]) && !bp_op_abs(s, v[5], &v[6]) &&
              !bp_op_neg(s, v[6], &v[7]) && !bp_op_relu(s, v[7], &v[8]) &&
              !bp_graph_output(p->graph, v[8], NULL);

    for (int i = 0; i < 9; i++) bp_tensor_destroy(v[i]);
    return ok;
}

static bool chain_setup(struct programs *p, int64_t n)
{
    struct bp_tensor *a[2] = {chain_number(p->bench, 1.5f), chain_number(p->bench, 0.25f)};
    float *data = calloc((size_t)n, sizeof *data);
    bool ok = data && !bp_tensor_create(p->bench->device, BP_F32, 1, &n, &p->x) &&
              !bp_tensor_create(p->bench->device, BP_F32, 1, &n, &p->y) &&
              !bp_tensor_write(p->bench->stream, p->x, data, (uint64_t)n * sizeof *data) &&
              !bp_tensor_write(p->bench->stream, p->y, data, (uint64_t)n * sizeof *data) &&
              !bp_graph_create(p->bench->core, &p->graph) && chain_record(p, &n, a) &&
              !bp_program_create(p->graph, p->bench->device, &p->program) && program_replay(p) &&
              program_replay(p);

    free(data);
    bp_tensor_destroy(a[0]);
    bp_tensor_destroy(a[1]);
    return ok;
}

static void program_chain(struct bench *bench)
{
    int64_t n = bench->quick ? LARGE_QUICK : LARGE;
    struct programs p = {.bench = bench};
    const struct bench_case c = {"program/8 elementwise",
                                 "GB/s",
                                 BENCH_RATE,
                                 8e-9 * (double)n, /* read and written */
                                 {.body = program_replay, .ctx = &p},
                                 "copy",
                                 {.body = program_copy, .ctx = &p},
                                 .operations = 8.0 * (double)n,
                                 .bytes = 8.0 * (double)n};

    if (!bench_wants(bench, c.name)) return;
    if (chain_setup(&p, n)) bench_run(bench, &c);
    else bench_failed(bench, c.name);
    programs_finish(&p);
}

void bench_program(struct bench *bench)
{
    program_calls(bench);
    program_nodes(bench);
    program_chain(bench);
}
