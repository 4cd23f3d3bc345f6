/* SPDX-License-Identifier: Apache-2.0 */
/* runtime_order.c: tests the order of one stream and of events in it while its work is held, by
 * means of data, statuses, and calls that block. */
#include "suites.h"
#include "async_fixture.h"

enum { BYTES = 4096, LONG = 1500 };
static const uint64_t ten_seconds = UINT64_C(10000000000);

/* Stream 0 has the kind that the case states, stream 1 the default kind. Tensor i is filled with
 * seed i. */
static bool order_begin(struct work *w, struct check *c, const int64_t *arg)
{
    work_init(w, c);
    if (!work_stream(w, 0, arg[0]) || !work_stream(w, 1, 0)) return false;
    for (int i = 0; i < 4; i++)
        if (!work_tensor(w, i, WORK_HOST, BYTES) || !work_fill(w, 0, i, i)) return false;
    return work_sync(w, 0);
}

static void order_copies(struct check *c, const int64_t *arg)
{
    struct work w;

    if (order_begin(&w, c, arg) && work_shut(&w, 0) && work_copy(&w, 0, 1, 0) &&
        work_copy(&w, 0, 2, 1) && work_copy(&w, 0, 3, 2) && work_fill(&w, 0, 0, 7)) {
        work_open(&w, 0);
        if (work_holds(&w, 0, 3, 0, "the end of a chain of copies"))
            work_holds(&w, 0, 0, 7, "what was written last");
    }
    work_finish(&w);
}

/* The host's memory is overwritten after each write call has returned. */
static void order_overwrites(struct check *c, const int64_t *arg)
{
    struct work w;

    if (order_begin(&w, c, arg) && work_shut(&w, 0) && work_fill(&w, 0, 0, 11) &&
        work_copy(&w, 0, 1, 0) && work_fill(&w, 0, 0, 12) && work_copy(&w, 0, 2, 0) &&
        work_fill(&w, 0, 0, 13)) {
        work_open(&w, 0);
        if (work_holds(&w, 0, 1, 11, "copied after the first write") &&
            work_holds(&w, 0, 2, 12, "copied after the second"))
            work_holds(&w, 0, 0, 13, "written three times");
    }
    work_finish(&w);
}

static void order_swap(struct check *c, const int64_t *arg)
{
    struct work w;

    if (order_begin(&w, c, arg) && work_shut(&w, 0) && work_copy(&w, 0, 2, 0) &&
        work_copy(&w, 0, 0, 1) && work_copy(&w, 0, 1, 2)) {
        work_open(&w, 0);
        if (work_holds(&w, 0, 0, 1, "the one")) work_holds(&w, 0, 1, 0, "the other");
    }
    work_finish(&w);
}

/* Submits more copies than a queue holds. */
static void order_many(struct check *c, const int64_t *arg)
{
    struct work w;
    bool ok = order_begin(&w, c, arg);

    for (int i = 0; ok && i < LONG; i++)
        ok = work_copy(&w, 0, 1, 0) && work_copy(&w, 0, 0, 2) && work_copy(&w, 0, 2, 1);
    if (ok && work_holds(&w, 0, 0, LONG & 1 ? 2 : 0, "swapped many times"))
        work_holds(&w, 0, 2, LONG & 1 ? 0 : 2, "the other");
    work_finish(&w);
}

static void read_waits(struct check *c, const int64_t *arg)
{
    struct work w;

    if (order_begin(&w, c, arg) && work_shut(&w, 0) && work_fill(&w, 0, 0, 5) &&
        work_open_soon(&w, 1) && work_holds(&w, 0, 0, 5, "read behind a write that was held"))
        work_was_opened(&w, "bp_tensor_read");
    work_finish(&w);
}

static bool order_give(struct work *w)
{
    return work_shut(w, 0) && work_fill(w, 0, 0, 5) && work_copy(w, 0, 1, 0) &&
           work_record(w, 0, 0);
}

