/* SPDX-License-Identifier: Apache-2.0 */
/* shape_transpose.c: has the shape rule and decomposition of the transposed convolution. It is the
 * gradient of a convolution with respect to its input, an input of which only the shape matters. */
#include <call/compose.h>
#include <call/shape.h>

#include <backplane/attrs.h>
#include <inttypes.h>

static enum bp_status check_shapes(const struct bp_view *x, const struct bp_view *w,
                                   const struct bp_view *bias, int64_t groups)
{
    if (x->rank < 3 || x->rank > 5 || w->rank != x->rank)
        return bp_error(BP_ERR_INVALID,
                        "conv_transpose: x has %u axes and w %u, expected 3 to 5, as many for "
                        "both: N C and 1 to 3 spatial ones",
                        x->rank, w->rank);
    if (groups < 1 || x->shape[1] % groups || w->shape[0] != x->shape[1])
        return bp_error(BP_ERR_INVALID,
                        "conv_transpose: x has %" PRId64 " channels, w is for %" PRId64
                        ", expected as many, a multiple of groups = %" PRId64,
                        x->shape[1], w->shape[0], groups);
    if (bias && (bias->rank != 1 || bias->shape[0] % groups ||
                 bias->shape[0] / groups != w->shape[1]))
        return bp_error(BP_ERR_INVALID,
                        "conv_transpose: bias has %u axes, the first of them %" PRId64
                        " long, expected one of groups * w's filters = %" PRId64 " * %" PRId64,
                        bias->rank, bias->rank ? bias->shape[0] : 1, groups, w->shape[1]);
    return BP_OK;
}

/* Refuses entries for spatial axes that x does not have. */
static enum bp_status check_unused(const struct bp_conv_transpose_attrs *a, uint32_t n)
{
    for (uint32_t i = n; i < 3; i++)
        if (a->stride[i] != 1 || a->dilation[i] != 1 || a->pad[i] || a->pad[i + 3] ||
            a->output_padding[i])
            return bp_error(BP_ERR_INVALID,
                            "conv_transpose: an entry of stride, dilation, pad or output_padding "
                            "is set for spatial axis %u, but x has %u: entry i is of axis i, and "
                            "pad has 3 entries before, then 3 after",
                            i, n);
    return BP_OK;
}

static enum bp_status transpose_extent_of(const struct bp_view *x, const struct bp_view *w,
                                          const struct bp_conv_transpose_attrs *a, uint32_t i,
                                          int64_t *out)
{
    int64_t in = x->shape[i + 2], taps = w->shape[i + 2], reach, window;

    if (a->stride[i] < 1 || a->dilation[i] < 1 || in < 1 || taps < 1)
        return bp_error(BP_ERR_INVALID,
                        "conv_transpose: spatial axis %u has extent %" PRId64 ", window %" PRId64
                        ", stride %" PRId64 ", dilation %" PRId64 ", expected 1 or more",
                        i, in, taps, a->stride[i], a->dilation[i]);
    if (a->pad[i] < 0 || a->pad[i + 3] < 0 || a->output_padding[i] < 0)
        return bp_error(BP_ERR_INVALID,
                        "conv_transpose: pad[%u] is %" PRId64 ", pad[%u] %" PRId64
                        " and output_padding[%u] %" PRId64 ", expected 0 or more",
                        i, a->pad[i], i + 3, a->pad[i + 3], i, a->output_padding[i]);
    if (__builtin_mul_overflow(a->stride[i], in - 1, &reach) ||
        __builtin_mul_overflow(a->dilation[i], taps - 1, &window) ||
        __builtin_add_overflow(reach, window + 1, &reach) ||
        __builtin_add_overflow(reach, a->output_padding[i], &reach) ||
        __builtin_sub_overflow(reach, a->pad[i], &reach) ||
        __builtin_sub_overflow(reach, a->pad[i + 3], &reach) || reach < 1)
        return bp_error(BP_ERR_INVALID,
                        "conv_transpose: spatial axis %u of the result would have extent stride "
                        "* (extent - 1) + window + output_padding - pads, which is not from 1 to "
                        "2^63 - 1",
                        i);
    *out = reach;
    return BP_OK;
}

