/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c: exports the tables, and creates and destroys instances. Read next: device.c. */
#include "template.h"

/* A real plugin opens its driver here, and returns BP_ERR_ABSENT if there is none. */
static enum bp_status plugin_create(const struct bp_host *host, void **out_self)
{
    struct template_self *self = host->allocate(host->ctx, sizeof *self, _Alignof(max_align_t));

    if (!self) return bp_fail(host, BP_ERR_MEMORY, "template: no memory, %zu bytes", sizeof *self);
    *self = (struct template_self){.host = host};
    pthread_mutex_init(&self->lock, NULL);
    *out_self = self;
    return BP_OK;
}

static void plugin_destroy(void *instance)
{
    struct template_self *self = instance;

    pthread_mutex_destroy(&self->lock);
    self->host->release(self->host->ctx, self, sizeof *self);
}

static const struct bp_runtime runtime = {
    .size = sizeof runtime,
#define X(name) .name = template_##name,
    TEMPLATE_CALLBACKS(X)
#undef X
};

static const struct bp_plugin plugin = {
    .size = sizeof plugin, .abi_major = BP_ABI_MAJOR, .abi_minor = BP_ABI_MINOR,
    .build = BP_BUILD_FLAGS, .name = "template", .version = "0.1.0", .kind = "template",
    .create = plugin_create, .destroy = plugin_destroy, .runtime = &runtime,
    .kernels = &template_kernels, /*- graph */
    /*+ engine: .engines = &template_engines, */
    /*+ ccl: .ccl = &template_ccl, */
    /*+ profiler: .profiler = &template_profilers, */
};

const struct bp_plugin *bp_plugin_get(void)
{
    return &plugin;
}
