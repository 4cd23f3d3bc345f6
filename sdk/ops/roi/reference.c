/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c: computes reference results of pools of regions. Positions are in double, weights in
 * long double. */
#include "../common/reference.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A corner of a sampling point: its position in the plane (-1: outside) and its weight. */
struct corner {
    int64_t at;
    long double weight;
};

/* Returns all corners of bin o0, o1 of region r, four for each sampling point. The caller frees
 * them. */
static struct corner *corners_of(const struct bp_roi_align_attrs *a, const struct ref_array *x,
                                 const struct ref_array *rois, int64_t r, int64_t o0, int64_t o1,
                                 int64_t *n)
{
    double begin[2], bin[2];
    int64_t o[2] = {o0, o1}, out[2] = {a->height, a->width}, places[2];
    struct corner *c;

    for (int s = 0; s < 2; s++) {
        double low = fma((double)rois->v[4 * r + 1 - s], a->scale, a->whole ? 0 : -0.5);
        double high = fma((double)rois->v[4 * r + 3 - s], a->scale, a->whole ? 0 : -0.5);
        double length = high - low;
        if (a->whole) length = fmax(length, 1);
        begin[s] = low;
        bin[s] = length / (double)out[s];
        places[s] = a->sampling ? a->sampling : bin[s] > 0 ? (int64_t)fmin(ceil(bin[s]), 4096) : 0;
    }
    *n = 4 * places[0] * places[1];
    c = calloc((size_t)*n + 1, sizeof *c);
    if (!c) abort();
    for (int64_t k = 0; k < *n; k++) {
        int64_t place[2] = {k / 4 / places[1], k / 4 % places[1]};
        bool upper[2] = {k % 4 > 1, k % 2 == 1}, outside = false;
        c[k].weight = 1;
        for (int s = 0; s < 2; s++) {
            int64_t size = x->shape[s + 2], at;
            double p = fma((double)o[s], bin[s], begin[s]) +
                       ((double)place[s] + 0.5) * bin[s] / (double)places[s];
            outside |= p < -1 || p > (double)size;
            p = fmin(fmax(p, 0), (double)(size - 1));
            at = (int64_t)p;
            c[k].weight *= upper[s] ? (long double)p - at : 1 - ((long double)p - at);
            c[k].at = c[k].at * size + (upper[s] && at < size - 1 ? at + 1 : at);
        }
        if (outside) c[k] = (struct corner){-1, 0};
    }
    return c;
}

static long double ref_roi_value_of(const struct ref_array *x, int64_t plane, struct corner c)
{
    return c.at < 0 ? 0 : c.weight * x->v[plane + c.at];
}

/* The index of the corner with the largest product. */
static int64_t ref_roi_largest(const struct ref_array *x, int64_t plane, const struct corner *c,
                               int64_t n)
{
    int64_t best = 0;

    for (int64_t k = 1; k < n; k++)
        if (ref_roi_value_of(x, plane, c[k]) > ref_roi_value_of(x, plane, c[best])) best = k;
    return best;
}

/* The error of a weight, in unit roundoffs, if kernels compute positions and weights in the type of
 * x (f64). */
static long double off_of(const struct ref_array *x)
{
    return x->type->dtype == BP_F64 ? 1 : 0;
}

void ref_roi_align(const struct ref_array *in, const void *attrs, struct ref_array *y)
{
    const struct bp_roi_align_attrs *a = attrs;
    const struct ref_array *x = &in[0], *rois = &in[1], *images = &in[2];
    int64_t shape[] = {rois->shape[0], x->shape[1], a->height, a->width}, at[REF_RANK] = {0};

    ref_array_init(y, x->type->dtype, 4, shape);
    for (int64_t e = 0; e < y->count; e++, ref_next(4, shape, at)) {
        int64_t n, plane = ((int64_t)images->u[at[0]] * x->shape[1] + at[1]) * x->shape[2] *
                           x->shape[3];
        struct corner *c = corners_of(a, x, rois, at[0], at[2], at[3], &n);
        if (a->max && n) {
            int64_t k = ref_roi_largest(x, plane, c, n);
            y->v[e] = ref_roi_value_of(x, plane, c[k]);
            y->bound[e] = c[k].at < 0 ? 0
                                      : fabsl(y->v[e]) + off_of(x) * fabsl(x->v[plane + c[k].at]);
        }
        for (int64_t k = 0; !a->max && k < n; k++) {
            long double v = ref_roi_value_of(x, plane, c[k]), by = (long double)(n / 4);
            y->v[e] += v / by;
            y->bound[e] += fabsl(v) / by * (2 + ref_growth(n - 1));
            if (c[k].at >= 0) y->bound[e] += off_of(x) * fabsl(x->v[plane + c[k].at]) / by;
        }
        free(c);
    }
}

