/* SPDX-License-Identifier: Apache-2.0 */
/* host_memory.c: allocates host memory from the app's allocator, or from malloc. */
#include "base.h"

#include <stdlib.h>

/* posix_memalign is used because aligned_alloc requires a multiple of the alignment. For 0 bytes a
 * pointer is returned too. */
static void *default_allocate(void *ctx, size_t size, size_t alignment)
{
    void *memory;

    (void)ctx;
    if (alignment < sizeof(void *)) alignment = sizeof(void *);
    if (posix_memalign(&memory, alignment, size ? size : 1)) return NULL;
    return memory;
}

static void default_release(void *ctx, void *memory, size_t size)
{
    (void)ctx;
    (void)size;
    free(memory);
}

const struct bp_allocator bp_allocator_default = {NULL, default_allocate, default_release};

void *bp_core_alloc(struct bp_core *core, size_t size, size_t alignment)
{
    return core->allocator.allocate(core->allocator.ctx, size, alignment);
}

void bp_core_free(struct bp_core *core, void *memory, size_t size)
{
    if (memory) core->allocator.release(core->allocator.ctx, memory, size);
}

void *bp_handle_alloc(size_t size)
{
    size_t whole = (size + BP_HANDLE_BYTES - 1) / BP_HANDLE_BYTES * BP_HANDLE_BYTES;
    void *memory = aligned_alloc(BP_HANDLE_BYTES, whole);

    if (memory) memset(memory, 0, whole);
    return memory;
}
