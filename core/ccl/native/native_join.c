/* SPDX-License-Identifier: Apache-2.0 */
/* native_join.c: has a plugin's library join the ranks of a communicator. A library whose join does
 * not block is polled, and the join is aborted if it takes too long. Other libraries block until
 * all ranks have called comm_create, and cannot be interrupted. A separate thread makes this call;
 * the waiting rank can abandon the thread, if need be for ever, with the memory that the call
 * uses. */
#include "native.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { POLL_US = 1000 }; /* between two polls */

/* A call of comm_create. Freed by the thread or by the waiting rank, whichever leaves last. */
struct join_call {
    struct bp_device *device; /* a reference to it */
    uint32_t rank, size;
    pthread_t thread;
    pthread_mutex_t lock; /* of all members below */
    pthread_cond_t ended;
    bool done, left;
    void *raw;
    struct bp_native_result result;
    _Alignas(16) uint8_t id[]; /* a copy of the id */
};

void bp_native_result_set(struct bp_native_result *result, enum bp_status status)
{
    result->status = status;
    if (status) snprintf(result->why, sizeof result->why, "%s", bp_error_message());
}

static void free_join_call(struct join_call *e)
{
    bp_device_release(e->device);
    pthread_mutex_destroy(&e->lock);
    pthread_cond_destroy(&e->ended);
    free(e);
}

/* Frees a call, and the communicator that it joined if no rank uses that. */
static void join_discard(struct join_call *e)
{
    const struct bp_plugin_entry *plugin = e->device->entry;

    if (e->raw) {
        plugin->ccl.comm_abort(plugin->self, e->raw);
        plugin->ccl.comm_destroy(plugin->self, e->raw);
    }
    free_join_call(e);
}

static void *join_thread(void *arg)
{
    struct join_call *e = arg;
    const struct bp_plugin_entry *plugin = e->device->entry;
    struct bp_native_result result = {.zero = 0};
    enum bp_status status;
    void *raw = NULL;
    bool left;

    bp_error_enter();
    status = plugin->ccl.comm_create(plugin->self, e->device->index, (void *)e->id, e->rank,
                                     e->size, &raw);
    bp_native_result_set(&result, bp_error_leave(status, e->device->name, "comm_create"));
    pthread_mutex_lock(&e->lock);
    e->raw = status ? NULL : raw;
    e->result = result;
    e->done = true;
    left = e->left;
    pthread_cond_signal(&e->ended);
    pthread_mutex_unlock(&e->lock);
    if (left && bp_process_is_stopping()) bp_process_abandon(e);
    else if (left) join_discard(e);
    return NULL;
}

static enum bp_status join_begin(struct bp_comm *comm, const void *id, struct join_call **out)
{
    uint64_t bytes = bp_native_id_size(&comm->device->entry->ccl);
    struct join_call *e = calloc(1, sizeof *e + bytes);

    if (!e) return bp_error(BP_ERR_MEMORY, "bp_comm_create: no memory");
    e->device = comm->device;
    bp_device_retain(e->device);
    memcpy(e->id, id, bytes);
    e->rank = comm->rank;
    e->size = comm->size;
    pthread_mutex_init(&e->lock, NULL);
    bp_cond_init(&e->ended);
    if (!pthread_create(&e->thread, NULL, join_thread, e)) {
        *out = e;
        return BP_OK;
    }
    free_join_call(e);
    return bp_error(BP_ERR_INTERNAL, "bp_comm_create: no thread to join %s's library",
                    comm->device->name);
}

/* Waits at most ns; returns whether the call has ended. */
static bool join_wait(struct join_call *e, uint64_t ns)
{
    uint64_t until = bp_clock_ns() + ns;
    struct timespec t = bp_timespec(until);
    int late = 0;
    bool done;

    pthread_mutex_lock(&e->lock);
    while (!e->done && !late) late = pthread_cond_timedwait(&e->ended, &e->lock, &t);
    done = e->done;
    pthread_mutex_unlock(&e->lock);
    return done;
}

/* Leaves the call. Returns whether it is still in progress; the thread then frees it. */
static bool join_abandon(struct join_call *e)
{
    bool done;

    pthread_mutex_lock(&e->lock);
    done = e->done;
    e->left = !done;
    pthread_mutex_unlock(&e->lock);
    if (done) pthread_join(e->thread, NULL);
    else pthread_detach(e->thread);
    return !done;
}

/* Reports a timeout. Ranks that wait increase their `joins` again and again, also during this
 * function; a rank whose count stands still is at fault. */
static enum bp_status report_late(struct bp_comm *comm)
{
    struct bp_shm_rank *b = comm->shm;
    uint32_t before[BP_COMM_MAX_RANKS];
    char remote[1000] = "";

    for (uint32_t i = 0; i < b->n; i++) before[i] = atomic_load(&b->ranks[i].joins);
    if (comm->remote) bp_remote_find_stuck(comm->remote, remote, sizeof remote);
    for (int i = 0; i < 10; i++) {
        usleep(50000);
        atomic_fetch_add(&b->me->joins, 1);
        if (comm->remote) bp_remote_publish_joins(comm->remote);
    }
    if (comm->remote) bp_remote_find_stuck(comm->remote, remote, sizeof remote);
    return bp_join_report_timeout(b, before, remote, comm->timeout_ns);
}

