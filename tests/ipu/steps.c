/* SPDX-License-Identifier: Apache-2.0 */
/* steps.c: runs steps on a device and prints a line for each: its name, its status, and the message
 * if it failed. A step that returns BP_OK with a wrong result ends the program with 2: a step that
 * failed must have changed nothing.
 *
 *     steps DEVICE STEP...
 *
 *     train      runs y = x + p, p = p - y / 2, which keeps p on the device
 *     read       reads p
 *     write      writes p
 *     other      runs a call, which takes the device from the program
 *     gather     takes elements by indices, in a program that is made anew
 *     save       saves the program, and loads it in place of the old one
 *     reopen     destroys all that belongs to the device, and opens it again */
#include <backplane/backplane.h>
#include <backplane/ops.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    N = 12
};
static struct bp_core *core;
static const char *name, *file;
static struct bp_device *device;
static struct bp_stream *stream;
static struct bp_graph *graph;
static struct bp_program *program;
static struct bp_tensor *x, *p, *rate;
static float want[N];
static int is_known; /* whether p has the values of want */
static const int64_t n = N;

static float walk_x(int i)
{
    return (float)(i % 5) / 4;
}

static enum bp_status walk_compare(const char *step, struct bp_tensor *t, const float *values)
{
    float got[N];
    enum bp_status status = bp_tensor_read(stream, t, got, sizeof got);

    for (int i = 0; i < N && !status; i++)
        if (fabsf(got[i] - values[i]) > 1e-4f * (1 + fabsf(values[i]))) {
            printf("%s: element %d is %g, expected %g\n", step, i, (double)got[i],
                   (double)values[i]);
            exit(2);
        }
    return status;
}

static enum bp_status walk_fill(struct bp_tensor **out, uint32_t rank, const float *values)
{
    enum bp_status status = bp_tensor_create(device, BP_F32, rank, &n, out);

    return status ? status : bp_tensor_write(stream, *out, values, (rank ? N : 1) * sizeof *values);
}

static enum bp_status walk_write(void)
{
    enum bp_status status;

    for (int i = 0; i < N; i++) want[i] = (float)i;
    status = bp_tensor_write(stream, p, want, sizeof want);
    is_known = !status;
    return status;
}

static enum bp_status walk_record(void)
{
    struct bp_tensor *in = NULL, *y = NULL, *next = NULL;
    enum bp_status status = bp_graph_input(graph, "x", BP_F32, 1, &n, &in);

    if (!status) status = bp_op_add(bp_graph_scope(graph), in, p, &y);
    if (!status) status = bp_op_sgd(bp_graph_scope(graph), p, y, rate, &next);
    if (!status) status = bp_graph_output(graph, y, "y");
    bp_tensor_destroy(in);
    bp_tensor_destroy(y);
    bp_tensor_destroy(next);
    return status;
}

static enum bp_status walk_begin(void)
{
    const float half = 0.5f;
    float values[N];
    enum bp_status status = bp_device_create(core, name, &device);

    for (int i = 0; i < N; i++) values[i] = walk_x(i);
    if (!status) status = bp_stream_create(device, &stream);
    if (!status) status = walk_fill(&x, 1, values);
    if (!status) status = walk_fill(&p, 1, values);
    if (!status) status = walk_fill(&rate, 0, &half);
    if (!status) status = walk_write();
    if (!status) status = bp_graph_create(core, &graph);
    if (!status) status = walk_record();
    return status ? status : bp_program_create(graph, device, &program);
}

static void walk_end(void)
{
    bp_program_destroy(program);
    bp_graph_destroy(graph);
    bp_tensor_destroy(x);
    bp_tensor_destroy(p);
    bp_tensor_destroy(rate);
    bp_stream_destroy(stream);
    bp_device_destroy(device);
    program = NULL;
    graph = NULL;
    x = p = rate = NULL;
    stream = NULL;
    device = NULL;
}

static enum bp_status walk_train(const char *step)
{
    struct bp_tensor *y = NULL;
    float values[N];
    enum bp_status status = bp_program_run(program, stream, &x, 1, &y, 1);

