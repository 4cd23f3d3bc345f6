/* SPDX-License-Identifier: Apache-2.0 */
/* test_program.c: tests programs (backplane/program.h) on the simulator: each call of the driver
 * that records or replays fails once. Threads wait for a stream, its events and its device while
 * the stream is recorded. Replays of random nodes draw the numbers of runs node by node.
 *
 *   test_program PLUGIN
 *   test_program PLUGIN NVRTC    what follows a convolution, where kernels can be compiled */
#include "kit.h"
#include <backplane/backplane.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    N = 64,
    ROUNDS = 60
};

static const char *plugin_path;

struct place {
    struct bp_core *core;
    struct bp_device *device;
    struct bp_stream *stream;
    struct bp_graph *graph;
    struct bp_tensor *x;
};

static bool program_ok(enum bp_status status, const char *what)
{
    return expect(status == BP_OK, "%s: %s: %s", what, bp_status_name(status), bp_error_message());
}

static void write_x(struct place *p, int factor)
{
    float v[N];

    for (int i = 0; i < N; i++) v[i] = (float)(factor * i);
    program_ok(bp_tensor_write(p->stream, p->x, v, sizeof v), "bp_tensor_write");
}

/* y = (x + x) + x */
static void program_record(struct place *p)
{
    struct bp_scope *scope;
    struct bp_tensor *x, *a = NULL, *y = NULL;
    int64_t n = N;

    program_ok(bp_graph_create(p->core, &p->graph), "bp_graph_create");
    scope = bp_graph_scope(p->graph);
    program_ok(bp_graph_input(p->graph, "x", BP_F32, 1, &n, &x), "bp_graph_input");
    program_ok(bp_op_add(scope, x, x, &a), "add");
    program_ok(bp_op_add(scope, a, x, &y), "add");
    program_ok(bp_graph_output(p->graph, y, "y"), "bp_graph_output");
    bp_tensor_destroy(x);
    bp_tensor_destroy(a);
    bp_tensor_destroy(y);
}

static void program_begin(struct place *p)
{
    int64_t n = N;
    uint32_t index;

    program_ok(bp_core_create(NULL, &p->core), "bp_core_create");
    program_ok(bp_core_load_path(p->core, plugin_path, &index), "bp_core_load_path");
    program_ok(bp_device_create_at(p->core, index, 0, &p->device), "bp_device_create_at");
    program_ok(bp_stream_create(p->device, &p->stream), "bp_stream_create");
    program_ok(bp_tensor_create(p->device, BP_F32, 1, &n, &p->x), "bp_tensor_create");
    program_record(p);
    write_x(p, 1);
}

static void program_end(struct place *p)
{
    bp_tensor_destroy(p->x);
    bp_graph_destroy(p->graph);
    bp_stream_destroy(p->stream);
    bp_device_destroy(p->device);
    bp_core_destroy(p->core);
}

static struct bp_program_info program_info_of(struct bp_program *program)
{
    struct bp_program_info info = {.size = sizeof info};

    program_ok(bp_program_get_info(program, &info), "bp_program_get_info");
    return info;
}

static enum bp_status program_run(struct place *p, struct bp_program *program, int factor)
{
    struct bp_tensor *y = NULL;
    float v[N] = {0};
    enum bp_status status = bp_program_run(program, p->stream, &p->x, 1, &y, 1);

    if (status) return status;
    program_ok(bp_tensor_read(p->stream, y, v, sizeof v), "bp_tensor_read");
    for (int i = 0; i < N; i++)
        if (!expect(v[i] == (float)(3 * factor * i), "y[%d] is %g", i, (double)v[i])) break;
    bp_tensor_destroy(y);
    return BP_OK;
}

struct failure {
    const char *call;
    bool refused; /* the run itself fails; otherwise it runs node by node, and reports a reason */
};

