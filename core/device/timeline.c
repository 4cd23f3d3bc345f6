/* SPDX-License-Identifier: Apache-2.0 */
/* timeline.c: how far a timeline has got: the plugin's marks in it, and waiting for a number. */
#include "device.h"

#include <stdlib.h>

static bool has_events(const struct bp_device *device)
{
    return !(device->emulated & BP_EMULATED_EVENTS);
}

/* Under the lock: marks that were reached go to the spare ones. */
static void drop_reached(struct bp_timeline *timeline)
{
    uint64_t done = atomic_load(&timeline->done);

    for (struct bp_mark **at = &timeline->marks, *mark = *at; mark; mark = *at) {
        if (mark->number > done) break;
        if (mark->refs) {
            at = &mark->next;
            continue;
        }
        *at = mark->next;
        mark->next = timeline->spare;
        timeline->spare = mark;
    }
}

void bp_timeline_reached(struct bp_timeline *timeline, uint64_t number)
{
    uint64_t done = atomic_load_explicit(&timeline->done, memory_order_relaxed);

    while (done < number)
        if (atomic_compare_exchange_weak(&timeline->done, &done, number)) break;
}

static enum bp_status make_mark(struct bp_device *device, struct bp_mark **out_mark)
{
    struct bp_plugin_entry *entry = device->entry;
    struct bp_mark *mark = calloc(1, sizeof *mark);
    enum bp_status status;

    if (!mark) return bp_error(BP_ERR_MEMORY, "%s: no memory for an event", device->name);
    bp_error_enter();
    status = bp_error_leave(entry->runtime.event_create(entry->self, device->index, &mark->event),
                            entry->plugin.name, "event_create");
    if (status) free(mark);
    else *out_mark = mark;
    return status;
}

static void put_in_order(struct bp_timeline *timeline, struct bp_mark *mark)
{
    struct bp_mark **at = &timeline->marks;

    while (*at && (*at)->number <= mark->number) at = &(*at)->next;
    mark->next = *at;
    *at = mark;
}

/* Records a mark behind all that is submitted now. It comes back with a reference. */
static enum bp_status record(struct bp_timeline *timeline, struct bp_mark **out_mark)
{
    struct bp_device *device = timeline->device;
    struct bp_plugin_entry *entry = device->entry;
    struct bp_mark *mark;
    enum bp_status status;

    pthread_mutex_lock(&timeline->lock);
    mark = timeline->spare;
    if (mark) timeline->spare = mark->next;
    pthread_mutex_unlock(&timeline->lock);
    if (!mark) TRY(make_mark(device, &mark));
    mark->number = atomic_load_explicit(&timeline->submitted, memory_order_acquire);
    mark->refs = 1;
    bp_error_enter();
    status = bp_error_leave(
        entry->runtime.event_record(entry->self, device->index, timeline->stream, mark->event),
        entry->plugin.name, "event_record");
    pthread_mutex_lock(&timeline->lock);
    if (status == BP_OK) {
        put_in_order(timeline, mark);
        *out_mark = mark;
    } else {
        mark->next = timeline->spare;
        timeline->spare = mark;
    }
    pthread_mutex_unlock(&timeline->lock);
    return status;
}

/* The first mark at or after number, with a reference; made if there is none. */
static enum bp_status find_mark(struct bp_timeline *timeline, uint64_t number,
                                struct bp_mark **out_mark)
{
    struct bp_mark *mark;

    pthread_mutex_lock(&timeline->lock);
    drop_reached(timeline);
    for (mark = timeline->marks; mark && mark->number < number; mark = mark->next) {}
    if (mark) mark->refs++;
    pthread_mutex_unlock(&timeline->lock);
    if (!mark) return record(timeline, out_mark);
    *out_mark = mark;
    return BP_OK;
}

static void release_mark(struct bp_timeline *timeline, struct bp_mark *mark)
{
    pthread_mutex_lock(&timeline->lock);
    mark->refs--;
    drop_reached(timeline);
    pthread_mutex_unlock(&timeline->lock);
}

enum bp_status bp_timeline_mark(struct bp_timeline *timeline, uint64_t number)
{
    struct bp_mark *mark;

    if (bp_timeline_passed(timeline, number) || timeline->queue || !has_events(timeline->device))
        return BP_OK;
    TRY(find_mark(timeline, number, &mark));
    release_mark(timeline, mark);
    return BP_OK;
}