    if (!status) status = bp_stream_synchronize(stream);
    for (int i = 0; i < N && !status; i++) {
        values[i] = walk_x(i) + want[i];
        want[i] -= values[i] / 2;
    }
    if (!status && is_known) status = walk_compare(step, y, values);
    bp_tensor_destroy(y);
    return status;
}

static enum bp_status walk_other(const char *step)
{
    struct bp_tensor *y = NULL;
    float values[N];
    enum bp_status status = bp_op_neg(bp_stream_scope(stream), x, &y);

    for (int i = 0; i < N; i++) values[i] = -walk_x(i);
    if (!status) status = walk_compare(step, y, values);
    bp_tensor_destroy(y);
    return status;
}

/* x[i] for the last indices first. */
static enum bp_status walk_gather(const char *step)
{
    struct bp_tensor *index = NULL, *in = NULL, *y = NULL, *out = NULL;
    struct bp_program *taken = NULL;
    struct bp_graph *taking = NULL;
    int32_t numbers[N];
    float values[N];
    enum bp_status status = bp_tensor_create(device, BP_I32, 1, &n, &index);

    for (int i = 0; i < N; i++) values[i] = walk_x(numbers[i] = N - 1 - i);
    if (!status) status = bp_tensor_write(stream, index, numbers, sizeof numbers);
    if (!status) status = bp_graph_create(core, &taking);
    if (!status) status = bp_graph_input(taking, "index", BP_I32, 1, &n, &in);
    if (!status) status = bp_op_gather(bp_graph_scope(taking), x, in, NULL, &y);
    if (!status) status = bp_graph_output(taking, y, "y");
    if (!status) status = bp_program_create(taking, device, &taken);
    if (!status) status = bp_program_run(taken, stream, &index, 1, &out, 1);
    if (!status) status = walk_compare(step, out, values);
    bp_program_destroy(taken);
    bp_graph_destroy(taking);
    bp_tensor_destroy(index);
    bp_tensor_destroy(in);
    bp_tensor_destroy(y);
    bp_tensor_destroy(out);
    return status;
}

static enum bp_status walk_save(void)
{
    struct bp_program *loaded = NULL;
    enum bp_status status = bp_program_save(program, file);

    if (!status) status = bp_program_create(graph, device, &loaded);
    if (!status) status = bp_program_load(loaded, file);
    if (status) {
        bp_program_destroy(loaded);
        return status;
    }
    bp_program_destroy(program);
    program = loaded;
    return BP_OK;
}

static enum bp_status walk_step(const char *step)
{
    if (!strcmp(step, "reopen")) {
        walk_end();
        return walk_begin();
    }
    if (!program) return BP_ERR_INVALID;
    if (!strcmp(step, "train")) return walk_train(step);
    if (!strcmp(step, "read")) {
        float any[N];
        return is_known ? walk_compare(step, p, want) : bp_tensor_read(stream, p, any, sizeof any);
    }
    if (!strcmp(step, "write")) return walk_write();
    if (!strcmp(step, "other")) return walk_other(step);
    if (!strcmp(step, "gather")) return walk_gather(step);
    if (!strcmp(step, "save")) return walk_save();
    printf("%s: no such step\n", step);
    exit(3);
}

static void walk_report(const char *step, enum bp_status status)
{
    if (status) printf("%s: %s: %s\n", step, bp_status_name(status), bp_error_message());
    else printf("%s: BP_OK\n", step);
}

/* Executables and engines of Poplar that exist; the plugin has the shim open, if it could. */
static int walk_live(const char *library)
{
    void *standin = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
    int (*live)(void) = NULL;

    if (standin) *(void **)&live = dlsym(standin, "standin_poplar_live");
    return live ? live() : 0;
}

int main(int argc, char **argv)
{
    name = argv[1];
    file = getenv("STEPS_FILE");
    if (bp_core_create(NULL, &core)) return 3;
    walk_report("begin", walk_begin());
    for (int i = 2; i < argc; i++) walk_report(argv[i], walk_step(argv[i]));
    walk_end();
    printf("live %d\n", walk_live(getenv("STEPS_STANDIN")));
    bp_core_destroy(core);
    puts("end");
    return 0;
}
