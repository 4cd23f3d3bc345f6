/* SPDX-License-Identifier: Apache-2.0 */
/* device.c: counts references to devices and returns their properties and kernels to the app. */
#include "device.h"

#include <string.h>

const char *bp_device_qualifier(const struct bp_device *device, const struct bp_device *other)
{
    if (device == other || strcmp(device->name, other->name)) return "";
    return device->core != other->core ? " of another core" : " of another plugin";
}

void bp_device_retain(struct bp_device *device)
{
    atomic_fetch_add_explicit(&device->refs, 1, memory_order_relaxed);
}

void bp_device_release(struct bp_device *device)
{
    uint32_t refs = atomic_load_explicit(&device->refs, memory_order_relaxed);

    while (refs > 1)
        if (atomic_compare_exchange_weak_explicit(&device->refs, &refs, refs - 1,
                                                  memory_order_release, memory_order_relaxed))
            return;
    device->close(device);
}

void bp_device_destroy(struct bp_device *device)
{
    if (bp_device_is(device)) bp_device_release(device);
}

const char *bp_device_name(struct bp_device *device)
{
    return bp_device_is(device) ? device->name : "";
}

struct bp_core *bp_device_core(struct bp_device *device)
{
    return bp_device_is(device) ? device->core : NULL;
}

uint32_t bp_device_emulated(struct bp_device *device)
{
    return bp_device_is(device) ? device->emulated : 0;
}

uint64_t bp_device_peer_copies(struct bp_device *device)
{
    if (!bp_device_is(device)) return 0;
    return atomic_load_explicit(&device->peer_copies, memory_order_relaxed);
}

enum bp_status bp_device_get_properties(struct bp_device *device, struct bp_device_properties *out)
{
    if (!bp_device_is(device)) return bp_not_a("device");
    return bp_info_fill(out, &device->properties, sizeof device->properties);
}

uint32_t bp_device_kernels(struct bp_device *device)
{
    return bp_device_is(device) ? device->entry->n_kernel : 0;
}

enum bp_status bp_device_kernel(struct bp_device *device, uint32_t index,
                                struct bp_kernel_info *out)
{
    struct bp_kernel_info info = {.size = sizeof info};
    const struct bp_kernel *k;

    if (!bp_device_is(device)) return bp_not_a("device");
    if (index >= device->entry->n_kernel)
        return bp_error(BP_ERR_INVALID, "bp_device_kernel: there is no row %u, only %u", index,
                        device->entry->n_kernel);
    k = &device->entry->kernel[index];
    info.op = k->op;
    info.name = k->name;
    memcpy(info.types, k->types, sizeof info.types);
    info.flags = k->flags;
    info.priority = k->priority;
    info.reason = device->entry->kernel_reason[index];
    info.layouts = info.reason ? NULL : device->entry->kernel_layouts[index];
    if (info.layouts)
        info.reason = "only programs use it: it takes tensors in layouts of the plugin";
    if (!info.layouts) info.layouts = "";
    if (!info.reason) info.reason = "";
    info.plugin = bp_kernel_plugin(device->entry, k)->plugin.name;
    return bp_info_fill(out, &info, sizeof info);
}
