/* SPDX-License-Identifier: Apache-2.0 */
/* queue.c: tasks in order on a thread of their own. */
#include "queue.h"

#include "device.h"

#include <errno.h>
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
    bool running, ending;
};

/* After a failure only what must be run is: the outputs of the rest are undefined anyway. */
static void run(struct bp_queue *queue, struct bp_task *task)
{
    struct bp_timeline *timeline = queue->timeline;
    enum bp_status status = BP_OK;

    if (task->always || !bp_failed(&timeline->failure)) status = task->run(task, timeline);
    if (status) {
        if (task->number)
            bp_error_write("launch %llu, %s: %s", (unsigned long long)task->number, task->name,
                           bp_error_message());
        bp_failure_keep(&timeline->failure, &timeline->lock, status);
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

static void *worker(void *arg)
{
    struct bp_queue *queue = arg;

    pthread_mutex_lock(&queue->lock);
    for (;;) {
        struct bp_task *task;
        uint64_t number;
        while (!queue->first && !queue->ending) pthread_cond_wait(&queue->work, &queue->lock);
        if (!queue->first) break;
        task = next_task(queue);
        queue->running = true;
        pthread_mutex_unlock(&queue->lock);
        run(queue, task);
        number = task->number;
        task->destroy(task);
        pthread_mutex_lock(&queue->lock);
        queue->running = false;
        if (number) bp_timeline_reached(queue->timeline, number);
        pthread_cond_broadcast(&queue->progress);
        pthread_cond_signal(&queue->room);
    }
    pthread_mutex_unlock(&queue->lock);
    return NULL;
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
        free(queue);
        return bp_error(BP_ERR_MEMORY, "%s: no thread for an asynchronous stream",
                        timeline->device->name);
    }
    *out_queue = queue;
    return BP_OK;
}

enum bp_status bp_queue_push(struct bp_queue *queue, struct bp_task *task)
{
    enum bp_status status = BP_OK;

    task->next = NULL;
    pthread_mutex_lock(&queue->lock);
    if (queue->waiting >= QUEUE_MAX) status = bp_block(queue->timeline->device, BP_BLOCK_QUEUE_FULL);
    while (status == BP_OK && queue->waiting >= QUEUE_MAX)
        pthread_cond_wait(&queue->room, &queue->lock);
    if (status == BP_OK) {
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

    pthread_mutex_lock(&queue->lock);
    while (!bp_timeline_passed(queue->timeline, number) && late != ETIMEDOUT)
        late = forever ? pthread_cond_wait(&queue->progress, &queue->lock)
                       : pthread_cond_timedwait(&queue->progress, &queue->lock, &until);
    pthread_mutex_unlock(&queue->lock);
    if (bp_timeline_passed(queue->timeline, number)) return BP_OK;
    return bp_error(BP_ERR_TIMEOUT, "%s: work %llu has not ended within %llu ms",
                    queue->timeline->device->name, (unsigned long long)number,
                    (unsigned long long)(timeout_ns / 1000000));
}

struct follow_task {
    struct bp_task task; /* first */
    struct bp_timeline *other;
    uint64_t number;
    struct bp_device *keep; /* the other's, with a reference, if it is not this one */
};

/* A failure of the other's work stays with the other. */
static enum bp_status follow(struct bp_task *task, struct bp_timeline *timeline)
{
    struct follow_task *f = (struct follow_task *)task;

    (void)timeline;
    bp_timeline_wait(f->other, f->number, UINT64_MAX);
    return BP_OK;
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

void bp_queue_destroy(struct bp_queue *queue)
{
    if (!queue) return;
    pthread_mutex_lock(&queue->lock);
    queue->ending = true;
    pthread_cond_signal(&queue->work);
    pthread_mutex_unlock(&queue->lock);
    pthread_join(queue->thread, NULL);
    pthread_mutex_destroy(&queue->lock);
    pthread_cond_destroy(&queue->work);
    pthread_cond_destroy(&queue->room);
    pthread_cond_destroy(&queue->progress);
    free(queue);
}
