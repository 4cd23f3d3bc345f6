/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c: computes reference results of pools from the definition: each element of the result
 * visits each position of its window. */
#include "../common/reference.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A pool with three spatial axes; axes that x lacks have extent 1. */
struct pooling {
    int64_t planes, in[3], out[3], window[3], stride[3], dilation[3], before[3], after[3];
    bool adaptive;
};

static struct pooling pooling_of(const struct ref_array *x, const struct bp_max_pool_attrs *a)
{
    struct pooling p = {.planes = x->shape[0] * x->shape[1], .adaptive = a->adaptive};

    for (int i = 0; i < 3; i++) {
        bool there = i < x->rank - 2;
        int64_t have, rest;
        p.in[i] = there ? x->shape[i + 2] : 1;
        p.window[i] = there ? a->window[i] : 1;
        p.stride[i] = there ? a->stride[i] : 1;
        p.dilation[i] = there ? a->dilation[i] : 1;
        p.before[i] = there ? a->pad[i] : 0;
        p.after[i] = there ? a->pad[i + 3] : 0;
        p.out[i] = p.window[i];
        if (p.adaptive) continue;
        have = p.in[i] + p.before[i] + p.after[i];
        rest = have - ((p.window[i] - 1) * p.dilation[i] + 1);
        p.out[i] = 0; /* windows that fit; with ceil_mode also those that begin in/before x */
        for (int64_t at = 0;; at += p.stride[i], p.out[i]++)
            if (at > rest && !(a->ceil_mode && at < rest + p.stride[i] &&
                               at < p.in[i] + p.before[i]))
                break;
    }
    return p;
}

/* The position in x, along axis i, of index t of the window at o; it may be outside of x. */
static int64_t ref_pool_place(const struct pooling *p, int i, int64_t o, int64_t t)
{
    if (p->adaptive) return o * p->in[i] / p->out[i] + t;
    return o * p->stride[i] - p->before[i] + t * p->dilation[i];
}

static int64_t ref_pool_places(const struct pooling *p, int i, int64_t o)
{
    int64_t end = (o + 1) * p->in[i];

    if (!p->adaptive) return p->window[i];
    end = end / p->out[i] + (end % p->out[i] != 0);
    return end - o * p->in[i] / p->out[i];
}

/* The number of positions of the window at o that are below a limit. */
static int64_t places_below(const struct pooling *p, int i, int64_t o, int64_t limit)
{
    int64_t n = ref_pool_places(p, i, o), first = ref_pool_place(p, i, o, 0);
    int64_t step = p->adaptive ? 1 : p->dilation[i];
    int64_t below = first < limit ? (limit - 1 - first) / step + 1 : 0;

    return below < n ? below : n;
}

/* Calls each(ctx, position in the plane) for the positions of the window at o that are in x.
 * Returns the number of positions of the window within x and its padding. */
typedef void place_fn(void *ctx, int64_t at);
static long double each_place(const struct pooling *p, const int64_t *o, place_fn *each, void *ctx)
{
    int64_t from[3], n[3], t[3] = {0};
    long double padded = 1;

    for (int i = 0; i < 3; i++) { /* skips positions outside of x: they may be 2^60 */
        from[i] = places_below(p, i, o[i], 0);
        n[i] = places_below(p, i, o[i], p->in[i]) - from[i];
        padded *= (long double)places_below(p, i, o[i], p->in[i] + p->after[i]);
    }
    if (!n[0] || !n[1] || !n[2]) return padded;
    do {
        int64_t at = 0;
        for (int i = 0; i < 3; i++) at = at * p->in[i] + ref_pool_place(p, i, o[i], from[i] + t[i]);
        each(ctx, at);
    } while (ref_next(3, n, t));
    return padded;
}

static int64_t ref_pool_size_of(const int64_t *extent)
{
    return extent[0] * extent[1] * extent[2];
}

static void init_result(const struct pooling *p, const struct ref_array *x, uint32_t dtype,
                        struct ref_array *y)
{
    int64_t shape[REF_RANK] = {x->shape[0], x->shape[1], p->out[0], p->out[1], p->out[2]};

    ref_array_init(y, dtype, x->rank, shape);
}

/* The elements found in one plane of x. */
struct found {
    const struct ref_array *x;
    int64_t plane, best, n;
    long double sum, size;
};

