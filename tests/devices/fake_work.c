/* SPDX-License-Identifier: Apache-2.0 */
/* fake_work.c: the streams and events of the fake device, and when their work runs. A piece of work
 * has a place in its stream, from 1 on; an event, and a wait for it, name a stream and a place.
 * Streams that were destroyed stay until their instance ends, for these name them. */
#include "fake_parts.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DEVICES = 2, STREAMS = 256, PATIENCE = 4, OPERANDS = 8, AXES = 8, ATTRS = 128 };
static const uint64_t SHORT_WAIT = 1000000000;

/* A launch, with all that is valid during its call only. */
struct launch {
    struct bp_launch l;
    const struct bp_view *views[OPERANDS];
    struct bp_view view[OPERANDS];
    int64_t shape[OPERANDS][AXES], stride[OPERANDS][AXES];
    _Alignas(16) char attrs[ATTRS];
};

/* A wait for a place, a launch, a copy; or nothing. */
struct job {
    struct job *next;
    struct stream *of;
    uint64_t at;
    struct launch *launch;
    struct bp_copy copy;
    bool held;
    enum bp_status doom; /* with which it will fail */
    char staged[];
};

struct stream {
    struct stream *next;
    uint32_t device, index; /* index: of work=told */
    struct job *first, **end;
    uint64_t given, done;
    uint64_t failed_at; /* of the failure that nobody has been told of */
    enum bp_status failure;
    const char *reason;
    uint64_t *after; /* told: what is given from now on comes after these places */
};

struct event {
    struct stream *of;
    uint64_t at;
    uint64_t after[]; /* told */
};

struct fake_work {
    struct fake_work *next;
    pthread_t thread;
    struct stream *whole[DEVICES], *streams, *past; /* of who has no stream; all; all destroyed */
    bool runs, ending; /* the thread */
};

/* Of all instances: the lock is for all that follows. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct fake_work *works;
static struct stream *numbered[STREAMS]; /* told */
static uint32_t n_numbered, asked;
static uint64_t n_ended;
static enum bp_status next_failure;
static bool holding, lost, muted;
static struct launch only_block; /* one-block: and the stream whose launch it is */
static void *block_of;

static void init(void)
{
    pthread_condattr_t monotonic;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &monotonic);
}

/* Under the lock, as all that follows up to the orders. */
static void launch_destroy(struct launch *launch)
{
    const struct bp_host *host = ((struct fake_instance *)launch->l.self)->host;

    if (launch == &only_block || fake_has("host-leak")) return;
    host->release(host->ctx, launch, sizeof *launch - (fake_has("wrong-size") ? 8 : 0));
}

static void run_job(struct stream *s, struct job *j)
{
    const struct fake_row *row = j->launch ? (const void *)j->launch->l.kernel : NULL;
    enum bp_status status = next_failure;
    const char *reason = "the work was told to fail";

    if (j->of || (!row && !j->copy.size)) return;
    n_ended++;
    next_failure = BP_OK;
    if (!status) status = j->doom;
    if (!status && row) status = row->run(&j->launch->l), reason = NULL;
    else if (!status && fake_mode != FAKE_TOLD) memmove(j->copy.dst, j->copy.src, j->copy.size);
    if (!status || s->failure) return;
    s->failure = status;
    s->reason = reason;
    s->failed_at = s->done + 1;
}

static void end_job(struct stream *s)
{
    struct job *j = s->first;

    run_job(s, j);
    s->first = j->next;
    if (!s->first) s->end = &s->first;
    s->done++;
    if (j->launch) launch_destroy(j->launch);
    free(j);
}

static bool can_end(const struct stream *s)
{
    const struct job *j = s->first;

    return j && !lost && !j->held && (!j->of || j->of->done >= j->at);
}

/* Waits name places that were there before them, so that this ends. */
static void run_to(struct stream *s, uint64_t at)
{
    while (s->done < at && s->first) {
        if (s->first->of) run_to(s->first->of, s->first->at);
        end_job(s);
    }
}

