/* SPDX-License-Identifier: Apache-2.0 */
/* watchdog.c: the thread that watches what a communicator's ranks have given to their devices.
 * While something is under way it asks, ever more rarely, how far it is; when the library, a rank
 * or the clock says that it will not end well, the communicator fails for all ranks, the streams
 * get that failure, and the library is told to end what waits. So nobody waits for ever, whatever
 * the app waits in. */
#include "native.h"

#include <stdlib.h>
#include <unistd.h>

static const uint64_t first_pause_ns = 100000, last_pause_ns = 5000000;
static const uint64_t grace_ns = 100000000; /* a rank that has ended all may go before others end */
static const uint64_t far_ns = 250000000;   /* for what ranks of other hosts said last to come */

/* Ends the library's communicator. Who gives it something now is let out first, unless that is what
 * hangs. */
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

static void watchdog_forget(struct bp_flight *flight)
{
    free(flight->given);
    flight->given = NULL;
}

/* The communicator has failed: the streams of what is under way answer that. */
static void watchdog_give_up(struct bp_native *native)
{
    for (uint32_t i = 0; i < native->n; i++) {
        bp_timeline_keep(native->flight[i].timeline, bp_comm_answer(&native->comm->board->failure));
        watchdog_forget(&native->flight[i]);
    }
    native->n = 0;
    end_library(native);
}

/* Work that failed here has ended, but not for the other ranks. */
static void tell_of_failure(struct bp_native *native, struct bp_timeline *timeline)
{
    struct bp_failure *own = &timeline->failure, *all = &timeline->device->failure;
    struct bp_failure *failure = bp_failed(own) ? own : bp_failed(all) ? all : NULL;

    if (failure)
        bp_comm_fail(&native->comm->board->failure, BP_ERR_PEER, "work of rank %u failed: %s",
                     native->comm->rank, failure->why ? failure->why : "");
}

static void remove_ended(struct bp_native *native)
{
    struct bp_board_rank *me = native->comm->board->me;
    uint32_t left = 0;

    for (uint32_t i = 0; i < native->n; i++) {
        struct bp_flight *f = &native->flight[i];
        if (!f->submitted || !bp_timeline_poll(f->timeline, f->number)) {
            native->flight[left++] = *f;
            continue;
        }
        tell_of_failure(native, f->timeline);
        if (f->sequence > atomic_load(&me->settled)) atomic_store(&me->settled, f->sequence);
        watchdog_forget(f);
    }
    native->n = left;
}

/* Whose process is gone, while the oldest call may need it; BP_BOARD_ANY: nobody's. */
static uint32_t find_dead(const struct bp_native *native)
{
    const struct bp_shm_rank *b = native->comm->board;
    const struct bp_flight *f = native->flight;

    for (uint32_t i = 0; f->sequence && i < b->n; i++)
        if (atomic_load(&b->at[i].settled) < f->sequence && bp_board_is_dead(b, i, 0)) return i;
    for (uint32_t i = 0; i < f->n_given; i++)
        if (!f->given[i].far && bp_board_is_dead(b, f->given[i].rank, 0))
            return f->given[i].rank;
    return BP_BOARD_ANY;
}

static void look_for_dead(struct bp_native *native, uint64_t now)
{
    uint32_t rank = find_dead(native);

    if (rank == BP_BOARD_ANY) native->dead_since = 0;
    else if (!native->dead_since) native->dead_since = now;
    else if (now - native->dead_since > grace_ns) bp_board_died(native->comm->board, rank);
}

static bool is_due_here(const struct bp_shm_rank *b, const struct bp_flight *f)
{
    return f->sequence ? bp_board_is_post_due(b, f->sequence)
                       : bp_board_is_given_due(b, f->given, f->n_given);
}

/* Who is missing here is known here; who is missing elsewhere has said what it called last. */
static void name_late(struct bp_native *native, const struct bp_flight *f, uint64_t late_ns)
{
    struct bp_shm_rank *b = native->comm->board;

    if (native->comm->far && !is_due_here(b, f)) {
        native->late = *f;
        native->is_late = late_ns > far_ns;
    } else {
        bp_flight_late(b, f);
    }
}

static void look_at_clock(struct bp_native *native, uint64_t now)
{
    for (uint32_t i = 0; i < native->n; i++) {
        struct bp_flight *f = &native->flight[i];
        if (!f->began && (!f->submitted || bp_timeline_poll(f->timeline, f->number - 1)))
            f->began = now;
        if (!f->began || now - f->began <= f->timeout_ns) continue;
        name_late(native, f, now - f->began - f->timeout_ns);
        return;
    }
}

static void ask_library(struct bp_native *native)
{
    struct bp_device *device = native->comm->device;
    enum bp_status status;

    bp_error_enter();
    status = native->ccl->comm_error(native->self, native->raw);
    if (bp_device_leave(device, status, "comm_error"))
        bp_comm_fail(&native->comm->board->failure, BP_ERR_PEER, "the library of rank %u says: %s",
                     native->comm->rank, bp_error_message());
}

