/* SPDX-License-Identifier: Apache-2.0 */
/* lower_launch.c: adds values and launches to a schedule. */
#include "lower.h"

#include <stdlib.h>
#include <string.h>

enum bp_status bp_lower_no_memory(void)
{
    return bp_error(BP_ERR_MEMORY, "no host memory to compile a program");
}

void bp_lower_set_type(const struct bp_schedule *s, struct bp_scheduled_value *value,
                       const struct bp_view *type)
{
    bp_typed_view_init(&value->type, type);
    value->type.view.device = (uint16_t)s->device->index;
    value->type.view.space = BP_SPACE_DEVICE;
    value->type.sig = bp_tensor_signature(s->device, &value->type.view);
    value->bytes = (uint64_t)type->count * (bp_dtype_bits(type->dtype) / 8);
    value->type.bytes = value->bytes;
}

/* Makes room for one more value. */
static enum bp_status value_room(struct bp_lowering *l)
{
    struct bp_schedule *s = l->schedule;
    uint32_t room = l->room_value ? 2 * l->room_value : 64;
    struct bp_scheduled_value **list;

    if (s->n_value < l->room_value) return BP_OK;
    list = realloc(s->value, room * sizeof(struct bp_scheduled_value *));
    if (!list) return bp_lower_no_memory();
    s->value = list;
    l->room_value = room;
    return BP_OK;
}

enum bp_status bp_lower_add_value(struct bp_lowering *l, const struct bp_view *type,
                                  uint32_t *out_value)
{
    struct bp_schedule *s = l->schedule;
    struct bp_scheduled_value *value;

    TRY(value_room(l));
    value = calloc(1, sizeof *value);
    if (!value) return bp_lower_no_memory();
    value->root = s->n_value;
    value->first = BP_NO_VALUE;
    if (type) bp_lower_set_type(s, value, type);
    s->value[s->n_value] = value;
    *out_value = s->n_value++;
    return BP_OK;
}

void bp_lower_set_view(const struct bp_schedule *s, uint32_t number, uint32_t of, uint64_t offset)
{
    const struct bp_scheduled_value *base = s->value[of], *root = s->value[base->root];
    struct bp_scheduled_value *value = s->value[number];

    value->root = base->root;
    value->offset = base->offset + offset;
    if (root->source != BP_SOURCE_CONSTANT) return;
    value->type.view.flags |= root->type.view.flags & BP_VIEW_CONSTANT;
    value->type.view.memory = root->type.view.memory;
    value->type.view.data = (void *)((uintptr_t)root->type.view.data + value->offset);
}

/* Whether the call may write an output over the input of the flat list that it may share: nothing
 * reads the input's memory afterwards, and no other input of the call lies there. */
static bool value_may_overwrite(const struct bp_lowering *l, const struct bp_node *node,
                                uint32_t input)
{
    struct bp_scheduled_value **value = l->schedule->value;
    uint32_t root = value[l->in[input]]->root;

    if (l->last_read[l->schedule->ir->value[node->in[input]].root] != l->node) return false;
    if (value[root]->source != BP_SOURCE_ARENA) return false;
    if (value[root]->is_joined) return false;
    for (uint32_t i = 0; i < node->n_in; i++)
        if (i != input && l->in[i] != BP_NO_VALUE && value[l->in[i]]->root == root)
            return false;
    return true;
}

/* Whether an output may be placed over a view of memory: an output of the graph only over all of
 * it, so that the app does not keep a large block for a small tensor. */
static bool value_may_keep(const struct bp_lowering *l, uint32_t out, uint32_t in)
{
    struct bp_scheduled_value **value = l->schedule->value;
    const struct bp_scheduled_value *root = value[value[in]->root];

    return l->last_read[l->schedule->ir->value[out].root] != BP_READ_BY_APP ||
           (!value[in]->offset && value[in]->bytes == root->bytes);
}

bool bp_lower_may_place(const struct bp_lowering *l, const struct bp_node *node, uint32_t input,
                        uint32_t i, const uint32_t *out)
{
    struct bp_scheduled_value **value = l->schedule->value, *in = value[l->in[input]];

    for (uint32_t before = 0; before < i; before++)
        if (out[before] != BP_NO_VALUE && value[out[before]]->root == in->root) return false;
    return value_may_overwrite(l, node, input) && value_may_keep(l, node->out[i], l->in[input]) &&
           bp_same_type(&value[out[i]]->type.view, &in->type.view);
}

