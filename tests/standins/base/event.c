/* SPDX-License-Identifier: Apache-2.0 */
/* event.c: simulates events: a record is a mark, which a work item of the stream sets. */
#include "internal.h"
#include <stdlib.h>

const char base_event_kind[] = "event";

static void mark_drop(struct base_mark *mark)
{
    if (mark && !--mark->refs) free(mark);
}

struct base_event *base_event_create(struct base_device *device, void *owner, uint32_t flags)
{
    struct base_event *event = base_handle_create(base_event_kind, sizeof *event);

    if (!event) return NULL;
    event->device = device;
    event->owner = owner;
    event->flags = flags;
    return event;
}

bool base_event_is(const void *handle)
{
    return base_handle_is(handle, base_event_kind);
}

uint32_t base_event_flags(const struct base_event *event)
{
    return event->flags;
}

void *base_event_owner(const struct base_event *event)
{
    return event->owner;
}

struct base_device *base_event_device(const struct base_event *event)
{
    return event->device;
}

void base_event_destroy(struct base_event *event)
{
    mark_drop(event->mark);
    base_handle_destroy(event);
}

bool base_event_was_recorded(const struct base_event *event)
{
    return event->mark || event->capture;
}

/* A mark is set even on a lost device, so that waits end. */
static int mark_run(void *data, int code)
{
    struct base_mark *mark = *(struct base_mark **)data;

    base_lock();
    mark->done = true;
    clock_gettime(CLOCK_MONOTONIC, &mark->time);
    pthread_cond_broadcast(&base.moved);
    base_unlock();
    return code;
}

static void mark_release(void *data)
{
    mark_drop(*(struct base_mark **)data);
}

static const struct base_work mark_work = {mark_run, mark_release};

int base_event_record(struct base_event *event, struct base_stream *stream)
{
    struct base_mark *mark;
    int code;

    if (stream->capture) {
        if (base_capture_state(stream) == BASE_CAPTURE_INVALID) return BASE_INVALIDATED;
        mark_drop(event->mark);
        event->mark = NULL;
        event->capture = base_capture_number(stream->capture);
        event->clock = stream->clock;
        return BASE_OK;
    }
    mark = calloc(1, sizeof *mark);
    if (!mark) return BASE_NO_MEMORY;
    mark->refs = 2;
    code = base_submit(stream, &mark_work, &mark, sizeof mark);
    if (code) {
        mark_drop(mark);
        return code;
    }
    mark_drop(event->mark);
    event->mark = mark;
    event->capture = 0;
    return BASE_OK;
}

/* A wait for an event of a capture would never end: it makes the capture invalid. */
static int event_check(const struct base_event *event)
{
    struct base_capture *capture = event->capture ? base_capture_numbered(event->capture) : NULL;

    return capture ? base_capture_spoil(capture) : BASE_OK;
}

int base_event_query(struct base_event *event)
{
    int code = event_check(event);

    if (code) return code;
    if (event->device->sticky) return event->device->sticky;
    return event->mark && !event->mark->done ? BASE_PENDING : BASE_OK;
}

int base_event_wait(struct base_event *event, int ms)
{
    struct timespec deadline = base_deadline(ms < 0 ? 0 : ms);
    struct base_device *device = event->device;
    struct base_mark *mark = event->mark;
    int code = event_check(event);

    if (code) return code;
    if (!mark) return device->sticky;
    mark->refs++;
    while (!mark->done && !code)
        if (!base_wait(ms < 0 ? NULL : &deadline)) code = BASE_TIMEOUT;
    mark_drop(mark);
    return code ? code : device->sticky;
}

static int wait_run(void *data, int code)
{
    struct base_mark *mark = *(struct base_mark **)data;

    base_lock();
    while (!mark->done) base_wait(NULL);
    base_unlock();
    return code;
}

static const struct base_work wait_work = {wait_run, mark_release};

int base_stream_wait_event(struct base_stream *stream, struct base_event *event)
{
    if (event->capture && base_capture_numbered(event->capture))
        return base_capture_join(stream, event);
    if (stream->capture) {
        if (!event->mark || event->mark->done) return BASE_OK;
        base_capture_spoil(stream->capture);
        return BASE_ISOLATION;
    }
    if (!event->mark || event->mark->done) return BASE_OK;
    event->mark->refs++;
    return base_submit(stream, &wait_work, &event->mark, sizeof event->mark);
}

int base_event_elapsed(const struct base_event *from, const struct base_event *to, float *out)
{
    const struct base_mark *a = from->mark, *b = to->mark;

    if (!a || !b) return BASE_BAD;
    if (!a->done || !b->done) return BASE_PENDING;
    *out = (float)((double)(b->time.tv_sec - a->time.tv_sec) * 1e3 +
                   (double)(b->time.tv_nsec - a->time.tv_nsec) * 1e-6);
    return BASE_OK;
}
