/* SPDX-License-Identifier: Apache-2.0 */
/* state.c: tests that weights, and tensors that programs update, stay on the tiles between runs:
 * the stand-in for Poplar counts the bytes that streams copy. Prints TAP.
 *
 *     state STANDIN      the library of the stand-in */
#include <backplane/backplane.h>
#include <backplane/ops.h>
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROWS = 3,
    IN = 8,
    OUT = 5,
    WEIGHTS = IN * OUT,
    RUNS = 20,
    PLACES = 6,
    HEAD = 4
};
static struct bp_core *core;
static struct bp_device *device;
static struct bp_stream *stream;
static uint64_t (*copied)(int to_host);
static int number, failures;

static void state_need(enum bp_status status, const char *what)
{
    if (!status) return;
    printf("Bail out! %s: %s: %s\n", what, bp_status_name(status), bp_error_message());
    exit(1);
}

static void state_check(int good, const char *name)
{
    printf("%s %d - %s\n", good ? "ok" : "not ok", ++number, name);
    failures += !good;
}

/* Bytes copied in this direction since the last call of it. */
static uint64_t state_copied(int to_host)
{
    static uint64_t last[2];
    uint64_t now = copied(to_host), more = now - last[to_host];

    last[to_host] = now;
    return more;
}

static struct bp_tensor *state_tensor(uint32_t rank, const int64_t *shape, const float *values)
{
    struct bp_tensor *t = NULL;
    size_t count = 1;

    for (uint32_t i = 0; i < rank; i++) count *= (size_t)shape[i];
    state_need(bp_tensor_create(device, BP_F32, rank, shape, &t), "tensor");
    state_need(bp_tensor_write(stream, t, values, count * sizeof *values), "write");
    return t;
}

static int state_same(const float *got, const float *want, int n)
{
    for (int i = 0; i < n; i++)
        if (!(fabsf(got[i] - want[i]) <= 1e-5f * (1 + fabsf(want[i])))) {
            printf("# element %d is %g, expected %g\n", i, (double)got[i], (double)want[i]);
            return 0;
        }
    return 1;
}

static int state_reads(struct bp_tensor *t, const float *want, int n)
{
    float got[WEIGHTS];

    state_need(bp_tensor_read(stream, t, got, (size_t)n * sizeof *got), "read");
    return state_same(got, want, n);
}

/* ---- a step of training: w = w - rate x' (x w - t) ---- */

struct training {
    struct bp_graph *graph;
    struct bp_program *program;
    struct bp_tensor *w, *rate, *x, *t;
    float weights[WEIGHTS], in[ROWS * IN], target[ROWS * OUT], y[ROWS * OUT];
};

static void training_record(struct training *s)
{
    struct bp_scope *scope = bp_graph_scope(s->graph);
    struct bp_matmul_attrs turned = bp_matmul_defaults();
    struct bp_tensor *x = NULL, *t = NULL, *y = NULL, *error = NULL, *slope = NULL, *w = NULL;

    turned.transpose_a = 1;
    state_need(bp_graph_input(s->graph, "x", BP_F32, 2, (const int64_t[]){ROWS, IN}, &x), "x");
    state_need(bp_graph_input(s->graph, "t", BP_F32, 2, (const int64_t[]){ROWS, OUT}, &t), "t");
    state_need(bp_op_matmul(scope, x, s->w, NULL, &y), "matmul");
    state_need(bp_op_sub(scope, y, t, &error), "sub");
    state_need(bp_op_matmul(scope, x, error, &turned, &slope), "matmul");
    state_need(bp_op_sgd(scope, s->w, slope, s->rate, &w), "sgd");
    state_need(bp_graph_output(s->graph, y, "y"), "output");
    bp_tensor_destroy(x);
    bp_tensor_destroy(t);
    bp_tensor_destroy(y);
    bp_tensor_destroy(error);
    bp_tensor_destroy(slope);
    bp_tensor_destroy(w);
}

