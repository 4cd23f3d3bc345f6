/* SPDX-License-Identifier: Apache-2.0 */
/* pass_format.c: gives values layouts of the plugin where kernel rows take them, and inserts the
 * conversions: one copy for all readers, before the first of them. Constants are converted now.
 * Tensors that an app or an update sees stay in strides: inputs, outputs and views. */
#include "format.h"
#include "rewrite.h"

#include "../call/compose.h"

#include <backplane/ops.h>

#include <stdlib.h>

static enum bp_status format_no_memory(void)
{
    return bp_error(BP_ERR_MEMORY, "no host memory to compile a program");
}

static enum bp_status format_room(struct bp_format *f)
{
    uint32_t room = f->ir->room_value;

    if (room > f->room_first) {
        uint32_t *first = realloc(f->first, room * sizeof *first);
        if (!first) return format_no_memory();
        for (uint32_t v = f->room_first; v < room; v++) first[v] = BP_NO_VALUE;
        f->first = first;
        f->room_first = room;
    }
    if (f->n_copy == f->room_copy) {
        uint32_t more = 2 * f->room_copy + 64;
        struct bp_format_copy *copy = realloc(f->copy, more * sizeof *copy);
        if (!copy) return format_no_memory();
        f->copy = copy;
        f->room_copy = more;
    }
    return BP_OK;
}

/* Notes that value `is` is a copy of value v in another layout. */
static enum bp_status format_note(struct bp_format *f, uint32_t v, uint32_t is)
{
    TRY(format_room(f));
    f->copy[f->n_copy] = (struct bp_format_copy){is, f->first[v]};
    f->first[v] = f->n_copy++;
    return BP_OK;
}

static bool is_conversion(const struct bp_format *f, const struct bp_node *node)
{
    return node->row == &bp_opdef[BP_ROW_assign] && node->out[0] != BP_NO_VALUE &&
           bp_format_layout(f, bp_ir_same(f->ir, node->in[0])) != bp_format_layout(f, node->out[0]);
}

static enum bp_status record_copy(struct bp_rewrite *rw, uint32_t v, struct bp_tensor **out_copy)
{
    struct bp_compose c = bp_compose_begin(bp_rewrite_scope(rw));
    struct bp_tensor *x;

    TRY(bp_rewrite_in(rw, v, &x));
    bp_compose_keep(&c, MAKE(&c, assign, NULL, x), out_copy);
    return bp_compose_end(&c);
}

/* Inserts a conversion of value v before node `before` (BP_NO_VALUE: at the end), named after node
 * `name`. */
static enum bp_status format_insert(struct bp_format *f, uint32_t v, uint32_t layout,
                                    uint32_t before, uint32_t name, uint32_t *out_copy)
{
    struct bp_tensor *result = NULL;
    struct bp_rewrite rw;
    enum bp_status status;

    TRY(bp_rewrite_begin(&rw, f->ir, &name, 1));
    status = record_copy(&rw, v, &result);
    if (status) {
        bp_rewrite_cancel(&rw);
        return status;
    }
    TRY(bp_rewrite_insert(&rw, result, before, out_copy));
    f->ir->value[*out_copy].type->view.layout = (uint16_t)layout;
    return format_note(f, v, *out_copy);
}

/* Returns a value that is v in a layout, and inserts conversions where there is none: from one
 * layout to another by strides. */
static enum bp_status format_convert(struct bp_format *f, uint32_t v, uint32_t layout,
                                     uint32_t before, uint32_t name, uint32_t *out_copy)
{
    *out_copy = bp_format_find(f, v, layout);
    if (*out_copy != BP_NO_VALUE) return BP_OK;
    if (layout && bp_format_layout(f, v)) TRY(format_convert(f, v, 0, before, name, &v));
    return format_insert(f, v, layout, before, name, out_copy);
}

/* Lets a node read its inputs in the layouts of a row; NULL: in strides. */
static enum bp_status format_inputs(struct bp_format *f, uint32_t n, const struct bp_kernel *k,
                                    bool *out_changed)
{
    for (uint32_t i = 0; i < f->ir->node[n].call.n_in; i++) {
        const struct bp_node *node = &f->ir->node[n].call;
        uint32_t want = k ? bp_kernel_in_layout(k, bp_in_port(node->row, node->in_at, i)) : 0;
        uint32_t v = node->in[i], copy;
        if (v == BP_NO_VALUE) continue;
        v = bp_ir_same(f->ir, v);
        TRY(format_convert(f, v, want, n, n, &copy));
        if (copy == v) continue;
        bp_ir_set_input(f->ir, n, i, copy);
        *out_changed = true;
    }
    return BP_OK;
}

