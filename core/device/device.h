/* SPDX-License-Identifier: Apache-2.0 */
/* device.h: declares the core's private structs for devices, streams and scopes, and the functions
 * that store failures, wait for a device's work and release objects late. */
#ifndef BP_DEVICE_PRIVATE_H
#define BP_DEVICE_PRIVATE_H

#include "../plugin/entry.h"
#include "queue.h"
#include "timeline.h"

struct bp_memory_state; /* memory/pool.h */
struct bp_cache;        /* call/cache.h */

/* An object that the app has released and that the core frees when all work that uses the object
 * has ended. It is the first member of the struct that embeds it. */
struct bp_deferred {
    struct bp_users users;    /* the work that uses the object; changed under the lock of the
                                 object's owner */
    void (*release)(struct bp_deferred *deferred); /* frees the object; called without locks */
    struct bp_deferred *next;
};

/* A function that the allocator calls when memory runs out. `shrink` frees objects that only save
 * time, for example cached plans, and returns whether it freed any. Called without locks. */
struct bp_shrinker {
    bool (*shrink)(void *ctx);
    void *ctx;
    struct bp_shrinker *next;
};

/* A bit of bp_device.n_writebacks: a profiler records, so that calls do not take the shortest path.
 * It is there so that this path makes no check of its own for a profiler. */
#define BP_DEVICE_PROFILED (UINT32_C(1) << 31)

struct bp_device {
    uint32_t magic;
    _Atomic uint32_t refs; /* references: the app's, and one for each stream, event and prepared
                              call. Buffers hold no reference but keep the device alive: see
                              bp_memory_is_live */
    struct bp_core *core;  /* the device holds a reference */
    struct bp_plugin_entry *entry;
    struct bp_device *next; /* in core->devices, under core->lock */
    uint32_t index;
    uint32_t emulated;      /* enum bp_emulated */
    bool is_inline;         /* BP_DEVICE_INLINE: streams without a queue are synchronous */
    bool host_visible;
    uint64_t alignment;
    uint64_t signature;     /* a part of the signatures of its tensors: see bp_tensor_signature */
    char name[80];
    struct bp_device_properties properties;

    /* A failure of work that cannot be attributed to one stream: every stream returns it. */
    struct bp_failure failure;
    struct bp_failure lost; /* BP_ERR_DEVICE_LOST: the core submits no more work to the plugin */
    _Atomic uint64_t blocked[BP_BLOCK_COUNT]; /* how many calls had to wait, by reason */
    _Atomic uint64_t peer_copies; /* copies from devices of the same plugin, made by the plugin */

    _Atomic uint32_t n_writebacks; /* buffers whose contents an engine keeps or has lost, and
                                      programs whose engines compare versions: writeback.h. And
                                      BP_DEVICE_PROFILED */
    _Atomic bool recording; /* the work of one of the device's streams is being captured */

    pthread_mutex_t lock;
    struct bp_timeline *host;              /* owner of memory that was allocated for no stream */
    _Atomic(struct bp_timeline *) timelines; /* newest first; the list only grows */
    uint32_t n_timeline;
    struct bp_deferred *deferred; /* released while work may still use them; oldest first */
    struct bp_deferred **deferred_end; /* NULL: no release was ever deferred */
    _Atomic uint32_t n_deferred;     /* changed under lock */

    struct bp_device_profile *profile; /* profiled.h */
    struct bp_memory_state *memory;
    _Atomic(struct bp_cache *) calls; /* cache of eager calls, shared by the streams */
    struct bp_cache *caches;          /* `calls` and the caches of the streams, under lock */
    struct bp_shrinker calls_shrinker;
    /* bp_cache_open sets it. Called without locks when a frozen buffer was freed: drops the cached
     * calls that depend on the buffer's contents. */
    void (*invalidate_calls)(struct bp_device *device, uint64_t buffer);
    struct bp_fallback *fallback; /* which calls ran by a fallback, under lock */
    struct bp_fallback *fallback_why; /* and the reasons, by operator, under lock */

