/* SPDX-License-Identifier: Apache-2.0 */
/* submit.c: submits calls of a communicator as work of a stream. It runs them immediately on an
 * inline stream, as a task on a stream with a queue, and staged through host memory where the host
 * cannot address the device's memory.
 *
 * A communicator runs its work in the order of submission, also if it was submitted to several
 * streams. */
#include "../device/profiled.h"
#include "comm.h"

#include <stdlib.h>

static bool is_host_visible(const struct bp_tensor *t)
{
    return !t || !t->view.count || bp_tensor_host_visible(t);
}

static void step_set_buffers(struct bp_comm_step *step)
{
    struct bp_collective *c = &step->c;

    if (step->src && step->src->view.count) {
        c->src = step->src->view.data;
        c->src_buffer = step->src->buffer;
    }
    if (step->dst && step->dst->view.count) {
        c->dst = step->dst->view.data;
        c->dst_buffer = step->dst->buffer;
    }
}

static enum bp_status submit_run_steps(struct bp_comm *comm, const struct bp_comm_step *steps,
                                       uint32_t n)
{
    bool pairs = steps->c.call == BP_COMM_SEND || steps->c.call == BP_COMM_RECV;

    return pairs ? comm->transport->p2p(comm->self, &steps->c, n, sizeof *steps)
                 : comm->transport->collective(comm->self, &steps->c);
}

static enum bp_status wait_for_turn(struct bp_comm *comm, uint64_t number, uint64_t timeout_ns)
{
    uint64_t deadline = bp_clock_after(timeout_ns);
    struct timespec until = bp_timespec(deadline);
    bool late = false;

    pthread_mutex_lock(&comm->lock);
    atomic_fetch_add(&comm->waiting, 1);
    while (atomic_load(&comm->ended) != number && !late)
        late = deadline == UINT64_MAX ? pthread_cond_wait(&comm->turn, &comm->lock)
                                      : pthread_cond_timedwait(&comm->turn, &comm->lock, &until);
    atomic_fetch_sub(&comm->waiting, 1);
    pthread_mutex_unlock(&comm->lock);
    if (!late) return BP_OK;
    return bp_comm_fail(&comm->shm->failure, BP_ERR_TIMEOUT,
                        "rank %u waited for an earlier call of its own, on another stream, which "
                        "does not end",
                        comm->rank);
}

static enum bp_status begin_turn(struct bp_comm *comm, uint64_t number, uint64_t timeout_ns)
{
    if (atomic_load_explicit(&comm->ended, memory_order_acquire) == number) return BP_OK;
    return wait_for_turn(comm, number, timeout_ns);
}

static void end_turn(struct bp_comm *comm, uint64_t number)
{
    atomic_store(&comm->ended, number + 1);
    if (!atomic_load(&comm->waiting)) return;
    pthread_mutex_lock(&comm->lock);
    pthread_cond_broadcast(&comm->turn);
    pthread_mutex_unlock(&comm->lock);
}

/* Records a call of a communicator, which this thread has run. */
static void submit_profile(struct bp_timeline *timeline, const struct bp_comm_step *steps,
                           uint32_t n, uint64_t began)
{
    bool is_device = timeline->is_inline || timeline->queue;

    bp_profile_put(&(struct bp_profile_put){.begin = began,
                                            .end = bp_profile_now(),
                                            .name = bp_comm_steps_name(steps, n),
                                            .device = timeline->device->name,
                                            .stream = timeline->id,
                                            .bytes = bp_comm_steps_bytes(steps, n),
                                            .kind = BP_RECORD_COLLECTIVE,
                                            .flags = is_device ? BP_PROFILE_ON_DEVICE : 0});
}

/* Runs the steps in the order of the communicator's calls, as work of the timeline's stream. */
static enum bp_status submit_in_turn(struct bp_comm *comm, const struct bp_comm_step *steps,
                                     uint32_t n, uint64_t turn, struct bp_timeline *timeline)
{
    uint64_t began = bp_profile_begin();
    enum bp_status status = begin_turn(comm, turn, steps->c.timeout_ns);

    if (status == BP_OK) status = submit_run_steps(comm, steps, n);
    end_turn(comm, turn);
    if (began) submit_profile(timeline, steps, n, began);
    return status;
}

