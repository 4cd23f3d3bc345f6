/* SPDX-License-Identifier: Apache-2.0 */
/* lower.c: compiles a graph to a schedule: prepares each node for the types that its inputs will
 * have, and lists the launches of the prepared calls. */
#include "lower.h"

#include <backplane/ops.h>

#include <stdlib.h>
#include <string.h>

/* A constant's type has its address and the strides of its tensor: the graph keeps the tensor. */
static void value_set_constant(struct bp_scheduled_value *value, uint32_t number,
                               const struct bp_tensor *t)
{
    value->source = BP_SOURCE_CONSTANT;
    value->index = number;
    value->type.view = t->view;
    memcpy(value->type.shape, t->shape, sizeof t->shape);
    memcpy(value->type.stride, t->stride, sizeof t->stride);
    value->type.view.shape = value->type.shape;
    value->type.view.stride = value->type.stride;
}

static enum bp_status lower_graph_values(struct bp_lowering *l)
{
    struct bp_schedule *s = l->schedule;
    const struct bp_graph *g = s->graph;
    uint32_t number;

    for (uint32_t v = 0; v < g->n_value; v++) {
        TRY(bp_lower_add_value(l, &g->value[v].type->view, &number));
        if (g->value[v].kind == BP_VALUE_CONSTANT)
            value_set_constant(s->value[v], v, g->value[v].constant);
    }
    for (uint32_t i = 0; i < g->n_input; i++) {
        s->value[g->input[i]]->source = BP_SOURCE_INPUT;
        s->value[g->input[i]]->index = i;
    }
    return BP_OK;
}

static struct bp_constant value_constant(const struct bp_schedule *s, uint32_t number)
{
    const struct bp_scheduled_value *value = s->value[number], *root = s->value[value->root];
    const struct bp_tensor *t;

    if (!(value->type.view.flags & BP_VIEW_CONSTANT)) return (struct bp_constant){0, 0};
    t = s->graph->value[root->index].constant;
    return (struct bp_constant){t->buffer->id, t->offset + value->offset};
}

/* ---- nodes ---- */

static void inv_set_inputs(struct bp_lowering *l, const struct bp_node *node)
{
    for (uint32_t i = 0; i < node->n_in; i++) {
        if (node->in[i] == BP_NO_VALUE) continue;
        l->inv->in[i] = &l->schedule->value[node->in[i]]->type.view;
        l->inv->constant[i] = value_constant(l->schedule, node->in[i]);
    }
}

/* Adds a dense copy of a value. */
static enum bp_status lower_copy(struct bp_lowering *l, uint32_t from, uint32_t *out_copy)
{
    const struct bp_view *x = &l->schedule->value[from]->type.view;
    struct bp_type type = {.dtype = x->dtype, .rank = x->rank};
    struct bp_invocation *inv = calloc(1, sizeof *inv);
    struct bp_prepared *p = NULL;
    struct bp_typed_view dense;
    enum bp_status status;

    if (!inv) return bp_lower_no_memory();
    memcpy(type.shape, x->shape, x->rank * sizeof *x->shape);
    bp_typed_view_dense(&dense, &type);
    inv->row = &bp_opdef[BP_ROW_assign];
    inv->device = l->schedule->device;
    inv->in_at[1] = inv->out_at[1] = 1;
    inv->n_in = inv->n_out = inv->want = 1;
    inv->in[0] = x;
    inv->out[0] = type;
    inv->given[0] = &dense.view;
    inv->dtype[BP_VAR_T] = x->dtype;
    inv->bound = 1 << BP_VAR_T;
    status = bp_lower_add_value(l, &dense.view, out_copy);
    if (status == BP_OK) status = bp_prepared_make(inv, &p);
    if (status == BP_OK) status = bp_lower_add_call(l, p, &from, out_copy);
    if (p) bp_prepared_release(p);
    free(inv);
    return status;
}

/* The outputs of a view operator lie in the memory of an input, or of a dense copy of it if the
 * input's strides do not allow the views. */
