/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.c: exchanges data between threads and processes; see ranks.h. In a collective call each
 * rank publishes the address of its source, waits for all ranks, reads the data that it needs from
 * the sources of the others, waits again, and writes its result. */
#include "ranks.h"

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

/* The content of an id: the shared file, as a descriptor of the process that made the id; and the
 * number of the id in this process. */
struct name {
    int magic, pid, fd, number;
};

/* A buffer of a rank, in the rank's process. */
struct buffer {
    uint64_t address, bytes;
};

struct ranks_shared {
    _Atomic int arrived, failed;
    struct member {
        _Atomic int pid;
        _Atomic uint64_t begun, ended; /* collective calls */
        struct buffer src;             /* of the call that has begun */
        uint64_t signature;
        _Atomic int readers; /* ranks of its process that read its buffers */
        _Atomic bool gone;   /* it has ended a call that was aborted */
    } rank[RANKS_MOST];
    struct pair {
        _Atomic uint64_t sent, taken;
        struct buffer src;          /* the buffer that was sent last */
    } pair[RANKS_MOST][RANKS_MOST]; /* [sender][receiver] */
};

/* The files that this process has mapped, each once, so that ThreadSanitizer sees how ranks that
 * are threads wait for each other. */
struct ranks_mapped {
    struct ranks_mapped *next;
    struct name name;
    struct ranks_shared *at;
    int refs;
};
static struct ranks_mapped *all_mapped;

bool ranks_id(void *out)
{
    static _Atomic int made;
    struct name name = {MAGIC, getpid(), memfd_create("ranks", MFD_CLOEXEC), made++};

    if (name.fd < 0 || ftruncate(name.fd, sizeof(struct ranks_shared))) return false;
    memset(out, 0, RANKS_ID_SIZE);
    memcpy(out, &name, sizeof name);
    return true;
}

int ranks_id_file(const void *id)
{
    struct name name;

    memcpy(&name, id, sizeof name);
    return name.magic == MAGIC && name.pid == getpid() ? name.fd : -1;
}

static struct ranks_shared *mapped_open(const struct name *name)
{
    char path[64];
    void *at;
    int fd;

