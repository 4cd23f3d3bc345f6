/* SPDX-License-Identifier: Apache-2.0 */
/* bench_kernel.c: calls a kernel row directly, without the core. The plugin's library is opened
 * again, by the path from which the core loaded it, and creates a separate instance for the
 * bench. */
#include <backplane/kernel.h>
#include <backplane/plugin.h>
#include "bench.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static void kernel_host_log(void *ctx, uint32_t level, const char *text)
{
    (void)ctx;
    (void)level;
    (void)text;
}

static enum bp_status kernel_host_fail(void *ctx, uint32_t status, const char *text)
{
    (void)ctx;
    (void)text;
    return status;
}

static void *kernel_host_allocate(void *ctx, size_t size, size_t alignment)
{
    void *memory;

    (void)ctx;
    if (alignment < sizeof(void *)) alignment = sizeof(void *);
    return posix_memalign(&memory, alignment, size ? size : 1) ? NULL : memory;
}

static void kernel_host_release(void *ctx, void *memory, size_t size)
{
    (void)ctx;
    (void)size;
    free(memory);
}

static const struct bp_host host = {
    .size = sizeof host,
    .abi_major = BP_ABI_MAJOR,
    .abi_minor = BP_ABI_MINOR,
    .log = kernel_host_log,
    .fail = kernel_host_fail,
    .allocate = kernel_host_allocate,
    .release = kernel_host_release,
};

static const struct bp_kernel *kernel_find(const struct bp_kernels *kernels, const char *name)
{
    for (size_t i = 0; kernels && i < kernels->count; i++) {
        const struct bp_kernel *row =
            (const void *)((const char *)kernels->first + i * kernels->stride);
        if (!strcmp(row->name, name)) return row;
    }
    return NULL;
}

static bool kernel_open_library(const char *path, const char *name, struct bench_kernel *out)
{
    const struct bp_plugin *(*get)(void);
    void *symbol;

    out->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    symbol = out->library ? dlsym(out->library, "bp_plugin_get") : NULL;
    if (symbol) {
        memcpy(&get, &symbol, sizeof get); /* C has no cast from an object pointer to a function
                                              pointer */
        out->plugin = get();
        out->row = kernel_find(out->plugin->kernels, name);
        if (out->row && !out->row->prepare && !out->plugin->create(&host, &out->self)) return true;
    }
    if (out->library) dlclose(out->library);
    return false;
}

static bool open_plugin(const struct bench *bench, const char *row, struct bench_kernel *out)
{
    const char *device = bp_device_name(bench->device);
    struct bp_device_properties p = {.size = sizeof p};
    struct bp_plugin_info info = {.size = sizeof info};
    size_t kind = strcspn(device, ":");

    if (bp_device_get_properties(bench->device, &p) || !(p.flags & BP_DEVICE_INLINE) ||
        !(p.flags & BP_DEVICE_HOST_VISIBLE))
        return false;
    for (uint32_t i = 0; i < bp_core_plugins(bench->core); i++)
        if (!bp_core_plugin(bench->core, i, &info) && info.state == BP_PLUGIN_READY &&
            strlen(info.kind) == kind && !strncmp(info.kind, device, kind) &&
            kernel_open_library(info.library, row, out))
            return true;
    return false;
}

static bool kernel_view(struct bp_tensor *tensor, struct bp_view *out)
{
    struct bp_tensor_info info = {.size = sizeof info};

    if (bp_tensor_get_info(tensor, &info) || !info.data) return false;
    *out = (struct bp_view){.data = info.data, .shape = info.shape, .stride = info.stride,
                            .count = info.count, .dtype = (uint8_t)info.dtype,
                            .rank = (uint8_t)info.rank, .space = (uint8_t)info.space};
    return true;
}

bool bench_kernel_open(const struct bench *bench, const char *row, struct bp_tensor *const *xyz,
                       struct bench_kernel *out)
{
    static const uint16_t at[3] = {0, 1, 2};
    const char *index = strchr(bp_device_name(bench->device), ':');

    for (int i = 0; i < 3; i++)
        if (!kernel_view(xyz[i], &out->view[i])) return false;
    if (!open_plugin(bench, row, out)) return false;
    out->in[0] = &out->view[0];
    out->in[1] = &out->view[1];
    out->out[0] = &out->view[2];
    out->launch = (struct bp_launch){
        .self = out->self, .kernel = out->row, .in = out->in, .out = out->out, .in_at = at,
        .out_at = at, .n_in = 2, .n_out = 1, .device = index ? (uint32_t)atoi(index + 1) : 0,
        .width = 1, .tag = 1};
    return true;
}

void bench_kernel_close(struct bench_kernel *kernel)
{
    if (!kernel->self) return;
    kernel->plugin->destroy(kernel->self);
    dlclose(kernel->library);
    kernel->self = NULL;
}

bool bench_kernel_run(void *ctx)
{
    struct bench_kernel *kernel = ctx;

    return kernel->row->launch(&kernel->launch) == BP_OK;
}
