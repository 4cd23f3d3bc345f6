/* SPDX-License-Identifier: Apache-2.0 */
/* trace_gaps.c: how busy a device was, and why it computed nothing: each gap between two pieces of
 * computing is divided by its causes. */
#include "trace.h"

#include <stdlib.h>

const char *const bp_trace_cause_word[TRACE_CAUSE_COUNT] = {
#define X(NAME, word, text) #word,
    TRACE_CAUSES(X)
#undef X
};
const char *const bp_trace_cause_text[TRACE_CAUSE_COUNT] = {
#define X(NAME, word, text) text,
    TRACE_CAUSES(X)
#undef X
};

/* A part of time that is divided. */
struct gap_part {
    uint64_t begin, end, left;
    uint64_t *cause;
};

static void part_take(struct gap_part *p, enum trace_cause cause, uint64_t ns)
{
    if (ns > p->left) ns = p->left;
    p->left -= ns;
    p->cause[cause] += ns;
}

static void part_take_spans(struct gap_part *p, enum trace_cause cause,
                            const struct trace_spans *spans)
{
    part_take(p, cause, bp_trace_spans_common(spans, p->begin, p->end));
}

/* The host had not submitted the work yet. If the host was waiting for the device when the device
 * ran out of work, then that wait is the cause, also of the time that the host needed after it. */
static void gap_host_part(struct trace_stats *s, struct trace_device *d, struct gap_part p)
{
    bool waited = bp_trace_spans_common(&s->host[TRACE_CAUSE_SYNC], p.begin ? p.begin - 1 : 0,
                                        p.end) > 0;

    part_take_spans(&p, TRACE_CAUSE_COPY, &d->copies);
    part_take_spans(&p, TRACE_CAUSE_COMPILE, &s->host[TRACE_CAUSE_COMPILE]);
    part_take_spans(&p, TRACE_CAUSE_MEMORY, &s->host[TRACE_CAUSE_MEMORY]);
    part_take(&p, waited ? TRACE_CAUSE_SYNC : TRACE_CAUSE_HOST, p.left);
}

static void gap_device_part(struct trace_device *d, struct gap_part p)
{
    part_take_spans(&p, TRACE_CAUSE_COPY, &d->copies);
    part_take_spans(&p, TRACE_CAUSE_WAIT, &d->waits);
    part_take(&p, TRACE_CAUSE_LAUNCH, p.left);
}

static void gap_keep(struct trace_device *d, const struct trace_gap *gap)
{
    uint32_t shortest = 0;

    if (d->gaps < TRACE_GAPS) {
        d->gap[d->gaps++] = *gap;
        return;
    }
    for (uint32_t i = 1; i < TRACE_GAPS; i++)
        if (d->gap[i].end_ns - d->gap[i].begin_ns <
            d->gap[shortest].end_ns - d->gap[shortest].begin_ns)
            shortest = i;
    if (gap->end_ns - gap->begin_ns > d->gap[shortest].end_ns - d->gap[shortest].begin_ns)
        d->gap[shortest] = *gap;
}

static void gap_add(struct trace_stats *s, struct trace_device *d, const struct trace_walk *w,
                    const char *name)
{
    uint64_t cause[TRACE_CAUSE_COUNT] = {0}, begin = d->compute_end, end = w->event.begin_ns;
    uint64_t submitted = w->submit ? w->submit->begin_ns : end;
    struct trace_gap gap = {begin, end, TRACE_CAUSE_HOST, d->last, name};

    if (submitted < begin) submitted = begin;
    if (submitted > end) submitted = end;
    gap_host_part(s, d, (struct gap_part){begin, submitted, submitted - begin, cause});
    gap_device_part(d, (struct gap_part){submitted, end, end - submitted, cause});
    for (int i = 0; i < TRACE_CAUSE_COUNT; i++) {
        d->cause[i] += cause[i];
        if (cause[i] > cause[gap.cause]) gap.cause = (enum trace_cause)i;
    }
    d->n_gap++;
    d->idle += end - begin;
    gap_keep(d, &gap);
}

/* Adds the part of [begin, end] behind *last to a sum, and moves *last. Returns the beginning of
 * the part. */
static uint64_t union_add(uint64_t *sum, uint64_t *last, uint64_t begin, uint64_t end)
{
    uint64_t from = begin > *last ? begin : *last;

    if (end <= from) return end;
    *sum += end - from;
    *last = end;
    return from;
}

void bp_trace_device_work(struct trace_stats *s, struct trace_device *d, const struct trace_walk *w)
{
    const struct bp_profile_event *e = &w->event;
    const char *name = *e->name ? e->name : *e->kernel ? e->kernel : bp_profile_kind_name(e->kind);
    uint64_t from, until;

    if (w->submit && e->begin_ns >= w->submit->begin_ns)
        bp_trace_times_add(&d->delay, e->begin_ns - w->submit->begin_ns);
    if (e->kind == BP_RECORD_WAIT) {
        bp_trace_spans_add(&d->waits, e->begin_ns, e->end_ns);
        return;
    }
    if (!d->n_work++) d->first = e->begin_ns;
    union_add(&d->busy, &d->busy_end, e->begin_ns, e->end_ns);
    if (e->kind == BP_RECORD_COPY || e->kind == BP_RECORD_MEMORY ||
        e->kind == BP_RECORD_COLLECTIVE) {
        from = union_add(&d->copying, &d->copy_end, e->begin_ns, e->end_ns);
        until = e->end_ns < d->compute_end ? e->end_ns : d->compute_end;
        bp_trace_spans_add(&d->copies, e->begin_ns, e->end_ns);
    } else {
        if (d->last && e->begin_ns > d->compute_end) gap_add(s, d, w, name);
        from = union_add(&d->computing, &d->compute_end, e->begin_ns, e->end_ns);
        until = e->end_ns < d->copy_end ? e->end_ns : d->copy_end;
        if (e->end_ns >= d->compute_end) d->last = name;
    }
    if (until > from) d->both += until - from;
}

static int gap_compare(const void *a, const void *b)
{
    const struct trace_gap *p = a, *q = b;
    uint64_t x = p->end_ns - p->begin_ns, y = q->end_ns - q->begin_ns;

    return x > y ? -1 : x < y;
}

void bp_trace_device_end(struct trace_device *d)
{
    if (d->gaps) qsort(d->gap, d->gaps, sizeof *d->gap, gap_compare);
    free(d->copies.at);
    free(d->waits.at);
    d->copies = d->waits = (struct trace_spans){0};
}
