/* SPDX-License-Identifier: Apache-2.0 */
/* norm.c: builds the plans of norms. CNNL takes scale and bias both or neither, and always writes
 * the statistics: what a call of Backplane lacks is filled in, or written to the workspace. */
#include "rows.h"
#include <math.h>
#include <string.h>

/* An input, or a tensor of this shape with one value everywhere if the input is absent. */
static struct mlu_tensor norm_given(struct mlu_build *b, uint32_t i, uint32_t dtype, uint32_t rank,
                                    const int64_t *shape, double value)
{
    struct mlu_tensor t = mlu_in(b, i);

    if (t.from != MLU_ABSENT) return mlu_shaped(t, rank, shape);
    t = mlu_temporary(b, dtype, rank, shape);
    mlu_step_fill(b, value, t);
    return t;
}

/* An output, or a temporary if the caller does not want it. */
static struct mlu_tensor norm_wanted(struct mlu_build *b, uint32_t i, uint32_t dtype, uint32_t rank,
                                     const int64_t *shape)
{
    return mlu_has_out(b, i) ? mlu_shaped(mlu_out(b, i), rank, shape)
                             : mlu_temporary(b, dtype, rank, shape);
}

/* Statistics of no elements are NaN. They are filled in, because the results of CNNL are not
 * known. */
static bool norm_is_empty(struct mlu_build *b)
{
    if (b->prep->in[0]->count) return false;
    for (uint32_t i = 1; i < b->prep->n_out; i++)
        if (mlu_has_out(b, i) && b->prep->out[i]->count)
            mlu_step_fill(b, NAN, mlu_flat(mlu_out(b, i)));
    return true;
}

/* x as rows: the axes in front of `axis`, and those from it on. */
static void norm_rows(struct mlu_build *b, int64_t axis, int64_t out[2])
{
    const struct bp_view *x = b->prep->in[0];

    axis = mlu_axis(axis, x->rank);
    out[0] = out[1] = 1;
    for (int i = 0; i < x->rank; i++) out[i >= axis] *= x->shape[i];
}

static int norm_call_layer(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlLayerNormForward(
        r->handle, mlu_desc(s, 0), mlu_address(r, s, 0), 1, mlu_desc(s, 1), mlu_address(r, s, 1),
        mlu_address(r, s, 2), (float)s->f[0], mlu_work(r, s), s->work, mlu_desc(s, 3),
        mlu_address(r, s, 3), mlu_desc(s, 4), mlu_address(r, s, 4), mlu_address(r, s, 5));
}

static void norm_layer(struct mlu_build *b, double epsilon, const struct mlu_tensor t[6])
{
    struct mlu_step *s = mlu_step(b, FN_cnnlLayerNormForward, norm_call_layer, 6, t);
    size_t size = 0;
    int code;

    if (!s) return;
    s->f[0] = epsilon;
    code = mlu_cnnl.call.cnnlGetLayerNormOpWorkspaceSize(b->handle, 1, mlu_desc(s, 0), &size);
    mlu_step_reserve(b, s, FN_cnnlGetLayerNormOpWorkspaceSize, code, size);
}

void mlu_build_layer_norm(struct mlu_build *b)
{
    const struct bp_layer_norm_attrs *attrs = b->prep->attrs;
    uint32_t dtype = b->prep->in[0]->dtype;
    int64_t rows[2];

    if (norm_is_empty(b)) return;
    norm_rows(b, attrs->axis, rows);
    norm_layer(b, attrs->epsilon,
               (struct mlu_tensor[]){
                   mlu_shaped(mlu_in(b, 0), 2, rows), norm_given(b, 1, dtype, 1, rows + 1, 1),
                   norm_given(b, 2, dtype, 1, rows + 1, 0), mlu_shaped(mlu_out(b, 0), 2, rows),
                   norm_wanted(b, 1, BP_F32, 1, rows), norm_wanted(b, 2, BP_F32, 1, rows)});
}

