/* SPDX-License-Identifier: Apache-2.0 */
/* cudnn_graph.c: computes convolutions of half types by cuDNN's graph interface, which has kernels
 * that the older interface lacks. The plan describes a graph of one operation, and of further ones
 * if there are a bias, a residual and relu. They are computed from the sums in f32, in virtual
 * tensors: if the bias were in the result, and beta 1, some kernels would round the sums before
 * they add the bias. */
#include "cudnn_plan.h"
#include <string.h>

/* The number of the first virtual tensor, after those of the library's operands. Each step behind
 * the product reads one. */
enum { SUMS = OPERANDS, STEPS = 3 };

/* A graph that is being made, and its tensors by their ids. */
struct conv_builder {
    struct cudnn_builder b;
    const struct cudnn_plan *plan;
    void *tensor[SUMS + STEPS];
};

/* The number of steps behind the product. */
static int step_count(const struct cudnn_plan *p)
{
    return p->adds_bias + p->adds_residual + p->adds_relu;
}

static bool add_tensor(struct conv_builder *c, int id, int type, const int *shape,
                       const int *stride, int64_t alignment)
{
    const struct cudnn_tensor t = {.type = type, .rank = c->plan->rank, .shape = shape,
                                   .stride = stride, .id = id, .alignment = alignment,
                                   .is_virtual = id >= SUMS};

    c->tensor[id] = cudnn_add_tensor(&c->b, &t);
    return c->tensor[id] != NULL;
}

static bool add_tensors(struct conv_builder *c, int64_t alignment)
{
    const struct cudnn_plan *p = c->plan;
    const int type = cudnn_type_of(p->dtype);
    int shape[AXES], stride[AXES];

    for (int i = 0; i < TENSORS; i++)
        if (!add_tensor(c, i, type, p->shape[i], p->stride[i], alignment)) return false;
    cudnn_bias_shape(p, shape, stride);
    if (p->adds_bias && !add_tensor(c, BIAS, type, shape, stride, alignment)) return false;
    if (p->adds_residual && !add_tensor(c, RESIDUAL, type, p->shape[Y], p->stride[Y], alignment))
        return false;
    for (int i = 0; i < step_count(p); i++)
        if (!add_tensor(c, SUMS + i, CUDNN_F32, p->shape[Y], p->stride[Y], alignment)) return false;
    return true;
}

/* Returns NULL if the library cannot describe the operation, as does the next function. */
static void *add_steps(struct conv_builder *c)
{
    static const int sums = CUDNN_F32, mode = CUDNN_CORRELATION;
    const struct cudnn_steps *s = &c->plan->steps;
    struct cudnn_builder *b = &c->b;
    void *d = cudnn_add(b, CUDNN_IS_CONV);
    int axes = c->plan->rank - 2;

    return d && cudnn_set(b, d, CUDNN_CONV_SUMS, CUDNN_OF_DATA_TYPES, 1, &sums) &&
                   cudnn_set(b, d, CUDNN_CONV_MODE, CUDNN_OF_CONV_MODES, 1, &mode) &&
                   cudnn_set_i64(b, d, CUDNN_CONV_AXES, 1, &axes) &&
                   cudnn_set_i64(b, d, CUDNN_CONV_DILATION, axes, s->dilation) &&
                   cudnn_set_i64(b, d, CUDNN_CONV_STRIDE, axes, s->stride) &&
                   cudnn_set_i64(b, d, CUDNN_CONV_PAD_BEFORE, axes, s->pad) &&
                   cudnn_set_i64(b, d, CUDNN_CONV_PAD_BEHIND, axes, s->behind) &&
                   cudnn_finalize(b, d)
               ? d
               : NULL;
}

/* The library derives the number of groups from the shapes. */
static void *add_product(struct conv_builder *c)
{
    static const struct {
        int kind, tensor[TENSORS], conv, alpha, beta;
    } words[] = {
        [CONV_FORWARD] = {CUDNN_IS_FORWARD, {CUDNN_FORWARD_X, CUDNN_FORWARD_W, CUDNN_FORWARD_Y},
                          CUDNN_FORWARD_CONV, CUDNN_FORWARD_ALPHA, CUDNN_FORWARD_BETA},
        [CONV_GRAD_INPUT] = {CUDNN_IS_GRAD_INPUT,
                             {CUDNN_GRAD_INPUT_X, CUDNN_GRAD_INPUT_W, CUDNN_GRAD_INPUT_Y},
                             CUDNN_GRAD_INPUT_CONV, CUDNN_GRAD_INPUT_ALPHA, CUDNN_GRAD_INPUT_BETA},
        [CONV_GRAD_WEIGHT] = {CUDNN_IS_GRAD_WEIGHT,
                              {CUDNN_GRAD_WEIGHT_X, CUDNN_GRAD_WEIGHT_W, CUDNN_GRAD_WEIGHT_Y},
                              CUDNN_GRAD_WEIGHT_CONV, CUDNN_GRAD_WEIGHT_ALPHA,
                              CUDNN_GRAD_WEIGHT_BETA},
    };
    const float alpha = 1, beta = 0;
    const struct cudnn_plan *p = c->plan;
    struct cudnn_builder *b = &c->b;
    void *steps = add_steps(c), *o = steps ? cudnn_add(b, words[p->kind].kind) : NULL;

    for (int i = 0; o && i < TENSORS; i++) {
        void *tensor = c->tensor[i == Y && step_count(p) ? SUMS : i];
        if (!cudnn_set_descriptor(b, o, words[p->kind].tensor[i], tensor)) return NULL;
    }
    return o && cudnn_set_descriptor(b, o, words[p->kind].conv, steps) &&
                   cudnn_set(b, o, words[p->kind].alpha, CUDNN_OF_F32, 1, &alpha) &&
                   cudnn_set(b, o, words[p->kind].beta, CUDNN_OF_F32, 1, &beta) &&
                   cudnn_finalize(b, o)
               ? o
               : NULL;
}

