/* SPDX-License-Identifier: Apache-2.0 */
/* walk_plan.h: the host's side of walk.h: how operands of any strides are gone through. */
#ifndef BP_DIALECT_WALK_PLAN_H
#define BP_DIALECT_WALK_PLAN_H

#include "walk.h"
#include "portable.h"

/* A walk over all elements of a shape, of operands that walk_strides sets: all repeat. */
struct walk_by_value walk_shape(int rank, const int64_t *shape);

/* Operand k is of this rank and shape, aligned at the last axis; missing axes and extents of 1
 * repeat. */
void walk_strides(struct walk_by_value *walk, int k, int rank, const int64_t *shape,
                  const int64_t *stride);

/* As few axes as go on evenly in operands 0 to n - 1, those with the longest steps of operand 0
 * outermost: the order of elements changes with it. */
void walk_join(struct walk_by_value *walk, int n);

/* All of that of a result, operand 0, and of n inputs that broadcast to it; one that is NULL is
 * absent. */
struct walk_by_value walk_of(const struct bp_view *y, const struct bp_view *const *x, int n);

/* Has lanes of a GPU make that many elements together, if the first n operands of p, views, are
 * even for them (walk_is_even), as the kernel finds too. */
void walk_divide(const struct walk_by_value *walk, int n, int together, struct portable *p);

#endif
