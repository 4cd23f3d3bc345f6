/* SPDX-License-Identifier: Apache-2.0 */
/* test_streams_fail.c: tests failures of streams: they are kept, name the launch, and are reported
 * only to callers that use the failed stream; and tests a device that is lost. */
#include "stream_kit.h"

static const float some[2] = {1, 2};

/* Submits add, add, softmax on x; the launch number `doomed` (0: none) fails. */
static void give_three(struct spot *s, struct bp_tensor *x, int doomed)
{
    struct bp_scope *scope = bp_stream_scope(s->stream);
    struct bp_tensor *y[3] = {NULL};

    s->gate->hold(1);
    OK(bp_op_add(scope, x, x, &y[0]));
    OK(bp_op_add(scope, x, x, &y[1]));
    OK(bp_op_softmax(scope, x, NULL, &y[2]));
    s->gate->hold(0);
    if (doomed) s->gate->fail(BP_ERR_DEVICE);
    s->gate->open();
    for (int i = 0; i < 3; i++) bp_tensor_destroy(y[i]);
}

Test(streams_fail, launches_since_the_last_good_point_are_named)
{
    static const enum place at[] = {GATED, PLAIN, SINGLE};

    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        struct spot s = spot_at(at[i], NULL, NULL);
        struct bp_tensor *x = floats_at(s.device, 2);
        OK(bp_tensor_write(s.stream, x, some, sizeof some));
        OK(bp_stream_synchronize(s.stream));
        give_three(&s, x, 1);
        FAILS(BP_ERR_DEVICE, "(one of the launches 2 to 4: add, add, softmax)",
              bp_stream_synchronize(s.stream));
        FAILS(BP_ERR_DEVICE, "(one of the launches 2 to 4: add, add, softmax)",
              bp_stream_synchronize(s.stream));
        FAILS(BP_ERR_DEVICE, "2 to 4: add, add, softmax", bp_device_synchronize(s.device));
        bp_tensor_destroy(x);
        spot_finish(&s);
    }
}

/* On a device that runs the work of all streams in one queue, the launch that failed may belong to
 * another stream than the one that reports the failure: the message names the launches of all. */
Test(streams_fail, launches_of_other_streams_of_one_order_are_named)
{
    struct spot s = spot_at(SINGLE, NULL, NULL);
    struct bp_tensor *x = floats_at(s.device, 2), *y = NULL;
    struct bp_stream *other = stream_at(s.device, SINGLE);

    s.gate->hold(1);
    OK(bp_tensor_write(other, x, some, sizeof some));
    OK(bp_op_softmax(bp_stream_scope(s.stream), x, NULL, &y));
    s.gate->hold(0);
    s.gate->fail(BP_ERR_DEVICE);
    s.gate->open();
    FAILS(BP_ERR_DEVICE, "softmax", bp_stream_synchronize(s.stream));
    cr_assert(strstr(bp_error_message(), "copy_in"), "%s", bp_error_message());
    cr_assert(strstr(bp_error_message(), "one of the "), "%s", bp_error_message());
    bp_stream_destroy(other);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    spot_finish(&s);
}

Test(streams_fail, a_launch_is_named_exactly_when_each_is_waited_for)
{
    static const enum place at[] = {GATED, PLAIN, SINGLE};

    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        struct spot s = spot_at(at[i], "BP_SYNC", "launch");
        struct bp_tensor *x = floats_at(s.device, 2), *y = NULL;
        struct bp_scope *scope = bp_stream_scope(s.stream);
        OK(bp_tensor_write(s.stream, x, some, sizeof some));
        OK(bp_op_add(scope, x, x, &y));
        bp_tensor_destroy(y), y = NULL;
        OK(bp_tensor_write(s.stream, x, some, sizeof some));
        s.gate->fail(BP_ERR_DEVICE);
        FAILS(BP_ERR_DEVICE, "(launch 4: softmax)", bp_op_softmax(scope, x, NULL, &y));
        bp_tensor_destroy(x);
        spot_finish(&s);
    }
}