static void training_begin(struct training *s)
{
    const float rate = 0.01f;

    for (int i = 0; i < WEIGHTS; i++) s->weights[i] = (float)(i % 7 - 3) / 4;
    for (int i = 0; i < ROWS * IN; i++) s->in[i] = (float)(i % 5 - 2) / 3;
    for (int i = 0; i < ROWS * OUT; i++) s->target[i] = (float)(i % 4) / 2;
    s->w = state_tensor(2, (const int64_t[]){IN, OUT}, s->weights);
    s->x = state_tensor(2, (const int64_t[]){ROWS, IN}, s->in);
    s->t = state_tensor(2, (const int64_t[]){ROWS, OUT}, s->target);
    s->rate = state_tensor(0, NULL, &rate);
    state_need(bp_graph_create(core, &s->graph), "graph");
    training_record(s);
    state_need(bp_program_create(s->graph, device, &s->program), "program");
    state_need(bp_program_compile(s->program), "compile");
}

static void training_step(struct training *s)
{
    for (int i = 0; i < ROWS * OUT; i++) {
        s->y[i] = 0;
        for (int k = 0; k < IN; k++)
            s->y[i] += s->in[i / OUT * IN + k] * s->weights[k * OUT + i % OUT];
    }
    for (int i = 0; i < WEIGHTS; i++) {
        float slope = 0;
        for (int k = 0; k < ROWS; k++)
            slope += s->in[k * IN + i / OUT] *
                     (s->y[k * OUT + i % OUT] - s->target[k * OUT + i % OUT]);
        s->weights[i] -= 0.01f * slope;
    }
}

static int training_run(struct training *s, int n)
{
    struct bp_tensor *in[] = {s->x, s->t};
    int good = 1;

    while (n-- > 0 && good) {
        struct bp_tensor *y = NULL;
        training_step(s);
        state_need(bp_program_run(s->program, stream, in, 2, &y, 1), "run");
        good = state_reads(y, s->y, ROWS * OUT);
        bp_tensor_destroy(y);
    }
    return good;
}

static void training_tests(void)
{
    const uint64_t in = (ROWS * IN + ROWS * OUT) * sizeof(float), out = ROWS * OUT * sizeof(float);
    const uint64_t weights = WEIGHTS * sizeof(float);
    struct bp_group_info group = {.size = sizeof group};
    struct training s;
    struct bp_tensor *y = NULL;
    int good;

    training_begin(&s);
    state_need(bp_program_group(s.program, 0, &group), "group");
    state_check(group.node && group.compiled && group.nodes == 4, "a step is one group");
    state_copied(0);
    state_copied(1);
    good = training_run(&s, 1);
    state_check(good && state_copied(0) == in + weights + sizeof(float),
                "the first run copies the weights");
    state_copied(1);
    good = training_run(&s, RUNS);
    state_check(good, "updated weights are used");
    state_check(state_copied(0) == RUNS * in, "later runs copy no weight to the device");
    state_check(state_copied(1) == RUNS * out, "runs copy no weight to the host");
    good = state_reads(s.w, s.weights, WEIGHTS) && state_reads(s.w, s.weights, WEIGHTS);
    state_check(good, "the tensor has the updated weights");
    state_check(state_copied(1) == weights, "two reads are one copy");
    good = training_run(&s, 2);
    state_check(good && state_copied(0) == 2 * in, "a read is no reason to copy weights again");

    state_copied(1);
    state_need(bp_op_neg(bp_stream_scope(stream), s.x, &y), "neg");
    bp_tensor_destroy(y);
    state_check(state_copied(1) == weights + sizeof(float) * ROWS * IN,
                "another program is loaded: the weights are saved first");
    state_copied(0);
    good = training_run(&s, 2);
    state_check(good && state_copied(0) == 2 * in + weights + sizeof(float),
                "saved weights are copied when the program is loaded again");

    for (int i = 0; i < WEIGHTS; i++) s.weights[i] = 0.5f;
    state_need(bp_tensor_write(stream, s.w, s.weights, sizeof s.weights), "write");
    state_copied(1);
    good = training_run(&s, 3);
    state_check(good && state_copied(0) == 3 * in + weights, "written weights are copied once");
    state_check(state_copied(1) == 3 * out, "weights that were written over are not copied");
    bp_program_destroy(s.program);
    state_check(state_reads(s.w, s.weights, WEIGHTS), "the end of the program leaves the weights");
    bp_graph_destroy(s.graph);
    bp_tensor_destroy(s.w);
    bp_tensor_destroy(s.x);
    bp_tensor_destroy(s.t);
    bp_tensor_destroy(s.rate);
}

