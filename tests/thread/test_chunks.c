/* SPDX-License-Identifier: Apache-2.0 */
/* test_chunks.c: seen from inside: threads capture streams of their own, and take memory on others,
 * until there is none; listeners come and go, chunks are reserved and released, figures are read.
 * Silent on success.
 *
 *   test_chunks PLUGIN.so   on device 0 of that plugin */
#include "memory/pool.h"

#include <backplane/backplane.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 3, ROUNDS = 1500 };

static struct bp_core *core;
static struct bp_device *device;
static _Atomic int64_t known; /* bytes that the listener knows to be there */
static _Atomic uint64_t heard; /* chunks ever, by all listeners */
static _Atomic bool over;

static void need(bool good, const char *what)
{
    if (good) return;
    fprintf(stderr, "%s: %s\n", what, bp_error_message());
    exit(1);
}

static void reserved(void *ctx, const struct bp_memory *memory, uint64_t bytes, uint32_t space)
{
    (void)memory, (void)space;
    atomic_fetch_add(&heard, 1);
    atomic_fetch_add((_Atomic int64_t *)ctx, (int64_t)bytes);
}

static void released(void *ctx, const struct bp_memory *memory, uint64_t bytes, uint32_t space)
{
    (void)memory, (void)space;
    need(atomic_fetch_sub((_Atomic int64_t *)ctx, (int64_t)bytes) >= (int64_t)bytes,
         "a chunk went that was not there");
}

static struct bp_storage *take(struct bp_stream *stream, uint64_t size)
{
    struct bp_storage *storage = NULL;
    enum bp_status status = bp_memory_create(device, stream, BP_SPACE_DEVICE, size, &storage);

    need(status == BP_OK || status == BP_ERR_MEMORY, "memory");
    return storage;
}

static void use(struct bp_stream *stream, struct bp_storage *s)
{
    struct bp_copy copy = {.size = 1};

    if (!s) return;
    copy.dst_memory = s->memory.handle;
    copy.src_memory = s->memory.handle;
    copy.dst = s->memory.data;
    copy.src = s->memory.data;
    need(bp_memory_copy(stream, BP_COPY_WITHIN, &copy, s, s) == BP_OK, "copy");
}

/* What lives when the capture ends goes when it is over, or before. */
static void capture(struct bp_stream *stream, struct bp_stream *other, bool late)
{
    struct bp_timeline *home = stream->timeline;
    struct bp_storage *s[6];
    struct bp_pool *pool;

    need(bp_capture_begin(home, &pool) == BP_OK, "capture");
    for (uint64_t i = 0; i < 6; i++) {
        s[i] = take(stream, 1000 + i * 300000);
        use(i % 2 ? other : stream, s[i]);
        if (i % 3 == 0) bp_memory_destroy(s[i]);
    }
    bp_capture_end(pool);
    for (int i = 0; i < 6 && !late; i++)
        if (i % 3) bp_memory_destroy(s[i]);
    bp_capture_destroy(pool, home, atomic_load(&home->submitted));
    for (int i = 0; i < 6 && late; i++)
        if (i % 3) bp_memory_destroy(s[i]);
}

static void *work(void *arg)
{
    struct bp_stream *stream, *other;

    need(bp_stream_create(device, &stream) == BP_OK, "stream");
    need(bp_stream_create(device, &other) == BP_OK, "stream");
    for (uint32_t i = 0; i < ROUNDS; i++) {
        struct bp_storage *a = take(stream, 700000), *b = take(i % 2 ? other : NULL, 900000);
        use(other, a);
        if (i % 4 == 0) capture(stream, other, i % 8);
        bp_memory_destroy(a);
        bp_memory_destroy(b);
        if (i % 16 == 0) bp_device_trim(device);
    }
    bp_stream_destroy(stream);
    bp_stream_destroy(other);
    return arg;
}

static void *listen(void *arg)
{
    while (!atomic_load(&over)) {
        struct bp_memory_stats stats = {.size = sizeof stats};
        _Atomic int64_t bytes = 0;
        struct bp_listener listener = {reserved, released, (void *)&bytes, NULL};
        bp_memory_listen(device, &listener);
        need(bp_device_memory(device, &stats) == BP_OK, "figures");
        bp_memory_unlisten(device, &listener);
        need(atomic_load(&bytes) >= 0, "more went than came");
    }
    return arg;
}

int main(int argc, char **argv)
{
    struct bp_listener always = {reserved, released, (void *)&known, NULL};
    pthread_t thread[THREADS + 1];
    uint32_t index;

    need(argc == 2, "give a plugin");
    setenv("BP_MEM_LIMIT", "24M", 1);
    need(bp_core_create(NULL, &core) == BP_OK, "core");
    need(bp_core_load_path(core, argv[1], &index) == BP_OK, "plugin");
    need(bp_device_create_at(core, index, 0, &device) == BP_OK, "device");
    bp_memory_listen(device, &always);
    for (int i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, work, NULL);
    pthread_create(&thread[THREADS], NULL, listen, NULL);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    atomic_store(&over, true);
    pthread_join(thread[THREADS], NULL);
    need(bp_device_synchronize(device) == BP_OK, "synchronize");
    need(bp_device_trim(device) == BP_OK && !device->memory->reserved, "all memory goes back");
    need(heard && !atomic_load(&known), "what was told adds up");
    bp_device_destroy(device);
    bp_core_destroy(core);
    return 0;
}
