/* SPDX-License-Identifier: Apache-2.0 */
/* trace_table.c: prints the statistics of a profile as tables. */
#include "trace.h"

#include <stdlib.h>
#include <string.h>

/* "1.234 ms". The caller frees it. */
static char *table_ns(uint64_t ns)
{
    double value = (double)ns;

    if (ns < 10000) return bp_text_format("%.0f ns", value);
    if (ns < 10000000) return bp_text_format("%.1f us", value / 1e3);
    return ns < 10000000000 ? bp_text_format("%.2f ms", value / 1e6)
                            : bp_text_format("%.2f s", value / 1e9);
}

static char *table_share(uint64_t part, uint64_t of)
{
    return bp_text_format("%.1f %%", of ? 100 * (double)part / (double)of : 0);
}

/* "1 gap", "7 gaps". The caller frees it. */
static char *table_count(uint64_t n, const char *one, const char *many)
{
    return bp_text_format("%llu %s", (unsigned long long)n, n == 1 ? one : many);
}

/* Adds a row of cells, and frees them. */
static void table_row(struct bp_table *table, char **cell, size_t n)
{
    const char *row[16];

    for (size_t i = 0; i < n; i++) row[i] = cell[i];
    bp_table_row(table, row, NULL);
    for (size_t i = 0; i < n; i++) free(cell[i]);
}

static void table_by(const struct trace_rows *rows, const char *by, uint32_t most)
{
    const char *const head[] = {by,     "calls", "total", "share", "self",
                                "mean", "least", "most",  "bytes", "GB/s"};
    uint64_t total = 0;
    struct bp_table t;

    if (!rows->n) {
        printf("No event has %s %s.\n", *by == 'o' ? "an" : "a", by);
        return;
    }
    for (uint32_t i = 0; i < rows->n; i++) total += rows->row[i].times.self;
    bp_table_init(&t, 10, head);
    for (uint32_t i = 0; i < rows->n && i < most; i++) {
        const struct trace_row *r = &rows->row[i];
        const struct trace_times *x = &r->times;
        bool rate = r->bytes && x->total;
        char *cell[] = {bp_text_clean(r->name),
                        bp_text_format("%llu", (unsigned long long)x->n),
                        table_ns(x->total),
                        table_share(x->self, total),
                        table_ns(x->self),
                        table_ns(x->total / x->n),
                        table_ns(x->least),
                        table_ns(x->most),
                        r->bytes ? bp_bytes_text(r->bytes) : bp_text_format("-"),
                        rate ? bp_text_format("%.2f", (double)r->bytes / (double)x->total)
                             : bp_text_format("-")};
        table_row(&t, cell, 10);
    }
    bp_table_print(&t, 0);
    bp_table_finish(&t);
    if (rows->n > most) printf("... and %u more: --rows N\n", rows->n - most);
}

static void table_streams(const struct trace_stats *s, uint32_t device, uint64_t length)
{
    for (uint32_t i = 0; i < s->n_stream; i++) {
        if (s->stream[i].device != device) continue;
        char *share = table_share(s->stream[i].busy, length), *busy = table_ns(s->stream[i].busy);
        char *work = table_count(s->stream[i].n_work, "piece of work", "pieces of work");
        printf("  %s: busy %s (%s), %s\n", s->stream[i].name, share, busy, work);
        free(share), free(busy), free(work);
    }
}

static void table_delay(struct trace_times *delay)
{
    char *median, *most;

    if (!delay->n) return;
    median = table_ns(bp_trace_times_at(delay, 0.5));
    most = table_ns(delay->most);
    printf("  from submission to begin: median %s, most %s\n", median, most);
    free(median);
    free(most);
}

static void table_gaps(const struct trace_device *d)
{
    char *idle, *count;

    if (!d->n_gap) return;
    idle = table_ns(d->idle);
    count = table_count(d->n_gap, "gap", "gaps");
    printf("  computed nothing for %s between two pieces of work, in %s:\n", idle, count);
    for (int i = 0; i < TRACE_CAUSE_COUNT; i++) {
        if (!d->cause[i]) continue;
        char *ns = table_ns(d->cause[i]), *share = table_share(d->cause[i], d->idle);
        printf("    %7s  %s (%s)\n", share, bp_trace_cause_text[i], ns);
        free(ns);
        free(share);
    }
    printf(d->n_gap == 1 ? "  the gap:\n" : "  the longest gaps:\n");
    for (uint32_t i = 0; i < d->gaps && i < 5; i++) {
        const struct trace_gap *g = &d->gap[i];
        char *at = table_ns(g->begin_ns), *ns = table_ns(g->end_ns - g->begin_ns);
        char *before = bp_text_clean(g->before), *after = bp_text_clean(g->after);
        printf("    %s at %s, from %s to %s: %s\n", ns, at, before, after,
               bp_trace_cause_text[g->cause]);
        free(at), free(ns), free(before), free(after);
    }
    free(idle), free(count);
}

static void table_device(struct trace_stats *s, uint32_t index, uint64_t length)
{
    struct trace_device *d = &s->device[index];
    char *busy = table_share(d->busy, length), *name = bp_text_clean(*d->name ? d->name : "?");

    if (!d->n_work && !d->peak_bytes) {
        free(busy), free(name);
        return;
    }
    printf("\n%s: busy %s of the time\n", name, busy);
    table_streams(s, index, length);
    if (d->copying) {
        char *copying = table_ns(d->copying), *both = table_share(d->both, d->copying);
        printf("  copies and collectives: %s, of which %s while it also computed\n", copying, both);
        free(copying), free(both);
    }
    table_delay(&d->delay);
    if (d->peak_bytes) {
        char *peak = bp_bytes_text(d->peak_bytes);
        printf("  most memory allocated: %s\n", peak);
        free(peak);
    }
    table_gaps(d);
    free(busy), free(name);
}

int bp_trace_table(struct bp_profile *profile, const char *by, uint32_t rows)
{
    struct bp_profile_info info = {.size = sizeof info};
    struct trace_stats s;
    int index = 0;

    bp_profile_get_info(profile, &info);
    bp_trace_stats(profile, &s);
    char *length = table_ns(info.length_ns), *command = bp_text_clean(info.command);
    char *events = table_count(bp_profile_events(profile), "event", "events");
    printf("%s: %s in %s\n\n", *command ? command : "profile", events, length);
    free(length), free(command), free(events);
    while (strcmp(by, bp_trace_by_name[index])) index++;
    if (index == TRACE_OP && s.ops_are_calls && s.by[TRACE_OP].n)
        printf("No device has recorded times: these are the times of calls on the host.\n");
    table_by(&s.by[index], by, rows);
    for (uint32_t i = 0; i < s.n_device; i++) table_device(&s, i, info.length_ns);
    bp_trace_stats_finish(&s);
    return BP_EXIT_GOOD;
}
