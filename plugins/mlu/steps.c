/* SPDX-License-Identifier: Apache-2.0 */
/* steps.c: has the calls of CNNL that several rows need; see cnnl.h. */
#include "rows.h"
#include <limits.h>
#include <math.h>
#include <string.h>

static int step_call_unary(const struct mlu_run *r, const struct mlu_step *s)
{
    int (*f)(void *h, const void *dx, const void *x, const void *dy, void *y);

    memcpy(&f, &mlu_cnnl.function[s->fn], sizeof f);
    return f(r->handle, mlu_desc(s, 0), mlu_address(r, s, 0), mlu_desc(s, 1), mlu_address(r, s, 1));
}

void mlu_step_unary(struct mlu_build *b, enum mlu_fn fn, struct mlu_tensor x, struct mlu_tensor y)
{
    mlu_step(b, fn, step_call_unary, MLU_TENSORS(x, y));
}

static int step_call_fill(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlFill_v3(r->handle, MLU_CNNL_POINTER_MODE_HOST, s->value,
                                     mlu_desc(s, 0), mlu_address(r, s, 0));
}

void mlu_step_fill(struct mlu_build *b, double value, struct mlu_tensor y)
{
    struct mlu_step *s = mlu_step(b, FN_cnnlFill_v3, step_call_fill, MLU_TENSORS(y));

    if (s) mlu_value(s->value, y.dtype, value);
}

static int step_call_transpose(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlTranspose_v2(r->handle, s->desc, mlu_desc(s, 0), mlu_address(r, s, 0),
                                          mlu_desc(s, 1), mlu_address(r, s, 1), mlu_work(r, s),
                                          s->work);
}

void mlu_step_transpose(struct mlu_build *b, struct mlu_tensor x, struct mlu_tensor y,
                        const int *order)
{
    const struct cnnl_calls *cnnl = &mlu_cnnl.call;
    struct mlu_step *s = mlu_step(b, FN_cnnlTranspose_v2, step_call_transpose, MLU_TENSORS(x, y));
    size_t size = 0;
    int code;

    if (!s || !mlu_build_check(b, FN_cnnlCreateTransposeDescriptor,
                               cnnl->cnnlCreateTransposeDescriptor(&s->desc)))
        return;
    s->desc_destroy = FN_cnnlDestroyTransposeDescriptor;
    code = cnnl->cnnlSetTransposeDescriptor(s->desc, x.rank, order);
    if (!mlu_build_check(b, FN_cnnlSetTransposeDescriptor, code)) return;
    code = cnnl->cnnlGetTransposeWorkspaceSize(b->handle, mlu_desc(s, 0), s->desc, &size);
    mlu_step_reserve(b, s, FN_cnnlGetTransposeWorkspaceSize, code, size);
}

static int step_call_divide(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlDiv_v2(r->handle, MLU_CNNL_COMPUTATION_HIGH_PRECISION, mlu_desc(s, 0),
                                    mlu_address(r, s, 0), mlu_desc(s, 1), mlu_address(r, s, 1),
                                    mlu_work(r, s), s->work, mlu_desc(s, 2), mlu_address(r, s, 2));
}

void mlu_step_divide(struct mlu_build *b, struct mlu_tensor x, struct mlu_tensor by,
                     struct mlu_tensor y)
{
    struct mlu_step *s = mlu_step(b, FN_cnnlDiv_v2, step_call_divide, MLU_TENSORS(x, by, y));
    size_t size = 0;
    int code;

    if (!s) return;
    code = mlu_cnnl.call.cnnlGetDivWorkspaceSize(b->handle, mlu_desc(s, 0), mlu_desc(s, 1),
                                                 mlu_desc(s, 2), &size);
    mlu_step_reserve(b, s, FN_cnnlGetDivWorkspaceSize, code, size);
}

static int step_call_equal(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlLogicOp(r->handle, mlu_number(NUM_CNNL_LOGIC_OP_EQ), mlu_desc(s, 0),
                                     mlu_address(r, s, 0), mlu_desc(s, 1), mlu_address(r, s, 1),
                                     mlu_work(r, s), s->work, mlu_desc(s, 2), mlu_address(r, s, 2));
}

