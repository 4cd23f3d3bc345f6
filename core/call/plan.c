/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c: finds the steps (kernel launches and views) of a call. It tries a kernel of the device or
 * a view, then the same kernel on expanded inputs, converted indices or dense copies, then a
 * decomposition into other operators, then another dtype. Each path may need all others for its own
 * steps. */
#include "fallback.h"
#include "kernel_layout.h"
#include "plan.h"

#include "../graph/graph.h"

#include <backplane/attrs.h>
#include <backplane/ops.h>

#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 16 }; /* nested decompositions: more are a cycle */

/* Copies the attributes of a step, unless the step is the call itself. b->kind alone does not
 * decide this: the copy step of a view operator has the kind NONE too. */
static enum bp_status own_attrs(const struct bp_planner *b, const struct bp_invocation *inv,
                                struct bp_step *step)
{
    bool itself = b->kind == BP_FALLBACK_NONE && inv->row == b->p->row && inv->attrs == b->attrs;

    if (itself || !inv->attrs) return BP_OK;
    return bp_attrs_clone(&inv->row->info, inv->attrs, &step->attrs);
}

static enum bp_status add_launch(struct bp_planner *b, const struct bp_invocation *inv,
                                 const struct bp_operand *in, const struct bp_operand *out,
                                 const struct bp_choice *choice)
{
    struct bp_step *step = NULL;
    enum bp_status status = bp_plan_add_step(b, inv, in, out, &step);

    if (status) {
        bp_choice_drop(inv->device, choice);
        return status;
    }
    step->kernel = choice->kernel;
    step->plan = choice->plan;
    b->p->plan_bytes += choice->plan.bytes;
    TRY(own_attrs(b, inv, step));
    bp_plan_set_launch(step, inv);
    return BP_OK;
}

static enum bp_status plan_kernel(struct bp_planner *b, const struct bp_invocation *inv,
                                  const struct bp_operand *in, const struct bp_operand *out,
                                  const struct bp_view *const *out_view)
{
    struct bp_choice choice;

    TRY(bp_select(inv, out_view, &choice));
    return add_launch(b, inv, in, out, &choice);
}

/* Adds a step with one input and one output: assign, or cast to the output's dtype. */
static enum bp_status plan_convert(struct bp_planner *b, const struct bp_invocation *of,
                                   struct bp_operand from, struct bp_operand to, uint32_t kind)
{
    const struct bp_view *x = bp_plan_view_of(b->p, from), *y = bp_plan_view_of(b->p, to);
    struct bp_cast_attrs cast = *(const struct bp_cast_attrs *)bp_opdef[BP_ROW_cast].info.defaults;
    uint32_t before = b->kind;
    enum bp_status status;

    cast.to = y->dtype;
    b->kind = kind;
    status = x->dtype == y->dtype ? bp_plan_unary(b, of, BP_ROW_assign, NULL, from, to)
                                  : bp_plan_unary(b, of, BP_ROW_cast, &cast, from, to);
    b->kind = before;
    return status;
}

/* Infers the views again, because the strides of temporaries are known only here. If the strides do
 * not allow the views, base becomes a dense copy. */
static enum bp_status plan_infer(struct bp_planner *b, struct bp_invocation *inv, uint32_t share,
                                 struct bp_operand *base)
{
    const struct bp_view *v = bp_plan_view_of(b->p, *base);
    struct bp_operand from = *base;

    inv->in[share] = v;
    inv->view_copies = false;
    TRY(inv->row->infer(inv));
    if (!inv->view_copies) return BP_OK;
    TRY(bp_plan_add_dense(b, inv, v, v->dtype, base));
    TRY(plan_convert(b, inv, from, *base, BP_FALLBACK_LAYOUT));
    inv->in[share] = bp_plan_view_of(b->p, *base);
    inv->view_copies = false;
    return inv->row->infer(inv);
}

/* Makes output i a view of base. A temporary becomes the view itself; a tensor of the call gets a
 * copy of the view. */
static enum bp_status place_view(struct bp_planner *b, const struct bp_invocation *inv, uint32_t i,
                                 struct bp_operand base, struct bp_operand out)
{
    const struct bp_view *like = bp_plan_view_of(b->p, out);
    struct bp_operand view = out;
    uint64_t offset;

