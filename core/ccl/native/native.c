/* SPDX-License-Identifier: Apache-2.0 */
/* native.c: runs the collective calls of devices whose plugin has a collectives library. Each call
 * is logged in shared memory, where mismatches between ranks are found, and submitted to the
 * stream. */
#include "../../device/profiled.h"
#include "native.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bp_native_describe(const struct bp_device *device, char text[BP_RENDEZVOUS_LIBRARY], char *why,
                        size_t size)
{
    const struct bp_plugin_entry *entry = device->entry;
    const char *wanted = bp_env_get("BP_CCL_NATIVE");
    char id[32] = "";
    uint32_t version = 0;
    enum bp_status status = BP_OK;

    *text = *why = 0;
    if (device->is_inline || !entry->ccl.comm_create) return;
    if (wanted && !strcmp(wanted, "0")) {
        snprintf(why, size, "BP_CCL_NATIVE is 0");
        return;
    }
    bp_error_enter();
    if (entry->ccl.version) status = entry->ccl.version(entry->self, &version);
    status = bp_error_leave(status, entry->plugin.name, "version");
    if (entry->ccl.unique_id_long)
        snprintf(id, sizeof id, ", ids of %u", (unsigned)entry->ccl.id_size);
    if (status) snprintf(why, size, "%s", bp_error_message());
    else
        snprintf(text, BP_RENDEZVOUS_LIBRARY, "%.30s %.30s %u%s", entry->plugin.name,
                 entry->plugin.version, version, id);
}

/* The local rank of a global rank; BP_RANK_ANY: the rank is on another host. */
static uint32_t local_rank_of(const struct bp_comm *comm, uint32_t rank)
{
    if (!comm->net) return rank;
    return bp_net_is_local(comm->net, rank) ? comm->net->ranks[rank].local : BP_RANK_ANY;
}

static enum bp_status wait_value(struct bp_comm *comm, const char *what, uint32_t rank,
                                 uint64_t deadline, void *out, uint64_t bytes)
{
    uint32_t local = local_rank_of(comm, rank);
    int32_t pid = local == BP_RANK_ANY ? 0 : comm->shm->peers.pid[local];
    enum bp_status status = bp_rendezvous_wait(comm->store, comm->name, what, rank, pid, deadline,
                                               out, bytes);

    if (status != BP_ERR_TIMEOUT) return status;
    return bp_error(status, "bp_comm_create: rank %u came, but does not join %s's library", rank,
                    comm->device->name);
}

static enum bp_status publish_value(struct bp_comm *comm, const char *what, const void *value,
                                    uint64_t bytes)
{
    char key[BP_STORE_KEY_MAX];

    bp_store_rank_key(key, comm->name, what, comm->rank);
    return bp_store_set(comm->store, key, value, bytes);
}

static enum bp_status make_id(struct bp_native *native, struct bp_native_id *out)
{
    const struct bp_ccl *ccl = native->ccl;
    struct bp_ccl_id id = {{0}};
    enum bp_status status;

    if (ccl->unique_id_long) return ccl->unique_id_long(native->self, out->bytes);
    status = ccl->unique_id(native->self, &id);
    memcpy(out->bytes, &id, sizeof id);
    return status;
}

/* Rank 0 makes the id and publishes it; all ranks read it. */
static enum bp_status get_id(struct bp_native *native, uint64_t deadline, struct bp_native_id *out)
{
    struct bp_comm *comm = native->comm;
    uint64_t bytes = offsetof(struct bp_native_id, bytes) + bp_native_id_size(native->ccl);

    if (!comm->rank) {
        const char *callback = native->ccl->unique_id_long ? "unique_id_long" : "unique_id";
        enum bp_status status;
        bp_error_enter();
        status = make_id(native, out);
        bp_native_result_set(&out->result, bp_error_leave(status, comm->device->name, callback));
        TRY(publish_value(comm, "id", out, bytes));
    }
    return wait_value(comm, "id", 0, deadline, out, bytes);
}

/* Every rank reads every other rank's result, so either all ranks are joined, or none. A rank that
 * fails publishes that immediately under "unjoined", for ranks that are still waiting in the
 * library. */
