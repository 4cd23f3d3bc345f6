/* SPDX-License-Identifier: Apache-2.0 */
/* clique.c: implements ids, communicators and their end of CNCL. The id names a shared file that
 * the process of cnclGetCliqueId holds open until its own ranks have joined, or it ends. */
#include "cncl.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    MAGIC = 0x3c1,
    JOIN_WAITS = 100000,
    WAIT_US = 100,
    LIMIT_MS = 10000
};

static const char comm_kind[] = "communicator";

/* The contents of an id. */
struct name {
    int magic, pid, fd, number;
};

/* The cliques that this process has joined. Under the lock of the base. */
static struct joined {
    struct joined *next;
    struct name name;
    struct cncl_shared *shared;
    int ranks; /* of this process, whose memory is in use */
} * joined;

static uint64_t id_hash(const struct cncl_clique_id *id)
{
    uint64_t hash = UINT64_C(14695981039346656037);

    for (int i = 0; i < CNCL_ID_BYTES; i++)
        hash = (hash ^ (unsigned char)id->data[i]) * UINT64_C(1099511628211);
    return hash;
}

int cnclGetCliqueId(struct cncl_clique_id *out)
{
    static int made;
    struct name name = {.magic = MAGIC, .pid = getpid()};
    int code = cnrt_enter("cnclGetCliqueId");

    if (!code && !out) code = CNCL_NULL;
    if (code) return base_leave(code);
    name.number = made++;
    name.fd = memfd_create("standin_cncl", MFD_CLOEXEC);
    if (name.fd < 0 || ftruncate(name.fd, sizeof(struct cncl_shared)))
        return base_leave(CNCL_SYSTEM);
    memset(out, 0, sizeof *out);
    memcpy(out->data, &name, sizeof name);
    out->hash = id_hash(out);
    return base_leave(0);
}

static struct cncl_shared *clique_map(const struct name *name)
{
    char path[64];
    void *at;
    int fd;

