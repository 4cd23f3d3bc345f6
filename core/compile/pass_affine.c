/* SPDX-License-Identifier: Apache-2.0 */
/* pass_affine.c: merges a factor and a shift of each channel, which follow a convolution, into its
 * filters and bias: a conv(x, w, b) + t = conv(x, a w, a b + t). They are frozen constants of a
 * batch_norm, mul, div, add or sub. The filters must be frozen too, so that the pass fold computes
 * the products once. Factors and shifts before a convolution are not merged: its padding is neither
 * scaled nor shifted. */
#include "passes.h"
#include "rewrite.h"

#include "../call/compose.h"

#include <backplane/ops.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    NORM_X,
    NORM_SCALE,
    NORM_BIAS,
    NORM_MEAN,
    NORM_VARIANCE,
    NORM_INPUTS
};

/* A convolution and the node that is merged into it. */
struct affine {
    uint32_t conv, last;      /* nodes */
    uint32_t x, w, b;         /* values of the convolution; b: BP_NO_VALUE without a bias */
    uint32_t in[NORM_INPUTS]; /* of a batch_norm; else in[1] is the operand */
    int64_t channels;
    bool transposed;
};

static uint32_t affine_input(const struct bp_ir *ir, const struct bp_node *node, uint32_t port)
{
    if (node->in_at[port] == node->in_at[port + 1] || node->in[node->in_at[port]] == BP_NO_VALUE)
        return BP_NO_VALUE;
    return bp_ir_same(ir, node->in[node->in_at[port]]);
}

static bool node_is(const struct bp_node *node, enum bp_row_number row)
{
    return node->row == &bp_opdef[row];
}

static bool all_frozen(const struct bp_ir *ir, const uint32_t *value, uint32_t n, uint32_t dtype)
{
    for (uint32_t i = 0; i < n; i++)
        if (value[i] != BP_NO_VALUE &&
            (!bp_ir_is_frozen(ir, value[i]) || ir->value[value[i]].type->view.dtype != dtype))
            return false;
    return true;
}

/* Whether a factor has a moderate size: otherwise filters might become infinite that were finite,
 * or a channel would be NaN in another way than before. false for NaN. */
static bool is_moderate(double factor)
{
    return fabs(factor) <= 0x1p40;
}

static bool norm_is_moderate(const struct bp_ir *ir, const struct affine *f)
{
    const struct bp_batch_norm_attrs *attrs = ir->node[f->last].call.attrs;
    double *variance = malloc(2 * (size_t)f->channels * sizeof *variance + 1), *scale;
    bool good;

    if (!variance) return false;
    scale = variance + f->channels;
    for (int64_t i = 0; i < f->channels; i++) scale[i] = 1;
    good = bp_ir_read(ir, f->in[NORM_VARIANCE], f->channels, variance) &&
           (f->in[NORM_SCALE] == BP_NO_VALUE ||
            bp_ir_read(ir, f->in[NORM_SCALE], f->channels, scale));
    for (int64_t i = 0; i < f->channels && good; i++)
        good = is_moderate(scale[i] / sqrt(variance[i] + attrs->epsilon));
    free(variance);
    return good;
}

static bool factor_is_moderate(const struct bp_ir *ir, uint32_t v, bool divides)
{
    int64_t n = ir->value[v].type->view.count;
    double *factor = malloc((size_t)n * sizeof *factor + 1);
    bool good = factor && bp_ir_read(ir, v, n, factor);

    for (int64_t i = 0; i < n && good; i++) good = is_moderate(divides ? 1 / factor[i] : factor[i]);
    free(factor);
    return good;
}

/* Whether an operand has one element, or one for each channel: its other extents are 1. */
static bool is_by_channel(const struct bp_ir *ir, const struct affine *f, uint32_t v, uint32_t y)
{
    const struct bp_typed_view *type = ir->value[v].type;
    uint32_t rank = ir->value[y].type->view.rank, skipped;

    if (type->view.rank > rank) return false;
    if (type->view.count == 1) return true;
    skipped = rank - type->view.rank;
    return type->view.count == f->channels && skipped <= 1 &&
           type->shape[1 - skipped] == f->channels;
}

/* Whether value v is the result of a convolution with frozen filters and no other reader. */
static bool find_conv(const struct bp_ir *ir, uint32_t v, struct affine *f)
{
    const struct bp_node *conv;
    uint32_t dtype = ir->value[v].type->view.dtype;

    if (ir->value[v].kind != BP_VALUE_RESULT || ir->value[v].uses != 1) return false;
    f->conv = ir->value[v].node;
    conv = &ir->node[f->conv].call;
    f->transposed = node_is(conv, BP_ROW_conv_transpose);
    if ((!f->transposed && !node_is(conv, BP_ROW_conv)) || conv->kernel) return false;
    f->x = affine_input(ir, conv, 0);
    f->w = affine_input(ir, conv, 1);
    f->b = affine_input(ir, conv, 2);
    f->channels = ir->value[v].type->shape[1];
    if (dtype != BP_F32 && dtype != BP_F64) return false; /* half types round at other places */
    return bp_ir_is_stable(ir, f->x) && all_frozen(ir, &f->w, 1, dtype) &&
           all_frozen(ir, &f->b, 1, dtype);
}

