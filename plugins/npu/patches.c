/* SPDX-License-Identifier: Apache-2.0 */
/* patches.c: builds the rows of windows that are put together or moved, and of pools of regions:
 * the elements are gathered or added by computed indices. */
#include "builds.h"
#include "compose.h"
#include "parts.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    PATCHES_MOST = 1 << 22 /* entries of a table */
};

/* A window and where it is moved to. Rows first. */
struct patches {
    int64_t kernel[2], stride[2], dilation[2], windows[2];
};

/* For each element of a window, and each window: start + its place along an axis. */
static int64_t *patches_places(const struct patches *p, int axis, int64_t start)
{
    const int64_t taps = p->kernel[0] * p->kernel[1], all = p->windows[0] * p->windows[1];
    int64_t *at, n = 0;

    if (taps > PATCHES_MOST || all > PATCHES_MOST || taps * all > PATCHES_MOST) return NULL;
    at = malloc((size_t)(taps * all + 1) * sizeof *at);
    for (int64_t k = 0; at && k < taps; k++)
        for (int64_t w = 0; w < all; w++, n++) {
            const int64_t tap = axis ? k % p->kernel[1] : k / p->kernel[1];
            const int64_t window = axis ? w % p->windows[1] : w / p->windows[1];
            at[n] = start + window * p->stride[axis] + tap * p->dilation[axis];
        }
    return at;
}

/* The places of fold in an image with padding, of that many columns. */
static struct kit_arg fold_places(struct kit_build *b, const struct patches *p, int64_t columns)
{
    int64_t *row = patches_places(p, 0, 0), *column = patches_places(p, 1, 0);
    const int64_t n = p->kernel[0] * p->kernel[1] * p->windows[0] * p->windows[1];
    struct kit_arg at = KIT_NONE;

    for (int64_t i = 0; row && column && i < n; i++) row[i] = row[i] * columns + column[i];
    if (row && column) at = kit_constant(b, BP_I64, 1, &n, row);
    else kit_refuse(b);
    free(row);
    free(column);
    return at;
}

/* Adds the elements to an image with padding, of which the middle is the result. */
enum bp_status npu_fold_build(struct kit_build *b)
{
    const struct bp_fold_attrs *a = b->attrs;
    const struct bp_view *x = b->in[0], *y = b->out[0];
    const int64_t rows = y->shape[2] + a->pad[0] + a->pad[2];
    const int64_t columns = y->shape[3] + a->pad[1] + a->pad[3];
    const int64_t images = y->shape[0] * y->shape[1];
    const int64_t flat[2] = {images, rows * columns},
                  all[4] = {y->shape[0], y->shape[1], rows, columns};
    struct patches p = {{a->kernel[0], a->kernel[1]},
                        {a->stride[0], a->stride[1]},
                        {a->dilation[0], a->dilation[1]},
                        {0, 0}};
    int64_t source[2] = {images, 0};
    struct kit_arg none, sums, to;

    if (!x->count) return create_fill(b, NPU_OUT(0), 0);
    if (!y->count) return b->status;
    p.windows[0] = (rows - a->dilation[0] * (a->kernel[0] - 1) - 1) / a->stride[0] + 1;
    p.windows[1] = (columns - a->dilation[1] * (a->kernel[1] - 1) - 1) / a->stride[1] + 1;
    source[1] = x->count / images;
    none = kit_temporary(b, part_is_half(x->dtype) ? BP_F32 : x->dtype, 2, flat);
    sums = part_like(b, none);
    create_fill(b, none, 0);
    KIT_STEP(b, "IndexAdd", none, KIT_INT_IS(1), fold_places(b, &p, columns),
             kit_reshaped(b, part_in(b, 0), 2, source), KIT_SCALAR_IS(1), sums);
    to = kit_reshaped(b, sums, 4, all);
    to = npu_part(b, npu_part(b, to, 2, a->pad[0], y->shape[2], 1), 3, a->pad[1], y->shape[3], 1);
    npu_finish(b, to, NPU_OUT(0));
    return part_pack(b);
}

/* The elements of each window of the image with padding, which overlap. */
enum bp_status npu_unfold_build(struct kit_build *b)
{
    const struct bp_unfold_attrs *a = b->attrs;
    const struct bp_view *x = b->in[0], *y = b->out[0];
    const int64_t pad[4] = {a->pad[1], a->pad[3], a->pad[0], a->pad[2]};
    const int64_t rows = x->shape[2] + a->pad[0] + a->pad[2];
    const int64_t columns = x->shape[3] + a->pad[1] + a->pad[3];
    const int64_t all[4] = {x->shape[0], x->shape[1], rows, columns};
    const int64_t high = (rows - a->dilation[0] * (a->kernel[0] - 1) - 1) / a->stride[0] + 1;
    const int64_t wide = (columns - a->dilation[1] * (a->kernel[1] - 1) - 1) / a->stride[1] + 1;
    const int64_t shape[5] = {all[0] * all[1], a->kernel[0], a->kernel[1], high, wide};
    const int64_t stride[5] = {rows * columns, a->dilation[0] * columns, a->dilation[1],
                               a->stride[0] * columns, a->stride[1]};
    struct kit_arg padded;