void ref_roi_align_grad(const struct ref_array *in, const void *attrs, struct ref_array *dx)
{
    struct bp_roi_align_attrs a;
    const struct ref_array *dy = &in[0], *rois = &in[1], *images = &in[2], *x = &in[3];
    int64_t at[REF_RANK] = {0}, *terms = calloc((size_t)x->count + 1, sizeof *terms);
    long double *size = calloc((size_t)x->count + 1, sizeof *size);

    memcpy(&a, attrs, sizeof a); /* one layout */
    if (!terms || !size) abort();
    ref_array_init(dx, x->type->dtype, 4, x->shape);
    for (int64_t e = 0; e < dy->count; e++, ref_next(4, dy->shape, at)) {
        int64_t n, plane = ((int64_t)images->u[at[0]] * x->shape[1] + at[1]) * x->shape[2] *
                           x->shape[3];
        struct corner *c = corners_of(&a, x, rois, at[0], at[2], at[3], &n);
        int64_t best = a.max && n ? ref_roi_largest(x, plane, c, n) : 0;
        for (int64_t k = 0; k < n; k++) {
            long double v = dy->v[e] / (a.max ? 1 : (long double)(n / 4));
            if (c[k].at < 0 || (a.max && k != best)) continue;
            dx->v[plane + c[k].at] += c[k].weight * v;
            dx->bound[plane + c[k].at] += fabsl(v) * (2 * fabsl(c[k].weight) + off_of(x));
            size[plane + c[k].at] += fabsl(c[k].weight * v);
            terms[plane + c[k].at]++;
        }
        free(c);
    }
    for (int64_t i = 0; i < dx->count; i++) dx->bound[i] += size[i] * ref_growth(terms[i] - 1);
    free(terms);
    free(size);
}

static int64_t ref_roi_rounded(double place)
{
    return (int64_t)round(fmin(fmax(place, -1e9), 1e9));
}

/* The position of the first largest element of a plane in bin o0, o1 of region r, where NaN is the
 * largest; -1 if the bin is empty. */
static int64_t ref_roi_pooled(const struct bp_roi_pool_attrs *a, const struct ref_array *x,
                              int64_t plane, const struct ref_array *rois, int64_t r,
                              const int64_t *o)
{
    int64_t low[2], high[2], out[2] = {a->height, a->width}, best = -1;

    for (int s = 0; s < 2; s++) {
        int64_t first = ref_roi_rounded((double)rois->v[4 * r + 1 - s] * a->scale);
        int64_t length = ref_roi_rounded((double)rois->v[4 * r + 3 - s] * a->scale) - first + 1;
        length = length < 1 ? 1 : length;
        low[s] = first + o[s] * length / out[s];
        high[s] = first + (o[s] + 1) * length / out[s] + ((o[s] + 1) * length % out[s] != 0);
    }
    for (int64_t k = 0; k < x->shape[2] * x->shape[3]; k++) {
        int64_t i = k / x->shape[3], j = k % x->shape[3];
        if (i < low[0] || i >= high[0] || j < low[1] || j >= high[1]) continue;
        if (best < 0 || x->v[plane + k] > x->v[plane + best] ||
            (isnan(x->v[plane + k]) && !isnan(x->v[plane + best])))
            best = k;
    }
    return best;
}

void ref_roi_pool(const struct ref_array *in, const void *attrs, struct ref_array *y)
{
    const struct bp_roi_pool_attrs *a = attrs;
    const struct ref_array *x = &in[0], *rois = &in[1], *images = &in[2];
    int64_t shape[] = {rois->shape[0], x->shape[1], a->height, a->width}, at[REF_RANK] = {0};

    ref_array_init(y, x->type->dtype, 4, shape);
    for (int64_t e = 0; e < y->count; e++, ref_next(4, shape, at)) {
        int64_t plane = ((int64_t)images->u[at[0]] * x->shape[1] + at[1]) * x->shape[2] *
                        x->shape[3];
        int64_t k = ref_roi_pooled(a, x, plane, rois, at[0], at + 2);
        y->v[e] = k < 0 ? 0 : x->v[plane + k];
    }
}

/* A gradient being summed, and the number of terms of each of its elements. */
struct ref_roi_spread {
    struct ref_array *dx;
    int64_t *terms;
};

static void spread_add(struct ref_roi_spread *s, int64_t i, long double v)
{
    s->dx->v[i] += v;
    s->dx->bound[i] += fabsl(v);
    s->terms[i]++;
}

/* Adds one element of dy, with coordinates `at`, to the elements of x that it depends on. */
typedef void give_back(struct ref_roi_spread *s, const struct ref_array *in, const void *attrs,
                       const int64_t *at, long double dy);

/* Computes the gradient in x of a pool of regions. growth: factor of the bound, from the number of
 * terms. */
static void ref_roi_spread(const struct ref_array *in, const void *attrs, struct ref_array *dx,
                           give_back *give, long double (*growth)(int64_t terms))
{
    const struct ref_array *dy = &in[0], *x = &in[3];
    struct ref_roi_spread s = {dx, calloc((size_t)x->count + 1, sizeof *s.terms)};
    int64_t at[REF_RANK] = {0};

    if (!s.terms) abort();
    ref_array_init(dx, x->type->dtype, 4, x->shape);
    for (int64_t e = 0; e < dy->count; e++, ref_next(4, dy->shape, at))
        give(&s, in, attrs, at, dy->v[e]);
    for (int64_t i = 0; i < dx->count; i++) dx->bound[i] *= growth(s.terms[i]);
    free(s.terms);
}

