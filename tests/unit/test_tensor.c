/* SPDX-License-Identifier: Apache-2.0 */
/* test_tensor.c: tests tensors, views, copies and statistics. */
#include "fixture.h"

#include <pthread.h>
#include <stdlib.h>

Test(tensor, info_describes_the_tensor)
{
    struct fixture f = fixture_init();
    struct bp_tensor *t = tensor_of(&f, BP_F32, 3, SHAPE(2, 3, 4), NULL);
    struct bp_tensor_info info = {.size = sizeof info};

    OK(bp_tensor_get_info(t, &info));
    cr_assert_eq(info.count, 24);
    cr_assert_eq(info.bytes, 96);
    cr_assert_eq(info.rank, 3);
    cr_assert_eq(info.dtype, BP_F32);
    cr_assert_eq(info.contiguous, 1);
    cr_assert_eq(info.device, f.device);
    cr_assert_eq(info.stride[0], 12);
    cr_assert_eq(info.stride[1], 4);
    cr_assert_eq(info.stride[2], 1);
    cr_assert_eq((uintptr_t)info.data % 64, 0);
    bp_tensor_destroy(t);
    fixture_finish(&f);
}

/* A caller with an older, shorter struct gets only the fields of its struct. */
Test(tensor, info_fills_a_short_struct)
{
    struct fixture f = fixture_init();
    struct bp_tensor *t = tensor_of(&f, BP_F32, 1, SHAPE(5), NULL);
    struct bp_tensor_info info;

    memset(&info, 0x5a, sizeof info);
    info.size = offsetof(struct bp_tensor_info, bytes);
    OK(bp_tensor_get_info(t, &info));
    cr_assert_eq(info.count, 5);
    cr_assert_eq(info.size, offsetof(struct bp_tensor_info, bytes));
    cr_assert_eq(info.bytes, 0x5a5a5a5a5a5a5a5a);
    bp_tensor_destroy(t);
    fixture_finish(&f);
}

/* A caller with a newer, longer struct can read how much of it was filled. */
Test(tensor, info_returns_the_filled_size)
{
    struct fixture f = fixture_init();
    struct bp_tensor *t = tensor_of(&f, BP_F32, 1, SHAPE(5), NULL);
    struct {
        struct bp_tensor_info info;
        uint64_t newer;
    } longer = {.info = {.size = sizeof longer}, .newer = 7};

    OK(bp_tensor_get_info(t, &longer.info));
    cr_assert_eq(longer.info.size, sizeof longer.info);
    cr_assert_eq(longer.newer, 7);
    bp_tensor_destroy(t);
    fixture_finish(&f);
}

struct writer {
    struct fixture *f;
    struct bp_tensor *view;
    int32_t wrong;
};

static void *write_often(void *arg)
{
    struct writer *w = arg;
    int32_t data[32], got[32];
    struct bp_stream *stream;

    OK(bp_stream_create(w->f->device, &stream));
    for (int32_t i = 0; i < 5000; i++) {
        for (int k = 0; k < 32; k++) data[k] = i;
        OK(bp_tensor_write(stream, w->view, data, sizeof data));
        OK(bp_tensor_read(stream, w->view, got, sizeof got));
        w->wrong += memcmp(data, got, sizeof data) != 0;
    }
    bp_stream_destroy(stream);
    return NULL;
}

/* If the host can access the memory, a write to a view leaves the bytes between its elements
 * unchanged. */
