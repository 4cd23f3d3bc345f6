/* SPDX-License-Identifier: Apache-2.0 */
/* test_profile.c: tests what a profiler records of an app on the cpu: launches by each way of
 * calling, ranges, steps, shapes and memory; and its limits and options. */
#include "fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    CALLS = 20
};

static char path[64];

static void path_make(void)
{
    snprintf(path, sizeof path, "/tmp/bp-profile-XXXXXX");
    close(mkstemp(path));
}
static void path_remove(void)
{
    unlink(path);
}

TestSuite(profile, .init = path_make, .fini = path_remove, .timeout = 30);

static struct bp_profiler *profiler_on(uint32_t flags)
{
    struct bp_profiler_options options = {.size = sizeof options, .path = path, .flags = flags};
    struct bp_profiler *p;

    OK(bp_profiler_start(&options, &p));
    return p;
}

static struct bp_profile *profile_of(struct bp_profiler *profiler)
{
    struct bp_profile *p;

    OK(bp_profiler_stop(profiler));
    bp_profiler_destroy(profiler);
    OK(bp_profile_open(path, &p));
    return p;
}

static struct bp_profile_event event_at(struct bp_profile *p, uint64_t i)
{
    struct bp_profile_event e = {.size = sizeof e};

    OK(bp_profile_get_event(p, i, &e));
    return e;
}

static uint64_t events_of(struct bp_profile *p, uint32_t kind)
{
    uint64_t n = 0;

    for (uint64_t i = 0; i < bp_profile_events(p); i++) n += event_at(p, i).kind == kind;
    return n;
}

static struct bp_profile_info profile_info(struct bp_profile *p)
{
    struct bp_profile_info info = {.size = sizeof info};

    OK(bp_profile_get_info(p, &info));
    return info;
}

static struct bp_profiler_info profiler_info(struct bp_profiler *p)
{
    struct bp_profiler_info info = {.size = sizeof info};

    OK(bp_profiler_get_info(p, &info));
    return info;
}

/* ---- launches ---- */

struct adds {
    struct fixture f;
    struct bp_tensor *x, *y;
};

static struct adds adds_begin(uint32_t flags)
{
    struct adds a = {.f = fixture_init()};

    if (flags) {
        bp_stream_destroy(a.f.stream);
        OK(bp_stream_create_with(a.f.device, flags, &a.f.stream));
        a.f.scope = bp_stream_scope(a.f.stream);
    }
    a.x = tensor_of(&a.f, BP_F32, 2, SHAPE(2, 3), F32(1, 2, 3, 4, 5, 6));
    OK(bp_op_add(a.f.scope, a.x, a.x, &a.y));
    OK(bp_stream_synchronize(a.f.stream));
    return a;
}

static void adds_finish(struct adds *a)
{
    OK(bp_stream_synchronize(a->f.stream));
    bp_tensor_destroy(a->x);
    bp_tensor_destroy(a->y);
    fixture_finish(&a->f);
}

static void adds_run(struct adds *a, int n)
{
    while (n--) OK(bp_op_add(a->f.scope, a->x, a->x, &a->y));
}

/* Asserts that the profile has n additions as work of the stream, one after the other. thread 0:
 * of a thread other than this one. */
