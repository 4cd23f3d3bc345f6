/* SPDX-License-Identifier: Apache-2.0 */
/* comm.c: communicators: named, made, split, given up, ended. */
#include "native/native.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

static const uint64_t usual_timeout_ns = UINT64_C(300000000000);

static uint64_t read_timeout(void)
{
    const char *text = bp_env("BP_CCL_TIMEOUT");
    char *end;
    double seconds = text ? strtod(text, &end) : 0;

    if (!text || end == text || *end || !(seconds > 0 && seconds < 1e9)) return usual_timeout_ns;
    return (uint64_t)(seconds * 1e9);
}

static void write_id(struct bp_comm_id *id, const char *address, const char *name)
{
    memset(id, 0, sizeof *id);
    snprintf(id->text, sizeof id->text, "%.120s/%.60s", address, name);
}

enum bp_status bp_comm_id_create(struct bp_comm_id *out_id)
{
    struct bp_store *store;
    uint64_t number;
    char name[24];

    if (!out_id) return bp_error(BP_ERR_INVALID, "bp_comm_id_create: out_id is NULL");
    if (bp_stopping()) return bp_stopped();
    TRY(bp_store_own(&store));
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        return bp_error(BP_ERR_INTERNAL, "bp_comm_id_create: no random numbers");
    snprintf(name, sizeof name, "%016" PRIx64, number);
    write_id(out_id, bp_store_address(store), name);
    return BP_OK;
}

/* A name that only this job's ranks on this machine have, from what the launcher gives all of them.
 */
static bool job_name(const char *launcher, char *name, size_t size)
{
    static const char *const variables[] = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid",
                                            "SLURM_JOB_ID"};
    const char *step = bp_env("SLURM_STEP_ID"), *job = NULL;

    for (size_t i = 0; i < sizeof variables / sizeof *variables && !job; i++)
        job = bp_env(variables[i]);
    if (!job) return false;
    snprintf(name, size, "backplane/%u/%s/%.40s/%.10s", (unsigned)geteuid(), launcher, job,
             step ? step : "");
    return true;
}

/* Launchers that give no store: rank 0 serves one, and says where. */
static enum bp_status find_store(const struct bp_job *job, uint64_t deadline, uint64_t timeout_ns,
                                 char *address, size_t size)
{
    struct bp_store *store;
    char name[96];

    if (*job->store) {
        snprintf(address, size, "%s", job->store);
        return BP_OK;
    }
    if (!job_name(job->launcher, name, sizeof name))
        return bp_error(BP_ERR_NOT_FOUND,
                        "bp_comm_id_of_job: the ranks have no store in common: set BP_STORE, or "
                        "start them with bp launch");
    if (job->rank) return bp_store_seek(name, deadline, timeout_ns, address, size);
    TRY(bp_store_own(&store));
    snprintf(address, size, "%s", bp_store_address(store));
    return bp_store_announce(store, name);
}

/* The store of a job is looked for once. Who waits for another thread that does so has the same
 * deadline. A number that cannot be is told to the other ranks, where the store is known. */
enum bp_status bp_comm_id_of_job(struct bp_comm_id *out_id, uint32_t *out_rank, uint32_t *out_size)
{
    uint64_t timeout_ns = read_timeout(), deadline = bp_deadline(timeout_ns);
    const char *known = bp_env("BP_STORE");
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static char address[BP_STORE_ADDRESS_MAX];
    static uint32_t n;
    struct bp_job job = {.size = sizeof job};
    enum bp_status status = BP_OK;
    char name[24];

    if (!out_id || !out_rank || !out_size)
        return bp_error(BP_ERR_INVALID,
                        "bp_comm_id_of_job: out_id, out_rank or out_size is NULL");
    if (bp_stopping()) return bp_stopped();
    status = bp_job_find(&job);
    if (status == BP_ERR_INVALID && known) return bp_meet_refuse(known, "job0", timeout_ns, status);
    TRY(status);
    pthread_mutex_lock(&lock);
    if (!*address || *job.store)
        status = find_store(&job, deadline, timeout_ns, address, sizeof address);
    if (status == BP_OK) snprintf(name, sizeof name, "job%u", n++);
    if (status == BP_OK) write_id(out_id, address, name);
    pthread_mutex_unlock(&lock);
    TRY(status);
    *out_rank = job.rank;
    *out_size = job.ranks;
    return BP_OK;
}