/* For a second stream on a timeline, the numbers of launches start again. */
Test(streams_fail, a_later_stream_names_its_own_numbers)
{
    struct spot s = spot_at(GATED, NULL, NULL);
    struct bp_tensor *x = floats_at(s.device, 2);

    for (int i = 0; i < 3; i++) {
        OK(bp_tensor_write(s.stream, x, some, sizeof some));
        OK(bp_stream_synchronize(s.stream));
        give_three(&s, x, i == 2);
        if (i == 2) FAILS(BP_ERR_DEVICE, "launches 2 to 4", bp_stream_synchronize(s.stream));
        else OK(bp_stream_synchronize(s.stream));
        bp_stream_destroy(s.stream);
        s.stream = stream_at(s.device, GATED);
    }
    bp_tensor_destroy(x);
    spot_finish(&s);
}

/* A plugin whose events do not report a failure reports it later, when no work is pending. */
Test(streams_fail, launches_reported_as_done_are_named_so)
{
    struct spot s = spot_at(GATED, NULL, NULL);
    struct bp_tensor *x = floats_at(s.device, 2);
    struct bp_event *event = event_at(s.device);

    s.gate->mute(1);
    give_three(&s, x, 1);
    OK(bp_event_record(event, s.stream));
    OK(bp_event_wait(event, UINT64_MAX));
    FAILS(BP_ERR_DEVICE,
          "to fail (one of the launches up to 3, softmax, of which plugin gated had said before",
          bp_stream_synchronize(s.stream));
    s.gate->mute(0);
    bp_event_destroy(event);
    bp_tensor_destroy(x);
    spot_finish(&s);
}

/* A wait for a device waits for each of its streams, so the core knows which one has failed: the
 * event of the failed stream must not report success, and other streams have not failed. */
Test(streams_fail, a_wait_for_the_device_leaves_a_failure_with_its_stream)
{
    static const enum place at[] = {GATED, PLAIN};

    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        struct spot s = spot_at(at[i], NULL, NULL);
        struct bp_tensor *x = floats_at(s.device, 2);
        struct bp_event *event = event_at(s.device);
        struct bp_stream *other = stream_at(s.device, at[i]);
        give_three(&s, x, 1);
        OK(bp_event_record(event, s.stream));
        FAILS(BP_ERR_DEVICE, "launches 1 to 3", bp_device_synchronize(s.device));
        FAILS(BP_ERR_DEVICE, "told to fail", bp_event_query(event));
        OK(bp_stream_synchronize(other));
        bp_stream_destroy(other);
        bp_event_destroy(event);
        bp_tensor_destroy(x);
        spot_finish(&s);
    }
}

/* The events of a failed and destroyed stream return its failure. Events of the next stream on its
 * timeline do not, and the device reports the failure once. */
Test(streams_fail, failures_belong_to_the_stream_that_had_them)
{
    static const enum place at[] = {GATED, PLAIN};

    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        struct spot s = spot_at(at[i], NULL, NULL);
        struct bp_tensor *x = floats_at(s.device, 2);
        struct bp_event *old = event_at(s.device), *new = event_at(s.device),
                        *early = event_at(s.device);
        OK(bp_event_record(early, s.stream));
        give_three(&s, x, 1);
        OK(bp_event_record(old, s.stream));
        FAILS(BP_ERR_DEVICE, "told to fail", bp_event_wait(old, UINT64_MAX));
        bp_stream_destroy(s.stream);
        s.stream = stream_at(s.device, at[i]);
        OK(bp_event_record(new, s.stream));
        OK(bp_event_wait(new, UINT64_MAX));
        OK(bp_event_query(early));
        FAILS(BP_ERR_DEVICE, "told to fail", bp_event_query(old));
        FAILS(BP_ERR_DEVICE, "told to fail", bp_event_wait(old, 0));
        OK(bp_stream_synchronize(s.stream));
        give_three(&s, x, 1);
        FAILS(BP_ERR_DEVICE, "1 to 3", bp_stream_synchronize(s.stream));
        OK(bp_event_query(early));
        OK(bp_event_query(new));
        bp_event_destroy(old);
        bp_event_destroy(new);
        bp_event_destroy(early);
        bp_tensor_destroy(x);
        spot_finish(&s);
    }
}

