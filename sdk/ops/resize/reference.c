/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c: computes reference results of resampling. Positions are computed in double, by the
 * formulas of the operator's definition, so that the choice of the nearest element is the same as
 * in kernels; weights are long double. */
#include "../common/reference.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The elements of x, with weights, that make an element of the result along one axis: n, or none if
 * the position is outside. */
struct taps {
    int64_t n, *at;
    long double *weight;
    bool outside;
};

static double ref_resize_place_of(const struct bp_resize_axis_attrs *a, int64_t in, int64_t out,
                                  int64_t j)
{
    double n = (double)in, m = (double)out, x = (double)j, shift = -0.5;

    switch (a->coordinates) {
    case 1: /* half_pixel_symmetric */
        if (a->scale != 0) shift = n / 2 * (1 - m / (a->scale * n)) - 0.5;
        break;
    case 2: /* pytorch_half_pixel */
        if (out == 1) return 0;
        break;
    case 3: /* align_corners */
        return out == 1 ? 0 : x * (n - 1) / (m - 1);
    case 4: /* asymmetric */
        return a->scale != 0 ? x / a->scale : x * n / m;
    case 5: /* tf_crop_and_resize */
        if (out == 1) return 0.5 * (a->start + a->end) * (n - 1);
        return x * ((n - 1) * (a->end - a->start)) / (m - 1) + a->start * (n - 1);
    default: break;
    }
    return (a->scale != 0 ? (x + 0.5) / a->scale : (x + 0.5) * n / m) + shift;
}

static long double weight_of(const struct bp_resize_axis_attrs *a, long double d)
{
    long double c = a->cubic_a;

    d = fabsl(d);
    if (a->mode == 1) return d < 1 ? 1 - d : 0;
    if (d <= 1) return (c + 2) * d * d * d - (c + 3) * d * d + 1;
    return d < 2 ? c * (d * d * d - 5 * d * d + 8 * d - 4) : 0;
}

static int64_t ref_resize_clamp(int64_t t, int64_t n)
{
    return t < 0 ? 0 : t >= n ? n - 1 : t;
}

static int64_t ref_resize_nearest(int64_t how, double p)
{
    double down = floor(p), rest = p - down;

    if (how == 2) return (int64_t)down;
    if (how == 3) return (int64_t)ceil(p);
    return (int64_t)down + (rest > 0.5 || (rest == 0.5 && how == 1));
}

static struct taps taps_of(const struct bp_resize_axis_attrs *a, int64_t in, int64_t out, int64_t j)
{
    double p = ref_resize_place_of(a, in, out, j),
           scale = a->scale != 0 ? a->scale : (double)out / (double)in;
    double shrink = a->antialias && scale < 1 ? scale : 1;
    int64_t reach = (int64_t)((a->mode == 2 ? 2 : 1) / shrink) + 2;
    int64_t first = (int64_t)floor(p) - reach;
    struct taps t = {0};
    long double sum = 0;

    t.at = calloc((size_t)(2 * reach + 2), sizeof *t.at);
    t.weight = calloc((size_t)(2 * reach + 2), sizeof *t.weight);
    if (!t.at || !t.weight) abort();
    t.outside = a->coordinates == 5 && (p < 0 || p > (double)(in - 1));
    if (t.outside) return t;
    if (a->mode == 0) {
        t.at[0] = ref_resize_clamp(ref_resize_nearest(a->nearest, p), in);
        t.weight[t.n++] = 1;
        return t;
    }
    for (int64_t k = first; k <= first + 2 * reach + 1; k++) {
        long double w = weight_of(a, ((long double)k - p) * shrink);
        if (w == 0 || (a->exclude_outside && (k < 0 || k >= in))) continue;
        sum += w;
        t.at[t.n] = ref_resize_clamp(k, in);
        t.weight[t.n++] = w;
    }
    for (int64_t k = 0; k < t.n && (a->exclude_outside || shrink < 1); k++) t.weight[k] /= sum;
    return t;
}

static void ref_resize_finish(struct taps *t)
{
    free(t->at);
    free(t->weight);
}

/* The error of a weight, in unit roundoffs: its rounding and, if kernels compute it in the type of
 * the result, the roundings of its computation. */
static long double weight_error(const struct bp_resize_axis_attrs *a, const struct ref_array *x,
                                long double w, int64_t n)
{
    bool scaled = a->antialias || a->exclude_outside;
    long double making = (a->mode == 2 ? 4 : 1) + (scaled ? ((long double)n + 2) * fabsl(w) : 0);

    if (a->mode == 0) return 0;
    return fabsl(w) + (x->type->dtype == BP_F64 ? making : 0);
}

/* All resampled axes of x; the other axes have one tap. at: coordinates of the result. */
struct place {
    int n; /* number of resampled axes */
    int axis[3];
    struct bp_resize_axis_attrs how[3];
};

