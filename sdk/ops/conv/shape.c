/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: has the shape rules of convolution and its two gradients, and the checks that all three
 * share. */
#include <call/shape.h>

#include <backplane/attrs.h>
#include <inttypes.h>
#include <string.h>

/* The three attribute structs have one layout: see CONV_ATTRS of schema.def. */
_Static_assert(sizeof(struct bp_conv_attrs) == sizeof(struct bp_conv_grad_input_attrs),
               "one layout");
_Static_assert(sizeof(struct bp_conv_attrs) == sizeof(struct bp_conv_grad_weight_attrs),
               "one layout");

static enum bp_status check_ranks(const char *op, const struct bp_view *x, const struct bp_view *w)
{
    if (x->rank < 3 || x->rank > 5)
        return bp_error(BP_ERR_INVALID,
                        "%s: x has %u axes, expected 3 to 5: N C and 1 to 3 spatial ones", op,
                        x->rank);
    if (w->rank != x->rank)
        return bp_error(BP_ERR_INVALID, "%s: w has %u axes, expected %u as x", op, w->rank,
                        x->rank);
    return BP_OK;
}

static enum bp_status check_groups(const char *op, const struct bp_view *x, const struct bp_view *w,
                                   int64_t groups)
{
    int64_t channels;

    if (groups < 1)
        return bp_error(BP_ERR_INVALID, "%s: groups is %" PRId64 ", expected 1 or more", op,
                        groups);
    if (__builtin_mul_overflow(w->shape[1], groups, &channels) || channels != x->shape[1])
        return bp_error(BP_ERR_INVALID,
                        "%s: x has %" PRId64 " channels, expected groups * w's channels = %" PRId64
                        " * %" PRId64,
                        op, x->shape[1], groups, w->shape[1]);
    if (w->shape[0] % groups)
        return bp_error(BP_ERR_INVALID,
                        "%s: w has %" PRId64 " filters, expected a multiple of groups = %" PRId64,
                        op, w->shape[0], groups);
    return BP_OK;
}

/* Computes the extent of spatial axis i of the result. */
static enum bp_status output_extent(const char *op, const struct bp_view *x,
                                    const struct bp_view *w, const struct bp_conv_attrs *a,
                                    uint32_t i, int64_t *out_extent)
{
    int64_t window, padded, have = x->shape[i + 2], taps = w->shape[i + 2];

    if (a->stride[i] < 1 || a->dilation[i] < 1)
        return bp_error(BP_ERR_INVALID, "%s: stride[%u] is %" PRId64 " and dilation[%u] %" PRId64
                        ", expected 1 or more", op, i, a->stride[i], i, a->dilation[i]);
    if (a->pad[i] < 0 || a->pad[i + 3] < 0)
        return bp_error(BP_ERR_INVALID,
                        "%s: pad[%u] is %" PRId64 " and pad[%u] %" PRId64 ", expected 0 or more",
                        op, i, a->pad[i], i + 3, a->pad[i + 3]);
    if (taps < 1)
        return bp_error(BP_ERR_INVALID, "%s: the window has extent 0 in spatial axis %u", op, i);
    if (__builtin_mul_overflow(a->dilation[i], taps - 1, &window) ||
        __builtin_add_overflow(window, 1, &window) ||
        __builtin_add_overflow(have, a->pad[i], &padded) ||
        __builtin_add_overflow(padded, a->pad[i + 3], &padded))
        return bp_error(BP_ERR_INVALID, "%s: window or padding of spatial axis %u is past 63 bits",
                        op, i);
    if (padded < window)
        return bp_error(BP_ERR_INVALID,
                        "%s: the window spans %" PRId64
                        " in spatial axis %u, but x with its padding "
                        "has only %" PRId64,
                        op, window, i, padded);
    *out_extent = (padded - window) / a->stride[i] + 1;
    return BP_OK;
}

/* Refuses entries for spatial axes that x does not have: the caller has probably confused the
 * entries. */
