/* SPDX-License-Identifier: Apache-2.0 */
/* profiled.c: records the work of a device in profiles, and takes the plugin's own records: their
 * streams become numbers, and their clock is read beside the host's. */
#include "profiled.h"

#include <stdlib.h>

enum {
    BATCH = 64,   /* records that are passed on at once */
    READINGS = 9, /* of a clock, of which the quickest is used */
    TAG_BITS = 40 /* of a tag with a timeline: those of the work's number */
};

struct bp_device_profile {
    struct bp_profile_source source; /* first */
    struct bp_device *device;
    bool takes;        /* the plugin makes records. Changed by source functions */
    bool warned;       /* in this recording, of a flush or a clock that failed */
    _Atomic bool open; /* records are taken */
    struct bp_record_sink sink;
    struct bp_range_listener listener;
};

static const struct bp_profilers *device_profilers(const struct bp_device *device)
{
    return &device->entry->profilers;
}

/* ---- work ---- */

/* A plugin without streams orders all work alike, and its records have the stream NULL. Numbers of
 * work rise by timeline: there, the plugin gets a tag with the timeline in its upper bits, so that
 * its records still name the call. */
static bool tag_has_timeline(const struct bp_device *device)
{
    return !device->entry->runtime.stream_create;
}

static uint64_t tag_of(const struct bp_timeline *timeline, uint64_t number)
{
    if (!number || number >> TAG_BITS || timeline->id >> (64 - TAG_BITS) ||
        !tag_has_timeline(timeline->device))
        return number;
    return (uint64_t)timeline->id << TAG_BITS | number;
}

/* Gives the plugin the tag of the work that this thread submits from now on. */
static void work_tag(struct bp_timeline *timeline, uint64_t tag)
{
    struct bp_device *device = timeline->device;
    const struct bp_device_profile *profile = device->profile;

    if (profile && atomic_load_explicit(&profile->open, memory_order_relaxed) &&
        device_profilers(device)->tag)
        device_profilers(device)->tag(device->entry->self, device->index, timeline->stream,
                                      tag_of(timeline, tag));
}

uint64_t bp_work_profile_begin_now(struct bp_timeline *timeline, uint64_t number)
{
    if (!timeline->is_inline) work_tag(timeline, number);
    return bp_profile_now();
}

void bp_work_profile_end(struct bp_timeline *timeline, uint64_t number, uint64_t began,
                         struct bp_profile_put *event)
{
    struct bp_device *device = timeline->device;

    event->begin = began;
    event->end = bp_profile_now();
    event->tag = number;
    event->device = device->name;
    event->stream = timeline->id;
    if (timeline->is_inline || timeline->queue) event->flags = BP_PROFILE_ON_DEVICE;
    else event->kind = BP_PROFILE_SUBMIT;
    if (!timeline->is_inline) work_tag(timeline, 0);
    bp_profile_put(event);
}

void bp_device_profile_put(struct bp_device *device, const struct bp_timeline *timeline,
                           uint16_t kind, const char *name, uint64_t began)
{
    bp_profile_put(&(struct bp_profile_put){.begin = began,
                                            .end = bp_profile_now(),
                                            .name = name,
                                            .device = device->name,
                                            .stream = timeline ? timeline->id : 0,
                                            .kind = kind});
}

/* ---- records of the plugin ---- */

static uint32_t stream_number(struct bp_device *device, const void *stream)
{
    struct bp_timeline *t = atomic_load(&device->timelines);

    while (t && t->stream != stream) t = t->next;
    return t && stream ? t->id : 0;
}

static const char *own_kind(const struct bp_profilers *profilers, uint32_t kind)
{
    uint32_t own = kind - BP_RECORD_OWN;

    return kind >= BP_RECORD_OWN && own < profilers->n_kind ? profilers->kind[own] : NULL;
}

static void record_convert(struct bp_device *device, const struct bp_record *from,
                           struct bp_profile_put *to)
{
    const struct bp_profilers *profilers = device_profilers(device);

    *to = (struct bp_profile_put){
        .begin = from->begin_ns,
        .end = from->end_ns,
        .tag = from->tag,
        .bytes = from->bytes,
        .kernel_text = from->name,
        .text = own_kind(profilers, from->kind),
        .device = device->name,
        .stream = stream_number(device, from->stream),
        .queue = from->queue,
        .kind = (uint16_t)(from->kind >= BP_RECORD_KERNEL && from->kind <= BP_RECORD_OTHER
                               ? from->kind
                               : BP_RECORD_OTHER),
        .flags = BP_PROFILE_ON_DEVICE | BP_PROFILE_RAW_CLOCK,
    };
    if (!tag_has_timeline(device)) return;
    to->stream = (uint32_t)(from->tag >> TAG_BITS);
    to->tag = from->tag & (((uint64_t)1 << TAG_BITS) - 1);
}

static void sink_put(void *ctx, const struct bp_record *first, size_t count, size_t stride)
{
    struct bp_device_profile *profile = ctx;
    struct bp_profile_put batch[BATCH];
    size_t n = 0;

    if (!first || stride < sizeof(uint64_t)) return;
    for (size_t i = 0; i < count; i++) {
        struct bp_record record = {0};
        if (!n && !atomic_load(&profile->open)) {
            bp_profile_count_late(count - i);
            return;
        }
        memcpy(&record, (const char *)first + i * stride,
               stride < sizeof record ? stride : sizeof record);
        record_convert(profile->device, &record, &batch[n++]);
        if (n < BATCH && i + 1 < count) continue;
        bp_profile_put_records(batch, n);
        n = 0;
    }
}

