/* SPDX-License-Identifier: Apache-2.0 */
/* index.c: builds the plans of rows that take or return indices, and of running sums. */
#include "rows.h"
#include <limits.h>
#include <string.h>

/* x as the axes in front of an axis, the axis, and those behind it. */
static void index_split(struct mlu_build *b, const struct bp_view *x, int64_t axis, int64_t out[3])
{
    axis = mlu_axis(axis, x->rank);
    out[0] = out[2] = 1;
    out[1] = x->rank ? x->shape[axis] : 1;
    for (int64_t i = 0; i < x->rank; i++) {
        if (i < axis) out[0] *= x->shape[i];
        if (i > axis) out[2] *= x->shape[i];
    }
    if (out[1] > INT_MAX) mlu_refuse(b);
}

static int index_call_select(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlIndexSelect(r->handle, 1, mlu_desc(s, 0), mlu_address(r, s, 0),
                                         mlu_desc(s, 1), mlu_address(r, s, 1), mlu_desc(s, 2),
                                         mlu_address(r, s, 2));
}

void mlu_step_select(struct mlu_build *b, struct mlu_tensor x, struct mlu_tensor index,
                     struct mlu_tensor y)
{
    mlu_step(b, FN_cnnlIndexSelect, index_call_select, MLU_TENSORS(x, index, y));
}

void mlu_build_gather(struct mlu_build *b)
{
    const struct bp_gather_attrs *attrs = b->prep->attrs; /* those of index_select are equal */
    struct mlu_tensor index;
    int64_t shape[3], result[3];

    index_split(b, b->prep->in[0], attrs->axis, shape);
    index = mlu_guard(b, mlu_in(b, 1), shape[1], true);
    memcpy(result, (int64_t[]){shape[0], mlu_count(&index), shape[2]}, sizeof result);
    mlu_step_select(b, mlu_shaped(mlu_in(b, 0), 3, shape), index,
                    mlu_shaped(mlu_out(b, 0), 3, result));
}

static int index_call_embedding(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlEmbeddingForward_v2(r->handle, mlu_desc(s, 0), mlu_address(r, s, 0),
                                                 mlu_desc(s, 1), mlu_address(r, s, 1), -1, NULL,
                                                 NULL, mlu_desc(s, 2), mlu_address(r, s, 2));
}

/* The row of padding_idx of a matrix, if there is one. */
static bool index_padding(struct mlu_tensor matrix, int64_t padding, struct mlu_tensor *out)
{
    const int64_t n = matrix.shape[1];

    if (padding < 0 || padding >= matrix.shape[0]) return false;
    matrix.offset += (uint64_t)(padding * n) * mlu_bytes(matrix.dtype);
    *out = mlu_shaped(matrix, 1, &n);
    return true;
}

/* The effect of a padding index in CNNL is not known: CNNL gets a copy of the weight in which that
 * row is zero. */
void mlu_build_embedding(struct mlu_build *b)
{
    const struct bp_embedding_attrs *attrs = b->prep->attrs;
    struct mlu_tensor index, weight, padding;
    int64_t shape[3];

    index_split(b, b->prep->in[0], 0, shape);
    weight = mlu_shaped(mlu_in(b, 0), 2, shape + 1);
    if (index_padding(weight, attrs->padding_idx, &padding)) {
        struct mlu_tensor copy = mlu_temporary(b, weight.dtype, 2, weight.shape);
        mlu_step_unary(b, FN_cnnlCopy, mlu_flat(weight), mlu_flat(copy));
        weight = copy;
        index_padding(weight, attrs->padding_idx, &padding);
        mlu_step_fill(b, 0, padding);
    }
    index = mlu_guard(b, mlu_in(b, 1), shape[1], false);
    mlu_step(b, FN_cnnlEmbeddingForward_v2, index_call_embedding,
             MLU_TENSORS(weight, index,
                         mlu_shaped(mlu_out(b, 0), 2, (int64_t[]){mlu_count(&index), shape[2]})));
}

static int index_call_embedding_grad(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlEmbeddingBackward(
        r->handle, -1, false, mlu_desc(s, 0), mlu_address(r, s, 0), mlu_desc(s, 1),
        mlu_address(r, s, 1), mlu_work(r, s), s->work, mlu_desc(s, 2), mlu_address(r, s, 2));
}

void mlu_build_embedding_grad(struct mlu_build *b)
{
    const struct bp_embedding_grad_attrs *attrs = b->prep->attrs;
    struct mlu_tensor index, padding, dweight = mlu_out(b, 0);
    struct mlu_step *s;
    int64_t shape[3];
    size_t size = 0;
    int code;

    index_split(b, b->prep->out[0], 0, shape);
    dweight = mlu_shaped(dweight, 2, shape + 1);
    if (!b->prep->in[1]->count) {
        mlu_step_fill(b, 0, mlu_flat(dweight));
        return;
    }
    index = mlu_guard(b, mlu_in(b, 1), shape[1], false);
    s = mlu_step(b, FN_cnnlEmbeddingBackward, index_call_embedding_grad,
                 MLU_TENSORS(index,
                             mlu_shaped(mlu_in(b, 0), 2, (int64_t[]){mlu_count(&index), shape[2]}),
                             dweight));
    if (!s) return;
    code = mlu_cnnl.call.cnnlGetEmbeddingBackwardWorkspaceSize(b->handle, mlu_desc(s, 1),
                                                               mlu_desc(s, 2), false, &size);
    mlu_step_reserve(b, s, FN_cnnlGetEmbeddingBackwardWorkspaceSize, code, size);
    if (index_padding(dweight, attrs->padding_idx, &padding)) mlu_step_fill(b, 0, padding);
}

