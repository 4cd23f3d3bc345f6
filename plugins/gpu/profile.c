/* SPDX-License-Identifier: Apache-2.0 */
/* profile.c: makes records of the devices' work by the process's tracer, CUPTI or roctracer; see
 * profile.h. */
#include "profile.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* An external id is the number of a stream in `known.stream`, above TAG_BITS bits of the tag. */
enum {
    TAG_BITS = 40,
    STREAMS_MAX = 1 << 16,
    CALLS = 1 << 17,    /* the last calls whose external ids are known, a power of 2 */
    HELD_MAX = 1 << 16, /* records that wait for the external id of their call */
    DEVICES_MAX = 64,   /* devices that are profiled at the same time */
};
#define TAG_MASK ((UINT64_C(1) << TAG_BITS) - 1)

struct profile_call {
    uint64_t correlation, external;
};

struct profile_held {
    struct gpu_origin origin;
    struct bp_record record; /* its name is allocated */
};

struct profile_device {
    struct gpu_device *device;
    struct bp_record_sink sink;
};

/* A stream that has been tagged. It is never dereferenced by the thread of a tracer. */
struct profile_stream {
    void *stream; /* NULL: destroyed */
    const struct gpu_device *device;
    uint32_t context, number; /* the tracer's; 0: unknown */
};

/* `turn` orders starts, stops and flushes; `lock` guards all other fields. A thread that holds
 * `turn` may take `lock`, and calls the tracer without it: the tracer's threads take `lock`. */
static struct {
    pthread_mutex_t turn, lock;
    const struct gpu_tracer *tracer; /* NULL: not chosen yet. Guarded by `turn` */
    bool was_started;                /* the tracer, once at least. Guarded by `turn` */
    atomic_uint n_device;            /* changed under both locks */
    struct profile_device device[DEVICES_MAX];
    struct profile_call *call; /* CALLS, at the place of their correlation ids; NULL: stopped */
    struct profile_held *held;
    size_t n_held;
    struct profile_stream *stream;
    uint32_t n_stream;
    uint64_t dropped, without_times;
    atomic_bool tag_failed;
} known = {.turn = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER};

/* Whether this thread has pushed an external id. */
static _Thread_local bool is_pushed;

static const struct gpu_tracer *const tracers[] = {
#ifdef GPU_CUPTI
    &gpu_cupti,
#endif
#ifdef GPU_ROCTRACER
    &gpu_roctracer,
#endif
};
enum {
    TRACERS = sizeof tracers / sizeof *tracers
};

/* The parts of a kernel's name that only NCCL's and RCCL's kernels have. */
bool gpu_profile_is_collective(const char *kernel)
{
    return strstr(kernel, "ncclDevKernel") || strstr(kernel, "ncclKernel");
}

/* ---- records ---- */

static const struct profile_device *profiled_of(const struct gpu_device *device)
{
    for (unsigned i = 0; i < known.n_device; i++)
        if (known.device[i].device == device) return &known.device[i];
    return NULL;
}

/* The device of a record whose stream is unknown. Another instance of the plugin may have the same
 * device of the driver: the first one takes the record. */
static const struct profile_device *profiled_by_number(const struct gpu_origin *origin)
{
    for (unsigned i = 0; i < known.n_device; i++)
        if (known.device[i].device->number == origin->device) return &known.device[i];
    for (uint32_t i = 0; origin->device < 0 && origin->context && i < known.n_stream; i++)
        if (known.stream[i].context == origin->context) return profiled_of(known.stream[i].device);
    return NULL;
}

static const struct profile_stream *stream_by_number(const struct gpu_origin *origin)
{
    for (uint32_t i = known.n_stream; origin->stream && i-- > 0;) {
        const struct profile_stream *s = &known.stream[i];
        if (s->context == origin->context && s->number == origin->stream && s->stream) return s;
    }
    return NULL;
}

/* The external id of a call, or 0. */
static uint64_t external_of(uint64_t correlation)
{
    const struct profile_call *call = &known.call[correlation & (CALLS - 1)];

    return call->correlation == correlation ? call->external : 0;
}

/* Hands a record over. A library may compute on streams of its own: then the record belongs to the
 * stream of the call, and `queue` says that the stream does not order it. */
