/* SPDX-License-Identifier: Apache-2.0 */
/* timeline.h: declares timelines: the numbered work of a stream, how far it has ended, its fences,
 * failures and order relative to other timelines.
 *
 * A timeline outlives its stream: code that waits for work refers to timelines, not to streams.
 * When a stream has been destroyed and its work has ended, a later stream reuses its timeline. The
 * numbers continue to grow, so that a number once reached stays reached. The device owns all its
 * timelines. */
#ifndef BP_TIMELINE_H
#define BP_TIMELINE_H

#include "deadline.h"

struct bp_device;
struct bp_pool;  /* memory/pool.h */
struct bp_queue; /* device/queue.h */
struct bp_capture; /* exec/capture.h */

enum { BP_WORK_NAMES = 256, BP_SPACES = 3, BP_USERS_INLINE = 4 };

/* The first failure of a stream or device, with its message. It is stored once and never
 * overwritten. */
struct bp_failure {
    _Atomic uint32_t status; /* enum bp_status; set after why */
    char *why;
    _Atomic bool reported; /* a call of the app has returned it */
};

/* The failure of a destroyed stream whose timeline another stream uses now: events may still query
 * it. */
struct bp_retired_failure {
    struct bp_retired_failure *next; /* earlier ones */
    uint64_t first, last; /* numbers of that stream's work that may have failed */
    struct bp_failure failure;
};

/* A plugin's event, recorded after all work up to `number` was submitted. */
struct bp_fence {
    struct bp_fence *next; /* later ones */
    void *event;
    uint64_t number;
    uint32_t refs; /* threads that query it or wait for it now */
};

/* Work of this timeline with a number above `at` runs after work `number` of the timeline `of`. */
struct bp_ordering {
    struct bp_timeline *of;
    uint64_t number, at;
};

enum bp_timeline_state {
    BP_TIMELINE_LIVE,     /* a stream uses it */
    BP_TIMELINE_RETIRING, /* its stream was destroyed, its work may not have ended */
    BP_TIMELINE_SPARE,    /* free for the next stream of its kind */
};

struct bp_timeline {
    /* Read at each launch. Only the thread that uses the stream writes last and submitted. */
    _Atomic uint64_t last;      /* number of the work begun last: launch->tag */
    _Atomic uint64_t submitted; /* work up to it was passed to the plugin or the queue */
    _Atomic uint64_t done;      /* work up to it is known to have ended; UINT64_MAX if is_inline */
    bool is_inline;             /* work is done when its call returns: an inline stream, the host */
    _Atomic bool cancelled;     /* bp_stream_cancel: calls are refused, and the queue's work is
                                   skipped */
    void *stream;               /* the plugin's stream, or NULL */
    struct bp_queue *queue;     /* the core's, in front of an inline device; or NULL. Constant */
    _Atomic(struct bp_queue *) callbacks; /* runs the app's callbacks if queue is NULL; or NULL */
    struct bp_device *device;
    _Atomic(struct bp_pool *) pool[BP_SPACES]; /* owned pools, by space; created at first use */
    uint32_t fault;         /* kernels on the host write it; belongs to the thread that runs them */
    _Atomic uint64_t base;      /* numbers up to it belong to earlier streams */
    _Atomic uint64_t barrier;   /* a barrier point: later work of the device's other streams runs
                                   after work `barrier`; 0: none */
    struct bp_failure failure; /* of the stream that uses the timeline, or used it last */
    _Atomic(struct bp_retired_failure *) retired_failures;
    _Atomic(struct bp_pool *) saved_pool; /* the pool of the device's memory while a capture's pool
                                             replaces it; or NULL */
    struct bp_capture *recording; /* set by the stream's caller: its calls are recorded here and do
                                     not run; or NULL */
    _Atomic bool stream_locked; /* by a thread that captures its work: only this thread uses
                                   stream */
    const char *node;       /* of the graph that the stream's caller runs now: its node's name;
                               NULL: none */

    pthread_mutex_t lock; /* guards all below, and storing or retiring a failure */
    uint64_t last_good;   /* after a failure of the stream or device: work up to it succeeded */
    bool open;            /* stream may be used */
    uint32_t stream_users; /* threads besides the stream's caller that use stream: it stays open */
    bool synchronizing;   /* a thread is in the plugin's synchronize for it */
    pthread_t stream_locker; /* if stream_locked */
    pthread_cond_t turn;  /* signalled when synchronizing or stream_locked ends */
    struct bp_fence *fences, *spare; /* fences: oldest first */
    struct bp_ordering *orderings;
    uint32_t n_ordering, room;
    uint32_t id;    /* number on the device; 0: the host's. Constant, as next once linked */
    uint32_t state; /* enum bp_timeline_state, under device->lock */
    struct bp_timeline *next; /* of the device, newest first */

    _Atomic(const char *) name[BP_WORK_NAMES]; /* of work n at n % BP_WORK_NAMES; not stored if
                                                  is_inline is set */
};