/* ---- steps of optimizers with several states: y = x p, then a step of p with gradient x ---- */

enum {
    STEP = 6,
    STEPPED = 7 /* inputs of adam; from number 5 on, and number 2, they have one value */
};

struct stepping {
    struct bp_program *program;
    struct bp_tensor *x, *t[STEPPED]; /* t: the inputs of the operator; that of the gradient NULL */
    float values[STEPPED][STEP], in[STEP];
    bool is_adam;
};

static enum bp_status stepping_op(struct stepping *s, struct bp_scope *scope, struct bp_tensor *x)
{
    struct bp_momentum_attrs momentum = bp_momentum_defaults();
    struct bp_adam_attrs adam = bp_adam_defaults();
    struct bp_tensor **t = s->t, *out[6] = {NULL};
    enum bp_status status;

    momentum.nesterov = 1;
    momentum.l2 = 0.5;
    adam.decay = 0.25;
    status = s->is_adam ? bp_op_adam(scope, t[0], x, t[2], t[3], t[4], t[5], t[6], NULL, &adam,
                                     &out[0], &out[1], &out[2], &out[3], &out[4], NULL)
                        : bp_op_momentum(scope, t[0], x, t[2], t[3], &momentum, &out[0], &out[1]);
    for (int i = 0; i < 6; i++) bp_tensor_destroy(out[i]);
    return status;
}

static void stepping_begin(struct stepping *s)
{
    const float first[STEPPED] = {1, 0, 0.125f, 0.25f, 0.5f, 0.9f, 0.999f};
    const int64_t n = STEP;
    struct bp_tensor *x = NULL, *y = NULL;
    struct bp_graph *graph;

    for (int i = 0; i < STEP; i++) s->in[i] = (float)(i - 2) / 4;
    s->x = state_tensor(1, &n, s->in);
    for (int k = 0; k < (s->is_adam ? 7 : 4); k++) {
        for (int i = 0; i < STEP; i++) s->values[k][i] = first[k] + (k < 5 ? (float)i / 8 : 0);
        if (k != 1) s->t[k] = state_tensor(k != 2 && k < 5, &n, s->values[k]);
    }
    state_need(bp_graph_create(core, &graph), "graph");
    state_need(bp_graph_input(graph, "x", BP_F32, 1, &n, &x), "x");
    state_need(bp_op_mul(bp_graph_scope(graph), x, s->t[0], &y), "mul");
    state_need(stepping_op(s, bp_graph_scope(graph), x), "step");
    state_need(bp_graph_output(graph, y, "y"), "output");
    state_need(bp_program_create(graph, device, &s->program), "program");
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    bp_graph_destroy(graph);
}

/* The formulas of docs/ops.md. */
static void stepping_step(struct stepping *s)
{
    float(*v)[STEP] = s->values, rate = v[2][0];

    for (int i = 0; i < STEP; i++) {
        float *p = &v[0][i], g = s->in[i];
        if (!s->is_adam) {
            g += 0.5f * *p;
            v[3][i] = 0.9f * v[3][i] + g;
            *p -= rate * (g + 0.9f * v[3][i]);
            continue;
        }
        g += 0.25f * *p;
        v[3][i] = 0.9f * v[3][i] + 0.1f * g;
        v[4][i] = 0.999f * v[4][i] + 0.001f * g * g;
        *p -= rate * (v[3][i] / (1 - v[5][0])) / (sqrtf(v[4][i] / (1 - v[6][0])) + 1e-8f);
    }
    v[5][0] *= 0.9f;
    v[6][0] *= 0.999f;
}

