/* SPDX-License-Identifier: Apache-2.0 */
/* nccl.c: simulates NCCL: implements the functions of gpu/nccl.def on simulated streams. Ranks are
 * threads and processes of one machine, in any network namespaces. Each rank publishes the
 * addresses of its buffers in a file that all ranks map, and reads the buffers of the others
 * (exchange.c). As in NCCL, a call that other ranks do not make waits without a limit, or until its
 * communicator is aborted, and ranks do not compare their calls' arguments. A non-blocking
 * communicator accepts no other call until it has been polled several times for completion, and it
 * must be finalized before it is destroyed. */
#include "nccl.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define CALL(result, name, parameters) result name parameters;
#include "gpu/nccl.def"

enum { VERSION = 22000, MAGIC = 0x2cc1, INIT_WAITS = 100000 /* waits of 100 us */, REQUESTED = 3 };

/* The content of a unique id: the shared file, as a descriptor of the process that made the id; and
 * the number of the id in this process. */
struct name {
    int magic, pid, fd, number;
};

int ncclGetVersion(int *out)
{
    int code = sim_enter(SIM_CALL_ncclGetVersion);

    if (!code) *out = VERSION;
    return sim_leave(code);
}

const char *ncclGetErrorString(int code)
{
    return code == SIM_NCCL_INVALID ? "invalid argument"
           : code == SIM_NCCL_REMOTE ? "remote process exited or there was a network error"
                                     : "a failure";
}

int ncclGetUniqueId(struct bp_ccl_id *out)
{
    int code = sim_enter(SIM_CALL_ncclGetUniqueId);
    struct name name = {MAGIC, getpid(), -1, 0};
    static int made;

    if (code) return sim_leave(code);
    name.number = made++;
    name.fd = memfd_create("sim_nccl", MFD_CLOEXEC);
    if (name.fd < 0 || ftruncate(name.fd, sizeof(struct sim_nccl_shared)))
        return sim_leave(SIM_NCCL_SYSTEM);
    memset(out, 0, sizeof *out);
    memcpy(out, &name, sizeof name);
    return sim_leave(0);
}

/* The mapped files. A process maps each file once, so that ThreadSanitizer sees how ranks that are
 * threads synchronize. Under the lock. */
static struct mapped {
    struct mapped *next;
    struct name name;
    struct sim_nccl_shared *at;
    int refs;
} *all_mapped;

static struct sim_nccl_shared *map_file(const struct name *name)
{
    char path[64];
    void *at;
    int fd;

    snprintf(path, sizeof path, "/proc/%d/fd/%d", name->pid, name->fd);
    fd = name->magic == MAGIC ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) return NULL;
    at = mmap(NULL, sizeof(struct sim_nccl_shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return at == MAP_FAILED ? NULL : at;
}

static struct sim_nccl_shared *nccl_map(const struct name *name)
{
    struct mapped *m = all_mapped;

    while (m && memcmp(&m->name, name, sizeof *name)) m = m->next;
    if (!m) {
        struct sim_nccl_shared *at = map_file(name);
        m = at ? malloc(sizeof *m) : NULL;
        if (!m) return NULL;
        *m = (struct mapped){all_mapped, *name, at, 0};
        all_mapped = m;
    }
    m->refs++;
    return m->at;
}

static void nccl_unmap(struct sim_nccl_shared *at)
{
    struct mapped **m = &all_mapped, *last;

    while ((*m)->at != at) m = &(*m)->next;
    last = *m;
    if (--last->refs) return;
    *m = last->next;
    munmap(at, sizeof *at);
    free(last);
}

/* Simulates failures of libraries and processes while ranks join, as set by BP_SIM_JOIN. */
static void go_wrong(void)
{
    const char *text = secure_getenv("BP_SIM_JOIN");

    if (!text) return;
    if (!strcmp(text, "stop")) raise(SIGSTOP);
    if (!strcmp(text, "die")) raise(SIGKILL);
}

static bool nccl_hangs(void)
{
    const char *text = secure_getenv("BP_SIM_JOIN");

    return text && !strcmp(text, "hang");
}

/* Begins to join a rank. code: an earlier failure, which is published to the other ranks. */
static int begin_rank(int code, int n, const struct name *name, struct sim_nccl **out)
{
    struct sim_nccl *comm = calloc(1, sizeof *comm);

    pthread_mutex_lock(&sim.lock);
    if (comm) comm->shared = n <= SIM_NCCL_RANKS ? nccl_map(name) : NULL;
    sim_leave(0);
    if (!comm || !comm->shared) {
        free(comm);
        return code ? code : SIM_NCCL_SYSTEM;
    }
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); /* otherwise Yama allows only parents to read a
                                                  process */
    if (code) atomic_store(&comm->shared->failed, 1);
    *out = comm;
    return code;
}

