/* SPDX-License-Identifier: Apache-2.0 */
/* norm.c: implements the normalisations of CNNL. Weights and biases share a descriptor, and so do
 * the means and the inverses of deviations, which are float. */
#include "cnnl.h"
#include <string.h>

enum {
    STATISTIC = CNNL_M(CNNL_FLOAT)
};

static size_t norm_size(const void *x_desc)
{
    return 128 + cnnl_size(x_desc) / 4;
}

/* Checks that a tensor has the axes `first` to `end` - 1 of another one. An absent one passes. */
static void part_check(struct cnnl_call *call, const struct base_tensor *x,
                       const struct base_tensor *part, int first, int end)
{
    if (cnnl_failed(call) || part->rank < 0) return;
    cnnl_check(call, part->rank == end - first, "weights or statistics have another rank");
    for (int a = first; a < end && !cnnl_failed(call); a++)
        cnnl_check(call, part->shape[a - first] == x->shape[a],
                   "weights or statistics have another shape");
}

/* Checks that a tensor is like x. */
static void like_check(struct cnnl_call *call, const struct base_tensor *x,
                       const struct base_tensor *y)
{
    cnnl_check(call, cnnl_failed(call) || (x->dtype == y->dtype && cnnl_same_shape(x, y)),
               "dtypes or shapes differ");
}

/* The dtype of statistics is another type variable, U; and weights have the dtype of x. */
static void norm_types(struct cnnl_call *call, int n_weight)
{
    const struct base_tensor *in = call->work.in;

    call->work.type[1] = BP_F32;
    for (int i = 1; i <= n_weight; i++)
        cnnl_check(call, cnnl_failed(call) || in[i].rank < 0 || in[i].dtype == in[0].dtype,
                   "weights have another dtype");
}

int cnnlGetLayerNormOpWorkspaceSize(void *handle, int axis, const void *x_desc, size_t *out)
{
    (void)axis;
    return cnnl_report_size("cnnlGetLayerNormOpWorkspaceSize", handle, norm_size(x_desc), out);
}

int cnnlLayerNormForward(void *handle, const void *x_desc, const void *x, int axis,
                         const void *w_desc, const void *w, const void *b, float eps,
                         void *workspace, size_t size, const void *y_desc, void *y,
                         const void *mean_desc, void *mean, void *rstd)
{
    struct bp_layer_norm_attrs attrs = {sizeof attrs, axis, eps};
    struct cnnl_call call;
    struct base_tensor *in = call.work.in, *out = call.work.out;

    cnnl_begin(&call, "cnnlLayerNormForward", handle);
    cnnl_check(&call, (w != NULL) == (b != NULL), "a weight without a bias, or the reverse");
    cnnl_in(&call, x_desc, x, CNNL_FLOATS);
    cnnl_in_maybe(&call, w_desc, w, CNNL_FLOATS);
    cnnl_in_maybe(&call, w_desc, b, CNNL_FLOATS);
    cnnl_out(&call, y_desc, y, CNNL_FLOATS);
    cnnl_out(&call, mean_desc, mean, STATISTIC);
    cnnl_out(&call, mean_desc, rstd, STATISTIC);
    attrs.axis = axis = cnnl_axis(&call, axis, in[0].rank);
    like_check(&call, &in[0], &out[0]);
    part_check(&call, &in[0], &in[1], axis, in[0].rank);
    part_check(&call, &in[0], &out[1], 0, axis);
    norm_types(&call, 2);
    cnnl_workspace(&call, workspace, size, norm_size(x_desc));
    cnnl_operator(&call, "layer_norm", &attrs, sizeof attrs);
    return cnnl_submit(&call);
}

int cnnlGetLayerNormBackwardWorkspaceSize(void *handle, const void *x_desc, int axis, size_t *out)
{
    (void)axis;
    return cnnl_report_size("cnnlGetLayerNormBackwardWorkspaceSize", handle, norm_size(x_desc),
                            out);
}

