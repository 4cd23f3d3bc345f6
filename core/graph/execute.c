/* SPDX-License-Identifier: Apache-2.0 */
/* execute.c: runs a graph node by node. A value's tensor goes when the last node that reads it has
 * been given to the stream. */
#include "graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct execution {
    const struct bp_graph *graph;
    struct bp_stream *stream;
    struct bp_tensor **value; /* a reference each, or NULL */
    uint32_t *last;           /* the node that reads it last */
};

static bool is_output(const struct bp_graph *graph, uint32_t value)
{
    for (uint32_t i = 0; i < graph->n_output; i++)
        if (graph->output[i] == value) return true;
    return false;
}

static void find_last_uses(struct execution *e)
{
    const struct bp_graph *g = e->graph;

    for (uint32_t n = 0; n < g->n_node; n++) {
        for (uint32_t i = 0; i < g->node[n].n_in; i++)
            if (g->node[n].in[i] != BP_NO_VALUE) e->last[g->node[n].in[i]] = n;
        for (uint32_t i = 0; i < g->node[n].n_out; i++)
            if (g->node[n].out[i] != BP_NO_VALUE) e->last[g->node[n].out[i]] = n;
    }
    for (uint32_t v = 0; v < g->n_value; v++)
        if (is_output(g, v)) e->last[v] = BP_NO_VALUE;
}

static enum bp_status check_input(const struct bp_graph *g, uint32_t i, const struct bp_tensor *t)
{
    const struct bp_value *v = &g->value[g->input[i]];
    char got[BP_TYPE_TEXT], want[BP_TYPE_TEXT];

    if (!bp_tensor_is(t))
        return bp_error(BP_ERR_INVALID, "bp_graph_run: input %s: expected a tensor", v->name);
    if (t->view.dtype == v->type->view.dtype && t->view.rank == v->type->view.rank &&
        !memcmp(t->shape, v->type->shape, t->view.rank * sizeof *t->shape))
        return BP_OK;
    return bp_error(
        BP_ERR_INVALID, "bp_graph_run: input %s is %s, expected %s", v->name,
        bp_type_text(t->view.dtype, t->view.rank, t->shape, got, sizeof got),
        bp_type_text(v->type->view.dtype, v->type->view.rank, v->type->shape, want, sizeof want));
}

static enum bp_status take_inputs(struct execution *e, struct bp_tensor *const *in)
{
    const struct bp_graph *g = e->graph;

    for (uint32_t i = 0; i < g->n_input; i++) {
        TRY(check_input(g, i, in[i]));
        e->value[g->input[i]] = bp_tensor_retain(in[i]);
    }
    for (uint32_t v = 0; v < g->n_value; v++)
        if (g->value[v].kind == BP_VALUE_CONSTANT)
            e->value[v] = bp_tensor_retain(g->value[v].constant);
    return BP_OK;
}

static enum bp_status run_node(struct execution *e, uint32_t number)
{
    const struct bp_node *node = &e->graph->node[number];
    const struct bp_opinfo *op = &node->row->info;
    struct bp_tensor *in[BP_FLAT_MAX], *out[BP_PORT_MAX] = {NULL};
    struct bp_arg arg[BP_PORT_MAX];
    uint8_t want[BP_PORT_MAX];
    struct bp_call call = {.size = sizeof call, .op = op->name, .in = arg, .n_in = op->n_in,
                           .attrs = node->attrs};

    for (uint32_t i = 0; i < node->n_in; i++)
        in[i] = node->in[i] == BP_NO_VALUE ? NULL : e->value[node->in[i]];
    bp_node_args(node, in, arg);
    for (uint32_t i = 0; i < op->n_out; i++) {
        want[i] = node->want >> i & 1;
        if (want[i]) out[i] = e->value[node->out[i]]; /* given by the app, or NULL */
    }
    TRY(bp_call_run(&e->stream->scope, &call, out, op->n_out, want));
    for (uint32_t i = 0; i < op->n_out; i++)
        if (want[i]) e->value[node->out[i]] = out[i];
    return BP_OK;
}

