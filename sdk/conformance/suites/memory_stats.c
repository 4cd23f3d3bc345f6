/* SPDX-License-Identifier: Apache-2.0 */
/* memory_stats.c: checks the allocator's statistics at each step, its limit, and its attempts
 * before it reports that memory is exhausted. Each case opens its own device, so that the
 * statistics begin at 0. */
#include "suites.h"
#include <ops/common/cases_random.h>
#include "async_fixture.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KIB = 1024, MIB = 1 << 20 };

/* Creates streams 0 to 2: two of the default kind and an asynchronous one. */
static bool stats_begin(struct work *w, struct check *c, const char *limit)
{
    return work_init_own(w, c, limit) && work_stream(w, 0, 0) && work_stream(w, 1, 0) &&
           work_stream(w, 2, BP_STREAM_ASYNC);
}

static bool is_u64(struct work *w, uint64_t got, uint64_t want, const char *what)
{
    return check_that(w->c, got == want, "%s is %" PRIu64 ", expected %" PRIu64, what, got, want);
}

/* Creates and destroys random tensors, and compares the statistics with sums that the case
 * computes. */
static void stats_steps(struct check *c, const int64_t *arg)
{
    struct random r = random_of(c->id, 0);
    struct bp_memory_stats s;
    uint64_t sum = 0, live = 0, made = 0, peak = 0;
    struct work w;
    bool ok = stats_begin(&w, c, NULL);

    (void)arg;
    for (int i = 0; ok && i < 400; i++) {
        int t = (int)random_below(&r, WORK_TENSORS), owner = (int)random_below(&r, 4) - 1;
        if (w.tensor[t]) {
            work_drop(&w, t);
            sum -= w.bytes[t];
            live--;
        } else {
            ok = work_tensor(&w, t, owner, 8 * random_below(&r, i % 9 ? 3000 : 60000));
            sum += w.bytes[t];
            live++, made++;
        }
        if (peak < sum) peak = sum;
        ok = ok && work_stats(&w, &s) && is_u64(&w, s.allocated, sum, "allocated") &&
             is_u64(&w, s.live, live, "live") && is_u64(&w, s.allocations, made, "allocations") &&
             is_u64(&w, s.pending, 0, "pending, without any work,") &&
             check_that(c, s.peak >= peak, "peak is %" PRIu64 ", below the true one of %" PRIu64,
                        s.peak, peak);
    }
    work_finish(&w);
}

/* The same while work on one stream is held; afterwards the gate is opened. */
static void steps_held(struct check *c, const int64_t *arg)
{
    struct random r = random_of(c->id, 0);
    struct bp_memory_stats s;
    struct work w;
    bool ok = stats_begin(&w, c, NULL) && work_tensor(&w, 0, WORK_HOST, 64 * KIB) &&
              work_shut(&w, 2);

    (void)arg;
    for (int i = 0; ok && i < 60; i++) {
        int t = 1 + (int)random_below(&r, WORK_TENSORS - 1);
        int owner = (int)random_below(&r, 4) - 1;
        if (w.tensor[t]) work_drop(&w, t);
        else
            ok = work_tensor(&w, t, owner, 64 * KIB) &&
                 (owner == 0 || work_copy(&w, 2, i % 2 ? 0 : t, i % 2 ? t : 0));
        ok = ok && work_stats(&w, &s);
    }
    work_open(&w, 2);
    if (ok && work_sync(&w, 2) && work_stats(&w, &s)) is_u64(&w, s.pending, 0, "pending");
    work_finish(&w);
}

static void stats_peak(struct check *c, const int64_t *arg)
{
    struct bp_memory_stats s;
    struct work w;

    (void)arg;
    if (stats_begin(&w, c, NULL) && work_tensor(&w, 0, 0, 1000) && work_tensor(&w, 1, 0, 2000)) {
        work_drop(&w, 0);
        work_drop(&w, 1);
        if (work_tensor(&w, 2, 0, 504) && work_stats(&w, &s) && is_u64(&w, s.peak, 3000, "peak"))
            is_u64(&w, s.allocated, 504, "allocated");
    }
    work_finish(&w);
}

static void one_size(struct check *c, const int64_t *arg)
{
    struct bp_memory_stats s;
    struct work w;
    bool ok = stats_begin(&w, c, NULL);

    (void)arg;
    for (int i = 0; ok && i < 1000; i++) {
        ok = work_tensor(&w, 0, 0, 4096);
        work_drop(&w, 0);
    }
    if (ok && work_stats(&w, &s) && is_u64(&w, s.segments_ever, 1, "segments_ever") &&
        is_u64(&w, s.allocations, 1000, "allocations") &&
        is_u64(&w, s.from_segments, 1, "from_segments"))
        is_u64(&w, s.hits, 999, "hits");
    work_finish(&w);
}

