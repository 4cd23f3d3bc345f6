/* SPDX-License-Identifier: Apache-2.0 */
/* window.c: runs convolutions and pools, whose windows move over the spatial axes. */
#include "../chain.h"
#include "../ops.h"
#include <string.h>

enum { AXES_MAX = 3 };

/* The extents, steps and borders of a window, in the layout of the attributes of conv and the
 * pools. */
struct window {
    int64_t extent[AXES_MAX], stride[AXES_MAX], dilation[AXES_MAX], pad[2 * AXES_MAX];
    int64_t axes, ceil_mode;
};

static enum bp_status read_list(struct onnx_call *c, const char *name, int64_t n, int64_t *out)
{
    struct onnx_ints given = onnx_attr_ints(c, name);

    if (given.n <= 0) return BP_OK;
    if (given.n != n)
        return onnx_error(BP_ERR_INVALID, "%s has %lld entries, expected %lld", name,
                          (long long)given.n, (long long)n);
    memcpy(out, given.at, (size_t)n * sizeof *out);
    return BP_OK;
}

/* Computes borders for a result of ceil(x / stride) elements. If their sum is odd, the larger
 * border is behind the axis (behind), or in front. */
static enum bp_status same_pads(struct window *w, const int64_t *x, bool behind)
{
    for (int64_t i = 0; i < w->axes; i++) {
        int64_t n = x[i] / w->stride[i] + (x[i] % w->stride[i] != 0), all;
        if (__builtin_sub_overflow(w->extent[i], 1, &all) ||
            __builtin_mul_overflow(all, w->dilation[i], &all) ||
            __builtin_add_overflow(all, (n - 1) * w->stride[i] + 1 - x[i], &all))
            return onnx_error(BP_ERR_INVALID, "the window of spatial axis %lld is past 63 bits",
                              (long long)i);
        if (all < 0) all = 0;
        w->pad[behind ? i : AXES_MAX + i] = all / 2;
        w->pad[behind ? AXES_MAX + i : i] = all - all / 2;
    }
    return BP_OK;
}

/* x: the spatial extents. filter: the extents of the window, or NULL: the node has them as
 * kernel_shape. */
static enum bp_status read_window(struct onnx_call *c, int64_t axes, const int64_t *x,
                                  const int64_t *filter, struct window *w)
{
    int64_t pads[2 * AXES_MAX] = {0};

    if (axes < 1 || axes > AXES_MAX)
        return onnx_error(BP_ERR_UNSUPPORTED, "%lld spatial axes, 1 to 3 are supported",
                          (long long)axes);
    *w = (struct window){.axes = axes, .ceil_mode = onnx_attr_int(c, "ceil_mode", 0)};
    for (int i = 0; i < AXES_MAX; i++) w->extent[i] = w->stride[i] = w->dilation[i] = 1;
    if (filter) memcpy(w->extent, filter, (size_t)axes * sizeof *filter);
    else TRY(read_list(c, "kernel_shape", axes, w->extent));
    TRY(read_list(c, "strides", axes, w->stride));
    TRY(read_list(c, "dilations", axes, w->dilation));
    TRY(read_list(c, "pads", 2 * axes, pads));
    for (int64_t i = 0; i < axes; i++) {
        if (w->stride[i] < 1)
            return onnx_error(BP_ERR_INVALID, "stride %lld is %lld", (long long)i,
                              (long long)w->stride[i]);
        w->pad[i] = pads[i];
        w->pad[AXES_MAX + i] = pads[axes + i];
    }
    if (onnx_attr_is(c, "auto_pad", "SAME_UPPER", "NOTSET")) return same_pads(w, x, true);
    if (onnx_attr_is(c, "auto_pad", "SAME_LOWER", "NOTSET")) return same_pads(w, x, false);
    return BP_OK;
}

/* Copies a window into the attributes of an operator that has members of these names. */
#define PUT_CONV(attrs, w) \
    do { \
        memcpy((attrs)->stride, (w)->stride, sizeof (w)->stride); \
        memcpy((attrs)->dilation, (w)->dilation, sizeof (w)->dilation); \
        memcpy((attrs)->pad, (w)->pad, sizeof (w)->pad); \
    } while (0)
