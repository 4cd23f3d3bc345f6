/* SPDX-License-Identifier: Apache-2.0 */
/* timeline.c: how far a timeline has got: the plugin's marks in it, which are asked. */
#include "../base/activity.h"
#include "device.h"

#include <stdlib.h>

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

/* Under the lock. */
static bool is_seized(struct bp_timeline *timeline, bool by_me)
{
    return atomic_load(&timeline->seized) &&
           !pthread_equal(timeline->seizer, pthread_self()) == !by_me;
}

enum bp_status bp_timeline_hold(struct bp_timeline *timeline, const struct bp_deadline *until,
                                bool *out_open)
{
    bool mine, open, late, in_time = true;

    pthread_mutex_lock(&timeline->lock);
    while (is_seized(timeline, false) && in_time)
        in_time = bp_deadline_wait(&timeline->turn, &timeline->lock, until);
    late = is_seized(timeline, false);
    mine = is_seized(timeline, true);
    open = timeline->open && !mine && !late;
    timeline->busy += open;
    pthread_mutex_unlock(&timeline->lock);
    if (late) return bp_deadline_missed(timeline->device, timeline, UINT64_MAX, until);
    if (mine)
        return bp_error(BP_ERR_INVALID, "%s: stream %u is being recorded: nothing waits for it",
                        timeline->device->name, timeline->id);
    *out_open = open;
    return BP_OK;
}

enum bp_status bp_timeline_seize(struct bp_timeline *timeline)
{
    bool busy;

    pthread_mutex_lock(&timeline->lock);
    busy = timeline->busy || atomic_load(&timeline->seized);
    if (!busy) {
        timeline->seizer = pthread_self();
        atomic_store(&timeline->seized, true);
    }
    pthread_mutex_unlock(&timeline->lock);
    if (!busy) return BP_OK;
    return bp_error(BP_ERR_BUSY, "%s: another thread waits for stream %u", timeline->device->name,
                    timeline->id);
}

void bp_timeline_release(struct bp_timeline *timeline)
{
    pthread_mutex_lock(&timeline->lock);
    atomic_store(&timeline->seized, false);
    pthread_cond_broadcast(&timeline->turn);
    pthread_mutex_unlock(&timeline->lock);
}

void bp_timeline_let(struct bp_timeline *timeline)
{
    pthread_mutex_lock(&timeline->lock);
    timeline->busy--;
    pthread_mutex_unlock(&timeline->lock);
}

static enum bp_status make_mark(struct bp_device *device, struct bp_mark **out_mark)
{
    struct bp_plugin_entry *entry = device->entry;
    struct bp_mark *mark = calloc(1, sizeof *mark);
    enum bp_status status;

    if (!mark) return bp_error(BP_ERR_MEMORY, "%s: no memory for an event", device->name);
    bp_error_enter();
    status = bp_device_leave(device,
                             entry->runtime.event_create(entry->self, device->index, &mark->event),
                             "event_create");
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

static void put_spare(struct bp_timeline *timeline, struct bp_mark *mark)
{
    pthread_mutex_lock(&timeline->lock);
    mark->refs = 0;
    mark->next = timeline->spare;
    timeline->spare = mark;
    pthread_mutex_unlock(&timeline->lock);
}

/* A driver may tell of work that failed when it is asked to record: that is kept. */
static enum bp_status record_in(struct bp_timeline *timeline, void *event)
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

/* Records a mark behind all that is submitted now. It comes back with a reference; NULL if the
 * stream has been closed, and so has reached its end. */
static enum bp_status timeline_record(struct bp_timeline *timeline, const struct bp_deadline *until,
                                      struct bp_mark **out_mark)
{
    struct bp_mark *mark;
    enum bp_status status;
    bool open = false;

