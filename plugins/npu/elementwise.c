/* SPDX-License-Identifier: Apache-2.0 */
/* elementwise.c: builds the calls of activations and other operators with one input for which CANN
 * has no function of the same meaning. */
#include "builds.h"
#include "parts.h"
#include <math.h>

static const double element_pi = 3.14159265358979323846;

enum bp_status npu_leaky_relu_build(struct kit_build *b)
{
    return KIT_STEP(b, "LeakyRelu", KIT_IN(0), KIT_SCALAR(leaky_relu, slope), KIT_OUT(0));
}

enum bp_status npu_elu_build(struct kit_build *b)
{
    return KIT_STEP(b, "Elu", KIT_IN(0), KIT_SCALAR(elu, alpha), KIT_SCALAR_IS(1), KIT_SCALAR_IS(1),
                    KIT_OUT(0));
}

enum bp_status npu_celu_build(struct kit_build *b)
{
    return KIT_STEP(b, "Celu", KIT_IN(0), KIT_SCALAR(celu, alpha), KIT_OUT(0));
}

/* The function Selu has constants of its own. */
enum bp_status npu_selu_build(struct kit_build *b)
{
    return KIT_STEP(b, "Elu", KIT_IN(0), KIT_SCALAR(selu, alpha), KIT_SCALAR(selu, scale),
                    KIT_SCALAR_IS(1), KIT_OUT(0));
}

enum bp_status npu_softplus_build(struct kit_build *b)
{
    return KIT_STEP(b, "Softplus", KIT_IN(0), KIT_SCALAR(softplus, beta),
                    KIT_SCALAR(softplus, threshold), KIT_OUT(0));
}

enum bp_status npu_clip_build(struct kit_build *b)
{
    return KIT_STEP(b, "Clamp", KIT_IN(0), KIT_SCALAR(clip, min), KIT_SCALAR(clip, max),
                    KIT_OUT(0));
}

enum bp_status npu_hard_tanh_build(struct kit_build *b)
{
    return KIT_STEP(b, "Clamp", KIT_IN(0), KIT_SCALAR(hard_tanh, min), KIT_SCALAR(hard_tanh, max),
                    KIT_OUT(0));
}

enum bp_status npu_addcmul_build(struct kit_build *b)
{
    return KIT_STEP(b, "Addcmul", KIT_IN(0), KIT_IN(1), KIT_IN(2), KIT_SCALAR(addcmul, value),
                    KIT_OUT(0));
}

enum bp_status npu_addcdiv_build(struct kit_build *b)
{
    return KIT_STEP(b, "Addcdiv", KIT_IN(0), KIT_IN(1), KIT_IN(2), KIT_SCALAR(addcdiv, value),
                    KIT_OUT(0));
}

enum bp_status npu_isinf_build(struct kit_build *b)
{
    struct kit_arg x = KIT_IN(0);

    return part_end(
        b, part_compare(b, "EqTensor", part_one(b, "Abs", x), KIT_VALUE(KIT_NUMBER_IS(INFINITY))));
}

enum bp_status npu_frac_build(struct kit_build *b)
{
    struct kit_arg x = KIT_IN(0);

    return part_end(b, part_sub(b, x, part_one(b, "Trunc", x)));
}

/* Whether these two functions take bf16 is not known: they get f32. */
enum bp_status npu_lgamma_bf16_build(struct kit_build *b)
{
    return part_end(b, part_one(b, "Lgamma", part_in(b, 0)));
}

enum bp_status npu_digamma_bf16_build(struct kit_build *b)
{
    return part_end(b, part_one(b, "Digamma", part_in(b, 0)));
}

enum {
    TRIGAMMA_STEPS = 16, /* up to where the series has all digits of f64 */
    TRIGAMMA_TERMS = 8
};

