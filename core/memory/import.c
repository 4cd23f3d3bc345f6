/* SPDX-License-Identifier: Apache-2.0 */
/* import.c: storages over memory that somebody else owns. */
#include "memory.h"

#include <stdlib.h>

struct imported {
    struct bp_storage storage; /* first */
    void (*release)(void *ctx);
    void *ctx;
};

/* To its owner. */
static void import_release(struct bp_deferred *deferred)
{
    struct imported *imported =
        (struct imported *)((char *)deferred - offsetof(struct bp_storage, deferred));

    imported->release(imported->ctx);
    free(imported);
}

enum bp_status bp_storage_import(struct bp_device *device, const struct bp_memory *memory,
                                 uint64_t size, uint32_t space, void (*release)(void *ctx),
                                 void *ctx, struct bp_storage **out_storage)
{
    struct imported *imported = calloc(1, sizeof *imported);
    struct bp_storage *storage;

    if (!imported) return bp_error(BP_ERR_MEMORY, "no host memory for a storage");
    storage = &imported->storage;
    atomic_init(&storage->refs, 1);
    storage->deferred.release = import_release;
    storage->device = device;
    storage->owner = device->host;
    storage->magic = bp_magic(BP_MAGIC_STORAGE);
    storage->memory = (struct bp_address){memory->handle, memory->data};
    storage->size = size;
    storage->space = (uint8_t)space;
    storage->id = bp_storage_reserve_ids(1);
    imported->release = release;
    imported->ctx = ctx;
    bp_device_retain(device);
    *out_storage = storage;
    return BP_OK;
}

/* The release that it would have called at its end is not called. */
static void import_ignore_release(void *ctx)
{
    (void)ctx;
}

void bp_storage_disown(struct bp_storage *storage)
{
    ((struct imported *)storage)->release = import_ignore_release;
    bp_storage_release(storage);
}
