/* SPDX-License-Identifier: Apache-2.0 */
/* alloc_slow.c: what is done, in this order, when a home's pool has nothing at hand; and what is
 * said when nothing helps. No lock is held between steps: what one step finds another thread may
 * take. */
#include "pool.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* From here on other streams' memory is looked for before more is reserved: for less it is not
 * worth that streams meet at one lock, call by call. */
static const uint64_t large = UINT64_C(1) << 20;

struct want {
    struct bp_pool *pool, *common;
    struct bp_device *device;
    uint64_t size, n;            /* bytes, granules */
    struct bp_storage *storage;  /* once there is one */
    enum bp_memory_path path;    /* counted when there is one */
    bool retired_only;           /* of other pools, only those whose stream is gone */
    char why[256];               /* what the plugin said, or the limit */
};

/* Each step says whether there is a storage. */

static bool from_own(struct want *w)
{
    bp_pool_lock(w->pool);
    w->storage = bp_pool_take_slowly(w->pool, w->size);
    bp_pool_unlock(w->pool);
    return w->storage;
}

static uint64_t alloc_reserved(struct bp_pool *pool)
{
    uint64_t bytes;

    bp_pool_lock(pool);
    bytes = pool->counts.reserved;
    bp_pool_unlock(pool);
    return bytes;
}

static bool from_common(struct want *w)
{
    struct bp_piece *block;

    if (w->pool == w->common) return from_own(w);
    block = bp_chunk_lend(w->common, alloc_reserved(w->pool), w->n);
    return block && bp_region_create(w->pool, w->common, block) == BP_OK && from_own(w);
}

static bool is_retired(const struct bp_timeline *timeline)
{
    uint32_t state;

    pthread_mutex_lock(&timeline->device->lock);
    state = timeline->state;
    pthread_mutex_unlock(&timeline->device->lock);
    return state != BP_TIMELINE_LIVE;
}

static void give_whole(struct bp_pool *pool, void *ctx)
{
    struct want *w = ctx;

    if (pool == w->pool || (w->retired_only && !is_retired(pool->home))) return;
    bp_pool_ask_home(pool);
    bp_pool_return(pool);
}

/* Whole regions of others that are everybody's by now. */
static bool from_whole(struct want *w, bool retired_only)
{
    w->retired_only = retired_only;
    bp_pools_visit(w->device, w->pool->space, give_whole, w);
    return from_common(w);
}

/* Devices of one order: what was submitted to any stream comes before what is submitted later. */
static bool one_order(const struct bp_timeline *a, const struct bp_timeline *b)
{
    return a->device->emulated & BP_EMULATED_STREAMS && !a->now && !b->now && !a->queue &&
           !b->queue;
}

struct loan {
    struct want *w;
    struct bp_pool *from;
    bool wait; /* what its taker is to wait for is wanted, and what needs no wait is not */
};

static bool alloc_is_good(const struct bp_piece *block, void *ctx)
{
    const struct loan *loan = ctx;
    struct bp_timeline *taker = loan->w->pool->home, *home = loan->from->home;

    if (loan->wait) return block->stamp <= atomic_load(&home->submitted);
    return bp_pool_is_common(loan->from, block) || one_order(taker, home) ||
           bp_timeline_behind(taker, home, block->stamp);
}

/* A block of another pool's. It stays that pool's: when it is given back, the borrower is one of
 * its users, and has its place among them from the start. */
static struct bp_storage *alloc_borrow(struct loan *loan, uint64_t *out_stamp)
{
    struct bp_pool *from = loan->from;
    struct bp_timeline *taker = loan->w->pool->home;
    struct bp_storage *storage = NULL;
    struct bp_piece *block;

    bp_pool_lock(from);
    bp_pool_settle(from);
    bp_heap_flush(&from->heap);
    block = bp_heap_search(&from->heap, loan->w->n, alloc_is_good, loan);
    if (block) {
        storage = bp_pool_begin(from, block, loan->w->size);
        *out_stamp = block->stamp;
    }
    if (block && !bp_users_add(&storage->pending.users, taker, 0)) {
        bp_pool_give(from, storage);
        storage = NULL;
    }
    if (storage) storage->home = taker;
    bp_pool_unlock(from);
    return storage;
}

