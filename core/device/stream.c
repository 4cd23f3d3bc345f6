/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c: creates and destroys streams, and returns their properties and failures to the app. */
#include "../base/generator.h"
#include "device.h"

#include <stdlib.h>

static enum bp_status stream_check_create(struct bp_device *device, uint32_t flags,
                                          struct bp_stream **out_stream)
{
    if (!bp_device_is(device)) return bp_not_a_for("bp_stream_create", "device");
    if (!out_stream) return bp_error(BP_ERR_INVALID, "bp_stream_create: out_stream is NULL");
    if (flags & ~(uint32_t)(BP_STREAM_INLINE | BP_STREAM_ASYNC))
        return bp_error(BP_ERR_INVALID, "bp_stream_create: flags are %#x, of which some are none",
                        flags);
    if (flags == (BP_STREAM_INLINE | BP_STREAM_ASYNC))
        return bp_error(BP_ERR_INVALID,
                        "bp_stream_create: a stream is inline or asynchronous, not both");
    if (flags & BP_STREAM_INLINE && !device->is_inline)
        return bp_error(BP_ERR_UNSUPPORTED,
                        "bp_stream_create: %s works behind the host's back, it has no inline "
                        "stream",
                        device->name);
    return BP_OK;
}

/* Orders a new stream after the barrier points of the device's other timelines. */
static enum bp_status stream_order_barriers(struct bp_timeline *timeline)
{
    struct bp_timeline *t = atomic_load(&timeline->device->timelines);

    for (; t; t = t->next) {
        uint64_t number = atomic_load_explicit(&t->barrier, memory_order_acquire);
        if (number) TRY(bp_timeline_order_after(timeline, t, number));
    }
    return BP_OK;
}

enum bp_status bp_stream_create_with(struct bp_device *device, uint32_t flags,
                                     struct bp_stream **out_stream)
{
    struct bp_stream *stream;
    enum bp_status status;
    bool is_inline, queue;

    TRY(stream_check_create(device, flags, out_stream));
    if (!flags) flags = device->core->async_streams ? BP_STREAM_ASYNC : BP_STREAM_INLINE;
    is_inline = device->is_inline && flags & BP_STREAM_INLINE;
    queue = device->is_inline && !is_inline;
    stream = bp_handle_alloc(sizeof *stream);
    if (!stream) return bp_error(BP_ERR_MEMORY, "bp_stream_create: no memory");
    status = bp_timeline_create(device, is_inline, queue, &stream->timeline);
    if (status == BP_OK) {
        status = stream_order_barriers(stream->timeline);
        if (status) bp_timeline_retire(stream->timeline);
    }
    if (status) {
        free(stream);
        return status;
    }
    stream->scope.magic = bp_magic(BP_MAGIC_STREAM);
    stream->flags = is_inline ? BP_STREAM_INLINE : BP_STREAM_ASYNC;
    stream->device = device;
    stream->inline_device = is_inline ? device : NULL;
    stream->synchronous = device->core->sync_launch && !is_inline;
    bp_device_retain(device);
    *out_stream = stream;
    return BP_OK;
}

enum bp_status bp_stream_create(struct bp_device *device, struct bp_stream **out_stream)
{
    return bp_stream_create_with(device, 0, out_stream);
}

void bp_stream_destroy(struct bp_stream *stream)
{
    struct bp_device *device;

    if (!bp_stream_is(stream)) return;
    device = stream->device;
    stream->scope.magic = 0;
    stream->inline_device = NULL;
    device->destroy_cache(stream->cache);
    if (stream->generator) bp_generator_release(stream->generator);
    bp_timeline_retire(stream->timeline);
    free(stream);
    bp_device_release(device);
}

enum bp_status bp_stream_check(struct bp_stream *stream)
{
    TRY(bp_device_check_lost(stream->device));
    TRY(bp_failure_check(stream->device, "stream", &stream->timeline->failure));
    return bp_device_check(stream->device);
}

enum bp_status bp_stream_check_calls(struct bp_stream *stream)
{
    if (!bp_stream_is(stream)) return bp_not_a("stream");
    TRY(bp_stream_check(stream));
    return bp_stream_is_cancelled(stream) ? bp_timeline_error_cancelled(stream->timeline) : BP_OK;
}

enum bp_status bp_stream_cancel(struct bp_stream *stream)
{
    if (!bp_stream_is(stream)) return bp_not_a("stream");
    atomic_store(&stream->timeline->cancelled, true);
    return BP_OK;
}

/* The worker skips the tasks that are in the queue, and stores the failure of the first one. When
 * the queue is empty, this failure is retired: it belongs to the numbers of those tasks only. */
enum bp_status bp_stream_resume(struct bp_stream *stream)
{
    struct bp_timeline *timeline;
    struct bp_deadline until;

    if (!bp_stream_is(stream)) return bp_not_a("stream");
    timeline = stream->timeline;
    until = bp_deadline_of(stream->device);
    if (timeline->queue && bp_stream_is_cancelled(stream))
        TRY(bp_queue_flush(timeline->queue, &until));
    TRY(bp_timeline_retire_cancelled(timeline));
    atomic_store(&timeline->cancelled, false);
    return BP_OK;
}

uint64_t bp_stream_last(struct bp_stream *stream)
{
    const struct bp_timeline *timeline = bp_stream_is(stream) ? stream->timeline : NULL;

    return timeline ? atomic_load(&timeline->last) - atomic_load(&timeline->base) : 0;
}

uint32_t bp_stream_number(struct bp_stream *stream)
{
    return bp_stream_is(stream) ? stream->timeline->id : 0;
}

enum bp_stream_flags bp_stream_get_flags(struct bp_stream *stream)
{
    return bp_stream_is(stream) ? stream->flags : 0;
}

struct bp_scope *bp_stream_scope(struct bp_stream *stream)
{
    return bp_stream_is(stream) ? &stream->scope : NULL;
}

struct bp_device *bp_stream_device(struct bp_stream *stream)
{
    return bp_stream_is(stream) ? stream->device : NULL;
}
