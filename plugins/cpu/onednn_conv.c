/* SPDX-License-Identifier: Apache-2.0 */
/* onednn_conv.c: conv by oneDNN. The image stays as it lies; filters are reordered as oneDNN likes them. */
#include "onednn.h"
#include "kernels.h"
#include <backplane/attrs.h>

/* Filters of several groups have an axis more: groups, filters and channels of each, window. */
static bool filter_desc(const struct onednn *dnnl, dnnl_memory_desc_t *desc, const struct bp_view *w, int64_t groups)
{
    int64_t shape[6] = {groups, w->shape[0] / groups}, stride[6] = {w->shape[0] / groups * w->stride[0], w->stride[0]};

    if (groups == 1) return onednn_desc_init(dnnl, desc, w);
    for (int a = 1; a < w->rank; a++) {
        shape[a + 1] = w->shape[a];
        stride[a + 1] = w->stride[a];
    }
    return onednn_desc_strided(dnnl, desc, w->dtype, w->rank + 1, shape, stride);
}

/* Our padding after the image is what the window may reach; what the last window does not reach, oneDNN wants
 * not to be there. It counts holes between taps where we count the distance. */
static void geometry(const struct bp_conv_attrs *attrs, const struct bp_prep *prep, dnnl_dims_t step,
                     dnnl_dims_t holes, dnnl_dims_t before, dnnl_dims_t after)
{
    const struct bp_view *x = prep->in[0], *w = prep->in[1], *y = prep->out[0];

    for (int d = 0; d < x->rank - 2; d++) {
        step[d] = attrs->stride[d];
        holes[d] = attrs->dilation[d] - 1;
        before[d] = attrs->pad[d];
        after[d] = (y->shape[d + 2] - 1) * step[d] + (w->shape[d + 2] - 1) * attrs->dilation[d] + 1 -
                   x->shape[d + 2] - before[d];
    }
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
    if ((double)y->count * (double)w->count / (double)w->shape[0] < 65536) return BP_ERR_UNSUPPORTED;
    const struct onednn *dnnl = onednn_open(p);
    if (!dnnl || !onednn_desc_init(dnnl, &dx, x) || !filter_desc(dnnl, &dw, w, attrs->groups) ||
        !onednn_desc_init(dnnl, &dy, y) || (bias && !onednn_desc_init(dnnl, &db, bias)))
        return BP_ERR_UNSUPPORTED;

    dnnl_memory_desc_t any = dw;
    any.format_kind = dnnl_format_kind_any;
    geometry(attrs, prep, step, holes, before, after);
    if (dnnl->dnnl_dilated_convolution_forward_desc_init(&op, dnnl_forward_inference, dnnl_convolution_direct, &dx,
                                                         &any, bias ? &db : NULL, &dy, step, holes, before, after))
        return BP_ERR_UNSUPPORTED;
    struct onednn_recipe recipe = {.op = &op, .packed = 1, .packed_query = dnnl_query_weights_md,
                                 .slot = {{.arg = DNNL_ARG_SRC, .desc = dx}, {.arg = DNNL_ARG_WEIGHTS, .desc = dw}}};
    recipe.slots = 2;
    if (bias) recipe.slot[recipe.slots++] = (struct onednn_slot){.arg = DNNL_ARG_BIAS, .desc = db};
    recipe.slot[recipe.slots++] = (struct onednn_slot){.arg = DNNL_ARG_DST, .desc = dy};
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
