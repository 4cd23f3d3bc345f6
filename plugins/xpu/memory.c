/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c: allocates buffers and copies their contents. An address is a byte offset in a
 * buffer. */
#include "xpu.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static enum bp_status no_space(const struct xpu_device *d, uint32_t space)
{
    return bp_fail(d->self->host, BP_ERR_UNSUPPORTED, "xpu:%u: no memory space %u%s", d->number,
                   space,
                   space == BP_SPACE_PINNED ? ": its driver does not say that host and device see "
                                              "what the other writes there"
                                            : "");
}

/* Maps a buffer for its whole lifetime: host and device share one memory, so both see its
 * contents. */
static enum bp_status memory_map(struct xpu_device *d, cl_mem buffer, uint64_t size,
                                 void **out_host)
{
    const struct xpu_calls *call = d->self->call;
    cl_int code = CL_SUCCESS;
    void *host = call->clEnqueueMapBuffer(d->common->queue, buffer, CL_TRUE,
                                          CL_MAP_READ | CL_MAP_WRITE, 0, (size_t)size, 0, NULL,
                                          NULL, &code);

    if (!host) return xpu_fail(d, "clEnqueueMapBuffer", code);
    *out_host = host;
    return BP_OK;
}

enum bp_status xpu_memory_allocate(void *p, uint32_t device, uint32_t space, uint64_t size,
                                   struct bp_memory *out)
{
    struct xpu *self = p;
    struct xpu_device *d = &self->device[device];
    bool pinned = space == BP_SPACE_PINNED && d->has_host_memory;
    struct bp_memory made = {0};
    cl_int code = CL_SUCCESS;
    enum bp_status status = BP_OK;

    if (space != BP_SPACE_DEVICE && !pinned) return no_space(d, space);
    made.handle = self->call->clCreateBuffer(
        d->context, CL_MEM_READ_WRITE | (pinned ? CL_MEM_ALLOC_HOST_PTR : 0), (size_t)size, NULL,
        &code);
    if (!made.handle)
        return bp_fail(self->host, xpu_opencl_status(code),
                       "xpu:%u: clCreateBuffer of %" PRIu64 " bytes answered %s", device, size,
                       xpu_opencl_name(code));
    if (pinned) status = memory_map(d, made.handle, size, &made.host);
    if (status) xpu_buffer_release(self, made.handle);
    else *out = made;
    return status;
}

void xpu_buffer_release(struct xpu *self, cl_mem buffer)
{
    if (!buffer) return;
    atomic_fetch_add(&self->released, 1);
    self->call->clReleaseMemObject(buffer);
}

void xpu_memory_free(void *p, uint32_t device, uint32_t space, const struct bp_memory *memory)
{
    struct xpu *self = p;
    cl_command_queue queue = self->device[device].common->queue;

    (void)space;
    if (memory->host) {
        self->call->clEnqueueUnmapMemObject(queue, memory->handle, memory->host, 0, NULL, NULL);
        self->call->clFinish(queue);
    }
    xpu_buffer_release(self, memory->handle);
}

static void CL_CALLBACK memory_staged(cl_event event, cl_int status, void *memory)
{
    (void)event;
    (void)status;
    free(memory);
}

/* Copies a small source to temporary memory, so that the call need not wait for earlier work in the
 * stream. false: the source is too large, or there is no memory; nothing was copied. */
static bool memory_stage(struct xpu *self, struct xpu_stream *stream, const struct bp_copy *copy,
                         cl_int *out_code)
{
    static const uint64_t small = 256 << 10;
    cl_event event;
    void *bounce = copy->size <= small ? malloc((size_t)copy->size) : NULL;

    if (!bounce) return false;
    memcpy(bounce, copy->src, (size_t)copy->size);
    *out_code = self->call->clEnqueueWriteBuffer(stream->queue, copy->dst_memory, CL_FALSE,
                                                 (size_t)copy->dst, (size_t)copy->size, bounce, 0,
                                                 NULL, &event);
    if (*out_code != CL_SUCCESS) {
        free(bounce);
        return true;
    }
    if (self->call->clSetEventCallback(event, CL_COMPLETE, memory_staged, bounce) != CL_SUCCESS) {
        self->call->clWaitForEvents(1, &event);
        free(bounce);
    }
    if (atomic_load_explicit(&stream->device->profile.on, memory_order_relaxed))
        xpu_profile_add(stream, event, BP_RECORD_COPY, "clEnqueueWriteBuffer", copy->size);
    else self->call->clReleaseEvent(event);
    return true;
}

enum bp_status xpu_copy_in(void *p, uint32_t device, void *stream, const struct bp_copy *copy)
{
    struct xpu *self = p;
    struct xpu_stream *s = xpu_stream_of(self, device, stream);
    cl_event event;
    cl_int code;

    if (!memory_stage(self, s, copy, &code)) {
        code = self->call->clEnqueueWriteBuffer(s->queue, copy->dst_memory, CL_TRUE,
                                                (size_t)copy->dst, (size_t)copy->size, copy->src, 0,
                                                NULL, xpu_profile_event(s, &event));
        if (code == CL_SUCCESS && event)
            xpu_profile_add(s, event, BP_RECORD_COPY, "clEnqueueWriteBuffer", copy->size);
    }
    return xpu_check(s->device, "clEnqueueWriteBuffer", code);
}

enum bp_status xpu_copy_out(void *p, uint32_t device, void *stream, const struct bp_copy *copy)
{
    struct xpu *self = p;
    struct xpu_stream *s = xpu_stream_of(self, device, stream);
    uint32_t word[KIT_FAULTS];
    struct kit_guard_copy fault = {.words = word};
    enum bp_status status = kit_guard_read(&s->guard, &fault);
    cl_event event;
    cl_int code;

    code = self->call->clEnqueueReadBuffer(s->queue, copy->src_memory, CL_TRUE, (size_t)copy->src,
                                           (size_t)copy->size, copy->dst, 0, NULL,
                                           xpu_profile_event(s, &event));
    if (code == CL_SUCCESS && event)
        xpu_profile_add(s, event, BP_RECORD_COPY, "clEnqueueReadBuffer", copy->size);
    if (code != CL_SUCCESS) {
        self->call->clFinish(s->queue); /* no copy writes to `word` any more */
        status = xpu_check_work(s->device, "clEnqueueReadBuffer", code);
    }
    return kit_guard_waited(&s->guard, &fault, status);
}

enum bp_status xpu_copy_within(void *p, uint32_t device, void *stream, const struct bp_copy *copy)
{
    struct xpu *self = p;
    struct xpu_stream *s = xpu_stream_of(self, device, stream);
    cl_event event;

    TRY(XPU_CALL(s->device, clEnqueueCopyBuffer, s->queue, copy->src_memory, copy->dst_memory,
                 (size_t)copy->src, (size_t)copy->dst, (size_t)copy->size, 0, NULL,
                 xpu_profile_event(s, &event)));
    if (event) xpu_profile_add(s, event, BP_RECORD_COPY, "clEnqueueCopyBuffer", copy->size);
    return BP_OK;
}
