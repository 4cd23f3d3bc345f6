/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c: allocates and frees memory of the device, and copies. Read next: stream.c.
 *
 *     an allocation:  data, as the host names it | guard | data, as the device finds it | guard
 *
 * Only the device's range can be accessed: a host that follows data faults, and so does a kernel
 * that runs past the end of the last page. handle is the distance between the two ranges. */
#include "template.h"
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t round_up(uint64_t size, size_t unit)
{
    return (size + unit - 1) / unit * unit;
}

enum bp_status template_memory_allocate(void *instance, uint32_t device, uint32_t space,
                                        uint64_t size, struct bp_memory *out)
{
    struct template_self *self = instance;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), open = round_up(size, page), half = open + page;

    if (space != BP_SPACE_DEVICE)
        return bp_fail(self->host, BP_ERR_UNSUPPORTED, "template:%u: no space %u", device, space);
    if (size > TEMPLATE_MEMORY) goto none_left;
    if (atomic_fetch_add(&self->used, open) > TEMPLATE_MEMORY - open) goto unused;
    char *pages = mmap(NULL, 2 * half, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) goto unused;
    if (mprotect(pages + half, open, PROT_READ | PROT_WRITE)) goto unmap;
    *out = (struct bp_memory){.handle = (void *)half,
                              .data = pages + open - round_up(size, TEMPLATE_ALIGNMENT)};
    return BP_OK;
unmap:
    munmap(pages, 2 * half);
unused:
    atomic_fetch_sub(&self->used, open);
none_left:
    return bp_fail(self->host, BP_ERR_MEMORY, "template:%u: %llu bytes are more than is left of %d",
                   device, (unsigned long long)size, TEMPLATE_MEMORY);
}

void template_memory_free(void *self, uint32_t device, uint32_t space, const struct bp_memory *old)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), half = (size_t)old->handle;

    munmap((char *)old->data - (uintptr_t)old->data % page, 2 * half);
    atomic_fetch_sub(&((struct template_self *)self)->used, half - page);
}

void *template_reach(void *handle, const void *address)
{
    return (void *)((uintptr_t)address + (uintptr_t)handle);
}

static void run_copy(const void *args) /*- profiler */
/*+ profiler: void run_copy(const void *args) */
{
    const struct bp_copy *c = args;

    memcpy(template_reach(c->dst_memory, c->dst), template_reach(c->src_memory, c->src), c->size);
}

/* The app may change src, or read dst, as soon as these two functions return: they wait. */
enum bp_status template_copy_in(void *self, uint32_t device, void *stream, const struct bp_copy *c)
{
    return template_wait(self, template_submit(self, run_copy, c, sizeof *c), UINT64_MAX);
}

enum bp_status template_copy_out(void *self, uint32_t device, void *stream, const struct bp_copy *c)
{
    return template_wait(self, template_submit(self, run_copy, c, sizeof *c), UINT64_MAX);
}

/* Both sides are device memory, and the device keeps the order of work: do not wait. */
enum bp_status template_copy_within(void *self, uint32_t device, void *stream,
                                    const struct bp_copy *c)
{
    template_submit(self, run_copy, c, sizeof *c);
    return BP_OK;
}
