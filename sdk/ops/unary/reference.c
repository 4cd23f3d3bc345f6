/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c: computes reference results of elementwise functions of one input, in long double.
 * reference_number.c has arithmetic; reference_activation.c has activations that libm lacks. */
#include "../common/reference_formula.h"
#include <math.h>
#include <string.h>

/* acosl(-1), for constant expressions. */
static const long double pi = 3.14159265358979323846264338327950288L;

static long double ref_unary_relu(long double x)
{
    return x < 0 ? 0 : x;
}

static long double leaky_relu(long double x, const struct ref_formula_of *of)
{
    return x > 0 ? x : of->a * x;
}

static long double ref_unary_rsqrt(long double x)
{
    return 1 / sqrtl(x);
}

static long double ref_unary_reciprocal(long double x)
{
    return 1 / x;
}

static long double ref_unary_rad2deg(long double x)
{
    return x * (180 / pi);
}

static long double ref_unary_deg2rad(long double x)
{
    return x * (pi / 180);
}

/* Newton's method from the left: erf is concave for positive numbers, so each step comes closer.
 * Near 1 it uses 1 - erf, which has more digits there. */
static long double ref_unary_erfinv(long double x)
{
    long double a = fabsl(x), y = a * sqrtl(pi) / 2, last = -1;

    if (isnan(x) || a > 1) return NAN;
    if (a == 1) return x * INFINITY;
    for (int i = 0; i < 1000 && y > last; i++) {
        long double off = a < 0.5L ? a - erfl(y) : erfcl(y) - (1 - a);
        last = y;
        y += off * expl(y * y) * sqrtl(pi) / 2;
    }
    return x < 0 ? -y : y;
}

static bool is_pole(long double x)
{
    return x <= 0 && x == floorl(x);
}

static long double lgamma_of(long double x)
{
    int sign;

    return lgammal_r(x, &sign);
}

/* Below zero kernels use the reflection log pi - log |sin(pi x)| - lgamma(1 - x), whose terms
 * cancel near the zeros of lgamma. */
static long double lgamma_bound(long double x, long double y, const struct ref_formula_of *of)
{
    (void)y;
    (void)of;
    if (x > 0) return 0;
    return 2 * (2 + fabsl(logl(fabsl(sinl(pi * (x - rintl(x)))))) + fabsl(lgamma_of(1 - x)));
}

/* log x - 1 / (2 x) - the sum of B_2k / (2 k x^2k), after enough steps up that the series is
 * exact. */
static long double digamma_positive(long double x)
{
    static const long double term[] = {1 / 12.0L,     -1 / 120.0L,      1 / 252.0L, -1 / 240.0L,
                                       1 / 132.0L,    -691 / 32760.0L,  1 / 12.0L,
                                       -3617 / 8160.0L, 43867 / 14364.0L};
    long double sum = 0, power = 1;

    for (; x < 40; x++) sum -= 1 / x;
    for (int k = 0; k < 9; k++) {
        power /= x * x;
        sum -= term[k] * power;
    }
    return sum + logl(x) - 1 / (2 * x);
}

static long double ref_unary_digamma(long double x)
{
    if (x == 0) return copysignl(INFINITY, -x);
    if (isnan(x) || is_pole(x) || x == -INFINITY) return NAN;
    if (x > 0) return isinf(x) ? x : digamma_positive(x);
    return digamma_positive(1 - x) - pi / tanl(pi * (x - rintl(x)));
}

/* Steps up to where the series is accurate add n terms 1 / (x + i), each of which has n roundings.
 * Their sum cancels a logarithm near the zero at 1.46. Below zero the steps are those of 1 - x, and
 * pi / tan(pi x) is added, whose argument is rounded twice. */
