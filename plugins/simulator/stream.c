/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c: simulates streams, by threads that execute queued work, and events. */
#include "sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct item {
    struct item *next;
    int (*run)(void *work, int code);
    struct sim_about about;
    uint64_t correlation;
    _Alignas(16) unsigned char work[];
};

struct sim_stream {
    enum sim_magic magic;
    uint32_t number;
    struct sim_stream *next;
    struct sim_device *device;
    pthread_t thread;
    pthread_cond_t given_more; /* more work, or the end: wakes only this stream's thread */
    struct item *first, **last;
    struct sim_capture *capture; /* the capture that records calls, or NULL */
    uint64_t given, done;
    uint64_t awaited; /* the smallest `done` for which a thread waits; UINT64_MAX: none */
    unsigned pauses;  /* state of the pauses' random numbers */
    bool ending;
};
static struct sim_stream *streams;

/* The description of the work that is enqueued next. */
static struct sim_about described;

/* The item that this stream's thread runs. */
static _Thread_local struct {
    const struct sim_stream *stream;
    uint64_t correlation;
} running;

/* The mark of an event's recording: the stream sets it as a work item. */
struct mark {
    int refs;
    bool done;
};
struct event {
    enum sim_magic magic;
    bool blocks; /* waits for the event sleep */
    struct sim_device *device;
    struct mark *mark; /* NULL: never recorded, or recorded in a capture */
    uint64_t capture;  /* number of the capture in which it was last recorded; 0: none */
};

void sim_wait(void)
{
    pthread_cond_wait(&sim.moved, &sim.lock);
}

void sim_wake(void)
{
    pthread_cond_broadcast(&sim.moved);
}

static void *stream_checked(void *handle, enum sim_magic magic)
{
    return handle && *(enum sim_magic *)handle == magic ? handle : NULL;
}

static void drop_mark(struct mark *mark)
{
    if (mark && !--mark->refs) free(mark);
}

/* Seven of eight work items begin immediately. */
static void pause_before(struct sim_stream *stream, unsigned delay)
{
    uint32_t x = stream->pauses = stream->pauses * 1664525u + 1013904223u;

    if (!delay || x >> 29) return;
    nanosleep(&(struct timespec){0, (long)(x >> 8 & 0xffff) % (long)delay * 1000}, NULL);
}

/* Wakes waiting threads only when their condition may be true, not for each work item: most work
 * consists of many short items, and the context switches would cost more than the work. */
static void finish_item(struct sim_stream *stream, struct item *item)
{
    stream->first = item->next;
    if (!stream->first) stream->last = &stream->first;
    stream->done++;
    free(item);
    if (stream->first && stream->done < stream->awaited) return;
    stream->awaited = UINT64_MAX;
    sim_wake();
}

void sim_describe(enum sim_work work, const char *name, uint64_t bytes)
{
    described = (struct sim_about){.work = work, .bytes = bytes};
    if (name) snprintf(described.name, sizeof described.name, "%s", name);
}

void sim_observe_part(const struct sim_about *about, uint64_t begin)
{
    if (!sim.observer || !running.correlation || about->work == SIM_WORK_OTHER) return;
    sim.observer->ended(&(struct sim_observed){about, running.stream->device,
                                               running.stream->number, running.correlation, begin,
                                               sim_now()});
}

/* Does one work item. */
static int stream_run(const struct sim_stream *stream, struct item *item)
{
    uint64_t begin = sim_now();
    int code;

    running.stream = stream;
    running.correlation = item->correlation;
    code = item->run(item->work, stream->device->sticky);
    sim_observe_part(&item->about, begin);
    return code;
}

static void *stream_work(void *arg)
{
    struct sim_stream *stream = arg;
    struct item *item;
    unsigned delay;
    int code;

    pthread_mutex_lock(&sim.lock);
    for (;;) {
        while (!stream->first && !stream->ending) pthread_cond_wait(&stream->given_more, &sim.lock);
        item = stream->first;
        if (!item) break;
        delay = sim.delay;
        pthread_mutex_unlock(&sim.lock);
        pause_before(stream, delay);
        pthread_mutex_lock(&sim.lock);
        code = stream_run(stream, item);
        if (code && !stream->device->sticky) {
            stream->device->sticky = code;
            sim_wake();
        }
        finish_item(stream, item);
    }
    pthread_mutex_unlock(&sim.lock);
    return NULL;
}

int sim_submit(void *handle, int (*run)(void *work, int code), const void *of, size_t size)
{
    struct sim_stream *stream = stream_checked(handle, SIM_STREAM);
    struct sim_about about = described;
    struct item *item;

    described.work = SIM_WORK_OTHER;
    if (!stream) return SIM_INVALID_HANDLE;
    if (stream->capture) return sim_capture_add(stream->capture, run, of, size, &about);
    item = aligned_alloc(16, (sizeof *item + size + 15) / 16 * 16);
    if (!item) return SIM_OUT_OF_MEMORY;
    item->next = NULL;
    item->run = run;
    item->about = about;
    item->correlation = sim.observer ? sim.observer->submitted(&about) : 0;
    memcpy(item->work, of, size);
    *stream->last = item;
    stream->last = &item->next;
    stream->given++;
    pthread_cond_signal(&stream->given_more);
    return SIM_SUCCESS;
}

