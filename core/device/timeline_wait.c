/* SPDX-License-Identifier: Apache-2.0 */
/* timeline_wait.c: waits for the work of a timeline: on the host, on the device, or in a queue. */
#include "device.h"
#include "profiled.h"

#include <stdlib.h>

enum bp_status bp_timeline_check_deadlock(const struct bp_timeline *timeline)
{
    TRY(bp_queue_check_deadlock(timeline->queue));
    return bp_queue_check_deadlock(
        atomic_load_explicit(&timeline->callbacks, memory_order_acquire));
}

static enum bp_status drain_queue(struct bp_timeline *timeline, const struct bp_deadline *until)
{
    uint64_t began = bp_profile_begin();
    enum bp_status status = bp_queue_flush(timeline->queue, until);

    if (began)
        bp_device_profile_put(timeline->device, timeline, BP_RECORD_WAIT, "synchronize", began);
    return status;
}

/* Waits for the callbacks first: a failure that the app receives in a callback is not reported
 * again. */
enum bp_status bp_timeline_drain(struct bp_timeline *timeline, const struct bp_deadline *until)
{
    struct bp_queue *callbacks = atomic_load_explicit(&timeline->callbacks, memory_order_acquire);

    if (timeline->is_inline) return BP_OK;
    if (timeline->queue) return drain_queue(timeline, until);
    if (callbacks) TRY(bp_queue_flush(callbacks, until));
    return bp_timeline_synchronize(timeline, until);
}

/* A device without events cannot be queried, and a wait with a timeout near 0 would never find that
 * work has ended: a shorter timeout of the caller counts as one second. A timeout from a setting
 * stays as it is. */
static enum bp_status wait_without_events(struct bp_timeline *timeline,
                                          const struct bp_deadline *until)
{
    struct bp_deadline least = bp_deadline_after(UINT64_C(1000000000));

    if (until->source || until->end >= least.end) return bp_timeline_synchronize(timeline, until);
    least.timeout_ns = until->timeout_ns;
    return bp_timeline_synchronize(timeline, &least);
}

/* If there is no memory for a fence, the call waits for all submitted work instead. */
enum bp_status bp_timeline_wait(struct bp_timeline *timeline, uint64_t number,
                                const struct bp_deadline *until)
{
    enum bp_status status;

    if (bp_timeline_passed(timeline, number)) return BP_OK;
    if (timeline->queue) return bp_queue_wait(timeline->queue, number, until);
    TRY(bp_device_check_lost(timeline->device));
    if (!bp_device_has_events(timeline->device)) return wait_without_events(timeline, until);
    status = bp_fence_wait(timeline, number, until);
    return status == BP_ERR_MEMORY ? wait_without_events(timeline, until) : status;
}

/* Both streams belong to the plugin, which inserts the wait. */
static enum bp_status order_by_fence(struct bp_timeline *timeline, struct bp_timeline *other,
                                     uint64_t number, const struct bp_deadline *until)
{
    struct bp_device *device = timeline->device;
    struct bp_plugin_entry *entry = device->entry;
    struct bp_fence *fence;
    enum bp_status status;

    TRY(bp_fence_find(other, number, until, &fence));
    if (!fence) return BP_OK;
    number = fence->number;
    bp_error_enter();
    status = entry->runtime.stream_wait(entry->self, device->index, timeline->stream, fence->event);
    if (status != BP_ERR_UNSUPPORTED) status = bp_device_leave(device, status, "stream_wait");
    bp_fence_release(other, fence);
    if (status == BP_OK) bp_timeline_record_order(timeline, other, number);
    return status;
}