static void give_again(struct bp_storage *storage)
{
    bp_pool_lock(storage->pool);
    bp_pool_give(storage->pool, storage);
    bp_pool_unlock(storage->pool);
}

static void lend_block(struct bp_pool *pool, void *ctx)
{
    struct want *w = ctx;
    struct loan loan = {w, pool, false};
    uint64_t stamp;

    if (!w->storage && pool != w->pool && pool != w->common && !pool->captures)
        w->storage = alloc_borrow(&loan, &stamp);
}

static bool from_others(struct want *w)
{
    bp_pools_visit(w->device, w->pool->space, lend_block, w);
    return w->storage;
}

static void steal_block(struct bp_pool *pool, void *ctx)
{
    struct want *w = ctx;
    struct loan loan = {w, pool, true};
    struct bp_storage *storage;
    uint64_t stamp;

    if (w->storage || pool == w->pool || pool == w->common) return;
    if (pool->captures || bp_is_capturing(pool->home)) return;
    storage = alloc_borrow(&loan, &stamp);
    if (!storage) return;
    if (bp_timeline_follow(w->pool->home, pool->home, stamp) == BP_OK) w->storage = storage;
    else give_again(storage);
}

/* Behind a wait that the device or the taker's queue makes, not this thread. */
static bool behind_a_wait(struct want *w)
{
    const struct bp_timeline *taker = w->pool->home;

    if (taker->now) return false;
    if (!taker->queue &&
        w->device->emulated & (BP_EMULATED_STREAM_WAIT | BP_EMULATED_EVENTS)) return false;
    w->path = BP_PATH_STOLEN;
    bp_pools_visit(w->device, w->pool->space, steal_block, w);
    return w->storage;
}

/* A new chunk, of the usual size, or exact where that cannot be had. What another thread takes of
 * it at once is made again. BP_OK: see w->storage. */
static enum bp_status from_plugin(struct want *w)
{
    enum bp_status status = BP_OK;

    for (uint32_t i = 0; i < 4 && status == BP_OK && !w->storage; i++) {
        uint64_t has = alloc_reserved(w->pool);
        struct bp_piece *block = NULL;
        status = bp_chunk_create(w->common, has, w->n, false, &block);
        if (status == BP_ERR_MEMORY)
            status = bp_chunk_create(w->common, has, w->n, true, &block);
        if (status == BP_OK) status = bp_region_create(w->pool, w->common, block);
        if (status == BP_OK) from_own(w);
    }
    if (status) snprintf(w->why, sizeof w->why, "%s", bp_error_message());
    return status == BP_ERR_MEMORY ? BP_OK : status;
}

static void alloc_ask(struct bp_pool *pool, void *ctx)
{
    (void)ctx;
    bp_pool_ask_home(pool);
}

/* All are asked before anything is looked for: one's answer says something of another's memory. */
static bool from_ended(struct want *w)
{
    bp_pools_visit(w->device, BP_SPACES, alloc_ask, NULL);
    return from_own(w) || from_whole(w, false) || from_others(w);
}

static void alloc_give_back(struct bp_pool *pool, void *ctx)
{
    (void)ctx;
    bp_pool_return(pool);
}

static void alloc_release(struct bp_pool *pool, void *ctx)
{
    (void)ctx;
    if (pool->home == pool->device->host) bp_chunk_release(pool);
}

/* Chunks are released that are free as a whole, but too small. The limit, and perhaps the device,
 * counts all spaces together. */
static enum bp_status from_released(struct want *w)
{
    bp_pools_visit(w->device, BP_SPACES, alloc_give_back, NULL);
    bp_pools_visit(w->device, BP_SPACES, alloc_release, NULL);
    return from_plugin(w);
}

