/* SPDX-License-Identifier: Apache-2.0 */
/* test_async.c: what the core promises of a device that works behind the host's back: memory and
 * plans go back after the work that uses them, a failure stays with its stream, what the plugin
 * lacks is supplied. The device is tests/plugins/faulty.c, which aborts the process when a rule is
 * broken. */
#include "fixture.h"

static struct fixture open_faulty(const char *library)
{
    struct bp_core_options options = {.size = sizeof options};
    struct fixture f;
    char path[4096];
    uint32_t index;

    snprintf(path, sizeof path, "%s/%s", HOSTILE_DIR, library);
    OK(bp_core_create(&options, &f.core));
    OK(bp_core_load_path(f.core, path, &index));
    OK(bp_device_create_at(f.core, index, 0, &f.device));
    OK(bp_stream_create(f.device, &f.stream));
    f.scope = bp_stream_scope(f.stream);
    return f;
}

static void on_both(void (*body)(struct fixture *f))
{
    static const char *const libraries[] = {"bp_faulty.so", "bp_faulty_streams.so"};

    for (int i = 0; i < 2; i++) {
        struct fixture f = open_faulty(libraries[i]);
        body(&f);
        fixture_finish(&f);
    }
}

static uint64_t allocated(struct fixture *f)
{
    struct bp_memory_stats stats = {.size = sizeof stats};

    OK(bp_device_memory(f->device, &stats));
    return stats.allocated;
}

static void memory_waits(struct fixture *f)
{
    struct bp_tensor *t = tensor_of(f, BP_F32, 1, SHAPE(4), F32(1, 2, 3, 4));

    bp_tensor_destroy(t);
    cr_assert_eq(allocated(f), 64, "work is pending: the memory is still taken");
    OK(bp_device_synchronize(f->device));
    cr_assert_eq(allocated(f), 0);
}

Test(async, memory_goes_back_when_its_work_is_done)
{
    on_both(memory_waits);
}

static void exhaustion(struct fixture *f)
{
    static char data[700000];
    struct bp_tensor *a = tensor_of(f, BP_U8, 1, SHAPE(sizeof data), data), *b, *c = NULL;

    bp_tensor_destroy(a);
    b = tensor_of(f, BP_U8, 1, SHAPE(sizeof data),
                  data); /* fits only after a wait, which the core makes */
    FAILS(BP_ERR_MEMORY, "asked for 700032 bytes, 700032 bytes in use of 1048576",
          bp_tensor_create(f->device, BP_U8, 1, SHAPE(sizeof data), &c));
    cr_assert(strstr(bp_error_message(), "are too many"), "the plugin's words are kept: %s",
              bp_error_message());
    bp_tensor_destroy(b);
    OK(bp_device_synchronize(f->device));
}

Test(async, exhaustion_waits_once_and_says_what_is_used)
{
    on_both(exhaustion);
}

static void plans(struct fixture *f)
{
    struct bp_tensor *x = tensor_of(f, BP_F32, 1, SHAPE(2), F32(1, 2)), *y;

    OK(bp_op_add(f->scope, x, x,
                 &y)); /* its plan and its workspace are gone when this returns, or pending */
    expect_bytes(f, y, F32(2, 4), 8);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    OK(bp_device_synchronize(f->device));
    cr_assert_eq(allocated(f), 0, "the workspace went back too");
}

Test(async, plans_and_workspaces_live_as_long_as_their_launch)
{
    on_both(plans);
}

