/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.c: runs the collectives of the stand-in for NCCL in the order of their stream. In a
 * collective call each rank publishes the address of its source, waits for all ranks, reads the
 * data it needs from the others' sources, waits again, and writes its result. So source and
 * destination may be the same buffer. */
#include "nccl.h"
#include "number.h"
#include <fcntl.h>
#include <dialect/half.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static size_t width_of(int type)
{
    static const unsigned char widths[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};

    return widths[type];
}

/* One round of a wait; false: the communicator was aborted. */
static bool exchange_pass(const struct sim_nccl *comm)
{
    if (atomic_load(&comm->aborted)) return false;
    usleep(20);
    return true;
}

/* Stores the error of a call under way for the next query, and waits for an abort: the call itself
 * does not end. */
static bool exchange_hang(struct sim_nccl *comm, int error)
{
    if (error) atomic_store(&comm->error, error);
    while (exchange_pass(comm)) {}
    return false;
}

static bool await_all(struct sim_nccl *comm, bool ended)
{
    for (int i = 0; i < comm->n; i++) {
        const struct sim_nccl_rank *r = &comm->shared->rank[i];
        while (atomic_load(ended ? &r->ended : &r->begun) < comm->calls)
            if (!exchange_pass(comm)) return false;
    }
    return true;
}

/* Reads memory of another process. A container's filter may refuse the system call, but not the
 * file. */