    if (!like || like->rank != inv->out[i].rank)
        return bp_error(BP_ERR_INTERNAL, "%s: its view changed its rank", inv->row->info.name);
    if (out.kind != BP_OPERAND_TEMP)
        TRY(bp_plan_add_dense(b, inv, like, bp_plan_view_of(b->p, base)->dtype, &view));
    offset = (uint64_t)inv->view_offset[i] *
             (bp_dtype_bits(bp_plan_view_of(b->p, view)->dtype) / 8);
    bp_plan_set_view(b->p, view, base, offset, inv->view_stride);
    return out.kind == BP_OPERAND_TEMP ? BP_OK : plan_convert(b, inv, view, out, b->kind);
}

/* Plans a view operator: outputs become views of the input's temporary; outputs that are tensors of
 * the call become copies. */
static enum bp_status plan_view(struct bp_planner *b, const struct bp_invocation *inv,
                                const struct bp_operand *in, const struct bp_operand *out)
{
    uint32_t share = inv->in_at[inv->row->info.out[0].share];
    struct bp_operand base = in[share];
    struct bp_invocation *own = bp_plan_copy_call(inv);
    enum bp_status status;

    if (!own) return bp_plan_no_memory(inv);
    status = plan_infer(b, own, share, &base);
    for (uint32_t i = 0; i < own->n_out && status == BP_OK; i++)
        status = place_view(b, own, i, base, out[i]);
    free(own);
    return status;
}

/* Whether a conversion changes an operand. widen: half types become f32. Otherwise strided tensors
 * become dense, and outputs get their own memory apart from inputs. */
static bool plan_changes(const struct bp_view *v, bool widen)
{
    if (!v) return false;
    return widen ? v->dtype == BP_F16 || v->dtype == BP_BF16 : v->flags & BP_VIEW_STRIDED;
}

static const struct bp_port *port_of(const struct bp_invocation *inv, uint32_t i)
{
    return &inv->row->info.out[bp_out_port(inv->row, inv->out_at, i)];
}

static enum bp_status plan_inner(struct bp_planner *b, struct bp_invocation *inv,
                                 const struct bp_operand *in, const struct bp_operand *out,
                                 bool widen)
{
    uint32_t kind = widen ? BP_FALLBACK_DTYPE : BP_FALLBACK_LAYOUT, before = b->kind;
    struct bp_operand inner_in[BP_FLAT_MAX], inner_out[BP_FLAT_MAX];
    enum bp_status status;

    memcpy(inner_in, in, inv->n_in * sizeof *in); /* operands that do not change stay */
    memcpy(inner_out, out, inv->n_out * sizeof *out);
    for (uint32_t i = 0; i < inv->n_in; i++) {
        const struct bp_view *v = bp_plan_view_of(b->p, in[i]);
        if (!plan_changes(v, widen)) continue;
        TRY(bp_plan_add_dense(b, inv, v, widen ? BP_F32 : v->dtype, &inner_in[i]));
        if (!bp_reads_shape(inv->row, inv->in_at, i))
            TRY(plan_convert(b, inv, in[i], inner_in[i], kind));
    }
    for (uint32_t i = 0; i < inv->n_out; i++) {
        const struct bp_view *v = bp_plan_view_of(b->p, out[i]);
        const struct bp_port *port = port_of(inv, i);
        if (v && port->kind == BP_PORT_UPDATE && plan_changes(v, widen))
            inner_out[i] = inner_in[inv->in_at[port->share]]; /* which has the contents */
        else if (v && (plan_changes(v, widen) || inv->in_place))
            TRY(bp_plan_add_dense(b, inv, v, widen && plan_changes(v, true) ? BP_F32 : v->dtype,
                                  &inner_out[i]));
    }
    bp_plan_set_inputs(b, inv, inner_in);
    for (uint32_t v = 0; widen && v < BP_VAR_COUNT; v++)
        if (inv->dtype[v] == BP_F16 || inv->dtype[v] == BP_BF16) inv->dtype[v] = BP_F32;
    inv->in_place = false;
    status = bp_plan_call(b, inv, inner_in, inner_out);
    b->kind = before;
    TRY(status);
    for (uint32_t i = 0; i < inv->n_out; i++)
        if (inner_out[i].kind != out[i].kind || inner_out[i].index != out[i].index)
            TRY(plan_convert(b, inv, inner_out[i], out[i], kind));
    return BP_OK;
}

static bool changes_any(const struct bp_invocation *inv, const struct bp_view *const *out,
                        bool widen)
{
    bool any = !widen && inv->in_place;

    for (uint32_t i = 0; i < inv->n_in && !any; i++) any = plan_changes(inv->in[i], widen);
    for (uint32_t i = 0; i < inv->n_out && !any; i++) any = plan_changes(out[i], widen);
    return any;
}

/* Whether a dtype attribute defines the result's dtype, so that the result cannot have another
 * one. */
