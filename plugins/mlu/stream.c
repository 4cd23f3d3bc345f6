/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c: creates, waits for and destroys streams, which are queues of the runtime. */
#include "cnnl.h"

static void stream_drop(struct mlu_stream *s)
{
    struct mlu_device *d = s->device;
    const struct bp_host *host = d->self->host;

    mlu_cnnl_stream_finish(s);
    for (int i = 0; i < MLU_STAGES; i++)
        if (s->passed[i]) MLU_NOTE(d, cnrtNotifierDestroy, s->passed[i]);
    if (s->raw) MLU_NOTE(d, cnrtQueueDestroy, s->raw);
    if (s->stage) MLU_NOTE(d, cnrtFreeHost, s->stage);
    kit_guard_end(&s->guard);
    pthread_mutex_destroy(&s->kit.lock);
    host->release(host->ctx, s, sizeof *s);
}

enum bp_status mlu_stream_create(void *self, uint32_t device, void **out_stream)
{
    const struct bp_host *host = ((struct mlu *)self)->host;
    KIT_CONTEXT caller = {NULL};
    struct mlu_stream *s;
    struct mlu_device *d;
    enum bp_status status;

    TRY(mlu_device_use(self, device, &caller, &d));
    s = host->allocate(host->ctx, sizeof *s, _Alignof(struct mlu_stream));
    if (!s) return bp_fail(host, BP_ERR_MEMORY, "mlu:%u: no memory for a stream", device);
    *s = (struct mlu_stream){.device = d};
    pthread_mutex_init(&s->kit.lock, NULL);
    mlu_fault_begin(s);
    status = MLU_CALL(d, cnrtQueueCreate, &s->raw);
    if (status) {
        stream_drop(s);
        return status;
    }
    kit_stream_add(&d->streams, &s->kit);
    *out_stream = s;
    return BP_OK;
}

void mlu_stream_destroy(void *self, uint32_t device, void *stream)
{
    KIT_CONTEXT caller = {NULL};
    struct mlu_device *d = mlu_device_reuse(self, device, &caller);

    kit_stream_remove(&d->streams, stream);
    stream_drop(stream);
}

/* If the wait itself fails, work may still run, and write to memory that the caller owns as soon as
 * this function returns: so it waits once more. */
enum bp_status mlu_stream_join(struct mlu_stream *s)
{
    enum bp_status status = MLU_WAIT(s->device, cnrtQueueSync, s->raw);

    if (status) MLU_NOTE(s->device, cnrtQueueSync, s->raw);
    return status;
}

/* Waits for the whole device. If the calling thread is capturing a stream, it holds `whole`. */
static enum bp_status stream_join_all(struct mlu_device *d)
{
    bool mine = pthread_mutex_lock(&d->whole) != 0;
    enum bp_status status = mlu_check_wait(d, "cnrtSyncDevice", d->self->call->cnrtSyncDevice());

    if (!mine) pthread_mutex_unlock(&d->whole);
    return status;
}

enum bp_status mlu_synchronize(void *self, uint32_t device, void *stream)
{
    uint32_t word[KIT_FAULTS];
    struct kit_guard_copy copy = {.words = word};
    struct mlu_stream *s = stream;
    enum bp_status read, status;
    KIT_CONTEXT caller = {NULL};
    struct mlu_device *d;

    TRY(mlu_device_use(self, device, &caller, &d));
    if (!s) return stream_join_all(d);
    read = kit_guard_read(&s->guard, &copy);
    status = mlu_stream_join(s); /* also after a failure: no copy writes to `word` any more */
    return kit_guard_waited(&s->guard, &copy, status ? status : read);
}

/* Whether a queue may wait for a notifier of another device is not known: the host waits. */
enum bp_status mlu_stream_wait(void *self, uint32_t device, void *stream, void *event)
{
    struct mlu_stream *s = stream;
    struct mlu_event *e = event;
    KIT_CONTEXT caller = {NULL};
    struct mlu_device *d;

    if (!e->recorded) return BP_OK;
    if (e->device != s->device) return BP_ERR_UNSUPPORTED;
    TRY(mlu_device_use(self, device, &caller, &d));
    return MLU_CALL(d, cnrtQueueWaitNotifier, e->raw, s->raw, 0);
}
