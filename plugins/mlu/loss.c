/* SPDX-License-Identifier: Apache-2.0 */
/* loss.c: builds the plans of losses, each by CNNL's function for it. */
#include "rows.h"
#include <math.h>
#include <string.h>

/* The number of a reduction: `none` is followed by those of the mean and of the sum. */
static int loss_reduction(int64_t reduction, enum mlu_number none)
{
    return mlu_number((enum mlu_number)(none + reduction));
}

/* Fills the result of no elements: NaN as a mean, 0 as a sum. CNNL's are not known. */
static bool loss_is_empty(struct mlu_build *b, int64_t reduction)
{
    if (b->prep->in[0]->count) return false;
    mlu_step_fill(b, reduction == BP_REDUCTION_MODE_MEAN ? NAN : 0, mlu_flat(mlu_out(b, 0)));
    return true;
}

static int loss_call_mse(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlMSELoss_v2(r->handle, mlu_number(NUM_CNNL_MSE_LOSS_MEAN),
                                        mlu_desc(s, 0), mlu_address(r, s, 0), mlu_desc(s, 1),
                                        mlu_address(r, s, 1), mlu_work(r, s), s->work,
                                        mlu_desc(s, 2), mlu_address(r, s, 2));
}

void mlu_build_mse_loss(struct mlu_build *b)
{
    struct mlu_step *s = mlu_step(
        b, b->row->fn, loss_call_mse,
        MLU_TENSORS(mlu_flat(mlu_in(b, 0)), mlu_flat(mlu_in(b, 1)), mlu_flat(mlu_out(b, 0))));
    size_t size = 0;
    int code;

    if (!s) return;
    code = mlu_cnnl.call.cnnlGetMSELossWorkspaceSize(b->handle, mlu_desc(s, 0), &size);
    mlu_step_reserve(b, s, b->row->size_fn, code, size);
}

static int loss_call_smooth(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlSmoothL1LossForward_v2(r->handle, mlu_desc(s, 0), mlu_address(r, s, 0),
                                                    mlu_desc(s, 1), mlu_address(r, s, 1),
                                                    (float)s->f[0], (int)s->i[0], mlu_work(r, s),
                                                    s->work, mlu_desc(s, 2), mlu_address(r, s, 2));
}

void mlu_build_smooth_l1_loss(struct mlu_build *b)
{
    const struct bp_smooth_l1_loss_attrs *attrs = b->prep->attrs;
    struct mlu_step *s;
    size_t size = 0;
    int code;

    if (loss_is_empty(b, attrs->reduction)) return;
    s = mlu_step(
        b, b->row->fn, loss_call_smooth,
        MLU_TENSORS(mlu_flat(mlu_in(b, 0)), mlu_flat(mlu_in(b, 1)), mlu_flat(mlu_out(b, 0))));
    if (!s) return;
    s->f[0] = attrs->beta;
    s->i[0] = loss_reduction(attrs->reduction, NUM_CNNL_SMOOTHL1LOSS_REDUCTION_NONE);
    code = mlu_cnnl.call.cnnlGetSmoothL1LossForwardWorkspaceSize(b->handle, mlu_desc(s, 0),
                                                                 (int)s->i[0], &size);
    mlu_step_reserve(b, s, b->row->size_fn, code, size);
}

static int loss_call_bce(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlBceWithLogits_v2(
        r->handle, MLU_CNNL_COMPUTATION_HIGH_PRECISION, mlu_desc(s, 0), mlu_address(r, s, 0),
        mlu_desc(s, 1), mlu_address(r, s, 1), mlu_desc(s, 2), mlu_address(r, s, 2), mlu_desc(s, 3),
        mlu_address(r, s, 3), (int)s->i[0], mlu_work(r, s), s->work, mlu_desc(s, 4),
        mlu_address(r, s, 4));
}

/* An optional input, which broadcasts, in the shape of x; flat. */
static struct mlu_tensor loss_factor(struct mlu_build *b, uint32_t i)
{
    struct mlu_tensor x = mlu_in(b, 0), factor = mlu_in(b, i), whole;

    if (factor.from == MLU_ABSENT || mlu_count(&factor) == mlu_count(&x)) return mlu_flat(factor);
    whole = mlu_temporary(b, x.dtype, x.rank, x.shape);
    mlu_step_unary(b, FN_cnnlExpand, mlu_ranked(factor, x.rank), whole);
    return mlu_flat(whole);
}