static enum bp_status check_unused(const char *op, const struct bp_conv_attrs *a, uint32_t n)
{
    for (uint32_t i = n; i < 3; i++) {
        const char *name = a->stride[i] != 1 ? "stride" : a->dilation[i] != 1 ? "dilation" : "pad";
        uint32_t entry = a->stride[i] == 1 && a->dilation[i] == 1 && !a->pad[i] ? i + 3 : i;
        if (a->stride[i] == 1 && a->dilation[i] == 1 && !a->pad[i] && !a->pad[i + 3]) continue;
        return bp_error(
            BP_ERR_INVALID,
            "%s: %s[%u] is set, but x has %u spatial axes: entry i is of axis i, and pad "
            "has 3 entries before, then 3 after",
            op, name, entry, n);
    }
    return BP_OK;
}

/* Computes the type of conv(x, w), with every check of x, w and the attributes. */
static enum bp_status conv_forward(const char *op, const struct bp_view *x, const struct bp_view *w,
                                   const struct bp_conv_attrs *a, struct bp_type *out)
{
    TRY(check_ranks(op, x, w));
    TRY(check_groups(op, x, w, a->groups));
    TRY(check_unused(op, a, x->rank - 2u));
    out->rank = x->rank;
    out->shape[0] = x->shape[0];
    out->shape[1] = w->shape[0];
    for (uint32_t i = 0; i < x->rank - 2u; i++)
        TRY(output_extent(op, x, w, a, i, &out->shape[i + 2]));
    return BP_OK;
}

enum bp_status bp_shape_conv(const char *op, const struct bp_view *x, const struct bp_view *w,
                             const void *attrs, struct bp_type *out)
{
    return conv_forward(op, x, w, attrs, out);
}

enum bp_status bp_infer_conv(struct bp_invocation *inv)
{
    const struct bp_view *w = bp_invocation_in(inv, 1), *bias = bp_invocation_in(inv, 2);

    TRY(conv_forward("conv", bp_invocation_in(inv, 0), w, inv->attrs, &inv->out[0]));
    if (bias && (bias->rank != 1 || bias->shape[0] != w->shape[0])) {
        char text[BP_TYPE_TEXT];
        return bp_error(
            BP_ERR_INVALID, "conv: bias is %s, expected one axis of %" PRId64 " as w has filters",
            bp_type_text(bias->dtype, bias->rank, bias->shape, text, sizeof text), w->shape[0]);
    }
    return BP_OK;
}

/* For both gradients: dy must have the type of the forward's result; the result has the type of
 * `like`. */
static enum bp_status conv_gradient(struct bp_invocation *inv, const struct bp_view *x,
                                    const struct bp_view *w, const struct bp_view *like)
{
    const char *op = inv->row->info.name;
    const struct bp_view *dy = bp_invocation_in(inv, 0);
    struct bp_type y = {.dtype = dy->dtype};
    char got[BP_TYPE_TEXT], expected[BP_TYPE_TEXT];

    TRY(conv_forward(op, x, w, inv->attrs, &y));
    if (dy->rank != y.rank || memcmp(dy->shape, y.shape, y.rank * sizeof *y.shape))
        return bp_error(BP_ERR_INVALID, "%s: dy is %s, expected %s as the forward gives", op,
                        bp_type_text(dy->dtype, dy->rank, dy->shape, got, sizeof got),
                        bp_type_text(dy->dtype, y.rank, y.shape, expected, sizeof expected));
    inv->out[0].rank = like->rank;
    memcpy(inv->out[0].shape, like->shape, like->rank * sizeof *like->shape);
    return BP_OK;
}

enum bp_status bp_infer_conv_grad_input(struct bp_invocation *inv)
{
    return conv_gradient(inv, bp_invocation_in(inv, 2), bp_invocation_in(inv, 1),
                         bp_invocation_in(inv, 2));
}

enum bp_status bp_infer_conv_grad_weight(struct bp_invocation *inv)
{
    return conv_gradient(inv, bp_invocation_in(inv, 1), bp_invocation_in(inv, 2),
                         bp_invocation_in(inv, 2));
}
