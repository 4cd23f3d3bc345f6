/* SPDX-License-Identifier: Apache-2.0 */
/* format_row.c: chooses the kernel row with layouts of the plugin that runs a node, if there is
 * one.
 *
 * A convolution or product with enough work takes its best row, which may need conversions of its
 * inputs. Any other node takes a row with layouts only if no tensor has to be converted for it when
 * the program runs. A node that names a row with layouts takes this row, whatever is converted. */
#include "format.h"

#include "../call/prepared.h"

#include <backplane/ops.h>

#include <stdlib.h>
#include <string.h>

/* The least floating-point operations of a node for which tensors are converted. */
enum {
    LEAST_FLOPS = 1000000
};

/* The trial of one row. */
struct format_trial {
    struct bp_format *f;
    const struct bp_ir_node *node;
    const struct bp_kernel *kernel;
    bool converts;  /* inputs may be converted when the program runs */
    bool reads_any; /* an input is in a layout already */
    bool is_refused; /* the device declines the call, whose tensors are in the row's layouts */
    bool is_output;  /* a tensor that cannot be in the row's layout: output or input `at` */
    uint32_t at;
    struct bp_invocation *inv;
    struct bp_typed_view *type; /* of the inputs, then of the outputs: where they differ from those
                                   of the values */
    const struct bp_view *out[BP_FLAT_MAX];
};

uint32_t bp_format_find(const struct bp_format *f, uint32_t v, uint32_t layout)
{
    if (bp_format_layout(f, v) == layout) return v;
    for (uint32_t i = v < f->room_first ? f->first[v] : BP_NO_VALUE; i != BP_NO_VALUE;
         i = f->copy[i].next)
        if (bp_format_layout(f, f->copy[i].is) == layout) return f->copy[i].is;
    return BP_NO_VALUE;
}

/* Whether rows of the device convert a tensor. */
static bool can_convert(const struct bp_format *f, const struct bp_view *from,
                        const struct bp_view *to)
{
    struct bp_invocation *inv = malloc(sizeof *inv);
    struct bp_choice choice;
    bool can = false;

    if (!inv) return false;
    bp_layout_invocation(f->ir->device, from, to, inv);
    inv->whole = true; /* no message */
    if (bp_select(inv, &to, &choice) == BP_OK) {
        bp_choice_drop(f->ir->device, &choice);
        can = true;
    }
    free(inv);
    return can;
}

/* Fills the type of a value in a layout. false: it cannot be in this layout. */
static bool type_in_layout(const struct bp_format *f, uint32_t v, uint32_t layout,
                           struct bp_typed_view *type)
{
    uint64_t bytes;

    bp_typed_view_init(type, &f->ir->value[v].type->view);
    type->view.layout = (uint16_t)layout;
    type->view.device = (uint16_t)f->ir->device->index;
    type->view.space = BP_SPACE_DEVICE;
    return type->view.count &&
           (!layout || bp_layout_bytes(f->ir->device, &type->view, &bytes) == BP_OK);
}

/* Whether a value can be converted. Values that nodes update change later. */
static bool may_convert(const struct bp_format *f, uint32_t v, const struct bp_typed_view *to)
{
    struct bp_typed_view dense;
    const struct bp_view *from = &f->layouts.at[v].view;

    if (!bp_ir_is_stable(f->ir, v)) return false;
    if (!from->layout) return can_convert(f, from, &to->view);
    /* by strides: bp_format_choose has given no value a layout that has no way back */
    return !to->view.layout ||
           (type_in_layout(f, v, 0, &dense) && can_convert(f, &dense.view, &to->view));
}

/* Sets input i of the invocation to a value that the row can read. false: there will be none. */
static bool trial_input(struct format_trial *t, uint32_t i)
{
    const struct bp_format *f = t->f;
    uint32_t v = bp_ir_same(f->ir, t->node->call.in[i]), at;
    uint32_t want = bp_kernel_in_layout(t->kernel,
                                        bp_in_port(t->node->call.row, t->node->call.in_at, i));
    bool is_frozen = bp_ir_is_frozen(f->ir, v);

    at = bp_format_find(f, v, want);
    if (at != BP_NO_VALUE) {
        const struct bp_tensor *constant = f->ir->value[at].constant;
        if (want && at == v) t->reads_any = true;
        t->inv->in[i] = &f->layouts.at[at].view;
        if (!constant || want) return true;
        t->inv->in[i] = &constant->view;
        if (is_frozen)
            t->inv->constant[i] = (struct bp_constant){constant->buffer->id, constant->offset};
        return true;
    }
    if (!t->converts && !(is_frozen && want)) return false;
    if (f->ir->value[v].kind == BP_VALUE_SHAPE || !type_in_layout(f, v, want, &t->type[i]) ||
        !may_convert(f, v, &t->type[i]))
        return false;
    t->inv->in[i] = &t->type[i].view;
    return true;
}

/* Sets the type of output i. A value that is updated, or in the memory of another one, stays in
 * strides. */
static bool trial_output(struct format_trial *t, uint32_t i)
{
    const struct bp_node *node = &t->node->call;
    struct bp_typed_view *type = &t->type[node->n_in + i], dense;
    uint32_t v = node->out[i], want;

    t->out[i] = NULL;
    if (v == BP_NO_VALUE) return true;
    want = bp_kernel_out_layout(t->kernel, bp_out_port(node->row, node->out_at, i));
    t->out[i] = &type->view;
    if (!want) {
        t->inv->given[i] = NULL;
        bp_prepared_new_type(type, t->inv, i);
        return true;
    }
    t->inv->given[i] = &type->view;
    return t->f->ir->value[v].root == v && bp_ir_is_stable(t->f->ir, v) &&
           type_in_layout(t->f, v, want, type) && type_in_layout(t->f, v, 0, &dense) &&
           can_convert(t->f, &type->view, &dense.view);
}

