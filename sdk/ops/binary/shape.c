/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: has the shape rules, gradients and decompositions of elementwise operators of two and
 * three inputs. Gradients that are sums and products are computed in f32 for half types. */
#include <call/compose.h>
#include <call/shape.h>

#include <backplane/attrs.h>

static const uint32_t first_three[] = {0, 1, 2};

/* The shape to which all three inputs broadcast. */
enum bp_status bp_infer_where(struct bp_invocation *inv)
{
    return bp_shape_broadcast(inv, first_three, 3, 0, &inv->out[0]);
}

/* alpha must broadcast to x; x does not broadcast to alpha. */
enum bp_status bp_infer_prelu(struct bp_invocation *inv)
{
    TRY(bp_shape_broadcast(inv, first_three, 2, 0, &inv->out[0]));
    return bp_shape_expect(inv, 0, &inv->out[0]);
}

/* The tensors of a gradient, widened: the inputs, the result and the gradient of the result. */
struct wide {
    struct bp_compose c;
    struct bp_tensor *in[3], *out, *dz;
};

static struct wide binary_begin(struct bp_grad *g)
{
    struct wide w = {.c = bp_compose_begin(g->scope)};

    for (uint32_t i = 0; i < g->n_in && i < 3; i++) w.in[i] = bp_compose_widen(&w.c, g->in[i]);
    w.out = bp_compose_widen(&w.c, g->out[0]);
    w.dz = bp_compose_widen(&w.c, g->dy[0]);
    return w;
}

/* Stores d, which has the shape of the result, as the gradient of input i. */
static void binary_keep(struct bp_grad *g, struct bp_compose *c, uint32_t i, struct bp_tensor *d)
{
    d = bp_compose_sum_to(c, d, g->in[i]);
    bp_compose_keep(c, bp_compose_cast(c, d, g->in[i]->view.dtype), &g->dx[i]);
}

static struct bp_tensor *binary_masked(struct bp_compose *c, struct bp_tensor *x,
                                       struct bp_tensor *condition, bool invert)
{
    struct bp_mask_attrs a = {.size = sizeof a, .invert = invert};

    return MAKE(c, mask, &a, x, condition);
}

static struct bp_tensor *binary_negative(struct bp_compose *c, struct bp_tensor *x)
{
    return bp_compose_scale(c, x, -1, 0);
}

/* True where x is not 0. */
static struct bp_tensor *binary_nonzero(struct bp_compose *c, struct bp_tensor *x)
{
    return MAKE(c, logical_and, NULL, x, x);
}

/* Refuses other dtypes than floats, for a rule that divides, takes powers and so on. */
static enum bp_status floats_only(const struct bp_grad *g)
{
    uint64_t floats = BP_MASK_FLOAT;
    uint32_t dtype = g->in[0]->view.dtype;

    if (floats >> dtype & 1) return BP_OK;
    return bp_error(BP_ERR_UNSUPPORTED, "%s: it has a gradient for floats only, the inputs are %s",
                    g->row->info.name, bp_dtype_name(dtype));
}

/* maximum, minimum, fmax, fmin: the gradient flows to x where the result is x, else to y. */
enum bp_status bp_grad_minmax(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *is_x = MAKE(&c, equal, NULL, g->out[0], g->in[0]);

    for (uint32_t i = 0; i < 2; i++)
        if (g->want[i]) binary_keep(g, &c, i, binary_masked(&c, g->dy[0], is_x, i == 1));
    return bp_compose_end(&c);
}

/* mod, fmod: z = x - q y, where q = (x - z) / y is piecewise constant. */
enum bp_status bp_grad_mod(struct bp_grad *g)
{
    struct wide w;

    TRY(floats_only(g));
    w = binary_begin(g);
    if (g->want[0]) binary_keep(g, &w.c, 0, w.dz);
    if (g->want[1]) {
        struct bp_tensor *q = MAKE(&w.c, div, NULL, MAKE(&w.c, sub, NULL, w.in[0], w.out), w.in[1]);
        binary_keep(g, &w.c, 1, binary_negative(&w.c, MAKE(&w.c, mul, NULL, w.dz, q)));
    }
    return bp_compose_end(&w.c);
}

/* The derivative is 0 wherever it exists. */
enum bp_status bp_grad_floor_divide(struct bp_grad *g)
{
    (void)g;
    return BP_OK;
}

