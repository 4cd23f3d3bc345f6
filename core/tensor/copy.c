/* SPDX-License-Identifier: Apache-2.0 */
/* copy.c: between host memory and tensors, and between tensors of any two devices. */
#include "tensor.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static enum bp_status copy_in(struct bp_stream *stream, struct bp_tensor *t, const void *host,
                              uint64_t size)
{
    struct bp_copy copy = {t->view.memory, t->view.data, NULL, host, size};

    return size ? bp_memory_copy(stream, BP_COPY_IN, &copy, t->storage, NULL) : BP_OK;
}

static enum bp_status copy_out(struct bp_stream *stream, struct bp_tensor *t, void *host,
                               uint64_t size)
{
    struct bp_copy copy = {NULL, host, t->view.memory, t->view.data, size};

    return size ? bp_memory_copy(stream, BP_COPY_OUT, &copy, t->storage, NULL) : BP_OK;
}

/* Moves elements between dense memory and a strided span, axis by axis. */
static void gather(const struct bp_tensor *t, uint32_t axis, char *dense, char *span,
                   int64_t *position, bool back)
{
    size_t width = bp_dtype_bits(t->view.dtype) / 8;

    if (axis == t->view.rank) {
        char *at = dense + (size_t)(*position)++ * width;
        memcpy(back ? span : at, back ? at : span, width);
        return;
    }
    for (int64_t i = 0; i < t->shape[axis]; i++)
        gather(t, axis + 1, dense, span + (size_t)(i * t->stride[axis]) * width, position, back);
}

/* A strided tensor goes through its span: what lies between its elements is read and written back,
 * so the caller orders a write with uses of all tensors in the same memory. Where the host may
 * touch the memory and no work is behind its back, elements move one by one. */
static enum bp_status copy_strided(struct bp_stream *stream, struct bp_tensor *t, void *host,
                                   bool write)
{
    uint64_t span = bp_tensor_span(t);
    int64_t position = 0;
    enum bp_status status;
    char *staging;

    if (!span) return BP_OK;
    if (stream->timeline->now && t->device->host_visible) {
        uint64_t number = bp_work_begin(stream->timeline, "copy");
        gather(t, 0, host, t->view.data, &position, write);
        bp_work_end(stream->timeline, number);
        return BP_OK;
    }
    staging = bp_core_allocate(t->device->core, span, 64);
    if (!staging)
        return bp_error(BP_ERR_MEMORY, "no host memory for %" PRIu64 " bytes of staging", span);
    status = copy_out(stream, t, staging, span);
    if (status == BP_OK) gather(t, 0, host, staging, &position, write);
    if (status == BP_OK && write) status = copy_in(stream, t, staging, span);
    bp_core_release(t->device->core, staging, span);
    return status;
}

static enum bp_status check_host(const char *call, struct bp_stream *stream, struct bp_tensor *t,
                                 const void *host, uint64_t size)
{
    uint64_t bytes;

    if (!bp_stream_is(stream)) return bp_not_a_for(call, "stream");
    if (!bp_tensor_is(t)) return bp_not_a_for(call, "tensor");
    if (stream->device != t->device)
        return bp_error(BP_ERR_INVALID, "%s: the tensor is on %s, the stream of %s", call,
                        t->device->name, stream->device->name);
    bytes = (uint64_t)t->view.count * (bp_dtype_bits(t->view.dtype) / 8);
    if (size != bytes)
        return bp_error(BP_ERR_INVALID,
                        "%s: size is %" PRIu64 ", but the tensor has %" PRIu64 " bytes", call, size,
                        bytes);
    if (size && !host) return bp_error(BP_ERR_INVALID, "%s: host is NULL", call);
    return bp_stream_check(stream);
}

enum bp_status bp_tensor_write(struct bp_stream *stream, struct bp_tensor *tensor, const void *host,
                               uint64_t size)
{
    TRY(check_host("bp_tensor_write", stream, tensor, host, size));
    if (!(tensor->view.flags & BP_VIEW_STRIDED)) return copy_in(stream, tensor, host, size);
    if (bp_view_overlaps_itself(&tensor->view))
        return bp_error(BP_ERR_INVALID,
                        "bp_tensor_write: the view may overlap itself: its strides repeat "
                        "or interleave, and two elements may be one");
    return copy_strided(stream, tensor, (void *)(uintptr_t)host, true);
}

