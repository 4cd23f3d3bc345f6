/* SPDX-License-Identifier: Apache-2.0 */
/* shape_axes.h: what rules of VIEW outputs share: how the output lies in the memory of the
 * input. */
#ifndef BP_OPS_COPY_SHAPE_AXES_H
#define BP_OPS_COPY_SHAPE_AXES_H

#include <call/shape.h>

/* x as extents, from its first element on. */
static inline struct bp_extents bp_rule_extents(const struct bp_view *x)
{
    struct bp_extents e = {.rank = x->rank};

    memcpy(e.shape, x->shape, x->rank * sizeof *x->shape);
    memcpy(e.stride, x->stride, x->rank * sizeof *x->stride);
    return e;
}

/* The one output lies so. */
static inline enum bp_status bp_rule_view(struct bp_invocation *site, const struct bp_extents *e)
{
    site->out[0].rank = e->rank;
    memcpy(site->out[0].shape, e->shape, e->rank * sizeof *e->shape);
    memcpy(site->view_stride, e->stride, e->rank * sizeof *e->stride);
    site->view_offset[0] = e->offset;
    return BP_OK;
}

/* The output is x with another shape, in row-major order: a view, or one of a dense copy. */
enum bp_status bp_rule_reshaped(struct bp_invocation *site, uint32_t rank, const int64_t *shape);

/* Bit of each axis that list names, each once at most, of a tensor of this rank. */
enum bp_status bp_rule_axes(const struct bp_invocation *site, struct bp_dims list, uint32_t rank,
                            uint32_t *out_axes);

#endif
