/* SPDX-License-Identifier: Apache-2.0 */
/* segment.c: allocates segments from the plugin, and lends blocks of the host's pool to other pools
 * as spans. */
#include "../device/profiled.h"
#include "pool.h"

#include "poison.h"

#include <inttypes.h>
#include <stdlib.h>

static const uint64_t segment_min = UINT64_C(2) << 20, segment_max = UINT64_C(64) << 20;

/* Checks the memory that the plugin returned, as far as this is possible. */
static enum bp_status segment_check(const struct bp_device *device, uint32_t space,
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

/* Called with the memory state locked. Returns BP_ERR_MEMORY if the limit leaves no room for size
 * bytes. */
static enum bp_status segment_check_limit(struct bp_device *device, uint64_t size)
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
    status = segment_check_limit(device, size);
    if (status == BP_OK) {
        m->reserved += size;
        m->segments++;
        m->segments_ever++;
        if (m->peak_reserved < m->reserved) m->peak_reserved = m->reserved;
    }
    pthread_mutex_unlock(&m->lock);
    return status;
}

static void segment_unreserve(struct bp_device *device, uint64_t size, bool existed)
{
    struct bp_memory_state *m = device->memory;

    pthread_mutex_lock(&m->lock);
    m->reserved -= size;
    m->segments--;
    m->segments_ever -= !existed;
    pthread_mutex_unlock(&m->lock);
}

static enum bp_status plan_reserve(struct bp_device *device, uint64_t bytes)
{
    struct bp_memory_state *m = device->memory;
    enum bp_status status;

    pthread_mutex_lock(&m->lock);
    status = segment_check_limit(device, bytes);
    if (status == BP_OK) m->plans += bytes;
    pthread_mutex_unlock(&m->lock);
    return status;
}

enum bp_status bp_memory_plan_reserve(struct bp_device *device, uint64_t bytes)
{
    enum bp_status status = plan_reserve(device, bytes);

    return status && bp_device_shrink(device) ? plan_reserve(device, bytes) : status;
}

void bp_memory_plan_release(struct bp_device *device, uint64_t bytes)
{
    struct bp_memory_state *m = device->memory;

    pthread_mutex_lock(&m->lock);
    m->plans -= bytes;
    pthread_mutex_unlock(&m->lock);
}

/* Allocates the plugin's memory for a segment. The size is counted, and checked against the limit,
 * before. */
static enum bp_status segment_allocate(struct bp_pool *common, struct bp_span *span)
{
    struct bp_device *device = common->device;
    struct bp_plugin_entry *entry = device->entry;
    uint64_t began = bp_profile_begin();
    enum bp_status status;

    TRY(segment_reserve(device, span->raw_size));
    bp_error_enter();
    status = bp_device_leave(device,
                             entry->runtime.memory_allocate(entry->self, device->index,
                                                            common->space, span->raw_size,
                                                            &span->raw),
                             "memory_allocate");
    if (status == BP_OK) status = segment_check(device, common->space, &span->raw);
    if (status) segment_unreserve(device, span->raw_size, false);
    if (began) bp_memory_profile_segment(device, span->raw_size, began);
    return status;
}

static void segment_deallocate(struct bp_pool *common, struct bp_span *span)
{
    struct bp_device *device = common->device;
    struct bp_plugin_entry *entry = device->entry;

    uint64_t began = bp_profile_begin();

    bp_segment_report_release(device, span);
    if (common->poison) bp_unpoison(span->memory.data, span->size);
    entry->runtime.memory_free(entry->self, device->index, common->space, &span->raw);
    segment_unreserve(device, span->raw_size, true);
    if (began) bp_memory_profile_segment(device, 0, began);
    free(span);
}

static void span_link(struct bp_pool *pool, struct bp_span *span)
{
    span->next = pool->spans;
    span->at = &pool->spans;
    if (span->next) span->next->at = &span->next;
    pool->spans = span;
}

static void span_unlink(struct bp_span *span)
{
    *span->at = span->next;
    if (span->next) span->next->at = span->at;
}

/* Called with the pool locked. Makes one LIVE block of all memory of a span. */
static bool span_link_block(struct bp_pool *pool, struct bp_span *span,
                            struct bp_heap_block **out_block)
{
    struct bp_heap_block *block = bp_heap_node_alloc(&pool->heap), *sentinel = &span->sentinel;

