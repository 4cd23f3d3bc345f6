/* SPDX-License-Identifier: Apache-2.0 */
/* queue.c: runs the tasks of a stream in order on a worker thread, and lets other threads wait for
 * them. */
#include "queue.h"

#include "../base/activity.h"
#include "device.h"

#include <stdio.h>
#include <stdlib.h>

enum { QUEUE_MAX = 4096 }; /* waiting tasks: a limit of the memory that they hold */
static const uint64_t idle_ns = 250000000; /* without work and stream, then the thread ends */

struct bp_queue {
    struct bp_timeline *timeline;
    pthread_t thread;     /* under lock, as all below */
    pthread_mutex_t lock;
    pthread_cond_t work, room, progress;
    struct bp_task *first, **end;
    uint32_t waiting; /* tasks in the list */
    bool running, borrows; /* borrows: the task may use a waiting thread's memory */
    const char *name;   /* of the running task, like number */
    uint64_t number;
    uint64_t pushed, ended; /* numbers of tasks so far */
    bool stopping, retiring;
    bool started; /* thread must be joined */
};

static _Thread_local struct bp_queue *current; /* the queue whose worker this thread is */

bool bp_queue_on_worker(void)
{
    return current;
}

void bp_queue_after_fork(void)
{
    current = NULL;
}

/* After a failure the queue runs only the tasks with `always`: the outputs of the others are
 * undefined anyway. The first task that is skipped because the stream was cancelled fails. */
static enum bp_status queue_run_task(struct bp_timeline *timeline, struct bp_task *task)
{
    if (task->always) return task->run(task, timeline);
    if (bp_failure_is_set(&timeline->failure) || bp_device_is_lost(timeline->device)) return BP_OK;
    if (atomic_load(&timeline->cancelled)) {
        atomic_store(&timeline->failure.reported, true); /* the app knows of it */
        return bp_timeline_error_cancelled(timeline);
    }
    return task->run(task, timeline);
}

static void queue_run(struct bp_queue *queue, struct bp_task *task)
{
    struct bp_timeline *timeline = queue->timeline;
    enum bp_status status = queue_run_task(timeline, task);

    if (status) {
        if (status == BP_ERR_DEVICE_LOST) bp_device_set_lost(timeline->device);
        if (task->number)
            bp_error_write("launch %llu, %s%s%s: %s",
                           (unsigned long long)(task->number - atomic_load(&timeline->base)),
                           task->name, task->node ? ", node " : "", task->node ? task->node : "",
                           bp_error_message());
        bp_timeline_set_failure(timeline, status);
    }
}

static struct bp_task *queue_pop(struct bp_queue *queue)
{
    struct bp_task *task = queue->first;

    queue->first = task->next;
    if (!queue->first) queue->end = &queue->first;
    queue->waiting--;
    return task;
}

/* Waits until there is a task that may be started, or until no further task will come. */
static void queue_wait_task(struct bp_queue *queue)
{
    struct bp_deadline until = bp_deadline_none;
    bool in_time = true;

    while (!queue->stopping && (!queue->first || bp_process_is_exiting()) && in_time) {
        if (!queue->retiring) until = bp_deadline_none;
        else if (!bp_deadline_is_set(&until)) until = bp_deadline_after(idle_ns);
        in_time = bp_deadline_wait(&queue->work, &queue->lock, &until);
    }
}

/* Once the process is exiting, the worker starts no further task. */
static void *queue_worker(void *arg)
{
    struct bp_queue *queue = current = arg;

    pthread_mutex_lock(&queue->lock);
    for (;;) {
        struct bp_task *task;
        queue_wait_task(queue);
        if (!queue->first || bp_process_is_exiting()) break;
        task = queue_pop(queue);
        queue->running = true;
        queue->borrows = !task->always;
        queue->name = task->name;
        queue->number = task->number;
        pthread_mutex_unlock(&queue->lock);
        queue_run(queue, task);
        if (current != queue) return NULL; /* a child process that the task forked has no queue */
        free(task->node);
        task->destroy(task);
        pthread_mutex_lock(&queue->lock);
        queue->running = queue->borrows = false;
        queue->ended++;
        if (queue->number) bp_timeline_advance(queue->timeline, queue->number);
        pthread_cond_broadcast(&queue->progress);
        pthread_cond_broadcast(&queue->room);
    }
    if (!queue->stopping) { /* idle or exiting: no thread joins it, and a push starts another */
        queue->started = false;
        pthread_detach(pthread_self());
    }
    pthread_mutex_unlock(&queue->lock);
    return NULL;
}

/* Called with the queue locked. */
static enum bp_status queue_start(struct bp_queue *queue)
{
    if (queue->started) return BP_OK;
    queue->started = !pthread_create(&queue->thread, NULL, queue_worker, queue);
    if (queue->started) return BP_OK;
    return bp_error(BP_ERR_MEMORY, "%s: no thread for an asynchronous stream",
                    queue->timeline->device->name);
}