    /* Functions of higher layers, set before any thread can find the device. */
    void (*close)(struct bp_device *device); /* drops the last reference */
    /* Begins or ends to record allocations and frees in a profile. */
    void (*record_memory)(struct bp_device *device, bool on);
    void (*destroy_cache)(struct bp_cache *cache); /* of a stream that is being destroyed; cache may
                                                      be NULL */
};

static inline bool bp_device_is(const struct bp_device *device)
{
    return bp_magic_is(device ? device->magic : 0, BP_MAGIC_DEVICE);
}
static inline bool bp_device_has_events(const struct bp_device *device)
{
    return !(device->emulated & BP_EMULATED_EVENTS);
}
/* The text behind a device's name in a message that names two devices: " of another core" or " of
 * another plugin" if their names are equal; "" if their names differ or it is one device. */
const char *bp_device_qualifier(const struct bp_device *device, const struct bp_device *other);

void bp_device_retain(struct bp_device *device);
/* Drops a reference. The release of the last one destroys the device after its work has ended;
 * where a deadline is set, a thread continues the wait beyond it. While the process is stopping
 * nothing is destroyed. On a worker thread of the core, another thread destroys the device. */
void bp_device_release(struct bp_device *device);

/* Stores a failure that every stream of the device will return. The message names the launches that
 * may have failed. A status that describes only a wait (bp_status_is_of_wait) is ignored. */
void bp_device_fail(struct bp_device *device, enum bp_status status);

/* bp_error_leave for a plugin callback about the device. BP_ERR_DEVICE_LOST is also stored. */
enum bp_status bp_device_leave(struct bp_device *device, enum bp_status status,
                               const char *callback);
/* The same for a callback of the device's plugin or of one of its add-ons. */
struct bp_plugin_entry;
enum bp_status bp_addon_leave(struct bp_device *device, const struct bp_plugin_entry *entry,
                              enum bp_status status, const char *callback);
/* The same for a callback of a kernel row of the device, which an add-on may have brought. */
enum bp_status bp_kernel_leave(struct bp_device *device, enum bp_status status,
                               const struct bp_kernel *kernel);
/* Marks the device as lost, with the message on this thread. Returns BP_ERR_DEVICE_LOST. */
enum bp_status bp_device_set_lost(struct bp_device *device);
static inline bool bp_device_is_lost(const struct bp_device *device)
{
    return atomic_load_explicit(&device->lost.status, memory_order_acquire);
}
/* Returns BP_ERR_DEVICE_LOST for a lost device: its memory must not be used or handed out. */
enum bp_status bp_device_check_lost(struct bp_device *device);
/* Returns the failure of a lost device, or a failure that cannot be attributed to one stream. */
enum bp_status bp_device_check(struct bp_device *device);

/* Used at the end of the process. Whether the host runs work of the device or, unless the process
 * is exiting, the device's queues hold tasks. The text in `what` names the work. */
bool bp_device_is_busy(struct bp_device *device, char *what, size_t size);
/* Whether a thread is submitting work to the device at this moment. The text in `what` names the
 * stream and the launch number. Takes no locks. */
bool bp_device_is_submitting(struct bp_device *device, char *what, size_t size);
/* Wakes the threads that wait for the device's queues: they check again whether the process is
 * exiting. */
void bp_device_wake(struct bp_device *device);
/* Waits for the work that the plugin runs asynchronously. Returns BP_ERR_TIMEOUT if the deadline
 * passes; ignores other failures. */
enum bp_status bp_device_wait_submitted(struct bp_device *device, const struct bp_deadline *until);

/* Waits for all of the device's work: the tasks in its queues, the app's callbacks, the plugin's
 * work. Stores a failure of that work. BP_ERR_TIMEOUT: the deadline passed. */
enum bp_status bp_device_drain(struct bp_device *device, const struct bp_deadline *until);

/* Calls the plugin's synchronize for the whole device. A failure of work is stored, not
 * returned. */
enum bp_status bp_device_synchronize_until(struct bp_device *device,
                                           const struct bp_deadline *until);

/* Returns the stored failure, with its status and message; BP_OK if none is stored. */
enum bp_status bp_failure_check(const struct bp_device *device, const char *what,
                                struct bp_failure *failure);
