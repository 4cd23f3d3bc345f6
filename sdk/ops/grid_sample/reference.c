/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c: computes the reference results of grid_sample, affine_grid and their gradients.
 * Positions are computed in double, by the formulas of the operator definition; weights are long
 * double. */
#include "../common/reference.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Along one axis: elements (-1: none), weights, slopes, and the error of a weight or slope in units
 * of its type's roundoff, if it is computed in that type. */
struct line {
    int n;
    int64_t at[4];
    long double weight[4], slope[4], off, slope_off;
};

/* Reflects p between the centres of the first and last element, or between their outer edges. */
static double ref_grid_sample_mirrored(double p, int64_t n, bool align, double *slope)
{
    double low = align ? 0 : -0.5, span = align ? (double)(n - 1) : (double)n, q;

    if (span <= 0) {
        *slope = 0;
        return 0;
    }
    if (p < low) *slope = -*slope;
    q = fmod(fabs(p - low), 2 * span); /* forward and back */
    if (q < span) return q + low;
    *slope = -*slope;
    return span - (q - span) + low;
}

static double ref_grid_sample_padded(double p, int64_t n, const struct bp_grid_sample_attrs *a,
                                     double *slope)
{
    if (a->padding == 2) p = ref_grid_sample_mirrored(p, n, a->align_corners, slope);
    if (!a->padding) return p;
    if (p < 0 || p > (double)(n - 1)) *slope = 0;
    return p < 0 ? 0 : p > (double)(n - 1) ? (double)(n - 1) : p;
}

/* The cubic weight with a = -3/4, and its derivative. */
static long double ref_grid_sample_keys(long double d, bool slope)
{
    long double c = -0.75L, e = fabsl(d), s = d < 0 ? -1 : 1;

    if (e >= 2) return 0;
    if (e <= 1)
        return slope ? s * (3 * (c + 2) * e * e - 2 * (c + 3) * e)
                     : (c + 2) * e * e * e - (c + 3) * e * e + 1;
    return slope ? s * c * (3 * e * e - 10 * e + 8) : c * (e * e * e - 5 * e * e + 8 * e - 4);
}

static struct line line_of(const struct bp_grid_sample_attrs *a, int64_t n, double g)
{
    double size = (double)n, p, slope = a->align_corners ? (size - 1) / 2 : size / 2, whole;
    struct line l = {0};

    p = a->align_corners ? (g + 1) / 2 * (size - 1) : fma(g + 1, size, -1) / 2;
    if (!(fabs(p) < 1e9)) {
        p = p > 0 ? 1e9 : -1e9;
        slope = 0;
    }
    if (a->mode != 2) p = ref_grid_sample_padded(p, n, a, &slope);
    whole = floor(p);
    l.n = a->mode == 1 ? 1 : a->mode == 0 ? 2 : 4;
    for (int k = 0; k < l.n; k++) {
        double at = a->mode == 1 ? nearbyint(p) : a->mode == 0 ? whole + k : whole + k - 1, no = 1;
        long double d = (long double)p - at;
        l.weight[k] = a->mode == 1   ? 1
                      : a->mode == 0 ? 1 - fabsl(d)
                                     : ref_grid_sample_keys(d, false);
        l.slope[k] = a->mode == 1   ? 0
                     : a->mode == 0 ? (k ? slope : -slope)
                                    : ref_grid_sample_keys(d, true) * slope;
        if (a->mode == 2) at = nearbyint(ref_grid_sample_padded(at, n, a, &no));
        l.at[k] = at < 0 || at >= size ? -1 : (int64_t)at;
    }
    l.off = a->mode == 0 ? 1 : a->mode == 1 ? 0 : 4;
    l.slope_off = a->mode == 2 ? 8 * fabsl((long double)slope) : 0;
    return l;
}

/* An element that a point reads: its image, the number of the point, its index in the plane, and
 * its numbers in the lines. */
struct tap {
    int64_t image, point, at;
    int axes, k[3];
    const struct line *line;
};
typedef void tap_fn(void *ctx, const struct tap *t);

