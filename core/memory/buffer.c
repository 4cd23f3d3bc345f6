/* SPDX-License-Identifier: Apache-2.0 */
/* buffer.c: allocates, shares and frees buffers, records their users, and initializes and frees the
 * memory of a device. */
#include "../device/profiled.h"
#include "writeback.h"
#include "pool.h"

#include <inttypes.h>
#include <stdlib.h>

static enum bp_status buffer_create_slow(struct bp_device *device, struct bp_timeline *owner,
                                         uint32_t space, uint64_t size,
                                         struct bp_buffer **out_buffer)
{
    struct bp_pool *pool;

    if (space >= BP_SPACES)
        return bp_error(BP_ERR_INVALID, "%s: memory space %u is none", device->name, space);
    if (size > INT64_MAX - (UINT64_C(1) << 21))
        return bp_error(BP_ERR_MEMORY, "%s: out of memory: asked for %" PRIu64 " bytes",
                        device->name, size);
    pool = bp_pool_get(owner, space);
    if (!pool) return BP_ERR_MEMORY;
    if (size) return bp_memory_alloc_slow(pool, size, out_buffer);
    bp_pool_lock(pool);
    *out_buffer = bp_pool_alloc(pool, 0);
    bp_pool_unlock(pool);
    return *out_buffer ? BP_OK : bp_error(BP_ERR_MEMORY, "no host memory for a buffer");
}

void *bp_buffer_host_address(const struct bp_buffer *buffer)
{
    const struct bp_device *device = buffer->device;
    const struct bp_memory *raw;

    if (buffer->space == BP_SPACE_DEVICE && !device->host_visible) return NULL;
    if (!(device->properties.flags & BP_DEVICE_HANDLES)) return buffer->memory.data;
    if (!buffer->pool || !buffer->block.n) return NULL;
    raw = &buffer->block.span->segment->raw;
    return (char *)raw->host + ((uintptr_t)buffer->memory.data - (uintptr_t)raw->data);
}

enum bp_status bp_buffer_allocate(struct bp_device *device, struct bp_timeline *owner,
                                  uint32_t space, uint64_t size, struct bp_buffer **out_buffer)
{
    struct bp_buffer *buffer = NULL;
    struct bp_pool *pool = NULL;

    if (__builtin_expect(bp_device_is_lost(device), 0)) return bp_device_check_lost(device);
    if (space) owner = device->host;
    if (space < BP_SPACES) pool = bp_pool_find(owner, space);
    if (pool && size <= INT64_MAX / 2) {
        bp_pool_lock(pool);
        buffer = bp_pool_alloc(pool, size);
        bp_pool_unlock(pool);
    }
    if (!buffer) TRY(buffer_create_slow(device, owner, space, size, &buffer));
    *out_buffer = buffer;
    return BP_OK;
}

/* Releases imported memory to its owner when all work that uses it has ended. The buffer's owner is
 * the host timeline, so that every use by a stream is recorded. The deferred release holds no
 * reference to the device: the end of the device waits for that work. A forked child releases
 * nothing. */
static void buffer_release_imported(struct bp_buffer *buffer)
{
    struct bp_device *device = buffer->device;

    if (buffer->magic != bp_magic(BP_MAGIC_BUFFER)) return;
    bp_deferred_release(device, &buffer->deferred);
    bp_device_release(device);
}

/* Frees the last buffer of its pool when there is no reference to the device. The buffer takes a
 * reference for the time of the free; dropping it may destroy the device. Other threads find
 * devices without references under the core's lock, therefore the reference is taken under that
 * lock. */
static void buffer_release_last(struct bp_buffer *buffer)
{
    struct bp_device *device = buffer->device;
    struct bp_core *core = device->core;

    pthread_mutex_lock(&core->lock);
    bp_device_retain(device);
    pthread_mutex_unlock(&core->lock);
    bp_pool_lock(buffer->pool);
    bp_pool_free(buffer->pool, buffer);
    bp_pool_unlock(buffer->pool);
    bp_device_release(device);
}

