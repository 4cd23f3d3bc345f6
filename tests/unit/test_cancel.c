/* SPDX-License-Identifier: Apache-2.0 */
/* test_cancel.c: tests streams that the app cancels (bp_stream_cancel) while they run calls, graphs
 * and programs, and waits with a limit of their own. */
#include "stream_kit.h"

/* y = -(|x| + x) of n elements, as a graph of three nodes with names. */
static struct bp_graph *graph_for(struct bp_core *core, int64_t n)
{
    struct bp_tensor *x = NULL, *a = NULL, *b = NULL, *c = NULL;
    struct bp_graph *graph;
    struct bp_scope *scope;

    OK(bp_graph_create(core, &graph));
    scope = bp_graph_scope(graph);
    OK(bp_graph_input(graph, "x", BP_F32, 1, SHAPE(n), &x));
    OK(bp_op_abs(scope, x, &a));
    OK(bp_graph_name(graph, a, "first"));
    OK(bp_op_add(scope, a, x, &b));
    OK(bp_graph_name(graph, b, "second"));
    OK(bp_op_neg(scope, b, &c));
    OK(bp_graph_name(graph, c, "third"));
    OK(bp_graph_output(graph, c, NULL));
    bp_tensor_destroy(x), bp_tensor_destroy(a), bp_tensor_destroy(b), bp_tensor_destroy(c);
    return graph;
}

static struct bp_graph *graph_of(struct bp_core *core)
{
    return graph_for(core, 4);
}

/* A tensor 1 2 3 4 of the spot. */
static struct bp_tensor *four_of(struct spot *s)
{
    struct bp_tensor *t = floats_at(s->device, 4);

    OK(bp_tensor_write(s->stream, t, F32(1, 2, 3, 4), 16));
    return t;
}

static void cancel_expect(struct spot *s, struct bp_tensor *t, const float *four)
{
    float got[4];

    OK(bp_tensor_read(s->stream, t, got, sizeof got));
    cr_assert_arr_eq(got, four, sizeof got);
}

Test(cancel, refuses_all_kinds_of_calls, .timeout = 60)
{
    struct spot s = spot_at(INLINE, NULL, NULL);
    struct bp_scope *scope = bp_stream_scope(s.stream);
    struct bp_tensor *x = four_of(&s), *y = NULL, *none = NULL;
    struct bp_arg in = {&x, 1};
    struct bp_call call = {.size = sizeof call, .op = "neg", .in = &in, .n_in = 1};
    struct bp_graph *graph = graph_of(s.core);
    struct bp_program *program;
    struct bp_prepared *prepared;

    OK(bp_program_create(graph, s.device, &program));
    OK(bp_prepared_create(s.device, &call, NULL, 0, &prepared));
    OK(bp_op_neg(scope, x, &y)); /* known to the fast path */
    OK(bp_stream_check_calls(s.stream));
    OK(bp_stream_cancel(s.stream));
    OK(bp_stream_cancel(s.stream));
    FAILS(BP_ERR_CANCELLED, "bp_stream_resume", bp_stream_check_calls(s.stream));
    FAILS(BP_ERR_CANCELLED, "bp_stream_cancel", bp_op_neg(scope, x, &none));
    FAILS(BP_ERR_CANCELLED, "bp_stream_resume", bp_op_concat(scope, &x, 1, NULL, &none));
    FAILS(BP_ERR_CANCELLED, "cancelled", bp_call_run(scope, &call, &y, 1, NULL));
    FAILS(BP_ERR_CANCELLED, "cancelled", bp_prepared_run(prepared, s.stream, &x, 1, &y, 1, NULL));
    FAILS(BP_ERR_CANCELLED, "cancelled", bp_graph_run(graph, s.stream, &x, 1, &none, 1));
    FAILS(BP_ERR_CANCELLED, "cancelled", bp_program_run(program, s.stream, &x, 1, &none, 1));
    cr_assert_null(none);
    cancel_expect(&s, y, F32(-1, -2, -3, -4)); /* copies and waits continue */
    OK(bp_tensor_write(s.stream, x, F32(5, 6, 7, 8), 16));
    OK(bp_stream_synchronize(s.stream));
    OK(bp_stream_resume(s.stream));
    OK(bp_stream_resume(s.stream));
    OK(bp_prepared_run(prepared, s.stream, &x, 1, &y, 1, NULL));
    cancel_expect(&s, y, F32(-5, -6, -7, -8));
    OK(bp_program_run(program, s.stream, &x, 1, &none, 1));
    cancel_expect(&s, none, F32(-10, -12, -14, -16));
    bp_program_destroy(program);
    bp_prepared_destroy(prepared);
    bp_graph_destroy(graph);
    bp_tensor_destroy(x), bp_tensor_destroy(y), bp_tensor_destroy(none);
    spot_finish(&s);
}

