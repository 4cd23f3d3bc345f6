/* SPDX-License-Identifier: Apache-2.0 */
/* test_capture.c: tests the memory of captured work, one rule for each test. */
#include "stream_kit.h"

#include "../devices/fake.h"
#include "memory/pool.h"

#define MIB ((uint64_t)1 << 20)
#define PIECE (2 * MIB - 512) /* fills a memory segment */

struct pair {
    struct fake *fake;
    struct bp_core *core;
    struct bp_device *device;
    struct bp_stream *stream, *other;
    struct bp_timeline *owner;
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
    p.owner = p.stream->timeline;
    return p;
}

static void pair_finish(struct pair *p)
{
    bp_stream_destroy(p->stream);
    bp_stream_destroy(p->other);
    bp_device_destroy(p->device);
    cr_assert_eq(p->fake->broken, 0);
    cr_assert_eq(p->fake->used, 0);
    bp_core_destroy(p->core);
}

static struct bp_memory_stats stats_of(struct pair *p)
{
    struct bp_memory_stats s = {.size = sizeof s}, sum = {0};

    OK(bp_device_memory(p->device, &s));
    cr_assert_eq(s.reserved, s.allocated + s.rounding + s.pending + s.free);
    for (uint32_t i = 0; i < bp_device_pools(p->device); i++) {
        struct bp_pool_stats one = {.size = sizeof one};
        OK(bp_device_pool(p->device, i, &one));
        cr_assert_eq(one.reserved, one.allocated + one.rounding + one.pending + one.free);
        cr_assert(one.captured <= one.allocated && one.allocated <= one.peak);
        sum.reserved += one.reserved;
        sum.captured += one.captured;
    }
    cr_assert(sum.reserved == s.reserved && sum.captured == s.captured);
    return s;
}

static struct bp_buffer *capture_take(struct pair *p, struct bp_stream *stream, uint64_t size)
{
    struct bp_buffer *buffer = NULL;

    OK(bp_buffer_create(p->device, stream, BP_SPACE_DEVICE, size, &buffer));
    return buffer;
}

static struct bp_pool *capture_begin(struct pair *p)
{
    struct bp_pool *capture;

    OK(bp_capture_pool_begin(p->owner, &capture));
    return capture;
}

/* Submits work that uses a buffer; returns the number of the work. */
static uint64_t capture_use(struct bp_stream *stream, struct bp_buffer *s)
{
    struct bp_copy copy = {s->memory.handle, s->memory.data, s->memory.handle, s->memory.data, 1};

    OK(bp_memory_copy(stream, BP_COPY_WITHIN, &copy, s, s));
    return atomic_load(&stream->timeline->last);
}

static void end_work(struct pair *p)
{
    p->fake->run(p->owner->stream, 1000);
    p->fake->run(p->other->timeline->stream, 1000);
}

static bool lies_in(const struct bp_buffer *s, uintptr_t first, uint64_t size)
{
    uintptr_t at = (uintptr_t)s->memory.data;

    return at + s->size > first && at < first + size;
}

Test(capture, allocations_on_its_stream_belong_to_it)
{
    struct pair p = pair_at(64 * MIB);
    struct bp_buffer *before = capture_take(&p, p.stream, 100), *a, *b, *c, *pinned = NULL, *after;
    struct bp_pool *capture = capture_begin(&p), *again;

    a = capture_take(&p, p.stream, 100);
    b = capture_take(&p, p.other, 100);
    c = capture_take(&p, NULL, 100);
    OK(bp_buffer_create(p.device, p.stream, BP_SPACE_PINNED, 100, &pinned));
    cr_assert_eq(a->pool, capture);
    cr_assert(before->pool != capture && b->pool != capture && c->pool != capture &&
              pinned->pool != capture);
    cr_assert_eq(stats_of(&p).captured, capture->counts.reserved);
    cr_assert_eq(stats_of(&p).allocated, capture->counts.reserved + 400);
    FAILS(BP_ERR_INVALID, "captured already", bp_capture_pool_begin(p.owner, &again));
    bp_capture_pool_end(capture);
    after = capture_take(&p, p.stream, 100);
    cr_assert_eq(after->pool, before->pool);
    cr_assert_eq(stats_of(&p).captured, capture->counts.reserved);
    bp_buffer_destroy(a);
    bp_capture_pool_destroy(capture, NULL, 0);
    cr_assert_eq(stats_of(&p).captured, 0);
    cr_assert_eq(stats_of(&p).allocated, 500);
    cr_assert_eq(capture_begin(&p), capture, "the struct serves again");
    cr_assert_eq(stats_of(&p).captured, 0);
    bp_capture_pool_end(capture);
    bp_capture_pool_destroy(capture, NULL, 0);
    bp_buffer_destroy(before);
    bp_buffer_destroy(b);
    bp_buffer_destroy(c);
    bp_buffer_destroy(pinned);
    bp_buffer_destroy(after);
    pair_finish(&p);
}

