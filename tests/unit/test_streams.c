/* SPDX-License-Identifier: Apache-2.0 */
/* test_streams.c: tests the order between streams of each kind, by the data and by the work that
 * has ended; the numbers of each stream; and waits that are counted or refused. */
#include "stream_kit.h"

/* One pair of the matrix. Work of a is held; b waits for it. */
struct pair {
    enum place source, target;
    struct bp_device *from, *to;
    struct bp_stream *a, *b;
    struct bp_event *event;
    struct bp_tensor *x, *y, *z; /* x and z on `from` */
    struct fake *gate;
    sem_t semaphore;
    atomic_int ended, over, early; /* a's work ended; b's ended; b's ended before a's */
    uint64_t before;
    bool same;
};

static const float first[2] = {1, 2}, second[2] = {3, 4};

static void note_end(void *ended, enum bp_status status)
{
    cr_assert_eq(status, BP_OK);
    atomic_store((atomic_int *)ended, 1);
}

/* Writes x, then copies x to z. */
static void give_source(struct pair *p)
{
    sem_init(&p->semaphore, 0, 0);
    if (p->gate) {
        p->before = p->gate->ended();
        p->gate->hold(1);
    } else if (p->source == QUEUE) {
        OK(bp_stream_callback(p->a, hold_until, &p->semaphore));
    }
    OK(bp_tensor_write(p->a, p->x, first, sizeof first));
    OK(bp_tensor_copy(p->a, p->z, p->x));
    if (p->gate) p->gate->hold(0);
    if (p->source == QUEUE) OK(bp_stream_callback(p->a, note_end, &p->ended));
    OK(bp_event_record(p->event, p->a));
}

static bool source_ended(struct pair *p)
{
    if (p->gate) return p->gate->ended() >= p->before + 2;
    if (p->source == QUEUE) return atomic_load(&p->ended);
    return bp_event_query(p->event) == BP_OK; /* the template runs one job for each query */
}

/* On the same device, x is read after it is written, and written after it is read. */
static void *give_target(void *arg)
{
    struct pair *p = arg;
    struct bp_tensor *own = floats_at(p->to, 2);

    OK(bp_stream_wait(p->b, p->event));
    if (p->same) {
        OK(bp_tensor_copy(p->b, p->y, p->x));
        OK(bp_tensor_write(p->b, p->x, second, sizeof second));
    }
    OK(bp_tensor_write(p->b, own, second, sizeof second));
    OK(bp_stream_synchronize(p->b));
    if (!source_ended(p)) atomic_store(&p->early, 1);
    atomic_store(&p->over, 1);
    bp_tensor_destroy(own);
    return NULL;
}

static void expect_floats(struct bp_stream *stream, struct bp_tensor *t, const float *expected)
{
    float got[2];

    OK(bp_tensor_read(stream, t, got, sizeof got));
    cr_assert(got[0] == expected[0] && got[1] == expected[1], "%g %g", (double)got[0],
              (double)got[1]);
}

static void run_pair(struct bp_core *core, enum place source, enum place target)
{
    struct pair p = {.source = source, .target = target, .gate = NULL};
    bool holdable = source != INLINE && source != TEMPLATE;
    pthread_t thread;

    p.from = open_place(core, source);
    p.to = open_place(core, target);
    p.same = p.from == p.to;
    p.gate = control_of(source);
    p.a = stream_at(p.from, source);
    p.b = stream_at(p.to, target);
    p.event = event_at(p.from);
    p.x = floats_at(p.from, 2);
    p.y = floats_at(p.from, 2);
    p.z = floats_at(p.from, 2);
    give_source(&p);
    cr_assert_eq(pthread_create(&thread, NULL, give_target, &p), 0);
    if (holdable) usleep(10000);
    cr_assert(!holdable || !p.over, "%s did not wait for %s", places[target].name,
              places[source].name);
    if (p.gate) p.gate->open();
    sem_post(&p.semaphore);
    pthread_join(thread, NULL);
    cr_assert(!p.early, "%s was over before %s, which it waited for", places[target].name,
              places[source].name);
    expect_floats(p.a, p.z, first);
    if (p.same) expect_floats(p.b, p.y, first);
    expect_floats(p.same ? p.b : p.a, p.x, p.same ? second : first);
    bp_tensor_destroy(p.x);
    bp_tensor_destroy(p.y);
    bp_tensor_destroy(p.z);
    bp_event_destroy(p.event);
    bp_stream_destroy(p.a);
    bp_stream_destroy(p.b);
    bp_device_destroy(p.from);
    bp_device_destroy(p.to);
}

static void run_row(enum place source)
{
    struct bp_core *core = core_with(NULL, NULL);

    for (enum place target = INLINE; target < PLACE_COUNT; target++) run_pair(core, source, target);
    bp_core_destroy(core);
}

