/* SPDX-License-Identifier: Apache-2.0 */
/* pool_check.c: checks the allocator's data against the model, against its own sums, and against
 * the memory that the plugin has allocated. */
#include "pool_model.h"

#include <inttypes.h>
#include <stdio.h>

void model_wrong(struct model *m, const char *format, ...)
{
    va_list args;

    if (*m->wrong) return;
    va_start(args, format);
    vsnprintf(m->wrong, sizeof m->wrong, format, args);
    va_end(args);
}

struct sums {
    uint64_t size, live, lent, free, pending, requested;
    uint32_t buffers;
};

static void add_block(struct model *m, struct bp_pool *pool, const struct bp_heap_block *b,
                      struct sums *s)
{
    const struct bp_buffer *buffer = (const struct bp_buffer *)b;
    uint64_t bytes = b->n << pool->shift;

    s->size += bytes;
    switch (b->state) {
    case BP_HEAP_PENDING: s->pending += bytes; break;
    case BP_HEAP_LIVE:
        if (buffer->magic != BP_MAGIC_BUFFER) {
            s->lent += bytes;
            break;
        }
        s->live += bytes;
        s->requested += buffer->size;
        s->buffers++;
        if (buffer->size > bytes)
            model_wrong(m, "a buffer of %" PRIu64 " bytes has %" PRIu64, buffer->size, bytes);
        break;
    default:
        s->free += bytes;
        if (b->state == BP_HEAP_FREE && b->hi->state == BP_HEAP_FREE)
            model_wrong(m, "two free neighbours have not merged");
    }
}

static void walk_region(struct model *m, struct bp_pool *pool, const struct bp_span *region,
                        struct sums *s)
{
    const struct bp_heap_block *before = &region->sentinel;
    uint64_t at = 0, size = s->size;

    for (const struct bp_heap_block *b = region->sentinel.hi; b != &region->sentinel; b = b->hi) {
        if (b->lo != before || b->at != at || b->span != region || !b->n)
            model_wrong(m, "a block is not where its neighbours say");
        before = b;
        at += b->n;
        add_block(m, pool, b, s);
    }
    if (s->size - size != region->size) model_wrong(m, "a region's blocks are not all of it");
}

static void pool_check_expect(struct model *m, const char *what, uint64_t got, uint64_t expected)
{
    if (got != expected)
        model_wrong(m, "%s is %" PRIu64 ", expected %" PRIu64, what, got, expected);
}

static void check_pool(struct bp_pool *pool, void *ctx)
{
    const struct bp_pool_counts *c = &pool->counts;
    struct model *m = ctx;
    struct sums s = {0};

    for (struct bp_span *r = pool->spans; r; r = r->next) walk_region(m, pool, r, &s);
    pool_check_expect(m, "a pool's reserved", c->reserved, s.size - s.lent + c->lost);
    pool_check_expect(m, "a pool's free", c->free, s.free);
    pool_check_expect(m, "a pool's pending", c->pending, s.pending);
    pool_check_expect(m, "a pool's taken", c->taken, s.live);
    pool_check_expect(m, "a pool's asked", c->requested, s.requested);
    if (c->live < s.buffers) model_wrong(m, "a pool counts fewer buffers than it has");
    if (c->peak < c->requested) model_wrong(m, "a pool's peak is less than what it has");
}

static void check_sums(struct model *m, const struct bp_memory_stats *stats)
{
    struct bp_memory_stats sum = {0};

    for (uint32_t i = 0; i < bp_device_pools(m->device); i++) {
        struct bp_pool_stats s = {.size = sizeof s};
        if (bp_device_pool(m->device, i, &s)) model_wrong(m, "%s", bp_error_message());
        pool_check_expect(m, "a pool's reserved, as told", s.reserved,
                          s.allocated + s.rounding + s.pending + s.free);
        if (s.largest_free > s.free) model_wrong(m, "largest_free is more than free");
        sum.reserved += s.reserved;
        sum.allocated += s.allocated;
        sum.rounding += s.rounding;
        sum.pending += s.pending;
        sum.free += s.free;
        sum.live += s.live;
        sum.allocations += s.allocations;
    }
    pool_check_expect(m, "the sum of reserved", sum.reserved, stats->reserved);
    pool_check_expect(m, "the sum of allocated", sum.allocated, stats->allocated);
    pool_check_expect(m, "the sum of rounding", sum.rounding, stats->rounding);
    pool_check_expect(m, "the sum of pending", sum.pending, stats->pending);
    pool_check_expect(m, "the sum of free", sum.free, stats->free);
    pool_check_expect(m, "the sum of live", sum.live, stats->live);
    pool_check_expect(m, "the sum of allocations", sum.allocations, stats->allocations);
}

void model_check(struct model *m)
{
    struct bp_memory_stats stats = {.size = sizeof stats};
    uint64_t requested = 0, captured = 0;

    if (bp_device_memory(m->device, &stats)) model_wrong(m, "%s", bp_error_message());
    bp_pools_visit(m->device, BP_SPACES, check_pool, m);
    check_sums(m, &stats);
    for (uint32_t i = 0; i < m->n_live; i++) requested += m->live[i].captured ? 0 : m->live[i].size;
    for (uint32_t i = 0; i < MODEL_CAPTURES; i++)
        if (m->recording[i].pool) captured += m->recording[i].pool->counts.reserved;
    pool_check_expect(m, "captured", stats.captured, captured);
    pool_check_expect(m, "allocated", stats.allocated, requested + captured);
    pool_check_expect(m, "live", stats.live, m->n_live);
    pool_check_expect(m, "reserved", stats.reserved,
                      stats.allocated + stats.rounding + stats.pending + stats.free);
    pool_check_expect(m, "reserved, which the plugin has given,", stats.reserved, m->fake->used);
    pool_check_expect(m, "failures", stats.failures, m->failures);
    pool_check_expect(m, "the sum of all paths", stats.allocations,
                      stats.hits + stats.from_common + stats.from_others + stats.from_segments +
                          stats.after_poll + stats.after_release + stats.after_pressure +
                          stats.stolen + stats.after_wait);
    if (m->limit && m->fake->used > m->limit)
        model_wrong(m, "%" PRIu64 " bytes are reserved, the limit is %" PRIu64, m->fake->used,
                    m->limit);
    if (m->fake->broken) model_wrong(m, "memory or a stream went while its work had not ended");
}
