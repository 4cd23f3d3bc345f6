/* SPDX-License-Identifier: Apache-2.0 */
/* elementwise.c: builds the plans of elementwise rows. */
#include "rows.h"
#include <math.h>
#include <string.h>

void mlu_build_unary(struct mlu_build *b)
{
    mlu_step_unary(b, b->row->fn, mlu_flat(mlu_in(b, 0)), mlu_flat(mlu_out(b, 0)));
}

static int elementwise_call_preferred(const struct mlu_run *r, const struct mlu_step *s)
{
    int (*f)(void *h, int preference, const void *dx, const void *x, const void *dy, void *y);

    memcpy(&f, &mlu_cnnl.function[s->fn], sizeof f);
    return f(r->handle, MLU_CNNL_COMPUTATION_HIGH_PRECISION, mlu_desc(s, 0), mlu_address(r, s, 0),
             mlu_desc(s, 1), mlu_address(r, s, 1));
}

void mlu_build_preferred(struct mlu_build *b)
{
    mlu_step(b, b->row->fn, elementwise_call_preferred,
             MLU_TENSORS(mlu_flat(mlu_in(b, 0)), mlu_flat(mlu_out(b, 0))));
}

static int elementwise_call_log(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlLog_v2(r->handle, MLU_CNNL_COMPUTATION_HIGH_PRECISION, (int)s->i[0],
                                    mlu_desc(s, 0), mlu_address(r, s, 0), mlu_desc(s, 1),
                                    mlu_address(r, s, 1));
}

void mlu_build_log(struct mlu_build *b)
{
    struct mlu_step *s = mlu_step(b, b->row->fn, elementwise_call_log,
                                  MLU_TENSORS(mlu_flat(mlu_in(b, 0)), mlu_flat(mlu_out(b, 0))));

    if (s) s->i[0] = mlu_number(b->row->number);
}

/* y = factor x + bias, whose attributes may change with each launch. */
static int elementwise_call_scale(const struct mlu_run *r, const struct mlu_step *s)
{
    const struct bp_scale_attrs *attrs = r->launch->attrs;
    float factor = (float)attrs->factor, bias = (float)attrs->bias;

    return mlu_cnnl.call.cnnlTransform_v2(r->handle, MLU_CNNL_POINTER_MODE_HOST, &factor,
                                          mlu_desc(s, 0), mlu_address(r, s, 0), &bias,
                                          mlu_desc(s, 1), mlu_address(r, s, 1));
}

void mlu_build_scale(struct mlu_build *b)
{
    mlu_step(b, b->row->fn, elementwise_call_scale,
             MLU_TENSORS(mlu_flat(mlu_in(b, 0)), mlu_flat(mlu_out(b, 0))));
}

/* Bounds that are crossed give max: then min is max. */
static int elementwise_call_clip(const struct mlu_run *r, const struct mlu_step *s)
{
    const struct bp_clip_attrs *attrs = r->launch->attrs;
    double least = attrs->min, most = attrs->max;
    unsigned char low[8], high[8];

    if (s->t[0].dtype == BP_I32) {
        least = ceil(least);
        most = floor(most);
    }
    if (least > most) least = most;
    mlu_value(low, s->t[0].dtype, least);
    mlu_value(high, s->t[0].dtype, most);
    return mlu_cnnl.call.cnnlClip_v2(r->handle, MLU_CNNL_POINTER_MODE_HOST, mlu_desc(s, 0),
                                     mlu_address(r, s, 0), low, high, mlu_desc(s, 1),
                                     mlu_address(r, s, 1));
}

void mlu_build_clip(struct mlu_build *b)
{
    mlu_step(b, b->row->fn, elementwise_call_clip,
             MLU_TENSORS(mlu_flat(mlu_in(b, 0)), mlu_flat(mlu_out(b, 0))));
}

/* Input i with as many axes as the result. */
static struct mlu_tensor elementwise_in(const struct mlu_build *b, uint32_t i)
{
    return mlu_ranked(mlu_in(b, i), b->prep->out[0]->rank);
}