/* The first call that records or replays fails; later runs work, also those of a new program. */
static void program_fails(const void *arg)
{
    const struct failure *f = arg;
    struct bp_program *program, *other;
    struct place p;
    char text[64];

    snprintf(text, sizeof text, "%s:1:999", f->call);
    setenv("BP_SIM_FAIL", text, 1);
    snprintf(text, sizeof text, "sim_%s answers 999", f->call);
    program_begin(&p);
    program_ok(bp_program_create(p.graph, p.device, &program), "bp_program_create");
    program_ok(program_run(&p, program, 1), "the first run");
    if (f->refused) {
        expect(program_run(&p, program, 1) == BP_ERR_DEVICE && strstr(bp_error_message(), text),
               "the second run: %s", bp_error_message());
        program_ok(program_run(&p, program, 1), "once more");
        expect(program_info_of(program).runs == 2 && program_info_of(program).replays == 1,
               "it is not counted");
    } else {
        bp_error_message();
        for (int k = 0; k < 3; k++) program_ok(program_run(&p, program, 1), "a run");
        expect(!program_info_of(program).replays && strstr(program_info_of(program).reason, text),
               "it says: %s", program_info_of(program).reason);
        expect(!program_info_of(program).bytes, "it keeps memory");
    }
    write_x(&p, 2);
    program_ok(bp_program_create(p.graph, p.device, &other), "bp_program_create");
    for (int k = 0; k < 3; k++) program_ok(program_run(&p, other, 2), "a run of another");
    expect(program_info_of(other).replays == 2 && !*program_info_of(other).reason, "another: %s",
           program_info_of(other).reason);
    bp_program_destroy(program);
    bp_program_destroy(other);
    program_end(&p);
}

/* A launch fails while it is recorded: the second one, after the launches of the run before. */
static void launch_fails(const void *arg)
{
    struct bp_program *program;
    struct place p;

    (void)arg;
    setenv("BP_SIM_FAIL", "launch:4:999", 1);
    program_begin(&p);
    program_ok(bp_program_create(p.graph, p.device, &program), "bp_program_create");
    for (int k = 0; k < 3; k++) program_ok(program_run(&p, program, 1), "a run");
    expect(strstr(program_info_of(program).reason, "node y: ") &&
               strstr(program_info_of(program).reason, "sim_launch answers 999"),
           "it says: %s", program_info_of(program).reason);
    bp_program_destroy(program);
    program_end(&p);
}

/* A successful run does not change the message of an earlier failure. */
static void messages_stay(const void *arg)
{
    struct bp_program *program;
    struct place p;

    (void)arg;
    setenv("BP_SIM_FAIL", "capture_end:1:999", 1);
    program_begin(&p);
    program_ok(bp_program_create(p.graph, p.device, &program), "bp_program_create");
    program_ok(program_run(&p, program, 1), "the first run");
    expect(bp_graph_create(NULL, NULL) == BP_ERR_INVALID, "no core");
    program_ok(program_run(&p, program, 1), "the second run");
    expect(strstr(bp_error_message(), "core") != NULL, "the message is: %s", bp_error_message());
    bp_program_destroy(program);
    program_end(&p);
}

/* The graph of a program cannot be changed. */
static void program_grown(const void *arg)
{
    struct bp_program *program;
    struct bp_tensor *more;
    struct place p;
    int64_t n = N;

    (void)arg;
    program_begin(&p);
    program_ok(bp_program_create(p.graph, p.device, &program), "bp_program_create");
    for (int k = 0; k < 2; k++) program_ok(program_run(&p, program, 1), "a run");
    expect(bp_graph_input(p.graph, "more", BP_F32, 1, &n, &more) == BP_ERR_INVALID &&
               strstr(bp_error_message(), "a program has been made of the graph"),
           "the message is: %s", bp_error_message());
    program_ok(program_run(&p, program, 1), "a run");
    bp_program_destroy(program);
    program_ok(bp_graph_input(p.graph, "more", BP_F32, 1, &n, &more), "bp_graph_input");
    bp_tensor_destroy(more);
    program_end(&p);
}

static struct bp_fallback_info program_fallbacks(struct bp_device *device)
{
    struct bp_fallback_info sum = {.size = sizeof sum}, one = {.size = sizeof one};

    for (uint32_t i = 0; i < bp_device_fallbacks(device); i++) {
        program_ok(bp_device_fallback(device, i, &one), "bp_device_fallback");
        sum.calls += one.calls;
        sum.bytes += one.bytes;
    }
    return sum;
}

