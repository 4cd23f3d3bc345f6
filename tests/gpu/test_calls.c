/* SPDX-License-Identifier: Apache-2.0 */
/* test_calls.c: lets each driver call of plugins/gpu fail once, at each place where it is made, and
 * tests the report and the recovery. The callback must report the call and its code, or log a
 * warning if it cannot return a failure. Then the same callback must work, or return the same
 * failure if the driver's failures of this kind persist. Nothing may leak, and a new instance must
 * work.
 *
 *   test_calls PLUGIN DRIVER */
#include "kit.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *plugin_path, *driver_path;

/* ---- the steps, which can be repeated ---- */

static enum bp_status calls_create(struct world *w)
{
    return w->self ? BP_OK : w->plugin->create(host(), &w->self);
}

static enum bp_status calls_properties(struct world *w)
{
    struct bp_device_properties p = {.size = sizeof p};
    enum bp_status status = w->r->device_properties(w->self, 0, &p);

    expect(status ||
               (p.memory && (p.units == 2 || *error_text) && !strcmp(p.driver, "simulator 1.0")),
           "memory %" PRIu64 ", %u units, driver %s", p.memory, p.units, p.driver);
    expect(status || *error_text ||
               (!memcmp(p.uuid, "simulated GPU 0", 16) && !strcmp(p.pci, "0000:1a:00.0") &&
                !strcmp(p.arch, "sim_20")),
           "uuid '%.16s', PCI %s, architecture %s", (const char *)p.uuid, p.pci, p.arch);
    return status;
}

static enum bp_status calls_allocate(struct world *w, uint32_t space, uint64_t size,
                                     struct bp_memory *out)
{
    return out->data ? BP_OK : w->r->memory_allocate(w->self, 0, space, size, out);
}

static enum bp_status of_device(struct world *w)
{
    return calls_allocate(w, BP_SPACE_DEVICE, 4096, &w->memory[0]);
}
static enum bp_status of_pinned(struct world *w)
{
    return calls_allocate(w, BP_SPACE_PINNED, 4096, &w->memory[1]);
}
static enum bp_status of_managed(struct world *w)
{
    return calls_allocate(w, BP_SPACE_MANAGED, 4096, &w->memory[2]);
}
static enum bp_status of_large(struct world *w)
{
    return calls_allocate(w, BP_SPACE_DEVICE, LARGE, &w->large);
}
static enum bp_status of_x(struct world *w)
{
    return calls_allocate(w, BP_SPACE_DEVICE, 4096, &w->x);
}
static enum bp_status of_index(struct world *w)
{
    return calls_allocate(w, BP_SPACE_DEVICE, 4096, &w->index);
}
static enum bp_status of_y(struct world *w)
{
    return calls_allocate(w, BP_SPACE_DEVICE, 4096, &w->y);
}
static enum bp_status of_workspace(struct world *w)
{
    return calls_allocate(w, BP_SPACE_DEVICE, 4096, &w->workspace);
}

/* Allocates more than the device has. A failure of memory_info is reported in place of the
 * figures. */
static enum bp_status too_much(struct world *w)
{
    struct bp_memory none = {NULL, NULL};
    size_t before = strlen(error_text);
    enum bp_status status = w->r->memory_allocate(w->self, 0, BP_SPACE_DEVICE, 1 << 30, &none);

    if (status != BP_ERR_MEMORY) return status;
    expect(strstr(error_text + before, "1073741824 bytes were asked for") != NULL, "it said: %s",
           error_text);
    error_text[before] = 0;
    return BP_OK;
}

static enum bp_status calls_info(struct world *w)
{
    uint64_t free_bytes = 0, total = 0;
    enum bp_status status = w->r->memory_info(w->self, 0, &free_bytes, &total);

    expect(status || (free_bytes && free_bytes < total), "free %" PRIu64, free_bytes);
    return status;
}

