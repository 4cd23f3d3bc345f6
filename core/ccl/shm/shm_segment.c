/* SPDX-License-Identifier: Apache-2.0 */
/* shm_segment.c: the board's file: made, found, mapped, joined, left. It has no name, so that
 * nothing is left of it when its last process ends, however that ends. */
#include "shm_segment.h"

#include "../collective.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { HEADER = 4096, DYING_MS = 500 /* a process that is killed ends sooner */ };
static const uint64_t board_magic = 0x3164726f62706200;

_Static_assert(sizeof(struct bp_board_header) <= HEADER, "the header fits");

/* A board is mapped once in a process, also if several ranks are its threads. */
struct bp_shared {
    struct bp_shared *next;
    uint64_t device, inode;
    uint32_t refs;
    char *base;
    size_t size;
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct bp_shared *mapped;

/* Where the parts begin. */
struct layout {
    size_t ranks, pairs, counts, units, windows, little, end;
};

static struct layout layout_of(size_t n)
{
    struct layout l = {.ranks = HEADER};

    l.pairs = l.ranks + n * sizeof(struct bp_board_rank);
    l.counts = l.pairs + n * n * sizeof(struct bp_board_pair);
    l.units = (l.counts + n * 2 * n * sizeof(uint64_t) + 4095) & ~(size_t)4095;
    l.windows = l.units + n * n * BP_BOARD_UNITS * BP_BOARD_UNIT;
    l.little = l.windows + n * 2 * BP_BOARD_WINDOW;
    l.end = l.little + n * BP_BOARD_ENTRIES * BP_BOARD_LITTLE;
    return l;
}

char *bp_board_window(const struct bp_board *b, uint32_t rank, uint64_t piece)
{
    return b->shared->base + layout_of(b->n).windows +
           (rank * (size_t)2 + (piece & 1)) * BP_BOARD_WINDOW;
}

char *bp_board_little(const struct bp_board *b, uint32_t rank, uint64_t sequence)
{
    return b->shared->base + layout_of(b->n).little +
           (rank * (size_t)BP_BOARD_ENTRIES + sequence % BP_BOARD_ENTRIES) * BP_BOARD_LITTLE;
}

uint64_t *bp_board_counts(const struct bp_board *b, uint32_t rank, uint64_t sequence)
{
    return (uint64_t *)(void *)(b->shared->base + layout_of(b->n).counts) +
           (rank * (size_t)2 + (sequence & 1)) * b->n;
}

struct bp_board_pair *bp_board_pair(const struct bp_board *b, uint32_t from, uint32_t to)
{
    return (struct bp_board_pair *)(void *)(b->shared->base + layout_of(b->n).pairs) +
           ((size_t)from * b->n + to);
}

char *bp_board_unit(const struct bp_board *b, uint32_t from, uint32_t to, uint64_t number)
{
    return b->shared->base + layout_of(b->n).units +
           (((size_t)from * b->n + to) * BP_BOARD_UNITS + number % BP_BOARD_UNITS) * BP_BOARD_UNIT;
}

static bool write_at(int fd, size_t at, const void *bytes, size_t size)
{
    return pwrite(fd, bytes, size, (off_t)at) == (ssize_t)size;
}

enum bp_status bp_board_make(uint32_t n, const int32_t *pids, int *out_fd,
                             struct bp_board_file *out_file)
{
    struct bp_board_header header = {.magic = board_magic, .n = n};
    size_t rank = layout_of(n).ranks + offsetof(struct bp_board_rank, pid);
    struct stat s;
    int fd = memfd_create("backplane-ccl", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    bool made = fd >= 0 && !ftruncate(fd, (off_t)layout_of(n).end) &&
                !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) &&
                write_at(fd, 0, &header, sizeof header) && !fstat(fd, &s);

