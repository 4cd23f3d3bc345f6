/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: runs operators that move, slice or reshape. Their integers are attributes in older
 * versions and inputs in newer ones. */
#include "list.h"
#include <stdlib.h>
#include <string.h>

static enum bp_status give_reshaped(struct onnx_call *c, struct bp_tensor *x, const int64_t *shape,
                                    int64_t rank)
{
    struct bp_reshape_attrs attrs = bp_reshape_defaults();
    struct bp_tensor *y = NULL;

    attrs.shape = (struct bp_dims){rank ? shape : NULL, rank};
    TRY(bp_op_reshape(c->scope, x, NULL, &attrs, &y));
    return onnx_give(c, 0, y);
}

/* An extent of 0 means the extent of x, unless allowzero is set. */
enum bp_status onnx_reshape(struct onnx_call *c)
{
    int64_t shape[ONNX_RANK_MAX];
    struct bp_tensor_info info;
    struct onnx_ints given;
    struct bp_tensor *x = onnx_in(c, 0);

    TRY(onnx_need(c, 1));
    TRY(onnx_ints_of(c, "shape", 5, 1, &given));
    info = onnx_info(x);
    if (given.n < 0 || given.n > ONNX_RANK_MAX)
        return onnx_error(given.n < 0 ? BP_ERR_INVALID : BP_ERR_UNSUPPORTED,
                          "a shape of %d extents at most is expected", ONNX_RANK_MAX);
    for (int64_t i = 0; i < given.n; i++) {
        shape[i] = given.at[i];
        if (shape[i] || onnx_attr_int(c, "allowzero", 0)) continue;
        if (i >= (int64_t)info.rank)
            return onnx_error(BP_ERR_INVALID, "extent %lld is 0, and there is none to copy",
                              (long long)i);
        shape[i] = info.shape[i];
    }
    return give_reshaped(c, x, shape, given.n);
}

enum bp_status onnx_flatten(struct onnx_call *c)
{
    int64_t shape[2];

    TRY(onnx_need(c, 1));
    TRY(onnx_as_matrix(onnx_in(c, 0), onnx_attr_int(c, "axis", 1), shape));
    return give_reshaped(c, onnx_in(c, 0), shape, 2);
}

/* A shape is known before the model runs, so the result is a constant. */
enum bp_status onnx_shape(struct onnx_call *c)
{
    int64_t begin = onnx_attr_int(c, "start", 0), end, n;
    struct bp_tensor_info info;
    struct bp_tensor *x = onnx_in(c, 0), *y;

    TRY(onnx_need(c, 1));
    info = onnx_info(x);
    n = info.rank;
    end = onnx_attr_int(c, "end", n);
    begin = begin < -n ? 0 : begin < 0 ? begin + n : begin > n ? n : begin;
    end = end < -n ? 0 : end < 0 ? end + n : end > n ? n : end;
    n = end > begin ? end - begin : 0;
    TRY(onnx_constant_ints(c, 1, &n, info.shape + begin, &y));
    c->symbolic = false;
    return onnx_give(c, 0, y);
}

enum bp_status onnx_size(struct onnx_call *c)
{
    struct bp_tensor *x = onnx_in(c, 0), *y;
    int64_t count;

    TRY(onnx_need(c, 1));
    count = onnx_info(x).count;
    TRY(onnx_constant_ints(c, 0, NULL, &count, &y));
    c->symbolic = false;
    return onnx_give(c, 0, y);
}

enum bp_status onnx_squeeze(struct onnx_call *c)
{
    struct bp_squeeze_attrs attrs = bp_squeeze_defaults();
    struct onnx_ints axes;
    struct bp_tensor *x = onnx_in(c, 0), *y = NULL;

    TRY(onnx_need(c, 1));
    TRY(onnx_ints_of(c, "axes", 13, 1, &axes));
    attrs.axes = onnx_dims(axes);
    TRY(bp_op_squeeze(c->scope, x, NULL, &attrs, &y));
    return onnx_give(c, 0, y);
}