static inline bool bp_failure_is_set(const struct bp_failure *failure)
{
    return atomic_load_explicit(&failure->status, memory_order_acquire) != BP_OK;
}

/* Whether a status describes only the wait, and not the work that was waited for. */
bool bp_status_is_of_wait(enum bp_status status);

/* To be called before a call waits although its name does not say that it may. Counts the wait, or
 * returns BP_ERR_BLOCKED if the policy is to deny such waits. reason: enum bp_block. */
enum bp_status bp_block_record(struct bp_device *device, uint32_t reason);

/* Releases an object: immediately if all work that uses it is known to have ended, otherwise when a
 * later check finds that it has. */
void bp_deferred_release(struct bp_device *device, struct bp_deferred *deferred);
/* Releases the deferred objects whose work is known to have ended. poll: also queries the
 * devices. */
void bp_deferred_collect(struct bp_device *device, bool poll);
/* A cheap bp_deferred_collect, for calls with another purpose. It costs nothing if no release is
 * deferred; otherwise it checks a few objects and queries the device for the oldest one at most. It
 * does nothing on a worker thread, where the app does not expect its functions to be called. */
void bp_deferred_collect_few(struct bp_device *device, bool poll);
static inline void bp_deferred_check(struct bp_device *device, bool poll)
{
    if (__builtin_expect(atomic_load_explicit(&device->n_deferred, memory_order_relaxed) != 0, 0))
        bp_deferred_collect_few(device, poll);
}
/* At the end of the device: releases every deferred object. */
void bp_deferred_finish(struct bp_device *device);

/* The target of operator calls: a stream runs them, a graph records them. */
struct bp_scope {
    uint32_t magic; /* BP_MAGIC_STREAM, BP_MAGIC_GRAPH */
};
static inline bool bp_scope_is(const struct bp_scope *scope, uint32_t kind)
{
    return bp_magic_is(scope ? scope->magic : 0, kind);
}

struct bp_stream {
    struct bp_scope scope; /* first: a stream is found by its scope */
    uint32_t flags;        /* enum bp_stream_flags */
    struct bp_device *device;
    struct bp_device *inline_device; /* the device, if work is done when its call returns and no
                                        watcher is set: the fast paths check for it; else NULL */
    struct bp_timeline *timeline;
    struct bp_cache *cache; /* of eager calls; created by the first */
    struct bp_generator *generator; /* a reference; NULL: the core's generator */
    bp_watcher *watcher;    /* of calls, or NULL */
    void *watcher_ctx;
    bool synchronous;       /* BP_SYNC=launch */
    bool watched;           /* a call is being watched: calls that it makes are not */
};

static inline bool bp_stream_is(const struct bp_stream *stream)
{
    return bp_magic_is(stream ? stream->scope.magic : 0, BP_MAGIC_STREAM);
}

/* Whether earlier work of the stream or of its device has failed. bp_stream_check returns that
 * failure, so that no more work is submitted. */
static inline bool bp_stream_has_failed(const struct bp_stream *stream)
{
    return bp_failure_is_set(&stream->timeline->failure) ||
           bp_failure_is_set(&stream->device->failure);
}
enum bp_status bp_stream_check(struct bp_stream *stream);

/* Whether the app has cancelled the stream. Any thread may set it at any time. */
static inline bool bp_stream_is_cancelled(const struct bp_stream *stream)
{
    return atomic_load_explicit(&stream->timeline->cancelled, memory_order_relaxed);
}
/* Whether operators may not run on the stream: it has failed or was cancelled.
 * bp_stream_check_calls (stream.h) returns the reason. Waits and collective calls of a cancelled
 * stream continue; so do copies, unless the stream has a queue. */
static inline bool bp_stream_refuses_calls(const struct bp_stream *stream)
{
    return bp_stream_has_failed(stream) || bp_stream_is_cancelled(stream);
}

/* Returns BP_ERR_CANCELLED with a message. */
enum bp_status bp_timeline_error_cancelled(const struct bp_timeline *timeline);

#endif