Test(capture, freed_memory_is_reused_in_order)
{
    struct pair p = pair_at(64 * MIB);
    struct bp_pool *capture = capture_begin(&p);
    struct bp_buffer *a = capture_take(&p, p.stream, 5000), *b;
    void *first = a->memory.data;

    capture_use(p.stream, a);
    bp_buffer_destroy(a);
    b = capture_take(&p, p.stream, 5000);
    cr_assert_eq(b->memory.data, first, "its work comes before what is recorded now");
    bp_buffer_destroy(b);
    bp_capture_pool_end(capture);
    bp_capture_pool_destroy(capture, p.owner, atomic_load(&p.owner->last));
    OK(bp_device_synchronize(p.device));
    pair_finish(&p);
}

/* Work that has ended does not free memory of a capture: it may run again. The memory may be reused
 * within the capture only behind a recorded wait. */
Test(capture, memory_of_other_streams_is_reused_after_a_wait)
{
    struct pair p = pair_at(64 * MIB);
    struct bp_pool *capture = capture_begin(&p);
    struct bp_buffer *a = capture_take(&p, p.stream, 5000), *b, *c;
    struct bp_event *event = event_at(p.device);
    void *first = a->memory.data;

    capture_use(p.other, a);
    bp_buffer_destroy(a);
    OK(bp_event_record(event, p.other));
    end_work(&p);
    OK(bp_event_query(event));
    bp_pool_collect(capture);
    b = capture_take(&p, p.stream, 5000);
    cr_assert_neq(b->memory.data, first);
    bp_timeline_record_order(p.owner, p.other->timeline, atomic_load(&p.other->timeline->last));
    bp_pool_collect(capture);
    c = capture_take(&p, p.stream, 5000);
    cr_assert_eq(c->memory.data, first);
    bp_buffer_destroy(b);
    bp_buffer_destroy(c);
    bp_event_destroy(event);
    bp_capture_pool_end(capture);
    bp_capture_pool_destroy(capture, NULL, 0);
    pair_finish(&p);
}

static bool capture_give_up(void *ctx)
{
    ++*(int *)ctx;
    return false;
}

Test(capture, out_of_memory_neither_polls_nor_waits)
{
    struct pair p = pair_at(4 * MIB);
    int pressed = 0;
    struct bp_shrinker pressure = {capture_give_up, &pressed, NULL};
    struct bp_buffer *a = capture_take(&p, p.other, PIECE), *b = NULL, *c;
    struct bp_pool *capture;

    bp_shrinker_register(p.device, &pressure);
    capture_use(p.other, a);
    bp_buffer_destroy(a);
    capture = capture_begin(&p);
    c = capture_take(&p, p.stream, PIECE);
    FAILS(BP_ERR_MEMORY, "a capture is open: nothing is waited for",
          bp_buffer_create(p.device, p.stream, BP_SPACE_DEVICE, PIECE, &b));
    cr_assert(strstr(bp_error_message(), "a capture of stream 1 has 2096896"), "%s",
              bp_error_message());
    cr_assert_eq(pressed, 0);
    cr_assert_eq(bp_device_blocked(p.device, BP_BLOCK_MEMORY), 0);
    cr_assert_null(p.other->timeline->fences, "nobody was asked");
    cr_assert_eq(stats_of(&p).stolen, 0);
    bp_capture_pool_end(capture);
    b = capture_take(&p, p.stream, PIECE);
    cr_assert_eq(stats_of(&p).stolen, 1);
    bp_buffer_destroy(b);
    bp_buffer_destroy(c);
    bp_capture_pool_destroy(capture, NULL, 0);
    bp_shrinker_unregister(p.device, &pressure);
    OK(bp_device_synchronize(p.device));
    pair_finish(&p);
}

/* An allocation on another stream that runs out of memory does not poll the captured stream, wait
 * for it, or make another stream wait for it. */
