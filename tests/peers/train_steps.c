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
#include "train.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    STEPS = 2, /* before the results are written */
    LINE_SIZE = 4096,
    PATH_SIZE = LINE_SIZE + 32
};

static const float rate = 0.01f;

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
    const char *network = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    char whole[PATH_SIZE];

    train_close(t);
    snprintf(whole, sizeof whole, "%s.bin", path);
    t->file = fopen(whole, "rb");
    if (!t->file) train_die("the file of the network cannot be read");
    train_check(bp_graph_create(t->core, &t->graph));
    t->scope = bp_graph_scope(t->graph);
    train_record_updates(t, train_network(t, network));
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