static bool find_norm(const struct bp_ir *ir, const struct bp_node *node, struct affine *f)
{
    for (uint32_t p = 0; p < NORM_INPUTS; p++) f->in[p] = affine_input(ir, node, p);
    return find_conv(ir, f->in[NORM_X], f) &&
           all_frozen(ir, f->in + 1, NORM_INPUTS - 1, ir->value[f->w].type->view.dtype) &&
           norm_is_moderate(ir, f);
}

/* An operation of two operands, of which one is a convolution's result and the other a constant. */
static bool find_binary(const struct bp_ir *ir, const struct bp_node *node, uint32_t side,
                        struct affine *f)
{
    uint32_t v = affine_input(ir, node, side), c = affine_input(ir, node, 1 - side);

    if (!find_conv(ir, v, f) || !all_frozen(ir, &c, 1, ir->value[f->w].type->view.dtype) ||
        !is_by_channel(ir, f, c, node->out[0]) ||
        !bp_same_type(&ir->value[v].type->view, &ir->value[node->out[0]].type->view))
        return false;
    f->in[1] = c;
    if (node_is(node, BP_ROW_mul)) return factor_is_moderate(ir, c, false);
    if (node_is(node, BP_ROW_div)) return factor_is_moderate(ir, c, true);
    return true;
}

static bool find_affine(const struct bp_ir *ir, uint32_t n, struct affine *f)
{
    const struct bp_node *node = &ir->node[n].call;

    f->last = n;
    if (node->kernel) return false;
    if (node_is(node, BP_ROW_batch_norm)) return find_norm(ir, node, f);
    if (node_is(node, BP_ROW_mul) || node_is(node, BP_ROW_add))
        return find_binary(ir, node, 0, f) || find_binary(ir, node, 1, f);
    if (!node_is(node, BP_ROW_div) && !node_is(node, BP_ROW_sub)) return false;
    return find_binary(ir, node, 0, f);
}

/* ---- recording ---- */

/* Multiplies the filters of each output channel by its factor, which has one element or one for
 * each channel. The filters of a transposed convolution have their output channels in axis 1, each
 * group's share of them. */
static struct bp_tensor *scale_filters(struct bp_compose *c, const struct affine *f,
                                       const struct bp_typed_view *type, int64_t groups,
                                       struct bp_tensor *w, struct bp_tensor *factor)
{
    int64_t shape[BP_RANK_MAX], at[BP_RANK_MAX] = {groups, 1, f->channels / groups};
    uint32_t rank = type->view.rank;

    if (factor && factor->view.count == 1 && f->channels > 1)
        return MAKE(c, mul, NULL, w, bp_compose_reshape(c, factor, 0, NULL));
    if (!f->transposed) {
        for (uint32_t a = 0; a < rank; a++) at[a] = 1;
        at[0] = f->channels;
        return MAKE(c, mul, NULL, w, bp_compose_reshape(c, factor, rank, at));
    }
    shape[0] = groups;
    shape[1] = type->shape[0] / groups;
    for (uint32_t a = 1; a < rank; a++) {
        shape[a + 1] = type->shape[a];
        if (a > 1) at[a + 1] = 1;
    }
    w = MAKE(c, mul, NULL, bp_compose_reshape(c, w, rank + 1, shape),
             bp_compose_reshape(c, factor, rank + 1, at));
    return bp_compose_reshape(c, w, rank, type->shape);
}

/* Returns a constant of one element, or of one for each channel, with an axis of all channels. */
static struct bp_tensor *as_bias(struct bp_compose *c, const struct affine *f, struct bp_tensor *t)
{
    struct bp_expand_attrs expand =
        *(const struct bp_expand_attrs *)bp_opdef[BP_ROW_expand].info.defaults;

    if (!t) return NULL;
    if (t->view.count == f->channels) return bp_compose_reshape(c, t, 1, &f->channels);
    expand.shape = (struct bp_dims){&f->channels, 1};
    t = bp_compose_reshape(c, t, 0, NULL);
    return MAKE(c, assign, NULL, MAKE(c, expand, &expand, t)); /* libraries want it contiguous */
}

/* The factor and the shift of a node: NULL if it has none. */
struct affine_terms {
    struct bp_tensor *factor, *shift;
};

static struct affine_terms norm_terms(struct bp_compose *c, const struct bp_node *node,
                                      struct bp_tensor *const *in)
{
    const struct bp_batch_norm_attrs *attrs = node->attrs;
    struct bp_tensor *a, *t;