static void give_largest(struct ref_roi_spread *s, const struct ref_array *in, const void *attrs,
                         const int64_t *at, long double dy)
{
    struct bp_roi_pool_attrs a;
    const struct ref_array *rois = &in[1], *images = &in[2], *x = &in[3];
    int64_t plane = ((int64_t)images->u[at[0]] * x->shape[1] + at[1]) * x->shape[2] * x->shape[3];
    int64_t k;

    memcpy(&a, attrs, sizeof a); /* one layout */
    k = ref_roi_pooled(&a, x, plane, rois, at[0], at + 2);
    if (k >= 0) spread_add(s, plane + k, dy);
}

static long double largest_growth(int64_t terms)
{
    return ref_growth(terms - 2) + 0x1p-10L * (long double)(terms > 1);
}

void ref_roi_pool_grad(const struct ref_array *in, const void *attrs, struct ref_array *dx)
{
    ref_roi_spread(in, attrs, dx, give_largest, largest_growth);
}

/* The bin of psroi_pool: a range of positions of x along each axis, and their number. */
struct bin {
    int64_t from[2], to[2], places;
};

static struct bin bin_of(const struct bp_psroi_pool_attrs *a, const struct ref_array *x,
                         const struct ref_array *rois, int64_t r, const int64_t *o)
{
    int64_t out[2] = {a->height, a->width};
    struct bin b;

    for (int s = 0; s < 2; s++) {
        double low = (double)ref_roi_rounded((double)rois->v[4 * r + 1 - s]) * a->scale;
        double last = (double)ref_roi_rounded((double)rois->v[4 * r + 3 - s]) + 1;
        double step = fmax(fma(last, a->scale, -low), 0.1) / (double)out[s];
        double extent = (double)x->shape[s + 2];
        b.from[s] = (int64_t)fmin(fmax(floor(fma((double)o[s], step, low)), 0), extent);
        b.to[s] = (int64_t)fmin(fmax(ceil(fma((double)(o[s] + 1), step, low)), 0), extent);
    }
    b.places = b.to[0] > b.from[0] && b.to[1] > b.from[1]
                   ? (b.to[0] - b.from[0]) * (b.to[1] - b.from[1])
                   : 0;
    return b;
}

/* The index in x of position k of a bin, for the element of y with coordinates `at`. */
static int64_t binned_at(const struct bp_psroi_pool_attrs *a, const struct ref_array *x,
                         int64_t image, const int64_t *at, const struct bin *b, int64_t k)
{
    int64_t wide = b->to[1] - b->from[1], channel = (at[1] * a->height + at[2]) * a->width + at[3];

    return ((image * x->shape[1] + channel) * x->shape[2] + b->from[0] + k / wide) * x->shape[3] +
           b->from[1] + k % wide;
}

void ref_psroi_pool(const struct ref_array *in, const void *attrs, struct ref_array *y)
{
    const struct bp_psroi_pool_attrs *a = attrs;
    const struct ref_array *x = &in[0], *rois = &in[1], *images = &in[2];
    int64_t shape[] = {rois->shape[0], x->shape[1] / a->height / a->width, a->height, a->width};
    int64_t at[REF_RANK] = {0};

    ref_array_init(y, x->type->dtype, 4, shape);
    for (int64_t e = 0; e < y->count; e++, ref_next(4, shape, at)) {
        struct bin b = bin_of(a, x, rois, at[0], at + 2);
        for (int64_t k = 0; k < b.places; k++) {
            long double v = x->v[binned_at(a, x, (int64_t)images->u[at[0]], at, &b, k)];
            y->v[e] += v / b.places;
            y->bound[e] += fabsl(v) / b.places * ref_growth(b.places - 1);
        }
    }
}

static void give_mean(struct ref_roi_spread *s, const struct ref_array *in, const void *attrs,
                      const int64_t *at, long double dy)
{
    struct bp_psroi_pool_attrs a;
    const struct ref_array *rois = &in[1], *images = &in[2], *x = &in[3];
    struct bin b;

    memcpy(&a, attrs, sizeof a); /* one layout */
    b = bin_of(&a, x, rois, at[0], at + 2);
    for (int64_t k = 0; k < b.places; k++)
        spread_add(s, binned_at(&a, x, (int64_t)images->u[at[0]], at, &b, k), dy / b.places);
}

static long double mean_growth(int64_t terms)
{
    return 1 + ref_growth(terms - 1);
}

void ref_psroi_pool_grad(const struct ref_array *in, const void *attrs, struct ref_array *dx)
{
    ref_roi_spread(in, attrs, dx, give_mean, mean_growth);
}
