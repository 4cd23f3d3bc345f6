/* SPDX-License-Identifier: Apache-2.0 */
/* transfer.c: transfers elements between host memory and tensors, and between tensors of any two
 * devices.
 *
 * A stream with a queue receives one task (queued.c). Otherwise a transfer is done run by run
 * (move.c), with one copy of the plugin for each run, which touches only the elements. There are
 * two faster paths. If the host can access the memory, and work is done when its call returns, the
 * host moves the elements directly. If the runs are so many and so short that their calls cost more
 * than moving everything between the first and the last element, the whole span is copied through
 * host memory. */
#include "tensor.h"
#include "../memory/source.h"

#include <inttypes.h>
#include <string.h>

enum {
    FEW_RUNS = 64,          /* up to this number, runs are always used */
    RUN_BYTES = 16 << 10,   /* one plugin copy costs about as much as this many bytes */
    CHUNK_BYTES = 16 << 20, /* host memory for a copy between two devices */
};

static bool transfer_is_direct(const struct bp_stream *stream, const struct bp_tensor *t)
{
    return stream->timeline->is_inline && bp_tensor_host_visible(t);
}

/* The host moves the elements; this is numbered as work of the inline stream. */
static enum bp_status transfer_by_host(struct bp_stream *stream, const struct bp_move *move,
                                       void *dst, const void *src)
{
    uint64_t number = bp_work_begin(stream->timeline, "copy");
    bool stopped = bp_process_is_stopping();

    if (!stopped) bp_move_run(move, dst, src);
    bp_work_end(stream->timeline, number);
    return stopped ? bp_error_stopped() : BP_OK;
}

static bool transfer_prefers_runs(const struct bp_move *move, uint64_t span)
{
    uint64_t runs = (uint64_t)bp_move_count(move);

    return runs <= FEW_RUNS || runs <= span / RUN_BYTES;
}

static uint64_t width_of(const struct bp_tensor *t)
{
    return bp_dtype_bits(t->view.dtype) / 8;
}

/* Returns the bytes of all elements, without gaps. */
static uint64_t transfer_bytes_of(const struct bp_tensor *t)
{
    return (uint64_t)t->view.count * width_of(t);
}

static enum bp_status staging_alloc(struct bp_core *core, uint64_t size, char **out_staging)
{
    *out_staging = bp_core_alloc(core, size, 64);
    if (*out_staging) return BP_OK;
    return bp_error(BP_ERR_MEMORY, "no host memory for %" PRIu64 " bytes of staging", size);
}

static enum bp_status write_runs(struct bp_stream *stream, struct bp_tensor *t, const char *host,
                                 const struct bp_move *move)
{
    struct bp_move_cursor at = {.dst = 0};

    do TRY(bp_copy_in(stream, t, (uint64_t)at.dst, host + at.src, move->width));
    while (bp_move_next(move, &at));
    return BP_OK;
}

static enum bp_status read_runs(struct bp_stream *stream, struct bp_tensor *t, char *host,
                                const struct bp_move *move)
{
    struct bp_move_cursor at = {.dst = 0};

    do TRY(bp_copy_out(stream, t, (uint64_t)at.src, host + at.dst, move->width));
    while (bp_move_next(move, &at));
    return BP_OK;
}

enum bp_status bp_transfer_record_wait(struct bp_stream *stream)
{
    return stream->timeline->is_inline ? BP_OK : bp_block_record(stream->device, BP_BLOCK_COPY);
}

/* Reads the whole span and writes it back with the new elements, so that the bytes between them
 * stay. */
static enum bp_status write_span(struct bp_stream *stream, struct bp_tensor *t, const void *host,
                                 const struct bp_move *move, uint64_t span)
{
    enum bp_status status;
    char *staging;

    TRY(bp_transfer_record_wait(stream));
    TRY(staging_alloc(t->device->core, span, &staging));
    status = bp_copy_out(stream, t, 0, staging, span);
    if (status == BP_OK) {
        bp_move_run(move, staging, host);
        status = bp_copy_in(stream, t, 0, staging, span);
    }
    bp_core_free(t->device->core, staging, span);
    return status;
}