    a = MAKE(c, rsqrt, NULL, bp_compose_scale(c, in[NORM_VARIANCE], 1, attrs->epsilon));
    if (in[NORM_SCALE]) a = MAKE(c, mul, NULL, a, in[NORM_SCALE]);
    t = MAKE(c, neg, NULL, MAKE(c, mul, NULL, in[NORM_MEAN], a));
    if (in[NORM_BIAS]) t = MAKE(c, add, NULL, t, in[NORM_BIAS]);
    return (struct affine_terms){a, t};
}

static struct affine_terms affine_terms(struct bp_compose *c, const struct bp_node *node,
                                        struct bp_tensor *const *in)
{
    if (node_is(node, BP_ROW_batch_norm)) return norm_terms(c, node, in);
    if (node_is(node, BP_ROW_mul)) return (struct affine_terms){in[1], NULL};
    if (node_is(node, BP_ROW_div))
        return (struct affine_terms){MAKE(c, reciprocal, NULL, in[1]), NULL};
    if (node_is(node, BP_ROW_sub)) return (struct affine_terms){NULL, MAKE(c, neg, NULL, in[1])};
    return (struct affine_terms){NULL, in[1]};
}

static enum bp_status affine_inputs(struct bp_rewrite *rw, const struct affine *f,
                                    struct bp_tensor *conv[3], struct bp_tensor *in[NORM_INPUTS])
{
    const uint32_t value[3] = {f->x, f->w, f->b};
    bool norm = node_is(&rw->ir->node[f->last].call, BP_ROW_batch_norm);

    for (uint32_t p = 0; p < 3; p++) TRY(bp_rewrite_in(rw, value[p], &conv[p]));
    for (uint32_t p = 1; p < (norm ? NORM_INPUTS : 2); p++)
        TRY(bp_rewrite_in(rw, f->in[p], &in[p]));
    return BP_OK;
}

/* Records conv(x, a w, a b + t). */
static enum bp_status affine_record(struct bp_rewrite *rw, const struct affine *f,
                                    struct bp_tensor **out_result)
{
    const struct bp_node *conv = &rw->ir->node[f->conv].call;
    struct bp_compose c = bp_compose_begin(bp_rewrite_scope(rw));
    struct bp_tensor *in[3], *operand[NORM_INPUTS] = {NULL}, *w, *b, *y;
    struct affine_terms terms;
    int64_t groups = 1;

    TRY(affine_inputs(rw, f, in, operand));
    if (f->transposed) groups = ((const struct bp_conv_transpose_attrs *)conv->attrs)->groups;
    terms = affine_terms(&c, &rw->ir->node[f->last].call, operand);
    w = in[1];
    b = in[2];
    if (terms.factor) w = scale_filters(&c, f, rw->ir->value[f->w].type, groups, w, terms.factor);
    if (b && terms.factor) b = MAKE(&c, mul, NULL, b, as_bias(&c, f, terms.factor));
    if (terms.shift) {
        struct bp_tensor *shift = as_bias(&c, f, terms.shift);
        b = b ? MAKE(&c, add, NULL, b, shift) : shift;
    }
    y = f->transposed ? MAKE(&c, conv_transpose, conv->attrs, in[0], w, b)
                      : MAKE(&c, conv, conv->attrs, in[0], w, b);
    bp_compose_keep(&c, y, out_result);
    return bp_compose_end(&c);
}

static enum bp_status affine_merge(struct bp_ir *ir, const struct affine *f)
{
    const uint32_t node[2] = {f->conv, f->last};
    struct bp_tensor *result = NULL;
    struct bp_rewrite rw;
    enum bp_status status;

    TRY(bp_rewrite_begin(&rw, ir, node, 2));
    status = affine_record(&rw, f, &result);
    if (status == BP_OK) return bp_rewrite_end(&rw, result, ir->node[f->last].call.out[0]);
    bp_rewrite_cancel(&rw);
    return status;
}

static uint32_t affine_round(struct bp_compilation *c, enum bp_status *status)
{
    uint32_t found = 0;
    struct affine f;

    for (uint32_t n = c->ir->first, next; n != BP_NO_VALUE && *status == BP_OK; n = next) {
        next = c->ir->node[n].next;
        if (!find_affine(c->ir, n, &f)) continue;
        *status = affine_merge(c->ir, &f);
        found++;
    }
    return found;
}

/* Filters that were scaled are frozen only after the pass fold, so that a second factor is found in
 * the next round. */
enum bp_status bp_pass_affine(struct bp_compilation *c)
{
    enum bp_status status = BP_OK;
    uint32_t found = 1;

    while (found && status == BP_OK) {
        found = affine_round(c, &status);
        c->changes += found;
        if (status == BP_OK && found) status = bp_pass_fold(c);
        bp_ir_resolve(c->ir);
    }
    return status;
}