static void stats_nothing(struct check *c, const int64_t *arg)
{
    struct bp_memory_stats s;
    struct work w;

    (void)arg;
    if (stats_begin(&w, c, NULL) && work_tensor(&w, 0, 0, 0) && work_stats(&w, &s) &&
        is_u64(&w, s.live, 1, "live") && is_u64(&w, s.reserved, 0, "reserved")) {
        work_drop(&w, 0);
        if (work_stats(&w, &s)) is_u64(&w, s.live, 0, "live");
    }
    work_finish(&w);
}

static void by_stream(struct check *c, const int64_t *arg)
{
    static const uint64_t bytes[] = {1000, 2000, 4000};
    struct work w;
    bool ok = stats_begin(&w, c, NULL);

    (void)arg;
    for (int i = 0; ok && i < 3; i++) ok = work_tensor(&w, i, i, bytes[i]);
    for (int i = 0; ok && i < 3; i++) {
        bool found = false;
        for (uint32_t p = 0; ok && p < bp_device_pools(w.device); p++) {
            struct bp_pool_stats s = {.size = sizeof s};
            ok = check_ok(c, bp_device_pool(w.device, p, &s), "bp_device_pool");
            if (s.stream != bp_stream_number(w.stream[i]) || s.space != BP_SPACE_DEVICE) continue;
            found = true;
            ok = ok && is_u64(&w, s.allocated, bytes[i], "allocated of a stream") &&
                 is_u64(&w, s.peak, bytes[i], "its peak") && is_u64(&w, s.live, 1, "its live");
        }
        ok = ok && check_that(c, found, "stream %u has no pool", bp_stream_number(w.stream[i]));
    }
    work_finish(&w);
}

/* Three streams allocate a tensor in turn, and each frees it before the next one allocates. The
 * memory must pass between them through the device's common pool: the device creates no second
 * segment, and each tensor holds the data that its stream wrote. */
static void stats_lent(struct check *c, const int64_t *arg)
{
    struct bp_memory_stats s;
    struct work w;
    bool ok = stats_begin(&w, c, NULL);

    (void)arg;
    for (int i = 0; ok && i < 6; i++) {
        ok = work_tensor(&w, 0, i % 3, MIB) && work_fill(&w, i % 3, 0, i) &&
             work_stats(&w, &s) && is_u64(&w, s.segments_ever, 1, "segments_ever") &&
             work_holds(&w, i % 3, 0, i, "memory that streams hand on") && work_sync(&w, i % 3);
        work_drop(&w, 0);
        ok = ok && work_stats(&w, &s) && is_u64(&w, s.allocated, 0, "allocated");
    }
    work_finish(&w);
}

static void stats_trim(struct check *c, const int64_t *arg)
{
    struct bp_memory_stats s;
    struct work w;

    (void)arg;
    if (stats_begin(&w, c, NULL) && work_tensor(&w, 0, 0, 3 * MIB) && work_tensor(&w, 1, 1, 1000) &&
        work_tensor(&w, 2, WORK_HOST, 1000) && work_fill(&w, 1, 1, 3)) {
        work_drop(&w, 0);
        if (check_ok(c, bp_device_synchronize(w.device), "bp_device_synchronize") &&
            check_ok(c, bp_device_trim(w.device), "bp_device_trim") && work_stats(&w, &s) &&
            check_that(c, s.reserved < 6 * MIB && s.segments == 2, "trim left %u segments",
                       (unsigned)s.segments) &&
            work_holds(&w, 1, 1, 3, "a tensor that lives through trim")) {
            work_drop(&w, 1);
            work_drop(&w, 2);
            if (check_ok(c, bp_device_synchronize(w.device), "bp_device_synchronize") &&
                check_ok(c, bp_device_trim(w.device), "bp_device_trim") && work_stats(&w, &s))
                is_u64(&w, s.reserved + s.segments, 0, "reserved after all was trimmed");
        }
    }
    work_finish(&w);
}

static bool is_refused(struct work *w, int owner, uint64_t bytes)
{
    struct bp_buffer *none = NULL;
    enum bp_status status =
        bp_buffer_create(w->device, owner < 0 ? NULL : w->stream[owner], 0, bytes, &none);

    return check_fails(w->c, status, BP_ERR_MEMORY, "bp_buffer_create of more than there is") &&
           check_that(w->c, !none, "a failed bp_buffer_create wrote its out parameter");
}

