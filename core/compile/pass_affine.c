/* SPDX-License-Identifier: Apache-2.0 */
/* pass_affine.c: merges a factor and a shift of each channel, which follow a convolution, into its
 * filters and bias: a conv(x, w, b) + t = conv(x, a w, a b + t). Those that follow a batch_norm are
 * merged into its scale and bias, those in front of a convolution into its filters and bias
 * (affine_before.c). They are frozen constants of a batch_norm, scale, mul, div, add or sub. The
 * filters must be frozen too, so that the pass fold computes the products once. */
#include "affine.h"

#include <backplane/ops.h>

#include <float.h>
#include <string.h>

/* A convolution or batch_norm, and the node that is merged into it. */
struct affine {
    struct bp_affine op;
    uint32_t node;                /* the convolution or batch_norm */
    uint32_t in[BP_NORM_INPUTS];  /* its inputs; BP_NO_VALUE: absent */
    bool transposed, norm;
};

enum { AFFINE_ROUNDS = 64 };

enum {
    CONV_X,
    CONV_FILTERS,
    CONV_BIAS,
    CONV_INPUTS
};

/* Whether the value that changes is computed by a convolution with frozen filters, or by a
 * batch_norm of frozen constants, for this reader only. */
static bool find_computed(const struct bp_ir *ir, struct affine *f)
{
    const struct bp_ir_value *value = &ir->value[f->op.x];
    const struct bp_node *node;
    uint32_t ports;

    if (value->kind != BP_VALUE_RESULT || value->uses != 1) return false;
    f->node = value->node;
    node = &ir->node[f->node].call;
    f->transposed = bp_affine_is(node, BP_ROW_conv_transpose);
    f->norm = bp_affine_is(node, BP_ROW_batch_norm);
    if ((!f->transposed && !f->norm && !bp_affine_is(node, BP_ROW_conv)) || node->kernel)
        return false;
    ports = f->norm ? BP_NORM_INPUTS : CONV_INPUTS;
    for (uint32_t p = 0; p < BP_NORM_INPUTS; p++)
        f->in[p] = p < ports ? bp_affine_input(ir, node, p) : BP_NO_VALUE;
    return bp_ir_is_stable(ir, f->in[0]) &&
           bp_affine_frozen(ir, f->in + 1, BP_NORM_INPUTS - 1, f->op.dtype);
}

/* Whether the factors are moderate, and the new scale and bias of a batch_norm finite. */
static bool affine_is_finite(const struct bp_ir *ir, const struct affine *f)
{
    struct bp_affine_bounds bounds;
    double scale = 1;

    if (!bp_affine_read(ir, &f->op, &bounds) || !bp_affine_is_moderate(bounds.factor)) return false;
    if (!f->norm) return true;
    if (f->in[BP_NORM_SCALE] != BP_NO_VALUE) scale = bp_affine_largest(ir, f->in[BP_NORM_SCALE]);
    return scale * bounds.factor <= FLT_MAX &&
           bp_affine_largest(ir, f->in[BP_NORM_BIAS]) * bounds.factor + bounds.shift <= FLT_MAX;
}

static bool find_affine(const struct bp_ir *ir, uint32_t n, struct affine *f)
{
    for (uint32_t side = 0; side < 2; side++)
        if (bp_affine_find(ir, n, side, &f->op) && find_computed(ir, f))
            return affine_is_finite(ir, f);
    return false;
}

/* ---- recording ---- */

/* Multiplies the filters of each output channel by its factor, which has one element or one for
 * each channel. The filters of a transposed convolution have their output channels in axis 1, each
 * group's share of them. */
static struct bp_tensor *scale_filters(struct bp_compose *c, const struct affine *f,
                                       const struct bp_typed_view *type, int64_t groups,
                                       struct bp_tensor *w, struct bp_tensor *factor)
{
    int64_t shape[BP_RANK_MAX], at[BP_RANK_MAX] = {groups, 1, f->op.channels / groups};
    uint32_t rank = type->view.rank;

