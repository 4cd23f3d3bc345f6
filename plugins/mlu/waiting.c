/* SPDX-License-Identifier: Apache-2.0 */
/* waiting.c: builds the plans of rows whose functions take numbers that no public source confirms
 * (numbers.h): arithmetic, softmax, reductions and conversions. The rows are refused until the
 * numbers are filled in. */
#include "rows.h"
#include <math.h>
#include <string.h>

/* alpha1 a OP alpha2 b + beta y, with factors of the type in which CNNL computes. */
static int waiting_call_op_tensor(const struct mlu_run *r, const struct mlu_step *s)
{
    const float one = 1, zero = 0;
    const int32_t int_one = 1, int_zero = 0;
    bool is_int = s->t[0].dtype == BP_I32;
    const void *alpha = is_int ? (const void *)&int_one : &one;
    const void *beta = is_int ? (const void *)&int_zero : &zero;

    return mlu_cnnl.call.cnnlOpTensor(
        r->handle, s->desc, alpha, mlu_desc(s, 0), mlu_address(r, s, 0), alpha, mlu_desc(s, 1),
        mlu_address(r, s, 1), mlu_work(r, s), s->work, beta, mlu_desc(s, 2), mlu_address(r, s, 2));
}

void mlu_step_op_tensor(struct mlu_build *b, enum mlu_number number, struct mlu_tensor x,
                        struct mlu_tensor y, struct mlu_tensor z)
{
    const struct cnnl_calls *cnnl = &mlu_cnnl.call;
    struct mlu_step *s = mlu_step(b, FN_cnnlOpTensor, waiting_call_op_tensor, MLU_TENSORS(x, y, z));
    size_t size = 0;
    int code;

    if (!s || !mlu_build_check(b, FN_cnnlCreateOpTensorDescriptor,
                               cnnl->cnnlCreateOpTensorDescriptor(&s->desc)))
        return;
    s->desc_destroy = FN_cnnlDestroyOpTensorDescriptor;
    code = cnnl->cnnlSetOpTensorDescriptor(s->desc, mlu_number(number), mlu_dtype(s->t[0].dtype),
                                           MLU_CNNL_PROPAGATE_NAN);
    if (!mlu_build_check(b, FN_cnnlSetOpTensorDescriptor, code)) return;
    code = cnnl->cnnlGetOpTensorWorkspaceSize(b->handle, mlu_desc(s, 0), mlu_desc(s, 1),
                                              mlu_desc(s, 2), &size);
    mlu_step_reserve(b, s, FN_cnnlGetOpTensorWorkspaceSize, code, size);
}

void mlu_build_op_tensor(struct mlu_build *b)
{
    uint32_t rank = b->prep->out[0]->rank;

    mlu_step_op_tensor(b, b->row->number, mlu_ranked(mlu_in(b, 0), rank),
                       mlu_ranked(mlu_in(b, 1), rank), mlu_out(b, 0));
}

/* The tensors: x and y; or y, dy and dx. */
static int waiting_call_softmax(const struct mlu_run *r, const struct mlu_step *s)
{
    const struct cnnl_calls *cnnl = &mlu_cnnl.call;

    if (s->n == 2)
        return cnnl->cnnlSoftmaxForward(r->handle, (int)s->i[0], (int)s->i[1], NULL, mlu_desc(s, 0),
                                        mlu_address(r, s, 0), NULL, mlu_desc(s, 1),
                                        mlu_address(r, s, 1));
    return cnnl->cnnlSoftmaxBackward(r->handle, (int)s->i[0], (int)s->i[1], NULL, mlu_desc(s, 0),
                                     mlu_address(r, s, 0), mlu_desc(s, 1), mlu_address(r, s, 1),
                                     NULL, mlu_desc(s, 2), mlu_address(r, s, 2));
}

/* Three axes, of which the middle one is the axis; the attributes of log_softmax and of the
 * gradients are equal. */
void mlu_build_softmax(struct mlu_build *b)
{
    const struct bp_softmax_attrs *attrs = b->prep->attrs;
    const struct bp_view *x = b->prep->in[0];
    int64_t axis = mlu_axis(attrs->axis, x->rank), shape[3] = {1, 1, 1};
    uint32_t n = b->prep->n_in;
    struct mlu_tensor t[3];
    struct mlu_step *s;

    for (int64_t i = 0; i < x->rank; i++) shape[i < axis ? 0 : i > axis ? 2 : 1] *= x->shape[i];
    for (uint32_t i = 0; i < n; i++) t[i] = mlu_shaped(mlu_in(b, i), 3, shape);
    t[n] = mlu_shaped(mlu_out(b, 0), 3, shape);
    s = mlu_step(b, b->row->fn, waiting_call_softmax, n + 1, t);
    if (!s) return;
    s->i[0] = mlu_number(b->row->number);
    s->i[1] = mlu_number(NUM_CNNL_SOFTMAX_MODE_MEDIUM_DIMENSION);
}

static int waiting_call_reduce(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlReduce(r->handle, s->desc, mlu_work(r, s), s->work, NULL,
                                    mlu_desc(s, 0), mlu_address(r, s, 0), 0, NULL, NULL,
                                    mlu_desc(s, 1), mlu_address(r, s, 1));
}

/* Marks the axes that are reduced, and gives the result those axes with extent 1. */
static struct mlu_tensor waiting_reduced(struct mlu_build *b, int *axes, int *n)
{
    const struct bp_sum_attrs *attrs = b->prep->attrs; /* those of all reductions are equal */
    struct mlu_tensor x = mlu_in(b, 0);
    int64_t shape[8];

