/* SPDX-License-Identifier: Apache-2.0 */
/* store_values.c: keeps the keys and values of a store in a hash table, and counts their memory. */
#include "store.h"

#include <stdlib.h>

static struct bp_store_entry **values_find(const struct bp_store_values *values, const char *key)
{
    struct bp_store_entry *const *at;
    uint32_t h = 2166136261u;

    for (const char *c = key; *c; c++) h = (h ^ (unsigned char)*c) * 16777619u;
    for (at = &values->bucket[h % BP_STORE_BUCKETS]; *at && strcmp((*at)->key, key);)
        at = &(*at)->next;
    return (struct bp_store_entry **)(uintptr_t)at;
}

const struct bp_store_entry *bp_store_values_find(const struct bp_store_values *values,
                                                  const char *key)
{
    return *values_find(values, key);
}

uint64_t bp_store_values_cost(const char *key, uint32_t size)
{
    return sizeof(struct bp_store_entry) + 64 + strlen(key) + size;
}

bool bp_store_values_fit(const struct bp_store_values *values, const char *key, uint32_t size)
{
    const struct bp_store_entry *e = *values_find(values, key);
    uint64_t before = e ? bp_store_values_cost(key, e->size) : 0;

    return values->bytes - before + bp_store_values_cost(key, size) <= BP_STORE_BYTES_MAX;
}

enum bp_status bp_store_values_set(struct bp_store_values *values, const char *key,
                                   const void *value, uint32_t size)
{
    struct bp_store_entry **at = values_find(values, key), *e = *at;
    void *copy = malloc((size_t)size + 1);

    if (!copy) return BP_ERR_MEMORY;
    if (size) memcpy(copy, value, size);
    if (!e) {
        e = calloc(1, sizeof *e);
        if (e) e->key = strdup(key);
        if (!e || !e->key) {
            free(e);
            free(copy);
            return BP_ERR_MEMORY;
        }
        *at = e;
        values->bytes += bp_store_values_cost(key, 0);
    }
    free(e->value);
    values->bytes = values->bytes - e->size + size;
    e->value = copy;
    e->size = size;
    return BP_OK;
}

void bp_store_values_finish(struct bp_store_values *values)
{
    for (size_t i = 0; i < BP_STORE_BUCKETS; i++)
        for (struct bp_store_entry *e = values->bucket[i], *next; e; e = next) {
            next = e->next;
            free(e->key);
            free(e->value);
            free(e);
        }
}
