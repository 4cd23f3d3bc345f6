/* SPDX-License-Identifier: Apache-2.0 */
/* timeline.h: the order of one stream as numbers, and what is known of how far it has got.
 *
 * A timeline outlives its stream: what still waits for work names timelines, not streams. When a
 * stream is destroyed and its work has ended, its timeline serves a later stream and goes on
 * counting, so that a number once reached stays reached. The device owns them all. */
#ifndef BP_TIMELINE_H
#define BP_TIMELINE_H

#include "deadline.h"

struct bp_device;
struct bp_pool;  /* memory/pool.h */
struct bp_queue; /* device/queue.h */
struct bp_capture; /* op/recording.h */

enum { BP_WORK_NAMES = 256, BP_SPACES = 3, BP_USERS_INLINE = 4 };

/* A failure that stays: the first one, with its message. */
struct bp_failure {
    _Atomic uint32_t status; /* enum bp_status; set after why */
    char *why;
    _Atomic bool reported; /* a call of the app's has answered it */
};

/* A failure of a stream that is gone and whose timeline serves another: events may ask for it. */
struct bp_retired_failure {
    struct bp_retired_failure *next; /* earlier ones */
    uint64_t first, last; /* numbers of that stream's work that may have failed */
    struct bp_failure failure;
};

/* A plugin's event, recorded when all up to number was submitted. */
struct bp_fence {
    struct bp_fence *next; /* later ones */
    void *event;
    uint64_t number;
    uint32_t refs; /* who asks it or waits for it now */
};

/* Work of the timeline after its number `at` comes after work `number` of another one. */
struct bp_ordering {
    struct bp_timeline *of;
    uint64_t number, at;
};

enum bp_timeline_state {
    BP_TIMELINE_LIVE,     /* a stream uses it */
    BP_TIMELINE_RETIRING, /* its stream was destroyed, its work may not have ended */
    BP_TIMELINE_SPARE,    /* for the next stream of its kind */
};

struct bp_timeline {
    /* Read at each launch. Only the stream's caller writes last and submitted. */
    _Atomic uint64_t last;      /* number of the last work that was begun: launch->tag */
    _Atomic uint64_t submitted; /* all up to it is with the plugin, or in the queue */
    _Atomic uint64_t done;      /* the host has seen all up to it end; UINT64_MAX if is_inline */
    bool is_inline;             /* work is done when its call returns: an inline stream, the host */
    void *stream;               /* the plugin's, or NULL */
    struct bp_queue *queue;     /* the core's, in front of an inline device; or NULL. Constant */
    _Atomic(struct bp_queue *) callbacks; /* calls the app back where there is no queue; or NULL */
    struct bp_device *device;
    _Atomic(struct bp_pool *) pool[BP_SPACES]; /* it owns, by space; made at first use */
    uint32_t fault;         /* kernels that run on the host write it; of who runs them */
    _Atomic uint64_t base;      /* numbers up to it are of the streams before */
    _Atomic uint64_t barrier;   /* all that other streams of the device are given later comes behind
                                   this number; 0: nothing does */
    struct bp_failure failure; /* of the stream that it serves, or served last */
    _Atomic(struct bp_retired_failure *) retired_failures;
    _Atomic(struct bp_pool *) saved_pool; /* the pool of the device's memory, while a capture's has
                                             its place; or NULL */
    struct bp_capture *recording; /* of the stream's caller: its calls are recorded in it, and
                                       not done; or NULL */
    _Atomic bool stream_locked; /* by who records its work: only that thread uses stream */
    const char *node;       /* of the graph that the stream's caller runs now; NULL: none */

    pthread_mutex_t lock; /* all below; and storing a failure, and retiring it */
    uint64_t last_good;   /* where the stream or the device failed: all up to it ended well */
    bool open;            /* stream may be used */
    uint32_t stream_users; /* who uses it and is not the stream's caller: it is not closed now */
    bool synchronizing;   /* a thread is in the plugin's synchronize for it */
    pthread_t stream_locker; /* if stream_locked */
    pthread_cond_t turn;  /* not synchronizing, or not locked, any more */
    struct bp_fence *fences, *spare; /* fences: oldest first */
    struct bp_ordering *orderings;
    uint32_t n_ordering, room;
    uint32_t id;    /* on the device; 0 is the host's. Constant, as next once linked */
    uint32_t state; /* enum bp_timeline_state, under device->lock */
    struct bp_timeline *next; /* of the device, in the order of making */

