/* SPDX-License-Identifier: Apache-2.0 */
/* shape.h: declares helpers that shape inference rules share. Checks write error messages with the
 * operator's name. */
#ifndef BP_SHAPE_H
#define BP_SHAPE_H

#include "../schema/op.h"

#include <string.h>

/* Copies the shape of view to type. */
static inline void bp_shape_copy(struct bp_type *type, const struct bp_view *view)
{
    type->rank = view->rank;
    if (view->rank) memcpy(type->shape, view->shape, view->rank * sizeof *view->shape);
}

/* Returns the extent of axis rank - 1 - i; 1 in front of the first axis. */
static inline int64_t bp_shape_extent_back(const struct bp_view *v, uint32_t i)
{
    return i < v->rank ? v->shape[v->rank - 1 - i] : 1;
}

/* Checks an axis attribute for a tensor of this rank, and returns it counted from the first
 * axis. */
enum bp_status bp_shape_axis(const struct bp_invocation *inv, int64_t axis, uint32_t rank,
                             uint32_t *out_axis);

/* The attributes that describe a slice with steps. */
struct bp_shape_slices {
    struct bp_dims starts, ends, axes, steps;
};

/* Checks that the lists have equal lengths and no step is 0, and returns the axis of each entry; no
 * axis may occur twice. */
enum bp_status bp_shape_check_slices(const struct bp_invocation *inv,
                                     const struct bp_shape_slices *s, uint32_t rank,
                                     uint32_t out_axis[BP_RANK_MAX]);

/* Returns the number of indices start, start + step, ... before end along an axis of this extent.
 * A negative start or end counts from the end of the axis. step: not 0; if it is negative, the
 * indices descend to the one behind end. */
int64_t bp_shape_slice_extent(int64_t start, int64_t end, int64_t step, int64_t extent);

/* Computes the shape to which the inputs of n ports broadcast. Absent inputs do not count. The last
 * `skip` axes are not set. */
enum bp_status bp_shape_broadcast(const struct bp_invocation *inv, const uint32_t *port, uint32_t n,
                                  uint32_t skip, struct bp_type *out);

/* Changes all to the shape to which all and x broadcast; returns false if they do not. */
bool bp_shape_join(struct bp_type *all, const struct bp_view *x);

/* Computes the shape of x without axes (n 0: all); an axis may be listed only once. keep: reduced
 * axes stay, with extent 1. */
enum bp_status bp_shape_reduce(const struct bp_invocation *inv, const struct bp_view *x,
                               struct bp_dims axes, bool keep, struct bp_type *out);

/* Computes the shape of conv(x, w); attrs begins with the members of conv's attributes. */
enum bp_status bp_shape_conv(const char *op, const struct bp_view *x, const struct bp_view *w,
                             const void *attrs, struct bp_type *out);

/* Checks that the input of port has the rank and shape of expected. */
enum bp_status bp_shape_expect(const struct bp_invocation *inv, uint32_t port,
                               const struct bp_type *expected);

#endif
