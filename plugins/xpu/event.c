/* SPDX-License-Identifier: Apache-2.0 */
/* event.c: records, queries and waits for events in queues. */
#include "xpu.h"

#include <stdlib.h>
#include <string.h>

enum bp_status xpu_event_create(void *p, uint32_t device, void **out_event)
{
    struct xpu *self = p;
    struct xpu_event *event = calloc(1, sizeof *event);

    if (!event) return bp_fail(self->host, BP_ERR_MEMORY, "xpu:%u: no memory", device);
    *out_event = event;
    return BP_OK;
}

/* Releases the event's marker. The copy of fault words before the marker writes to the event, so it
 * must end first. */
static void event_forget(struct xpu *self, struct xpu_event *e)
{
    if (!e->event) return;
    if (e->mark.launched) self->call->clWaitForEvents(1, &e->event);
    self->call->clReleaseEvent(e->event);
    e->event = NULL;
    memset(e->fault, 0, sizeof e->fault);
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
    cl_int code;

    event_forget(self, e);
    status = xpu_fault_read(s, e->fault, &e->mark);
    if (status) return status;
    e->device = s->device;
    code = self->call->clEnqueueMarkerWithWaitList(s->queue, 0, NULL, &e->event);
    if (code == CL_SUCCESS) code = self->call->clFlush(s->queue);
    return code == CL_SUCCESS ? BP_OK
                              : xpu_fail(self, device, "clEnqueueMarkerWithWaitList", code);
}

/* Checks the fault words of an event that has been reached. A stream that no longer exists reports
 * no faults. */
static enum bp_status event_report(struct xpu_event *e)
{
    struct xpu_device *d = e->device;
    enum bp_status status = BP_OK;
    struct kit_stream *stream;

    if (!e->mark.launched) return BP_OK;
    pthread_mutex_lock(&d->streams.lock);
    stream = kit_stream_find(&d->streams, e->mark.stream);
    if (stream) status = xpu_fault_check((struct xpu_stream *)stream, e->fault, e->mark);
    pthread_mutex_unlock(&d->streams.lock);
    return status;
}

/* Queries whether an event has been reached: *out_reached. */
static enum bp_status event_poll(struct xpu *self, uint32_t device, struct xpu_event *e,
                                 bool *out_reached)
{
    cl_int state = CL_COMPLETE, code = CL_SUCCESS;

    if (e->event)
        code = self->call->clGetEventInfo(e->event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state,
                                          &state, NULL);
    if (code != CL_SUCCESS) return xpu_work_fail(self, device, "clGetEventInfo", code);
    if (state < 0) return xpu_work_fail(self, device, "work before an event", state);
    *out_reached = state == CL_COMPLETE;
    return *out_reached && e->event ? event_report(e) : BP_OK;
}

enum bp_status xpu_event_query(void *p, uint32_t device, void *event)
{
    bool reached = false;
    enum bp_status status = event_poll(p, device, event, &reached);

    return status == BP_OK && !reached ? BP_ERR_NOT_READY : status;
}

/* Waits without a limit. After a failure, queries the event for its cause. */
static enum bp_status event_wait(struct xpu *self, uint32_t device, struct xpu_event *e)
{
    cl_int code = self->call->clWaitForEvents(1, &e->event);
    enum bp_status status = BP_OK;
    bool reached;

    if (code == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
        status = event_poll(self, device, e, &reached);
    return status || code == CL_SUCCESS ? status
                                        : xpu_work_fail(self, device, "clWaitForEvents", code);
}

/* OpenCL can wait without a limit or not at all. */
enum bp_status xpu_event_wait(void *p, uint32_t device, void *event, uint64_t timeout_ns)
{
    struct xpu *self = p;
    struct xpu_event *e = event;
    enum bp_status status = BP_OK;

    if (timeout_ns == UINT64_MAX && e->event) status = event_wait(self, device, e);
    if (status) return status;
    return kit_event_wait(&self->device[device].report, xpu_event_query, self, event, timeout_ns);
}