enum bp_status bp_timeline_insert_wait(struct bp_timeline *timeline, struct bp_timeline *other,
                                       uint64_t number)
{
    struct bp_device *device = timeline->device;
    struct bp_plugin_entry *entry = device->entry;
    struct bp_fence *fence = NULL;
    enum bp_status status;
    bool open;

    TRY(bp_timeline_acquire_stream(timeline, &bp_deadline_none, &open));
    if (!open) return BP_OK;
    status = bp_fence_find(other, number, &bp_deadline_none, &fence);
    if (fence) {
        bp_error_enter();
        status = bp_device_leave(
            device,
            entry->runtime.stream_wait(entry->self, device->index, timeline->stream, fence->event),
            "stream_wait");
        bp_fence_release(other, fence);
    }
    bp_timeline_release_stream(timeline);
    return status;
}

struct order_task {
    struct bp_task task; /* first */
    struct bp_timeline *other;
    uint64_t number;
    struct bp_device *retained; /* the device of other, with a reference, if it is another one */
};

/* A failure of the other timeline's work remains a failure of the other timeline. If the wait
 * itself fails, later work of this stream could run too early: then this stream fails. */
static enum bp_status order_task_run(struct bp_task *task, struct bp_timeline *timeline)
{
    struct order_task *f = (struct order_task *)task;
    enum bp_status status = bp_timeline_wait(f->other, f->number, &bp_deadline_none);

    (void)timeline;
    if (bp_timeline_passed(f->other, f->number) || !bp_status_is_of_wait(status)) return BP_OK;
    return bp_error(status, "the wait for an event of %s was not possible: %s",
                    f->other->device->name, bp_error_message());
}

static void order_task_destroy(struct bp_task *task)
{
    struct order_task *f = (struct order_task *)task;

    if (f->retained) bp_device_release(f->retained);
    free(f);
}

/* The wait is a task on the worker, so that later tasks of the queue run after it. */
static enum bp_status order_in_queue(struct bp_timeline *timeline, struct bp_timeline *other,
                                     uint64_t number)
{
    struct bp_deadline until = bp_deadline_of(timeline->device);
    struct order_task *f = calloc(1, sizeof *f);
    enum bp_status status;

    if (!f) return bp_error(BP_ERR_MEMORY, "no memory for a wait");
    f->task.run = order_task_run;
    f->task.name = "a wait for an event";
    f->task.destroy = order_task_destroy;
    f->task.always = true;
    f->other = other;
    f->number = number;
    if (other->device != timeline->device) f->retained = other->device;
    if (f->retained) bp_device_retain(f->retained);
    status = bp_queue_push(timeline->queue, &f->task, &until);
    if (status) order_task_destroy(&f->task);
    else bp_timeline_record_order(timeline, other, number);
    return status;
}

/* Whether the plugin can order the two streams: they have no queue of the core, belong to one
 * plugin instance, and the plugin supports stream_wait. */
static bool order_is_native(const struct bp_timeline *timeline, const struct bp_timeline *other)
{
    return !timeline->is_inline && !timeline->queue && !other->queue && !other->is_inline &&
           timeline->device->entry == other->device->entry &&
           timeline->device->entry->runtime.stream_wait && bp_device_has_events(other->device);
}

enum bp_status bp_timeline_order_after(struct bp_timeline *timeline, struct bp_timeline *other,
                                       uint64_t number)
{
    struct bp_deadline until = bp_deadline_of(timeline->device);
    enum bp_status status = BP_ERR_UNSUPPORTED;

    if (timeline == other || bp_timeline_passed(other, number)) return BP_OK;
    if (timeline->device == other->device && timeline->device->emulated & BP_EMULATED_STREAMS &&
        !timeline->is_inline && !timeline->queue && !other->queue)
        return BP_OK; /* all streams share one order */
    if (timeline->queue) return order_in_queue(timeline, other, number);
    if (order_is_native(timeline, other)) status = order_by_fence(timeline, other, number, &until);
    if (status != BP_ERR_UNSUPPORTED) return status;
    if (bp_timeline_poll(other, number)) return BP_OK;
    TRY(bp_block_record(timeline->device,
                        timeline->is_inline ? BP_BLOCK_INLINE_WAIT : BP_BLOCK_STREAM_WAIT));
    return bp_timeline_wait(other, number, &until);
}
