/* SPDX-License-Identifier: Apache-2.0 */
/* norm.c: runs Gemm, normalisations and Dropout. */
#include "../chain.h"
#include "../ops.h"
#include <string.h>

/* y = alpha A B + beta C. The matmul operator transposes A and B, so weights are read in their
 * stored layout. */
enum bp_status onnx_gemm(struct onnx_call *c)
{
    double alpha = onnx_attr_float(c, "alpha", 1), beta = onnx_attr_float(c, "beta", 1);
    struct bp_matmul_attrs attrs = bp_matmul_defaults();
    struct onnx_chain k = onnx_chain_begin(c);
    struct bp_tensor *y, *add = onnx_in(c, 2);

    attrs.transpose_a = onnx_attr_int(c, "transA", 0) != 0;
    attrs.transpose_b = onnx_attr_int(c, "transB", 0) != 0;
    y = MAKE(&k, matmul, &attrs, onnx_in(c, 0), onnx_in(c, 1));
    if (alpha != 1) y = onnx_chain_scale(&k, y, alpha, 0);
    if (add && beta != 1) add = onnx_chain_scale(&k, add, beta, 0);
    if (add) y = MAKE(&k, add, NULL, y, add);
    onnx_chain_give(&k, 0, y);
    return onnx_chain_end(&k);
}

/* The dtype of the computation: f32 for half types, otherwise the dtype of x. */
static uint32_t wide_dtype(struct bp_tensor *x)
{
    uint32_t dtype = onnx_info(x).dtype;

    return dtype == BP_F16 || dtype == BP_BF16 ? BP_F32 : dtype;
}

/* In training mode the statistics of the batch are used, and the running statistics are updated by
 * them. */
static void norm_train(struct onnx_chain *k, struct bp_tensor *const *in)
{
    struct onnx_call *c = k->call;
    struct bp_batch_norm_train_attrs attrs = bp_batch_norm_train_defaults();
    struct bp_tensor *y = NULL, *mean = NULL, *variance = NULL;

    if (k->status) return;
    attrs.epsilon = onnx_attr_float(c, "epsilon", 1e-5f);
    attrs.momentum = onnx_attr_float(c, "momentum", 0.9f);
    k->status = bp_op_batch_norm_train(c->scope, in[0], in[1], in[2], in[3], in[4], &attrs, &y,
                                       &mean, &variance, NULL, NULL);
    onnx_chain_give(k, 0, onnx_chain_take(k, y));
    mean = onnx_chain_cast(k, onnx_chain_take(k, mean), onnx_info(onnx_in(c, 3)).dtype);
    variance = onnx_chain_cast(k, onnx_chain_take(k, variance), onnx_info(onnx_in(c, 4)).dtype);
    onnx_chain_give(k, 1, mean);
    onnx_chain_give(k, 2, variance);
}

/* Parameters and statistics of the channels may have the dtype of x or another one. The computation
 * uses f32, or f64 if x is f64. */
enum bp_status onnx_batch_norm(struct onnx_call *c)
{
    struct bp_batch_norm_attrs attrs = bp_batch_norm_defaults();
    struct onnx_chain k = onnx_chain_begin(c);
    struct bp_tensor *in[5];

    if (c->node->n_in < 5) return onnx_error(BP_ERR_INVALID, "five tensors are expected");
    TRY(onnx_need(c, 5));
    in[0] = onnx_in(c, 0);
    for (uint32_t i = 1; i < 5; i++) in[i] = onnx_chain_cast(&k, onnx_in(c, i), wide_dtype(in[0]));
    if (onnx_attr_int(c, "training_mode", 0)) norm_train(&k, in);
    else {
        attrs.epsilon = onnx_attr_float(c, "epsilon", 1e-5f);
        onnx_chain_give(&k, 0, MAKE(&k, batch_norm, &attrs, in[0], in[1], in[2], in[3], in[4]));
    }
    return onnx_chain_end(&k);
}

/* Makes a statistic output i: converts it to stash_type, with extent 1 for each axis that was
 * reduced. */
static void give_statistic(struct onnx_chain *k, uint32_t i, struct bp_tensor *t, uint32_t dtype)
{
    uint32_t rank = onnx_info(onnx_in(k->call, 0)).rank, own;
    int64_t shape[ONNX_RANK_MAX];

    if (k->status || !t) return;
    own = onnx_info(t).rank;
    for (uint32_t axis = 0; axis < rank; axis++)
        shape[axis] = axis < own ? onnx_info(t).shape[axis] : 1;
    onnx_chain_give(k, i, onnx_chain_cast(k, onnx_chain_reshape(k, t, rank, shape), dtype));
}

enum bp_status onnx_layer_norm(struct onnx_call *c)
{
    struct bp_layer_norm_attrs attrs = bp_layer_norm_defaults();
    struct bp_tensor *y = NULL, *mean = NULL, *inverse = NULL;
    struct onnx_chain k = onnx_chain_begin(c);
    uint32_t dtype;

