/* SPDX-License-Identifier: Apache-2.0 */
/* clique.c: collects the ranks of a communicator that are in this process, makes their
 * communicators of CNCL in one call, and ends them together; see ccl.h. The table of cliques
 * belongs to the process and not to an instance, since CNCL counts processes. */
#include "ccl.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The longest waits: for the ranks of this process, which have met already; and for the end of
 * communicators, which waits for other processes. */
enum {
    JOIN_S = 60,
    END_S = 2
};

enum {
    CLIQUE_LATE = -1,
    CLIQUE_NO_MEMORY = -2
};

struct clique_rank {
    int rank, device;
    void *raw;
    bool aborted;
};

struct mlu_clique {
    struct mlu_clique *next;
    struct mlu_id id;
    uint32_t here, n; /* ranks of this process, and how many of them have called */
    uint32_t left;    /* ranks that have left */
    uint32_t refs;    /* ranks, and threads that end communicators */
    bool joined;      /* the call of CNCL has ended, or a rank of this process has not come */
    int code;         /* of that call; CLIQUE_LATE: none */
    const struct mlu_calls *runtime;
    uint32_t ending; /* threads that end communicators */
    struct clique_rank rank[];
};

static struct mlu_clique *cliques;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void clique_init(void)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &attr);
    pthread_condattr_destroy(&attr);
}

static struct timespec clique_deadline(int seconds)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += seconds;
    return t;
}

/* Under the lock, as all functions below but those of threads. */
static void clique_release(struct mlu_clique *c)
{
    struct mlu_clique **at = &cliques;

    if (--c->refs) return;
    while (*at && *at != c) at = &(*at)->next;
    if (*at) *at = c->next;
    free(c);
}

/* The clique of an id whose ranks are not complete yet; a new one if there is none. */
static struct mlu_clique *clique_find(const struct mlu_id *id, uint32_t here)
{
    struct mlu_clique *c = cliques;

    while (c && memcmp(&c->id, id, sizeof *id)) c = c->next;
    if (c || !(c = calloc(1, sizeof *c + here * sizeof *c->rank))) return c;
    c->id = *id;
    c->here = here;
    c->next = cliques;
    cliques = c;
    return c;
}

/* Makes the communicators: the last rank of the process does it for all. */
static void clique_init_comms(struct mlu_clique *c, uint32_t n_rank)
{
    int *number = calloc(2 * (size_t)c->here, sizeof *number);
    void **comm = calloc(c->here, sizeof *comm);
    int code = CLIQUE_NO_MEMORY;

    if (number && comm) {
        for (uint32_t i = 0; i < c->here; i++) {
            number[i] = c->rank[i].device;
            number[c->here + i] = c->rank[i].rank;
        }
        pthread_mutex_unlock(&lock);
        code = mlu_cncl->cnclInitComms(comm, (int)c->here, number, number + c->here, (int)n_rank,
                                       &c->id.clique);
        pthread_mutex_lock(&lock);
        for (uint32_t i = 0; i < c->here && !code; i++) c->rank[i].raw = comm[i];
    }
    free(number);
    free(comm);
    c->code = code;
    c->joined = true;
    pthread_cond_broadcast(&changed);
}

/* Waits until the communicators are made. The wait for the ranks of this process has a limit; the
 * one for those of other processes is CNCL's. */
static void clique_await(struct mlu_clique *c)
{
    const struct timespec until = clique_deadline(JOIN_S);

    while (!c->joined && c->n < c->here)
        if (pthread_cond_timedwait(&changed, &lock, &until) && c->n < c->here && !c->joined) {
            c->joined = true;
            c->code = CLIQUE_LATE;
            pthread_cond_broadcast(&changed);
        }
    while (!c->joined) pthread_cond_wait(&changed, &lock);
}

static enum bp_status clique_report(const struct mlu_device *device, int code)
{
    if (code == CLIQUE_NO_MEMORY)
        return bp_fail(device->self->host, BP_ERR_MEMORY, "mlu:%u: no memory for communicators",
                       device->number);
    if (code == CLIQUE_LATE)
        return bp_fail(device->self->host, BP_ERR_TIMEOUT,
                       "mlu:%u: the other ranks of this process have not joined after %d s",
                       device->number, JOIN_S);
    return mlu_ccl_check(device->self, device, "cnclInitComms", code);
}

