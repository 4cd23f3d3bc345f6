/* SPDX-License-Identifier: Apache-2.0 */
/* test_pass_fold.c: tests the pass `fold`: which nodes it computes, which must stay, and the
 * constants that programs share. */
#include "pass_kit.h"

#include <pthread.h>
#include <stdlib.h>

static const double fold_terms = 64; /* a few roundings of numbers below 8 */

/* The operators that are left after the pass. */
static void expect_fold(const char *text, const char *ops)
{
    pass_expect(text, bp_pass_fold, ops, fold_terms);
}

Test(fold, nodes_of_frozen_constants_are_computed)
{
    expect_fold("add(x, neg(b!))", "add");
    expect_fold("add(x, relu(mul(b!, neg(d!))))", "add");
    expect_fold("add(x, leaky_relu(transpose(b![4,4]; perm=1_0); slope=0.5))", "add");
    expect_fold("add(x, mul(b!, 3))", "add");
    expect_fold("mul(x, add(leaky_relu(b!; slope=0.25), leaky_relu(b!; slope=0.5)))", "mul");
}

Test(fold, other_nodes_stay)
{
    expect_fold("add(x, neg(b~))", "neg add");
    expect_fold("add(x, add(b!, c~))", "add add");
    expect_fold("add(x, mul(b!, 3~))", "mul add");
    expect_fold("y = neg(b!)\nreturn y", "neg");
    expect_fold("y = neg(b!)\nreturn transpose(y), abs(y)", "neg transpose abs");
    expect_fold("y = transpose(b![4,4])\nreturn y, add(x, y)", "transpose add");
}

/* Each run updates a new result. */
Test(fold, a_result_that_is_updated_stays)
{
    expect_fold("y = neg(b!)\nq = sgd(y, g[4], 0.25)\nreturn add(x, q)", "neg sgd add");
    expect_fold("y = neg(b![4,4])\nv = transpose(y)\nq = sgd(v, g[4,4], 0.25)\n"
                "return add(x, add(y, q))",
                "neg transpose sgd add add");
}

Test(fold, random_nodes_stay)
{
    pass_expect("add(x, uniform(_; shape=4))", bp_pass_fold, "uniform add", 0);
    pass_expect("add(x, dropout(b!))", bp_pass_fold, "dropout add", 0);
}

/* 4 KiB may become 64 KiB more, but no more than that; neither through a view, which has no memory
 * of its own. */
Test(fold, large_results_are_not_kept)
{
    expect_fold("add(x[1], neg(tile(b![1024]; repeats=16)))", "add");
    expect_fold("add(x[1], neg(tile(b![1024]; repeats=32)))", "tile neg add");
    expect_fold("add(x[1], neg(expand(b![1]; shape=16000)))", "add");
    expect_fold("add(x[1], neg(expand(b![1]; shape=17000)))", "neg add");
    expect_fold("add(x[1], neg(neg(expand(b![64,1]; shape=64_1024))))", "neg neg add");
}

Test(fold, a_pinned_node_stays)
{
    pass_expect_pin_kept("add(x, neg(b!))", bp_pass_fold, 1);
}

/* A node that fails stays, and each run reports its failure. */
Test(fold, a_failure_is_left_to_the_run)
{
    struct text_graph g = text_begin();
    struct pass_run run;
    struct bp_program *program;
    struct bp_tensor *y = NULL;

    text_record(&g, "add(x[2], gather(b!, 7:i64[2]))");
    pass_begin(&g, &run);
    pass_apply(&run, bp_pass_fold);
    pass_expect_same(&run, "a bad index");
    pass_finish(&run);
    OK(bp_program_create(g.graph, g.f.device, &program));
    FAILS(BP_ERR_FAULT, "node gather", bp_program_run(program, g.f.stream, g.in, g.n_in, &y, 1));
    bp_program_destroy(program);
    text_finish(&g);
}