static int stepping_run(struct stepping *s)
{
    struct bp_tensor *y = NULL;
    float want[STEP];
    int good;

    for (int i = 0; i < STEP; i++) want[i] = s->in[i] * s->values[0][i];
    state_need(bp_program_run(s->program, stream, &s->x, 1, &y, 1), "run");
    good = state_reads(y, want, STEP);
    bp_tensor_destroy(y);
    stepping_step(s);
    return good;
}

static void stepping_tests(bool is_adam)
{
    struct stepping s = {.is_adam = is_adam};
    const uint64_t states = is_adam ? 3 * STEP + 3 : 2 * STEP + 1; /* elements, with the rate */
    struct bp_group_info group = {.size = sizeof group};
    int good;

    stepping_begin(&s);
    state_need(bp_program_compile(s.program), "compile");
    state_need(bp_program_group(s.program, 0, &group), "group");
    state_check(group.compiled && group.nodes == 2,
                is_adam ? "a step of adam is in the group" : "a step of momentum is in the group");
    state_copied(0);
    state_copied(1);
    good = stepping_run(&s);
    state_check(good && state_copied(0) == (STEP + states) * sizeof(float),
                "the first run copies all states");
    for (int i = 0; i < RUNS; i++) good = good && stepping_run(&s);
    state_check(good && state_copied(0) == RUNS * STEP * sizeof(float), "later runs copy none");
    state_check(state_copied(1) == (RUNS + 1) * STEP * sizeof(float), "no state goes to the host");
    for (int k = 0; k < (is_adam ? 7 : 4); k++)
        if (s.t[k]) good = good && state_reads(s.t[k], s.values[k], k != 2 && k < 5 ? STEP : 1);
    state_check(good && state_copied(1) == (states - 1) * sizeof(float), "states are read once");
    bp_program_destroy(s.program);
    for (int k = 0; k < 7; k++) bp_tensor_destroy(s.t[k]);
    bp_tensor_destroy(s.x);
}

/* ---- weights that are not frozen, and that nothing updates ---- */

static void weights_tests(void)
{
    float values[WEIGHTS], x[ROWS * IN] = {1}, want[ROWS * OUT] = {0};
    struct bp_tensor *w, *in, *symbol = NULL, *y = NULL;
    struct bp_graph *graph;
    struct bp_program *program;
    int good = 1;

    for (int i = 0; i < WEIGHTS; i++) values[i] = (float)i;
    w = state_tensor(2, (const int64_t[]){IN, OUT}, values);
    in = state_tensor(2, (const int64_t[]){ROWS, IN}, x);
    state_need(bp_graph_create(core, &graph), "graph");
    state_need(bp_graph_input(graph, "x", BP_F32, 2, (const int64_t[]){ROWS, IN}, &symbol), "x");
    state_need(bp_op_matmul(bp_graph_scope(graph), symbol, w, NULL, &y), "matmul");
    state_need(bp_graph_output(graph, y, "y"), "output");
    bp_tensor_destroy(symbol);
    bp_tensor_destroy(y);
    state_need(bp_program_create(graph, device, &program), "program");
    for (int run = 0; run < 3 && good; run++) {
        if (run == 2) values[0] = 77;
        if (run == 2) state_need(bp_tensor_write(stream, w, values, sizeof values), "write");
        state_copied(0);
        y = NULL;
        state_need(bp_program_run(program, stream, &in, 1, &y, 1), "run");
        memcpy(want, values, OUT * sizeof *want);
        good = state_reads(y, want, ROWS * OUT) &&
               state_copied(0) == sizeof x + (run == 1 ? 0 : sizeof values);
        bp_tensor_destroy(y);
    }
    state_check(good, "weights are copied once, and again when the app has written them");
    bp_program_destroy(program);
    bp_graph_destroy(graph);
    bp_tensor_destroy(w);
    bp_tensor_destroy(in);
}

