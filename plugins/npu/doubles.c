/* SPDX-License-Identifier: Apache-2.0 */
/* doubles.c: builds the calls of activations for f64, which CANN's functions of these operators do
 * not take. */
#include "builds.h"
#include "parts.h"

static const double double_root_half = 0.70710678118654752440;

static struct kit_arg double_above(struct kit_build *b, struct kit_arg x)
{
    return part_compare(b, "GtTensor", x, KIT_VALUE(KIT_NUMBER_IS(0)));
}

enum bp_status npu_relu_f64_build(struct kit_build *b)
{
    struct kit_arg zero = part_number(b, BP_F64, KIT_VALUE(KIT_NUMBER_IS(0)));

    return part_end(b, part_two(b, "Maximum", KIT_VALUE(KIT_IN(0)), zero));
}

enum bp_status npu_leaky_relu_f64_build(struct kit_build *b)
{
    struct kit_arg x = KIT_IN(0),
                   below = part_times(b, x, KIT_VALUE(KIT_SCALAR(leaky_relu, slope)));

    return part_end(b, part_where(b, double_above(b, x), x, below));
}

enum bp_status npu_elu_f64_build(struct kit_build *b)
{
    struct kit_arg x = KIT_IN(0);
    struct kit_arg below = part_times(b, part_one(b, "Expm1", x),
                                      KIT_VALUE(KIT_SCALAR(elu, alpha)));

    return part_end(b, part_where(b, double_above(b, x), x, below));
}

enum bp_status npu_celu_f64_build(struct kit_build *b)
{
    struct kit_arg x = KIT_IN(0), alpha = KIT_SCALAR(celu, alpha), below;

    below = part_two(b, "Div", x, part_number(b, BP_F64, alpha));
    below = part_times(b, part_one(b, "Expm1", below), alpha);
    return part_end(b, part_where(b, double_above(b, x), x, below));
}

enum bp_status npu_selu_f64_build(struct kit_build *b)
{
    struct kit_arg x = KIT_IN(0), scale = KIT_SCALAR(selu, scale), below;

    below = part_times(b, part_one(b, "Expm1", x), KIT_VALUE(KIT_SCALAR(selu, alpha)));
    return part_end(b, part_times(b, part_where(b, double_above(b, x), x, below), scale));
}

enum bp_status npu_silu_f64_build(struct kit_build *b)
{
    struct kit_arg x = KIT_IN(0);

    return part_end(b, part_two(b, "Mul", x, part_one(b, "Sigmoid", x)));
}

enum bp_status npu_mish_f64_build(struct kit_build *b)
{
    struct kit_arg x = KIT_IN(0);

    return part_end(b, part_two(b, "Mul", x, part_one(b, "Tanh", part_softplus(b, x))));
}

enum bp_status npu_hard_swish_f64_build(struct kit_build *b)
{
    struct kit_arg x = KIT_IN(0), zero = KIT_NUMBER_IS(0), six = KIT_NUMBER_IS(6), y;

    y = part_clamp(b, part_plus(b, x, KIT_VALUE(KIT_NUMBER_IS(3))), zero, six);
    return part_end(b, part_two(b, "Mul", x, part_two(b, "Div", y, part_number(b, BP_F64, six))));
}

enum bp_status npu_softplus_f64_build(struct kit_build *b)
{
    struct kit_arg x = KIT_IN(0), beta = KIT_SCALAR(softplus, beta), v, large, y;

    v = part_times(b, x, beta);
    large = part_compare(b, "GtTensor", v, KIT_VALUE(KIT_SCALAR(softplus, threshold)));
    y = part_one(b, "Log1p", part_one(b, "Exp", v));
    y = part_two(b, "Div", y, part_number(b, BP_F64, beta));
    return part_end(b, part_where(b, large, x, y));
}

/* x / 2 (1 + erf(x / sqrt(2))); or x / (1 + e^-v) with v = 2 sqrt(2 / pi) (x + 0.044715 x^3). */
enum bp_status npu_gelu_f64_build(struct kit_build *b)
{
    const struct bp_gelu_attrs *attrs = b->attrs;
    const double factor = 1.59576912160573071176;
    struct kit_arg x = KIT_IN(0), v;

    if (attrs->approximate) {
        v = part_times(b, part_two(b, "Mul", x, x), KIT_VALUE(KIT_NUMBER_IS(factor * 0.044715)));
        v = part_two(b, "Mul", x, part_plus(b, v, KIT_VALUE(KIT_NUMBER_IS(factor))));
        return part_end(b, part_two(b, "Mul", x, part_one(b, "Sigmoid", v)));
    }
    v = part_one(b, "Erf", part_times(b, x, KIT_VALUE(KIT_NUMBER_IS(double_root_half))));
    v = part_times(b, part_plus(b, v, KIT_VALUE(KIT_NUMBER_IS(1))), KIT_VALUE(KIT_NUMBER_IS(0.5)));
    return part_end(b, part_two(b, "Mul", x, v));
}
