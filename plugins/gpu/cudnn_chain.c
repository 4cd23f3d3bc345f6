/* SPDX-License-Identifier: Apache-2.0 */
/* cudnn_chain.c: describes graphs of several operations; see cudnn_chain.h. */
#include "cudnn_chain.h"

static void *chain_result(struct cudnn_chain *c, void *made)
{
    c->failed |= !made;
    return made;
}

static void *chain_add_tensor(struct cudnn_chain *c, const struct cudnn_tensor *tensor)
{
    return c->failed ? NULL : chain_result(c, cudnn_add_tensor(&c->b, tensor));
}

void *cudnn_chain_tensor(struct cudnn_chain *c, int id, int type, const int *shape,
                         const int *stride)
{
    const struct cudnn_tensor t = {.type = type,
                                   .rank = c->rank,
                                   .shape = shape,
                                   .stride = stride,
                                   .id = id,
                                   .alignment = CUDNN_ALIGNED};

    return chain_add_tensor(c, &t);
}

void *cudnn_chain_virtual(struct cudnn_chain *c, int type, const int *shape, const int *stride)
{
    const struct cudnn_tensor t = {.type = type,
                                   .rank = c->rank,
                                   .shape = shape,
                                   .stride = stride,
                                   .id = CUDNN_VIRTUAL + c->n_virtual++,
                                   .alignment = CUDNN_ALIGNED,
                                   .is_virtual = true};

    return chain_add_tensor(c, &t);
}

void *cudnn_chain_number(struct cudnn_chain *c, int id, int type)
{
    static const int one[CUDNN_AXES] = {1, 1, 1, 1, 1};
    const struct cudnn_tensor t = {.type = type,
                                   .rank = c->rank,
                                   .shape = one,
                                   .stride = one,
                                   .id = id,
                                   .alignment = CUDNN_ALIGNED,
                                   .by_value = true};

    return chain_add_tensor(c, &t);
}

/* Appends an operation; NULL: it could not be made. */
static void chain_add(struct cudnn_chain *c, void *operation)
{
    if (!operation || c->n == CUDNN_CHAIN) c->failed = true;
    else c->operation[c->n++] = operation;
}

void *cudnn_chain_step(struct cudnn_chain *c, struct cudnn_step step, int type)
{
    if (!step.y) step.y = cudnn_chain_virtual(c, type, c->shape, c->stride);
    if (!c->failed) chain_add(c, cudnn_add_pointwise(&c->b, &step));
    return c->failed ? NULL : step.y;
}

static void *chain_make_product(struct cudnn_builder *b, void *x, void *with, void *y)
{
    static const int sums = CUDNN_F32;
    void *d = cudnn_add(b, CUDNN_IS_PRODUCT_TYPE), *o = NULL;

    if (d && cudnn_set(b, d, CUDNN_PRODUCT_SUMS, CUDNN_OF_DATA_TYPES, 1, &sums) &&
        cudnn_finalize(b, d))
        o = cudnn_add(b, CUDNN_IS_PRODUCT);
    return o && cudnn_set_descriptor(b, o, CUDNN_PRODUCT_A, x) &&
                   cudnn_set_descriptor(b, o, CUDNN_PRODUCT_B, with) &&
                   cudnn_set_descriptor(b, o, CUDNN_PRODUCT_Y, y) &&
                   cudnn_set_descriptor(b, o, CUDNN_PRODUCT_TYPE, d) && cudnn_finalize(b, o)
               ? o
               : NULL;
}

void cudnn_chain_product(struct cudnn_chain *c, void *a, void *b, void *y)
{
    if (!c->failed) chain_add(c, chain_make_product(&c->b, a, b, y));
}

static void *chain_make_reduction(struct cudnn_builder *b, int mode, void *x, void *y)
{
    static const int sums = CUDNN_F32;
    void *d = cudnn_add(b, CUDNN_IS_REDUCTION_TYPE), *o = NULL;

    if (d && cudnn_set(b, d, CUDNN_REDUCTION_MODE, CUDNN_OF_REDUCTIONS, 1, &mode) &&
        cudnn_set(b, d, CUDNN_REDUCTION_SUMS, CUDNN_OF_DATA_TYPES, 1, &sums) &&
        cudnn_finalize(b, d))
        o = cudnn_add(b, CUDNN_IS_REDUCTION);
    return o && cudnn_set_descriptor(b, o, CUDNN_REDUCTION_X, x) &&
                   cudnn_set_descriptor(b, o, CUDNN_REDUCTION_Y, y) &&
                   cudnn_set_descriptor(b, o, CUDNN_REDUCTION_TYPE, d) && cudnn_finalize(b, o)
               ? o
               : NULL;
}

void *cudnn_chain_reduce(struct cudnn_chain *c, int mode, void *x, const int *shape,
                         const int *stride)
{
    void *y = cudnn_chain_virtual(c, CUDNN_F32, shape, stride);

    if (!c->failed) chain_add(c, chain_make_reduction(&c->b, mode, x, y));
    return c->failed ? NULL : y;
}

bool cudnn_chain_build(struct cudnn_chain *c, struct cudnn_graph *out)
{
    if (!c->failed && cudnn_build(&c->b, c->operation, c->n)) {
        *out = c->b.graph;
        return true;
    }
    cudnn_graph_drop(c->b.device, &c->b.graph);
    return false;
}
