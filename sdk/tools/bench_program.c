/* SPDX-License-Identifier: Apache-2.0 */
/* bench_program.c: measures a graph of many small calls, run as a program and node by node: the
 * gain from recorded work, where the device records. */
#include "bench.h"

enum {
    CALLS = 100,
    ELEMENTS = 16
};

struct programs {
    struct bench *bench;
    struct bp_graph *graph;
    struct bp_program *program;
    struct bp_tensor *x, *y;
};

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

/* y = x + x + ... */
static bool program_record(struct programs *p, const int64_t *shape)
{
    struct bp_scope *scope = bp_graph_scope(p->graph);
    struct bp_tensor *x = NULL, *sum = NULL, *next = NULL;
    bool ok = !bp_graph_input(p->graph, "x", BP_F32, 1, shape, &x);

    for (int i = 0; ok && i < CALLS; i++) {
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

static bool program_setup(struct programs *p)
{
    const int64_t shape[1] = {ELEMENTS};
    static const float zero[ELEMENTS];

    return !bp_tensor_create(p->bench->device, BP_F32, 1, shape, &p->x) &&
           !bp_tensor_create(p->bench->device, BP_F32, 1, shape, &p->y) &&
           !bp_tensor_write(p->bench->stream, p->x, zero, sizeof zero) &&
           !bp_graph_create(p->bench->core, &p->graph) && program_record(p, shape) &&
           !bp_program_create(p->graph, p->bench->device, &p->program) && program_replay(p) &&
           program_replay(p);
}

void bench_program(struct bench *bench)
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
    if (program_setup(&p)) bench_run(bench, &c);
    else bench_failed(bench, c.name);
    bp_program_destroy(p.program);
    bp_graph_destroy(p.graph);
    bp_tensor_destroy(p.x);
    bp_tensor_destroy(p.y);
}