    if (!y->count) return b->status;
    padded = kit_temporary(b, x->dtype, 4, all);
    KIT_STEP(b, "ConstantPadNd", NPU_IN(0), kit_array(b, pad, 4), KIT_SCALAR_IS(0), padded);
    KIT_STEP(b, "InplaceCopy", kit_reshaped(b, KIT_VALUE(KIT_UPDATED(0)), 5, shape),
             kit_alias(b, padded, x->dtype, 5, shape, stride, 0));
    return part_pack(b);
}

/* The steps of deform_unfold. Tensors of places have the axes N, groups, corners, elements of a
 * window, windows. */
struct deform {
    const struct bp_deform_unfold_attrs *a;
    const struct bp_view *x, *offset;
    struct patches p;
    int64_t taps, windows;
};

/* One of the four corners around a place, along an axis: 0 in front of it, 1 behind. */
static struct kit_arg deform_corners(struct kit_build *b, int axis, bool other, uint32_t dtype)
{
    static const float row[4] = {0, 0, 1, 1}, column[4] = {0, 1, 0, 1};
    const int64_t shape[5] = {1, 1, 4, 1, 1};
    float at[4];

    for (int i = 0; i < 4; i++) at[i] = (axis ? column[i] : row[i]) - (other ? 1 : 0);
    return part_cast(b, kit_constant(b, BP_F32, 5, shape, at), dtype);
}

/* Corners along one axis: their places, whether these are inside, and the weights. */
struct deform_axis {
    struct kit_arg at, inside, weight;
};

static struct deform_axis deform_axis(struct kit_build *b, const struct deform *d,
                                      struct kit_arg offset, int axis)
{
    const uint32_t dtype = part_dtype(b, offset);
    const int64_t groups = d->a->offset_groups, extent = d->x->shape[2 + axis];
    const int64_t shape[5] = {d->x->shape[0], groups, 1, d->taps, d->windows};
    const int64_t stride[5] = {2 * groups * d->taps * d->windows, 2 * d->taps * d->windows, 1,
                               2 * d->windows, 1};
    const int64_t places[5] = {1, 1, 1, d->taps, d->windows};
    struct deform_axis result = {0};
    struct kit_arg low, at, last = KIT_NUMBER_IS(0), zero = KIT_NUMBER_IS(0), base;
    int64_t *table = patches_places(&d->p, axis, -d->a->pad[axis]);

    if (!table) kit_refuse(b);
    if (b->status) {
        free(table);
        return result;
    }
    base = part_cast(b, kit_constant(b, BP_I64, 5, places, table), dtype);
    free(table);
    last.f = (double)(extent - 1);
    offset = kit_alias(b, offset, dtype, 5, shape, stride,
                       axis * d->windows * (int64_t)part_item_size(dtype));
    low = part_one(b, "Floor", offset);
    result.weight = part_one(
        b, "Abs", part_add(b, part_sub(b, offset, low), deform_corners(b, axis, true, dtype)));
    at = part_add(b, part_add(b, low, base), deform_corners(b, axis, false, dtype));
    result.inside = part_two(b, "LogicalAnd", part_compare(b, "GeTensor", at, zero),
                             part_compare(b, "LeTensor", at, last));
    result.at = part_cast(b, part_where_else(b, result.inside, at, zero), BP_I64);
    return result;
}

/* x at the four corners of each place, times their weights, added. */
enum bp_status npu_deform_unfold_build(struct kit_build *b)
{
    struct deform d = {.a = b->attrs, .x = b->in[0], .offset = b->in[1]};
    const int64_t groups = d.a->offset_groups, n = d.x->shape[0], each = d.x->shape[1] / groups;
    struct kit_arg offset = part_in(b, 1), mask = KIT_IN(2), at, weight, inside, taken;
    struct deform_axis row, column;
    int64_t one[3], all[3], image[3], apart[4], factors[5];

