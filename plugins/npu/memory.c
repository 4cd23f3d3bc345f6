/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c: allocates and frees memory of devices, and copies in stream order. CANN's pinned memory
 * of the host speeds copies up, but operators cannot use it: so it is no memory of tensors. */
#include "npu.h"

#include <inttypes.h>

enum bp_status npu_memory_allocate(void *self, uint32_t index, uint32_t space, uint64_t size,
                                   struct bp_memory *out)
{
    KIT_CONTEXT caller = {NULL};
    struct npu_device *device;
    enum bp_status status;
    void *data = NULL;

    TRY(npu_device_use(self, index, &caller, &device));
    if (space != BP_SPACE_DEVICE)
        return bp_fail(device->npu->host, BP_ERR_UNSUPPORTED,
                       "npu: operators cannot use memory of the host (space %" PRIu32 ")", space);
    status = NPU_CALL(device, aclrtMalloc, &data, size, NPU_HUGE_FIRST);
    if (status == BP_ERR_MEMORY)
        return kit_memory_fail(&device->report, "aclrtMalloc", size, npu_memory_info, self);
    if (!status) *out = (struct bp_memory){.data = data};
    return status;
}

void npu_memory_free(void *self, uint32_t index, uint32_t space, const struct bp_memory *memory)
{
    KIT_CONTEXT caller = {NULL};
    struct npu_device *device = npu_device_reuse(self, index, &caller);

    (void)space;
    NPU_NOTE(device, aclrtFree, memory->data);
}

static enum bp_status staging_allocate(void *stream, size_t size, void **out)
{
    return NPU_CALL(((struct npu_stream *)stream)->device, aclrtMallocHost, out, size);
}

static void staging_release(void *stream, void *memory)
{
    NPU_NOTE(((struct npu_stream *)stream)->device, aclrtFreeHost, memory);
}

static enum bp_status staging_event(void *stream, void **out)
{
    return npu_event_make(((struct npu_stream *)stream)->device, out);
}

static void staging_event_destroy(void *stream, void *event)
{
    NPU_NOTE(((struct npu_stream *)stream)->device, aclrtDestroyEvent, event);
}

static enum bp_status staging_record(void *stream, void *event)
{
    struct npu_stream *s = stream;

    return NPU_CALL(s->device, aclrtRecordEvent, event, s->raw);
}

static enum bp_status staging_wait(void *stream, void *event)
{
    return NPU_CALL(((struct npu_stream *)stream)->device, aclrtSynchronizeEvent, event);
}

static enum bp_status staging_copy(void *stream, void *dst, const void *src, size_t size)
{
    struct npu_stream *s = stream;

    return NPU_CALL(s->device, aclrtMemcpyAsync, dst, size, src, size, NPU_HOST_TO_DEVICE, s->raw);
}

static const struct kit_staging_calls staging = {
    staging_allocate, staging_release, staging_event, staging_event_destroy,
    staging_record,   staging_wait,    staging_copy};

void npu_staging_end(struct npu_stream *stream)
{
    kit_staging_end(&stream->staging, &staging, stream);
}

/* Large memory is copied directly. The library copies pageable memory before the call returns; the
 * app may have pinned its memory, so the call waits in any case. */
static enum bp_status memory_copy_large(struct npu_stream *stream, const struct bp_copy *copy)
{
    struct npu_device *device = stream->device;

    TRY(NPU_CALL(device, aclrtMemcpyAsync, copy->dst, copy->size, copy->src, copy->size,
                 NPU_HOST_TO_DEVICE, stream->raw));
    return npu_stream_drain(stream);
}

enum bp_status npu_copy_in(void *self, uint32_t index, void *p, const struct bp_copy *copy)
{
    struct npu_stream *stream = p;
    KIT_CONTEXT caller = {NULL};
    struct npu_device *device;

    enum bp_status status;

    TRY(npu_device_use(self, index, &caller, &device));
    if (copy->size > KIT_STAGE) return memory_copy_large(stream, copy);
    pthread_mutex_lock(&stream->kit.lock);
    status = kit_staging_copy(&stream->staging, &staging, stream, copy->dst, copy->src, copy->size);
    pthread_mutex_unlock(&stream->kit.lock);
    if (status) NPU_NOTE(device, aclrtSynchronizeStream, stream->raw);
    return status;
}

enum bp_status npu_copy_out(void *self, uint32_t index, void *p, const struct bp_copy *copy)
{
    struct npu_stream *stream = p;
    KIT_CONTEXT caller = {NULL};
    struct npu_device *device;

    TRY(npu_device_use(self, index, &caller, &device));
    TRY(NPU_CALL(device, aclrtMemcpyAsync, copy->dst, copy->size, copy->src, copy->size,
                 NPU_DEVICE_TO_HOST, stream->raw));
    return npu_synchronize(self, index, stream);
}

enum bp_status npu_copy_within(void *self, uint32_t index, void *p, const struct bp_copy *copy)
{
    struct npu_stream *stream = p;
    KIT_CONTEXT caller = {NULL};
    struct npu_device *device;

    TRY(npu_device_use(self, index, &caller, &device));
    return NPU_CALL(device, aclrtMemcpyAsync, copy->dst, copy->size, copy->src, copy->size,
                    NPU_DEVICE_TO_DEVICE, stream->raw);
}

/* Enables peer access once for each pair of devices. BP_ERR_UNSUPPORTED, without a message: the
 * devices have no connection, and the core copies through host memory. */
static enum bp_status memory_reach(struct npu_device *device, const struct npu_device *peer)
{
    uint64_t bit = UINT64_C(1) << peer->index % 64;
    int32_t possible = 0;

    if (peer->index >= 64) return BP_ERR_UNSUPPORTED;
    if (atomic_load_explicit(&device->peers, memory_order_acquire) & bit) return BP_OK;
    TRY(NPU_CALL(device, aclrtDeviceCanAccessPeer, &possible, (int32_t)device->index,
                 (int32_t)peer->index));
    if (!possible) return BP_ERR_UNSUPPORTED;
    TRY(NPU_CALL(device, aclrtDeviceEnablePeerAccess, (int32_t)peer->index, 0));
    atomic_fetch_or_explicit(&device->peers, bit, memory_order_release);
    return BP_OK;
}

enum bp_status npu_copy_peer(void *self, uint32_t index, void *p, uint32_t to,
                             const struct bp_copy *copy)
{
    struct npu_stream *stream = p;
    KIT_CONTEXT caller = {NULL};
    struct npu_device *device, *peer;

    TRY(npu_device_use(self, to, &caller, &peer));
    TRY(memory_reach(peer, &((struct npu *)self)->device[index]));
    TRY(npu_device_use(self, index, &caller, &device));
    TRY(memory_reach(device, peer));
    return NPU_CALL(device, aclrtMemcpyAsync, copy->dst, copy->size, copy->src, copy->size,
                    NPU_DEVICE_TO_DEVICE, stream->raw);
}
