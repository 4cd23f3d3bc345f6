/* SPDX-License-Identifier: Apache-2.0 */
/* grad.c: builds the gradients of sum and of sum_grad. */
#include <schema/op.h>

#include <backplane/ops.h>

enum bp_status bp_grad_sum(struct bp_grad *g)
{
    const struct bp_sum_attrs *a = g->attrs;
    struct bp_sum_grad_attrs attrs = bp_sum_grad_defaults();

    attrs.axes = a->axes;
    attrs.keep = a->keep;
    return g->want[0] ? bp_op_sum_grad(g->scope, g->dy[0], g->in[0], &attrs, &g->dx[0]) : BP_OK;
}

/* sum_grad is linear in dy, and uses only the shape of x. */
enum bp_status bp_grad_sum_grad(struct bp_grad *g)
{
    const struct bp_sum_grad_attrs *a = g->attrs;
    struct bp_sum_attrs attrs = bp_sum_defaults();

    attrs.axes = a->axes;
    attrs.keep = a->keep;
    return g->want[0] ? bp_op_sum(g->scope, g->dy[0], &attrs, &g->dx[0]) : BP_OK;
}