/* Creates a timeline and links it to its device, or reuses a spare one of the same kind. */
enum bp_status bp_timeline_create(struct bp_device *device, bool is_inline, bool queue,
                                  struct bp_timeline **out_timeline);
/* Creates device->host, the timeline that has no stream. */
enum bp_status bp_timeline_create_host(struct bp_device *device);
/* To be called when the timeline's stream is destroyed: the timeline becomes spare when its work
 * has ended. Never blocks. */
void bp_timeline_retire(struct bp_timeline *timeline);
/* If work was skipped because its stream was cancelled: stores this failure with the numbers of
 * that work, so that it does not fail later work. The queue is empty. */
enum bp_status bp_timeline_retire_cancelled(struct bp_timeline *timeline);
/* Makes each retired timeline spare whose work is found to have ended. */
void bp_timelines_poll(struct bp_device *device);
/* At the end of the device, when all work has ended or never will: frees all timelines. */
void bp_timelines_finish(struct bp_device *device);

/* Acquires the plugin's stream for a thread other than the stream's caller; the stream is not
 * closed before the release. *out_open false: the stream is closed, all its work has ended, and
 * there is nothing to release. While another thread has locked the stream the call waits.
 * BP_ERR_TIMEOUT: it was still locked at the deadline. BP_ERR_INVALID: this thread has locked
 * it. */
enum bp_status bp_timeline_acquire_stream(struct bp_timeline *timeline,
                                          const struct bp_deadline *until, bool *out_open);
void bp_timeline_release_stream(struct bp_timeline *timeline);

/* Locks the plugin's stream: until the unlock only this thread uses it. BP_ERR_BUSY: another thread
 * is using it or has locked it. */
enum bp_status bp_timeline_lock_stream(struct bp_timeline *timeline);
void bp_timeline_unlock_stream(struct bp_timeline *timeline);

/* Returns the number of the work that the caller is about to submit to the stream. */
static inline uint64_t bp_work_begin_unnamed(struct bp_timeline *timeline)
{
    uint64_t number = atomic_load_explicit(&timeline->last, memory_order_relaxed) + 1;

    atomic_store_explicit(&timeline->last, number, memory_order_relaxed);
    return number;
}

/* Like bp_work_begin_unnamed, and stores the name of the work (static text), except on an inline
 * stream. */
static inline uint64_t bp_work_begin(struct bp_timeline *timeline, const char *name)
{
    uint64_t number = bp_work_begin_unnamed(timeline);

    if (!timeline->is_inline)
        atomic_store_explicit(&timeline->name[number % BP_WORK_NAMES], name, memory_order_relaxed);
    return number;
}

/* The plugin or the queue has received the work, whatever status it returned: a thread that waits
 * for the stream from now on waits for this work too. */
static inline void bp_work_end(struct bp_timeline *timeline, uint64_t number)
{
    atomic_store_explicit(&timeline->submitted, number, memory_order_release);
}

/* The work was not submitted after all: no thread must wait for its number. */
static inline void bp_work_cancel(struct bp_timeline *timeline, uint64_t number)
{
    atomic_store_explicit(&timeline->last, number - 1, memory_order_relaxed);
}

/* Whether the host knows that work `number` has ended. Does not query the device. */
static inline bool bp_timeline_passed(const struct bp_timeline *timeline, uint64_t number)
{
    return number <= atomic_load_explicit(&timeline->done, memory_order_acquire);
}

/* Records that work up to `number` has ended. */
void bp_timeline_advance(struct bp_timeline *timeline, uint64_t number);

/* Makes sure that the plugin has a fence at or after `number`, so that a wait for `number` does not
 * include later work. Does nothing if the work has ended or there are no events. */
enum bp_status bp_timeline_record_fence(struct bp_timeline *timeline, uint64_t number);

/* Returns the first fence at or after `number`, with a reference; records one if there is none.
 * *out_fence NULL: the number has been reached. */
enum bp_status bp_fence_find(struct bp_timeline *timeline, uint64_t number,
                             const struct bp_deadline *until, struct bp_fence **out_fence);
void bp_fence_release(struct bp_timeline *timeline, struct bp_fence *fence); /* NULL is allowed */
/* Queries the fence at or after `number` (until NULL), or waits for it. Work that is found to have
 * failed counts as ended too. */
enum bp_status bp_fence_wait(struct bp_timeline *timeline, uint64_t number,
                             const struct bp_deadline *until);

/* Whether work `number`, which was submitted, has ended. Queries the device if necessary, never
 * waits. Also false if the device cannot be queried. */
bool bp_timeline_poll(struct bp_timeline *timeline, uint64_t number);

/* Waits on the host for work `number`. A failure of work is stored in the stream or the device and
 * returned. BP_ERR_TIMEOUT: the deadline passed. */
enum bp_status bp_timeline_wait(struct bp_timeline *timeline, uint64_t number,
                                const struct bp_deadline *until);

/* Waits for all work that was submitted to the plugin on the stream, by the plugin's synchronize;
 * with emulated streams, for the work of the whole device. */
