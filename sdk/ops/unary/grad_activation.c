/* SPDX-License-Identifier: Apache-2.0 */
/* grad_activation.c: builds gradients of activations: dx = dy f'(x), computed from y where that is
 * simpler. For an f with kinks, dx is an operator <op>_grad(x, dy), which is linear in dy. An
 * activation that is decomposed takes its gradient from its decomposition. */
#include <call/compose.h>

#include <backplane/attrs.h>
#include <math.h>

static enum bp_status activation_keep(struct bp_grad *g, struct bp_compose *c, uint32_t into,
                                      struct bp_tensor *dx)
{
    if (g->want[into]) /* x and dy may have been broadcast to each other */
        bp_compose_keep(c, bp_compose_sum_to(c, dx, g->in[into]), &g->dx[into]);
    return bp_compose_end(c);
}

static struct bp_tensor *activation_times(struct bp_compose *c, struct bp_tensor *a,
                                          struct bp_tensor *b)
{
    return MAKE(c, mul, NULL, a, b);
}

/* Builds dx from x and dy by operator `row`, which has the attributes of the forward or none. */
static enum bp_status by_row(struct bp_grad *g, enum bp_row_number row, struct bp_tensor *x,
                             uint32_t into)
{
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *in[] = {x, g->dy[0]};

    return activation_keep(g, &c, into,
                           g->want[into] ? bp_compose(&c, row, g->attrs, in, 2) : NULL);
}

/* Returns dy where min < x < max, else 0. */
static struct bp_tensor *activation_inside(struct bp_compose *c, struct bp_tensor *x,
                                           struct bp_tensor *dy, double min, double max)
{
    struct bp_clip_grad_attrs a = {.size = sizeof a, .min = min, .max = max};

    return MAKE(c, clip_grad, &a, x, dy);
}

static enum bp_status by_inside(struct bp_grad *g, double min, double max)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    return activation_keep(g, &c, 0, activation_inside(&c, g->in[0], g->dy[0], min, max));
}

enum bp_status bp_grad_relu(struct bp_grad *g)
{
    return by_row(g, BP_ROW_relu_grad, g->in[0], 0);
}

enum bp_status bp_grad_relu_grad(struct bp_grad *g)
{
    return by_row(g, BP_ROW_relu_grad, g->in[0], 1);
}

enum bp_status bp_grad_leaky_relu(struct bp_grad *g)
{
    return by_row(g, BP_ROW_leaky_relu_grad, g->in[0], 0);
}

enum bp_status bp_grad_leaky_relu_grad(struct bp_grad *g)
{
    return by_row(g, BP_ROW_leaky_relu_grad, g->in[0], 1);
}

/* clip and hard_tanh have the layout of attributes of clip_grad. */
enum bp_status bp_grad_clip(struct bp_grad *g)
{
    return by_row(g, BP_ROW_clip_grad, g->in[0], 0);
}

enum bp_status bp_grad_hard_tanh(struct bp_grad *g)
{
    return by_row(g, BP_ROW_clip_grad, g->in[0], 0);
}

enum bp_status bp_grad_clip_grad(struct bp_grad *g)
{
    return by_row(g, BP_ROW_clip_grad, g->in[0], 1);
}

enum bp_status bp_grad_nan_to_num(struct bp_grad *g)
{
    return by_inside(g, -INFINITY, INFINITY);
}

enum bp_status bp_grad_relu6(struct bp_grad *g)
{
    return by_inside(g, 0, 6);
}

enum bp_status bp_grad_thresholded_relu(struct bp_grad *g)
{
    return by_inside(g, ((const struct bp_thresholded_relu_attrs *)g->attrs)->threshold, INFINITY);
}

enum bp_status bp_grad_hard_sigmoid(struct bp_grad *g)
{
    const struct bp_hard_sigmoid_attrs *a = g->attrs;
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *line = bp_compose_scale(&c, g->in[0], a->slope, a->offset);

    return activation_keep(
        g, &c, 0, activation_inside(&c, line, bp_compose_scale(&c, g->dy[0], a->slope, 0), 0, 1));
}

enum bp_status bp_grad_hard_swish(struct bp_grad *g)
{
    return by_row(g, BP_ROW_hard_swish_grad, g->in[0], 0);
}

/* The gradient in x is dy / 3 where |x| < 3. */
enum bp_status bp_grad_hard_swish_grad(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    if (g->want[0]) {
        struct bp_tensor *third = bp_compose_scale(&c, activation_times(&c, g->dy[0], g->in[1]),
                                                   1.0 / 3, 0);
        bp_compose_keep(&c, activation_inside(&c, g->in[0], third, -3, 3), &g->dx[0]);
    }
    return activation_keep(g, &c, 1,
                           g->want[1] ? MAKE(&c, hard_swish_grad, NULL, g->in[0], g->dy[0]) : NULL);
}

