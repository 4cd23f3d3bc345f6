/* SPDX-License-Identifier: Apache-2.0 */
/* segment.c: chunks from the plugin, and the regions of them that the host's pool lends to
 * others. */
#include "pool.h"

#include "poison.h"

#include <inttypes.h>
#include <stdlib.h>

static const uint64_t smallest = UINT64_C(2) << 20, largest = UINT64_C(64) << 20;

/* What the plugin answers is believed only as far as it can be. */
static enum bp_status check_memory(const struct bp_device *device, uint32_t space,
                                   const struct bp_memory *memory)
{
    bool handles = device->properties.flags & BP_DEVICE_HANDLES;

    if (!memory->data && !memory->handle)
        return bp_error(BP_ERR_PLUGIN, "plugin %s: memory_allocate answered success with no memory",
                        device->entry->plugin.name);
    if (!handles && ((uintptr_t)memory->data & (device->alignment - 1) || !memory->data))
        return bp_error(BP_ERR_PLUGIN,
                        "plugin %s: memory_allocate answered address %p: its alignment is not the "
                        "%" PRIu64 " bytes that its device_properties promise",
                        device->entry->plugin.name, memory->data, device->alignment);
    if (handles && space != BP_SPACE_DEVICE &&
        ((uintptr_t)memory->host & (device->alignment - 1) || !memory->host))
        return bp_error(BP_ERR_PLUGIN,
                        "plugin %s: memory_allocate answered host address %p in memory space %u: "
                        "expected one, of the alignment of %" PRIu64 " bytes that its "
                        "device_properties promise",
                        device->entry->plugin.name, memory->host, space, device->alignment);
    return BP_OK;
}

/* Under the lock: whether the limit leaves room. */
static enum bp_status check_limit(struct bp_device *device, uint64_t size)
{
    struct bp_memory_state *m = device->memory;
    uint64_t limit = device->core->memory_limit, used = m->reserved + m->plans;

    if (!limit || (used <= limit && size <= limit - used)) return BP_OK;
    return bp_error(BP_ERR_MEMORY, "BP_MEM_LIMIT leaves %" PRIu64 " bytes",
                    used > limit ? 0 : limit - used);
}

static enum bp_status segment_reserve(struct bp_device *device, uint64_t size)
{
    struct bp_memory_state *m = device->memory;
    enum bp_status status;

    pthread_mutex_lock(&m->lock);
    status = check_limit(device, size);
    if (status == BP_OK) {
        m->reserved += size;
        m->chunks++;
        m->chunks_ever++;
        if (m->peak_reserved < m->reserved) m->peak_reserved = m->reserved;
    }
    pthread_mutex_unlock(&m->lock);
    return status;
}

static void segment_unreserve(struct bp_device *device, uint64_t size, bool was_there)
{
    struct bp_memory_state *m = device->memory;

    pthread_mutex_lock(&m->lock);
    m->reserved -= size;
    m->chunks--;
    m->chunks_ever -= !was_there;
    pthread_mutex_unlock(&m->lock);
}

static enum bp_status take_plan(struct bp_device *device, uint64_t bytes)
{
    struct bp_memory_state *m = device->memory;
    enum bp_status status;

    pthread_mutex_lock(&m->lock);
    status = check_limit(device, bytes);
    if (status == BP_OK) m->plans += bytes;
    pthread_mutex_unlock(&m->lock);
    return status;
}

enum bp_status bp_memory_plan_take(struct bp_device *device, uint64_t bytes)
{
    enum bp_status status = take_plan(device, bytes);

    return status && bp_device_pressure(device) ? take_plan(device, bytes) : status;
}

void bp_memory_plan_give(struct bp_device *device, uint64_t bytes)
{
    struct bp_memory_state *m = device->memory;

    pthread_mutex_lock(&m->lock);
    m->plans -= bytes;
    pthread_mutex_unlock(&m->lock);
}

/* The plugin's memory for a chunk; counted, and refused by the limit, before. */
static enum bp_status segment_allocate(struct bp_pool *common, struct bp_region *region)
{
    struct bp_device *device = common->device;
    struct bp_plugin_entry *entry = device->entry;
    enum bp_status status;

    TRY(segment_reserve(device, region->raw_size));
    bp_error_enter();
    status = bp_device_leave(device,
                             entry->runtime.memory_allocate(entry->self, device->index,
                                                            common->space, region->raw_size,
                                                            &region->raw),
                             "memory_allocate");
    if (status == BP_OK) status = check_memory(device, common->space, &region->raw);
    if (status) segment_unreserve(device, region->raw_size, false);
    return status;
}