/* The app may write to an output that depends on constants only: the next run computes it again. */
Test(fold, an_output_is_not_the_constant)
{
    struct text_graph g = text_begin();
    struct bp_program *program;

    text_record(&g, "y = neg(2[4])\nreturn y, relu(3[4]), add(x[4], y)");
    OK(bp_program_create(g.graph, g.f.device, &program));
    for (int time = 0; time < 2; time++) {
        struct bp_tensor *y[3] = {NULL};
        OK(bp_program_run(program, g.f.stream, g.in, g.n_in, y, 3));
        expect_bytes(&g.f, y[0], F32(-2, -2, -2, -2), 16);
        expect_bytes(&g.f, y[1], F32(3, 3, 3, 3), 16);
        for (int o = 0; o < 3; o++) {
            OK(bp_tensor_write(g.f.stream, y[o], F32(9, 9, 9, 9), 16));
            bp_tensor_destroy(y[o]);
        }
    }
    bp_program_destroy(program);
    text_finish(&g);
}

/* ---- shared constants ---- */

/* Two graphs add constants that follow from one frozen tensor. */
struct sharing {
    struct fixture f;
    struct bp_tensor *b;
    struct bp_graph *graph[2];
};

/* y = x + leaky_relu(b) */
static struct bp_graph *share_record(struct sharing *s, double slope)
{
    struct bp_leaky_relu_attrs attrs = {.size = sizeof attrs, .slope = slope};
    struct bp_tensor *x, *leaky = NULL, *y = NULL;
    struct bp_graph *graph;

    OK(bp_graph_create(s->f.core, &graph));
    OK(bp_graph_input(graph, "x", BP_F32, 1, SHAPE(1024), &x));
    OK(bp_op_leaky_relu(bp_graph_scope(graph), s->b, &attrs, &leaky));
    OK(bp_op_add(bp_graph_scope(graph), x, leaky, &y));
    OK(bp_graph_output(graph, y, NULL));
    bp_tensor_destroy(x);
    bp_tensor_destroy(leaky);
    bp_tensor_destroy(y);
    return graph;
}

static struct sharing share_begin(double slope, double other)
{
    struct sharing s = {.f = fixture_init()};
    float number[1024];

    for (int i = 0; i < 1024; i++) number[i] = -4;
    s.b = tensor_of(&s.f, BP_F32, 1, SHAPE(1024), number);
    OK(bp_tensor_freeze(s.b));
    s.graph[0] = share_record(&s, slope);
    s.graph[1] = share_record(&s, other);
    return s;
}

static void share_finish(struct sharing *s)
{
    bp_graph_destroy(s->graph[0]);
    bp_graph_destroy(s->graph[1]);
    bp_tensor_destroy(s->b);
    fixture_finish(&s->f);
}

static uint64_t share_allocated(struct sharing *s)
{
    struct bp_memory_stats stats = {.size = sizeof stats};

    OK(bp_device_memory(s->f.device, &stats));
    return stats.allocated;
}

static struct bp_ir *share_fold(struct sharing *s, int i)
{
    struct bp_compilation c = {0};

    OK(bp_ir_create(s->graph[i], s->f.device, &c.ir));
    OK(bp_pass_fold(&c));
    cr_assert_eq(c.changes, 1);
    return c.ir;
}

static const struct bp_tensor *folded_of(const struct bp_ir *ir)
{
    for (uint32_t v = 0; v < ir->n_value; v++)
        if (ir->value[v].folded) return ir->value[v].constant;
    cr_assert_fail("nothing is folded");
    return NULL;
}

static float first_of(struct sharing *s, const struct bp_tensor *t)
{
    float number[1024];

    OK(bp_tensor_read(s->f.stream, (struct bp_tensor *)t, number, sizeof number));
    return number[0];
}