static void hear_nothing(void *ctx, const struct bp_memory *memory, uint64_t bytes, uint32_t space)
{
    (void)ctx;
    (void)memory;
    (void)bytes;
    (void)space;
}

/* Others may have mapped it. */
static void hear_released(void *ctx, const struct bp_memory *memory, uint64_t bytes,
                          uint32_t space)
{
    struct bp_comm *comm = ctx;

    (void)memory;
    (void)bytes;
    (void)space;
    atomic_fetch_add_explicit(&comm->board->me->released, 1, memory_order_relaxed);
}

/* The app's or a task's last reference. */
void bp_comm_release(struct bp_comm *comm)
{
    if (atomic_fetch_sub_explicit(&comm->refs, 1, memory_order_acq_rel) != 1) return;
    for (uint32_t i = 0; i < comm->n_step; i++) {
        bp_tensor_destroy(comm->steps[i].src);
        bp_tensor_destroy(comm->steps[i].dst);
    }
    bp_native_free(comm->native);
    if (comm->listener.ctx) bp_memory_unlisten(comm->device, &comm->listener);
    bp_far_destroy(comm->far);
    bp_hosts_destroy(comm->hosts);
    bp_board_leave(comm->board);
    free(comm->numbers);
    bp_store_destroy(comm->store);
    pthread_mutex_destroy(&comm->lock);
    pthread_cond_destroy(&comm->turn);
    free(comm->steps);
    bp_device_release(comm->device);
    free(comm);
}

static enum bp_status make(struct bp_device *device, const char *address, const char *name,
                           uint32_t rank, uint32_t size, uint64_t timeout_ns,
                           struct bp_comm **out_comm)
{
    struct bp_comm *comm = bp_handle_make(sizeof *comm);
    uint64_t deadline = bp_deadline(timeout_ns);
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
    if (status == BP_OK) status = bp_comm_meet(comm, bp_time_left(deadline));
    if (status) {
        bp_comm_release(comm);
        return status;
    }
    snprintf(comm->way, sizeof comm->way, "%s%s%s",
             comm->hosts ? "between hosts, in parts" : "staged, by pinned memory and windows",
             *comm->why ? ": " : "", comm->why);
    comm->listener = (struct bp_listener){hear_nothing, hear_released, comm, NULL};
    bp_memory_listen(device, &comm->listener);
    comm->magic = bp_magic(BP_MAGIC_COMM);
    *out_comm = comm;
    return BP_OK;
}

/* "HOST:PORT/TOKEN/NAME", taken apart. */
static bool read_id(const struct bp_comm_id *id, char *address, size_t size, const char **out_name)
{
    const char *slash = memchr(id->text, 0, sizeof id->text) ? strrchr(id->text, '/') : NULL;
    struct bp_store_place place;

    if (!slash || !slash[1] || (size_t)(slash - id->text) >= size) return false;
    memcpy(address, id->text, (size_t)(slash - id->text));
    address[slash - id->text] = 0;
    *out_name = slash + 1;
    return bp_store_parse(address, &place) && *place.port && *place.token;
}

static enum bp_status check_place(uint32_t rank, uint32_t size)
{
    if (!size || size > BP_BOARD_RANKS)
        return bp_error(BP_ERR_INVALID, "bp_comm_create: size is %u: expected 1 to %d ranks", size,
                        BP_BOARD_RANKS);
    if (rank < size) return BP_OK;
    return bp_error(BP_ERR_INVALID, "bp_comm_create: rank is %u of %u: expected 0 to %u", rank,
                    size, size - 1);
}

