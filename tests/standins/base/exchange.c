/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.c: runs collectives between threads and processes. In a collective call each rank
 * publishes the address of its source, waits for all ranks, reads the data that it needs from the
 * sources of the others, waits again, and writes its result: source and destination may be the same
 * buffer. */
#include "exchange.h"
#include "internal.h"
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    MAGIC = 0xe8c4
};

/* The content of an id: the shared file, as a descriptor of the process that made the id. */
struct name {
    int magic, pid, fd, number;
};

struct buffer {
    uint64_t address, bytes;
};
struct shared {
    _Atomic int joined;
    struct {
        _Atomic int pid;
        _Atomic uint64_t begun, ended; /* collective calls */
        struct buffer src;             /* of the call that has begun */
        uint64_t signature;
        _Atomic int readers; /* ranks of its process that read its buffers */
        _Atomic bool gone;   /* it reads and publishes no more */
    } rank[BASE_RANKS];
    struct {
        _Atomic uint64_t sent, taken;
        struct buffer src;
    } pair[BASE_RANKS][BASE_RANKS]; /* [sender][receiver] */
};

/* The files that this process has mapped, each once, so that a checker of threads sees how ranks of
 * this process wait for each other. */
struct mapped {
    struct mapped *next;
    struct name name;
    struct shared *at;
    int refs;
};
static struct mapped *all_mapped;

struct base_comm {
    struct comm_state *state;
};
/* The part of a communicator that work in progress needs after its end. */
struct comm_state {
    int refs, rank, n;
    struct base_device *device;
    base_combine *combine;
    struct mapped *mapped;
    struct shared *shared;
    uint64_t given, done, calls;
    _Atomic bool aborted;
    _Atomic int error;
};
const char base_comm_kind[] = "communicator";

struct exchange_work {
    struct comm_state *comm;
    struct base_exchange_op *op;
    int n;
    uint64_t number; /* 0: recorded, in no order */
};

int base_exchange_id(void *out)
{
    static int made;
    struct name name = {MAGIC, getpid(), memfd_create("standin_exchange", MFD_CLOEXEC), made++};

    if (name.fd < 0 || ftruncate(name.fd, sizeof(struct shared))) return BASE_NO_MEMORY;
    memset(out, 0, BASE_ID_SIZE);
    memcpy(out, &name, sizeof name);
    return BASE_OK;
}

static struct shared *mapped_open(const struct name *name)
{
    char path[64];
    void *at;
    int fd;

    snprintf(path, sizeof path, "/proc/%d/fd/%d", name->pid, name->fd);
    fd = name->magic == MAGIC ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) return NULL;
    at = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return at == MAP_FAILED ? NULL : at;
}

static struct mapped *mapped_find(const struct name *name)
{
    struct mapped *m = all_mapped;
    struct shared *at;

    while (m && memcmp(&m->name, name, sizeof *name) != 0) m = m->next;
    if (!m) {
        at = mapped_open(name);
        m = at ? calloc(1, sizeof *m) : NULL;
        if (!m) return NULL;
        *m = (struct mapped){all_mapped, *name, at, 0};
        all_mapped = m;
    }
    m->refs++;
    return m;
}

static void mapped_drop(struct mapped *m)
{
    struct mapped **at = &all_mapped;

    if (--m->refs) return;
    while (*at != m) at = &(*at)->next;
    *at = m->next;
    munmap(m->at, sizeof *m->at);
    free(m);
}

static void state_drop(struct comm_state *comm)
{
    if (--comm->refs) return;
    mapped_drop(comm->mapped);
    free(comm);
}

/* Waits until all ranks are there. The lock is released meanwhile. */
static int comm_meet(struct shared *s, int n, int ms)
{
    int waits = 0;

    atomic_fetch_add(&s->joined, 1);
    base_unlock();
    while (atomic_load(&s->joined) < n && waits++ < ms * 10) base_sleep(100);
    base_lock();
    return atomic_load(&s->joined) < n ? BASE_TIMEOUT : BASE_OK;
}

