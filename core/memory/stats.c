/* SPDX-License-Identifier: Apache-2.0 */
/* stats.c: computes the memory statistics of a device. The values of one pool are of one moment and
 * consistent; the sums over pools are consistent too, and never exceed the reserved memory. */
#include "../device/profiled.h"
#include "pool.h"

/* All memory of a capture counts as allocated, because no other work can use it. */
static void stats_of_capture(struct bp_pool *pool, struct bp_pool_stats *out)
{
    struct bp_pool_counts *c = &pool->counts;

    if (c->peak < c->reserved) c->peak = c->reserved;
    out->captured = out->allocated = c->reserved;
    out->peak = c->peak;
    out->rounding = out->pending = out->free = out->largest_free = 0;
}

void bp_pool_stats(struct bp_pool *pool, struct bp_pool_stats *out)
{
    const struct bp_pool_counts *c = &pool->counts;

    bp_pool_lock(pool);
    bp_pool_collect(pool);
    out->reserved = c->reserved;
    out->allocated = c->requested;
    out->rounding = c->taken - c->requested + c->lost;
    out->pending = c->pending;
    out->free = c->free;
    out->largest_free = bp_heap_largest(&pool->heap) << pool->shift;
    out->peak = c->peak;
    out->allocations = c->allocations;
    out->live = c->live;
    out->stream = pool->owner->id;
    out->space = pool->space;
    if (pool->capture == BP_CAPTURE_OPEN || pool->capture == BP_CAPTURE_CLOSED)
        stats_of_capture(pool, out);
    bp_pool_unlock(pool);
}

static void stats_add(struct bp_pool *pool, void *ctx)
{
    struct bp_memory_stats *out = ctx;
    struct bp_pool_stats s = {.size = sizeof s};

    bp_pool_stats(pool, &s);
    out->reserved += s.reserved;
    out->allocated += s.allocated;
    out->rounding += s.rounding;
    out->pending += s.pending;
    out->free += s.free;
    if (out->largest_free < s.largest_free) out->largest_free = s.largest_free;
    out->peak += s.peak;
    out->allocations += s.allocations;
    out->captured += s.captured;
    out->live += s.live;
}

/* Sums all pools while the reserved memory cannot shrink. Reserved memory that is in no pool is
 * moving from the plugin to the host's pool, or from there to another pool: it counts as free. */
static void stats_sum(struct bp_device *device, struct bp_memory_stats *out)
{
    struct bp_memory_state *m = device->memory;

    pthread_mutex_lock(&m->stats_lock);
    bp_pools_visit(device, BP_SPACES, stats_add, out);
    pthread_mutex_lock(&m->lock);
    out->free += m->reserved - out->reserved;
    out->reserved = m->reserved;
    out->segments = m->segments;
    out->segments_ever = m->segments_ever;
    out->peak_reserved = m->peak_reserved;
    out->plans = m->plans;
    pthread_mutex_unlock(&m->lock);
    pthread_mutex_unlock(&m->stats_lock);
    out->limit = device->core->memory_limit;
}

/* Fills all values except those of the driver. */
static void stats_fill(struct bp_device *device, struct bp_memory_stats *out)
{
    struct bp_memory_state *m = device->memory;
    uint64_t misses = 0, path[BP_PATH_COUNT];

    stats_sum(device, out);
    for (uint32_t i = 0; i < BP_PATH_COUNT; i++) {
        path[i] = atomic_load_explicit(&m->paths[i], memory_order_relaxed);
        misses += path[i];
    }
    out->hits = out->allocations > misses ? out->allocations - misses : 0;
    out->from_common = path[BP_PATH_COMMON];
    out->from_others = path[BP_PATH_OTHERS];
    out->from_segments = path[BP_PATH_SEGMENT];
    out->after_poll = path[BP_PATH_POLL];
    out->after_release = path[BP_PATH_RELEASE];
    out->after_pressure = path[BP_PATH_SHRINK];
    out->stolen = path[BP_PATH_STOLEN];
    out->after_wait = path[BP_PATH_WAIT];
    out->failures = atomic_load_explicit(&m->failures, memory_order_relaxed);
}

enum bp_status bp_device_memory(struct bp_device *device, struct bp_memory_stats *out)
{
    struct bp_memory_stats s = {.size = sizeof s};
    struct bp_plugin_entry *entry;

    if (!bp_device_is(device)) return bp_not_a("device");
    bp_deferred_check(device, false);
    entry = device->entry;
    stats_fill(device, &s);
    if (entry->runtime.memory_info) {
        TRY(bp_device_check_lost(device));
        bp_error_enter();
        TRY(bp_device_leave(
            device,
            entry->runtime.memory_info(entry->self, device->index, &s.device_free, &s.device_total),
            "memory_info"));
    } else {
        s.device_total = device->properties.memory;
        s.device_free = s.device_total > s.reserved ? s.device_total - s.reserved : 0;
    }
    return bp_info_fill(out, &s, sizeof s);
}

struct search {
    uint32_t left, n;
    struct bp_pool_stats *out;
};

static void stats_find(struct bp_pool *pool, void *ctx)
{
    struct search *s = ctx;

    if (s->out && s->n == s->left) bp_pool_stats(pool, s->out);
    s->n++;
}

uint32_t bp_device_pools(struct bp_device *device)
{
    struct search s = {0};

    if (bp_device_is(device)) bp_pools_visit(device, BP_SPACES, stats_find, &s);
    return s.n;
}

enum bp_status bp_device_pool(struct bp_device *device, uint32_t index, struct bp_pool_stats *out)
{
    struct bp_pool_stats stats = {.size = sizeof stats};
    struct search s = {index, 0, &stats};

    if (!bp_device_is(device)) return bp_not_a("device");
    bp_pools_visit(device, BP_SPACES, stats_find, &s);
    if (index >= s.n)
        return bp_error(BP_ERR_INVALID, "bp_device_pool: there is no pool %u, only %u", index, s.n);
    return bp_info_fill(out, &stats, sizeof stats);
}

void bp_memory_profile_segment(struct bp_device *device, uint64_t bytes, uint64_t began)
{
    bp_profile_put(&(struct bp_profile_put){.begin = began,
                                            .end = bp_profile_now(),
                                            .bytes = bytes,
                                            .name = "segment",
                                            .device = device->name,
                                            .kind = BP_PROFILE_SEGMENT});
}
