/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c: defines the cpu plugin's table of callbacks, and creates and destroys an instance.
 * Start here. */
#include "cpu.h"
#include "kernels.h"
#include "library.h"

static enum bp_status cpu_create(const struct bp_host *host, void **out_self)
{
    struct cpu *self = host->allocate(host->ctx, sizeof *self, _Alignof(struct cpu));

    if (!self)
        return bp_fail(host, BP_ERR_MEMORY, "cpu: no memory for an instance, %zu bytes",
                       sizeof *self);
    *self = (struct cpu){.host = host, .packs_lock = PTHREAD_MUTEX_INITIALIZER};
    cpu_isa_detect(self);
    cpu_openblas_check(self);
#ifdef CPU_DNNL
    cpu_dnnl_check(self);
#endif
    cpu_openblas_choose_core(self);
    *out_self = self;
    return BP_OK;
}

static void cpu_destroy(void *p)
{
    struct cpu *self = p;

    pthread_mutex_destroy(&self->packs_lock);
    self->host->release(self->host->ctx, self, sizeof *self);
}

static const struct bp_runtime runtime = {
    .size = sizeof runtime,
    .device_count = cpu_device_count,
    .device_properties = cpu_device_properties,
    .memory_allocate = cpu_memory_allocate,
    .memory_free = cpu_memory_free,
    .copy_in = cpu_copy,
    .copy_out = cpu_copy,
    .copy_within = cpu_copy,
    .synchronize = cpu_synchronize,
    .memory_info = cpu_memory_info,
    .memory_export = cpu_memory_export,
    .memory_discard = cpu_memory_discard,
};

static const struct bp_plugin plugin = {
    .size = sizeof plugin,
    .abi_major = BP_ABI_MAJOR,
    .abi_minor = BP_ABI_MINOR,
    .build = BP_BUILD_FLAGS,
    .name = "cpu",
    .version = CPU_VERSION,
    .kind = "cpu",
    .create = cpu_create,
    .destroy = cpu_destroy,
    .runtime = &runtime,
    .kernels = &cpu_kernels,
    .stream_type = "cpu/1",
};

const struct bp_plugin *bp_plugin_get(void)
{
    return &plugin;
}
