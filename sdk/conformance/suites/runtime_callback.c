/* SPDX-License-Identifier: Apache-2.0 */
/* runtime_callback.c: tests functions that streams call: once each, in order, after the earlier
 * work of the stream has ended. */
#include "suites.h"
#include "async_fixture.h"

enum { BYTES = 4096, MANY = 300 };

/* The observations of the called functions. */
struct callback {
    struct work w;
    /* Number of calls, and number of calls out of order or with another status than BP_OK. */
    _Atomic int calls, wrong;
    _Atomic int result; /* status of a call that a function made */
};

/* The argument of one call: its index. */
struct turn {
    struct callback *callback;
    int index;
};

/* Stream 0 has the kind that the case states, stream 1 the default kind. Tensors 0 to 2 are filled
 * with their index as the seed. */
static bool callback_begin(struct callback *h, struct check *c, const int64_t *arg)
{
    *h = (struct callback){.result = -1};
    work_init(&h->w, c);
    if (!work_stream(&h->w, 0, arg[0]) || !work_stream(&h->w, 1, 0)) return false;
    for (int i = 0; i < 3; i++)
        if (!work_tensor(&h->w, i, WORK_HOST, BYTES) || !work_fill(&h->w, 0, i, i)) return false;
    return work_sync(&h->w, 0);
}

static bool callback_call(struct callback *h, void (*fn)(void *ctx, enum bp_status status),
                          void *ctx)
{
    return check_ok(h->w.c, bp_stream_callback(h->w.stream[0], fn, ctx), "bp_stream_callback");
}

static bool has_been_called(struct callback *h, int calls, const char *when)
{
    return check_that(h->w.c, h->calls == calls, "%s: %d calls were made, expected %d", when,
                      (int)h->calls, calls) &&
           check_that(h->w.c, !h->wrong, "%d calls came out of turn, or with a failure",
                      (int)h->wrong);
}

static void callback_count(void *ctx, enum bp_status status)
{
    struct callback *h = ctx;

    h->wrong += status != BP_OK;
    h->calls++;
}

static void take_turn(void *ctx, enum bp_status status)
{
    const struct turn *turn = ctx;

    turn->callback->wrong += status != BP_OK || turn->callback->calls != turn->index;
    turn->callback->calls++;
}

static void callback_order(struct check *c, const int64_t *arg)
{
    static struct turn turn[MANY];
    struct callback h;
    bool ok = callback_begin(&h, c, arg) && work_shut(&h.w, 0);

    for (int i = 0; ok && i < MANY; i++) {
        turn[i] = (struct turn){&h, i};
        ok = (i % 3 || work_copy(&h.w, 0, i % 2, 2)) && callback_call(&h, take_turn, &turn[i]);
    }
    work_open(&h.w, 0);
    if (ok && work_sync(&h.w, 0)) has_been_called(&h, MANY, "after many");
    work_finish(&h.w);
}

static void callback_query(void *ctx, enum bp_status status)
{
    struct callback *h = ctx;

    h->result = (int)bp_event_query(h->w.event[0]);
    callback_count(ctx, status);
}

static void after_work(struct check *c, const int64_t *arg)
{
    struct callback h;

    if (callback_begin(&h, c, arg) && work_shut(&h.w, 0) && work_copy(&h.w, 0, 1, 0) &&
        work_record(&h.w, 0, 0) && callback_call(&h, callback_query, &h) &&
        work_record(&h.w, 1, 0)) {
        work_pause(&h.w, 1);
        work_open(&h.w, 0);
        if (work_sync(&h.w, 0) && has_been_called(&h, 1, "after bp_stream_synchronize"))
            check_that(c, h.result == BP_OK,
                       "the function was called when the work before had not ended: "
                       "bp_event_query answered %s there",
                       bp_status_name((enum bp_status)h.result));
    }
    work_finish(&h.w);
}

static void callback_held(struct check *c, const int64_t *arg)
{
    struct callback h;
    int calls;

    if (callback_begin(&h, c, arg) && work_shut(&h.w, 0) && work_copy(&h.w, 0, 1, 0) &&
        callback_call(&h, callback_count, &h) && work_record(&h.w, 0, 0)) {
        work_pause(&h.w, 0);
        calls = h.calls;
        check_that(c, !calls || !work_held(&h.w, 0), "a function was called before held work");
        work_open(&h.w, 0);
        if (work_sync(&h.w, 0)) has_been_called(&h, 1, "after the work was let go");
    }
    work_finish(&h.w);
}

static void empty_stream(struct check *c, const int64_t *arg)
{
    struct callback h;

    if (callback_begin(&h, c, arg) && callback_call(&h, callback_count, &h) &&
        callback_call(&h, callback_count, &h) && work_sync(&h.w, 0))
        has_been_called(&h, 2, "on a stream without work");
    work_finish(&h.w);
}