/* with: the tensor that is added; NULL: relu. */
static bool add_step(struct conv_builder *c, void *with, void **operation, int *n)
{
    void *x = c->tensor[SUMS + *n - 1],
         *y = *n == step_count(c->plan) ? c->tensor[Y] : c->tensor[SUMS + *n];

    operation[*n] = cudnn_add_pointwise(
        &c->b, &(struct cudnn_step){.mode = with ? CUDNN_ADD : CUDNN_RELU, .x = x, .with = with,
                                    .y = y});
    return operation[(*n)++] != NULL;
}

static bool add_graph(struct conv_builder *c)
{
    const struct cudnn_plan *p = c->plan;
    void *operation[1 + STEPS] = {add_product(c)};
    int n = 1;

    return operation[0] &&
           (!p->adds_bias || add_step(c, c->tensor[BIAS], operation, &n)) &&
           (!p->adds_residual || add_step(c, c->tensor[RESIDUAL], operation, &n)) &&
           (!p->adds_relu || add_step(c, NULL, operation, &n)) &&
           cudnn_build(&c->b, operation, n);
}

/* All inputs of a graph. */
struct conv_key {
    int kind, alignment, dtype, rank, adds_bias, adds_residual, adds_relu, unused;
    int shape[TENSORS][AXES], stride[TENSORS][AXES];
    struct cudnn_steps steps;
};
_Static_assert(sizeof(struct conv_key) == sizeof(int) * (20 + 2 * TENSORS * AXES), "no padding");

struct conv_of {
    const struct cudnn_plan *plan;
    int64_t alignment;
};

/* An engine without notes may add gradients of images in f16. Where the library applies relu, the
 * engine must promise to keep NaN, because the result of max(NaN, 0) may be 0. */
static bool conv_make(const void *of, struct cudnn_graph *out)
{
    const struct cudnn_plan *p = ((const struct conv_of *)of)->plan;
    const int64_t alignment = ((const struct conv_of *)of)->alignment;
    struct conv_builder c = {.b = {.device = p->device, .handle = p->handle,
                                   .needs_notes = cudnn_may_add_in_half(p),
                                   .keeps_nan = p->adds_relu ||
                                                kit_setting_is_on(GPU_NAME, "KEEP_NAN")},
                             .plan = p};

    if (cudnn_has_graphs() && add_tensors(&c, alignment) && add_graph(&c)) {
        *out = c.b.graph;
        return true;
    }
    cudnn_graph_drop(p->device, &c.b.graph);
    return false;
}

const struct cudnn_graph *cudnn_graph_take(const struct cudnn_plan *p, int64_t alignment)
{
    struct conv_key key = {.kind = (int)p->kind, .alignment = (int)alignment, .dtype = p->dtype,
                           .rank = p->rank, .adds_bias = p->adds_bias,
                           .adds_residual = p->adds_residual, .adds_relu = p->adds_relu,
                           .steps = p->steps};
    const struct conv_of of = {p, alignment};

    memcpy(key.shape, p->shape, sizeof key.shape);
    memcpy(key.stride, p->stride, sizeof key.stride);
    return cudnn_kept_take(p->device, &key, sizeof key, conv_make, &of);
}

int cudnn_graph_run(const struct cudnn_plan *p, const struct cudnn_graph *graph, void *handle,
                    void *const at[OPERANDS], void *workspace, const char **out_function)
{
    int64_t id[OPERANDS];
    void *used[OPERANDS];
    int n = 0;

    for (int i = 0; i < OPERANDS; i++) {
        if ((i == BIAS && !p->adds_bias) || (i == RESIDUAL && !p->adds_residual)) continue;
        id[n] = i;
        used[n++] = at[i];
    }
    return cudnn_graph_execute(p->device, graph, handle, n, id, used, workspace, out_function);
}
