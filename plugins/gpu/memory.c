/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c: allocates and frees device, pinned and managed memory. Both drivers have one address
 * range for all memory: an address is valid on the device and, for host memory, also on the
 * host. */
#include "gpu.h"
#include <inttypes.h>

/* Refuses managed memory on devices where the host must not access it while kernels run, because
 * the host's use of such tensors would crash. Also refuses more than is free on the device: some
 * drivers allocate it, but swap it with the host's memory at each use. */
static enum bp_status admit_managed(struct gpu_device *device, uint64_t size)
{
    size_t free_bytes = 0, total = 0;

    for (int i = 0; i < 2; i++) {
        int has = 0;
        TRY(GPU_CALL(device, device_attribute, &has, gpu_target.managed[i], device->number));
        if (has) continue;
        return bp_fail(device->gpu->host, BP_ERR_UNSUPPORTED,
                       GPU_NAME ":%u: the device has no managed memory%s: use pinned memory",
                       device->index, i ? " that the host may use while kernels run" : "");
    }
    TRY(GPU_CALL(device, memory_info, &free_bytes, &total));
    return size <= free_bytes ? BP_OK : BP_ERR_MEMORY;
}

static enum bp_status memory_get(struct gpu_device *device, uint32_t space, uint64_t size,
                                 void **out)
{
    switch (space) {
    case BP_SPACE_DEVICE: return GPU_CALL(device, memory_allocate, out, size);
    case BP_SPACE_PINNED: return GPU_CALL(device, pinned_allocate, out, size, GPU_PINNED);
    case BP_SPACE_MANAGED:
        TRY(admit_managed(device, size));
        return GPU_CALL(device, managed_allocate, out, size, GPU_MANAGED);
    default:
        return bp_fail(device->gpu->host, BP_ERR_UNSUPPORTED,
                       GPU_NAME ": memory space %" PRIu32 " is unknown", space);
    }
}

static const char *memory_function(uint32_t space)
{
    return gpu_target.symbol[space == BP_SPACE_DEVICE   ? GPU_CALL_memory_allocate
                             : space == BP_SPACE_PINNED ? GPU_CALL_pinned_allocate
                                                        : GPU_CALL_managed_allocate];
}

enum bp_status gpu_memory_allocate(void *self, uint32_t index, uint32_t space, uint64_t size,
                                   struct bp_memory *out)
{
    KIT_CONTEXT caller = {NULL};
    struct gpu_device *device;
    enum bp_status status;
    void *data = NULL;

    TRY(gpu_device_use(self, index, &caller, &device));
    status = memory_get(device, space, size, &data);
    if (status == BP_ERR_MEMORY)
        return kit_memory_fail(&device->report, memory_function(space), size, gpu_memory_info,
                               self);
    if (status == BP_OK) *out = (struct bp_memory){.data = data};
    return status;
}

void gpu_memory_free(void *self, uint32_t index, uint32_t space, const struct bp_memory *memory)
{
    KIT_CONTEXT caller = {NULL};
    struct gpu_device *device = gpu_device_reuse(self, index, &caller);

    if (space == BP_SPACE_PINNED) GPU_NOTE(device, pinned_free, memory->data);
    else GPU_NOTE(device, memory_free, memory->data);
}

enum bp_status gpu_memory_info(void *self, uint32_t index, uint64_t *out_free, uint64_t *out_total)
{
    size_t free_bytes = 0, total = 0;
    KIT_CONTEXT caller = {NULL};
    struct gpu_device *device;

    TRY(gpu_device_use(self, index, &caller, &device));
    TRY(GPU_CALL(device, memory_info, &free_bytes, &total));
    *out_free = free_bytes;
    *out_total = total;
    return BP_OK;
}
