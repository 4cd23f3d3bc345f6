/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c: computes reference results of normalisation from lists that name the group and the
 * parameter of each element of x; also of lp_normalize, mean_variance_normalization and lrn. */
#include "../common/reference_formula.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct lists {
    int64_t count, groups, params;
    int64_t *group, *param; /* one entry for each element of x */
    bool centre;
    long double epsilon;
    const struct num_type *type; /* of x */
};

static int64_t ref_norm_extent(const struct ref_array *x, int begin, int end)
{
    int64_t n = 1;

    for (int i = begin; i < end; i++) n *= x->shape[i];
    return n;
}

static struct lists ref_norm_make(const struct ref_array *x, int64_t groups, int64_t params,
                                  double epsilon)
{
    struct lists l = {.count = x->count, .groups = groups, .params = params, .centre = true,
                      .epsilon = ref_rounded(x->type, epsilon), .type = x->type};

    l.group = malloc(((size_t)x->count + 1) * sizeof *l.group);
    l.param = malloc(((size_t)x->count + 1) * sizeof *l.param);
    if (!l.group || !l.param) abort();
    return l;
}

static void ref_norm_finish(struct lists *l)
{
    free(l->group);
    free(l->param);
}

/* Lists for normalisation over axis and all axes after it. */
static struct lists of_rows(const struct ref_array *x, int64_t axis, double epsilon)
{
    int begin = ref_axis(axis, x->rank);
    int64_t length = ref_norm_extent(x, begin, x->rank);
    struct lists l = ref_norm_make(x, ref_norm_extent(x, 0, begin), length, epsilon);

    for (int64_t i = 0; i < x->count; i++) {
        l.group[i] = i / length;
        l.param[i] = i % length;
    }
    return l;
}

/* Lists for channels (axis 1): n groups of channels in each batch or, if n is 0, each channel over
 * all batches. */
static struct lists of_channels(const struct ref_array *x, int64_t n, double epsilon)
{
    int64_t c = x->shape[1], inner = ref_norm_extent(x, 2, x->rank);
    struct lists l = ref_norm_make(x, n ? x->shape[0] * n : c, c, epsilon);

    for (int64_t i = 0; i < x->count; i++) {
        int64_t channel = i / inner % c, batch = i / inner / c;
        l.group[i] = n ? batch * n + channel / (c / n) : channel;
        l.param[i] = channel;
    }
    return l;
}

/* The statistics of a group with their error bounds, in unit roundoffs. The error of the mean is e;
 * that of the sum of squares is n e^2, three roundings of each square, and the additions; the
 * square root halves it. */
struct group {
    int64_t n;
    bool centred;
    long double mean, variance, r, e, off_variance, relative; /* relative: of r */
};

static struct group *ref_norm_measure(const struct lists *l, const long double *x)
{
    struct group *g = calloc((size_t)l->groups + 1, sizeof *g);
    long double *size = calloc((size_t)l->groups + 1, sizeof *size);
    long double u = num_unit(num_accumulate(l->type));

    if (!g || !size) abort();
    for (int64_t i = 0; i < l->count; i++) {
        g[l->group[i]].n++;
        if (l->centre) g[l->group[i]].mean += x[i];
        size[l->group[i]] += fabsl(x[i]);
    }
    for (int64_t k = 0; k < l->groups; k++) {
        g[k].mean /= (long double)g[k].n;
        g[k].centred = l->centre;
        if (!l->centre) g[k].mean = 0;
        else if (g[k].n > 1)
            g[k].e = ref_growth(g[k].n - 1) * size[k] / (long double)g[k].n + fabsl(g[k].mean);
    }
    for (int64_t i = 0; i < l->count; i++) {
        long double d = x[i] - g[l->group[i]].mean;
        g[l->group[i]].variance += d * d;
    }
    for (int64_t k = 0; k < l->groups; k++) {
        long double n = (long double)g[k].n, squares = g[k].variance;
        g[k].variance = squares / n;
        g[k].off_variance = (ref_growth(g[k].n - 1) + (l->centre ? 3 : 1)) * squares / n +
                            g[k].e * g[k].e * u;
        g[k].r = 1 / sqrtl(g[k].variance + l->epsilon);
        /* Where the variance may be all error, r is bounded by that of the smallest variance. */
        squares = g[k].variance + l->epsilon;
        g[k].relative = 2.5L + g[k].off_variance / squares / 2;
        if (g[k].off_variance * u > squares / 8)
            g[k].relative = (1 / sqrtl(l->epsilon > 0 ? l->epsilon : 0) / g[k].r - 1) / u;
    }
    free(size);
    return g;
}

