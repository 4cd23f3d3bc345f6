/* SPDX-License-Identifier: Apache-2.0 */
/* close.c: the last reference to a device goes: its work is waited for, and all it has ends. */
#include "../memory/memory.h"
#include "../call/cache.h"
#include "../call/fallback.h"
#include "runtime.h"

#include <stdlib.h>

/* A device that cannot synchronise at its end: what is pending goes all the same. */
static void end_device(struct bp_device *device)
{
    struct bp_core *core = device->core;

    bp_device_drain(device, &bp_no_deadline);
    if (bp_leaving()) {
        bp_process_abandon(device);
        return;
    }
    bp_cache_destroy(atomic_load(&device->calls));
    bp_fallback_finish(device);
    bp_pending_finish(device);
    bp_memory_finish(device);
    bp_timelines_finish(device);
    pthread_mutex_destroy(&device->lock);
    device->magic = 0;
    free(device->failure.why);
    free(device->lost.why);
    free(device);
    bp_core_drop(core);
}

static void *end_elsewhere(void *device)
{
    if (bp_prepare_enter() == BP_OK) {
        end_device(device);
        bp_prepare_leave();
    }
    return NULL;
}

static enum bp_status end_aside(void *device)
{
    end_elsewhere(device);
    return BP_OK;
}

/* On another thread, which goes on where its wait is not over by the deadline: nothing is freed
 * that work uses. */
static void end_until(struct bp_device *device, const struct bp_deadline *until)
{
    struct bp_core *core = device->core;
    bool begun, late = false;
    char why[1280];

    bp_deadline_text(device, NULL, UINT64_MAX, until, why, sizeof why); /* it may be gone later */
    bp_core_retain(core);
    bp_run_aside(end_aside, device, until, &begun, &late);
    if (!begun) bp_core_log(core, BP_LOG_ERROR, "%s; no thread to close it: it stays open", why);
    if (late) bp_core_log(core, BP_LOG_WARN, "%s; it is closed when that has ended", why);
    bp_core_drop(core);
}

/* A worker that ended a device could wait for itself, or for a worker that waits for it. */
static void device_end(struct bp_device *device)
{
    struct bp_deadline until = bp_deadline_of(device);

    if (!bp_on_worker() && !bp_deadline_is(&until)) end_device(device);
    else if (!bp_on_worker()) end_until(device, &until);
    else if (!bp_process_detach(end_elsewhere, device))
        bp_core_log(device->core, BP_LOG_ERROR, "%s: no thread to close it: it stays open",
                    device->name);
}

/* The last reference goes under the core's lock, so that nobody finds a device that is on its way
 * out. Storages keep the device without references: while some live it stays where it can be found,
 * and the last of them ends it. */
void bp_device_close(struct bp_device *device)
{
    struct bp_core *core = device->core;
    struct bp_device **at = &core->devices;
    bool stopped = bp_prepare_enter() != BP_OK;
    uint32_t refs;

    pthread_mutex_lock(&core->lock);
    refs = atomic_fetch_sub_explicit(&device->refs, 1, memory_order_acq_rel);
    if (refs == 1 && bp_memory_is_live(device)) refs = 0; /* its last storage ends it */
    if (refs == 1 && !stopped) {
        while (*at != device) at = &(*at)->next;
        *at = device->next;
    }
    pthread_mutex_unlock(&core->lock);

    if (refs == 1 && !stopped) device_end(device);
    if (!stopped) bp_prepare_leave();
}
