/* SPDX-License-Identifier: Apache-2.0 */
/* profile.c: makes records of a device's work from the times of OpenCL's events. While a profiler
 * records, each command that is enqueued has an event, which is kept until the command has
 * ended. */
#include "xpu.h"

#include <stdlib.h>
#include <string.h>

enum {
    AT_ONCE = 64,   /* records that are handed over at once */
    DRAINED = 1024, /* events after which those that have ended are handed over */
};

struct xpu_kept_event {
    cl_event event;
    struct bp_record record; /* without times */
};

static _Thread_local uint64_t current_tag;

void xpu_profile_init(struct xpu_device *d)
{
    pthread_mutex_init(&d->profile.lock, NULL);
}

void xpu_profile_finish(struct xpu_device *d)
{
    pthread_mutex_destroy(&d->profile.lock);
}

void xpu_profile_add(struct xpu_stream *s, cl_event event, uint32_t kind, const char *name,
                     uint64_t bytes)
{
    struct xpu_profile *p = &s->device->profile;
    struct xpu_kept_event kept = {event,
                                  {.tag = current_tag, .name = name, .bytes = bytes, .kind = kind}};
    bool due = false;

    kept.record.stream = s == s->device->common ? NULL : s;
    pthread_mutex_lock(&p->lock);
    if (p->n == p->room) {
        size_t room = p->room ? 2 * p->room : DRAINED;
        struct xpu_kept_event *more = realloc(p->kept, room * sizeof *more);
        if (more) {
            p->kept = more;
            p->room = room;
        }
    }
    if (p->n < p->room) {
        p->kept[p->n++] = kept;
        event = NULL;
        due = p->n % DRAINED == 0;
    }
    pthread_mutex_unlock(&p->lock);
    if (event) s->device->self->call->clReleaseEvent(event); /* no memory: the record is lost */
    if (due) xpu_profile_drain(s->device);
}

/* Whether the command has ended; *out_good false: it failed, and has no times. */
static bool event_has_ended(const struct xpu_calls *call, cl_event event, bool *out_good)
{
    cl_int state = CL_QUEUED;

    if (call->clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL))
        state = -1;
    *out_good = state == CL_COMPLETE;
    return state <= CL_COMPLETE;
}

static bool event_times(const struct xpu_calls *call, cl_event event, struct bp_record *record)
{
    cl_ulong begin, end;

    if (call->clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof begin, &begin,
                                      NULL) ||
        call->clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL))
        return false;
    record->begin_ns = begin;
    record->end_ns = end;
    return true;
}

void xpu_profile_drain(struct xpu_device *d)
{
    const struct xpu_calls *call = d->self->call;
    struct xpu_profile *p = &d->profile;
    struct bp_record batch[AT_ONCE];
    size_t n = 0, left = 0;

    pthread_mutex_lock(&p->lock);
    for (size_t i = 0; i < p->n; i++) {
        struct xpu_kept_event *kept = &p->kept[i];
        bool good;
        if (!event_has_ended(call, kept->event, &good)) {
            p->kept[left++] = *kept;
            continue;
        }
        if (good && event_times(call, kept->event, &kept->record)) batch[n++] = kept->record;
        call->clReleaseEvent(kept->event);
        if (n == AT_ONCE) {
            p->sink.put(p->sink.ctx, batch, n, sizeof *batch);
            n = 0;
        }
    }
    p->n = left;
    if (n) p->sink.put(p->sink.ctx, batch, n, sizeof *batch);
    pthread_mutex_unlock(&p->lock);
}

static enum bp_status profile_start(void *p, uint32_t device, const struct bp_record_sink *sink)
{
    struct xpu *self = p;
    struct xpu_device *d = &self->device[device];

    d->profile.sink = *sink;
    atomic_store(&d->profile.on, true);
    return BP_OK;
}

static void profile_stop(void *p, uint32_t device)
{
    struct xpu *self = p;
    struct xpu_device *d = &self->device[device];
    struct xpu_profile *profile = &d->profile;

    atomic_store(&profile->on, false);
    xpu_profile_drain(d);
    pthread_mutex_lock(&profile->lock);
    for (size_t i = 0; i < profile->n; i++) self->call->clReleaseEvent(profile->kept[i].event);
    free(profile->kept);
    profile->kept = NULL;
    profile->n = profile->room = 0;
    pthread_mutex_unlock(&profile->lock);
}

static enum bp_status profile_flush(void *p, uint32_t device)
{
    struct xpu *self = p;

    xpu_profile_drain(&self->device[device]);
    return BP_OK;
}

/* The end of an empty command, which has just ended. */
static enum bp_status profile_clock(void *p, uint32_t device, uint64_t *out_ns)
{
    struct xpu *self = p;
    struct xpu_device *d = &self->device[device];
    struct bp_record record;
    cl_event event;
    bool known;

    TRY(XPU_CALL(d, clEnqueueMarkerWithWaitList, d->common->queue, 0, NULL, &event));
    self->call->clWaitForEvents(1, &event);
    known = event_times(self->call, event, &record);
    self->call->clReleaseEvent(event);
    if (!known) return bp_fail(self->host, BP_ERR_DEVICE, "xpu:%u: an event has no times", device);
    *out_ns = record.end_ns;
    return BP_OK;
}

static void profile_tag(void *p, uint32_t device, void *stream, uint64_t tag)
{
    (void)p;
    (void)device;
    (void)stream;
    current_tag = tag;
}

const struct bp_profilers xpu_profilers = {
    .size = sizeof xpu_profilers,
    .start = profile_start,
    .stop = profile_stop,
    .flush = profile_flush,
    .clock = profile_clock,
    .tag = profile_tag,
};
