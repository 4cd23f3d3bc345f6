/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: has the shape rules and gradients of operators between complex and real numbers. The
 * gradient of a complex number is the gradient of its real part plus i times the gradient of its
 * imaginary part. */
#include <call/compose.h>
#include <call/shape.h>

#include <backplane/attrs.h>

static const uint32_t both[] = {0, 1};

static uint32_t complex_of(uint32_t real)
{
    return real == BP_F64 ? BP_C128 : BP_C64;
}

static uint32_t real_of(uint32_t complex)
{
    return complex == BP_C128 ? BP_F64 : BP_F32;
}

enum bp_status bp_infer_complex(struct bp_invocation *inv)
{
    inv->out[0].dtype = complex_of(bp_invocation_in(inv, 0)->dtype);
    return bp_shape_broadcast(inv, both, 2, 0, &inv->out[0]);
}

enum bp_status bp_infer_complex_part(struct bp_invocation *inv)
{
    bp_shape_copy(&inv->out[0], bp_invocation_in(inv, 0));
    inv->out[0].dtype = real_of(bp_invocation_in(inv, 0)->dtype);
    return BP_OK;
}

enum bp_status bp_infer_as_real(struct bp_invocation *inv)
{
    struct bp_type *out = &inv->out[0];

    TRY(bp_infer_complex_part(inv));
    if (out->rank == BP_RANK_MAX)
        return bp_error(BP_ERR_INVALID,
                        "as_real: x has %u axes, expected fewer, as the result has one more",
                        (unsigned)BP_RANK_MAX);
    out->shape[out->rank++] = 2;
    return BP_OK;
}

enum bp_status bp_infer_as_complex(struct bp_invocation *inv)
{
    const struct bp_view *x = bp_invocation_in(inv, 0);
    char text[BP_TYPE_TEXT];

    if (!x->rank || x->shape[x->rank - 1] != 2)
        return bp_error(BP_ERR_INVALID, "as_complex: x is %s, expected a last axis of 2",
                        bp_type_text(x->dtype, x->rank, x->shape, text, sizeof text));
    bp_shape_copy(&inv->out[0], x);
    inv->out[0].rank--;
    inv->out[0].dtype = complex_of(x->dtype);
    return BP_OK;
}

/* Ends the composition and stores d as the gradient of the only input. */
static enum bp_status complex_only(struct bp_grad *g, struct bp_compose *c, struct bp_tensor *d)
{
    if (g->want[0]) bp_compose_keep(c, d, &g->dx[0]);
    return bp_compose_end(c);
}

/* Zeros of the shape and dtype of a real t, whatever its elements are: no number is less than
 * itself. */
static struct bp_tensor *complex_zeros(struct bp_compose *c, struct bp_tensor *t)
{
    return bp_compose_cast(c, MAKE(c, less_than, NULL, t, t), t->view.dtype);
}

enum bp_status bp_grad_complex(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    for (uint32_t i = 0; i < 2; i++) {
        struct bp_tensor *d;
        if (!g->want[i]) continue;
        d = i ? MAKE(&c, imag, NULL, g->dy[0]) : MAKE(&c, real, NULL, g->dy[0]);
        bp_compose_keep(&c, bp_compose_sum_to(&c, d, g->in[i]), &g->dx[i]);
    }
    return bp_compose_end(&c);
}

enum bp_status bp_grad_real(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    return complex_only(g, &c, MAKE(&c, complex, NULL, g->dy[0], complex_zeros(&c, g->dy[0])));
}

enum bp_status bp_grad_imag(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    return complex_only(g, &c, MAKE(&c, complex, NULL, complex_zeros(&c, g->dy[0]), g->dy[0]));
}

enum bp_status bp_grad_conj(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    return complex_only(g, &c, MAKE(&c, conj, NULL, g->dy[0]));
}

/* dy i z / |z|^2: a step perpendicular to z changes the angle most. */
enum bp_status bp_grad_angle(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *re = MAKE(&c, real, NULL, g->in[0]), *im = MAKE(&c, imag, NULL, g->in[0]);
    struct bp_tensor *square = MAKE(&c, add, NULL, MAKE(&c, mul, NULL, re, re),
                                    MAKE(&c, mul, NULL, im, im));
    struct bp_tensor *d = MAKE(&c, div, NULL, g->dy[0], square);
    struct bp_tensor *back = bp_compose_scale(&c, MAKE(&c, mul, NULL, d, im), -1, 0);

    return complex_only(g, &c, MAKE(&c, complex, NULL, back, MAKE(&c, mul, NULL, d, re)));
}

/* dy z / |z|, 0 at 0. */
enum bp_status bp_grad_complex_abs(struct bp_grad *g)
{
    struct bp_mask_attrs keep = {.size = sizeof keep};
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *y = g->out[0], *re = MAKE(&c, real, NULL, g->in[0]);
    struct bp_tensor *im = MAKE(&c, imag, NULL, g->in[0]);
    struct bp_tensor *d = MAKE(&c, div, NULL, g->dy[0], y);

    d = MAKE(&c, mask, &keep, d, MAKE(&c, logical_and, NULL, y, y));
    return complex_only(
        g, &c, MAKE(&c, complex, NULL, MAKE(&c, mul, NULL, d, re), MAKE(&c, mul, NULL, d, im)));
}

enum bp_status bp_grad_as_real(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    return complex_only(g, &c, MAKE(&c, as_complex, NULL, g->dy[0]));
}

enum bp_status bp_grad_as_complex(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    return complex_only(g, &c, MAKE(&c, as_real, NULL, g->dy[0]));
}