    _Atomic(const char *) name[BP_WORK_NAMES]; /* of work n at n % BP_WORK_NAMES; not kept where
                                                  is_inline is set */
};

/* A new timeline, linked to its device; or a spare one of the same kind. */
enum bp_status bp_timeline_create(struct bp_device *device, bool is_inline, bool queue,
                                  struct bp_timeline **out_timeline);
/* device->host, which has no stream. */
enum bp_status bp_timeline_create_host(struct bp_device *device);
/* Its stream is gone: it becomes spare when its work has ended. Never blocks. */
void bp_timeline_retire(struct bp_timeline *timeline);
/* Timelines whose work is found to have ended since they were retired become spare. */
void bp_timelines_poll(struct bp_device *device);
/* At the device's end: all work has ended, or never will. Frees them all. */
void bp_timelines_finish(struct bp_device *device);

/* Whether somebody other than the stream's caller may use the plugin's stream now; it is not closed
 * until that is over. Not open: it is closed, and all its work has ended. While it is locked this
 * waits; BP_ERR_TIMEOUT; BP_ERR_INVALID: it is locked by this thread. */
enum bp_status bp_timeline_acquire_stream(struct bp_timeline *timeline,
                                          const struct bp_deadline *until, bool *out_open);
void bp_timeline_release_stream(struct bp_timeline *timeline);

/* Nobody but this thread uses the plugin's stream until it is unlocked. BP_ERR_BUSY: somebody does
 * now. */
enum bp_status bp_timeline_lock_stream(struct bp_timeline *timeline);
void bp_timeline_unlock_stream(struct bp_timeline *timeline);

/* A piece of work is about to be given to the stream: its number. */
static inline uint64_t bp_work_begin_unnamed(struct bp_timeline *timeline)
{
    uint64_t number = atomic_load_explicit(&timeline->last, memory_order_relaxed) + 1;

    atomic_store_explicit(&timeline->last, number, memory_order_relaxed);
    return number;
}

/* The same, with its name where names are kept: static text. */
static inline uint64_t bp_work_begin(struct bp_timeline *timeline, const char *name)
{
    uint64_t number = bp_work_begin_unnamed(timeline);

    if (!timeline->is_inline)
        atomic_store_explicit(&timeline->name[number % BP_WORK_NAMES], name, memory_order_relaxed);
    return number;
}

/* The plugin or the queue has taken it, whatever it answered: who then waits has waited for it. */
static inline void bp_work_end(struct bp_timeline *timeline, uint64_t number)
{
    atomic_store_explicit(&timeline->submitted, number, memory_order_release);
}

/* It was not taken after all: nobody is to wait for it. */
static inline void bp_work_cancel(struct bp_timeline *timeline, uint64_t number)
{
    atomic_store_explicit(&timeline->last, number - 1, memory_order_relaxed);
}

/* Whether the host knows that work number has ended. Looks nothing up. */
static inline bool bp_timeline_passed(const struct bp_timeline *timeline, uint64_t number)
{
    return number <= atomic_load_explicit(&timeline->done, memory_order_acquire);
}

/* Work up to number has been seen to end. */
void bp_timeline_advance(struct bp_timeline *timeline, uint64_t number);

/* Makes sure that the plugin has a fence at or after number, so that later work is not waited for
 * with it. Nothing to do where work has ended or there are no events. */
enum bp_status bp_timeline_record_fence(struct bp_timeline *timeline, uint64_t number);

/* The first fence at or after number, with a reference; made if there is none. NULL: the number has
 * been reached. */
enum bp_status bp_fence_find(struct bp_timeline *timeline, uint64_t number,
                             const struct bp_deadline *until, struct bp_fence **out_fence);
void bp_fence_release(struct bp_timeline *timeline, struct bp_fence *fence); /* NULL: nothing */
/* Asks about that fence, or waits for it: until is not NULL. What was found to have failed has
 * ended too. */
enum bp_status bp_fence_wait(struct bp_timeline *timeline, uint64_t number,
                             const struct bp_deadline *until);

/* Whether work number, which was submitted, has ended: asks the device if need be, never waits.
 * false too where a device cannot be asked. */
bool bp_timeline_poll(struct bp_timeline *timeline, uint64_t number);

/* Waits on the host for work number. A failure of work is kept by the stream or the device and
 * returned. BP_ERR_TIMEOUT: not by then. */
enum bp_status bp_timeline_wait(struct bp_timeline *timeline, uint64_t number,
                                const struct bp_deadline *until);

/* Waits for all work that the plugin has been given on the stream, by its synchronize; with
 * emulated streams for that of the whole device. */
