/* SPDX-License-Identifier: Apache-2.0 */
/* conv.c: implements convolutions of the stand-in for CANN. */
#include "family.h"
#include <string.h>

/* The arguments of a convolution: Convolution and ConvolutionBackward have them at other places. */
struct conv_args {
    const struct cann_tensor *x, *w;
    const struct cann_arg *stride, *padding, *dilation, *more;
    int64_t groups;
    bool transposed;
};

/* The attributes of conv, conv_grad_input and conv_grad_weight are alike. */
static struct bp_conv_attrs conv_attrs(const struct conv_args *c)
{
    struct bp_conv_attrs attrs = {
        .size = sizeof attrs, .stride = {1, 1, 1}, .dilation = {1, 1, 1}, .groups = c->groups};

    for (int i = 0; i < c->stride->n_at; i++) {
        attrs.stride[i] = c->stride->at[i];
        attrs.dilation[i] = c->dilation->at[i];
        attrs.pad[i] = attrs.pad[3 + i] = c->padding->at[i];
    }
    return attrs;
}

/* Checks arrays, channels and groups; finds the shape of the result. `first` is the argument of
 * the stride; padding and dilation follow. */
static int conv_shape(struct cann_call *call, const struct conv_args *c, int first, int w_arg,
                      struct cann_shape *out)
{
    int n = c->x->rank - 2;
    int64_t channels = c->x->dims[1], filters;

    for (int i = first; i < first + 3; i++) CANN_TRY(cann_want_n(call, i, n));
    if (c->transposed && c->more->n_at != n)
        return cann_refuse(call, first + 4, "has too few numbers");
    if (c->groups < 1 || c->w->rank != c->x->rank)
        return cann_refuse(call, w_arg, "has %d axes; groups are %lld", c->w->rank,
                           (long long)c->groups);
    if (c->transposed ? channels != c->w->dims[0] || channels % c->groups
                      : channels != c->w->dims[1] * c->groups || c->w->dims[0] % c->groups)
        return cann_refuse(call, w_arg, "does not fit %lld channels in %lld groups",
                           (long long)channels, (long long)c->groups);
    filters = c->transposed ? c->w->dims[1] * c->groups : c->w->dims[0];
    *out = (struct cann_shape){c->x->rank, {c->x->dims[0], filters}};
    for (int i = 0; i < n; i++) {
        int64_t s = c->stride->at[i], p = c->padding->at[i], d = c->dilation->at[i];
        int64_t reach = d * (c->w->dims[2 + i] - 1) + 1, extent = c->x->dims[2 + i];
        if (s < 1 || d < 1 || p < 0)
            return cann_refuse(call, first, "or padding or dilation is impossible");
        out->at[2 + i] = c->transposed ? s * (extent - 1) + reach + c->more->at[i] - 2 * p
                                       : (extent + 2 * p - reach) / s + 1;
        if (out->at[2 + i] < 1 || (!c->transposed && extent + 2 * p < reach))
            return cann_refuse(call, w_arg, "is larger than the image");
    }
    return 0;
}

/* input, weight, bias, stride, padding, dilation, transposed, outputPadding, groups, output,
 * cubeMathType */
static struct conv_args conv_of(const struct cann_call *call)
{
    const struct cann_arg *a = call->arg;

    return (struct conv_args){
        cann_type(call, 0), cann_type(call, 1), &a[3], &a[4], &a[5], &a[7], a[8].i, a[6].i != 0};
}

int cann_check_conv(struct cann_call *call)
{
    struct conv_args c = conv_of(call);
    struct cann_shape shape, bias;

    CANN_TRY(cann_want_math(call, 10));
    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want_same(call, 1, 0));
    CANN_TRY(cann_want_same(call, 9, 0));
    CANN_TRY(cann_want_image(call, 0));
    CANN_TRY(cann_want_image(call, 1));
    CANN_TRY(cann_want_image(call, 9));
    CANN_TRY(conv_shape(call, &c, 3, 1, &shape));
    bias = (struct cann_shape){1, {shape.at[1]}};
    CANN_TRY(cann_want_same(call, 2, 0));
    CANN_TRY(cann_want_shape(call, 2, &bias));
    return cann_want_shape(call, 9, &shape);
}

/* Adds a number for each channel. */
static void bias_add(struct cann_temps *temps, const struct base_tensor *bias,
                     const struct base_tensor *y)
{
    struct base_tensor b = *bias;

    for (b.rank = 1; b.rank < y->rank - 1; b.rank++) b.shape[b.rank] = 1;
    cann_apply(temps, "add", NULL, y, &b, NULL, y);
}

