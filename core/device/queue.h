/* SPDX-License-Identifier: Apache-2.0 */
/* queue.h: the core's queue and worker thread: what makes a stream of an inline device
 * asynchronous, and calls the app back in stream order. */
#ifndef BP_QUEUE_H
#define BP_QUEUE_H

#include "deadline.h"

struct bp_timeline;
struct bp_queue;

/* One entry; first in what embeds it. */
struct bp_task {
    struct bp_task *next;
    /* On the worker, without locks. A failure, with its message on that thread, stays with the
     * timeline: tasks after it are not run, but for those that are always run. */
    enum bp_status (*run)(struct bp_task *task, struct bp_timeline *timeline);
    void (*destroy)(struct bp_task *task); /* run or not */
    uint64_t number; /* work of the timeline; 0: none */
    const char *name; /* static */
    char *node;       /* of the graph that runs it, set when it is pushed; own; NULL: none */
    bool always;      /* run after a failure too. It uses no memory of who waits for the queue */
};

enum bp_status bp_queue_create(struct bp_timeline *timeline, struct bp_queue **out_queue);

/* Adds a task, which the queue then owns. It waits, counted, while the queue is full; a task of the
 * queue itself is refused then. On failure, BP_ERR_TIMEOUT too, the task is not taken. */
enum bp_status bp_queue_push(struct bp_queue *queue, struct bp_task *task,
                             const struct bp_deadline *until);

/* Says now what pushing n tasks would be refused for later: the queue is full, and its user must
 * not wait for room, or not after the deadline. Nobody else gives it tasks meanwhile. */
enum bp_status bp_queue_check_room(struct bp_queue *queue, uint32_t n);

/* Whether this thread runs a task of the queue, which must not wait for it; and the refusal,
 * BP_ERR_INVALID, for calls that would push something and then wait. */
bool bp_queue_is_current(const struct bp_queue *queue);
enum bp_status bp_queue_check_deadlock(const struct bp_queue *queue);

/* Waits until work number has ended. BP_ERR_TIMEOUT. BP_ERR_INVALID: a task of the queue would wait
 * for itself. BP_ERR_SHUTDOWN: the process is leaving. Then what the caller has pushed is over, or
 * will never begin: it touches nothing any more. */
enum bp_status bp_queue_wait(struct bp_queue *queue, uint64_t number,
                             const struct bp_deadline *until);

/* The same for a task of the caller's that uses memory of the caller's: on BP_ERR_TIMEOUT it is not
 * run any more. What has begun is waited for. */
enum bp_status bp_queue_wait_or_cancel(struct bp_queue *queue, uint64_t number,
                                       const struct bp_deadline *until);

/* The same for all tasks that it was given so far. */
enum bp_status bp_queue_flush(struct bp_queue *queue, const struct bp_deadline *until);

/* Whether this thread is a queue's. */
bool bp_queue_on_worker(void);
/* In a forked child: it is not any more. A worker that forked, in a function of the app's, ends. */
void bp_queue_after_fork(void);

/* Nothing is waiting or running. */
bool bp_queue_is_idle(struct bp_queue *queue);

/* Whether it runs something on another thread, or (the process is not leaving) will. what: its
 * name. */
bool bp_queue_is_busy(struct bp_queue *queue, char *what, size_t size);

/* Its stream is gone: when nothing has come for a while its thread ends. The next task begins
 * another. */
void bp_queue_retire(struct bp_queue *queue);

/* Who waits for it looks again whether the process is leaving. */
void bp_queue_wake(struct bp_queue *queue);

/* Runs what is in it, and ends the thread. */
void bp_queue_destroy(struct bp_queue *queue);

#endif
