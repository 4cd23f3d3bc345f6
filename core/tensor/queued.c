/* SPDX-License-Identifier: Apache-2.0 */
/* queued.c: copies tensors on streams with a queue. Each transfer is one task, whatever the
 * layouts, so that a call is queued completely or not at all. It waits only for host memory that is
 * too large to be copied into the task. */
#include "tensor.h"

#include <stdlib.h>
#include <string.h>

struct transfer_task {
    struct bp_task task; /* first */
    struct bp_move move;
    struct bp_copy copy;
    enum bp_direction direction;
    bool by_host; /* the host accesses both sides */
    char staged[];
};

/* Copies the first `block` bytes of dst behind themselves until there are `times` such blocks. */
static enum bp_status queued_copy_repeat(const struct transfer_task *t,
                                         struct bp_timeline *timeline, uint64_t block,
                                         uint64_t times)
{
    for (uint64_t done = block; done < block * times; done *= 2) {
        struct bp_copy one = t->copy;
        one.src_memory = one.dst_memory;
        one.src = one.dst;
        one.dst = (void *)((uintptr_t)one.dst + done);
        one.size = done < block * times - done ? done : block * times - done;
        TRY(bp_memory_submit_copy(timeline, t->direction, &one));
    }
    return BP_OK;
}

/* Copies run by run, by the plugin. */
static enum bp_status queued_copy_run_each(const struct transfer_task *t,
                                           struct bp_timeline *timeline)
{
    struct bp_move_cursor at = {.dst = 0};
    struct bp_move once = t->move;
    uint64_t block = 0, times = 0;

    if (t->direction == BP_COPY_WITHIN) bp_move_split_repeats(&once, &block, &times);
    do {
        struct bp_copy one = t->copy;
        one.dst = (void *)((uintptr_t)one.dst + (uint64_t)at.dst);
        one.src = (const void *)((uintptr_t)one.src + (uint64_t)at.src);
        one.size = once.width;
        TRY(bp_memory_submit_copy(timeline, t->direction, &one));
    } while (bp_move_next(&once, &at));
    return queued_copy_repeat(t, timeline, block, times);
}

static enum bp_status queued_copy_run(struct bp_task *task, struct bp_timeline *timeline)
{
    const struct transfer_task *t = (const struct transfer_task *)task;

    if (!t->by_host) return queued_copy_run_each(t, timeline);
    bp_move_run(&t->move, t->copy.dst, t->copy.src);
    return BP_OK;
}

static void queued_copy_destroy(struct bp_task *task)
{
    free(task);
}

/* Pushes the task. A single run is copied by the plugin, which may know a faster way than the
 * host. */
static enum bp_status queued_copy_push(struct bp_stream *stream, const struct bp_move *move,
                                       const struct bp_copy *copy, enum bp_direction direction,
                                       bool staged, bool visible, uint64_t number)
{
    struct transfer_task *t = malloc(sizeof *t + (staged ? copy->size : 0));
    struct bp_deadline until;
    enum bp_status status;

    if (!t) return bp_error(BP_ERR_MEMORY, "no memory for a copy in a queue");
    *t = (struct transfer_task){.task = {.run = queued_copy_run, .destroy = queued_copy_destroy,
                                         .number = number, .name = bp_direction_name(direction)},
                                .move = *move, .copy = *copy, .direction = direction,
                                .by_host = visible && move->rank};
    if (staged) t->copy.src = memcpy(t->staged, copy->src, copy->size);
    until = bp_deadline_of(stream->device);
    status = bp_queue_push(stream->timeline->queue, &t->task, &until);
    if (status) queued_copy_destroy(&t->task);
    return status;
}

/* Checks before anything is queued whether the later wait would be refused. */
static enum bp_status queued_copy_check_wait(struct bp_stream *stream, enum bp_direction direction)
{
    struct bp_queue *queue = stream->timeline->queue;

    TRY(bp_queue_check_deadlock(queue));
    if (direction == BP_COPY_OUT || bp_queue_is_idle(queue)) return BP_OK;
    return bp_block_record(stream->device, BP_BLOCK_WRITE);
}

enum bp_status bp_transfer_enqueue(struct bp_stream *stream, const struct bp_move *move,
                                   const struct bp_copy *copy, struct bp_tensor *dst,
                                   struct bp_tensor *src)
{
    struct bp_timeline *timeline = stream->timeline;
    enum bp_direction direction = !src ? BP_COPY_IN : !dst ? BP_COPY_OUT : BP_COPY_WITHIN;
    bool staged = !src && copy->size <= BP_STAGED_MAX, waits = !dst || (!src && !staged);
    bool visible = (!dst || bp_tensor_host_visible(dst)) && (!src || bp_tensor_host_visible(src));
    struct bp_deadline until;
    enum bp_status status;
    uint64_t number;

    if (bp_stream_is_cancelled(stream)) return bp_timeline_error_cancelled(timeline);
    if (waits) TRY(queued_copy_check_wait(stream, direction));
    number = bp_work_begin(timeline, bp_direction_name(direction));
    status = bp_process_is_stopping()
                 ? bp_error_stopped()
                 : queued_copy_push(stream, move, copy, direction, staged, visible, number);
    if (status) {
        bp_work_cancel(timeline, number);
        return status;
    }
    if (dst) bp_buffer_record_use(dst->buffer, timeline, number);
    if (src) bp_buffer_record_use(src->buffer, timeline, number);
    bp_work_end(timeline, number);
    if (dst) bp_tensor_record_write(dst);
    if (!waits) return bp_stream_drain_if_sync(stream);
    until = bp_deadline_of(stream->device);
    TRY(bp_queue_wait_or_cancel(timeline->queue, number, &until));
    return bp_stream_check(stream);
}