/* Values that node number was the last to need. */
static void let_go(struct execution *e, uint32_t number)
{
    const struct bp_node *node = &e->graph->node[number];

    for (uint32_t i = 0; i < node->n_in + node->n_out; i++) {
        uint32_t v = node->in[i]; /* outputs follow inputs */
        if (v == BP_NO_VALUE || e->last[v] != number) continue;
        bp_tensor_destroy(e->value[v]);
        e->value[v] = NULL;
    }
}

static enum bp_status run_nodes(struct execution *e)
{
    for (uint32_t n = 0; n < e->graph->n_node; n++) {
        enum bp_status status;
        e->stream->timeline->node = e->graph->node[n].name; /* for what a queue finds later */
        status = run_node(e, n);
        e->stream->timeline->node = NULL;
        if (status)
            return bp_error(status, "node %s: %s", e->graph->node[n].name, bp_error_message());
        let_go(e, n);
    }
    return BP_OK;
}

/* Outputs that the app gives stand in for their values; one that is an input, or given twice, is
 * copied in the end. */
static void take_given(struct execution *e, struct bp_tensor *const *out)
{
    const struct bp_graph *g = e->graph;

    for (uint32_t i = 0; i < g->n_output; i++) {
        uint32_t v = g->output[i];
        if (out[i] && g->value[v].kind == BP_VALUE_RESULT && !e->value[v] &&
            !g->node[g->value[v].node].row->is_view && !g->node[g->value[v].node].row->updates)
            e->value[v] = bp_tensor_retain(out[i]);
    }
}

static enum bp_status give_outputs(struct execution *e, struct bp_tensor **out)
{
    const struct bp_graph *g = e->graph;

    for (uint32_t i = 0; i < g->n_output; i++) {
        struct bp_tensor *t = e->value[g->output[i]];
        if (out[i] && out[i] != t) TRY(bp_tensor_copy(e->stream, out[i], t));
    }
    for (uint32_t i = 0; i < g->n_output; i++) {
        if (!out[i]) out[i] = bp_tensor_retain(e->value[g->output[i]]);
    }
    return BP_OK;
}

static enum bp_status check_run(const struct bp_graph *graph, const struct bp_stream *stream,
                                struct bp_tensor *const *in, size_t n_in,
                                struct bp_tensor *const *out, size_t n_out)
{
    if (!bp_graph_is(graph)) return bp_not_a_for("bp_graph_run", "graph");
    if (!bp_stream_is(stream)) return bp_not_a_for("bp_graph_run", "stream");
    if (n_in != graph->n_input || n_out != graph->n_output)
        return bp_error(BP_ERR_INVALID,
                        "bp_graph_run: %zu inputs and %zu outputs given, the graph has %u and %u",
                        n_in, n_out, graph->n_input, graph->n_output);
    if ((n_in && !in) || (n_out && !out))
        return bp_error(BP_ERR_INVALID, "bp_graph_run: in or out is NULL");
    for (size_t i = 0; i < n_out; i++)
        if (out[i] && !bp_tensor_is(out[i]))
            return bp_error(BP_ERR_INVALID, "bp_graph_run: output %zu: expected NULL or a tensor",
                            i);
    return BP_OK;
}

enum bp_status bp_graph_run(struct bp_graph *graph, struct bp_stream *stream,
                            struct bp_tensor *const *in, size_t n_in, struct bp_tensor **out,
                            size_t n_out)
{
    struct execution e = {.graph = graph, .stream = stream};
    enum bp_status status;

    TRY(check_run(graph, stream, in, n_in, out, n_out));
    e.value = calloc(graph->n_value + 1, sizeof *e.value);
    e.last = calloc(graph->n_value + 1, sizeof *e.last);
    status = e.value && e.last ? BP_OK : bp_error(BP_ERR_MEMORY, "bp_graph_run: no memory");
    if (status == BP_OK) {
        find_last_uses(&e);
        status = take_inputs(&e, in);
    }
    if (status == BP_OK) {
        take_given(&e, out);
        status = run_nodes(&e);
    }
    if (status == BP_OK) status = give_outputs(&e, out);
    for (uint32_t v = 0; e.value && v < graph->n_value; v++) bp_tensor_destroy(e.value[v]);
    free(e.value);
    free(e.last);
    return status;
}
