/* SPDX-License-Identifier: Apache-2.0 */
/* rows_norm.c: builds the rows of normalisations. Statistics of half types are f32. */
#include "map.h"

#include <math.h>
#include <string.h>

/* The axes that a row normalises: those from `axis` on. */
struct norm_rows {
    uint32_t axis, rank;
    struct kit_arg extents;    /* of the axes that are normalised */
    int64_t one[KIT_AXES_MAX]; /* the shape of x, with 1 for these axes */
    uint32_t before, behind;   /* masks of axes */
};

static struct norm_rows norm_rows(struct kit_build *b, int64_t axis)
{
    const struct bp_view *x = npu_type(b, NPU_IN(0));
    struct norm_rows r = {.axis = npu_axis(axis, x->rank), .rank = x->rank};

    if (b->status) return r;
    r.extents = kit_array(b, x->shape + r.axis, r.rank - r.axis);
    r.before = (1u << r.axis) - 1;
    r.behind = (1u << r.rank) - 1 - r.before;
    for (uint32_t i = 0; i < r.rank; i++) r.one[i] = i < r.axis ? x->shape[i] : 1;
    return r;
}

/* A statistic with axes of extent 1 in place of those that are normalised; absent: a temporary. */
static struct kit_arg norm_statistic(struct kit_build *b, const struct norm_rows *r,
                                     struct kit_arg port)
{
    if (npu_is_given(b, port)) return kit_reshaped(b, port, r->rank, r->one);
    return kit_temporary(b, BP_F32, r->rank, r->one);
}

/* Statistics, of outputs first to last, without any element of x: what a mean of nothing is. */
static enum bp_status norm_of_nothing(struct kit_build *b, uint32_t first, uint32_t last)
{
    for (uint32_t port = first; port <= last; port++) {
        struct kit_arg out = NPU_OUT(port);
        if (npu_is_given(b, out) && !npu_is_empty(b, out)) npu_fill(b, out, NAN);
    }
    return b->status;
}

enum bp_status npu_build_layer_norm(struct kit_build *b)
{
    const struct bp_layer_norm_attrs *a = b->attrs;
    struct norm_rows r = norm_rows(b, a->axis);

    if (npu_is_empty(b, NPU_IN(0))) return norm_of_nothing(b, 1, 2);
    return KIT_STEP(b, "LayerNorm", NPU_IN(0), r.extents, NPU_IN(1), NPU_IN(2),
                    KIT_DOUBLE_IS(a->epsilon), NPU_OUT(0), norm_statistic(b, &r, NPU_OUT(1)),
                    norm_statistic(b, &r, NPU_OUT(2)));
}

enum bp_status npu_build_layer_norm_grad(struct kit_build *b)
{
    const struct bp_layer_norm_grad_attrs *a = b->attrs;
    struct norm_rows r = norm_rows(b, a->axis);
    const struct bp_view *x = npu_type(b, NPU_IN(0));
    struct kit_arg mean, rstd, scale = NPU_IN(1), mask, dscale = NPU_OUT(1), dbias = NPU_OUT(2);
    const int64_t wanted[3] = {1, npu_is_given(b, dscale), npu_is_given(b, dbias)};

    if (b->status) return b->status;
    if (!x->count) {
        if (wanted[1] && !npu_is_empty(b, dscale)) npu_fill(b, dscale, 0);
        if (wanted[2] && !npu_is_empty(b, dbias)) npu_fill(b, dbias, 0);
        return b->status;
    }
    mean = norm_statistic(b, &r, NPU_IN(3));
    rstd = norm_statistic(b, &r, NPU_IN(4));
    if (!npu_is_given(b, NPU_IN(3)))
        KIT_STEP(b, "LayerNorm", NPU_IN(0), r.extents, NPU_NONE, NPU_NONE,
                 KIT_DOUBLE_IS(a->epsilon), npu_like(b, NPU_IN(0), x->dtype), mean, rstd);
    if (!npu_is_given(b, scale))
        scale = npu_filled(b, x->dtype, r.rank - r.axis, x->shape + r.axis, 1);
    mask = kit_array(b, wanted, 3);
    mask.as = KIT_AS_BOOLS;
    return KIT_STEP(b, "LayerNormBackward", NPU_IN(2), NPU_IN(0), r.extents, mean, rstd, scale,
                    NPU_NONE, mask, NPU_OUT(0), wanted[1] ? dscale : NPU_NONE,
                    wanted[2] ? dbias : NPU_NONE);
}