/* dx = dz y x^(y - 1), 0 where y is 0; dy = dz z log x, 0 where z is 0. */
enum bp_status bp_grad_pow(struct bp_grad *g)
{
    struct wide w;

    TRY(floats_only(g));
    w = binary_begin(g);
    if (g->want[0]) {
        struct bp_tensor *x = w.in[0], *y = w.in[1];
        struct bp_tensor *d = MAKE(&w.c, pow, NULL, x, bp_compose_scale(&w.c, y, 1, -1));
        d = MAKE(&w.c, mul, NULL, MAKE(&w.c, mul, NULL, w.dz, y), d);
        binary_keep(g, &w.c, 0, binary_masked(&w.c, d, binary_nonzero(&w.c, y), false));
    }
    if (g->want[1])
        binary_keep(g, &w.c, 1,
                    MAKE(&w.c, xlogy, NULL, MAKE(&w.c, mul, NULL, w.dz, w.out), w.in[0]));
    return bp_compose_end(&w.c);
}

/* z = atan2(x, y): dx = dz y / (x^2 + y^2), dy = -dz x / (x^2 + y^2). */
enum bp_status bp_grad_atan2(struct bp_grad *g)
{
    struct wide w = binary_begin(g);
    struct bp_tensor *x = w.in[0], *y = w.in[1], *d;

    d = MAKE(&w.c, add, NULL, MAKE(&w.c, mul, NULL, x, x), MAKE(&w.c, mul, NULL, y, y));
    d = MAKE(&w.c, div, NULL, w.dz, d);
    if (g->want[0]) binary_keep(g, &w.c, 0, MAKE(&w.c, mul, NULL, d, y));
    if (g->want[1]) binary_keep(g, &w.c, 1, binary_negative(&w.c, MAKE(&w.c, mul, NULL, d, x)));
    return bp_compose_end(&w.c);
}

/* dx = dz x / z, 0 where z is 0. */
enum bp_status bp_grad_hypot(struct bp_grad *g)
{
    struct wide w = binary_begin(g);
    struct bp_tensor *d = MAKE(&w.c, div, NULL, w.dz, w.out);

    d = binary_masked(&w.c, d, binary_nonzero(&w.c, w.out), false);
    for (uint32_t i = 0; i < 2; i++)
        if (g->want[i]) binary_keep(g, &w.c, i, MAKE(&w.c, mul, NULL, d, w.in[i]));
    return bp_compose_end(&w.c);
}

/* z = x log y: dx = dz log y, which is xlogy(dz, y); dy = dz x / y. */
enum bp_status bp_grad_xlogy(struct bp_grad *g)
{
    struct wide w = binary_begin(g);

    if (g->want[0]) binary_keep(g, &w.c, 0, MAKE(&w.c, xlogy, NULL, w.dz, w.in[1]));
    if (g->want[1])
        binary_keep(g, &w.c, 1,
                    MAKE(&w.c, div, NULL, MAKE(&w.c, mul, NULL, w.dz, w.in[0]), w.in[1]));
    return bp_compose_end(&w.c);
}

/* x has no gradient; the gradient flows to y where x is 0. */
enum bp_status bp_grad_heaviside(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    if (g->want[1])
        binary_keep(g, &c, 1, binary_masked(&c, g->dy[0], binary_nonzero(&c, g->in[0]), true));
    return bp_compose_end(&c);
}

/* dx = dz where the result has the sign of x, otherwise -dz; y has no gradient. */
enum bp_status bp_grad_copysign(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    if (g->want[0]) {
        struct bp_tensor *same = MAKE(&c, equal, NULL, g->out[0], g->in[0]);
        binary_keep(g, &c, 0, MAKE(&c, where, NULL, same, g->dy[0], binary_negative(&c, g->dy[0])));
    }
    return bp_compose_end(&c);
}

/* Where x > 0, dx = dz and alpha has no gradient; where x is not, dx = alpha dz, and the gradient
 * of alpha is x dz. */
enum bp_status bp_grad_prelu(struct bp_grad *g)
{
    struct wide w = binary_begin(g);
    struct bp_tensor *x = w.in[0], *alpha = w.in[1];
    struct bp_tensor *above = MAKE(&w.c, relu_grad, NULL, x, w.dz);
    struct bp_tensor *below = MAKE(&w.c, sub, NULL, w.dz, above);

