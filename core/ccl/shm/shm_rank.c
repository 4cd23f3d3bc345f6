/* SPDX-License-Identifier: Apache-2.0 */
/* shm_rank.c: a rank takes its place in the shared memory, finds out how all reach each other, and
 * leaves. */
#include "../collective.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What the ways are that this rank has to all others, and those that BP_CCL_WAYS leaves. */
static uint32_t find_ways(const struct bp_shm_rank *b)
{
    uint32_t ways = bp_ways_allowed();

    for (uint32_t i = 0; i < b->n; i++) {
        const struct bp_board_rank *r = &b->at[i];
        const struct bp_board_file file = {b->segment->device, b->segment->inode, b->peers.pid[i],
                                           r->fd};
        if (b->peers.pid[i] == b->peers.pid[b->rank]) continue;
        ways &= ~bp_ways_missing(&file, r->mark_at, r->mark);
    }
    return ways;
}

static int open_pidfd(const struct bp_shm_rank *b, uint32_t rank)
{
    int fd;

    if (b->peers.pid[rank] == b->peers.pid[b->rank]) return BP_BOARD_OWN;
    fd = (int)syscall(SYS_pidfd_open, b->peers.pid[rank], 0);
    return fd < 0 && errno == ESRCH ? BP_BOARD_GONE : fd;
}

/* All others have come; then all know how they reach each other. */
static enum bp_status shm_rank_meet(struct bp_shm_rank *b)
{
    uint32_t ways = UINT32_MAX;
    bool light = true;

    for (uint32_t i = 0; i < b->n; i++) b->peers.pidfd[i] = open_pidfd(b, i);
    bp_board_set(b, &b->me->ready, 1);
    for (uint32_t i = 0; i < b->n; i++) {
        TRY(bp_board_wait(b, &b->at[i].ready, 1, i));
        b->peers.one_process = b->peers.one_process && b->peers.pid[i] == b->peers.pid[b->rank];
    }
    b->me->ways = find_ways(b);
    b->me->light = bp_board_prepare_sleep();
    bp_board_set(b, &b->me->ready, 2);
    for (uint32_t i = 0; i < b->n; i++) {
        TRY(bp_board_wait(b, &b->at[i].ready, 2, i));
        ways &= b->at[i].ways;
        light = light && b->at[i].light;
    }
    b->peers.ways = ways | BP_WAY_STAGED;
    b->peers.one_process = b->peers.one_process && ways & BP_WAY_MAP;
    b->waiter.light = light;
    return BP_OK;
}

/* Spinning helps where each rank has a processor; where not, it takes that of who is waited for. */
static void set_patience(struct bp_shm_rank *b)
{
    cpu_set_t set;
    uint32_t processors = sched_getaffinity(0, sizeof set, &set) ? 1 : (uint32_t)CPU_COUNT(&set);

    b->waiter.spin_ns = b->n > processors ? 0 : 1000000;
}

static enum bp_status take_place(struct bp_shm_rank *b, int fd)
{
    b->me->fd = fd;
    b->me->mark_at = (uintptr_t)&b->me->mark;
    if (getrandom(&b->me->mark, sizeof b->me->mark, 0) != sizeof b->me->mark)
        return bp_error(BP_ERR_INTERNAL, "bp_comm_create: no random numbers");
    set_patience(b);
    bp_algorithms_fill(b);
    return shm_rank_meet(b);
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
    b->at = segment->at;
    b->me = &b->at[rank];
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
    b->p2p.taken = b->p2p.sent + n;
    b->p2p.gone = b->p2p.taken + n;
    for (uint32_t i = 0; i < n; i++) {
        b->peers.pid[i] = b->at[i].pid;
        b->peers.pidfd[i] = -1;
    }
    return b;
}

enum bp_status bp_board_join(int fd, uint32_t rank, uint32_t n, const uint32_t *numbers,
                             uint64_t timeout_ns, struct bp_shm_rank **out_board)
{
    struct bp_shm_segment *segment = bp_segment_map(fd, n);
    struct bp_shm_rank *b = segment ? make_rank(segment, rank, n) : NULL;
    enum bp_status status;

    if (!b) {
        close(fd);
        if (segment) bp_segment_unmap(segment);
        return bp_error(BP_ERR_MEMORY, "bp_comm_create: the shared memory cannot be mapped");
    }
    b->numbers = numbers;
    b->failure.number = bp_board_number(b, rank);
    b->waiter.timeout_ns = timeout_ns;
    status = take_place(b, fd);
    b->waiter.deadline = 0;
    if (status) bp_board_leave(b);
    else *out_board = b;
    return status;
}

void bp_board_leave(struct bp_shm_rank *b)
{
    if (!b) return;
    bp_reach_forget(b);
    atomic_store(&b->me->left, 1);
    close(b->me->fd);
    for (uint32_t i = 0; i < b->n; i++)
        if (b->peers.pidfd[i] >= 0) close(b->peers.pidfd[i]);
    bp_segment_unmap(b->segment);
    free_rank(b);
}
