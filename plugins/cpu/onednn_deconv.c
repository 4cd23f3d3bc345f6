/* SPDX-License-Identifier: Apache-2.0 */
/* onednn_deconv.c: computes conv_transpose and conv_grad_input by oneDNN's deconvolution, which is
 * the same operation with and without a bias. Filters are reordered to the layout that oneDNN
 * chooses, and so are images, unless their channels are innermost. */
#include "onednn.h"
#include "kernels.h"
#include <backplane/attrs.h>
#include <string.h>

/* One call. The image y has `out` as its convolution's input: each element of `in` adds the window
 * w times itself to `out`. */
struct deconv {
    const struct bp_view *in, *w, *bias, *out;
    const int64_t *stride, *dilation, *pad;
    int64_t groups;
    bool is_gradient; /* conv_grad_input, which has no decomposition into products */
};

/* Describes the filters, whose first axis counts channels of `in`. oneDNN's first axis counts
 * channels of `out`; with several groups one axis more, of the groups, comes first. */
static bool deconv_filter(const struct onednn *dnnl, struct onednn_desc *desc,
                          const struct deconv *d)
{
    const struct bp_view *w = d->w;
    int64_t each = w->shape[0] / d->groups;
    int64_t shape[6] = {d->groups, w->shape[1], each},
            stride[6] = {each * w->stride[0], w->stride[1], w->stride[0]};
    int first = d->groups == 1;

    for (int a = 2; a < w->rank; a++) {
        shape[a + 1] = w->shape[a];
        stride[a + 1] = w->stride[a];
    }
    return onednn_desc_strided(dnnl, desc, w->dtype, w->rank + 1 - first, shape + first,
                               stride + first);
}

/* oneDNN requires the padding that makes `out` from `in`. Elements at the end of `out` that no
 * window reaches need none if they are fewer than a step; false: they are more, which would be
 * negative padding. */
static bool deconv_geometry(const struct deconv *d, struct onednn_window *window)
{
    for (int a = 0; a < d->in->rank - 2; a++) {
        window->step[a] = d->stride[a];
        window->holes[a] = d->dilation[a] - 1;
        window->before[a] = d->pad[a];
        window->after[a] = (d->in->shape[a + 2] - 1) * d->stride[a] +
                           (d->w->shape[a + 2] - 1) * d->dilation[a] + 1 -
                           d->out->shape[a + 2] - d->pad[a];
        if (window->after[a] <= -d->stride[a]) return false;
        if (window->after[a] < 0) window->after[a] = 0;
    }
    return true;
}

/* Whether other kernels of the plugin are faster: for conv_transpose those of its decomposition
 * with several groups, or if windows do not overlap; and with one spatial axis and so few taps for
 * each element that reorders take most of oneDNN's time (docs/results/operators.md). */
static bool leave_to_parts(const struct deconv *d)
{
    const int64_t few = 512;
    int64_t taps = d->w->shape[0];
    bool overlap = false;

    for (int a = 0; a < d->in->rank - 2; a++) {
        overlap |= (d->w->shape[a + 2] - 1) * d->dilation[a] >= d->stride[a];
        taps *= (d->w->shape[a + 2] + d->stride[a] - 1) / d->stride[a];
    }
    return (!d->is_gradient && (d->groups > 1 || !overlap)) || (d->in->rank == 3 && taps <= few);
}

/* The descriptions of one call's tensors, and those whose layouts oneDNN may choose. */
struct deconv_descs {
    struct onednn_desc x, w, b, y, any_x, any_w, any_y;
};

static bool descs_init(const struct onednn *dnnl, struct deconv_descs *t, const struct deconv *d)
{
    *t = (struct deconv_descs){0};
    return onednn_desc_init(dnnl, &t->x, d->in) && deconv_filter(dnnl, &t->w, d) &&
           onednn_desc_init(dnnl, &t->y, d->out) &&
           (!d->bias || onednn_desc_init(dnnl, &t->b, d->bias)) &&
           onednn_desc_any(dnnl, &t->any_x, &t->x) && onednn_desc_any(dnnl, &t->any_w, &t->w) &&
           onednn_desc_any(dnnl, &t->any_y, &t->y);
}

