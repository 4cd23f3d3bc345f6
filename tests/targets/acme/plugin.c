/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c: exports the tables of bp_acme.so, and creates and destroys instances. Read next:
 * device.c. */
#include "acme.h"

static void acme_destroy(void *p)
{
    struct acme *acme = p;
    const struct bp_host *host = acme->host;

    for (uint32_t i = 0; i < acme->n_device; i++)
        pthread_mutex_destroy(&acme->device[i].streams.lock);
    host->release(host->ctx, acme->device, acme->n_device * sizeof *acme->device);
    host->release(host->ctx, acme, sizeof *acme);
}

/* Fills the devices; acme->device has one at first, for messages. */
static enum bp_status plugin_start(struct acme *acme)
{
    const struct bp_host *host = acme->host;
    const struct acme_device none = {acme, {host, "acme", 0}, {.first = NULL}};
    int n = 0;

    kit_trace_begin("acme");
    TRY(acme_open(host, &acme->call));
    TRY(acme_check(&none, "acmeInit", acme->call->acmeInit()));
    TRY(ACME_CALL(&none, acmeDeviceCount, &n));
    if (!n) return bp_fail(host, BP_ERR_ABSENT, "acme: no device");
    acme->device = host->allocate(host->ctx, (size_t)n * sizeof *acme->device,
                                  _Alignof(struct acme_device));
    if (!acme->device) return bp_fail(host, BP_ERR_MEMORY, "acme: no memory for %d devices", n);
    acme->n_device = (uint32_t)n;
    for (uint32_t i = 0; i < acme->n_device; i++) {
        acme->device[i] = (struct acme_device){acme, {host, "acme", i}, {.first = NULL}};
        pthread_mutex_init(&acme->device[i].streams.lock, NULL);
    }
    return BP_OK;
}

static enum bp_status acme_create(const struct bp_host *host, void **out_self)
{
    struct acme *acme = host->allocate(host->ctx, sizeof *acme, _Alignof(struct acme));
    enum bp_status status;

    if (!acme) return bp_fail(host, BP_ERR_MEMORY, "acme: no memory, %zu bytes", sizeof *acme);
    *acme = (struct acme){.host = host};
    status = plugin_start(acme);
    if (status) host->release(host->ctx, acme, sizeof *acme);
    else *out_self = acme;
    return status;
}

static const struct bp_runtime runtime = {.size = sizeof runtime,
#define X(name) .name = acme_##name,
                                          ACME_CALLBACKS(X)
#undef X
};

static const struct bp_plugin plugin = {
    .size = sizeof plugin,
    .abi_major = BP_ABI_MAJOR,
    .abi_minor = BP_ABI_MINOR,
    .build = BP_BUILD_FLAGS,
    .name = "acme",
    .version = "0.1.0",
    .kind = "acme",
    .create = acme_create,
    .destroy = acme_destroy,
    .runtime = &runtime,
    .kernels = &acme_kernels,
};

const struct bp_plugin *bp_plugin_get(void)
{
    return &plugin;
}
