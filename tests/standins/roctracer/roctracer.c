/* SPDX-License-Identifier: Apache-2.0 */
/* roctracer.c: a stand-in for roctracer 4, written from its published headers and the order in
 * which its source writes records. A record of work is written when the work ends. The record of a
 * call follows that of its external id; both may come after the records of the call's work. The
 * names of kernels are valid only until the callback returns. A wrong call ends the process.
 *
 *   BP_STANDIN_ROCTRACER_VERSION=n   the major version (4)
 *   BP_STANDIN_ROCTRACER_LATE=1      records of calls are written when a flush begins
 *   BP_STANDIN_ROCTRACER_KEEP=1      the first flush with records keeps the newest one, as if that
 *                                    record had come directly after the flush */
#include "simulator/sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum {
    OPS = 2,
    API = 3,
    EXT = 5,
    DOMAINS = 8,
    PUSHED_MAX = 4,
    RECORDS_MAX = 8192,
    LATE_MAX = 4096
};

/* 64 bytes. */
struct record {
    uint32_t domain, kind, op, pad;
    uint64_t correlation, begin, end;
    uint64_t place, queue; /* device and queue; process and thread; or the external id */
    uint64_t data;         /* bytes, or the name */
};
_Static_assert(sizeof(struct record) == 64, "as activity_record_t");

struct properties {
    uint32_t mode;
    size_t buffer_size;
    void (*allocate)(char **memory, size_t size, void *arg);
    void *allocate_arg;
    void (*completed)(const char *begin, const char *end, void *arg);
    void *completed_arg;
};