/* The values of a prepared call: those of its tensors, and of its temporaries. */
struct call_values {
    const struct bp_prepared *prepared;
    const uint32_t *in, *out;
    uint32_t *temp;
};

static uint32_t operand_value(const struct call_values *call, struct bp_operand o)
{
    switch (o.kind) {
    case BP_OPERAND_IN: return call->in[o.index];
    case BP_OPERAND_OUT: return call->out[o.index];
    case BP_OPERAND_TEMP: return call->temp[o.index];
    default: return BP_NO_VALUE;
    }
}

static enum bp_status add_temps(struct bp_lowering *l, const struct call_values *call)
{
    const struct bp_prepared *p = call->prepared;

    for (uint32_t i = 0; i < p->n_temp; i++)
        TRY(bp_lower_add_value(l, &p->temp[i]->type.view, &call->temp[i]));
    for (uint32_t i = 0; i < p->n_temp; i++) {
        struct bp_operand of = p->temp[i]->of;
        uint64_t offset = p->temp[i]->offset;
        if (of.kind == BP_OPERAND_NONE) continue;
        while (of.kind == BP_OPERAND_TEMP && p->temp[of.index]->of.kind != BP_OPERAND_NONE) {
            offset += p->temp[of.index]->offset; /* a view of a view, whose root is not known yet */
            of = p->temp[of.index]->of;
        }
        if (operand_value(call, of) != BP_NO_VALUE)
            bp_lower_set_view(l->schedule, call->temp[i], operand_value(call, of), offset);
    }
    return BP_OK;
}

static enum bp_status add_workspace(struct bp_lowering *l, const struct bp_step *step,
                                    uint32_t *out_value)
{
    struct bp_scheduled_value *value;

    *out_value = BP_NO_VALUE;
    if (!step->plan.workspace) return BP_OK;
    TRY(bp_lower_add_value(l, NULL, out_value));
    value = l->schedule->value[*out_value];
    value->bytes = step->plan.workspace;
    value->alignment = step->plan.workspace_alignment;
    if (value->alignment < l->schedule->device->alignment)
        value->alignment = l->schedule->device->alignment;
    return BP_OK;
}

static enum bp_status launch_room(struct bp_lowering *l, struct bp_scheduled_launch **out_launch)
{
    struct bp_schedule *s = l->schedule;

    if (s->n_launch == l->room_launch) {
        uint32_t room = l->room_launch ? 2 * l->room_launch : 64;
        struct bp_scheduled_launch *list = realloc(s->launch, room * sizeof *list);
        if (!list) return bp_lower_no_memory();
        s->launch = list;
        l->room_launch = room;
    }
    *out_launch = &s->launch[s->n_launch];
    return BP_OK;
}

/* The value of input i of a launch. An input that is read for its shape only becomes a value
 * without memory, so that the launch neither keeps its memory nor needs any for it. */
static enum bp_status launch_input(struct bp_lowering *l, const struct bp_step *step,
                                   const struct call_values *call, uint32_t i, uint32_t *out_value)
{
    const struct bp_schedule *s = l->schedule;
    uint32_t v = step->in ? operand_value(call, step->in[i]) : call->in[i];

    *out_value = v;
    if (v == BP_NO_VALUE) return BP_OK;
    if (bp_reads_shape(step->row, step->in_at, i)) {
        if (s->value[s->value[v]->root]->source == BP_SOURCE_SHAPE) return BP_OK;
        TRY(bp_lower_add_value(l, &s->value[v]->type.view, out_value));
        s->value[*out_value]->source = BP_SOURCE_SHAPE;
        return BP_OK;
    }
    if (s->value[s->value[v]->root]->source != BP_SOURCE_SHAPE) return BP_OK;
    return bp_error(BP_ERR_UNSUPPORTED, "%s reads an input of %s that has a shape only",
                    step->row->info.name, call->prepared->row->info.name);
}

