/* SPDX-License-Identifier: Apache-2.0 */
/* contrib.c: runs operators of the domain com.microsoft, which optimisers of models write:
 * products, activations, and norms of a sum. */
#include "../ops.h"
#include "heads.h"

/* Vectors are never transposed. */
enum bp_status onnx_contrib_matmul(struct onnx_call *c)
{
    struct bp_matmul_attrs attrs = bp_matmul_defaults();
    double alpha = onnx_attr_float(c, "alpha", 1);
    struct onnx_chain k = onnx_chain_begin(c);
    struct bp_tensor *y;

    TRY(onnx_need(c, 2));
    attrs.transpose_a = onnx_attr_int(c, "transA", 0) && onnx_info(onnx_in(c, 0)).rank > 1;
    attrs.transpose_b = onnx_attr_int(c, "transB", 0) && onnx_info(onnx_in(c, 1)).rank > 1;
    y = MAKE(&k, matmul, &attrs, onnx_in(c, 0), onnx_in(c, 1));
    onnx_chain_give(&k, 0, alpha == 1 ? y : onnx_chain_scale(&k, y, alpha, 0));
    return onnx_chain_end(&k);
}

/* Checks that input i is a list with an element for each place of the last axis of x. */
static enum bp_status contrib_check_list(struct onnx_call *c, uint32_t i, const char *name)
{
    struct bp_tensor_info x = onnx_info(onnx_in(c, 0)), list;

    if (!onnx_in(c, i)) return BP_OK;
    list = onnx_info(onnx_in(c, i));
    if (x.rank && list.rank == 1 && list.shape[0] == x.shape[x.rank - 1]) return BP_OK;
    return onnx_error(BP_ERR_INVALID, "%s: a list with the last extent of input 0 is expected",
                      name);
}

/* Computes gelu of x + bias. */
static enum bp_status contrib_gelu(struct onnx_call *c, bool approximate)
{
    struct bp_gelu_attrs attrs = bp_gelu_defaults();
    struct bp_tensor *x = onnx_in(c, 0), *bias = onnx_in(c, 1);
    struct onnx_chain k = onnx_chain_begin(c);

    TRY(contrib_check_list(c, 1, "bias"));
    attrs.approximate = approximate;
    if (bias) x = MAKE(&k, add, NULL, x, bias);
    onnx_chain_give(&k, 0, MAKE(&k, gelu, &attrs, x));
    return onnx_chain_end(&k);
}

enum bp_status onnx_contrib_fast_gelu(struct onnx_call *c)
{
    TRY(onnx_need(c, 1));
    return contrib_gelu(c, true);
}

enum bp_status onnx_contrib_bias_gelu(struct onnx_call *c)
{
    TRY(onnx_need(c, 2));
    return contrib_gelu(c, false);
}

/* Computes the sum of input 0, skip and bias, half types in f32. It is also output 3. */
static struct bp_tensor *contrib_sum(struct onnx_chain *k, uint32_t bias, uint32_t dtype)
{
    struct onnx_call *c = k->call;
    struct bp_tensor *sum = MAKE(k, add, NULL, onnx_chain_cast(k, onnx_in(c, 0), dtype),
                                 onnx_chain_cast(k, onnx_in(c, 1), dtype));

    if (onnx_in(c, bias))
        sum = MAKE(k, add, NULL, sum, onnx_chain_cast(k, onnx_in(c, bias), dtype));
    if (onnx_wants(c, 3)) {
        uint32_t narrow = onnx_info(onnx_in(c, 0)).dtype;
        struct bp_tensor *given = MAKE(k, assign, NULL, sum);
        onnx_chain_give(k, 3, onnx_chain_cast(k, given, narrow));
    }
    return sum;
}

/* skip may lack the axes in front, or have an extent of 1 there; the sum has the shape of input
 * 0. */
static enum bp_status contrib_check_skip(struct onnx_call *c)
{
    struct bp_tensor_info x = onnx_info(onnx_in(c, 0)), skip = onnx_info(onnx_in(c, 1));
    bool good = skip.rank && skip.rank <= x.rank;

    for (uint32_t i = 0; i < skip.rank && good; i++) {
        uint32_t axis = i + x.rank - skip.rank;
        good = skip.shape[i] == x.shape[axis] || (skip.shape[i] == 1 && axis == 0);
    }
    return good ? BP_OK : onnx_error(BP_ERR_INVALID, "skip: the shape of input 0 is expected");
}

enum bp_status onnx_contrib_skip_layer_norm(struct onnx_call *c)
{
    struct bp_layer_norm_attrs attrs = bp_layer_norm_defaults();
    struct bp_tensor *gamma = onnx_in(c, 2), *beta = onnx_in(c, 3), *y;
    struct onnx_chain k = onnx_chain_begin(c);
    uint32_t dtype, wide;

    TRY(onnx_need(c, 3));
    TRY(contrib_check_skip(c));
    TRY(contrib_check_list(c, 4, "bias"));
    dtype = onnx_info(onnx_in(c, 0)).dtype;
    wide = onnx_heads_wide(dtype);
    attrs.epsilon = onnx_attr_float(c, "epsilon", 1e-12f);
    gamma = onnx_chain_cast(&k, gamma, wide);
    if (beta) beta = onnx_chain_cast(&k, beta, wide);
    y = MAKE(&k, layer_norm, &attrs, contrib_sum(&k, 4, wide), gamma, beta);
    onnx_chain_give(&k, 0, onnx_chain_cast(&k, y, dtype));
    return onnx_chain_end(&k);
}

enum bp_status onnx_contrib_skip_rms_norm(struct onnx_call *c)
{
    struct bp_rms_norm_attrs attrs = bp_rms_norm_defaults();
    struct onnx_chain k = onnx_chain_begin(c);
    uint32_t dtype, wide;
    struct bp_tensor *y;

    TRY(onnx_need(c, 3));
    TRY(contrib_check_skip(c));
    TRY(contrib_check_list(c, 3, "bias"));
    dtype = onnx_info(onnx_in(c, 0)).dtype;
    wide = onnx_heads_wide(dtype);
    attrs.epsilon = onnx_attr_float(c, "epsilon", 1e-12f);
    y = MAKE(&k, rms_norm, &attrs, contrib_sum(&k, 3, wide),
             onnx_chain_cast(&k, onnx_in(c, 2), wide));
    onnx_chain_give(&k, 0, onnx_chain_cast(&k, y, dtype));
    return onnx_chain_end(&k);
}
