/* SPDX-License-Identifier: Apache-2.0 */
/* walk_plan.h: builds, on the host, the walks of walk.h: how a kernel visits operands of any
 * strides. */
#ifndef BP_DIALECT_WALK_PLAN_H
#define BP_DIALECT_WALK_PLAN_H

#include "walk.h"
#include "portable.h"

/* Returns a walk over all elements of a shape, in which each operand repeats one element until
 * walk_strides sets its strides. */
struct walk_by_value walk_shape(int rank, const int64_t *shape);

/* Sets the strides of operand k, which has this rank and shape, aligned at the last axis; missing
 * axes and extents of 1 repeat. */
void walk_strides(struct walk_by_value *walk, int k, int rank, const int64_t *shape,
                  const int64_t *stride);

/* Joins axes where operands 0 to n - 1 allow it, so that as few as possible remain, and sorts them
 * so that the axes with the largest strides of operand 0 are outermost: the order of elements
 * changes with it. */
void walk_join(struct walk_by_value *walk, int n);

/* Returns the complete walk over a result, operand 0, and n inputs that broadcast to it; an input
 * that is NULL is absent. */
struct walk_by_value walk_of(const struct bp_view *y, const struct bp_view *const *x, int n);

/* Lets lanes of a GPU compute `together` elements at a time, if the first n operands of p, all
 * views, are even for that number (walk_is_even); the kernel makes the same test. */
void walk_divide(const struct walk_by_value *walk, int n, int together, struct portable *p);

#endif