/* Fills in the communicator, which then belongs to the caller. Under the lock. */
static void nccl_enlist(struct sim_nccl *comm, int n, int rank)
{
    comm->magic = MAGIC;
    comm->rank = rank;
    comm->n = n;
    comm->refs = 1;
    atomic_store(&comm->shared->rank[rank].pid, getpid());
    sim.live++;
}

/* Waits for all ranks, with a time limit. A rank that fails reports this to the others. */
static int nccl_meet(struct sim_nccl_shared *s, int n)
{
    atomic_fetch_add(&s->joined, 1);
    for (int i = 0; i < INIT_WAITS && atomic_load(&s->joined) < n; i++) {
        if (atomic_load(&s->failed)) break;
        usleep(100);
    }
    return atomic_load(&s->failed) || atomic_load(&s->joined) < n ? SIM_NCCL_REMOTE : 0;
}

int ncclCommInitRank(void **out, int n, struct bp_ccl_id id, int rank)
{
    struct sim_device *device;
    int code = sim_leave(sim_enter_context(SIM_CALL_ncclCommInitRank, &device));
    struct sim_nccl *comm = NULL;
    struct name name;

    go_wrong();
    while (nccl_hangs()) usleep(100000);
    memcpy(&name, &id, sizeof name);
    code = begin_rank(code, n, &name, &comm);
    if (!code) code = nccl_meet(comm->shared, n);
    if (rank == 0) close(name.fd);
    pthread_mutex_lock(&sim.lock);
    if (!code) {
        nccl_enlist(comm, n, rank);
        *out = comm;
    } else if (comm) {
        nccl_unmap(comm->shared);
        free(comm);
    }
    return sim_leave(code);
}

/* Creates a non-blocking communicator: it has joined when all ranks have arrived and it has been
 * polled often enough. */
int ncclCommInitRankConfig(void **out, int n, struct bp_ccl_id id, int rank,
                           struct nccl_config *config)
{
    struct sim_device *device;
    int code = sim_leave(sim_enter_context(SIM_CALL_ncclCommInitRankConfig, &device));
    struct sim_nccl *comm = NULL;
    struct name name;

    if (!code && (config->size < sizeof *config || config->magic != NCCL_CONFIG_MAGIC ||
                  config->version < NCCL_CONFIG_VERSION || config->blocking ||
                  config->rest != NCCL_AS_USUAL))
        code = SIM_NCCL_INVALID;
    go_wrong();
    memcpy(&name, &id, sizeof name);
    code = begin_rank(code, n, &name, &comm);
    pthread_mutex_lock(&sim.lock);
    if (code) {
        if (rank == 0) close(name.fd);
        if (comm) nccl_unmap(comm->shared);
        free(comm);
        return sim_leave(code);
    }
    nccl_enlist(comm, n, rank);
    comm->fd = rank == 0 ? name.fd : -1;
    comm->polls = true;
    comm->state = SIM_NCCL_JOINING;
    comm->left = REQUESTED;
    if (!nccl_hangs()) atomic_fetch_add(&comm->shared->joined, 1);
    *out = comm;
    return sim_leave(NCCL_IN_PROGRESS);
}

void sim_nccl_drop(struct sim_nccl *comm)
{
    if (--comm->refs) return;
    if (comm->polls && comm->fd >= 0) close(comm->fd);
    nccl_unmap(comm->shared);
    free(comm);
}

/* Destroys the communicator, whatever the call returns. Work under way keeps the state that it
 * needs. */
static int nccl_end(enum sim_call call, struct sim_nccl *comm)
{
    int code = sim_enter(call);

    if (!comm || comm->magic != MAGIC) return sim_leave(SIM_NCCL_INVALID);
    if (call == SIM_CALL_ncclCommDestroy && comm->polls && comm->state != SIM_NCCL_FINALIZED)
        code = SIM_NCCL_INVALID;
    comm->magic = 0;
    atomic_store(&comm->aborted, true);
    free(comm->op);
    comm->op = NULL;
    sim.live--;
    sim_nccl_drop(comm);
    sim_wake();
    return sim_leave(code);
}

