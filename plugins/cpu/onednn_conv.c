/* SPDX-License-Identifier: Apache-2.0 */
/* onednn_conv.c: computes conv by oneDNN. Filters are reordered to the layout that oneDNN chooses.
 * Images keep their layout if channels are innermost, which is as fast as oneDNN's own layouts, and
 * if windows have one point, so that the convolution is a product of matrices. Other images are
 * reordered too, which costs less time than it saves; so are images of convolutions by Winograd's
 * algorithm, which only oneDNN's layouts have. */
#include "onednn.h"
#include "kernels.h"
#include <backplane/attrs.h>
#include <stddef.h>

/* The axes of several groups: groups, filters of a group, channels of a group, window. */
bool onednn_filter_desc(const struct onednn *dnnl, struct onednn_desc *desc,
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

/* Converts the attributes. The operator's padding after the image is the maximum that a window may
 * reach; oneDNN requires exactly the padding that the last window reaches. oneDNN's dilation is the
 * number of elements between taps; the operator's is the distance of taps. */
void onednn_geometry(const int64_t *stride, const int64_t *dilation, const int64_t *pad,
                     const struct bp_view *x, const struct bp_view *w, const struct bp_view *y,
                     struct onednn_window *to)
{
    for (int d = 0; d < x->rank - 2; d++) {
        to->step[d] = stride[d];
        to->holes[d] = dilation[d] - 1;
        to->before[d] = pad[d];
        to->after[d] = (y->shape[d + 2] - 1) * to->step[d] + (w->shape[d + 2] - 1) * dilation[d] +
                       1 - x->shape[d + 2] - to->before[d];
    }
}

double onednn_conv_terms(const struct bp_view *y, const struct bp_view *w)
{
    return (double)y->count * (double)w->count / (double)w->shape[0];
}

/* Whether elements have no gaps, in the order batches, the image's lines, then channels. oneDNN has
 * no code for other orders in which channels are contiguous. */
bool onednn_channels_last(const struct bp_view *v)
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

/* Whether channels are innermost, but elements have gaps: a part of the channels of a wider image,
 * or of its lines. oneDNN has only its reference implementation for these. */
static bool has_gaps(const struct bp_view *v)
{
    int64_t inner = v->shape[1];

    if (v->shape[1] < 2 || v->stride[1] != 1 || onednn_channels_last(v)) return false;
    for (int a = v->rank - 1; a >= 0; a--) {
        if (a == 1 || v->shape[a] < 2) continue;
        if (v->stride[a] < inner) return false;
        inner = v->stride[a] * v->shape[a];
    }
    return true;
}

/* Whether images are row-major and windows have one point. A product with few columns (fewer than
 * 14 x 14) is slower than with reorders: docs/results/cpu.md. */
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

/* The layouts of images: those of the views; the result's, and images without gaps for the input,
 * which are copied; or layouts that oneDNN chooses. */
enum conv_layout { CONV_STAYS, CONV_CLOSES_GAPS, CONV_ANY };

struct conv {
    struct onednn_desc x, w, b, y, dense_x, any_x, any_w, any_y;
    struct onednn_window window;
    bool bias, constant; /* whether there is a bias; whether w is constant */
    const struct onednn_epilogue *epilogue;
};

/* Describes the input without gaps, channels innermost. */
static bool dense_desc(const struct onednn *dnnl, struct onednn_desc *desc, const struct bp_view *x)
{
    int64_t stride[DNNL_MAX_NDIMS], step = x->shape[1];

    stride[1] = 1;
    for (int a = x->rank - 1; a >= 0; a--) {
        if (a == 1) continue;
        stride[a] = step;
        step *= x->shape[a];
    }
    return onednn_desc_strided(dnnl, desc, x->dtype, x->rank, x->shape, stride);
}

static bool conv_init(const struct onednn *dnnl, struct conv *c, const struct bp_prep *prep)
{
    const struct bp_conv_attrs *attrs = prep->attrs;
    const struct bp_view *w = prep->in[1], *bias = prep->n_in > 2 ? prep->in[2] : NULL;

    *c = (struct conv){.bias = bias != NULL, .constant = (w->flags & BP_VIEW_CONSTANT) != 0};
    onednn_geometry(attrs->stride, attrs->dilation, attrs->pad, prep->in[0], w, prep->out[0],
                    &c->window);
    return onednn_desc_init(dnnl, &c->x, prep->in[0]) &&
           dense_desc(dnnl, &c->dense_x, prep->in[0]) &&
           onednn_filter_desc(dnnl, &c->w, w, attrs->groups) &&
           onednn_desc_init(dnnl, &c->y, prep->out[0]) &&
           (!bias || onednn_desc_init(dnnl, &c->b, bias)) &&
           onednn_desc_any(dnnl, &c->any_x, &c->x) && onednn_desc_any(dnnl, &c->any_w, &c->w) &&
           onednn_desc_any(dnnl, &c->any_y, &c->y);
}

static void conv_finish(const struct onednn *dnnl, struct conv *c)
{
    struct onednn_desc *const all[] = {&c->x,       &c->w,     &c->b,     &c->y,
                                       &c->dense_x, &c->any_x, &c->any_w, &c->any_y};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) onednn_desc_finish(dnnl, all[i]);
}

