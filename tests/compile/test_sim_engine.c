/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_engine.c: tests engines on a device of the simulator, whose streams run late and whose
 * memory the host cannot access: recordings, streams at once, faults, failures of the device. */
#include "engine_kit.h"

#include <backplane/ops.h>
#include <backplane/profile.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    COUNT = 64,
    STREAMS = 3
};

/* Returns the result of a run of the program on a stream. */
static struct bp_tensor *run_on(const struct compiled *c, struct bp_stream *stream)
{
    struct bp_tensor *out = NULL;

    OK(bp_program_run(c->program, stream, c->g.in, c->g.n_in, &out, 1));
    return out;
}

static void expect_floats(struct bp_stream *stream, struct bp_tensor *out, const float *expected)
{
    float got[COUNT];

    OK(bp_tensor_read(stream, out, got, sizeof got));
    cr_assert_arr_eq(got, expected, sizeof got);
    bp_tensor_destroy(out);
}

/* Computes the graph node by node. */
static void by_kernels(const struct compiled *c, float *out)
{
    struct bp_tensor *result = NULL;

    OK(bp_graph_run(c->g.graph, c->g.f.stream, c->g.in, c->g.n_in, &result, 1));
    OK(bp_tensor_read(c->g.f.stream, result, out, COUNT * sizeof *out));
    bp_tensor_destroy(result);
}

/* ---- recordings ---- */

static struct bp_program_info info_now(const struct compiled *c)
{
    struct bp_program_info info = {.size = sizeof info};

    OK(bp_program_get_info(c->program, &info));
    return info;
}

/* Runs the chain some times, each time with other numbers in its input. Returns the replays. */
static uint64_t replays_of(const char *words, char *why, size_t size)
{
    struct compiled c = compiled_of(words, CHAIN);
    uint64_t replays;

    cr_assert_str_eq(c.launches, "engine");
    for (int i = 0; i < 6; i++) {
        float data[COUNT], expected[COUNT];
        for (int k = 0; k < COUNT; k++) data[k] = (float)((k * 7 + i * 13) % 31) / 8 - 2;
        OK(bp_tensor_write(c.g.f.stream, c.g.in[0], data, sizeof data));
        by_kernels(&c, expected);
        expect_floats(c.g.f.stream, run_on(&c, c.g.f.stream), expected);
    }
    replays = info_now(&c).replays;
    snprintf(why, size, "%s", info_now(&c).reason);
    compiled_finish(&c);
    return replays;
}

Test(sim_engine, a_group_that_may_be_recorded_is_replayed)
{
    char why[200];

    cr_assert_eq(replays_of("captures", why, sizeof why), 5, "%s", why);
    cr_assert_eq(replays_of("captures contexts", why, sizeof why), 5, "%s", why);
}

Test(sim_engine, other_groups_are_not_recorded)
{
    char why[200];

    cr_assert_eq(replays_of("", why, sizeof why), 0);
    cr_assert_not_null(strstr(why, "engined_engine is not to be recorded"), "%s", why);
}

/* A recording is for one stream; a run on another one has a context of its own. */
Test(sim_engine, a_recording_and_another_stream)
{
    struct compiled c = compiled_of("captures contexts", CHAIN);
    struct bp_tensor *out[12];
    struct bp_stream *stream;
    float expected[COUNT];

    by_kernels(&c, expected);
    OK(bp_stream_create(c.g.f.device, &stream));
    for (int i = 0; i < 12; i++) out[i] = run_on(&c, i % 4 == 3 ? stream : c.g.f.stream);
    for (int i = 0; i < 12; i++) {
        struct bp_stream *of = i % 4 == 3 ? stream : c.g.f.stream;
        expect_floats(of, out[i], expected);
    }
    cr_assert_geq(info_now(&c).replays, 1);
    cr_assert_eq(atomic_load(&c.did->contexts), 2);
    cr_assert_eq(atomic_load(&c.did->busy), 0);
    bp_stream_destroy(stream);
    compiled_finish(&c);
}

/* ---- profiles ---- */

enum {
    RUNS = 6
};

/* The events of an engine's runs in a profile, by kind. */
struct engine_events {
    uint32_t groups, replays, runs; /* submissions of a group; replays; runs of the program */
};

static struct engine_events events_of(const char *path, struct bp_stream *stream)
{
    struct engine_events found = {0};
    struct bp_profile *p;

    OK(bp_profile_open(path, &p));
    for (uint64_t i = 0; i < bp_profile_events(p); i++) {
        struct bp_profile_event e = {.size = sizeof e};
        OK(bp_profile_get_event(p, i, &e));
        cr_assert(e.begin_ns <= e.end_ns);
        if (e.kind == BP_PROFILE_SUBMIT && !strcmp(e.name, "engine")) {
            cr_assert_str_eq(e.kernel, "engined_engine");
            cr_assert_neq(*e.node, 0, "the group has no name");
            cr_assert(e.tag && e.bytes && e.stream == bp_stream_number(stream));
            found.groups++;
        }
        found.replays += e.kind == BP_PROFILE_SUBMIT && !strcmp(e.name, "replay");
        found.runs += e.kind == BP_PROFILE_RUN && !strcmp(e.name, "program");
    }
    bp_profile_destroy(p);
    return found;
}

