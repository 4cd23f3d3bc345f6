/* SPDX-License-Identifier: Apache-2.0 */
/* test_profile_fails.c: tests plugins/gpu's profiler where the library of the vendor fails, is
 * absent, is too old, or hands over strange records; and the app's ranges. Work goes on in each
 * case.
 *
 *   test_profile_fails PLUGIN DRIVER CUPTI ROCTRACER NVTX ROCTX */
#include "profile_kit.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *plugin_path, *driver_path, *nvtx_path, *roctx_path;
static struct tracer tracers[2] = {{"cupti", "BP_SIM_CUPTI", "BP_SIM_ROCTRACER", NULL},
                                   {"roctracer", "BP_SIM_ROCTRACER", "BP_SIM_CUPTI", NULL}};
static struct taker taker;

/* A function of a tracer that fails: the call of it that fails; and whether a start fails then. */
struct fault {
    const char *function;
    int call;
    bool at_start;
    int tracer;
};

static void fails_begin(struct world *w, const struct tracer *tracer)
{
    static const int64_t index[ELEMENTS];

    profile_world(w, tracer, plugin_path);
    profile_ok(put(w, w->index, index, sizeof index), "put");
    profile_wait(w);
}

/* The work of a profile. */
static void fails_work(struct world *w)
{
    for (uint64_t tag = 1; tag <= 10; tag++) tagged_launch(w, tag);
    profile_wait(w);
}

/* The second start is not to fail. */
static void a_function_fails(const void *arg)
{
    const struct fault *fault = arg;
    const struct tracer *tracer = &tracers[fault->tracer];
    enum bp_status status;
    char text[96];
    uint64_t now;
    struct world w;

    snprintf(text, sizeof text, "%s:%d:35", fault->function, fault->call);
    setenv("BP_SIM_FAIL", text, 1);
    fails_begin(&w, tracer);
    status = profile_start(&w, 0, &taker);
    expect((status == BP_ERR_UNSUPPORTED) == fault->at_start, "start answers %d: %s", status,
           error_text);
    snprintf(text, sizeof text, "%s answers 35", fault->function);
    if (status == BP_OK) {
        fails_work(&w);
        w.plugin->profiler->clock(w.self, 0, &now);
        w.plugin->profiler->flush(w.self, 0);
        profile_stop(&w, 0, &taker);
    } else {
        fails_work(&w);
        expect(fault->tracer || !standin_number(tracer, "bp_standin_cupti_enabled"),
               "kinds are left");
    }
    expect(strstr(error_text, text) || strstr(error_text, "has version 0"), "no '%s' in: %s", text,
           error_text);
    expect_no_error();
    profile_ok(profile_start(&w, 0, &taker), "the second start");
    fails_work(&w);
    profile_stop(&w, 0, &taker);
    expect(fault->call > 100 || taken_count(&taker, BP_RECORD_KERNEL, NULL, 0) == 10,
           "records of the second profile: %zu", taken_count(&taker, BP_RECORD_KERNEL, NULL, 0));
    expect(!*error_text, "messages: %s", error_text);
    profile_end(&w, driver_path);
}

/* Functions whose failure costs records only: nothing is reported, and the work goes on. */
static void a_reader_fails(const void *arg)
{
    const struct fault *fault = arg;
    char text[96];
    struct world w;

    snprintf(text, sizeof text, "%s:%d:1", fault->function, fault->call);
    setenv("BP_SIM_FAIL", text, 1);
    fails_begin(&w, &tracers[fault->tracer]);
    profile_ok(profile_start(&w, 0, &taker), "start");
    fails_work(&w);
    profile_stop(&w, 0, &taker);
    profile_ok(profile_start(&w, 0, &taker), "the second start");
    fails_work(&w);
    profile_stop(&w, 0, &taker);
    taken_each(&taker, BP_RECORD_KERNEL, w.stream[0], 10);
    profile_end(&w, driver_path);
}

/* The message names the files that were looked for, or the one that a setting names. */
static void no_library(const void *arg)
{
    const struct tracer *tracer = arg;
    struct tracer none = *tracer;
    struct world w;

    none.path = "/nowhere/libtracer.so.7";
    fails_begin(&w, &none);
    expect(profile_start(&w, 0, &taker) == BP_ERR_UNSUPPORTED &&
               strstr(error_text, "/nowhere/libtracer.so.7"),
           "start: %s", error_text);
    fails_work(&w);
    profile_end(&w, driver_path);
}