Test(streams, inline_gates_every_kind) { run_row(INLINE); }
Test(streams, a_queue_gates_every_kind) { run_row(QUEUE); }
Test(streams, native_events_gate_every_kind) { run_row(GATED); }
Test(streams, a_second_device_gates_every_kind) { run_row(GATED_1); }
Test(streams, another_kind_gates_every_kind) { run_row(TWO); }
Test(streams, a_device_without_events_gates_every_kind) { run_row(PLAIN); }
Test(streams, a_device_of_one_order_gates_every_kind) { run_row(SINGLE); }
Test(streams, the_template_gates_every_kind) { run_row(TEMPLATE); }

/* A timeline that serves a second stream continues its numbers; the app sees each stream count from
 * 1. */
Test(streams, each_stream_counts_from_one)
{
    static const enum place at[] = {INLINE, QUEUE, GATED, PLAIN};

    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        struct spot s = spot_at(at[i], NULL, NULL);
        struct bp_tensor *x = floats_at(s.device, 2);
        for (int round = 0; round < 3; round++) {
            struct bp_stream *stream = stream_at(s.device, at[i]);
            cr_assert_eq(bp_stream_last(stream), 0, "%s", places[at[i]].name);
            OK(bp_tensor_write(stream, x, first, sizeof first));
            cr_assert_eq(bp_stream_last(stream), 1, "%s", places[at[i]].name);
            OK(bp_stream_synchronize(stream));
            bp_stream_destroy(stream);
        }
        bp_tensor_destroy(x);
        spot_finish(&s);
    }
}

/* Unavoidable waits are counted, for their reason, and only if they were made. */
static void expect_blocked(struct spot *s, uint32_t reason, uint64_t count)
{
    for (uint32_t r = 0; r < BP_BLOCK_COUNT; r++)
        cr_assert_eq(bp_device_blocked(s->device, r), r == reason ? count : 0, "reason %u", r);
}

static void *wait_in_thread(void *arg)
{
    void **at = arg;

    OK(bp_stream_wait(at[0], at[1]));
    return NULL;
}

static void wait_is_counted(enum place place, uint32_t reason)
{
    struct spot s = spot_at(place, NULL, NULL);
    struct bp_device *other = open_place(s.core, TWO);
    struct fake *gate = control_of(TWO);
    struct bp_stream *source = stream_at(other, TWO);
    struct bp_event *event = event_at(other);
    struct bp_tensor *x = floats_at(other, 2);
    void *arg[2] = {s.stream, event};
    pthread_t thread;

    OK(bp_tensor_write(source, x, first, sizeof first));
    OK(bp_event_record(event, source));
    OK(bp_event_wait(event, UINT64_MAX));
    OK(bp_stream_wait(s.stream, event)); /* the event has ended: no wait */
    expect_blocked(&s, reason, 0);
    gate->hold(1);
    OK(bp_tensor_write(source, x, first, sizeof first));
    gate->hold(0);
    OK(bp_event_record(event, source));
    pthread_create(&thread, NULL, wait_in_thread, arg);
    for (int i = 0; i < 100000 && !bp_device_blocked(s.device, reason); i++) usleep(100);
    gate->open();
    pthread_join(thread, NULL);
    expect_blocked(&s, reason, 1);
    bp_tensor_destroy(x);
    bp_event_destroy(event);
    bp_stream_destroy(source);
    bp_device_destroy(other);
    spot_finish(&s);
}

Test(streams, waits_that_block_are_counted)
{
    wait_is_counted(INLINE, BP_BLOCK_INLINE_WAIT);
    wait_is_counted(GATED, BP_BLOCK_STREAM_WAIT);
    wait_is_counted(PLAIN, BP_BLOCK_STREAM_WAIT);
}

static void wait_is_refused(enum place place)
{
    struct spot s = spot_at(place, "BP_BLOCK", "deny");
    struct bp_device *other = open_place(s.core, TWO);
    struct fake *gate = control_of(TWO);
    struct bp_stream *source = stream_at(other, TWO);
    struct bp_event *event = event_at(other);
    struct bp_tensor *x = floats_at(other, 2), *y = floats_at(s.device, 2);

    gate->hold(1);
    OK(bp_tensor_write(source, x, first, sizeof first));
    gate->hold(0);
    OK(bp_event_record(event, source));
    FAILS(BP_ERR_BLOCKED, "BP_BLOCK=deny", bp_stream_wait(s.stream, event));
    OK(bp_tensor_write(s.stream, y, first, sizeof first)); /* does not wait for the event */
    OK(bp_stream_synchronize(s.stream));
    FAILS(BP_ERR_TIMEOUT, "", bp_event_wait(event, 1000000));
    expect_blocked(&s, BP_BLOCK_INLINE_WAIT, 0);
    gate->open();
    OK(bp_event_wait(event, UINT64_MAX));
    OK(bp_stream_wait(s.stream, event)); /* the event has ended: no wait */
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    bp_event_destroy(event);
    bp_stream_destroy(source);
    bp_device_destroy(other);
    spot_finish(&s);
}

