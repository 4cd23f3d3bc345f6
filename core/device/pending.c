/* SPDX-License-Identifier: Apache-2.0 */
/* pending.c: things that the app gave back and that go when the work that uses them has ended. */
#include "device.h"

void bp_pending_release(struct bp_device *device, struct bp_pending *pending)
{
    if (bp_users_passed(&pending->users, false)) {
        bp_users_finish(&pending->users);
        pending->release(pending);
        return;
    }
    pthread_mutex_lock(&device->lock);
    pending->next = device->pending;
    device->pending = pending;
    pthread_mutex_unlock(&device->lock);
}

/* Devices are asked without the lock: the list is taken, and what stays is put back. */
void bp_pending_collect(struct bp_device *device, bool poll)
{
    struct bp_pending *list, *keep = NULL, **end = &keep, *next;

    pthread_mutex_lock(&device->lock);
    list = device->pending;
    device->pending = NULL;
    pthread_mutex_unlock(&device->lock);
    for (; list; list = next) {
        next = list->next;
        if (bp_users_passed(&list->users, poll)) {
            bp_users_finish(&list->users);
            list->release(list);
        } else {
            *end = list;
            end = &list->next;
        }
    }
    pthread_mutex_lock(&device->lock);
    *end = device->pending;
    device->pending = keep;
    pthread_mutex_unlock(&device->lock);
}

void bp_pending_finish(struct bp_device *device)
{
    struct bp_pending *next;

    for (struct bp_pending *p = device->pending; p; p = next) {
        next = p->next;
        bp_users_finish(&p->users);
        p->release(p);
    }
    device->pending = NULL;
}
