/* SPDX-License-Identifier: Apache-2.0 */
/* trace_chrome.c: writes a profile in the Trace Event Format (JSON), which Perfetto and Chromium
 * open: the threads of the host and the streams of each device as tracks, and an arrow from each
 * submission to its work. Events are written as they are read, so memory does not grow with
 * them. */
#include "trace.h"

#include <stdlib.h>
#include <string.h>

struct chrome {
    struct trace_out out;
    struct trace_walk walk;
    uint32_t process;
    bool *named; /* the processes of the format that have a name, from the host's */
    uint64_t room_named;
    uint64_t flows;
    bool any;
};

/* The number of the process of the format: the host, then two for each device. */
static uint64_t chrome_process(const struct chrome *c, enum trace_group group, uint32_t device)
{
    return group == TRACE_HOST ? c->process
                               : c->process + 1ull + 2ull * device + (group == TRACE_COMM);
}

/* Begins an event with the members that all of them have. */
static void chrome_begin(struct chrome *c, const char *phase, const char *name, uint64_t process,
                         uint64_t thread)
{
    bp_trace_put(&c->out, c->any ? ",\n{\"ph\":\"" : "\n{\"ph\":\"");
    c->any = true;
    bp_trace_put(&c->out, phase);
    bp_trace_put(&c->out, "\",\"pid\":");
    bp_trace_number(&c->out, process);
    bp_trace_put(&c->out, ",\"tid\":");
    bp_trace_number(&c->out, thread);
    bp_trace_put(&c->out, ",\"name\":");
    bp_trace_quoted(&c->out, name);
}

static void chrome_ts(struct chrome *c, uint64_t ns)
{
    bp_trace_put(&c->out, ",\"ts\":");
    bp_trace_us(&c->out, ns);
}

static void chrome_meta(struct chrome *c, const char *what, uint64_t process, uint64_t thread,
                        const char *name)
{
    chrome_begin(c, "M", what, process, thread);
    bp_trace_put(&c->out, ",\"args\":{\"name\":");
    bp_trace_quoted(&c->out, name);
    bp_trace_put(&c->out, "}}");
}

static void chrome_order(struct chrome *c, const char *what, uint64_t process, uint64_t thread,
                         uint64_t index)
{
    chrome_begin(c, "M", what, process, thread);
    bp_trace_put(&c->out, ",\"args\":{\"sort_index\":");
    bp_trace_number(&c->out, index);
    bp_trace_put(&c->out, "}}");
}

static void chrome_name_process(struct chrome *c, enum trace_group group, uint32_t device)
{
    uint64_t process = chrome_process(c, group, device), index = process - c->process;
    struct bp_profile_info info = {.size = sizeof info};
    char *name;

    for (; index >= c->room_named; c->room_named++) {
        c->named = realloc(c->named, (c->room_named + 1) * sizeof *c->named);
        if (!c->named) abort();
        c->named[c->room_named] = false;
    }
    if (c->named[index]) return;
    c->named[index] = true;
    if (group == TRACE_HOST) {
        bp_profile_get_info(c->walk.profile, &info);
        name = bp_text_format("%.200s", *info.command ? info.command : "host");
    } else {
        const char *of = *c->walk.tracks.device[device] ? c->walk.tracks.device[device]
                                                        : "unknown device";
        name = bp_text_format(group == TRACE_COMM ? "%s communication" : "%s", of);
    }
    chrome_meta(c, "process_name", process, 0, name);
    chrome_order(c, "process_sort_index", process, 0, index);
    free(name);
}

static uint64_t chrome_thread(const struct chrome *c, uint32_t track)
{
    const struct trace_track *t = &c->walk.tracks.track[track];

    /* Numbers of threads of the host are the system's, unless they would occur twice. */
    return t->group == TRACE_HOST && !t->lane ? t->number : 5000000ull + track;
}

static void chrome_name_track(struct chrome *c, uint32_t track)
{
    const struct trace_track *t = &c->walk.tracks.track[track];
    uint64_t process = chrome_process(c, t->group, t->device), thread = chrome_thread(c, track);
    char *name = bp_trace_track_name(&c->walk.tracks, c->walk.profile, track);

    chrome_name_process(c, t->group, t->device);
    chrome_meta(c, "thread_name", process, thread, name);
    chrome_order(c, "thread_sort_index", process, thread, track);
    free(name);
}

static void chrome_arg(struct chrome *c, bool *any, const char *key, const char *text,
                       uint64_t number)
{
    if (text ? !*text : !number) return;
    bp_trace_put(&c->out, *any ? ",\"" : ",\"args\":{\"");
    *any = true;
    bp_trace_put(&c->out, key);
    bp_trace_put(&c->out, "\":");
    if (text) bp_trace_quoted(&c->out, text);
    else bp_trace_number(&c->out, number);
}

/* The name that an event is shown by. */
static const char *chrome_event_name(const struct bp_profile_event *e)
{
    return *e->name ? e->name : *e->kernel ? e->kernel : bp_profile_kind_name(e->kind);
}