static bool read_there(int pid, const void *there, void *to, size_t bytes)
{
    struct iovec here = {to, bytes}, remote = {(void *)(uintptr_t)there, bytes};
    char path[64];
    bool good;
    int fd;

    if (process_vm_readv(pid, &here, 1, &remote, 1, 0) == (ssize_t)bytes) return true;
    snprintf(path, sizeof path, "/proc/%d/mem", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    good = pread(fd, to, bytes, (off_t)(uintptr_t)there) == (ssize_t)bytes;
    close(fd);
    return good;
}

/* Reads memory of this process, unless its rank has ended an aborted call, after which it may free
 * the memory. */
static bool read_here(struct sim_nccl *comm, int rank, const void *there, void *to, size_t bytes)
{
    struct sim_nccl_rank *of = &comm->shared->rank[rank];
    bool is_there;

    atomic_fetch_add(&of->readers, 1);
    is_there = !atomic_load(&of->gone);
    if (is_there) memmove(to, there, bytes);
    atomic_fetch_sub(&of->readers, 1);
    return is_there;
}

/* Ends an aborted call when no rank of this process reads this rank's buffers any more. */
static void exchange_leave(struct sim_nccl *comm)
{
    struct sim_nccl_rank *own = &comm->shared->rank[comm->rank];

    atomic_store(&own->gone, true);
    while (atomic_load(&own->readers)) usleep(20);
}

static bool exchange_fetch(struct sim_nccl *comm, int rank, const struct sim_nccl_buffer *from,
                           uint64_t offset, void *to, size_t bytes)
{
    int pid = atomic_load(&comm->shared->rank[rank].pid);
    void *there = (void *)(uintptr_t)(from->address + offset);

    if (!bytes) return true;
    if (offset + bytes > from->bytes)
        return exchange_hang(comm, 0); /* ranks with different counts */
    if (pid == getpid()) return read_here(comm, rank, there, to, bytes) || exchange_hang(comm, 0);
    return read_there(pid, there, to, bytes) || exchange_hang(comm, SIM_NCCL_REMOTE);
}

/* Like NCCL, maximum and minimum ignore NaN. */
static double exchange_combine(double a, double b, int reduction)
{
    switch (reduction) {
    case NCCL_PRODUCT: return a * b;
    case NCCL_MAX: return fmax(a, b);
    case NCCL_MIN: return fmin(a, b);
    default: return a + b;
    }
}

static void combine_floats(int type, void *to, const void *from, size_t n, int reduction)
{
    enum sim_type t = type == NCCL_F32 ? SIM_F32 : type == NCCL_F64 ? SIM_F64
                      : type == NCCL_F16 ? SIM_F16 : SIM_BF16;

    for (size_t i = 0; i < n; i++)
        sim_put(
            t, to, (int64_t)i,
            exchange_combine(sim_get(t, to, (int64_t)i), sim_get(t, from, (int64_t)i), reduction));
}

static void divide_floats(int type, void *to, size_t n, int by)
{
    enum sim_type t = type == NCCL_F32 ? SIM_F32 : type == NCCL_F64 ? SIM_F64
                      : type == NCCL_F16 ? SIM_F16 : SIM_BF16;

    for (size_t i = 0; i < n; i++)
        sim_put(t, to, (int64_t)i, sim_get(t, to, (int64_t)i) / by);
}

/* Loads an integer of any width, sign-extended if it is signed; sums and products wrap. */
static uint64_t exchange_load(int type, const char *at)
{
    switch (type) {
    case NCCL_I8: return (uint64_t)(int64_t)*(const int8_t *)at;
    case NCCL_U8: return *(const uint8_t *)at;
    case NCCL_I32: return (uint64_t)(int64_t)*(const int32_t *)(const void *)at;
    case NCCL_U32: return *(const uint32_t *)(const void *)at;
    default: return *(const uint64_t *)(const void *)at;
    }
}

static void combine_integers(int type, char *to, const char *from, size_t n, int reduction)
{
    bool is_signed = type == NCCL_I8 || type == NCCL_I32 || type == NCCL_I64;
    size_t width = width_of(type);

    for (size_t i = 0; i < n * width; i += width) {
        uint64_t a = exchange_load(type, to + i), b = exchange_load(type, from + i), c = a + b;
        bool less = is_signed ? (int64_t)a < (int64_t)b : a < b;
        if (reduction == NCCL_PRODUCT) c = a * b;
        if (reduction == NCCL_MIN) c = less ? a : b;
        if (reduction == NCCL_MAX) c = less ? b : a;
        memcpy(to + i, &c, width);
    }
}

/* Reduces the sources of all ranks, from `offset` on, in the order of ranks. */
static bool exchange_reduce(struct sim_nccl *comm, const struct sim_nccl_op *op, uint64_t offset,
                            char *to)
{
    size_t bytes = op->count * width_of(op->type);
    char *other = malloc(bytes + 1);
    bool good = other != NULL;

    for (int i = 0; i < comm->n && good; i++) {
        good = exchange_fetch(comm, i, &comm->shared->rank[i].src, offset, i ? other : to, bytes);
        if (!good || !i) continue;
        if (op->type < NCCL_F16) combine_integers(op->type, to, other, op->count, op->reduction);
        else combine_floats(op->type, to, other, op->count, op->reduction);
    }
    if (good && op->reduction == NCCL_AVERAGE) divide_floats(op->type, to, op->count, comm->n);
    free(other);
    return good;
}

/* The size of a rank's source in a call, in units of `count` elements. */
static size_t src_parts(const struct sim_nccl *comm, const struct sim_nccl_op *op)
{
    if (op->call == SIM_NCCL_BROADCAST) return comm->rank == op->peer;
    return op->call == SIM_NCCL_REDUCE_SCATTER ? (size_t)comm->n : 1;
}

static size_t dst_parts(const struct sim_nccl *comm, const struct sim_nccl_op *op)
{
    if (op->call == SIM_NCCL_REDUCE) return comm->rank == op->peer;
    return op->call == SIM_NCCL_ALL_GATHER ? (size_t)comm->n : 1;
}

static bool exchange_make(struct sim_nccl *comm, const struct sim_nccl_op *op, char *to)
{
    const struct sim_nccl_rank *rank = comm->shared->rank;
    size_t bytes = op->count * width_of(op->type);

    switch (op->call) {
    case SIM_NCCL_BROADCAST:
        return exchange_fetch(comm, op->peer, &rank[op->peer].src, 0, to, bytes);
    case SIM_NCCL_ALL_GATHER:
        for (int i = 0; i < comm->n; i++)
            if (!exchange_fetch(comm, i, &rank[i].src, 0, to + (size_t)i * bytes, bytes))
                return false;
        return true;
    case SIM_NCCL_REDUCE_SCATTER:
        return exchange_reduce(comm, op, (uint64_t)comm->rank * bytes, to);
    default: return exchange_reduce(comm, op, 0, to);
    }
}

/* Called without the lock. */
static void exchange_collective(struct sim_nccl *comm, const struct sim_nccl_op *op,
                                const void *src, void *dst)
{
    struct sim_nccl_rank *me = &comm->shared->rank[comm->rank];
    size_t bytes = op->count * width_of(op->type), size = bytes * dst_parts(comm, op);
    char *made = malloc(size + 1);

    comm->calls++;
    me->src = (struct sim_nccl_buffer){(uintptr_t)src, bytes * src_parts(comm, op)};
    atomic_store(&me->begun, comm->calls);
    if (made && await_all(comm, false) && (!size || exchange_make(comm, op, made))) {
        atomic_store(&me->ended, comm->calls);
        if (await_all(comm, true) && size) memcpy(dst, made, size);
    }
    free(made);
}

/* A send waits until the receiver has taken the previous send, and then this one. */
static void step_send(struct sim_nccl *comm, struct sim_nccl_op *op, const void *src)
{
    struct sim_nccl_pair *pair = &comm->shared->pair[comm->rank][op->peer];
    uint64_t sent = atomic_load(&pair->sent);

    if (!op->number && atomic_load(&pair->taken) == sent) {
        pair->src = (struct sim_nccl_buffer){(uintptr_t)src, op->count * width_of(op->type)};
        op->number = sent + 1;
        atomic_store(&pair->sent, op->number);
    }
    op->done = op->number && atomic_load(&pair->taken) >= op->number;
}

static bool step_recv(struct sim_nccl *comm, struct sim_nccl_op *op, void *dst)
{
    struct sim_nccl_pair *pair = &comm->shared->pair[op->peer][comm->rank];
    size_t bytes = op->count * width_of(op->type);
    uint64_t taken = atomic_load(&pair->taken);

    if (atomic_load(&pair->sent) == taken) return true;
    if (pair->src.bytes != bytes) return exchange_hang(comm, 0);
    if (!exchange_fetch(comm, op->peer, &pair->src, 0, dst, bytes)) return false;
    atomic_store(&pair->taken, taken + 1);
    op->done = true;
    return true;
}

/* Whether all earlier operations in the same direction with the same peer are done. */
static bool is_its_turn(const struct sim_nccl_op *op, int i)
{
    for (int j = 0; j < i; j++)
        if (!op[j].done && op[j].call == op[i].call && op[j].peer == op[i].peer) return false;
    return true;
}

static void exchange_pairs(struct sim_nccl *comm, struct sim_nccl_op *op, int n)
{
    for (int left = n; left;) {
        left = 0;
        for (int i = 0; i < n; i++) {
            if (op[i].done || !is_its_turn(op, i)) {
                left += !op[i].done;
                continue;
            }
            if (op[i].call == SIM_NCCL_SEND) step_send(comm, &op[i], op[i].src);
            else if (!step_recv(comm, &op[i], op[i].dst))
                return;
            left += !op[i].done;
        }
        if (left && !exchange_pass(comm)) return;
    }
}

/* Converts the buffers' addresses to host memory; false: there is no memory of this size. */
static bool find_buffers(const struct sim_nccl *comm, struct sim_nccl_op *op)
{
    size_t bytes = op->count * width_of(op->type);
    bool sends = op->call != SIM_NCCL_RECV && src_parts(comm, op);
    bool takes = op->call != SIM_NCCL_SEND && dst_parts(comm, op);

    if (!bytes) return true;
    if (sends) op->src = sim_reach(op->src, bytes * src_parts(comm, op));
    if (takes) op->dst = sim_reach(op->dst, bytes * dst_parts(comm, op));
    return (!sends || op->src) && (!takes || op->dst);
}

static int exchange_run(struct sim_nccl_work *work)
{
    struct sim_nccl *comm = work->comm;
    int code = sim_doomed(SIM_CALL_work);

    for (int i = 0; i < work->n && !code; i++)
        if (!find_buffers(comm, &work->op[i])) code = SIM_ILLEGAL_ADDRESS;
    while (!code && comm->done + 1 != work->number && !atomic_load(&comm->aborted)) sim_wait();
    if (code || atomic_load(&comm->aborted)) return code;
    pthread_mutex_unlock(&sim.lock);
    if (work->op->call >= SIM_NCCL_SEND) exchange_pairs(comm, work->op, work->n);
    else exchange_collective(comm, work->op, work->op->src, work->op->dst);
    if (atomic_load(&comm->aborted)) exchange_leave(comm);
    pthread_mutex_lock(&sim.lock);
    return 0;
}

int sim_nccl_run(void *p, int code)
{
    struct sim_nccl_work *work = p;

    if (!code) code = exchange_run(work);
    if (work->comm->done < work->number) work->comm->done = work->number;
    sim_nccl_drop(work->comm);
    free(work->op);
    sim_wake();
    return code;
}
