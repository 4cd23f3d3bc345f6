/* SPDX-License-Identifier: Apache-2.0 */
/* deferred_release.c: keeps the objects that the app has released until the work that uses them has
 * ended, then frees them. */
#include "device.h"

enum { FEW = 64 }; /* objects that bp_deferred_collect_few checks */

/* Called with the device locked. */
static void deferred_push(struct bp_device *device, struct bp_deferred *deferred)
{
    if (!device->deferred) device->deferred_end = &device->deferred;
    deferred->next = NULL;
    *device->deferred_end = deferred;
    device->deferred_end = &deferred->next;
    atomic_fetch_add_explicit(&device->n_deferred, 1, memory_order_relaxed);
}

/* Called with the device locked. NULL: the list is empty. */
static struct bp_deferred *deferred_pop(struct bp_device *device)
{
    struct bp_deferred *deferred = device->deferred;

    if (!deferred) return NULL;
    device->deferred = deferred->next;
    atomic_fetch_sub_explicit(&device->n_deferred, 1, memory_order_relaxed);
    return deferred;
}

void bp_deferred_release(struct bp_device *device, struct bp_deferred *deferred)
{
    if (bp_users_passed(&deferred->users, false)) {
        bp_users_finish(&deferred->users);
        deferred->release(deferred);
        return;
    }
    pthread_mutex_lock(&device->lock);
    deferred_push(device, deferred);
    pthread_mutex_unlock(&device->lock);
}

static void deferred_push_all(struct bp_device *device, struct bp_deferred *list)
{
    struct bp_deferred *next;

    pthread_mutex_lock(&device->lock);
    for (; list; list = next) {
        next = list->next;
        deferred_push(device, list);
    }
    pthread_mutex_unlock(&device->lock);
}

/* Checks up to max of the oldest objects. Devices are queried, and release functions called,
 * without the lock. Objects still in use are appended again, behind the objects that were not
 * checked. */
static void deferred_collect(struct bp_device *device, uint32_t max, uint32_t polls)
{
    struct bp_deferred *list = NULL, **end = &list, *kept = NULL, **kept_end = &kept, *next;

    pthread_mutex_lock(&device->lock);
    while (max-- > 0 && (*end = deferred_pop(device))) end = &(*end)->next;
    *end = NULL;
    pthread_mutex_unlock(&device->lock);
    for (; list; list = next) {
        next = list->next;
        if (bp_users_passed(&list->users, polls > 0)) {
            bp_users_finish(&list->users);
            list->release(list);
            continue;
        }
        if (polls) polls--;
        *kept_end = list;
        kept_end = &list->next;
    }
    *kept_end = NULL;
    if (kept) deferred_push_all(device, kept);
}

void bp_deferred_collect(struct bp_device *device, bool poll)
{
    deferred_collect(device, UINT32_MAX, poll ? UINT32_MAX : 0);
}

void bp_deferred_collect_few(struct bp_device *device, bool poll)
{
    if (!bp_queue_on_worker()) deferred_collect(device, FEW, poll);
}

void bp_deferred_finish(struct bp_device *device)
{
    for (struct bp_deferred *p = deferred_pop(device); p; p = deferred_pop(device)) {
        bp_users_finish(&p->users);
        p->release(p);
    }
}
