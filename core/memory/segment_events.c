/* SPDX-License-Identifier: Apache-2.0 */
/* segment_events.c: reports the segments of a device to listeners. The thread that reserved a
 * segment reports it to the listeners of that moment; a new listener is called for the existing
 * segments by the thread that adds it. That thread walks the list of segments without a lock: no
 * segment is released meanwhile, and the walk does not begin during a release. */
#include "pool.h"

void bp_segment_report_new(struct bp_device *device, struct bp_span *segment)
{
    struct bp_memory_state *m = device->memory;
    struct bp_segment_listener *first;

    pthread_mutex_lock(&m->lock);
    segment->older_segment = m->newest_segment;
    m->newest_segment = segment;
    first = m->listeners; /* later listeners are in front of it, and find the segment in the list */
    m->reporting++;
    pthread_mutex_unlock(&m->lock);
    for (struct bp_segment_listener *l = first; l; l = l->next)
        l->reserved(l->ctx, &segment->raw, segment->raw_size, segment->space);
    pthread_mutex_lock(&m->lock);
    if (!--m->reporting) pthread_cond_broadcast(&m->reported);
    pthread_mutex_unlock(&m->lock);
}

/* Does not wait: the caller may be a listener that allocates memory. */
bool bp_segment_release_begin(struct bp_device *device)
{
    struct bp_memory_state *m = device->memory;
    bool allowed;

    pthread_mutex_lock(&m->lock);
    allowed = !m->replaying;
    m->releasing += allowed;
    pthread_mutex_unlock(&m->lock);
    return allowed;
}

void bp_segment_release_end(struct bp_device *device)
{
    struct bp_memory_state *m = device->memory;

    pthread_mutex_lock(&m->lock);
    if (!--m->releasing) pthread_cond_broadcast(&m->reported);
    pthread_mutex_unlock(&m->lock);
}

/* A segment that was never reported is not in the list. No listener is added or removed during a
 * release. */
void bp_segment_report_release(struct bp_device *device, struct bp_span *segment)
{
    struct bp_memory_state *m = device->memory;
    struct bp_segment_listener *first = NULL;
    struct bp_span **at = &m->newest_segment;

    pthread_mutex_lock(&m->lock);
    while (*at && *at != segment) at = &(*at)->older_segment;
    if (*at) {
        *at = segment->older_segment;
        first = m->listeners;
    }
    pthread_mutex_unlock(&m->lock);
    for (struct bp_segment_listener *l = first; l; l = l->next)
        l->released(l->ctx, &segment->raw, segment->raw_size, segment->space);
}

void bp_segment_listener_add(struct bp_device *device, struct bp_segment_listener *listener)
{
    struct bp_memory_state *m = device->memory;
    struct bp_span *segment;

    pthread_mutex_lock(&m->lock);
    m->replaying++; /* no new release begins; those in progress end */
    while (m->releasing) pthread_cond_wait(&m->reported, &m->lock);
    listener->next = m->listeners;
    m->listeners = listener;
    segment = m->newest_segment;
    pthread_mutex_unlock(&m->lock);
    for (struct bp_span *c = segment; c; c = c->older_segment)
        listener->reserved(listener->ctx, &c->raw, c->raw_size, c->space);
    pthread_mutex_lock(&m->lock);
    if (!--m->replaying) pthread_cond_broadcast(&m->reported);
    pthread_mutex_unlock(&m->lock);
}

void bp_segment_listener_remove(struct bp_device *device, struct bp_segment_listener *listener)
{
    struct bp_memory_state *m = device->memory;
    struct bp_segment_listener **at = &m->listeners;

    pthread_mutex_lock(&m->lock);
    while (m->reporting || m->releasing) pthread_cond_wait(&m->reported, &m->lock);
    while (*at && *at != listener) at = &(*at)->next;
    if (*at) *at = listener->next;
    pthread_mutex_unlock(&m->lock);
}