/* 1 / x + 1 / (2 x^2) + the sum of B / x^(2 k + 1), where x is large enough, in v = 1 / x^2. */
static struct kit_arg trigamma_series(struct kit_build *b, struct kit_arg x)
{
    static const double term[TRIGAMMA_TERMS] = {1.0 / 6,  -1.0 / 30,     1.0 / 42, -1.0 / 30,
                                                5.0 / 66, -691.0 / 2730, 7.0 / 6,  -3617.0 / 510};
    struct kit_arg v = part_one(b, "Reciprocal", part_two(b, "Mul", x, x)), sum = KIT_NONE;

    for (int k = TRIGAMMA_TERMS; k-- > 0;) {
        struct kit_arg number = KIT_NUMBER_IS(term[k]);

        if (k == TRIGAMMA_TERMS - 1) sum = part_times(b, v, number);
        else sum = part_two(b, "Mul", part_plus(b, sum, number), v);
    }
    sum = part_two(b, "Div", part_plus(b, sum, KIT_VALUE(KIT_NUMBER_IS(1))), x);
    return part_add(b, sum, part_times(b, v, KIT_VALUE(KIT_NUMBER_IS(0.5))));
}

/* In f64: numbers that are not large are moved up to where the series is accurate. Below 0 it is
 * the square of pi / sin(pi x) minus the value at 1 - x; the whole part of x is taken away
 * first. */
enum bp_status npu_trigamma_build(struct kit_build *b)
{
    const struct kit_arg one = KIT_NUMBER_IS(1), zero = KIT_NUMBER_IS(0);
    const struct kit_arg pi = KIT_NUMBER_IS(acos(-1)), end = KIT_NUMBER_IS(TRIGAMMA_STEPS);
    struct kit_arg x = part_cast(b, KIT_VALUE(KIT_IN(0)), BP_F64), above, up, y, sum = KIT_NONE,
                   side, at_end, far, is_far;

    above = part_compare(b, "GtTensor", x, zero);
    far = part_where(b, above, x, part_sub(b, part_number(b, BP_F64, one), x));
    is_far = part_compare(b, "GtTensor", far, end);
    up = part_where_number(b, is_far, end, far);
    for (int i = 0; i < TRIGAMMA_STEPS; i++) {
        y = part_one(b, "Reciprocal", part_two(b, "Mul", up, up));
        sum = i ? part_add(b, sum, y) : y;
        up = part_plus(b, up, one);
    }
    sum = part_where_number(b, is_far, zero, sum);
    y = part_add(b, trigamma_series(b, part_where(b, is_far, far, up)), sum);
    side = part_sub(b, x, part_one(b, "Round", x));
    side = part_one(b, "Sin", part_times(b, side, pi));
    side = part_two(b, "Div", part_number(b, BP_F64, pi), side);
    y = part_where(b, above, y, part_sub(b, part_two(b, "Mul", side, side), y));
    at_end = part_compare(b, "EqTensor", x, KIT_VALUE(KIT_NUMBER_IS(-INFINITY)));
    return part_end(b, part_where_number(b, at_end, KIT_VALUE(KIT_NUMBER_IS(INFINITY)), y));
}

enum bp_status npu_exp2_build(struct kit_build *b)
{
    struct kit_arg x = part_in(b, 0);
    struct kit_arg two = part_number(b, part_dtype(b, x), KIT_VALUE(KIT_NUMBER_IS(2)));

    return part_end(b, part_two(b, "PowTensorTensor", two, x));
}

enum bp_status npu_rad2deg_build(struct kit_build *b)
{
    return part_end(b, part_times(b, part_in(b, 0), KIT_VALUE(KIT_NUMBER_IS(180 / element_pi))));
}

enum bp_status npu_deg2rad_build(struct kit_build *b)
{
    return part_end(b, part_times(b, part_in(b, 0), KIT_VALUE(KIT_NUMBER_IS(element_pi / 180))));
}

enum bp_status npu_relu6_build(struct kit_build *b)
{
    return part_end(
        b, part_clamp(b, part_in(b, 0), KIT_VALUE(KIT_NUMBER_IS(0)), KIT_VALUE(KIT_NUMBER_IS(6))));
}

enum bp_status npu_log_sigmoid_build(struct kit_build *b)
{
    struct kit_arg v = part_one(b, "Neg", part_in(b, 0));

