/* SPDX-License-Identifier: Apache-2.0 */
/* memory.h: device memory inside the core: storages, shared by the tensors that view them. */
#ifndef BP_MEMORY_PRIVATE_H
#define BP_MEMORY_PRIVATE_H

#include "../device/device.h"

/* What may still be done to a storage. */
enum bp_access {
    BP_ACCESS_WRITE = 0,
    BP_ACCESS_READ = 1,   /* imported for reading only; its owner may change it */
    BP_ACCESS_FROZEN = 2, /* bp_tensor_freeze: nobody changes it */
};

/* One allocation. */
struct bp_storage {
    struct bp_pending pending; /* first */
    _Atomic uint32_t refs;
    struct bp_device *device; /* a reference */
    struct bp_memory memory;  /* the plugin's; {NULL, NULL} for 0 bytes */
    uint64_t size;            /* bytes asked for */
    uint64_t taken;           /* bytes allocated: size rounded up to the alignment */
    uint64_t id;              /* unique in the process, from 1 */
    _Atomic uint64_t version; /* rises with each write that the core knows of */
    _Atomic uint32_t access;  /* enum bp_access; it only rises */
    uint32_t space;           /* enum bp_space */
};

/* size bytes in space (enum bp_space); 0 bytes is an allocation without memory. On exhaustion the
 * device is synchronised and what was pending is given back, once. BP_ERR_UNSUPPORTED: the device
 * has no such space. */
enum bp_status bp_storage_create(struct bp_device *device, uint64_t size, uint32_t space,
                                 struct bp_storage **out_storage);

/* A storage over size bytes of memory that somebody else owns, which the device reaches as memory
 * of space. It is neither counted nor cached. release(ctx) is called once, without locks, on a
 * thread that entered the core, when no tensor shares the storage and the work that uses it has
 * ended; never if this call fails. */
enum bp_status bp_storage_import(struct bp_device *device, const struct bp_memory *memory,
                                 uint64_t size, uint32_t space, void (*release)(void *ctx),
                                 void *ctx, struct bp_storage **out_storage);

/* Ends an imported storage that nobody uses yet: its release is not called. */
void bp_storage_disown(struct bp_storage *storage);

/* A number that no storage has had. */
uint64_t bp_storage_new_id(void);

/* Gives a reference back. The memory goes back to the plugin when the work that uses it has ended:
 * at once on an inline device, else when the device is next known to have got that far. Never
 * blocks. */
void bp_storage_release(struct bp_storage *storage);
static inline void bp_storage_retain(struct bp_storage *storage)
{
    atomic_fetch_add_explicit(&storage->refs, 1, memory_order_relaxed);
}

/* The plugin has taken a piece of work of stream, which uses n things (NULL ones are passed over):
 * its number. Call it when the callback has returned, whatever it answered. */
uint64_t bp_work_note(struct bp_stream *stream, struct bp_pending *const *used, uint32_t n);

/* Lets go of something: now, if its work is known to have ended, else when that is known. */
void bp_pending_release(struct bp_device *device, struct bp_pending *pending);

/* Work of the stream up to number has ended: what waited for no more than that goes. */
void bp_memory_passed(struct bp_stream *stream, uint64_t number);

/* What waited for work up to device->done goes. */
void bp_memory_collect(struct bp_device *device);

/* Waits for the device and lets all that is pending go: the last act of a device. */
void bp_memory_finish(struct bp_device *device);

#endif
