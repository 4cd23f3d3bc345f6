/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c: device memory straight from the plugin, given back when its work is done. */
#include "memory.h"

#include <inttypes.h>
#include <stdlib.h>

struct bp_memory_state {
    pthread_mutex_t lock;
    uint64_t allocated, peak, allocations;
};

static void count(struct bp_memory_state *m, uint64_t taken)
{
    pthread_mutex_lock(&m->lock);
    m->allocated += taken;
    m->allocations++;
    if (m->allocated > m->peak) m->peak = m->allocated;
    pthread_mutex_unlock(&m->lock);
}

/* What the plugin answers is believed only as far as it can be. */
static enum bp_status check_memory(const struct bp_device *device, const struct bp_memory *memory)
{
    bool handles = device->properties.flags & BP_DEVICE_HANDLES;

    if (!memory->data && !memory->handle)
        return bp_error(BP_ERR_PLUGIN, "plugin %s: memory_allocate answered success with no memory",
                        device->entry->plugin.name);
    if (!handles && ((uintptr_t)memory->data & (device->alignment - 1) || !memory->data))
        return bp_error(BP_ERR_PLUGIN,
                        "plugin %s: memory_allocate answered address %p: its alignment is not the "
                        "%" PRIu64 " bytes that its device_properties promise",
                        device->entry->plugin.name, memory->data, device->alignment);
    return BP_OK;
}

static enum bp_status allocate(struct bp_storage *storage)
{
    struct bp_device *device = storage->device;
    struct bp_plugin_entry *entry = device->entry;

    bp_error_enter();
    TRY(bp_device_leave(device,
                        entry->runtime.memory_allocate(entry->self, device->index, storage->space,
                                                       storage->taken, &storage->memory),
                        "memory_allocate"));
    return check_memory(device, &storage->memory);
}

/* A plugin's failure becomes one that says what was asked, in use and pending. */
static enum bp_status explain(struct bp_device *device, uint64_t taken)
{
    uint64_t allocated;

    pthread_mutex_lock(&device->memory->lock);
    allocated = device->memory->allocated;
    pthread_mutex_unlock(&device->memory->lock);
    return bp_error(BP_ERR_MEMORY, "%s: out of memory: asked for %" PRIu64 " bytes, %" PRIu64
                    " bytes in use of %" PRIu64 "; free tensors, or use smaller ones (%s)",
                    device->name, taken, allocated, device->properties.memory, bp_error_message());
}

static enum bp_status take(struct bp_storage *storage)
{
    struct bp_device *device = storage->device;
    enum bp_status status;

    TRY(bp_device_check_lost(device));
    if (device->properties.max_alloc && storage->taken > device->properties.max_alloc)
        return bp_error(BP_ERR_MEMORY,
                        "%s: out of memory: asked for %" PRIu64 " bytes, the device allocates at "
                        "most %" PRIu64 " at once",
                        device->name, storage->taken, device->properties.max_alloc);
    status = allocate(storage);
    if (status == BP_ERR_MEMORY && !device->is_inline) {
        TRY(bp_block(device, BP_BLOCK_MEMORY));
        TRY(bp_device_synchronize(device)); /* gives back what is pending */
        status = allocate(storage);
    }
    return status == BP_ERR_MEMORY ? explain(device, storage->taken) : status;
}

/* To the plugin. */
static void give_back(struct bp_pending *pending)
{
    struct bp_storage *storage =
        (struct bp_storage *)((char *)pending - offsetof(struct bp_storage, pending));
    struct bp_device *device = storage->device;
    struct bp_plugin_entry *entry = device->entry;

    if (storage->taken) {
        entry->runtime.memory_free(entry->self, device->index, storage->space, &storage->memory);
        pthread_mutex_lock(&device->memory->lock);
        device->memory->allocated -= storage->taken;
        pthread_mutex_unlock(&device->memory->lock);
    }
    free(storage);
}

static _Atomic uint64_t ids;

enum bp_status bp_storage_create(struct bp_device *device, struct bp_timeline *home, uint32_t space,
                                 uint64_t size, struct bp_storage **out_storage)
{
    struct bp_storage *storage;
    enum bp_status status = BP_OK;

    if (size > INT64_MAX - device->alignment)
        return bp_error(BP_ERR_MEMORY, "%s: out of memory: asked for %" PRIu64 " bytes",
                        device->name, size);
    storage = calloc(1, sizeof *storage);
    if (!storage) return bp_error(BP_ERR_MEMORY, "no host memory for a storage");
    atomic_init(&storage->refs, 1);
    storage->pending.release = give_back;
    storage->home = home;
    storage->space = space;
    storage->id = atomic_fetch_add(&ids, 1) + 1;
    storage->size = size;
    storage->taken = (size + device->alignment - 1) & ~(device->alignment - 1);
    storage->device = device;
    if (storage->taken) status = take(storage);
    if (status) {
        free(storage);
        return status;
    }
    bp_device_retain(device);
    if (storage->taken) count(device->memory, storage->taken);
    *out_storage = storage;
    return BP_OK;
}

/* What is pending does not keep its device alive: the device's end waits for it instead. */
void bp_storage_release(struct bp_storage *storage)
{
    struct bp_device *device = storage->device;
    uint64_t last;

    if (atomic_fetch_sub_explicit(&storage->refs, 1, memory_order_acq_rel) != 1) return;
    last = atomic_load(&storage->home->last);
    if (!bp_timeline_passed(storage->home, last))
        bp_users_add(&storage->pending.users, storage->home, last);
    bp_pending_release(device, &storage->pending);
    bp_device_release(device);
}

void bp_storage_note(struct bp_storage *storage, struct bp_timeline *timeline, uint64_t number)
{
    bool noted;

    pthread_mutex_lock(&storage->device->lock);
    noted = bp_users_add(&storage->pending.users, timeline, number);
    pthread_mutex_unlock(&storage->device->lock);
    if (!noted) bp_timeline_wait(timeline, number, UINT64_MAX);
}

enum bp_status bp_memory_init(struct bp_device *device)
{
    device->memory = calloc(1, sizeof *device->memory);
    if (!device->memory) return bp_error(BP_ERR_MEMORY, "%s: no memory", device->name);
    pthread_mutex_init(&device->memory->lock, NULL);
    return BP_OK;
}

void bp_memory_finish(struct bp_device *device)
{
    if (!device->memory) return;
    pthread_mutex_destroy(&device->memory->lock);
    free(device->memory);
}

void bp_memory_collect(struct bp_device *device)
{
    bp_pending_collect(device, false);
}

void bp_memory_stats(struct bp_device *device, struct bp_memory_stats *out_stats)
{
    pthread_mutex_lock(&device->memory->lock);
    out_stats->allocated = device->memory->allocated;
    out_stats->peak = device->memory->peak;
    out_stats->allocations = device->memory->allocations;
    pthread_mutex_unlock(&device->memory->lock);
}
