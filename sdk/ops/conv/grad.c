/* SPDX-License-Identifier: Apache-2.0 */
/* grad.c: has the gradients of conv and of its two gradient operators. Their attribute structs have
 * one layout (shape.c asserts it). */
#include <call/compose.h>

#include <backplane/attrs.h>

enum bp_status bp_grad_conv(struct bp_grad *g)
{
    static const int64_t all_but_channels[] = {0, 2, 3, 4};
    struct bp_tensor *x = g->in[0], *w = g->in[1], *dy = g->dy[0];
    struct bp_compose c = bp_compose_begin(g->scope);

    if (g->want[0])
        bp_compose_keep(&c, MAKE(&c, conv_grad_input, g->attrs, dy, w, x), &g->dx[0]);
    if (g->want[1])
        bp_compose_keep(&c, MAKE(&c, conv_grad_weight, g->attrs, dy, x, w), &g->dx[1]);
    if (g->want[2])
        bp_compose_keep(&c, bp_compose_sum(&c, dy, all_but_channels, dy->view.rank - 1, false),
                        &g->dx[2]);
    return bp_compose_end(&c);
}

/* dx is linear in dy and in w, and its adjoints are the other two operators: the three operators
 * are closed under differentiation. */
enum bp_status bp_grad_conv_grad_input(struct bp_grad *g)
{
    struct bp_tensor *dy = g->in[0], *w = g->in[1], *dx = g->dy[0];
    struct bp_compose c = bp_compose_begin(g->scope);

    if (g->want[0]) bp_compose_keep(&c, MAKE(&c, conv, g->attrs, dx, w), &g->dx[0]);
    if (g->want[1])
        bp_compose_keep(&c, MAKE(&c, conv_grad_weight, g->attrs, dy, dx, w), &g->dx[1]);
    return bp_compose_end(&c);
}

enum bp_status bp_grad_conv_grad_weight(struct bp_grad *g)
{
    struct bp_tensor *dy = g->in[0], *x = g->in[1], *dw = g->dy[0];
    struct bp_compose c = bp_compose_begin(g->scope);

    if (g->want[0]) bp_compose_keep(&c, MAKE(&c, conv, g->attrs, x, dw), &g->dx[0]);
    if (g->want[1])
        bp_compose_keep(&c, MAKE(&c, conv_grad_input, g->attrs, dy, dw, x), &g->dx[1]);
    return bp_compose_end(&c);
}
