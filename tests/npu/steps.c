/* SPDX-License-Identifier: Apache-2.0 */
/* steps.c: runs steps on a device and prints a line for each step: its name, its status, and the
 * message if it failed. A step that returns BP_OK with a wrong result ends the program with 2.
 *
 *     steps DEVICE STEP...
 *
 *     add        x becomes x + 1
 *     gather     takes elements of x; the indices are good
 *     fault      the same with an index past the end: the next wait reports it
 *     read       reads x and checks each number
 *     large      writes and reads a tensor that is too large for staging
 *     record, query, wait    an event
 *     other      lets a second stream wait for the event and add there
 *     concat     joins x with itself: a function that takes a list of tensors
 *     norm       a norm of x and its gradient: functions that take arrays of bools
 *     peer       copies x to the second device of the kind, and reads it there
 *     product    computes products of matrices of f32, a batch of them, with a bias, and of nothing
 *     draws      draws categories whose number follows from the weights: multinomial
 *     counts     counts numbers: bincount
 *     draws-bad, draws-few    the same with a weight below 0, and with too few weights above 0
 *     counts-below, counts-above    the same with numbers of no bin
 *     managed    creates and destroys memory that the host can access too
 *     products   runs a program of a product three times
 *     program    runs a program three times: where the device records, the last are replays
 *     many       prepares and runs the sum for many shapes
 *     threads    adds in four threads, with a stream each
 *     reopen     destroys all that belongs to the device, and opens it again */
#include <backplane/backplane.h>
#include <backplane/ops.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    N = 1000,
    LARGE = 100000,
    THREADS = 4,
    ADDS = 20
};
static struct bp_core *core;
static const char *name;
static struct bp_device *device;
static struct bp_stream *stream, *second;
static struct bp_event *event;
static struct bp_tensor *x, *one, *index_good, *index_bad;
static int sums;
static const int64_t n = N;

static void steps_wrong(const char *step, int at, double got, double expected)
{
    printf("%s: element %d is %g, expected %g\n", step, at, got, expected);
    exit(2);
}

static enum bp_status steps_fill(struct bp_tensor **out, uint32_t dtype, int64_t count,
                                 const void *numbers, size_t size)
{
    enum bp_status status = bp_tensor_create(device, dtype, 1, &count, out);

    return status ? status : bp_tensor_write(stream, *out, numbers, size);
}

static enum bp_status steps_begin(void)
{
    static const float zeros[N], number = 1;
    int64_t good[N], bad[N];
    enum bp_status status = bp_device_create(core, name, &device);

    for (int i = 0; i < N; i++) good[i] = bad[i] = i % 2 ? i : i - N;
    bad[17] = N;
    sums = 0;
    if (!status) status = bp_stream_create(device, &stream);
    if (!status) status = bp_stream_create(device, &second);
    if (!status) status = bp_event_create(device, &event);
    if (!status) status = steps_fill(&x, BP_F32, N, zeros, sizeof zeros);
    if (!status) status = steps_fill(&one, BP_F32, 1, &number, sizeof number);
    if (!status) status = steps_fill(&index_good, BP_I64, N, good, sizeof good);
    if (!status) status = steps_fill(&index_bad, BP_I64, N, bad, sizeof bad);
    return status;
}

static void steps_end(void)
{
    struct bp_tensor **tensor[] = {&x, &one, &index_good, &index_bad};

    for (int i = 0; i < 4; i++) {
        bp_tensor_destroy(*tensor[i]);
        *tensor[i] = NULL;
    }
    bp_event_destroy(event);
    bp_stream_destroy(second);
    bp_stream_destroy(stream);
    bp_device_destroy(device);
    event = NULL;
    second = stream = NULL;
    device = NULL;
}

static enum bp_status steps_add(struct bp_stream *on)
{
    struct bp_tensor *sum = NULL;
    enum bp_status status = bp_op_add(bp_stream_scope(on), x, one, &sum);

    if (status) return status;
    bp_tensor_destroy(x);
    x = sum;
    sums++;
    return BP_OK;
}

static enum bp_status steps_gather(struct bp_tensor *index)
{
    struct bp_tensor *taken = NULL;
    enum bp_status status = bp_op_gather(bp_stream_scope(stream), x, index, NULL, &taken);

    bp_tensor_destroy(taken);
    return status;
}

static enum bp_status steps_read(const char *step)
{
    float numbers[N];
    enum bp_status status = bp_tensor_read(stream, x, numbers, sizeof numbers);

    for (int i = 0; i < N && !status; i++)
        if (numbers[i] != (float)sums) steps_wrong(step, i, (double)numbers[i], sums);
    return status;
}