    attrs.axis = onnx_attr_int(c, "axis", -1);
    attrs.epsilon = onnx_attr_float(c, "epsilon", 1e-5f);
    TRY(onnx_attr_dtype(c, "stash_type", BP_F32, &dtype));
    k.status = bp_op_layer_norm(c->scope, onnx_in(c, 0), onnx_in(c, 1), onnx_in(c, 2), &attrs, &y,
                                onnx_wants(c, 1) ? &mean : NULL,
                                onnx_wants(c, 2) ? &inverse : NULL);
    onnx_chain_give(&k, 0, onnx_chain_take(&k, y));
    if (mean) give_statistic(&k, 1, onnx_chain_take(&k, mean), dtype);
    if (inverse) give_statistic(&k, 2, onnx_chain_take(&k, inverse), dtype);
    return onnx_chain_end(&k);
}

/* The result has the dtype of scale. If x has another dtype, the computation uses f64 if one of
 * them is f64, otherwise f32. */
enum bp_status onnx_rms_norm(struct onnx_call *c)
{
    struct bp_rms_norm_attrs attrs = bp_rms_norm_defaults();
    struct onnx_chain k = onnx_chain_begin(c);
    struct bp_tensor *x = onnx_in(c, 0), *scale = onnx_in(c, 1);
    uint32_t of_x, of_scale, dtype;

    TRY(onnx_need(c, 2));
    of_x = onnx_info(x).dtype;
    of_scale = onnx_info(scale).dtype;
    dtype = of_x == of_scale ? of_x : of_x == BP_F64 || of_scale == BP_F64 ? BP_F64 : BP_F32;
    attrs.axis = onnx_attr_int(c, "axis", -1);
    attrs.epsilon = onnx_attr_float(c, "epsilon", 1e-5f);
    scale = onnx_chain_cast(&k, scale, dtype);
    x = MAKE(&k, rms_norm, &attrs, onnx_chain_cast(&k, x, dtype), scale);
    onnx_chain_give(&k, 0, onnx_chain_cast(&k, x, of_scale));
    return onnx_chain_end(&k);
}

enum bp_status onnx_mean_variance(struct onnx_call *c)
{
    static const int64_t channels_apart[] = {0, 2, 3};
    struct onnx_chain k = onnx_chain_begin(c);
    struct bp_mean_variance_normalization_attrs attrs =
        *(const struct bp_mean_variance_normalization_attrs *)bp_opinfo_find(c->node->row->op)
             ->defaults;
    struct onnx_ints axes = onnx_attr_ints(c, "axes");

    attrs.axes = axes.n >= 0 ? onnx_dims(axes) : (struct bp_dims){channels_apart, 3};
    onnx_chain_give(&k, 0, MAKE(&k, mean_variance_normalization, &attrs, onnx_in(c, 0)));
    return onnx_chain_end(&k);
}

/* Creates the mask output of a Dropout that keeps all elements. */
static enum bp_status all_kept(struct onnx_call *c, struct bp_tensor *x)
{
    struct bp_ones_attrs attrs = bp_ones_defaults();
    struct bp_tensor_info info = onnx_info(x);
    struct bp_tensor *kept = NULL;

    attrs.shape = (struct bp_dims){info.shape, info.rank};
    attrs.dtype = BP_BOOL;
    TRY(bp_op_ones(c->scope, NULL, &attrs, &kept));
    return onnx_give(c, 1, kept);
}

static enum bp_status is_training(struct onnx_call *c, bool *out)
{
    struct onnx_ints given;

    *out = c->node->opset < 7 && !onnx_attr_int(c, "is_test", 0);
    if (c->node->opset < 12) return BP_OK;
    TRY(onnx_in_ints(c, 2, &given));
    *out = given.n == 1 && given.at[0];
    return BP_OK;
}

enum bp_status onnx_dropout(struct onnx_call *c)
{
    struct bp_dropout_attrs attrs = bp_dropout_defaults();
    struct bp_tensor *x = onnx_in(c, 0), *y = NULL, *kept = NULL;
    bool training;

    TRY(onnx_need(c, 1));
    TRY(is_training(c, &training));
    attrs.p = onnx_attr_float(c, "ratio", 0.5f);
    if (c->node->opset >= 12) TRY(onnx_in_float(c, 1, 0.5, &attrs.p));
    if (!training || attrs.p == 0) {
        TRY(onnx_identity(c));
        return onnx_wants(c, 1) ? all_kept(c, x) : BP_OK;
    }
    TRY(bp_op_dropout(c->scope, x, &attrs, &y, &kept));
    TRY(onnx_give(c, 0, y));
    return onnx_give(c, 1, kept);
}
