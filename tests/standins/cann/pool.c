/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c: implements pools of two spatial axes of the stand-in for CANN. Images have 4 axes, or 3:
 * one image. */
#include "family.h"
#include <string.h>

/* The arguments of a pool, one number for both axes or two. */
struct pool {
    int64_t window[2], stride[2], dilation[2], before[2], after[2];
    bool ceil;
};

/* One or two numbers; of none, `otherwise`. */
static int pair_read(struct cann_call *call, int arg, const int64_t *otherwise, int64_t out[2])
{
    const struct cann_arg *a = &call->arg[arg];

    if (a->n_at > 2 || !(a->n_at || otherwise))
        return cann_refuse(call, arg, "has %d numbers", a->n_at);
    if (a->n_at) otherwise = a->at;
    out[0] = otherwise[0];
    out[1] = otherwise[a->n_at == 1 ? 0 : 1];
    return 0;
}

/* The extent of a pool's result along an axis; 0: none. */
static int64_t pool_extent(const struct pool *p, int axis, int64_t extent)
{
    int64_t all = extent + p->before[axis] + p->after[axis], s = p->stride[axis];
    int64_t left = all - p->dilation[axis] * (p->window[axis] - 1) - 1, n;

    if (left < 0) return 0;
    n = (p->ceil ? (left + s - 1) / s : left / s) + 1;
    if (p->ceil && (n - 1) * s >= extent + p->before[axis]) n--;
    return n;
}

static int pool_shape(struct cann_call *call, const struct pool *p, int self,
                      struct cann_shape *out)
{
    const struct cann_tensor *x = cann_type(call, self);

    *out = cann_shape(x);
    for (int i = 0; i < 2; i++) {
        int64_t *at = &out->at[x->rank - 2 + i];
        if (p->window[i] < 1 || p->stride[i] < 1 || p->dilation[i] < 1 || p->before[i] < 0 ||
            p->after[i] < 0 || p->before[i] * 2 > p->window[i] * p->dilation[i])
            return cann_refuse(call, self, "has an impossible window, stride or padding");
        *at = pool_extent(p, i, *at);
        if (*at < 1) return cann_refuse(call, self, "is smaller than the window");
    }
    return 0;
}

/* Images of 3 axes have the format ND or NCL, of 4 NCHW. */
static int pool_image(struct cann_call *call, int arg)
{
    const struct cann_tensor *t = cann_type(call, arg);

    CANN_TRY(cann_want_rank(call, arg, 3, 4));
    if (t->rank == 4 && t->format != CANN_NCHW)
        return cann_refuse(call, arg, "has the format %d, expected NCHW", t->format);
    return 0;
}

/* The tensor with an axis in front, if it has 3. */
static struct base_tensor pool_view(const struct base_tensor *t)
{
    struct base_tensor v = *t;

    if (t->rank != 3) return v;
    memmove(v.shape + 1, v.shape, 3 * sizeof *v.shape);
    memmove(v.stride + 1, v.stride, 3 * sizeof *v.stride);
    v.shape[0] = 1;
    v.stride[0] = 0;
    v.rank = 4;
    return v;
}

#define POOL_ATTRS(p) \
    .window = {(p).window[0], (p).window[1], 1}, .stride = {(p).stride[0], (p).stride[1], 1}, \
    .dilation = {(p).dilation[0], (p).dilation[1], 1}, \
    .pad = {(p).before[0], (p).before[1], 0, (p).after[0], (p).after[1], 0}, .ceil_mode = (p).ceil

/* self, kernelSize, stride, padding, dilation, ceilMode, out, indices */
static int max_read(struct cann_call *call, struct pool *p)
{
    CANN_TRY(pair_read(call, 1, NULL, p->window));
    CANN_TRY(pair_read(call, 2, p->window, p->stride));
    CANN_TRY(pair_read(call, 3, (int64_t[]){0, 0}, p->before));
    CANN_TRY(pair_read(call, 4, (int64_t[]){1, 1}, p->dilation));
    memcpy(p->after, p->before, sizeof p->after);
    p->ceil = call->arg[5].i != 0;
    return 0;
}

