/* SPDX-License-Identifier: Apache-2.0 */
/* reference_grad.c: computes reference results of gradients of operators with one input, from x and
 * dy, in long double: dx = dy f'(x). */
#include "../common/reference_formula.h"
#include <math.h>
#include <string.h>

/* Returns 0 where the gradient is cut off, whatever dy is; else dy. */
static long double clip_grad(long double x, long double dy, const struct ref_formula_of *of)
{
    return x > of->a && x < of->b ? dy : 0;
}

static long double hard_shrink_grad(long double x, long double dy, const struct ref_formula_of *of)
{
    return fabsl(x) <= of->a ? 0 : dy;
}

static long double elu_grad(long double x, long double dy, const struct ref_formula_of *of)
{
    return x > 0 ? dy : dy * of->a * expl(of->b * x);
}

/* e^v turns the rounding of v into an error of the result that is |v| times as large; e^v may
 * underflow before it is multiplied. */
static long double elu_grad_bound(long double x, long double dy, const struct ref_formula_of *of)
{
    if (x > 0) return 0;
    return fabsl(dy * of->a) * (expl(of->b * x) * fabsl(of->b * x) + ref_underflow(of->type));
}

static long double softplus_grad(long double x, long double dy, const struct ref_formula_of *of)
{
    return ref_rounded(of->type, of->a * x) > of->b ? dy : dy * ref_logistic(of->a * x);
}

static long double softplus_grad_bound(long double x, long double dy,
                                       const struct ref_formula_of *of)
{
    long double v = of->a * x, s = ref_logistic(v);

    return fabsl(dy) * (of->a == 1 ? 0 : s * (1 - s) * fabsl(v)) +
           fabsl(dy) * ref_underflow(of->type);
}

static long double hard_swish_grad(long double x, long double dy, const struct ref_formula_of *of)
{
    (void)of;
    return dy * (x >= 3 ? 1 : x > -3 ? (2 * x + 3) / 6 : 0);
}

static long double gelu_grad(long double x, long double dy, const struct ref_formula_of *of)
{
    (void)of;
    return dy * (ref_normal_below(x) + x * ref_normal_density(x));
}

/* The error of the probability is one unit roundoff of 1; that of the other term is two of that
 * term. */
static long double gelu_grad_bound(long double x, long double dy, const struct ref_formula_of *of)
{
    (void)of;
    return fabsl(dy) * (1 + 2 * fabsl(x * ref_normal_density(x)));
}

/* With s = sigmoid(v), v = 2 sqrt(2 / pi) (x + 0.044715 x^3): s + x s (1 - s) v'. */
static long double gelu_tanh_slope(long double x, long double *out_v, long double *out_rest)
{
    long double root = 2 * sqrtl(2 / acosl(-1)), v = root * x * (1 + 0.044715L * x * x);

    *out_v = v;
    *out_rest = x * ref_logistic(v) * ref_logistic(-v) * root * (1 + 3 * 0.044715L * x * x);
    return ref_logistic(v) + *out_rest;
}

static long double gelu_tanh_grad(long double x, long double dy, const struct ref_formula_of *of)
{
    long double v, rest;

    (void)of;
    if (fabsl(x) > 100) return x > 0 ? dy : 0 * dy;
    return dy * gelu_tanh_slope(x, &v, &rest);
}

/* As gelu_grad_bound, with the rounding of v in the second term. */
static long double gelu_tanh_grad_bound(long double x, long double dy,
                                        const struct ref_formula_of *of)
{
    long double v, rest;

    (void)of;
    if (fabsl(x) > 100) return 0;
    gelu_tanh_slope(x, &v, &rest);
    return fabsl(dy) * (1 + fabsl(rest) * (2 + fabsl(v)));
}

static const struct {
    const char *op;
    long double (*of)(long double x, long double dy, const struct ref_formula_of *of);
    long double (*bound)(long double x, long double dy, const struct ref_formula_of *of);
} formula[] = {
    {"clip_grad", clip_grad, NULL},
    {"hard_shrink_grad", hard_shrink_grad, NULL},
    {"elu_grad", elu_grad, elu_grad_bound},
    {"softplus_grad", softplus_grad, softplus_grad_bound},
    {"hard_swish_grad", hard_swish_grad, NULL},
    {"gelu_grad", gelu_grad, gelu_grad_bound},
    {"gelu_tanh_grad", gelu_tanh_grad, gelu_tanh_grad_bound},
};

void ref_family_unary_grad(const char *op, const struct ref_array *in, const void *attrs,
                           struct ref_array *out)
{
    int64_t shape[REF_RANK], at[REF_RANK] = {0};
    int rank = ref_broadcast(&in[0], &in[1], shape);
    struct ref_formula_of of = ref_formula_of(in, attrs);
    size_t f = 0;

    while (strcmp(formula[f].op, op)) f++;
    ref_array_init(out, in->type->dtype, rank, shape);
    for (int64_t i = 0; i < out->count; i++, ref_next(rank, shape, at)) {
        long double x = in[0].v[ref_index(&in[0], rank, at)];
        long double dy = in[1].v[ref_index(&in[1], rank, at)];
        out->v[i] = formula[f].of(x, dy, &of);
        if (formula[f].bound && isfinite(x) && isfinite(out->v[i]))
            out->bound[i] = formula[f].bound(x, dy, &of);
    }
}