static enum bp_status join_ranks(struct bp_native *native, const struct bp_native_id *id,
                                 uint64_t deadline, struct bp_native_result *out)
{
    struct bp_comm *comm = native->comm;
    struct bp_native_result own = {.zero = 0}, other;
    char key[BP_STORE_KEY_MAX];

    TRY(bp_native_join(comm, id->bytes, deadline, &native->raw, &own));
    bp_store_rank_key(key, comm->name, "unjoined", 0);
    if (own.status) TRY(bp_store_set(comm->store, key, &own, sizeof own));
    TRY(publish_value(comm, "joined", &own, sizeof own));
    for (uint32_t i = 0; i < comm->size; i++) {
        TRY(wait_value(comm, "joined", i, deadline, &other, sizeof other));
        if (other.status && !out->status) *out = other;
    }
    return BP_OK;
}

static void native_discard(struct bp_native *native)
{
    if (native->raw) {
        native->ccl->comm_abort(native->self, native->raw);
        native->ccl->comm_destroy(native->self, native->raw);
    }
    bp_native_destroy(native);
}

static struct bp_native *native_alloc(struct bp_comm *comm)
{
    struct bp_native *native = calloc(1, sizeof *native);

    if (!native) return NULL;
    native->comm = comm;
    native->ccl = &comm->device->entry->ccl;
    native->self = comm->device->entry->self;
    pthread_mutex_init(&native->call, NULL);
    pthread_mutex_init(&native->lock, NULL);
    bp_cond_init(&native->moved);
    return native;
}

/* Makes the id and joins all ranks. *out: why the ranks are not joined, if the communicator itself
 * has not failed. */
static enum bp_status join_all(struct bp_native *native, uint64_t deadline,
                               struct bp_native_result *out)
{
    struct bp_native_id *id = calloc(1, sizeof *id);
    enum bp_status status = id ? get_id(native, deadline, id)
                               : bp_error(BP_ERR_MEMORY, "bp_comm_create: no memory");

    if (status == BP_OK) *out = id->result;
    if (status == BP_OK && !out->status) status = join_ranks(native, id, deadline, out);
    free(id);
    return status;
}

enum bp_status bp_native_create(struct bp_comm *comm, uint64_t timeout_ns,
                                void (*release)(struct bp_comm *comm))
{
    struct bp_native *native = native_alloc(comm);
    uint64_t deadline = bp_clock_after(timeout_ns);
    struct bp_native_result result = {.zero = 0};
    enum bp_status status;

    if (!native) return bp_error(BP_ERR_MEMORY, "bp_comm_create: no memory");
    native->release = release;
    status = comm->net ? bp_remote_create(comm, &comm->remote) : BP_OK;
    if (status == BP_OK) status = join_all(native, deadline, &result);
    comm->shm->seqlog.used = status == BP_OK && !result.status;
    if (comm->shm->seqlog.used) status = bp_watchdog_begin(native);
    if (status == BP_OK && !result.status) {
        comm->native = native;
        return BP_OK;
    }
    comm->shm->seqlog.used = false;
    snprintf(comm->why, sizeof comm->why, "%.*s", (int)sizeof result.why - 1, result.why);
    native_discard(native);
    bp_remote_destroy(comm->remote);
    comm->remote = NULL;
    return status;
}

/* If no work is pending, the thread ends immediately and is joined; otherwise it is detached and
 * ends after the work. */
void bp_native_close(struct bp_native *native)
{
    pthread_t thread = native->thread;
    bool idle;

    pthread_mutex_lock(&native->lock);
    native->closing = true;
    idle = !native->n;
    if (!idle) pthread_detach(thread);
    pthread_cond_signal(&native->moved);
    pthread_mutex_unlock(&native->lock);
    if (idle) pthread_join(thread, NULL);
}

void bp_native_destroy(struct bp_native *native)
{
    if (!native) return;
    pthread_mutex_destroy(&native->call);
    pthread_mutex_destroy(&native->lock);
    pthread_cond_destroy(&native->moved);
    for (uint32_t i = 0; i < native->n; i++) free(native->pending[i].parts);
    free(native->pending);
    free(native);
}

