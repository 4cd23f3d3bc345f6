/* SPDX-License-Identifier: Apache-2.0 */
/* test_profile_core.c: tests profiles of the core with the records that plugins/gpu makes by CUPTI
 * and roctracer, on their stand-ins: the times of devices beside those of the host.
 *
 *   test_profile_core PLUGIN DRIVER CUPTI ROCTRACER NVTX ROCTX */
#include "kit.h"
#include <backplane/backplane.h>
#include <backplane/profile.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    N = 64,
    ADDS = 20,
    THREADS = 4,
    ROUNDS = 25
};

static const char *plugin_path, *cupti_path, *roctracer_path, *nvtx_path;

struct app {
    struct bp_core *core;
    struct bp_device *device;
    struct bp_stream *stream[2];
    struct bp_tensor *x, *y[2];
    char file[64];
    struct bp_profile *profile;
};

static void app_ok(enum bp_status status, const char *what)
{
    expect(status == BP_OK, "%s: %s: %s", what, bp_status_name(status), bp_error_message());
}

static void app_begin(struct app *a)
{
    float v[N] = {1};
    int64_t n = N;
    uint32_t index;

    *a = (struct app){.file = "/tmp/bp-gpu-profile-XXXXXX"};
    close(mkstemp(a->file));
    app_ok(bp_core_create(NULL, &a->core), "bp_core_create");
    app_ok(bp_core_load_path(a->core, plugin_path, &index), "bp_core_load_path");
    app_ok(bp_device_create_at(a->core, index, 0, &a->device), "bp_device_create_at");
    app_ok(bp_tensor_create(a->device, BP_F32, 1, &n, &a->x), "bp_tensor_create");
    for (int i = 0; i < 2; i++) {
        app_ok(bp_stream_create(a->device, &a->stream[i]), "bp_stream_create");
        app_ok(bp_tensor_create(a->device, BP_F32, 1, &n, &a->y[i]), "bp_tensor_create");
    }
    app_ok(bp_tensor_write(a->stream[0], a->x, v, sizeof v), "bp_tensor_write");
    app_ok(bp_stream_synchronize(a->stream[0]), "bp_stream_synchronize");
}

static void app_end(struct app *a)
{
    bp_profile_destroy(a->profile);
    for (int i = 0; i < 2; i++) {
        bp_tensor_destroy(a->y[i]);
        bp_stream_destroy(a->stream[i]);
    }
    bp_tensor_destroy(a->x);
    bp_device_destroy(a->device);
    bp_core_destroy(a->core);
    unlink(a->file);
}

static void app_add(struct app *a, int stream)
{
    app_ok(bp_op_add(bp_stream_scope(a->stream[stream]), a->x, a->x, &a->y[stream]), "add");
}

static struct bp_profiler *app_record(struct app *a)
{
    const struct bp_profiler_options options = {.size = sizeof options, .path = a->file};
    struct bp_profiler *profiler = NULL;

    app_ok(bp_profiler_start(&options, &profiler), "bp_profiler_start");
    return profiler;
}

static void app_stop(struct app *a, struct bp_profiler *profiler)
{
    for (int i = 0; i < 2; i++)
        app_ok(bp_stream_synchronize(a->stream[i]), "bp_stream_synchronize");
    app_ok(bp_profiler_stop(profiler), "bp_profiler_stop");
    bp_profiler_destroy(profiler);
    app_ok(bp_profile_open(a->file, &a->profile), "bp_profile_open");
}

/* Returns the first event of the kind with this stream and tag from number *at on, and moves *at
 * behind the event. */
static bool app_find(struct app *a, uint32_t kind, uint32_t stream, uint64_t tag, uint64_t *at,
                     struct bp_profile_event *out)
{
    for (; *at < bp_profile_events(a->profile); ++*at) {
        *out = (struct bp_profile_event){.size = sizeof *out};
        bp_profile_get_event(a->profile, *at, out);
        if (out->kind != kind || (stream && out->stream != stream) || (tag && out->tag != tag))
            continue;
        ++*at;
        return true;
    }
    return false;
}

static size_t app_count(struct app *a, uint32_t kind, uint32_t stream)
{
    struct bp_profile_event event;
    uint64_t at = 0;
    size_t n = 0;

    while (app_find(a, kind, stream, 0, &at, &event)) n++;
    return n;
}

static void app_use(const char *tracer)
{
    bool cupti = !strcmp(tracer, "cupti");

    setenv("BP_SIM_CUPTI", cupti ? cupti_path : "off", 1);
    setenv("BP_SIM_ROCTRACER", cupti ? "off" : roctracer_path, 1);
}

/* Each submission has one kernel, which begins after the submission has begun, by the host's clock;
 * that of CUPTI's stand-in is an hour ahead. */
static void submissions_have_kernels(struct app *a, int stream, size_t n)
{
    uint32_t number = bp_stream_number(a->stream[stream]);
    struct bp_profile_event submit, kernel, another;
    uint64_t at = 0;
    size_t found = 0;

    while (app_find(a, BP_PROFILE_SUBMIT, number, 0, &at, &submit)) {
        uint64_t from = 0;
        if (strcmp(submit.name, "add") != 0) continue;
        found++;
        if (!expect(app_find(a, BP_RECORD_KERNEL, number, submit.tag, &from, &kernel),
                    "tag %d has no kernel", (int)submit.tag))
            continue;
        expect(!app_find(a, BP_RECORD_KERNEL, number, submit.tag, &from, &another), "two kernels");
        expect(kernel.on_device && kernel.begin_ns + 200000 >= submit.begin_ns &&
                   kernel.begin_ns <= kernel.end_ns && !strcmp(kernel.kernel, "bp_binary_f32"),
               "kernel %s at %d, submitted at %d", kernel.kernel, (int)kernel.begin_ns,
               (int)submit.begin_ns);
    }
    expect(found == n, "%zu submissions", found);
}

