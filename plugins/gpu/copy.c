/* SPDX-License-Identifier: Apache-2.0 */
/* copy.c: copies memory between host and device, within a device, and between devices, in stream
 * order. */
#include "gpu.h"
#include <string.h>

/* Creates the events and pinned memory for the first copy through the stages. Under the stream's
 * lock. */
static enum bp_status make_stages(struct gpu_stream *stream)
{
    struct gpu_device *device = stream->device;
    void *stage = NULL;

    for (int i = 0; i < GPU_STAGES; i++)
        if (!stream->passed[i])
            TRY(GPU_CALL(device, event_create, &stream->passed[i],
                         gpu_event_flags(device->gpu)));
    TRY(GPU_CALL(device, pinned_allocate, &stage, GPU_STAGES * GPU_STAGE, GPU_PINNED));
    stream->stage = stage;
    return BP_OK;
}

static enum bp_status copy_staged(struct gpu_stream *stream, const struct bp_copy *copy)
{
    struct gpu_device *device = stream->device;
    unsigned i = stream->next_stage % GPU_STAGES;
    char *stage;

    if (!stream->stage) TRY(make_stages(stream));
    stage = stream->stage + (size_t)i * GPU_STAGE;
    if (stream->next_stage >= GPU_STAGES)
        TRY(GPU_CALL(device, event_synchronize, stream->passed[i]));
    memcpy(stage, copy->src, copy->size);
    TRY(GPU_CALL(device, copy_in, copy->dst, stage, copy->size, stream->raw));
    stream->next_stage++;
    return GPU_CALL(device, event_record, stream->passed[i], stream->raw);
}

/* The driver reads a large source directly, so the source is free for reuse only when the stream
 * has passed the copy. */
static enum bp_status copy_waiting(struct gpu_stream *stream, const struct bp_copy *copy)
{
    struct gpu_device *device = stream->device;

    TRY(GPU_CALL(device, copy_in, copy->dst, copy->src, copy->size, stream->raw));
    return gpu_stream_join(stream);
}

enum bp_status gpu_copy_in(void *self, uint32_t index, void *p, const struct bp_copy *copy)
{
    struct gpu_stream *stream = p;
    KIT_CONTEXT caller = {NULL};
    struct gpu_device *device;
    enum bp_status status;

    TRY(gpu_device_use(self, index, &caller, &device));
    if (copy->size > GPU_STAGE) return copy_waiting(stream, copy);
    pthread_mutex_lock(&stream->kit.lock);
    status = copy_staged(stream, copy);
    pthread_mutex_unlock(&stream->kit.lock);
    if (status) gpu_stream_join(stream); /* no event shows when the stage is free */
    return status;
}

enum bp_status gpu_copy_out(void *self, uint32_t index, void *p, const struct bp_copy *copy)
{
    struct gpu_stream *stream = p;
    KIT_CONTEXT caller = {NULL};
    struct gpu_device *device;

    TRY(gpu_device_use(self, index, &caller, &device));
    TRY(GPU_CALL(device, copy_out, copy->dst, copy->src, copy->size, stream->raw));
    return gpu_stream_collect(stream, gpu_stream_join(stream));
}

enum bp_status gpu_copy_within(void *self, uint32_t index, void *p, const struct bp_copy *copy)
{
    struct gpu_stream *stream = p;
    KIT_CONTEXT caller = {NULL};
    struct gpu_device *device;

    TRY(gpu_device_use(self, index, &caller, &device));
    return GPU_CALL(device, copy_within, copy->dst, copy->src, copy->size, stream->raw);
}

/* Enables peer access, so that copies between the two devices need no staging in host memory. If
 * that fails, the driver copies by another path. */
static void copy_reach(struct gpu_device *device, const struct gpu_device *peer)
{
    uint64_t bit = UINT64_C(1) << peer->index % 64, before;
    int possible = 0, code;

    if (peer->index >= 64) return;
    before = atomic_fetch_or_explicit(&device->peers, bit, memory_order_relaxed);
    if (before & bit) return;
    GPU_NOTE(device, peer_possible, &possible, device->number, peer->number);
    if (!possible) return;
    code = device->gpu->call.peer_enable(gpu_device_where(peer), 0);
    if (code != GPU_REACHED_ALREADY) gpu_note(device, GPU_CALL_peer_enable, code);
}

enum bp_status gpu_copy_peer(void *self, uint32_t index, void *p, uint32_t to,
                             const struct bp_copy *copy)
{
    struct gpu_stream *stream = p;
    KIT_CONTEXT caller = {NULL};
    struct gpu_device *device, *peer;

    TRY(gpu_device_use(self, to, &caller, &peer)); /* opens the device if necessary */
    TRY(gpu_device_use(self, index, &caller, &device));
    copy_reach(device, peer);
    return GPU_CALL(device, copy_peer, copy->dst, gpu_device_where(peer), copy->src,
                    gpu_device_where(device), copy->size, stream->raw);
}