static bool ref_pool_larger(const struct ref_array *x, int64_t a, int64_t b)
{
    if (x->v) return isnan(x->v[a]) ? !isnan(x->v[b]) : x->v[a] > x->v[b];
    if (x->type->class == NUM_SIGNED) return (int64_t)x->u[a] > (int64_t)x->u[b];
    return x->u[a] > x->u[b];
}

static void ref_pool_find(void *ctx, int64_t at)
{
    struct found *f = ctx;

    if (f->best < 0 || ref_pool_larger(f->x, f->plane + at, f->plane + f->best)) f->best = at;
    f->n++;
}

/* Converts a row-major position to one that counts the first spatial axis fastest
 * (column-major). */
static int64_t by_columns(const struct pooling *p, int64_t at)
{
    int64_t w = at % p->in[2], h = at / p->in[2] % p->in[1], d = at / p->in[2] / p->in[1];

    return (w * p->in[1] + h) * p->in[0] + d;
}

/* Computes y and, if index is not NULL, the position of each element. */
static void ref_pool_largest(const struct ref_array *x, const struct pooling *p, bool whole,
                             bool columns, uint32_t dtype, struct ref_array *y,
                             struct ref_array *index)
{
    int64_t in = ref_pool_size_of(p->in), out = ref_pool_size_of(p->out);

    init_result(p, x, x->type->dtype, y);
    if (index) init_result(p, x, dtype, index);
    for (int64_t c = 0; c < p->planes; c++) {
        int64_t o[3] = {0};
        for (int64_t i = 0; i < out; i++, ref_next(3, p->out, o)) {
            struct found f = {.x = x, .plane = c * in, .best = -1};
            each_place(p, o, ref_pool_find, &f);
            ref_array_copy(y, c * out + i, x, c * in + f.best);
            if (!index) continue;
            index->u[c * out + i] =
                (uint64_t)((whole ? c * in : 0) + (columns ? by_columns(p, f.best) : f.best));
        }
    }
}

void ref_max_pool(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    struct pooling p = pooling_of(in, attrs);

    ref_pool_largest(in, &p, false, false, 0, out, NULL);
}

void ref_max_pool_with_index(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_max_pool_with_index_attrs *a = attrs;
    struct pooling p = pooling_of(in, attrs);

    ref_pool_largest(in, &p, a->whole, a->column_major, (uint32_t)a->dtype, &out[0], &out[1]);
}

static struct bp_max_pool_attrs ref_pool_parted(const int64_t *extents)
{
    struct bp_max_pool_attrs a = {.adaptive = 1};

    memcpy(a.window, extents, sizeof a.window);
    return a;
}

void ref_adaptive_max_pool(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_adaptive_max_pool_attrs *a = attrs;
    struct bp_max_pool_attrs like = ref_pool_parted(a->extents);
    struct pooling p = pooling_of(in, &like);

    ref_pool_largest(in, &p, false, false, (uint32_t)a->dtype, &out[0], &out[1]);
}

static void ref_pool_add(void *ctx, int64_t at)
{
    struct found *f = ctx;

    f->sum += f->x->v[f->plane + at];
    f->size += fabsl(f->x->v[f->plane + at]);
    f->n++;
}

/* include: positions in padding count. divisor: replaces the count, unless 0. */
static void ref_pool_averages(const struct ref_array *x, const struct pooling *p, bool include,
                              double divisor, struct ref_array *y)
{
    int64_t in = ref_pool_size_of(p->in), out = ref_pool_size_of(p->out);

    init_result(p, x, x->type->dtype, y);
    for (int64_t c = 0; c < p->planes; c++) {
        int64_t o[3] = {0};
        for (int64_t i = 0; i < out; i++, ref_next(3, p->out, o)) {
            struct found f = {.x = x, .plane = c * in};
            long double padded = each_place(p, o, ref_pool_add, &f);
            long double by = divisor != 0 ? divisor : (double)(include ? padded : (long double)f.n);
            y->v[c * out + i] = f.sum / by;
            y->bound[c * out + i] = ref_growth(f.n - 1) * f.size / fabsl(by);
        }
    }
}

