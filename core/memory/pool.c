/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c: taking blocks of a home's memory and giving them back. */
#include "pool.h"

#include "poison.h"

#include <stdlib.h>

enum { IDS = 1 << 16, ASKED = 64 };

static inline uint64_t pool_bytes_of(const struct bp_pool *pool, const struct bp_piece *block)
{
    return block->n << pool->shift;
}

static uint32_t shift_of(const struct bp_device *device, uint32_t space)
{
    bool host = device->host_visible || space != BP_SPACE_DEVICE;
    uint64_t granule = host ? 64 : 256;

    if (granule < device->alignment) granule = device->alignment;
    return (uint32_t)__builtin_ctzll(granule);
}

struct bp_pool *bp_pool_create(struct bp_timeline *home, uint32_t space)
{
    struct bp_device *device = home->device;
    struct bp_pool *pool = bp_handle_make(sizeof *pool);

    if (!pool) return NULL;
    pthread_mutex_init(&pool->lock, NULL);
    pool->home = home;
    pool->device = device;
    pool->space = space;
    pool->shift = shift_of(device, space);
    pool->poison = BP_POISONS && !(device->properties.flags & BP_DEVICE_HANDLES) &&
                   (device->host_visible || space != BP_SPACE_DEVICE);
    pool->pending.next = pool->pending.prev = &pool->pending;
    bp_heap_init(&pool->heap, pool);
    return pool;
}

struct bp_pool *bp_pool_make(struct bp_timeline *home, uint32_t space)
{
    struct bp_pool *pool = bp_pool_at(home, space), *made;

    if (pool) return pool;
    made = bp_pool_create(home, space);
    if (!made) {
        bp_error_write("%s: no host memory for a pool", home->device->name);
        return NULL;
    }
    pthread_mutex_lock(&home->device->lock);
    pool = bp_pool_at(home, space);
    if (!pool) atomic_store_explicit(&home->pool[space], made, memory_order_release);
    pthread_mutex_unlock(&home->device->lock);
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

uint64_t bp_storage_ids(uint64_t n)
{
    static _Atomic uint64_t next = 1;

    return atomic_fetch_add_explicit(&next, n, memory_order_relaxed);
}

static uint64_t next_id(struct bp_pool *pool)
{
    if (pool->id == pool->ids) {
        pool->id = bp_storage_ids(IDS);
        pool->ids = pool->id + IDS;
    }
    return pool->id++;
}

/* Earlier work of home's may still use what is past the end. */
static void mark_taken(const struct bp_pool *pool, void *data, uint64_t size,
                       const struct bp_piece *block)
{
    if (bp_timeline_passed(pool->home, block->stamp))
        bp_poison_past(data, size, pool_bytes_of(pool, block));
    else
        bp_unpoison(data, size);
}

struct bp_storage *bp_pool_begin(struct bp_pool *pool, struct bp_piece *block, uint64_t size)
{
    struct bp_storage *s = bp_storage_of(block);
    struct bp_pool_counts *c = &pool->counts;

    s->memory = (struct bp_place){0};
    if (size) {
        const struct bp_memory *memory = &block->region->memory;
        uint64_t taken = pool_bytes_of(pool, block);
        s->memory.handle = memory->handle;
        s->memory.data = (void *)((uintptr_t)memory->data + (block->at << pool->shift));
        c->taken += taken;
        c->free -= taken;
        if (pool->poison) mark_taken(pool, s->memory.data, size, block);
    }
    s->home = pool->home;
    s->used = false;
    s->size = size;
    s->id = next_id(pool);
    s->magic = bp_magic(BP_MAGIC_STORAGE);
    atomic_store_explicit(&s->version, 0, memory_order_relaxed);
    atomic_store_explicit(&s->access, BP_ACCESS_WRITE, memory_order_relaxed);
    atomic_store_explicit(&s->refs, 1, memory_order_relaxed);
    c->asked += size;
    if (c->peak < c->asked) c->peak = c->asked;
    c->allocations++;
    c->live++;
    return s;
}

struct bp_storage *bp_pool_take(struct bp_pool *pool, uint64_t size)
{
    struct bp_piece *block;

    if (size) {
        block = bp_heap_take(&pool->heap, bp_pool_granules(pool, size), true);
    } else {
        block = bp_heap_node(&pool->heap);
        if (block) block->n = 0;
    }
    return block ? bp_pool_begin(pool, block, size) : NULL;
}

struct bp_storage *bp_pool_take_slowly(struct bp_pool *pool, uint64_t size)
{
    struct bp_piece *block;

