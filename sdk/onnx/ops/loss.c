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
    struct bp_tensor *loss = NULL;

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

/* From opset 24 on, scales may be powers of two, which quantize_linear does not take. */
static bool has_powers(const struct onnx_call *c)
{
    return onnx_info(onnx_in(c, 1)).dtype == BP_F8E8M0;
}

/* Repeats the value of each block for all elements of the block. */
static struct bp_tensor *loss_spread(struct onnx_chain *k, struct bp_tensor *t, int64_t axis,
                                     int64_t block, int64_t extent)
{
    struct bp_repeat_interleave_attrs repeat = bp_repeat_interleave_defaults();

    repeat.axis = axis;
    repeat.repeats = block;
    return onnx_chain_slice(k, MAKE(k, repeat_interleave, &repeat, t), axis, 0, extent, 1);
}

/* Where scales and zero points lie: one for each block of elements along an axis, or (block 0) one
 * for each element of the axis or for all of x. */
struct scales {
    int64_t axis, block;
    struct bp_tensor_info x;
};

static enum bp_status scales_of(struct onnx_call *c, struct scales *s)
{
    struct bp_tensor_info blocks = onnx_info(onnx_in(c, 1));
    int64_t extent;

    *s = (struct scales){.axis = scale_axis(c, onnx_in(c, 1)), .x = onnx_info(onnx_in(c, 0))};
    if (has_blocks(c)) {
        s->axis = onnx_attr_int(c, "axis", 1);
        s->block = onnx_attr_int(c, "block_size", 0);
    }
    if (s->x.rank) TRY(onnx_axis(s->axis, s->x.rank, &s->axis));
    else if (has_blocks(c) || blocks.count != 1)
        return onnx_error(BP_ERR_INVALID, "x is a scalar: one scale is expected, without blocks");
    if (!has_blocks(c)) return BP_OK;
    extent = s->x.shape[s->axis];
    if (s->block < 1 || blocks.rank != s->x.rank ||
        blocks.shape[s->axis] != (extent + s->block - 1) / s->block)
        return onnx_error(BP_ERR_INVALID, "the scales are not one for each block of %lld along "
                          "axis %lld", (long long)s->block, (long long)s->axis);
    return BP_OK;
}

/* Returns scales or zero points, as f32, in a shape that broadcasts to that of x. */
static struct bp_tensor *scales_over(struct onnx_chain *k, const struct scales *s,
                                     struct bp_tensor *t)
{
    int64_t shape[BP_RANK_MAX] = {onnx_info(t).count}, rank = (int64_t)s->x.rank - s->axis;

    t = onnx_chain_cast(k, t, BP_F32);
    if (s->block) return loss_spread(k, t, s->axis, s->block, s->x.shape[s->axis]);
    if (shape[0] == 1) return onnx_chain_reshape(k, t, 0, shape);
    for (int64_t i = 1; i < rank; i++) shape[i] = 1;
    return onnx_chain_reshape(k, t, rank, shape);
}

/* Quantises in f32, for types and blocks that quantize_linear does not have: to f8 types, the sum
 * of the quotient and the zero point is rounded; to integers, the quotient is. */
static enum bp_status quantize_composed(struct onnx_call *c, uint32_t dtype)
{
    struct bp_tensor *x = onnx_in(c, 0), *zero = onnx_in(c, 2);
    struct bp_cast_attrs cast = bp_cast_defaults();
    struct onnx_chain k = onnx_chain_begin(c);
    struct scales s;

    TRY(scales_of(c, &s));
    cast.to = dtype;
    cast.overflow = !onnx_attr_int(c, "saturate", 1);
    x = MAKE(&k, div, NULL, onnx_chain_cast(&k, x, BP_F32), scales_over(&k, &s, onnx_in(c, 1)));
    if (BP_MASK_INT >> dtype & 1) x = MAKE(&k, round, NULL, x);
    if (zero) x = MAKE(&k, add, NULL, x, scales_over(&k, &s, zero));
    onnx_chain_give(&k, 0, onnx_chain_cast_by(&k, x, &cast));
    return onnx_chain_end(&k);
}

enum bp_status onnx_quantize(struct onnx_call *c)
{
    struct bp_quantize_linear_attrs attrs = bp_quantize_linear_defaults();
    struct bp_tensor *x = onnx_in(c, 0), *scale = onnx_in(c, 1), *zero = onnx_in(c, 2);
    struct onnx_chain k = onnx_chain_begin(c);
    uint32_t dtype;

    TRY(onnx_need(c, 2));
    TRY(onnx_attr_dtype(c, "output_dtype", (uint32_t)attrs.dtype, &dtype));
    if (zero) dtype = onnx_info(zero).dtype;
    if (has_blocks(c) || has_powers(c) || ONNX_QUANTISED_F8 >> dtype & 1)
        return quantize_composed(c, dtype);
    attrs.axis = scale_axis(c, scale);
    attrs.dtype = dtype;
    x = onnx_chain_cast(&k, x, onnx_info(scale).dtype);
    onnx_chain_give(&k, 0, MAKE(&k, quantize_linear, &attrs, x, scale, zero));
    return onnx_chain_end(&k);
}

/* Computes (x - zero) scale in f32, for types and blocks that dequantize_linear does not have. */
static enum bp_status dequantize_composed(struct onnx_call *c, uint32_t dtype)
{
    struct bp_tensor *x = onnx_in(c, 0), *zero = onnx_in(c, 2);
    struct onnx_chain k = onnx_chain_begin(c);
    struct scales s;

    TRY(scales_of(c, &s));
    x = onnx_chain_cast(&k, x, BP_F32);
    if (zero) x = MAKE(&k, sub, NULL, x, scales_over(&k, &s, zero));
    x = MAKE(&k, mul, NULL, x, scales_over(&k, &s, onnx_in(c, 1)));
    onnx_chain_give(&k, 0, onnx_chain_cast(&k, x, dtype));
    return onnx_chain_end(&k);
}

enum bp_status onnx_dequantize(struct onnx_call *c)
{
    struct bp_dequantize_linear_attrs attrs = bp_dequantize_linear_defaults();
    struct bp_tensor *x = onnx_in(c, 0), *scale = onnx_in(c, 1), *y = NULL;
    uint32_t dtype;

    TRY(onnx_need(c, 2));
    TRY(onnx_attr_dtype(c, "output_dtype", onnx_info(scale).dtype, &dtype));
    if (has_powers(c) && !((BP_M(F16) | BP_M(BF16) | BP_M(F32)) >> dtype & 1))
        return onnx_error(BP_ERR_INVALID, "the scales are f8e8m0, output_dtype is %s, expected "
                          "f16, bf16 or f32", bp_dtype_name(dtype));
    if (!has_powers(c) && dtype != onnx_info(scale).dtype)
        return onnx_error(BP_ERR_UNSUPPORTED, "output_dtype is %s, that of the scales, %s, is "
                          "supported", bp_dtype_name(dtype), bp_dtype_name(onnx_info(scale).dtype));
    if (has_blocks(c) || has_powers(c) || ONNX_QUANTISED_F8 >> onnx_info(x).dtype & 1)
        return dequantize_composed(c, dtype);
    attrs.axis = scale_axis(c, scale);
    TRY(bp_op_dequantize_linear(c->scope, x, scale, onnx_in(c, 2), &attrs, &y));
    return onnx_give(c, 0, y);
}
