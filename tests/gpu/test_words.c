/* SPDX-License-Identifier: Apache-2.0 */
/* test_words.c: tests the messages of plugins/gpu on the simulator: faults and results that kernels
 * report, deadlines of events, exhausted memory, and machines without a driver or with an old one.
 *
 *   test_words PLUGIN DRIVER PLUGIN_OF_A_BROKEN_DRIVER PLUGIN_OF_AN_OLD_DRIVER
 *              PLUGIN_WITHOUT_DRIVER PLUGIN_WITH_FEW_FUNCTIONS PLUGIN_THAT_SAYS_WHAT_CUDA_DOES */
#include "kit.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>

static const char *plugin_path, *driver_path, *without, *old, *broken, *as_cuda, *few;

static void words_ok(enum bp_status status, const char *what)
{
    expect(status == BP_OK, "%s answers %d: %s", what, status, error_text);
}

static void words_begin(struct world *w)
{
    static const int32_t x[ELEMENTS];

    words_ok(world_make(w, load(plugin_path)), "world_make");
    words_ok(put(w, w->x, x, sizeof x), "put");
}

static void words_end(struct world *w)
{
    world_end(w);
    expect(!host_live && !driver_live(driver_path), "something is left");
}

/* Sets the fourth index. ELEMENTS is outside x: then the launch has a fault, which is reported
 * once. */
static void index_is(struct world *w, int64_t third)
{
    int64_t index[ELEMENTS] = {0, 1, 2, third};

    words_ok(put(w, w->index, index, sizeof index), "put");
}

static enum bp_status words_wait(struct world *w)
{
    return w->r->synchronize(w->self, 0, w->stream[0]);
}
static enum bp_status wait_device(struct world *w)
{
    return w->r->synchronize(w->self, 0, NULL);
}
static enum bp_status wait_copy(struct world *w)
{
    int32_t y[ELEMENTS];

    return get(w, y, w->y, sizeof y);
}

/* Records an event after all work of the stream. */
static void words_mark(struct world *w)
{
    if (!w->event) words_ok(w->r->event_create(w->self, 0, &w->event), "event_create");
    words_ok(w->r->event_record(w->self, 0, w->stream[0], w->event), "event_record");
}
static enum bp_status words_wait_event(struct world *w)
{
    words_mark(w);
    return w->r->event_wait(w->self, 0, w->event, UINT64_C(30000000000));
}
static enum bp_status wait_event_for_ever(struct world *w)
{
    words_mark(w);
    return w->r->event_wait(w->self, 0, w->event, UINT64_MAX);
}
static enum bp_status words_query_event(struct world *w)
{
    enum bp_status status;

    words_mark(w);
    while ((status = w->r->event_query(w->self, 0, w->event)) == BP_ERR_NOT_READY) continue;
    return status;
}

enum { WAYS = 6 };
static enum bp_status (*const wait[WAYS])(struct world *w) = {
    words_wait, wait_device, wait_copy, words_wait_event, wait_event_for_ever, words_query_event};

/* Of three launches the second has a fault; of two launches with a fault, the first is reported. */
static void faults_name_their_row(const void *arg)
{
    struct world w;

    (void)arg;
    words_begin(&w);
    for (int i = 0; i < WAYS; i++) {
        index_is(&w, 3);
        words_ok(launch_gather(&w), "gather");
        index_is(&w, ELEMENTS);
        words_ok(launch_select(&w), "index_select");
        index_is(&w, 3);
        words_ok(launch_gather(&w), "gather");
        expect_no_error();
        expect(wait[i](&w) == BP_ERR_FAULT, "way %d tells of nothing", i);
        expect(strstr(error_text, "kernel sim_index_select found bad values") != NULL,
               "it said: %s", error_text);
        words_ok(wait[i](&w), "once more");
    }
    index_is(&w, ELEMENTS);
    for (int turn = 0; turn < 2; turn++) {
        words_ok(turn ? launch_gather(&w) : launch_select(&w), "the first");
        words_ok(turn ? launch_select(&w) : launch_gather(&w), "the second");
        expect_no_error();
        expect(words_wait(&w) == BP_ERR_FAULT, "nothing is told");
        expect(strstr(error_text, turn ? "sim_gather" : "sim_index_select") != NULL, "it said: %s",
               error_text);
        words_ok(words_wait(&w), "once more");
    }
    words_end(&w);
}

