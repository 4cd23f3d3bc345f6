/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c: creates streams and events, waits for them, and reports the faults that guards of
 * indices have written into the words of a stream (kit/stream.h). The words are on the device; a
 * wait copies them first. */
#include "npu.h"

#include <string.h>

enum {
    WORDS = KIT_FAULTS * sizeof(uint32_t)
};

struct npu_event {
    void *raw;
    uint32_t *words;      /* the words at the event, in pinned memory; NULL: not needed yet */
    struct kit_mark mark; /* the launches before the event; none: they cannot have faults */
};

/* Waits first: the words may not be cleared yet, and of a lost device some work may still go on,
 * for which the core does not wait. */
static void stream_drop(struct npu_stream *stream)
{
    struct npu_device *device = stream->device;
    const struct bp_host *host = device->npu->host;

    if (stream->raw) NPU_NOTE(device, aclrtSynchronizeStream, stream->raw);
    npu_staging_end(stream);
    if (stream->raw) NPU_NOTE(device, aclrtDestroyStream, stream->raw);
    if (stream->words) NPU_NOTE(device, aclrtFree, stream->words);
    if (stream->copied) NPU_NOTE(device, aclrtFreeHost, stream->copied);
    pthread_mutex_destroy(&stream->kit.lock);
    host->release(host->ctx, stream, sizeof *stream);
}

static enum bp_status stream_fill(struct npu_stream *stream)
{
    struct npu_device *device = stream->device;
    void *words = NULL, *copied = NULL;

    TRY(NPU_CALL(device, aclrtCreateStream, &stream->raw));
    TRY(NPU_CALL(device, aclrtMalloc, &words, WORDS, NPU_HUGE_FIRST));
    stream->words = words;
    TRY(NPU_CALL(device, aclrtMallocHost, &copied, WORDS));
    stream->copied = memset(copied, 0, WORDS);
    return NPU_CALL(device, aclrtMemsetAsync, words, WORDS, 0, WORDS, stream->raw);
}

enum bp_status npu_stream_create(void *self, uint32_t index, void **out_stream)
{
    const struct bp_host *host = ((struct npu *)self)->host;
    struct npu_stream *stream;
    KIT_CONTEXT caller = {NULL};
    struct npu_device *device;
    enum bp_status status;

    TRY(npu_device_use(self, index, &caller, &device));
    stream = host->allocate(host->ctx, sizeof *stream, _Alignof(struct npu_stream));
    if (!stream) return bp_fail(host, BP_ERR_MEMORY, "npu:%u: no memory for a stream", index);
    *stream = (struct npu_stream){.device = device};
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

void npu_stream_destroy(void *self, uint32_t index, void *p)
{
    KIT_CONTEXT caller = {NULL};
    struct npu_device *device = npu_device_reuse(self, index, &caller);

    kit_stream_remove(&device->streams, p);
    stream_drop(p);
}

uint32_t *npu_stream_word(struct npu_stream *stream, const struct bp_kernel *kernel)
{
    return &stream->words[kit_fault_take(&stream->kit, kernel->name)];
}

/* Copies the words behind the work of the stream; only if a launch may have written one. */
static enum bp_status stream_copy_words(struct npu_stream *stream, uint32_t *to)
{
    return NPU_CALL(stream->device, aclrtMemcpyAsync, to, WORDS, stream->words, WORDS,
                    NPU_DEVICE_TO_HOST, stream->raw);
}

/* Reports the faults of launches up to number `until` in a copy of the words, and clears the words
 * on the device. */
static enum bp_status stream_faults(struct npu_stream *stream, uint32_t *words, uint64_t until)
{
    struct npu_device *device = stream->device;
    uint64_t found = 0;
    enum bp_status status = kit_fault_report(&device->report, &stream->kit, words, until, &found);

    for (int i = 0; i < KIT_FAULTS; i++)
        if (found >> i & 1)
            NPU_NOTE(device, aclrtMemsetAsync, &stream->words[i], sizeof(uint32_t), 0,
                     sizeof(uint32_t), stream->raw);
    return status;
}

static enum bp_status stream_join(struct npu_stream *stream)
{
    bool possible = kit_fault_is_possible(&stream->kit);

    if (possible) TRY(stream_copy_words(stream, stream->copied));
    TRY(NPU_CALL(stream->device, aclrtSynchronizeStream, stream->raw));
    return possible ? stream_faults(stream, stream->copied, UINT64_MAX) : BP_OK;
}

/* Waits for each stream, so that the words of each are copied. */
static enum bp_status stream_join_all(struct npu_device *device)
{
    enum bp_status status = BP_OK;

    pthread_mutex_lock(&device->streams.lock);
    for (struct kit_stream *k = device->streams.first; k; k = k->next) {
        struct npu_stream *s = (struct npu_stream *)k;
        enum bp_status found = s == atomic_load(&device->captured) ? BP_OK : stream_join(s);
        if (!status) status = found;
    }
    pthread_mutex_unlock(&device->streams.lock);
    return status;
}

enum bp_status npu_synchronize(void *self, uint32_t index, void *stream)
{
    KIT_CONTEXT caller = {NULL};
    struct npu_device *device;

