/* SPDX-License-Identifier: Apache-2.0 */
/* resize.c: builds the plans of resampling along one axis, and of its gradient. How CNNL's own
 * functions (cnnlInterp_v3 and others) compute places is not known: the host computes places and
 * weights in f64, and CNNL takes slices and adds them. Half types are computed in f32. */
#include "rows.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    TAPS = 64,       /* the most places of x in one of the result */
    PLACES = 1 << 22 /* the most places that a plan lists */
};

/* Place j of the result is the sum of weight[t * m + j] x[index[t * m + j]], t below taps. */
struct resize_map {
    int64_t n, m, taps;
    int32_t *index; /* n: outside of x */
    float *weight;  /* NULL: all 1 */
    double outside;
    bool crops;
};

static void resize_finish(struct resize_map *map)
{
    free(map->index);
    free(map->weight);
}

static bool resize_fixes(const struct bp_resize_axis_attrs *a, int64_t m)
{
    return m == 1 && (a->coordinates == BP_RESIZE_COORDINATES_PYTORCH_HALF_PIXEL ||
                      a->coordinates == BP_RESIZE_COORDINATES_ALIGN_CORNERS);
}

/* The place in x of place j. */
static double resize_place(const struct bp_resize_axis_attrs *a, int64_t n, int64_t m, int64_t j)
{
    double last = (double)(n - 1), rest = (double)(m - 1), at = (double)j + 0.5, shift = -0.5;
    double num = a->scale != 0 ? 1 : (double)n, den = a->scale != 0 ? a->scale : (double)m;

    if (resize_fixes(a, m)) return 0;
    switch (a->coordinates) {
    case BP_RESIZE_COORDINATES_ALIGN_CORNERS: return (double)j * last / rest;
    case BP_RESIZE_COORDINATES_ASYMMETRIC: return (double)j * num / den;
    case BP_RESIZE_COORDINATES_TF_CROP_AND_RESIZE:
        if (m == 1) return 0.5 * (a->start + a->end) * last;
        return (double)j * (last * (a->end - a->start)) / rest + a->start * last;
    case BP_RESIZE_COORDINATES_HALF_PIXEL_SYMMETRIC:
        if (a->scale != 0) shift += (double)n / 2 * (1 - (double)m / (a->scale * (double)n));
        break;
    default: break;
    }
    return at * num / den + shift;
}

static double resize_round(int64_t how, double p)
{
    switch (how) {
    case 0: return ceil(p - 0.5);
    case 1: return floor(p + 0.5);
    case 2: return floor(p);
    default: return ceil(p);
    }
}

static double resize_weigh(const struct bp_resize_axis_attrs *a, double d)
{
    double c = a->cubic_a;

    d = fabs(d);
    if (a->mode == BP_RESIZE_MODE_LINEAR) return d < 1 ? 1 - d : 0;
    if (d < 1) return (1 - d) * (1 + d - (c + 2) * d * d);
    return d < 2 ? c * (d - 1) * (d - 2) * (d - 2) : 0;
}

static int32_t resize_clamp(double t, int64_t n)
{
    return t < 0 ? 0 : t > (double)(n - 1) ? (int32_t)(n - 1) : (int32_t)t;
}

/* Lists the places and weights of place j, each `map->m` behind the other. Places that are not used
 * repeat the first one with a half of its weight: a weight of 0 would make a NaN of an infinity. */
static void resize_list(const struct resize_map *map, const struct bp_resize_axis_attrs *a,
                        int64_t j, double shrink)
{
    double p = resize_place(a, map->n, map->m, j), last = (double)(map->n - 1), sum = 0;
    double reach = (a->mode == BP_RESIZE_MODE_CUBIC ? 2 : 1) / shrink, weight[TAPS];
    int32_t *index = map->index + j;
    int64_t used = 0, m = map->m;

    if (map->crops && !(p >= 0 && p <= last)) {
        index[0] = (int32_t)map->n;
        weight[used++] = sum = 1;
    } else if (a->mode == BP_RESIZE_MODE_NEAREST) {
        index[0] = resize_clamp(resize_round(a->nearest, p), map->n);
        weight[used++] = sum = 1;
    } else {
        for (double t = floor(p - reach) + 1; t < p + reach && used < map->taps; t++) {
            double each = resize_weigh(a, shrink * (t - p));
            if (each == 0 || (a->exclude_outside && (t < 0 || t > last))) continue;
            index[used * m] = resize_clamp(t, map->n);
            weight[used++] = each;
            sum += each;
        }
    }
    if (!used) { /* all places are outside, and have no weight: 0 / 0 */
        index[0] = 0;
        weight[used++] = 0;
    }
    for (int64_t t = 0; map->weight && t < used; t++)
        map->weight[t * m + j] = (float)(a->exclude_outside || shrink < 1 ? weight[t] / sum
                                                                          : weight[t]);
    for (int64_t t = used; t < map->taps; t++) {
        index[t * m] = index[0];
        map->weight[j] /= 2;
        map->weight[t * m + j] = map->weight[j];
    }
}

