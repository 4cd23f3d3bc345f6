/* SPDX-License-Identifier: Apache-2.0 */
/* memory.h: device memory inside the core: storages, shared by the tensors that view them. */
#ifndef BP_MEMORY_PRIVATE_H
#define BP_MEMORY_PRIVATE_H

#include "../device/device.h"

/* One allocation. */
struct bp_storage {
    _Atomic uint32_t refs;
    struct bp_device *device; /* a reference */
    struct bp_memory memory;  /* the plugin's; {NULL, NULL} for 0 bytes */
    uint64_t size;            /* bytes asked for */
    uint64_t taken;           /* bytes allocated: size rounded up to the alignment */
    _Atomic uint64_t last;    /* the device's number of the last work that uses it */
    struct bp_storage *next;  /* in device->pending */
};

/* size bytes of the device's own memory; 0 bytes is an allocation without memory. On exhaustion the
 * device is synchronised and what was pending is given back, once. */
enum bp_status bp_storage_create(struct bp_device *device, uint64_t size,
                                 struct bp_storage **out_storage);

/* Gives a reference back. The memory goes back to the plugin when the work that uses it has ended:
 * at once on an inline device, else when the device is next known to have got that far. Never
 * blocks. */
void bp_storage_release(struct bp_storage *storage);
static inline void bp_storage_retain(struct bp_storage *storage)
{
    atomic_fetch_add_explicit(&storage->refs, 1, memory_order_relaxed);
}

/* Work with this number of the device uses the storage. */
static inline void bp_storage_use(struct bp_storage *storage, uint64_t number)
{
    uint64_t last = atomic_load_explicit(&storage->last, memory_order_relaxed);

    while (last < number)
        if (atomic_compare_exchange_weak_explicit(&storage->last, &last, number,
                                                  memory_order_relaxed, memory_order_relaxed))
            break;
}

/* Gives pending memory back whose work has ended. */
void bp_memory_collect(struct bp_device *device);

/* Waits for the device and gives all pending memory back: the last act of a device. */
void bp_memory_finish(struct bp_device *device);

#endif