Test(tensor, interleaved_views_are_written_apart)
{
    struct fixture f = fixture_init();
    struct bp_tensor *t = tensor_of(&f, BP_I32, 1, SHAPE(64), NULL);
    struct writer even = {.f = &f}, odd = {.f = &f};
    pthread_t thread;

    OK(bp_tensor_view(t, 0, 1, SHAPE(32), SHAPE(2), &even.view));
    OK(bp_tensor_view(t, 1, 1, SHAPE(32), SHAPE(2), &odd.view));
    cr_assert_eq(pthread_create(&thread, NULL, write_often, &even), 0);
    write_often(&odd);
    pthread_join(thread, NULL);
    cr_assert(even.wrong == 0 && odd.wrong == 0, "%d and %d writes were lost", even.wrong,
              odd.wrong);
    bp_tensor_destroy(even.view);
    bp_tensor_destroy(odd.view);
    bp_tensor_destroy(t);
    fixture_finish(&f);
}

Test(tensor, scalar_and_empty)
{
    struct fixture f = fixture_init();
    struct bp_tensor *scalar = tensor_of(&f, BP_F64, 0, NULL, F64(2.5));
    struct bp_tensor *empty = tensor_of(&f, BP_F32, 2, SHAPE(3, 0), NULL);
    struct bp_tensor_info info = {.size = sizeof info};

    expect_bytes(&f, scalar, F64(2.5), 8);
    OK(bp_tensor_get_info(empty, &info));
    cr_assert_eq(info.count, 0);
    cr_assert_null(info.data);
    OK(bp_tensor_write(f.stream, empty, NULL, 0));
    OK(bp_tensor_read(f.stream, empty, NULL, 0));
    bp_tensor_destroy(scalar);
    bp_tensor_destroy(empty);
    fixture_finish(&f);
}

Test(tensor, view_reads_and_writes_its_elements_only)
{
    struct fixture f = fixture_init();
    struct bp_tensor *t = tensor_of(&f, BP_F32, 2, SHAPE(2, 3), F32(1, 2, 3, 4, 5, 6)), *transposed,
                     *column;

    OK(bp_tensor_view(t, 0, 2, SHAPE(3, 2), SHAPE(1, 3), &transposed));
    expect_bytes(&f, transposed, F32(1, 4, 2, 5, 3, 6), 24);
    OK(bp_tensor_view(t, 1, 1, SHAPE(2), SHAPE(3), &column));
    OK(bp_tensor_write(f.stream, column, F32(-2, -5), 8));
    expect_bytes(&f, t, F32(1, -2, 3, 4, -5, 6), 24);
    bp_tensor_destroy(t); /* views keep the memory alive */
    expect_bytes(&f, transposed, F32(1, 4, -2, -5, 3, 6), 24);
    bp_tensor_destroy(transposed);
    bp_tensor_destroy(column);
    fixture_finish(&f);
}

Test(tensor, view_of_a_view_counts_from_its_first_element)
{
    struct fixture f = fixture_init();
    struct bp_tensor *t = tensor_of(&f, BP_F32, 1, SHAPE(6), F32(0, 1, 2, 3, 4, 5)), *a, *b;

    OK(bp_tensor_view(t, 2, 1, SHAPE(4), SHAPE(1), &a));
    OK(bp_tensor_view(a, 1, 1, SHAPE(2), SHAPE(2), &b));
    expect_bytes(&f, b, F32(3, 5), 8);
    FAILS(BP_ERR_INVALID, "ends after 4 elements", bp_tensor_view(a, 4, 1, SHAPE(1), SHAPE(1), &b));
    bp_tensor_destroy(a);
    bp_tensor_destroy(b);
    bp_tensor_destroy(t);
    fixture_finish(&f);
}

Test(tensor, copy_within_a_device)
{
    struct fixture f = fixture_init();
    struct bp_tensor *a = tensor_of(&f, BP_I32, 1, SHAPE(3), (const int32_t[]){7, 8, 9});
    struct bp_tensor *b = tensor_of(&f, BP_I32, 1, SHAPE(3), NULL),
                     *c = tensor_of(&f, BP_I32, 1, SHAPE(4), NULL);

    OK(bp_tensor_copy(f.stream, b, a));
    OK(bp_tensor_copy(f.stream, b, b));
    expect_bytes(&f, b, (const int32_t[]){7, 8, 9}, 12);
    FAILS(BP_ERR_INVALID, "i32 [4]", bp_tensor_copy(f.stream, c, a));
    bp_tensor_destroy(a);
    bp_tensor_destroy(b);
    bp_tensor_destroy(c);
    fixture_finish(&f);
}