/* The vendor's function has no default for the scale. */
static struct kit_arg norm_scale(struct kit_build *b, const struct norm_rows *r)
{
    const struct bp_view *x = npu_type(b, NPU_IN(0));

    if (npu_is_given(b, NPU_IN(1))) return NPU_IN(1);
    return npu_filled(b, x->dtype, r->rank - r->axis, x->shape + r->axis, 1);
}

enum bp_status npu_build_rms_norm(struct kit_build *b)
{
    const struct bp_rms_norm_attrs *a = b->attrs;
    struct norm_rows r = norm_rows(b, a->axis);

    if (npu_is_empty(b, NPU_IN(0))) return norm_of_nothing(b, 1, 1);
    return KIT_STEP(b, "RmsNorm", NPU_IN(0), norm_scale(b, &r), KIT_DOUBLE_IS(a->epsilon),
                    NPU_OUT(0), norm_statistic(b, &r, NPU_OUT(1)));
}

/* dx = r (g - h mean(g h)), with h = x r and g = dy scale. */
enum bp_status npu_build_rms_norm_grad(struct kit_build *b)
{
    const struct bp_rms_norm_grad_attrs *a = b->attrs;
    struct norm_rows r = norm_rows(b, a->axis);
    struct kit_arg x, dy, g, h, rms, t;
    bool scaled = npu_is_given(b, NPU_OUT(1));

    if (b->status) return b->status;
    if (npu_is_empty(b, NPU_IN(0))) {
        if (scaled && !npu_is_empty(b, NPU_OUT(1))) npu_fill(b, NPU_OUT(1), 0);
        return b->status;
    }
    rms = norm_statistic(b, &r, NPU_IN(3));
    if (!npu_is_given(b, NPU_IN(3)))
        KIT_STEP(b, "RmsNorm", NPU_IN(0), norm_scale(b, &r), KIT_DOUBLE_IS(a->epsilon),
                 npu_like(b, NPU_IN(0), npu_type(b, NPU_IN(0))->dtype), rms);
    x = npu_wide(b, NPU_IN(0));
    dy = npu_wide(b, NPU_IN(2));
    g = npu_is_given(b, NPU_IN(1)) ? npu_mul(b, dy, npu_wide(b, NPU_IN(1))) : dy;
    h = npu_mul(b, x, rms);
    t = npu_mul(b, h, npu_mean(b, npu_mul(b, g, h), r.behind));
    npu_finish(b, npu_mul(b, part_sub(b, g, t), rms), NPU_OUT(0));
    if (scaled) npu_finish(b, npu_sum(b, npu_mul(b, dy, h), r.before), NPU_OUT(1));
    return b->status;
}

/* x in groups of channels: N, groups, channels of a group, all further axes. */
struct norm_groups {
    int64_t all[4], one[4], channel[4];
};

static struct norm_groups norm_groups(struct kit_build *b, int64_t groups)
{
    const struct bp_view *x = npu_type(b, NPU_IN(0));
    int64_t behind = 1;

    for (uint32_t i = 2; i < x->rank; i++) behind *= x->shape[i];
    return (struct norm_groups){{x->shape[0], groups, x->shape[1] / groups, behind},
                                {x->shape[0], groups, 1, 1},
                                {1, groups, x->shape[1] / groups, 1}};
}

/* A parameter in the dtype of the computation. */
static struct kit_arg norm_parameter(struct kit_build *b, uint32_t port, bool wide)
{
    struct kit_arg parameter = NPU_IN(port);

    return wide && npu_is_given(b, parameter) ? npu_wide(b, parameter) : parameter;
}

/* The vendor's function has statistics of the dtype of x: half types are computed in f32 if they
 * are wanted. mean and rstd: outputs, or absent. */
static enum bp_status norm_of_groups(struct kit_build *b, int64_t groups, double epsilon,
                                     struct kit_arg mean, struct kit_arg rstd)
{
    const struct bp_view *x = npu_type(b, NPU_IN(0));
    bool wide = part_is_half(x->dtype) && (npu_is_given(b, mean) || npu_is_given(b, rstd));
    uint32_t dtype = wide ? BP_F32 : x->dtype;
    struct kit_arg y = NPU_OUT(0);
    struct norm_groups g;

