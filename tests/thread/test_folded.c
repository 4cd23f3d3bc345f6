/* SPDX-License-Identifier: Apache-2.0 */
/* test_folded.c: on four threads, creates programs that share a folded constant: those with a
 * packed copy, after which the contents may be freed, and those that read the contents, which write
 * them again. A plain program, for ThreadSanitizer. Silent on success. */
#include <backplane/backplane.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, ROUNDS = 12, UNITS = 64, ROWS = 3 * UNITS, INPUTS = 128, STEPS = 2 };

enum { SUM, LAYER, KINDS };

static const struct kind {
    uint32_t rank, outputs;
    int64_t shape[3]; /* of the input */
} kinds[KINDS] = {{2, ROWS * INPUTS, {ROWS, INPUTS}}, {3, STEPS * UNITS, {STEPS, 1, INPUTS}}};

static struct bp_core *core;
static struct bp_device *device;
static struct bp_graph *graph[KINDS];
static struct bp_tensor *w, *scale, *r, *x[KINDS]; /* frozen; x: the inputs */
static float expected[KINDS][ROWS * INPUTS];

static void folded_need(enum bp_status status, const char *what)
{
    if (status == BP_OK) return;
    fprintf(stderr, "%s: %s\n", what, bp_error_message());
    exit(1);
}

static struct bp_tensor *folded_numbers(struct bp_stream *stream, uint32_t rank,
                                        const int64_t *shape)
{
    static float v[ROWS * INPUTS];
    struct bp_tensor *t;
    size_t n = 1;

    for (uint32_t i = 0; i < rank; i++) n *= (size_t)shape[i];
    for (size_t i = 0; i < n; i++) v[i] = (float)((int)(i * 37 % 101) - 50) / 512;
    folded_need(bp_tensor_create(device, BP_F32, rank, shape, &t), "create");
    folded_need(bp_tensor_write(stream, t, v, n * sizeof *v), "write");
    folded_need(bp_tensor_freeze(t), "freeze");
    return t;
}

/* Calls y = input + m, or y = gru_layer(input, m, r), where m is the product of w and scale. */
static struct bp_tensor *folded_call(struct bp_scope *scope, struct bp_tensor *input, int kind)
{
    struct bp_tensor *m = NULL, *y = NULL, *h = NULL;

    folded_need(bp_op_mul(scope, w, scale, &m), "mul");
    if (kind == SUM) folded_need(bp_op_add(scope, input, m, &y), "add");
    else
        folded_need(bp_op_gru_layer(scope, input, m, r, NULL, NULL, NULL, NULL, NULL, &y, &h),
                    "gru_layer");
    bp_tensor_destroy(m);
    bp_tensor_destroy(h);
    return y;
}

/* Creates the input and the graph, and computes the expected output by single calls. */
static void folded_init(struct bp_stream *stream, int kind)
{
    const struct kind *k = &kinds[kind];
    struct bp_tensor *input, *y;

    x[kind] = folded_numbers(stream, k->rank, k->shape);
    y = folded_call(bp_stream_scope(stream), x[kind], kind);
    folded_need(bp_tensor_read(stream, y, expected[kind], k->outputs * sizeof(float)), "read");
    bp_tensor_destroy(y);
    folded_need(bp_graph_create(core, &graph[kind]), "graph");
    folded_need(bp_graph_input(graph[kind], "x", BP_F32, k->rank, k->shape, &input), "input");
    y = folded_call(bp_graph_scope(graph[kind]), input, kind);
    folded_need(bp_graph_output(graph[kind], y, NULL), "output");
    bp_tensor_destroy(input);
    bp_tensor_destroy(y);
}

static void folded_run(struct bp_stream *stream, int kind, float *got)
{
    uint32_t n = kinds[kind].outputs;
    struct bp_program *program;
    struct bp_tensor *y = NULL;

    folded_need(bp_program_create(graph[kind], device, &program), "program");
    folded_need(bp_program_run(program, stream, &x[kind], 1, &y, 1), "run");
    folded_need(bp_tensor_read(stream, y, got, n * sizeof *got), "read");
    bp_tensor_destroy(y);
    bp_program_destroy(program);
    for (uint32_t i = 0; i < n; i++) {
        if (fabsf(got[i] - expected[kind][i]) <= 1e-5f) continue;
        fprintf(stderr, "kind %d: element %u is %g, expected %g\n", kind, (unsigned)i,
                (double)got[i], (double)expected[kind][i]);
        exit(1);
    }
}

/* Three of four programs have a packed copy, so that the contents are freed between sums. */
static void *folded_work(void *arg)
{
    int number = *(int *)arg;
    float *got = malloc(sizeof expected[0]);
    struct bp_stream *stream;

    if (!got) exit(1);
    folded_need(bp_stream_create_with(device, BP_STREAM_INLINE, &stream), "stream");
    for (int round = 0; round < ROUNDS; round++)
        folded_run(stream, (round + number) % 4 ? LAYER : SUM, got);
    free(got);
    bp_stream_destroy(stream);
    return NULL;
}

int main(void)
{
    struct bp_program *kept; /* holds the constant */
    struct bp_stream *stream;
    pthread_t thread[THREADS];
    int number[THREADS];

    folded_need(bp_core_create(NULL, &core), "core");
    folded_need(bp_device_create(core, "cpu:0", &device), "device");
    folded_need(bp_stream_create_with(device, BP_STREAM_INLINE, &stream), "stream");
    w = folded_numbers(stream, 2, (int64_t[]){ROWS, INPUTS});
    scale = folded_numbers(stream, 2, (int64_t[]){ROWS, 1});
    r = folded_numbers(stream, 2, (int64_t[]){ROWS, UNITS});
    for (int kind = 0; kind < KINDS; kind++) folded_init(stream, kind);
    folded_need(bp_program_create(graph[LAYER], device, &kept), "program");
    for (int i = 0; i < THREADS; i++) {
        number[i] = i;
        if (pthread_create(&thread[i], NULL, folded_work, &number[i])) return 1;
    }
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    bp_program_destroy(kept);
    for (int kind = 0; kind < KINDS; kind++) {
        bp_graph_destroy(graph[kind]);
        bp_tensor_destroy(x[kind]);
    }
    bp_tensor_destroy(w);
    bp_tensor_destroy(scale);
    bp_tensor_destroy(r);
    bp_stream_destroy(stream);
    bp_device_destroy(device);
    bp_core_destroy(core);
    return 0;
}