static void expect_adds(struct bp_profile *p, uint32_t stream, uint64_t n, uint32_t thread)
{
    struct bp_profile_info info = profile_info(p);
    uint64_t seen = 0, tag = 0, end = 0, sum = 0;

    for (uint64_t i = 0; i < bp_profile_events(p); i++) {
        struct bp_profile_event e = event_at(p, i);
        if (e.kind != BP_RECORD_KERNEL) continue;
        cr_assert_str_eq(e.name, "add");
        cr_assert(!strncmp(e.kernel, "cpu_", 4), "the row is '%s'", e.kernel);
        cr_assert_str_eq(e.device, "cpu:0");
        cr_assert_eq(e.stream, stream);
        if (thread) cr_assert_eq(e.thread, thread);
        else cr_assert(e.thread && e.thread != (uint32_t)syscall(SYS_gettid));
        cr_assert(e.tag > tag && e.on_device && e.bytes == 72, "tag %llu after %llu, %llu bytes",
                  (unsigned long long)e.tag, (unsigned long long)tag, (unsigned long long)e.bytes);
        cr_assert(e.begin_ns >= end && e.end_ns >= e.begin_ns && e.end_ns <= info.length_ns);
        tag = e.tag;
        end = e.end_ns;
        sum += e.end_ns - e.begin_ns;
        seen++;
    }
    cr_assert_eq(seen, n, "%llu launches, expected %llu", (unsigned long long)seen,
                 (unsigned long long)n);
    cr_assert(sum > 0 && sum <= info.length_ns);
    cr_assert(info.is_finished && !info.lost && !info.late && !info.misdated);
    cr_assert_eq(info.process, (uint32_t)getpid());
}

Test(profile, each_eager_launch_has_one_event)
{
    struct adds a = adds_begin(0);
    struct bp_profiler *profiler = profiler_on(0);

    adds_run(&a, CALLS);
    struct bp_profile *p = profile_of(profiler);
    expect_adds(p, bp_stream_number(a.f.stream), CALLS, (uint32_t)syscall(SYS_gettid));
    bp_profile_destroy(p);
    adds_finish(&a);
}

Test(profile, each_launch_of_a_queue_has_one_event_of_its_thread)
{
    struct adds a = adds_begin(BP_STREAM_ASYNC);
    struct bp_profiler *profiler = profiler_on(0);

    adds_run(&a, CALLS);
    OK(bp_stream_synchronize(a.f.stream));
    struct bp_profile *p = profile_of(profiler);
    expect_adds(p, bp_stream_number(a.f.stream), CALLS, 0);
    bp_profile_destroy(p);
    adds_finish(&a);
}

Test(profile, each_prepared_launch_has_one_event)
{
    struct adds a = adds_begin(0);
    struct bp_tensor *in[2] = {a.x, a.x};
    struct bp_arg arg[2] = {{&in[0], 1}, {&in[1], 1}};
    struct bp_call call = {.size = sizeof call, .op = "add", .in = arg, .n_in = 2};
    struct bp_prepared *prepared;

    OK(bp_prepared_create(a.f.device, &call, NULL, 0, &prepared));
    struct bp_profiler *profiler = profiler_on(0);
    for (int i = 0; i < CALLS; i++) OK(bp_prepared_run(prepared, a.f.stream, in, 2, &a.y, 1, NULL));
    struct bp_profile *p = profile_of(profiler);
    expect_adds(p, bp_stream_number(a.f.stream), CALLS, (uint32_t)syscall(SYS_gettid));
    bp_profile_destroy(p);
    bp_prepared_destroy(prepared);
    adds_finish(&a);
}

/* Runs y = x + x as a graph, and as its program. */
Test(profile, each_launch_of_a_graph_and_a_program_has_one_event)
{
    for (int compiled = 0; compiled < 2; compiled++) {
        struct adds a = adds_begin(0);
        struct bp_program *program = NULL;
        struct bp_graph *graph;
        struct bp_tensor *x, *y = NULL;

        OK(bp_graph_create(a.f.core, &graph));
        OK(bp_graph_input(graph, "x", BP_F32, 2, SHAPE(2, 3), &x));
        OK(bp_op_add(bp_graph_scope(graph), x, x, &y));
        OK(bp_graph_output(graph, y, "y"));
        if (compiled) OK(bp_program_create(graph, a.f.device, &program));
        struct bp_profiler *profiler = profiler_on(0);
        for (int i = 0; i < CALLS; i++) {
            if (compiled) OK(bp_program_run(program, a.f.stream, &a.x, 1, &a.y, 1));
            else OK(bp_graph_run(graph, a.f.stream, &a.x, 1, &a.y, 1));
        }
        struct bp_profile *p = profile_of(profiler);
        expect_adds(p, bp_stream_number(a.f.stream), CALLS, (uint32_t)syscall(SYS_gettid));
        cr_assert_eq(events_of(p, BP_PROFILE_RUN), CALLS);
        bp_profile_destroy(p);
        bp_program_destroy(program);
        bp_tensor_destroy(x);
        bp_tensor_destroy(y);
        bp_graph_destroy(graph);
        adds_finish(&a);
    }
}

