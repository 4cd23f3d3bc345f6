/* SPDX-License-Identifier: Apache-2.0 */
/* reference_scale.c: computes reference results of scale, sgd and mse_loss. */
#include "../common/reference.h"
#include <math.h>

/* Rounds a number to the type in which a kernel computes. */
static long double ref_scale_rounded(const struct num_type *type, long double value)
{
    char at[16];

    num_set_float(num_accumulate(type), at, value);
    return num_get_float(num_accumulate(type), at);
}

/* The product is rounded and then the sum, unless a fused operation rounds once. */
void ref_scale(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_scale_attrs *scale = attrs;
    long double factor = ref_scale_rounded(in->type, scale->factor),
                bias = ref_scale_rounded(in->type, scale->bias);

    ref_array_init(out, in->type->dtype, in->rank, in->shape);
    for (int64_t i = 0; i < out->count; i++) {
        long double product = in->v[i] * factor;
        out->v[i] = product + bias;
        if (isfinite(product)) out->bound[i] = fabsl(product);
    }
}

/* A rate with more digits than the type of the computation may be rounded first. */
void ref_sgd(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct ref_array *param = &in[0], *grad = &in[1], *rate = &in[2];
    int roundings = rate->type->digits > num_accumulate(param->type)->digits ? 2 : 1;

    (void)attrs;
    ref_array_init(out, param->type->dtype, param->rank, param->shape);
    for (int64_t i = 0; i < out->count; i++) {
        long double step = rate->v[0] * grad->v[i];
        out->v[i] = param->v[i] - step;
        if (isfinite(step)) out->bound[i] = roundings * fabsl(step);
    }
}

/* Errors of each term: the difference, which counts twice in its square, the square, and the
 * additions. */
void ref_mse_loss(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    long double sum = 0;

    (void)attrs;
    ref_array_init(out, in[0].type->dtype, 0, NULL);
    for (int64_t i = 0; i < in[0].count; i++) {
        long double d = in[0].v[i] - in[1].v[i];
        sum += d * d;
    }
    out->v[0] = sum / (long double)in[0].count;
    if (isfinite(out->v[0])) out->bound[0] = out->v[0] * ref_growth(in[0].count + 2);
}
