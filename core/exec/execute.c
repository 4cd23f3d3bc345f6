/* SPDX-License-Identifier: Apache-2.0 */
/* execute.c: runs a graph node by node. The tensor of a value is released when the last node that
 * reads it has been submitted to the stream. */
#include "../call/prepared.h"
#include "../device/profiled.h"
#include "../graph/graph.h"

#include <backplane/ops.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct execution {
    const struct bp_graph *graph;
    struct bp_stream *stream;
    struct bp_tensor **value; /* n_value tensors, a reference each, or NULL */
    uint32_t *last;           /* of each value: the last node that reads it */
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

static enum bp_status check_input(const char *call, const struct bp_graph *g, uint32_t i,
                                  const struct bp_tensor *t)
{
    const struct bp_value *v = &g->value[g->input[i]];
    char got[BP_TYPE_TEXT], want[BP_TYPE_TEXT];

    if (!bp_tensor_is(t))
        return bp_error(BP_ERR_INVALID, "%s: input %s: expected a tensor", call, v->name);
    if (t->view.dtype == v->type->view.dtype && t->view.rank == v->type->view.rank &&
        !memcmp(t->shape, v->type->shape, t->view.rank * sizeof *t->shape))
        return BP_OK;
    return bp_error(
        BP_ERR_INVALID, "%s: input %s is %s, expected %s", call, v->name,
        bp_type_text(t->view.dtype, t->view.rank, t->shape, got, sizeof got),
        bp_type_text(v->type->view.dtype, v->type->view.rank, v->type->shape, want, sizeof want));
}

static void exec_take_inputs(struct execution *e, struct bp_tensor *const *in)
{
    const struct bp_graph *g = e->graph;

    for (uint32_t i = 0; i < g->n_input; i++) e->value[g->input[i]] = bp_tensor_retain(in[i]);
    for (uint32_t v = 0; v < g->n_value; v++)
        if (g->value[v].kind == BP_VALUE_CONSTANT)
            e->value[v] = bp_tensor_retain(g->value[v].constant);
}

static enum bp_status graph_run_node(struct execution *e, uint32_t number)
{
    const struct bp_node *node = &e->graph->node[number];
    const struct bp_opinfo *op = &node->row->info;
    struct bp_tensor *in[BP_FLAT_MAX], *out[BP_FLAT_MAX];
    struct bp_arg arg[BP_PORT_MAX];
    uint8_t want[BP_FLAT_MAX];
    struct bp_call call = {.size = sizeof call, .op = op->name, .in = arg, .n_in = op->n_in,
                           .attrs = node->attrs, .kernel = node->kernel};

    for (uint32_t i = 0; i < node->n_in; i++)
        in[i] = node->in[i] == BP_NO_VALUE ? NULL : e->value[node->in[i]];
    bp_node_args(node, in, arg);
    for (uint32_t i = 0; i < node->n_out; i++) {
        want[i] = node->out[i] != BP_NO_VALUE;
        out[i] = want[i] ? e->value[node->out[i]] : NULL; /* preallocated by the app, or NULL */
    }
    TRY(bp_call_run(&e->stream->scope, &call, out, node->n_out, want));
    for (uint32_t i = 0; i < node->n_out; i++)
        if (want[i]) e->value[node->out[i]] = out[i];
    return BP_OK;
}

/* Releases the values that no node after `number` needs. */
static void exec_let_go(struct execution *e, uint32_t number)
{
    const struct bp_node *node = &e->graph->node[number];

    for (uint32_t i = 0; i < node->n_in + node->n_out; i++) {
        uint32_t v = node->in[i]; /* outputs follow inputs */
        if (v == BP_NO_VALUE || e->last[v] != number) continue;
        bp_tensor_destroy(e->value[v]);
        e->value[v] = NULL;
    }
}

static enum bp_status graph_run_nodes(struct execution *e)
{
    for (uint32_t n = 0; n < e->graph->n_node; n++) {
        enum bp_status status;
        e->stream->timeline->node = e->graph->node[n].name; /* for later failures in a queue */
        status = graph_run_node(e, n);
        e->stream->timeline->node = NULL;
        if (status)
            return bp_error_more(status, "node %s: %s", e->graph->node[n].name, bp_error_message());
        exec_let_go(e, n);
    }
    return BP_OK;
}

/* Whether a tensor overlaps memory that holds an input or a constant, which a node may still
 * read. */
static bool meets_input(const struct execution *e, const struct bp_tensor *t)
{
    const struct bp_graph *g = e->graph;

    for (uint32_t v = 0; v < g->n_value; v++)
        if (g->value[v].kind != BP_VALUE_RESULT && bp_tensors_overlap(e->value[v], t)) return true;
    return false;
}

static bool graph_updates(const struct bp_graph *g)
{
    for (uint32_t n = 0; n < g->n_node; n++)
        if (g->node[n].row->updates) return true;
    return false;
}

/* Uses the app's preallocated outputs as the tensors of their values. If an output is an input, is
 * listed twice, or overlaps memory that the graph reads, its value is copied at the end instead. So
 * is a strided output of a graph with updates: a reshape of it might be a copy, which an update of
 * the value does not reach, where a reshape of a dense value is a view. */
static void take_given(struct execution *e, struct bp_tensor *const *out)
{
    const struct bp_graph *g = e->graph;
    bool updates = graph_updates(g);

    for (uint32_t i = 0; i < g->n_output; i++) {
        uint32_t v = g->output[i];
        bool strided = out[i] && out[i]->view.flags & BP_VIEW_STRIDED;
        if (out[i] && !(updates && strided) && g->value[v].kind == BP_VALUE_RESULT &&
            !e->value[v] && !g->node[g->value[v].node].row->is_view &&
            !g->node[g->value[v].node].row->updates && !meets_input(e, out[i]))
            e->value[v] = bp_tensor_retain(out[i]);
    }
}

