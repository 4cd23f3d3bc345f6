/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c: launches the kernels of kernel.h for pooling. */
#include "launch_shape.h"
#include "../../dialect/portable.h"

#include <string.h>

/* The attributes of all pools begin as those of max_pool. Adaptive windows that divide x evenly are
 * treated as plain windows. */
static void spatial_axes(struct pool_args *p, const struct bp_max_pool_attrs *a,
                         const struct bp_view *x, const struct bp_view *y,
                         const struct bp_view *index, bool column_major)
{
    int n = x->rank - 2;
    int64_t number = 1;

    for (int s = 0; s < n && a->adaptive; s++)
        p->adaptive |= x->shape[s + 2] % y->shape[s + 2] != 0;
    p->whole = !p->adaptive;
    for (int s = 0; s < 3; s++) {
        struct pool_axis *axis = &p->axis[s];
        *axis = (struct pool_axis){1, 1, 1, 1, 1, 0, 1, 0, 0, 0, 0};
        if (s >= n) continue;
        axis->in = x->shape[s + 2];
        axis->out = y->shape[s + 2];
        axis->x = x->stride[s + 2];
        axis->y = y->stride[s + 2];
        axis->index = index ? index->stride[s + 2] : 0;
        axis->window = a->window[s];
        if (a->adaptive) axis->window = axis->stride = axis->in / axis->out;
        if (a->adaptive) continue;
        axis->stride = a->stride[s];
        axis->dilation = a->dilation[s];
        axis->before = a->pad[s];
        axis->limit = axis->in + a->pad[s + 3];
        p->whole &= !a->pad[s] && (axis->out - 1) * axis->stride +
                                          (axis->window - 1) * axis->dilation < axis->in;
    }
    for (int s = 0; s < n; s++) {
        int at = column_major ? s : n - 1 - s;
        p->axis[at].number = number;
        number *= p->axis[at].in;
    }
}

struct pool_args pool_args_of(const struct bp_launch *launch, bool average)
{
    struct pool_args args = {0};

    if (average) {
        const struct bp_avg_pool_attrs *a = launch->attrs;
        args.include_pad = a->include_pad;
        args.divisor = (real)a->divisor;
    }
    spatial_axes(&args, launch->attrs, launch->in[0], launch->out[0], NULL, false);
    return args;
}

/* Sorts the axes of the output `made` from the longest stride to the shortest, axes of extent 1
 * first. plane: step of an index from one channel to the next. */
static void order_axes(struct pool_args *p, const struct bp_view *made, const struct bp_view *x,
                       const struct bp_view *y, const struct bp_view *index, int64_t plane)
{
    const int64_t number[] = {plane * x->shape[1], plane};

    p->rank = made->rank;
    for (int axis = 0; axis < made->rank; axis++) {
        struct pool_place place = {made->shape[axis], axis - 2, x->stride[axis], y->stride[axis],
                                   index ? index->stride[axis] : 0,
                                   axis < 2 ? number[axis] : 0};
        int64_t stride = made->shape[axis] == 1 ? INT64_MAX : made->stride[axis];
        int at = axis;
        if (axis < 2) place.spatial = -1;
        for (; at > 0; at--) {
            struct pool_place before = p->place[at - 1];
            int64_t its = made == x ? before.x : before.y;
            if ((before.extent == 1 ? INT64_MAX : its) >= stride) break;
            p->place[at] = before;
        }
        p->place[at] = place;
    }
    p->run = p->adaptive ? -1 : p->place[p->rank - 1].spatial;
    p->tile = p->adaptive && p->place[p->rank - 1].spatial >= 0 ? 1 : POOL_TILE;
    /* Windows that are further apart than x is long share no position: most of them are in
     * padding. */
    if (p->run >= 0 && made == y && p->axis[p->run].stride > p->axis[p->run].in) p->tile = 1;
}

static double window_of(const struct pool_args *p)
{
    double n = 1;

    for (int s = 0; s < 3; s++)
        n *= p->adaptive ? (double)p->axis[s].in / (double)p->axis[s].out + 1
                         : (double)p->axis[s].window;
    return n;
}

static int64_t plane_of(const struct pool_args *p)
{
    return p->axis[0].in * p->axis[1].in * p->axis[2].in;
}

enum bp_status portable_max_pool(const struct bp_launch *launch)
{
    const struct bp_view *x = launch->in[0], *y = launch->out[0];
    struct pool_args args = pool_args_of(launch, false);
    struct portable p;

    order_axes(&args, y, x, y, NULL, 0);
    p = (struct portable)PORTABLE(pool, max_pool, portable_type(y->dtype), args, y->count,
                                  2 * window_of(&args));
    portable_view(&p, y);
    portable_view(&p, x);
    return portable_run(launch, &p);
}

enum bp_status portable_max_pool_with_index(const struct bp_launch *launch)
{
    const struct bp_max_pool_with_index_attrs *a = launch->attrs;
    const struct bp_view *x = launch->in[0], *y = launch->out[0], *index = launch->out[1];
    const struct bp_view *like = y ? y : index;
    struct pool_args args = {0};
    struct portable p;

    spatial_axes(&args, launch->attrs, x, like, index, a->column_major);
    order_axes(&args, like, x, like, index, a->whole ? plane_of(&args) : 0);
    args.wide = a->dtype == BP_I64;
    p = (struct portable)PORTABLE(pool, max_pool_index, portable_type(x->dtype), args, like->count,
                                  3 * window_of(&args));
    portable_view(&p, y);
    portable_view(&p, index);
    portable_view(&p, x);
    return portable_run(launch, &p);
}

enum bp_status portable_avg_pool(const struct bp_launch *launch)
{
    const struct bp_view *x = launch->in[0], *y = launch->out[0];
    struct pool_args args = pool_args_of(launch, true);
    struct portable p;

    order_axes(&args, y, x, y, NULL, 0);
    p = (struct portable)PORTABLE(pool, avg_pool, portable_type(y->dtype), args, y->count,
                                  window_of(&args) + 10);
    portable_view(&p, y);
    portable_view(&p, x);
    return portable_run(launch, &p);
}

enum bp_status portable_max_pool_grad(const struct bp_launch *launch)
{
    const struct bp_view *dy = launch->in[0], *index = launch->in[1], *dx = launch->out[0];
    struct pool_args args = {.wide = index->dtype == BP_I64};
    struct portable p;

    spatial_axes(&args, launch->attrs, dx, dy, index, false);
    order_axes(&args, dx, dx, dy, index, 0);
    p = (struct portable)PORTABLE(pool, max_pool_grad, portable_type(dx->dtype), args, dx->count,
                                  3 * window_of(&args) + 4);
    portable_view(&p, dx);
    portable_view(&p, dy);
    portable_view(&p, index);
    return portable_run(launch, &p);
}

enum bp_status portable_avg_pool_grad(const struct bp_launch *launch)
{
    const struct bp_avg_pool_grad_attrs *a = launch->attrs;
    const struct bp_view *dy = launch->in[0], *dx = launch->out[0];
    struct pool_args args = {.include_pad = a->include_pad, .divisor = (real)a->divisor};
    struct portable p;

    spatial_axes(&args, launch->attrs, dx, dy, NULL, false);
    order_axes(&args, dx, dx, dy, NULL, 0);
    p = (struct portable)PORTABLE(pool, avg_pool_grad, portable_type(dx->dtype), args, dx->count,
                                  4 * window_of(&args) + 4);
    portable_view(&p, dx);
    portable_view(&p, dy);
    return portable_run(launch, &p);
}
