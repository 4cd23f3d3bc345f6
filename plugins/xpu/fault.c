/* SPDX-License-Identifier: Apache-2.0 */
/* fault.c: manages the fault words of a stream, into which kernels write that they found bad input
 * values; see xpu.h. */
#include "xpu.h"

#include <string.h>

static enum bp_status fault_clear(struct xpu_stream *s)
{
    struct xpu *self = s->device->self;
    const uint32_t zero = 0;
    cl_int code = self->call->clEnqueueFillBuffer(s->queue, s->faults, &zero, sizeof zero, 0,
                                                  XPU_FAULTS * sizeof zero, 0, NULL, NULL);

    return code == CL_SUCCESS ? BP_OK
                              : xpu_fail(self, s->device->number, "clEnqueueFillBuffer", code);
}

static enum bp_status fault_make(struct xpu_stream *s)
{
    struct xpu *self = s->device->self;
    cl_int code = CL_SUCCESS;

    s->faults = self->call->clCreateBuffer(s->device->context, CL_MEM_READ_WRITE,
                                           XPU_FAULTS * sizeof(uint32_t), NULL, &code);
    return s->faults ? fault_clear(s) : xpu_fail(self, s->device->number, "clCreateBuffer", code);
}

enum bp_status xpu_fault_take(struct xpu_stream *s, const struct bp_kernel *row,
                              struct portable_operand *out)
{
    enum bp_status status = BP_OK;
    uint64_t word;

    pthread_mutex_lock(&s->lock);
    if (!s->faults) status = fault_make(s);
    if (status == BP_OK) {
        word = s->launched++ % XPU_FAULTS;
        s->name[word] = row->name;
        *out = (struct portable_operand){(void *)(word * sizeof(uint32_t)), s->faults};
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

enum bp_status xpu_fault_read(struct xpu_stream *s, uint32_t *word, uint64_t *out_launched)
{
    struct xpu *self = s->device->self;
    uint64_t launched;
    bool none;
    cl_int code = CL_SUCCESS;

    pthread_mutex_lock(&s->lock);
    launched = s->launched;
    none = s->launched == s->checked;
    pthread_mutex_unlock(&s->lock);
    if (!none)
        code = self->call->clEnqueueReadBuffer(s->queue, s->faults, CL_FALSE, 0,
                                               XPU_FAULTS * sizeof *word, word, 0, NULL, NULL);
    if (code != CL_SUCCESS)
        return xpu_work_fail(self, s->device->number, "clEnqueueReadBuffer", code);
    *out_launched = none ? 0 : launched;
    return BP_OK;
}

enum bp_status xpu_fault_check(struct xpu_stream *s, const uint32_t *word, uint64_t launched)
{
    const char *name = NULL;
    uint32_t code = 0;

    if (!launched) return BP_OK;
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < XPU_FAULTS && launched > s->checked; i++)
        if (word[i] && !name) {
            name = s->name[i];
            code = word[i];
        }
    if (s->checked < launched) s->checked = launched;
    pthread_mutex_unlock(&s->lock);
    if (!name) return BP_OK;
    fault_clear(s);
    return bp_fail(s->device->self->host, BP_ERR_FAULT,
                   "xpu:%u: kernel %s found bad values in its inputs (code %u); what it wrote is "
                   "undefined",
                   s->device->number, name, code);
}
