/* SPDX-License-Identifier: Apache-2.0 */
/* train_networks.c: records the networks that are trained for bench_training.py, which has the same
 * ones in PyTorch. Each function returns its network's loss. */
#include "train.h"
#include <string.h>

static struct bp_tensor *train_mlp(struct train *t)
{
    const int64_t batch[2] = {128, 784};
    struct bp_tensor *x = train_input(t, BP_F32, 2, batch, NULL);
    struct bp_tensor *label = train_input(t, BP_I64, 1, batch, NULL);

    x = train_relu(t, train_linear(t, x, 784, 512, true));
    x = train_relu(t, train_linear(t, x, 512, 512, true));
    return train_entropy(t, train_linear(t, x, 512, 10, true), label);
}

static struct bp_tensor *train_block(struct train *t, struct bp_tensor *x, int64_t channels,
                                     int64_t filters, int64_t stride)
{
    struct bp_tensor *y = train_relu(t, train_conv(t, x, channels, filters, 3, stride));

    y = train_conv(t, y, filters, filters, 3, 1);
    if (channels != filters) x = train_conv(t, x, channels, filters, 1, stride);
    return train_relu(t, train_add(t, y, x));
}

static struct bp_tensor *train_resnet(struct train *t)
{
    const int64_t batch[4] = {16, 3, 32, 32}, flat[2] = {16, 256};
    struct bp_tensor *x = train_input(t, BP_F32, 4, batch, NULL), *pooled = NULL;
    struct bp_tensor *label = train_input(t, BP_I64, 1, batch, NULL);

    x = train_relu(t, train_conv(t, x, 3, 64, 3, 1));
    x = train_block(t, train_block(t, x, 64, 64, 1), 64, 64, 1);
    x = train_block(t, train_block(t, x, 64, 128, 2), 128, 128, 1);
    x = train_block(t, train_block(t, x, 128, 256, 2), 256, 256, 1);
    train_check(bp_op_global_avg_pool(t->scope, x, NULL, &pooled));
    x = train_reshape(t, train_keep(t, pooled), flat, 2);
    return train_entropy(t, train_linear(t, x, 256, 10, true), label);
}

/* A block of three convolutions, of which the last one has 4 * filters channels. */
static struct bp_tensor *train_bottleneck(struct train *t, struct bp_tensor *x, int64_t channels,
                                          int64_t filters, int64_t stride)
{
    struct bp_tensor *y = train_relu(t, train_conv(t, x, channels, filters, 1, 1));

    y = train_relu(t, train_conv(t, y, filters, filters, 3, stride));
    y = train_conv(t, y, filters, 4 * filters, 1, 1);
    if (channels != 4 * filters) x = train_conv(t, x, channels, 4 * filters, 1, stride);
    return train_relu(t, train_add(t, y, x));
}

static struct bp_tensor *train_resnet50(struct train *t)
{
    static const int blocks[4] = {3, 4, 6, 3};
    const int64_t batch[4] = {4, 3, 224, 224}, flat[2] = {4, 2048};
    struct bp_max_pool_attrs pool = bp_max_pool_defaults();
    struct bp_tensor *x = train_input(t, BP_F32, 4, batch, NULL), *pooled = NULL, *mean = NULL;
    struct bp_tensor *label = train_input(t, BP_I64, 1, batch, NULL);
    int64_t channels = 64;

    pool.window[0] = pool.window[1] = 3;
    pool.stride[0] = pool.stride[1] = 2;
    pool.pad[0] = pool.pad[1] = pool.pad[3] = pool.pad[4] = 1;
    x = train_relu(t, train_conv(t, x, 3, 64, 7, 2));
    train_check(bp_op_max_pool(t->scope, x, &pool, &pooled));
    x = train_keep(t, pooled);
    for (int stage = 0; stage < 4; stage++)
        for (int i = 0; i < blocks[stage]; i++) {
            x = train_bottleneck(t, x, channels, 64 << stage, stage && !i ? 2 : 1);
            channels = 256 << stage;
        }
    train_check(bp_op_global_avg_pool(t->scope, x, NULL, &mean));
    x = train_reshape(t, train_keep(t, mean), flat, 2);
    return train_entropy(t, train_linear(t, x, 2048, 1000, true), label);
}

/* The attention of `heads` heads over x: n sequences of `length` vectors of `width` elements. bias:
 * the products of queries and values have one; that of keys would have a gradient of 0. */
