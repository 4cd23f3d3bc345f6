/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c: launches the kernels of kernel.h for scatter operators, one_hot, segment pools and
 * bincount. */
#include "../index/launch.h"
#include "kernel.h"

#include <stdbool.h>

static bool scatter_is_half(const struct bp_view *y)
{
    return y->dtype == BP_F16 || y->dtype == BP_BF16;
}

/* Results of half types are computed in f32, in the workspace. */
static enum bp_status scatter_prepare(const struct bp_prep *prep, struct bp_plan *out)
{
    const struct bp_view *y = prep->out[0];

    return portable_needs(out, scatter_is_half(y) ? 4 * y->count : 0);
}

#define PREPARE(launch) \
    enum bp_status portable_##launch##_prepare(void *self, const struct bp_prep *prep, \
                                               struct bp_plan *out)
PREPARE(gather_grad)
{
    (void)self;
    return scatter_prepare(prep, out);
}
PREPARE(scatter_nd)
{
    (void)self;
    return scatter_prepare(prep, out);
}
PREPARE(index_add)
{
    (void)self;
    return scatter_prepare(prep, out);
}
PREPARE(scatter)
{
    (void)self;
    return scatter_prepare(prep, out);
}
PREPARE(put_along_axis)
{
    (void)self;
    return scatter_prepare(prep, out);
}

/* Adds the operand in which the kernels compute the result. */
static void work_operand(struct portable *p, const struct bp_launch *launch)
{
    if (scatter_is_half(launch->out[0])) portable_workspace(p, launch, 0);
    else portable_view(p, launch->out[0]);
}

/* Copies x (NULL: zeros) to the memory in which the kernels compute. */
static enum bp_status scatter_begin(const struct bp_launch *launch, const struct bp_view *x)
{
    const struct bp_view *y = launch->out[0];
    struct scatter_start_args none = {0};
    struct portable p = PORTABLE(scatter, scatter_start, portable_type(y->dtype), none, y->count,
                                 1);

    if (x && !scatter_is_half(y) && x->data == y->data && x->memory == y->memory) return BP_OK;
    work_operand(&p, launch);
    portable_view(&p, x);
    return portable_run(launch, &p);
}

static enum bp_status scatter_end(const struct bp_launch *launch)
{
    const struct bp_view *y = launch->out[0];
    struct scatter_finish_args none = {0};
    struct portable p = PORTABLE(scatter, scatter_finish, portable_type(y->dtype), none, y->count,
                                 1);

    if (!scatter_is_half(y)) return BP_OK;
    portable_view(&p, y);
    portable_workspace(&p, launch, 0);
    return portable_run(launch, &p);
}

/* updates NULL: writes zeros. */
static enum bp_status put_rows(const struct bp_launch *launch, struct index_rows rows,
                               int64_t outer, const struct bp_view *updates,
                               const struct bp_view *index, int put)
{
    const struct bp_view *y = launch->out[0];
    struct scatter_args args = {rows, put};
    struct portable p = PORTABLE(scatter, scatter, portable_type(y->dtype), args,
                                 y->count ? outer * rows.inner : 0, (double)rows.n + 1);

    work_operand(&p, launch);
    portable_view(&p, updates);
    portable_view(&p, index);
    portable_fault(&p, launch);
    return portable_run(launch, &p);
}

/* If the result has no columns, no lane reads the indices: even invalid ones have no effect. */
static enum bp_status put_all(const struct bp_launch *launch, struct index_rows rows, int64_t outer,
                              const struct bp_view *x, const struct bp_view *updates,
                              const struct bp_view *index, int put)
{
    enum bp_status status = scatter_begin(launch, x);

    if (status == BP_OK) status = put_rows(launch, rows, outer, updates, index, put);
    return status ? status : scatter_end(launch);
}

static int64_t outer_of(const struct bp_view *y, int axes)
{
    int64_t outer = 1;

    for (int i = 0; i < axes; i++) outer *= y->shape[i];
    return outer;
}

/* Number 0: gather_grad; 1: embedding_grad. */
enum bp_status portable_gather_grad(const struct bp_launch *launch)
{
    const struct bp_view *dy = launch->in[0], *index = launch->in[1], *x = launch->in[2];
    const struct bp_gather_grad_attrs *gather = launch->attrs;
    const struct bp_embedding_grad_attrs *embedding = launch->attrs;
    bool rows_only = portable_number(launch->kernel) == 1;
    int axis = rows_only ? 0 : portable_axis(gather->axis, x->rank);
    struct index_rows rows = index_rows_along(x, index, axis);

    if (rows_only) {
        rows.wrap = 0;
        rows.pad = embedding->padding_idx;
    }
    return put_all(launch, rows, outer_of(x, axis), NULL, dy, index, PUT_ADD);
}

