/* SPDX-License-Identifier: Apache-2.0 */
/* shrinker.c: registers shrinkers and calls them when memory runs out, to free objects that only
 * save time. */
#include "pool.h"

void bp_shrinker_register(struct bp_device *device, struct bp_shrinker *shrinker)
{
    struct bp_memory_state *m = device->memory;

    pthread_mutex_lock(&m->lock);
    shrinker->next = m->shrinkers;
    m->shrinkers = shrinker;
    pthread_mutex_unlock(&m->lock);
}

void bp_shrinker_unregister(struct bp_device *device, struct bp_shrinker *shrinker)
{
    struct bp_memory_state *m = device->memory;
    struct bp_shrinker **at = &m->shrinkers;

    pthread_mutex_lock(&m->lock);
    while (m->shrinking) pthread_cond_wait(&m->shrunk, &m->lock);
    while (*at && *at != shrinker) at = &(*at)->next;
    if (*at) *at = shrinker->next;
    pthread_mutex_unlock(&m->lock);
}

/* While callbacks run no shrinker is removed; new ones are inserted at the front of the list. */
bool bp_device_shrink(struct bp_device *device)
{
    struct bp_memory_state *m = device->memory;
    struct bp_shrinker *first;
    bool any = false;

    pthread_mutex_lock(&m->lock);
    first = m->shrinkers;
    m->shrinking++;
    pthread_mutex_unlock(&m->lock);
    for (struct bp_shrinker *p = first; p; p = p->next) any |= p->shrink(p->ctx);
    pthread_mutex_lock(&m->lock);
    if (!--m->shrinking) pthread_cond_broadcast(&m->shrunk);
    pthread_mutex_unlock(&m->lock);
    return any;
}
