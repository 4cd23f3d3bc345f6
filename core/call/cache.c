/* SPDX-License-Identifier: Apache-2.0 */
/* cache.c: implements the cache of eager calls as an open-addressing table. A hit is compared in
 * full: with the hash alone, a crafted model could reach a kernel with wrong shapes. */
#include "cache.h"

#include "../memory/pool.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_SLOTS = 64 };

static inline struct bp_dims list_at(const void *attrs, const struct bp_attr *a)
{
    struct bp_dims d;

    memcpy(&d, (const char *)attrs + a->offset, sizeof d);
    return d;
}

static bool is_key_list(const struct bp_attr *a)
{
    return a->kind == BP_ATTR_DIMS && a->when == BP_ATTR_KEY;
}

static uint64_t hash_lists(uint64_t h, const struct bp_opinfo *op, const void *attrs)
{
    for (uint32_t i = 0; i < op->n_attr; i++) {
        struct bp_dims d;
        if (!is_key_list(&op->attr[i])) continue;
        d = list_at(attrs, &op->attr[i]);
        h = bp_signature_mix(h, (uint64_t)d.n);
        for (int64_t k = 0; k < d.n; k++) h = bp_signature_mix(h, (uint64_t)d.at[k]);
    }
    return h;
}

uint64_t bp_eager_hash(const struct bp_eager *e)
{
    uint64_t h = bp_signature_mix(bp_signature_key[1],
                                  (uint64_t)(uintptr_t)e->row ^ (uint64_t)e->want << 48);

    for (uint32_t i = 0; i < e->n_in; i++) {
        const struct bp_tensor *t = e->in[i];
        h = bp_signature_mix(h, t ? t->sig : i);
        if (t && __builtin_expect(t->view.flags & BP_VIEW_CONSTANT, 0))
            h = bp_signature_mix(h, t->buffer->id + t->offset);
    }
    for (uint64_t m = e->attrs ? e->row->key_words : 0; m; m &= m - 1)
        h = bp_signature_mix(h, bp_attrs_word(e->attrs, (uint32_t)__builtin_ctzll(m)));
    if (e->row->has_lists) h = hash_lists(h, &e->row->info, e->attrs);
    for (uint32_t i = 0; __builtin_expect(e->given >> i, 0); i++)
        if (e->out[i]) h = bp_signature_mix(h, e->out[i]->sig + e->in_place);
    return h;
}

static bool same_lists(const struct bp_opinfo *op, const void *a, const void *b)
{
    for (uint32_t i = 0; i < op->n_attr; i++) {
        struct bp_dims x, y;
        if (!is_key_list(&op->attr[i])) continue;
        x = list_at(a, &op->attr[i]);
        y = list_at(b, &op->attr[i]);
        if (x.n != y.n || (x.n && memcmp(x.at, y.at, (size_t)x.n * sizeof *x.at))) return false;
    }
    return true;
}

static bool same_attrs(const struct bp_prepared *p, const struct bp_eager *e)
{
    return bp_same_keys(e->row, p->attrs, e->attrs) &&
           (!e->row->has_lists || same_lists(&e->row->info, p->attrs, e->attrs));
}

static bool same_constants(const struct bp_prepared *p, const struct bp_eager *e)
{
    for (uint32_t i = 0; i < p->n_in; i++)
        if (e->in[i] && !bp_constant_same(p->constant[i], bp_tensor_constant(e->in[i])))
            return false;
    return true;
}

static inline bool same_tensors(const struct bp_typed_view *type, struct bp_tensor *const *t,
                                uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (t[i] ? !bp_same_type(&type[i].view, &t[i]->view) : type[i].view.rank != BP_ABSENT)
            return false;
    return true;
}

static inline bool same_call(const struct bp_prepared *p, const struct bp_eager *e)
{
    if (p->row != e->row || p->n_in != e->n_in || p->want != e->want || p->given != e->given ||
        p->in_place != e->in_place || !same_tensors(p->type, e->in, e->n_in))
        return false;
    if (e->row->has_groups &&
        memcmp(p->in_at, e->in_at, (e->row->info.n_in + 1) * sizeof *p->in_at))
        return false;
    if (e->attrs && !same_attrs(p, e)) return false;
    for (uint32_t i = 0; e->given >> i; i++)
        if (e->given >> i & 1 && !bp_same_type(&p->type[p->n_in + i].view, &e->out[i]->view))
            return false;
    return !p->bound || same_constants(p, e);
}

