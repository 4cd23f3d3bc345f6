/* SPDX-License-Identifier: Apache-2.0 */
/* conv.c: builds the plans of convolutions and their gradients, whose numbers no public source
 * confirms (numbers.h). CNNL takes images and filters with the channels last: a plan transposes
 * them into temporary tensors, and transposes the result back. */
#include "rows.h"
#include <limits.h>
#include <string.h>

struct conv {
    uint32_t axes; /* spatial ones, 2 or 3: one axis becomes the second of two */
    int64_t groups;
    int pad[6], stride[3], dilation[3]; /* pad: before and behind of each axis */
};

/* The attributes of a convolution and of its gradients are alike. */
static void conv_read(struct mlu_build *b, struct conv *c)
{
    const struct bp_conv_attrs *attrs = b->prep->attrs;
    uint32_t axes = b->prep->in[0]->rank - 2, first = axes == 1;

    *c = (struct conv){.axes = axes + first, .groups = attrs->groups, .stride = {1, 1, 1}};
    for (int i = 0; i < 3; i++) c->dilation[i] = 1;
    for (uint32_t i = 0; i < axes; i++) {
        const int64_t values[] = {attrs->pad[i], attrs->pad[3 + i], attrs->stride[i],
                                  attrs->dilation[i]};
        for (int k = 0; k < 4; k++)
            if (values[k] > INT_MAX) mlu_refuse(b);
        c->pad[2 * (first + i)] = (int)values[0];
        c->pad[2 * (first + i) + 1] = (int)values[1];
        c->stride[first + i] = (int)values[2];
        c->dilation[first + i] = (int)values[3];
    }
    if (c->groups > INT_MAX) mlu_refuse(b);
}

/* The shape of a tensor with the channels last. */
static struct mlu_tensor conv_last(const struct conv *c, struct mlu_tensor t)
{
    int64_t shape[5] = {t.shape[0]};
    uint32_t at = 1;

    if (c->axes + 2 > t.rank) shape[at++] = 1;
    for (uint32_t i = 2; i < t.rank; i++) shape[at++] = t.shape[i];
    shape[at++] = t.shape[1];
    return mlu_shaped(t, at, shape);
}

static int64_t conv_places(const struct mlu_tensor *t)
{
    int64_t n = 1;

    for (uint32_t i = 2; i < t->rank; i++) n *= t->shape[i];
    return n;
}

/* A temporary tensor like t, with the channels last. */
static struct mlu_tensor conv_temporary(struct mlu_build *b, const struct conv *c,
                                        struct mlu_tensor t)
{
    struct mlu_tensor last = conv_last(c, t);

    return mlu_temporary(b, t.dtype, last.rank, last.shape);
}

/* Copies t into a temporary tensor with the channels last. */
static struct mlu_tensor conv_turn(struct mlu_build *b, const struct conv *c, struct mlu_tensor t)
{
    static const int order[] = {0, 2, 1};
    int64_t n = t.shape[0], channels = t.shape[1], places = conv_places(&t);
    struct mlu_tensor y = conv_temporary(b, c, t);

    mlu_step_transpose(b, mlu_shaped(t, 3, (int64_t[]){n, channels, places}),
                       mlu_shaped(y, 3, (int64_t[]){n, places, channels}), order);
    return y;
}

/* Copies a temporary tensor with the channels last into t. */
static void conv_turn_back(struct mlu_build *b, struct mlu_tensor from, struct mlu_tensor t)
{
    static const int order[] = {0, 2, 1};
    int64_t n = t.shape[0], channels = t.shape[1], places = conv_places(&t);

    mlu_step_transpose(b, mlu_shaped(from, 3, (int64_t[]){n, places, channels}),
                       mlu_shaped(t, 3, (int64_t[]){n, channels, places}), order);
}

/* The tensors of a step: x, w, bias, y; dy, w, dx; or x, dy, dw. i[0] is the algorithm. */
static int conv_call(const struct mlu_run *r, const struct mlu_step *s)
{
    const struct cnnl_calls *cnnl = &mlu_cnnl.call;
    int algo = (int)s->i[0];

    if (s->fn == FN_cnnlConvolutionForward)
        return cnnl->cnnlConvolutionForward(
            r->handle, s->desc, algo, NULL, mlu_desc(s, 0), mlu_address(r, s, 0), mlu_desc(s, 1),
            mlu_address(r, s, 1), mlu_desc(s, 2), mlu_address(r, s, 2), mlu_work(r, s), s->work,
            NULL, mlu_desc(s, 3), mlu_address(r, s, 3));
    if (s->fn == FN_cnnlConvolutionBackwardData)
        return cnnl->cnnlConvolutionBackwardData(
            r->handle, NULL, mlu_desc(s, 1), mlu_address(r, s, 1), mlu_desc(s, 0),
            mlu_address(r, s, 0), s->desc, algo, mlu_work(r, s), s->work, NULL, mlu_desc(s, 2),
            mlu_address(r, s, 2));
    return cnnl->cnnlConvolutionBackwardFilter(
        r->handle, NULL, mlu_desc(s, 0), mlu_address(r, s, 0), mlu_desc(s, 1), mlu_address(r, s, 1),
        s->desc, algo, mlu_work(r, s), s->work, NULL, mlu_desc(s, 2), mlu_address(r, s, 2));
}

