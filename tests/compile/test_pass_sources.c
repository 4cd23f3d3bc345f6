/* SPDX-License-Identifier: Apache-2.0 */
/* test_pass_sources.c: tests frozen tensors whose owners can write the contents again: when the
 * contents are freed, and that everything that reads them brings them back. */
#include "../unit/fixture.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>

#define NO_PACKS "no row packs weights here: oneDNN is not installed, or off"

enum {
    FILTERS = 128,
    COUNT = FILTERS * FILTERS * 9,
    BYTES = COUNT * (int)sizeof(float)
};

/* A tensor of filters, its owner, and a tensor of the same numbers without a source. */
struct sourced {
    struct fixture f;
    struct bp_tensor *w, *plain;
    float *number;
    atomic_int written, released;
    atomic_bool fails;
};

static enum bp_status sourced_write(void *ctx, void *data, uint64_t bytes)
{
    struct sourced *s = ctx;

    if (atomic_load(&s->fails)) return bp_error_set(BP_ERR_NOT_FOUND, "the disk is gone");
    cr_assert_eq(bytes, BYTES);
    memcpy(data, s->number, bytes);
    atomic_fetch_add(&s->written, 1);
    return BP_OK;
}

static void sourced_release(void *ctx)
{
    struct sourced *s = ctx;

    atomic_fetch_add(&s->released, 1);
}

static void sourced_numbers(float *number, size_t n)
{
    for (size_t i = 0; i < n; i++) number[i] = (float)((int)(i * 37 % 101) - 50) / 64;
}

static struct bp_tensor_source sourced_source(struct sourced *s)
{
    return (struct bp_tensor_source){sizeof(struct bp_tensor_source), sourced_write,
                                     sourced_release, s};
}

static void sourced_init(struct sourced *s)
{
    struct bp_tensor_source source = sourced_source(s);

    unsetenv("BP_VALIDATE"); /* runs node by node would bring the contents back */
    *s = (struct sourced){.f = fixture_init(), .number = malloc(BYTES)};
    sourced_numbers(s->number, COUNT);
    s->w = tensor_of(&s->f, BP_F32, 4, SHAPE(FILTERS, FILTERS, 3, 3), s->number);
    s->plain = tensor_of(&s->f, BP_F32, 4, SHAPE(FILTERS, FILTERS, 3, 3), s->number);
    OK(bp_tensor_freeze(s->w));
    OK(bp_tensor_set_source(s->w, &source));
}

static void sourced_finish(struct sourced *s)
{
    bp_tensor_destroy(s->w);
    bp_tensor_destroy(s->plain);
    cr_expect_eq(atomic_load(&s->released), 1);
    fixture_finish(&s->f);
    free(s->number);
}

static bool sourced_is_dropped(const struct sourced *s)
{
    struct bp_tensor_info info = {.size = sizeof info};

    OK(bp_tensor_get_info(s->w, &info));
    cr_expect_eq(info.restores, (uint32_t)atomic_load(&s->written));
    return info.dropped;
}

static struct bp_tensor *sourced_input(struct sourced *s, int64_t batch, int64_t side)
{
    size_t n = (size_t)(batch * FILTERS * side * side);
    float *number = malloc(n * sizeof *number);
    struct bp_tensor *x;

    sourced_numbers(number, n);
    x = tensor_of(&s->f, BP_F32, 4, SHAPE(batch, FILTERS, side, side), number);
    free(number);
    return x;
}

/* Records y = conv(x, w), or y = w + w if there is no batch. */
static struct bp_graph *sourced_graph(struct sourced *s, int64_t batch, int64_t side)
{
    struct bp_tensor *x, *y = NULL;
    struct bp_graph *graph;

    OK(bp_graph_create(s->f.core, &graph));
    OK(bp_graph_input(graph, "x", BP_F32, 4,
                      batch ? SHAPE(batch, FILTERS, side, side) : SHAPE(FILTERS, FILTERS, 3, 3),
                      &x));
    if (batch) OK(bp_op_conv(bp_graph_scope(graph), x, s->w, NULL, NULL, &y));
    else OK(bp_op_add(bp_graph_scope(graph), x, s->w, &y));
    OK(bp_graph_output(graph, y, "y"));
    bp_tensor_destroy(x), bp_tensor_destroy(y);
    return graph;
}

static struct bp_program *sourced_program(struct sourced *s, int64_t batch, int64_t side)
{
    struct bp_graph *graph = sourced_graph(s, batch, side);
    struct bp_program *program;

    OK(bp_program_create(graph, s->f.device, &program));
    bp_graph_destroy(graph);
    return program;
}