static void no_library_by_its_name(const void *arg)
{
    const struct tracer *tracer = arg;
    char file[64];
    struct world w;

    unsetenv(tracer->setting);
    setenv(tracer->other, "off", 1);
    profile_ok(world_make(&w, load(plugin_path)), "world_make");
    snprintf(file, sizeof file, "libbp_standin_%s.so", tracer->name);
    expect(profile_start(&w, 0, &taker) == BP_ERR_UNSUPPORTED && strstr(error_text, file),
           "start: %s", error_text);
    profile_end(&w, driver_path);
}

static void an_old_library(const void *arg)
{
    const struct tracer *tracer = arg;
    struct world w;

    setenv("BP_STANDIN_CUPTI_VERSION", "12", 1);
    setenv("BP_STANDIN_ROCTRACER_VERSION", "3", 1);
    fails_begin(&w, tracer);
    expect(profile_start(&w, 0, &taker) == BP_ERR_UNSUPPORTED && strstr(error_text, tracer->path) &&
               strstr(error_text, tracer == tracers ? "version 12" : "version 3"),
           "start: %s", error_text);
    fails_work(&w);
    profile_end(&w, driver_path);
}

/* CUPTI 13 has no records of allocations, and shorter records of kernels. */
static void the_oldest_library(const void *arg)
{
    struct world w;

    (void)arg;
    setenv("BP_STANDIN_CUPTI_VERSION", "13", 1);
    fails_begin(&w, &tracers[0]);
    profile_ok(profile_start(&w, 0, &taker), "start");
    expect(standin_number(&tracers[0], "bp_standin_cupti_enabled") == 8, "another number of kinds");
    fails_work(&w);
    profile_stop(&w, 0, &taker);
    taken_each(&taker, BP_RECORD_KERNEL, w.stream[0], 10);
    profile_end(&w, driver_path);
}

/* CUPTI returns buffers after stop. */
static void late_records(const void *arg)
{
    struct world w;

    (void)arg;
    setenv("BP_STANDIN_CUPTI_KEEPS", "1", 1);
    fails_begin(&w, &tracers[0]);
    profile_ok(profile_start(&w, 0, &taker), "start");
    fails_work(&w);
    profile_stop(&w, 0, &taker);
    standin_put(&tracers[0], "bp_standin_cupti_deliver", NULL, 0);
    expect(!taker.n, "%zu records", taker.n);
    setenv("BP_STANDIN_CUPTI_KEEPS", "0", 1);
    profile_ok(profile_start(&w, 0, &taker), "start");
    fails_work(&w);
    profile_stop(&w, 0, &taker);
    taken_each(&taker, BP_RECORD_KERNEL, w.stream[0], 10);
    expect(!*error_text, "messages: %s", error_text);
    profile_end(&w, driver_path);
}

/* A memset of a library on a stream of its own; a kernel without times, one that ends before it
 * begins, one of another device; a record of a kind that no part of the plugin enables. */
static void strange_records(const void *arg)
{
    uint64_t now;
    struct {
        uint32_t kind, value;
        uint64_t bytes, start, end;
        uint32_t device, context, stream, correlation;
        uint64_t rest[5];
    } memset_record = {.kind = 2, .bytes = 777, .context = 1, .stream = 99};
    struct {
        uint32_t kind, head[3];
        uint64_t start, end, completed;
        uint32_t device, context, stream, other[13];
        const char *name;
        uint64_t rest[13];
    } kernel = {.kind = 10, .context = 1, .stream = 99, .name = "strange"};
    uint32_t unknown[24] = {1, 0};
    struct world w;

    (void)arg;
    fails_begin(&w, &tracers[0]);
    profile_ok(profile_start(&w, 0, &taker), "start");
    profile_ok(w.plugin->profiler->clock(w.self, 0, &now), "clock");
    memset_record.start = memset_record.end = now;
    standin_put(&tracers[0], "bp_standin_cupti_put", &memset_record, 88);
    standin_put(&tracers[0], "bp_standin_cupti_put", &kernel, 216);
    kernel.start = now;
    kernel.end = now - 1;
    standin_put(&tracers[0], "bp_standin_cupti_put", &kernel, 216);
    kernel.end = now;
    kernel.device = 55;
    standin_put(&tracers[0], "bp_standin_cupti_put", &kernel, 216);
    unknown[0] = 4;
    standin_put(&tracers[0], "bp_standin_cupti_put", unknown, 40);
    fails_work(&w);
    profile_stop(&w, 0, &taker);
    taken_each(&taker, BP_RECORD_KERNEL, w.stream[0], 10);
    expect(taken_count(&taker, BP_RECORD_KERNEL, NULL, 0) == 10, "a strange kernel");
    expect(strstr(error_text, "2 records of CUPTI have no times"), "%s", error_text);
    expect(taken_count(&taker, BP_RECORD_MEMORY, NULL, 0) == 1, "no memset");
    for (size_t i = 0; i < taker.n; i++)
        if (taker.taken[i].record.kind == BP_RECORD_MEMORY)
            expect(taker.taken[i].record.bytes == 777 && !taker.taken[i].record.stream, "memset");
    profile_end(&w, driver_path);
}

