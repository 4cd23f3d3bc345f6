/* SPDX-License-Identifier: Apache-2.0 */
/* event.c: implements events as numbers on a timeline. If the plugin needs a native event, it is a
 * fence of the timeline. */
#include "device.h"

#include <stdlib.h>

struct bp_event {
    uint32_t magic;
    struct bp_device *device;
    pthread_mutex_t lock;         /* guards the two below */
    struct bp_timeline *timeline; /* where it was recorded; NULL: never */
    uint64_t number;              /* of the last work before it */
};

static bool event_is(const struct bp_event *event)
{
    return bp_magic_is(event ? event->magic : 0, BP_MAGIC_EVENT);
}

enum bp_status bp_event_create(struct bp_device *device, struct bp_event **out_event)
{
    struct bp_event *event;

    if (!bp_device_is(device)) return bp_not_a("device");
    if (!out_event) return bp_error(BP_ERR_INVALID, "bp_event_create: out_event is NULL");
    event = bp_handle_alloc(sizeof *event);
    if (!event) return bp_error(BP_ERR_MEMORY, "bp_event_create: no memory");
    event->magic = bp_magic(BP_MAGIC_EVENT);
    event->device = device;
    bp_device_retain(device);
    pthread_mutex_init(&event->lock, NULL);
    *out_event = event;
    return BP_OK;
}

void bp_event_destroy(struct bp_event *event)
{
    struct bp_device *device;

    if (!event_is(event)) return;
    device = event->device;
    pthread_mutex_destroy(&event->lock);
    event->magic = 0;
    free(event);
    bp_device_release(device);
}

/* The recorded timeline may later be reused by another stream. Numbers continue to grow, so the
 * event keeps its meaning. */
enum bp_status bp_event_record(struct bp_event *event, struct bp_stream *stream)
{
    struct bp_timeline *timeline = NULL;
    uint64_t number;

    if (!event_is(event)) return bp_not_a("event");
    if (!bp_stream_is(stream)) return bp_not_a("stream");
    if (event->device != stream->device)
        return bp_error(BP_ERR_INVALID,
                        "bp_event_record: the event is of %s%s, the stream of %s; make the event "
                        "from the stream's device",
                        event->device->name, bp_device_qualifier(event->device, stream->device),
                        stream->device->name);
    TRY(bp_stream_check(stream));
    timeline = stream->timeline;
    number = atomic_load(&timeline->last);
    TRY(bp_timeline_record_fence(timeline, number));
    pthread_mutex_lock(&event->lock);
    event->timeline = timeline;
    event->number = number;
    pthread_mutex_unlock(&event->lock);
    return BP_OK;
}

static enum bp_status event_find_record(const char *call, struct bp_event *event,
                                        struct bp_timeline **out_timeline, uint64_t *out_number)
{
    struct bp_timeline *timeline = NULL;

    if (!event_is(event)) return bp_not_a_for(call, "event");
    pthread_mutex_lock(&event->lock);
    timeline = event->timeline;
    *out_number = event->number;
    pthread_mutex_unlock(&event->lock);
    if (!timeline)
        return bp_error(BP_ERR_INVALID,
                        "%s: the event was never recorded: call bp_event_record first",
                        event->device->name);
    *out_timeline = timeline;
    return BP_OK;
}

/* The work before the event has ended: objects that it used may be released. */
static enum bp_status event_ended(struct bp_timeline *timeline, uint64_t number)
{
    bp_deferred_check(timeline->device, false);
    return bp_timeline_check(timeline, number);
}

enum bp_status bp_event_query(struct bp_event *event)
{
    struct bp_timeline *timeline = NULL;
    struct bp_deadline until;
    uint64_t number = 0;

    TRY(event_find_record(__func__, event, &timeline, &number));
    if (bp_timeline_poll(timeline, number)) return event_ended(timeline, number);
    TRY(bp_timeline_check(timeline, number));
    if (!(event->device->emulated & BP_EMULATED_EVENTS) || timeline->queue)
        return BP_ERR_NOT_READY;
    TRY(bp_block_record(event->device, BP_BLOCK_EVENT_QUERY));
    until = bp_deadline_of(event->device);
    TRY(bp_timeline_report(timeline, number, bp_timeline_wait(timeline, number, &until)));
    return event_ended(timeline, number);
}

enum bp_status bp_event_wait(struct bp_event *event, uint64_t timeout_ns)
{
    struct bp_timeline *timeline = NULL;
    struct bp_deadline until;
    uint64_t number = 0;

    TRY(event_find_record(__func__, event, &timeline, &number));
    until = timeout_ns == UINT64_MAX ? bp_deadline_of(event->device)
                                     : bp_deadline_after(timeout_ns);
    TRY(bp_timeline_report(timeline, number, bp_timeline_wait(timeline, number, &until)));
    return event_ended(timeline, number);
}

/* The event may be of another device, also of another kind. The order is inserted even if the
 * event's work is known to have failed. */
enum bp_status bp_stream_wait(struct bp_stream *stream, struct bp_event *event)
{
    struct bp_timeline *timeline = NULL;
    uint64_t number = 0;

    if (!bp_stream_is(stream)) return bp_not_a("stream");
    TRY(event_find_record(__func__, event, &timeline, &number));
    TRY(bp_stream_check(stream));
    TRY(bp_timeline_order_after(stream->timeline, timeline, number));
    return bp_timeline_check(timeline, number);
}
