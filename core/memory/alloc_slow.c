/* SPDX-License-Identifier: Apache-2.0 */
/* alloc_slow.c: allocates memory when the owner's pool has no block at hand: tries a series of
 * steps in fixed order, and writes the error message if all fail. No lock is held between two
 * steps, so another thread may take the memory that one step has found. */
#include "pool.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Requests of at least this size search the memory of other streams before more memory is reserved.
 * For smaller requests the saving is not worth the contention of streams for one lock at each
 * call. */
static const uint64_t large = UINT64_C(1) << 20;

struct alloc_request {
    struct bp_pool *pool, *common;
    struct bp_device *device;
    uint64_t size, n;            /* bytes, granules */
    struct bp_buffer *buffer;  /* NULL: not found yet */
    enum bp_memory_path path;    /* counted when a buffer is found */
    bool retired_only;           /* of other pools, use only those of destroyed streams */
    bool had_work;               /* streams had unfinished work before the last searches */
    char why[256];               /* the plugin's error message, or the limit */
};

/* Each step returns whether it has found a buffer. */

static bool alloc_from_own(struct alloc_request *r)
{
    bp_pool_lock(r->pool);
    r->buffer = bp_pool_alloc_collected(r->pool, r->size);
    bp_pool_unlock(r->pool);
    return r->buffer;
}

static uint64_t alloc_reserved(struct bp_pool *pool)
{
    uint64_t bytes;

    bp_pool_lock(pool);
    bytes = pool->counts.reserved;
    bp_pool_unlock(pool);
    return bytes;
}

static bool alloc_from_common(struct alloc_request *r)
{
    struct bp_heap_block *block;

    if (r->pool == r->common) return alloc_from_own(r);
    block = bp_segment_lend(r->common, alloc_reserved(r->pool), r->n);
    return block && bp_span_create(r->pool, r->common, block) == BP_OK && alloc_from_own(r);
}

static bool is_retired(const struct bp_timeline *timeline)
{
    uint32_t state;

    pthread_mutex_lock(&timeline->device->lock);
    state = timeline->state;
    pthread_mutex_unlock(&timeline->device->lock);
    return state != BP_TIMELINE_LIVE;
}

static void alloc_trim_other(struct bp_pool *pool, void *ctx)
{
    struct alloc_request *r = ctx;

    if (pool == r->pool || (r->retired_only && !is_retired(pool->owner))) return;
    bp_pool_poll_owner(pool);
    bp_pool_trim(pool);
}

/* Uses whole spans of other pools that work of any stream may use by now. */
static bool alloc_from_trimmed(struct alloc_request *r, bool retired_only)
{
    r->retired_only = retired_only;
    bp_pools_visit(r->device, r->pool->space, alloc_trim_other, r);
    return alloc_from_common(r);
}

/* Whether the plugin runs both timelines in one order: work that was submitted to any stream runs
 * before work that is submitted later. */
static bool is_one_order(const struct bp_timeline *a, const struct bp_timeline *b)
{
    return a->device->emulated & BP_EMULATED_STREAMS && !a->is_inline && !b->is_inline &&
           !a->queue && !b->queue;
}

struct loan {
    struct alloc_request *r;
    struct bp_pool *from;
    bool wait; /* accept only blocks that the borrower must wait for */
};

static bool alloc_fits(const struct bp_heap_block *block, void *ctx)
{
    const struct loan *loan = ctx;
    struct bp_timeline *borrower = loan->r->pool->owner, *owner = loan->from->owner;

    if (loan->wait) return block->stamp <= atomic_load(&owner->submitted);
    return bp_pool_is_common(loan->from, block) || is_one_order(borrower, owner) ||
           bp_timeline_is_after(borrower, owner, block->stamp);
}

/* Takes a block of another pool. The block stays in that pool. When the buffer is freed, the
 * borrower is one of its users; its place among them is reserved here, so that the free cannot
 * fail. */
static struct bp_buffer *alloc_borrow(struct loan *loan, uint64_t *out_stamp)
{
    struct bp_pool *from = loan->from;
    struct bp_timeline *borrower = loan->r->pool->owner;
    struct bp_buffer *buffer = NULL;
    struct bp_heap_block *block;

