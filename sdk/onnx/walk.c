/* SPDX-License-Identifier: Apache-2.0 */
/* walk.c: runs or records the nodes of a body, one after the other. */
#include "row.h"
#include "resolve.h"
#include <stdlib.h>
#include <string.h>

static bool is_symbolic(const struct onnx_value *v)
{
    if (!v) return false;
    if (v->symbolic) return true;
    for (size_t i = 0; i < v->n_item; i++)
        if (is_symbolic(v->item[i])) return true;
    return false;
}

bool onnx_is_random(const struct onnx_row *row)
{
    const struct bp_opinfo *op = row->op ? bp_opinfo_find(row->op) : NULL;

    return op && op->flags & BP_OP_RANDOM;
}

/* While a graph is recorded, a node that does not depend on the model's inputs is run
 * immediately. */
static bool is_recorded(const struct onnx_run *run, const struct onnx_node *node)
{
    if (!run->graph) return false;
    if (onnx_is_random(node->row)) return true;
    for (uint32_t i = 0; i < node->n_in; i++)
        if (node->in[i] != ONNX_NO_SLOT && is_symbolic(run->slot[node->in[i]])) return true;
    return false;
}

void onnx_set(struct onnx_run *run, uint32_t slot, struct onnx_value *value)
{
    if (slot == ONNX_NO_SLOT) {
        onnx_value_release(value);
        return;
    }
    onnx_value_release(run->slot[slot]);
    run->slot[slot] = value;
}

void onnx_forget(struct onnx_run *run, uint32_t slot)
{
    if (slot != ONNX_NO_SLOT && !run->model->constant[slot]) onnx_set(run, slot, NULL);
}

/* Names symbolic outputs for messages and traces. If another value has the name already, it keeps
 * the name. */
static void name_outputs(const struct onnx_call *c)
{
    for (uint32_t i = 0; i < c->node->n_out; i++)
        if (c->out[i] && c->out[i]->symbolic)
            (void)bp_graph_name(c->run->graph, c->out[i]->tensor, c->node->proto->output[i]);
}

/* Whether the shape of a value, or of one of its elements, depends on data. */
static bool is_of_data(const struct onnx_value *v)
{
    if (!v) return false;
    if (v->of_data) return true;
    for (size_t i = 0; i < v->n_item; i++)
        if (is_of_data(v->item[i])) return true;
    return false;
}

/* Refuses to record a node that reads a value whose extents are not known yet: the node could take
 * the upper bounds for the extents. The model is then run node by node. */
static enum bp_status check_extents(const struct onnx_run *run, const struct onnx_node *node)
{
    if (!run->graph) return BP_OK;
    for (uint32_t i = 0; i < node->n_in; i++)
        if (node->in[i] != ONNX_NO_SLOT && is_of_data(run->slot[node->in[i]]))
            return onnx_error(BP_ERR_UNSUPPORTED, "the extents of input %u depend on data", i);
    return BP_OK;
}

static uint32_t walk_count_nodes(const struct onnx_run *run)
{
    struct bp_graph_info info = {.size = sizeof info};

    return run->graph && !bp_graph_get_info(run->graph, &info) ? info.nodes : 0;
}

/* Marks the outputs of a recorded node if one of its calls, from number `first` of the graph on,
 * has extents that depend on data. */
static void mark_outputs(const struct onnx_call *c, uint32_t first)
{
    uint32_t end = walk_count_nodes(c->run);
    bool of_data = false;

    for (uint32_t n = first; n < end && !of_data; n++) {
        struct bp_node_info info = {.size = sizeof info};
        const struct bp_opinfo *op = NULL;
        if (!bp_graph_node(c->run->graph, n, &info)) op = bp_opinfo_find(info.op);
        of_data = op && op->flags & BP_OP_BOUND;
    }
    for (uint32_t i = 0; of_data && i < c->node->n_out; i++)
        if (c->out[i] && c->out[i]->symbolic) c->out[i]->of_data = true;
}