    if (g->want[0])
        binary_keep(g, &w.c, 0, MAKE(&w.c, add, NULL, above, MAKE(&w.c, mul, NULL, below, alpha)));
    if (g->want[1]) binary_keep(g, &w.c, 1, MAKE(&w.c, mul, NULL, below, x));
    return bp_compose_end(&w.c);
}

enum bp_status bp_grad_where(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    for (uint32_t i = 1; i < 3; i++)
        if (g->want[i]) binary_keep(g, &c, i, binary_masked(&c, g->dy[0], g->in[0], i == 2));
    return bp_compose_end(&c);
}

enum bp_status bp_grad_masked_fill(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    for (uint32_t i = 0; i < 3; i += 2)
        if (g->want[i]) binary_keep(g, &c, i, binary_masked(&c, g->dy[0], g->in[1], i == 0));
    return bp_compose_end(&c);
}

enum bp_status bp_grad_mask(struct bp_grad *g)
{
    const struct bp_mask_attrs *a = g->attrs;
    struct bp_compose c = bp_compose_begin(g->scope);

    if (g->want[0]) binary_keep(g, &c, 0, binary_masked(&c, g->dy[0], g->in[1], a->invert));
    return bp_compose_end(&c);
}

/* z = x + w (y - x). */
enum bp_status bp_grad_lerp(struct bp_grad *g)
{
    struct wide w = binary_begin(g);
    struct bp_tensor *x = w.in[0], *y = w.in[1], *weight = w.in[2];

    if (g->want[0])
        binary_keep(g, &w.c, 0, MAKE(&w.c, mul, NULL, w.dz, bp_compose_scale(&w.c, weight, -1, 1)));
    if (g->want[1]) binary_keep(g, &w.c, 1, MAKE(&w.c, mul, NULL, w.dz, weight));
    if (g->want[2])
        binary_keep(g, &w.c, 2, MAKE(&w.c, mul, NULL, w.dz, MAKE(&w.c, sub, NULL, y, x)));
    return bp_compose_end(&w.c);
}

/* z = x + v (a b). */
enum bp_status bp_grad_addcmul(struct bp_grad *g)
{
    const struct bp_addcmul_attrs *attrs = g->attrs;
    struct wide w = binary_begin(g);
    struct bp_tensor *d = bp_compose_scale(&w.c, w.dz, attrs->value, 0);

    if (g->want[0]) binary_keep(g, &w.c, 0, w.dz);
    if (g->want[1]) binary_keep(g, &w.c, 1, MAKE(&w.c, mul, NULL, d, w.in[2]));
    if (g->want[2]) binary_keep(g, &w.c, 2, MAKE(&w.c, mul, NULL, d, w.in[1]));
    return bp_compose_end(&w.c);
}

/* z = x + v (a / b). */
enum bp_status bp_grad_addcdiv(struct bp_grad *g)
{
    const struct bp_addcdiv_attrs *attrs = g->attrs;
    struct wide w = binary_begin(g);
    struct bp_tensor *a = w.in[1], *b = w.in[2];
    struct bp_tensor *d = MAKE(&w.c, div, NULL, bp_compose_scale(&w.c, w.dz, attrs->value, 0), b);

    if (g->want[0]) binary_keep(g, &w.c, 0, w.dz);
    if (g->want[1]) binary_keep(g, &w.c, 1, d);
    if (g->want[2])
        binary_keep(g, &w.c, 2,
                    binary_negative(&w.c, MAKE(&w.c, mul, NULL, d, MAKE(&w.c, div, NULL, a, b))));
    return bp_compose_end(&w.c);
}

/* Computes the difference of half types in f32: the square would double its rounding error. */
enum bp_status bp_decompose_squared_difference(struct bp_decomposition *e)
{
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *d = MAKE(&c, sub, NULL, bp_compose_widen(&c, e->in[0]),
                               bp_compose_widen(&c, e->in[1]));

    d = bp_compose_cast(&c, MAKE(&c, mul, NULL, d, d), e->in[0]->view.dtype);
    bp_compose_keep(&c, d, &e->out[0]);
    return bp_compose_end(&c);
}