struct canceller {
    struct bp_stream *stream;
    int calls; /* seen by the watcher, which is called before and after each */
    int at;
};

static void cancel_in_call(void *ctx, const struct bp_watched *call)
{
    struct canceller *c = ctx;

    (void)call;
    if (c->calls++ == c->at) OK(bp_stream_cancel(c->stream));
}

/* The call that cancels the stream is complete, the next node does not begin. */
Test(cancel, stops_a_graph_before_the_next_node, .timeout = 60)
{
    struct spot s = spot_at(INLINE, NULL, NULL);
    struct bp_tensor *x = four_of(&s), *y = NULL;
    struct bp_graph *graph = graph_of(s.core);
    struct canceller c = {s.stream, 0, 1}; /* after the first node */
    struct bp_program *program;

    OK(bp_program_create(graph, s.device, &program));
    OK(bp_stream_watch(s.stream, cancel_in_call, &c));
    FAILS(BP_ERR_CANCELLED, "node second", bp_graph_run(graph, s.stream, &x, 1, &y, 1));
    cr_assert_eq(c.calls, 2);
    OK(bp_stream_resume(s.stream));
    c = (struct canceller){s.stream, 0, 3};
    FAILS(BP_ERR_CANCELLED, "node third", bp_program_run(program, s.stream, &x, 1, &y, 1));
    cr_assert_eq(c.calls, 4);
    cr_assert_null(y);
    OK(bp_stream_watch(s.stream, NULL, NULL));
    OK(bp_stream_resume(s.stream));
    OK(bp_program_run(program, s.stream, &x, 1, &y, 1));
    cancel_expect(&s, y, F32(-2, -4, -6, -8));
    bp_program_destroy(program);
    bp_graph_destroy(graph);
    bp_tensor_destroy(x), bp_tensor_destroy(y);
    spot_finish(&s);
}

struct second_thread {
    struct bp_stream *stream;
    sem_t begin;
    _Atomic int delay;
    atomic_bool end;
};

static void *cancel_often(void *arg)
{
    struct second_thread *t = arg;

    for (;;) {
        sem_wait(&t->begin);
        if (atomic_load(&t->end)) return NULL;
        for (volatile int i = atomic_load(&t->delay); i > 0; i--) continue;
        OK(bp_stream_cancel(t->stream));
    }
}

/* Another thread cancels while a call of several steps runs: until it has stopped between two
 * steps, which the count of launches shows. */
Test(cancel, stops_a_call_between_its_steps, .timeout = 100)
{
    enum { N = 1 << 12, TRIES = 20000 };
    struct spot s = spot_at(INLINE, NULL, NULL);
    struct bp_tensor *x, *y;
    struct bp_arg in = {&x, 1};
    struct bp_call call = {
        .size = sizeof call, .op = "mean_variance_normalization", .in = &in, .n_in = 1};
    struct bp_prepare_options o = {.size = sizeof o, .flags = BP_PREPARE_DECOMPOSE};
    struct second_thread t = {.stream = s.stream};
    struct bp_prepared *p;
    pthread_t thread;
    int between = 0;

    OK(bp_tensor_create(s.device, BP_F32, 4, SHAPE(2, 8, 16, N / 256), &x));
    OK(bp_tensor_create(s.device, BP_F32, 4, SHAPE(2, 8, 16, N / 256), &y));
    OK(bp_prepared_create_with(s.device, &call, &o, &p));
    cr_assert_gt(bp_prepared_steps(p), 1);
    sem_init(&t.begin, 0, 0);
    cr_assert_eq(pthread_create(&thread, NULL, cancel_often, &t), 0);
    for (int i = 0; i < TRIES && !between; i++) {
        enum bp_status status = BP_OK;
        atomic_store(&t.delay, i % 100 * 10);
        sem_post(&t.begin);
        while (status == BP_OK) { /* until the other thread cancels */
            uint64_t before = bp_stream_last(s.stream), launches;
            status = bp_prepared_run(p, s.stream, &x, 1, &y, 1, NULL);
            launches = bp_stream_last(s.stream) - before;
            cr_assert(status == BP_OK || status == BP_ERR_CANCELLED, "%s", bp_error_message());
            cr_assert_eq(status == BP_OK, launches == bp_prepared_steps(p));
            between = status && launches;
        }
        OK(bp_stream_resume(s.stream));
    }
    cr_assert(between, "never stopped between two steps");
    atomic_store(&t.end, true);
    sem_post(&t.begin);
    pthread_join(thread, NULL);
    bp_prepared_destroy(p);
    bp_tensor_destroy(x), bp_tensor_destroy(y);
    spot_finish(&s);
}

