/* SPDX-License-Identifier: Apache-2.0 */
/* gated.c: two devices that work behind the host's back, on a thread of their own, and whose work
 * waits until the test lets it run (gated.h). Memory is the host's. Rows: add, softmax and
 * cast of f32, of which the last two only copy, and cast takes long to prepare.
 *
 * GATED_STREAMS: the devices have streams; else one order each. GATED_EVENTS: and events, which
 * streams of this instance can wait for. GATED_PEERS: copies between the two. */
#include "gated.h"

#include <backplane/attrs.h>
#include <backplane/kernel.h>
#include <backplane/plugin.h>
#include <backplane/runtime.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { DEVICES = 2 };

struct event {
    struct stream *stream;
    uint64_t recorded, reached;
};

/* What is 0 is not there. */
struct job {
    struct job *next;
    void *dst;
    const void *src, *plus; /* plus: floats to be added */
    uint64_t size;
    struct event *mark, *wait;
    uint64_t number; /* of the event's record */
    int held;
    char staged[];
};

struct stream {
    struct stream *next;
    uint32_t device;
    struct job *first, **end;
    uint64_t given, done;
    uint32_t failure; /* told once */
};

struct gated {
    const struct bp_host *host;
    pthread_t thread;
    struct stream whole[DEVICES]; /* of who has no stream */
    struct stream *streams;       /* all */
    int ending;
};

/* Of all instances. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint32_t holding, lost;
static uint64_t ended;
static uint32_t next_failure, events_fail, records_fail, peers_fail, muted;

static void init(void)
{
    pthread_condattr_t monotonic;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &monotonic);
}

static struct gated *instances[8];

static void set(uint32_t *what, uint32_t value)
{
    pthread_mutex_lock(&lock);
    *what = value;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void hold(int on)
{
    set(&holding, (uint32_t)on);
}

static void open_gate(void)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < 8; i++)
        for (struct stream *s = instances[i] ? instances[i]->streams : NULL; s; s = s->next)
            for (struct job *j = s->first; j; j = j->next) j->held = 0;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static uint64_t count_ended(void)
{
    uint64_t n;

    pthread_mutex_lock(&lock);
    n = ended;
    pthread_mutex_unlock(&lock);
    return n;
}

static void fail(uint32_t status)
{
    set(&next_failure, status);
}

static void lose(void)
{
    set(&lost, 1);
}

static void no_events(uint32_t status)
{
    set(&events_fail, status);
}

static void no_record(uint32_t status)
{
    set(&records_fail, status);
}

static void no_peers(uint32_t status)
{
    set(&peers_fail, status);
}

static void mute_events(uint32_t on)
{
    set(&muted, on);
}

BP_EXPORT const struct gated_control *gated_control(void)
{
    static const struct gated_control control = {hold, open_gate, count_ended, fail,
                                                 lose, no_events, no_record, no_peers,
                                                 mute_events};

    return &control;
}

/* Under the lock. */
static void run_job(struct stream *s, const struct job *j)
{
    if (j->mark) {
        if (j->mark->reached < j->number) j->mark->reached = j->number;
        return;
    }
    if (j->wait) return;
    ended++;
    if (next_failure) {
        s->failure = next_failure;
        next_failure = 0;
    } else if (j->plus) {
        for (uint64_t i = 0; i < j->size / 4; i++)
            ((float *)j->dst)[i] = ((const float *)j->src)[i] + ((const float *)j->plus)[i];
    } else {
        memcpy(j->dst, j->src, j->size);
    }
}

/* Under the lock. Runs the first job of a stream if it can be. */
static int step(struct stream *s)
{
    struct job *j = s->first;

    if (!j || lost || j->held || (j->wait && j->wait->reached < j->number)) return 0;
    run_job(s, j);
    s->first = j->next;
    if (!s->first) s->end = &s->first;
    s->done++;
    free(j);
    return 1;
}

