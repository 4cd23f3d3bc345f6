/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c: streams: an order of work, a number for each piece of it, and a failure that stays. */
#include "../memory/memory.h"

#include <stdlib.h>
#include <string.h>

enum bp_status bp_stream_create(struct bp_device *device, struct bp_stream **out_stream)
{
    struct bp_stream *stream;
    struct bp_plugin_entry *entry;
    enum bp_status status = BP_OK;

    if (!bp_device_is(device)) return bp_not_a("device");
    if (!out_stream) return bp_error(BP_ERR_INVALID, "bp_stream_create: out_stream is NULL");
    stream = calloc(1, sizeof *stream);
    if (!stream) return bp_error(BP_ERR_MEMORY, "bp_stream_create: no memory");
    entry = device->entry;
    if (entry->runtime.stream_create) {
        bp_error_enter();
        status = bp_error_leave(
            entry->runtime.stream_create(entry->self, device->index, &stream->handle),
            entry->plugin.name, "stream_create");
    }
    if (status) {
        free(stream);
        return status;
    }
    stream->scope.magic = BP_MAGIC_STREAM;
    atomic_init(&stream->refs, 1);
    stream->device = device;
    bp_device_retain(device);
    pthread_mutex_init(&stream->lock, NULL);
    pthread_mutex_lock(&device->memory_lock);
    stream->serial = ++device->serials;
    stream->next = device->streams;
    device->streams = stream;
    pthread_mutex_unlock(&device->memory_lock);
    *out_stream = stream;
    return BP_OK;
}

static void unlink_stream(struct bp_stream *stream)
{
    struct bp_device *device = stream->device;
    struct bp_stream **at = &device->streams;

    pthread_mutex_lock(&device->memory_lock);
    while (*at != stream) at = &(*at)->next;
    *at = stream->next;
    pthread_mutex_unlock(&device->memory_lock);
}

void bp_stream_release(struct bp_stream *stream)
{
    struct bp_device *device = stream->device;

    if (atomic_fetch_sub_explicit(&stream->refs, 1, memory_order_acq_rel) != 1) return;
    unlink_stream(stream); /* destroy has waited for its work */
    bp_memory_collect(device);
    if (device->entry->runtime.stream_create)
        device->entry->runtime.stream_destroy(device->entry->self, device->index, stream->handle);
    pthread_mutex_destroy(&stream->lock);
    stream->scope.magic = 0;
    free(stream->why);
    free(stream);
    bp_device_release(device);
}

void bp_stream_destroy(struct bp_stream *stream)
{
    if (!bp_stream_is(stream)) return;
    bp_stream_drain(stream); /* a failure was for synchronize to tell */
    bp_stream_release(stream);
}

/* Refuses what failed before, with that status and message. */
static enum bp_status check(const struct bp_device *device, const char *what,
                            const _Atomic uint32_t *failed, char *const *why)
{
    uint32_t status = atomic_load_explicit(failed, memory_order_acquire);

    if (!status) return BP_OK;
    return bp_error((enum bp_status)status, "%s: the %s has failed before: %s", device->name, what,
                    *why ? *why : "");
}

enum bp_status bp_device_check(const struct bp_device *device)
{
    return check(device, "device", &device->failed, &device->why);
}

enum bp_status bp_stream_check(struct bp_stream *stream)
{
    TRY(check(stream->device, "stream", &stream->failed, &stream->why));
    return bp_device_check(stream->device);
}

/* The first failure stays; its message is on this thread. */
static enum bp_status keep(pthread_mutex_t *lock, _Atomic uint32_t *failed, char **why,
                           enum bp_status status)
{
    pthread_mutex_lock(lock);
    if (!atomic_load_explicit(failed, memory_order_relaxed)) {
        *why = strdup(bp_error_message());
        atomic_store_explicit(failed, status, memory_order_release);
    }
    pthread_mutex_unlock(lock);
    return status;
}

enum bp_status bp_device_fail(struct bp_device *device, enum bp_status status)
{
    return keep(&device->memory_lock, &device->failed, &device->why, status);
}

/* What says something of the wait, and nothing of the work that was waited for. */
static bool is_of_the_wait(enum bp_status status)
{
    return status == BP_OK || status == BP_ERR_TIMEOUT || status == BP_ERR_BUSY ||
           status == BP_ERR_INVALID || status == BP_ERR_UNSUPPORTED || status == BP_ERR_MEMORY;
}

enum bp_status bp_stream_waited(struct bp_stream *stream, enum bp_status status)
{
    if (is_of_the_wait(status)) return status;
    if (stream->device->emulated & BP_EMULATED_STREAMS)
        return bp_device_fail(stream->device, status);
    return keep(&stream->lock, &stream->failed, &stream->why, status);
}

enum bp_status bp_stream_drain(struct bp_stream *stream)
{
    struct bp_device *device = stream->device;
    struct bp_plugin_entry *entry = device->entry;
    uint64_t submitted = atomic_load(&device->submitted);
    enum bp_status status;

    if (device->is_inline) return bp_stream_check(stream);
    bp_error_enter();
    status = bp_error_leave(entry->runtime.synchronize(entry->self, device->index, stream->handle),
                            entry->plugin.name, "synchronize");
    if (bp_stream_waited(stream, status)) return status;
    if (device->emulated & BP_EMULATED_STREAMS) bp_device_advance(device, submitted);
    else bp_memory_passed(stream, submitted);
    return bp_stream_check(stream);
}

enum bp_status bp_stream_synchronize(struct bp_stream *stream)
{
    if (!bp_stream_is(stream)) return bp_not_a("stream");
    return bp_stream_drain(stream);
}

uint64_t bp_stream_last(struct bp_stream *stream)
{
    return bp_stream_is(stream) ? atomic_load(&stream->last) : 0;
}

struct bp_scope *bp_stream_scope(struct bp_stream *stream)
{
    return bp_stream_is(stream) ? &stream->scope : NULL;
}

struct bp_device *bp_stream_device(struct bp_stream *stream)
{
    return bp_stream_is(stream) ? stream->device : NULL;
}
