/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: has shape rules that operators of many families share: the shape of the input, or the
 * shape to which both inputs broadcast. */
#include <call/shape.h>

enum bp_status bp_infer_broadcast(struct bp_invocation *inv)
{
    static const uint32_t both[] = {0, 1};

    return bp_shape_broadcast(inv, both, 2, 0, &inv->out[0]);
}

enum bp_status bp_infer_same(struct bp_invocation *inv)
{
    bp_shape_copy(&inv->out[0], bp_invocation_in(inv, 0));
    return BP_OK;
}
