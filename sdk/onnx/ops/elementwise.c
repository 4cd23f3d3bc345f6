/* SPDX-License-Identifier: Apache-2.0 */
/* elementwise.c: runs elementwise operators whose older versions broadcast differently, or that
 * need more than one operator. */
#include "../chain.h"
#include "../ops.h"
#include <math.h>
#include <string.h>

static struct bp_tensor *elementwise_two(struct onnx_chain *k, const char *op, struct bp_tensor *x,
                                         struct bp_tensor *y)
{
    return onnx_chain_call(k, op, NULL, (struct bp_tensor *[]){x, y}, 2);
}

/* Before opset 7 the right operand is aligned with the left one from `axis` on: this function
 * appends extents of 1 to it. */
static struct bp_tensor *elementwise_align(struct onnx_chain *k, struct bp_tensor *x,
                                           struct bp_tensor *y)
{
    struct bp_tensor_info a = onnx_info(x), b = onnx_info(y);
    int64_t axis = onnx_attr_int(k->call, "axis", (int64_t)a.rank - (int64_t)b.rank);
    int64_t shape[ONNX_RANK_MAX], given = axis;

    if (k->call->node->opset >= 7 || !onnx_attr(k->call->node, "axis") || b.rank >= a.rank)
        return y;
    if (axis < 0) axis += a.rank;
    if (axis < 0 || axis > (int64_t)a.rank - (int64_t)b.rank) {
        k->status = onnx_error(BP_ERR_INVALID,
                               "attribute axis is %lld, expected 0 to %u, where input 1 of %u axes "
                               "begins in input 0 of %u axes",
                               (long long)given, a.rank - b.rank, b.rank, a.rank);
        return y;
    }
    for (uint32_t i = 0; i < a.rank - axis; i++) shape[i] = i < b.rank ? b.shape[i] : 1;
    return onnx_chain_reshape(k, y, a.rank - axis, shape);
}

/* Runs op on both inputs, after they are aligned. */
static enum bp_status elementwise_aligned(struct onnx_call *c, const char *op)
{
    struct onnx_chain k = onnx_chain_begin(c);
    struct bp_tensor *x = onnx_in(c, 0);

    TRY(onnx_need(c, 2));
    onnx_chain_give(&k, 0, elementwise_two(&k, op, x, elementwise_align(&k, x, onnx_in(c, 1))));
    return onnx_chain_end(&k);
}

enum bp_status onnx_binary(struct onnx_call *c)
{
    return elementwise_aligned(c, c->node->row->op);
}

enum bp_status onnx_bit_shift(struct onnx_call *c)
{
    return elementwise_aligned(c, onnx_attr_is(c, "direction", "LEFT", "") ? "left_shift"
                                                                           : "right_shift");
}

/* The remainder of a floored quotient has the sign of the divisor, also if it is zero. */
enum bp_status onnx_mod(struct onnx_call *c)
{
    struct onnx_chain k = onnx_chain_begin(c);
    struct bp_tensor *x = onnx_in(c, 0), *y = onnx_in(c, 1);

    TRY(onnx_need(c, 2));
    if (onnx_attr_int(c, "fmod", 0)) return elementwise_aligned(c, "fmod");
    if (!(BP_MASK_FLOAT >> onnx_info(x).dtype & 1)) return elementwise_aligned(c, "mod");
    onnx_chain_give(&k, 0, elementwise_two(&k, "copysign", elementwise_two(&k, "mod", x, y), y));
    return onnx_chain_end(&k);
}

/* Integers are divided toward zero: (x - fmod(x, y)) / y. */
enum bp_status onnx_div(struct onnx_call *c)
{
    struct onnx_chain k = onnx_chain_begin(c);
    struct bp_tensor *x = onnx_in(c, 0), *y;

    TRY(onnx_need(c, 2));
    if (!(BP_MASK_INT >> onnx_info(x).dtype & 1)) return elementwise_aligned(c, "div");
    y = elementwise_align(&k, x, onnx_in(c, 1));
    onnx_chain_give(
        &k, 0,
        elementwise_two(&k, "floor_divide",
                        elementwise_two(&k, "sub", x, elementwise_two(&k, "fmod", x, y)), y));
    return onnx_chain_end(&k);
}

/* The exponent may have another dtype; the result has the dtype of the base. An integer base with a
 * float exponent is computed in f64. */
enum bp_status onnx_pow(struct onnx_call *c)
{
    struct onnx_chain k = onnx_chain_begin(c);
    struct bp_tensor *x = onnx_in(c, 0), *y = onnx_in(c, 1);
    uint32_t base, inner;

