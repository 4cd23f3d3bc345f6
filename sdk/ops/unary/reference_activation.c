/* SPDX-License-Identifier: Apache-2.0 */
/* reference_activation.c: computes reference results of activations, in long double, with the error
 * bounds of a correct computation: docs/accuracy.md. */
#include "../common/reference_formula.h"
#include <math.h>

/* log(1 + e^x), as a sum of terms with one sign. */
static long double softplus_of(long double x)
{
    return (x > 0 ? x : 0) + log1pl(expl(-fabsl(x)));
}

static long double log_sigmoid(long double x)
{
    return isnan(x) ? x : -softplus_of(-x);
}

static long double ref_activation_silu(long double x)
{
    return x / (1 + expl(-x));
}

static long double ref_activation_mish(long double x)
{
    return x * tanhl(log1pl(expl(x)));
}

/* e^x underflows before x e^x does. */
static long double by_exp_bound(long double x, long double y, const struct ref_formula_of *of)
{
    (void)y;
    return fabsl(x) * ref_underflow(of->type);
}

static long double ref_activation_softsign(long double x)
{
    return x / (1 + fabsl(x));
}

/* (x cosh(x) - sinh(x)) / cosh(x). Near zero the numerator is computed by its series, whose terms 2
 * k x^(2k + 1) / (2k + 1)! have one sign. */
static long double tanh_shrink(long double x)
{
    long double power = x, sum = 0;

    if (!(fabsl(x) < 1)) return x - tanhl(x);
    for (int k = 1; k < 20; k++) {
        power *= x * x / (2 * k * (2 * k + 1.0L));
        sum += 2 * k * power;
    }
    return sum / coshl(x);
}

/* The error of tanh is up to 1.5 units in its last place; it stays where x cancels the digits
 * before. */
static long double tanh_shrink_bound(long double x, long double y, const struct ref_formula_of *of)
{
    (void)y;
    (void)of;
    return 3 * fabsl(tanhl(x));
}

static long double ref_activation_relu6(long double x)
{
    return x < 0 ? 0 : x > 6 ? 6 : x;
}

static long double hard_swish(long double x)
{
    return x * ref_activation_relu6(x + 3) / 6;
}

/* With tanh: u = sqrt(2 / pi) (x + 0.044715 x^3), 1 + tanh(u) = 2 / (1 + e^-2u). */
static long double ref_activation_gelu(long double x, const struct ref_formula_of *of)
{
    long double u = sqrtl(2 / acosl(-1)) * x * (1 + 0.044715L * x * x);

    (void)of;
    return x / (1 + expl(-2 * u));
}

static long double gelu_exact(long double x, const struct ref_formula_of *of)
{
    (void)of;
    return x * ref_normal_below(x);
}

/* The error of the probability is one unit roundoff of 1, as that of (1 + erf) / 2. */
static long double gelu_bound(long double x, long double y, const struct ref_formula_of *of)
{
    (void)y;
    (void)of;
    return fabsl(x);
}

static long double ref_activation_swish(long double x, const struct ref_formula_of *of)
{
    return x / (1 + expl(-of->a * x));
}

/* e^v turns the rounding of v = beta x into an error of the result that is |v| (1 - sigmoid(v))
 * times as large. */
static long double swish_bound(long double x, long double y, const struct ref_formula_of *of)
{
    long double v = of->a * x;

    return fabsl(y * v) * ref_logistic(-v) + by_exp_bound(x, y, of);
}

static long double ref_activation_logit(long double x, const struct ref_formula_of *of)
{
    long double high = ref_rounded(of->type, 1 - of->a);

    if (of->a > 0) x = x < of->a ? of->a : x > high ? high : x;
    if (x > 0.25L && x < 0.75L) return log1pl((2 * x - 1) / (1 - x));
    return logl(x / (1 - x));
}

static long double ref_activation_softplus(long double x, const struct ref_formula_of *of)
{
    if (isnan(x) || ref_rounded(of->type, of->a * x) > of->b) return x;
    return softplus_of(of->a * x) / of->a;
}

/* The rounding of v = beta x times the derivative, plus the underflow divided by beta. */
static long double softplus_bound(long double x, long double y, const struct ref_formula_of *of)
{
    (void)y;
    return (of->a == 1 ? 0 : fabsl(x) * ref_logistic(of->a * x)) +
           ref_underflow(of->type) / fabsl(of->a);
}

