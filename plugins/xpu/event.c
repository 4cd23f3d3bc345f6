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

    event_forget(self, e);
    TRY(xpu_fault_read(s, e->fault, &e->mark));
    e->device = s->device;
    TRY(XPU_CALL(s->device, clEnqueueMarkerWithWaitList, s->queue, 0, NULL, &e->event));
    return XPU_CALL(s->device, clFlush, s->queue);
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
static enum bp_status event_poll(const struct xpu_device *d, struct xpu_event *e,
                                 bool *out_reached)
{
    cl_int state = CL_COMPLETE;

    if (e->event)
        TRY(XPU_WORK(d, clGetEventInfo, e->event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state,
                     &state, NULL));
    if (state < 0) return xpu_check_work(d, "work before an event", state);
    *out_reached = state == CL_COMPLETE;
    return *out_reached && e->event ? event_report(e) : BP_OK;
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