    snprintf(path, sizeof path, "/proc/%d/fd/%d", name->pid, name->fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return NULL;
    at = mmap(NULL, sizeof(struct cncl_shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return at == MAP_FAILED ? NULL : at;
}

/* Enters a clique once for this process. Under the lock. */
static int clique_join(const struct cncl_clique_id *id, int n, struct joined **out)
{
    struct joined *j = calloc(1, sizeof *j);

    if (!j) return CNCL_SYSTEM;
    memcpy(&j->name, id->data, sizeof j->name);
    for (const struct joined *k = joined; k; k = k->next)
        if (!memcmp(&k->name, &j->name, sizeof j->name)) {
            free(j);
            return base_misuse(CNCL_ARGUMENTS, "cnclInitComms: the process has used this id "
                                               "before; one call takes all ranks of a process");
        }
    j->shared = clique_map(&j->name);
    if (!j->shared) {
        free(j);
        return CNCL_SYSTEM;
    }
    j->ranks = n;
    j->next = joined;
    joined = j;
    *out = j;
    return 0;
}

static void clique_leave(struct cncl_shared *shared)
{
    struct joined *j = joined;

    while (j && j->shared != shared) j = j->next;
    if (j && --j->ranks == 0) munmap(shared, sizeof *shared); /* `j` stays: its id is used */
    if (j && j->ranks == 0) j->shared = NULL;
}

void cncl_comm_release(struct cncl_comm *comm)
{
    if (--comm->refs) return;
    clique_leave(comm->shared);
    base_handle_destroy(comm);
}

struct cncl_comm *cncl_comm(void *comm, int *code)
{
    struct cncl_comm *c = comm;

    if (*code) return NULL;
    if (comm && base_handle_is(comm, comm_kind) && !atomic_load(&c->aborted)) return c;
    *code = comm ? base_misuse(CNCL_ARGUMENTS, "%p is not a communicator", comm) : CNCL_NULL;
    return NULL;
}

static int init_check(void **out, int n, const int *devices, const int *ranks, int n_rank,
                      const struct cncl_clique_id *id)
{
    struct name name;

    if (!out || !devices || !ranks || !id) return CNCL_NULL;
    memcpy(&name, id->data, sizeof name);
    if (name.magic != MAGIC || id->hash != id_hash(id))
        return base_refuse(CNCL_ARGUMENTS, "the id is damaged: it has 136 bytes");
    if (n < 1 || n > n_rank || n_rank > CNCL_RANKS)
        return base_refuse(CNCL_ARGUMENTS, "%d of %d ranks", n, n_rank);
    for (int i = 0; i < n; i++) {
        if (devices[i] < 0 || devices[i] >= cnrt_vendor.n_device || ranks[i] < 0 ||
            ranks[i] >= n_rank)
            return base_refuse(CNCL_ARGUMENTS, "rank %d on device %d", ranks[i], devices[i]);
        for (int k = 0; k < i; k++)
            if (ranks[k] == ranks[i]) return base_refuse(CNCL_ARGUMENTS, "rank %d twice", ranks[i]);
    }
    return 0;
}

/* Takes the ranks of this process; the last step of joining. */
static int init_ranks(struct cncl_shared *shared, int n, const int *ranks)
{
    int code = 0;

    for (int i = 0; i < n; i++)
        if (atomic_exchange(&shared->taken[ranks[i]], 1)) code = CNCL_INIT;
    if (code) atomic_store(&shared->failed, 1);
    else atomic_fetch_add(&shared->joined, n);
    return code;
}

/* Waits for the ranks of other processes. Without the lock. */
static int init_wait(struct cncl_shared *shared, int n_rank)
{
    for (int i = 0; i < JOIN_WAITS; i++) {
        if (atomic_load(&shared->failed)) return CNCL_INIT;
        if (atomic_load(&shared->joined) == n_rank) return 0;
        usleep(WAIT_US);
    }
    return CNCL_INIT;
}

static int init_comms(struct joined *j, void **out, int n, const int *devices, const int *ranks,
                      int n_rank)
{
    for (int i = 0; i < n; i++) {
        struct cncl_comm *comm = base_handle_create(comm_kind, sizeof *comm);
        if (!comm) return CNCL_SYSTEM;
        comm->shared = j->shared;
        comm->device = &cnrt_vendor.device[devices[i]];
        comm->rank = ranks[i];
        comm->n = n_rank;
        comm->refs = 1;
        out[i] = comm;
    }
    return 0;
}

int cnclInitComms(void **out_comms, int n, const int *devices, const int *ranks, int n_rank,
                  const struct cncl_clique_id *id)
{
    int code = cnrt_enter("cnclInitComms");
    struct joined *j = NULL;

    if (!code) code = init_check(out_comms, n, devices, ranks, n_rank, id);
    if (!code) code = clique_join(id, n, &j);
    if (code) return base_leave(code);
    code = init_ranks(j->shared, n, ranks);
    base_unlock();
    if (!code) code = init_wait(j->shared, n_rank);
    base_lock();
    if (j->name.pid == getpid()) close(j->name.fd); /* all have mapped the file, or failed */
    if (!code) code = init_comms(j, out_comms, n, devices, ranks, n_rank);
    return base_leave(code);
}

static int limit_ms(void)
{
    const char *text = secure_getenv("BP_STANDIN_CNCL_LIMIT");

    return text ? atoi(text) : LIMIT_MS;
}

/* Ends communicators of this process, and waits until all of their clique have ended. */
static int comms_end(const char *name, void **comms, int n)
{
    int code = cnrt_enter(name), ms = limit_ms();
    struct cncl_comm *first = NULL;

    for (int i = 0; i < n && !code; i++) {
        struct cncl_comm *comm = cncl_comm(comms[i], &code);
        if (comm && first && comm->shared != first->shared) code = CNCL_ARGUMENTS;
        if (comm && !first) first = comm;
    }
    if (code) return base_leave(code);
    atomic_fetch_add(&first->shared->freed, n);
    base_unlock();
    for (int i = 0; i < ms * 1000 / WAIT_US; i++) {
        if (atomic_load(&first->shared->freed) >= first->n) break;
        usleep(WAIT_US);
    }
    base_lock();
    if (atomic_load(&first->shared->freed) < first->n)
        code = base_misuse(CNCL_RUNTIME,
                           "%s: the other communicators of the clique were not "
                           "freed: the real library hangs",
                           name);
    for (int i = 0; i < n; i++) cncl_comm_release(comms[i]);
    return base_leave(code);
}

int cnclFreeComm(void *comm)
{
    return comms_end("cnclFreeComm", &comm, 1);
}

int cnclDestroyComms(void **comms, int n)
{
    if (comms && n > 0) return comms_end("cnclDestroyComms", comms, n);
    return base_leave(cnrt_enter("cnclDestroyComms") ? CNCL_RUNTIME : CNCL_NULL);
}

int cnclAbortComm(void *comm)
{
    int code = cnrt_enter("cnclAbortComm");
    struct cncl_comm *c = cncl_comm(comm, &code);

    if (!c) return base_leave(code);
    atomic_store(&c->aborted, true);
    atomic_fetch_add(&c->shared->freed, 1);
    cncl_comm_release(c);
    return base_leave(0);
}

int cnclGetCommAsyncError(void *comm)
{
    int code = cnrt_enter("cnclGetCommAsyncError");
    const struct cncl_comm *c = cncl_comm(comm, &code);

    if (!c) return base_leave(code);
    code = atomic_load(&c->error);
    if (!code && atomic_load(&c->given) != atomic_load(&c->done)) code = CNCL_IN_PROGRESS;
    return base_leave(code);
}

int cnclGetLibVersion(int *major, int *minor, int *patch)
{
    int code = cnrt_enter("cnclGetLibVersion");

    if (!code && (!major || !minor || !patch)) code = CNCL_NULL;
    if (code) return base_leave(code);
    *major = 1;
    *minor = 25;
    *patch = 0;
    return base_leave(0);
}
