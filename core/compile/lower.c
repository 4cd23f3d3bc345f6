/* SPDX-License-Identifier: Apache-2.0 */
/* lower.c: lowers the compiler's representation (IR) to a schedule: prepares each node for the
 * types that its inputs will have, and lists the launches of the prepared calls. */
#include "lower.h"

#include "../memory/source.h"
#include "cancel.h"
#include "engine.h"
#include "folded.h"
#include "templates.h"
#include "tuner.h"

#include "../call/kernel_layout.h"
#include "../call/plan.h"

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

/* Makes room for the numbers of all values of the IR. */
static enum bp_status lower_room(struct bp_lowering *l)
{
    uint32_t n = l->schedule->ir->room_value;
    uint32_t *number, *last_read;

    if (n <= l->room_number) return BP_OK;
    number = realloc(l->number, n * sizeof *number);
    if (number) l->number = number;
    last_read = realloc(l->last_read, n * sizeof *last_read);
    if (last_read) l->last_read = last_read;
    if (!number || !last_read) return bp_lower_no_memory();
    for (uint32_t v = l->room_number; v < n; v++) number[v] = last_read[v] = BP_NO_VALUE;
    l->room_number = n;
    return BP_OK;
}

/* A value in a layout of the plugin has the bytes that the plugin says. */
static enum bp_status value_set_layout(const struct bp_lowering *l,
                                       struct bp_scheduled_value *value)
{
    struct bp_typed_view *type = &value->type;

    if (!type->view.layout) return BP_OK;
    if (bp_layout_bytes(l->schedule->device, &type->view, &value->bytes))
        return bp_error(BP_ERR_UNSUPPORTED, "a value cannot be in its layout");
    type->bytes = value->bytes;
    return BP_OK;
}

/* Returns the schedule's value for value v of the IR, which is added at the first use. */
static enum bp_status lower_value(struct bp_lowering *l, uint32_t v, uint32_t *out_number)
{
    const struct bp_ir_value *value = &l->schedule->ir->value[v];

    if (l->number[v] == BP_NO_VALUE) {
        TRY(bp_lower_add_value(l, &value->type->view, &l->number[v]));
        if (value->constant)
            value_set_constant(l->schedule->value[l->number[v]], v, value->constant);
        TRY(value_set_layout(l, l->schedule->value[l->number[v]]));
        if (value->kind == BP_VALUE_SHAPE)
            l->schedule->value[l->number[v]]->source = BP_SOURCE_SHAPE;
    }
    *out_number = l->number[v];
    return BP_OK;
}

/* Fills the lists of the node's values. */
static enum bp_status lower_operands(struct bp_lowering *l, const struct bp_node *node)
{
    for (uint32_t i = 0; i < node->n_in; i++) {
        l->in[i] = BP_NO_VALUE;
        if (node->in[i] != BP_NO_VALUE) TRY(lower_value(l, node->in[i], &l->in[i]));
    }
    for (uint32_t i = 0; i < node->n_out; i++) {
        l->out[i] = BP_NO_VALUE;
        if (node->out[i] != BP_NO_VALUE) TRY(lower_value(l, node->out[i], &l->out[i]));
    }
    return BP_OK;
}

static enum bp_status lower_values(struct bp_lowering *l)
{
    struct bp_schedule *s = l->schedule;
    const struct bp_ir *ir = s->ir;
    uint32_t number;

    TRY(lower_room(l));
    s->input = calloc(ir->n_input + 1, sizeof *s->input);
    if (!s->input) return bp_lower_no_memory();
    for (uint32_t i = 0; i < ir->n_input; i++) {
        TRY(lower_value(l, ir->input[i], &s->input[i]));
        s->value[s->input[i]]->source = BP_SOURCE_INPUT;
        s->value[s->input[i]]->index = i;
    }
    for (uint32_t v = 0; v < ir->n_value; v++)
        if (ir->value[v].constant && ir->value[v].uses) TRY(lower_value(l, v, &number));
    return BP_OK;
}

