/* SPDX-License-Identifier: Apache-2.0 */
/* comm.c: creates communicators from their transports, splits, aborts and destroys them, and
 * reports their state. */
#include "native/native.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void ignore_segment(void *ctx, const struct bp_memory *memory, uint64_t bytes,
                           uint32_t space)
{
    (void)ctx;
    (void)memory;
    (void)bytes;
    (void)space;
}

/* Counts a freed segment, because other ranks may have mapped it (bp_peer_map_refresh). */
static void count_released(void *ctx, const struct bp_memory *memory, uint64_t bytes,
                           uint32_t space)
{
    struct bp_comm *comm = ctx;

    (void)memory;
    (void)bytes;
    (void)space;
    atomic_fetch_add_explicit(&comm->shm->me->released, 1, memory_order_relaxed);
}

/* Releases a reference: the app's, a task's or the watchdog's. The last one frees the
 * communicator. */
void bp_comm_release(struct bp_comm *comm)
{
    if (atomic_fetch_sub_explicit(&comm->refs, 1, memory_order_acq_rel) != 1) return;
    for (uint32_t i = 0; i < comm->n_step; i++) {
        bp_tensor_destroy(comm->steps[i].src);
        bp_tensor_destroy(comm->steps[i].dst);
    }
    bp_transports[BP_TRANSPORT_NATIVE].destroy(comm->native);
    if (comm->listener.ctx) bp_segment_listener_remove(comm->device, &comm->listener);
    bp_remote_destroy(comm->remote);
    bp_transports[BP_TRANSPORT_NET].destroy(comm->net);
    bp_transports[BP_TRANSPORT_SHM].destroy(comm->shm);
    free(comm->global_ranks);
    bp_store_free(comm->store);
    pthread_mutex_destroy(&comm->lock);
    pthread_cond_destroy(&comm->turn);
    free(comm->steps);
    bp_device_release(comm->device);
    free(comm);
}

/* If the leader gave up but lives, it has published its reason in the store; that reason is
 * reported instead of the failure to open its file. */
static enum bp_status open_segment(struct bp_comm *comm, const struct bp_host_topology *topology,
                                   uint64_t deadline, int *out_fd)
{
    struct bp_process_file file;
    enum bp_status status;

    status = bp_rendezvous_wait(comm->store, comm->name, "segment", topology->leader,
                                topology->pid[topology->leader], deadline, &file, sizeof file);
    if (status == BP_ERR_TIMEOUT)
        return bp_error(status, "bp_comm_create: rank %u came, but does not go on",
                        topology->leader);
    TRY(status);
    status = bp_shm_segment_open(&file, topology->leader, out_fd);
    if (status != BP_ERR_PEER) return status;
    TRY(bp_store_failure_poll(comm->store, comm->name, true));
    return bp_shm_segment_open(&file, topology->leader, out_fd); /* for its message */
}

/* The leader of each host creates the segment, and the other ranks of the host open it. */
static enum bp_status find_segment(struct bp_comm *comm, const struct bp_host_topology *topology,
                                   uint64_t deadline, int *out_fd)
{
    int32_t pids[BP_COMM_MAX_RANKS];
    struct bp_process_file file;
    char key[BP_STORE_KEY_MAX];
    enum bp_status status;
    uint32_t n = 0;

    if (topology->leader != comm->rank) return open_segment(comm, topology, deadline, out_fd);
    for (uint32_t i = 0; i < comm->size; i++)
        if (topology->host_of[i] == topology->host_of[comm->rank]) pids[n++] = topology->pid[i];
    TRY(bp_shm_segment_create(n, pids, out_fd, &file));
    bp_store_rank_key(key, comm->name, "segment", topology->leader);
    status = bp_store_set(comm->store, key, &file, sizeof file);
    if (status) close(*out_fd);
    return status;
}

/* Lists the global ranks of this host's ranks. */
static enum bp_status list_global_ranks(struct bp_comm *comm,
                                        const struct bp_host_topology *topology)
{
    uint32_t n = 0;

    comm->global_ranks = malloc(topology->n_local * sizeof *comm->global_ranks);
    if (!comm->global_ranks) return bp_error(BP_ERR_MEMORY, "bp_comm_create: no memory");
    for (uint32_t i = 0; i < comm->size; i++)
        if (topology->host_of[i] == topology->host_of[comm->rank]) comm->global_ranks[n++] = i;
    return BP_OK;
}