static enum bp_status steps_large(const char *step)
{
    static float numbers[LARGE], got[LARGE];
    struct bp_tensor *large = NULL;
    enum bp_status status;

    for (int i = 0; i < LARGE; i++) numbers[i] = (float)i;
    status = steps_fill(&large, BP_F32, LARGE, numbers, sizeof numbers);
    if (!status) status = bp_tensor_read(stream, large, got, sizeof got);
    for (int i = 0; i < LARGE && !status; i++)
        if (got[i] != numbers[i]) steps_wrong(step, i, (double)got[i], i);
    bp_tensor_destroy(large);
    return status;
}

static enum bp_status steps_other(void)
{
    enum bp_status status = bp_stream_wait(second, event);

    if (!status) status = steps_add(second);
    return status ? status : bp_stream_synchronize(second);
}

static enum bp_status steps_concat(void)
{
    struct bp_tensor *two[2] = {x, x}, *joined = NULL;
    enum bp_status status = bp_op_concat(bp_stream_scope(stream), two, 2, NULL, &joined);

    bp_tensor_destroy(joined);
    return status;
}

static enum bp_status steps_norm(void)
{
    struct bp_scope *scope = bp_stream_scope(stream);
    struct bp_tensor *y = NULL, *mean = NULL, *deviation = NULL, *dx = NULL;
    enum bp_status status = bp_op_layer_norm(scope, x, NULL, NULL, NULL, &y, &mean, &deviation);

    if (!status)
        status = bp_op_layer_norm_grad(scope, x, NULL, y, mean, deviation, NULL, &dx, NULL, NULL);
    bp_tensor_destroy(dx);
    bp_tensor_destroy(deviation);
    bp_tensor_destroy(mean);
    bp_tensor_destroy(y);
    return status;
}

static enum bp_status steps_peer(const char *step)
{
    struct bp_device *peer = NULL;
    struct bp_stream *there = NULL;
    struct bp_tensor *copy = NULL;
    char second_name[32];
    float numbers[N];
    enum bp_status status;

    snprintf(second_name, sizeof second_name, "%.*s:1", (int)strcspn(name, ":"), name);
    status = bp_device_create(core, second_name, &peer);
    if (!status) status = bp_stream_create(peer, &there);
    if (!status) status = bp_tensor_create(peer, BP_F32, 1, &n, &copy);
    if (!status) status = bp_tensor_copy(there, copy, x);
    if (!status) status = bp_tensor_read(there, copy, numbers, sizeof numbers);
    for (int i = 0; i < N && !status; i++)
        if (numbers[i] != (float)sums) steps_wrong(step, i, (double)numbers[i], sums);
    bp_tensor_destroy(copy);
    bp_stream_destroy(there);
    bp_device_destroy(peer);
    return status;
}

static void steps_print_replays(const char *step, struct bp_program *program)
{
    struct bp_program_info info = {.size = sizeof info};

    if (bp_program_get_info(program, &info)) return;
    printf("%s: %llu replays %s\n", step, (unsigned long long)info.replays, info.reason);
}

enum {
    ROWS = 4
};

/* Creates `matrices` matrices of ones; `columns` columns. */
static enum bp_status steps_ones(struct bp_tensor **out, int64_t matrices, int64_t columns)
{
    static float ones[2 * ROWS * ROWS];
    const int64_t shape[3] = {matrices, ROWS, columns};
    enum bp_status status = bp_tensor_create(device, BP_F32, 3, shape, out);

    for (int i = 0; i < 2 * ROWS * ROWS; i++) ones[i] = 1;
    if (status || !columns) return status;
    return bp_tensor_write(stream, *out, ones, (size_t)(matrices * ROWS * columns) * sizeof *ones);
}

/* Reads products of ROWS rows and columns, and checks that all their elements are `expected`. */
static enum bp_status steps_check(const char *step, struct bp_tensor *y, int matrices,
                                  float expected)
{
    float got[2 * ROWS * ROWS];
    const size_t count = (size_t)matrices * ROWS * ROWS;
    enum bp_status status = bp_tensor_read(stream, y, got, count * sizeof *got);

    for (size_t i = 0; i < count && !status; i++)
        if (got[i] != expected) steps_wrong(step, (int)i, (double)got[i], (double)expected);
    return status;
}

