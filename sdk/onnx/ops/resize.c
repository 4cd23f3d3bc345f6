/* SPDX-License-Identifier: Apache-2.0 */
/* resize.c: runs Resize and Upsample: finds the axes that change, their scales, and how positions
 * are computed. */
#include "list.h"
#include <math.h>
#include <string.h>

enum { AXES_MAX = 3 }; /* most axes that one call of resize changes */

/* How one axis changes. */
struct change {
    int64_t axis, extent;      /* extent: of the result */
    double scale, start, end;  /* scale 0: computed from the extents */
    int64_t nearest, coordinates;
};

struct changes {
    struct change at[ONNX_RANK_MAX];
    int64_t n;
    bool simple; /* before opset 11: nearest is floor, or ceil for a scale below 1 */
    struct bp_resize_attrs how;
};

/* The numbers of the operator's coordinates attribute. */
enum { HALF_PIXEL, HALF_PIXEL_SYMMETRIC, PYTORCH_HALF_PIXEL, ALIGN_CORNERS, ASYMMETRIC, CROP };

static enum bp_status resize_some(struct onnx_call *c, struct bp_tensor *x,
                                  const struct changes *all, int64_t first, int64_t n,
                                  struct bp_tensor **out)
{
    struct bp_resize_attrs attrs = all->how;
    int64_t sizes[AXES_MAX], axes[AXES_MAX];
    double *scale[] = {&attrs.scale0, &attrs.scale1, &attrs.scale2};
    double *start[] = {&attrs.start0, &attrs.start1, &attrs.start2};
    double *end[] = {&attrs.end0, &attrs.end1, &attrs.end2};

    for (int64_t i = 0; i < n; i++) {
        const struct change *a = &all->at[first + i];
        sizes[i] = a->extent;
        axes[i] = a->axis;
        *scale[i] = a->scale;
        *start[i] = a->start;
        *end[i] = a->end;
    }
    attrs.nearest = all->at[first].nearest;
    attrs.coordinates = all->at[first].coordinates;
    attrs.sizes = (struct bp_dims){sizes, n};
    attrs.axes = (struct bp_dims){axes, n};
    return bp_op_resize(c->scope, x, NULL, &attrs, out);
}

static bool resize_alike(const struct change *a, const struct change *b)
{
    return a->nearest == b->nearest && a->coordinates == b->coordinates;
}

/* Resizes as many axes in each call as a call supports. */
static enum bp_status resize_all(struct onnx_call *c, const struct changes *all)
{
    struct bp_tensor *x = onnx_in(c, 0), *y = NULL;

    if (!all->n) return onnx_identity(c);
    for (int64_t first = 0, n; first < all->n; first += n) {
        struct bp_tensor *made = NULL;
        enum bp_status status;
        for (n = 1; n < AXES_MAX && first + n < all->n; n++)
            if (!resize_alike(&all->at[first + n], &all->at[first])) break;
        status = resize_some(c, y ? y : x, all, first, n, &made);
        bp_tensor_destroy(y);
        if (status) return status;
        y = made;
    }
    return onnx_give(c, 0, y);
}

/* ONNX aligns the last element of x with position n scale - 1 of the result, also if n scale is no
 * integer. */
static void align_part(struct change *one, int64_t n)
{
    double places = (double)n * one->scale;

    if (n < 2 || one->extent < 2 || places == (double)one->extent) return;
    one->coordinates = ASYMMETRIC;
    one->scale = (places - 1) / (double)(n - 1);
}

/* Adds an axis to the list if it changes. */
static void resize_add(struct changes *all, const struct bp_tensor_info *x, struct change one)
{
    int64_t n = x->shape[one.axis];
    bool same = one.extent == n && (one.scale == 1 || one.scale == 0);

    one.coordinates = all->how.coordinates;
    if (same && one.coordinates != CROP) return; /* a crop may move the image */
    if (all->simple) one.nearest = one.scale < 1 ? 3 : 2;
    else one.nearest = all->how.nearest;
    if (one.coordinates == ALIGN_CORNERS && one.scale > 0 && !all->how.antialias)
        align_part(&one, n);
    all->at[all->n++] = one;
}

/* Computes floor(n part scale) in f32, the precision of the scales. */
static enum bp_status resize_scaled(int64_t n, double part, double scale, int64_t *out)
{
    double extent = floorf((float)n * (float)part * (float)scale);

    if (!(scale > 0) || !(extent >= 0) || !(extent < 9e15))
        return onnx_error(BP_ERR_INVALID, "the scale %g of an axis of %lld", scale, (long long)n);
    *out = (int64_t)extent;
    return BP_OK;
}

static enum bp_status resize_upsample(struct onnx_call *c, const double *scale, int64_t n)
{
    struct changes all = {.simple = true, .how = bp_resize_defaults()};
    struct bp_tensor *x = onnx_in(c, 0);
    struct bp_tensor_info info;

