/* SPDX-License-Identifier: Apache-2.0 */
/* fake_memory.c: allocates the memory of the fake device. Freed memory is cleared, so that work
 * that runs too late reads zeros; when the next memory is freed, it is unmapped. */
#include "fake_parts.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { PAGE = 4096 };

struct chunk {
    struct chunk *next;
    struct fake_instance *of;
    char *first;
    uint64_t size;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the variables below */
static struct chunk *segments, *last;                      /* last: the last one that was freed */
static const size_t ADDRESSES = (size_t)1 << 38;
static char *addresses, *next_address; /* for the words nowhere and handles */

uint64_t fake_alignment(void)
{
    return fake_number("alignment", 64);
}

static bool is_nowhere(void)
{
    return fake_has("nowhere") || fake_has("handles");
}

enum bp_status fake_memory_create(struct fake_instance *f)
{
    if (!is_nowhere()) return BP_OK;
    if (!addresses)
        addresses = mmap(NULL, ADDRESSES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                         -1, 0);
    if (addresses == MAP_FAILED) return bp_fail(f->host, BP_ERR_MEMORY, "no addresses");
    next_address = addresses;
    fake.used = fake.broken = fake.segments = 0;
    return BP_OK;
}

static void memory_forget(struct chunk *chunk)
{
    if (chunk && !is_nowhere() && !fake_has("map-leak"))
        munmap(chunk->first - fake_alignment(), chunk->size + PAGE);
    free(chunk);
}

void fake_memory_destroy(struct fake_instance *f)
{
    pthread_mutex_lock(&lock);
    if (last && last->of == f) memory_forget(last), last = NULL;
    pthread_mutex_unlock(&lock);
}

/* Allocates memory that is aligned only as much as the device promises. Called with the lock held.
 * NULL: out of memory. */
static char *memory_take(uint64_t size)
{
    char *pages;

    if (is_nowhere()) {
        pages = next_address;
        next_address += (size + 2 * PAGE - 1) & ~(uint64_t)(PAGE - 1);
        return pages + fake_alignment();
    }
    pages = mmap(NULL, size + PAGE, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return pages == MAP_FAILED ? NULL : pages + fake_alignment();
}

enum bp_status fake_allocate(void *self, uint32_t device, uint32_t space, uint64_t size,
                             struct bp_memory *out)
{
    static char crooked[2];
    struct fake_instance *f = self;
    enum bp_status status = fake_first(f->host, FAKE_memory_allocate, size);
    bool handles = fake_has("handles") || fake_has("offsets"), fits;
    struct chunk *chunk;
    char *first = NULL;

    if (status) return status;
    if (space != BP_SPACE_DEVICE && !fake_has("spaces")) return BP_ERR_UNSUPPORTED;
    if (fake_fault(FAKE_memory_allocate, size, "null")) return *out = (struct bp_memory){0}, BP_OK;
    if (fake_fault(FAKE_memory_allocate, size, "crooked"))
        return *out = (struct bp_memory){.data = crooked + 1}, BP_OK;
    chunk = malloc(sizeof *chunk);
    if (!chunk) abort();
    pthread_mutex_lock(&lock);
    fits = !fake.budget || size <= fake.budget - f->used;
    if (fits) first = memory_take(size);
    if (first) {
        *chunk = (struct chunk){segments, f, first, size};
        segments = chunk;
        f->used += size, fake.used += size;
        fake.segments++;
    }
    pthread_mutex_unlock(&lock);
    if (!first) {
        free(chunk);
        return bp_fail(f->host, BP_ERR_MEMORY, "%llu bytes are too many", (unsigned long long)size);
    }
    if (handles) *out = (struct bp_memory){first, NULL, space == BP_SPACE_DEVICE ? NULL : first};
    else *out = (struct bp_memory){NULL, first, NULL};
    return BP_OK;
}

/* Checks the rule that the core must keep: no pending work uses the memory. */
void fake_free(void *self, uint32_t device, uint32_t space, const struct bp_memory *memory)
{
    const char *first = memory->data ? memory->data : memory->handle;
    struct chunk **at = &segments, *chunk;
    struct fake_instance *f = self;

    pthread_mutex_lock(&lock);
    while (*at && (*at)->first != first) at = &(*at)->next;
    chunk = *at;
    if (!chunk) abort();
    *at = chunk->next;
    f->used -= chunk->size, fake.used -= chunk->size;
    if (fake_uses(first, chunk->size, NULL)) fake_break();
    if (!is_nowhere()) madvise(chunk->first - fake_alignment(), chunk->size + PAGE, MADV_DONTNEED);
    memory_forget(last);
    last = chunk;
    pthread_mutex_unlock(&lock);
}

enum bp_status fake_export(void *self, uint32_t device, uint32_t space,
                           const struct bp_memory *memory, int32_t *out_fd, uint64_t *out_offset)
{
    enum bp_status status = fake_first(((struct fake_instance *)self)->host, FAKE_memory_export, 0);

    if (status) return status;
    *out_fd = 0;
    *out_offset = 0;
    return BP_OK;
}
