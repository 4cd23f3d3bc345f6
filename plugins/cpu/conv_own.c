/* SPDX-License-Identifier: Apache-2.0 */
/* conv_own.c: plans and runs the plugin's own convolutions of conv_own.h, which are rows of conv
 * and of fused_conv. Other shapes, and filters that are not constant, are left to other rows. */
#include "conv_own.h"
#include <kit/activation.h>
#include "dtype.h"
#include "kernels.h"
#include <backplane/attrs.h>
#include <string.h>

#ifdef CPU_AVX2
conv_own_task cpu_conv_point_f32_avx2, cpu_conv_depthwise_f32_avx2;
#endif
#ifdef CPU_AVX512
conv_own_task cpu_conv_point_f32_avx512, cpu_conv_depthwise_f32_avx512;
#endif

/* The functions of each instruction level, and the elements of its vectors. */
static const struct own_level {
    conv_own_task *point, *depthwise;
    int lanes;
} levels[] = {
#ifdef CPU_AVX2
    [CPU_ISA_AVX2] = {cpu_conv_point_f32_avx2, cpu_conv_depthwise_f32_avx2, 8},
#endif
#ifdef CPU_AVX512
    [CPU_ISA_AVX512] = {cpu_conv_point_f32_avx512, cpu_conv_depthwise_f32_avx512, 16},
#endif
    [CPU_ISA_AVX512 + 1] = {NULL, NULL, 0},
};

static bool own_activation(struct conv_own *p, const struct bp_prep *prep)
{
    const struct bp_fused_conv_attrs *a = prep->attrs;
    bool fused = !strcmp(prep->kernel->op, "fused_conv");

    p->span = NULL;
    if (!fused || a->activation == BP_ACTIVATION_NONE) return true;
    const char *name = kit_activation_op(a->activation);
    p->number[0] = a->activation == BP_ACTIVATION_GELU_TANH ? 1 : a->alpha;
    if (a->activation == BP_ACTIVATION_GELU) p->number[0] = 0;
    p->number[1] = a->beta;
    return name && cpu_span_find(name, cpu_level(prep->kernel), p->number, &p->span, &p->formula);
}

/* Whether channels are innermost: those of one point have no gaps. */
static bool own_innermost(const struct bp_view *v)
{
    return v->stride[1] == 1 || v->shape[1] == 1;
}

static bool own_is_point(const struct bp_prep *prep, int groups)
{
    const struct bp_conv_attrs *a = prep->attrs;
    const struct bp_view *x = prep->in[0], *w = prep->in[1], *y = prep->out[0];

    for (int i = 2; i < x->rank; i++)
        if (x->shape[i] != 1 || w->shape[i] != 1 || y->shape[i] != 1 || a->pad[i - 2]) return false;
    return groups == 1 && x->shape[0] <= CONV_OWN_IMAGES;
}

/* With few channels, oneDNN's depthwise convolution of 3 x 3 is faster: 16 channels of 112 x 112
 * took 1.3 times as long here. */
static bool own_is_depthwise(const struct bp_prep *prep, const struct conv_own *p, int lanes)
{
    const struct bp_conv_attrs *a = prep->attrs;
    const struct bp_view *x = prep->in[0], *w = prep->in[1];
    const int64_t few = 24;

    if (x->rank != 4 || a->groups != p->channels || p->filters != p->channels) return false;
    if (w->shape[2] != w->shape[3] || (w->shape[2] != 3 && w->shape[2] != 5)) return false;
    if (w->shape[2] == 3 && p->channels < few) return false;
    if (a->stride[0] != a->stride[1] || a->stride[0] > 2) return false;
    return a->dilation[0] == 1 && a->dilation[1] == 1 && p->channels >= lanes &&
           x->shape[2] * x->shape[3] > 0;
}

static bool own_is_constant(const struct bp_view *w)
{
    return (w->flags & BP_VIEW_CONSTANT) && w->data;
}

/* false: the shapes are left to other rows. */
static bool own_init(struct conv_own *p, const struct bp_prep *prep, int lanes)
{
    const struct bp_conv_attrs *a = prep->attrs;
    const struct bp_view *x = prep->in[0], *w = prep->in[1], *y = prep->out[0];
    const struct bp_view *bias = prep->n_in > 2 ? prep->in[2] : NULL;

    *p = (struct conv_own){.images = x->shape[0],
                           .channels = x->shape[1],
                           .filters = y->shape[1],
                           .x_image = x->stride[0],
                           .y_image = y->stride[0],
                           .lanes = lanes};
    if (!x->count || !w->count || !y->count || x->rank > 5) return false;
    if (prep->n_in > 3 && prep->in[3]) return false; /* a residual */
    if (bias && bias->stride[0] != 1 && bias->count > 1) return false;
    if (!own_innermost(x) || !own_innermost(y)) return false;
    for (int i = 0; i < w->rank && i < 4; i++) p->w_stride[i] = w->stride[i];
    if (own_is_point(prep, (int)a->groups))
        return (own_is_constant(w) || w->count <= CONV_OWN_FEW) && own_activation(p, prep);
    if (!own_is_depthwise(prep, p, lanes)) return false;
    p->depthwise = true;
    p->rows = x->shape[2], p->columns = x->shape[3];
    p->lines = y->shape[2], p->places = y->shape[3];
    p->x_row = x->stride[2], p->x_column = x->stride[3];
    p->y_row = y->stride[2], p->y_column = y->stride[3];
    p->window = (int)w->shape[2], p->step = (int)a->stride[0];
    p->before[0] = (int)a->pad[0], p->before[1] = (int)a->pad[1];
    return own_activation(p, prep);
}

