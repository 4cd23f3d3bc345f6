/* SPDX-License-Identifier: Apache-2.0 */
/* walk.h: visits all elements of one to four views of one shape, of any strides, in few long
 * spans. */
#ifndef CPU_WALK_H
#define CPU_WALK_H

#include <backplane/kernel.h>

/* The most axes that a kernel takes; cpu_accepts refuses more. */
enum { WALK_RANK = 16, WALK_VIEWS = 4 };

/* Axis 0 is the outermost; strides in elements. After walk_collapse rank is at least 1. */
struct walk {
    int rank;
    int64_t count; /* elements */
    int64_t shape[WALK_RANK];
    int64_t stride[WALK_VIEWS][WALK_RANK];
};

/* A walk over all of shape; views that are not set by walk_broadcast have stride 0. */
void walk_init(struct walk *walk, int rank, const int64_t *shape);

/* A walk of n elements that lie side by side in every view. */
void walk_flat(struct walk *walk, int64_t n);

/* View number index is of this rank and shape, aligned at the last axis; missing axes and
 * extents of 1 repeat. */
void walk_broadcast(struct walk *walk, int index, int rank, const int64_t *shape,
                    const int64_t *stride);

/* View number index has the number of each element, in row-major order, in place of where it lies.
 */
void walk_number(struct walk *walk, int index);

/* Adds an innermost axis; stride[i] belongs to view i. */
void walk_append(struct walk *walk, int64_t extent, const int64_t *stride, int n_stride);

/* Reorders axes so that the strides of view index fall from the outermost to the innermost. The
 * order of visits changes with it. */
void walk_sort(struct walk *walk, int index);

/* Drops axes of extent 1 and joins axes that all views walk through evenly. */
void walk_collapse(struct walk *walk);

/* Calls span for elements begin to end - 1 in runs along the innermost axis: n elements, the
 * first of which lies at[i] elements after the first of view i. */
void walk_spans(const struct walk *walk, int64_t begin, int64_t end,
                void (*span)(void *ctx, int64_t n, const int64_t *at), void *ctx);

/* The same for all elements, on the team if they are many. */
void walk_run(const struct walk *walk, const struct bp_launch *launch,
              void (*span)(void *ctx, int64_t n, const int64_t *at), void *ctx);

/* Where element number index lies in each view. */
void walk_offset(const struct walk *walk, int64_t index, int64_t *at);

#endif
