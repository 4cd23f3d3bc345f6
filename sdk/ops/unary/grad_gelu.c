/* SPDX-License-Identifier: Apache-2.0 */
/* grad_gelu.c: builds first and second derivatives of gelu, for both of its formulas. The first
 * derivatives are operators that are linear in dy: gelu_grad and gelu_tanh_grad. */
#include <call/compose.h>

#include <backplane/attrs.h>

static struct bp_tensor *gelu_times(struct bp_compose *c, struct bp_tensor *a, struct bp_tensor *b)
{
    return MAKE(c, mul, NULL, a, b);
}

/* Sums dx to the shape of the input, because x and dy may have been broadcast to each other. */
static void gelu_keep(struct bp_grad *g, struct bp_compose *c, uint32_t into, struct bp_tensor *dx)
{
    bp_compose_keep(c, bp_compose_sum_to(c, dx, g->in[into]), &g->dx[into]);
}

enum bp_status bp_grad_gelu(struct bp_grad *g)
{
    bool by_tanh = ((const struct bp_gelu_attrs *)g->attrs)->approximate;
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *x = g->in[0], *dy = g->dy[0];

    if (g->want[0])
        bp_compose_keep(&c,
                        by_tanh ? MAKE(&c, gelu_tanh_grad, NULL, x, dy)
                                : MAKE(&c, gelu_grad, NULL, x, dy),
                        &g->dx[0]);
    return bp_compose_end(&c);
}

/* P'(x) (2 - x x), with P' = e^(-x x / 2) / sqrt(2 pi). */
static struct bp_tensor *gelu_second(struct bp_compose *c, struct bp_tensor *x)
{
    struct bp_tensor *square = MAKE(c, square, NULL, x);
    struct bp_tensor *density = MAKE(c, exp, NULL, bp_compose_scale(c, square, -0.5, 0));
    double root = 0x1.9884533d43651p-2; /* 1 / sqrt(2 pi) */

    return gelu_times(c, density, bp_compose_scale(c, square, -root, 2 * root));
}

enum bp_status bp_grad_gelu_grad(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *x = g->in[0];

    if (g->want[0])
        gelu_keep(g, &c, 0, gelu_times(&c, gelu_times(&c, g->dy[0], g->in[1]), gelu_second(&c, x)));
    if (g->want[1]) gelu_keep(g, &c, 1, MAKE(&c, gelu_grad, NULL, x, g->dy[0]));
    return bp_compose_end(&c);
}

/* y = x / 2 (1 + t), t = tanh(u), u = r (x + k x^3), has
 * y'' = (1 - t t) (u' + x u'' / 2 - x t u' u'), u' = r + 3 r k x x, x u'' = 6 r k x x. */
static struct bp_tensor *second_by_tanh(struct bp_compose *c, struct bp_tensor *x)
{
    double r = 0x1.9884533d43651p-1, k = 0.044715; /* r = sqrt(2 / pi) */
    struct bp_tensor *square = MAKE(c, square, NULL, x);
    struct bp_tensor *u = gelu_times(c, x, bp_compose_scale(c, square, r * k, r));
    struct bp_tensor *t = MAKE(c, tanh, NULL, u);
    struct bp_tensor *du = bp_compose_scale(c, square, 3 * r * k, r);
    struct bp_tensor *sum = bp_compose_scale(c, square, 6 * r * k, r);
    struct bp_tensor *bend = gelu_times(c, gelu_times(c, x, t), MAKE(c, square, NULL, du));
    struct bp_tensor *rest = gelu_times(c, bp_compose_scale(c, t, -1, 1),
                                        bp_compose_scale(c, t, 1, 1));

    return gelu_times(c, rest, MAKE(c, sub, NULL, sum, bend));
}

enum bp_status bp_grad_gelu_tanh_grad(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *x = g->in[0];

    if (g->want[0])
        gelu_keep(g, &c, 0,
                  gelu_times(&c, gelu_times(&c, g->dy[0], g->in[1]), second_by_tanh(&c, x)));
    if (g->want[1]) gelu_keep(g, &c, 1, MAKE(&c, gelu_tanh_grad, NULL, x, g->dy[0]));
    return bp_compose_end(&c);
}