/* Waits until all work of stream 0 is done, but on the other stream: stream 0 itself is not
 * queried. */
static void let_it_run(struct world *w)
{
    void *behind = NULL;
    int32_t x;

    words_ok(w->r->event_create(w->self, 0, &behind), "event_create");
    words_ok(w->r->event_record(w->self, 0, w->stream[0], behind), "event_record");
    words_ok(w->r->stream_wait(w->self, 0, w->stream[1], behind), "stream_wait");
    words_ok(
        w->r->copy_out(w->self, 0, w->stream[1], &(struct bp_copy){NULL, &x, NULL, w->x.data, 4}),
        "copy_out");
    w->r->event_destroy(w->self, 0, behind);
}

/* An event reports only faults from before it; a later fault may come from the same row. */
static void marks_order_failures(const void *arg)
{
    struct world w;

    (void)arg;
    words_begin(&w);
    for (int bad = 0; bad < 2; bad++) {
        index_is(&w, 3);
        if (bad) words_ok(launch_gather(&w), "gather");
        else words_ok(launch_select(&w), "index_select");
        words_mark(&w);
        if (bad) words_ok(launch_gather(&w), "gather");
        if (bad) words_ok(w.r->event_wait(w.self, 0, w.event, UINT64_MAX), "event_wait");
        index_is(&w, ELEMENTS);
        words_ok(launch_gather(&w), "gather");
        let_it_run(&w);
        words_ok(w.r->event_query(w.self, 0, w.event), "a mark before the fault");
        expect(words_wait(&w) == BP_ERR_FAULT, "the stream tells of nothing");
        words_ok(w.r->event_query(w.self, 0, w.event), "the mark once more");
    }
    words_end(&w);
}

/* A destroyed stream has no faults; a new stream in its place has only its own. */
static void marks_of_a_stream_that_is_gone(const void *arg)
{
    struct world w;

    (void)arg;
    words_begin(&w);
    index_is(&w, ELEMENTS);
    words_ok(launch_gather(&w), "gather");
    words_mark(&w);
    w.r->stream_destroy(w.self, 0, w.stream[0]);
    words_ok(w.r->stream_create(w.self, 0, &w.stream[0]), "stream_create");
    index_is(&w, ELEMENTS);
    words_ok(launch_gather(&w), "gather");
    let_it_run(&w);
    words_ok(w.r->event_wait(w.self, 0, w.event, UINT64_MAX), "event_wait");
    expect(words_wait(&w) == BP_ERR_FAULT, "the new stream tells of nothing");
    words_end(&w);
}

static void faults_are_reported_once(const void *arg)
{
    struct world w;

    (void)arg;
    words_begin(&w);
    for (int i = 0; i < WAYS; i++) {
        enum bp_status status;
        index_is(&w, ELEMENTS);
        words_ok(launch_gather(&w), "gather");
        expect_no_error();
        status = wait[i](&w);
        expect(status == BP_ERR_FAULT, "way %d answers %d", i, status);
        expect(strstr(error_text, "sim:0: ") && strstr(error_text, "kernel sim_gather found") &&
                   strstr(error_text, "(code 1)"),
               "it said: %s", error_text);
        words_ok(wait[i](&w), "once more");
        index_is(&w, 3);
        words_ok(launch_gather(&w), "gather");
        words_ok(wait[i](&w), "without a fault");
    }
    words_end(&w);
}

/* A wait for another stream does not report the fault, a wait for the device does. */
static void faults_are_of_their_stream(const void *arg)
{
    enum bp_status status;
    struct world w;

    (void)arg;
    words_begin(&w);
    index_is(&w, -ELEMENTS - 1);
    words_ok(launch_gather(&w), "gather");
    words_ok(words_wait(&w) == BP_ERR_FAULT ? BP_OK : BP_ERR_INTERNAL,
             "a fault of a negative index");
    words_ok(launch_gather(&w), "gather");
    words_ok(w.r->synchronize(w.self, 0, w.stream[1]), "another stream");
    status = wait_device(&w);
    expect(status == BP_ERR_FAULT, "the device answers %d", status);
    words_end(&w);
}

