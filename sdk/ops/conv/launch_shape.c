/* SPDX-License-Identifier: Apache-2.0 */
/* launch_shape.c: fills in the matrix a, the image and c of each of the three products of
 * kernel_product.h. */
#include "launch_shape.h"
#include <backplane/attrs.h>
#include <stdbool.h>
#include <string.h>

/* A view of rank 3 to 5, extended to three spatial axes. */
struct conv_view {
    int64_t extent[5], stride[5];
};

static struct conv_view conv_view(const struct bp_view *view)
{
    struct conv_view out = {.extent = {view->shape[0], view->shape[1], 1, 1, 1},
                            .stride = {view->stride[0], view->stride[1], 0, 0, 0}};
    int missing = 5 - view->rank;

    for (int a = 2; a < view->rank; a++) {
        out.extent[a + missing] = view->shape[a];
        out.stride[a + missing] = view->stride[a];
    }
    return out;
}

/* The attribute structs have the same fields. */
struct bp_conv_attrs conv_attrs(enum conv_kind kind, const void *attrs)
{
    struct bp_conv_attrs out = {.size = sizeof out};
    const struct bp_conv_grad_input_attrs *gi = attrs;
    const struct bp_conv_grad_weight_attrs *gw = attrs;
    const struct bp_conv_transpose_attrs *t = attrs;

    switch (kind) {
    case CONV_FORWARD: return *(const struct bp_conv_attrs *)attrs;
    case CONV_GRAD_INPUT:
        memcpy(out.stride, gi->stride, sizeof out.stride);
        memcpy(out.dilation, gi->dilation, sizeof out.dilation);
        memcpy(out.pad, gi->pad, sizeof out.pad);
        out.groups = gi->groups;
        break;
    case CONV_GRAD_WEIGHT:
        memcpy(out.stride, gw->stride, sizeof out.stride);
        memcpy(out.dilation, gw->dilation, sizeof out.dilation);
        memcpy(out.pad, gw->pad, sizeof out.pad);
        out.groups = gw->groups;
        break;
    case CONV_TRANSPOSE:
        memcpy(out.stride, t->stride, sizeof out.stride);
        memcpy(out.dilation, t->dilation, sizeof out.dilation);
        memcpy(out.pad, t->pad, sizeof out.pad);
        out.groups = t->groups;
        break;
    }
    return out;
}

/* Returns the batch and spatial axes as a grid. */
static struct conv_grid position_grid(const struct conv_view *v)
{
    return (struct conv_grid){{v->extent[0], v->extent[2], v->extent[3], v->extent[4]},
                              {v->stride[0], v->stride[2], v->stride[3], v->stride[4]}};
}

/* Returns n channels along axis `channel` of a view of filters, and its window, as a grid. */
static struct conv_grid tap_grid(const struct conv_view *w, int channel, int64_t n)
{
    return (struct conv_grid){{n, w->extent[2], w->extent[3], w->extent[4]},
                              {w->stride[channel], w->stride[2], w->stride[3], w->stride[4]}};
}

static int64_t product_of(const int64_t extent[4])
{
    return extent[0] * extent[1] * extent[2] * extent[3];
}

/* Returns v as an image whose positions and taps are numbered by these grids; image_geometry fills
 * in the geometry later. */
static struct conv_image image_of(const struct conv_view *v, const struct conv_grid *position,
                                  const struct conv_grid *tap)
{
    struct conv_image out = {.batch = v->stride[0], .channel = v->stride[1]};

    memcpy(out.stride, v->stride + 2, sizeof out.stride);
    memcpy(out.extent, v->extent + 2, sizeof out.extent);
    memcpy(out.position, position->extent, sizeof out.position);
    memcpy(out.tap, tap->extent, sizeof out.tap);
    return out;
}

/* Sets at which element of the image a position and a tap meet, along the last `spatial` of three
 * axes. */
static void image_geometry(struct conv_image *image, enum conv_kind kind,
                           const struct bp_conv_attrs *attrs, int spatial)
{
    for (int d = 0; d < 3; d++) {
        int a = d - (3 - spatial);
        int64_t stride = a < 0 ? 1 : attrs->stride[a], dilation = a < 0 ? 1 : attrs->dilation[a];
        int64_t pad = a < 0 ? 0 : attrs->pad[a];
        bool back = kind == CONV_GRAD_INPUT;

        image->step[d] = back ? 1 : stride;
        image->every[d] = back ? stride : 1;
        image->origin[d] = back ? pad : -pad;
        image->tap_step[d] = back ? -dilation : dilation;
    }
}

