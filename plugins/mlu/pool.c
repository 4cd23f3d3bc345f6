/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c: builds the plans of pools of one or two spatial axes. CNNL takes images with the channels
 * last: they are transposed in front of the call and behind it. */
#include "rows.h"
#include <limits.h>
#include <string.h>

/* A pool of two axes; one spatial axis is the second one. */
struct pool {
    int mode;
    int window[2], stride[2], dilation[2];
    int pad[4]; /* up, down, left, right */
};

/* The images of a view as N, C, H, W. */
static void pool_images(struct mlu_build *b, const struct bp_view *v, int64_t out[4])
{
    if (v->rank < 3 || v->rank > 4 || !v->count) {
        mlu_refuse(b);
        return;
    }
    out[0] = v->shape[0];
    out[1] = v->shape[1];
    out[2] = v->rank == 4 ? v->shape[2] : 1;
    out[3] = v->shape[v->rank - 1];
    for (int i = 0; i < 4; i++)
        if (out[i] > INT_MAX) mlu_refuse(b);
}

static struct mlu_tensor pool_last(struct mlu_build *b, struct mlu_tensor x, const int64_t shape[4])
{
    static const int last[] = {0, 2, 3, 1};
    const int64_t turned[] = {shape[0], shape[2], shape[3], shape[1]};
    struct mlu_tensor y = mlu_temporary(b, x.dtype, 4, turned);

    mlu_step_transpose(b, mlu_shaped(x, 4, shape), y, last);
    return y;
}

static void pool_first(struct mlu_build *b, struct mlu_tensor x, struct mlu_tensor y,
                       const int64_t shape[4])
{
    static const int first[] = {0, 3, 1, 2};

    mlu_step_transpose(b, x, mlu_shaped(y, 4, shape), first);
}

/* Reads the attributes that all pools have, which come first in their structs. Borders behind the
 * image are widened so far that the last window lies in them: so ceil_mode needs no option of
 * CNNL. Refuses what CNNL does not have. */
static struct pool pool_read(struct mlu_build *b, const int64_t x[4], const int64_t y[4])
{
    const struct bp_max_pool_attrs *a = b->prep->attrs;
    int spatial = b->prep->in[0]->rank - 2;
    struct pool p = {.window = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}};

    if (a->adaptive) mlu_refuse(b);
    for (int i = 0; i < spatial && i < 2; i++) {
        int at = i + 2 - spatial;
        int64_t span = (a->window[i] - 1) * a->dilation[i] + 1;
        int64_t need = (y[2 + at] - 1) * a->stride[i] + span - x[2 + at] - a->pad[i];
        int64_t behind = a->pad[3 + i] > need ? a->pad[3 + i] : need;
        /* A larger border must not add a window. */
        if (behind - need >= a->stride[i]) behind = need > 0 ? need : 0;
        if (span > INT_MAX || a->stride[i] > INT_MAX || behind > INT_MAX || behind < 0)
            mlu_refuse(b);
        p.window[at] = (int)a->window[i];
        p.stride[at] = (int)a->stride[i];
        p.dilation[at] = (int)a->dilation[i];
        p.pad[2 * at] = (int)a->pad[i];
        p.pad[2 * at + 1] = (int)behind;
    }
    return p;
}

static void pool_describe(struct mlu_build *b, struct mlu_step *s, const struct pool *p)
{
    const struct cnnl_calls *cnnl = &mlu_cnnl.call;
    int code;

    if (!s || !mlu_build_check(b, FN_cnnlCreatePoolingDescriptor,
                               cnnl->cnnlCreatePoolingDescriptor(&s->desc)))
        return;
    s->desc_destroy = FN_cnnlDestroyPoolingDescriptor;
    code = cnnl->cnnlSetPooling2dDescriptor_v2(
        s->desc, p->mode, MLU_CNNL_PROPAGATE_NAN, p->window[0], p->window[1], p->pad[0], p->pad[1],
        p->pad[2], p->pad[3], p->stride[0], p->stride[1], p->dilation[0], p->dilation[1], false);
    mlu_build_check(b, FN_cnnlSetPooling2dDescriptor_v2, code);
}

static int pool_call_forward(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlPoolingForward(r->handle, s->desc, NULL, mlu_desc(s, 0),
                                            mlu_address(r, s, 0), NULL, mlu_desc(s, 1),
                                            mlu_address(r, s, 1), mlu_work(r, s), s->work);
}

