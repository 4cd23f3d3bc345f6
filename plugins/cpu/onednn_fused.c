/* SPDX-License-Identifier: Apache-2.0 */
/* onednn_fused.c: computes products with an epilogue by oneDNN, which adds the bias. Then the
 * plugin's rows of add and of the activation run over the result while it is in the cache: oneDNN's
 * own activations turn NaN into 0 (relu, clip) or are not faster. Where the result of a convolution
 * is small, oneDNN adds the residual too: decision 0025. */
#include <kit/activation.h>
#include "kernels.h"
#include "matmul.h"
#include "onednn.h"
#include "walk.h"

enum {
    EPILOGUE_BLOCK = 8192, /* elements that are added and activated at a time */
    EPILOGUE_RESIDUAL = 3  /* number of the input */
};

/* Runs another row of the plugin, which has no plan. */
static enum bp_status epilogue_row(const struct bp_launch *launch, const struct bp_kernel *row,
                                   const void *attrs, const struct bp_view *const *in,
                                   uint32_t n_in, const struct bp_view *out)
{
    static const uint16_t at[] = {0, 1, 2};
    struct bp_launch inner = *launch;

    inner.kernel = row;
    inner.plan = NULL;
    inner.attrs = attrs;
    inner.in = in;
    inner.out = &out;
    inner.in_at = inner.out_at = at;
    inner.n_in = n_in;
    inner.n_out = 1;
    return row->launch(&inner);
}

/* y = activation(sum + residual), or activation(y). */
static enum bp_status epilogue_views(const struct bp_launch *launch,
                                     const struct onednn_epilogue *then,
                                     const struct bp_view *sum, const struct bp_view *residual,
                                     const struct bp_view *y)
{
    enum bp_status status = BP_OK;

    if (then->add)
        status = epilogue_row(launch, then->add, NULL, (const struct bp_view *[]){residual, sum},
                              2, y); /* y may be the first input */
    if (then->activate && !status)
        status = epilogue_row(launch, then->activate, &then->attrs, &y, 1, y);
    return status;
}

enum bp_status onednn_epilogue_begin(const struct bp_launch *launch,
                                     const struct onednn_epilogue *then)
{
    const struct bp_view *y = launch->out[0];

    if (!then->copy || launch->in[EPILOGUE_RESIDUAL]->data == y->data) return BP_OK;
    return epilogue_row(launch, then->copy, NULL, &launch->in[EPILOGUE_RESIDUAL], 1, y);
}

/* An addition and an activation of one image, as lines without gaps. */
struct epilogue_call {
    struct bp_launch launch;
    const struct onednn_epilogue *then;
    char *sum, *residual, *y;
    int64_t count;
    uint32_t size; /* of an element */
};

static void epilogue_block(void *arg, int64_t task)
{
    const struct epilogue_call *c = arg;
    static const int64_t one = 1;
    int64_t begin = task * EPILOGUE_BLOCK, left = c->count - begin,
            n = left < EPILOGUE_BLOCK ? left : EPILOGUE_BLOCK;
    struct bp_view y = {.data = c->y + begin * c->size, .shape = &n, .stride = &one, .count = n,
                        .dtype = c->launch.out[0]->dtype, .rank = 1},
                   sum = y, residual = y;

    sum.data = c->sum + begin * c->size;
    residual.data = c->residual + begin * c->size;
    epilogue_views(&c->launch, c->then, &sum, &residual, &y); /* formulas do not fail */
}

enum bp_status onednn_epilogue_run(const struct bp_launch *launch,
                                   const struct onednn_epilogue *then, int64_t image, void *sum)
{
    struct bp_view y = *launch->out[0], residual = {0}, result;
    int64_t shape[WALK_RANK];

    if (then->add) {
        residual = *launch->in[EPILOGUE_RESIDUAL];
        residual.data = (char *)residual.data + (uint64_t)image * then->r_step;
    }
    if (then->images > 1) { /* of a convolution */
        for (int a = 0; a < y.rank; a++) shape[a] = y.shape[a];
        y.data = (char *)y.data + (uint64_t)image * then->y_step;
        y.count /= then->images;
        residual.count = y.count;
        shape[0] = 1;
        y.shape = residual.shape = shape;
    }
    if (then->flat && then->add && then->activate) {
        struct epilogue_call call = {.launch = *launch, .then = then, .sum = sum,
                                     .residual = residual.data, .y = y.data, .count = y.count,
                                     .size = y.dtype == BP_F32 ? 4 : 2};
        call.launch.width = 1;
        cpu_team_run(epilogue_block, &call, (y.count + EPILOGUE_BLOCK - 1) / EPILOGUE_BLOCK,
                     cpu_team_width(launch, (double)y.count));
        return BP_OK;
    }
    result = y;
    result.data = sum;
    return epilogue_views(launch, then, &result, &residual, &y);
}

/* Whether elements have no gaps, in any order of the axes. */
static bool epilogue_is_dense(const struct bp_view *v)
{
    int64_t step = 1;

    for (int found = 1; found;) {
        found = 0;
        for (int a = 0; a < v->rank && !found; a++)
            if (v->shape[a] > 1 && v->stride[a] == step) {
                step *= v->shape[a];
                found = 1;
            }
    }
    return step == v->count;
}

static bool epilogue_is_flat(const struct bp_view *y, const struct bp_view *residual)
{
    for (int a = 0; residual && a < y->rank; a++)
        if (y->shape[a] > 1 && y->stride[a] != residual->stride[a]) return false;
    return epilogue_is_dense(y);
}

