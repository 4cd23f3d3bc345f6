/* SPDX-License-Identifier: Apache-2.0 */
/* copy.c: copies memory between host and device, within a device, and between devices, in the order
 * of a stream. */
#include "mlu.h"
#include <string.h>

/* Numbers of directions in cnrt.h. */
enum {
    HOST_TO_DEVICE = 0,
    DEVICE_TO_DEVICE = 1,
    DEVICE_TO_HOST = 2
};

static enum bp_status copy_enqueue(struct mlu_stream *s, void *dst, const void *src, uint64_t size,
                                   int direction)
{
    return mlu_check(
        s->device->self, s->device, "cnrtMemcpyAsync",
        s->device->self->copy(dst, (void *)(uintptr_t)src, (size_t)size, s->raw, direction));
}

/* Creates the notifiers and the buffers for the first copy through them. Under the lock of the
 * stream. */
static enum bp_status copy_make_stages(struct mlu_stream *s)
{
    struct mlu_device *d = s->device;
    void *stage = NULL;

    for (int i = 0; i < MLU_STAGES; i++)
        if (!s->passed[i])
            TRY(MLU_CALL(d, cnrtNotifierCreateWithFlags, &s->passed[i], MLU_NOTIFIER_NO_TIME));
    TRY(MLU_CALL(d, cnrtHostMalloc, &stage, (size_t)MLU_STAGES * MLU_STAGE));
    s->stage = stage;
    return BP_OK;
}

/* Copies through a pinned buffer: the call need not wait for earlier work of the stream, and the
 * source may be pageable. Under the stream's lock. */
static enum bp_status copy_staged(struct mlu_stream *s, const struct bp_copy *copy)
{
    struct mlu_device *d = s->device;
    unsigned i = s->next_stage % MLU_STAGES;
    char *stage;

    if (!s->stage) TRY(copy_make_stages(s));
    stage = s->stage + (size_t)i * MLU_STAGE;
    if (s->next_stage >= MLU_STAGES) TRY(MLU_CALL(d, cnrtWaitNotifier, s->passed[i]));
    memcpy(stage, copy->src, (size_t)copy->size);
    TRY(copy_enqueue(s, copy->dst, stage, copy->size, HOST_TO_DEVICE));
    s->next_stage++;
    return MLU_CALL(d, cnrtPlaceNotifier, s->passed[i], s->raw);
}

/* The source is read when the copy runs. */
static enum bp_status copy_waiting(struct mlu_stream *s, const struct bp_copy *copy)
{
    TRY(copy_enqueue(s, copy->dst, copy->src, copy->size, HOST_TO_DEVICE));
    return mlu_stream_join(s);
}

enum bp_status mlu_copy_constant(struct mlu_device *d, void *queue, void *dst, const void *src,
                                 uint64_t size)
{
    enum bp_status status;

    TRY(mlu_check(d->self, d, "cnrtMemcpyAsync",
                  d->self->copy(dst, (void *)(uintptr_t)src, (size_t)size, queue, HOST_TO_DEVICE)));
    status = MLU_CALL(d, cnrtQueueSync, queue);
    if (status) MLU_NOTE(d, cnrtQueueSync, queue); /* the copy may still read `src` */
    return status;
}

enum bp_status mlu_copy_in(void *self, uint32_t device, void *stream, const struct bp_copy *copy)
{
    struct mlu_stream *s = stream;
    KIT_CONTEXT caller = {NULL};
    struct mlu_device *d;
    enum bp_status status;

    TRY(mlu_device_use(self, device, &caller, &d));
    if (copy->size > MLU_STAGE) return copy_waiting(s, copy);
    pthread_mutex_lock(&s->kit.lock);
    status = copy_staged(s, copy);
    pthread_mutex_unlock(&s->kit.lock);
    if (status) MLU_NOTE(d, cnrtQueueSync, s->raw); /* no notifier shows when the stage is free */
    return status;
}

enum bp_status mlu_copy_out(void *self, uint32_t device, void *stream, const struct bp_copy *copy)
{
    uint32_t word[KIT_FAULTS];
    struct kit_guard_copy fault = {.words = word};
    struct mlu_stream *s = stream;
    KIT_CONTEXT caller = {NULL};
    enum bp_status status, read, joined;
    struct mlu_device *d;

    TRY(mlu_device_use(self, device, &caller, &d));
    read = kit_guard_read(&s->guard, &fault);
    status = copy_enqueue(s, copy->dst, copy->src, copy->size, DEVICE_TO_HOST);
    joined = mlu_stream_join(s); /* also after a failure: no copy writes to `word` any more */
    if (joined || !status) status = joined ? joined : read;
    return kit_guard_waited(&s->guard, &fault, status);
}

enum bp_status mlu_copy_within(void *self, uint32_t device, void *stream,
                               const struct bp_copy *copy)
{
    struct mlu_stream *s = stream;
    KIT_CONTEXT caller = {NULL};
    struct mlu_device *d;

    TRY(mlu_device_use(self, device, &caller, &d));
    return copy_enqueue(s, copy->dst, copy->src, copy->size, DEVICE_TO_DEVICE);
}

/* Whether the driver copies between the two devices. */
static bool copy_reaches(const struct mlu_device *d, uint32_t peer)
{
    const struct mlu_calls *call = d->self->call;
    unsigned possible = 0;

    if (!call->cnrtMemcpyPeerAsync || !call->cnrtGetPeerAccessibility) return false;
    MLU_NOTE(d, cnrtGetPeerAccessibility, &possible, (int)d->number, (int)peer);
    return possible != 0;
}

enum bp_status mlu_copy_peer(void *self, uint32_t device, void *stream, uint32_t to,
                             const struct bp_copy *copy)
{
    struct mlu_stream *s = stream;
    KIT_CONTEXT caller = {NULL};
    struct mlu_device *d;

    TRY(mlu_device_use(self, device, &caller, &d));
    if (!copy_reaches(d, to)) return BP_ERR_UNSUPPORTED;
    return MLU_CALL(d, cnrtMemcpyPeerAsync, copy->dst, (int)to, (void *)(uintptr_t)copy->src,
                    (int)device, (size_t)copy->size, s->raw);
}