static void pool_forward(struct mlu_build *b, int mode)
{
    int64_t shape[4] = {0}, result[4] = {0};
    struct mlu_tensor x, y;
    struct mlu_step *s;
    struct pool p;
    size_t size = 0;
    int code;

    pool_images(b, b->prep->in[0], shape);
    pool_images(b, b->prep->out[0], result);
    if (b->status) return;
    p = pool_read(b, shape, result);
    p.mode = mode;
    x = pool_last(b, mlu_in(b, 0), shape);
    y = mlu_temporary(b, x.dtype, 4, (int64_t[]){result[0], result[2], result[3], result[1]});
    s = mlu_step_images(b, FN_cnnlPoolingForward, pool_call_forward, MLU_TENSORS(x, y),
                        MLU_CNNL_LAYOUT_NHWC);
    pool_describe(b, s, &p);
    if (b->status) return;
    code = mlu_cnnl.call.cnnlGetPoolingWorkspaceSize(b->handle, mode, (int)result[3],
                                                     (int)result[2], &size);
    mlu_step_reserve(b, s, FN_cnnlGetPoolingWorkspaceSize, code, size);
    pool_first(b, y, mlu_out(b, 0), result);
}

void mlu_build_max_pool(struct mlu_build *b)
{
    pool_forward(b, MLU_CNNL_POOLING_MAX);
}

/* The mode of an average. Where borders count, those behind must not have been widened. */
static int pool_average(struct mlu_build *b, bool include_pad, double divisor, bool ceil_mode)
{
    if (divisor != 0 || (include_pad && ceil_mode)) mlu_refuse(b);
    return include_pad ? MLU_CNNL_POOLING_AVERAGE_COUNT_INCLUDE_PADDING
                       : MLU_CNNL_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING;
}

void mlu_build_avg_pool(struct mlu_build *b)
{
    const struct bp_avg_pool_attrs *a = b->prep->attrs;

    pool_forward(b, pool_average(b, a->include_pad != 0, a->divisor, a->ceil_mode != 0));
}

/* For averages CNNL does not read y: the gradient of y stands in its place. */
static int pool_call_backward(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlPoolingBackward(
        r->handle, s->desc, NULL, mlu_desc(s, 0), mlu_address(r, s, 0), mlu_desc(s, 0),
        mlu_address(r, s, 0), mlu_desc(s, 1), mlu_address(r, s, 1), NULL, mlu_desc(s, 2),
        mlu_address(r, s, 2));
}

void mlu_build_avg_pool_grad(struct mlu_build *b)
{
    const struct bp_avg_pool_grad_attrs *a = b->prep->attrs;
    int mode = pool_average(b, a->include_pad != 0, a->divisor, a->ceil_mode != 0);
    int64_t shape[4] = {0}, result[4] = {0};
    struct mlu_tensor x, dx, dy;
    struct mlu_step *s;
    struct pool p;

    pool_images(b, b->prep->in[1], shape);
    pool_images(b, b->prep->in[0], result);
    if (b->status) return;
    p = pool_read(b, shape, result);
    p.mode = mode;
    x = pool_last(b, mlu_in(b, 1), shape);
    dy = pool_last(b, mlu_in(b, 0), result);
    dx = mlu_temporary(b, x.dtype, 4, x.shape);
    s = mlu_step_images(b, FN_cnnlPoolingBackward, pool_call_backward, MLU_TENSORS(dy, x, dx),
                        MLU_CNNL_LAYOUT_NHWC);
    pool_describe(b, s, &p);
    pool_first(b, dx, mlu_out(b, 0), shape);
}

static int pool_call_adaptive(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlAdaptivePoolingForward_v2(
        r->handle, mlu_desc(s, 0), mlu_address(r, s, 0),
        MLU_CNNL_POOLING_AVERAGE_COUNT_INCLUDE_PADDING, mlu_work(r, s), s->work, mlu_desc(s, 1),
        mlu_address(r, s, 1), NULL, NULL);
}

void mlu_build_adaptive_avg_pool(struct mlu_build *b)
{
    int64_t shape[4] = {0}, result[4] = {0};
    struct mlu_tensor x, y;
    struct mlu_step *s;
    size_t size = 0;
    int code;

    pool_images(b, b->prep->in[0], shape);
    pool_images(b, b->prep->out[0], result);
    if (b->status) return;
    x = pool_last(b, mlu_in(b, 0), shape);
    y = mlu_temporary(b, x.dtype, 4, (int64_t[]){result[0], result[2], result[3], result[1]});
    s = mlu_step_images(b, FN_cnnlAdaptivePoolingForward_v2, pool_call_adaptive, MLU_TENSORS(x, y),
                        MLU_CNNL_LAYOUT_NHWC);
    if (!s) return;
    code = mlu_cnnl.call.cnnlGetAdaptivePoolingForwardWorkspaceSize(
        b->handle, mlu_desc(s, 0), MLU_CNNL_POOLING_AVERAGE_COUNT_INCLUDE_PADDING, mlu_desc(s, 1),
        &size);
    mlu_step_reserve(b, s, FN_cnnlGetAdaptivePoolingForwardWorkspaceSize, code, size);
    pool_first(b, y, mlu_out(b, 0), result);
}
