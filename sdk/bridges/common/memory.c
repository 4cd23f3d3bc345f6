/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c: finds the buffer of an address. Allocations are a list that is sorted by address;
 * frameworks allocate rarely, in large pieces, and look addresses up in each call. */
#include "bridge.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The first page of the address space never holds memory, so the buffer over all host memory begins
 * behind it. */
#define FIRST_ADDRESS ((uintptr_t)4096)

struct range {
    uintptr_t begin, end; /* end: at least one byte behind begin */
    struct bp_buffer *buffer;
    uint64_t size;        /* requested bytes */
    size_t reserved;      /* bytes of addresses that were reserved; 0: none */
};

struct bridge_memory {
    struct bp_device *device;
    struct bp_buffer *all;  /* over all host memory, on a device that reads it; or NULL */
    bool reserves;          /* the device's own addresses mean nothing to other libraries */
    pthread_rwlock_t lock;  /* of the members below */
    struct range *range;    /* sorted by address */
    size_t n_range, room;
    struct bridge_usage usage;
};

enum bp_status bridge_memory_create(struct bp_device *device, struct bridge_memory **out_memory)
{
    struct bp_device_properties p = {.size = sizeof p};
    struct bridge_memory *memory = calloc(1, sizeof *memory);
    enum bp_status status = bp_device_get_properties(device, &p);

    if (!memory) return bridge_no_memory();
    if (status == BP_OK && p.dlpack_type == 1 && p.flags & BP_DEVICE_HOST_VISIBLE)
        status = bp_buffer_create_over(device, (void *)FIRST_ADDRESS,
                                       (uint64_t)INT64_MAX - FIRST_ADDRESS, NULL, NULL,
                                       &memory->all);
    if (status) {
        free(memory);
        return status;
    }
    pthread_rwlock_init(&memory->lock, NULL);
    memory->device = device;
    memory->reserves = p.flags & BP_DEVICE_HANDLES || !p.dlpack_type;
    *out_memory = memory;
    return BP_OK;
}

static void range_finish(struct range *r)
{
    bp_buffer_destroy(r->buffer);
    if (r->reserved) munmap((void *)r->begin, r->reserved);
}

void bridge_memory_destroy(struct bridge_memory *memory)
{
    if (!memory) return;
    for (size_t i = 0; i < memory->n_range; i++) range_finish(&memory->range[i]);
    free(memory->range);
    bp_buffer_destroy(memory->all);
    pthread_rwlock_destroy(&memory->lock);
    free(memory);
}

struct bp_device *bridge_memory_device(struct bridge_memory *memory)
{
    return memory->device;
}

bool bridge_memory_is_host(struct bridge_memory *memory)
{
    return memory->all != NULL;
}

/* The number of the first range that ends behind an address. */
static size_t range_behind(const struct bridge_memory *memory, uintptr_t address)
{
    size_t low = 0, high = memory->n_range;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (memory->range[middle].end > address) high = middle;
        else low = middle + 1;
    }
    return low;
}

/* Gives a range the addresses of its memory, or reserved ones where those have no meaning. */
static bool range_place(const struct bridge_memory *memory, struct range *r)
{
    struct bp_buffer_info info = {.size = sizeof info};
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (size_t)r->size + !r->size;
    void *at;

    if (!memory->reserves) {
        if (bp_buffer_get_info(r->buffer, &info)) return false;
        r->begin = (uintptr_t)info.data;
        r->end = r->begin + size;
        return true;
    }
    r->reserved = (size + page - 1) / page * page;
    at = mmap(NULL, r->reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
        r->reserved = 0;
        return false;
    }
    r->begin = (uintptr_t)at;
    r->end = r->begin + size;
    return true;
}

static bool range_insert(struct bridge_memory *memory, const struct range *r)
{
    size_t at;

    if (memory->n_range == memory->room) {
        size_t room = 2 * memory->room + 16;
        struct range *grown = realloc(memory->range, room * sizeof *grown);
        if (!grown) return false;
        memory->range = grown;
        memory->room = room;
    }
    at = range_behind(memory, r->begin);
    memmove(memory->range + at + 1, memory->range + at, (memory->n_range - at) * sizeof *r);
    memory->range[at] = *r;
    memory->n_range++;
    memory->usage.bytes += r->size;
    memory->usage.allocations++;
    if (memory->usage.bytes > memory->usage.peak) memory->usage.peak = memory->usage.bytes;
    return true;
}

enum bp_status bridge_memory_allocate(struct bridge_memory *memory, struct bp_stream *stream,
                                      uint64_t size, void **out_address)
{
    struct range r = {.size = size};
    enum bp_status status;
    bool done;

    if (size > INT64_MAX / 2) return bridge_no_memory();
    status = bp_buffer_create(memory->device, stream, BP_SPACE_DEVICE, size + !size, &r.buffer);
    if (status) return status;
    done = range_place(memory, &r);
    if (done) {
        pthread_rwlock_wrlock(&memory->lock);
        done = range_insert(memory, &r);
        pthread_rwlock_unlock(&memory->lock);
    }
    if (!done) {
        range_finish(&r);
        return bridge_no_memory();
    }
    *out_address = (void *)r.begin;
    return BP_OK;
}

void bridge_memory_free(struct bridge_memory *memory, void *address)
{
    struct range r = {.buffer = NULL};
    size_t at;

    if (!address) return;
    pthread_rwlock_wrlock(&memory->lock);
    at = range_behind(memory, (uintptr_t)address);
    if (at < memory->n_range && memory->range[at].begin == (uintptr_t)address) {
        r = memory->range[at];
        memory->n_range--;
        memmove(memory->range + at, memory->range + at + 1,
                (memory->n_range - at) * sizeof *memory->range);
        memory->usage.bytes -= r.size;
    }
    pthread_rwlock_unlock(&memory->lock);
    if (r.buffer) range_finish(&r);
}

static bool range_find(struct bridge_memory *memory, uintptr_t address, uint64_t size,
                       struct bridge_place *out)
{
    const struct range *r;
    bool found;
    size_t at;

    pthread_rwlock_rdlock(&memory->lock);
    at = range_behind(memory, address);
    r = memory->range + at;
    found = at < memory->n_range && r->begin <= address && size <= r->end - address;
    if (found) *out = (struct bridge_place){r->buffer, address - r->begin, true};
    pthread_rwlock_unlock(&memory->lock);
    return found;
}

enum bp_status bridge_memory_find(struct bridge_memory *memory, const void *address, uint64_t size,
                                  struct bridge_place *out_place)
{
    uintptr_t at = (uintptr_t)address;

    if (range_find(memory, at, size, out_place)) return BP_OK;
    if (!memory->all || at < FIRST_ADDRESS || at > INT64_MAX) return BP_ERR_NOT_FOUND;
    *out_place = (struct bridge_place){memory->all, at - FIRST_ADDRESS, false};
    return BP_OK;
}

struct bridge_usage bridge_memory_usage(struct bridge_memory *memory)
{
    struct bridge_usage usage;

    pthread_rwlock_rdlock(&memory->lock);
    usage = memory->usage;
    pthread_rwlock_unlock(&memory->lock);
    return usage;
}
