/* SPDX-License-Identifier: Apache-2.0 */
/* activity.c: makes records of what the simulator does, in buffers of the caller. */
#include "cupti.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum {
    RECORD_MAX = 256,
    PUSHED_MAX = 4,
    NAMES_MAX = 512,
    WITHHELD_MAX = 4096
};

struct buffer {
    struct buffer *next;
    uint8_t *data;
    size_t size, used;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    standin_requested *requested;
    standin_completed *completed;
    uint32_t version;
    size_t uses;
    bool late, keeps;
    bool enabled[STANDIN_KINDS];
    struct buffer *current, *full, **last;
    struct buffer *delivered; /* buffers whose callback runs */
    uint64_t correlation, forced;
    unsigned in_flight;
    size_t dropped;
    char *name[NAMES_MAX];
    uint64_t withheld[WITHHELD_MAX][2]; /* correlation and external ids, in a late order */
    int n_withheld;
    int depth; /* external ids that are pushed, of all threads */
} act = {.lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER, .last = &act.full};

static _Thread_local uint64_t pushed[PUSHED_MAX];
static _Thread_local int n_pushed;

void standin_broken(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fprintf(stderr, "the stand-in for CUPTI: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    abort();
}

/* ---- buffers ---- */

static void retire_current(void)
{
    struct buffer *b = act.current;

    act.current = NULL;
    if (!b) return;
    *act.last = b;
    act.last = &b->next;
    pthread_cond_broadcast(&act.moved);
}

static bool request_buffer(void)
{
    struct buffer made = {NULL, NULL, 0, 0}, *b;
    size_t records = 77;

    act.requested(&made.data, &made.size, &records);
    if (!made.data) return false;
    if ((uintptr_t)made.data % 8) standin_broken("a buffer at %p", (void *)made.data);
    if (made.size < 1024) standin_broken("a buffer of %zu bytes", made.size);
    if (records) standin_broken("a buffer for %zu records", records);
    b = malloc(sizeof *b);
    if (!b) return false;
    *b = made;
    act.current = b;
    return true;
}

/* Adds a record of an enabled kind. */
static void activity_append(const void *record, size_t size)
{
    struct buffer *b = act.current;
    size_t room = b ? (act.uses && act.uses < b->size ? act.uses : b->size) : 0;

    if (b && b->used + size > room) retire_current();
    if (!act.current && !request_buffer()) {
        act.dropped++;
        return;
    }
    memcpy(act.current->data + act.current->used, record, size);
    act.current->used += size;
}

/* Returns the full buffers. Under the lock, which is released meanwhile. */
static void activity_deliver(void)
{
    struct buffer *b;

    while ((b = act.full)) {
        act.full = b->next;
        if (!act.full) act.last = &act.full;
        b->next = act.delivered;
        act.delivered = b;
        pthread_mutex_unlock(&act.lock);
        act.completed(NULL, 0, b->data, b->size, b->used);
        pthread_mutex_lock(&act.lock);
        for (struct buffer **at = &act.delivered; *at; at = &(*at)->next)
            if (*at == b) {
                *at = b->next;
                break;
            }
        free(b);
        pthread_cond_broadcast(&act.moved);
    }
}

static void *activity_worker(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&act.lock);
    for (;;) {
        while (!act.full || act.keeps) pthread_cond_wait(&act.moved, &act.lock);
        activity_deliver();
    }
    return NULL;
}

/* ---- records: the layouts of CUDA 13.0 (of 12.9 for an older version, whose kernels are 8 bytes
 * shorter) ---- */

static void record_set32(uint8_t *record, size_t at, uint32_t value)
{
    memcpy(record + at, &value, sizeof value);
}

static void record_set64(uint8_t *record, size_t at, uint64_t value)
{
    memcpy(record + at, &value, sizeof value);
}

/* Names stay valid, as those of CUPTI. */
static const char *keep_name(const char *name)
{
    int i = 0;

    while (i < NAMES_MAX && act.name[i] && strcmp(act.name[i], name) != 0) i++;
    if (i == NAMES_MAX) return "";
    if (!act.name[i]) act.name[i] = strdup(name);
    return act.name[i];
}