static enum bp_status comm_connect(struct bp_comm *comm, const struct bp_rendezvous *m,
                                   uint64_t timeout_ns)
{
    uint64_t deadline = bp_clock_after(timeout_ns);
    char library[BP_RENDEZVOUS_LIBRARY];
    struct bp_host_topology topology;
    bool native;
    int fd;

    bp_native_describe(comm->device, library, comm->why, sizeof comm->why);
    TRY(bp_rendezvous_exchange(m, library, deadline, timeout_ns, &topology, &native, comm->why,
                               sizeof comm->why));
    if (topology.n_host > 1) TRY(list_global_ranks(comm, &topology));
    TRY(find_segment(comm, &topology, deadline, &fd));
    TRY(bp_shm_rank_create(fd, topology.local, topology.n_local, comm->global_ranks,
                           bp_time_left(deadline), &comm->shm));
    if (topology.n_host > 1)
        TRY(bp_net_comm_create(&topology, comm->shm, comm->address, comm->name, comm->rank,
                               comm->size, bp_time_left(deadline), &comm->net));
    comm->transport = &bp_transports[comm->net ? BP_TRANSPORT_NET : BP_TRANSPORT_SHM];
    comm->self = comm->net ? (void *)comm->net : comm->shm;
    return native ? bp_native_create(comm, bp_time_left(deadline), bp_comm_release) : BP_OK;
}

/* If a rank fails, the others wait for it. The failure is therefore published, and all ranks report
 * the first failure; no rank is named that only waited. */
static enum bp_status comm_assemble(struct bp_comm *comm, uint64_t timeout_ns)
{
    const struct bp_rendezvous m = {comm->store, comm->name, comm->rank, comm->size};
    enum bp_status status;

    TRY(bp_rendezvous_claim(&m));
    status = comm_connect(comm, &m, timeout_ns);
    return status ? bp_store_failure_report(comm->store, comm->name, status) : BP_OK;
}

static enum bp_status comm_create_named(struct bp_device *device, const char *address,
                                        const char *name, uint32_t rank, uint32_t size,
                                        uint64_t timeout_ns, struct bp_comm **out_comm)
{
    struct bp_comm *comm = bp_handle_alloc(sizeof *comm);
    uint64_t deadline = bp_clock_after(timeout_ns);
    enum bp_status status;

    if (!comm) return bp_error(BP_ERR_MEMORY, "bp_comm_create: no memory");
    atomic_init(&comm->refs, 1);
    comm->rank = rank;
    comm->size = size;
    comm->timeout_ns = timeout_ns;
    snprintf(comm->address, sizeof comm->address, "%s", address);
    snprintf(comm->name, sizeof comm->name, "%s", name);
    pthread_mutex_init(&comm->lock, NULL);
    bp_cond_init(&comm->turn);
    comm->device = device;
    bp_device_retain(device);
    status = bp_store_create(address, timeout_ns, &comm->store);
    if (status == BP_OK && timeout_ns < BP_STORE_GRACE_NS)
        bp_store_set_grace(comm->store, timeout_ns);
    if (status == BP_OK) status = comm_assemble(comm, bp_time_left(deadline));
    if (status) {
        bp_comm_release(comm);
        return status;
    }
    snprintf(comm->algorithm_text, sizeof comm->algorithm_text, "%s%s%s",
             comm->transport->whole_buffers ? "between hosts, in parts"
                                            : "staged, by pinned memory and windows",
             *comm->why ? ": " : "", comm->why);
    comm->listener = (struct bp_segment_listener){ignore_segment, count_released, comm, NULL};
    bp_segment_listener_add(device, &comm->listener);
    comm->magic = bp_magic(BP_MAGIC_COMM);
    *out_comm = comm;
    return BP_OK;
}

static enum bp_status comm_check_rank(uint32_t rank, uint32_t size)
{
    if (!size || size > BP_COMM_MAX_RANKS)
        return bp_error(BP_ERR_INVALID, "bp_comm_create: size is %u: expected 1 to %d ranks", size,
                        BP_COMM_MAX_RANKS);
    if (rank < size) return BP_OK;
    return bp_error(BP_ERR_INVALID, "bp_comm_create: rank is %u of %u: expected 0 to %u", rank,
                    size, size - 1);
}

enum bp_status bp_comm_create(struct bp_device *device, const struct bp_comm_id *id, uint32_t rank,
                              uint32_t size, struct bp_comm **out_comm)
{
    char address[BP_STORE_ADDRESS_MAX];
    uint64_t timeout_ns = bp_rendezvous_timeout();
    enum bp_status status;
    const char *name;
    bool known;

    if (!bp_device_is(device)) return bp_not_a("device");
    if (!id) return bp_error(BP_ERR_INVALID, "bp_comm_create: id is NULL");
    if (!out_comm) return bp_error(BP_ERR_INVALID, "bp_comm_create: out_comm is NULL");
    known = bp_comm_id_parse(id, address, sizeof address, &name);
    status = comm_check_rank(rank, size);
    if (status && known) return bp_rendezvous_refuse(address, name, timeout_ns, status);
    TRY(status);
    if (!known)
        return bp_error(BP_ERR_INVALID,
                        "bp_comm_create: id is none that bp_comm_id_create has made");
    return comm_create_named(device, address, name, rank, size, timeout_ns, out_comm);
}

struct color {
    int64_t color, key;
};

/* Computes the new rank and size in a split: ranks of equal color, in the order of key and old
 * rank. */
static void find_split_rank(const struct color *all, uint32_t n, uint32_t rank, uint32_t *out_rank,
                            uint32_t *out_size)
{
    *out_rank = *out_size = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (all[i].color != all[rank].color) continue;
        ++*out_size;
        *out_rank += all[i].key < all[rank].key || (all[i].key == all[rank].key && i < rank);
    }
}