int cnnlLayerNormBackward_v2(void *handle, const void *x_desc, const void *x, int axis,
                             const void *dy_desc, const void *dy, const void *w_desc, const void *w,
                             const void *mean_desc, const void *mean, const void *rstd,
                             void *workspace, size_t size, const void *dx_desc, void *dx, void *dw,
                             void *db)
{
    struct bp_layer_norm_grad_attrs attrs = {sizeof attrs, axis, 0};
    struct cnnl_call call;
    struct base_tensor *in = call.work.in, *out = call.work.out;

    cnnl_begin(&call, "cnnlLayerNormBackward_v2", handle);
    cnnl_in(&call, x_desc, x, CNNL_FLOATS);
    cnnl_in(&call, w_desc, w, CNNL_FLOATS);
    cnnl_in(&call, dy_desc, dy, CNNL_FLOATS);
    cnnl_in(&call, mean_desc, mean, STATISTIC);
    cnnl_in(&call, mean_desc, rstd, STATISTIC);
    cnnl_out(&call, dx_desc, dx, CNNL_FLOATS);
    cnnl_out(&call, w_desc, dw, CNNL_FLOATS);
    cnnl_out(&call, w_desc, db, CNNL_FLOATS);
    attrs.axis = axis = cnnl_axis(&call, axis, in[0].rank);
    like_check(&call, &in[0], &in[2]);
    like_check(&call, &in[0], &out[0]);
    part_check(&call, &in[0], &in[1], axis, in[0].rank);
    part_check(&call, &in[0], &in[3], 0, axis);
    norm_types(&call, 1);
    cnnl_workspace(&call, workspace, size, norm_size(x_desc));
    cnnl_operator(&call, "layer_norm_grad", &attrs, sizeof attrs);
    return cnnl_submit(&call);
}

int cnnlGetRmsNormOpWorkspaceSize(void *handle, int axis, const void *x_desc, size_t *out)
{
    (void)axis;
    return cnnl_report_size("cnnlGetRmsNormOpWorkspaceSize", handle, norm_size(x_desc), out);
}

int cnnlRmsNormForward(void *handle, int axis, const void *x_desc, const void *x,
                       const void *w_desc, const void *w, const void *b, float eps, void *workspace,
                       size_t size, const void *y_desc, void *y, const void *rms_desc, void *rms)
{
    struct bp_rms_norm_attrs attrs = {sizeof attrs, axis, eps};
    struct cnnl_call call;
    struct base_tensor *in = call.work.in, *out = call.work.out;

    cnnl_begin(&call, "cnnlRmsNormForward", handle);
    cnnl_check(&call, !b, "a bias is not known");
    cnnl_in(&call, x_desc, x, CNNL_FLOATS);
    cnnl_in_maybe(&call, w_desc, w, CNNL_FLOATS);
    cnnl_out(&call, y_desc, y, CNNL_FLOATS);
    cnnl_out_maybe(&call, rms_desc, rms, STATISTIC);
    attrs.axis = axis = cnnl_axis(&call, axis, in[0].rank);
    like_check(&call, &in[0], &out[0]);
    part_check(&call, &in[0], &in[1], axis, in[0].rank);
    part_check(&call, &in[0], &out[1], 0, axis);
    norm_types(&call, 1);
    cnnl_workspace(&call, workspace, size, norm_size(x_desc));
    cnnl_operator(&call, "rms_norm", &attrs, sizeof attrs);
    return cnnl_submit(&call);
}

int cnnlGetGroupNormForwardWorkspaceSize(void *handle, int groups, const void *x_desc, size_t *out)
{
    (void)groups;
    return cnnl_report_size("cnnlGetGroupNormForwardWorkspaceSize", handle, norm_size(x_desc), out);
}

/* Views N .. C as N C ..., for operators whose channels come second. */
static void channels_second(struct base_tensor *t)
{
    int64_t shape = t->shape[t->rank - 1], stride = t->stride[t->rank - 1];

    memmove(t->shape + 2, t->shape + 1, (size_t)(t->rank - 2) * sizeof *t->shape);
    memmove(t->stride + 2, t->stride + 1, (size_t)(t->rank - 2) * sizeof *t->stride);
    t->shape[1] = shape;
    t->stride[1] = stride;
}

/* Appends N and C of x, and C of weights. Whether x is NHWC (else: NCHW or any other). */
static bool channels_last(const void *x_desc)
{
    const struct cnnl_tensor *t = cnnl_tensor_of(x_desc);

    return t && (t->layout == CNNL_NHWC || t->layout == CNNL_NDHWC || t->layout == CNNL_NLC);
}