enum bp_status onnx_unsqueeze(struct onnx_call *c)
{
    struct bp_unsqueeze_attrs attrs = bp_unsqueeze_defaults();
    struct onnx_ints axes;
    struct bp_tensor *x = onnx_in(c, 0), *y = NULL;

    TRY(onnx_need(c, 1));
    TRY(onnx_ints_of(c, "axes", 13, 1, &axes));
    attrs.axes = onnx_dims(axes);
    TRY(bp_op_unsqueeze(c->scope, x, NULL, &attrs, &y));
    return onnx_give(c, 0, y);
}

/* Both shapes are broadcast: where `shape` has an extent of 1, the extent of x is kept. */
enum bp_status onnx_expand(struct onnx_call *c)
{
    struct bp_expand_attrs attrs = bp_expand_defaults();
    int64_t shape[ONNX_RANK_MAX];
    struct bp_tensor_info info;
    struct onnx_ints given;
    struct bp_tensor *x = onnx_in(c, 0), *y = NULL;
    int64_t rank, more;

    TRY(onnx_need(c, 1));
    TRY(onnx_in_ints(c, 1, &given));
    info = onnx_info(x);
    rank = given.n > (int64_t)info.rank ? given.n : (int64_t)info.rank;
    if (given.n < 0 || rank > ONNX_RANK_MAX)
        return onnx_error(BP_ERR_UNSUPPORTED, "at most %d extents are supported", ONNX_RANK_MAX);
    more = rank - given.n;
    for (int64_t i = 0; i < rank; i++) {
        int64_t own = i - (rank - (int64_t)info.rank);
        shape[i] = i < more ? 1 : given.at[i - more];
        if (own >= 0 && shape[i] == 1) shape[i] = info.shape[own];
    }
    attrs.shape = (struct bp_dims){shape, rank};
    TRY(bp_op_expand(c->scope, x, NULL, &attrs, &y));
    return onnx_give(c, 0, y);
}

enum bp_status onnx_tile(struct onnx_call *c)
{
    struct bp_tile_attrs attrs = bp_tile_defaults();
    int64_t repeats[ONNX_RANK_MAX], tiles, axis;
    struct bp_tensor *x = onnx_in(c, 0), *y = NULL;
    struct onnx_ints given;

    TRY(onnx_need(c, 1));
    if (c->node->opset < 6) { /* inputs: a count and one axis, in the dtype of x */
        TRY(onnx_in_whole(c, 1, &tiles));
        TRY(onnx_in_whole(c, 2, &axis));
        TRY(onnx_axis(axis, onnx_info(x).rank, &axis));
        for (int i = 0; i < ONNX_RANK_MAX; i++) repeats[i] = 1;
        repeats[axis] = tiles;
        attrs.repeats = (struct bp_dims){repeats, onnx_info(x).rank};
    } else {
        TRY(onnx_in_ints(c, 1, &given));
        attrs.repeats = onnx_dims(given);
    }
    TRY(bp_op_tile(c->scope, x, NULL, &attrs, &y));
    return onnx_give(c, 0, y);
}

static bool any_below_one(struct bp_dims steps)
{
    for (int64_t i = 0; i < steps.n; i++)
        if (steps.at[i] < 1) return true;
    return false;
}

/* Returns a view if all steps are positive, otherwise a copy. */
enum bp_status onnx_slice(struct onnx_call *c)
{
    struct bp_strided_slice_attrs copy = bp_strided_slice_defaults();
    struct bp_slice_attrs attrs = bp_slice_defaults();
    struct onnx_ints starts, ends, axes, steps = {NULL, -1};
    struct bp_tensor *x = onnx_in(c, 0), *y = NULL;

    TRY(onnx_need(c, 1));
    TRY(onnx_ints_of(c, "starts", 10, 1, &starts));
    TRY(onnx_ints_of(c, "ends", 10, 2, &ends));
    TRY(onnx_ints_of(c, "axes", 10, 3, &axes));
    if (c->node->opset >= 10) TRY(onnx_in_ints(c, 4, &steps));
    attrs.starts = copy.starts = onnx_dims(starts);
    attrs.ends = copy.ends = onnx_dims(ends);
    attrs.axes = copy.axes = onnx_dims(axes);
    attrs.steps = copy.steps = onnx_dims(steps);
    TRY(any_below_one(attrs.steps)
            ? bp_op_strided_slice(c->scope, x, NULL, NULL, NULL, NULL, &copy, &y)
            : bp_op_slice(c->scope, x, NULL, NULL, NULL, NULL, &attrs, &y));
    return onnx_give(c, 0, y);
}

