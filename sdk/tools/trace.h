/* SPDX-License-Identifier: Apache-2.0 */
/* trace.h: declares the parts of `bp trace` and `bp profile`: tracks, submissions, statistics, and
 * the writers of their outputs. */
#ifndef BP_TRACE_H
#define BP_TRACE_H

#include "tools.h"

/* ---- trace_text.c: a buffered writer of JSON ---- */

struct trace_out {
    FILE *file;
    size_t n;
    char bytes[65536];
};
void bp_trace_put(struct trace_out *out, const char *text);
void bp_trace_number(struct trace_out *out, uint64_t number);
/* A text in quotes, as JSON: valid UTF-8, whatever the profile has. */
void bp_trace_quoted(struct trace_out *out, const char *text);
/* Nanoseconds as microseconds with three digits, which is the unit of the trace format. */
void bp_trace_us(struct trace_out *out, uint64_t ns);
/* Writes the rest. Returns 0, or the error number of a failed write. */
int bp_trace_flush(struct trace_out *out);

/* ---- trace_tracks.c: where an event belongs ---- */

enum trace_group {
    TRACE_HOST,   /* a thread of the process */
    TRACE_DEVICE, /* a stream or a queue of a device */
    TRACE_COMM,   /* the collective calls of a stream */
};

/* A row of a timeline. Its events nest: an event that would overlap another one is moved to the
 * next lane. */
struct trace_track {
    enum trace_group group;
    uint32_t device;        /* index in trace_tracks.device; 0 for threads */
    uint32_t number, queue; /* the thread or the stream, and the queue */
    uint32_t lane, next;    /* next: the index of the next lane; 0: none */
    uint64_t *end;          /* the ends of the events that enclose the present one */
    uint32_t depth, room;
};

struct trace_tracks {
    struct trace_track *track; /* the first is unused */
    uint32_t n_track, room_track;
    uint32_t *slot, slots; /* a hash table of first lanes */
    const char **device;   /* names */
    uint32_t n_device;
};

/* A submission, for the work that has its device, stream and tag. The table has a fixed size: of
 * many million submissions the oldest are forgotten. */
struct trace_submit {
    uint64_t tag, begin_ns, bytes;
    const char *name, *kernel, *node, *shapes;
    uint32_t device, stream, track;
};
struct trace_submits {
    struct trace_submit *at;
};

/* A walk through the events of a profile. Set profile; the rest begins with zeros. */
struct trace_walk {
    struct bp_profile *profile;
    struct trace_tracks tracks;
    struct trace_submits submits;
    uint64_t index;
    /* of the present event: */
    struct bp_profile_event event; /* work has the names of its submission */
    bool is_work;                  /* of a device; not a call of the host */
    bool is_new;                   /* its track is new */
    uint32_t device;               /* UINT32_MAX: none */
    uint32_t track;
    const struct trace_submit *submit; /* of work; NULL: unknown */
};
bool bp_trace_is_work(const struct bp_profile_event *event);
bool bp_trace_next(struct trace_walk *walk); /* false: there is no event any more */
void bp_trace_end(struct trace_walk *walk);

/* "stream 3", "queue 2 of stream 3", "main, thread 77". The caller frees it. */
char *bp_trace_track_name(const struct trace_tracks *tracks, struct bp_profile *profile,
                          uint32_t track);
/* Returns memory, or ends the process with a message if it is NULL. */
void *bp_trace_must(void *memory);

/* ---- trace_stats.c, trace_rows.c, trace_gaps.c: statistics ---- */

enum trace_by {
    TRACE_OP,
    TRACE_KERNEL,
    TRACE_NODE,
    TRACE_THREAD,
    TRACE_RANGE,
    TRACE_BYS
};
extern const char *const bp_trace_by_name[TRACE_BYS];
bool bp_trace_is_by(const char *word);

enum {
    TRACE_SAMPLES = 1024,
    TRACE_GAPS = 20
};

/* Durations, in nanoseconds. Of many durations every second, fourth, ... one is a sample. */
struct trace_times {
    uint64_t n, total, self, least, most;
    uint64_t stride;
    uint32_t n_sample, room;
    uint64_t *sample;
};
void bp_trace_times_add(struct trace_times *times, uint64_t ns);
/* Of the samples: the value that part (0 to 1) of them do not exceed. */
uint64_t bp_trace_times_at(struct trace_times *times, double part);