static struct bp_constant value_constant(const struct bp_schedule *s, uint32_t number)
{
    const struct bp_scheduled_value *value = s->value[number], *root = s->value[value->root];
    const struct bp_tensor *t;

    if (!(value->type.view.flags & BP_VIEW_CONSTANT)) return (struct bp_constant){0, 0};
    t = s->ir->value[root->index].constant;
    return (struct bp_constant){t->buffer->id, t->offset + value->offset};
}

/* ---- nodes ---- */

static void inv_set_inputs(struct bp_lowering *l, const struct bp_node *node)
{
    for (uint32_t i = 0; i < node->n_in; i++) {
        if (l->in[i] == BP_NO_VALUE) continue;
        l->inv->in[i] = &l->schedule->value[l->in[i]]->type.view;
        l->inv->constant[i] = value_constant(l->schedule, l->in[i]);
    }
}

/* Adds a dense copy of a value. */
static enum bp_status lower_copy(struct bp_lowering *l, uint32_t from, uint32_t *out_copy)
{
    const struct bp_view *x = &l->schedule->value[from]->type.view;
    struct bp_type type = {.dtype = x->dtype, .rank = x->rank};
    struct bp_typed_view dense;

    memcpy(type.shape, x->shape, x->rank * sizeof *x->shape);
    bp_typed_view_dense(&dense, &type);
    TRY(bp_lower_add_value(l, &dense.view, out_copy));
    return bp_lower_assign(l, from, *out_copy);
}

/* The outputs of a view operator lie in the memory of an input, or of a dense copy of it if the
 * input's strides do not allow the views. */
static enum bp_status lower_view(struct bp_lowering *l, const struct bp_node *node)
{
    struct bp_invocation *inv = l->inv;
    struct bp_schedule *s = l->schedule;
    uint32_t share = inv->in_at[inv->row->info.out[0].share], base = l->in[share];

