/* SPDX-License-Identifier: Apache-2.0 */
/* test_async.c: tests the core's guarantees for an asynchronous device: memory and plans are freed
 * after the work that uses them, a failure stays with its stream, and missing plugin functions are
 * replaced. The device is the fake one, faulty, which aborts the process when the core breaks a
 * rule. */
#include <backplane/plugin.h>
#include "fixture.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct fixture open_fixture(const char *library)
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
        struct fixture f = open_fixture(libraries[i]);
        body(&f);
        fixture_finish(&f);
    }
}

/* Bytes that cannot be allocated again: of live tensors, and of freed tensors whose work has not
 * ended. */
static uint64_t async_kept(struct fixture *f)
{
    struct bp_memory_stats stats = {.size = sizeof stats};

    OK(bp_device_memory(f->device, &stats));
    cr_assert_eq(stats.reserved, stats.allocated + stats.rounding + stats.pending + stats.free);
    return stats.allocated + stats.pending;
}

static void memory_waits(struct fixture *f)
{
    struct bp_tensor *t = tensor_of(f, BP_F32, 1, SHAPE(4), F32(1, 2, 3, 4));

    bp_tensor_destroy(t);
    cr_assert_eq(async_kept(f), 256, "work is pending: the memory is still taken");
    OK(bp_device_synchronize(f->device));
    cr_assert_eq(async_kept(f), 0);
}

Test(async, memory_goes_back_when_its_work_is_done)
{
    on_both(memory_waits);
}

static void async_exhaustion(struct fixture *f)
{
    static char data[700000];
    struct bp_tensor *a = tensor_of(f, BP_U8, 1, SHAPE(sizeof data), data), *b, *c = NULL;

    bp_tensor_destroy(a);
    b = tensor_of(f, BP_U8, 1, SHAPE(sizeof data),
                  data); /* fits only after the core has waited */
    FAILS(BP_ERR_MEMORY, "asked for 700000 bytes; allocated 700000, pending 0, free "
          "0 (largest 0), reserved 700352 of 1048576",
          bp_tensor_create(f->device, BP_U8, 1, SHAPE(sizeof data), &c));
    cr_assert(strstr(bp_error_message(), "are too many"), "the plugin's words are kept: %s",
              bp_error_message());
    bp_tensor_destroy(b);
    OK(bp_device_synchronize(f->device));
}

Test(async, out_of_memory_waits_once_and_lists_use)
{
    on_both(async_exhaustion);
}

static void async_plans(struct fixture *f)
{
    struct bp_tensor *x = tensor_of(f, BP_F32, 1, SHAPE(2), F32(1, 2)), *y = NULL;

    OK(bp_op_add(f->scope, x, x,
                 &y)); /* its plan and workspace are freed by now, or when the work ends */
    expect_bytes(f, y, F32(2, 4), 8);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    OK(bp_device_synchronize(f->device));
    cr_assert_eq(async_kept(f), 0, "the workspace went back too");
}

Test(async, plans_and_workspaces_live_as_long_as_their_launch)
{
    on_both(async_plans);
}

