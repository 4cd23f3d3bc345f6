/* SPDX-License-Identifier: Apache-2.0 */
/* copy.c: passes one copy of adjacent bytes to the plugin, or to the stream's queue. transfer.c
 * decides which bytes to copy. */
#include "tensor.h"

/* Returns the address of a byte. On a device with handles it is an offset, stored as a pointer. */
static void *copy_address(const struct bp_tensor *t, uint64_t at)
{
    return (void *)((uintptr_t)t->view.data + at);
}

/* Submits one copy. dst or src NULL: that side is host memory. */
static enum bp_status copy_submit(struct bp_stream *stream, enum bp_direction direction,
                                  const struct bp_copy *copy, struct bp_tensor *dst,
                                  struct bp_tensor *src)
{
    struct bp_move whole = {.width = copy->size};

    if (stream->timeline->queue) return bp_transfer_enqueue(stream, &whole, copy, dst, src);
    return bp_memory_copy(stream, direction, copy, (dst ? dst : src)->buffer,
                          dst && src ? src->buffer : NULL);
}

enum bp_status bp_copy_in(struct bp_stream *stream, struct bp_tensor *t, uint64_t at,
                          const void *host, uint64_t size)
{
    struct bp_copy copy = {t->view.memory, copy_address(t, at), NULL, host, size};

    return copy_submit(stream, BP_COPY_IN, &copy, t, NULL);
}

enum bp_status bp_copy_out(struct bp_stream *stream, struct bp_tensor *t, uint64_t at, void *host,
                           uint64_t size)
{
    struct bp_copy copy = {NULL, host, t->view.memory, copy_address(t, at), size};

    return copy_submit(stream, BP_COPY_OUT, &copy, NULL, t);
}

enum bp_status bp_copy_within(struct bp_stream *stream, struct bp_tensor *dst, uint64_t dst_at,
                              struct bp_tensor *src, uint64_t src_at, uint64_t size)
{
    struct bp_copy copy = {dst->view.memory, copy_address(dst, dst_at), src->view.memory,
                           copy_address(src, src_at), size};

    return copy_submit(stream, BP_COPY_WITHIN, &copy, dst, src);
}
