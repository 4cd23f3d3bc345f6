/* SPDX-License-Identifier: Apache-2.0 */
/* runtime_launch.c: tests launches of kernels in streams: they return before their work is done,
 * they do not block for hidden reasons, and they run in the order of the streams. */
#include "suites.h"
#include "async_fixture.h"
#include <inttypes.h>
#include <string.h>

enum {
    N = 1000,
    MANY = 5001,
    SUMS = 6
};

/* x holds i, y holds 2 i + 1; z are results. Streams 0 and 1 are of the kinds that the case
 * states. */
struct sums {
    struct work w;
    struct bp_tensor *x, *y, *z[SUMS];
    struct bp_prepared *prepared;
};

static bool launch_begin(struct sums *s, struct check *c, const int64_t *arg)
{
    struct work *w = &s->w;

    memset(s, 0, sizeof *s);
    work_init(w, c);
    return work_adds(c) && work_stream(w, 0, arg[0]) && work_stream(w, 1, arg[1]) &&
           work_floats(w, WORK_HOST, N, &s->x) && work_floats(w, WORK_HOST, N, &s->y) &&
           work_put(w, 0, s->x, 1, 0) && work_put(w, 0, s->y, 2, 1) && work_sync(w, 0);
}

static void launch_finish(struct sums *s)
{
    bp_prepared_destroy(s->prepared);
    bp_tensor_destroy(s->x);
    bp_tensor_destroy(s->y);
    for (int i = 0; i < SUMS; i++) bp_tensor_destroy(s->z[i]);
    work_finish(&s->w);
}

static bool launch_prepare(struct sums *s)
{
    struct bp_arg in[2] = {{&s->x, 1}, {&s->y, 1}};
    struct bp_call call = {.size = sizeof call, .op = "add", .in = in, .n_in = 2};

    return check_ok(s->w.c, bp_prepared_create(s->w.device, &call, NULL, 0, &s->prepared),
                    "bp_prepared_create");
}

/* Runs to = x + y; all three tensors exist. */
static bool launch_run(struct sums *s, int stream, struct bp_tensor *to, struct bp_tensor *x,
                       struct bp_tensor *y)
{
    struct bp_tensor *in[2] = {x, y};

    return check_ok(s->w.c, bp_prepared_run(s->prepared, s->w.stream[stream], in, 2, &to, 1, NULL),
                    "bp_prepared_run of add");
}

/* Reads the device's counters of blocked calls, one for each reason. */
static void waits_of(struct work *w, uint64_t *out)
{
    for (uint32_t i = 0; i < BP_BLOCK_COUNT; i++) out[i] = bp_device_blocked(w->device, i);
}

static bool no_waits(struct work *w, const uint64_t *before)
{
    static const char *const why[] = {
#define X(NAME, text) text,
        BP_BLOCKS(X)
#undef X
    };
    uint64_t now[BP_BLOCK_COUNT];

    waits_of(w, now);
    for (uint32_t i = 0; i < BP_BLOCK_COUNT; i++)
        if (now[i] != before[i])
            return check_that(w->c, false, "%" PRIu64 " calls waited that are not to: %s",
                              now[i] - before[i], why[i]);
    return true;
}

/* Makes all kinds of calls that an app makes between two waits, while none of the submitted work
 * can begin. */
static bool give_all(struct sums *s)
{
    struct work *w = &s->w;
    struct bp_tensor *passing = NULL;
    bool ok;

    ok = work_launch(w, 0, s->x, s->y, &s->z[0]) && launch_prepare(s) &&
         work_floats(w, 0, N, &s->z[1]) && launch_run(s, 0, s->z[1], s->z[0], s->y) &&
         work_put(w, 0, s->x, 5, 0) && work_launch(w, 0, s->x, s->z[1], &passing) &&
         work_launch(w, 0, passing, s->x, &s->z[2]) && work_record(w, 0, 0);
    bp_tensor_destroy(passing);
    return ok;
}

static void launch_held(struct check *c, const int64_t *arg)
{
    uint64_t waits[BP_BLOCK_COUNT];
    struct sums s;

    if (launch_begin(&s, c, arg) && work_shut(&s.w, 0)) {
        waits_of(&s.w, waits);
        if (give_all(&s) && no_waits(&s.w, waits) &&
            work_is_behind(&s.w, 0, 0, "an event behind launches")) {
            work_open(&s.w, 0);
            /* 3 i + 1; that + 2 i + 1; 5 i + that + 5 i */
            if (work_has(&s.w, 0, s.z[0], 3, 1, "a call") &&
                work_has(&s.w, 0, s.z[1], 5, 2, "a prepared call"))
                work_has(&s.w, 0, s.z[2], 15, 2, "calls behind a write");
        }
    }
    launch_finish(&s);
}

/* Submits launches or copies and waits for them, several times, until most of the time passes in
 * the wait. This is so if the call returns before its work is done. An event behind the work is no
 * proof: it may complete slightly later than work that was waited for. */