    if (b->status) return b->status;
    g = norm_groups(b, groups);
    if (!npu_is_given(b, mean)) mean = kit_temporary(b, dtype, 2, g.all);
    if (!npu_is_given(b, rstd)) rstd = kit_temporary(b, dtype, 2, g.all);
    if (wide) y = npu_like(b, y, BP_F32);
    KIT_STEP(b, "GroupNorm", norm_parameter(b, 0, wide), norm_parameter(b, 1, wide),
             norm_parameter(b, 2, wide), KIT_INT_IS(g.all[0]), KIT_INT_IS(x->shape[1]),
             KIT_INT_IS(g.all[3]), KIT_INT_IS(groups), KIT_DOUBLE_IS(epsilon), y, mean, rstd);
    if (wide) npu_cast(b, y, NPU_OUT(0));
    return b->status;
}

enum bp_status npu_build_group_norm(struct kit_build *b)
{
    const struct bp_group_norm_attrs *a = b->attrs;

    if (npu_is_empty(b, NPU_IN(0))) return norm_of_nothing(b, 1, 2);
    return norm_of_groups(b, a->groups, a->epsilon, NPU_OUT(1), NPU_OUT(2));
}

enum bp_status npu_build_instance_norm(struct kit_build *b)
{
    const struct bp_instance_norm_attrs *a = b->attrs;

    if (npu_is_empty(b, NPU_IN(0))) return b->status;
    return norm_of_groups(b, npu_type(b, NPU_IN(0))->shape[1], a->epsilon, NPU_NONE, NPU_NONE);
}

/* Fills the gradients of parameters if there are no elements. */
static bool norm_grad_is_empty(struct kit_build *b)
{
    if (b->status || npu_is_empty(b, NPU_IN(0))) {
        for (uint32_t port = 1; port < 3 && !b->status; port++)
            if (npu_is_given(b, NPU_OUT(port)) && !npu_is_empty(b, NPU_OUT(port)))
                npu_fill(b, NPU_OUT(port), 0);
        return true;
    }
    return false;
}

/* dx = r (g - mean(g) - h mean(g h)), with h = (x - mean) r and g = dy scale. */
enum bp_status npu_build_group_norm_grad(struct kit_build *b)
{
    const struct bp_group_norm_grad_attrs *a = b->attrs;
    const uint32_t group = 4 | 8, channel = 1 | 8;
    struct kit_arg x, dy, d, g, h, mean, rstd, t;
    struct norm_groups s;

    if (norm_grad_is_empty(b)) return b->status;
    s = norm_groups(b, a->groups);
    x = npu_wide(b, kit_reshaped(b, NPU_IN(0), 4, s.all));
    dy = npu_wide(b, kit_reshaped(b, NPU_IN(2), 4, s.all));
    mean = npu_is_given(b, NPU_IN(3)) ? kit_reshaped(b, NPU_IN(3), 4, s.one)
                                      : npu_mean(b, x, group);
    d = part_sub(b, x, mean);
    if (npu_is_given(b, NPU_IN(4))) rstd = kit_reshaped(b, NPU_IN(4), 4, s.one);
    else rstd = part_one(b, "Rsqrt", npu_plus(b, npu_mean(b, npu_mul(b, d, d), group), a->epsilon));
    h = npu_mul(b, d, rstd);
    g = dy;
    if (npu_is_given(b, NPU_IN(1)))
        g = npu_mul(b, dy, npu_wide(b, kit_reshaped(b, NPU_IN(1), 4, s.channel)));
    t = npu_mul(b, h, npu_mean(b, npu_mul(b, g, h), group));
    t = part_sub(b, part_sub(b, g, npu_mean(b, g, group)), t);
    npu_finish(b, npu_mul(b, t, rstd), NPU_OUT(0));
    if (npu_is_given(b, NPU_OUT(1)))
        npu_finish(b, npu_sum(b, npu_mul(b, dy, h), channel), NPU_OUT(1));
    if (npu_is_given(b, NPU_OUT(2))) npu_finish(b, npu_sum(b, dy, channel), NPU_OUT(2));
    return b->status;
}

/* An image with all spatial axes as one: the vendor's functions know the layouts of 2 to 5
 * axes. */
static struct kit_arg norm_image(struct kit_build *b, struct kit_arg x)
{
    const struct bp_view *type = npu_type(b, x);
    int64_t shape[3] = {0, 0, 1};

    if (b->status) return x;
    shape[0] = type->shape[0], shape[1] = type->shape[1];
    for (uint32_t i = 2; i < type->rank; i++) shape[2] *= type->shape[i];
    return npu_image(kit_reshaped(b, x, 3, shape));
}

