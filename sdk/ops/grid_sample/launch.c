/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c: launches the kernels of kernel.h for grid_sample, affine_grid and their gradients. */
#include "../../dialect/portable.h"
#include "kernel.h"

#include <stdbool.h>

/* The attributes of the gradients are those of grid_sample. y: the result, or its gradient. */
static struct sample_args args_of(const struct bp_grid_sample_attrs *a, const struct bp_view *x,
                                  const struct bp_view *y, const struct bp_view *grid)
{
    int first = 5 - x->rank;
    struct sample_args r = {.first = first, .mode = a->mode, .padding = a->padding,
                            .align = a->align_corners, .channels = x->shape[1], .points = 1,
                            .in = {1, 1, 1}, .out = {1, 1, 1}};

    for (int i = 0; i < 2; i++) {
        r.x[i] = x->stride[i];
        r.y[i] = y->stride[i];
    }
    for (int s = first; s < 3; s++) {
        r.in[s] = x->shape[s + 2 - first];
        r.out[s] = y->shape[s + 2 - first];
        r.x[s + 2] = x->stride[s + 2 - first];
        r.y[s + 2] = y->stride[s + 2 - first];
        r.grid[s + 1] = grid->stride[s + 1 - first];
        r.points *= r.out[s];
    }
    r.grid[0] = grid->stride[0];
    r.grid[4] = grid->stride[grid->rank - 1];
    return r;
}

static double taps_of(const struct sample_args *a)
{
    double one = a->mode == SAMPLE_CUBIC ? 4 : a->mode == SAMPLE_LINEAR ? 2 : 1;

    return one * one * (a->first ? 1 : one);
}

enum bp_status portable_grid_sample(const struct bp_launch *launch)
{
    const struct bp_view *x = launch->in[0], *grid = launch->in[1], *y = launch->out[0];
    struct sample_args args = args_of(launch->attrs, x, y, grid);
    struct portable p = PORTABLE(grid_sample, grid_sample, portable_type(y->dtype), args,
                                 x->shape[0] * args.points,
                                 taps_of(&args) * (double)args.channels + 100);

    portable_view(&p, y);
    portable_view(&p, x);
    portable_view(&p, grid);
    return portable_run(launch, &p);
}

static bool grid_sample_is_half(const struct bp_view *y)
{
    return y->dtype == BP_F16 || y->dtype == BP_BF16;
}

static void work_operand(struct portable *p, const struct bp_launch *launch)
{
    if (grid_sample_is_half(launch->out[0])) portable_workspace(p, launch, 0);
    else portable_view(p, launch->out[0]);
}

enum bp_status portable_grid_to_input_prepare(void *self, const struct bp_prep *prep,
                                              struct bp_plan *out)
{
    const struct bp_view *dx = prep->out[0];

    (void)self;
    return portable_needs(out, grid_sample_is_half(dx) ? 4 * dx->count : 0);
}

enum bp_status portable_grid_to_input(const struct bp_launch *launch)
{
    const struct bp_view *dy = launch->in[0], *grid = launch->in[1], *dx = launch->out[0];
    enum portable_type type = portable_type(dx->dtype);
    struct sample_args args = args_of(launch->attrs, dx, dy, grid);
    struct grid_sample_fill_args none = {0};
    struct portable fill = PORTABLE(grid_sample, grid_sample_fill, type, none, dx->count, 1);
    struct portable p = PORTABLE(grid_sample, grid_to_input, type, args,
                                 dx->count ? dx->shape[0] * dx->shape[1] : 0,
                                 (double)args.points * (taps_of(&args) + 20));
    struct portable finish = PORTABLE(grid_sample, grid_sample_finish, type, none, dx->count, 1);
    enum bp_status status;

    work_operand(&fill, launch);
    status = portable_run(launch, &fill);
    work_operand(&p, launch);
    portable_view(&p, dy);
    portable_view(&p, grid);
    if (status == BP_OK) status = portable_run(launch, &p);
    portable_view(&finish, dx);
    portable_workspace(&finish, launch, 0);
    return status || !grid_sample_is_half(dx) ? status : portable_run(launch, &finish);
}

enum bp_status portable_grid_to_grid(const struct bp_launch *launch)
{
    const struct bp_view *dy = launch->in[0], *x = launch->in[1], *grid = launch->in[2];
    struct sample_args args = args_of(launch->attrs, x, dy, grid);
    struct portable p = PORTABLE(grid_sample, grid_to_grid, portable_type(x->dtype), args,
                                 grid->shape[0] * args.points,
                                 3 * taps_of(&args) * (double)args.channels + 100);

    portable_view(&p, launch->out[0]);
    portable_view(&p, dy);
    portable_view(&p, x);
    portable_view(&p, grid);
    return portable_run(launch, &p);
}

static struct affine_args affine_of(const struct bp_view *grid, int64_t align)
{
    int axes = grid->rank - 2;
    struct affine_args a = {.axes = axes, .align = align, .points = 1, .extent = {1, 1, 1}};

    for (int i = 0; i < axes; i++) {
        a.extent[3 - axes + i] = grid->shape[i + 1];
        a.points *= grid->shape[i + 1];
    }
    return a;
}

enum bp_status portable_affine_grid(const struct bp_launch *launch)
{
    const struct bp_affine_grid_attrs *a = launch->attrs;
    const struct bp_view *grid = launch->out[0];
    struct affine_args args = affine_of(grid, a->align_corners);
    struct portable p = PORTABLE(grid_sample, affine_grid, portable_type(grid->dtype), args,
                                 grid->count, 30);

    portable_view(&p, grid);
    portable_view(&p, launch->in[0]);
    return portable_run(launch, &p);
}

enum bp_status portable_affine_grid_grad(const struct bp_launch *launch)
{
    const struct bp_affine_grid_grad_attrs *a = launch->attrs;
    const struct bp_view *d = launch->in[0], *dtheta = launch->out[0];
    struct affine_args args = affine_of(d, a->align_corners);
    struct portable p = PORTABLE(grid_sample, affine_grid_grad, portable_type(d->dtype), args,
                                 dtheta->count, 10 * (double)args.points);

    portable_view(&p, dtheta);
    portable_view(&p, d);
    return portable_run(launch, &p);
}
