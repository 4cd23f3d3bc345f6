/* SPDX-License-Identifier: Apache-2.0 */
/* copy.c: one copy of adjacent bytes, handed to the plugin; what they are is transfer.c's business.
 */
#include "tensor.h"

enum direction { IN, OUT, WITHIN };

/* Hands one copy, which uses two storages at most, to the plugin. A copy out ends all work before
 * it: a failure of that work may come with it, and on a device of one order all work so far is
 * done. */
static enum bp_status submit(struct bp_stream *stream, enum direction direction,
                             const struct bp_copy *copy, struct bp_storage *a, struct bp_storage *b)
{
    static const char *const name[] = {"copy_in", "copy_out", "copy_within"};
    struct bp_device *device = stream->device;
    const struct bp_runtime *r = &device->entry->runtime;
    void *self = device->entry->self;
    struct bp_pending *used[2] = {&a->pending, b ? &b->pending : NULL};
    uint64_t before = atomic_load(&device->submitted), number;
    enum bp_status status;

    bp_stream_submit(stream);
    bp_error_enter();
    switch (direction) {
    case IN: status = r->copy_in(self, device->index, stream->handle, copy); break;
    case OUT: status = r->copy_out(self, device->index, stream->handle, copy); break;
    default: status = r->copy_within(self, device->index, stream->handle, copy); break;
    }
    bp_error_leave(status, device->entry->plugin.name, name[direction]);
    number = bp_work_note(stream, used, 2);
    if (direction != OUT) return status;
    bp_stream_waited(stream, status);
    if (status == BP_OK && device->emulated & BP_EMULATED_STREAMS)
        bp_device_advance(device, number == before + 1 ? number : before);
    return status;
}

/* The place of a byte: on a device of handles an offset, in a pointer's clothes. */
static void *place(const struct bp_tensor *t, uint64_t at)
{
    return (void *)((uintptr_t)t->view.data + at);
}

enum bp_status bp_copy_in(struct bp_stream *stream, struct bp_tensor *t, uint64_t at,
                          const void *host, uint64_t size)
{
    struct bp_copy copy = {t->view.memory, place(t, at), NULL, host, size};

    return submit(stream, IN, &copy, t->storage, NULL);
}

enum bp_status bp_copy_out(struct bp_stream *stream, struct bp_tensor *t, uint64_t at, void *host,
                           uint64_t size)
{
    struct bp_copy copy = {NULL, host, t->view.memory, place(t, at), size};

    return submit(stream, OUT, &copy, t->storage, NULL);
}

enum bp_status bp_copy_within(struct bp_stream *stream, struct bp_tensor *dst, uint64_t dst_at,
                              struct bp_tensor *src, uint64_t src_at, uint64_t size)
{
    struct bp_copy copy = {dst->view.memory, place(dst, dst_at), src->view.memory,
                           place(src, src_at), size};

    return submit(stream, WITHIN, &copy, dst->storage, src->storage);
}
