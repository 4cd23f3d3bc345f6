/* SPDX-License-Identifier: Apache-2.0 */
/* launch_info.c: describes the launches of a schedule for reports. */
#include "schedule.h"

#include "../call/kernel_layout.h"

/* The bytes of the elements that a view reaches: an axis with stride 0 repeats its elements. Of a
 * value in a layout of the plugin those that the plugin says. */
static uint64_t value_bytes(const struct bp_scheduled_value *value)
{
    const struct bp_view *v = &value->type.view;
    uint64_t n = v->count ? 1 : 0;

    if (v->layout) return value->type.bytes;
    for (uint32_t a = 0; a < v->rank; a++)
        if (!(v->flags & BP_VIEW_STRIDED) || v->stride[a]) n *= (uint64_t)v->shape[a];
    return (n * bp_dtype_bits(v->dtype) + 7) / 8;
}

static const struct bp_view *operand_view(const struct bp_schedule *s,
                                          const struct bp_scheduled_launch *l, uint32_t k)
{
    return l->value[k] == BP_NO_VALUE ? NULL : &s->value[l->value[k]]->type.view;
}

/* An input that the launch reads twice counts once. */
static bool is_repeated(const struct bp_scheduled_launch *l, uint32_t k)
{
    for (uint32_t i = 0; i < k; i++)
        if (l->value[i] == l->value[k]) return true;
    return false;
}

static uint64_t flops_of(const struct bp_schedule *s, const struct bp_scheduled_launch *l)
{
    const struct bp_view *view[2 * BP_FLAT_MAX];
    uint32_t n_in = l->step->launch.n_in, n_out = l->step->launch.n_out;
    const void *attrs = l->step->launch.attrs;

    if (!l->step->attrs && l->step->row == l->prepared->row) attrs = l->prepared->attrs;
    if (n_in + n_out > 2 * BP_FLAT_MAX || !n_out) return 0;
    for (uint32_t k = 0; k < n_in + n_out; k++) view[k] = operand_view(s, l, k);
    return bp_launch_flops(l->step->row, attrs, view, n_in, view + n_in);
}

void bp_schedule_describe(const struct bp_schedule *s, uint32_t n, struct bp_launch_info *out)
{
    const struct bp_scheduled_launch *l = &s->launch[n];

    out->node = s->ir->node[l->node].call.name;
    out->source = bp_ir_sources(s->ir, l->node, &out->sources);
    out->node_op = s->ir->node[l->node].call.row->info.name;
    out->op = l->step->row->info.name;
    out->kernel = bp_step_name(l->step);
    out->fallback = l->step->kind;
    out->tuned = l->tuned;
    out->n_in = l->step->launch.n_in;
    out->n_out = l->step->launch.n_out;
    out->workspace = l->workspace == BP_NO_VALUE ? 0 : s->value[l->workspace]->bytes;
    out->read = out->written = 0;
    for (uint32_t k = 0; k < out->n_in + out->n_out; k++) {
        const struct bp_scheduled_value *v =
            l->value[k] == BP_NO_VALUE ? NULL : s->value[l->value[k]];
        if (!v) continue;
        if (k >= out->n_in) out->written += value_bytes(v);
        else if (!is_repeated(l, k) && !bp_reads_shape(l->step->row, l->step->in_at, k))
            out->read += value_bytes(v);
    }
    out->flops = flops_of(s, l);
}

/* Whether output k lies over an input of the launch. */
static bool is_over_input(const struct bp_schedule *s, const struct bp_scheduled_launch *l,
                          uint32_t k)
{
    const struct bp_scheduled_value *value = s->value[l->value[k]];

    for (uint32_t i = 0; i < l->step->launch.n_in; i++) {
        const struct bp_scheduled_value *in;
        if (l->value[i] == BP_NO_VALUE) continue;
        in = s->value[l->value[i]];
        if (in->root == value->root && in->offset == value->offset) return true;
    }
    return false;
}

void bp_schedule_operand(const struct bp_schedule *s, uint32_t n, uint32_t k,
                         struct bp_operand_info *out)
{
    static const uint32_t memory[] = {[BP_SOURCE_ARENA] = BP_MEMORY_ARENA,
                                      [BP_SOURCE_INPUT] = BP_MEMORY_INPUT,
                                      [BP_SOURCE_CONSTANT] = BP_MEMORY_CONSTANT,
                                      [BP_SOURCE_RESULT] = BP_MEMORY_RESULT,
                                      [BP_SOURCE_SHAPE] = BP_MEMORY_NONE};
    const struct bp_scheduled_launch *l = &s->launch[n];
    const struct bp_scheduled_value *value, *root;

    out->layout = "";
    out->type = operand_view(s, l, k);
    if (!out->type) return;
    value = s->value[l->value[k]];
    root = s->value[value->root];
    out->memory = memory[root->source];
    out->index = root->source == BP_SOURCE_ARENA ? value->root : root->index;
    out->offset = value->offset + (root->source == BP_SOURCE_ARENA ? root->at : 0);
    out->bytes = value_bytes(value);
    out->layout = bp_layout_name(s->device, out->type->layout);
    out->in_place = k >= l->step->launch.n_in && is_over_input(s, l, k);
    out->folded = root->source == BP_SOURCE_CONSTANT && s->ir->value[root->index].folded;
}

void bp_schedule_constants(const struct bp_schedule *s, uint64_t *out_bytes, uint64_t *out_folded)
{
    *out_bytes = *out_folded = 0;
    for (uint32_t i = 0; i < s->n_constant; i++) {
        const struct bp_scheduled_value *value = s->value[s->constant[i]];
        uint64_t bytes = value_bytes(value);
        *out_bytes += bytes;
        if (s->ir->value[value->index].folded) *out_folded += bytes;
    }
}