void mlu_step_equal(struct mlu_build *b, struct mlu_tensor x, struct mlu_tensor y,
                    struct mlu_tensor z)
{
    struct mlu_step *s = mlu_step(b, FN_cnnlLogicOp, step_call_equal, MLU_TENSORS(x, y, z));
    size_t size = 0;
    int code;

    if (!s) return;
    code = mlu_cnnl.call.cnnlGetLogicOpWorkspaceSize(b->handle, mlu_desc(s, 0), mlu_desc(s, 1),
                                                     mlu_desc(s, 2), &size);
    mlu_step_reserve(b, s, FN_cnnlGetLogicOpWorkspaceSize, code, size);
}

static int step_call_where(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlSelectV2(r->handle, mlu_desc(s, 0), mlu_address(r, s, 0),
                                      mlu_desc(s, 1), mlu_address(r, s, 1), mlu_desc(s, 2),
                                      mlu_address(r, s, 2), mlu_work(r, s), s->work, mlu_desc(s, 3),
                                      mlu_address(r, s, 3));
}

void mlu_step_where(struct mlu_build *b, struct mlu_tensor which, struct mlu_tensor x,
                    struct mlu_tensor y, struct mlu_tensor z)
{
    struct mlu_step *s = mlu_step(b, FN_cnnlSelectV2, step_call_where, MLU_TENSORS(which, x, y, z));
    size_t size = 0;
    int code;

    if (!s) return;
    code = mlu_cnnl.call.cnnlGetSelectV2WorkspaceSize(b->handle, mlu_desc(s, 0), mlu_desc(s, 1),
                                                      mlu_desc(s, 2), &size);
    mlu_step_reserve(b, s, FN_cnnlGetSelectV2WorkspaceSize, code, size);
}

static int step_call_clip(const struct mlu_run *r, const struct mlu_step *s)
{
    int32_t least = (int32_t)s->i[0], most = (int32_t)s->i[1];

    return mlu_cnnl.call.cnnlClip_v2(r->handle, MLU_CNNL_POINTER_MODE_HOST, mlu_desc(s, 0),
                                     mlu_address(r, s, 0), &least, &most, mlu_desc(s, 1),
                                     mlu_address(r, s, 1));
}

void mlu_step_clip(struct mlu_build *b, struct mlu_tensor x, int32_t least, int32_t most,
                   struct mlu_tensor y)
{
    struct mlu_step *s = mlu_step(b, FN_cnnlClip_v2, step_call_clip, MLU_TENSORS(x, y));

    if (!s) return;
    s->i[0] = least;
    s->i[1] = most;
}

static int step_call_cut(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlStridedSlice(r->handle, mlu_desc(s, 0), mlu_address(r, s, 0), s->ints,
                                          s->ints + 8, s->ints + 16, mlu_desc(s, 1),
                                          mlu_address(r, s, 1));
}

void mlu_step_cut(struct mlu_build *b, struct mlu_tensor x, struct mlu_tensor y,
                  const struct mlu_cut *cut)
{
    struct mlu_step *s = mlu_step(b, FN_cnnlStridedSlice, step_call_cut, MLU_TENSORS(x, y));

    if (!s) return;
    for (uint32_t i = 0; i < x.rank; i++) {
        if (x.shape[i] > INT_MAX) mlu_refuse(b);
        s->ints[i] = (int)cut[i].first;
        s->ints[8 + i] = (int)(cut[i].first + (cut[i].n - 1) * cut[i].step + 1);
        s->ints[16 + i] = (int)cut[i].step;
    }
}

/* i[0] is the offset of an attribute, which may change with each launch. */
static int step_call_full(const struct mlu_run *r, const struct mlu_step *s)
{
    unsigned char value[8];
    double number;

    memcpy(&number, (const char *)r->launch->attrs + s->i[0], sizeof number);
    mlu_value(value, s->t[0].dtype, number);
    return mlu_cnnl.call.cnnlFill_v3(r->handle, MLU_CNNL_POINTER_MODE_HOST, value, mlu_desc(s, 0),
                                     mlu_address(r, s, 0));
}