static bool names_dtype(const struct bp_opinfo *op)
{
    for (uint32_t i = 0; i < op->n_attr; i++)
        if (op->attr[i].kind == BP_ATTR_DTYPE) return true;
    return false;
}

static enum bp_status plan_converted(struct bp_planner *b, const struct bp_invocation *inv,
                                     const struct bp_operand *in, const struct bp_operand *out,
                                     bool widen)
{
    struct bp_plan_mark here = {b->p->n_step, b->p->n_temp};
    struct bp_invocation *copy = bp_plan_copy_call(inv);
    enum bp_status status;

    if (!copy) return bp_plan_no_memory(inv);
    status = plan_inner(b, copy, in, out, widen);
    if (status) bp_plan_rewind(b->p, here);
    free(copy);
    return status;
}

/* Assigns an operand to each value of a decomposition. Inputs are those of the call; results that
 * are outputs of the call are written directly to them; the others become temporaries. */
static enum bp_status place_values(struct bp_planner *b, const struct bp_invocation *inv,
                                   const struct bp_graph *graph, struct bp_operand *place)
{
    for (uint32_t v = 0; v < graph->n_value; v++) {
        if (graph->value[v].kind == BP_VALUE_CONSTANT)
            return bp_error(BP_ERR_INTERNAL, "%s: its expansion has a constant",
                            inv->row->info.name);
        if (graph->value[v].kind == BP_VALUE_RESULT && place[v].kind == BP_OPERAND_NONE)
            TRY(bp_plan_add_temp(b, inv, graph->value[v].type, &place[v]));
    }
    return BP_OK;
}

static enum bp_status plan_node(struct bp_planner *b, const struct bp_invocation *outer,
                                 const struct bp_graph *graph, const struct bp_node *node,
                                 const struct bp_operand *place)
{
    struct bp_operand in[BP_FLAT_MAX], out[BP_FLAT_MAX];
    struct bp_invocation *inv = malloc(sizeof *inv);
    enum bp_status status;

    if (!inv) return bp_plan_no_memory(outer);
    if (node->row->updates) { /* its output would not be its input */
        free(inv);
        return bp_error(BP_ERR_INTERNAL, "%s: its expansion has an update, %s",
                        outer->row->info.name, node->row->info.name);
    }
    for (uint32_t i = 0; i < node->n_in; i++)
        in[i] = node->in[i] == BP_NO_VALUE ? (struct bp_operand){0} : place[node->in[i]];
    for (uint32_t i = 0; i < node->n_out; i++)
        out[i] = node->out[i] == BP_NO_VALUE ? (struct bp_operand){0} : place[node->out[i]];
    bp_node_invocation(graph, node, outer->device, inv);
    inv->prefer = outer->prefer;
    inv->allow = outer->allow;
    bp_plan_set_inputs(b, inv, in);
    status = bp_plan_call(b, inv, in, out);
    free(inv);
    return status;
}

static enum bp_status plan_traced(struct bp_planner *b, const struct bp_invocation *inv,
                                  const struct bp_graph *graph, const uint32_t *value,
                                  const struct bp_operand *in, const struct bp_operand *out)
{
    struct bp_operand *place = calloc(graph->n_value + 1, sizeof *place);
    bool copied[BP_PORT_MAX] = {false};
    enum bp_status status;

    if (!place) return bp_plan_no_memory(inv);
    for (uint32_t i = 0, input = 0; i < inv->n_in; i++)
        if (inv->in[i]) place[graph->input[input++]] = in[i];
    for (uint32_t i = 0; i < inv->n_out; i++) {
        if (!bp_invocation_wants(inv, i)) continue;
        copied[i] = place[value[i]].kind != BP_OPERAND_NONE; /* an input, or another output */
        if (!copied[i]) place[value[i]] = out[i];
    }
    status = place_values(b, inv, graph, place);
    for (uint32_t n = 0; n < graph->n_node && status == BP_OK; n++)
        status = plan_node(b, inv, graph, &graph->node[n], place);
    for (uint32_t i = 0; i < inv->n_out && status == BP_OK; i++)
        if (copied[i])
            status = plan_convert(b, inv, place[value[i]], out[i], BP_FALLBACK_DECOMPOSE);
    free(place);
    return status;
}

