/* SPDX-License-Identifier: Apache-2.0 */
/* device.c: reports the properties of devices, makes them current, allocates and frees their
 * memory, and copies in stream order. Read next: stream.c. */
#include "acme.h"
#include <inttypes.h>
#include <stdio.h>

static int device_get(const void *p, uintptr_t *out)
{
    int index = 0, code = ((const struct acme_device *)p)->acme->call->acmeGetDevice(&index);

    *out = (uintptr_t)index;
    return code;
}

static int device_set(const void *p, uintptr_t index)
{
    return ((const struct acme_device *)p)->acme->call->acmeSetDevice((int)index);
}

static void device_warn(const void *device, int code)
{
    acme_note(device, "acmeSetDevice", code);
}

enum bp_status acme_use(void *self, uint32_t index, struct kit_context *caller,
                        struct acme_device **out)
{
    static const struct kit_contexts calls = {device_get, device_set, device_warn};
    struct acme_device *device = &((struct acme *)self)->device[index];
    enum kit_context_call call = KIT_CONTEXT_GET;
    int code = kit_context_enter(caller, &calls, device, index, &call);

    *out = device;
    return acme_check(device, call == KIT_CONTEXT_GET ? "acmeGetDevice" : "acmeSetDevice", code);
}

enum bp_status acme_device_count(void *self, uint32_t *out_count)
{
    *out_count = ((struct acme *)self)->n_device;
    return BP_OK;
}

enum bp_status acme_memory_info(void *self, uint32_t index, uint64_t *out_free, uint64_t *out_total)
{
    KIT_CONTEXT caller = {NULL};
    struct acme_device *device;
    size_t left = 0, total = 0;

    TRY(acme_use(self, index, &caller, &device));
    TRY(ACME_CALL(device, acmeMemoryInfo, &left, &total));
    *out_free = left;
    *out_total = total;
    return BP_OK;
}

enum bp_status acme_device_properties(void *self, uint32_t index, struct bp_device_properties *out)
{
    struct acme_device *device = &((struct acme *)self)->device[index];
    uint64_t left = 0, total = 0;

    TRY(acme_memory_info(self, index, &left, &total));
    TRY(ACME_CALL(device, acmeDeviceName, (int)index, out->name, sizeof out->name));
    snprintf(out->driver, sizeof out->driver, "libacme.so.2");
    BP_SET(out, memory, total);
    BP_SET(out, dtypes, BP_MASK_ANY | BP_MASK_F8); /* memory holds bytes of any dtype */
    BP_SET(out, alignment, ACME_ALIGNMENT);
    return BP_OK;
}

/* Acme's operators use memory of the device alone. */
enum bp_status acme_memory_allocate(void *self, uint32_t index, uint32_t space, uint64_t size,
                                    struct bp_memory *out)
{
    const struct bp_host *host = ((struct acme *)self)->host;
    uint64_t left = 0, total = 0;
    KIT_CONTEXT caller = {NULL};
    struct acme_device *device;
    enum bp_status status;
    void *data = NULL;

    if (space != BP_SPACE_DEVICE)
        return bp_fail(host, BP_ERR_UNSUPPORTED, "acme:%u: no space %u", index, space);
    TRY(acme_use(self, index, &caller, &device));
    status = ACME_CALL(device, acmeMalloc, &data, size);
    if (status == BP_ERR_MEMORY && !acme_memory_info(self, index, &left, &total))
        bp_fail(host, status,
                "acme:%u: %" PRIu64 " bytes were requested, %" PRIu64 " of %" PRIu64 " are free",
                index, size, left, total);
    if (!status) *out = (struct bp_memory){.data = data};
    return status;
}

void acme_memory_free(void *self, uint32_t index, uint32_t space, const struct bp_memory *memory)
{
    KIT_CONTEXT caller = {NULL};
    struct acme_device *device;

    (void)space;
    if (!acme_use(self, index, &caller, &device)) ACME_NOTE(device, acmeFree, memory->data);
}

static enum bp_status device_copy(void *self, uint32_t index, void *stream, const struct bp_copy *c,
                                  int kind)
{
    KIT_CONTEXT caller = {NULL};
    struct acme_device *device;

    TRY(acme_use(self, index, &caller, &device));
    return ACME_CALL(device, acmeCopyAsync, c->dst, c->src, c->size, kind,
                     ((struct acme_stream *)stream)->raw);
}

/* Acme reads pageable memory when the copy runs; runtime.h wants it to be read on return. The wait
 * does not report failures of earlier work, which belong to later calls: kit/staging.h avoids it
 * for small copies. */
enum bp_status acme_copy_in(void *self, uint32_t index, void *stream, const struct bp_copy *c)
{
    KIT_CONTEXT caller = {NULL};
    struct acme_device *device;

    TRY(device_copy(self, index, stream, c, ACME_TO_DEVICE));
    TRY(acme_use(self, index, &caller, &device));
    return ACME_CALL(device, acmeStreamSynchronize, ((struct acme_stream *)stream)->raw);
}

enum bp_status acme_copy_out(void *self, uint32_t index, void *stream, const struct bp_copy *c)
{
    TRY(device_copy(self, index, stream, c, ACME_TO_HOST));
    return acme_synchronize(self, index, stream);
}

enum bp_status acme_copy_within(void *self, uint32_t index, void *stream, const struct bp_copy *c)
{
    return device_copy(self, index, stream, c, ACME_WITHIN);
}
