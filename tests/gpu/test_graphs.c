/* SPDX-License-Identifier: Apache-2.0 */
/* test_graphs.c: tests recording and replay in plugins/gpu on the simulator: faults, other work in
 * between, calls that invalidate a capture, threads.
 *
 *   test_graphs PLUGIN DRIVER PLUGIN_OF_A_DRIVER_THAT_LACKS_SOME */
#include "kit.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *plugin_path, *driver_path, *few;

static void graphs_ok(enum bp_status status, const char *what)
{
    expect(status == BP_OK, "%s answers %d: %s", what, status, error_text);
}

static void index_is(struct world *w, int64_t third)
{
    int64_t index[ELEMENTS] = {0, 1, 2, third};

    graphs_ok(put(w, w->index, index, sizeof index), "put");
}

static enum bp_status graphs_wait(struct world *w)
{
    return w->r->synchronize(w->self, 0, w->stream[0]);
}

static void graphs_begin(struct world *w)
{
    int32_t x[ELEMENTS];

    for (int i = 0; i < ELEMENTS; i++) x[i] = i;
    graphs_ok(world_make(w, load(plugin_path)), "world_make");
    graphs_ok(put(w, w->x, x, sizeof x), "put");
    index_is(w, 3);
    graphs_ok(w->r->event_create(w->self, 0, &w->event), "event_create");
}

static void graphs_end(struct world *w)
{
    world_end(w);
    expect(!host_live && !driver_live(driver_path), "something is left");
}

static void graphs_start(struct world *w)
{
    graphs_ok(w->g->capture_begin(w->self, 0, w->stream[0]), "capture_begin");
}

static void graphs_record(struct world *w)
{
    graphs_start(w);
    graphs_ok(launch_gather(w), "gather");
    graphs_ok(w->g->capture_end(w->self, 0, w->stream[0], &w->recording), "capture_end");
}

static void graphs_replay(struct world *w)
{
    graphs_ok(w->g->replay(w->self, 0, w->recording, w->stream[0]), "replay");
}

/* Checks element 3 of y = x[index]. */
static void third_is(struct world *w, int32_t expected, const char *when)
{
    int32_t y[ELEMENTS] = {0};

    graphs_ok(get(w, y, w->y, sizeof y), "get");
    expect(y[3] == expected, "%s: %d, expected %d", when, y[3], expected);
}

static void nothing_is_done_before_a_replay(const void *arg)
{
    static const int32_t zero[ELEMENTS];
    struct world w;

    (void)arg;
    graphs_begin(&w);
    graphs_ok(put(&w, w.y, zero, sizeof zero), "put");
    graphs_record(&w);
    third_is(&w, 0, "recorded");
    graphs_replay(&w);
    index_is(&w, 5);
    third_is(&w, 3, "replayed, and the index written afterwards");
    graphs_replay(&w);
    third_is(&w, 5, "replayed with the new index");
    graphs_ok(launch_gather(&w), "gather");
    index_is(&w, 7);
    graphs_replay(&w);
    third_is(&w, 7, "behind a launch");
    graphs_end(&w);
}

/* The wait after each replay with a fault reports the fault, and no other wait does; recording
 * reports none. */
static void faults_of_replays_are_reported(const void *arg)
{
    struct world w;

    (void)arg;
    graphs_begin(&w);
    index_is(&w, ELEMENTS);
    graphs_record(&w);
    graphs_ok(graphs_wait(&w), "after recording");
    for (int i = 0; i < 3; i++) {
        expect_no_error();
        graphs_replay(&w);
        expect(graphs_wait(&w) == BP_ERR_FAULT && strstr(error_text, "sim_gather"), "replay %d: %s",
               i, error_text);
        graphs_ok(graphs_wait(&w), "once more");
    }
    index_is(&w, 3);
    graphs_replay(&w);
    graphs_ok(graphs_wait(&w), "a replay that finds nothing");
    graphs_end(&w);
}

