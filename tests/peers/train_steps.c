/* SPDX-License-Identifier: Apache-2.0 */
/* train_steps.c: trains small networks on a device, for bench_training.py: the forward, the
 * gradients and the updates of a step are one program.
 *
 *     train_steps DEVICE     a server on standard input and output, with turns.py's commands
 *
 * "open NAME FOLDER/NETWORK" reads FOLDER/NETWORK.bin, trains STEPS steps, and writes the loss of
 * the last one, the statistics and the parameters to FOLDER/NAME.ours.bin; "run N" trains N more
 * steps and returns the seconds of one. A file has the values in the order in which the network
 * reads them: the batch, its targets, the parameters. bench_training.py has the same networks in
 * PyTorch. */
#include <backplane/backplane.h>
#include <backplane/ops.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    STEPS = 2, /* before the results are written */
    KEPT = 512,
    PARAMS = 64,
    STATS = 64,
    LINE_SIZE = 4096,
    PATH_SIZE = LINE_SIZE + 32
};

static const float rate = 0.01f;

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

static void train_check(enum bp_status status)
{
    if (!status) return;
    fprintf(stderr, "train_steps: %s\n", bp_error_message());
    exit(1);
}

static void train_die(const char *what)
{
    fprintf(stderr, "train_steps: %s\n", what);
    exit(1);
}

/* ---- values ---- */

/* Keeps a tensor until the network is closed. */
static struct bp_tensor *train_keep(struct train *t, struct bp_tensor *value)
{
    if (t->n_kept == KEPT) train_die("more values than KEPT");
    return t->kept[t->n_kept++] = value;
}

static uint64_t train_bytes(enum bp_dtype dtype, int rank, const int64_t *shape)
{
    uint64_t bytes = dtype == BP_I64 ? 8 : 4;

    for (int i = 0; i < rank; i++) bytes *= (uint64_t)shape[i];
    return bytes;
}

/* Creates a tensor: from the file, or, if `all` is given, with that number in each element. */
static struct bp_tensor *train_tensor(struct train *t, enum bp_dtype dtype, int rank,
                                      const int64_t *shape, const float *all)
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

static struct bp_tensor *train_input(struct train *t, enum bp_dtype dtype, int rank,
                                     const int64_t *shape, const float *all)
{
    struct bp_tensor *value;

    if (t->n_in == 2 + STATS) train_die("more inputs than STATS");
    t->in[t->n_in++] = train_tensor(t, dtype, rank, shape, all);
    train_check(bp_graph_input(t->graph, NULL, dtype, (uint32_t)rank, shape, &value));
    return train_keep(t, value);
}

static struct bp_tensor *train_param(struct train *t, int rank, const int64_t *shape)
{
    if (t->n_param == PARAMS) train_die("more parameters than PARAMS");
    return t->param[t->n_param++] = train_tensor(t, BP_F32, rank, shape, NULL);
}

static struct bp_tensor *train_vector(struct train *t, int64_t n)
{
    return train_param(t, 1, &n);
}

/* ---- layers ---- */

static struct bp_tensor *train_linear(struct train *t, struct bp_tensor *x, int64_t n_in,
                                      int64_t n_out, bool bias)
{
    const int64_t shape[2] = {n_out, n_in};
    struct bp_tensor *w = train_param(t, 2, shape), *b = bias ? train_vector(t, n_out) : NULL;
    struct bp_tensor *y = NULL;

    train_check(bp_op_linear(t->scope, x, w, b, &y));
    return train_keep(t, y);
}

static struct bp_tensor *train_relu(struct train *t, struct bp_tensor *x)
{
    struct bp_tensor *y = NULL;

    train_check(bp_op_relu(t->scope, x, &y));
    return train_keep(t, y);
}

static struct bp_tensor *train_add(struct train *t, struct bp_tensor *x, struct bp_tensor *more)
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