static void callback_on_device(struct check *c, const int64_t *arg)
{
    struct callback h;

    if (callback_begin(&h, c, arg) && work_shut(&h.w, 0) && work_copy(&h.w, 0, 1, 0) &&
        callback_call(&h, callback_count, &h) && work_open_soon(&h.w, 1) &&
        check_ok(c, bp_device_synchronize(h.w.device), "bp_device_synchronize") &&
        work_was_opened(&h.w, "bp_device_synchronize"))
        has_been_called(&h, 1, "after bp_device_synchronize");
    work_finish(&h.w);
}

static void callback_destroyed(struct check *c, const int64_t *arg)
{
    struct callback h;

    if (callback_begin(&h, c, arg) && work_shut(&h.w, 0) && work_copy(&h.w, 0, 1, 0) &&
        callback_call(&h, callback_count, &h)) {
        work_leave(&h.w, 0);
        work_open(&h.w, 0);
        if (check_ok(c, bp_device_synchronize(h.w.device), "bp_device_synchronize"))
            has_been_called(&h, 1, "of a stream that was destroyed");
    }
    work_finish(&h.w);
}

static void wait_for_own(void *ctx, enum bp_status status)
{
    struct callback *h = ctx;

    h->result = (int)bp_stream_synchronize(h->w.stream[0]);
    callback_count(ctx, status);
}

static void own_wait(struct check *c, const int64_t *arg)
{
    struct callback h;

    if (callback_begin(&h, c, arg) && work_copy(&h.w, 0, 1, 0) &&
        callback_call(&h, wait_for_own, &h) && work_sync(&h.w, 0) &&
        has_been_called(&h, 1, "after bp_stream_synchronize"))
        check_that(c, h.result == (arg[0] == BP_STREAM_INLINE ? BP_OK : BP_ERR_INVALID),
                   "a function that waits for its own stream was answered %s",
                   bp_status_name((enum bp_status)h.result));
    work_finish(&h.w);
}

static void give_work(void *ctx, enum bp_status status)
{
    struct callback *h = ctx;

    h->result = (int)bp_tensor_copy(h->w.stream[1], h->w.tensor[2], h->w.tensor[0]);
    callback_count(ctx, status);
}

static void gives_work(struct check *c, const int64_t *arg)
{
    struct callback h;

    if (callback_begin(&h, c, arg) && work_shut(&h.w, 0) && work_fill(&h.w, 0, 0, 8) &&
        callback_call(&h, give_work, &h)) {
        work_open(&h.w, 0);
        if (work_sync(&h.w, 0) && has_been_called(&h, 1, "after bp_stream_synchronize") &&
            check_ok(c, (enum bp_status)h.result, "bp_tensor_copy in a function that was called"))
            work_holds(&h.w, 1, 2, 8, "what the function copied");
    }
    work_finish(&h.w);
}

/* The function is called only after work that waits for another stream has ended. */
static void behind_wait(struct check *c, const int64_t *arg)
{
    struct callback h;

    if (callback_begin(&h, c, arg) && work_stream(&h.w, 2, BP_STREAM_ASYNC) && work_shut(&h.w, 2) &&
        work_copy(&h.w, 2, 1, 0) && work_record(&h.w, 0, 2) && work_wait_held(&h.w, 0, 0, 2) &&
        work_copy(&h.w, 0, 2, 1) && callback_call(&h, callback_query, &h) &&
        work_record(&h.w, 1, 0)) {
        work_pause(&h.w, 1);
        work_open(&h.w, 2);
        if (work_sync(&h.w, 0) && has_been_called(&h, 1, "after bp_stream_synchronize"))
            check_that(c, h.result == BP_OK,
                       "the function was called when work that its stream "
                       "waits for had not ended");
    }
    work_finish(&h.w);
}

static void callback_refused(struct check *c, const int64_t *arg)
{
    struct callback h;

    if (callback_begin(&h, c, arg)) {
        check_fails(c, bp_stream_callback(h.w.stream[0], NULL, &h), BP_ERR_INVALID,
                    "bp_stream_callback without a function");
        check_fails(c, bp_stream_callback(NULL, callback_count, &h), BP_ERR_INVALID,
                    "bp_stream_callback without a stream");
        if (work_sync(&h.w, 0)) has_been_called(&h, 0, "refused");
    }
    work_finish(&h.w);
}

const struct check_kinds suite_runtime_callback[] = {
    {"callback/order", callback_order, 1},
    {"callback/after-work", after_work, 1},
    {"callback/held", callback_held, 1},
    {"callback/empty-stream", empty_stream, 1},
    {"callback/device-synchronize", callback_on_device, 1},
    {"callback/destroyed", callback_destroyed, 1},
    {"callback/own-wait", own_wait, 1},
    {"callback/gives-work", gives_work, 1},
    {"callback/behind-wait", behind_wait, 1},
    {"callback/refused", callback_refused, 1},
    {NULL, NULL, 0},
};
