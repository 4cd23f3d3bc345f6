/* SPDX-License-Identifier: Apache-2.0 */
/* trace_html.c: writes a profile as a page (trace_page.html) that needs no network: its statistics,
 * its longest events, and the memory of its devices. */
#include "trace.h"

#include "trace_page_html.h"
#include <report/report.h>
#include <stdlib.h>
#include <string.h>

enum {
    HTML_EVENTS = 20000,
    HTML_POINTS = 1000,
    HTML_ROWS = 200
};

/* The names of events that are drawn, by number. */
struct html {
    struct trace_out out;
    struct bp_profile *profile;
    uint64_t length, least, at_least; /* events of this duration or more; how many of exactly it */
    struct trace_rows names;
};

/* ---- which events are drawn ---- */

/* A heap whose first entry is the shortest of the longest durations. */
static void heap_sink(uint64_t *heap, uint32_t n)
{
    for (uint32_t i = 0, child; (child = 2 * i + 1) < n; i = child) {
        uint64_t swap = heap[i];
        if (child + 1 < n && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= heap[i]) break;
        heap[i] = heap[child];
        heap[child] = swap;
    }
}

static void heap_rise(uint64_t *heap, uint32_t i)
{
    for (; i && heap[(i - 1) / 2] > heap[i]; i = (i - 1) / 2) {
        uint64_t swap = heap[i];
        heap[i] = heap[(i - 1) / 2];
        heap[(i - 1) / 2] = swap;
    }
}

static void html_choose(struct html *h)
{
    uint64_t *heap = bp_trace_must(malloc(HTML_EVENTS * sizeof *heap));
    struct trace_walk w = {.profile = h->profile};
    uint32_t n = 0;

    while (bp_trace_next(&w)) {
        uint64_t ns = w.event.end_ns - w.event.begin_ns;
        if (n < HTML_EVENTS) {
            heap[n] = ns;
            heap_rise(heap, n++);
        } else if (ns > heap[0]) {
            heap[0] = ns;
            heap_sink(heap, n);
        }
    }
    h->least = n ? heap[0] : 0;
    for (uint32_t i = 0; i < n; i++) h->at_least += heap[i] == h->least;
    free(heap);
    bp_trace_end(&w);
}

/* ---- the data ---- */

static void html_tracks(struct html *h, const struct trace_tracks *tracks)
{
    bp_trace_put(&h->out, "],\"tracks\":[{}");
    for (uint32_t i = 1; i < tracks->n_track; i++) {
        const struct trace_track *t = &tracks->track[i];
        char *name = bp_trace_track_name(tracks, h->profile, i);
        bp_trace_put(&h->out, ",\n{\"group\":");
        bp_trace_number(&h->out, t->group);
        bp_trace_put(&h->out, ",\"device\":");
        bp_trace_quoted(&h->out, t->group == TRACE_HOST ? "" : tracks->device[t->device]);
        bp_trace_put(&h->out, ",\"name\":");
        bp_trace_quoted(&h->out, name);
        bp_trace_put(&h->out, "}");
        free(name);
    }
}

static void html_numbers(struct html *h, bool first, const uint64_t *number, int n)
{
    for (int i = 0; i < n; i++) {
        bp_trace_put(&h->out, i ? "," : first ? "[" : ",\n[");
        bp_trace_number(&h->out, number[i]);
    }
    bp_trace_put(&h->out, "]");
}

