/* SPDX-License-Identifier: Apache-2.0 */
/* peer.c: copies between two devices of one plugin instance by the plugin, without a wait of the
 * host. A stream of the source device (the reader) makes the copy after all earlier work of that
 * device; all later work of the device runs after the copy. For an app it is as if the call had
 * waited. */
#include "../device/profiled.h"
#include "tensor.h"

static bool peer_has_streams(const struct bp_timeline *t)
{
    return !t->is_inline && !t->queue &&
           !(t->device->emulated &
             (BP_EMULATED_STREAMS | BP_EMULATED_EVENTS | BP_EMULATED_STREAM_WAIT));
}

bool bp_peer_can_copy(const struct bp_stream *stream, const struct bp_tensor *dst,
                      const struct bp_tensor *src)
{
    return dst->device->entry == src->device->entry &&
           dst->device->entry->runtime.copy_peer && peer_has_streams(stream->timeline) &&
           dst->view.space == BP_SPACE_DEVICE && src->view.space == BP_SPACE_DEVICE;
}

/* Captured work does not run now, and no other work may be inserted into it. */
static bool peer_is_recorded(struct bp_timeline *t)
{
    return atomic_load_explicit(&t->saved_pool, memory_order_acquire) != NULL;
}

/* Orders the reader after all other work of its device, and after the target's stream. */
static enum bp_status peer_order_after_all(struct bp_timeline *reader, struct bp_timeline *target)
{
    struct bp_timeline *t = atomic_load(&reader->device->timelines);

    for (; t; t = t->next)
        if (t != reader && !peer_is_recorded(t))
            TRY(bp_timeline_order_after(reader, t, atomic_load(&t->submitted)));
    return bp_timeline_order_after(reader, target, atomic_load(&target->submitted));
}

/* Orders all other streams of the device after the reader. */
static enum bp_status peer_order_all_after(struct bp_timeline *reader, uint64_t number)
{
    struct bp_timeline *t;

    atomic_store_explicit(&reader->barrier, number, memory_order_release); /* for later streams */
    for (t = atomic_load(&reader->device->timelines); t; t = t->next)
        if (t != reader && !t->is_inline && !peer_is_recorded(t))
            TRY(bp_timeline_insert_wait(t, reader, number));
    return BP_OK;
}

/* Submits one run after the other. BP_ERR_UNSUPPORTED: nothing was submitted. */
static enum bp_status peer_submit(struct bp_timeline *reader, struct bp_tensor *dst,
                                  struct bp_tensor *src, const struct bp_move *move)
{
    struct bp_plugin_entry *entry = reader->device->entry;
    struct bp_move_cursor at = {.dst = 0};
    bool is_first = true;

    do {
        struct bp_copy one = {dst->view.memory, (char *)dst->view.data + at.dst, src->view.memory,
                              (const char *)src->view.data + at.src, move->width};
        enum bp_status status;
        bp_error_enter();
        status = entry->runtime.copy_peer(entry->self, reader->device->index, reader->stream,
                                          dst->device->index, &one);
        if (status == BP_ERR_UNSUPPORTED && is_first) return status;
        TRY(bp_device_leave(reader->device, status, "copy_peer"));
        is_first = false;
    } while (bp_move_next(move, &at));
    return BP_OK;
}

/* The copy was submitted to the reader as work `number`: orders later work of the target's stream
 * after it. */
static enum bp_status peer_order_target(struct bp_stream *stream, struct bp_tensor *dst,
                                        struct bp_timeline *reader, uint64_t number)
{
    struct bp_timeline *target = stream->timeline;

    TRY(bp_timeline_order_after(target, reader, number));
    number = bp_work_begin(target, "copy_peer");
    bp_buffer_record_use(dst->buffer, target, number);
    bp_work_end(target, number);
    return BP_OK;
}

static enum bp_status peer_copy(struct bp_stream *stream, struct bp_tensor *dst,
                                struct bp_timeline *reader, struct bp_tensor *src,
                                const struct bp_move *move)
{
    enum bp_status status;
    uint64_t number, began;

    TRY(peer_order_after_all(reader, stream->timeline));
    number = bp_work_begin(reader, "copy_peer");
    began = bp_work_profile_begin(reader, number);
    status = bp_process_is_stopping() ? bp_error_stopped() : peer_submit(reader, dst, src, move);
    if (began)
        bp_work_profile_end(reader, number, began,
                            &(struct bp_profile_put){
                                .kind = BP_RECORD_COPY,
                                .name = "copy_peer",
                                .bytes = (uint64_t)src->view.count *
                                         (bp_dtype_bits(src->view.dtype) / 8),
                            });
    bp_buffer_record_use(src->buffer, reader, number);
    bp_work_end(reader, number);
    if (status == BP_ERR_UNSUPPORTED) return status;
    bp_tensor_record_write(dst);
    if (status == BP_OK) status = peer_order_target(stream, dst, reader, number);
    if (status == BP_OK) status = peer_order_all_after(reader, number);
    if (status) bp_timeline_wait(reader, number, &bp_deadline_none); /* the order needs this */
    return status;
}

enum bp_status bp_peer_copy(struct bp_stream *stream, struct bp_tensor *dst, struct bp_tensor *src,
                            const struct bp_move *move)
{
    struct bp_stream *reader;
    enum bp_status status;

    TRY(bp_stream_create_with(src->device, 0, &reader));
    status = peer_copy(stream, dst, reader->timeline, src, move);
    bp_stream_destroy(reader);
    if (status) return status;
    atomic_fetch_add_explicit(&dst->device->peer_copies, 1, memory_order_relaxed);
    return bp_stream_drain_if_sync(stream);
}
