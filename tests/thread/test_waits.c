/* SPDX-License-Identifier: Apache-2.0 */
/* test_waits.c: streams of many threads, created and destroyed again and again, wait for each
 * other's events in both directions and run callbacks; devices lose their last handle in a
 * callback. A plain program, for ThreadSanitizer. Silent on success.
 *
 *   test_waits [PLUGIN.so]   every second thread on device 0 of that plugin, else on inline streams
 *                            of cpu:0; the others on queues of cpu:0 */
#include <backplane/backplane.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 60, CLOSINGS = 20 };

static const char *library; /* or NULL */
static struct bp_core *core;
static struct bp_device *device[THREADS];
static struct bp_event *event[THREADS];
static atomic_int calls, closed;

static void waits_need(enum bp_status status, const char *what)
{
    if (status == BP_OK) return;
    fprintf(stderr, "%s: %s\n", what, bp_error_message());
    exit(1);
}

static struct bp_device *open_for(struct bp_core *from, int thread)
{
    struct bp_device *opened;
    uint32_t index;

    if (thread % 2 == 0 || !library) {
        waits_need(bp_device_create(from, "cpu:0", &opened), "device");
    } else {
        waits_need(bp_core_load_path(from, library, &index), "plugin");
        waits_need(bp_device_create_at(from, index, 0, &opened), "device");
    }
    return opened;
}

static struct bp_stream *stream_for(struct bp_device *on, int thread)
{
    struct bp_stream *stream;
    uint32_t flags = thread % 2 == 0 ? BP_STREAM_ASYNC : library ? 0 : BP_STREAM_INLINE;

    waits_need(bp_stream_create_with(on, flags, &stream), "stream");
    return stream;
}

static void count_call(void *ctx, enum bp_status status)
{
    waits_need(status, "a callback's work");
    atomic_fetch_add((atomic_int *)ctx, 1);
}

/* Runs one stream that waits for the streams of both neighbours, which wait for its end in turn. */
static void one_round(int me, int round)
{
    const int64_t shape[1] = {16};
    const float data[16] = {(float)me, (float)round};
    struct bp_stream *stream = stream_for(device[me], me);
    struct bp_tensor *x, *y;
    float got[16];

    waits_need(bp_tensor_create(device[me], BP_F32, 1, shape, &x), "tensor");
    waits_need(bp_tensor_create(device[me], BP_F32, 1, shape, &y), "tensor");
    waits_need(bp_stream_wait(stream, event[(me + 1) % THREADS]), "wait");
    waits_need(bp_tensor_write(stream, x, data, sizeof data), "write");
    waits_need(bp_stream_callback(stream, count_call, &calls), "callback");
    waits_need(bp_event_record(event[me], stream), "record");
    waits_need(bp_stream_wait(stream, event[(me + THREADS - 1) % THREADS]), "wait");
    waits_need(bp_tensor_copy(stream, y, x), "copy");
    waits_need(bp_stream_callback(stream, count_call, &calls), "callback");
    waits_need(bp_event_record(event[me], stream), "record");
    bp_event_query(event[(me + 2) % THREADS]);
    if (round % 3 == 0) waits_need(bp_event_wait(event[(me + 2) % THREADS], UINT64_MAX), "event");
    if (round % 3 == 1) {
        waits_need(bp_tensor_read(stream, y, got, sizeof got), "read");
        if (got[0] != data[0] || got[1] != data[1]) exit(2);
    }
    if (round % 8 == me) waits_need(bp_device_synchronize(device[me]), "synchronize");
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    bp_stream_destroy(stream);
}

static void *waits_work(void *arg)
{
    int me = *(int *)arg;

    for (int i = 0; i < ROUNDS; i++) one_round(me, i);
    return NULL;
}

struct last {
    struct bp_core *core;
    struct bp_device *device;
    struct bp_stream *stream;
    struct bp_event *event;
};

static void close_all(void *ctx, enum bp_status status)
{
    struct last *l = ctx;

    waits_need(status, "the last work");
    bp_event_destroy(l->event);
    bp_stream_destroy(l->stream);
    bp_device_destroy(l->device);
    bp_core_destroy(l->core);
    free(l);
    closed++;
}

/* Each device is closed by its own callback, and has no other owner. */
static void *close_in_callbacks(void *arg)
{
    int me = *(int *)arg;

    for (int i = 0; i < CLOSINGS; i++) {
        struct last *l = calloc(1, sizeof *l);
        if (!l) exit(3);
        waits_need(bp_core_create(NULL, &l->core), "core");
        l->device = open_for(l->core, me);
        l->stream = stream_for(l->device, me);
        waits_need(bp_event_create(l->device, &l->event), "event");
        waits_need(bp_event_record(l->event, l->stream), "record");
        waits_need(bp_stream_callback(l->stream, close_all, l), "callback");
    }
    return NULL;
}

static void waits_run(void *(*body)(void *))
{
    static int number[THREADS];
    pthread_t thread[THREADS];

    for (int i = 0; i < THREADS; i++) {
        number[i] = i;
        pthread_create(&thread[i], NULL, body, &number[i]);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
}

int main(int argc, char **argv)
{
    library = argc > 1 ? argv[1] : NULL;
    waits_need(bp_core_create(NULL, &core), "core");
    for (int i = 0; i < THREADS; i++) {
        struct bp_stream *stream;
        device[i] = open_for(core, i);
        stream = stream_for(device[i], i);
        waits_need(bp_event_create(device[i], &event[i]), "event");
        waits_need(bp_event_record(event[i], stream), "record");
        bp_stream_destroy(stream);
    }
    waits_run(waits_work);
    for (int i = 0; i < THREADS; i++) waits_need(bp_device_synchronize(device[i]), "synchronize");
    if (calls != 2 * ROUNDS * THREADS) {
        fprintf(stderr, "%d calls back, expected %d\n", calls, 2 * ROUNDS * THREADS);
        return 1;
    }
    for (int i = 0; i < THREADS; i++) bp_event_destroy(event[i]);
    for (int i = 0; i < THREADS; i++) bp_device_destroy(device[i]);
    bp_core_destroy(core);

    waits_run(close_in_callbacks);
    for (int i = 0; i < 10000 && closed != CLOSINGS * THREADS; i++) usleep(1000);
    if (closed != CLOSINGS * THREADS) {
        fprintf(stderr, "%d devices closed, expected %d\n", closed, CLOSINGS * THREADS);
        return 1;
    }
    waits_need(bp_shutdown(UINT64_MAX), "bp_shutdown");
    return 0;
}