/* hard_shrink and soft_shrink have the layout of attributes of hard_shrink_grad. */
enum bp_status bp_grad_hard_shrink(struct bp_grad *g)
{
    return by_row(g, BP_ROW_hard_shrink_grad, g->in[0], 0);
}

enum bp_status bp_grad_soft_shrink(struct bp_grad *g)
{
    return by_row(g, BP_ROW_hard_shrink_grad, g->in[0], 0);
}

enum bp_status bp_grad_shrink(struct bp_grad *g)
{
    const struct bp_shrink_attrs *a = g->attrs;
    struct bp_hard_shrink_grad_attrs beyond = {.size = sizeof beyond, .threshold = a->lambd};
    struct bp_compose c = bp_compose_begin(g->scope);

    return activation_keep(g, &c, 0, MAKE(&c, hard_shrink_grad, &beyond, g->in[0], g->dy[0]));
}

enum bp_status bp_grad_hard_shrink_grad(struct bp_grad *g)
{
    return by_row(g, BP_ROW_hard_shrink_grad, g->in[0], 1);
}

/* dx = dy where x > 0, else dy alpha e^(rate x). */
static enum bp_status by_elu_grad(struct bp_grad *g, double alpha, double rate, double factor)
{
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_elu_grad_attrs a = {.size = sizeof a, .alpha = alpha, .rate = rate};
    struct bp_tensor *dy = factor == 1 ? g->dy[0] : bp_compose_scale(&c, g->dy[0], factor, 0);

    return activation_keep(g, &c, 0, MAKE(&c, elu_grad, &a, g->in[0], dy));
}

enum bp_status bp_grad_elu(struct bp_grad *g)
{
    return by_elu_grad(g, ((const struct bp_elu_attrs *)g->attrs)->alpha, 1, 1);
}

enum bp_status bp_grad_celu(struct bp_grad *g)
{
    return by_elu_grad(g, 1, 1 / ((const struct bp_celu_attrs *)g->attrs)->alpha, 1);
}

enum bp_status bp_grad_selu(struct bp_grad *g)
{
    const struct bp_selu_attrs *a = g->attrs;

    return by_elu_grad(g, a->alpha, 1, a->scale);
}

/* The gradient in x, with v = rate dy g, is elu_grad(x, v) where x <= 0. Where x > 0 it is 0: there
 * elu_grad and relu_grad both are v, and the difference cancels. */
enum bp_status bp_grad_elu_grad(struct bp_grad *g)
{
    const struct bp_elu_grad_attrs *a = g->attrs;
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *x = g->in[0];

    if (g->want[0]) {
        struct bp_tensor *v = bp_compose_scale(&c, activation_times(&c, g->dy[0], g->in[1]),
                                               a->rate, 0);
        bp_compose_keep(&c,
                        MAKE(&c, sub, NULL, MAKE(&c, elu_grad, a, x, v),
                             MAKE(&c, relu_grad, NULL, x, v)),
                        &g->dx[0]);
    }
    return activation_keep(g, &c, 1, g->want[1] ? MAKE(&c, elu_grad, a, x, g->dy[0]) : NULL);
}

enum bp_status bp_grad_sigmoid(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *y = g->out[0];

    return activation_keep(
        g, &c, 0,
        activation_times(&c, g->dy[0], activation_times(&c, y, bp_compose_scale(&c, y, -1, 1))));
}

enum bp_status bp_grad_log_sigmoid(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *d = MAKE(&c, sigmoid, NULL, MAKE(&c, neg, NULL, g->in[0]));

    return activation_keep(g, &c, 0, activation_times(&c, g->dy[0], d));
}

/* With s = sigmoid(beta x): s + beta y (1 - s). */
static enum bp_status by_swish(struct bp_grad *g, double beta)
{
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *x = beta == 1 ? g->in[0] : bp_compose_scale(&c, g->in[0], beta, 0);
    struct bp_tensor *s = MAKE(&c, sigmoid, NULL, x);
    struct bp_tensor *rest = activation_times(&c, g->out[0], bp_compose_scale(&c, s, -beta, beta));

    return activation_keep(g, &c, 0, activation_times(&c, g->dy[0], MAKE(&c, add, NULL, s, rest)));
}

enum bp_status bp_grad_silu(struct bp_grad *g)
{
    return by_swish(g, 1);
}