    TRY(onnx_need(c, 1));
    info = onnx_info(x);
    if (n != (int64_t)info.rank)
        return onnx_error(BP_ERR_INVALID, "%lld scales for %u axes", (long long)n, info.rank);
    all.how.coordinates = ASYMMETRIC;
    if (onnx_attr_is(c, "mode", "linear", "nearest") ||
        onnx_attr_is(c, "mode", "bilinear", "nearest"))
        all.how.mode = 1;
    else if (!onnx_attr_is(c, "mode", "nearest", "nearest"))
        return onnx_error(BP_ERR_UNSUPPORTED, "mode: nearest or linear is expected");
    for (int64_t i = 0; i < n; i++) {
        struct change one = {.axis = i, .scale = scale[i], .end = 1};
        TRY(resize_scaled(info.shape[i], 1, scale[i], &one.extent));
        resize_add(&all, &info, one);
    }
    return resize_all(c, &all);
}

/* The scales are an attribute for each spatial axis in old versions, later a list, later an
 * input. */
enum bp_status onnx_upsample_old(struct onnx_call *c)
{
    const double scale[] = {1, 1, onnx_attr_float(c, "height_scale", 0),
                            onnx_attr_float(c, "width_scale", 0)};

    return resize_upsample(c, scale, 4);
}

enum bp_status onnx_upsample_list(struct onnx_call *c)
{
    const Onnx__AttributeProto *a = onnx_attr(c->node, "scales");
    double scale[ONNX_RANK_MAX];

    for (size_t i = 0; a && i < a->n_floats && i < ONNX_RANK_MAX; i++)
        scale[i] = (double)a->floats[i];
    return resize_upsample(c, scale, a ? (int64_t)a->n_floats : 0);
}

enum bp_status onnx_upsample(struct onnx_call *c)
{
    double scale[ONNX_RANK_MAX];
    int64_t n;

    TRY(onnx_in_reals(c, 1, ONNX_RANK_MAX, scale, &n));
    return resize_upsample(c, scale, n);
}

struct word {
    const char *name;
    int64_t value;
};

/* Finds the number of an attribute's word. */
static enum bp_status word_of(struct onnx_call *c, const char *name, const char *otherwise,
                              const struct word *word, size_t n, int64_t *out)
{
    const Onnx__AttributeProto *a = onnx_attr(c->node, name);

    for (size_t i = 0; i < n; i++) {
        if (!onnx_attr_is(c, name, word[i].name, otherwise)) continue;
        *out = word[i].value;
        return BP_OK;
    }
    return onnx_error(BP_ERR_UNSUPPORTED, "%s '%.*s' is not supported", name,
                      a ? (int)(a->s.len < 80 ? a->s.len : 80) : 0, a ? (char *)a->s.data : "");
}

/* tf_half_pixel_for_nn is half a pixel ahead of half_pixel. The rounding mode is changed
 * instead. */
static enum bp_status resize_shifted(struct bp_resize_attrs *how)
{
    static const int64_t half_pixel[] = {[0] = 3, [2] = 1}; /* mode for x + 1/2 -> mode for x */

    if (how->mode || how->nearest == 1 || how->nearest == 3)
        return onnx_error(BP_ERR_UNSUPPORTED, "tf_half_pixel_for_nn is supported with the modes "
                          "round_prefer_floor and floor of nearest");
    how->nearest = half_pixel[how->nearest];
    how->coordinates = HALF_PIXEL;
    return BP_OK;
}

static enum bp_status read_how(struct onnx_call *c, struct bp_resize_attrs *how)
{
    static const struct word mode[] = {{"nearest", 0}, {"linear", 1}, {"cubic", 2}};
    static const struct word coordinates[] = {
        {"half_pixel", HALF_PIXEL}, {"half_pixel_symmetric", HALF_PIXEL_SYMMETRIC},
        {"pytorch_half_pixel", PYTORCH_HALF_PIXEL}, {"align_corners", ALIGN_CORNERS},
        {"asymmetric", ASYMMETRIC}, {"tf_crop_and_resize", CROP},
        {"tf_half_pixel_for_nn", -1}};
    static const struct word nearest[] = {{"round_prefer_floor", 0}, {"round_prefer_ceil", 1},
                                          {"floor", 2}, {"ceil", 3}};

    *how = bp_resize_defaults();
    TRY(word_of(c, "mode", "nearest", mode, 3, &how->mode));
    TRY(word_of(c, "coordinate_transformation_mode", "half_pixel", coordinates, 7,
                &how->coordinates));
    TRY(word_of(c, "nearest_mode", "round_prefer_floor", nearest, 4, &how->nearest));
    how->cubic_a = onnx_attr_float(c, "cubic_coeff_a", -0.75);
    how->antialias = onnx_attr_int(c, "antialias", 0) != 0 && how->mode;
    how->exclude_outside = onnx_attr_int(c, "exclude_outside", 0) != 0;
    how->extrapolation = onnx_attr_float(c, "extrapolation_value", 0);
    return how->coordinates < 0 ? resize_shifted(how) : BP_OK;
}

