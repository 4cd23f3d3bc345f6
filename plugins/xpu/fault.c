/* SPDX-License-Identifier: Apache-2.0 */
/* fault.c: lets the kit keep the fault words of a stream in a buffer; see xpu.h. */
#include "xpu.h"

static struct xpu_stream *fault_stream(struct kit_stream *stream)
{
    return (struct xpu_stream *)stream;
}

static enum bp_status fault_allocate(struct kit_stream *stream, size_t size, void **out)
{
    struct xpu_device *d = fault_stream(stream)->device;
    cl_int code = CL_SUCCESS;

    *out = d->self->call->clCreateBuffer(d->context, CL_MEM_READ_WRITE, size, NULL, &code);
    return *out ? BP_OK : xpu_fail(d, "clCreateBuffer", code);
}

static void fault_release(struct kit_stream *stream, void *memory)
{
    xpu_buffer_release(fault_stream(stream)->device->self, memory);
}

static enum bp_status fault_clear(struct kit_stream *stream, void *memory, size_t size)
{
    struct xpu_stream *s = fault_stream(stream);
    const uint32_t zero = 0;

    return XPU_CALL(s->device, clEnqueueFillBuffer, s->queue, memory, &zero, sizeof zero, 0, size,
                    0, NULL, NULL);
}

static enum bp_status fault_read(struct kit_stream *stream, uint32_t *to, void *memory, size_t size)
{
    struct xpu_stream *s = fault_stream(stream);

    return XPU_WORK(s->device, clEnqueueReadBuffer, s->queue, memory, CL_FALSE, 0, size, to, 0,
                    NULL, NULL);
}

void xpu_fault_begin(struct xpu_stream *s)
{
    static const struct kit_guard_calls calls = {fault_allocate, fault_release, fault_clear,
                                                 fault_read};

    kit_guard_begin(&s->guard, &s->kit, &calls, &s->device->report);
}

enum bp_status xpu_fault_take(struct xpu_stream *s, const struct bp_kernel *row,
                              struct portable_operand *out)
{
    int word = 0;

    TRY(kit_guard_take(&s->guard, row->name, &word));
    *out = (struct portable_operand){(void *)((size_t)word * sizeof(uint32_t)), s->guard.memory};
    return BP_OK;
}
