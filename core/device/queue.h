/* SPDX-License-Identifier: Apache-2.0 */
/* queue.h: declares the core's task queue with its worker thread. A queue makes a stream of an
 * inline device asynchronous, and calls the app's callbacks in stream order. */
#ifndef BP_QUEUE_H
#define BP_QUEUE_H

#include "deadline.h"

struct bp_timeline;
struct bp_queue;

/* One task of a queue. It is the first member of the struct that embeds it. */
struct bp_task {
    struct bp_task *next;
    /* Runs on the worker thread, without locks. A failure is stored in the timeline, with the
     * message of that thread: later tasks are not run, except those with `always`. */
    enum bp_status (*run)(struct bp_task *task, struct bp_timeline *timeline);
    void (*destroy)(struct bp_task *task); /* called whether the task ran or not */
    uint64_t number; /* number of the work on the timeline; 0: it has none */
    const char *name; /* static */
    char *node;       /* name of the graph node that runs it, set by the push; owned; NULL: none */
    bool always;      /* run after a failure too. The task uses no memory of a thread that waits for
                         the queue */
};

enum bp_status bp_queue_create(struct bp_timeline *timeline, struct bp_queue **out_queue);

/* Adds a task, which the queue then owns. While the queue is full the call waits, and the wait is
 * counted; in a task of the same queue the call returns BP_ERR_INVALID instead. If the call fails
 * (also by BP_ERR_TIMEOUT), the caller still owns the task. */
enum bp_status bp_queue_push(struct bp_queue *queue, struct bp_task *task,
                             const struct bp_deadline *until);

/* Checks in advance whether n tasks can be pushed. Returns the error of a later push if the queue
 * is full and the caller must not wait for room, or not beyond the deadline. No other thread may
 * push tasks meanwhile. */
enum bp_status bp_queue_check_room(struct bp_queue *queue, uint32_t n);

/* Whether the calling thread is running a task of the queue, and therefore must not wait for the
 * queue. bp_queue_check_deadlock returns BP_ERR_INVALID in that case: calls that push a task and
 * then wait for it check first. */
bool bp_queue_is_current(const struct bp_queue *queue);
enum bp_status bp_queue_check_deadlock(const struct bp_queue *queue);

/* Waits until work `number` has ended. BP_ERR_TIMEOUT: the deadline passed. BP_ERR_INVALID: the
 * caller is a task of the queue, which would wait for itself. BP_ERR_SHUTDOWN: the process is
 * exiting; the tasks that the caller has pushed have then ended or will never begin, so that they
 * touch no memory any more. */
enum bp_status bp_queue_wait(struct bp_queue *queue, uint64_t number,
                             const struct bp_deadline *until);

/* Like bp_queue_wait, for a task of the caller that uses memory of the caller. On BP_ERR_TIMEOUT
 * the task is cancelled and does not run; if it has already begun, the call waits for its end. */
enum bp_status bp_queue_wait_or_cancel(struct bp_queue *queue, uint64_t number,
                                       const struct bp_deadline *until);

/* Waits like bp_queue_wait, for all tasks that were pushed before the call. */
enum bp_status bp_queue_flush(struct bp_queue *queue, const struct bp_deadline *until);

/* Whether the calling thread is the worker of a queue. */
bool bp_queue_on_worker(void);
/* To be called in a forked child: its thread is no worker any more. If a function of the app forks
 * on a worker, that worker ends in the child. */
void bp_queue_after_fork(void);

/* Whether no task is waiting or running. */
bool bp_queue_is_idle(struct bp_queue *queue);

/* Whether the queue runs a task on another thread or, unless the process is exiting, will run one.
 * Writes the name of the task to `what`. */
bool bp_queue_is_busy(struct bp_queue *queue, char *what, size_t size);

/* The queue's stream was destroyed: the worker thread ends when no task has arrived for a while.
 * The next task starts another worker. */
void bp_queue_retire(struct bp_queue *queue);

/* Wakes the threads that wait for the queue: they check again whether the process is exiting. */
void bp_queue_wake(struct bp_queue *queue);

/* Runs the remaining tasks, ends the thread and frees the queue. */
void bp_queue_destroy(struct bp_queue *queue);

#endif
