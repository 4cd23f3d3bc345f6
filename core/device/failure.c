/* SPDX-License-Identifier: Apache-2.0 */
/* failure.c: stores failures with the names of the launches that may have failed, and counts the
 * calls that had to wait. */
#include "device.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool bp_status_is_of_wait(enum bp_status status)
{
    return status == BP_OK || status == BP_ERR_TIMEOUT || status == BP_ERR_BUSY ||
           status == BP_ERR_NOT_READY || status == BP_ERR_INVALID ||
           status == BP_ERR_UNSUPPORTED || status == BP_ERR_MEMORY || status == BP_ERR_BLOCKED;
}

enum bp_status bp_failure_check(const struct bp_device *device, const char *what,
                                struct bp_failure *failure)
{
    uint32_t status = atomic_load_explicit(&failure->status, memory_order_acquire);

    if (!status) return BP_OK;
    atomic_store_explicit(&failure->reported, true, memory_order_relaxed);
    return bp_error((enum bp_status)status, "%s: the %s has failed before: %s", device->name, what,
                    failure->why ? failure->why : "");
}

enum bp_status bp_device_check_lost(struct bp_device *device)
{
    struct bp_failure *lost = &device->lost;

    if (!bp_failure_is_set(lost)) return BP_OK;
    return bp_error(BP_ERR_DEVICE_LOST,
                    "%s: the device is lost: %s; destroy all that is of it; it can be opened again "
                    "where its driver allows that",
                    device->name, lost->why ? lost->why : "");
}

enum bp_status bp_device_check(struct bp_device *device)
{
    TRY(bp_device_check_lost(device));
    return bp_failure_check(device, "device", &device->failure);
}

/* Called with the timeline locked, before its first failure is stored. Work that has ended by now
 * has succeeded; whether work that ends later has succeeded will not be known. */
static void failure_set_last_good(struct bp_timeline *timeline)
{
    if (!bp_failure_is_set(&timeline->failure) && !bp_failure_is_set(&timeline->device->failure))
        timeline->last_good = atomic_load(&timeline->done);
}

/* Called under the lock of the failure's owner. Stores the first failure, with the message on this
 * thread; later ones are ignored. */
static void failure_set(struct bp_failure *failure, enum bp_status status)
{
    if (bp_failure_is_set(failure)) return;
    failure->why = strdup(bp_error_message());
    atomic_store_explicit(&failure->status, status, memory_order_release);
}

enum bp_status bp_timeline_set_failure(struct bp_timeline *timeline, enum bp_status status)
{
    pthread_mutex_lock(&timeline->lock);
    failure_set_last_good(timeline);
    failure_set(&timeline->failure, status);
    pthread_mutex_unlock(&timeline->lock);
    return status;
}

/* Stores a failure of the whole device: every stream checks device->failure. */
static enum bp_status failure_set_all(struct bp_device *device, enum bp_status status)
{
    pthread_mutex_lock(&device->lock);
    for (struct bp_timeline *t = atomic_load(&device->timelines); t; t = t->next) {
        pthread_mutex_lock(&t->lock);
        failure_set_last_good(t);
        pthread_mutex_unlock(&t->lock);
    }
    failure_set(&device->failure, status);
    pthread_mutex_unlock(&device->lock);
    return status;
}

/* Work of a lost device counts as ended, so the failure is stored before the device is marked as
 * lost: a thread that sees the device lost finds the failure. */
enum bp_status bp_device_set_lost(struct bp_device *device)
{
    failure_set_all(device, BP_ERR_DEVICE_LOST);
    pthread_mutex_lock(&device->lock);
    failure_set(&device->lost, BP_ERR_DEVICE_LOST);
    pthread_mutex_unlock(&device->lock);
    return BP_ERR_DEVICE_LOST;
}

enum bp_status bp_device_leave(struct bp_device *device, enum bp_status status,
                               const char *callback)
{
    return bp_addon_leave(device, device->entry, status, callback);
}

enum bp_status bp_addon_leave(struct bp_device *device, const struct bp_plugin_entry *entry,
                              enum bp_status status, const char *callback)
{
    status = bp_error_leave(status, entry->plugin.name, callback);
    return status == BP_ERR_DEVICE_LOST ? bp_device_set_lost(device) : status;
}

