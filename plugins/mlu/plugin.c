/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c: defines the plugin's table of callbacks, and creates and destroys an instance. Start
 * here. */
#include "ccl.h"
#include "cnnl.h"

static void mlu_destroy(void *p)
{
    struct mlu *self = p;

    mlu_meetings_finish(self);
    mlu_devices_finish(self);
    self->host->release(self->host->ctx, self, sizeof *self);
}

static enum bp_status mlu_begin(struct mlu *self)
{
    kit_trace_begin("mlu");
    TRY(mlu_library_open(self));
    return mlu_devices_init(self);
}

static enum bp_status mlu_create(const struct bp_host *host, void **out_self)
{
    struct mlu *self = host->allocate(host->ctx, sizeof *self, _Alignof(struct mlu));
    enum bp_status status;

    if (!self)
        return bp_fail(host, BP_ERR_MEMORY, "mlu: no memory for an instance, %zu bytes",
                       sizeof *self);
    *self = (struct mlu){.host = host};
    status = mlu_begin(self);
    if (status) mlu_destroy(self);
    else *out_self = self;
    return status;
}

static const struct bp_runtime runtime = {.size = sizeof runtime,
#define X(name, parameters) .name = mlu_##name,
                                          MLU_RUNTIME(X) MLU_RUNTIME_ENDS(X)
#undef X
};

static const struct bp_captures captures = {.size = sizeof captures,
#define X(name, parameters) .name = mlu_##name,
                                            MLU_CAPTURES(X) MLU_CAPTURE_ENDS(X)
#undef X
};

/* The plugin's name: tests build it under another one. */
#ifndef MLU_NAME
#define MLU_NAME "mlu"
#endif

static const struct bp_plugin plugin = {
    .size = sizeof plugin,
    .abi_major = BP_ABI_MAJOR,
    .abi_minor = BP_ABI_MINOR,
    .needs_minor = 5, /* BP_KERNEL_SAME_SHAPE */
    .build = BP_BUILD_FLAGS,
    .name = MLU_NAME,
    .version = MLU_VERSION,
    .kind = "mlu",
    .create = mlu_create,
    .destroy = mlu_destroy,
    .runtime = &runtime,
    .kernels = &mlu_kernels,
    .captures = &captures,
    .ccl = &mlu_ccl,
};

const struct bp_plugin *bp_plugin_get(void)
{
    return &plugin;
}