int sim_compute(void *handle, int (*run)(void *work, int code), const void *of, size_t size)
{
    sim.computed++;
    if (described.work == SIM_WORK_OTHER) sim_describe(SIM_WORK_KERNEL, "library_kernel", 0);
    return sim_submit(handle, run, of, size);
}

struct sim_device *sim_device_of(void *handle)
{
    struct sim_stream *stream = stream_checked(handle, SIM_STREAM);

    return stream ? stream->device : NULL;
}

uint32_t sim_stream_number(void *handle)
{
    struct sim_stream *stream = stream_checked(handle, SIM_STREAM);

    return stream ? stream->number : 0;
}

struct sim_capture **sim_capture_of(void *handle)
{
    struct sim_stream *stream = stream_checked(handle, SIM_STREAM);

    return stream ? &stream->capture : NULL;
}

/* A wait for a captured stream invalidates the capture. Returns the code, or 0 if there is no
 * capture. */
static int refuse_captured(const struct sim_stream *stream)
{
    if (!stream->capture) return SIM_SUCCESS;
    return sim_capture_spoil(sim_capture_number(stream->capture), SIM_CAPTURE_UNSUPPORTED);
}

int sim_stream_create(void **out, unsigned flags)
{
    static uint32_t number;
    struct sim_stream *stream = calloc(1, sizeof *stream);
    struct sim_device *device = NULL;
    int code = sim_enter_context(SIM_CALL_stream_create, &device);

    if (!code && flags != 1) code = SIM_INVALID_VALUE;
    if (!code && !stream) code = SIM_OUT_OF_MEMORY;
    if (!code) {
        *stream = (struct sim_stream){
            SIM_STREAM, ++number, streams, device, .awaited = UINT64_MAX, .pauses = sim.seed++};
        stream->last = &stream->first;
        pthread_cond_init(&stream->given_more, NULL);
        if (pthread_create(&stream->thread, NULL, stream_work, stream)) code = SIM_OUT_OF_MEMORY;
    }
    if (code) {
        free(stream);
        return sim_leave(code);
    }
    streams = stream;
    sim.live++;
    *out = stream;
    return sim_leave(SIM_SUCCESS);
}

/* Destroys the stream when its work is done, even if the device has failed. */
int sim_stream_destroy(void *handle)
{
    struct sim_stream *stream, **at = &streams;
    struct sim_device *device;
    int code = sim_enter_context(SIM_CALL_stream_destroy, &device);

    stream = stream_checked(handle, SIM_STREAM);
    if (!stream) return sim_leave(SIM_INVALID_HANDLE);
    while (*at != stream) at = &(*at)->next;
    *at = stream->next;
    sim_capture_drop(stream->capture);
    stream->capture = NULL;
    stream->ending = true;
    sim.live--;
    pthread_cond_signal(&stream->given_more);
    sim_wake(); /* threads that wait for the whole device */
    pthread_mutex_unlock(&sim.lock);
    pthread_join(stream->thread, NULL);
    pthread_cond_destroy(&stream->given_more);
    stream->magic = 0;
    free(stream);
    return code;
}

int sim_stream_synchronize(void *handle)
{
    struct sim_device *device;
    int code = sim_enter_context(SIM_CALL_stream_synchronize, &device);
    struct sim_stream *stream = stream_checked(handle, SIM_STREAM);
    uint64_t until, begin = sim_now();

    if (!code && !stream) code = SIM_INVALID_HANDLE;
    if (!code) code = refuse_captured(stream);
    if (code) return sim_leave(code);
    until = stream->given;
    sim.spun += stream->done < until && !(device->flags & 4);
    while (stream->done < until) {
        if (until < stream->awaited) stream->awaited = until;
        sim_wait();
    }
    sim_called(SIM_CALLED_STREAM_SYNCHRONIZE, device, stream->number, 0, begin);
    return sim_leave(stream->device->sticky);
}

/* Whether a stream of the device has unfinished work. A stream that is destroyed meanwhile ends the
 * wait for it. */
static bool stream_is_busy(const struct sim_device *device)
{
    for (const struct sim_stream *s = streams; s; s = s->next)
        if (s->device == device && s->done < s->given) return true;
    return false;
}

int sim_context_synchronize(void)
{
    uint64_t begin = sim_now();
    struct sim_device *device;
    int code = sim_enter_context(SIM_CALL_context_synchronize, &device);

    if (!code && sim_capture_spoil_all(device)) code = SIM_CAPTURE_UNSUPPORTED;
    sim.spun += !code && stream_is_busy(device) && !(device->flags & 4);
    while (!code && stream_is_busy(device)) sim_wait();
    if (!code) sim_called(SIM_CALLED_CONTEXT_SYNCHRONIZE, device, 0, 0, begin);
    return sim_leave(code ? code : device->sticky);
}