static int index_call_add(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlIndexAdd(r->handle, 1, mlu_desc(s, 0), mlu_address(r, s, 0),
                                      mlu_desc(s, 1), mlu_address(r, s, 1), mlu_desc(s, 2),
                                      mlu_address(r, s, 2), mlu_desc(s, 3), mlu_address(r, s, 3));
}

void mlu_step_index_add(struct mlu_build *b, struct mlu_tensor x, struct mlu_tensor index,
                        struct mlu_tensor source, struct mlu_tensor y)
{
    mlu_step(b, FN_cnnlIndexAdd, index_call_add, MLU_TENSORS(x, index, source, y));
}

void mlu_build_index_add(struct mlu_build *b)
{
    const struct bp_index_add_attrs *attrs = b->prep->attrs;
    struct mlu_tensor x = mlu_in(b, 0), y = mlu_out(b, 0), index;
    int64_t shape[3], source[3];

    index_split(b, b->prep->in[0], attrs->axis, shape);
    if (!b->prep->in[2]->count) {
        mlu_step_unary(b, FN_cnnlCopy, mlu_flat(x), mlu_flat(y));
        return;
    }
    index = mlu_guard(b, mlu_in(b, 1), shape[1], true);
    memcpy(source, (int64_t[]){shape[0], mlu_count(&index), shape[2]}, sizeof source);
    mlu_step_index_add(b, mlu_shaped(x, 3, shape), index, mlu_shaped(mlu_in(b, 2), 3, source),
                       mlu_shaped(y, 3, shape));
}

/* Slices of dy are added to zeros. */
void mlu_build_gather_grad(struct mlu_build *b)
{
    const struct bp_gather_grad_attrs *attrs = b->prep->attrs;
    struct mlu_tensor dx = mlu_out(b, 0), zeros, index;
    int64_t shape[3], source[3];

    index_split(b, b->prep->out[0], attrs->axis, shape);
    if (!b->prep->in[0]->count) {
        mlu_step_fill(b, 0, mlu_flat(dx));
        return;
    }
    index = mlu_guard(b, mlu_in(b, 1), shape[1], true);
    memcpy(source, (int64_t[]){shape[0], mlu_count(&index), shape[2]}, sizeof source);
    zeros = mlu_temporary(b, dx.dtype, 3, shape);
    mlu_step_fill(b, 0, mlu_flat(zeros));
    mlu_step_index_add(b, zeros, index, mlu_shaped(mlu_in(b, 0), 3, source),
                       mlu_shaped(dx, 3, shape));
}

static int index_call_topk(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlTopKTensor_v3(
        r->handle, mlu_desc(s, 0), mlu_address(r, s, 0), (int)s->i[0], 1, s->i[1] != 0, true, true,
        mlu_work(r, s), s->work, mlu_desc(s, 1), mlu_address(r, s, 1), mlu_desc(s, 2),
        mlu_address(r, s, 2));
}

/* The k largest or smallest along an axis, in order. Outputs that are ABSENT are temporaries. */
static void index_topk(struct mlu_build *b, int64_t axis, int64_t k, bool largest,
                       struct mlu_tensor y, struct mlu_tensor index)
{
    const struct bp_view *x = b->prep->in[0];
    int64_t shape[3], result[3];
    struct mlu_step *s;
    size_t size = 0;
    int code;

    index_split(b, x, axis, shape);
    memcpy(result, (int64_t[]){shape[0], k, shape[2]}, sizeof result);
    y = y.from == MLU_ABSENT ? mlu_temporary(b, x->dtype, 3, result) : mlu_shaped(y, 3, result);
    index = index.from == MLU_ABSENT ? mlu_temporary(b, BP_I32, 3, result)
                                     : mlu_shaped(index, 3, result);
    s = mlu_step(b, FN_cnnlTopKTensor_v3, index_call_topk,
                 MLU_TENSORS(mlu_shaped(mlu_in(b, 0), 3, shape), y, index));
    if (!s) return;
    s->i[0] = k;
    s->i[1] = largest;
    code = mlu_cnnl.call.cnnlGetTopKTensorWorkspaceSize(
        b->handle, mlu_desc(s, 0), (int)k, 1, largest, mlu_desc(s, 1), mlu_desc(s, 2), &size);
    mlu_step_reserve(b, s, FN_cnnlGetTopKTensorWorkspaceSize, code, size);
}