int cnnlGroupNormForward_v3(void *handle, float eps, int groups, const void *x_desc, const void *x,
                            const void *w_desc, const void *w, const void *b, void *workspace,
                            size_t size, const void *y_desc, void *y, const void *mean_desc,
                            void *mean, void *rstd)
{
    struct bp_group_norm_attrs attrs = {sizeof attrs, groups, eps};
    struct cnnl_call call;
    struct base_tensor *in = call.work.in, *out = call.work.out;

    cnnl_begin(&call, "cnnlGroupNormForward_v3", handle);
    cnnl_check(&call, !channels_last(x_desc), "only channels in the second axis are known");
    cnnl_in(&call, x_desc, x, CNNL_FLOATS);
    cnnl_in(&call, w_desc, w, CNNL_FLOATS);
    cnnl_in(&call, w_desc, b, CNNL_FLOATS);
    cnnl_out(&call, y_desc, y, CNNL_FLOATS);
    cnnl_out(&call, mean_desc, mean, STATISTIC);
    cnnl_out(&call, mean_desc, rstd, STATISTIC);
    like_check(&call, &in[0], &out[0]);
    cnnl_check(&call, in[0].rank >= 2 && groups >= 1 && in[0].shape[1] % groups == 0,
               "groups do not divide the channels");
    part_check(&call, &in[0], &in[1], 1, 2);
    cnnl_check(&call,
               out[1].rank == 2 && out[1].shape[0] == in[0].shape[0] && out[1].shape[1] == groups,
               "statistics have another shape");
    norm_types(&call, 2);
    cnnl_workspace(&call, workspace, size, norm_size(x_desc));
    cnnl_operator(&call, "group_norm", &attrs, sizeof attrs);
    return cnnl_submit(&call);
}

int cnnlBatchNormForwardInference(void *handle, const void *alpha, const void *beta,
                                  const void *x_desc, const void *x, const void *c_desc,
                                  const void *scale, const void *bias, const void *mean,
                                  const void *variance, float eps, const void *y_desc, void *y)
{
    struct bp_batch_norm_attrs attrs = {sizeof attrs, eps};
    struct cnnl_call call;
    struct base_tensor *in = call.work.in, *out = call.work.out;

    cnnl_begin(&call, "cnnlBatchNormForwardInference", handle);
    cnnl_factors(&call, alpha, beta);
    cnnl_check(&call, channels_last(x_desc), "the layout is not NHWC, NDHWC or NLC");
    cnnl_in(&call, x_desc, x, CNNL_FLOATS);
    cnnl_in(&call, c_desc, scale, STATISTIC);
    cnnl_in(&call, c_desc, bias, STATISTIC);
    cnnl_in(&call, c_desc, mean, STATISTIC);
    cnnl_in(&call, c_desc, variance, STATISTIC);
    cnnl_out(&call, y_desc, y, CNNL_FLOATS);
    like_check(&call, &in[0], &out[0]);
    cnnl_check(&call, channels_last(y_desc), "the result's layout is another one");
    if (cnnl_failed(&call)) return cnnl_submit(&call);
    channels_second(&in[0]);
    channels_second(&out[0]);
    part_check(&call, &in[0], &in[1], 1, 2);
    call.work.type[1] = BP_F32;
    cnnl_operator(&call, "batch_norm", &attrs, sizeof attrs);
    return cnnl_submit(&call);
}

/* The numbers of a batch norm in training: of channels, without an activation behind it. */
static void batch_check(struct cnnl_call *call, const void *activation, int mode, int ops,
                        const void *reserve, size_t reserve_size)
{
    cnnl_check(call, cnnl_activation_is(activation, CNNL_IDENTITY), "no descriptor of an identity");
    cnnl_check(call, mode == CNNL_SPATIAL && ops == CNNL_OPS_BN,
               "no such mode, or no such operation");
    cnnl_check(call, !reserve && !reserve_size, "a reserve is not known");
}

int cnnlGetBatchNormForwardWorkspaceSize(void *handle, const void *x_desc, size_t *out)
{
    return cnnl_report_size("cnnlGetBatchNormForwardWorkspaceSize", handle, norm_size(x_desc), out);
}

/* moving_mean and moving_var are moved in place by the part `momentum`: the variance by n - 1, as
 * that of PyTorch, whose backend passes its own. */
