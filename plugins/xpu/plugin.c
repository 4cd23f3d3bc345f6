/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c: defines the xpu plugin's table of callbacks, and creates and destroys an instance.
 * Start here. */
#include "xpu.h"

/* Drivers search for their devices in the first call that lists them, and some cannot do this in
 * several threads at the same time (PoCL 3.1 crashed, or found no device). So the instances of
 * several cores are created one after the other. */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

static enum bp_status plugin_make(const struct bp_host *host, struct xpu *self)
{
    const struct xpu_calls *call;

    kit_trace_begin("xpu");
    TRY(xpu_opencl_open(host, &call));
    *self = (struct xpu){.host = host, .call = call};
    return xpu_devices_init(self);
}

static enum bp_status xpu_create(const struct bp_host *host, void **out_self)
{
    struct xpu *self = host->allocate(host->ctx, sizeof *self, _Alignof(struct xpu));
    enum bp_status status;

    if (!self)
        return bp_fail(host, BP_ERR_MEMORY, "xpu: no memory for an instance, %zu bytes",
                       sizeof *self);
    pthread_mutex_lock(&making);
    status = plugin_make(host, self);
    pthread_mutex_unlock(&making);
    if (status) host->release(host->ctx, self, sizeof *self);
    else *out_self = self;
    return status;
}

static void xpu_destroy(void *p)
{
    struct xpu *self = p;

    xpu_devices_finish(self);
    self->host->release(self->host->ctx, self, sizeof *self);
}

static enum bp_status plugin_check(const struct xpu_device *d, const char *function, cl_int code,
                                   enum bp_status status)
{
    struct kit_call call = {d->self->host, "xpu", d->number, function, code, NULL};

    kit_call_trace(&call);
    return status ? kit_call_fail(&call, status, xpu_opencl_name(code), NULL) : BP_OK;
}

enum bp_status xpu_check(const struct xpu_device *d, const char *function, cl_int code)
{
    return plugin_check(d, function, code, code ? xpu_opencl_status(code) : BP_OK);
}

enum bp_status xpu_check_work(const struct xpu_device *d, const char *function, cl_int code)
{
    return plugin_check(d, function, code, code ? xpu_opencl_outcome(code) : BP_OK);
}

enum bp_status xpu_fail(const struct xpu_device *d, const char *function, cl_int code)
{
    return plugin_check(d, function, code, xpu_opencl_status(code));
}

static const struct bp_runtime runtime = {
    .size = sizeof runtime,
    .device_count = xpu_device_count,
    .device_properties = xpu_device_properties,
    .memory_allocate = xpu_memory_allocate,
    .memory_free = xpu_memory_free,
    .copy_in = xpu_copy_in,
    .copy_out = xpu_copy_out,
    .copy_within = xpu_copy_within,
    .synchronize = xpu_synchronize,
    .stream_create = xpu_stream_create,
    .stream_destroy = xpu_stream_destroy,
    .event_create = xpu_event_create,
    .event_destroy = xpu_event_destroy,
    .event_record = xpu_event_record,
    .event_query = xpu_event_query,
    .event_wait = xpu_event_wait,
    .stream_wait = xpu_stream_wait,
};

static const struct bp_plugin plugin = {
    .size = sizeof plugin,
    .abi_major = BP_ABI_MAJOR,
    .abi_minor = BP_ABI_MINOR,
    .build = BP_BUILD_FLAGS,
    .name = "xpu",
    .version = XPU_VERSION,
    .kind = "xpu",
    .create = xpu_create,
    .destroy = xpu_destroy,
    .runtime = &runtime,
    .kernels = &portable_rows,
    .profiler = &xpu_profilers,
};

const struct bp_plugin *bp_plugin_get(void)
{
    return &plugin;
}