#define PUT_POOL(attrs, w) \
    do { \
        PUT_CONV(attrs, w); \
        memcpy((attrs)->window, (w)->extent, sizeof (w)->extent); \
        (attrs)->ceil_mode = (w)->ceil_mode; \
    } while (0)

/* Reads the window of a pool over input 0. */
static enum bp_status pool_window(struct onnx_call *c, struct bp_tensor **out_x, struct window *w)
{
    struct bp_tensor_info info;

    TRY(onnx_need(c, 1));
    *out_x = onnx_in(c, 0);
    info = onnx_info(*out_x);
    if (info.rank < 3) return onnx_error(BP_ERR_INVALID, "x has %u axes, 3 at least", info.rank);
    return read_window(c, (int64_t)info.rank - 2, info.shape + 2, NULL, w);
}

enum bp_status onnx_average_pool(struct onnx_call *c)
{
    struct bp_avg_pool_attrs attrs = bp_avg_pool_defaults();
    struct bp_tensor *x, *y = NULL;
    struct window w;

    TRY(pool_window(c, &x, &w));
    PUT_POOL(&attrs, &w);
    attrs.include_pad = onnx_attr_int(c, "count_include_pad", 0);
    TRY(bp_op_avg_pool(c->scope, x, &attrs, &y));
    return onnx_give(c, 0, y);
}

enum bp_status onnx_lp_pool(struct onnx_call *c)
{
    struct bp_lp_pool_attrs attrs = bp_lp_pool_defaults();
    struct bp_tensor *x, *y = NULL;
    struct window w;

    TRY(pool_window(c, &x, &w));
    PUT_POOL(&attrs, &w);
    attrs.p = onnx_attr_float(c, "p", 2);
    TRY(bp_op_lp_pool(c->scope, x, &attrs, &y));
    return onnx_give(c, 0, y);
}

static enum bp_status pool_with_index(struct onnx_call *c, struct bp_tensor *x,
                                      const struct window *w)
{
    static const char op[] = "max_pool_with_index";
    struct bp_max_pool_with_index_attrs attrs =
        *(const struct bp_max_pool_with_index_attrs *)bp_opinfo_find(op)->defaults;
    const struct bp_arg in = {&x, 1};
    const struct bp_call call = {.size = sizeof call, .op = op, .in = &in, .n_in = 1,
                                 .attrs = &attrs};
    struct bp_tensor *out[2] = {NULL};

    PUT_POOL(&attrs, w);
    attrs.whole = 1;
    attrs.column_major = onnx_attr_int(c, "storage_order", 0);
    TRY(bp_call_run(c->scope, &call, out, 2, NULL));
    TRY(onnx_give(c, 0, out[0]));
    return onnx_give(c, 1, out[1]);
}

enum bp_status onnx_max_pool(struct onnx_call *c)
{
    struct bp_max_pool_attrs attrs = bp_max_pool_defaults();
    struct bp_tensor *x, *y = NULL;
    struct window w;

    TRY(pool_window(c, &x, &w));
    if (onnx_wants(c, 1)) return pool_with_index(c, x, &w);
    PUT_POOL(&attrs, &w);
    TRY(bp_op_max_pool(c->scope, x, &attrs, &y));
    return onnx_give(c, 0, y);
}

/* Appends zeros to y up to a shape. Takes over the caller's reference to y. */
static enum bp_status give_padded(struct onnx_call *c, struct bp_tensor *y, struct onnx_ints shape)
{
    struct bp_pad_attrs attrs = bp_pad_defaults();
    struct bp_tensor_info info = onnx_info(y);
    int64_t after[ONNX_RANK_MAX] = {0};
    struct bp_tensor *padded = NULL;
    enum bp_status status;

    for (uint32_t i = 0; i < info.rank; i++) after[i] = shape.at[i] - info.shape[i];
    attrs.after = (struct bp_dims){after, info.rank};
    status = bp_op_pad(c->scope, y, NULL, NULL, &attrs, &padded);
    bp_tensor_destroy(y);
    return status ? status : onnx_give(c, 0, padded);
}

/* An index is linear in the whole input tensor of the pool with this window; output_shape does not
 * change its meaning. */
