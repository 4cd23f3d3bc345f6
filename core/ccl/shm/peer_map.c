/* SPDX-License-Identifier: Apache-2.0 */
/* peer_map.c: accesses buffers of other ranks: maps them if their memory is a file, else copies by
 * process_vm_readv and process_vm_writev. */
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

enum { MAPPINGS = 64 }; /* kept at a time; older ones are probably of freed segments */

struct bp_peer_mapping {
    struct bp_peer_mapping *next;
    uint64_t device, inode;
    char *base;
    size_t size;
};

bool bp_access_read(const char *text, uint32_t *out_mask)
{
    static const struct {
        const char *name;
        uint32_t access;
    } names[] = {{"map", BP_ACCESS_MAP}, {"vm", BP_ACCESS_VM}, {"staged", BP_ACCESS_STAGED}};
    bool known = true;

    *out_mask = BP_ACCESS_STAGED;
    while (*text) {
        size_t n = strcspn(text, ","), i = 0;
        while (i < sizeof names / sizeof *names &&
               (strlen(names[i].name) != n || strncmp(names[i].name, text, n)))
            i++;
        if (i < sizeof names / sizeof *names) *out_mask |= names[i].access;
        else known = false;
        text += n + (text[n] == ',');
    }
    return known;
}

uint32_t bp_access_allowed(void)
{
    const char *wanted = bp_env_get("BP_CCL_WAYS");
    uint32_t mask = BP_ACCESS_MAP | BP_ACCESS_VM | BP_ACCESS_STAGED;

    if (wanted && *wanted) (void)bp_access_read(wanted, &mask);
    return mask;
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

uint32_t bp_access_missing(const struct bp_process_file *file, uint64_t address, uint64_t number)
{
    uint32_t missing = 0;
    uint64_t got = 0;
    int fd = bp_process_file_open(file->pid, file->fd, file->device, file->inode);

    if (fd < 0) missing |= BP_ACCESS_MAP;
    else close(fd);
    if (!copy_vm(file->pid, true, &got, address, sizeof got) || got != number)
        missing |= BP_ACCESS_VM;
    return missing;
}

/* Finds the file behind a descriptor of device memory. The result is cached until this rank's
 * device frees a memory segment, because only then may a descriptor name another file. */
static const struct bp_process_file *find_file(struct bp_shm_rank *b, int32_t fd)
{
    uint32_t released = atomic_load_explicit(&b->me->released, memory_order_relaxed);
    struct bp_process_file *f;
    struct stat s;

    if (released != b->peers.files_as_of) b->peers.n_file = 0;
    b->peers.files_as_of = released;
    for (uint32_t i = 0; i < b->peers.n_file && i < BP_PEER_FILES; i++)
        if (b->peers.files[i].fd == fd) return &b->peers.files[i];
    if (fstat(fd, &s)) return NULL;
    f = &b->peers.files[b->peers.n_file++ % BP_PEER_FILES];
    *f = (struct bp_process_file){.device = s.st_dev, .inode = s.st_ino, .fd = fd};
    return f;
}

void bp_buffer_location_fill(struct bp_shm_rank *b, const void *address, struct bp_buffer *buffer,
                             struct bp_buffer_location *out)
{
    const struct bp_process_file *file;
    uint64_t offset;
    int32_t fd;

    *out = (struct bp_buffer_location){.address = (uintptr_t)address, .fd = -1};
    if (!buffer || !address || bp_buffer_export(buffer, &fd, &offset)) return;
    file = find_file(b, fd);
    if (!file) return;
    out->device = file->device;
    out->inode = file->inode;
    out->offset = offset + ((uintptr_t)address - (uintptr_t)buffer->memory.data);
    out->fd = fd;
}

bool bp_buffer_location_maps(const struct bp_shm_rank *b, const struct bp_buffer_location *location)
{
    return b->peers.one_process || location->fd >= 0 || !location->address;
}

static void peer_map_unmap(struct bp_peer_mapping *m)
{
    munmap(m->base, m->size);
    free(m);
}

void bp_peer_map_clear(struct bp_shm_rank *b)
{
    for (struct bp_peer_mapping *m = b->peers.mappings, *next; m; m = next) {
        next = m->next;
        peer_map_unmap(m);
    }
    b->peers.mappings = NULL;
}

void bp_peer_map_refresh(struct bp_shm_rank *b)
{
    uint32_t released = 0;

    if (!b->peers.mappings) return;
    for (uint32_t i = 0; i < b->n; i++)
        released += atomic_load_explicit(&b->ranks[i].released, memory_order_relaxed);
    if (released != b->peers.released) bp_peer_map_clear(b);
    b->peers.released = released;
}

/* Unmaps the least recently used mappings beyond the limit. */
static void peer_map_trim(struct bp_shm_rank *b)
{
    struct bp_peer_mapping **at = &b->peers.mappings, *rest;
    size_t n = 0;

    while (*at && n++ < MAPPINGS) at = &(*at)->next;
    rest = *at;
    *at = NULL;
    while (rest) {
        struct bp_peer_mapping *next = rest->next;
        peer_map_unmap(rest);
        rest = next;
    }
}

static struct bp_peer_mapping *map_file(const struct bp_shm_rank *b, uint32_t rank,
                                        const struct bp_buffer_location *location)
{
    struct bp_peer_mapping *m = calloc(1, sizeof *m);
    int fd = bp_process_file_open(b->peers.pid[rank], location->fd, location->device,
                                  location->inode);
    struct stat s;

    if (m && fd >= 0 && !fstat(fd, &s)) {
        *m = (struct bp_peer_mapping){NULL, location->device, location->inode, NULL,
                                      (size_t)s.st_size};
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

/* Moves the mapping that it returns to the front of the list. */
static struct bp_peer_mapping *find_mapping(struct bp_shm_rank *b, uint32_t rank,
                                            const struct bp_buffer_location *location)
{
    struct bp_peer_mapping **at = &b->peers.mappings, *m;

    while (*at && ((*at)->inode != location->inode || (*at)->device != location->device))
        at = &(*at)->next;
    m = *at;
    if (m) *at = m->next;
    else m = map_file(b, rank, location);
    if (!m) return NULL;
    peer_map_trim(b);
    m->next = b->peers.mappings;
    b->peers.mappings = m;
    return m;
}

enum bp_status bp_peer_buffer_open(struct bp_shm_rank *b, uint32_t rank,
                                   const struct bp_buffer_location *location, uint64_t bytes,
                                   uint32_t access, struct bp_peer_buffer *out)
{
    struct bp_peer_buffer buffer = {NULL, location->address, b->peers.pid[rank]};
    const struct bp_peer_mapping *m;

    if (buffer.pid == b->peers.pid[b->rank]) {
        buffer.mapped = (char *)(uintptr_t)location->address;
    } else if (access == BP_ACCESS_MAP && bytes) {
        m = find_mapping(b, rank, location);
        if (!m && bp_shm_rank_is_dead(b, rank, 200)) return bp_shm_report_death(b, rank);
        if (m && (location->offset > m->size || bytes > m->size - location->offset))
            return bp_comm_fail(&b->failure, BP_ERR_INTERNAL,
                                "rank %u says that its buffer of %" PRIu64 " bytes lies %" PRIu64
                                " bytes into a file of %zu: something wrote over the memory that "
                                "ranks share",
                                bp_shm_global_rank(b, rank), bytes, location->offset, m->size);
        if (!m)
            return bp_comm_fail(&b->failure, BP_ERR_MEMORY,
                                "rank %u cannot map memory of rank %u (process %d)", b->rank, rank,
                                buffer.pid);
        buffer.mapped = m->base + location->offset;
    }
    *out = buffer;
    return BP_OK;
}

/* Copies whole cache lines with streaming stores, which bypass the caches. */
void bp_copy_streaming(void *to, const void *from, uint64_t size)
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

void bp_copy_fence(void)
{
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

void bp_copy_bytes(void *to, const void *from, uint64_t size, bool streaming)
{
    if (streaming && size >= 256) {
        bp_copy_streaming(to, from, size);
        bp_copy_fence();
    } else if (size) {
        memcpy(to, from, size);
    }
}

static enum bp_status report_lost_buffer(struct bp_shm_rank *b, int pid)
{
    const char *why = strerror(errno);

    for (uint32_t i = 0; i < b->n; i++)
        if (b->peers.pid[i] == pid && bp_shm_rank_is_dead(b, i, 200))
            return bp_shm_report_death(b, i);
    return bp_comm_fail(&b->failure, BP_ERR_PEER, "rank %u cannot reach memory of process %d: %s",
                        b->rank, pid, why);
}

enum bp_status bp_peer_buffer_read(struct bp_shm_rank *b, const struct bp_peer_buffer *from,
                                   uint64_t offset, void *to, uint64_t size, bool streaming)
{
    if (from->mapped) {
        if (from->mapped + offset != to) bp_copy_bytes(to, from->mapped + offset, size, streaming);
        return BP_OK;
    }
    if (copy_vm(from->pid, true, to, from->address + offset, size)) return BP_OK;
    return report_lost_buffer(b, from->pid);
}

enum bp_status bp_peer_buffer_write(struct bp_shm_rank *b, const struct bp_peer_buffer *to,
                                    uint64_t offset, const void *from, uint64_t size,
                                    bool streaming)
{
    if (to->mapped) {
        if (to->mapped + offset != from) bp_copy_bytes(to->mapped + offset, from, size, streaming);
        return BP_OK;
    }
    if (copy_vm(to->pid, false, (void *)(uintptr_t)from, to->address + offset, size)) return BP_OK;
    return report_lost_buffer(b, to->pid);
}

const void *bp_peer_buffer_fetch(struct bp_shm_rank *b, const struct bp_peer_buffer *from,
                                 uint64_t offset, uint64_t size, void *room)
{
    if (from->mapped) return from->mapped + offset;
    if (copy_vm(from->pid, true, room, from->address + offset, size)) return room;
    report_lost_buffer(b, from->pid);
    return NULL;
}

char *bp_peer_scratch(struct bp_shm_rank *b, uint32_t index)
{
    if (!b->peers.scratch)
        b->peers.scratch = aligned_alloc(64, (b->n + (size_t)1) * BP_PEER_SCRATCH_BYTES);
    if (!b->peers.scratch) {
        bp_comm_fail(&b->failure, BP_ERR_MEMORY, "rank %u has no memory for a collective call",
                     b->rank);
        return NULL;
    }
    return b->peers.scratch + (size_t)index * BP_PEER_SCRATCH_BYTES;
}