/* The batch norm of a convolution. */
static struct bp_tensor *train_conv(struct train *t, struct bp_tensor *x, int64_t channels,
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

static struct bp_tensor *train_layer_norm(struct train *t, struct bp_tensor *x, int64_t n)
{
    struct bp_tensor *scale = train_vector(t, n), *bias = train_vector(t, n), *y = NULL;

    train_check(bp_op_layer_norm(t->scope, x, scale, bias, NULL, &y, NULL, NULL));
    return train_keep(t, y);
}

static struct bp_tensor *train_reshape(struct train *t, struct bp_tensor *x, const int64_t *shape,
                                       int rank)
{
    struct bp_reshape_attrs attrs = bp_reshape_defaults();
    struct bp_tensor *y = NULL;

    attrs.shape = (struct bp_dims){shape, rank};
    train_check(bp_op_reshape(t->scope, x, NULL, &attrs, &y));
    return train_keep(t, y);
}

/* Exchanges axes 1 and 2 of four. */
static struct bp_tensor *train_exchange(struct train *t, struct bp_tensor *x)
{
    static const int64_t perm[4] = {0, 2, 1, 3};
    struct bp_transpose_attrs attrs = bp_transpose_defaults();
    struct bp_tensor *y = NULL;

    attrs.perm = (struct bp_dims){perm, 4};
    train_check(bp_op_transpose(t->scope, x, &attrs, &y));
    return train_keep(t, y);
}

/* ---- networks: each returns its loss ---- */

static struct bp_tensor *train_entropy(struct train *t, struct bp_tensor *x,
                                       struct bp_tensor *label)
{
    struct bp_tensor *loss = NULL;

    train_check(bp_op_cross_entropy(t->scope, x, label, NULL, NULL, &loss, NULL));
    return train_keep(t, loss);
}

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

static struct bp_tensor *train_transformer(struct train *t)
{
    const int64_t batch[3] = {8, 128, 256}, heads[4] = {8, 128, 8, 32};
    struct bp_tensor *x = train_input(t, BP_F32, 3, batch, NULL), *part[3], *y = NULL, *loss = NULL;
    struct bp_tensor *target = train_input(t, BP_F32, 3, batch, NULL);

    for (int i = 0; i < 3; i++)
        part[i] = train_exchange(t,
                                 train_reshape(t, train_linear(t, x, 256, 256, false), heads, 4));
    train_check(bp_op_attention(t->scope, part[0], part[1], part[2], NULL, NULL, NULL, &y));
    y = train_reshape(t, train_exchange(t, train_keep(t, y)), batch, 3);
    x = train_layer_norm(t, train_add(t, train_linear(t, y, 256, 256, true), x), 256);
    y = NULL;
    train_check(bp_op_gelu(t->scope, train_linear(t, x, 256, 1024, true), NULL, &y));
    y = train_linear(t, train_keep(t, y), 1024, 256, true);
    x = train_layer_norm(t, train_add(t, y, x), 256);
    train_check(bp_op_mse_loss(t->scope, x, target, &loss));
    return train_keep(t, loss);
}

/* ---- a step ---- */

/* Records the gradients and the updates of all parameters behind the loss, and the outputs. */
static void train_record_updates(struct train *t, struct bp_tensor *loss)
{
    struct bp_tensor *lr = train_keep(t, train_tensor(t, BP_F32, 0, NULL, &rate));
    struct bp_tensor *one = train_keep(t, train_tensor(t, BP_F32, 0, NULL, &(float){1}));
    struct bp_tensor *gradient[PARAMS];

    train_check(
        bp_graph_gradient(t->graph, &loss, &one, 1, t->param, (size_t)t->n_param, gradient));
    for (int i = 0; i < t->n_param; i++) {
        struct bp_tensor *updated = NULL;
        if (!gradient[i]) train_die("a parameter without a gradient");
        train_check(bp_op_sgd(t->scope, t->param[i], train_keep(t, gradient[i]), lr, &updated));
        train_keep(t, updated);
    }
    train_check(bp_graph_output(t->graph, loss, NULL));
    for (int i = 0; i < t->n_stat; i++) train_check(bp_graph_output(t->graph, t->next[i], NULL));
    t->out[0] = train_tensor(t, BP_F32, 0, NULL, &(float){0});
}

static void train_step(struct train *t)
{
    train_check(bp_program_run(t->program, t->stream, t->in, (size_t)t->n_in, t->out,
                               1 + (size_t)t->n_stat));
    train_check(bp_stream_synchronize(t->stream));
    for (int i = 0; i < t->n_stat; i++) {
        struct bp_tensor *written = t->out[1 + i];
        t->out[1 + i] = t->in[2 + i];
        t->in[2 + i] = written;
    }
}

static void train_write(struct train *t, struct bp_tensor *tensor, FILE *file)
{
    struct bp_tensor_info info = {.size = sizeof info};
    uint64_t bytes;
    float *data;

    train_check(bp_tensor_get_info(tensor, &info));
    bytes = train_bytes(BP_F32, (int)info.rank, info.shape);
    data = malloc(bytes);
    if (!data) train_die("no memory");
    train_check(bp_tensor_read(t->stream, tensor, data, bytes));
    if (fwrite(data, 1, bytes, file) != bytes) train_die("the results cannot be written");
    free(data);
}

static void train_results(struct train *t, const char *path)
{
    FILE *file = fopen(path, "wb");

    if (!file) train_die("the results cannot be written");
    train_write(t, t->out[0], file);
    for (int i = 0; i < t->n_stat; i++) train_write(t, t->in[2 + i], file);
    for (int i = 0; i < t->n_param; i++) train_write(t, t->param[i], file);
    if (fclose(file)) train_die("the results cannot be written");
}

static void train_close(struct train *t)
{
    bp_program_destroy(t->program);
    bp_graph_destroy(t->graph);
    for (int i = 0; i < t->n_kept; i++) bp_tensor_destroy(t->kept[i]);
    for (int i = 0; i < t->n_param; i++) bp_tensor_destroy(t->param[i]);
    for (int i = 0; i < t->n_in; i++) bp_tensor_destroy(t->in[i]);
    for (int i = 0; t->graph && i < 1 + t->n_stat; i++) bp_tensor_destroy(t->out[i]);
    *t = (struct train){.core = t->core, .device = t->device, .stream = t->stream};
}

/* The step has to be a compiled program: a run node by node is a failure of the measurement. */
static void train_check_compiled(struct train *t)
{
    struct bp_program_info info = {.size = sizeof info};

    train_check(bp_program_get_info(t->program, &info));
    if (!info.compiled) train_die(info.not_compiled);
}

static void train_open(struct train *t, const char *name, const char *path)
{
    static const struct {
        const char *name;
        struct bp_tensor *(*record)(struct train *t);
    } networks[] = {
        {"mlp", train_mlp}, {"resnet", train_resnet}, {"transformer", train_transformer}};
    const char *network = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    char whole[PATH_SIZE];
    size_t i = 0;

    train_close(t);
    snprintf(whole, sizeof whole, "%s.bin", path);
    t->file = fopen(whole, "rb");
    if (!t->file) train_die("the file of the network cannot be read");
    train_check(bp_graph_create(t->core, &t->graph));
    t->scope = bp_graph_scope(t->graph);
    while (i < 3 && strcmp(networks[i].name, network)) i++;
    if (i == 3) train_die("no such network");
    train_record_updates(t, networks[i].record(t));
    if (fgetc(t->file) != EOF) train_die("the file of the network is too long");
    fclose(t->file);
    train_check(bp_program_create(t->graph, t->device, &t->program));
    for (int step = 0; step < STEPS; step++) train_step(t);
    train_check_compiled(t);
    snprintf(whole, sizeof whole, "%.*s%s.ours.bin", (int)(network - path), path, name);
    train_results(t, whole);
}

/* Trains n steps. Returns the seconds of one. */
static double train_run(struct train *t, int n)
{
    struct timespec begin, end;

    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < n; i++) train_step(t);
    clock_gettime(CLOCK_MONOTONIC, &end);
    return ((double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec)) / n;
}

/* Executes a line of words between tabs. Returns the reply. */
static double train_command(struct train *t, char *line)
{
    char *command = strtok(line, "\t\n"), *value = strtok(NULL, "\t\n"), *path;

    if (!command || !value) train_die("expected a command and its value");
    if (!strcmp(command, "run")) return train_run(t, atoi(value));
    if (strcmp(command, "open")) return 0; /* bind: no caches */
    path = strtok(NULL, "\t\n");
    if (!path) train_die("expected a path");
    train_open(t, value, path);
    return 0;
}

int main(int argc, char **argv)
{
    struct train t = {0};
    char line[LINE_SIZE];

    train_check(bp_core_create(NULL, &t.core));
    train_check(bp_device_create(t.core, argc > 1 ? argv[1] : "cpu:0", &t.device));
    train_check(bp_stream_create(t.device, &t.stream));
    while (fgets(line, sizeof line, stdin)) {
        printf("%.9g\n", train_command(&t, line));
        fflush(stdout);
    }
    train_close(&t);
    bp_stream_destroy(t.stream);
    bp_device_destroy(t.device);
    bp_core_destroy(t.core);
    return 0;
}
