/* SPDX-License-Identifier: Apache-2.0 */
/* watchdog.c: runs the thread that observes the calls that a rank has submitted to its device.
 * While calls are in progress it polls them, at growing intervals. If the library, a dead rank or a
 * timeout shows that a call cannot end, the communicator fails for all ranks, the streams report
 * that failure, and the library aborts its communicator. So the app never waits for ever, whichever
 * function it waits in. */
#include "native.h"

#include <stdlib.h>
#include <unistd.h>

static const uint64_t first_pause_ns = 100000, last_pause_ns = 5000000;
static const uint64_t grace_ns = 100000000; /* how early a rank that has ended its calls may exit */
static const uint64_t remote_ns = 250000000; /* for remote ranks' states to arrive */

/* Aborts the library's communicator. First waits, for a second at most, until no thread is in a
 * call of the library; a thread that hangs there is ended by the abort. */
static void end_library(struct bp_native *native)
{
    struct timespec until;
    bool mine;

    if (atomic_load(&native->aborted)) return;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    mine = !pthread_mutex_timedlock(&native->call, &until);
    atomic_store(&native->aborted, true);
    native->ccl->comm_abort(native->self, native->raw);
    if (mine) pthread_mutex_unlock(&native->call);
}

static void work_free(struct bp_native_work *work)
{
    free(work->parts);
    work->parts = NULL;
}

/* The communicator has failed: the streams of all pending work report the failure. */
static void watchdog_fail(struct bp_native *native)
{
    for (uint32_t i = 0; i < native->n; i++) {
        bp_timeline_set_failure(native->pending[i].timeline,
                                bp_comm_failure_report(&native->comm->shm->failure));
        work_free(&native->pending[i]);
    }
    native->n = 0;
    end_library(native);
}

/* Work that failed here has ended on this rank, but the other ranks would wait for it: its failure
 * is published. */
static void report_work_failure(struct bp_native *native, struct bp_timeline *timeline)
{
    struct bp_failure *own = &timeline->failure, *all = &timeline->device->failure;
    struct bp_failure *failure = bp_failure_is_set(own) ? own : bp_failure_is_set(all) ? all : NULL;

    if (failure)
        bp_comm_fail(&native->comm->shm->failure, BP_ERR_PEER, "work of rank %u failed: %s",
                     native->comm->rank, failure->why ? failure->why : "");
}

static void remove_ended(struct bp_native *native)
{
    struct bp_shm_rank_state *me = native->comm->shm->me;
    uint32_t left = 0;

    for (uint32_t i = 0; i < native->n; i++) {
        struct bp_native_work *f = &native->pending[i];
        if (!f->submitted || !bp_timeline_poll(f->timeline, f->number)) {
            native->pending[left++] = *f;
            continue;
        }
        report_work_failure(native, f->timeline);
        if (f->sequence > atomic_load(&me->completed)) atomic_store(&me->completed, f->sequence);
        work_free(f);
    }
    native->n = left;
}

/* A rank whose process has died, and that the oldest call may need; BP_RANK_ANY: there is none. */
static uint32_t find_dead(const struct bp_native *native)
{
    const struct bp_shm_rank *b = native->comm->shm;
    const struct bp_native_work *f = native->pending;

    for (uint32_t i = 0; f->sequence && i < b->n; i++)
        if (atomic_load(&b->ranks[i].completed) < f->sequence && bp_shm_rank_is_dead(b, i, 0))
            return i;
    for (uint32_t i = 0; i < f->n_part; i++)
        if (!f->parts[i].remote && bp_shm_rank_is_dead(b, f->parts[i].rank, 0))
            return f->parts[i].rank;
    return BP_RANK_ANY;
}

static void check_local_dead(struct bp_native *native, uint64_t now)
{
    uint32_t rank = find_dead(native);

    if (rank == BP_RANK_ANY) native->dead_since = 0;
    else if (!native->dead_since) native->dead_since = now;
    else if (now - native->dead_since > grace_ns) bp_shm_report_death(native->comm->shm, rank);
}

static bool is_behind_here(const struct bp_shm_rank *b, const struct bp_native_work *f)
{
    return f->sequence ? bp_seqlog_is_behind(b, f->sequence)
                       : bp_p2plog_is_behind(b, f->parts, f->n_part);
}

/* A missing rank of this host is found in the shared logs. If none is missing here, the fault is on
 * another host, and the ranks' published states are compared a moment later (poll_remote). */
static void report_late_work(struct bp_native *native, const struct bp_native_work *f,
                             uint64_t late_ns)
{
    struct bp_shm_rank *b = native->comm->shm;

    if (native->comm->remote && !is_behind_here(b, f)) {
        native->late_work = *f;
        native->is_late = late_ns > remote_ns;
    } else {
        bp_native_report_timeout(b, f);
    }
}

static void check_deadlines(struct bp_native *native, uint64_t now)
{
    for (uint32_t i = 0; i < native->n; i++) {
        struct bp_native_work *f = &native->pending[i];
        if (!f->began && (!f->submitted || bp_timeline_poll(f->timeline, f->number - 1)))
            f->began = now;
        if (!f->began || now - f->began <= f->timeout_ns) continue;
        report_late_work(native, f, now - f->began - f->timeout_ns);
        return;
    }
}

static void poll_library(struct bp_native *native)
{
    struct bp_device *device = native->comm->device;
    enum bp_status status;

    bp_error_enter();
    status = native->ccl->comm_error(native->self, native->raw);
    if (bp_device_leave(device, status, "comm_error"))
        bp_comm_fail(&native->comm->shm->failure, BP_ERR_PEER, "the library of rank %u says: %s",
                     native->comm->rank, bp_error_message());
}