enum bp_status bp_timeline_synchronize(struct bp_timeline *timeline,
                                       const struct bp_deadline *until);

/* Orders later work of `timeline` after work `number` of `other`: the device waits if it can,
 * otherwise the host. */
enum bp_status bp_timeline_order_after(struct bp_timeline *timeline, struct bp_timeline *other,
                                       uint64_t number);

/* Makes the plugin run the work that `timeline` receives from now on after work `number` of
 * `other`. Both belong to the same plugin instance, which has events. For a thread that is not the
 * stream's caller: no order is recorded for bp_timeline_is_after. Does nothing if `timeline` is
 * closed, because it then receives no work. */
enum bp_status bp_timeline_insert_wait(struct bp_timeline *timeline, struct bp_timeline *other,
                                       uint64_t number);

/* Returns BP_ERR_INVALID in a function of bp_stream_callback that runs on this stream, which must
 * not wait for its own stream. Calls that submit work and then wait check this first. */
enum bp_status bp_timeline_check_deadlock(const struct bp_timeline *timeline);

/* Waits for all submitted work (with emulated streams, for that of the whole device) and for the
 * app's callbacks. */
enum bp_status bp_timeline_drain(struct bp_timeline *timeline, const struct bp_deadline *until);

/* Records that work of `timeline` from now on runs after work `number` of `other`, and so after all
 * work that this one runs after. */
void bp_timeline_record_order(struct bp_timeline *timeline, struct bp_timeline *other,
                              uint64_t number);

/* Whether later work of `timeline` is known to run after work `number` of `other` by recorded order
 * alone. Always false for an inline timeline: its work runs in the call and does not wait for
 * fences of others. */
bool bp_timeline_is_after(struct bp_timeline *timeline, struct bp_timeline *other, uint64_t number);

/* Whether all work of other timelines that the timeline waits for is known to have ended. poll:
 * also queries the devices. */
bool bp_timeline_waits_passed(struct bp_timeline *timeline, bool poll);

/* Stores a failure of the timeline's work, or of its device if the plugin cannot distinguish the
 * streams. The message on this thread gets the names of the launches that may have failed. Nothing
 * is stored for a status that describes only a wait, or for an inline stream, whose calls return
 * the failure immediately. Returns status. */
enum bp_status bp_timeline_fail(struct bp_timeline *timeline, enum bp_status status);

/* Stores a failure with the message unchanged, for work of any kind. Returns status. */
enum bp_status bp_timeline_set_failure(struct bp_timeline *timeline, enum bp_status status);

/* Reads and clears the fault word that a kernel on the host has written; returns the failure of the
 * launch. */
enum bp_status bp_fault_report(struct bp_timeline *timeline, const struct bp_kernel *kernel);

/* Returns the failure of the stream whose work had this number, or of the device. BP_OK: none
 * failed, or all work up to `number` is known to have succeeded before the failure. */
enum bp_status bp_timeline_check(struct bp_timeline *timeline, uint64_t number);

/* Marks a failure of work up to `number` as reported. status is the result of a wait for that work,
 * and the app receives it. Returns status. */
enum bp_status bp_timeline_report(struct bp_timeline *timeline, uint64_t number,
                                  enum bp_status status);

/* Returns the failure of the stream that uses the timeline, and, once, failures of destroyed
 * streams. */
enum bp_status bp_timeline_check_unreported(struct bp_timeline *timeline);

/* Writes a text about the work up to `number` that the host does not know to have ended: "launch
 * 812: softmax", "launches 812 to 815: gather, add, softmax, copy_in"; "" if there is none. Returns
 * the number of these launches. */
uint64_t bp_timeline_describe(const struct bp_timeline *timeline, uint64_t number, char *text,
                              size_t size);

/* The users of an object: for each timeline, the number of the last work that uses the object. */
struct bp_user {
    struct bp_timeline *timeline;
    uint64_t number;
};
struct bp_users {
    uint32_t n, room; /* capacity of more */
    struct bp_user at[BP_USERS_INLINE];
    struct bp_user *more;
};

/* Records that work `number` of `timeline` uses the object; called under a lock of the object's
 * owner. false: host memory ran out, and nothing was recorded. */
bool bp_users_add(struct bp_users *users, struct bp_timeline *timeline, uint64_t number);
/* Whether the host knows that all users' work has ended. poll: also queries the devices. No other
 * thread may add users meanwhile. */
bool bp_users_passed(const struct bp_users *users, bool poll);
void bp_users_finish(struct bp_users *users);

/* The numbers of the work submitted to timelines up to one moment. bp_snapshot_advance records
 * later that all of this work has ended. */
struct bp_snapshot {
    struct bp_users users;
};
enum bp_status bp_snapshot_init(struct bp_device *device, struct bp_timeline *only,
                                struct bp_snapshot *out_snapshot); /* only NULL: all of device */
void bp_snapshot_advance(const struct bp_snapshot *snapshot);
void bp_snapshot_finish(struct bp_snapshot *snapshot);

#endif