static bool is_done(struct work *w)
{
    return check_ok(w->c, bp_event_query(w->event[0]), "bp_event_query of what was waited for");
}

static void order_synchronize(struct check *c, const int64_t *arg)
{
    struct work w;

    if (order_begin(&w, c, arg) && order_give(&w) && work_open_soon(&w, 1) && work_sync(&w, 0) &&
        work_was_opened(&w, "bp_stream_synchronize") && is_done(&w))
        work_holds(&w, 1, 1, 5, "read on another stream");
    work_finish(&w);
}

/* A callback is work too; here the stream has no other work. */
static void synchronize_callback(struct check *c, const int64_t *arg)
{
    struct work w;

    if (order_begin(&w, c, arg) && work_shut(&w, 0) && work_open_soon(&w, 1) && work_sync(&w, 0))
        work_was_opened(&w, "bp_stream_synchronize");
    work_finish(&w);
}

static void order_on_device(struct check *c, const int64_t *arg)
{
    struct work w;

    if (order_begin(&w, c, arg) && order_give(&w) && work_open_soon(&w, 1) &&
        check_ok(c, bp_device_synchronize(w.device), "bp_device_synchronize") &&
        work_was_opened(&w, "bp_device_synchronize") && is_done(&w))
        work_holds(&w, 1, 1, 5, "read on another stream");
    work_finish(&w);
}

/* Waiting for one stream does not wait for the work of another one. */
static void synchronize_one(struct check *c, const int64_t *arg)
{
    struct work w;

    if (order_begin(&w, c, arg) && order_give(&w) && work_fill(&w, 1, 2, 8) && work_sync(&w, 1) &&
        work_holds(&w, 1, 2, 8, "on a stream of its own")) {
        work_open(&w, 0);
        work_holds(&w, 0, 1, 5, "on the stream that was held");
    }
    work_finish(&w);
}

static void order_destroyed(struct check *c, const int64_t *arg)
{
    struct work w;

    if (order_begin(&w, c, arg) && order_give(&w)) {
        work_leave(&w, 0);
        work_open(&w, 0);
        if (check_ok(c, bp_device_synchronize(w.device), "bp_device_synchronize"))
            work_holds(&w, 1, 1, 5, "given to a stream that was destroyed");
    }
    work_finish(&w);
}

/* A stream created afterwards does not wait for the remaining work of the destroyed one. */
static void destroyed_and_new(struct check *c, const int64_t *arg)
{
    struct work w;

    if (order_begin(&w, c, arg) && order_give(&w)) {
        work_leave(&w, 0);
        if (work_stream(&w, 2, arg[0]) && work_fill(&w, 2, 2, 8) && work_sync(&w, 2) &&
            work_holds(&w, 2, 2, 8, "on a new stream")) {
            work_open(&w, 0);
            if (check_ok(c, bp_device_synchronize(w.device), "bp_device_synchronize"))
                work_holds(&w, 1, 1, 5, "given to a stream that was destroyed");
        }
    }
    work_finish(&w);
}

static void event_held(struct check *c, const int64_t *arg)
{
    struct work w;

    if (order_begin(&w, c, arg) && order_give(&w) &&
        work_is_behind(&w, 0, 0, "an event behind work")) {
        work_open(&w, 0);
        if (check_ok(c, bp_event_wait(w.event[0], ten_seconds), "bp_event_wait") && is_done(&w))
            work_holds(&w, 1, 1, 5, "what is before the event");
    }
    work_finish(&w);
}

