/* SPDX-License-Identifier: Apache-2.0 */
/* event.c: records, queries and waits for events in queues. */
#include "xpu.h"

#include <stdlib.h>

enum bp_status xpu_event_create(void *p, uint32_t device, void **out_event)
{
    struct xpu *self = p;
    struct xpu_event *event = calloc(1, sizeof *event);

    if (!event) return bp_fail(self->host, BP_ERR_MEMORY, "xpu:%u: no memory", device);
    event->copy.words = event->fault;
    *out_event = event;
    return BP_OK;
}

/* Releases the event's marker. The copy of fault words before the marker writes to the event, so it
 * must end first. */
static void event_forget(struct xpu *self, struct xpu_event *e)
{
    if (!e->event) return;
    if (e->copy.mark.launched) self->call->clWaitForEvents(1, &e->event);
    kit_guard_forget(&e->device->streams, &e->copy);
    self->call->clReleaseEvent(e->event);
    e->event = NULL;
}

void xpu_event_destroy(void *p, uint32_t device, void *event)
{
    (void)device;
    event_forget(p, event);
    free(event);
}

enum bp_status xpu_event_record(void *p, uint32_t device, void *stream, void *event)
{
    struct xpu *self = p;
    struct xpu_stream *s = xpu_stream_of(self, device, stream);
    struct xpu_event *e = event;
    enum bp_status status;

    event_forget(self, e);
    status = kit_guard_read(&s->guard, &e->copy);
    e->device = s->device;
    if (status == BP_OK)
        status = XPU_CALL(s->device, clEnqueueMarkerWithWaitList, s->queue, 0, NULL, &e->event);
    if (status == BP_OK) return XPU_CALL(s->device, clFlush, s->queue);
    self->call->clFinish(s->queue); /* no copy writes to the event any more */
    kit_guard_forget(&s->device->streams, &e->copy);
    return status;
}

/* Queries whether an event has been reached: *out_reached. */
static enum bp_status event_poll(const struct xpu_device *d, struct xpu_event *e, bool *out_reached)
{
    cl_int state = CL_COMPLETE;

    if (e->event)
        TRY(XPU_WORK(d, clGetEventInfo, e->event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state,
                     &state, NULL));
    if (state < 0) return xpu_check_work(d, "work before an event", state);
    *out_reached = state == CL_COMPLETE;
    return *out_reached && e->event ? kit_guard_reached(&e->device->streams, &e->copy) : BP_OK;
}

enum bp_status xpu_event_query(void *p, uint32_t device, void *event)
{
    struct xpu *self = p;
    bool reached = false;

    TRY(event_poll(&self->device[device], event, &reached));
    return reached ? BP_OK : BP_ERR_NOT_READY;
}

/* Waits without a limit. After a failure, queries the event for its cause. */
static enum bp_status event_wait(const struct xpu_device *d, struct xpu_event *e)
{
    cl_int code = d->self->call->clWaitForEvents(1, &e->event);
    bool reached;

    if (code == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST) TRY(event_poll(d, e, &reached));
    return xpu_check_work(d, "clWaitForEvents", code);
}

/* OpenCL can wait without a limit or not at all. */
enum bp_status xpu_event_wait(void *p, uint32_t device, void *event, uint64_t timeout_ns)
{
    struct xpu *self = p;
    struct xpu_device *d = &self->device[device];
    struct xpu_event *e = event;

    if (timeout_ns == UINT64_MAX && e->event) TRY(event_wait(d, e));
    return kit_event_wait(&d->report, xpu_event_query, self, event, timeout_ns);
}