/* Results are written by the wait for the stream, not earlier, and not after a failure. */
/* arg: an element of wait. */
static void results_come_with_the_wait(const void *arg)
{
    enum bp_status (*const *wait_for)(struct world *) = arg;
    int64_t result = -1;
    struct world w;

    words_begin(&w);
    index_is(&w, 3);
    words_ok(launch_count(&w, &result), "count");
    words_ok(w.r->synchronize(w.self, 0, w.stream[1]), "another stream");
    expect(result == -1, "the result is %" PRId64 " before the wait", result);
    words_ok((*wait_for)(&w), "wait");
    expect(result == 1, "the result is %" PRId64, result); /* bytes of 0 and 1 */
    words_end(&w);
}

static _Atomic bool enough;

static void *wait_again(void *arg)
{
    struct world *w = arg;

    while (!enough) words_ok(wait_device(w), "the device");
    return NULL;
}

/* Another thread waits for the whole device all the while. Its wait covers earlier work only;
 * results of later launches are written by the wait for their stream. */
static void results_while_others_wait(const void *arg)
{
    pthread_t thread;
    struct world w;

    (void)arg;
    setenv("BP_SIM_DELAY", "300", 1);
    words_begin(&w);
    index_is(&w, 3);
    pthread_create(&thread, NULL, wait_again, &w);
    for (int i = 0; i < 300 && !unmet; i++) {
        int64_t result = -1;
        words_ok(launch_count(&w, &result), "count");
        words_ok(words_wait(&w), "wait");
        expect(result == 1, "turn %d: the result is %" PRId64, i, result);
    }
    enough = true;
    pthread_join(thread, NULL);
    words_end(&w);
}

/* The second and the third launch of masked_select fail: then its result is never written. */
static void results_of_a_failed_launch(const void *arg)
{
    static const char *const fail[] = {"launch:2:999", "launch:3:999"};
    struct world w;

    (void)arg;
    for (int i = 0; i < 2; i++) {
        int64_t result = -1, other = -1;
        setenv("BP_SIM_FAIL", fail[i], 1);
        words_begin(&w);
        index_is(&w, 3);
        expect(launch_count(&w, &result) == BP_ERR_DEVICE, "the launch works");
        words_ok(launch_count(&w, &other), "count");
        words_ok(words_wait(&w), "wait");
        expect(result == -1, "the result is %" PRId64, result);
        expect(other == 1, "the other result is %" PRId64, other);
        words_end(&w);
    }
}

static void more_results_than_places(const void *arg)
{
    int64_t result[100];
    struct world w;
    int n = 0;

    (void)arg;
    words_begin(&w);
    index_is(&w, 3);
    for (int i = 0; i < 100; i++) result[i] = -1;
    while (n < 100 && launch_count(&w, &result[n]) == BP_OK) n++;
    expect(n > 9 && n < 100, "%d results wait", n);
    expect(strstr(error_text, "results wait for their stream") != NULL, "it said: %s", error_text);
    words_ok(words_wait(&w), "wait");
    for (int i = 0; i < n; i++) expect(result[i] == 1, "result %d is %" PRId64, i, result[i]);
    expect(result[n] == -1, "the one without a place is %" PRId64, result[n]);
    words_ok(launch_count(&w, &result[n]), "count");
    words_ok(words_wait(&w), "wait");
    expect(result[n] == 1, "the last result is %" PRId64, result[n]);
    words_end(&w);
}

static void words_deadlines(const void *arg)
{
    enum bp_status status;
    struct world w;

    (void)arg;
    setenv("BP_SIM_DELAY", "200000", 1);
    words_begin(&w);
    words_ok(w.r->event_create(w.self, 0, &w.event), "event_create");
    for (int i = 0; i < 40; i++)
        w.r->copy_within(w.self, 0, w.stream[0],
                         &(struct bp_copy){NULL, w.y.data, NULL, w.x.data, 64});
    words_ok(w.r->event_record(w.self, 0, w.stream[0], w.event), "event_record");
    expect_no_error();
    expect(w.r->event_query(w.self, 0, w.event) == BP_ERR_NOT_READY, "it is there at once");
    expect(!*error_text, "it said: %s", error_text);
    status = w.r->event_wait(w.self, 0, w.event, 1);
    expect(status == BP_ERR_TIMEOUT && strstr(error_text, "not reached after 0.000 s"),
           "a wait of 1 ns answers %d: %s", status, error_text);
    words_ok(w.r->event_wait(w.self, 0, w.event, UINT64_C(30000000000)), "event_wait");
    words_ok(w.r->event_query(w.self, 0, w.event), "event_query");
    words_end(&w);
}