enum bp_status mlu_clique_join(struct mlu_device *device, const struct mlu_id *id, uint32_t rank,
                               uint32_t n_rank, uint32_t here, struct mlu_comm *out)
{
    struct mlu_clique *c;
    uint32_t at;
    int code;

    pthread_once(&once, clique_init);
    pthread_mutex_lock(&lock);
    c = clique_find(id, here);
    if (!c || c->n >= here || c->joined) {
        pthread_mutex_unlock(&lock);
        return bp_fail(device->self->host, c ? BP_ERR_INVALID : BP_ERR_MEMORY,
                       "mlu:%u: rank %u cannot join: %s", device->number, rank,
                       c ? "the id was used before" : "no memory");
    }
    at = c->n++;
    c->refs++;
    c->runtime = device->self->call;
    c->rank[at] = (struct clique_rank){(int)rank, (int)device->number, NULL, false};
    if (c->n == here) clique_init_comms(c, n_rank);
    clique_await(c);
    code = c->code;
    if (code == CNCL_SUCCESS) *out = (struct mlu_comm){c->rank[at].raw, device, c, rank, at};
    else clique_release(c);
    pthread_mutex_unlock(&lock);
    return clique_report(device, code);
}

/* A thread that ends communicators: one, by an abort, or all. */
struct clique_end {
    struct mlu_clique *clique;
    uint32_t first, n;
    bool aborts;
};

static void *clique_end_thread(void *p)
{
    struct clique_end *end = p;
    struct mlu_clique *c = end->clique;
    void **comm = calloc(end->n, sizeof *comm);

    for (uint32_t i = 0; i < end->n && comm; i++) comm[i] = c->rank[end->first + i].raw;
    c->runtime->cnrtSetDevice(c->rank[end->first].device);
    if (comm && end->aborts) mlu_cncl->cnclAbortComm(comm[0]);
    else if (comm) mlu_cncl->cnclDestroyComms(comm, (int)end->n);
    free(comm);
    free(end);
    pthread_mutex_lock(&lock);
    c->ending--;
    clique_release(c);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* Begins a thread that ends communicators. Without one they stay until the process ends. */
static void clique_end_begin(struct mlu_clique *c, uint32_t first, uint32_t n, bool aborts)
{
    struct clique_end *end = malloc(sizeof *end);
    pthread_t thread;

    if (!end) return;
    *end = (struct clique_end){c, first, n, aborts};
    c->refs++;
    c->ending++;
    if (pthread_create(&thread, NULL, clique_end_thread, end)) {
        c->refs--;
        c->ending--;
        free(end);
        return;
    }
    pthread_detach(thread);
}

/* Waits for the threads, but not for ever: other processes may end their communicators later. The
 * caller has a reference. */
static void clique_end_wait(struct mlu_clique *c)
{
    const struct timespec until = clique_deadline(END_S);
    bool late = false;

    while (c->ending && !late) late = pthread_cond_timedwait(&changed, &lock, &until) != 0;
}

static void clique_abort(struct mlu_clique *c, uint32_t i)
{
    if (c->rank[i].aborted) return;
    c->rank[i].aborted = true;
    clique_end_begin(c, i, 1, true);
}

/* If one communicator was aborted, others could wait for it. */
static void clique_end(struct mlu_clique *c)
{
    bool aborted = false;

    for (uint32_t i = 0; i < c->here; i++) aborted |= c->rank[i].aborted;
    if (!aborted) clique_end_begin(c, 0, c->here, false);
    for (uint32_t i = 0; i < c->here && aborted; i++) clique_abort(c, i);
    clique_end_wait(c);
}

void mlu_clique_leave(struct mlu_comm *comm)
{
    struct mlu_clique *c = comm->clique;

    pthread_mutex_lock(&lock);
    if (++c->left == c->here) clique_end(c);
    clique_release(c);
    pthread_mutex_unlock(&lock);
}

void mlu_clique_abort(struct mlu_comm *comm)
{
    pthread_mutex_lock(&lock);
    clique_abort(comm->clique, comm->at);
    pthread_mutex_unlock(&lock);
}

bool mlu_clique_is_aborted(const struct mlu_comm *comm)
{
    bool aborted;

    pthread_mutex_lock(&lock);
    aborted = comm->clique->rank[comm->at].aborted;
    pthread_mutex_unlock(&lock);
    return aborted;
}

int mlu_clique_error(const struct mlu_comm *comm)
{
    int code = CNCL_SUCCESS;

    pthread_mutex_lock(&lock);
    if (!comm->clique->rank[comm->at].aborted) code = mlu_cncl->cnclGetCommAsyncError(comm->raw);
    pthread_mutex_unlock(&lock);
    return code;
}