static void note_writes(const struct bp_comm_step *steps, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (steps[i].dst) bp_tensor_record_write(steps[i].dst);
}

static enum bp_status submit_inline(struct bp_comm *comm, struct bp_stream *stream,
                                    const struct bp_comm_step *steps, uint32_t n)
{
    uint64_t number = bp_work_begin(stream->timeline, bp_comm_steps_name(steps, n));
    enum bp_status status = bp_process_is_stopping()
                                ? bp_error_stopped()
                                : submit_in_turn(comm, steps, n, comm->n_submitted++,
                                                 stream->timeline);

    bp_work_end(stream->timeline, number);
    note_writes(steps, n);
    return status;
}

/* A call in a queue. It holds references to the tensors and the communicator. */
struct comm_task {
    struct bp_task task; /* first */
    struct bp_comm *comm;
    uint64_t turn;
    bool ran;
    uint32_t n;
    int64_t *counts; /* a copy of src_counts and dst_counts; or NULL */
    struct bp_comm_step steps[];
};

static enum bp_status submit_run_task(struct bp_task *task, struct bp_timeline *timeline)
{
    struct comm_task *t = (struct comm_task *)task;

    t->ran = true;
    return submit_in_turn(t->comm, t->steps, t->n, t->turn, timeline);
}

/* A task that is dropped because its stream failed would leave the other ranks waiting, so the
 * failure is published to them. */
static void destroy_task(struct bp_task *task)
{
    struct comm_task *t = (struct comm_task *)task;

    if (!t->ran) {
        bp_comm_fail(&t->comm->shm->failure, BP_ERR_PEER,
                     "rank %u did not begin %s: work before it on its stream failed", t->comm->rank,
                     bp_comm_steps_name(t->steps, t->n));
        if (begin_turn(t->comm, t->turn, 0) == BP_OK) end_turn(t->comm, t->turn);
    }
    for (uint32_t i = 0; i < t->n; i++) {
        bp_tensor_destroy(t->steps[i].src);
        bp_tensor_destroy(t->steps[i].dst);
    }
    bp_comm_release(t->comm);
    free(t->counts);
    free(t);
}

static enum bp_status copy_counts(struct comm_task *t, uint32_t size)
{
    struct bp_collective *c = &t->steps[0].c;

    if (c->call != BP_COMM_ALL_TO_ALL_RAGGED) return BP_OK;
    t->counts = malloc(2 * size * sizeof *t->counts);
    if (!t->counts) return bp_error(BP_ERR_MEMORY, "bp_comm_all_to_all_ragged: no memory");
    memcpy(t->counts, c->src_counts, size * sizeof *t->counts);
    memcpy(t->counts + size, c->dst_counts, size * sizeof *t->counts);
    c->src_counts = t->counts;
    c->dst_counts = t->counts + size;
    return BP_OK;
}

static enum bp_status submit_push(struct bp_comm *comm, struct bp_stream *stream,
                                  const struct bp_comm_step *steps, uint32_t n, uint64_t number)
{
    struct comm_task *t = calloc(1, sizeof *t + n * sizeof *steps);
    struct bp_deadline until;
    enum bp_status status;

    if (!t) return bp_error(BP_ERR_MEMORY, "no memory for a collective call in a queue");
    t->task = (struct bp_task){.run = submit_run_task,
                               .destroy = destroy_task,
                               .number = number,
                               .name = bp_comm_steps_name(steps, n)};
    t->comm = comm;
    t->turn = comm->n_submitted;
    t->n = n;
    memcpy(t->steps, steps, n * sizeof *steps);
    status = copy_counts(t, comm->size);
    if (status) {
        free(t);
        return status;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (steps[i].src) bp_tensor_retain(steps[i].src);
        if (steps[i].dst) bp_tensor_retain(steps[i].dst);
    }
    atomic_fetch_add(&comm->refs, 1);
    comm->n_submitted++;
    until = bp_deadline_of(stream->device);
    status = bp_queue_push(stream->timeline->queue, &t->task, &until);
    if (status == BP_OK) return BP_OK;
    comm->n_submitted--; /* no other call was submitted since */
    t->ran = true;
    destroy_task(&t->task);
    return status;
}