Test(async, a_failure_stays_with_its_stream)
{
    struct fixture f = open_fixture("bp_faulty_streams.so");
    struct bp_tensor *t = tensor_of(&f, BP_U8, 1, SHAPE(13), NULL),
                     *x = tensor_of(&f, BP_F32, 1, SHAPE(2), NULL), *y = NULL;
    struct bp_stream *other;
    char data[13] = {0};

    OK(bp_stream_create(f.device, &other));
    OK(bp_tensor_write(f.stream, t, data, sizeof data));
    FAILS(BP_ERR_DEVICE, "told to fail", bp_stream_synchronize(f.stream));
    FAILS(BP_ERR_DEVICE, "has failed before", bp_stream_synchronize(f.stream));
    FAILS(BP_ERR_DEVICE, "told to fail", bp_tensor_write(f.stream, t, data, sizeof data));
    FAILS(BP_ERR_DEVICE, "told to fail", bp_op_add(f.scope, x, x, &y));
    cr_assert_null(y);
    OK(bp_tensor_write(other, x, F32(1, 2), 8)); /* other streams still work */
    OK(bp_stream_synchronize(other));
    bp_stream_destroy(other);
    bp_tensor_destroy(t);
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

/* Several calls that wait and report the failure: the stream keeps it. With one order, all streams
 * of the device keep it. */
enum by { SYNC, DEVICE, READ, OTHER, CALL, EXHAUSTION, WAYS };

static void wait_by(struct fixture *f, enum by by, struct bp_tensor *t, struct bp_stream *other)
{
    struct bp_tensor *x = NULL, *y = NULL;
    char data[13];

    switch (by) {
    case SYNC: FAILS(BP_ERR_DEVICE, "told to fail", bp_stream_synchronize(f->stream)); break;
    case DEVICE: FAILS(BP_ERR_DEVICE, "told to fail", bp_device_synchronize(f->device)); break;
    case READ: FAILS(BP_ERR_DEVICE, "told to fail", bp_tensor_read(f->stream, t, data, 13)); break;
    case OTHER: FAILS(BP_ERR_DEVICE, "told to fail", bp_stream_synchronize(other)); break;
    case CALL: /* an eager call, whose plan must not lose the failure */
        OK(bp_tensor_create(f->device, BP_F32, 1, SHAPE(2), &x));
        OK(bp_op_add(f->scope, x, x, &y));
        FAILS(BP_ERR_DEVICE, "told to fail", bp_stream_synchronize(f->stream));
        break;
    default:
        FAILS(BP_ERR_DEVICE, "told to fail",
              bp_tensor_create(f->device, BP_U8, 1, SHAPE(1 << 20), &x));
    }
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
}

Test(async, a_failure_is_kept_for_every_caller)
{
    for (enum by by = SYNC; by < WAYS; by++) {
        struct fixture f = open_fixture("bp_faulty.so");
        struct bp_tensor *t = tensor_of(&f, BP_U8, 1, SHAPE(13), NULL);
        struct bp_stream *other;
        char data[13] = {0};
        OK(bp_stream_create(f.device, &other));
        OK(bp_tensor_write(f.stream, t, data, sizeof data));
        wait_by(&f, by, t, other);
        FAILS(BP_ERR_DEVICE, "has failed before", bp_stream_synchronize(f.stream));
        FAILS(BP_ERR_DEVICE, "has failed before", bp_tensor_read(f.stream, t, data, sizeof data));
        FAILS(BP_ERR_DEVICE, "has failed before", bp_stream_synchronize(other));
        FAILS(BP_ERR_DEVICE, "has failed before", bp_device_synchronize(f.device));
        bp_stream_destroy(other);
        bp_tensor_destroy(t);
        fixture_finish(&f);
    }
}

struct slow {
    struct fixture *f;
    struct bp_tensor *dst, *src;
};

static void *copy_slowly(void *arg)
{
    struct slow *s = arg;

    OK(bp_tensor_copy(s->f->stream, s->dst, s->src));
    return NULL;
}

/* Work that the plugin accepts during another thread's wait is not covered by this wait. */
static void waiting_in_between(struct fixture *f)
{
    struct slow s = {f, tensor_of(f, BP_U8, 1, SHAPE(19), NULL),
                     tensor_of(f, BP_U8, 1, SHAPE(19), NULL)};
    struct bp_tensor *other = tensor_of(f, BP_U8, 1, SHAPE(4), "abc");
    pthread_t thread;

    cr_assert_eq(pthread_create(&thread, NULL, copy_slowly, &s), 0);
    usleep(30000);
    OK(bp_device_synchronize(f->device));
    pthread_join(thread, NULL);
    bp_tensor_destroy(s.dst); /* the plugin aborts if these are freed now */
    bp_tensor_destroy(s.src);
    OK(bp_device_synchronize(f->device));
    bp_tensor_destroy(other);
    cr_assert_eq(async_kept(f), 0);
}

Test(async, work_taken_during_a_wait_is_still_pending)
{
    on_both(waiting_in_between);
}

/* On a device with streams, a wait for the stream frees its memory, before and after there is
 * another stream. */
Test(async, a_wait_for_the_only_stream_frees)
{
    struct fixture f = open_fixture("bp_faulty_streams.so");
    struct bp_stream *other;

    for (int i = 0; i < 10; i++) {
        struct bp_tensor *t = tensor_of(&f, BP_F32, 1, SHAPE(4), F32(1, 2, 3, 4));
        OK(bp_stream_synchronize(f.stream));
        bp_tensor_destroy(t);
        cr_assert_eq(async_kept(&f), 0);
    }
    for (int i = 0; i < 10; i++) {
        struct bp_tensor *t = tensor_of(&f, BP_F32, 1, SHAPE(4), F32(1, 2, 3, 4));
        bp_tensor_destroy(t);
        cr_assert_eq(async_kept(&f), 256);
        OK(bp_stream_create(f.device, &other));
        OK(bp_stream_synchronize(other)); /* does not cover work of the first stream */
        cr_assert_eq(async_kept(&f), 256);
        bp_stream_destroy(other);
        OK(bp_stream_synchronize(f.stream));
        cr_assert_eq(async_kept(&f), 0);
    }
    fixture_finish(&f);
}

Test(async, memory_that_cannot_be_is_refused)
{
    struct fixture f = open_fixture("bp_faulty.so");
    struct bp_tensor *t = NULL;

    FAILS(BP_ERR_PLUGIN, "success with no memory",
          bp_tensor_create(f.device, BP_U8, 1, SHAPE(400), &t));
    FAILS(BP_ERR_PLUGIN, "alignment is not the 64",
          bp_tensor_create(f.device, BP_U8, 1, SHAPE(700), &t));
    cr_assert_null(t);
    cr_assert_eq(async_kept(&f), 0);
    fixture_finish(&f);
}

Test(async, plans_that_cannot_be_are_refused_and_go_back)
{
    struct fixture f = open_fixture("bp_faulty.so");
    struct bp_tensor *x = tensor_of(&f, BP_F32, 1, SHAPE(2), NULL), *y = NULL;
    struct bp_arg in[2] = {{&x, 1}, {&x, 1}};
    struct bp_call call = {.size = sizeof call, .op = "add", .in = in, .n_in = 2};

    call.kernel = "faulty_add_crooked";
    FAILS(BP_ERR_PLUGIN, "aligned to 48", bp_call_run(f.scope, &call, &y, 1, NULL));
    call.kernel = "faulty_add_vast";
    FAILS(BP_ERR_PLUGIN, "9223372036854775872 bytes", bp_call_run(f.scope, &call, &y, 1, NULL));
    cr_assert_null(y);
    bp_tensor_destroy(x);
    fixture_finish(&f); /* the plugin aborts if a plan still exists */
}

Test(async, the_best_of_many_rows_is_taken)
{
    struct fixture f = open_fixture("bp_faulty.so");
    struct bp_tensor *x = tensor_of(&f, BP_F32, 1, SHAPE(2), NULL);
    struct bp_arg in[1] = {{&x, 1}};
    struct bp_call call = {.size = sizeof call, .op = "cast", .in = in, .n_in = 1};
    struct bp_prepared *p;

    OK(bp_prepared_create(f.device, &call, NULL, 0, &p));
    cr_assert_str_eq(bp_prepared_kernel(p), "faulty_cast_best");
    bp_prepared_destroy(p);
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

static void write_manifest(const char *directory, const char *name, int priority)
{
    char path[4096];
    FILE *file;

    snprintf(path, sizeof path, "%s/bp_%s.json", directory, name);
    file = fopen(path, "w");
    cr_assert_not_null(file);
    fprintf(
        file,
        "{\"manifest\": 1, \"name\": \"%s\", \"kind\": \"faulty\", \"version\": \"0.1.0\", "
        "\"library\": \"%s/bp_%s.so\", \"abi\": {\"major\": %d, \"minor\": %d}, \"priority\": %d}",
        name, HOSTILE_DIR, name, BP_ABI_MAJOR, BP_ABI_MINOR, priority);
    fclose(file);
}

/* Two plugins serve one kind: the core opens devices of the better plugin only. */
Test(async, devices_of_a_kind_are_those_of_its_best_plugin)
{
    char directory[4096], path[4200];
    struct bp_core_options options = {.size = sizeof options, .plugin_path = directory};
    struct bp_device *device = NULL;
    struct bp_core *core;

    snprintf(directory, sizeof directory, "%s/twins.XXXXXX", HOSTILE_DIR);
    cr_assert_not_null(mkdtemp(directory));
    write_manifest(directory, "faulty", 10);
    write_manifest(directory, "faulty_twin", 5);
    OK(bp_core_create(&options, &core));
    OK(bp_device_create(core, "faulty:0", &device));
    bp_device_destroy(device);
    device = NULL;
    FAILS(BP_ERR_NOT_FOUND, "plugin faulty has 1", bp_device_create(core, "faulty:1", &device));
    cr_assert_null(device);
    bp_core_destroy(core);
    snprintf(path, sizeof path, "%s/bp_faulty.json", directory);
    unlink(path);
    snprintf(path, sizeof path, "%s/bp_faulty_twin.json", directory);
    unlink(path);
    rmdir(directory);
}

Test(async, a_failure_without_a_reason_gets_one)
{
    struct fixture f = open_fixture("bp_faulty.so");
    struct bp_tensor *t = tensor_of(&f, BP_U8, 1, SHAPE(17), NULL);
    char data[17] = {0};

    FAILS(BP_ERR_DEVICE, "plugin faulty: copy_in failed and gave no reason",
          bp_tensor_write(f.stream, t, data, sizeof data));
    bp_tensor_destroy(t);
    fixture_finish(&f);
}

Test(async, missing_functions_are_emulated_and_listed)
{
    struct fixture f = open_fixture("bp_faulty.so");
    struct bp_tensor *t = tensor_of(&f, BP_F32, 1, SHAPE(2), F32(1, 2));
    struct bp_memory_stats stats = {.size = sizeof stats};
    struct bp_event *event;
    struct bp_stream *other;

    cr_assert_eq(bp_device_emulated(f.device), BP_EMULATED_STREAMS | BP_EMULATED_EVENTS |
                                                   BP_EMULATED_STREAM_WAIT |
                                                   BP_EMULATED_MEMORY_INFO |
                                                   BP_EMULATED_RECORDING |
                                                   BP_EMULATED_COLLECTIVES);
    OK(bp_stream_create(f.device, &other));
    OK(bp_event_create(f.device, &event));
    OK(bp_event_record(event, f.stream));
    OK(bp_stream_wait(other, event));
    OK(bp_event_wait(event, 0));
    OK(bp_event_query(event));
    OK(bp_device_memory(f.device, &stats));
    cr_assert_eq(stats.device_total, 1 << 20);
    cr_assert_eq(stats.device_free, (1 << 20) - 448);
    bp_event_destroy(event);
    bp_stream_destroy(other);
    bp_tensor_destroy(t);
    fixture_finish(&f);
}

Test(async, too_many_streams_are_reported)
{
    struct fixture f = open_fixture("bp_faulty_streams.so");
    struct bp_stream *more[4] = {NULL};

    for (int i = 0; i < 3; i++) OK(bp_stream_create(f.device, &more[i]));
    FAILS(BP_ERR_DEVICE, "4 streams are all", bp_stream_create(f.device, &more[3]));
    cr_assert_null(more[3]);
    for (int i = 0; i < 3; i++) bp_stream_destroy(more[i]);
    fixture_finish(&f);
}

Test(async, a_row_that_refuses_in_prepare_is_passed_over)
{
    struct fixture f = (setenv("BP_FALLBACK", "deny", 1), open_fixture("bp_faulty.so"));
    struct bp_tensor *x = tensor_of(&f, BP_F32, 1, SHAPE(2), NULL), *y = NULL;
    struct bp_arg in[2] = {{&x, 1}, {&x, 1}};
    struct bp_call call = {.size = sizeof call, .op = "add", .in = in, .n_in = 2};
    struct bp_prepared *p;

    OK(bp_prepared_create(f.device, &call, NULL, 0, &p));
    cr_assert_str_eq(bp_prepared_kernel(p), "faulty_add");
    bp_prepared_destroy(p);
    call.kernel = "faulty_add_never";
    FAILS(BP_ERR_NO_KERNEL, "does not take this configuration",
          bp_call_run(f.scope, &call, &y, 1, NULL));
    FAILS(BP_ERR_NO_KERNEL, "has no kernel for it", bp_op_softmax(f.scope, x, NULL, &y));
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

/* Tests tensors of two devices, and copies between them. */
Test(async, copies_go_between_devices)
{
    struct fixture f = open_fixture("bp_faulty.so");
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

/* Two cores in one process load one library: each core has a separate instance. */
Test(async, two_cores_have_an_instance_each)
{
    struct fixture a = open_fixture("bp_faulty_streams.so"),
                   b = open_fixture("bp_faulty_streams.so");
    struct bp_stream *more[3];

    cr_assert_neq(a.device, b.device);
    for (int i = 0; i < 3; i++) OK(bp_stream_create(a.device, &more[i]));
    for (int i = 0; i < 3; i++) bp_stream_destroy(more[i]);
    fixture_finish(&a);
    for (int i = 0; i < 3; i++) OK(bp_stream_create(b.device, &more[i]));
    for (int i = 0; i < 3; i++) bp_stream_destroy(more[i]);
    fixture_finish(&b);
}
