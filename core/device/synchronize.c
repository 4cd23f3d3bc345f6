/* SPDX-License-Identifier: Apache-2.0 */
/* synchronize.c: the plugin's synchronize, of a stream or of the device. It knows no deadline:
 * where there is one it is called on a thread of its own, and goes on if it is not over by then. */
#include "../base/activity.h"
#include "device.h"

#include <stdlib.h>

struct synchronizing {
    struct bp_device *device;
    struct bp_timeline *timeline; /* NULL: of the whole device */
    struct bp_timeline *turn;     /* whose turn it has; NULL: none is needed */
    struct bp_snapshot snapshot;
};

/* A plugin tells of a failure once: who waits for a stream at the same time waits until that has
 * been kept. Threads that wait aside would be ever more without it. */
static enum bp_status take_turn(struct bp_timeline *turn, const struct bp_deadline *until,
                                const struct bp_timeline *timeline)
{
    bool in_time = true, mine;

    pthread_mutex_lock(&turn->lock);
    while (turn->waited && in_time) in_time = bp_deadline_wait(&turn->turn, &turn->lock, until);
    mine = !turn->waited;
    turn->waited = true;
    pthread_mutex_unlock(&turn->lock);
    if (mine) return BP_OK;
    return bp_deadline_missed(turn->device, timeline, UINT64_MAX, until);
}

static void end_turn(struct bp_timeline *turn)
{
    pthread_mutex_lock(&turn->lock);
    turn->waited = false;
    pthread_cond_broadcast(&turn->turn);
    pthread_mutex_unlock(&turn->lock);
}

static enum bp_status sync_call(struct synchronizing *s)
{
    struct bp_device *device = s->device;
    struct bp_plugin_entry *entry = device->entry;
    uint32_t note = bp_wait_note(device, s->timeline, UINT64_MAX);
    enum bp_status status;

    bp_error_enter();
    status = entry->runtime.synchronize(entry->self, device->index,
                                        s->timeline ? s->timeline->stream : NULL);
    bp_activity_leave(note);
    status = bp_device_leave(device, status, "synchronize");
    if (s->timeline) bp_timeline_fail(s->timeline, status);
    else bp_device_fail(device, status);
    if (status == BP_OK || !bp_is_of_the_wait(status)) bp_snapshot_reached(&s->snapshot);
    return status;
}

static void sync_finish(struct synchronizing *s)
{
    bp_snapshot_finish(&s->snapshot);
    if (s->turn) end_turn(s->turn);
    if (s->timeline) bp_timeline_let(s->timeline);
}

/* Who waited for it may have gone, and have given the device back. */
static enum bp_status call_aside(void *ctx)
{
    struct synchronizing *s = ctx;
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

static enum bp_status call_until(struct synchronizing *s, const struct bp_deadline *until)
{
    struct synchronizing *copy = malloc(sizeof *copy);
    enum bp_status status;
    bool begun = false, late = false;

    if (!copy) {
        sync_finish(s);
        return bp_error(BP_ERR_MEMORY, "%s: no memory for a wait", s->device->name);
    }
    *copy = *s;
    bp_device_retain(s->device);
    status = bp_run_aside(call_aside, copy, until, &begun, &late);
    if (!begun) {
        sync_finish(copy);
        free(copy);
        bp_device_release(s->device);
    }
    return late ? bp_deadline_missed(s->device, s->timeline, UINT64_MAX, until) : status;
}

static enum bp_status sync_synchronize(struct synchronizing *s, struct bp_timeline *only,
                                       const struct bp_deadline *until)
{
    enum bp_status status = BP_OK;

    if (s->turn) status = take_turn(s->turn, until, s->timeline);
    if (status) {
        if (s->timeline) bp_timeline_let(s->timeline);
        return status;
    }
    status = bp_snapshot_take(s->device, only, &s->snapshot);
    if (status == BP_OK && bp_deadline_is(until)) return call_until(s, until);
    if (status == BP_OK) status = sync_call(s);
    sync_finish(s);
    return status;
}

enum bp_status bp_timeline_synchronize(struct bp_timeline *timeline,
                                       const struct bp_deadline *until)
{
    struct bp_device *device = timeline->device;
    struct synchronizing s = {.device = device, .timeline = timeline, .turn = timeline};
    bool open;

    TRY(bp_device_check_lost(device));
    TRY(bp_timeline_hold(timeline, until, &open));
    if (!open) return BP_OK;
    return sync_synchronize(&s, device->emulated & BP_EMULATED_STREAMS ? NULL : timeline, until);
}

/* Failures of any stream come here on a device whose plugin has no better word for it. */
enum bp_status bp_device_synchronize_until(struct bp_device *device,
                                           const struct bp_deadline *until)
{
    struct synchronizing s = {.device = device,
                              .turn = bp_deadline_is(until) ? device->host : NULL};
    enum bp_status status;

    if (bp_device_is_lost(device)) return BP_OK;
    status = sync_synchronize(&s, NULL, until);
    return bp_is_of_the_wait(status) ? status : BP_OK;
}