/* Uses up each memory space; also requests a space that does not exist. */
static void words_exhaustion(const void *arg)
{
    static const char *const call[] = {"sim_memory_allocate", "sim_pinned_allocate",
                                       "sim_managed_allocate"};
    struct bp_memory memory = {NULL, NULL};
    struct world w;

    (void)arg;
    setenv("BP_SIM_MEMORY", "1048576", 1);
    words_begin(&w);
    for (uint32_t space = 0; space < 3; space++) {
        char text[96];
        expect_no_error();
        expect(w.r->memory_allocate(w.self, 0, space, 2097152, &memory) == BP_ERR_MEMORY,
               "space %u", space);
        snprintf(text, sizeof text, "sim:0: %s: 2097152 bytes were asked for, ", call[space]);
        expect(strstr(error_text, text) && strstr(error_text, " of 1048576 are free"),
               "it said: %s", error_text);
    }
    expect(w.r->memory_allocate(w.self, 0, 3, 64, &memory) == BP_ERR_UNSUPPORTED, "space 3");
    expect(!memory.data, "a failed allocation has an address");
    words_end(&w);
}

/* A host uses one device of two; the other one must not be opened. */
static void words_devices(const void *arg)
{
    struct world w;
    uint32_t n = 0;

    (void)arg;
    setenv("BP_SIM_DEVICES", "2", 1);
    words_begin(&w);
    words_ok(w.r->device_count(w.self, &n), "device_count");
    expect(n == 2, "%u devices", n);
    /* a context, 2 streams with their fault words, the staging of one with 4 events, 4
     * allocations */
    expect(driver_live(driver_path) == 14, "%zu things of the driver's", driver_live(driver_path));
    words_end(&w);
}

/* Codes that persist for the process or the device: each wait must report that the device is lost.
 * 999 is an unknown error: if a wait returns it, it is an error of the work. */
static void loses_the_device(const void *arg)
{
    static const int codes[] = {214, 220, 226, 700, 702, 709, 710, 714, 715,
                                716, 717, 718, 719, 721, 810, 911, 999};
    static const char *const waits[WAYS] = {
        "stream_synchronize:1", "context_synchronize:1", NULL, "event_query:1",
        "event_synchronize:1", "event_query:1"};

    (void)arg;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        for (int way = 0; way < WAYS; way++) {
            enum bp_status status;
            char text[64];
            struct world w;
            if (!waits[way]) continue;
            snprintf(text, sizeof text, "%s:%d", waits[way], codes[i]);
            setenv("BP_SIM_FAIL", text, 1);
            words_ok(world_make(&w, load(plugin_path)), "world_make");
            expect_no_error();
            status = wait[way](&w);
            snprintf(text, sizeof text, "answers %d: ", codes[i]);
            expect(status == BP_ERR_DEVICE_LOST && strstr(error_text, text), "%s:%d is %d: %s",
                   waits[way], codes[i], status, error_text);
            expect(!strstr(error_text, "without a name"), "it said: %s", error_text);
            words_end(&w);
        }
}

/* The advice after the loss of a device: with cuda's target, to start the process again. The
 * simulator's device can be opened again, so its message has no advice. */
static void failure_hints(const void *arg)
{
    const char *const paths[] = {plugin_path, as_cuda};

    (void)arg;
    setenv("BP_SIM_FAIL", "stream_synchronize:1:700", 1);
    setenv("BP_SIM_DRIVER", driver_path, 1);
    for (int i = 0; i < 2; i++) {
        struct world w;
        words_ok(world_make(&w, load(paths[i])), "world_make");
        expect_no_error();
        expect(words_wait(&w) == BP_ERR_DEVICE_LOST, "it said: %s", error_text);
        expect(strstr(error_text, i ? "used an address that is none; start the process again\n"
                                    : "used an address that is none\n") != NULL,
               "it said: %s", error_text);
        words_end(&w);
    }
}