static bool is_in_place(const struct bp_tensor *t, const struct bp_tensor *given)
{
    return t->buffer == given->buffer && t->offset == given->offset &&
           bp_same_type(&t->view, &given->view);
}

/* Copies the source of an output to new memory first if an output will be written there, for
 * example if two inputs are exchanged, or if an input becomes its own transpose. */
static enum bp_status move_away(struct execution *e, struct bp_tensor *const *out, uint32_t i,
                                struct bp_tensor **source)
{
    const struct bp_graph *g = e->graph;
    struct bp_tensor *t = e->value[g->output[i]];

    *source = NULL;
    if (!out[i] || is_in_place(t, out[i])) return BP_OK;
    for (uint32_t j = 0; j < g->n_output; j++)
        if (out[j] && !is_in_place(e->value[g->output[j]], out[j]) &&
            bp_tensors_overlap(t, out[j]))
            return bp_op_assign(&e->stream->scope, t, source);
    *source = bp_tensor_retain(t);
    return BP_OK;
}

static enum bp_status give_outputs(struct execution *e, struct bp_tensor **out)
{
    const struct bp_graph *g = e->graph;
    struct bp_tensor **source = calloc(g->n_output + 1, sizeof *source);
    enum bp_status status = BP_OK;

    if (!source) return bp_error(BP_ERR_MEMORY, "bp_graph_run: no memory");
    for (uint32_t i = 0; i < g->n_output && status == BP_OK; i++)
        status = move_away(e, out, i, &source[i]);
    for (uint32_t i = 0; i < g->n_output && status == BP_OK; i++)
        if (source[i]) status = bp_tensor_copy(e->stream, out[i], source[i]);
    for (uint32_t i = 0; i < g->n_output; i++) {
        if (source[i]) bp_tensor_destroy(source[i]);
        if (status == BP_OK && !out[i]) out[i] = bp_tensor_retain(e->value[g->output[i]]);
    }
    free(source);
    return status;
}

/* Checks that outputs do not overlap: two results in one memory would be undefined. */
static enum bp_status exec_check_outputs(const char *call, struct bp_tensor *const *out,
                                         size_t n_out)
{
    for (size_t i = 0; i < n_out; i++) {
        if (out[i] && !bp_tensor_is(out[i]))
            return bp_error(BP_ERR_INVALID, "%s: output %zu: expected NULL or a tensor", call, i);
        for (size_t j = 0; out[i] && j < i; j++)
            if (out[j] && bp_tensors_overlap(out[i], out[j]))
                return bp_error(BP_ERR_INVALID, "%s: outputs %zu and %zu overlap in memory", call,
                                j, i);
    }
    return BP_OK;
}

enum bp_status bp_graph_check(const char *call, const struct bp_graph *graph,
                              struct bp_tensor *const *in, size_t n_in,
                              struct bp_tensor *const *out, size_t n_out)
{
    if (n_in != graph->n_input || n_out != graph->n_output)
        return bp_error(BP_ERR_INVALID,
                        "%s: %zu inputs and %zu outputs given, the graph has %u and %u", call, n_in,
                        n_out, graph->n_input, graph->n_output);
    if ((n_in && !in) || (n_out && !out))
        return bp_error(BP_ERR_INVALID, "%s: in or out is NULL", call);
    TRY(exec_check_outputs(call, out, n_out));
    for (uint32_t i = 0; i < n_in; i++) TRY(check_input(call, graph, i, in[i]));
    return BP_OK;
}

enum bp_status bp_graph_execute(const struct bp_graph *graph, struct bp_stream *stream,
                                struct bp_tensor *const *in, struct bp_tensor **out)
{
    struct execution e = {.graph = graph, .stream = stream};
    enum bp_status status;

    e.value = calloc(graph->n_value + 1, sizeof *e.value);
    e.last = calloc(graph->n_value + 1, sizeof *e.last);
    status = e.value && e.last ? BP_OK : bp_error(BP_ERR_MEMORY, "bp_graph_run: no memory");
    if (status == BP_OK) {
        find_last_uses(&e);
        exec_take_inputs(&e, in);
        take_given(&e, out);
        status = graph_run_nodes(&e);
    }
    if (status == BP_OK) status = give_outputs(&e, out);
    for (uint32_t v = 0; e.value && v < graph->n_value; v++) bp_tensor_destroy(e.value[v]);
    free(e.value);
    free(e.last);
    return status;
}

enum bp_status bp_graph_run(struct bp_graph *graph, struct bp_stream *stream,
                            struct bp_tensor *const *in, size_t n_in, struct bp_tensor **out,
                            size_t n_out)
{
    enum bp_status status;
    uint64_t began;

    if (!bp_graph_is(graph)) return bp_not_a("graph");
    if (!bp_stream_is(stream)) return bp_not_a("stream");
    TRY(bp_graph_check("bp_graph_run", graph, in, n_in, out, n_out));
    if (bp_stream_is_cancelled(stream)) return bp_stream_check_calls(stream);
    began = bp_profile_begin();
    status = bp_graph_execute(graph, stream, in, out);
    if (began)
        bp_device_profile_put(stream->device, stream->timeline, BP_PROFILE_RUN, "graph", began);
    return status;
}
