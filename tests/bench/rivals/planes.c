/* SPDX-License-Identifier: Apache-2.0 */
/* planes.c: compares pooling and batch_norm, in sizes of image networks, with oneDNN. */
#include "rival.h"
#include <stdio.h>

struct direct {
    dnnl_primitive_t op;
    dnnl_exec_arg_t arg[5];
    int n;
    dnnl_stream_t stream;
};

static void planes_run(void *ctx)
{
    struct direct *d = ctx;

    DNNL(dnnl_primitive_execute(d->op, d->stream, d->n, d->arg));
    DNNL(dnnl_stream_wait(d->stream));
}

static void planes_give(const struct ring *ring, struct direct *d, int arg,
                        const dnnl_memory_desc_t *desc, void *data)
{
    dnnl_memory_t memory;

    DNNL(dnnl_memory_create(&memory, desc, ring->engine, data));
    d->arg[d->n++] = (dnnl_exec_arg_t){arg, memory};
}

static void direct_make(const struct ring *ring, struct direct *d, const void *op)
{
    dnnl_primitive_desc_t desc;

    *d = (struct direct){.stream = ring->dnnl};
    DNNL(dnnl_primitive_desc_create(&desc, op, NULL, ring->engine, NULL));
    DNNL(dnnl_primitive_create(&d->op, desc));
    DNNL(dnnl_primitive_desc_destroy(desc));
}

static void planes_compare(const struct ring *ring, const char *name, struct ready *ours,
                           struct direct *d)
{
    duel(ring, &(struct duel){.name = name,
                              .ours = ready_run, .ours_ctx = ours, .theirs = planes_run,
                              .theirs_ctx = d, .target = 1.0, .less = true, .rival = "oneDNN"});
    while (d->n) dnnl_memory_destroy(d->arg[--d->n].memory);
    dnnl_primitive_destroy(d->op);
    ready_finish(ours);
}

static dnnl_memory_desc_t desc_of(const int64_t *shape, bool last)
{
    dnnl_dims_t dims = {shape[0], shape[1], shape[2], shape[3]};
    dnnl_memory_desc_t desc;

    DNNL(dnnl_memory_desc_init_by_tag(&desc, 4, dims, dnnl_f32, last ? dnnl_nhwc : dnnl_nchw));
    return desc;
}

static struct bp_tensor *planes_image(const struct ring *ring, const int64_t *shape, bool last)
{
    return last ? ring_channels_last(ring, BP_F32, shape) : ring_tensor(ring, BP_F32, 4, shape);
}

struct window {
    const char *op;
    int64_t shape[4], size, step, pad, out;
};

static void planes_pool(const struct ring *ring, const struct window *w, bool last)
{
    bool max = w->op[0] == 'm';
    int64_t out[] = {w->shape[0], w->shape[1], w->out, w->out};
    dnnl_memory_desc_t src = desc_of(w->shape, last), dst = desc_of(out, last);
    dnnl_dims_t step = {w->step, w->step}, size = {w->size, w->size}, pad = {w->pad, w->pad};
    struct bp_max_pool_attrs m = bp_max_pool_defaults();
    struct bp_avg_pool_attrs a = bp_avg_pool_defaults();
    struct bp_tensor *x;
    dnnl_pooling_desc_t op;
    struct direct d;
    struct ready ours;
    char name[80];

    snprintf(name, sizeof name, "%s %dx%d of %dx%dx%d %s", w->op, (int)w->size, (int)w->size,
             (int)w->shape[1], (int)w->shape[2], (int)w->shape[3], last ? "nhwc" : "nchw");
    if (!ring_wants(ring, name)) return;
    for (int i = 0; i < 2; i++) {
        m.window[i] = a.window[i] = w->size;
        m.stride[i] = a.stride[i] = w->step;
        m.pad[i] = m.pad[3 + i] = a.pad[i] = a.pad[3 + i] = w->pad;
    }
    x = planes_image(ring, w->shape, last);
    if (!ready_init(ring, &ours, w->op, max ? (const void *)&m : &a, &x, 1)) return;
    DNNL(dnnl_pooling_forward_desc_init(&op, dnnl_forward_inference,
                                        max ? dnnl_pooling_max : dnnl_pooling_avg_exclude_padding,
                                        &src, &dst, step, size, pad, pad));
    direct_make(ring, &d, &op);
    planes_give(ring, &d, DNNL_ARG_SRC, &src, ring_data(ours.in[0]));
    planes_give(ring, &d, DNNL_ARG_DST, &dst, ring_data(ours.out[0]));
    planes_compare(ring, name, &ours, &d);
}

static void planes_norm(const struct ring *ring, const int64_t *shape, bool last)
{
    dnnl_memory_desc_t src = desc_of(shape, last), one, two;
    struct bp_tensor *in[5];
    dnnl_batch_normalization_desc_t op;
    struct direct d;
    struct ready ours;
    char name[80];

    snprintf(name, sizeof name, "batch_norm %dx%dx%d %s", (int)shape[1], (int)shape[2],
             (int)shape[3], last ? "nhwc" : "nchw");
    if (!ring_wants(ring, name)) return;
    in[0] = planes_image(ring, shape, last);
    for (int i = 1; i < 5; i++) in[i] = ring_tensor(ring, BP_F32, 1, &shape[1]);
    for (int64_t i = 0; i < shape[1]; i++) ((float *)ring_data(in[4]))[i] = 1; /* variance */
    if (!ready_init(ring, &ours, "batch_norm", NULL, in, 5)) return;
    DNNL(dnnl_memory_desc_init_by_tag(&one, 1, (dnnl_dims_t){shape[1]}, dnnl_f32, dnnl_a));
    DNNL(dnnl_memory_desc_init_by_tag(&two, 2, (dnnl_dims_t){2, shape[1]}, dnnl_f32, dnnl_ab));
    DNNL(dnnl_batch_normalization_forward_desc_init(&op, dnnl_forward_inference, &src, 1e-5f,
                                                    dnnl_use_global_stats | dnnl_use_scaleshift));
    direct_make(ring, &d, &op);
    planes_give(ring, &d, DNNL_ARG_SRC, &src, ring_data(ours.in[0]));
    planes_give(ring, &d, DNNL_ARG_DST, &src, ring_data(ours.out[0]));
    planes_give(ring, &d, DNNL_ARG_MEAN, &one, ring_data(ours.in[3]));
    planes_give(ring, &d, DNNL_ARG_VARIANCE, &one, ring_data(ours.in[4]));
    planes_give(ring, &d, DNNL_ARG_SCALE_SHIFT, &two, DNNL_MEMORY_ALLOCATE);
    planes_compare(ring, name, &ours, &d);
}

void rival_planes(const struct ring *ring)
{
    static const struct window windows[] = {{"max_pool", {1, 64, 112, 112}, 3, 2, 1, 56},
                                            {"max_pool", {16, 64, 112, 112}, 3, 2, 1, 56},
                                            {"max_pool", {1, 512, 28, 28}, 2, 2, 0, 14},
                                            {"avg_pool", {1, 256, 56, 56}, 2, 2, 0, 28},
                                            {"avg_pool", {1, 2048, 7, 7}, 7, 1, 0, 1}};
    static const int64_t shapes[][4] = {{1, 256, 56, 56}, {16, 64, 56, 56}, {1, 512, 7, 7}};

    for (int last = 0; last < 2; last++) {
        for (size_t i = 0; i < sizeof windows / sizeof *windows; i++)
            planes_pool(ring, &windows[i], last);
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            planes_norm(ring, shapes[i], last);
    }
}