static void queue_free(struct bp_queue *queue)
{
    pthread_mutex_destroy(&queue->lock);
    pthread_cond_destroy(&queue->work);
    pthread_cond_destroy(&queue->room);
    pthread_cond_destroy(&queue->progress);
    free(queue);
}

enum bp_status bp_queue_create(struct bp_timeline *timeline, struct bp_queue **out_queue)
{
    struct bp_queue *queue = calloc(1, sizeof *queue);
    enum bp_status status;

    if (!queue) return bp_error(BP_ERR_MEMORY, "no memory for a queue");
    queue->timeline = timeline;
    queue->end = &queue->first;
    pthread_mutex_init(&queue->lock, NULL);
    bp_cond_init(&queue->work);
    bp_cond_init(&queue->room);
    bp_cond_init(&queue->progress);
    pthread_mutex_lock(&queue->lock);
    status = queue_start(queue);
    pthread_mutex_unlock(&queue->lock);
    if (status) queue_free(queue);
    else *out_queue = queue;
    return status;
}

bool bp_queue_is_current(const struct bp_queue *queue)
{
    return queue && current == queue;
}

enum bp_status bp_queue_check_deadlock(const struct bp_queue *queue)
{
    if (!bp_queue_is_current(queue)) return BP_OK;
    return bp_error(BP_ERR_INVALID,
                    "%s: a function of bp_stream_callback cannot wait for its own stream",
                    queue->timeline->device->name);
}

static enum bp_status queue_timeout(struct bp_queue *queue, uint64_t number,
                                    const struct bp_deadline *until)
{
    return bp_deadline_error(queue->timeline->device, queue->timeline, number, until);
}

/* Called with the queue locked. Returns BP_OK if n more tasks fit; otherwise counts the coming
 * wait, or refuses it. */
static enum bp_status queue_check_full(struct bp_queue *queue, uint32_t n)
{
    if (queue->waiting + (uint64_t)n <= QUEUE_MAX) return BP_OK;
    TRY(bp_queue_check_deadlock(queue));
    return bp_block_record(queue->timeline->device, BP_BLOCK_QUEUE_FULL);
}

/* Called with the queue locked. Waits until n tasks fit; for a larger n, until the queue is
 * empty. */
static enum bp_status queue_wait_room(struct bp_queue *queue, uint32_t n,
                                      const struct bp_deadline *until)
{
    bool in_time = true;

    if (n > QUEUE_MAX) n = QUEUE_MAX;
    TRY(queue_check_full(queue, n));
    while (queue->waiting + n > QUEUE_MAX) {
        if (bp_process_is_exiting()) return bp_error_stopped();
        if (!in_time) return queue_timeout(queue, UINT64_MAX, until);
        in_time = bp_deadline_wait(&queue->room, &queue->lock, until);
    }
    return BP_OK;
}

/* A caller that may wait without a deadline passes: bp_queue_push counts the wait when it
 * happens. */
enum bp_status bp_queue_check_room(struct bp_queue *queue, uint32_t n)
{
    struct bp_deadline until;
    enum bp_status status;

    if (current != queue && !queue->timeline->device->core->checks_room) return BP_OK;
    until = bp_deadline_of(queue->timeline->device);
    pthread_mutex_lock(&queue->lock);
    status = queue_check_full(queue, n);
    if (status == BP_OK && bp_deadline_is_set(&until) && current != queue)
        status = queue_wait_room(queue, n, &until);
    pthread_mutex_unlock(&queue->lock);
    return status;
}

enum bp_status bp_queue_push(struct bp_queue *queue, struct bp_task *task,
                             const struct bp_deadline *until)
{
    const char *node = queue->timeline->node;
    enum bp_status status;

    task->next = NULL;
    pthread_mutex_lock(&queue->lock);
    status = queue_wait_room(queue, 1, until);
    queue->retiring = false;
    if (status == BP_OK) status = queue_start(queue);
    if (status == BP_OK) {
        if (node) task->node = strdup(node); /* if memory runs out, the node stays unnamed */
        queue->pushed++;
        *queue->end = task;
        queue->end = &task->next;
        queue->waiting++;
        pthread_cond_signal(&queue->work);
    }
    pthread_mutex_unlock(&queue->lock);
    return status;
}

/* Called with the queue locked. Whether the process is exiting and the waiting thread may give up.
 * It must still wait for a running launch or copy, which may write to its memory. Tasks that have
 * not begun never will. */
static bool queue_is_abandoned(const struct bp_queue *queue)
{
    return bp_process_is_exiting() && !queue->borrows;
}

