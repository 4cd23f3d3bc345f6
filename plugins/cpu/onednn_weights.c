/* SPDX-License-Identifier: Apache-2.0 */
/* onednn_weights.c: computes conv_grad_weight by oneDNN's backward convolution. The gradient is
 * reordered from the layout that oneDNN chooses, and so are images, unless their channels are
 * innermost. */
#include "onednn.h"
#include "kernels.h"
#include <backplane/attrs.h>

/* The descriptions of the tensors, and those whose layouts oneDNN may choose. */
struct weights_descs {
    struct onednn_desc dy, x, dw, any_dy, any_x, any_dw;
};

static bool weights_init(const struct onednn *dnnl, struct weights_descs *t,
                         const struct bp_prep *prep, int64_t groups)
{
    *t = (struct weights_descs){0};
    return onednn_desc_init(dnnl, &t->dy, prep->in[0]) &&
           onednn_desc_init(dnnl, &t->x, prep->in[1]) &&
           onednn_filter_desc(dnnl, &t->dw, prep->out[0], groups) &&
           onednn_desc_any(dnnl, &t->any_dy, &t->dy) && onednn_desc_any(dnnl, &t->any_x, &t->x) &&
           onednn_desc_any(dnnl, &t->any_dw, &t->dw);
}

static void weights_finish(const struct onednn *dnnl, struct weights_descs *t)
{
    struct onednn_desc *const all[] = {&t->dy, &t->x, &t->dw, &t->any_dy, &t->any_x, &t->any_dw};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) onednn_desc_finish(dnnl, all[i]);
}

static enum bp_status weights_plan(struct cpu *self, const struct bp_prep *prep,
                                   const struct onednn_window *window, struct weights_descs *t,
                                   bool stays, struct bp_plan *out)
{
    struct onednn_recipe recipe = {
        .window = window,
        .terms = onednn_conv_terms(prep->in[0], prep->out[0]),
        .slots = 3,
        .slot = {
            {DNNL_ARG_DIFF_DST, &t->dy, stays ? &t->dy : &t->any_dy,
             stays ? 0 : dnnl_query_diff_dst_md, false},
            {DNNL_ARG_SRC, &t->x, stays ? &t->x : &t->any_x, stays ? 0 : dnnl_query_src_md, false},
            {DNNL_ARG_DIFF_WEIGHTS, &t->dw, &t->any_dw, dnnl_query_diff_weights_md, false}}};

    return onednn_plan_create(self, prep, &recipe, out);
}

/* The third input has the shape of the result, and is not read. */
enum bp_status cpu_conv_grad_weight_dnnl_prepare(void *p, const struct bp_prep *prep,
                                                 struct bp_plan *out)
{
    const struct bp_conv_grad_weight_attrs *a = prep->attrs;
    const struct bp_view *dy = prep->in[0], *x = prep->in[1], *dw = prep->out[0];
    struct onednn_window window = {.of_weights = true};
    enum bp_status status = BP_ERR_UNSUPPORTED;
    struct weights_descs t;

    if (!dy->count || !x->count || !dw->count || onednn_conv_terms(dy, dw) < 65536)
        return BP_ERR_UNSUPPORTED;
    const struct onednn *dnnl = onednn_open(p);
    if (!dnnl) return BP_ERR_UNSUPPORTED;
    onednn_geometry(a->stride, a->dilation, a->pad, x, dw, dy, &window);
    if (weights_init(dnnl, &t, prep, a->groups)) {
        if (onednn_channels_last(x) && onednn_channels_last(dy))
            status = weights_plan(p, prep, &window, &t, true, out);
        if (status == BP_ERR_UNSUPPORTED) status = weights_plan(p, prep, &window, &t, false, out);
    }
    weights_finish(dnnl, &t);
    return status;
}

enum bp_status cpu_conv_grad_weight_f32_dnnl(const struct bp_launch *launch)
{
    return onednn_plan_run(launch);
}