/* Asks about a mark, or waits for it. What was found to have failed has ended too. */
static enum bp_status ask_mark(struct bp_timeline *timeline, uint64_t number, bool wait,
                               uint64_t timeout_ns)
{
    struct bp_device *device = timeline->device;
    struct bp_plugin_entry *entry = device->entry;
    const struct bp_runtime *r = &entry->runtime;
    struct bp_mark *mark;
    enum bp_status status;

    TRY(find_mark(timeline, number, &mark));
    bp_error_enter();
    status = wait ? r->event_wait(entry->self, device->index, mark->event, timeout_ns)
                  : r->event_query(entry->self, device->index, mark->event);
    if (status != BP_ERR_BUSY)
        bp_error_leave(status, entry->plugin.name, wait ? "event_wait" : "event_query");
    if (!bp_is_of_the_wait(status)) bp_timeline_fail(timeline, status);
    if (status == BP_OK || !bp_is_of_the_wait(status)) bp_timeline_reached(timeline, mark->number);
    release_mark(timeline, mark);
    return status;
}

bool bp_timeline_poll(struct bp_timeline *timeline, uint64_t number)
{
    if (bp_timeline_passed(timeline, number)) return true;
    if (timeline->queue || !has_events(timeline->device)) return false;
    ask_mark(timeline, number, false, 0);
    return bp_timeline_passed(timeline, number);
}

/* Waits for all that was submitted. On a device of one order that is the work of all streams. */
enum bp_status bp_timeline_drain(struct bp_timeline *timeline)
{
    struct bp_device *device = timeline->device;
    struct bp_plugin_entry *entry = device->entry;
    struct bp_snapshot snapshot;
    enum bp_status status;
    bool shared = device->emulated & BP_EMULATED_STREAMS;

    if (timeline->now) return BP_OK;
    if (timeline->queue)
        return bp_queue_wait(timeline->queue, atomic_load(&timeline->submitted), UINT64_MAX);
    TRY(bp_snapshot_take(device, shared ? NULL : timeline, &snapshot));
    bp_error_enter();
    status = bp_error_leave(
        entry->runtime.synchronize(entry->self, device->index, timeline->stream),
        entry->plugin.name, "synchronize");
    if (!bp_is_of_the_wait(status)) bp_timeline_fail(timeline, status);
    if (status == BP_OK || !bp_is_of_the_wait(status)) bp_snapshot_reached(&snapshot);
    bp_snapshot_finish(&snapshot);
    return status;
}

enum bp_status bp_timeline_wait(struct bp_timeline *timeline, uint64_t number, uint64_t timeout_ns)
{
    if (bp_timeline_passed(timeline, number)) return BP_OK;
    if (timeline->queue) return bp_queue_wait(timeline->queue, number, timeout_ns);
    if (!has_events(timeline->device)) return bp_timeline_drain(timeline);
    return ask_mark(timeline, number, true, timeout_ns);
}

/* By the plugin: both streams are its own. */
static enum bp_status follow_mark(struct bp_timeline *timeline, struct bp_timeline *other,
                                  uint64_t number)
{
    struct bp_device *device = timeline->device;
    struct bp_plugin_entry *entry = device->entry;
    struct bp_mark *mark;
    enum bp_status status;

    TRY(find_mark(other, number, &mark));
    number = mark->number;
    bp_error_enter();
    status = entry->runtime.stream_wait(entry->self, device->index, timeline->stream, mark->event);
    if (status != BP_ERR_UNSUPPORTED)
        bp_error_leave(status, entry->plugin.name, "stream_wait");
    release_mark(other, mark);
    if (status == BP_OK) bp_timeline_saw(timeline, other, number);
    return status;
}

/* Streams without a queue of the core's, of one plugin's instance, which can do it. */
static bool can_follow(const struct bp_timeline *timeline, const struct bp_timeline *other)
{
    return !timeline->now && !timeline->queue && !other->queue && !other->now &&
           timeline->device->entry == other->device->entry &&
           timeline->device->entry->runtime.stream_wait && has_events(other->device);
}

enum bp_status bp_timeline_follow(struct bp_timeline *timeline, struct bp_timeline *other,
                                  uint64_t number)
{
    enum bp_status status = BP_ERR_UNSUPPORTED;

    if (timeline == other || bp_timeline_passed(other, number)) return BP_OK;
    if (timeline->device == other->device && timeline->device->emulated & BP_EMULATED_STREAMS &&
        !timeline->now && !timeline->queue && !other->queue)
        return BP_OK; /* one order */
    if (timeline->queue) return bp_queue_follow(timeline->queue, other, number);
    if (can_follow(timeline, other)) status = follow_mark(timeline, other, number);
    if (status != BP_ERR_UNSUPPORTED) return status;
    TRY(bp_block(timeline->device, timeline->now ? BP_BLOCK_INLINE_WAIT : BP_BLOCK_STREAM_WAIT));
    return bp_timeline_wait(other, number, UINT64_MAX);
}
