/* SPDX-License-Identifier: Apache-2.0 */
/* device.c: reports the properties of devices and opens and closes their contexts. */
#include "vendor.h"
#include <ctype.h>
#include <string.h>

enum bp_status gpu_device_count(void *self, uint32_t *out_count)
{
    *out_count = ((struct gpu *)self)->n_device;
    return BP_OK;
}

/* The number of the device's units; 0: unknown, for example if a runtime numbers its attributes
 * differently. */
static uint32_t units_of(struct gpu_device *device)
{
    int units = 0;

    GPU_NOTE(device, device_attribute, &units, gpu_target.units, device->number);
    return units > 0 && units < 4096 ? (uint32_t)units : 0;
}

void gpu_device_identify(struct gpu_device *device)
{
    char description[16384] = ""; /* longer than that of any version */
    int part[2] = {0, 0};

    if (gpu_target.capability[0]) {
        for (int i = 0; i < 2; i++)
            GPU_NOTE(device, device_attribute, &part[i], gpu_target.capability[i], device->number);
        if (part[0] > 0)
            snprintf(device->arch, sizeof device->arch, "%s%d", gpu_target.arch,
                     part[0] * 10 + part[1]);
    } else if (device->gpu->call.device_description) {
        GPU_NOTE(device, device_description, description, device->number);
        gpu_arch_find(description, sizeof description, gpu_target.arch, device->arch);
    }
}

/* Reports the properties that identify the hardware, as far as the driver knows them. */
static void fill_hardware(struct gpu_device *device, struct bp_device_properties *out)
{
    const struct gpu_calls *call = &device->gpu->call;
    char pci[sizeof out->pci] = "";
    uint8_t uuid[16] = {0};

    if (call->device_uuid) GPU_NOTE(device, device_uuid, uuid, device->number);
    if (call->device_pci) GPU_NOTE(device, device_pci, pci, sizeof pci - 1, device->number);
    for (char *c = pci; *c; c++) *c = (char)tolower(*c);
    if (BP_HAS(out, uuid)) memcpy(out->uuid, uuid, sizeof uuid);
    if (BP_HAS(out, pci)) memcpy(out->pci, pci, sizeof pci);
    if (BP_HAS(out, arch)) snprintf(out->arch, sizeof out->arch, "%s", device->arch);
}

/* Uses no context, because a context costs device memory and time. */
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
    BP_SET(out, dtypes, BP_MASK_ANY | BP_MASK_F8);
    BP_SET(out, alignment, 256);
    BP_SET(out, units, units_of(device));
    BP_SET(out, dlpack_type, gpu_target.dlpack_type);
    fill_hardware(device, out);
    return BP_OK;
}

#define WHERE_IS_NUMBER _Generic((GPU_WHERE){0}, int: true, default: false)

GPU_WHERE gpu_device_where(const struct gpu_device *device)
{
    return (GPU_WHERE)(WHERE_IS_NUMBER ? (uintptr_t)device->number : (uintptr_t)device->context);
}

static int device_context_get(const void *device, uintptr_t *out)
{
    GPU_WHERE current = 0;
    int code = ((const struct gpu_device *)device)->gpu->call.context_get(&current);

    *out = (uintptr_t)current;
    return code;
}

static int device_context_set(const void *device, uintptr_t context)
{
    return ((const struct gpu_device *)device)->gpu->call.context_set((GPU_WHERE)context);
}

static void device_context_warn(const void *device, int code)
{
    gpu_note(device, GPU_CALL_context_set, code);
}

/* Makes the device's context current. Returns 0, or the code of the driver's function that is
 * stored in `out`. */
static int device_enter(const struct gpu_device *device, struct kit_context *caller,
                        enum gpu_call *out)
{
    static const struct kit_contexts calls = {device_context_get, device_context_set,
                                              device_context_warn};
    enum kit_context_call call;
    int code = kit_context_enter(caller, &calls, device, (uintptr_t)gpu_device_where(device),
                                 &call);

    *out = call == KIT_CONTEXT_GET ? GPU_CALL_context_get : GPU_CALL_context_set;
    return code;
}

/* Makes waits sleep instead of spin, for the lifetime of the context. */
static void block_waits(const struct gpu_device *device, struct kit_context *caller)
{
    enum gpu_call call;
    int code;

    if (!device->gpu->call.context_flags) {
        bp_log(device->gpu->host, BP_LOG_WARN,
               GPU_NAME ":%u: the driver has no function %s: only waits for events sleep",
               device->index, gpu_target.symbol[GPU_CALL_context_flags]);
        return;
    }
    code = device_enter(device, caller, &call);
    if (!code) {
        call = GPU_CALL_context_flags;
        code = device->gpu->call.context_flags(GPU_WAITS_BLOCK);
    }
    gpu_note(device, call, code);
}

static enum bp_status device_open_device(struct gpu_device *device, struct kit_context *caller)
{
    void *context = NULL;

    TRY(GPU_CALL(device, context_retain, &context, device->number));
    device->units = units_of(device);
    device->context = context;
    if (device->gpu->blocks) block_waits(device, caller);
    atomic_store_explicit(&device->open, true, memory_order_release);
    return BP_OK;
}

enum bp_status gpu_device_use(struct gpu *gpu, uint32_t index, struct kit_context *caller,
                              struct gpu_device **out)
{
    enum gpu_call call;
    struct gpu_device *device = &gpu->device[index];
    enum bp_status status = BP_OK;

    if (__builtin_expect(!atomic_load_explicit(&device->open, memory_order_acquire), 0)) {
        pthread_mutex_lock(&device->lock);
        if (!device->open) status = device_open_device(device, caller);
        pthread_mutex_unlock(&device->lock);
    }
    if (status == BP_OK) {
        int code = device_enter(device, caller, &call);
        status = gpu_check(gpu, device, call, code);
    }
    if (status == BP_OK) *out = device;
    return status;
}

struct gpu_device *gpu_device_reuse(struct gpu *gpu, uint32_t index, struct kit_context *caller)
{
    struct gpu_device *device = &gpu->device[index];
    enum gpu_call call;
    int code = device_enter(device, caller, &call);

    gpu_note(device, call, code);
    return device;
}

/* If the calling thread itself is capturing a stream, it holds `whole` already, and the driver
 * refuses the wait. */
int gpu_device_wait(struct gpu_device *device)
{
    bool mine = pthread_mutex_lock(&device->whole) != 0;
    int code = device->gpu->call.context_synchronize();

    if (!mine) pthread_mutex_unlock(&device->whole);
    return code;
}

void gpu_device_close(struct gpu_device *device)
{
    KIT_CONTEXT caller = {NULL};

    if (!device->open) return;
    gpu_device_reuse(device->gpu, device->index, &caller);
    gpu_vendor_close(device);
#ifndef GPU_WITHOUT_KERNELS
    gpu_rtc_unload(device);
    gpu_modules_unload(device);
#endif
    kit_context_return(&caller); /* while the current context still exists */
    GPU_NOTE(device, context_release, device->number);
    device->open = false;
}
