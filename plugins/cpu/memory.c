/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c: device memory is host memory, from the app's allocator. All spaces are one: the host
 * reaches what the device does. */
#include "cpu.h"
#include <inttypes.h>
#include <unistd.h>

/* What the handle of an allocation points to: the host takes memory back by its size. It lies
 * before the data, in a prefix as long as the alignment. */
struct allocation {
    uint64_t size; /* with the prefix */
};
enum { ALIGNMENT = 64 };

enum bp_status cpu_memory_allocate(void *p, uint32_t device, uint32_t space, uint64_t size,
                                   struct bp_memory *out)
{
    struct cpu *self = p;
    struct allocation *allocation = NULL;

    (void)device;
    if (space > BP_SPACE_MANAGED)
        return bp_fail(self->host, BP_ERR_UNSUPPORTED, "cpu: memory space %" PRIu32 " is unknown",
                       space);
    if (size <= PTRDIFF_MAX - ALIGNMENT)
        allocation = self->host->allocate(self->host->ctx, (size_t)size + ALIGNMENT, ALIGNMENT);
    if (!allocation)
        return bp_fail(self->host, BP_ERR_MEMORY,
                       "cpu: no memory: %" PRIu64 " bytes were asked for", size);
    allocation->size = size + ALIGNMENT;
    *out = (struct bp_memory){.handle = allocation, .data = (char *)allocation + ALIGNMENT};
    return BP_OK;
}

void cpu_memory_free(void *p, uint32_t device, uint32_t space, const struct bp_memory *memory)
{
    struct cpu *self = p;
    struct allocation *allocation = memory->handle;

    (void)device;
    (void)space;
    self->host->release(self->host->ctx, allocation, (size_t)allocation->size);
}

/* What the kernel could give without swapping, where it says so (MemAvailable); else its free
 * pages. */
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
