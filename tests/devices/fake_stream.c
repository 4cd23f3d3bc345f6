/* SPDX-License-Identifier: Apache-2.0 */
/* fake_stream.c: implements the fake device's callbacks that submit work or wait for it. */
#include "fake_work.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const uint64_t SHORT_WAIT = 1000000000;
static struct launch only_block; /* one-block: the block, and the stream that uses it */
static void *block_of;

/* Returns the status that a test has set for the callback, if any, before the callback does its
 * work. */
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

/* Runs submitted work before the submitting call returns: for the words add-waits and
 * copy-waits. */
static void catch_up(struct stream *s)
{
    pthread_mutex_lock(&fake_all.lock);
    fake_run_to(s, s->given);
    pthread_mutex_unlock(&fake_all.lock);
}

/* An address: what a handle refers to, and an offset; or an address, without a handle. */
static void *address_of(const void *memory, const void *data)
{
    return (void *)((uintptr_t)memory + (uintptr_t)data);
}

static struct bp_copy copy_resolve(const struct bp_copy *copy)
{
    return (struct bp_copy){.dst = address_of(copy->dst_memory, copy->dst),
                            .src = address_of(copy->src_memory, copy->src), .size = copy->size};
}

static enum bp_status copy_give(void *self, uint32_t device, void *stream,
                                const struct bp_copy *copy, enum fake_callback callback)
{
    struct job j = {.copy = copy_resolve(copy), .doom = doom_of(callback, copy->size)};

    if (fake_mode != FAKE_INLINE)
        return fake_give(self, fake_stream_of(self, device, stream), &j,
                         callback == FAKE_copy_in && fake_mode != FAKE_POLLED);
    memcpy(j.copy.dst, j.copy.src, copy->size);
    return BP_OK;
}

static enum bp_status stream_copy_within(void *self, uint32_t device, void *stream,
                                         const struct bp_copy *copy)
{
    enum bp_status status;

    FIRST(copy_within, copy->size);
    __atomic_fetch_add(&fake.copies, 1, __ATOMIC_RELAXED);
    status = copy_give(self, device, stream, copy, FAKE_copy_within);
    if (fake_has("copy-waits")) catch_up(fake_stream_of(self, device, stream));
    return status;
}

static enum bp_status copy_peer(void *self, uint32_t device, void *stream, uint32_t to,
                                const struct bp_copy *copy)
{
    FIRST(copy_peer, copy->size);
    if (to == device) abort();
    return copy_give(self, device, stream, copy, FAKE_copy_peer);
}

static bool stream_is_busy(const struct fake_work *w, uint32_t device)
{
    for (const struct stream *s = w->streams; s; s = s->next)
        if (s->device == device && s->done < s->given) return true;
    return false;
}

/* Waits for a stream, or for all streams of the device. Streams may be destroyed during a wait for
 * all. */
static enum bp_status wait_for(struct fake_instance *f, uint32_t device, void *stream)
{
    enum bp_status status = BP_OK;

    pthread_mutex_lock(&fake_all.lock);
    if (stream) fake_wait_to(stream, ((struct stream *)stream)->given);
    while (!stream && fake_mode == FAKE_THREAD && stream_is_busy(f->work, device) && !fake_all.lost)
        pthread_cond_wait(&fake_all.changed, &fake_all.lock);
    for (struct stream *s = f->work->streams; s; s = s->next) {
        if (stream ? s != stream : s->device != device) continue;
        if (!stream) fake_wait_to(s, fake_mode == FAKE_THREAD ? 0 : s->given);
        if (!status) status = fake_report(f, s, UINT64_MAX, fake_has("sync-ok"));
    }
    pthread_mutex_unlock(&fake_all.lock);
    return status;
}

static enum bp_status stream_synchronize(void *self, uint32_t device, void *stream)
{
    FIRST(synchronize, 0);
    return wait_for(self, device, stream);
}

static enum bp_status stream_copy_in(void *self, uint32_t device, void *stream,
                                     const struct bp_copy *copy)
{
    FIRST(copy_in, copy->size);
    if (fake_mode == FAKE_POLLED) return wait_for(self, device, stream);
    return copy_give(self, device, stream, copy, FAKE_copy_in);
}