/* Recording does not report or clear faults that the stream's own launches have found. */
static void faults_before_a_capture_stay(const void *arg)
{
    struct world w;

    (void)arg;
    graphs_begin(&w);
    index_is(&w, ELEMENTS);
    graphs_ok(launch_gather(&w), "gather");
    graphs_record(&w);
    expect(graphs_wait(&w) == BP_ERR_FAULT, "the launch before the capture: %s", error_text);
    graphs_end(&w);
}

/* The driver refuses these calls during a capture, and then the end of the capture; the stream
 * works afterwards. */
static enum bp_status wait_for_it(struct world *w)
{
    return graphs_wait(w);
}
static enum bp_status wait_for_all(struct world *w)
{
    return w->r->synchronize(w->self, 0, NULL);
}
static enum bp_status graphs_query(struct world *w)
{
    graphs_ok(w->r->event_record(w->self, 0, w->stream[0], w->event), "event_record");
    return w->r->event_query(w->self, 0, w->event);
}
static enum bp_status follow_in(struct world *w)
{
    graphs_ok(w->r->event_record(w->self, 0, w->stream[1], w->event), "event_record");
    return w->r->stream_wait(w->self, 0, w->stream[0], w->event);
}
static enum bp_status follow_out(struct world *w)
{
    graphs_ok(w->r->event_record(w->self, 0, w->stream[0], w->event), "event_record");
    return w->r->stream_wait(w->self, 0, w->stream[1], w->event);
}

static void graphs_spoilt(const void *arg)
{
    static const struct {
        enum bp_status (*run)(struct world *w);
        const char *expected;
    } way[] = {{wait_for_it, " 900: "},
               {wait_for_all, " 900: "},
               {graphs_query, " 907: "},
               {follow_in, " 905: "},
               {follow_out, " 905: "}};
    struct world w;

    (void)arg;
    graphs_begin(&w);
    for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
        graphs_start(&w);
        graphs_ok(launch_gather(&w), "gather");
        expect_no_error();
        expect(way[i].run(&w) != BP_OK && strstr(error_text, way[i].expected), "way %zu: %s", i,
               error_text);
        expect(launch_gather(&w) != BP_OK, "way %zu: a launch is recorded", i);
        expect(w.g->capture_end(w.self, 0, w.stream[0], &w.recording) == BP_ERR_DEVICE &&
                   strstr(error_text, " 901: ") && !w.recording,
               "way %zu: %s", i, error_text);
        index_is(&w, (int64_t)i + 1);
        graphs_ok(launch_gather(&w), "gather");
        third_is(&w, (int32_t)i + 1, "the stream afterwards");
    }
    graphs_record(&w);
    graphs_replay(&w);
    third_is(&w, 5, "a capture after all");
    graphs_end(&w);
}

/* Allocates and frees memory while a stream is captured. */
static void memory_meanwhile(const void *arg)
{
    struct bp_memory m = {NULL, NULL};
    struct world w;

    (void)arg;
    graphs_begin(&w);
    graphs_start(&w);
    graphs_ok(w.r->memory_allocate(w.self, 0, BP_SPACE_DEVICE, 4096, &m), "memory_allocate");
    graphs_ok(launch_gather(&w), "gather");
    w.r->memory_free(w.self, 0, BP_SPACE_DEVICE, &m);
    graphs_ok(w.g->capture_end(w.self, 0, w.stream[0], &w.recording), "capture_end");
    graphs_replay(&w);
    third_is(&w, 3, "a replay");
    graphs_end(&w);
}

/* Destroys a recording whose replays are still running. The core never does that, since it waits
 * first; the driver keeps the recorded work until the replays end. */
static void destroyed_on_its_way(const void *arg)
{
    struct world w;

    (void)arg;
    setenv("BP_SIM_DELAY", "20000", 1);
    graphs_begin(&w);
    graphs_record(&w);
    for (int i = 0; i < 20; i++) graphs_replay(&w);
    w.g->recording_destroy(w.self, 0, w.recording);
    w.recording = NULL;
    third_is(&w, 3, "what was replayed");
    graphs_end(&w);
}

/* While a thread waits for the device no capture may begin, and capture_begin does not wait for
 * that thread. */
static atomic_bool waited_long;

static void *wait_long(void *p)
{
    struct world *w = p;

    graphs_ok(w->r->synchronize(w->self, 0, NULL), "the device");
    atomic_store(&waited_long, true);
    return NULL;
}

