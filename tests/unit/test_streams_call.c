/* SPDX-License-Identifier: Apache-2.0 */
/* test_streams_call.c: tests bp_stream_callback: it is called once, after the work, on each kind of
 * stream; and tests the calls that its function may make, up to the end of its device. */
#include "stream_kit.h"

static const float some[2] = {1, 2};

struct callback {
    atomic_int calls;
    enum bp_status status;
    uint64_t ended; /* the gate's work that had ended when it was called */
    struct fake *gate;
    char message[200];
};

static void streams_call_take(void *ctx, enum bp_status status)
{
    struct callback *h = ctx;

    h->status = status;
    if (h->gate) h->ended = h->gate->ended();
    snprintf(h->message, sizeof h->message, "%s", bp_error_message());
    h->calls++;
}

static void wait_for_call(struct callback *h)
{
    for (int i = 0; i < 5000 && !h->calls; i++) usleep(1000);
    cr_assert_eq(h->calls, 1);
}

Test(streams_call, an_inline_stream_calls_at_once)
{
    struct spot s = spot_at(INLINE, NULL, NULL);
    struct callback h = {0};

    OK(bp_stream_callback(s.stream, streams_call_take, &h));
    cr_assert(h.calls == 1 && h.status == BP_OK);
    FAILS(BP_ERR_INVALID, "fn is NULL", bp_stream_callback(s.stream, NULL, &h));
    FAILS(BP_ERR_INVALID, "expected a stream", bp_stream_callback(NULL, streams_call_take, &h));
    cr_assert_eq(h.calls, 1);
    spot_finish(&s);
}

Test(streams_call, a_callback_comes_after_the_work_before_it)
{
    static const enum place at[] = {GATED, PLAIN, SINGLE};

    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        struct spot s = spot_at(at[i], NULL, NULL);
        struct callback h = {.gate = s.gate};
        struct bp_tensor *x = floats_at(s.device, 2);
        uint64_t before = s.gate->ended();
        s.gate->hold(1);
        for (int k = 0; k < 3; k++) OK(bp_tensor_write(s.stream, x, some, sizeof some));
        OK(bp_stream_callback(s.stream, streams_call_take, &h));
        s.gate->hold(0);
        usleep(10000);
        cr_assert_eq(h.calls, 0, "%s", places[at[i]].name);
        s.gate->open();
        OK(bp_stream_synchronize(s.stream)); /* waits for the callback too */
        cr_assert_eq(h.calls, 1, "%s", places[at[i]].name);
        cr_assert(h.status == BP_OK && h.ended >= before + 3);
        bp_tensor_destroy(x);
        spot_finish(&s);
    }
}

/* If the plugin has events, work that is submitted later does not delay a callback. */
Test(streams_call, later_work_does_not_delay_it)
{
    struct spot s = spot_at(GATED, NULL, NULL);
    struct callback h = {0};
    struct bp_tensor *x = floats_at(s.device, 2);

    OK(bp_tensor_write(s.stream, x, some, sizeof some));
    OK(bp_stream_callback(s.stream, streams_call_take, &h));
    s.gate->hold(1);
    OK(bp_tensor_write(s.stream, x, some, sizeof some));
    s.gate->hold(0);
    wait_for_call(&h);
    s.gate->open();
    bp_tensor_destroy(x);
    spot_finish(&s);
}

Test(streams_call, callbacks_of_a_queue_are_in_order)
{
    struct spot s = spot_at(QUEUE, NULL, NULL);
    struct callback h[50] = {0};
    sem_t semaphore;

    sem_init(&semaphore, 0, 0);
    OK(bp_stream_callback(s.stream, hold_until, &semaphore));
    for (int i = 0; i < 50; i++) OK(bp_stream_callback(s.stream, streams_call_take, &h[i]));
    cr_assert_eq(bp_stream_last(s.stream), 51);
    cr_assert_eq(h[0].calls, 0);
    sem_post(&semaphore);
    OK(bp_stream_synchronize(s.stream));
    for (int i = 0; i < 50; i++) cr_assert_eq(h[i].calls, 1);
    spot_finish(&s);
}

