/* SPDX-License-Identifier: Apache-2.0 */
/* test_memory.c: allocates and frees memory on many threads: in the host's pool, on each thread's
 * own stream, inline or asynchronous, and on a stream that they share. Another thread frees the
 * memory, while work may still use it. Memory with two owners shows in its contents, and to
 * ThreadSanitizer. Silent on success.
 *
 *   test_memory [PLUGIN.so]   on device 0 of that plugin; else on cpu:0 */
#include <backplane/backplane.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, ROUNDS = 1500, SLOTS = 64 };

static struct bp_core *core;
static struct bp_device *device;
static struct bp_stream *shared;
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(struct bp_buffer *) storages[SLOTS];
static _Atomic(struct bp_tensor *) tensors[SLOTS];
static bool inline_device;

static void memory_need(enum bp_status status, const char *what)
{
    if (status == BP_OK) return;
    fprintf(stderr, "%s: %s\n", what, bp_error_message());
    exit(1);
}

static uint32_t memory_next(uint32_t *random)
{
    *random = *random * 1664525 + 1013904223;
    return *random >> 8;
}

/* All bytes must be equal to the first one. */
static void memory_check(struct bp_buffer *storage)
{
    struct bp_buffer_info info = {.size = sizeof info};
    const unsigned char *at;

    memory_need(bp_buffer_get_info(storage, &info), "info");
    at = info.host;
    for (uint64_t i = 0; at && i < info.bytes; i += 97)
        if (at[i] != at[0] || at[info.bytes - 1] != at[0]) {
            fprintf(stderr, "memory has two owners\n");
            exit(1);
        }
}

/* No work uses memory of the host's pool or of an inline stream, so the host may write to it. */
static void put_storage(struct bp_stream *own, uint32_t *random)
{
    uint64_t size = 1 + memory_next(random) % (memory_next(random) % 16 ? 3000 : 3000000);
    struct bp_buffer_info info = {.size = sizeof info};
    struct bp_buffer *storage;
    bool at_owner = bp_stream_get_flags(own) & BP_STREAM_INLINE && memory_next(random) % 2;
    uint32_t space = memory_next(random) % 4 || !inline_device ? BP_SPACE_DEVICE : BP_SPACE_PINNED;

    memory_need(bp_buffer_create(device, at_owner ? own : NULL, space, size, &storage), "create");
    memory_need(bp_buffer_get_info(storage, &info), "info");
    if (info.host) memset(info.host, (int)memory_next(random), size);
    storage = atomic_exchange(&storages[memory_next(random) % SLOTS], storage);
    if (!storage) return;
    memory_check(storage);
    bp_buffer_destroy(storage);
}

/* Stores a tensor of a stream that work still uses when another thread frees the tensor. */
static void put_tensor(struct bp_stream *stream, uint32_t *random)
{
    const int64_t shape[1] = {1 + memory_next(random) % 2000};
    static const float zeros[2000];
    struct bp_tensor *x, *y = NULL, *old;

    memory_need(bp_tensor_create(device, BP_F32, 1, shape, &x), "tensor");
    memory_need(bp_tensor_write(stream, x, zeros, (uint64_t)shape[0] * sizeof *zeros), "write");
    memory_need(bp_op_add(bp_stream_scope(stream), x, x, &y), "add");
    bp_tensor_destroy(x);
    old = atomic_exchange(&tensors[memory_next(random) % SLOTS], y);
    bp_tensor_destroy(old);
}

static void use_shared(uint32_t *random)
{
    pthread_mutex_lock(&shared_lock);
    put_tensor(shared, random);
    pthread_mutex_unlock(&shared_lock);
}

static void look_after(uint32_t *random)
{
    struct bp_memory_stats stats = {.size = sizeof stats};

    memory_need(bp_device_memory(device, &stats), "memory");
    if (stats.reserved != stats.allocated + stats.rounding + stats.pending + stats.free) {
        fprintf(stderr, "the sums are wrong\n");
        exit(1);
    }
    if (memory_next(random) % 4 == 0) memory_need(bp_device_trim(device), "trim");
}

static void *memory_work(void *arg)
{
    uint32_t random = *(uint32_t *)arg * 77777 + 1;
    struct bp_stream *own = NULL;

    for (int i = 0; i < ROUNDS; i++) {
        if (i % 100 == 0) {
            uint32_t flags = inline_device && i % 200 ? BP_STREAM_ASYNC : 0;
            bp_stream_destroy(own);
            memory_need(bp_stream_create_with(device, flags, &own), "stream");
        }
        put_storage(own, &random);
        put_tensor(own, &random);
        if (i % 4 == 0) use_shared(&random);
        if (i % 64 == 0) look_after(&random);
        if (i % 97 == 0) memory_need(bp_stream_synchronize(own), "synchronize");
    }
    bp_stream_destroy(own);
    return NULL;
}

static void memory_open_device(const char *library)
{
    uint32_t index;

    memory_need(bp_core_create(NULL, &core), "core");
    if (library) {
        memory_need(bp_core_load_path(core, library, &index), "plugin");
        memory_need(bp_device_create_at(core, index, 0, &device), "device");
    } else {
        memory_need(bp_device_create(core, "cpu:0", &device), "device");
    }
}

static void expect_nothing_taken(void)
{
    struct bp_memory_stats stats = {.size = sizeof stats};

    memory_need(bp_device_synchronize(device), "synchronize");
    memory_need(bp_device_trim(device), "trim");
    memory_need(bp_device_memory(device, &stats), "memory");
    if (!stats.live && !stats.allocated && !stats.pending && !stats.reserved) return;
    fprintf(stderr, "%llu bytes are still taken\n", (unsigned long long)stats.reserved);
    exit(1);
}

int main(int argc, char **argv)
{
    struct bp_device_properties properties = {.size = sizeof properties};
    pthread_t thread[THREADS];
    uint32_t number[THREADS];

    memory_open_device(argc > 1 ? argv[1] : NULL);
    memory_need(bp_device_get_properties(device, &properties), "properties");
    inline_device = properties.flags & BP_DEVICE_INLINE;
    memory_need(bp_stream_create_with(device, BP_STREAM_ASYNC, &shared), "stream");
    for (uint32_t i = 0; i < THREADS; i++) {
        number[i] = i;
        pthread_create(&thread[i], NULL, memory_work, &number[i]);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < SLOTS; i++) {
        bp_buffer_destroy(storages[i]);
        bp_tensor_destroy(tensors[i]);
    }
    bp_stream_destroy(shared);
    expect_nothing_taken();
    bp_device_destroy(device);
    bp_core_destroy(core);
    return 0;
}
