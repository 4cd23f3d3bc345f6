/* SPDX-License-Identifier: Apache-2.0 */
/* trace_stats.c: the statistics of a profile, in one walk through its events. */
#include "trace.h"

#include <stdlib.h>
#include <string.h>

const char *const bp_trace_by_name[TRACE_BYS] = {"op", "kernel", "node", "thread", "range"};

bool bp_trace_is_by(const char *word)
{
    for (int i = 0; i < TRACE_BYS; i++)
        if (!strcmp(word, bp_trace_by_name[i])) return true;
    return false;
}

/* An event that encloses the present one, with the rows that count it: numbers from 1. */
struct stats_frame {
    uint64_t end;
    uint32_t row[TRACE_BYS];
};

struct stats_track {
    struct stats_frame *frame;
    uint32_t depth, room;
    uint32_t stream; /* from 1 */
};

struct stats_walk {
    struct trace_walk walk;
    struct trace_stats *stats;
    struct stats_track *track;
    uint32_t n_track;
    uint64_t works;
};

static struct stats_track *stats_track_at(struct stats_walk *s)
{
    uint32_t i = s->walk.track;

    if (i >= s->n_track) {
        s->track = bp_trace_must(realloc(s->track, (2 * i + 1) * sizeof *s->track));
        memset(s->track + s->n_track, 0, (2 * i + 1 - s->n_track) * sizeof *s->track);
        s->n_track = 2 * i + 1;
    }
    return &s->track[i];
}

/* Enters an event in a track. */
static struct stats_frame *stats_push(struct stats_track *t, const struct bp_profile_event *e)
{
    while (t->depth && t->frame[t->depth - 1].end <= e->begin_ns) t->depth--;
    if (t->depth == t->room) {
        t->room = 2 * t->room + 8;
        t->frame = bp_trace_must(realloc(t->frame, t->room * sizeof *t->frame));
    }
    t->frame[t->depth] = (struct stats_frame){.end = e->end_ns};
    return &t->frame[t->depth++];
}

/* Counts an event in a row of a table; the row of the event around it has less time of its own. */
static struct trace_row *stats_count(struct stats_walk *s, struct stats_track *t, enum trace_by by,
                                     const char *name)
{
    struct trace_rows *rows = &s->stats->by[by];
    const struct bp_profile_event *e = &s->walk.event;
    uint64_t ns = e->end_ns - e->begin_ns;
    struct trace_row *row = bp_trace_row(rows, name);

    bp_trace_times_add(&row->times, ns);
    row->bytes += e->bytes;
    t->frame[t->depth - 1].row[by] = (uint32_t)(row - rows->row) + 1;
    for (uint32_t i = t->depth - 1; i-- > 0;) {
        uint32_t around = t->frame[i].row[by];
        if (!around) continue;
        rows->row[around - 1].times.self -= ns;
        break;
    }
    return row;
}

/* A thread's time is that of the outermost calls. */
static void stats_thread(struct stats_walk *s, struct stats_track *t)
{
    const struct bp_profile_event *e = &s->walk.event;
    struct trace_tracks *tracks = &s->walk.tracks;
    char *name;

    for (uint32_t i = 0; i + 1 < t->depth; i++)
        if (t->frame[i].row[TRACE_THREAD]) return;
    name = bp_trace_track_name(tracks, s->walk.profile, s->walk.track);
    struct trace_row *row = bp_trace_row(&s->stats->by[TRACE_THREAD], name);
    if (row->name == name) row->owned = name;
    else free(name);
    bp_trace_times_add(&row->times, e->end_ns - e->begin_ns);
    t->frame[t->depth - 1].row[TRACE_THREAD] = 1;
}

static void stats_host(struct stats_walk *s, struct stats_track *t)
{
    const struct bp_profile_event *e = &s->walk.event;
    struct trace_spans *host = s->stats->host;

    switch (e->kind) {
    case BP_PROFILE_MARK: return;
    case BP_PROFILE_RANGE:
    case BP_PROFILE_STEP: stats_count(s, t, TRACE_RANGE, e->name); return;
    case BP_PROFILE_CALL:
        bp_trace_times_add(&bp_trace_row(&s->stats->calls, e->name)->times,
                           e->end_ns - e->begin_ns);
        break;
    case BP_PROFILE_COMPILE:
        bp_trace_spans_add(&host[TRACE_CAUSE_COMPILE], e->begin_ns, e->end_ns);
        break;
    case BP_PROFILE_ALLOCATE:
    case BP_PROFILE_FREE:
    case BP_PROFILE_SEGMENT:
        bp_trace_spans_add(&host[TRACE_CAUSE_MEMORY], e->begin_ns, e->end_ns);
        break;
    case BP_RECORD_WAIT: bp_trace_spans_add(&host[TRACE_CAUSE_SYNC], e->begin_ns, e->end_ns); break;
    default: break;
    }
    stats_thread(s, t);
}

