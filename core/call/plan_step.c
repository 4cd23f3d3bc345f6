/* SPDX-License-Identifier: Apache-2.0 */
/* plan_step.c: adds steps and temporaries to a prepared call while the planner builds it. */
#include "plan.h"

#include <stdlib.h>
#include <string.h>

enum bp_status bp_plan_no_memory(const struct bp_invocation *inv)
{
    return bp_error(BP_ERR_MEMORY, "%s: no memory to prepare it", inv->row->info.name);
}

const struct bp_view *bp_plan_view_of(const struct bp_prepared *p, struct bp_operand o)
{
    switch (o.kind) {
    case BP_OPERAND_IN: return &p->type[o.index].view;
    case BP_OPERAND_OUT: return &p->type[p->n_in + o.index].view;
    case BP_OPERAND_TEMP: return &p->temp[o.index]->type.view;
    default: return NULL;
    }
}

/* Returns the identity of a constant operand. For a view it is the viewed constant, at the byte
 * offset of the view. */
static struct bp_constant constant_of(const struct bp_planner *b, struct bp_operand o)
{
    uint64_t offset = 0;

    for (; o.kind == BP_OPERAND_TEMP; o = b->p->temp[o.index]->of)
        offset += b->p->temp[o.index]->offset;
    if (o.kind != BP_OPERAND_IN || !b->constant[o.index].id) return (struct bp_constant){0, 0};
    return (struct bp_constant){b->constant[o.index].id, b->constant[o.index].offset + offset};
}

void bp_plan_set_inputs(const struct bp_planner *b, struct bp_invocation *inv,
                        const struct bp_operand *in)
{
    for (uint32_t i = 0; i < inv->n_in; i++) {
        inv->in[i] = bp_plan_view_of(b->p, in[i]);
        inv->constant[i] = constant_of(b, in[i]);
    }
}

struct bp_invocation *bp_plan_copy_call(const struct bp_invocation *inv)
{
    struct bp_invocation *copy = malloc(sizeof *copy);

    if (copy) bp_invocation_copy(copy, inv);
    return copy;
}

enum bp_status bp_plan_unary(struct bp_planner *b, const struct bp_invocation *of,
                             enum bp_row_number row, void *attrs, struct bp_operand from,
                             struct bp_operand to)
{
    struct bp_invocation *inv = malloc(sizeof *inv);
    enum bp_status status;

    if (!inv) return bp_plan_no_memory(of);
    bp_invocation_init_unary(inv, &bp_opdef[row], of->device);
    inv->attrs = attrs;
    bp_plan_set_inputs(b, inv, &from);
    inv->dtype[BP_VAR_T] = bp_plan_view_of(b->p, from)->dtype;
    inv->dtype[BP_VAR_U] = bp_plan_view_of(b->p, to)->dtype;
    inv->bound = row == BP_ROW_cast ? 1 << BP_VAR_T | 1 << BP_VAR_U : 1 << BP_VAR_T;
    status = b->call(b, inv, &from, &to);
    free(inv);
    return status;
}

/* Adds a temporary between steps. */
enum bp_status bp_plan_add_temp(struct bp_planner *b, const struct bp_invocation *inv,
                                const struct bp_typed_view *type, struct bp_operand *out_operand)
{
    struct bp_prepared *p = b->p;
    struct bp_temp **list = realloc(p->temp, (p->n_temp + 1) * sizeof *list);
    struct bp_temp *temp = calloc(1, sizeof *temp);

    if (list) p->temp = list;
    if (!list || !temp) {
        free(temp);
        return bp_plan_no_memory(inv);
    }
    bp_typed_view_init(&temp->type, &type->view);
    temp->bytes = (uint64_t)type->view.count * (bp_dtype_bits(type->view.dtype) / 8);
    list[p->n_temp] = temp;
    *out_operand = (struct bp_operand){BP_OPERAND_TEMP, (uint16_t)p->n_temp++};
    return BP_OK;
}

/* Adds a dense temporary with a shape and dtype. */
enum bp_status bp_plan_add_dense(struct bp_planner *b, const struct bp_invocation *inv,
                                 const struct bp_view *like, uint32_t dtype,
                                 struct bp_operand *out_operand)
{
    struct bp_typed_view dense;
    struct bp_type type = {.dtype = dtype, .rank = like->rank};

