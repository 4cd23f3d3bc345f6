/* SPDX-License-Identifier: Apache-2.0 */
/* callback.c: functions of the app's that are called when a stream has got somewhere. */
#include "device.h"

#include <stdlib.h>

struct call_task {
    struct bp_task task; /* first */
    void (*fn)(void *ctx, enum bp_status status);
    void *ctx;
    uint64_t number; /* of the last work before */
};

/* On the stream's queue all work before has ended; else it is waited for here. A wait that cannot
 * be made is answered as what it is. */
static enum bp_status callback_call(struct bp_task *task, struct bp_timeline *timeline)
{
    struct call_task *c = (struct call_task *)task;
    enum bp_status status = BP_OK;

    if (!timeline->queue)
        status = bp_timeline_tell(timeline, c->number,
                                  bp_timeline_wait(timeline, c->number, &bp_no_deadline));
    if (status == BP_OK) status = bp_timeline_refuse(timeline, c->number);
    c->fn(c->ctx, status);
    return BP_OK;
}

static void callback_destroy(struct bp_task *task)
{
    free(task);
}

/* Made by the first call back of the streams that the timeline serves. */
static enum bp_status get_caller(struct bp_timeline *timeline, struct bp_queue **out_caller)
{
    struct bp_queue *caller = atomic_load(&timeline->caller);

    if (!caller) {
        TRY(bp_queue_create(timeline, &caller));
        atomic_store(&timeline->caller, caller);
    }
    *out_caller = caller;
    return BP_OK;
}

/* A mark now, so that work given later is not waited for with it; without one, it is. */
static enum bp_status call_later(struct bp_timeline *timeline, struct call_task *c)
{
    struct bp_deadline until = bp_deadline_of(timeline->device);
    struct bp_queue *caller;

    TRY(get_caller(timeline, &caller));
    bp_timeline_mark(timeline, c->number);
    return bp_queue_push(caller, &c->task, &until);
}

static enum bp_status call_in_order(struct bp_timeline *timeline, struct call_task *c)
{
    uint64_t number = bp_work_begin(timeline, c->task.name);
    struct bp_deadline until = bp_deadline_of(timeline->device);
    enum bp_status status;

    c->task.number = number;
    status = bp_stopping() ? bp_stopped()
                           : bp_queue_push(timeline->queue, &c->task, &until);
    if (status) bp_work_drop(timeline, number);
    else bp_work_end(timeline, number);
    return status;
}

enum bp_status bp_stream_callback(struct bp_stream *stream,
                                  void (*fn)(void *ctx, enum bp_status status), void *ctx)
{
    struct bp_timeline *timeline;
    struct bp_device *device;
    struct call_task *c;
    enum bp_status status;

    if (!bp_stream_is(stream)) return bp_not_a("stream");
    if (!fn) return bp_error(BP_ERR_INVALID, "bp_stream_callback: fn is NULL");
    timeline = stream->timeline;
    device = stream->device;
    if (timeline->now) {
        fn(ctx, bp_stream_check(stream));
        return BP_OK;
    }
    c = calloc(1, sizeof *c);
    if (!c) return bp_error(BP_ERR_MEMORY, "bp_stream_callback: no memory");
    c->task = (struct bp_task){
        .run = callback_call, .destroy = callback_destroy, .name = "a callback", .always = true};
    c->fn = fn;
    c->ctx = ctx;
    c->number = atomic_load(&timeline->last);
    bp_device_retain(device); /* fn may have destroyed the stream and its device before this ends */
    status = timeline->queue ? call_in_order(timeline, c) : call_later(timeline, c);
    bp_device_release(device);
    if (status) free(c);
    return status;
}