enum bp_status bp_timeline_synchronize(struct bp_timeline *timeline,
                                       const struct bp_deadline *until);

/* Later work of timeline comes after work number of other: makes the device, or the host, see to
 * that. */
enum bp_status bp_timeline_order_after(struct bp_timeline *timeline, struct bp_timeline *other,
                                       uint64_t number);

/* What timeline is given from now on comes after work number of other, of the same plugin's
 * instance, which has events: for a thread that is not the stream's caller, to whom nothing is
 * promised. Closed ones have nothing to be given. */
enum bp_status bp_timeline_insert_wait(struct bp_timeline *timeline, struct bp_timeline *other,
                                       uint64_t number);

/* Refuses a function of bp_stream_callback of the stream's own, which must not wait for it: calls
 * that give work and then wait ask first. */
enum bp_status bp_timeline_check_deadlock(const struct bp_timeline *timeline);

/* Waits for all work that was submitted, with emulated streams that of the whole device, and until
 * the app has been called back. */
enum bp_status bp_timeline_drain(struct bp_timeline *timeline, const struct bp_deadline *until);

/* Work of timeline from now on is known to come after work number of other, and so after what that
 * comes after. */
void bp_timeline_record_order(struct bp_timeline *timeline, struct bp_timeline *other,
                              uint64_t number);

/* Whether later work of timeline is known to come after work number of other by order alone. Never
 * for one whose submissions happen now: its work does not wait for others' fences. */
bool bp_timeline_is_after(struct bp_timeline *timeline, struct bp_timeline *other, uint64_t number);

/* Whether all work of others that the timeline waits for is known to have ended (poll: asks). */
bool bp_timeline_waits_passed(struct bp_timeline *timeline, bool poll);

/* Keeps a failure of the timeline's work, or of its device where that cannot be told apart; the
 * message on this thread, with the names of the launches that may have failed. What says something
 * of the wait only is passed on, and what an inline stream's call answers at once. Returns status.
 */
enum bp_status bp_timeline_fail(struct bp_timeline *timeline, enum bp_status status);

/* The same, with the message as it is, whoever ran the work. */
enum bp_status bp_timeline_set_failure(struct bp_timeline *timeline, enum bp_status status);

/* What a kernel on the host has written to its fault word, as the launch's failure. */
enum bp_status bp_fault_report(struct bp_timeline *timeline, const struct bp_kernel *kernel);

/* Answers the failure of the stream whose work had this number, or of the device, unless all work
 * up to it is known to have ended well before. */
enum bp_status bp_timeline_check(struct bp_timeline *timeline, uint64_t number);

/* status is what a wait for work up to number answered, and goes to the app: a failure of that work
 * has been reported then. Returns status. */
enum bp_status bp_timeline_report(struct bp_timeline *timeline, uint64_t number,
                                  enum bp_status status);

/* Answers the failure of the stream that it serves, and, once, those of streams that are gone. */
enum bp_status bp_timeline_check_unreported(struct bp_timeline *timeline);

/* Writes text on the work up to number that the host does not know to have ended: "launch 812:
 * softmax", "launches 812 to 815: gather, add, softmax, copy_in"; "" for none. Returns how many
 * launches that are. */
uint64_t bp_timeline_describe(const struct bp_timeline *timeline, uint64_t number, char *text,
                              size_t size);

/* Who uses something: the last number on each timeline. */
struct bp_user {
    struct bp_timeline *timeline;
    uint64_t number;
};
struct bp_users {
    uint32_t n, room; /* room of more */
    struct bp_user at[BP_USERS_INLINE];
    struct bp_user *more;
};

/* Notes that work number of timeline uses it; under a lock of the owner's. false: no host memory,
 * nothing noted. */
bool bp_users_add(struct bp_users *users, struct bp_timeline *timeline, uint64_t number);
/* Whether the host knows that all have ended (poll: asks the devices). Nobody adds meanwhile. */
bool bp_users_passed(const struct bp_users *users, bool poll);
void bp_users_finish(struct bp_users *users);

/* How far timelines had been given work at one moment; afterwards, that all of that has ended. */
struct bp_snapshot {
    struct bp_users users;
};
enum bp_status bp_snapshot_init(struct bp_device *device, struct bp_timeline *only,
                                struct bp_snapshot *out_snapshot); /* only NULL: all of device */
void bp_snapshot_advance(const struct bp_snapshot *snapshot);
void bp_snapshot_finish(struct bp_snapshot *snapshot);

#endif
