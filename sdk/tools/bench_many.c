/* SPDX-License-Identifier: Apache-2.0 */
/* bench_many.c: measures eager calls of many signatures: shapes that are new to the device, and a
 * thousand shapes that recur in random order. */
#include "bench.h"

#include <stdlib.h>

/* One signature: the sum of two tensors of a shape. z and prepared are for the prepared call. */
struct signature {
    struct bp_tensor *x, *y, *z;
    struct bp_prepared *prepared;
};

static void many_forget(struct signature *s)
{
    bp_prepared_destroy(s->prepared);
    bp_tensor_destroy(s->x);
    bp_tensor_destroy(s->y);
    bp_tensor_destroy(s->z);
    *s = (struct signature){0};
}

/* The inputs are zeros, so that no sum is denormal. */
static bool many_make(struct bench *bench, uint32_t rank, const int64_t *shape, struct signature *s)
{
    static const float zero[4096];
    struct bp_tensor_info info = {.size = sizeof info};

    return !bp_tensor_create(bench->device, BP_F32, rank, shape, &s->x) &&
           !bp_tensor_create(bench->device, BP_F32, rank, shape, &s->y) &&
           !bp_tensor_get_info(s->x, &info) && info.bytes <= sizeof zero &&
           !bp_tensor_write(bench->stream, s->x, zero, info.bytes) &&
           !bp_tensor_write(bench->stream, s->y, zero, info.bytes);
}

static bool many_prepare(struct bench *bench, uint32_t rank, const int64_t *shape,
                         struct signature *s)
{
    struct bp_arg in[2] = {{&s->x, 1}, {&s->y, 1}};
    struct bp_call call = {.size = sizeof call, .op = "add", .in = in, .n_in = 2};

    return !bp_tensor_create(bench->device, BP_F32, rank, shape, &s->z) &&
           !bp_prepared_create(bench->device, &call, NULL, 0, &s->prepared);
}

static bool many_eager(const struct bench *bench, const struct signature *s)
{
    struct bp_tensor *z = NULL;

    if (bp_op_add(bench->scope, s->x, s->y, &z)) return false;
    bp_tensor_destroy(z);
    return true;
}

/* --- new shapes: 1 to 8 along each of four axes, each shape once ------------------------------ */

enum { BLOCK = 16, SHAPES = 8 * 8 * 8 * 8 };
struct fresh {
    struct bench *bench;
    int next; /* number of the next shape */
    struct signature at[BLOCK];
};

static double time_block(const struct fresh *f)
{
    double begin = bench_now();

    for (int i = 0; i < BLOCK; i++)
        if (!many_eager(f->bench, &f->at[i])) return -1;
    return (bench_now() - begin) / BLOCK;
}

static double new_shapes(void *ctx, int calls)
{
    struct fresh *f = ctx;

    (void)calls; /* always BLOCK */
    bp_stream_synchronize(f->bench->stream);
    for (int i = 0; i < BLOCK; i++, f->next++) {
        /* An odd step visits all shapes, and gives each block small and large ones. */
        int n = (int)((unsigned)f->next * 1367u % SHAPES);
        const int64_t shape[4] = {n % 8 + 1, n / 8 % 8 + 1, n / 64 % 8 + 1, n / 512 + 1};
        many_forget(&f->at[i]);
        if (!many_make(f->bench, 4, shape, &f->at[i])) return -1;
    }
    return time_block(f);
}

static double same_shapes(void *ctx, int calls)
{
    (void)calls;
    return time_block(ctx);
}

static void run_fresh(struct bench *bench)
{
    struct fresh f = {.bench = bench};
    const struct bench_case row = {
        "launch/new-shape", "ns", BENCH_TIME, 0, {.block = new_shapes, .ctx = &f},
        "the same calls again", {.block = same_shapes, .ctx = &f}, BLOCK, 0,
        SHAPES / BLOCK - 1 /* one block is run before the measurement */};

    bench_run(bench, &row);
    bp_stream_synchronize(bench->stream);
    for (int i = 0; i < BLOCK; i++) many_forget(&f.at[i]);
}

/* --- a thousand shapes in random order: 1 to 10 along each of three axes ---------------------- */

enum { SIGNATURES = 1000, DRAWS = 8192 };
struct thousand {
    struct bench *bench;
    struct signature *at;
    uint16_t *draw;
    unsigned eager, prepared; /* position of each side in the draws */
};

static bool next_eager(void *ctx)
{
    struct thousand *t = ctx;

    return many_eager(t->bench, &t->at[t->draw[t->eager++ % DRAWS]]);
}

static bool next_prepared(void *ctx)
{
    struct thousand *t = ctx;
    const struct signature *s = &t->at[t->draw[t->prepared++ % DRAWS]];
    struct bp_tensor *const in[2] = {s->x, s->y};

    return !bp_prepared_run(s->prepared, t->bench->stream, in, 2, &s->z, 1, NULL);
}

static bool setup_thousand(struct thousand *t)
{
    uint64_t state = 1;

    t->at = calloc(SIGNATURES, sizeof *t->at);
    t->draw = malloc(DRAWS * sizeof *t->draw);
    if (!t->at || !t->draw) return false;
    for (int i = 0; i < DRAWS; i++) t->draw[i] = (uint16_t)(bench_random(&state) % SIGNATURES);
    for (int i = 0; i < SIGNATURES; i++) {
        const int64_t shape[3] = {i % 10 + 1, i / 10 % 10 + 1, i / 100 + 1};
        if (!many_make(t->bench, 3, shape, &t->at[i]) ||
            !many_prepare(t->bench, 3, shape, &t->at[i]))
            return false;
    }
    return true;
}

static void run_thousand(struct bench *bench)
{
    struct thousand t = {.bench = bench};
    const struct bench_side e = {.body = next_eager, .ctx = &t};
    const struct bench_side p = {.body = next_prepared, .ctx = &t};
    const struct bench_case cases[] = {
        {"launch/1000-signatures", "ns", BENCH_TIME, 0, e, "prepared calls", p, 0, 0},
        {"launch/1000-signatures over prepared", "ns", BENCH_OVER, 0, e, "prepared calls", p, 0, 0},
    };

    if (setup_thousand(&t)) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) bench_run(bench, &cases[i]);
    } else {
        bench_failed(bench, "launch/1000-signatures");
    }
    bp_stream_synchronize(bench->stream);
    for (int i = 0; t.at && i < SIGNATURES; i++) many_forget(&t.at[i]);
    free(t.at);
    free(t.draw);
}

void bench_many(struct bench *bench)
{
    /* The device remembers shapes from then on, so they are new only once. */
    if (!bench->beside && bench_wants(bench, "launch/new-shape")) run_fresh(bench);
    if (bench_wants(bench, "launch/1000-signatures") ||
        bench_wants(bench, "launch/1000-signatures over prepared"))
        run_thousand(bench);
}