/* device, context, stream and correlation id lie side by side in most records. */
static void set_place(uint8_t *record, size_t at, const struct sim_observed *o)
{
    record_set32(record, at, (uint32_t)(o->device - sim.device));
    record_set32(record, at + 4, (uint32_t)(o->device - sim.device) + 1);
    record_set32(record, at + 8, o->stream ? o->stream + 12 : 0);
}

static void put_kernel(const struct sim_observed *o)
{
    uint8_t record[RECORD_MAX] = {STANDIN_CONCURRENT_KERNEL};
    const char *name = keep_name(o->about->name);

    record_set64(record, 16, o->begin);
    record_set64(record, 24, o->end);
    set_place(record, 40, o);
    record_set32(record, 92, (uint32_t)o->correlation);
    memcpy(record + 104, &name, sizeof name);
    activity_append(record, act.version < 130000 ? 208 : 216);
}

static void put_copy(const struct sim_observed *o)
{
    static const uint8_t kinds[] = {[SIM_WORK_COPY_IN] = 1,
                                    [SIM_WORK_COPY_OUT] = 2,
                                    [SIM_WORK_COPY_WITHIN] = 8,
                                    [SIM_WORK_COPY_PEER] = 10};
    bool peer = o->about->work == SIM_WORK_COPY_PEER;
    uint8_t record[RECORD_MAX] = {peer ? STANDIN_MEMCPY2 : STANDIN_MEMCPY, 0, 0, 0,
                                  kinds[o->about->work]};

    record_set64(record, 8, o->about->bytes);
    record_set64(record, 16, o->begin);
    record_set64(record, 24, o->end);
    set_place(record, 32, o);
    record_set32(record, peer ? 60 : 44, (uint32_t)o->correlation);
    activity_append(record, peer ? 96 : 96);
}

static void put_synchronization(const struct sim_observed *o)
{
    static const uint8_t types[] = {[SIM_CALLED_EVENT_SYNCHRONIZE] = 1,
                                    [SIM_WORK_STREAM_WAIT] = 2,
                                    [SIM_CALLED_STREAM_SYNCHRONIZE] = 3,
                                    [SIM_CALLED_CONTEXT_SYNCHRONIZE] = 4};
    uint8_t record[RECORD_MAX] = {STANDIN_SYNCHRONIZATION, 0, 0, 0, types[o->about->work]};

    record_set64(record, 8, o->begin);
    record_set64(record, 16, o->end);
    record_set32(record, 28, (uint32_t)(o->device - sim.device) + 1);
    record_set32(record, 32, o->stream ? o->stream + 12 : UINT32_MAX);
    activity_append(record, 56);
}

static void put_memory(const struct sim_observed *o)
{
    uint8_t record[RECORD_MAX] = {
        STANDIN_MEMORY2, 0, 0, 0, o->about->work == SIM_CALLED_ALLOCATE ? 1 : 2, 0, 0, 0, 3};

    record_set64(record, 24, o->about->bytes);
    record_set64(record, 32, o->end);
    set_place(record, 52, o);
    activity_append(record, 128);
}

static enum standin_kind kind_of(enum sim_work work)
{
    switch (work) {
    case SIM_WORK_KERNEL: return STANDIN_CONCURRENT_KERNEL;
    case SIM_WORK_COPY_IN:
    case SIM_WORK_COPY_OUT:
    case SIM_WORK_COPY_WITHIN: return STANDIN_MEMCPY;
    case SIM_WORK_COPY_PEER: return STANDIN_MEMCPY2;
    case SIM_CALLED_ALLOCATE:
    case SIM_CALLED_FREE: return STANDIN_MEMORY2;
    default: return STANDIN_SYNCHRONIZATION;
    }
}

