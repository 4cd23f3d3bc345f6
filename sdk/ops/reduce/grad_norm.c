/* SPDX-License-Identifier: Apache-2.0 */
/* grad_norm.c: infers the shape of norm_grad, and builds the gradients of norm and norm_grad.
 *
 * norm_grad(x, y, dy, p) = dy sign(x) (abs(x) / y)^(p - 1) is closed under differentiation: its
 * derivatives are norm_grad with p - 1, or with another dy. */
#include <call/compose.h>
#include <call/shape.h>

#include <backplane/attrs.h>
#include <math.h>

enum bp_status bp_infer_norm_grad(struct bp_invocation *inv)
{
    static const uint32_t all[] = {0, 1, 2};

    TRY(bp_shape_broadcast(inv, all, 3, 0, &inv->out[0]));
    return bp_shape_expect(inv, 0, &inv->out[0]);
}

static struct bp_tensor *norm_grad(struct bp_compose *c, double p, struct bp_tensor *x,
                                   struct bp_tensor *y, struct bp_tensor *dy)
{
    struct bp_norm_grad_attrs a = {.size = sizeof a, .p = p};

    return MAKE(c, norm_grad, &a, x, y, dy);
}

/* Returns t, which has the shape of y, with extent 1 in place of the reduced axes of x. */
static struct bp_tensor *as_kept(struct bp_compose *c, const struct bp_norm_attrs *a,
                                 struct bp_tensor *t, const struct bp_tensor *x)
{
    int64_t shape[BP_RANK_MAX], rank = x->view.rank;

    if (c->status || a->keep) return t;
    for (int64_t i = 0; i < rank; i++) shape[i] = a->axes.n ? x->shape[i] : 1;
    for (int64_t i = 0; i < a->axes.n; i++)
        shape[a->axes.at[i] < 0 ? a->axes.at[i] + rank : a->axes.at[i]] = 1;
    return bp_compose_reshape(c, t, (uint32_t)rank, shape);
}

enum bp_status bp_grad_norm(struct bp_grad *g)
{
    const struct bp_norm_attrs *a = g->attrs;
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *x = g->in[0];

    if (!g->want[0] || a->p == 0) return BP_OK;
    bp_compose_keep(&c, norm_grad(&c, a->p, x, as_kept(&c, a, g->out[0], x),
                                  as_kept(&c, a, g->dy[0], x)), &g->dx[0]);
    return bp_compose_end(&c);
}

/* sign(x) t, where t is 0 if x is 0. */
static struct bp_tensor *signed_by(struct bp_compose *c, struct bp_tensor *x, struct bp_tensor *t)
{
    struct bp_leaky_relu_grad_attrs a = {.size = sizeof a, .slope = -1};

    return MAKE(c, leaky_relu_grad, &a, x, t);
}

/* With g the gradient of dx, the gradients are: of dy, norm_grad(x, y, g), summed; of y, (1 - p) dx
 * g / y, summed; of x, (p - 1) sign(x) norm_grad(x, y, dy g / y, p - 1). */
enum bp_status bp_grad_norm_grad(struct bp_grad *g)
{
    const struct bp_norm_grad_attrs *a = g->attrs;
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *x = g->in[0], *y = g->in[1], *dy = g->in[2], *d = g->dy[0];
    bool curved = isfinite(a->p) && a->p != 0 && a->p != 1;
    struct bp_tensor *some = NULL, *dx;

    if (a->p == 0) return BP_OK;
    if (g->want[2])
        bp_compose_keep(&c, bp_compose_sum_to(&c, norm_grad(&c, a->p, x, y, d), dy), &g->dx[2]);
    if (curved && (g->want[0] || g->want[1])) some = bp_compose_not_zero(&c, y);
    if (curved && g->want[1]) {
        dx = MAKE(&c, div, NULL, MAKE(&c, mul, NULL, g->out[0], d), some);
        dx = bp_compose_scale(&c, dx, 1 - a->p, 0);
        bp_compose_keep(&c, bp_compose_sum_to(&c, dx, y), &g->dx[1]);
    }
    if (curved && g->want[0]) {
        dx = MAKE(&c, div, NULL, MAKE(&c, mul, NULL, d, dy), some);
        if (a->p != 2) dx = signed_by(&c, x, norm_grad(&c, a->p - 1, x, y, dx));
        bp_compose_keep(&c, bp_compose_scale(&c, dx, a->p - 1, 0), &g->dx[0]);
    }
    return bp_compose_end(&c);
}
