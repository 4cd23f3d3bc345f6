/* SPDX-License-Identifier: Apache-2.0 */
/* wrap.c: keeps tensors and moves them to the memory of the next call. */
#include "bridge.h"

#include <stdlib.h>
#include <string.h>

enum bp_status bridge_wraps_init(struct bridge_wraps *wraps, struct bridge_memory *memory)
{
    struct bridge_wrap *entry = calloc(BRIDGE_WRAPS, sizeof *entry);

    *wraps = (struct bridge_wraps){memory, entry, entry ? BRIDGE_WRAPS : 0, 1};
    return entry ? BP_OK : bridge_no_memory();
}

void bridge_wraps_finish(struct bridge_wraps *wraps)
{
    for (uint32_t i = 0; i < wraps->n_entry; i++) bp_tensor_destroy(wraps->entry[i].tensor);
    free(wraps->entry);
    *wraps = (struct bridge_wraps){NULL, NULL, 0, 0};
}

void bridge_wraps_begin(struct bridge_wraps *wraps)
{
    wraps->round++;
}

void bridge_wraps_end(struct bridge_wraps *wraps)
{
    for (uint32_t i = 0; i < wraps->n_entry; i++) {
        struct bridge_wrap *e = &wraps->entry[i];
        if (!e->holds) continue;
        bp_tensor_destroy(e->tensor);
        e->tensor = NULL;
        e->holds = false;
    }
}

static uint64_t wrap_hash(uint32_t dtype, uint32_t rank, const int64_t *shape)
{
    uint64_t hash = dtype * 8 + rank + 1;

    for (uint32_t i = 0; i < rank; i++) {
        hash = (hash ^ (uint64_t)shape[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash;
}

static bool wrap_has(const struct bridge_wrap *e, uint64_t hash, uint32_t dtype, uint32_t rank,
                     const int64_t *shape)
{
    return e->tensor && e->hash == hash && e->dtype == dtype && e->rank == rank &&
           (!rank || !memcmp(e->shape, shape, rank * sizeof *shape));
}

/* Adds room, because one round uses all entries. */
static struct bridge_wrap *wraps_grow(struct bridge_wraps *wraps)
{
    uint32_t n = wraps->n_entry;
    struct bridge_wrap *grown = realloc(wraps->entry, 2 * n * sizeof *grown);

    if (!grown) return NULL;
    memset(grown + n, 0, n * sizeof *grown);
    wraps->entry = grown;
    wraps->n_entry = 2 * n;
    return grown + n;
}

/* Finds an entry of this type that is not in use, else one that may be replaced: a free one, else
 * the one that was unused for the longest time. */
static struct bridge_wrap *wraps_find(struct bridge_wraps *wraps, uint64_t hash, uint32_t dtype,
                                      uint32_t rank, const int64_t *shape)
{
    struct bridge_wrap *oldest = NULL;
    uint32_t n = wraps->n_entry, first = (uint32_t)(hash >> 32) % n;

    for (uint32_t i = 0; i < n; i++) {
        struct bridge_wrap *e = &wraps->entry[(first + i) % n];
        if (!e->tensor) return e; /* most entries of a type lie in front of a free one */
        if (e->round == wraps->round) continue;
        if (wrap_has(e, hash, dtype, rank, shape)) return e;
        if (!oldest || e->round < oldest->round) oldest = e;
    }
    return oldest ? oldest : wraps_grow(wraps);
}

static uint64_t wrap_bytes(uint32_t dtype, uint32_t rank, const int64_t *shape)
{
    uint64_t count = 1;

    for (uint32_t i = 0; i < rank; i++)
        if (__builtin_mul_overflow(count, (uint64_t)shape[i], &count)) return UINT64_MAX;
    return count > INT64_MAX / 16 ? UINT64_MAX : count * (bp_dtype_bits(dtype) / 8);
}

enum bp_status bridge_wrap(struct bridge_wraps *wraps, const void *address, uint32_t dtype,
                           uint32_t rank, const int64_t *shape, struct bp_tensor **out_tensor)
{
    struct bp_tensor_options o = {
        .size = sizeof o, .dtype = dtype, .rank = rank, .shape = shape};
    uint64_t hash = wrap_hash(dtype, rank, shape), bytes;
    struct bridge_place place = {.is_allocated = false};
    struct bridge_wrap *e;
    enum bp_status status;

    if (rank > BP_RANK_MAX)
        return bp_error_set(BP_ERR_UNSUPPORTED, "a tensor has more axes than tensors may have");
    bytes = wrap_bytes(dtype, rank, shape);
    e = wraps_find(wraps, hash, dtype, rank, shape);
    if (!e) return bridge_no_memory();
    if (!bytes) { /* without memory */
        bp_tensor_destroy(e->tensor);
        e->tensor = NULL;
        status = bp_tensor_create(bridge_memory_device(wraps->memory), dtype, rank, shape,
                                  &e->tensor);
    } else {
        status = bridge_memory_find(wraps->memory, address, bytes, &place);
        if (status) return status;
        if (wrap_has(e, hash, dtype, rank, shape))
            status = bp_tensor_rebind(e->tensor, place.buffer, place.offset);
        else status = BP_ERR_BUSY;
        if (status == BP_ERR_BUSY || (status && !e->tensor)) {
            bp_tensor_destroy(e->tensor);
            e->tensor = NULL;
            status = bp_tensor_create_over(place.buffer, place.offset, &o, &e->tensor);
        }
    }
    if (status) return status;
    e->holds = place.is_allocated;
    e->hash = hash;
    e->dtype = dtype;
    e->rank = rank;
    if (rank) memcpy(e->shape, shape, rank * sizeof *shape);
    e->round = wraps->round;
    *out_tensor = e->tensor;
    return BP_OK;
}
