/* SPDX-License-Identifier: Apache-2.0 */
/* graphs.c: captures the launches of a stream as a TaskTopo of the runtime, and replays it as one
 * call. */
#include "cnnl.h"

/* The recorded work of a stream. Its launches, also when replayed, write faults to the stream's
 * words. */
struct mlu_recording {
    void *entity;
    uint64_t faults; /* mask of the words that the launches may write */
};

static enum bp_status graphs_admit(struct mlu_device *d)
{
    const struct mlu_calls *call = d->self->call;

    if (call->cnrtQueueBeginCapture && call->cnrtQueueEndCapture && call->cnrtTaskTopoInstantiate &&
        call->cnrtTaskTopoDestroy && call->cnrtTaskTopoEntityInvoke &&
        call->cnrtTaskTopoEntityDestroy)
        return BP_OK;
    return bp_fail(d->self->host, BP_ERR_UNSUPPORTED,
                   "mlu:%u: CNRT %d.%d.%d does not record queues (cnrtQueueBeginCapture and "
                   "cnrtTaskTopo...): a newer one is needed",
                   d->number, d->self->version[0], d->self->version[1], d->self->version[2]);
}

/* No thread may wait for the whole device while one of its streams is captured. The handle of CNNL
 * and the fault words are made before, because they need memory and clear it. */
enum bp_status mlu_capture_begin(void *self, uint32_t device, void *stream)
{
    struct mlu_stream *s = stream;
    KIT_CONTEXT caller = {NULL};
    struct mlu_device *d;
    enum bp_status status;

    TRY(mlu_device_use(self, device, &caller, &d));
    TRY(graphs_admit(d));
    TRY(kit_guard_provide(&s->guard));
    TRY(mlu_cnnl_provide(s));
    if (pthread_mutex_trylock(&d->whole))
        return bp_fail(d->self->host, BP_ERR_BUSY,
                       "mlu:%u: another thread waits for the whole device", device);
    status = MLU_CALL(d, cnrtQueueBeginCapture, s->raw, MLU_CAPTURE_RELAXED);
    if (status) {
        pthread_mutex_unlock(&d->whole);
        return status;
    }
    s->kit.captured = true;
    s->kit.faults_captured = 0;
    return BP_OK;
}

/* Ends the runtime's capture, also if the runtime reports a failure. */
static enum bp_status mlu_graphs_end(struct mlu_stream *s, void **out_tasks)
{
    struct mlu_device *d = s->device;
    enum bp_status status = MLU_CALL(d, cnrtQueueEndCapture, s->raw, out_tasks);

    s->kit.captured = false;
    pthread_mutex_unlock(&d->whole);
    return status;
}

static enum bp_status graphs_make(struct mlu_stream *s, struct mlu_recording *recording)
{
    struct mlu_device *d = s->device;
    enum bp_status status;
    void *tasks = NULL;

    TRY(mlu_graphs_end(s, &tasks));
    recording->faults = s->kit.faults_captured;
    status = MLU_CALL(d, cnrtTaskTopoInstantiate, &recording->entity, tasks, NULL, NULL, 0);
    MLU_NOTE(d, cnrtTaskTopoDestroy, tasks);
    return status;
}

enum bp_status mlu_capture_end(void *self, uint32_t device, void *stream, void **out_recording)
{
    const struct bp_host *host = ((struct mlu *)self)->host;
    struct mlu_recording *recording = host->allocate(host->ctx, sizeof *recording,
                                                     _Alignof(struct mlu_recording));
    KIT_CONTEXT caller = {NULL};
    enum bp_status status;

    if (!recording) {
        mlu_capture_abort(self, device, stream);
        return bp_fail(host, BP_ERR_MEMORY, "mlu:%u: no memory for a recording", device);
    }
    *recording = (struct mlu_recording){NULL, 0};
    mlu_device_reuse(self, device, &caller);
    status = graphs_make(stream, recording);
    if (status == BP_OK) *out_recording = recording;
    else host->release(host->ctx, recording, sizeof *recording);
    return status;
}

void mlu_capture_abort(void *self, uint32_t device, void *stream)
{
    KIT_CONTEXT caller = {NULL};
    struct mlu_device *d = mlu_device_reuse(self, device, &caller);
    void *tasks = NULL;

    /* A failure of the end is not reported again: it is why the capture is aborted. */
    if (mlu_graphs_end(stream, &tasks) == BP_OK && tasks) MLU_NOTE(d, cnrtTaskTopoDestroy, tasks);
}

enum bp_status mlu_replay(void *self, uint32_t device, void *p, void *stream)
{
    const struct mlu_recording *recording = p;
    struct mlu_stream *s = stream;
    KIT_CONTEXT caller = {NULL};
    struct mlu_device *d;

    TRY(mlu_device_use(self, device, &caller, &d));
    if (recording->faults) kit_fault_replay(&s->kit, recording->faults);
    return MLU_CALL(d, cnrtTaskTopoEntityInvoke, recording->entity, s->raw);
}

void mlu_recording_destroy(void *self, uint32_t device, void *p)
{
    KIT_CONTEXT caller = {NULL};
    struct mlu_device *d = mlu_device_reuse(self, device, &caller);
    const struct bp_host *host = d->self->host;
    struct mlu_recording *recording = p;

    MLU_NOTE(d, cnrtTaskTopoEntityDestroy, recording->entity);
    host->release(host->ctx, recording, sizeof *recording);
}
