/* SPDX-License-Identifier: Apache-2.0 */
/* rows_image.c: builds the rows that sample images anew: resizing, grids of places, regions. The
 * vendor's functions compute places in f32, the operators' rules in f64: resizing is left to them
 * where both agree, else it is a map (map.h) whose weights the host computes. */
#include "map.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The place in x of element j of the result. */
static double resize_place(const struct bp_resize_axis_attrs *a, double n, double m, double j)
{
    double scale = a->scale != 0 ? a->scale : m / n, middle;

    switch (a->coordinates) {
    case BP_RESIZE_COORDINATES_ALIGN_CORNERS: return m == 1 ? 0 : j * (n - 1) / (m - 1);
    case BP_RESIZE_COORDINATES_ASYMMETRIC: return a->scale != 0 ? j / a->scale : j * n / m;
    case BP_RESIZE_COORDINATES_TF_CROP_AND_RESIZE:
        if (m == 1) return 0.5 * (a->start + a->end) * (n - 1);
        return a->start * (n - 1) + j * ((a->end - a->start) * (n - 1)) / (m - 1);
    case BP_RESIZE_COORDINATES_PYTORCH_HALF_PIXEL:
        if (m == 1) return 0;
        break;
    default: break;
    }
    middle = a->scale != 0 ? (j + 0.5) / a->scale : (j + 0.5) * n / m;
    if (a->coordinates == BP_RESIZE_COORDINATES_HALF_PIXEL_SYMMETRIC)
        return middle - 0.5 + n / 2 * (1 - m / (scale * n));
    return middle - 0.5;
}

static double resize_nearest(int64_t how, double p)
{
    switch (how) {
    case 0: return ceil(p - 0.5);
    case 1: return floor(p + 0.5);
    case 2: return floor(p);
    default: return ceil(p);
    }
}

/* The weight of an element at a distance. */
static double resize_weight(const struct bp_resize_axis_attrs *a, double distance)
{
    double d = fabs(distance), c = a->cubic_a;

    if (a->mode == BP_RESIZE_MODE_LINEAR) return d < 1 ? 1 - d : 0;
    if (d >= 2) return 0;
    if (d <= 1) return ((c + 2) * d - (c + 3)) * d * d + 1;
    return ((c * d - 5 * c) * d + 8 * c) * d - 4 * c;
}

/* The elements and weights of result j; returns how many. At most `taps`. */
static int64_t resize_taps(const struct bp_resize_axis_attrs *a, int64_t n, int64_t m, int64_t j,
                           double shrink, int64_t *index, float *weight)
{
    double p = resize_place(a, (double)n, (double)m, (double)j), sum = 0, last = (double)(n - 1);
    double reach = (a->mode == BP_RESIZE_MODE_CUBIC ? 2 : 1) / shrink, w[NPU_MAP_TAPS];
    bool adds_up = a->exclude_outside || shrink < 1;
    int64_t used = 0;

    if (a->coordinates == BP_RESIZE_COORDINATES_TF_CROP_AND_RESIZE && !(p >= 0 && p <= last)) {
        index[0] = n;
        weight[0] = 1;
        return 1;
    }
    if (a->mode == BP_RESIZE_MODE_NEAREST) {
        p = resize_nearest(a->nearest, p);
        index[0] = p < 0 ? 0 : p > last ? n - 1 : (int64_t)p;
        weight[0] = 1;
        return 1;
    }
    for (double t = floor(p - reach) + 1; t < p + reach && used < NPU_MAP_TAPS; t++) {
        double each = resize_weight(a, shrink * (t - p));
        if (each == 0 || (a->exclude_outside && (t < 0 || t > last))) continue;
        index[used] = t < 0 ? 0 : t > last ? n - 1 : (int64_t)t;
        w[used++] = each;
        sum += each;
    }
    if (!used) { /* all elements are outside, and have no weight */
        index[used] = 0;
        w[used++] = sum = 0;
    }
    for (int64_t i = 0; i < used; i++) weight[i] = (float)(adds_up ? w[i] / sum : w[i]);
    return used;
}

/* Fills the taps that a result does not use by its first element, with parts of its weight: an
 * element with the weight 0 would make a NaN of an infinity. */
static void resize_fill(int64_t *index, float *weight, int64_t used, int64_t taps)
{
    for (int64_t t = used; t < taps; t++) {
        index[t] = index[0];
        weight[t] = weight[0] /= 2;
    }
}

