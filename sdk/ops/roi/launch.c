/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c: launches the kernels of kernel.h for roi_align, roi_pool, psroi_pool and their
 * gradients. */
#include "kernel.h"
#include "../../dialect/portable.h"

#include <stdbool.h>

/* The numbers of kernel rows: the operator. */
enum { ALIGN, POOL, PSROI };

/* Entries by operator, for the result and for the gradient. */
static const int entry_of[] = {ENTRY_roi_align, ENTRY_roi_pool, ENTRY_psroi_pool};
static const int back_of[] = {ENTRY_roi_align_back, ENTRY_roi_pool_back, ENTRY_psroi_pool_back};

_Static_assert(sizeof(struct bp_psroi_pool_attrs) == sizeof(struct bp_roi_pool_attrs),
               "one layout");

/* The attributes of a gradient have the layout of its operator's. */
static struct roi_args roi_of(const struct bp_launch *launch, const struct bp_view *x)
{
    const struct bp_view *rois = launch->in[1], *images = launch->in[2];
    const struct bp_roi_align_attrs *a = launch->attrs;
    const struct bp_roi_pool_attrs *pool = launch->attrs;
    int number = portable_number(launch->kernel);

    if (number != ALIGN)
        return (struct roi_args){.n = x->shape[0],
                                 .channels = number == PSROI
                                                 ? x->shape[1] / pool->height / pool->width
                                                 : x->shape[1],
                                 .regions = rois->shape[0], .in = {x->shape[2], x->shape[3]},
                                 .out = {pool->height, pool->width},
                                 .wide = images->dtype == BP_I64, .scale = (real)pool->scale};
    return (struct roi_args){.n = x->shape[0], .channels = x->shape[1], .regions = rois->shape[0],
                             .in = {x->shape[2], x->shape[3]}, .out = {a->height, a->width},
                             .sampling = a->sampling, .max = a->max, .whole = a->whole,
                             .wide = images->dtype == BP_I64, .scale = (real)a->scale};
}

static double work_of(const struct roi_args *a)
{
    return 40.0 * (a->sampling ? (double)(a->sampling * a->sampling) : 4);
}

enum bp_status portable_roi_align(const struct bp_launch *launch)
{
    const struct bp_view *x = launch->in[0], *y = launch->out[0];
    struct roi_args args = roi_of(launch, x);
    struct portable p = PORTABLE(roi, roi_align, portable_type(y->dtype), args, y->count,
                                 work_of(&args));

    p.entry = entry_of[portable_number(launch->kernel)] - FIRST_roi;
    portable_view(&p, y);
    for (int i = 0; i < 3; i++) portable_view(&p, launch->in[i]);
    portable_fault(&p, launch);
    return portable_run(launch, &p);
}

static bool roi_is_half(const struct bp_view *y)
{
    return y->dtype == BP_F16 || y->dtype == BP_BF16;
}

enum bp_status portable_roi_align_grad_prepare(void *self, const struct bp_prep *prep,
                                               struct bp_plan *out)
{
    const struct bp_view *dx = prep->out[0];

    (void)self;
    return portable_needs(out, roi_is_half(dx) ? 4 * dx->count : 0);
}

static void work_operand(struct portable *p, const struct bp_launch *launch)
{
    if (roi_is_half(launch->out[0])) portable_workspace(p, launch, 0);
    else portable_view(p, launch->out[0]);
}

enum bp_status portable_roi_align_grad(const struct bp_launch *launch)
{
    const struct bp_view *dx = launch->out[0];
    enum portable_type type = portable_type(dx->dtype);
    struct roi_args args = roi_of(launch, dx);
    struct roi_fill_args none = {0};
    struct portable fill = PORTABLE(roi, roi_fill, type, none, dx->count, 1);
    struct portable p = PORTABLE(
        roi, roi_align_back, type, args, dx->count ? dx->shape[0] * dx->shape[1] : 0,
        work_of(&args) * (double)(args.regions * args.out[0] * args.out[1]));
    struct portable finish = PORTABLE(roi, roi_finish, type, none, dx->count, 1);
    enum bp_status status;

    p.entry = back_of[portable_number(launch->kernel)] - FIRST_roi;
    work_operand(&fill, launch);
    status = portable_run(launch, &fill);
    work_operand(&p, launch);
    for (int i = 0; i < 4; i++) portable_view(&p, launch->in[i]);
    portable_fault(&p, launch);
    if (status == BP_OK) status = portable_run(launch, &p);
    portable_view(&finish, dx);
    portable_workspace(&finish, launch, 0);
    return status || !roi_is_half(dx) ? status : portable_run(launch, &finish);
}