/* If oneDNN has no fast code for the images' layout, it has fast code for its own layouts. */
static enum bp_status onednn_conv_make(struct cpu *self, const struct bp_prep *prep,
                                       const struct conv *c, enum conv_layout layout,
                                       struct bp_plan *out)
{
    static const dnnl_query_t src[] = {0, dnnl_query_src_md, dnnl_query_src_md};
    const struct onednn_desc *const x[] = {&c->x, &c->dense_x, &c->any_x};
    bool stays = layout != CONV_ANY;
    struct onednn_recipe recipe = {
        .window = &c->window,
        .epilogue = c->epilogue,
        .terms = onednn_conv_terms(prep->out[0], prep->in[1]),
        .slots = 2,
        .slot = {{DNNL_ARG_SRC, &c->x, x[layout], src[layout], false},
                 {DNNL_ARG_WEIGHTS, &c->w, &c->any_w, dnnl_query_weights_md, c->constant}}};

    if (c->bias)
        recipe.slot[recipe.slots++] = (struct onednn_slot){DNNL_ARG_BIAS, &c->b, &c->b, 0, false};
    recipe.slot[recipe.slots++] = (struct onednn_slot){
        DNNL_ARG_DST, &c->y, stays ? &c->y : &c->any_y, stays ? 0 : dnnl_query_dst_md, false};
    return onednn_plan_create(self, prep, &recipe, out);
}

/* Whether Winograd's algorithm (of results of 4 x 4) is faster than direct convolution. It computes
 * with at least 16 channels, and multiplies a quarter as often, a third with its transforms. But
 * filters have four times the bytes; if these exceed the caches, each run reads them from memory,
 * which takes longer than direct convolution of small images: docs/results/models.md. */
static bool winograd_pays(const struct bp_view *y, const struct bp_view *w)
{
    const double cache = 48 << 20, bytes_per_ns = 35, terms_per_ns = 132;
    double bytes = (double)w->shape[0] * (double)w->shape[1] * 36 * sizeof(float);
    double direct = onednn_conv_terms(y, w) / terms_per_ns;

    if (w->shape[1] < 16) return false;
    return bytes <= cache || direct / 3 + bytes / bytes_per_ns < direct;
}

/* Whether the app allows Winograd's algorithm and the convolution has a form for which oneDNN has
 * it. `copy` would add to a result in oneDNN's layout. */
static bool is_winograd(const struct bp_prep *prep, const struct conv *c)
{
    const struct bp_view *w = prep->in[1];

    if (prep->size < offsetof(struct bp_prep, allow) + sizeof prep->allow) return false;
    if (!(prep->allow & BP_ALLOW_WINOGRAD) || (c->epilogue && c->epilogue->copy)) return false;
    if (w->rank != 4 || w->dtype != BP_F32 || prep->in[0]->shape[1] != w->shape[1]) return false;
    for (int d = 0; d < 2; d++)
        if (w->shape[d + 2] != 3 || c->window.step[d] != 1 || c->window.holes[d]) return false;
    return winograd_pays(prep->out[0], w);
}