static long double soft_relu(long double x, const struct ref_formula_of *of)
{
    return isnan(x) ? x : softplus_of(fminl(fmaxl(x, -of->a), of->a));
}

/* e^-|v| may underflow. */
static long double soft_relu_bound(long double x, long double y, const struct ref_formula_of *of)
{
    (void)x;
    (void)y;
    return ref_underflow(of->type);
}

static long double hard_shrink(long double x, const struct ref_formula_of *of)
{
    return fabsl(x) <= of->a ? 0 : x;
}

static long double soft_shrink(long double x, const struct ref_formula_of *of)
{
    if (isnan(x)) return x;
    return x > of->a ? x - of->a : x < -of->a ? x + of->a : 0;
}

static long double ref_activation_shrink(long double x, const struct ref_formula_of *of)
{
    if (isnan(x)) return x;
    return x < -of->a ? x + of->b : x > of->a ? x - of->b : 0;
}

static long double thresholded_relu(long double x, const struct ref_formula_of *of)
{
    return x <= of->a ? 0 : x;
}

static long double ref_activation_elu(long double x, const struct ref_formula_of *of)
{
    return x > 0 ? x : of->a * expm1l(x);
}

static long double ref_activation_celu(long double x, const struct ref_formula_of *of)
{
    return x > 0 ? x : of->a * expm1l(x / of->a);
}

/* e^v turns the rounding of v = x / alpha into an error of the result that is |v| times as
 * large. */
static long double celu_bound(long double x, long double y, const struct ref_formula_of *of)
{
    (void)y;
    return x > 0 || of->a == 1 ? 0 : fabsl(x) * expl(x / of->a);
}

static long double ref_activation_selu(long double x, const struct ref_formula_of *of)
{
    return x > 0 ? of->a * x : of->a * of->b * expm1l(x);
}

static long double hard_sigmoid(long double x, const struct ref_formula_of *of)
{
    long double y = of->a * x + of->b;

    return y < 0 ? 0 : y > 1 ? 1 : y;
}

/* The product is rounded before the sum. */
static long double hard_sigmoid_bound(long double x, long double y,
                                      const struct ref_formula_of *of)
{
    long double exact = of->a * x + of->b;

    (void)y;
    return exact < -1 || exact > 2 ? 0 : fabsl(of->a * x);
}

static long double ref_activation_stanh(long double x, const struct ref_formula_of *of)
{
    return of->b * tanhl(of->a * x);
}

static const struct ref_formula formula[] = {
    {"log_sigmoid", log_sigmoid, NULL, NULL},
    {"silu", ref_activation_silu, NULL, by_exp_bound},
    {"mish", ref_activation_mish, NULL, by_exp_bound},
    {"softsign", ref_activation_softsign, NULL, NULL},
    {"tanh_shrink", tanh_shrink, NULL, tanh_shrink_bound},
    {"relu6", ref_activation_relu6, NULL, NULL},
    {"hard_swish", hard_swish, NULL, NULL},
    {"swish", NULL, ref_activation_swish, swish_bound},
    {"logit", NULL, ref_activation_logit, NULL},
    {"softplus", NULL, ref_activation_softplus, softplus_bound},
    {"soft_relu", NULL, soft_relu, soft_relu_bound},
    {"hard_shrink", NULL, hard_shrink, NULL},
    {"soft_shrink", NULL, soft_shrink, NULL},
    {"shrink", NULL, ref_activation_shrink, NULL},
    {"thresholded_relu", NULL, thresholded_relu, NULL},
    {"elu", NULL, ref_activation_elu, NULL},
    {"celu", NULL, ref_activation_celu, celu_bound},
    {"selu", NULL, ref_activation_selu, NULL},
    {"hard_sigmoid", NULL, hard_sigmoid, hard_sigmoid_bound},
    {"stanh", NULL, ref_activation_stanh, NULL},
    {"gelu", NULL, gelu_exact, gelu_bound},
    {"gelu", NULL, ref_activation_gelu, gelu_bound},
};
enum { GELU_EXACT = sizeof formula / sizeof *formula - 2, GELU_BY_TANH };

void ref_family_activation(const char *op, const struct ref_array *in, const void *attrs,
                           struct ref_array *out)
{
    const struct bp_gelu_attrs *a = attrs;
    bool is_gelu = op[0] == 'g';

    ref_formula_run(!is_gelu         ? formula
                    : a->approximate ? &formula[GELU_BY_TANH]
                                     : &formula[GELU_EXACT],
                    op, in, is_gelu ? NULL : attrs, out);
}