    TRY(inv->row->infer(inv));
    if (inv->view_copies) {
        TRY(lower_copy(l, base, &base));
        inv->in[share] = &s->value[base]->type.view;
        inv->view_copies = false;
        TRY(inv->row->infer(inv));
    }
    for (uint32_t i = 0; i < node->n_out; i++) {
        struct bp_scheduled_value *value;
        if (l->out[i] == BP_NO_VALUE) continue;
        value = s->value[l->out[i]];
        memcpy(value->type.stride, inv->view_stride, sizeof value->type.stride);
        value->type.view.flags = bp_strides_are_contiguous(value->type.view.rank, value->type.shape,
                                                           value->type.stride)
                                     ? 0
                                     : BP_VIEW_STRIDED;
        value->type.sig = bp_tensor_signature(s->device, &value->type.view);
        bp_lower_set_view(
            s, l->out[i], base,
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
        input = l->in[node->in_at[port->share]];
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
            if (i != input && l->in[i] != BP_NO_VALUE &&
                value[l->in[i]]->root == value[out[o]]->root)
                return bp_error(BP_ERR_UNSUPPORTED, "%s reads memory that it updates", op->name);
    }
    return BP_OK;
}

/* Finds the last node that reads the memory of each root. Outputs of the graph are read at the
 * end. */
static void find_last_reads(struct bp_lowering *l)
{
    const struct bp_ir *ir = l->schedule->ir;

    for (uint32_t n = ir->first; n != BP_NO_VALUE; n = ir->node[n].next) {
        const struct bp_node *node = &ir->node[n].call;
        for (uint32_t i = 0; i < node->n_in; i++)
            if (node->in[i] != BP_NO_VALUE) l->last_read[ir->value[node->in[i]].root] = n;
    }
    for (uint32_t o = 0; o < ir->n_output; o++)
        l->last_read[ir->value[ir->output[o]].root] = BP_READ_BY_APP;
}

/* Places outputs in the memory of inputs that are not read later, where the kernel allows it. Only
 * calls of one launch are considered: the steps of a decomposition may read an input again. Nor are
 * other devices than inline ones: compilers of OpenCL for processors vectorise a loop only for
 * separate inputs and outputs (PoCL: relu, hard_swish and add of MobileNetV3 in place took ten
 * times as long). */
static void place_over_inputs(struct bp_lowering *l, const struct bp_node *node,
                              const struct bp_prepared *p, const uint32_t *out)
{
    if (p->n_step != 1 || p->step->in || p->step->fallback || p->step->transform ||
        !(p->step->kernel->flags & BP_KERNEL_IN_PLACE) || !l->schedule->device->is_inline)
        return;
    for (uint32_t i = 0; i < node->n_out; i++) {
        const struct bp_port *port =
            &node->row->info.out[bp_out_port(node->row, node->out_at, i)];
        if (out[i] == BP_NO_VALUE || port->kind == BP_PORT_UPDATE || port->share < 0) continue;
        for (uint32_t k = node->in_at[port->share]; k < node->in_at[port->share + 1]; k++) {
            if (l->in[k] == BP_NO_VALUE || !bp_lower_may_place(l, node, k, i, out)) continue;
            bp_lower_set_view(l->schedule, out[i], l->in[k], 0);
            break;
        }
    }
}

/* Notes the reads of a node that stands where the node `expanded` stood. */
static void extend_reads(struct bp_lowering *l, uint32_t n, uint32_t expanded, uint32_t first)
{
    const struct bp_ir *ir = l->schedule->ir;
    const struct bp_node *node = &ir->node[n].call;

    for (uint32_t i = 0; i < node->n_in; i++) {
        uint32_t *last;
        if (node->in[i] == BP_NO_VALUE) continue;
        last = &l->last_read[ir->value[node->in[i]].root];
        if (*last == expanded || *last == BP_NO_VALUE ||
            (*last >= first && *last != BP_READ_BY_APP))
            *last = n;
    }
}

/* Replaces the current node, a call that a pass made and that no kernel of the device runs, by the
 * nodes of its decomposition, which are lowered next. */
static enum bp_status lower_expansion(struct bp_lowering *l)
{
    struct bp_ir *ir = l->schedule->ir;
    uint32_t before = ir->node[l->node].previous, first = ir->n_node;
    bool forwards;

    if (ir->of)
        return bp_error(BP_ERR_UNSUPPORTED, "a template's call runs as other operators for other "
                        "extents");
    TRY(bp_ir_expand(ir, l->node, l->inv->in, &forwards));
    TRY(lower_room(l));
    l->next = before == BP_NO_VALUE ? ir->first : ir->node[before].next;
    for (uint32_t n = l->next; n != BP_NO_VALUE && n >= first; n = ir->node[n].next)
        extend_reads(l, n, l->node, first);
    if (forwards) {
        bp_ir_resolve(ir);
        find_last_reads(l);
    }
    return BP_OK;
}

/* A row that was measured goes before the one that a file names. */
static void choose_row(struct bp_lowering *l)
{
    bool measures = l->tuner && !bp_invocation_has_layouts(l->inv);
    const char *row = measures ? bp_tuner_choose(l->tuner, l->inv) : NULL;

    l->tuned = row != NULL;
    if (row) l->inv->prefer = row;
}

/* Ends the reads of constants that only this call reads, of which its plan has a copy. The
 * steps of other calls read them in more than one launch. */
static void end_reads(const struct bp_lowering *l, const struct bp_node *node,
                      const struct bp_prepared *p)
{
    struct bp_ir *ir = l->schedule->ir;

    if (p->n_step != 1 || p->step->in || p->step->kind || p->step->transform) return;
    for (uint32_t i = 0; i < node->n_in && i < 64; i++) {
        struct bp_ir_value *value;
        if (node->in[i] == BP_NO_VALUE || !(p->step->plan.unread >> i & 1)) continue;
        value = &ir->value[bp_ir_same(ir, node->in[i])];
        if (!value->folded && !value->sourced) continue;
        if (value->uses != 1 || value->returned || value->updated) continue;
        value->unread = true;
        if (value->folded) bp_folded_end_reads(value->constant);
        if (value->sourced) bp_source_end_reads(value->constant->buffer);
    }
}

/* Makes sure of the contents that launches read, which may have been freed for another program. */
static enum bp_status fill_constants(const struct bp_ir *ir)
{
    for (uint32_t v = 0; v < ir->n_value; v++)
        if (ir->value[v].sourced && ir->value[v].uses && !ir->value[v].unread)
            TRY(bp_source_fill(ir->value[v].constant->buffer));
    return BP_OK;
}

static enum bp_status lower_call(struct bp_lowering *l, const struct bp_node *node)
{
    struct bp_schedule *s = l->schedule;
    uint32_t out[BP_FLAT_MAX];
    struct bp_prepared *p;
    enum bp_status status;
    void *attrs = NULL;
    bool placed;

