/* SPDX-License-Identifier: Apache-2.0 */
/* device.c: reports the properties of devices, opens them, and makes their contexts current. The
 * context is the device's default one, which aclrtSetDevice makes: threads of the app that use the
 * device have the same one. */
#include "npu.h"

#include <string.h>

enum bp_status npu_device_count(void *self, uint32_t *out_count)
{
    *out_count = ((struct npu *)self)->n_device;
    return BP_OK;
}

/* Products of the first generations have no bf16. */
bool npu_has_bf16(const struct npu *npu)
{
    static const char *const without[] = {"Ascend310", "Ascend910A", "Ascend910P"};

    for (size_t i = 0; i < sizeof without / sizeof *without; i++)
        if (!strncmp(npu->product, without[i], strlen(without[i]))) return false;
    return strcmp(npu->product, "Ascend910") != 0;
}

/* That a thread has no context is no failure: CANN's text about that is taken away, because it
 * would be read as that of a later failure. */
static int device_context_get(const void *p, uintptr_t *out)
{
    const struct npu_device *device = p;
    void *current = NULL;
    int code = device->npu->call->aclrtGetCurrentContext(&current);

    *out = (uintptr_t)current;
    if (code != NPU_CONTEXT_NULL) return code;
    if (device->npu->call->aclGetRecentErrMsg) device->npu->call->aclGetRecentErrMsg();
    return 0;
}

/* A thread that had no context keeps the device's: no call takes it away. A context from before a
 * reset no longer exists. */
static int device_context_set(const void *p, uintptr_t context)
{
    const struct npu_device *device = p;

    if (!context || (void *)context == device->former) return 0;
    return device->npu->call->aclrtSetCurrentContext((void *)context);
}

static void device_context_warn(const void *device, int code)
{
    npu_note((struct npu_device *)device, "aclrtSetCurrentContext", code);
}

static enum bp_status device_enter(struct npu_device *device, struct kit_context *caller)
{
    static const struct kit_contexts calls = {device_context_get, device_context_set,
                                              device_context_warn};
    enum kit_context_call call = KIT_CONTEXT_GET;
    int code = kit_context_enter(caller, &calls, device, (uintptr_t)device->context, &call);

    return npu_check(device->npu, device,
                     call == KIT_CONTEXT_GET ? "aclrtGetCurrentContext" : "aclrtSetCurrentContext",
                     code);
}

/* The first products have the largest number of f16 in place of infinity by default. The others may
 * refuse the call: they have infinities. */
static void device_set_infinities(const struct npu_device *device)
{
    const struct npu_calls *call = device->npu->call;

    if (!call->aclrtSetDeviceSatMode || strncmp(device->npu->product, "Ascend910A", 10)) return;
    if (call->aclrtSetDeviceSatMode(NPU_INFINITIES))
        bp_log(device->npu->host, BP_LOG_WARN,
               "npu:%u: f16 results that are too large are 65504 and not infinite", device->index);
}

/* aclrtSetDevice changes the context of the thread, which the caller gets back. */
static enum bp_status device_open(struct npu_device *device)
{
    uintptr_t before = 0;
    enum bp_status status;

    TRY(npu_check(device->npu, device, "aclrtGetCurrentContext",
                  device_context_get(device, &before)));
    TRY(NPU_CALL(device, aclrtSetDevice, (int32_t)device->index));
    status = NPU_CALL(device, aclrtGetCurrentContext, &device->context);
    if (!status) device_set_infinities(device);
    if (before) NPU_NOTE(device, aclrtSetCurrentContext, (void *)before);
    if (!status) atomic_store_explicit(&device->open, true, memory_order_release);
    return status;
}

/* Resets the device if the app's threads do not use it too, or if it is lost. */
static void device_reset(struct npu_device *device)
{
    if (device->lost && device->npu->call->aclrtResetDeviceForce)
        NPU_NOTE(device, aclrtResetDeviceForce, (int32_t)device->index);
    else NPU_NOTE(device, aclrtResetDevice, (int32_t)device->index);
    device->former = device->context;
    device->open = false;
}

