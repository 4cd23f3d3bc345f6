/* SPDX-License-Identifier: Apache-2.0 */
/* test_segments.c: tests the allocator from inside the core, on threads that capture their own
 * streams and allocate on others until no memory is left. Meanwhile listeners are added and
 * removed, memory segments are reserved and released, and statistics are read. Silent on success.
 *
 *   thread_segments PLUGIN.so   on device 0 of that plugin */
#include "memory/pool.h"

#include <backplane/backplane.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 3, ROUNDS = 1500 };

static struct bp_core *core;
static struct bp_device *device;
static _Atomic int64_t known;  /* bytes of the segments that exist, for the listener */
static _Atomic uint64_t announced; /* segments reported to all listeners */
static _Atomic bool over;

static void segments_need(bool good, const char *what)
{
    if (good) return;
    fprintf(stderr, "%s: %s\n", what, bp_error_message());
    exit(1);
}

static void segments_reserved(void *ctx, const struct bp_memory *memory, uint64_t bytes,
                              uint32_t space)
{
    (void)memory, (void)space;
    atomic_fetch_add(&announced, 1);
    atomic_fetch_add((_Atomic int64_t *)ctx, (int64_t)bytes);
}

static void segments_released(void *ctx, const struct bp_memory *memory, uint64_t bytes,
                              uint32_t space)
{
    (void)memory, (void)space;
    segments_need(atomic_fetch_sub((_Atomic int64_t *)ctx, (int64_t)bytes) >= (int64_t)bytes,
                  "a segment was released twice");
}

static struct bp_buffer *segments_take(struct bp_stream *stream, uint64_t size)
{
    struct bp_buffer *storage = NULL;
    enum bp_status status = bp_buffer_create(device, stream, BP_SPACE_DEVICE, size, &storage);

    segments_need(status == BP_OK || status == BP_ERR_MEMORY, "memory");
    return storage;
}

static void segments_use(struct bp_stream *stream, struct bp_buffer *s)
{
    struct bp_copy copy = {.size = 1};

    if (!s) return;
    copy.dst_memory = s->memory.handle;
    copy.src_memory = s->memory.handle;
    copy.dst = s->memory.data;
    copy.src = s->memory.data;
    segments_need(bp_memory_copy(stream, BP_COPY_WITHIN, &copy, s, s) == BP_OK, "copy");
}

/* Buffers that exist when the capture ends are freed after the pool is destroyed (late), or
 * before. */
static void segments_capture(struct bp_stream *stream, struct bp_stream *other, bool late)
{
    struct bp_timeline *owner = stream->timeline;
    struct bp_buffer *s[6];
    struct bp_pool *pool;

    segments_need(bp_capture_pool_begin(owner, &pool) == BP_OK, "capture");
    for (uint64_t i = 0; i < 6; i++) {
        s[i] = segments_take(stream, 1000 + i * 300000);
        segments_use(i % 2 ? other : stream, s[i]);
        if (i % 3 == 0) bp_buffer_destroy(s[i]);
    }
    bp_capture_pool_end(pool);
    for (int i = 0; i < 6 && !late; i++)
        if (i % 3) bp_buffer_destroy(s[i]);
    bp_capture_pool_destroy(pool, owner, atomic_load(&owner->submitted));
    for (int i = 0; i < 6 && late; i++)
        if (i % 3) bp_buffer_destroy(s[i]);
}

static void *segments_work(void *arg)
{
    struct bp_stream *stream, *other;

    segments_need(bp_stream_create(device, &stream) == BP_OK, "stream");
    segments_need(bp_stream_create(device, &other) == BP_OK, "stream");
    for (uint32_t i = 0; i < ROUNDS; i++) {
        struct bp_buffer *a = segments_take(stream, 700000),
                          *b = segments_take(i % 2 ? other : NULL, 900000);
        segments_use(other, a);
        if (i % 4 == 0) segments_capture(stream, other, i % 8);
        bp_buffer_destroy(a);
        bp_buffer_destroy(b);
        if (i % 16 == 0) bp_device_trim(device);
    }
    bp_stream_destroy(stream);
    bp_stream_destroy(other);
    return arg;
}

static void *segments_listen(void *arg)
{
    while (!atomic_load(&over)) {
        struct bp_memory_stats stats = {.size = sizeof stats};
        _Atomic int64_t bytes = 0;
        struct bp_segment_listener listener = {segments_reserved, segments_released, (void *)&bytes,
                                               NULL};
        bp_segment_listener_add(device, &listener);
        segments_need(bp_device_memory(device, &stats) == BP_OK, "figures");
        bp_segment_listener_remove(device, &listener);
        segments_need(atomic_load(&bytes) >= 0, "more went than came");
    }
    return arg;
}

int main(int argc, char **argv)
{
    struct bp_segment_listener always = {segments_reserved, segments_released, (void *)&known,
                                         NULL};
    pthread_t thread[THREADS + 1];
    uint32_t index;

    segments_need(argc == 2, "give a plugin");
    setenv("BP_MEM_LIMIT", "24M", 1);
    segments_need(bp_core_create(NULL, &core) == BP_OK, "core");
    segments_need(bp_core_load_path(core, argv[1], &index) == BP_OK, "plugin");
    segments_need(bp_device_create_at(core, index, 0, &device) == BP_OK, "device");
    bp_segment_listener_add(device, &always);
    for (int i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, segments_work, NULL);
    pthread_create(&thread[THREADS], NULL, segments_listen, NULL);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    atomic_store(&over, true);
    pthread_join(thread[THREADS], NULL);
    segments_need(bp_device_synchronize(device) == BP_OK, "synchronize");
    segments_need(bp_device_trim(device) == BP_OK && !device->memory->reserved,
                  "all memory goes back");
    segments_need(announced && !atomic_load(&known), "what was told adds up");
    bp_device_destroy(device);
    bp_core_destroy(core);
    return 0;
}