/* The sizes, scales and bounds that the node has for the axes in its attribute axes, or for all
 * axes. */
struct given {
    int64_t axis[ONNX_RANK_MAX], n;
    double scale[ONNX_RANK_MAX], roi[2 * ONNX_RANK_MAX];
    struct onnx_ints sizes;
    bool has_scales, has_roi;
};

static enum bp_status read_axes(struct onnx_call *c, int64_t rank, struct given *g)
{
    struct onnx_ints axes = onnx_attr_ints(c, "axes");

    g->n = axes.n < 0 ? rank : axes.n;
    if (g->n > ONNX_RANK_MAX) return onnx_error(BP_ERR_INVALID, "axes has too many entries");
    for (int64_t i = 0; i < g->n; i++)
        TRY(onnx_axis(axes.n < 0 ? i : axes.at[i], rank, &g->axis[i]));
    return BP_OK;
}

static enum bp_status read_given(struct onnx_call *c, int64_t rank, struct given *g)
{
    int64_t n_scale, n_roi;

    *g = (struct given){.n = 0};
    TRY(read_axes(c, rank, g));
    TRY(onnx_in_reals(c, 1, 2 * ONNX_RANK_MAX, g->roi, &n_roi));
    TRY(onnx_in_reals(c, 2, ONNX_RANK_MAX, g->scale, &n_scale));
    TRY(onnx_in_ints(c, 3, &g->sizes));
    g->has_roi = n_roi > 0;
    g->has_scales = n_scale > 0 && g->sizes.n <= 0;
    if ((g->has_roi && n_roi != 2 * g->n) || (g->has_scales && n_scale != g->n) ||
        (!g->has_scales && g->sizes.n != g->n))
        return onnx_error(BP_ERR_INVALID, "for %lld axes %lld scales, %lld sizes and %lld bounds "
                          "are given", (long long)g->n, (long long)n_scale, (long long)g->sizes.n,
                          (long long)n_roi);
    return BP_OK;
}

/* One scale for all axes: the smallest or largest of the scales that `sizes` requests. 0: each axis
 * has its own scale. */
static double common_scale(struct onnx_call *c, const struct given *g,
                           const struct bp_tensor_info *x)
{
    bool least = onnx_attr_is(c, "keep_aspect_ratio_policy", "not_larger", "stretch");
    bool most = onnx_attr_is(c, "keep_aspect_ratio_policy", "not_smaller", "stretch");
    double common = 0;

    for (int64_t i = 0; i < g->n && (least || most); i++) {
        double scale = (double)g->sizes.at[i] / (double)x->shape[g->axis[i]];
        if (!i || (least ? scale < common : scale > common)) common = scale;
    }
    return common;
}

/* Computes n scale, rounded; a half is rounded up. */
static enum bp_status resize_rounded(int64_t n, double scale, int64_t *out)
{
    double extent = floor(scale * (double)n + 0.5);

    if (!(extent >= 0) || !(extent < 9e15))
        return onnx_error(BP_ERR_INVALID, "the scale %g of an axis of %lld", scale, (long long)n);
    *out = (int64_t)extent;
    return BP_OK;
}

static enum bp_status read_changes(struct onnx_call *c, const struct given *g,
                                   const struct bp_tensor_info *x, struct changes *all)
{
    double common = g->has_scales ? 0 : common_scale(c, g, x);
    bool policy = !g->has_scales && common != 0;

    for (int64_t i = 0; i < g->n; i++) {
        struct change one = {.axis = g->axis[i], .end = 1};
        double part;
        one.scale = g->has_scales ? g->scale[i] : common;
        if (g->has_roi) {
            one.start = g->roi[i];
            one.end = g->roi[g->n + i];
        }
        part = all->how.coordinates == CROP ? one.end - one.start : 1;
        if (g->has_scales) TRY(resize_scaled(x->shape[one.axis], part, one.scale, &one.extent));
        else if (!policy) one.extent = g->sizes.at[i];
        else TRY(resize_rounded(x->shape[one.axis], one.scale, &one.extent));
        resize_add(all, x, one);
    }
    return BP_OK;
}

enum bp_status onnx_resize(struct onnx_call *c)
{
    struct changes all = {.n = 0};
    struct bp_tensor *x = onnx_in(c, 0);
    struct bp_tensor_info info;
    struct given given;

    TRY(onnx_need(c, 1));
    info = onnx_info(x);
    TRY(read_how(c, &all.how));
    TRY(read_given(c, info.rank, &given));
    TRY(read_changes(c, &given, &info, &all));
    return resize_all(c, &all);
}