static bool message_has(struct work *w, const char *before, uint64_t number)
{
    char text[64];

    snprintf(text, sizeof text, "%s %" PRIu64, before, number);
    return check_that(w->c, strstr(bp_error_message(), text) != NULL,
                      "the message does not say '%s': %s", text, bp_error_message());
}

static void stats_refused(struct check *c, const int64_t *arg)
{
    struct bp_memory_stats s;
    struct work w;

    (void)arg;
    if (stats_begin(&w, c, "1M") && work_tensor(&w, 0, 0, 512 * KIB) &&
        work_tensor(&w, 1, WORK_HOST, 100 * KIB) && work_fill(&w, 0, 0, 4) &&
        is_refused(&w, 0, 768 * KIB) && message_has(&w, "asked for", 768 * KIB) &&
        message_has(&w, "allocated", 612 * KIB) && message_has(&w, "pending", 0) &&
        message_has(&w, "largest", 0) && work_stats(&w, &s) &&
        is_u64(&w, s.failures, 1, "failures") && is_u64(&w, s.limit, MIB, "limit") &&
        is_u64(&w, s.allocated, 612 * KIB, "allocated"))
        work_holds(&w, 0, 0, 4, "a tensor made before the failure");
    work_finish(&w);
}

/* Allocates more than the limit in total, but never at the same time. */
static void stats_again(struct check *c, const int64_t *arg)
{
    struct bp_memory_stats s;
    struct work w;
    bool ok = stats_begin(&w, c, "1M");

    (void)arg;
    for (int i = 0; ok && i < 20; i++) {
        ok = work_tensor(&w, 0, i % 4 - 1, 700 * KIB);
        work_drop(&w, 0);
        ok = ok && check_ok(c, bp_device_synchronize(w.device), "bp_device_synchronize") &&
             (i % 2 || check_ok(c, bp_device_trim(w.device), "bp_device_trim")) &&
             work_stats(&w, &s);
    }
    work_finish(&w);
}

/* Allocates all of a segment, first as several tensors, then as a single one. */
static void stats_merge(struct check *c, const int64_t *arg)
{
    struct bp_memory_stats s;
    struct work w;
    bool ok = stats_begin(&w, c, "2M");
    static const int step[] = {1, 5, 7, 11};

    (void)arg;
    for (int round = 0; ok && round < 4; round++) {
        for (int i = 0; ok && i < WORK_TENSORS; i++) ok = work_tensor(&w, i, 0, 160 * KIB);
        for (int i = 0; i < WORK_TENSORS; i++) work_drop(&w, i * step[round] % WORK_TENSORS);
        ok = ok && work_tensor(&w, 0, 0, 1900 * KIB) && work_stats(&w, &s) &&
             is_u64(&w, s.segments_ever, 1, "segments_ever");
        work_drop(&w, 0);
    }
    work_finish(&w);
}

/* Segments that are too small are freed so that a larger one can be allocated. */
static void stats_released(struct check *c, const int64_t *arg)
{
    struct bp_memory_stats s;
    struct work w;
    bool ok = true;

    (void)arg;
    for (int own = 0; ok && own < 2; own++) {
        ok = stats_begin(&w, c, "4352K") && work_tensor(&w, 0, 0, 1900 * KIB) &&
             work_tensor(&w, 1, own ? 0 : 1, 1900 * KIB);
        if (ok) {
            work_drop(&w, 0);
            work_drop(&w, 1);
            ok = work_tensor(&w, 2, 0, 4 * MIB) && work_stats(&w, &s) &&
                 is_u64(&w, s.after_release, 1, "after_release");
        }
        work_finish(&w);
    }
}

/* All memory is used by held work. As its last resort the host waits for this work, and the wait is
 * counted. */
static void stats_waits(struct check *c, const int64_t *arg)
{
    struct bp_memory_stats s;
    struct work w;

    (void)arg;
    if (stats_begin(&w, c, "800K") && work_tensor(&w, 0, WORK_HOST, 300 * KIB) &&
        work_tensor(&w, 1, WORK_HOST, 300 * KIB) && work_fill(&w, 0, 0, 1) && work_sync(&w, 0) &&
        work_shut(&w, 2) && work_copy(&w, 2, 1, 0)) {
        work_drop(&w, 0);
        if (work_open_soon(&w, 1 << 2) && work_tensor(&w, 3, WORK_HOST, 350 * KIB) &&
            work_was_opened(&w, "an allocation that only waiting makes possible") &&
            work_stats(&w, &s) && work_holds(&w, 2, 1, 1, "the copy"))
            check_that(c, !w.gate[2].firm || (s.after_wait == 1 &&
                                              bp_device_blocked(w.device, BP_BLOCK_MEMORY) == 1),
                       "the wait was counted %u times among the paths, %u times among the waits",
                       (unsigned)s.after_wait,
                       (unsigned)bp_device_blocked(w.device, BP_BLOCK_MEMORY));
    }
    work_finish(&w);
}