/* An event whose work is known to have succeeded keeps this status, although later work fails. */
Test(streams_fail, events_in_front_of_a_failure_are_good)
{
    static const enum place at[] = {GATED, PLAIN, SINGLE};

    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        struct spot s = spot_at(at[i], NULL, NULL);
        struct bp_device *cpu = open_place(s.core, QUEUE);
        struct bp_stream *other = stream_at(cpu, QUEUE);
        struct bp_tensor *x = floats_at(s.device, 2);
        struct bp_event *good = event_at(s.device), *bad = event_at(s.device);
        OK(bp_tensor_write(s.stream, x, some, sizeof some));
        OK(bp_event_record(good, s.stream));
        OK(bp_event_wait(good, UINT64_MAX));
        give_three(&s, x, 1);
        OK(bp_event_record(bad, s.stream));
        FAILS(BP_ERR_DEVICE, "2 to 4: add, add, softmax", bp_stream_synchronize(s.stream));
        for (int again = 0; again < 2; again++) {
            OK(bp_event_query(good));
            OK(bp_event_wait(good, UINT64_MAX));
            OK(bp_stream_wait(other, good));
            FAILS(BP_ERR_DEVICE, "2 to 4", bp_event_query(bad));
            FAILS(BP_ERR_DEVICE, "2 to 4", bp_event_wait(bad, UINT64_MAX));
            FAILS(BP_ERR_DEVICE, "2 to 4", bp_stream_wait(other, bad));
            bp_stream_destroy(s.stream); /* another stream gets the timeline */
            s.stream = stream_at(s.device, at[i]);
        }
        bp_event_destroy(good);
        bp_event_destroy(bad);
        bp_stream_destroy(other);
        bp_device_destroy(cpu);
        bp_tensor_destroy(x);
        spot_finish(&s);
    }
}

/* A queue knows which work failed, also if no call has waited for the work before it. */
Test(streams_fail, a_queue_knows_its_work_before_a_failure)
{
    struct bp_core *core = core_with(NULL, NULL);
    struct bp_event *good, *bad;
    struct bp_device *device;
    struct bp_stream *stream;
    struct bp_tensor *x, *odd, *y = NULL, *z = NULL;
    struct latch latch;
    uint32_t index;

    OK(bp_core_load_path(core, HOSTILE_DIR "/bp_partial.so", &index));
    OK(bp_device_create_at(core, index, 0, &device));
    OK(bp_stream_create_with(device, BP_STREAM_ASYNC, &stream));
    x = floats_at(device, 2);
    odd = floats_at(device, 2);
    good = event_at(device);
    bad = event_at(device);
    hold_queue(stream, &latch);
    OK(bp_tensor_write(stream, x, some, sizeof some));
    OK(bp_tensor_write(stream, odd, F32(0.0f / 0.0f, 1), sizeof some));
    OK(bp_op_scale(bp_stream_scope(stream), x, NULL, &y));
    OK(bp_event_record(good, stream));
    OK(bp_op_scale(bp_stream_scope(stream), odd, NULL, &z));
    OK(bp_event_record(bad, stream));
    sem_post(&latch.end);
    FAILS(BP_ERR_FAULT, "launch 5, scale", bp_event_wait(bad, UINT64_MAX));
    FAILS(BP_ERR_FAULT, "launch 5, scale", bp_event_query(bad));
    OK(bp_event_query(good));
    OK(bp_event_wait(good, UINT64_MAX));
    bp_event_destroy(good);
    bp_event_destroy(bad);
    bp_tensor_destroy(x);
    bp_tensor_destroy(odd);
    bp_tensor_destroy(y);
    bp_tensor_destroy(z);
    bp_stream_destroy(stream);
    bp_device_destroy(device);
    bp_core_destroy(core);
}

Test(streams_fail, an_unreported_failure_is_reported_once)
{
    struct spot s = spot_at(GATED, NULL, NULL);
    struct bp_tensor *x = floats_at(s.device, 2);
    struct bp_event *event = event_at(s.device);
    uint64_t before;

    for (int again = 0; again < 2; again++) {
        before = s.gate->ended();
        give_three(&s, x, 1);
        OK(bp_event_record(event, s.stream)); /* shows the end of the stream's work */
        while (s.gate->ended() < before + 3) usleep(100);
        usleep(2000);
        bp_stream_destroy(s.stream); /* notices that its work has ended and failed */
        if (again) s.stream = stream_at(s.device, GATED); /* gets its timeline */
        FAILS(BP_ERR_DEVICE, "told to fail", bp_device_synchronize(s.device));
        OK(bp_device_synchronize(s.device));
        if (!again) s.stream = stream_at(s.device, GATED);
    }
    bp_event_destroy(event);
    bp_tensor_destroy(x);
    spot_finish(&s);
}

