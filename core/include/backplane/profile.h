/* SPDX-License-Identifier: Apache-2.0 */
/* profile.h: records when the calls of an app and the work of its devices began and ended, and
 * reads such records.
 *
 * A profiler writes events to a file while the app runs. The file can be read at any time, also
 * after the process has crashed: bp_profile_open reads it, `bp trace` turns it into a trace for
 * Perfetto and Chromium, a table or a page. BP_PROFILE=FILE profiles an app without a change. */
#ifndef BP_PROFILE_H
#define BP_PROFILE_H

#include <backplane/api.h>
#include <backplane/profiler.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bp_profiler;
struct bp_profile;

/* The kinds of events of the host. Numbers of work of devices are those of BP_RECORDS, of
 * profiler.h. X(NAME, number, word). */
#define BP_PROFILE_EVENTS(X) \
    X(CALL, 16, call)         /* an operator call: from its beginning until it returns */ \
    X(SUBMIT, 17, submit)     /* work is passed to a stream of a plugin */ \
    X(RUN, 18, run)           /* a run of a program or graph */ \
    X(ALLOCATE, 19, allocate) /* device memory is allocated for a tensor or a workspace */ \
    X(FREE, 20, free)         /* and freed */ \
    X(RANGE, 21, range)       /* bp_range_begin to bp_range_end */ \
    X(MARK, 22, mark)         /* bp_mark */ \
    X(STEP, 23, step)         /* from one bp_profiler_step to the next */ \
    X(COMPILE, 24, compile)   /* a program is compiled, or a call prepared */ \
    X(SEGMENT, 25, segment)   /* memory is taken from the driver, or returned: bytes 0 */

enum bp_profile_kind {
#define X(NAME, number, word) BP_PROFILE_##NAME = number,
    BP_PROFILE_EVENTS(X)
#undef X
};
/* The word of a kind, of either list: "kernel"; "other" for unknown numbers. */
BP_API const char *bp_profile_kind_name(uint32_t kind);

enum bp_profiler_flags {
    BP_PROFILER_SHAPES = 1, /* dtypes and shapes of the operands of calls and launches */
    BP_PROFILER_MEMORY = 2, /* allocations and frees */
};

/* Size 0 or a NULL struct: all defaults. */
struct bp_profiler_options { /* parameters: set size to sizeof */
    size_t size;
    const char *path;   /* the file, which is replaced; NULL: memory, for bp_profiler_save */
    uint64_t max_bytes; /* the largest size of the file; 0: 4 GiB. Events that find no room are
                           counted and dropped */
    uint32_t flags;     /* enum bp_profiler_flags */

    /* A schedule by bp_profiler_step: `skip` steps are not recorded, `warm_up` ones neither but
     * with devices recording, so that their first records do not take long; `record` ones are.
     * record 0: there is no schedule, all is recorded. This repeats `repeat` times; 0: until
     * stop. */
    uint32_t skip, warm_up, record, repeat;
};

/* Starts to record all cores and devices of this process, also those that are opened later.
 * BP_ERR_BUSY: another profiler records. BP_ERR_INVALID: the file cannot be written, the message
 * says why. Any thread may call this and the functions below, at any time. */
BP_API enum bp_status bp_profiler_start(const struct bp_profiler_options *options,
                                        struct bp_profiler **out_profiler);

/* Ends a step of the app, and begins the next. Ten times a second at most, it also collects the
 * records of devices, as waits for devices do. */
BP_API enum bp_status bp_profiler_step(struct bp_profiler *profiler);

/* Ends recording: collects the records of devices. Does not wait for work that has not ended. A
 * second call does nothing. */
BP_API enum bp_status bp_profiler_stop(struct bp_profiler *profiler);