static void watchdog_poll(struct bp_native *native)
{
    struct bp_shm_rank *b = native->comm->shm;
    uint64_t now = bp_clock_ns();

    remove_ended(native);
    if (!native->n && !bp_comm_has_failed(&b->failure)) return;
    if (!bp_comm_has_failed(&b->failure)) poll_library(native);
    if (!bp_comm_has_failed(&b->failure)) check_local_dead(native, now);
    if (!bp_comm_has_failed(&b->failure)) check_deadlines(native, now);
    if (bp_comm_has_failed(&b->failure)) watchdog_fail(native);
}

/* Communicates with the store, which is slow, without the lock. Only this thread removes pending
 * work, except for calls that the library refuses; those have no `parts`, so the copy of the oldest
 * work remains valid. */
static void poll_remote(struct bp_native *native)
{
    struct bp_remote *remote = native->comm->remote;
    struct bp_native_work oldest;
    bool any = native->n, late = native->is_late;

    if (!remote) return;
    if (any) oldest = native->pending[0];
    native->is_late = false;
    pthread_mutex_unlock(&native->lock);
    if (late) bp_remote_report_timeout(remote, &native->late_work);
    else bp_remote_poll(remote, any ? &oldest : NULL);
    pthread_mutex_lock(&native->lock);
}

static void sleep_for(struct bp_native *native, uint64_t pause_ns)
{
    uint64_t until = bp_clock_ns() + pause_ns;
    struct timespec t = bp_timespec(until);

    if (native->n || (native->comm->remote && bp_remote_has_pending(native->comm->remote)))
        pthread_cond_timedwait(&native->moved, &native->lock, &t);
    else pthread_cond_wait(&native->moved, &native->lock);
}

/* Runs until the app has destroyed the communicator and all its work has ended. If the process
 * exits, the thread leaves everything as it is. */
static void *watchdog_thread(void *arg)
{
    struct bp_native *native = arg;
    struct bp_comm *comm = native->comm;
    uint64_t pause = first_pause_ns;
    uint32_t before = 0;

    pthread_mutex_lock(&native->lock);
    while (!bp_process_is_stopping() && (native->n || !native->closing)) {
        sleep_for(native, pause);
        if (bp_process_is_stopping()) break;
        watchdog_poll(native);
        poll_remote(native);
        pause = native->n != before ? first_pause_ns : 2 * pause;
        if (pause > last_pause_ns) pause = last_pause_ns;
        before = native->n;
    }
    pthread_mutex_unlock(&native->lock);
    if (bp_process_is_stopping()) {
        bp_process_abandon(comm);
        return NULL;
    }
    if (comm->remote && bp_remote_has_pending(comm->remote)) bp_remote_publish(comm->remote);
    if (bp_comm_has_failed(&comm->shm->failure)) end_library(native);
    native->ccl->comm_destroy(native->self, native->raw);
    native->release(comm);
    return NULL;
}

enum bp_status bp_watchdog_begin(struct bp_native *native)
{
    atomic_fetch_add(&native->comm->refs, 1);
    if (!pthread_create(&native->thread, NULL, watchdog_thread, native)) return BP_OK;
    atomic_fetch_sub(&native->comm->refs, 1);
    return bp_error(BP_ERR_INTERNAL, "bp_comm_create: no thread for a communicator");
}

enum bp_status bp_watchdog_push(struct bp_native *native, const struct bp_native_work *work)
{
    enum bp_status status = BP_OK;

    pthread_mutex_lock(&native->lock);
    if (native->n == native->room) {
        uint32_t room = native->room ? 2 * native->room : 16;
        struct bp_native_work *more = realloc(native->pending, room * sizeof *more);
        if (more) native->pending = more;
        if (more) native->room = room;
        else status = bp_error(BP_ERR_MEMORY, "no memory for a collective call");
    }
    if (status == BP_OK) {
        native->pending[native->n++] = *work;
        if (native->n == 1) pthread_cond_signal(&native->moved);
    } else {
        free(work->parts);
    }
    pthread_mutex_unlock(&native->lock);
    return status;
}

/* Other ranks may still have to compare calls that this rank keeps; therefore a rank may not be
 * more than BP_REMOTE_CALLS ahead of its oldest pending call. */
static bool is_too_far_ahead(struct bp_native *native, uint64_t sequence)
{
    bool ahead = false;

    pthread_mutex_lock(&native->lock);
    for (uint32_t i = 0; i < native->n && !ahead; i++)
        ahead = native->pending[i].sequence &&
                native->pending[i].sequence + BP_REMOTE_CALLS <= sequence;
    pthread_mutex_unlock(&native->lock);
    return ahead;
}

enum bp_status bp_watchdog_wait(struct bp_native *native, uint64_t sequence)
{
    struct bp_shm_rank *b = native->comm->shm;

    while (is_too_far_ahead(native, sequence)) {
        if (bp_comm_has_failed(&b->failure)) return bp_comm_failure_report(&b->failure);
        usleep(100);
    }
    return BP_OK;
}

void bp_watchdog_wake(struct bp_native *native)
{
    pthread_mutex_lock(&native->lock);
    if (!native->n) pthread_cond_signal(&native->moved);
    pthread_mutex_unlock(&native->lock);
}

/* The work is the last of the list, unless the communicator has failed in the meantime. */
void bp_watchdog_confirm(struct bp_native *native, uint64_t number, bool submitted)
{
    struct bp_native_work *f;

    pthread_mutex_lock(&native->lock);
    f = native->n ? &native->pending[native->n - 1] : NULL;
    if (f && f->number == number && !f->submitted) {
        if (submitted) f->submitted = true;
        else work_free(&native->pending[--native->n]);
    }
    pthread_mutex_unlock(&native->lock);
}
