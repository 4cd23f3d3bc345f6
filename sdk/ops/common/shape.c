/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: has shape rules that operators of many families share: the shape of the input, or the
 * shape to which both inputs broadcast. */
#include <call/shape.h>

enum bp_status bp_infer_broadcast(struct bp_invocation *inv)
{
    static const uint32_t both[] = {0, 1};

    return bp_shape_broadcast(inv, both, 2, 0, &inv->out[0]);
}

bool bp_shape_join(struct bp_type *all, const struct bp_view *x)
{
    struct bp_type to = {.dtype = all->dtype, .rank = all->rank > x->rank ? all->rank : x->rank};

    for (uint32_t back = 0; back < to.rank; back++) {
        int64_t mine = bp_shape_extent_back(x, back);
        int64_t other = back < all->rank ? all->shape[all->rank - 1 - back] : 1;
        if (mine != other && mine != 1 && other != 1) return false;
        to.shape[to.rank - 1 - back] = mine == 1 ? other : mine;
    }
    *all = to;
    return true;
}

enum bp_status bp_infer_same(struct bp_invocation *inv)
{
    bp_shape_copy(&inv->out[0], bp_invocation_in(inv, 0));
    return BP_OK;
}
