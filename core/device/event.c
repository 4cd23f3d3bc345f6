/* SPDX-License-Identifier: Apache-2.0 */
/* event.c: a point in a stream's timeline. Where the plugin has no events, waiting for one waits
 * for its stream; on an inline device every recorded event is complete. */
#include "device.h"

#include <stdlib.h>

struct bp_event {
    uint32_t magic;
    struct bp_device *device;
    void *handle;             /* the plugin's, or NULL */
    pthread_mutex_t lock;     /* the two below */
    struct bp_stream *stream; /* where it was recorded, a reference; NULL: never */
    uint64_t number;          /* of the last work before it */
};

static bool event_is(const struct bp_event *event)
{
    return event && event->magic == BP_MAGIC_EVENT;
}

static bool has_events(const struct bp_device *device)
{
    return !(device->emulated & BP_EMULATED_EVENTS);
}

enum bp_status bp_event_create(struct bp_device *device, struct bp_event **out_event)
{
    struct bp_plugin_entry *entry;
    struct bp_event *event;
    enum bp_status status = BP_OK;

    if (!bp_device_is(device)) return bp_not_a("device");
    if (!out_event) return bp_error(BP_ERR_INVALID, "bp_event_create: out_event is NULL");
    event = calloc(1, sizeof *event);
    if (!event) return bp_error(BP_ERR_MEMORY, "bp_event_create: no memory");
    entry = device->entry;
    if (has_events(device)) {
        bp_error_enter();
        status = bp_error_leave(
            entry->runtime.event_create(entry->self, device->index, &event->handle),
            entry->plugin.name, "event_create");
    }
    if (status) {
        free(event);
        return status;
    }
    event->magic = BP_MAGIC_EVENT;
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
    if (has_events(device))
        device->entry->runtime.event_destroy(device->entry->self, device->index, event->handle);
    if (event->stream) bp_stream_release(event->stream);
    pthread_mutex_destroy(&event->lock);
    event->magic = 0;
    free(event);
    bp_device_release(device);
}

enum bp_status bp_event_record(struct bp_event *event, struct bp_stream *stream)
{
    struct bp_plugin_entry *entry;
    struct bp_stream *before;

    if (!event_is(event)) return bp_not_a("event");
    if (!bp_stream_is(stream)) return bp_not_a("stream");
    if (event->device != stream->device)
        return bp_error(BP_ERR_INVALID,
                        "bp_event_record: the event is of %s, the stream of %s; make the event "
                        "from the stream's device",
                        event->device->name, stream->device->name);
    TRY(bp_stream_check(stream));
    entry = event->device->entry;
    if (has_events(event->device)) {
        bp_error_enter();
        TRY(bp_error_leave(entry->runtime.event_record(entry->self, event->device->index,
                                                       stream->handle, event->handle),
                           entry->plugin.name, "event_record"));
    }
    atomic_fetch_add_explicit(&stream->refs, 1, memory_order_relaxed);
    pthread_mutex_lock(&event->lock);
    before = event->stream;
    event->stream = stream;
    event->number = atomic_load(&stream->last);
    pthread_mutex_unlock(&event->lock);
    if (before) bp_stream_release(before);
    return BP_OK;
}

/* The stream of a recorded event, with a reference. */
static enum bp_status recorded(const char *call, struct bp_event *event,
                               struct bp_stream **out_stream)
{
    if (!event_is(event)) return bp_not_a_for(call, "event");
    pthread_mutex_lock(&event->lock);
    *out_stream = event->stream;
    if (event->stream) atomic_fetch_add_explicit(&event->stream->refs, 1, memory_order_relaxed);
    pthread_mutex_unlock(&event->lock);
    if (*out_stream) return BP_OK;
    return bp_error(BP_ERR_INVALID, "%s: the event was never recorded: call bp_event_record first",
                    event->device->name);
}

/* Asks whether the event has come, or waits for it. */
static enum bp_status reach(const char *call, struct bp_event *event, bool wait,
                            uint64_t timeout_ns)
{
    const struct bp_runtime *r;
    struct bp_plugin_entry *entry;
    struct bp_stream *stream;
    enum bp_status status;
    uint32_t index;

    TRY(recorded(call, event, &stream));
    entry = event->device->entry;
    index = event->device->index;
    r = &entry->runtime;
    if (!has_events(event->device)) {
        status = bp_stream_drain(stream);
    } else {
        bp_error_enter();
        status = wait ? r->event_wait(entry->self, index, event->handle, timeout_ns)
                      : r->event_query(entry->self, index, event->handle);
        if (status != BP_ERR_BUSY)
            bp_error_leave(status, entry->plugin.name, wait ? "event_wait" : "event_query");
        bp_stream_waited(stream, status);
    }
    bp_stream_release(stream);
    return status;
}

enum bp_status bp_event_query(struct bp_event *event)
{
    return reach(__func__, event, false, 0);
}

enum bp_status bp_event_wait(struct bp_event *event, uint64_t timeout_ns)
{
    return reach(__func__, event, true, timeout_ns);
}

/* The streams of a device without streams share one order: there is nothing to wait for. */
enum bp_status bp_stream_wait(struct bp_stream *stream, struct bp_event *event)
{
    struct bp_plugin_entry *entry;
    struct bp_stream *source;
    bool ordered;

    if (!bp_stream_is(stream)) return bp_not_a("stream");
    TRY(recorded(__func__, event, &source));
    ordered = source == stream ||
              (source->device == stream->device && stream->device->emulated & BP_EMULATED_STREAMS);
    bp_stream_release(source);
    TRY(bp_stream_check(stream));
    if (ordered) return BP_OK;
    entry = stream->device->entry;
    if (event->device != stream->device || !entry->runtime.stream_wait ||
        !has_events(event->device))
        return bp_event_wait(event, UINT64_MAX);
    bp_error_enter();
    return bp_error_leave(entry->runtime.stream_wait(entry->self, stream->device->index,
                                                     stream->handle, event->handle),
                          entry->plugin.name, "stream_wait");
}
