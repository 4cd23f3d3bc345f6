/* SPDX-License-Identifier: Apache-2.0 */
/* binary.c: builds the calls of elementwise operators with two inputs for which CANN has no
 * function of the same meaning. */
#include "builds.h"
#include "parts.h"
#include <math.h>

enum bp_status npu_mask_build(struct kit_build *b)
{
    const struct bp_mask_attrs *attrs = b->attrs;
    struct kit_arg x = KIT_IN(0), zero = kit_temporary(b, b->in[0]->dtype, 0, NULL);

    create_fill(b, zero, 0);
    return part_end(b, attrs->invert ? part_where(b, KIT_VALUE(KIT_IN(1)), zero, x)
                                     : part_where(b, KIT_VALUE(KIT_IN(1)), x, zero));
}

/* The function Prelu takes one factor for each channel; alpha may have any shape. */
enum bp_status npu_prelu_build(struct kit_build *b)
{
    struct kit_arg x = part_in(b, 0),
                   above = part_compare(b, "GtTensor", x, KIT_VALUE(KIT_NUMBER_IS(0)));

    return part_end(b, part_where(b, above, x, part_two(b, "Mul", x, part_in(b, 1))));
}

enum bp_status npu_squared_difference_build(struct kit_build *b)
{
    struct kit_arg d = part_sub(b, part_in(b, 0), part_in(b, 1));

    return part_end(b, part_two(b, "Mul", d, d));
}

/* Integers have no NaN. Else x becomes y where it is NaN, and y becomes x. */
static enum bp_status binary_extreme(struct kit_build *b, const char *function)
{
    const uint32_t dtype = b->in[0]->dtype;
    struct kit_arg x = KIT_IN(0), y = KIT_IN(1), a, c;

    if ((BP_MASK_INT >> dtype) & 1) return part_end(b, part_two(b, function, x, y));
    a = part_where(b, part_test(b, "EqTensor", x, x), x, y);
    c = part_where(b, part_test(b, "EqTensor", y, y), y, x);
    return part_end(b, part_two(b, function, a, c));
}

enum bp_status npu_fmax_build(struct kit_build *b)
{
    return binary_extreme(b, "Maximum");
}

enum bp_status npu_fmin_build(struct kit_build *b)
{
    return binary_extreme(b, "Minimum");
}

enum bp_status npu_xlogy_build(struct kit_build *b)
{
    struct kit_arg x = part_in(b, 0), y = part_in(b, 1), zero = KIT_NUMBER_IS(0), none;

    none = part_test(b, "LogicalAnd", part_compare(b, "EqTensor", x, zero),
                     part_test(b, "EqTensor", y, y));
    return part_end(b,
                    part_where_number(b, none, zero, part_two(b, "Mul", x, part_one(b, "Log", y))));
}

/* x itself where it is NaN. */
enum bp_status npu_heaviside_build(struct kit_build *b)
{
    struct kit_arg x = KIT_IN(0), zero = KIT_SCALAR_IS(0), z;

    z = part_where_number(b, part_compare(b, "LtTensor", x, zero), zero, x);
    z = part_where_number(b, part_compare(b, "GtTensor", x, zero), KIT_VALUE(KIT_SCALAR_IS(1)), z);
    return part_end(b,
                    part_where(b, part_compare(b, "EqTensor", x, zero), KIT_VALUE(KIT_IN(1)), z));
}

/* By the bits: all of x but the highest, and that of y. */
enum bp_status npu_copysign_build(struct kit_build *b)
{
    const struct bp_view *x = b->in[0], *y = b->in[1], *z = b->out[0];
    const uint32_t dtype = x->dtype == BP_F64 ? BP_I64 : x->dtype == BP_F32 ? BP_I32 : BP_I16;
    const int64_t sign = dtype == BP_I64 ? INT64_MIN : dtype == BP_I32 ? INT32_MIN : INT16_MIN;
    struct kit_arg size, top;