static enum bp_status lower_view(struct bp_lowering *l, const struct bp_node *node)
{
    struct bp_invocation *inv = l->inv;
    struct bp_schedule *s = l->schedule;
    uint32_t share = inv->in_at[inv->row->info.out[0].share], base = node->in[share];

    TRY(inv->row->infer(inv));
    if (inv->view_copies) {
        TRY(lower_copy(l, base, &base));
        inv->in[share] = &s->value[base]->type.view;
        inv->view_copies = false;
        TRY(inv->row->infer(inv));
    }
    for (uint32_t i = 0; i < node->n_out; i++) {
        struct bp_scheduled_value *value;
        if (node->out[i] == BP_NO_VALUE) continue;
        value = s->value[node->out[i]];
        memcpy(value->type.stride, inv->view_stride, sizeof value->type.stride);
        value->type.view.flags = bp_strides_are_contiguous(value->type.view.rank, value->type.shape,
                                                           value->type.stride)
                                     ? 0
                                     : BP_VIEW_STRIDED;
        value->type.sig = bp_tensor_signature(s->device, &value->type.view);
        bp_lower_set_view(s, node->out[i], base,
                   (uint64_t)inv->view_offset[i] * (bp_dtype_bits(value->type.view.dtype) / 8));
    }
    return BP_OK;
}

/* An output that updates an input lies in that input's memory, whether it is wanted or not. */
static void take_updates(struct bp_lowering *l, const struct bp_node *node, uint32_t *out)
{
    struct bp_invocation *inv = l->inv;

    for (uint32_t i = 0; inv->row->updates && i < inv->row->info.n_out; i++) {
        const struct bp_port *port = &inv->row->info.out[i];
        uint32_t input;
        if (port->kind != BP_PORT_UPDATE || !bp_invocation_in(inv, (uint32_t)port->share)) continue;
        input = node->in[node->in_at[port->share]];
        inv->given[i] = bp_invocation_in(inv, (uint32_t)port->share);
        inv->want |= 1u << i;
        if (out[i] != BP_NO_VALUE) {
            bp_lower_set_type(l->schedule, l->schedule->value[out[i]], inv->given[i]);
            bp_lower_set_view(l->schedule, out[i], input, 0);
        }
        out[i] = input;
    }
}

/* A call that updates memory that it also reads, or a view whose elements share memory, is an
 * error, which a run node by node reports. */
static enum bp_status check_updates(const struct bp_lowering *l, const struct bp_node *node,
                                    const uint32_t *out)
{
    struct bp_scheduled_value **value = l->schedule->value;
    const struct bp_opinfo *op = &node->row->info;

    for (uint32_t o = 0; node->row->updates && o < op->n_out; o++) {
        uint32_t input = op->out[o].kind == BP_PORT_UPDATE ? node->in_at[op->out[o].share] : 0;
        if (op->out[o].kind != BP_PORT_UPDATE || out[o] == BP_NO_VALUE) continue;
        if (bp_view_overlaps_itself(&value[out[o]]->type.view))
            return bp_error(BP_ERR_UNSUPPORTED, "%s updates a view that overlaps itself", op->name);
        for (uint32_t i = 0; i < node->n_in; i++)
            if (i != input && node->in[i] != BP_NO_VALUE &&
                value[node->in[i]]->root == value[out[o]]->root)
                return bp_error(BP_ERR_UNSUPPORTED, "%s reads memory that it updates", op->name);
    }
    return BP_OK;
}

static enum bp_status lower_call(struct bp_lowering *l, const struct bp_node *node)
{
    struct bp_schedule *s = l->schedule;
    uint32_t out[BP_FLAT_MAX];
    struct bp_prepared *p;
    enum bp_status status;
    void *attrs = NULL;

