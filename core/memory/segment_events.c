/* SPDX-License-Identifier: Apache-2.0 */
/* segment_events.c: who is told of a device's chunks. A chunk is told of by the thread that
 * reserved it, to those who listened then; a listener that comes later is told of it by the thread
 * that it comes on. So that this thread may walk the chunks without a lock, none goes meanwhile;
 * and it does not begin while some go. */
#include "pool.h"

void bp_chunk_tell(struct bp_device *device, struct bp_region *chunk)
{
    struct bp_memory_state *m = device->memory;
    struct bp_listener *first;

    pthread_mutex_lock(&m->lock);
    chunk->older = m->newest;
    m->newest = chunk;
    first = m->listeners; /* later ones come before it, and find the chunk in the list */
    m->telling++;
    pthread_mutex_unlock(&m->lock);
    for (struct bp_listener *l = first; l; l = l->next)
        l->reserved(l->ctx, &chunk->raw, chunk->raw_size, chunk->space);
    pthread_mutex_lock(&m->lock);
    if (!--m->telling) pthread_cond_broadcast(&m->told);
    pthread_mutex_unlock(&m->lock);
}

/* It does not wait: a listener that takes memory may have come here itself. */
bool bp_release_begin(struct bp_device *device)
{
    struct bp_memory_state *m = device->memory;
    bool may;

    pthread_mutex_lock(&m->lock);
    may = !m->hearing;
    m->releasing += may;
    pthread_mutex_unlock(&m->lock);
    return may;
}

void bp_release_end(struct bp_device *device)
{
    struct bp_memory_state *m = device->memory;

    pthread_mutex_lock(&m->lock);
    if (!--m->releasing) pthread_cond_broadcast(&m->told);
    pthread_mutex_unlock(&m->lock);
}

/* A chunk that was never told of is not in the list. Listeners neither come nor go meanwhile. */
void bp_release_tell(struct bp_device *device, struct bp_region *chunk)
{
    struct bp_memory_state *m = device->memory;
    struct bp_listener *first = NULL;
    struct bp_region **at = &m->newest;

    pthread_mutex_lock(&m->lock);
    while (*at && *at != chunk) at = &(*at)->older;
    if (*at) {
        *at = chunk->older;
        first = m->listeners;
    }
    pthread_mutex_unlock(&m->lock);
    for (struct bp_listener *l = first; l; l = l->next)
        l->released(l->ctx, &chunk->raw, chunk->raw_size, chunk->space);
}

void bp_memory_listen(struct bp_device *device, struct bp_listener *listener)
{
    struct bp_memory_state *m = device->memory;
    struct bp_region *newest;

    pthread_mutex_lock(&m->lock);
    m->hearing++; /* no release begins from now on: those under way come to an end */
    while (m->releasing) pthread_cond_wait(&m->told, &m->lock);
    listener->next = m->listeners;
    m->listeners = listener;
    newest = m->newest;
    pthread_mutex_unlock(&m->lock);
    for (struct bp_region *c = newest; c; c = c->older)
        listener->reserved(listener->ctx, &c->raw, c->raw_size, c->space);
    pthread_mutex_lock(&m->lock);
    if (!--m->hearing) pthread_cond_broadcast(&m->told);
    pthread_mutex_unlock(&m->lock);
}

void bp_memory_unlisten(struct bp_device *device, struct bp_listener *listener)
{
    struct bp_memory_state *m = device->memory;
    struct bp_listener **at = &m->listeners;

    pthread_mutex_lock(&m->lock);
    while (m->telling || m->releasing) pthread_cond_wait(&m->told, &m->lock);
    while (*at && *at != listener) at = &(*at)->next;
    if (*at) *at = listener->next;
    pthread_mutex_unlock(&m->lock);
}