static void html_events(struct html *h)
{
    struct trace_walk w = {.profile = h->profile};
    bool any = false;

    bp_trace_put(&h->out, ",\n\"events\":[");
    while (bp_trace_next(&w)) {
        const struct bp_profile_event *e = &w.event;
        uint64_t ns = e->end_ns - e->begin_ns;
        if (ns < h->least || (ns == h->least && !h->at_least)) continue;
        h->at_least -= ns == h->least;
        const char *name = *e->name     ? e->name
                           : *e->kernel ? e->kernel
                                        : bp_profile_kind_name(e->kind);
        uint64_t row = (uint64_t)(bp_trace_row(&h->names, name) - h->names.row);
        html_numbers(h, !any, (uint64_t[]){w.track, e->begin_ns, ns, row, e->kind}, 5);
        any = true;
    }
    html_tracks(h, &w.tracks);
    bp_trace_put(&h->out, "],\n\"names\":[");
    for (uint32_t i = 0; i < h->names.n; i++) {
        if (i) bp_trace_put(&h->out, ",");
        bp_trace_quoted(&h->out, h->names.row[i].name);
    }
    bp_trace_put(&h->out, "],\n\"kinds\":{");
    for (uint32_t kind = 1; kind < BP_RECORD_OWN; kind++) {
        bp_trace_put(&h->out, kind > 1 ? ",\"" : "\"");
        bp_trace_number(&h->out, kind);
        bp_trace_put(&h->out, "\":");
        bp_trace_quoted(&h->out, bp_profile_kind_name(kind));
    }
    bp_trace_put(&h->out, "},\n\"causes\":{");
    for (int i = 0; i < TRACE_CAUSE_COUNT; i++) {
        if (i) bp_trace_put(&h->out, ",");
        bp_trace_quoted(&h->out, bp_trace_cause_word[i]);
        bp_trace_put(&h->out, ":");
        bp_trace_quoted(&h->out, bp_trace_cause_text[i]);
    }
    bp_trace_put(&h->out, "}");
    bp_trace_end(&w);
}

/* The most bytes that are allocated in each of many parts of the time, of one device. */
static bool html_memory_of(struct html *h, uint32_t device, bool first)
{
    struct trace_walk w = {.profile = h->profile};
    uint64_t at[2] = {0, 0}, part = h->length / HTML_POINTS + 1, next = 0;
    bool any = false;

    while (bp_trace_next(&w)) {
        const struct bp_profile_event *e = &w.event;
        if (w.device != device || (e->kind != BP_PROFILE_ALLOCATE && e->kind != BP_PROFILE_FREE))
            continue;
        if (!any) {
            bp_trace_put(&h->out, first ? "{\"device\":" : ",{\"device\":");
            bp_trace_quoted(&h->out, e->device);
            bp_trace_put(&h->out, ",\"points\":[");
            html_numbers(h, true, at, 2);
            next = e->begin_ns + part;
        }
        if (any && e->begin_ns >= next) {
            html_numbers(h, false, at, 2);
            next = e->begin_ns + part;
            at[1] = 0;
        }
        any = true;
        at[0] = e->begin_ns;
        if (e->total > at[1] || e->begin_ns + part == next) at[1] = e->total;
    }
    if (any) {
        html_numbers(h, false, at, 2);
        bp_trace_put(&h->out, "]}");
    }
    bp_trace_end(&w);
    return any;
}

int bp_trace_html(struct bp_profile *profile, FILE *file)
{
    struct html *h = bp_trace_must(calloc(1, sizeof *h));
    struct bp_profile_info info = {.size = sizeof info};
    cJSON *json = bp_trace_json_of(profile, HTML_ROWS);
    char *text = bp_trace_must(cJSON_PrintUnformatted(json));
    int devices = cJSON_GetArraySize(cJSON_GetObjectItem(json, "devices")), error;

    bp_profile_get_info(profile, &info);
    h->out.file = file;
    h->profile = profile;
    h->length = info.length_ns;
    report_page_begin(*info.command ? "Profile of " : "Profile", info.command,
                      (const char *)trace_page_style, file);
    bp_trace_put(&h->out, (const char *)trace_page_before);
    bp_trace_put(&h->out, "{\"stats\":");
    for (const char *c = text; *c; c++) /* "</script>" would end the data */
        bp_trace_put(&h->out, *c == '<' ? "\\u003c" : (char[2]){*c, 0});
    html_choose(h);
    bp_trace_put(&h->out, ",\"total\":");
    bp_trace_number(&h->out, bp_profile_events(profile));
    html_events(h);
    bp_trace_put(&h->out, "\n,\"memory\":[");
    bool any = false;
    for (int i = 0; i < devices; i++) any |= html_memory_of(h, (uint32_t)i, !any);
    bp_trace_put(&h->out, "]}");
    bp_trace_put(&h->out, (const char *)trace_page_behind);
    error = bp_trace_flush(&h->out);
    if (error) bp_complain("trace", "the page cannot be written: %s", strerror(error));
    bp_trace_rows_finish(&h->names);
    cJSON_free(text);
    cJSON_Delete(json);
    free(h);
    return error ? BP_EXIT_BROKEN : BP_EXIT_GOOD;
}