    bp_pool_lock(from);
    bp_pool_collect(from);
    bp_heap_flush(&from->heap);
    block = bp_heap_search(&from->heap, loan->r->n, alloc_fits, loan);
    if (block) {
        buffer = bp_pool_init_buffer(from, block, loan->r->size);
        *out_stamp = block->stamp;
    }
    if (block && !bp_users_add(&buffer->deferred.users, borrower, 0)) {
        bp_pool_free(from, buffer);
        buffer = NULL;
    }
    if (buffer) buffer->owner = borrower;
    bp_pool_unlock(from);
    return buffer;
}

static void alloc_return(struct bp_buffer *buffer)
{
    bp_pool_lock(buffer->pool);
    bp_pool_free(buffer->pool, buffer);
    bp_pool_unlock(buffer->pool);
}

static void alloc_borrow_from(struct bp_pool *pool, void *ctx)
{
    struct alloc_request *r = ctx;
    struct loan loan = {r, pool, false};
    uint64_t stamp;

    if (!r->buffer && pool != r->pool && pool != r->common && !pool->is_capture)
        r->buffer = alloc_borrow(&loan, &stamp);
}

static bool alloc_from_others(struct alloc_request *r)
{
    bp_pools_visit(r->device, r->pool->space, alloc_borrow_from, r);
    return r->buffer;
}

static void alloc_steal_from(struct bp_pool *pool, void *ctx)
{
    struct alloc_request *r = ctx;
    struct loan loan = {r, pool, true};
    struct bp_buffer *buffer;
    uint64_t stamp;

    if (r->buffer || pool == r->pool || pool == r->common) return;
    if (pool->is_capture || bp_timeline_is_capturing(pool->owner)) return;
    buffer = alloc_borrow(&loan, &stamp);
    if (!buffer) return;
    if (bp_timeline_order_after(r->pool->owner, pool->owner, stamp) == BP_OK) r->buffer = buffer;
    else alloc_return(buffer);
}

/* Takes memory that earlier work of its owner may still use, behind a wait of the device or of the
 * borrower's queue. This thread does not wait. */
static bool alloc_from_stolen(struct alloc_request *r)
{
    const struct bp_timeline *borrower = r->pool->owner;

    if (borrower->is_inline) return false;
    if (!borrower->queue && r->device->emulated & (BP_EMULATED_STREAM_WAIT | BP_EMULATED_EVENTS))
        return false;
    r->path = BP_PATH_STOLEN;
    bp_pools_visit(r->device, r->pool->space, alloc_steal_from, r);
    return r->buffer;
}

/* Creates a segment of the usual size, or of the exact size if the usual one fails. If another
 * thread takes the new memory first, the step is repeated. BP_OK: r->buffer is set if it
 * succeeded. */
static enum bp_status alloc_from_plugin(struct alloc_request *r)
{
    enum bp_status status = BP_OK;

    for (uint32_t i = 0; i < 4 && status == BP_OK && !r->buffer; i++) {
        uint64_t has = alloc_reserved(r->pool);
        struct bp_heap_block *block = NULL;
        status = bp_segment_create(r->common, has, r->n, false, &block);
        if (status == BP_ERR_MEMORY)
            status = bp_segment_create(r->common, has, r->n, true, &block);
        if (status == BP_OK) status = bp_span_create(r->pool, r->common, block);
        if (status == BP_OK) alloc_from_own(r);
    }
    if (status) snprintf(r->why, sizeof r->why, "%s", bp_error_message());
    return status == BP_ERR_MEMORY ? BP_OK : status;
}

static void alloc_poll(struct bp_pool *pool, void *ctx)
{
    (void)ctx;
    bp_pool_poll_owner(pool);
}

/* Queries all pools before any is searched, because the progress of one stream may free memory of
 * another. */
static bool alloc_from_polled(struct alloc_request *r)
{
    bp_pools_visit(r->device, BP_SPACES, alloc_poll, NULL);
    return alloc_from_own(r) || alloc_from_trimmed(r, false) || alloc_from_others(r);
}

static void alloc_trim(struct bp_pool *pool, void *ctx)
{
    (void)ctx;
    bp_pool_trim(pool);
}

static void alloc_release(struct bp_pool *pool, void *ctx)
{
    (void)ctx;
    if (pool->owner == pool->device->host) bp_segment_release(pool);
}

/* Releases segments that are entirely free but too small, then tries the plugin again. The limit,
 * and possibly the device, counts all spaces together. */
static enum bp_status alloc_from_released(struct alloc_request *r)
{
    bp_pools_visit(r->device, BP_SPACES, alloc_trim, NULL);
    bp_pools_visit(r->device, BP_SPACES, alloc_release, NULL);
    return alloc_from_plugin(r);
}