static enum bp_status calls_streams(struct world *w)
{
    for (int i = 0; i < STREAMS; i++) {
        enum bp_status status =
            w->stream[i] ? BP_OK : w->r->stream_create(w->self, 0, &w->stream[i]);
        if (status) return status;
    }
    return w->other ? BP_OK : w->r->stream_create(w->self, 1, &w->other);
}

static enum bp_status calls_event(struct world *w)
{
    return w->event ? BP_OK : w->r->event_create(w->self, 0, &w->event);
}

/* Copies more often than there are staging buffers. */
static enum bp_status calls_small(struct world *w)
{
    int32_t x[ELEMENTS];
    int64_t index[ELEMENTS];
    enum bp_status status = BP_OK;

    for (int k = 0; k < 7 && status == BP_OK; k++) {
        for (int i = 0; i < ELEMENTS; i++) {
            x[i] = k + i;
            index[i] = ELEMENTS - 1 - i;
        }
        status = put(w, w->x, x, sizeof x);
        if (status == BP_OK) status = put(w, w->index, index, sizeof index);
        memset(x, 0, sizeof x);
        memset(index, 0, sizeof index);
    }
    return status;
}

static enum bp_status calls_large(struct world *w)
{
    static unsigned char bytes[LARGE];
    enum bp_status status;

    for (int i = 0; i < LARGE; i++) bytes[i] = (unsigned char)(i % 251);
    status = put(w, w->large, bytes, LARGE);
    memset(bytes, 0, LARGE);
    if (status == BP_OK) status = get(w, bytes, w->large, LARGE);
    for (int i = 0; i < LARGE && status == BP_OK; i++)
        if (!expect(bytes[i] == i % 251, "byte %d is %d", i, bytes[i])) break;
    return status;
}

static enum bp_status calls_record(struct world *w)
{
    return w->r->event_record(w->self, 0, w->stream[0], w->event);
}
static enum bp_status calls_query(struct world *w)
{
    enum bp_status status;

    while ((status = w->r->event_query(w->self, 0, w->event)) == BP_ERR_NOT_READY) {}
    return status;
}
static enum bp_status wait_some(struct world *w)
{
    return w->r->event_wait(w->self, 0, w->event, UINT64_C(20000000000));
}
static enum bp_status wait_for_ever(struct world *w)
{
    return w->r->event_wait(w->self, 0, w->event, UINT64_MAX);
}
static enum bp_status calls_follow(struct world *w)
{
    enum bp_status status = w->r->stream_wait(w->self, 0, w->stream[1], w->event);

    return status ? status : w->r->stream_wait(w->self, 1, w->other, w->event);
}

static enum bp_status calls_gather(struct world *w)
{
    return launch_gather(w);
}

/* Checks y = x[index], which stream 0 has computed, by way of a copy. */
static enum bp_status calls_compare(struct world *w)
{
    struct bp_copy copy = {NULL, w->memory[0].data, NULL, w->y.data, 64};
    int32_t y[ELEMENTS];
    enum bp_status status = w->r->copy_within(w->self, 0, w->stream[0], &copy);

    if (status == BP_OK) status = get(w, y, w->memory[0], sizeof y);
    for (int i = 0; i < ELEMENTS && status == BP_OK; i++)
        expect(y[i] == 6 + ELEMENTS - 1 - i, "y[%d] is %d", i, y[i]);
    return status;
}

/* Copies y to device 1, and reads it from there. */
static enum bp_status of_there(struct world *w)
{
    if (w->there.data) return BP_OK;
    return w->r->memory_allocate(w->self, 1, BP_SPACE_DEVICE, 4096, &w->there);
}
static enum bp_status calls_peer(struct world *w)
{
    struct bp_copy to = {NULL, w->there.data, NULL, w->y.data, 64};
    int32_t y[ELEMENTS];
    struct bp_copy from = {NULL, y, NULL, w->there.data, 64};
    enum bp_status status = w->r->copy_peer(w->self, 0, w->stream[0], 1, &to);