int ncclCommDestroy(void *comm)
{
    return nccl_end(SIM_CALL_ncclCommDestroy, comm);
}

int ncclCommAbort(void *comm)
{
    return nccl_end(SIM_CALL_ncclCommAbort, comm);
}

/* The calling thread's group: sends and receives that wait for the group's end. */
static _Thread_local struct {
    int depth;
    struct sim_nccl *comm;
    void *stream;
    struct sim_nccl_op *op;
    int n, room;
} group;

/* Enqueues operations in the stream; they also wait for the communicator's earlier operations. op:
 * operations of this call. */
static int nccl_submit(struct sim_nccl *comm, void *stream, const struct sim_nccl_op *op, int n)
{
    struct sim_nccl_work work = {.comm = comm, .n = n, .number = comm->given + 1};
    int code;

    work.op = malloc((size_t)n * sizeof *op);
    if (!work.op) return SIM_NCCL_SYSTEM;
    memcpy(work.op, op, (size_t)n * sizeof *op);
    comm->refs++;
    comm->given++;
    code = sim_submit(stream, sim_nccl_run, &work, sizeof work);
    if (!code) return 0;
    comm->given--;
    comm->refs--;
    free(work.op);
    return code;
}

/* The same for a non-blocking communicator: the operations are enqueued when it has been polled
 * often enough. */
static int submit_later(struct sim_nccl *comm, void *stream, const struct sim_nccl_op *op, int n)
{
    comm->op = malloc((size_t)n * sizeof *op);
    if (!comm->op) return SIM_NCCL_SYSTEM;
    memcpy(comm->op, op, (size_t)n * sizeof *op);
    comm->n_op = n;
    comm->stream = stream;
    comm->state = SIM_NCCL_GIVING;
    comm->left = REQUESTED;
    return NCCL_IN_PROGRESS;
}

static int nccl_give(struct sim_nccl *comm, void *stream, const struct sim_nccl_op *op, int n)
{
    return comm->polls ? submit_later(comm, stream, op, n) : nccl_submit(comm, stream, op, n);
}

/* Whether the communicator accepts a call: a non-blocking one does once a poll has reported
 * completion. */
static bool is_ready(const struct sim_nccl *comm)
{
    return comm->magic == MAGIC && comm->state == SIM_NCCL_READY;
}

/* Polls the communicator: returns the code of its state. */
static int nccl_result(struct sim_nccl *comm)
{
    struct sim_nccl_shared *s = comm->shared;
    int code = 0;

    if (comm->state == SIM_NCCL_JOINING) {
        if (atomic_load(&s->failed)) return SIM_NCCL_REMOTE;
        if (nccl_hangs() || atomic_load(&s->joined) < comm->n) return NCCL_IN_PROGRESS;
    }
    if (comm->state == SIM_NCCL_READY || comm->state == SIM_NCCL_FINALIZED)
        return atomic_load(&comm->error);
    if (--comm->left) return NCCL_IN_PROGRESS;
    if (comm->state == SIM_NCCL_GIVING) {
        code = nccl_submit(comm, comm->stream, comm->op, comm->n_op);
        free(comm->op);
        comm->op = NULL;
    }
    comm->state = comm->state == SIM_NCCL_FINALIZING ? SIM_NCCL_FINALIZED : SIM_NCCL_READY;
    if (code) atomic_store(&comm->error, code);
    return atomic_load(&comm->error);
}

int ncclCommGetAsyncError(void *p, int *out)
{
    int code = sim_enter(SIM_CALL_ncclCommGetAsyncError);
    struct sim_nccl *comm = p;

    if (!code && comm->magic != MAGIC) code = SIM_NCCL_INVALID;
    if (!code) *out = nccl_result(comm);
    return sim_leave(code);
}

int ncclCommFinalize(void *p)
{
    int code = sim_enter(SIM_CALL_ncclCommFinalize);
    struct sim_nccl *comm = p;

    if (!code && (!is_ready(comm) || !comm->polls)) code = SIM_NCCL_INVALID;
    if (code) return sim_leave(code);
    comm->state = SIM_NCCL_FINALIZING;
    comm->left = REQUESTED;
    return sim_leave(NCCL_IN_PROGRESS);
}