    for (uint32_t i = 0; i < n && made; i++, rank += sizeof(struct bp_board_rank))
        made = write_at(fd, rank, &pids[i], sizeof *pids);
    if (!made) {
        if (fd >= 0) close(fd);
        return bp_error(BP_ERR_MEMORY, "bp_comm_create: no shared memory for %u ranks: %s", n,
                        strerror(errno));
    }
    *out_file = (struct bp_board_file){s.st_dev, s.st_ino, getpid(), fd};
    *out_fd = fd;
    return BP_OK;
}

/* The files of a process that is being killed are refused to all but root. */
enum bp_status bp_board_open(const struct bp_board_file *file, uint32_t of, int *out_fd)
{
    int fd = bp_open_file_of(file->pid, file->fd, file->device, file->inode);

    if (fd == -ENOENT || fd == -ESRCH || fd == -ESTALE ||
        (fd == -EACCES && bp_process_has_died(file->pid, DYING_MS)))
        return bp_error(BP_ERR_PEER,
                        "bp_comm_create: rank %u (process %d) has died, or has given up", of,
                        file->pid);
    if (fd < 0)
        return bp_error(BP_ERR_UNSUPPORTED,
                        "bp_comm_create: the shared memory of rank %u (process %d) cannot be "
                        "opened: %s; ranks on one machine run as one user, in one container",
                        of, file->pid, strerror(-fd));
    *out_fd = fd;
    return BP_OK;
}

/* Under the lock. */
static struct bp_shared *find_shared(const struct stat *s)
{
    struct bp_shared *m;

    for (m = mapped; m && (m->device != s->st_dev || m->inode != s->st_ino);) m = m->next;
    return m;
}

static struct bp_shared *map_shared(int fd, const struct stat *s)
{
    struct bp_shared *m = calloc(1, sizeof *m);

    if (!m) return NULL;
    *m = (struct bp_shared){mapped, s->st_dev, s->st_ino, 0, NULL, (size_t)s->st_size};
    m->base = mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (m->base == MAP_FAILED) {
        free(m);
        return NULL;
    }
    mapped = m;
    return m;
}

static struct bp_shared *take_shared(int fd)
{
    struct bp_shared *m;
    struct stat s;

    if (fstat(fd, &s)) return NULL;
    pthread_mutex_lock(&lock);
    m = find_shared(&s);
    if (!m) m = map_shared(fd, &s);
    if (m) m->refs++;
    pthread_mutex_unlock(&lock);
    return m;
}

static void drop_shared(struct bp_shared *m)
{
    bool last;

    pthread_mutex_lock(&lock);
    last = !--m->refs;
    if (last) {
        struct bp_shared **at = &mapped;
        while (*at != m) at = &(*at)->next;
        *at = m->next;
    }
    pthread_mutex_unlock(&lock);
    if (!last) return;
    munmap(m->base, m->size);
    free(m);
}

/* What the ways are that this rank has to all others, and those that BP_CCL_WAYS leaves. */
static uint32_t find_ways(const struct bp_board *b)
{
    uint32_t ways = bp_ways_allowed();

    for (uint32_t i = 0; i < b->n; i++) {
        const struct bp_board_rank *r = &b->at[i];
        const struct bp_board_file file = {b->shared->device, b->shared->inode, b->pid[i], r->fd};
        if (b->pid[i] == b->pid[b->rank]) continue;
        ways &= ~bp_ways_missing(&file, r->mark_at, r->mark);
    }
    return ways;
}

static int open_pidfd(const struct bp_board *b, uint32_t rank)
{
    int fd;

    if (b->pid[rank] == b->pid[b->rank]) return BP_BOARD_OWN;
    fd = (int)syscall(SYS_pidfd_open, b->pid[rank], 0);
    return fd < 0 && errno == ESRCH ? BP_BOARD_GONE : fd;
}

/* All others have come; then all know how they reach each other. */
static enum bp_status meet(struct bp_board *b)
{
    uint32_t ways = UINT32_MAX;
    bool light = true;