    if (status == BP_OK) status = w->r->copy_out(w->self, 0, w->stream[0], &from);
    for (int i = 0; i < ELEMENTS && status == BP_OK; i++)
        expect(y[i] == 6 + ELEMENTS - 1 - i, "y[%d] there is %d", i, y[i]);
    return status;
}

/* Counts the bytes of the indices 15 and 14, at the front, as truth values. */
static enum bp_status calls_count(struct world *w)
{
    enum bp_status status = launch_count(w, &w->result);

    if (status == BP_OK) status = w->r->synchronize(w->self, 0, w->stream[0]);
    expect(status || w->result == 2, "the result is %" PRId64, w->result);
    return status;
}

/* Records y = x[index], which is not executed. A failure in between is a failure of the capture. */
static enum bp_status calls_capture(struct world *w)
{
    struct bp_copy copy = {NULL, w->memory[0].data, NULL, w->y.data, 64};
    enum bp_status status = w->recording ? BP_OK
                                         : w->g->capture_begin(w->self, 0, w->stream[0]);

    if (status || w->recording) return status;
    status = launch_gather(w);
    if (status == BP_OK) status = w->r->copy_within(w->self, 0, w->stream[0], &copy);
    if (status == BP_OK)
        return w->g->capture_end(w->self, 0, w->stream[0], &w->recording);
    w->g->capture_abort(w->self, 0, w->stream[0]);
    return status;
}

/* Replays the recording with a new x each time: the result must be that of the new x. */
static enum bp_status calls_replay(struct world *w)
{
    int32_t x[ELEMENTS], y[ELEMENTS];
    enum bp_status status = BP_OK;

    for (int k = 0; k < 3 && status == BP_OK; k++) {
        for (int i = 0; i < ELEMENTS; i++) x[i] = 100 * k + i;
        status = put(w, w->x, x, sizeof x);
        if (status == BP_OK) status = w->g->replay(w->self, 0, w->recording, w->stream[0]);
        if (status == BP_OK) status = get(w, y, w->memory[0], sizeof y);
        for (int i = 0; i < ELEMENTS && status == BP_OK; i++)
            expect(y[i] == 100 * k + ELEMENTS - 1 - i, "replay %d: y[%d] is %d", k, i, y[i]);
    }
    return status;
}

/* Aborts a capture. */
static enum bp_status calls_give_up(struct world *w)
{
    enum bp_status status = w->g->capture_begin(w->self, 0, w->stream[1]);

    if (status == BP_OK) w->g->capture_abort(w->self, 0, w->stream[1]);
    return status ? status : w->r->synchronize(w->self, 0, w->stream[1]);
}

static enum bp_status synchronize_all(struct world *w)
{
    return w->r->synchronize(w->self, 0, NULL);
}

static const struct step {
    const char *name;
    enum bp_status (*run)(struct world *w);
} steps[] = {
#define STEP(name) {#name, name},
    STEP(calls_create) STEP(calls_properties) STEP(of_device) STEP(of_pinned) STEP(of_managed)
    STEP(of_large) STEP(of_x) STEP(of_index) STEP(of_y) STEP(of_workspace) STEP(too_much)
    STEP(calls_info) STEP(of_there) STEP(calls_streams) STEP(calls_event) STEP(calls_small)
    STEP(calls_large) STEP(calls_record) STEP(calls_query) STEP(wait_some) STEP(wait_for_ever)
    STEP(calls_follow) STEP(calls_gather) STEP(calls_compare) STEP(calls_peer) STEP(calls_count)
    STEP(calls_capture) STEP(calls_replay) STEP(calls_give_up) STEP(synchronize_all)
#undef STEP
};
enum { STEPS = sizeof steps / sizeof *steps };

/* ---- failures ---- */

/* Whether failures of this call persist: those of work on the device do. */
static bool calls_stays(const char *call)
{
    return !strcmp(call, "work");
}

