/* SPDX-License-Identifier: Apache-2.0 */
/* event.c: implements events by notifiers of the runtime. An event also has the stream's fault
 * words at its position. */
#include "mlu.h"

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
    event->copy.words = event->fault;
    status = MLU_CALL(d, cnrtNotifierCreateWithFlags, &event->raw, MLU_NOTIFIER_NO_TIME);
    if (status == BP_OK) *out_event = event;
    else host->release(host->ctx, event, sizeof *event);
    return status;
}

/* The copy of the fault words in front of the notifier writes to the event: it must end first. */
static void event_forget(struct mlu_event *e)
{
    if (e->copy.mark.launched) MLU_NOTE(e->device, cnrtWaitNotifier, e->raw);
    kit_guard_forget(&e->device->streams, &e->copy);
    e->recorded = false;
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

    TRY(mlu_device_use(self, device, &caller, &d));
    event_forget(e);
    status = kit_guard_read(&s->guard, &e->copy);
    if (status == BP_OK) status = MLU_CALL(d, cnrtPlaceNotifier, e->raw, s->raw);
    e->recorded = status == BP_OK;
    if (e->recorded) return BP_OK;
    MLU_NOTE(d, cnrtQueueSync, s->raw);
    kit_guard_forget(&d->streams, &e->copy);
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
    return kit_guard_reached(&d->streams, &e->copy);
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
    return kit_guard_reached(&d->streams, &e->copy);
}
