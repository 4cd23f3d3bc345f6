/* SPDX-License-Identifier: Apache-2.0 */
/* queue.c: tasks in order on a thread of their own. */
#include "queue.h"

#include "device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { QUEUE_MAX = 4096 }; /* waiting tasks: memory that they hold cannot grow without end */

struct bp_queue {
    struct bp_timeline *timeline;
    pthread_t thread;
    pthread_mutex_t lock; /* all below */
    pthread_cond_t work, room, progress;
    struct bp_task *first, **end;
    uint32_t waiting; /* tasks in the list */
    bool running;
    const char *name; /* of the task that runs, with its number */
    uint64_t number;
    uint64_t given, ended; /* tasks so far */
    bool ending;
};

static _Thread_local struct bp_queue *mine; /* whose worker this thread is */

bool bp_on_worker(void)
{
    return mine;
}

void bp_queue_forked(void)
{
    mine = NULL;
}

/* After a failure only what must be run is: the outputs of the rest are undefined anyway. */
static void run(struct bp_queue *queue, struct bp_task *task)
{
    struct bp_timeline *timeline = queue->timeline;
    enum bp_status status = BP_OK;

    if (task->always || (!bp_failed(&timeline->failure) && !bp_device_is_lost(timeline->device)))
        status = task->run(task, timeline);
    if (status) {
        if (status == BP_ERR_DEVICE_LOST) bp_device_lose(timeline->device);
        if (task->number)
            bp_error_write("launch %llu, %s: %s",
                           (unsigned long long)(task->number - atomic_load(&timeline->base)),
                           task->name, bp_error_message());
        bp_timeline_keep(timeline, status);
    }
}

static struct bp_task *next_task(struct bp_queue *queue)
{
    struct bp_task *task = queue->first;

    queue->first = task->next;
    if (!queue->first) queue->end = &queue->first;
    queue->waiting--;
    return task;
}

/* While the process is leaving nothing more is begun. */
static void *worker(void *arg)
{
    struct bp_queue *queue = mine = arg;

    pthread_mutex_lock(&queue->lock);
    for (;;) {
        struct bp_task *task;
        while (!queue->ending && (!queue->first || bp_leaving()))
            pthread_cond_wait(&queue->work, &queue->lock);
        if (!queue->first || bp_leaving()) break;
        task = next_task(queue);
        queue->running = true;
        queue->name = task->name;
        queue->number = task->number;
        pthread_mutex_unlock(&queue->lock);
        run(queue, task);
        if (mine != queue) return NULL; /* a child that the task forked: it has no queue */
        task->destroy(task);
        pthread_mutex_lock(&queue->lock);
        queue->running = false;
        queue->ended++;
        if (queue->number) bp_timeline_reached(queue->timeline, queue->number);
        pthread_cond_broadcast(&queue->progress);
        pthread_cond_signal(&queue->room);
    }
    pthread_mutex_unlock(&queue->lock);
    return NULL;
}

static void free_queue(struct bp_queue *queue)
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
    pthread_condattr_t monotonic;

    if (!queue) return bp_error(BP_ERR_MEMORY, "no memory for a queue");
    queue->timeline = timeline;
    queue->end = &queue->first;
    pthread_mutex_init(&queue->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&queue->work, NULL);
    pthread_cond_init(&queue->room, NULL);
    pthread_cond_init(&queue->progress, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (pthread_create(&queue->thread, NULL, worker, queue)) {
        free_queue(queue);
        return bp_error(BP_ERR_MEMORY, "%s: no thread for an asynchronous stream",
                        timeline->device->name);
    }
    *out_queue = queue;
    return BP_OK;
}

static enum bp_status own_end(struct bp_queue *queue)
{
    return bp_error(BP_ERR_INVALID,
                    "%s: a function of bp_stream_callback cannot wait for its own stream",
                    queue->timeline->device->name);
}

enum bp_status bp_queue_push(struct bp_queue *queue, struct bp_task *task)
{
    enum bp_status status = BP_OK;

    task->next = NULL;
    pthread_mutex_lock(&queue->lock);
    if (queue->waiting >= QUEUE_MAX)
        status = mine == queue ? own_end(queue)
                               : bp_block(queue->timeline->device, BP_BLOCK_QUEUE_FULL);
    while (status == BP_OK && queue->waiting >= QUEUE_MAX) {
        if (bp_leaving()) status = bp_stopped();
        else pthread_cond_wait(&queue->room, &queue->lock);
    }
    if (status == BP_OK) {
        queue->given++;
        *queue->end = task;
        queue->end = &task->next;
        queue->waiting++;
        pthread_cond_signal(&queue->work);
    }
    pthread_mutex_unlock(&queue->lock);
    return status;
}

