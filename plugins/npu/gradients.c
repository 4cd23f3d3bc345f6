/* SPDX-License-Identifier: Apache-2.0 */
/* gradients.c: builds the calls of gradients of activations: dx from x (input 0) and dy (input 1),
 * which broadcast. */
#include "builds.h"
#include "parts.h"
#include <math.h>

enum {
    GRAD_X,
    GRAD_DY
};

/* dy where the condition is true, else 0. */
static enum bp_status grad_where(struct kit_build *b, struct kit_arg condition)
{
    struct kit_arg dy = part_in(b, GRAD_DY);

    return part_end(b, part_where_else(b, condition, dy, KIT_VALUE(KIT_NUMBER_IS(0))));
}

enum bp_status npu_relu_grad_build(struct kit_build *b)
{
    return grad_where(b,
                      part_compare(b, "GtTensor", part_in(b, GRAD_X), KIT_VALUE(KIT_NUMBER_IS(0))));
}

enum bp_status npu_leaky_relu_grad_build(struct kit_build *b)
{
    struct kit_arg above = part_compare(b, "GtTensor", part_in(b, GRAD_X),
                                        KIT_VALUE(KIT_NUMBER_IS(0)));
    struct kit_arg dy = part_in(b, GRAD_DY);

    return part_end(
        b,
        part_where(b, above, dy, part_times(b, dy, KIT_VALUE(KIT_SCALAR(leaky_relu_grad, slope)))));
}

enum bp_status npu_clip_grad_build(struct kit_build *b)
{
    struct kit_arg x = part_in(b, GRAD_X);
    struct kit_arg above = part_compare(b, "GtTensor", x, KIT_VALUE(KIT_SCALAR(clip_grad, min)));
    struct kit_arg below = part_compare(b, "LtTensor", x, KIT_VALUE(KIT_SCALAR(clip_grad, max)));

    return grad_where(b, part_test(b, "LogicalAnd", above, below));
}

/* dy where x is NaN, which is not less. */
enum bp_status npu_hard_shrink_grad_build(struct kit_build *b)
{
    struct kit_arg x = part_one(b, "Abs", part_in(b, GRAD_X));

    struct kit_arg small = part_compare(b, "LeTensor", x,
                                        KIT_VALUE(KIT_SCALAR(hard_shrink_grad, threshold)));

    return part_end(b,
                    part_where_number(b, small, KIT_VALUE(KIT_NUMBER_IS(0)), part_in(b, GRAD_DY)));
}

enum bp_status npu_elu_grad_build(struct kit_build *b)
{
    struct kit_arg x = part_in(b, GRAD_X), dy = part_in(b, GRAD_DY);
    struct kit_arg e = part_one(b, "Exp", part_times(b, x, KIT_VALUE(KIT_SCALAR(elu_grad, rate))));
    struct kit_arg below = part_two(b, "Mul", dy,
                                    part_times(b, e, KIT_VALUE(KIT_SCALAR(elu_grad, alpha))));

    return part_end(
        b, part_where(b, part_compare(b, "GtTensor", x, KIT_VALUE(KIT_NUMBER_IS(0))), dy, below));
}

enum bp_status npu_softplus_grad_build(struct kit_build *b)
{
    struct kit_arg dy = part_in(b, GRAD_DY);
    struct kit_arg v = part_times(b, part_in(b, GRAD_X),
                                  KIT_VALUE(KIT_SCALAR(softplus_grad, beta)));
    struct kit_arg above = part_compare(b, "GtTensor", v,
                                        KIT_VALUE(KIT_SCALAR(softplus_grad, threshold)));

    return part_end(b, part_where(b, above, dy, part_two(b, "Mul", dy, part_one(b, "Sigmoid", v))));
}

enum bp_status npu_hard_swish_grad_build(struct kit_build *b)
{
    struct kit_arg x = part_in(b, GRAD_X), zero = KIT_NUMBER_IS(0), six = KIT_NUMBER_IS(6), slope;
    struct kit_arg low = part_compare(b, "GtTensor", x, KIT_VALUE(KIT_NUMBER_IS(-3)));
    struct kit_arg high = part_compare(b, "GeTensor", x, KIT_VALUE(KIT_NUMBER_IS(3)));

    slope = part_plus(b, part_add(b, x, x), KIT_VALUE(KIT_NUMBER_IS(3)));
    slope = part_two(b, "Div", slope, part_number(b, part_dtype(b, x), six));
    slope = part_where_else(b, low, slope, zero);
    slope = part_where_number(b, high, KIT_VALUE(KIT_NUMBER_IS(1)), slope);
    return part_end(b, part_two(b, "Mul", part_in(b, GRAD_DY), slope));
}

/* dy (P + x P') with the probability P = (1 + erf(x / sqrt(2))) / 2. */
enum bp_status npu_gelu_grad_build(struct kit_build *b)
{
    struct kit_arg x = part_in(b, GRAD_X), half = KIT_NUMBER_IS(0.5), square, slope, p;

    p = part_plus(
        b, part_one(b, "Erf", part_times(b, x, KIT_VALUE(KIT_NUMBER_IS(0.70710678118654752440)))),
        KIT_VALUE(KIT_NUMBER_IS(1)));
    square = part_times(b, part_two(b, "Mul", x, x), KIT_VALUE(KIT_NUMBER_IS(-0.5)));
    slope = part_times(b, part_one(b, "Exp", square),
                       KIT_VALUE(KIT_NUMBER_IS(0.39894228040143267794)));
    p = part_add(b, part_times(b, p, half), part_two(b, "Mul", x, slope));
    return part_end(b, part_two(b, "Mul", part_in(b, GRAD_DY), p));
}

/* dy (s + x s (1 - s) v') with s = 1 / (1 + e^-v), v = 2 sqrt(2 / pi) (x + 0.044715 x^3). 1 - s is
 * computed as 1 / (1 + e^v), without cancellation. Beyond 40, s is 0 or 1. */
enum bp_status npu_gelu_tanh_grad_build(struct kit_build *b)
{
    const double factor = 1.59576912160573071176, cubic = 0.044715;
    struct kit_arg x = part_in(b, GRAD_X), square, v, s, rest, slope;

    x = part_clamp(b, x, KIT_VALUE(KIT_NUMBER_IS(-40)), KIT_VALUE(KIT_NUMBER_IS(40)));
    square = part_two(b, "Mul", x, x);
    v = part_plus(b, part_times(b, square, KIT_VALUE(KIT_NUMBER_IS(factor * cubic))),
                  KIT_VALUE(KIT_NUMBER_IS(factor)));
    v = part_two(b, "Mul", x, v);
    slope = part_plus(b, part_times(b, square, KIT_VALUE(KIT_NUMBER_IS(3 * factor * cubic))),
                      KIT_VALUE(KIT_NUMBER_IS(factor)));
    s = part_one(b, "Sigmoid", v);
    rest = part_two(b, "Mul", part_one(b, "Sigmoid", part_one(b, "Neg", v)), slope);
    rest = part_two(b, "Mul", part_two(b, "Mul", x, rest), s);
    return part_end(b, part_two(b, "Mul", part_in(b, GRAD_DY), part_add(b, s, rest)));
}
