/* SPDX-License-Identifier: Apache-2.0 */
/* timeline_pool.c: creates the timelines of a device, passes them from destroyed streams to new
 * ones, and frees them at the device's end. */
#include "device.h"

#include <stdio.h>
#include <stdlib.h>

static enum bp_status stream_open(struct bp_timeline *timeline)
{
    struct bp_device *device = timeline->device;
    struct bp_plugin_entry *entry = device->entry;
    void *stream = NULL;

    if (entry->runtime.stream_create) {
        bp_error_enter();
        TRY(bp_device_leave(device,
                            entry->runtime.stream_create(entry->self, device->index, &stream),
                            "stream_create"));
    }
    pthread_mutex_lock(&timeline->lock);
    timeline->stream = stream;
    timeline->open = true;
    pthread_mutex_unlock(&timeline->lock);
    return BP_OK;
}

/* Closes the plugin's stream for new users. false: a thread is using the stream now, and it stays
 * open. */
static bool stream_begin_close(struct bp_timeline *timeline)
{
    bool closed;

    pthread_mutex_lock(&timeline->lock);
    closed = !timeline->stream_users;
    if (closed) timeline->open = false;
    pthread_mutex_unlock(&timeline->lock);
    return closed;
}

static void stream_close(struct bp_timeline *timeline)
{
    struct bp_device *device = timeline->device;
    struct bp_plugin_entry *entry = device->entry;

    if (entry->runtime.stream_create)
        entry->runtime.stream_destroy(entry->self, device->index, timeline->stream);
    timeline->stream = NULL;
}

static void timeline_free(struct bp_timeline *timeline)
{
    struct bp_device *device = timeline->device;
    struct bp_plugin_entry *entry = device->entry;
    struct bp_retired_failure *retired = atomic_load(&timeline->retired_failures), *earlier;
    struct bp_fence *next;

    for (int pass = 0; pass < 2; pass++)
        for (struct bp_fence *fence = pass ? timeline->spare : timeline->fences; fence;
             fence = next) {
            next = fence->next;
            entry->runtime.event_destroy(entry->self, device->index, fence->event);
            free(fence);
        }
    if (timeline->open) stream_close(timeline);
    pthread_mutex_destroy(&timeline->lock);
    pthread_cond_destroy(&timeline->turn);
    for (; retired; retired = earlier) {
        earlier = retired->next;
        free(retired->failure.why);
        free(retired);
    }
    free(timeline->failure.why);
    free(timeline->orderings);
    free(timeline);
}

/* Finds a spare timeline of the kind and reserves it for the caller; NULL if there is none. */
static struct bp_timeline *timeline_find_spare(struct bp_device *device, bool is_inline, bool queue)
{
    struct bp_timeline *found = NULL;

    pthread_mutex_lock(&device->lock);
    for (struct bp_timeline *t = atomic_load(&device->timelines); t && !found; t = t->next)
        if (t->state == BP_TIMELINE_SPARE && t->is_inline == is_inline && !t->queue == !queue)
            found = t;
    if (found) found->state = BP_TIMELINE_LIVE;
    pthread_mutex_unlock(&device->lock);
    return found;
}

static void timeline_set_state(struct bp_timeline *timeline, uint32_t state)
{
    pthread_mutex_lock(&timeline->device->lock);
    timeline->state = state;
    pthread_mutex_unlock(&timeline->device->lock);
}

/* Called with the timeline locked. At every moment, other threads find the failure either in
 * timeline->failure or in the list of retired failures. */
static void timeline_retire_failure(struct bp_timeline *timeline,
                                    struct bp_retired_failure *retired)
{
    struct bp_failure *failure = &timeline->failure;

    retired->next = atomic_load(&timeline->retired_failures);
    retired->first = timeline->last_good + 1;
    retired->last = atomic_load(&timeline->last);
    retired->failure.why = failure->why;
    atomic_init(&retired->failure.status, atomic_load(&failure->status));
    atomic_init(&retired->failure.reported, atomic_load(&failure->reported));
    atomic_store(&timeline->retired_failures, retired);
    failure->why = NULL;
    atomic_store(&failure->reported, false);
    atomic_store(&failure->status, BP_OK);
}

/* Prepares a spare timeline for a new stream: only the numbers and the failure of the previous
 * stream stay. One number is skipped, so that an event recorded before the new stream has any work
 * does not belong to the previous stream. */
static enum bp_status timeline_reset(struct bp_timeline *timeline)
{
    struct bp_retired_failure *retired = NULL;
    uint64_t base = atomic_load(&timeline->last) + 1;

    if (bp_failure_is_set(&timeline->failure)) {
        retired = calloc(1, sizeof *retired);
        if (!retired) return bp_error(BP_ERR_MEMORY, "bp_stream_create: no memory");
    }
    pthread_mutex_lock(&timeline->lock);
    timeline->n_ordering = 0;
    if (retired) timeline_retire_failure(timeline, retired);
    atomic_store(&timeline->cancelled, false);
    atomic_store(&timeline->last, base);
    atomic_store(&timeline->submitted, base);
    atomic_store(&timeline->base, base);
    pthread_mutex_unlock(&timeline->lock);
    bp_timeline_advance(timeline, base);
    return BP_OK;
}