    size = part_two(b, "BitwiseAndTensor",
                    kit_alias(b, KIT_VALUE(KIT_IN(0)), dtype, x->rank, x->shape, x->stride, 0),
                    part_number(b, dtype, KIT_VALUE(KIT_SCALAR_IS(~sign))));
    top = part_two(b, "BitwiseAndTensor",
                   kit_alias(b, KIT_VALUE(KIT_IN(1)), dtype, y->rank, y->shape, y->stride, 0),
                   part_number(b, dtype, KIT_VALUE(KIT_SCALAR_IS(sign))));
    KIT_STEP(b, "BitwiseOrTensor", size, top,
             kit_alias(b, KIT_VALUE(KIT_OUT(0)), dtype, z->rank, z->shape, z->stride, 0));
    return part_pack(b);
}

/* `far` where the largest side is above 2^500, `near` where it is below 2^-500, else 1. */
static struct kit_arg binary_hypot_scale(struct kit_build *b, struct kit_arg most, double far,
                                         double near)
{
    const struct kit_arg one = KIT_NUMBER_IS(1), above = KIT_NUMBER_IS(0x1p500);
    struct kit_arg z = KIT_NUMBER_IS(near), number = KIT_NUMBER_IS(far);

    z = part_where_else(b, part_compare(b, "LtTensor", most, KIT_VALUE(KIT_NUMBER_IS(0x1p-500))),
                        part_number(b, BP_F64, z), one);
    return part_where_number(b, part_compare(b, "GtTensor", most, above), number, z);
}

/* The squares of f32 and half types are in the range of f64; the sides of f64 are scaled by powers
 * of two. An infinite side is longer than any other. */
struct kit_arg npu_hypot(struct kit_build *b, struct kit_arg x, struct kit_arg y, bool is_wide)
{
    const struct kit_arg end = KIT_NUMBER_IS(INFINITY);
    struct kit_arg reached, most = KIT_NONE, scale, z;

    x = part_one(b, "Abs", x), y = part_one(b, "Abs", y);
    reached = part_test(b, "LogicalOr", part_compare(b, "EqTensor", x, end),
                        part_compare(b, "EqTensor", y, end));
    if (is_wide) {
        most = part_two(b, "Maximum", x, y);
        scale = binary_hypot_scale(b, most, 0x1p-600, 0x1p600);
        x = part_two(b, "Mul", x, scale), y = part_two(b, "Mul", y, scale);
    }
    z = part_one(b, "Sqrt", part_add(b, part_two(b, "Mul", x, x), part_two(b, "Mul", y, y)));
    if (is_wide) z = part_two(b, "Mul", z, binary_hypot_scale(b, most, 0x1p600, 0x1p-600));
    return part_where_number(b, reached, end, z);
}

enum bp_status npu_hypot_build(struct kit_build *b)
{
    return part_end(b, npu_hypot(b, part_cast(b, KIT_VALUE(KIT_IN(0)), BP_F64),
                                 part_cast(b, KIT_VALUE(KIT_IN(1)), BP_F64),
                                 b->in[0]->dtype == BP_F64));
}

/* An infinity is close to itself only; the attributes may make NaN close to NaN. */
enum bp_status npu_isclose_build(struct kit_build *b)
{
    const struct bp_isclose_attrs *attrs = b->attrs;
    struct kit_arg x = part_in(b, 0), y = part_in(b, 1), limit, close, none;
    struct kit_arg rtol = KIT_NUMBER_IS(attrs->rtol), atol = KIT_NUMBER_IS(attrs->atol);
    struct kit_arg nan_too = KIT_SCALAR_IS(attrs->equal_nan != 0);

    limit = part_plus(b, part_times(b, part_one(b, "Abs", y), rtol), atol);
    close = part_test(b, "LeTensor", part_one(b, "Abs", part_sub(b, x, y)), limit);
    close = part_test(
        b, "LogicalAnd", close,
        part_compare(b, "LtTensor", part_one(b, "Abs", y), KIT_VALUE(KIT_NUMBER_IS(INFINITY))));
    close = part_test(b, "LogicalOr", close, part_test(b, "EqTensor", x, y));
    none = part_test(b, "LogicalAnd", part_test(b, "NeTensor", x, x),
                     part_test(b, "NeTensor", y, y));
    none = part_test(b, "LogicalAnd", none, part_number(b, BP_BOOL, nan_too));
    return part_end(b, part_test(b, "LogicalOr", close, none));
}