static int norm_call_layer_grad(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlLayerNormBackward_v2(
        r->handle, mlu_desc(s, 0), mlu_address(r, s, 0), 1, mlu_desc(s, 1), mlu_address(r, s, 1),
        mlu_desc(s, 2), mlu_address(r, s, 2), mlu_desc(s, 3), mlu_address(r, s, 3),
        mlu_address(r, s, 4), mlu_work(r, s), s->work, mlu_desc(s, 5), mlu_address(r, s, 5),
        mlu_address(r, s, 6), mlu_address(r, s, 7));
}

/* The statistics of x, if the caller does not give them. */
static void norm_statistics(struct mlu_build *b, const int64_t rows[2], double epsilon,
                            struct mlu_tensor scale, struct mlu_tensor out[2])
{
    uint32_t dtype = b->prep->in[0]->dtype;
    struct mlu_tensor x = mlu_shaped(mlu_in(b, 0), 2, rows);

    for (int i = 0; i < 2; i++) {
        out[i] = mlu_in(b, 3 + (uint32_t)i);
        if (out[i].from != MLU_ABSENT) out[i] = mlu_shaped(out[i], 1, rows);
    }
    if (out[0].from != MLU_ABSENT && out[1].from != MLU_ABSENT) return;
    for (int i = 0; i < 2; i++) out[i] = mlu_temporary(b, BP_F32, 1, rows);
    norm_layer(
        b, epsilon,
        (struct mlu_tensor[]){x, scale, scale, mlu_temporary(b, dtype, 2, rows), out[0], out[1]});
}

void mlu_build_layer_norm_grad(struct mlu_build *b)
{
    const struct bp_layer_norm_grad_attrs *attrs = b->prep->attrs;
    uint32_t dtype = b->prep->in[0]->dtype;
    struct mlu_tensor scale, statistics[2];
    struct mlu_step *s;
    int64_t rows[2];
    size_t size = 0;
    int code;

    if (!b->prep->in[0]->count) {
        for (uint32_t i = 1; i < 3; i++) /* sums of no rows, or of empty ones */
            if (mlu_has_out(b, i) && b->prep->out[i]->count)
                mlu_step_fill(b, 0, mlu_flat(mlu_out(b, i)));
        return;
    }
    norm_rows(b, attrs->axis, rows);
    scale = norm_given(b, 1, dtype, 1, rows + 1, 1);
    norm_statistics(b, rows, attrs->epsilon, scale, statistics);
    s = mlu_step(b, FN_cnnlLayerNormBackward_v2, norm_call_layer_grad,
                 MLU_TENSORS(mlu_shaped(mlu_in(b, 0), 2, rows), mlu_shaped(mlu_in(b, 2), 2, rows),
                             scale, statistics[0], statistics[1], norm_wanted(b, 0, dtype, 2, rows),
                             norm_wanted(b, 1, dtype, 1, rows + 1),
                             norm_wanted(b, 2, dtype, 1, rows + 1)));
    if (!s) return;
    code = mlu_cnnl.call.cnnlGetLayerNormBackwardWorkspaceSize(b->handle, mlu_desc(s, 0), 1, &size);
    mlu_step_reserve(b, s, FN_cnnlGetLayerNormBackwardWorkspaceSize, code, size);
}

static int norm_call_rms(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlRmsNormForward(
        r->handle, 1, mlu_desc(s, 0), mlu_address(r, s, 0), mlu_desc(s, 1), mlu_address(r, s, 1),
        NULL, (float)s->f[0], mlu_work(r, s), s->work, mlu_desc(s, 2), mlu_address(r, s, 2),
        mlu_desc(s, 3), mlu_address(r, s, 3));
}