int cnnlBatchNormForwardTraining_v2(void *handle, const void *activation, int mode, int ops,
                                    const void *alpha, const void *beta, const void *x_desc,
                                    const void *x, const void *z_desc, const void *z,
                                    const void *c_desc, const void *scale, const void *bias,
                                    void *moving_mean, void *moving_var, float eps, float momentum,
                                    const void *y_desc, void *y, void *saved_mean,
                                    void *saved_invstd, void *workspace, size_t size, void *reserve,
                                    size_t reserve_size)
{
    struct bp_batch_norm_train_attrs attrs = {sizeof attrs, eps, 1 - (double)momentum, 1};
    struct cnnl_call call;
    struct base_tensor *in = call.work.in, *out = call.work.out;

    cnnl_begin_assumed(&call, "cnnlBatchNormForwardTraining_v2", handle, CNNL_FAST);
    batch_check(&call, activation, mode, ops, reserve, reserve_size);
    cnnl_factors(&call, alpha, beta);
    cnnl_check(&call, !z_desc && !z, "an addend is not known");
    cnnl_check(&call, channels_last(x_desc) && channels_last(y_desc),
               "the layout is not NHWC, NDHWC or NLC");
    cnnl_in(&call, x_desc, x, STATISTIC);
    cnnl_in(&call, c_desc, scale, STATISTIC);
    cnnl_in(&call, c_desc, bias, STATISTIC);
    cnnl_in(&call, c_desc, moving_mean, STATISTIC);
    cnnl_in(&call, c_desc, moving_var, STATISTIC);
    cnnl_out(&call, y_desc, y, STATISTIC);
    cnnl_out(&call, c_desc, moving_mean, STATISTIC);
    cnnl_out(&call, c_desc, moving_var, STATISTIC);
    cnnl_out(&call, c_desc, saved_mean, STATISTIC);
    cnnl_out(&call, c_desc, saved_invstd, STATISTIC);
    like_check(&call, &in[0], &out[0]);
    cnnl_check(&call, moving_mean != moving_var, "both moving statistics have one address");
    cnnl_workspace(&call, workspace, size, norm_size(x_desc));
    if (cnnl_failed(&call)) return cnnl_submit(&call);
    channels_second(&in[0]);
    channels_second(&out[0]);
    part_check(&call, &in[0], &in[1], 1, 2);
    call.work.type[1] = BP_F32;
    cnnl_operator(&call, "batch_norm_train", &attrs, sizeof attrs);
    return cnnl_submit(&call);
}

int cnnlGetBatchNormBackwardWorkspaceSize(void *handle, const void *x_desc, size_t *out)
{
    return cnnl_report_size("cnnlGetBatchNormBackwardWorkspaceSize", handle, norm_size(x_desc),
                            out);
}

/* The callers pass no y, no bias and no addend. */
int cnnlBatchNormBackward_v2(void *handle, const void *activation, int mode, int ops,
                             const void *alpha_data, const void *beta_data, const void *alpha_param,
                             const void *beta_param, const void *x_desc, const void *x,
                             const void *y_desc, const void *y, const void *dy_desc, const void *dy,
                             const void *c_desc, const void *scale, const void *bias,
                             const void *saved_mean, const void *saved_invstd, float eps,
                             const void *dz_desc, void *dz, const void *dx_desc, void *dx,
                             void *dscale, void *dbias, void *workspace, size_t size, void *reserve,
                             size_t reserve_size)
{
    struct bp_batch_norm_grad_attrs attrs = {sizeof attrs, eps};
    struct cnnl_call call;
    struct base_tensor *in = call.work.in, *out = call.work.out;

    cnnl_begin_assumed(&call, "cnnlBatchNormBackward_v2", handle, CNNL_FAST);
    batch_check(&call, activation, mode, ops, reserve, reserve_size);
    cnnl_factors(&call, alpha_data, beta_data);
    cnnl_factors(&call, alpha_param, beta_param);
    cnnl_check(&call, !y_desc && !y && !bias && !dz_desc && !dz, "a y, a bias or an addend");
    cnnl_check(&call, channels_last(x_desc) && channels_last(dy_desc) && channels_last(dx_desc),
               "the layout is not NHWC, NDHWC or NLC");
    cnnl_in(&call, x_desc, x, STATISTIC);
    cnnl_in(&call, c_desc, scale, STATISTIC);
    cnnl_in(&call, dy_desc, dy, STATISTIC);
    cnnl_in(&call, c_desc, saved_mean, STATISTIC);
    cnnl_in(&call, c_desc, saved_invstd, STATISTIC);
    cnnl_out(&call, dx_desc, dx, STATISTIC);
    cnnl_out(&call, c_desc, dscale, STATISTIC);
    cnnl_out(&call, c_desc, dbias, STATISTIC);
    like_check(&call, &in[0], &in[2]);
    like_check(&call, &in[0], &out[0]);
    cnnl_workspace(&call, workspace, size, norm_size(x_desc));
    if (cnnl_failed(&call)) return cnnl_submit(&call);
    channels_second(&in[0]);
    channels_second(&in[2]);
    channels_second(&out[0]);
    part_check(&call, &in[0], &in[1], 1, 2);
    call.work.type[1] = BP_F32;
    cnnl_operator(&call, "batch_norm_grad", &attrs, sizeof attrs);
    return cnnl_submit(&call);
}