static enum bp_status exchange_colors(struct bp_comm *comm, const struct color *own,
                                      struct color *all)
{
    uint64_t deadline = bp_clock_after(comm->timeout_ns), size;
    char key[BP_STORE_KEY_MAX];

    snprintf(key, sizeof key, "%s/split%u/%u", comm->name, comm->splits, comm->rank);
    TRY(bp_store_set(comm->store, key, own, sizeof *own));
    for (uint32_t i = 0; i < comm->size; i++) {
        enum bp_status status;
        snprintf(key, sizeof key, "%s/split%u/%u", comm->name, comm->splits, i);
        status = bp_store_get(comm->store, key, bp_time_left(deadline), &all[i], sizeof all[i],
                              &size);
        if (status == BP_ERR_TIMEOUT)
            return bp_error(status, "bp_comm_split: rank %u did not come within %.3g s", i,
                            (double)comm->timeout_ns / 1e9);
        TRY(status);
    }
    comm->splits++;
    return BP_OK;
}

enum bp_status bp_comm_split(struct bp_comm *comm, int64_t color, int64_t key,
                             struct bp_comm **out_comm)
{
    struct color own = {color, key}, all[BP_COMM_MAX_RANKS];
    uint32_t rank, size;
    char name[160];

    if (!bp_comm_is(comm)) return bp_not_a("communicator");
    if (!out_comm) return bp_error(BP_ERR_INVALID, "bp_comm_split: out_comm is NULL");
    if (color < -1)
        return bp_error(BP_ERR_INVALID, "bp_comm_split: color is %" PRId64 ": expected -1 or more",
                        color);
    TRY(bp_shm_rank_check(comm->shm));
    TRY(exchange_colors(comm, &own, all));
    if (color < 0) {
        *out_comm = NULL;
        return BP_OK;
    }
    find_split_rank(all, comm->size, comm->rank, &rank, &size);
    snprintf(name, sizeof name, "%s.%u.%" PRIx64, comm->name, comm->splits, (uint64_t)color);
    if (strlen(name) >= sizeof comm->name)
        return bp_error(BP_ERR_UNSUPPORTED, "bp_comm_split: too many splits of splits");
    return comm_create_named(comm->device, comm->address, name, rank, size, comm->timeout_ns,
                             out_comm);
}

void bp_comm_destroy(struct bp_comm *comm)
{
    if (!bp_comm_is(comm)) return;
    comm->magic = 0;
    if (comm->native) bp_native_close(comm->native);
    bp_comm_release(comm);
}

enum bp_status bp_comm_abort(struct bp_comm *comm)
{
    if (!bp_comm_is(comm)) return bp_not_a("communicator");
    bp_comm_fail(&comm->shm->failure, BP_ERR_PEER,
                 "rank %u gave the communicator up (bp_comm_abort)", comm->rank);
    return BP_OK;
}

enum bp_status bp_comm_error(struct bp_comm *comm)
{
    if (!bp_comm_is(comm)) return bp_not_a("communicator");
    return comm->transport->health(comm->self);
}

uint32_t bp_comm_rank(struct bp_comm *comm)
{
    return bp_comm_is(comm) ? comm->rank : 0;
}

uint32_t bp_comm_size(struct bp_comm *comm)
{
    return bp_comm_is(comm) ? comm->size : 0;
}

enum bp_status bp_comm_set_timeout(struct bp_comm *comm, uint64_t timeout_ns)
{
    if (!bp_comm_is(comm)) return bp_not_a("communicator");
    comm->timeout_ns = timeout_ns;
    return BP_OK;
}

const char *bp_comm_algorithm(struct bp_comm *comm, enum bp_comm_call call, uint64_t bytes)
{
    static const char *const direct[] = {"direct, by mapped memory", "direct, by the kernel",
                                         "through windows"};
    const struct bp_shm_rank *b = bp_comm_is(comm) ? comm->shm : NULL;
    size_t path;

    if (!b || call >= BP_COMM_CALL_COUNT) return NULL;
    if (comm->native && call != BP_COMM_BARRIER) return bp_transports[BP_TRANSPORT_NATIVE].name;
    if (comm->net || !comm->device->is_inline || !comm->device->host_visible)
        return comm->algorithm_text;
    path = b->peers.access_mask & BP_ACCESS_MAP ? 0 : b->peers.access_mask & BP_ACCESS_VM ? 1 : 2;
    if (call == BP_COMM_SEND || call == BP_COMM_RECV)
        return bytes <= BP_SHM_MESSAGE_BYTES ? "through a slot" : direct[path];
    switch (bp_algorithm_find(call, comm->size, bytes)) {
    case BP_ALGORITHM_INLINE: return "inline";
    case BP_ALGORITHM_WINDOW: return "through windows";
    default: break;
    }
    if (call == BP_COMM_ALL_TO_ALL_RAGGED) return "through windows";
    return direct[path];
}
