/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c: allocates device memory, which is host memory. All memory spaces are the same.
 *
 * Large allocations are in-memory files, which other processes can map. Small allocations, and all
 * allocations if the app has its own allocator, use the host's allocator. */
#include "cpu.h"
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

/* The handle of an allocation. It stores the size, because the host frees memory by its size. For
 * memory of the host's allocator this struct is before the data, in a prefix as long as the
 * alignment. */
struct allocation {
    uint64_t size; /* for the host's allocator: including the prefix */
    void *data;
    int fd;        /* -1: memory of the host's allocator */
};
enum { ALIGNMENT = 64 };
static const uint64_t file_min = UINT64_C(1) << 20;

static uint64_t memory_available(uint64_t free_bytes);

static bool is_for_files(const struct cpu *self, uint64_t size)
{
    return size >= file_min && !(BP_HAS(self->host, app_memory) && self->host->app_memory);
}

/* A file uses no memory until its pages are touched. An allocation that would not fit must be
 * refused here, because a later failure cannot be reported to any caller. */
static bool memory_fits(uint64_t size)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

    return size <= memory_available(page * (uint64_t)sysconf(_SC_AVPHYS_PAGES));
}

static void *map_file(uint64_t size, int *out_fd)
{
    void *data = MAP_FAILED;
    int fd = memfd_create("backplane", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0) return NULL;
    if (!ftruncate(fd, (off_t)size) && !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW))
        data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) {
        close(fd);
        return NULL;
    }
    madvise(data, size, MADV_HUGEPAGE); /* huge pages, if the machine allows them */
    *out_fd = fd;
    return data;
}

static struct allocation *allocate_file(const struct cpu *self, uint64_t size)
{
    struct allocation *allocation =
        self->host->allocate(self->host->ctx, sizeof *allocation, _Alignof(struct allocation));

    if (!allocation) return NULL;
    allocation->size = size;
    allocation->data = map_file(size, &allocation->fd);
    if (allocation->data) return allocation;
    self->host->release(self->host->ctx, allocation, sizeof *allocation);
    return NULL;
}

static struct allocation *allocate_host(const struct cpu *self, uint64_t size)
{
    struct allocation *allocation = NULL;

    if (size <= PTRDIFF_MAX - ALIGNMENT)
        allocation = self->host->allocate(self->host->ctx, (size_t)size + ALIGNMENT, ALIGNMENT);
    if (!allocation) return NULL;
    allocation->size = size + ALIGNMENT;
    allocation->data = (char *)allocation + ALIGNMENT;
    allocation->fd = -1;
    return allocation;
}

enum bp_status cpu_memory_allocate(void *p, uint32_t device, uint32_t space, uint64_t size,
                                   struct bp_memory *out)
{
    struct cpu *self = p;
    struct allocation *allocation = NULL;

    (void)device;
    if (space > BP_SPACE_MANAGED)
        return bp_fail(self->host, BP_ERR_UNSUPPORTED, "cpu: memory space %" PRIu32 " is unknown",
                       space);
    if (!is_for_files(self, size)) allocation = allocate_host(self, size);
    else if (memory_fits(size)) {
        allocation = allocate_file(self, size);
        if (!allocation) allocation = allocate_host(self, size); /* no in-memory files here */
    }
    if (!allocation)
        return bp_fail(self->host, BP_ERR_MEMORY,
                       "cpu: no memory: %" PRIu64 " bytes were asked for", size);
    *out = (struct bp_memory){.handle = allocation, .data = allocation->data};
    return BP_OK;
}

void cpu_memory_free(void *p, uint32_t device, uint32_t space, const struct bp_memory *memory)
{
    struct cpu *self = p;
    struct allocation *allocation = memory->handle;
    bool file = allocation->fd >= 0;

    (void)device;
    (void)space;
    if (file) {
        munmap(allocation->data, allocation->size);
        close(allocation->fd);
    }
    self->host->release(self->host->ctx, allocation,
                        file ? sizeof *allocation : (size_t)allocation->size);
}

/* Frees the pages of the file; other processes that have mapped it read zeros there. */
enum bp_status cpu_memory_discard(void *p, uint32_t device, uint32_t space,
                                  const struct bp_memory *memory, uint64_t offset, uint64_t size)
{
    const struct allocation *allocation = memory->handle;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t begin = (offset + page - 1) / page * page, end = (offset + size) / page * page;

    (void)p;
    (void)device;
    (void)space;
    if (allocation->fd < 0 || end <= begin ||
        madvise((char *)allocation->data + begin, end - begin, MADV_REMOVE))
        return BP_ERR_UNSUPPORTED;
    return BP_OK;
}

enum bp_status cpu_constant_read(const struct cpu *self, const struct bp_prep *prep, int input)
{
    const struct bp_host *host = self->host;

    if (!prep->constant || !BP_HAS(host, constant_read) || !host->constant_read) return BP_OK;
    return host->constant_read(host->ctx, prep->constant[input]);
}

enum bp_status cpu_memory_export(void *p, uint32_t device, uint32_t space,
                                 const struct bp_memory *memory, int32_t *out_fd,
                                 uint64_t *out_offset)
{
    struct cpu *self = p;
    const struct allocation *allocation = memory->handle;

    (void)device;
    (void)space;
    if (allocation->fd < 0)
        return bp_fail(self->host, BP_ERR_UNSUPPORTED,
                       "cpu: this memory is of the app's allocator, or of malloc: other processes "
                       "cannot map it");
    *out_fd = allocation->fd;
    *out_offset = 0;
    return BP_OK;
}

/* The memory that the Linux kernel could provide without swapping, if it reports this
 * (MemAvailable); otherwise its free pages. */
static uint64_t memory_available(uint64_t free_bytes)
{
    FILE *file = fopen("/proc/meminfo", "re");
    char line[128];
    uint64_t kib;

    if (!file) return free_bytes;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1) {
            free_bytes = kib * 1024;
            break;
        }
    fclose(file);
    return free_bytes;
}

enum bp_status cpu_memory_info(void *self, uint32_t device, uint64_t *out_free, uint64_t *out_total)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

    (void)self;
    (void)device;
    *out_total = page * (uint64_t)sysconf(_SC_PHYS_PAGES);
    *out_free = memory_available(page * (uint64_t)sysconf(_SC_AVPHYS_PAGES));
    return BP_OK;
}