static void segment_deallocate(struct bp_pool *common, struct bp_region *region)
{
    struct bp_device *device = common->device;
    struct bp_plugin_entry *entry = device->entry;

    bp_release_tell(device, region);
    if (common->poison) bp_unpoison(region->memory.data, region->size);
    entry->runtime.memory_free(entry->self, device->index, common->space, &region->raw);
    segment_unreserve(device, region->raw_size, true);
    free(region);
}

static void link_region(struct bp_pool *pool, struct bp_region *region)
{
    region->next = pool->regions;
    region->at = &pool->regions;
    if (region->next) region->next->at = &region->next;
    pool->regions = region;
}

static void unlink_region(struct bp_region *region)
{
    *region->at = region->next;
    if (region->next) region->next->at = region->at;
}

/* Under the lock: one LIVE block that is all of a region. */
static bool segment_fill(struct bp_pool *pool, struct bp_region *region,
                         struct bp_piece **out_block)
{
    struct bp_piece *block = bp_heap_node(&pool->heap), *edge = &region->edge;

    if (!block) return false;
    block->lo = block->hi = edge;
    edge->lo = edge->hi = block;
    edge->state = block->state = BP_PIECE_LIVE;
    block->n = region->size >> pool->shift;
    block->at = 0;
    block->stamp = 0;
    block->region = region;
    link_region(pool, region);
    *out_block = block;
    return true;
}

/* The usual size: as much again as the pool has, within bounds; more for more. */
static uint64_t segment_usual(uint64_t reserved, uint64_t bytes)
{
    uint64_t size = smallest;

    while (size < largest && size < reserved) size *= 2;
    return bytes <= size ? size : (bytes + smallest - 1) & ~(smallest - 1);
}

static bool is_too_much(const struct bp_device *device, uint64_t size)
{
    const struct bp_device_properties *p = &device->properties;

    return (p->max_alloc && size > p->max_alloc) ||
           (p->memory && (size > p->memory || device->memory->reserved > p->memory - size));
}

/* Where a chunk's first byte is not aligned to a granule, less than one is lost at either end. */
static void segment_place(const struct bp_pool *common, struct bp_region *region)
{
    uint64_t granule = UINT64_C(1) << common->shift;
    uintptr_t data = (uintptr_t)region->raw.data, first = (data + granule - 1) & ~(granule - 1);

    region->memory = (struct bp_memory){.handle = region->raw.handle, .data = (void *)first};
    region->size = (region->raw_size - (first - data)) & ~(granule - 1);
    if (common->poison) bp_poison(region->memory.data, region->size);
}

static enum bp_status no_node(const struct bp_pool *pool)
{
    return bp_error(BP_ERR_MEMORY, "%s: no host memory to keep account of its memory",
                    pool->device->name);
}

enum bp_status bp_chunk_create(struct bp_pool *common, uint64_t reserved, uint64_t n, bool exact,
                               struct bp_piece **out_block)
{
    struct bp_device *device = common->device;
    uint64_t granule = UINT64_C(1) << common->shift;
    uint64_t bytes = (n << common->shift) + granule - device->alignment;
    struct bp_region *region = calloc(1, sizeof *region);
    enum bp_status status;
    bool filled;

    if (!region) return no_node(common);
    region->chunk = region;
    region->space = common->space;
    region->raw_size = exact ? bytes : segment_usual(reserved, bytes);
    pthread_mutex_lock(&device->memory->lock);
    status = !exact && is_too_much(device, region->raw_size) ? BP_ERR_MEMORY : BP_OK;
    pthread_mutex_unlock(&device->memory->lock);
    if (status) bp_error_write("%s has no chunk of the usual size", device->name);
    else status = segment_allocate(common, region);
    if (status) {
        free(region);
        return status;
    }
    segment_place(common, region);
    bp_pool_lock(common);
    filled = segment_fill(common, region, out_block);
    if (filled) common->counts.lost += region->raw_size - region->size;
    if (filled) common->counts.reserved += region->raw_size - region->size;
    bp_pool_unlock(common);
    if (filled) return bp_chunk_tell(device, region), BP_OK;
    segment_deallocate(common, region);
    return no_node(common);
}

struct bp_piece *bp_chunk_lend(struct bp_pool *common, uint64_t reserved, uint64_t n)
{
    uint64_t wanted = segment_usual(reserved, n << common->shift) >> common->shift;
    struct bp_piece *block;

