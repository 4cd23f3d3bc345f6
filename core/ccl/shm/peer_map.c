/* SPDX-License-Identifier: Apache-2.0 */
/* peer_map.c: buffers of other ranks: mapped where their memory is a file, else copied by the
 * kernel.
 * */
#include "shm_rank.h"

#include "../../memory/memory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum { MAPPINGS = 64 }; /* kept; more than a rank's chunks are a sign that old ones are gone */

struct bp_mapping {
    struct bp_mapping *next;
    uint64_t device, inode;
    char *base;
    size_t size;
};

uint32_t bp_ways_allowed(void)
{
    static const struct {
        const char *name;
        uint32_t way;
    } ways[] = {{"map", BP_WAY_MAP}, {"vm", BP_WAY_VM}, {"staged", BP_WAY_STAGED}};
    const char *wanted = bp_env("BP_CCL_WAYS");
    uint32_t found = 0;

    if (!wanted || !*wanted) return BP_WAY_MAP | BP_WAY_VM | BP_WAY_STAGED;
    while (*wanted) {
        size_t n = strcspn(wanted, ",");
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
            if (strlen(ways[i].name) == n && !strncmp(ways[i].name, wanted, n))
                found |= ways[i].way;
        wanted += n + (wanted[n] == ',');
    }
    return found | BP_WAY_STAGED;
}

static bool copy_vm(int pid, bool read, void *here, uint64_t there, uint64_t size)
{
    char *at = here;

    while (size) {
        struct iovec own = {at, size}, other = {(void *)(uintptr_t)there, size};
        ssize_t n = read ? process_vm_readv(pid, &own, 1, &other, 1, 0)
                         : process_vm_writev(pid, &own, 1, &other, 1, 0);
        if (n <= 0) return false;
        at += n;
        there += (uint64_t)n;
        size -= (uint64_t)n;
    }
    return true;
}

uint32_t bp_ways_missing(const struct bp_board_file *file, uint64_t address, uint64_t number)
{
    uint32_t missing = 0;
    uint64_t got = 0;
    int fd = bp_open_file_of(file->pid, file->fd, file->device, file->inode);

    if (fd < 0) missing |= BP_WAY_MAP;
    else close(fd);
    if (!copy_vm(file->pid, true, &got, address, sizeof got) || got != number)
        missing |= BP_WAY_VM;
    return missing;
}

/* Which file a descriptor of device memory is. As long as none was given back it is still that one.
 */
static const struct bp_board_file *find_file(struct bp_shm_rank *b, int32_t fd)
{
    uint32_t released = atomic_load_explicit(&b->me->released, memory_order_relaxed);
    struct bp_board_file *f;
    struct stat s;

    if (released != b->peers.files_as_of) b->peers.n_file = 0;
    b->peers.files_as_of = released;
    for (uint32_t i = 0; i < b->peers.n_file && i < BP_BOARD_FILES; i++)
        if (b->peers.files[i].fd == fd) return &b->peers.files[i];
    if (fstat(fd, &s)) return NULL;
    f = &b->peers.files[b->peers.n_file++ % BP_BOARD_FILES];
    *f = (struct bp_board_file){.device = s.st_dev, .inode = s.st_ino, .fd = fd};
    return f;
}

void bp_where_fill(struct bp_shm_rank *b, const void *address, struct bp_storage *storage,
                   struct bp_where *out)
{
    const struct bp_board_file *file;
    uint64_t offset;
    int32_t fd;

    *out = (struct bp_where){.address = (uintptr_t)address, .fd = -1};
    if (!storage || !address || bp_storage_export(storage, &fd, &offset)) return;
    file = find_file(b, fd);
    if (!file) return;
    out->device = file->device;
    out->inode = file->inode;
    out->offset = offset + ((uintptr_t)address - (uintptr_t)storage->memory.data);
    out->fd = fd;
}

bool bp_where_maps(const struct bp_shm_rank *b, const struct bp_where *where)
{
    return b->peers.one_process || where->fd >= 0 || !where->address;
}

static void peer_map_unmap(struct bp_mapping *m)
{
    munmap(m->base, m->size);
    free(m);
}

void bp_reach_forget(struct bp_shm_rank *b)
{
    for (struct bp_mapping *m = b->peers.mappings, *next; m; m = next) {
        next = m->next;
        peer_map_unmap(m);
    }
    b->peers.mappings = NULL;
}

void bp_reach_renew(struct bp_shm_rank *b)
{
    uint32_t released = 0;

    if (!b->peers.mappings) return;
    for (uint32_t i = 0; i < b->n; i++)
        released += atomic_load_explicit(&b->at[i].released, memory_order_relaxed);
    if (released != b->peers.released) bp_reach_forget(b);
    b->peers.released = released;
}

/* The oldest go. */
static void peer_map_trim(struct bp_shm_rank *b)
{
    struct bp_mapping **at = &b->peers.mappings, *rest;
    size_t n = 0;

    while (*at && n++ < MAPPINGS) at = &(*at)->next;
    rest = *at;
    *at = NULL;
    while (rest) {
        struct bp_mapping *next = rest->next;
        peer_map_unmap(rest);
        rest = next;
    }
}

static struct bp_mapping *map_file(const struct bp_shm_rank *b, uint32_t rank,
                                   const struct bp_where *where)
{
    struct bp_mapping *m = calloc(1, sizeof *m);
    int fd = bp_open_file_of(b->peers.pid[rank], where->fd, where->device, where->inode);
    struct stat s;

    if (m && fd >= 0 && !fstat(fd, &s)) {
        *m = (struct bp_mapping){NULL, where->device, where->inode, NULL, (size_t)s.st_size};
        m->base = mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (m->base != MAP_FAILED) {
            close(fd);
            madvise(m->base, m->size, MADV_HUGEPAGE);
            return m;
        }
    }
    if (fd >= 0) close(fd);
    free(m);
    return NULL;
}