Test(tensor, statistics_rise_and_fall_back)
{
    struct fixture f = fixture_init();
    struct bp_memory_stats before = {.size = sizeof before}, with = before, after = before;
    struct bp_tensor *t, *view;

    OK(bp_device_memory(f.device, &before));
    t = tensor_of(&f, BP_F32, 1, SHAPE(1000), NULL);
    OK(bp_tensor_view(t, 0, 1, SHAPE(10), SHAPE(1), &view));
    OK(bp_device_memory(f.device, &with));
    cr_assert_eq(with.allocated - before.allocated, 4000);
    cr_assert_eq(with.rounding - before.rounding, 32, "4000 bytes in steps of 64");
    cr_assert_geq(with.peak, with.allocated);
    cr_assert_eq(with.allocations, before.allocations + 1);
    bp_tensor_destroy(t);
    OK(bp_device_memory(f.device, &after));
    cr_assert_eq(after.allocated, with.allocated, "a view keeps the memory");
    bp_tensor_destroy(view);
    OK(bp_device_memory(f.device, &after));
    cr_assert_eq(after.allocated, before.allocated);
    cr_assert_eq(after.peak, with.peak);
    fixture_finish(&f);
}

Test(tensor, handles_keep_their_parents)
{
    struct fixture f = fixture_init();
    struct bp_tensor *t = tensor_of(&f, BP_F32, 1, SHAPE(2), F32(1, 2));
    struct bp_event *event;

    OK(bp_event_create(f.device, &event));
    OK(bp_event_record(event, f.stream));
    bp_core_destroy(f.core);
    bp_device_destroy(f.device);
    bp_stream_destroy(f.stream);
    OK(bp_event_query(event));
    bp_tensor_destroy(t);
    bp_event_destroy(event);
}

struct counting {
    _Atomic long live, calls;
};

static void *counting_allocate(void *ctx, size_t size, size_t alignment)
{
    struct counting *c = ctx;
    void *memory;

    if (posix_memalign(&memory, alignment < sizeof(void *) ? sizeof(void *) : alignment,
                       size ? size : 1))
        return NULL;
    c->live++;
    c->calls++;
    return memory;
}

static void counting_release(void *ctx, void *memory, size_t size)
{
    struct counting *c = ctx;

    (void)size;
    if (memory) c->live--;
    free(memory);
}

Test(core, allocator_of_the_app_is_used)
{
    struct counting counting = {0, 0};
    struct bp_allocator allocator = {&counting, counting_allocate, counting_release};
    struct bp_core_options options = {.size = sizeof options, .allocator = &allocator};
    struct bp_device *device;
    struct bp_core *core;
    struct bp_tensor *t;
    long calls;

    OK(bp_core_create(&options, &core));
    OK(bp_device_create(core, "cpu", &device));
    calls = counting.calls;
    OK(bp_tensor_create(device, BP_F32, 1, SHAPE(100), &t));
    cr_assert_gt(counting.calls, calls);
    bp_tensor_destroy(t);
    bp_device_destroy(device);
    bp_core_destroy(core);
    cr_assert_eq(counting.live, 0, "%ld blocks were not given back", counting.live);
}

static void log_to_list(void *ctx, uint32_t level, const char *text)
{
    (void)level;
    strncat(ctx, text, 1000);
}

Test(core, log_goes_to_the_callback)
{
    char text[4096] = "";
    struct bp_core_options options = {.size = sizeof options, .log = log_to_list, .log_ctx = text,
                                      .plugin_path = "relative/path"};
    struct bp_core *core;

    OK(bp_core_create(&options, &core));
    cr_assert(strstr(text, "relative/path"),
              "a relative directory is refused with a warning, got '%s'", text);
    bp_core_destroy(core);
}