/* Multiplies a matrix, or a batch, by itself, and adds a bias of 1 if `bias`. */
static enum bp_status steps_multiply(const char *step, int matrices, bool bias)
{
    static const float ones[ROWS] = {1, 1, 1, 1};
    struct bp_scope *scope = bp_stream_scope(stream);
    struct bp_tensor *a = NULL, *b = NULL, *w = NULL, *y = NULL;
    const int64_t square[2] = {ROWS, ROWS};
    enum bp_status status = steps_ones(&a, matrices, ROWS);

    if (!status && bias) status = steps_fill(&b, BP_F32, ROWS, ones, sizeof ones);
    if (!status && bias) status = bp_tensor_reshape(a, 2, square, &w);
    if (!status) {
        if (bias) status = bp_op_linear(scope, a, w, b, &y);
        else status = bp_op_matmul(scope, a, a, NULL, &y);
    }
    if (!status) status = steps_check(step, y, matrices, ROWS + (float)bias);
    bp_tensor_destroy(y);
    bp_tensor_destroy(w);
    bp_tensor_destroy(b);
    bp_tensor_destroy(a);
    return status;
}

/* A product of matrices without elements is 0. */
static enum bp_status steps_multiply_nothing(const char *step)
{
    const int64_t across[3] = {1, 0, ROWS};
    struct bp_tensor *a = NULL, *b = NULL, *y = NULL;
    enum bp_status status = steps_ones(&a, 1, 0);

    if (!status) status = bp_tensor_create(device, BP_F32, 3, across, &b);
    if (!status) status = bp_op_matmul(bp_stream_scope(stream), a, b, NULL, &y);
    if (!status) status = steps_check(step, y, 1, 0);
    bp_tensor_destroy(y);
    bp_tensor_destroy(b);
    bp_tensor_destroy(a);
    return status;
}

enum {
    DRAW_ROWS = 2,
    DRAW_WEIGHTS = 4,
    BINS = 6
};

/* Draws `n` categories of each row, each once. */
static enum bp_status steps_multinomial(const float *weights, int64_t n_draw, int64_t *out)
{
    const int64_t shape[2] = {DRAW_ROWS, DRAW_WEIGHTS};
    struct bp_multinomial_attrs attrs = bp_multinomial_defaults();
    struct bp_tensor *w = NULL, *y = NULL;
    enum bp_status status = bp_tensor_create(device, BP_F32, 2, shape, &w);

    attrs.n = n_draw;
    if (!status)
        status = bp_tensor_write(stream, w, weights, DRAW_ROWS * DRAW_WEIGHTS * sizeof *weights);
    if (!status) status = bp_op_multinomial(bp_stream_scope(stream), w, &attrs, &y);
    if (!status)
        status = bp_tensor_read(stream, y, out, (size_t)(DRAW_ROWS * n_draw) * sizeof *out);
    bp_tensor_destroy(y);
    bp_tensor_destroy(w);
    return status;
}

static enum bp_status steps_draws(const char *step)
{
    static const float forced[] = {0, 5, 0, 0, 0, 0, 0, 1}, two[] = {3, 0, 4, 0, 0, 1, 0, 2};
    static const int64_t single[] = {1, 3}, sum[] = {2, 4}, product[] = {0, 3};
    int64_t got[2 * DRAW_ROWS];
    enum bp_status status = steps_multinomial(forced, 1, got);

    for (int i = 0; i < DRAW_ROWS && !status; i++)
        if (got[i] != single[i]) steps_wrong(step, i, (double)got[i], (double)single[i]);
    if (!status) status = steps_multinomial(two, 2, got);
    for (int i = 0; i < DRAW_ROWS && !status; i++) {
        const int64_t a = got[2 * i], b = got[2 * i + 1];
        if (a + b != sum[i] || a * b != product[i])
            steps_wrong(step, i, (double)(a + b), (double)sum[i]);
    }
    return status;
}

static enum bp_status steps_draws_wrong(const float *weights)
{
    int64_t got[2 * DRAW_ROWS];

    return steps_multinomial(weights, 2, got);
}

/* Counts 0, 2, 2, and `last`, which is a bin or not. */
static enum bp_status steps_counts(const char *step, int64_t last)
{
    static const int64_t expected[BINS] = {1, 0, 2, 0, 0, 1};
    const int64_t numbers[] = {0, 2, 2, last};
    struct bp_bincount_attrs attrs = bp_bincount_defaults();
    struct bp_tensor *counted = NULL, *y = NULL;
    int64_t got[BINS];
    enum bp_status status = steps_fill(&counted, BP_I64, 4, numbers, sizeof numbers);

