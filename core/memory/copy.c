/* SPDX-License-Identifier: Apache-2.0 */
/* copy.c: hands copies to the plugin, by way of the stream's queue if it has one. */
#include "memory.h"

#include <stdlib.h>
#include <string.h>

enum { STAGED_MAX = 1 << 20 }; /* bytes of host memory that a queue copies, not to wait for it */

static const char *const name[] = {"copy_in", "copy_out", "copy_within"};

/* The plugin's callback. A copy out ends all work before it: a failure of that work may come with
 * it. */
static enum bp_status call(struct bp_timeline *timeline, enum bp_direction direction,
                           const struct bp_copy *copy)
{
    struct bp_device *device = timeline->device;
    const struct bp_runtime *r = &device->entry->runtime;
    void *self = device->entry->self, *stream = timeline->stream;
    enum bp_status status;

    bp_error_enter();
    switch (direction) {
    case BP_COPY_IN: status = r->copy_in(self, device->index, stream, copy); break;
    case BP_COPY_OUT: status = r->copy_out(self, device->index, stream, copy); break;
    default: status = r->copy_within(self, device->index, stream, copy); break;
    }
    return bp_device_leave(device, status, name[direction]);
}

struct copy_task {
    struct bp_task task; /* first */
    struct bp_copy copy;
    enum bp_direction direction;
    char staged[];
};

static enum bp_status run(struct bp_task *task, struct bp_timeline *timeline)
{
    struct copy_task *c = (struct copy_task *)task;

    return call(timeline, c->direction, &c->copy);
}

static void destroy(struct bp_task *task)
{
    free(task);
}

/* A copy in is staged, or waited for, since the host memory is the app's again afterwards. */
static enum bp_status queue_copy(struct bp_timeline *timeline, enum bp_direction direction,
                                 const struct bp_copy *copy, uint64_t number)
{
    bool staged = direction == BP_COPY_IN && copy->size <= STAGED_MAX;
    struct copy_task *c = malloc(sizeof *c + (staged ? copy->size : 0));
    enum bp_status status;

    if (!c) return bp_error(BP_ERR_MEMORY, "no memory for a copy in a queue");
    *c = (struct copy_task){.task = {.run = run, .destroy = destroy, .number = number,
                                     .name = name[direction]},
                            .copy = *copy, .direction = direction};
    if (staged) c->copy.src = memcpy(c->staged, copy->src, copy->size);
    status = bp_queue_push(timeline->queue, &c->task);
    if (status) free(c);
    return status;
}

enum bp_status bp_memory_copy(struct bp_stream *stream, enum bp_direction direction,
                              const struct bp_copy *copy, struct bp_storage *a,
                              struct bp_storage *b)
{
    struct bp_timeline *timeline = stream->timeline;
    uint64_t number = bp_work_begin(timeline, name[direction]);
    enum bp_status status = bp_stopping()     ? bp_stopped()
                            : timeline->queue ? queue_copy(timeline, direction, copy, number)
                                              : call(timeline, direction, copy);

    if (status && timeline->queue) return bp_work_drop(timeline, number), status;
    bp_storage_use(a, timeline, number);
    if (b) bp_storage_use(b, timeline, number);
    bp_work_end(timeline, number);
    if (timeline->queue) {
        if (direction == BP_COPY_WITHIN || (direction == BP_COPY_IN && copy->size <= STAGED_MAX))
            return BP_OK;
        TRY(bp_queue_wait(timeline->queue, number, UINT64_MAX));
        return bp_stream_check(stream);
    }
    if (direction != BP_COPY_OUT)
        return status == BP_OK && stream->synchronous ? bp_stream_drain(stream) : status;
    if (status) return bp_timeline_fail(timeline, status);
    bp_timeline_reached(timeline, number);
    return BP_OK;
}
