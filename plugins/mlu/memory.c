/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c: allocates and frees device memory and pinned memory. */
#include "mlu.h"
#include <inttypes.h>

enum bp_status mlu_memory_allocate(void *self, uint32_t device, uint32_t space, uint64_t size,
                                   struct bp_memory *out)
{
    KIT_CONTEXT caller = {NULL};
    struct mlu_device *d;
    enum bp_status status;
    void *data = NULL;

    if (space != BP_SPACE_DEVICE)
        return bp_fail(((struct mlu *)self)->host, BP_ERR_UNSUPPORTED,
                       "mlu:%u: it is not known whether operators reach memory of the host (space "
                       "%" PRIu32 ")",
                       device, space);
    TRY(mlu_device_use(self, device, &caller, &d));
    status = MLU_CALL(d, cnrtMalloc, &data, size);
    if (status == BP_ERR_MEMORY)
        return kit_memory_fail(&d->report, "cnrtMalloc", size, mlu_memory_info, self);
    if (status) return status;
    *out = (struct bp_memory){.data = data};
    return BP_OK;
}

void mlu_memory_free(void *self, uint32_t device, uint32_t space, const struct bp_memory *memory)
{
    KIT_CONTEXT caller = {NULL};
    struct mlu_device *d = mlu_device_reuse(self, device, &caller);

    (void)space;
    MLU_NOTE(d, cnrtFree, memory->data);
}

enum bp_status mlu_memory_info(void *self, uint32_t device, uint64_t *out_free, uint64_t *out_total)
{
    size_t free_bytes = 0, total = 0;
    KIT_CONTEXT caller = {NULL};
    struct mlu_device *d;

    TRY(mlu_device_use(self, device, &caller, &d));
    TRY(MLU_CALL(d, cnrtMemGetInfo, &free_bytes, &total));
    *out_free = free_bytes;
    *out_total = total;
    return BP_OK;
}