/* ---- ranges, steps, shapes, memory ---- */

Test(profile, ranges_nest_and_marks_lie_in_them)
{
    bp_range_begin("before");
    struct bp_profiler *profiler = profiler_on(0);
    bp_range_end();
    bp_range_begin("outer");
    bp_range_begin("inner");
    bp_mark("here");
    bp_range_end();
    bp_range_end();
    bp_range_end(); /* of no range */
    bp_range_begin("unfinished");
    struct bp_profile *p = profile_of(profiler);
    bp_range_end();
    cr_assert_eq(bp_profile_events(p), 3);
    struct bp_profile_event outer = event_at(p, 0), inner = event_at(p, 1), here = event_at(p, 2);
    if (!strcmp(outer.name, "inner")) {
        outer = event_at(p, 1);
        inner = event_at(p, 0);
    }
    cr_assert_str_eq(outer.name, "outer");
    cr_assert_str_eq(inner.name, "inner");
    cr_assert_str_eq(here.name, "here");
    cr_assert(outer.kind == BP_PROFILE_RANGE && inner.kind == BP_PROFILE_RANGE &&
              here.kind == BP_PROFILE_MARK);
    cr_assert(outer.begin_ns <= inner.begin_ns && inner.begin_ns <= here.begin_ns &&
              here.end_ns <= inner.end_ns && inner.end_ns <= outer.end_ns);
    bp_profile_destroy(p);
}

/* Of each round of 1 skipped, 1 warming and 2 recorded steps, twice, the marks of the recorded
 * ones are there. */
Test(profile, a_schedule_records_its_steps)
{
    static const char *const expected[] = {"2", "3", "6", "7"};
    struct bp_profiler_options options = {
        .size = sizeof options, .path = path, .skip = 1, .warm_up = 1, .record = 2, .repeat = 2};
    struct bp_profiler *profiler;
    uint64_t marks = 0;
    char name[8];

    OK(bp_profiler_start(&options, &profiler));
    for (int i = 0; i < 12; i++) {
        snprintf(name, sizeof name, "%d", i);
        bp_mark(name);
        OK(bp_profiler_step(profiler));
    }
    struct bp_profile *p = profile_of(profiler);
    for (uint64_t i = 0; i < bp_profile_events(p); i++) {
        struct bp_profile_event e = event_at(p, i);
        if (e.kind != BP_PROFILE_MARK) continue;
        cr_assert(marks < 4, "a mark too many: %s", e.name);
        cr_assert_str_eq(e.name, expected[marks++]);
    }
    cr_assert_eq(marks, 4);
    cr_assert_eq(events_of(p, BP_PROFILE_STEP), 4);
    bp_profile_destroy(p);
}

Test(profile, shapes_are_recorded_on_demand)
{
    for (uint32_t flags = 0; flags < 2; flags++) {
        struct adds a = adds_begin(0);
        struct bp_profiler *profiler = profiler_on(flags);

        adds_run(&a, 1);
        struct bp_profile *p = profile_of(profiler);
        for (uint64_t i = 0; i < bp_profile_events(p); i++) {
            struct bp_profile_event e = event_at(p, i);
            if (e.kind == BP_RECORD_KERNEL)
                cr_assert_str_eq(e.shapes, flags ? "f32[2,3], f32[2,3] -> f32[2,3]" : "");
        }
        cr_assert_eq(events_of(p, BP_RECORD_KERNEL), 1);
        bp_profile_destroy(p);
        adds_finish(&a);
    }
}