void mlu_build_rms_norm(struct mlu_build *b)
{
    const struct bp_rms_norm_attrs *attrs = b->prep->attrs;
    uint32_t dtype = b->prep->in[0]->dtype;
    struct mlu_step *s;
    int64_t rows[2];
    size_t size = 0;
    int code;

    if (norm_is_empty(b)) return;
    norm_rows(b, attrs->axis, rows);
    s = mlu_step(
        b, FN_cnnlRmsNormForward, norm_call_rms,
        MLU_TENSORS(mlu_shaped(mlu_in(b, 0), 2, rows), norm_given(b, 1, dtype, 1, rows + 1, 1),
                    mlu_shaped(mlu_out(b, 0), 2, rows), norm_wanted(b, 1, BP_F32, 1, rows)));
    if (!s) return;
    s->f[0] = attrs->epsilon;
    code = mlu_cnnl.call.cnnlGetRmsNormOpWorkspaceSize(b->handle, 1, mlu_desc(s, 0), &size);
    mlu_step_reserve(b, s, FN_cnnlGetRmsNormOpWorkspaceSize, code, size);
}

static int norm_call_group(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlGroupNormForward_v3(
        r->handle, (float)s->f[0], (int)s->i[0], mlu_desc(s, 0), mlu_address(r, s, 0),
        mlu_desc(s, 1), mlu_address(r, s, 1), mlu_address(r, s, 2), mlu_work(r, s), s->work,
        mlu_desc(s, 3), mlu_address(r, s, 3), mlu_desc(s, 4), mlu_address(r, s, 4),
        mlu_address(r, s, 5));
}

/* N, C, and the places of a channel. */
static void norm_images(struct mlu_build *b, int64_t out[3])
{
    const struct bp_view *x = b->prep->in[0];

    out[0] = x->shape[0];
    out[1] = x->shape[1];
    out[2] = 1;
    for (int i = 2; i < x->rank; i++) out[2] *= x->shape[i];
}

void mlu_build_group_norm(struct mlu_build *b)
{
    const struct bp_group_norm_attrs *attrs = b->prep->attrs;
    uint32_t dtype = b->prep->in[0]->dtype;
    int64_t shape[3], groups[2];
    struct mlu_step *s;
    size_t size = 0;
    int code;

    if (norm_is_empty(b)) return;
    norm_images(b, shape);
    groups[0] = shape[0];
    groups[1] = attrs->groups;
    s = mlu_step(
        b, FN_cnnlGroupNormForward_v3, norm_call_group,
        MLU_TENSORS(mlu_shaped(mlu_in(b, 0), 3, shape), norm_given(b, 1, dtype, 1, shape + 1, 1),
                    norm_given(b, 2, dtype, 1, shape + 1, 0), mlu_shaped(mlu_out(b, 0), 3, shape),
                    norm_wanted(b, 1, BP_F32, 2, groups), norm_wanted(b, 2, BP_F32, 2, groups)));
    if (!s) return;
    s->f[0] = attrs->epsilon;
    s->i[0] = attrs->groups;
    code = mlu_cnnl.call.cnnlGetGroupNormForwardWorkspaceSize(b->handle, (int)attrs->groups,
                                                              mlu_desc(s, 0), &size);
    mlu_step_reserve(b, s, FN_cnnlGetGroupNormForwardWorkspaceSize, code, size);
}

static int norm_call_batch(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlBatchNormForwardInference(
        r->handle, NULL, NULL, mlu_desc(s, 0), mlu_address(r, s, 0), mlu_desc(s, 1),
        mlu_address(r, s, 1), mlu_address(r, s, 2), mlu_address(r, s, 3), mlu_address(r, s, 4),
        (float)s->f[0], mlu_desc(s, 5), mlu_address(r, s, 5));
}

/* CNNL takes images with the channels last: others are transposed in front of a call and behind it.
 * Of a tensor of N, C and places: the same as an image, for which a copy is reserved if there are
 * several places. */
static struct mlu_tensor norm_image(struct mlu_build *b, struct mlu_tensor x,
                                    const int64_t shape[3])
{
    const int64_t image[] = {shape[0], 1, shape[2], shape[1]};

    return shape[2] > 1 ? mlu_temporary(b, BP_F32, 4, image) : mlu_shaped(x, 4, image);
}

