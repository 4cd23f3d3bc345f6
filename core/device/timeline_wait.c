/* SPDX-License-Identifier: Apache-2.0 */
/* timeline_wait.c: work of a timeline is waited for: by the host, by the device, by a queue. */
#include "device.h"

#include <stdlib.h>

enum bp_status bp_timeline_refuse_mine(const struct bp_timeline *timeline)
{
    TRY(bp_queue_refuse_mine(timeline->queue));
    return bp_queue_refuse_mine(atomic_load_explicit(&timeline->caller, memory_order_acquire));
}

/* Those who call back first: of a failure that they are told, nobody else is. */
enum bp_status bp_timeline_drain(struct bp_timeline *timeline, const struct bp_deadline *until)
{
    struct bp_queue *caller = atomic_load_explicit(&timeline->caller, memory_order_acquire);

    if (timeline->now) return BP_OK;
    if (timeline->queue) return bp_queue_flush(timeline->queue, until);
    if (caller) TRY(bp_queue_flush(caller, until));
    return bp_timeline_synchronize(timeline, until);
}

/* A device without events cannot be asked: a wait of no time would never find that work has ended.
 */
static enum bp_status wait_without_events(struct bp_timeline *timeline,
                                          const struct bp_deadline *until)
{
    struct bp_deadline least = bp_deadline_in(UINT64_C(1000000000));

    if (until->source || until->end >= least.end) return bp_timeline_synchronize(timeline, until);
    least.timeout_ns = until->timeout_ns;
    return bp_timeline_synchronize(timeline, &least);
}

/* Where there is no memory for a mark, all that was submitted will do. */
enum bp_status bp_timeline_wait(struct bp_timeline *timeline, uint64_t number,
                                const struct bp_deadline *until)
{
    enum bp_status status;

    if (bp_timeline_passed(timeline, number)) return BP_OK;
    if (timeline->queue) return bp_queue_wait(timeline->queue, number, until);
    TRY(bp_device_check_lost(timeline->device));
    if (!bp_device_has_events(timeline->device)) return wait_without_events(timeline, until);
    status = bp_mark_ask(timeline, number, until);
    return status == BP_ERR_MEMORY ? wait_without_events(timeline, until) : status;
}

/* By the plugin: both streams are its own. */
static enum bp_status follow_mark(struct bp_timeline *timeline, struct bp_timeline *other,
                                  uint64_t number, const struct bp_deadline *until)
{
    struct bp_device *device = timeline->device;
    struct bp_plugin_entry *entry = device->entry;
    struct bp_mark *mark;
    enum bp_status status;

    TRY(bp_mark_find(other, number, until, &mark));
    if (!mark) return BP_OK;
    number = mark->number;
    bp_error_enter();
    status = entry->runtime.stream_wait(entry->self, device->index, timeline->stream, mark->event);
    if (status != BP_ERR_UNSUPPORTED)
        status = bp_device_leave(device, status, "stream_wait");
    bp_mark_release(other, mark);
    if (status == BP_OK) bp_timeline_saw(timeline, other, number);
    return status;
}

enum bp_status bp_timeline_delay(struct bp_timeline *timeline, struct bp_timeline *other,
                                 uint64_t number)
{
    struct bp_device *device = timeline->device;
    struct bp_plugin_entry *entry = device->entry;
    struct bp_mark *mark = NULL;
    enum bp_status status;
    bool open;

    TRY(bp_timeline_hold(timeline, &bp_no_deadline, &open));
    if (!open) return BP_OK;
    status = bp_mark_find(other, number, &bp_no_deadline, &mark);
    if (mark) {
        bp_error_enter();
        status = bp_device_leave(device,
                                 entry->runtime.stream_wait(entry->self, device->index,
                                                            timeline->stream, mark->event),
                                 "stream_wait");
        bp_mark_release(other, mark);
    }
    bp_timeline_let(timeline);
    return status;
}

struct follow_task {
    struct bp_task task; /* first */
    struct bp_timeline *other;
    uint64_t number;
    struct bp_device *keep; /* the other's, with a reference, if it is not this one */
};

/* A failure of the other's work stays with the other. A wait that could not be made would let later
 * work run too early: then this stream has failed. */
static enum bp_status wait_follow(struct bp_task *task, struct bp_timeline *timeline)
{
    struct follow_task *f = (struct follow_task *)task;
    enum bp_status status = bp_timeline_wait(f->other, f->number, &bp_no_deadline);

    (void)timeline;
    if (bp_timeline_passed(f->other, f->number) || !bp_is_of_the_wait(status)) return BP_OK;
    return bp_error(status, "the wait for an event of %s was not possible: %s",
                    f->other->device->name, bp_error_message());
}

static void free_follow(struct bp_task *task)
{
    struct follow_task *f = (struct follow_task *)task;

    if (f->keep) bp_device_release(f->keep);
    free(f);
}

/* Later tasks of its queue wait on the worker. */
static enum bp_status follow_in_queue(struct bp_timeline *timeline, struct bp_timeline *other,
                                      uint64_t number)
{
    struct bp_deadline until = bp_deadline_of(timeline->device);
    struct follow_task *f = calloc(1, sizeof *f);
    enum bp_status status;

    if (!f) return bp_error(BP_ERR_MEMORY, "no memory for a wait");
    f->task.run = wait_follow;
    f->task.name = "a wait for an event";
    f->task.destroy = free_follow;
    f->task.always = true;
    f->other = other;
    f->number = number;
    if (other->device != timeline->device) f->keep = other->device;
    if (f->keep) bp_device_retain(f->keep);
    status = bp_queue_push(timeline->queue, &f->task, &until);
    if (status) free_follow(&f->task);
    else bp_timeline_saw(timeline, other, number);
    return status;
}

/* Streams without a queue of the core's, of one plugin's instance, which can do it. */
static bool can_follow(const struct bp_timeline *timeline, const struct bp_timeline *other)
{
    return !timeline->now && !timeline->queue && !other->queue && !other->now &&
           timeline->device->entry == other->device->entry &&
           timeline->device->entry->runtime.stream_wait && bp_device_has_events(other->device);
}

enum bp_status bp_timeline_follow(struct bp_timeline *timeline, struct bp_timeline *other,
                                  uint64_t number)
{
    struct bp_deadline until = bp_deadline_of(timeline->device);
    enum bp_status status = BP_ERR_UNSUPPORTED;

    if (timeline == other || bp_timeline_passed(other, number)) return BP_OK;
    if (timeline->device == other->device && timeline->device->emulated & BP_EMULATED_STREAMS &&
        !timeline->now && !timeline->queue && !other->queue)
        return BP_OK; /* one order */
    if (timeline->queue) return follow_in_queue(timeline, other, number);
    if (can_follow(timeline, other)) status = follow_mark(timeline, other, number, &until);
    if (status != BP_ERR_UNSUPPORTED) return status;
    if (bp_timeline_poll(other, number)) return BP_OK;
    TRY(bp_block(timeline->device, timeline->now ? BP_BLOCK_INLINE_WAIT : BP_BLOCK_STREAM_WAIT));
    return bp_timeline_wait(other, number, &until);
}
