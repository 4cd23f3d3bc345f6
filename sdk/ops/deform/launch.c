/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c: launches the kernels of kernel.h for windows with offsets and their gradients. */
#include "../../dialect/portable.h"
#include "kernel.h"

#include <stdbool.h>

_Static_assert(sizeof(struct bp_deform_unfold_attrs) ==
                       sizeof(struct bp_deform_unfold_grad_input_attrs) &&
                   sizeof(struct bp_deform_unfold_attrs) ==
                       sizeof(struct bp_deform_unfold_grad_offset_attrs),
               "one layout");

/* The attributes of the gradients have the layout of the forward's. */
static struct deform_args deform_of(const struct bp_launch *launch, const struct bp_view *x,
                                    const struct bp_view *offset)
{
    const struct bp_deform_unfold_attrs *a = launch->attrs;

    return (struct deform_args){.groups = a->offset_groups,
                                .channels = x->shape[1] / a->offset_groups,
                                .taps = a->kernel[0] * a->kernel[1],
                                .places = offset->shape[2] * offset->shape[3],
                                .in = {x->shape[2], x->shape[3]},
                                .out_columns = offset->shape[3], .kernel_columns = a->kernel[1],
                                .stride = {a->stride[0], a->stride[1]},
                                .dilation = {a->dilation[0], a->dilation[1]},
                                .before = {a->pad[0], a->pad[1]}};
}

static const struct bp_view *mask_of(const struct bp_launch *launch, uint32_t port)
{
    return port < launch->n_in ? launch->in[port] : NULL;
}

enum bp_status portable_deform_unfold(const struct bp_launch *launch)
{
    const struct bp_view *x = launch->in[0], *offset = launch->in[1], *y = launch->out[0];
    struct deform_args args = deform_of(launch, x, offset);
    struct portable p = PORTABLE(deform, deform_unfold, portable_type(y->dtype), args,
                                 y->count ? offset->count / 2 : 0,
                                 30 + 10 * (double)args.channels);

    portable_view(&p, y);
    portable_view(&p, x);
    portable_view(&p, offset);
    portable_view(&p, mask_of(launch, 2));
    return portable_run(launch, &p);
}

static bool deform_is_half(const struct bp_view *y)
{
    return y->dtype == BP_F16 || y->dtype == BP_BF16;
}

enum bp_status portable_deform_to_input_prepare(void *self, const struct bp_prep *prep,
                                                struct bp_plan *out)
{
    const struct bp_view *dx = prep->out[0];

    (void)self;
    return portable_needs(out, deform_is_half(dx) ? 4 * dx->count : 0);
}

static void deform_work_operand(struct portable *p, const struct bp_launch *launch)
{
    if (deform_is_half(launch->out[0])) portable_workspace(p, launch, 0);
    else portable_view(p, launch->out[0]);
}

enum bp_status portable_deform_to_input(const struct bp_launch *launch)
{
    const struct bp_view *dx = launch->out[0];
    enum portable_type type = portable_type(dx->dtype);
    struct deform_args args = deform_of(launch, dx, launch->in[2]);
    struct deform_fill_args none = {0};
    struct portable fill = PORTABLE(deform, deform_fill, type, none, dx->count, 1);
    struct portable p = PORTABLE(deform, deform_to_input, type, args,
                                 dx->count ? dx->shape[0] * dx->shape[1] : 0,
                                 20 * (double)(args.taps * args.places));
    struct portable finish = PORTABLE(deform, deform_finish, type, none, dx->count, 1);
    enum bp_status status;

    deform_work_operand(&fill, launch);
    status = portable_run(launch, &fill);
    deform_work_operand(&p, launch);
    portable_view(&p, launch->in[0]);
    portable_view(&p, launch->in[2]);
    portable_view(&p, mask_of(launch, 3));
    if (status == BP_OK) status = portable_run(launch, &p);
    portable_view(&finish, dx);
    portable_workspace(&finish, launch, 0);
    return status || !deform_is_half(dx) ? status : portable_run(launch, &finish);
}

enum bp_status portable_deform_to_offset(const struct bp_launch *launch)
{
    const struct bp_view *doffset = launch->out[0];
    struct deform_args args = deform_of(launch, launch->in[1], doffset);
    struct portable p = PORTABLE(deform, deform_to_offset, portable_type(doffset->dtype), args,
                                 doffset->count / 2, 30 + 25 * (double)args.channels);

    portable_view(&p, doffset);
    portable_view(&p, launch->n_out > 1 ? launch->out[1] : NULL);
    for (int i = 0; i < 3; i++) portable_view(&p, launch->in[i]);
    portable_view(&p, mask_of(launch, 3));
    return portable_run(launch, &p);
}