/* Returns false if the map does not fit. */
static bool resize_map(struct npu_map *map, const struct bp_resize_axis_attrs *a, int64_t n,
                       int64_t m)
{
    double scale = a->scale != 0 ? a->scale : (double)m / (double)n;
    double shrink = a->antialias && scale < 1 ? scale : 1;
    double reach = (a->mode == BP_RESIZE_MODE_CUBIC ? 2 : 1) / shrink;
    int64_t taps = a->mode == BP_RESIZE_MODE_NEAREST ? 1 : (int64_t)(2 * reach) + 2;

    if (taps > NPU_MAP_TAPS || !npu_map_init(map, n, m, taps, a->mode != 0)) return false;
    map->behind = a->extrapolation;
    for (int64_t j = 0; j < m; j++) {
        int64_t index[NPU_MAP_TAPS], used;
        float weight[NPU_MAP_TAPS];
        used = resize_taps(a, n, m, j, shrink, index, weight);
        resize_fill(index, weight, used, taps);
        memcpy(&map->index[j * taps], index, (size_t)taps * sizeof *index);
        if (map->weight) memcpy(&map->weight[j * taps], weight, (size_t)taps * sizeof *weight);
    }
    return true;
}

static struct kit_arg resize_axis(struct kit_build *b, const struct bp_resize_axis_attrs *a,
                                  struct kit_arg x)
{
    const struct bp_view *type = npu_type(b, x);
    uint32_t axis = npu_axis(a->axis, type->rank);
    struct npu_map map = {0};

    if (b->status) return x;
    if (resize_map(&map, a, type->shape[axis], a->extent))
        x = npu_map_apply(b, &map, x, axis, NPU_MAP_SUM);
    else kit_refuse(b);
    npu_map_finish(&map);
    return x;
}

enum bp_status npu_build_resize_axis(struct kit_build *b)
{
    const struct bp_resize_axis_attrs *a = b->attrs;
    struct kit_arg x = NPU_IN(0);

    if (npu_is_empty(b, NPU_OUT(0))) return b->status;
    npu_finish(b, resize_axis(b, a, a->mode ? npu_wide(b, x) : x), NPU_OUT(0));
    return b->status;
}

enum bp_status npu_build_resize_axis_grad(struct kit_build *b)
{
    const struct bp_resize_axis_grad_attrs *g = b->attrs;
    const struct bp_view *x = npu_type(b, NPU_OUT(0));
    struct bp_resize_axis_attrs a = {.mode = g->mode,
                                     .coordinates = g->coordinates,
                                     .nearest = g->nearest,
                                     .cubic_a = g->cubic_a,
                                     .antialias = g->antialias,
                                     .exclude_outside = g->exclude_outside,
                                     .scale = g->scale,
                                     .start = g->start,
                                     .end = g->end};
    struct npu_map map = {0}, back = {0};
    uint32_t axis;

    if (b->status || !x->count) return b->status;
    axis = npu_axis(g->axis, x->rank);
    if (resize_map(&map, &a, x->shape[axis], g->extent) && npu_map_transpose(&back, &map))
        npu_finish(b, npu_map_apply(b, &back, npu_wide(b, NPU_IN(0)), axis, NPU_MAP_SUM),
                   NPU_OUT(0));
    else kit_refuse(b);
    npu_map_finish(&map);
    npu_map_finish(&back);
    return b->status;
}

/* The step of resize along its axis number i. */
static struct bp_resize_axis_attrs resize_step(const struct bp_resize_attrs *a, uint32_t rank,
                                               int64_t i)
{
    const double scale[] = {a->scale0, a->scale1, a->scale2};
    const double start[] = {a->start0, a->start1, a->start2}, end[] = {a->end0, a->end1, a->end2};
    int64_t axis = a->axes.n ? a->axes.at[i] : (int64_t)rank - a->sizes.n + i;

    return (struct bp_resize_axis_attrs){.axis = npu_axis(axis, rank),
                                         .extent = a->sizes.at[i],
                                         .mode = a->mode,
                                         .coordinates = a->coordinates,
                                         .nearest = a->nearest,
                                         .cubic_a = a->cubic_a,
                                         .antialias = a->antialias,
                                         .exclude_outside = a->exclude_outside,
                                         .extrapolation = a->extrapolation,
                                         .scale = scale[i],
                                         .start = start[i],
                                         .end = end[i]};
}

