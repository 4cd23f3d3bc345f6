/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c: defines the plugin's table of callbacks, and creates and destroys an instance. Start
 * here. */
#include "gpu.h"
#include "profile.h"
#include <kit/library.h>
#include <string.h>

static enum bp_status make_devices(struct gpu *gpu, int n)
{
    size_t size = (size_t)n * sizeof *gpu->device;
    pthread_mutexattr_t attr;

    gpu->device = gpu->host->allocate(gpu->host->ctx, size, _Alignof(struct gpu_device));
    if (!gpu->device)
        return bp_fail(gpu->host, BP_ERR_MEMORY, GPU_NAME ": no memory for %d devices, %zu bytes",
                       n, size);
    memset(gpu->device, 0, size);
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
    for (int i = 0; i < n; i++) {
        struct gpu_device *device = &gpu->device[i];
        device->gpu = gpu;
        device->index = (uint32_t)i;
        device->report = (struct kit_report){gpu->host, GPU_NAME, device->index};
        pthread_mutex_init(&device->streams.lock, NULL);
        pthread_mutex_init(&device->lock, NULL);
        pthread_mutex_init(&device->loading, NULL);
        pthread_mutex_init(&device->compiling, NULL);
        pthread_mutex_init(&device->whole, &attr);
    }
    pthread_mutexattr_destroy(&attr);
    gpu->n_found = (uint32_t)n;
    return BP_OK;
}

static void plugin_destroy(void *p)
{
    struct gpu *gpu = p;

    for (uint32_t i = 0; i < gpu->n_found; i++) {
        gpu_device_close(&gpu->device[i]);
        pthread_mutex_destroy(&gpu->device[i].streams.lock);
        pthread_mutex_destroy(&gpu->device[i].lock);
        pthread_mutex_destroy(&gpu->device[i].loading);
        pthread_mutex_destroy(&gpu->device[i].compiling);
        pthread_mutex_destroy(&gpu->device[i].whole);
    }
    if (gpu->device)
        gpu->host->release(gpu->host->ctx, gpu->device, gpu->n_found * sizeof *gpu->device);
    gpu->host->release(gpu->host->ctx, gpu, sizeof *gpu);
}

/* Whether BP_<PLUGIN>_WAIT is "block". */
static bool plugin_blocks(const struct gpu *gpu)
{
    const char *given = kit_setting(GPU_NAME, "WAIT");
    char name[KIT_SETTING_SIZE];

    if (!given || !strcmp(given, "spin")) return false;
    if (!strcmp(given, "block")) return true;
    kit_setting_name(name, GPU_NAME, "WAIT");
    bp_log(gpu->host, BP_LOG_WARN, GPU_NAME ": %s is '%s': expected block or spin", name, given);
    return false;
}

enum { REASON = 256 };

/* Adds the driver's device i to the list if it can run the architectures of the images; otherwise
 * writes the reason and logs it. */
static enum bp_status take_device(struct gpu *gpu, int i, char reason[REASON])
{
    struct gpu_device *device = &gpu->device[gpu->n_device];
    char name[64] = "";

    TRY(GPU_CALL(device, device_get, &device->number, i));
    gpu_device_identify(device);
    if (gpu_arch_fits(device->arch, gpu_target.targets)) {
        gpu->n_device++;
        return BP_OK;
    }
    GPU_NOTE(device, device_name, name, sizeof name - 1, device->number);
    snprintf(reason, REASON, "the driver's device %d, %s, is %s, and kernels are compiled for %s",
             i, name, device->arch, gpu_target.targets);
    bp_log(gpu->host, BP_LOG_WARN, GPU_NAME ": %s: it is left out", reason);
    return BP_OK;
}

static enum bp_status plugin_start(struct gpu *gpu)
{
    struct gpu_calls *call = &gpu->call;
    char reason[REASON] = "", advice[KIT_ADVICE_SIZE];
    int n = 0;

    kit_trace_begin(GPU_NAME);
    gpu->blocks = plugin_blocks(gpu);
    TRY(gpu_library_open(gpu));
    TRY(gpu_check(gpu, NULL, GPU_CALL_initialise, call->initialise(0)));
    TRY(gpu_check(gpu, NULL, GPU_CALL_driver_version, call->driver_version(&gpu->version)));
    TRY(gpu_check(gpu, NULL, GPU_CALL_device_count, call->device_count(&n)));
    if (n < 1)
        return bp_fail(gpu->host, BP_ERR_ABSENT, GPU_NAME ": %s%s%s", gpu_target.no_device,
                       kit_nodes_advice(GPU_NAME, gpu_target.nodes, advice) ? "; " : "", advice);
    TRY(make_devices(gpu, n));
    for (int i = 0; i < n; i++) TRY(take_device(gpu, i, reason));
    if (!gpu->n_device)
        return bp_fail(gpu->host, BP_ERR_ABSENT, GPU_NAME ": no device that has kernels: %s",
                       reason);
    return BP_OK;
}

/* plugin_destroy does not close the driver's library, because the driver's threads may still run
 * its code. */
static enum bp_status plugin_create(const struct bp_host *host, void **out_self)
{
    struct gpu *gpu = host->allocate(host->ctx, sizeof *gpu, _Alignof(struct gpu));
    enum bp_status status;

    if (!gpu)
        return bp_fail(host, BP_ERR_MEMORY, GPU_NAME ": no memory for an instance, %zu bytes",
                       sizeof *gpu);
    *gpu = (struct gpu){.host = host};
    status = plugin_start(gpu);
    if (status == BP_OK) *out_self = gpu;
    else plugin_destroy(gpu);
    return status;
}

static const struct bp_runtime runtime = {
    .size = sizeof runtime,
#define X(name) .name = gpu_##name,
    GPU_CALLBACKS(X)
#undef X
};

static const struct bp_captures captures = {
    .size = sizeof captures,
#define X(name) .name = gpu_##name,
    GPU_GRAPHS(X)
#undef X
};

#ifndef GPU_WITHOUT_CCL
static const struct bp_ccl ccl = {
    .size = sizeof ccl,
#define X(name) .name = gpu_ccl_##name,
    GPU_CCL_CALLBACKS(X)
#undef X
};
#endif

static const struct bp_plugin plugin = {
    .size = sizeof plugin,
    .abi_major = BP_ABI_MAJOR,
    .abi_minor = BP_ABI_MINOR,
    .build = BP_BUILD_FLAGS,
    .name = GPU_NAME,
    .version = GPU_VERSION,
    .kind = GPU_NAME,
    .create = plugin_create,
    .destroy = plugin_destroy,
    .runtime = &runtime,
    .kernels = &portable_rows,
    .captures = &captures,
#ifndef GPU_WITHOUT_CCL
    .ccl = &ccl,
#endif
#ifdef GPU_PROFILER
    .profiler = &gpu_profilers,
#endif
};

const struct bp_plugin *bp_plugin_get(void)
{
    return &plugin;
}
