/* SPDX-License-Identifier: Apache-2.0 */
/* deferred_release.c: things that the app gave back and that go when the work that uses them has
 * ended. */
#include "device.h"

enum { FEW = 64 }; /* looked at in passing */

/* Under the lock. */
static void deferred_put(struct bp_device *device, struct bp_pending *pending)
{
    if (!device->pending) device->pending_end = &device->pending;
    pending->next = NULL;
    *device->pending_end = pending;
    device->pending_end = &pending->next;
    atomic_fetch_add_explicit(&device->n_pending, 1, memory_order_relaxed);
}

/* Under the lock; NULL. */
static struct bp_pending *deferred_take(struct bp_device *device)
{
    struct bp_pending *pending = device->pending;

    if (!pending) return NULL;
    device->pending = pending->next;
    atomic_fetch_sub_explicit(&device->n_pending, 1, memory_order_relaxed);
    return pending;
}

void bp_pending_release(struct bp_device *device, struct bp_pending *pending)
{
    if (bp_users_passed(&pending->users, false)) {
        bp_users_finish(&pending->users);
        pending->release(pending);
        return;
    }
    pthread_mutex_lock(&device->lock);
    deferred_put(device, pending);
    pthread_mutex_unlock(&device->lock);
}

static void put_all(struct bp_device *device, struct bp_pending *list)
{
    struct bp_pending *next;

    pthread_mutex_lock(&device->lock);
    for (; list; list = next) {
        next = list->next;
        deferred_put(device, list);
    }
    pthread_mutex_unlock(&device->lock);
}

/* Up to max of the oldest. Devices are asked, and releases called, without the lock: what stays is
 * put back, behind what nobody has looked at for longer. */
static void deferred_collect(struct bp_device *device, uint32_t max, uint32_t polls)
{
    struct bp_pending *list = NULL, **end = &list, *keep = NULL, **keep_end = &keep, *next;

    pthread_mutex_lock(&device->lock);
    while (max-- > 0 && (*end = deferred_take(device))) end = &(*end)->next;
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
        *keep_end = list;
        keep_end = &list->next;
    }
    *keep_end = NULL;
    if (keep) put_all(device, keep);
}

void bp_pending_collect(struct bp_device *device, bool poll)
{
    deferred_collect(device, UINT32_MAX, poll ? UINT32_MAX : 0);
}

void bp_pending_look(struct bp_device *device, bool poll)
{
    if (!bp_on_worker()) deferred_collect(device, FEW, poll);
}

void bp_pending_finish(struct bp_device *device)
{
    for (struct bp_pending *p = deferred_take(device); p; p = deferred_take(device)) {
        bp_users_finish(&p->users);
        p->release(p);
    }
}
