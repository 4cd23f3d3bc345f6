/* SPDX-License-Identifier: Apache-2.0 */
/* reference_distance.c: computes the reference results of distances between vectors and of
 * cosine_similarity. */
#include "../common/reference.h"
#include <math.h>
#include <stdlib.h>

/* The n pairs of numbers of one result. */
struct pairs {
    int64_t n;
    long double *x, *y;
};

static void ref_distance_start(struct pairs *p, int64_t n)
{
    p->n = 0;
    p->x = calloc((size_t)n + 1, sizeof *p->x);
    p->y = calloc((size_t)n + 1, sizeof *p->y);
    if (!p->x || !p->y) abort();
}

static void ref_distance_finish(struct pairs *p)
{
    free(p->x);
    free(p->y);
}

/* Collects the pairs of result number o; axis: the axis of the broadcast shape that is reduced (-1:
 * all). */
static void ref_distance_collect(const struct ref_array *in, int rank, const int64_t *shape,
                                 int axis, int64_t o, struct pairs *p)
{
    int64_t at[REF_RANK] = {0}, count = 1;

    p->n = 0;
    for (int i = 0; i < rank; i++) count *= shape[i];
    for (int64_t i = 0; i < count; i++, ref_next(rank, shape, at)) {
        int64_t of = 0;
        for (int k = 0; k < rank; k++)
            if (axis >= 0 && k != axis) of = of * shape[k] + at[k];
        if (of != o) continue;
        p->x[p->n] = in[0].v[ref_index(&in[0], rank, at)];
        p->y[p->n++] = in[1].v[ref_index(&in[1], rank, at)];
    }
}

/* Returns the relative error of a norm of n terms whose powers add up to s, as the reference of
 * norm does. */
static long double norm_roundings(long double p, int64_t n, long double s)
{
    if (p == 1) return ref_growth(n - 2);
    if (p == 2) return ref_growth(n) / 2;
    return (ref_growth(n - 1) + 2 + (s > 0 ? fabsl(logl(s)) : 0)) / p;
}

/* Computes the norm of x - y + epsilon. A difference is off by u of itself and by the rounding of
 * the addition: an error of each term of the norm. The norm changes at most by the p-norm of these
 * errors (for p below 1 or infinite: by the largest error, once for each term). */
static void ref_distance_distance(const struct pairs *p, long double order, long double epsilon,
                                  long double *value, long double *bound)
{
    long double s = 0, most = 0, least = INFINITY, error = 0;
    bool nan = false;

    for (int64_t i = 0; i < p->n; i++) {
        long double d = fabsl(p->x[i] - p->y[i] + epsilon);
        long double off = fabsl(p->x[i] - p->y[i]) + (epsilon != 0 ? d : 0);
        nan |= isnan(d);
        most = d > most ? d : most;
        least = d < least ? d : least;
        s += order == 0 ? d != 0 : powl(d, order);
        error += isinf(order) || order == 0 ? 0 : powl(off, order);
    }
    *bound = 0;
    *value = order == 0 ? s : isinf(order) ? (order > 0 ? most : least) : powl(s, 1 / order);
    if (nan && order != 0) *value = NAN;
    if (order == 0 || !isfinite(*value)) return;
    if (isinf(order)) *bound = (epsilon != 0 ? 2 : 1) * *value;
    else *bound = powl(error, 1 / order) + *value * norm_roundings(order, p->n, s);
}

void ref_dist(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    int64_t shape[REF_RANK], count = 1;
    int rank = ref_broadcast(&in[0], &in[1], shape);
    struct pairs p;

    for (int i = 0; i < rank; i++) count *= shape[i];
    ref_distance_start(&p, count);
    ref_distance_collect(in, rank, shape, -1, 0, &p);
    ref_array_init(out, in->type->dtype, 0, NULL);
    ref_distance_distance(&p, ((const struct bp_dist_attrs *)attrs)->p, 0, out->v, out->bound);
    ref_distance_finish(&p);
}

void ref_pairwise_distance(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_pairwise_distance_attrs *a = attrs;
    int64_t shape[REF_RANK], result[REF_RANK];
    int rank = ref_broadcast(&in[0], &in[1], shape);
    long double epsilon = ref_number(in->type, attrs, 2);
    struct pairs p;

    for (int i = 0; i < rank; i++) result[i] = i == rank - 1 ? 1 : shape[i];
    ref_array_init(out, in->type->dtype, a->keep ? rank : rank - 1, result);
    ref_distance_start(&p, shape[rank - 1]);
    for (int64_t o = 0; o < out->count; o++) {
        ref_distance_collect(in, rank, shape, rank - 1, o, &p);
        ref_distance_distance(&p, a->p, epsilon, &out->v[o], &out->bound[o]);
    }
    ref_distance_finish(&p);
}

/* z = s / (|x| |y|): s is off by growth(n) sum |x y|, each norm by half its growth. */
static void ref_distance_cosine(const struct pairs *p, long double least, long double *value,
                                long double *bound)
{
    long double s = 0, size = 0, xx = 0, yy = 0;

    for (int64_t i = 0; i < p->n; i++) {
        s += p->x[i] * p->y[i];
        size += fabsl(p->x[i] * p->y[i]);
        xx += p->x[i] * p->x[i];
        yy += p->y[i] * p->y[i];
    }
    xx = sqrtl(xx) < least ? least : sqrtl(xx);
    yy = sqrtl(yy) < least ? least : sqrtl(yy);
    *value = s / (xx * yy);
    *bound = 0;
    if (isfinite(*value))
        *bound = ref_growth(p->n) * size / (xx * yy) + fabsl(*value) * ref_growth(p->n);
}

void ref_cosine_similarity(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_cosine_similarity_attrs *a = attrs;
    int64_t shape[REF_RANK], result[REF_RANK];
    int rank = ref_broadcast(&in[0], &in[1], shape), axis = ref_axis(a->axis, rank);
    struct pairs p;

    for (int i = 0; i < rank - 1; i++) result[i] = shape[i < axis ? i : i + 1];
    ref_array_init(out, in->type->dtype, rank - 1, result);
    ref_distance_start(&p, shape[axis]);
    for (int64_t o = 0; o < out->count; o++) {
        ref_distance_collect(in, rank, shape, axis, o, &p);
        ref_distance_cosine(&p, ref_number(in->type, attrs, 2), &out->v[o], &out->bound[o]);
    }
    ref_distance_finish(&p);
}
