/* SPDX-License-Identifier: Apache-2.0 */
/* fault.c: lets the kit keep the fault words of a stream in device memory; see mlu.h. */
#include "mlu.h"

enum {
    DEVICE_TO_HOST = 2
};

static struct mlu_stream *fault_stream(struct kit_stream *stream)
{
    return (struct mlu_stream *)stream;
}

static enum bp_status fault_allocate(struct kit_stream *stream, size_t size, void **out)
{
    return MLU_CALL(fault_stream(stream)->device, cnrtMalloc, out, size);
}

static void fault_release(struct kit_stream *stream, void *memory)
{
    MLU_NOTE(fault_stream(stream)->device, cnrtFree, memory);
}

static enum bp_status fault_clear(struct kit_stream *stream, void *memory, size_t size)
{
    struct mlu_stream *s = fault_stream(stream);

    return MLU_CALL(s->device, cnrtMemsetAsync, memory, 0, size, s->raw);
}

static enum bp_status fault_read(struct kit_stream *stream, uint32_t *to, void *memory, size_t size)
{
    struct mlu_stream *s = fault_stream(stream);

    return mlu_check(s->device->self, s->device, "cnrtMemcpyAsync",
                     s->device->self->copy(to, memory, size, s->raw, DEVICE_TO_HOST));
}

void mlu_fault_begin(struct mlu_stream *s)
{
    static const struct kit_guard_calls calls = {fault_allocate, fault_release, fault_clear,
                                                 fault_read};

    kit_guard_begin(&s->guard, &s->kit, &calls, &s->device->report);
}

enum bp_status mlu_fault_take(struct mlu_stream *s, const struct bp_kernel *row, uint32_t **out)
{
    int word = 0;

    TRY(kit_guard_take(&s->guard, row->name, &word));
    *out = (uint32_t *)s->guard.memory + word;
    return BP_OK;
}
