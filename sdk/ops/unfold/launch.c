/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c: launches the kernels of kernel.h for unfold and fold. */
#include "kernel.h"
#include "../../dialect/portable.h"

static struct unfold_take_args unfold_windows(const struct bp_view *image, const int64_t *kernel,
                                              const int64_t *stride, const int64_t *dilation,
                                              const int64_t *pad)
{
    int64_t height = image->shape[2], width = image->shape[3];

    return (struct unfold_take_args){
        .height = height,
        .width = width,
        .kh = kernel[0],
        .kw = kernel[1],
        .oh = (height + pad[0] + pad[2] - dilation[0] * (kernel[0] - 1) - 1) / stride[0] + 1,
        .ow = (width + pad[1] + pad[3] - dilation[1] * (kernel[1] - 1) - 1) / stride[1] + 1,
        .sh = stride[0],
        .sw = stride[1],
        .dh = dilation[0],
        .dw = dilation[1],
        .top = pad[0],
        .left = pad[1],
    };
}

enum bp_status portable_unfold(const struct bp_launch *launch)
{
    const struct bp_unfold_attrs *a = launch->attrs;
    const struct bp_view *x = launch->in[0], *y = launch->out[0];
    struct unfold_take_args args = unfold_windows(x, a->kernel, a->stride, a->dilation, a->pad);
    struct portable p = PORTABLE(unfold, unfold_take, portable_type(y->dtype), args, y->count, 2);

    portable_view(&p, y);
    portable_view(&p, x);
    return portable_run(launch, &p);
}

enum bp_status portable_col2im(const struct bp_launch *launch)
{
    const struct bp_fold_attrs *a = launch->attrs;
    const struct bp_view *x = launch->in[0], *y = launch->out[0];
    struct unfold_add_args args = unfold_windows(y, a->kernel, a->stride, a->dilation, a->pad);
    struct portable p = PORTABLE(unfold, unfold_add, portable_type(y->dtype), args, y->count,
                                 4.0 * (double)(args.kh * args.kw));

    portable_view(&p, y);
    portable_view(&p, x);
    return portable_run(launch, &p);
}