int cann_check_max_pool_index(struct cann_call *call)
{
    struct cann_shape shape;
    struct pool p;

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(pool_image(call, 0));
    CANN_TRY(max_read(call, &p));
    CANN_TRY(pool_shape(call, &p, 0, &shape));
    CANN_TRY(cann_want_same(call, 6, 0));
    CANN_TRY(cann_want_shape(call, 6, &shape));
    CANN_TRY(cann_want(call, 7, BP_M(I32)));
    return cann_want_shape(call, 7, &shape);
}

int cann_run_max_pool_index(struct cann_call *call)
{
    struct pool p;
    int code = max_read(call, &p);
    struct bp_max_pool_with_index_attrs attrs = {
        .size = sizeof attrs, POOL_ATTRS(p), .dtype = BP_I32};
    struct base_tensor x = pool_view(cann_host(call, 0)), y = pool_view(cann_host(call, 6));
    struct base_tensor index = pool_view(cann_host(call, 7));
    struct base_call base = {.op = "max_pool_with_index",
                             .attrs = &attrs,
                             .n_in = 1,
                             .n_out = 2,
                             .in = {&x},
                             .out = {&y, &index},
                             .type = {x.dtype, BASE_ABSENT, BP_I32, BASE_ABSENT}};

    return code ? code : base_compute(&base);
}

/* self, kernelShape, strides, autoPad, pads: before both, after both, dilations, ceilMode, out */
static int plain_read(struct cann_call *call, struct pool *p)
{
    const struct cann_arg *pads = &call->arg[4];

    CANN_TRY(pair_read(call, 1, NULL, p->window));
    CANN_TRY(pair_read(call, 2, p->window, p->stride));
    CANN_TRY(pair_read(call, 5, (int64_t[]){1, 1}, p->dilation));
    CANN_TRY(cann_want_between(call, 3, 0, 0));
    CANN_TRY(cann_want_between(call, 6, 0, 1));
    if (pads->n_at != 4 && pads->n_at != 2 && pads->n_at)
        return cann_refuse(call, 4, "has %d numbers", pads->n_at);
    for (int i = 0; i < 2; i++) {
        p->before[i] = pads->n_at ? pads->at[i] : 0;
        p->after[i] = pads->n_at ? pads->at[pads->n_at == 4 ? 2 + i : i] : 0;
    }
    p->ceil = call->arg[6].i != 0;
    return 0;
}

int cann_check_max_pool(struct cann_call *call)
{
    struct cann_shape shape;
    struct pool p;

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(pool_image(call, 0));
    CANN_TRY(plain_read(call, &p));
    CANN_TRY(pool_shape(call, &p, 0, &shape));
    CANN_TRY(cann_want_same(call, 7, 0));
    return cann_want_shape(call, 7, &shape);
}

int cann_run_max_pool(struct cann_call *call)
{
    struct pool p;
    int code = plain_read(call, &p);
    struct bp_max_pool_attrs attrs = {.size = sizeof attrs, POOL_ATTRS(p)};
    struct base_tensor x = pool_view(cann_host(call, 0)), y = pool_view(cann_host(call, 7));
    struct cann_temps temps = {.code = code};

    cann_apply(&temps, "max_pool", &attrs, &x, NULL, NULL, &y);
    return temps.code;
}

/* Windows of averages: three arrays from `first` on, then ceilMode, countIncludePad,
 * divisorOverride, cubeMathType. */
static int avg_read(struct cann_call *call, int first, struct pool *p)
{
    CANN_TRY(pair_read(call, first, NULL, p->window));
    CANN_TRY(pair_read(call, first + 1, p->window, p->stride));
    CANN_TRY(pair_read(call, first + 2, (int64_t[]){0, 0}, p->before));
    memcpy(p->after, p->before, sizeof p->after);
    p->dilation[0] = p->dilation[1] = 1;
    p->ceil = call->arg[first + 3].i != 0;
    return 0;
}