/* Reserves the workspace of a step whose size depends on the descriptors of its n tensors. */
static void elementwise_reserve(struct mlu_build *b, struct mlu_step *s)
{
    enum mlu_fn fn = b->row->size_fn;
    int (*of_three)(void *h, const void *da, const void *db, const void *dc, size_t *out);
    int (*of_four)(void *h, const void *da, const void *db, const void *dc, const void *dy,
                   size_t *out);
    int (*of_one)(void *h, const void *dy, size_t *out);
    size_t size = 0;
    int code;

    if (!s || fn == FN_NONE) return;
    memcpy(&of_three, &mlu_cnnl.function[fn], sizeof of_three);
    memcpy(&of_four, &mlu_cnnl.function[fn], sizeof of_four);
    memcpy(&of_one, &mlu_cnnl.function[fn], sizeof of_one);
    if (fn == FN_cnnlGetMaximumWorkspaceSize || fn == FN_cnnlGetMinimumWorkspaceSize)
        code = of_one(b->handle, mlu_desc(s, 2), &size);
    else if (s->n == 3 || fn == FN_cnnlGetSelectV2WorkspaceSize)
        code = of_three(b->handle, mlu_desc(s, 0), mlu_desc(s, 1), mlu_desc(s, 2), &size);
    else
        code = of_four(b->handle, mlu_desc(s, 0), mlu_desc(s, 1), mlu_desc(s, 2), mlu_desc(s, 3),
                       &size);
    mlu_step_reserve(b, s, fn, code, size);
}

static int elementwise_call_binary(const struct mlu_run *r, const struct mlu_step *s)
{
    int (*f)(void *h, const void *da, const void *a, const void *db, const void *b, const void *dy,
             void *y, void *w, size_t n);

    memcpy(&f, &mlu_cnnl.function[s->fn], sizeof f);
    return f(r->handle, mlu_desc(s, 0), mlu_address(r, s, 0), mlu_desc(s, 1), mlu_address(r, s, 1),
             mlu_desc(s, 2), mlu_address(r, s, 2), mlu_work(r, s), s->work);
}

void mlu_build_binary(struct mlu_build *b)
{
    elementwise_reserve(
        b, mlu_step(b, b->row->fn, elementwise_call_binary,
                    MLU_TENSORS(elementwise_in(b, 0), elementwise_in(b, 1), mlu_out(b, 0))));
}

static int elementwise_call_numbered(const struct mlu_run *r, const struct mlu_step *s)
{
    int (*f)(void *h, int number, const void *da, const void *a, const void *db, const void *b,
             void *w, size_t n, const void *dy, void *y);

    memcpy(&f, &mlu_cnnl.function[s->fn], sizeof f);
    return f(r->handle, (int)s->i[0], mlu_desc(s, 0), mlu_address(r, s, 0), mlu_desc(s, 1),
             mlu_address(r, s, 1), mlu_work(r, s), s->work, mlu_desc(s, 2), mlu_address(r, s, 2));
}

void mlu_build_numbered(struct mlu_build *b)
{
    struct mlu_step *s = mlu_step(
        b, b->row->fn, elementwise_call_numbered,
        MLU_TENSORS(elementwise_in(b, 0), elementwise_in(b, 1), mlu_out(b, 0)));

    if (s) s->i[0] = mlu_number(b->row->number);
    elementwise_reserve(b, s);
}

static int elementwise_call_ternary(const struct mlu_run *r, const struct mlu_step *s)
{
    int (*f)(void *h, const void *da, const void *a, const void *db, const void *b, const void *dc,
             const void *c, void *w, size_t n, const void *dy, void *y);

    memcpy(&f, &mlu_cnnl.function[s->fn], sizeof f);
    return f(r->handle, mlu_desc(s, 0), mlu_address(r, s, 0), mlu_desc(s, 1), mlu_address(r, s, 1),
             mlu_desc(s, 2), mlu_address(r, s, 2), mlu_work(r, s), s->work, mlu_desc(s, 3),
             mlu_address(r, s, 3));
}

void mlu_build_ternary(struct mlu_build *b)
{
    elementwise_reserve(b, mlu_step(b, b->row->fn, elementwise_call_ternary,
                                    MLU_TENSORS(elementwise_in(b, 0), elementwise_in(b, 1),
                                                elementwise_in(b, 2), mlu_out(b, 0))));
}

/* addcmul and addcdiv have equal attributes. */
static int elementwise_call_scaled(const struct mlu_run *r, const struct mlu_step *s)
{
    const struct bp_addcmul_attrs *attrs = r->launch->attrs;
    int (*f)(void *h, const void *da, const void *a, const void *alpha, const void *db,
             const void *b, const void *dc, const void *c, void *w, size_t n, const void *dy,
             void *y);
    float value = (float)attrs->value;

    memcpy(&f, &mlu_cnnl.function[s->fn], sizeof f);
    return f(r->handle, mlu_desc(s, 0), mlu_address(r, s, 0), &value, mlu_desc(s, 1),
             mlu_address(r, s, 1), mlu_desc(s, 2), mlu_address(r, s, 2), mlu_work(r, s), s->work,
             mlu_desc(s, 3), mlu_address(r, s, 3));
}