enum bp_status bp_grad_swish(struct bp_grad *g)
{
    return by_swish(g, ((const struct bp_swish_attrs *)g->attrs)->beta);
}

/* With t = tanh(softplus(x)), so that y = x t: t + (1 - t) (1 + t) x sigmoid(x). */
enum bp_status bp_grad_mish(struct bp_grad *g)
{
    struct bp_softplus_attrs smooth = {.size = sizeof smooth, .beta = 1, .threshold = INFINITY};
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *x = g->in[0];
    struct bp_tensor *t = MAKE(&c, tanh, NULL, MAKE(&c, softplus, &smooth, x));
    struct bp_tensor *d = activation_times(&c, bp_compose_scale(&c, t, -1, 1),
                                           bp_compose_scale(&c, t, 1, 1));

    d = MAKE(&c, add, NULL, t, activation_times(&c, d, MAKE(&c, silu, NULL, x)));
    return activation_keep(g, &c, 0, activation_times(&c, g->dy[0], d));
}

/* 1 / (1 + |x|)^2. */
enum bp_status bp_grad_softsign(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *d = bp_compose_scale(&c, MAKE(&c, abs, NULL, g->in[0]), 1, 1);

    return activation_keep(g, &c, 0, MAKE(&c, div, NULL, g->dy[0], MAKE(&c, square, NULL, d)));
}

/* tanh(x)^2. */
enum bp_status bp_grad_tanh_shrink(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *t = MAKE(&c, tanh, NULL, g->in[0]);

    return activation_keep(g, &c, 0, activation_times(&c, g->dy[0], MAKE(&c, square, NULL, t)));
}

/* With t = tanh(a x): a b (1 - t) (1 + t). */
enum bp_status bp_grad_stanh(struct bp_grad *g)
{
    const struct bp_stanh_attrs *a = g->attrs;
    struct bp_compose c = bp_compose_begin(g->scope);
    double factor = a->scale_a * a->scale_b;
    struct bp_tensor *t = MAKE(&c, tanh, NULL, bp_compose_scale(&c, g->in[0], a->scale_a, 0));
    struct bp_tensor *d = activation_times(&c, bp_compose_scale(&c, t, -factor, factor),
                                           bp_compose_scale(&c, t, 1, 1));

    return activation_keep(g, &c, 0, activation_times(&c, g->dy[0], d));
}

/* 1 / (x (1 - x)); 0 where x was clipped. */
enum bp_status bp_grad_logit(struct bp_grad *g)
{
    double eps = ((const struct bp_logit_attrs *)g->attrs)->eps;
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *x = g->in[0], *d = activation_times(&c, x, bp_compose_scale(&c, x, -1, 1));

    d = MAKE(&c, div, NULL, g->dy[0], d);
    return activation_keep(g, &c, 0, eps > 0 ? activation_inside(&c, x, d, eps, 1 - eps) : d);
}

/* softplus has the layout of attributes of softplus_grad. */
enum bp_status bp_grad_softplus(struct bp_grad *g)
{
    return by_row(g, BP_ROW_softplus_grad, g->in[0], 0);
}

/* softplus_grad is dy s, where s is a sigmoid or 1; s' = beta s (1 - s), which is 0 where s is
 * 1. */
enum bp_status bp_grad_softplus_grad(struct bp_grad *g)
{
    const struct bp_softplus_grad_attrs *a = g->attrs;
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *s = MAKE(&c, softplus_grad, a, g->in[0], g->dy[0]);

    if (g->want[0]) {
        struct bp_tensor *rest = MAKE(&c, sub, NULL, g->in[1], g->out[0]); /* dy (1 - s) */
        bp_compose_keep(&c, bp_compose_scale(&c, activation_times(&c, s, rest), a->beta, 0),
                        &g->dx[0]);
    }
    return activation_keep(g, &c, 1, s);
}

/* Decomposes soft_relu into operators that have gradients. Half types are computed in f32, to which
 * the threshold is rounded. */
enum bp_status bp_decompose_soft_relu(struct bp_decomposition *e)
{
    const struct bp_soft_relu_attrs *a = e->attrs;
    struct bp_clip_attrs ends = {.size = sizeof ends, .min = -a->threshold, .max = a->threshold};
    struct bp_softplus_attrs smooth = {.size = sizeof smooth, .beta = 1, .threshold = INFINITY};
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *x = MAKE(&c, clip, &ends, bp_compose_widen(&c, e->in[0]));

    return bp_compose_give(e, &c, MAKE(&c, softplus, &smooth, x));
}