static enum bp_status copy_out(void *self, uint32_t device, void *stream,
                               const struct bp_copy *copy)
{
    struct bp_copy c = copy_resolve(copy);
    enum bp_status status;

    FIRST(copy_out, copy->size);
    status = wait_for(self, device, fake_stream_of(self, device, stream));
    if (!status && fake_mode != FAKE_POLLED) memcpy(c.dst, c.src, c.size);
    return status;
}

static enum bp_status stream_create(void *self, uint32_t device, void **out_stream)
{
    struct fake_instance *f = self;
    uint64_t limit = fake_number("streams", 0);

    FIRST(stream_create, 0);
    if (fake_has("file-leak") && open("/dev/null", O_RDONLY) < 0) abort();
    pthread_mutex_lock(&fake_all.lock);
    if (!limit || (uint64_t)f->streams < limit) {
        *out_stream = fake_stream_add(f->work, device);
        f->streams++;
        limit = 0;
    }
    pthread_mutex_unlock(&fake_all.lock);
    if (!limit) return BP_OK;
    return bp_fail(f->host, BP_ERR_DEVICE, "%u streams are all there are", (unsigned)limit);
}

/* The stream's work must be done, or the device lost. Pending waits count as reached; with
 * `work=told` they must have been reached, as the core promises. */
static void stream_destroy(void *self, uint32_t device, void *stream)
{
    struct fake_instance *f = self;
    struct stream **at, *s = stream;
    bool bad = false;

    pthread_mutex_lock(&fake_all.lock);
    for (at = &f->work->streams; *at != s; at = &(*at)->next) {}
    *at = s->next;
    s->next = f->work->retired;
    f->work->retired = s;
    f->streams--;
    for (struct job *j; (j = s->first); s->first = j->next, free(j), s->done++) {
        bad |= !fake_all.lost && (!j->of || (fake_mode == FAKE_POLLED && j->of->done < j->at));
        if (j->launch) fake_launch_destroy(j->launch);
    }
    s->end = &s->first;
    pthread_cond_broadcast(&fake_all.changed);
    pthread_mutex_unlock(&fake_all.lock);
    if (bad) fake_break();
}

static enum bp_status event_create(void *self, uint32_t device, void **out_event)
{
    size_t after = fake_mode == FAKE_POLLED ? STREAMS * sizeof(uint64_t) : 0;
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
        fake_give(self, fake_stream_of(self, device, stream), &(struct job){.of = NULL}, false);
    pthread_mutex_lock(&fake_all.lock);
    e->of = fake_stream_of(self, device, stream);
    e->at = e->of->given;
    if (fake_mode == FAKE_POLLED) memcpy(e->after, e->of->after, STREAMS * sizeof *e->after);
    status = fake_all.lost ? fake_gone(self) : BP_OK;
    pthread_mutex_unlock(&fake_all.lock);
    return status;
}

/* The status of an event that may have been reached. Called with the lock held. */
static enum bp_status stream_query(struct fake_instance *f, const struct event *e,
                                   enum bp_status not_yet)
{
    if (fake_all.lost) return fake_gone(f);
    if (e->of && e->of->done < e->at) return not_yet;
    return e->of ? fake_report(f, e->of, e->at, fake_all.muted || fake_has("event-ok")) : BP_OK;
}

static enum bp_status event_query(void *self, uint32_t device, void *event)
{
    enum bp_status status;

    FIRST(event_query, 0);
    pthread_mutex_lock(&fake_all.lock);
    fake_be_queried(event);
    status = stream_query(self, event, fake_has("event-early") ? BP_OK : BP_ERR_NOT_READY);
    pthread_mutex_unlock(&fake_all.lock);
    return status;
}

/* Called with the lock held. */
static void wait_until(const struct event *e, uint64_t timeout_ns)
{
    const uint64_t longest = UINT64_C(1000000000000);
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    timeout_ns = (timeout_ns < longest ? timeout_ns : longest) + (uint64_t)until.tv_nsec;
    until.tv_sec += (time_t)(timeout_ns / 1000000000);
    until.tv_nsec = (long)(timeout_ns % 1000000000);
    while (e->of->done < e->at && !fake_all.lost)
        if (pthread_cond_timedwait(&fake_all.changed, &fake_all.lock, &until)) return;
}

