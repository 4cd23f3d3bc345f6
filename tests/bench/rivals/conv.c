/* SPDX-License-Identifier: Apache-2.0 */
/* conv.c: compares the distinct convolutions of ResNet-50 with oneDNN: with channels-last images,
 * and with row-major images, which oneDNN takes directly or reorders (the faster of the two). */
#include "rival.h"
#include <stdio.h>

static const struct layer {
    int c, hw, m, k, stride;
} layers[] = {
    {3, 224, 64, 7, 2},     {64, 56, 64, 1, 1},     {64, 56, 64, 3, 1},    {64, 56, 256, 1, 1},
    {256, 56, 64, 1, 1},    {256, 56, 128, 1, 1},   {128, 56, 128, 3, 2},  {256, 56, 512, 1, 2},
    {128, 28, 512, 1, 1},   {512, 28, 128, 1, 1},   {128, 28, 128, 3, 1},  {512, 28, 256, 1, 1},
    {256, 28, 256, 3, 2},   {512, 28, 1024, 1, 2},  {256, 14, 1024, 1, 1}, {1024, 14, 256, 1, 1},
    {256, 14, 256, 3, 1},   {1024, 14, 512, 1, 1},  {512, 14, 512, 3, 2},  {1024, 14, 2048, 1, 2},
    {512, 7, 2048, 1, 1},   {2048, 7, 512, 1, 1},   {512, 7, 512, 3, 1},
};

/* oneDNN's convolution, with a reorder before and after it if the layouts differ. */
struct direct {
    dnnl_primitive_t conv, in, out;
    dnnl_memory_t x, y, w, own_x, own_y; /* own: images in the layout of the convolution */
    dnnl_stream_t stream;
};

static void conv_run(void *ctx)
{
    struct direct *d = ctx;
    dnnl_exec_arg_t in[] = {{DNNL_ARG_FROM, d->x}, {DNNL_ARG_TO, d->own_x}};
    dnnl_exec_arg_t arg[] = {{DNNL_ARG_SRC, d->own_x}, {DNNL_ARG_WEIGHTS, d->w},
                             {DNNL_ARG_DST, d->own_y}};
    dnnl_exec_arg_t out[] = {{DNNL_ARG_FROM, d->own_y}, {DNNL_ARG_TO, d->y}};

    if (d->in) DNNL(dnnl_primitive_execute(d->in, d->stream, 2, in));
    DNNL(dnnl_primitive_execute(d->conv, d->stream, 3, arg));
    if (d->out) DNNL(dnnl_primitive_execute(d->out, d->stream, 2, out));
    DNNL(dnnl_stream_wait(d->stream));
}

static dnnl_primitive_t conv_reorder(const struct ring *ring, const dnnl_memory_desc_t *from,
                                     const dnnl_memory_desc_t *to)
{
    dnnl_primitive_desc_t desc;
    dnnl_primitive_t made;

    DNNL(dnnl_reorder_primitive_desc_create(&desc, from, ring->engine, to, ring->engine, NULL));
    DNNL(dnnl_primitive_create(&made, desc));
    DNNL(dnnl_primitive_desc_destroy(desc));
    return made;
}

static dnnl_memory_desc_t conv_image(int c, int hw, dnnl_format_tag_t tag)
{
    dnnl_memory_desc_t desc;

    DNNL(dnnl_memory_desc_init_by_tag(&desc, 4, (dnnl_dims_t){1, c, hw, hw}, dnnl_f32, tag));
    return desc;
}

/* Reorders the weights once to the layout that the primitive prefers. */
static void conv_pack(const struct ring *ring, struct direct *d, const struct layer *l,
                      const dnnl_memory_desc_t *wanted, float *weights)
{
    dnnl_memory_desc_t plain;
    dnnl_memory_t from;
    dnnl_primitive_t way;

    DNNL(dnnl_memory_desc_init_by_tag(&plain, 4, (dnnl_dims_t){l->m, l->c, l->k, l->k}, dnnl_f32,
                                      dnnl_oihw));
    DNNL(dnnl_memory_create(&from, &plain, ring->engine, weights));
    DNNL(dnnl_memory_create(&d->w, wanted, ring->engine, DNNL_MEMORY_ALLOCATE));
    way = conv_reorder(ring, &plain, wanted);
    DNNL(dnnl_primitive_execute(way, ring->dnnl, 2,
                                (dnnl_exec_arg_t[]){{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, d->w}}));
    DNNL(dnnl_stream_wait(ring->dnnl));
    dnnl_primitive_destroy(way);
    dnnl_memory_destroy(from);
}

