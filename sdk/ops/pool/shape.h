/* SPDX-License-Identifier: Apache-2.0 */
/* shape.h: declares the shape rules that pools share. All attribute structs of pools begin as that
 * of max_pool. */
#ifndef BP_OPS_POOL_SHAPE_H
#define BP_OPS_POOL_SHAPE_H

#include <call/shape.h>

#include <backplane/attrs.h>

/* Infers the type of the result of a pool of x with attributes `a` (of any pool), and checks x and
 * the attributes. */
enum bp_status bp_pool_forward(const struct bp_invocation *inv, const struct bp_view *x,
                               const void *a, struct bp_type *out);

/* Fails unless x has the axes N C and 1 to 3 spatial axes. */
enum bp_status bp_pool_rank(const struct bp_invocation *inv, const struct bp_view *x);

/* Fails unless the entries of an attribute past its first n (spatial axes) all have the value
 * `unset`. name: that of the attribute. */
enum bp_status bp_pool_unused(const struct bp_invocation *inv, const char *name,
                              const int64_t *entry, uint32_t n, int64_t unset);

/* Checks the attribute dtype of an index, i32 or i64, and sets the type of the output. */
enum bp_status bp_pool_index(const struct bp_invocation *inv, int64_t dtype, struct bp_type *out);

#endif
