/* SPDX-License-Identifier: Apache-2.0 */
/* grad.c: builds gradients of elementwise operators with one input: dx = dy f'(x), computed from y
 * where that is simpler. grad_activation.c has the activations. */
#include <call/compose.h>
#include <call/shape.h>

#include <backplane/attrs.h>

/* unary_by builds dx = dy d, where d is the derivative that the composition has computed;
 * unary_over builds dx = dy / d. */
static enum bp_status unary_by(struct bp_grad *g, struct bp_compose *c, struct bp_tensor *d)
{
    return bp_compose_dx(g, c, MAKE(c, mul, NULL, g->dy[0], d));
}

static enum bp_status unary_over(struct bp_grad *g, struct bp_compose *c, struct bp_tensor *d)
{
    return bp_compose_dx(g, c, MAKE(c, div, NULL, g->dy[0], d));
}

/* Builds dx = factor dy d. */
static enum bp_status scaled_by(struct bp_grad *g, struct bp_compose *c, double factor,
                                struct bp_tensor *d)
{
    return unary_by(g, c, bp_compose_scale(c, d, factor, 0));
}

/* (1 - x) (1 + x) for sign -1, which does not cancel as 1 - x x does; 1 + x x for sign 1. */
static struct bp_tensor *one_and_square(struct bp_compose *c, struct bp_tensor *x, int sign)
{
    if (sign > 0) return bp_compose_scale(c, MAKE(c, square, NULL, x), 1, 1);
    return MAKE(c, mul, NULL, bp_compose_scale(c, x, -1, 1), bp_compose_scale(c, x, 1, 1));
}

/* For functions that are constant almost everywhere: no gradient. */
enum bp_status bp_grad_zero(struct bp_grad *g)
{
    (void)g;
    return BP_OK;
}

enum bp_status bp_grad_abs(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    return unary_by(g, &c, MAKE(&c, sign, NULL, g->in[0]));
}

enum bp_status bp_grad_neg(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    return bp_compose_dx(g, &c, MAKE(&c, neg, NULL, g->dy[0]));
}

enum bp_status bp_grad_square(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    return unary_by(g, &c, MAKE(&c, add, NULL, g->in[0], g->in[0]));
}

enum bp_status bp_grad_frac(struct bp_grad *g)
{
    if (g->want[0]) g->dx[0] = bp_tensor_retain(g->dy[0]);
    return BP_OK;
}

enum bp_status bp_grad_sqrt(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    return unary_over(g, &c, MAKE(&c, add, NULL, g->out[0], g->out[0]));
}

/* y' = -y y y / 2. */
enum bp_status bp_grad_rsqrt(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *y = g->out[0], *cube = MAKE(&c, mul, NULL, y, MAKE(&c, square, NULL, y));

    return scaled_by(g, &c, -0.5, cube);
}

enum bp_status bp_grad_reciprocal(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    return scaled_by(g, &c, -1, MAKE(&c, square, NULL, g->out[0]));
}

enum bp_status bp_grad_exp(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    return unary_by(g, &c, g->out[0]);
}

enum bp_status bp_grad_exp2(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    return scaled_by(g, &c, 0x1.62e42fefa39efp-1 /* log 2 */, g->out[0]);
}

/* e^x, because y + 1 cancels for negative x. */
enum bp_status bp_grad_expm1(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    return unary_by(g, &c, MAKE(&c, exp, NULL, g->in[0]));
}

enum bp_status bp_grad_log(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    return unary_over(g, &c, g->in[0]);
}

enum bp_status bp_grad_log2(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    return unary_over(g, &c, bp_compose_scale(&c, g->in[0], 0x1.62e42fefa39efp-1 /* log 2 */, 0));
}

enum bp_status bp_grad_log10(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    return unary_over(g, &c, bp_compose_scale(&c, g->in[0], 0x1.26bb1bbb55516p1 /* log 10 */, 0));
}