static bool is_working(struct bp_device *device)
{
    for (struct bp_timeline *t = atomic_load(&device->timelines); t; t = t->next)
        if (!t->now && !bp_is_capturing(t) && !bp_timeline_passed(t, atomic_load(&t->last)))
            return true;
    return false;
}

/* Stream by stream, so that a failure that comes to light stays with its own; whoever asked for
 * memory has nothing to do with it, unless all of the device has failed. A callback does not wait
 * for queues: one of theirs may wait for it. */
static enum bp_status wait_for_all(struct bp_device *device)
{
    struct bp_deadline until = bp_deadline_of(device);
    bool late = false;

    for (struct bp_timeline *t = atomic_load(&device->timelines); t; t = t->next) {
        uint64_t number = atomic_load(&t->submitted);
        enum bp_status status;
        if (t->now || bp_is_capturing(t) || (t->queue && bp_on_worker())) continue;
        status = bp_timeline_wait(t, number, &until);
        if (status == BP_ERR_SHUTDOWN) return status;
        late |= status == BP_ERR_TIMEOUT;
    }
    bp_memory_collect(device);
    TRY(bp_device_refuse(device));
    return late ? bp_deadline_missed(device, NULL, UINT64_MAX, &until) : BP_OK;
}

static enum bp_status after_waiting(struct want *w)
{
    enum bp_status status;
    char why[1536];

    if (!is_working(w->device)) return BP_OK;
    TRY(bp_block(w->device, BP_BLOCK_MEMORY));
    status = wait_for_all(w->device);
    if (status && status != BP_ERR_TIMEOUT) return status;
    if (status) snprintf(why, sizeof why, "%s", bp_error_message());
    w->path = BP_PATH_WAIT;
    if (from_ended(w)) return BP_OK;
    TRY(from_released(w));
    if (w->storage || status == BP_OK) return BP_OK;
    return bp_error(status, "memory for %" PRIu64 " bytes is still in use: %s", w->size, why);
}

struct text {
    char s[768];
    size_t used;
    uint32_t pools;
    struct bp_pool_stats sum;
};

static void name_pool(struct bp_pool *pool, void *ctx)
{
    struct text *t = ctx;
    struct bp_pool_stats s = {.size = sizeof s};
    char who[48] = "memory of no stream";

    bp_pool_stats(pool, &s);
    t->sum.reserved += s.reserved;
    t->sum.allocated += s.allocated;
    t->sum.pending += s.pending;
    t->sum.free += s.free;
    if (t->sum.largest_free < s.largest_free) t->sum.largest_free = s.largest_free;
    if (!s.reserved || t->used >= sizeof t->s) return;
    if (s.stream)
        snprintf(who, sizeof who, "%sstream %u", s.captured ? "a capture of " : "", s.stream);
    if (s.space) snprintf(who + strlen(who), sizeof who - strlen(who), " (space %u)", s.space);
    t->used += (size_t)snprintf(t->s + t->used, sizeof t->s - t->used,
                                "%s%s has %" PRIu64 ": allocated %" PRIu64 ", pending %" PRIu64
                                ", free %" PRIu64,
                                t->pools++ ? "; " : "", who, s.reserved, s.allocated, s.pending,
                                s.free);
}

static enum bp_status alloc_explain(struct want *w)
{
    uint64_t limit = w->device->core->memory_limit, memory = w->device->properties.memory;
    struct text t = {.sum.size = sizeof t.sum};
    char of[48] = "";