    memcpy(out, node->out, node->n_out * sizeof *out);
    take_updates(l, node, out);
    TRY(check_updates(l, node, out));
    if (node->attrs) TRY(bp_attrs_copy(&node->row->info, node->attrs, &attrs));
    l->inv->attrs = attrs;
    status = bp_prepared_make(l->inv, &p);
    if (status) {
        free(attrs);
        return status;
    }
    for (uint32_t i = 0; i < node->n_out; i++)
        if (node->out[i] != BP_NO_VALUE && out[i] == node->out[i])
            bp_lower_set_type(s, s->value[out[i]], &p->type[p->n_in + i].view);
    status = bp_lower_add_call(l, p, node->in, out);
    bp_prepared_release(p);
    return status;
}

static enum bp_status lower_node(struct bp_lowering *l)
{
    const struct bp_node *node = &l->schedule->graph->node[l->node];

    if (node->row->bound)
        return bp_error(BP_ERR_UNSUPPORTED, "the extents of %s depend on data",
                        node->row->info.name);
    bp_node_invocation(l->schedule->graph, node, l->schedule->device, l->inv);
    l->inv->kernel = node->kernel;
    inv_set_inputs(l, node);
    return node->row->is_view ? lower_view(l, node) : lower_call(l, node);
}

/* ---- results ---- */

/* Each root that outputs of the graph lie in gets memory that a run returns. */
static enum bp_status find_results(struct bp_schedule *s)
{
    const struct bp_graph *g = s->graph;

    s->result = calloc(g->n_output + 1, sizeof *s->result);
    if (!s->result) return bp_lower_no_memory();
    for (uint32_t o = 0; o < g->n_output; o++) {
        uint32_t root = s->value[g->output[o]]->root;
        if (s->value[root]->source != BP_SOURCE_ARENA) continue;
        s->value[root]->source = BP_SOURCE_RESULT;
        s->value[root]->index = s->n_result;
        s->result[s->n_result++] = root;
    }
    return BP_OK;
}

static enum bp_status list_roots(struct bp_schedule *s)
{
    uint32_t n = s->graph->n_value;

    s->update = calloc(n + 1, sizeof *s->update);
    s->constant = calloc(n + 1, sizeof *s->constant);
    if (!s->update || !s->constant) return bp_lower_no_memory();
    for (uint32_t v = 0; v < n; v++) {
        const struct bp_scheduled_value *value = s->value[v];
        if (value->source == BP_SOURCE_CONSTANT) s->constant[s->n_constant++] = v;
        if (value->root == v && value->written &&
            (value->source == BP_SOURCE_CONSTANT || value->source == BP_SOURCE_INPUT))
            s->update[s->n_update++] = v;
    }
    return BP_OK;
}

static enum bp_status lower_graph(struct bp_lowering *l)
{
    const struct bp_graph *g = l->schedule->graph;

    TRY(lower_graph_values(l));
    for (l->node = 0; l->node < g->n_node; l->node++) {
        enum bp_status status = lower_node(l);
        if (status)
            return bp_error_more(status, "node %s: %s", g->node[l->node].name, bp_error_message());
    }
    TRY(find_results(l->schedule));
    TRY(list_roots(l->schedule));
    return bp_schedule_plan_memory(l->schedule);
}

static bool schedule_shrink(void *ctx)
{
    return bp_context_free_idle(ctx);
}

/* Idle contexts only save time: the allocator may take their memory. */
static void schedule_register(struct bp_schedule *s)
{
    s->shrinker = (struct bp_shrinker){schedule_shrink, s, NULL};
    bp_shrinker_register(s->device, &s->shrinker);
}

enum bp_status bp_schedule_create(const struct bp_graph *graph, struct bp_device *device,
                                  struct bp_schedule **out_schedule)
{
    struct bp_lowering l = {.schedule = calloc(1, sizeof *l.schedule),
                            .inv = calloc(1, sizeof *l.inv)};
    enum bp_status status = bp_lower_no_memory();

    if (l.schedule && l.inv) {
        l.schedule->graph = graph;
        l.schedule->device = device;
        pthread_mutex_init(&l.schedule->lock, NULL);
        status = lower_graph(&l);
        if (status) {
            bp_schedule_destroy(l.schedule);
        } else {
            schedule_register(l.schedule);
            *out_schedule = l.schedule;
        }
    } else {
        free(l.schedule);
    }
    free(l.inv);
    return status;
}