enum bp_status bp_comm_create(struct bp_device *device, const struct bp_comm_id *id, uint32_t rank,
                              uint32_t size, struct bp_comm **out_comm)
{
    char address[BP_STORE_ADDRESS_MAX];
    uint64_t timeout_ns = read_timeout();
    enum bp_status status;
    const char *name;
    bool known;

    if (!bp_device_is(device)) return bp_not_a("device");
    if (!id) return bp_error(BP_ERR_INVALID, "bp_comm_create: id is NULL");
    if (!out_comm) return bp_error(BP_ERR_INVALID, "bp_comm_create: out_comm is NULL");
    known = read_id(id, address, sizeof address, &name);
    status = check_place(rank, size);
    if (status && known) return bp_meet_refuse(address, name, timeout_ns, status);
    TRY(status);
    if (!known)
        return bp_error(BP_ERR_INVALID,
                        "bp_comm_create: id is none that bp_comm_id_create has made");
    return make(device, address, name, rank, size, timeout_ns, out_comm);
}

struct color {
    int64_t color, key;
};

/* The number among those of one color, by key and rank; and how many they are. */
static void find_place(const struct color *all, uint32_t n, uint32_t rank, uint32_t *out_rank,
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
    uint64_t deadline = bp_deadline(comm->timeout_ns), size;
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
    struct color own = {color, key}, all[BP_BOARD_RANKS];
    uint32_t rank, size;
    char name[160];

    if (!bp_comm_is(comm)) return bp_not_a("communicator");
    if (!out_comm) return bp_error(BP_ERR_INVALID, "bp_comm_split: out_comm is NULL");
    if (color < -1)
        return bp_error(BP_ERR_INVALID, "bp_comm_split: color is %" PRId64 ": expected -1 or more",
                        color);
    TRY(bp_board_check(comm->board));
    TRY(exchange_colors(comm, &own, all));
    if (color < 0) {
        *out_comm = NULL;
        return BP_OK;
    }
    find_place(all, comm->size, comm->rank, &rank, &size);
    snprintf(name, sizeof name, "%s.%u.%" PRIx64, comm->name, comm->splits, (uint64_t)color);
    if (strlen(name) >= sizeof comm->name)
        return bp_error(BP_ERR_UNSUPPORTED, "bp_comm_split: too many splits of splits");
    return make(comm->device, comm->address, name, rank, size, comm->timeout_ns, out_comm);
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
    bp_board_fail(comm->board, BP_ERR_PEER, "rank %u gave the communicator up (bp_comm_abort)",
                  comm->rank);
    return BP_OK;
}

enum bp_status bp_comm_error(struct bp_comm *comm)
{
    if (!bp_comm_is(comm)) return bp_not_a("communicator");
    if (comm->hosts) TRY(bp_hosts_hear(comm->hosts));
    return bp_board_check(comm->board);
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

const char *bp_comm_algorithm(struct bp_comm *comm, uint32_t call, uint64_t bytes)
{
    static const char *const direct[] = {"direct, by mapped memory", "direct, by the kernel",
                                         "through windows"};
    const struct bp_board *b = bp_comm_is(comm) ? comm->board : NULL;
    size_t way;

    if (!b || call >= BP_COMM_CALL_COUNT) return NULL;
    if (comm->native && call != BP_COMM_BARRIER) return "native";
    if (comm->hosts || !comm->device->is_inline || !comm->device->host_visible) return comm->way;
    way = b->ways & BP_WAY_MAP ? 0 : b->ways & BP_WAY_VM ? 1 : 2;
    if (call == BP_COMM_SEND || call == BP_COMM_RECV)
        return bytes <= BP_BOARD_SLOT ? "through a slot" : direct[way];
    switch (bp_algorithm_find(call, comm->size, bytes)) {
    case BP_ALGORITHM_INLINE: return "inline";
    case BP_ALGORITHM_WINDOW: return "through windows";
    default: break;
    }
    if (call == BP_COMM_ALL_TO_ALL_RAGGED) return "through windows";
    return direct[way];
}