static void chrome_slice(struct chrome *c, const struct bp_profile_event *e, uint64_t process,
                         uint64_t thread)
{
    bool any = false, mark = e->kind == BP_PROFILE_MARK;

    chrome_begin(c, mark ? "i" : "X", chrome_event_name(e), process, thread);
    chrome_ts(c, e->begin_ns);
    bp_trace_put(&c->out, mark ? ",\"s\":\"t" : ",\"dur\":");
    if (!mark) bp_trace_us(&c->out, e->end_ns - e->begin_ns);
    bp_trace_put(&c->out, mark ? "\",\"cat\":\"" : ",\"cat\":\"");
    bp_trace_put(&c->out, bp_profile_kind_name(e->kind));
    bp_trace_put(&c->out, "\"");
    chrome_arg(c, &any, "kernel", e->kernel, 0);
    chrome_arg(c, &any, "node", e->node, 0);
    chrome_arg(c, &any, "shapes", e->shapes, 0);
    if (!bp_trace_is_work(e)) chrome_arg(c, &any, "device", e->device, 0);
    chrome_arg(c, &any, "bytes", NULL, e->bytes);
    chrome_arg(c, &any, "stream", NULL, e->stream);
    chrome_arg(c, &any, "tag", NULL, e->tag);
    bp_trace_put(&c->out, any ? "}}" : "}");
}

/* An arrow from the submission to the work. Readers sort events by time, and find the end of an
 * arrow behind its beginning only. */
static void chrome_flow(struct chrome *c)
{
    const struct bp_profile_event *e = &c->walk.event;
    const struct trace_submit *s = c->walk.submit;
    uint32_t track = c->walk.track;
    const struct trace_track *t = &c->walk.tracks.track[track], *from;
    uint64_t at;

    at = e->begin_ns > s->begin_ns ? e->begin_ns : s->begin_ns;
    if (at > e->end_ns) return;
    from = &c->walk.tracks.track[s->track];
    c->flows++;
    for (int end = 0; end < 2; end++) {
        if (end)
            chrome_begin(c, "f", "submission", chrome_process(c, t->group, t->device),
                         chrome_thread(c, track));
        else
            chrome_begin(c, "s", "submission", chrome_process(c, from->group, from->device),
                         chrome_thread(c, s->track));
        chrome_ts(c, end ? at : s->begin_ns);
        bp_trace_put(&c->out,
                     end ? ",\"bp\":\"e\",\"cat\":\"flow\",\"id\":" : ",\"cat\":\"flow\",\"id\":");
        bp_trace_number(&c->out, c->flows);
        bp_trace_put(&c->out, "}");
    }
}

static void chrome_memory(struct chrome *c, const struct bp_profile_event *e)
{
    uint32_t device = c->walk.device;

    if (device == UINT32_MAX) return;
    chrome_name_process(c, TRACE_DEVICE, device);
    chrome_begin(c, "C", "allocated", chrome_process(c, TRACE_DEVICE, device), 0);
    chrome_ts(c, e->begin_ns);
    bp_trace_put(&c->out, ",\"args\":{\"bytes\":");
    bp_trace_number(&c->out, e->total);
    bp_trace_put(&c->out, "}}");
}

static void chrome_event(struct chrome *c)
{
    const struct bp_profile_event *e = &c->walk.event;
    const struct trace_track *t = &c->walk.tracks.track[c->walk.track];

    if (c->walk.is_new) chrome_name_track(c, c->walk.track);
    chrome_slice(c, e, chrome_process(c, t->group, t->device), chrome_thread(c, c->walk.track));
    if (c->walk.submit) chrome_flow(c);
    if (e->kind == BP_PROFILE_ALLOCATE || e->kind == BP_PROFILE_FREE) chrome_memory(c, e);
}

static void chrome_other(struct chrome *c)
{
    struct bp_profile_info info = {.size = sizeof info};
    char *version = bp_text_format("backplane %s", bp_version());

    bp_profile_get_info(c->walk.profile, &info);
    bp_trace_put(&c->out, "\n],\"displayTimeUnit\":\"ns\",\"otherData\":{\"producer\":");
    bp_trace_quoted(&c->out, version);
    bp_trace_put(&c->out, ",\"command\":");
    bp_trace_quoted(&c->out, info.command);
    bp_trace_put(&c->out, ",\"start_unix_ns\":\"");
    bp_trace_number(&c->out, info.start_unix_ns);
    bp_trace_put(&c->out, "\",\"lost\":");
    bp_trace_number(&c->out, info.lost);
    bp_trace_put(&c->out, ",\"late\":");
    bp_trace_number(&c->out, info.late);
    bp_trace_put(&c->out, ",\"misdated\":");
    bp_trace_number(&c->out, info.misdated);
    bp_trace_put(&c->out, info.is_finished ? ",\"finished\":true}}\n" : ",\"finished\":false}}\n");
    free(version);
}

int bp_trace_chrome(struct bp_profile *profile, FILE *file)
{
    struct chrome *c = calloc(1, sizeof *c);
    struct bp_profile_info info = {.size = sizeof info};
    int error;

    if (!c) return BP_EXIT_BROKEN;
    bp_profile_get_info(profile, &info);
    c->out.file = file;
    c->walk.profile = profile;
    c->process = info.process;
    bp_trace_put(&c->out, "{\"traceEvents\":[");
    while (bp_trace_next(&c->walk)) chrome_event(c);
    chrome_other(c);
    error = bp_trace_flush(&c->out);
    if (error) bp_complain("trace", "the trace cannot be written: %s", strerror(error));
    bp_trace_end(&c->walk);
    free(c->named);
    free(c);
    return error ? BP_EXIT_BROKEN : BP_EXIT_GOOD;
}
