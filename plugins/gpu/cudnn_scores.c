/* SPDX-License-Identifier: Apache-2.0 */
/* cudnn_scores.c: describes attention with a mask, or causal, as the graph of operations that cuDNN
 * compiles to one kernel: products, a bias, a band, softmax, products. cuDNN 9.19 takes a band with
 * two numbers, i + KEYS - QUERIES, for a kernel that keeps no matrix of scores in memory; the same
 * graph without the band or with another one it takes for an older kernel or not at all. So all
 * graphs have this band, and where no key is hidden it is wide. */
#include "cudnn_attention.h"
#include "cudnn_chain.h"

enum {
    OLDEST = 91300
}; /* the version that has attention; since 9.10.2, -infinity hides keys */

/* Appends where the band shows a key: row + KEYS - QUERIES >= column. */
static void *scores_band(struct cudnn_chain *c, void *scores, void *const number[])
{
    void *row, *column;

    row = cudnn_chain_step(c, (struct cudnn_step){.mode = CUDNN_INDEX, .axis = 2, .x = scores},
                           CUDNN_I32);
    column = cudnn_chain_step(c, (struct cudnn_step){.mode = CUDNN_INDEX, .axis = 3, .x = scores},
                              CUDNN_I32);
    row = cudnn_chain_step(
        c,
        (struct cudnn_step){
            .mode = CUDNN_ADD, .type = CUDNN_I32, .x = row, .with = number[ATTENTION_KEYS]},
        CUDNN_I32);
    row = cudnn_chain_step(
        c,
        (struct cudnn_step){
            .mode = CUDNN_SUBTRACT, .type = CUDNN_I32, .x = row, .with = number[ATTENTION_QUERIES]},
        CUDNN_I32);
    return cudnn_chain_step(
        c,
        (struct cudnn_step){.mode = CUDNN_NOT_LESS, .type = CUDNN_BOOL, .x = row, .with = column},
        CUDNN_BOOL);
}

/* Appends the scores of all keys. */
static void *scores_add(struct cudnn_chain *c, void *const of[], bool has_bias)
{
    void *scores = cudnn_chain_virtual(c, CUDNN_F32, c->shape, c->stride), *seen;

    cudnn_chain_product(c, of[ATTENTION_Q], of[ATTENTION_K], scores);
    scores = cudnn_chain_step(
        c, (struct cudnn_step){.mode = CUDNN_MULTIPLY, .x = scores, .with = of[ATTENTION_SCALE]},
        CUDNN_F32);
    if (has_bias)
        scores = cudnn_chain_step(
            c, (struct cudnn_step){.mode = CUDNN_ADD, .x = scores, .with = of[ATTENTION_BIAS]},
            CUDNN_F32);
    seen = scores_band(c, scores, of);
    return cudnn_chain_step(
        c,
        (struct cudnn_step){
            .mode = CUDNN_SELECT, .x = scores, .with = of[ATTENTION_HIDDEN], .where = seen},
        CUDNN_F32);
}

/* Appends softmax over the keys. The library multiplies weights of the half type. */
static void *scores_softmax(struct cudnn_chain *c, void *scores, int type)
{
    const int shape[] = {c->shape[0], c->shape[1], c->shape[2], 1};
    const int stride[] = {c->shape[1] * c->shape[2], c->shape[2], 1, 1};
    void *most = cudnn_chain_reduce(c, CUDNN_REDUCE_MAX, scores, shape, stride), *sum;

    scores = cudnn_chain_step(
        c, (struct cudnn_step){.mode = CUDNN_SUBTRACT, .x = scores, .with = most}, CUDNN_F32);
    scores = cudnn_chain_step(c, (struct cudnn_step){.mode = CUDNN_EXP, .x = scores}, CUDNN_F32);
    sum = cudnn_chain_reduce(c, CUDNN_REDUCE_ADD, scores, shape, stride);
    return cudnn_chain_step(c, (struct cudnn_step){.mode = CUDNN_DIVIDE, .x = scores, .with = sum},
                            type);
}

/* The library wants k with its last two axes exchanged. */
static void scores_tensors(struct cudnn_chain *c, const struct attention_plan *p, void *of[])
{
    const struct attention_key *key = &p->key;
    const int type = cudnn_type_of((uint8_t)key->dtype);

    for (int i = 0; i < ATTENTION_TENSORS; i++) {
        const int *shape = key->shape[i], *stride = key->stride[i];
        const int turned[] = {shape[0], shape[1], shape[3], shape[2]};
        const int steps[] = {stride[0], stride[1], stride[3], stride[2]};
        if (i == ATTENTION_BIAS && !p->has_bias) continue;
        of[i] = cudnn_chain_tensor(c, i, type, i == ATTENTION_K ? turned : shape,
                                   i == ATTENTION_K ? steps : stride);
    }
    for (int i = ATTENTION_SCALE; i < ATTENTION_OPERANDS; i++)
        of[i] = cudnn_chain_number(c, i, i < ATTENTION_KEYS ? CUDNN_F32 : CUDNN_I32);
}

bool cudnn_scores_make(const void *plan, struct cudnn_graph *out)
{
    const struct attention_plan *p = plan;
    const int *q = p->key.shape[ATTENTION_Q], keys = p->key.shape[ATTENTION_K][2];
    const int shape[] = {q[0], q[1], q[2], keys};
    const int stride[] = {q[1] * q[2] * keys, q[2] * keys, keys, 1};
    struct cudnn_chain c = {.b = {.device = p->held.device, .handle = p->held.handle},
                            .rank = ATTENTION_RANK,
                            .shape = shape,
                            .stride = stride};
    void *of[ATTENTION_OPERANDS] = {NULL}, *weights;

    if (!cudnn_has_graphs() || gpu_cudnn.version() < OLDEST) return false;
    scores_tensors(&c, p, of);
    weights = scores_softmax(&c, scores_add(&c, of, p->has_bias),
                             cudnn_type_of((uint8_t)p->key.dtype));
    cudnn_chain_product(&c, weights, of[ATTENTION_V], of[ATTENTION_Y]);
    return cudnn_chain_build(&c, out);
}
