/* SPDX-License-Identifier: Apache-2.0 */
/* trace_tracks.c: places the events of a profile in rows of a timeline, and finds the submission
 * of work of a device. */
#include "trace.h"

#include <stdlib.h>
#include <string.h>

enum {
    SUBMITS = 1 << 20
};

void *bp_trace_must(void *memory)
{
    if (memory) return memory;
    bp_complain("trace", "out of memory");
    exit(BP_EXIT_BROKEN);
}

bool bp_trace_is_work(const struct bp_profile_event *event)
{
    bool record = event->kind < BP_PROFILE_CALL || event->kind >= BP_RECORD_OWN;

    return record && (event->on_device || !event->thread || event->kind == BP_RECORD_COLLECTIVE);
}

static uint32_t track_device(struct trace_tracks *t, const char *name)
{
    for (uint32_t i = 0; i < t->n_device; i++)
        if (t->device[i] == name || !strcmp(t->device[i], name)) return i;
    t->device = bp_trace_must(realloc(t->device, (t->n_device + 1) * sizeof *t->device));
    t->device[t->n_device] = name;
    return t->n_device++;
}

static uint32_t track_hash(const struct trace_track *k)
{
    uint64_t h = k->number * 0x9e3779b97f4a7c15ull + k->queue * 0xc2b2ae3d27d4eb4full +
                 k->device * 0x165667b19e3779f9ull + k->group;

    h ^= h >> 29;
    return (uint32_t)(h * 0xbf58476d1ce4e5b9ull >> 32);
}

static uint32_t track_append(struct trace_tracks *t, const struct trace_track *track)
{
    if (t->n_track + 1 >= t->room_track) {
        t->room_track = 2 * t->room_track + 32;
        t->track = bp_trace_must(realloc(t->track, t->room_track * sizeof *t->track));
    }
    if (!t->n_track) t->track[t->n_track++] = (struct trace_track){0};
    t->track[t->n_track] = *track;
    return t->n_track++;
}

static uint32_t *track_slot(const struct trace_tracks *t, const struct trace_track *key)
{
    for (uint32_t i = track_hash(key);; i++) {
        uint32_t *slot = &t->slot[i & (t->slots - 1)];
        const struct trace_track *at = &t->track[*slot];
        if (!*slot || (at->group == key->group && at->device == key->device &&
                       at->number == key->number && at->queue == key->queue))
            return slot;
    }
}

/* Doubles the hash table when half of it is used. */
static void tracks_grow(struct trace_tracks *t)
{
    if (2 * t->n_track < t->slots) return;
    free(t->slot);
    t->slots = t->slots ? 2 * t->slots : 64;
    t->slot = bp_trace_must(calloc(t->slots, sizeof *t->slot));
    for (uint32_t i = 1; i < t->n_track; i++)
        if (!t->track[i].lane) *track_slot(t, &t->track[i]) = i;
}

/* Enters an event if it nests. */
static bool track_enter(struct trace_track *track, uint64_t begin, uint64_t end)
{
    while (track->depth && track->end[track->depth - 1] <= begin) track->depth--;
    if (track->depth && track->end[track->depth - 1] < end) return false;
    if (track->depth == track->room) {
        track->room = 2 * track->room + 8;
        track->end = bp_trace_must(realloc(track->end, track->room * sizeof *track->end));
    }
    track->end[track->depth++] = end;
    return true;
}

static uint32_t track_of(struct trace_tracks *t, const struct bp_profile_event *e, bool *out_new)
{
    struct trace_track key = {.group = TRACE_HOST, .number = e->thread};
    uint32_t *slot, index;

    if (bp_trace_is_work(e))
        key = (struct trace_track){
            .group = e->kind == BP_RECORD_COLLECTIVE ? TRACE_COMM : TRACE_DEVICE,
            .device = track_device(t, e->device),
            .number = e->stream,
            .queue = e->queue,
        };
    *out_new = false;
    tracks_grow(t);
    slot = track_slot(t, &key);
    if (!*slot) {
        index = track_append(t, &key);
        *slot = index;
        *out_new = true;
    }
    for (index = *slot; e->kind != BP_PROFILE_MARK; index = t->track[index].next) {
        if (track_enter(&t->track[index], e->begin_ns, e->end_ns)) break;
        if (t->track[index].next) continue;
        key.lane = t->track[index].lane + 1;
        uint32_t added = track_append(t, &key);
        t->track[index].next = added;
        *out_new = true;
    }
    return index;
}