Test(profile, allocations_and_frees_add_up)
{
    struct fixture f = fixture_init();
    struct bp_profiler *profiler = profiler_on(BP_PROFILER_MEMORY);
    uint64_t allocated = 0, freed = 0, most = 0, last = 1;
    struct bp_tensor *t[5];

    for (int i = 0; i < 5; i++) OK(bp_tensor_create(f.device, BP_F32, 1, SHAPE(1000), &t[i]));
    for (int i = 0; i < 5; i++) bp_tensor_destroy(t[i]);
    struct bp_profile *p = profile_of(profiler);
    cr_assert_eq(events_of(p, BP_PROFILE_ALLOCATE), 5);
    cr_assert_eq(events_of(p, BP_PROFILE_FREE), 5);
    for (uint64_t i = 0; i < bp_profile_events(p); i++) {
        struct bp_profile_event e = event_at(p, i);
        if (e.kind == BP_PROFILE_ALLOCATE) allocated += e.bytes;
        else if (e.kind == BP_PROFILE_FREE) freed += e.bytes;
        else continue;
        cr_assert_eq(e.total, allocated - freed);
        if (e.total > most) most = e.total;
        last = e.total;
    }
    cr_assert(allocated == freed && most == allocated && allocated >= 20000 && !last);
    bp_profile_destroy(p);
    fixture_finish(&f);
}

/* Memory of eager calls is recorded too, and memory that was allocated before counts. */
Test(profile, memory_of_calls_and_from_before_the_recording_adds_up)
{
    struct adds a = adds_begin(0);
    struct bp_tensor *before, *y[4] = {NULL};
    uint64_t live[2] = {0};

    OK(bp_tensor_create(a.f.device, BP_F32, 1, SHAPE(1000), &before));
    struct bp_profiler *profiler = profiler_on(BP_PROFILER_MEMORY);
    struct bp_memory_stats stats = {.size = sizeof stats};
    OK(bp_device_memory(a.f.device, &stats));
    live[0] = stats.allocated;
    for (int i = 0; i < 4; i++) OK(bp_op_add(a.f.scope, a.x, a.x, &y[i]));
    bp_tensor_destroy(before);
    for (int i = 0; i < 4; i++) bp_tensor_destroy(y[i]);
    OK(bp_device_memory(a.f.device, &stats));
    live[1] = stats.allocated;
    struct bp_profile *p = profile_of(profiler);
    cr_assert(events_of(p, BP_PROFILE_ALLOCATE) == 4 && events_of(p, BP_PROFILE_FREE) == 5);
    uint64_t total = live[0];
    for (uint64_t i = 0; i < bp_profile_events(p); i++) {
        struct bp_profile_event e = event_at(p, i);
        if (e.kind == BP_PROFILE_ALLOCATE) total += e.bytes;
        else if (e.kind == BP_PROFILE_FREE) total -= e.bytes;
        else continue;
        cr_assert_eq(e.total, total);
    }
    cr_assert_eq(total, live[1]);
    bp_profile_destroy(p);
    adds_finish(&a);
}

/* ---- options and limits ---- */

Test(profile, wrong_options_are_refused)
{
    struct bp_profiler_options o = {.size = sizeof o, .path = path, .flags = 64};
    struct bp_profiler *p = NULL;

    FAILS(BP_ERR_INVALID, "flags 0x40", bp_profiler_start(&o, &p));
    o = (struct bp_profiler_options){.size = sizeof o, .path = ""};
    FAILS(BP_ERR_INVALID, "path", bp_profiler_start(&o, &p));
    o = (struct bp_profiler_options){.size = sizeof o + 8, .path = path};
    FAILS(BP_ERR_INVALID, "later version", bp_profiler_start(&o, &p));
    o = (struct bp_profiler_options){.size = sizeof o, .path = path, .skip = 2};
    FAILS(BP_ERR_INVALID, "needs record", bp_profiler_start(&o, &p));
    o = (struct bp_profiler_options){.size = sizeof o, .path = "/no/such/folder/profile"};
    FAILS(BP_ERR_INVALID, "/no/such/folder/profile", bp_profiler_start(&o, &p));
    FAILS(BP_ERR_INVALID, "out_profiler", bp_profiler_start(NULL, NULL));
    cr_assert_null(p);
}

