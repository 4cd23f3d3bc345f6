/* SPDX-License-Identifier: Apache-2.0 */
/* cudnn_graph.c: computes convolutions of half types by cuDNN's graph interface, which has kernels
 * that the older interface lacks. The plan describes a graph of one operation, or of two if there
 * is a bias. The bias is added to the sums in f32, in a virtual tensor: if the bias were in the
 * result, and beta 1, some kernels would round the sums before they add the bias. */
#include "cudnn_plan.h"

/* The number of the virtual tensor of sums, after those of the library's operands. */
enum { SUMS = OPERANDS };

/* A graph that is being made, and its tensors by their ids. */
struct conv_builder {
    struct cudnn_builder b;
    const struct cudnn_plan *plan;
    void *tensor[SUMS + 1];
};

static bool add_tensor(struct conv_builder *c, int id, int type, const int *shape,
                       const int *stride, int64_t alignment)
{
    const struct cudnn_tensor t = {type, c->plan->rank, shape, stride, id, alignment, id == SUMS};

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
    if (!p->adds_bias) return true;
    cudnn_bias_shape(p, shape, stride);
    return add_tensor(c, BIAS, type, shape, stride, alignment) &&
           add_tensor(c, SUMS, CUDNN_F32, p->shape[Y], p->stride[Y], alignment);
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
        void *tensor = c->tensor[i == Y && p->adds_bias ? SUMS : i];
        if (!cudnn_set_descriptor(b, o, words[p->kind].tensor[i], tensor)) return NULL;
    }
    return o && cudnn_set_descriptor(b, o, words[p->kind].conv, steps) &&
                   cudnn_set(b, o, words[p->kind].alpha, CUDNN_OF_F32, 1, &alpha) &&
                   cudnn_set(b, o, words[p->kind].beta, CUDNN_OF_F32, 1, &beta) &&
                   cudnn_finalize(b, o)
               ? o
               : NULL;
}

static bool add_graph(struct conv_builder *c)
{
    void *operation[2] = {add_product(c)};
    int n = 1;

    if (operation[0] && c->plan->adds_bias)
        operation[n++] = cudnn_add_pointwise(&c->b, CUDNN_ADD, c->tensor[SUMS], c->tensor[BIAS],
                                             c->tensor[Y]);
    return operation[n - 1] && cudnn_build(&c->b, operation, n);
}

/* An engine without notes may add gradients of images in f16. */
bool cudnn_graph_make(const struct cudnn_plan *p, int64_t alignment, struct cudnn_graph *out)
{
    struct conv_builder c = {.b = {.device = p->device, .handle = p->handle,
                                   .needs_notes = cudnn_may_add_in_half(p)}, .plan = p};

    if (cudnn_has_graphs() && add_tensors(&c, alignment) && add_graph(&c)) {
        *out = c.b.graph;
        return true;
    }
    cudnn_graph_drop(p->device, &c.b.graph);
    return false;
}

int cudnn_graph_run(const struct cudnn_plan *p, const struct cudnn_graph *graph, void *handle,
                    void *const at[OPERANDS], void *workspace, const char **out_function)
{
    static const int64_t id[OPERANDS] = {X, W, Y, BIAS};

    return cudnn_graph_execute(p->device, graph, handle, p->adds_bias ? OPERANDS : TENSORS, id, at,
                               workspace, out_function);
}