enum bp_status onnx_max_unpool(struct onnx_call *c)
{
    struct bp_max_unpool_attrs attrs = bp_max_unpool_defaults();
    struct bp_tensor *x, *index = onnx_in(c, 1), *y = NULL;
    struct onnx_ints given;
    struct bp_tensor_info info;
    struct window w;

    TRY(pool_window(c, &x, &w));
    if (!index) return onnx_error(BP_ERR_INVALID, "indices are expected");
    TRY(onnx_in_ints(c, 2, &given));
    info = onnx_info(x);
    if (given.n >= 0 && given.n != (int64_t)info.rank)
        return onnx_error(BP_ERR_INVALID, "output_shape has %lld extents, expected %u",
                          (long long)given.n, info.rank);
    attrs.whole = 1;
    for (int64_t i = 0; i < w.axes; i++)
        attrs.extents[i] = (info.shape[i + 2] - 1) * w.stride[i] + w.extent[i] - w.pad[i] -
                           w.pad[AXES_MAX + i];
    TRY(bp_op_max_unpool(c->scope, x, index, &attrs, &y));
    return given.n >= 0 ? give_padded(c, y, given) : onnx_give(c, 0, y);
}

/* Reads the window of a convolution: input 0 is x, input number `filters` has the filters. */
static enum bp_status conv_window(struct onnx_call *c, uint32_t filters, struct window *w)
{
    struct bp_tensor *x = onnx_in(c, 0), *f = onnx_in(c, filters);
    struct bp_tensor_info a, b;

    if (!x || !f) return onnx_error(BP_ERR_INVALID, "x and filters are expected");
    a = onnx_info(x);
    b = onnx_info(f);
    if (a.rank < 3 || a.rank != b.rank)
        return onnx_error(BP_ERR_INVALID, "x has %u axes, the filters %u", a.rank, b.rank);
    return read_window(c, (int64_t)a.rank - 2, a.shape + 2, b.shape + 2, w);
}

/* Tests whether a value is an input of the model itself. */
static bool is_model_input(const struct onnx_call *c, uint32_t slot)
{
    const struct onnx_body *body = &c->run->model->body;

    for (uint32_t i = 0; i < body->n_input; i++)
        if (body->input[i] == slot) return true;
    return false;
}

/* Lays an input image of the model out channels-last, which convolutions prefer. The values
 * computed from the image keep this layout. */
static struct bp_tensor *channels_last(struct onnx_chain *k, struct bp_tensor *x)
{
    static const int64_t last[] = {0, 2, 3, 1}, back[] = {0, 3, 1, 2};
    struct bp_transpose_attrs turn = bp_transpose_defaults();

    turn.perm = (struct bp_dims){last, 4};
    x = MAKE(k, assign, NULL, MAKE(k, transpose, &turn, x));
    turn.perm.at = back;
    return MAKE(k, transpose, &turn, x);
}

enum bp_status onnx_conv(struct onnx_call *c)
{
    struct bp_conv_attrs attrs = bp_conv_defaults();
    struct onnx_chain k = onnx_chain_begin(c);
    struct bp_tensor *x = onnx_in(c, 0);
    struct window w;

    TRY(conv_window(c, 1, &w));
    PUT_CONV(&attrs, &w);
    attrs.groups = onnx_attr_int(c, "group", 1);
    if (c->symbolic && w.axes == 2 && is_model_input(c, c->node->in[0])) x = channels_last(&k, x);
    onnx_chain_give(&k, 0, MAKE(&k, conv, &attrs, x, onnx_in(c, 1), onnx_in(c, 2)));
    return onnx_chain_end(&k);
}

/* The operator here has two spatial axes. */
enum bp_status onnx_deform_conv(struct onnx_call *c)
{
    struct bp_deform_conv_attrs attrs = bp_deform_conv_defaults();
    struct bp_tensor *y = NULL;
    struct window w;

