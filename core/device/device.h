/* SPDX-License-Identifier: Apache-2.0 */
/* device.h: devices and streams inside the core. */
#ifndef BP_DEVICE_PRIVATE_H
#define BP_DEVICE_PRIVATE_H

#include "../plugin/entry.h"
#include "queue.h"
#include "timeline.h"

struct bp_memory_state; /* memory/pool.h */
struct bp_cache;        /* op/cache.h */

/* Something that the app gave back and that goes when its work has ended: first in what embeds it.
 */
struct bp_deferred {
    struct bp_users users;    /* whose work uses it; changed under the lock of its owner */
    void (*release)(struct bp_deferred *deferred); /* called without locks */
    struct bp_deferred *next;
};

/* Called when memory runs out: gives up what only saves time, such as cached plans, and says
 * whether it had any. Called without locks. */
struct bp_shrinker {
    bool (*shrink)(void *ctx);
    void *ctx;
    struct bp_shrinker *next;
};

struct bp_device {
    uint32_t magic;
    _Atomic uint32_t refs; /* the app's, and one for each stream, event, prepared call; buffers
                              keep the device without: bp_memory_is_live */
    struct bp_core *core;  /* a reference */
    struct bp_plugin_entry *entry;
    struct bp_device *next; /* in core->devices, under core->lock */
    uint32_t index;
    uint32_t emulated;      /* enum bp_emulated */
    bool is_inline;         /* BP_DEVICE_INLINE: without a queue its streams work at once */
    bool host_visible;
    uint64_t alignment;
    uint64_t signature;     /* a part of the signatures of its tensors: see bp_tensor_signature */
    char name[80];
    struct bp_device_properties properties;

    /* A failure of work that cannot be blamed on one stream: every stream answers it. */
    struct bp_failure failure;
    struct bp_failure lost; /* BP_ERR_DEVICE_LOST: the plugin is not called for work any more */
    _Atomic uint64_t blocked[BP_BLOCK_COUNT]; /* how often a call waited, by reason */
    _Atomic uint64_t peer_copies; /* that came from devices of the same plugin by the plugin */

    _Atomic bool recording; /* work of one of its streams is recorded */

    pthread_mutex_t lock;
    struct bp_timeline *host;              /* owner of memory that no stream asked for */
    _Atomic(struct bp_timeline *) timelines; /* newest first; the list only grows */
    uint32_t n_timeline;
    struct bp_deferred *deferred; /* given back while work may still use it; oldest first */
    struct bp_deferred **deferred_end; /* NULL: none was ever */
    _Atomic uint32_t n_deferred;     /* changed under lock */

    struct bp_memory_state *memory;
    _Atomic(struct bp_cache *) calls; /* eager calls that streams share */
    struct bp_cache *caches;          /* that and the streams', under lock */
    struct bp_shrinker calls_shrinker;
    /* bp_cache_open sets it: a frozen buffer is gone, and calls that know its contents with it.
     * Called without locks. */
    void (*invalidate_calls)(struct bp_device *device, uint64_t buffer);
    struct bp_fallback *fallback; /* what ran otherwise, under lock */

    /* Functions of what stands above devices; set before the device can be found. */
    void (*close)(struct bp_device *device); /* gives the last reference back */
    void (*destroy_cache)(struct bp_cache *cache); /* of a stream that is destroyed, or NULL */
};

static inline bool bp_device_is(const struct bp_device *device)
{
    return bp_magic_is(device ? device->magic : 0, BP_MAGIC_DEVICE);
}
static inline bool bp_device_has_events(const struct bp_device *device)
{
    return !(device->emulated & BP_EMULATED_EVENTS);
}
/* Behind a device's name where it is not another one: " of another core"; "" where names differ. */
const char *bp_device_qualifier(const struct bp_device *device, const struct bp_device *other);

void bp_device_retain(struct bp_device *device);
/* The last one ends the device: waits for its work, after the deadline on a thread, unless intake
 * has stopped. On a thread of the core's that is left to another one. */
void bp_device_release(struct bp_device *device);

/* Keeps a failure that all streams answer, naming the launches that may have failed. What says
 * something of a wait only is passed over. */
void bp_device_fail(struct bp_device *device, enum bp_status status);

/* bp_error_leave for a callback about the device: BP_ERR_DEVICE_LOST is kept. */
enum bp_status bp_device_leave(struct bp_device *device, enum bp_status status,
                               const char *callback);
