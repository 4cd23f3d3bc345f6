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
static dnnl_memory_desc_t any(dnnl_memory_desc_t desc)
{
    desc.format_kind = dnnl_format_kind_any;
    return desc;
}

/* Our padding after the image is what the window may reach; what the last window does not reach,
 * oneDNN wants not to be there. It counts holes between taps where we count the distance. */
static void geometry(const struct bp_conv_attrs *attrs, const struct bp_prep *prep,
                     dnnl_dims_t step, dnnl_dims_t holes, dnnl_dims_t before, dnnl_dims_t after)
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

static bool channels_last(const struct bp_view *v)
{
    return v->stride[1] == 1 && v->shape[1] > 1;
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

enum bp_status cpu_conv_dnnl_prepare(void *p, const struct bp_prep *prep, struct bp_plan *out)
{
    const struct bp_conv_attrs *attrs = prep->attrs;
    const struct bp_view *x = prep->in[0], *w = prep->in[1], *y = prep->out[0];
    const struct bp_view *bias = prep->n_in > 2 ? prep->in[2] : NULL;
    dnnl_memory_desc_t dx, dw, db, dy;
    dnnl_dims_t step, holes, before, after;
    dnnl_convolution_desc_t op;

    if (!x->count || !w->count || !y->count) return BP_ERR_UNSUPPORTED;
    if ((double)y->count * (double)w->count / (double)w->shape[0] < 65536)
        return BP_ERR_UNSUPPORTED;
    const struct onednn *dnnl = onednn_open(p);
    if (!dnnl || !onednn_desc_init(dnnl, &dx, x) || !filter_desc(dnnl, &dw, w, attrs->groups) ||
        !onednn_desc_init(dnnl, &dy, y) || (bias && !onednn_desc_init(dnnl, &db, bias)))
        return BP_ERR_UNSUPPORTED;
    if (bias && bias->stride[0] != 1 && bias->count > 1)
        return BP_ERR_UNSUPPORTED; /* it would read it as dense */

    bool stays = (channels_last(x) && channels_last(y)) || is_product(x, w, y);
    dnnl_memory_desc_t any_w = any(dw), any_x = stays ? dx : any(dx), any_y = stays ? dy : any(dy);
    geometry(attrs, prep, step, holes, before, after);
    if (dnnl->dnnl_dilated_convolution_forward_desc_init(
            &op, dnnl_forward_inference, dnnl_convolution_direct, &any_x, &any_w, bias ? &db : NULL,
            &any_y, step, holes, before, after))
        return BP_ERR_UNSUPPORTED;
    struct onednn_recipe recipe = {
        .op = &op,
        .slots = 2,
        .slot = {
            {DNNL_ARG_SRC, dx, stays ? 0 : dnnl_query_src_md, false},
            {DNNL_ARG_WEIGHTS, dw, dnnl_query_weights_md, (w->flags & BP_VIEW_CONSTANT) != 0}}};
    if (bias) recipe.slot[recipe.slots++] = (struct onednn_slot){DNNL_ARG_BIAS, db, 0, false};
    recipe.slot[recipe.slots++] = (struct onednn_slot){DNNL_ARG_DST, dy,
                                                       stays ? 0 : dnnl_query_dst_md, false};
    return onednn_plan_create(p, prep, &recipe, out);
}

enum bp_status cpu_conv_f32_dnnl(const struct bp_launch *launch)
{
    return onednn_plan_run(launch);
}

enum bp_status cpu_conv_bf16_dnnl(const struct bp_launch *launch)
{
    return onednn_plan_run(launch);
}
