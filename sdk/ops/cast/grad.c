/* SPDX-License-Identifier: Apache-2.0 */
/* grad.c: has the gradient of cast. */
#include <schema/op.h>

#include <backplane/ops.h>

/* The gradient is zero where a dtype is not a float: a conversion to integers is piecewise
 * constant. */
enum bp_status bp_grad_cast(struct bp_grad *g)
{
    struct bp_cast_attrs attrs = bp_cast_defaults();
    uint64_t floats = BP_MASK_FLOAT | BP_MASK_F8;

    attrs.to = g->in[0]->view.dtype;
    if (!g->want[0] || !(floats >> attrs.to & 1) || !(floats >> g->dy[0]->view.dtype & 1))
        return BP_OK;
    return bp_op_cast(g->scope, g->dy[0], &attrs, &g->dx[0]);
}
