/* SPDX-License-Identifier: Apache-2.0 */
/* move.c: copies elements of any dtype: assign, concat, slice_grad and sum_grad. */
#include "move.h"
#include "axes.h"
#include "cpu.h"
#include "dtype.h"
#include "kernels.h"
#include "stream_store.h"
#include "transpose.h"
#include <string.h>

struct move {
    const struct cpu *self;
    struct walk walk; /* views: to, from */
    char *to;
    const char *from;
    int size; /* of an element */
    int nt; /* spans are copied with streaming stores */
};

/* size is a constant wherever this is inlined, so the copy becomes a load and a store. */
static inline void copy_steps(char *to, int64_t to_step, const char *from, int64_t from_step,
                              int64_t n, size_t size)
{
    for (int64_t i = 0; i < n; i++)
        memcpy(to + i * to_step * (int64_t)size, from + i * from_step * (int64_t)size, size);
}

void cpu_copy_elements(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n,
                       int64_t size)
{
    switch (size) {
    case 1: copy_steps(to, to_step, from, from_step, n, 1); break;
    case 2: copy_steps(to, to_step, from, from_step, n, 2); break;
    case 4: copy_steps(to, to_step, from, from_step, n, 4); break;
    case 8: copy_steps(to, to_step, from, from_step, n, 8); break;
    default: copy_steps(to, to_step, from, from_step, n, 16); break;
    }
}

static void move_span(void *ctx, int64_t n, const int64_t *at)
{
    const struct move *m = ctx;
    int last = m->walk.rank - 1;
    int64_t to_step = m->walk.stride[0][last], from_step = m->walk.stride[1][last];
    char *to = m->to + at[0] * m->size;
    const char *from = m->from + at[1] * m->size;

    if (to_step == 1 && from_step == 1) {
        if (m->nt) cpu_copy_nt(m->self, to, from, (size_t)(n * m->size));
        else memcpy(to, from, (size_t)(n * m->size));
        return;
    }
    cpu_copy_elements(to, to_step, from, from_step, n, m->size);
}

void cpu_move(struct walk *walk, const struct bp_launch *launch, void *to, const void *from,
              int size)
{
    struct move move;

    walk_sort(walk, 0);
    walk_collapse(walk);
    if (cpu_transpose(walk, launch, to, from, size) ||
        cpu_transpose_planes(walk, launch, to, from, size))
        return;
    move = (struct move){launch->self, *walk, to, from, size, nt_pays(walk->count * size)};
    walk_run(&move.walk, launch, move_span, &move);
}

enum bp_status cpu_assign(const struct bp_launch *launch)
{
    const struct bp_view *x = launch->in[0], *y = launch->out[0];
    struct walk walk;

    if (x->data == y->data) return BP_OK; /* in place: both are the same view */
    if (!((x->flags | y->flags) & BP_VIEW_STRIDED)) {
        walk_flat(&walk, y->count);
    } else {
        walk_init(&walk, y->rank, y->shape);
        walk_broadcast(&walk, 0, y->rank, y->shape, y->stride);
        walk_broadcast(&walk, 1, x->rank, x->shape, x->stride);
    }
    cpu_move(&walk, launch, y->data, x->data, dtype_size(y->dtype));
    return BP_OK;
}

/* Copies one input after the other into its part of the output. */
enum bp_status cpu_concat(const struct bp_launch *launch)
{
    const struct bp_concat_attrs *attrs = launch->attrs;
    const struct bp_view *y = launch->out[0];
    int axis = axis_index(attrs->axis, y->rank), size = dtype_size(y->dtype);
    char *to = y->data;

    for (uint32_t i = 0; i < launch->n_in; i++) {
        const struct bp_view *x = launch->in[i];
        struct walk walk;
        if (!x->count) continue;
        walk_init(&walk, x->rank, x->shape);
        walk_broadcast(&walk, 0, x->rank, x->shape, y->stride);
        walk_broadcast(&walk, 1, x->rank, x->shape, x->stride);
        cpu_move(&walk, launch, to, x->data, size);
        to += x->shape[axis] * y->stride[axis] * size;
    }
    return BP_OK;
}

static void move_zero(const struct bp_launch *launch, const struct bp_view *y)
{
    static const char zeros[16];
    struct walk walk;

    walk_init(&walk, y->rank, y->shape);
    walk_broadcast(&walk, 0, y->rank, y->shape, y->stride);
    cpu_move(&walk, launch, y->data, zeros, dtype_size(y->dtype));
}

/* The first index of a slice: a negative start counts from the end; the result is clamped to the
 * extent. */
static int64_t first_index(int64_t start, int64_t extent)
{
    if (start < 0) start += extent;
    return start < 0 ? 0 : start > extent ? extent : start;
}

/* Copies dy to the elements that the slice selected; all other elements of dx are 0. */
enum bp_status cpu_slice_grad(const struct bp_launch *launch)
{
    const struct bp_slice_grad_attrs *attrs = launch->attrs;
    const struct bp_view *dy = launch->in[0], *dx = launch->out[0];
    int64_t stride[WALK_RANK], offset = 0;
    int size = dtype_size(dx->dtype);
    struct walk walk;

    if (!dx->count) return BP_OK;
    move_zero(launch, dx);
    if (!dy->count) return BP_OK;
    memcpy(stride, dx->stride, dx->rank * sizeof *stride);
    for (int64_t i = 0; i < attrs->starts.n; i++) {
        int axis = attrs->axes.n ? axis_index(attrs->axes.at[i], dx->rank) : (int)i;
        offset += first_index(attrs->starts.at[i], dx->shape[axis]) * dx->stride[axis];
        if (attrs->steps.n && dy->shape[axis] > 1) stride[axis] *= attrs->steps.at[i];
    }
    walk_init(&walk, dy->rank, dy->shape);
    walk_broadcast(&walk, 0, dy->rank, dy->shape, stride);
    walk_broadcast(&walk, 1, dy->rank, dy->shape, dy->stride);
    cpu_move(&walk, launch, (char *)dx->data + offset * size, dy->data, size);
    return BP_OK;
}

enum bp_status cpu_sum_grad(const struct bp_launch *launch)
{
    const struct bp_sum_grad_attrs *attrs = launch->attrs;
    const struct bp_view *dy = launch->in[0], *dx = launch->out[0];
    uint64_t summed = axes_mask(&attrs->axes, dx->rank);
    struct walk walk;

    walk_init(&walk, 0, NULL);
    for (int a = 0, from = 0; a < dx->rank; a++) {
        int64_t stride[2] = {dx->stride[a], 0};
        if (summed >> a & 1) from += attrs->keep != 0;
        else stride[1] = dy->stride[from++];
        walk_append(&walk, dx->shape[a], stride, 2);
    }
    cpu_move(&walk, launch, dx->data, dy->data, dtype_size(dx->dtype));
    return BP_OK;
}
