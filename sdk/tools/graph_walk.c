/* SPDX-License-Identifier: Apache-2.0 */
/* graph_walk.c: runs a graph node by node, and frees values after their last use. */
#include "graph_walk.h"
#include <stdlib.h>

enum { PORTS = 16, FLAT = 512 };

static void find_last(struct graph_walk *walk)
{
    for (uint32_t n = 0; n < walk->n_node; n++) {
        struct bp_node_info node = {.size = sizeof node};
        if (bp_graph_node(walk->graph, n, &node)) continue;
        for (uint32_t i = 0; i < node.n_in + node.n_out; i++) {
            uint32_t v = i < node.n_in ? node.in[i] : node.out[i - node.n_in];
            if (v != UINT32_MAX) walk->last[v] = n;
        }
    }
}

enum bp_status graph_walk_init(struct graph_walk *walk, struct bp_graph *graph,
                               struct bp_stream *stream, struct bp_tensor *const *in, size_t n_in)
{
    struct bp_graph_info info = {.size = sizeof info};
    enum bp_status status = bp_graph_get_info(graph, &info);
    size_t given = 0;

    *walk = (struct graph_walk){.graph = graph, .stream = stream};
    if (status) return status;
    walk->n_value = info.values;
    walk->n_node = info.nodes;
    walk->value = calloc(info.values + 1, sizeof *walk->value);
    walk->last = calloc(info.values + 1, sizeof *walk->last);
    walk->made = calloc(info.values + 1, 1);
    if (!walk->value || !walk->last || !walk->made) abort();
    for (uint32_t v = 0; v < info.values; v++) {
        struct bp_value_info value = {.size = sizeof value};
        status = bp_graph_value(graph, v, &value);
        if (status) return status;
        if (value.kind == 0 && given < n_in) walk->value[v] = in[given++];
        if (value.kind == 1) walk->value[v] = value.constant;
    }
    find_last(walk);
    return BP_OK;
}

void graph_walk_finish(struct graph_walk *walk)
{
    for (uint32_t v = 0; walk->value && v < walk->n_value; v++)
        if (walk->made[v]) bp_tensor_destroy(walk->value[v]);
    free(walk->value);
    free(walk->last);
    free(walk->made);
    *walk = (struct graph_walk){0};
}

/* A node as a call on tensors. */
struct step {
    struct bp_node_info node;
    const struct bp_opinfo *op;
    struct bp_arg arg[PORTS];
    struct bp_tensor *in[FLAT], *out[FLAT];
    uint8_t want[FLAT];
};

/* Assigns the node's inputs to ports. At most one port takes any number of tensors. */
static void place_inputs(struct step *step)
{
    uint32_t many = step->node.n_in + 1 - step->op->n_in, at = 0;

    for (uint32_t port = 0; port < step->op->n_in; port++) {
        uint32_t n = step->op->in[port].kind == BP_PORT_VAR ? many : 1;
        step->arg[port] = (struct bp_arg){step->in + at, n};
        at += n;
    }
}

static enum bp_status graph_walk_node(struct graph_walk *walk, struct step *step)
{
    struct bp_call call = {.size = sizeof call, .op = step->node.op, .in = step->arg,
                           .n_in = step->op->n_in, .attrs = step->node.attrs};
    enum bp_status status;

    for (uint32_t i = 0; i < step->node.n_in; i++)
        if (step->node.in[i] != UINT32_MAX) step->in[i] = walk->value[step->node.in[i]];
    for (uint32_t i = 0; i < step->node.n_out; i++)
        step->want[i] = step->node.out[i] != UINT32_MAX;
    place_inputs(step);
    status = bp_call_run(bp_stream_scope(walk->stream), &call, step->out, step->node.n_out,
                         step->want);
    for (uint32_t i = 0; i < step->node.n_out; i++) {
        if (!step->out[i]) continue;
        walk->value[step->node.out[i]] = step->out[i];
        walk->made[step->node.out[i]] = 1;
    }
    return status;
}

/* Frees the values that no later node reads. */
static void graph_walk_drop(struct graph_walk *walk, uint32_t node, const struct step *step)
{
    for (uint32_t i = 0; i < step->node.n_in + step->node.n_out; i++) {
        uint32_t v = i < step->node.n_in ? step->node.in[i] : step->node.out[i - step->node.n_in];
        if (v == UINT32_MAX || walk->last[v] != node || !walk->made[v]) continue;
        bp_tensor_destroy(walk->value[v]);
        walk->made[v] = 0;
    }
}

enum bp_status graph_walk_run(struct graph_walk *walk, uint32_t node, const char **name)
{
    struct step step = {.node = {.size = sizeof step.node}};
    enum bp_status status = bp_graph_node(walk->graph, node, &step.node);

    if (status) return status;
    *name = step.node.name;
    step.op = bp_opinfo_find(step.node.op);
    if (step.node.n_in > FLAT || step.node.n_out > FLAT || step.op->n_in > PORTS)
        return bp_error_set(BP_ERR_UNSUPPORTED, "a node has more tensors than can be walked");
    status = graph_walk_node(walk, &step);
    graph_walk_drop(walk, node, &step);
    return status;
}
