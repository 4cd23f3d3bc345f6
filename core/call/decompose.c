/* SPDX-License-Identifier: Apache-2.0 */
/* decompose.c: lists the operators into which a call decomposes, without a device. */
#include "../graph/graph.h"

#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 16 }; /* nested decompositions: more are a cycle */

struct listing {
    bp_part_visitor *visitor;
    void *ctx;
    uint32_t depth;
};

static bool decompose_visit(const struct listing *l, const struct bp_opdef *row,
                            const uint32_t *dtype, uint32_t bound)
{
    struct bp_part part = {.size = sizeof part, .op = &row->info, .bound = bound};

    memcpy(part.dtype, dtype, sizeof part.dtype);
    return l->visitor(l->ctx, &part);
}

/* Reports the copy of a result that is no new value: it already exists as another tensor. */
static void visit_copy(const struct listing *l, uint32_t dtype)
{
    uint32_t types[BP_VAR_COUNT] = {[BP_VAR_T] = dtype};

    decompose_visit(l, &bp_opdef[BP_ROW_assign], types, 1 << BP_VAR_T);
}

static enum bp_status list_invocation(struct listing *l, const struct bp_invocation *inv,
                                      uint32_t own);

/* Returns the bits of the node's outputs that are results of the decomposition and tensors of the
 * call. */
static uint32_t own_of(const struct bp_node *node, const struct bp_invocation *outer, uint32_t own,
                       const uint32_t *result)
{
    uint32_t bits = 0;

    for (uint32_t i = 0; i < node->n_out && i < 32; i++)
        for (uint32_t k = 0; k < outer->n_out; k++)
            if (own >> k & 1 && result[k] == node->out[i]) bits |= 1u << i;
    return bits;
}

/* One level of a decomposition. at: the type of each value as execution would store it, with the
 * strides of views. */
struct level {
    const struct bp_graph *graph;
    struct bp_typed_view *at;
};

static void invocation_of(const struct level *v, const struct bp_node *node,
                          struct bp_invocation *out_inv)
{
    bp_node_invocation(v->graph, node, NULL, out_inv);
    for (uint32_t i = 0; i < node->n_in; i++)
        out_inv->in[i] = node->in[i] == BP_NO_VALUE ? NULL : &v->at[node->in[i]].view;
}

/* Infers the results of a view like plan_view does: if the strides allow no view, a copy is
 * needed. */
static enum bp_status list_view(struct listing *l, struct level *v, const struct bp_node *node,
                                struct bp_invocation *inv)
{
    uint32_t share = inv->in_at[inv->row->info.out[0].share];
    struct bp_typed_view dense;

    inv->view_copies = false;
    TRY(inv->row->infer(inv));
    if (inv->view_copies) {
        visit_copy(l, inv->in[share]->dtype);
        bp_typed_view_init(&dense, &v->graph->value[node->in[share]].type->view);
        inv->in[share] = &dense.view;
        TRY(inv->row->infer(inv));
    }
    for (uint32_t i = 0; i < node->n_out; i++) {
        struct bp_typed_view *out = node->out[i] == BP_NO_VALUE ? NULL : &v->at[node->out[i]];
        if (out) memcpy(out->stride, inv->view_stride, sizeof out->stride);
        if (out && !bp_strides_are_contiguous(out->view.rank, out->shape, out->stride))
            out->view.flags |= BP_VIEW_STRIDED;
    }
    return BP_OK;
}

/* Lists one node of a decomposition. own: bit of each output that is a tensor of the call. */
static enum bp_status list_node(struct listing *l, struct level *v, const struct bp_node *node,
                                uint32_t own)
{
    bool further = decompose_visit(l, node->row, node->dtype, node->bound) && node->row->decompose;
    struct bp_invocation *inv;
    enum bp_status status;

    if (!further && !node->row->is_view) return BP_OK;
    inv = malloc(sizeof *inv);
    if (!inv)
        return bp_error(BP_ERR_MEMORY, "%s: no memory to decompose it", node->row->info.name);
    invocation_of(v, node, inv);
    status = node->row->is_view ? list_view(l, v, node, inv) : list_invocation(l, inv, own);
    free(inv);
    return status;
}

/* Reports copies for results that are an input of the decomposition or an earlier result, and for
 * tensors of the call that would be views. */