/* Runs all steps, and each failed step once more. Returns the number of steps that failed. */
static int calls_run_steps(struct world *w)
{
    int failures = 0;

    for (int i = 0; i < STEPS; i++) {
        enum bp_status status = steps[i].run(w);
        if (status == BP_OK) continue;
        failures++;
        unsetenv("BP_SIM_FAIL");
        status = steps[i].run(w);
        expect(status == BP_OK, "%s, done again, answers %d: %s", steps[i].name, status,
               error_text);
        if (!w->self) return failures;
    }
    return failures;
}

/* After a failure that persists, every later step must return the same failure. */
static int run_to_the_end(struct world *w)
{
    int failures = 0;

    for (int i = 0; i < STEPS; i++) {
        enum bp_status status = steps[i].run(w);
        expect(status || !failures, "%s works on a lost device", steps[i].name);
        if (status) expect(status == BP_ERR_DEVICE_LOST, "%s: %d", steps[i].name, status);
        failures += status != BP_OK;
    }
    return failures;
}

static void nothing_is_left(const char *when)
{
    expect(!host_live, "%s: %d allocations of the host's are not given back", when, host_live);
    expect(!driver_live(driver_path), "%s: %zu things of the driver's are not given back", when,
           driver_live(driver_path));
}

static void all_works(const char *when)
{
    struct world w = {.plugin = load(plugin_path)};

    unsetenv("BP_SIM_FAIL");
    expect_no_error();
    w.r = w.plugin->runtime, w.g = w.plugin->captures;
    expect(calls_run_steps(&w) == 0 && !*error_text, "%s: %s", when, error_text);
    world_end(&w);
    nothing_is_left(when);
}

static void calls_fails(const void *arg)
{
    const struct failing_call *f = arg;
    struct world w = {.plugin = load(plugin_path)};
    char text[64];
    int failures;

    snprintf(text, sizeof text, "%s:%d:%d", f->call, f->n, f->code);
    setenv("BP_SIM_FAIL", text, 1);
    if (!strcmp(f->call, "context_flags")) setenv("BP_SIM_WAIT", "block", 1);
    setenv("BP_SIM_DEVICES", "2", 1);
    setenv("BP_SIM_MEMORY", "67108864", 1);
    w.r = w.plugin->runtime, w.g = w.plugin->captures;
    failures = calls_stays(f->call) ? run_to_the_end(&w) : calls_run_steps(&w);
    world_end(&w);
    if (!failures && !*error_text) exit(NOT_REACHED);
    if (calls_stays(f->call)) snprintf(text, sizeof text, " answers %d: ", f->code);
    else snprintf(text, sizeof text, "sim_%s answers %d: ", f->call, f->code);
    expect(strstr(error_text, text) != NULL, "expected '%s', it said: %s", text, error_text);
    expect(calls_stays(f->call) ? failures > 1 : failures <= 1, "%d steps failed", failures);
    nothing_is_left("after the failure");
    all_works("afterwards");
}

static void calls_works(const void *arg)
{
    (void)arg;
    setenv("BP_SIM_DEVICES", "2", 1);
    setenv("BP_SIM_MEMORY", "67108864", 1);
    all_works("without a failure");
}

