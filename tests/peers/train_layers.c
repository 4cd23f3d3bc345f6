/* SPDX-License-Identifier: Apache-2.0 */
/* train_layers.c: adds values and layers of networks to the graph of a step of training. */
#include "train.h"
#include <stdlib.h>

void train_check(enum bp_status status)
{
    if (!status) return;
    fprintf(stderr, "train_steps: %s\n", bp_error_message());
    exit(1);
}

void train_die(const char *what)
{
    fprintf(stderr, "train_steps: %s\n", what);
    exit(1);
}

struct bp_tensor *train_keep(struct train *t, struct bp_tensor *value)
{
    if (t->n_kept == KEPT) train_die("more values than KEPT");
    return t->kept[t->n_kept++] = value;
}

uint64_t train_bytes(enum bp_dtype dtype, int rank, const int64_t *shape)
{
    uint64_t bytes = dtype == BP_I64 ? 8 : 4;

    for (int i = 0; i < rank; i++) bytes *= (uint64_t)shape[i];
    return bytes;
}

struct bp_tensor *train_tensor(struct train *t, enum bp_dtype dtype, int rank, const int64_t *shape,
                               const float *all)
{
    uint64_t bytes = train_bytes(dtype, rank, shape);
    struct bp_tensor *tensor;
    float *data = malloc(bytes);

    if (!data) train_die("no memory");
    if (all) {
        for (uint64_t i = 0; i < bytes / sizeof *data; i++) data[i] = *all;
    } else if (fread(data, 1, bytes, t->file) != bytes) {
        train_die("the file of the network is too short");
    }
    train_check(bp_tensor_create(t->device, dtype, (uint32_t)rank, shape, &tensor));
    train_check(bp_tensor_write(t->stream, tensor, data, bytes));
    free(data);
    return tensor;
}

struct bp_tensor *train_input(struct train *t, enum bp_dtype dtype, int rank, const int64_t *shape,
                              const float *all)
{
    struct bp_tensor *value;

    if (t->n_in == 2 + STATS) train_die("more inputs than STATS");
    t->in[t->n_in++] = train_tensor(t, dtype, rank, shape, all);
    train_check(bp_graph_input(t->graph, NULL, dtype, (uint32_t)rank, shape, &value));
    return train_keep(t, value);
}

struct bp_tensor *train_param(struct train *t, int rank, const int64_t *shape)
{
    if (t->n_param == PARAMS) train_die("more parameters than PARAMS");
    return t->param[t->n_param++] = train_tensor(t, BP_F32, rank, shape, NULL);
}

static struct bp_tensor *train_vector(struct train *t, int64_t n)
{
    return train_param(t, 1, &n);
}

struct bp_tensor *train_linear(struct train *t, struct bp_tensor *x, int64_t n_in, int64_t n_out,
                               bool bias)
{
    const int64_t shape[2] = {n_out, n_in};
    struct bp_tensor *w = train_param(t, 2, shape), *b = bias ? train_vector(t, n_out) : NULL;
    struct bp_tensor *y = NULL;

    train_check(bp_op_linear(t->scope, x, w, b, &y));
    return train_keep(t, y);
}

struct bp_tensor *train_relu(struct train *t, struct bp_tensor *x)
{
    struct bp_tensor *y = NULL;

    train_check(bp_op_relu(t->scope, x, &y));
    return train_keep(t, y);
}

struct bp_tensor *train_add(struct train *t, struct bp_tensor *x, struct bp_tensor *more)
{
    struct bp_tensor *y = NULL;

    train_check(bp_op_add(t->scope, x, more, &y));
    return train_keep(t, y);
}

/* Adds running statistics of n channels, which begin with the number `first`. */
static struct bp_tensor *train_statistics(struct train *t, int64_t n, float first)
{
    struct bp_tensor *value = train_input(t, BP_F32, 1, &n, &first);

    t->out[1 + t->n_stat++] = train_tensor(t, BP_F32, 1, &n, &first);
    return value;
}

struct bp_tensor *train_conv(struct train *t, struct bp_tensor *x, int64_t channels,
                             int64_t filters, int64_t window, int64_t stride)
{
    const int64_t shape[4] = {filters, channels, window, window};
    struct bp_conv_attrs attrs = bp_conv_defaults();
    struct bp_batch_norm_train_attrs norm = bp_batch_norm_train_defaults();
    struct bp_tensor *w = train_param(t, 4, shape), *scale = train_vector(t, filters);
    struct bp_tensor *bias = train_vector(t, filters), *y = NULL, *z = NULL;
    struct bp_tensor *mean = train_statistics(t, filters, 0);
    struct bp_tensor *variance = train_statistics(t, filters, 1), **next = &t->next[t->n_stat - 2];

    attrs.stride[0] = attrs.stride[1] = stride;
    attrs.pad[0] = attrs.pad[1] = attrs.pad[3] = attrs.pad[4] = window / 2;
    norm.unbiased = 1;
    train_check(bp_op_conv(t->scope, x, w, NULL, &attrs, &y));
    train_keep(t, y);
    train_check(bp_op_batch_norm_train(t->scope, y, scale, bias, mean, variance, &norm, &z,
                                       &next[0], &next[1], NULL, NULL));
    train_keep(t, next[0]);
    train_keep(t, next[1]);
    return train_keep(t, z);
}

struct bp_tensor *train_layer_norm(struct train *t, struct bp_tensor *x, int64_t n)
{
    struct bp_tensor *scale = train_vector(t, n), *bias = train_vector(t, n), *y = NULL;

    train_check(bp_op_layer_norm(t->scope, x, scale, bias, NULL, &y, NULL, NULL));
    return train_keep(t, y);
}

struct bp_tensor *train_reshape(struct train *t, struct bp_tensor *x, const int64_t *shape,
                                int rank)
{
    struct bp_reshape_attrs attrs = bp_reshape_defaults();
    struct bp_tensor *y = NULL;

    attrs.shape = (struct bp_dims){shape, rank};
    train_check(bp_op_reshape(t->scope, x, NULL, &attrs, &y));
    return train_keep(t, y);
}

struct bp_tensor *train_exchange(struct train *t, struct bp_tensor *x)
{
    static const int64_t perm[4] = {0, 2, 1, 3};
    struct bp_transpose_attrs attrs = bp_transpose_defaults();
    struct bp_tensor *y = NULL;

    attrs.perm = (struct bp_dims){perm, 4};
    train_check(bp_op_transpose(t->scope, x, &attrs, &y));
    return train_keep(t, y);
}

struct bp_tensor *train_entropy(struct train *t, struct bp_tensor *x, struct bp_tensor *label)
{
    struct bp_tensor *loss = NULL;

    train_check(bp_op_cross_entropy(t->scope, x, label, NULL, NULL, &loss, NULL));
    return train_keep(t, loss);
}