/* Finds the rows of the epilogue. false: the plugin lacks one, as that of an activation that is
 * newer than the list of activation.h. */
static bool epilogue_init(const struct cpu *self, const struct bp_prep *prep, int64_t activation,
                          double alpha, double beta, struct onednn_epilogue *out)
{
    const char *name = kit_activation_op(activation);
    const struct bp_view *residual =
        prep->n_in > EPILOGUE_RESIDUAL ? prep->in[EPILOGUE_RESIDUAL] : NULL;
    uint8_t dtype = prep->in[0]->dtype;

    *out = (struct onednn_epilogue){.images = 1,
                                    .flat = epilogue_is_flat(prep->out[0], residual),
                                    .attrs.numbers = {sizeof out->attrs.numbers, alpha, beta}};
    if (activation == BP_ACTIVATION_GELU || activation == BP_ACTIVATION_GELU_TANH)
        out->attrs.gelu = (struct bp_gelu_attrs){sizeof out->attrs.gelu,
                                                 activation == BP_ACTIVATION_GELU_TANH};
    if (residual) out->add = cpu_row_find(self, "add", dtype);
    if (residual && !out->add) return false;
    if (activation == BP_ACTIVATION_NONE) return true;
    if (name) out->activate = cpu_row_find(self, name, dtype);
    return out->activate != NULL;
}

/* Decides whether images are computed one by one: where all results leave the caches, and one is
 * large enough that the cost of each launch does not count. */
static void epilogue_divide(const struct bp_prep *prep, struct onednn_epilogue *e)
{
    const struct bp_view *x = prep->in[0], *y = prep->out[0];
    const uint64_t whole = 4 << 20, image = 512 << 10, size = y->dtype == BP_F32 ? 4 : 2;
    uint64_t bytes = (uint64_t)y->count * size;

    if (!y->count || bytes < whole || bytes / (uint64_t)y->shape[0] < image) return;
    if (!e->add && !e->activate) return;
    if (y->stride[0] * y->shape[0] != y->count) e->flat = false; /* an image is not contiguous */
    e->images = y->shape[0];
    e->x_step = (uint64_t)x->stride[0] * size;
    e->y_step = (uint64_t)y->stride[0] * size;
    if (e->add) e->r_step = (uint64_t)prep->in[EPILOGUE_RESIDUAL]->stride[0] * size;
}

/* Prepares the product of one image. oneDNN adds the residual, if it can, unless y leaves the
 * cache: oneDNN would wait for each part of the residual. */
static enum bp_status epilogue_conv(struct cpu *self, const struct bp_prep *prep,
                                    const struct onednn_epilogue *e, struct bp_plan *out)
{
    const int64_t most = 2 << 20; /* elements */
    struct onednn_epilogue sums = *e;

    if (e->add && e->images == 1 && prep->out[0]->count <= most) {
        sums.copy = cpu_row_find(self, "assign", prep->in[0]->dtype);
        sums.add = NULL;
        enum bp_status status =
            sums.copy ? onednn_conv_prepare(self, prep, &sums, out) : BP_ERR_UNSUPPORTED;
        if (status != BP_ERR_UNSUPPORTED) return status;
    }
    return onednn_conv_prepare(self, prep, e, out);
}

enum bp_status cpu_fused_conv_dnnl_prepare(void *p, const struct bp_prep *prep,
                                           struct bp_plan *out)
{
    const struct bp_fused_conv_attrs *a = prep->attrs;
    struct bp_view x = *prep->in[0], y = *prep->out[0];
    int64_t x_shape[WALK_RANK], y_shape[WALK_RANK];
    const struct bp_view *in[] = {&x, prep->in[1], prep->n_in > 2 ? prep->in[2] : NULL};
    const struct bp_view *result = &y;
    struct bp_prep one = *prep;
    struct onednn_epilogue e;

    if (!epilogue_init(p, prep, a->activation, a->alpha, a->beta, &e)) return BP_ERR_UNSUPPORTED;
    epilogue_divide(prep, &e);
    for (int i = 0; i < x.rank; i++) {
        x_shape[i] = x.shape[i];
        y_shape[i] = y.shape[i];
    }
    x_shape[0] /= e.images;
    y_shape[0] /= e.images;
    x.shape = x_shape;
    y.shape = y_shape;
    x.count /= e.images;
    y.count /= e.images;
    one.in = in;
    one.n_in = 3;
    one.out = &result;
    return epilogue_conv(p, &one, &e, out);
}

enum bp_status cpu_fused_matmul_dnnl_prepare(void *p, const struct bp_prep *prep,
                                             struct bp_plan *out)
{
    const struct bp_fused_matmul_attrs *a = prep->attrs;
    struct onednn_epilogue e;
    struct matmul s;

    if (!onednn_matmul_takes(p, prep, &s) ||
        !epilogue_init(p, prep, a->activation, a->alpha, a->beta, &e))
        return BP_ERR_UNSUPPORTED;
    return onednn_matmul_plan(p, prep, &s, &e, out);
}

enum bp_status cpu_fused_conv_f32_dnnl(const struct bp_launch *launch)
{
    return onednn_plan_run(launch);
}

enum bp_status cpu_fused_conv_bf16_dnnl(const struct bp_launch *launch)
{
    return onednn_plan_run(launch);
}

enum bp_status cpu_fused_matmul_f32_dnnl(const struct bp_launch *launch)
{
    return onednn_plan_run(launch);
}

enum bp_status cpu_fused_matmul_bf16_dnnl(const struct bp_launch *launch)
{
    return onednn_plan_run(launch);
}
