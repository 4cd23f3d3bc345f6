/* SPDX-License-Identifier: Apache-2.0 */
/* test_threads.c: runs one model from many threads, each with its own stream: a model that becomes
 * a graph, one whose extents depend on data, and one with random numbers; with shapes that the
 * threads share, and more shapes than the model keeps plans. A plain program, for ThreadSanitizer.
 * Silent on success. */
#include "thread_models.h"
#include <backplane/model.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, ROUNDS = 60, WIDTH = 4, LONG = 12 };

static struct bp_device *device;
static struct bp_model *planned, *of_data, *random_model;

static void threads_need(bool good, const char *what)
{
    if (good) return;
    fprintf(stderr, "%s: %s\n", what, bp_error_message());
    exit(1);
}

/* Element i of the input of round `round` of a thread: whole numbers from -4 to 4. */
static float input_element(int thread, int round, int64_t i)
{
    return (float)((thread * 31 + round * 7 + i * 5) % 9 - 4);
}

static void fill_input(int thread, int round, int64_t n, float *x)
{
    for (int64_t i = 0; i < n * WIDTH; i++) x[i] = input_element(thread, round, i);
}

static void expect_number(const char *what, float got, float expected)
{
    if (got == expected) return;
    fprintf(stderr, "%s: got %g, expected %g\n", what, (double)got, (double)expected);
    exit(1);
}

static struct bp_tensor *threads_input(struct bp_stream *stream, int64_t n, const float *x)
{
    const int64_t shape[] = {n, WIDTH};
    struct bp_tensor *t;

    threads_need(!bp_tensor_create(device, BP_F32, 2, shape, &t), "create");
    threads_need(!bp_tensor_write(stream, t, x, (size_t)(n * WIDTH) * sizeof *x), "write");
    return t;
}

/* Runs a model with one input, and reads its first output. */
static void threads_run(struct bp_model *model, struct bp_stream *stream, int64_t n, const float *x,
                        float *out_y, size_t count, struct bp_tensor **out_second)
{
    uint32_t n_out = out_second ? 2 : 1;
    struct bp_tensor *in = threads_input(stream, n, x), *out[2] = {NULL, NULL};

    threads_need(!bp_model_run(model, stream, &in, 1, out, n_out), "run");
    threads_need(!bp_tensor_read(stream, out[0], out_y, count * sizeof *out_y), "read");
    bp_tensor_destroy(in);
    bp_tensor_destroy(out[0]);
    if (out_second) *out_second = out[1];
}

static void run_planned(struct bp_stream *stream, int64_t n, const float *x)
{
    float y[LONG * WIDTH];

    threads_run(planned, stream, n, x, y, (size_t)(n * WIDTH), NULL);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < WIDTH; k++) {
            float sum = 0;
            for (int64_t j = 0; j < WIDTH; j++)
                sum += x[i * WIDTH + j] * (float)((j * WIDTH + k) % 5 - 2);
            expect_number("product", y[i * WIDTH + k], (sum > 0 ? sum : 0) + x[i * WIDTH + k]);
        }
}

static void run_of_data(struct bp_stream *stream, int64_t n, const float *x)
{
    float y, expected = 0;

    for (int64_t i = 0; i < n * WIDTH; i++)
        if (x[i] > 0) expected += 2 * x[i] + 2;
    threads_run(of_data, stream, n, x, &y, 1, NULL);
    expect_number("model that depends on data", y, expected);
}

static void run_random(struct bp_stream *stream, int64_t n, const float *x)
{
    float y[LONG * WIDTH], z[LONG * WIDTH];
    struct bp_tensor *numbers;
    bool differ = false;

    threads_run(random_model, stream, n, x, y, (size_t)(n * WIDTH), &numbers);
    threads_need(!bp_tensor_read(stream, numbers, z, (size_t)(n * WIDTH) * sizeof *z), "read");
    for (int64_t i = 0; i < n * WIDTH; i++) {
        expect_number("random model", y[i], x[i]);
        differ |= z[i] != z[0];
        threads_need(z[i] >= 0 && z[i] < 1, "a random number is out of range");
    }
    threads_need(differ, "all random numbers are equal");
    bp_tensor_destroy(numbers);
}

/* Reads all facts that another thread's run changes. */
static void look_at_model(struct bp_stream *stream, int64_t n, const float *x)
{
    struct bp_model_info info = {.size = sizeof info};
    struct bp_tensor *in = threads_input(stream, n, x);
    struct bp_graph *graph = NULL;

    threads_need(!bp_model_get_info(planned, &info), "info");
    threads_need(!strstr(info.reason, "failed"), info.reason);
    threads_need(!bp_model_planned(planned, &in, 1, &graph) && graph, "planned");
    threads_need(!*bp_model_node(of_data), "a node of another thread is shown");
    bp_tensor_destroy(in);
}

static void *threads_work(void *arg)
{
    int me = *(int *)arg;
    struct bp_stream *stream;
    float x[LONG * WIDTH];

    threads_need(!bp_stream_create(device, &stream), "stream");
    for (int round = 0; round < ROUNDS; round++) {
        int64_t n = (me + round) % 2 ? 3 : 8;
        if (round % 16 == 0) n = 1 + (me * 5 + round / 16) % LONG; /* replaces plans */
        fill_input(me, round, n, x);
        run_planned(stream, n, x);
        run_of_data(stream, n, x);
        run_random(stream, n, x);
        if (round % 8 == me) look_at_model(stream, n, x);
    }
    bp_stream_destroy(stream);
    return NULL;
}

static struct bp_model *threads_load(const char *data, size_t size)
{
    struct bp_model *model;

    threads_need(!bp_model_load_memory(device, data, size, NULL, &model), "load");
    return model;
}

int main(void)
{
    int number[THREADS];
    pthread_t thread[THREADS];
    struct bp_model_info info = {.size = sizeof info};
    struct bp_core *core;

    threads_need(!bp_core_create(NULL, &core), "core");
    threads_need(!bp_device_create(core, "cpu:0", &device), "device");
    planned = threads_load(model_planned, sizeof model_planned - 1);
    of_data = threads_load(model_of_data, sizeof model_of_data - 1);
    random_model = threads_load(model_random, sizeof model_random - 1);
    for (int i = 0; i < THREADS; i++) {
        number[i] = i;
        threads_need(!pthread_create(&thread[i], NULL, threads_work, &number[i]), "thread");
    }
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    threads_need(!bp_model_get_info(of_data, &info) && info.runs > 0, "no run was counted");
    bp_model_destroy(planned);
    bp_model_destroy(of_data);
    bp_model_destroy(random_model);
    bp_device_destroy(device);
    bp_core_destroy(core);
    return 0;
}