    if (!b->out[0]->count) return b->status;
    if (!d.x->count) return create_fill(b, NPU_OUT(0), 0);
    for (int i = 0; i < 2; i++) {
        d.p.kernel[i] = d.a->kernel[i], d.p.stride[i] = d.a->stride[i];
        d.p.dilation[i] = d.a->dilation[i], d.p.windows[i] = d.offset->shape[2 + i];
    }
    d.taps = d.a->kernel[0] * d.a->kernel[1];
    d.windows = d.p.windows[0] * d.p.windows[1];
    row = deform_axis(b, &d, offset, 0);
    column = deform_axis(b, &d, offset, 1);
    if (b->status) return b->status;
    at = part_two(b, "Mul", row.at,
                  part_number(b, BP_I64, KIT_VALUE(KIT_SCALAR_IS(d.x->shape[3]))));
    at = part_add(b, at, column.at);
    inside = part_two(b, "LogicalAnd", row.inside, column.inside);
    weight = part_two(b, "Mul", row.weight, column.weight);
    factors[0] = n, factors[1] = groups, factors[2] = 1, factors[3] = d.taps,
    factors[4] = d.windows;
    if (kit_arg_view(b, &mask))
        weight = part_two(b, "Mul", weight, kit_reshaped(b, part_in(b, 2), 5, factors));
    one[0] = all[0] = image[0] = n * groups, one[1] = 1, all[1] = image[1] = each;
    one[2] = all[2] = 4 * d.taps * d.windows, image[2] = d.x->shape[2] * d.x->shape[3];
    taken = kit_temporary(b, BP_I64, 3, all);
    KIT_STEP(b, "Expand", kit_reshaped(b, at, 3, one), kit_array(b, all, 3), taken);
    at = taken;
    taken = kit_temporary(b, part_dtype(b, offset), 3, all);
    KIT_STEP(b, "Gather", kit_reshaped(b, part_in(b, 0), 3, image), KIT_INT_IS(2), at, taken);
    taken = part_two(b, "Mul", taken, kit_reshaped(b, weight, 3, one));
    taken = part_where_else(b, kit_reshaped(b, inside, 3, one), taken, KIT_VALUE(KIT_NUMBER_IS(0)));
    apart[0] = n * groups * each, apart[1] = 4, apart[2] = d.taps * d.windows, apart[3] = 1;
    npu_finish(b, npu_sum(b, kit_reshaped(b, taken, 4, apart), 2), NPU_OUT(0));
    return part_pack(b);
}

/* Corners of regions as whole places, halves away from 0. */
static struct kit_arg roi_rounded(struct kit_build *b, struct kit_arg x)
{
    struct kit_arg one = KIT_NUMBER_IS(1), half = KIT_NUMBER_IS(0.5);
    struct kit_arg size = part_one(b, "Abs", x), whole = part_one(b, "Trunc", size);
    struct kit_arg up = part_compare(b, "GeTensor", part_sub(b, size, whole), half);

    whole = part_where(b, up, part_plus(b, whole, one), whole);
    return part_cast(b, part_two(b, "Mul", whole, part_one(b, "Sign", x)), BP_I64);
}

/* Which positions of an axis each bin has: regions, 1, bins, positions. first, length: regions, 1,
 * 1, 1. */
static struct kit_arg roi_bins(struct kit_build *b, struct kit_arg first, struct kit_arg length,
                               int64_t bins, int64_t extent)
{
    const int64_t of_bins[4] = {1, 1, bins, 1}, of_places[4] = {1, 1, 1, extent};
    struct kit_arg n = part_number(b, BP_I64, KIT_VALUE(KIT_SCALAR_IS(bins))), at, low, high;
    int64_t *table = malloc((size_t)(bins + extent + 1) * sizeof *table);

    if (!table) kit_refuse(b);
    if (b->status) {
        free(table);
        return first;
    }
    for (int64_t i = 0; i < bins || i < extent; i++) table[i] = i;
    low = kit_constant(b, BP_I64, 4, of_bins, table);
    at = kit_constant(b, BP_I64, 4, of_places, table);
    for (int64_t i = 0; i < bins; i++) table[i] = -(i + 1);
    high = kit_constant(b, BP_I64, 4, of_bins, table);
    free(table);
    low = part_add(b, first, part_two(b, "FloorDivide", part_two(b, "Mul", low, length), n));
    /* The quotient of the negative number is rounded down: that of the positive one up. */
    high = part_sub(b, first, part_two(b, "FloorDivide", part_two(b, "Mul", high, length), n));
    return part_two(b, "LogicalAnd", part_test(b, "GeTensor", at, low),
                    part_test(b, "LtTensor", at, high));
}

/* The first of the largest x of each bin along the last axis: x has an axis of extent 1 in front of
 * it. Amax would leave open whether it is 0 or -0. */