void ref_avg_pool(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_avg_pool_attrs *a = attrs;
    struct pooling p = pooling_of(in, attrs);

    ref_pool_averages(in, &p, a->include_pad, a->divisor, out);
}

void ref_adaptive_avg_pool(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_adaptive_avg_pool_attrs *a = attrs;
    struct bp_max_pool_attrs like = ref_pool_parted(a->extents);
    struct pooling p = pooling_of(in, &like);

    ref_pool_averages(in, &p, false, 0, out);
}

/* For gradients: the share of a window for a position of x. */
struct giving {
    struct ref_array *dx;
    int64_t plane, only, *terms; /* only: the one position that receives it; -1: all do */
    long double value;
};

static void ref_pool_give(void *ctx, int64_t at)
{
    struct giving *g = ctx;

    if (g->only >= 0 && g->only != at) return;
    g->dx->v[g->plane + at] += g->value;
    g->dx->bound[g->plane + at] += fabsl(g->value);
    g->terms[g->plane + at]++;
}

static void ref_pool_count(void *ctx, int64_t at)
{
    (void)at;
    ++*(int64_t *)ctx;
}

/* index NULL: the gradient of an average. extra: roundings of a term besides those of the
 * additions. */
static void ref_pool_gradient(const struct ref_array *dy, const struct ref_array *index,
                              const struct ref_array *x, const struct bp_avg_pool_attrs *a,
                              bool include, double divisor, int64_t extra, struct ref_array *dx)
{
    struct pooling p = pooling_of(x, (const struct bp_max_pool_attrs *)(const void *)a);
    int64_t in = ref_pool_size_of(p.in), out = ref_pool_size_of(p.out);
    struct giving g = {.dx = dx};

    ref_array_init(dx, x->type->dtype, x->rank, x->shape);
    g.terms = calloc((size_t)dx->count + 1, sizeof *g.terms);
    if (!g.terms) abort();
    for (int64_t c = 0; c < p.planes; c++) {
        int64_t o[3] = {0};
        for (int64_t i = 0; i < out; i++, ref_next(3, p.out, o)) {
            int64_t n = 0;
            long double padded = each_place(&p, o, ref_pool_count, &n);
            g.plane = c * in;
            g.value = dy->v[c * out + i];
            g.only = index ? (int64_t)index->u[c * out + i] : -1;
            if (!include) padded = (long double)n;
            if (!index) g.value /= divisor != 0 ? divisor : (double)padded;
            each_place(&p, o, ref_pool_give, &g);
        }
    }
    for (int64_t i = 0; i < dx->count; i++)
        dx->bound[i] *= ref_growth(g.terms[i] - 2 + extra) + 0x1p-10L;
    free(g.terms);
}

void ref_max_pool_grad(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    ref_pool_gradient(&in[0], &in[1], &in[2], attrs, false, 0, 0, out);
}

void ref_avg_pool_grad(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_avg_pool_grad_attrs *a = attrs;

    ref_pool_gradient(&in[0], NULL, &in[1], attrs, a->include_pad, a->divisor, 1, out);
}

/* Stores the p-norm of n numbers whose p-th powers add up to `sum`. */
static void ref_pool_norm_of(struct ref_array *y, int64_t i, double p, int64_t n, long double sum)
{
    long double rel;

    y->v[i] = powl(sum, 1 / (long double)p);
    rel = p == 1   ? ref_growth(n - 1)
          : p == 2 ? ref_growth(n) / 2
                   : (ref_growth(n - 1) + 2 + fabsl(logl(sum > 0 ? sum : 1))) / (long double)p;
    y->bound[i] = rel * fabsl(y->v[i]);
}

struct powers {
    struct found f;
    double p;
};

static void add_power(void *ctx, int64_t at)
{
    struct powers *s = ctx;

    s->f.sum += powl(fabsl(s->f.x->v[s->f.plane + at]), s->p);
    s->f.n++;
}

void ref_lp_pool(const struct ref_array *x, const void *attrs, struct ref_array *y)
{
    const struct bp_lp_pool_attrs *a = attrs;
    struct pooling p = pooling_of(x, attrs);
    int64_t in = ref_pool_size_of(p.in), out = ref_pool_size_of(p.out);

    init_result(&p, x, x->type->dtype, y);
    for (int64_t c = 0; c < p.planes; c++) {
        int64_t o[3] = {0};
        for (int64_t i = 0; i < out; i++, ref_next(3, p.out, o)) {
            struct powers s = {{.x = x, .plane = c * in}, a->p};
            each_place(&p, o, add_power, &s);
            ref_pool_norm_of(y, c * out + i, a->p, s.f.n, s.f.sum);
        }
    }
}

