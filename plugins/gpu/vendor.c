/* SPDX-License-Identifier: Apache-2.0 */
/* vendor.c: finds and opens the vendors' libraries and manages their handles; see vendor.h. */
#include "vendor.h"
#include <inttypes.h>
#include <string.h>

static struct gpu_vendor *const vendors[] = {
#ifdef GPU_CUBLASLT
    &gpu_cublaslt,
#endif
#ifdef GPU_HIPBLASLT
    &gpu_hipblaslt,
#endif
#ifdef GPU_CUDNN
    &gpu_cudnn,
#endif
#ifdef GPU_ROCBLAS
    &gpu_rocblas,
#endif
#ifdef GPU_XBLAS
    &gpu_xblas,
#endif
#ifdef GPU_NVRTC
    &gpu_nvrtc,
#endif
#ifdef GPU_HIPRTC
    &gpu_hiprtc,
#endif
};

/* A copy of the library that the process has already loaded comes first: with two copies of cuDNN
 * in one process, as PyTorch's and another, each might load parts of the other. */
static struct kit_wanted wanted_of(const struct gpu_vendor *vendor)
{
    static const enum kit_place place[] = {KIT_LOADED, KIT_PATH, KIT_FOLDERS, KIT_LOADER,
                                           KIT_PLACES};

    return (struct kit_wanted){GPU_NAME, vendor->name, gpu_target.vendor[vendor->id],
                               gpu_target.folders, place};
}

/* Each kernel row of the library calls this function. The search runs once, unless a setting names
 * the file. */
static bool is_there(struct gpu *gpu, const struct gpu_vendor *vendor)
{
    const struct kit_wanted wanted = wanted_of(vendor);
    bool set = kit_setting(GPU_NAME, vendor->name) != NULL, there;
    uint32_t bit = UINT32_C(1) << vendor->id;
    char why[KIT_WHY_SIZE];
    struct kit_found found;

    if (!set && gpu->sought & bit) return gpu->there & bit;
    there = kit_library_find(&wanted, &found, why) == BP_OK;
    if (!set) gpu->sought |= bit;
    if (!set && there) gpu->there |= bit;
    return there;
}

static enum bp_status vendor_usable(struct gpu *gpu, const struct gpu_vendor *vendor,
                                    const char *row)
{
    char name[KIT_SETTING_SIZE];

    if (is_there(gpu, vendor)) return BP_OK;
    kit_setting_name(name, GPU_NAME, vendor->name);
    return bp_fail(gpu->host, BP_ERR_UNSUPPORTED,
                   "%s: there is no library %s (%s, in LD_LIBRARY_PATH, where it is put usually, "
                   "or where the loader looks); install it, or set %s to its absolute path",
                   row, vendor->name, gpu_target.vendor[vendor->id][0], name);
}

/* The library of a row, or NULL. */
static const struct gpu_vendor *vendor_of(const struct bp_kernel *row)
{
    const char *last = strrchr(row->name, '_');

    for (size_t i = 0; row->priority && i < sizeof vendors / sizeof *vendors; i++)
        if (!strcasecmp(last + 1, vendors[i]->name)) return vendors[i];
    return NULL;
}

bool gpu_vendor_has(struct gpu *gpu, const struct bp_kernel *row)
{
    const struct gpu_vendor *vendor = vendor_of(row);

    return vendor && is_there(gpu, vendor);
}

/* Whether the setting is set without which a library's row does not exist. */
static enum bp_status is_allowed(const struct gpu *gpu, const struct bp_kernel *row)
{
    static const struct {
        const char *op, *setting, *why;
    } wanted[] = {
        {"attention", "FLASH", "it rounds the weights to the half type"},
        {"batch_norm", "NORMS", "it may be slower than the portable kernel"},
        {"layer_norm", "NORMS", "it may be slower than the portable kernel"},
        {"rms_norm", "NORMS", "it may be slower than the portable kernel"},
    };
    char name[KIT_SETTING_SIZE];

    for (size_t i = 0; row->priority && i < sizeof wanted / sizeof *wanted; i++) {
        if (strcmp(row->op, wanted[i].op) != 0 || kit_setting_is_on(GPU_NAME, wanted[i].setting))
            continue;
        kit_setting_name(name, GPU_NAME, wanted[i].setting);
        return bp_fail(gpu->host, BP_ERR_UNSUPPORTED, "%s: %s; %s=1 allows that", row->name,
                       wanted[i].why, name);
    }
    return BP_OK;
}