static enum bp_status read_span(struct bp_stream *stream, struct bp_tensor *t, void *host,
                                const struct bp_move *move, uint64_t span)
{
    enum bp_status status;
    char *staging;

    TRY(staging_alloc(t->device->core, span, &staging));
    status = bp_copy_out(stream, t, 0, staging, span);
    if (status == BP_OK) bp_move_run(move, host, staging);
    bp_core_free(t->device->core, staging, span);
    return status;
}

enum bp_status bp_transfer_write(struct bp_stream *stream, struct bp_tensor *t,
                                         const void *host)
{
    int64_t dense[BP_RANK_MAX];
    uint64_t span = bp_tensor_span(t);
    struct bp_move move;

    bp_type_strides(t->view.rank, t->shape, dense);
    bp_move_init(&move, t->view.rank, t->shape, t->stride, dense, width_of(t));
    if (stream->timeline->queue) {
        struct bp_copy copy = {t->view.memory, t->view.data, NULL, host, transfer_bytes_of(t)};
        return bp_transfer_enqueue(stream, &move, &copy, t, NULL);
    }
    bp_tensor_record_write(t);
    if (move.rank && transfer_is_direct(stream, t))
        return transfer_by_host(stream, &move, t->view.data, host);
    if (transfer_prefers_runs(&move, span)) return write_runs(stream, t, host, &move);
    return write_span(stream, t, host, &move, span);
}

enum bp_status bp_transfer_read(struct bp_stream *stream, struct bp_tensor *t, void *host)
{
    int64_t dense[BP_RANK_MAX];
    uint64_t span = bp_tensor_span(t);
    struct bp_move move;

    bp_type_strides(t->view.rank, t->shape, dense);
    bp_move_init(&move, t->view.rank, t->shape, dense, t->stride, width_of(t));
    if (stream->timeline->queue) {
        struct bp_copy copy = {NULL, host, t->view.memory, t->view.data, transfer_bytes_of(t)};
        return bp_transfer_enqueue(stream, &move, &copy, NULL, t);
    }
    if (move.rank && transfer_is_direct(stream, t))
        return transfer_by_host(stream, &move, host, t->view.data);
    if (transfer_prefers_runs(&move, span)) return read_runs(stream, t, host, &move);
    return read_span(stream, t, host, &move, span);
}

static enum bp_status check_host(const char *call, struct bp_stream *stream, struct bp_tensor *t,
                                 const void *host, uint64_t size)
{
    uint64_t bytes;

    if (!bp_stream_is(stream)) return bp_not_a_for(call, "stream");
    if (!bp_tensor_is(t)) return bp_not_a_tensor(call, t);
    bp_deferred_check(t->device, false);
    if (stream->device != t->device)
        return bp_error(BP_ERR_INVALID, "%s: the tensor is on %s%s, the stream of %s", call,
                        t->device->name, bp_device_qualifier(t->device, stream->device),
                        stream->device->name);
    bytes = transfer_bytes_of(t);
    if (size != bytes)
        return bp_error(BP_ERR_INVALID,
                        "%s: size is %" PRIu64 ", but the tensor has %" PRIu64 " bytes", call, size,
                        bytes);
    if (size && !host) return bp_error(BP_ERR_INVALID, "%s: host is NULL", call);
    return bp_stream_check(stream);
}

/* Checks that the target may be written, and that no two of its elements share memory. */
static enum bp_status check_target(const char *call, const struct bp_tensor *t)
{
    TRY(bp_tensor_check_write(call, "", t));
    if (t->view.flags & BP_VIEW_STRIDED && bp_view_overlaps_itself(&t->view))
        return bp_error(BP_ERR_INVALID,
                        "%s: the view may overlap itself: its strides repeat or interleave, and "
                        "two elements may be one",
                        call);
    return BP_OK;
}

