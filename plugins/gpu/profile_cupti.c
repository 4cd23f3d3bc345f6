/* SPDX-License-Identifier: Apache-2.0 */
/* profile_cupti.c: makes records by CUPTI's activity interface. CUPTI requests buffers and
 * returns them with records, from threads of its own or from a flush. */
#include "cupti.h"
#include "profile.h"
#include <stdlib.h>
#include <string.h>

enum {
    BUFFER_SIZE = 1 << 20
};

#define CALL(name, parameters) {#name, true},
#define KIT_LIST "gpu/cupti.def"
#define KIT_TABLE cupti
#define KIT_CALLS struct cupti_calls
#include <kit/table.h>

static struct gpu_vendor vendor = {
    .name = "CUPTI",
    .id = GPU_VENDOR_CUPTI,
    .library = KIT_LIBRARY(cupti_symbols, cupti.function, ": a newer CUPTI is needed"),
};

static uint32_t version;

/* ---- records ---- */

static struct gpu_origin cupti_origin(uint32_t correlation, int64_t device, uint32_t context,
                                      uint32_t stream)
{
    return (struct gpu_origin){correlation, device, context, stream};
}

static void take_kernel(const struct cupti_kernel *k)
{
    struct gpu_origin origin = cupti_origin(k->correlation, k->device, k->context, k->stream);
    struct bp_record record = {
        .begin_ns = k->start, .end_ns = k->end, .name = k->name, .kind = BP_RECORD_KERNEL};

    if (k->name && gpu_profile_is_collective(k->name)) record.kind = BP_RECORD_COLLECTIVE;
    gpu_profile_add(&origin, &record);
}

static void take_copy(const struct cupti_copy *c, uint32_t correlation)
{
    struct gpu_origin origin = cupti_origin(correlation, c->device, c->context, c->stream);
    struct bp_record record = {
        .begin_ns = c->start, .end_ns = c->end, .bytes = c->bytes, .kind = BP_RECORD_COPY};

    gpu_profile_add(&origin, &record);
}

static void take_fill(const struct cupti_fill *f)
{
    struct gpu_origin origin = cupti_origin(f->correlation, f->device, f->context, f->stream);
    struct bp_record record = {.begin_ns = f->start,
                               .end_ns = f->end,
                               .bytes = f->bytes,
                               .name = "memset",
                               .kind = BP_RECORD_MEMORY};

    gpu_profile_add(&origin, &record);
}

/* An allocation is a moment, not a span. */
static void take_memory(const struct cupti_memory *m)
{
    struct gpu_origin origin = cupti_origin(0, m->device, m->context, 0);
    struct bp_record record = {.begin_ns = m->time,
                               .end_ns = m->time,
                               .bytes = m->bytes,
                               .name = m->operation == CUPTI_ALLOCATION ? "allocate" : "free",
                               .kind = BP_RECORD_MEMORY};

    gpu_profile_add(&origin, &record);
}

/* Waits of the host are passed over: they are no work of the device, and the core records them. The
 * times of a stream's wait are those of the call that submitted it. */
static void take_synchronization(const struct cupti_synchronization *s)
{
    struct gpu_origin origin = cupti_origin(0, -1, s->context,
                                            s->stream == CUPTI_NO_STREAM ? 0 : s->stream);
    struct bp_record record = {.begin_ns = s->start, .end_ns = s->end, .kind = BP_RECORD_WAIT};

    if (s->type == CUPTI_STREAM_WAIT) gpu_profile_add(&origin, &record);
}

static void take_external(const struct cupti_external *e)
{
    if (e->external_kind == CUPTI_CUSTOM) gpu_profile_correlate(e->correlation, e->external);
}

/* A record of a kind that another part of the process has enabled is passed over. */
static void cupti_take(const void *record)
{
    switch (*(const uint32_t *)record) {
    case CUPTI_KERNEL: take_kernel(record); break;
    case CUPTI_COPY: take_copy(record, ((const struct cupti_copy *)record)->correlation); break;
    case CUPTI_COPY_PEER:
        take_copy(record, ((const struct cupti_copy_peer *)record)->correlation);
        break;
    case CUPTI_FILL: take_fill(record); break;
    case CUPTI_MEMORY: take_memory(record); break;
    case CUPTI_SYNCHRONIZATION: take_synchronization(record); break;
    case CUPTI_EXTERNAL: take_external(record); break;
    default: break;
    }
}

/* ---- buffers ---- */

/* CUPTI keeps a buffer for as long as it likes, so buffers do not belong to an instance. */
static void cupti_requested(uint8_t **buffer, size_t *size, size_t *records)
{
    void *memory = NULL;

    if (posix_memalign(&memory, 64, BUFFER_SIZE)) memory = NULL;
    *buffer = memory;
    *size = memory ? BUFFER_SIZE : 0;
    *records = 0;
}