Test(core, settings_that_cannot_be_are_warned_of)
{
    char text[4096] = "";
    struct bp_core_options options = {.size = sizeof options, .log = log_to_list, .log_ctx = text};
    struct bp_core *core;

    setenv("BP_LOG", "loud", 1);
    setenv("BP_THREADS", "-4", 1);
    OK(bp_core_create(&options, &core));
    cr_assert(strstr(text, "BP_LOG=loud") && strstr(text, "BP_THREADS=-4"), "'%s'", text);
    bp_core_destroy(core);
}

Test(event, stands_for_a_point_of_its_stream)
{
    struct fixture f = fixture_init();
    struct bp_event *event;
    struct bp_stream *other;

    OK(bp_event_create(f.device, &event));
    OK(bp_stream_create(f.device, &other));
    FAILS(BP_ERR_INVALID, "never recorded", bp_event_query(event));
    FAILS(BP_ERR_INVALID, "never recorded", bp_event_wait(event, 0));
    FAILS(BP_ERR_INVALID, "never recorded", bp_stream_wait(f.stream, event));
    OK(bp_event_record(event, f.stream));
    OK(bp_event_query(event));
    OK(bp_event_wait(event, UINT64_MAX));
    OK(bp_stream_wait(other, event));
    OK(bp_stream_wait(f.stream, event));
    bp_stream_destroy(other);
    bp_event_destroy(event);
    fixture_finish(&f);
}

Test(stream, counts_its_work)
{
    struct fixture f = fixture_init();
    struct bp_tensor *a = tensor_of(&f, BP_F32, 1, SHAPE(2), F32(1, 2)), *b = NULL;
    uint64_t before = bp_stream_last(f.stream);

    OK(bp_op_add(f.scope, a, a, &b));
    cr_assert_eq(bp_stream_last(f.stream), before + 1);
    OK(bp_stream_synchronize(f.stream));
    OK(bp_device_synchronize(f.device));
    bp_tensor_destroy(a);
    bp_tensor_destroy(b);
    fixture_finish(&f);
}

Test(device, opened_twice_is_one)
{
    struct fixture f = fixture_init();
    struct bp_device *again;

    OK(bp_device_create(f.core, "cpu", &again));
    cr_assert_eq(again, f.device);
    cr_assert_str_eq(bp_device_name(again), "cpu:0");
    bp_device_destroy(again);
    fixture_finish(&f);
}

/* Two cores have a device of the same name: messages name the core too. */
Test(tensor, devices_of_two_cores_differ)
{
    struct fixture a = fixture_init(), b = fixture_init();
    struct bp_tensor *x = tensor_of(&a, BP_F32, 1, SHAPE(2), F32(1, 2)), *z = NULL;
    struct bp_tensor *y = tensor_of(&b, BP_F32, 1, SHAPE(2), F32(3, 4));
    struct bp_event *event;
    float got[2];

    FAILS(BP_ERR_INVALID, "input y is on cpu:0 of another core, but the call goes to cpu:0",
          bp_op_add(a.scope, x, y, &z));
    FAILS(BP_ERR_INVALID, "cpu:0 of another core, the stream of cpu:0",
          bp_tensor_read(a.stream, y, got, sizeof got));
    FAILS(BP_ERR_INVALID, "dst is on cpu:0 of another core", bp_tensor_copy(b.stream, x, y));
    OK(bp_event_create(a.device, &event));
    FAILS(BP_ERR_INVALID, "event is of cpu:0 of another core", bp_event_record(event, b.stream));
    OK(bp_tensor_copy(a.stream, x, y)); /* the message advises this copy */
    expect_bytes(&a, x, F32(3, 4), 8);
    bp_event_destroy(event);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    fixture_finish(&a);
    fixture_finish(&b);
}