static void record_put(const struct gpu_origin *origin, struct bp_record record)
{
    uint64_t external = origin->correlation ? external_of(origin->correlation) : 0;
    const struct profile_stream *own = stream_by_number(origin), *stream = own;
    const struct profile_device *to;

    if (external >> TAG_BITS && external >> TAG_BITS <= known.n_stream) {
        stream = &known.stream[(external >> TAG_BITS) - 1];
        record.tag = stream->stream ? external & TAG_MASK : 0;
        if (stream->number && origin->stream && origin->stream != stream->number)
            record.queue = origin->stream;
    }
    to = stream ? profiled_of(stream->device) : profiled_by_number(origin);
    if (!to) return;
    record.stream = stream ? stream->stream : NULL;
    to->sink.put(to->sink.ctx, &record, 1, sizeof record);
}

/* Hands over the records that wait for their calls. all: also of those whose calls are unknown. */
static void records_settle(bool all)
{
    size_t left = 0;

    for (size_t i = 0; i < known.n_held; i++) {
        struct profile_held *held = &known.held[i];
        if (!all && !external_of(held->origin.correlation)) {
            known.held[left++] = *held;
            continue;
        }
        record_put(&held->origin, held->record);
        free((char *)held->record.name);
    }
    known.n_held = left;
}

/* Keeps a record until its call is known. The tracer's text is valid only now. */
static bool record_hold(const struct gpu_origin *origin, const struct bp_record *record)
{
    struct profile_held *held;

    if (known.n_held == HELD_MAX) records_settle(true);
    held = &known.held[known.n_held];
    *held = (struct profile_held){*origin, *record};
    if (record->name && !(held->record.name = strdup(record->name))) return false;
    known.n_held++;
    return true;
}

void gpu_profile_correlate(uint64_t correlation, uint64_t external)
{
    pthread_mutex_lock(&known.lock);
    if (known.call && correlation)
        known.call[correlation & (CALLS - 1)] = (struct profile_call){correlation, external};
    pthread_mutex_unlock(&known.lock);
}

void gpu_profile_add(const struct gpu_origin *origin, const struct bp_record *record)
{
    pthread_mutex_lock(&known.lock);
    if (known.call && (!record->begin_ns || record->end_ns < record->begin_ns))
        known.without_times++;
    else if (known.call && (!origin->correlation || external_of(origin->correlation) ||
                            !record_hold(origin, record)))
        record_put(origin, *record);
    pthread_mutex_unlock(&known.lock);
}

void gpu_profile_dropped(uint64_t n)
{
    pthread_mutex_lock(&known.lock);
    known.dropped += n;
    pthread_mutex_unlock(&known.lock);
}

/* ---- calls of the tracer ---- */

static struct kit_call tracer_call(const struct gpu_device *device, const char *function, int code)
{
    return gpu_call_made(device->gpu, device, function, code);
}

/* Logs a failure of the tracer. */
static void tracer_note(const struct gpu_device *device, const char *function, int code)
{
    struct kit_call call;

    if (!code) return;
    call = tracer_call(device, function, code);
    kit_call_warn(&call, known.tracer->text(code));
}

static enum bp_status tracer_check(const struct gpu_device *device, enum bp_status status,
                                   const char *function, int code)
{
    struct kit_call call;

    if (!code) return BP_OK;
    call = tracer_call(device, function, code);
    return kit_call_fail(&call, status, known.tracer->text(code),
                         known.tracer->advice ? known.tracer->advice(code) : NULL);
}

/* Chooses the first tracer whose library can be opened. */
static enum bp_status tracer_choose(const struct gpu_device *device)
{
    char why[2 * KIT_WHY_SIZE] = "";
    size_t used = 0;