/* Returns false if the map is too large. */
static bool resize_init(struct resize_map *map, const struct bp_resize_axis_attrs *a, int64_t n,
                        int64_t m)
{
    double scale = a->scale != 0 ? a->scale : (double)m / (double)n;
    double shrink = a->antialias && scale < 1 ? scale : 1;
    double reach = (a->mode == BP_RESIZE_MODE_CUBIC ? 2 : 1) / shrink;
    bool weighs = a->mode != BP_RESIZE_MODE_NEAREST;

    *map = (struct resize_map){.n = n, .m = m, .taps = 1, .outside = a->extrapolation};
    map->crops = a->coordinates == BP_RESIZE_COORDINATES_TF_CROP_AND_RESIZE;
    if (2 * reach + 2 > TAPS || n < 1 || n >= INT32_MAX) return false;
    if (weighs) map->taps = (int64_t)(2 * reach) + 1;
    if (m > PLACES / map->taps) return false;
    map->index = calloc((size_t)(map->taps * m) + 1, sizeof *map->index);
    if (weighs) map->weight = calloc((size_t)(map->taps * m) + 1, sizeof *map->weight);
    if (!map->index || (weighs && !map->weight)) return false;
    for (int64_t j = 0; j < m; j++) resize_list(map, a, j, shrink);
    return true;
}

/* x + a b, which broadcast. */
static int resize_call_add(const struct mlu_run *r, const struct mlu_step *s)
{
    const float one = 1;

    return mlu_cnnl.call.cnnlAddcmul(r->handle, mlu_desc(s, 0), mlu_address(r, s, 0), &one,
                                     mlu_desc(s, 1), mlu_address(r, s, 1), mlu_desc(s, 2),
                                     mlu_address(r, s, 2), mlu_work(r, s), s->work, mlu_desc(s, 3),
                                     mlu_address(r, s, 3));
}

static void resize_add(struct mlu_build *b, struct mlu_tensor x, struct mlu_tensor a,
                       struct mlu_tensor by, struct mlu_tensor y)
{
    struct mlu_step *s = mlu_step(b, FN_cnnlAddcmul, resize_call_add, MLU_TENSORS(x, a, by, y));
    size_t size = 0;
    int code;

    if (!s) return;
    code = mlu_cnnl.call.cnnlGetAddcmulWorkspaceSize_v2(b->handle, mlu_desc(s, 0), mlu_desc(s, 1),
                                                        mlu_desc(s, 2), mlu_desc(s, 3), &size);
    mlu_step_reserve(b, s, FN_cnnlGetAddcmulWorkspaceSize_v2, code, size);
}

/* The indices and weights as constants; those of tap t begin t * m behind the first. */
struct resize_taps {
    struct mlu_tensor index, weight;
};

static struct resize_taps resize_constants(struct mlu_build *b, const struct resize_map *map)
{
    const int64_t all = map->taps * map->m;
    struct resize_taps taps = {{0}, {0}};

    taps.index = mlu_constant(b, BP_I32, 1, &all, map->index);
    if (map->weight) taps.weight = mlu_constant(b, BP_F32, 1, &all, map->weight);
    return taps;
}

static struct mlu_tensor resize_part(struct mlu_tensor t, const struct resize_map *map, int64_t tap,
                                     bool line)
{
    const int64_t shape[] = {1, map->m, 1};

    t.offset += (uint64_t)(tap * map->m) * 4;
    return line ? mlu_shaped(t, 1, &map->m) : mlu_shaped(t, 3, shape);
}

/* x with a slice behind it, for places outside of x. */
static struct mlu_tensor resize_extend(struct mlu_build *b, const struct resize_map *map,
                                       struct mlu_tensor x, double value)
{
    const int64_t one[] = {x.shape[0], 1, x.shape[2]};
    const int64_t more[] = {x.shape[0], x.shape[1] + 1, x.shape[2]};
    struct mlu_tensor part[2] = {x, mlu_temporary(b, x.dtype, 3, one)};
    struct mlu_tensor y = mlu_temporary(b, x.dtype, 3, more);

    if (!map->crops) return x;
    mlu_step_fill(b, value, mlu_flat(part[1]));
    mlu_step_concat(b, 2, part, y);
    return y;
}

/* y = the map of x; both have three axes, of which the middle one is resampled. */
static void resize_apply(struct mlu_build *b, const struct resize_map *map, struct mlu_tensor x,
                         struct mlu_tensor y)
{
    struct resize_taps taps = resize_constants(b, map);
    struct mlu_tensor taken, sum;

