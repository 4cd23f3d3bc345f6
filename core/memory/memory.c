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

static enum bp_status allocate(struct bp_device *device, struct bp_storage *storage)
{
    struct bp_plugin_entry *entry = device->entry;

    bp_error_enter();
    TRY(bp_error_leave(entry->runtime.memory_allocate(entry->self, device->index, storage->space,
                                                      storage->taken, &storage->memory),
                       entry->plugin.name, "memory_allocate"));
    return check_memory(device, &storage->memory);
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
    if (status == BP_ERR_MEMORY && !device->is_inline) {
        TRY(bp_device_synchronize(device)); /* gives back what is pending */
        status = allocate(device, storage);
    }
    return status == BP_ERR_MEMORY ? explain(device, storage->taken) : status;
}

/* To the plugin. */
static void give_back(struct bp_pending *pending)
{
    struct bp_storage *storage = (struct bp_storage *)pending;
    struct bp_device *device = storage->device;
    struct bp_plugin_entry *entry = device->entry;

    if (storage->taken) {
        entry->runtime.memory_free(entry->self, device->index, storage->space, &storage->memory);
        pthread_mutex_lock(&device->memory_lock);
        device->allocated -= storage->taken;
        pthread_mutex_unlock(&device->memory_lock);
    }
    free(storage);
}

enum bp_status bp_storage_create(struct bp_device *device, uint64_t size, uint32_t space,
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
    storage->pending.release = give_back;
    storage->size = size;
    storage->taken = (size + device->alignment - 1) & ~(device->alignment - 1);
    storage->device = device;
    storage->space = space;
    storage->id = bp_storage_new_id();
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

/* What is pending does not keep its device alive: the device's end waits for it instead. */
void bp_storage_release(struct bp_storage *storage)
{
    struct bp_device *device = storage->device;

    if (atomic_fetch_sub_explicit(&storage->refs, 1, memory_order_acq_rel) != 1) return;
    bp_pending_release(device, &storage->pending);
    bp_device_release(device);
}

uint64_t bp_work_note(struct bp_stream *stream, struct bp_pending *const *used, uint32_t n)
{
    struct bp_device *device = stream->device;
    uint64_t number;

    if (device->is_inline) return 0;
    pthread_mutex_lock(&device->memory_lock);
    number = atomic_fetch_add_explicit(&device->submitted, 1, memory_order_relaxed) + 1;
    for (uint32_t i = 0; i < n; i++) {
        struct bp_use *use = used[i] ? &used[i]->use : NULL;
        if (!use) continue;
        use->serial = use->serial && use->serial != stream->serial ? BP_SERIAL_MANY
                                                                   : stream->serial;
        use->last = number;
    }
    pthread_mutex_unlock(&device->memory_lock);
    return number;
}

/* Under memory_lock: whether the last work that used it is known to have ended. A stream that is
 * gone was waited for. */
static bool is_over(const struct bp_device *device, const struct bp_use *use)
{
    if (use->last <= atomic_load(&device->done)) return true;
    if (use->serial == BP_SERIAL_MANY) return false;
    for (const struct bp_stream *s = device->streams; s; s = s->next)
        if (s->serial == use->serial) return use->last <= s->done;
    return true;
}

void bp_pending_release(struct bp_device *device, struct bp_pending *pending)
{
    bool over;

    pthread_mutex_lock(&device->memory_lock);
    over = is_over(device, &pending->use);
    if (!over) {
        pending->next = device->pending;
        device->pending = pending;
    }
    pthread_mutex_unlock(&device->memory_lock);
    if (over) pending->release(pending);
}

/* Takes what is over, or all, out of the list, then lets go of it without the lock. */
static void collect(struct bp_device *device, bool all)
{
    struct bp_pending *ready = NULL, *next;

    pthread_mutex_lock(&device->memory_lock);
    for (struct bp_pending **at = &device->pending; *at;) {
        struct bp_pending *p = *at;
        if (!all && !is_over(device, &p->use)) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        p->next = ready;
        ready = p;
    }
    pthread_mutex_unlock(&device->memory_lock);
    for (; ready; ready = next) {
        next = ready->next;
        ready->release(ready);
    }
}

void bp_memory_passed(struct bp_stream *stream, uint64_t number)
{
    struct bp_device *device = stream->device;

    pthread_mutex_lock(&device->memory_lock);
    if (stream->done < number) stream->done = number;
    pthread_mutex_unlock(&device->memory_lock);
    collect(device, false);
}

void bp_memory_collect(struct bp_device *device)
{
    if (!device->is_inline) collect(device, false);
}

/* A device that fails to synchronise at its end is lost: what is pending goes all the same. */
void bp_memory_finish(struct bp_device *device)
{
    struct bp_plugin_entry *entry = device->entry;

    if (!device->pending) return;
    entry->runtime.synchronize(entry->self, device->index, NULL);
    collect(device, true);
}