static bool device_has_work(struct bp_device *device)
{
    for (struct bp_timeline *t = atomic_load(&device->timelines); t; t = t->next)
        if (!t->is_inline && !bp_timeline_is_capturing(t) &&
            !bp_timeline_passed(t, atomic_load(&t->last)))
            return true;
    return false;
}

/* Waits for one stream after the other, so that a failure is attributed to its own stream. The
 * caller that needs memory does not receive that failure, unless the whole device has failed. A
 * callback does not wait for queues, because a task of a queue may wait for the callback. */
static enum bp_status device_wait_streams(struct bp_device *device)
{
    struct bp_deadline until = bp_deadline_of(device);
    bool late = false;

    for (struct bp_timeline *t = atomic_load(&device->timelines); t; t = t->next) {
        uint64_t number = atomic_load(&t->submitted);
        enum bp_status status;
        if (t->is_inline || bp_timeline_is_capturing(t) || (t->queue && bp_queue_on_worker()))
            continue;
        status = bp_timeline_wait(t, number, &until);
        if (status == BP_ERR_SHUTDOWN) return status;
        late |= status == BP_ERR_TIMEOUT;
    }
    bp_memory_collect(device);
    TRY(bp_device_check(device));
    return late ? bp_deadline_error(device, NULL, UINT64_MAX, &until) : BP_OK;
}

/* If all work has ended since the last searches, as another thread may have noticed, no wait is
 * left, but the memory of that work is searched. */
static enum bp_status alloc_after_wait(struct alloc_request *r)
{
    enum bp_status status = BP_OK;
    char why[1536];

    if (device_has_work(r->device)) {
        TRY(bp_block_record(r->device, BP_BLOCK_MEMORY));
        status = device_wait_streams(r->device);
    } else if (!r->had_work) {
        return BP_OK;
    }
    if (status && status != BP_ERR_TIMEOUT) return status;
    if (status) snprintf(why, sizeof why, "%s", bp_error_message());
    r->path = BP_PATH_WAIT;
    if (alloc_from_polled(r)) return BP_OK;
    TRY(alloc_from_released(r));
    if (r->buffer || status == BP_OK) return BP_OK;
    return bp_error(status, "memory for %" PRIu64 " bytes is still in use: %s", r->size, why);
}

struct alloc_text {
    char s[768];
    size_t used;
    uint32_t pools;
    struct bp_pool_stats sum;
};

static void alloc_describe_pool(struct bp_pool *pool, void *ctx)
{
    struct alloc_text *t = ctx;
    struct bp_pool_stats s = {.size = sizeof s};
    char owner[48] = "memory of no stream";

    bp_pool_stats(pool, &s);
    t->sum.reserved += s.reserved;
    t->sum.allocated += s.allocated;
    t->sum.pending += s.pending;
    t->sum.free += s.free;
    if (t->sum.largest_free < s.largest_free) t->sum.largest_free = s.largest_free;
    if (!s.reserved || t->used >= sizeof t->s) return;
    if (s.stream)
        snprintf(owner, sizeof owner, "%sstream %u", s.captured ? "a capture of " : "", s.stream);
    if (s.space)
        snprintf(owner + strlen(owner), sizeof owner - strlen(owner), " (space %u)", s.space);
    t->used += (size_t)snprintf(t->s + t->used, sizeof t->s - t->used,
                                "%s%s has %" PRIu64 ": allocated %" PRIu64 ", pending %" PRIu64
                                ", free %" PRIu64,
                                t->pools++ ? "; " : "", owner, s.reserved, s.allocated, s.pending,
                                s.free);
}

static enum bp_status alloc_report_failure(struct alloc_request *r)
{
    uint64_t limit = r->device->core->memory_limit, memory = r->device->properties.memory;
    struct alloc_text t = {.sum.size = sizeof t.sum};
    char of[48] = "";

