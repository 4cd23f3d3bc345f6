/* SPDX-License-Identifier: Apache-2.0 */
/* bench_calls.c: measures the overhead of a call: one element is added. The reference is the kernel
 * function itself, where it can be called directly. */
#include "bench.h"

struct calls {
    struct bench *bench;
    struct bp_tensor *x, *y, *z;
    struct bp_prepared *prepared;
    struct bench_kernel kernel;
};

static bool calls_prepared(void *ctx)
{
    struct calls *c = ctx;
    struct bp_tensor *const in[2] = {c->x, c->y};

    return bp_prepared_run(c->prepared, c->bench->stream, in, 2, &c->z, 1, NULL) == BP_OK;
}

static bool calls_eager(void *ctx)
{
    struct calls *c = ctx;
    struct bp_tensor *z;

    if (bp_op_add(c->bench->scope, c->x, c->y, &z)) return false;
    bp_tensor_destroy(z);
    return true;
}

static bool calls_prepare(void *ctx)
{
    struct calls *c = ctx;
    struct bp_arg in[2] = {{&c->x, 1}, {&c->y, 1}};
    struct bp_call call = {.size = sizeof call, .op = "add", .in = in, .n_in = 2};
    struct bp_prepared *p;

    if (bp_prepared_create(c->bench->device, &call, NULL, 0, &p)) return false;
    bp_prepared_destroy(p);
    return true;
}

static bool calls_setup(struct calls *c)
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
           !bp_prepared_create(c->bench->device, &call, NULL, 0, &c->prepared);
}

static void calls_run(struct calls *c)
{
    struct bp_tensor *const xyz[3] = {c->x, c->y, c->z};
    struct bench_side none = {0}, direct = {.body = bench_kernel_run, .ctx = &c->kernel};
    bool can = bench_kernel_open(c->bench, bp_prepared_kernel(c->prepared), xyz, &c->kernel);
    struct bench_side reference = can ? direct : none;
    const struct bench_case cases[] = {
        {"launch/prepared", "ns", can ? BENCH_OVER : BENCH_TIME, 0,
         {.body = calls_prepared, .ctx = c}, "kernel", reference, 0, 0},
        {"launch/eager", "ns", BENCH_TIME, 0, {.body = calls_eager, .ctx = c}, "kernel",
         reference, 0, 0},
        {"launch/prepare", "ns", BENCH_TIME, 0, {.body = calls_prepare, .ctx = c}, NULL, none,
         0, 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) bench_run(c->bench, &cases[i]);
    bench_kernel_close(&c->kernel);
}

void bench_calls(struct bench *bench)
{
    struct calls c = {.bench = bench};

    if (!bench_wants(bench, "launch/prepared") && !bench_wants(bench, "launch/eager") &&
        !bench_wants(bench, "launch/prepare"))
        return;
    if (calls_setup(&c)) calls_run(&c);
    else bench_failed(bench, "launch");
    bp_stream_synchronize(bench->stream);
    bp_prepared_destroy(c.prepared);
    bp_tensor_destroy(c.x);
    bp_tensor_destroy(c.y);
    bp_tensor_destroy(c.z);
}
