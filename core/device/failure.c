/* SPDX-License-Identifier: Apache-2.0 */
/* failure.c: failures that stay, with the launches that may have failed; waits that are counted. */
#include "device.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool bp_is_of_the_wait(enum bp_status status)
{
    return status == BP_OK || status == BP_ERR_TIMEOUT || status == BP_ERR_BUSY ||
           status == BP_ERR_INVALID || status == BP_ERR_UNSUPPORTED || status == BP_ERR_MEMORY ||
           status == BP_ERR_BLOCKED;
}

enum bp_status bp_failure_refuse(const struct bp_device *device, const char *what,
                                 const struct bp_failure *failure)
{
    uint32_t status = atomic_load_explicit(&failure->status, memory_order_acquire);

    if (!status) return BP_OK;
    return bp_error((enum bp_status)status, "%s: the %s has failed before: %s", device->name, what,
                    failure->why ? failure->why : "");
}

enum bp_status bp_failure_keep(struct bp_failure *failure, pthread_mutex_t *lock,
                               enum bp_status status)
{
    pthread_mutex_lock(lock);
    if (!bp_failed(failure)) {
        failure->why = strdup(bp_error_message());
        atomic_store_explicit(&failure->status, status, memory_order_release);
    }
    pthread_mutex_unlock(lock);
    return status;
}

/* "launches 812 to 815: gather, add, softmax, copy in"; the first ones left out where there are
 * many. */
static void name_launches(const struct bp_timeline *timeline, char *text, size_t size)
{
    enum { SHOWN = 16 };
    uint64_t last = atomic_load(&timeline->last), first = atomic_load(&timeline->done) + 1, from;
    size_t used;

    if (first > last) {
        *text = 0;
        return;
    }
    from = last - first >= SHOWN ? last - SHOWN + 1 : first;
    used = (size_t)(first == last
                        ? snprintf(text, size, " (launch %" PRIu64 ": ", last)
                        : snprintf(text, size,
                                   " (one of the launches %" PRIu64 " to %" PRIu64 ": %s", first,
                                   last, from > first ? "..., " : ""));
    for (uint64_t n = from; n <= last && used < size; n++) {
        const char *name = atomic_load_explicit(&timeline->name[n % BP_NAMES],
                                                memory_order_relaxed);
        used += (size_t)snprintf(text + used, size - used, "%s%s", n > from ? ", " : "",
                                 name ? name : "?");
    }
    if (used < size) snprintf(text + used, size - used, ")");
}

enum bp_status bp_timeline_fail(struct bp_timeline *timeline, enum bp_status status)
{
    struct bp_device *device = timeline->device;
    char names[640] = "";

    if (bp_is_of_the_wait(status)) return status;
    if (!timeline->now) name_launches(timeline, names, sizeof names);
    bp_error_write("%s%s", bp_error_message(), names);
    if (device->emulated & BP_EMULATED_STREAMS && !timeline->queue)
        return bp_failure_keep(&device->failure, &device->lock, status);
    return bp_failure_keep(&timeline->failure, &timeline->lock, status);
}

static const char *block_text(uint32_t reason)
{
    switch (reason) {
#define X(NAME, text) \
    case BP_BLOCK_##NAME: return text;
        BP_BLOCKS(X)
#undef X
    default: return "?";
    }
}

enum bp_status bp_block(struct bp_device *device, uint32_t reason)
{
    if (device->core->deny_blocking)
        return bp_error(BP_ERR_BLOCKED, "%s: this call would wait (%s), which BP_BLOCK=deny forbids",
                        device->name, block_text(reason));
    atomic_fetch_add_explicit(&device->blocked[reason], 1, memory_order_relaxed);
    return BP_OK;
}

uint64_t bp_device_blocked(struct bp_device *device, uint32_t reason)
{
    return bp_device_is(device) && reason < BP_BLOCK_COUNT ? atomic_load(&device->blocked[reason])
                                                           : 0;
}