/* The outputs of a node depend on the inputs of the model that its own inputs depend on. */
static void add_origins(const struct onnx_call *c)
{
    uint64_t inputs = 0;

    for (uint32_t i = 0; i < c->node->n_in; i++) inputs |= onnx_origin(onnx_in_value(c, i));
    for (uint32_t i = 0; i < c->node->n_out; i++) onnx_add_origin(c->out[i], inputs);
}

static enum bp_status walk_check_outputs(const struct onnx_call *c)
{
    for (uint32_t i = 0; i < c->node->n_out; i++)
        if (c->node->out[i] != ONNX_NO_SLOT && !c->out[i])
            return onnx_error(BP_ERR_UNSUPPORTED, "output %u is not made", i);
    return BP_OK;
}

void onnx_by_host(const struct onnx_call *c)
{
    if (!c->run->n_host++) c->run->host = c->node;
}

/* Records the numbers of a Range as a value of the graph, although they are known. */
static enum bp_status walk_keep_range(const struct onnx_call *c)
{
    struct bp_tensor *t = NULL;
    struct onnx_value *v;

    if (c->symbolic || !c->run->graph || strcmp(c->node->proto->op_type, "Range")) return BP_OK;
    TRY(bp_op_assign(bp_graph_scope(c->run->graph), c->out[0]->tensor, &t));
    TRY(onnx_value_tensor(c->run, t, true, &v));
    onnx_value_release(c->out[0]);
    c->out[0] = v;
    return BP_OK;
}

static enum bp_status walk_dispatch_node(struct onnx_run *run, const struct onnx_node *node)
{
    struct onnx_value *few[4] = {NULL}; /* for most nodes */
    struct onnx_call c = {.run = run, .node = node, .symbolic = is_recorded(run, node)};
    uint32_t first = walk_count_nodes(run);
    enum bp_status status;

    TRY(onnx_check_end(run));
    TRY(check_extents(run, node));
    if (!c.symbolic && run->model->options.run_bytes && run->slot != run->model->constant)
        TRY(onnx_check_alive(run, onnx_node_bytes(run, node)));
    c.scope = c.symbolic ? bp_graph_scope(run->graph) : bp_stream_scope(run->stream);
    c.out = node->n_out < 4 ? few : calloc(node->n_out + 1, sizeof *c.out);
    if (!c.out) return onnx_no_memory();
    status = (node->row->emit ? node->row->emit : onnx_emit_map)(&c);
    if (status == BP_OK) status = walk_check_outputs(&c);
    if (status == BP_OK && run->keeps_ranges) status = walk_keep_range(&c);
    if (status == BP_OK && run->graph) {
        mark_outputs(&c, first);
        add_origins(&c);
        name_outputs(&c);
    }
    for (uint32_t i = 0; i < node->n_out; i++) {
        if (status == BP_OK) onnx_set(run, node->out[i], c.out[i]);
        else onnx_value_release(c.out[i]);
    }
    if (c.out != few) free(c.out);
    if (status == BP_OK && c.symbolic) status = onnx_check_alive(run, 0);
    return status;
}

/* The walk of this thread that has begun last; the others of the thread follow by `outer`. */
static _Thread_local const struct onnx_run *running;

enum bp_status onnx_walk_node(struct onnx_run *run, const struct onnx_node *node)
{
    const struct onnx_node *outer = run->at;
    enum bp_status status;

    if (!outer) {
        run->outer = running;
        running = run;
    }
    run->at = node;
    status = walk_dispatch_node(run, node);
    run->at = outer;
    if (!outer) running = run->outer;
    if (!status) return BP_OK;
    return onnx_node_error(status, node, "%s", bp_error_message());
}

enum bp_status onnx_walk(struct onnx_run *run, const struct onnx_body *body)
{
    for (uint32_t n = 0; n < body->n_node; n++) {
        const struct onnx_node *node = &body->node[n];
        bool is_skipped = run->skip && body == &run->model->body && run->skip[n];
        if (!node->is_folded && !is_skipped) TRY(onnx_walk_node(run, node));
        for (uint32_t i = 0; i < node->n_dead; i++) onnx_forget(run, node->dead[i]);
    }
    return BP_OK;
}

const char *bp_model_node(struct bp_model *model)
{
    for (const struct onnx_run *run = running; run; run = run->outer)
        if (run->model == model) return run->at->name;
    return "";
}
