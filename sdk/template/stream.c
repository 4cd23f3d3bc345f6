/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c: implements the queue of work and the events. Read next: kernels.c.
 *
 * If a driver has streams and events, its calls replace this code. A job runs when a caller waits
 * for it or queries it, never sooner: code that breaks the rules of asynchronous work fails each
 * time. There is no stream_create: all work has one order, and the app's streams share it. */
#include "template.h"
#include <string.h>
#include <time.h>

static void run_next(struct template_self *self)
{
    const struct template_job *job = &self->ring[self->done++ % TEMPLATE_DEPTH];
    /*+ profiler: uint64_t begin = template_profiler_now(); */

    job->run(job->args);
    /*+ profiler: template_profiler_record(self, job, begin); */
}

uint64_t template_submit(struct template_self *self, void (*run)(const void *args),
                         const void *args, size_t size)
{
    pthread_mutex_lock(&self->lock);
    if (self->submitted - self->done == TEMPLATE_DEPTH) run_next(self);
    struct template_job *job = &self->ring[self->submitted % TEMPLATE_DEPTH];
    job->run = run;
    /*+ profiler: job->tag = template_profiler_tag(); */
    memcpy(job->args, args, size);
    uint64_t number = ++self->submitted;
    pthread_mutex_unlock(&self->lock);
    return number;
}

static uint64_t stream_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Runs one job at a time until the requested job is done, or the time is over. Jobs of this device
 * cannot fail; a device whose jobs can fail stores the first failure and returns it here once. */
enum bp_status template_wait(struct template_self *self, uint64_t job, uint64_t timeout_ns)
{
    uint64_t start = stream_now_ns(), done;

    do {
        pthread_mutex_lock(&self->lock);
        if (self->done < job) run_next(self);
        done = self->done;
        pthread_mutex_unlock(&self->lock);
    } while (done < job && stream_now_ns() - start < timeout_ns);
    return done < job ? BP_ERR_TIMEOUT : BP_OK;
}

enum bp_status template_synchronize(void *self, uint32_t device, void *stream)
{
    return template_wait(self, ((struct template_self *)self)->submitted, UINT64_MAX);
}

/* An event is the number of the last job that was submitted before the event was recorded. */
enum bp_status template_event_create(void *self, uint32_t device, void **out_event)
{
    const struct bp_host *host = ((struct template_self *)self)->host;
    uint64_t *event = host->allocate(host->ctx, sizeof *event, _Alignof(uint64_t));

    if (!event) return bp_fail(host, BP_ERR_MEMORY, "template:%u: no memory for an event", device);
    *event = 0;
    *out_event = event;
    return BP_OK;
}

void template_event_destroy(void *self, uint32_t device, void *event)
{
    const struct bp_host *host = ((struct template_self *)self)->host;

    host->release(host->ctx, event, sizeof(uint64_t));
}

enum bp_status template_event_record(void *self, uint32_t device, void *stream, void *event)
{
    *(uint64_t *)event = ((struct template_self *)self)->submitted;
    return BP_OK;
}

enum bp_status template_event_query(void *self, uint32_t device, void *event)
{
    return template_wait(self, *(uint64_t *)event, 0) ? BP_ERR_NOT_READY : BP_OK;
}

enum bp_status template_event_wait(void *self, uint32_t device, void *event, uint64_t timeout_ns)
{
    if (template_wait(self, *(uint64_t *)event, timeout_ns) == BP_OK) return BP_OK;
    return bp_fail(((struct template_self *)self)->host, BP_ERR_TIMEOUT,
                   "template:%u: event not reached after %.3f s", device, (double)timeout_ns / 1e9);
}