int base_comm_join(const void *id, int n, int rank, int ms, struct base_device *device,
                   base_combine *combine, struct base_comm **out)
{
    struct comm_state *state;
    struct base_comm *comm;
    struct mapped *m;
    struct name name;
    int code;

    memcpy(&name, id, sizeof name);
    m = n >= 1 && n <= BASE_RANKS && rank >= 0 && rank < n ? mapped_find(&name) : NULL;
    if (!m) return BASE_BAD;
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); /* lets processes that are no parents read memory */
    atomic_store(&m->at->rank[rank].pid, getpid());
    code = comm_meet(m->at, n, ms);
    if (!code && rank == 0 && name.pid == getpid()) close(name.fd);
    state = code ? NULL : calloc(1, sizeof *state);
    comm = state ? base_handle_create(base_comm_kind, sizeof *comm) : NULL;
    if (!comm) {
        free(state);
        mapped_drop(m);
        return code ? code : BASE_NO_MEMORY;
    }
    *state = (struct comm_state){.refs = 1,
                                 .rank = rank,
                                 .n = n,
                                 .device = device,
                                 .combine = combine,
                                 .mapped = m,
                                 .shared = m->at};
    comm->state = state;
    *out = comm;
    return BASE_OK;
}

int base_comm_rank(const struct base_comm *comm)
{
    return comm->state->rank;
}

int base_comm_ranks(const struct base_comm *comm)
{
    return comm->state->n;
}

struct base_device *base_comm_device(const struct base_comm *comm)
{
    return comm->state->device;
}

int base_comm_error(const struct base_comm *comm)
{
    return atomic_load(&comm->state->error);
}

void base_comm_destroy(struct base_comm *comm)
{
    atomic_store(&comm->state->aborted, true);
    state_drop(comm->state);
    base_handle_destroy(comm);
}

/* One round of a wait; false: the communicator was destroyed. */
static bool exchange_pass(const struct comm_state *comm)
{
    if (atomic_load(&comm->aborted)) return false;
    base_sleep(20);
    return true;
}

/* Sets the error, and waits for the end of the communicator. */
static bool exchange_hang(struct comm_state *comm, int error)
{
    atomic_store(&comm->error, error);
    while (exchange_pass(comm)) {
    }
    return false;
}

static bool await_all(struct comm_state *comm, bool ended)
{
    for (int i = 0; i < comm->n; i++)
        while (atomic_load(ended ? &comm->shared->rank[i].ended : &comm->shared->rank[i].begun) <
               comm->calls)
            if (!exchange_pass(comm)) return false;
    return true;
}