static enum bp_status submit_queued(struct bp_comm *comm, struct bp_stream *stream,
                                    const struct bp_comm_step *steps, uint32_t n)
{
    struct bp_timeline *timeline = stream->timeline;
    uint64_t number = bp_work_begin(timeline, bp_comm_steps_name(steps, n));
    enum bp_status status = bp_process_is_stopping() ? bp_error_stopped()
                                                     : submit_push(comm, stream, steps, n, number);

    if (status) {
        bp_work_cancel(timeline, number);
        return status;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (steps[i].src) bp_buffer_record_use(steps[i].src->buffer, timeline, number);
        if (steps[i].dst) bp_buffer_record_use(steps[i].dst->buffer, timeline, number);
    }
    bp_work_end(timeline, number);
    note_writes(steps, n);
    return bp_stream_drain_if_sync(stream);
}

/* Runs staged calls of the transport between hosts. */
static enum bp_status submit_net_staged(struct bp_comm *comm, struct bp_stream *stream,
                                        struct bp_comm_step *steps, uint32_t n)
{
    enum bp_status status = bp_net_staging_read(comm->shm, stream, steps, n);

    if (status == BP_OK)
        status = submit_in_turn(comm, steps, n, comm->n_submitted++, stream->timeline);
    if (status == BP_OK) status = bp_net_staging_write(stream, steps, n);
    bp_net_staging_release(stream->device->core, steps, n);
    if (status == BP_OK) note_writes(steps, n);
    return status;
}

/* Runs staged calls. The host blocks for its device, which bp_block_record counts. */
static enum bp_status submit_staged(struct bp_comm *comm, struct bp_stream *stream,
                                    struct bp_comm_step *steps, uint32_t n)
{
    struct bp_staging *staging = NULL;
    enum bp_status status;

    if (stream->timeline->recording)
        return bp_error(BP_ERR_UNSUPPORTED, "%s: the host has a part in it",
                        bp_comm_steps_name(steps, n));
    TRY(bp_timeline_check_deadlock(stream->timeline));
    if (bp_process_is_stopping()) return bp_error_stopped();
    if (steps->c.call == BP_COMM_BARRIER) TRY(bp_stream_drain(stream)); /* no copy would wait */
    TRY(bp_block_record(stream->device, BP_BLOCK_COPY));
    if (comm->transport->whole_buffers) return submit_net_staged(comm, stream, steps, n);
    TRY(bp_staging_create(stream, steps, n, comm->size, &staging));
    status = submit_in_turn(comm, steps, n, comm->n_submitted++, stream->timeline);
    bp_staging_destroy(staging, n);
    note_writes(steps, n);
    return status ? status : bp_stream_drain_if_sync(stream);
}

enum bp_status bp_comm_submit(struct bp_comm *comm, struct bp_stream *stream,
                              struct bp_comm_step *steps, uint32_t n)
{
    bool visible = stream->device->is_inline;

    for (uint32_t i = 0; i < n; i++) {
        if (steps[i].src) TRY(bp_buffer_settle(steps[i].src->buffer));
        if (steps[i].dst) TRY(bp_buffer_settle(steps[i].dst->buffer));
        steps[i].c.timeout_ns = comm->timeout_ns;
        visible = visible && is_host_visible(steps[i].src) && is_host_visible(steps[i].dst);
    }
    if (comm->native) {
        const struct bp_transport *native = &bp_transports[BP_TRANSPORT_NATIVE];
        bool done;
        enum bp_status status = native->submit(comm, stream, steps, n, &done);
        if (status || done) return status;
    }
    if (!visible) return submit_staged(comm, stream, steps, n);
    for (uint32_t i = 0; i < n; i++) step_set_buffers(&steps[i]);
    if (stream->timeline->queue) return submit_queued(comm, stream, steps, n);
    return submit_inline(comm, stream, steps, n);
}
