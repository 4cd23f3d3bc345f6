/* SPDX-License-Identifier: Apache-2.0 */
/* drain.c: waits for a stream or a device on behalf of the app, then frees memory whose work has
 * ended. */
#include "memory.h"

static enum bp_status stream_drain_until(struct bp_stream *stream, const struct bp_deadline *until)
{
    struct bp_timeline *timeline = stream->timeline;
    enum bp_status status = bp_timeline_drain(timeline, until);

    if (status) return bp_timeline_report(timeline, atomic_load(&timeline->last), status);
    bp_memory_collect(stream->device);
    return bp_stream_check(stream);
}

enum bp_status bp_stream_drain(struct bp_stream *stream)
{
    struct bp_deadline until = bp_deadline_of(stream->device);

    return stream_drain_until(stream, &until);
}

enum bp_status bp_stream_drain_if_sync(struct bp_stream *stream)
{
    const struct bp_timeline *timeline = stream->timeline;

    if (!stream->synchronous || bp_queue_is_current(timeline->queue) ||
        bp_queue_is_current(atomic_load(&timeline->callbacks)))
        return BP_OK;
    return bp_stream_drain(stream);
}

enum bp_status bp_stream_synchronize(struct bp_stream *stream)
{
    if (!bp_stream_is(stream)) return bp_not_a("stream");
    return bp_stream_drain(stream);
}

enum bp_status bp_stream_synchronize_for(struct bp_stream *stream, uint64_t timeout_ns)
{
    struct bp_deadline until;

    if (!bp_stream_is(stream)) return bp_not_a("stream");
    until = bp_deadline_after(timeout_ns);
    return stream_drain_until(stream, &until);
}

static enum bp_status device_synchronize_before(struct bp_device *device,
                                                const struct bp_deadline *until)
{
    TRY(bp_device_drain(device, until));
    TRY(bp_device_check_lost(device));
    bp_memory_collect(device);
    bp_timelines_poll(device);
    for (struct bp_timeline *t = atomic_load(&device->timelines); t; t = t->next)
        TRY(bp_timeline_check_unreported(t));
    return bp_device_check(device);
}

enum bp_status bp_device_synchronize(struct bp_device *device)
{
    struct bp_deadline until;

    if (!bp_device_is(device)) return bp_not_a("device");
    until = bp_deadline_of(device);
    return device_synchronize_before(device, &until);
}

enum bp_status bp_device_synchronize_for(struct bp_device *device, uint64_t timeout_ns)
{
    struct bp_deadline until;

    if (!bp_device_is(device)) return bp_not_a("device");
    until = bp_deadline_after(timeout_ns);
    return device_synchronize_before(device, &until);
}
