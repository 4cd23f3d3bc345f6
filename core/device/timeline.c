/* SPDX-License-Identifier: Apache-2.0 */
/* timeline.c: finds out how far a timeline has got, by the fences (plugin events) that are recorded
 * in it and queried. */
#include "../base/activity.h"
#include "profiled.h"

#include <stdlib.h>

/* Called with the timeline locked. Moves fences that were reached to the spare ones. */
static void fence_recycle(struct bp_timeline *timeline)
{
    uint64_t done = atomic_load(&timeline->done);

    for (struct bp_fence **at = &timeline->fences, *fence = *at; fence; fence = *at) {
        if (fence->number > done) break;
        if (fence->refs) {
            at = &fence->next;
            continue;
        }
        *at = fence->next;
        fence->next = timeline->spare;
        timeline->spare = fence;
    }
}

void bp_timeline_advance(struct bp_timeline *timeline, uint64_t number)
{
    uint64_t done = atomic_load_explicit(&timeline->done, memory_order_relaxed);

    while (done < number)
        if (atomic_compare_exchange_weak(&timeline->done, &done, number)) break;
}

/* Called with the timeline locked. Whether a thread has locked the stream: this one (by_me) or
 * another. */
static bool is_stream_locked(struct bp_timeline *timeline, bool by_me)
{
    return atomic_load(&timeline->stream_locked) &&
           !pthread_equal(timeline->stream_locker, pthread_self()) == !by_me;
}

enum bp_status bp_timeline_acquire_stream(struct bp_timeline *timeline,
                                          const struct bp_deadline *until, bool *out_open)
{
    bool mine, open, late, in_time = true;

    pthread_mutex_lock(&timeline->lock);
    while (is_stream_locked(timeline, false) && in_time)
        in_time = bp_deadline_wait(&timeline->turn, &timeline->lock, until);
    late = is_stream_locked(timeline, false);
    mine = is_stream_locked(timeline, true);
    open = timeline->open && !mine && !late;
    timeline->stream_users += open;
    pthread_mutex_unlock(&timeline->lock);
    if (late) return bp_deadline_error(timeline->device, timeline, UINT64_MAX, until);
    if (mine)
        return bp_error(BP_ERR_INVALID, "%s: stream %u is being recorded: nothing waits for it",
                        timeline->device->name, timeline->id);
    *out_open = open;
    return BP_OK;
}

enum bp_status bp_timeline_lock_stream(struct bp_timeline *timeline)
{
    bool busy;

    pthread_mutex_lock(&timeline->lock);
    busy = timeline->stream_users || atomic_load(&timeline->stream_locked);
    if (!busy) {
        timeline->stream_locker = pthread_self();
        atomic_store(&timeline->stream_locked, true);
    }
    pthread_mutex_unlock(&timeline->lock);
    if (!busy) return BP_OK;
    return bp_error(BP_ERR_BUSY, "%s: another thread waits for stream %u", timeline->device->name,
                    timeline->id);
}

void bp_timeline_unlock_stream(struct bp_timeline *timeline)
{
    pthread_mutex_lock(&timeline->lock);
    atomic_store(&timeline->stream_locked, false);
    pthread_cond_broadcast(&timeline->turn);
    pthread_mutex_unlock(&timeline->lock);
}

void bp_timeline_release_stream(struct bp_timeline *timeline)
{
    pthread_mutex_lock(&timeline->lock);
    timeline->stream_users--;
    pthread_mutex_unlock(&timeline->lock);
}

static enum bp_status fence_create(struct bp_device *device, struct bp_fence **out_fence)
{
    struct bp_plugin_entry *entry = device->entry;
    struct bp_fence *fence = calloc(1, sizeof *fence);
    enum bp_status status;

    if (!fence) return bp_error(BP_ERR_MEMORY, "%s: no memory for an event", device->name);
    bp_error_enter();
    status = bp_device_leave(device,
                             entry->runtime.event_create(entry->self, device->index, &fence->event),
                             "event_create");
    if (status) free(fence);
    else *out_fence = fence;
    return status;
}

static void fence_insert(struct bp_timeline *timeline, struct bp_fence *fence)
{
    struct bp_fence **at = &timeline->fences;

    while (*at && (*at)->number <= fence->number) at = &(*at)->next;
    fence->next = *at;
    *at = fence;
}

static void fence_recycle_one(struct bp_timeline *timeline, struct bp_fence *fence)
{
    pthread_mutex_lock(&timeline->lock);
    fence->refs = 0;
    fence->next = timeline->spare;
    timeline->spare = fence;
    pthread_mutex_unlock(&timeline->lock);
}

/* A driver may report failed work when an event is recorded; such a failure is stored. */
static enum bp_status fence_record(struct bp_timeline *timeline, void *event)
{
    struct bp_device *device = timeline->device;
    struct bp_plugin_entry *entry = device->entry;
    enum bp_status status;

    bp_error_enter();
    status = bp_device_leave(
        device, entry->runtime.event_record(entry->self, device->index, timeline->stream, event),
        "event_record");
    return bp_timeline_fail(timeline, status);
}