enum bp_status bp_tensor_write(struct bp_stream *stream, struct bp_tensor *tensor, const void *host,
                               uint64_t size)
{
    enum bp_status status;
    bool began;

    TRY(check_host("bp_tensor_write", stream, tensor, host, size));
    TRY(check_target("bp_tensor_write", tensor));
    if (!size) return BP_OK;
    TRY(bp_tensor_overwrite(tensor, &began));
    status = bp_transfer_write(stream, tensor, host);
    bp_tensor_end_overwrite(tensor, began, status);
    return status;
}

enum bp_status bp_tensor_read(struct bp_stream *stream, struct bp_tensor *tensor, void *host,
                              uint64_t size)
{
    enum bp_status status;

    TRY(check_host("bp_tensor_read", stream, tensor, host, size));
    if (!size) return BP_OK;
    TRY(bp_buffer_settle(tensor->buffer));
    TRY(bp_buffer_hold_contents(tensor->buffer));
    status = bp_transfer_read(stream, tensor, host);
    bp_buffer_end_hold(tensor->buffer);
    return status;
}

static enum bp_status check_copy(struct bp_stream *stream, struct bp_tensor *dst,
                                 struct bp_tensor *src)
{
    char a[BP_TYPE_TEXT], b[BP_TYPE_TEXT];

    if (!bp_stream_is(stream)) return bp_not_a_for("bp_tensor_copy", "stream");
    if (!bp_tensor_is(dst)) return bp_not_a_tensor("bp_tensor_copy", dst);
    if (!bp_tensor_is(src)) return bp_not_a_tensor("bp_tensor_copy", src);
    bp_deferred_check(dst->device, false);
    if (stream->device != dst->device)
        return bp_error(BP_ERR_INVALID, "bp_tensor_copy: dst is on %s%s, the stream of %s",
                        dst->device->name, bp_device_qualifier(dst->device, stream->device),
                        stream->device->name);
    if (dst->view.dtype != src->view.dtype || dst->view.rank != src->view.rank ||
        memcmp(dst->shape, src->shape, dst->view.rank * sizeof *dst->shape))
        return bp_error(BP_ERR_INVALID,
                        "bp_tensor_copy: dst is %s, src is %s: expected equal dtype and shape",
                        bp_type_text(dst->view.dtype, dst->view.rank, dst->shape, a, sizeof a),
                        bp_type_text(src->view.dtype, src->view.rank, src->shape, b, sizeof b));
    TRY(check_target("bp_tensor_copy", dst));
    return bp_stream_check(stream);
}

/* Whether the two tensors are the same elements in the same order, so that a copy changes
 * nothing. */
static bool is_same_view(const struct bp_tensor *a, const struct bp_tensor *b)
{
    if (a->buffer != b->buffer || a->offset != b->offset) return false;
    for (uint32_t i = 0; i < a->view.rank; i++)
        if (a->shape[i] != 1 && a->stride[i] != b->stride[i]) return false;
    return true;
}

/* Copies through dense host memory, for layouts that share no long runs. */
static enum bp_status copy_by_host(struct bp_stream *stream, struct bp_tensor *dst,
                                   struct bp_stream *reader, struct bp_tensor *src)
{
    uint64_t size = transfer_bytes_of(dst);
    struct bp_core *core = dst->device->core;
    enum bp_status status;
    char *staging;

    TRY(staging_alloc(core, size, &staging));
    status = bp_transfer_read(reader, src, staging);
    if (status == BP_OK) status = bp_transfer_write(stream, dst, staging);
    bp_core_free(core, staging, size);
    return status;
}

/* Returns the number of plugin copies that a move takes: one for each run, and, where src repeats,
 * one for each time that the part of dst written so far doubles. */
static uint64_t transfer_copies_of(struct bp_move move)
{
    uint64_t block, times = 1, copies = 0;

    bp_move_split_repeats(&move, &block, &times);
    for (uint64_t done = 1; done < times; done *= 2) copies++;
    return copies + (uint64_t)bp_move_count(&move);
}