/* Steps of an operator without a kernel count in each run, but not while they are recorded. */
static void fallbacks_are_counted(const void *arg)
{
    struct bp_tensor *in[2], *loss = NULL, *out = NULL;
    struct bp_fallback_info once, all;
    struct bp_program *program;
    struct bp_graph *graph;
    struct place p;
    int64_t n = N;

    (void)arg;
    setenv("BP_FALLBACK", "allow", 1);
    program_begin(&p);
    program_ok(bp_graph_create(p.core, &graph), "bp_graph_create");
    for (int i = 0; i < 2; i++)
        program_ok(bp_graph_input(graph, NULL, BP_F32, 1, &n, &in[i]), "bp_graph_input");
    program_ok(bp_op_mse_loss(bp_graph_scope(graph), in[0], in[1], &loss), "mse_loss");
    program_ok(bp_graph_output(graph, loss, NULL), "bp_graph_output");
    program_ok(bp_program_create(graph, p.device, &program), "bp_program_create");
    for (int i = 0; i < 2; i++) bp_tensor_destroy(in[i]), in[i] = p.x;
    program_ok(bp_program_run(program, p.stream, in, 2, &out, 1), "the first run");
    once = program_fallbacks(p.device);
    for (int k = 0; k < 3; k++)
        program_ok(bp_program_run(program, p.stream, in, 2, &out, 1), "a run");
    all = program_fallbacks(p.device);
    expect(once.calls && once.bytes, "nothing fell back");
    expect(program_info_of(program).replays == 3, "it says: %s", program_info_of(program).reason);
    expect(all.calls == 4 * once.calls && all.bytes == 4 * once.bytes,
           "%d steps and %d bytes in one run, %d and %d in four", (int)once.calls, (int)once.bytes,
           (int)all.calls, (int)all.bytes);
    bp_tensor_destroy(out);
    bp_tensor_destroy(loss);
    bp_program_destroy(program);
    bp_graph_destroy(graph);
    program_end(&p);
}

/* ---- other threads that wait ---- */

struct busy {
    struct place *p;
    struct bp_event *event;
    atomic_bool over;
};

static void *wait_for_stream(void *arg)
{
    struct busy *b = arg;

    while (!atomic_load(&b->over)) program_ok(bp_stream_synchronize(b->p->stream), "the stream");
    return NULL;
}

static void *wait_for_device(void *arg)
{
    struct busy *b = arg;

    while (!atomic_load(&b->over)) {
        program_ok(bp_device_synchronize(b->p->device), "the device");
        usleep(300);
    }
    return NULL;
}

static void *query_and_take(void *arg)
{
    struct busy *b = arg;
    struct bp_stream *stream;

    program_ok(bp_stream_create(b->p->device, &stream), "bp_stream_create");
    while (!atomic_load(&b->over)) {
        struct bp_tensor *t = NULL;
        enum bp_status status = bp_event_query(b->event);
        int64_t n = 100000;
        expect(status == BP_OK || status == BP_ERR_NOT_READY, "query: %s", bp_error_message());
        program_ok(bp_stream_wait(stream, b->event), "bp_stream_wait");
        program_ok(bp_tensor_create(b->p->device, BP_F32, 1, &n, &t), "bp_tensor_create");
        bp_tensor_destroy(t);
        program_ok(bp_device_trim(b->p->device), "bp_device_trim");
    }
    bp_stream_destroy(stream);
    return NULL;
}

/* Programs are recorded all the while, and no recording is invalidated. Whether a program finds a
 * moment in which no thread waits is random: rounds are added until one program has. */
static void waited_for(const void *arg)
{
    static void *(*const body[])(void *) = {wait_for_stream, wait_for_device, query_and_take};
    pthread_t thread[3];
    struct busy b = {0};
    struct place p;
    int replays = 0, rounds = 0;

    (void)arg;
    setenv("BP_SIM_DELAY", "300", 1);
    program_begin(&p);
    b.p = &p;
    program_ok(bp_event_create(p.device, &b.event), "bp_event_create");
    program_ok(bp_event_record(b.event, p.stream), "bp_event_record");
    for (int i = 0; i < 3; i++) pthread_create(&thread[i], NULL, body[i], &b);
    for (int k = 0; k < ROUNDS || (!replays && k < 50 * ROUNDS); k++, rounds++) {
        struct bp_program *program;
        struct bp_program_info info;
        program_ok(bp_program_create(p.graph, p.device, &program), "bp_program_create");
        for (int j = 0; j < 4; j++) program_ok(program_run(&p, program, 1), "a run");
        program_ok(bp_event_record(b.event, p.stream), "bp_event_record");
        info = program_info_of(program);
        expect(info.replays || strstr(info.reason, "another thread waits for "), "it says: %s",
               info.reason);
        replays += info.replays > 0;
        bp_program_destroy(program);
    }
    atomic_store(&b.over, true);
    for (int i = 0; i < 3; i++) pthread_join(thread[i], NULL);
    printf("# %d of %d were recorded\n", replays, rounds);
    expect(replays > 0, "none was recorded");
    bp_event_destroy(b.event);
    program_end(&p);
}

/* ---- random nodes ---- */

enum { DRAWN = 3, DRAWN_RUNS = 6 }; /* outputs, runs */

/* The results of some runs, and the generator's offset after them. */
struct drawn {
    float v[DRAWN_RUNS][DRAWN][N];
    uint64_t seed, offset;
};

/* Records nodes whose results are freed before the first random node runs: the seed that a replay
 * reads must not lie in their memory. */