/* A step whose descriptor is set; half types are added in f32. */
static struct mlu_step *conv_step(struct mlu_build *b, const struct conv *c, uint32_t n,
                                  const struct mlu_tensor *t)
{
    const struct cnnl_calls *cnnl = &mlu_cnnl.call;
    int layout = c->axes == 3 ? MLU_CNNL_LAYOUT_NDHWC : MLU_CNNL_LAYOUT_NHWC, code;
    struct mlu_step *s = mlu_step_images(b, b->row->fn, conv_call, n, t, layout);

    if (!s || !mlu_build_check(b, FN_cnnlCreateConvolutionDescriptor,
                               cnnl->cnnlCreateConvolutionDescriptor(&s->desc)))
        return NULL;
    s->desc_destroy = FN_cnnlDestroyConvolutionDescriptor;
    code = cnnl->cnnlSetConvolutionDescriptor(s->desc, (int)c->axes + 2, c->pad, c->stride,
                                              c->dilation, (int)c->groups, MLU_CNNL_DTYPE_FLOAT);
    return mlu_build_check(b, FN_cnnlSetConvolutionDescriptor, code) ? s : NULL;
}

void mlu_build_conv(struct mlu_build *b)
{
    const struct cnnl_calls *cnnl = &mlu_cnnl.call;
    struct mlu_tensor x = mlu_in(b, 0), w = mlu_in(b, 1), bias = mlu_in(b, 2), y = mlu_out(b, 0), t;
    struct mlu_step *s;
    struct conv c;
    size_t size = 0;
    int algo = 0, code;

    conv_read(b, &c);
    if (b->status || !mlu_count(&x) || !mlu_count(&w)) mlu_refuse(b);
    if (b->status) return;
    t = conv_temporary(b, &c, y);
    x = conv_turn(b, &c, x);
    w = conv_turn(b, &c, w);
    s = conv_step(b, &c, 4, (const struct mlu_tensor[]){x, w, bias, t});
    if (!s) return;
    code = cnnl->cnnlGetConvolutionForwardAlgorithm(b->handle, s->desc, mlu_desc(s, 0),
                                                    mlu_desc(s, 1), mlu_desc(s, 3),
                                                    mlu_number(b->row->number), &algo);
    if (!mlu_build_check(b, FN_cnnlGetConvolutionForwardAlgorithm, code)) return;
    s->i[0] = algo;
    code = cnnl->cnnlGetConvolutionForwardWorkspaceSize(b->handle, mlu_desc(s, 0), mlu_desc(s, 1),
                                                        mlu_desc(s, 3), mlu_desc(s, 2), s->desc,
                                                        algo, &size);
    mlu_step_reserve(b, s, FN_cnnlGetConvolutionForwardWorkspaceSize, code, size);
    conv_turn_back(b, t, y);
}

void mlu_build_conv_grad_input(struct mlu_build *b)
{
    const struct cnnl_calls *cnnl = &mlu_cnnl.call;
    struct mlu_tensor dy = mlu_in(b, 0), w = mlu_in(b, 1), dx = mlu_out(b, 0), t;
    struct mlu_step *s;
    struct conv c;
    size_t size = 0;
    int algo = 0, code;

    conv_read(b, &c);
    if (b->status) return;
    if (!mlu_count(&dy) || !mlu_count(&w)) {
        mlu_step_fill(b, 0, mlu_flat(dx));
        return;
    }
    t = conv_temporary(b, &c, dx);
    dy = conv_turn(b, &c, dy);
    w = conv_turn(b, &c, w);
    s = conv_step(b, &c, 3, (const struct mlu_tensor[]){dy, w, t});
    if (!s) return;
    code = cnnl->cnnlGetConvolutionBackwardDataAlgorithm(b->handle, mlu_desc(s, 1), mlu_desc(s, 0),
                                                         s->desc, mlu_desc(s, 2),
                                                         mlu_number(b->row->number), &algo);
    if (!mlu_build_check(b, FN_cnnlGetConvolutionBackwardDataAlgorithm, code)) return;
    s->i[0] = algo;
    code = cnnl->cnnlGetConvolutionBackwardDataWorkspaceSize(
        b->handle, mlu_desc(s, 1), mlu_desc(s, 0), s->desc, mlu_desc(s, 2), algo, &size);
    mlu_step_reserve(b, s, FN_cnnlGetConvolutionBackwardDataWorkspaceSize, code, size);
    conv_turn_back(b, t, dx);
}

void mlu_build_conv_grad_weight(struct mlu_build *b)
{
    const struct cnnl_calls *cnnl = &mlu_cnnl.call;
    struct mlu_tensor dy = mlu_in(b, 0), x = mlu_in(b, 1), dw = mlu_out(b, 0), t;
    struct mlu_step *s;
    struct conv c;
    size_t size = 0;
    int algo = 0, code;

    conv_read(b, &c);
    if (b->status) return;
    if (!mlu_count(&dy) || !mlu_count(&x)) {
        mlu_step_fill(b, 0, mlu_flat(dw));
        return;
    }
    t = conv_temporary(b, &c, dw);
    dy = conv_turn(b, &c, dy);
    x = conv_turn(b, &c, x);
    s = conv_step(b, &c, 3, (const struct mlu_tensor[]){x, dy, t});
    if (!s) return;
    code = cnnl->cnnlGetConvolutionBackwardFilterAlgorithm(b->handle, s->desc, mlu_desc(s, 0),
                                                           mlu_desc(s, 1), mlu_desc(s, 2),
                                                           mlu_number(b->row->number), &algo);
    if (!mlu_build_check(b, FN_cnnlGetConvolutionBackwardFilterAlgorithm, code)) return;
    s->i[0] = algo;
    code = cnnl->cnnlGetConvolutionBackwardFilterWorkspaceSize(
        b->handle, mlu_desc(s, 0), mlu_desc(s, 1), mlu_desc(s, 2), s->desc, algo, &size);
    mlu_step_reserve(b, s, FN_cnnlGetConvolutionBackwardFilterWorkspaceSize, code, size);
    conv_turn_back(b, t, dw);
}
