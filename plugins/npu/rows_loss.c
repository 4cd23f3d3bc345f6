/* SPDX-License-Identifier: Apache-2.0 */
/* rows_loss.c: builds the rows of losses. The vendor's functions number reductions as Backplane
 * does: none, mean, sum. */
#include "compose.h"

#include <math.h>

enum {
    LOSS_NONE,
    LOSS_MEAN,
    LOSS_SUM,
    LOSS_BATCH_MEAN
};

/* A loss of nothing: no elements, NaN for a mean, or 0 for a sum. */
static bool loss_is_of_nothing(struct kit_build *b, int64_t reduction)
{
    const struct bp_view *x = npu_type(b, NPU_IN(0));
    bool mean = reduction == LOSS_MEAN;

    if (b->status || npu_is_empty(b, NPU_OUT(0))) return true;
    if (x->count) return false;
    mean |= reduction == LOSS_BATCH_MEAN && x->rank && !x->shape[0];
    npu_fill(b, NPU_OUT(0), mean ? NAN : 0);
    return true;
}

/* Reduces the losses of all elements. */
static enum bp_status loss_end(struct kit_build *b, struct kit_arg t, int64_t reduction)
{
    const struct bp_view *type = npu_type(b, t);
    uint32_t all = (1u << type->rank) - 1;

    if (reduction == LOSS_MEAN) t = npu_mean(b, t, all);
    else if (reduction) t = npu_sum(b, t, all);
    if (reduction == LOSS_BATCH_MEAN && type->rank) t = npu_times(b, t, 1 / (double)type->shape[0]);
    npu_finish(b, t, NPU_OUT(0));
    return b->status;
}

enum bp_status npu_build_mse_loss(struct kit_build *b)
{
    if (loss_is_of_nothing(b, LOSS_MEAN)) return b->status;
    return KIT_STEP(b, "MseLoss", NPU_IN(0), NPU_IN(1), KIT_INT_IS(LOSS_MEAN), NPU_OUT(0));
}

enum bp_status npu_build_square_error_cost(struct kit_build *b)
{
    const struct bp_square_error_cost_attrs *a = b->attrs;

    if (loss_is_of_nothing(b, a->reduction)) return b->status;
    return KIT_STEP(b, "MseLoss", NPU_IN(0), NPU_IN(1), KIT_INT_IS(a->reduction), NPU_OUT(0));
}

enum bp_status npu_build_smooth_l1_loss(struct kit_build *b)
{
    const struct bp_smooth_l1_loss_attrs *a = b->attrs;

    if (loss_is_of_nothing(b, a->reduction)) return b->status;
    return KIT_STEP(b, "SmoothL1Loss", NPU_IN(0), NPU_IN(1), KIT_INT_IS(a->reduction),
                    KIT_FLOAT_IS(a->beta), NPU_OUT(0));
}

/* weight (pos_weight y softplus(-x) + (1 - y) softplus(x)), with softplus(x) = max(x, 0) +
 * log1p(exp(-|x|)): the vendor's own function loses small losses of sure predictions. */
enum bp_status npu_build_bce_with_logits(struct kit_build *b)
{
    const struct bp_bce_with_logits_attrs *a = b->attrs;
    struct kit_arg x, y, tail, is, is_not;

    if (loss_is_of_nothing(b, a->reduction)) return b->status;
    x = npu_wide(b, NPU_IN(0));
    y = npu_wide(b, NPU_IN(1));
    tail = part_one(b, "Exp", npu_times(b, part_one(b, "Abs", x), -1));
    tail = part_one(b, "Log1p", tail);
    is = part_add(b, part_one(b, "Relu", npu_times(b, x, -1)), tail);
    if (npu_is_given(b, NPU_IN(3))) is = npu_mul(b, is, npu_wide(b, NPU_IN(3)));
    is_not = part_add(b, part_one(b, "Relu", x), tail);
    is_not = npu_mul(b, npu_plus(b, npu_times(b, y, -1), 1), is_not);
    is = part_add(b, npu_mul(b, y, is), is_not);
    if (npu_is_given(b, NPU_IN(2))) is = npu_mul(b, is, npu_wide(b, NPU_IN(2)));
    return loss_end(b, is, a->reduction);
}

