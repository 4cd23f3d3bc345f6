/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c: allocates blocks from the memory of an owner and frees them, in stream order. */
#include "pool.h"

#include "../profile/profile.h"
#include "poison.h"

#include <stdlib.h>

enum {
    IDS = 1 << 16,
    POLLED_MAX = 64
};

static inline uint64_t block_bytes(const struct bp_pool *pool, const struct bp_heap_block *block)
{
    return block->n << pool->shift;
}

static uint32_t granule_shift(const struct bp_device *device, uint32_t space)
{
    bool host = device->host_visible || space != BP_SPACE_DEVICE;
    uint64_t granule = host ? 64 : 256;

    if (granule < device->alignment) granule = device->alignment;
    return (uint32_t)__builtin_ctzll(granule);
}

struct bp_pool *bp_pool_create(struct bp_timeline *owner, uint32_t space)
{
    struct bp_device *device = owner->device;
    struct bp_pool *pool = bp_handle_alloc(sizeof *pool);

    if (!pool) return NULL;
    pthread_mutex_init(&pool->lock, NULL);
    pool->owner = owner;
    pool->device = device;
    pool->space = space;
    pool->shift = granule_shift(device, space);
    pool->poison = BP_POISONS && !(device->properties.flags & BP_DEVICE_HANDLES) &&
                   (device->host_visible || space != BP_SPACE_DEVICE);
    pool->pending.next = pool->pending.prev = &pool->pending;
    bp_heap_init(&pool->heap, pool);
    return pool;
}

struct bp_pool *bp_pool_get(struct bp_timeline *owner, uint32_t space)
{
    struct bp_pool *pool = bp_pool_find(owner, space), *made;

    if (pool) return pool;
    made = bp_pool_create(owner, space);
    if (!made) {
        bp_error_write("%s: no host memory for a pool", owner->device->name);
        return NULL;
    }
    pthread_mutex_lock(&owner->device->lock);
    pool = bp_pool_find(owner, space);
    bp_pool_record(made, atomic_load(&owner->device->memory->is_recorded));
    if (!pool) atomic_store_explicit(&owner->pool[space], made, memory_order_release);
    pthread_mutex_unlock(&owner->device->lock);
    if (!pool) return made;
    bp_pool_destroy(made);
    return pool;
}

