/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c: exports the tables, and creates and destroys instances. Read next: engine.c. */
#include "ipu.h"

#include <kit/library.h>
#include <stddef.h>
#include <string.h>

/* The setting BP_IPU_TARGET: which devices Poplar opens. */
static enum bp_status find_target(struct ipu *self)
{
    static const char *const names[] = {"hardware", "model", "cpu"};
    const char *wanted = kit_setting("ipu", "TARGET");

    if (!wanted) return BP_OK;
    for (uint32_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], wanted)) {
            self->target = i;
            return BP_OK;
        }
    return bp_fail(self->host, BP_ERR_DEVICE,
                   "ipu: BP_IPU_TARGET is '%s': expected hardware, model or cpu", wanted);
}

static void ipu_destroy(void *p)
{
    struct ipu *self = p;

    if (self->devices) self->call->bp_ipu_close(self->devices);
    self->host->release(self->host->ctx, self, sizeof *self);
}

static enum bp_status ipu_begin(struct ipu *self)
{
    kit_trace_begin("ipu");
    TRY(find_target(self));
    TRY(ipu_open(self->host, &self->call));
    TRY(IPU(self, -1, bp_ipu_open, self->target, &self->devices));
    self->n_device = self->call->bp_ipu_device_count(self->devices);
    if (self->n_device) return BP_OK;
    return bp_fail(self->host, BP_ERR_ABSENT,
                   "ipu: Poplar finds no IPU; BP_IPU_TARGET=model runs its model on the host");
}

static enum bp_status ipu_create(const struct bp_host *host, void **out_self)
{
    struct ipu *self = host->allocate(host->ctx, sizeof *self, _Alignof(max_align_t));
    enum bp_status status;

    if (!self) return bp_fail(host, BP_ERR_MEMORY, "ipu: no memory, %zu bytes", sizeof *self);
    *self = (struct ipu){.host = host};
    status = ipu_begin(self);
    if (status) ipu_destroy(self);
    else *out_self = self;
    return status;
}

static const struct bp_runtime runtime = {.size = sizeof runtime,
#define X(name) .name = ipu_##name,
                                          IPU_CALLBACKS(X)
#undef X
};

static const struct bp_plugin plugin = {
    .size = sizeof plugin,
    .abi_major = BP_ABI_MAJOR,
    .abi_minor = BP_ABI_MINOR,
    .build = BP_BUILD_FLAGS,
    .name = IPU_NAME,
    .version = IPU_VERSION,
    .kind = "ipu",
    .create = ipu_create,
    .destroy = ipu_destroy,
    .runtime = &runtime,
    .engines = &ipu_engines,
};

const struct bp_plugin *bp_plugin_get(void)
{
    return &plugin;
}
