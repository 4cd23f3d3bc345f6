/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c: device memory straight from the plugin, given back when its work is done. */
#include "memory.h"

#include <inttypes.h>
#include <stdlib.h>

static void count(struct bp_device *device, uint64_t taken)
{
    pthread_mutex_lock(&device->memory_lock);
    device->allocated += taken;
    device->allocations++;
    if (device->allocated > device->peak) device->peak = device->allocated;
    pthread_mutex_unlock(&device->memory_lock);
}

static enum bp_status allocate(struct bp_device *device, struct bp_storage *storage)
{
    struct bp_plugin_entry *entry = device->entry;

    bp_error_enter();
    return bp_error_leave(entry->runtime.memory_allocate(entry->self, device->index,
                                                         BP_SPACE_DEVICE, storage->taken,
                                                         &storage->memory),
                          entry->plugin.name, "memory_allocate");
}

/* A plugin's failure becomes one that says what was asked, in use and pending. */
static enum bp_status explain(struct bp_device *device, uint64_t taken)
{
    uint64_t allocated;

    pthread_mutex_lock(&device->memory_lock);
    allocated = device->allocated;
    pthread_mutex_unlock(&device->memory_lock);
    return bp_error(BP_ERR_MEMORY, "%s: out of memory: asked for %" PRIu64 " bytes, %" PRIu64
                    " bytes in use of %" PRIu64 "; free tensors, or use smaller ones (%s)",
                    device->name, taken, allocated, device->properties.memory, bp_error_message());
}

static enum bp_status take(struct bp_device *device, struct bp_storage *storage)
{
    enum bp_status status;

    if (device->properties.max_alloc && storage->taken > device->properties.max_alloc)
        return bp_error(BP_ERR_MEMORY,
                        "%s: out of memory: asked for %" PRIu64 " bytes, the device allocates at "
                        "most %" PRIu64 " at once",
                        device->name, storage->taken, device->properties.max_alloc);
    status = allocate(device, storage);
    if (status == BP_ERR_MEMORY && !device->is_inline && bp_device_synchronize(device) == BP_OK)
        status = allocate(device, storage);
    return status == BP_ERR_MEMORY ? explain(device, storage->taken) : status;
}

enum bp_status bp_storage_create(struct bp_device *device, uint64_t size,
                                 struct bp_storage **out_storage)
{
    struct bp_storage *storage;
    enum bp_status status = BP_OK;

    if (size > INT64_MAX - device->alignment)
        return bp_error(BP_ERR_MEMORY, "%s: out of memory: asked for %" PRIu64 " bytes",
                        device->name, size);
    storage = calloc(1, sizeof *storage);
    if (!storage) return bp_error(BP_ERR_MEMORY, "no host memory for a storage");
    atomic_init(&storage->refs, 1);
    storage->size = size;
    storage->taken = (size + device->alignment - 1) & ~(device->alignment - 1);
    storage->device = device;
    if (storage->taken) status = take(device, storage);
    if (status) {
        free(storage);
        return status;
    }
    bp_device_retain(device);
    if (storage->taken) count(device, storage->taken);
    *out_storage = storage;
    return BP_OK;
}

/* To the plugin. The caller holds no lock. */
static void give_back(struct bp_storage *storage)
{
    struct bp_device *device = storage->device;
    struct bp_plugin_entry *entry = device->entry;

    if (storage->taken) {
        entry->runtime.memory_free(entry->self, device->index, BP_SPACE_DEVICE, &storage->memory);
        pthread_mutex_lock(&device->memory_lock);
        device->allocated -= storage->taken;
        pthread_mutex_unlock(&device->memory_lock);
    }
    free(storage);
}

/* A pending storage does not keep its device alive: the device's end waits for it instead. */
void bp_storage_release(struct bp_storage *storage)
{
    struct bp_device *device = storage->device;

    if (atomic_fetch_sub_explicit(&storage->refs, 1, memory_order_acq_rel) != 1) return;
    if (atomic_load(&storage->last) <= atomic_load(&device->done)) {
        give_back(storage);
    } else {
        pthread_mutex_lock(&device->memory_lock);
        storage->next = device->pending;
        device->pending = storage;
        pthread_mutex_unlock(&device->memory_lock);
    }
    bp_device_release(device);
}

static void collect(struct bp_device *device, uint64_t done)
{
    struct bp_storage *ready = NULL, *next;

    pthread_mutex_lock(&device->memory_lock);
    for (struct bp_storage **at = &device->pending; *at;) {
        struct bp_storage *s = *at;
        if (atomic_load(&s->last) > done) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        s->next = ready;
        ready = s;
    }
    pthread_mutex_unlock(&device->memory_lock);
    for (; ready; ready = next) {
        next = ready->next;
        give_back(ready);
    }
}

void bp_memory_collect(struct bp_device *device)
{
    if (!device->is_inline) collect(device, atomic_load(&device->done));
}

/* A device that fails to synchronise at its end is lost: its blocks go back all the same. */
void bp_memory_finish(struct bp_device *device)
{
    struct bp_plugin_entry *entry = device->entry;

    if (!device->pending) return;
    entry->runtime.synchronize(entry->self, device->index, NULL);
    collect(device, UINT64_MAX);
}
