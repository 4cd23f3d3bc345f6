/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: infers the shapes of deform_conv, deform_unfold and the gradients of deform_unfold. */
#include <call/shape.h>

#include <backplane/attrs.h>
#include <inttypes.h>

_Static_assert(sizeof(struct bp_deform_unfold_attrs) ==
                       sizeof(struct bp_deform_unfold_grad_input_attrs) &&
                   sizeof(struct bp_deform_unfold_attrs) ==
                       sizeof(struct bp_deform_unfold_grad_offset_attrs),
               "one layout");

/* The inputs and attributes that determine shapes. w: the filters; its first extents may be made
 * up. */
struct deformed {
    const char *op;
    const struct bp_view *x, *w, *offset, *mask;
    const int64_t *stride, *dilation, *pad;
    int64_t groups, offset_groups;
};

/* Checks that an input for each position of windows has this shape. */
static enum bp_status expect_places(const char *op, const char *name, const struct bp_view *got,
                                    const int64_t *expected)
{
    char text[BP_TYPE_TEXT], want[BP_TYPE_TEXT];

    if (got->rank == 4 && !memcmp(got->shape, expected, 4 * sizeof *expected)) return BP_OK;
    return bp_error(BP_ERR_INVALID, "%s: input %s is %s, expected %s", op, name,
                    bp_type_text(got->dtype, got->rank, got->shape, text, sizeof text),
                    bp_type_text(got->dtype, 4, expected, want, sizeof want));
}

/* Computes the type of the convolution, and checks x, w, offset and mask. */
static enum bp_status deform_forward(const struct deformed *d, struct bp_type *out)
{
    struct bp_conv_attrs conv = {.size = sizeof conv, .dilation = {1, 1, 1}, .stride = {1, 1, 1},
                                 .groups = d->groups};
    int64_t places[4];

    if (d->x->rank != 4)
        return bp_error(BP_ERR_INVALID, "%s: x has %u axes, expected 4: N C H W", d->op,
                        d->x->rank);
    if (!d->x->shape[2] || !d->x->shape[3])
        return bp_error(BP_ERR_INVALID, "%s: x has images without elements, expected some", d->op);
    for (int i = 0; i < 4; i++)
        if (d->pad[i] < 0)
            return bp_error(BP_ERR_INVALID, "%s: pad[%d] is %" PRId64 ", expected 0 or more",
                            d->op, i, d->pad[i]);
    for (int i = 0; i < 2; i++) {
        conv.stride[i] = d->stride[i];
        conv.dilation[i] = d->dilation[i];
        conv.pad[i] = d->pad[i];
        conv.pad[3 + i] = d->pad[2 + i];
    }
    TRY(bp_shape_conv(d->op, d->x, d->w, &conv, out));
    if (d->offset_groups < 1 || d->x->shape[1] % d->offset_groups)
        return bp_error(BP_ERR_INVALID,
                        "%s: x has %" PRId64 " channels, expected a multiple of offset_groups = "
                        "%" PRId64 ", which is 1 or more",
                        d->op, d->x->shape[1], d->offset_groups);
    places[0] = out->shape[0];
    places[2] = out->shape[2];
    places[3] = out->shape[3];
    if (__builtin_mul_overflow(d->w->shape[2], d->w->shape[3], &places[1]) ||
        __builtin_mul_overflow(places[1], 2 * d->offset_groups, &places[1]))
        return bp_error(BP_ERR_INVALID, "%s: the window has more than 2^63 elements", d->op);
    TRY(expect_places(d->op, "offset", d->offset, places));
    places[1] /= 2;
    return d->mask ? expect_places(d->op, "mask", d->mask, places) : BP_OK;
}

enum bp_status bp_infer_deform_conv(struct bp_invocation *inv)
{
    const struct bp_deform_conv_attrs *a = inv->attrs;
    const struct bp_view *bias = bp_invocation_in(inv, 3);
    struct deformed d = {.op = inv->row->info.name, .x = bp_invocation_in(inv, 0),
                         .w = bp_invocation_in(inv, 1), .offset = bp_invocation_in(inv, 2),
                         .mask = bp_invocation_in(inv, 4), .stride = a->stride,
                         .dilation = a->dilation, .pad = a->pad, .groups = a->groups,
                         .offset_groups = a->offset_groups};
    struct bp_type line = {.rank = 1};

    TRY(deform_forward(&d, &inv->out[0]));
    line.shape[0] = d.w->shape[0];
    return bias ? bp_shape_expect(inv, 3, &line) : BP_OK;
}

/* Computes the type of deform_unfold for x and the inputs from number `first` on: offset and
 * mask. */
static enum bp_status deform_columns(const struct bp_invocation *inv, const struct bp_view *x,
                                     uint32_t first, struct bp_type *out)
{
    const struct bp_deform_unfold_attrs *a = inv->attrs;
    int64_t filters[] = {1, x->rank > 1 ? x->shape[1] : 1, a->kernel[0], a->kernel[1]};
    struct bp_view w = {.shape = filters, .rank = 4, .dtype = x->dtype};
    struct deformed d = {.op = inv->row->info.name, .x = x, .w = &w,
                         .offset = bp_invocation_in(inv, first),
                         .mask = bp_invocation_in(inv, first + 1), .stride = a->stride,
                         .dilation = a->dilation, .pad = a->pad, .groups = 1,
                         .offset_groups = a->offset_groups};
    struct bp_type y = {0};

    if (a->kernel[0] < 1 || a->kernel[1] < 1)
        return bp_error(BP_ERR_INVALID,
                        "%s: kernel is %" PRId64 " %" PRId64 ", expected 1 or more", d.op,
                        a->kernel[0], a->kernel[1]);
    TRY(deform_forward(&d, &y));
    out->rank = 3;
    out->shape[0] = y.shape[0];
    if (__builtin_mul_overflow(a->kernel[0] * a->kernel[1], x->shape[1], &out->shape[1]) ||
        __builtin_mul_overflow(y.shape[2], y.shape[3], &out->shape[2]))
        return bp_error(BP_ERR_INVALID, "%s: the result has more than 2^63 elements", d.op);
    return BP_OK;
}

enum bp_status bp_infer_deform_unfold(struct bp_invocation *inv)
{
    return deform_columns(inv, bp_invocation_in(inv, 0), 1, &inv->out[0]);
}

enum bp_status bp_infer_deform_grad_input(struct bp_invocation *inv)
{
    struct bp_type y = {0};

    TRY(deform_columns(inv, bp_invocation_in(inv, 1), 2, &y));
    bp_shape_copy(&inv->out[0], bp_invocation_in(inv, 1));
    return bp_shape_expect(inv, 0, &y);
}

/* dmask has a value for each two of offset, whether there is a mask or not. */
enum bp_status bp_infer_deform_grad_offset(struct bp_invocation *inv)
{
    struct bp_type y = {0};

    TRY(deform_columns(inv, bp_invocation_in(inv, 1), 2, &y));
    for (int i = 0; i < 2; i++) bp_shape_copy(&inv->out[i], bp_invocation_in(inv, 2));
    inv->out[1].shape[1] /= 2;
    return bp_shape_expect(inv, 0, &y);
}