static void adds_have_kernels(const void *arg)
{
    struct bp_profile_info info = {.size = sizeof info};
    struct bp_profiler *profiler;
    struct app a;

    app_use(arg);
    app_begin(&a);
    profiler = app_record(&a);
    for (int i = 0; i < ADDS; i++) {
        app_add(&a, 0);
        app_add(&a, 1);
    }
    app_stop(&a, profiler);
    submissions_have_kernels(&a, 0, ADDS);
    submissions_have_kernels(&a, 1, ADDS);
    expect(app_count(&a, BP_RECORD_KERNEL, 0) == 2 * ADDS, "%zu kernels",
           app_count(&a, BP_RECORD_KERNEL, 0));
    app_ok(bp_profile_get_info(a.profile, &info), "bp_profile_get_info");
    expect(!info.lost && !info.late && !info.misdated, "lost %d late %d misdated %d",
           (int)info.lost, (int)info.late, (int)info.misdated);
    app_end(&a);
}

/* The host's events stay when the device has no records. arg: the failure, or NULL for no
 * library. */
static void events_of_the_host_stay(const void *arg)
{
    struct bp_profiler *profiler;
    struct app a;

    if (arg) {
        app_use("cupti");
        setenv("BP_SIM_FAIL", arg, 1);
    }
    app_begin(&a);
    profiler = app_record(&a);
    for (int i = 0; i < ADDS; i++) app_add(&a, 0);
    app_stop(&a, profiler);
    expect(app_count(&a, BP_PROFILE_SUBMIT, bp_stream_number(a.stream[0])) == ADDS,
           "%zu submissions", app_count(&a, BP_PROFILE_SUBMIT, 0));
    if (!arg) expect(!app_count(&a, BP_RECORD_KERNEL, 0), "kernels without a library");
    app_end(&a);
}

static atomic_bool ended; /* the threads end */

struct runner {
    struct app *app;
    pthread_t thread;
};

static void *runner_add(void *arg)
{
    struct app *a = ((struct runner *)arg)->app;
    struct bp_stream *stream = NULL;
    struct bp_tensor *y = NULL;

    app_ok(bp_stream_create(a->device, &stream), "bp_stream_create");
    while (!atomic_load(&ended)) {
        app_ok(bp_op_add(bp_stream_scope(stream), a->x, a->x, &y), "add");
        app_ok(bp_stream_synchronize(stream), "bp_stream_synchronize");
    }
    bp_tensor_destroy(y);
    bp_stream_destroy(stream);
    return NULL;
}

/* Threads launch while profiles are started and stopped. */
static void starts_under_threads(const void *arg)
{
    struct runner runner[THREADS];
    struct app a;
    size_t n = 0;

    app_use(arg);
    app_begin(&a);
    for (int i = 0; i < THREADS; i++) {
        runner[i].app = &a;
        pthread_create(&runner[i].thread, NULL, runner_add, &runner[i]);
    }
    for (int i = 0; i < ROUNDS; i++) {
        struct bp_profiler *profiler = app_record(&a);
        usleep(2000);
        app_stop(&a, profiler);
        n += app_count(&a, BP_RECORD_KERNEL, 0);
        bp_profile_destroy(a.profile);
        a.profile = NULL;
    }
    atomic_store(&ended, true);
    expect(n > ROUNDS, "%zu kernels in all rounds", n);
    for (int i = 0; i < THREADS; i++) pthread_join(runner[i].thread, NULL);
    app_end(&a);
}

static const char *tool_ranges(const char *path)
{
    const char *(*text)(void) = NULL;

    *(void **)&text = dlsym(dlopen(path, RTLD_NOW), "bp_standin_ranges");
    return text ? text() : "";
}

static void ranges_reach_a_tool(const void *arg)
{
    struct app a;

    (void)arg;
    setenv("NVTX_INJECTION64_PATH", nvtx_path, 1);
    app_begin(&a);
    bp_range_begin("step");
    app_add(&a, 0);
    bp_range_end();
    expect(!strcmp(tool_ranges(nvtx_path), "nvtx3(step;);"), "%s", tool_ranges(nvtx_path));
    app_end(&a);
}

/* The test runner sets LD_LIBRARY_PATH: the loader would find the stand-ins by their names. */
static void profile_without_path(char **argv)
{
    if (!getenv("LD_LIBRARY_PATH")) return;
    unsetenv("LD_LIBRARY_PATH");
    execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
    if (argc != 7) return 2;
    profile_without_path(argv);
    plugin_path = argv[1];
    cupti_path = argv[3];
    roctracer_path = argv[4];
    nvtx_path = argv[5];
    run_case("cupti: each add of two streams has its kernel", adds_have_kernels, "cupti");
    run_case("roctracer: each add of two streams has its kernel", adds_have_kernels, "roctracer");
    run_case("no library: the host's events stay", events_of_the_host_stay, NULL);
    run_case("a start fails: the host's events stay", events_of_the_host_stay,
             "cuptiActivityEnable:2:35");
    run_case("a flush fails: the host's events stay", events_of_the_host_stay,
             "cuptiActivityFlushAll:1:999");
    run_case("a clock fails: the host's events stay", events_of_the_host_stay,
             "cuptiGetTimestamp:1:999");
    run_case("cupti: starts under threads", starts_under_threads, "cupti");
    run_case("roctracer: starts under threads", starts_under_threads, "roctracer");
    run_case("ranges of the app reach a tool", ranges_reach_a_tool, NULL);
    return cases_end();
}