/* The device is lost, with the message on this thread. Returns BP_ERR_DEVICE_LOST. */
enum bp_status bp_device_set_lost(struct bp_device *device);
static inline bool bp_device_is_lost(const struct bp_device *device)
{
    return atomic_load_explicit(&device->lost.status, memory_order_acquire);
}
/* Refuses a lost device: its memory is not to be used, nor given out. */
enum bp_status bp_device_check_lost(struct bp_device *device);
/* That, and a failure that cannot be blamed on one stream. */
enum bp_status bp_device_check(struct bp_device *device);

/* At the end of the process. Whether the host runs work of the device's, or (not leaving) its
 * queues hold some; what says what. */
bool bp_device_is_busy(struct bp_device *device, char *what, size_t size);
/* Whether a thread is giving it work just now; what says on which stream, and the number. Takes no
 * locks. */
bool bp_device_is_submitting(struct bp_device *device, char *what, size_t size);
/* Who waits for queues looks again whether the process is leaving. */
void bp_device_wake(struct bp_device *device);
/* Waits for work behind the host's back. BP_ERR_TIMEOUT; other failures are not its business. */
enum bp_status bp_device_wait_submitted(struct bp_device *device, const struct bp_deadline *until);

/* Waits for all of the device's work: what its queues hold, callbacks, the plugin's. A failure of
 * work is kept; BP_ERR_TIMEOUT. */
enum bp_status bp_device_drain(struct bp_device *device, const struct bp_deadline *until);

/* The plugin's synchronize of the whole device. A failure of work is kept and not answered. */
enum bp_status bp_device_synchronize_until(struct bp_device *device,
                                           const struct bp_deadline *until);

/* Refuses what failed before, with that status and message. */
enum bp_status bp_failure_check(const struct bp_device *device, const char *what,
                                struct bp_failure *failure);
static inline bool bp_failure_is_set(const struct bp_failure *failure)
{
    return atomic_load_explicit(&failure->status, memory_order_acquire) != BP_OK;
}

/* Whether a status says something of a wait, and nothing of the work that was waited for. */
bool bp_status_is_of_wait(enum bp_status status);

/* A call is about to wait although its name does not say so: counted, and refused if the policy is
 * to deny. reason: enum bp_block. */
enum bp_status bp_block_record(struct bp_device *device, uint32_t reason);

/* Lets go of something: now, if its work is known to have ended, else when that is found. */
void bp_deferred_release(struct bp_device *device, struct bp_deferred *deferred);
/* Lets what has ended go: known to have, or asked (poll). */
void bp_deferred_collect(struct bp_device *device, bool poll);
/* The same in passing, for calls that have something else to do: costs nothing where nothing is
 * deferred, looks at a few otherwise and asks for the oldest at most. Not on a worker, where the
 * app does not expect its functions to be called. */
void bp_deferred_collect_few(struct bp_device *device, bool poll);
static inline void bp_deferred_check(struct bp_device *device, bool poll)
{
    if (__builtin_expect(atomic_load_explicit(&device->n_deferred, memory_order_relaxed) != 0, 0))
        bp_deferred_collect_few(device, poll);
}
/* At the device's end: all goes. */
void bp_deferred_finish(struct bp_device *device);

/* Where operator calls go: a stream runs them. */
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
    struct bp_device *inline_device; /* the device, if work is done when its call returns and nobody
                                    watches: the fast ways ask for it; else NULL */
    struct bp_timeline *timeline;
    struct bp_cache *cache; /* of eager calls; made by the first */
    struct bp_generator *generator; /* a reference; NULL: the core's */
    bp_watcher *watcher;    /* of calls, or NULL */
    void *watcher_ctx;
    bool synchronous;       /* BP_SYNC=launch */
    bool watched;           /* a call is being: those that it makes are not */
};

static inline bool bp_stream_is(const struct bp_stream *stream)
{
    return bp_magic_is(stream ? stream->scope.magic : 0, BP_MAGIC_STREAM);
}

/* Refuses work on a stream whose earlier work failed, or whose device's did. */
static inline bool bp_stream_has_failed(const struct bp_stream *stream)
{
    return bp_failure_is_set(&stream->timeline->failure) ||
           bp_failure_is_set(&stream->device->failure);
}
enum bp_status bp_stream_check(struct bp_stream *stream);

#endif
