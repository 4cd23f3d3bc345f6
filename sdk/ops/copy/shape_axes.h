/* SPDX-License-Identifier: Apache-2.0 */
/* shape_axes.h: has helpers for the rules of VIEW outputs: the layout of an output in the memory of
 * the input. */
#ifndef BP_OPS_COPY_SHAPE_AXES_H
#define BP_OPS_COPY_SHAPE_AXES_H

#include <call/shape.h>

/* Returns x as extents, with offset 0. */
static inline struct bp_extents bp_rule_extents(const struct bp_view *x)
{
    struct bp_extents e = {.rank = x->rank};

    memcpy(e.shape, x->shape, x->rank * sizeof *x->shape);
    memcpy(e.stride, x->stride, x->rank * sizeof *x->stride);
    return e;
}

/* Sets the shape, strides and offset of the only output. */
static inline enum bp_status bp_rule_view(struct bp_invocation *inv, const struct bp_extents *e)
{
    inv->out[0].rank = e->rank;
    memcpy(inv->out[0].shape, e->shape, e->rank * sizeof *e->shape);
    memcpy(inv->view_stride, e->stride, e->rank * sizeof *e->stride);
    inv->view_offset[0] = e->offset;
    return BP_OK;
}

/* Makes the output x with another shape, in row-major order: a view of x, or a view of a dense copy
 * of x. */
enum bp_status bp_rule_reshaped(struct bp_invocation *inv, uint32_t rank, const int64_t *shape);

/* Returns a bit for each axis that list names; list must name each axis once at most. rank: of the
 * tensor. */
enum bp_status bp_rule_axes(const struct bp_invocation *inv, struct bp_dims list, uint32_t rank,
                            uint32_t *out_axes);

#endif