struct bp_prepared *bp_cache_find(struct bp_cache *cache, const struct bp_eager *e, bool retain)
{
    struct bp_prepared *found = NULL;

    bp_pool_lock(cache->pool);
    for (uint64_t i = e->hash & cache->mask; cache->slot[i].call; i = (i + 1) & cache->mask) {
        if (cache->slot[i].hash != e->hash || !same_call(cache->slot[i].call, e)) continue;
        found = cache->slot[i].call;
        if (!atomic_load_explicit(&found->used, memory_order_relaxed))
            atomic_store_explicit(&found->used, true, memory_order_relaxed);
        if (retain) bp_prepared_retain(found);
        else cache->pinned = found;
        break;
    }
    if (found) cache->hits++;
    else cache->misses++;
    bp_pool_unlock(cache->pool);
    return found;
}

/* Each step has a plan of its own, with memory of the host that no plugin reports: descriptors, and
 * executors of tens of KB. So a call counts as its steps: a decomposition may have hundreds. */
static uint32_t cache_steps(const struct bp_prepared *p)
{
    uint32_t steps = p->n_step;

    for (uint32_t i = 0; i < p->n_step; i++)
        if (p->step[i].fallback) steps += p->step[i].fallback->n_step;
    return steps ? steps : 1;
}

/* The data of bound calls (packed weights) is needed as long as their constants exist, whatever its
 * size; the limit of the device's memory counts it. So only unbound calls count in cache->bytes. */
static void cache_count(struct bp_cache *cache, const struct bp_prepared *p, int sign)
{
    cache->n += (uint32_t)sign;
    cache->steps += (uint64_t)sign * cache_steps(p);
    if (p->bound) cache->n_bound += (uint32_t)sign;
    else cache->bytes += (uint64_t)sign * p->plan_bytes;
}

static void cache_put(struct bp_cache *cache, uint64_t hash, struct bp_prepared *p)
{
    uint64_t i = hash & cache->mask;

    while (cache->slot[i].call) i = (i + 1) & cache->mask;
    cache->slot[i] = (struct bp_cache_slot){hash, p};
}

/* Removes slot i. Later entries that belong closer to their hash position move up. */
static struct bp_prepared *take_out(struct bp_cache *cache, uint64_t i)
{
    struct bp_prepared *p = cache->slot[i].call;

    for (uint64_t j = i;;) {
        uint64_t owner;
        j = (j + 1) & cache->mask;
        if (!cache->slot[j].call) break;
        owner = cache->slot[j].hash & cache->mask;
        if (((j - owner) & cache->mask) < ((j - i) & cache->mask)) continue;
        cache->slot[i] = cache->slot[j];
        i = j;
    }
    cache->slot[i].call = NULL;
    cache_count(cache, p, -1);
    return p;
}

/* Removes the first call that was not used since the clock hand passed it last. */
static struct bp_prepared *cache_evict(struct bp_cache *cache)
{
    for (uint64_t looked = 0; looked <= 2 * cache->mask + 1; looked++) {
        uint64_t i = cache->hand & cache->mask;
        struct bp_prepared *p = cache->slot[i].call;
        cache->hand++;
        if (!p || p == cache->pinned) continue;
        if (!atomic_load_explicit(&p->used, memory_order_relaxed)) {
            cache->evicted++;
            return take_out(cache, i);
        }
        atomic_store_explicit(&p->used, false, memory_order_relaxed);
    }
    return NULL;
}

static bool cache_grow(struct bp_cache *cache)
{
    uint64_t slots = 2 * (cache->mask + 1);
    struct bp_cache_slot *old = cache->slot, *slot = calloc(slots, sizeof *slot);

    if (!slot) return false;
    cache->slot = slot;
    for (uint64_t i = 0; i <= cache->mask; i++) {
        if (!old[i].call) continue;
        uint64_t at = old[i].hash & (slots - 1);
        while (slot[at].call) at = (at + 1) & (slots - 1);
        slot[at] = old[i];
    }
    cache->mask = slots - 1;
    free(old);
    return true;
}