static void descs_finish(const struct onednn *dnnl, struct deconv_descs *t)
{
    struct onednn_desc *const all[] = {&t->x, &t->w, &t->b, &t->y, &t->any_x, &t->any_w, &t->any_y};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) onednn_desc_finish(dnnl, all[i]);
}

static enum bp_status deconv_plan(void *p, const struct bp_prep *prep, const struct deconv *d,
                                  const struct onednn_window *window, struct deconv_descs *t,
                                  struct bp_plan *out)
{
    struct onednn_recipe recipe = {
        .window = window,
        .terms = onednn_conv_terms(d->in, d->w),
        .slots = 2,
        .slot = {{DNNL_ARG_SRC, &t->x, &t->any_x, dnnl_query_src_md, false},
                 {DNNL_ARG_WEIGHTS, &t->w, &t->any_w, dnnl_query_weights_md,
                  (d->w->flags & BP_VIEW_CONSTANT) != 0}}};

    if (d->bias)
        recipe.slot[recipe.slots++] =
            (struct onednn_slot){DNNL_ARG_BIAS, &t->b, &t->b, 0, false};
    recipe.slot[recipe.slots++] =
        (struct onednn_slot){DNNL_ARG_DST, &t->y, &t->any_y, dnnl_query_dst_md, false};
    return onednn_plan_create(p, prep, &recipe, out);
}

static enum bp_status deconv_prepare(void *p, const struct bp_prep *prep, const struct deconv *d,
                                     struct bp_plan *out)
{
    struct onednn_window window = {.transposed = true};
    struct deconv_descs t;
    enum bp_status status;

    if (!d->in->count || !d->w->count || !d->out->count ||
        onednn_conv_terms(d->in, d->w) < 65536 || leave_to_parts(d) ||
        (d->bias && d->bias->count > 1 && d->bias->stride[0] != 1) ||
        !deconv_geometry(d, &window))
        return BP_ERR_UNSUPPORTED;
    const struct onednn *dnnl = onednn_open(p);
    if (!dnnl) return BP_ERR_UNSUPPORTED;
    status = descs_init(dnnl, &t, d) ? deconv_plan(p, prep, d, &window, &t, out)
                                     : BP_ERR_UNSUPPORTED;
    descs_finish(dnnl, &t);
    return status;
}

enum bp_status cpu_conv_transpose_dnnl_prepare(void *p, const struct bp_prep *prep,
                                               struct bp_plan *out)
{
    const struct bp_conv_transpose_attrs *a = prep->attrs;
    struct deconv d = {.in = prep->in[0], .w = prep->in[1], .out = prep->out[0],
                       .bias = prep->n_in > 2 ? prep->in[2] : NULL, .stride = a->stride,
                       .dilation = a->dilation, .pad = a->pad, .groups = a->groups};

    return deconv_prepare(p, prep, &d, out);
}

/* The third input has the shape of the result, and is not read. */
enum bp_status cpu_conv_grad_input_dnnl_prepare(void *p, const struct bp_prep *prep,
                                                struct bp_plan *out)
{
    const struct bp_conv_grad_input_attrs *a = prep->attrs;
    struct deconv d = {.in = prep->in[0], .w = prep->in[1], .out = prep->out[0],
                       .stride = a->stride, .dilation = a->dilation, .pad = a->pad,
                       .groups = a->groups, .is_gradient = true};

    return deconv_prepare(p, prep, &d, out);
}

enum bp_status cpu_conv_transpose_f32_dnnl(const struct bp_launch *launch)
{
    return onednn_plan_run(launch);
}

enum bp_status cpu_conv_grad_input_f32_dnnl(const struct bp_launch *launch)
{
    return onednn_plan_run(launch);
}