static void put_observed(const struct sim_observed *o)
{
    switch (kind_of(o->about->work)) {
    case STANDIN_CONCURRENT_KERNEL: put_kernel(o); break;
    case STANDIN_MEMCPY:
    case STANDIN_MEMCPY2: put_copy(o); break;
    case STANDIN_MEMORY2: put_memory(o); break;
    default: put_synchronization(o); break;
    }
}

static void put_external(uint64_t correlation, uint64_t id)
{
    uint8_t record[24] = {STANDIN_EXTERNAL_CORRELATION, 0, 0, 0, 3};

    record_set64(record, 8, id);
    record_set32(record, 16, (uint32_t)correlation);
    activity_append(record, sizeof record);
}

static void put_call(uint64_t correlation)
{
    uint8_t record[40] = {STANDIN_DRIVER, 0, 0, 0, 1};

    record_set32(record, 32, (uint32_t)correlation);
    activity_append(record, sizeof record);
}

/* ---- the observer ---- */

static bool is_counted(const struct sim_about *about)
{
    return about->work >= SIM_WORK_KERNEL && about->work <= SIM_WORK_COPY_PEER;
}

static uint64_t act_submitted(const struct sim_about *about)
{
    uint64_t correlation;

    pthread_mutex_lock(&act.lock);
    correlation = ++act.correlation;
    act.in_flight += is_counted(about);
    if (act.enabled[STANDIN_DRIVER]) {
        if (n_pushed && act.enabled[STANDIN_EXTERNAL_CORRELATION]) {
            if (!act.late) put_external(correlation, pushed[n_pushed - 1]);
            else if (act.n_withheld < WITHHELD_MAX) {
                act.withheld[act.n_withheld][0] = correlation;
                act.withheld[act.n_withheld++][1] = pushed[n_pushed - 1];
            }
        }
        put_call(correlation);
    }
    pthread_mutex_unlock(&act.lock);
    return correlation;
}

static void act_ended(const struct sim_observed *observed)
{
    struct sim_observed o = *observed;

    o.begin += STANDIN_CUPTI_AHEAD;
    o.end += STANDIN_CUPTI_AHEAD;
    pthread_mutex_lock(&act.lock);
    if (act.enabled[kind_of(o.about->work)] && (!o.correlation || o.correlation > act.forced))
        put_observed(&o);
    if (o.correlation > act.forced && is_counted(o.about) && act.in_flight) act.in_flight--;
    pthread_mutex_unlock(&act.lock);
}

static const struct sim_observer observer = {act_submitted, act_ended};

/* ---- calls ---- */

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

uint32_t standin_version(void)
{
    return (uint32_t)number_of("BP_STANDIN_CUPTI_VERSION", 130001);
}

int standin_register(standin_requested *requested, standin_completed *completed)
{
    static bool begun;
    pthread_t thread;

    if (!requested || !completed) return 1;
    pthread_mutex_lock(&act.lock);
    act.requested = requested;
    act.completed = completed;
    act.version = standin_version();
    act.uses = number_of("BP_STANDIN_CUPTI_USES", 0);
    act.late = number_of("BP_STANDIN_CUPTI_LATE", 0);
    act.keeps = number_of("BP_STANDIN_CUPTI_KEEPS", 0);
    if (!begun && !pthread_create(&thread, NULL, activity_worker, NULL)) pthread_detach(thread);
    begun = true;
    pthread_mutex_unlock(&act.lock);
    return 0;
}

int standin_enable(int kind, bool on)
{
    bool any = false;

    if (kind <= 0 || kind >= STANDIN_KINDS) return 21;
    pthread_mutex_lock(&act.lock);
    if (on && !act.requested) standin_broken("kind %d is enabled before callbacks", kind);
    if (act.enabled[kind] == on)
        standin_broken("kind %d is %s twice", kind, on ? "enabled" : "disabled");
    act.enabled[kind] = on;
    for (int i = 0; i < STANDIN_KINDS; i++) any |= act.enabled[i];
    pthread_mutex_unlock(&act.lock);
    sim_observe(any ? &observer : NULL);
    return 0;
}

