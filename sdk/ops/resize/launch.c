/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c: launches the kernels of kernel.h for resize_axis and its gradient. */
#include "../../dialect/portable.h"
#include "kernel_axis.h"

#include <stdbool.h>

enum {
    HALF_PIXEL,
    HALF_PIXEL_SYMMETRIC,
    PYTORCH_HALF_PIXEL,
    ALIGN_CORNERS,
    ASYMMETRIC,
    TF_CROP_AND_RESIZE,
};

/* Sets the positions in x of the result's elements, as the operator's definition requires. */
static void resize_set_place(struct resize_args *r, const struct bp_resize_axis_attrs *a)
{
    double n = (double)r->in, m = (double)r->out, ahead = 0, shift = 0;
    double num = a->scale != 0 ? 1 : n, den = a->scale != 0 ? a->scale : m;
    int64_t how = a->coordinates;
    bool fixed = r->out == 1 && (how == PYTORCH_HALF_PIXEL || how == ALIGN_CORNERS ||
                                 how == TF_CROP_AND_RESIZE);

    if (how <= PYTORCH_HALF_PIXEL) ahead = shift = 0.5;
    shift = -shift;
    if (how == HALF_PIXEL_SYMMETRIC && a->scale != 0)
        shift = n / 2 * (1 - m / (a->scale * n)) - 0.5;
    if (how >= ALIGN_CORNERS && how != ASYMMETRIC) {
        num = n - 1;
        den = m - 1;
    }
    if (how == TF_CROP_AND_RESIZE) {
        num *= a->end - a->start;
        shift = a->start * (n - 1);
    }
    if (fixed) {
        ahead = num = 0;
        den = 1;
        shift = how == TF_CROP_AND_RESIZE ? 0.5 * (a->start + a->end) * (n - 1) : 0;
    }
    r->ahead = (real)ahead;
    r->num = (real)num;
    r->den = (real)den;
    r->shift = (real)shift;
}

struct resize_args resize_axis_args(const struct bp_resize_axis_attrs *a, int64_t in, int64_t out)
{
    struct resize_args r = {.mode = a->mode, .nearest = a->nearest, .exclude = a->exclude_outside,
                            .crop = a->coordinates == TF_CROP_AND_RESIZE, .in = in, .out = out,
                            .cubic = (real)a->cubic_a, .outside = (real)a->extrapolation};
    double scale = a->scale != 0 ? a->scale : (double)out / (double)in;

    resize_set_place(&r, a);
    r.shrink = (real)(a->antialias && scale < 1 ? scale : 1);
    r.reach = (real)(a->mode == RESIZE_CUBIC ? 2 : 1) / r.shrink;
    r.sum = a->exclude_outside || r.shrink < 1;
    return r;
}

/* made: the output; read: the input. One of the two has the extents of x. */
static struct resize_args args_of(const struct bp_resize_axis_attrs *a, const struct bp_view *made,
                                  const struct bp_view *read, bool grad)
{
    int axis = portable_axis(a->axis, made->rank);
    int64_t in = grad ? made->shape[axis] : read->shape[axis];
    int64_t out = grad ? read->shape[axis] : made->shape[axis];
    struct resize_args r = resize_axis_args(a, in, out);
    int order[RESIZE_AXES];

    r.rank = made->rank;
    r.step = read->stride[axis];
    for (int i = 0; i < made->rank; i++) {
        int at = i;
        for (; at > 0 && (made->shape[i] == 1 ||
                          (made->shape[order[at - 1]] != 1 &&
                           made->stride[order[at - 1]] < made->stride[i]));
             at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    for (int i = 0; i < made->rank; i++) {
        r.shape[i] = made->shape[order[i]];
        r.made[i] = made->stride[order[i]];
        r.read[i] = order[i] == axis ? 0 : read->stride[order[i]];
        if (order[i] == axis) r.axis = i;
    }
    return r;
}

static bool is_float(uint32_t dtype)
{
    return BP_MASK_FLOAT >> dtype & 1;
}

enum bp_status portable_resize_axis(const struct bp_launch *launch)
{
    const struct bp_view *x = launch->in[0], *y = launch->out[0];
    struct resize_args args = args_of(launch->attrs, y, x, false);
    enum portable_type type =
        is_float(x->dtype) ? portable_type(x->dtype) : portable_move_type(x->dtype);
    struct portable copy = PORTABLE(resize, resize_copy, type, args, y->count, 2);
    struct portable weigh = PORTABLE(resize, resize_weigh, type, args, y->count,
                                     (double)args.reach + 1);
    struct portable *p = args.mode == RESIZE_NEAREST ? &copy : &weigh;

    if (x->dtype == BP_BOOL) args.outside = args.outside != 0;
    portable_view(p, y);
    portable_view(p, x);
    return portable_run(launch, p);
}

enum bp_status portable_resize_axis_grad(const struct bp_launch *launch)
{
    const struct bp_view *dy = launch->in[0], *dx = launch->out[0];
    struct resize_args args = args_of(launch->attrs, dx, dy, true);
    struct portable p = PORTABLE(resize, resize_back, portable_type(dx->dtype), args, dx->count,
                                 40 * (double)args.reach);

    portable_view(&p, dx);
    portable_view(&p, dy);
    return portable_run(launch, &p);
}
