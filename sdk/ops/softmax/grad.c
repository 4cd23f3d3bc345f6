/* SPDX-License-Identifier: Apache-2.0 */
/* grad.c: builds the gradients of softmax and of softmax_grad. */
#include <call/compose.h>

#include <backplane/ops.h>

enum bp_status bp_grad_softmax(struct bp_grad *g)
{
    const struct bp_softmax_attrs *a = g->attrs;
    struct bp_softmax_grad_attrs attrs = bp_softmax_grad_defaults();

    attrs.axis = a->axis;
    return g->want[0] ? bp_op_softmax_grad(g->scope, g->out[0], g->dy[0], &attrs, &g->dx[0])
                      : BP_OK;
}

/* Returns the sum of a b along axis, which stays with extent 1. */
static struct bp_tensor *softmax_sum_of(struct bp_compose *c, struct bp_tensor *a,
                                        struct bp_tensor *b, int64_t axis)
{
    return bp_compose_sum(c, MAKE(c, mul, NULL, a, b), &axis, 1, true);
}

/* With g the gradient of dx = y (dy - s), s = sum(y dy): the gradient in y is g (dy - s) - dy sum(g
 * y). The matrix of the operator is symmetric, so the gradient in dy is softmax_grad itself. */
enum bp_status bp_grad_softmax_grad(struct bp_grad *g)
{
    const struct bp_softmax_grad_attrs *a = g->attrs;
    struct bp_tensor *y = g->in[0], *dy = g->in[1], *dx = g->dy[0];
    struct bp_compose c = bp_compose_begin(g->scope);

    if (g->want[0]) {
        struct bp_tensor *inner = MAKE(&c, sub, NULL, dy, softmax_sum_of(&c, y, dy, a->axis));
        struct bp_tensor *direct = MAKE(&c, mul, NULL, dx, inner);
        struct bp_tensor *through = MAKE(&c, mul, NULL, dy, softmax_sum_of(&c, dx, y, a->axis));
        bp_compose_keep(&c, MAKE(&c, sub, NULL, direct, through), &g->dx[0]);
    }
    if (g->want[1]) bp_compose_keep(&c, MAKE(&c, softmax_grad, a, y, dx), &g->dx[1]);
    return bp_compose_end(&c);
}