    x = resize_extend(b, map, x, map->outside);
    if (!map->weight) {
        mlu_step_select(b, x, taps.index, y);
        return;
    }
    taken = mlu_temporary(b, BP_F32, 3, y.shape);
    sum = mlu_temporary(b, BP_F32, 3, y.shape);
    mlu_step_fill(b, 0, mlu_flat(sum));
    for (int64_t t = 0; t < map->taps && b->status == BP_OK; t++) {
        struct mlu_tensor to = t + 1 == map->taps ? y : mlu_temporary(b, BP_F32, 3, y.shape);
        mlu_step_select(b, x, resize_part(taps.index, map, t, true), taken);
        resize_add(b, sum, taken, resize_part(taps.weight, map, t, false), to);
        sum = to;
    }
}

/* dx = the gradient: dy, weighed, is added to the places of x. */
static void resize_apply_back(struct mlu_build *b, const struct resize_map *map,
                              struct mlu_tensor dy, struct mlu_tensor dx)
{
    struct resize_taps taps = resize_constants(b, map);
    const int64_t all[] = {dx.shape[0], dx.shape[1] + map->crops, dx.shape[2]};
    struct mlu_tensor sum = mlu_temporary(b, BP_F32, 3, all), zeros, share = dy;

    zeros = mlu_temporary(b, BP_F32, 3, dy.shape);
    if (map->weight) share = mlu_temporary(b, BP_F32, 3, dy.shape);
    mlu_step_fill(b, 0, mlu_flat(sum));
    mlu_step_fill(b, 0, mlu_flat(zeros));
    for (int64_t t = 0; t < map->taps && b->status == BP_OK; t++) {
        bool last = t + 1 == map->taps && !map->crops;
        struct mlu_tensor to = last ? dx : mlu_temporary(b, BP_F32, 3, all);
        if (map->weight) resize_add(b, zeros, dy, resize_part(taps.weight, map, t, false), share);
        mlu_step_index_add(b, sum, resize_part(taps.index, map, t, true), share, to);
        sum = to;
    }
    if (map->crops)
        mlu_step_cut(b, sum, dx,
                     (struct mlu_cut[]){{0, all[0], 1}, {0, dx.shape[1], 1}, {0, all[2], 1}});
}

/* A tensor as three axes around an axis. */
static struct mlu_tensor resize_lines(struct mlu_tensor t, int64_t axis)
{
    int64_t shape[3] = {1, 1, 1};

    for (int64_t i = 0; i < t.rank; i++) shape[i < axis ? 0 : i > axis ? 2 : 1] *= t.shape[i];
    return mlu_shaped(t, 3, shape);
}

/* The tensor in f32. */
static struct mlu_tensor resize_wide(struct mlu_build *b, struct mlu_tensor x)
{
    struct mlu_tensor y;

    if (x.dtype == BP_F32) return x;
    y = mlu_temporary(b, BP_F32, 3, x.shape);
    mlu_step_cast(b, mlu_flat(x), mlu_flat(y));
    return y;
}

/* Builds a row: y is the map of x, or its gradient. n: the axis in x of the forward. */
static void resize_build(struct mlu_build *b, const struct bp_resize_axis_attrs *a, int64_t n,
                         int64_t axis, bool back)
{
    struct mlu_tensor x = resize_lines(mlu_in(b, 0), axis), y = resize_lines(mlu_out(b, 0), axis);
    struct mlu_tensor to = y;
    struct resize_map map = {0};

    if (back || a->mode != BP_RESIZE_MODE_NEAREST) x = resize_wide(b, x);
    if (x.dtype != y.dtype) to = mlu_temporary(b, BP_F32, 3, y.shape);
    if (!resize_init(&map, a, n, a->extent)) mlu_refuse(b);
    else if (back) resize_apply_back(b, &map, x, to);
    else resize_apply(b, &map, x, to);
    if (x.dtype != y.dtype) mlu_step_cast(b, mlu_flat(to), mlu_flat(y));
    resize_finish(&map);
}

void mlu_build_resize_axis(struct mlu_build *b)
{
    const struct bp_resize_axis_attrs *a = b->prep->attrs;
    int64_t axis = mlu_axis(a->axis, b->prep->in[0]->rank);

    resize_build(b, a, b->prep->in[0]->shape[axis], axis, false);
}

void mlu_build_resize_axis_grad(struct mlu_build *b)
{
    const struct bp_resize_axis_grad_attrs *g = b->prep->attrs;
    const struct bp_resize_axis_attrs a = {.extent = g->extent,
                                           .mode = g->mode,
                                           .coordinates = g->coordinates,
                                           .nearest = g->nearest,
                                           .cubic_a = g->cubic_a,
                                           .antialias = g->antialias,
                                           .exclude_outside = g->exclude_outside,
                                           .scale = g->scale,
                                           .start = g->start,
                                           .end = g->end};
    int64_t axis = mlu_axis(g->axis, b->prep->out[0]->rank);

    if (b->prep->in[0]->count) resize_build(b, &a, b->prep->out[0]->shape[axis], axis, true);
    else mlu_step_fill(b, 0, mlu_flat(mlu_out(b, 0)));
}
