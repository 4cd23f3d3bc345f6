/* SPDX-License-Identifier: Apache-2.0 */
/* pools.c: visits all pools of a device, to free memory whose work has ended and to find live
 * buffers. */
#include "pool.h"

/* Returns the timeline's own pool, also while a capture's pool replaces it. */
static struct bp_pool *pools_find_own(struct bp_timeline *timeline, uint32_t space)
{
    struct bp_pool *pool = bp_pool_find(timeline, space), *saved;

    while (pool && pool->is_capture) {
        saved = atomic_load(&timeline->saved_pool);
        if (saved) return saved;
        pool = bp_pool_find(timeline, space); /* the capture has just ended */
    }
    return pool;
}

void bp_pools_visit(struct bp_device *device, uint32_t space,
                    void (*visit)(struct bp_pool *pool, void *ctx), void *ctx)
{
    struct bp_pool *next;

    for (struct bp_timeline *t = atomic_load(&device->timelines); t; t = t->next)
        for (uint32_t i = 0; i < BP_SPACES; i++) {
            struct bp_pool *pool = space == i || space == BP_SPACES ? pools_find_own(t, i) : NULL;
            if (pool) visit(pool, ctx);
        }
    for (struct bp_pool *pool = atomic_load(&device->memory->captures); pool; pool = next) {
        next = pool->next;
        if (space == pool->space || space == BP_SPACES) visit(pool, ctx);
    }
}

static void pools_collect(struct bp_pool *pool, void *ctx)
{
    (void)ctx;
    bp_pool_lock(pool);
    bp_pool_collect(pool);
    bp_pool_unlock(pool);
}

void bp_memory_collect(struct bp_device *device)
{
    bp_deferred_collect(device, false);
    bp_pools_visit(device, BP_SPACES, pools_collect, NULL);
}

static void pools_find_live(struct bp_pool *pool, void *ctx)
{
    bp_pool_lock(pool);
    *(bool *)ctx |= pool->counts.live > 0;
    bp_pool_unlock(pool);
}

bool bp_memory_is_live(struct bp_device *device)
{
    bool live = false;

    bp_pools_visit(device, BP_SPACES, pools_find_live, &live);
    return live;
}
