/* SPDX-License-Identifier: Apache-2.0 */
/* test_alloc_slow.c: tests, with internal functions, which work an allocation waits for when memory
 * runs out, and which not. */
#include "stream_kit.h"

#include "../devices/fake.h"
#include "memory/memory.h"

#define MIB ((uint64_t)1 << 20)

static struct bp_memory_stats stats_of(struct bp_device *device)
{
    struct bp_memory_stats s = {.size = sizeof s};

    OK(bp_device_memory(device, &s));
    cr_assert_eq(s.reserved, s.allocated + s.rounding + s.pending + s.free);
    return s;
}

static struct bp_buffer *alloc_slow_take(struct bp_device *device, struct bp_stream *stream,
                                         uint64_t size)
{
    struct bp_buffer *buffer = NULL;

    OK(bp_buffer_create(device, stream, BP_SPACE_DEVICE, size, &buffer));
    return buffer;
}

/* Copies between tensors that belong to no stream, which are freed immediately. */
static void leave_copy(struct spot *s, struct bp_stream *stream, int64_t floats)
{
    struct bp_tensor *t = floats_at(s->device, floats), *u = floats_at(s->device, floats);

    OK(bp_tensor_copy(stream, t, u));
    bp_tensor_destroy(t);
    bp_tensor_destroy(u);
}

static void *open_when_waiting(void *spot)
{
    struct spot *s = spot;

    while (!bp_device_blocked(s->device, BP_BLOCK_MEMORY)) usleep(1000);
    usleep(20000);
    s->gate->open();
    return NULL;
}

/* Takes memory that is pending on the spot's stream, which needs a wait. */
static void take_behind_a_wait(struct spot *s)
{
    struct bp_buffer *buffer;
    pthread_t opener;

    pthread_create(&opener, NULL, open_when_waiting, s);
    buffer = alloc_slow_take(s->device, NULL, 2000000);
    pthread_join(opener, NULL);
    cr_assert_eq(stats_of(s->device).after_wait, 1);
    cr_assert_eq(bp_device_blocked(s->device, BP_BLOCK_MEMORY), 1);
    bp_buffer_destroy(buffer);
}

Test(alloc_slow, a_failure_of_another_stream_refuses_no_memory)
{
    struct spot s = spot_at(GATED, "BP_MEM_LIMIT", "3M");
    struct bp_stream *sick = stream_at(s.device, GATED);

    s.gate->fail(BP_ERR_FAULT);
    leave_copy(&s, sick, 16);
    FAILS(BP_ERR_FAULT, "told to fail", bp_stream_synchronize(sick));
    s.gate->hold(1);
    leave_copy(&s, s.stream, 250000);
    take_behind_a_wait(&s);
    FAILS(BP_ERR_FAULT, "told to fail", bp_stream_synchronize(sick));
    bp_stream_destroy(sick);
    spot_finish(&s);
}

/* The failure stays with its stream, and does not become one of the device. */
Test(alloc_slow, a_failure_that_comes_to_light_in_the_wait_is_its_streams)
{
    struct spot s = spot_at(GATED, "BP_MEM_LIMIT", "3M");
    struct bp_stream *sick = stream_at(s.device, GATED);

    s.gate->hold(1);
    leave_copy(&s, s.stream, 250000);
    leave_copy(&s, sick, 16); /* the newest stream is checked first */
    s.gate->fail(BP_ERR_FAULT);
    take_behind_a_wait(&s);
    s.gate->hold(0);
    OK(bp_stream_synchronize(s.stream));
    leave_copy(&s, s.stream, 16);
    OK(bp_stream_synchronize(s.stream));
    FAILS(BP_ERR_FAULT, "told to fail", bp_stream_synchronize(sick));
    bp_stream_destroy(sick);
    spot_finish(&s);
}

Test(alloc_slow, a_device_that_is_lost_in_the_wait_is_lost)
{
    struct spot s = spot_at(GATED, "BP_MEM_LIMIT", "3M");
    struct bp_buffer *buffer = NULL;

    s.gate->hold(1);
    leave_copy(&s, s.stream, 250000);
    s.gate->lose();
    FAILS(BP_ERR_DEVICE_LOST, "pulled the plug",
          bp_buffer_create(s.device, NULL, BP_SPACE_DEVICE, 2000000, &buffer));
    cr_assert_null(buffer);
    spot_finish(&s);
}

/* Frees nothing; but while it runs, the work that uses memory ends, as it may at any time. */
static bool end_work(void *spot)
{
    struct spot *s = spot;

    s->gate->hold(0);
    s->gate->open();
    OK(bp_stream_synchronize(s->stream));
    return false;
}