static void watchdog_look(struct bp_native *native)
{
    struct bp_shm_rank *b = native->comm->board;
    uint64_t now = bp_clock_ns();

    remove_ended(native);
    if (!native->n && !bp_comm_has_failed(&b->failure)) return;
    if (!bp_comm_has_failed(&b->failure)) ask_library(native);
    if (!bp_comm_has_failed(&b->failure)) look_for_dead(native, now);
    if (!bp_comm_has_failed(&b->failure)) look_at_clock(native, now);
    if (bp_comm_has_failed(&b->failure)) watchdog_give_up(native);
}

/* What takes its time is done without the lock. Flights are removed by this thread only, but for
 * those that the library refuses, which have given no parts. */
static void look_afar(struct bp_native *native)
{
    struct bp_far *far = native->comm->far;
    struct bp_flight oldest;
    bool any = native->n, late = native->is_late;

    if (!far) return;
    if (any) oldest = native->flight[0];
    native->is_late = false;
    pthread_mutex_unlock(&native->lock);
    if (late) bp_far_late(far, &native->late);
    else bp_far_look(far, any ? &oldest : NULL);
    pthread_mutex_lock(&native->lock);
}

static void sleep_for(struct bp_native *native, uint64_t pause_ns)
{
    uint64_t until = bp_clock_ns() + pause_ns;
    struct timespec t = bp_timespec(until);

    if (native->n || (native->comm->far && bp_far_owes(native->comm->far)))
        pthread_cond_timedwait(&native->moved, &native->lock, &t);
    else pthread_cond_wait(&native->moved, &native->lock);
}

/* Until the communicator is given back and all has ended; when the process leaves, nothing is
 * touched any more. */
static void *watchdog_watch(void *arg)
{
    struct bp_native *native = arg;
    struct bp_comm *comm = native->comm;
    uint64_t pause = first_pause_ns;
    uint32_t before = 0;

    pthread_mutex_lock(&native->lock);
    while (!bp_stopping() && (native->n || !native->closing)) {
        sleep_for(native, pause);
        if (bp_stopping()) break;
        watchdog_look(native);
        look_afar(native);
        pause = native->n != before ? first_pause_ns : 2 * pause;
        if (pause > last_pause_ns) pause = last_pause_ns;
        before = native->n;
    }
    pthread_mutex_unlock(&native->lock);
    if (bp_stopping()) {
        bp_process_abandon(comm);
        return NULL;
    }
    if (comm->far && bp_far_owes(comm->far)) bp_far_say(comm->far);
    if (bp_comm_has_failed(&comm->board->failure)) end_library(native);
    native->ccl->comm_destroy(native->self, native->raw);
    native->release(comm);
    return NULL;
}

enum bp_status bp_watch_begin(struct bp_native *native)
{
    atomic_fetch_add(&native->comm->refs, 1);
    if (!pthread_create(&native->thread, NULL, watchdog_watch, native)) return BP_OK;
    atomic_fetch_sub(&native->comm->refs, 1);
    return bp_error(BP_ERR_INTERNAL, "bp_comm_create: no thread for a communicator");
}

enum bp_status bp_watch_push(struct bp_native *native, const struct bp_flight *flight)
{
    enum bp_status status = BP_OK;

    pthread_mutex_lock(&native->lock);
    if (native->n == native->room) {
        uint32_t room = native->room ? 2 * native->room : 16;
        struct bp_flight *more = realloc(native->flight, room * sizeof *more);
        if (more) native->flight = more;
        if (more) native->room = room;
        else status = bp_error(BP_ERR_MEMORY, "no memory for a collective call");
    }
    if (status == BP_OK) {
        native->flight[native->n++] = *flight;
        if (native->n == 1) pthread_cond_signal(&native->moved);
    } else {
        free(flight->given);
    }
    pthread_mutex_unlock(&native->lock);
    return status;
}

/* What others may still have to compare is kept: so a rank is no further ahead of itself. */
static bool is_far_ahead(struct bp_native *native, uint64_t sequence)
{
    bool ahead = false;

    pthread_mutex_lock(&native->lock);
    for (uint32_t i = 0; i < native->n && !ahead; i++)
        ahead = native->flight[i].sequence && native->flight[i].sequence + BP_FAR_POSTS <= sequence;
    pthread_mutex_unlock(&native->lock);
    return ahead;
}

enum bp_status bp_watch_await(struct bp_native *native, uint64_t sequence)
{
    struct bp_shm_rank *b = native->comm->board;

    while (is_far_ahead(native, sequence)) {
        if (bp_comm_has_failed(&b->failure)) return bp_comm_answer(&b->failure);
        usleep(100);
    }
    return BP_OK;
}

void bp_watch_wake(struct bp_native *native)
{
    pthread_mutex_lock(&native->lock);
    if (!native->n) pthread_cond_signal(&native->moved);
    pthread_mutex_unlock(&native->lock);
}

/* It is the last one, unless the communicator failed meanwhile. */
void bp_watch_given(struct bp_native *native, uint64_t number, bool given)
{
    struct bp_flight *f;

    pthread_mutex_lock(&native->lock);
    f = native->n ? &native->flight[native->n - 1] : NULL;
    if (f && f->number == number && !f->submitted) {
        if (given) f->submitted = true;
        else watchdog_forget(&native->flight[--native->n]);
    }
    pthread_mutex_unlock(&native->lock);
}
