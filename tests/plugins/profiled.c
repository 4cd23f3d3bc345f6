/* SPDX-License-Identifier: Apache-2.0 */
/* profiled.c: wraps another plugin as one with a profiler, whose clock, results and records a test
 * controls. It makes a record of each call that the core tags: from the tag until its reset, so
 * that the record encloses the call.
 *
 * PROFILED_LACKS is a callback that is missing: start, stop or range_end. With PROFILED_OLD the
 * table ends before the member mark, as in plugins that were built before it existed. */
#include "profiled.h"

#include <backplane/plugin.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <time.h>

enum {
    STREAMS = 64
};

static void clock_set_rate(double rate);
static uint64_t clock_now(void);
static void sink_hand_over(const struct bp_record *first, size_t count, size_t stride);

__attribute__((visibility("default"))) struct profiled profiled = {.rate = 1,
                                                                   .kind = PROFILED_WORK,
                                                                   .set_rate = clock_set_rate,
                                                                   .now = clock_now,
                                                                   .put = sink_hand_over};

static struct bp_plugin plugin;
static const struct bp_host *host;
static enum bp_status (*create)(const struct bp_host *host, void **out_self);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below */
static const struct bp_record_sink *sink;
static bool on;
static struct {
    void *stream;
    uint64_t last; /* tag */
} streams[STREAMS];
static uint32_t n_stream;
static bool clock_runs;
static uint64_t clock_host, clock_shown; /* a point of the clock's line */

static _Thread_local struct bp_record current; /* tag 0: there is none */

/* ---- the clock ---- */

static uint64_t clock_of_host(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint64_t clock_now_locked(void)
{
    uint64_t now = clock_of_host();

    if (!clock_runs) {
        clock_runs = true;
        clock_host = now;
        clock_shown = profiled.offset_ns;
    }
    return clock_shown + (uint64_t)((double)(now - clock_host) * profiled.rate);
}

static uint64_t clock_now(void)
{
    pthread_mutex_lock(&lock);
    uint64_t now = clock_now_locked();
    pthread_mutex_unlock(&lock);
    return now;
}

static void clock_set_rate(double rate)
{
    pthread_mutex_lock(&lock);
    clock_shown = clock_now_locked();
    clock_host = clock_of_host();
    profiled.rate = rate;
    pthread_mutex_unlock(&lock);
}

/* ---- the interface ---- */

static void sink_hand_over(const struct bp_record *first, size_t count, size_t stride)
{
    pthread_mutex_lock(&lock);
    if (sink) sink->put(sink->ctx, first, count, stride);
    pthread_mutex_unlock(&lock);
}

static enum bp_status profiled_start(void *self, uint32_t device, const struct bp_record_sink *to)
{
    (void)self, (void)device;
    atomic_fetch_add(&profiled.starts, 1);
    if (profiled.start_status && profiled.start_reason)
        return bp_fail(host, profiled.start_status, "%s", profiled.start_reason);
    if (profiled.start_status) return profiled.start_status;
    pthread_mutex_lock(&lock);
    sink = to;
    on = true;
    pthread_mutex_unlock(&lock);
    return BP_OK;
}

static void profiled_stop(void *self, uint32_t device)
{
    (void)self, (void)device;
    pthread_mutex_lock(&lock);
    on = false;
    pthread_mutex_unlock(&lock);
    atomic_fetch_add(&profiled.stops, 1);
}

static enum bp_status profiled_flush(void *self, uint32_t device)
{
    (void)self, (void)device;
    atomic_fetch_add(&profiled.flushes, 1);
    return BP_OK;
}

static enum bp_status profiled_clock(void *self, uint32_t device, uint64_t *out_ns)
{
    (void)self, (void)device;
    atomic_fetch_add(&profiled.readings, 1);
    *out_ns = clock_now();
    return profiled.clock_status;
}

/* Whether the tag is larger than all that the stream has had. Called with the lock. */
static bool tag_rises(void *stream, uint64_t tag)
{
    uint32_t i = 0;

    while (i < n_stream && streams[i].stream != stream) i++;
    if (i == STREAMS) return true;
    if (i == n_stream) streams[n_stream++].stream = stream;
    bool rises = tag > streams[i].last;
    streams[i].last = tag;
    return rises;
}

static void profiled_tag(void *self, uint32_t device, void *stream, uint64_t tag)
{
    (void)self, (void)device;
    pthread_mutex_lock(&lock);
    if (tag) {
        atomic_fetch_add(&profiled.tags, 1);
        if (!on || current.tag || !tag_rises(stream, tag)) atomic_fetch_add(&profiled.faults, 1);
        current = (struct bp_record){.begin_ns = clock_now_locked(),
                                     .tag = tag,
                                     .stream = stream,
                                     .name = "work",
                                     .bytes = tag,
                                     .kind = atomic_load(&profiled.kind)};
    } else {
        if (!current.tag || current.stream != stream) atomic_fetch_add(&profiled.faults, 1);
        current.end_ns = clock_now_locked();
        if (on && sink) sink->put(sink->ctx, &current, 1, sizeof current);
        current.tag = 0;
    }
    pthread_mutex_unlock(&lock);
}

static void profiled_range_begin(void *self, const char *name)
{
    (void)self;
    pthread_mutex_lock(&lock);
    snprintf(profiled.range, sizeof profiled.range, "%s", name);
    pthread_mutex_unlock(&lock);
    atomic_fetch_add(&profiled.begun, 1);
}

static void profiled_range_end(void *self)
{
    (void)self;
    atomic_fetch_add(&profiled.ended, 1);
}

static void profiled_mark(void *self, const char *name)
{
    (void)self;
    pthread_mutex_lock(&lock);
    snprintf(profiled.mark, sizeof profiled.mark, "%s", name);
    pthread_mutex_unlock(&lock);
    atomic_fetch_add(&profiled.marks, 1);
}

static const char *const kinds[] = {"rest", "work"};

static struct bp_profilers profilers = {
    .size = sizeof profilers,
    .start = profiled_start,
    .stop = profiled_stop,
    .flush = profiled_flush,
    .clock = profiled_clock,
    .tag = profiled_tag,
    .range_begin = profiled_range_begin,
    .range_end = profiled_range_end,
    .kind = kinds,
    .n_kind = sizeof kinds / sizeof *kinds,
    .mark = profiled_mark,
};

static enum bp_status profiled_create(const struct bp_host *from, void **out_self)
{
    host = from;
    return create(from, out_self);
}

const struct bp_plugin *bp_plugin_get(void)
{
    void *library = dlopen(WRAPPED_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    const struct bp_plugin *(*get)(void);

    if (!library) return NULL;
    *(void **)&get = dlsym(library, "bp_plugin_get");
    plugin = *get();
    create = plugin.create;
    plugin.create = profiled_create;
#ifdef PROFILED_OLD
    profilers.size = offsetof(struct bp_profilers, mark); /* as in the headers before marks */
#endif
#ifdef PROFILED_LACKS
    profilers.PROFILED_LACKS = NULL;
#endif
    plugin.name = plugin.kind = "profiled";
    plugin.profiler = &profilers;
    return &plugin;
}