    for (int i = 0; i < TRACERS; i++) {
        struct gpu_vendor *vendor = tracers[i]->vendor;
        uint64_t version = 0;
        if (!gpu_vendor_open(vendor)) {
            used += (size_t)snprintf(why + used, sizeof why - used, "%s%s: %s", i ? "; " : "",
                                     vendor->name, vendor->library.why);
            if (used >= sizeof why) used = sizeof why - 1;
            continue;
        }
        if (!tracers[i]->is_new_enough(&version))
            return bp_fail(device->gpu->host, BP_ERR_UNSUPPORTED,
                           GPU_NAME ":%u: %s has version %" PRIu64 " of %s, %s", device->index,
                           vendor->library.path, version, vendor->name, tracers[i]->needs);
        gpu_vendor_report(device->gpu, vendor, version);
        known.tracer = tracers[i];
        return BP_OK;
    }
    return bp_fail(device->gpu->host, BP_ERR_UNSUPPORTED, GPU_NAME ":%u: %s", device->index, why);
}

/* ---- start and stop ---- */

static void profile_release(void)
{
    pthread_mutex_lock(&known.lock);
    for (size_t i = 0; i < known.n_held; i++) free((char *)known.held[i].record.name);
    free(known.call);
    free(known.held);
    known.call = NULL;
    known.held = NULL;
    known.n_held = 0;
    pthread_mutex_unlock(&known.lock);
}

/* Begins to keep the calls and the records of the first device that is profiled. */
static bool profile_keep(void)
{
    struct profile_call *call = calloc(CALLS, sizeof *call);
    struct profile_held *held = malloc(HELD_MAX * sizeof *held);

    pthread_mutex_lock(&known.lock);
    if (!known.stream) known.stream = calloc(STREAMS_MAX, sizeof *known.stream);
    if (call && held && known.stream) {
        known.call = call;
        known.held = held;
        known.dropped = known.without_times = 0;
    }
    pthread_mutex_unlock(&known.lock);
    if (known.call) return true;
    free(call);
    free(held);
    return false;
}

static enum bp_status profile_begin(const struct gpu_device *device)
{
    const char *function = NULL;
    enum bp_status status;
    int code;

    if (!known.tracer) TRY(tracer_choose(device));
    if (known.was_started) { /* nothing is kept now: drops late records of an earlier profile */
        code = known.tracer->flush(true, &function);
        tracer_note(device, function, code);
    }
    if (!profile_keep())
        return bp_fail(device->gpu->host, BP_ERR_MEMORY, GPU_NAME ":%u: no memory for a profile",
                       device->index);
    atomic_store(&known.tag_failed, false);
    code = known.tracer->start(&function);
    status = tracer_check(device, BP_ERR_UNSUPPORTED, function, code);
    if (status) profile_release();
    else known.was_started = true;
    return status;
}

static enum bp_status profile_start(void *self, uint32_t index, const struct bp_record_sink *sink)
{
    struct gpu_device *device = &((struct gpu *)self)->device[index];
    enum bp_status status = BP_OK;

    pthread_mutex_lock(&known.turn);
    if (known.n_device == DEVICES_MAX)
        status = bp_fail(device->gpu->host, BP_ERR_UNSUPPORTED,
                         GPU_NAME ":%u: %d devices are profiled already", index, DEVICES_MAX);
    else if (!known.n_device) status = profile_begin(device);
    if (status == BP_OK) {
        pthread_mutex_lock(&known.lock);
        known.device[known.n_device++] = (struct profile_device){device, *sink};
        pthread_mutex_unlock(&known.lock);
    }
    pthread_mutex_unlock(&known.turn);
    return status;
}

/* Logs the records that the profile lacks. */
static void profile_report(const struct gpu_device *device)
{
    if (known.dropped)
        bp_log(device->gpu->host, BP_LOG_WARN,
               GPU_NAME ":%u: %s dropped %" PRIu64 " records of a profile", device->index,
               known.tracer->vendor->name, known.dropped);
    if (known.without_times)
        bp_log(device->gpu->host, BP_LOG_WARN,
               GPU_NAME ":%u: %" PRIu64 " records of %s have no times: a profile lacks them",
               device->index, known.without_times, known.tracer->vendor->name);
}

static void profile_remove(const struct gpu_device *device)
{
    unsigned i = 0;

    pthread_mutex_lock(&known.lock);
    records_settle(true);
    while (i < known.n_device && known.device[i].device != device) i++;
    if (i < known.n_device) known.device[i] = known.device[--known.n_device];
    pthread_mutex_unlock(&known.lock);
}

