/* SPDX-License-Identifier: Apache-2.0 */
/* norm.c: products with a sum, normalisations, dropout. */
#include "../chain.h"
#include "../ops.h"
#include <string.h>

/* y = alpha A B + beta C. Sides are turned by the product, which reads weights as they lie. */
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

/* In training the batch's own statistics count, and the running ones are moved by them. */
static enum bp_status train(struct onnx_call *c)
{
    struct bp_batch_norm_train_attrs attrs = bp_batch_norm_train_defaults();
    struct bp_tensor *y, *mean, *variance;

    attrs.epsilon = onnx_attr_float(c, "epsilon", 1e-5f);
    attrs.momentum = onnx_attr_float(c, "momentum", 0.9f);
    TRY(bp_op_batch_norm_train(c->scope, onnx_in(c, 0), onnx_in(c, 1), onnx_in(c, 2),
                               onnx_in(c, 3), onnx_in(c, 4), &attrs, &y, &mean, &variance, NULL,
                               NULL));
    TRY(onnx_give(c, 0, y));
    TRY(onnx_give(c, 1, mean));
    return onnx_give(c, 2, variance);
}

enum bp_status onnx_batch_norm(struct onnx_call *c)
{
    struct bp_batch_norm_attrs attrs = bp_batch_norm_defaults();
    struct bp_tensor *y;

    if (c->node->n_in < 5) return onnx_error(BP_ERR_INVALID, "five tensors are expected");
    if (onnx_attr_int(c, "training_mode", 0)) return train(c);
    attrs.epsilon = onnx_attr_float(c, "epsilon", 1e-5f);
    TRY(bp_op_batch_norm(c->scope, onnx_in(c, 0), onnx_in(c, 1), onnx_in(c, 2), onnx_in(c, 3),
                         onnx_in(c, 4), &attrs, &y));
    return onnx_give(c, 0, y);
}

/* A statistic with extents of 1 for the axes that it is of. Takes it. */
static enum bp_status give_statistic(struct onnx_call *c, uint32_t i, struct bp_tensor *t)
{
    uint32_t rank = onnx_info(onnx_in(c, 0)).rank, own = onnx_info(t).rank;
    struct bp_reshape_attrs attrs = bp_reshape_defaults();
    int64_t shape[ONNX_RANK_MAX];
    struct bp_tensor *y;
    enum bp_status status;

    for (uint32_t k = 0; k < rank; k++) shape[k] = k < own ? onnx_info(t).shape[k] : 1;
    attrs.shape = (struct bp_dims){shape, rank};
    status = bp_op_reshape(c->scope, t, NULL, &attrs, &y);
    bp_tensor_destroy(t);
    return status ? status : onnx_give(c, i, y);
}

enum bp_status onnx_layer_norm(struct onnx_call *c)
{
    struct bp_layer_norm_attrs attrs = bp_layer_norm_defaults();
    struct bp_tensor *y, *mean = NULL, *inverse = NULL;

    attrs.axis = onnx_attr_int(c, "axis", -1);
    attrs.epsilon = onnx_attr_float(c, "epsilon", 1e-5f);
    TRY(bp_op_layer_norm(c->scope, onnx_in(c, 0), onnx_in(c, 1), onnx_in(c, 2), &attrs, &y,
                         onnx_wants(c, 1) ? &mean : NULL, onnx_wants(c, 2) ? &inverse : NULL));
    TRY(onnx_give(c, 0, y));
    if (mean) TRY(give_statistic(c, 1, mean));
    return inverse ? give_statistic(c, 2, inverse) : BP_OK;
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

/* All elements are kept. */
static enum bp_status all_kept(struct onnx_call *c, struct bp_tensor *x)
{
    struct bp_ones_attrs attrs = bp_ones_defaults();
    struct bp_tensor_info info = onnx_info(x);
    struct bp_tensor *kept;

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
    struct bp_tensor *x = onnx_in(c, 0), *y, *kept;
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