/* The memory is found, although nothing is left to wait for after the searches that failed. */
Test(alloc_slow, work_may_end_between_the_last_search_and_the_wait)
{
    struct spot s = spot_at(GATED, "BP_MEM_LIMIT", "3M");
    struct bp_shrinker ender = {end_work, &s, NULL};
    struct bp_buffer *buffer;

    s.gate->hold(1);
    leave_copy(&s, s.stream, 250000);
    bp_shrinker_register(s.device, &ender);
    buffer = alloc_slow_take(s.device, NULL, 2000000);
    bp_shrinker_unregister(s.device, &ender);
    cr_assert_eq(stats_of(s.device).failures, 0);
    cr_assert_eq(stats_of(s.device).after_wait, 1);
    cr_assert_eq(bp_device_blocked(s.device, BP_BLOCK_MEMORY), 0);
    bp_buffer_destroy(buffer);
    spot_finish(&s);
}

/* Two streams of a device whose work ends on command, with memory for two segments. */
struct pair {
    struct fake *fake;
    struct bp_core *core;
    struct bp_device *device;
    struct bp_stream *stream, *other;
};

static struct pair pair_at(uint64_t budget)
{
    struct pair p = {.core = core_with(NULL, NULL)};
    const char *path = HOSTILE_DIR "/bp_paced.so";
    uint32_t index;

    p.fake = fake_open(path);
    cr_assert_not_null(p.fake);
    p.fake->budget = budget;
    OK(bp_core_load_path(p.core, path, &index));
    OK(bp_device_create_at(p.core, index, 0, &p.device));
    OK(bp_stream_create(p.device, &p.stream));
    OK(bp_stream_create(p.device, &p.other));
    return p;
}

static void pair_finish(struct pair *p)
{
    cr_assert_eq(p->fake->broken, 0);
    bp_stream_destroy(p->stream);
    bp_stream_destroy(p->other);
    bp_device_destroy(p->device);
    bp_core_destroy(p->core);
}

/* Submits work that ends on command only: a copy between two blocks that belong to no stream. */
static void work_on(struct pair *p, struct bp_stream *stream)
{
    struct bp_buffer *a = alloc_slow_take(p->device, NULL, 64),
                      *b = alloc_slow_take(p->device, NULL, 64);
    struct bp_copy copy = {a->memory.handle, a->memory.data, b->memory.handle, b->memory.data, 64};

    OK(bp_memory_copy(stream, BP_COPY_WITHIN, &copy, a, b));
    bp_buffer_destroy(a);
    bp_buffer_destroy(b);
}

/* Work that another thread has begun to submit to a stream holds its own tensors until the call
 * returns. A block that is freed meanwhile does not wait for this work. */
Test(alloc_slow, work_that_is_being_given_holds_no_memory_back)
{
    struct pair p = pair_at(64 * MIB);
    struct bp_buffer *a = alloc_slow_take(p.device, p.stream, 2 * MIB), *b;
    struct bp_buffer *rest = alloc_slow_take(p.device, NULL,
                                             64); /* keeps the host's segment in use */
    void *first = a->memory.data;
    uint64_t number;

    work_on(&p, p.stream);
    number = bp_work_begin(p.stream->timeline, "another thread's");
    bp_buffer_destroy(a);
    cr_assert_eq(a->block.stamp, number - 1);
    p.fake->run(p.stream->timeline->stream, 100);
    b = alloc_slow_take(p.device, p.other, 2 * MIB);
    cr_assert_eq(b->memory.data, first, "all that was given has ended: it is everybody's");
    bp_work_end(p.stream->timeline, number);
    bp_buffer_destroy(b);
    bp_buffer_destroy(rest);
    OK(bp_device_synchronize(p.device));
    pair_finish(&p);
}

/* Work that was cancelled counts as no user of a block, because it would never end. */
Test(alloc_slow, work_that_was_not_taken_holds_no_memory_back)
{
    struct pair p = pair_at(4 * MIB);
    struct bp_buffer *a = alloc_slow_take(p.device, p.stream, 2 * MIB - 512), *b;
    uint64_t number;

    work_on(&p, p.stream);
    bp_buffer_destroy(a);
    b = alloc_slow_take(p.device, p.other, 2 * MIB - 512);
    cr_assert_eq(stats_of(p.device).stolen, 1);
    number = bp_work_begin(p.other->timeline, "one that the queue refuses");
    bp_buffer_destroy(b);
    bp_work_cancel(p.other->timeline, number);
    OK(bp_device_synchronize(p.device));
    cr_assert_eq(stats_of(p.device).pending, 0);
    pair_finish(&p);
}