/* A rank's part of a call, for the library. Elements that are only moved are passed as bytes. */
static struct bp_ccl_call native_call_of(const struct bp_collective *c, const struct bp_tensor *src,
                                         const struct bp_tensor *dst)
{
    bool reduces = bp_call_reduces(c->call);
    struct bp_ccl_call call = {.count = reduces ? c->count : c->count * c->width,
                               .dtype = reduces ? c->dtype : BP_U8, .reduction = c->reduction,
                               .root = c->root};

    if (src) {
        call.src_memory = src->view.memory;
        call.src = src->view.data;
    }
    if (dst) {
        call.dst_memory = dst->view.memory;
        call.dst = dst->view.data;
    }
    return call;
}

/* Submits one transfer: sends bytes of src from `at` on to a rank, or receives them from the rank
 * into dst. */
static enum bp_status launch_part(struct bp_native *native, void *stream, struct bp_ccl_call call,
                                  bool send, uint32_t rank, uint64_t at, uint64_t bytes)
{
    const struct bp_ccl *ccl = native->ccl;

    if (!bytes) return BP_OK;
    call.count = bytes;
    call.root = rank;
    call.src = (const void *)((uintptr_t)call.src + at);
    call.dst = (void *)((uintptr_t)call.dst + at);
    return send ? ccl->send(native->self, native->raw, stream, &call)
                : ccl->recv(native->self, native->raw, stream, &call);
}

/* Submits one side of a call that consists of sends or receives: one transfer for each rank, or one
 * with the root. */
static enum bp_status launch_side(struct bp_native *native, void *stream,
                                  const struct bp_collective *c, const struct bp_ccl_call *call,
                                  bool send)
{
    const int64_t *counts = send ? c->src_counts : c->dst_counts;
    const struct bp_call_traits *f = &bp_call_traits_of[c->call];
    bool one = send ? f->dst_at_root : f->src_at_root;
    uint64_t at = 0;

    if (one) return launch_part(native, stream, *call, send, c->root, 0, c->count * c->width);
    for (uint32_t i = 0; i < native->comm->size; i++) {
        uint64_t bytes = (counts ? (uint64_t)counts[i] : c->count) * c->width;
        TRY(launch_part(native, stream, *call, send, i, at, bytes));
        at += bytes;
    }
    return BP_OK;
}

/* Steps to submit to the library as work of a stream of the device. */
struct work {
    struct bp_native *native;
    void *stream;
    const struct bp_comm_step *steps;
    uint32_t n;
};

/* Submits sends and receives, and calls that the library does not have, as one group of transfers.
 * A group that was begun is ended even after a failure. */
static enum bp_status launch_group(void *work, const struct bp_collective *first)
{
    const struct work *w = work;
    struct bp_native *native = w->native;
    enum bp_status status = BP_OK, end;

    (void)first;
    TRY(native->ccl->group_begin(native->self));
    for (uint32_t i = 0; i < w->n && status == BP_OK; i++) {
        const struct bp_collective *c = &w->steps[i].c;
        struct bp_ccl_call call = native_call_of(c, w->steps[i].src, w->steps[i].dst);
        if (c->call >= BP_COMM_SEND) {
            status = launch_part(native, w->stream, call, c->call == BP_COMM_SEND, c->root, 0,
                                 call.count);
            continue;
        }
        if (w->steps[i].src) status = launch_side(native, w->stream, c, &call, true);
        if (w->steps[i].dst && status == BP_OK)
            status = launch_side(native, w->stream, c, &call, false);
    }
    end = native->ccl->group_end(native->self);
    return status ? status : end;
}

/* The offset of each call's function in struct bp_ccl. */
static const size_t of_library[BP_COMM_CALL_COUNT] = {
    [BP_COMM_ALL_REDUCE] = offsetof(struct bp_ccl, all_reduce),
    [BP_COMM_REDUCE] = offsetof(struct bp_ccl, reduce),
    [BP_COMM_BROADCAST] = offsetof(struct bp_ccl, broadcast),
    [BP_COMM_ALL_GATHER] = offsetof(struct bp_ccl, all_gather),
    [BP_COMM_REDUCE_SCATTER] = offsetof(struct bp_ccl, reduce_scatter),
    [BP_COMM_ALL_TO_ALL] = offsetof(struct bp_ccl, all_to_all),
};

/* Submits a call by the library's own function. Some libraries have no all_to_all; the group of
 * transfers replaces it. */