enum bp_status bp_infer_conv_transpose(struct bp_invocation *inv)
{
    const struct bp_conv_transpose_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0), *w = bp_invocation_in(inv, 1);
    struct bp_type *out = &inv->out[0];

    TRY(check_shapes(x, w, bp_invocation_in(inv, 2), a->groups));
    TRY(check_unused(a, x->rank - 2u));
    out->rank = x->rank;
    out->shape[0] = x->shape[0];
    if (__builtin_mul_overflow(w->shape[1], a->groups, &out->shape[1]))
        return bp_error(BP_ERR_INVALID, "conv_transpose: groups is %" PRId64 ", far too many",
                        a->groups);
    for (uint32_t i = 0; i < x->rank - 2u; i++)
        TRY(transpose_extent_of(x, w, a, i, &out->shape[i + 2]));
    return BP_OK;
}

/* Makes a tensor of a shape whose elements are not read: one number, repeated. */
static struct bp_tensor *shape_only(struct bp_compose *c, struct bp_tensor *w, uint32_t rank,
                                    const int64_t *shape)
{
    static const int64_t first = 0;
    struct bp_slice_attrs none = {.size = sizeof none, .starts = {&first, 1}, .ends = {&first, 1}};
    struct bp_sum_attrs all = {.size = sizeof all};
    struct bp_expand_attrs room = {.size = sizeof room, .shape = {shape, rank}};
    int64_t line = w->view.count;

    return MAKE(c, expand, &room,
                MAKE(c, sum, &all, MAKE(c, slice, &none, bp_compose_reshape(c, w, 1, &line))));
}

/* Extends y to `shape` with zeros, which are the elements that no window reaches: the convolution
 * computed only the first `most[i]` elements of axis i. */
static struct bp_tensor *with_zeros(struct bp_compose *c, struct bp_tensor *y, uint32_t rank,
                                    const int64_t *most, const int64_t *shape)
{
    static const int64_t zeros[BP_RANK_MAX] = {0};
    struct bp_slice_grad_attrs put = {.size = sizeof put, .starts = {zeros, rank},
                                      .ends = {most, rank}};

    if (!memcmp(most, shape, rank * sizeof *shape)) return y;
    return MAKE(c, slice_grad, &put, y, shape_only(c, y, rank, shape));
}

/* With a bias, half types are added in f32 and rounded once. */
enum bp_status bp_decompose_conv_transpose(struct bp_decomposition *e)
{
    const struct bp_conv_transpose_attrs *a = e->attrs;
    struct bp_tensor *x = e->in[0], *w = e->in[1], *bias = e->in[2], *y;
    struct bp_conv_grad_input_attrs of = {.size = sizeof of, .groups = a->groups};
    struct bp_compose c = bp_compose_begin(e->scope);
    uint32_t rank = x->view.rank;
    int64_t shape[BP_RANK_MAX] = {x->shape[0], w->shape[1] * a->groups}, most[BP_RANK_MAX];
    int64_t line[] = {shape[1], 1, 1, 1};

    memcpy(of.stride, a->stride, sizeof of.stride);
    memcpy(of.dilation, a->dilation, sizeof of.dilation);
    memcpy(of.pad, a->pad, sizeof of.pad);
    memcpy(most, shape, 2 * sizeof *shape);
    for (uint32_t i = 0; i < rank - 2; i++) {
        int64_t more = a->output_padding[i], *after = &of.pad[i + 3];
        int64_t taken = more < *after ? more : *after;
        transpose_extent_of(&x->view, &w->view, a, i, &shape[i + 2]);
        *after -= taken; /* output_padding first undoes padding at the end. A rest of it below
                            stride is the remainder that the forward convolution leaves over */
        more -= taken;
        most[i + 2] = shape[i + 2] - (more < a->stride[i] ? 0 : more - a->stride[i] + 1);
    }
    if (bias) {
        x = bp_compose_widen(&c, x);
        w = bp_compose_widen(&c, w);
    }
    y = MAKE(&c, conv_grad_input, &of, x, w, c.status ? NULL : shape_only(&c, w, rank, most));
    if (!c.status) y = with_zeros(&c, y, rank, most, shape);
    if (bias)
        y = MAKE(&c, add, NULL, y,
                 bp_compose_reshape(&c, bp_compose_widen(&c, bias), rank - 1, line));
    bp_compose_keep(&c, bp_compose_cast(&c, y, e->in[0]->view.dtype), &e->out[0]);
    return bp_compose_end(&c);
}