static void list_copies(const struct listing *l, const struct bp_invocation *inv,
                        const struct bp_graph *graph, const uint32_t *result, uint32_t own)
{
    uint32_t want = bp_wants_flat(inv->row, inv->want, inv->n_out);

    for (uint32_t i = 0; i < inv->n_out; i++) {
        const struct bp_value *v;
        bool copied;
        if (!(want >> i & 1)) continue;
        v = &graph->value[result[i]];
        copied = v->kind != BP_VALUE_RESULT;
        if (!copied && own >> i & 1) copied = graph->node[v->node].row->is_view;
        for (uint32_t k = 0; k < i; k++) copied |= want >> k & 1 && result[k] == result[i];
        if (copied) visit_copy(l, v->type->view.dtype);
    }
}

static enum bp_status list_graph(struct listing *l, const struct bp_invocation *inv,
                                 const struct bp_graph *graph, const uint32_t *result, uint32_t own)
{
    struct level v = {graph, calloc(graph->n_value + 1, sizeof *v.at)};
    enum bp_status status = BP_OK;

    if (!v.at)
        return bp_error(BP_ERR_MEMORY, "%s: no memory to decompose it", inv->row->info.name);
    for (uint32_t i = 0; i < graph->n_value; i++)
        bp_typed_view_init(&v.at[i], &graph->value[i].type->view);
    for (uint32_t i = 0, input = 0; i < inv->n_in; i++)
        if (inv->in[i]) bp_typed_view_init(&v.at[graph->input[input++]], inv->in[i]);
    for (uint32_t n = 0; n < graph->n_node && status == BP_OK; n++)
        status = list_node(l, &v, &graph->node[n], own_of(&graph->node[n], inv, own, result));
    if (status == BP_OK) list_copies(l, inv, graph, result, own);
    free(v.at);
    return status;
}

/* Lists the decomposition of an invocation. own: bit of each output that is a tensor of the call
 * itself. */
static enum bp_status list_invocation(struct listing *l, const struct bp_invocation *inv,
                                      uint32_t own)
{
    uint32_t result[BP_PORT_MAX];
    struct bp_graph *graph;
    enum bp_status status;

    if (l->depth == DEPTH_MAX)
        return bp_error(BP_ERR_INTERNAL, "%s: its decomposition leads back to itself",
                        inv->row->info.name);
    TRY(bp_graph_make(&graph));
    status = bp_graph_trace_decomposed(graph, inv->row, inv->attrs, inv->in, inv->n_in,
                                       bp_wants_flat(inv->row, inv->want, inv->n_out), result);
    l->depth++;
    if (status == BP_OK) status = list_graph(l, inv, graph, result, own);
    l->depth--;
    bp_graph_release(graph);
    return status;
}

/* Checks that symbolic inputs are values of this graph. The graph is not changed, and real tensors
 * are not added to it. */
static enum bp_status check_values(const struct bp_graph *graph, const struct bp_invocation *inv,
                                   const struct bp_call *call)
{
    struct bp_tensor *flat[BP_FLAT_MAX];

    bp_invocation_flatten(inv, call, flat);
    for (uint32_t i = 0; i < inv->n_in; i++)
        if (flat[i] && bp_symbol_is(flat[i]) && flat[i]->graph != graph)
            return bp_error(BP_ERR_INVALID, "%s: an input is a value of another graph",
                            inv->row->info.name);
    return BP_OK;
}

enum bp_status bp_graph_decompose(struct bp_graph *graph, const struct bp_call *call,
                                  const uint8_t *want, size_t n_want, bp_part_visitor *visitor,
                                  void *ctx)
{
    struct listing l = {visitor, ctx, 0};
    const struct bp_opdef *row;
    struct bp_invocation inv;
    enum bp_status status;

    if (!bp_graph_is(graph)) return bp_not_a("graph");
    if (!visitor) return bp_error(BP_ERR_INVALID, "bp_graph_decompose: visitor is NULL");
    TRY(bp_call_check(call));
    row = bp_opdef_find(call->op);
    if (row && !row->decompose)
        return bp_error(BP_ERR_INVALID, "%s is not defined in other operators", row->info.name);
    if (row) TRY(bp_host_refuse(row, call->in, call->n_in));
    TRY(bp_invocation_init(&inv, NULL, graph, call, want || n_want ? want : bp_want_all, n_want));
    status = check_values(graph, &inv, call);
    if (status == BP_OK)
        status = list_invocation(&l, &inv, bp_wants_flat(inv.row, inv.want, inv.n_out));
    bp_invocation_finish(&inv);
    return status;
}