Test(profile, one_profiler_records_at_a_time)
{
    struct bp_profiler *first = profiler_on(0), *second = NULL;

    FAILS(BP_ERR_BUSY, "records already", bp_profiler_start(NULL, &second));
    cr_assert_null(second);
    bp_mark("one");
    cr_assert_eq(profiler_info(first).events, 1);
    OK(bp_profiler_stop(first));
    OK(bp_profiler_stop(first));
    bp_mark("two");
    cr_assert(profiler_info(first).events == 1 && !*profiler_info(first).why);
    OK(bp_profiler_start(NULL, &second));
    bp_mark("three");
    OK(bp_profiler_save(second, path));
    bp_profiler_destroy(second);
    struct bp_profile *p = profile_of(first); /* the path has the second one's file now */
    cr_assert_eq(bp_profile_events(p), 1);
    cr_assert_str_eq(event_at(p, 0).name, "three");
    bp_profile_destroy(p);
    bp_profiler_destroy(NULL);
}

/* The processes of an app may have one name for the file: each would cut off the mapped file of the
 * one before. */
Test(profile, a_new_recording_leaves_the_old_file_to_its_readers)
{
    struct bp_profiler *profiler = profiler_on(0);
    struct stat before, after, file;
    int fd;

    bp_mark("old");
    struct bp_profile *old = profile_of(profiler);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    cr_assert(fd >= 0 && !fstat(fd, &before) && before.st_size);
    profiler = profiler_on(0);
    bp_mark("new");
    cr_assert(!fstat(fd, &after) && !stat(path, &file));
    cr_assert(after.st_size == before.st_size && !after.st_nlink && file.st_ino != before.st_ino);
    cr_assert_eq(file.st_mode, before.st_mode, "the permissions have changed");
    cr_assert_str_eq(event_at(old, 0).name, "old");
    bp_profile_destroy(old);
    struct bp_profile *p = profile_of(profiler);
    cr_assert(bp_profile_events(p) == 1 && !strcmp(event_at(p, 0).name, "new"));
    bp_profile_destroy(p);
    close(fd);
}

Test(profile, events_beyond_the_largest_size_are_counted)
{
    struct bp_profiler_options options = {
        .size = sizeof options, .path = path, .max_bytes = 4 << 20};
    const uint64_t marks = 200000;
    struct bp_profiler *profiler;

    OK(bp_profiler_start(&options, &profiler));
    for (uint64_t i = 0; i < marks; i++) bp_mark("mark");
    struct bp_profiler_info info = profiler_info(profiler);
    cr_assert(info.bytes <= options.max_bytes && info.lost && info.events);
    cr_assert_eq(info.events + info.lost, marks);
    cr_assert(strstr(info.why, "largest size"), "%s", info.why);
    struct bp_profile *p = profile_of(profiler);
    cr_assert_eq(profile_info(p).lost, info.lost);
    cr_assert_eq(bp_profile_events(p), info.events);
    bp_profile_destroy(p);
}

Test(profile, a_million_events_are_not_lost)
{
    const uint64_t marks = 1000000;
    struct bp_profiler *profiler = profiler_on(0);

    for (uint64_t i = 0; i < marks; i++) bp_mark("mark");
    cr_assert(profiler_info(profiler).events == marks && !profiler_info(profiler).lost);
    struct bp_profile *p = profile_of(profiler);
    cr_assert_eq(bp_profile_events(p), marks);
    bp_profile_destroy(p);
}
