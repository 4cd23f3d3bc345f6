/* SPDX-License-Identifier: Apache-2.0 */
/* import.c: creates buffers over memory that the caller owns. */
#include "memory.h"

#include <inttypes.h>
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

static void import_no_release(void *ctx)
{
    (void)ctx;
}

static enum bp_status import_check(const char *call, const struct bp_device *device, void *data,
                                   uint64_t size)
{
    uintptr_t end;

    if (device->properties.flags & BP_DEVICE_HANDLES || !device->properties.dlpack_type)
        return bp_error(BP_ERR_UNSUPPORTED,
                        "%s: %s does not access memory of others by its address; use "
                        "bp_buffer_create, and bp_tensor_write",
                        call, device->name);
    if ((!data && size) || (uintptr_t)data % 8)
        return bp_error(BP_ERR_INVALID, "%s: data is %p, expected a multiple of 8 that is not NULL",
                        call, data);
    if (size > INT64_MAX || __builtin_add_overflow((uintptr_t)data, size, &end))
        return bp_error(BP_ERR_INVALID,
                        "%s: %" PRIu64 " bytes from %p on reach past the end of all memory", call,
                        size, data);
    return BP_OK;
}

enum bp_status bp_buffer_create_over(struct bp_device *device, void *data, uint64_t size,
                                     void (*release)(void *ctx), void *ctx,
                                     struct bp_buffer **out_buffer)
{
    static const char call[] = "bp_buffer_create_over";
    const struct bp_memory memory = {.data = size ? data : NULL};

    if (!bp_device_is(device)) return bp_not_a("device");
    if (!out_buffer) return bp_error(BP_ERR_INVALID, "%s: out_buffer is NULL", call);
    TRY(import_check(call, device, data, size));
    return bp_buffer_import(device, &memory, size, BP_SPACE_DEVICE,
                            release ? release : import_no_release, ctx, out_buffer);
}

void bp_buffer_disown(struct bp_buffer *buffer)
{
    ((struct imported *)buffer)->release = import_no_release;
    bp_buffer_release(buffer);
}