static void cupti_completed(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                            size_t valid)
{
    void *record = NULL;
    size_t dropped = 0;

    (void)context;
    (void)stream;
    (void)size;
    while (buffer && valid &&
           cupti.call.cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_OK)
        cupti_take(record);
    if (cupti.call.cuptiActivityGetNumDroppedRecords(NULL, 0, &dropped) == CUPTI_OK && dropped)
        gpu_profile_dropped(dropped);
    free(buffer);
}

/* ---- the tracer ---- */

static bool cupti_is_new_enough(uint64_t *out_version)
{
    if (cupti.call.cuptiGetVersion(&version) != CUPTI_OK) version = 0;
    *out_version = version;
    return version >= CUPTI_OLDEST;
}

/* The kinds, in the order in which they are enabled. CUPTI gives a correlation id's external id
 * only beside the record of a call of the driver or of the runtime. */
static const int kinds[] = {CUPTI_EXTERNAL, CUPTI_DRIVER,    CUPTI_RUNTIME, CUPTI_KERNEL,
                            CUPTI_COPY,     CUPTI_COPY_PEER, CUPTI_FILL,    CUPTI_SYNCHRONIZATION,
                            CUPTI_MEMORY};
enum {
    KINDS = sizeof kinds / sizeof *kinds
};

static int n_kinds(void)
{
    return version >= CUPTI_WITH_MEMORY ? KINDS : KINDS - 1;
}

/* Disables the first n kinds. Returns the first failure. */
static int disable_kinds(int n)
{
    int code = CUPTI_OK;

    while (n-- > 0) {
        int now = cupti.call.cuptiActivityDisable(kinds[n]);
        if (!code) code = now;
    }
    return code;
}

static int cupti_start(const char **out)
{
    int code = cupti.call.cuptiActivityRegisterCallbacks(cupti_requested, cupti_completed);

    *out = "cuptiActivityRegisterCallbacks";
    for (int i = 0; !code && i < n_kinds(); i++) {
        *out = "cuptiActivityEnable";
        code = cupti.call.cuptiActivityEnable(kinds[i]);
        if (code) disable_kinds(i);
    }
    return code;
}

static int cupti_stop(const char **out)
{
    *out = "cuptiActivityDisable";
    return disable_kinds(n_kinds());
}

static int cupti_flush(bool all, const char **out)
{
    *out = "cuptiActivityFlushAll";
    return cupti.call.cuptiActivityFlushAll(all ? CUPTI_FORCED : 0);
}

static int cupti_clock(uint64_t *out_ns, const char **out)
{
    *out = "cuptiGetTimestamp";
    return cupti.call.cuptiGetTimestamp(out_ns);
}

static int cupti_push(uint64_t external, const char **out)
{
    *out = "cuptiActivityPushExternalCorrelationId";
    return cupti.call.cuptiActivityPushExternalCorrelationId(CUPTI_CUSTOM, external);
}

static int cupti_pop(const char **out)
{
    uint64_t external;

    *out = "cuptiActivityPopExternalCorrelationId";
    return cupti.call.cuptiActivityPopExternalCorrelationId(CUPTI_CUSTOM, &external);
}

static int cupti_identify(struct gpu_device *device, struct gpu_stream *stream, const char **out)
{
    int code = cupti.call.cuptiGetContextId(device->context, &stream->traced_context);

    *out = "cuptiGetContextId";
    if (code) return code;
    *out = "cuptiGetStreamIdEx";
    return cupti.call.cuptiGetStreamIdEx(NULL, stream->raw, 0, &stream->traced_number);
}

static const char *cupti_text(int code)
{
    const char *text = NULL;

    return cupti.call.cuptiGetResultString(code, &text) == CUPTI_OK ? text : NULL;
}

static const char *cupti_advice(int code)
{
    switch (code) {
    case CUPTI_NO_PRIVILEGES:
        return "the driver lets only an administrator profile: see NVreg_RestrictProfilingToAdmin"
               "Users in the driver's documentation";
    case CUPTI_OTHER_SUBSCRIBER: return "another profiler uses CUPTI in this process: end it";
    default: return NULL;
    }
}

const struct gpu_tracer gpu_cupti = {
    .vendor = &vendor,
    .needs = "whose records have another layout: 13 or newer is needed, of CUDA 11.0",
    .is_new_enough = cupti_is_new_enough,
    .start = cupti_start,
    .stop = cupti_stop,
    .flush = cupti_flush,
    .clock = cupti_clock,
    .push = cupti_push,
    .pop = cupti_pop,
    .identify = cupti_identify,
    .text = cupti_text,
    .advice = cupti_advice,
};
