/* SPDX-License-Identifier: Apache-2.0 */
/* walk.h: visits all elements of one to four views of one shape, with any strides, in a few long
 * spans. */
#ifndef CPU_WALK_H
#define CPU_WALK_H

#include <backplane/kernel.h>

/* The maximum number of axes of a kernel's operand; cpu_accepts refuses more. */
enum { WALK_RANK = 16, WALK_VIEWS = 4 };

/* Axis 0 is the outermost; strides are in elements. After walk_collapse rank is at least 1. */
struct walk {
    int rank;
    int64_t count; /* number of elements */
    int64_t shape[WALK_RANK];
    int64_t stride[WALK_VIEWS][WALK_RANK];
};

/* Begins a walk over all of `shape`. Views that walk_broadcast does not set have stride 0. */
void walk_init(struct walk *walk, int rank, const int64_t *shape);

/* Begins a walk of n elements that are contiguous in every view. */
void walk_flat(struct walk *walk, int64_t n);

/* Sets the shape and strides of view number `index`, aligned at the last axis. Missing axes and
 * extents of 1 repeat. */
void walk_broadcast(struct walk *walk, int index, int rank, const int64_t *shape,
                    const int64_t *stride);

/* View number `index` gives the number of each element, in row-major order, instead of an
 * address. */
void walk_number(struct walk *walk, int index);

/* Adds an innermost axis; stride[i] belongs to view i. */
void walk_append(struct walk *walk, int64_t extent, const int64_t *stride, int n_stride);

/* Reorders the axes so that the strides of view `index` decrease from the outermost to the
 * innermost axis. This also changes the order of visits. */
void walk_sort(struct walk *walk, int index);

/* Removes axes of extent 1 and merges axes that all views traverse in even steps. */
void walk_collapse(struct walk *walk);

/* Visits elements begin to end - 1 in spans along the innermost axis: calls `span` with n elements,
 * the first of which is at[i] elements after the first element of view i. */
void walk_spans(const struct walk *walk, int64_t begin, int64_t end,
                void (*span)(void *ctx, int64_t n, const int64_t *at), void *ctx);

/* The same for all elements, on the thread team if there are many. */
void walk_run(const struct walk *walk, const struct bp_launch *launch,
              void (*span)(void *ctx, int64_t n, const int64_t *at), void *ctx);

/* Computes the offset of element number `index` in each view. */
void walk_offset(const struct walk *walk, int64_t index, int64_t *at);

#endif