/* The advice if the driver cannot compile PTX, which the simulator's images do not have. */
struct ptx {
    int code;
    const char *help;
};

static void ptx_is_not_compiled(const void *arg)
{
    static const struct ptx codes[] = {
        {218, "could not be compiled; the driver is simulator 1.0, the PTX is 9.0 (of nvcc 13.0): "
              "install a newer driver, or build with -Dgpu_sim=NN for this device\n"},
        {221, "is not found; the driver is simulator 1.0, the PTX is 9.0 (of nvcc 13.0): install "
              "that library, which is a part of the driver, or build with -Dgpu_sim=NN"},
        {222, "is newer than the driver; the driver is simulator 1.0, the PTX is 9.0 (of nvcc "
              "13.0): install a newer driver, or build"},
        {223, "is disabled; the driver is simulator 1.0, the PTX is 9.0 (of nvcc 13.0): do not "
              "set CUDA_DISABLE_PTX_JIT, or build"}};

    (void)arg;
    setenv("BP_SIM_DRIVER", driver_path, 1);
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        for (int cuda = 0; cuda < 2; cuda++) {
            struct world w;
            char text[64];
            snprintf(text, sizeof text, "module_load:1:%d", codes[i].code);
            setenv("BP_SIM_FAIL", text, 1);
            words_ok(world_make(&w, load(cuda ? as_cuda : plugin_path)), "world_make");
            expect_no_error();
            expect(launch_gather(&w) == BP_ERR_DEVICE, "the launch works");
            expect(!strstr(error_text, codes[i].help) == !cuda &&
                       strstr(error_text, "module_load answers"),
                   "%s: it said: %s", text, error_text);
            words_end(&w);
        }
}

/* An unknown error of a call that does not wait is not an error of the work. */
static void unknown_errors(const void *arg)
{
    uint64_t free_bytes, total;
    struct world w;

    (void)arg;
    setenv("BP_SIM_FAIL", "memory_info:1:999", 1);
    words_begin(&w);
    expect(w.r->memory_info(w.self, 0, &free_bytes, &total) == BP_ERR_DEVICE, "it said: %s",
           error_text);
    expect(strstr(error_text, "an unknown error of the driver") != NULL, "it said: %s", error_text);
    words_end(&w);
}

/* A driver that shuts down has already freed all objects: no message is logged. For another code
 * one is. */
static void shutting_down(const void *arg)
{
    static const char *const fail[] = {"stream_destroy:1:4", "stream_destroy:1:400"};
    struct world w;

    (void)arg;
    for (int i = 0; i < 2; i++) {
        setenv("BP_SIM_FAIL", fail[i], 1);
        words_begin(&w);
        expect_no_error();
        words_end(&w);
        expect(!*error_text == !i, "%s: it said: %s", fail[i], error_text);
    }
}

/* For codes that plugins/gpu has no text for, the driver's text is used, if it has one. */
static void words_of_the_driver(const void *arg)
{
    static const char *const fail[] = {"memory_info:1:990", "memory_info:1:12345"};
    static const char *const text[] = {
        "sim:0: sim_memory_info answers 990: a failure of the simulator alone\n",
        "sim:0: sim_memory_info answers 12345: an error without a name\n"};
    uint64_t free_bytes, total;

    (void)arg;
    for (int i = 0; i < 2; i++) {
        struct world w;
        setenv("BP_SIM_FAIL", fail[i], 1);
        words_begin(&w);
        expect_no_error();
        expect(w.r->memory_info(w.self, 0, &free_bytes, &total) == BP_ERR_DEVICE, "it works");
        expect(!strcmp(error_text, text[i]), "it said: %s", error_text);
        words_end(&w);
    }
}

/* The driver has no texts either, and cannot identify a device or set how it waits. */
static void without_words(const void *arg)
{
    uint64_t free_bytes, total;
    struct world w = {.plugin = load(few)};

    (void)arg;
    setenv("BP_SIM_FAIL", "memory_info:1:990", 1);
    setenv("BP_SIM_WAIT", "block", 1);
    if (!expect(w.plugin->create(host(), &w.self) == BP_OK, "create: %s", error_text)) return;
    expect(w.plugin->runtime->memory_info(w.self, 0, &free_bytes, &total) == BP_ERR_DEVICE,
           "it works");
    expect(strstr(error_text, "no function sim_context_flags: only waits for events sleep\n") &&
               strstr(error_text, "sim:0: sim_memory_info answers 990: an error without a name\n"),
           "it said: %s", error_text);
    w.plugin->destroy(w.self);
}