/* The mapping that is used moves to the front. */
static struct bp_mapping *find_mapping(struct bp_shm_rank *b, uint32_t rank,
                                       const struct bp_where *where)
{
    struct bp_mapping **at = &b->peers.mappings, *m;

    while (*at && ((*at)->inode != where->inode || (*at)->device != where->device))
        at = &(*at)->next;
    m = *at;
    if (m) *at = m->next;
    else m = map_file(b, rank, where);
    if (!m) return NULL;
    peer_map_trim(b);
    m->next = b->peers.mappings;
    b->peers.mappings = m;
    return m;
}

enum bp_status bp_reach_open(struct bp_shm_rank *b, uint32_t rank, const struct bp_where *where,
                             uint64_t bytes, uint32_t way, struct bp_reach *out)
{
    struct bp_reach reach = {NULL, where->address, b->peers.pid[rank]};
    const struct bp_mapping *m;

    if (reach.pid == b->peers.pid[b->rank]) {
        reach.here = (char *)(uintptr_t)where->address;
    } else if (way == BP_WAY_MAP && bytes) {
        m = find_mapping(b, rank, where);
        if (!m && bp_board_is_dead(b, rank, 200)) return bp_board_died(b, rank);
        if (m && (where->offset > m->size || bytes > m->size - where->offset))
            return bp_comm_fail(&b->failure, BP_ERR_INTERNAL,
                                "rank %u says that its buffer of %" PRIu64 " bytes lies %" PRIu64
                                " bytes into a file of %zu: something wrote over the memory that "
                                "ranks share",
                                bp_board_number(b, rank), bytes, where->offset, m->size);
        if (!m)
            return bp_comm_fail(&b->failure, BP_ERR_MEMORY,
                                "rank %u cannot map memory of rank %u (process %d)", b->rank, rank,
                                reach.pid);
        reach.here = m->base + where->offset;
    }
    *out = reach;
    return BP_OK;
}

/* Whole lines by stores that go past the caches. */
void bp_copy_past_caches(void *to, const void *from, uint64_t size)
{
#if defined(__SSE2__)
    uint64_t head = (uint64_t)(-(uintptr_t)to & 63);
    const char *s = from;
    char *d = to;

    if (head > size) head = size;
    memcpy(d, s, head);
    d += head;
    s += head;
    size -= head;
    for (; size >= 64; size -= 64, d += 64, s += 64) {
        __m128i a = _mm_loadu_si128((const __m128i *)(const void *)s);
        __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(s + 16));
        __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(s + 32));
        __m128i e = _mm_loadu_si128((const __m128i *)(const void *)(s + 48));
        _mm_stream_si128((__m128i *)(void *)d, a);
        _mm_stream_si128((__m128i *)(void *)(d + 16), b);
        _mm_stream_si128((__m128i *)(void *)(d + 32), c);
        _mm_stream_si128((__m128i *)(void *)(d + 48), e);
    }
    memcpy(d, s, size);
#else
    memcpy(to, from, size);
#endif
}

void bp_copies_end(void)
{
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

void bp_copy_bytes(void *to, const void *from, uint64_t size, bool far)
{
    if (far && size >= 256) {
        bp_copy_past_caches(to, from, size);
        bp_copies_end();
    } else if (size) {
        memcpy(to, from, size);
    }
}

static enum bp_status lost_reach(struct bp_shm_rank *b, int pid)
{
    const char *why = strerror(errno);

    for (uint32_t i = 0; i < b->n; i++)
        if (b->peers.pid[i] == pid && bp_board_is_dead(b, i, 200)) return bp_board_died(b, i);
    return bp_comm_fail(&b->failure, BP_ERR_PEER, "rank %u cannot reach memory of process %d: %s",
                        b->rank, pid, why);
}

enum bp_status bp_reach_read(struct bp_shm_rank *b, const struct bp_reach *from, uint64_t offset,
                             void *to, uint64_t size, bool far)
{
    if (from->here) {
        if (from->here + offset != to) bp_copy_bytes(to, from->here + offset, size, far);
        return BP_OK;
    }
    if (copy_vm(from->pid, true, to, from->address + offset, size)) return BP_OK;
    return lost_reach(b, from->pid);
}

enum bp_status bp_reach_write(struct bp_shm_rank *b, const struct bp_reach *to, uint64_t offset,
                              const void *from, uint64_t size, bool far)
{
    if (to->here) {
        if (to->here + offset != from) bp_copy_bytes(to->here + offset, from, size, far);
        return BP_OK;
    }
    if (copy_vm(to->pid, false, (void *)(uintptr_t)from, to->address + offset, size)) return BP_OK;
    return lost_reach(b, to->pid);
}

const void *bp_reach_fetch(struct bp_shm_rank *b, const struct bp_reach *from, uint64_t offset,
                           uint64_t size, void *room)
{
    if (from->here) return from->here + offset;
    if (copy_vm(from->pid, true, room, from->address + offset, size)) return room;
    lost_reach(b, from->pid);
    return NULL;
}

char *bp_board_scratch(struct bp_shm_rank *b, uint32_t index)
{
    if (!b->peers.scratch)
        b->peers.scratch = aligned_alloc(64, (b->n + (size_t)1) * BP_BOARD_SCRATCH);
    if (!b->peers.scratch) {
        bp_comm_fail(&b->failure, BP_ERR_MEMORY, "rank %u has no memory for a collective call",
                     b->rank);
        return NULL;
    }
    return b->peers.scratch + (size_t)index * BP_BOARD_SCRATCH;
}
