/* SPDX-License-Identifier: Apache-2.0 */
/* grad.c: has the gradients of add, sub, mul and div. */
#include <call/compose.h>

#include <backplane/attrs.h>

static bool is_complex(const struct bp_tensor *t)
{
    uint64_t complex = BP_MASK_COMPLEX;

    return complex >> t->view.dtype & 1;
}

/* The gradient of a complex number is the gradient of its real part plus i times the gradient of
 * its imaginary part. Therefore the gradient of a product is multiplied by the conjugate of the
 * other factor. */
static struct bp_tensor *binary_conjugate(struct bp_compose *c, struct bp_tensor *t)
{
    return c->status || !is_complex(t) ? t : MAKE(c, conj, NULL, t);
}

enum bp_status bp_grad_add(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    for (int i = 0; i < 2; i++)
        if (g->want[i])
            bp_compose_keep(&c, bp_compose_sum_to(&c, g->dy[0], g->in[i]), &g->dx[i]);
    return bp_compose_end(&c);
}

enum bp_status bp_grad_sub(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    if (g->want[0]) bp_compose_keep(&c, bp_compose_sum_to(&c, g->dy[0], g->in[0]), &g->dx[0]);
    if (g->want[1])
        bp_compose_keep(
            &c, bp_compose_sum_to(&c, MAKE(&c, neg, NULL, g->dy[0]), g->in[1]), &g->dx[1]);
    return bp_compose_end(&c);
}

enum bp_status bp_grad_mul(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    for (int i = 0; i < 2; i++)
        if (g->want[i]) {
            struct bp_tensor *d = MAKE(&c, mul, NULL, g->dy[0], binary_conjugate(&c, g->in[1 - i]));
            bp_compose_keep(&c, bp_compose_sum_to(&c, d, g->in[i]), &g->dx[i]);
        }
    return bp_compose_end(&c);
}

/* dx = dz / y; dy = -dx x / y. */
enum bp_status bp_grad_div(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *x = g->in[0], *y = binary_conjugate(&c, g->in[1]);
    struct bp_tensor *d = MAKE(&c, div, NULL, g->dy[0], y);

    if (g->want[0]) bp_compose_keep(&c, bp_compose_sum_to(&c, d, x), &g->dx[0]);
    if (g->want[1]) {
        d = MAKE(&c, div, NULL, MAKE(&c, mul, NULL, d, binary_conjugate(&c, x)), y);
        bp_compose_keep(&c, bp_compose_sum_to(&c, MAKE(&c, neg, NULL, d), g->in[1]), &g->dx[1]);
    }
    return bp_compose_end(&c);
}