/* A wait or a callback has reported the failure to the app: after the stream is destroyed, it is
 * not reported again. */
Test(streams_fail, a_reported_failure_is_not_repeated)
{
    enum { SYNC, EVENT, READ, WAYS };
    static const enum place at[] = {GATED, PLAIN};

    for (int way = 0; way < 2 * WAYS; way++) {
        struct spot s = spot_at(at[way / WAYS], NULL, NULL);
        struct bp_tensor *x = floats_at(s.device, 2);
        struct bp_event *event = event_at(s.device);
        float data[2];
        give_three(&s, x, 1);
        OK(bp_event_record(event, s.stream));
        if (way % WAYS == SYNC)
            FAILS(BP_ERR_DEVICE, "told to fail", bp_stream_synchronize(s.stream));
        if (way % WAYS == EVENT)
            FAILS(BP_ERR_DEVICE, "told to fail", bp_event_wait(event, UINT64_MAX));
        if (way % WAYS == READ)
            FAILS(BP_ERR_DEVICE, "told to fail", bp_tensor_read(s.stream, x, data, sizeof data));
        bp_stream_destroy(s.stream);
        OK(bp_device_synchronize(s.device));
        s.stream = stream_at(s.device, at[way / WAYS]);
        OK(bp_device_synchronize(s.device));
        bp_event_destroy(event);
        bp_tensor_destroy(x);
        spot_finish(&s);
    }
}

/* A driver may report failed work from any call; the failure is not lost. */
Test(streams_fail, a_failure_reported_by_a_record_is_kept)
{
    struct spot s = spot_at(GATED, NULL, NULL);
    struct bp_tensor *x = floats_at(s.device, 2);
    struct bp_event *event = event_at(s.device);

    s.gate->hold(1);
    OK(bp_tensor_write(s.stream, x, some, sizeof some));
    s.gate->hold(0);
    s.gate->result(FAKE_event_record, BP_ERR_DEVICE, "no record for you");
    FAILS(BP_ERR_DEVICE, "no record for you", bp_event_record(event, s.stream));
    s.gate->result(FAKE_event_record, BP_OK, NULL);
    FAILS(BP_ERR_INVALID, "never recorded", bp_event_query(event));
    s.gate->open();
    FAILS(BP_ERR_DEVICE, "no record for you", bp_stream_synchronize(s.stream));
    bp_event_destroy(event);
    bp_tensor_destroy(x);
    spot_finish(&s);
}

static void streams_fail_note(void *ctx, enum bp_status status)
{
    *(_Atomic uint32_t *)ctx = status;
}

/* Without memory for an event no event can be recorded, and a callback waits for all work of the
 * stream, also for work submitted later, but never comes before its own work. */
Test(streams_fail, a_wait_without_memory_for_an_event_is_a_longer_wait)
{
    struct spot s = spot_at(GATED, NULL, NULL);
    struct bp_tensor *x = floats_at(s.device, 2);
    struct bp_event *event = event_at(s.device);
    _Atomic uint32_t received = 99;

    s.gate->hold(1);
    OK(bp_tensor_write(s.stream, x, some, sizeof some));
    s.gate->hold(0);
    s.gate->result(FAKE_event_create, BP_ERR_MEMORY, "no event for you");
    FAILS(BP_ERR_MEMORY, "no event for you", bp_event_record(event, s.stream));
    FAILS(BP_ERR_INVALID, "never recorded", bp_event_query(event));
    OK(bp_stream_callback(s.stream, streams_fail_note, &received));
    usleep(10000);
    cr_assert_eq(received, 99);
    s.gate->open();
    OK(bp_stream_synchronize(s.stream));
    cr_assert_eq(received, BP_OK);
    bp_event_destroy(event);
    bp_tensor_destroy(x);
    spot_finish(&s);
}

static struct bp_stream *open_stream_of(struct spot *s, enum place place)
{
    return stream_at(s->device, place);
}

/* A lost device: each call returns this status, no call hangs, and the device can be destroyed;
 * opened again it works. */
