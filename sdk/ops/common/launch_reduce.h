/* SPDX-License-Identifier: Apache-2.0 */
/* launch_reduce.h: the host's side of reductions: how a call is cut into teams. */
#ifndef BP_OPS_COMMON_LAUNCH_REDUCE_H
#define BP_OPS_COMMON_LAUNCH_REDUCE_H

#include "../../dialect/portable.h"
#include "kernel_reduce.h"

/* A reduction of contiguous x over the axes whose bits are set. Depends on the shape only, so that
 * results have the same bits at any width. */
struct reduce_args reduce_plan(const struct bp_view *x, uint64_t goes, int64_t op);

/* The axes that go, by attributes that begin with axes and keep. */
uint64_t reduce_goes(const void *attrs, int rank);

/* The same of both; x is input 0. */
struct reduce_args reduce_of(const struct bp_launch *launch, int64_t op);

/* Bytes of partial results, each of which has 16: 0 where there are none. */
static inline int64_t reduce_partial(const struct reduce_args *a)
{
    return a->parts > 1 ? a->parts * a->outputs * 16 : 0;
}

/* Teams that join the parts of all results; the additions of one of them, about. */
int64_t reduce_ends(const struct reduce_args *a);
static inline double reduce_ends_work(const struct reduce_args *a)
{
    return (double)a->parts * (double)a->ends;
}

/* Additions of a team, about. */
static inline double reduce_work(const struct reduce_args *a)
{
    return (double)a->part * (double)a->wide;
}

/* The work of a line along an axis, where neighbouring lines lie side by side: given as less than
 * it is, so that a task has many of them, which are gone along together. */
static inline double reduce_line_work(double work, int64_t inner)
{
    return inner > 1 && work > 256 ? 256 : work;
}

/* What prepare answers for a row that needs partial results and no more. */
enum bp_status reduce_prepare(const struct bp_prep *prep, struct bp_plan *out);

/* Puts the partial results, which begin at byte offset of the workspace, behind the operands. */
void reduce_partials(struct portable *p, const struct bp_launch *launch,
                     const struct reduce_args *a, size_t offset);

/* portable_extreme's work for op and any operand as its result: minmax/launch.c. */
enum bp_status reduce_extreme(const struct bp_launch *launch, const struct reduce_args *a,
                              size_t partial, struct portable_operand y);

#endif
