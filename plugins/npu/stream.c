/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c: creates streams and events, waits for them, and reports the faults that guards of
 * indices have written into the words of a stream (kit/stream.h). The words are on the device; a
 * wait copies them first. */
#include "npu.h"

enum {
    WORDS = KIT_FAULTS * sizeof(uint32_t)
};

struct npu_event {
    void *raw;
    struct npu_device *device;
    struct kit_guard_copy copy; /* of the fault words, in pinned memory, made when first needed */
};

static struct npu_stream *stream_of(struct kit_stream *stream)
{
    return (struct npu_stream *)stream;
}

static enum bp_status stream_words(struct kit_stream *stream, size_t size, void **out)
{
    return NPU_CALL(stream_of(stream)->device, aclrtMalloc, out, size, NPU_HUGE_FIRST);
}

static void stream_words_free(struct kit_stream *stream, void *memory)
{
    NPU_NOTE(stream_of(stream)->device, aclrtFree, memory);
}

static enum bp_status stream_words_clear(struct kit_stream *stream, void *memory, size_t size)
{
    struct npu_stream *s = stream_of(stream);

    return NPU_CALL(s->device, aclrtMemsetAsync, memory, size, 0, size, s->raw);
}

static enum bp_status stream_words_read(struct kit_stream *stream, uint32_t *to, void *memory,
                                        size_t size)
{
    struct npu_stream *s = stream_of(stream);

    return NPU_CALL(s->device, aclrtMemcpyAsync, to, size, memory, size, NPU_DEVICE_TO_HOST,
                    s->raw);
}

/* Waits first: the words may not be cleared yet, and of a lost device some work may still go on,
 * for which the core does not wait. */
static void stream_drop(struct npu_stream *stream)
{
    struct npu_device *device = stream->device;
    const struct bp_host *host = device->npu->host;

    if (stream->raw) NPU_NOTE(device, aclrtSynchronizeStream, stream->raw);
    npu_staging_end(stream);
    if (stream->raw) NPU_NOTE(device, aclrtDestroyStream, stream->raw);
    kit_guard_end(&stream->guard);
    if (stream->copy.words) NPU_NOTE(device, aclrtFreeHost, stream->copy.words);
    pthread_mutex_destroy(&stream->waiting);
    pthread_mutex_destroy(&stream->kit.lock);
    host->release(host->ctx, stream, sizeof *stream);
}

static enum bp_status stream_fill(struct npu_stream *stream)
{
    struct npu_device *device = stream->device;
    void *words = NULL;

    TRY(NPU_CALL(device, aclrtCreateStream, &stream->raw));
    TRY(NPU_CALL(device, aclrtMallocHost, &words, WORDS));
    stream->copy.words = words;
    return kit_guard_provide(&stream->guard);
}

enum bp_status npu_stream_create(void *self, uint32_t index, void **out_stream)
{
    static const struct kit_guard_calls calls = {stream_words, stream_words_free,
                                                 stream_words_clear, stream_words_read};
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
    pthread_mutex_init(&stream->waiting, NULL);
    kit_guard_begin(&stream->guard, &stream->kit, &calls, &device->report);
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
    /* The stream has words since it was created. */
    return (uint32_t *)stream->guard.memory + kit_fault_take(&stream->kit, kernel->name);
}

enum bp_status npu_stream_drain(struct npu_stream *stream)
{
    enum bp_status status = NPU_CALL(stream->device, aclrtSynchronizeStream, stream->raw);

    if (status) NPU_NOTE(stream->device, aclrtSynchronizeStream, stream->raw);
    return status;
}

static enum bp_status stream_join(struct npu_stream *stream)
{
    enum bp_status read, status;

    pthread_mutex_lock(&stream->waiting);
    read = kit_guard_read(&stream->guard, &stream->copy);
    status = npu_stream_drain(stream);
    status = kit_guard_waited(&stream->guard, &stream->copy, status ? status : read);
    pthread_mutex_unlock(&stream->waiting);
    return status;
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
    *event = (struct npu_event){.device = device};
    status = npu_event_make(device, &event->raw);
    if (status) host->release(host->ctx, event, sizeof *event);
    else *out_event = event;
    return status;
}

/* The copy of the fault words in front of the event must end first. */
static void event_forget(struct npu_event *event)
{
    if (event->copy.mark.launched) NPU_NOTE(event->device, aclrtSynchronizeEvent, event->raw);
    kit_guard_forget(&event->device->streams, &event->copy);
}

void npu_event_destroy(void *self, uint32_t index, void *p)
{
    KIT_CONTEXT caller = {NULL};
    struct npu_device *device = npu_device_reuse(self, index, &caller);
    const struct bp_host *host = device->npu->host;
    struct npu_event *event = p;

    event_forget(event);
    NPU_NOTE(device, aclrtDestroyEvent, event->raw);
    if (event->copy.words) NPU_NOTE(device, aclrtFreeHost, event->copy.words);
    host->release(host->ctx, event, sizeof *event);
}

/* A copy for each event: a later one may have faults of launches behind this event. */
static enum bp_status event_copy_words(struct npu_event *event, struct npu_stream *stream)
{
    void *words = NULL;

    if (!event->copy.words && kit_guard_has_news(&stream->guard)) {
        TRY(NPU_CALL(stream->device, aclrtMallocHost, &words, WORDS));
        event->copy.words = words;
    }
    return kit_guard_read(&stream->guard, &event->copy);
}

enum bp_status npu_event_record(void *self, uint32_t index, void *p, void *q)
{
    struct npu_stream *stream = p;
    struct npu_event *event = q;
    KIT_CONTEXT caller = {NULL};
    struct npu_device *device;
    enum bp_status status;

    TRY(npu_device_use(self, index, &caller, &device));
    event_forget(event);
    status = event_copy_words(event, stream);
    if (!status) status = NPU_CALL(device, aclrtRecordEvent, event->raw, stream->raw);
    if (!status) return BP_OK;
    NPU_NOTE(device, aclrtSynchronizeStream, stream->raw); /* no copy writes to the words */
    kit_guard_forget(&device->streams, &event->copy);
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
    return state == NPU_EVENT_RECORDED ? kit_guard_reached(&device->streams, &event->copy)
                                       : BP_ERR_NOT_READY;
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
    return kit_guard_reached(&device->streams, &event->copy);
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