/* Uses a communicator of one rank. */
static void calls_communicate(struct world *w)
{
    const struct bp_ccl *ccl = w->plugin->ccl;
    const struct bp_ccl_call call = {.src = w->x.data, .dst = w->y.data, .count = 4,
                                     .dtype = BP_F32, .reduction = BP_REDUCE_SUM};
    uint32_t version = 0;
    struct bp_ccl_id id;
    void *comm = NULL;

    expect(!ccl->version(w->self, &version), "version: %s", error_text); /* opens the library */
    for (int i = 0; i < 4; i++) {
        bool polls = i / 2;
        expect(!ccl->unique_id(w->self, &id), "unique_id: %s", error_text);
        caller_stays("unique_id");
        expect(!(polls ? ccl->comm_begin : ccl->comm_create)(w->self, 0, &id, 0, 1, &comm),
               "join: %s", error_text);
        caller_stays("comm_create, comm_begin");
        expect(!polls || ccl->comm_joined(w->self, comm) == BP_ERR_TIMEOUT, "joined at once");
        while (polls && ccl->comm_joined(w->self, comm) == BP_ERR_TIMEOUT) usleep(100);
        expect(!polls || !ccl->comm_joined(w->self, comm), "comm_joined: %s", error_text);
        caller_stays("comm_joined");
        expect(!ccl->all_reduce(w->self, comm, w->stream[0], &call), "all_reduce: %s", error_text);
        caller_stays("all_reduce");
        expect(!w->r->synchronize(w->self, 0, w->stream[0]), "synchronize: %s", error_text);
        if (i % 2) ccl->comm_abort(w->self, comm);
        caller_stays("comm_abort");
        ccl->comm_destroy(w->self, comm);
        caller_stays("comm_destroy");
    }
}

/* arg: the device whose context the thread makes current before anything else, or -1: none. */
static void caller_keeps_its_context(const void *arg)
{
    struct world w = {.plugin = load(plugin_path)};

    setenv("BP_SIM_DEVICES", "3", 1);
    setenv("BP_SIM_MEMORY", "67108864", 1);
    caller_begin(driver_path, *(const int *)arg);
    w.r = w.plugin->runtime, w.g = w.plugin->captures;
    for (int i = 0; i < STEPS; i++) {
        expect(steps[i].run(&w) == BP_OK, "%s: %s", steps[i].name, error_text);
        caller_stays(steps[i].name);
    }
    calls_communicate(&w);
    world_end(&w);
    caller_stays("destroy");
    caller_end();
    nothing_is_left("afterwards");
    expect(!*error_text, "it said: %s", error_text);
}

/* Each allocation from the host fails once. */
static void without_memory(const void *arg)
{
    const struct bp_plugin *plugin = load(plugin_path);
    int n = 0, failures;

    (void)arg;
    setenv("BP_SIM_DEVICES", "2", 1);
    setenv("BP_SIM_MEMORY", "67108864", 1);
    do {
        struct world w = {.plugin = plugin, .r = plugin->runtime, .g = plugin->captures};
        expect_no_error();
        host_doomed = ++n;
        failures = calls_run_steps(&w);
        host_doomed = 0;
        expect(!failures || strstr(error_text, "no memory for "), "it said: %s", error_text);
        world_end(&w);
        nothing_is_left("without memory");
    } while (failures);
    expect(n == 8, "%d allocations", n - 1);
}

/* A core of ABI 0.1 passes a smaller struct. */
static void properties_of_an_older_core(const void *arg)
{
    struct bp_device_properties p;
    struct world w = {.plugin = load(plugin_path)};

    (void)arg;
    w.r = w.plugin->runtime;
    memset(&p, 0x5a, sizeof p);
    p.size = offsetof(struct bp_device_properties, uuid);
    expect(!calls_create(&w) && !w.r->device_properties(w.self, 0, &p), "it said: %s", error_text);
    expect(p.units == 2 && p.uuid[0] == 0x5a && p.pci[0] == 0x5a &&
               p.arch[0] == 0x5a,
           "it is written past its end");
    world_end(&w);
}

/* Of four devices the kernels are for the second and the fourth: only these are the plugin's
 * devices. */