/* Statistics that the forward saved are exact inputs: the mean if it is subtracted, then r. */
static struct group *ref_norm_saved(const struct lists *l, const struct ref_array *saved)
{
    struct group *g = calloc((size_t)l->groups + 1, sizeof *g);

    if (!g) abort();
    for (int64_t i = 0; i < l->count; i++) g[l->group[i]].n++;
    for (int64_t k = 0; k < l->groups; k++) {
        g[k].centred = l->centre;
        g[k].mean = l->centre ? saved[0].v[k] : 0;
        g[k].r = saved[l->centre].v[k];
    }
    return g;
}

static void ref_norm_put(struct ref_array *out, int64_t i, long double value, long double bound)
{
    out->v[i] = value;
    if (isfinite(value)) out->bound[i] = bound;
}

/* Returns h = (x - mean) r; *bound: its error. */
static long double h_of(const struct group *g, long double x, long double *bound)
{
    long double d = x - g->mean, h = d * g->r;

    *bound = g->r * g->e + fabsl(h) * (g->relative + (g->centred ? 2 : 1));
    if (g->r == 0) *bound = 0; /* an element is infinite: finite ones give exactly 0 */
    return h;
}

/* y = h scale + bias. */
static void put_y(const struct lists *l, const struct group *g, const struct ref_array *in,
                  const struct ref_array *scale, const struct ref_array *bias,
                  struct ref_array *out)
{
    ref_array_init(out, in->type->dtype, in->rank, in->shape);
    for (int64_t i = 0; i < in->count; i++) {
        long double s = scale && scale->type ? scale->v[l->param[i]] : 1, off;
        long double h = h_of(&g[l->group[i]], in->v[i], &off);
        bool biased = bias && bias->type;
        off = off * fabsl(s) + (biased ? fabsl(h * s) : 0);
        ref_norm_put(out, i, h * s + (biased ? bias->v[l->param[i]] : 0), off);
    }
}

static uint32_t ref_norm_statistic(const struct ref_array *x)
{
    return num_accumulate(x->type)->dtype;
}

static void put_mean(const struct group *g, uint32_t dtype, int rank, const int64_t *shape,
                     struct ref_array *out)
{
    ref_array_init(out, dtype, rank, shape);
    for (int64_t k = 0; k < out->count; k++) ref_norm_put(out, k, g[k].mean, g[k].e);
}

static void put_r(const struct group *g, uint32_t dtype, int rank, const int64_t *shape,
                  struct ref_array *out)
{
    ref_array_init(out, dtype, rank, shape);
    for (int64_t k = 0; k < out->count; k++) ref_norm_put(out, k, g[k].r, g[k].r * g[k].relative);
}

void ref_layer_norm(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_layer_norm_attrs *a = attrs;
    struct lists l = of_rows(in, a->axis, a->epsilon);
    struct group *g = ref_norm_measure(&l, in->v);
    int begin = ref_axis(a->axis, in->rank);

    put_y(&l, g, in, &in[1], &in[2], &out[0]);
    put_mean(g, ref_norm_statistic(in), begin, in->shape, &out[1]);
    put_r(g, ref_norm_statistic(in), begin, in->shape, &out[2]);
    free(g);
    ref_norm_finish(&l);
}

void ref_rms_norm(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_rms_norm_attrs *a = attrs;
    struct lists l = of_rows(in, a->axis, a->epsilon);
    struct group *g;

    l.centre = false;
    g = ref_norm_measure(&l, in->v);
    put_y(&l, g, in, &in[1], NULL, &out[0]);
    put_r(g, ref_norm_statistic(in), ref_axis(a->axis, in->rank), in->shape, &out[1]);
    free(g);
    ref_norm_finish(&l);
}

void ref_group_norm(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_group_norm_attrs *a = attrs;
    struct lists l = of_channels(in, a->groups, a->epsilon);
    struct group *g = ref_norm_measure(&l, in->v);
    int64_t shape[2] = {in->shape[0], a->groups};

    put_y(&l, g, in, &in[1], &in[2], &out[0]);
    put_mean(g, ref_norm_statistic(in), 2, shape, &out[1]);
    put_r(g, ref_norm_statistic(in), 2, shape, &out[2]);
    free(g);
    ref_norm_finish(&l);
}

void ref_instance_norm(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_instance_norm_attrs *a = attrs;
    struct lists l = of_channels(in, in->shape[1] ? in->shape[1] : 1, a->epsilon);
    struct group *g = ref_norm_measure(&l, in->v);

    put_y(&l, g, in, &in[1], &in[2], &out[0]);
    free(g);
    ref_norm_finish(&l);
}