    if (factor && factor->view.count == 1 && f->op.channels > 1)
        return MAKE(c, mul, NULL, w, bp_compose_reshape(c, factor, 0, NULL));
    if (!f->transposed) {
        for (uint32_t a = 0; a < rank; a++) at[a] = 1;
        at[0] = f->op.channels;
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

/* Returns a b + t, or NULL if there is neither. */
static struct bp_tensor *scale_bias(struct bp_compose *c, const struct affine *f,
                                    struct bp_tensor *b, struct bp_affine_terms terms)
{
    struct bp_tensor *shift = bp_affine_vector(c, &f->op, terms.shift);

    if (b && terms.factor) b = MAKE(c, mul, NULL, b, bp_affine_vector(c, &f->op, terms.factor));
    return b && shift ? MAKE(c, add, NULL, b, shift) : b ? b : shift;
}

static struct bp_tensor *conv_record(struct bp_compose *c, const struct bp_ir *ir,
                                     const struct affine *f, struct bp_tensor *const *in,
                                     struct bp_affine_terms terms)
{
    const struct bp_node *conv = &ir->node[f->node].call;
    struct bp_tensor *w = in[CONV_FILTERS], *b = scale_bias(c, f, in[CONV_BIAS], terms);
    int64_t groups = 1;

    if (f->transposed) groups = ((const struct bp_conv_transpose_attrs *)conv->attrs)->groups;
    if (terms.factor)
        w = scale_filters(c, f, ir->value[f->in[CONV_FILTERS]].type, groups, w, terms.factor);
    return f->transposed ? MAKE(c, conv_transpose, conv->attrs, in[CONV_X], w, b)
                         : MAKE(c, conv, conv->attrs, in[CONV_X], w, b);
}

static struct bp_tensor *norm_record(struct bp_compose *c, const struct bp_ir *ir,
                                     const struct affine *f, struct bp_tensor *const *in,
                                     struct bp_affine_terms terms)
{
    struct bp_tensor *scale = in[BP_NORM_SCALE],
                     *factor = bp_affine_vector(c, &f->op, terms.factor);

    if (factor) scale = scale ? MAKE(c, mul, NULL, scale, factor) : factor;
    return MAKE(c, batch_norm, ir->node[f->node].call.attrs, in[BP_NORM_X], scale,
                scale_bias(c, f, in[BP_NORM_BIAS], terms), in[BP_NORM_MEAN], in[BP_NORM_VARIANCE]);
}

static enum bp_status affine_record(struct bp_rewrite *rw, const struct affine *f,
                                    struct bp_tensor **out_result)
{
    struct bp_compose c = bp_compose_begin(bp_rewrite_scope(rw));
    struct bp_tensor *in[BP_NORM_INPUTS];
    struct bp_affine_terms terms;

    for (uint32_t p = 0; p < BP_NORM_INPUTS; p++) TRY(bp_rewrite_in(rw, f->in[p], &in[p]));
    terms = bp_affine_record(&c, rw, &f->op);
    bp_compose_keep(&c,
                    f->norm ? norm_record(&c, rw->ir, f, in, terms)
                            : conv_record(&c, rw->ir, f, in, terms),
                    out_result);
    return bp_compose_end(&c);
}

static enum bp_status affine_merge(struct bp_ir *ir, const struct affine *f)
{
    const uint32_t node[2] = {f->node, f->op.node};
    struct bp_tensor *result = NULL;
    struct bp_rewrite rw;
    enum bp_status status;

    TRY(bp_rewrite_begin(&rw, ir, node, 2));
    status = affine_record(&rw, f, &result);
    if (status == BP_OK) return bp_rewrite_end(&rw, result, ir->node[f->op.node].call.out[0]);
    bp_rewrite_cancel(&rw);
    return status;
}

static uint32_t affine_round(struct bp_compilation *c, enum bp_status *status)
{
    uint32_t found = 0;
    struct affine f;

    for (uint32_t n = c->ir->first, next; n != BP_NO_VALUE && *status == BP_OK; n = next) {
        bool merged = find_affine(c->ir, n, &f);
        next = c->ir->node[n].next;
        *status = merged ? affine_merge(c->ir, &f) : bp_affine_merge_before(c->ir, n, &merged);
        found += merged;
    }
    return found;
}

/* Filters that were scaled are frozen only after the pass fold, so that a second factor is found in
 * the next round. A longer chain than this keeps its first nodes: each round takes as long as the
 * graph. */
enum bp_status bp_pass_affine(struct bp_compilation *c)
{
    enum bp_status status = BP_OK;
    uint32_t found = 1;

    for (int i = 0; i < AFFINE_ROUNDS && found && status == BP_OK; i++) {
        found = affine_round(c, &status);
        c->changes += found;
        if (status == BP_OK && found) status = bp_pass_fold(c);
        bp_ir_resolve(c->ir);
    }
    return status;
}