    return part_end(b, part_one(b, "Neg", part_softplus(b, v)));
}

enum bp_status npu_softsign_build(struct kit_build *b)
{
    struct kit_arg x = part_in(b, 0);

    return part_end(
        b, part_two(b, "Div", x, part_plus(b, part_one(b, "Abs", x), KIT_VALUE(KIT_NUMBER_IS(1)))));
}

enum bp_status npu_tanh_shrink_build(struct kit_build *b)
{
    struct kit_arg x = part_in(b, 0);

    return part_end(b, part_sub(b, x, part_one(b, "Tanh", x)));
}

enum bp_status npu_scale_build(struct kit_build *b)
{
    struct kit_arg y = part_times(b, part_in(b, 0), KIT_VALUE(KIT_SCALAR(scale, factor)));

    return part_end(b, part_plus(b, y, KIT_VALUE(KIT_SCALAR(scale, bias))));
}

enum bp_status npu_hard_sigmoid_build(struct kit_build *b)
{
    struct kit_arg y = part_times(b, part_in(b, 0), KIT_VALUE(KIT_SCALAR(hard_sigmoid, slope)));

    y = part_plus(b, y, KIT_VALUE(KIT_SCALAR(hard_sigmoid, offset)));
    return part_end(b, part_clamp(b, y, KIT_VALUE(KIT_NUMBER_IS(0)), KIT_VALUE(KIT_NUMBER_IS(1))));
}

enum bp_status npu_swish_build(struct kit_build *b)
{
    struct kit_arg x = part_in(b, 0);
    struct kit_arg s = part_one(b, "Sigmoid", part_times(b, x, KIT_VALUE(KIT_SCALAR(swish, beta))));

    return part_end(b, part_two(b, "Mul", x, s));
}

enum bp_status npu_stanh_build(struct kit_build *b)
{
    struct kit_arg t = part_times(b, part_in(b, 0), KIT_VALUE(KIT_SCALAR(stanh, scale_a)));

    return part_end(b,
                    part_times(b, part_one(b, "Tanh", t), KIT_VALUE(KIT_SCALAR(stanh, scale_b))));
}

/* 0 up to the threshold, so that NaN, which is not less, stays. */
enum bp_status npu_hard_shrink_build(struct kit_build *b)
{
    struct kit_arg x = part_in(b, 0);
    struct kit_arg small = part_compare(b, "LeTensor", part_one(b, "Abs", x),
                                        KIT_VALUE(KIT_SCALAR(hard_shrink, threshold)));

    return part_end(b, part_where_number(b, small, KIT_VALUE(KIT_NUMBER_IS(0)), x));
}

enum bp_status npu_thresholded_relu_build(struct kit_build *b)
{
    struct kit_arg x = part_in(b, 0);
    struct kit_arg small = part_compare(b, "LeTensor", x,
                                        KIT_VALUE(KIT_SCALAR(thresholded_relu, threshold)));

    return part_end(b, part_where_number(b, small, KIT_VALUE(KIT_NUMBER_IS(0)), x));
}

/* x - bias above lambda, x + bias below -lambda, else 0; NaN stays. Of two conditions that hold, if
 * lambda is negative, the one of `first` counts. */
enum element_first {
    ELEMENT_ABOVE,
    ELEMENT_BELOW
};
static enum bp_status element_shrink(struct kit_build *b, struct kit_arg lambda,
                                     struct kit_arg bias, enum element_first first)
{
    struct kit_arg x = part_in(b, 0), zero = KIT_NUMBER_IS(0), y;
    struct kit_arg least = KIT_NUMBER_IS(-part_value(b, lambda));
    struct kit_arg lower = KIT_NUMBER_IS(-part_value(b, bias));
    const struct kit_arg test[2] = {part_compare(b, "GtTensor", x, lambda),
                                    part_compare(b, "LtTensor", x, least)};
    const struct kit_arg moved[2] = {part_plus(b, x, lower), part_plus(b, x, bias)};
    const int last = first == ELEMENT_ABOVE ? 0 : 1;

