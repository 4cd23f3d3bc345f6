/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c: creates streams and events, waits for them, and reports the faults that operators have
 * written into the words of a stream. Read next: rows.c. */
#include "acme.h"
#include <string.h>

struct acme_event {
    void *raw;
    struct kit_mark mark; /* the launches before the event */
};

static void stream_drop(struct acme_stream *stream)
{
    struct acme_device *device = stream->device;
    const struct bp_host *host = device->acme->host;

    if (stream->raw) ACME_NOTE(device, acmeStreamDestroy, stream->raw);
    if (stream->words) ACME_NOTE(device, acmeHostFree, stream->words);
    pthread_mutex_destroy(&stream->kit.lock);
    host->release(host->ctx, stream, sizeof *stream);
}

static enum bp_status stream_fill(struct acme_stream *stream)
{
    enum {
        SIZE = KIT_FAULTS * sizeof(uint32_t)
    };
    void *words = NULL;

    TRY(ACME_CALL(stream->device, acmeStreamCreate, &stream->raw));
    TRY(ACME_CALL(stream->device, acmeHostMalloc, &words, SIZE));
    stream->words = memset(words, 0, SIZE);
    return BP_OK;
}

enum bp_status acme_stream_create(void *self, uint32_t index, void **out_stream)
{
    const struct bp_host *host = ((struct acme *)self)->host;
    KIT_CONTEXT caller = {NULL};
    struct acme_device *device;
    struct acme_stream *stream;
    enum bp_status status;

    TRY(acme_use(self, index, &caller, &device));
    stream = host->allocate(host->ctx, sizeof *stream, _Alignof(struct acme_stream));
    if (!stream) return bp_fail(host, BP_ERR_MEMORY, "acme:%u: no memory for a stream", index);
    *stream = (struct acme_stream){.device = device};
    pthread_mutex_init(&stream->kit.lock, NULL);
    status = stream_fill(stream);
    if (status) {
        stream_drop(stream);
        return status;
    }
    kit_stream_add(&device->streams, &stream->kit);
    *out_stream = stream;
    return BP_OK;
}

void acme_stream_destroy(void *self, uint32_t index, void *stream)
{
    KIT_CONTEXT caller = {NULL};
    struct acme_device *device;

    acme_use(self, index, &caller, &device); /* a lost device still destroys */
    kit_stream_remove(&device->streams, stream);
    stream_drop(stream);
}

/* Waits for the stream and reports the faults of its launches. */
static enum bp_status stream_join(struct acme_stream *stream)
{
    struct acme_device *device = stream->device;

    TRY(ACME_CALL(device, acmeStreamSynchronize, stream->raw));
    return kit_fault_report(&device->report, &stream->kit, stream->words, UINT64_MAX);
}

enum bp_status acme_synchronize(void *self, uint32_t index, void *stream)
{
    enum bp_status status = BP_OK;
    KIT_CONTEXT caller = {NULL};
    struct acme_device *device;

    TRY(acme_use(self, index, &caller, &device));
    if (stream) return stream_join(stream);
    pthread_mutex_lock(&device->streams.lock);
    for (struct kit_stream *k = device->streams.first; k; k = k->next) {
        enum bp_status found = stream_join((struct acme_stream *)k);
        if (!status) status = found;
    }
    pthread_mutex_unlock(&device->streams.lock);
    return status;
}

enum bp_status acme_event_create(void *self, uint32_t index, void **out_event)
{
    const struct bp_host *host = ((struct acme *)self)->host;
    KIT_CONTEXT caller = {NULL};
    struct acme_device *device;
    struct acme_event *event;
    enum bp_status status;

    TRY(acme_use(self, index, &caller, &device));
    event = host->allocate(host->ctx, sizeof *event, _Alignof(struct acme_event));
    if (!event) return bp_fail(host, BP_ERR_MEMORY, "acme:%u: no memory for an event", index);
    *event = (struct acme_event){.raw = NULL};
    status = ACME_CALL(device, acmeEventCreate, &event->raw);
    if (status) host->release(host->ctx, event, sizeof *event);
    else *out_event = event;
    return status;
}

void acme_event_destroy(void *self, uint32_t index, void *p)
{
    const struct bp_host *host = ((struct acme *)self)->host;
    struct acme_event *event = p;
    KIT_CONTEXT caller = {NULL};
    struct acme_device *device;

    acme_use(self, index, &caller, &device);
    ACME_NOTE(device, acmeEventDestroy, event->raw);
    host->release(host->ctx, event, sizeof *event);
}

enum bp_status acme_event_record(void *self, uint32_t index, void *stream, void *p)
{
    struct acme_event *event = p;
    KIT_CONTEXT caller = {NULL};
    struct acme_device *device;

    TRY(acme_use(self, index, &caller, &device));
    event->mark = kit_mark_make(stream);
    return ACME_CALL(device, acmeEventRecord, event->raw, ((struct acme_stream *)stream)->raw);
}

/* The event has been reached: reports the faults of the launches before it. Its stream may be
 * destroyed. */
static enum bp_status event_faults(struct acme_device *device, const struct kit_mark *mark)
{
    enum bp_status status = BP_OK;
    struct kit_stream *k;

    pthread_mutex_lock(&device->streams.lock);
    k = kit_stream_find(&device->streams, mark->stream);
    if (k)
        status = kit_fault_report(&device->report, k, ((struct acme_stream *)k)->words,
                                  mark->launched);
    pthread_mutex_unlock(&device->streams.lock);
    return status;
}

enum bp_status acme_event_query(void *self, uint32_t index, void *p)
{
    struct acme_event *event = p;
    KIT_CONTEXT caller = {NULL};
    struct acme_device *device;
    int code;

    TRY(acme_use(self, index, &caller, &device));
    code = device->acme->call->acmeEventQuery(event->raw);
    if (code == ACME_NOT_READY) return BP_ERR_NOT_READY; /* no message */
    TRY(acme_check(device, "acmeEventQuery", code));
    return event_faults(device, &event->mark);
}

enum bp_status acme_event_wait(void *self, uint32_t index, void *event, uint64_t timeout_ns)
{
    const struct kit_report *report = &((struct acme *)self)->device[index].report;

    return kit_event_wait(report, acme_event_query, self, event, timeout_ns);
}

enum bp_status acme_stream_wait(void *self, uint32_t index, void *stream, void *event)
{
    KIT_CONTEXT caller = {NULL};
    struct acme_device *device;

    TRY(acme_use(self, index, &caller, &device));
    return ACME_CALL(device, acmeStreamWaitEvent, ((struct acme_stream *)stream)->raw,
                     ((struct acme_event *)event)->raw);
}