enum bp_status portable_usable(void *self, const struct bp_kernel *row)
{
    const struct gpu_vendor *vendor = vendor_of(row);

    TRY(is_allowed(self, row));
    if (vendor) return vendor_usable(self, vendor, row->name);
    if (strcmp(row->op, "fused_conv") != 0) return BP_OK;
    return bp_fail(((struct gpu *)self)->host, BP_ERR_UNSUPPORTED,
                   "%s: it is for processors; a GPU computes its parts faster", row->name);
}

bool gpu_vendor_open(struct gpu_vendor *vendor)
{
    const struct kit_wanted wanted = wanted_of(vendor);

    return kit_library_load(&vendor->library, &wanted) == BP_OK;
}

void gpu_vendor_report(const struct gpu *gpu, struct gpu_vendor *vendor, uint64_t version)
{
    char number[40] = "";

    if (atomic_exchange(&vendor->reported, true)) return;
    if (vendor->library.status) {
        bp_log(gpu->host, BP_LOG_WARN, GPU_NAME ": %s: %s: its rows are passed over", vendor->name,
               vendor->library.why);
        return;
    }
    if (vendor->version) version = vendor->version();
    if (version) snprintf(number, sizeof number, "version %" PRIu64 ", ", version);
    bp_log(gpu->host, BP_LOG_INFO, GPU_NAME ": %s: %s%s", vendor->name, number,
           vendor->library.path);
}

static void drop_handle(const struct gpu_device *device, const struct gpu_vendor *vendor,
                        void *handle)
{
    gpu_vendor_good(device, vendor, vendor->library.symbol[1].name, vendor->calls->destroy(handle));
}

/* Sets up a handle (NULL: creates one) for a stream of the driver, or for no stream (NULL). Returns
 * 0, or the code of the function whose name is stored in out_function. While a handle is created,
 * the lock `whole` keeps captures from beginning. */
static int make_handle(struct gpu_device *device, const struct gpu_vendor *vendor, void *handle,
                       void *raw_stream, void **out_handle, const char **out_function)
{
    bool alone = !handle && !pthread_mutex_trylock(&device->whole);
    int code = handle ? 0 : vendor->calls->create(&handle);

    if (alone) pthread_mutex_unlock(&device->whole);
    *out_function = vendor->library.symbol[0].name;
    if (code) return code;
    if (vendor->set_up) code = vendor->set_up(handle, raw_stream, out_function);
    if (code) drop_handle(device, vendor, handle);
    else *out_handle = handle;
    return code;
}

/* Returns the device's handle, which is created when it is first needed. Under the device's lock
 * `loading`. A failure is remembered and creation is not tried again, unless an open capture
 * prevented it. */
static void *device_handle(struct gpu_device *device, struct gpu_vendor *vendor)
{
    void **handle = &device->vendor[vendor->id];
    const char *function;
    int code;

    if (*handle || device->vendor_failed[vendor->id]) return *handle;
    if (vendor->for_streams && atomic_load(&device->captured)) {
        bp_log(device->gpu->host, BP_LOG_INFO,
               GPU_NAME ":%u: %s is passed over: it cannot be begun while a stream is captured",
               device->index, vendor->name);
        return NULL;
    }
    code = make_handle(device, vendor, NULL, NULL, handle, &function);
    device->vendor_failed[vendor->id] = !gpu_vendor_good(device, vendor, function, code);
    return *handle;
}

enum bp_status gpu_vendor_enter(struct gpu *gpu, uint32_t index, struct gpu_vendor *vendor,
                                struct kit_context *caller, struct gpu_device **out,
                                void **out_handle)
{
    struct gpu_device *device;
    bool opened = gpu_vendor_open(vendor);

    gpu_vendor_report(gpu, vendor, 0);
    if (!opened) return BP_ERR_UNSUPPORTED;
    TRY(gpu_device_use(gpu, index, caller, &device));
    pthread_mutex_lock(&device->loading);
    *out_handle = device_handle(device, vendor);
    pthread_mutex_unlock(&device->loading);
    *out = device;
    return *out_handle ? BP_OK : BP_ERR_UNSUPPORTED;
}

/* Creates a spare handle of the device, if the device uses the library. */
static void vendor_provide(struct gpu_device *device, const struct gpu_vendor *vendor)
{
    const char *function;
    void *handle;
    int code;

    pthread_mutex_lock(&device->loading);
    if (device->vendor[vendor->id] && !atomic_load(&device->spare[vendor->id])) {
        code = make_handle(device, vendor, NULL, NULL, &handle, &function);
        if (gpu_vendor_good(device, vendor, function, code))
            atomic_store(&device->spare[vendor->id], handle);
    }
    pthread_mutex_unlock(&device->loading);
}