    if (!block) return false;
    block->lo = block->hi = sentinel;
    sentinel->lo = sentinel->hi = block;
    sentinel->state = block->state = BP_HEAP_LIVE;
    block->n = span->size >> pool->shift;
    block->at = 0;
    block->stamp = 0;
    block->span = span;
    span_link(pool, span);
    *out_block = block;
    return true;
}

/* The usual size of a segment: as many bytes as the pool has reserved already, between segment_min
 * and segment_max; more for a larger request. */
static uint64_t segment_usual_size(uint64_t reserved, uint64_t bytes)
{
    uint64_t size = segment_min;

    while (size < segment_max && size < reserved) size *= 2;
    return bytes <= size ? size : (bytes + segment_min - 1) & ~(segment_min - 1);
}

static bool segment_exceeds_device(const struct bp_device *device, uint64_t size)
{
    const struct bp_device_properties *p = &device->properties;

    return (p->max_alloc && size > p->max_alloc) ||
           (p->memory && (size > p->memory || device->memory->reserved > p->memory - size));
}

/* If a segment does not begin at a multiple of a granule, less than one granule is lost at either
 * end. */
static void segment_align(const struct bp_pool *common, struct bp_span *span)
{
    uint64_t granule = UINT64_C(1) << common->shift;
    uintptr_t data = (uintptr_t)span->raw.data, first = (data + granule - 1) & ~(granule - 1);

    span->memory = (struct bp_memory){.handle = span->raw.handle, .data = (void *)first};
    span->size = (span->raw_size - (first - data)) & ~(granule - 1);
    if (common->poison) bp_poison(span->memory.data, span->size);
}

static enum bp_status segment_no_memory(const struct bp_pool *pool)
{
    return bp_error(BP_ERR_MEMORY, "%s: no host memory to keep account of its memory",
                    pool->device->name);
}

enum bp_status bp_segment_create(struct bp_pool *common, uint64_t reserved, uint64_t n, bool exact,
                                 struct bp_heap_block **out_block)
{
    struct bp_device *device = common->device;
    uint64_t granule = UINT64_C(1) << common->shift;
    uint64_t bytes = (n << common->shift) + granule - device->alignment;
    struct bp_span *span = calloc(1, sizeof *span);
    enum bp_status status;
    bool filled;

    if (!span) return segment_no_memory(common);
    span->segment = span;
    span->space = common->space;
    span->raw_size = exact ? bytes : segment_usual_size(reserved, bytes);
    pthread_mutex_lock(&device->memory->lock);
    status = !exact && segment_exceeds_device(device, span->raw_size) ? BP_ERR_MEMORY : BP_OK;
    pthread_mutex_unlock(&device->memory->lock);
    if (status) bp_error_write("%s has no segment of the usual size", device->name);
    else status = segment_allocate(common, span);
    if (status) {
        free(span);
        return status;
    }
    segment_align(common, span);
    bp_pool_lock(common);
    filled = span_link_block(common, span, out_block);
    if (filled) common->counts.lost += span->raw_size - span->size;
    if (filled) common->counts.reserved += span->raw_size - span->size;
    bp_pool_unlock(common);
    if (filled) return bp_segment_report_new(device, span), BP_OK;
    segment_deallocate(common, span);
    return segment_no_memory(common);
}

struct bp_heap_block *bp_segment_lend(struct bp_pool *common, uint64_t reserved, uint64_t n)
{
    uint64_t wanted = segment_usual_size(reserved, n << common->shift) >> common->shift;
    struct bp_heap_block *block;

    bp_pool_lock(common);
    bp_pool_collect(common);
    bp_heap_flush(&common->heap);
    block = bp_heap_alloc(&common->heap, wanted, true);
    if (!block) block = bp_heap_alloc(&common->heap, n, false);
    if (!block) block = bp_heap_search(&common->heap, n, NULL, NULL);
    if (block) common->counts.free -= block->n << common->shift;
    if (block) common->counts.reserved -= block->n << common->shift;
    bp_pool_unlock(common);
    return block;
}