Test(streams_call, a_callback_receives_the_failure)
{
    static const enum place at[] = {GATED, PLAIN, SINGLE};

    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        struct spot s = spot_at(at[i], NULL, NULL);
        struct callback h = {0}, late = {0};
        struct bp_tensor *x = floats_at(s.device, 2);
        s.gate->hold(1);
        OK(bp_tensor_write(s.stream, x, some, sizeof some));
        OK(bp_stream_callback(s.stream, streams_call_take, &h));
        s.gate->hold(0);
        s.gate->fail(BP_ERR_DEVICE);
        s.gate->open();
        FAILS(BP_ERR_DEVICE, "told to fail", bp_stream_synchronize(s.stream));
        OK(bp_stream_callback(s.stream, streams_call_take,
                              &late)); /* on a stream that has failed */
        bp_stream_destroy(s.stream);
        wait_for_call(&late);
        cr_assert(h.calls == 1 && h.status == BP_ERR_DEVICE && late.status == BP_ERR_DEVICE);
        cr_assert(strstr(h.message, "told to fail"), "%s", h.message);
        s.stream = NULL;
        bp_tensor_destroy(x);
        spot_finish(&s);
    }
}

/* The stream is destroyed immediately: the callback is still called, and the end of the device
 * waits for it. */
Test(streams_call, it_outlives_its_stream)
{
    static const enum place at[] = {QUEUE, GATED, PLAIN, SINGLE, TEMPLATE};

    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        struct spot s = spot_at(at[i], NULL, NULL);
        struct callback h = {0};
        struct bp_tensor *x = floats_at(s.device, 2);
        OK(bp_tensor_write(s.stream, x, some, sizeof some));
        OK(bp_stream_callback(s.stream, streams_call_take, &h));
        bp_tensor_destroy(x);
        spot_finish(&s);
        cr_assert_eq(h.calls, 1, "%s", places[at[i]].name);
        cr_assert_eq(h.status, BP_OK);
    }
}

struct inside {
    struct spot *s;
    struct bp_tensor *x;
    struct bp_stream *other;
    enum bp_status synchronized, device, other_status;
    atomic_int over;
};

static void call_inside(void *ctx, enum bp_status status)
{
    struct inside *in = ctx;

    (void)status;
    in->synchronized = bp_stream_synchronize(in->s->stream);
    in->device = bp_device_synchronize(in->s->device);
    in->other_status = bp_tensor_write(in->other, in->x, some, sizeof some);
    if (!in->other_status) in->other_status = bp_stream_synchronize(in->other);
    atomic_store(&in->over, 1);
}

Test(streams_call, waiting_for_the_own_stream_is_refused, .timeout = 20)
{
    static const enum place at[] = {QUEUE, GATED, PLAIN};

    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        struct spot s = spot_at(at[i], NULL, NULL);
        struct inside in = {.s = &s, .x = floats_at(s.device, 2),
                            .other = stream_at(s.device, at[i])};
        OK(bp_stream_callback(s.stream, call_inside, &in));
        while (!in.over) usleep(1000);
        cr_assert_eq(in.synchronized, BP_ERR_INVALID, "%s", places[at[i]].name);
        cr_assert_eq(in.device, BP_ERR_INVALID, "%s", places[at[i]].name);
        cr_assert_eq(in.other_status, BP_OK, "%s", places[at[i]].name);
        bp_tensor_destroy(in.x);
        bp_stream_destroy(in.other);
        spot_finish(&s);
    }
}

/* The queue of the callback's own stream is full: only its own thread could make room. */
struct filler {
    struct spot s;
    struct bp_tensor *x;
    enum bp_status status;
    atomic_int over;
};

