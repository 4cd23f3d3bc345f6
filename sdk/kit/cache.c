/* SPDX-License-Identifier: Apache-2.0 */
/* cache.c: keeps shared objects in a list, the one that was used last at its front; see cache.h. */
#include "cache.h"
#include <stdlib.h>
#include <string.h>

static void cache_insert(struct kit_cache *cache, struct kit_cached *object)
{
    object->users++;
    object->next = cache->first;
    cache->first = object;
}

/* Removes the object at this place of the list. */
static struct kit_cached *cache_remove(struct kit_cached **at)
{
    struct kit_cached *object = *at;

    *at = object->next;
    free(object->key);
    object->key = NULL;
    return object;
}

struct kit_cached *kit_cache_take(struct kit_cache *cache, const void *key, size_t size)
{
    struct kit_cached **at = &cache->first, *object;

    while (*at && ((*at)->size != size || memcmp((*at)->key, key, size) != 0)) at = &(*at)->next;
    object = size ? *at : NULL;
    if (!object) return NULL;
    *at = object->next;
    cache_insert(cache, object);
    return object;
}

bool kit_cache_add(struct kit_cache *cache, struct kit_cached *object, const void *key, size_t size)
{
    object->key = malloc(size + 1);
    if (!object->key) return false;
    memcpy(object->key, key, size);
    object->size = size;
    object->users = 0;
    cache_insert(cache, object);
    return true;
}

struct kit_cached *kit_cache_remove(struct kit_cache *cache, uint32_t keep)
{
    struct kit_cached **oldest = NULL;
    uint32_t unused = 0;

    for (struct kit_cached **at = &cache->first; *at; at = &(*at)->next) {
        if ((*at)->users) continue;
        unused++;
        oldest = at;
    }
    return unused > keep ? cache_remove(oldest) : NULL;
}

struct kit_cached *kit_cache_empty(struct kit_cache *cache)
{
    return cache->first ? cache_remove(&cache->first) : NULL;
}
