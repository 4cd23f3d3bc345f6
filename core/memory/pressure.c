/* SPDX-License-Identifier: Apache-2.0 */
/* pressure.c: who gives up what only saves time when memory runs out. */
#include "pool.h"

void bp_memory_on_pressure(struct bp_device *device, struct bp_pressure *pressure)
{
    struct bp_memory_state *m = device->memory;

    pthread_mutex_lock(&m->lock);
    pressure->next = m->pressure;
    m->pressure = pressure;
    pthread_mutex_unlock(&m->lock);
}

void bp_memory_off_pressure(struct bp_device *device, struct bp_pressure *pressure)
{
    struct bp_memory_state *m = device->memory;
    struct bp_pressure **at = &m->pressure;

    pthread_mutex_lock(&m->lock);
    while (m->pressing) pthread_cond_wait(&m->pressed, &m->lock);
    while (*at && *at != pressure) at = &(*at)->next;
    if (*at) *at = pressure->next;
    pthread_mutex_unlock(&m->lock);
}

/* The list does not lose any while callbacks run; new ones come at its beginning. */
bool bp_device_pressure(struct bp_device *device)
{
    struct bp_memory_state *m = device->memory;
    struct bp_pressure *first;
    bool any = false;

    pthread_mutex_lock(&m->lock);
    first = m->pressure;
    m->pressing++;
    pthread_mutex_unlock(&m->lock);
    for (struct bp_pressure *p = first; p; p = p->next) any |= p->give_up(p->ctx);
    pthread_mutex_lock(&m->lock);
    if (!--m->pressing) pthread_cond_broadcast(&m->pressed);
    pthread_mutex_unlock(&m->lock);
    return any;
}
