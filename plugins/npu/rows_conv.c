/* SPDX-License-Identifier: Apache-2.0 */
/* rows_conv.c: builds the rows of convolutions and their gradients. The vendor's functions take one
 * padding for both ends of an axis: an image with two different ones is padded first, a result is
 * cut. */
#include "compose.h"

#include <string.h>

/* The begin of the attributes of all convolutions, and their parameters for each spatial axis. */
#define CONV_BEGINS(op, member) \
    _Static_assert( \
        offsetof(struct bp_##op##_attrs, member) == offsetof(struct bp_conv_attrs, member), #op)
CONV_BEGINS(conv_grad_input, groups);
CONV_BEGINS(conv_grad_weight, groups);
CONV_BEGINS(fused_conv, groups);
#undef CONV_BEGINS

struct conv_steps {
    uint32_t axes;                     /* spatial ones */
    int64_t pad[3], behind[3], cut[3]; /* cut: pad where both ends have the same, else 0 */
    bool uneven;
    struct kit_arg stride, dilation, padding, none;
};

static struct conv_steps conv_steps(struct kit_build *b, const struct bp_conv_attrs *a,
                                    uint32_t axes)
{
    struct conv_steps s = {.axes = axes};
    const int64_t zero[3] = {0, 0, 0};

    for (uint32_t i = 0; i < axes; i++) {
        s.pad[i] = a->pad[i];
        s.behind[i] = a->pad[i + 3];
        s.cut[i] = s.pad[i] == s.behind[i] ? s.pad[i] : 0;
        s.uneven |= s.pad[i] != s.behind[i];
    }
    s.stride = kit_array(b, a->stride, axes);
    s.dilation = kit_array(b, a->dilation, axes);
    s.padding = kit_array(b, s.cut, axes);
    s.none = kit_array(b, zero, axes);
    return s;
}

/* The shape of x with the padding that the vendor's functions do not add. */
static void conv_padded_shape(const struct conv_steps *s, const struct bp_view *x, int64_t *out)
{
    memcpy(out, x->shape, x->rank * sizeof *out);
    for (uint32_t i = 0; i < s->axes; i++) out[i + 2] += s->pad[i] + s->behind[i] - 2 * s->cut[i];
}

static struct kit_arg conv_padded(struct kit_build *b, const struct conv_steps *s, struct kit_arg x)
{
    const struct bp_view *type = npu_type(b, x);
    int64_t shape[KIT_AXES_MAX], pad[6];
    struct kit_arg out;

    if (b->status || !s->uneven) return x;
    conv_padded_shape(s, type, shape);
    for (uint32_t i = 0; i < s->axes; i++) { /* the last axis first */
        uint32_t at = s->axes - 1 - i;
        pad[2 * i] = s->pad[at] - s->cut[at];
        pad[2 * i + 1] = s->behind[at] - s->cut[at];
    }
    out = kit_temporary(b, type->dtype, type->rank, shape);
    KIT_STEP(b, "ConstantPadNd", x, kit_array(b, pad, 2 * s->axes), KIT_SCALAR_IS(0), out);
    return out;
}

/* The part of a padded image that is the image. */
static struct kit_arg conv_inside(struct kit_build *b, const struct conv_steps *s, struct kit_arg x,
                                  const struct bp_view *type)
{
    for (uint32_t i = 0; i < s->axes; i++)
        x = npu_part(b, x, i + 2, s->pad[i] - s->cut[i], type->shape[i + 2], 1);
    return x;
}

static void conv_forward(struct kit_build *b, const struct bp_conv_attrs *a, struct kit_arg bias,
                         struct kit_arg out)
{
    struct conv_steps s = conv_steps(b, a, npu_type(b, NPU_IN(0))->rank - 2u);
    struct kit_arg x = npu_image(conv_padded(b, &s, NPU_IN(0))), w = npu_image(NPU_IN(1));

    KIT_STEP(b, "Convolution", x, w, bias, s.stride, s.padding, s.dilation, KIT_INT_IS(0), s.none,
             KIT_INT_IS(a->groups), npu_image(out), NPU_CUBE);
}

enum bp_status npu_build_conv(struct kit_build *b)
{
    if (!npu_is_empty(b, NPU_OUT(0))) conv_forward(b, b->attrs, NPU_IN(2), NPU_OUT(0));
    return b->status;
}

/* The elements of each window of a padded image: N and C as one axis, those of the window, the
 * windows. */
static struct kit_arg conv_columns(struct kit_build *b, const struct bp_conv_attrs *a,
                                   struct kit_arg x, const struct bp_view *w,
                                   const struct bp_view *y)
{
    const struct bp_view *type = npu_type(b, x);
    int64_t shape[KIT_AXES_MAX], stride[KIT_AXES_MAX];
    uint32_t axes = type->rank - 2;
    struct kit_arg to;

    if (b->status) return x;
    shape[0] = type->shape[0] * type->shape[1];
    stride[0] = type->stride[1];
    for (uint32_t i = 0; i < axes; i++) {
        shape[1 + i] = w->shape[2 + i];
        stride[1 + i] = a->dilation[i] * type->stride[2 + i];
        shape[1 + axes + i] = y->shape[2 + i];
        stride[1 + axes + i] = a->stride[i] * type->stride[2 + i];
    }
    to = kit_temporary(b, type->dtype, 1 + 2 * axes, shape);
    KIT_STEP(b, "InplaceCopy", to, kit_alias(b, x, type->dtype, 1 + 2 * axes, shape, stride, 0));
    return to;
}

/* For dtypes that the vendor's function does not have: the terms, and their sums. */
enum bp_status npu_build_conv_terms(struct kit_build *b)
{
    const struct bp_conv_attrs *a = b->attrs;
    const struct bp_view *x = b->in[0], *w = b->in[1], *y = b->out[0];
    uint32_t axes = x->rank - 2u;
    int64_t pad[6], shape[KIT_AXES_MAX], columns[5], weights[5], bias[5];
    struct kit_arg padded = NPU_IN(0), sum;

    if (!y->count) return b->status;
    columns[0] = y->shape[0], columns[1] = a->groups, columns[2] = 1;
    columns[3] = w->count / w->shape[0];
    columns[4] = y->count / y->shape[0] / y->shape[1];
    weights[0] = weights[4] = 1, weights[1] = a->groups, weights[2] = y->shape[1] / a->groups;
    weights[3] = columns[3];
    memcpy(bias, weights, sizeof bias);
    bias[3] = 1;
    memcpy(shape, x->shape, x->rank * sizeof *shape);
    for (uint32_t i = 0; i < axes; i++) {
        pad[2 * (axes - 1 - i)] = a->pad[i], pad[2 * (axes - 1 - i) + 1] = a->pad[i + 3];
        shape[i + 2] += a->pad[i] + a->pad[i + 3];
    }
    if (columns[3]) {
        padded = kit_temporary(b, x->dtype, x->rank, shape);
        KIT_STEP(b, "ConstantPadNd", NPU_IN(0), kit_array(b, pad, 2 * axes), KIT_SCALAR_IS(0),
                 padded);
        sum = kit_reshaped(b, conv_columns(b, a, padded, w, y), 5, columns);
        sum = npu_sum(b, npu_mul(b, sum, kit_reshaped(b, NPU_IN(1), 5, weights)), 8);
    } else {
        columns[2] = weights[2], columns[3] = 1;
        sum = npu_filled(b, x->dtype, 5, columns, 0);
    }
    if (npu_is_given(b, NPU_IN(2))) sum = part_add(b, sum, kit_reshaped(b, NPU_IN(2), 5, bias));
    npu_finish(b, sum, NPU_OUT(0));
    return b->status;
}

enum bp_status npu_build_fused_conv(struct kit_build *b)
{
    const struct bp_fused_conv_attrs *a = b->attrs;
    bool adds = npu_is_given(b, NPU_IN(3));
    struct kit_arg out = NPU_OUT(0), t = out;
    uint32_t dtype = npu_type(b, out)->dtype;

    if (npu_is_empty(b, out)) return b->status;
    if (adds || a->activation) t = npu_like(b, out, dtype);
    conv_forward(b, b->attrs, NPU_IN(2), t);
    if (adds) {
        struct kit_arg sum = a->activation ? npu_like(b, out, dtype) : out;
        KIT_STEP(b, "Add", t, NPU_IN(3), KIT_SCALAR_IS(1), sum);
        t = sum;
    }
    if (a->activation) npu_activate(b, a->activation, a->alpha, a->beta, t, out);
    return b->status;
}

/* One of the gradients of a convolution. x and w of which only the shape counts are the results'
 * own memory. */
static void conv_backward(struct kit_build *b, const struct conv_steps *s, int64_t groups,
                          struct kit_arg dy, struct kit_arg x, struct kit_arg w, bool of_weight,
                          struct kit_arg out)
{
    const int64_t mask[3] = {!of_weight, of_weight, 0}, channels = npu_type(b, w)->shape[0];
    struct kit_arg wanted = kit_array(b, mask, 3), sizes = kit_array(b, &channels, 1);

    wanted.as = KIT_AS_BOOLS;
    out = npu_image(out);
    KIT_STEP(b, "ConvolutionBackward", npu_image(dy), npu_image(x), npu_image(w), sizes, s->stride,
             s->padding, s->dilation, KIT_INT_IS(0), s->none, KIT_INT_IS(groups), wanted, NPU_CUBE,
             of_weight ? NPU_NONE : out, of_weight ? out : NPU_NONE, NPU_NONE);
}

enum bp_status npu_build_conv_grad_input(struct kit_build *b)
{
    const struct bp_conv_attrs *a = b->attrs;
    const struct bp_view *x = npu_type(b, NPU_OUT(0));
    struct conv_steps s = conv_steps(b, a, x->rank - 2u);
    struct kit_arg dx = NPU_OUT(0);
    int64_t shape[KIT_AXES_MAX];

    if (b->status || npu_is_empty(b, dx)) return b->status;
    if (npu_is_empty(b, NPU_IN(0)) || npu_is_empty(b, NPU_IN(1))) {
        npu_fill(b, dx, 0);
        return b->status;
    }
    if (s.uneven) {
        conv_padded_shape(&s, x, shape);
        dx = kit_temporary(b, x->dtype, x->rank, shape);
    }
    conv_backward(b, &s, a->groups, NPU_IN(0), kit_as(dx, KIT_READS), NPU_IN(1), false, dx);
    if (s.uneven)
        KIT_STEP(b, "InplaceCopy", NPU_OUT(0), conv_inside(b, &s, dx, npu_type(b, NPU_OUT(0))));
    return b->status;
}

enum bp_status npu_build_conv_grad_weight(struct kit_build *b)
{
    const struct bp_conv_attrs *a = b->attrs;
    struct conv_steps s = conv_steps(b, a, npu_type(b, NPU_IN(1))->rank - 2u);
    struct kit_arg dw = NPU_OUT(0);

    if (b->status || npu_is_empty(b, dw)) return b->status;
    if (npu_is_empty(b, NPU_IN(0)) || npu_is_empty(b, NPU_IN(1))) {
        npu_fill(b, dw, 0);
        return b->status;
    }
    conv_backward(b, &s, a->groups, NPU_IN(0), conv_padded(b, &s, NPU_IN(1)), kit_as(dw, KIT_READS),
                  true, dw);
    return b->status;
}

/* Fills the result of a transposed convolution where no window reaches. */
static void conv_transpose_fill(struct kit_build *b, const struct bp_view *y)
{
    const int64_t channels[5] = {1, y->shape[1], 1, 1, 1};

    if (npu_is_given(b, NPU_IN(2)))
        KIT_STEP(b, "Expand", kit_reshaped(b, NPU_IN(2), y->rank, channels),
                 kit_array(b, y->shape, y->rank), NPU_OUT(0));
    else npu_fill(b, NPU_OUT(0), 0);
}

/* A transposed convolution without padding, of which the result is a part: the vendor's function
 * takes one padding for both ends, and an output padding that is smaller than the stride. */
static void conv_transpose_cut(struct kit_build *b, const struct bp_conv_transpose_attrs *a,
                               const struct conv_steps *s)
{
    const struct bp_view *x = npu_type(b, NPU_IN(0)), *w = npu_type(b, NPU_IN(1));
    const struct bp_view *y = npu_type(b, NPU_OUT(0));
    int64_t shape[KIT_AXES_MAX] = {y->shape[0], y->shape[1]}, count[3];
    bool whole = true, none = false;
    struct kit_arg all, to = NPU_OUT(0);

    for (uint32_t i = 0; i < s->axes; i++) {
        shape[i + 2] = (x->shape[i + 2] - 1) * a->stride[i] +
                       a->dilation[i] * (w->shape[i + 2] - 1) + 1;
        count[i] = shape[i + 2] - a->pad[i];
        if (count[i] > y->shape[i + 2]) count[i] = y->shape[i + 2];
        whole = whole && count[i] == y->shape[i + 2];
        none = none || count[i] <= 0;
    }
    if (!whole) conv_transpose_fill(b, y);
    if (none) return;
    all = kit_temporary(b, y->dtype, y->rank, shape);
    KIT_STEP(b, "Convolution", npu_image(NPU_IN(0)), npu_image(NPU_IN(1)), NPU_IN(2), s->stride,
             s->none, s->dilation, KIT_INT_IS(1), s->none, KIT_INT_IS(a->groups), npu_image(all),
             NPU_CUBE);
    for (uint32_t i = 0; i < s->axes; i++) {
        all = npu_part(b, all, i + 2, a->pad[i], count[i], 1);
        to = npu_part(b, to, i + 2, 0, count[i], 1);
    }
    KIT_STEP(b, "InplaceCopy", to, all);
}

enum bp_status npu_build_conv_transpose(struct kit_build *b)
{
    const struct bp_conv_transpose_attrs *a = b->attrs;
    const struct bp_conv_attrs same = {
        .stride = {a->stride[0], a->stride[1], a->stride[2]},
        .dilation = {a->dilation[0], a->dilation[1], a->dilation[2]},
        .pad = {a->pad[0], a->pad[1], a->pad[2], a->pad[3], a->pad[4], a->pad[5]}};
    struct conv_steps s = conv_steps(b, &same, npu_type(b, NPU_IN(0))->rank - 2u);
    struct kit_arg out = npu_image(NPU_OUT(0));
    bool far = s.uneven;

    if (b->status || npu_is_empty(b, out)) return b->status;
    for (uint32_t i = 0; i < s.axes; i++)
        far |= a->output_padding[i] >= a->stride[i] && a->output_padding[i] >= a->dilation[i];
    if (far) {
        conv_transpose_cut(b, a, &s);
        return b->status;
    }
    return KIT_STEP(b, "Convolution", npu_image(NPU_IN(0)), npu_image(NPU_IN(1)), NPU_IN(2),
                    s.stride, s.padding, s.dilation, KIT_INT_IS(1),
                    kit_array(b, a->output_padding, s.axes), KIT_INT_IS(a->groups), out, NPU_CUBE);
}