struct absence {
    const char *path, *variable, *value;
    enum bp_status status;
    const char *text;
};

static void words_absent(const void *arg)
{
    const struct absence *a = arg;
    const struct bp_plugin *plugin = load(a->path);
    void *self = NULL;
    enum bp_status status;

    if (a->variable) setenv(a->variable, a->value, 1);
    status = plugin->create(host(), &self);
    expect(status == a->status && !self, "create answers %d", status);
    expect(strstr(error_text, a->text) != NULL, "it said: %s", error_text);
    expect(!host_live, "something is left");
}

int main(int argc, char **argv)
{
    if (argc != 8) return 2;
    plugin_path = argv[1];
    driver_path = argv[2];
    broken = argv[3];
    old = argv[4];
    without = argv[5];
    few = argv[6];
    as_cuda = argv[7];
    run_case("faults are told once, by each way to wait", faults_are_reported_once, NULL);
    run_case("faults name their row", faults_name_their_row, NULL);
    run_case("marks tell what was before them", marks_order_failures, NULL);
    run_case("marks of a stream that is gone", marks_of_a_stream_that_is_gone, NULL);
    run_case("faults are of their stream", faults_are_of_their_stream, NULL);
    run_case("results come with the wait", results_come_with_the_wait, &wait[0]);
    run_case("results while others wait", results_while_others_wait, NULL);
    run_case("results come with the device's wait", results_come_with_the_wait, &wait[1]);
    run_case("results of a failed launch", results_of_a_failed_launch, NULL);
    run_case("more results than places", more_results_than_places, NULL);
    run_case("deadlines of events", words_deadlines, NULL);
    run_case("exhaustion of each space", words_exhaustion, NULL);
    run_case("devices that are not used", words_devices, NULL);
    run_case("no driver", words_absent,
             &(struct absence){without, NULL, NULL, BP_ERR_ABSENT, "sim: no simulator ("});
    run_case("a driver that is too old", words_absent,
             &(struct absence){old, NULL, NULL, BP_ERR_DEVICE,
                               "has no function sim_driver_version: a newer driver is needed"});
    run_case("a driver that cannot be opened", words_absent,
             &(struct absence){broken, NULL, NULL, BP_ERR_DEVICE,
                               "libbp_simulator.so cannot be opened: libbp_gone"});
    run_case("no device", words_absent,
             &(struct absence){plugin_path, "BP_SIM_DEVICES", "0", BP_ERR_ABSENT,
                               "sim: no simulated device"});
    run_case("no device, says the driver", words_absent,
             &(struct absence){plugin_path, "BP_SIM_FAIL", "initialise:1:100", BP_ERR_ABSENT,
                               "sim: no simulated device: sim_initialise answers 100: no device"});
    run_case("a stub", words_absent,
             &(struct absence){plugin_path, "BP_SIM_FAIL", "initialise:1:34", BP_ERR_ABSENT,
                               "sim_initialise answers 34: the library is a stub"});
    run_case("failures that lose the device", loses_the_device, NULL);
    run_case("what helps when the device is lost", failure_hints, NULL);
    run_case("PTX that is not compiled", ptx_is_not_compiled, NULL);
    run_case("unknown errors", unknown_errors, NULL);
    run_case("errors in words of the driver", words_of_the_driver, NULL);
    run_case("a driver without words", without_words, NULL);
    run_case("a driver that shuts down", shutting_down, NULL);
    run_case("a system without its fabric manager", words_absent,
             &(struct absence){plugin_path, "BP_SIM_FAIL", "initialise:1:802", BP_ERR_DEVICE,
                               "sim_initialise answers 802: the system is not ready"});
    run_case("an MPS server with too many clients", words_absent,
             &(struct absence){plugin_path, "BP_SIM_FAIL", "initialise:1:808", BP_ERR_DEVICE,
                               "sim_initialise answers 808: the MPS server has as many clients"});
    return cases_end();
}
