/* SPDX-License-Identifier: Apache-2.0 */
/* cache.h: eager calls, prepared and found again by their signature: a small table for each stream,
 * and one for the device that shares calls among its streams. */
#ifndef BP_CACHE_H
#define BP_CACHE_H

#include "prepared.h"

/* An eager call before it is known what runs it: what a signature is made of. */
struct bp_eager {
    const struct bp_opdef *row;
    struct bp_device *device;
    const void *attrs; /* full length, or NULL if the row has none */
    uint64_t hash;
    uint32_t n_in, want;
    uint32_t given;    /* bit of each output that the caller gives */
    bool in_place;
    uint16_t in_at[BP_PORT_MAX + 1];
    struct bp_tensor *in[BP_FLAT_MAX];   /* NULL: absent */
    struct bp_tensor *out[BP_PORT_MAX];  /* given ones */
};

/* The one input of port i; NULL: it is not as simple as that. */
static inline struct bp_tensor *bp_arg_one(const struct bp_arg *arg)
{
    return arg->n == 1 ? arg->at[0] : NULL;
}

/* The hash of all that must be equal. */
uint64_t bp_eager_hash(const struct bp_eager *e);

struct bp_cache_slot {
    uint64_t hash;
    struct bp_prepared *call; /* a reference; NULL: free */
};

struct bp_cache {
    struct bp_cache *next;    /* of device->caches, under its lock */
    struct bp_device *device; /* constant */
    struct bp_pool *pool;     /* constant: where results of the calls come from. Its lock guards all
                                  below, so that an eager call takes one lock for both */
    struct bp_cache_slot *slot;
    uint64_t mask;
    uint32_t n, max, hand;
    struct bp_prepared *pinned; /* the last that was found or added: it may be running */
    uint64_t bytes, bytes_max;  /* of plans that are not bound */
    uint32_t n_bound;           /* calls that are bound to constants: these go with those */
    uint64_t hits, misses, evicted, added;
};

/* The call in a table; NULL. With a reference (retain); or without, in a table that one thread asks
 * at a time: then it stays at least until the next call or add. */
struct bp_prepared *bp_cache_find(struct bp_cache *cache, const struct bp_eager *e, bool retain);

/* Puts a call in; its reference goes to the table. */
enum bp_status bp_cache_add(struct bp_cache *cache, struct bp_prepared *prepared);

/* home: of the results. */
enum bp_status bp_cache_create(struct bp_timeline *home, uint32_t entries_max, uint64_t bytes_max,
                               struct bp_cache **out_cache);
void bp_cache_destroy(struct bp_cache *cache);

/* From now on the device's tables let go of their calls when memory is short. Once for a device. */
void bp_cache_open(struct bp_device *device);

/* hits to evicted. */
void bp_cache_stats(struct bp_cache *cache, struct bp_call_stats *out_stats);
/* How many were put in. */
uint64_t bp_cache_added(struct bp_cache *cache);

#endif