/* A program that runs from its schedule stops between two launches, too. */
Test(cancel, stops_a_compiled_program, .timeout = 100)
{
    enum { N = 1 << 12, TRIES = 20000 };
    struct spot s = spot_at(INLINE, NULL, NULL);
    struct bp_graph *graph = graph_for(s.core, N);
    struct bp_tensor *x = floats_at(s.device, N), *y = floats_at(s.device, N);
    struct bp_program_info info = {.size = sizeof info};
    struct second_thread t = {.stream = s.stream};
    struct bp_program *program;
    pthread_t thread;
    bool between = false;

    setenv("BP_PASSES", "-fuse", 1); /* a launch for each node */
    OK(bp_program_create(graph, s.device, &program));
    sem_init(&t.begin, 0, 0);
    cr_assert_eq(pthread_create(&thread, NULL, cancel_often, &t), 0);
    for (int i = 0; i < TRIES && !between; i++) {
        enum bp_status status = BP_OK;
        atomic_store(&t.delay, i % 100 * 10);
        sem_post(&t.begin);
        while (status == BP_OK) status = bp_program_run(program, s.stream, &x, 1, &y, 1);
        cr_assert_eq(status, BP_ERR_CANCELLED, "%s", bp_error_message());
        between = strstr(bp_error_message(), "node second") ||
                  strstr(bp_error_message(), "node third");
        OK(bp_stream_resume(s.stream));
    }
    cr_assert(between, "never stopped between two launches");
    OK(bp_program_run(program, s.stream, &x, 1, &y, 1));
    OK(bp_program_get_info(program, &info));
    cr_assert_eq(info.compiled, 1, "%s", info.not_compiled);
    atomic_store(&t.end, true);
    sem_post(&t.begin);
    pthread_join(thread, NULL);
    bp_program_destroy(program);
    bp_graph_destroy(graph);
    bp_tensor_destroy(x), bp_tensor_destroy(y);
    spot_finish(&s);
}

static void store_status(void *status, enum bp_status given)
{
    *(_Atomic uint32_t *)status = given;
}

/* The queue skips the work that it has not begun. When the stream has been resumed, this failure
 * belongs to that work only. */
Test(cancel, skips_the_work_of_a_queue, .timeout = 60)
{
    struct spot s = spot_at(QUEUE, NULL, NULL);
    struct bp_tensor *x = four_of(&s), *y = four_of(&s), *z = NULL, *late = NULL;
    struct bp_event *event = event_at(s.device);
    _Atomic uint32_t called = 99;
    struct latch latch;
    float got[4];

    hold_queue(s.stream, &latch);
    OK(bp_op_neg(bp_stream_scope(s.stream), x, &z));
    OK(bp_tensor_write(s.stream, y, F32(0, 0, 0, 0), 16));
    OK(bp_event_record(event, s.stream));
    OK(bp_stream_callback(s.stream, store_status, (void *)&called));
    OK(bp_stream_cancel(s.stream));
    FAILS(BP_ERR_CANCELLED, "cancelled", bp_op_neg(bp_stream_scope(s.stream), x, &late));
    FAILS(BP_ERR_CANCELLED, "cancelled", bp_tensor_write(s.stream, x, F32(0, 0, 0, 0), 16));
    sem_post(&latch.end);
    FAILS(BP_ERR_CANCELLED, "neg", bp_stream_synchronize(s.stream));
    cr_assert_eq(called, BP_ERR_CANCELLED);
    FAILS(BP_ERR_CANCELLED, "cancelled", bp_tensor_read(s.stream, x, got, sizeof got));
    FAILS(BP_ERR_CANCELLED, "cancelled", bp_event_wait(event, UINT64_MAX));
    OK(bp_stream_resume(s.stream));
    cancel_expect(&s, x, F32(1, 2, 3, 4));
    cancel_expect(&s, y, F32(1, 2, 3, 4)); /* its write was skipped */
    OK(bp_stream_synchronize(s.stream));
    FAILS(BP_ERR_CANCELLED, "cancelled", bp_event_wait(event, UINT64_MAX)); /* its work never ran */
    OK(bp_op_neg(bp_stream_scope(s.stream), x, &late));
    cancel_expect(&s, late, F32(-1, -2, -3, -4));
    OK(bp_device_synchronize(s.device));
    bp_tensor_destroy(x), bp_tensor_destroy(y), bp_tensor_destroy(z), bp_tensor_destroy(late);
    bp_event_destroy(event);
    spot_finish(&s);
}

/* The next stream takes over the queue and its numbers, but is not cancelled; and the app has
 * nothing left to learn from the device. */
