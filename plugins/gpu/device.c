/* SPDX-License-Identifier: Apache-2.0 */
/* device.c: the devices: what they are, and their contexts. */
#include "vendor.h"

enum bp_status gpu_device_count(void *self, uint32_t *out_count)
{
    *out_count = ((struct gpu *)self)->n_device;
    return BP_OK;
}

/* How many units a device has; 0: unknown, as in a runtime that numbers its attributes in another
 * way. */
static uint32_t units_of(struct gpu_device *device)
{
    int units = 0;

    GPU_NOTE(device, device_attribute, &units, gpu_target.units, device->number);
    return units > 0 && units < 4096 ? (uint32_t)units : 0;
}

/* Needs no context, which costs memory of the device and time. */
enum bp_status gpu_device_properties(void *self, uint32_t index, struct bp_device_properties *out)
{
    struct gpu *gpu = self;
    struct gpu_device *device = &gpu->device[index];
    char name[sizeof out->name] = "";
    size_t memory = 0;

    TRY(GPU_CALL(device, device_name, name, sizeof name - 1, device->number));
    TRY(GPU_CALL(device, device_memory, &memory, device->number));
    snprintf(out->name, sizeof out->name, "%s", name);
    snprintf(out->driver, sizeof out->driver, "%s %d.%d", gpu_target.driver,
             gpu->version / gpu_target.major, gpu->version % gpu_target.major / gpu_target.minor);
    BP_SET(out, memory, memory);
    BP_SET(out, dtypes, BP_MASK_ANY | BP_M(F8E4M3) | BP_M(F8E5M2));
    BP_SET(out, alignment, 256);
    BP_SET(out, units, units_of(device));
    BP_SET(out, dlpack_type, gpu_target.dlpack_type);
    return BP_OK;
}

static enum bp_status open_device(struct gpu_device *device)
{
    void *context = NULL;

    TRY(GPU_CALL(device, context_retain, &context, device->number));
    device->units = units_of(device);
    device->context = context;
    atomic_store_explicit(&device->open, true, memory_order_release);
    return BP_OK;
}

enum bp_status gpu_device_use(struct gpu *gpu, uint32_t index, struct gpu_device **out)
{
    struct gpu_device *device = &gpu->device[index];
    enum bp_status status = BP_OK;

    if (__builtin_expect(!atomic_load_explicit(&device->open, memory_order_acquire), 0)) {
        pthread_mutex_lock(&device->lock);
        if (!device->open) status = open_device(device);
        pthread_mutex_unlock(&device->lock);
    }
    if (status == BP_OK) status = GPU_CALL(device, context_set, device->context);
    if (status == BP_OK) *out = device;
    return status;
}

/* Where the calling thread captures a stream itself, the driver refuses. */
int gpu_device_wait(struct gpu_device *device)
{
    bool mine = pthread_mutex_lock(&device->whole) != 0;
    int code = device->gpu->call.context_synchronize();

    if (!mine) pthread_mutex_unlock(&device->whole);
    return code;
}

void gpu_device_close(struct gpu_device *device)
{
    if (!device->open) return;
    GPU_NOTE(device, context_set, device->context);
    gpu_vendor_finish(device, device->vendor);
    gpu_modules_unload(device);
    GPU_NOTE(device, context_set, NULL);
    GPU_NOTE(device, context_release, device->number);
    device->open = false;
}
