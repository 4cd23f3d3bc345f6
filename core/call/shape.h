/* SPDX-License-Identifier: Apache-2.0 */
/* shape.h: what rules of inference share. Checks write messages, with the operator's name. */
#ifndef BP_SHAPE_H
#define BP_SHAPE_H

#include "../schema/op.h"

#include <string.h>

/* type gets the shape of view. */
static inline void bp_shape_copy(struct bp_type *type, const struct bp_view *view)
{
    type->rank = view->rank;
    if (view->rank) memcpy(type->shape, view->shape, view->rank * sizeof *view->shape);
}

/* The extent of axis rank - 1 - i; 1 beyond the first. */
static inline int64_t bp_shape_extent_back(const struct bp_view *v, uint32_t i)
{
    return i < v->rank ? v->shape[v->rank - 1 - i] : 1;
}

/* An axis attribute of a tensor of this rank, counted from the first. */
enum bp_status bp_shape_axis(const struct bp_invocation *site, int64_t axis, uint32_t rank,
                             uint32_t *out_axis);

/* The attributes that say a slice with steps. */
struct bp_shape_slices {
    struct bp_dims starts, ends, axes, steps;
};

/* Their lengths fit, and the axis of each entry, which has none in common with another. */
enum bp_status bp_shape_check_slices(const struct bp_invocation *site,
                                     const struct bp_shape_slices *s, uint32_t rank,
                                     uint32_t out_axis[BP_RANK_MAX]);

/* The shape to which the inputs of n ports broadcast (absent ones do not count), but for the last
 * `skip` axes, which are left as they are. */
enum bp_status bp_shape_broadcast(const struct bp_invocation *site, const uint32_t *port,
                                  uint32_t n, uint32_t skip, struct bp_type *out);

/* x without axes (n 0: all), each of which is named once at most; keep: with extent 1 instead. */
enum bp_status bp_shape_reduce(const struct bp_invocation *site, const struct bp_view *x,
                               struct bp_dims axes, bool keep, struct bp_type *out);

/* The shape of conv(x, w); attrs begins as those of conv. */
enum bp_status bp_shape_conv(const char *op, const struct bp_view *x, const struct bp_view *w,
                             const void *attrs, struct bp_type *out);

/* The input of port has the rank and shape of expected. */
enum bp_status bp_shape_expect(const struct bp_invocation *site, uint32_t port,
                               const struct bp_type *expected);

#endif