/* self, kernelSize, strides, paddings, ceilMode, countIncludePad, divisorOverride, cubeMathType,
 * out */
int cann_check_avg_pool(struct cann_call *call)
{
    struct cann_shape shape;
    struct pool p;

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(pool_image(call, 0));
    CANN_TRY(avg_read(call, 1, &p));
    CANN_TRY(pool_shape(call, &p, 0, &shape));
    CANN_TRY(cann_want_between(call, 6, 0, 255));
    CANN_TRY(cann_want_between(call, 7, 0, 3));
    CANN_TRY(cann_want_same(call, 8, 0));
    return cann_want_shape(call, 8, &shape);
}

int cann_run_avg_pool(struct cann_call *call)
{
    struct pool p;
    int code = avg_read(call, 1, &p);
    struct bp_avg_pool_attrs attrs = {.size = sizeof attrs,
                                      POOL_ATTRS(p),
                                      .include_pad = call->arg[5].i,
                                      .divisor = (double)call->arg[6].i};
    struct base_tensor x = pool_view(cann_host(call, 0)), y = pool_view(cann_host(call, 8));
    struct cann_temps temps = {.code = code};

    cann_apply(&temps, "avg_pool", &attrs, &x, NULL, NULL, &y);
    return temps.code;
}

/* gradOutput, self, then as above, gradInput */
int cann_check_avg_pool_grad(struct cann_call *call)
{
    struct cann_shape shape;
    struct pool p;

    CANN_TRY(cann_want_own(call, 1));
    CANN_TRY(pool_image(call, 1));
    CANN_TRY(avg_read(call, 2, &p));
    CANN_TRY(pool_shape(call, &p, 1, &shape));
    CANN_TRY(cann_want_between(call, 7, 0, 255));
    CANN_TRY(cann_want_same(call, 0, 1));
    CANN_TRY(cann_want_shape(call, 0, &shape));
    return cann_want_like(call, 9, 1);
}

int cann_run_avg_pool_grad(struct cann_call *call)
{
    struct pool p;
    int code = avg_read(call, 2, &p);
    struct bp_avg_pool_grad_attrs attrs = {.size = sizeof attrs,
                                           POOL_ATTRS(p),
                                           .include_pad = call->arg[6].i,
                                           .divisor = (double)call->arg[7].i};
    struct base_tensor dy = pool_view(cann_host(call, 0)), x = pool_view(cann_host(call, 1));
    struct base_tensor dx = pool_view(cann_host(call, 9));
    struct cann_temps temps = {.code = code};

    cann_apply(&temps, "avg_pool_grad", &attrs, &dy, &x, NULL, &dx);
    return temps.code;
}

/* self, outputSize, out */
int cann_check_adaptive_pool(struct cann_call *call)
{
    struct cann_shape shape = cann_shape(cann_type(call, 0));

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(pool_image(call, 0));
    CANN_TRY(cann_want_n(call, 1, 2));
    CANN_TRY(cann_want_same(call, 2, 0));
    for (int i = 0; i < 2; i++) {
        if (call->arg[1].at[i] < 1) return cann_refuse(call, 1, "is below 1");
        shape.at[shape.rank - 2 + i] = call->arg[1].at[i];
    }
    return cann_want_shape(call, 2, &shape);
}

int cann_run_adaptive_pool(struct cann_call *call)
{
    struct bp_avg_pool_attrs attrs = {.size = sizeof attrs,
                                      .window = {call->arg[1].at[0], call->arg[1].at[1], 1},
                                      .stride = {1, 1, 1},
                                      .dilation = {1, 1, 1},
                                      .adaptive = 1};
    struct base_tensor x = pool_view(cann_host(call, 0)), y = pool_view(cann_host(call, 2));
    struct cann_temps temps = {.n = 0};

    cann_apply(&temps, "avg_pool", &attrs, &x, NULL, NULL, &y);
    return temps.code;
}