    bp_pool_lock(common);
    bp_pool_settle(common);
    bp_heap_flush(&common->heap);
    block = bp_heap_take(&common->heap, wanted, true);
    if (!block) block = bp_heap_take(&common->heap, n, false);
    if (!block) block = bp_heap_search(&common->heap, n, NULL, NULL);
    if (block) common->counts.free -= block->n << common->shift;
    if (block) common->counts.reserved -= block->n << common->shift;
    bp_pool_unlock(common);
    return block;
}

/* A block that was lent is the host's pool's again. */
static void take_back(struct bp_pool *common, struct bp_piece *block)
{
    uintptr_t first = (uintptr_t)block->region->memory.data;

    if (common->poison)
        bp_poison((void *)(first + (block->at << common->shift)), block->n << common->shift);
    bp_pool_lock(common);
    common->counts.free += block->n << common->shift;
    common->counts.reserved += block->n << common->shift;
    bp_heap_give(&common->heap, block);
    bp_pool_unlock(common);
}

enum bp_status bp_region_create(struct bp_pool *pool, struct bp_pool *common,
                                struct bp_piece *block)
{
    const struct bp_memory *memory = &block->region->memory;
    struct bp_region *region;
    bool filled;

    if (pool == common) return take_back(common, block), BP_OK;
    region = calloc(1, sizeof *region);
    if (!region) return take_back(common, block), no_node(pool);
    region->parent = block;
    region->chunk = block->region->chunk;
    region->size = block->n << common->shift;
    region->memory.handle = memory->handle;
    region->memory.data = (void *)((uintptr_t)memory->data + (block->at << common->shift));
    bp_pool_lock(pool);
    filled = segment_fill(pool, region, &block);
    if (filled) {
        pool->counts.reserved += region->size;
        pool->counts.free += region->size;
        bp_heap_give(&pool->heap, block);
    }
    bp_pool_unlock(pool);
    if (filled) return BP_OK;
    take_back(common, region->parent);
    free(region);
    return no_node(pool);
}

/* Under the lock, after what was kept whole has merged: regions that are one free block of
 * everybody's, out of the pool. */
static struct bp_region *take_whole(struct bp_pool *pool)
{
    struct bp_region *list = NULL, *next;

    for (struct bp_region *region = pool->regions; region; region = next) {
        struct bp_piece *block = region->edge.hi;
        next = region->next;
        if (block->state != BP_PIECE_FREE || block->hi != &region->edge ||
            !bp_pool_is_common(pool, block))
            continue;
        bp_heap_out(&pool->heap, block);
        bp_heap_node_give(&pool->heap, block);
        unlink_region(region);
        pool->counts.reserved -= region->size;
        pool->counts.free -= region->size;
        region->next = list;
        list = region;
    }
    return list;
}

static struct bp_region *take_all_whole(struct bp_pool *pool)
{
    struct bp_region *list;

    bp_pool_lock(pool);
    bp_pool_settle(pool);
    bp_heap_flush(&pool->heap);
    list = take_whole(pool);
    bp_pool_unlock(pool);
    return list;
}

void bp_pool_return(struct bp_pool *pool)
{
    struct bp_pool *common = bp_pool_at(pool->device->host, pool->space);
    struct bp_region *next;

    if (pool == common) return;
    pthread_mutex_lock(&pool->device->memory->moving);
    for (struct bp_region *region = take_all_whole(pool); region; region = next) {
        next = region->next;
        take_back(common, region->parent);
        free(region);
    }
    pthread_mutex_unlock(&pool->device->memory->moving);
}

uint32_t bp_chunk_release(struct bp_pool *common)
{
    struct bp_region *list, *next;
    uint32_t n = 0;

    if (!bp_release_begin(common->device)) return 0;
    pthread_mutex_lock(&common->device->memory->moving);
    list = take_all_whole(common);
    bp_pool_lock(common);
    for (struct bp_region *region = list; region; region = region->next) {
        common->counts.lost -= region->raw_size - region->size;
        common->counts.reserved -= region->raw_size - region->size;
    }
    bp_pool_unlock(common);
    pthread_mutex_unlock(&common->device->memory->moving);
    for (; list; list = next, n++) {
        next = list->next;
        segment_deallocate(common, list);
    }
    bp_release_end(common->device);
    return n;
}

void bp_pool_drop(struct bp_pool *pool)
{
    struct bp_region *next;

    for (struct bp_region *region = pool->regions; region; region = next) {
        next = region->next;
        if (region->parent) free(region);
        else segment_deallocate(pool, region);
    }
    pool->regions = NULL;
}