void mlu_step_full(struct mlu_build *b, size_t offset, struct mlu_tensor y)
{
    struct mlu_step *s = mlu_step(b, FN_cnnlFill_v3, step_call_full, MLU_TENSORS(mlu_flat(y)));

    if (s) s->i[0] = (int64_t)offset;
}

static int step_call_concat(const struct mlu_run *r, const struct mlu_step *s)
{
    const void *desc[MLU_PARTS], *data[MLU_PARTS];
    uint32_t n = s->n - 1;

    for (uint32_t i = 0; i < n; i++) {
        desc[i] = mlu_desc(s, i);
        data[i] = mlu_address(r, s, i);
    }
    return mlu_cnnl.call.cnnlConcat(r->handle, (int)n, 1, desc, data, mlu_work(r, s), s->work,
                                    mlu_desc(s, n), mlu_address(r, s, n));
}

void mlu_step_concat(struct mlu_build *b, uint32_t n, const struct mlu_tensor *part,
                     struct mlu_tensor y)
{
    struct mlu_tensor t[MLU_PARTS + 1];
    struct mlu_step *s;
    size_t size = 0;
    int code;

    if (n == 1) {
        mlu_step_unary(b, FN_cnnlCopy, mlu_flat(part[0]), mlu_flat(y));
        return;
    }
    memcpy(t, part, n * sizeof *t);
    t[n] = y;
    s = mlu_step(b, FN_cnnlConcat, step_call_concat, n + 1, t);
    if (!s) return;
    code = mlu_cnnl.call.cnnlGetConcatWorkspaceSize(b->handle, (int)n, &size);
    mlu_step_reserve(b, s, FN_cnnlGetConcatWorkspaceSize, code, size);
}

/* The bits of the floating-point number that is nearest to v, of two the even one. */
static uint32_t value_bits(double v, int mantissa, int exponent)
{
    uint32_t sign = (uint32_t)(signbit(v) != 0) << (mantissa + exponent);
    uint32_t infinity = ((1u << exponent) - 1) << mantissa;
    int bias = (1 << (exponent - 1)) - 1, e;
    double n;

    if (isnan(v)) return infinity | 1u << (mantissa - 1);
    if (isinf(v)) return sign | infinity;
    frexp(v, &e); /* |v| is below 2^e, and not below 2^(e - 1) */
    if (e - 1 < 1 - bias || v == 0) e = 2 - bias;
    n = nearbyint(ldexp(fabs(v), mantissa - (e - 1)));
    if (e - 1 > bias) return sign | infinity;
    n += ldexp(e - 2 + bias, mantissa);
    return sign | (n < infinity ? (uint32_t)n : infinity);
}

static int64_t value_integer(double v, double least, double most)
{
    if (isnan(v)) return 0;
    return (int64_t)trunc(fmin(fmax(v, least), most));
}

void mlu_value(unsigned char out[8], uint32_t dtype, double v)
{
    uint16_t half;
    float f;
    int32_t i;
    int16_t s;

    switch (dtype) {
    case BP_F32:
        f = (float)v;
        memcpy(out, &f, sizeof f);
        return;
    case BP_F16:
        half = (uint16_t)value_bits(v, 10, 5);
        memcpy(out, &half, sizeof half);
        return;
    case BP_BF16:
        half = (uint16_t)value_bits(v, 7, 8);
        memcpy(out, &half, sizeof half);
        return;
    case BP_I32:
        i = (int32_t)value_integer(v, INT32_MIN, INT32_MAX);
        memcpy(out, &i, sizeof i);
        return;
    case BP_I16:
        s = (int16_t)value_integer(v, INT16_MIN, INT16_MAX);
        memcpy(out, &s, sizeof s);
        return;
    case BP_I8: *out = (unsigned char)(int8_t)value_integer(v, INT8_MIN, INT8_MAX); return;
    case BP_U8: *out = (unsigned char)value_integer(v, 0, UINT8_MAX); return;
    default: *out = v != 0; /* bool */
    }
}