enum bp_status portable_index_add(const struct bp_launch *launch)
{
    const struct bp_index_add_attrs *a = launch->attrs;
    const struct bp_view *x = launch->in[0], *index = launch->in[1];
    int axis = portable_axis(a->axis, x->rank);

    return put_all(launch, index_rows_along(x, index, axis), outer_of(x, axis), x, launch->in[2],
                   index, PUT_ADD);
}

/* Numbers: 0 gather_nd_grad(dy, index, x), 1 scatter_nd(index, updates); 2 and 3 have inputs x,
 * index, updates. */
enum bp_status portable_scatter_nd(const struct bp_launch *launch)
{
    int number = portable_number(launch->kernel);
    const struct bp_gather_nd_grad_attrs *a = launch->attrs;
    const struct bp_view *y = launch->out[0], *x = number >= 2 ? launch->in[0] : NULL;
    const struct bp_view *index = launch->in[number == 1 ? 0 : 1];
    const struct bp_view *updates = launch->in[number == 0 ? 0 : number == 1 ? 1 : 2];
    int batch = number == 0 ? (int)a->batch_dims : 0;

    return put_all(launch, index_rows_nd(y, index, batch), outer_of(y, batch), x, updates, index,
                   number == 3 ? PUT_REPLACE : PUT_ADD);
}

enum bp_status portable_scatter(const struct bp_launch *launch)
{
    const struct bp_scatter_attrs *a = launch->attrs;
    const struct bp_view *x = launch->in[0], *index = launch->in[1], *updates = launch->in[2];
    struct index_rows rows = index_rows_along(x, index, 0);
    enum bp_status status = scatter_begin(launch, x);

    if (status == BP_OK && !a->overwrite)
        status = put_rows(launch, rows, 1, NULL, index, PUT_REPLACE);
    if (status == BP_OK)
        status = put_rows(launch, rows, 1, updates, index, a->overwrite ? PUT_REPLACE : PUT_ADD);
    return status ? status : scatter_end(launch);
}

/* The columns of index, whose indexed axis has n entries into the axis of y. */
static struct along_args along_of(const struct bp_view *y, const struct bp_view *index, int axis)
{
    struct along_args a = {.n = index->shape[axis],
                           .extent = y->shape[axis],
                           .x_step = 1,
                           .step = 1,
                           .wide = index->dtype == BP_I64,
                           .shape = {1}};
    int64_t x_step = 1, step = 1, at[2][INDEX_AXES] = {{0}};

    for (int i = y->rank - 1; i >= 0; i--) {
        at[0][i] = x_step;
        at[1][i] = step;
        x_step *= y->shape[i];
        step *= index->shape[i];
    }
    a.x_step = at[0][axis];
    a.step = at[1][axis];
    for (int i = 0; i < y->rank; i++) {
        if (i == axis) continue;
        a.shape[a.axes] = index->shape[i];
        a.x_stride[a.axes] = at[0][i];
        a.stride[a.axes++] = at[1][i];
    }
    if (!a.axes) a.axes = 1;
    return a;
}

/* Number 0: put_along_axis; 1: take_along_axis_grad(dy, index, x). */
enum bp_status portable_put_along_axis(const struct bp_launch *launch)
{
    bool is_grad = portable_number(launch->kernel) == 1;
    const struct bp_put_along_axis_attrs *put = launch->attrs;
    const struct bp_take_along_axis_grad_attrs *grad = launch->attrs;
    const struct bp_view *index = launch->in[1], *y = launch->out[0];
    struct along_args args =
        along_of(y, index, portable_axis(is_grad ? grad->axis : put->axis, y->rank));
    struct portable p = PORTABLE(scatter, along, portable_type(y->dtype), args, 0,
                                 (double)args.n + 1);
    enum bp_status status = scatter_begin(launch, is_grad ? NULL : launch->in[0]);

    args.put = is_grad || put->reduce == 1 ? PUT_ADD
               : put->reduce == 2          ? PUT_MULTIPLY
                                           : PUT_REPLACE;
    if (index->count) p.count = index->count / args.n;
    work_operand(&p, launch);
    portable_view(&p, launch->in[is_grad ? 0 : 2]);
    portable_view(&p, index);
    portable_fault(&p, launch);
    if (status == BP_OK) status = portable_run(launch, &p);
    return status ? status : scatter_end(launch);
}

enum bp_status portable_cache_write(const struct bp_launch *launch)
{
    const struct bp_cache_write_attrs *a = launch->attrs;
    const struct bp_view *update = launch->in[1], *cache = launch->out[0];
    const struct bp_view *at = launch->n_in > 2 ? launch->in[2] : NULL;
    int axis = portable_axis(a->axis, cache->rank);
    struct cache_write_args args = {.rank = cache->rank, .axis = axis,
                                    .extent = cache->shape[axis],
                                    .step = at && at->rank ? at->stride[0] : 0,
                                    .wide = at && at->dtype == BP_I64, .circular = a->circular};
    struct portable p = PORTABLE(scatter, cache_write, portable_type(cache->dtype), args,
                                 update->count, 3);

