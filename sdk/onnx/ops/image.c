/* SPDX-License-Identifier: Apache-2.0 */
/* image.c: runs operators that sample images at given positions (GridSample, RoiAlign,
 * MaxRoiPool), and GroupNormalization. */
#include "../chain.h"
#include "../ops.h"

enum bp_status onnx_grid_sample(struct onnx_call *c)
{
    struct bp_grid_sample_attrs attrs = bp_grid_sample_defaults();
    struct bp_tensor *y = NULL;

    if (onnx_attr_is(c, "mode", "nearest", "linear")) attrs.mode = 1;
    else if (onnx_attr_is(c, "mode", "bicubic", "linear") ||
             onnx_attr_is(c, "mode", "cubic", "linear"))
        attrs.mode = 2;
    else if (!onnx_attr_is(c, "mode", "bilinear", "linear") &&
             !onnx_attr_is(c, "mode", "linear", "linear"))
        return onnx_error(BP_ERR_UNSUPPORTED, "mode: linear, nearest or cubic is expected");
    if (onnx_attr_is(c, "padding_mode", "border", "zeros")) attrs.padding = 1;
    else if (onnx_attr_is(c, "padding_mode", "reflection", "zeros")) attrs.padding = 2;
    else if (!onnx_attr_is(c, "padding_mode", "zeros", "zeros"))
        return onnx_error(BP_ERR_UNSUPPORTED, "padding_mode: zeros, border or reflection is "
                          "expected");
    attrs.align_corners = onnx_attr_int(c, "align_corners", 0) != 0;
    TRY(bp_op_grid_sample(c->scope, onnx_in(c, 0), onnx_in(c, 1), &attrs, &y));
    return onnx_give(c, 0, y);
}

/* From opset 16 on, sampling positions are shifted by half a pixel, unless the node chooses
 * output_half_pixel. */
enum bp_status onnx_roi_align(struct onnx_call *c)
{
    struct bp_roi_align_attrs attrs = bp_roi_align_defaults();
    struct onnx_chain k = onnx_chain_begin(c);

    TRY(onnx_need(c, 2));
    attrs.height = onnx_attr_int(c, "output_height", 1);
    attrs.width = onnx_attr_int(c, "output_width", 1);
    attrs.scale = onnx_attr_float(c, "spatial_scale", 1);
    attrs.sampling = onnx_attr_int(c, "sampling_ratio", 0);
    attrs.max = onnx_attr_is(c, "mode", "max", "avg");
    attrs.whole = c->node->opset < 16 || onnx_attr_is(c, "coordinate_transformation_mode",
                                                      "output_half_pixel", "half_pixel");
    onnx_chain_give(&k, 0, MAKE(&k, roi_align, &attrs, onnx_in(c, 0),
                                onnx_chain_cast(&k, onnx_in(c, 1), BP_F32), onnx_in(c, 2)));
    return onnx_chain_end(&k);
}

/* A row of regions is the number of an image and two corners. */
enum bp_status onnx_max_roi_pool(struct onnx_call *c)
{
    struct bp_roi_pool_attrs attrs = bp_roi_pool_defaults();
    struct onnx_ints bins = onnx_attr_ints(c, "pooled_shape");
    struct onnx_chain k = onnx_chain_begin(c);
    struct bp_tensor *rois, *images;
    struct bp_tensor_info info;

    TRY(onnx_need(c, 2));
    info = onnx_info(onnx_in(c, 1));
    if (bins.n != 2 || info.rank != 2 || info.shape[1] != 5)
        return onnx_error(BP_ERR_INVALID, "regions of 5 numbers and a pooled_shape of 2 extents "
                          "are expected");
    attrs.height = bins.at[0];
    attrs.width = bins.at[1];
    attrs.scale = onnx_attr_float(c, "spatial_scale", 1);
    rois = onnx_chain_cast(&k, onnx_in(c, 1), BP_F32);
    images = onnx_chain_reshape(&k, onnx_chain_slice(&k, rois, 1, 0, 1, 1), 1, info.shape);
    images = onnx_chain_cast(&k, images, BP_I64);
    rois = onnx_chain_slice(&k, rois, 1, 1, 5, 1);
    onnx_chain_give(&k, 0, MAKE(&k, roi_pool, &attrs, onnx_in(c, 0), rois, images));
    return onnx_chain_end(&k);
}

/* Expands a tensor with a value for each group to a value for each channel. */
static struct bp_tensor *each_channel(struct onnx_chain *k, struct bp_tensor *x, int64_t groups,
                                      int64_t channels)
{
    const int64_t apart[] = {groups, 1}, wide[] = {groups, channels / groups};
    struct bp_expand_attrs expand = bp_expand_defaults();

    expand.shape = (struct bp_dims){wide, 2};
    x = MAKE(k, expand, &expand, onnx_chain_reshape(k, x, 2, apart));
    return onnx_chain_reshape(k, x, 1, &channels);
}

/* Scale and bias have a value for each group in opsets 18 to 20, and for each channel from opset 21
 * on. */
enum bp_status onnx_group_norm(struct onnx_call *c)
{
    struct bp_group_norm_attrs attrs = bp_group_norm_defaults();
    struct bp_tensor *x = onnx_in(c, 0), *scale = onnx_in(c, 1), *bias = onnx_in(c, 2);
    struct onnx_chain k = onnx_chain_begin(c);
    int64_t channels;

    TRY(onnx_need(c, 3));
    if (onnx_info(x).rank < 2) return onnx_error(BP_ERR_INVALID, "x has fewer than 2 axes");
    channels = onnx_info(x).shape[1];
    attrs.epsilon = onnx_attr_float(c, "epsilon", 1e-5f);
    attrs.groups = onnx_attr_int(c, "num_groups", 1);
    if (attrs.groups < 1 || channels % attrs.groups)
        return onnx_error(BP_ERR_INVALID, "%lld channels in %lld groups", (long long)channels,
                          (long long)attrs.groups);
    if (c->node->opset < 21) {
        scale = each_channel(&k, scale, attrs.groups, channels);
        bias = each_channel(&k, bias, attrs.groups, channels);
    }
    onnx_chain_give(&k, 0, MAKE(&k, group_norm, &attrs, x, scale, bias));
    return onnx_chain_end(&k);
}