/* Transposes between a tensor and its image; to_image: into the image. */
static void norm_turn(struct mlu_build *b, struct mlu_tensor x, struct mlu_tensor image,
                      const int64_t shape[3], bool to_image)
{
    static const int last[] = {0, 2, 1};
    const int64_t turned[] = {shape[0], shape[2], shape[1]};

    if (shape[2] == 1) return;
    x = mlu_shaped(x, 3, shape);
    image = mlu_shaped(image, 3, turned);
    if (to_image) mlu_step_transpose(b, x, image, last);
    else mlu_step_transpose(b, image, x, last);
}

static struct mlu_tensor norm_image_in(struct mlu_build *b, uint32_t i, const int64_t shape[3])
{
    struct mlu_tensor image = norm_image(b, mlu_in(b, i), shape);

    norm_turn(b, mlu_in(b, i), image, shape, true);
    return image;
}

void mlu_build_batch_norm(struct mlu_build *b)
{
    const struct bp_batch_norm_attrs *attrs = b->prep->attrs;
    struct mlu_tensor t[6];
    struct mlu_step *s;
    int64_t shape[3];

    norm_images(b, shape);
    t[0] = norm_image_in(b, 0, shape);
    t[1] = norm_given(b, 1, BP_F32, 1, shape + 1, 1);
    t[2] = norm_given(b, 2, BP_F32, 1, shape + 1, 0);
    t[3] = mlu_in(b, 3);
    t[4] = mlu_in(b, 4);
    t[5] = norm_image(b, mlu_out(b, 0), shape);
    s = mlu_step_images(b, FN_cnnlBatchNormForwardInference, norm_call_batch, 6, t,
                        MLU_CNNL_LAYOUT_NHWC);
    if (s) s->f[0] = attrs->epsilon;
    norm_turn(b, mlu_out(b, 0), t[5], shape, false);
}

/* The tensors: x, scale, bias, moving mean and variance, y, mean and inverse deviation. */
static int norm_call_train(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlBatchNormForwardTraining_v2(
        r->handle, s->desc, mlu_number(NUM_CNNL_BATCHNORM_SPATIAL),
        mlu_number(NUM_CNNL_BATCHNORM_OPS_BN), NULL, NULL, mlu_desc(s, 0), mlu_address(r, s, 0),
        NULL, NULL, mlu_desc(s, 1), mlu_address(r, s, 1), mlu_address(r, s, 2),
        mlu_address(r, s, 3), mlu_address(r, s, 4), (float)s->f[0], (float)s->f[1], mlu_desc(s, 5),
        mlu_address(r, s, 5), mlu_address(r, s, 6), mlu_address(r, s, 7), mlu_work(r, s), s->work,
        NULL, 0);
}

/* momentum: the part of the new statistics in the moving ones. */
static void norm_train(struct mlu_build *b, double epsilon, double momentum,
                       const struct mlu_tensor t[8])
{
    struct mlu_step *s = mlu_step_images(b, FN_cnnlBatchNormForwardTraining_v2, norm_call_train, 8,
                                         t, MLU_CNNL_LAYOUT_NHWC);
    size_t size = 0;
    int code;

    if (!s) return;
    s->f[0] = epsilon;
    s->f[1] = momentum;
    mlu_describe_activation(b, s, NUM_CNNL_ACTIVATION_IDENTITY);
    if (b->status) return;
    code = mlu_cnnl.call.cnnlGetBatchNormForwardWorkspaceSize(b->handle, mlu_desc(s, 0), &size);
    mlu_step_reserve(b, s, FN_cnnlGetBatchNormForwardWorkspaceSize, code, size);
}

/* y = factor x */
static int norm_call_times(const struct mlu_run *r, const struct mlu_step *s)
{
    float factor = (float)s->f[0], zero = 0;

    return mlu_cnnl.call.cnnlTransform_v2(r->handle, MLU_CNNL_POINTER_MODE_HOST, &factor,
                                          mlu_desc(s, 0), mlu_address(r, s, 0), &zero,
                                          mlu_desc(s, 1), mlu_address(r, s, 1));
}

