/* SPDX-License-Identifier: Apache-2.0 */
/* ops_image.c: writes operators on images: convolutions, pools and what else has channels. */
#include "ops.h"

#include <backplane/attrs.h>
#include <math.h>
#include <string.h>

/* Lists of a window's numbers, as attributes of a layer. */
struct window {
    uint32_t axes; /* spatial */
    char stride[IR_LIST], dilation[IR_LIST], begin[IR_LIST], end[IR_LIST];
};

static void window_lists(struct window *w, uint32_t axes, const int64_t *stride,
                         const int64_t *dilation, const int64_t *pad)
{
    w->axes = axes;
    ir_list(w->stride, stride, axes);
    ir_list(w->dilation, dilation, axes);
    ir_list(w->begin, pad, axes);
    ir_list(w->end, pad + 3, axes);
}

/* Filters as the library wants them: with the groups as first axis, if there are several. */
static struct ir_ref write_filters(const struct ov_node *n, int64_t groups)
{
    const struct bp_data_value *w = ov_in(n, 1);
    int64_t shape[OPENVINO_RANK + 1];

    if (groups == 1) return ov_ref(n, 1);
    shape[0] = groups;
    shape[1] = w->shape[0] / groups;
    memcpy(shape + 2, w->shape + 1, (w->rank - 1) * sizeof *shape);
    return ir_reshape(n->ir, ov_ref(n, 1), w->dtype, shape, w->rank + 1);
}

/* Adds a value for each channel. */
static struct ir_ref write_bias(const struct ov_node *n, struct ir_ref y)
{
    const struct bp_data_value *out = ov_out(n);
    int64_t shape[OPENVINO_RANK];
    struct ir_ref in[] = {y, {0, 0}};

    if (!ov_in(n, 2)) return y;
    for (uint32_t i = 0; i < out->rank; i++) shape[i] = i == 1 ? out->shape[1] : 1;
    in[1] = ir_reshape(n->ir, ov_ref(n, 2), out->dtype, shape, out->rank);
    return ir_add(n->ir, "Add", 1, out->dtype, in, 2, NULL);
}

struct ir_ref ov_write_conv(const struct ov_node *n, const struct ov_op *op)
{
    const struct bp_conv_attrs *a = n->attrs;
    struct ir_ref in[] = {ov_ref(n, 0), write_filters(n, a->groups)}, y;
    struct window w;

    window_lists(&w, ov_out(n)->rank - 2, a->stride, a->dilation, a->pad);
    y = ir_add(n->ir, a->groups == 1 ? op->type : "GroupConvolution", op->opset, ov_out(n)->dtype,
               in, 2,
               "strides=\"%s\" dilations=\"%s\" pads_begin=\"%s\" pads_end=\"%s\" "
               "auto_pad=\"explicit\"",
               w.stride, w.dilation, w.begin, w.end);
    return write_bias(n, y);
}

struct ir_ref ov_write_conv_transpose(const struct ov_node *n, const struct ov_op *op)
{
    const struct bp_conv_transpose_attrs *a = n->attrs;
    struct ir_ref in[] = {ov_ref(n, 0), write_filters(n, a->groups)}, y;
    char more[IR_LIST];
    struct window w;

    window_lists(&w, ov_out(n)->rank - 2, a->stride, a->dilation, a->pad);
    y = ir_add(n->ir, a->groups == 1 ? op->type : "GroupConvolutionBackpropData", op->opset,
               ov_out(n)->dtype, in, 2,
               "strides=\"%s\" dilations=\"%s\" pads_begin=\"%s\" pads_end=\"%s\" "
               "output_padding=\"%s\" auto_pad=\"explicit\"",
               w.stride, w.dilation, w.begin, w.end, ir_list(more, a->output_padding, w.axes));
    return write_bias(n, y);
}

/* The attributes of max_pool are the first ones of avg_pool. */
static bool is_average(const struct ov_node *n)
{
    return !strcmp(n->node->op, "avg_pool");
}

/* The padding behind an axis with which the last window is a whole one. */
static int64_t whole_end(const struct ov_node *n, uint32_t axis)
{
    const struct bp_max_pool_attrs *a = n->attrs;
    int64_t need = (ov_out(n)->shape[axis + 2] - 1) * a->stride[axis] + a->window[axis] -
                   ov_in(n, 0)->shape[axis + 2] - a->pad[axis];

    return need > a->pad[axis + 3] ? need : a->pad[axis + 3];
}