static void format_outputs(struct bp_format *f, uint32_t n, const struct bp_kernel *k,
                           bool *out_changed)
{
    const struct bp_node *node = &f->ir->node[n].call;

    for (uint32_t i = 0; i < node->n_out; i++) {
        uint32_t layout = bp_kernel_out_layout(k, bp_out_port(node->row, node->out_at, i));
        if (node->out[i] == BP_NO_VALUE || bp_format_layout(f, node->out[i]) == layout) continue;
        f->ir->value[node->out[i]].type->view.layout = (uint16_t)layout;
        f->layouts.at[node->out[i]].view.layout = (uint16_t)layout;
        *out_changed = true;
    }
}

static enum bp_status format_node(struct bp_format *f, uint32_t n)
{
    const struct bp_node *node = &f->ir->node[n].call;
    const struct bp_kernel *k = NULL;
    bool changed = false;

    if (is_conversion(f, node)) {
        TRY(format_note(f, bp_ir_same(f->ir, node->in[0]), node->out[0]));
    } else {
        TRY(bp_format_choose(f, n, &k));
        TRY(format_inputs(f, n, k, &changed));
        if (k) format_outputs(f, n, k, &changed);
        f->c->changes += changed;
    }
    return bp_layouts_visit(&f->layouts, n);
}

/* Whether a pass made a call of an operator for which the device has no row: it will run as other
 * operators, whose rows may have layouts. */
static bool runs_as_others(const struct bp_ir *ir, uint32_t n)
{
    const struct bp_node *node = &ir->node[n].call;
    uint32_t n_row;

    bp_select_rows(ir->device, node->row, &n_row);
    return !n_row && ir->node[n].made && node->row->decompose && !node->row->is_view &&
           !node->kernel && !ir->of;
}

/* Replaces such a node by its decomposition. *out_next: its first node. */
static enum bp_status format_expand(struct bp_format *f, uint32_t n, uint32_t *out_next)
{
    const struct bp_node *node = &f->ir->node[n].call;
    uint32_t before = f->ir->node[n].previous;
    const struct bp_view *in[BP_FLAT_MAX];
    bool forwards;

    for (uint32_t i = 0; i < node->n_in; i++)
        in[i] = node->in[i] == BP_NO_VALUE
                    ? NULL
                    : &f->ir->value[bp_ir_same(f->ir, node->in[i])].type->view;
    TRY(bp_ir_expand(f->ir, n, in, &forwards));
    if (forwards) bp_ir_resolve(f->ir);
    f->c->changes++;
    *out_next = before == BP_NO_VALUE ? f->ir->first : f->ir->node[before].next;
    return BP_OK;
}

static enum bp_status format_all(struct bp_format *f)
{
    for (uint32_t n = f->ir->first, next; n != BP_NO_VALUE; n = next) {
        if (runs_as_others(f->ir, n)) {
            TRY(format_expand(f, n, &next));
            continue;
        }
        TRY(format_node(f, n));
        next = f->ir->node[n].next;
    }
    return BP_OK;
}

/* Outputs of the graph are copies in strides. */
static enum bp_status format_results(struct bp_format *f)
{
    struct bp_ir *ir = f->ir;

    for (uint32_t o = 0; o < ir->n_output; o++) {
        uint32_t v = bp_ir_same(ir, ir->output[o]), copy;
        if (!bp_format_layout(f, v)) continue;
        TRY(format_convert(f, v, 0, BP_NO_VALUE, ir->value[v].node, &copy));
        ir->value[v].uses--;
        ir->value[copy].uses++;
        ir->output[o] = copy;
        ir->edited = true;
        f->c->changes++;
    }
    return BP_OK;
}

static enum bp_status format_constants(struct bp_ir *ir)
{
    struct bp_compilation c = {.ir = ir};

    bp_ir_resolve(ir);
    return bp_fold_conversions(&c);
}

enum bp_status bp_pass_format(struct bp_compilation *c)
{
    struct bp_format f = {.c = c, .ir = c->ir, .converts_all = bp_compile_checks("formats")};
    struct bp_ir *ir = c->ir;
    enum bp_status status;

    if (!ir->device->entry->n_layout) return BP_OK;
    TRY(bp_layouts_init(&f.layouts, ir));
    status = format_room(&f);
    if (!status) status = format_all(&f);
    if (!status) status = format_results(&f);
    if (!status) status = format_constants(ir);
    bp_layouts_finish(&f.layouts);
    free(f.copy);
    free(f.first);
    return status;
}