    bp_pools_visit(r->device, BP_SPACES, alloc_describe_pool, &t);
    if (limit && (!memory || limit < memory))
        snprintf(of, sizeof of, " of BP_MEM_LIMIT=%" PRIu64, limit);
    else if (memory) snprintf(of, sizeof of, " of %" PRIu64, memory);
    atomic_fetch_add_explicit(&r->device->memory->failures, 1, memory_order_relaxed);
    return bp_error(BP_ERR_MEMORY,
                    "%s: out of memory: asked for %" PRIu64 " bytes; allocated %" PRIu64
                    ", pending %" PRIu64 ", free %" PRIu64 " (largest %" PRIu64
                    "), reserved %" PRIu64 "%s; free tensors, or use smaller ones%s%s%s%s%s",
                    r->device->name, r->size, t.sum.allocated, t.sum.pending, t.sum.free,
                    t.sum.largest_free, t.sum.reserved, of, *r->why ? " (" : "", r->why,
                    *r->why ? ")" : "", t.pools > 1 ? "; " : "", t.pools > 1 ? t.s : "");
}

/* Whether no step can succeed, because the request exceeds a fixed limit. */
static bool alloc_is_impossible(struct alloc_request *r)
{
    const struct bp_device_properties *p = &r->device->properties;
    uint64_t bytes = r->n << r->pool->shift, limit = r->device->core->memory_limit;

    if (p->max_alloc && bytes > p->max_alloc)
        snprintf(r->why, sizeof r->why, "the device allocates at most %" PRIu64 " at once",
                 p->max_alloc);
    return (p->max_alloc && bytes > p->max_alloc) || (p->memory && bytes > p->memory) ||
           (limit && bytes > limit);
}

#define STEP(new_path, step) \
    do { \
        r->path = (new_path); \
        if (step) return BP_OK; \
    } while (0)
#define STEP_OF_PLUGIN(new_path, step) \
    do { \
        r->path = (new_path); \
        TRY(step); \
        if (r->buffer) return BP_OK; \
    } while (0)

static enum bp_status alloc_find(struct alloc_request *r)
{
    STEP(BP_PATH_COUNT, alloc_from_own(r));
    bp_pool_poll(r->pool);
    STEP(BP_PATH_POLL, alloc_from_own(r));
    if (r->common != r->pool) bp_pool_poll(r->common);
    STEP(BP_PATH_COMMON, alloc_from_common(r));
    STEP(BP_PATH_COMMON, alloc_from_trimmed(r, true));
    if (r->size >= large)
        STEP(BP_PATH_OTHERS, alloc_from_trimmed(r, false) || alloc_from_others(r));
    STEP_OF_PLUGIN(BP_PATH_SEGMENT, alloc_from_plugin(r));

    r->had_work = device_has_work(r->device);
    STEP(BP_PATH_POLL, alloc_from_polled(r));
    STEP_OF_PLUGIN(BP_PATH_RELEASE, alloc_from_released(r));
    if (bp_device_shrink(r->device)) {
        STEP(BP_PATH_SHRINK, alloc_from_polled(r));
        STEP_OF_PLUGIN(BP_PATH_SHRINK, alloc_from_released(r));
    }
    STEP(BP_PATH_STOLEN, alloc_from_stolen(r));
    STEP_OF_PLUGIN(BP_PATH_WAIT, alloc_after_wait(r));
    return alloc_report_failure(r);
}

/* For captured work: uses memory at hand or a new segment. Queries, waits and borrowed memory would
 * become part of the capture. */
static enum bp_status alloc_find_captured(struct alloc_request *r)
{
    size_t used;

    STEP(BP_PATH_COUNT, alloc_from_own(r));
    STEP(BP_PATH_COMMON, alloc_from_common(r));
    STEP_OF_PLUGIN(BP_PATH_SEGMENT, alloc_from_plugin(r));
    used = strlen(r->why);
    snprintf(r->why + used, sizeof r->why - used, "%sa capture is open: nothing is waited for",
             used ? "; " : "");
    return alloc_report_failure(r);
}

enum bp_status bp_memory_alloc_slow(struct bp_pool *pool, uint64_t size,
                                    struct bp_buffer **out_buffer)
{
    struct alloc_request r = {.pool = pool, .device = pool->device, .size = size};
    enum bp_status status;

    r.common = bp_pool_get(r.device->host, pool->space);
    if (!r.common) return BP_ERR_MEMORY;
    r.n = bp_pool_granules(pool, size);
    status = alloc_is_impossible(&r)  ? alloc_report_failure(&r)
             : pool->is_capture ? alloc_find_captured(&r)
                              : alloc_find(&r);
    if (status) return status;
    if (r.path < BP_PATH_COUNT)
        atomic_fetch_add_explicit(&r.device->memory->paths[r.path], 1, memory_order_relaxed);
    *out_buffer = r.buffer;
    return BP_OK;
}