const char *ov_refuses_pool(const struct ov_node *n)
{
    const struct bp_max_pool_attrs *a = n->attrs;
    const struct bp_avg_pool_attrs *average = is_average(n) ? n->attrs : NULL;

    if (a->adaptive) return "windows of different extents";
    if (average && average->divisor != 0) return "a divisor of its own";
    for (uint32_t i = 0; i + 2 < ov_out(n)->rank; i++) {
        if (a->dilation[i] != 1) return "a window with gaps";
        if (average && average->include_pad && whole_end(n, i) != a->pad[i + 3])
            return "a mean that counts a part of the padding";
    }
    return NULL;
}

struct ir_ref ov_pool(const struct ov_node *n, const struct ov_op *op, struct ir_ref x)
{
    const struct bp_max_pool_attrs *a = n->attrs;
    char window[IR_LIST], exclude[32] = "";
    int64_t pad[6];
    struct window w;

    memcpy(pad, a->pad, sizeof pad);
    for (uint32_t i = 0; i + 2 < ov_out(n)->rank; i++) pad[i + 3] = whole_end(n, i);
    window_lists(&w, ov_out(n)->rank - 2, a->stride, a->dilation, pad);
    if (is_average(n))
        snprintf(exclude, sizeof exclude, " exclude-pad=\"%s\"",
                 ((const struct bp_avg_pool_attrs *)n->attrs)->include_pad ? "false" : "true");
    return ir_add(n->ir, op->type, op->opset, ov_out(n)->dtype, &x, 1,
                  "kernel=\"%s\" strides=\"%s\" pads_begin=\"%s\" pads_end=\"%s\" "
                  "rounding_type=\"floor\" auto_pad=\"explicit\"%s",
                  ir_list(window, a->window, w.axes), w.stride, w.begin, w.end, exclude);
}

struct ir_ref ov_write_pool(const struct ov_node *n, const struct ov_op *op)
{
    return ov_pool(n, op, ov_ref(n, 0));
}

struct ir_ref ov_write_global_pool(const struct ov_node *n, const struct ov_op *op)
{
    const struct bp_global_avg_pool_attrs *a = n->attrs;
    int64_t axes[OPENVINO_RANK];
    uint32_t rank = ov_in(n, 0)->rank;
    struct ir_ref in[] = {ov_ref(n, 0), {0, 0}};

    for (uint32_t i = 2; i < rank; i++) axes[i - 2] = i;
    in[1] = ir_integers(n->ir, axes, rank - 2);
    return ir_add(n->ir, op->type, op->opset, ov_out(n)->dtype, in, 2, "keep_dims=\"%s\"",
                  a->flat ? "false" : "true");
}

/* Statistics of half types are f32, as all inputs of the layer must be. */
struct ir_ref ov_write_batch_norm(const struct ov_node *n, const struct ov_op *op)
{
    const struct bp_batch_norm_attrs *a = n->attrs;
    int64_t channels = ov_out(n)->shape[1];
    char epsilon[IR_NUMBER];
    struct ir_ref in[5] = {ov_wide(n, 0)};

    for (uint32_t i = 1; i < 5; i++)
        in[i] = ov_in(n, i) ? ov_ref(n, i) : ir_floats(n->ir, channels, i == 1 ? 1 : 0);
    return ov_narrow(n, ir_add(n->ir, op->type, op->opset, BP_F32, in, 5, "epsilon=\"%s\"",
                               ir_number(epsilon, a->epsilon)));
}

const char *ov_refuses_lrn(const struct ov_node *n)
{
    const struct bp_lrn_attrs *a = n->attrs;

    if (ov_in(n, 0)->rank > 5) return "more than 3 spatial axes"; /* of processors */
    if (a->window % 2 == 0) return "a window that has no middle";
    return a->bias > 0 ? NULL : "a bias that is not above zero";
}

/* OpenVINO 2026.4 computes with a bias of 1 on processors, whatever the model says. So the bias is
 * taken out: (bias + s)^-beta = bias^-beta (1 + s / bias)^-beta. */
struct ir_ref ov_write_lrn(const struct ov_node *n, const struct ov_op *op)
{
    const struct bp_lrn_attrs *a = n->attrs;
    const int64_t axis = 1;
    char alpha[IR_NUMBER], beta[IR_NUMBER];
    struct ir_ref in[] = {ov_wide(n, 0), ir_integers(n->ir, &axis, 1)};