static int norm_call_lerp(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlLerp(r->handle, mlu_desc(s, 0), mlu_address(r, s, 0), mlu_desc(s, 1),
                                  mlu_address(r, s, 1), mlu_desc(s, 2), mlu_address(r, s, 2),
                                  mlu_work(r, s), s->work, mlu_desc(s, 3), mlu_address(r, s, 3));
}

/* The running variance, whose new part CNNL has computed by the other divisor: with kept = momentum
 * running, it is kept + ratio (moved - kept). The caller's buffers may be one, so `kept` is made in
 * front of the call that moves the variance. */
static void norm_correct(struct mlu_build *b, struct mlu_tensor kept, double ratio,
                         struct mlu_tensor moved)
{
    struct mlu_tensor weight = mlu_temporary(b, BP_F32, 1, kept.shape), y = mlu_out(b, 2);
    struct mlu_step *s;
    size_t size = 0;
    int code;

    mlu_step_fill(b, ratio, weight);
    s = mlu_step(b, FN_cnnlLerp, norm_call_lerp, MLU_TENSORS(kept, moved, weight, y));
    if (!s) return;
    code = mlu_cnnl.call.cnnlGetLerpWorkspaceSize(b->handle, mlu_desc(s, 0), mlu_desc(s, 1),
                                                  mlu_desc(s, 2), mlu_desc(s, 3), &size);
    mlu_step_reserve(b, s, FN_cnnlGetLerpWorkspaceSize, code, size);
}

/* The new variance over that of CNNL; 1 if both divide by the same number. */
static double norm_ratio(const struct mlu_build *b, const int64_t shape[3])
{
    const struct bp_batch_norm_train_attrs *attrs = b->prep->attrs;
    double n = (double)(shape[0] * shape[2]);
    bool unbiased = mlu_number(FACT_BATCH_NORM_MOVES_UNBIASED);

    if (unbiased == (attrs->unbiased != 0)) return 1;
    return unbiased ? (n - 1) / n : n / (n - 1);
}

void mlu_build_batch_norm_train(struct mlu_build *b)
{
    const struct bp_batch_norm_train_attrs *attrs = b->prep->attrs;
    struct mlu_tensor t[8], kept = {0};
    int64_t shape[3];
    double ratio;

    if (norm_is_empty(b)) return;
    norm_images(b, shape);
    if (shape[0] * shape[2] == 1) mlu_refuse(b); /* CNNL's variance of one element is not known */
    ratio = norm_ratio(b, shape);
    t[0] = norm_image_in(b, 0, shape);
    t[1] = norm_given(b, 1, BP_F32, 1, shape + 1, 1);
    t[2] = norm_given(b, 2, BP_F32, 1, shape + 1, 0);
    t[3] = mlu_out(b, 1);
    t[4] = ratio == 1 ? mlu_out(b, 2) : mlu_temporary(b, BP_F32, 1, shape + 1);
    t[5] = norm_image(b, mlu_out(b, 0), shape);
    t[6] = norm_wanted(b, 3, BP_F32, 1, shape + 1);
    t[7] = norm_wanted(b, 4, BP_F32, 1, shape + 1);
    mlu_step_unary(b, FN_cnnlCopy, mlu_in(b, 3), t[3]); /* CNNL moves them in place */
    mlu_step_unary(b, FN_cnnlCopy, mlu_in(b, 4), t[4]);
    if (ratio != 1) {
        struct mlu_step *s;
        kept = mlu_temporary(b, BP_F32, 1, shape + 1);
        s = mlu_step(b, FN_cnnlTransform_v2, norm_call_times, MLU_TENSORS(mlu_in(b, 4), kept));
        if (s) s->f[0] = attrs->momentum;
    }
    norm_train(b, attrs->epsilon, 1 - attrs->momentum, t);
    if (ratio != 1) norm_correct(b, kept, ratio, t[4]);
    norm_turn(b, mlu_out(b, 0), t[5], shape, false);
}

