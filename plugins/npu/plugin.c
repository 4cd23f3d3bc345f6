/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c: exports the tables of bp_npu.so, the plugin for Huawei's Ascend, and creates and
 * destroys instances. Start here; then npu.h and call.h. */
#include "npu.h"
#include "engine.h"

#include <stdlib.h>
#include <string.h>

static enum bp_status make_devices(struct npu *npu, uint32_t n)
{
    size_t size = n * sizeof *npu->device;

    npu->device = npu->host->allocate(npu->host->ctx, size, _Alignof(struct npu_device));
    if (!npu->device)
        return bp_fail(npu->host, BP_ERR_MEMORY, "npu: no memory for %u devices, %zu bytes", n,
                       size);
    memset(npu->device, 0, size);
    for (uint32_t i = 0; i < n; i++) {
        struct npu_device *device = &npu->device[i];
        device->npu = npu;
        device->index = i;
        device->report = (struct kit_report){npu->host, "npu", i};
        pthread_mutex_init(&device->lock, NULL);
        pthread_mutex_init(&device->streams.lock, NULL);
    }
    npu->n_device = n;
    return BP_OK;
}

static void npu_destroy(void *p)
{
    struct npu *npu = p;

    for (uint32_t i = 0; i < npu->n_device; i++) {
        npu_device_close(&npu->device[i]);
        pthread_mutex_destroy(&npu->device[i].lock);
        pthread_mutex_destroy(&npu->device[i].streams.lock);
    }
    if (npu->device)
        npu->host->release(npu->host->ctx, npu->device, npu->n_device * sizeof *npu->device);
    for (int i = 0; i < NPU_FUNCTION_LISTS; i++)
        for (struct npu_function *f = npu->function[i], *next; f; f = next) {
            next = f->next;
            free(f);
        }
    pthread_mutex_destroy(&npu->functions);
    npu->host->release(npu->host->ctx, npu, sizeof *npu);
}

/* Initialises CANN once for the process: the app, or another instance, may have done so. */
static enum bp_status plugin_start(struct npu *npu)
{
    char advice[KIT_ADVICE_SIZE];
    uint32_t n = 0;
    int code;

    kit_trace_begin("npu");
    TRY(npu_library_open(npu));
    code = npu->call->aclInit(NULL);
    if (code != NPU_REPEATED) TRY(npu_check(npu, NULL, "aclInit", code));
    TRY(npu_check(npu, NULL, "aclrtGetDeviceCount", npu->call->aclrtGetDeviceCount(&n)));
    if (!n)
        return bp_fail(npu->host, BP_ERR_ABSENT, "npu: no Ascend device%s%s",
                       kit_nodes_advice("npu", NPU_NODES, advice) ? ": " : "", advice);
    if (npu->call->aclrtGetVersion)
        TRY(npu_check(
            npu, NULL, "aclrtGetVersion",
            npu->call->aclrtGetVersion(&npu->version[0], &npu->version[1], &npu->version[2])));
    if (npu->version[0] > NPU_MAJOR)
        bp_log(npu->host, BP_LOG_WARN,
               "npu: AscendCL %d.%d.%d is newer than those that the plugin was written for (%d)",
               npu->version[0], npu->version[1], npu->version[2], NPU_MAJOR);
    npu->hf32 = kit_setting_is_on("npu", "HF32");
    TRY(make_devices(npu, n));
    snprintf(npu->product, sizeof npu->product, "%s", npu->call->aclrtGetSocName());
    return BP_OK;
}

static enum bp_status npu_create(const struct bp_host *host, void **out_self)
{
    struct npu *npu = host->allocate(host->ctx, sizeof *npu, _Alignof(struct npu));
    enum bp_status status;

    if (!npu) return bp_fail(host, BP_ERR_MEMORY, "npu: no memory, %zu bytes", sizeof *npu);
    *npu = (struct npu){.host = host};
    pthread_mutex_init(&npu->functions, NULL);
    status = plugin_start(npu);
    if (status) npu_destroy(npu);
    else *out_self = npu;
    return status;
}

static const struct bp_runtime runtime = {.size = sizeof runtime,
#define X(name) .name = npu_##name,
                                          NPU_CALLBACKS(X)
#undef X
};

static const struct bp_captures captures = {.size = sizeof captures,
#define X(name) .name = npu_##name,
                                            NPU_CAPTURES(X)
#undef X
};

static const struct bp_ccl ccl = {.size = sizeof ccl,
                                  .id_size = NPU_CCL_ID,
#define X(name) .name = npu_ccl_##name,
                                  NPU_CCL(X)
#undef X
};

static const struct bp_plugin plugin = {
    .size = sizeof plugin,
    .abi_major = BP_ABI_MAJOR,
    .abi_minor = BP_ABI_MINOR,
    .needs_minor = 10, /* layouts */
    .build = BP_BUILD_FLAGS,
    .name = NPU_NAME,
    .version = NPU_VERSION,
    .kind = "npu",
    .create = npu_create,
    .destroy = npu_destroy,
    .runtime = &runtime,
    .kernels = &npu_kernels,
    .captures = &captures,
    .ccl = &ccl,
    .engines = &npu_engines,
};

const struct bp_plugin *bp_plugin_get(void)
{
    return &plugin;
}