enum bp_status bp_kernel_leave(struct bp_device *device, enum bp_status status,
                               const struct bp_kernel *kernel)
{
    status = bp_error_leave(status, bp_kernel_plugin(device->entry, kernel)->plugin.name,
                            kernel->name);
    return status == BP_ERR_DEVICE_LOST ? bp_device_set_lost(device) : status;
}

/* Called with the timeline locked. A failure of the timeline may have been retired; retired
 * failures stay until the end of the device. */
static enum bp_status failure_find(struct bp_timeline *timeline, uint64_t number)
{
    struct bp_device *device = timeline->device;
    uint64_t base = atomic_load(&timeline->base), last_good = timeline->last_good;
    enum bp_status status = BP_OK;

    for (struct bp_retired_failure *p = atomic_load(&timeline->retired_failures); p && !status;
         p = p->next)
        if (number >= p->first && number <= p->last)
            status = bp_failure_check(device, "stream", &p->failure);
    if (status == BP_OK && number > base && number > last_good)
        status = bp_failure_check(device, "stream", &timeline->failure);
    if (status == BP_OK && number > last_good)
        status = bp_failure_check(device, "device", &device->failure);
    return status;
}

enum bp_status bp_fault_report(struct bp_timeline *timeline, const struct bp_kernel *kernel)
{
    uint32_t code = timeline->fault;

    timeline->fault = 0;
    return bp_error(BP_ERR_FAULT,
                    "%s: kernel %s found bad values in its inputs (code %u); what it wrote is "
                    "undefined",
                    kernel->op, kernel->name, code);
}

enum bp_status bp_timeline_check(struct bp_timeline *timeline, uint64_t number)
{
    enum bp_status status;

    TRY(bp_device_check_lost(timeline->device));
    if (!bp_failure_is_set(&timeline->failure) && !atomic_load(&timeline->retired_failures) &&
        !bp_failure_is_set(&timeline->device->failure))
        return BP_OK;
    pthread_mutex_lock(&timeline->lock);
    status = failure_find(timeline, number);
    pthread_mutex_unlock(&timeline->lock);
    return status;
}

enum bp_status bp_timeline_report(struct bp_timeline *timeline, uint64_t number,
                                  enum bp_status status)
{
    if (bp_status_is_of_wait(status)) return status;
    pthread_mutex_lock(&timeline->lock);
    for (struct bp_retired_failure *p = atomic_load(&timeline->retired_failures); p; p = p->next)
        if (number >= p->first && number <= p->last) atomic_store(&p->failure.reported, true);
    if (number > atomic_load(&timeline->base)) atomic_store(&timeline->failure.reported, true);
    pthread_mutex_unlock(&timeline->lock);
    return status;
}

/* A live stream returns its failure each time. The failure of a destroyed stream is returned until
 * a call has reported it once. */
enum bp_status bp_timeline_check_unreported(struct bp_timeline *timeline)
{
    struct bp_device *device = timeline->device;
    struct bp_failure *found = NULL;
    enum bp_status status = BP_OK;
    bool live;

    if (!bp_failure_is_set(&timeline->failure) && !atomic_load(&timeline->retired_failures))
        return BP_OK;
    pthread_mutex_lock(&device->lock);
    live = timeline->state == BP_TIMELINE_LIVE;
    pthread_mutex_unlock(&device->lock);
    pthread_mutex_lock(&timeline->lock);
    if (live || !atomic_load(&timeline->failure.reported)) found = &timeline->failure;
    if (found) status = bp_failure_check(device, "stream", found);
    for (struct bp_retired_failure *p = atomic_load(&timeline->retired_failures); p && !status;
         p = p->next)
        if (!atomic_load(&p->failure.reported))
            status = bp_failure_check(device, "stream", &p->failure);
    pthread_mutex_unlock(&timeline->lock);
    return status;
}

