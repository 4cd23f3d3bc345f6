/* SPDX-License-Identifier: Apache-2.0 */
/* pass_epilogue.c: merges the additions and the activation that follow a convolution or a product
 * of matrices into one call of fused_conv or fused_matmul. The merged call stands where the last of
 * these nodes stood; each step merges one node. */
#include "passes.h"
#include "pattern.h"
#include "rewrite.h"

#include "../call/compose.h"
#include "../call/prepared.h"

#include <backplane/ops.h>

#include <stdlib.h>
#include <string.h>

/* ---- tables ---- */

/* An operator whose result may get an epilogue, and the operator that has one. `linear` is a
 * product with a transposed right side. */
struct producer {
    enum bp_row_number row, fused;
    bool transposed;
};
static const struct producer producers[] = {
    {BP_ROW_conv, BP_ROW_fused_conv, false},     {BP_ROW_fused_conv, BP_ROW_fused_conv, false},
    {BP_ROW_matmul, BP_ROW_fused_matmul, false}, {BP_ROW_fused_matmul, BP_ROW_fused_matmul, false},
    {BP_ROW_linear, BP_ROW_fused_matmul, true},
};

/* An operator of one input that fused operators compute at their end, the attribute that must have
 * a value (or NULL), and the attributes that become alpha and beta. */
struct activation {
    enum bp_row_number row;
    enum bp_activation activation;
    const char *attr;
    double is;
    const char *alpha, *beta;
};
static const struct activation activations[] = {
    {BP_ROW_relu, BP_ACTIVATION_RELU, NULL, 0, NULL, NULL},
    {BP_ROW_leaky_relu, BP_ACTIVATION_LEAKY_RELU, NULL, 0, "slope", NULL},
    {BP_ROW_clip, BP_ACTIVATION_CLIP, NULL, 0, "min", "max"},
    {BP_ROW_sigmoid, BP_ACTIVATION_SIGMOID, NULL, 0, NULL, NULL},
    {BP_ROW_tanh, BP_ACTIVATION_TANH, NULL, 0, NULL, NULL},
    {BP_ROW_hard_sigmoid, BP_ACTIVATION_HARD_SIGMOID, NULL, 0, "slope", "offset"},
    {BP_ROW_hard_swish, BP_ACTIVATION_HARD_SWISH, NULL, 0, NULL, NULL},
    {BP_ROW_swish, BP_ACTIVATION_SILU, "beta", 1, NULL, NULL},
    {BP_ROW_gelu, BP_ACTIVATION_GELU, "approximate", 0, NULL, NULL},
    {BP_ROW_gelu, BP_ACTIVATION_GELU_TANH, "approximate", 1, NULL, NULL},
    {BP_ROW_mish, BP_ACTIVATION_MISH, NULL, 0, NULL, NULL},
    {BP_ROW_elu, BP_ACTIVATION_ELU, NULL, 0, "alpha", NULL},
    {BP_ROW_softplus, BP_ACTIVATION_SOFTPLUS, NULL, 0, "beta", "threshold"},
};

/* ---- attributes ---- */

/* Returns an attribute of a node as a number. */
static double attr_number(const struct bp_node *node, const char *name)
{
    return bp_attr_get(bp_attr_find(&node->row->info, name, strlen(name)), node->attrs);
}

static void attr_set(const struct bp_opinfo *op, void *attrs, const char *name, double number)
{
    bp_attr_set(bp_attr_find(op, name, strlen(name)), attrs, number);
}

/* Copies the attributes that both operators have. None of them is a list. */
static void attrs_take(const struct bp_opinfo *op, void *attrs, const struct bp_node *from)
{
    for (uint32_t i = 0; from->attrs && i < from->row->info.n_attr; i++) {
        const struct bp_attr *a = &from->row->info.attr[i],
                             *b = bp_attr_find(op, a->name, strlen(a->name));
        if (b)
            memcpy((char *)attrs + b->offset, (const char *)from->attrs + a->offset, 8u * a->count);
    }
}

/* ---- what may be merged ---- */

enum {
    PORT_BIAS = 2,
    PORT_RESIDUAL = 3,
    PORTS = 4
};

