/* SPDX-License-Identifier: Apache-2.0 */
/* runtime_wait.c: tests streams that wait for events of other streams, of each kind for each kind,
 * while the work before the event is held. */
#include "suites.h"
#include "async_fixture.h"
#include <string.h>

enum { BYTES = 4096 };

/* Streams 0 and 2 are of the first kind, 1 and 3 of the second. Tensor i is filled with seed i. */
static bool wait_begin(struct work *w, struct check *c, const int64_t *arg)
{
    work_init(w, c);
    for (int i = 0; i < 4; i++)
        if (!work_stream(w, i, arg[i & 1])) return false;
    for (int i = 0; i < 5; i++)
        if (!work_tensor(w, i, WORK_HOST, BYTES) || !work_fill(w, 0, i, i)) return false;
    return work_sync(w, 0);
}

/* Stream s writes tensor t behind its gate; event e is recorded behind the write. */
static bool wait_give(struct work *w, int s, int t, int seed, int e)
{
    return work_shut(w, s) && work_fill(w, s, t, seed) && work_record(w, e, s);
}

/* Stream 1 has work that waits; records event 3 behind it. */
static bool wait_waits(struct work *w, int held)
{
    if (!work_record(w, 3, 1)) return false;
    work_pause(w, 3);
    return work_is_behind(w, 3, held, "work that waits for work which is held");
}

/* Read after write. */
static void wait_forward(struct check *c, const int64_t *arg)
{
    struct work w;

    if (wait_begin(&w, c, arg) && wait_give(&w, 0, 0, 12, 0) && work_wait_held(&w, 1, 0, 0) &&
        work_copy(&w, 1, 1, 0) && wait_waits(&w, 0)) {
        work_open(&w, 0);
        work_holds(&w, 1, 1, 12, "read after a write on another stream");
    }
    work_finish(&w);
}

/* Write after read. */
static void wait_back(struct check *c, const int64_t *arg)
{
    struct work w;

    if (wait_begin(&w, c, arg) && work_shut(&w, 0) && work_copy(&w, 0, 1, 0) &&
        work_record(&w, 0, 0) && work_wait_held(&w, 1, 0, 0) && work_fill(&w, 1, 0, 12) &&
        wait_waits(&w, 0)) {
        work_open(&w, 0);
        if (work_holds(&w, 1, 0, 12, "written after a read on another stream"))
            work_holds(&w, 0, 1, 0, "read before a write on another stream");
    }
    work_finish(&w);
}

/* Only the last work before the event is held. This copy takes longer than waking a waiting
 * thread. */
static void last_work(struct check *c, const int64_t *arg)
{
    const uint64_t large = UINT64_C(8) << 20;
    struct work w;
    bool ok = wait_begin(&w, c, arg);

    for (int t = 4; t < 7; t++) ok = ok && work_tensor(&w, t, 0, large);
    ok = ok && work_fill(&w, 0, 1, 12) && work_record(&w, 1, 0) && work_fill(&w, 0, 4, 13) &&
         work_shut(&w, 0) && work_copy(&w, 0, 5, 4) && work_record(&w, 0, 0) &&
         work_wait(&w, 1, 1) && work_wait_held(&w, 1, 0, 0) && work_copy(&w, 1, 6, 5) &&
         work_copy(&w, 1, 3, 1) && wait_waits(&w, 0);
    if (ok) {
        work_open(&w, 0);
        if (work_holds(&w, 1, 6, 13, "what was written last before the event"))
            work_holds(&w, 1, 3, 12, "what was written before that");
    }
    work_finish(&w);
}

/* The callback that holds the stream is the only work before the event. */
static void of_callback(struct check *c, const int64_t *arg)
{
    struct work w;

    if (wait_begin(&w, c, arg) && work_shut(&w, 0) && work_record(&w, 0, 0) &&
        work_wait_held(&w, 1, 0, 0) && work_copy(&w, 1, 1, 0) && wait_waits(&w, 0)) {
        work_open(&w, 0);
        work_holds(&w, 1, 1, 0, "behind a function that was called");
    }
    work_finish(&w);
}

static void wait_chain(struct check *c, const int64_t *arg)
{
    struct work w;

    if (wait_begin(&w, c, arg) && wait_give(&w, 0, 0, 12, 0) && work_wait_held(&w, 1, 0, 0) &&
        work_copy(&w, 1, 1, 0) && work_record(&w, 1, 1) && work_wait(&w, 2, 1) &&
        work_copy(&w, 2, 2, 1) && work_record(&w, 2, 2) && wait_waits(&w, 0)) {
        work_open(&w, 0);
        if (work_wait(&w, 3, 2) && work_copy(&w, 3, 3, 2))
            work_holds(&w, 3, 3, 12, "the end of a chain of streams");
    }
    work_finish(&w);
}