static enum bp_status plan_decompose(struct bp_planner *b, const struct bp_invocation *inv,
                                     const struct bp_operand *in, const struct bp_operand *out)
{
    struct bp_plan_mark here = {b->p->n_step, b->p->n_temp};
    uint32_t value[BP_PORT_MAX], before = b->kind;
    struct bp_graph *graph;
    enum bp_status status;

    if (b->depth == DEPTH_MAX)
        return bp_error(BP_ERR_INTERNAL, "%s: its expansion leads back to itself",
                        inv->row->info.name);
    TRY(bp_graph_make(&graph));
    status = bp_graph_trace_decomposed(graph, inv->row, inv->attrs, inv->in, inv->n_in,
                                       bp_wants_flat(inv->row, inv->want, inv->n_out), value);
    b->depth++;
    b->kind = BP_FALLBACK_DECOMPOSE;
    if (status == BP_OK) status = plan_traced(b, inv, graph, value, in, out);
    b->kind = before;
    b->depth--;
    bp_graph_release(graph);
    if (status) bp_plan_rewind(b->p, here);
    return status;
}

/* Whether the operator itself has the dtypes of the call. If not, only a kernel row has them:
 * indices of 32 bits that an operator of 64-bit indices returns (bp_plan_narrow). */
static bool plan_is_defined(const struct bp_invocation *inv)
{
    bool defined = true;

    for (uint32_t v = 0; v < BP_VAR_COUNT; v++)
        defined &= !(inv->bound >> v & 1) || inv->row->info.types[v] >> inv->dtype[v] & 1;
    return defined;
}

/* Whether a call that names its kernel may convert indices: the kernel could run no call without
 * that, because the operator does not have i32. */
static bool plan_must_narrow(const struct bp_invocation *inv)
{
    uint32_t v = bp_opinfo_index_output(&inv->row->info);

    return v < BP_VAR_COUNT && !(inv->row->info.types[v] >> BP_I32 & 1);
}

/* Tries the fallbacks. The policy decides whether paths that change the dtype or the device are
 * allowed. A conversion is itself a step of such a path. It must not consist of conversions of its
 * own kind, and a change of layout must not consist of conversions to another dtype; otherwise they
 * would call each other endlessly. */
static enum bp_status plan_fallback(struct bp_planner *b, const struct bp_invocation *inv,
                                    const struct bp_operand *in, const struct bp_operand *out,
                                    const struct bp_view *const *out_view)
{
    bool converts = b->kind == BP_FALLBACK_LAYOUT || b->kind == BP_FALLBACK_DTYPE;
    enum bp_status status = bp_plan_expand(b, inv, in, out);

    if (bp_plan_is_dead_end(status)) status = bp_plan_narrow(b, inv, in, out);
    if (bp_plan_is_dead_end(status) && b->kind != BP_FALLBACK_LAYOUT &&
        changes_any(inv, out_view, false))
        status = plan_converted(b, inv, in, out, false);
    if (bp_plan_is_dead_end(status) && inv->row->decompose && plan_is_defined(inv))
        status = plan_decompose(b, inv, in, out);
    if (!bp_plan_is_dead_end(status) || bp_fallback_policy(b->p->device->core) == BP_POLICY_DENY)
        return status;
    if (!converts && changes_any(inv, out_view, true) && !names_dtype(&inv->row->info))
        status = plan_converted(b, inv, in, out, true);
    return status;
}

/* If no path exists, the call returns the failure of the first path. */
enum bp_status bp_plan_call(struct bp_planner *b, const struct bp_invocation *inv,
                            const struct bp_operand *in, const struct bp_operand *out)
{
    const struct bp_view *out_view[BP_FLAT_MAX];
    bool is_view = inv->row->is_view;
    struct bp_first_failure first;
    enum bp_status status;

    if (inv->decompose) return plan_decompose(b, inv, in, out);
    for (uint32_t i = 0; i < inv->n_out; i++) out_view[i] = bp_plan_view_of(b->p, out[i]);
    status = is_view ? plan_view(b, inv, in, out) : plan_kernel(b, inv, in, out, out_view);
    if (!bp_plan_is_dead_end(status) || (inv->kernel && !plan_must_narrow(inv))) return status;
    if (bp_invocation_has_layouts(inv)) return status; /* the core cannot copy or convert them */
    if (inv->whole) return bp_plan_expand(b, inv, in, out);
    if (inv->row == &bp_opdef[BP_ROW_assign]) return bp_plan_copy(b, inv, in, out);
    first = bp_plan_first_failure(status);
    if (inv->kernel) status = bp_plan_narrow(b, inv, in, out);
    else if (!is_view) status = plan_fallback(b, inv, in, out, out_view);
    if (status == BP_OK && inv->row == b->p->row)
        bp_fallback_explain(b->p->device, inv->row, NULL, first.why);
    return bp_plan_report(&first, status);
}
