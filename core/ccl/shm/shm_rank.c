/* SPDX-License-Identifier: Apache-2.0 */
/* shm_rank.c: attaches a rank to the shared-memory segment, finds out how the ranks can access each
 * other's memory, and detaches it. */
#include "../collective.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kinds of access that this rank has to all others, among those that BP_CCL_WAYS allows. */
static uint32_t find_access(const struct bp_shm_rank *b)
{
    uint32_t access_mask = bp_access_allowed();

    for (uint32_t i = 0; i < b->n; i++) {
        const struct bp_shm_rank_state *r = &b->ranks[i];
        const struct bp_process_file file = {b->segment->device, b->segment->inode, b->peers.pid[i],
                                           r->fd};
        if (b->peers.pid[i] == b->peers.pid[b->rank]) continue;
        access_mask &= ~bp_access_missing(&file, r->probe_address, r->probe);
    }
    return access_mask;
}

static int open_pidfd(const struct bp_shm_rank *b, uint32_t rank)
{
    int fd;

    if (b->peers.pid[rank] == b->peers.pid[b->rank]) return BP_PROCESS_OWN;
    fd = (int)syscall(SYS_pidfd_open, b->peers.pid[rank], 0);
    return fd < 0 && errno == ESRCH ? BP_PROCESS_GONE : fd;
}

/* Publishes that this rank has attached and waits for all others. Then tests how this rank can
 * access the others, and computes the access that all ranks have to each other. */
static enum bp_status exchange_access(struct bp_shm_rank *b)
{
    uint32_t access_mask = UINT32_MAX;
    bool asymmetric_fence = true;

    for (uint32_t i = 0; i < b->n; i++) b->peers.pidfd[i] = open_pidfd(b, i);
    bp_shm_word_publish(b, &b->me->ready, 1);
    for (uint32_t i = 0; i < b->n; i++) {
        TRY(bp_shm_word_wait(b, &b->ranks[i].ready, 1, i));
        b->peers.one_process = b->peers.one_process && b->peers.pid[i] == b->peers.pid[b->rank];
    }
    b->me->access_mask = find_access(b);
    b->me->asymmetric_fence = bp_waiter_register_fence();
    bp_shm_word_publish(b, &b->me->ready, 2);
    for (uint32_t i = 0; i < b->n; i++) {
        TRY(bp_shm_word_wait(b, &b->ranks[i].ready, 2, i));
        access_mask &= b->ranks[i].access_mask;
        asymmetric_fence = asymmetric_fence && b->ranks[i].asymmetric_fence;
    }
    b->peers.access_mask = access_mask | BP_ACCESS_STAGED;
    b->peers.one_process = b->peers.one_process && access_mask & BP_ACCESS_MAP;
    b->waiter.asymmetric_fence = asymmetric_fence;
    return BP_OK;
}

/* Spinning helps if each rank has a processor. If ranks share processors, a spinning rank would
 * take the processor from the rank that it waits for. */
static void set_spin_time(struct bp_shm_rank *b)
{
    cpu_set_t set;
    uint32_t processors = sched_getaffinity(0, sizeof set, &set) ? 1 : (uint32_t)CPU_COUNT(&set);

    b->waiter.spin_ns = b->n > processors ? 0 : 1000000;
}

static enum bp_status attach_rank(struct bp_shm_rank *b, int fd)
{
    b->me->fd = fd;
    b->me->probe_address = (uintptr_t)&b->me->probe;
    if (getrandom(&b->me->probe, sizeof b->me->probe, 0) != sizeof b->me->probe)
        return bp_error(BP_ERR_INTERNAL, "bp_comm_create: no random numbers");
    set_spin_time(b);
    bp_algorithm_fill_limits(b);
    return exchange_access(b);
}

static void free_rank(struct bp_shm_rank *b)
{
    free(b->peers.scratch);
    free(b->p2p.sent);
    free(b->peers.pidfd);
    free(b->peers.pid);
    free(b);
}

static struct bp_shm_rank *make_rank(struct bp_shm_segment *segment, uint32_t rank, uint32_t n)
{
    struct bp_shm_rank *b = calloc(1, sizeof *b);

    if (!b) return NULL;
    b->segment = segment;
    b->ranks = segment->ranks;
    b->me = &b->ranks[rank];
    b->rank = rank;
    b->n = n;
    b->failure = (struct bp_comm_failure){.header = segment->header, .segment = segment,
                                          .rank = rank};
    b->waiter.sleepers = &segment->header->sleepers;
    b->peers.one_process = true;
    b->peers.pid = malloc(n * sizeof *b->peers.pid);
    b->peers.pidfd = malloc(n * sizeof *b->peers.pidfd);
    b->p2p.sent = calloc(3 * (size_t)n, sizeof *b->p2p.sent);
    if (!b->peers.pid || !b->peers.pidfd || !b->p2p.sent) {
        free_rank(b);
        return NULL;
    }
    b->p2p.consumed = b->p2p.sent + n;
    b->p2p.acked = b->p2p.consumed + n;
    for (uint32_t i = 0; i < n; i++) {
        b->peers.pid[i] = b->ranks[i].pid;
        b->peers.pidfd[i] = -1;
    }
    return b;
}

enum bp_status bp_shm_rank_create(int fd, uint32_t rank, uint32_t n, const uint32_t *global_ranks,
                                  uint64_t timeout_ns, struct bp_shm_rank **out_rank)
{
    struct bp_shm_segment *segment = bp_shm_segment_map(fd, n);
    struct bp_shm_rank *b = segment ? make_rank(segment, rank, n) : NULL;
    enum bp_status status;

    if (!b) {
        close(fd);
        if (segment) bp_shm_segment_unmap(segment);
        return bp_error(BP_ERR_MEMORY, "bp_comm_create: the shared memory cannot be mapped");
    }
    b->global_ranks = global_ranks;
    b->failure.number = bp_shm_global_rank(b, rank);
    b->waiter.timeout_ns = timeout_ns;
    status = attach_rank(b, fd);
    b->waiter.deadline = 0;
    if (status) bp_shm_rank_destroy(b);
    else *out_rank = b;
    return status;
}

void bp_shm_rank_destroy(struct bp_shm_rank *b)
{
    if (!b) return;
    bp_peer_map_clear(b);
    atomic_store(&b->me->left, 1);
    close(b->me->fd);
    for (uint32_t i = 0; i < b->n; i++)
        if (b->peers.pidfd[i] >= 0) close(b->peers.pidfd[i]);
    bp_shm_segment_unmap(b->segment);
    free_rank(b);
}
