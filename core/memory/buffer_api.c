/* SPDX-License-Identifier: Apache-2.0 */
/* buffer_api.c: implements the public functions for buffers: memory without tensors, export to
 * other processes, and trim. */
#include "writeback.h"
#include "pool.h"

enum bp_status bp_buffer_create(struct bp_device *device, struct bp_stream *stream,
                                enum bp_space space, uint64_t size, struct bp_buffer **out_buffer)
{
    if (!bp_device_is(device)) return bp_not_a("device");
    if (stream && !bp_stream_is(stream)) return bp_not_a("stream");
    if (!out_buffer) return bp_error(BP_ERR_INVALID, "bp_buffer_create: out_buffer is NULL");
    if (stream && stream->device != device)
        return bp_error(BP_ERR_INVALID,
                        "bp_buffer_create: memory of %s for a stream of %s%s: give a stream of the "
                        "device, or NULL",
                        device->name, stream->device->name,
                        bp_device_qualifier(stream->device, device));
    return bp_buffer_allocate(device, stream ? stream->timeline : device->host, space, size,
                              out_buffer);
}

void bp_buffer_destroy(struct bp_buffer *buffer)
{
    if (bp_buffer_is(buffer)) bp_buffer_release(buffer);
}

enum bp_status bp_buffer_get_info(struct bp_buffer *buffer, struct bp_buffer_info *out)
{
    struct bp_buffer_info info = {.size = sizeof info};

    if (!bp_buffer_is(buffer)) return bp_not_a("buffer");
    TRY(bp_buffer_expose(buffer));
    info.device = buffer->device;
    info.handle = buffer->memory.handle;
    info.data = buffer->memory.data;
    info.bytes = buffer->size;
    info.space = buffer->space;
    info.host = bp_buffer_host_address(buffer);
    return bp_info_fill(out, &info, sizeof info);
}

enum bp_status bp_buffer_export(struct bp_buffer *buffer, int32_t *out_fd, uint64_t *out_offset)
{
    const struct bp_span *segment;
    struct bp_plugin_entry *entry;
    struct bp_device *device;
    enum bp_status status;
    uint64_t offset;
    int32_t fd;

    if (!bp_buffer_is(buffer)) return bp_not_a("buffer");
    if (!out_fd || !out_offset)
        return bp_error(BP_ERR_INVALID, "bp_buffer_export: out_fd or out_offset is NULL");
    device = buffer->device;
    entry = device->entry;
    if (!buffer->pool || !buffer->block.n)
        return bp_error(BP_ERR_INVALID, "bp_buffer_export: the buffer has no memory of %s's own",
                        device->name);
    if (!entry->runtime.memory_export)
        return bp_error(BP_ERR_UNSUPPORTED, "%s: other processes cannot map its memory",
                        device->name);
    TRY(bp_buffer_expose(buffer));
    segment = buffer->block.span->segment;
    bp_error_enter();
    status = entry->runtime.memory_export(entry->self, device->index, buffer->space, &segment->raw,
                                          &fd, &offset);
    TRY(bp_error_leave(status, entry->plugin.name, "memory_export"));
    *out_fd = fd;
    *out_offset = offset + ((uintptr_t)buffer->memory.data - (uintptr_t)segment->raw.data);
    return BP_OK;
}

bool bp_buffer_discard(struct bp_buffer *buffer, uint64_t offset, uint64_t size)
{
    const struct bp_device *device = buffer->device;
    const struct bp_plugin_entry *entry = device->entry;
    const struct bp_span *segment;
    bool idle;

    if (!buffer->pool || !buffer->block.n || !size || !device->is_inline || !device->host_visible ||
        !entry->runtime.memory_discard)
        return false;
    bp_pool_lock(buffer->pool); /* tasks of queues may read the bytes after their program is gone */
    idle = buffer->owner->is_inline && bp_users_passed(&buffer->deferred.users, false);
    bp_pool_unlock(buffer->pool);
    if (!idle) return false;
    segment = buffer->block.span->segment;
    offset += (uintptr_t)buffer->memory.data - (uintptr_t)segment->raw.data;
    return entry->runtime.memory_discard(entry->self, device->index, buffer->space, &segment->raw,
                                         offset, size) == BP_OK;
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