    snprintf(path, sizeof path, "/proc/%d/fd/%d", name->pid, name->fd);
    fd = name->magic == MAGIC ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) return NULL;
    at = mmap(NULL, sizeof(struct ranks_shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return at == MAP_FAILED ? NULL : at;
}

static struct ranks_mapped *mapped_find(const struct name *name)
{
    struct ranks_mapped *m = all_mapped;
    struct ranks_shared *at;

    while (m && memcmp(&m->name, name, sizeof *name) != 0) m = m->next;
    if (!m) {
        at = mapped_open(name);
        m = at ? malloc(sizeof *m) : NULL;
        if (!m) return NULL;
        *m = (struct ranks_mapped){all_mapped, *name, at, 0};
        all_mapped = m;
    }
    m->refs++;
    return m;
}

/* Without the prctl, Yama lets only its parents read a process. */
bool ranks_open(struct ranks_comm *out, const void *id, int n, int rank,
                const struct ranks_rules *rules)
{
    struct ranks_mapped *m = NULL;
    struct name name;

    memcpy(&name, id, sizeof name);
    if (n >= 1 && n <= RANKS_MOST && rank >= 0 && rank < n) m = mapped_find(&name);
    if (!m) return false;
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    *out = (struct ranks_comm){.rules = rules, .mapped = m, .shared = m->at, .rank = rank, .n = n};
    atomic_store(&out->shared->rank[rank].pid, getpid());
    return true;
}

void ranks_close(struct ranks_comm *comm)
{
    struct ranks_mapped *m = comm->mapped, **at = &all_mapped;

    if (--m->refs) return;
    while (*at != m) at = &(*at)->next;
    *at = m->next;
    munmap(m->at, sizeof *m->at);
    free(m);
}

void ranks_arrive(struct ranks_comm *comm)
{
    atomic_fetch_add(&comm->shared->arrived, 1);
}

void ranks_fail(struct ranks_comm *comm)
{
    atomic_store(&comm->shared->failed, 1);
}

bool ranks_have_arrived(const struct ranks_comm *comm)
{
    return atomic_load(&comm->shared->arrived) >= comm->n;
}

bool ranks_have_failed(const struct ranks_comm *comm)
{
    return atomic_load(&comm->shared->failed);
}

/* One round of a wait; false: the communicator was aborted. */
static bool ranks_pass(const struct ranks_comm *comm)
{
    if (atomic_load(&comm->aborted)) return false;
    usleep(20);
    return true;
}

/* Stores the error of a call under way, and waits for an abort: the call itself does not end. */
static bool ranks_hang(struct ranks_comm *comm, int error)
{
    if (error) atomic_store(&comm->error, error);
    while (ranks_pass(comm)) {
    }
    return false;
}

static bool await_all(struct ranks_comm *comm, bool ended)
{
    for (int i = 0; i < comm->n; i++) {
        const struct member *r = &comm->shared->rank[i];
        while (atomic_load(ended ? &r->ended : &r->begun) < comm->calls)
            if (!ranks_pass(comm)) return false;
    }
    return true;
}

/* Reads memory of another process. A container's filter may refuse the system call, but not the
 * file. */
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

/* Reads memory of this process, unless its rank has ended an aborted call, after which it may free
 * the memory. */
static bool member_read(struct member *of, uint64_t there, void *to, size_t bytes)
{
    bool is_there;

    atomic_fetch_add(&of->readers, 1);
    is_there = !atomic_load(&of->gone);
    if (is_there) memmove(to, (const void *)(uintptr_t)there, bytes);
    atomic_fetch_sub(&of->readers, 1);
    return is_there;
}

static bool ranks_fetch(struct ranks_comm *comm, int rank, const struct buffer *from,
                        uint64_t offset, void *to, size_t bytes)
{
    struct member *of = &comm->shared->rank[rank];
    int pid = atomic_load(&of->pid);

    if (!bytes) return true;
    if (offset + bytes > from->bytes) return ranks_hang(comm, comm->rules->differs);
    if (pid == getpid())
        return member_read(of, from->address + offset, to, bytes) ||
               ranks_hang(comm, comm->rules->gone);
    return process_read(pid, from->address + offset, to, bytes) ||
           ranks_hang(comm, comm->rules->unreadable);
}

/* How many times `count` elements a rank's source and destination have. */
static uint64_t src_parts(const struct ranks_comm *comm, const struct ranks_op *op)
{
    switch (op->call) {
    case RANKS_BROADCAST: return comm->rank == op->peer;
    case RANKS_REDUCE_SCATTER:
    case RANKS_ALL_TO_ALL: return (uint64_t)comm->n;
    case RANKS_BARRIER:
    case RANKS_RECV: return 0;
    default: return 1;
    }
}

static uint64_t dst_parts(const struct ranks_comm *comm, const struct ranks_op *op)
{
    switch (op->call) {
    case RANKS_REDUCE: return comm->rank == op->peer;
    case RANKS_ALL_GATHER:
    case RANKS_ALL_TO_ALL: return (uint64_t)comm->n;
    case RANKS_BARRIER:
    case RANKS_SEND: return 0;
    default: return 1;
    }
}

bool ranks_reach(const struct ranks_comm *comm, struct ranks_op *op,
                 void *(*reach)(const void *self, const void *buffer, size_t bytes),
                 const void *self)
{
    size_t bytes = (size_t)op->count * op->width;
    size_t sends = bytes * (size_t)src_parts(comm, op), takes = bytes * (size_t)dst_parts(comm, op);

    if (sends) op->src = reach(self, op->src, sends);
    if (takes) op->dst = reach(self, op->dst, takes);
    return (!sends || op->src) && (!takes || op->dst);
}

/* Reduces the sources of all ranks, from an offset on, in the order of ranks. */
static bool ranks_reduce(struct ranks_comm *comm, const struct ranks_op *op, uint64_t offset,
                         char *to)
{
    const struct ranks_rules *rules = comm->rules;
    size_t bytes = (size_t)op->count * op->width;
    char *other = malloc(bytes + 1);
    bool good = other != NULL;

    for (int i = 0; i < comm->n && good; i++) {
        good = ranks_fetch(comm, i, &comm->shared->rank[i].src, offset, i ? other : to, bytes);
        if (good && i) rules->combine(to, other, op->count, op->type, op->reduction);
    }
    if (good && rules->finish) rules->finish(to, op->count, op->type, op->reduction, comm->n);
    free(other);
    return good;
}

static bool ranks_make(struct ranks_comm *comm, const struct ranks_op *op, char *to)
{
    const struct member *rank = comm->shared->rank;
    size_t bytes = (size_t)op->count * op->width;
    uint64_t own = (uint64_t)comm->rank * bytes, from = op->call == RANKS_ALL_GATHER ? 0 : own;

    switch (op->call) {
    case RANKS_BROADCAST: return ranks_fetch(comm, op->peer, &rank[op->peer].src, 0, to, bytes);
    case RANKS_ALL_GATHER:
    case RANKS_ALL_TO_ALL:
        for (int i = 0; i < comm->n; i++)
            if (!ranks_fetch(comm, i, &rank[i].src, from, to + (size_t)i * bytes, bytes))
                return false;
        return true;
    case RANKS_REDUCE_SCATTER: return ranks_reduce(comm, op, own, to);
    case RANKS_BARRIER: return true;
    default: return ranks_reduce(comm, op, 0, to);
    }
}

/* Whether all ranks make the same call, as far as the rules compare calls. */
static bool ranks_agree(struct ranks_comm *comm)
{
    const struct member *rank = comm->shared->rank;

    for (int i = 0; i < comm->n && comm->rules->compares; i++)
        if (rank[i].signature != rank[comm->rank].signature)
            return ranks_hang(comm, comm->rules->differs);
    return true;
}

static void run_collective(struct ranks_comm *comm, const struct ranks_op *op)
{
    struct member *own = &comm->shared->rank[comm->rank];
    size_t bytes = (size_t)op->count * op->width, size = bytes * (size_t)dst_parts(comm, op);
    char *made = malloc(size + 1);

    comm->calls++;
    own->signature = (((uint64_t)op->call * 31 + (uint64_t)op->type) * 31 +
                      (uint64_t)op->reduction) *
                         31 +
                     (uint64_t)op->peer + op->count * 100003;
    own->src = (struct buffer){(uintptr_t)op->src, bytes * src_parts(comm, op)};
    atomic_store(&own->begun, comm->calls);
    if (made && await_all(comm, false) && ranks_agree(comm) &&
        (!size || ranks_make(comm, op, made))) {
        atomic_store(&own->ended, comm->calls);
        if (await_all(comm, true) && size) memcpy(op->dst, made, size);
    }
    free(made);
}

/* The state of a send or a receive. */
struct step {
    uint64_t number; /* of a send: its number in the pair, once it was sent */
    bool done;
};

/* A send waits until the receiver has taken the previous send, and then this one. */
static void step_send(struct ranks_comm *comm, const struct ranks_op *op, struct step *step)
{
    struct pair *pair = &comm->shared->pair[comm->rank][op->peer];
    uint64_t sent = atomic_load(&pair->sent);

    if (!step->number && atomic_load(&pair->taken) == sent) {
        pair->src = (struct buffer){(uintptr_t)op->src, op->count * op->width};
        step->number = sent + 1;
        atomic_store(&pair->sent, step->number);
    }
    step->done = step->number && atomic_load(&pair->taken) >= step->number;
}

static bool step_recv(struct ranks_comm *comm, const struct ranks_op *op, struct step *step)
{
    struct pair *pair = &comm->shared->pair[op->peer][comm->rank];
    size_t bytes = (size_t)op->count * op->width;
    uint64_t taken = atomic_load(&pair->taken);

    if (atomic_load(&pair->sent) == taken) return true;
    if (pair->src.bytes != bytes) return ranks_hang(comm, comm->rules->differs);
    if (!ranks_fetch(comm, op->peer, &pair->src, 0, op->dst, bytes)) return false;
    atomic_store(&pair->taken, taken + 1);
    step->done = true;
    return true;
}

/* Whether all earlier operations in the same direction with the same peer are done. */
static bool step_is_next(const struct ranks_op *op, const struct step *step, int i)
{
    for (int j = 0; j < i; j++)
        if (!step[j].done && op[j].call == op[i].call && op[j].peer == op[i].peer) return false;
    return true;
}

/* Advances all steps; returns how many are left, 0 also if the communicator was aborted. */
static int steps_advance(struct ranks_comm *comm, const struct ranks_op *op, struct step *step,
                         int n)
{
    int left = 0;

    for (int i = 0; i < n; i++) {
        if (!step[i].done && step_is_next(op, step, i)) {
            if (op[i].call == RANKS_SEND) step_send(comm, &op[i], &step[i]);
            else if (!step_recv(comm, &op[i], &step[i])) return 0;
        }
        left += !step[i].done;
    }
    return left;
}

static void run_pairs(struct ranks_comm *comm, const struct ranks_op *op, int n)
{
    struct step *step = calloc((size_t)n, sizeof *step);

    while (step && steps_advance(comm, op, step, n) && ranks_pass(comm)) {
    }
    free(step);
}

/* An aborted call ends when no rank of this process reads this rank's buffers any more. */
void ranks_run(struct ranks_comm *comm, const struct ranks_op *op, int n)
{
    struct member *own = &comm->shared->rank[comm->rank];

    if (op->call >= RANKS_SEND) run_pairs(comm, op, n);
    else run_collective(comm, op);
    if (!atomic_load(&comm->aborted)) return;
    atomic_store(&own->gone, true);
    while (atomic_load(&own->readers)) usleep(20);
}
