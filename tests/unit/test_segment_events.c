/* SPDX-License-Identifier: Apache-2.0 */
/* test_segment_events.c: tests the listeners of memory segments: they are called once for each
 * segment, before it is used and before it is freed. */
#include "fixture.h"

#include "../devices/fake.h"
#include "memory/memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)

enum { KNOWN = 4096 };

/* A listener, and the segments that it knows. */
struct ear {
    struct bp_segment_listener listener; /* first */
    pthread_mutex_t lock;
    struct known {
        uintptr_t at;
        uint64_t bytes;
        uint32_t space;
    } known[KNOWN];
    uint32_t n, announced, gone;
    bool deaf;                /* must not be called any more */
    struct bp_device *device; /* the callback allocates memory of it; or NULL */
    struct bp_buffer *taken[2];
    const struct fake *fake;
    uint64_t used; /* by the plugin, at the last call */
};

static uintptr_t listen_place_of(const struct bp_memory *memory)
{
    return (uintptr_t)memory->data;
}

static void take_some(struct ear *ear)
{
    struct bp_device *device = ear->device;

    ear->device = NULL; /* the allocations below call this listener again: once */
    if (!device) return;
    for (int i = 0; i < 2; i++)
        OK(bp_buffer_create(device, NULL, BP_SPACE_DEVICE, 3 * MIB, &ear->taken[i]));
}

static void listen_reserved(void *ctx, const struct bp_memory *memory, uint64_t bytes,
                            uint32_t space)
{
    struct ear *ear = ctx;
    uintptr_t at = listen_place_of(memory);

    pthread_mutex_lock(&ear->lock);
    cr_assert_not(ear->deaf);
    cr_assert_lt(ear->n, KNOWN);
    for (uint32_t i = 0; i < ear->n; i++)
        cr_assert(at + bytes <= ear->known[i].at ||
                      ear->known[i].at + ear->known[i].bytes <= at, "told twice");
    ear->known[ear->n++] = (struct known){at, bytes, space};
    ear->announced++;
    pthread_mutex_unlock(&ear->lock);
    take_some(ear);
}

static void listen_released(void *ctx, const struct bp_memory *memory, uint64_t bytes,
                            uint32_t space)
{
    struct ear *ear = ctx;
    uint32_t i = 0;

    pthread_mutex_lock(&ear->lock);
    cr_assert_not(ear->deaf);
    while (i < ear->n && ear->known[i].at != listen_place_of(memory)) i++;
    cr_assert_lt(i, ear->n, "it goes, and nobody knew that it was there");
    cr_assert(ear->known[i].bytes == bytes && ear->known[i].space == space);
    ear->known[i] = ear->known[--ear->n];
    ear->gone++;
    if (ear->fake) ear->used = ear->fake->used;
    pthread_mutex_unlock(&ear->lock);
}

static void listen_start(struct ear *ear, struct bp_device *device)
{
    ear->listener = (struct bp_segment_listener){listen_reserved, listen_released, ear, NULL};
    pthread_mutex_init(&ear->lock, NULL);
    bp_segment_listener_add(device, &ear->listener);
}

static void listen_unlisten(struct ear *ear, struct bp_device *device)
{
    bp_segment_listener_remove(device, &ear->listener);
    ear->deaf = true;
}

static struct fixture open_fake(struct fake **out_fake)
{
    struct fixture f = {0};
    uint32_t index;

    *out_fake = fake_open(HOSTILE_DIR "/bp_paced.so");
    cr_assert_not_null(*out_fake);
    (*out_fake)->budget = 64 * MIB;
    OK(bp_core_create(NULL, &f.core));
    OK(bp_core_load_path(f.core, HOSTILE_DIR "/bp_paced.so", &index));
    OK(bp_device_create_at(f.core, index, 0, &f.device));
    OK(bp_stream_create(f.device, &f.stream));
    return f;
}

static struct bp_buffer *listen_take(struct fixture *f, uint32_t space, uint64_t size)
{
    struct bp_buffer *buffer = NULL;

    OK(bp_buffer_create(f->device, f->stream, space, size, &buffer));
    return buffer;
}