static void each_tap(const struct bp_grid_sample_attrs *a, const struct ref_array *grid,
                     int rank, const int64_t *shape, tap_fn *each, void *ctx)
{
    int axes = rank - 2;
    int64_t points = grid->count / axes / (shape[0] ? shape[0] : 1);

    for (int64_t i = 0; i < grid->count / axes; i++) {
        struct line line[3];
        struct tap t = {.image = i / points, .point = i % points, .axes = axes, .line = line};
        int64_t n[3] = {1, 1, 1}, k[3] = {0};
        for (int s = 0; s < axes; s++) {
            line[s] = line_of(a, shape[s + 2], (double)grid->v[i * axes + axes - 1 - s]);
            n[s] = line[s].n;
        }
        do {
            bool there = true;
            t.at = 0;
            for (int s = 0; s < axes; s++) {
                t.k[s] = (int)k[s];
                there = there && line[s].at[k[s]] >= 0;
                t.at = t.at * shape[s + 2] + line[s].at[k[s]];
            }
            if (there) each(ctx, &t);
        } while (ref_next(3, n, k));
    }
}

/* Returns the weight of a tap; slope: the axis whose slope is used (-1: none). Sets *off to its
 * error. */
static long double weight_of(const struct tap *t, int slope, bool wide, long double *off)
{
    long double w = 1, e = 0;

    for (int s = 0; s < t->axes; s++) {
        const struct line *l = &t->line[s];
        long double own = s == slope ? l->slope[t->k[s]] : l->weight[t->k[s]];
        e = e * fabsl(own) + (!wide ? 0 : s == slope ? l->slope_off : l->off) * fabsl(w);
        w *= own;
    }
    *off = e + fabsl(w);
    return w;
}

struct sampling {
    const struct ref_array *x, *y; /* dy or x, where they are read */
    struct ref_array *out;
    int64_t channels, plane, points, *terms;
    long double *size; /* the sum of the magnitudes of the terms */
    bool wide;
};

static void ref_grid_sample_add(struct sampling *s, int64_t to, long double value, long double off)
{
    s->out->v[to] += value;
    s->out->bound[to] += off;
    s->size[to] += fabsl(value);
    s->terms[to]++;
}

static void ref_grid_sample_forward(void *ctx, const struct tap *t)
{
    struct sampling *s = ctx;
    long double off, w = weight_of(t, -1, s->wide, &off);

    for (int64_t c = 0; c < s->channels; c++) {
        long double v = s->x->v[(t->image * s->channels + c) * s->plane + t->at];
        if (w == 0 && !isfinite(v)) continue; /* cases avoid values that are not finite here */
        ref_grid_sample_add(s, (t->image * s->channels + c) * s->points + t->point, w * v,
                            off * fabsl(v));
    }
}

static void to_input(void *ctx, const struct tap *t)
{
    struct sampling *s = ctx;
    long double off, w = weight_of(t, -1, s->wide, &off);

    for (int64_t c = 0; c < s->channels; c++) {
        long double v = s->y->v[(t->image * s->channels + c) * s->points + t->point];
        ref_grid_sample_add(s, (t->image * s->channels + c) * s->plane + t->at, w * v,
                            off * fabsl(v));
    }
}

static void to_grid(void *ctx, const struct tap *t)
{
    struct sampling *s = ctx;

    for (int axis = 0; axis < t->axes; axis++) {
        long double off, w = weight_of(t, axis, s->wide, &off);
        for (int64_t c = 0; c < s->channels; c++) {
            int64_t image = t->image * s->channels + c;
            long double v = s->x->v[image * s->plane + t->at] *
                            s->y->v[image * s->points + t->point];
            ref_grid_sample_add(s, (t->image * s->points + t->point) * t->axes + t->axes - 1 - axis,
                                w * v, (off + fabsl(w)) * fabsl(v));
        }
    }
}

/* rank, shape: of the image. */
static void ref_grid_sample_run(const void *attrs, const struct ref_array *x,
                                const struct ref_array *y, const struct ref_array *grid,
                                const int64_t *shape, int rank, struct ref_array *out, tap_fn *each)
{
    struct sampling s = {.x = x, .y = y, .out = out, .channels = shape[1], .plane = 1, .points = 1,
                         .wide = out->type->dtype == BP_F64};

    for (int i = 2; i < rank; i++) {
        s.plane *= shape[i];
        s.points *= grid->shape[i - 1];
    }
    s.terms = calloc((size_t)out->count + 1, sizeof *s.terms);
    s.size = calloc((size_t)out->count + 1, sizeof *s.size);
    if (!s.terms || !s.size) abort();
    each_tap(attrs, grid, rank, shape, each, &s);
    for (int64_t i = 0; i < out->count; i++)
        out->bound[i] += s.size[i] * ref_growth(s.terms[i] - 1);
    free(s.terms);
    free(s.size);
}

