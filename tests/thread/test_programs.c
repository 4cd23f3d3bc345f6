/* SPDX-License-Identifier: Apache-2.0 */
/* test_programs.c: runs one program on eight threads, each with its own stream and its own inputs,
 * every second stream with a queue; and creates programs that share a folded constant. A plain
 * program, for ThreadSanitizer. Silent on success. */
#include <backplane/backplane.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 8, ROUNDS = 40, CREATED = 10, ELEMENTS = 64, LAYERS = 12 };

static struct bp_core *core;
static struct bp_device *device;
static struct bp_program *program;
static struct bp_graph *folding;

static void programs_need(enum bp_status status, const char *what)
{
    if (status == BP_OK) return;
    fprintf(stderr, "%s: %s\n", what, bp_error_message());
    exit(1);
}

/* y = x + 12 x, by a chain of sums whose intermediate results share memory. */
static void programs_record(struct bp_graph *graph)
{
    struct bp_scope *scope = bp_graph_scope(graph);
    struct bp_tensor *x, *sum = NULL, *next = NULL;

    programs_need(bp_graph_input(graph, "x", BP_F32, 1, (int64_t[]){ELEMENTS}, &x), "input");
    programs_need(bp_op_add(scope, x, x, &sum), "add");
    for (int i = 1; i < LAYERS; i++) {
        programs_need(bp_op_add(scope, sum, x, &next), "add");
        bp_tensor_destroy(sum);
        sum = next;
        next = NULL;
    }
    programs_need(bp_graph_output(graph, sum, "y"), "output");
    bp_tensor_destroy(sum);
    bp_tensor_destroy(x);
}

/* y = x + neg(b). The compiler computes neg(b) for a frozen b. */
static void programs_record_folding(void)
{
    struct bp_tensor *x, *b, *negative = NULL, *y = NULL;
    struct bp_stream *stream;
    float v[ELEMENTS];

    for (int i = 0; i < ELEMENTS; i++) v[i] = -3;
    programs_need(bp_stream_create_with(device, BP_STREAM_INLINE, &stream), "stream");
    programs_need(bp_tensor_create(device, BP_F32, 1, (int64_t[]){ELEMENTS}, &b), "create");
    programs_need(bp_tensor_write(stream, b, v, sizeof v), "write");
    programs_need(bp_tensor_freeze(b), "freeze");
    programs_need(bp_graph_create(core, &folding), "graph");
    programs_need(bp_graph_input(folding, "x", BP_F32, 1, (int64_t[]){ELEMENTS}, &x), "input");
    programs_need(bp_op_neg(bp_graph_scope(folding), b, &negative), "neg");
    programs_need(bp_op_add(bp_graph_scope(folding), x, negative, &y), "add");
    programs_need(bp_graph_output(folding, y, NULL), "output");
    bp_tensor_destroy(x);
    bp_tensor_destroy(b);
    bp_tensor_destroy(negative);
    bp_tensor_destroy(y);
    bp_stream_destroy(stream);
}

/* Programs of other threads compute the same constant, use it and release it meanwhile. */
static void programs_fold(struct bp_stream *stream, struct bp_tensor *x, float value)
{
    struct bp_tensor *y = NULL;
    struct bp_program *own;
    float v[ELEMENTS];

    for (int i = 0; i < ELEMENTS; i++) v[i] = value;
    programs_need(bp_tensor_write(stream, x, v, sizeof v), "write");
    programs_need(bp_program_create(folding, device, &own), "program");
    programs_need(bp_program_run(own, stream, &x, 1, &y, 1), "run");
    bp_program_destroy(own);
    programs_need(bp_tensor_read(stream, y, v, sizeof v), "read");
    bp_tensor_destroy(y);
    for (int i = 0; i < ELEMENTS; i++) {
        if (v[i] == value + 3) continue;
        fprintf(stderr, "element %d is %g, expected %g\n", i, (double)v[i], (double)(value + 3));
        exit(1);
    }
}

static void programs_run(struct bp_stream *stream, struct bp_tensor *x, float value)
{
    struct bp_tensor *y = NULL;
    float v[ELEMENTS];

    for (int i = 0; i < ELEMENTS; i++) v[i] = value + (float)i;
    programs_need(bp_tensor_write(stream, x, v, sizeof v), "write");
    programs_need(bp_program_run(program, stream, &x, 1, &y, 1), "run");
    programs_need(bp_tensor_read(stream, y, v, sizeof v), "read");
    bp_tensor_destroy(y);
    for (int i = 0; i < ELEMENTS; i++) {
        if (v[i] == (1 + LAYERS) * (value + (float)i)) continue;
        fprintf(stderr, "element %d is %g, expected %g\n", i, (double)v[i],
                (double)((1 + LAYERS) * (value + (float)i)));
        exit(1);
    }
}

static void *programs_work(void *arg)
{
    int number = *(int *)arg;
    uint32_t flags = number % 2 ? BP_STREAM_ASYNC : BP_STREAM_INLINE;
    float first = (float)number;
    struct bp_stream *stream;
    struct bp_tensor *x;

    programs_need(bp_stream_create_with(device, flags, &stream), "stream");
    programs_need(bp_tensor_create(device, BP_F32, 1, (int64_t[]){ELEMENTS}, &x), "create");
    for (int round = 0; round < ROUNDS; round++)
        programs_run(stream, x, first + (float)(THREADS * round));
    for (int round = 0; round < CREATED; round++) programs_fold(stream, x, first + (float)round);
    bp_tensor_destroy(x);
    bp_stream_destroy(stream);
    return NULL;
}

int main(void)
{
    struct bp_program_info info = {.size = sizeof info};
    pthread_t thread[THREADS];
    struct bp_graph *graph;
    int number[THREADS];

    programs_need(bp_core_create(NULL, &core), "core");
    programs_need(bp_device_create(core, "cpu:0", &device), "device");
    programs_need(bp_graph_create(core, &graph), "graph");
    programs_record(graph);
    programs_need(bp_program_create(graph, device, &program), "program");
    programs_record_folding();
    for (int i = 0; i < THREADS; i++) {
        number[i] = i;
        if (pthread_create(&thread[i], NULL, programs_work, &number[i])) return 1;
    }
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    programs_need(bp_program_get_info(program, &info), "info");
    if (info.runs != THREADS * ROUNDS || !info.compiled) {
        fprintf(stderr, "%llu runs, the last one compiled: %u\n", (unsigned long long)info.runs,
                (unsigned)info.compiled);
        return 1;
    }
    bp_program_destroy(program);
    bp_graph_destroy(graph);
    bp_graph_destroy(folding);
    bp_device_destroy(device);
    bp_core_destroy(core);
    return 0;
}