/* ---- a cache, which a program reads and writes ---- */

/* sums = sum over places of the cache, after `row` was written at `at` along axis 1. */
static void cache_tests(const int64_t *at_shape, uint32_t at_rank)
{
    const int64_t shape[] = {1, PLACES, HEAD}, one[] = {1, 1, HEAD}, axes[] = {1};
    float zeros[PLACES * HEAD] = {0}, want[PLACES * HEAD] = {0}, sums[HEAD];
    struct bp_cache_write_attrs attrs = bp_cache_write_defaults();
    struct bp_sum_attrs over = bp_sum_defaults();
    struct bp_tensor *cache = state_tensor(3, shape, zeros), *in[2];
    struct bp_tensor *row = NULL, *at = NULL, *next = NULL, *y = NULL;
    struct bp_graph *graph;
    struct bp_program *program;
    struct bp_scope *scope;
    int good = 1;

    over.axes = (struct bp_dims){axes, 1};
    state_need(bp_graph_create(core, &graph), "graph");
    scope = bp_graph_scope(graph);
    state_need(bp_graph_input(graph, "row", BP_F32, 3, one, &row), "row");
    state_need(bp_graph_input(graph, "at", BP_I32, at_rank, at_shape, &at), "at");
    state_need(bp_op_cache_write(scope, cache, row, at, &attrs, &next), "cache_write");
    state_need(bp_op_sum(scope, cache, &over, &y), "sum"); /* the cache after the write */
    state_need(bp_graph_output(graph, y, "y"), "output");
    bp_tensor_destroy(row);
    bp_tensor_destroy(at);
    bp_tensor_destroy(next);
    bp_tensor_destroy(y);
    state_need(bp_program_create(graph, device, &program), "program");
    state_need(bp_tensor_create(device, BP_I32, at_rank, at_shape, &in[1]), "at");
    for (int32_t step = 0; step < PLACES && good; step++) {
        float values[HEAD];
        for (int i = 0; i < HEAD; i++) values[i] = want[step * HEAD + i] = (float)(step * 10 + i);
        for (int i = 0; i < HEAD; i++) {
            sums[i] = 0;
            for (int p = 0; p <= step; p++) sums[i] += want[p * HEAD + i];
        }
        in[0] = state_tensor(3, one, values);
        state_need(bp_tensor_write(stream, in[1], &step, sizeof step), "write");
        y = NULL;
        state_copied(0);
        state_copied(1);
        state_need(bp_program_run(program, stream, in, 2, &y, 1), "run");
        good = state_copied(0) == sizeof values + sizeof step + (step ? 0 : sizeof zeros) &&
               state_copied(1) == sizeof sums + 1 && state_reads(y, sums, HEAD);
        bp_tensor_destroy(y);
        bp_tensor_destroy(in[0]);
    }
    state_check(good && state_reads(cache, want, PLACES * HEAD),
                at_rank ? "a cache with a place for each sequence stays on the device"
                        : "a cache stays on the device");
    bp_program_destroy(program);
    bp_graph_destroy(graph);
    bp_tensor_destroy(in[1]);
    bp_tensor_destroy(cache);
}

int main(int argc, char **argv)
{
    void *library;

    state_need(bp_core_create(NULL, &core), "core");
    state_need(bp_device_create(core, "ipu:0", &device), "ipu:0");
    state_need(bp_stream_create(device, &stream), "stream");
    library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) : NULL;
    if (library) *(void **)&copied = dlsym(library, "standin_poplar_copied");
    if (!copied) {
        puts("Bail out! the stand-in is not loaded");
        return 1;
    }
    training_tests();
    stepping_tests(false);
    stepping_tests(true);
    weights_tests();
    cache_tests(NULL, 0);
    cache_tests((const int64_t[]){1}, 1);
    bp_stream_destroy(stream);
    bp_device_destroy(device);
    bp_core_destroy(core);
    printf("1..%d\n", number);
    return failures > 0;
}
