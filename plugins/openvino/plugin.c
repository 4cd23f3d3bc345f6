/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c: exports the tables, and creates and destroys instances. Read next: engine.c. */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

static void find_version(struct openvino *self)
{
    struct ov_version version = {NULL, NULL};

    if (self->call->ov_get_openvino_version(&version)) return;
    snprintf(self->version, sizeof self->version, "%.*s",
             (int)strcspn(version.build ? version.build : "", "-"), version.build);
    self->call->ov_version_free(&version);
}

static void openvino_destroy(void *p)
{
    struct openvino *self = p;

    if (self->core) self->call->ov_core_free(self->core);
    pthread_mutex_destroy(&self->importing);
    self->host->release(self->host->ctx, self, sizeof *self);
}

static enum bp_status openvino_begin(struct openvino *self)
{
    kit_trace_begin("openvino");
    TRY(openvino_open(self->host, &self->call));
    TRY(OV(self, ov_core_create, &self->core));
    find_version(self);
    TRY(openvino_find_types(self));
    return openvino_find_devices(self);
}

static enum bp_status openvino_create(const struct bp_host *host, void **out_self)
{
    struct openvino *self = host->allocate(host->ctx, sizeof *self, _Alignof(max_align_t));
    enum bp_status status;

    if (!self) return bp_fail(host, BP_ERR_MEMORY, "openvino: no memory, %zu bytes", sizeof *self);
    *self = (struct openvino){.host = host, .importing = PTHREAD_MUTEX_INITIALIZER};
    status = openvino_begin(self);
    if (status) openvino_destroy(self);
    else *out_self = self;
    return status;
}

static const struct bp_runtime runtime = {.size = sizeof runtime,
#define X(name) .name = openvino_##name,
                                          OPENVINO_CALLBACKS(X)
#undef X
};

static const struct bp_plugin plugin = {
    .size = sizeof plugin,
    .abi_major = BP_ABI_MAJOR,
    .abi_minor = BP_ABI_MINOR,
    .build = BP_BUILD_FLAGS,
    .name = "openvino",
    .version = OPENVINO_VERSION,
    .kind = "openvino",
    .create = openvino_create,
    .destroy = openvino_destroy,
    .runtime = &runtime,
    .engines = &openvino_engines,
};

const struct bp_plugin *bp_plugin_get(void)
{
    return &plugin;
}
