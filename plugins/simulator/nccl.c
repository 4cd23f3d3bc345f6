/* SPDX-License-Identifier: Apache-2.0 */
/* nccl.c: simulates NCCL: implements the functions of gpu/nccl.def on simulated streams. Ranks are
 * threads and processes of one machine (ranks.h). As in NCCL, a call that other ranks do not make
 * waits without a limit, or until its communicator is aborted, and ranks do not compare the
 * arguments of their calls. A non-blocking communicator accepts no other call until it has been
 * polled several times for completion, and it must be finalized before it is destroyed. */
#include "nccl.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CALL(result, name, parameters) result name parameters;
#include "gpu/nccl.def"

enum { VERSION = 22000, MAGIC = 0x2cc1, INIT_WAITS = 100000 /* waits of 100 us */, REQUESTED = 3 };

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

    if (code) return sim_leave(code);
    memset(out, 0, sizeof *out);
    return sim_leave(ranks_id(out) ? 0 : SIM_NCCL_SYSTEM);
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
static int begin_rank(int code, int n, int rank, const struct bp_ccl_id *id, struct sim_nccl **out)
{
    struct sim_nccl *comm = calloc(1, sizeof *comm);
    bool open;

    pthread_mutex_lock(&sim.lock);
    open = comm && ranks_open(&comm->ranks, id, n, rank, &sim_nccl_rules);
    sim_leave(0);
    if (!open) {
        free(comm);
        return code ? code : SIM_NCCL_SYSTEM;
    }
    if (code) ranks_fail(&comm->ranks);
    *out = comm;
    return code;
}

/* The communicator then belongs to the caller. Under the lock. */
static void nccl_enlist(struct sim_nccl *comm)
{
    comm->magic = MAGIC;
    comm->refs = 1;
    sim.live++;
}

/* Waits for all ranks, with a time limit. A rank that fails reports this to the others. */
static int nccl_meet(struct ranks_comm *ranks)
{
    ranks_arrive(ranks);
    for (int i = 0; i < INIT_WAITS && !ranks_have_arrived(ranks); i++) {
        if (ranks_have_failed(ranks)) break;
        usleep(100);
    }
    return ranks_have_failed(ranks) || !ranks_have_arrived(ranks) ? SIM_NCCL_REMOTE : 0;
}