static void sourced_same_on(struct bp_stream *stream, struct bp_tensor *a, struct bp_tensor *b,
                            float most)
{
    struct bp_tensor_info info = {.size = sizeof info};
    struct bp_tensor *dense, *t[2] = {a, b};
    float *number[2];

    OK(bp_tensor_get_info(a, &info));
    for (int i = 0; i < 2; i++) {
        number[i] = malloc(info.bytes + 1);
        OK(bp_tensor_create(info.device, BP_F32, info.rank, info.shape, &dense));
        OK(bp_tensor_copy(stream, dense, t[i]));
        OK(bp_tensor_read(stream, dense, number[i], info.bytes));
        bp_tensor_destroy(dense);
    }
    for (int64_t i = 0; i < info.count; i++)
        cr_assert_float_eq(number[0][i], number[1][i], most, "element %d", (int)i);
    free(number[0]), free(number[1]);
}

static void sourced_same(struct sourced *s, struct bp_tensor *a, struct bp_tensor *b, float most)
{
    sourced_same_on(s->f.stream, a, b, most);
}

/* Runs the program and compares its output with the call on numbers without a source. A sum has
 * 1152 terms below 0.62; the tolerance is below the bound on its rounding. */
static void sourced_check(struct sourced *s, struct bp_program *program, int64_t batch,
                          int64_t side)
{
    struct bp_tensor *x = sourced_input(s, batch ? batch : FILTERS, batch ? side : 3);
    struct bp_tensor *y[2] = {NULL};

    OK(bp_program_run(program, s->f.stream, &x, 1, &y[0], 1));
    if (batch) OK(bp_op_conv(s->f.scope, x, s->plain, NULL, NULL, &y[1]));
    else OK(bp_op_add(s->f.scope, x, s->plain, &y[1]));
    sourced_same(s, y[0], y[1], batch ? 1e-2f : 0);
    bp_tensor_destroy(x), bp_tensor_destroy(y[0]), bp_tensor_destroy(y[1]);
}

/* Frees the contents: compiles a program of a new shape. false: nothing packs weights here. */
static bool sourced_drop(struct sourced *s)
{
    static int64_t side = 5;
    struct bp_program *conv = sourced_program(s, 1, side);

    sourced_check(s, conv, 1, side++);
    bp_program_destroy(conv);
    return sourced_is_dropped(s);
}

Test(sources, contents_are_freed_while_only_packs_are_read)
{
    struct bp_program *conv, *larger, *add;
    struct sourced s;

    sourced_init(&s);
    cr_expect_not(sourced_is_dropped(&s));
    conv = sourced_program(&s, 1, 16);
    sourced_check(&s, conv, 1, 16);
    if (!sourced_is_dropped(&s)) cr_skip(NO_PACKS);
    larger = sourced_program(&s, 3, 16); /* another shape finds the pack */
    sourced_check(&s, larger, 3, 16);
    cr_expect(sourced_is_dropped(&s));
    cr_expect_eq(atomic_load(&s.written), 0);
    add = sourced_program(&s, 0, 0); /* its launches read the contents */
    sourced_check(&s, add, 0, 0);
    cr_expect_eq(atomic_load(&s.written), 1);
    bp_program_destroy(conv);
    conv = sourced_program(&s, 2, 7); /* does not free contents that `add` reads */
    sourced_check(&s, conv, 2, 7);
    cr_expect_not(sourced_is_dropped(&s));
    sourced_check(&s, add, 0, 0);
    cr_expect_eq(atomic_load(&s.written), 1);
    bp_program_destroy(add);
    cr_expect(sourced_drop(&s));
    bp_program_destroy(larger), bp_program_destroy(conv);
    conv = sourced_program(&s, 2, 9); /* all packs are gone: a new one is made */
    sourced_check(&s, conv, 2, 9);
    cr_expect(sourced_is_dropped(&s));
    cr_expect_eq(atomic_load(&s.written), 2);
    bp_program_destroy(conv);
    sourced_finish(&s);
}