    attrs.bins = BINS;
    if (!status) status = bp_op_bincount(bp_stream_scope(stream), counted, NULL, NULL, &attrs, &y);
    if (!status) status = bp_tensor_read(stream, y, got, sizeof got);
    for (int i = 0; i < BINS && !status; i++)
        if (got[i] != expected[i]) steps_wrong(step, i, (double)got[i], (double)expected[i]);
    bp_tensor_destroy(y);
    bp_tensor_destroy(counted);
    return status;
}

static enum bp_status steps_managed(void)
{
    struct bp_buffer *buffer = NULL;
    enum bp_status status = bp_buffer_create(device, stream, BP_SPACE_MANAGED, N, &buffer);

    bp_buffer_destroy(buffer);
    return status;
}

static enum bp_status steps_product(const char *step)
{
    enum bp_status status = steps_multiply(step, 1, false);

    if (!status) status = steps_multiply(step, 2, false);
    if (!status) status = steps_multiply(step, 1, true);
    return status ? status : steps_multiply_nothing(step);
}

static enum bp_status steps_products_run(const char *step, struct bp_program *program)
{
    struct bp_tensor *a = NULL, *y = NULL;
    enum bp_status status = steps_ones(&a, 1, ROWS);

    for (int i = 0; i < 3 && !status; i++) {
        status = bp_program_run(program, stream, &a, 1, &y, 1);
        if (!status) status = steps_check(step, y, 1, ROWS);
        bp_tensor_destroy(y);
        y = NULL;
    }
    bp_tensor_destroy(a);
    return status;
}

static enum bp_status steps_products(const char *step)
{
    const int64_t shape[3] = {1, ROWS, ROWS};
    struct bp_tensor *in = NULL, *y = NULL;
    struct bp_program *program = NULL;
    struct bp_graph *graph = NULL;
    enum bp_status status = bp_graph_create(core, &graph);

    if (!status) status = bp_graph_input(graph, "x", BP_F32, 3, shape, &in);
    if (!status) status = bp_op_matmul(bp_graph_scope(graph), in, in, NULL, &y);
    if (!status) status = bp_graph_output(graph, y, "y");
    if (!status) status = bp_program_create(graph, device, &program);
    if (!status) status = steps_products_run(step, program);
    if (!status) steps_print_replays(step, program);
    bp_tensor_destroy(in);
    bp_tensor_destroy(y);
    bp_program_destroy(program);
    bp_graph_destroy(graph);
    return status;
}

/* y = x + x + x + x */
static enum bp_status steps_record(struct bp_graph *graph, struct bp_program **out)
{
    struct bp_tensor *in = NULL, *two = NULL, *four = NULL;
    enum bp_status status = bp_graph_input(graph, "x", BP_F32, 1, &n, &in);

    if (!status) status = bp_op_add(bp_graph_scope(graph), in, in, &two);
    if (!status) status = bp_op_add(bp_graph_scope(graph), two, two, &four);
    if (!status) status = bp_graph_output(graph, four, "y");
    if (!status) status = bp_program_create(graph, device, out);
    bp_tensor_destroy(in);
    bp_tensor_destroy(two);
    bp_tensor_destroy(four);
    return status;
}

static enum bp_status steps_program_run(const char *step, struct bp_program *program)
{
    struct bp_tensor *y = NULL;
    float numbers[N];
    enum bp_status status = bp_program_run(program, stream, &x, 1, &y, 1);

    if (!status) status = bp_tensor_read(stream, y, numbers, sizeof numbers);
    for (int i = 0; i < N && !status; i++)
        if (numbers[i] != (float)(4 * sums)) steps_wrong(step, i, (double)numbers[i], 4 * sums);
    bp_tensor_destroy(y);
    return status;
}

static enum bp_status steps_program(const char *step)
{
    struct bp_program *program = NULL;
    struct bp_graph *graph = NULL;
    enum bp_status status = bp_graph_create(core, &graph);

    if (!status) status = steps_record(graph, &program);
    for (int i = 0; i < 3 && !status; i++) status = steps_program_run(step, program);
    if (!status) steps_print_replays(step, program);
    bp_program_destroy(program);
    bp_graph_destroy(graph);
    return status;
}

static enum bp_status steps_many(const char *step)
{
    static float numbers[N];
    enum bp_status status = BP_OK;

    for (int i = 0; i < N; i++) numbers[i] = 1;
    for (int64_t k = 1; k < 200 && !status; k++) {
        struct bp_tensor *some = NULL, *sum = NULL;
        float got = 0;
        status = steps_fill(&some, BP_F32, k, numbers, (size_t)k * sizeof *numbers);
        if (!status) status = bp_op_sum(bp_stream_scope(stream), some, NULL, &sum);
        if (!status) status = bp_tensor_read(stream, sum, &got, sizeof got);
        if (!status && got != (float)k) steps_wrong(step, (int)k, (double)got, (double)k);
        bp_tensor_destroy(some);
        bp_tensor_destroy(sum);
    }
    return status;
}