    memcpy(out, l->out, node->n_out * sizeof *out);
    take_updates(l, node, out);
    TRY(check_updates(l, node, out));
    if (node->attrs) TRY(bp_attrs_clone(&node->row->info, node->attrs, &attrs));
    l->inv->attrs = attrs;
    l->inv->whole = s->ir->node[l->node].made && node->row->decompose && !node->kernel;
    choose_row(l);
    status = bp_template_call(s->ir, l->node, l->inv, &p);
    if (status) {
        free(attrs);
        return l->inv->whole && bp_plan_is_dead_end(status) ? lower_expansion(l) : status;
    }
    if (l->inv->whole && (p->n_step != 1 || p->step->kind)) {
        bp_prepared_release(p);
        return lower_expansion(l);
    }
    status = bp_join_place(l, node, &p, &placed);
    for (uint32_t i = 0; i < node->n_out && !placed; i++)
        if (l->out[i] != BP_NO_VALUE && out[i] == l->out[i] &&
            !s->value[out[i]]->type.view.layout)
            bp_lower_set_type(s, s->value[out[i]], &p->type[p->n_in + i].view);
    if (!placed) place_over_inputs(l, node, p, out);
    if (status == BP_OK) status = bp_lower_add_call(l, p, l->in, out);
    if (status == BP_OK) end_reads(l, node, p);
    bp_prepared_release(p);
    return status;
}

static enum bp_status lower_node(struct bp_lowering *l)
{
    const struct bp_node *node = &l->schedule->ir->node[l->node].call;
    bool is_joined;

    if (node->row->bound)
        return bp_error(BP_ERR_UNSUPPORTED, "the extents of %s depend on data",
                        node->row->info.name);
    TRY(lower_operands(l, node));
    bp_ir_invocation(l->schedule->ir, node, l->inv);
    l->inv->kernel = node->kernel;
    l->inv->prefer = l->schedule->ir->node[l->node].prefer;
    inv_set_inputs(l, node);
    if (node->row->is_view) return lower_view(l, node);
    if (bp_engine_is_row(node->row)) return bp_lower_engine(l, node);
    TRY(bp_join_lower(l, node, &is_joined));
    return is_joined ? BP_OK : lower_call(l, node);
}

/* ---- results ---- */

/* Copies output o if it must be row-major and is not. */
static enum bp_status lower_output(struct bp_lowering *l, uint32_t o)
{
    const struct bp_ir *ir = l->schedule->ir;
    uint32_t v = ir->output[o], *out = &l->schedule->output[o];