void bp_buffer_release(struct bp_buffer *buffer)
{
    struct bp_pool *pool = buffer->pool;

    if (atomic_load_explicit(&buffer->refs, memory_order_acquire) != 1 &&
        atomic_fetch_sub_explicit(&buffer->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (__builtin_expect(
            atomic_load_explicit(&buffer->access, memory_order_relaxed) == BP_ACCESS_FROZEN, 0)) {
        buffer->device->invalidate_calls(buffer->device, buffer->id);
        if (buffer->source) buffer->source->destroy(buffer);
    }
    if (__builtin_expect(atomic_load_explicit(&buffer->writeback, memory_order_relaxed) != NULL, 0))
        bp_writeback_destroy(buffer);
    if (!pool) {
        buffer_release_imported(buffer);
        return;
    }
    bp_pool_lock(pool);
    if (pool->counts.live == 1 && !atomic_load(&pool->device->refs)) {
        bp_pool_unlock(pool);
        buffer_release_last(buffer);
        return;
    }
    bp_pool_free(pool, buffer);
    bp_pool_unlock(pool);
}

void bp_buffer_add_user(struct bp_buffer *buffer, struct bp_timeline *timeline, uint64_t number)
{
    bool added;

    if (buffer->pool) bp_pool_lock(buffer->pool);
    else pthread_mutex_lock(&buffer->device->lock);
    buffer->used = true;
    added = bp_users_add(&buffer->deferred.users, timeline, number);
    if (buffer->pool) bp_pool_unlock(buffer->pool);
    else pthread_mutex_unlock(&buffer->device->lock);
    if (!added) bp_timeline_wait(timeline, number, &bp_deadline_none);
}

static void buffer_record_pool(struct bp_pool *pool, void *ctx)
{
    bp_pool_lock(pool);
    bp_pool_record(pool, *(const bool *)ctx);
    bp_pool_unlock(pool);
}

/* Pools that are not visited here become known later, and begin to be recorded then. */
static void buffer_record(struct bp_device *device, bool on)
{
    struct bp_memory_state *m = device->memory;

    if (on == atomic_load(&m->is_recorded)) return;
    pthread_mutex_lock(&device->lock);
    if (on) atomic_store(&m->recorded, 0);
    atomic_store(&m->is_recorded, on);
    pthread_mutex_unlock(&device->lock);
    bp_pools_visit(device, BP_SPACES, buffer_record_pool, &on);
}

enum bp_status bp_memory_init(struct bp_device *device)
{
    struct bp_memory_state *m = calloc(1, sizeof *m);

    if (!m) return bp_error(BP_ERR_MEMORY, "%s: no memory", device->name);
    pthread_mutex_init(&m->stats_lock, NULL);
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->shrunk, NULL);
    pthread_cond_init(&m->reported, NULL);
    device->memory = m;
    device->record_memory = buffer_record;
    return BP_OK;
}

/* At the end of the device: pools are freed before timelines, because the plugin may still be
 * called; spans are freed before the segments that contain them. */
static void buffer_release_spans(struct bp_pool *pool, void *ctx)
{
    (void)ctx;
    bp_pool_release_spans(pool);
}

static void buffer_destroy_pool(struct bp_pool *pool, void *ctx)
{
    (void)ctx;
    atomic_store(&pool->owner->pool[pool->space], NULL);
    bp_pool_destroy(pool);
}

static void buffer_finish_users(struct bp_pool *pool, void *ctx)
{
    (void)ctx;
    for (struct bp_link *l = pool->pending.next; l != &pool->pending; l = l->next)
        bp_users_finish(&bp_buffer_of(bp_heap_block_of(l))->deferred.users);
}

void bp_memory_finish(struct bp_device *device)
{
    struct bp_memory_state *m = device->memory;

    if (!m) return;
    bp_pools_visit(device, BP_SPACES, buffer_finish_users, NULL);
    bp_pools_visit(device, BP_SPACES, buffer_release_spans, NULL);
    bp_pools_visit(device, BP_SPACES, buffer_destroy_pool, NULL);
    pthread_cond_destroy(&m->shrunk);
    pthread_cond_destroy(&m->reported);
    pthread_mutex_destroy(&m->lock);
    pthread_mutex_destroy(&m->stats_lock);
    free(m);
}
