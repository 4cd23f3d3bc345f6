/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c: computes reference results of reductions over axes, from a list of the terms of each
 * result. reference_sum.c has sum. */
#include "../common/reference.h"
#include <math.h>
#include <stdlib.h>

/* Indices of the terms of each result: those of result o begin at at[o * terms]. */
struct lists {
    int64_t terms, *at;
};

/* The first attributes of all reductions. */
struct axes {
    size_t size;
    struct bp_dims axes;
    int64_t keep;
};

static struct lists ref_reduce_make(const struct ref_array *x, const struct bp_dims *axes,
                                    bool keep, uint32_t dtype, struct ref_array *out)
{
    int64_t shape[REF_RANK], at[REF_RANK] = {0}, *filled;
    struct lists lists = {1, NULL};
    bool goes[REF_RANK];
    int rank = 0;

    for (int i = 0; i < x->rank; i++) goes[i] = axes->n == 0;
    for (int64_t i = 0; i < axes->n; i++) goes[ref_axis(axes->at[i], x->rank)] = true;
    for (int i = 0; i < x->rank; i++) {
        if (goes[i]) lists.terms *= x->shape[i];
        if (!goes[i] || keep) shape[rank++] = goes[i] ? 1 : x->shape[i];
    }
    ref_array_init(out, dtype, rank, shape);
    lists.at = malloc(((size_t)x->count + 1) * sizeof *lists.at);
    filled = calloc((size_t)out->count + 1, sizeof *filled);
    if (!lists.at || !filled) abort();
    for (int64_t i = 0; i < x->count; i++, ref_next(x->rank, x->shape, at)) {
        int64_t o = 0;
        for (int a = 0; a < x->rank; a++)
            if (!goes[a]) o = o * x->shape[a] + at[a];
        lists.at[o * lists.terms + filled[o]++] = i;
    }
    free(filled);
    return lists;
}

static struct lists ref_reduce_begin(const struct ref_array *in, const void *attrs, uint32_t dtype,
                                     struct ref_array *out)
{
    const struct axes *a = attrs;

    return ref_reduce_make(in, &a->axes, a->keep != 0, dtype, out);
}

/* Stores a float result with its error bound; only a finite result has a bound. */
static void ref_reduce_put(struct ref_array *out, int64_t o, long double value, long double bound)
{
    out->v[o] = value;
    if (isfinite(value)) out->bound[o] = bound;
}

/* A reduction of n floats to one float, with its error bound. */
typedef void of_values(const long double *v, int64_t n, const void *attrs,
                       const struct num_type *type, long double *value, long double *bound);

static void ref_reduce_each(const struct ref_array *in, const void *attrs, struct ref_array *out,
                            of_values *of)
{
    struct lists lists = ref_reduce_begin(in, attrs, in->type->dtype, out);
    long double *v = malloc(((size_t)lists.terms + 1) * sizeof *v);

    if (!v) abort();
    for (int64_t o = 0; o < out->count; o++) {
        long double value, bound = 0;
        for (int64_t i = 0; i < lists.terms; i++) v[i] = in->v[lists.at[o * lists.terms + i]];
        of(v, lists.terms, attrs, in->type, &value, &bound);
        ref_reduce_put(out, o, value, bound);
    }
    free(v);
    free(lists.at);
}

/* n terms need n - 1 additions; TOL counts the division, in ulp. */
static void ref_reduce_mean(const long double *v, int64_t n, const void *attrs,
                            const struct num_type *type, long double *value, long double *bound)
{
    long double sum = 0, size = 0;

    (void)attrs;
    (void)type;
    for (int64_t i = 0; i < n; i++) {
        sum += v[i];
        size += fabsl(v[i]);
    }
    *value = sum / (long double)n;
    *bound = ref_growth(n - 1) * size / (long double)n;
}

void ref_mean(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    ref_reduce_each(in, attrs, out, ref_reduce_mean);
}

static void ref_reduce_nansum(const long double *v, int64_t n, const void *attrs,
                              const struct num_type *type, long double *value, long double *bound)
{
    int64_t found = 0;

    (void)attrs;
    (void)type;
    *value = 0;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(v[i])) continue;
        *value += v[i];
        *bound += fabsl(v[i]);
        found++;
    }
    *bound *= ref_growth(found - 2);
}