/* The statistics are exact inputs: x - mean is rounded, r as above, and each product. */
void ref_batch_norm(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_batch_norm_attrs *a = attrs;
    struct lists l = of_channels(in, 0, a->epsilon);

    ref_array_init(out, in->type->dtype, in->rank, in->shape);
    for (int64_t i = 0; i < in->count; i++) {
        int64_t c = l.param[i];
        long double r = 1 / sqrtl(in[4].v[c] + l.epsilon), s = in[1].type ? in[1].v[c] : 1;
        long double h = (in->v[i] - in[3].v[c]) * r * s, b = in[2].type ? in[2].v[c] : 0;
        ref_norm_put(out, i, h + b, fabsl(h) * (in[2].type ? 6 : 5));
    }
    ref_norm_finish(&l);
}

void ref_batch_norm_train(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_batch_norm_train_attrs *a = attrs;
    struct lists l = of_channels(in, 0, a->epsilon);
    struct group *g = ref_norm_measure(&l, in->v);
    long double stays = ref_rounded(in->type, a->momentum);

    put_y(&l, g, in, &in[1], &in[2], &out[0]);
    put_mean(g, ref_norm_statistic(in), 1, in->shape + 1, &out[3]);
    put_r(g, ref_norm_statistic(in), 1, in->shape + 1, &out[4]);
    ref_array_init(&out[1], ref_norm_statistic(in), 1, in->shape + 1);
    ref_array_init(&out[2], ref_norm_statistic(in), 1, in->shape + 1);
    for (int64_t k = 0; k < l.groups; k++) {
        long double n = (long double)g[k].n, by = a->unbiased ? n / (n - 1) : 1, now;
        long double old = stays * in[3].v[k], mean = (1 - stays) * g[k].mean;
        ref_norm_put(&out[1], k, old + mean,
                     fabsl(old) + 2 * fabsl(mean) + fabsl(1 - stays) * g[k].e);
        old = stays * in[4].v[k];
        now = (1 - stays) * by * g[k].variance;
        ref_norm_put(&out[2], k, old + now,
                     fabsl(old) + 4 * fabsl(now) + fabsl((1 - stays) * by) * g[k].off_variance);
    }
    free(g);
    ref_norm_finish(&l);
}

/* The sums of a group's gradient (means of g and of g h), the sum of magnitudes, and the errors. */
struct sums {
    long double all, along, size, off_all, off_along;
};

static struct sums *add_up(const struct lists *l, const struct group *g, const long double *x,
                           const struct ref_array *scale, const long double *dy)
{
    struct sums *s = calloc((size_t)l->groups + 1, sizeof *s);

    if (!s) abort();
    for (int64_t i = 0; i < l->count; i++) {
        struct sums *of = &s[l->group[i]];
        long double d = dy[i] * (scale->type ? scale->v[l->param[i]] : 1), off;
        long double h = h_of(&g[l->group[i]], x[i], &off);
        of->all += d;
        of->size += fabsl(d);
        of->along += d * h;
        of->off_along += fabsl(d) * off + ref_growth(g[l->group[i]].n + 1) * fabsl(d * h);
    }
    for (int64_t k = 0; k < l->groups; k++) {
        long double n = (long double)g[k].n;
        s[k].all = l->centre ? s[k].all / n : 0;
        s[k].off_all = l->centre ? ref_growth(g[k].n) * s[k].size / n + fabsl(s[k].all) : 0;
        s[k].along /= n;
        s[k].off_along /= n;
        /* The division by n. If r is not exact, its error leaves room for that. */
        if (g[k].relative == 0) s[k].off_along += fabsl(s[k].along);
    }
    return s;
}

/* dx = r (g - all - h along): each term in the brackets has an error, and their differences are
 * rounded; the error of r is relative to the result. */
static void put_dx(const struct lists *l, const struct group *g, const struct ref_array *in,
                   struct ref_array *out)
{
    struct sums *s = add_up(l, g, in[0].v, &in[1], in[2].v);

