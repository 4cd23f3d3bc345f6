/* SPDX-License-Identifier: Apache-2.0 */
/* launch_queued.c: puts a run of a schedule into a stream's queue, as one task. */
#include "schedule.h"

#include <stdlib.h>

struct schedule_task {
    struct bp_task task;          /* first */
    struct bp_schedule *schedule; /* a reference, as the context */
    struct bp_schedule_context *context;
    struct bp_schedule_watch watch;
};

/* The app knows of a stop between two launches: it has cancelled the stream. */
static enum bp_status schedule_task_run(struct bp_task *task, struct bp_timeline *timeline)
{
    struct schedule_task *t = (struct schedule_task *)task;
    enum bp_status status;

    bp_error_enter();
    status = bp_schedule_launch_here(t->schedule, t->context, timeline, task->number, &t->watch);
    if (status == BP_ERR_CANCELLED) atomic_store(&timeline->failure.reported, true);
    return status;
}

static void schedule_task_destroy(struct bp_task *task)
{
    struct schedule_task *t = (struct schedule_task *)task;

    bp_context_put(t->schedule, t->context);
    bp_schedule_release(t->schedule);
    free(t);
}

/* A function of bp_stream_callback must not wait for its own stream, so its runs are not watched:
 * the launches of a watched run end before the call, because the watcher sees the program. */
enum bp_status bp_schedule_enqueue(struct bp_schedule *s, struct bp_schedule_context *c,
                                   struct bp_timeline *timeline,
                                   const struct bp_schedule_watch *watch)
{
    struct bp_deadline until = bp_deadline_of(timeline->device);
    bool watched = watch->watcher && !bp_queue_is_current(timeline->queue);
    struct schedule_task *t = calloc(1, sizeof *t);
    enum bp_status status;

    if (!t) return bp_error(BP_ERR_MEMORY, "no memory for a program in a queue");
    t->task = (struct bp_task){.run = schedule_task_run,
                               .destroy = schedule_task_destroy,
                               .number = bp_work_begin(timeline, "a program"),
                               .name = "a program"};
    t->schedule = s;
    t->context = c;
    if (watched) t->watch = *watch;
    atomic_fetch_add(&s->refs, 1);
    atomic_fetch_add(&c->refs, 1);
    status = bp_process_is_stopping() ? bp_error_stopped()
                                      : bp_queue_push(timeline->queue, &t->task, &until);
    if (status) {
        bp_work_cancel(timeline, t->task.number);
        schedule_task_destroy(&t->task);
        return status;
    }
    bp_work_end(timeline, atomic_load(&timeline->last));
    return watched ? bp_queue_wait(timeline->queue, atomic_load(&timeline->last), &bp_deadline_none)
                   : BP_OK;
}