static void own_pack_depthwise(const struct conv_own *p, const float *from, float *to)
{
    for (int row = 0; row < p->window; row++)
        for (int column = 0; column < p->window; column++)
            for (int64_t c = 0; c < p->channels; c++)
                *to++ = from[c * p->w_stride[0] + row * p->w_stride[2] + column * p->w_stride[3]];
}

static void own_pack_point(const struct conv_own *p, const float *from, float *to)
{
    int64_t lanes = p->lanes, panel = CONV_OWN_PANEL * lanes;

    for (int64_t first = 0; first < p->filters; first += panel) {
        int64_t left = (p->filters - first + lanes - 1) / lanes * lanes;
        int64_t end = first + (left < panel ? left : panel);

        for (int64_t k = 0; k < p->channels; k++)
            for (int64_t i = first; i < end; i++)
                *to++ = i < p->filters ? from[i * p->w_stride[0] + k * p->w_stride[1]] : 0;
    }
}

static void own_pack(const struct conv_own *p, const void *filters, void *to)
{
    if (p->depthwise) own_pack_depthwise(p, filters, to);
    else own_pack_point(p, filters, to);
}

static uint64_t own_bytes(const struct conv_own *p)
{
    int64_t rows = p->depthwise ? p->window * p->window
                                : (p->filters + p->lanes - 1) / p->lanes * p->lanes;

    return (uint64_t)(rows * p->channels) * sizeof(float);
}

enum bp_status cpu_conv_own_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    const struct bp_host *host = ((const struct cpu *)self)->host;
    const struct bp_view *w = prep->in[1];
    struct conv_own made, *p;

    if (!own_init(&made, prep, levels[cpu_level(prep->kernel)].lanes)) return BP_ERR_UNSUPPORTED;
    made.bytes = own_bytes(&made);
    p = host->allocate(host->ctx, sizeof *p, _Alignof(struct conv_own));
    if (p && own_is_constant(w)) made.packed = host->allocate(host->ctx, made.bytes, 64);
    if (!p || (own_is_constant(w) && !made.packed)) {
        if (p) host->release(host->ctx, p, sizeof *p);
        return bp_fail(host, BP_ERR_MEMORY, "cpu: no memory for a plan of conv");
    }
    if (made.packed) {
        enum bp_status status = cpu_constant_read(self, prep, 1);
        if (status) {
            host->release(host->ctx, made.packed, made.bytes);
            host->release(host->ctx, p, sizeof *p);
            return status;
        }
        own_pack(&made, w->data, made.packed);
    }
    *p = made;
    out->plan = p;
    out->bytes = sizeof *p + (made.packed ? made.bytes : 0);
    if (made.packed && BP_HAS(out, unread)) out->unread = UINT64_C(1) << 1;
    out->workspace = made.packed ? 0 : made.bytes;
    out->workspace_alignment = 64;
    return BP_OK;
}

void cpu_conv_own_destroy(void *self, const struct bp_kernel *kernel, void *plan)
{
    const struct bp_host *host = ((const struct cpu *)self)->host;
    struct conv_own *p = plan;

    (void)kernel;
    if (p->packed) host->release(host->ctx, p->packed, p->bytes);
    host->release(host->ctx, p, sizeof *p);
}

enum bp_status cpu_conv_own(const struct bp_launch *launch)
{
    const struct conv_own *p = launch->plan;
    const struct own_level *level = &levels[cpu_level(launch->kernel)];
    const struct bp_view *bias = launch->n_in > 2 ? launch->in[2] : NULL;
    struct conv_own_run run = {.plan = p,
                               .x = launch->in[0]->data,
                               .packed = p->packed ? p->packed : launch->workspace,
                               .bias = bias ? bias->data : NULL,
                               .y = launch->out[0]->data};
    const double of_vector = 8; /* a term takes so much less time than an addition of its own */

    if (!p->packed) own_pack(p, launch->in[1]->data, launch->workspace);
    if (p->depthwise) {
        double terms = (double)launch->out[0]->count * p->window * p->window;
        cpu_team_run(level->depthwise, &run, p->images * p->lines,
                     cpu_team_width(launch, terms / of_vector));
    } else {
        int64_t panel = CONV_OWN_PANEL * level->lanes;
        const uint64_t large = 512 << 10; /* filters are read as long as a team needs to wake */
        cpu_team_run(level->point, &run, (p->filters + panel - 1) / panel,
                     p->bytes < large ? 1 : launch->width);
    }
    return BP_OK;
}