    TRY(onnx_need(c, 2));
    base = onnx_info(x).dtype;
    if (base == onnx_info(y).dtype) return elementwise_aligned(c, "pow");
    inner = BP_MASK_FLOAT >> base & 1 ? base : BP_F64;
    x = elementwise_two(&k, "pow", onnx_chain_cast(&k, x, inner), onnx_chain_cast(&k, y, inner));
    onnx_chain_give(&k, 0, onnx_chain_cast(&k, x, base));
    return onnx_chain_end(&k);
}

/* Combines all inputs from left to right. It uses no chain, because the number of inputs has no
 * limit. */
static enum bp_status elementwise_fold(struct onnx_call *c, const char *op, struct bp_tensor **out)
{
    struct bp_tensor *pair[] = {onnx_in(c, 0), NULL}, *joined;
    const struct bp_arg in[] = {{&pair[0], 1}, {&pair[1], 1}};
    const struct bp_call call = {.size = sizeof call, .op = op, .in = in, .n_in = 2};

    TRY(onnx_need(c, c->node->n_in ? c->node->n_in : 1));
    if (c->node->n_in == 1) return bp_op_assign(c->scope, pair[0], out);
    for (uint32_t i = 1; i < c->node->n_in; i++) {
        enum bp_status status;
        pair[1] = onnx_in(c, i);
        joined = NULL;
        status = bp_call_run(c->scope, &call, &joined, 1, NULL);
        if (i > 1) bp_tensor_destroy(pair[0]);
        if (status) return status;
        pair[0] = joined;
    }
    *out = pair[0];
    return BP_OK;
}

enum bp_status onnx_variadic(struct onnx_call *c)
{
    struct bp_tensor *y = NULL;

    TRY(elementwise_fold(c, c->node->row->op, &y));
    return onnx_give(c, 0, y);
}

enum bp_status onnx_mean(struct onnx_call *c)
{
    struct onnx_chain k = onnx_chain_begin(c);
    struct bp_tensor *sum = NULL;

    TRY(elementwise_fold(c, "add", &sum));
    sum = onnx_chain_take(&k, sum);
    onnx_chain_give(&k, 0, onnx_chain_scale(&k, sum, 1.0 / c->node->n_in, 0));
    return onnx_chain_end(&k);
}

/* A cast to the same dtype is the value itself. saturate matters for f8 types only, round_mode for
 * f8e8m0 only. */
static enum bp_status cast_to(struct onnx_call *c, uint32_t dtype)
{
    struct bp_cast_attrs attrs = bp_cast_defaults();
    struct onnx_chain k = onnx_chain_begin(c);

    attrs.to = dtype;
    attrs.overflow = !onnx_attr_int(c, "saturate", 1);
    if (dtype == BP_F8E8M0)
        attrs.round = onnx_attr_is(c, "round_mode", "nearest", "up") ? BP_CAST_ROUND_NEAREST
                      : onnx_attr_is(c, "round_mode", "down", "up")  ? BP_CAST_ROUND_DOWN
                                                                     : BP_CAST_ROUND_UP;
    onnx_chain_give(&k, 0, onnx_chain_cast_by(&k, onnx_in(c, 0), &attrs));
    return onnx_chain_end(&k);
}

enum bp_status onnx_cast(struct onnx_call *c)
{
    uint32_t dtype;

    TRY(onnx_need(c, 1));
    TRY(onnx_attr_dtype(c, "to", ONNX_NO_DTYPE, &dtype));
    return cast_to(c, dtype);
}

enum bp_status onnx_cast_like(struct onnx_call *c)
{
    TRY(onnx_need(c, 2));
    return cast_to(c, onnx_info(onnx_in(c, 1)).dtype);
}

/* A bool is made from a byte that is 0 or 1. */
enum bp_status onnx_bit_cast(struct onnx_call *c)
{
    struct bp_bit_cast_attrs attrs = bp_bit_cast_defaults();
    struct onnx_chain k = onnx_chain_begin(c);
    struct bp_tensor *x = onnx_in(c, 0);
    uint32_t from, to;

    TRY(onnx_need(c, 1));
    TRY(onnx_attr_dtype(c, "to", ONNX_NO_DTYPE, &to));
    from = onnx_info(x).dtype;
    if (bp_dtype_bits(from) != bp_dtype_bits(to))
        return onnx_error(BP_ERR_INVALID, "x is %s, attribute to is %s, of another width",
                          bp_dtype_name(from), bp_dtype_name(to));
    attrs.to = to == BP_BOOL ? BP_U8 : to;
    if (from != to) x = MAKE(&k, bit_cast, &attrs, x);
    onnx_chain_give(&k, 0, onnx_chain_cast(&k, x, to));
    return onnx_chain_end(&k);
}