/* Whether each element of the result has the place of its element in x. */
static bool resize_step_is_idle(const struct bp_resize_axis_attrs *s, const struct bp_view *x)
{
    return s->coordinates != BP_RESIZE_COORDINATES_TF_CROP_AND_RESIZE &&
           (s->scale == 0 || s->scale == 1) && s->extent == x->shape[s->axis];
}

/* One axis after the other: those that shrink most come first. */
enum bp_status npu_build_resize_parts(struct kit_build *b)
{
    const struct bp_resize_attrs *a = b->attrs;
    const struct bp_view *x = npu_type(b, NPU_IN(0));
    struct bp_resize_axis_attrs step[3];
    struct kit_arg t = NPU_IN(0);
    int64_t n = 0;

    if (b->status || npu_is_empty(b, NPU_OUT(0))) return b->status;
    for (int64_t i = 0; i < a->sizes.n; i++) {
        struct bp_resize_axis_attrs s = resize_step(a, x->rank, i);
        int64_t at = n;
        if (resize_step_is_idle(&s, x)) continue;
        for (; at > 0 &&
               s.extent * x->shape[step[at - 1].axis] <= step[at - 1].extent * x->shape[s.axis];
             at--)
            step[at] = step[at - 1];
        step[at] = s;
        n++;
    }
    if (a->mode && n) t = npu_wide(b, t);
    for (int64_t i = 0; i < n; i++) t = resize_axis(b, &step[i], t);
    npu_finish(b, t, NPU_OUT(0));
    return b->status;
}

/* Whether the vendor's places are those of the rule: the last two of four axes, without scales. */
static bool resize_is_plain(const struct bp_resize_attrs *a, const struct bp_view *x)
{
    if (x->rank != 4 || a->sizes.n != 2 || a->antialias || a->exclude_outside) return false;
    if (a->scale0 != 0 || a->scale1 != 0) return false;
    return !a->axes.n || (npu_axis(a->axes.at[0], 4) == 2 && npu_axis(a->axes.at[1], 4) == 3);
}

/* Whether the extent grows by a power of two: such places are exact in f32. */
static bool resize_is_double(int64_t n, int64_t m)
{
    return n > 0 && m % n == 0 && !((m / n) & (m / n - 1));
}

enum bp_status npu_build_resize(struct kit_build *b)
{
    const struct bp_resize_attrs *a = b->attrs;
    const struct bp_view *x = npu_type(b, NPU_IN(0));
    struct kit_arg sizes;

    if (b->status || npu_is_empty(b, NPU_OUT(0))) return b->status;
    if (!resize_is_plain(a, x) || !resize_is_double(x->shape[2], a->sizes.at[0]) ||
        !resize_is_double(x->shape[3], a->sizes.at[1]))
        return kit_refuse(b);
    sizes = kit_array(b, a->sizes.at, 2);
    if (a->mode == BP_RESIZE_MODE_NEAREST &&
        (a->coordinates == BP_RESIZE_COORDINATES_HALF_PIXEL ||
         (a->coordinates == BP_RESIZE_COORDINATES_ASYMMETRIC && a->nearest == 2)))
        return KIT_STEP(b, "UpsampleNearest2d", npu_image(NPU_IN(0)), sizes, npu_image(NPU_OUT(0)));
    if (a->mode == BP_RESIZE_MODE_LINEAR && a->coordinates == BP_RESIZE_COORDINATES_HALF_PIXEL)
        return KIT_STEP(b, "UpsampleBilinear2d", npu_image(NPU_IN(0)), sizes, KIT_INT_IS(0),
                        KIT_DOUBLE_IS(0), KIT_DOUBLE_IS(0), npu_image(NPU_OUT(0)));
    return kit_refuse(b);
}

/* The numbers of modes and paddings are the vendor's. */
enum bp_status npu_build_grid_sample(struct kit_build *b)
{
    const struct bp_grid_sample_attrs *a = b->attrs;
    const struct bp_view *x = npu_type(b, NPU_IN(0));

    if (b->status || npu_is_empty(b, NPU_OUT(0))) return b->status;
    if (x->rank != 4 || !x->count) return kit_refuse(b);
    return KIT_STEP(b, "GridSampler2D", npu_image(NPU_IN(0)), NPU_IN(1), KIT_INT_IS(a->mode),
                    KIT_INT_IS(a->padding), KIT_INT_IS(a->align_corners), npu_image(NPU_OUT(0)));
}

