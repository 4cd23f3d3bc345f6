/* SPDX-License-Identifier: Apache-2.0 */
/* graphs.c: captures the launches of a stream as a driver graph, and replays this graph as one
 * launch. */
#include "vendor.h"

/* The recorded work of a stream. Its launches, also when replayed, write faults to the stream's
 * words. */
struct gpu_recording {
    void *program;   /* the driver's executable graph */
    uint64_t faults; /* mask of the words that the launches may write */
};

/* The capture mode (hipStreamCaptureModeRelaxed) in which the driver accepts calls that it would
 * otherwise refuse during a capture. */
enum {
    RELAXED = 2
};

/* No thread may wait for the whole device while one of its streams is captured: see
 * gpu_device_wait. */
enum bp_status gpu_capture_begin(void *self, uint32_t index, void *p)
{
    struct gpu_stream *stream = p;
    KIT_CONTEXT caller = {NULL};
    struct gpu_device *device;
    enum bp_status status;

    TRY(gpu_device_use(self, index, &caller, &device));
    if (device->gpu->lacks)
        return bp_fail(device->gpu->host, BP_ERR_UNSUPPORTED,
                       GPU_NAME ":%u: the driver has no function %s: a newer one is needed", index,
                       device->gpu->lacks);
    gpu_vendor_provide(stream);
    if (pthread_mutex_trylock(&device->whole))
        return bp_fail(device->gpu->host, BP_ERR_BUSY,
                       GPU_NAME ":%u: another thread waits for the whole device", index);
    status = GPU_CALL(device, capture_begin, stream->raw, RELAXED);
    if (status) {
        pthread_mutex_unlock(&device->whole);
        return status;
    }
    stream->kit.captured = true;
    atomic_store(&device->captured, true);
    stream->kit.faults_captured = 0;
    return BP_OK;
}

/* Ends the driver's capture, also if the driver reports a failure. */
static enum bp_status graphs_end(struct gpu_stream *stream, void **out_graph)
{
    struct gpu_device *device = stream->device;
    enum bp_status status;

    status = GPU_CALL(device, capture_end, stream->raw, out_graph);
    stream->kit.captured = false;
    atomic_store(&device->captured, false);
    pthread_mutex_unlock(&device->whole);
    return status;
}

/* recording: its fields are zero. */
static enum bp_status graphs_make(struct gpu_stream *stream, struct gpu_recording *recording)
{
    struct gpu_device *device = stream->device;
    enum bp_status status;
    void *graph = NULL;

    TRY(graphs_end(stream, &graph));
    recording->faults = stream->kit.faults_captured;
    status = GPU_CALL(device, graph_instantiate, &recording->program, graph, 0);
    GPU_NOTE(device, graph_destroy, graph);
    return status;
}

enum bp_status gpu_capture_end(void *self, uint32_t index, void *p, void **out_recording)
{
    const struct bp_host *host = ((struct gpu *)self)->host;
    struct gpu_recording *recording = host->allocate(host->ctx, sizeof *recording,
                                                     _Alignof(struct gpu_recording));
    KIT_CONTEXT caller = {NULL};
    enum bp_status status;

    if (!recording) {
        gpu_capture_abort(self, index, p);
        return bp_fail(host, BP_ERR_MEMORY, GPU_NAME ":%u: no memory for a recording", index);
    }
    *recording = (struct gpu_recording){NULL, 0};
    gpu_device_reuse(self, index, &caller);
    status = graphs_make(p, recording);
    if (status == BP_OK) *out_recording = recording;
    else host->release(host->ctx, recording, sizeof *recording);
    return status;
}

void gpu_capture_abort(void *self, uint32_t index, void *p)
{
    KIT_CONTEXT caller = {NULL};
    struct gpu_device *device = gpu_device_reuse(self, index, &caller);
    void *graph = NULL;

    /* A failure of capture_end is not reported again: it is why the capture is aborted. */
    if (graphs_end(p, &graph) == BP_OK && graph) GPU_NOTE(device, graph_destroy, graph);
}

enum bp_status gpu_replay(void *self, uint32_t index, void *p, void *q)
{
    const struct gpu_recording *recording = p;
    struct gpu_stream *stream = q;
    KIT_CONTEXT caller = {NULL};
    struct gpu_device *device;

    TRY(gpu_device_use(self, index, &caller, &device));
    if (recording->faults) kit_fault_replay(&stream->kit, recording->faults);
    return GPU_CALL(device, program_launch, recording->program, stream->raw);
}

void gpu_recording_destroy(void *self, uint32_t index, void *p)
{
    KIT_CONTEXT caller = {NULL};
    struct gpu_device *device = gpu_device_reuse(self, index, &caller);
    const struct bp_host *host = device->gpu->host;
    struct gpu_recording *recording = p;

    GPU_NOTE(device, program_destroy, recording->program);
    host->release(host->ctx, recording, sizeof *recording);
}