/* Omits the first names if there are many. */
uint64_t bp_timeline_describe(const struct bp_timeline *timeline, uint64_t number, char *text,
                              size_t size)
{
    enum { SHOWN = 16 };
    uint64_t last = atomic_load(&timeline->last), first = atomic_load(&timeline->done) + 1, from;
    uint64_t base = atomic_load(&timeline->base); /* the app counts from 1 */
    size_t used;

    *text = 0;
    if (last > number) last = number;
    if (first > last) return 0;
    from = last - first >= SHOWN ? last - SHOWN + 1 : first;
    used = (size_t)(first == last
                        ? snprintf(text, size, "launch %" PRIu64 ": ", last - base)
                        : snprintf(text, size, "launches %" PRIu64 " to %" PRIu64 ": %s",
                                   first - base, last - base, from > first ? "..., " : ""));
    for (uint64_t n = from; n <= last && used < size; n++) {
        const char *name = atomic_load_explicit(&timeline->name[n % BP_WORK_NAMES],
                                                memory_order_relaxed);
        used += (size_t)snprintf(text + used, size - used, "%s%s", n > from ? ", " : "",
                                 name ? name : "?");
    }
    return last - first + 1;
}

/* All work of the timeline has been found to have ended well, by a fence recorded behind the failed
 * work: the plugin did not report the failure then. The message says so. */
static void failure_add_ended(const struct bp_timeline *timeline)
{
    uint64_t last = atomic_load(&timeline->last), base = atomic_load(&timeline->base);
    const char *name = atomic_load_explicit(&timeline->name[last % BP_WORK_NAMES],
                                            memory_order_relaxed);

    if (last > base)
        bp_error_write("%s (one of the launches up to %" PRIu64 ", %s, of which plugin %s had said "
                       "before that they ended well)",
                       bp_error_message(), last - base, name ? name : "?",
                       timeline->device->entry->plugin.name);
}

/* Adds to the message the launches that may have failed: those of one timeline, or of all timelines
 * that the plugin runs in one order. */
static void failure_add_names(struct bp_device *device, const struct bp_timeline *only)
{
    const struct bp_timeline *t = only ? only : atomic_load(&device->timelines);
    char names[640] = "";
    uint64_t launches = 0;
    size_t used = 0;

    for (; t && used + 2 < sizeof names; t = only ? NULL : t->next) {
        size_t before = used;
        uint64_t count;
        if (t->is_inline || t->queue) continue;
        if (used) used += (size_t)snprintf(names + used, sizeof names - used, "; ");
        count = bp_timeline_describe(t, UINT64_MAX, names + used, sizeof names - used);
        used = count ? used + strlen(names + used) : before;
        launches += count;
    }
    names[used] = 0;
    if (used)
        bp_error_write("%s (%s%s)", bp_error_message(), launches > 1 ? "one of the " : "", names);
    else if (only) failure_add_ended(only);
}

void bp_device_fail(struct bp_device *device, enum bp_status status)
{
    if (bp_status_is_of_wait(status)) return;
    failure_add_names(device, NULL);
    failure_set_all(device, status);
}

enum bp_status bp_timeline_fail(struct bp_timeline *timeline, enum bp_status status)
{
    struct bp_device *device = timeline->device;
    bool shared = device->emulated & BP_EMULATED_STREAMS && !timeline->queue;

    if (bp_status_is_of_wait(status) || timeline->is_inline) return status;
    failure_add_names(device, shared ? NULL : timeline);
    return shared ? failure_set_all(device, status) : bp_timeline_set_failure(timeline, status);
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

enum bp_status bp_block_record(struct bp_device *device, uint32_t reason)
{
    if (device->core->deny_blocking)
        return bp_error(BP_ERR_BLOCKED,
                        "%s: this call would wait (%s), which BP_BLOCK=deny forbids",
                        device->name, block_text(reason));
    atomic_fetch_add_explicit(&device->blocked[reason], 1, memory_order_relaxed);
    return BP_OK;
}

uint64_t bp_device_blocked(struct bp_device *device, enum bp_block reason)
{
    return bp_device_is(device) && reason < BP_BLOCK_COUNT ? atomic_load(&device->blocked[reason])
                                                           : 0;
}

enum bp_status bp_timeline_error_cancelled(const struct bp_timeline *timeline)
{
    return bp_error(BP_ERR_CANCELLED,
                    "%s: stream %u was cancelled (bp_stream_cancel); bp_stream_resume lets it take "
                    "calls again",
                    timeline->device->name, timeline->id);
}