/* A producer and what is merged into it. */
struct merge {
    const struct producer *kind;
    uint32_t node, last;                 /* the producer, and the node that is merged into it */
    uint32_t in[PORTS];                  /* of the fused operator; BP_NO_VALUE: absent */
    const struct activation *activation; /* NULL: that of the producer */
};

static uint32_t epilogue_input(const struct bp_node *node, uint32_t port)
{
    return port < node->row->info.n_in && node->in_at[port] < node->in_at[port + 1]
               ? node->in[node->in_at[port]]
               : BP_NO_VALUE;
}

static bool has_activation(const struct bp_node *node)
{
    const struct bp_attr *a = bp_attr_find(&node->row->info, "activation", 10);

    return a && bp_attr_get(a, node->attrs) != 0;
}

/* A product of integers has no fused operator. A device without a row of fused_conv would compute
 * its parts one by one: where it has a row of `fused`, that one takes the steps behind the
 * convolution. */
static bool takes_dtype(const struct bp_ir *ir, const struct producer *kind, uint32_t dtype)
{
    if (!(bp_opdef[kind->fused].info.types[BP_VAR_T] >> dtype & 1)) return false;
    return kind->fused != BP_ROW_fused_conv ||
           bp_select_has_dtype(ir->device, &bp_opdef[BP_ROW_fused_conv], dtype) ||
           !bp_select_has_dtype(ir->device, &bp_opdef[BP_ROW_fused], dtype);
}

/* Whether value v is computed by a producer for one reader only, has no activation yet, and may be
 * computed where that reader stands: nothing changes the producer's inputs. */
static bool find_producer(const struct bp_ir *ir, uint32_t v, struct merge *m)
{
    const struct bp_ir_value *value = &ir->value[v];
    const struct bp_node *node;

    if (value->kind != BP_VALUE_RESULT || value->uses != 1) return false;
    node = &ir->node[value->node].call;
    if (node->kernel) return false;
    m->kind = NULL;
    for (size_t i = 0; i < sizeof producers / sizeof *producers && !m->kind; i++)
        if (node->row == &bp_opdef[producers[i].row]) m->kind = &producers[i];
    if (!m->kind || has_activation(node) || !takes_dtype(ir, m->kind, value->type->view.dtype))
        return false;
    m->node = value->node;
    m->activation = NULL;
    for (uint32_t p = 0; p < PORTS; p++) {
        m->in[p] = epilogue_input(node, p);
        if (m->in[p] == BP_NO_VALUE) continue;
        m->in[p] = bp_ir_same(ir, m->in[p]);
        if (!bp_ir_is_stable(ir, m->in[p])) return false;
    }
    return true;
}

static bool find_activation(const struct bp_ir *ir, uint32_t n, struct merge *m)
{
    const struct bp_node *node = &ir->node[n].call;

    m->last = n;
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++) {
        const struct activation *a = &activations[i];
        if (node->row != &bp_opdef[a->row] || (a->attr && attr_number(node, a->attr) != a->is))
            continue;
        if (!find_producer(ir, bp_ir_same(ir, node->in[0]), m)) return false;
        m->activation = a;
        return true;
    }
    return false;
}

/* The axis of a bias: that of channels, or the last one. */
static uint32_t bias_axis(const struct merge *m, uint32_t rank)
{
    return m->kind->fused == BP_ROW_fused_conv ? 1 : rank - 1;
}

/* Whether value r, which is added to the result, is a frozen constant with a number for each place
 * of the bias's axis and no other extent but 1. */
static bool is_bias(const struct bp_ir *ir, const struct merge *m, uint32_t r, uint32_t y)
{
    const struct bp_typed_view *b = ir->value[r].type, *of = ir->value[y].type;
    uint32_t axis = bias_axis(m, of->view.rank), skipped = of->view.rank - b->view.rank;

    if (!bp_ir_is_frozen(ir, r) || axis < skipped || b->view.count != of->shape[axis]) return false;
    return b->shape[axis - skipped] == of->shape[axis];
}

/* A product of a vector has no axis for a bias; a bias of a tensor without elements is none. */
static bool takes_bias(const struct bp_ir *ir, const struct merge *m)
{
    return m->in[PORT_BIAS] == BP_NO_VALUE &&
           (m->kind->fused == BP_ROW_fused_conv || ir->value[m->in[1]].type->view.rank > 1);
}