static void a_fill_by_roctracer(const void *arg)
{
    struct {
        uint32_t domain, kind, op, pad;
        uint64_t correlation, begin, end, device, queue, bytes;
    } fill = {.domain = 2, .kind = 0x1207, .op = 1, .bytes = 55}, barrier = {.domain = 2, .op = 2};
    struct world w;

    (void)arg;
    fails_begin(&w, &tracers[1]);
    profile_ok(profile_start(&w, 0, &taker), "start");
    profile_ok(w.plugin->profiler->clock(w.self, 0, &fill.begin), "clock");
    fill.end = barrier.begin = barrier.end = fill.begin;
    standin_put(&tracers[1], "bp_standin_roctracer_put", &fill, 0);
    standin_put(&tracers[1], "bp_standin_roctracer_put", &barrier, 0);
    profile_stop(&w, 0, &taker);
    expect(taken_count(&taker, BP_RECORD_MEMORY, NULL, 0) == 1 && taker.taken[0].record.bytes == 55,
           "no fill");
    expect(taken_count(&taker, BP_RECORD_WAIT, NULL, 0) == 1 && taker.n == 2, "no barrier");
    profile_end(&w, driver_path);
}

static void dropped_records_are_counted(const void *arg)
{
    struct world w;
    void (*drop)(size_t) = NULL;

    (void)arg;
    *(void **)&drop = dlsym(dlopen(tracers[0].path, RTLD_NOW), "bp_standin_cupti_drop");
    fails_begin(&w, &tracers[0]);
    profile_ok(profile_start(&w, 0, &taker), "start");
    drop(41);
    fails_work(&w);
    profile_stop(&w, 0, &taker);
    expect(strstr(error_text, "CUPTI dropped 41 records"), "%s", error_text);
    profile_end(&w, driver_path);
}

/* ---- ranges ---- */

struct ranges {
    const char *injected, *loaded, *expected, *warning;
    bool refuses;
};

static void ranges_arrive(const void *arg)
{
    const struct ranges *r = arg;
    const char *tool = r->injected && *r->injected == '/' ? r->injected : r->loaded;
    const char *(*text)(void) = NULL;
    const struct bp_profilers *p;
    struct world w;

    if (r->injected) setenv("NVTX_INJECTION64_PATH", r->injected, 1);
    if (r->refuses) setenv("BP_STANDIN_NVTX_REFUSES", "1", 1);
    if (r->loaded == roctx_path) setenv("BP_SIM_ROCTX", roctx_path, 1);
    else if (r->loaded) dlopen(r->loaded, RTLD_NOW);
    fails_begin(&w, &tracers[0]);
    p = w.plugin->profiler;
    p->range_end(w.self); /* of a range that began before the plugin was loaded */
    p->range_begin(w.self, "outer");
    p->range_begin(w.self, "inner");
    p->mark(w.self, "point");
    p->range_end(w.self);
    p->range_end(w.self);
    if (tool) *(void **)&text = dlsym(dlopen(tool, RTLD_NOW), "bp_standin_ranges");
    if (r->expected) expect(text && !strcmp(text(), r->expected), "ranges: %s", text ? text() : "");
    if (r->warning) expect(strstr(error_text, r->warning), "no warning: %s", error_text);
    else expect(!*error_text, "messages: %s", error_text);
    profile_end(&w, driver_path);
}

/* The first call that reaches the tool may be a mark. */
static void a_mark_arrives(const void *unused)
{
    const char *(*text)(void) = NULL;
    struct world w;

    (void)unused;
    setenv("NVTX_INJECTION64_PATH", nvtx_path, 1);
    fails_begin(&w, &tracers[0]);
    w.plugin->profiler->mark(w.self, "first");
    *(void **)&text = dlsym(dlopen(nvtx_path, RTLD_NOW), "bp_standin_ranges");
    expect(text && !strcmp(text(), "nvtx3!first;"), "marks: %s", text ? text() : "");
    profile_end(&w, driver_path);
}

