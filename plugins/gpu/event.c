/* SPDX-License-Identifier: Apache-2.0 */
/* event.c: implements events by the driver's events. An event also records up to which launch of
 * its stream faults are known once the event is reached. */
#include "gpu.h"

struct gpu_event {
    void *raw;            /* the driver's event */
    struct kit_mark mark; /* the launches before the event */
};

unsigned gpu_event_flags(const struct gpu *gpu)
{
    return GPU_NO_TIMING | (gpu->blocks ? GPU_EVENT_BLOCKS : 0);
}

void *gpu_event_raw(void *event)
{
    return ((struct gpu_event *)event)->raw;
}

enum bp_status gpu_event_create(void *self, uint32_t index, void **out_event)
{
    const struct bp_host *host = ((struct gpu *)self)->host;
    struct gpu_event *event;
    KIT_CONTEXT caller = {NULL};
    struct gpu_device *device;
    enum bp_status status;

    TRY(gpu_device_use(self, index, &caller, &device));
    event = host->allocate(host->ctx, sizeof *event, _Alignof(struct gpu_event));
    if (!event)
        return bp_fail(host, BP_ERR_MEMORY, GPU_NAME ":%u: no memory for an event", index);
    *event = (struct gpu_event){.raw = NULL};
    status = GPU_CALL(device, event_create, &event->raw, gpu_event_flags(self));
    if (status == BP_OK) *out_event = event;
    else host->release(host->ctx, event, sizeof *event);
    return status;
}

void gpu_event_destroy(void *self, uint32_t index, void *event)
{
    KIT_CONTEXT caller = {NULL};
    struct gpu_device *device = gpu_device_reuse(self, index, &caller);
    const struct bp_host *host = device->gpu->host;

    GPU_NOTE(device, event_destroy, gpu_event_raw(event));
    host->release(host->ctx, event, sizeof(struct gpu_event));
}

enum bp_status gpu_event_record(void *self, uint32_t index, void *p, void *q)
{
    struct gpu_event *event = q;
    struct gpu_stream *stream = p;
    KIT_CONTEXT caller = {NULL};
    struct gpu_device *device;
    struct kit_mark mark;

    TRY(gpu_device_use(self, index, &caller, &device));
    mark = kit_mark_make(&stream->kit);
    TRY(GPU_CALL(device, event_record, event->raw, stream->raw));
    event->mark = mark;
    return BP_OK;
}

/* Reports the faults of the launches before the event. The event has been reached. */
static enum bp_status event_report(struct gpu_device *device, const struct gpu_event *event)
{
    enum bp_status status = BP_OK;
    struct kit_stream *stream;

    if (!event->mark.launched) return BP_OK;
    pthread_mutex_lock(&device->streams.lock);
    stream = kit_stream_find(&device->streams, event->mark.stream);
    if (stream) status = gpu_stream_faults((struct gpu_stream *)stream, event->mark.launched);
    pthread_mutex_unlock(&device->streams.lock);
    return status;
}

enum bp_status gpu_event_query(void *self, uint32_t index, void *event)
{
    KIT_CONTEXT caller = {NULL};
    struct gpu_device *device;
    int code;

    TRY(gpu_device_use(self, index, &caller, &device));
    code = device->gpu->call.event_query(gpu_event_raw(event));
    if (code == GPU_NOT_READY) return BP_ERR_NOT_READY;
    TRY(gpu_check(device->gpu, device, GPU_CALL_event_query, code));
    return event_report(device, event);
}

/* The drivers can wait without a limit (spinning or asleep, as the event was created) or not at
 * all. */
enum bp_status gpu_event_wait(void *self, uint32_t index, void *event, uint64_t timeout_ns)
{
    KIT_CONTEXT caller = {NULL};
    struct gpu_device *device;

    TRY(gpu_device_use(self, index, &caller, &device));
    if (timeout_ns != UINT64_MAX)
        return kit_event_wait(&device->report, gpu_event_query, self, event, timeout_ns);
    TRY(GPU_CALL(device, event_synchronize, gpu_event_raw(event)));
    return event_report(device, event);
}