Test(capture, others_exhaustion_leaves_its_stream_alone)
{
    struct pair p = pair_at(4 * MIB);
    struct bp_buffer *own = capture_take(&p, p.stream, PIECE - 256),
                      *hosts = capture_take(&p, NULL, 100);
    struct bp_buffer *busy = capture_take(&p, NULL, 100), *a, *b = NULL;
    struct bp_pool *capture;

    capture_use(p.stream, own);
    bp_buffer_destroy(own);
    capture = capture_begin(&p);
    capture_use(p.stream, hosts);
    bp_buffer_destroy(hosts);
    a = capture_take(&p, p.stream, PIECE - 256);
    for (int i = 0; i < 2; i++)
        FAILS(BP_ERR_MEMORY, "out of memory",
              bp_buffer_create(p.device, i ? p.other : NULL, BP_SPACE_DEVICE, PIECE - 256, &b));
    cr_assert_null(p.owner->fences, "it was not asked");
    cr_assert(!bp_timeline_passed(p.owner, 1), "and not waited for");
    cr_assert_eq(bp_device_blocked(p.device, BP_BLOCK_MEMORY), 0);
    capture_use(p.other, busy);
    FAILS(BP_ERR_MEMORY, "out of memory",
          bp_buffer_create(p.device, NULL, BP_SPACE_DEVICE, PIECE - 256, &b));
    cr_assert_eq(bp_device_blocked(p.device, BP_BLOCK_MEMORY), 1, "for the other one");
    cr_assert(!bp_timeline_passed(p.owner, 1));
    bp_capture_pool_end(capture);
    b = capture_take(&p, NULL, PIECE - 256);
    cr_assert_eq(stats_of(&p).after_wait, 1);
    bp_buffer_destroy(a);
    bp_buffer_destroy(b);
    bp_buffer_destroy(busy);
    bp_capture_pool_destroy(capture, NULL, 0);
    pair_finish(&p);
}

Test(capture, others_get_none_of_its_memory)
{
    struct pair p = pair_at(4 * MIB);
    struct bp_buffer *full = capture_take(&p, p.other, PIECE), *b = NULL;
    struct bp_pool *capture = capture_begin(&p);

    bp_buffer_destroy(capture_take(&p, p.stream, PIECE));
    bp_timeline_record_order(p.other->timeline, p.owner, atomic_load(&p.owner->last));
    for (int i = 0; i < 4; i++) {
        if (i == 2) bp_capture_pool_end(capture);
        FAILS(BP_ERR_MEMORY, "out of memory",
              bp_buffer_create(p.device, i % 2 ? p.other : NULL, BP_SPACE_DEVICE, PIECE, &b));
    }
    bp_capture_pool_destroy(capture, NULL, 0);
    b = capture_take(&p, NULL, PIECE);
    bp_buffer_destroy(b);
    bp_buffer_destroy(full);
    pair_finish(&p);
}

Test(capture, memory_freed_after_the_capture_is_not_reused)
{
    struct pair p = pair_at(64 * MIB);
    struct bp_pool *capture = capture_begin(&p);
    struct bp_buffer *a = capture_take(&p, p.stream, 5000), *b = capture_take(&p, p.stream, 5000),
                      *c;
    uintptr_t first = (uintptr_t)capture->spans->memory.data;
    uint64_t size = capture->spans->size;

    bp_buffer_destroy(a);
    bp_capture_pool_end(capture);
    bp_buffer_destroy(b);
    OK(bp_device_synchronize(p.device));
    OK(bp_device_trim(p.device));
    cr_assert_eq(capture->counts.free, 0);
    cr_assert_eq(stats_of(&p).captured, size);
    for (int i = 0; i < 3; i++) {
        c = capture_take(&p, i == 0 ? p.stream : i == 1 ? p.other : NULL, 5000);
        cr_assert_not(lies_in(c, first, size));
        bp_buffer_destroy(c);
    }
    bp_capture_pool_destroy(capture, NULL, 0);
    cr_assert_eq(stats_of(&p).captured, 0);
    cr_assert_eq(stats_of(&p).allocated + stats_of(&p).pending, 0);
    OK(bp_device_trim(p.device));
    cr_assert_eq(p.fake->used, 0);
    pair_finish(&p);
}