void mlu_build_topk(struct mlu_build *b)
{
    const struct bp_topk_attrs *attrs = b->prep->attrs;

    index_topk(b, attrs->axis, attrs->k, !attrs->smallest, mlu_out(b, 0), mlu_out(b, 1));
}

static int64_t index_extent(const struct mlu_build *b, int64_t axis)
{
    const struct bp_view *x = b->prep->in[0];

    return x->rank ? x->shape[mlu_axis(axis, x->rank)] : 1;
}

void mlu_build_sort(struct mlu_build *b)
{
    const struct bp_sort_attrs *attrs = b->prep->attrs;

    index_topk(b, attrs->axis, index_extent(b, attrs->axis), attrs->descending != 0, mlu_out(b, 0),
               mlu_out(b, 1));
}

void mlu_build_argsort(struct mlu_build *b)
{
    const struct bp_argsort_attrs *attrs = b->prep->attrs;

    index_topk(b, attrs->axis, index_extent(b, attrs->axis), attrs->descending != 0,
               (struct mlu_tensor){.from = MLU_ABSENT}, mlu_out(b, 0));
}

/* The first place of the largest, where NaN is larger than all. CNNL's smallest of floats is the
 * largest of -x, so that NaN comes first too; no integer is NaN. */
static void index_place(struct mlu_build *b, bool largest)
{
    const struct bp_argmax_attrs *attrs = b->prep->attrs; /* those of argmin are equal */
    const struct bp_view *x = b->prep->in[0];
    struct mlu_tensor from = mlu_in(b, 0), index = mlu_out(b, 0), y;
    int64_t shape[3] = {1, mlu_count(&from), 1}, result[3];
    struct mlu_step *s;
    size_t size = 0;
    int code;

    if (!attrs->flatten) index_split(b, x, attrs->axis, shape);
    memcpy(result, (int64_t[]){shape[0], 1, shape[2]}, sizeof result);
    if (!largest && x->dtype != BP_I32) {
        struct mlu_tensor negative = mlu_temporary(b, x->dtype, from.rank, from.shape);
        mlu_step_unary(b, FN_cnnlNegTensor, mlu_flat(from), mlu_flat(negative));
        from = negative;
        largest = true;
    }
    y = mlu_temporary(b, x->dtype, 3, result);
    s = mlu_step(b, FN_cnnlTopKTensor_v3, index_call_topk,
                 MLU_TENSORS(mlu_shaped(from, 3, shape), y, mlu_shaped(index, 3, result)));
    if (!s) return;
    s->i[0] = 1;
    s->i[1] = largest;
    code = mlu_cnnl.call.cnnlGetTopKTensorWorkspaceSize(b->handle, mlu_desc(s, 0), 1, 1, largest,
                                                        mlu_desc(s, 1), mlu_desc(s, 2), &size);
    mlu_step_reserve(b, s, FN_cnnlGetTopKTensorWorkspaceSize, code, size);
}

void mlu_build_argmax(struct mlu_build *b)
{
    index_place(b, true);
}

void mlu_build_argmin(struct mlu_build *b)
{
    index_place(b, false);
}

static int index_call_cumsum(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlCumsum_v2(
        r->handle, mlu_desc(s, 0), mlu_address(r, s, 0), 1, s->i[0] != 0, s->i[1] != 0,
        MLU_CNNL_NOT_PROPAGATE_NAN, mlu_desc(s, 1), mlu_address(r, s, 1), mlu_work(r, s), s->work);
}

static int index_call_cumprod(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlCumprod_v2(r->handle, mlu_desc(s, 0), mlu_address(r, s, 0), 1,
                                        s->i[0] != 0, s->i[1] != 0, mlu_desc(s, 1),
                                        mlu_address(r, s, 1), mlu_work(r, s), s->work);
}

/* Adds a running sum or product; the attributes of both operators are equal. */
static void index_run(struct mlu_build *b,
                      int (*call)(const struct mlu_run *, const struct mlu_step *))
{
    const struct bp_cumsum_attrs *attrs = b->prep->attrs;
    int (*size_of)(void *h, const void *dx, int axis, size_t *out);
    struct mlu_step *s;
    int64_t shape[3];
    size_t size = 0;
    int code;

    index_split(b, b->prep->in[0], attrs->axis, shape);
    s = mlu_step(
        b, b->row->fn, call,
        MLU_TENSORS(mlu_shaped(mlu_in(b, 0), 3, shape), mlu_shaped(mlu_out(b, 0), 3, shape)));
    if (!s) return;
    s->i[0] = attrs->exclusive;
    s->i[1] = attrs->reverse;
    memcpy(&size_of, &mlu_cnnl.function[b->row->size_fn], sizeof size_of);
    code = size_of(b->handle, mlu_desc(s, 0), 1, &size);
    mlu_step_reserve(b, s, b->row->size_fn, code, size);
}

void mlu_build_cumsum(struct mlu_build *b)
{
    index_run(b, index_call_cumsum);
}

void mlu_build_cumprod(struct mlu_build *b)
{
    index_run(b, index_call_cumprod);
}
