/* SPDX-License-Identifier: Apache-2.0 */
/* cudnn_chain.h: describes graphs of several operations to cuDNN, whose results between two
 * operations are virtual tensors. After the first function that fails, all others do nothing and
 * return NULL, so that a caller checks the end only. */
#ifndef GPU_CUDNN_CHAIN_H
#define GPU_CUDNN_CHAIN_H

#include "cudnn_descriptor.h"

enum {
    CUDNN_CHAIN = 16,   /* operations */
    CUDNN_VIRTUAL = 100 /* the id of the first virtual tensor */
};
struct cudnn_chain {
    struct cudnn_builder b;
    int rank;
    const int *shape, *stride; /* of virtual tensors */
    void *operation[CUDNN_CHAIN];
    int n, n_virtual;
    bool failed;
};

/* Append a tensor in memory; a virtual one of the chain's shape, or of the given one; and a number
 * that the library reads from the host's memory when the graph is enqueued. */
void *cudnn_chain_tensor(struct cudnn_chain *c, int id, int type, const int *shape,
                         const int *stride);
void *cudnn_chain_virtual(struct cudnn_chain *c, int type, const int *shape, const int *stride);
void *cudnn_chain_number(struct cudnn_chain *c, int id, int type);

/* Appends a step and returns its y: step.y, or, if it is NULL, a new virtual tensor of the type
 * and the chain's shape. */
void *cudnn_chain_step(struct cudnn_chain *c, struct cudnn_step step, int type);
/* Append y = a b, of matrices on the last two axes, with sums in f32; and a reduction of x, in f32,
 * into a virtual tensor of the given shape. */
void cudnn_chain_product(struct cudnn_chain *c, void *a, void *b, void *y);
void *cudnn_chain_reduce(struct cudnn_chain *c, int mode, void *x, const int *shape,
                         const int *stride);

/* Makes the execution plan. false: something has failed, and all descriptors are destroyed. */
bool cudnn_chain_build(struct cudnn_chain *c, struct cudnn_graph *out);

#endif