/* Reads memory of another process: by the system call, or by the file. */
static bool process_read(int pid, uint64_t there, void *to, size_t bytes)
{
    struct iovec here = {to, bytes}, remote = {(void *)(uintptr_t)there, bytes};
    char path[64];
    bool good;
    int fd;

    if (process_vm_readv(pid, &here, 1, &remote, 1, 0) == (ssize_t)bytes) return true;
    snprintf(path, sizeof path, "/proc/%d/mem", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    good = pread(fd, to, bytes, (off_t)there) == (ssize_t)bytes;
    close(fd);
    return good;
}

static bool exchange_fetch(struct comm_state *comm, int rank, const struct buffer *from,
                           uint64_t offset, void *to, size_t bytes)
{
    int pid = atomic_load(&comm->shared->rank[rank].pid);
    bool is_there;

    if (!bytes) return true;
    if (offset + bytes > from->bytes) return exchange_hang(comm, BASE_BAD);
    if (pid != getpid())
        return process_read(pid, from->address + offset, to, bytes) ||
               exchange_hang(comm, BASE_ILLEGAL);
    atomic_fetch_add(&comm->shared->rank[rank].readers, 1);
    is_there = !atomic_load(&comm->shared->rank[rank].gone);
    if (is_there) memmove(to, (const void *)(uintptr_t)(from->address + offset), bytes);
    atomic_fetch_sub(&comm->shared->rank[rank].readers, 1);
    return is_there || exchange_hang(comm, BASE_ILLEGAL);
}

/* How many times `count` elements a rank's source and destination have. */
static uint64_t src_parts(const struct comm_state *comm, const struct base_exchange_op *op)
{
    switch (op->call) {
    case BASE_BROADCAST: return comm->rank == op->peer;
    case BASE_REDUCE_SCATTER:
    case BASE_ALL_TO_ALL: return (uint64_t)comm->n;
    case BASE_BARRIER:
    case BASE_RECV: return 0;
    default: return 1;
    }
}

static uint64_t dst_parts(const struct comm_state *comm, const struct base_exchange_op *op)
{
    switch (op->call) {
    case BASE_REDUCE: return comm->rank == op->peer;
    case BASE_ALL_GATHER:
    case BASE_ALL_TO_ALL: return (uint64_t)comm->n;
    case BASE_BARRIER:
    case BASE_SEND: return 0;
    default: return 1;
    }
}

/* Reduces the sources of all ranks, from an offset on, in the order of ranks. */
static bool exchange_reduce(struct comm_state *comm, const struct base_exchange_op *op,
                            uint64_t offset, char *to)
{
    size_t bytes = (size_t)op->count * op->width;
    char *other = malloc(bytes + 1);
    bool good = other != NULL;

    for (int i = 0; i < comm->n && good; i++) {
        good = exchange_fetch(comm, i, &comm->shared->rank[i].src, offset, i ? other : to, bytes);
        if (good && i) comm->combine(to, other, op->count, op->type, op->reduction);
    }
    free(other);
    return good;
}

static bool exchange_make(struct comm_state *comm, const struct base_exchange_op *op, char *to)
{
    size_t bytes = (size_t)op->count * op->width;
    uint64_t own = (uint64_t)comm->rank * bytes;

    switch (op->call) {
    case BASE_BROADCAST:
        return exchange_fetch(comm, op->peer, &comm->shared->rank[op->peer].src, 0, to, bytes);
    case BASE_ALL_GATHER:
    case BASE_ALL_TO_ALL:
        for (int i = 0; i < comm->n; i++)
            if (!exchange_fetch(comm, i, &comm->shared->rank[i].src,
                                op->call == BASE_ALL_GATHER ? 0 : own, to + (size_t)i * bytes,
                                bytes))
                return false;
        return true;
    case BASE_REDUCE_SCATTER: return exchange_reduce(comm, op, own, to);
    case BASE_BARRIER: return true;
    default: return exchange_reduce(comm, op, 0, to);
    }
}

/* Whether all ranks make the same call. */
static bool exchange_agrees(struct comm_state *comm, uint64_t signature)
{
    for (int i = 0; i < comm->n; i++)
        if (comm->shared->rank[i].signature != signature) return exchange_hang(comm, BASE_BAD);
    return true;
}

static void exchange_collective(struct comm_state *comm, const struct base_exchange_op *op)
{
    size_t bytes = (size_t)op->count * op->width, size = bytes * (size_t)dst_parts(comm, op);
    char *made = malloc(size + 1);

    comm->calls++;
    comm->shared->rank[comm->rank].signature =
        (((uint64_t)op->call * 31 + (uint64_t)op->type) * 31 + (uint64_t)op->reduction) * 31 +
        (uint64_t)op->peer + op->count * 100003;
    comm->shared->rank[comm->rank].src = (struct buffer){(uintptr_t)op->src,
                                                         bytes * src_parts(comm, op)};
    atomic_store(&comm->shared->rank[comm->rank].begun, comm->calls);
    if (made && await_all(comm, false) &&
        exchange_agrees(comm, comm->shared->rank[comm->rank].signature) &&
        (!size || exchange_make(comm, op, made))) {
        atomic_store(&comm->shared->rank[comm->rank].ended, comm->calls);
        if (await_all(comm, true) && size) memcpy(op->dst, made, size);
    }
    free(made);
}

/* The state of a send or a receive. */
struct step {
    uint64_t number; /* of a send, once it was sent */
    bool done;
};

/* A send waits until the receiver has taken the one before, and then this one. */
static void step_send(struct comm_state *comm, const struct base_exchange_op *op, struct step *step)
{
    uint64_t sent = atomic_load(&comm->shared->pair[comm->rank][op->peer].sent);

    if (!step->number && atomic_load(&comm->shared->pair[comm->rank][op->peer].taken) == sent) {
        comm->shared->pair[comm->rank][op->peer].src = (struct buffer){(uintptr_t)op->src,
                                                                       op->count * op->width};
        step->number = sent + 1;
        atomic_store(&comm->shared->pair[comm->rank][op->peer].sent, step->number);
    }
    step->done = step->number &&
                 atomic_load(&comm->shared->pair[comm->rank][op->peer].taken) >= step->number;
}

static bool step_recv(struct comm_state *comm, const struct base_exchange_op *op, struct step *step)
{
    const struct buffer *src = &comm->shared->pair[op->peer][comm->rank].src;
    uint64_t taken = atomic_load(&comm->shared->pair[op->peer][comm->rank].taken);

    if (atomic_load(&comm->shared->pair[op->peer][comm->rank].sent) == taken) return true;
    if (src->bytes != op->count * op->width) return exchange_hang(comm, BASE_BAD);
    if (!exchange_fetch(comm, op->peer, src, 0, op->dst, (size_t)src->bytes)) return false;
    atomic_store(&comm->shared->pair[op->peer][comm->rank].taken, taken + 1);
    step->done = true;
    return true;
}

/* Whether all earlier operations in the same direction with the same peer are done. */
static bool step_is_next(const struct base_exchange_op *op, const struct step *step, int i)
{
    for (int j = 0; j < i; j++)
        if (!step[j].done && op[j].call == op[i].call && op[j].peer == op[i].peer) return false;
    return true;
}

static void exchange_pairs(struct comm_state *comm, const struct base_exchange_op *op, int n)
{
    struct step *step = calloc((size_t)n, sizeof *step);

    for (int left = step ? n : 0; left;) {
        left = 0;
        for (int i = 0; i < n; i++) {
            if (!step[i].done && step_is_next(op, step, i)) {
                if (op[i].call == BASE_SEND) step_send(comm, &op[i], &step[i]);
                else if (!step_recv(comm, &op[i], &step[i])) break;
            }
            left += !step[i].done;
        }
        if (!exchange_pass(comm)) break;
    }
    free(step);
}

/* Finds the buffers on the host. Under the lock. */
static int buffers_find(const struct comm_state *comm, struct base_exchange_op *op)
{
    size_t bytes = (size_t)op->count * op->width;
    uint64_t sends = src_parts(comm, op), takes = dst_parts(comm, op);

    if (!bytes) return BASE_OK;
    if (sends) op->src = base_reach(comm->device, op->src, bytes * (size_t)sends);
    if (takes) op->dst = base_reach(comm->device, op->dst, bytes * (size_t)takes);
    return (sends && !op->src) || (takes && !op->dst) ? BASE_ILLEGAL : BASE_OK;
}

/* Ends an aborted call when no rank of this process reads this rank's buffers any more. */
static void exchange_leave(struct comm_state *comm)
{
    atomic_store(&comm->shared->rank[comm->rank].gone, true);
    while (atomic_load(&comm->shared->rank[comm->rank].readers)) base_sleep(20);
}

static int exchange_run(void *data, int code)
{
    const struct exchange_work *work = data;
    struct comm_state *comm = work->comm;
    struct base_exchange_op *op;

    base_lock();
    op = malloc((size_t)work->n * sizeof *op);
    if (op) memcpy(op, work->op, (size_t)work->n * sizeof *op);
    else code = BASE_ILLEGAL;
    for (int i = 0; i < work->n && !code; i++) code = buffers_find(comm, &op[i]);
    if (code < 0) base_misuse(0, "a buffer of a collective is not memory of the device");
    while (!code && work->number && comm->done + 1 != work->number &&
           !atomic_load(&comm->aborted)) {
        base_unlock();
        base_sleep(50);
        base_lock();
    }
    base_unlock();
    if (!code && !atomic_load(&comm->aborted)) {
        if (op->call >= BASE_SEND) exchange_pairs(comm, op, work->n);
        else exchange_collective(comm, op);
        if (atomic_load(&comm->aborted)) exchange_leave(comm);
    }
    base_lock();
    if (work->number && comm->done < work->number) comm->done = work->number;
    base_unlock();
    free(op);
    return code;
}

static void exchange_drop(void *data)
{
    struct exchange_work *work = data;

    state_drop(work->comm);
    free(work->op);
}

static const struct base_work exchange_work = {exchange_run, exchange_drop};

int base_comm_submit(struct base_comm *handle, struct base_stream *stream,
                     const struct base_exchange_op *op, int n)
{
    struct comm_state *comm = handle->state;
    struct exchange_work work = {.comm = comm, .n = n};

    work.op = malloc((size_t)n * sizeof *op);
    if (!work.op) return BASE_NO_MEMORY;
    memcpy(work.op, op, (size_t)n * sizeof *op);
    if (base_capture_state(stream) == BASE_CAPTURE_NONE) work.number = ++comm->given;
    comm->refs++;
    return base_submit(stream, &exchange_work, &work, sizeof work);
}
