/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c: creates, waits for and destroys streams, and collects the faults and results that their
 * kernels write into pinned words. The host reads the words after a wait for the stream. */
#include "profile.h"
#include "vendor.h"
#include <string.h>

static struct gpu_stream *new_stream(struct gpu_device *device)
{
    const struct bp_host *host = device->gpu->host;
    struct gpu_stream *stream = host->allocate(host->ctx, sizeof *stream,
                                               _Alignof(struct gpu_stream));

    if (!stream) {
        bp_fail(host, BP_ERR_MEMORY, GPU_NAME ":%u: no memory for a stream", device->index);
        return NULL;
    }
    *stream = (struct gpu_stream){.device = device};
    pthread_mutex_init(&stream->kit.lock, NULL);
    return stream;
}

/* Frees the parts of the stream that exist. */
static void drop_stream(struct gpu_stream *stream)
{
    struct gpu_device *device = stream->device;
    const struct bp_host *host = device->gpu->host;

    gpu_vendor_finish(device, stream->vendor);
    for (int i = 0; i < GPU_STAGES; i++)
        if (stream->passed[i]) GPU_NOTE(device, event_destroy, stream->passed[i]);
    if (stream->raw) GPU_NOTE(device, stream_destroy, stream->raw);
    if (stream->stage) GPU_NOTE(device, pinned_free, stream->stage);
    if (stream->words) GPU_NOTE(device, pinned_free, stream->words);
    pthread_mutex_destroy(&stream->kit.lock);
    host->release(host->ctx, stream, sizeof *stream);
}

static enum bp_status fill_stream(struct gpu_stream *stream)
{
    struct gpu_device *device = stream->device;
    void *words = NULL;

    TRY(GPU_CALL(device, stream_create, &stream->raw, GPU_STREAM_ALONE));
    TRY(GPU_CALL(device, pinned_allocate, &words, sizeof *stream->words, GPU_PINNED));
    stream->words = memset(words, 0, sizeof *stream->words);
    return BP_OK;
}

enum bp_status gpu_stream_create(void *self, uint32_t index, void **out_stream)
{
    struct gpu_stream *stream;
    KIT_CONTEXT caller = {NULL};
    struct gpu_device *device;
    enum bp_status status;

    TRY(gpu_device_use(self, index, &caller, &device));
    stream = new_stream(device);
    if (!stream) return BP_ERR_MEMORY;
    status = fill_stream(stream);
    if (status) {
        drop_stream(stream);
        return status;
    }
    kit_stream_add(&device->streams, &stream->kit);
    *out_stream = stream;
    return BP_OK;
}

void gpu_stream_destroy(void *self, uint32_t index, void *p)
{
    KIT_CONTEXT caller = {NULL};
    struct gpu_device *device = gpu_device_reuse(self, index, &caller);

    gpu_profile_forget(p);
    kit_stream_remove(&device->streams, p);
    drop_stream(p);
}

int64_t *gpu_stream_result(struct gpu_stream *stream, int64_t *to)
{
    int64_t *word = NULL;

    pthread_mutex_lock(&stream->kit.lock);
    if (stream->results_taken - stream->results_given < GPU_RESULTS) {
        uint64_t i = stream->results_taken++ % GPU_RESULTS;
        stream->result[i] = (struct gpu_result){to, UINT64_MAX};
        word = &stream->words->result[i];
        *word = *to;
    }
    pthread_mutex_unlock(&stream->kit.lock);
    return word;
}

void gpu_stream_launched(struct gpu_stream *stream)
{
    uint64_t number = atomic_fetch_add(&stream->device->n_result, 1) + 1;

    pthread_mutex_lock(&stream->kit.lock);
    for (uint64_t i = stream->results_given; i < stream->results_taken; i++) {
        struct gpu_result *result = &stream->result[i % GPU_RESULTS];
        if (result->launch == UINT64_MAX) result->launch = number;
    }
    pthread_mutex_unlock(&stream->kit.lock);
}

void gpu_stream_forget(struct gpu_stream *stream, const int64_t *to, uint32_t n)
{
    pthread_mutex_lock(&stream->kit.lock);
    for (uint64_t i = stream->results_given; i < stream->results_taken; i++) {
        struct gpu_result *result = &stream->result[i % GPU_RESULTS];
        if (result->to >= to && result->to < to + n) result->to = NULL;
    }
    pthread_mutex_unlock(&stream->kit.lock);
}

/* Copies the results of launches up to this one to their callers, if the launches have
 * succeeded. */
static void give_results(struct gpu_stream *stream, uint64_t launch, bool good)
{
    pthread_mutex_lock(&stream->kit.lock);
    while (stream->results_given < stream->results_taken) {
        uint64_t i = stream->results_given % GPU_RESULTS;
        struct gpu_result *result = &stream->result[i];
        if (result->launch > launch) break;
        if (good && result->to) *result->to = stream->words->result[i];
        stream->results_given++;
    }
    pthread_mutex_unlock(&stream->kit.lock);
}

enum bp_status gpu_stream_faults(struct gpu_stream *stream, uint64_t until)
{
    return kit_fault_report(&stream->device->report, &stream->kit, stream->words->fault, until);
}

/* Reads all results: the thread that waits for a stream is also the one that makes its launches. */
enum bp_status gpu_stream_collect(struct gpu_stream *stream, enum bp_status outcome)
{
    give_results(stream, UINT64_MAX, outcome == BP_OK);
    return outcome ? outcome : gpu_stream_faults(stream, UINT64_MAX);
}

/* Called when all streams have been waited for. Other threads may have launched more work
 * meanwhile, so only launches before `launch` are known to have ended. Returns the first
 * failure. */
static enum bp_status collect_all(struct gpu_device *device, uint64_t launch,
                                  enum bp_status outcome)
{
    enum bp_status status = outcome;

    pthread_mutex_lock(&device->streams.lock);
    for (struct kit_stream *k = device->streams.first; k; k = k->next) {
        struct gpu_stream *s = (struct gpu_stream *)k;
        enum bp_status found = outcome;
        give_results(s, launch, outcome == BP_OK);
        if (outcome == BP_OK) found = gpu_stream_faults(s, UINT64_MAX);
        if (status == BP_OK) status = found;
    }
    pthread_mutex_unlock(&device->streams.lock);
    return status;
}

enum bp_status gpu_stream_join(struct gpu_stream *stream)
{
    struct gpu_device *device = stream->device;
    enum bp_status status = GPU_CALL(device, stream_synchronize, stream->raw);

    if (status) gpu_note(device, GPU_CALL_context_synchronize, gpu_device_wait(device));
    return status;
}

enum bp_status gpu_synchronize(void *self, uint32_t index, void *p)
{
    struct gpu_stream *stream = p;
    KIT_CONTEXT caller = {NULL};
    struct gpu_device *device;
    uint64_t launch;

    TRY(gpu_device_use(self, index, &caller, &device));
    launch = atomic_load(&device->n_result);
    if (!stream)
        return collect_all(device, launch, gpu_check(self, device, GPU_CALL_context_synchronize,
                                                     gpu_device_wait(device)));
    return gpu_stream_collect(stream, gpu_stream_join(stream));
}

enum bp_status gpu_stream_wait(void *self, uint32_t index, void *p, void *event)
{
    struct gpu_stream *stream = p;
    KIT_CONTEXT caller = {NULL};
    struct gpu_device *device;

    TRY(gpu_device_use(self, index, &caller, &device));
    return GPU_CALL(device, stream_wait, stream->raw, gpu_event_raw(event), 0);
}
