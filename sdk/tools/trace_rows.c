/* SPDX-License-Identifier: Apache-2.0 */
/* trace_rows.c: the parts of statistics of a profile: durations, rows of tables, spans of time. */
#include "trace.h"

#include <stdlib.h>
#include <string.h>

enum {
    SPANS = 1 << 16
};

/* ---- durations ---- */

void bp_trace_times_add(struct trace_times *t, uint64_t ns)
{
    if (!t->n || ns < t->least) t->least = ns;
    if (ns > t->most) t->most = ns;
    t->total += ns;
    t->self += ns;
    if (!t->stride) t->stride = 1;
    if (t->n++ % t->stride) return;
    if (t->n_sample == t->room && t->room < TRACE_SAMPLES) {
        t->room = t->room ? 4 * t->room : 4;
        t->sample = bp_trace_must(realloc(t->sample, t->room * sizeof *t->sample));
    } else if (t->n_sample == t->room) {
        for (uint32_t i = 0; i < t->room / 2; i++) t->sample[i] = t->sample[2 * i];
        t->n_sample = t->room / 2;
        t->stride *= 2;
        if ((t->n - 1) % t->stride) return;
    }
    t->sample[t->n_sample++] = ns;
}

static int times_compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

uint64_t bp_trace_times_at(struct trace_times *t, double part)
{
    if (!t->n_sample) return 0;
    qsort(t->sample, t->n_sample, sizeof *t->sample, times_compare);
    return t->sample[(uint32_t)(part * (t->n_sample - 1) + 0.5)];
}

/* ---- rows ---- */

static uint32_t *row_slot(const struct trace_rows *r, const char *name)
{
    uint64_t hash = 14695981039346656037ull;

    for (const char *c = name; *c; c++) hash = (hash ^ (unsigned char)*c) * 1099511628211ull;
    for (uint64_t i = hash ^ hash >> 32;; i++) {
        uint32_t *slot = &r->slot[i & (r->slots - 1)];
        if (!*slot || !strcmp(r->row[*slot - 1].name, name)) return slot;
    }
}

struct trace_row *bp_trace_row(struct trace_rows *r, const char *name)
{
    uint32_t *slot;

    if (2 * r->n >= r->slots) {
        free(r->slot);
        r->slots = r->slots ? 2 * r->slots : 64;
        r->slot = bp_trace_must(calloc(r->slots, sizeof *r->slot));
        for (uint32_t i = 0; i < r->n; i++) *row_slot(r, r->row[i].name) = i + 1;
    }
    slot = row_slot(r, name);
    if (!*slot) {
        if (r->n == r->room) {
            r->room = 2 * r->room + 16;
            r->row = bp_trace_must(realloc(r->row, r->room * sizeof *r->row));
        }
        r->row[r->n] = (struct trace_row){.name = name};
        *slot = ++r->n;
    }
    return &r->row[*slot - 1];
}

static int row_compare(const void *a, const void *b)
{
    const struct trace_row *p = a, *q = b;

    if (p->times.total != q->times.total) return p->times.total > q->times.total ? -1 : 1;
    return strcmp(p->name, q->name);
}

void bp_trace_rows_sort(struct trace_rows *r)
{
    if (r->n) qsort(r->row, r->n, sizeof *r->row, row_compare);
}

void bp_trace_rows_finish(struct trace_rows *r)
{
    for (uint32_t i = 0; i < r->n; i++) {
        free(r->row[i].times.sample);
        free(r->row[i].owned);
    }
    free(r->row);
    free(r->slot);
    *r = (struct trace_rows){0};
}

/* ---- spans ---- */

static struct trace_span *span_at(const struct trace_spans *s, uint32_t index)
{
    return &s->at[(s->first + index) % SPANS];
}

void bp_trace_spans_add(struct trace_spans *s, uint64_t begin, uint64_t end)
{
    struct trace_span *last = s->n ? span_at(s, s->n - 1) : NULL;

    if (last && begin <= last->end) {
        if (end > last->end) last->end = end;
        return;
    }
    if (!s->at) s->at = bp_trace_must(malloc(SPANS * sizeof *s->at));
    if (s->n == SPANS) {
        s->first = (s->first + 1) % SPANS;
        s->n--;
    }
    *span_at(s, s->n++) = (struct trace_span){begin, end};
}

uint64_t bp_trace_spans_common(const struct trace_spans *s, uint64_t begin, uint64_t end)
{
    uint32_t low = 0, high = s->n;
    uint64_t sum = 0;

    while (low < high) { /* the first span that ends after begin */
        uint32_t middle = low + (high - low) / 2;
        if (span_at(s, middle)->end <= begin) low = middle + 1;
        else high = middle;
    }
    for (; low < s->n && span_at(s, low)->begin < end; low++) {
        const struct trace_span *at = span_at(s, low);
        sum += (at->end < end ? at->end : end) - (at->begin > begin ? at->begin : begin);
    }
    return sum;
}