    pthread_mutex_lock(&timeline->lock);
    mark = timeline->spare;
    if (mark) timeline->spare = mark->next;
    pthread_mutex_unlock(&timeline->lock);
    if (!mark) TRY(make_mark(timeline->device, &mark));
    status = bp_timeline_hold(timeline, until, &open);
    if (!open) {
        put_spare(timeline, mark);
        *out_mark = NULL;
        return status;
    }
    mark->number = atomic_load_explicit(&timeline->submitted, memory_order_acquire);
    mark->refs = 1;
    status = record_in(timeline, mark->event);
    bp_timeline_let(timeline);
    if (status) {
        put_spare(timeline, mark);
        return status;
    }
    pthread_mutex_lock(&timeline->lock);
    put_in_order(timeline, mark);
    pthread_mutex_unlock(&timeline->lock);
    *out_mark = mark;
    return BP_OK;
}

enum bp_status bp_mark_find(struct bp_timeline *timeline, uint64_t number,
                            const struct bp_deadline *until, struct bp_mark **out_mark)
{
    struct bp_mark *mark;

    pthread_mutex_lock(&timeline->lock);
    drop_reached(timeline);
    for (mark = timeline->marks; mark && mark->number < number; mark = mark->next) {}
    if (mark) mark->refs++;
    pthread_mutex_unlock(&timeline->lock);
    if (!mark) return timeline_record(timeline, until, out_mark);
    *out_mark = mark;
    return BP_OK;
}

void bp_mark_release(struct bp_timeline *timeline, struct bp_mark *mark)
{
    if (!mark) return;
    pthread_mutex_lock(&timeline->lock);
    mark->refs--;
    drop_reached(timeline);
    pthread_mutex_unlock(&timeline->lock);
}

enum bp_status bp_timeline_mark(struct bp_timeline *timeline, uint64_t number)
{
    struct bp_mark *mark;

    if (bp_timeline_passed(timeline, number) || timeline->queue ||
        !bp_device_has_events(timeline->device))
        return BP_OK;
    TRY(bp_mark_find(timeline, number, &bp_no_deadline, &mark));
    bp_mark_release(timeline, mark);
    return BP_OK;
}

static enum bp_status await_event(struct bp_timeline *timeline, uint64_t number, void *event,
                                  const struct bp_deadline *until)
{
    struct bp_device *device = timeline->device;
    struct bp_plugin_entry *entry = device->entry;
    uint32_t note = bp_wait_note(device, timeline, number);
    enum bp_status status;

    status = entry->runtime.event_wait(entry->self, device->index, event, bp_deadline_left(until));
    bp_activity_leave(note);
    return status;
}

enum bp_status bp_mark_ask(struct bp_timeline *timeline, uint64_t number,
                           const struct bp_deadline *until)
{
    struct bp_device *device = timeline->device;
    struct bp_plugin_entry *entry = device->entry;
    struct bp_mark *mark;
    enum bp_status status;

    TRY(bp_mark_find(timeline, number, until ? until : &bp_no_deadline, &mark));
    if (!mark) return BP_OK;
    bp_error_enter();
    status = until ? await_event(timeline, number, mark->event, until)
                   : entry->runtime.event_query(entry->self, device->index, mark->event);
    if (status == BP_ERR_BUSY) status = BP_ERR_NOT_READY; /* as plugins of ABI 0.3 answer */
    if (status != BP_ERR_NOT_READY)
        status = bp_device_leave(device, status, until ? "event_wait" : "event_query");
    bp_timeline_fail(timeline, status);
    if (status == BP_OK || !bp_is_of_the_wait(status)) bp_timeline_reached(timeline, mark->number);
    bp_mark_release(timeline, mark);
    if (status == BP_ERR_TIMEOUT && until)
        return bp_deadline_missed(device, timeline, number, until);
    return status;
}

/* What a lost device was given counts as ended. */
bool bp_timeline_poll(struct bp_timeline *timeline, uint64_t number)
{
    if (bp_timeline_passed(timeline, number)) return true;
    if (bp_device_is_lost(timeline->device) && !timeline->queue) return true;
    if (atomic_load(&timeline->seized)) return false;
    if (timeline->queue || !bp_device_has_events(timeline->device)) return false;
    bp_mark_ask(timeline, number, NULL);
    return bp_timeline_passed(timeline, number);
}