static void streams_fail_lose(enum place place)
{
    struct spot s = spot_at(place, NULL, NULL);
    struct bp_tensor *x = floats_at(s.device, 2), *y = NULL;
    struct bp_stream *other = open_stream_of(&s, place), *more = NULL;
    struct bp_event *event = event_at(s.device);
    struct bp_device *cpu = open_place(s.core, QUEUE);
    struct bp_stream *queue = stream_at(cpu, QUEUE), *here_and_now = stream_at(cpu, INLINE);
    struct bp_tensor *here = floats_at(cpu, 2);
    _Atomic uint32_t received = BP_OK;
    float got[2];

    s.gate->hold(1);
    OK(bp_tensor_write(s.stream, x, some, sizeof some));
    OK(bp_event_record(event, s.stream));
    OK(bp_stream_callback(s.stream, streams_fail_note, &received));
    OK(bp_stream_wait(queue, event));
    OK(bp_tensor_write(queue, here, some, sizeof some));
    s.gate->lose();
    FAILS(BP_ERR_DEVICE_LOST, "pulled the plug", bp_tensor_write(other, x, some, sizeof some));
    FAILS(BP_ERR_DEVICE_LOST, "lost", bp_tensor_write(s.stream, x, some, sizeof some));
    FAILS(BP_ERR_DEVICE_LOST, "lost", bp_tensor_read(other, x, got, sizeof got));
    FAILS(BP_ERR_DEVICE_LOST, "lost", bp_op_add(bp_stream_scope(s.stream), x, x, &y));
    FAILS(BP_ERR_DEVICE_LOST, "lost", bp_stream_synchronize(s.stream));
    FAILS(BP_ERR_DEVICE_LOST, "lost", bp_stream_synchronize(other));
    FAILS(BP_ERR_DEVICE_LOST, "lost", bp_device_synchronize(s.device));
    FAILS(BP_ERR_DEVICE_LOST, "lost", bp_event_query(event));
    FAILS(BP_ERR_DEVICE_LOST, "lost", bp_event_wait(event, UINT64_MAX));
    FAILS(BP_ERR_DEVICE_LOST, "lost", bp_event_record(event, other));
    FAILS(BP_ERR_DEVICE_LOST, "lost", bp_stream_create(s.device, &more));
    FAILS(BP_ERR_DEVICE_LOST, "lost", bp_tensor_create(s.device, BP_F32, 1, SHAPE(2), &y));
    /* Work of a lost device counts as ended: no call waits for it. */
    FAILS(BP_ERR_DEVICE_LOST, "lost", bp_stream_wait(here_and_now, event));
    cr_assert_eq(bp_device_blocked(cpu, BP_BLOCK_INLINE_WAIT), 0);
    bp_stream_destroy(here_and_now);
    OK(bp_stream_synchronize(queue)); /* other devices still work */
    bp_event_destroy(event);
    bp_tensor_destroy(x);
    bp_tensor_destroy(here);
    bp_stream_destroy(other);
    bp_stream_destroy(queue);
    bp_device_destroy(cpu);
    bp_stream_destroy(s.stream);
    bp_device_destroy(s.device);
    cr_assert_eq(received, BP_ERR_DEVICE_LOST);
    cr_assert(!more && !y);
    s.gate->hold(0);
    bp_core_destroy(s.core);
    s = spot_at(place, NULL, NULL);
    OK(bp_stream_synchronize(s.stream));
    spot_finish(&s);
}

Test(streams_fail, a_lost_device_returns_lost_and_closes, .timeout = 20)
{
    streams_fail_lose(GATED);
    streams_fail_lose(PLAIN);
    streams_fail_lose(SINGLE);
}

/* After the first wait that finds the device lost, each call reports the loss. */
Test(streams_fail, a_wait_reports_a_lost_device_to_all, .timeout = 20)
{
    struct spot s = spot_at(GATED, NULL, NULL);
    struct bp_tensor *x = floats_at(s.device, 2), *y = NULL;
    struct bp_stream *other = stream_at(s.device, GATED);

    s.gate->hold(1);
    OK(bp_tensor_write(s.stream, x, some, sizeof some));
    s.gate->hold(0);
    s.gate->lose();
    FAILS(BP_ERR_DEVICE_LOST, "pulled", bp_stream_synchronize(s.stream));
    FAILS(BP_ERR_DEVICE_LOST, "destroy all that is of it; it can be opened again where its driver",
          bp_tensor_create(s.device, BP_F32, 1, SHAPE(2), &y));
    FAILS(BP_ERR_DEVICE_LOST, "is lost", bp_stream_synchronize(other));
    bp_stream_destroy(other);
    bp_tensor_destroy(x);
    spot_finish(&s);
}
