/* SPDX-License-Identifier: Apache-2.0 */
/* device.h: devices, streams and events inside the core. */
#ifndef BP_DEVICE_PRIVATE_H
#define BP_DEVICE_PRIVATE_H

#include "../core.h"
#include "../plugin/entry.h"

/* When something was last used: the number of that work in the device's timeline, and the serial of
 * the stream that it went to; BP_SERIAL_MANY after work on several. */
struct bp_use {
    uint64_t last, serial;
};
#define BP_SERIAL_MANY UINT64_MAX

/* Something that the app gave back and that goes when its work has ended: first in what embeds it.
 */
struct bp_pending {
    struct bp_use use; /* under the device's memory_lock */
    void (*release)(struct bp_pending *pending); /* called without locks */
    struct bp_pending *next;
};

struct bp_device {
    uint32_t magic;
    _Atomic uint32_t
        refs; /* the app's, and one for each stream, event, storage and prepared call */
    struct bp_core *core;  /* a reference */
    struct bp_plugin_entry *entry;
    struct bp_device *next; /* in core->devices, under core->lock */
    uint32_t index;
    uint32_t emulated;      /* enum bp_emulated */
    bool is_inline;         /* BP_DEVICE_INLINE */
    bool host_visible;
    uint64_t alignment;
    char name[80];
    struct bp_device_properties properties;

    /* The device's own timeline, over all its streams: work gets its number when the plugin has
     * taken it, so whoever then waits for the plugin has waited for all up to submitted. All up to
     * done is known to have ended. On an inline device both stay 0. */
    _Atomic uint64_t submitted, done;

    /* A failure of work that cannot be blamed on one stream: it stays, every stream answers it. */
    _Atomic uint32_t failed; /* enum bp_status */
    char *why;

    pthread_mutex_t memory_lock;
    struct bp_stream *streams;  /* live ones, linked by next */
    uint64_t serials;           /* of streams that were made */
    struct bp_pending *pending; /* given back by the app while work may still use it */
    uint64_t allocated, peak, allocations;
};

static inline bool bp_device_is(const struct bp_device *device)
{
    return device && device->magic == BP_MAGIC_DEVICE;
}
void bp_device_retain(struct bp_device *device);
void bp_device_release(struct bp_device *device);

/* All work up to number has ended: what waited for it goes. */
void bp_device_advance(struct bp_device *device, uint64_t number);

/* Keeps the first failure and its message, which is on this thread. Returns status. */
enum bp_status bp_device_check(const struct bp_device *device); /* refuses it from then on */
enum bp_status bp_device_fail(struct bp_device *device, enum bp_status status);

/* A plugin's answer to a wait. What the device failed with stays with it, or with the stream, if
 * streams have an order of their own. Returns status. */
enum bp_status bp_stream_waited(struct bp_stream *stream, enum bp_status status);

/* Where operator calls go. A stream runs them; a graph, which records them, comes later. */
struct bp_scope {
    uint32_t magic; /* BP_MAGIC_STREAM */
};

struct bp_stream {
    struct bp_scope scope; /* first: a stream is found by its scope */
    _Atomic uint32_t refs; /* the app's, and one for each event recorded on it */
    struct bp_device *device;
    void *handle;          /* the plugin's, or NULL */
    _Atomic uint64_t last; /* number of the last piece of work */
    uint64_t serial;       /* unique on the device, from 1 */
    uint64_t done;         /* in the device's timeline; it and next under memory_lock */
    struct bp_stream *next;

    pthread_mutex_t lock;
    _Atomic uint32_t failed; /* enum bp_status of work that failed: it stays */
    char *why;               /* its message */
};

static inline bool bp_stream_is(const struct bp_stream *stream)
{
    return stream && stream->scope.magic == BP_MAGIC_STREAM;
}
void bp_stream_release(struct bp_stream *stream);

/* Refuses work on a stream whose earlier work failed, with that status and message. */
enum bp_status bp_stream_check(struct bp_stream *stream);

/* A piece of work has been given to the stream: its number there. */
static inline uint64_t bp_stream_submit(struct bp_stream *stream)
{
    return atomic_fetch_add_explicit(&stream->last, 1, memory_order_relaxed) + 1;
}

/* Waits until all of the stream's work has ended; with emulated streams, that of the whole device.
 */
enum bp_status bp_stream_drain(struct bp_stream *stream);

#endif
