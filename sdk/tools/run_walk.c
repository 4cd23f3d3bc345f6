/* SPDX-License-Identifier: Apache-2.0 */
/* run_walk.c: runs a model operator call by operator call, through its graph or with a watcher. */
#include "graph_walk.h"
#include "run_model.h"
#include <stdlib.h>

static void walk_see(void *ctx, const struct bp_watched *call)
{
    struct run_walk *walk = ctx;

    if (walk->failed) return;
    if (!walk->nodes) walk->name = bp_model_node(walk->r->model);
    if (!call->out) {
        if (walk->before) walk->before(walk, call);
        walk->begin = bench_now();
        return;
    }
    if (bp_stream_synchronize(walk->r->stream)) {
        walk->failed = !run_failed(walk->name);
        return;
    }
    walk->seconds = bench_now() - walk->begin;
    walk->after(walk, call);
    walk->calls++;
}

static bool walk_graph(struct run_walk *walk, struct bp_graph *graph, struct bp_tensor **in)
{
    struct graph_walk nodes;
    bool ok = !graph_walk_init(&nodes, graph, walk->r->stream, in, walk->r->n_in) ||
              run_failed("walk");

    walk->nodes = nodes.n_node;
    for (uint32_t n = 0; ok && n < nodes.n_node; n++)
        ok = !graph_walk_run(&nodes, n, &walk->name) || run_failed(walk->name);
    graph_walk_finish(&nodes);
    return ok;
}

static bool walk_run(struct run_walk *walk)
{
    struct run_model *r = walk->r;
    struct bp_model_value *out = calloc(r->n_out + 1, sizeof *out);
    bool ok;

    if (!out) abort();
    ok = !bp_model_run_values(r->model, r->stream, r->in, r->n_in, out, r->n_out) ||
         run_failed(r->path);
    for (uint32_t i = 0; i < r->n_out; i++) bp_model_value_finish(&out[i]);
    free(out);
    return ok;
}

bool run_find_graph(struct run_model *r, struct bp_tensor **in, struct bp_graph **out_graph)
{
    *out_graph = NULL;
    for (uint32_t i = 0; i < r->n_in; i++) {
        if (r->in[i].kind != BP_MODEL_TENSOR) return true;
        in[i] = r->in[i].at[0];
    }
    return !bp_model_planned(r->model, in, r->n_in, out_graph) || run_failed("plan");
}

bool run_walk(struct run_walk *walk)
{
    struct run_model *r = walk->r;
    struct bp_tensor **in = calloc(r->n_in + 1, sizeof *in);
    struct bp_graph *graph;
    bool ok;

    if (!in) abort();
    walk->calls = walk->nodes = 0;
    ok = run_find_graph(r, in, &graph) &&
         (!bp_stream_watch(r->stream, walk_see, walk) || run_failed("watch"));
    if (ok) ok = graph ? walk_graph(walk, graph, in) : walk_run(walk);
    (void)bp_stream_watch(r->stream, NULL, NULL); /* cannot fail for a valid stream */
    free(in);
    return ok && !walk->failed;
}