static struct trace_device *stats_device(struct stats_walk *s)
{
    struct trace_stats *to = s->stats;
    uint32_t index = s->walk.device;

    for (; to->n_device <= index; to->n_device++) {
        to->device = bp_trace_must(realloc(to->device, (to->n_device + 1) * sizeof *to->device));
        to->device[to->n_device] = (struct trace_device){
            .name = s->walk.tracks.device[to->n_device]};
    }
    return &to->device[index];
}

/* The lanes of a stream are one stream. */
static uint32_t stats_stream(struct stats_walk *s)
{
    const struct trace_tracks *tracks = &s->walk.tracks;
    const struct trace_track *k = &tracks->track[s->walk.track];
    struct trace_stats *to = s->stats;

    for (uint32_t i = 1; k->lane && i < s->walk.track; i++) {
        const struct trace_track *first = &tracks->track[i];
        if (!first->lane && first->group == k->group && first->device == k->device &&
            first->number == k->number && first->queue == k->queue && s->track[i].stream)
            return s->track[i].stream;
    }
    char *name = bp_trace_track_name(tracks, s->walk.profile, s->walk.track);
    if (k->group == TRACE_COMM) {
        char *longer = bp_text_format("%s, collectives", name);
        free(name);
        name = longer;
    }
    to->stream = bp_trace_must(realloc(to->stream, (to->n_stream + 1) * sizeof *to->stream));
    to->stream[to->n_stream] = (struct trace_stream){.device = s->walk.device, .name = name};
    return ++to->n_stream;
}

static void stats_work(struct stats_walk *s, struct stats_track *t)
{
    const struct bp_profile_event *e = &s->walk.event;
    const char *name = *e->name ? e->name : *e->kernel ? e->kernel : bp_profile_kind_name(e->kind);
    struct trace_stream *stream;
    uint64_t from;

    bp_trace_device_work(s->stats, stats_device(s), &s->walk);
    if (e->kind == BP_RECORD_WAIT) return;
    s->works++;
    stats_count(s, t, TRACE_OP, name);
    if (*e->kernel) stats_count(s, t, TRACE_KERNEL, e->kernel);
    if (*e->node) stats_count(s, t, TRACE_NODE, e->node);
    if (!t->stream) t->stream = stats_stream(s);
    stream = &s->stats->stream[t->stream - 1];
    from = e->begin_ns > stream->end ? e->begin_ns : stream->end;
    stream->n_work++;
    if (e->end_ns <= from) return;
    stream->busy += e->end_ns - from;
    stream->end = e->end_ns;
}

void bp_trace_stats(struct bp_profile *profile, struct trace_stats *out)
{
    struct stats_walk s = {.walk = {.profile = profile}, .stats = out};

    *out = (struct trace_stats){0};
    while (bp_trace_next(&s.walk)) {
        const struct bp_profile_event *e = &s.walk.event;
        struct stats_track *t = stats_track_at(&s);
        if (e->kind != BP_PROFILE_MARK) stats_push(t, e);
        if (s.walk.is_work) stats_work(&s, t);
        else stats_host(&s, t);
        if (e->kind != BP_PROFILE_ALLOCATE || s.walk.device == UINT32_MAX) continue;
        struct trace_device *d = stats_device(&s);
        if (e->total > d->peak_bytes) d->peak_bytes = e->total;
    }
    if (!s.works) {
        struct trace_rows none = out->by[TRACE_OP];
        out->by[TRACE_OP] = out->calls;
        out->calls = none;
        out->ops_are_calls = true;
    }
    for (int i = 0; i < TRACE_BYS; i++) bp_trace_rows_sort(&out->by[i]);
    bp_trace_rows_sort(&out->calls);
    for (uint32_t i = 0; i < out->n_device; i++) bp_trace_device_end(&out->device[i]);
    for (uint32_t i = 0; i < s.n_track; i++) free(s.track[i].frame);
    free(s.track);
    bp_trace_end(&s.walk);
}

void bp_trace_stats_finish(struct trace_stats *s)
{
    for (int i = 0; i < TRACE_BYS; i++) bp_trace_rows_finish(&s->by[i]);
    bp_trace_rows_finish(&s->calls);
    for (uint32_t i = 0; i < s->n_device; i++) free(s->device[i].delay.sample);
    for (uint32_t i = 0; i < s->n_stream; i++) free(s->stream[i].name);
    for (int i = 0; i < TRACE_CAUSE_COUNT; i++) free(s->host[i].at);
    free(s->device);
    free(s->stream);
}