/* Called with the queue locked. */
static enum bp_status queue_wait_number(struct bp_queue *queue, uint64_t number,
                                        const struct bp_deadline *until)
{
    bool in_time = true;

    while (!bp_timeline_passed(queue->timeline, number) && in_time && !queue_is_abandoned(queue))
        in_time = bp_deadline_wait(&queue->progress, &queue->lock, until);
    if (bp_timeline_passed(queue->timeline, number)) return BP_OK;
    return in_time ? bp_error_stopped() : queue_timeout(queue, number, until);
}

enum bp_status bp_queue_wait(struct bp_queue *queue, uint64_t number,
                             const struct bp_deadline *until)
{
    enum bp_status status;
    uint32_t note;

    if (bp_timeline_passed(queue->timeline, number)) return BP_OK;
    TRY(bp_queue_check_deadlock(queue));
    note = bp_wait_activity_begin(queue->timeline->device, queue->timeline, number);
    pthread_mutex_lock(&queue->lock);
    status = queue_wait_number(queue, number, until);
    pthread_mutex_unlock(&queue->lock);
    bp_activity_end(note);
    return status;
}

static enum bp_status queue_skip_task(struct bp_task *task, struct bp_timeline *timeline)
{
    (void)task;
    (void)timeline;
    return BP_OK;
}

/* Called with the queue locked. The cancelled task stays in the list, so that its number is passed
 * in order. */
static bool queue_cancel(struct bp_queue *queue, uint64_t number)
{
    struct bp_task *task = queue->first;

    while (task && task->number != number) task = task->next;
    if (task) task->run = queue_skip_task;
    return task;
}

enum bp_status bp_queue_wait_or_cancel(struct bp_queue *queue, uint64_t number,
                                       const struct bp_deadline *until)
{
    enum bp_status status = bp_queue_wait(queue, number, until);
    bool cancelled;

    if (status != BP_ERR_TIMEOUT) return status;
    pthread_mutex_lock(&queue->lock);
    cancelled = queue_cancel(queue, number);
    pthread_mutex_unlock(&queue->lock);
    return cancelled ? status : bp_queue_wait(queue, number, &bp_deadline_none);
}

/* Called with the queue locked. */
static enum bp_status queue_flush(struct bp_queue *queue, const struct bp_deadline *until)
{
    uint64_t pushed = queue->pushed;
    bool in_time = true;

    if (queue->ended < pushed) TRY(bp_queue_check_deadlock(queue));
    while (queue->ended < pushed) {
        if (queue_is_abandoned(queue)) return bp_error_stopped();
        if (!in_time) return queue_timeout(queue, UINT64_MAX, until);
        in_time = bp_deadline_wait(&queue->progress, &queue->lock, until);
    }
    return BP_OK;
}

enum bp_status bp_queue_flush(struct bp_queue *queue, const struct bp_deadline *until)
{
    uint32_t note;
    enum bp_status status;

    if (bp_queue_is_idle(queue)) return BP_OK;
    note = bp_wait_activity_begin(queue->timeline->device, queue->timeline, UINT64_MAX);
    pthread_mutex_lock(&queue->lock);
    status = queue_flush(queue, until);
    pthread_mutex_unlock(&queue->lock);
    bp_activity_end(note);
    return status;
}

bool bp_queue_is_idle(struct bp_queue *queue)
{
    bool idle;

    pthread_mutex_lock(&queue->lock);
    idle = !queue->first && !queue->running;
    pthread_mutex_unlock(&queue->lock);
    return idle;
}

bool bp_queue_is_busy(struct bp_queue *queue, char *what, size_t size)
{
    const struct bp_task *task;
    bool busy;

    if (current == queue) return false;
    pthread_mutex_lock(&queue->lock);
    task = bp_process_is_exiting() ? NULL : queue->first;
    busy = queue->running || task;
    if (busy)
        snprintf(what, size, "%s: launch %llu: %s", queue->timeline->device->name,
                 (unsigned long long)((queue->running ? queue->number : task->number) -
                                      atomic_load(&queue->timeline->base)),
                 queue->running ? queue->name : task->name);
    pthread_mutex_unlock(&queue->lock);
    return busy;
}

void bp_queue_retire(struct bp_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->retiring = true;
    pthread_cond_signal(&queue->work);
    pthread_mutex_unlock(&queue->lock);
}

void bp_queue_wake(struct bp_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    pthread_cond_broadcast(&queue->work);
    pthread_cond_broadcast(&queue->room);
    pthread_cond_broadcast(&queue->progress);
    pthread_mutex_unlock(&queue->lock);
}

void bp_queue_destroy(struct bp_queue *queue)
{
    bool started;

    if (!queue) return;
    pthread_mutex_lock(&queue->lock);
    queue->stopping = true;
    started = queue->started;
    pthread_cond_signal(&queue->work);
    pthread_mutex_unlock(&queue->lock);
    if (started) pthread_join(queue->thread, NULL);
    queue_free(queue);
}