/* Free blocks of one size, and a request for slightly more. */
static void stats_nearly(struct check *c, const int64_t *arg)
{
    enum { BYTES = 160 * KIB, LAST = WORK_TENSORS - 1 };
    struct work w;
    bool ok = stats_begin(&w, c, "2M");

    (void)arg;
    if (c->fixture->properties.alignment > 4096) {
        check_unsupported(c, "the alignment of memory is coarser than the sizes of this case");
        ok = false;
    }
    for (int i = 0; ok && i <= LAST; i++)
        ok = work_tensor(&w, i, 0, BYTES) && work_fill(&w, 0, i, i);
    for (int i = 1; i < LAST; i += 2) work_drop(&w, i);
    ok = ok && is_refused(&w, 0, BYTES + 8);
    for (int i = 1; ok && i < LAST; i += 2)
        ok = work_tensor(&w, i, 0, BYTES) && work_fill(&w, 0, i, 50 + i);
    for (int i = 0; ok && i < LAST; i++)
        ok = work_holds(&w, 0, i, i % 2 ? 50 + i : i, "a tensor between two others");
    work_finish(&w);
}

/* The contents of tensors are unchanged while their neighbours are destroyed and created. */
static void stats_neighbours(struct check *c, const int64_t *arg)
{
    static const int n[] = {16, 1, 2, 3, 7, 15, 17, 63, 64, 65, 100, 255};
    struct work w;
    bool ok = stats_begin(&w, c, NULL);

    (void)arg;
    for (size_t k = 0; ok && k < sizeof n / sizeof *n; k++) {
        uint64_t bytes = 256 * (uint64_t)n[k];
        for (int i = 0; ok && i < 5; i++)
            ok = work_tensor(&w, i, 0, bytes) && work_fill(&w, 0, i, i);
        for (int i = 0; i < 5; i += 2) work_drop(&w, i);
        for (int i = 5; ok && i < 9; i++)
            ok = work_tensor(&w, i, 0, 2 * bytes - 8) && work_fill(&w, 0, i, i);
        for (int i = 1; ok && i < 9; i++)
            ok = !w.tensor[i] || work_holds(&w, 0, i, i, "a neighbour");
        for (int i = 0; i < 9; i++) work_drop(&w, i);
    }
    work_finish(&w);
}

/* A live tensor keeps its device open; opening the device again finds it. */
static void keeps_device(struct check *c, const int64_t *arg)
{
    uint32_t plugin, index;
    struct work w;

    (void)arg;
    if (stats_begin(&w, c, NULL) && work_tensor(&w, 0, WORK_HOST, 4096) && work_fill(&w, 0, 0, 6) &&
        work_sync(&w, 0)) {
        index = (uint32_t)strtoul(strchr(bp_device_name(w.device), ':') + 1, NULL, 10);
        for (int i = 0; i < 3; i++) work_leave(&w, i);
        bp_device_destroy(w.device);
        w.device = NULL;
        if (check_ok(c, bp_core_load_path(w.core, c->fixture->library, &plugin),
                     "bp_core_load_path") &&
            check_ok(c, bp_device_create_at(w.core, plugin, index, &w.device),
                     "bp_device_create_at") &&
            work_stream(&w, 0, 0))
            work_holds(&w, 0, 0, 6, "a tensor that outlived the handle of its device");
    }
    work_finish(&w);
}

const struct check_case suite_memory_stats[] = {
    {"stats/steps", stats_steps},
    {"stats/steps-held", steps_held},
    {"stats/peak", stats_peak},
    {"stats/one-size", one_size},
    {"stats/nothing", stats_nothing},
    {"stats/by-stream", by_stream},
    {"stats/lent", stats_lent},
    {"stats/trim", stats_trim},
    {"limit/refused", stats_refused},
    {"limit/again", stats_again},
    {"limit/merge", stats_merge},
    {"limit/released", stats_released},
    {"limit/waits", stats_waits},
    {"limit/nearly", stats_nearly},
    {"heap/neighbours", stats_neighbours},
    {"device/kept", keeps_device},
    {NULL, NULL},
};
