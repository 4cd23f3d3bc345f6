/* SPDX-License-Identifier: Apache-2.0 */
/* profile_roctracer.c: makes records by roctracer: the work of HIP's streams, and the calls of HIP
 * with their external ids. A pool of our own receives the records, so that a pool of the app's
 * stays as it is. */
#include "profile.h"
#include "roctracer.h"
#include <string.h>

enum {
    BUFFER_SIZE = 1 << 20
};

#define KIT_LIST "gpu/roctracer.def"
#define KIT_TABLE roctracer
#define KIT_CALLS struct roctracer_calls
#include <kit/table.h>

static struct gpu_vendor vendor = {
    .name = "roctracer",
    .id = GPU_VENDOR_ROCTRACER,
    .library = KIT_LIBRARY(roctracer_symbols, roctracer.function, ": another roctracer is needed"),
};

static void *pool; /* created for the first profile, and kept */

/* ---- records ---- */

/* A copy engine also fills memory: only the name of the operation says so. */
static bool is_fill(const struct roctracer_record *r)
{
    const char *name = roctracer.call.roctracer_op_string
                           ? roctracer.call.roctracer_op_string(r->domain, r->op, r->kind)
                           : NULL;

    return name && strstr(name, "Fill");
}

static void take_work(const struct roctracer_record *r)
{
    struct gpu_origin origin = {.correlation = r->correlation, .device = r->device};
    struct bp_record record = {.begin_ns = r->begin, .end_ns = r->end};

    switch (r->op) {
    case ROCTRACER_DISPATCH:
        record.name = r->name;
        record.kind = r->name && gpu_profile_is_collective(r->name) ? BP_RECORD_COLLECTIVE
                                                                    : BP_RECORD_KERNEL;
        break;
    case ROCTRACER_COPY:
        record.bytes = r->bytes;
        record.kind = is_fill(r) ? BP_RECORD_MEMORY : BP_RECORD_COPY;
        break;
    case ROCTRACER_BARRIER: record.kind = BP_RECORD_WAIT; break;
    default: record.kind = BP_RECORD_OTHER; break;
    }
    gpu_profile_add(&origin, &record);
}

static void roctracer_completed(const char *begin, const char *end, void *arg)
{
    const struct roctracer_record *r = (const void *)begin;

    (void)arg;
    for (; r + 1 <= (const struct roctracer_record *)(const void *)end; r++) {
        if (r->domain == ROCTRACER_HIP_OPS) take_work(r);
        else if (r->domain == ROCTRACER_EXTERNAL && r->op == ROCTRACER_EXTERNAL_ID)
            gpu_profile_correlate(r->correlation, r->external);
    }
}

/* ---- the tracer ---- */

static bool roctracer_is_new_enough(uint64_t *out_version)
{
    *out_version = roctracer.call.roctracer_version_major();
    return *out_version == ROCTRACER_OLDEST;
}

static int pool_open(const char **out)
{
    const struct roctracer_properties properties = {.buffer_size = BUFFER_SIZE,
                                                    .completed = roctracer_completed};

    *out = "roctracer_open_pool_expl";
    return pool ? 0 : roctracer.call.roctracer_open_pool_expl(&properties, &pool);
}

static int roctracer_disable(const char **out)
{
    int code = roctracer.call.roctracer_disable_domain_activity(ROCTRACER_HIP_OPS),
        other = roctracer.call.roctracer_disable_domain_activity(ROCTRACER_HIP_API);

    *out = "roctracer_disable_domain_activity";
    return code ? code : other;
}

static int roctracer_start(const char **out)
{
    static const int domain[] = {ROCTRACER_HIP_API, ROCTRACER_HIP_OPS};
    int code = pool_open(out);

    if (!code && roctracer.call.roctracer_set_properties) {
        *out = "roctracer_set_properties";
        code = roctracer.call.roctracer_set_properties(ROCTRACER_HIP_API, NULL);
    }
    for (int i = 0; !code && i < 2; i++) {
        *out = "roctracer_enable_domain_activity_expl";
        code = roctracer.call.roctracer_enable_domain_activity_expl(domain[i], pool);
        if (code && i) roctracer.call.roctracer_disable_domain_activity(domain[0]);
    }
    return code;
}

static int roctracer_flush(bool all, const char **out)
{
    (void)all;
    *out = "roctracer_flush_activity_expl";
    return roctracer.call.roctracer_flush_activity_expl(pool);
}

static int roctracer_clock(uint64_t *out_ns, const char **out)
{
    *out = "roctracer_get_timestamp";
    return roctracer.call.roctracer_get_timestamp(out_ns);
}

static int roctracer_push(uint64_t external, const char **out)
{
    *out = "roctracer_activity_push_external_correlation_id";
    return roctracer.call.roctracer_activity_push_external_correlation_id(external);
}

static int roctracer_pop(const char **out)
{
    uint64_t external;

    *out = "roctracer_activity_pop_external_correlation_id";
    return roctracer.call.roctracer_activity_pop_external_correlation_id(&external);
}

/* roctracer has a text for its last failure only. */
static const char *roctracer_text(int code)
{
    (void)code;
    return roctracer.call.roctracer_error_string ? roctracer.call.roctracer_error_string() : NULL;
}

const struct gpu_tracer gpu_roctracer = {
    .vendor = &vendor,
    .needs = "and records of version 4 alone are known",
    .is_new_enough = roctracer_is_new_enough,
    .start = roctracer_start,
    .stop = roctracer_disable,
    .flush = roctracer_flush,
    .clock = roctracer_clock,
    .push = roctracer_push,
    .pop = roctracer_pop,
    .text = roctracer_text,
};