    for (uint32_t i = 0; i < b->n; i++) b->pidfd[i] = open_pidfd(b, i);
    bp_board_set(b, &b->me->ready, 1);
    for (uint32_t i = 0; i < b->n; i++) {
        TRY(bp_board_wait(b, &b->at[i].ready, 1, i));
        b->one_process = b->one_process && b->pid[i] == b->pid[b->rank];
    }
    b->me->ways = find_ways(b);
    b->me->light = bp_board_prepare_sleep();
    bp_board_set(b, &b->me->ready, 2);
    for (uint32_t i = 0; i < b->n; i++) {
        TRY(bp_board_wait(b, &b->at[i].ready, 2, i));
        ways &= b->at[i].ways;
        light = light && b->at[i].light;
    }
    b->ways = ways | BP_WAY_STAGED;
    b->one_process = b->one_process && ways & BP_WAY_MAP;
    b->light = light;
    return BP_OK;
}

/* Spinning helps where each rank has a processor; where not, it takes that of who is waited for. */
static void set_patience(struct bp_board *b)
{
    cpu_set_t set;
    uint32_t processors = sched_getaffinity(0, sizeof set, &set) ? 1 : (uint32_t)CPU_COUNT(&set);

    b->spin_ns = b->n > processors ? 0 : 1000000;
}

static enum bp_status take_place(struct bp_board *b, int fd)
{
    b->me->fd = fd;
    b->me->mark_at = (uintptr_t)&b->me->mark;
    if (getrandom(&b->me->mark, sizeof b->me->mark, 0) != sizeof b->me->mark)
        return bp_error(BP_ERR_INTERNAL, "bp_comm_create: no random numbers");
    set_patience(b);
    bp_algorithms_fill(b);
    return meet(b);
}

static struct bp_board *make_board(uint32_t rank, uint32_t n)
{
    struct bp_board *b = calloc(1, sizeof *b);

    if (!b) return NULL;
    b->rank = rank;
    b->n = n;
    b->one_process = true;
    b->pid = malloc(n * sizeof *b->pid);
    b->pidfd = malloc(n * sizeof *b->pidfd);
    b->sent = calloc(3 * (size_t)n, sizeof *b->sent);
    if (!b->pid || !b->pidfd || !b->sent) {
        free(b->pid);
        free(b->pidfd);
        free(b->sent);
        free(b);
        return NULL;
    }
    b->taken = b->sent + n;
    b->gone = b->taken + n;
    for (uint32_t i = 0; i < n; i++) b->pidfd[i] = -1;
    return b;
}

enum bp_status bp_board_join(int fd, uint32_t rank, uint32_t n, const uint32_t *numbers,
                             uint64_t timeout_ns, struct bp_board **out_board)
{
    struct bp_board *b = make_board(rank, n);
    enum bp_status status;

    if (b) b->shared = take_shared(fd);
    if (!b || !b->shared || b->shared->size != layout_of(n).end) {
        close(fd);
        if (b && b->shared) drop_shared(b->shared);
        if (b) free(b->sent);
        if (b) free(b->pidfd);
        if (b) free(b->pid);
        free(b);
        return bp_error(BP_ERR_MEMORY, "bp_comm_create: the shared memory cannot be mapped");
    }
    b->numbers = numbers;
    b->header = (struct bp_board_header *)(void *)b->shared->base;
    b->at = (struct bp_board_rank *)(void *)(b->shared->base + layout_of(n).ranks);
    b->me = &b->at[rank];
    for (uint32_t i = 0; i < n; i++) b->pid[i] = b->at[i].pid;
    b->timeout_ns = timeout_ns;
    status = take_place(b, fd);
    b->deadline = 0;
    if (status) bp_board_leave(b);
    else *out_board = b;
    return status;
}

void bp_board_leave(struct bp_board *b)
{
    if (!b) return;
    bp_reach_forget(b);
    atomic_store(&b->me->left, 1);
    close(b->me->fd);
    for (uint32_t i = 0; i < b->n; i++)
        if (b->pidfd[i] >= 0) close(b->pidfd[i]);
    drop_shared(b->shared);
    free(b->scratch);
    free(b->sent);
    free(b->pidfd);
    free(b->pid);
    free(b);
}