    ref_array_init(out, in->type->dtype, in->rank, in->shape);
    for (int64_t i = 0; i < in->count; i++) {
        const struct group *of = &g[l->group[i]];
        const struct sums *sum = &s[l->group[i]];
        long double d = in[2].v[i] * (in[1].type ? in[1].v[l->param[i]] : 1), off;
        long double h = h_of(of, in->v[i], &off), dx = of->r * (d - sum->all - h * sum->along);
        off = off * fabsl(sum->along) + fabsl(h * sum->along) + fabsl(h) * sum->off_along +
              sum->off_all + fabsl(dx / of->r);
        if (in[1].type) off += fabsl(d);
        if (l->centre) off += fabsl(d - sum->all);
        ref_norm_put(out, i, dx, of->r * off + fabsl(dx) * of->relative);
    }
    free(s);
}

static void put_params(const struct lists *l, const struct group *g, const struct ref_array *in,
                       uint32_t dtype, int rank, const int64_t *shape, struct ref_array *out)
{
    int64_t n = l->params ? l->count / l->params : 0;

    ref_array_init(&out[0], dtype, rank, shape);
    ref_array_init(&out[1], dtype, rank, shape);
    for (int64_t i = 0; i < l->count; i++) {
        int64_t k = l->param[i];
        long double off, h = h_of(&g[l->group[i]], in->v[i], &off), d = in[2].v[i];
        out[0].v[k] += d * h;
        out[0].bound[k] += fabsl(d) * off + ref_growth(n) * fabsl(d * h);
        out[1].v[k] += d;
        out[1].bound[k] += ref_growth(n - 1) * fabsl(d);
    }
    for (int64_t k = 0; k < l->params; k++) {
        ref_norm_put(&out[0], k, out[0].v[k], out[0].bound[k]);
        ref_norm_put(&out[1], k, out[1].v[k], out[1].bound[k]);
    }
}

static void ref_norm_gradient(struct lists l, const struct ref_array *in, uint32_t dtype, int rank,
                              const int64_t *shape, struct ref_array *out)
{
    struct group *g = in[3].type ? ref_norm_saved(&l, &in[3]) : ref_norm_measure(&l, in->v);

    put_dx(&l, g, in, &out[0]);
    put_params(&l, g, in, dtype, rank, shape, &out[1]);
    free(g);
    ref_norm_finish(&l);
}

void ref_layer_norm_grad(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_layer_norm_grad_attrs *a = attrs;
    int begin = ref_axis(a->axis, in->rank);

    ref_norm_gradient(of_rows(in, a->axis, a->epsilon), in, in->type->dtype, in->rank - begin,
                      in->shape + begin, out);
}

void ref_rms_norm_grad(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_rms_norm_grad_attrs *a = attrs;
    int begin = ref_axis(a->axis, in->rank);
    struct lists l = of_rows(in, a->axis, a->epsilon);

    l.centre = false;
    ref_norm_gradient(l, in, in->type->dtype, in->rank - begin, in->shape + begin, out);
    ref_array_finish(&out[2]);
}

void ref_group_norm_grad(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_group_norm_grad_attrs *a = attrs;

    ref_norm_gradient(of_channels(in, a->groups, a->epsilon), in, in->type->dtype, 1, in->shape + 1,
                      out);
}

void ref_batch_norm_grad(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_batch_norm_grad_attrs *a = attrs;

    ref_norm_gradient(of_channels(in, 0, a->epsilon), in, ref_norm_statistic(in), 1, in->shape + 1,
                      out);
}

/* The relative error of the norm is that of operator norm; its last operations and the division
 * count in ulp. */
void ref_lp_normalize(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_lp_normalize_attrs *a = attrs;
    int axis = ref_axis(a->axis, in->rank);
    int64_t n = in->shape[axis], step = ref_norm_extent(in, axis + 1, in->rank);
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
            ref_norm_put(out, i + k * step, y, fabsl(y) * off);
        }
    }
}

/* As layer_norm; the lists name the group of each term by the coordinates that are not in axes. */
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
        /* the error of the deviation is the root of all error, or half of the relative error */
        long double off = ref_growth(terms + 2) / 2 * s + 2 * s;
        off += s > e * u ? e * e * u / s / 2 : e;
        ref_norm_put(out, i, y, (e + fabsl(d)) / by + fabsl(y) * (off + by) / by);
    }
    free(group);
    free(sum);
    free(size);
    free(squares);
}

/* z = bias + alpha / window s, where s is a sum of squares. z^-beta is computed by a logarithm and
 * an exponential function, which turns an absolute error of beta log z into a relative one. */
void ref_lrn(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_lrn_attrs *a = attrs;
    int64_t c = in->shape[1], step = ref_norm_extent(in, 2, in->rank);
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
        ref_norm_put(out, i, y, fabsl(y) * (fabsl(beta) * (relative + 3 * fabsl(logl(z)))));
    }
}
