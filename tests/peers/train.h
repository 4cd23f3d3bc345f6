/* SPDX-License-Identifier: Apache-2.0 */
/* train.h: declares the networks that train_steps.c trains, and the layers that they have. */
#ifndef BP_TRAIN_H
#define BP_TRAIN_H

#include <backplane/backplane.h>
#include <backplane/ops.h>
#include <stdbool.h>
#include <stdio.h>

enum {
    KEPT = 2048,
    PARAMS = 256,
    STATS = 128
};

struct train {
    struct bp_core *core;
    struct bp_device *device;
    struct bp_stream *stream;
    struct bp_graph *graph;
    struct bp_scope *scope;
    struct bp_program *program;
    FILE *file;
    struct bp_tensor *kept[KEPT];     /* symbolic ones, and the learning rate */
    struct bp_tensor *param[PARAMS];  /* real tensors that a step updates */
    struct bp_tensor *in[2 + STATS];  /* the batch, its targets, and the running statistics */
    struct bp_tensor *out[1 + STATS]; /* the loss, and the next statistics: in and out change places
                                         after each step */
    struct bp_tensor *next[STATS];    /* the symbolic results of the statistics */
    int n_kept, n_param, n_in, n_stat;
};

/* train_layers.c. Failures end the process, with a message. */
void train_check(enum bp_status status);
void train_die(const char *what);
/* Keeps a tensor until the network is closed. */
struct bp_tensor *train_keep(struct train *t, struct bp_tensor *value);
/* The bytes of a dense tensor of f32 or i64. */
uint64_t train_bytes(enum bp_dtype dtype, int rank, const int64_t *shape);
/* Creates a tensor: from the file, or, if `all` is given, with that number in each element. */
struct bp_tensor *train_tensor(struct train *t, enum bp_dtype dtype, int rank, const int64_t *shape,
                               const float *all);
/* Adds an input of the step, with its values as in train_tensor. */
struct bp_tensor *train_input(struct train *t, enum bp_dtype dtype, int rank, const int64_t *shape,
                              const float *all);
/* Adds a parameter. */
struct bp_tensor *train_param(struct train *t, int rank, const int64_t *shape);
struct bp_tensor *train_linear(struct train *t, struct bp_tensor *x, int64_t n_in, int64_t n_out,
                               bool bias);
struct bp_tensor *train_relu(struct train *t, struct bp_tensor *x);
struct bp_tensor *train_add(struct train *t, struct bp_tensor *x, struct bp_tensor *more);
/* A convolution without bias, padded by half of its window, and its batch norm. */
struct bp_tensor *train_conv(struct train *t, struct bp_tensor *x, int64_t channels,
                             int64_t filters, int64_t window, int64_t stride);
/* A layer norm over the last n elements. */
struct bp_tensor *train_layer_norm(struct train *t, struct bp_tensor *x, int64_t n);
struct bp_tensor *train_reshape(struct train *t, struct bp_tensor *x, const int64_t *shape,
                                int rank);
/* Exchanges axes 1 and 2 of four. */
struct bp_tensor *train_exchange(struct train *t, struct bp_tensor *x);
/* The mean cross entropy of scores and labels. */
struct bp_tensor *train_entropy(struct train *t, struct bp_tensor *x, struct bp_tensor *label);

/* train_networks.c: records the forward of the named network and returns its loss. */
struct bp_tensor *train_network(struct train *t, const char *name);

#endif