/* The records are delivered first, and then no more are made: a tracer may discard the records of a
 * kind that it no longer makes. */
static void profile_stop(void *self, uint32_t index)
{
    struct gpu_device *device = &((struct gpu *)self)->device[index];
    const char *function = NULL;
    bool last;
    int code;

    pthread_mutex_lock(&known.turn);
    last = known.n_device == 1;
    code = known.tracer->flush(last, &function);
    tracer_note(device, function, code);
    if (last) {
        code = known.tracer->stop(&function);
        tracer_note(device, function, code);
    }
    profile_remove(device);
    if (last) {
        profile_report(device);
        profile_release();
    }
    pthread_mutex_unlock(&known.turn);
}

/* ---- callbacks while records are made ---- */

static enum bp_status profile_flush_for(const struct gpu_device *device)
{
    const char *function = NULL;
    enum bp_status status = BP_OK;
    int code;

    pthread_mutex_lock(&known.turn);
    if (known.n_device) {
        code = known.tracer->flush(false, &function);
        status = tracer_check(device, BP_ERR_DEVICE, function, code);
        pthread_mutex_lock(&known.lock);
        records_settle(false);
        pthread_mutex_unlock(&known.lock);
    }
    pthread_mutex_unlock(&known.turn);
    return status;
}

static enum bp_status profile_flush(void *self, uint32_t index)
{
    return profile_flush_for(&((struct gpu *)self)->device[index]);
}

static enum bp_status profile_clock(void *self, uint32_t index, uint64_t *out_ns)
{
    const char *function = NULL;
    int code = known.tracer->clock(out_ns, &function);

    return tracer_check(&((struct gpu *)self)->device[index], BP_ERR_DEVICE, function, code);
}

/* Logs the first failure of a tag since the start: the records have no tags then. */
static void tag_note(const struct gpu_device *device, const char *function, int code)
{
    if (code && !atomic_exchange(&known.tag_failed, true)) tracer_note(device, function, code);
}

/* Gives the stream a number for external ids. 0: there are too many streams. */
static void stream_number(struct gpu_device *device, struct gpu_stream *stream)
{
    const char *function = NULL;
    KIT_CONTEXT caller = {NULL};
    int code = 0;

    if (known.tracer->identify) {
        gpu_device_reuse(device->gpu, device->index, &caller);
        code = known.tracer->identify(device, stream, &function);
    }
    tag_note(device, function, code);
    pthread_mutex_lock(&known.lock);
    if (known.n_stream < STREAMS_MAX) {
        known.stream[known.n_stream++] = (struct profile_stream){
            stream, device, stream->traced_context, stream->traced_number};
        stream->profiled = known.n_stream;
    }
    pthread_mutex_unlock(&known.lock);
}

/* An earlier tag of this thread may still be pushed, if a profile was stopped before the tag
 * ended. */
static void profile_tag(void *self, uint32_t index, void *p, uint64_t tag)
{
    struct gpu_device *device = &((struct gpu *)self)->device[index];
    struct gpu_stream *stream = p;
    const char *function = NULL;
    int code;

    if (is_pushed) {
        code = known.tracer->pop(&function);
        tag_note(device, function, code);
        is_pushed = false;
    }
    if (!tag || !stream || !known.n_device) return;
    if (!stream->profiled) stream_number(device, stream);
    if (!stream->profiled) return;
    code = known.tracer->push((uint64_t)stream->profiled << TAG_BITS | (tag & TAG_MASK), &function);
    tag_note(device, function, code);
    is_pushed = !code;
}

void gpu_profile_forget(struct gpu_stream *stream)
{
    if (!stream->profiled) return;
    if (known.n_device) profile_flush_for(stream->device);
    pthread_mutex_lock(&known.lock);
    known.stream[stream->profiled - 1].stream = NULL;
    pthread_mutex_unlock(&known.lock);
}

const struct bp_profilers gpu_profilers = {
    .size = sizeof gpu_profilers,
    .start = profile_start,
    .stop = profile_stop,
    .flush = profile_flush,
    .clock = profile_clock,
    .tag = profile_tag,
    .range_begin = gpu_range_begin,
    .range_end = gpu_range_end,
    .mark = gpu_mark,
};
