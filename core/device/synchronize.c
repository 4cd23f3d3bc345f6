/* SPDX-License-Identifier: Apache-2.0 */
/* synchronize.c: calls the plugin's synchronize for a stream or a device. That function has no
 * timeout, so a wait with a deadline calls it on a separate thread, which continues after the
 * deadline. */
#include "../base/activity.h"
#include "profiled.h"

#include <stdlib.h>

struct sync_request {
    struct bp_device *device;
    struct bp_timeline *timeline; /* NULL: the whole device */
    struct bp_timeline *turn;     /* the timeline whose turn the call holds; NULL: none is needed */
    struct bp_snapshot snapshot;
};

/* A plugin reports a failure only once. A second thread that waits for the same stream therefore
 * waits here until the first one has stored the failure. This also limits the number of separate
 * threads: one for each timeline. */
static enum bp_status sync_begin_turn(struct bp_timeline *turn, const struct bp_deadline *until,
                                      const struct bp_timeline *timeline)
{
    bool in_time = true, mine;

    pthread_mutex_lock(&turn->lock);
    while (turn->synchronizing && in_time)
        in_time = bp_deadline_wait(&turn->turn, &turn->lock, until);
    mine = !turn->synchronizing;
    turn->synchronizing = true;
    pthread_mutex_unlock(&turn->lock);
    if (mine) return BP_OK;
    return bp_deadline_error(turn->device, timeline, UINT64_MAX, until);
}

static void sync_end_turn(struct bp_timeline *turn)
{
    pthread_mutex_lock(&turn->lock);
    turn->synchronizing = false;
    pthread_cond_broadcast(&turn->turn);
    pthread_mutex_unlock(&turn->lock);
}

static enum bp_status sync_call(struct sync_request *s)
{
    struct bp_device *device = s->device;
    struct bp_plugin_entry *entry = device->entry;
    uint32_t note = bp_wait_activity_begin(device, s->timeline, UINT64_MAX);
    uint64_t began = bp_profile_begin();
    enum bp_status status;

    bp_error_enter();
    status = entry->runtime.synchronize(entry->self, device->index,
                                        s->timeline ? s->timeline->stream : NULL);
    bp_activity_end(note);
    if (began) bp_device_profile_put(device, s->timeline, BP_RECORD_WAIT, "synchronize", began);
    status = bp_device_leave(device, status, "synchronize");
    if (s->timeline) bp_timeline_fail(s->timeline, status);
    else bp_device_fail(device, status);
    if (status == BP_OK || !bp_status_is_of_wait(status)) bp_snapshot_advance(&s->snapshot);
    if (status == BP_OK) bp_profile_collect();
    return status;
}

static void sync_finish(struct sync_request *s)
{
    bp_snapshot_finish(&s->snapshot);
    if (s->turn) sync_end_turn(s->turn);
    if (s->timeline) bp_timeline_release_stream(s->timeline);
}

/* The thread that waited may have stopped waiting, and may have released the device. */
static enum bp_status sync_call_detached(void *ctx)
{
    struct sync_request *s = ctx;
    struct bp_device *device = s->device;
    enum bp_status status = sync_call(s);
    char *why = status ? strdup(bp_error_message()) : NULL;

    sync_finish(s);
    free(s);
    bp_device_release(device);
    if (why) bp_error_write("%s", why);
    free(why);
    return status;
}

static enum bp_status sync_call_until(struct sync_request *s, const struct bp_deadline *until)
{
    struct sync_request *copy = malloc(sizeof *copy);
    enum bp_status status;
    bool begun = false, late = false;

    if (!copy) {
        sync_finish(s);
        return bp_error(BP_ERR_MEMORY, "%s: no memory for a wait", s->device->name);
    }
    *copy = *s;
    bp_device_retain(s->device);
    status = bp_thread_run_until(sync_call_detached, copy, until, &begun, &late);
    if (!begun) {
        sync_finish(copy);
        free(copy);
        bp_device_release(s->device);
    }
    return late ? bp_deadline_error(s->device, s->timeline, UINT64_MAX, until) : status;
}

static enum bp_status sync_run(struct sync_request *s, struct bp_timeline *only,
                               const struct bp_deadline *until)
{
    enum bp_status status = BP_OK;

    if (s->turn) status = sync_begin_turn(s->turn, until, s->timeline);
    if (status) {
        if (s->timeline) bp_timeline_release_stream(s->timeline);
        return status;
    }
    status = bp_snapshot_init(s->device, only, &s->snapshot);
    if (status == BP_OK && bp_deadline_is_set(until)) return sync_call_until(s, until);
    if (status == BP_OK) status = sync_call(s);
    sync_finish(s);
    return status;
}

enum bp_status bp_timeline_synchronize(struct bp_timeline *timeline,
                                       const struct bp_deadline *until)
{
    struct bp_device *device = timeline->device;
    struct sync_request s = {.device = device, .timeline = timeline, .turn = timeline};
    bool open;

    TRY(bp_device_check_lost(device));
    TRY(bp_timeline_acquire_stream(timeline, until, &open));
    if (!open) return BP_OK;
    return sync_run(&s, device->emulated & BP_EMULATED_STREAMS ? NULL : timeline, until);
}

/* A plugin that cannot attribute a failure to a stream reports it here, as a failure of the
 * device. */
enum bp_status bp_device_synchronize_until(struct bp_device *device,
                                           const struct bp_deadline *until)
{
    struct sync_request s = {.device = device,
                             .turn = bp_deadline_is_set(until) ? device->host : NULL};
    enum bp_status status;

    if (bp_device_is_lost(device)) return BP_OK;
    status = sync_run(&s, NULL, until);
    return bp_status_is_of_wait(status) ? status : BP_OK;
}