/* The work of others runs meanwhile. */
static void wait_to(struct stream *s, uint64_t at)
{
    if (fake_mode != FAKE_THREAD && !lost) run_to(s, at);
    while (s->done < at && !lost) pthread_cond_wait(&changed, &lock);
}

static enum bp_status gone(struct fake_instance *f)
{
    return bp_fail(f->host, BP_ERR_DEVICE_LOST, "somebody pulled the plug");
}

/* The failure of work up to that place, once; or nothing, where the script says so. */
static enum bp_status tell(struct fake_instance *f, struct stream *s, uint64_t at, bool mute)
{
    enum bp_status failure = s->failure;

    if (lost) return gone(f);
    if (!failure || s->failed_at > at || mute) return BP_OK;
    s->failure = BP_OK;
    return s->reason ? bp_fail(f->host, failure, "%s", s->reason) : failure;
}

/* Who only asks gets there too, some time. */
static void be_asked(const struct event *e)
{
    if (fake_mode == FAKE_LATE && ++asked % PATIENCE == 0 && e->of && e->of->done < e->at)
        run_to(e->of, e->of->done + 1);
}

static void *work(void *arg)
{
    struct fake_work *w = arg;

    pthread_mutex_lock(&lock);
    while (!w->ending) {
        bool ran = false;
        for (struct stream *s = w->streams; s; s = s->next)
            if (can_end(s)) end_job(s), ran = true;
        if (ran) pthread_cond_broadcast(&changed);
        else pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* NULL: there is no memory. */
static struct stream *add_stream(struct fake_work *w, uint32_t device)
{
    struct stream *s = calloc(1, sizeof *s);

    if (!s) return NULL;
    if (fake_mode == FAKE_TOLD && n_numbered == STREAMS) abort();
    *s = (struct stream){.next = w->streams, .device = device, .end = &s->first};
    w->streams = s;
    if (fake_mode != FAKE_TOLD) return s;
    s->after = calloc(STREAMS, sizeof *s->after);
    s->index = n_numbered;
    return numbered[n_numbered++] = s;
}

static struct stream *stream_of(struct fake_instance *f, uint32_t device, void *stream)
{
    return stream ? stream : f->work->whole[device];
}

/* Not under the lock. */
static enum bp_status give(struct fake_instance *f, struct stream *s, const struct job *what,
                           bool staged)
{
    struct job *j = malloc(sizeof *j + (staged ? what->copy.size : 0));
    enum bp_status status = BP_OK;

    if (!j) abort();
    *j = *what;
    if (staged) j->copy.src = memcpy(j->staged, what->copy.src, what->copy.size);
    pthread_mutex_lock(&lock);
    j->held = holding && !j->of;
    if (lost) {
        if (j->launch) launch_destroy(j->launch);
        free(j);
        status = gone(f);
    } else {
        *s->end = j;
        s->end = &j->next;
        s->given++;
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

static bool touches(const void *data, const void *memory, const char *first, uint64_t size)
{
    uintptr_t at = (uintptr_t)data + (uintptr_t)memory;

    return at >= (uintptr_t)first && at < (uintptr_t)first + size;
}

static bool job_uses(const struct job *j, const void *first, uint64_t size, const void *plan)
{
    const struct launch *l = j->launch;
    bool uses = touches(j->copy.dst, j->copy.dst_memory, first, size) ||
                touches(j->copy.src, j->copy.src_memory, first, size);

    if (!l) return uses;
    for (uint32_t i = 0; i < l->l.n_in + l->l.n_out; i++)
        uses |= l->views[i] && touches(l->view[i].data, NULL, first, size);
    return uses || touches(l->l.workspace, NULL, first, size) || (plan && l->l.plan == plan);
}

bool fake_uses(const void *first, uint64_t size, const void *plan)
{
    bool uses = false;

    pthread_mutex_lock(&lock);
    for (const struct fake_work *w = lost ? NULL : works; w; w = w->next)
        for (const struct stream *s = w->streams; s; s = s->next)
            for (const struct job *j = s->first; j; j = j->next)
                uses |= job_uses(j, first, size, plan);
    pthread_mutex_unlock(&lock);
    return uses;
}

/* The orders. */

static void hold(bool on)
{
    pthread_mutex_lock(&lock);
    holding = on;
    pthread_mutex_unlock(&lock);
}

static void open_gate(void)
{
    pthread_mutex_lock(&lock);
    for (struct fake_work *w = works; w; w = w->next)
        for (struct stream *s = w->streams; s; s = s->next)
            for (struct job *j = s->first; j; j = j->next) j->held = false;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static uint64_t ended(void)
{
    uint64_t n;

    pthread_mutex_lock(&lock);
    n = n_ended;
    pthread_mutex_unlock(&lock);
    return n;
}

static void fail(uint32_t status)
{
    pthread_mutex_lock(&lock);
    next_failure = (enum bp_status)status;
    pthread_mutex_unlock(&lock);
}

static void lose(void)
{
    pthread_mutex_lock(&lock);
    lost = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void mute(bool on)
{
    pthread_mutex_lock(&lock);
    muted = on;
    pthread_mutex_unlock(&lock);
}

static struct stream *told(void *stream)
{
    return stream ? stream : numbered[0];
}

static void run(void *stream, uint64_t n)
{
    pthread_mutex_lock(&lock);
    while (n-- > 0 && can_end(told(stream))) end_job(told(stream));
    pthread_mutex_unlock(&lock);
}

static uint32_t index_of(void *stream)
{
    return told(stream)->index;
}

static uint64_t position(void *stream)
{
    return told(stream)->given;
}

static bool is_done(uint32_t index, uint64_t at)
{
    return numbered[index]->done >= at;
}

static bool is_before(uint32_t index, uint64_t at, void *stream)
{
    const struct stream *s = told(stream);

    return is_done(index, at) || s->index == index || s->after[index] >= at;
}

struct fake fake = {.answer = fake_answer, .hold = hold, .open = open_gate, .ended = ended,
                    .fail = fail, .lose = lose, .mute = mute, .run = run, .index = index_of,
                    .position = position, .is_done = is_done, .is_before = is_before};

/* The callbacks. */

#define FIRST(callback, size) \
    do { \
        enum bp_status first_ = fake_first(((struct fake_instance *)self)->host, \
                                           FAKE_##callback, size); \
        if (first_) return first_; \
    } while (0)

static enum bp_status doom_of(enum fake_callback callback, uint64_t size)
{
    return fake_fault(callback, size, "later")  ? BP_ERR_DEVICE
           : fake_fault(callback, size, "lost") ? BP_ERR_DEVICE_LOST
                                                : BP_OK;
}

/* Work runs before the call returns that has given it: of the words add-waits and copy-waits. */
static void catch_up(struct stream *s)
{
    pthread_mutex_lock(&lock);
    run_to(s, s->given);
    pthread_mutex_unlock(&lock);
}

static enum bp_status copy_give(void *self, uint32_t device, void *stream,
                                const struct bp_copy *copy, enum fake_callback callback)
{
    struct job j = {.copy = *copy, .doom = doom_of(callback, copy->size)};

    if (fake_mode != FAKE_INLINE)
        return give(self, stream_of(self, device, stream), &j,
                    callback == FAKE_copy_in && fake_mode != FAKE_TOLD);
    memcpy(copy->dst, copy->src, copy->size);
    return BP_OK;
}

static enum bp_status copy_within(void *self, uint32_t device, void *stream,
                                  const struct bp_copy *copy)
{
    enum bp_status status;

    FIRST(copy_within, copy->size);
    status = copy_give(self, device, stream, copy, FAKE_copy_within);
    if (fake_has("copy-waits")) catch_up(stream_of(self, device, stream));
    return status;
}

static enum bp_status copy_peer(void *self, uint32_t device, void *stream, uint32_t to,
                                const struct bp_copy *copy)
{
    FIRST(copy_peer, copy->size);
    if (to == device) abort();
    return copy_give(self, device, stream, copy, FAKE_copy_peer);
}

static bool is_busy(const struct fake_work *w, uint32_t device)
{
    for (const struct stream *s = w->streams; s; s = s->next)
        if (s->device == device && s->done < s->given) return true;
    return false;
}

/* Streams may go while a thread waits for all. */
static enum bp_status wait_for(struct fake_instance *f, uint32_t device, void *stream)
{
    enum bp_status status = BP_OK;

    pthread_mutex_lock(&lock);
    if (stream) wait_to(stream, ((struct stream *)stream)->given);
    else if (fake_mode == FAKE_THREAD)
        while (is_busy(f->work, device) && !lost) pthread_cond_wait(&changed, &lock);
    for (struct stream *s = f->work->streams; s; s = s->next) {
        if (stream ? s != stream : s->device != device) continue;
        if (!stream) wait_to(s, fake_mode == FAKE_THREAD ? 0 : s->given);
        if (!status) status = tell(f, s, UINT64_MAX, fake_has("sync-ok"));
    }
    pthread_mutex_unlock(&lock);
    return status;
}

static enum bp_status synchronize(void *self, uint32_t device, void *stream)
{
    FIRST(synchronize, 0);
    return wait_for(self, device, stream);
}

static enum bp_status copy_in(void *self, uint32_t device, void *stream, const struct bp_copy *copy)
{
    FIRST(copy_in, copy->size);
    if (fake_mode == FAKE_TOLD) return wait_for(self, device, stream);
    return copy_give(self, device, stream, copy, FAKE_copy_in);
}

static enum bp_status copy_out(void *self, uint32_t device, void *stream,
                               const struct bp_copy *copy)
{
    enum bp_status status;

    FIRST(copy_out, copy->size);
    status = wait_for(self, device, stream_of(self, device, stream));
    if (!status && fake_mode != FAKE_TOLD) memcpy(copy->dst, copy->src, copy->size);
    return status;
}

static enum bp_status stream_create(void *self, uint32_t device, void **out_stream)
{
    struct fake_instance *f = self;
    uint64_t limit = fake_number("streams", 0);

    FIRST(stream_create, 0);
    if (fake_has("file-leak") && open("/dev/null", O_RDONLY) < 0) abort();
    pthread_mutex_lock(&lock);
    if (!limit || (uint64_t)f->streams < limit) {
        *out_stream = add_stream(f->work, device);
        f->streams++;
        limit = 0;
    }
    pthread_mutex_unlock(&lock);
    if (!limit) return BP_OK;
    return bp_fail(f->host, BP_ERR_DEVICE, "%u streams are all there are", (unsigned)limit);
}

/* Its work is done, or the device is lost. Waits count as reached; told: they are, as the core
 * promises. */
static void stream_destroy(void *self, uint32_t device, void *stream)
{
    struct fake_instance *f = self;
    struct stream **at, *s = stream;
    bool bad = false;

    pthread_mutex_lock(&lock);
    for (at = &f->work->streams; *at != s; at = &(*at)->next) {}
    *at = s->next;
    s->next = f->work->past;
    f->work->past = s;
    f->streams--;
    for (struct job *j; (j = s->first); s->first = j->next, free(j), s->done++) {
        bad |= !lost && (!j->of || (fake_mode == FAKE_TOLD && j->of->done < j->at));
        if (j->launch) launch_destroy(j->launch);
    }
    s->end = &s->first;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    if (bad) fake_break();
}

static enum bp_status event_create(void *self, uint32_t device, void **out_event)
{
    size_t after = fake_mode == FAKE_TOLD ? STREAMS * sizeof(uint64_t) : 0;
    struct event *e;

    FIRST(event_create, 0);
    e = calloc(1, sizeof *e + after);
    if (!e) abort();
    *out_event = e;
    return BP_OK;
}

static void event_destroy(void *self, uint32_t device, void *event)
{
    if (!fake_has("event-leak")) free(event);
}

static enum bp_status event_record(void *self, uint32_t device, void *stream, void *event)
{
    struct event *e = event;
    enum bp_status status;

    FIRST(event_record, 0);
    if (fake_has("add-waits") || fake_has("copy-waits"))
        give(self, stream_of(self, device, stream), &(struct job){.of = NULL}, false);
    pthread_mutex_lock(&lock);
    e->of = stream_of(self, device, stream);
    e->at = e->of->given;
    if (fake_mode == FAKE_TOLD) memcpy(e->after, e->of->after, STREAMS * sizeof *e->after);
    status = lost ? gone(self) : BP_OK;
    pthread_mutex_unlock(&lock);
    return status;
}

/* Under the lock: of an event that may have been reached. */
static enum bp_status answer(struct fake_instance *f, const struct event *e, enum bp_status not_yet)
{
    if (lost) return gone(f);
    if (e->of && e->of->done < e->at) return not_yet;
    return e->of ? tell(f, e->of, e->at, muted || fake_has("event-ok")) : BP_OK;
}

static enum bp_status event_query(void *self, uint32_t device, void *event)
{
    enum bp_status status;

    FIRST(event_query, 0);
    pthread_mutex_lock(&lock);
    be_asked(event);
    status = answer(self, event, BP_ERR_BUSY);
    pthread_mutex_unlock(&lock);
    return status;
}

/* Under the lock. */
static void wait_until(const struct event *e, uint64_t timeout_ns)
{
    const uint64_t longest = UINT64_C(1000000000000);
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    timeout_ns = (timeout_ns < longest ? timeout_ns : longest) + (uint64_t)until.tv_nsec;
    until.tv_sec += (time_t)(timeout_ns / 1000000000);
    until.tv_nsec = (long)(timeout_ns % 1000000000);
    while (e->of->done < e->at && !lost)
        if (pthread_cond_timedwait(&changed, &lock, &until)) return;
}

static enum bp_status event_wait(void *self, uint32_t device, void *event, uint64_t timeout_ns)
{
    struct fake_instance *f = self;
    const struct event *e = event;
    enum bp_status status;

    FIRST(event_wait, 0);
    pthread_mutex_lock(&lock);
    if (e->of && fake_mode == FAKE_THREAD) wait_until(e, timeout_ns);
    else if (e->of && (fake_mode == FAKE_TOLD || timeout_ns >= SHORT_WAIT)) wait_to(e->of, e->at);
    else be_asked(e);
    status = answer(f, e, BP_ERR_TIMEOUT);
    pthread_mutex_unlock(&lock);
    if (status != BP_ERR_TIMEOUT) return status;
    return bp_fail(f->host, status, "the event was not reached in time");
}

static enum bp_status stream_wait(void *self, uint32_t device, void *stream, void *event)
{
    struct stream *s = stream_of(self, device, stream);
    const struct event *e = event;
    struct job j = {.of = e->of, .at = e->at};

    FIRST(stream_wait, 0);
    for (int i = 0; i < STREAMS && fake_mode == FAKE_TOLD; i++) {
        uint64_t at = (uint32_t)i == e->of->index && e->at > e->after[i] ? e->at : e->after[i];
        if (s->after[i] < at) s->after[i] = at;
    }
    return give(self, s, &j, false);
}

const struct bp_runtime fake_work_runtime = {
    .size = sizeof fake_work_runtime,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .copy_within = copy_within,
    .copy_peer = copy_peer,
    .synchronize = synchronize,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_query = event_query,
    .event_wait = event_wait,
    .stream_wait = stream_wait,
};

/* A block of arguments for a launch. The only one is free when the stream that had it has done its
 * work: what other streams have to do is forgotten. */
static struct launch *take_block(const struct bp_launch *l, const struct bp_host *host)
{
    if (!fake_has("one-block"))
        return host->allocate(host->ctx, sizeof only_block, _Alignof(struct launch));
    if (block_of == l->stream) catch_up(l->stream);
    block_of = l->stream;
    return &only_block;
}

static struct launch *launch_copy(const struct bp_launch *l, const struct bp_host *host)
{
    struct launch *copy = take_block(l, host);

    if (!copy || l->n_in + l->n_out > OPERANDS) abort();
    copy->l = *l;
    for (uint32_t i = 0; i < l->n_in + l->n_out; i++) {
        const struct bp_view *v = i < l->n_in ? l->in[i] : l->out[i - l->n_in];
        copy->views[i] = v ? &copy->view[i] : NULL;
        if (!v) continue;
        copy->view[i] = *v;
        copy->view[i].shape = memcpy(copy->shape[i], v->shape, v->rank * sizeof *v->shape);
        copy->view[i].stride = memcpy(copy->stride[i], v->stride, v->rank * sizeof *v->stride);
    }
    copy->l.in = copy->views;
    copy->l.out = copy->views + l->n_in;
    if (l->kernel->attrs_size) copy->l.attrs = memcpy(copy->attrs, l->attrs, l->kernel->attrs_size);
    return copy;
}

enum bp_status fake_launch(const struct bp_launch *l)
{
    struct fake_instance *f = l->self;
    uint64_t size = (uint64_t)l->out[0]->count;
    enum bp_status status = fake_first(f->host, FAKE_launch, size);
    struct job j = {.doom = doom_of(FAKE_launch, size)};

    if (status) return status;
    fake_step("launch");
    if (fake_mode == FAKE_INLINE) return ((const struct fake_row *)(const void *)l->kernel)->run(l);
    j.launch = launch_copy(l, f->host);
    status = give(f, stream_of(f, l->device, l->stream), &j, false);
    if (fake_has("add-waits")) catch_up(l->stream);
    return status;
}

static void streams_free(struct stream *s)
{
    for (struct stream *next; s; s = next) {
        next = s->next;
        for (struct job *j; (j = s->first); s->first = j->next, free(j))
            if (j->launch) launch_destroy(j->launch);
        free(s->after);
        free(s);
    }
}

void fake_work_destroy(struct fake_instance *f)
{
    struct fake_work **at, *w = f->work;

    pthread_mutex_lock(&lock);
    w->ending = true;
    n_numbered = 0;
    for (at = &works; *at != w; at = &(*at)->next) {}
    *at = w->next;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    if (w->runs) pthread_join(w->thread, NULL);
    streams_free(w->streams);
    streams_free(w->past);
    free(w);
}

enum bp_status fake_work_create(struct fake_instance *f)
{
    struct fake_work *w = calloc(1, sizeof *w);
    bool whole = w;

    if (!w) return bp_fail(f->host, BP_ERR_MEMORY, "no memory for an instance");
    pthread_once(&once, init);
    f->work = w;
    pthread_mutex_lock(&lock);
    lost = false;
    for (uint32_t i = 0; i < DEVICES && i < fake_number("count", 1); i++)
        whole &= (w->whole[i] = add_stream(w, i)) != NULL;
    w->next = works;
    works = w;
    pthread_mutex_unlock(&lock);
    if (fake_mode == FAKE_THREAD) w->runs = !pthread_create(&w->thread, NULL, work, w);
    if (whole && (w->runs || fake_mode != FAKE_THREAD)) return BP_OK;
    fake_work_destroy(f);
    return bp_fail(f->host, BP_ERR_MEMORY, "no memory for streams");
}
