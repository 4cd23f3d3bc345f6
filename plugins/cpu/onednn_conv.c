/* SPDX-License-Identifier: Apache-2.0 */
/* onednn_conv.c: conv by oneDNN. Filters are reordered as it likes them. Images stay where
 * channels are innermost, which is as fast as its own layouts, and where windows are one point,
 * which is a product of matrices as they lie; else they are reordered too, which costs less than it
 * brings. */
#include "onednn.h"
#include "kernels.h"
#include <backplane/attrs.h>

/* Filters of several groups have an axis more: groups, filters and channels of each, window. */
static bool filter_desc(const struct onednn *dnnl, dnnl_memory_desc_t *desc,
                        const struct bp_view *w, int64_t groups)
{
    int64_t shape[6] = {groups, w->shape[0] / groups},
            stride[6] = {w->shape[0] / groups * w->stride[0], w->stride[0]};

    if (groups == 1) return onednn_desc_init(dnnl, desc, w);
    for (int a = 1; a < w->rank; a++) {
        shape[a + 1] = w->shape[a];
        stride[a + 1] = w->stride[a];
    }
    return onednn_desc_strided(dnnl, desc, w->dtype, w->rank + 1, shape, stride);
}

/* The same tensor in a layout that oneDNN may choose. */
static dnnl_memory_desc_t onednn_conv_any(dnnl_memory_desc_t desc)
{
    desc.format_kind = dnnl_format_kind_any;
    return desc;
}

/* Our padding after the image is what the window may reach; what the last window does not reach,
 * oneDNN wants not to be there. It counts holes between taps where we count the distance. */
static void onednn_conv_geometry(const struct bp_conv_attrs *attrs, const struct bp_prep *prep,
                                 dnnl_dims_t step, dnnl_dims_t holes, dnnl_dims_t before,
                                 dnnl_dims_t after)
{
    const struct bp_view *x = prep->in[0], *w = prep->in[1], *y = prep->out[0];

    for (int d = 0; d < x->rank - 2; d++) {
        step[d] = attrs->stride[d];
        holes[d] = attrs->dilation[d] - 1;
        before[d] = attrs->pad[d];
        after[d] = (y->shape[d + 2] - 1) * step[d] + (w->shape[d + 2] - 1) * attrs->dilation[d] +
                   1 - x->shape[d + 2] - before[d];
    }
}

/* Elements lie without gaps: batches, then the image's lines, then channels. Others whose channels
 * are next to each other have them in an order that the library has no code for. */
static bool channels_last(const struct bp_view *v)
{
    int64_t step = v->shape[1];

    if (v->shape[1] < 2 || v->stride[1] != 1) return false;
    for (int a = v->rank - 1; a >= 0; a--) {
        if (a == 1) continue;
        if (v->shape[a] > 1 && v->stride[a] != step) return false;
        step *= v->shape[a];
    }
    return true;
}

/* Of row-major images with windows of one point. A product with few columns (14 x 14 and more are
 * enough) is slower than the reorders: docs/results/cpu.md. */
static bool is_product(const struct bp_view *x, const struct bp_view *w, const struct bp_view *y)
{
    const int64_t enough = 196;
    int64_t window = 1, plane = 1;

    for (int a = 2; a < y->rank; a++) {
        window *= w->shape[a];
        plane *= y->shape[a];
    }
    return window == 1 && plane >= enough && !(x->flags & BP_VIEW_STRIDED) &&
           !(y->flags & BP_VIEW_STRIDED);
}

struct conv {
    dnnl_memory_desc_t x, w, b, y;
    dnnl_dims_t step, holes, before, after;
    bool bias, constant; /* whether there is one; whether w is constant */
};

/* stays: images are read and written as they lie; else in layouts that oneDNN chooses. Where it has
 * no fast code for them as they lie, it has for its own. */
static enum bp_status onednn_conv_make(void *p, const struct bp_prep *prep, const struct conv *c,
                                       bool stays, struct bp_plan *out)
{
    const struct onednn *dnnl = onednn_opened();
    dnnl_memory_desc_t any_w = onednn_conv_any(c->w), any_x = stays ? c->x : onednn_conv_any(c->x),
                       any_y = stays ? c->y : onednn_conv_any(c->y);
    dnnl_convolution_desc_t op;

    if (dnnl->dnnl_dilated_convolution_forward_desc_init(
            &op, dnnl_forward_inference, dnnl_convolution_direct, &any_x, &any_w,
            c->bias ? &c->b : NULL, &any_y, c->step, c->holes, c->before, c->after))
        return BP_ERR_UNSUPPORTED;
    struct onednn_recipe recipe = {
        .op = &op,
        .slots = 2,
        .slot = {{DNNL_ARG_SRC, c->x, stays ? 0 : dnnl_query_src_md, false},
                 {DNNL_ARG_WEIGHTS, c->w, dnnl_query_weights_md, c->constant}}};
    if (c->bias) recipe.slot[recipe.slots++] = (struct onednn_slot){DNNL_ARG_BIAS, c->b, 0, false};
    recipe.slot[recipe.slots++] = (struct onednn_slot){DNNL_ARG_DST, c->y,
                                                       stays ? 0 : dnnl_query_dst_md, false};
    return onednn_plan_create(p, prep, &recipe, out);
}

enum bp_status cpu_conv_dnnl_prepare(void *p, const struct bp_prep *prep, struct bp_plan *out)
{
    const struct bp_conv_attrs *attrs = prep->attrs;
    const struct bp_view *x = prep->in[0], *w = prep->in[1], *y = prep->out[0];
    const struct bp_view *bias = prep->n_in > 2 ? prep->in[2] : NULL;
    dnnl_memory_desc_t dx, dw, db = {0}, dy;

    if (!x->count || !w->count || !y->count) return BP_ERR_UNSUPPORTED;
    if ((double)y->count * (double)w->count / (double)w->shape[0] < 65536)
        return BP_ERR_UNSUPPORTED;
    const struct onednn *dnnl = onednn_open(p);
    if (!dnnl || !onednn_desc_init(dnnl, &dx, x) || !filter_desc(dnnl, &dw, w, attrs->groups) ||
        !onednn_desc_init(dnnl, &dy, y) || (bias && !onednn_desc_init(dnnl, &db, bias)))
        return BP_ERR_UNSUPPORTED;
    if (bias && bias->stride[0] != 1 && bias->count > 1)
        return BP_ERR_UNSUPPORTED; /* it would read it as dense */

    struct conv c = {.x = dx, .w = dw, .b = db, .y = dy, .bias = bias != NULL,
                     .constant = (w->flags & BP_VIEW_CONSTANT) != 0};
    onednn_conv_geometry(attrs, prep, c.step, c.holes, c.before, c.after);
    if ((channels_last(x) && channels_last(y)) || is_product(x, w, y)) {
        enum bp_status status = onednn_conv_make(p, prep, &c, true, out);
        if (status != BP_ERR_UNSUPPORTED) return status;
    }
    return onednn_conv_make(p, prep, &c, false, out);
}

enum bp_status cpu_conv_f32_dnnl(const struct bp_launch *launch)
{
    return onednn_plan_run(launch);
}

enum bp_status cpu_conv_bf16_dnnl(const struct bp_launch *launch)
{
    return onednn_plan_run(launch);
}