static bool cache_has_room(const struct bp_cache *cache, const struct bp_prepared *p)
{
    return cache->steps + cache_steps(p) <= cache->steps_max &&
           (p->bound || cache->bytes + p->plan_bytes <= cache->bytes_max);
}

/* Removes calls until another one fits: up to `most`, which the caller releases without the lock.
 * Returns how many; fewer than `most`: the call fits now, or no call is left to remove. */
static uint32_t cache_make_room(struct bp_cache *cache, const struct bp_prepared *p,
                                struct bp_prepared **out_gone, uint32_t most)
{
    uint32_t n = 0;

    while (n < most && cache->n && !cache_has_room(cache, p)) {
        out_gone[n] = cache_evict(cache);
        if (!out_gone[n]) break;
        n++;
    }
    return n;
}

static bool cache_insert(struct bp_cache *cache, struct bp_prepared *p)
{
    if (2 * (cache->n + 1) > cache->mask + 1 && !cache_grow(cache) && cache->n >= cache->mask)
        return false;
    cache_put(cache, p->hash, p);
    cache->pinned = p;
    cache->added++;
    cache_count(cache, p, 1);
    return true;
}

enum bp_status bp_cache_add(struct bp_cache *cache, struct bp_prepared *p)
{
    enum { ROUND = 64 };
    struct bp_prepared *gone[ROUND];
    bool added = true;
    uint32_t n_gone;

    do {
        bp_pool_lock(cache->pool);
        n_gone = cache_make_room(cache, p, gone, ROUND);
        if (n_gone < ROUND) added = cache_insert(cache, p);
        bp_pool_unlock(cache->pool);
        for (uint32_t i = 0; i < n_gone; i++) bp_prepared_release(gone[i]);
    } while (n_gone == ROUND);
    return added ? BP_OK : bp_error(BP_ERR_MEMORY, "no memory for the cache of calls");
}

enum bp_status bp_cache_create(struct bp_timeline *owner, uint64_t steps_max, uint64_t bytes_max,
                               struct bp_cache **out_cache)
{
    struct bp_device *device = owner->device;
    struct bp_pool *pool = bp_pool_get(owner, BP_SPACE_DEVICE);
    struct bp_cache *cache;

    if (!pool) return BP_ERR_MEMORY;
    cache = bp_handle_alloc(sizeof *cache);
    if (cache) cache->slot = calloc(FIRST_SLOTS, sizeof *cache->slot);
    if (!cache || !cache->slot) {
        free(cache);
        return bp_error(BP_ERR_MEMORY, "no memory for the cache of calls");
    }
    cache->mask = FIRST_SLOTS - 1;
    cache->steps_max = steps_max;
    cache->bytes_max = bytes_max;
    cache->device = device;
    cache->pool = pool;
    pthread_mutex_lock(&device->lock);
    cache->next = device->caches;
    device->caches = cache;
    pthread_mutex_unlock(&device->lock);
    *out_cache = cache;
    return BP_OK;
}

/* The entries removed from a table. The pinned call, which may be running, stays in the table. */
struct emptied {
    struct bp_cache_slot *slot;
    uint64_t mask;
};

static bool cache_empty(struct bp_cache *cache, struct emptied *out)
{
    struct bp_cache_slot *slot = calloc(FIRST_SLOTS, sizeof *slot);

    if (!slot) return false;
    bp_pool_lock(cache->pool);
    *out = (struct emptied){cache->slot, cache->mask};
    cache->slot = slot;
    cache->mask = FIRST_SLOTS - 1;
    cache->n = cache->n_bound = 0;
    cache->steps = cache->bytes = 0;
    for (uint64_t i = 0; i <= out->mask; i++) {
        struct bp_prepared *p = out->slot[i].call;
        if (!p || p != cache->pinned) continue;
        cache_put(cache, out->slot[i].hash, p);
        cache_count(cache, p, 1);
        out->slot[i].call = NULL;
    }
    bp_pool_unlock(cache->pool);
    return true;
}

