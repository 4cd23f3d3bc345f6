/* SPDX-License-Identifier: Apache-2.0 */
/* launch_all.c: runs the launches of a schedule one after the other, puts them into a queue as one
 * task, or submits them to a stream of the plugin. */
#include "schedule.h"

#include "../base/clock.h"
#include "../base/generator.h"
#include "../call/fallback.h"
#include "../call/profile_launch.h"
#include "../exec/capture.h"

#include <stdlib.h>
#include <string.h>

/* Returns the failure of a launch, with the name of its node. */
static __attribute__((noinline)) enum bp_status
launch_explain(const struct bp_schedule *s, const struct bp_scheduled_launch *from,
               struct bp_timeline *timeline, enum bp_status status)
{
    const struct bp_kernel *kernel = from->step->kernel;

    if (!kernel) {
        timeline->fault = 0; /* the status has its message */
    } else if (status == BP_OK) {
        status = bp_fault_report(timeline, kernel);
    } else {
        timeline->fault = 0; /* the status is more specific */
        status = bp_kernel_leave(s->device, status, kernel);
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

/* Launches a fallback step, which is counted, or a step without a kernel. A captured one is counted
 * when it is replayed. */
static __attribute__((noinline)) enum bp_status
launch_special(const struct bp_schedule *s, const struct bp_scheduled_launch *from,
               struct bp_launch *l, struct bp_timeline *timeline)
{
    const struct bp_opdef *row = from->prepared->row;
    uint64_t began = bp_clock_ns();
    enum bp_status status = from->step->kernel ? l->kernel->launch(l)
                                               : bp_launch_other(s->device, from, l);

    if (status != BP_OK || timeline->fault || !from->step->kind) return status;
    if (timeline->recording)
        bp_capture_count_fallback(timeline->recording, row, from->step->kind, from->bytes);
    else
        bp_fallback_count(s->device, row, from->step->kind, from->bytes,
                          bp_clock_ns() - began);
    return BP_OK;
}

static inline enum bp_status launch_one(const struct bp_schedule *s,
                                        const struct bp_scheduled_launch *from,
                                        struct bp_launch *l, struct bp_timeline *timeline)
{
    return __builtin_expect(from->is_special, 0) ? launch_special(s, from, l, timeline)
                                                 : l->kernel->launch(l);
}

/* Shows launch n to the watcher, after it has run. */
static void launch_show(const struct bp_schedule *s, uint32_t n, const struct bp_launch *l,
                        uint64_t ns, const struct bp_schedule_watch *watch)
{
    struct bp_launch_info info = {.size = sizeof info};
    struct bp_watched_launch seen = {.size = sizeof seen, .program = watch->program, .launch = n,
                                     .info = &info, .device = s->device, .in = l->in,
                                     .out = l->out, .ns = ns};

    bp_schedule_describe(s, n, &info);
    watch->watcher(watch->ctx, &seen);
}

/* Launches like launch_one, and records the launch in a profile. */
static __attribute__((noinline)) enum bp_status
launch_profiled(const struct bp_schedule *s, const struct bp_scheduled_launch *from,
                struct bp_launch *l, struct bp_timeline *timeline)
{
    uint64_t began = bp_work_profile_begin(timeline, l->tag);
    enum bp_status status = launch_one(s, from, l, timeline);

    if (began)
        bp_profile_launch(timeline, l, from->step->row, s->ir->node[from->node].call.name, began);
    return status;
}

/* Launches like launch_profiled, and calls the watcher after a launch that did not fail. */
static __attribute__((noinline)) enum bp_status
launch_watched(const struct bp_schedule *s, uint32_t n, struct bp_launch *l,
               struct bp_timeline *timeline, const struct bp_schedule_watch *watch)
{
    uint64_t began = bp_clock_ns();
    enum bp_status status = launch_profiled(s, &s->launch[n], l, timeline);

    if (status == BP_OK && !timeline->fault && watch->watcher)
        launch_show(s, n, l, bp_clock_ns() - began, watch);
    return status;
}

/* A thread of the app checks whether the process ends its intake; a worker, which runs calls that
 * were accepted before, whether it exits. */
static inline bool launch_must_stop(const struct bp_timeline *timeline)
{
    return __builtin_expect(timeline->queue ? bp_process_is_exiting() : bp_process_is_stopping(),
                            0);
}

/* Runs all launches on this thread, as work `number` of a timeline of an inline device. */
static enum bp_status launch_all_here(const struct bp_schedule *s, struct bp_schedule_context *c,
                                      struct bp_timeline *timeline, uint64_t number,
                                      const struct bp_schedule_watch *watch)
{
    bool seen = watch->watcher || bp_profile_is_on();

    if (c->fills_arena) memset(c->placed.data, 0xff, s->arena + s->alignment);
    for (uint32_t n = 0; n < s->n_launch; n++) {
        const struct bp_scheduled_launch *from = &s->launch[n];
        struct bp_launch *l = &c->launch[n];
        enum bp_status status;
        if (launch_must_stop(timeline)) return bp_error_stopped();
        if (__builtin_expect(atomic_load_explicit(&timeline->cancelled, memory_order_relaxed), 0))
            return launch_cancelled(s, from, timeline);
        l->tag = number;
        if (__builtin_expect(c->fills_arena, 0)) bp_guards_fill(s, c, n);
        if (__builtin_expect(seen, 0))
            status = launch_watched(s, n, l, timeline, watch);
        else
            status = launch_one(s, from, l, timeline);
        if (__builtin_expect(status != BP_OK || timeline->fault != 0, 0))
            return launch_explain(s, from, timeline, status);
        if (__builtin_expect(c->fills_arena, 0)) TRY(bp_guards_check(s, c, n));
    }
    return BP_OK;
}

/* ---- streams with a queue ---- */

struct schedule_task {
    struct bp_task task;          /* first */
    struct bp_schedule *schedule; /* a reference, as the context */
    struct bp_schedule_context *context;
    struct bp_schedule_watch watch;
};

/* The app knows of a stop between two launches: it has cancelled the stream. */
static enum bp_status schedule_task_run(struct bp_task *task, struct bp_timeline *timeline)
{
    struct schedule_task *t = (struct schedule_task *)task;
    enum bp_status status;

    bp_error_enter();
    status = launch_all_here(t->schedule, t->context, timeline, task->number, &t->watch);
    if (status == BP_ERR_CANCELLED) atomic_store(&timeline->failure.reported, true);
    return status;
}

static void schedule_task_destroy(struct bp_task *task)
{
    struct schedule_task *t = (struct schedule_task *)task;

    bp_context_put(t->schedule, t->context);
    bp_schedule_release(t->schedule);
    free(t);
}

/* A function of bp_stream_callback must not wait for its own stream, so its runs are not watched:
 * the launches of a watched run end before the call, because the watcher sees the program. */
static enum bp_status launch_all_enqueue(struct bp_schedule *s, struct bp_schedule_context *c,
                                         struct bp_timeline *timeline,
                                         const struct bp_schedule_watch *watch)
{
    struct bp_deadline until = bp_deadline_of(timeline->device);
    bool watched = watch->watcher && !bp_queue_is_current(timeline->queue);
    struct schedule_task *t = calloc(1, sizeof *t);
    enum bp_status status;

    if (!t) return bp_error(BP_ERR_MEMORY, "no memory for a program in a queue");
    t->task = (struct bp_task){.run = schedule_task_run,
                               .destroy = schedule_task_destroy,
                               .number = bp_work_begin(timeline, "a program"),
                               .name = "a program"};
    t->schedule = s;
    t->context = c;
    if (watched) t->watch = *watch;
    atomic_fetch_add(&s->refs, 1);
    atomic_fetch_add(&c->refs, 1);
    status = bp_process_is_stopping() ? bp_error_stopped()
                                      : bp_queue_push(timeline->queue, &t->task, &until);
    if (status) {
        bp_work_cancel(timeline, t->task.number);
        schedule_task_destroy(&t->task);
        return status;
    }
    bp_work_end(timeline, atomic_load(&timeline->last));
    return watched ? bp_queue_wait(timeline->queue, atomic_load(&timeline->last), &bp_deadline_none)
                   : BP_OK;
}

/* ---- streams of the plugin ---- */

/* Waits for a launch, so that its failure names the node: with BP_SYNC=launch, and if the launch is
 * watched. */
static enum bp_status launch_wait(const struct bp_schedule *s,
                                  const struct bp_scheduled_launch *from, struct bp_stream *stream)
{
    enum bp_status status = bp_stream_drain(stream);

    return status ? bp_error_more(status, "node %s: %s", s->ir->node[from->node].call.name,
                                  bp_error_message())
                  : BP_OK;
}

/* Submits launch n under a number of its own, by which messages about later failures name it. */
static enum bp_status launch_submit(const struct bp_schedule *s, uint32_t n, struct bp_launch *l,
                                    struct bp_timeline *timeline)
{
    const struct bp_scheduled_launch *from = &s->launch[n];
    enum bp_status status;
    uint64_t number;

    number = l->tag = bp_work_begin(timeline, from->step->row->info.name);
    if (launch_must_stop(timeline)) status = bp_error_stopped();
    else if ((status = bp_profile_is_on() ? launch_profiled(s, from, l, timeline)
                                          : launch_one(s, from, l, timeline)) != BP_OK)
        status = launch_explain(s, from, timeline, status);
    bp_work_end(timeline, number);
    return status;
}

/* A function of bp_stream_callback must not wait for its own stream: its runs are neither watched
 * nor synchronous. */
static enum bp_status launch_all_submit(const struct bp_schedule *s, struct bp_schedule_context *c,
                                        struct bp_stream *stream,
                                        const struct bp_schedule_watch *watch)
{
    struct bp_timeline *timeline = stream->timeline;
    bool may_wait = !timeline->recording &&
                    !bp_queue_is_current(atomic_load(&timeline->callbacks));
    bool watched = may_wait && watch->watcher, waits = watched || (may_wait && stream->synchronous);

    if (waits) TRY(bp_stream_drain(stream));
    for (uint32_t n = 0; n < s->n_launch; n++) {
        uint64_t began = watched ? bp_clock_ns() : 0;
        if (__builtin_expect(bp_stream_is_cancelled(stream), 0))
            return launch_cancelled(s, &s->launch[n], timeline);
        TRY(launch_submit(s, n, &c->launch[n], timeline));
        if (waits) TRY(launch_wait(s, &s->launch[n], stream));
        if (watched) launch_show(s, n, &c->launch[n], bp_clock_ns() - began, watch);
    }
    return BP_OK;
}

/* Reserves the random numbers of a run, those of removed nodes too. Each replay of a captured run
 * draws others. */
static void schedule_draw(const struct bp_schedule *s, struct bp_schedule_context *c,
                          struct bp_stream *stream)
{
    struct bp_capture *recording = stream->timeline->recording;
    const uint64_t *rng = recording ? bp_capture_rng(recording) : NULL;
    uint64_t seed = 0, first;

    if (recording) first = bp_capture_draw(recording, s->ir->random_blocks);
    else
        bp_generator_reserve(stream->generator ? stream->generator : s->device->core->generator,
                             s->ir->random_blocks, &seed, &first);
    for (uint32_t n = 0; n < s->n_launch; n++) {
        const struct bp_scheduled_launch *from = &s->launch[n];
        if (!from->prepared->row->random) continue;
        c->launch[n].seed = seed;
        c->launch[n].offset = first + from->random_at;
        c->launch[n].rng = from->step->row->random ? rng : NULL;
    }
}

/* Keeps the calls of the schedule for replays. Fails if one cannot be recorded. */
static enum bp_status schedule_record(const struct bp_schedule *s, struct bp_capture *recording)
{
    for (uint32_t n = 0; n < s->n_launch; n++)
        TRY(bp_capture_add_call(recording, s->launch[n].prepared));
    return BP_OK;
}

enum bp_status bp_schedule_launch(struct bp_schedule *s, struct bp_schedule_context *c,
                                  struct bp_stream *stream, const struct bp_schedule_watch *watch)
{
    struct bp_timeline *timeline = stream->timeline;
    enum bp_status status;
    uint64_t number;

    if (timeline->recording) TRY(schedule_record(s, timeline->recording));
    if (timeline->queue) TRY(bp_queue_check_room(timeline->queue, 1)); /* before numbers are drawn,
                                                                          which a refusal loses */
    if (s->ir->random_blocks) schedule_draw(s, c, stream);
    if (timeline->queue) return launch_all_enqueue(s, c, timeline, watch);
    if (!timeline->is_inline) return launch_all_submit(s, c, stream, watch);
    number = bp_work_begin_unnamed(timeline);
    status = launch_all_here(s, c, timeline, number, watch);
    bp_work_end(timeline, number);
    return status;
}