int sim_event_create(void **out, unsigned flags)
{
    struct event *event = malloc(sizeof *event);
    struct sim_device *device;
    int code = sim_enter_context(SIM_CALL_event_create, &device);

    if (!code && flags != 2 && flags != 3) code = SIM_INVALID_VALUE;
    if (!code && !event) code = SIM_OUT_OF_MEMORY;
    if (code) {
        free(event);
        return sim_leave(code);
    }
    *event = (struct event){SIM_EVENT, flags & 1, device, NULL, 0};
    sim.live++;
    *out = event;
    return sim_leave(SIM_SUCCESS);
}

int sim_event_destroy(void *handle)
{
    struct sim_device *device;
    int code = sim_enter_context(SIM_CALL_event_destroy, &device);
    struct event *event = stream_checked(handle, SIM_EVENT);

    if (!event) return sim_leave(SIM_INVALID_HANDLE);
    drop_mark(event->mark);
    event->magic = 0;
    free(event);
    sim.live--;
    return sim_leave(code);
}

/* Recorded calls never end, so a query of an event that was recorded in a capture invalidates this
 * capture. */
static int refuse_event(const struct event *event)
{
    if (!event->capture) return SIM_SUCCESS;
    return sim_capture_spoil(event->capture, SIM_CAPTURED_EVENT);
}

static int run_mark(void *p, int code)
{
    struct mark *mark = *(struct mark **)p;

    mark->done = true;
    drop_mark(mark);
    sim_wake();
    return code;
}

int sim_event_record(void *handle, void *stream)
{
    struct sim_device *device;
    int code = sim_enter_context(SIM_CALL_event_record, &device);
    struct event *event = stream_checked(handle, SIM_EVENT);
    struct sim_capture **capture = sim_capture_of(stream);
    struct mark *mark = NULL;

    if (!code && (!event || !capture || event->device != sim_device_of(stream)))
        code = SIM_INVALID_HANDLE;
    if (code) return sim_leave(code);
    if (!*capture) {
        mark = malloc(sizeof *mark);
        if (!mark) return sim_leave(SIM_OUT_OF_MEMORY);
        *mark = (struct mark){2, false};
        code = sim_submit(stream, run_mark, &mark, sizeof mark);
    }
    if (code) {
        free(mark);
        return sim_leave(code);
    }
    drop_mark(event->mark);
    event->mark = mark;
    event->capture = sim_capture_number(*capture);
    return sim_leave(SIM_SUCCESS);
}

int sim_event_query(void *handle)
{
    struct sim_device *device;
    int code = sim_enter_context(SIM_CALL_event_query, &device);
    struct event *event = stream_checked(handle, SIM_EVENT);

    if (!code && !event) code = SIM_INVALID_HANDLE;
    if (!code) code = refuse_event(event);
    if (!code && event->mark && !event->mark->done) code = SIM_NOT_READY;
    return sim_leave(code);
}

int sim_event_synchronize(void *handle)
{
    uint64_t begin = sim_now();
    struct sim_device *device;
    int code = sim_enter_context(SIM_CALL_event_synchronize, &device);
    struct event *event = stream_checked(handle, SIM_EVENT);
    struct mark *mark;

    if (!code && !event) code = SIM_INVALID_HANDLE;
    if (!code) code = refuse_event(event);
    if (code || !event->mark) return sim_leave(code);
    mark = event->mark;
    mark->refs++;
    sim.spun += !mark->done && !event->blocks;
    while (!mark->done && !device->sticky) sim_wait();
    drop_mark(mark);
    sim_called(SIM_CALLED_EVENT_SYNCHRONIZE, device, 0, 0, begin);
    return sim_leave(device->sticky);
}

static int run_wait(void *p, int code)
{
    struct mark *mark = *(struct mark **)p;

    while (!mark->done) sim_wait();
    drop_mark(mark);
    return code;
}

/* Refuses waits that would cross the border of a capture. Real drivers let other streams join a
 * capture. */
static int refuse_wait(const struct sim_capture *capture, const struct event *event)
{
    uint64_t number = sim_capture_number(capture);

    if (number == event->capture || (!event->capture && !event->mark)) return SIM_SUCCESS;
    sim_capture_spoil(event->capture, 0);
    return sim_capture_spoil(number, SIM_CAPTURE_ISOLATION);
}

int sim_stream_wait(void *stream, void *handle, unsigned flags)
{
    uint64_t begin = sim_now();
    struct sim_device *device;
    int code = sim_enter_context(SIM_CALL_stream_wait, &device);
    struct event *event = stream_checked(handle, SIM_EVENT);
    struct sim_capture **capture = sim_capture_of(stream);

    if (!code && flags) code = SIM_INVALID_VALUE;
    if (!code && (!event || !capture)) code = SIM_INVALID_HANDLE;
    if (!code) code = refuse_wait(*capture, event);
    if (code || !event->mark || event->mark->done) return sim_leave(code);
    event->mark->refs++;
    code = sim_submit(stream, run_wait, &event->mark, sizeof event->mark);
    if (code) drop_mark(event->mark);
    else sim_called(SIM_WORK_STREAM_WAIT, device, sim_stream_number(stream), 0, begin);
    return sim_leave(code);
}
