/* SPDX-License-Identifier: Apache-2.0 */
/* capture_pool.c: memory of recorded work: a pool of its own, which takes the place of its home's
 * while the capture is open. Requests need not know: they find it where they find any pool.
 *
 * A closed one has no free blocks: those that it had are pending, with no user, and nothing that is
 * pending becomes free before the capture is over. */
#include "pool.h"

#include "poison.h"

/* Under the device's lock: one of home's that is over and has given everything back. */
static struct bp_pool *find_empty(struct bp_timeline *home)
{
    struct bp_pool *pool = atomic_load(&home->device->memory->captures);
    bool empty = false;

    for (; pool; pool = pool->next) {
        if (pool->home != home) continue;
        bp_pool_lock(pool);
        empty = pool->capture == BP_CAPTURE_OVER && !pool->counts.reserved && !pool->counts.live;
        if (empty) pool->capture = BP_CAPTURE_OPEN;
        bp_pool_unlock(pool);
        if (empty) break;
    }
    return pool;
}

static struct bp_pool *capture_pool_make(struct bp_timeline *home)
{
    struct bp_memory_state *m = home->device->memory;
    struct bp_pool *pool = bp_pool_create(home, BP_SPACE_DEVICE);

    if (!pool) return NULL;
    pool->captures = true;
    pool->capture = BP_CAPTURE_OPEN;
    pool->next = atomic_load(&m->captures);
    atomic_store(&m->captures, pool);
    return pool;
}

enum bp_status bp_capture_pool_begin(struct bp_timeline *home, struct bp_pool **out_capture)
{
    struct bp_pool *own = bp_pool_make(home, BP_SPACE_DEVICE), *pool = NULL;
    struct bp_device *device = home->device;
    bool open;

    if (!own) return BP_ERR_MEMORY;
    pthread_mutex_lock(&device->lock);
    open = bp_is_capturing(home);
    if (!open) pool = find_empty(home);
    if (!open && !pool) pool = capture_pool_make(home);
    if (pool) {
        atomic_store(&home->aside, own);
        atomic_store(&home->pool[BP_SPACE_DEVICE], pool);
    }
    pthread_mutex_unlock(&device->lock);
    if (open)
        return bp_error(BP_ERR_INVALID,
                        "%s: stream %u is being captured already: end that capture first",
                        device->name, home->id);
    if (!pool) return bp_error(BP_ERR_MEMORY, "%s: no host memory for a pool", device->name);
    *out_capture = pool;
    return BP_OK;
}

/* Under the lock. A live storage goes the way of used ones when it is given back. */
static void keep_live(const struct bp_region *region)
{
    for (struct bp_piece *b = region->edge.hi; b != &region->edge; b = b->hi)
        if (b->state == BP_PIECE_LIVE) bp_storage_of(b)->used = true;
}

/* Under the lock, after what was kept whole has merged. What runs later may use it all. */
static void keep_free(struct bp_pool *pool, const struct bp_region *region)
{
    for (struct bp_piece *b = region->edge.hi; b != &region->edge; b = b->hi) {
        if (b->state != BP_PIECE_FREE) continue;
        bp_heap_out(&pool->heap, b);
        b->state = BP_PIECE_PENDING;
        bp_link_put(&b->link, &pool->pending);
        pool->counts.free -= b->n << pool->shift;
        pool->counts.pending += b->n << pool->shift;
    }
    if (pool->poison) bp_unpoison(region->memory.data, region->size);
}

void bp_capture_pool_end(struct bp_pool *capture)
{
    struct bp_timeline *home = capture->home;

    bp_pool_lock(capture);
    bp_heap_flush(&capture->heap);
    for (struct bp_region *r = capture->regions; r; r = r->next) {
        keep_live(r);
        keep_free(capture, r);
    }
    capture->capture = BP_CAPTURE_CLOSED;
    bp_pool_unlock(capture);
    pthread_mutex_lock(&home->device->lock);
    atomic_store(&home->pool[BP_SPACE_DEVICE], atomic_load(&home->aside));
    atomic_store(&home->aside, NULL);
    pthread_mutex_unlock(&home->device->lock);
}

void bp_capture_pool_destroy(struct bp_pool *capture, struct bp_timeline *timeline, uint64_t number)
{
    bp_pool_lock(capture);
    capture->capture = BP_CAPTURE_OVER;
    capture->ran = (struct bp_user){timeline, number};
    bp_pool_unlock(capture);
    bp_pool_return(capture);
}