    memcpy(type.shape, like->shape, like->rank * sizeof *like->shape);
    bp_typed_view_dense(&dense, &type);
    dense.view.device = like->device;
    return bp_plan_add_temp(b, inv, &dense, out_operand);
}

void bp_plan_set_view(struct bp_prepared *p, struct bp_operand view, struct bp_operand base,
                      uint64_t offset, const int64_t *stride)
{
    const struct bp_view *of = bp_plan_view_of(p, base);
    struct bp_temp *temp = p->temp[view.index];
    struct bp_typed_view *type = &temp->type;

    temp->of = base;
    temp->bytes = 0;
    temp->offset = offset;
    memcpy(type->stride, stride, type->view.rank * sizeof *stride);
    type->view.flags =
        bp_strides_are_contiguous(type->view.rank, type->shape, type->stride) ? 0 : BP_VIEW_STRIDED;
    if (!(of->flags & BP_VIEW_CONSTANT)) return;
    type->view.flags |= BP_VIEW_CONSTANT;
    type->view.data = (void *)((uintptr_t)of->data + offset);
    type->view.memory = of->memory;
    type->view.space = of->space;
}

void bp_plan_set_launch(struct bp_step *step, const struct bp_invocation *inv)
{
    struct bp_plugin_entry *entry = inv->device->entry;

    step->launch = (struct bp_launch){
        .self = step->kernel ? bp_kernel_plugin(entry, step->kernel)->self : entry->self,
        .kernel = step->kernel ? bp_kernel_registered(entry, step->kernel) : NULL,
        .plan = step->plan.plan,
        .n_in = inv->n_in,
        .n_out = inv->n_out,
        .attrs = step->attrs,
        .workspace_size = step->plan.workspace,
        .device = inv->device->index,
        .width = inv->device->core->width,
    };
}

enum bp_status bp_plan_add_step(struct bp_planner *b, const struct bp_invocation *inv,
                                const struct bp_operand *in, const struct bp_operand *out,
                                struct bp_step **out_step)
{
    struct bp_prepared *p = b->p;
    struct bp_step *step = p->n_step ? malloc((p->n_step + 1) * sizeof *step) : p->step;
    size_t n_in = inv->n_in, n_out = inv->n_out;

    if (!step) return bp_plan_no_memory(inv);
    if (p->n_step) {
        memcpy(step, p->step, p->n_step * sizeof *step);
        if (p->step != &p->first) free(p->step);
        p->step = step;
        step += p->n_step;
    }
    memset(step, 0, sizeof *step);
    if (in != b->own) {
        step->in = malloc((n_in + n_out + 1) * sizeof *step->in);
        if (!step->in) return bp_plan_no_memory(inv);
        step->out = step->in + n_in;
        if (n_in) memcpy(step->in, in, n_in * sizeof *in);
        memcpy(step->out, out, n_out * sizeof *out);
    }
    p->n_step++;
    step->kind = b->kind;
    step->row = inv->row;
    memcpy(step->in_at, inv->in_at, sizeof step->in_at);
    memcpy(step->out_at, inv->out_at, sizeof step->out_at);
    *out_step = step;
    return BP_OK;
}

bool bp_plan_is_dead_end(enum bp_status status)
{
    return status == BP_ERR_NO_KERNEL || status == BP_ERR_UNSUPPORTED;
}

void bp_plan_rewind(struct bp_prepared *p, struct bp_plan_mark to)
{
    while (p->n_step > to.n_step) bp_step_finish(&p->step[--p->n_step]);
    while (p->n_temp > to.n_temp) free(p->temp[--p->n_temp]);
}

struct bp_first_failure bp_plan_first_failure(enum bp_status status)
{
    struct bp_first_failure first = {status, strdup(bp_error_message()), {.size = sizeof first.at}};

    bp_error_get_info(&first.at);
    return first;
}

enum bp_status bp_plan_report(struct bp_first_failure *first, enum bp_status status)
{
    if (bp_plan_is_dead_end(status)) {
        status = first->status;
        if (first->why) { /* the last path that failed names the operator that is missing in it */
            if (strcmp(first->why, bp_error_message())) {
                char *last = strdup(bp_error_message());
                bp_error_write("%s; in another way: %s", first->why, last ? last : "");
                free(last);
            }
            bp_error_set_operator(first->at.op, first->at.rows);
        }
    }
    free(first->why);
    return status;
}