static void drawn_before(struct bp_scope *scope, struct bp_tensor *x)
{
    struct bp_tensor *t[7] = {NULL};

    for (int i = 0; i < 4; i++) program_ok(bp_op_add(scope, x, x, &t[i]), "add");
    for (int i = 0; i < 3; i++)
        program_ok(bp_op_add(scope, t[2 * i], t[2 * i + 1], &t[4 + i]), "add");
    for (int i = 0; i < 7; i++) bp_tensor_destroy(t[i]);
}

/* y = dropout(x) + u, u of uniform, and g = gumbel_softmax(x), a call of several steps. Nothing
 * reads the numbers of another node, which are drawn too. */
static void drawn_record(struct place *p)
{
    const int64_t n = N;
    const struct bp_uniform_attrs even = {
        .size = sizeof even, .shape = {&n, 1}, .high = 1, .dtype = BP_F32};
    const struct bp_dropout_attrs drop = {.size = sizeof drop, .p = 0.5, .training = 1};
    struct bp_tensor *x, *t[7] = {NULL};
    struct bp_scope *scope;

    program_ok(bp_graph_create(p->core, &p->graph), "bp_graph_create");
    scope = bp_graph_scope(p->graph);
    program_ok(bp_graph_input(p->graph, "x", BP_F32, 1, &n, &x), "bp_graph_input");
    drawn_before(scope, x);
    program_ok(bp_op_dropout(scope, x, &drop, &t[0], &t[5]), "dropout");
    program_ok(bp_op_uniform(scope, NULL, &even, &t[1]), "uniform");
    program_ok(bp_op_uniform(scope, NULL, &even, &t[2]), "uniform");
    program_ok(bp_op_add(scope, t[0], t[2], &t[3]), "add");
    program_ok(bp_op_gumbel_softmax(scope, x, NULL, &t[4], &t[6]), "gumbel_softmax");
    program_ok(bp_graph_output(p->graph, t[3], "y"), "bp_graph_output");
    program_ok(bp_graph_output(p->graph, t[2], "u"), "bp_graph_output");
    program_ok(bp_graph_output(p->graph, t[4], "g"), "bp_graph_output");
    bp_tensor_destroy(x);
    for (int i = 0; i < 7; i++) bp_tensor_destroy(t[i]);
}

/* Runs with numbers of a new generator; in the middle the app sets it back to another place.
 * program NULL: node by node. All runs are submitted before the first result is read. */
static void drawn_run(struct place *p, struct bp_program *program, struct drawn *d)
{
    struct bp_tensor *out[DRAWN_RUNS][DRAWN] = {{NULL}};
    struct bp_generator *generator;

    program_ok(bp_generator_create(7, &generator), "bp_generator_create");
    program_ok(bp_stream_set_generator(p->stream, generator), "bp_stream_set_generator");
    for (int k = 0; k < DRAWN_RUNS; k++) {
        if (k == 4) program_ok(bp_generator_set(generator, 8, 1000), "bp_generator_set");
        program_ok(program ? bp_program_run(program, p->stream, &p->x, 1, out[k], DRAWN)
                           : bp_graph_run(p->graph, p->stream, &p->x, 1, out[k], DRAWN),
                   "a run");
    }
    for (int k = 0; k < DRAWN_RUNS; k++)
        for (int o = 0; o < DRAWN; o++) {
            program_ok(bp_tensor_read(p->stream, out[k][o], d->v[k][o], sizeof d->v[k][o]),
                       "bp_tensor_read");
            bp_tensor_destroy(out[k][o]);
        }
    program_ok(bp_generator_get(generator, &d->seed, &d->offset), "bp_generator_get");
    program_ok(bp_stream_set_generator(p->stream, NULL), "bp_stream_set_generator");
    bp_generator_destroy(generator);
}

/* Replays draw new numbers, those of runs node by node. arg: the value of BP_PASSES. */
static void random_replays(const void *arg)
{
    static struct drawn ran, replayed;
    struct bp_program *program;
    struct bp_program_info info;
    struct place p;

    setenv("BP_PASSES", arg, 1);
    setenv("BP_SIM_DELAY", "300", 1);
    program_begin(&p);
    bp_graph_destroy(p.graph);
    drawn_record(&p);
    program_ok(bp_program_create(p.graph, p.device, &program), "bp_program_create");
    drawn_run(&p, NULL, &ran);
    drawn_run(&p, program, &replayed);
    info = program_info_of(program);
    expect(info.replays == DRAWN_RUNS - 1, "%d replays: %s", (int)info.replays, info.reason);
    expect(ran.seed == replayed.seed && ran.offset == replayed.offset, "the generator is at %d of "
           "%d, expected %d of %d", (int)replayed.offset, (int)replayed.seed, (int)ran.offset,
           (int)ran.seed);
    for (int k = 0; k < DRAWN_RUNS; k++)
        for (int o = 0; o < DRAWN; o++) {
            expect(!memcmp(ran.v[k][o], replayed.v[k][o], sizeof ran.v[k][o]),
                   "run %d: output %d has other numbers", k, o);
            expect(!k || memcmp(replayed.v[k][o], replayed.v[k - 1][o], sizeof ran.v[k][o]),
                   "run %d: output %d has the numbers of the run before", k, o);
        }
    bp_program_destroy(program);
    program_end(&p);
}