void ref_nansum(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    ref_reduce_each(in, attrs, out, ref_reduce_nansum);
}

static void ref_reduce_nanmean(const long double *v, int64_t n, const void *attrs,
                               const struct num_type *type, long double *value, long double *bound)
{
    int64_t found = 0;

    ref_reduce_nansum(v, n, attrs, type, value, bound);
    for (int64_t i = 0; i < n; i++) found += !isnan(v[i]);
    *value /= (long double)found;
    if (found) *bound /= (long double)found;
}

void ref_nanmean(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    ref_reduce_each(in, attrs, out, ref_reduce_nanmean);
}

/* y = m + log s, where s is the sum of e_i = exp(x_i - m). The error of e_i is |x_i - m| u plus
 * that of exp (3 u); s adds its growth; all are relative and weighted. The logarithm turns them
 * into absolute errors and adds its own. */
static void ref_reduce_logsumexp(const long double *v, int64_t n, const void *attrs,
                                 const struct num_type *type, long double *value,
                                 long double *bound)
{
    long double m = -INFINITY, s = 0, weighted = 0;

    (void)attrs;
    (void)type;
    for (int64_t i = 0; i < n; i++)
        if (!(v[i] <= m)) m = v[i];
    if (!isfinite(m)) {
        *value = m;
        for (int64_t i = 0; i < n; i++)
            if (isnan(v[i])) *value = NAN;
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        long double e = expl(v[i] - m);
        s += e;
        if (e > 0) weighted += e * fabsl(v[i] - m);
    }
    *value = m + logl(s);
    *bound = ref_growth(n - 1) + weighted / s + (n > 1 ? 3 : 0) + fabsl(logl(s));
}

void ref_logsumexp(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    ref_reduce_each(in, attrs, out, ref_reduce_logsumexp);
}

/* The error of the mean is e = u (growth(n) mean |x| + |m|). Because the deviations add up to 0,
 * the error of their sum of squares is only n e^2, besides three roundings of each square and the
 * additions. */
static void ref_reduce_var(const long double *v, int64_t n, const void *attrs,
                           const struct num_type *type, long double *value, long double *bound)
{
    const struct bp_var_attrs *a = attrs;
    long double m, size, e, squares = 0, u = num_unit(num_accumulate(type));
    int64_t by = n - (a->unbiased ? 1 : 0);

    *value = NAN;
    if (by <= 0) return;
    ref_reduce_mean(v, n, NULL, type, &m, &size);
    for (int64_t i = 0; i < n; i++) squares += (v[i] - m) * (v[i] - m);
    e = size + 2 * fabsl(m);
    *value = squares / (long double)by;
    *bound = ((ref_growth(n - 1) + 3) * squares + (long double)n * e * e * u) / (long double)by;
}

void ref_var(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    ref_reduce_each(in, attrs, out, ref_reduce_var);
}

/* A root halves relative errors. Where the variance is all error, the result may be anything up to
 * the root of that error. */
static void std_of(const long double *v, int64_t n, const void *attrs, const struct num_type *type,
                   long double *value, long double *bound)
{
    long double u = num_unit(num_accumulate(type)), error;

    ref_reduce_var(v, n, attrs, type, value, bound);
    error = *bound * u;
    *value = sqrtl(*value);
    if (*value > 0) *bound = *bound / (2 * *value);
    else if (error > 0) *bound = sqrtl(error) / u;
}

void ref_std(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    ref_reduce_each(in, attrs, out, std_of);
}

/* Relative errors: 2 u for each power, the growth for the sum; the root divides them by p. Its
 * exponent 1 / p is rounded, which adds u |log s| / p. */
static void power_norm(const long double *v, int64_t n, long double p, long double *value,
                       long double *bound)
{
    long double s = 0;

    for (int64_t i = 0; i < n; i++) s += powl(fabsl(v[i]), p);
    *value = powl(s, 1 / p);
    *bound = *value * (ref_growth(n - 1) + 2 + (s > 0 ? fabsl(logl(s)) : 0)) / fabsl(p);
}

