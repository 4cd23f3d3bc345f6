/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c: simulates streams, by threads that execute queued work. */
#include "internal.h"
#include <stdlib.h>
#include <string.h>

const char base_stream_kind[] = "stream";
static struct base_stream *streams;

struct base_item *base_item_create(const struct base_work *work, const void *data, size_t size)
{
    struct base_item *item = aligned_alloc(16, (sizeof *item + size + 15) / 16 * 16);

    if (!item) return NULL;
    *item = (struct base_item){.work = work, .size = size};
    if (size) memcpy(item->data, data, size);
    return item;
}

void base_item_drop(struct base_item *item)
{
    if (item->work->drop) item->work->drop(item->data);
    free(item);
}

/* Seven of eight work items begin immediately. */
static void stream_pause(struct base_stream *stream, unsigned delay)
{
    uint32_t x = stream->pauses = stream->pauses * 1664525u + 1013904223u;

    if (delay && !(x >> 29)) base_sleep((long)((x >> 8 & 0xffff) % delay));
}

/* The code with which a work item begins: a sticky one, or that of a fault on demand. */
static int stream_fate(const struct base_stream *stream, long *late)
{
    const struct base_fault *fault = base_fault_of("work");

    *late = fault ? fault->late : 0;
    if (stream->device->sticky) return stream->device->sticky;
    return fault ? fault->code : 0;
}

/* Runs the first item of the stream. Under the lock, which is released meanwhile. */
static void stream_step(struct base_stream *stream)
{
    struct base_item *item = stream->first;
    unsigned delay = base.delay;
    long late;
    int code = stream_fate(stream, &late);

    if (code && !stream->device->sticky) stream->device->sticky = code;
    base_unlock();
    if (late) base_sleep(late);
    stream_pause(stream, delay);
    code = item->work->run(item->data, code);
    base_lock();
    if (code < 0) code = stream->device->vendor->illegal;
    if (code && !stream->device->sticky) stream->device->sticky = code;
    stream->first = item->next;
    if (!stream->first) stream->last = &stream->first;
    stream->done++;
    base_item_drop(item);
    pthread_cond_broadcast(&base.moved);
}

static void *stream_work(void *p)
{
    struct base_stream *stream = p;

    base_lock();
    while (stream->first || !stream->ending) {
        if (stream->first) stream_step(stream);
        else pthread_cond_wait(&stream->more, &base.lock);
    }
    base_unlock();
    return NULL;
}

struct base_stream *base_stream_create(struct base_device *device, void *owner)
{
    struct base_stream *stream = base_handle_create(base_stream_kind, sizeof *stream);

    if (!stream) return NULL;
    stream->device = device;
    stream->owner = owner;
    stream->last = &stream->first;
    stream->pauses = base.seed++;
    pthread_cond_init(&stream->more, NULL);
    if (pthread_create(&stream->thread, NULL, stream_work, stream)) {
        base_handle_destroy(stream);
        return NULL;
    }
    stream->next = streams;
    streams = stream;
    return stream;
}

bool base_stream_is(const void *handle)
{
    return base_handle_is(handle, base_stream_kind);
}

struct base_device *base_stream_device(const struct base_stream *stream)
{
    return stream->device;
}

void *base_stream_owner(const struct base_stream *stream)
{
    return stream->owner;
}

void base_stream_destroy(struct base_stream *stream)
{
    struct base_stream **at = &streams;

    while (*at != stream) at = &(*at)->next;
    *at = stream->next;
    base_capture_leave(stream);
    stream->ending = true;
    pthread_cond_signal(&stream->more);
    base_unlock();
    pthread_join(stream->thread, NULL);
    base_lock();
    pthread_cond_destroy(&stream->more);
    base_handle_destroy(stream);
    pthread_cond_broadcast(&base.moved);
}

static bool stream_is_open(const struct base_stream *stream)
{
    return base_stream_is(stream) && !stream->ending;
}

/* Waits until the stream has room for an item. Under the lock, which is released meanwhile. false:
 * another thread destroys the stream. */
static bool stream_wait_room(struct base_stream *stream)
{
    unsigned depth = stream->device->vendor->depth;

    while (depth && stream_is_open(stream) && !stream->capture &&
           stream->given - stream->done >= depth)
        base_wait(NULL);
    return stream_is_open(stream);
}

int base_submit(struct base_stream *stream, const struct base_work *work, const void *data,
                size_t size)
{
    struct base_item *item = base_item_create(work, data, size);

    if (!item) {
        void *copy = (void *)(uintptr_t)data; /* drop frees only what the data points to */
        if (work->drop) work->drop(copy);
        return BASE_NO_MEMORY;
    }
    if (!stream_wait_room(stream)) {
        base_item_drop(item);
        return BASE_BAD;
    }
    if (stream->capture) return base_capture_add(stream, item);
    *stream->last = item;
    stream->last = &item->next;
    stream->given++;
    pthread_cond_signal(&stream->more);
    return BASE_OK;
}

int base_stream_wait(struct base_stream *stream, int ms)
{
    struct base_device *device = stream->device;
    struct timespec deadline = base_deadline(ms < 0 ? 0 : ms);
    uint64_t until = stream->given;

    if (stream->capture) return base_capture_spoil(stream->capture);
    while (base_stream_is(stream) && stream->done < until)
        if (!base_wait(ms < 0 ? NULL : &deadline)) return BASE_TIMEOUT;
    return device->sticky;
}

int base_stream_query(struct base_stream *stream)
{
    if (stream->capture) return base_capture_spoil(stream->capture);
    if (stream->device->sticky) return stream->device->sticky;
    return stream->done < stream->given ? BASE_PENDING : BASE_OK;
}

size_t base_device_pending(const struct base_device *device)
{
    size_t n = 0;

    for (const struct base_stream *s = streams; s; s = s->next)
        if (s->device == device) n += (size_t)(s->given - s->done);
    return n;
}

int base_device_wait(struct base_device *device, int ms)
{
    struct timespec deadline = base_deadline(ms < 0 ? 0 : ms);

    if (base_capture_spoil_all(device)) return BASE_CAPTURED;
    while (base_device_pending(device))
        if (!base_wait(ms < 0 ? NULL : &deadline)) return BASE_TIMEOUT;
    base_guards_check();
    return device->sticky;
}

static bool event_has_owner(const void *event, void *owner)
{
    return ((const struct base_event *)event)->owner == owner;
}

void base_owner_end(const void *owner)
{
    struct base_stream *s = streams;
    struct base_event *event;

    while (s) {
        if (s->owner != owner) {
            s = s->next;
            continue;
        }
        base_stream_destroy(s);
        s = streams;
    }
    while ((event = base_handle_find(base_event_kind, event_has_owner, (void *)(uintptr_t)owner)))
        base_event_destroy(event);
}