    y = part_where_number(b, part_test(b, "EqTensor", x, x), zero, x);
    y = part_where(b, test[!last], moved[!last], y);
    return part_end(b, part_where(b, test[last], moved[last], y));
}

enum bp_status npu_soft_shrink_build(struct kit_build *b)
{
    struct kit_arg threshold = KIT_SCALAR(soft_shrink, threshold);

    return element_shrink(b, threshold, threshold, ELEMENT_ABOVE);
}

enum bp_status npu_shrink_build(struct kit_build *b)
{
    return element_shrink(b, KIT_VALUE(KIT_SCALAR(shrink, lambd)),
                          KIT_VALUE(KIT_SCALAR(shrink, bias)), ELEMENT_BELOW);
}

static double element_within(double value, uint32_t dtype)
{
    const double largest = dtype == BP_F16    ? 65504
                           : dtype == BP_BF16 ? 0x1.fep127
                           : dtype == BP_F32  ? 0x1.fffffep127
                                              : 0x1.fffffffffffffp1023;

    return value > largest ? largest : value < -largest ? -largest : value;
}

enum bp_status npu_nan_to_num_build(struct kit_build *b)
{
    const uint32_t dtype = b->in[0]->dtype;
    struct kit_arg x = KIT_IN(0), most = KIT_SCALAR(nan_to_num, posinf);
    struct kit_arg least = KIT_SCALAR(nan_to_num, neginf), y;

    most = KIT_VALUE(KIT_NUMBER_IS(element_within(part_value(b, most), dtype)));
    least = KIT_VALUE(KIT_NUMBER_IS(element_within(part_value(b, least), dtype)));
    y = part_where_else(b, part_test(b, "EqTensor", x, x), x,
                        KIT_VALUE(KIT_SCALAR(nan_to_num, nan)));
    y = part_where_number(b, part_compare(b, "EqTensor", x, KIT_VALUE(KIT_NUMBER_IS(INFINITY))),
                          most, y);
    return part_end(
        b, part_where_number(b, part_compare(b, "EqTensor", x, KIT_VALUE(KIT_NUMBER_IS(-INFINITY))),
                             least, y));
}

/* For integers the bounds are whole numbers of the dtype. */
static int64_t element_whole(double value, uint32_t dtype)
{
    const int bits = dtype == BP_U8 || dtype == BP_I8 ? 8
                     : dtype == BP_I16                ? 16
                     : dtype == BP_I32                ? 32
                                                      : 64;
    const int64_t least = dtype == BP_U8 ? 0 : -(INT64_C(1) << (bits - 2)) * 2;
    const int64_t most = dtype == BP_U8 ? 255 : -(least + 1);

    return value >= (double)most ? most : value <= (double)least ? least : (int64_t)value;
}

enum bp_status npu_clip_integers_build(struct kit_build *b)
{
    const uint32_t dtype = b->in[0]->dtype;
    const double min = part_value(b, KIT_VALUE(KIT_SCALAR(clip, min)));
    const double max = part_value(b, KIT_VALUE(KIT_SCALAR(clip, max)));
    struct kit_arg least = KIT_SCALAR_IS(element_whole(ceil(min), dtype));
    struct kit_arg most = KIT_SCALAR_IS(element_whole(floor(max), dtype));
    struct kit_arg y = part_two(b, "Maximum", KIT_VALUE(KIT_IN(0)), part_number(b, dtype, least));

    return part_end(b, part_two(b, "Minimum", y, part_number(b, dtype, most)));
}

/* With m the smaller of v and 1 - v, the result has the magnitude log((1 - m) / m) and the sign of
 * v - 1/2. Near one half that is log1p of a quotient whose numerator is exact, else a difference of
 * logarithms, which does not overflow. */
