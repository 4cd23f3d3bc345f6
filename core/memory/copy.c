/* SPDX-License-Identifier: Apache-2.0 */
/* copy.c: submits copies to the plugin, between a buffer and the host or between two buffers. */
#include "../device/profiled.h"
#include "memory.h"

static const char *const name[] = {"copy_in", "copy_out", "copy_within"};

/* A copy out waits for all work before it, so the plugin may return a failure of that work. */
enum bp_status bp_memory_submit_copy(struct bp_timeline *timeline, enum bp_direction direction,
                                     const struct bp_copy *copy)
{
    struct bp_device *device = timeline->device;
    const struct bp_runtime *r = &device->entry->runtime;
    void *self = device->entry->self, *stream = timeline->stream;
    uint64_t number = atomic_load_explicit(&timeline->last, memory_order_relaxed), began;
    enum bp_status status;

    bp_error_enter();
    began = bp_work_profile_begin(timeline, number);
    switch (direction) {
    case BP_COPY_IN: status = r->copy_in(self, device->index, stream, copy); break;
    case BP_COPY_OUT: status = r->copy_out(self, device->index, stream, copy); break;
    default: status = r->copy_within(self, device->index, stream, copy); break;
    }
    if (began)
        bp_work_profile_end(timeline, number, began,
                            &(struct bp_profile_put){.kind = BP_RECORD_COPY,
                                                     .name = name[direction],
                                                     .bytes = copy->size});
    return bp_device_leave(device, status, name[direction]);
}

const char *bp_direction_name(enum bp_direction direction)
{
    return name[direction];
}

/* A copy out waits inside the plugin for all work before it. If waits have a deadline, the host
 * waits for that work first. */
static enum bp_status copy_wait_work(struct bp_timeline *timeline)
{
    struct bp_deadline until = bp_deadline_of(timeline->device);
    uint64_t number = atomic_load(&timeline->last);

    if (timeline->is_inline || !bp_deadline_is_set(&until)) return BP_OK;
    return bp_timeline_report(timeline, number, bp_timeline_wait(timeline, number, &until));
}

enum bp_status bp_memory_copy(struct bp_stream *stream, enum bp_direction direction,
                              const struct bp_copy *copy, struct bp_buffer *a,
                              struct bp_buffer *b)
{
    struct bp_timeline *timeline = stream->timeline;
    enum bp_status status;
    uint64_t number;

    if (direction == BP_COPY_OUT) TRY(bp_timeline_check_deadlock(timeline));
    if (timeline->recording && direction != BP_COPY_WITHIN)
        return bp_error(BP_ERR_UNSUPPORTED, "%s: the host has a part in it", name[direction]);
    if (direction == BP_COPY_OUT) TRY(copy_wait_work(timeline));
    number = bp_work_begin(timeline, name[direction]);
    status = bp_process_is_stopping() ? bp_error_stopped()
                                      : bp_memory_submit_copy(timeline, direction, copy);
    bp_buffer_record_use(a, timeline, number);
    if (b) bp_buffer_record_use(b, timeline, number);
    bp_work_end(timeline, number);
    if (direction != BP_COPY_OUT) return status ? status : bp_stream_drain_if_sync(stream);
    if (status) return bp_timeline_report(timeline, number, bp_timeline_fail(timeline, status));
    /* A collective call that was aborted ends without an error for the plugin. */
    status = bp_timeline_check(timeline, number);
    if (status) return bp_timeline_report(timeline, number, status);
    bp_timeline_advance(timeline, number);
    return BP_OK;
}
