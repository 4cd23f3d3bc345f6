/* SPDX-License-Identifier: Apache-2.0 */
/* test_streams.c: uses one core from many threads: each opens and closes the same device, and has
 * its own stream, tensors and calls; inputs are shared, and streams wait for each other's events. A
 * plain program, for ThreadSanitizer. Silent on success.
 *
 *   test_streams [PLUGIN.so]   on device 0 of that plugin; else on cpu:0 */
#include <backplane/backplane.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, ROUNDS = 200 };

static struct bp_core *core;
static const char *library; /* or NULL */
static struct bp_tensor *shared;
static struct bp_event *events[THREADS];

static void streams_need(enum bp_status status, const char *what)
{
    if (status == BP_OK) return;
    fprintf(stderr, "%s: %s\n", what, bp_error_message());
    exit(1);
}

static struct bp_device *streams_open_device(void)
{
    struct bp_device *device;
    uint32_t index;

    if (!library) {
        streams_need(bp_device_create(core, "cpu:0", &device), "device");
    } else {
        streams_need(bp_core_load_path(core, library, &index), "plugin");
        streams_need(bp_device_create_at(core, index, 0, &device), "device");
    }
    return device;
}

static void round_trip(struct bp_device *device, struct bp_stream *stream, float value)
{
    const int64_t shape[1] = {16};
    struct bp_tensor *x, *y = NULL, *z = NULL;
    float data[16], got[16];

    for (int i = 0; i < 16; i++) data[i] = value;
    streams_need(bp_tensor_create(device, BP_F32, 1, shape, &x), "create");
    streams_need(bp_tensor_write(stream, x, data, sizeof data), "write");
    streams_need(bp_op_add(bp_stream_scope(stream), x, shared, &y), "add");
    streams_need(bp_op_softmax(bp_stream_scope(stream), y, NULL, &z), "softmax");
    streams_need(bp_tensor_read(stream, y, got, sizeof got), "read");
    for (int i = 0; i < 16; i++)
        if (got[i] != value + 1) {
            fprintf(stderr, "element %d is %g, expected %g\n", i, (double)got[i],
                    (double)value + 1);
            exit(1);
        }
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    bp_tensor_destroy(z);
}

static void *streams_work(void *arg)
{
    int me = *(int *)arg;
    struct bp_memory_stats stats = {.size = sizeof stats};

    for (int i = 0; i < ROUNDS; i++) {
        struct bp_device *device = streams_open_device(), *none;
        struct bp_stream *stream;
        streams_need(bp_stream_create(device, &stream), "stream");
        round_trip(device, stream, (float)(me * ROUNDS + i));
        streams_need(bp_event_record(events[me], stream), "record");
        streams_need(bp_stream_wait(stream, events[(me + 1) % THREADS]), "wait");
        streams_need(bp_device_memory(device, &stats), "memory");
        /* A failure on one thread does not change the error messages of the others. */
        if (bp_device_create(core, "nowhere:9", &none) != BP_ERR_NOT_FOUND) exit(1);
        if (i % 16 == me) streams_need(bp_device_synchronize(device), "synchronize");
        bp_stream_destroy(stream);
        bp_device_destroy(device);
    }
    return NULL;
}

/* When all tensors are destroyed and all work has ended, no memory is counted as allocated. */
static void expect_nothing_taken(struct bp_device *device)
{
    struct bp_memory_stats stats = {.size = sizeof stats};

    streams_need(bp_device_synchronize(device), "synchronize");
    streams_need(bp_device_memory(device, &stats), "memory");
    if (!stats.allocated) return;
    fprintf(stderr, "%llu bytes are still taken\n", (unsigned long long)stats.allocated);
    exit(1);
}

int main(int argc, char **argv)
{
    const int64_t shape[1] = {16};
    struct bp_device *device;
    struct bp_stream *stream;
    pthread_t thread[THREADS];
    int number[THREADS];
    float ones[16];

    for (int i = 0; i < 16; i++) ones[i] = 1;
    library = argc > 1 ? argv[1] : NULL;
    streams_need(bp_core_create(NULL, &core), "core");
    device = streams_open_device();
    streams_need(bp_stream_create(device, &stream), "stream");
    streams_need(bp_tensor_create(device, BP_F32, 1, shape, &shared), "shared");
    streams_need(bp_tensor_write(stream, shared, ones, sizeof ones), "shared");
    streams_need(bp_stream_synchronize(stream), "shared");
    for (int i = 0; i < THREADS; i++) {
        streams_need(bp_event_create(device, &events[i]), "event");
        streams_need(bp_event_record(events[i], stream), "record");
    }
    for (int i = 0; i < THREADS; i++) {
        number[i] = i;
        pthread_create(&thread[i], NULL, streams_work, &number[i]);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < THREADS; i++) bp_event_destroy(events[i]);
    bp_tensor_destroy(shared);
    bp_stream_destroy(stream);
    expect_nothing_taken(device);
    bp_device_destroy(device);
    bp_core_destroy(core);
    return 0;
}