    for (int i = 0; i < cache->rank; i++) {
        args.shape[i] = update->shape[i];
        args.stride[i] = update->stride[i];
        args.to[i] = cache->stride[i];
    }
    portable_view(&p, cache);
    portable_view(&p, update);
    portable_view(&p, at);
    portable_fault(&p, launch);
    return portable_run(launch, &p);
}

enum bp_status portable_one_hot(const struct bp_launch *launch)
{
    const struct bp_one_hot_attrs *a = launch->attrs;
    const struct bp_view *index = launch->in[0], *y = launch->out[0];
    int axis = portable_axis(a->axis, y->rank);
    bool is_bool = y->dtype == BP_BOOL;
    struct one_hot_args args = {a->depth, portable_split(y, axis).inner, index->dtype == BP_I64,
                                a->allow_out_of_range, (real)(is_bool ? a->on != 0 : a->on),
                                (real)(is_bool ? a->off != 0 : a->off)};
    struct portable p = PORTABLE(scatter, one_hot, portable_type(y->dtype), args, y->count, 4);

    portable_view(&p, y);
    portable_view(&p, index);
    portable_fault(&p, launch);
    return portable_run(launch, &p);
}

static enum bp_status check_segments(const struct bp_launch *launch,
                                     const struct segment_args *args)
{
    struct portable p = PORTABLE(scatter, segment_check, TYPE_i32, *args, args->n, 2);

    portable_view(&p, launch->in[1]);
    portable_fault(&p, launch);
    return portable_run(launch, &p);
}

static struct segment_args segments_of(const struct bp_launch *launch)
{
    const struct bp_segment_pool_attrs *a = launch->attrs; /* one layout with the gradient */
    const struct bp_view *x = launch->in[0], *ids = launch->in[1];

    return (struct segment_args){x->shape[0], a->segments, portable_split(x, 0).inner,
                                 ids->dtype == BP_I64, a->mode};
}

enum bp_status portable_segment_pool(const struct bp_launch *launch)
{
    const struct bp_view *x = launch->in[0], *y = launch->out[0];
    struct segment_args args = segments_of(launch);
    struct portable p = PORTABLE(scatter, segment_pool, portable_type(y->dtype), args, y->count,
                                 (double)args.n / (double)(args.segments + 1) + 8);
    enum bp_status status = check_segments(launch, &args);

    portable_view(&p, y);
    portable_view(&p, x);
    portable_view(&p, launch->in[1]);
    return status ? status : portable_run(launch, &p);
}

enum bp_status portable_segment_pool_grad(const struct bp_launch *launch)
{
    const struct bp_view *dx = launch->out[0];
    struct segment_args args = segments_of(launch);
    struct portable p = PORTABLE(scatter, segment_grad, portable_type(dx->dtype), args, dx->count,
                                 2);
    enum bp_status status = check_segments(launch, &args);

    portable_view(&p, dx);
    for (int i = 0; i < 4; i++) portable_view(&p, launch->in[i]);
    return status ? status : portable_run(launch, &p);
}

/* Chooses the number of parts so that each part has more numbers than bins. */
static struct bincount_args bincount_of(const struct bp_view *x, int64_t bins)
{
    struct bincount_args a = {x->count, 0, 0, bins, x->dtype == BP_I64};
    int64_t least = bins > 8192 ? bins : 8192;

    a.parts = x->count / least;
    a.parts = a.parts < 1 ? 1 : a.parts > 16 ? 16 : a.parts;
    a.part = (x->count + a.parts - 1) / a.parts;
    return a;
}

enum bp_status portable_bincount_prepare(void *self, const struct bp_prep *prep,
                                         struct bp_plan *out)
{
    struct bincount_args a = bincount_of(prep->in[0], prep->out[0]->count);

    (void)self;
    return portable_needs(out, 8 * a.parts * a.bins);
}

enum bp_status portable_bincount(const struct bp_launch *launch)
{
    const struct bp_view *x = launch->in[0], *y = launch->out[0];
    enum portable_type type = portable_type(y->dtype);
    struct bincount_args args = bincount_of(x, y->count);
    struct portable count = PORTABLE(scatter, bincount, type, args, args.parts, (double)args.part);
    struct portable add = PORTABLE(scatter, bincount_add, type, args, args.bins,
                                   (double)args.parts);
    enum bp_status status;

    portable_workspace(&count, launch, 0);
    portable_view(&count, x);
    portable_view(&count, launch->in[1]);
    portable_fault(&count, launch);
    status = portable_run(launch, &count);
    portable_view(&add, y);
    portable_workspace(&add, launch, 0);
    return status ? status : portable_run(launch, &add);
}