/* Ends captures immediately that begin before the thread waits: the thread would wait for their
 * end. */
static enum bp_status begin_until_refused(struct world *w)
{
    enum bp_status status = BP_OK;

    while (status == BP_OK && !atomic_load(&waited_long)) {
        status = w->g->capture_begin(w->self, 0, w->stream[0]);
        if (status) break;
        graphs_ok(w->g->capture_end(w->self, 0, w->stream[0], &w->recording), "capture_end");
        w->g->recording_destroy(w->self, 0, w->recording);
        w->recording = NULL;
        usleep(1000);
    }
    return status;
}

static void not_while_the_device_is_waited_for(const void *arg)
{
    enum bp_status status = BP_OK;
    struct bp_copy copy;
    pthread_t thread;
    struct world w;

    (void)arg;
    setenv("BP_SIM_DELAY", "200000", 1);
    graphs_begin(&w);
    copy = (struct bp_copy){NULL, w.y.data, NULL, w.x.data, 64};
    for (int tries = 0; tries < 20 && status == BP_OK; tries++) { /* the thread may be late */
        for (int i = 0; i < 40; i++) w.r->copy_within(w.self, 0, w.stream[1], &copy);
        atomic_store(&waited_long, false);
        pthread_create(&thread, NULL, wait_long, &w);
        status = begin_until_refused(&w);
        pthread_join(thread, NULL);
    }
    expect(status == BP_ERR_BUSY, "capture_begin answers %d: %s", status, error_text);
    graphs_record(&w);
    graphs_end(&w);
}

static atomic_bool waited;

static void *wait_in_thread(void *p)
{
    struct world *w = p;

    graphs_ok(w->r->synchronize(w->self, 0, w->stream[1]), "another stream");
    graphs_ok(w->r->synchronize(w->self, 0, NULL), "the device");
    atomic_store(&waited, true);
    return NULL;
}

/* Another thread's wait for the device does not invalidate a capture: it waits for the end of the
 * capture. */
static void graphs_threads(const void *arg)
{
    pthread_t thread;
    struct world w;

    (void)arg;
    graphs_begin(&w);
    graphs_start(&w);
    pthread_create(&thread, NULL, wait_in_thread, &w);
    usleep(20000);
    expect(!atomic_load(&waited), "the device was waited for in a capture");
    graphs_ok(launch_gather(&w), "gather");
    graphs_ok(w.g->capture_end(w.self, 0, w.stream[0], &w.recording), "capture_end");
    pthread_join(thread, NULL);
    graphs_replay(&w);
    third_is(&w, 3, "a replay");
    graphs_end(&w);
}

/* All other calls work; a capture is refused, and the message has the reason. */
static void not_with_this_driver(const void *arg)
{
    struct world w;

    (void)arg;
    plugin_path = few;
    graphs_begin(&w);
    expect(w.g->capture_begin(w.self, 0, w.stream[0]) == BP_ERR_UNSUPPORTED &&
               strstr(error_text, "the driver has no function sim_graph_instantiate: a newer one"),
           "it said: %s", error_text);
    graphs_ok(launch_gather(&w), "gather");
    third_is(&w, 3, "a launch");
    world_end(&w);
    expect(!host_live, "something is left");
}

int main(int argc, char **argv)
{
    if (argc != 4) return 2;
    few = argv[3];
    plugin_path = argv[1];
    driver_path = argv[2];
    run_case("nothing is done before a replay", nothing_is_done_before_a_replay, NULL);
    run_case("faults of replays are told", faults_of_replays_are_reported, NULL);
    run_case("faults before a capture stay", faults_before_a_capture_stay, NULL);
    run_case("calls that spoil a capture", graphs_spoilt, NULL);
    run_case("memory meanwhile", memory_meanwhile, NULL);
    run_case("destroyed on its way", destroyed_on_its_way, NULL);
    run_case("threads", graphs_threads, NULL);
    run_case("not while the device is waited for", not_while_the_device_is_waited_for, NULL);
    run_case("a driver without captures", not_with_this_driver, NULL);
    return cases_end();
}