/* The tensors: x, dy, scale, mean, inverse deviation, dx, dscale and dbias. */
static int norm_call_batch_grad(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlBatchNormBackward_v2(
        r->handle, s->desc, mlu_number(NUM_CNNL_BATCHNORM_SPATIAL),
        mlu_number(NUM_CNNL_BATCHNORM_OPS_BN), NULL, NULL, NULL, NULL, mlu_desc(s, 0),
        mlu_address(r, s, 0), NULL, NULL, mlu_desc(s, 1), mlu_address(r, s, 1), mlu_desc(s, 2),
        mlu_address(r, s, 2), NULL, mlu_address(r, s, 3), mlu_address(r, s, 4), (float)s->f[0],
        NULL, NULL, mlu_desc(s, 5), mlu_address(r, s, 5), mlu_address(r, s, 6),
        mlu_address(r, s, 7), mlu_work(r, s), s->work, NULL, 0);
}

/* The statistics of x, if the caller does not give them. */
static void norm_batch_statistics(struct mlu_build *b, struct mlu_tensor x, struct mlu_tensor scale,
                                  double epsilon, struct mlu_tensor out[2])
{
    struct mlu_tensor moved[2];

    out[0] = mlu_in(b, 3);
    out[1] = mlu_in(b, 4);
    if (out[0].from != MLU_ABSENT && out[1].from != MLU_ABSENT) return;
    for (int i = 0; i < 2; i++) {
        out[i] = mlu_temporary(b, BP_F32, 1, scale.shape);
        moved[i] = mlu_temporary(b, BP_F32, 1, scale.shape);
        mlu_step_fill(b, 0, moved[i]);
    }
    norm_train(b, epsilon, 1,
               (struct mlu_tensor[]){x, scale, scale, moved[0], moved[1],
                                     mlu_temporary(b, BP_F32, 4, x.shape), out[0], out[1]});
}

void mlu_build_batch_norm_grad(struct mlu_build *b)
{
    const struct bp_batch_norm_grad_attrs *attrs = b->prep->attrs;
    struct mlu_tensor x, scale, dx, statistics[2];
    struct mlu_step *s;
    int64_t shape[3];
    size_t size = 0;
    int code;

    if (!b->prep->in[0]->count) {
        for (uint32_t i = 1; i < 3; i++) /* sums of nothing */
            if (mlu_has_out(b, i) && b->prep->out[i]->count) mlu_step_fill(b, 0, mlu_out(b, i));
        return;
    }
    norm_images(b, shape);
    x = norm_image_in(b, 0, shape);
    scale = norm_given(b, 1, BP_F32, 1, shape + 1, 1);
    norm_batch_statistics(b, x, scale, attrs->epsilon, statistics);
    dx = norm_image(b, norm_wanted(b, 0, BP_F32, 3, shape), shape);
    s = mlu_step_images(b, FN_cnnlBatchNormBackward_v2, norm_call_batch_grad,
                        MLU_TENSORS(x, norm_image_in(b, 2, shape), scale, statistics[0],
                                    statistics[1], dx, norm_wanted(b, 1, BP_F32, 1, shape + 1),
                                    norm_wanted(b, 2, BP_F32, 1, shape + 1)),
                        MLU_CNNL_LAYOUT_NHWC);
    if (!s) return;
    s->f[0] = attrs->epsilon;
    mlu_describe_activation(b, s, NUM_CNNL_ACTIVATION_IDENTITY);
    if (b->status) return;
    code = mlu_cnnl.call.cnnlGetBatchNormBackwardWorkspaceSize(b->handle, mlu_desc(s, 0), &size);
    mlu_step_reserve(b, s, FN_cnnlGetBatchNormBackwardWorkspaceSize, code, size);
    if (mlu_has_out(b, 0)) norm_turn(b, mlu_out(b, 0), dx, shape, false);
}
