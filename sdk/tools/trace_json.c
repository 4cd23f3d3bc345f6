/* SPDX-License-Identifier: Apache-2.0 */
/* trace_json.c: the statistics of a profile as JSON, which `bp compare` and pages read. */
#include "trace.h"

#include <string.h>

static void json_row(cJSON *rows, const char *by, struct trace_row *r)
{
    struct trace_times *x = &r->times;
    cJSON *row = cJSON_CreateObject();

    bp_json_text(row, "by", by);
    bp_json_text(row, "name", r->name);
    cJSON_AddNumberToObject(row, "calls", (double)x->n);
    cJSON_AddNumberToObject(row, "total_ns", (double)x->total);
    cJSON_AddNumberToObject(row, "self_ns", (double)x->self);
    cJSON_AddNumberToObject(row, "min_ns", (double)x->least);
    cJSON_AddNumberToObject(row, "max_ns", (double)x->most);
    cJSON_AddNumberToObject(row, "median_ns", (double)bp_trace_times_at(x, 0.5));
    /* The middle half of the durations lies in a range of this length. */
    cJSON_AddNumberToObject(row, "spread_ns",
                            (double)(bp_trace_times_at(x, 0.75) - bp_trace_times_at(x, 0.25)));
    if (r->bytes) cJSON_AddNumberToObject(row, "bytes", (double)r->bytes);
    cJSON_AddItemToArray(rows, row);
}

static void json_gaps(cJSON *device, const struct trace_device *d)
{
    cJSON *causes = cJSON_AddObjectToObject(device, "idle"), *gaps;

    for (int i = 0; i < TRACE_CAUSE_COUNT; i++)
        cJSON_AddNumberToObject(causes, bp_trace_cause_word[i], (double)d->cause[i]);
    gaps = cJSON_AddArrayToObject(device, "gaps");
    for (uint32_t i = 0; i < d->gaps; i++) {
        const struct trace_gap *g = &d->gap[i];
        cJSON *gap = cJSON_CreateObject();
        cJSON_AddNumberToObject(gap, "begin_ns", (double)g->begin_ns);
        cJSON_AddNumberToObject(gap, "ns", (double)(g->end_ns - g->begin_ns));
        bp_json_text(gap, "cause", bp_trace_cause_word[g->cause]);
        bp_json_text(gap, "text", bp_trace_cause_text[g->cause]);
        bp_json_text(gap, "before", g->before);
        bp_json_text(gap, "after", g->after);
        cJSON_AddItemToArray(gaps, gap);
    }
}

static void json_device(cJSON *devices, struct trace_stats *s, uint32_t index)
{
    struct trace_device *d = &s->device[index];
    cJSON *device = cJSON_CreateObject(), *streams;

    bp_json_text(device, "name", d->name);
    cJSON_AddNumberToObject(device, "work", (double)d->n_work);
    cJSON_AddNumberToObject(device, "busy_ns", (double)d->busy);
    cJSON_AddNumberToObject(device, "computing_ns", (double)d->computing);
    cJSON_AddNumberToObject(device, "copying_ns", (double)d->copying);
    cJSON_AddNumberToObject(device, "both_ns", (double)d->both);
    cJSON_AddNumberToObject(device, "idle_ns", (double)d->idle);
    cJSON_AddNumberToObject(device, "peak_bytes", (double)d->peak_bytes);
    if (d->delay.n) {
        cJSON_AddNumberToObject(device, "delay_median_ns",
                                (double)bp_trace_times_at(&d->delay, 0.5));
        cJSON_AddNumberToObject(device, "delay_max_ns", (double)d->delay.most);
    }
    streams = cJSON_AddArrayToObject(device, "streams");
    for (uint32_t i = 0; i < s->n_stream; i++) {
        if (s->stream[i].device != index) continue;
        cJSON *stream = cJSON_CreateObject();
        bp_json_text(stream, "name", s->stream[i].name);
        cJSON_AddNumberToObject(stream, "busy_ns", (double)s->stream[i].busy);
        cJSON_AddNumberToObject(stream, "work", (double)s->stream[i].n_work);
        cJSON_AddItemToArray(streams, stream);
    }
    json_gaps(device, d);
    cJSON_AddItemToArray(devices, device);
}

cJSON *bp_trace_json_of(struct bp_profile *profile, uint32_t most_rows)
{
    struct bp_profile_info info = {.size = sizeof info};
    cJSON *json = cJSON_CreateObject(), *list;
    struct trace_stats s;

    bp_profile_get_info(profile, &info);
    bp_trace_stats(profile, &s);
    bp_json_text(json, "kind", "profile");
    cJSON_AddNumberToObject(json, "version", 1);
    bp_json_text(json, "command", info.command);
    cJSON_AddNumberToObject(json, "start_unix_ns", (double)info.start_unix_ns);
    cJSON_AddNumberToObject(json, "length_ns", (double)info.length_ns);
    cJSON_AddNumberToObject(json, "events", (double)bp_profile_events(profile));
    cJSON_AddNumberToObject(json, "lost", (double)info.lost);
    cJSON_AddNumberToObject(json, "late", (double)info.late);
    cJSON_AddNumberToObject(json, "misdated", (double)info.misdated);
    cJSON_AddBoolToObject(json, "finished", info.is_finished);
    cJSON_AddBoolToObject(json, "ops_are_calls", s.ops_are_calls);
    list = cJSON_AddArrayToObject(json, "rows");
    for (int by = 0; by < TRACE_BYS; by++)
        for (uint32_t i = 0; i < s.by[by].n && i < most_rows; i++)
            json_row(list, bp_trace_by_name[by], &s.by[by].row[i]);
    for (uint32_t i = 0; i < s.calls.n && i < most_rows; i++)
        json_row(list, "call", &s.calls.row[i]);
    list = cJSON_AddArrayToObject(json, "devices");
    for (uint32_t i = 0; i < s.n_device; i++) json_device(list, &s, i);
    bp_trace_stats_finish(&s);
    return json;
}

int bp_trace_json(struct bp_profile *profile, FILE *file)
{
    cJSON *json = bp_trace_json_of(profile, UINT32_MAX);
    char *text = cJSON_Print(json);

    cJSON_Delete(json);
    if (!text) return BP_EXIT_BROKEN;
    fprintf(file, "%s\n", text);
    cJSON_free(text);
    return ferror(file) ? BP_EXIT_BROKEN : BP_EXIT_GOOD;
}
