/* SPDX-License-Identifier: Apache-2.0 */
/* random.c: runs operators that draw random numbers. The numbers come from the generator of the
 * stream; a node's seed is not used. */
#include "../chain.h"
#include "../ops.h"

/* Reads the shape of input 0, and its dtype unless the node names another. */
static enum bp_status random_like(const struct onnx_call *c, struct bp_dims *shape, int64_t *dtype)
{
    struct bp_tensor *x = onnx_in(c, 0);
    struct bp_tensor_info info;
    uint32_t made;

    TRY(onnx_need(c, 1));
    info = onnx_info(x);
    TRY(onnx_attr_dtype(c, "dtype", info.dtype, &made));
    *shape = (struct bp_dims){info.shape, info.rank};
    *dtype = made;
    return BP_OK;
}

enum bp_status onnx_normal_like(struct onnx_call *c)
{
    struct bp_normal_attrs attrs = bp_normal_defaults();
    struct bp_tensor *y = NULL;

    TRY(random_like(c, &attrs.shape, &attrs.dtype));
    attrs.mean = onnx_attr_float(c, "mean", 0);
    attrs.std = onnx_attr_float(c, "scale", 1);
    TRY(bp_op_normal(c->scope, NULL, &attrs, &y));
    return onnx_give(c, 0, y);
}

enum bp_status onnx_uniform_like(struct onnx_call *c)
{
    struct bp_uniform_attrs attrs = bp_uniform_defaults();
    struct bp_tensor *y = NULL;

    TRY(random_like(c, &attrs.shape, &attrs.dtype));
    attrs.low = onnx_attr_float(c, "low", 0);
    attrs.high = onnx_attr_float(c, "high", 1);
    TRY(bp_op_uniform(c->scope, NULL, &attrs, &y));
    return onnx_give(c, 0, y);
}

enum bp_status onnx_bernoulli(struct onnx_call *c)
{
    struct onnx_chain k = onnx_chain_begin(c);
    struct bp_tensor *p = onnx_in(c, 0);
    uint32_t dtype;

    TRY(onnx_need(c, 1));
    TRY(onnx_attr_dtype(c, "dtype", onnx_info(p).dtype, &dtype));
    onnx_chain_give(&k, 0, onnx_chain_cast(&k, MAKE(&k, bernoulli, NULL, p), dtype));
    return onnx_chain_end(&k);
}

/* x has logarithms of weights. */
enum bp_status onnx_multinomial(struct onnx_call *c)
{
    struct bp_multinomial_attrs attrs = bp_multinomial_defaults();
    struct onnx_chain k = onnx_chain_begin(c);
    struct bp_tensor *x = onnx_in(c, 0);
    uint32_t dtype;

    TRY(onnx_attr_dtype(c, "dtype", BP_I32, &dtype));
    attrs.n = onnx_attr_int(c, "sample_size", 1);
    attrs.replacement = 1;
    x = MAKE(&k, multinomial, &attrs, MAKE(&k, softmax, NULL, x));
    onnx_chain_give(&k, 0, onnx_chain_cast(&k, x, dtype));
    return onnx_chain_end(&k);
}