/* oneDNN has Winograd's algorithm for its own layouts only; it returns BP_ERR_UNSUPPORTED for few
 * channels, and on processors without AVX-512. */
static enum bp_status conv_winograd(struct cpu *self, const struct bp_prep *prep,
                                    const struct conv *c, struct bp_plan *out)
{
    struct conv by = *c;

    by.window.winograd = true;
    return onednn_conv_make(self, prep, &by, CONV_ANY, out);
}

static enum bp_status conv_plan(struct cpu *self, const struct bp_prep *prep, const struct conv *c,
                                struct bp_plan *out)
{
    const struct bp_view *x = prep->in[0], *w = prep->in[1], *y = prep->out[0];
    enum bp_status status = BP_ERR_UNSUPPORTED;

    if (is_winograd(prep, c)) status = conv_winograd(self, prep, c, out);
    if (status != BP_ERR_UNSUPPORTED) return status;
    if ((onednn_channels_last(x) && onednn_channels_last(y)) || is_product(x, w, y))
        status = onednn_conv_make(self, prep, c, CONV_STAYS, out);
    else if (has_gaps(x) && onednn_channels_last(y))
        status = onednn_conv_make(self, prep, c, CONV_CLOSES_GAPS, out);
    if (status != BP_ERR_UNSUPPORTED) return status;
    if (c->epilogue && c->epilogue->copy)
        return BP_ERR_UNSUPPORTED; /* the residual lies in the output's layout, not in oneDNN's */
    return onednn_conv_make(self, prep, c, CONV_ANY, out);
}

/* Returns the axes of images that are convolved, without the last ones of extent 1, as those of a
 * convolution of one axis that an exporter writes with two. oneDNN computes several results along
 * the last axis together: of 512 x 1 places three times as fast without the second axis. */
static uint8_t conv_rank(const struct bp_prep *prep)
{
    const struct bp_view *x = prep->in[0], *w = prep->in[1], *y = prep->out[0];
    const struct bp_conv_attrs *attrs = prep->attrs;
    uint8_t rank = x->rank;

    while (rank > 3 && x->shape[rank - 1] == 1 && w->shape[rank - 1] == 1 &&
           y->shape[rank - 1] == 1 && !attrs->pad[rank - 3])
        rank--;
    return rank;
}

enum bp_status onednn_conv_prepare(struct cpu *self, const struct bp_prep *of,
                                   const struct onednn_epilogue *epilogue, struct bp_plan *out)
{
    struct bp_view image = *of->in[0], filters = *of->in[1], result = *of->out[0];
    const struct bp_view *x = &image, *w = &filters, *y = &result;
    const struct bp_view *in[] = {x, w, of->n_in > 2 ? of->in[2] : NULL};
    struct bp_prep reduced = *of;
    const struct bp_prep *prep = &reduced;
    const struct bp_view *bias = prep->n_in > 2 ? prep->in[2] : NULL;
    struct conv c;

    image.rank = filters.rank = result.rank = conv_rank(of);
    reduced.in = in;
    reduced.out = &y;
    if (!x->count || !w->count || !y->count) return BP_ERR_UNSUPPORTED;
    if (onednn_conv_terms(y, w) < 65536)
        return BP_ERR_UNSUPPORTED;
    if (bias && bias->stride[0] != 1 && bias->count > 1)
        return BP_ERR_UNSUPPORTED; /* oneDNN would read the bias as contiguous */
    const struct onednn *dnnl = onednn_open(self);
    if (!dnnl) return BP_ERR_UNSUPPORTED;
    bool good = conv_init(dnnl, &c, prep);
    c.epilogue = epilogue;
    enum bp_status status = good ? conv_plan(self, prep, &c, out) : BP_ERR_UNSUPPORTED;
    conv_finish(dnnl, &c);
    return status;
}

enum bp_status cpu_conv_dnnl_prepare(void *p, const struct bp_prep *prep, struct bp_plan *out)
{
    return onednn_conv_prepare(p, prep, NULL, out);
}

enum bp_status cpu_conv_f32_dnnl(const struct bp_launch *launch)
{
    return onednn_plan_run(launch);
}

enum bp_status cpu_conv_bf16_dnnl(const struct bp_launch *launch)
{
    return onednn_plan_run(launch);
}