void ref_grid_sample(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct ref_array *x = &in[0], *grid = &in[1];
    int64_t shape[REF_RANK] = {x->shape[0], x->shape[1]};

    for (int i = 2; i < x->rank; i++) shape[i] = grid->shape[i - 1];
    ref_array_init(out, x->type->dtype, x->rank, shape);
    ref_grid_sample_run(attrs, x, NULL, grid, x->shape, x->rank, out, ref_grid_sample_forward);
}

void ref_grid_sample_grad_input(const struct ref_array *in, const void *attrs,
                                struct ref_array *out)
{
    ref_array_init(out, in[2].type->dtype, in[2].rank, in[2].shape);
    ref_grid_sample_run(attrs, NULL, &in[0], &in[1], in[2].shape, in[2].rank, out, to_input);
}

void ref_grid_sample_grad_grid(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    ref_array_init(out, in[2].type->dtype, in[2].rank, in[2].shape);
    ref_grid_sample_run(attrs, &in[1], &in[0], &in[2], in[1].shape, in[1].rank, out, to_grid);
}

/* Returns the coordinate, between -1 and 1, of element i of n. */
static long double ref_grid_sample_between(int64_t i, int64_t n, bool align)
{
    if (align) return n == 1 ? 0 : -1 + 2 * (long double)i / (long double)(n - 1);
    return (2 * (long double)i + 1) / (long double)n - 1;
}

/* Sets base to x, y, (z,) 1 of a point. */
static void base_of(int axes, const int64_t *extent, int64_t point, bool align, long double *base)
{
    for (int k = 0; k < axes; k++) {
        int64_t n = extent[axes - 1 - k];
        base[k] = ref_grid_sample_between(point % n, n, align);
        point /= n;
    }
    base[axes] = 1;
}

void ref_affine_grid(const struct ref_array *theta, const void *attrs, struct ref_array *grid)
{
    const struct bp_affine_grid_attrs *a = attrs;
    int axes = (int)a->sizes.n - 2;
    int64_t shape[REF_RANK] = {a->sizes.at[0]}, points = 1;

    for (int i = 0; i < axes; i++) points *= shape[i + 1] = a->sizes.at[i + 2];
    shape[axes + 1] = axes;
    ref_array_init(grid, theta->type->dtype, axes + 2, shape);
    for (int64_t e = 0; e < grid->count; e++) {
        long double base[4];
        base_of(axes, shape + 1, e / axes % points, a->align_corners, base);
        for (int j = 0; j <= axes; j++) {
            long double t = theta->v[(e / axes / points * axes + e % axes) * (axes + 1) + j];
            grid->v[e] += t * base[j];
            grid->bound[e] += fabsl(t * base[j]) * (ref_growth(axes) + (j < axes));
        }
    }
}

void ref_affine_grid_grad(const struct ref_array *d, const void *attrs, struct ref_array *dtheta)
{
    const struct bp_affine_grid_grad_attrs *a = attrs;
    int axes = d->rank - 2;
    int64_t shape[] = {d->shape[0], axes, axes + 1}, points = 1;

    for (int i = 0; i < axes; i++) points *= d->shape[i + 1];
    ref_array_init(dtheta, d->type->dtype, 3, shape);
    for (int64_t e = 0; e < d->count; e++) {
        long double base[4];
        base_of(axes, d->shape + 1, e / axes % points, a->align_corners, base);
        for (int j = 0; j <= axes; j++) {
            int64_t to = (e / axes / points * axes + e % axes) * (axes + 1) + j;
            dtheta->v[to] += d->v[e] * base[j];
            dtheta->bound[to] += fabsl(d->v[e] * base[j]) * (ref_growth(points - 1) + (j < axes));
        }
    }
}