enum bp_status npu_build_l1_loss(struct kit_build *b)
{
    const struct bp_l1_loss_attrs *a = b->attrs;

    if (loss_is_of_nothing(b, a->reduction)) return b->status;
    return loss_end(b,
                    part_one(b, "Abs", part_sub(b, npu_wide(b, NPU_IN(0)), npu_wide(b, NPU_IN(1)))),
                    a->reduction);
}

/* min(d, delta) (d - min(d, delta) / 2) of d = |x - y|. */
enum bp_status npu_build_huber_loss(struct kit_build *b)
{
    const struct bp_huber_loss_attrs *a = b->attrs;
    struct kit_arg d, least, rest = NPU_NONE;

    if (loss_is_of_nothing(b, a->reduction)) return b->status;
    d = part_one(b, "Abs", part_sub(b, npu_wide(b, NPU_IN(0)), npu_wide(b, NPU_IN(1))));
    least = npu_clip(b, d, 0, a->delta);
    rest = npu_like(b, d, npu_type(b, d)->dtype);
    KIT_STEP(b, "Sub", d, least, KIT_NUMBER_IS(0.5), rest);
    return loss_end(b, npu_mul(b, least, rest), a->reduction);
}

/* A logarithm that is not below -100. */
static struct kit_arg loss_log(struct kit_build *b, struct kit_arg x)
{
    return npu_clip(b, part_one(b, "Log", x), -100, INFINITY);
}

/* -weight (y log x + (1 - y) log(1 - x)) = weight (y (log(1 - x) - log x) - log(1 - x)). */
enum bp_status npu_build_bce_loss(struct kit_build *b)
{
    const struct bp_bce_loss_attrs *a = b->attrs;
    struct kit_arg x, y, t, other;

    if (loss_is_of_nothing(b, a->reduction)) return b->status;
    x = npu_wide(b, NPU_IN(0));
    y = npu_wide(b, NPU_IN(1));
    other = loss_log(b, npu_plus(b, npu_times(b, x, -1), 1));
    t = npu_mul(b, y, loss_log(b, x));
    t = part_add(b, t, npu_mul(b, npu_plus(b, npu_times(b, y, -1), 1), other));
    t = npu_times(b, t, -1);
    if (npu_is_given(b, NPU_IN(2))) t = npu_mul(b, t, npu_wide(b, NPU_IN(2)));
    return loss_end(b, t, a->reduction);
}

/* y (log y - x), 0 where y is 0; or exp(y) (y - x). */
enum bp_status npu_build_kl_div(struct kit_build *b)
{
    const struct bp_kl_div_attrs *a = b->attrs;
    struct kit_arg x, y, t, zero, is_zero;

    if (loss_is_of_nothing(b, a->reduction)) return b->status;
    x = npu_wide(b, NPU_IN(0));
    y = npu_wide(b, NPU_IN(1));
    if (a->log_target)
        return loss_end(b, npu_mul(b, part_one(b, "Exp", y), part_sub(b, y, x)), a->reduction);
    t = npu_mul(b, y, part_sub(b, part_one(b, "Log", y), x));
    zero = npu_filled(b, npu_type(b, y)->dtype, 0, NULL, 0);
    is_zero = npu_like(b, y, BP_BOOL);
    KIT_STEP(b, "EqTensor", y, zero, is_zero);
    KIT_STEP(b, "InplaceMaskedFillScalar", kit_as(t, KIT_UPDATES), is_zero, KIT_SCALAR_IS(0));
    return loss_end(b, t, a->reduction);
}