Test(cancel, ends_with_the_stream, .timeout = 60)
{
    struct spot s = spot_at(QUEUE, NULL, NULL);
    struct bp_tensor *x = four_of(&s), *y = NULL;
    struct latch latch;

    hold_queue(s.stream, &latch);
    OK(bp_op_neg(bp_stream_scope(s.stream), x, &y));
    OK(bp_stream_cancel(s.stream));
    bp_stream_destroy(s.stream);
    sem_post(&latch.end);
    OK(bp_device_synchronize(s.device));
    bp_tensor_destroy(y), y = NULL;
    for (int i = 0; i < 10; i++) {
        s.stream = stream_at(s.device, QUEUE);
        OK(bp_op_neg(bp_stream_scope(s.stream), x, &y));
        cancel_expect(&s, y, F32(-1, -2, -3, -4));
        bp_tensor_destroy(y), y = NULL;
        bp_stream_destroy(s.stream);
    }
    s.stream = NULL;
    bp_tensor_destroy(x);
    spot_finish(&s);
}

/* A device completes the work that it has received; a failure stays when the stream is resumed. */
Test(cancel, leaves_work_of_devices_alone, .timeout = 60)
{
    struct spot s = spot_at(GATED, NULL, NULL);
    struct bp_tensor *x = four_of(&s), *y = four_of(&s), *z = NULL;

    OK(bp_stream_synchronize(s.stream));
    s.gate->hold(1);
    OK(bp_tensor_write(s.stream, y, F32(9, 9, 9, 9), 16));
    OK(bp_stream_cancel(s.stream));
    FAILS(BP_ERR_CANCELLED, "cancelled", bp_op_neg(bp_stream_scope(s.stream), x, &z));
    s.gate->hold(0);
    s.gate->open();
    OK(bp_stream_synchronize(s.stream));
    cancel_expect(&s, y, F32(9, 9, 9, 9));
    OK(bp_stream_resume(s.stream));
    OK(bp_op_neg(bp_stream_scope(s.stream), x, &z));
    bp_tensor_destroy(x), bp_tensor_destroy(y), bp_tensor_destroy(z);
    spot_finish(&s);
}

/* Runs that were refused do not keep a program from being recorded. */
Test(cancel, leaves_recordings_possible, .timeout = 60)
{
    struct bp_program_info info = {.size = sizeof info};
    struct spot s = {.core = core_with(NULL, NULL)};
    struct bp_graph *graph = graph_of(s.core);
    struct bp_program *program;
    struct bp_tensor *x, *y = NULL;

    OK(bp_device_create(s.core, "sim:0", &s.device));
    OK(bp_stream_create(s.device, &s.stream));
    x = four_of(&s);
    OK(bp_program_create(graph, s.device, &program));
    for (int i = 0; i < 4; i++) {
        OK(bp_stream_cancel(s.stream));
        FAILS(BP_ERR_CANCELLED, "cancelled", bp_program_run(program, s.stream, &x, 1, &y, 1));
        OK(bp_stream_resume(s.stream));
        OK(bp_program_run(program, s.stream, &x, 1, &y, 1));
        cancel_expect(&s, y, F32(-2, -4, -6, -8));
        bp_tensor_destroy(y);
        y = NULL;
    }
    OK(bp_program_get_info(program, &info));
    cr_assert_eq(info.replays, 3, "%s", info.reason);
    bp_program_destroy(program);
    bp_graph_destroy(graph);
    bp_tensor_destroy(x);
    spot_finish(&s);
}

/* The call's own limit holds, whatever the core's limit is. */
Test(synchronize_for, ends_in_time, .timeout = 60)
{
    static const enum place held[] = {QUEUE, GATED, PLAIN, SINGLE};
    const uint64_t short_ns = 20000000;
    struct latch latch;

    for (size_t i = 0; i < sizeof held / sizeof *held; i++) {
        struct spot s = spot_at(held[i], i % 2 ? "BP_WAIT_TIMEOUT" : NULL, "0.001");
        struct bp_tensor *x = floats_at(s.device, 4);
        if (s.gate) s.gate->hold(1);
        else hold_queue(s.stream, &latch);
        OK(bp_tensor_write(s.stream, x, F32(1, 2, 3, 4), 16));
        FAILS(BP_ERR_TIMEOUT, "not over after", bp_stream_synchronize_for(s.stream, short_ns));
        FAILS(BP_ERR_TIMEOUT, "0.02 s", bp_device_synchronize_for(s.device, short_ns));
        FAILS(BP_ERR_TIMEOUT, "not over after", bp_stream_synchronize_for(s.stream, 0));
        if (s.gate) s.gate->hold(0), s.gate->open();
        else sem_post(&latch.end);
        OK(bp_stream_synchronize_for(s.stream, UINT64_MAX));
        OK(bp_device_synchronize_for(s.device, UINT64_MAX));
        OK(bp_stream_synchronize_for(s.stream, 10000000000)); /* nothing to wait for */
        bp_tensor_destroy(x);
        spot_finish(&s);
    }
}