void mlu_build_scaled(struct mlu_build *b)
{
    elementwise_reserve(b, mlu_step(b, b->row->fn, elementwise_call_scaled,
                                    MLU_TENSORS(elementwise_in(b, 0), elementwise_in(b, 1),
                                                elementwise_in(b, 2), mlu_out(b, 0))));
}

static int elementwise_call_prelu(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlPrelu(r->handle, mlu_desc(s, 0), mlu_address(r, s, 0), mlu_desc(s, 1),
                                   mlu_address(r, s, 1), mlu_desc(s, 2), mlu_address(r, s, 2));
}

void mlu_build_prelu(struct mlu_build *b)
{
    mlu_step(b, b->row->fn, elementwise_call_prelu,
             MLU_TENSORS(elementwise_in(b, 0), elementwise_in(b, 1), mlu_out(b, 0)));
}

/* y = value where mask is true, else x. */
void mlu_build_masked_fill(struct mlu_build *b)
{
    elementwise_reserve(b, mlu_step(b, b->row->fn, elementwise_call_ternary,
                                    MLU_TENSORS(elementwise_in(b, 1), elementwise_in(b, 2),
                                                elementwise_in(b, 0), mlu_out(b, 0))));
}

/* Whether x is 0. */
void mlu_build_logical_not(struct mlu_build *b)
{
    struct mlu_tensor x = mlu_flat(mlu_in(b, 0)), zero;
    struct mlu_step *s;

    zero = mlu_temporary(b, x.dtype, 1, (int64_t[]){1});
    mlu_step_fill(b, 0, zero);
    s = mlu_step(b, b->row->fn, elementwise_call_numbered,
                 MLU_TENSORS(x, zero, mlu_flat(mlu_out(b, 0))));
    if (s) s->i[0] = mlu_number(b->row->number);
    elementwise_reserve(b, s);
}

static int elementwise_call_trigon(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlTrigonForward(r->handle, s->desc, mlu_desc(s, 0), mlu_address(r, s, 0),
                                           mlu_desc(s, 1), mlu_address(r, s, 1));
}

void mlu_build_trigon(struct mlu_build *b)
{
    const struct cnnl_calls *cnnl = &mlu_cnnl.call;
    struct mlu_step *s = mlu_step(b, b->row->fn, elementwise_call_trigon,
                                  MLU_TENSORS(mlu_flat(mlu_in(b, 0)), mlu_flat(mlu_out(b, 0))));
    int code;

    if (!s || !mlu_build_check(b, FN_cnnlCreateTrigonDescriptor,
                               cnnl->cnnlCreateTrigonDescriptor(&s->desc)))
        return;
    s->desc_destroy = FN_cnnlDestroyTrigonDescriptor;
    code = cnnl->cnnlSetTrigonDescriptor_v2(s->desc, mlu_number(b->row->number),
                                            MLU_CNNL_COMPUTATION_HIGH_PRECISION);
    mlu_build_check(b, FN_cnnlSetTrigonDescriptor_v2, code);
}

/* bitwise_not has one input. */
static int elementwise_call_bits(const struct mlu_run *r, const struct mlu_step *s)
{
    bool two = s->n == 3;
    uint32_t y = s->n - 1;

    return mlu_cnnl.call.cnnlBitCompute_v2(r->handle, (int)s->i[0], mlu_desc(s, 0),
                                           mlu_address(r, s, 0), two ? mlu_desc(s, 1) : NULL,
                                           two ? mlu_address(r, s, 1) : NULL, mlu_desc(s, y),
                                           mlu_address(r, s, y), mlu_work(r, s), s->work);
}

void mlu_build_bits(struct mlu_build *b)
{
    struct mlu_tensor t[3];
    struct mlu_step *s;
    size_t size = 0;
    int code;

    for (uint32_t i = 0; i < b->prep->n_in; i++) t[i] = elementwise_in(b, i);
    t[b->prep->n_in] = mlu_out(b, 0);
    s = mlu_step(b, b->row->fn, elementwise_call_bits, b->prep->n_in + 1, t);
    if (!s) return;
    s->i[0] = mlu_number(b->row->number);
    code = mlu_cnnl.call.cnnlGetBitComputeWorkspaceSize(
        b->handle, mlu_desc(s, 0), s->n == 3 ? mlu_desc(s, 1) : NULL, mlu_desc(s, s->n - 1), &size);
    mlu_step_reserve(b, s, FN_cnnlGetBitComputeWorkspaceSize, code, size);
}
