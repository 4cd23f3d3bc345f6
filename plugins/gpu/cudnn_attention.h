/* SPDX-License-Identifier: Apache-2.0 */
/* cudnn_attention.h: declares the plan of attention, which is one operation of cuDNN or, with a
 * mask, a graph of several (cudnn_scores.c). */
#ifndef GPU_CUDNN_ATTENTION_H
#define GPU_CUDNN_ATTENTION_H

#include "cudnn_held.h"

/* The operands: tensors, whose ids these are, and numbers that the library reads from the host's
 * memory: the factor of the scores, the score of a hidden key, and the two numbers of a band:
 * query i sees the keys up to i + KEYS - QUERIES. */
enum {
    ATTENTION_Q,
    ATTENTION_K,
    ATTENTION_V,
    ATTENTION_Y,
    ATTENTION_BIAS,
    ATTENTION_TENSORS,
    ATTENTION_SCALE = ATTENTION_TENSORS,
    ATTENTION_HIDDEN,
    ATTENTION_KEYS,
    ATTENTION_QUERIES,
    ATTENTION_OPERANDS,
    ATTENTION_RANK = 4
};

/* All inputs of a graph. Keys are compared as bytes. The axes are batch, heads, lengths, and
 * depth or width; the bias has those of the scores. kind: CUDNN_IS_ATTENTION, or CUDNN_IS_PRODUCT
 * for a graph of several operations. */
struct attention_key {
    int kind, dtype;
    int shape[ATTENTION_TENSORS][ATTENTION_RANK], stride[ATTENTION_TENSORS][ATTENTION_RANK];
};
_Static_assert(sizeof(struct attention_key) ==
                   sizeof(int) * (2 + 2 * ATTENTION_TENSORS * ATTENTION_RANK),
               "no padding");

/* The strides of a copy are those of the operand, so it may have gaps. */
struct attention_plan {
    struct cudnn_held held; /* must be first */
    struct attention_key key;
    bool has_bias, makes_bias;   /* makes_bias: the mask is not what the library adds to the scores,
                                    which is computed in the workspace */
    const struct bp_kernel *log; /* makes 0 and -infinity of 1 and 0, for a mask of bool; or NULL */
    float scale, hidden;
    int32_t keys, queries;
};

/* cudnn_scores.c: makes the graph of a plan with a mask or causal. */
cudnn_graph_fn cudnn_scores_make;

#endif