enum bp_status bp_tensor_read(struct bp_stream *stream, struct bp_tensor *tensor, void *host,
                              uint64_t size)
{
    TRY(check_host("bp_tensor_read", stream, tensor, host, size));
    if (!(tensor->view.flags & BP_VIEW_STRIDED)) return copy_out(stream, tensor, host, size);
    return copy_strided(stream, tensor, host, false);
}

static enum bp_status check_copy(struct bp_stream *stream, struct bp_tensor *dst,
                                 struct bp_tensor *src)
{
    char a[BP_TYPE_TEXT], b[BP_TYPE_TEXT];

    if (!bp_stream_is(stream)) return bp_not_a_for("bp_tensor_copy", "stream");
    if (!bp_tensor_is(dst) || !bp_tensor_is(src)) return bp_not_a_for("bp_tensor_copy", "tensor");
    if (stream->device != dst->device)
        return bp_error(BP_ERR_INVALID, "bp_tensor_copy: dst is on %s, the stream of %s",
                        dst->device->name, stream->device->name);
    if (dst->view.dtype != src->view.dtype || dst->view.rank != src->view.rank ||
        memcmp(dst->shape, src->shape, dst->view.rank * sizeof *dst->shape))
        return bp_error(BP_ERR_INVALID,
                        "bp_tensor_copy: dst is %s, src is %s: expected equal dtype and shape",
                        bp_type_text(dst->view.dtype, dst->view.rank, dst->shape, a, sizeof a),
                        bp_type_text(src->view.dtype, src->view.rank, src->shape, b, sizeof b));
    if ((dst->view.flags | src->view.flags) & BP_VIEW_STRIDED)
        return bp_error(BP_ERR_UNSUPPORTED, "bp_tensor_copy: dst and src must be contiguous");
    return bp_stream_check(stream);
}

static enum bp_status copy_within(struct bp_stream *stream, struct bp_tensor *dst,
                                  struct bp_tensor *src, uint64_t size)
{
    struct bp_copy copy = {dst->view.memory, dst->view.data, src->view.memory, src->view.data,
                           size};

    if (dst->storage == src->storage && dst->offset < src->offset + size &&
        src->offset < dst->offset + size) {
        if (dst->offset == src->offset) return BP_OK;
        return bp_error(BP_ERR_INVALID, "bp_tensor_copy: dst and src overlap in one allocation");
    }
    return bp_memory_copy(stream, BP_COPY_WITHIN, &copy, dst->storage, src->storage);
}

/* The source is read by a stream of its own device, after all that device's work. */
static enum bp_status copy_between(struct bp_stream *stream, struct bp_tensor *dst,
                                   struct bp_tensor *src, uint64_t size)
{
    struct bp_core *core = dst->device->core;
    struct bp_stream *reader;
    enum bp_status status;
    void *staging;

    TRY(bp_device_synchronize(src->device));
    TRY(bp_stream_create(src->device, &reader));
    staging = bp_core_allocate(core, size, 64);
    status = staging
                 ? copy_out(reader, src, staging, size)
                 : bp_error(BP_ERR_MEMORY, "no host memory for %" PRIu64 " bytes of staging", size);
    if (status == BP_OK) status = copy_in(stream, dst, staging, size);
    bp_core_release(core, staging, size);
    bp_stream_destroy(reader);
    return status;
}

enum bp_status bp_tensor_copy(struct bp_stream *stream, struct bp_tensor *dst,
                              struct bp_tensor *src)
{
    uint64_t size;

    TRY(check_copy(stream, dst, src));
    size = (uint64_t)dst->view.count * (bp_dtype_bits(dst->view.dtype) / 8);
    if (!size) return BP_OK;
    if (dst->device == src->device) return copy_within(stream, dst, src, size);
    return copy_between(stream, dst, src, size);
}
