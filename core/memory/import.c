/* SPDX-License-Identifier: Apache-2.0 */
/* import.c: creates buffers over memory that the caller owns. */
#include "memory.h"

#include <stdlib.h>

struct imported {
    struct bp_buffer buffer; /* first */
    void (*release)(void *ctx);
    void *ctx;
};

/* Returns the memory to its owner. */
static void import_release(struct bp_deferred *deferred)
{
    struct imported *imported =
        (struct imported *)((char *)deferred - offsetof(struct bp_buffer, deferred));

    imported->release(imported->ctx);
    free(imported);
}

enum bp_status bp_buffer_import(struct bp_device *device, const struct bp_memory *memory,
                                uint64_t size, uint32_t space, void (*release)(void *ctx),
                                void *ctx, struct bp_buffer **out_buffer)
{
    struct imported *imported = calloc(1, sizeof *imported);
    struct bp_buffer *buffer;

    if (!imported) return bp_error(BP_ERR_MEMORY, "no host memory for a buffer");
    buffer = &imported->buffer;
    atomic_init(&buffer->refs, 1);
    buffer->deferred.release = import_release;
    buffer->device = device;
    buffer->owner = device->host;
    buffer->magic = bp_magic(BP_MAGIC_BUFFER);
    buffer->memory = (struct bp_address){memory->handle, memory->data};
    buffer->size = size;
    buffer->space = (uint8_t)space;
    buffer->id = bp_buffer_reserve_ids(1);
    imported->release = release;
    imported->ctx = ctx;
    bp_device_retain(device);
    *out_buffer = buffer;
    return BP_OK;
}

/* Replaces the release of a disowned buffer, which must not be called. */
static void import_ignore_release(void *ctx)
{
    (void)ctx;
}

void bp_buffer_disown(struct bp_buffer *buffer)
{
    ((struct imported *)buffer)->release = import_ignore_release;
    bp_buffer_release(buffer);
}
