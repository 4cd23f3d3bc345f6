/* SPDX-License-Identifier: Apache-2.0 */
/* bench_calls.c: what a call costs beside its work: one element is added. */
#include "bench.h"

struct calls {
    struct bench *bench;
    struct bp_tensor *x, *y, *z;
    struct bp_prepared *prepared;
};

static bool prepared(void *ctx)
{
    struct calls *c = ctx;
    struct bp_tensor *const in[2] = {c->x, c->y};

    return bp_prepared_run(c->prepared, c->bench->stream, in, 2, &c->z, 1, NULL) == BP_OK;
}

static bool eager(void *ctx)
{
    struct calls *c = ctx;
    struct bp_tensor *z;

    if (bp_op_add(c->bench->scope, c->x, c->y, &z)) return false;
    bp_tensor_destroy(z);
    return true;
}

static bool prepare(void *ctx)
{
    struct calls *c = ctx;
    struct bp_arg in[2] = {{&c->x, 1}, {&c->y, 1}};
    struct bp_call call = {.size = sizeof call, .op = "add", .in = in, .n_in = 2};
    struct bp_prepared *p;

    if (bp_prepared_create(c->bench->device, &call, &p)) return false;
    bp_prepared_destroy(p);
    return true;
}

static bool setup(struct calls *c)
{
    struct bp_arg in[2] = {{&c->x, 1}, {&c->y, 1}};
    struct bp_call call = {.size = sizeof call, .op = "add", .in = in, .n_in = 2};
    const int64_t shape[1] = {1};
    float one = 1;

    return !bp_tensor_create(c->bench->device, BP_F32, 1, shape, &c->x) &&
           !bp_tensor_create(c->bench->device, BP_F32, 1, shape, &c->y) &&
           !bp_tensor_create(c->bench->device, BP_F32, 1, shape, &c->z) &&
           !bp_tensor_write(c->bench->stream, c->x, &one, sizeof one) &&
           !bp_tensor_write(c->bench->stream, c->y, &one, sizeof one) &&
           !bp_prepared_create(c->bench->device, &call, &c->prepared);
}

void bench_calls(struct bench *bench)
{
    struct calls c = {.bench = bench};
    const struct bench_case cases[] = {
        {"launch/prepared", "ns", 0, prepared, &c, NULL, NULL, NULL},
        {"launch/eager", "ns", 0, eager, &c, NULL, NULL, NULL},
        {"launch/prepare", "ns", 0, prepare, &c, NULL, NULL, NULL},
    };

    if (setup(&c)) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) bench_run(bench, &cases[i]);
    } else {
        bp_complain("bench", "launch: %s", bp_error_message());
        bench->failed = true;
    }
    bp_stream_synchronize(bench->stream);
    bp_prepared_destroy(c.prepared);
    bp_tensor_destroy(c.x);
    bp_tensor_destroy(c.y);
    bp_tensor_destroy(c.z);
}
