/* SPDX-License-Identifier: Apache-2.0 */
/* test_calls.c: runs the same operators on many threads, each with its own stream. Tables of calls
 * fill, are shared, overflow and are dropped under memory pressure; one prepared call and one graph
 * run on all streams; one generator is shared. A plain program, for ThreadSanitizer. Silent on
 * success. */
#include <backplane/backplane.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, ROUNDS = 12, SHAPES = 400 };

static struct bp_core *core;
static struct bp_device *device;
static struct bp_tensor *one; /* read by all threads */
static struct bp_prepared *prepared;
static struct bp_graph *graph;

static void calls_need(enum bp_status status, const char *what)
{
    if (status == BP_OK) return;
    fprintf(stderr, "%s: %s\n", what, bp_error_message());
    exit(1);
}

static void calls_expect(float got, float expected, const char *what)
{
    if (got == expected) return;
    fprintf(stderr, "%s: %g, expected %g\n", what, (double)got, (double)expected);
    exit(1);
}

/* Calls with more signatures than two threads have in common at any time. */
static void many_shapes(struct bp_stream *stream, int64_t seed)
{
    for (int64_t i = 0; i < SHAPES; i++) {
        int64_t shape[2] = {1 + (i * seed) % 7, 1 + i};
        struct bp_tensor *x, *y = NULL;
        float got[2];
        calls_need(bp_tensor_create(device, BP_F32, 2, shape, &x), "create");
        calls_need(bp_op_add(bp_stream_scope(stream), x, one, &y), "add");
        bp_tensor_destroy(x);
        bp_tensor_destroy(y), y = NULL;
        calls_need(bp_op_add(bp_stream_scope(stream), one, one, &y), "add");
        calls_need(bp_tensor_read(stream, y, got, sizeof *got), "read");
        calls_expect(got[0], 2, "1 + 1");
        bp_tensor_destroy(y), y = NULL;
    }
}

static void shared_calls(struct bp_stream *stream)
{
    struct bp_tensor *in[2] = {one, one}, *z, *out = NULL;
    float got = 0;

    calls_need(bp_tensor_create(device, BP_F32, 1, (int64_t[]){1}, &z), "create");
    calls_need(bp_prepared_run(prepared, stream, in, 2, &z, 1, NULL), "prepared");
    calls_need(bp_tensor_read(stream, z, &got, sizeof got), "read");
    calls_expect(got, 2, "prepared");
    calls_need(bp_graph_run(graph, stream, &z, 1, &out, 1), "graph");
    calls_need(bp_tensor_read(stream, out, &got, sizeof got), "read");
    calls_expect(got, 6, "graph");
    bp_tensor_destroy(z);
    bp_tensor_destroy(out);
}

static void *calls_work(void *arg)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct bp_stream *stream;
        calls_need(
            bp_stream_create_with(device, round % 2 ? BP_STREAM_ASYNC : BP_STREAM_INLINE, &stream),
            "stream");
        many_shapes(stream, 1 + *(int *)arg + round);
        shared_calls(stream);
        bp_stream_destroy(stream);
    }
    return NULL;
}

static void make_shared(struct bp_stream *stream)
{
    struct bp_arg in[2] = {{&one, 1}, {&one, 1}};
    struct bp_call call = {.size = sizeof call, .op = "add", .in = in, .n_in = 2};
    struct bp_tensor *x, *s = NULL, *t = NULL;
    float value = 1;

    calls_need(bp_tensor_create(device, BP_F32, 1, (int64_t[]){1}, &one), "create");
    calls_need(bp_tensor_write(stream, one, &value, sizeof value), "write");
    calls_need(bp_prepared_create(device, &call, NULL, 0, &prepared), "prepare");
    calls_need(bp_graph_create(core, &graph), "graph");
    calls_need(bp_graph_input(graph, "x", BP_F32, 1, (int64_t[]){1}, &x), "input");
    calls_need(bp_op_add(bp_graph_scope(graph), x, x, &s), "record");
    calls_need(bp_op_add(bp_graph_scope(graph), s, x, &t), "record");
    calls_need(bp_graph_output(graph, t, "t"), "output");
    bp_tensor_destroy(x);
    bp_tensor_destroy(s);
    bp_tensor_destroy(t);
}

int main(void)
{
    struct bp_stream *stream;
    pthread_t thread[THREADS];
    int number[THREADS];

    calls_need(bp_core_create(NULL, &core), "core");
    calls_need(bp_device_create(core, "cpu:0", &device), "device");
    calls_need(bp_stream_create(device, &stream), "stream");
    make_shared(stream);
    for (int i = 0; i < THREADS; i++) {
        number[i] = i;
        pthread_create(&thread[i], NULL, calls_work, &number[i]);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    bp_graph_destroy(graph);
    bp_prepared_destroy(prepared);
    bp_tensor_destroy(one);
    bp_stream_destroy(stream);
    bp_device_destroy(device);
    bp_core_destroy(core);
    return 0;
}
