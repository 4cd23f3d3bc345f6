/* SPDX-License-Identifier: Apache-2.0 */
/* event.c: implements events by notifiers of the runtime. An event also has the stream's fault
 * words at its position. */
#include "mlu.h"
#include <string.h>

enum bp_status mlu_event_create(void *self, uint32_t device, void **out_event)
{
    const struct bp_host *host = ((struct mlu *)self)->host;
    KIT_CONTEXT caller = {NULL};
    struct mlu_event *event;
    struct mlu_device *d;
    enum bp_status status;

    TRY(mlu_device_use(self, device, &caller, &d));
    event = host->allocate(host->ctx, sizeof *event, _Alignof(struct mlu_event));
    if (!event) return bp_fail(host, BP_ERR_MEMORY, "mlu:%u: no memory for an event", device);
    *event = (struct mlu_event){.device = d};
    status = MLU_CALL(d, cnrtNotifierCreateWithFlags, &event->raw, MLU_NOTIFIER_NO_TIME);
    if (status == BP_OK) *out_event = event;
    else host->release(host->ctx, event, sizeof *event);
    return status;
}

/* The copy of the fault words in front of the notifier writes to the event: it must end first. */
static void event_forget(struct mlu_event *e)
{
    if (e->mark.launched) MLU_NOTE(e->device, cnrtWaitNotifier, e->raw);
    e->mark = (struct kit_mark){0};
    e->recorded = false;
    memset(e->fault, 0, sizeof e->fault);
}

void mlu_event_destroy(void *self, uint32_t device, void *event)
{
    KIT_CONTEXT caller = {NULL};
    struct mlu_device *d = mlu_device_reuse(self, device, &caller);
    const struct bp_host *host = d->self->host;
    struct mlu_event *e = event;

    event_forget(e);
    MLU_NOTE(d, cnrtNotifierDestroy, e->raw);
    host->release(host->ctx, e, sizeof *e);
}

enum bp_status mlu_event_record(void *self, uint32_t device, void *stream, void *event)
{
    struct mlu_stream *s = stream;
    struct mlu_event *e = event;
    KIT_CONTEXT caller = {NULL};
    struct mlu_device *d;
    enum bp_status status;
    struct kit_mark mark;

    TRY(mlu_device_use(self, device, &caller, &d));
    event_forget(e);
    TRY(mlu_fault_read(s, e->fault, &mark));
    status = MLU_CALL(d, cnrtPlaceNotifier, e->raw, s->raw);
    if (status) {
        if (mark.launched) MLU_NOTE(d, cnrtQueueSync, s->raw);
        return status;
    }
    e->mark = mark;
    e->recorded = true;
    return BP_OK;
}

/* Checks the fault words of an event that has been reached. A stream that no longer exists reports
 * no faults. */
static enum bp_status mlu_event_report(struct mlu_event *e)
{
    struct mlu_device *d = e->device;
    enum bp_status status = BP_OK;
    struct kit_stream *stream;

    if (!e->mark.launched) return BP_OK;
    pthread_mutex_lock(&d->streams.lock);
    stream = kit_stream_find(&d->streams, e->mark.stream);
    if (stream) status = mlu_fault_check((struct mlu_stream *)stream, e->fault, e->mark);
    pthread_mutex_unlock(&d->streams.lock);
    return status;
}

enum bp_status mlu_event_query(void *self, uint32_t device, void *event)
{
    struct mlu_event *e = event;
    KIT_CONTEXT caller = {NULL};
    struct mlu_device *d;
    int code;

    if (!e->recorded) return BP_OK;
    TRY(mlu_device_use(self, device, &caller, &d));
    code = d->self->call->cnrtQueryNotifier(e->raw);
    if (code == MLU_NOT_READY) return BP_ERR_NOT_READY;
    TRY(mlu_check_wait(d, "cnrtQueryNotifier", code));
    return mlu_event_report(e);
}

/* The runtime can wait without a limit or not at all. */
enum bp_status mlu_event_wait(void *self, uint32_t device, void *event, uint64_t timeout_ns)
{
    struct mlu_event *e = event;
    KIT_CONTEXT caller = {NULL};
    struct mlu_device *d;

    if (!e->recorded) return BP_OK;
    TRY(mlu_device_use(self, device, &caller, &d));
    if (timeout_ns != UINT64_MAX)
        return kit_event_wait(&d->report, mlu_event_query, self, event, timeout_ns);
    TRY(MLU_WAIT(d, cnrtWaitNotifier, e->raw));
    return mlu_event_report(e);
}