static struct kit_arg norm_channels(struct kit_build *b)
{
    return kit_temporary(b, BP_F32, 1, npu_type(b, NPU_IN(0))->shape + 1);
}

enum bp_status npu_build_batch_norm(struct kit_build *b)
{
    const struct bp_batch_norm_attrs *a = b->attrs;

    if (npu_is_empty(b, NPU_IN(0))) return b->status;
    return KIT_STEP(b, "BatchNorm", norm_image(b, NPU_IN(0)), NPU_IN(1), NPU_IN(2),
                    kit_as(NPU_IN(3), KIT_WRITES), kit_as(NPU_IN(4), KIT_WRITES), KIT_INT_IS(0),
                    KIT_DOUBLE_IS(0), KIT_DOUBLE_IS(a->epsilon), norm_image(b, NPU_OUT(0)),
                    norm_channels(b), norm_channels(b));
}

/* The vendor's function moves the variance towards that by n - 1. By n: v (n - 1) / n + momentum
 * running / n. */
static void norm_biased(struct kit_build *b, double momentum, double n, struct kit_arg moved)
{
    struct kit_arg sum = npu_like(b, moved, npu_type(b, moved)->dtype);

    if (n == 1) {
        KIT_STEP(b, "Muls", NPU_IN(4), KIT_NUMBER_IS(momentum), NPU_OUT(2));
        return;
    }
    KIT_STEP(b, "Muls", moved, KIT_NUMBER_IS((n - 1) / n), sum);
    KIT_STEP(b, "Add", sum, NPU_IN(4), KIT_NUMBER_IS(momentum / n), NPU_OUT(2));
}

enum bp_status npu_build_batch_norm_train(struct kit_build *b)
{
    const struct bp_batch_norm_train_attrs *a = b->attrs;
    const struct bp_view *x = npu_type(b, NPU_IN(0));
    struct kit_arg moved = NPU_OUT(2), mean = NPU_OUT(1), saved, rstd;

    if (b->status) return b->status;
    if (!x->count) return norm_of_nothing(b, 1, 4);
    if (!a->unbiased) moved = npu_like(b, NPU_IN(4), npu_type(b, NPU_IN(4))->dtype);
    KIT_STEP(b, "InplaceCopy", mean, NPU_IN(3));
    KIT_STEP(b, "InplaceCopy", moved, NPU_IN(4));
    saved = npu_is_given(b, NPU_OUT(3)) ? NPU_OUT(3) : norm_channels(b);
    rstd = npu_is_given(b, NPU_OUT(4)) ? NPU_OUT(4) : norm_channels(b);
    KIT_STEP(b, "BatchNorm", norm_image(b, NPU_IN(0)), NPU_IN(1), NPU_IN(2),
             kit_as(mean, KIT_WRITES), kit_as(moved, KIT_WRITES), KIT_INT_IS(1),
             KIT_DOUBLE_IS(1 - a->momentum), KIT_DOUBLE_IS(a->epsilon), norm_image(b, NPU_OUT(0)),
             saved, rstd);
    if (!a->unbiased) {
        norm_biased(b, a->momentum, (double)(x->count / x->shape[1]), moved);
    }
    return b->status;
}

enum bp_status npu_build_batch_norm_grad(struct kit_build *b)
{
    const struct bp_batch_norm_grad_attrs *a = b->attrs;
    const int64_t wanted[3] = {1, 1, 1};
    struct kit_arg mean = NPU_IN(3), rstd = NPU_IN(4), scale = NPU_IN(1), mask, x;
    const struct bp_view *channels = npu_type(b, NPU_OUT(1));

    if (norm_grad_is_empty(b)) return b->status;
    x = norm_image(b, NPU_IN(0));
    if (!npu_is_given(b, mean)) {
        mean = norm_channels(b);
        rstd = norm_channels(b);
        KIT_STEP(b, "BatchNorm", x, NPU_NONE, NPU_NONE, NPU_NONE, NPU_NONE, KIT_INT_IS(1),
                 KIT_DOUBLE_IS(0), KIT_DOUBLE_IS(a->epsilon), npu_like(b, x, npu_type(b, x)->dtype),
                 mean, rstd);
    }
    if (!npu_is_given(b, scale)) scale = npu_filled(b, channels->dtype, 1, channels->shape, 1);
    mask = kit_array(b, wanted, 3);
    mask.as = KIT_AS_BOOLS;
    return KIT_STEP(b, "BatchNormBackward", norm_image(b, NPU_IN(2)), x, scale, NPU_NONE, NPU_NONE,
                    mean, rstd, KIT_INT_IS(1), KIT_DOUBLE_IS(a->epsilon), mask,
                    norm_image(b, NPU_OUT(0)), NPU_OUT(1), NPU_OUT(2));
}

