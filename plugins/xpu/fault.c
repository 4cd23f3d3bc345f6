/* SPDX-License-Identifier: Apache-2.0 */
/* fault.c: manages the fault words of a stream, into which kernels write that they found bad input
 * values; see xpu.h. */
#include "xpu.h"

/* Clears a word of the device. */
static enum bp_status fault_clear(struct xpu_stream *s, int first, int n)
{
    const uint32_t zero = 0;

    return XPU_CALL(s->device, clEnqueueFillBuffer, s->queue, s->faults, &zero, sizeof zero,
                    (size_t)first * sizeof zero, (size_t)n * sizeof zero, 0, NULL, NULL);
}

static enum bp_status fault_make(struct xpu_stream *s)
{
    struct xpu *self = s->device->self;
    cl_int code = CL_SUCCESS;

    s->faults = self->call->clCreateBuffer(s->device->context, CL_MEM_READ_WRITE,
                                           KIT_FAULTS * sizeof(uint32_t), NULL, &code);
    return s->faults ? fault_clear(s, 0, KIT_FAULTS)
                     : xpu_fail(s->device, "clCreateBuffer", code);
}

enum bp_status xpu_fault_take(struct xpu_stream *s, const struct bp_kernel *row,
                              struct portable_operand *out)
{
    enum bp_status status = BP_OK;
    size_t word;

    pthread_mutex_lock(&s->kit.lock);
    if (!s->faults) status = fault_make(s);
    pthread_mutex_unlock(&s->kit.lock);
    if (status) return status;
    word = (size_t)kit_fault_take(&s->kit, row->name);
    *out = (struct portable_operand){(void *)(word * sizeof(uint32_t)), s->faults};
    return BP_OK;
}

enum bp_status xpu_fault_read(struct xpu_stream *s, uint32_t *word, struct kit_mark *out_mark)
{
    struct kit_mark mark = kit_mark_make(&s->kit);

    if (!kit_fault_is_possible(&s->kit)) {
        *out_mark = (struct kit_mark){0};
        return BP_OK;
    }
    TRY(XPU_WORK(s->device, clEnqueueReadBuffer, s->queue, s->faults, CL_FALSE, 0,
                 KIT_FAULTS * sizeof *word, word, 0, NULL, NULL));
    *out_mark = mark;
    return BP_OK;
}

enum bp_status xpu_fault_check(struct xpu_stream *s, uint32_t *word, struct kit_mark mark)
{
    enum bp_status status;
    uint64_t words;

    if (!mark.launched) return BP_OK;
    status = kit_fault_report(&s->device->report, &s->kit, word, mark.launched, &words);
    for (int i = 0; i < KIT_FAULTS; i++)
        if (words >> i & 1) fault_clear(s, i, 1);
    return status;
}