/* Whether one side of an addition is a producer's result and the other its bias or residual. */
static bool find_addition(const struct bp_ir *ir, uint32_t n, uint32_t side, struct merge *m)
{
    const struct bp_node *node = &ir->node[n].call;
    uint32_t v = bp_ir_same(ir, node->in[side]), r = bp_ir_same(ir, node->in[1 - side]);
    uint32_t y = node->out[0];

    if (v == r || !find_producer(ir, v, m) || !bp_ir_is_stable(ir, r) ||
        !bp_same_type(&ir->value[v].type->view, &ir->value[y].type->view))
        return false;
    m->last = n;
    if (takes_bias(ir, m) && is_bias(ir, m, r, y)) {
        m->in[PORT_BIAS] = r;
        return true;
    }
    if (m->in[PORT_RESIDUAL] != BP_NO_VALUE ||
        !bp_same_type(&ir->value[r].type->view, &ir->value[y].type->view))
        return false;
    m->in[PORT_RESIDUAL] = r;
    return true;
}

/* Of two producers that are added, the later one takes the other one's result. */
static bool find_merge(const struct bp_ir *ir, uint32_t n, struct merge *m)
{
    const struct bp_node *node = &ir->node[n].call;
    uint32_t a, b, first;

    if (node->kernel) return false;
    if (node->row != &bp_opdef[BP_ROW_add]) return find_activation(ir, n, m);
    a = ir->value[bp_ir_same(ir, node->in[0])].node;
    b = ir->value[bp_ir_same(ir, node->in[1])].node;
    first = ir->value[bp_ir_same(ir, node->in[0])].kind == BP_VALUE_RESULT && a > b ? 0 : 1;
    return find_addition(ir, n, first, m) || find_addition(ir, n, 1 - first, m);
}

/* ---- rewriting ---- */

static enum bp_status merge_record(struct bp_rewrite *rw, const struct merge *m,
                                   struct bp_tensor **out_result)
{
    const struct bp_node *from = &rw->ir->node[m->node].call, *last = &rw->ir->node[m->last].call;
    const struct bp_opinfo *op = &bp_opdef[m->kind->fused].info;
    struct bp_compose c = bp_compose_begin(bp_rewrite_scope(rw));
    struct bp_tensor *in[PORTS];
    uint64_t attrs[512 / 8];

    memcpy(attrs, op->defaults, op->attrs_size);
    attrs_take(op, attrs, from);
    if (m->kind->transposed) attr_set(op, attrs, "transpose_b", 1);
    if (m->activation) {
        attr_set(op, attrs, "activation", m->activation->activation);
        if (m->activation->alpha)
            attr_set(op, attrs, "alpha", attr_number(last, m->activation->alpha));
        if (m->activation->beta)
            attr_set(op, attrs, "beta", attr_number(last, m->activation->beta));
    }
    for (uint32_t p = 0; p < PORTS; p++) TRY(bp_rewrite_in(rw, m->in[p], &in[p]));
    if (in[PORT_BIAS] && in[PORT_BIAS]->view.rank != 1)
        in[PORT_BIAS] = bp_compose_reshape(&c, in[PORT_BIAS], 1, &in[PORT_BIAS]->view.count);
    bp_compose_keep(&c, bp_compose(&c, m->kind->fused, attrs, in, PORTS), out_result);
    return bp_compose_end(&c);
}

static enum bp_status merge_apply(struct bp_ir *ir, const struct merge *m)
{
    const uint32_t node[2] = {m->node, m->last};
    struct bp_tensor *result = NULL;
    struct bp_rewrite rw;
    enum bp_status status;

    TRY(bp_rewrite_begin(&rw, ir, node, 2));
    status = merge_record(&rw, m, &result);
    if (status == BP_OK) return bp_rewrite_end(&rw, result, ir->node[m->last].call.out[0]);
    bp_rewrite_cancel(&rw);
    return status;
}

enum bp_status bp_pass_epilogue(struct bp_compilation *c)
{
    struct merge m;

    for (uint32_t n = c->ir->first, next; n != BP_NO_VALUE; n = next) {
        next = c->ir->node[n].next;
        if (!find_merge(c->ir, n, &m)) continue;
        TRY(merge_apply(c->ir, &m));
        c->changes++;
    }
    return BP_OK;
}
