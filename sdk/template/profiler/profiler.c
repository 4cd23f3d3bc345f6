/* SPDX-License-Identifier: Apache-2.0 */
/* profiler.c: hands over a record of each job to profilers of apps.
 *
 * A real plugin reads the times from events of its driver, or passes on the records of the vendor's
 * profiling library, and states the clock of these times. Here the queue measures its jobs. */
#include "template.h"
#include <stddef.h>
#include <time.h>

/* The tag of the call that submits work, set before the call and reset afterwards. */
static _Thread_local uint64_t profiler_tag;

uint64_t template_profiler_tag(void)
{
    return profiler_tag;
}

static enum bp_status profiler_start(void *instance, uint32_t device,
                                     const struct bp_record_sink *sink)
{
    struct template_self *self = instance;

    pthread_mutex_lock(&self->lock);
    self->sink = sink;
    pthread_mutex_unlock(&self->lock);
    return BP_OK;
}

/* The records of jobs that have run are handed over already. */
static void profiler_stop(void *instance, uint32_t device)
{
    struct template_self *self = instance;

    pthread_mutex_lock(&self->lock);
    self->sink = NULL;
    pthread_mutex_unlock(&self->lock);
}

/* clock is NULL: the times are those of CLOCK_MONOTONIC. */
uint64_t template_profiler_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Called with the queue's lock. Without streams, stream is NULL: the tag alone names the call. */
void template_profiler_record(struct template_self *self, const struct template_job *job,
                              uint64_t begin_ns)
{
    const struct bp_copy *copy = job->run == run_copy ? (const void *)job->args : NULL;
    struct bp_record record = {.begin_ns = begin_ns,
                               .end_ns = template_profiler_now(),
                               .tag = job->tag,
                               .bytes = copy ? copy->size : 0,
                               .kind = copy ? BP_RECORD_COPY : BP_RECORD_KERNEL};

    if (self->sink) self->sink->put(self->sink->ctx, &record, 1, sizeof record);
}

static void profiler_set_tag(void *self, uint32_t device, void *stream, uint64_t tag)
{
    profiler_tag = tag;
}

const struct bp_profilers template_profilers = {
    .size = sizeof template_profilers,
    .start = profiler_start,
    .stop = profiler_stop,
    .tag = profiler_set_tag,
};
