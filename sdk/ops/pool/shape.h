/* SPDX-License-Identifier: Apache-2.0 */
/* shape.h: what the rules of pools share. All structs of attributes of pools begin as that of
 * max_pool. */
#ifndef BP_OPS_POOL_SHAPE_H
#define BP_OPS_POOL_SHAPE_H

#include <call/shape.h>

#include <backplane/attrs.h>

/* The type of a pool of x with attributes a (of any pool), with every check of both. */
enum bp_status bp_pool_forward(const struct bp_invocation *site, const struct bp_view *x,
                               const void *a, struct bp_type *out);

/* Refuses an x that has not N C and 1 to 3 spatial axes. */
enum bp_status bp_pool_rank(const struct bp_invocation *site, const struct bp_view *x);

/* The entries of spatial axes past the first n are all `unset`. name: of the attribute. */
enum bp_status bp_pool_unused(const struct bp_invocation *site, const char *name,
                              const int64_t *entry, uint32_t n, int64_t unset);

/* An attribute dtype of indices: i32 or i64. */
enum bp_status bp_pool_index(const struct bp_invocation *site, int64_t dtype, struct bp_type *out);

#endif
