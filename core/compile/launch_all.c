/* SPDX-License-Identifier: Apache-2.0 */
/* launch_all.c: runs the launches of a schedule one after the other, on an inline stream. */
#include "schedule.h"

#include "../base/generator.h"
#include "../call/fallback.h"

#include <time.h>

static uint64_t schedule_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Returns the failure of a launch, with the name of its node. */
static __attribute__((noinline)) enum bp_status
launch_explain(const struct bp_schedule *s, const struct bp_scheduled_launch *from,
               struct bp_timeline *timeline, enum bp_status status)
{
    const struct bp_kernel *kernel = from->step->kernel;

    if (status == BP_OK) {
        status = bp_fault_report(timeline, kernel);
    } else {
        timeline->fault = 0; /* the status is more specific */
        status = bp_device_leave(s->device, status, kernel->name);
        bp_error_set_kernel(kernel->name);
    }
    return bp_error_more(status, "node %s: %s", s->ir->node[from->node].call.name,
                         bp_error_message());
}

static __attribute__((noinline)) enum bp_status
launch_cancelled(const struct bp_schedule *s, const struct bp_scheduled_launch *from,
                 struct bp_timeline *timeline)
{
    enum bp_status status = bp_timeline_error_cancelled(timeline);

    return bp_error_more(status, "node %s: %s", s->ir->node[from->node].call.name,
                         bp_error_message());
}

/* Launches a fallback step, which is counted, or a step of a random operator. */
static __attribute__((noinline)) enum bp_status
launch_special(const struct bp_schedule *s, const struct bp_scheduled_launch *from,
               struct bp_launch *l, struct bp_stream *stream, const uint64_t random[2])
{
    uint64_t began = schedule_now_ns();
    enum bp_status status;

    if (from->prepared->row->random) {
        l->seed = random[0];
        l->offset = random[1] + from->random_at;
    }
    status = l->kernel->launch(l);
    if (from->step->kind && status == BP_OK && !stream->timeline->fault)
        bp_fallback_count(s->device, from->prepared->row, from->step->kind, from->bytes,
                          schedule_now_ns() - began);
    return status;
}

/* Launches like launch_list, and calls the watcher after a launch that did not fail. */
static __attribute__((noinline)) enum bp_status
launch_watched(const struct bp_schedule *s, uint32_t n, struct bp_launch *l,
               struct bp_stream *stream, const uint64_t random[2],
               const struct bp_schedule_watch *watch)
{
    const struct bp_scheduled_launch *from = &s->launch[n];
    struct bp_launch_info info = {.size = sizeof info};
    struct bp_watched_launch seen = {.size = sizeof seen, .program = watch->program, .launch = n,
                                     .info = &info, .device = s->device, .in = l->in,
                                     .out = l->out};
    uint64_t began = schedule_now_ns();
    enum bp_status status = from->is_special ? launch_special(s, from, l, stream, random)
                                             : l->kernel->launch(l);

    seen.ns = schedule_now_ns() - began;
    if (status != BP_OK || stream->timeline->fault) return status;
    bp_schedule_describe(s, n, &info);
    watch->watcher(watch->ctx, &seen);
    return BP_OK;
}

static enum bp_status launch_list(const struct bp_schedule *s, struct bp_schedule_context *c,
                                  struct bp_stream *stream, uint64_t number,
                                  const struct bp_schedule_watch *watch)
{
    struct bp_timeline *timeline = stream->timeline;
    uint64_t random[2] = {0, 0}; /* the seed, and the first block of the run */

    if (s->ir->random_blocks)
        bp_generator_reserve(stream->generator ? stream->generator : s->device->core->generator,
                             s->ir->random_blocks, &random[0], &random[1]);
    for (uint32_t n = 0; n < s->n_launch; n++) {
        const struct bp_scheduled_launch *from = &s->launch[n];
        struct bp_launch *l = &c->launch[n];
        enum bp_status status;
        if (__builtin_expect(bp_process_is_stopping(), 0)) return bp_error_stopped();
        if (__builtin_expect(bp_stream_is_cancelled(stream), 0))
            return launch_cancelled(s, from, timeline);
        l->tag = number;
        if (__builtin_expect(watch->watcher != NULL, 0))
            status = launch_watched(s, n, l, stream, random, watch);
        else
            status = from->is_special ? launch_special(s, from, l, stream, random)
                                      : l->kernel->launch(l);
        if (__builtin_expect(status != BP_OK || timeline->fault != 0, 0))
            return launch_explain(s, from, timeline, status);
    }
    return BP_OK;
}

enum bp_status bp_schedule_launch(const struct bp_schedule *s, struct bp_schedule_context *c,
                                  struct bp_stream *stream, const struct bp_schedule_watch *watch)
{
    struct bp_timeline *timeline = stream->timeline;
    uint64_t number = bp_work_begin_unnamed(timeline);
    enum bp_status status = launch_list(s, c, stream, number, watch);

    bp_work_end(timeline, number);
    return status;
}