/* Profiles some runs of the chain. */
static struct engine_events profile_runs(const char *words)
{
    char path[] = "/tmp/bp-engine-profile-XXXXXX";
    struct bp_profiler_options options = {.size = sizeof options, .path = path};
    struct compiled c = compiled_of(words, CHAIN);
    struct engine_events found;
    struct bp_profiler *profiler;

    close(mkstemp(path));
    OK(bp_profiler_start(&options, &profiler));
    for (int i = 0; i < RUNS; i++) bp_tensor_destroy(run_on(&c, c.g.f.stream));
    OK(bp_stream_synchronize(c.g.f.stream));
    OK(bp_profiler_stop(profiler));
    bp_profiler_destroy(profiler);
    found = events_of(path, c.g.f.stream);
    unlink(path);
    compiled_finish(&c);
    return found;
}

Test(sim_engine, runs_of_a_group_are_in_profiles)
{
    struct engine_events found = profile_runs("");

    cr_assert(found.runs == RUNS && found.groups == RUNS && !found.replays,
              "%u runs, %u groups, %u replays", found.runs, found.groups, found.replays);
}

/* The first run submits the group; the second one submits it to a recording, and replays that. */
Test(sim_engine, replays_of_a_group_are_in_profiles)
{
    struct engine_events found = profile_runs("captures");

    cr_assert(found.runs == RUNS && found.groups == 2 && found.replays == RUNS - 1,
              "%u runs, %u groups, %u replays", found.runs, found.groups, found.replays);
}

/* ---- streams ---- */

/* The work of one stream runs while that of the others does: with results in the workspace, and in
 * a context for each stream. */
static void run_on_streams(const char *words, int contexts)
{
    struct compiled c = compiled_of(words, CHAIN);
    struct bp_stream *stream[STREAMS];
    int before = atomic_load(&c.did->runs);
    struct bp_tensor *out[30];
    float expected[COUNT];

    by_kernels(&c, expected);
    for (int s = 0; s < STREAMS; s++) OK(bp_stream_create(c.g.f.device, &stream[s]));
    for (int i = 0; i < 30; i++) out[i] = run_on(&c, stream[i % STREAMS]);
    for (int i = 0; i < 30; i++) expect_floats(stream[i % STREAMS], out[i], expected);
    cr_assert_eq(atomic_load(&c.did->contexts), contexts);
    cr_assert_eq(atomic_load(&c.did->runs) - before, 30);
    for (int s = 0; s < STREAMS; s++) bp_stream_destroy(stream[s]);
    compiled_finish(&c);
}

Test(sim_engine, streams_at_once)
{
    run_on_streams("", 0);
    run_on_streams("contexts", STREAMS);
}

/* ---- memory ---- */

/* The workspace of a run is planned with the results of other nodes. */
Test(sim_engine, the_workspace_is_in_the_profile)
{
    struct compiled c = compiled_of("only=tanh", "a = relu(x)\nb = tanh(a)\nreturn b");
    struct bp_launch_info launch = {.size = sizeof launch};

    cr_assert_str_eq(c.launches, "relu engine");
    OK(bp_program_launch(c.program, 1, &launch));
    cr_assert_gt(launch.workspace, 0);
    cr_assert_geq(c.info.arena, launch.workspace + COUNT * sizeof(float));
    cr_assert_geq(c.info.unplanned, c.info.arena);
    pass_check_values(&c.g, 64);
    compiled_finish(&c);
}

/* ---- faults ---- */

/* A kernel of the group finds an index that is out of range. The stream has failed; others have
 * not. */
Test(sim_engine, a_fault_in_a_group)
{
    struct compiled c = compiled_of("contexts", "y = relu(gather(x[4,4], i:i64[3]))\nreturn y");
    const int64_t good[3] = {3, 0, 1}, bad[3] = {1, 9, 2};
    struct bp_tensor *index = text_input(&c.g, "i"), *out;
    struct bp_stream *stream;
    float x[16], y[12];

    cr_assert_str_eq(c.launches, "engine");
    OK(bp_tensor_read(c.g.f.stream, text_input(&c.g, "x"), x, sizeof x));
    OK(bp_tensor_write(c.g.f.stream, index, bad, sizeof bad));
    out = run_on(&c, c.g.f.stream);
    FAILS(BP_ERR_FAULT, "gather", bp_stream_synchronize(c.g.f.stream));
    bp_tensor_destroy(out);
    OK(bp_stream_create(c.g.f.device, &stream));
    OK(bp_tensor_write(stream, index, good, sizeof good));
    out = run_on(&c, stream);
    OK(bp_tensor_read(stream, out, y, sizeof y));
    for (int i = 0; i < 12; i++) {
        float expected = x[good[i / 4] * 4 + i % 4];
        cr_assert_eq(y[i], expected > 0 ? expected : 0, "element %d", i);
    }
    bp_tensor_destroy(out);
    bp_stream_destroy(stream);
    compiled_finish(&c);
}

/* ---- failures of the device ---- */