bool bp_transfer_within_waits(const struct bp_move *move)
{
    uint64_t copies = transfer_copies_of(*move);

    return copies > FEW_RUNS && copies > (uint64_t)bp_move_count(move) * move->width / RUN_BYTES;
}

/* Copies run by run. Where src repeats, the part of dst written so far is copied behind itself. */
static enum bp_status copy_within_runs(struct bp_stream *stream, const struct bp_move *move,
                                       struct bp_tensor *dst, struct bp_tensor *src)
{
    struct bp_move_cursor at = {.dst = 0};
    struct bp_move once = *move;
    uint64_t block = 0, times = 0;

    bp_move_split_repeats(&once, &block, &times);
    do TRY(bp_copy_within(stream, dst, (uint64_t)at.dst, src, (uint64_t)at.src, once.width));
    while (bp_move_next(&once, &at));
    for (uint64_t done = block, size; done < block * times; done += size) {
        size = done < block * times - done ? done : block * times - done;
        TRY(bp_copy_within(stream, dst, done, dst, 0, size));
    }
    return BP_OK;
}

enum bp_status bp_transfer_within(struct bp_stream *stream, const struct bp_move *move,
                                  struct bp_tensor *dst, struct bp_tensor *src)
{
    if (stream->timeline->queue) {
        struct bp_copy copy = {dst->view.memory, dst->view.data, src->view.memory, src->view.data,
                               transfer_bytes_of(dst)};
        return bp_transfer_enqueue(stream, move, &copy, dst, src);
    }
    if (move->rank && transfer_is_direct(stream, dst) && transfer_is_direct(stream, src)) {
        bp_tensor_record_write(dst);
        return transfer_by_host(stream, move, dst->view.data, src->view.data);
    }
    if (bp_transfer_within_waits(move)) {
        TRY(bp_transfer_record_wait(stream));
        return copy_by_host(stream, dst, stream, src);
    }
    bp_tensor_record_write(dst);
    return copy_within_runs(stream, move, dst, src);
}

static enum bp_status transfer_copy_within(struct bp_stream *stream, struct bp_tensor *dst,
                                           struct bp_tensor *src)
{
    struct bp_move move;

    if (is_same_view(dst, src)) return BP_OK;
    if (bp_tensors_overlap(dst, src))
        return bp_error(BP_ERR_INVALID, "bp_tensor_copy: dst and src overlap in memory");
    bp_move_init(&move, dst->view.rank, dst->shape, dst->stride, src->stride, width_of(dst));
    return bp_transfer_within(stream, &move, dst, src);
}

/* Copies between two contiguous tensors through a limited buffer in host memory. */
static enum bp_status copy_chunks(struct bp_stream *stream, struct bp_tensor *dst,
                                  struct bp_stream *reader, struct bp_tensor *src)
{
    uint64_t size = transfer_bytes_of(dst);
    uint64_t chunk = size < CHUNK_BYTES ? size : CHUNK_BYTES;
    struct bp_core *core = dst->device->core;
    enum bp_status status = BP_OK;
    char *staging;

    TRY(staging_alloc(core, chunk, &staging));
    bp_tensor_record_write(dst);
    for (uint64_t at = 0; at < size && status == BP_OK; at += chunk) {
        uint64_t n = size - at < chunk ? size - at : chunk;
        status = bp_copy_out(reader, src, at, staging, n);
        if (status == BP_OK) status = bp_copy_in(stream, dst, at, staging, n);
    }
    bp_core_free(core, staging, chunk);
    return status;
}

/* If the host can access one side and that side is dense, it is the host memory of the other side's
 * read or write. */
static enum bp_status copy_by_either_side(struct bp_stream *stream, struct bp_tensor *dst,
                                          struct bp_stream *reader, struct bp_tensor *src)
{
    bool dst_dense = !(dst->view.flags & BP_VIEW_STRIDED);
    bool src_dense = !(src->view.flags & BP_VIEW_STRIDED);

