/* SPDX-License-Identifier: Apache-2.0 */
/* timelines.c: the timelines of a device: made, handed from stream to stream, freed at its end. */
#include "../memory/memory.h"

#include <stdlib.h>

/* The plugin's stream, or the core's queue. */
static enum bp_status open_stream(struct bp_timeline *timeline, bool queue)
{
    struct bp_device *device = timeline->device;
    struct bp_plugin_entry *entry = device->entry;

    if (entry->runtime.stream_create) {
        bp_error_enter();
        TRY(bp_error_leave(
            entry->runtime.stream_create(entry->self, device->index, &timeline->stream),
            entry->plugin.name, "stream_create"));
    }
    if (!queue || timeline->queue) return BP_OK;
    return bp_queue_create(timeline, &timeline->queue);
}

static void close_stream(struct bp_timeline *timeline)
{
    struct bp_device *device = timeline->device;
    struct bp_plugin_entry *entry = device->entry;

    if (entry->runtime.stream_create && timeline->stream)
        entry->runtime.stream_destroy(entry->self, device->index, timeline->stream);
    timeline->stream = NULL;
}

static void free_timeline(struct bp_timeline *timeline)
{
    struct bp_device *device = timeline->device;
    struct bp_plugin_entry *entry = device->entry;
    struct bp_mark *next;

    bp_queue_destroy(timeline->queue);
    for (int pass = 0; pass < 2; pass++)
        for (struct bp_mark *mark = pass ? timeline->spare : timeline->marks; mark; mark = next) {
            next = mark->next;
            entry->runtime.event_destroy(entry->self, device->index, mark->event);
            free(mark);
        }
    close_stream(timeline);
    pthread_mutex_destroy(&timeline->lock);
    free(timeline->failure.why);
    free(timeline->seen);
    free(timeline);
}

/* A spare one of the kind, taken out of reach of others; NULL. */
static struct bp_timeline *take_spare(struct bp_device *device, bool now, bool queue)
{
    struct bp_timeline *found = NULL;

    pthread_mutex_lock(&device->lock);
    for (struct bp_timeline *t = atomic_load(&device->timelines); t && !found; t = t->next)
        if (t->state == BP_TIMELINE_SPARE && t->now == now && !t->queue == !queue) found = t;
    if (found) found->state = BP_TIMELINE_LIVE;
    pthread_mutex_unlock(&device->lock);
    return found;
}

/* What is known of the stream before goes, all but the numbers. */
static void renew(struct bp_timeline *timeline)
{
    pthread_mutex_lock(&timeline->lock);
    timeline->n_seen = 0;
    free(timeline->failure.why);
    timeline->failure.why = NULL;
    atomic_store(&timeline->failure.status, BP_OK);
    pthread_mutex_unlock(&timeline->lock);
}

static struct bp_timeline *make(struct bp_device *device, bool now)
{
    struct bp_timeline *timeline = calloc(1, sizeof *timeline);

    if (!timeline) return NULL;
    timeline->device = device;
    timeline->now = now;
    atomic_init(&timeline->done, now ? UINT64_MAX : 0);
    pthread_mutex_init(&timeline->lock, NULL);
    return timeline;
}

static void link(struct bp_timeline *timeline)
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
    device->host = make(device, true);
    if (!device->host) return bp_error(BP_ERR_MEMORY, "%s: no memory", device->name);
    link(device->host);
    return BP_OK;
}

enum bp_status bp_timeline_create(struct bp_device *device, bool now, bool queue,
                                  struct bp_timeline **out_timeline)
{
    struct bp_timeline *timeline;
    enum bp_status status;

    bp_timelines_poll(device);
    timeline = take_spare(device, now, queue);
    if (timeline) renew(timeline);
    else {
        timeline = make(device, now);
        if (!timeline) return bp_error(BP_ERR_MEMORY, "bp_stream_create: no memory");
        link(timeline);
    }
    status = open_stream(timeline, queue);
    if (status) {
        bp_timeline_retire(timeline);
        return status;
    }
    *out_timeline = timeline;
    return BP_OK;
}

static void set_state(struct bp_timeline *timeline, uint32_t state)
{
    pthread_mutex_lock(&timeline->device->lock);
    timeline->state = state;
    pthread_mutex_unlock(&timeline->device->lock);
}

/* What it waits for must have ended too: a later stream does not come after that. */
static bool is_over(struct bp_timeline *timeline)
{
    if (timeline->queue && !bp_queue_idle(timeline->queue)) return false;
    return bp_timeline_poll(timeline, atomic_load(&timeline->submitted)) &&
           bp_timeline_waits_passed(timeline, true);
}

/* Nobody else touches a retiring timeline but by polls. */
void bp_timeline_retire(struct bp_timeline *timeline)
{
    if (!is_over(timeline)) {
        set_state(timeline, BP_TIMELINE_RETIRING);
        return;
    }
    close_stream(timeline);
    set_state(timeline, BP_TIMELINE_SPARE);
}

/* One that is over, taken into the caller's hands. */
static struct bp_timeline *take_retired(struct bp_device *device)
{
    struct bp_timeline *t;

    pthread_mutex_lock(&device->lock);
    for (t = atomic_load(&device->timelines); t; t = t->next)
        if (t->state == BP_TIMELINE_RETIRING &&
            bp_timeline_passed(t, atomic_load(&t->submitted)) &&
            bp_timeline_waits_passed(t, false) && (!t->queue || bp_queue_idle(t->queue)))
            break;
    if (t) t->state = BP_TIMELINE_LIVE;
    pthread_mutex_unlock(&device->lock);
    return t;
}

void bp_timelines_poll(struct bp_device *device)
{
    struct bp_timeline *t;

    for (t = atomic_load(&device->timelines); t; t = t->next) {
        uint32_t state;
        pthread_mutex_lock(&device->lock);
        state = t->state;
        pthread_mutex_unlock(&device->lock);
        if (state != BP_TIMELINE_RETIRING) continue;
        bp_timeline_poll(t, atomic_load(&t->submitted));
        bp_timeline_waits_passed(t, true);
    }
    while ((t = take_retired(device))) {
        close_stream(t);
        set_state(t, BP_TIMELINE_SPARE);
    }
}

void bp_timelines_finish(struct bp_device *device)
{
    struct bp_timeline *next;

    for (struct bp_timeline *t = atomic_load(&device->timelines); t; t = next) {
        next = t->next;
        free_timeline(t);
    }
}

enum bp_status bp_snapshot_take(struct bp_device *device, struct bp_timeline *only,
                                struct bp_snapshot *out_snapshot)
{
    struct bp_timeline *t = only ? only : atomic_load(&device->timelines);

    *out_snapshot = (struct bp_snapshot){0};
    for (; t; t = only ? NULL : t->next)
        if (!t->now &&
            !bp_users_add(&out_snapshot->users, t,
                          atomic_load_explicit(&t->submitted, memory_order_acquire))) {
            bp_snapshot_finish(out_snapshot);
            return bp_error(BP_ERR_MEMORY, "%s: no memory to wait for its streams", device->name);
        }
    return BP_OK;
}

void bp_snapshot_reached(const struct bp_snapshot *snapshot)
{
    const struct bp_users *users = &snapshot->users;

    for (uint32_t i = 0; i < users->n; i++) {
        const struct bp_user *user = i < BP_USERS ? &users->at[i] : &users->more[i - BP_USERS];
        if (!user->timeline->queue) bp_timeline_reached(user->timeline, user->number);
    }
}

void bp_snapshot_finish(struct bp_snapshot *snapshot)
{
    bp_users_finish(&snapshot->users);
}