/* The objects of one try. */
struct attempt {
    struct bp_core *core;
    struct bp_device *device;
    struct bp_stream *stream;
    struct bp_graph *graph;
    struct bp_program *program;
    struct bp_tensor *x, *w, *input, *part[3], *out[3];
};

#define STEP(call) \
    do { \
        enum bp_status step_ = (call); \
        if (step_) return step_; \
    } while (0)

static enum bp_status attempt_record(struct attempt *a)
{
    struct bp_scope *scope = bp_graph_scope(a->graph);

    STEP(bp_graph_input(a->graph, "x", BP_F32, 1, SHAPE(COUNT), &a->input));
    STEP(bp_op_mul(scope, a->input, a->w, &a->part[0]));
    STEP(bp_op_tanh(scope, a->part[0], &a->part[1]));
    STEP(bp_op_add(scope, a->part[1], a->w, &a->part[2]));
    return bp_graph_output(a->graph, a->part[2], NULL);
}

/* Opens the device, compiles a program and runs it three times. Returns the first failure. */
static enum bp_status attempt_make(struct attempt *a, float *got)
{
    float data[COUNT];

    for (int i = 0; i < COUNT; i++) data[i] = (float)(i % 9) / 4 - 1;
    STEP(bp_core_create(NULL, &a->core));
    STEP(bp_device_create(a->core, "sim:0", &a->device));
    STEP(bp_stream_create(a->device, &a->stream));
    STEP(bp_tensor_create(a->device, BP_F32, 1, SHAPE(COUNT), &a->x));
    STEP(bp_tensor_write(a->stream, a->x, data, sizeof data));
    STEP(bp_tensor_create(a->device, BP_F32, 1, SHAPE(COUNT), &a->w));
    STEP(bp_tensor_write(a->stream, a->w, data, sizeof data));
    STEP(bp_tensor_freeze(a->w));
    STEP(bp_graph_create(a->core, &a->graph));
    STEP(attempt_record(a));
    STEP(bp_program_create(a->graph, a->device, &a->program));
    STEP(bp_program_compile(a->program));
    for (int i = 0; i < 3; i++)
        STEP(bp_program_run(a->program, a->stream, &a->x, 1, &a->out[i], 1));
    return bp_tensor_read(a->stream, a->out[2], got, COUNT * sizeof *got);
}

static void attempt_finish(struct attempt *a)
{
    for (int i = 0; i < 3; i++) bp_tensor_destroy(a->out[i]);
    for (int i = 0; i < 3; i++) bp_tensor_destroy(a->part[i]);
    bp_tensor_destroy(a->x);
    bp_tensor_destroy(a->w);
    bp_tensor_destroy(a->input);
    bp_program_destroy(a->program);
    bp_graph_destroy(a->graph);
    bp_stream_destroy(a->stream);
    bp_device_destroy(a->device);
    bp_core_destroy(a->core);
}

/* Lets the n-th call of each kind fail, for all n that occur. A try fails with this status, or its
 * results are right: kernels run a group that could not be compiled, and calls are tried again.
 * Nothing is left. Returns how many tries failed. */
static int fail_each(const char *words, const char *call, int code, enum bp_status status)
{
    struct engined *did = engined_of();
    float expected[COUNT], got[COUNT];
    int failures = 0, passed = 0;
    struct attempt first = {0};
    char setting[64];

    setenv("BP_ENGINED", words, 1);
    unsetenv("BP_SIM_FAIL");
    OK(attempt_make(&first, expected));
    attempt_finish(&first);
    for (int n = 1; n < 100 && passed < 8; n++) {
        struct attempt a = {0};
        enum bp_status found;
        snprintf(setting, sizeof setting, "%s:%d:%d", call, n, code);
        setenv("BP_SIM_FAIL", setting, 1);
        found = attempt_make(&a, got);
        attempt_finish(&a);
        cr_assert(found == BP_OK || found == status, "%s: %s: %s", setting, bp_status_name(found),
                  bp_error_message());
        if (found == BP_OK) cr_assert_arr_eq(got, expected, sizeof got, "%s", setting);
        failures += found != BP_OK;
        passed = found ? 0 : passed + 1;
        cr_assert_eq(atomic_load(&did->engines), 0, "%s: an engine is left", setting);
        cr_assert_eq(atomic_load(&did->contexts), 0, "%s: a context is left", setting);
    }
    return failures;
}

Test(sim_engine, the_device_is_lost, .timeout = 120)
{
    cr_assert_geq(fail_each("contexts", "work", 700, BP_ERR_DEVICE_LOST), 10);
    cr_assert_geq(fail_each("captures", "launch", 700, BP_ERR_DEVICE_LOST), 6);
    cr_assert_geq(fail_each("captures contexts", "copy_out", 700, BP_ERR_DEVICE_LOST), 1);
}

Test(sim_engine, memory_runs_out, .timeout = 120)
{
    fail_each("contexts", "memory_allocate", 2, BP_ERR_MEMORY); /* the core tries again */
    cr_assert_geq(fail_each("", "stream_create", 2, BP_ERR_MEMORY), 1);
}
