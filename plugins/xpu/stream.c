/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c: creates, waits for and destroys streams, which are in-order OpenCL queues. */
#include "xpu.h"

#include <stdatomic.h>
#include <stdlib.h>

enum bp_status xpu_stream_create(void *p, uint32_t device, void **out_stream)
{
    struct xpu *self = p;
    struct xpu_device *d = &self->device[device];
    struct xpu_stream *stream = calloc(1, sizeof *stream);
    cl_int code = CL_SUCCESS;

    if (!stream) return bp_fail(self->host, BP_ERR_MEMORY, "xpu:%u: no memory", device);
    stream->device = d;
    stream->queue = self->call->clCreateCommandQueue(d->context, d->id, CL_QUEUE_PROFILING_ENABLE,
                                                       &code);
    if (!stream->queue) {
        free(stream);
        return xpu_fail(d, "clCreateCommandQueue", code);
    }
    pthread_mutex_init(&stream->kit.lock, NULL);
    xpu_fault_begin(stream);
    kit_stream_add(&d->streams, &stream->kit);
    *out_stream = stream;
    return BP_OK;
}

void xpu_stream_destroy(void *p, uint32_t device, void *stream)
{
    struct xpu *self = p;
    struct xpu_stream *s = stream;

    (void)device;
    if (atomic_load(&s->device->profile.on)) xpu_profile_drain(s->device);
    kit_stream_remove(&s->device->streams, &s->kit);
    self->call->clReleaseCommandQueue(s->queue);
    kit_guard_end(&s->guard);
    xpu_buffer_release(self, s->results);
    pthread_mutex_destroy(&s->kit.lock);
    free(s);
}

struct xpu_stream *xpu_stream_of(struct xpu *self, uint32_t device, void *stream)
{
    return stream ? stream : self->device[device].common;
}

void xpu_stream_start(struct xpu_stream *s, bool now)
{
    uint32_t given = atomic_fetch_add_explicit(&s->given, 1, memory_order_relaxed) + 1;

    if (now || given % XPU_UNSTARTED == 0) s->device->self->call->clFlush(s->queue);
}

/* Retains and returns queue number i of the device; NULL: there are no more. */
static cl_command_queue stream_hold(struct xpu_device *d, int i)
{
    cl_command_queue queue = NULL;

    pthread_mutex_lock(&d->streams.lock);
    for (struct kit_stream *k = d->streams.first; k && !queue; k = k->next)
        if (!i--) queue = ((struct xpu_stream *)k)->queue;
    if (queue) d->self->call->clRetainCommandQueue(queue);
    pthread_mutex_unlock(&d->streams.lock);
    return queue;
}

/* Waits for the streams one by one. A new stream is inserted at the front, so the loop misses none
 * of the others. */
static enum bp_status finish_all(struct xpu_device *d)
{
    const struct xpu_calls *call = d->self->call;
    cl_command_queue queue;
    cl_int code = CL_SUCCESS;

    for (int i = 0; (queue = stream_hold(d, i)); i++) {
        cl_int one = call->clFinish(queue);
        call->clReleaseCommandQueue(queue);
        if (code == CL_SUCCESS) code = one;
    }
    return xpu_check_work(d, "clFinish", code);
}

enum bp_status xpu_synchronize(void *p, uint32_t device, void *stream)
{
    struct xpu *self = p;
    struct xpu_stream *s = xpu_stream_of(self, device, stream);
    uint32_t word[KIT_FAULTS];
    struct kit_guard_copy copy = {.words = word};
    enum bp_status read = kit_guard_read(&s->guard, &copy);
    enum bp_status status = XPU_WORK(s->device, clFinish, s->queue);

    status = kit_guard_waited(&s->guard, &copy, status ? status : read);
    return status || stream ? status : finish_all(s->device);
}

/* Supports only events of the same context, that is of the same device. */
enum bp_status xpu_stream_wait(void *p, uint32_t device, void *stream, void *event)
{
    struct xpu *self = p;
    struct xpu_stream *s = xpu_stream_of(self, device, stream);
    struct xpu_event *e = event;

    if (!e->event) return BP_OK;
    if (e->device != s->device) return BP_ERR_UNSUPPORTED;
    return XPU_CALL(s->device, clEnqueueBarrierWithWaitList, s->queue, 1, &e->event, NULL);
}