Test(async, a_failure_stays_with_its_stream)
{
    struct fixture f = open_faulty("bp_faulty_streams.so");
    struct bp_tensor *t = tensor_of(&f, BP_U8, 1, SHAPE(13), NULL),
                     *x = tensor_of(&f, BP_F32, 1, SHAPE(2), NULL), *y = NULL;
    struct bp_stream *other;
    char data[13] = {0};

    OK(bp_stream_create(f.device, &other));
    OK(bp_tensor_write(f.stream, t, data, sizeof data));
    FAILS(BP_ERR_DEVICE, "unlucky", bp_stream_synchronize(f.stream));
    FAILS(BP_ERR_DEVICE, "has failed before", bp_stream_synchronize(f.stream));
    FAILS(BP_ERR_DEVICE, "unlucky", bp_tensor_write(f.stream, t, data, sizeof data));
    FAILS(BP_ERR_DEVICE, "unlucky", bp_op_add(f.scope, x, x, &y));
    cr_assert_null(y);
    OK(bp_tensor_write(other, x, F32(1, 2), 8)); /* others go on */
    OK(bp_stream_synchronize(other));
    bp_stream_destroy(other);
    bp_tensor_destroy(t);
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

Test(async, a_failure_without_a_reason_gets_one)
{
    struct fixture f = open_faulty("bp_faulty.so");
    struct bp_tensor *t = tensor_of(&f, BP_U8, 1, SHAPE(17), NULL);
    char data[17] = {0};

    FAILS(BP_ERR_DEVICE, "plugin faulty: copy_in failed and gave no reason",
          bp_tensor_write(f.stream, t, data, sizeof data));
    bp_tensor_destroy(t);
    fixture_finish(&f);
}

Test(async, what_is_missing_is_supplied_and_said)
{
    struct fixture f = open_faulty("bp_faulty.so");
    struct bp_tensor *t = tensor_of(&f, BP_F32, 1, SHAPE(2), F32(1, 2));
    struct bp_memory_stats stats = {.size = sizeof stats};
    struct bp_event *event;
    struct bp_stream *other;

    cr_assert_eq(bp_device_emulated(f.device), BP_EMULATED_STREAMS | BP_EMULATED_EVENTS |
                                                   BP_EMULATED_STREAM_WAIT |
                                                   BP_EMULATED_MEMORY_INFO);
    OK(bp_stream_create(f.device, &other));
    OK(bp_event_create(f.device, &event));
    OK(bp_event_record(event, f.stream));
    OK(bp_stream_wait(other, event));
    OK(bp_event_wait(event, 0));
    OK(bp_event_query(event));
    OK(bp_device_memory(f.device, &stats));
    cr_assert_eq(stats.total, 1 << 20);
    cr_assert_eq(stats.free, (1 << 20) - 64);
    bp_event_destroy(event);
    bp_stream_destroy(other);
    bp_tensor_destroy(t);
    fixture_finish(&f);
}

Test(async, streams_that_run_out_say_so)
{
    struct fixture f = open_faulty("bp_faulty_streams.so");
    struct bp_stream *more[4] = {NULL};

    for (int i = 0; i < 3; i++) OK(bp_stream_create(f.device, &more[i]));
    FAILS(BP_ERR_DEVICE, "4 streams are all", bp_stream_create(f.device, &more[3]));
    cr_assert_null(more[3]);
    for (int i = 0; i < 3; i++) bp_stream_destroy(more[i]);
    fixture_finish(&f);
}

Test(async, a_row_that_refuses_in_prepare_is_passed_over)
{
    struct fixture f = open_faulty("bp_faulty.so");
    struct bp_tensor *x = tensor_of(&f, BP_F32, 1, SHAPE(2), NULL), *y = NULL;
    struct bp_arg in[2] = {{&x, 1}, {&x, 1}};
    struct bp_call call = {.size = sizeof call, .op = "add", .in = in, .n_in = 2};
    struct bp_prepared *p;

    OK(bp_prepared_create(f.device, &call, &p));
    cr_assert_str_eq(bp_prepared_kernel(p), "faulty_add");
    bp_prepared_destroy(p);
    call.kernel = "faulty_add_never";
    FAILS(BP_ERR_UNSUPPORTED, "does not take this configuration",
          bp_call_run(f.scope, &call, &y, 1, NULL));
    FAILS(BP_ERR_UNSUPPORTED, "has no kernel for it", bp_op_softmax(f.scope, x, NULL, &y));
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

/* Tensors of two devices, and copies between them. */
Test(async, copies_go_between_devices)
{
    struct fixture f = open_faulty("bp_faulty.so");
    struct bp_tensor *there = tensor_of(&f, BP_F32, 1, SHAPE(2), F32(3, 4)), *here, *sum = NULL;
    struct bp_device *cpu;
    struct bp_stream *stream;
    float got[2];

    OK(bp_device_create(f.core, "cpu", &cpu));
    OK(bp_stream_create(cpu, &stream));
    OK(bp_tensor_create(cpu, BP_F32, 1, SHAPE(2), &here));
    FAILS(BP_ERR_INVALID, "dst is on cpu:0, the stream of faulty:0",
          bp_tensor_copy(f.stream, here, there));
    OK(bp_tensor_copy(stream, here, there));
    OK(bp_tensor_read(stream, here, got, sizeof got));
    cr_assert(got[0] == 3 && got[1] == 4);
    FAILS(BP_ERR_INVALID, "input x is on cpu:0, but the call goes to faulty:0",
          bp_op_add(f.scope, here, there, &sum));
    FAILS(BP_ERR_INVALID, "input y is on faulty:0, but the call goes to cpu:0",
          bp_op_add(bp_stream_scope(stream), here, there, &sum));
    bp_tensor_destroy(here);
    bp_tensor_destroy(there);
    bp_stream_destroy(stream);
    bp_device_destroy(cpu);
    fixture_finish(&f);
}

/* Two cores in one process load one library: each has an instance of its own. */
Test(async, two_cores_have_an_instance_each)
{
    struct fixture a = open_faulty("bp_faulty_streams.so"), b = open_faulty("bp_faulty_streams.so");
    struct bp_stream *more[3];

    cr_assert_neq(a.device, b.device);
    for (int i = 0; i < 3; i++) OK(bp_stream_create(a.device, &more[i]));
    for (int i = 0; i < 3; i++) bp_stream_destroy(more[i]);
    fixture_finish(&a);
    for (int i = 0; i < 3; i++) OK(bp_stream_create(b.device, &more[i]));
    for (int i = 0; i < 3; i++) bp_stream_destroy(more[i]);
    fixture_finish(&b);
}
