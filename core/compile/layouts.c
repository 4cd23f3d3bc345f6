/* SPDX-License-Identifier: Apache-2.0 */
/* layouts.c: finds the strides that values of the IR will have: results of operators that keep the
 * layout of an input, and of views. */
#include "layouts.h"

#include "engine.h"

#include "../call/prepared.h"

#include <stdlib.h>
#include <string.h>

/* Adds values that are new: they are dense; constants have the strides of their tensors. */
static enum bp_status layouts_add(struct bp_layouts *l)
{
    uint32_t room = l->ir->room_value;
    struct bp_typed_view *at = l->at;

    if (room > l->room) {
        at = malloc(room * sizeof *at);
        if (!at) return bp_error(BP_ERR_MEMORY, "no host memory to compile a program");
        for (uint32_t v = 0; v < l->n; v++) bp_typed_view_init(&at[v], &l->at[v].view);
        free(l->at);
        l->at = at;
        l->room = room;
    }
    for (; l->n < l->ir->n_value; l->n++) {
        const struct bp_ir_value *value = &l->ir->value[l->n];
        bp_typed_view_init(&at[l->n],
                           value->constant ? &value->constant->view : &value->type->view);
    }
    return BP_OK;
}

enum bp_status bp_layouts_init(struct bp_layouts *layouts, struct bp_ir *ir)
{
    enum bp_status status;

    *layouts = (struct bp_layouts){.ir = ir, .inv = calloc(1, sizeof *layouts->inv)};
    status = layouts->inv ? layouts_add(layouts)
                          : bp_error(BP_ERR_MEMORY, "no host memory to compile a program");
    if (status) bp_layouts_finish(layouts);
    return status;
}

void bp_layouts_finish(struct bp_layouts *layouts)
{
    free(layouts->at);
    free(layouts->inv);
    *layouts = (struct bp_layouts){0};
}

static void layout_set(struct bp_layouts *l, uint32_t v, const int64_t *stride)
{
    struct bp_typed_view *at = &l->at[v];

    memcpy(at->stride, stride, at->view.rank * sizeof *stride);
    at->view.flags = bp_strides_are_contiguous(at->view.rank, at->shape, at->stride)
                         ? 0
                         : BP_VIEW_STRIDED;
}

/* Views of an input whose strides do not allow them are views of a dense copy. */
static enum bp_status layouts_view(struct bp_layouts *l, const struct bp_node *node)
{
    uint32_t share = l->inv->in_at[node->row->info.out[0].share];

    TRY(node->row->infer(l->inv));
    l->copies = l->inv->view_copies;
    if (l->copies) {
        l->inv->in[share] = &l->ir->value[bp_ir_same(l->ir, node->in[share])].type->view;
        l->inv->view_copies = false;
        TRY(node->row->infer(l->inv));
    }
    for (uint32_t i = 0; i < node->n_out; i++)
        if (node->out[i] != BP_NO_VALUE) layout_set(l, node->out[i], l->inv->view_stride);
    return BP_OK;
}

enum bp_status bp_layouts_visit(struct bp_layouts *layouts, uint32_t n)
{
    const struct bp_node *node = &layouts->ir->node[n].call;
    struct bp_invocation *inv = layouts->inv;

    TRY(layouts_add(layouts));
    layouts->copies = false;
    bp_ir_invocation(layouts->ir, node, inv);
    inv->kernel = node->kernel;
    for (uint32_t i = 0; i < node->n_in; i++)
        if (node->in[i] != BP_NO_VALUE)
            inv->in[i] = &layouts->at[bp_ir_same(layouts->ir, node->in[i])].view;
    if (node->row->is_view) return layouts_view(layouts, node);
    for (uint32_t i = 0; i < node->n_out; i++) {
        const struct bp_port *port = &node->row->info.out[bp_out_port(node->row, node->out_at, i)];
        const struct bp_view *like = NULL;
        struct bp_typed_view made;
        if (node->out[i] == BP_NO_VALUE) continue;
        if (bp_engine_is_row(node->row)) {
            bp_engine_type(layouts->ir->node[n].prepared, i, &made);
            layout_set(layouts, node->out[i], made.stride);
            continue;
        }
        if (layouts->ir->value[node->out[i]].type->view.layout) continue; /* no strides */
        if (port->kind == BP_PORT_UPDATE) like = bp_invocation_in(inv, (uint32_t)port->share);
        if (!like) {
            bp_prepared_new_type(&made, inv, i);
            like = &made.view;
        }
        layout_set(layouts, node->out[i], like->stride);
    }
    return BP_OK;
}

/* ---- outputs of the graph ---- */

static enum bp_status layouts_all(struct bp_layouts *l, struct bp_ir *ir)
{
    enum bp_status status = bp_layouts_init(l, ir);

    for (uint32_t n = ir->first; n != BP_NO_VALUE && status == BP_OK; n = ir->node[n].next)
        status = bp_layouts_visit(l, n);
    return status;
}

enum bp_status bp_layouts_keep_outputs(struct bp_ir *ir)
{
    struct bp_layouts l;
    enum bp_status status;
    bool *dense;

    if (ir->dense) return BP_OK;
    dense = calloc(ir->n_output + 1, sizeof *dense);
    if (!dense) return bp_error(BP_ERR_MEMORY, "no host memory to compile a program");
    status = layouts_all(&l, ir);
    for (uint32_t o = 0; o < ir->n_output && status == BP_OK; o++)
        dense[o] = !(l.at[bp_ir_same(ir, ir->output[o])].view.flags & BP_VIEW_STRIDED);
    if (l.inv) bp_layouts_finish(&l);
    if (status) free(dense);
    else ir->dense = dense;
    return status;
}

bool bp_layouts_update_results(const struct bp_ir *ir)
{
    for (uint32_t v = 0; v < ir->n_value; v++)
        if (ir->value[v].kind == BP_VALUE_RESULT && ir->value[v].root == v && ir->value[v].updated)
            return true;
    return false;
}
