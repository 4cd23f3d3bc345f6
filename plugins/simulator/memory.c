/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c: simulates device memory by host memory, at addresses that are invalid on the host. */
#include "sim.h"
#include <stdlib.h>

/* A bit that no host address has: an address with this bit is in device memory. */
static const uintptr_t device_base = (uintptr_t)1 << 62;

struct allocation {
    struct allocation *next;
    struct sim_device *device;
    enum sim_kind kind;
    void *data;
    size_t size;
};
static struct allocation *allocations;

bool sim_is_device_address(const void *address)
{
    return ((uintptr_t)address & device_base) != 0;
}

static bool is_in(const struct allocation *a, const void *address, size_t past)
{
    uintptr_t at = (uintptr_t)address & ~device_base;

    return sim_is_device_address(address) == (a->kind == SIM_DEVICE) && at >= (uintptr_t)a->data &&
           at < (uintptr_t)a->data + a->size + past;
}

/* The pointer to the allocation that contains an address, or else to one that ends at the
 * address. */
static struct allocation **memory_find(const void *address)
{
    struct allocation **a = &allocations;

    while (*a && !is_in(*a, address, 0)) a = &(*a)->next;
    if (*a) return a;
    a = &allocations;
    while (*a && !is_in(*a, address, 1)) a = &(*a)->next;
    return a;
}

void *sim_reach(const void *address, size_t size)
{
    struct allocation *a = *memory_find(address);
    uintptr_t at = (uintptr_t)address & ~device_base;

    if (!a || size > a->size || at - (uintptr_t)a->data > a->size - size) return NULL;
    return (void *)at;
}

bool sim_is_of(const void *address, const struct sim_device *device)
{
    const struct allocation *a = *memory_find(address);

    return a && a->device == device && a->kind == SIM_DEVICE;
}

bool sim_is_reached_by(const void *address, const struct sim_device *device)
{
    const struct allocation *a = *memory_find(address);

    return a && (a->kind != SIM_DEVICE || a->device == device ||
                 device->peers >> (a->device - sim.device) & 1);
}

/* Checks the size against the limit and counts it. Under the lock. */
static int memory_admit(struct sim_device *device, enum sim_kind kind, size_t size)
{
    if (!size) return SIM_INVALID_VALUE;
    if (size > sim.memory || device->used[kind] > sim.memory - size) return SIM_OUT_OF_MEMORY;
    device->used[kind] += size;
    return SIM_SUCCESS;
}

/* Under the lock: records an allocation, or uncounts its bytes if it failed. */
static int memory_record(const struct allocation *made, struct allocation *out)
{
    if (!made->data) {
        made->device->used[made->kind] -= made->size;
        return SIM_OUT_OF_MEMORY;
    }
    *out = *made;
    out->next = allocations;
    allocations = out;
    sim.live++;
    return SIM_SUCCESS;
}

/* Calls the C library without the lock, because an allocation may take long and other threads would
 * wait. */
static int memory_allocate(enum sim_call call, enum sim_kind kind, size_t size, void **out)
{
    struct allocation made = {.kind = kind, .size = size}, *a;
    int code = sim_enter_context(call, &made.device);

    if (!code) code = memory_admit(made.device, kind, size);
    sim_leave(code);
    if (code) return code;
    a = malloc(sizeof *a);
    if (a && posix_memalign(&made.data, 256, size)) made.data = NULL;
    pthread_mutex_lock(&sim.lock);
    code = memory_record(&made, a);
    if (!code) sim_called(SIM_CALLED_ALLOCATE, made.device, 0, size, sim_now());
    sim_leave(code);
    if (code) free(a);
    else *out = kind == SIM_DEVICE ? (void *)((uintptr_t)made.data | device_base) : made.data;
    return code;
}

/* Frees the memory even if the device has failed. */
static int memory_release(enum sim_call call, const void *address, bool pinned)
{
    struct allocation **at, *a;
    struct sim_device *device;
    int code = sim_enter_context(call, &device);

    at = memory_find(address);
    a = *at;
    if (!a || ((uintptr_t)address & ~device_base) != (uintptr_t)a->data ||
        pinned != (a->kind == SIM_PINNED))
        return sim_leave(code ? code : SIM_INVALID_VALUE);
    *at = a->next;
    a->device->used[a->kind] -= a->size;
    sim.live--;
    sim_called(SIM_CALLED_FREE, a->device, 0, a->size, sim_now());
    sim_leave(code);
    free(a->data);
    free(a);
    return code;
}

int sim_memory_allocate(void **out, size_t size)
{
    return memory_allocate(SIM_CALL_memory_allocate, SIM_DEVICE, size, out);
}

int sim_memory_free(void *memory)
{
    return memory_release(SIM_CALL_memory_free, memory, false);
}

int sim_pinned_allocate(void **out, size_t size, unsigned flags)
{
    return flags == 3 ? memory_allocate(SIM_CALL_pinned_allocate, SIM_PINNED, size, out)
                      : SIM_INVALID_VALUE;
}

int sim_pinned_free(void *memory)
{
    return memory_release(SIM_CALL_pinned_free, memory, true);
}

int sim_managed_allocate(void **out, size_t size, unsigned flags)
{
    return flags == 1 ? memory_allocate(SIM_CALL_managed_allocate, SIM_MANAGED, size, out)
                      : SIM_INVALID_VALUE;
}

int sim_memory_info(size_t *out_free, size_t *out_total)
{
    struct sim_device *device;
    int code = sim_enter_context(SIM_CALL_memory_info, &device);

    if (!code) {
        *out_total = sim.memory;
        *out_free = sim.memory - device->used[SIM_DEVICE];
    }
    return sim_leave(code);
}