Test(capture, it_goes_back_behind_its_last_run)
{
    struct pair p = pair_at(64 * MIB);
    struct bp_pool *capture = capture_begin(&p);
    struct bp_buffer *a = capture_take(&p, p.stream, MIB), *b;
    struct bp_buffer run = {.memory = a->memory, .owner = p.other->timeline};
    uintptr_t first = (uintptr_t)capture->spans->memory.data;
    uint64_t size = capture->spans->size, number;

    bp_buffer_destroy(a);
    bp_capture_pool_end(capture);
    number = capture_use(p.other, &run); /* the same addresses, without a buffer */
    bp_capture_pool_destroy(capture, p.other->timeline, number);
    b = capture_take(&p, NULL, 2 * MIB);
    cr_assert_not(lies_in(b, first, size));
    bp_buffer_destroy(b);
    OK(bp_device_trim(p.device));
    cr_assert_geq(p.fake->used, size, "the run has not ended");
    end_work(&p);
    OK(bp_device_trim(p.device));
    cr_assert_eq(p.fake->used, 0);
    pair_finish(&p);
}

Test(capture, a_live_buffer_keeps_its_memory)
{
    struct pair p = pair_at(64 * MIB);
    struct bp_pool *capture = capture_begin(&p);
    struct bp_buffer *a = capture_take(&p, p.stream, MIB), *b = capture_take(&p, p.stream, 100);

    bp_buffer_destroy(a);
    bp_capture_pool_end(capture);
    bp_capture_pool_destroy(capture, NULL, 0);
    OK(bp_device_trim(p.device));
    cr_assert_geq(p.fake->used, 2 * MIB);
    cr_assert_eq(stats_of(&p).allocated, 100);
    capture_use(p.other, b);
    bp_buffer_destroy(b);
    OK(bp_device_trim(p.device));
    cr_assert_geq(p.fake->used, 2 * MIB, "it is in use elsewhere");
    end_work(&p);
    OK(bp_device_trim(p.device));
    cr_assert_eq(p.fake->used, 0);
    pair_finish(&p);
}

/* An open capture hides the stream's earlier memory only from the stream itself: the device still
 * counts the stream's buffers, and these buffers still keep the device. */
Test(capture, buffers_of_the_stream_keep_the_device)
{
    struct pair p = pair_at(64 * MIB);
    struct bp_buffer *own = capture_take(&p, p.stream, 100), *a;
    struct bp_pool *capture = capture_begin(&p);
    void *first = own->memory.data;

    cr_assert_geq(stats_of(&p).live, 1);
    bp_buffer_destroy(own);
    a = capture_take(&p, p.stream, 100);
    cr_assert_neq(a->memory.data, first);
    bp_capture_pool_end(capture);
    own = capture_take(&p, p.stream, 100);
    cr_assert_eq(own->memory.data, first);
    bp_capture_pool_destroy(capture, NULL, 0);
    bp_stream_destroy(p.stream);
    bp_stream_destroy(p.other);
    bp_device_destroy(p.device);
    bp_buffer_destroy(own);
    cr_assert_gt(p.fake->used, 0, "the captured one keeps it too");
    bp_buffer_destroy(a);
    cr_assert_eq(p.fake->used, 0);
    bp_core_destroy(p.core);
}

/* A later run may access all memory of the capture, so none of it is poisoned for the sanitizer. */
Test(capture, an_inline_stream_is_captured_too)
{
    struct fixture f = {.core = core_with(NULL, NULL)};
    struct bp_buffer *a, *b = NULL;
    struct bp_pool *capture;
    volatile char *data;
    uint32_t index;

    OK(bp_core_load_path(f.core, HOSTILE_DIR "/bp_h_good.so", &index));
    OK(bp_device_create_at(f.core, index, 0, &f.device));
    OK(bp_stream_create(f.device, &f.stream));
    OK(bp_capture_pool_begin(f.stream->timeline, &capture));
    OK(bp_buffer_create(f.device, f.stream, BP_SPACE_DEVICE, 1000, &a));
    data = a->memory.data;
    bp_buffer_destroy(a);
    OK(bp_buffer_create(f.device, f.stream, BP_SPACE_DEVICE, 1000, &b));
    cr_assert_eq(b->memory.data, (void *)data);
    bp_buffer_destroy(b);
    bp_capture_pool_end(capture);
    data[999] = 1;
    OK(bp_buffer_create(f.device, f.stream, BP_SPACE_DEVICE, 1000, &a));
    cr_assert_neq(a->memory.data, (void *)data);
    bp_buffer_destroy(a);
    bp_capture_pool_destroy(capture, NULL, 0);
    fixture_finish(&f);
}
