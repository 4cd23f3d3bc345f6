/* SPDX-License-Identifier: Apache-2.0 */
/* launch_reduce.h: declares how the host cuts a reduction into teams. */
#ifndef BP_OPS_COMMON_LAUNCH_REDUCE_H
#define BP_OPS_COMMON_LAUNCH_REDUCE_H

#include "../../dialect/portable.h"
#include "kernel_reduce.h"

/* Plans a reduction of a contiguous x over the axes whose bits are set in `goes`. The plan depends
 * on the shape only, so that results are bitwise equal at any vector width. */
struct reduce_args reduce_plan(const struct bp_view *x, uint64_t goes, int64_t op);

/* Returns a bit for each reduced axis, from attributes that begin with axes and keep. */
uint64_t reduce_goes(const void *attrs, int rank);

/* Plans the reduction of a call: reduce_goes and reduce_plan together; x is input 0. */
struct reduce_args reduce_of(const struct bp_launch *launch, int64_t op);

/* Returns the bytes of partial results, 16 each: 0 if there are none. */
static inline int64_t reduce_partial(const struct reduce_args *a)
{
    return a->parts > 1 ? a->parts * a->outputs * 16 : 0;
}

/* The number of teams that join the parts of all results; and about how many additions each of them
 * does. */
int64_t reduce_ends(const struct reduce_args *a);
static inline double reduce_ends_work(const struct reduce_args *a)
{
    return (double)a->parts * (double)a->ends;
}

/* About how many additions a team does. */
static inline double reduce_work(const struct reduce_args *a)
{
    return (double)a->part * (double)a->wide;
}

/* The estimated work of one line along an axis. Where neighbouring lines are side by side, the
 * estimate is capped below the true value, so that a task gets many lines, which it processes
 * together. */
static inline double reduce_line_work(double work, int64_t inner)
{
    return inner > 1 && work > 256 ? 256 : work;
}

/* The `prepare` function of a row that needs only partial results as workspace. */
enum bp_status reduce_prepare(const struct bp_prep *prep, struct bp_plan *out);

/* Adds the partial results, which begin at byte offset of the workspace, after the other
 * operands. */
void reduce_partials(struct portable *p, const struct bp_launch *launch,
                     const struct reduce_args *a, size_t offset);

/* Does the work of portable_minmax for `op`, with any operand as its result: minmax/launch.c. */
enum bp_status reduce_minmax(const struct bp_launch *launch, const struct reduce_args *a,
                             size_t partial, struct portable_operand y);

#endif