    memcpy(shape, x.shape, sizeof shape);
    *n = 0;
    for (uint32_t i = 0; i < x.rank; i++) {
        bool goes = !attrs->axes.n;
        for (int64_t k = 0; k < attrs->axes.n; k++)
            goes |= mlu_axis(attrs->axes.at[k], x.rank) == i;
        if (!goes) continue;
        axes[(*n)++] = (int)i;
        shape[i] = 1;
    }
    return mlu_shaped(mlu_out(b, 0), x.rank, shape);
}

/* The result of a reduction of no elements. CNNL's are not known. */
static double waiting_empty(enum mlu_number number)
{
    return number == NUM_CNNL_REDUCE_MUL ? 1 : number == NUM_CNNL_REDUCE_AVG ? NAN : 0;
}

void mlu_build_reduce(struct mlu_build *b)
{
    const struct cnnl_calls *cnnl = &mlu_cnnl.call;
    int axes[8], n, code;
    struct mlu_tensor y = waiting_reduced(b, axes, &n);
    struct mlu_step *s;
    size_t size = 0;

    if (!b->prep->in[0]->count) {
        mlu_step_fill(b, waiting_empty(b->row->number), mlu_flat(y));
        return;
    }
    if (!n) { /* a scalar, or no axis that goes */
        mlu_step_unary(b, FN_cnnlCopy, mlu_flat(mlu_in(b, 0)), mlu_flat(y));
        return;
    }
    s = mlu_step(b, FN_cnnlReduce, waiting_call_reduce, MLU_TENSORS(mlu_in(b, 0), y));
    if (!s || !mlu_build_check(b, FN_cnnlCreateReduceDescriptor,
                               cnnl->cnnlCreateReduceDescriptor(&s->desc)))
        return;
    s->desc_destroy = FN_cnnlDestroyReduceDescriptor;
    code = cnnl->cnnlSetReduceDescriptor_v2(s->desc, axes, n, mlu_number(b->row->number),
                                            mlu_dtype(s->t[0].dtype), MLU_CNNL_PROPAGATE_NAN,
                                            mlu_number(NUM_CNNL_REDUCE_NO_INDICES),
                                            mlu_number(NUM_CNNL_32BIT_INDICES), 0);
    if (!mlu_build_check(b, FN_cnnlSetReduceDescriptor_v2, code)) return;
    code = cnnl->cnnlGetReduceOpWorkspaceSize(b->handle, mlu_desc(s, 0), mlu_desc(s, 1), s->desc,
                                              &size);
    mlu_step_reserve(b, s, FN_cnnlGetReduceOpWorkspaceSize, code, size);
}

static int waiting_call_cast(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlCastDataType(r->handle, mlu_desc(s, 0), mlu_address(r, s, 0),
                                          (int)s->i[0], mlu_desc(s, 1), mlu_address(r, s, 1));
}

/* The number of the conversion from this dtype to f32, or from f32 to it. */
static enum mlu_number waiting_cast(uint32_t dtype, bool to_float)
{
    static const struct {
        uint32_t dtype;
        enum mlu_number from, to;
    } casts[] = {
        {BP_F16, NUM_CNNL_CAST_HALF_TO_FLOAT, NUM_CNNL_CAST_FLOAT_TO_HALF},
        {BP_BF16, NUM_CNNL_CAST_BFLOAT16_TO_FLOAT, NUM_CNNL_CAST_FLOAT_TO_BFLOAT16},
        {BP_I32, NUM_CNNL_CAST_INT32_TO_FLOAT, NUM_CNNL_CAST_FLOAT_TO_INT32},
        {BP_I16, NUM_CNNL_CAST_INT16_TO_FLOAT, NUM_CNNL_CAST_FLOAT_TO_INT16},
        {BP_I8, NUM_CNNL_CAST_INT8_TO_FLOAT, NUM_CNNL_CAST_FLOAT_TO_INT8},
        {BP_U8, NUM_CNNL_CAST_UINT8_TO_FLOAT, NUM_CNNL_CAST_FLOAT_TO_UINT8},
        {BP_BOOL, NUM_CNNL_CAST_BOOL_TO_FLOAT, NUM_CNNL_CAST_FLOAT_TO_BOOL},
    };

    for (size_t i = 0; i < sizeof casts / sizeof *casts; i++)
        if (casts[i].dtype == dtype) return to_float ? casts[i].from : casts[i].to;
    return NUM_NONE;
}

void mlu_step_cast(struct mlu_build *b, struct mlu_tensor x, struct mlu_tensor y)
{
    struct mlu_step *s = mlu_step(b, FN_cnnlCastDataType, waiting_call_cast, MLU_TENSORS(x, y));
    bool widens = y.dtype == BP_F32;

    if (s) s->i[0] = mlu_number(waiting_cast(widens ? x.dtype : y.dtype, widens));
}

/* CNNL has conversions from and to f32 for all dtypes; others go through f32. The rows have those
 * pairs only of which f32 holds each value exactly, so that nothing is rounded twice. */
void mlu_build_cast(struct mlu_build *b)
{
    struct mlu_tensor x = mlu_flat(mlu_in(b, 0)), y = mlu_flat(mlu_out(b, 0)), wide = x;

    if (x.dtype == y.dtype) {
        mlu_step_unary(b, FN_cnnlCopy, x, y);
        return;
    }
    if (x.dtype != BP_F32) {
        wide = y.dtype == BP_F32 ? y : mlu_temporary(b, BP_F32, 1, x.shape);
        mlu_step_cast(b, x, wide);
    }
    if (y.dtype != BP_F32) mlu_step_cast(b, wide, y);
}
