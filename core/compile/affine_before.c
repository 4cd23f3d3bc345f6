/* SPDX-License-Identifier: Apache-2.0 */
/* affine_before.c: merges a factor and a shift of each channel into the filters and the bias of the
 * convolution that reads them: conv(a x + t, w, b) = conv(x, a w, b + sum of t w). A shift is not
 * merged into a convolution with padding, which is not shifted. */
#include "affine.h"

#include <backplane/ops.h>

#include <float.h>
#include <string.h>

enum { SHIFT_MAX = 1024 }; /* of a shift over the factor */

struct before {
    struct bp_affine op;
    uint32_t conv, w, b; /* node; values, b: BP_NO_VALUE without a bias */
};

static bool conv_has_padding(const struct bp_conv_attrs *attrs)
{
    for (int i = 0; i < 6; i++)
        if (attrs->pad[i]) return true;
    return false;
}

/* Whether all that the merge computes is finite, with a margin for the sums. x - 1e6 may be small
 * where x is not: then sums of x would cancel, so shifts must not be much larger than factors. */
static bool before_is_finite(const struct bp_ir *ir, const struct before *f)
{
    const struct bp_typed_view *w = ir->value[f->w].type;
    double filter, terms = (double)w->view.count / (double)w->shape[0];
    struct bp_affine_bounds bounds;

    if (!bp_affine_read(ir, &f->op, &bounds) || !bp_affine_is_moderate(bounds.factor) ||
        bounds.shift > SHIFT_MAX * bounds.factor)
        return false;
    filter = bp_affine_largest(ir, f->w);
    return filter * bounds.factor <= FLT_MAX &&
           terms * filter * bounds.shift + bp_affine_largest(ir, f->b) <= FLT_MAX / 2;
}

static bool find_before(const struct bp_ir *ir, uint32_t n, struct before *f)
{
    const struct bp_node *conv = &ir->node[n].call;
    uint32_t v, m;

    if (!bp_affine_is(conv, BP_ROW_conv) || conv->kernel) return false;
    v = bp_affine_input(ir, conv, 0);
    if (ir->value[v].kind != BP_VALUE_RESULT || ir->value[v].uses != 1) return false;
    m = ir->value[v].node;
    f->conv = n;
    f->w = bp_affine_input(ir, conv, 1);
    f->b = bp_affine_input(ir, conv, 2);
    if (!bp_affine_find(ir, m, 0, &f->op) && !bp_affine_find(ir, m, 1, &f->op)) return false;
    return bp_ir_is_stable(ir, f->op.x) && ir->value[f->w].type->view.count &&
           bp_affine_frozen(ir, &f->w, 1, f->op.dtype) &&
           bp_affine_frozen(ir, &f->b, 1, f->op.dtype) &&
           !(bp_affine_shifts(ir, &f->op) && conv_has_padding(conv->attrs)) &&
           before_is_finite(ir, f);
}

/* The filters with an axis for their group: groups, filters of a group, channels of a group and the
 * window; and the shape of a term of each channel beside them. */
struct grouped {
    uint32_t rank;
    int64_t shape[BP_RANK_MAX], at[BP_RANK_MAX];
};

static struct grouped grouped_shape(const struct bp_typed_view *w, int64_t groups)
{
    struct grouped g = {.rank = w->view.rank + 1u};

    g.shape[0] = g.at[0] = groups;
    g.shape[1] = w->shape[0] / groups;
    g.shape[2] = g.at[2] = w->shape[1];
    g.at[1] = 1;
    for (uint32_t i = 3; i < g.rank; i++) {
        g.shape[i] = w->shape[i - 1];
        g.at[i] = 1;
    }
    return g;
}

static struct bp_tensor *grouped_product(struct bp_compose *c, const struct before *f,
                                         const struct grouped *g, struct bp_tensor *w,
                                         struct bp_tensor *term)
{
    term = bp_compose_reshape(c, bp_affine_vector(c, &f->op, term), g->rank, g->at);
    return MAKE(c, mul, NULL, bp_compose_reshape(c, w, g->rank, g->shape), term);
}

static enum bp_status before_record(struct bp_rewrite *rw, const struct before *f,
                                    struct bp_tensor **out_result)
{
    static const int64_t inner[] = {2, 3, 4, 5};
    const struct bp_typed_view *type = rw->ir->value[f->w].type;
    const struct bp_conv_attrs *attrs = rw->ir->node[f->conv].call.attrs;
    struct grouped g = grouped_shape(type, attrs->groups);
    struct bp_compose c = bp_compose_begin(bp_rewrite_scope(rw));
    struct bp_affine_terms terms;
    struct bp_tensor *x, *w, *b, *sum, *scaled;

    TRY(bp_rewrite_in(rw, f->op.x, &x));
    TRY(bp_rewrite_in(rw, f->w, &w));
    TRY(bp_rewrite_in(rw, f->b, &b));
    terms = bp_affine_record(&c, rw, &f->op);
    scaled = w;
    if (terms.factor)
        scaled = bp_compose_reshape(&c, grouped_product(&c, f, &g, w, terms.factor),
                                    type->view.rank, type->shape);
    if (terms.shift) {
        sum = bp_compose_sum(&c, grouped_product(&c, f, &g, w, terms.shift), inner, g.rank - 2,
                             false);
        sum = bp_compose_reshape(&c, sum, 1, type->shape);
        b = b ? MAKE(&c, add, NULL, b, sum) : sum;
    }
    bp_compose_keep(&c, MAKE(&c, conv, attrs, x, scaled, b), out_result);
    return bp_compose_end(&c);
}

enum bp_status bp_affine_merge_before(struct bp_ir *ir, uint32_t n, bool *out_merged)
{
    struct bp_tensor *result = NULL;
    struct bp_rewrite rw;
    enum bp_status status;
    struct before f;

    *out_merged = find_before(ir, n, &f);
    if (!*out_merged) return BP_OK;
    TRY(bp_rewrite_begin(&rw, ir, (const uint32_t[]){f.op.node, f.conv}, 2));
    status = before_record(&rw, &f, &result);
    if (status == BP_OK) return bp_rewrite_end(&rw, result, ir->node[f.conv].call.out[0]);
    bp_rewrite_cancel(&rw);
    return status;
}