static void *steps_thread(void *step)
{
    struct bp_stream *own = NULL;
    struct bp_tensor *sum = NULL, *more = NULL;
    enum bp_status status = bp_stream_create(device, &own);
    float number = 0;

    if (!status) status = bp_op_add(bp_stream_scope(own), one, one, &sum);
    for (int i = 0; i < ADDS && !status; i++) {
        status = bp_op_add(bp_stream_scope(own), sum, one, &more);
        bp_tensor_destroy(sum);
        sum = more;
        more = NULL;
    }
    if (!status) status = bp_tensor_read(own, sum, &number, sizeof number);
    if (status) printf("thread: %s\n", bp_error_message());
    if (!status && number != 2 + ADDS) steps_wrong(step, 0, (double)number, 2 + ADDS);
    bp_tensor_destroy(sum);
    bp_stream_destroy(own);
    return (void *)(uintptr_t)status;
}

static enum bp_status steps_threads(const char *step)
{
    pthread_t thread[THREADS];
    enum bp_status status = bp_stream_synchronize(stream);

    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, steps_thread, (void *)step)) exit(3);
    for (int i = 0; i < THREADS; i++) {
        void *found;
        pthread_join(thread[i], &found);
        if (found) status = (enum bp_status)(uintptr_t)found;
    }
    return status;
}

/* Weights of which one is below 0, and rows of which one has a single weight. */
static const float steps_bad[] = {1, 2, 3, 4, 1, -1, 3, 4}, steps_few[] = {1, 2, 3, 4, 0, 5, 0, 0};

static enum bp_status steps_take(const char *step)
{
    if (!strcmp(step, "add")) return steps_add(stream);
    if (!strcmp(step, "gather")) return steps_gather(index_good);
    if (!strcmp(step, "fault")) return steps_gather(index_bad);
    if (!strcmp(step, "sync")) return bp_stream_synchronize(stream);
    if (!strcmp(step, "read")) return steps_read(step);
    if (!strcmp(step, "large")) return steps_large(step);
    if (!strcmp(step, "record")) return bp_event_record(event, stream);
    if (!strcmp(step, "query")) return bp_event_query(event);
    if (!strcmp(step, "wait")) return bp_event_wait(event, UINT64_MAX);
    if (!strcmp(step, "other")) return steps_other();
    if (!strcmp(step, "concat")) return steps_concat();
    if (!strcmp(step, "norm")) return steps_norm();
    if (!strcmp(step, "peer")) return steps_peer(step);
    if (!strcmp(step, "product")) return steps_product(step);
    if (!strcmp(step, "draws")) return steps_draws(step);
    if (!strcmp(step, "draws-bad")) return steps_draws_wrong(steps_bad);
    if (!strcmp(step, "draws-few")) return steps_draws_wrong(steps_few);
    if (!strcmp(step, "counts")) return steps_counts(step, BINS - 1);
    if (!strcmp(step, "counts-below")) return steps_counts(step, -1);
    if (!strcmp(step, "counts-above")) return steps_counts(step, BINS);
    if (!strcmp(step, "managed")) return steps_managed();
    if (!strcmp(step, "products")) return steps_products(step);
    if (!strcmp(step, "program")) return steps_program(step);
    if (!strcmp(step, "many")) return steps_many(step);
    if (!strcmp(step, "threads")) return steps_threads(step);
    if (!strcmp(step, "reopen")) return steps_end(), steps_begin();
    fprintf(stderr, "steps: no step %s\n", step);
    exit(3);
}

static void steps_print(const char *step, enum bp_status status)
{
    printf("%s: %s%s%s\n", step, bp_status_name(status), status ? ": " : "",
           status ? bp_error_message() : "");
}

int main(int argc, char **argv)
{
    enum bp_status status = bp_core_create(NULL, &core);

    name = argc > 1 ? argv[1] : "npu:0";
    if (!status) status = steps_begin();
    steps_print("begin", status);
    for (int i = 2; i < argc; i++) {
        if (status && strcmp(argv[i], "reopen") != 0) continue; /* there is no device */
        enum bp_status found = steps_take(argv[i]);
        if (!strcmp(argv[i], "reopen")) status = found;
        steps_print(argv[i], found);
    }
    steps_end();
    bp_core_destroy(core);
    printf("end\n");
    return 0;
}