    bp_pool_settle(pool);
    bp_heap_flush(&pool->heap);
    block = bp_heap_take(&pool->heap, bp_pool_granules(pool, size), true);
    if (!block) block = bp_heap_search(&pool->heap, bp_pool_granules(pool, size), NULL, NULL);
    return block ? bp_pool_begin(pool, block, size) : NULL;
}

static const struct bp_user *user_at(const struct bp_users *users, uint32_t i)
{
    return i < BP_USERS ? &users->at[i] : &users->more[i - BP_USERS];
}

/* Whether home's later work may use a block, and from which work of home's on all uses have ended.
 * Recorded work runs later, and perhaps again: that what was recorded has ended says nothing. */
static bool is_ready(const struct bp_pool *pool, const struct bp_users *users, uint64_t *stamp)
{
    struct bp_timeline *home = pool->home;
    uint64_t next = atomic_load_explicit(&home->last, memory_order_relaxed) + 1;
    bool behind = false, open = pool->capture == BP_CAPTURE_OPEN;

    if (pool->capture == BP_CAPTURE_CLOSED) return false;
    for (uint32_t i = 0; i < users->n; i++) {
        const struct bp_user *user = user_at(users, i);
        if (!open && bp_timeline_passed(user->timeline, user->number)) continue;
        if (!bp_timeline_behind(home, user->timeline, user->number)) return false;
        behind = true;
    }
    if (behind && *stamp < next) *stamp = next;
    return true;
}

bool bp_pool_is_common(const struct bp_pool *pool, const struct bp_piece *block)
{
    struct bp_timeline *home = pool->home;
    const struct bp_user *ran = &pool->ran;
    uint64_t last;

    if (pool->captures &&
        (pool->capture != BP_CAPTURE_OVER ||
         (ran->timeline && !bp_timeline_passed(ran->timeline, ran->number))))
        return false;
    if (bp_timeline_passed(home, block->stamp)) return true;
    last = atomic_load(&home->last);
    return block->stamp > last && bp_timeline_passed(home, last) &&
           bp_timeline_waits_passed(home, false);
}

static void poison_free(const struct bp_pool *pool, const struct bp_piece *block)
{
    const struct bp_memory *memory = &block->region->memory;

    if (pool->poison && bp_timeline_passed(pool->home, block->stamp))
        bp_poison((char *)memory->data + (block->at << pool->shift), pool_bytes_of(pool, block));
}

static void make_free(struct bp_pool *pool, struct bp_piece *block)
{
    pool->counts.free += pool_bytes_of(pool, block);
    poison_free(pool, block);
    bp_heap_give_quick(&pool->heap, block);
}

/* It was used by work of others: those noted, and the home that borrowed it, which has had its
 * place among them since then. */
static void give_used(struct bp_pool *pool, struct bp_storage *s)
{
    struct bp_users *users = &s->pending.users;

    if (s->home != pool->home)
        bp_users_add(users, s->home,
                     atomic_load_explicit(&s->home->submitted, memory_order_relaxed));
    if (is_ready(pool, users, &s->block.stamp)) {
        bp_users_finish(users);
        make_free(pool, &s->block);
        return;
    }
    s->block.state = BP_PIECE_PENDING;
    pool->counts.pending += pool_bytes_of(pool, &s->block);
    bp_link_put(&s->block.link, &pool->pending);
}

/* Work that is begun and not submitted is a call's that has not returned: whatever it uses is held
 * by it. So the stamp is what was submitted; a number that was begun may never come to be. */
void bp_pool_give(struct bp_pool *pool, struct bp_storage *s)
{
    struct bp_piece *block = &s->block;
    struct bp_pool_counts *c = &pool->counts;
    uint64_t last;

    s->magic = 0;
    c->live--;
    c->asked -= s->size;
    if (!block->n) {
        bp_users_finish(&s->pending.users);
        bp_heap_node_give(&pool->heap, block);
        return;
    }
    c->taken -= pool_bytes_of(pool, block);
    if (!pool->home->now && s->home == pool->home) {
        last = atomic_load_explicit(&pool->home->submitted, memory_order_relaxed);
        if (block->stamp < last) block->stamp = last;
    }
    if (s->used || s->home != pool->home) give_used(pool, s);
    else make_free(pool, block);
}

void bp_pool_settle(struct bp_pool *pool)
{
    struct bp_link *next;

    for (struct bp_link *l = pool->pending.prev; l != &pool->pending; l = next) {
        struct bp_piece *block = bp_piece_of(l);
        struct bp_users *users = &bp_storage_of(block)->pending.users;
        next = l->prev;
        if (!is_ready(pool, users, &block->stamp)) continue;
        bp_link_cut(l);
        bp_users_finish(users);
        pool->counts.pending -= pool_bytes_of(pool, block);
        make_free(pool, block);
    }
}

/* The oldest users of what is pending, up to max. */
static uint32_t users_of_pending(struct bp_pool *pool, struct bp_user *out, uint32_t max)
{
    uint32_t n = 0;

    bp_pool_lock(pool);
    if (pool->ran.timeline && max) out[n++] = pool->ran;
    for (struct bp_link *l = pool->pending.prev; l != &pool->pending; l = l->prev) {
        const struct bp_users *users = &bp_storage_of(bp_piece_of(l))->pending.users;
        for (uint32_t i = 0; i < users->n && n < max; i++)
            if (!bp_timeline_passed(user_at(users, i)->timeline, user_at(users, i)->number))
                out[n++] = *user_at(users, i);
    }
    bp_pool_unlock(pool);
    return n;
}

/* What is behind work that has not ended has not either: it is not asked for. */
void bp_pool_ask(struct bp_pool *pool)
{
    struct bp_user user[ASKED];
    uint32_t n = users_of_pending(pool, user, ASKED);

    for (uint32_t i = 0; i < n; i++) {
        bool vain = bp_is_capturing(user[i].timeline);
        for (uint32_t j = 0; j < i && !vain; j++)
            vain = user[j].timeline == user[i].timeline && user[j].number <= user[i].number &&
                   !bp_timeline_passed(user[j].timeline, user[j].number);
        if (!vain) bp_timeline_poll(user[i].timeline, user[i].number);
    }
}

void bp_pool_ask_home(struct bp_pool *pool)
{
    struct bp_timeline *home = pool->home;

    bp_pool_ask(pool);
    if (bp_is_capturing(home)) return;
    bp_timeline_poll(home, atomic_load(&home->submitted));
    bp_timeline_waits_passed(home, true);
}