static bool release_all(struct emptied *e)
{
    bool any = false;

    for (uint64_t i = 0; i <= e->mask; i++) {
        if (!e->slot[i].call) continue;
        any = true;
        bp_prepared_release(e->slot[i].call);
    }
    free(e->slot);
    return any;
}

/* Empties the tables when memory runs out. This happens under the device's lock, which keeps the
 * tables alive; the calls are released without it. */
static bool cache_give_up(void *ctx)
{
    enum { ROUND = 64 };
    struct bp_device *device = ctx;
    struct emptied emptied[ROUND];
    uint32_t n = 0;
    bool any = false;

    pthread_mutex_lock(&device->lock);
    for (struct bp_cache *c = device->caches; c && n < ROUND; c = c->next)
        if (cache_empty(c, &emptied[n])) n++;
    pthread_mutex_unlock(&device->lock);
    while (n) any |= release_all(&emptied[--n]);
    return any;
}

static bool is_bound_to(const struct bp_prepared *p, uint64_t buffer)
{
    for (uint32_t i = 0; p->bound && i < p->n_in; i++)
        if (p->constant[i].id == buffer) return true;
    return false;
}

/* Removes one call that is bound to a buffer, from slot *at on. No thread runs such a call, because
 * a run would keep the buffer alive. */
static struct bp_prepared *take_bound(struct bp_cache *cache, uint64_t buffer, uint64_t *at)
{
    for (; *at <= cache->mask && cache->n_bound; ++*at) {
        struct bp_prepared *p = cache->slot[*at].call;
        if (!p || !is_bound_to(p, buffer)) continue;
        if (cache->pinned == p) cache->pinned = NULL;
        return take_out(cache, *at); /* a later entry may have moved here: it is checked next */
    }
    return NULL;
}

/* Drops the calls bound to a freed buffer, which no caller can make any more. */
static void cache_forget(struct bp_device *device, uint64_t buffer)
{
    enum { ROUND = 64 };
    struct bp_prepared *gone[ROUND];
    uint32_t n;

    do {
        n = 0;
        pthread_mutex_lock(&device->lock);
        for (struct bp_cache *c = device->caches; c; c = c->next) {
            uint64_t at = 0;
            bp_pool_lock(c->pool);
            while (n < ROUND && (gone[n] = take_bound(c, buffer, &at))) n++;
            bp_pool_unlock(c->pool);
        }
        pthread_mutex_unlock(&device->lock);
        for (uint32_t i = 0; i < n; i++) bp_prepared_release(gone[i]);
    } while (n == ROUND);
}

void bp_cache_open(struct bp_device *device)
{
    device->invalidate_calls = cache_forget;
    device->destroy_cache = bp_cache_destroy;
    device->calls_shrinker = (struct bp_shrinker){cache_give_up, device, NULL};
    bp_shrinker_register(device, &device->calls_shrinker);
}

void bp_cache_destroy(struct bp_cache *cache)
{
    struct emptied rest;
    struct bp_cache **at;

    if (!cache) return;
    pthread_mutex_lock(&cache->device->lock);
    for (at = &cache->device->caches; *at != cache;) at = &(*at)->next;
    *at = cache->next;
    pthread_mutex_unlock(&cache->device->lock);
    rest = (struct emptied){cache->slot, cache->mask};
    release_all(&rest);
    free(cache);
}

void bp_cache_stats(struct bp_cache *cache, struct bp_call_stats *out_stats)
{
    bp_pool_lock(cache->pool);
    out_stats->hits = cache->hits;
    out_stats->misses = cache->misses;
    out_stats->entries = cache->n;
    out_stats->evicted = cache->evicted;
    bp_pool_unlock(cache->pool);
}

uint64_t bp_cache_added(struct bp_cache *cache)
{
    uint64_t added;

    bp_pool_lock(cache->pool);
    added = cache->added;
    bp_pool_unlock(cache->pool);
    return added;
}