static void ref_reduce_norm_of(const long double *v, int64_t n, long double p, long double *value,
                               long double *bound)
{
    *value = p < 0 ? INFINITY : 0;
    if (isinf(p)) {
        for (int64_t i = 0; i < n; i++)
            if (isnan(v[i]) || isnan(*value)) *value = NAN;
            else if (p > 0 ? fabsl(v[i]) > *value : fabsl(v[i]) < *value) *value = fabsl(v[i]);
        return;
    }
    if (p == 0) {
        for (int64_t i = 0; i < n; i++) *value += v[i] != 0;
    } else if (p == 1) {
        for (int64_t i = 0; i < n; i++) *value += fabsl(v[i]);
        *bound = *value * ref_growth(n - 2);
    } else if (p == 2) {
        for (int64_t i = 0; i < n; i++) *value += v[i] * v[i];
        *value = sqrtl(*value);
        *bound = *value * ref_growth(n) / 2;
    } else {
        power_norm(v, n, p, value, bound);
    }
}

static void ref_reduce_norm(const long double *v, int64_t n, const void *attrs,
                            const struct num_type *type, long double *value, long double *bound)
{
    (void)type;
    ref_reduce_norm_of(v, n, ((const struct bp_norm_attrs *)attrs)->p, value, bound);
}

void ref_norm(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    ref_reduce_each(in, attrs, out, ref_reduce_norm);
}

static void ref_reduce_frobenius(const long double *v, int64_t n, const void *attrs,
                                 const struct num_type *type, long double *value,
                                 long double *bound)
{
    (void)attrs;
    (void)type;
    ref_reduce_norm_of(v, n, 2, value, bound);
}

void ref_frobenius_norm(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    ref_reduce_each(in, attrs, out, ref_reduce_frobenius);
}

/* The rounding of the quotient counts p - 1 times in its power, which adds two roundings. */
void ref_norm_grad(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    long double p = ((const struct bp_norm_grad_attrs *)attrs)->p;
    const struct ref_array *x = &in[0];
    int64_t at[REF_RANK] = {0};

    ref_array_init(out, x->type->dtype, x->rank, x->shape);
    for (int64_t i = 0; i < out->count; i++, ref_next(x->rank, x->shape, at)) {
        long double y = in[1].v[ref_index(&in[1], x->rank, at)],
                    dy = in[2].v[ref_index(&in[2], x->rank, at)], v = x->v[i];
        long double sign = v > 0 ? dy : -dy, dx;
        if (v == 0 || y == 0 || p == 0) dx = 0;
        else if (isnan(v)) dx = NAN;
        else if (isinf(p)) dx = fabsl(v) == y ? sign : 0;
        else dx = sign * powl(fabsl(v) / y, p - 1);
        ref_reduce_put(out, i, dx, isinf(p) ? 0 : fabsl(dx) * (fabsl(p - 1) + (p == 2 ? 0 : 2)));
    }
}

/* Whether a wins over b: larger, or smaller if not `largest`; NaN wins over all others. */
static bool ref_reduce_beyond(const struct ref_array *x, int64_t a, int64_t b, bool largest)
{
    int64_t from = largest ? b : a, to = largest ? a : b;

    if (x->v) {
        if (isnan(x->v[b])) return false;
        return isnan(x->v[a]) || x->v[to] > x->v[from];
    }
    return x->type->class == NUM_SIGNED ? (int64_t)x->u[to] > (int64_t)x->u[from]
                                        : x->u[to] > x->u[from];
}

static void ref_reduce_minmax(const struct ref_array *in, const void *attrs, struct ref_array *out,
                              bool largest)
{
    struct lists lists = ref_reduce_begin(in, attrs, in->type->dtype, out);

    for (int64_t o = 0; o < out->count; o++) {
        int64_t *at = lists.at + o * lists.terms, best = at[0];
        for (int64_t i = 1; i < lists.terms; i++)
            if (ref_reduce_beyond(in, at[i], best, largest)) best = at[i];
        ref_array_copy(out, o, in, best);
    }
    free(lists.at);
}