void mlu_build_bce_with_logits(struct mlu_build *b)
{
    const struct bp_bce_with_logits_attrs *attrs = b->prep->attrs;
    struct mlu_step *s;
    size_t size = 0;
    int code;

    if (loss_is_empty(b, attrs->reduction)) return;
    s = mlu_step(b, b->row->fn, loss_call_bce,
                 MLU_TENSORS(mlu_flat(mlu_in(b, 0)), mlu_flat(mlu_in(b, 1)), loss_factor(b, 2),
                             loss_factor(b, 3), mlu_flat(mlu_out(b, 0))));
    if (!s) return;
    s->i[0] = loss_reduction(attrs->reduction, NUM_CNNL_BCE_WITH_LOGITS_NONE);
    code = mlu_cnnl.call.cnnlGetBceWithLogitsWorkspaceSize(b->handle, mlu_desc(s, 0),
                                                           mlu_desc(s, 2), mlu_desc(s, 3), &size);
    mlu_step_reserve(b, s, b->row->size_fn, code, size);
}

/* Checks labels: those that are ignored pass as label 0. */
static void loss_guard(struct mlu_build *b, struct mlu_tensor label, int64_t ignored, int64_t n)
{
    const int64_t once = 1;
    struct mlu_tensor number = mlu_temporary(b, BP_I32, 1, &once);
    struct mlu_tensor zero = mlu_temporary(b, BP_I32, 1, &once);
    struct mlu_tensor is = mlu_temporary(b, BP_BOOL, 1, label.shape);
    struct mlu_tensor counts = mlu_temporary(b, BP_I32, 1, label.shape);

    mlu_step_fill(b, (double)ignored, number);
    mlu_step_fill(b, 0, zero);
    mlu_step_equal(b, label, number, is);
    mlu_step_where(b, is, zero, label, counts);
    mlu_guard(b, counts, n, false);
}

/* The tensors: x, label, weight, the sum of weights, loss. */
static int loss_call_nll(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlNlllossForward_v2(
        r->handle, (int)s->i[0], mlu_desc(s, 0), mlu_address(r, s, 0), mlu_desc(s, 1),
        mlu_address(r, s, 1), (int)s->i[1], mlu_desc(s, 2), mlu_address(r, s, 2), mlu_work(r, s),
        s->work, mlu_desc(s, 3), mlu_address(r, s, 3), mlu_desc(s, 4), mlu_address(r, s, 4));
}

/* CNNL takes the classes as the last one of two axes. */
static struct mlu_tensor loss_lines(struct mlu_build *b, int64_t axis, int64_t *classes)
{
    static const int last[] = {0, 2, 1};
    struct mlu_tensor x = mlu_in(b, 0), y;
    int64_t shape[3] = {1, 1, 1}, turned[3], lines[2];

    for (int64_t a = 0; a < x.rank; a++) shape[a < axis ? 0 : a > axis ? 2 : 1] *= x.shape[a];
    *classes = lines[1] = shape[1];
    lines[0] = shape[0] * shape[2];
    if (shape[2] == 1) return mlu_shaped(x, 2, lines);
    memcpy(turned, (int64_t[]){shape[0], shape[2], shape[1]}, sizeof turned);
    y = mlu_temporary(b, x.dtype, 3, turned);
    mlu_step_transpose(b, mlu_shaped(x, 3, shape), y, last);
    return mlu_shaped(y, 2, lines);
}

void mlu_build_nll_loss(struct mlu_build *b)
{
    const struct bp_nll_loss_attrs *attrs = b->prep->attrs;
    struct mlu_tensor x, weight, total = {.from = MLU_ABSENT};
    struct mlu_tensor label = mlu_flat(mlu_in(b, 1));
    const int64_t once = 1;
    struct mlu_step *s;
    int64_t classes;
    size_t size = 0;
    int code;

    if (!b->prep->in[1]->count || !b->prep->in[0]->count) {
        if (b->prep->in[1]->count) mlu_refuse(b); /* labels of no classes */
        loss_is_empty(b, attrs->reduction);
        return;
    }
    if (attrs->ignore_index != (int32_t)attrs->ignore_index) mlu_refuse(b);
    x = loss_lines(b, mlu_axis(attrs->axis, b->prep->in[0]->rank), &classes);
    loss_guard(b, label, attrs->ignore_index, classes);
    weight = mlu_in(b, 2);
    if (weight.from == MLU_ABSENT) {
        weight = mlu_temporary(b, x.dtype, 1, &classes);
        mlu_step_fill(b, 1, weight);
    }
    if (attrs->reduction) total = mlu_temporary(b, x.dtype, 1, &once);
    s = mlu_step(b, b->row->fn, loss_call_nll,
                 MLU_TENSORS(x, label, weight, total, mlu_flat(mlu_out(b, 0))));
    if (!s) return;
    s->i[0] = loss_reduction(attrs->reduction, NUM_CNNL_REDUCTION_NONE);
    s->i[1] = attrs->ignore_index;
    code = mlu_cnnl.call.cnnlGetNlllossWorkspaceSize(b->handle, mlu_desc(s, 0), &size);
    mlu_step_reserve(b, s, b->row->size_fn, code, size);
}