/* Records a fence behind all work that is submitted now. *out_fence has a reference; NULL: the
 * stream was closed, and so its work has ended. */
static enum bp_status fence_create_recorded(struct bp_timeline *timeline,
                                            const struct bp_deadline *until,
                                            struct bp_fence **out_fence)
{
    struct bp_fence *fence;
    enum bp_status status;
    bool open = false;

    pthread_mutex_lock(&timeline->lock);
    fence = timeline->spare;
    if (fence) timeline->spare = fence->next;
    pthread_mutex_unlock(&timeline->lock);
    if (!fence) TRY(fence_create(timeline->device, &fence));
    status = bp_timeline_acquire_stream(timeline, until, &open);
    if (!open) {
        fence_recycle_one(timeline, fence);
        *out_fence = NULL;
        return status;
    }
    fence->number = atomic_load_explicit(&timeline->submitted, memory_order_acquire);
    fence->refs = 1;
    status = fence_record(timeline, fence->event);
    bp_timeline_release_stream(timeline);
    if (status) {
        fence_recycle_one(timeline, fence);
        return status;
    }
    pthread_mutex_lock(&timeline->lock);
    fence_insert(timeline, fence);
    pthread_mutex_unlock(&timeline->lock);
    *out_fence = fence;
    return BP_OK;
}

enum bp_status bp_fence_find(struct bp_timeline *timeline, uint64_t number,
                             const struct bp_deadline *until, struct bp_fence **out_fence)
{
    struct bp_fence *fence;

    pthread_mutex_lock(&timeline->lock);
    fence_recycle(timeline);
    for (fence = timeline->fences; fence && fence->number < number; fence = fence->next) {}
    if (fence) fence->refs++;
    pthread_mutex_unlock(&timeline->lock);
    if (!fence) return fence_create_recorded(timeline, until, out_fence);
    *out_fence = fence;
    return BP_OK;
}

void bp_fence_release(struct bp_timeline *timeline, struct bp_fence *fence)
{
    if (!fence) return;
    pthread_mutex_lock(&timeline->lock);
    fence->refs--;
    fence_recycle(timeline);
    pthread_mutex_unlock(&timeline->lock);
}

enum bp_status bp_timeline_record_fence(struct bp_timeline *timeline, uint64_t number)
{
    struct bp_fence *fence;

    if (bp_timeline_passed(timeline, number) || timeline->queue ||
        !bp_device_has_events(timeline->device))
        return BP_OK;
    TRY(bp_fence_find(timeline, number, &bp_deadline_none, &fence));
    bp_fence_release(timeline, fence);
    return BP_OK;
}

static enum bp_status fence_wait_event(struct bp_timeline *timeline, uint64_t number, void *event,
                                       const struct bp_deadline *until)
{
    struct bp_device *device = timeline->device;
    struct bp_plugin_entry *entry = device->entry;
    uint32_t note = bp_wait_activity_begin(device, timeline, number);
    uint64_t began = bp_profile_begin();
    enum bp_status status;

    status = entry->runtime.event_wait(entry->self, device->index, event,
                                       bp_deadline_remaining(until));
    bp_activity_end(note);
    if (began) bp_device_profile_put(device, timeline, BP_RECORD_WAIT, "wait for an event", began);
    return status;
}

enum bp_status bp_fence_wait(struct bp_timeline *timeline, uint64_t number,
                             const struct bp_deadline *until)
{
    struct bp_device *device = timeline->device;
    struct bp_plugin_entry *entry = device->entry;
    struct bp_fence *fence;
    enum bp_status status;

    TRY(bp_fence_find(timeline, number, until ? until : &bp_deadline_none, &fence));
    if (!fence) return BP_OK;
    bp_error_enter();
    status = until ? fence_wait_event(timeline, number, fence->event, until)
                   : entry->runtime.event_query(entry->self, device->index, fence->event);
    if (status == BP_ERR_BUSY) status = BP_ERR_NOT_READY; /* plugins of ABI 0.3 return it */
    if (status != BP_ERR_NOT_READY)
        status = bp_device_leave(device, status, until ? "event_wait" : "event_query");
    bp_timeline_fail(timeline, status);
    if (status == BP_OK || !bp_status_is_of_wait(status))
        bp_timeline_advance(timeline, fence->number);
    bp_fence_release(timeline, fence);
    if (status == BP_OK && until) bp_profile_collect();
    if (status == BP_ERR_TIMEOUT && until)
        return bp_deadline_error(device, timeline, number, until);
    return status;
}

/* Work that was submitted to a lost device counts as ended. */
bool bp_timeline_poll(struct bp_timeline *timeline, uint64_t number)
{
    if (bp_timeline_passed(timeline, number)) return true;
    if (bp_device_is_lost(timeline->device) && !timeline->queue) return true;
    if (atomic_load(&timeline->stream_locked)) return false;
    if (timeline->queue || !bp_device_has_events(timeline->device)) return false;
    bp_fence_wait(timeline, number, NULL);
    return bp_timeline_passed(timeline, number);
}
