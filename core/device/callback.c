/* SPDX-License-Identifier: Apache-2.0 */
/* callback.c: calls a function of the app when a stream has finished its earlier work
 * (bp_stream_callback). */
#include "device.h"

#include <stdlib.h>

struct callback_task {
    struct bp_task task; /* first */
    void (*fn)(void *ctx, enum bp_status status);
    void *ctx;
    uint64_t number; /* number of the last work before the callback */
};

/* On the stream's own queue all earlier work has ended when this task runs; otherwise the task
 * waits for that work here. If the wait itself fails, fn receives the status of the wait. */
static enum bp_status callback_run(struct bp_task *task, struct bp_timeline *timeline)
{
    struct callback_task *c = (struct callback_task *)task;
    enum bp_status status = BP_OK;

    if (!timeline->queue)
        status = bp_timeline_report(timeline, c->number,
                                    bp_timeline_wait(timeline, c->number, &bp_deadline_none));
    if (status == BP_OK) status = bp_timeline_check(timeline, c->number);
    c->fn(c->ctx, status);
    return BP_OK;
}

static void callback_destroy(struct bp_task *task)
{
    free(task);
}

/* The first callback on a timeline creates the queue; later streams of the timeline use the same
 * one. */
static enum bp_status callback_get_queue(struct bp_timeline *timeline,
                                         struct bp_queue **out_callbacks)
{
    struct bp_queue *callbacks = atomic_load(&timeline->callbacks);

    if (!callbacks) {
        TRY(bp_queue_create(timeline, &callbacks));
        atomic_store(&timeline->callbacks, callbacks);
    }
    *out_callbacks = callbacks;
    return BP_OK;
}

/* Records a fence now, so that the callback does not wait for later work. If no fence can be
 * recorded, the callback waits for later work too. */
static enum bp_status callback_push(struct bp_timeline *timeline, struct callback_task *c)
{
    struct bp_deadline until = bp_deadline_of(timeline->device);
    struct bp_queue *callbacks;

    TRY(callback_get_queue(timeline, &callbacks));
    bp_timeline_record_fence(timeline, c->number);
    return bp_queue_push(callbacks, &c->task, &until);
}

static enum bp_status callback_push_in_order(struct bp_timeline *timeline, struct callback_task *c)
{
    uint64_t number = bp_work_begin(timeline, c->task.name);
    struct bp_deadline until = bp_deadline_of(timeline->device);
    enum bp_status status;

    c->task.number = number;
    status = bp_process_is_stopping() ? bp_error_stopped()
                           : bp_queue_push(timeline->queue, &c->task, &until);
    if (status) bp_work_cancel(timeline, number);
    else bp_work_end(timeline, number);
    return status;
}

enum bp_status bp_stream_callback(struct bp_stream *stream,
                                  void (*fn)(void *ctx, enum bp_status status), void *ctx)
{
    struct bp_timeline *timeline;
    struct bp_device *device;
    struct callback_task *c;
    enum bp_status status;

    if (!bp_stream_is(stream)) return bp_not_a("stream");
    if (!fn) return bp_error(BP_ERR_INVALID, "bp_stream_callback: fn is NULL");
    timeline = stream->timeline;
    device = stream->device;
    if (timeline->is_inline) {
        fn(ctx, bp_stream_check(stream));
        return BP_OK;
    }
    c = calloc(1, sizeof *c);
    if (!c) return bp_error(BP_ERR_MEMORY, "bp_stream_callback: no memory");
    c->task = (struct bp_task){
        .run = callback_run, .destroy = callback_destroy, .name = "a callback", .always = true};
    c->fn = fn;
    c->ctx = ctx;
    c->number = atomic_load(&timeline->last);
    bp_device_retain(device); /* fn may destroy the stream and its device before this returns */
    status = timeline->queue ? callback_push_in_order(timeline, c) : callback_push(timeline, c);
    bp_device_release(device);
    if (status) free(c);
    return status;
}