    bp_pools_visit(w->device, BP_SPACES, name_pool, &t);
    if (limit && (!memory || limit < memory))
        snprintf(of, sizeof of, " of BP_MEM_LIMIT=%" PRIu64, limit);
    else if (memory) snprintf(of, sizeof of, " of %" PRIu64, memory);
    atomic_fetch_add_explicit(&w->device->memory->failures, 1, memory_order_relaxed);
    return bp_error(BP_ERR_MEMORY,
                    "%s: out of memory: asked for %" PRIu64 " bytes; allocated %" PRIu64
                    ", pending %" PRIu64 ", free %" PRIu64 " (largest %" PRIu64
                    "), reserved %" PRIu64 "%s; free tensors, or use smaller ones%s%s%s%s%s",
                    w->device->name, w->size, t.sum.allocated, t.sum.pending, t.sum.free,
                    t.sum.largest_free, t.sum.reserved, of, *w->why ? " (" : "", w->why,
                    *w->why ? ")" : "", t.pools > 1 ? "; " : "", t.pools > 1 ? t.s : "");
}

/* What no step can change. */
static bool is_hopeless(struct want *w)
{
    const struct bp_device_properties *p = &w->device->properties;
    uint64_t bytes = w->n << w->pool->shift, limit = w->device->core->memory_limit;

    if (p->max_alloc && bytes > p->max_alloc)
        snprintf(w->why, sizeof w->why, "the device allocates at most %" PRIu64 " at once",
                 p->max_alloc);
    return (p->max_alloc && bytes > p->max_alloc) || (p->memory && bytes > p->memory) ||
           (limit && bytes > limit);
}

#define STEP(new_path, step) \
    do { \
        w->path = (new_path); \
        if (step) return BP_OK; \
    } while (0)
#define STEP_OF_PLUGIN(new_path, step) \
    do { \
        w->path = (new_path); \
        TRY(step); \
        if (w->storage) return BP_OK; \
    } while (0)

static enum bp_status alloc_find(struct want *w)
{
    STEP(BP_PATH_COUNT, from_own(w));
    bp_pool_ask(w->pool);
    STEP(BP_PATH_POLL, from_own(w));
    if (w->common != w->pool) bp_pool_ask(w->common);
    STEP(BP_PATH_COMMON, from_common(w));
    STEP(BP_PATH_COMMON, from_whole(w, true));
    if (w->size >= large) STEP(BP_PATH_OTHERS, from_whole(w, false) || from_others(w));
    STEP_OF_PLUGIN(BP_PATH_CHUNK, from_plugin(w));

    STEP(BP_PATH_POLL, from_ended(w));
    STEP_OF_PLUGIN(BP_PATH_RELEASE, from_released(w));
    if (bp_device_pressure(w->device)) {
        STEP(BP_PATH_PRESSURE, from_ended(w));
        STEP_OF_PLUGIN(BP_PATH_PRESSURE, from_released(w));
    }
    STEP(BP_PATH_STOLEN, behind_a_wait(w));
    STEP_OF_PLUGIN(BP_PATH_WAIT, after_waiting(w));
    return alloc_explain(w);
}

/* Recorded work: what is at hand, or a chunk more. Asking, waiting and taking from others would be
 * recorded too. */
static enum bp_status find_captured(struct want *w)
{
    size_t used;

    STEP(BP_PATH_COUNT, from_own(w));
    STEP(BP_PATH_COMMON, from_common(w));
    STEP_OF_PLUGIN(BP_PATH_CHUNK, from_plugin(w));
    used = strlen(w->why);
    snprintf(w->why + used, sizeof w->why - used, "%sa capture is open: nothing is waited for",
             used ? "; " : "");
    return alloc_explain(w);
}

enum bp_status bp_memory_find(struct bp_pool *pool, uint64_t size, struct bp_storage **out_storage)
{
    struct want w = {.pool = pool, .device = pool->device, .size = size};
    enum bp_status status;

    w.common = bp_pool_make(w.device->host, pool->space);
    if (!w.common) return BP_ERR_MEMORY;
    w.n = bp_pool_granules(pool, size);
    status = is_hopeless(&w)  ? alloc_explain(&w)
             : pool->captures ? find_captured(&w)
                              : alloc_find(&w);
    if (status) return status;
    if (w.path < BP_PATH_COUNT)
        atomic_fetch_add_explicit(&w.device->memory->paths[w.path], 1, memory_order_relaxed);
    *out_storage = w.storage;
    return BP_OK;
}