/* Ends a call with one operation, under the lock. code: returned if it is not 0. */
static int nccl_begin(int code, void *p, void *stream, const struct sim_nccl_op *op)
{
    struct sim_nccl *comm = p;

    if (!code && (!comm || !is_ready(comm) || op->type > NCCL_BF16 ||
                  op->peer < 0 || op->peer >= comm->n))
        code = SIM_NCCL_INVALID;
    if (code) return sim_leave(code);
    return sim_leave(nccl_give(comm, stream, op, 1));
}

#define BEGIN(name, kind, ...) \
    struct sim_device *device; \
    int code = sim_enter_context(SIM_CALL_##name, &device); \
    struct sim_nccl_op op = {.call = kind, .count = count, .type = type, __VA_ARGS__}; \
    return nccl_begin(code, comm, stream, &op)

int ncclAllReduce(const void *src, void *dst, size_t count, int type, int reduction, void *comm,
                  void *stream)
{
    BEGIN(ncclAllReduce, SIM_NCCL_ALL_REDUCE, .src = src, .dst = dst, .reduction = reduction);
}

int ncclReduce(const void *src, void *dst, size_t count, int type, int reduction, int root,
               void *comm, void *stream)
{
    BEGIN(ncclReduce, SIM_NCCL_REDUCE, .src = src, .dst = dst, .reduction = reduction,
          .peer = root);
}

int ncclBroadcast(const void *src, void *dst, size_t count, int type, int root, void *comm,
                  void *stream)
{
    BEGIN(ncclBroadcast, SIM_NCCL_BROADCAST, .src = src, .dst = dst, .peer = root);
}

int ncclAllGather(const void *src, void *dst, size_t count, int type, void *comm, void *stream)
{
    BEGIN(ncclAllGather, SIM_NCCL_ALL_GATHER, .src = src, .dst = dst);
}

int ncclReduceScatter(const void *src, void *dst, size_t count, int type, int reduction,
                      void *comm, void *stream)
{
    BEGIN(ncclReduceScatter, SIM_NCCL_REDUCE_SCATTER, .src = src, .dst = dst,
          .reduction = reduction);
}

static int nccl_add(int code, void *p, void *stream, const struct sim_nccl_op *op)
{
    struct sim_nccl *comm = p;

    if (code || !group.depth) return nccl_begin(code, p, stream, op);
    if (!is_ready(comm) || (group.n && (group.comm != comm || group.stream != stream)))
        return sim_leave(SIM_NCCL_INVALID);
    if (group.n == group.room) {
        int room = group.room ? 2 * group.room : 16;
        struct sim_nccl_op *more = realloc(group.op, (size_t)room * sizeof *more);
        if (!more) return sim_leave(SIM_NCCL_SYSTEM);
        group.op = more;
        group.room = room;
    }
    group.comm = comm;
    group.stream = stream;
    group.op[group.n++] = *op;
    return sim_leave(0);
}

int ncclSend(const void *src, size_t count, int type, int peer, void *comm, void *stream)
{
    struct sim_nccl_op op = {.call = SIM_NCCL_SEND, .src = src, .count = count, .type = type,
                             .peer = peer};
    struct sim_device *device;
    int code = sim_enter_context(SIM_CALL_ncclSend, &device);

    return nccl_add(code, comm, stream, &op);
}

int ncclRecv(void *dst, size_t count, int type, int peer, void *comm, void *stream)
{
    struct sim_nccl_op op = {.call = SIM_NCCL_RECV, .dst = dst, .count = count, .type = type,
                             .peer = peer};
    struct sim_device *device;
    int code = sim_enter_context(SIM_CALL_ncclRecv, &device);

    return nccl_add(code, comm, stream, &op);
}

int ncclGroupStart(void)
{
    int code = sim_enter(SIM_CALL_ncclGroupStart);

    if (!code) group.depth++;
    return sim_leave(code);
}

/* Ends the group, whatever the call returns. */
int ncclGroupEnd(void)
{
    int code = sim_enter(SIM_CALL_ncclGroupEnd);

    if (!group.depth) return sim_leave(SIM_NCCL_INVALID);
    if (--group.depth) return sim_leave(code);
    if (!code && group.n) code = nccl_give(group.comm, group.stream, group.op, group.n);
    free(group.op);
    group.op = NULL;
    group.n = group.room = 0;
    return sim_leave(code);
}