static void streams_call_fill(void *ctx, enum bp_status status)
{
    struct filler *f = ctx;

    (void)status;
    for (int i = 0; i < 5000 && !f->status; i++)
        f->status = bp_tensor_write(f->s.stream, f->x, some, sizeof some);
    atomic_store(&f->over, 1);
}

Test(streams_call, a_callback_cannot_wait_for_room_in_its_own_queue, .timeout = 20)
{
    struct filler f = {.s = spot_at(QUEUE, NULL, NULL)};

    f.x = floats_at(f.s.device, 2);
    OK(bp_stream_callback(f.s.stream, streams_call_fill, &f));
    while (!f.over) usleep(1000);
    cr_assert_eq(f.status, BP_ERR_INVALID);
    OK(bp_stream_synchronize(f.s.stream));
    bp_tensor_destroy(f.x);
    spot_finish(&f.s);
}

/* The last handle of a device is destroyed in a callback of this device: another thread ends the
 * device. */
struct last {
    struct spot s;
    struct bp_tensor *x;
    sem_t begun, over;
};

static void destroy_all(void *ctx, enum bp_status status)
{
    struct last *l = ctx;

    (void)status;
    sem_wait(&l->begun);
    bp_tensor_destroy(l->x);
    bp_stream_destroy(l->s.stream);
    bp_device_destroy(l->s.device);
    bp_core_destroy(l->s.core);
    sem_post(&l->over);
}

Test(streams_call, a_callback_may_destroy_the_last_of_its_device, .timeout = 20)
{
    static const enum place at[] = {QUEUE, GATED, PLAIN, SINGLE};

    for (int round = 0; round < 20; round++)
        for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
            struct last l = {.s = spot_at(at[i], NULL, NULL)};
            l.x = floats_at(l.s.device, 2);
            sem_init(&l.begun, 0, 0);
            sem_init(&l.over, 0, 0);
            OK(bp_tensor_write(l.s.stream, l.x, some, sizeof some));
            OK(bp_stream_callback(l.s.stream, destroy_all, &l));
            sem_post(&l.begun);
            sem_wait(&l.over);
        }
    OK(bp_shutdown(UINT64_MAX)); /* waits for threads that end devices */
}

/* The queues of two devices wait for each other's events, and the devices are then destroyed. */
Test(streams_call, devices_that_wait_for_each_other_end, .timeout = 30)
{
    static sem_t held[50];

    for (int round = 0; round < 50; round++) {
        struct spot a = spot_at(QUEUE, NULL, NULL), b = spot_at(QUEUE, NULL, NULL);
        struct bp_tensor *x = floats_at(a.device, 2), *y = floats_at(b.device, 2);
        struct bp_event *e = event_at(a.device), *f = event_at(b.device);
        sem_t *semaphore = &held[round];
        sem_init(semaphore, 0, 0);
        OK(bp_stream_callback(a.stream, hold_until, semaphore));
        OK(bp_stream_callback(b.stream, hold_until, semaphore));
        OK(bp_tensor_write(a.stream, x, some, sizeof some));
        OK(bp_tensor_write(b.stream, y, some, sizeof some));
        OK(bp_event_record(e, a.stream));
        OK(bp_event_record(f, b.stream));
        OK(bp_stream_wait(b.stream, e)); /* holds the device of a */
        OK(bp_stream_wait(a.stream, f)); /* holds the device of b */
        bp_tensor_destroy(x);
        bp_tensor_destroy(y);
        bp_event_destroy(e);
        bp_event_destroy(f);
        bp_stream_destroy(a.stream);
        bp_stream_destroy(b.stream);
        bp_device_destroy(a.device);
        bp_device_destroy(b.device);
        bp_core_destroy(a.core);
        bp_core_destroy(b.core);
        sem_post(semaphore);
        sem_post(semaphore);
        usleep(300);
    }
    OK(bp_shutdown(UINT64_MAX));
}