/* lies: layout of the images in memory; through: layout in which the convolution works. */
static void direct_init(const struct ring *ring, struct direct *d, const struct layer *l,
                        struct ready *ours, dnnl_format_tag_t lies, dnnl_format_tag_t through)
{
    int after = (l->hw + 2 * (l->k / 2) - l->k) / l->stride + 1;
    dnnl_memory_desc_t x = conv_image(l->c, l->hw, through), y = conv_image(l->m, after, through),
                       w;
    dnnl_memory_desc_t x_lies = conv_image(l->c, l->hw, lies),
                       y_lies = conv_image(l->m, after, lies);
    dnnl_dims_t step = {l->stride, l->stride}, pad = {l->k / 2, l->k / 2};
    dnnl_convolution_desc_t op;
    dnnl_primitive_desc_t desc;

    *d = (struct direct){.stream = ring->dnnl};
    DNNL(dnnl_memory_desc_init_by_tag(&w, 4, (dnnl_dims_t){l->m, l->c, l->k, l->k}, dnnl_f32,
                                      dnnl_format_tag_any));
    DNNL(dnnl_convolution_forward_desc_init(&op, dnnl_forward_inference, dnnl_convolution_direct,
                                            &x, &w, NULL, &y, step, pad, pad));
    DNNL(dnnl_primitive_desc_create(&desc, &op, NULL, ring->engine, NULL));
    DNNL(dnnl_primitive_create(&d->conv, desc));
    conv_pack(ring, d, l, dnnl_primitive_desc_query_md(desc, dnnl_query_weights_md, 0),
              ring_data(ours->in[1]));
    DNNL(dnnl_primitive_desc_destroy(desc));
    DNNL(dnnl_memory_create(&d->x, &x_lies, ring->engine, ring_data(ours->in[0])));
    DNNL(dnnl_memory_create(&d->y, &y_lies, ring->engine, ring_data(ours->out[0])));
    if (lies == through) {
        d->own_x = d->x;
        d->own_y = d->y;
        return;
    }
    DNNL(dnnl_memory_create(&d->own_x, &x, ring->engine, DNNL_MEMORY_ALLOCATE));
    DNNL(dnnl_memory_create(&d->own_y, &y, ring->engine, DNNL_MEMORY_ALLOCATE));
    d->in = conv_reorder(ring, &x_lies, &x);
    d->out = conv_reorder(ring, &y, &y_lies);
}

static void direct_finish(struct direct *d)
{
    if (d->own_x != d->x) dnnl_memory_destroy(d->own_x);
    if (d->own_y != d->y) dnnl_memory_destroy(d->own_y);
    if (d->in) dnnl_primitive_destroy(d->in);
    if (d->out) dnnl_primitive_destroy(d->out);
    dnnl_memory_destroy(d->x);
    dnnl_memory_destroy(d->y);
    dnnl_memory_destroy(d->w);
    dnnl_primitive_destroy(d->conv);
}

static void conv_measure(const struct ring *ring, const struct layer *l, bool last)
{
    int64_t x[] = {1, l->c, l->hw, l->hw}, w[] = {l->m, l->c, l->k, l->k};
    struct bp_conv_attrs attrs = bp_conv_defaults();
    struct bp_tensor *weights, *in[3] = {NULL};
    struct direct way[2];
    struct ready ours;
    char name[80];
    int best = 0;

    snprintf(name, sizeof name, "conv %s %d %dx%d to %d, %dx%d / %d", last ? "nhwc" : "nchw", l->c,
             l->hw, l->hw, l->m, l->k, l->k, l->stride);
    if (!ring_wants(ring, name)) return;
    attrs.stride[0] = attrs.stride[1] = l->stride;
    attrs.pad[0] = attrs.pad[1] = attrs.pad[3] = attrs.pad[4] = l->k / 2;
    weights = ring_tensor(ring, BP_F32, 4, w);
    MUST(bp_tensor_freeze(weights));
    in[0] = last ? ring_channels_last(ring, BP_F32, x) : ring_tensor(ring, BP_F32, 4, x);
    in[1] = weights;
    if (!ready_init(ring, &ours, "conv", &attrs, in, 3)) return;
    direct_init(ring, &way[0], l, &ours, last ? dnnl_nhwc : dnnl_nchw,
                last ? dnnl_nhwc : dnnl_nchw);
    if (!last) {
        direct_init(ring, &way[1], l, &ours, dnnl_nchw, dnnl_nhwc);
        best = ring_time(conv_run, &way[1]) < ring_time(conv_run, &way[0]);
    }
    duel(ring, &(struct duel){.name = name,
                              .ours = ready_run, .ours_ctx = &ours, .theirs = conv_run,
                              .theirs_ctx = &way[best], .target = 0.97,
                              .rival = last   ? "oneDNN nhwc"
                                       : best ? "oneDNN nhwc, reorders"
                                              : "oneDNN nchw"});
    direct_finish(&way[0]);
    if (!last) direct_finish(&way[1]);
    ready_finish(&ours);
}

void rival_conv(const struct ring *ring)
{
    for (int last = 1; last >= 0; last--)
        for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
            conv_measure(ring, &layers[i], last);
}