static void run_ranges(void)
{
    const struct ranges injected = {nvtx_path, NULL, "nvtx3(outer;nvtx3(inner;nvtx3!point;););",
                                    NULL, false},
                        loaded = {NULL, nvtx_path, "nvtx2(outer;nvtx2(inner;nvtx2!point;););", NULL,
                                  false},
                        roctx = {NULL, roctx_path, "roctx(outer;roctx(inner;roctx!point;););", NULL,
                                 false},
                        refused = {nvtx_path, NULL, "nvtx2(outer;nvtx2(inner;nvtx2!point;););",
                                   "InitializeInjectionNvtx2 answers 0", true},
                        missing = {"nowhere.so", NULL, NULL, "nowhere.so: it cannot be opened",
                                   false},
                        foreign = {driver_path, NULL, NULL, "it has no function", false},
                        none = {NULL, NULL, NULL, NULL, false};

    run_case("ranges: a mark without a range", a_mark_arrives, NULL);
    run_case("ranges: a tool is injected into NVTX 3", ranges_arrive, &injected);
    run_case("ranges: the process has loaded NVTX 2", ranges_arrive, &loaded);
    run_case("ranges: roctx", ranges_arrive, &roctx);
    run_case("ranges: a tool refuses", ranges_arrive, &refused);
    run_case("ranges: a tool's library is missing", ranges_arrive, &missing);
    run_case("ranges: a library is no tool", ranges_arrive, &foreign);
    run_case("ranges: no tool", ranges_arrive, &none);
}

static void run_faults(void)
{
    static const struct fault faults[] = {
        {"cuptiGetVersion", 1, true, 0},
        {"cuptiActivityRegisterCallbacks", 1, true, 0},
        {"cuptiActivityEnable", 1, true, 0},
        {"cuptiActivityEnable", 5, true, 0},
        {"cuptiActivityEnable", 9, true, 0},
        {"cuptiActivityDisable", 1, false, 0},
        {"cuptiActivityFlushAll", 1, false, 0},
        {"cuptiActivityFlushAll", 2, false, 0},
        {"cuptiGetTimestamp", 1, false, 0},
        {"cuptiGetContextId", 1, false, 0},
        {"cuptiGetStreamIdEx", 1, false, 0},
        {"cuptiActivityPushExternalCorrelationId", 3, false, 0},
        {"cuptiActivityPopExternalCorrelationId", 3, false, 0},
        {"roctracer_open_pool_expl", 1, true, 1},
        {"roctracer_set_properties", 1, true, 1},
        {"roctracer_enable_domain_activity_expl", 1, true, 1},
        {"roctracer_enable_domain_activity_expl", 2, true, 1},
        {"roctracer_disable_domain_activity", 1, false, 1},
        {"roctracer_disable_domain_activity", 2, false, 1},
        {"roctracer_flush_activity_expl", 1, false, 1},
        {"roctracer_flush_activity_expl", 2, false, 1},
        {"roctracer_get_timestamp", 1, false, 1},
        {"roctracer_activity_push_external_correlation_id", 3, false, 1},
        {"roctracer_activity_pop_external_correlation_id", 3, false, 1},
    };
    static const struct fault readers[] = {
        {"cuptiActivityGetNextRecord", 1, false, 0},
        {"cuptiActivityGetNumDroppedRecords", 1, false, 0},
    };
    char name[128];

    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        snprintf(name, sizeof name, "call %d of %s fails", faults[i].call, faults[i].function);
        run_case(name, a_function_fails, &faults[i]);
    }
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
        snprintf(name, sizeof name, "%s fails", readers[i].function);
        run_case(name, a_reader_fails, &readers[i]);
    }
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
    driver_path = argv[2];
    tracers[0].path = argv[3];
    tracers[1].path = argv[4];
    nvtx_path = argv[5];
    roctx_path = argv[6];
    run_faults();
    for (int i = 0; i < 2; i++) {
        run_case("no library in the file that a setting names", no_library, &tracers[i]);
        run_case("no library of the usual names", no_library_by_its_name, &tracers[i]);
        run_case("an old library", an_old_library, &tracers[i]);
    }
    run_case("the oldest CUPTI", the_oldest_library, NULL);
    run_case("buffers are returned after stop", late_records, NULL);
    run_case("strange records", strange_records, NULL);
    run_case("a fill and a barrier by roctracer", a_fill_by_roctracer, NULL);
    run_case("records that CUPTI drops are counted", dropped_records_are_counted, NULL);
    run_ranges();
    return cases_end();
}