struct train_heads {
    int64_t n, length, width, heads, hidden;
    bool bias;
};

/* A layer of an encoder with norms behind its residuals. */
static struct bp_tensor *train_encoder(struct train *t, struct bp_tensor *x,
                                       const struct train_heads *h)
{
    const int64_t batch[3] = {h->n, h->length, h->width};
    const int64_t heads[4] = {h->n, h->length, h->heads, h->width / h->heads};
    struct bp_tensor *part[3], *y = NULL;

    for (int i = 0; i < 3; i++) {
        y = train_linear(t, x, h->width, h->width, h->bias && i != 1);
        part[i] = train_exchange(t, train_reshape(t, y, heads, 4));
    }
    y = NULL;
    train_check(bp_op_attention(t->scope, part[0], part[1], part[2], NULL, NULL, NULL, &y));
    y = train_reshape(t, train_exchange(t, train_keep(t, y)), batch, 3);
    y = train_linear(t, y, h->width, h->width, true);
    x = train_layer_norm(t, train_add(t, y, x), h->width);
    y = NULL;
    train_check(bp_op_gelu(t->scope, train_linear(t, x, h->width, h->hidden, true), NULL, &y));
    y = train_linear(t, train_keep(t, y), h->hidden, h->width, true);
    return train_layer_norm(t, train_add(t, y, x), h->width);
}

static struct bp_tensor *train_transformer(struct train *t)
{
    static const struct train_heads layer = {8, 128, 256, 8, 1024, false};
    const int64_t batch[3] = {8, 128, 256};
    struct bp_tensor *x = train_input(t, BP_F32, 3, batch, NULL), *loss = NULL;
    struct bp_tensor *target = train_input(t, BP_F32, 3, batch, NULL);

    train_check(bp_op_mse_loss(t->scope, train_encoder(t, x, &layer), target, &loss));
    return train_keep(t, loss);
}

/* The vector of the first token of each sequence. */
static struct bp_tensor *train_first_token(struct train *t, struct bp_tensor *x, int64_t n,
                                           int64_t width)
{
    static const int64_t begin = 0, end = 1, axis = 1;
    const int64_t flat[2] = {n, width};
    struct bp_slice_attrs attrs = bp_slice_defaults();
    struct bp_tensor *y = NULL;

    attrs.starts = (struct bp_dims){&begin, 1};
    attrs.ends = (struct bp_dims){&end, 1};
    attrs.axes = (struct bp_dims){&axis, 1};
    train_check(bp_op_slice(t->scope, x, NULL, NULL, NULL, NULL, &attrs, &y));
    return train_reshape(t, train_keep(t, y), flat, 2);
}

static struct bp_tensor *train_bert(struct train *t)
{
    static const struct train_heads layer = {4, 128, 768, 12, 3072, true};
    static const int64_t words[2] = {30522, 768}, places[2] = {128, 768}, batch[2] = {4, 128};
    struct bp_tensor *ids = train_input(t, BP_I64, 2, batch, NULL), *x = NULL, *y = NULL;
    struct bp_tensor *label = train_input(t, BP_I64, 1, batch, NULL);

    train_check(bp_op_embedding(t->scope, train_param(t, 2, words), ids, NULL, &x));
    x = train_add(t, train_keep(t, x), train_param(t, 2, places));
    x = train_layer_norm(t, x, 768);
    for (int i = 0; i < 12; i++) x = train_encoder(t, x, &layer);
    x = train_linear(t, train_first_token(t, x, 4, 768), 768, 768, true);
    train_check(bp_op_tanh(t->scope, x, &y));
    return train_entropy(t, train_linear(t, train_keep(t, y), 768, 2, true), label);
}

struct bp_tensor *train_network(struct train *t, const char *name)
{
    static const struct {
        const char *name;
        struct bp_tensor *(*record)(struct train *t);
    } networks[] = {{"mlp", train_mlp},
                    {"resnet", train_resnet},
                    {"transformer", train_transformer},
                    {"resnet50", train_resnet50},
                    {"bert", train_bert}};
    size_t i = 0;

    while (i < sizeof networks / sizeof *networks && strcmp(networks[i].name, name)) i++;
    if (i == sizeof networks / sizeof *networks) train_die("no such network");
    return networks[i].record(t);
}