struct bp_profiler_info { /* output struct: set size before the call */
    size_t size;
    uint64_t events;  /* in the file */
    uint64_t bytes;   /* the size of the file */
    uint64_t lost;    /* events that found no room: the limit, or a full disk */
    uint64_t late;    /* records of plugins after stop, until another profiler starts; they are
                         dropped */
    const char *why;  /* the reason of the first loss; "". Valid as long as the profiler */
};
BP_API enum bp_status bp_profiler_get_info(struct bp_profiler *profiler,
                                           struct bp_profiler_info *out);

/* Stops, and copies the file to path. */
BP_API enum bp_status bp_profiler_save(struct bp_profiler *profiler, const char *path);

/* Stops, and frees the profiler; its file stays. NULL is allowed. */
BP_API void bp_profiler_destroy(struct bp_profiler *profiler);

/* Ranges and marks of the app, on the calling thread. Names are copied, those of ranges up to 127
 * bytes. Ranges nest, 64 deep; one that began before the recording, or has not ended with it, is
 * not recorded. While nothing is recorded these calls cost a few nanoseconds. */
BP_API void bp_range_begin(const char *name);
BP_API void bp_range_end(void);
BP_API void bp_mark(const char *name);

/* ---- reading ---- */

/* One event. Texts live as long as the profile; missing ones are "". */
struct bp_profile_event { /* output struct: set size before the call */
    size_t size;
    uint64_t begin_ns, end_ns; /* since the start of the recording, by CLOCK_MONOTONIC */
    const char *name;    /* the operator, copy, range, ... */
    const char *kernel;  /* the kernel row, or the device's name for the work */
    const char *node;    /* the node of a program or graph */
    const char *shapes;  /* "f32[2,3], f32[3] -> f32[2,3]" */
    const char *device;  /* "cuda:0" */
    uint32_t kind;       /* enum bp_record_kind or bp_profile_kind */
    uint32_t stream;     /* bp_stream_number; 0: of no stream */
    uint32_t thread;     /* gettid() of the thread; 0: an event of a device */
    uint32_t queue;      /* bp_record.queue */
    uint64_t tag;        /* the stream's number of the work: the submission and the work on the
                            device have the same one */
    uint64_t bytes;      /* copied, allocated or freed */
    uint64_t total;      /* of ALLOCATE and FREE: bytes that are allocated on the device then */
    uint32_t on_device;  /* 1: the times are those of the device. Work of an inline device has both
                            a thread and a stream */
    uint32_t zero;       /* 0 */
};

/* Opens the file of a profiler, finished or not. BP_ERR_NOT_FOUND: there is no such file.
 * BP_ERR_INVALID: it cannot be read, is another kind of file, or is of a later version. */
BP_API enum bp_status bp_profile_open(const char *path, struct bp_profile **out_profile);
BP_API uint64_t bp_profile_events(struct bp_profile *profile);
/* Event number index, in order of begin_ns. Of events that begin together the longest is first. */
BP_API enum bp_status bp_profile_get_event(struct bp_profile *profile, uint64_t index,
                                       struct bp_profile_event *out);

struct bp_profile_info { /* output struct: set size before the call */
    size_t size;
    const char *command;     /* the command line of the process, cut to 4,095 bytes */
    uint64_t start_unix_ns;  /* when the recording began, since 1970 */
    uint64_t length_ns;      /* of the recording; of a file that was not finished, until its last
                                event */
    uint64_t lost, late;     /* as in bp_profiler_info */
    uint64_t misdated;       /* records of plugins with times that lie outside the recording, or
                                end before they begin: they are no events */
    uint32_t process;        /* getpid() */
    uint32_t is_finished;    /* 0: the process ended before its profiler, or still runs */
};
BP_API enum bp_status bp_profile_get_info(struct bp_profile *profile, struct bp_profile_info *out);
/* The name of a thread of the process, as it was when its first event was recorded; "". */
BP_API const char *bp_profile_thread_name(struct bp_profile *profile, uint32_t thread);
BP_API void bp_profile_destroy(struct bp_profile *profile); /* NULL is allowed */

#ifdef __cplusplus
}
#endif

#endif