static struct {
    pthread_mutex_t lock, delivery;
    struct properties properties;
    bool open, late, keep, enabled[DOMAINS];
    struct record record[RECORDS_MAX];
    size_t n;
    uint64_t call[LATE_MAX][2];
    int n_call, depth;
    uint64_t correlation;
} tracer = {.lock = PTHREAD_MUTEX_INITIALIZER, .delivery = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local uint64_t pushed[PUSHED_MAX];
static _Thread_local int n_pushed;

static void tracer_broken(const char *text)
{
    fprintf(stderr, "the stand-in for roctracer: %s\n", text);
    abort();
}

static int tracer_begin(enum sim_call call)
{
    int code;

    pthread_mutex_lock(&sim.lock);
    code = sim_doomed(call);
    pthread_mutex_unlock(&sim.lock);
    return code;
}

static void tracer_append(const struct record *record)
{
    if (tracer.n == RECORDS_MAX) tracer_broken("more records than a test makes");
    tracer.record[tracer.n++] = *record;
}

static void tracer_call(uint64_t correlation, uint64_t external)
{
    struct record record = {.domain = EXT, .op = 1, .correlation = correlation, .place = external};

    if (external) tracer_append(&record);
    record = (struct record){.domain = API, .correlation = correlation, .begin = 1, .end = 2};
    tracer_append(&record);
}

/* ---- the observer ---- */

static uint64_t tracer_submitted(const struct sim_about *about)
{
    uint64_t correlation, external = n_pushed ? pushed[n_pushed - 1] : 0;

    (void)about;
    pthread_mutex_lock(&tracer.lock);
    correlation = ++tracer.correlation;
    if (tracer.enabled[API] && !tracer.late) tracer_call(correlation, external);
    else if (tracer.enabled[API] && tracer.n_call < LATE_MAX) {
        tracer.call[tracer.n_call][0] = correlation;
        tracer.call[tracer.n_call++][1] = external;
    }
    pthread_mutex_unlock(&tracer.lock);
    return correlation;
}

static void tracer_ended(const struct sim_observed *o)
{
    struct record record = {.domain = OPS,
                            .correlation = o->correlation,
                            .begin = o->begin,
                            .end = o->end,
                            .place = (uint64_t)(o->device - sim.device),
                            .queue = o->stream % 4};

    if (o->about->work > SIM_WORK_COPY_PEER) return; /* no command of a queue */
    record.op = o->about->work != SIM_WORK_KERNEL;
    pthread_mutex_lock(&tracer.lock);
    if (record.op) record.data = o->about->bytes;
    else record.data = (uint64_t)(uintptr_t)strdup(o->about->name);
    if (tracer.enabled[OPS]) tracer_append(&record);
    else if (!record.op) free((void *)(uintptr_t)record.data);
    pthread_mutex_unlock(&tracer.lock);
}

static const struct sim_observer observer = {tracer_submitted, tracer_ended};

/* ---- the functions ---- */

EXPORT uint32_t roctracer_version_major(void)
{
    const char *text = getenv("BP_STANDIN_ROCTRACER_VERSION");

    return text ? (uint32_t)atoi(text) : 4;
}

EXPORT const char *roctracer_error_string(void)
{
    return "what roctracer says";
}

/* The kinds are those of HIP: 0 is none, 0x1207 fills a buffer. */
EXPORT const char *roctracer_op_string(uint32_t domain, uint32_t op, uint32_t kind)
{
    if (domain != OPS) return NULL;
    return op == 0 ? "KernelExecution" : kind == 0x1207 ? "FillBuffer" : "CopyHostToDevice";
}

EXPORT int roctracer_set_properties(int domain, void *properties)
{
    int code = tracer_begin(SIM_CALL_roctracer_set_properties);

    if (domain != API || properties) tracer_broken("properties of another domain");
    return code;
}

EXPORT int roctracer_get_timestamp(uint64_t *out)
{
    int code = tracer_begin(SIM_CALL_roctracer_get_timestamp);

    if (!code) *out = sim_now();
    return code;
}

EXPORT int roctracer_open_pool_expl(const struct properties *properties, void **out)
{
    int code = tracer_begin(SIM_CALL_roctracer_open_pool_expl);

    if (code) return code;
    if (tracer.open || !out) tracer_broken("a second pool, or the default one");
    if (properties->mode || properties->buffer_size < 4096 || !properties->completed)
        tracer_broken("properties of a pool");
    tracer.properties = *properties;
    tracer.open = true;
    tracer.keep = getenv("BP_STANDIN_ROCTRACER_KEEP");
    *out = &tracer;
    return 0;
}

EXPORT int roctracer_enable_domain_activity_expl(int domain, void *pool)
{
    int code = tracer_begin(SIM_CALL_roctracer_enable_domain_activity_expl);

    if (code) return code;
    if (pool != &tracer || !tracer.open || (domain != OPS && domain != API))
        tracer_broken("a domain");
    pthread_mutex_lock(&tracer.lock);
    if (tracer.enabled[domain]) tracer_broken("a domain is enabled twice");
    tracer.enabled[domain] = true;
    tracer.late = getenv("BP_STANDIN_ROCTRACER_LATE");
    pthread_mutex_unlock(&tracer.lock);
    sim_observe(&observer);
    return 0;
}

EXPORT int roctracer_disable_domain_activity(int domain)
{
    int code = tracer_begin(SIM_CALL_roctracer_disable_domain_activity);
    bool any;

    pthread_mutex_lock(&tracer.lock);
    if (!tracer.enabled[domain]) tracer_broken("a domain is disabled twice");
    tracer.enabled[domain] = false;
    any = tracer.enabled[OPS] || tracer.enabled[API];
    pthread_mutex_unlock(&tracer.lock);
    if (!any) sim_observe(NULL);
    return code;
}

EXPORT int roctracer_flush_activity_expl(void *pool)
{
    int code = tracer_begin(SIM_CALL_roctracer_flush_activity_expl);
    static struct record out[RECORDS_MAX];
    size_t n;

    if (code) return code;
    if (pool != &tracer) tracer_broken("a flush of another pool");
    pthread_mutex_lock(&tracer.delivery);
    pthread_mutex_lock(&tracer.lock);
    for (int i = 0; i < tracer.n_call; i++) tracer_call(tracer.call[i][0], tracer.call[i][1]);
    tracer.n_call = 0;
    n = tracer.n;
    memcpy(out, tracer.record, n * sizeof *out);
    tracer.n = 0;
    if (tracer.keep && n) {
        tracer.record[tracer.n++] = out[--n];
        tracer.keep = false;
    }
    pthread_mutex_unlock(&tracer.lock);
    tracer.properties.completed((char *)out, (char *)(out + n), tracer.properties.completed_arg);
    for (size_t i = 0; i < n; i++) {
        if (out[i].domain != OPS || out[i].op) continue;
        memset((void *)(uintptr_t)out[i].data, '#', strlen((char *)(uintptr_t)out[i].data));
        free((void *)(uintptr_t)out[i].data);
    }
    pthread_mutex_unlock(&tracer.delivery);
    return 0;
}

EXPORT int roctracer_activity_push_external_correlation_id(uint64_t id)
{
    int code = tracer_begin(SIM_CALL_roctracer_activity_push_external_correlation_id);

    if (code) return code;
    if (n_pushed == PUSHED_MAX) tracer_broken("too many external ids are pushed");
    pushed[n_pushed++] = id;
    __atomic_fetch_add(&tracer.depth, 1, __ATOMIC_RELAXED);
    return 0;
}

EXPORT int roctracer_activity_pop_external_correlation_id(uint64_t *out)
{
    int code = tracer_begin(SIM_CALL_roctracer_activity_pop_external_correlation_id);

    if (code) return code;
    if (!n_pushed) return 1;
    *out = pushed[--n_pushed];
    __atomic_fetch_sub(&tracer.depth, 1, __ATOMIC_RELAXED);
    return 0;
}

/* ---- for tests ---- */

/* The external ids that are pushed. */
EXPORT int bp_standin_roctracer_depth(void)
{
    return __atomic_load_n(&tracer.depth, __ATOMIC_RELAXED);
}

/* Adds a record as it is: 64 bytes. */
EXPORT void bp_standin_roctracer_put(const void *record)
{
    pthread_mutex_lock(&tracer.lock);
    tracer_append(record);
    pthread_mutex_unlock(&tracer.lock);
}
