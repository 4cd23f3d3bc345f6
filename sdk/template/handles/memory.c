/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c: allocates and frees buffers of the device, and copies. Read next: stream.c.
 *
 * A driver that knows buffers only, such as OpenCL or Vulkan, takes a buffer and an offset where
 * others take an address. The core passes both: bp_view.memory or bp_copy.dst_memory is the handle
 * that memory_allocate returned, bp_view.data or bp_copy.dst the offset in bytes. An offset of 0 is
 * the beginning of the buffer. Host memory, on the other side of a copy, has the handle NULL and an
 * address.
 *
 * Here a handle is the address of a struct buffer with one bit changed, so that a host that follows
 * it faults. A buffer ends at a guard page, except for alignment: a kernel that runs past the end
 * faults too. */
#include "template.h"
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct buffer {
    char *pages, *first; /* what was mapped, and the first byte of data */
    size_t open;         /* bytes that can be accessed, whole pages; a guard page is behind them */
};

#define NO_ADDRESS ((uintptr_t)1 << (sizeof(uintptr_t) * 8 - 2)) /* no process has such addresses */

static struct buffer *buffer_of(void *handle)
{
    return (struct buffer *)((uintptr_t)handle ^ NO_ADDRESS);
}

static size_t round_up(uint64_t size, size_t unit)
{
    return (size + unit - 1) / unit * unit;
}

/* Maps the pages of a buffer; false: the host has no memory left. */
static bool buffer_map(struct buffer *b, uint64_t size, size_t page)
{
    b->pages = mmap(NULL, b->open + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (b->pages == MAP_FAILED) return false;
    b->first = b->pages + b->open - round_up(size, TEMPLATE_ALIGNMENT);
    if (mprotect(b->pages, b->open, PROT_READ | PROT_WRITE) == 0) return true;
    munmap(b->pages, b->open + page);
    return false;
}

enum bp_status template_memory_allocate(void *instance, uint32_t device, uint32_t space,
                                        uint64_t size, struct bp_memory *out)
{
    struct template_self *self = instance;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct buffer *b, made;

    if (space != BP_SPACE_DEVICE)
        return bp_fail(self->host, BP_ERR_UNSUPPORTED, "template:%u: no space %u", device, space);
    if (size > TEMPLATE_MEMORY) goto none_left;
    made.open = round_up(size, page);
    if (atomic_fetch_add(&self->used, made.open) > TEMPLATE_MEMORY - made.open) goto unused;
    b = self->host->allocate(self->host->ctx, sizeof *b, _Alignof(struct buffer));
    if (!b) goto unused;
    if (!buffer_map(&made, size, page)) goto release;
    *b = made;
    *out = (struct bp_memory){.handle = (void *)((uintptr_t)b ^ NO_ADDRESS)};
    return BP_OK;
release:
    self->host->release(self->host->ctx, b, sizeof *b);
unused:
    atomic_fetch_sub(&self->used, made.open);
none_left:
    return bp_fail(self->host, BP_ERR_MEMORY, "template:%u: %llu bytes are more than is left of %d",
                   device, (unsigned long long)size, TEMPLATE_MEMORY);
}

void template_memory_free(void *instance, uint32_t device, uint32_t space,
                          const struct bp_memory *old)
{
    struct template_self *self = instance;
    struct buffer *b = buffer_of(old->handle);

    munmap(b->pages, b->open + (size_t)sysconf(_SC_PAGESIZE));
    atomic_fetch_sub(&self->used, b->open);
    self->host->release(self->host->ctx, b, sizeof *b);
}

/* Kernels call it for views, too: kernels.c passes view->memory and view->data. */
void *template_reach(void *handle, const void *address)
{
    return handle ? buffer_of(handle)->first + (uintptr_t)address : (void *)(uintptr_t)address;
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