Test(fold, equal_constants_of_two_graphs_are_one)
{
    struct sharing s = share_begin(0.25, 0.25);
    uint64_t before = share_allocated(&s), with;
    struct bp_ir *first = share_fold(&s, 0), *second;

    with = share_allocated(&s);
    cr_assert_geq(with, before + 4096);
    second = share_fold(&s, 1);
    cr_assert_eq(folded_of(first), folded_of(second));
    cr_assert_eq(share_allocated(&s), with);
    bp_ir_destroy(first);
    cr_assert_eq(share_allocated(&s), with);
    cr_assert_eq(first_of(&s, folded_of(second)), -1);
    first = share_fold(&s, 0);
    cr_assert_eq(folded_of(first), folded_of(second));
    bp_ir_destroy(second);
    bp_ir_destroy(first);
    cr_assert_eq(share_allocated(&s), before, "the constant stays after its last user");
    share_finish(&s);
}

Test(fold, constants_with_other_attributes_are_two)
{
    struct sharing s = share_begin(0.25, 0.5);
    struct bp_ir *first = share_fold(&s, 0), *second = share_fold(&s, 1);

    cr_assert_neq(folded_of(first), folded_of(second));
    cr_assert_eq(first_of(&s, folded_of(first)), -1);
    cr_assert_eq(first_of(&s, folded_of(second)), -2);
    bp_ir_destroy(first);
    bp_ir_destroy(second);
    share_finish(&s);
}

/* Another constant may get the memory of one that was freed: it is another one to the compiler. */
Test(fold, a_new_constant_in_old_memory_is_new)
{
    struct sharing s = share_begin(0.25, 0.25), again = {.f = s.f};
    struct bp_ir *first = share_fold(&s, 0), *second;
    float number[1024];

    for (int i = 0; i < 1024; i++) number[i] = -8;
    bp_graph_destroy(s.graph[1]);
    again.b = tensor_of(&s.f, BP_F32, 1, SHAPE(1024), number);
    OK(bp_tensor_freeze(again.b));
    s.graph[1] = share_record(&again, 0.25);
    second = share_fold(&s, 1);
    cr_assert_eq(first_of(&s, folded_of(second)), -2);
    bp_ir_destroy(second);
    bp_ir_destroy(first);
    bp_tensor_destroy(again.b);
    share_finish(&s);
}

/* ---- threads ---- */

struct folder {
    struct sharing *s;
    int number;
    uint32_t wrong;
    pthread_t thread;
};

static void *folder_run(void *arg)
{
    struct folder *f = arg;
    struct bp_tensor *x, *y = NULL;
    float number[1024] = {0};
    struct bp_stream *stream;

    if (bp_stream_create_with(f->s->f.device, BP_STREAM_INLINE, &stream) ||
        bp_tensor_create(f->s->f.device, BP_F32, 1, SHAPE(1024), &x) ||
        bp_tensor_write(stream, x, number, sizeof number))
        abort();
    for (int time = 0; time < 50; time++) {
        struct bp_program *program;
        int graph = (f->number + time) % 2;
        y = NULL;
        if (bp_program_create(f->s->graph[graph], f->s->f.device, &program) ||
            bp_program_run(program, stream, &x, 1, &y, 1) ||
            bp_tensor_read(stream, y, number, sizeof number))
            abort();
        f->wrong += number[0] != (graph ? -2 : -1);
        bp_tensor_destroy(y);
        bp_program_destroy(program);
    }
    bp_tensor_destroy(x);
    bp_stream_destroy(stream);
    return NULL;
}

Test(fold, eight_threads_create_programs)
{
    struct sharing s = share_begin(0.25, 0.5);
    uint64_t before = share_allocated(&s);
    struct folder folder[8];

    for (int i = 0; i < 8; i++) {
        folder[i] = (struct folder){.s = &s, .number = i};
        cr_assert_eq(pthread_create(&folder[i].thread, NULL, folder_run, &folder[i]), 0);
    }
    for (int i = 0; i < 8; i++) {
        pthread_join(folder[i].thread, NULL);
        cr_assert_eq(folder[i].wrong, 0, "thread %d has %u wrong results", i, folder[i].wrong);
    }
    cr_assert_eq(share_allocated(&s), before, "%llu bytes, expected %llu",
                 (unsigned long long)share_allocated(&s), (unsigned long long)before);
    share_finish(&s);
}