/* The extents of the parts: the given ones, or equal ones with a shorter last part. */
static enum bp_status part_sizes(struct onnx_call *c, struct bp_tensor *x, int64_t axis,
                                 int64_t *sizes)
{
    struct bp_tensor_info info = onnx_info(x);
    int64_t n = c->node->n_out, each, left;
    struct onnx_ints given;

    TRY(onnx_axis(axis, info.rank, &axis));
    TRY(onnx_ints_of(c, "split", 13, 1, &given));
    if (given.n >= 0 && given.n != n)
        return onnx_error(BP_ERR_INVALID, "%lld parts for %lld outputs", (long long)given.n,
                          (long long)n);
    left = info.shape[axis];
    each = (left + n - 1) / n;
    for (int64_t i = 0; i < n; i++) {
        if (given.n >= 0) sizes[i] = given.at[i]; /* bp_op_split checks the sum */
        else left -= sizes[i] = left < each ? left : each;
    }
    return BP_OK;
}

enum bp_status onnx_split(struct onnx_call *c)
{
    struct bp_split_attrs attrs = bp_split_defaults();
    uint32_t n = c->node->n_out;
    int64_t *sizes = calloc(n + 1, sizeof *sizes);
    struct bp_tensor *x = onnx_in(c, 0), **ys = calloc(n + 1, sizeof *ys);
    enum bp_status status = sizes && ys ? BP_OK : onnx_no_memory();

    attrs.axis = onnx_attr_int(c, "axis", 0);
    if (status == BP_OK) status = onnx_need(c, 1);
    if (status == BP_OK) status = part_sizes(c, x, attrs.axis, sizes);
    attrs.sizes = (struct bp_dims){sizes, n};
    if (status == BP_OK) status = bp_op_split(c->scope, x, NULL, &attrs, ys, n);
    for (uint32_t i = 0; i < n && status == BP_OK; i++) status = onnx_give(c, i, ys[i]);
    free(sizes);
    free(ys);
    return status;
}

/* Reads pads: the borders before all axes, then those after them; from opset 18 on for a list of
 * axes. */
static enum bp_status read_pads(struct onnx_call *c, uint32_t rank, int64_t *before,
                                int64_t *after)
{
    struct onnx_ints pads, axes = {NULL, -1};
    int64_t n = rank;

    TRY(onnx_ints_of(c, c->node->opset < 2 ? "paddings" : "pads", 11, 1, &pads));
    if (c->node->opset >= 18) TRY(onnx_in_ints(c, 3, &axes));
    if (axes.n >= 0) n = axes.n;
    if (pads.n != 2 * n || rank > ONNX_RANK_MAX)
        return onnx_error(BP_ERR_INVALID, "%lld pads, expected %lld", (long long)pads.n,
                          (long long)(2 * n));
    for (int64_t i = 0; i < n; i++) {
        int64_t axis;
        TRY(onnx_axis(axes.n >= 0 ? axes.at[i] : i, rank, &axis));
        before[axis] = pads.at[i];
        after[axis] = pads.at[i + n];
    }
    return BP_OK;
}

enum bp_status onnx_pad(struct onnx_call *c)
{
    int64_t before[ONNX_RANK_MAX] = {0}, after[ONNX_RANK_MAX] = {0};
    struct bp_pad_attrs attrs = bp_pad_defaults();
    struct bp_tensor *x = onnx_in(c, 0), *y = NULL;

