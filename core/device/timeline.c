/* SPDX-License-Identifier: Apache-2.0 */
/* timeline.c: how far a timeline has got: the plugin's marks in it, and waiting for a number. */
#include "../activity.h"
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
static enum bp_status record(struct bp_timeline *timeline, const struct bp_deadline *until,
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
    if (!mark) return record(timeline, until, out_mark);
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
    if (status != BP_ERR_BUSY)
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
    if (timeline->queue) return bp_queue_follow(timeline->queue, other, number);
    if (can_follow(timeline, other)) status = follow_mark(timeline, other, number, &until);
    if (status != BP_ERR_UNSUPPORTED) return status;
    if (bp_timeline_poll(other, number)) return BP_OK;
    TRY(bp_block(timeline->device, timeline->now ? BP_BLOCK_INLINE_WAIT : BP_BLOCK_STREAM_WAIT));
    return bp_timeline_wait(other, number, &until);
}
