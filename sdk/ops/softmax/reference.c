/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c: computes reference results of softmax and its gradient. */
#include "../common/reference.h"
#include <math.h>

/* The error of exp(x - max) has two parts: that of the rounded difference, |x - max| u relative,
 * and that of exp, which TOL counts in ulp. The sum adds its growth, and the error of its terms
 * weighted by the terms (Blanchard, Higham and Higham 2021). */
static void softmax_line(const long double *x, int64_t length, int64_t step, long double *y,
                         long double *bound)
{
    long double max = -INFINITY, sum = 0, mean = 0;

    for (int64_t i = 0; i < length; i++)
        if (!(x[i * step] <= max)) max = x[i * step];
    for (int64_t i = 0; i < length; i++) sum += y[i * step] = expl(x[i * step] - max);
    for (int64_t i = 0; i < length; i++) {
        y[i * step] /= sum;
        if (y[i * step] > 0) mean += y[i * step] * fabsl(x[i * step] - max);
    }
    for (int64_t i = 0; i < length; i++)
        if (y[i * step] > 0)
            bound[i * step] = y[i * step] *
                              (ref_growth(length - 1) + fabsl(x[i * step] - max) + mean);
}

void ref_softmax(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    struct ref_around a = ref_around(in, ((const struct bp_softmax_attrs *)attrs)->axis);

    ref_array_init(out, in->type->dtype, in->rank, in->shape);
    out->flush = true;
    for (int64_t o = 0; o < a.outer; o++)
        for (int64_t i = 0; i < a.inner; i++) {
            int64_t first = o * a.n * a.inner + i;
            softmax_line(in->v + first, a.n, a.inner, out->v + first, out->bound + first);
        }
}

/* dx = y (dy - s), s = sum(y dy): the error of s is its growth; the difference adds a rounding of
 * dy and s. */
static void gradient_line(const long double *y, const long double *dy, int64_t length, int64_t step,
                          long double *dx, long double *bound)
{
    long double sum = 0, magnitude = 0;

    for (int64_t i = 0; i < length; i++) {
        sum += y[i * step] * dy[i * step];
        magnitude += fabsl(y[i * step] * dy[i * step]);
    }
    for (int64_t i = 0; i < length; i++) {
        dx[i * step] = y[i * step] * (dy[i * step] - sum);
        bound[i * step] = fabsl(y[i * step]) *
                          (ref_growth(length) * magnitude + fabsl(dy[i * step]) + fabsl(sum));
    }
}

void ref_softmax_grad(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    struct ref_around a = ref_around(in, ((const struct bp_softmax_grad_attrs *)attrs)->axis);

    ref_array_init(out, in->type->dtype, in->rank, in->shape);
    for (int64_t o = 0; o < a.outer; o++)
        for (int64_t i = 0; i < a.inner; i++) {
            int64_t first = o * a.n * a.inner + i;
            gradient_line(in[0].v + first, in[1].v + first, a.n, a.inner, out->v + first,
                          out->bound + first);
        }
}