Test(streams, waits_that_would_block_can_be_refused)
{
    wait_is_refused(INLINE);
    wait_is_refused(GATED);
    wait_is_refused(PLAIN);
}

/* Before the core counts a wait, it polls the plugin for work that has ended unnoticed. */
Test(streams, completed_work_needs_no_wait)
{
    struct spot s = spot_at(INLINE, "BP_BLOCK", "deny");
    struct bp_device *other = open_place(s.core, GATED);
    struct fake *gate = control_of(GATED);
    struct bp_stream *source = stream_at(other, GATED);
    struct bp_event *event = event_at(other);
    struct bp_tensor *x = floats_at(other, 2);
    uint64_t before = gate->ended();

    OK(bp_tensor_write(source, x, first, sizeof first));
    OK(bp_event_record(event, source));
    while (gate->ended() == before) usleep(100);
    usleep(2000);
    OK(bp_stream_wait(s.stream, event));
    bp_tensor_destroy(x);
    bp_event_destroy(event);
    bp_stream_destroy(source);
    bp_device_destroy(other);
    spot_finish(&s);
}

Test(streams, a_query_that_must_wait_is_counted_or_refused)
{
    struct spot s = spot_at(PLAIN, NULL, NULL), t = spot_at(PLAIN, "BP_BLOCK", "deny");
    struct bp_tensor *x = floats_at(s.device, 2), *y = floats_at(t.device, 2);
    struct bp_event *e = event_at(s.device), *f = event_at(t.device);

    OK(bp_tensor_write(s.stream, x, first, sizeof first));
    OK(bp_event_record(e, s.stream));
    OK(bp_event_query(e));
    expect_blocked(&s, BP_BLOCK_EVENT_QUERY, 1);
    OK(bp_event_query(e));
    expect_blocked(&s, BP_BLOCK_EVENT_QUERY, 1);
    OK(bp_tensor_write(t.stream, y, first, sizeof first));
    OK(bp_event_record(f, t.stream));
    FAILS(BP_ERR_BLOCKED, "query", bp_event_query(f));
    expect_blocked(&t, BP_BLOCK_EVENT_QUERY, 0);
    bp_event_destroy(e);
    bp_event_destroy(f);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    spot_finish(&s);
    spot_finish(&t);
}

static void *streams_let_go(void *semaphore)
{
    usleep(20000);
    sem_post(semaphore);
    return NULL;
}

/* A full queue: the call that would wait is refused completely, and the stream continues as if the
 * call had not been made. */
Test(streams, a_full_queue_is_counted_or_refused)
{
    struct spot s = spot_at(QUEUE, "BP_BLOCK", "deny"), t = spot_at(QUEUE, NULL, NULL);
    struct bp_tensor *x = floats_at(s.device, 2), *y = floats_at(t.device, 2), *sum = NULL;
    enum bp_status status = BP_OK;
    uint64_t last;
    struct latch latch;
    pthread_t thread;
    int given = 0;

    hold_queue(s.stream, &latch);
    while ((status = bp_tensor_write(s.stream, x, first, sizeof first)) == BP_OK) given++;
    cr_assert_eq(status, BP_ERR_BLOCKED, "%s", bp_error_message());
    cr_assert_eq(given, 4096);
    last = bp_stream_last(s.stream);
    FAILS(BP_ERR_BLOCKED, "queue", bp_op_add(bp_stream_scope(s.stream), x, x, &sum));
    FAILS(BP_ERR_BLOCKED, "queue", bp_stream_callback(s.stream, hold_latch, &latch));
    cr_assert_null(sum);
    cr_assert_eq(bp_stream_last(s.stream), last);
    sem_post(&latch.end);
    OK(bp_stream_synchronize(s.stream));
    expect_floats(s.stream, x, first);
    expect_blocked(&s, BP_BLOCK_QUEUE_FULL, 0);

    hold_queue(t.stream, &latch);
    for (int i = 0; i < given; i++) OK(bp_tensor_write(t.stream, y, first, sizeof first));
    pthread_create(&thread, NULL, streams_let_go, &latch.end);
    for (int i = 0; i < 2; i++) OK(bp_tensor_write(t.stream, y, second, sizeof second));
    pthread_join(thread, NULL);
    expect_floats(t.stream, y, second);
    cr_assert_geq(bp_device_blocked(t.device, BP_BLOCK_QUEUE_FULL), 1);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    spot_finish(&s);
    spot_finish(&t);
}