enum bp_status bp_timeline_retire_cancelled(struct bp_timeline *timeline)
{
    struct bp_retired_failure *retired;

    if (atomic_load(&timeline->failure.status) != BP_ERR_CANCELLED) return BP_OK;
    retired = calloc(1, sizeof *retired);
    if (!retired) return bp_error(BP_ERR_MEMORY, "bp_stream_resume: no memory");
    pthread_mutex_lock(&timeline->lock);
    timeline_retire_failure(timeline, retired);
    pthread_mutex_unlock(&timeline->lock);
    return BP_OK;
}

static struct bp_timeline *timeline_alloc(struct bp_device *device, bool is_inline, bool queue)
{
    struct bp_timeline *timeline = bp_handle_alloc(sizeof *timeline);

    if (!timeline) {
        bp_error_write("%s: no memory for a stream", device->name);
        return NULL;
    }
    timeline->device = device;
    timeline->is_inline = is_inline;
    atomic_init(&timeline->done, is_inline ? UINT64_MAX : 0);
    pthread_mutex_init(&timeline->lock, NULL);
    bp_cond_init(&timeline->turn);
    if (!queue || bp_queue_create(timeline, &timeline->queue) == BP_OK) return timeline;
    timeline_free(timeline);
    return NULL;
}

static void timeline_link(struct bp_timeline *timeline)
{
    struct bp_device *device = timeline->device;

    pthread_mutex_lock(&device->lock);
    timeline->id = device->n_timeline++;
    timeline->next = atomic_load(&device->timelines);
    atomic_store(&device->timelines, timeline);
    pthread_mutex_unlock(&device->lock);
}

enum bp_status bp_timeline_create_host(struct bp_device *device)
{
    device->host = timeline_alloc(device, true, false);
    if (!device->host) return BP_ERR_MEMORY;
    timeline_link(device->host);
    return BP_OK;
}

enum bp_status bp_timeline_create(struct bp_device *device, bool is_inline, bool queue,
                                  struct bp_timeline **out_timeline)
{
    struct bp_timeline *timeline;
    enum bp_status status = BP_OK;

    TRY(bp_device_check_lost(device));
    bp_timelines_poll(device);
    timeline = timeline_find_spare(device, is_inline, queue);
    if (timeline) {
        status = timeline_reset(timeline);
    } else {
        timeline = timeline_alloc(device, is_inline, queue);
        if (!timeline) return BP_ERR_MEMORY;
        timeline_link(timeline);
    }
    if (status == BP_OK) status = stream_open(timeline);
    if (status) {
        timeline_set_state(timeline, BP_TIMELINE_SPARE);
        return status;
    }
    *out_timeline = timeline;
    return BP_OK;
}

static uint32_t timeline_get_state(struct bp_timeline *timeline)
{
    uint32_t state;

    pthread_mutex_lock(&timeline->device->lock);
    state = timeline->state;
    pthread_mutex_unlock(&timeline->device->lock);
    return state;
}

/* Whether the timeline's work is over; work of a lost device counts as ended. The work that the
 * timeline waits for must have ended too, because a later stream does not run after that work. */
static bool timeline_is_over(struct bp_timeline *timeline)
{
    struct bp_queue *callbacks = atomic_load(&timeline->callbacks);
    uint64_t submitted = atomic_load(&timeline->submitted);

    return submitted == atomic_load(&timeline->last) && /* a callback may destroy its stream */
           (bp_timeline_passed(timeline, submitted) ||
            (!timeline->queue && bp_device_is_lost(timeline->device))) &&
           bp_timeline_waits_passed(timeline, false) &&
           (!timeline->queue || bp_queue_is_idle(timeline->queue)) &&
           (!callbacks || bp_queue_is_idle(callbacks));
}

void bp_timeline_retire(struct bp_timeline *timeline)
{
    struct bp_queue *callbacks = atomic_load(&timeline->callbacks);

    if (timeline->queue) bp_queue_retire(timeline->queue);
    if (callbacks) bp_queue_retire(callbacks);
    timeline_set_state(timeline, BP_TIMELINE_RETIRING);
    bp_timelines_poll(timeline->device);
}

/* Finds a retired timeline whose work is over and reserves it for the caller. Other threads use a
 * retiring timeline only to query how far it has got. */
static struct bp_timeline *timeline_find_retired(struct bp_device *device)
{
    struct bp_timeline *t;

    pthread_mutex_lock(&device->lock);
    for (t = atomic_load(&device->timelines); t; t = t->next)
        if (t->state == BP_TIMELINE_RETIRING && timeline_is_over(t) && stream_begin_close(t)) break;
    if (t) t->state = BP_TIMELINE_LIVE;
    pthread_mutex_unlock(&device->lock);
    return t;
}