int cann_run_conv(struct cann_call *call)
{
    struct conv_args c = conv_of(call);
    struct bp_conv_attrs attrs = conv_attrs(&c);
    const struct base_tensor *y = cann_host(call, 9), *bias = cann_host(call, 2);
    struct cann_temps temps = {.n = 0};
    uint32_t wide = cann_wide(y->dtype);
    struct base_tensor x = cann_factor(&temps, call, 0, call->arg[10].i);
    struct base_tensor w = cann_factor(&temps, call, 1, call->arg[10].i);
    struct base_tensor made = cann_temp(&temps, wide, y->rank, y->shape), b;

    x = cann_in_dtype(&temps, &x, wide);
    w = cann_in_dtype(&temps, &w, wide);
    if (c.transposed) cann_apply(&temps, "conv_grad_input", &attrs, &x, &w, &made, &made);
    else cann_apply(&temps, "conv", &attrs, &x, &w, NULL, &made);
    if (bias) {
        b = cann_in_dtype(&temps, bias, wide);
        bias_add(&temps, &b, &made);
    }
    cann_write(&temps, &made, y);
    cann_temps_free(&temps);
    return temps.code;
}

/* gradOutput, input, weight, biasSizes, stride, padding, dilation, transposed, outputPadding,
 * groups, outputMask, cubeMathType, gradInput, gradWeight, gradBias */
static struct conv_args conv_grad_of(const struct cann_call *call)
{
    const struct cann_arg *a = call->arg;

    return (struct conv_args){
        cann_type(call, 1), cann_type(call, 2), &a[4], &a[5], &a[6], &a[8], a[9].i, a[7].i != 0};
}

int cann_check_conv_grad(struct cann_call *call)
{
    struct conv_args c = conv_grad_of(call);
    struct cann_shape shape, bias;

    CANN_TRY(cann_want_math(call, 11));
    CANN_TRY(cann_want_own(call, 0));
    for (int i = 0; i < 3; i++) {
        CANN_TRY(cann_want_same(call, i, 0));
        CANN_TRY(cann_want_image(call, i));
    }
    CANN_TRY(cann_want_n(call, 10, 3));
    CANN_TRY(conv_shape(call, &c, 4, 2, &shape));
    CANN_TRY(cann_want_shape(call, 0, &shape));
    for (int i = 0; i < 3; i++)
        if (call->arg[10].at[i] && !cann_type(call, 12 + i))
            return base_refuse(NN_NULL, "%s is NULL", call->op->port[12 + i]);
    CANN_TRY(cann_want_like(call, 12, 1));
    CANN_TRY(cann_want_like(call, 13, 2));
    bias = (struct cann_shape){1, {shape.at[1]}};
    CANN_TRY(cann_want_same(call, 14, 0));
    return cann_want_shape(call, 14, &bias);
}

int cann_run_conv_grad(struct cann_call *call)
{
    struct conv_args c = conv_grad_of(call);
    struct bp_conv_attrs attrs = conv_attrs(&c);
    const int64_t *mask = call->arg[10].at;
    struct bp_sum_attrs sum = {.size = sizeof sum};
    int64_t axes[] = {0, 2, 3, 4};
    struct cann_temps temps = {.n = 0};
    struct base_tensor dy = cann_factor(&temps, call, 0, call->arg[11].i);
    struct base_tensor x = cann_factor(&temps, call, 1, call->arg[11].i);
    struct base_tensor w = cann_factor(&temps, call, 2, call->arg[11].i);

    if (mask[0] && c.transposed)
        cann_apply(&temps, "conv", &attrs, &dy, &w, NULL, cann_host(call, 12));
    else if (mask[0])
        cann_apply(&temps, "conv_grad_input", &attrs, &dy, &w, &x, cann_host(call, 12));
    if (mask[1])
        cann_apply(&temps, "conv_grad_weight", &attrs, c.transposed ? &x : &dy,
                   c.transposed ? &dy : &x, &w, cann_host(call, 13));
    if (mask[2]) {
        struct base_tensor wide = cann_in_dtype(&temps, &dy, cann_wide(dy.dtype));
        struct base_tensor made = cann_temp(&temps, wide.dtype, 1, &dy.shape[1]);
        sum.axes = (struct bp_dims){axes, dy.rank - 1};
        cann_apply(&temps, "sum", &sum, &wide, NULL, NULL, &made);
        cann_write(&temps, &made, cann_host(call, 14));
    }
    cann_temps_free(&temps);
    return temps.code;
}