/* An eager call, a run of a graph and a program that gets the tensor as its input. */
Test(sources, calls_bring_the_contents_back)
{
    struct bp_tensor *y = NULL, *expected = NULL, *w, *x;
    struct bp_program *add;
    struct bp_graph *graph;
    struct sourced s;

    sourced_init(&s);
    x = sourced_input(&s, FILTERS, 3);
    OK(bp_op_add(s.f.scope, x, s.plain, &expected));
    if (!sourced_drop(&s)) cr_skip(NO_PACKS);
    OK(bp_op_add(s.f.scope, x, s.w, &y));
    sourced_same(&s, y, expected, 0);
    cr_expect_eq(atomic_load(&s.written), 1);
    cr_assert(sourced_drop(&s));
    OK(bp_op_add(s.f.scope, x, s.w, &y)); /* a known call, into the same memory */
    sourced_same(&s, y, expected, 0);
    bp_tensor_destroy(y), y = NULL;
    cr_expect_eq(atomic_load(&s.written), 2);
    cr_assert(sourced_drop(&s));
    graph = sourced_graph(&s, 0, 0);
    OK(bp_graph_run(graph, s.f.stream, &x, 1, &y, 1));
    sourced_same(&s, y, expected, 0);
    bp_tensor_destroy(y), y = NULL;
    bp_graph_destroy(graph);
    cr_assert(sourced_drop(&s));
    w = s.w, s.w = s.plain;
    add = sourced_program(&s, 0, 0); /* of an input and the numbers without a source */
    s.w = w;
    OK(bp_program_run(add, s.f.stream, &s.w, 1, &y, 1));
    bp_tensor_destroy(expected), expected = NULL;
    OK(bp_op_add(s.f.scope, s.plain, s.plain, &expected));
    sourced_same(&s, y, expected, 0);
    bp_program_destroy(add);
    bp_tensor_destroy(x), bp_tensor_destroy(y), bp_tensor_destroy(expected);
    sourced_finish(&s);
}

/* A prepared call, whose short path compares types only. */
Test(sources, prepared_calls_bring_the_contents_back)
{
    struct bp_tensor *expected = NULL, *y = NULL, *x, *in[2];
    struct bp_prepared *prepared;
    struct sourced s;

    sourced_init(&s);
    x = sourced_input(&s, FILTERS, 3);
    in[0] = x, in[1] = s.w;
    OK(bp_op_add(s.f.scope, x, s.plain, &expected));
    OK(bp_tensor_create(s.f.device, BP_F32, 4, SHAPE(FILTERS, FILTERS, 3, 3), &y));
    OK(bp_prepared_create(s.f.device,
                          &(struct bp_call){.size = sizeof(struct bp_call),
                                            .op = "add",
                                            .in = (struct bp_arg[]){{&in[0], 1}, {&in[1], 1}},
                                            .n_in = 2},
                          NULL, 0, &prepared));
    OK(bp_prepared_run(prepared, s.f.stream, in, 2, &y, 1, NULL));
    if (!sourced_drop(&s)) cr_skip(NO_PACKS);
    OK(bp_prepared_run(prepared, s.f.stream, in, 2, &y, 1, NULL));
    sourced_same(&s, y, expected, 0);
    cr_expect_eq(atomic_load(&s.written), 1);
    bp_prepared_destroy(prepared);
    bp_tensor_destroy(x), bp_tensor_destroy(y), bp_tensor_destroy(expected);
    sourced_finish(&s);
}

Test(sources, reads_copies_and_views_bring_the_contents_back)
{
    struct bp_tensor *view, *copy, *sum = NULL, *expected = NULL;
    float *number = malloc(BYTES);
    struct sourced s;

    sourced_init(&s);
    if (!sourced_drop(&s)) cr_skip(NO_PACKS);
    OK(bp_tensor_read(s.f.stream, s.w, number, BYTES));
    cr_expect_arr_eq(number, s.number, BYTES);
    cr_assert(sourced_drop(&s));
    OK(bp_tensor_create(s.f.device, BP_F32, 4, SHAPE(FILTERS, FILTERS, 3, 3), &copy));
    OK(bp_tensor_copy(s.f.stream, copy, s.w));
    sourced_same(&s, copy, s.plain, 0);
    OK(bp_tensor_reshape(s.w, 1, SHAPE(COUNT), &view));
    cr_assert(sourced_drop(&s));
    OK(bp_op_add(s.f.scope, view, view, &sum));
    bp_tensor_destroy(view);
    OK(bp_tensor_reshape(s.plain, 1, SHAPE(COUNT), &view));
    OK(bp_op_add(s.f.scope, view, view, &expected));
    sourced_same(&s, sum, expected, 0);
    cr_expect_eq(atomic_load(&s.written), 3);
    bp_tensor_destroy(view), bp_tensor_destroy(copy);
    bp_tensor_destroy(sum), bp_tensor_destroy(expected);
    free(number);
    sourced_finish(&s);
}

/* An address is valid for good. */
Test(sources, mapped_and_restored_contents_stay)
{
    struct bp_tensor_info info = {.size = sizeof info};
    void *data = NULL;

    for (int maps = 0; maps < 2; maps++) {
        struct sourced s;
        sourced_init(&s);
        if (!sourced_drop(&s)) cr_skip(NO_PACKS);
        OK(bp_tensor_get_info(s.w, &info));
        cr_expect_null(info.data);
        if (maps) OK(bp_tensor_map(s.w, &data));
        else OK(bp_tensor_restore(s.w));
        cr_expect_eq(atomic_load(&s.released), 1);
        OK(bp_tensor_get_info(s.w, &info));
        cr_expect_arr_eq(info.data, s.number, BYTES);
        cr_expect_not(sourced_drop(&s));
        cr_expect_arr_eq(info.data, s.number, BYTES);
        OK(bp_tensor_restore(s.w));
        sourced_finish(&s);
    }
}