static enum bp_status launch_whole(void *work, const struct bp_collective *c)
{
    const struct work *w = work;
    const struct bp_ccl *ccl = w->native->ccl;
    struct bp_ccl_call call = native_call_of(c, w->steps->src, w->steps->dst);
    enum bp_status (*function)(void *, void *, void *, const struct bp_ccl_call *);

    memcpy(&function, (const char *)ccl + of_library[c->call], sizeof function);
    return function ? function(w->native->self, w->native->raw, w->stream, &call)
                    : launch_group(work, c);
}

static const struct bp_collective_table by_library = {{
    [BP_COMM_ALL_REDUCE] = launch_whole,
    [BP_COMM_REDUCE] = launch_whole,
    [BP_COMM_BROADCAST] = launch_whole,
    [BP_COMM_ALL_GATHER] = launch_whole,
    [BP_COMM_REDUCE_SCATTER] = launch_whole,
    [BP_COMM_ALL_TO_ALL] = launch_whole,
    [BP_COMM_ALL_TO_ALL_RAGGED] = launch_group,
    [BP_COMM_GATHER] = launch_group,
    [BP_COMM_SCATTER] = launch_group,
    [BP_COMM_SEND] = launch_group,
    [BP_COMM_RECV] = launch_group,
}};

/* Submits the steps while holding the lock that prevents the watchdog from aborting the library's
 * communicator. */
static enum bp_status launch_locked(struct bp_native *native, struct bp_stream *stream,
                                    const struct bp_comm_step *steps, uint32_t n)
{
    struct work w = {native, stream->timeline->stream, steps, n};
    enum bp_status status;

    pthread_mutex_lock(&native->call);
    if (atomic_load(&native->aborted)) {
        status = bp_comm_failure_report(&native->comm->shm->failure);
    } else {
        bp_error_enter();
        status = by_library.run[steps->c.call](&w, &steps->c);
        if (status != BP_ERR_UNSUPPORTED)
            status = bp_device_leave(stream->device, status, bp_comm_call_name(steps->c.call));
    }
    pthread_mutex_unlock(&native->call);
    return status;
}

static void note_uses(struct bp_timeline *timeline, uint64_t number,
                      const struct bp_comm_step *steps, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (steps[i].src) bp_buffer_record_use(steps[i].src->buffer, timeline, number);
        if (!steps[i].dst) continue;
        bp_buffer_record_use(steps[i].dst->buffer, timeline, number);
        bp_tensor_record_write(steps[i].dst);
    }
}

/* Publishes a failure of this rank, because the other ranks would wait for it. */
static enum bp_status native_fail(struct bp_native *native, const struct bp_collective *c,
                                  enum bp_status status)
{
    struct bp_shm_rank *b = native->comm->shm;

    if (bp_comm_has_failed(&b->failure)) return bp_comm_failure_report(&b->failure);
    return bp_comm_failure_publish(&b->failure, status, "could not begin %s",
                                   bp_comm_call_name(c->call));
}

/* Logs a transfer to or from a rank, on the same host or on another one. */
static enum bp_status record_part(struct bp_comm *comm, const struct bp_collective *c,
                                  uint32_t rank, bool send, uint64_t count,
                                  struct bp_p2p_part *out_part)
{
    uint32_t local = local_rank_of(comm, rank);

    if (local != BP_RANK_ANY) return bp_p2plog_record(comm->shm, c, local, send, count, out_part);
    *out_part = bp_remote_record_part(comm->remote, c, rank, send, count);
    return BP_OK;
}

/* Logs sends and receives. Those that are not empty are kept in the work, which depends on the
 * other ranks for them. */
static enum bp_status record_p2p(struct bp_comm *comm, const struct bp_comm_step *steps, uint32_t n,
                                 struct bp_native_work *work)
{
    work->parts = malloc(n * sizeof *work->parts);
    if (!work->parts) return bp_error(BP_ERR_MEMORY, "no memory for a collective call");
    for (uint32_t i = 0; i < n; i++) {
        const struct bp_collective *c = &steps[i].c;
        TRY(record_part(comm, c, c->root, c->call == BP_COMM_SEND, c->count,
                        &work->parts[work->n_part]));
        work->n_part += c->count > 0;
    }
    return BP_OK;
}

static enum bp_status record_ragged(struct bp_comm *comm, const struct bp_collective *c)
{
    struct bp_p2p_part unused;