void bp_pool_destroy(struct bp_pool *pool)
{
    bp_heap_finish(&pool->heap);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

uint64_t bp_buffer_reserve_ids(uint64_t n)
{
    static _Atomic uint64_t next = 1;

    return atomic_fetch_add_explicit(&next, n, memory_order_relaxed);
}

/* Records an allocation or a free. Called with the pool locked: the recorder needs no such lock. */
static void pool_put(const struct bp_pool *pool, uint16_t kind, uint64_t bytes)
{
    _Atomic uint64_t *recorded = &pool->device->memory->recorded;
    bool taken = kind == BP_PROFILE_ALLOCATE;
    uint64_t now = bp_profile_now(), total = taken ? atomic_fetch_add(recorded, bytes) + bytes
                                                   : atomic_fetch_sub(recorded, bytes) - bytes;

    bp_profile_put(&(struct bp_profile_put){.begin = now,
                                            .end = now,
                                            .tag = total,
                                            .bytes = bytes,
                                            .name = taken ? "allocate" : "free",
                                            .device = pool->device->name,
                                            .kind = kind});
}

/* Live buffers become used ones, whose frees take a longer path, which records them. */
static void pool_mark_live(const struct bp_span *span)
{
    for (struct bp_heap_block *b = span->sentinel.hi; b != &span->sentinel; b = b->hi)
        if (b->state == BP_HEAP_LIVE) bp_buffer_of(b)->used = true;
}

/* While a pool is recorded it has no number in reserve, so that each allocation requests one and
 * is recorded there. So the paths that are short have no check for the recorder. */
void bp_pool_record(struct bp_pool *pool, bool on)
{
    if (on && !pool->is_recorded) {
        atomic_fetch_add(&pool->device->memory->recorded, pool->counts.requested);
        for (struct bp_span *span = pool->spans; span; span = span->next) pool_mark_live(span);
        pool->ids = pool->id;
    }
    pool->is_recorded = on;
}

static __attribute__((noinline)) struct bp_buffer *pool_reserve_ids(struct bp_pool *pool,
                                                                    struct bp_buffer *s)
{
    uint64_t n = pool->is_recorded ? 1 : IDS;

    pool->id = bp_buffer_reserve_ids(n);
    pool->ids = pool->id + n;
    s->id = pool->id++;
    if (pool->is_recorded && s->size) {
        s->used = true;
        pool_put(pool, BP_PROFILE_ALLOCATE, s->size);
    }
    return s;
}

/* The bytes after the buffer's end are poisoned only if earlier work of the owner cannot use them
 * any more. */
static void block_unpoison(const struct bp_pool *pool, void *data, uint64_t size,
                           const struct bp_heap_block *block)
{
    if (bp_timeline_passed(pool->owner, block->stamp))
        bp_poison_tail(data, size, block_bytes(pool, block));
    else bp_unpoison(data, size);
}

struct bp_buffer *bp_pool_init_buffer(struct bp_pool *pool, struct bp_heap_block *block,
                                      uint64_t size)
{
    struct bp_buffer *s = bp_buffer_of(block);
    struct bp_pool_counts *c = &pool->counts;

    s->memory = (struct bp_address){0};
    if (size) {
        const struct bp_memory *memory = &block->span->memory;
        uint64_t taken = block_bytes(pool, block);
        s->memory.handle = memory->handle;
        s->memory.data = (void *)((uintptr_t)memory->data + (block->at << pool->shift));
        c->taken += taken;
        c->free -= taken;
        if (pool->poison) block_unpoison(pool, s->memory.data, size, block);
    }
    s->owner = pool->owner;
    s->used = false;
    atomic_store_explicit(&s->exposed, false, memory_order_relaxed);
    s->size = size;
    s->magic = bp_magic(BP_MAGIC_BUFFER);
    atomic_store_explicit(&s->version, 0, memory_order_relaxed);
    atomic_store_explicit(&s->access, BP_ACCESS_WRITE, memory_order_relaxed);
    atomic_store_explicit(&s->refs, 1, memory_order_relaxed);
    c->requested += size;
    if (c->peak < c->requested) c->peak = c->requested;
    c->allocations++;
    c->live++;
    if (__builtin_expect(pool->id == pool->ids, 0)) return pool_reserve_ids(pool, s);
    s->id = pool->id++;
    return s;
}

struct bp_buffer *bp_pool_alloc(struct bp_pool *pool, uint64_t size)
{
    struct bp_heap_block *block;

    if (size) {
        block = bp_heap_alloc(&pool->heap, bp_pool_granules(pool, size), true);
    } else {
        block = bp_heap_node_alloc(&pool->heap);
        if (block) block->n = 0;
    }
    return block ? bp_pool_init_buffer(pool, block, size) : NULL;
}

struct bp_buffer *bp_pool_alloc_collected(struct bp_pool *pool, uint64_t size)
{
    struct bp_heap_block *block;

    bp_pool_collect(pool);
    bp_heap_flush(&pool->heap);
    block = bp_heap_alloc(&pool->heap, bp_pool_granules(pool, size), true);
    if (!block) block = bp_heap_search(&pool->heap, bp_pool_granules(pool, size), NULL, NULL);
    return block ? bp_pool_init_buffer(pool, block, size) : NULL;
}

static const struct bp_user *pool_user_at(const struct bp_users *users, uint32_t i)
{
    return i < BP_USERS_INLINE ? &users->at[i] : &users->more[i - BP_USERS_INLINE];
}

/* Whether the owner's later work may use a block. Raises *stamp to the owner's work after which all
 * uses have ended. In an open capture only the recorded order counts: the captured work runs later,
 * possibly many times, so it does not matter that work has ended by now. */
static bool block_is_ready(const struct bp_pool *pool, const struct bp_users *users,
                           uint64_t *stamp)
{
    struct bp_timeline *owner = pool->owner;
    uint64_t next = atomic_load_explicit(&owner->last, memory_order_relaxed) + 1;
    bool is_after = false, open = pool->capture == BP_CAPTURE_OPEN;

    if (pool->capture == BP_CAPTURE_CLOSED) return false;
    for (uint32_t i = 0; i < users->n; i++) {
        const struct bp_user *user = pool_user_at(users, i);
        if (!open && bp_timeline_passed(user->timeline, user->number)) continue;
        if (!bp_timeline_is_after(owner, user->timeline, user->number)) return false;
        is_after = true;
    }
    if (is_after && *stamp < next) *stamp = next;
    return true;
}

bool bp_pool_is_common(const struct bp_pool *pool, const struct bp_heap_block *block)
{
    struct bp_timeline *owner = pool->owner;
    const struct bp_user *last_run = &pool->last_run;
    uint64_t last;

    if (pool->is_capture &&
        (pool->capture != BP_CAPTURE_OVER ||
         (last_run->timeline && !bp_timeline_passed(last_run->timeline, last_run->number))))
        return false;
    if (bp_timeline_passed(owner, block->stamp)) return true;
    last = atomic_load(&owner->last);
    return block->stamp > last && bp_timeline_passed(owner, last) &&
           bp_timeline_waits_passed(owner, false);
}

static void block_poison(const struct bp_pool *pool, const struct bp_heap_block *block)
{
    const struct bp_memory *memory = &block->span->memory;

    if (pool->poison && bp_timeline_passed(pool->owner, block->stamp))
        bp_poison((char *)memory->data + (block->at << pool->shift), block_bytes(pool, block));
}

static void block_free(struct bp_pool *pool, struct bp_heap_block *block)
{
    pool->counts.free += block_bytes(pool, block);
    block_poison(pool, block);
    bp_heap_free_quick(&pool->heap, block);
}

/* Frees a buffer that work of other timelines used: the recorded users, and a borrower, which is
 * the current owner. The borrower has a place among the users since it borrowed the buffer, so that
 * adding it cannot fail. */
static void block_free_used(struct bp_pool *pool, struct bp_buffer *s)
{
    struct bp_users *users = &s->deferred.users;

    if (pool->is_recorded) pool_put(pool, BP_PROFILE_FREE, s->size);
    if (s->owner != pool->owner)
        bp_users_add(users, s->owner,
                     atomic_load_explicit(&s->owner->submitted, memory_order_relaxed));
    if (block_is_ready(pool, users, &s->block.stamp)) {
        bp_users_finish(users);
        block_free(pool, &s->block);
        return;
    }
    s->block.state = BP_HEAP_PENDING;
    pool->counts.pending += block_bytes(pool, &s->block);
    bp_link_insert(&s->block.link, &pool->pending);
}

/* Begun work that is not submitted belongs to a call that has not returned, and that call holds all
 * that it uses. So the stamp is the number of the last submitted work; the number of begun work may
 * be cancelled. */
void bp_pool_free(struct bp_pool *pool, struct bp_buffer *s)
{
    struct bp_heap_block *block = &s->block;
    struct bp_pool_counts *c = &pool->counts;
    uint64_t last;

    s->magic = 0;
    c->live--;
    c->requested -= s->size;
    if (!block->n) {
        bp_users_finish(&s->deferred.users);
        bp_heap_node_free(&pool->heap, block);
        return;
    }
    c->taken -= block_bytes(pool, block);
    if (!pool->owner->is_inline && s->owner == pool->owner) {
        last = atomic_load_explicit(&pool->owner->submitted, memory_order_relaxed);
        if (block->stamp < last) block->stamp = last;
    }
    if (s->used || s->owner != pool->owner) block_free_used(pool, s);
    else block_free(pool, block);
}

void bp_pool_collect(struct bp_pool *pool)
{
    struct bp_link *next;

    for (struct bp_link *l = pool->pending.prev; l != &pool->pending; l = next) {
        struct bp_heap_block *block = bp_heap_block_of(l);
        struct bp_users *users = &bp_buffer_of(block)->deferred.users;
        next = l->prev;
        if (!block_is_ready(pool, users, &block->stamp)) continue;
        bp_link_remove(l);
        bp_users_finish(users);
        pool->counts.pending -= block_bytes(pool, block);
        block_free(pool, block);
    }
}

/* Collects up to max unfinished users of pending blocks, the oldest blocks first. */
static uint32_t pool_pending_users(struct bp_pool *pool, struct bp_user *out, uint32_t max)
{
    uint32_t n = 0;

    bp_pool_lock(pool);
    if (pool->last_run.timeline && max) out[n++] = pool->last_run;
    for (struct bp_link *l = pool->pending.prev; l != &pool->pending; l = l->prev) {
        const struct bp_users *users = &bp_buffer_of(bp_heap_block_of(l))->deferred.users;
        for (uint32_t i = 0; i < users->n && n < max; i++)
            if (!bp_timeline_passed(pool_user_at(users, i)->timeline,
                                    pool_user_at(users, i)->number))
                out[n++] = *pool_user_at(users, i);
    }
    bp_pool_unlock(pool);
    return n;
}

/* A later number of a timeline whose earlier number has not ended is not queried. */
void bp_pool_poll(struct bp_pool *pool)
{
    struct bp_user user[POLLED_MAX];
    uint32_t n = pool_pending_users(pool, user, POLLED_MAX);

    for (uint32_t i = 0; i < n; i++) {
        bool is_useless = bp_timeline_is_capturing(user[i].timeline);
        for (uint32_t j = 0; j < i && !is_useless; j++)
            is_useless = user[j].timeline == user[i].timeline && user[j].number <= user[i].number &&
                         !bp_timeline_passed(user[j].timeline, user[j].number);
        if (!is_useless) bp_timeline_poll(user[i].timeline, user[i].number);
    }
}

void bp_pool_poll_owner(struct bp_pool *pool)
{
    struct bp_timeline *owner = pool->owner;

    bp_pool_poll(pool);
    if (bp_timeline_is_capturing(owner)) return;
    bp_timeline_poll(owner, atomic_load(&owner->submitted));
    bp_timeline_waits_passed(owner, true);
}
