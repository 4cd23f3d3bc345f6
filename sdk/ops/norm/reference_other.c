/* SPDX-License-Identifier: Apache-2.0 */
/* reference_other.c: lp_normalize, mean_variance_normalization, lrn. */
#include "../common/reference_formula.h"
#include <math.h>
#include <stdlib.h>

static void put(struct ref_array *out, int64_t i, long double value, long double bound)
{
    out->v[i] = value;
    if (isfinite(value)) out->bound[i] = bound;
}

static int64_t behind(const struct ref_array *x, int axis)
{
    int64_t n = 1;

    for (int i = axis + 1; i < x->rank; i++) n *= x->shape[i];
    return n;
}

/* The norm is off as that of norm, relative; its last operations and the quotient are in ulp. */
void ref_lp_normalize(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_lp_normalize_attrs *a = attrs;
    int axis = ref_axis(a->axis, in->rank);
    int64_t n = in->shape[axis], step = behind(in, axis);
    long double epsilon = ref_rounded(in->type, a->epsilon);

    ref_array_init(out, in->type->dtype, in->rank, in->shape);
    for (int64_t i = 0; i < in->count; i++) {
        long double s = 0, most = 0, size, off;
        bool nan = false;
        if (i / step % n) continue;
        for (int64_t k = 0; k < n; k++) {
            long double x = fabsl(in->v[i + k * step]);
            s += powl(x, a->p);
            most = x > most ? x : most;
            nan |= isnan(x);
        }
        size = nan ? NAN : isinf(a->p) ? most : powl(s, 1 / (long double)a->p);
        off = isinf(a->p)  ? 0
              : a->p == 1 ? ref_growth(n - 1)
              : a->p == 2 ? ref_growth(n) / 2 + 1
                          : (ref_growth(n - 1) + 2 + (s > 0 ? fabsl(logl(s)) : 0)) / a->p + 2;
        if (size < epsilon) size = epsilon;
        if (size == 0) size = 1;
        for (int64_t k = 0; k < n; k++) {
            long double y = in->v[i + k * step] / size;
            put(out, i + k * step, y, fabsl(y) * off);
        }
    }
}

/* As layer_norm, by the lists of terms of each set of coordinates outside of axes. */
void ref_mean_variance_normalization(const struct ref_array *in, const void *attrs,
                                     struct ref_array *out)
{
    const struct bp_mean_variance_normalization_attrs *a = attrs;
    int64_t at[REF_RANK] = {0}, *group = malloc(((size_t)in->count + 1) * sizeof *group);
    long double *sum = calloc((size_t)in->count + 1, sizeof *sum),
                *size = calloc((size_t)in->count + 1, sizeof *size),
                *squares = calloc((size_t)in->count + 1, sizeof *squares);
    long double u = num_unit(num_accumulate(in->type)), epsilon = ref_rounded(in->type, a->epsilon);
    bool goes[REF_RANK];
    int64_t terms = 1;

    if (!group || !sum || !size || !squares) abort();
    for (int i = 0; i < in->rank; i++) goes[i] = a->axes.n == 0;
    for (int64_t i = 0; i < a->axes.n; i++) goes[ref_axis(a->axes.at[i], in->rank)] = true;
    for (int i = 0; i < in->rank; i++) terms *= goes[i] ? in->shape[i] : 1;
    ref_array_init(out, in->type->dtype, in->rank, in->shape);
    for (int64_t i = 0; i < in->count; i++, ref_next(in->rank, in->shape, at)) {
        group[i] = 0;
        for (int k = 0; k < in->rank; k++)
            if (!goes[k]) group[i] = group[i] * in->shape[k] + at[k];
        sum[group[i]] += in->v[i];
        size[group[i]] += fabsl(in->v[i]);
    }
    for (int64_t i = 0; i < in->count; i++) {
        long double d = in->v[i] - sum[group[i]] / (long double)terms;
        squares[group[i]] += d * d;
    }
    for (int64_t i = 0; i < in->count; i++) {
        long double n = (long double)terms, mean = sum[group[i]] / n, d = in->v[i] - mean;
        long double e = ref_growth(terms - 1) * size[group[i]] / n + 2 * fabsl(mean);
        long double s = sqrtl(squares[group[i]] / n), by = s + epsilon, y = d / by;
        /* the deviation is off by the root of all error, or by half of what is relative */
        long double off = ref_growth(terms + 2) / 2 * s + 2 * s;
        off += s > e * u ? e * e * u / s / 2 : e;
        put(out, i, y, (e + fabsl(d)) / by + fabsl(y) * (off + by) / by);
    }
    free(group);
    free(sum);
    free(size);
    free(squares);
}

/* z = bias + alpha / window s: s is a sum of squares, and z^-beta, by logarithm and exponential,
 * turns an absolute error of beta log z into a relative one. */
void ref_lrn(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_lrn_attrs *a = attrs;
    int64_t c = in->shape[1], step = behind(in, 1);
    int64_t below = (a->window - 1) / 2, above = a->window / 2;
    int64_t terms = a->window < c ? a->window : c;
    long double part = ref_rounded(in->type, a->alpha / (double)a->window);
    long double bias = ref_rounded(in->type, a->bias), beta = ref_rounded(in->type, a->beta);

    ref_array_init(out, in->type->dtype, in->rank, in->shape);
    for (int64_t i = 0; i < in->count; i++) {
        int64_t at = i / step % c;
        long double s = 0, z, y, relative;
        for (int64_t k = below < at ? at - below : 0; k < c && k - at <= above; k++)
            s += in->v[i + (k - at) * step] * in->v[i + (k - at) * step];
        z = bias + part * s;
        y = in->v[i] * powl(z, -beta);
        relative = (fabsl(part) * s * ref_growth(terms + 1) + fabsl(z)) / fabsl(z);
        put(out, i, y, fabsl(y) * (fabsl(beta) * (relative + 3 * fabsl(logl(z)))));
    }
}