int ncclCommInitRank(void **out, int n, struct bp_ccl_id id, int rank)
{
    struct sim_device *device;
    int code = sim_leave(sim_enter_context(SIM_CALL_ncclCommInitRank, &device));
    struct sim_nccl *comm = NULL;

    go_wrong();
    while (nccl_hangs()) usleep(100000);
    code = begin_rank(code, n, rank, &id, &comm);
    if (!code) code = nccl_meet(&comm->ranks);
    if (rank == 0) close(ranks_id_file(&id));
    pthread_mutex_lock(&sim.lock);
    if (!code) {
        nccl_enlist(comm);
        *out = comm;
    } else if (comm) {
        ranks_close(&comm->ranks);
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

    if (!code && (config->size < sizeof *config || config->magic != NCCL_CONFIG_MAGIC ||
                  config->version < NCCL_CONFIG_VERSION || config->blocking ||
                  config->rest != NCCL_AS_USUAL))
        code = SIM_NCCL_INVALID;
    go_wrong();
    code = begin_rank(code, n, rank, &id, &comm);
    pthread_mutex_lock(&sim.lock);
    if (code) {
        if (rank == 0) close(ranks_id_file(&id));
        if (comm) ranks_close(&comm->ranks);
        free(comm);
        return sim_leave(code);
    }
    nccl_enlist(comm);
    comm->fd = rank == 0 ? ranks_id_file(&id) : -1;
    comm->polls = true;
    comm->state = SIM_NCCL_JOINING;
    comm->left = REQUESTED;
    if (!nccl_hangs()) ranks_arrive(&comm->ranks);
    *out = comm;
    return sim_leave(NCCL_IN_PROGRESS);
}

void sim_nccl_drop(struct sim_nccl *comm)
{
    if (--comm->refs) return;
    if (comm->polls && comm->fd >= 0) close(comm->fd);
    ranks_close(&comm->ranks);
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
    atomic_store(&comm->ranks.aborted, true);
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
    struct ranks_op *op;
    int n, room;
} group;

/* Enqueues operations in the stream; they also wait for the communicator's earlier operations. op:
 * operations of this call. */
static int nccl_submit(struct sim_nccl *comm, void *stream, const struct ranks_op *op, int n)
{
    struct sim_nccl_work work = {.comm = comm, .n = n, .number = comm->given + 1};
    int code;

    work.op = malloc((size_t)n * sizeof *op);
    if (!work.op) return SIM_NCCL_SYSTEM;
    memcpy(work.op, op, (size_t)n * sizeof *op);
    comm->refs++;
    comm->given++;
    sim_describe(SIM_WORK_KERNEL, "_Z22ncclDevKernel_Generic_4", 0);
    code = sim_submit(stream, sim_nccl_run, &work, sizeof work);
    if (!code) return 0;
    comm->given--;
    comm->refs--;
    free(work.op);
    return code;
}

/* The same for a non-blocking communicator: the operations are enqueued when it has been polled
 * often enough. */
static int submit_later(struct sim_nccl *comm, void *stream, const struct ranks_op *op, int n)
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

static int nccl_give(struct sim_nccl *comm, void *stream, const struct ranks_op *op, int n)
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
    int code = 0;

    if (comm->state == SIM_NCCL_JOINING) {
        if (ranks_have_failed(&comm->ranks)) return SIM_NCCL_REMOTE;
        if (nccl_hangs() || !ranks_have_arrived(&comm->ranks)) return NCCL_IN_PROGRESS;
    }
    if (comm->state == SIM_NCCL_READY || comm->state == SIM_NCCL_FINALIZED)
        return atomic_load(&comm->ranks.error);
    if (--comm->left) return NCCL_IN_PROGRESS;
    if (comm->state == SIM_NCCL_GIVING) {
        code = nccl_submit(comm, comm->stream, comm->op, comm->n_op);
        free(comm->op);
        comm->op = NULL;
    }
    comm->state = comm->state == SIM_NCCL_FINALIZING ? SIM_NCCL_FINALIZED : SIM_NCCL_READY;
    if (code) atomic_store(&comm->ranks.error, code);
    return atomic_load(&comm->ranks.error);
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
static int nccl_begin(int code, void *p, void *stream, struct ranks_op *op)
{
    struct sim_nccl *comm = p;

    if (!code && (!comm || !is_ready(comm) || op->type > NCCL_BF16 || op->peer < 0 ||
                  op->peer >= comm->ranks.n))
        code = SIM_NCCL_INVALID;
    if (code) return sim_leave(code);
    op->width = sim_nccl_width(op->type);
    return sim_leave(nccl_give(comm, stream, op, 1));
}

#define BEGIN(name, kind, ...) \
    struct sim_device *device; \
    int code = sim_enter_context(SIM_CALL_##name, &device); \
    struct ranks_op op = {.call = kind, .count = count, .type = type, __VA_ARGS__}; \
    return nccl_begin(code, comm, stream, &op)

int ncclAllReduce(const void *src, void *dst, size_t count, int type, int reduction, void *comm,
                  void *stream)
{
    BEGIN(ncclAllReduce, RANKS_ALL_REDUCE, .src = src, .dst = dst, .reduction = reduction);
}

int ncclReduce(const void *src, void *dst, size_t count, int type, int reduction, int root,
               void *comm, void *stream)
{
    BEGIN(ncclReduce, RANKS_REDUCE, .src = src, .dst = dst, .reduction = reduction, .peer = root);
}

int ncclBroadcast(const void *src, void *dst, size_t count, int type, int root, void *comm,
                  void *stream)
{
    BEGIN(ncclBroadcast, RANKS_BROADCAST, .src = src, .dst = dst, .peer = root);
}

int ncclAllGather(const void *src, void *dst, size_t count, int type, void *comm, void *stream)
{
    BEGIN(ncclAllGather, RANKS_ALL_GATHER, .src = src, .dst = dst);
}

int ncclReduceScatter(const void *src, void *dst, size_t count, int type, int reduction, void *comm,
                      void *stream)
{
    BEGIN(ncclReduceScatter, RANKS_REDUCE_SCATTER, .src = src, .dst = dst, .reduction = reduction);
}

static int nccl_add(int code, void *p, void *stream, struct ranks_op *op)
{
    struct sim_nccl *comm = p;

    if (code || !group.depth) return nccl_begin(code, p, stream, op);
    if (!is_ready(comm) || (group.n && (group.comm != comm || group.stream != stream)))
        return sim_leave(SIM_NCCL_INVALID);
    if (group.n == group.room) {
        int room = group.room ? 2 * group.room : 16;
        struct ranks_op *more = realloc(group.op, (size_t)room * sizeof *more);
        if (!more) return sim_leave(SIM_NCCL_SYSTEM);
        group.op = more;
        group.room = room;
    }
    group.comm = comm;
    group.stream = stream;
    op->width = sim_nccl_width(op->type);
    group.op[group.n++] = *op;
    return sim_leave(0);
}

int ncclSend(const void *src, size_t count, int type, int peer, void *comm, void *stream)
{
    struct ranks_op op = {
        .call = RANKS_SEND, .src = src, .count = count, .type = type, .peer = peer};
    struct sim_device *device;
    int code = sim_enter_context(SIM_CALL_ncclSend, &device);

    return nccl_add(code, comm, stream, &op);
}

int ncclRecv(void *dst, size_t count, int type, int peer, void *comm, void *stream)
{
    struct ranks_op op = {
        .call = RANKS_RECV, .dst = dst, .count = count, .type = type, .peer = peer};
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
