/* SPDX-License-Identifier: Apache-2.0 */
/* device.c: finds the devices, reports their properties, and makes a device current in the calling
 * thread. */
#include "cnnl.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of attributes in cnrt.h. */
enum {
    ATTRIBUTE_MAJOR = 1,
    ATTRIBUTE_MINOR = 2,
    ATTRIBUTE_BF16 = 7,
    ATTRIBUTE_CLUSTERS = 0x205,
    ATTRIBUTE_CORES = 0x206, /* of a cluster */
    ATTRIBUTE_MEMORY = 0x405 /* MiB */
};

/* cnrtGetDeviceProperties_V3 writes a struct that begins with the name. Its size is about 600 bytes
 * in CNRT 6.14; newer releases may write more. */
enum {
    PROPERTIES = 8192
};

static int device_attribute(const struct mlu_device *d, int attribute)
{
    int value = 0, code = d->self->call->cnrtDeviceGetAttribute(&value, attribute, (int)d->number);

    mlu_note(d, "cnrtDeviceGetAttribute", code);
    return code || value < 0 ? 0 : value;
}

enum bp_status mlu_devices_init(struct mlu *self)
{
    size_t size;
    unsigned n = 0;
    char advice[KIT_ADVICE_SIZE];
    pthread_mutexattr_t attr;

    TRY(mlu_check(self, NULL, "cnrtGetDeviceCount", self->call->cnrtGetDeviceCount(&n)));
    if (!n)
        return bp_fail(self->host, BP_ERR_ABSENT, "mlu: the runtime finds no device%s%s",
                       kit_nodes_advice("mlu", MLU_NODES, advice) ? "; " : "", advice);
    size = n * sizeof *self->device;
    self->device = self->host->allocate(self->host->ctx, size, _Alignof(struct mlu_device));
    if (!self->device)
        return bp_fail(self->host, BP_ERR_MEMORY, "mlu: no memory for %u devices, %zu bytes", n,
                       size);
    memset(self->device, 0, size);
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
    for (unsigned i = 0; i < n; i++) {
        struct mlu_device *d = &self->device[i];
        d->self = self;
        d->number = i;
        d->report = (struct kit_report){self->host, "mlu", i};
        d->has_bf16 = device_attribute(d, ATTRIBUTE_BF16) > 0;
        pthread_mutex_init(&d->streams.lock, NULL);
        pthread_mutex_init(&d->planning, NULL);
        pthread_mutex_init(&d->whole, &attr);
    }
    pthread_mutexattr_destroy(&attr);
    self->n_device = n;
    return BP_OK;
}

void mlu_devices_finish(struct mlu *self)
{
    for (uint32_t i = 0; i < self->n_device; i++) {
        struct mlu_device *d = &self->device[i];
        mlu_cnnl_device_finish(d);
        pthread_mutex_destroy(&d->streams.lock);
        pthread_mutex_destroy(&d->planning);
        pthread_mutex_destroy(&d->whole);
    }
    if (self->device)
        self->host->release(self->host->ctx, self->device, self->n_device * sizeof *self->device);
}

enum bp_status mlu_device_count(void *self, uint32_t *out_count)
{
    *out_count = ((struct mlu *)self)->n_device;
    return BP_OK;
}

/* The runtime has no function for the name alone. A version without this function of properties has
 * one with another struct. */
static void device_name_of(const struct mlu_device *d, char *out, size_t size)
{
    const struct mlu_calls *call = d->self->call;
    void *properties = NULL;

    snprintf(out, size, "MLU");
    if (!call->cnrtGetDeviceProperties_V3) return;
    properties = calloc(1, PROPERTIES);
    if (!properties) return;
    if (call->cnrtGetDeviceProperties_V3(properties, (int)d->number) == MLU_SUCCESS)
        snprintf(out, size, "%.*s", (int)size - 1, (const char *)properties);
    free(properties);
}

enum bp_status mlu_device_properties(void *p, uint32_t device, struct bp_device_properties *out)
{
    struct mlu *self = p;
    struct mlu_device *d = &self->device[device];
    char pci[sizeof out->pci] = "";
    int major = device_attribute(d, ATTRIBUTE_MAJOR), minor = device_attribute(d, ATTRIBUTE_MINOR);

    device_name_of(d, out->name, sizeof out->name);
    snprintf(out->driver, sizeof out->driver, "CNRT %d.%d.%d", self->version[0], self->version[1],
             self->version[2]);
    BP_SET(out, memory, (uint64_t)device_attribute(d, ATTRIBUTE_MEMORY) << 20);
    BP_SET(out, dtypes, BP_MASK_ANY | BP_MASK_F8);
    BP_SET(out, alignment, 64);
    BP_SET(
        out, units,
        (uint32_t)(device_attribute(d, ATTRIBUTE_CLUSTERS) * device_attribute(d, ATTRIBUTE_CORES)));
    if (self->call->cnrtDeviceGetPCIBusId &&
        self->call->cnrtDeviceGetPCIBusId(pci, sizeof pci - 1, (int)device))
        *pci = 0;
    for (char *c = pci; *c; c++) *c = (char)tolower(*c);
    if (BP_HAS(out, pci)) memcpy(out->pci, pci, sizeof pci);
    if (BP_HAS(out, arch) && major > 0)
        snprintf(out->arch, sizeof out->arch, "mlu_%d%d", major, minor);
    BP_SET(out, images, BP_IMAGES_ROW_MAJOR);
    return BP_OK;
}

/* cnrtGetDevice returns 0 to a thread that has not called cnrtSetDevice. Whether other calls of
 * such a thread work is not known: so the first callback in a thread always calls cnrtSetDevice. */
enum {
    UNCHOSEN = 1 << 20
};
static _Thread_local bool device_is_chosen;

static int device_current(const void *p, uintptr_t *out)
{
    int device = 0, code = ((const struct mlu_device *)p)->self->call->cnrtGetDevice(&device);

    *out = (uintptr_t)device | (device_is_chosen ? 0 : UNCHOSEN);
    return code;
}

static int device_make_current(const void *p, uintptr_t device)
{
    const struct mlu_calls *call = ((const struct mlu_device *)p)->self->call;
    int code = call->cnrtSetDevice((int)(device & ~(uintptr_t)UNCHOSEN));

    if (code == MLU_SUCCESS) device_is_chosen = true;
    return code;
}

static void device_warn(const void *device, int code)
{
    mlu_note(device, "cnrtSetDevice", code);
}

/* Returns the code of the function whose name it stores in out. */
static int device_enter(const struct mlu_device *d, struct kit_context *caller, const char **out)
{
    static const struct kit_contexts calls = {device_current, device_make_current, device_warn};
    enum kit_context_call call;
    int code = kit_context_enter(caller, &calls, d, d->number, &call);

    *out = call == KIT_CONTEXT_GET ? "cnrtGetDevice" : "cnrtSetDevice";
    return code;
}

enum bp_status mlu_device_use(struct mlu *self, uint32_t device, struct kit_context *caller,
                              struct mlu_device **out)
{
    struct mlu_device *d = &self->device[device];
    const char *function;
    int code = device_enter(d, caller, &function);

    TRY(mlu_check(self, d, function, code));
    *out = d;
    return BP_OK;
}

struct mlu_device *mlu_device_reuse(struct mlu *self, uint32_t device, struct kit_context *caller)
{
    struct mlu_device *d = &self->device[device];
    const char *function;
    int code = device_enter(d, caller, &function);

    mlu_note(d, function, code);
    return d;
}