static void *work(void *arg)
{
    struct gated *g = arg;

    pthread_mutex_lock(&lock);
    while (!g->ending) {
        int ran = 0;
        for (struct stream *s = g->streams; s; s = s->next) ran |= step(s);
        if (ran) pthread_cond_broadcast(&changed);
        else pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static enum bp_status gone(struct gated *g)
{
    return bp_fail(g->host, BP_ERR_DEVICE_LOST, "somebody pulled the plug");
}

static struct stream *stream_of(struct gated *g, uint32_t device, void *stream)
{
    return stream ? stream : &g->whole[device];
}

static enum bp_status give(struct gated *g, struct stream *s, const struct job *what, int staged)
{
    struct job *j = malloc(sizeof *j + (staged ? what->size : 0));
    enum bp_status status = BP_OK;

    if (!j) return bp_fail(g->host, BP_ERR_MEMORY, "no memory for a job");
    *j = *what;
    if (staged) j->src = memcpy(j->staged, what->src, what->size);
    pthread_mutex_lock(&lock);
    j->held = holding && !j->mark && !j->wait;
    if (lost) {
        free(j);
        status = BP_ERR_DEVICE_LOST;
    } else {
        *s->end = j;
        s->end = &j->next;
        s->given++;
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    return status ? gone(g) : BP_OK;
}

static enum bp_status device_count(void *self, uint32_t *out_count)
{
    (void)self;
    *out_count = DEVICES;
    return BP_OK;
}

static enum bp_status device_properties(void *self, uint32_t device,
                                        struct bp_device_properties *out)
{
    (void)self;
    (void)device;
    strcpy(out->name, "a device that waits to be told");
    out->dtypes = BP_MASK_ANY;
    out->alignment = 64;
    return BP_OK;
}

static enum bp_status memory_allocate(void *self, uint32_t device, uint32_t space, uint64_t size,
                                      struct bp_memory *out)
{
    void *data;

    (void)self;
    (void)device;
    (void)space;
    if (posix_memalign(&data, 64, size)) return BP_ERR_MEMORY;
    *out = (struct bp_memory){data, data};
    return BP_OK;
}

static void memory_free(void *self, uint32_t device, uint32_t space, const struct bp_memory *memory)
{
    (void)self;
    (void)device;
    (void)space;
    free(memory->handle);
}

static enum bp_status copy_in(void *self, uint32_t device, void *stream, const struct bp_copy *copy)
{
    struct job j = {.dst = copy->dst, .src = copy->src, .size = copy->size};

    return give(self, stream_of(self, device, stream), &j, 1);
}

static enum bp_status copy_within(void *self, uint32_t device, void *stream,
                                  const struct bp_copy *copy)
{
    struct job j = {.dst = copy->dst, .src = copy->src, .size = copy->size};

    return give(self, stream_of(self, device, stream), &j, 0);
}

/* Under the lock: until s has got to number; its failure. */
static enum bp_status wait_for(struct gated *g, struct stream *s, uint64_t number)
{
    uint32_t failure;

    while (s->done < number && !lost) pthread_cond_wait(&changed, &lock);
    failure = lost ? BP_ERR_DEVICE_LOST : s->failure;
    s->failure = 0;
    if (failure == BP_ERR_DEVICE_LOST) return gone(g);
    return failure ? bp_fail(g->host, (enum bp_status)failure, "the work was told to fail") : BP_OK;
}

/* Under the lock. Streams may go while it is not held. */
static int is_busy(const struct gated *g, uint32_t device)
{
    for (const struct stream *s = g->streams; s; s = s->next)
        if (s->device == device && s->done < s->given) return 1;
    return 0;
}

static enum bp_status synchronize(void *self, uint32_t device, void *stream)
{
    struct gated *g = self;
    enum bp_status status = BP_OK;

    pthread_mutex_lock(&lock);
    if (stream) status = wait_for(g, stream, ((struct stream *)stream)->given);
    while (!stream && !lost && is_busy(g, device)) pthread_cond_wait(&changed, &lock);
    for (struct stream *s = stream ? NULL : g->streams; s; s = s->next) {
        enum bp_status one = s->device == device ? wait_for(g, s, 0) : BP_OK;
        if (!status) status = one;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

static enum bp_status copy_out(void *self, uint32_t device, void *stream,
                               const struct bp_copy *copy)
{
    struct stream *s = stream_of(self, device, stream);
    enum bp_status status;

    pthread_mutex_lock(&lock);
    status = wait_for(self, s, s->given);
    pthread_mutex_unlock(&lock);
    if (status == BP_OK) memcpy(copy->dst, copy->src, copy->size);
    return status;
}

static void add_stream(struct gated *g, struct stream *s, uint32_t device)
{
    s->device = device;
    s->end = &s->first;
    s->next = g->streams;
    g->streams = s;
}

#ifdef GATED_STREAMS
static enum bp_status stream_create(void *self, uint32_t device, void **out_stream)
{
    struct stream *s = calloc(1, sizeof *s);

    pthread_mutex_lock(&lock);
    add_stream(self, s, device);
    pthread_mutex_unlock(&lock);
    *out_stream = s;
    return BP_OK;
}

/* Its work is done, or the device is lost; marks count as reached. */
static void stream_destroy(void *self, uint32_t device, void *stream)
{
    struct gated *g = self;
    struct stream **at, *s = stream;

    (void)device;
    pthread_mutex_lock(&lock);
    for (at = &g->streams; *at != s; at = &(*at)->next) {}
    *at = s->next;
    for (struct job *j = s->first, *next; j; j = next) {
        next = j->next;
        if (!j->mark && !j->wait && !lost) abort();
        if (j->mark) run_job(s, j);
        free(j);
    }
    pthread_cond_broadcast(&changed);
    memset(s, 0xdd, sizeof *s);
    free(s);
    pthread_mutex_unlock(&lock);
}
#endif

#ifdef GATED_EVENTS
static enum bp_status event_create(void *self, uint32_t device, void **out_event)
{
    struct gated *g = self;
    struct event *e = calloc(1, sizeof *e);
    uint32_t status;

    (void)device;
    pthread_mutex_lock(&lock);
    status = events_fail;
    pthread_mutex_unlock(&lock);
    if (status) {
        free(e);
        return bp_fail(g->host, (enum bp_status)status, "no event for you");
    }
    *out_event = e;
    return BP_OK;
}

/* Streams that have not come to their wait for it find it reached. */
static void event_destroy(void *self, uint32_t device, void *event)
{
    static struct event past = {.reached = UINT64_MAX};
    struct gated *g = self;

    (void)device;
    pthread_mutex_lock(&lock);
    for (struct stream *s = g->streams; s; s = s->next)
        for (struct job *j = s->first; j; j = j->next) {
            if (j->wait == event) j->wait = &past;
            if (j->mark == event) j->mark = &past;
        }
    pthread_mutex_unlock(&lock);
    free(event);
}

static enum bp_status event_record(void *self, uint32_t device, void *stream, void *event)
{
    struct gated *g = self;
    struct event *e = event;
    struct job j = {.mark = e};
    uint32_t status;

    pthread_mutex_lock(&lock);
    status = records_fail;
    e->stream = stream_of(g, device, stream);
    j.number = ++e->recorded;
    pthread_mutex_unlock(&lock);
    if (status) return bp_fail(g->host, (enum bp_status)status, "no record for you");
    return give(g, e->stream, &j, 0);
}

/* Under the lock. The stream may be gone if the event was reached. */
static enum bp_status answer(struct gated *g, const struct event *e)
{
    for (struct stream *s = g->streams; s; s = s->next)
        if (s == e->stream && !muted) return wait_for(g, s, 0);
    return lost ? gone(g) : BP_OK;
}

static enum bp_status event_query(void *self, uint32_t device, void *event)
{
    struct event *e = event;
    enum bp_status status = BP_ERR_BUSY;

    (void)device;
    pthread_mutex_lock(&lock);
    if (e->reached == e->recorded || lost) status = answer(self, e);
    pthread_mutex_unlock(&lock);
    return status;
}

static enum bp_status event_wait(void *self, uint32_t device, void *event, uint64_t timeout_ns)
{
    struct gated *g = self;
    struct event *e = event;
    struct timespec until;
    enum bp_status status;
    int late = 0;

    (void)device;
    clock_gettime(CLOCK_MONOTONIC, &until);
    if (timeout_ns > UINT64_C(1000000000000)) timeout_ns = UINT64_C(1000000000000);
    timeout_ns += (uint64_t)until.tv_nsec;
    until.tv_sec += (time_t)(timeout_ns / 1000000000);
    until.tv_nsec = (long)(timeout_ns % 1000000000);
    pthread_mutex_lock(&lock);
    while (e->reached < e->recorded && !lost && !late)
        late = pthread_cond_timedwait(&changed, &lock, &until);
    status = e->reached < e->recorded && !lost
                 ? bp_fail(g->host, BP_ERR_TIMEOUT, "not told to go on in time")
                 : answer(g, e);
    pthread_mutex_unlock(&lock);
    return status;
}

static enum bp_status stream_wait(void *self, uint32_t device, void *stream, void *event)
{
    struct event *e = event;
    struct job j = {.wait = e};

    pthread_mutex_lock(&lock);
    j.number = e->recorded;
    pthread_mutex_unlock(&lock);
    return give(self, stream_of(self, device, stream), &j, 0);
}
#endif

#ifdef GATED_PEERS
static enum bp_status copy_peer(void *self, uint32_t device, void *stream, uint32_t to,
                                const struct bp_copy *copy)
{
    struct gated *g = self;
    uint32_t status;

    pthread_mutex_lock(&lock);
    status = peers_fail;
    pthread_mutex_unlock(&lock);
    if (status == BP_ERR_UNSUPPORTED) return BP_ERR_UNSUPPORTED;
    if (status) return bp_fail(g->host, (enum bp_status)status, "no copy for you");
    if (to == device) abort();
    return copy_within(self, device, stream, copy);
}
#endif

static const struct bp_runtime runtime = {
    .size = sizeof runtime,
    .device_count = device_count,
    .device_properties = device_properties,
    .memory_allocate = memory_allocate,
    .memory_free = memory_free,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .copy_within = copy_within,
    .synchronize = synchronize,
#ifdef GATED_STREAMS
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
#endif
#ifdef GATED_EVENTS
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_query = event_query,
    .event_wait = event_wait,
    .stream_wait = stream_wait,
#endif
#ifdef GATED_PEERS
    .copy_peer = copy_peer,
#endif
};

static enum bp_status launch(const struct bp_launch *l)
{
    struct job j = {.dst = l->out[0]->data, .src = l->in[0]->data,
                    .plus = l->n_in > 1 ? l->in[1]->data : NULL,
                    .size = (uint64_t)l->out[0]->count * 4};

    return give(l->self, stream_of(l->self, l->device, l->stream), &j, 0);
}

/* Takes its time, and says so at its end: for tests/exit. */
static enum bp_status prepare_slowly(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    (void)self;
    (void)prep;
    (void)out;
    usleep(300000);
    return write(1, "prepared\n", 9) < 0 ? BP_ERR_INTERNAL : BP_OK;
}

static const struct bp_kernel rows[] = {
    {BP_OPROW(cast), .name = "gated_cast", .types = {BP_M(F32), BP_M(F32)}, .launch = launch,
     .prepare = prepare_slowly},
    {BP_OPROW(add), .name = "gated_add", .types = {BP_M(F32)}, .launch = launch},
    {BP_OPROW(softmax), .name = "gated_softmax", .types = {BP_M(F32)}, .launch = launch},
};
static const struct bp_kernels kernels = {
    .size = sizeof kernels,
    .first = rows,
    .count = sizeof rows / sizeof *rows,
    .stride = sizeof *rows,
};

static enum bp_status create(const struct bp_host *host, void **out_self)
{
    struct gated *g = calloc(1, sizeof *g);

    pthread_once(&once, init);
    g->host = host;
    pthread_mutex_lock(&lock);
    lost = 0;
    for (uint32_t i = 0; i < DEVICES; i++) add_stream(g, &g->whole[i], i);
    for (int i = 0; i < 8; i++)
        if (!instances[i]) {
            instances[i] = g;
            break;
        }
    pthread_mutex_unlock(&lock);
    pthread_create(&g->thread, NULL, work, g);
    *out_self = g;
    return BP_OK;
}

static void destroy(void *self)
{
    struct gated *g = self;

    pthread_mutex_lock(&lock);
    g->ending = 1;
    for (int i = 0; i < 8; i++)
        if (instances[i] == g) instances[i] = NULL;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(g->thread, NULL);
    for (int i = 0; i < DEVICES; i++)
        for (struct job *j = g->whole[i].first, *next; j; j = next) {
            next = j->next;
            free(j);
        }
    free(g);
}

static const struct bp_plugin plugin = {
    .size = sizeof plugin,
    .abi_major = BP_ABI_MAJOR,
    .abi_minor = BP_ABI_MINOR,
    .build = BP_BUILD_FLAGS,
    .name = GATED_KIND,
    .version = "1",
    .kind = GATED_KIND,
    .create = create,
    .destroy = destroy,
    .runtime = &runtime,
    .kernels = &kernels,
};

const struct bp_plugin *bp_plugin_get(void)
{
    return &plugin;
}
