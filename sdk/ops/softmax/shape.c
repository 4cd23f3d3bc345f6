/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: infers shapes of softmax and its gradient. */
#include <call/shape.h>

#include <backplane/attrs.h>

enum bp_status bp_infer_softmax(struct bp_invocation *inv)
{
    const struct bp_softmax_attrs *a = inv->attrs;
    uint32_t axis;

    TRY(bp_shape_axis(inv, a->axis, bp_invocation_in(inv, 0)->rank, &axis));
    bp_shape_copy(&inv->out[0], bp_invocation_in(inv, 0));
    return BP_OK;
}

enum bp_status bp_infer_softmax_grad(struct bp_invocation *inv)
{
    const struct bp_softmax_grad_attrs *a = inv->attrs;
    uint32_t axis;

    TRY(bp_shape_axis(inv, a->axis, bp_invocation_in(inv, 0)->rank, &axis));
    bp_shape_copy(&inv->out[0], bp_invocation_in(inv, 0));
    return bp_shape_expect(inv, 1, &inv->out[0]);
}