void bp_timelines_poll(struct bp_device *device)
{
    struct bp_timeline *t;

    for (t = atomic_load(&device->timelines); t; t = t->next) {
        if (timeline_get_state(t) != BP_TIMELINE_RETIRING) continue;
        bp_timeline_poll(t, atomic_load(&t->submitted));
        bp_timeline_waits_passed(t, true);
    }
    while ((t = timeline_find_retired(device))) {
        stream_close(t);
        timeline_set_state(t, BP_TIMELINE_SPARE);
    }
}

void bp_timelines_finish(struct bp_device *device)
{
    struct bp_timeline *next;

    for (struct bp_timeline *t = atomic_load(&device->timelines); t; t = t->next) {
        bp_queue_destroy(t->queue); /* the remaining tasks may refer to any timeline */
        bp_queue_destroy(atomic_load(&t->callbacks));
        t->queue = NULL;
    }
    for (struct bp_timeline *t = atomic_load(&device->timelines); t; t = next) {
        next = t->next;
        timeline_free(t);
    }
}

/* Whether another thread is submitting work to the plugin on this timeline, or a queue of the
 * timeline runs or holds tasks. */
static bool timeline_is_busy(struct bp_timeline *timeline, char *what, size_t size)
{
    struct bp_queue *callbacks = atomic_load(&timeline->callbacks);
    uint64_t last = atomic_load(&timeline->last);

    if (last != atomic_load(&timeline->submitted)) {
        snprintf(what, size, "%s: launch %llu is being given to it", timeline->device->name,
                 (unsigned long long)(last - atomic_load(&timeline->base)));
        return true;
    }
    return (timeline->queue && bp_queue_is_busy(timeline->queue, what, size)) ||
           (callbacks && bp_queue_is_busy(callbacks, what, size));
}

bool bp_device_is_busy(struct bp_device *device, char *what, size_t size)
{
    for (struct bp_timeline *t = atomic_load(&device->timelines); t; t = t->next)
        if (timeline_is_busy(t, what, size)) return true;
    return false;
}

bool bp_device_is_submitting(struct bp_device *device, char *what, size_t size)
{
    for (struct bp_timeline *t = atomic_load(&device->timelines); t; t = t->next) {
        uint64_t last = atomic_load(&t->last), base = atomic_load(&t->base);
        const char *name = atomic_load(&t->name[last % BP_WORK_NAMES]);
        if (last == atomic_load(&t->submitted)) continue;
        snprintf(what, size, "%s, stream %u, launch %llu%s%s", device->name, t->id,
                 (unsigned long long)(last - base), name ? ": " : "", name ? name : "");
        return true;
    }
    return false;
}

void bp_device_wake(struct bp_device *device)
{
    for (struct bp_timeline *t = atomic_load(&device->timelines); t; t = t->next) {
        struct bp_queue *callbacks = atomic_load(&t->callbacks);
        if (t->queue) bp_queue_wake(t->queue);
        if (callbacks) bp_queue_wake(callbacks);
    }
}

enum bp_status bp_device_wait_submitted(struct bp_device *device, const struct bp_deadline *until)
{
    for (struct bp_timeline *t = atomic_load(&device->timelines); t; t = t->next) {
        char names[512];
        if (t->is_inline || t->queue) continue;
        if (bp_timeline_wait(t, atomic_load(&t->submitted), until) != BP_ERR_TIMEOUT) continue;
        bp_timeline_describe(t, UINT64_MAX, names, sizeof names);
        return bp_error(BP_ERR_TIMEOUT, "bp_shutdown: not over in time: %s: %s", device->name,
                        names);
    }
    return BP_OK;
}

/* Waits for each stream of the plugin that may have unfinished work separately, so that a failure
 * is attributed to its own stream. A stream whose work is being captured has no work to wait
 * for. */
static enum bp_status device_drain_streams(struct bp_device *device,
                                           const struct bp_deadline *until)
{
    for (struct bp_timeline *t = atomic_load(&device->timelines); t; t = t->next) {
        enum bp_status status;
        if (t->is_inline || t->queue || atomic_load(&t->stream_locked) ||
            bp_timeline_passed(t, atomic_load(&t->submitted)))
            continue;
        status = bp_timeline_drain(t, until);
        if (bp_status_is_of_wait(status)) TRY(status);
    }
    return BP_OK;
}

/* The order matters. First the queues, whose tasks submit work to the plugin. Then the queues of
 * callbacks: a failure that the app receives in a callback is not reported again. Then the plugin's
 * streams, and the device. */
enum bp_status bp_device_drain(struct bp_device *device, const struct bp_deadline *until)
{
    for (struct bp_timeline *t = atomic_load(&device->timelines); t; t = t->next)
        if (t->queue) TRY(bp_timeline_drain(t, until));
    for (struct bp_timeline *t = atomic_load(&device->timelines); t; t = t->next) {
        struct bp_queue *callbacks = atomic_load(&t->callbacks);
        if (callbacks) TRY(bp_queue_flush(callbacks, until));
    }
    if (!(device->emulated & BP_EMULATED_STREAMS) && !bp_device_is_lost(device))
        TRY(device_drain_streams(device, until));
    return bp_device_synchronize_until(device, until);
}
