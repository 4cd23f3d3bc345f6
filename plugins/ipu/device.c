/* SPDX-License-Identifier: Apache-2.0 */
/* device.c: reports devices, and allocates and copies their memory, which is host memory. All
 * memory spaces are the same. */
#include "ipu.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The length of an allocation is in front of its data, because the host frees memory by it. */
enum {
    ALIGNMENT = 64
};

enum bp_status ipu_device_count(void *p, uint32_t *out_count)
{
    const struct ipu *self = p;

    *out_count = self->n_device;
    return BP_OK;
}

enum bp_status ipu_device_properties(void *p, uint32_t device, struct bp_device_properties *out)
{
    struct ipu *self = p;
    struct bp_ipu_facts facts = {.size = sizeof facts};

    TRY(IPU(self, device, bp_ipu_device_info, self->devices, device, &facts));
    snprintf(out->name, sizeof out->name, "%s", facts.name);
    snprintf(out->driver, sizeof out->driver, "Poplar, device %" PRIu32 ", shim %d", facts.id,
             BP_IPU_SHIM_VERSION);
    BP_SET(out, dtypes, BP_MASK_ANY | BP_MASK_F8);
    BP_SET(out, alignment, ALIGNMENT);
    BP_SET(out, units, (uint32_t)facts.tiles);
    BP_SET(out, flags, BP_DEVICE_INLINE | BP_DEVICE_HOST_VISIBLE | BP_DEVICE_GRAPH_ONLY);
    BP_SET(out, dlpack_type, 1); /* host memory */
    return BP_OK;
}

enum bp_status ipu_memory_allocate(void *p, uint32_t device, uint32_t space, uint64_t size,
                                   struct bp_memory *out)
{
    const struct bp_host *host = ((struct ipu *)p)->host;
    uint64_t *memory = NULL;

    if (space > BP_SPACE_MANAGED)
        return bp_fail(host, BP_ERR_UNSUPPORTED, "ipu:%" PRIu32 ": no space %" PRIu32, device,
                       space);
    if (size <= PTRDIFF_MAX - ALIGNMENT)
        memory = host->allocate(host->ctx, (size_t)size + ALIGNMENT, ALIGNMENT);
    if (!memory)
        return bp_fail(host, BP_ERR_MEMORY,
                       "ipu:%" PRIu32 ": no memory: %" PRIu64 " bytes were requested", device,
                       size);
    *memory = size + ALIGNMENT;
    *out = (struct bp_memory){.handle = memory, .data = (char *)memory + ALIGNMENT};
    return BP_OK;
}

void ipu_memory_free(void *p, uint32_t device, uint32_t space, const struct bp_memory *memory)
{
    const struct bp_host *host = ((struct ipu *)p)->host;

    (void)device;
    (void)space;
    host->release(host->ctx, memory->handle, (size_t) * (uint64_t *)memory->handle);
}

enum bp_status ipu_copy_in(void *self, uint32_t device, void *stream, const struct bp_copy *c)
{
    (void)self;
    (void)device;
    (void)stream;
    memcpy(c->dst, c->src, (size_t)c->size);
    return BP_OK;
}

enum bp_status ipu_copy_out(void *self, uint32_t device, void *stream, const struct bp_copy *c)
{
    return ipu_copy_in(self, device, stream, c);
}

enum bp_status ipu_copy_within(void *self, uint32_t device, void *stream, const struct bp_copy *c)
{
    return ipu_copy_in(self, device, stream, c);
}

/* Work is done when its call returns. */
enum bp_status ipu_synchronize(void *self, uint32_t device, void *stream)
{
    (void)self;
    (void)device;
    (void)stream;
    return BP_OK;
}
