/* SPDX-License-Identifier: Apache-2.0 */
/* engined_device.c: the memory of the device under the engine: that of the host, or memory that
 * only the device may access, by addresses or by handles. */
#include "engined.h"

#include <stdlib.h>
#include <string.h>

static const struct bp_runtime *device_runtime(void)
{
    return engined_cpu.plugin->runtime;
}

static uint32_t device_flags(uint32_t device)
{
    struct bp_device_properties p = {.size = sizeof p};

    if (device_runtime()->device_properties(engined_cpu.self, device, &p) != BP_OK) abort();
    return p.flags;
}

bool engined_is_host(uint32_t device)
{
    uint32_t flags = device_flags(device);

    return flags & BP_DEVICE_INLINE && flags & BP_DEVICE_HOST_VISIBLE &&
           !(flags & BP_DEVICE_HANDLES);
}

/* ---- blocks ---- */

enum bp_status engined_block_make(uint32_t device, uint64_t size, struct engined_block *out)
{
    enum bp_status status;

    *out = (struct engined_block){.size = size + 1};
    status = device_runtime()->memory_allocate(engined_cpu.self, device, BP_SPACE_DEVICE, out->size,
                                               &out->memory);
    if (status) out->size = 0;
    else if (device_flags(device) & BP_DEVICE_HANDLES) out->memory.data = NULL;
    return status;
}

void engined_block_free(uint32_t device, struct engined_block *block)
{
    if (block->size)
        device_runtime()->memory_free(engined_cpu.self, device, BP_SPACE_DEVICE, &block->memory);
    *block = (struct engined_block){.size = 0};
}

/* ---- copies that the host waits for ---- */

/* Copies on a stream of its own. */
static enum bp_status copy_alone(uint32_t device, const struct bp_copy *copy, bool to_device)
{
    const struct bp_runtime *r = device_runtime();
    void *self = engined_cpu.self, *stream = NULL;
    enum bp_status status = r->stream_create ? r->stream_create(self, device, &stream) : BP_OK;

    if (status) return status;
    status = to_device ? r->copy_in(self, device, stream, copy)
                       : r->copy_out(self, device, stream, copy);
    if (status == BP_OK && to_device) status = r->synchronize(self, device, stream);
    if (stream) r->stream_destroy(self, device, stream);
    return status;
}

enum bp_status engined_write(uint32_t device, const struct engined_block *block, uint64_t at,
                             const void *from, uint64_t size)
{
    const struct bp_copy copy = {.dst_memory = block->memory.handle,
                                 .dst = (char *)block->memory.data + at,
                                 .src = from,
                                 .size = size};

    return size ? copy_alone(device, &copy, true) : BP_OK;
}

enum bp_status engined_read(uint32_t device, const void *memory, const void *data, void *to,
                            uint64_t size)
{
    const struct bp_copy copy = {.dst = to,
                                 .src_memory = (void *)(uintptr_t)memory,
                                 .src = data,
                                 .size = size};

    return size ? copy_alone(device, &copy, false) : BP_OK;
}

/* ---- copies of a run ---- */

enum bp_status engined_copy(const struct bp_engine_run *run, const struct bp_view *to,
                            const struct bp_view *from, uint64_t size)
{
    const struct bp_copy copy = {to->memory, to->data, from->memory, from->data, size};

    if (!size) return BP_OK;
    return device_runtime()->copy_within(engined_cpu.self, run->device, run->stream, &copy);
}

enum bp_status engined_change(const struct bp_engine_run *run, const struct bp_view *v, int64_t i,
                              void (*change)(float *element))
{
    const struct bp_runtime *r = device_runtime();
    struct bp_copy copy = {.src_memory = v->memory, .src = (float *)v->data + i, .size = 4};
    enum bp_status status;
    float element = 0;

    copy.dst = &element;
    status = r->copy_out(engined_cpu.self, run->device, run->stream, &copy);
    if (status) return status;
    change(&element);
    copy = (struct bp_copy){v->memory, (float *)v->data + i, NULL, &element, sizeof element};
    return r->copy_in(engined_cpu.self, run->device, run->stream, &copy);
}
