/* SPDX-License-Identifier: Apache-2.0 */
/* shm_segment.c: creates, opens and maps the file of the shared-memory segment. The file has no
 * name, so the system frees it when the last process ends, even if that process is killed. */
#include "shm_segment.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { HEADER = 4096, DYING_MS = 500 /* a killed process ends sooner */ };
static const uint64_t segment_magic = 0x3164726f62706200;

_Static_assert(sizeof(struct bp_shm_header) <= HEADER, "the header fits");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct bp_shm_segment *mapped;

/* The offsets at which the parts of the segment begin. */
struct layout {
    size_t ranks, channels, counts, cells, windows, eager, end;
};

static struct layout layout_of(size_t n)
{
    struct layout l = {.ranks = HEADER};

    l.channels = l.ranks + n * sizeof(struct bp_shm_rank_state);
    l.counts = l.channels + n * n * sizeof(struct bp_shm_channel);
    l.cells = (l.counts + n * 2 * n * sizeof(uint64_t) + 4095) & ~(size_t)4095;
    l.windows = l.cells + n * n * BP_SHM_CELLS * BP_SHM_CELL_BYTES;
    l.eager = l.windows + n * 2 * BP_SHM_WINDOW_BYTES;
    l.end = l.eager + n * BP_SHM_CALL_SLOTS * BP_SHM_EAGER_BYTES;
    return l;
}

char *bp_shm_window(const struct bp_shm_segment *s, uint32_t rank, uint64_t piece)
{
    return s->base + layout_of(s->n).windows +
           (rank * (size_t)2 + (piece & 1)) * BP_SHM_WINDOW_BYTES;
}

char *bp_shm_eager_buffer(const struct bp_shm_segment *s, uint32_t rank, uint64_t sequence)
{
    return s->base + layout_of(s->n).eager +
           (rank * (size_t)BP_SHM_CALL_SLOTS + sequence % BP_SHM_CALL_SLOTS) * BP_SHM_EAGER_BYTES;
}

uint64_t *bp_shm_counts(const struct bp_shm_segment *s, uint32_t rank, uint64_t sequence)
{
    return (uint64_t *)(void *)(s->base + layout_of(s->n).counts) +
           (rank * (size_t)2 + (sequence & 1)) * s->n;
}

struct bp_shm_channel *bp_shm_channel(const struct bp_shm_segment *s, uint32_t from, uint32_t to)
{
    return (struct bp_shm_channel *)(void *)(s->base + layout_of(s->n).channels) +
           ((size_t)from * s->n + to);
}

char *bp_shm_cell(const struct bp_shm_segment *s, uint32_t from, uint32_t to, uint64_t number)
{
    return s->base + layout_of(s->n).cells +
           (((size_t)from * s->n + to) * BP_SHM_CELLS + number % BP_SHM_CELLS) * BP_SHM_CELL_BYTES;
}

static bool write_at(int fd, size_t at, const void *bytes, size_t size)
{
    return pwrite(fd, bytes, size, (off_t)at) == (ssize_t)size;
}

enum bp_status bp_shm_segment_create(uint32_t n, const int32_t *pids, int *out_fd,
                                     struct bp_process_file *out_file)
{
    struct bp_shm_header header = {.magic = segment_magic, .n = n};
    size_t rank = layout_of(n).ranks + offsetof(struct bp_shm_rank_state, pid);
    struct stat s;
    int fd = memfd_create("backplane-ccl", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    bool made = fd >= 0 && !ftruncate(fd, (off_t)layout_of(n).end) &&
                !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) &&
                write_at(fd, 0, &header, sizeof header) && !fstat(fd, &s);

    for (uint32_t i = 0; i < n && made; i++, rank += sizeof(struct bp_shm_rank_state))
        made = write_at(fd, rank, &pids[i], sizeof *pids);
    if (!made) {
        if (fd >= 0) close(fd);
        return bp_error(BP_ERR_MEMORY, "bp_comm_create: no shared memory for %u ranks: %s", n,
                        strerror(errno));
    }
    *out_file = (struct bp_process_file){s.st_dev, s.st_ino, getpid(), fd};
    *out_fd = fd;
    return BP_OK;
}

int bp_process_file_open(int pid, int fd, uint64_t device, uint64_t inode)
{
    char path[64];
    struct stat s;
    int own;

    snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
    own = open(path, O_RDWR | O_CLOEXEC);
    if (own < 0) return -errno;
    if (!fstat(own, &s) && s.st_dev == device && s.st_ino == inode) return own;
    close(own);
    return -ESTALE;
}

/* Linux denies access to the files of a process that is being killed, except to root. EACCES
 * therefore means a dead peer if the process dies soon. */
enum bp_status bp_shm_segment_open(const struct bp_process_file *file, uint32_t of, int *out_fd)
{
    int fd = bp_process_file_open(file->pid, file->fd, file->device, file->inode);

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

/* Called with the lock held. */
static struct bp_shm_segment *find_mapped(const struct stat *s)
{
    struct bp_shm_segment *m;

    for (m = mapped; m && (m->device != s->st_dev || m->inode != s->st_ino);) m = m->next;
    return m;
}

static struct bp_shm_segment *map_new(int fd, const struct stat *s, uint32_t n)
{
    struct bp_shm_segment *m;

    if ((size_t)s->st_size != layout_of(n).end) return NULL;
    m = calloc(1, sizeof *m);
    if (!m) return NULL;
    m->base = mmap(NULL, layout_of(n).end, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (m->base == MAP_FAILED) {
        free(m);
        return NULL;
    }
    m->next = mapped;
    m->device = s->st_dev;
    m->inode = s->st_ino;
    m->n = n;
    m->size = (size_t)s->st_size;
    m->header = (struct bp_shm_header *)(void *)m->base;
    m->ranks = (struct bp_shm_rank_state *)(void *)(m->base + layout_of(n).ranks);
    mapped = m;
    return m;
}

struct bp_shm_segment *bp_shm_segment_map(int fd, uint32_t n)
{
    struct bp_shm_segment *m;
    struct stat s;

    if (fstat(fd, &s)) return NULL;
    pthread_mutex_lock(&lock);
    m = find_mapped(&s);
    if (!m) m = map_new(fd, &s, n);
    if (m && m->n != n) m = NULL;
    if (m) m->refs++;
    pthread_mutex_unlock(&lock);
    return m;
}

void bp_shm_segment_unmap(struct bp_shm_segment *m)
{
    bool last;

    pthread_mutex_lock(&lock);
    last = !--m->refs;
    if (last) {
        struct bp_shm_segment **at = &mapped;
        while (*at != m) at = &(*at)->next;
        *at = m->next;
    }
    pthread_mutex_unlock(&lock);
    if (!last) return;
    munmap(m->base, m->size);
    free(m);
}

/* Each rank keeps its wait condition to itself and publishes only `waits_for`. A rank that sets a
 * word therefore wakes all sleeping ranks that wait for this rank or for any rank. */
void bp_shm_segment_wake(const struct bp_shm_segment *s, uint32_t rank)
{
    bool failed = atomic_load_explicit(&s->header->failed, memory_order_relaxed) != 0;

    for (uint32_t i = 0; i < s->n; i++) {
        struct bp_shm_rank_state *r = &s->ranks[i];
        uint32_t of = atomic_load(&r->waits_for);
        if (!atomic_load(&r->asleep) || (of && of != rank + 1 && !failed)) continue;
        atomic_fetch_add(&r->futex, 1);
        syscall(SYS_futex, &r->futex, FUTEX_WAKE, 1, NULL, NULL, 0);
    }
}