/* Looks for failures while this rank waits. BP_OK: the communicator has not failed; *out may still
 * have the failure of another rank's join. */
static enum bp_status join_poll(struct bp_comm *comm, uint64_t deadline,
                                struct bp_native_result *out)
{
    struct bp_native_result result;
    char key[BP_STORE_KEY_MAX];
    uint64_t size;

    atomic_fetch_add(&comm->shm->me->joins, 1);
    TRY(bp_shm_rank_check(comm->shm));
    TRY(bp_store_failure_poll(comm->store, comm->name, false));
    if (comm->remote) {
        bp_remote_publish_joins(comm->remote);
        TRY(bp_remote_check_dead(comm->remote, NULL));
    }
    bp_store_rank_key(key, comm->name, "unjoined", 0);
    if (bp_store_get(comm->store, key, 0, &result, sizeof result, &size) == BP_OK &&
        size == sizeof result)
        *out = result;
    return out->status || bp_time_left(deadline) ? BP_OK : report_late(comm);
}

static void publish_joined(struct bp_comm *comm)
{
    atomic_store(&comm->shm->me->joins, BP_JOIN_ENDED);
    if (comm->remote) bp_remote_publish_joins(comm->remote);
}

static enum bp_status join_by_thread(struct bp_comm *comm, const void *id, uint64_t deadline,
                                     void **out_raw, struct bp_native_result *out)
{
    struct bp_native_result other = {.zero = 0};
    enum bp_status status = BP_OK;
    struct join_call *e;

    TRY(join_begin(comm, id, &e));
    while (!join_wait(e, BP_FAILURE_POLL_NS) && status == BP_OK && !other.status)
        status = join_poll(comm, deadline, &other);
    if (join_abandon(e)) {
        *out = other;
        return status;
    }
    publish_joined(comm);
    *out = e->result;
    if (status == BP_OK) {
        *out_raw = e->raw;
        e->raw = NULL;
    }
    join_discard(e);
    return status;
}

/* Whether the join has ended; result: its result. */
static bool is_joined(struct bp_comm *comm, void *raw, struct bp_native_result *result)
{
    const struct bp_plugin_entry *plugin = comm->device->entry;
    enum bp_status status;

    bp_error_enter();
    status = plugin->ccl.comm_joined(plugin->self, raw);
    if (status == BP_ERR_TIMEOUT) return false;
    bp_native_result_set(result, bp_error_leave(status, comm->device->name, "comm_joined"));
    return true;
}

/* Polls until the join has ended, time is up, or another rank has failed to join. */
static enum bp_status await_joined(struct bp_comm *comm, void *raw, uint64_t deadline, bool *joined,
                                   struct bp_native_result *out)
{
    uint64_t checked_ns = bp_clock_ns();
    enum bp_status status = BP_OK;

    while (!(*joined = is_joined(comm, raw, out)) && status == BP_OK && !out->status) {
        usleep(POLL_US);
        if (bp_clock_ns() - checked_ns < BP_FAILURE_POLL_NS) continue;
        checked_ns = bp_clock_ns();
        status = join_poll(comm, deadline, out);
    }
    return status;
}

/* began: the result of comm_begin. */
static enum bp_status join_by_polling(struct bp_comm *comm, enum bp_status began, void *raw,
                                      uint64_t deadline, void **out_raw,
                                      struct bp_native_result *out)
{
    const struct bp_plugin_entry *plugin = comm->device->entry;
    enum bp_status status = BP_OK;
    bool joined = true;

    bp_native_result_set(out, began);
    if (began) return BP_OK;
    status = await_joined(comm, raw, deadline, &joined, out);
    if (joined) publish_joined(comm);
    if (joined && status == BP_OK && !out->status) {
        *out_raw = raw;
        return BP_OK;
    }
    plugin->ccl.comm_abort(plugin->self, raw);
    plugin->ccl.comm_destroy(plugin->self, raw);
    return status;
}

enum bp_status bp_native_join(struct bp_comm *comm, const void *id, uint64_t deadline,
                              void **out_raw, struct bp_native_result *out)
{
    const struct bp_plugin_entry *plugin = comm->device->entry;
    enum bp_status began = BP_ERR_UNSUPPORTED;
    void *raw = NULL;

    atomic_fetch_add(&comm->shm->me->joins, 1);
    if (plugin->ccl.comm_begin) {
        bp_error_enter();
        began = plugin->ccl.comm_begin(plugin->self, comm->device->index, id, comm->rank,
                                       comm->size, &raw);
    }
    if (began == BP_ERR_UNSUPPORTED) return join_by_thread(comm, id, deadline, out_raw, out);
    began = bp_error_leave(began, comm->device->name, "comm_begin");
    return join_by_polling(comm, began, raw, deadline, out_raw, out);
}
