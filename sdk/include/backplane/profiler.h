/* SPDX-License-Identifier: Apache-2.0 */
/* profiler.h: defines interface 6 of a plugin: records of the work that a device does, with the
 * times at which the device began and ended it.
 *
 * The interface is optional. Without it a profile has the times of calls on the host only; on a
 * BP_DEVICE_INLINE device these are the times of the work, so such a plugin needs no profiler.
 *
 * The core owns the buffers. Between start and stop the plugin hands over records by the sink, in
 * any order, from any thread, while the work runs or afterwards. The core copies them, matches the
 * clocks, and finds the call of the host that belongs to each record by its stream and tag. */
#ifndef BP_PROFILER_H
#define BP_PROFILER_H

#include <backplane/status.h>
#include <backplane/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The kinds of work. X(NAME, number, word). */
#define BP_RECORDS(X) \
    X(KERNEL, 1, kernel) \
    X(COPY, 2, copy) \
    X(MEMORY, 3, memory) /* memory is filled, allocated or freed by the device */ \
    X(COLLECTIVE, 4, collective) \
    X(WAIT, 5, wait)     /* a stream waits for another one, or for an event */ \
    X(ENGINE, 6, engine) /* a compiled group of nodes */ \
    X(REPLAY, 7, replay) /* recorded work as a whole; its parts may have records too */ \
    X(OTHER, 8, other)

enum bp_record_kind {
#define X(NAME, number, word) BP_RECORD_##NAME = number,
    BP_RECORDS(X)
#undef X
    BP_RECORD_OWN = 64, /* the first of the plugin's own kinds: bp_profilers.kind */
};

/* One piece of work on a device. */
struct bp_record {             /* rows */
    uint64_t begin_ns, end_ns; /* times of the plugin's clock, in nanoseconds */
    uint64_t tag;     /* of the call that submitted the work: bp_profilers.tag, or bp_launch.tag and
                         bp_engine_run.tag; 0: unknown */
    void *stream;     /* the plugin's stream, as in runtime.h; NULL if it is unknown, and without
                         streams: the tags of bp_profilers.tag then name the stream of the app */
    const char *name; /* the device's name for it, as that of a compiled function, valid until put
                         returns; NULL: the core names it after the call */
    uint64_t bytes;   /* copied or filled; 0: unknown */
    uint32_t kind;    /* enum bp_record_kind; the core takes numbers that it does not know as
                         BP_RECORD_OTHER */
    uint32_t queue;   /* the number of a queue or an engine of the hardware, for records that
                         streams do not order; 0: the stream says it */
};

/* By this a plugin hands over records. It is valid from start until stop has returned; later calls
 * are defects, and the core ignores the records as far as it can. */
struct bp_record_sink { /* parameters */
    size_t size;
    void *ctx;
    /* Takes count records, the first at `first`, stride bytes apart: sizeof(struct bp_record) of
     * the plugin's headers. Copies them, takes no lock that a call of the plugin holds, never
     * waits for the device. Records that find no room are counted and dropped. */
    void (*put)(void *ctx, const struct bp_record *first, size_t count, size_t stride);
};

/* start and stop are required. */
struct bp_profilers { /* table */
    size_t size;

    /* Begins to make records of the device's work that is submitted from now on, on all streams,
     * also on those that exist. The core calls it at most once before stop.
     * BP_ERR_UNSUPPORTED, with a message: this machine cannot make records; the profile then says
     * why it has none. */
    enum bp_status (*start)(void *self, uint32_t device, const struct bp_record_sink *sink);

    /* Ends it. Records of work that has ended have been handed over when stop returns; those of
     * unfinished work are lost. */
    void (*stop)(void *self, uint32_t device);

    /* Hands over the records of all work that has ended. Called between start and stop at steps of
     * the app, and after waits for a device of any plugin: at most ten times a second. NULL: put is
     * called as work ends, or in stop. */
    enum bp_status (*flush)(void *self, uint32_t device);

    /* Returns the time of the clock of the records. The core reads it beside CLOCK_MONOTONIC at
     * the beginning and at the end of what is recorded, and whenever it calls flush, also if flush
     * is NULL; times in between lie on straight lines. NULL: the records have times of
     * CLOCK_MONOTONIC. */
    enum bp_status (*clock)(void *self, uint32_t device, uint64_t *out_ns);

    /* Called between start and stop on the thread that is about to submit work to the stream, by a
     * launch, a copy, a replay, an engine or a collective call: the records of that work have this
     * tag. Afterwards called with tag 0. Tags of one stream rise. NULL: records have the tags of
     * bp_launch and bp_engine_run. A thread that submits work while the recording ends may call it
     * a moment after stop: the tag then has no effect, and the call must do no harm. */
    void (*tag)(void *self, uint32_t device, void *stream, uint64_t tag);

    /* The app's ranges, for the vendor's own tools, on the calling thread; they nest. Called
     * whether or not records are being made. NULL: none. */
    void (*range_begin)(void *self, const char *name);
    void (*range_end)(void *self);

    /* Words for the plugin's own kinds: a record of kind BP_RECORD_OWN + i is kind[i]. */
    const char *const *kind;
    size_t n_kind;

    /* A mark of the app, for the vendor's own tools, on the calling thread; as range_begin called
     * whether or not records are being made. NULL: none. */
    void (*mark)(void *self, const char *name);
};

#ifdef __cplusplus
}
#endif

#endif