    TRY(lower_value(l, v, out));
    if (!ir->dense || !ir->dense[o]) return BP_OK;
    if (!(l->schedule->value[*out]->type.view.flags & BP_VIEW_STRIDED)) return BP_OK;
    for (uint32_t k = 0; k < o; k++)
        if (ir->output[k] == v && ir->dense[k]) {
            *out = l->schedule->output[k];
            return BP_OK;
        }
    if (ir->value[v].kind == BP_VALUE_RESULT) l->node = ir->value[v].node; /* the copy's name */
    return lower_copy(l, *out, out);
}

/* Each root that outputs lie in gets memory that a run returns. */
static enum bp_status find_results(struct bp_lowering *l)
{
    struct bp_schedule *s = l->schedule;
    const struct bp_ir *ir = s->ir;

    s->result = calloc(ir->n_output + 1, sizeof *s->result);
    s->output = calloc(ir->n_output + 1, sizeof *s->output);
    if (!s->result || !s->output) return bp_lower_no_memory();
    for (uint32_t o = 0; o < ir->n_output; o++) {
        uint32_t root;
        TRY(lower_output(l, o));
        root = s->value[s->output[o]]->root;
        if (s->value[root]->source != BP_SOURCE_ARENA) continue;
        s->value[root]->source = BP_SOURCE_RESULT;
        s->value[root]->index = s->n_result;
        s->result[s->n_result++] = root;
    }
    return BP_OK;
}

static enum bp_status list_roots(struct bp_schedule *s)
{
    uint32_t n = s->n_value;

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

/* Counts for each constant the updated constants in its buffer. */
static void count_updates(struct bp_schedule *s)
{
    for (uint32_t i = 0; s->n_content && i < s->n_constant; i++) {
        struct bp_scheduled_value *value = s->value[s->constant[i]];
        const struct bp_buffer *buffer = s->ir->value[value->index].constant->buffer;
        for (uint32_t k = 0; k < s->n_update; k++) {
            const struct bp_scheduled_value *other = s->value[s->update[k]];
            value->n_update += other->source == BP_SOURCE_CONSTANT &&
                               s->ir->value[other->index].constant->buffer == buffer;
        }
    }
}

static enum bp_status lower_all(struct bp_lowering *l)
{
    const struct bp_ir *ir = l->schedule->ir;

    TRY(lower_values(l));
    find_last_reads(l);
    TRY(bp_joins_find(l));
    for (uint32_t n = ir->first; n != BP_NO_VALUE; n = l->next) {
        enum bp_status status;
        l->node = n;
        l->next = ir->node[n].next;
        TRY(bp_cancel_check(ir->cancel));
        status = lower_node(l);
        if (status)
            return bp_error_more(status, "node %s: %s", ir->node[n].call.name, bp_error_message());
    }
    TRY(find_results(l));
    TRY(list_roots(l->schedule));
    count_updates(l->schedule);
    TRY(fill_constants(ir));
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
    if (s->n_content) atomic_fetch_add(&s->device->n_writebacks, 1);
}

enum bp_status bp_schedule_create(struct bp_ir *ir, struct bp_tuner *tuner,
                                  struct bp_schedule **out_schedule)
{
    struct bp_lowering l = {.tuner = tuner,
                            .schedule = calloc(1, sizeof *l.schedule),
                            .inv = calloc(1, sizeof *l.inv)};
    enum bp_status status = bp_lower_no_memory();

    if (l.schedule && l.inv) {
        l.schedule->ir = ir;
        l.schedule->device = ir->device;
        atomic_init(&l.schedule->refs, 1);
        pthread_mutex_init(&l.schedule->lock, NULL);
        status = lower_all(&l);
        bp_ir_drop_graph(ir); /* nothing is rewritten any more */
        ir->cancel = NULL;
        if (status) {
            bp_schedule_destroy(l.schedule);
        } else {
            schedule_register(l.schedule);
            *out_schedule = l.schedule;
        }
    } else {
        bp_ir_destroy(ir);
        free(l.schedule);
    }
    bp_joins_finish(&l);
    free(l.inv);
    free(l.last_read);
    free(l.number);
    return status;
}