static long double digamma_bound(long double x, long double y, const struct ref_formula_of *of)
{
    long double sum = 0, part = x - rintl(x), up = x > 0 ? x : 1 - x, bound;
    int64_t n = 0;

    (void)y;
    (void)of;
    for (; up < 10; up++, n++) sum += 1 / up;
    bound = ref_growth(n) * sum + logl(up);
    if (x > 0) return bound;
    return bound + 2 * (fabsl(pi / tanl(pi * part)) +
                        pi * pi * fabsl(part) / (sinl(pi * part) * sinl(pi * part)));
}

/* 1 / x + 1 / (2 x^2) + the sum of B_2k / x^(2k + 1). */
static long double trigamma_positive(long double x)
{
    static const long double term[] = {1 / 6.0L,  -1 / 30.0L,       1 / 42.0L, -1 / 30.0L,
                                       5 / 66.0L, -691 / 2730.0L,   7 / 6.0L,
                                       -3617 / 510.0L, 43867 / 798.0L};
    long double sum = 0, power;

    for (; x < 40; x++) sum += 1 / (x * x);
    power = 1 / x;
    for (int k = 0; k < 9; k++) {
        power /= x * x;
        sum += term[k] * power;
    }
    return sum + 1 / x + 1 / (2 * x * x);
}

static long double ref_unary_trigamma(long double x)
{
    long double side;

    if (isnan(x)) return x;
    if (is_pole(x)) return INFINITY;
    if (x > 0) return isinf(x) ? 0 : trigamma_positive(x);
    side = pi / sinl(pi * (x - rintl(x)));
    return side * side - trigamma_positive(1 - x);
}

/* Below zero the square of pi / sin(pi x) is added, whose argument is rounded twice. */
static long double trigamma_bound(long double x, long double y, const struct ref_formula_of *of)
{
    long double side = x < 0 ? pi / sinl(pi * (x - rintl(x))) : 0;

    (void)y;
    (void)of;
    return 4 * side * side;
}

static const struct ref_formula formula[] = {
    {"relu", ref_unary_relu, NULL, NULL},
    {"leaky_relu", NULL, leaky_relu, NULL},
    {"sqrt", sqrtl, NULL, NULL},
    {"rsqrt", ref_unary_rsqrt, NULL, NULL},
    {"reciprocal", ref_unary_reciprocal, NULL, NULL},
    {"exp", expl, NULL, NULL},
    {"exp2", exp2l, NULL, NULL},
    {"expm1", expm1l, NULL, NULL},
    {"log", logl, NULL, NULL},
    {"log2", log2l, NULL, NULL},
    {"log10", log10l, NULL, NULL},
    {"log1p", log1pl, NULL, NULL},
    {"sin", sinl, NULL, NULL},
    {"cos", cosl, NULL, NULL},
    {"tan", tanl, NULL, NULL},
    {"asin", asinl, NULL, NULL},
    {"acos", acosl, NULL, NULL},
    {"atan", atanl, NULL, NULL},
    {"sinh", sinhl, NULL, NULL},
    {"cosh", coshl, NULL, NULL},
    {"tanh", tanhl, NULL, NULL},
    {"asinh", asinhl, NULL, NULL},
    {"acosh", acoshl, NULL, NULL},
    {"atanh", atanhl, NULL, NULL},
    {"rad2deg", ref_unary_rad2deg, NULL, NULL},
    {"deg2rad", ref_unary_deg2rad, NULL, NULL},
    {"sigmoid", ref_logistic, NULL, NULL},
    {"erf", erfl, NULL, NULL},
    {"erfinv", ref_unary_erfinv, NULL, NULL},
    {"lgamma", lgamma_of, NULL, lgamma_bound},
    {"digamma", ref_unary_digamma, NULL, digamma_bound},
    {"trigamma", ref_unary_trigamma, NULL, trigamma_bound},
};

void ref_family_unary(const char *op, const struct ref_array *in, const void *attrs,
                      struct ref_array *out)
{
    ref_formula_run(formula, op, in, attrs, out);
}
