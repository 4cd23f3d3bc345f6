/* SPDX-License-Identifier: Apache-2.0 */
/* bench_streams.c: measures calls on two threads, each with its own stream, beside calls on one of
 * them. */
#include "bench.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { LANES = 2, ELEMENTS = 256 };

#define SLICE 5e-3 /* seconds; much longer than starting a thread takes */

struct lane {
    _Alignas(128) /* keeps the data written by different threads apart */
    struct bench *bench;
    struct bp_stream *stream;
    struct bp_tensor *x, *y, *z;
    struct bp_prepared *prepared;
    bool (*call)(struct lane *lane);
    _Atomic int *ready; /* number of lanes that are ready to begin */
    int lanes;
    int calls;
    double begin, end;
    bool failed;
};

struct lanes {
    struct lane at[LANES];
};

static bool streams_eager(struct lane *lane)
{
    struct bp_tensor *z = NULL;

    if (bp_op_add(bp_stream_scope(lane->stream), lane->x, lane->y, &z)) return false;
    bp_tensor_destroy(z);
    return true;
}

static bool streams_prepared(struct lane *lane)
{
    struct bp_tensor *const in[2] = {lane->x, lane->y};

    return !bp_prepared_run(lane->prepared, lane->stream, in, 2, &lane->z, 1, NULL);
}

static void *streams_work(void *ctx)
{
    struct lane *lane = ctx;

    for (int i = 0; i < 64; i++) lane->failed |= !lane->call(lane); /* first calls are slow */
    atomic_fetch_add(lane->ready, 1);
    while (atomic_load(lane->ready) < lane->lanes) sched_yield(); /* both begin together */
    lane->begin = bench_now();
    for (int i = 0; i < lane->calls && !lane->failed; i++) lane->failed = !lane->call(lane);
    lane->failed |= bp_stream_synchronize(lane->stream) != BP_OK;
    lane->end = bench_now();
    return NULL;
}

/* Seconds of one call of a lane. For several lanes this is computed from the sum of their rates. */
static double run_lanes(struct lanes *lanes, int n, int calls, bool (*call)(struct lane *))
{
    _Atomic int ready = 0;
    pthread_t thread[LANES];
    double rate = 0;
    bool failed = false;

    for (int i = 0; i < n; i++) {
        struct lane *lane = &lanes->at[i];
        lane->call = call;
        lane->calls = calls;
        lane->ready = &ready;
        lane->lanes = n;
        lane->failed = false;
        if (i && pthread_create(&thread[i], NULL, streams_work, lane))
            return -1; /* only the first lane exists */
    }
    streams_work(&lanes->at[0]);
    for (int i = 0; i < n; i++) {
        const struct lane *lane = &lanes->at[i];
        if (i) pthread_join(thread[i], NULL);
        failed |= lane->failed;
        rate += calls / (lane->end - lane->begin);
    }
    return failed ? -1 : n / rate;
}

static double eager_one(void *ctx, int calls)
{
    return run_lanes(ctx, 1, calls, streams_eager);
}

static double eager_two(void *ctx, int calls)
{
    return run_lanes(ctx, LANES, calls, streams_eager);
}

static double prepared_one(void *ctx, int calls)
{
    return run_lanes(ctx, 1, calls, streams_prepared);
}

static double prepared_two(void *ctx, int calls)
{
    return run_lanes(ctx, LANES, calls, streams_prepared);
}

static bool streams_setup(struct lane *lane)
{
    static const float zero[ELEMENTS];
    struct bp_device *device = lane->bench->device;
    struct bp_arg in[2] = {{&lane->x, 1}, {&lane->y, 1}};
    struct bp_call call = {.size = sizeof call, .op = "add", .in = in, .n_in = 2};
    const int64_t shape[1] = {ELEMENTS};

    return !bp_stream_create(device, &lane->stream) &&
           !bp_tensor_create(device, BP_F32, 1, shape, &lane->x) &&
           !bp_tensor_create(device, BP_F32, 1, shape, &lane->y) &&
           !bp_tensor_create(device, BP_F32, 1, shape, &lane->z) &&
           !bp_tensor_write(lane->stream, lane->x, zero, sizeof zero) &&
           !bp_tensor_write(lane->stream, lane->y, zero, sizeof zero) &&
           !bp_prepared_create(device, &call, NULL, 0, &lane->prepared);
}

static void streams_finish(struct lane *lane)
{
    if (lane->stream) bp_stream_synchronize(lane->stream);
    bp_prepared_destroy(lane->prepared);
    bp_tensor_destroy(lane->x);
    bp_tensor_destroy(lane->y);
    bp_tensor_destroy(lane->z);
    bp_stream_destroy(lane->stream);
}

void bench_streams(struct bench *bench)
{
    struct lanes lanes = {.at = {{.bench = bench}, {.bench = bench}}};
    const struct bench_case cases[] = {
        {"stream/two-threads eager", "x", BENCH_TIMES, LANES, {.block = eager_two, .ctx = &lanes},
         "one thread", {.block = eager_one, .ctx = &lanes}, 0, SLICE},
        {"stream/two-threads prepared", "x", BENCH_TIMES, LANES,
         {.block = prepared_two, .ctx = &lanes}, "one thread",
         {.block = prepared_one, .ctx = &lanes}, 0, SLICE},
    };

    if (!bench_wants(bench, cases[0].name) && !bench_wants(bench, cases[1].name)) return;
    if (streams_setup(&lanes.at[0]) && streams_setup(&lanes.at[1])) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) bench_run(bench, &cases[i]);
    } else {
        bench_failed(bench, "stream/two-threads");
    }
    for (int i = 0; i < LANES; i++) streams_finish(&lanes.at[i]);
}