static void launch_returns_early(struct check *c, const int64_t *arg, const char *call,
                                 bool (*give)(struct work *w, int stream, struct work_load *load))
{
    struct work_load load = {0};
    double given = 0, waited = 0, began;
    bool ok, left = false, early = false;
    struct sums s;

    if (!work_is_observed(c, arg[0])) return;
    ok = launch_begin(&s, c, arg) && work_load_init(&s.w, 0, &load);
    for (int i = 0; ok && i < WORK_TRIES && !left; i++) {
        ok = work_sync(&s.w, 0);
        began = work_seconds();
        ok = ok && give(&s.w, 0, &load);
        given = work_seconds() - began;
        left = ok && bp_event_query(s.w.event[0]) == BP_ERR_NOT_READY;
        ok = ok && work_sync(&s.w, 0);
        waited = work_seconds() - began - given;
        early = !left && waited > 10 * given;
        left = left && waited > given;
    }
    if (ok && check_that(c, !early,
                         "in the last of %d tries an event behind %d calls of %s was reached as "
                         "soon as they had been given, but waiting for the stream then took %.3g "
                         "ms: event_query returns BP_OK before the work has ended",
                         WORK_TRIES, WORK_LAUNCHES, call, waited * 1e3) &&
        check_that(c, left,
                         "in each of %d tries %d calls of %s had ended when they had been given, "
                         "or giving them took longer than waiting for them then (the last time "
                         "%.3g ms and %.3g ms): the call waits for its work",
                         WORK_TRIES, WORK_LAUNCHES, call, given * 1e3, waited * 1e3))
        work_has(&s.w, 0, load.z, 0, 2, "the result");
    work_load_finish(&load);
    launch_finish(&s);
}

static void launch_returns(struct check *c, const int64_t *arg)
{
    launch_returns_early(c, arg, "add", work_load_give);
}

static void copy_returns(struct check *c, const int64_t *arg)
{
    launch_returns_early(c, arg, "bp_tensor_copy", work_load_copy);
}

/* Writes, launches and copies of one stream run in the order of their calls. */
static void launch_order(struct check *c, const int64_t *arg)
{
    struct sums s;
    struct work *w = &s.w;

    if (launch_begin(&s, c, arg) && work_floats(w, WORK_HOST, N, &s.z[0]) &&
        work_floats(w, WORK_HOST, N, &s.z[1]) && work_floats(w, WORK_HOST, N, &s.z[2]) &&
        launch_prepare(&s) && work_shut(w, 0) && work_put(w, 0, s.x, 3, 1) &&
        launch_run(&s, 0, s.z[0], s.x, s.y) && work_put(w, 0, s.x, 7, 0) &&
        launch_run(&s, 0, s.z[1], s.z[0], s.x) &&
        check_ok(c, bp_tensor_copy(w->stream[0], s.z[2], s.z[1]), "bp_tensor_copy") &&
        launch_run(&s, 0, s.z[1], s.y, s.y)) {
        work_open(w, 0);
        /* 5 i + 2; that + 7 i; 4 i + 2 */
        if (work_has(w, 0, s.z[0], 5, 2, "a launch behind a write") &&
            work_has(w, 0, s.z[2], 12, 2, "a copy behind a launch"))
            work_has(w, 0, s.z[1], 4, 2, "a launch behind that copy");
    }
    launch_finish(&s);
}

/* Submits more launches than a queue holds. */
static void launch_many(struct check *c, const int64_t *arg)
{
    struct sums s;
    struct work *w = &s.w;
    bool ok = launch_begin(&s, c, arg) && work_floats(w, WORK_HOST, N, &s.z[0]) &&
              work_floats(w, WORK_HOST, N, &s.z[1]) && work_put(w, 0, s.z[0], 0, 0) &&
              work_put(w, 0, s.y, 0, 1) && launch_prepare(&s) && work_sync(w, 0) &&
              work_shut(w, 0) && work_open_soon(w, 1);

    for (int i = 0; ok && i < MANY; i++)
        ok = launch_run(&s, 0, s.z[~i & 1], s.z[i & 1], i % 3 ? s.y : s.x);
    if (ok) work_has(w, 0, s.z[MANY & 1], MANY / 3, MANY - MANY / 3, "the sum of many launches");
    launch_finish(&s);
}

/* A launch reads the result of a launch on another stream; a later launch then writes to an input
 * of that other launch. */
static void launch_across(struct check *c, const int64_t *arg)
{
    struct sums s;
    struct work *w = &s.w;

    if (launch_begin(&s, c, arg) && work_floats(w, WORK_HOST, N, &s.z[0]) &&
        work_floats(w, WORK_HOST, N, &s.z[1]) && launch_prepare(&s) &&
        work_put(w, 0, s.z[0], 0, 77) && work_sync(w, 0) && work_shut(w, 0) &&
        launch_run(&s, 0, s.z[0], s.x, s.y) && work_record(w, 0, 0) && work_wait_held(w, 1, 0, 0) &&
        launch_run(&s, 1, s.z[1], s.z[0], s.y) && launch_run(&s, 1, s.x, s.y, s.y) &&
        work_record(w, 1, 1)) {
        work_pause(w, 1);
        work_open(w, 0);
        if (work_has(w, 1, s.z[1], 5, 2, "a launch behind one of another stream") &&
            work_has(w, 1, s.x, 4, 2, "what that stream wrote then"))
            work_has(w, 0, s.z[0], 3, 1, "the launch that was waited for");
    }
    launch_finish(&s);
}

const struct check_kinds suite_runtime_launch[] = {
    {"launch/held", launch_held, 1}, {"launch/returns", launch_returns, 1},
    {"launch/copy-returns", copy_returns, 1}, {"launch/order", launch_order, 1},
    {"launch/many", launch_many, 1}, {"launch/across", launch_across, 2},   {NULL, NULL, 0},
};
