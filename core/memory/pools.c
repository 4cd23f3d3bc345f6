/* SPDX-License-Identifier: Apache-2.0 */
/* pools.c: all pools of a device, one after another. */
#include "pool.h"

/* A timeline's own, where a capture has its place too. */
static struct bp_pool *pools_ordinary(struct bp_timeline *timeline, uint32_t space)
{
    struct bp_pool *pool = bp_pool_at(timeline, space), *aside;

    while (pool && pool->captures) {
        aside = atomic_load(&timeline->aside);
        if (aside) return aside;
        pool = bp_pool_at(timeline, space); /* it has just ended */
    }
    return pool;
}

void bp_pools_visit(struct bp_device *device, uint32_t space,
                    void (*visit)(struct bp_pool *pool, void *ctx), void *ctx)
{
    struct bp_pool *next;

    for (struct bp_timeline *t = atomic_load(&device->timelines); t; t = t->next)
        for (uint32_t i = 0; i < BP_SPACES; i++) {
            struct bp_pool *pool = space == i || space == BP_SPACES ? pools_ordinary(t, i) : NULL;
            if (pool) visit(pool, ctx);
        }
    for (struct bp_pool *pool = atomic_load(&device->memory->captures); pool; pool = next) {
        next = pool->next;
        if (space == pool->space || space == BP_SPACES) visit(pool, ctx);
    }
}

static void pools_settle(struct bp_pool *pool, void *ctx)
{
    (void)ctx;
    bp_pool_lock(pool);
    bp_pool_settle(pool);
    bp_pool_unlock(pool);
}

void bp_memory_collect(struct bp_device *device)
{
    bp_pending_collect(device, false);
    bp_pools_visit(device, BP_SPACES, pools_settle, NULL);
}

static void count_live(struct bp_pool *pool, void *ctx)
{
    bp_pool_lock(pool);
    *(bool *)ctx |= pool->counts.live > 0;
    bp_pool_unlock(pool);
}

bool bp_memory_is_live(struct bp_device *device)
{
    bool live = false;

    bp_pools_visit(device, BP_SPACES, count_live, &live);
    return live;
}
