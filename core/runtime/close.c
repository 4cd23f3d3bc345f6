/* SPDX-License-Identifier: Apache-2.0 */
/* close.c: destroys a device when its last reference is dropped, after waiting for its work. */
#include "../memory/memory.h"
#include "../call/cache.h"
#include "../call/fallback.h"
#include "../device/profiled.h"
#include "runtime.h"

#include <stdlib.h>

/* Frees everything that the device owns. Deferred objects are freed even if the device cannot
 * synchronize at its end. */
static void device_destroy(struct bp_device *device)
{
    struct bp_core *core = device->core;

    bp_device_drain(device, &bp_deadline_none);
    if (bp_process_is_exiting()) {
        bp_process_abandon(device);
        return;
    }
    bp_device_profile_finish(device);
    bp_cache_destroy(atomic_load(&device->calls));
    bp_fallback_finish(device);
    bp_deferred_finish(device);
    bp_memory_finish(device);
    bp_timelines_finish(device);
    pthread_mutex_destroy(&device->lock);
    device->magic = 0;
    free(device->failure.why);
    free(device->lost.why);
    free(device);
    bp_core_release(core);
}

static void *device_destroy_thread(void *device)
{
    if (bp_process_busy_begin() == BP_OK) {
        device_destroy(device);
        bp_process_busy_end();
    }
    return NULL;
}

static enum bp_status device_destroy_detached(void *device)
{
    device_destroy_thread(device);
    return BP_OK;
}

/* Destroys the device on another thread, which continues if the wait is not over by the deadline:
 * memory that work still uses is never freed. */
static void device_destroy_until(struct bp_device *device, const struct bp_deadline *until)
{
    struct bp_core *core = device->core;
    bool begun, late = false;
    char why[1280];

    /* Written now, because the device may be freed later. */
    bp_deadline_describe(device, NULL, UINT64_MAX, until, why, sizeof why);
    bp_core_retain(core);
    bp_thread_run_until(device_destroy_detached, device, until, &begun, &late);
    if (!begun) bp_core_log(core, BP_LOG_ERROR, "%s; no thread to close it: it stays open", why);
    if (late) bp_core_log(core, BP_LOG_WARN, "%s; it is closed when that has ended", why);
    bp_core_release(core);
}

/* On a worker, another thread destroys the device: the worker could otherwise wait for itself, or
 * for a worker that waits for it. */
static void device_destroy_begin(struct bp_device *device)
{
    struct bp_deadline until = bp_deadline_of(device);

    if (!bp_queue_on_worker() && !bp_deadline_is_set(&until)) device_destroy(device);
    else if (!bp_queue_on_worker()) device_destroy_until(device, &until);
    else if (!bp_thread_create_detached(device_destroy_thread, device))
        bp_core_log(device->core, BP_LOG_ERROR, "%s: no thread to close it: it stays open",
                    device->name);
}

/* The last reference is dropped under the core's lock, so that no other thread finds a device that
 * is being destroyed. Live buffers keep a device alive without references: it stays in the core's
 * list, and the release of its last buffer destroys it. */
void bp_device_close(struct bp_device *device)
{
    struct bp_core *core = device->core;
    struct bp_device **at = &core->devices;
    bool stopped = bp_process_busy_begin() != BP_OK;
    uint32_t refs;

    pthread_mutex_lock(&core->lock);
    refs = atomic_fetch_sub_explicit(&device->refs, 1, memory_order_acq_rel);
    if (refs == 1 && bp_memory_is_live(device)) refs = 0; /* its last buffer destroys it */
    if (refs == 1 && !stopped) {
        while (*at != device) at = &(*at)->next;
        *at = device->next;
    }
    pthread_mutex_unlock(&core->lock);

    if (refs == 1 && !stopped) device_destroy_begin(device);
    if (!stopped) bp_process_busy_end();
}