    TRY(npu_device_use(self, index, &caller, &device));
    return stream ? stream_join(stream) : stream_join_all(device);
}

/* Events with a flag alone may take resources at each record, so that recording waits. */
enum bp_status npu_event_make(struct npu_device *device, void **out)
{
    if (device->npu->call->aclrtCreateEventExWithFlag)
        return NPU_CALL(device, aclrtCreateEventExWithFlag, out, NPU_EVENT_SYNC);
    return NPU_CALL(device, aclrtCreateEventWithFlag, out, NPU_EVENT_SYNC);
}

enum bp_status npu_event_create(void *self, uint32_t index, void **out_event)
{
    const struct bp_host *host = ((struct npu *)self)->host;
    struct npu_event *event;
    KIT_CONTEXT caller = {NULL};
    struct npu_device *device;
    enum bp_status status;

    TRY(npu_device_use(self, index, &caller, &device));
    event = host->allocate(host->ctx, sizeof *event, _Alignof(struct npu_event));
    if (!event) return bp_fail(host, BP_ERR_MEMORY, "npu:%u: no memory for an event", index);
    *event = (struct npu_event){.raw = NULL};
    status = npu_event_make(device, &event->raw);
    if (status) host->release(host->ctx, event, sizeof *event);
    else *out_event = event;
    return status;
}

void npu_event_destroy(void *self, uint32_t index, void *p)
{
    KIT_CONTEXT caller = {NULL};
    struct npu_device *device = npu_device_reuse(self, index, &caller);
    const struct bp_host *host = device->npu->host;
    struct npu_event *event = p;

    NPU_NOTE(device, aclrtDestroyEvent, event->raw);
    if (event->words) NPU_NOTE(device, aclrtFreeHost, event->words);
    host->release(host->ctx, event, sizeof *event);
}

/* A copy for each event: a later one may have faults of launches behind this event. */
static enum bp_status event_copy_words(struct npu_event *event, struct npu_stream *stream)
{
    void *words = event->words;

    if (!words) TRY(NPU_CALL(stream->device, aclrtMallocHost, &words, WORDS));
    event->words = words;
    return stream_copy_words(stream, event->words);
}

enum bp_status npu_event_record(void *self, uint32_t index, void *p, void *q)
{
    struct npu_stream *stream = p;
    struct npu_event *event = q;
    KIT_CONTEXT caller = {NULL};
    struct npu_device *device;
    struct kit_mark mark;

    TRY(npu_device_use(self, index, &caller, &device));
    mark = kit_mark_make(&stream->kit);
    if (!kit_fault_is_possible(&stream->kit)) mark.launched = 0;
    if (mark.launched) TRY(event_copy_words(event, stream));
    TRY(NPU_CALL(device, aclrtRecordEvent, event->raw, stream->raw));
    event->mark = mark;
    return BP_OK;
}

/* The event has been reached: reports the faults of the launches before it. */
static enum bp_status event_report(struct npu_device *device, const struct npu_event *event)
{
    enum bp_status status = BP_OK;
    struct kit_stream *stream;

    if (!event->mark.launched) return BP_OK;
    pthread_mutex_lock(&device->streams.lock);
    stream = kit_stream_find(&device->streams, event->mark.stream);
    if (stream)
        status = stream_faults((struct npu_stream *)stream, event->words, event->mark.launched);
    pthread_mutex_unlock(&device->streams.lock);
    return status;
}

enum bp_status npu_event_query(void *self, uint32_t index, void *p)
{
    struct npu_event *event = p;
    KIT_CONTEXT caller = {NULL};
    struct npu_device *device;
    int state = 0;

    TRY(npu_device_use(self, index, &caller, &device));
    TRY(NPU_CALL(device, aclrtQueryEventStatus, event->raw, &state));
    return state == NPU_EVENT_RECORDED ? event_report(device, event) : BP_ERR_NOT_READY;
}

enum bp_status npu_event_wait(void *self, uint32_t index, void *p, uint64_t timeout_ns)
{
    struct npu_event *event = p;
    KIT_CONTEXT caller = {NULL};
    struct npu_device *device;

    TRY(npu_device_use(self, index, &caller, &device));
    if (timeout_ns != UINT64_MAX)
        return kit_event_wait(&device->report, npu_event_query, self, event, timeout_ns);
    TRY(NPU_CALL(device, aclrtSynchronizeEvent, event->raw));
    return event_report(device, event);
}

enum bp_status npu_stream_wait(void *self, uint32_t index, void *p, void *q)
{
    struct npu_stream *stream = p;
    struct npu_event *event = q;
    KIT_CONTEXT caller = {NULL};
    struct npu_device *device;

    TRY(npu_device_use(self, index, &caller, &device));
    return NPU_CALL(device, aclrtStreamWaitEvent, stream->raw, event->raw);
}