/* Whether the device runs the node with the row. */
static enum bp_status trial_run(struct format_trial *t, bool *out_takes)
{
    struct bp_invocation *inv = t->inv;
    const struct bp_node *node = &t->node->call;
    struct bp_choice choice;
    enum bp_status status;

    *out_takes = t->reads_any = t->is_refused = false;
    bp_ir_invocation(t->f->ir, node, inv);
    inv->kernel = t->kernel->name;
    inv->whole = true; /* no message */
    t->is_output = false;
    for (t->at = 0; t->at < node->n_in; t->at++)
        if (node->in[t->at] != BP_NO_VALUE && !trial_input(t, t->at)) return BP_OK;
    t->is_output = true;
    for (t->at = 0; t->at < node->n_out; t->at++)
        if (!trial_output(t, t->at)) return BP_OK;
    if (!t->converts && !t->reads_any) return BP_OK;
    status = bp_select(inv, t->out, &choice);
    if (status == BP_OK) bp_choice_drop(t->f->ir->device, &choice);
    *out_takes = status == BP_OK;
    t->is_refused = status == BP_ERR_NO_KERNEL || status == BP_ERR_UNSUPPORTED;
    return t->is_refused ? BP_OK : status;
}

/* Whether a node is a convolution or product for which tensors are converted. */
static bool has_work(const struct bp_format *f, const struct bp_node *node)
{
    const struct bp_view *in[BP_FLAT_MAX], *out;
    uint64_t flops;

    if (!node->n_out || node->out[0] == BP_NO_VALUE) return false;
    for (uint32_t i = 0; i < node->n_in; i++)
        in[i] = node->in[i] == BP_NO_VALUE
                    ? NULL
                    : &f->ir->value[bp_ir_same(f->ir, node->in[i])].type->view;
    out = &f->ir->value[node->out[0]].type->view;
    flops = bp_launch_flops(node->row, node->attrs, in, node->n_in, &out);
    return flops >= LEAST_FLOPS || (flops && f->converts_all);
}

/* Rows without layouts are tried only if one with layouts comes behind them. */
static enum bp_status choose_row(struct format_trial *t, const struct bp_kernel **row, uint32_t n,
                                 const struct bp_kernel **out_kernel)
{
    const struct bp_plugin_entry *entry = t->f->ir->device->entry;

    while (n && !bp_kernel_has_layouts(row[n - 1])) n--;
    for (uint32_t i = 0; i < n; i++) {
        bool takes;
        if (entry->kernel_reason[row[i] - entry->kernel]) continue;
        if (!t->converts && !bp_kernel_has_layouts(row[i])) continue;
        t->kernel = row[i];
        TRY(trial_run(t, &takes));
        if (!takes) continue;
        *out_kernel = bp_kernel_has_layouts(row[i]) ? row[i] : NULL;
        return BP_OK;
    }
    return BP_OK;
}

/* Returns the failure of a node whose tensors cannot be in the layouts of its row. */
static enum bp_status named_unfit(const struct format_trial *t)
{
    const char *op = t->node->call.row->info.name;

    bp_error_write("%s: no kernel of %s takes this call: %s: %s %u cannot be converted %s its "
                   "layout", op, t->f->ir->device->name, t->kernel->name,
                   t->is_output ? "output" : "input", t->at, t->is_output ? "from" : "to");
    bp_error_set_operator(op, 1);
    return BP_ERR_NO_KERNEL;
}

/* Chooses the row that a node names. Rows without layouts are left to the lowering, and rows that
 * this machine cannot run, for the message. */
static enum bp_status choose_named(struct format_trial *t, const struct bp_kernel **row, uint32_t n,
                                   const struct bp_kernel **out_kernel)
{
    const struct bp_plugin_entry *entry = t->f->ir->device->entry;
    struct bp_choice choice;
    bool takes;

    while (n && strcmp(row[n - 1]->name, t->node->call.kernel)) n--;
    if (!n || !bp_kernel_has_layouts(row[n - 1])) return BP_OK;
    t->kernel = row[n - 1];
    if (entry->kernel_reason[t->kernel - entry->kernel]) return BP_OK;
    TRY(trial_run(t, &takes));
    if (!takes && !t->is_refused) return named_unfit(t);
    if (!takes) {
        t->inv->whole = false; /* again, for the message */
        TRY(bp_select(t->inv, t->out, &choice));
        bp_choice_drop(t->f->ir->device, &choice);
    }
    *out_kernel = t->kernel;
    return BP_OK;
}

enum bp_status bp_format_choose(struct bp_format *f, uint32_t n,
                                const struct bp_kernel **out_kernel)
{
    const struct bp_ir_node *node = &f->ir->node[n];
    const struct bp_kernel **row;
    struct format_trial t = {.f = f, .node = node};
    enum bp_status status;
    uint32_t n_row;

    *out_kernel = NULL;
    row = bp_select_rows(f->ir->device, node->call.row, &n_row);
    if (!n_row || node->call.row->is_view || !bp_ir_is_pure(&node->call)) return BP_OK;
    t.converts = node->call.kernel || has_work(f, &node->call);
    t.inv = malloc(sizeof *t.inv);
    t.type = malloc((node->call.n_in + node->call.n_out + 1) * sizeof *t.type);
    if (!t.inv || !t.type) status = bp_error(BP_ERR_MEMORY, "no host memory to compile a program");
    else if (node->call.kernel) status = choose_named(&t, row, n_row, out_kernel);
    else status = choose_row(&t, row, n_row, out_kernel);
    free(t.inv);
    free(t.type);
    return status;
}