/* Logs once in a recording that a callback failed, whose message is the thread's. */
static void callback_warn(struct bp_device_profile *profile, const char *result)
{
    if (profile->warned) return;
    profile->warned = true;
    bp_core_log(profile->device->core, BP_LOG_WARN, "%s: %s: %s", profile->device->name, result,
                bp_error_message());
}

/* The time of the clock of the plugin's records. */
static enum bp_status clock_of_records(struct bp_device *device, uint64_t *out_ns)
{
    const struct bp_profilers *profilers = device_profilers(device);

    if (profilers->clock) return profilers->clock(device->entry->self, device->index, out_ns);
    *out_ns = bp_clock_ns();
    return BP_OK;
}

/* Records the time of the plugin's records at a moment of the profile's clock. Of several readings
 * the one counts during which the profile's clock has moved least. */
static void clock_read(struct bp_device_profile *profile)
{
    struct bp_device *device = profile->device;
    struct bp_profile_put put = {.device = device->name, .kind = BP_PROFILE_KIND_CLOCK};
    uint64_t least = UINT64_MAX, there = 0;

    for (int i = 0; i < READINGS; i++) {
        uint64_t before = bp_profile_now(), after;
        enum bp_status status;
        bp_error_enter();
        status = clock_of_records(device, &there);
        after = bp_profile_now();
        if (status) {
            bp_device_leave(device, status, "clock");
            callback_warn(profile, "the times of records of the device may be wrong or missing");
            return;
        }
        if (after - before >= least) continue;
        least = after - before;
        put.begin = before + least / 2;
        put.end = there;
    }
    bp_profile_put_records(&put, 1);
}

/* ---- start and stop, by the recorder ---- */

static void source_start(struct bp_profile_source *source, uint32_t flags)
{
    struct bp_device_profile *profile = (struct bp_device_profile *)source;
    struct bp_device *device = profile->device;
    const struct bp_profilers *profilers = device_profilers(device);
    enum bp_status status;

    if (flags & BP_PROFILER_MEMORY) device->record_memory(device, true);
    profile->warned = false;
    atomic_fetch_or(&device->n_writebacks, BP_DEVICE_PROFILED);
    if (!profilers->start || bp_device_is_lost(device)) return;
    atomic_store(&profile->open, true);
    bp_error_enter();
    status = profilers->start(device->entry->self, device->index, &profile->sink);
    profile->takes = bp_device_leave(device, status, "start") == BP_OK;
    if (profile->takes) return;
    atomic_store(&profile->open, false);
    callback_warn(profile, "a profile has no times of the device, only those of the host");
}

static void source_stop(struct bp_profile_source *source)
{
    struct bp_device_profile *profile = (struct bp_device_profile *)source;
    struct bp_device *device = profile->device;

    atomic_fetch_and(&device->n_writebacks, ~BP_DEVICE_PROFILED);
    device->record_memory(device, false);
    if (!profile->takes) return;
    bp_error_enter();
    device_profilers(device)->stop(device->entry->self, device->index);
    atomic_store(&profile->open, false);
    profile->takes = false;
}

static void source_read_clock(struct bp_profile_source *source)
{
    struct bp_device_profile *profile = (struct bp_device_profile *)source;

    if (profile->takes && !bp_device_is_lost(profile->device)) clock_read(profile);
}

static void source_flush(struct bp_profile_source *source)
{
    struct bp_device_profile *profile = (struct bp_device_profile *)source;
    struct bp_device *device = profile->device;
    enum bp_status status;

    if (!profile->takes || !device_profilers(device)->flush || bp_device_is_lost(device)) return;
    bp_error_enter();
    status = device_profilers(device)->flush(device->entry->self, device->index);
    if (bp_device_leave(device, status, "flush"))
        callback_warn(profile, "records of the device may be missing");
}

enum bp_status bp_device_profile_init(struct bp_device *device)
{
    const struct bp_profilers *profilers = device_profilers(device);
    struct bp_device_profile *profile = calloc(1, sizeof *profile);

    if (!profile) return bp_error(BP_ERR_MEMORY, "no memory for a device");
    profile->device = device;
    profile->source.start = source_start;
    profile->source.stop = source_stop;
    profile->source.clock = source_read_clock;
    profile->source.flush = source_flush;
    profile->sink = (struct bp_record_sink){sizeof profile->sink, profile, sink_put};
    profile->listener = (struct bp_range_listener){
        NULL, device->entry->self, profilers->range_begin, profilers->range_end, profilers->mark};
    device->profile = profile;
    return BP_OK;
}

void bp_device_profile_open(struct bp_device *device)
{
    struct bp_device_profile *profile = device->profile;

    if ((profile->listener.begin || profile->listener.mark) && !device->index)
        bp_range_add_listener(&profile->listener);
    bp_profile_add_source(&profile->source);
}

void bp_device_profile_finish(struct bp_device *device)
{
    struct bp_device_profile *profile = device->profile;

    if (!profile) return;
    bp_profile_remove_source(&profile->source);
    bp_range_remove_listener(&profile->listener);
    device->profile = NULL;
    free(profile);
}