static void ref_resize_sample(const struct ref_array *x, const struct place *p, struct ref_array *y,
                              int64_t to, const int64_t *at)
{
    struct taps t[3];
    int64_t k[3] = {0}, n[3] = {1, 1, 1}, from[REF_RANK], all = 0;
    bool outside = false;

    for (int i = 0; i < p->n; i++) {
        int axis = p->axis[i];
        t[i] = taps_of(&p->how[i], x->shape[axis], y->shape[axis], at[axis]);
        n[i] = t[i].n;
        all += t[i].n;
        outside |= t[i].outside;
    }
    memcpy(from, at, sizeof from);
    if (outside && x->v) y->v[to] = p->how[0].extrapolation;
    else if (outside) y->u[to] = (uint64_t)(int64_t)p->how[0].extrapolation;
    else
        do {
            long double w = 1, off = 0, value;
            int64_t e;
            for (int i = 0; i < p->n; i++) {
                long double own = weight_error(&p->how[i], x, t[i].weight[k[i]], n[i]);
                from[p->axis[i]] = t[i].at[k[i]];
                off = off * fabsl(t[i].weight[k[i]]) + own * fabsl(w);
                w *= t[i].weight[k[i]];
            }
            e = ref_index(x, x->rank, from);
            if (p->how[0].mode == 0) {
                ref_array_copy(y, to, x, e);
                break;
            }
            value = x->v[e];
            y->v[to] += w * value;
            y->bound[to] += fabsl(value) * (off + fabsl(w) * ref_growth(all - 1));
        } while (ref_next(3, n, k));
    for (int i = 0; i < p->n; i++) ref_resize_finish(&t[i]);
}

static void sample_all(const struct ref_array *x, const struct place *p, const int64_t *shape,
                       struct ref_array *y)
{
    int64_t at[REF_RANK] = {0};

    ref_array_init(y, x->type->dtype, x->rank, shape);
    for (int64_t i = 0; i < y->count; i++, ref_next(y->rank, y->shape, at))
        ref_resize_sample(x, p, y, i, at);
}

void ref_resize(const struct ref_array *x, const void *attrs, struct ref_array *y)
{
    const struct bp_resize_attrs *a = attrs;
    const double scale[] = {a->scale0, a->scale1, a->scale2};
    const double start[] = {a->start0, a->start1, a->start2}, end[] = {a->end0, a->end1, a->end2};
    struct place p = {.n = (int)a->sizes.n};
    int64_t shape[REF_RANK];

    memcpy(shape, x->shape, sizeof shape);
    for (int i = 0; i < p.n; i++) {
        p.axis[i] = a->axes.n ? ref_axis(a->axes.at[i], x->rank) : x->rank - p.n + i;
        p.how[i] = (struct bp_resize_axis_attrs){
            .mode = a->mode, .coordinates = a->coordinates, .nearest = a->nearest,
            .cubic_a = a->cubic_a, .antialias = a->antialias,
            .exclude_outside = a->exclude_outside, .extrapolation = a->extrapolation,
            .scale = scale[i], .start = start[i], .end = end[i]};
        shape[p.axis[i]] = a->sizes.at[i];
    }
    sample_all(x, &p, shape, y);
}

void ref_resize_axis(const struct ref_array *x, const void *attrs, struct ref_array *y)
{
    struct place p = {.n = 1, .how = {*(const struct bp_resize_axis_attrs *)attrs}};
    int64_t shape[REF_RANK];

    p.axis[0] = ref_axis(p.how[0].axis, x->rank);
    memcpy(shape, x->shape, sizeof shape);
    shape[p.axis[0]] = p.how[0].extent;
    sample_all(x, &p, shape, y);
}

void ref_resize_axis_grad(const struct ref_array *in, const void *attrs, struct ref_array *dx)
{
    struct bp_resize_axis_attrs a;
    const struct ref_array *dy = &in[0], *x = &in[1];
    int axis;
    int64_t at[REF_RANK] = {0}, *terms;

    memcpy(&a, attrs, sizeof a); /* one layout */
    axis = ref_axis(a.axis, x->rank);
    ref_array_init(dx, x->type->dtype, x->rank, x->shape);
    terms = calloc((size_t)dx->count + 1, sizeof *terms);
    if (!terms) abort();
    for (int64_t i = 0; i < dy->count; i++, ref_next(dy->rank, dy->shape, at)) {
        struct taps t = taps_of(&a, x->shape[axis], dy->shape[axis], at[axis]);
        int64_t to[REF_RANK];
        memcpy(to, at, sizeof to);
        for (int64_t k = 0; k < t.n; k++) {
            int64_t e;
            to[axis] = t.at[k];
            e = ref_index(dx, dx->rank, to);
            dx->v[e] += t.weight[k] * dy->v[i];
            dx->bound[e] += (fabsl(t.weight[k]) + weight_error(&a, x, t.weight[k], t.n)) *
                            fabsl(dy->v[i]);
            terms[e]++;
        }
        ref_resize_finish(&t);
    }
    for (int64_t i = 0; i < dx->count; i++)
        if (terms[i] > 1) dx->bound[i] *= 1 + ref_growth(terms[i] - 2);
    free(terms);
}