/* The bounds are tensors: computes maximum, then minimum. */
enum bp_status onnx_clip(struct onnx_call *c)
{
    struct bp_tensor *x = onnx_in(c, 0), *low = onnx_in(c, 1), *high = onnx_in(c, 2);
    struct onnx_chain k = onnx_chain_begin(c);

    TRY(onnx_need(c, 1));
    if (low) x = elementwise_two(&k, "maximum", x, low);
    if (high) x = elementwise_two(&k, "minimum", x, high);
    onnx_chain_give(&k, 0, x);
    return onnx_chain_end(&k);
}

enum bp_status onnx_gelu(struct onnx_call *c)
{
    struct bp_gelu_attrs attrs = bp_gelu_defaults();
    struct bp_tensor *x = onnx_in(c, 0), *y = NULL;

    attrs.approximate = onnx_attr_is(c, "approximate", "tanh", "none");
    TRY(bp_op_gelu(c->scope, x, &attrs, &y));
    return onnx_give(c, 0, y);
}

/* Multiplies swish of the gate by the value. Both have one shape: nothing is broadcast. */
enum bp_status onnx_swiglu(struct onnx_call *c)
{
    struct bp_swiglu_attrs attrs = bp_swiglu_defaults();
    struct bp_tensor *y = NULL;

    TRY(onnx_need(c, 2));
    attrs.alpha = onnx_attr_float(c, "alpha", 1);
    TRY(bp_op_swiglu(c->scope, onnx_in(c, 0), onnx_in(c, 1), &attrs, &y));
    return onnx_give(c, 0, y);
}

enum bp_status onnx_identity(struct onnx_call *c)
{
    struct onnx_value *v = onnx_in_value(c, 0);

    if (!v) return onnx_error(BP_ERR_INVALID, "an input is expected");
    return onnx_give_value(c, 0, onnx_value_retain(v));
}

/* For one sign only: compares x with the infinity of that sign. */
enum bp_status onnx_is_inf(struct onnx_call *c)
{
    int64_t negative = onnx_attr_int(c, "detect_negative", 1);
    int64_t positive = onnx_attr_int(c, "detect_positive", 1);
    struct bp_full_like_attrs attrs = bp_full_like_defaults();
    struct onnx_chain k = onnx_chain_begin(c);
    struct bp_tensor *x = onnx_in(c, 0), *y;

    TRY(onnx_need(c, 1));
    attrs.value = negative ? -INFINITY : positive ? INFINITY : NAN;
    if (negative && positive) y = MAKE(&k, isinf, NULL, x);
    else y = elementwise_two(&k, "equal", x, MAKE(&k, full_like, &attrs, x));
    onnx_chain_give(&k, 0, y);
    return onnx_chain_end(&k);
}

/* The slope has a value for each channel; before opset 7 it is a list. */
enum bp_status onnx_prelu(struct onnx_call *c)
{
    struct bp_tensor *x = onnx_in(c, 0), *slope = onnx_in(c, 1);
    struct onnx_chain k = onnx_chain_begin(c);

    TRY(onnx_need(c, 2));
    if (c->node->opset < 7 && onnx_info(slope).rank == 1 && onnx_info(x).rank > 2) {
        int64_t shape[ONNX_RANK_MAX] = {onnx_info(slope).count, 1, 1, 1, 1, 1, 1, 1};
        slope = onnx_chain_reshape(&k, slope, onnx_info(x).rank - 1, shape);
    }
    onnx_chain_give(&k, 0, elementwise_two(&k, "prelu", x, slope));
    return onnx_chain_end(&k);
}

/* Integers are computed in f64 and truncated. */
enum bp_status onnx_shrink(struct onnx_call *c)
{
    struct bp_shrink_attrs attrs = bp_shrink_defaults();
    struct onnx_chain k = onnx_chain_begin(c);
    struct bp_tensor *x = onnx_in(c, 0), *y;
    uint32_t dtype;

    TRY(onnx_need(c, 1));
    dtype = onnx_info(x).dtype;
    attrs.lambd = onnx_attr_float(c, "lambd", 0.5);
    attrs.bias = onnx_attr_float(c, "bias", 0);
    y = MAKE(&k, shrink, &attrs,
             onnx_chain_cast(&k, x, BP_MASK_INT >> dtype & 1 ? BP_F64 : dtype));
    onnx_chain_give(&k, 0, onnx_chain_cast(&k, y, dtype));
    return onnx_chain_end(&k);
}