static void wait_diamond(struct check *c, const int64_t *arg)
{
    struct work w;

    if (wait_begin(&w, c, arg) && wait_give(&w, 0, 0, 12, 0) && work_wait_held(&w, 1, 0, 0) &&
        work_wait(&w, 3, 0) && work_copy(&w, 1, 1, 0) && work_copy(&w, 3, 2, 0) &&
        work_record(&w, 1, 1) && work_record(&w, 2, 3) && work_wait(&w, 2, 1) &&
        work_wait(&w, 2, 2) && work_copy(&w, 2, 3, 1) && work_copy(&w, 2, 4, 2) &&
        work_fill(&w, 2, 0, 19)) {
        work_open(&w, 0);
        if (work_holds(&w, 2, 3, 12, "by way of one stream") &&
            work_holds(&w, 2, 4, 12, "by way of the other"))
            work_holds(&w, 2, 0, 19, "written when both had read it");
    }
    work_finish(&w);
}

/* Later work of the event's stream is not waited for. The work before the event takes some time, so
 * that the wait is submitted while it is running. */
static void wait_earlier(struct check *c, const int64_t *arg)
{
    const uint64_t large = UINT64_C(8) << 20;
    struct work w;
    bool ok = wait_begin(&w, c, arg);

    for (int t = 4; t < 7; t++) ok = ok && work_tensor(&w, t, 0, large);
    ok = ok && work_fill(&w, 0, 4, 12) && work_copy(&w, 0, 5, 4) && work_record(&w, 0, 0) &&
         wait_give(&w, 0, 2, 13, 1) && work_wait(&w, 1, 0) && work_copy(&w, 1, 6, 5) &&
         work_sync(&w, 1) && work_holds(&w, 1, 6, 12, "written before what is held");
    if (ok) {
        work_open(&w, 0);
        work_holds(&w, 0, 2, 13, "what was held");
    }
    work_finish(&w);
}

/* A wait refers to the position of the event at the time of the call. */
static void wait_kept(struct check *c, const int64_t *arg)
{
    struct work w;

    if (wait_begin(&w, c, arg) && work_fill(&w, 0, 0, 12) && work_record(&w, 0, 0) &&
        work_wait(&w, 1, 0) && wait_give(&w, 0, 2, 13, 0) && work_copy(&w, 1, 1, 0) &&
        work_sync(&w, 1) && work_holds(&w, 1, 1, 12, "written before what is held")) {
        work_open(&w, 0);
        work_holds(&w, 0, 2, 13, "what was held");
    }
    work_finish(&w);
}

static void recorded_again(struct check *c, const int64_t *arg)
{
    struct work w;

    if (wait_begin(&w, c, arg) && work_record(&w, 0, 0) && work_wait(&w, 1, 0) &&
        wait_give(&w, 0, 0, 12, 0) && work_wait_held(&w, 1, 0, 0) && work_copy(&w, 1, 1, 0) &&
        wait_waits(&w, 0)) {
        work_open(&w, 0);
        work_holds(&w, 1, 1, 12, "written before the event was recorded again");
    }
    work_finish(&w);
}

static void two_sources(struct check *c, const int64_t *arg)
{
    struct work w;

    if (wait_begin(&w, c, arg) && wait_give(&w, 0, 0, 12, 0) && wait_give(&w, 2, 1, 13, 1) &&
        work_wait_held(&w, 1, 0, 0) && work_wait_held(&w, 1, 1, 2) && work_copy(&w, 1, 2, 0) &&
        work_copy(&w, 1, 3, 1)) {
        work_open(&w, 0);
        if (wait_waits(&w, 2)) {
            work_open(&w, 2);
            if (work_holds(&w, 1, 2, 12, "of the first source"))
                work_holds(&w, 1, 3, 13, "of the second");
        }
    }
    work_finish(&w);
}

static void source_destroyed(struct check *c, const int64_t *arg)
{
    struct work w;

    if (wait_begin(&w, c, arg) && wait_give(&w, 0, 0, 12, 0)) {
        work_leave(&w, 0);
        if (work_wait_held(&w, 1, 0, 0) && work_copy(&w, 1, 1, 0) && wait_waits(&w, 0)) {
            work_open(&w, 0);
            work_holds(&w, 1, 1, 12, "written by a stream that was destroyed");
        }
    }
    work_finish(&w);
}

static void target_destroyed(struct check *c, const int64_t *arg)
{
    struct work w;

    if (wait_begin(&w, c, arg) && wait_give(&w, 0, 0, 12, 0) && work_wait_held(&w, 1, 0, 0) &&
        work_copy(&w, 1, 1, 0) && work_record(&w, 1, 1)) {
        work_leave(&w, 1);
        work_pause(&w, 1);
        work_open(&w, 0);
        if (check_ok(c, bp_device_synchronize(w.device), "bp_device_synchronize"))
            work_holds(&w, 3, 1, 12, "read by a stream that was destroyed");
    }
    work_finish(&w);
}

/* A waiting stream is destroyed; the stream created after it does not wait. */
static void target_new(struct check *c, const int64_t *arg)
{
    struct work w;

    if (wait_begin(&w, c, arg) && wait_give(&w, 0, 0, 12, 0) && work_wait_held(&w, 1, 0, 0) &&
        work_copy(&w, 1, 1, 0)) {
        work_leave(&w, 1);
        if (work_stream(&w, 1, arg[1]) && work_fill(&w, 1, 2, 14) && work_sync(&w, 1) &&
            work_holds(&w, 1, 2, 14, "on a new stream")) {
            work_open(&w, 0);
            if (check_ok(c, bp_device_synchronize(w.device), "bp_device_synchronize"))
                work_holds(&w, 3, 1, 12, "read by a stream that was destroyed");
        }
    }
    work_finish(&w);
}

