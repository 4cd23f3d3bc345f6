/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c: simulates device memory by host memory, at addresses that are invalid on the host.
 * Guard zones lie before and after each allocation; freed memory is overwritten, and kept. */
#include "internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A bit that no host address has: an address with this bit is in device memory. */
static const uintptr_t device_bit = (uintptr_t)1 << 62;

enum {
    GUARD = 64,
    GUARD_BYTE = 0xa5,
    FREED_BYTE = 0xdb
};
static const size_t kept_most = (size_t)32 << 20; /* bytes of freed memory that are kept */

struct allocation {
    struct allocation *next;
    struct base_device *device;
    enum base_place place;
    bool is_pinned_only;  /* the app's own memory, registered */
    unsigned char *block; /* with the guards; of registered memory NULL */
    unsigned char *data;
    size_t size, slack;
};
static struct allocation *living, *freed, **freed_last = &freed;
static size_t freed_bytes;

static void *address_of(const struct allocation *a)
{
    bool is_device = a->place == BASE_DEVICE;

    return (void *)((uintptr_t)a->data | (is_device ? device_bit : 0));
}

/* Whether an address lies in an allocation, or `past` bytes after it. */
static bool memory_has(const struct allocation *a, const void *address, size_t past)
{
    uintptr_t at = (uintptr_t)address, start = (uintptr_t)address_of(a);

    return at >= start && at < start + a->size + past;
}

static struct allocation **memory_find(const void *address)
{
    struct allocation **a = &living;

    while (*a && !memory_has(*a, address, 0)) a = &(*a)->next;
    if (*a) return a;
    for (a = &living; *a && !memory_has(*a, address, 1);) a = &(*a)->next; /* its very end */
    return a;
}

struct base_range base_find(const void *address)
{
    const struct allocation *a = *memory_find(address);
    uintptr_t at = (uintptr_t)address & ~device_bit;

    if (!a) {
        for (a = freed; a && !memory_has(a, address, 0);) a = a->next;
        if (a) return (struct base_range){.place = BASE_FREED, .device = a->device};
        return (struct base_range){
            .place = (uintptr_t)address & device_bit ? BASE_FREED : BASE_HOST, .host = (void *)at};
    }
    return (struct base_range){
        .place = a->place,
        .device = a->device,
        .host = (void *)at,
        .room = a->size - (size_t)(at - (uintptr_t)a->data),
        .slack = a->slack,
        .is_start = at == (uintptr_t)a->data,
    };
}

void *base_reach(const struct base_device *device, const void *address, size_t size)
{
    struct base_range r = base_find(address);

    if (r.place != BASE_DEVICE && r.place != BASE_PINNED) return NULL;
    if (r.device->vendor != device->vendor || size > r.room) return NULL;
    if (r.place == BASE_DEVICE && !(device->peers >> r.device->number & 1)) return NULL;
    return r.host;
}

void *base_reach_unlocked(const struct base_device *device, const void *address, size_t size)
{
    void *host;

    base_lock();
    host = base_reach(device, address, size);
    base_unlock();
    return host;
}

/* Adds an allocation to the living ones. */
static int memory_add(const struct allocation *made, void **out)
{
    struct allocation *a = malloc(sizeof *a);

    if (!a) {
        free(made->block);
        return BASE_NO_MEMORY;
    }
    *a = *made;
    a->next = living;
    living = a;
    if (a->place == BASE_DEVICE) a->device->used += a->size;
    if (out) *out = address_of(a);
    return BASE_OK;
}

int base_allocate(struct base_device *device, enum base_place place, size_t size, size_t slack,
                  size_t alignment, void **out)
{
    struct allocation made = {.device = device, .place = place, .size = size, .slack = slack};
    size_t front = alignment > GUARD ? alignment : GUARD;
    void *block;

    if (!size) return BASE_BAD;
    if (place == BASE_DEVICE && size > device->total - device->used) return BASE_NO_MEMORY;
    if (size > SIZE_MAX / 2 || posix_memalign(&block, front, front + size + slack + GUARD))
        return BASE_NO_MEMORY;
    made.block = block;
    made.data = made.block + front;
    memset(made.data - GUARD, GUARD_BYTE, GUARD);
    memset(made.data + size, GUARD_BYTE, slack + GUARD);
    return memory_add(&made, out);
}

int base_pin(struct base_device *device, void *memory, size_t size)
{
    struct allocation made = {.device = device,
                              .place = BASE_PINNED,
                              .is_pinned_only = true,
                              .data = memory,
                              .size = size};

    if (!memory || !size || base_find(memory).place != BASE_HOST) return BASE_BAD;
    return memory_add(&made, NULL);
}

static bool is_filled(const unsigned char *at, size_t n, unsigned char with)
{
    for (size_t i = 0; i < n; i++)
        if (at[i] != with) return false;
    return true;
}

/* Whether the guards are whole; a damaged one is a misuse. */
static bool guards_check(const struct allocation *a)
{
    bool front, end;

    if (!a->block) return true;
    front = is_filled(a->data - GUARD, GUARD, GUARD_BYTE);
    end = is_filled(a->data + a->size, a->slack + GUARD, GUARD_BYTE);
    if (front && end) return true;
    base_misuse(0, "memory at %p of %zu bytes was written %s", address_of(a), a->size,
                front ? "after its end" : "before its start");
    memset(a->data - GUARD, GUARD_BYTE, GUARD);
    memset(a->data + a->size, GUARD_BYTE, a->slack + GUARD);
    return false;
}

size_t base_guards_check(void)
{
    size_t bad = 0;

    for (const struct allocation *a = living; a; a = a->next) bad += !guards_check(a);
    return bad;
}

/* Frees the oldest freed memory for good. */
static void memory_forget(void)
{
    struct allocation *a = freed;

    freed = a->next;
    if (!freed) freed_last = &freed;
    freed_bytes -= a->size;
    if (!is_filled(a->data, a->size, FREED_BYTE))
        base_misuse(0, "memory at %p of %zu bytes was written after it was freed", address_of(a),
                    a->size);
    free(a->block);
    free(a);
}

int base_free(void *memory, enum base_place place)
{
    struct allocation **at = memory_find(memory), *a = *at;

    if (!a || a->place != place || address_of(a) != memory) return BASE_BAD;
    guards_check(a);
    *at = a->next;
    if (!a->block) {
        free(a);
        return BASE_OK;
    }
    if (place == BASE_DEVICE) a->device->used -= a->size;
    if (a->size > (base.keep ? kept_most : 0)) { /* to fill it would touch pages for nothing */
        free(a->block);
        free(a);
        return BASE_OK;
    }
    memset(a->data, FREED_BYTE, a->size);
    a->next = NULL;
    *freed_last = a;
    freed_last = &a->next;
    freed_bytes += a->size;
    while (freed_bytes > (base.keep ? kept_most : 0)) memory_forget();
    return BASE_OK;
}

size_t base_memory_live(void)
{
    size_t n = 0;

    for (const struct allocation *a = living; a; a = a->next) n++;
    return n;
}

void base_memory_print(void)
{
    for (const struct allocation *a = living; a; a = a->next)
        fprintf(stderr, "stand-in: %zu bytes of %s at %p are not freed\n", a->size,
                a->place == BASE_DEVICE ? "device memory" : "pinned memory", address_of(a));
}

__attribute__((destructor)) static void memory_finish(void)
{
    pthread_mutex_lock(&base.lock);
    base_guards_check();
    while (freed) memory_forget();
    pthread_mutex_unlock(&base.lock);
}