/* Returns an error if a step without a kernel cannot be a launch. */
static enum bp_status check_other(const struct bp_lowering *l, const struct bp_prepared *p,
                                  const struct bp_step *step, const struct call_values *call)
{
    struct bp_scheduled_value **value = l->schedule->value;
    const struct bp_device *device = l->schedule->device;
    uint32_t in, out;

    if (step->kernel) return BP_OK;
    if (step->fallback)
        return bp_launch_other_can(device, step, NULL, NULL)
                   ? BP_OK
                   : bp_error(BP_ERR_UNSUPPORTED, "%s runs on %s", p->row->info.name,
                              step->fallback->device->name);
    in = step->in ? operand_value(call, step->in[0]) : call->in[0];
    out = step->in ? operand_value(call, step->out[0]) : call->out[0];
    if (bp_launch_other_can(device, step, &value[in]->type.view, &value[out]->type.view))
        return BP_OK;
    return bp_error(BP_ERR_UNSUPPORTED, "%s: the library %s", p->row->info.name,
                    step->transform->indices ? "converts indices" : "copies tensors for it");
}

static enum bp_status add_launch(struct bp_lowering *l, struct bp_prepared *p,
                                 const struct bp_step *step, const struct call_values *call)
{
    uint32_t n_in = step->launch.n_in, n_out = step->launch.n_out;
    struct bp_scheduled_launch *launch;
    uint32_t *value;

    TRY(check_other(l, p, step, call));
    TRY(launch_room(l, &launch));
    *launch = (struct bp_scheduled_launch){.step = step, .node = l->node};
    TRY(add_workspace(l, step, &launch->workspace));
    value = malloc((n_in + n_out + 1) * sizeof *value);
    if (!value) return bp_lower_no_memory();
    for (uint32_t i = 0; i < n_in; i++) {
        enum bp_status status = launch_input(l, step, call, i, &value[i]);
        if (!status) continue;
        free(value);
        return status;
    }
    for (uint32_t i = 0; i < n_out; i++) {
        uint32_t v = step->in ? operand_value(call, step->out[i]) : call->out[i];
        value[n_in + i] = v;
        if (v == BP_NO_VALUE) continue;
        l->schedule->value[l->schedule->value[v]->root]->written = true;
        if (step->kind) launch->bytes += l->schedule->value[v]->type.bytes;
    }
    launch->value = value;
    launch->prepared = p;
    launch->tuned = l->tuned && step->kernel && l->inv->prefer &&
                    !strcmp(step->kernel->name, l->inv->prefer);
    launch->is_special = step->kind != BP_FALLBACK_NONE || !step->kernel;
    launch->random_at = l->schedule->ir->node[l->node].random_at;
    bp_prepared_retain(p);
    l->schedule->n_launch++;
    return BP_OK;
}

enum bp_status bp_lower_add_call(struct bp_lowering *l, struct bp_prepared *p, const uint32_t *in,
                               const uint32_t *out)
{
    struct call_values call = {p, in, out, calloc(p->n_temp + 1, sizeof(uint32_t))};
    enum bp_status status = call.temp ? add_temps(l, &call) : bp_lower_no_memory();

    for (uint32_t i = 0; i < p->n_step && status == BP_OK; i++)
        status = add_launch(l, p, &p->step[i], &call);
    free(call.temp);
    return status;
}

enum bp_status bp_lower_assign(struct bp_lowering *l, uint32_t from, uint32_t to)
{
    const struct bp_view *x = &l->schedule->value[from]->type.view;
    struct bp_type type = {.dtype = x->dtype, .rank = x->rank};
    struct bp_invocation *inv = malloc(sizeof *inv);
    struct bp_prepared *p = NULL;
    enum bp_status status;

    if (!inv) return bp_lower_no_memory();
    memcpy(type.shape, x->shape, x->rank * sizeof *x->shape);
    bp_invocation_init_unary(inv, &bp_opdef[BP_ROW_assign], l->schedule->device);
    inv->in[0] = x;
    inv->out[0] = type;
    inv->given[0] = &l->schedule->value[to]->type.view;
    inv->dtype[BP_VAR_T] = x->dtype;
    inv->bound = 1 << BP_VAR_T;
    status = bp_prepared_make(inv, &p);
    if (status == BP_OK) status = bp_lower_add_call(l, p, &from, &to);
    if (p) bp_prepared_release(p);
    free(inv);
    return status;
}