Test(sources, a_failure_is_reported_and_can_be_overcome)
{
    struct bp_program *conv, *add;
    struct bp_tensor *x, *y = NULL;
    void *data;
    struct sourced s;

    sourced_init(&s);
    if (!sourced_drop(&s)) cr_skip(NO_PACKS);
    x = sourced_input(&s, FILTERS, 3);
    atomic_store(&s.fails, true);
    add = sourced_program(&s, 0, 0);
    FAILS(BP_ERR_NOT_FOUND, "the disk is gone", bp_program_compile(add));
    FAILS(BP_ERR_NOT_FOUND, "the disk is gone", bp_program_run(add, s.f.stream, &x, 1, &y, 1));
    FAILS(BP_ERR_NOT_FOUND, "the disk is gone", bp_op_add(s.f.scope, x, s.w, &y));
    FAILS(BP_ERR_NOT_FOUND, "the disk is gone", bp_tensor_map(s.w, &data));
    cr_expect_null(y);
    conv = sourced_program(&s, 1, 40); /* the packs are gone, too */
    FAILS(BP_ERR_NOT_FOUND, "the disk is gone", bp_program_compile(conv));
    bp_program_destroy(conv);
    atomic_store(&s.fails, false);
    cr_expect(sourced_is_dropped(&s));
    OK(bp_program_run(add, s.f.stream, &x, 1, &y, 1));
    bp_tensor_destroy(y);
    sourced_check(&s, add, 0, 0);
    bp_program_destroy(add);
    cr_expect(sourced_drop(&s));
    bp_tensor_destroy(x);
    sourced_finish(&s);
}

static int sourced_thread(void *ctx)
{
    static atomic_int number;
    struct sourced *s = ctx;
    int own = atomic_fetch_add(&number, 1);
    struct bp_tensor *y = NULL, *expected = NULL;
    struct bp_stream *stream;

    OK(bp_stream_create(s->f.device, &stream));
    OK(bp_op_add(bp_stream_scope(stream), s->plain, s->plain, &expected));
    for (int round = 0; round < 4; round++) {
        struct bp_program *p = sourced_program(s, own % 3 == 2 ? 0 : 1, 6 + own + 8 * round);
        OK(bp_program_compile(p));
        OK(bp_op_add(bp_stream_scope(stream), s->w, s->w, &y));
        sourced_same_on(stream, y, expected, 0);
        bp_tensor_destroy(y), y = NULL;
        bp_program_destroy(p);
    }
    bp_tensor_destroy(expected);
    bp_stream_destroy(stream);
    return 0;
}

Test(sources, eight_threads_free_and_read_one_constant)
{
    thrd_t thread[8];
    struct sourced s;

    sourced_init(&s);
    for (int i = 0; i < 8; i++)
        cr_assert_eq(thrd_create(&thread[i], sourced_thread, &s), thrd_success);
    for (int i = 0; i < 8; i++) thrd_join(thread[i], NULL);
    if (!sourced_drop(&s)) cr_skip(NO_PACKS);
    sourced_finish(&s);
}

/* Sources that are refused, and those that are released at once. */
Test(sources, only_frozen_tensors_that_lie_alone_have_one)
{
    struct bp_tensor *small, *view;
    struct bp_tensor_source source;
    struct sourced s;

    sourced_init(&s);
    source = sourced_source(&s);
    FAILS(BP_ERR_INVALID, "bp_tensor_freeze", bp_tensor_set_source(s.plain, &source));
    source.write = NULL;
    FAILS(BP_ERR_INVALID, "write is NULL", bp_tensor_set_source(s.plain, &source));
    source = sourced_source(&s);
    small = tensor_of(&s.f, BP_F32, 1, SHAPE(1000), s.number);
    OK(bp_tensor_freeze(small));
    OK(bp_tensor_set_source(small, &source));
    cr_expect_eq(atomic_load(&s.released), 1);
    OK(bp_tensor_freeze(s.plain));
    OK(bp_tensor_reshape(s.plain, 1, SHAPE(COUNT), &view));
    OK(bp_tensor_set_source(s.plain, &source));
    cr_expect_eq(atomic_load(&s.released), 2);
    bp_tensor_destroy(view), bp_tensor_destroy(small);
    atomic_store(&s.released, 0);
    sourced_finish(&s);
}