/* The places of an image before the transformation, with a 1 behind each: a line for each place.
 * axes: 2 or 3 spatial extents. */
static struct kit_arg grid_places(struct kit_build *b, const int64_t *extent, int64_t axes,
                                  bool align)
{
    int64_t count = 1, shape[2] = {0, axes + 1};
    struct kit_arg out = NPU_NONE;
    float *place;

    for (int64_t i = 0; i < axes; i++) count *= extent[i];
    shape[0] = count;
    place = count <= NPU_MAP_MOST ? malloc((size_t)(count * shape[1]) * sizeof *place) : NULL;
    for (int64_t at = 0; place && at < count; at++) {
        int64_t rest = at;
        for (int64_t i = axes; i-- > 0; rest /= extent[i]) {
            double n = (double)extent[i], j = (double)(rest % extent[i]), p;
            if (align) p = n > 1 ? -1 + 2 * j / (n - 1) : 0;
            else p = (2 * j + 1) / n - 1;
            place[at * shape[1] + axes - 1 - i] = (float)p;
        }
        place[at * shape[1] + axes] = 1;
    }
    if (place) out = kit_constant(b, BP_F32, 2, shape, place);
    else kit_refuse(b);
    free(place);
    return out;
}

enum bp_status npu_build_affine_grid(struct kit_build *b)
{
    const struct bp_affine_grid_attrs *a = b->attrs;
    const struct bp_view *y = npu_type(b, NPU_OUT(0));
    struct kit_arg places, theta, grid;
    int64_t axes, flat[3];

    if (b->status || !y->count) return b->status;
    axes = (int64_t)y->rank - 2;
    places = grid_places(b, y->shape + 1, axes, a->align_corners);
    theta = npu_swapped(b, npu_wide(b, NPU_IN(0)));
    flat[0] = y->shape[0], flat[1] = npu_type(b, places)->shape[0], flat[2] = axes;
    grid = kit_temporary(b, BP_F32, 3, flat);
    KIT_STEP(b, "Matmul", places, theta, grid, NPU_CUBE);
    npu_finish(b, grid, NPU_OUT(0));
    return b->status;
}

enum bp_status npu_build_affine_grid_grad(struct kit_build *b)
{
    const struct bp_affine_grid_grad_attrs *a = b->attrs;
    const struct bp_view *dy = npu_type(b, NPU_IN(0)), *dx = npu_type(b, NPU_OUT(0));
    struct kit_arg places, grid, out;
    int64_t axes, flat[3];

    if (b->status || !dx->count) return b->status;
    if (!dy->count) {
        npu_fill(b, NPU_OUT(0), 0);
        return b->status;
    }
    axes = (int64_t)dy->rank - 2;
    places = grid_places(b, dy->shape + 1, axes, a->align_corners);
    flat[0] = dy->shape[0], flat[1] = npu_type(b, places)->shape[0], flat[2] = axes;
    grid = npu_swapped(b, npu_wide(b, kit_reshaped(b, NPU_IN(0), 3, flat)));
    out = kit_temporary(b, BP_F32, 3, dx->shape);
    KIT_STEP(b, "Matmul", grid, places, out, NPU_CUBE);
    npu_finish(b, out, NPU_OUT(0));
    return b->status;
}

/* The vendor's function has places that do not begin half a place before. */
enum bp_status npu_build_roi_align(struct kit_build *b)
{
    const struct bp_roi_align_attrs *a = b->attrs;
    const struct bp_view *x = npu_type(b, NPU_IN(0));
    struct kit_arg images, y = NPU_OUT(0);

    if (b->status || npu_is_empty(b, y)) return b->status;
    if (!a->whole || a->max || !x->count) return kit_refuse(b);
    images = part_cast(b, npu_guard(b, NPU_IN(2), x->shape[0], false), BP_I32);
    if (part_is_half(x->dtype)) y = npu_like(b, y, BP_F32);
    KIT_STEP(b, "RoiAlign", npu_image(npu_wide(b, NPU_IN(0))), NPU_IN(1), images,
             KIT_TEXT_IS("avg"), KIT_INT_IS(a->height), KIT_INT_IS(a->width),
             KIT_INT_IS(a->sampling), KIT_FLOAT_IS(a->scale), npu_image(y));
    if (part_is_half(x->dtype)) npu_cast(b, y, NPU_OUT(0));
    return b->status;
}