static struct timespec deadline(uint64_t timeout_ns)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    timeout_ns += (uint64_t)t.tv_nsec;
    t.tv_sec += (time_t)(timeout_ns / 1000000000);
    t.tv_nsec = (long)(timeout_ns % 1000000000);
    return t;
}

enum bp_status bp_queue_wait(struct bp_queue *queue, uint64_t number, uint64_t timeout_ns)
{
    bool forever = timeout_ns > UINT64_MAX / 4;
    struct timespec until = deadline(forever ? 0 : timeout_ns);
    int late = 0;

    if (bp_timeline_passed(queue->timeline, number)) return BP_OK;
    if (mine == queue) return own_end(queue);
    pthread_mutex_lock(&queue->lock);
    while (!bp_timeline_passed(queue->timeline, number) && late != ETIMEDOUT && !bp_leaving())
        late = forever ? pthread_cond_wait(&queue->progress, &queue->lock)
                       : pthread_cond_timedwait(&queue->progress, &queue->lock, &until);
    pthread_mutex_unlock(&queue->lock);
    if (bp_timeline_passed(queue->timeline, number)) return BP_OK;
    if (late != ETIMEDOUT) return bp_stopped();
    return bp_error(BP_ERR_TIMEOUT, "%s: work %llu has not ended within %llu ms",
                    queue->timeline->device->name, (unsigned long long)number,
                    (unsigned long long)(timeout_ns / 1000000));
}

enum bp_status bp_queue_flush(struct bp_queue *queue)
{
    enum bp_status status = BP_OK;
    uint64_t given;

    pthread_mutex_lock(&queue->lock);
    given = queue->given;
    if (queue->ended < given && mine == queue) status = own_end(queue);
    while (status == BP_OK && queue->ended < given) {
        if (bp_leaving()) status = bp_stopped();
        else pthread_cond_wait(&queue->progress, &queue->lock);
    }
    pthread_mutex_unlock(&queue->lock);
    return status;
}

struct follow_task {
    struct bp_task task; /* first */
    struct bp_timeline *other;
    uint64_t number;
    struct bp_device *keep; /* the other's, with a reference, if it is not this one */
};

/* A failure of the other's work stays with the other. A wait that could not be made would let later
 * work run too early: then this stream has failed. */
static enum bp_status follow(struct bp_task *task, struct bp_timeline *timeline)
{
    struct follow_task *f = (struct follow_task *)task;
    enum bp_status status = bp_timeline_wait(f->other, f->number, UINT64_MAX);

    (void)timeline;
    if (bp_timeline_passed(f->other, f->number) || !bp_is_of_the_wait(status)) return BP_OK;
    return bp_error(status, "the wait for an event of %s was not possible: %s",
                    f->other->device->name, bp_error_message());
}

static void free_follow(struct bp_task *task)
{
    struct follow_task *f = (struct follow_task *)task;

    if (f->keep) bp_device_release(f->keep);
    free(f);
}

enum bp_status bp_queue_follow(struct bp_queue *queue, struct bp_timeline *other, uint64_t number)
{
    struct follow_task *f = calloc(1, sizeof *f);
    enum bp_status status;

    if (!f) return bp_error(BP_ERR_MEMORY, "no memory for a wait");
    f->task.run = follow;
    f->task.name = "a wait for an event";
    f->task.destroy = free_follow;
    f->task.always = true;
    f->other = other;
    f->number = number;
    if (other->device != queue->timeline->device) f->keep = other->device;
    if (f->keep) bp_device_retain(f->keep);
    status = bp_queue_push(queue, &f->task);
    if (status) free_follow(&f->task);
    else bp_timeline_saw(queue->timeline, other, number);
    return status;
}

bool bp_queue_idle(struct bp_queue *queue)
{
    bool idle;

    pthread_mutex_lock(&queue->lock);
    idle = !queue->first && !queue->running;
    pthread_mutex_unlock(&queue->lock);
    return idle;
}

bool bp_queue_busy(struct bp_queue *queue, char *what, size_t size)
{
    const struct bp_task *task;
    bool busy;

    if (mine == queue) return false;
    pthread_mutex_lock(&queue->lock);
    task = bp_leaving() ? NULL : queue->first;
    busy = queue->running || task;
    if (busy)
        snprintf(what, size, "%s: launch %llu: %s", queue->timeline->device->name,
                 (unsigned long long)((queue->running ? queue->number : task->number) -
                                      atomic_load(&queue->timeline->base)),
                 queue->running ? queue->name : task->name);
    pthread_mutex_unlock(&queue->lock);
    return busy;
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
    if (!queue) return;
    pthread_mutex_lock(&queue->lock);
    queue->ending = true;
    pthread_cond_signal(&queue->work);
    pthread_mutex_unlock(&queue->lock);
    pthread_join(queue->thread, NULL);
    free_queue(queue);
}