char *bp_trace_track_name(const struct trace_tracks *t, struct bp_profile *profile, uint32_t index)
{
    const struct trace_track *k = &t->track[index];
    char *name, *full;

    if (k->group == TRACE_HOST) {
        const char *thread = bp_profile_thread_name(profile, k->number);
        name = bp_text_format("%s%sthread %u", thread, *thread ? ", " : "", k->number);
    } else if (k->queue) {
        name = bp_text_format(k->number ? "queue %u of stream %u" : "queue %u", k->queue,
                              k->number);
    } else {
        name = k->number ? bp_text_format("stream %u", k->number) : bp_text_format("no stream");
    }
    if (!k->lane) return name;
    full = bp_text_format("%s (%u)", name, k->lane + 1);
    free(name);
    return full;
}

static void tracks_finish(struct trace_tracks *t)
{
    for (uint32_t i = 0; i < t->n_track; i++) free(t->track[i].end);
    free(t->track);
    free(t->slot);
    free(t->device);
    *t = (struct trace_tracks){0};
}

/* ---- submissions ---- */

static struct trace_submit *submit_at(const struct trace_submits *s, uint32_t device,
                                      uint32_t stream, uint64_t tag)
{
    uint64_t first = device * 0x9e3779b97f4a7c15ull + stream * 0xc2b2ae3d27d4eb4full;

    return &s->at[((first >> 20) + tag) & (SUBMITS - 1)];
}

static void submit_enter(struct trace_submits *s, const struct trace_submit *submit)
{
    struct trace_submit *at;

    if (!submit->tag) return;
    if (!s->at) s->at = bp_trace_must(calloc(SUBMITS, sizeof *s->at));
    at = submit_at(s, submit->device, submit->stream, submit->tag);
    /* The first of several submissions with one tag began the work. */
    if (at->tag == submit->tag && at->device == submit->device && at->stream == submit->stream)
        return;
    *at = *submit;
}

static const struct trace_submit *submit_of(const struct trace_submits *s, uint32_t device,
                                            const struct bp_profile_event *e)
{
    const struct trace_submit *at = s->at ? submit_at(s, device, e->stream, e->tag) : NULL;

    return at && e->tag && at->tag == e->tag && at->device == device && at->stream == e->stream
               ? at
               : NULL;
}

/* ---- events, one after the other ---- */

/* Work that has no name of its own has those of the call that submitted it. */
static void walk_take_names(struct bp_profile_event *e, const struct trace_submit *s)
{
    if (!*e->name) e->name = s->name;
    if (!*e->kernel) e->kernel = s->kernel;
    if (!*e->node) e->node = s->node;
    if (!*e->shapes) e->shapes = s->shapes;
    if (!e->bytes) e->bytes = s->bytes;
}

bool bp_trace_next(struct trace_walk *w)
{
    struct bp_profile_event *e = &w->event;

    e->size = sizeof *e;
    if (w->index >= bp_profile_events(w->profile) || bp_profile_get_event(w->profile, w->index, e))
        return false;
    w->index++;
    w->is_work = bp_trace_is_work(e);
    w->device = *e->device || w->is_work ? track_device(&w->tracks, e->device) : UINT32_MAX;
    w->track = track_of(&w->tracks, e, &w->is_new);
    w->submit = w->is_work ? submit_of(&w->submits, w->device, e) : NULL;
    if (w->submit) walk_take_names(e, w->submit);
    if (e->kind == BP_PROFILE_SUBMIT)
        submit_enter(&w->submits,
                     &(struct trace_submit){e->tag, e->begin_ns, e->bytes, e->name, e->kernel,
                                            e->node, e->shapes, w->device, e->stream, w->track});
    return true;
}

void bp_trace_end(struct trace_walk *w)
{
    tracks_finish(&w->tracks);
    free(w->submits.at);
}