enum bp_status npu_logit_build(struct kit_build *b)
{
    const double eps = part_value(b, KIT_VALUE(KIT_SCALAR(logit, eps)));
    struct kit_arg least = KIT_NUMBER_IS(eps > 0 ? eps : -INFINITY);
    struct kit_arg most = KIT_NUMBER_IS(eps > 0 ? 1 - eps : INFINITY);
    struct kit_arg v = part_clamp(b, part_in(b, 0), least, most);
    struct kit_arg one = part_number(b, part_dtype(b, v), KIT_VALUE(KIT_NUMBER_IS(1)));
    struct kit_arg rest = part_sub(b, one, v), twice = part_add(b, v, v), m, near, far;

    twice = part_plus(b, twice, KIT_VALUE(KIT_NUMBER_IS(-1)));
    m = part_plus(b, part_two(b, "Minimum", v, rest), KIT_VALUE(KIT_NUMBER_IS(0))); /* not -0 */
    near = part_one(b, "Log1p", part_two(b, "Div", part_one(b, "Abs", twice), m));
    far = part_sub(b, part_one(b, "Log1p", part_one(b, "Neg", m)), part_one(b, "Log", m));
    m = part_compare(b, "LtTensor", m, KIT_VALUE(KIT_NUMBER_IS(0.25)));
    return part_end(b, part_two(b, "Mul", part_where(b, m, far, near), part_one(b, "Sign", twice)));
}

/* Inverse hyperbolic functions are computed in f64: f32 would lose digits in the steps. All of them
 * grow as log(2 x). */
static struct kit_arg element_large(struct kit_build *b, struct kit_arg x, struct kit_arg y)
{
    struct kit_arg large = part_compare(b, "GtTensor", x, KIT_VALUE(KIT_NUMBER_IS(0x1p28)));
    struct kit_arg log = part_plus(b, part_one(b, "Log", x),
                                   KIT_VALUE(KIT_NUMBER_IS(0.69314718055994530942)));

    return part_where(b, large, log, y);
}

/* log1p(a + a^2 / (1 + sqrt(1 + a^2))) of the magnitude a, with the sign of x. */
enum bp_status npu_asinh_build(struct kit_build *b)
{
    struct kit_arg x = part_cast(b, KIT_VALUE(KIT_IN(0)), BP_F64), one = KIT_NUMBER_IS(1), y;
    struct kit_arg a = part_one(b, "Abs", x), square = part_two(b, "Mul", a, a);

    y = part_plus(b, part_one(b, "Sqrt", part_plus(b, square, one)), one);
    y = part_one(b, "Log1p", part_add(b, a, part_two(b, "Div", square, y)));
    return part_end(b, part_two(b, "Mul", element_large(b, a, y), part_one(b, "Sign", x)));
}

/* log1p(t + sqrt(t) sqrt(t + 2)) with t = x - 1. */
enum bp_status npu_acosh_build(struct kit_build *b)
{
    struct kit_arg x = part_cast(b, KIT_VALUE(KIT_IN(0)), BP_F64), y;
    struct kit_arg t = part_plus(b, x, KIT_VALUE(KIT_NUMBER_IS(-1)));

    y = part_one(b, "Sqrt", part_plus(b, t, KIT_VALUE(KIT_NUMBER_IS(2))));
    y = part_two(b, "Mul", part_one(b, "Sqrt", t), y);
    y = part_one(b, "Log1p", part_add(b, t, y));
    return part_end(b, element_large(b, x, y));
}

/* log1p(2 a / (1 - a)) / 2 of the magnitude a, with the sign of x. */
enum bp_status npu_atanh_build(struct kit_build *b)
{
    struct kit_arg x = part_cast(b, KIT_VALUE(KIT_IN(0)), BP_F64), y;
    struct kit_arg a = part_one(b, "Abs", x), rest;

    rest = part_sub(b, part_number(b, BP_F64, KIT_VALUE(KIT_NUMBER_IS(1))), a);
    y = part_one(b, "Log1p", part_two(b, "Div", part_add(b, a, a), rest));
    y = part_times(b, y, KIT_VALUE(KIT_NUMBER_IS(0.5)));
    return part_end(b, part_two(b, "Mul", y, part_one(b, "Sign", x)));
}
