/* SPDX-License-Identifier: Apache-2.0 */
/* network_shapes.c: records ResNet-50 and BERT's encoder as graphs. */
#include "networks.h"
#include <backplane/ops.h>
#include <math.h>
#include <stddef.h>

/* A convolution with its normalisation. With relu set, relu follows; otherwise the result will be
 * added to that of another branch, and has a smaller scale, so that sums of many results do not
 * grow. */
static struct bp_tensor *layer_conv(struct network *n, struct bp_tensor *x, int64_t from,
                                             int64_t to, int64_t extent, int64_t stride, int relu)
{
    struct bp_conv_attrs attrs = bp_conv_defaults();
    const int64_t shape[] = {to, from, extent, extent};
    struct bp_tensor *scale = network_vector(n, to, relu ? 1 : 0.25f), *y;
    struct bp_tensor *one = network_vector(n, to, 1), *shift = network_vector(n, to, 0.125f);

    for (int i = 0; i < 2; i++) {
        attrs.stride[i] = stride;
        attrs.pad[i] = attrs.pad[3 + i] = extent / 2;
    }
    y = CALL(n, conv, &attrs, x,
             network_weight(n, 4, shape, from * extent * extent));
    y = CALL(n, batch_norm, NULL, y, scale, shift, shift, one);
    return relu ? CALL(n, relu, NULL, y) : y;
}

/* Three convolutions in parallel to the identity branch, which is a convolution too if the extents
 * change. */
static struct bp_tensor *layer_bottleneck(struct network *n, struct bp_tensor *x,
                                                   int64_t from, int64_t inner, int64_t stride)
{
    int64_t to = 4 * inner;
    struct bp_tensor *y = layer_conv(n, x, from, inner, 1, 1, 1);

    y = layer_conv(n, y, inner, inner, 3, stride, 1);
    y = layer_conv(n, y, inner, to, 1, 1, 0);
    if (from != to || stride != 1) x = layer_conv(n, x, from, to, 1, stride, 0);
    y = CALL(n, add, NULL, y, x);
    return CALL(n, relu, NULL, y);
}

void network_resnet50(struct network *n, int64_t extent)
{
    static const int blocks[] = {3, 4, 6, 3};
    const int64_t image[] = {1, 3, extent, extent}, flat[] = {1, 2048}, last[] = {2048, 1000};
    struct bp_max_pool_attrs pool = bp_max_pool_defaults();
    struct bp_tensor *x = network_input(n, "image", 4, image);
    int64_t from = 64, inner = 64;

    for (int i = 0; i < 2; i++) {
        pool.window[i] = 3;
        pool.stride[i] = 2;
        pool.pad[i] = pool.pad[3 + i] = 1;
    }
    x = CALL(n, max_pool, &pool, layer_conv(n, x, 3, 64, 7, 2, 1));
    for (int stage = 0; stage < 4; stage++, inner *= 2)
        for (int i = 0; i < blocks[stage]; i++, from = 4 * inner)
            x = layer_bottleneck(n, x, from, inner, stage && !i ? 2 : 1);
    x = network_reshape(n, CALL(n, global_avg_pool, NULL, x), 2, flat);
    x = CALL(n, addmm, NULL, network_vector(n, 1000, 0.125f), x, network_weight(n, 2, last, 4096));
    network_result(n, CALL(n, softmax, NULL, x));
}

enum { HIDDEN = 768, HEADS = 12, INSIDE = 3072 };

static struct bp_tensor *layer_dense(struct network *n, struct bp_tensor *x, int64_t from,
                                              int64_t to)
{
    const int64_t shape[] = {from, to};
    struct bp_tensor *y = CALL(n, matmul, NULL, x, network_weight(n, 2, shape, 2 * from));

    return CALL(n, add, NULL, y, network_vector(n, to, 0.0625f));
}

static struct bp_tensor *layer_norm(struct network *n, struct bp_tensor *x)
{
    return CALL(n, layer_norm, NULL, x, network_vector(n, HIDDEN, 1),
                network_vector(n, HIDDEN, 0.125f));
}

/* Reshapes 1 x length x hidden to heads x length x part, or to heads x part x length, if the
 * matrices of the heads are to be transposed. */
static struct bp_tensor *layer_heads(struct network *n, struct bp_tensor *x,
                                              int64_t length, int flipped)
{
    static const int64_t apart[] = {0, 2, 1, 3}, turn[] = {0, 2, 3, 1};
    const int64_t shape[] = {1, length, HEADS, HIDDEN / HEADS};
    const struct bp_transpose_attrs attrs = {.size = sizeof attrs,
                                             .perm = {flipped ? turn : apart, 4}};

    return CALL(n, transpose, &attrs, network_reshape(n, x, 4, shape));
}

static struct bp_tensor *layer_attend(struct network *n, struct bp_tensor *x,
                                               int64_t length)
{
    static const int64_t together[] = {0, 2, 1, 3};
    const int64_t shape[] = {1, length, HIDDEN};
    const struct bp_transpose_attrs attrs = {.size = sizeof attrs, .perm = {together, 4}};
    struct bp_tensor *q = layer_heads(n, layer_dense(n, x, HIDDEN, HIDDEN), length, 0);
    struct bp_tensor *k = layer_heads(n, layer_dense(n, x, HIDDEN, HIDDEN), length, 1);
    struct bp_tensor *v = layer_heads(n, layer_dense(n, x, HIDDEN, HIDDEN), length, 0);
    struct bp_tensor *s = CALL(n, mul, NULL, CALL(n, matmul, NULL, q, k),
                               network_vector(n, 1, 1 / sqrtf(HIDDEN / HEADS)));

    s = CALL(n, matmul, NULL, CALL(n, softmax, NULL, s), v);
    s = network_reshape(n, CALL(n, transpose, &attrs, s), 3, shape);
    return layer_dense(n, s, HIDDEN, HIDDEN);
}

/* x / 2 (1 + erf(x / sqrt 2)), composed of operators that ONNX had before opset 20. */
static struct bp_tensor *layer_gelu(struct network *n, struct bp_tensor *x)
{
    struct bp_tensor *y = CALL(n, mul, NULL, x, network_vector(n, 1, sqrtf(0.5f)));

    y = CALL(n, add, NULL, CALL(n, erf, NULL, y), network_vector(n, 1, 1));
    y = CALL(n, mul, NULL, x, y);
    return CALL(n, mul, NULL, y, network_vector(n, 1, 0.5f));
}

void network_bert(struct network *n, int64_t layers, int64_t length)
{
    const int64_t shape[] = {1, length, HIDDEN};
    struct bp_tensor *x = network_input(n, "x", 3, shape);

    for (int64_t i = 0; i < layers; i++) {
        x = layer_norm(n, CALL(n, add, NULL, layer_attend(n, x, length), x));
        struct bp_tensor *y = layer_gelu(n, layer_dense(n, x, HIDDEN, INSIDE));
        x = layer_norm(n,
                                CALL(n, add, NULL, layer_dense(n, y, INSIDE, HIDDEN), x));
    }
    network_result(n, x);
}