    TRY(onnx_need(c, 1));
    TRY(read_pads(c, onnx_info(x).rank, before, after));
    attrs.before = (struct bp_dims){before, onnx_info(x).rank};
    attrs.after = (struct bp_dims){after, onnx_info(x).rank};
    attrs.mode = onnx_attr_is(c, "mode", "constant", "constant") ? 0
                 : onnx_attr_is(c, "mode", "reflect", "")        ? 1
                 : onnx_attr_is(c, "mode", "edge", "")           ? 2
                                                                 : 3;
    attrs.value = onnx_attr_float(c, "value", 0);
    if (c->node->opset >= 11) TRY(onnx_in_float(c, 2, 0, &attrs.value));
    TRY(bp_op_pad(c->scope, x, NULL, NULL, &attrs, &y));
    return onnx_give(c, 0, y);
}

/* An odd number of elements that are taken away or added has the additional one behind. */
enum bp_status onnx_center_crop_pad(struct onnx_call *c)
{
    int64_t before[ONNX_RANK_MAX] = {0}, after[ONNX_RANK_MAX] = {0};
    struct onnx_ints extents, axes = onnx_attr_ints(c, "axes");
    struct bp_pad_attrs attrs = bp_pad_defaults();
    struct bp_tensor *x = onnx_in(c, 0), *y = NULL;
    struct bp_tensor_info info;

    TRY(onnx_need(c, 2));
    TRY(onnx_in_ints(c, 1, &extents));
    info = onnx_info(x);
    if (extents.n != (axes.n >= 0 ? axes.n : (int64_t)info.rank) || info.rank > ONNX_RANK_MAX)
        return onnx_error(BP_ERR_INVALID, "%lld extents, expected %lld", (long long)extents.n,
                          (long long)(axes.n >= 0 ? axes.n : (int64_t)info.rank));
    for (int64_t i = 0; i < extents.n; i++) {
        int64_t axis;
        TRY(onnx_axis(axes.n >= 0 ? axes.at[i] : i, info.rank, &axis));
        if (extents.at[i] < 0)
            return onnx_error(BP_ERR_INVALID, "extent %lld is %lld, expected 0 or more",
                              (long long)i, (long long)extents.at[i]);
        before[axis] = (extents.at[i] - info.shape[axis]) / 2;
        after[axis] = extents.at[i] - info.shape[axis] - before[axis];
    }
    attrs.before = (struct bp_dims){before, info.rank};
    attrs.after = (struct bp_dims){after, info.rank};
    TRY(bp_op_pad(c->scope, x, NULL, NULL, &attrs, &y));
    return onnx_give(c, 0, y);
}

enum bp_status onnx_trilu(struct onnx_call *c)
{
    struct bp_triu_attrs upper = bp_triu_defaults();
    struct bp_tril_attrs lower = bp_tril_defaults();
    struct onnx_ints k;
    struct bp_tensor *x = onnx_in(c, 0), *y = NULL;

    TRY(onnx_need(c, 1));
    TRY(onnx_in_ints(c, 1, &k));
    if (k.n == 1) upper.diagonal = lower.diagonal = k.at[0];
    TRY(onnx_attr_int(c, "upper", 1) ? bp_op_triu(c->scope, x, &upper, &y)
                                     : bp_op_tril(c->scope, x, &lower, &y));
    return onnx_give(c, 0, y);
}

enum bp_status onnx_depth_to_space(struct onnx_call *c)
{
    struct bp_depth_to_space_attrs attrs = bp_depth_to_space_defaults();
    struct bp_tensor *x = onnx_in(c, 0), *y = NULL;

    TRY(onnx_need(c, 1));
    attrs.block = onnx_attr_int(c, "blocksize", 1);
    attrs.crd = onnx_attr_is(c, "mode", "CRD", "DCR");
    TRY(bp_op_depth_to_space(c->scope, x, &attrs, &y));
    return onnx_give(c, 0, y);
}

enum bp_status onnx_space_to_depth(struct onnx_call *c)
{
    struct bp_space_to_depth_attrs attrs = bp_space_to_depth_defaults();
    struct bp_tensor *x = onnx_in(c, 0), *y = NULL;

    TRY(onnx_need(c, 1));
    attrs.block = onnx_attr_int(c, "blocksize", 1);
    attrs.crd = onnx_attr_is(c, "mode", "CRD", "DCR");
    TRY(bp_op_space_to_depth(c->scope, x, &attrs, &y));
    return onnx_give(c, 0, y);
}