    TRY(onnx_need(c, 3));
    TRY(conv_window(c, 1, &w));
    if (w.axes != 2)
        return onnx_error(BP_ERR_UNSUPPORTED, "%lld spatial axes, 2 are supported",
                          (long long)w.axes);
    for (int i = 0; i < 2; i++) {
        attrs.stride[i] = w.stride[i];
        attrs.dilation[i] = w.dilation[i];
        attrs.pad[i] = w.pad[i];
        attrs.pad[2 + i] = w.pad[AXES_MAX + i];
    }
    attrs.groups = onnx_attr_int(c, "group", 1);
    attrs.offset_groups = onnx_attr_int(c, "offset_group", 1);
    TRY(bp_op_deform_conv(c->scope, onnx_in(c, 0), onnx_in(c, 1), onnx_in(c, 2), onnx_in(c, 3),
                          onnx_in(c, 4), &attrs, &y));
    return onnx_give(c, 0, y);
}

enum bp_status onnx_conv_integer(struct onnx_call *c)
{
    struct bp_conv_integer_attrs attrs = bp_conv_integer_defaults();
    struct bp_tensor *y = NULL;
    struct window w;

    TRY(conv_window(c, 1, &w));
    PUT_CONV(&attrs, &w);
    attrs.groups = onnx_attr_int(c, "group", 1);
    TRY(bp_op_conv_integer(c->scope, onnx_in(c, 0), onnx_in(c, 1), onnx_in(c, 2), onnx_in(c, 3),
                           &attrs, &y));
    return onnx_give(c, 0, y);
}

enum bp_status onnx_qlinear_conv(struct onnx_call *c)
{
    struct bp_qlinear_conv_attrs attrs = bp_qlinear_conv_defaults();
    struct bp_tensor *y = NULL;
    struct window w;

    TRY(conv_window(c, 3, &w));
    PUT_CONV(&attrs, &w);
    attrs.groups = onnx_attr_int(c, "group", 1);
    TRY(bp_op_qlinear_conv(c->scope, onnx_in(c, 0), onnx_in(c, 1), onnx_in(c, 2), onnx_in(c, 3),
                           onnx_in(c, 4), onnx_in(c, 5), onnx_in(c, 6), onnx_in(c, 7),
                           onnx_in(c, 8), &attrs, &y));
    return onnx_give(c, 0, y);
}

/* Computes borders from the wanted extents of the result. If the result has to be longer than the
 * transposed convolution makes it, `more` is appended behind it. */
static void transposed_pads(struct window *w, const int64_t *x, const int64_t *y, int64_t *more,
                            bool behind)
{
    for (int64_t i = 0; i < w->axes; i++) {
        int64_t all = w->stride[i] * (x[i] - 1) + more[i] +
                      (w->extent[i] - 1) * w->dilation[i] + 1 - y[i];
        if (all < 0) {
            more[i] -= all;
            all = 0;
        }
        w->pad[behind ? i : AXES_MAX + i] = all / 2;
        w->pad[behind ? AXES_MAX + i : i] = all - all / 2;
    }
}

enum bp_status onnx_conv_transpose(struct onnx_call *c)
{
    struct bp_conv_transpose_attrs attrs = bp_conv_transpose_defaults();
    struct onnx_ints shape = onnx_attr_ints(c, "output_shape");
    bool upper = onnx_attr_is(c, "auto_pad", "SAME_UPPER", "NOTSET");
    bool lower = onnx_attr_is(c, "auto_pad", "SAME_LOWER", "NOTSET");
    int64_t y_extent[AXES_MAX];
    const int64_t *x_extent;
    struct bp_tensor *y = NULL;
    struct window w;

    TRY(conv_window(c, 1, &w));
    TRY(read_list(c, "output_padding", w.axes, attrs.output_padding));
    x_extent = onnx_info(onnx_in(c, 0)).shape + 2;
    if (shape.n > 0 && shape.n < w.axes)
        return onnx_error(BP_ERR_INVALID, "output_shape has %lld extents", (long long)shape.n);
    for (int64_t i = 0; i < w.axes; i++) /* some exporters include N and C */
        y_extent[i] = shape.n > 0 ? shape.at[shape.n - w.axes + i] : x_extent[i] * w.stride[i];
    if (shape.n > 0 || upper || lower)
        transposed_pads(&w, x_extent, y_extent, attrs.output_padding, !lower);
    PUT_CONV(&attrs, &w);
    attrs.groups = onnx_attr_int(c, "group", 1);
    TRY(bp_op_conv_transpose(c->scope, onnx_in(c, 0), onnx_in(c, 1), onnx_in(c, 2), &attrs, &y));
    return onnx_give(c, 0, y);
}