void ref_max(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    ref_reduce_minmax(in, attrs, out, true);
}

void ref_min(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    ref_reduce_minmax(in, attrs, out, false);
}

void ref_amax(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    ref_reduce_minmax(in, attrs, out, true);
}

void ref_amin(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    ref_reduce_minmax(in, attrs, out, false);
}

static void ref_reduce_arg(const struct ref_array *in, const void *attrs, struct ref_array *out,
                           bool largest)
{
    const struct bp_argmax_attrs *a = attrs;
    int64_t axis = a->axis;
    struct bp_dims axes = {&axis, a->flatten ? 0 : 1};
    struct lists lists = ref_reduce_make(in, &axes, a->keep != 0, (uint32_t)a->dtype, out);

    for (int64_t o = 0; o < out->count; o++) {
        int64_t *at = lists.at + o * lists.terms, best = 0;
        for (int64_t i = 1; i < lists.terms; i++)
            if (ref_reduce_beyond(in, at[i], at[best], largest)) best = i;
        out->u[o] = (uint64_t)best;
    }
    free(lists.at);
}

void ref_argmax(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    ref_reduce_arg(in, attrs, out, true);
}

void ref_argmin(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    ref_reduce_arg(in, attrs, out, false);
}

static bool is_zero(const struct ref_array *x, int64_t i)
{
    if (x->u) return x->u[i] == 0;
    return x->v[i * x->type->parts] == 0 && x->v[(i + 1) * x->type->parts - 1] == 0;
}

static int64_t ref_reduce_count(const struct ref_array *in, const struct lists *lists, int64_t o)
{
    int64_t n = 0;

    for (int64_t i = 0; i < lists->terms; i++) n += !is_zero(in, lists->at[o * lists->terms + i]);
    return n;
}

void ref_any(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    struct lists lists = ref_reduce_begin(in, attrs, BP_BOOL, out);

    for (int64_t o = 0; o < out->count; o++) out->u[o] = ref_reduce_count(in, &lists, o) > 0;
    free(lists.at);
}

void ref_all(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    struct lists lists = ref_reduce_begin(in, attrs, BP_BOOL, out);

    for (int64_t o = 0; o < out->count; o++)
        out->u[o] = ref_reduce_count(in, &lists, o) == lists.terms;
    free(lists.at);
}

void ref_count_nonzero(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    struct lists lists = ref_reduce_begin(in, attrs, BP_I64, out);

    for (int64_t o = 0; o < out->count; o++) out->u[o] = (uint64_t)ref_reduce_count(in, &lists, o);
    free(lists.at);
}

/* y = y x, complex or not. size: the product of magnitudes. */
static void ref_reduce_multiply(long double *y, long double *size, const long double *x, int parts)
{
    long double re = y[0];

    if (parts == 1) {
        y[0] *= x[0];
        return;
    }
    y[0] = re * x[0] - y[1] * x[1];
    y[1] = re * x[1] + y[1] * x[0];
    *size *= fabsl(x[0]) + fabsl(x[1]);
}

/* Each factor but the first is rounded once; TOL counts the last rounding, in ulp. A part of a
 * complex product is rounded twice, relative to the product of magnitudes. */
void ref_prod(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    struct lists lists = ref_reduce_begin(in, attrs, in->type->dtype, out);
    int parts = in->type->parts;

    for (int64_t o = 0; o < out->count; o++) {
        long double *y = out->v ? out->v + o * parts : NULL, size = 1;
        if (y) y[0] = 1;
        else out->u[o] = 1;
        for (int64_t i = 0; i < lists.terms; i++) {
            int64_t at = lists.at[o * lists.terms + i];
            if (y) ref_reduce_multiply(y, &size, in->v + at * parts, parts);
            else out->u[o] *= in->u[at];
        }
        for (int p = 0; y && p < parts; p++) {
            long double of = parts == 1 ? fabsl(y[p]) : size;
            if (isfinite(y[p]) && isfinite(of))
                out->bound[o * parts + p] =
                    of * ref_growth(parts == 1 ? lists.terms - 2 : 2 * lists.terms);
        }
    }
    free(lists.at);
}
