/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: has the shape rules, gradients and decompositions of elementwise losses between
 * predictions and targets. Losses with a class for each line are in cross_entropy/shape.c, losses
 * of vectors and lists in shape_rows.c. */
#include "shape.h"
#include <call/shape.h>

#include <backplane/attrs.h>
#include <inttypes.h>
#include <math.h>

#define BEGINS(op) \
    _Static_assert(offsetof(struct bp_##op##_attrs, reduction) == \
                       offsetof(struct bp_loss_attrs, reduction), \
                   #op)
BEGINS(l1_loss);
BEGINS(square_error_cost);
BEGINS(smooth_l1_loss);
BEGINS(huber_loss);
BEGINS(log_loss);
BEGINS(hinge_loss);
BEGINS(soft_margin_loss);
BEGINS(hinge_embedding_loss);
BEGINS(kl_div);
BEGINS(poisson_nll_loss);
BEGINS(bce_loss);
BEGINS(bce_with_logits);
BEGINS(sigmoid_focal_loss);
BEGINS(gaussian_nll_loss);
BEGINS(margin_ranking_loss);
#undef BEGINS

enum bp_status bp_loss_result(struct bp_invocation *inv, const struct bp_type *each, int64_t most)
{
    const struct bp_loss_attrs *a = inv->attrs;

    if (a->reduction < 0 || a->reduction > most)
        return bp_error(BP_ERR_INVALID,
                        "%s: attribute reduction is %" PRId64
                        ", expected 0 (none), 1 (mean)%s 2 (sum)%s",
                        inv->row->info.name, a->reduction, most > 2 ? "," : " or",
                        most > 2 ? " or 3 (sum over the first extent)" : "");
    inv->out[0].rank = a->reduction ? 0 : each->rank;
    memcpy(inv->out[0].shape, each->shape, each->rank * sizeof *each->shape);
    return BP_OK;
}

enum bp_status bp_loss_least(const struct bp_invocation *inv, const char *attr, double value,
                             double least)
{
    if (value >= least) return BP_OK;
    return bp_error(BP_ERR_INVALID, "%s: attribute %s is %g, expected %g or more",
                    inv->row->info.name, attr, value, least);
}

/* Checks that the first `same` inputs have one shape, and that the others broadcast to it. */
static enum bp_status each_of(struct bp_invocation *inv, uint32_t same, int64_t most)
{
    struct bp_type x, all;

    bp_shape_copy(&x, bp_invocation_in(inv, 0));
    for (uint32_t i = 1; i < inv->row->info.n_in; i++) {
        const uint32_t both[] = {0, i};
        if (!bp_invocation_in(inv, i)) continue;
        if (i < same) {
            TRY(bp_shape_expect(inv, i, &x));
            continue;
        }
        TRY(bp_shape_broadcast(inv, both, 2, 0, &all));
        TRY(bp_shape_expect(inv, 0, &all));
    }
    return bp_loss_result(inv, &x, most);
}

enum bp_status bp_infer_loss(struct bp_invocation *inv)
{
    return each_of(inv, 2, 2);
}

enum bp_status bp_infer_margin_ranking_loss(struct bp_invocation *inv)
{
    return each_of(inv, 3, 2);
}

enum bp_status bp_infer_kl_div(struct bp_invocation *inv)
{
    return each_of(inv, 2, 3);
}

enum bp_status bp_infer_smooth_l1_loss(struct bp_invocation *inv)
{
    TRY(bp_loss_least(inv, "beta", ((struct bp_smooth_l1_loss_attrs *)inv->attrs)->beta, 0));
    return bp_infer_loss(inv);
}

enum bp_status bp_infer_huber_loss(struct bp_invocation *inv)
{
    TRY(bp_loss_least(inv, "delta", ((struct bp_huber_loss_attrs *)inv->attrs)->delta, 0));
    return bp_infer_loss(inv);
}

enum bp_status bp_infer_gaussian_nll_loss(struct bp_invocation *inv)
{
    const struct bp_gaussian_nll_loss_attrs *a = inv->attrs;

    TRY(bp_loss_least(inv, "epsilon", a->epsilon, 0));
    return bp_infer_loss(inv);
}

enum bp_status bp_infer_sigmoid_focal_loss(struct bp_invocation *inv)
{
    const struct bp_sigmoid_focal_loss_attrs *a = inv->attrs;
    const struct bp_view *normalizer = bp_invocation_in(inv, 2);
    struct bp_type x;

    bp_shape_copy(&x, bp_invocation_in(inv, 0));
    TRY(bp_loss_least(inv, "gamma", a->gamma, 0));
    TRY(bp_shape_expect(inv, 1, &x));
    if (normalizer && normalizer->count != 1)
        return bp_error(BP_ERR_INVALID,
                        "sigmoid_focal_loss: normalizer has %" PRId64 " elements, expected one",
                        normalizer->count);
    return bp_loss_result(inv, &x, 2);
}

struct bp_loss bp_loss_begin(struct bp_decomposition *e)
{
    struct bp_loss l = {.e = e, .c = bp_compose_begin(e->scope)};

    for (uint32_t i = 0; i < e->row->info.n_in && i < 4; i++) {
        struct bp_tensor *x = e->in[i];
        bool real = x && (x->view.dtype == BP_F16 || x->view.dtype == BP_BF16);
        l.in[i] = real ? bp_compose_widen(&l.c, x) : x;
    }
    return l;
}

struct bp_tensor *bp_loss_sum(struct bp_compose *c, struct bp_tensor *x)
{
    struct bp_sum_attrs a = {.size = sizeof a};

    return MAKE(c, sum, &a, x);
}

struct bp_tensor *bp_loss_mean(struct bp_compose *c, struct bp_tensor *x)
{
    return c->status ? NULL : bp_compose_scale(c, bp_loss_sum(c, x), 1 / (double)x->view.count, 0);
}

enum bp_status bp_loss_end(struct bp_loss *l, struct bp_tensor *t)
{
    int64_t reduction = ((const struct bp_loss_attrs *)l->e->attrs)->reduction;
    const struct bp_tensor *x = l->e->in[0];

    if (reduction == 1) t = bp_loss_mean(&l->c, t);
    else if (reduction) t = bp_loss_sum(&l->c, t);
    if (reduction == 3)
        t = bp_compose_scale(&l->c, t, 1 / (double)(x->view.rank ? x->shape[0] : 1), 0);
    bp_compose_keep(&l->c, bp_compose_cast(&l->c, t, x->view.dtype), &l->e->out[0]);
    return bp_compose_end(&l->c);
}

struct bp_tensor *bp_loss_clip(struct bp_compose *c, struct bp_tensor *x, double min, double max)
{
    struct bp_clip_attrs a = {.size = sizeof a, .min = min, .max = max};

    return MAKE(c, clip, &a, x);
}

struct bp_tensor *bp_loss_mask(struct bp_compose *c, struct bp_tensor *x,
                               struct bp_tensor *condition, bool invert)
{
    struct bp_mask_attrs a = {.size = sizeof a, .invert = invert};

    return MAKE(c, mask, &a, x, condition);
}

struct bp_tensor *bp_loss_above(struct bp_compose *c, struct bp_tensor *x, double number)
{
    return MAKE(c, greater_than, NULL, x, bp_loss_clip(c, x, number, number));
}

static struct bp_tensor *loss_difference(struct bp_loss *l)
{
    return MAKE(&l->c, sub, NULL, l->in[0], l->in[1]);
}

static struct bp_tensor *loss_square(struct bp_compose *c, struct bp_tensor *x)
{
    return MAKE(c, mul, NULL, x, x);
}

enum bp_status bp_decompose_l1_loss(struct bp_decomposition *e)
{
    struct bp_loss l = bp_loss_begin(e);

    return bp_loss_end(&l, MAKE(&l.c, abs, NULL, loss_difference(&l)));
}

enum bp_status bp_decompose_square_error_cost(struct bp_decomposition *e)
{
    struct bp_loss l = bp_loss_begin(e);

    return bp_loss_end(&l, loss_square(&l.c, loss_difference(&l)));
}

/* m (d - m / 2) with m = min(d, most): d^2 / 2 for d up to most. */
static struct bp_tensor *loss_huber(struct bp_loss *l, double most)
{
    struct bp_tensor *d = MAKE(&l->c, abs, NULL, loss_difference(l));
    struct bp_tensor *m = bp_loss_clip(&l->c, d, -INFINITY, most);

    return MAKE(&l->c, mul, NULL, m, MAKE(&l->c, sub, NULL, d, bp_compose_scale(&l->c, m, 0.5, 0)));
}

enum bp_status bp_decompose_huber_loss(struct bp_decomposition *e)
{
    struct bp_loss l = bp_loss_begin(e);

    return bp_loss_end(&l, loss_huber(&l, ((const struct bp_huber_loss_attrs *)e->attrs)->delta));
}

enum bp_status bp_decompose_smooth_l1_loss(struct bp_decomposition *e)
{
    double beta = ((const struct bp_smooth_l1_loss_attrs *)e->attrs)->beta;
    struct bp_loss l = bp_loss_begin(e);

    if (beta == 0) return bp_loss_end(&l, MAKE(&l.c, abs, NULL, loss_difference(&l)));
    return bp_loss_end(&l, bp_compose_scale(&l.c, loss_huber(&l, beta), 1 / beta, 0));
}

/* y a + (1 - y) b */
static struct bp_tensor *loss_mixed(struct bp_loss *l, struct bp_tensor *a, struct bp_tensor *b)
{
    struct bp_tensor *y = l->in[1], *rest = bp_compose_scale(&l->c, y, -1, 1);

    return MAKE(&l->c, add, NULL, MAKE(&l->c, mul, NULL, y, a), MAKE(&l->c, mul, NULL, rest, b));
}

enum bp_status bp_decompose_log_loss(struct bp_decomposition *e)
{
    double epsilon = ((const struct bp_log_loss_attrs *)e->attrs)->epsilon;
    struct bp_loss l = bp_loss_begin(e);
    struct bp_tensor *is = bp_compose_scale(&l.c, l.in[0], 1, epsilon),
                     *is_not = bp_compose_scale(&l.c, l.in[0], -1, 1 + epsilon);

    is = loss_mixed(&l, MAKE(&l.c, log, NULL, is), MAKE(&l.c, log, NULL, is_not));
    return bp_loss_end(&l, MAKE(&l.c, neg, NULL, is));
}

enum bp_status bp_decompose_hinge_loss(struct bp_decomposition *e)
{
    struct bp_loss l = bp_loss_begin(e);
    struct bp_tensor *t = bp_compose_scale(&l.c, l.in[1], 2, -1);

    t = bp_compose_scale(&l.c, MAKE(&l.c, mul, NULL, t, l.in[0]), -1, 1);
    return bp_loss_end(&l, MAKE(&l.c, relu, NULL, t));
}

enum bp_status bp_decompose_soft_margin_loss(struct bp_decomposition *e)
{
    struct bp_loss l = bp_loss_begin(e);
    struct bp_tensor *t = MAKE(&l.c, mul, NULL, l.in[0], l.in[1]);

    return bp_loss_end(&l, MAKE(&l.c, neg, NULL, MAKE(&l.c, log_sigmoid, NULL, t)));
}

enum bp_status bp_decompose_hinge_embedding(struct bp_decomposition *e)
{
    double margin = ((const struct bp_hinge_embedding_loss_attrs *)e->attrs)->margin;
    struct bp_loss l = bp_loss_begin(e);
    struct bp_tensor *same = bp_loss_above(&l.c, l.in[1], 0);
    struct bp_tensor *far = MAKE(&l.c, relu, NULL, bp_compose_scale(&l.c, l.in[0], -1, margin));

    return bp_loss_end(&l, MAKE(&l.c, where, NULL, same, l.in[0], far));
}

enum bp_status bp_decompose_kl_div(struct bp_decomposition *e)
{
    struct bp_loss l = bp_loss_begin(e);
    struct bp_tensor *x = l.in[0], *y = l.in[1];

    if (((const struct bp_kl_div_attrs *)e->attrs)->log_target)
        return bp_loss_end(
            &l, MAKE(&l.c, mul, NULL, MAKE(&l.c, exp, NULL, y), MAKE(&l.c, sub, NULL, y, x)));
    return bp_loss_end(
        &l, MAKE(&l.c, sub, NULL, MAKE(&l.c, xlogy, NULL, y, y), MAKE(&l.c, mul, NULL, y, x)));
}

/* y log y - y + log(2 pi y) / 2 where y > 1, else 0. */
static struct bp_tensor *loss_stirling(struct bp_compose *c, struct bp_tensor *y)
{
    struct bp_tensor *most = bp_loss_clip(c, y, 1, INFINITY), *log = MAKE(c, log, NULL, most);
    struct bp_tensor *s = MAKE(c, sub, NULL, MAKE(c, mul, NULL, most, log), most);

    s = MAKE(c, add, NULL, s, bp_compose_scale(c, log, 0.5, 0x1.d67f1c864beb5p-1));
    return bp_loss_mask(c, s, bp_loss_above(c, y, 1), false);
}

enum bp_status bp_decompose_poisson_nll_loss(struct bp_decomposition *e)
{
    const struct bp_poisson_nll_loss_attrs *a = e->attrs;
    struct bp_loss l = bp_loss_begin(e);
    struct bp_tensor *x = l.in[0], *y = l.in[1], *count = x, *log = x;

    if (a->log_input) count = MAKE(&l.c, exp, NULL, x);
    else log = MAKE(&l.c, log, NULL, bp_compose_scale(&l.c, x, 1, a->epsilon));
    x = MAKE(&l.c, sub, NULL, count, MAKE(&l.c, mul, NULL, y, log));
    return bp_loss_end(&l, a->full ? MAKE(&l.c, add, NULL, x, loss_stirling(&l.c, y)) : x);
}

/* The logarithm of x, or of 1 - x (other), not below -100. */
static struct bp_tensor *bounded_log(struct bp_compose *c, struct bp_tensor *x, bool other)
{
    if (other) x = bp_compose_scale(c, x, -1, 1);
    return bp_loss_clip(c, MAKE(c, log, NULL, x), -100, INFINITY);
}

enum bp_status bp_decompose_bce_loss(struct bp_decomposition *e)
{
    struct bp_loss l = bp_loss_begin(e);
    struct bp_tensor *t = loss_mixed(&l, bounded_log(&l.c, l.in[0], false),
                                     bounded_log(&l.c, l.in[0], true));

    t = MAKE(&l.c, neg, NULL, t);
    return bp_loss_end(&l, l.in[2] ? MAKE(&l.c, mul, NULL, t, l.in[2]) : t);
}

/* Returns the gradient of each element's loss, of the shape of x: dy without the reduction. */
static struct bp_tensor *loss_share(struct bp_compose *c, struct bp_grad *g, struct bp_tensor *x)
{
    int64_t reduction = ((const struct bp_loss_attrs *)g->attrs)->reduction;
    struct bp_tensor *d = bp_compose_widen(c, g->dy[0]);
    struct bp_expand_attrs a;

    if (!reduction || c->status) return d;
    if (reduction == 1) d = bp_compose_scale(c, d, 1 / (double)x->view.count, 0);
    a = (struct bp_expand_attrs){.size = sizeof a, .shape = {x->shape, x->view.rank}};
    return MAKE(c, expand, &a, d);
}

/* The gradient of x is computed as one quotient, which is finite where x is 0 or 1. */
enum bp_status bp_grad_bce_loss(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);
    uint32_t dtype = g->in[0]->view.dtype;
    struct bp_tensor *x = bp_compose_widen(&c, g->in[0]), *y = bp_compose_widen(&c, g->in[1]);
    struct bp_tensor *d = loss_share(&c, g, x), *is, *is_not, *t, *weighted = d;

    if (g->in[2]) weighted = MAKE(&c, mul, NULL, d, bp_compose_widen(&c, g->in[2]));
    if (g->want[0]) {
        t = MAKE(&c, mul, NULL, x, bp_compose_scale(&c, x, -1, 1));
        t = MAKE(&c, div, NULL, MAKE(&c, sub, NULL, x, y), bp_loss_clip(&c, t, 1e-12, INFINITY));
        t = MAKE(&c, mul, NULL, weighted, t);
        bp_compose_keep(&c, bp_compose_cast(&c, t, dtype), &g->dx[0]);
    }
    if (g->want[1] || g->want[2]) {
        is = bounded_log(&c, x, false);
        is_not = bounded_log(&c, x, true);
        t = MAKE(&c, sub, NULL, is_not, is);
        if (g->want[1])
            bp_compose_keep(&c, bp_compose_cast(&c, MAKE(&c, mul, NULL, weighted, t), dtype),
                            &g->dx[1]);
        t = MAKE(&c, sub, NULL, MAKE(&c, mul, NULL, y, t), is_not);
        if (g->want[2])
            bp_compose_keep(
                &c,
                bp_compose_cast(&c, bp_compose_sum_to(&c, MAKE(&c, mul, NULL, d, t), g->in[2]),
                                dtype),
                &g->dx[2]);
    }
    return bp_compose_end(&c);
}

/* log s(x), or log s(-x). */
static struct bp_tensor *log_odds(struct bp_compose *c, struct bp_tensor *x, bool other)
{
    return MAKE(c, log_sigmoid, NULL, other ? MAKE(c, neg, NULL, x) : x);
}

enum bp_status bp_decompose_bce_with_logits(struct bp_decomposition *e)
{
    struct bp_loss l = bp_loss_begin(e);
    struct bp_tensor *is = log_odds(&l.c, l.in[0], false), *t;

    if (l.in[3]) is = MAKE(&l.c, mul, NULL, is, l.in[3]);
    t = MAKE(&l.c, neg, NULL, loss_mixed(&l, is, log_odds(&l.c, l.in[0], true)));
    return bp_loss_end(&l, l.in[2] ? MAKE(&l.c, mul, NULL, t, l.in[2]) : t);
}

/* Returns miss^gamma. gamma is a tensor of equal numbers, made from y, so that it does not depend
 * on x. */
static struct bp_tensor *miss_power(struct bp_loss *l, double gamma)
{
    struct bp_tensor *x = l->in[0], *miss;

    miss = loss_mixed(l, MAKE(&l->c, sigmoid, NULL, MAKE(&l->c, neg, NULL, x)),
                      MAKE(&l->c, sigmoid, NULL, x));
    if (gamma == 1) return miss;
    if (gamma == 2) return loss_square(&l->c, miss);
    return MAKE(&l->c, pow, NULL, miss, bp_loss_clip(&l->c, l->in[1], gamma, gamma));
}

enum bp_status bp_decompose_sigmoid_focal_loss(struct bp_decomposition *e)
{
    const struct bp_sigmoid_focal_loss_attrs *a = e->attrs;
    struct bp_loss l = bp_loss_begin(e);
    struct bp_tensor *t = loss_mixed(&l, log_odds(&l.c, l.in[0], false),
                                     log_odds(&l.c, l.in[0], true));

    t = MAKE(&l.c, neg, NULL, t);
    if (a->gamma != 0) t = MAKE(&l.c, mul, NULL, t, miss_power(&l, a->gamma));
    if (a->alpha >= 0)
        t = MAKE(&l.c, mul, NULL, t,
                 bp_compose_scale(&l.c, l.in[1], 2 * a->alpha - 1, 1 - a->alpha));
    if (l.in[2]) t = MAKE(&l.c, div, NULL, t, bp_compose_reshape(&l.c, l.in[2], 0, NULL));
    return bp_loss_end(&l, t);
}

enum bp_status bp_decompose_gaussian_nll_loss(struct bp_decomposition *e)
{
    const struct bp_gaussian_nll_loss_attrs *a = e->attrs;
    struct bp_loss l = bp_loss_begin(e);
    struct bp_tensor *v = bp_loss_clip(&l.c, l.in[2], a->epsilon, INFINITY);
    struct bp_tensor *t = MAKE(&l.c, div, NULL, loss_square(&l.c, loss_difference(&l)), v);

    t = MAKE(&l.c, add, NULL, MAKE(&l.c, log, NULL, v), t);
    return bp_loss_end(&l, bp_compose_scale(&l.c, t, 0.5, a->full ? 0x1.d67f1c864beb5p-1 : 0));
}

enum bp_status bp_decompose_margin_ranking_loss(struct bp_decomposition *e)
{
    double margin = ((const struct bp_margin_ranking_loss_attrs *)e->attrs)->margin;
    struct bp_loss l = bp_loss_begin(e);
    struct bp_tensor *t = MAKE(&l.c, mul, NULL, l.in[2], loss_difference(&l));

    return bp_loss_end(&l, MAKE(&l.c, relu, NULL, bp_compose_scale(&l.c, t, -1, margin)));
}

enum bp_status bp_infer_mse_loss(struct bp_invocation *inv)
{
    const struct bp_view *x = bp_invocation_in(inv, 0);
    struct bp_type same = {0};

    bp_shape_copy(&same, x);
    TRY(bp_shape_expect(inv, 1, &same));
    if (!x->count)
        return bp_error(BP_ERR_INVALID, "mse_loss: x has no elements, expected one or more");
    inv->out[0].rank = 0;
    return BP_OK;
}

/* Half types are computed in f32: the sum of squares would not fit in f16, and a square rounded to
 * a half type would not be exact. */
enum bp_status bp_decompose_mse_loss(struct bp_decomposition *e)
{
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *x = bp_compose_widen(&c, e->in[0]), *y = bp_compose_widen(&c, e->in[1]);
    struct bp_tensor *d = MAKE(&c, sub, NULL, x, y);
    struct bp_tensor *sum = MAKE(&c, sum, NULL, MAKE(&c, mul, NULL, d, d));

    return bp_compose_give(e, &c, bp_compose_scale(&c, sum, 1 / (double)e->in[0]->view.count, 0));
}
