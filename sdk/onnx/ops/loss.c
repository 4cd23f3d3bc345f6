/* SPDX-License-Identifier: Apache-2.0 */
/* loss.c: runs losses over classes, and quantisation (QuantizeLinear, DequantizeLinear). */
#include "../chain.h"
#include "list.h"

/* The number of a reduction in the attributes of nll_loss and cross_entropy. */
static int64_t loss_reduction(const struct onnx_call *c)
{
    return onnx_attr_is(c, "reduction", "none", "mean")   ? 0
           : onnx_attr_is(c, "reduction", "mean", "mean") ? 1
                                                          : 2;
}

enum bp_status onnx_nll_loss(struct onnx_call *c)
{
    struct bp_nll_loss_attrs attrs = bp_nll_loss_defaults();
    struct bp_tensor *loss;

    attrs.reduction = loss_reduction(c);
    attrs.axis = 1;
    attrs.ignore_index = onnx_attr_int(c, "ignore_index", attrs.ignore_index);
    TRY(bp_op_nll_loss(c->scope, onnx_in(c, 0), onnx_in(c, 1), onnx_in(c, 2), &attrs, &loss));
    return onnx_give(c, 0, loss);
}

enum bp_status onnx_cross_entropy(struct onnx_call *c)
{
    struct bp_cross_entropy_attrs attrs = bp_cross_entropy_defaults();
    struct bp_log_softmax_attrs classes = bp_log_softmax_defaults();
    struct onnx_chain k = onnx_chain_begin(c);

    attrs.reduction = loss_reduction(c);
    attrs.axis = classes.axis = 1;
    attrs.ignore_index = onnx_attr_int(c, "ignore_index", attrs.ignore_index);
    onnx_chain_give(&k, 0, MAKE(&k, cross_entropy, &attrs, onnx_in(c, 0), onnx_in(c, 1),
                                onnx_in(c, 2)));
    if (onnx_wants(c, 1)) onnx_chain_give(&k, 1, MAKE(&k, log_softmax, &classes, onnx_in(c, 0)));
    return onnx_chain_end(&k);
}

/* The axis of a list of scales. With one scale the axis has no meaning, and x may lack it. */
static int64_t scale_axis(const struct onnx_call *c, struct bp_tensor *scale)
{
    return onnx_info(scale).count == 1 ? 0 : onnx_attr_int(c, "axis", 1);
}

/* From opset 21 on, a scale may belong to a block. */
static bool has_blocks(const struct onnx_call *c)
{
    return onnx_attr_int(c, "block_size", 0) || onnx_info(onnx_in(c, 1)).rank > 1;
}

enum bp_status onnx_quantize(struct onnx_call *c)
{
    struct bp_quantize_linear_attrs attrs = bp_quantize_linear_defaults();
    struct bp_tensor *x = onnx_in(c, 0), *scale = onnx_in(c, 1);
    struct onnx_chain k = onnx_chain_begin(c);
    uint32_t dtype;

    TRY(onnx_need(c, 2));
    if (has_blocks(c)) return onnx_error(BP_ERR_UNSUPPORTED, "scales of blocks are not supported");
    attrs.axis = scale_axis(c, scale);
    TRY(onnx_attr_dtype(c, "output_dtype", (uint32_t)attrs.dtype, &dtype));
    attrs.dtype = dtype;
    x = onnx_chain_cast(&k, x, onnx_info(scale).dtype);
    onnx_chain_give(&k, 0, MAKE(&k, quantize_linear, &attrs, x, scale, onnx_in(c, 2)));
    return onnx_chain_end(&k);
}

/* Repeats the value of each block for all elements of the block, as f32. */
static struct bp_tensor *loss_spread(struct onnx_chain *k, struct bp_tensor *t, int64_t axis,
                                     int64_t block, int64_t extent)
{
    struct bp_repeat_interleave_attrs repeat = bp_repeat_interleave_defaults();

    repeat.axis = axis;
    repeat.repeats = block;
    t = MAKE(k, repeat_interleave, &repeat, onnx_chain_cast(k, t, BP_F32));
    return onnx_chain_slice(k, t, axis, 0, extent, 1);
}

/* Computes (x - zero) scale, with one scale and one zero point for each block of elements along an
 * axis. */
static enum bp_status dequantize_blocks(struct onnx_call *c)
{
    int64_t axis = onnx_attr_int(c, "axis", 1), block = onnx_attr_int(c, "block_size", 0), extent;
    struct bp_tensor *x = onnx_in(c, 0), *scale = onnx_in(c, 1), *zero = onnx_in(c, 2);
    struct bp_tensor_info info = onnx_info(x), blocks = onnx_info(scale);
    struct onnx_chain k = onnx_chain_begin(c);

    TRY(onnx_axis(axis, info.rank, &axis));
    extent = info.shape[axis];
    if (block < 1 || blocks.rank != info.rank || blocks.shape[axis] != (extent + block - 1) / block)
        return onnx_error(BP_ERR_INVALID, "the scales are not one for each block of %lld along "
                          "axis %lld", (long long)block, (long long)axis);
    x = onnx_chain_cast(&k, x, BP_F32);
    if (zero) x = MAKE(&k, sub, NULL, x, loss_spread(&k, zero, axis, block, extent));
    x = MAKE(&k, mul, NULL, x, loss_spread(&k, scale, axis, block, extent));
    onnx_chain_give(&k, 0, onnx_chain_cast(&k, x, blocks.dtype));
    return onnx_chain_end(&k);
}

enum bp_status onnx_dequantize(struct onnx_call *c)
{
    struct bp_dequantize_linear_attrs attrs = bp_dequantize_linear_defaults();
    struct bp_tensor *x = onnx_in(c, 0), *scale = onnx_in(c, 1), *y;
    uint32_t dtype;

    TRY(onnx_need(c, 2));
    TRY(onnx_attr_dtype(c, "output_dtype", onnx_info(scale).dtype, &dtype));
    if (dtype != onnx_info(scale).dtype)
        return onnx_error(BP_ERR_UNSUPPORTED, "output_dtype is %s, that of the scales, %s, is "
                          "supported", bp_dtype_name(dtype), bp_dtype_name(onnx_info(scale).dtype));
    if (has_blocks(c)) return dequantize_blocks(c);
    attrs.axis = scale_axis(c, scale);
    TRY(bp_op_dequantize_linear(c->scope, x, scale, onnx_in(c, 2), &attrs, &y));
    return onnx_give(c, 0, y);
}