/* Initialises the result of a pool over whole planes; returns the number of elements of a plane. */
static int64_t init_global(const struct ref_array *x, bool flat, struct ref_array *y)
{
    int64_t shape[REF_RANK] = {x->shape[0], x->shape[1], 1, 1, 1}, n = 1;

    for (int i = 2; i < x->rank; i++) n *= x->shape[i];
    ref_array_init(y, x->type->dtype, flat ? 2 : x->rank, shape);
    return n;
}

void ref_global_avg_pool(const struct ref_array *x, const void *attrs, struct ref_array *y)
{
    int64_t n = init_global(x, ((const struct bp_global_avg_pool_attrs *)attrs)->flat, y);

    for (int64_t c = 0; c < y->count; c++) {
        struct found f = {.x = x, .plane = c * n};
        for (int64_t i = 0; i < n; i++) ref_pool_add(&f, i);
        y->v[c] = f.sum / (long double)n;
        y->bound[c] = ref_growth(n - 1) * f.size / (long double)n;
    }
}

void ref_global_max_pool(const struct ref_array *x, const void *attrs, struct ref_array *y)
{
    int64_t n = init_global(x, ((const struct bp_global_max_pool_attrs *)attrs)->flat, y);

    for (int64_t c = 0; c < y->count; c++) {
        struct found f = {.x = x, .plane = c * n, .best = -1};
        for (int64_t i = 0; i < n; i++) ref_pool_find(&f, i);
        ref_array_copy(y, c, x, c * n + f.best);
    }
}

void ref_global_lp_pool(const struct ref_array *x, const void *attrs, struct ref_array *y)
{
    const struct bp_global_lp_pool_attrs *a = attrs;
    int64_t n = init_global(x, a->flat, y);

    for (int64_t c = 0; c < y->count; c++) {
        struct powers s = {{.x = x, .plane = c * n}, a->p};
        for (int64_t i = 0; i < n; i++) add_power(&s, i);
        ref_pool_norm_of(y, c, a->p, n, s.f.sum);
    }
}

void ref_max_unpool(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_max_unpool_attrs *a = attrs;
    const struct ref_array *x = &in[0], *index = &in[1];
    int64_t shape[REF_RANK] = {x->shape[0], x->shape[1]}, from = 1, to = 1, extent[3] = {1, 1, 1};

    for (int i = 2; i < x->rank; i++) {
        to *= shape[i] = extent[i - 2] = a->extents[i - 2];
        from *= x->shape[i];
    }
    ref_array_init(out, x->type->dtype, x->rank, shape);
    for (int64_t i = 0; i < x->count; i++) {
        int64_t at = (int64_t)index->u[i], base = i / from * to;
        if (at < 0) at += a->whole ? out->count : to;
        if (a->whole) {
            base = at / to * to;
            at %= to;
        }
        if (a->column_major) { /* at = (w H + h) D + d */
            int64_t d = at % extent[0], h = at / extent[0] % extent[1];
            at = (d * extent[1] + h) * extent[2] + at / extent[0] / extent[1];
        }
        ref_array_copy(out, base + at, x, i);
    }
}

void ref_maxout(const struct ref_array *x, const void *attrs, struct ref_array *y)
{
    const struct bp_maxout_attrs *a = attrs;
    int axis = ref_axis(a->axis, x->rank);
    int64_t shape[REF_RANK], inner = 1;

    memcpy(shape, x->shape, sizeof shape);
    shape[axis] /= a->groups;
    for (int i = axis + 1; i < x->rank; i++) inner *= x->shape[i];
    ref_array_init(y, x->type->dtype, x->rank, shape);
    for (int64_t i = 0; i < y->count; i++) {
        int64_t first = i / inner * a->groups * inner + i % inner, best = first;
        for (int64_t g = 1; g < a->groups; g++)
            if (ref_pool_larger(x, first + g * inner, best)) best = first + g * inner;
        ref_array_copy(y, i, x, best);
    }
}