static void unfit_devices_are_left_out(const void *arg)
{
    struct bp_device_properties p = {.size = sizeof p};
    struct world w = {.plugin = load(plugin_path)};
    uint32_t n = 0;

    (void)arg;
    setenv("BP_SIM_DEVICES", "4", 1);
    setenv("BP_SIM_ARCH", "19,22,18,31", 1);
    w.r = w.plugin->runtime, w.g = w.plugin->captures;
    expect(!w.plugin->create(host(), &w.self) && !w.r->device_count(w.self, &n), "create: %s",
           error_text);
    expect(n == 2, "%u devices", n);
    expect(strstr(error_text,
                  "sim: the driver's device 0, simulated GPU, is sim_19, and kernels are "
                  "compiled for 20, 30+ptx: it is left out") &&
               strstr(error_text, "device 2, simulated GPU, is sim_18") &&
               !strstr(error_text, "device 1,") && !strstr(error_text, "device 3,"),
           "it said: %s", error_text);
    expect_no_error();
    expect(!w.r->device_properties(w.self, 0, &p) && !strcmp(p.arch, "sim_22") &&
               !strcmp(p.pci, "0000:1b:00.0") && !w.r->device_properties(w.self, 1, &p) &&
               !strcmp(p.arch, "sim_31") && !strcmp(p.pci, "0000:1d:00.0"),
           "the last one is %s at %s: %s", p.arch, p.pci, error_text);
    for (int i = 1; i < STEPS; i++) /* device 0 is not the one of other cases */
        if (strcmp(steps[i].name, "calls_properties") != 0)
            expect(steps[i].run(&w) == BP_OK, "%s: %s", steps[i].name, error_text);
    world_end(&w);
    nothing_is_left("afterwards");
    expect(!*error_text, "it said: %s", error_text);
}

static void without_a_device_that_fits(const void *arg)
{
    const struct bp_plugin *plugin = load(plugin_path);
    enum bp_status status;
    void *self = NULL;

    (void)arg;
    setenv("BP_SIM_DEVICES", "2", 1);
    setenv("BP_SIM_ARCH", "19", 1);
    status = plugin->create(host(), &self);
    expect(status == BP_ERR_ABSENT && !self, "create answers %d", status);
    expect(strstr(error_text,
                  "sim: no device that has kernels: the driver's device 1, simulated GPU, "
                  "is sim_19, and kernels are compiled for 20, 30+ptx\n") != NULL,
           "it said: %s", error_text);
    nothing_is_left("afterwards");
}

/* Managed memory is refused where the device has none, or none that the host may use at any time
 * (arg: BP_SIM_MANAGED); so is a request beyond the free memory, which the simulator itself would
 * grant. */
static void managed_memory(const void *arg)
{
    static const char *const logged[] = {
        "sim:0: the device has no managed memory: use pinned memory",
        "sim:0: the device has no managed memory that the host may use while kernels run: use",
        "sim_managed_allocate: 40000000 bytes were asked for, 37108864 of 67108864 are free"};
    int given = *(const int *)arg;
    struct world w = {.plugin = load(plugin_path)};
    char number[2] = {(char)('0' + given)};
    enum bp_status status;

    setenv("BP_SIM_MEMORY", "67108864", 1);
    setenv("BP_SIM_MANAGED", number, 1);
    w.r = w.plugin->runtime;
    expect(!calls_create(&w) && !calls_allocate(&w, BP_SPACE_DEVICE, 30000000, &w.memory[0]) &&
               !of_pinned(&w),
           "beginning: %s", error_text);
    status = calls_allocate(&w, BP_SPACE_MANAGED, 40000000, &w.memory[2]);
    expect(status == (given == 2 ? BP_ERR_MEMORY : BP_ERR_UNSUPPORTED) &&
               strstr(error_text, logged[given]),
           "it answers %d: %s", status, error_text);
    status = calls_allocate(&w, BP_SPACE_MANAGED, 30000000, &w.memory[2]);
    expect(status == (given == 2 ? BP_OK : BP_ERR_UNSUPPORTED), "it answers %d: %s", status,
           error_text);
    world_end(&w);
    nothing_is_left("afterwards");
}

/* Steps wait for work that is delayed. arg: BP_SIM_WAIT, "block", or another value, with which the
 * driver spins. */