static void times_out(struct check *c, const int64_t *arg, uint64_t ns)
{
    struct work w;
    enum bp_status status;

    if (order_begin(&w, c, arg) && order_give(&w)) {
        status = bp_event_wait(w.event[0], ns);
        check_that(c, status == (work_held(&w, 0) ? BP_ERR_TIMEOUT : status),
                   "bp_event_wait for %u ns of what has not begun: expected BP_ERR_TIMEOUT, got %s",
                   (unsigned)ns, bp_status_name(status));
        work_open(&w, 0);
        if (check_ok(c, bp_event_wait(w.event[0], ten_seconds), "bp_event_wait, 10 s"))
            work_holds(&w, 1, 1, 5, "what is before the event");
    }
    work_finish(&w);
}

static void event_timeout(struct check *c, const int64_t *arg)
{
    times_out(c, arg, 3000000);
}

static void event_no_time(struct check *c, const int64_t *arg)
{
    times_out(c, arg, 0);
}

static void event_waits(struct check *c, const int64_t *arg)
{
    struct work w;

    if (order_begin(&w, c, arg) && order_give(&w) && work_open_soon(&w, 1) &&
        check_ok(c, bp_event_wait(w.event[0], UINT64_MAX), "bp_event_wait") &&
        work_was_opened(&w, "bp_event_wait"))
        work_holds(&w, 1, 1, 5, "what is before the event");
    work_finish(&w);
}

/* An event keeps its position in the stream while later work is submitted. */
static void event_before(struct check *c, const int64_t *arg)
{
    struct work w;

    if (order_begin(&w, c, arg) && work_fill(&w, 0, 2, 6) && work_record(&w, 1, 0) &&
        order_give(&w) &&
        check_ok(c, bp_event_wait(w.event[1], ten_seconds),
                 "bp_event_wait for what comes before work that is held") &&
        check_ok(c, bp_event_query(w.event[1]), "bp_event_query of the same") &&
        work_is_behind(&w, 0, 0, "an event behind that work")) {
        work_open(&w, 0);
        work_holds(&w, 0, 2, 6, "what was written first");
    }
    work_finish(&w);
}

static void event_again(struct check *c, const int64_t *arg)
{
    struct work w;

    if (order_begin(&w, c, arg) && work_record(&w, 0, 0) &&
        check_ok(c, bp_event_wait(w.event[0], ten_seconds), "bp_event_wait") && order_give(&w) &&
        work_is_behind(&w, 0, 0, "an event that was recorded again")) {
        work_open(&w, 0);
        if (check_ok(c, bp_event_wait(w.event[0], ten_seconds), "bp_event_wait"))
            work_holds(&w, 1, 1, 5, "what is before the event");
    }
    work_finish(&w);
}

static void event_of_destroyed(struct check *c, const int64_t *arg)
{
    struct work w;

    if (order_begin(&w, c, arg) && order_give(&w)) {
        work_leave(&w, 0);
        if (work_is_behind(&w, 0, 0, "an event of a stream that was destroyed")) {
            work_open(&w, 0);
            if (check_ok(c, bp_event_wait(w.event[0], ten_seconds), "bp_event_wait"))
                work_holds(&w, 1, 1, 5, "what is before the event");
        }
    }
    work_finish(&w);
}

const struct check_kinds suite_runtime_order[] = {
    {"order/copies", order_copies, 1},
    {"order/overwrites", order_overwrites, 1},
    {"order/swap", order_swap, 1},
    {"order/many", order_many, 1},
    {"order/read-waits", read_waits, 1},
    {"order/synchronize", order_synchronize, 1},
    {"order/synchronize-callback", synchronize_callback, 1},
    {"order/device-synchronize", order_on_device, 1},
    {"order/synchronize-one", synchronize_one, 1},
    {"order/destroyed", order_destroyed, 1},
    {"order/destroyed-and-new", destroyed_and_new, 1},
    {"event/held", event_held, 1},
    {"event/timeout", event_timeout, 1},
    {"event/no-time", event_no_time, 1},
    {"event/waits", event_waits, 1},
    {"event/before", event_before, 1},
    {"event/again", event_again, 1},
    {"event/of-destroyed", event_of_destroyed, 1},
    {NULL, NULL, 0},
};