/* x / max(norm, epsilon); with an epsilon of 0 the norm of zeros is taken for 1. */
enum bp_status npu_build_lp_normalize(struct kit_build *b)
{
    const struct bp_lp_normalize_attrs *a = b->attrs;
    const struct bp_view *type = npu_type(b, NPU_IN(0));
    int64_t shape[KIT_AXES_MAX], axis[1] = {npu_axis(a->axis, type->rank)};
    struct kit_arg x, size, is_zero;

    if (b->status || !type->count) return b->status;
    x = npu_wide(b, NPU_IN(0));
    for (uint32_t i = 0; i < type->rank; i++) shape[i] = i == axis[0] ? 1 : type->shape[i];
    size = kit_temporary(b, BP_F32, type->rank, shape);
    KIT_STEP(b, "LinalgVectorNorm", x, KIT_NUMBER_IS(a->p), kit_array(b, axis, 1), KIT_INT_IS(1),
             KIT_DTYPE_IS(BP_F32), size);
    size = npu_clip(b, size, a->epsilon, INFINITY);
    if ((float)a->epsilon == 0) {
        is_zero = npu_like(b, size, BP_BOOL);
        KIT_STEP(b, "EqTensor", size, npu_filled(b, BP_F32, 0, NULL, 0), is_zero);
        KIT_STEP(b, "InplaceMaskedFillScalar", kit_as(size, KIT_UPDATES), is_zero,
                 KIT_SCALAR_IS(1));
    }
    npu_finish(b, npu_div(b, x, size), NPU_OUT(0));
    return b->status;
}

/* (x - mean) / (sqrt(variance) + epsilon). */
enum bp_status npu_build_mean_variance(struct kit_build *b)
{
    const struct bp_mean_variance_normalization_attrs *a = b->attrs;
    const struct bp_view *type = npu_type(b, NPU_IN(0));
    uint32_t axes = a->axes.n ? 0 : (1u << type->rank) - 1;
    struct kit_arg x, d, deviation;

    if (b->status || !type->count) return b->status;
    for (int64_t i = 0; i < a->axes.n; i++) axes |= 1u << npu_axis(a->axes.at[i], type->rank);
    x = npu_wide(b, NPU_IN(0));
    d = part_sub(b, x, npu_mean(b, x, axes));
    deviation = part_one(b, "Sqrt", npu_mean(b, npu_mul(b, d, d), axes));
    npu_finish(b, npu_div(b, d, npu_plus(b, deviation, a->epsilon)), NPU_OUT(0));
    return b->status;
}

/* The channels of each window, from (window - 1) / 2 before to window / 2 behind. */
static bool norm_channel_map(struct npu_map *map, int64_t channels, int64_t window)
{
    int64_t before = (window - 1) / 2, behind = window / 2;

    if (before > channels - 1) before = channels - 1;
    if (behind > channels - 1) behind = channels - 1;
    if (!npu_map_init(map, channels, channels, before + behind + 1, false)) return false;
    for (int64_t c = 0; c < channels; c++)
        for (int64_t t = 0; t < map->taps; t++) {
            int64_t at = c - before + t;
            map->index[c * map->taps + t] = at < 0 || at >= channels ? channels : at;
        }
    return true;
}

/* x e^(-beta log(bias + alpha / window s)), s the sum of the squares of a window's channels. */
enum bp_status npu_build_lrn(struct kit_build *b)
{
    const struct bp_lrn_attrs *a = b->attrs;
    const struct bp_view *type = npu_type(b, NPU_IN(0));
    struct npu_map map = {0};
    struct kit_arg x, s;

    if (b->status || !type->count) return b->status;
    x = npu_wide(b, NPU_IN(0));
    if (!norm_channel_map(&map, type->shape[1], a->window)) {
        npu_map_finish(&map);
        return kit_refuse(b);
    }
    s = npu_map_apply(b, &map, npu_mul(b, x, x), 1, NPU_MAP_SUM);
    npu_map_finish(&map);
    s = npu_plus(b, npu_times(b, s, a->alpha / (double)a->window), a->bias);
    s = npu_times(b, part_one(b, "Log", s), -a->beta);
    npu_finish(b, npu_mul(b, x, part_one(b, "Exp", s)), NPU_OUT(0));
    return b->status;
}
