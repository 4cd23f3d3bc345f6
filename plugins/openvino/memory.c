/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c: allocates device memory, which is host memory, and copies. All memory spaces are the
 * same. */
#include "openvino.h"

#include <inttypes.h>
#include <string.h>

/* The length of an allocation is in front of its data, because the host frees memory by it. */
enum {
    ALIGNMENT = 64
};

enum bp_status openvino_memory_allocate(void *p, uint32_t device, uint32_t space, uint64_t size,
                                        struct bp_memory *out)
{
    const struct bp_host *host = ((struct openvino *)p)->host;
    uint64_t *memory = NULL;

    if (space > BP_SPACE_MANAGED)
        return bp_fail(host, BP_ERR_UNSUPPORTED, "openvino:%" PRIu32 ": no space %" PRIu32, device,
                       space);
    if (size <= PTRDIFF_MAX - ALIGNMENT)
        memory = host->allocate(host->ctx, (size_t)size + ALIGNMENT, ALIGNMENT);
    if (!memory)
        return bp_fail(host, BP_ERR_MEMORY,
                       "openvino:%" PRIu32 ": no memory: %" PRIu64 " bytes were requested", device,
                       size);
    *memory = size + ALIGNMENT;
    *out = (struct bp_memory){.handle = memory, .data = (char *)memory + ALIGNMENT};
    return BP_OK;
}

void openvino_memory_free(void *p, uint32_t device, uint32_t space, const struct bp_memory *memory)
{
    const struct bp_host *host = ((struct openvino *)p)->host;

    (void)device;
    (void)space;
    host->release(host->ctx, memory->handle, (size_t) * (uint64_t *)memory->handle);
}

enum bp_status openvino_copy_in(void *self, uint32_t device, void *stream, const struct bp_copy *c)
{
    (void)self;
    (void)device;
    (void)stream;
    memcpy(c->dst, c->src, (size_t)c->size);
    return BP_OK;
}

enum bp_status openvino_copy_out(void *self, uint32_t device, void *stream, const struct bp_copy *c)
{
    return openvino_copy_in(self, device, stream, c);
}

enum bp_status openvino_copy_within(void *self, uint32_t device, void *stream,
                                    const struct bp_copy *c)
{
    return openvino_copy_in(self, device, stream, c);
}

/* Work is done when its call returns. */
enum bp_status openvino_synchronize(void *self, uint32_t device, void *stream)
{
    (void)self;
    (void)device;
    (void)stream;
    return BP_OK;
}
