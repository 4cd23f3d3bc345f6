/* SPDX-License-Identifier: Apache-2.0 */
/* cache.h: shares objects that take long to make, such as compiled kernels, between the plans that
 * need equal ones, and keeps a few that no plan uses: docs/kit.md. */
#ifndef KIT_CACHE_H
#define KIT_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The kit's part of an object: its first member. */
struct kit_cached {
    struct kit_cached *next; /* the object that was used before this one */
    uint64_t users;
    size_t size; /* of the key */
    void *key;
};

/* Zero at first. The plugin's lock guards a cache in all calls. */
struct kit_cache {
    struct kit_cached *first;
};

/* Returns the object of a key, with one more user, or NULL: the cache has none. Keys are compared
 * as bytes: padding must be zero. */
struct kit_cached *kit_cache_take(struct kit_cache *cache, const void *key, size_t size);
/* Adds an object that was made for a key, with one user. size 0: no later call finds it. false: no
 * memory for a copy of the key; the object is not added. */
bool kit_cache_add(struct kit_cache *cache, struct kit_cached *object, const void *key,
                   size_t size);
/* Returns the object without users that was used least recently, if more than `keep` objects have
 * no users, and removes it from the cache: the caller destroys it. Otherwise NULL. Call it after
 * users have become fewer, until it returns NULL. */
struct kit_cached *kit_cache_remove(struct kit_cache *cache, uint32_t keep);
/* Removes any object, with or without users, or returns NULL: for the end of a device. */
struct kit_cached *kit_cache_empty(struct kit_cache *cache);

#endif
