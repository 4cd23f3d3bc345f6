/* SPDX-License-Identifier: Apache-2.0 */
/* buffer_api.c: the public face: memory without tensors, memory for other processes, trim. */
#include "pool.h"

static bool storage_is(const struct bp_storage *storage)
{
    return bp_magic_is(storage ? storage->magic : 0, BP_MAGIC_STORAGE);
}

enum bp_status bp_memory_create(struct bp_device *device, struct bp_stream *stream,
                                enum bp_space space, uint64_t size, struct bp_storage **out_storage)
{
    if (!bp_device_is(device)) return bp_not_a("device");
    if (stream && !bp_stream_is(stream)) return bp_not_a("stream");
    if (!out_storage) return bp_error(BP_ERR_INVALID, "bp_memory_create: out_storage is NULL");
    if (stream && stream->device != device)
        return bp_error(BP_ERR_INVALID,
                        "bp_memory_create: memory of %s for a stream of %s%s: give a stream of the "
                        "device, or NULL",
                        device->name, stream->device->name,
                        bp_device_qualifier(stream->device, device));
    return bp_storage_create(device, stream ? stream->timeline : device->host, space, size,
                             out_storage);
}

void bp_memory_destroy(struct bp_storage *storage)
{
    if (storage_is(storage)) bp_storage_release(storage);
}

enum bp_status bp_memory_get_info(struct bp_storage *storage, struct bp_memory_info *out)
{
    struct bp_memory_info info = {.size = sizeof info};

    if (!storage_is(storage)) return bp_not_a("storage");
    info.device = storage->device;
    info.handle = storage->memory.handle;
    info.data = storage->memory.data;
    info.bytes = storage->size;
    info.space = storage->space;
    info.host = bp_storage_host_address(storage);
    return bp_info_fill(out, &info, sizeof info);
}

enum bp_status bp_storage_export(struct bp_storage *storage, int32_t *out_fd, uint64_t *out_offset)
{
    const struct bp_span *segment;
    struct bp_plugin_entry *entry;
    struct bp_device *device;
    enum bp_status status;
    uint64_t offset;
    int32_t fd;

    if (!storage_is(storage)) return bp_not_a("storage");
    if (!out_fd || !out_offset)
        return bp_error(BP_ERR_INVALID, "bp_storage_export: out_fd or out_offset is NULL");
    device = storage->device;
    entry = device->entry;
    if (!storage->pool || !storage->block.n)
        return bp_error(BP_ERR_INVALID, "bp_storage_export: the storage has no memory of %s's own",
                        device->name);
    if (!entry->runtime.memory_export)
        return bp_error(BP_ERR_UNSUPPORTED, "%s: other processes cannot map its memory",
                        device->name);
    segment = storage->block.span->segment;
    bp_error_enter();
    status = entry->runtime.memory_export(entry->self, device->index, storage->space, &segment->raw,
                                          &fd, &offset);
    TRY(bp_error_leave(status, entry->plugin.name, "memory_export"));
    *out_fd = fd;
    *out_offset = offset + ((uintptr_t)storage->memory.data - (uintptr_t)segment->raw.data);
    return BP_OK;
}

static void buffer_poll(struct bp_pool *pool, void *ctx)
{
    (void)ctx;
    bp_pool_poll_owner(pool);
}

static void buffer_trim(struct bp_pool *pool, void *ctx)
{
    (void)ctx;
    bp_pool_trim(pool);
}

static void buffer_release(struct bp_pool *pool, void *ctx)
{
    (void)ctx;
    if (pool->owner == pool->device->host) bp_segment_release(pool);
}

enum bp_status bp_device_trim(struct bp_device *device)
{
    if (!bp_device_is(device)) return bp_not_a("device");
    bp_pools_visit(device, BP_SPACES, buffer_poll, NULL);
    if (!bp_queue_on_worker()) bp_deferred_collect(device, true);
    bp_pools_visit(device, BP_SPACES, buffer_trim, NULL);
    bp_pools_visit(device, BP_SPACES, buffer_release, NULL);
    return BP_OK;
}
