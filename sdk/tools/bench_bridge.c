/* SPDX-License-Identifier: Apache-2.0 */
/* bench_bridge.c: measures the time that a bridge to another framework adds to a call: it finds the
 * memory of the framework's addresses and wraps it as tensors (sdk/bridges/common). */
#include "bench.h"

#include <bridge.h>

enum {
    BRIDGE_FLOATS = 16, /* of each operand */
    BRIDGE_PLACES = 64, /* at which operands lie */
    BRIDGE_ALLOCATIONS = 8
};

struct wrapped {
    struct bench *bench;
    struct bridge_memory *memory;
    struct bridge_wraps wraps;
    float *at[BRIDGE_ALLOCATIONS];
    struct bp_tensor *over[3];
    uint32_t n; /* calls so far */
};

/* Wraps operand i at a place that differs from call to call. */
static bool wrapped_operand(struct wrapped *w, int i, struct bp_tensor **out)
{
    const int64_t shape[1] = {BRIDGE_FLOATS};
    uint32_t place = (w->n + (uint32_t)i * 17) % (BRIDGE_ALLOCATIONS * BRIDGE_PLACES);

    return !bridge_wrap(&w->wraps,
                        w->at[place % BRIDGE_ALLOCATIONS] +
                            place / BRIDGE_ALLOCATIONS * BRIDGE_FLOATS,
                        BP_F32, 1, shape, out);
}

static bool wrapped_sum(struct wrapped *w, struct bp_tensor *const xyz[3])
{
    struct bp_arg in[2] = {{&xyz[0], 1}, {&xyz[1], 1}};
    struct bp_call call = {.size = sizeof call, .op = "add", .in = in, .n_in = 2};
    struct bp_tensor *z = xyz[2];

    return !bp_call_run(w->bench->scope, &call, &z, 1, NULL);
}

static bool wrapped_given(void *ctx)
{
    struct wrapped *w = ctx;

    return wrapped_sum(w, w->over);
}

static bool wrapped_call(void *ctx)
{
    struct wrapped *w = ctx;
    struct bp_tensor *xyz[3];

    w->n++;
    bridge_wraps_begin(&w->wraps);
    for (int i = 0; i < 3; i++)
        if (!wrapped_operand(w, i, &xyz[i])) return false;
    return wrapped_sum(w, xyz);
}

static bool wrapped_setup(struct wrapped *w)
{
    const int64_t shape[1] = {BRIDGE_FLOATS};

    if (bridge_memory_create(w->bench->device, &w->memory) ||
        bridge_wraps_init(&w->wraps, w->memory))
        return false;
    for (int i = 0; i < BRIDGE_ALLOCATIONS; i++)
        if (bridge_memory_allocate(w->memory, w->bench->stream,
                                   sizeof(float) * BRIDGE_FLOATS * BRIDGE_PLACES,
                                   (void **)&w->at[i]))
            return false;
    for (int i = 0; i < 3; i++)
        if (bp_tensor_create(w->bench->device, BP_F32, 1, shape, &w->over[i])) return false;
    return true;
}

void bench_bridge(struct bench *bench)
{
    static const char name[] = "bridge/wrapped over given";
    struct wrapped w = {.bench = bench};
    const struct bench_case c = {.name = name,
                                 .unit = "ns",
                                 .figure = BENCH_OVER,
                                 .side = {.body = wrapped_call, .ctx = &w},
                                 .reference_name = "the call alone",
                                 .reference = {.body = wrapped_given, .ctx = &w}};

    if (!bench_wants(bench, name)) return;
    if (wrapped_setup(&w)) bench_run(bench, &c);
    else bench_failed(bench, name);
    bp_stream_synchronize(bench->stream);
    for (int i = 0; i < 3; i++) bp_tensor_destroy(w.over[i]);
    bridge_wraps_finish(&w.wraps);
    bridge_memory_destroy(w.memory);
}