struct conv_views conv_product_init(struct conv_product *out, enum conv_kind kind,
                                    const struct bp_view *const *in, uint32_t n_in,
                                    const struct bp_view *const *outputs, const void *given)
{
    struct bp_conv_attrs attrs = conv_attrs(kind, given);
    bool biased = kind == CONV_FORWARD || kind == CONV_TRANSPOSE;
    const struct bp_view *bias = biased && n_in > 2 ? in[2] : NULL;
    if (kind == CONV_TRANSPOSE) kind = CONV_GRAD_INPUT;
    const struct bp_view *vx = kind == CONV_FORWARD      ? in[0]
                               : kind == CONV_GRAD_INPUT ? outputs[0]
                                                         : in[1];
    const struct bp_view *vw = kind == CONV_GRAD_WEIGHT ? outputs[0] : in[1];
    const struct bp_view *vy = kind == CONV_FORWARD ? outputs[0] : in[0];
    struct conv_view x = conv_view(vx), w = conv_view(vw), y = conv_view(vy);
    int64_t filters = w.extent[0] / attrs.groups, channels = w.extent[1];
    struct conv_grid at_x = position_grid(&x), at_y = position_grid(&y);

    if (kind == CONV_FORWARD) {
        struct conv_grid taps = tap_grid(&w, 1, channels);
        *out = (struct conv_product){
            .m = filters, .n = product_of(at_y.extent), .k = product_of(taps.extent),
            .a_row = w.stride[0], .a_k = taps, .a_group = filters * w.stride[0],
            .image = image_of(&x, &at_y, &taps), .image_group = channels * x.stride[1],
            .c_row = y.stride[1], .c_column = at_y, .c_group = filters * y.stride[1],
            .bias_step = bias ? bias->stride[0] : 0};
    } else if (kind == CONV_GRAD_INPUT) {
        struct conv_grid taps = tap_grid(&w, 0, filters);
        *out = (struct conv_product){
            .m = channels, .n = product_of(at_x.extent), .k = product_of(taps.extent),
            .a_row = w.stride[1], .a_k = taps, .a_group = filters * w.stride[0],
            .image = image_of(&y, &at_x, &taps), .image_group = filters * y.stride[1],
            .c_row = x.stride[1], .c_column = at_x, .c_group = channels * x.stride[1],
            .bias_step = bias ? bias->stride[0] : 0};
    } else {
        struct conv_grid taps = tap_grid(&w, 1, channels);
        *out = (struct conv_product){
            .m = filters, .n = product_of(taps.extent), .k = product_of(at_y.extent),
            .a_row = y.stride[1], .a_k = at_y, .a_group = filters * y.stride[1],
            .image = image_of(&x, &at_y, &taps), .image_group = channels * x.stride[1],
            .taps_are_columns = 1,
            .c_row = w.stride[0], .c_column = taps, .c_group = filters * w.stride[0]};
    }
    out->groups = attrs.groups;
    image_geometry(&out->image, kind, &attrs, vx->rank - 2);
    if (!in[0]->count || !in[1]->count) out->k = 0;
    if (kind == CONV_FORWARD) return (struct conv_views){vw, vx, bias, vy, NULL};
    if (kind == CONV_GRAD_INPUT) return (struct conv_views){vw, vy, bias, vx, NULL};
    return (struct conv_views){vy, vx, NULL, vw, NULL};
}

static int64_t phase_extent(const struct conv_product *whole, int d)
{
    int64_t every = whole->image.every[d], n = whole->image.position[d + 1];

    return every < n ? every : n;
}

int64_t conv_phase_count(const struct conv_product *whole)
{
    return phase_extent(whole, 0) * phase_extent(whole, 1) * phase_extent(whole, 2);
}

/* Restricts the part to positions `first` modulo `every` along spatial axis d, and to the taps that
 * meet elements of the image there: every `apart`-th tap from `begin` on. */
static void phase_restrict(struct conv_phase *phase, int d, int64_t first)
{
    struct conv_product *p = &phase->p;
    struct conv_image *image = &p->image;
    int64_t every = image->every[d], taps = image->tap[d + 1], begin = 0, apart = 1, n;

    while (begin < taps && (first + image->origin[d] + begin * image->tap_step[d]) % every) begin++;
    while (apart * image->tap_step[d] % every) apart++;
    n = begin < taps ? (taps - begin + apart - 1) / apart : 0;
    phase->a += n ? begin * p->a_k.stride[d + 1] : 0;
    phase->c += first * p->c_column.stride[d + 1];
    image->origin[d] = (first + image->origin[d] + begin * image->tap_step[d]) / every;
    image->tap_step[d] = apart * image->tap_step[d] / every;
    image->every[d] = 1;
    image->tap[d + 1] = p->a_k.extent[d + 1] = n;
    p->a_k.stride[d + 1] *= apart;
    image->position[d + 1] = (image->position[d + 1] - first + every - 1) / every;
    p->c_column.extent[d + 1] = image->position[d + 1];
    p->c_column.stride[d + 1] *= every;
}

void conv_phase_init(struct conv_phase *out, const struct conv_product *whole, int64_t number)
{
    struct conv_product *p = &out->p;

    *out = (struct conv_phase){.p = *whole};
    for (int d = 2; d >= 0; d--) {
        int64_t n = phase_extent(whole, d);
        phase_restrict(out, d, number % n);
        number /= n;
    }
    p->n = product_of(p->c_column.extent);
    if (whole->k) p->k = product_of(p->a_k.extent);
}
