/* SPDX-License-Identifier: Apache-2.0 */
/* profile.h: declares the profiler of plugins/gpu (interface 6). A tracer is a vendor's library
 * that makes records of the device's work: CUPTI or roctracer. A tracer belongs to the process,
 * not to a device: profile.c starts it for the first device that is profiled, stops it after the
 * last one, and finds the device, the stream and the tag of each record.
 *
 * Work is matched with the call that submitted it by two numbers. Before a call the plugin pushes
 * an external id, which says the stream and the tag. The tracer reports that a call of the driver,
 * which has a correlation id, was made under this external id; the records of the call's work have
 * the same correlation id. */
#ifndef GPU_PROFILE_H
#define GPU_PROFILE_H

#include "vendor.h"
#include <backplane/profiler.h>

/* A tracer. Functions that return int return a code of the library, 0 for success. */
struct gpu_tracer {
    struct gpu_vendor *vendor; /* its library has been opened before the functions are called */
    const char *needs;         /* the end of a message that the library is too old */
    bool (*is_new_enough)(uint64_t *out_version);
    /* Begins and ends records of all kinds. `out` receives the name of the function that failed. A
     * start that fails leaves nothing begun. */
    int (*start)(const char **out);
    int (*stop)(const char **out);
    /* Delivers the records of work that has ended. all: also of work that has not, as nothing
     * follows. */
    int (*flush)(bool all, const char **out);
    int (*clock)(uint64_t *out_ns, const char **out);
    int (*push)(uint64_t external, const char **out);
    int (*pop)(const char **out);
    /* Finds the numbers by which records name the device's context and the stream. NULL: records
     * do not name them. */
    int (*identify)(struct gpu_device *device, struct gpu_stream *stream, const char **out);
    const char *(*text)(int code);
    const char *(*advice)(int code); /* NULL: none */
};

#ifdef GPU_CUPTI
extern const struct gpu_tracer gpu_cupti;
#endif
#ifdef GPU_ROCTRACER
extern const struct gpu_tracer gpu_roctracer;
#endif

/* Where a record belongs, as the tracer says it. */
struct gpu_origin {
    uint64_t correlation;
    int64_t device;   /* the driver's number of the device; -1: unknown */
    uint32_t context; /* the tracer's numbers, as from `identify`; 0: unknown */
    uint32_t stream;
};

/* Tracers call these functions from any thread: a call of the driver with this correlation id was
 * made under this external id; and hands over a record, whose stream and tag are empty. A record
 * without times is counted. */
void gpu_profile_correlate(uint64_t correlation, uint64_t external);
void gpu_profile_add(const struct gpu_origin *origin, const struct bp_record *record);
/* The tracer has dropped records. */
void gpu_profile_dropped(uint64_t n);

/* Whether the name is that of a kernel of NCCL or RCCL. */
bool gpu_profile_is_collective(const char *kernel);

/* The stream is about to be destroyed: records of its work are delivered first. */
#ifdef GPU_PROFILER
void gpu_profile_forget(struct gpu_stream *stream);
extern const struct bp_profilers gpu_profilers;
#else
static inline void gpu_profile_forget(struct gpu_stream *stream)
{
    (void)stream;
}
#endif

/* profile_ranges.c: the app's ranges and marks, for the vendor's tools. */
void gpu_range_begin(void *self, const char *name);
void gpu_range_end(void *self);
void gpu_mark(void *self, const char *name);

#endif