static void put_unfinished(void)
{
    const struct sim_about about = {.work = SIM_WORK_KERNEL, .name = "unfinished"};
    const struct sim_observed o = {.about = &about, .device = sim.device};

    for (; act.in_flight; act.in_flight--) put_kernel(&o);
    act.forced = act.correlation;
}

int standin_flush(bool forced)
{
    if (!act.requested) return 7;
    pthread_mutex_lock(&act.lock);
    for (int i = 0; i < act.n_withheld; i++) put_external(act.withheld[i][0], act.withheld[i][1]);
    act.n_withheld = 0;
    if (forced) put_unfinished();
    retire_current();
    if (!act.keeps) activity_deliver();
    while (!act.keeps && (act.full || act.delivered)) pthread_cond_wait(&act.moved, &act.lock);
    pthread_mutex_unlock(&act.lock);
    return 0;
}

static size_t size_of(const uint8_t *record)
{
    switch (*record) {
    case STANDIN_CONCURRENT_KERNEL: return act.version < 130000 ? 208 : 216;
    case STANDIN_MEMCPY:
    case STANDIN_MEMCPY2: return 96;
    case STANDIN_MEMSET: return 88;
    case STANDIN_DRIVER: return 40;
    case STANDIN_SYNCHRONIZATION: return 56;
    case STANDIN_EXTERNAL_CORRELATION: return 24;
    case STANDIN_MEMORY2: return 128;
    default: return 0;
    }
}

int standin_next(uint8_t *buffer, size_t valid, void **record)
{
    struct buffer *b;
    uint8_t *at = *record ? *record : buffer;
    int code = 0;

    pthread_mutex_lock(&act.lock);
    for (b = act.delivered; b && b->data != buffer; b = b->next) {
    }
    if (!b || b->used != valid || at < buffer || at > buffer + valid)
        standin_broken("records of a buffer that is not returned now");
    if (*record) at += size_of(at);
    if (at >= buffer + valid) code = 12;
    else if (!size_of(at)) code = 21;
    else *record = at;
    pthread_mutex_unlock(&act.lock);
    return code;
}

size_t standin_dropped(void)
{
    size_t dropped;

    pthread_mutex_lock(&act.lock);
    dropped = act.dropped;
    act.dropped = 0;
    pthread_mutex_unlock(&act.lock);
    return dropped;
}

int standin_push(uint64_t id)
{
    if (n_pushed == PUSHED_MAX) standin_broken("%d external ids are pushed", PUSHED_MAX);
    pushed[n_pushed++] = id;
    __atomic_fetch_add(&act.depth, 1, __ATOMIC_RELAXED);
    return 0;
}

int standin_pop(uint64_t *out)
{
    if (!n_pushed) return 18;
    *out = pushed[--n_pushed];
    __atomic_fetch_sub(&act.depth, 1, __ATOMIC_RELAXED);
    return 0;
}

/* ---- for tests ---- */

/* The external ids that are pushed; the kinds that are enabled. */
EXPORT int bp_standin_cupti_depth(void)
{
    return __atomic_load_n(&act.depth, __ATOMIC_RELAXED);
}

EXPORT int bp_standin_cupti_enabled(void)
{
    int n = 0;

    pthread_mutex_lock(&act.lock);
    for (int i = 0; i < STANDIN_KINDS; i++) n += act.enabled[i];
    pthread_mutex_unlock(&act.lock);
    return n;
}

/* Adds a record as it is. */
EXPORT void bp_standin_cupti_put(const void *record, size_t size)
{
    pthread_mutex_lock(&act.lock);
    activity_append(record, size);
    pthread_mutex_unlock(&act.lock);
}

/* Counts records as dropped. */
EXPORT void bp_standin_cupti_drop(size_t n)
{
    pthread_mutex_lock(&act.lock);
    act.dropped += n;
    pthread_mutex_unlock(&act.lock);
}

/* Returns the buffers that were kept back. */
EXPORT void bp_standin_cupti_deliver(void)
{
    pthread_mutex_lock(&act.lock);
    retire_current();
    activity_deliver();
    pthread_mutex_unlock(&act.lock);
}