enum bp_status bp_grad_log1p(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    return unary_over(g, &c, bp_compose_scale(&c, g->in[0], 1, 1));
}

enum bp_status bp_grad_sin(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    return unary_by(g, &c, MAKE(&c, cos, NULL, g->in[0]));
}

enum bp_status bp_grad_cos(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    return unary_by(g, &c, MAKE(&c, neg, NULL, MAKE(&c, sin, NULL, g->in[0])));
}

enum bp_status bp_grad_tan(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    return unary_by(g, &c, one_and_square(&c, g->out[0], 1));
}

enum bp_status bp_grad_asin(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    return unary_by(g, &c, MAKE(&c, rsqrt, NULL, one_and_square(&c, g->in[0], -1)));
}

enum bp_status bp_grad_acos(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *d = MAKE(&c, rsqrt, NULL, one_and_square(&c, g->in[0], -1));

    return unary_by(g, &c, MAKE(&c, neg, NULL, d));
}

enum bp_status bp_grad_atan(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    return unary_over(g, &c, one_and_square(&c, g->in[0], 1));
}

enum bp_status bp_grad_sinh(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    return unary_by(g, &c, MAKE(&c, cosh, NULL, g->in[0]));
}

enum bp_status bp_grad_cosh(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    return unary_by(g, &c, MAKE(&c, sinh, NULL, g->in[0]));
}

enum bp_status bp_grad_tanh(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    return unary_by(g, &c, one_and_square(&c, g->out[0], -1));
}

enum bp_status bp_grad_asinh(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    return unary_by(g, &c, MAKE(&c, rsqrt, NULL, one_and_square(&c, g->in[0], 1)));
}

/* 1 / sqrt((x - 1) (x + 1)). */
enum bp_status bp_grad_acosh(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *d = MAKE(&c, neg, NULL, one_and_square(&c, g->in[0], -1));

    return unary_by(g, &c, MAKE(&c, rsqrt, NULL, d));
}

enum bp_status bp_grad_atanh(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    return unary_over(g, &c, one_and_square(&c, g->in[0], -1));
}

/* Linear operators are their own gradients. */
enum bp_status bp_grad_rad2deg(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    return bp_compose_dx(g, &c, MAKE(&c, rad2deg, NULL, g->dy[0]));
}

enum bp_status bp_grad_deg2rad(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    return bp_compose_dx(g, &c, MAKE(&c, deg2rad, NULL, g->dy[0]));
}

/* 2 / sqrt(pi) e^(-x x). */
enum bp_status bp_grad_erf(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *d = MAKE(&c, neg, NULL, MAKE(&c, square, NULL, g->in[0]));

    return scaled_by(g, &c, 0x1.20dd750429b6dp0, MAKE(&c, exp, NULL, d));
}

/* sqrt(pi) / 2 e^(y y). */
enum bp_status bp_grad_erfinv(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *d = MAKE(&c, exp, NULL, MAKE(&c, square, NULL, g->out[0]));

    return scaled_by(g, &c, 0x1.c5bf891b4ef6bp-1, d);
}

enum bp_status bp_grad_lgamma(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    return unary_by(g, &c, MAKE(&c, digamma, NULL, g->in[0]));
}

enum bp_status bp_grad_digamma(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    return unary_by(g, &c, MAKE(&c, trigamma, NULL, g->in[0]));
}

/* Infers one bool for each element. */
enum bp_status bp_infer_predicate(struct bp_invocation *inv)
{
    bp_shape_copy(&inv->out[0], bp_invocation_in(inv, 0));
    inv->out[0].dtype = BP_BOOL;
    return BP_OK;
}

enum bp_status bp_grad_scale(struct bp_grad *g)
{
    const struct bp_scale_attrs *a = g->attrs;
    struct bp_compose c = bp_compose_begin(g->scope);

    return bp_compose_dx(g, &c,
                         g->want[0] ? bp_compose_scale(&c, g->dy[0], a->factor, 0) : NULL);
}