/* ---- what follows a convolution ---- */

/* y = relu(conv(x, w) + r) */
static void record_conv(struct bp_graph *graph)
{
    static const int64_t image[] = {1, 2, 4, 4}, filters[] = {2, 2, 1, 1};
    struct bp_scope *scope = bp_graph_scope(graph);
    struct bp_tensor *x, *w, *r, *y[3] = {NULL};

    program_ok(bp_graph_input(graph, "x", BP_F32, 4, image, &x), "bp_graph_input");
    program_ok(bp_graph_input(graph, "w", BP_F32, 4, filters, &w), "bp_graph_input");
    program_ok(bp_graph_input(graph, "r", BP_F32, 4, image, &r), "bp_graph_input");
    program_ok(bp_op_conv(scope, x, w, NULL, NULL, &y[0]), "conv");
    program_ok(bp_op_add(scope, y[0], r, &y[1]), "add");
    program_ok(bp_op_relu(scope, y[1], &y[2]), "relu");
    program_ok(bp_graph_output(graph, y[2], "y"), "bp_graph_output");
    for (int i = 0; i < 3; i++) bp_tensor_destroy(y[i]);
    bp_tensor_destroy(x);
    bp_tensor_destroy(w);
    bp_tensor_destroy(r);
}

/* Appends the operators of a compiled program's launches. */
static void list_launches(struct bp_program *program, char *text, size_t size)
{
    struct bp_program_info info;

    program_ok(bp_program_compile(program), "bp_program_compile");
    info = program_info_of(program);
    for (uint32_t i = 0; i < info.launches; i++) {
        struct bp_launch_info launch = {.size = sizeof launch};
        program_ok(bp_program_launch(program, i, &launch), "bp_program_launch");
        snprintf(text + strlen(text), size - strlen(text), "%s%s", i ? " " : "", launch.op);
    }
}

/* Without a row of fused_conv, the steps behind a convolution are one call of `fused`. */
static void conv_is_compiled(const void *arg)
{
    struct bp_program *program;
    char text[256] = "";
    struct place p;

    if (!*(const bool *)arg) setenv("BP_SIM_CUDNN", "off", 1);
    program_begin(&p);
    bp_graph_destroy(p.graph);
    program_ok(bp_graph_create(p.core, &p.graph), "bp_graph_create");
    record_conv(p.graph);
    program_ok(bp_program_create(p.graph, p.device, &program), "bp_program_create");
    list_launches(program, text, sizeof text);
    expect(!strcmp(text, *(const bool *)arg ? "fused_conv" : "conv fused"), "launches: %s", text);
    bp_program_destroy(program);
    program_end(&p);
}

int main(int argc, char **argv)
{
    static const bool has_row = true, has_none = false;
    static const struct failure failures[] = {{"capture_begin", false},
                                              {"capture_end", false},
                                              {"graph_instantiate", false},
                                              {"program_launch", true}};

    if (argc != 2 && argc != 3) return 2;
    plugin_path = argv[1];
    if (argc == 3) { /* with a compiler of kernels */
        setenv("BP_SIM_NVRTC", argv[2], 1);
        run_case("a convolution on a device with a row of fused_conv", conv_is_compiled, &has_row);
        run_case("a convolution on a device without one", conv_is_compiled, &has_none);
        return cases_end();
    }
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s fails", failures[i].call);
        run_case(name, program_fails, &failures[i]);
    }
    run_case("a recorded launch fails", launch_fails, NULL);
    run_case("messages stay", messages_stay, NULL);
    run_case("a graph that has grown", program_grown, NULL);
    run_case("fallbacks are counted", fallbacks_are_counted, NULL);
    run_case("others wait meanwhile", waited_for, NULL);
    run_case("random nodes, compiled", random_replays, "");
    run_case("random nodes, node by node", random_replays, "uncompiled");
    return cases_end();
}