/* Returns a lent block to the host's pool. */
static void segment_return(struct bp_pool *common, struct bp_heap_block *block)
{
    uintptr_t first = (uintptr_t)block->span->memory.data;

    if (common->poison)
        bp_poison((void *)(first + (block->at << common->shift)), block->n << common->shift);
    bp_pool_lock(common);
    common->counts.free += block->n << common->shift;
    common->counts.reserved += block->n << common->shift;
    bp_heap_free(&common->heap, block);
    bp_pool_unlock(common);
}

enum bp_status bp_span_create(struct bp_pool *pool, struct bp_pool *common,
                              struct bp_heap_block *block)
{
    const struct bp_memory *memory = &block->span->memory;
    struct bp_span *span;
    bool filled;

    if (pool == common) return segment_return(common, block), BP_OK;
    span = calloc(1, sizeof *span);
    if (!span) return segment_return(common, block), segment_no_memory(pool);
    span->parent = block;
    span->segment = block->span->segment;
    span->size = block->n << common->shift;
    span->memory.handle = memory->handle;
    span->memory.data = (void *)((uintptr_t)memory->data + (block->at << common->shift));
    bp_pool_lock(pool);
    filled = span_link_block(pool, span, &block);
    if (filled) {
        pool->counts.reserved += span->size;
        pool->counts.free += span->size;
        bp_heap_free(&pool->heap, block);
    }
    bp_pool_unlock(pool);
    if (filled) return BP_OK;
    segment_return(common, span->parent);
    free(span);
    return segment_no_memory(pool);
}

/* Called with the pool locked, after blocks kept whole have merged. Removes the spans from the pool
 * that are one free block which work of any stream may use. */
static struct bp_span *segment_detach_free(struct bp_pool *pool)
{
    struct bp_span *list = NULL, *next;

    for (struct bp_span *span = pool->spans; span; span = next) {
        struct bp_heap_block *block = span->sentinel.hi;
        next = span->next;
        if (block->state != BP_HEAP_FREE || block->hi != &span->sentinel ||
            !bp_pool_is_common(pool, block))
            continue;
        bp_heap_remove(&pool->heap, block);
        bp_heap_node_free(&pool->heap, block);
        span_unlink(span);
        pool->counts.reserved -= span->size;
        pool->counts.free -= span->size;
        span->next = list;
        list = span;
    }
    return list;
}

static struct bp_span *segment_collect_free(struct bp_pool *pool)
{
    struct bp_span *list;

    bp_pool_lock(pool);
    bp_pool_collect(pool);
    bp_heap_flush(&pool->heap);
    list = segment_detach_free(pool);
    bp_pool_unlock(pool);
    return list;
}

void bp_pool_trim(struct bp_pool *pool)
{
    struct bp_pool *common = bp_pool_find(pool->device->host, pool->space);
    struct bp_span *next;

    if (pool == common) return;
    pthread_mutex_lock(&pool->device->memory->stats_lock);
    for (struct bp_span *span = segment_collect_free(pool); span; span = next) {
        next = span->next;
        segment_return(common, span->parent);
        free(span);
    }
    pthread_mutex_unlock(&pool->device->memory->stats_lock);
}

uint32_t bp_segment_release(struct bp_pool *common)
{
    struct bp_span *list, *next;
    uint32_t n = 0;

    if (!bp_segment_release_begin(common->device)) return 0;
    pthread_mutex_lock(&common->device->memory->stats_lock);
    list = segment_collect_free(common);
    bp_pool_lock(common);
    for (struct bp_span *span = list; span; span = span->next) {
        common->counts.lost -= span->raw_size - span->size;
        common->counts.reserved -= span->raw_size - span->size;
    }
    bp_pool_unlock(common);
    pthread_mutex_unlock(&common->device->memory->stats_lock);
    for (; list; list = next, n++) {
        next = list->next;
        segment_deallocate(common, list);
    }
    bp_segment_release_end(common->device);
    return n;
}

void bp_pool_release_spans(struct bp_pool *pool)
{
    struct bp_span *next;

    for (struct bp_span *span = pool->spans; span; span = next) {
        next = span->next;
        if (span->parent) free(span);
        else segment_deallocate(pool, span);
    }
    pool->spans = NULL;
}