Test(listen_start, each_segment_is_announced_once)
{
    static struct ear early, late;
    struct fake *fake;
    struct fixture f = open_fake(&fake);
    struct bp_buffer *a, *b, *c;

    listen_start(&early, f.device);
    cr_assert_eq(early.announced, 0);
    a = listen_take(&f, BP_SPACE_DEVICE, 100);
    cr_assert_eq(early.announced, 1);
    cr_assert_eq(early.known[0].at, (uintptr_t)a->memory.data / 4096 * 4096 + 64);
    cr_assert_eq(early.known[0].bytes, 2 * MIB);
    b = listen_take(&f, BP_SPACE_PINNED, 3 * MIB);
    cr_assert_eq(early.known[1].space, BP_SPACE_PINNED);
    listen_start(&late, f.device);
    cr_assert_eq(late.announced, 2);
    c = listen_take(&f, BP_SPACE_DEVICE, 5 * MIB);
    cr_assert(early.announced == 3 && late.announced == 3);
    early.fake = fake;
    bp_buffer_destroy(c);
    OK(bp_device_trim(f.device));
    cr_assert(early.gone == 1 && late.gone == 1);
    cr_assert_eq(early.used - fake->used, 6 * MIB, "told before it went");
    listen_unlisten(&late, f.device);
    bp_buffer_destroy(b);
    OK(bp_device_trim(f.device));
    cr_assert_eq(early.gone, 2);
    listen_unlisten(&early, f.device);
    bp_buffer_destroy(a);
    OK(bp_device_trim(f.device));
    cr_assert_eq(fake->used, 0);
    fixture_finish(&f);
}

/* A listener that stays until the device is destroyed is called for the last segments too. */
Test(listen_start, the_end_of_a_device_is_announced)
{
    static struct ear ear;
    struct fake *fake;
    struct fixture f = open_fake(&fake);

    listen_start(&ear, f.device);
    bp_buffer_destroy(listen_take(&f, BP_SPACE_DEVICE, 100));
    bp_buffer_destroy(listen_take(&f, BP_SPACE_PINNED, 100));
    fixture_finish(&f);
    cr_assert(ear.announced == 2 && ear.gone == 2 && ear.n == 0);
}

/* A segment that the plugin refuses to allocate is not reported. */
Test(listen_start, refused_segments_are_not_announced)
{
    static struct ear ear;
    struct bp_buffer *none;
    struct fake *fake;
    struct fixture f = open_fake(&fake);

    listen_start(&ear, f.device);
    FAILS(BP_ERR_MEMORY, "out of memory",
          bp_buffer_create(f.device, NULL, BP_SPACE_DEVICE, 65 * MIB, &none));
    cr_assert_eq(ear.announced, 0);
    listen_unlisten(&ear, f.device);
    fixture_finish(&f);
}

Test(listen_start, a_listener_may_take_memory)
{
    static struct ear early, late;
    struct fake *fake;
    struct fixture f = open_fake(&fake);
    struct bp_buffer *a;

    early.device = f.device;
    listen_start(&early, f.device);
    a = listen_take(&f, BP_SPACE_DEVICE, 100);
    cr_assert_eq(early.announced, fake->segments);
    cr_assert_geq(early.announced, 3);
    late.device = f.device;
    listen_start(&late, f.device);
    cr_assert_eq(late.announced, fake->segments, "what it took itself is told of once, too");
    cr_assert_eq(early.announced, fake->segments);
    for (int i = 0; i < 2; i++) {
        bp_buffer_destroy(early.taken[i]);
        bp_buffer_destroy(late.taken[i]);
    }
    bp_buffer_destroy(a);
    OK(bp_device_trim(f.device));
    cr_assert(early.n == 0 && late.n == 0);
    listen_unlisten(&late, f.device);
    listen_unlisten(&early, f.device);
    fixture_finish(&f);
}

static _Atomic bool over;

static void *listen_churn(void *fixture)
{
    struct fixture *f = fixture;
    struct bp_buffer *s[8];

    for (int i = 0; !atomic_load(&over); i++) {
        for (int k = 0; k < 8; k++)
            if (bp_buffer_create(f->device, NULL, (uint32_t)k % 2, (uint64_t)(k + 1) * 700000,
                                 &s[k]))
                s[k] = NULL;
        for (int k = 0; k < 8; k++) bp_buffer_destroy(s[k]);
        bp_device_trim(f->device);
    }
    return NULL;
}

/* Listeners are added and removed while segments are allocated and freed: no listener gets a wrong
 * call, or a call after its removal. */
Test(listen_start, on_many_threads)
{
    enum { THREADS = 3, ROUNDS = 300 };
    static struct ear always, ear[ROUNDS];
    struct fake *fake;
    struct fixture f = open_fake(&fake);
    pthread_t thread[THREADS];

    fake->budget = UINT64_C(1) << 36;
    listen_start(&always, f.device);
    for (int i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, listen_churn, &f);
    for (int i = 0; i < ROUNDS; i++) {
        listen_start(&ear[i], f.device);
        if (i % 2) usleep(100);
        listen_unlisten(&ear[i], f.device);
    }
    atomic_store(&over, true);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    OK(bp_device_trim(f.device));
    cr_assert_eq(always.n, 0);
    cr_assert_eq(always.announced, fake->segments);
    listen_unlisten(&always, f.device);
    fixture_finish(&f);
}