static enum bp_status event_wait(void *self, uint32_t device, void *event, uint64_t timeout_ns)
{
    struct fake_instance *f = self;
    const struct event *e = event;
    enum bp_status status;

    FIRST(event_wait, 0);
    pthread_mutex_lock(&fake_all.lock);
    if (e->of && fake_mode == FAKE_THREAD) wait_until(e, timeout_ns);
    else if (timeout_ns < SHORT_WAIT && fake_mode != FAKE_POLLED) fake_be_queried(e);
    else if (e->of) fake_wait_to(e->of, e->at);
    status = stream_query(f, e, BP_ERR_TIMEOUT);
    pthread_mutex_unlock(&fake_all.lock);
    if (status != BP_ERR_TIMEOUT) return status;
    return bp_fail(f->host, status, "the event was not reached in time");
}

static enum bp_status stream_wait(void *self, uint32_t device, void *stream, void *event)
{
    struct stream *s = fake_stream_of(self, device, stream);
    const struct event *e = event;
    struct job j = {.of = e->of, .at = e->at};

    FIRST(stream_wait, 0);
    for (int i = 0; i < STREAMS && fake_mode == FAKE_POLLED; i++) {
        uint64_t at = (uint32_t)i == e->of->index && e->at > e->after[i] ? e->at : e->after[i];
        if (s->after[i] < at) s->after[i] = at;
    }
    return fake_give(self, s, &j, false);
}

const struct bp_runtime fake_work_runtime = {
    .size = sizeof fake_work_runtime,
    .copy_in = stream_copy_in,
    .copy_out = copy_out,
    .copy_within = stream_copy_within,
    .copy_peer = copy_peer,
    .synchronize = stream_synchronize,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_query = event_query,
    .event_wait = event_wait,
    .stream_wait = stream_wait,
};

void fake_launch_destroy(struct launch *launch)
{
    const struct bp_host *host = ((struct fake_instance *)launch->l.self)->host;

    if (launch == &only_block || fake_has("host-leak")) return;
    host->release(host->ctx, launch, sizeof *launch - (fake_has("wrong-size") ? 8 : 0));
}

/* Takes a block of arguments for a launch. If there is only one, it is waited for only if this
 * stream used it last: a planted defect, because the work of other streams is ignored. */
static struct launch *take_block(const struct bp_launch *l, const struct bp_host *host)
{
    if (!fake_has("one-block"))
        return host->allocate(host->ctx, sizeof only_block, _Alignof(struct launch));
    if (block_of == l->stream) catch_up(l->stream);
    block_of = l->stream;
    return &only_block;
}

struct launch *fake_launch_copy(const struct bp_launch *l, const struct bp_host *host)
{
    struct launch *copy = take_block(l, host);

    if (!copy || l->n_in + l->n_out > OPERANDS || l->kernel->attrs_size > ATTRS) abort();
    copy->l = *l;
    for (uint32_t i = 0; i < l->n_in + l->n_out; i++) {
        const struct bp_view *v = i < l->n_in ? l->in[i] : l->out[i - l->n_in];
        copy->views[i] = v ? &copy->view[i] : NULL;
        if (!v) continue;
        copy->view[i] = *v;
        if (v->count) copy->view[i].data = address_of(v->memory, v->data);
        copy->view[i].memory = NULL; /* data is an address now */
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
    if (fake_mode == FAKE_INLINE && !fake_has("offsets"))
        return ((const struct fake_row *)(const void *)l->kernel)->run(l);
    j.launch = fake_launch_copy(l, f->host);
    if (fake_mode == FAKE_INLINE) {
        status = ((const struct fake_row *)(const void *)l->kernel)->run(&j.launch->l);
        fake_launch_destroy(j.launch);
        return status;
    }
    status = fake_give(f, fake_stream_of(f, l->device, l->stream), &j, false);
    if (fake_has("add-waits")) catch_up(l->stream);
    return status;
}
