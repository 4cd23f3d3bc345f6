/* SPDX-License-Identifier: Apache-2.0 */
/* bench_calls.c: measures the overhead of a call: one element is added. The reference is the kernel
 * function itself, where it can be called directly. Frameworks that allocate memory themselves also
 * pay for tensors over that memory: one that is moved, and three that are moved for each call. */
#include "bench.h"

struct calls {
    struct bench *bench;
    struct bp_tensor *x, *y, *z;
    struct bp_prepared *prepared;
    struct bench_kernel kernel;
    struct bp_buffer *buffer;
    struct bp_tensor *over[3]; /* one element of the buffer each */
    uint64_t at;               /* where the tensors were moved to last */
};

enum {
    CALLS_BUFFER = 4096
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
    struct bp_tensor *z = NULL;

    if (bp_op_add(c->bench->scope, c->x, c->y, &z)) return false;
    bp_tensor_destroy(z);
    return true;
}

/* Moves tensor i to another element of the buffer. */
static bool calls_move(struct calls *c, int i)
{
    c->at = (c->at + sizeof(float)) % (CALLS_BUFFER / 4);
    return !bp_tensor_rebind(c->over[i], c->buffer, c->at + (uint64_t)i * (CALLS_BUFFER / 4));
}

static bool calls_rebind(void *ctx)
{
    return calls_move(ctx, 0);
}

static bool calls_sum(struct calls *c)
{
    struct bp_arg in[2] = {{&c->over[0], 1}, {&c->over[1], 1}};
    struct bp_call call = {.size = sizeof call, .op = "add", .in = in, .n_in = 2};

    return !bp_call_run(c->bench->scope, &call, &c->over[2], 1, NULL);
}

static bool calls_given(void *ctx)
{
    return calls_sum(ctx);
}

static bool calls_moved(void *ctx)
{
    return calls_move(ctx, 0) && calls_move(ctx, 1) && calls_move(ctx, 2) && calls_sum(ctx);
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

static bool calls_setup_over(struct calls *c)
{
    const struct bp_tensor_options one = {.size = sizeof one, .dtype = BP_F32};
    static const float zeros[CALLS_BUFFER / sizeof(float)];
    const struct bp_tensor_options all = {.size = sizeof all,
                                          .dtype = BP_F32,
                                          .rank = 1,
                                          .shape = (const int64_t[]){CALLS_BUFFER / sizeof(float)}};
    struct bp_tensor *whole;
    bool done;

    if (bp_buffer_create(c->bench->device, c->bench->stream, BP_SPACE_DEVICE, CALLS_BUFFER,
                         &c->buffer) ||
        bp_tensor_create_over(c->buffer, 0, &all, &whole))
        return false;
    done = !bp_tensor_write(c->bench->stream, whole, zeros, sizeof zeros);
    bp_tensor_destroy(whole);
    for (int i = 0; i < 3 && done; i++)
        done = !bp_tensor_create_over(c->buffer, 0, &one, &c->over[i]);
    return done;
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
           !bp_prepared_create(c->bench->device, &call, NULL, 0, &c->prepared) &&
           calls_setup_over(c);
}

static void calls_run(struct calls *c)
{
    struct bp_tensor *const xyz[3] = {c->x, c->y, c->z};
    struct bench_side none = {0}, direct = {.body = bench_kernel_run, .ctx = &c->kernel};
    bool can = bench_kernel_open(c->bench, bp_prepared_kernel(c->prepared), xyz, &c->kernel);
    struct bench_side reference = can ? direct : none;
    struct bench_side moved = {.body = calls_moved, .ctx = c},
                      given = {.body = calls_given, .ctx = c};
    const struct bench_case cases[] = {
        {"launch/prepared",
         "ns",
         can ? BENCH_OVER : BENCH_TIME,
         0,
         {.body = calls_prepared, .ctx = c},
         "kernel",
         reference,
         0,
         0},
        {"launch/eager",
         "ns",
         BENCH_TIME,
         0,
         {.body = calls_eager, .ctx = c},
         "kernel",
         reference,
         0,
         0},
        {"launch/prepare",
         "ns",
         BENCH_TIME,
         0,
         {.body = calls_prepare, .ctx = c},
         NULL,
         none,
         0,
         0},
        {"tensor/rebind", "ns", BENCH_TIME, 0, {.body = calls_rebind, .ctx = c}, NULL, none, 0, 0},
        {"launch/rebound over given", "ns", BENCH_OVER, 0, moved, "the call alone", given, 0, 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) bench_run(c->bench, &cases[i]);
    bench_kernel_close(&c->kernel);
}

void bench_calls(struct bench *bench)
{
    static const char *const names[] = {"launch/prepared", "launch/eager", "launch/prepare",
                                        "tensor/rebind", "launch/rebound over given"};
    struct calls c = {.bench = bench};
    bool wanted = false;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        wanted |= bench_wants(bench, names[i]);
    if (!wanted) return;
    if (calls_setup(&c)) calls_run(&c);
    else bench_failed(bench, "launch");
    bp_stream_synchronize(bench->stream);
    bp_prepared_destroy(c.prepared);
    for (int i = 0; i < 3; i++) bp_tensor_destroy(c.over[i]);
    bp_buffer_destroy(c.buffer);
    bp_tensor_destroy(c.x);
    bp_tensor_destroy(c.y);
    bp_tensor_destroy(c.z);
}