void gpu_vendor_provide(struct gpu_stream *stream)
{
    bool has[GPU_VENDORS];

    if (atomic_load(&stream->device->captured)) return;
    pthread_mutex_lock(&stream->kit.lock);
    for (int i = 0; i < GPU_VENDORS; i++) has[i] = stream->vendor[i];
    pthread_mutex_unlock(&stream->kit.lock);
    for (size_t i = 0; i < sizeof vendors / sizeof *vendors; i++)
        if (vendors[i]->for_streams && !has[vendors[i]->id])
            vendor_provide(stream->device, vendors[i]);
}

enum bp_status gpu_vendor_handle(struct gpu_stream *stream, struct gpu_vendor *vendor,
                                 void **out_handle)
{
    void **handle = &stream->vendor[vendor->id], *spare;
    struct gpu_device *device = stream->device;
    const char *function;
    int code = 0;

    if (!*handle) {
        spare = stream->kit.captured ? atomic_exchange(&device->spare[vendor->id], NULL) : NULL;
        code = make_handle(device, vendor, spare, stream->raw, handle, &function);
        TRY(gpu_vendor_check(device, vendor, function, code));
    }
    *out_handle = *handle;
    return BP_OK;
}

enum bp_status gpu_vendor_check(const struct gpu_device *device, const struct gpu_vendor *vendor,
                                const char *function, int code)
{
    struct kit_call call;
    size_t unused[2];

    if (__builtin_expect(code == 0 && !kit_is_traced(), 1)) return BP_OK;
    call = gpu_call_made(device->gpu, device, function, code);
    if (code == 0) return BP_OK;
    TRY(GPU_CALL(device, memory_info, &unused[0], &unused[1]));
    return kit_call_fail(&call, BP_ERR_DEVICE, vendor->calls->text(code), NULL);
}

bool gpu_vendor_good(const struct gpu_device *device, const struct gpu_vendor *vendor,
                     const char *function, int code)
{
    struct kit_call call = gpu_call_made(device->gpu, device, function, code);

    if (code != 0) kit_call_warn(&call, vendor->calls->text(code));
    return code == 0;
}

void gpu_vendor_finish(const struct gpu_device *device, void *handle[GPU_VENDORS])
{
    for (size_t i = 0; i < sizeof vendors / sizeof *vendors; i++)
        if (handle[vendors[i]->id]) drop_handle(device, vendors[i], handle[vendors[i]->id]);
}

void gpu_vendor_close(struct gpu_device *device)
{
    for (size_t i = 0; i < sizeof vendors / sizeof *vendors; i++) { /* first the state that uses the
                                                                       handles */
        void *spare = atomic_exchange(&device->spare[vendors[i]->id], NULL);
        if (vendors[i]->forget) vendors[i]->forget(device);
        if (spare) drop_handle(device, vendors[i], spare);
    }
    gpu_vendor_finish(device, device->vendor);
}

void *gpu_vendor_keep(const struct gpu_device *device, const struct gpu_vendor *vendor,
                      const void *made, size_t size)
{
    const struct bp_host *host = device->gpu->host;
    void *plan = host->allocate(host->ctx, size, _Alignof(max_align_t));

    if (plan) return memcpy(plan, made, size);
    bp_fail(host, BP_ERR_MEMORY, GPU_NAME ":%u: no memory for a plan of %s, %zu bytes",
            device->index, vendor->name, size);
    return NULL;
}

void gpu_vendor_drop(const void *self, void *plan, size_t size)
{
    const struct bp_host *host = ((const struct gpu *)self)->host;

    host->release(host->ctx, plan, size);
}

enum bp_status gpu_vendor_run(const struct bp_launch *launch,
                              enum bp_status (*run)(const struct bp_launch *launch))
{
    struct gpu_stream *stream = launch->stream;
    KIT_CONTEXT caller = {NULL};
    struct gpu_device *device;
    enum bp_status status;

    TRY(gpu_device_use(launch->self, launch->device, &caller, &device));
    pthread_mutex_lock(&stream->kit.lock);
    status = run(launch);
    pthread_mutex_unlock(&stream->kit.lock);
    return status;
}

bool gpu_vendor_tf32(void)
{
    return kit_setting_is_on(GPU_NAME, "TF32");
}
