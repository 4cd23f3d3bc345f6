/* SPDX-License-Identifier: Apache-2.0 */
/* capture_pool.c: implements the memory pool of a capture, which replaces its owner's pool while
 * the capture is open. Allocations need no special case: they find the capture's pool as they find
 * any pool.
 *
 * A closed capture has no free blocks. Its free blocks became pending, without users, and pending
 * blocks of a capture become free only when the capture is over. */
#include "pool.h"

#include "poison.h"

/* Called with the device locked. Finds a pool of the owner whose capture is over and that has no
 * memory left. */
static struct bp_pool *capture_pool_find_empty(struct bp_timeline *owner)
{
    struct bp_pool *pool = atomic_load(&owner->device->memory->captures);
    bool empty = false;

    for (; pool; pool = pool->next) {
        if (pool->owner != owner) continue;
        bp_pool_lock(pool);
        empty = pool->capture == BP_CAPTURE_OVER && !pool->counts.reserved && !pool->counts.live;
        if (empty) pool->capture = BP_CAPTURE_OPEN;
        bp_pool_unlock(pool);
        if (empty) break;
    }
    return pool;
}

static struct bp_pool *capture_pool_make(struct bp_timeline *owner)
{
    struct bp_memory_state *m = owner->device->memory;
    struct bp_pool *pool = bp_pool_create(owner, BP_SPACE_DEVICE);

    if (!pool) return NULL;
    pool->is_capture = true;
    pool->capture = BP_CAPTURE_OPEN;
    bp_pool_record(pool, atomic_load(&m->is_recorded));
    pool->next = atomic_load(&m->captures);
    atomic_store(&m->captures, pool);
    return pool;
}

enum bp_status bp_capture_pool_begin(struct bp_timeline *owner, struct bp_pool **out_capture)
{
    struct bp_pool *own = bp_pool_get(owner, BP_SPACE_DEVICE), *pool = NULL;
    struct bp_device *device = owner->device;
    bool open;

    if (!own) return BP_ERR_MEMORY;
    pthread_mutex_lock(&device->lock);
    open = bp_timeline_is_capturing(owner);
    if (!open) pool = capture_pool_find_empty(owner);
    if (!open && !pool) pool = capture_pool_make(owner);
    if (pool) {
        atomic_store(&owner->saved_pool, own);
        atomic_store(&owner->pool[BP_SPACE_DEVICE], pool);
    }
    pthread_mutex_unlock(&device->lock);
    if (open)
        return bp_error(BP_ERR_INVALID,
                        "%s: stream %u is being captured already: end that capture first",
                        device->name, owner->id);
    if (!pool) return bp_error(BP_ERR_MEMORY, "%s: no host memory for a pool", device->name);
    *out_capture = pool;
    return BP_OK;
}

/* Called with the pool locked. Marks live buffers as used, so that a later free takes the path of
 * used buffers. */
static void capture_pool_mark_live(const struct bp_span *span)
{
    for (struct bp_heap_block *b = span->sentinel.hi; b != &span->sentinel; b = b->hi)
        if (b->state == BP_HEAP_LIVE) bp_buffer_of(b)->used = true;
}

/* Called with the pool locked, after blocks kept whole have merged. Makes free blocks pending:
 * captured work that runs later may use all of them. */
static void capture_pool_defer_free(struct bp_pool *pool, const struct bp_span *span)
{
    for (struct bp_heap_block *b = span->sentinel.hi; b != &span->sentinel; b = b->hi) {
        if (b->state != BP_HEAP_FREE) continue;
        bp_heap_remove(&pool->heap, b);
        b->state = BP_HEAP_PENDING;
        bp_link_insert(&b->link, &pool->pending);
        pool->counts.free -= b->n << pool->shift;
        pool->counts.pending += b->n << pool->shift;
    }
    if (pool->poison) bp_unpoison(span->memory.data, span->size);
}

void bp_capture_pool_end(struct bp_pool *capture)
{
    struct bp_timeline *owner = capture->owner;

    bp_pool_lock(capture);
    bp_heap_flush(&capture->heap);
    for (struct bp_span *r = capture->spans; r; r = r->next) {
        capture_pool_mark_live(r);
        capture_pool_defer_free(capture, r);
    }
    capture->capture = BP_CAPTURE_CLOSED;
    bp_pool_unlock(capture);
    pthread_mutex_lock(&owner->device->lock);
    atomic_store(&owner->pool[BP_SPACE_DEVICE], atomic_load(&owner->saved_pool));
    atomic_store(&owner->saved_pool, NULL);
    pthread_mutex_unlock(&owner->device->lock);
}

void bp_capture_pool_destroy(struct bp_pool *capture, struct bp_timeline *timeline, uint64_t number)
{
    bp_pool_lock(capture);
    capture->capture = BP_CAPTURE_OVER;
    capture->last_run = (struct bp_user){timeline, number};
    bp_pool_unlock(capture);
    bp_pool_trim(capture);
}
