/* SPDX-License-Identifier: Apache-2.0 */
/* cache.h: declares the caches of eager calls: prepared calls that are found again by their
 * signature. Each stream has a small table; the device has one that its streams share. */
#ifndef BP_CACHE_H
#define BP_CACHE_H

#include "prepared.h"

/* An eager call before its prepared call is found: the parts of its signature. */
struct bp_eager {
    const struct bp_opdef *row;
    struct bp_device *device;
    const void *attrs; /* full length, or NULL if the operator has none */
    uint64_t hash;
    uint32_t n_in, want;
    uint32_t given;    /* bit of each output that the caller preallocated */
    bool in_place;
    bool sourced; /* the contents of an input may be freed (source.h) */
    uint16_t in_at[BP_PORT_MAX + 1];
    struct bp_tensor *in[BP_FLAT_MAX];   /* NULL: absent */
    struct bp_tensor *out[BP_PORT_MAX];  /* the preallocated outputs */
};

/* Returns the only tensor of an argument; NULL if the argument has none or several. */
static inline struct bp_tensor *bp_arg_one(const struct bp_arg *arg)
{
    return arg->n == 1 ? arg->at[0] : NULL;
}

/* Returns the hash of everything that must be equal for two calls to be the same. */
uint64_t bp_eager_hash(const struct bp_eager *e);

struct bp_cache_slot {
    uint64_t hash;
    struct bp_prepared *call; /* a reference; NULL: the slot is free */
};

struct bp_cache {
    struct bp_cache *next;    /* of device->caches, under its lock */
    struct bp_device *device; /* constant */
    struct bp_pool *pool;     /* constant: the pool of the calls' results. Its lock guards all
                                 below, so that an eager call takes one lock for both */
    struct bp_cache_slot *slot;
    uint64_t mask;
    uint32_t n, hand;
    struct bp_prepared *pinned; /* the call that was found or added last: it may be running */
    uint64_t steps, steps_max;  /* of all calls: each step has a plan */
    uint64_t bytes, bytes_max;  /* of plans that are not bound to constants */
    uint32_t n_bound;           /* calls bound to constants: freed with these buffers */
    uint64_t hits, misses, evicted, added;
};

/* Finds the prepared call in a table; NULL: it is not there. retain: the result has a reference.
 * Otherwise it has none, and only one thread at a time may use the table: the call stays in the
 * table at least until the next find or add. */
struct bp_prepared *bp_cache_find(struct bp_cache *cache, const struct bp_eager *e, bool retain);

/* Adds a call to the table, which takes over the caller's reference. */
enum bp_status bp_cache_add(struct bp_cache *cache, struct bp_prepared *prepared);

/* Creates a table of calls that have together at most steps_max steps. The call that was added last
 * stays, whatever its size. `owner`: the timeline that owns the results of the calls. */
enum bp_status bp_cache_create(struct bp_timeline *owner, uint64_t steps_max, uint64_t bytes_max,
                               struct bp_cache **out_cache);
void bp_cache_destroy(struct bp_cache *cache);

/* Lets the allocator empty the device's tables when memory runs out. Called once for a device. */
void bp_cache_open(struct bp_device *device);

/* Fills the members from hits to evicted. */
void bp_cache_stats(struct bp_cache *cache, struct bp_call_stats *out_stats);
/* Returns how many calls were added so far. */
uint64_t bp_cache_added(struct bp_cache *cache);

#endif