    if (src_dense && transfer_is_direct(reader, src))
        return bp_transfer_write(stream, dst, src->view.data);
    if (dst_dense && transfer_is_direct(stream, dst)) {
        uint64_t number = bp_work_begin(stream->timeline, "copy");
        enum bp_status status;
        bp_tensor_record_write(dst);
        status = bp_transfer_read(reader, src, dst->view.data);
        bp_work_end(stream->timeline, number);
        return status;
    }
    if (src_dense && dst_dense) return copy_chunks(stream, dst, reader, src);
    return copy_by_host(stream, dst, reader, src);
}

static bool has_queued_work(struct bp_device *device)
{
    for (struct bp_timeline *t = atomic_load(&device->timelines); t; t = t->next)
        if (t->queue && !bp_queue_is_idle(t->queue)) return true;
    return false;
}

/* Waits for the work before the copy, or returns an error before anything is done; the wait is
 * counted. A copy larger than BP_STAGED_MAX, which a queue cannot hold, is written when the queue
 * is empty. */
static enum bp_status transfer_wait_between(struct bp_stream *stream, const struct bp_tensor *dst,
                                            const struct bp_tensor *src)
{
    struct bp_queue *queue = stream->timeline->queue;
    bool large = queue && transfer_bytes_of(dst) > BP_STAGED_MAX;

    if (large) {
        TRY(bp_queue_check_deadlock(queue));
        if (!bp_queue_is_idle(queue)) TRY(bp_block_record(dst->device, BP_BLOCK_COPY));
    } else if (queue) {
        TRY(bp_queue_check_room(queue, 1));
    }
    if (!src->device->is_inline || has_queued_work(src->device))
        TRY(bp_block_record(src->device, BP_BLOCK_COPY));
    TRY(bp_device_synchronize(src->device));
    return large ? bp_stream_drain(stream) : BP_OK;
}

/* Copies by the plugin, if it supports this and the runs are long enough for one call each. */
static enum bp_status copy_by_plugin(struct bp_stream *stream, struct bp_tensor *dst,
                                     struct bp_tensor *src)
{
    struct bp_move move;

    if (!bp_peer_can_copy(stream, dst, src)) return BP_ERR_UNSUPPORTED;
    bp_move_init(&move, dst->view.rank, dst->shape, dst->stride, src->stride, width_of(dst));
    if (!transfer_prefers_runs(&move, transfer_bytes_of(dst))) return BP_ERR_UNSUPPORTED;
    return bp_peer_copy(stream, dst, src, &move);
}

/* Copies between two devices. A stream of the source device reads the source, after all work of
 * that device. */
static enum bp_status copy_between(struct bp_stream *stream, struct bp_tensor *dst,
                                   struct bp_tensor *src)
{
    enum bp_status status = copy_by_plugin(stream, dst, src);
    struct bp_stream *reader;

    if (status != BP_ERR_UNSUPPORTED) return status;
    TRY(transfer_wait_between(stream, dst, src));
    TRY(bp_stream_create_with(src->device, src->device->is_inline ? BP_STREAM_INLINE : 0, &reader));
    status = copy_by_either_side(stream, dst, reader, src);
    bp_stream_destroy(reader);
    return status;
}

static enum bp_status copy_elements(struct bp_stream *stream, struct bp_tensor *dst,
                                    struct bp_tensor *src)
{
    if (dst->device == src->device) return transfer_copy_within(stream, dst, src);
    TRY(bp_buffer_keep_contents(src->buffer)); /* the copy may end later */
    return copy_between(stream, dst, src);
}

enum bp_status bp_tensor_copy(struct bp_stream *stream, struct bp_tensor *dst,
                              struct bp_tensor *src)
{
    enum bp_status status;
    bool began;

    TRY(check_copy(stream, dst, src));
    if (!dst->view.count) return BP_OK;
    TRY(bp_buffer_settle(src->buffer));
    TRY(bp_buffer_hold_contents(src->buffer));
    status = bp_tensor_overwrite(dst, &began);
    if (status == BP_OK) status = copy_elements(stream, dst, src);
    bp_tensor_end_overwrite(dst, began, status);
    bp_buffer_end_hold(src->buffer);
    return status;
}
