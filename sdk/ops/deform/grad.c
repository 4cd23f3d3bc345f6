/* SPDX-License-Identifier: Apache-2.0 */
/* grad.c: has the gradients of deform_unfold and of its gradient in x. */
#include <call/compose.h>

#include <backplane/attrs.h>

/* Sets the gradients of offset and mask, inputs at and at + 1 of the rule's operator, of
 * deform_unfold with this dy and x. */
static void deform_offset(struct bp_grad *g, struct bp_compose *c, uint32_t at,
                          struct bp_tensor *dy, struct bp_tensor *x)
{
    struct bp_tensor *mask = at + 1 < g->n_in ? g->in[at + 1] : NULL, *out[2] = {NULL};
    struct bp_tensor *in[] = {dy, x, g->in[at], mask};
    bool masked = mask && g->want[at + 1];

    if (!g->want[at] && !masked) return;
    bp_compose_outputs(c, BP_ROW_deform_unfold_grad_offset, g->attrs, in, 4, masked ? 3 : 1, out);
    if (g->want[at]) bp_compose_keep(c, out[0], &g->dx[at]);
    if (masked) bp_compose_keep(c, out[1], &g->dx[at + 1]);
}

enum bp_status bp_grad_deform_unfold(struct bp_grad *g)
{
    struct bp_tensor *x = g->in[0], *offset = g->in[1], *dy = g->dy[0];
    struct bp_tensor *mask = g->n_in > 2 ? g->in[2] : NULL;
    struct bp_compose c = bp_compose_begin(g->scope);

    if (g->want[0])
        bp_compose_keep(&c, MAKE(&c, deform_unfold_grad_input, g->attrs, dy, x, offset, mask),
                        &g->dx[0]);
    deform_offset(g, &c, 1, dy, x);
    return bp_compose_end(&c);
}

/* This operator is linear in dy and is the adjoint of deform_unfold. Its derivatives by offset and
 * mask are those of deform_unfold applied to d. */
enum bp_status bp_grad_deform_grad_input(struct bp_grad *g)
{
    struct bp_tensor *dy = g->in[0], *offset = g->in[2], *d = g->dy[0];
    struct bp_tensor *mask = g->n_in > 3 ? g->in[3] : NULL;
    struct bp_compose c = bp_compose_begin(g->scope);

    if (g->want[0])
        bp_compose_keep(&c, MAKE(&c, deform_unfold, g->attrs, d, offset, mask), &g->dx[0]);
    deform_offset(g, &c, 2, dy, d);
    return bp_compose_end(&c);
}