struct trace_row {
    const char *name;
    char *owned; /* the name, if the row has to free it */
    struct trace_times times;
    uint64_t bytes;
};
struct trace_rows {
    struct trace_row *row;
    uint32_t n, room;
    uint32_t *slot, slots;
};
struct trace_row *bp_trace_row(struct trace_rows *rows, const char *name);
void bp_trace_rows_sort(struct trace_rows *rows); /* by total; no row is added afterwards */
void bp_trace_rows_finish(struct trace_rows *rows);

/* Why a device computed nothing. X(NAME, word, text). */
#define TRACE_CAUSES(X) \
    X(HOST, host, "the host submitted nothing") \
    X(COMPILE, compile, "the host compiled or prepared") \
    X(MEMORY, memory, "the host allocated or freed memory") \
    X(SYNC, sync, "the host waited for the device") \
    X(COPY, copy, "a copy or a collective ran") \
    X(WAIT, wait, "the stream waited for another one or an event") \
    X(LAUNCH, launch, "submitted work had not begun")
enum trace_cause {
#define X(NAME, word, text) TRACE_CAUSE_##NAME,
    TRACE_CAUSES(X)
#undef X
    TRACE_CAUSE_COUNT
};
extern const char *const bp_trace_cause_word[TRACE_CAUSE_COUNT];
extern const char *const bp_trace_cause_text[TRACE_CAUSE_COUNT];

struct trace_gap {
    uint64_t begin_ns, end_ns;
    enum trace_cause cause;     /* of the largest part */
    const char *before, *after; /* the work at both sides */
};

/* Parts of time in which something ran, in order. The oldest of many are forgotten. */
struct trace_spans {
    struct trace_span {
        uint64_t begin, end;
    } * at;
    uint32_t first, n;
};
void bp_trace_spans_add(struct trace_spans *spans, uint64_t begin, uint64_t end);
/* The nanoseconds that the spans have in common with a part of time. */
uint64_t bp_trace_spans_common(const struct trace_spans *spans, uint64_t begin, uint64_t end);

struct trace_device {
    const char *name;
    uint64_t busy, computing, copying, both; /* nanoseconds with work; with work of both kinds */
    uint64_t busy_end, compute_end, copy_end;
    uint64_t first, n_work, n_gap, idle, cause[TRACE_CAUSE_COUNT];
    uint64_t peak_bytes;
    struct trace_times delay; /* from submission to begin */
    struct trace_spans copies, waits;
    struct trace_gap gap[TRACE_GAPS]; /* the longest, in no order until the end */
    uint32_t gaps;
    const char *last;
};

struct trace_stream {
    uint32_t device;
    char *name;
    uint64_t busy, end, n_work;
};

struct trace_stats {
    struct trace_rows by[TRACE_BYS];
    bool ops_are_calls; /* no device has times: rows of operators are calls of the host */
    struct trace_rows calls;
    struct trace_device *device;
    uint32_t n_device;
    struct trace_stream *stream;
    uint32_t n_stream;
    struct trace_spans host[TRACE_CAUSE_COUNT]; /* compile, memory, sync */
};
void bp_trace_stats(struct bp_profile *profile, struct trace_stats *out);
void bp_trace_stats_finish(struct trace_stats *stats);
/* trace_gaps.c: enters work of a device, in order of its begin. */
void bp_trace_device_work(struct trace_stats *stats, struct trace_device *device,
                          const struct trace_walk *walk);
void bp_trace_device_end(struct trace_device *device);

/* ---- the outputs; each returns an exit status ---- */

/* trace_chrome.c: the Trace Event Format, which Perfetto and Chromium open. */
int bp_trace_chrome(struct bp_profile *profile, FILE *file);
/* trace_perfetto.c: the same as Perfetto's protobuf messages, without arrows and memory. */
int bp_trace_perfetto(struct bp_profile *profile, FILE *file);
/* trace_table.c, trace_json.c, trace_html.c. */
int bp_trace_table(struct bp_profile *profile, const char *by, uint32_t rows);
int bp_trace_json(struct bp_profile *profile, FILE *file);
cJSON *bp_trace_json_of(struct bp_profile *profile, uint32_t most_rows);
int bp_trace_html(struct bp_profile *profile, FILE *file);

/* trace.c: writes a file by one of these; and complains about events that the profile lacks. */
int bp_trace_write(struct bp_profile *profile, const char *command, const char *path,
                   int (*write)(struct bp_profile *profile, FILE *file));
void bp_trace_warn(struct bp_profile *profile, const char *command);

#endif