static struct kit_arg roi_largest(struct kit_build *b, struct kit_arg x, struct kit_arg inside)
{
    struct kit_arg all, at, to, least = KIT_NUMBER_IS(-INFINITY);
    int64_t shape[KIT_AXES_MAX];
    const struct bp_view *v;

    all = part_where_else(b, inside, x, least);
    v = kit_arg_view(b, &all);
    if (!v) return x;
    memcpy(shape, v->shape, v->rank * sizeof *shape);
    shape[v->rank - 1] = 1;
    at = kit_temporary(b, BP_I64, v->rank, shape);
    to = kit_temporary(b, v->dtype, v->rank, shape);
    KIT_STEP(b, "ArgMax", all, KIT_INT_IS(v->rank - 1), KIT_INT_IS(1), at);
    KIT_STEP(b, "Gather", all, KIT_INT_IS(v->rank - 1), at, to);
    return kit_reshaped(b, to, v->rank - 1, shape);
}

/* Whether each bin has a position: regions, 1, bins. */
static struct kit_arg roi_any(struct kit_build *b, struct kit_arg inside)
{
    const struct bp_view *v = kit_arg_view(b, &inside);
    const int64_t last = 3;
    struct kit_arg to;

    if (!v) return inside;
    to = kit_temporary(b, BP_BOOL, 3, v->shape);
    KIT_STEP(b, "Any", inside, kit_array(b, &last, 1), KIT_INT_IS(0), to);
    return to;
}

/* The largest element of each bin of each region: first along the columns, then along the rows. */
enum bp_status npu_roi_pool_build(struct kit_build *b)
{
    const struct bp_roi_pool_attrs *a = b->attrs;
    const struct bp_view *x = b->in[0], *y = b->out[0];
    const int64_t n = y->shape[0], channels = x->shape[1], rows = x->shape[2],
                  columns = x->shape[3];
    const int64_t regions[4] = {n, channels, rows, columns};
    const int64_t wide[5] = {n, channels, rows, 1, columns},
                  row_mask[5] = {n, 1, a->height, 1, rows};
    const int64_t column_mask[5] = {n, 1, 1, a->width, columns};
    const int64_t tall[5] = {n, channels, 1, a->width, rows}, of_rows[4] = {n, 1, a->height, 1};
    const int64_t of_columns[4] = {n, 1, 1, a->width}, line[4] = {n, 1, 1, 1};
    int64_t strides[5];
    struct kit_arg one = part_number(b, BP_I64, KIT_VALUE(KIT_SCALAR_IS(1)));
    struct kit_arg taken, rois, first, length, down, across, t, any, factor = KIT_NUMBER_IS(0);

    if (!y->count) return b->status;
    factor.f = a->scale;
    taken = kit_temporary(b, x->dtype, 4, regions);
    t = npu_guard(b, NPU_IN(2), x->shape[0], false);
    if (!rows || !columns) return create_fill(b, NPU_OUT(0), 0);
    KIT_STEP(b, "GatherV2", NPU_IN(0), KIT_INT_IS(0), t, taken);
    rois = roi_rounded(b, part_times(b, part_cast(b, NPU_IN(1), BP_F64), factor));
    first = npu_part(b, rois, 1, 0, 2, 1);
    length = part_two(b, "Maximum",
                      part_add(b, part_sub(b, npu_part(b, rois, 1, 2, 2, 1), first), one), one);
    across = roi_bins(b, kit_reshaped(b, npu_part(b, first, 1, 0, 1, 1), 4, line),
                      kit_reshaped(b, npu_part(b, length, 1, 0, 1, 1), 4, line), a->width, columns);
    down = roi_bins(b, kit_reshaped(b, npu_part(b, first, 1, 1, 1, 1), 4, line),
                    kit_reshaped(b, npu_part(b, length, 1, 1, 1, 1), 4, line), a->height, rows);
    t = roi_largest(b, kit_reshaped(b, taken, 5, wide), kit_reshaped(b, across, 5, column_mask));
    strides[0] = channels * rows * a->width, strides[1] = rows * a->width, strides[2] = 1;
    strides[3] = 1, strides[4] = a->width;
    t = roi_largest(b, kit_alias(b, t, x->dtype, 5, tall, strides, 0),
                    kit_reshaped(b, down, 5, row_mask));
    any = part_two(b, "LogicalAnd", kit_reshaped(b, roi_any(b, down), 4, of_rows),
                   kit_reshaped(b, roi_any(b, across), 4, of_columns));
    return part_end(b, part_where_else(b, any, t, KIT_VALUE(KIT_NUMBER_IS(0))));
}