static void waits_block(const void *arg)
{
    struct world w = {.plugin = load(plugin_path)};
    bool block = !strcmp(arg, "block");
    size_t spun;

    setenv("BP_SIM_DEVICES", "2", 1);
    setenv("BP_SIM_DELAY", "3000", 1);
    setenv("BP_SIM_WAIT", arg, 1);
    w.r = w.plugin->runtime, w.g = w.plugin->captures;
    for (int i = 0; i < 10; i++) {
        for (int k = 0; k < STEPS; k++)
            expect(steps[k].run(&w) == BP_OK, "%s: %s", steps[k].name, error_text);
        spun = driver_spun(driver_path);
        if (block && !expect(!spun, "after turn %d the driver has spun %zu times", i, spun)) break;
    }
    expect(block || spun > 0, "the driver has not spun");
    world_end(&w);
    expect(strcmp(arg, "maybe")
               ? !*error_text
               : strstr(error_text, "BP_SIM_WAIT is 'maybe': expected block") != NULL,
           "it said: %s", error_text);
}

static double calls_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Launches the first kernel of a family, whose module is not loaded yet. */
static _Atomic bool loaded;
static void *launch_first(void *p)
{
    struct world *w = p;
    double start = calls_seconds();

    expect(launch_count(w, &w->result) == BP_OK, "count: %s", error_text);
    expect(calls_seconds() - start >= 1, "the module was loaded in %.3f s",
           calls_seconds() - start);
    loaded = true;
    return NULL;
}

/* Queries an event after a launch; the query also reports the launch's faults. */
static void events_while_a_module_is_loaded(const void *arg)
{
    double longest = 0, start;
    pthread_t thread;
    struct world w;
    int n = 0;

    (void)arg;
    setenv("BP_SIM_LOAD", "1000000", 1);
    expect(!world_make(&w, load(plugin_path)) && !calls_event(&w) && !calls_small(&w) &&
               !launch_gather(&w) && !calls_record(&w),
           "beginning: %s", error_text);
    pthread_create(&thread, NULL, launch_first, &w);
    while (!loaded) {
        start = calls_seconds();
        expect(calls_query(&w) == BP_OK, "query: %s", error_text);
        if (calls_seconds() - start > longest) longest = calls_seconds() - start;
        n++;
        usleep(1000);
    }
    pthread_join(thread, NULL);
    expect(longest < 0.5, "one of %d queries took %.3f s", n, longest);
    world_end(&w);
    nothing_is_left("afterwards");
}

int main(int argc, char **argv)
{
    static const int none = -1, own = 0, other = 2, managed[] = {0, 1, 2};
    static const char *const calls[] = {
#define CALL(name, cuda, hip, parameters) #name,
#include "gpu/calls.def"
        "work",
    };

    if (argc != 3) return 2;
    plugin_path = argv[1];
    driver_path = argv[2];
    run_case("all works where nothing fails", calls_works, NULL);
    run_case("a caller without a context has none afterwards", caller_keeps_its_context, &none);
    run_case("a caller's context of the same device stays", caller_keeps_its_context, &own);
    run_case("a caller's context of another device stays", caller_keeps_its_context, &other);
    run_case("properties that an older core asks for", properties_of_an_older_core, NULL);
    run_case("devices that no image is for are left out", unfit_devices_are_left_out, NULL);
    run_case("without a device that images are for", without_a_device_that_fits, NULL);
    run_case("a device without managed memory", managed_memory, &managed[0]);
    run_case("managed memory while no kernel runs", managed_memory, &managed[1]);
    run_case("more managed memory than is free", managed_memory, &managed[2]);
    run_case("waits sleep where they are told to", waits_block, "block");
    run_case("waits spin otherwise", waits_block, "spin");
    run_case("waits are told nonsense", waits_block, "maybe");
    run_case("events are asked for while a module is loaded", events_while_a_module_is_loaded,
             NULL);
    run_case("no memory of the host's", without_memory, NULL);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strcmp(calls[i], "device_description") != 0 && /* only hip has it */
            strcmp(calls[i], "error_text") != 0)           /* cannot fail */
            each_place(calls[i], calls_stays(calls[i]) ? 719 : 999, calls_fails, NULL);
    return cases_end();
}