/* Opens the device; one that is lost is opened again when nothing is left of it. */
static enum bp_status device_begin(struct npu_device *device)
{
    enum bp_status status = BP_OK;

    pthread_mutex_lock(&device->lock);
    if (device->open && device->lost && !kit_streams_exist(&device->streams)) device_reset(device);
    if (!device->open) {
        atomic_store(&device->lost, false);
        status = device_open(device);
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

static bool device_is_ready(const struct npu_device *device)
{
    return atomic_load_explicit(&device->open, memory_order_acquire) &&
           !atomic_load_explicit(&device->lost, memory_order_relaxed);
}

enum bp_status npu_device_use(struct npu *npu, uint32_t index, struct kit_context *caller,
                              struct npu_device **out)
{
    struct npu_device *device = &npu->device[index];

    if (__builtin_expect(!device_is_ready(device), 0)) TRY(device_begin(device));
    *out = device;
    return device_enter(device, caller);
}

struct npu_device *npu_device_reuse(struct npu *npu, uint32_t index, struct kit_context *caller)
{
    static const struct kit_contexts calls = {device_context_get, device_context_set,
                                              device_context_warn};
    struct npu_device *device = &npu->device[index];
    enum kit_context_call call = KIT_CONTEXT_GET;
    int code = kit_context_enter(caller, &calls, device, (uintptr_t)device->context, &call);

    npu_note(device, "aclrtSetCurrentContext", code);
    return device;
}

void npu_device_close(struct npu_device *device)
{
    if (!device->open) return;
    device_reset(device);
}

/* The memory of a device: HBM, or DDR where it has none. */
static enum bp_status device_memory(struct npu_device *device, size_t *out_free, size_t *out_total)
{
    TRY(NPU_CALL(device, aclrtGetMemInfo, NPU_HBM, out_free, out_total));
    if (*out_total) return BP_OK;
    return NPU_CALL(device, aclrtGetMemInfo, 1 - NPU_HBM, out_free, out_total);
}

enum bp_status npu_memory_info(void *self, uint32_t index, uint64_t *out_free, uint64_t *out_total)
{
    size_t free_bytes = 0, total = 0;
    KIT_CONTEXT caller = {NULL};
    struct npu_device *device;

    TRY(npu_device_use(self, index, &caller, &device));
    TRY(device_memory(device, &free_bytes, &total));
    *out_free = free_bytes;
    *out_total = total;
    return BP_OK;
}

enum bp_status npu_device_properties(void *self, uint32_t index, struct bp_device_properties *out)
{
    struct npu *npu = self;
    size_t free_bytes = 0, total = 0;
    KIT_CONTEXT caller = {NULL};
    struct npu_device *device;
    int64_t cores = 0;

    TRY(npu_device_use(npu, index, &caller, &device));
    TRY(device_memory(device, &free_bytes, &total));
    if (npu->call->aclGetDeviceCapability)
        NPU_NOTE(device, aclGetDeviceCapability, index, NPU_AI_CORES, &cores);
    snprintf(out->name, sizeof out->name, "%s", npu->product);
    snprintf(out->driver, sizeof out->driver, "AscendCL %d.%d.%d", npu->version[0], npu->version[1],
             npu->version[2]);
    BP_SET(out, memory, total);
    BP_SET(out, dtypes, (BP_MASK_ANY | BP_MASK_F8) & ~(npu_has_bf16(npu) ? 0 : BP_M(BF16)));
    BP_SET(out, alignment, NPU_ALIGNMENT);
    BP_SET(out, units, cores > 0 ? (uint32_t)cores : 0);
    if (BP_HAS(out, arch)) snprintf(out->arch, sizeof out->arch, "%s", npu->product);
    BP_SET(out, images, BP_IMAGES_ROW_MAJOR);
    return BP_OK;
}