static void wait_own(struct check *c, const int64_t *arg)
{
    struct work w;

    if (wait_begin(&w, c, arg) && wait_give(&w, 0, 0, 12, 0) && work_wait(&w, 0, 0) &&
        work_copy(&w, 0, 1, 0) && work_record(&w, 1, 0)) {
        work_open(&w, 0);
        if (work_wait(&w, 1, 1)) work_holds(&w, 1, 1, 12, "after a wait for its own event");
    }
    work_finish(&w);
}

static void wait_mutual(struct check *c, const int64_t *arg)
{
    struct work w;

    if (wait_begin(&w, c, arg) && work_fill(&w, 0, 0, 12) && work_record(&w, 0, 0) &&
        work_fill(&w, 1, 1, 13) && work_record(&w, 1, 1) && work_wait(&w, 0, 1) &&
        work_wait(&w, 1, 0) && work_copy(&w, 0, 2, 1) && work_copy(&w, 1, 3, 0) &&
        work_holds(&w, 0, 2, 13, "of the second stream"))
        work_holds(&w, 1, 3, 12, "of the first stream");
    work_finish(&w);
}

static void to_and_fro(struct check *c, const int64_t *arg)
{
    struct work w;
    bool ok = wait_begin(&w, c, arg);

    for (int i = 0; ok && i < 60; i++)
        ok = work_fill(&w, 0, 0, i) && work_record(&w, 0, 0) && work_wait(&w, 1, 0) &&
             work_copy(&w, 1, 1, 0) && work_record(&w, 1, 1) && work_wait(&w, 0, 1) &&
             work_fill(&w, 0, 0, 99) &&
             (i % 20 || work_holds(&w, 1, 1, i, "read between two writes of another stream"));
    work_finish(&w);
}

/* The host has waited for one position of the event; a later wait refers to the new position. */
static void after_host(struct check *c, const int64_t *arg)
{
    struct work w;

    if (wait_begin(&w, c, arg) && work_fill(&w, 0, 0, 11) && work_record(&w, 0, 0) &&
        check_ok(c, bp_event_wait(w.event[0], UINT64_MAX), "bp_event_wait") &&
        work_fill(&w, 0, 0, 12) && work_record(&w, 0, 0) && work_wait(&w, 1, 0) &&
        work_copy(&w, 1, 1, 0))
        work_holds(&w, 1, 1, 12, "written after what the host waited for");
    work_finish(&w);
}

static uint64_t wait_blocked(struct work *w)
{
    uint64_t n = 0;

    for (uint32_t r = 0; r < BP_BLOCK_COUNT; r++) n += bp_device_blocked(w->device, r);
    return n;
}

/* A wait of an inline stream for held work is counted once. A wait for work that has ended, or a
 * wait of an asynchronous stream, is not counted. */
static void wait_counted(struct check *c, const int64_t *arg)
{
    struct work w;
    uint64_t before, after;
    bool waited;

    if (wait_begin(&w, c, arg) && work_record(&w, 1, 0) && work_sync(&w, 0)) {
        before = wait_blocked(&w);
        if (work_wait(&w, 1, 1) && wait_give(&w, 0, 0, 12, 0) && work_wait_held(&w, 1, 0, 0)) {
            waited = w.gate[0].firm && bp_stream_get_flags(w.stream[1]) == BP_STREAM_INLINE;
            after = bp_device_blocked(w.device, BP_BLOCK_INLINE_WAIT);
            check_that(c, !w.gate[0].firm || wait_blocked(&w) == before + waited,
                       "%u waits were counted, expected %u", (unsigned)(wait_blocked(&w) - before),
                       waited);
            check_that(c, !waited || after, "the wait was not counted as BP_BLOCK_INLINE_WAIT");
        }
    }
    work_finish(&w);
}

const struct check_kinds suite_runtime_wait[] = {
    {"wait/forward", wait_forward, 2},
    {"wait/back", wait_back, 2},
    {"wait/last-work", last_work, 2},
    {"wait/of-callback", of_callback, 2},
    {"wait/chain", wait_chain, 2},
    {"wait/diamond", wait_diamond, 2},
    {"wait/earlier", wait_earlier, 2},
    {"wait/kept", wait_kept, 2},
    {"wait/recorded-again", recorded_again, 2},
    {"wait/two-sources", two_sources, 2},
    {"wait/source-destroyed", source_destroyed, 2},
    {"wait/target-destroyed", target_destroyed, 2},
    {"wait/target-new", target_new, 2},
    {"wait/own", wait_own, 2},
    {"wait/mutual", wait_mutual, 2},
    {"wait/to-and-fro", to_and_fro, 2},
    {"wait/after-host", after_host, 2},
    {"wait/counted", wait_counted, 2},
    {NULL, NULL, 0},
};