    in[0] = ir_add(n->ir, op->type, op->opset, BP_F32, in, 2,
                   "alpha=\"%s\" beta=\"%s\" bias=\"1\" size=\"%d\"",
                   ir_number(alpha, a->alpha / a->bias), ir_number(beta, a->beta), (int)a->window);
    if (a->bias != 1) {
        in[1] = ir_float(n->ir, BP_F32, pow(a->bias, -a->beta));
        in[0] = ir_add(n->ir, "Multiply", 1, BP_F32, in, 2, NULL);
    }
    return ov_narrow(n, in[0]);
}

/* Axis i of those that resize names. */
static int64_t resized_axis(const struct bp_resize_attrs *a, uint32_t rank, int64_t i)
{
    return a->axes.n ? ov_axis(a->axes.at[i], rank) : rank - a->sizes.n + i;
}

const char *ov_refuses_resize(const struct ov_node *n)
{
    const struct bp_resize_attrs *a = n->attrs;
    uint32_t rank = ov_in(n, 0)->rank;

    if (!a->sizes.n || a->sizes.n > 3 || rank > 5) return "a resize of other axes than of images";
    for (int64_t i = 0; i < a->sizes.n; i++)
        if (resized_axis(a, rank, i) < 2) return "a resize of other axes than of images";
    if (a->antialias || a->exclude_outside) return "weights that add up anew";
    if (a->coordinates == BP_RESIZE_COORDINATES_HALF_PIXEL_SYMMETRIC ||
        a->coordinates == BP_RESIZE_COORDINATES_TF_CROP_AND_RESIZE)
        return "coordinates that the library does not have";
    if (a->mode == BP_RESIZE_MODE_CUBIC && rank != 4)
        return "cubic weights of other images than 2-D";
    return NULL;
}

/* The factors, which the library multiplies coordinates by; those of ratios are exact in f32 or
 * rounded as the library itself rounds them. */
static struct ir_ref write_factors(const struct ov_node *n, const int64_t *axes)
{
    const struct bp_resize_attrs *a = n->attrs;
    const double given[] = {a->scale0, a->scale1, a->scale2};
    struct ir_ref in[3];
    const int64_t one = 1;

    for (int64_t i = 0; i < a->sizes.n; i++) {
        double ratio = (double)ov_out(n)->shape[axes[i]] / (double)ov_in(n, 0)->shape[axes[i]];
        in[i] = ir_reshape(n->ir, ir_float(n->ir, BP_F32, given[i] > 0 ? given[i] : ratio), BP_F32,
                           &one, 1);
    }
    return ir_add(n->ir, "Concat", 1, BP_F32, in, (uint32_t)a->sizes.n, "axis=\"0\"");
}

struct ir_ref ov_write_resize(const struct ov_node *n, const struct ov_op *op)
{
    static const char *const modes[] = {"nearest", "linear_onnx", "cubic"};
    static const char *const places[] = {"half_pixel", NULL, "pytorch_half_pixel", "align_corners",
                                         "asymmetric"};
    static const char *const rounds[] = {"round_prefer_floor", "round_prefer_ceil", "floor",
                                         "ceil"};
    const struct bp_resize_attrs *a = n->attrs;
    bool by_factor = a->scale0 > 0 || a->scale1 > 0 || a->scale2 > 0;
    int64_t axes[3], sizes[3];
    char cube[IR_NUMBER];
    struct ir_ref in[3] = {ov_wide(n, 0)};

    for (int64_t i = 0; i < a->sizes.n; i++) {
        axes[i] = resized_axis(a, ov_in(n, 0)->rank, i);
        sizes[i] = ov_out(n)->shape[axes[i]];
    }
    in[1] = by_factor ? write_factors(n, axes) : ir_integers(n->ir, sizes, a->sizes.n);
    in[2] = ir_integers(n->ir, axes, a->sizes.n);
    return ov_narrow(n,
                     ir_add(n->ir, op->type, op->opset, BP_F32, in, 3,
                            "mode=\"%s\" shape_calculation_mode=\"%s\" "
                            "coordinate_transformation_mode=\"%s\" nearest_mode=\"%s\" "
                            "antialias=\"false\" cube_coeff=\"%s\"",
                            modes[a->mode], by_factor ? "scales" : "sizes", places[a->coordinates],
                            rounds[a->nearest], ir_number(cube, a->cubic_a)));
}
