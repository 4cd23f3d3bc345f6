/* SPDX-License-Identifier: Apache-2.0 */
/* launch_move.c: launches the kernel of kernel_move.h: assign, concat, slice_grad, sum_grad. */
#include "kernel_move.h"
#include "../../dialect/portable.h"
#include "../../dialect/run_size.h"
#include "../../dialect/walk_plan.h"

/* Copies x, or zeros if x is NULL, to the part of y that begins `offset` elements after y's
 * first. */
static enum bp_status move_launch(const struct bp_launch *launch, struct walk_by_value walk,
                                  const struct bp_view *y, int64_t offset, const struct bp_view *x)
{
    int64_t bytes = portable_bytes(y->dtype);
    struct move_args args = {walk};
    struct portable p = PORTABLE(move, move, portable_move_type(y->dtype), args, walk.count, 1);

    portable_view(&p, y);
    p.operand[0].data = (char *)y->data + offset * bytes;
    portable_view(&p, x);
    walk_divide(&args.walk, 2, RUN_OF(portable_type_bytes(p.type)), &p);
    return portable_run(launch, &p);
}

enum bp_status portable_assign(const struct bp_launch *launch)
{
    const struct bp_view *x = launch->in[0], *y = launch->out[0];

    if (x->data == y->data && x->memory == y->memory) return BP_OK; /* in place: the same view */
    return move_launch(launch, walk_of(y, &x, 1), y, 0, x);
}

/* The inputs fill one part of the output after the other. */
enum bp_status portable_concat(const struct bp_launch *launch)
{
    const struct bp_concat_attrs *attrs = launch->attrs;
    const struct bp_view *y = launch->out[0];
    int axis = portable_axis(attrs->axis, y->rank);
    enum bp_status status = BP_OK;
    int64_t offset = 0;

    for (uint32_t i = 0; i < launch->n_in && status == BP_OK; i++) {
        const struct bp_view *x = launch->in[i];
        struct walk_by_value walk = walk_shape(x->rank, x->shape);
        if (!x->count) continue;
        walk_strides(&walk, 0, x->rank, x->shape, y->stride);
        walk_strides(&walk, 1, x->rank, x->shape, x->stride);
        walk_join(&walk, 2);
        status = move_launch(launch, walk, y, offset, x);
        offset += x->shape[axis] * y->stride[axis];
    }
    return status;
}

/* Returns the first index of a slice: negative counts from the end; clamped to the axis. */
static int64_t first_index(int64_t start, int64_t extent)
{
    if (start < 0) start += extent;
    return start < 0 ? 0 : start > extent ? extent : start;
}

/* Fills dx with zeros, then copies dy to the positions from which the slice took its elements. */
enum bp_status portable_slice_grad(const struct bp_launch *launch)
{
    const struct bp_slice_grad_attrs *attrs = launch->attrs;
    const struct bp_view *dy = launch->in[0], *dx = launch->out[0], *none = NULL;
    struct walk_by_value walk = walk_shape(dy->rank, dy->shape);
    int64_t stride[BY_VALUE_RANK], offset = 0;
    enum bp_status status = move_launch(launch, walk_of(dx, &none, 1), dx, 0, NULL);

    if (status || !dy->count) return status;
    for (int a = 0; a < dx->rank; a++) stride[a] = dx->stride[a];
    for (int64_t i = 0; i < attrs->starts.n; i++) {
        int axis = attrs->axes.n ? portable_axis(attrs->axes.at[i], dx->rank) : (int)i;
        offset += first_index(attrs->starts.at[i], dx->shape[axis]) * dx->stride[axis];
        if (attrs->steps.n && dy->shape[axis] > 1) stride[axis] *= attrs->steps.at[i];
    }
    walk_strides(&walk, 0, dy->rank, dy->shape, stride);
    walk_strides(&walk, 1, dy->rank, dy->shape, dy->stride);
    walk_join(&walk, 2);
    return move_launch(launch, walk, dx, offset, dy);
}

/* Along reduced axes dy has no axis, or one of extent 1: dy repeats there. */
enum bp_status portable_sum_grad(const struct bp_launch *launch)
{
    const struct bp_sum_grad_attrs *attrs = launch->attrs;
    const struct bp_view *dy = launch->in[0], *dx = launch->out[0];
    struct walk_by_value walk = walk_shape(dx->rank, dx->shape);
    uint64_t summed = attrs->axes.n ? 0 : ~UINT64_C(0);

    for (int64_t i = 0; i < attrs->axes.n; i++)
        summed |= UINT64_C(1) << portable_axis(attrs->axes.at[i], dx->rank);
    walk_strides(&walk, 0, dx->rank, dx->shape, dx->stride);
    for (int a = 0, from = 0; a < dx->rank; a++) {
        if (summed >> a & 1) from += attrs->keep != 0;
        else walk.stride[1][a] = dy->stride[from++];
    }
    walk_join(&walk, 2);
    return move_launch(launch, walk, dx, 0, dy);
}