    for (uint32_t i = 0; i < comm->size; i++) {
        TRY(record_part(comm, c, i, true, (uint64_t)c->src_counts[i], &unused));
        TRY(record_part(comm, c, i, false, (uint64_t)c->dst_counts[i], &unused));
    }
    return BP_OK;
}

static enum bp_status record_calls(struct bp_comm *comm, const struct bp_comm_step *steps,
                                   uint32_t n, struct bp_native_work *work)
{
    const struct bp_collective *c = &steps->c;

    work->count = c->count;
    work->signature = bp_call_signature(c->call, c->dtype, c->reduction, c->root);
    work->timeout_ns = c->timeout_ns;
    if (c->call >= BP_COMM_SEND) return record_p2p(comm, steps, n, work);
    TRY(bp_seqlog_record(comm->shm, c, &work->sequence));
    if (comm->remote) {
        bp_remote_record_call(comm->remote, c, work->sequence);
        TRY(bp_watchdog_wait(comm->native, work->sequence));
    }
    return c->call == BP_COMM_ALL_TO_ALL_RAGGED ? record_ragged(comm, c) : BP_OK;
}

/* Submits the steps as work of the stream, between two fences by which the watchdog observes their
 * progress. Takes ownership of work->parts. */
static enum bp_status native_launch(struct bp_native *native, struct bp_stream *stream,
                                    const struct bp_comm_step *steps, uint32_t n,
                                    struct bp_native_work *work)
{
    struct bp_timeline *timeline = stream->timeline;
    enum bp_status status = bp_timeline_record_fence(timeline, atomic_load(&timeline->last));
    uint64_t number;

    work->timeline = timeline;
    if (status) {
        free(work->parts);
        return native_fail(native, &steps->c, status);
    }
    number = work->number = bp_work_begin(timeline, bp_comm_steps_name(steps, n));
    status = bp_watchdog_push(native, work);
    if (status == BP_OK) {
        uint64_t began = bp_work_profile_begin(timeline, number);
        status = launch_locked(native, stream, steps, n);
        if (began)
            bp_work_profile_end(timeline, number, began,
                                &(struct bp_profile_put){.kind = BP_RECORD_COLLECTIVE,
                                                         .name = bp_comm_steps_name(steps, n),
                                                         .bytes = bp_comm_steps_bytes(steps, n)});
    }
    if (status == BP_ERR_UNSUPPORTED) {
        bp_watchdog_confirm(native, number, false);
        bp_work_cancel(timeline, number);
        return status;
    }
    note_uses(timeline, number, steps, n);
    bp_work_end(timeline, number);
    if (status == BP_OK) status = bp_timeline_record_fence(timeline, number);
    bp_watchdog_confirm(native, number, true);
    return status ? native_fail(native, &steps->c, status) : bp_stream_drain_if_sync(stream);
}

static bool is_empty(const struct bp_comm_step *steps, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct bp_tensor *src = steps[i].src, *dst = steps[i].dst;
        if ((src && src->view.count) || (dst && dst->view.count)) return false;
    }
    return true;
}

enum bp_status bp_native_submit(struct bp_comm *comm, struct bp_stream *stream,
                                const struct bp_comm_step *steps, uint32_t n, bool *out_done)
{
    struct bp_native_work work = {.n_part = 0};
    uint32_t call = steps->c.call;
    enum bp_status status;

    *out_done = true;
    if (stream->timeline->recording)
        return bp_error(BP_ERR_UNSUPPORTED, "%s: ranks say on the host what they call",
                        bp_comm_call_name(call));
    if (bp_process_is_stopping()) return bp_error_stopped();
    if (bp_comm_has_failed(&comm->shm->failure)) return bp_comm_failure_report(&comm->shm->failure);
    status = record_calls(comm, steps, n, &work);
    if (comm->remote) bp_watchdog_wake(comm->native);
    if (status || (call != BP_COMM_BARRIER && is_empty(steps, n))) {
        free(work.parts);
        return status;
    }
    if (call != BP_COMM_BARRIER) {
        status = native_launch(comm->native, stream, steps, n, &work);
        if (status != BP_ERR_UNSUPPORTED) return status;
    }
    *out_done = false;
    return bp_seqlog_wait(comm->shm, work.sequence);
}
