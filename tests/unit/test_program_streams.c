/* SPDX-License-Identifier: Apache-2.0 */
/* test_program_streams.c: tests compiled programs on streams that are not inline: their work is in
 * the order of the stream, failures name nodes, and the memory, plans and constants that the work
 * uses live until the work has ended. */
#include "stream_kit.h"

enum {
    N = 64
};

static const enum place places_late[] = {QUEUE, GATED, PLAIN, SINGLE};

/* Two launches: y = 2 x and z = 2 y, where z is named "second", or z = y + c. */
static struct bp_program *sums_with(const struct spot *s, int64_t n, struct bp_tensor *c)
{
    struct bp_tensor *x, *y = NULL, *z = NULL;
    struct bp_program *program;
    struct bp_graph *graph;

    setenv("BP_PASSES", "-fuse", 1);
    OK(bp_graph_create(s->core, &graph));
    OK(bp_graph_input(graph, "x", BP_F32, 1, &n, &x));
    OK(bp_op_add(bp_graph_scope(graph), x, x, &y));
    OK(bp_op_add(bp_graph_scope(graph), y, c ? c : y, &z));
    OK(bp_graph_name(graph, z, "second"));
    OK(bp_graph_output(graph, z, NULL));
    OK(bp_program_create(graph, s->device, &program));
    bp_tensor_destroy(x), bp_tensor_destroy(y), bp_tensor_destroy(z);
    bp_graph_destroy(graph);
    return program;
}

static struct bp_program *sums_of(const struct spot *s, int64_t n)
{
    return sums_with(s, n, NULL);
}

static struct bp_tensor *floats_from(const struct spot *s, struct bp_stream *stream, float first)
{
    struct bp_tensor *t = floats_at(s->device, N);
    float v[N];

    for (int i = 0; i < N; i++) v[i] = first + (float)i;
    OK(bp_tensor_write(stream, t, v, sizeof v));
    return t;
}

static void expect_sums(struct bp_stream *stream, struct bp_tensor *t, float first)
{
    float v[N];

    OK(bp_tensor_read(stream, t, v, sizeof v));
    for (int i = 0; i < N; i++)
        cr_assert_eq(v[i], 4 * (first + (float)i), "element %d is %g", i, (double)v[i]);
}

static struct bp_program_info info_of(struct bp_program *program)
{
    struct bp_program_info info = {.size = sizeof info};

    OK(bp_program_get_info(program, &info));
    return info;
}

/* Holds the work that the stream gets from now on. */
static void hold_work(const struct spot *s, struct latch *latch)
{
    if (s->gate) s->gate->hold(1);
    else hold_queue(s->stream, latch);
}

static void open_work(const struct spot *s, struct latch *latch)
{
    if (s->gate) s->gate->hold(0), s->gate->open();
    else sem_post(&latch->end);
}

Test(program_streams, all_kinds_of_streams_run_the_schedule, .timeout = 60)
{
    for (size_t i = 0; i < sizeof places_late / sizeof *places_late; i++) {
        struct spot s = spot_at(places_late[i], NULL, NULL);
        struct bp_program *program = sums_of(&s, N);
        struct bp_tensor *x = floats_from(&s, s.stream, 3), *y = NULL;
        uint64_t before = bp_stream_last(s.stream);
        OK(bp_program_run(program, s.stream, &x, 1, &y, 1));
        cr_assert_eq(bp_stream_last(s.stream) - before, places_late[i] == QUEUE ? 1 : 2);
        expect_sums(s.stream, y, 3);
        cr_assert_eq(info_of(program).compiled, 1, "%s", info_of(program).not_compiled);
        cr_assert_eq(info_of(program).launches, 2);
        bp_program_destroy(program);
        bp_tensor_destroy(x), bp_tensor_destroy(y);
        spot_finish(&s);
    }
}

/* Fills memory of the device that is free, as another stream, so that memory that was freed too
 * early shows. */
static void fill_free_memory(const struct spot *s)
{
    enum {
        TENSORS = 16
    };
    struct bp_stream *other = stream_at(s->device, s->gate ? GATED : QUEUE);
    struct bp_tensor *t[TENSORS];

    for (int i = 0; i < TENSORS; i++) t[i] = floats_from(s, other, -1000);
    for (int i = 0; i < TENSORS; i++) bp_tensor_destroy(t[i]);
    bp_stream_destroy(other);
}

/* A constant that only the program keeps, too, lives until the work has ended. */
Test(program_streams, a_program_is_destroyed_before_its_work_has_begun, .timeout = 60)
{
    static const enum place at[] = {QUEUE, GATED};

    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        struct spot s = spot_at(at[i], NULL, NULL);
        struct bp_tensor *x = floats_from(&s, s.stream, 5), *c = floats_from(&s, s.stream, 7);
        struct bp_program *program = sums_with(&s, N, c);
        struct bp_tensor *y = NULL;
        struct latch latch;
        float v[N];
        OK(bp_stream_synchronize(s.stream));
        hold_work(&s, &latch);
        OK(bp_program_run(program, s.stream, &x, 1, &y, 1));
        cr_assert_eq(info_of(program).compiled, 1, "%s", info_of(program).not_compiled);
        bp_tensor_destroy(c);
        bp_program_destroy(program);
        bp_tensor_destroy(x);
        if (s.gate) s.gate->hold(0);
        fill_free_memory(&s);
        open_work(&s, &latch);
        OK(bp_tensor_read(s.stream, y, v, sizeof v));
        for (int k = 0; k < N; k++) cr_assert_eq(v[k], 17 + 3 * (float)k, "%g", (double)v[k]);
        bp_tensor_destroy(y);
        spot_finish(&s);
    }
}

/* Neither stream's work has begun when the other one's run is submitted. */
Test(program_streams, streams_do_not_share_an_arena, .timeout = 60)
{
    struct spot s = spot_at(GATED, NULL, NULL);
    struct bp_stream *other = stream_at(s.device, GATED);
    struct bp_program *program = sums_of(&s, N);
    struct bp_tensor *x[2] = {floats_from(&s, s.stream, 1), floats_from(&s, other, 100)};
    struct bp_tensor *y[2] = {NULL};

    OK(bp_device_synchronize(s.device));
    s.gate->hold(1);
    OK(bp_program_run(program, s.stream, &x[0], 1, &y[0], 1));
    OK(bp_program_run(program, other, &x[1], 1, &y[1], 1));
    s.gate->hold(0);
    s.gate->open();
    expect_sums(s.stream, y[0], 1);
    expect_sums(other, y[1], 100);
    cr_assert_eq(info_of(program).compiled, 1);
    bp_program_destroy(program);
    for (int k = 0; k < 2; k++) bp_tensor_destroy(x[k]), bp_tensor_destroy(y[k]);
    bp_stream_destroy(other);
    spot_finish(&s);
}

/* The arena has 4 MiB, as the input and the output: 20 runs whose work has not begun would need 80
 * MiB if each kept its own. */
Test(program_streams, runs_of_a_stream_share_an_arena, .timeout = 60)
{
    static const enum place at[] = {QUEUE, GATED};

    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        struct spot s = spot_at(at[i], "BP_MEM_LIMIT", "25165824");
        struct bp_program *program = sums_of(&s, 1 << 20);
        struct bp_tensor *x = floats_at(s.device, 1 << 20), *y = floats_at(s.device, 1 << 20);
        struct latch latch;
        OK(bp_program_run(program, s.stream, &x, 1, &y, 1));
        OK(bp_stream_synchronize(s.stream));
        hold_work(&s, &latch);
        for (int k = 0; k < 20; k++) {
            OK(bp_program_run(program, s.stream, &x, 1, &y, 1));
            cr_assert_eq(info_of(program).compiled, 1, "%s", info_of(program).not_compiled);
        }
        open_work(&s, &latch);
        OK(bp_stream_synchronize(s.stream));
        bp_program_destroy(program);
        bp_tensor_destroy(x), bp_tensor_destroy(y);
        spot_finish(&s);
    }
}

/* The tensors leave no block of 4 MiB. The run tries the nodes, which need as much; when memory is
 * free again, the next run has an arena. */
Test(program_streams, a_run_without_memory_for_its_arena_tries_the_nodes, .timeout = 60)
{
    struct spot s = spot_at(GATED, "BP_MEM_LIMIT", "31457280");
    struct bp_program *program = sums_of(&s, 1 << 20);
    struct bp_tensor *x = floats_at(s.device, 1 << 20), *y = floats_at(s.device, 1 << 20);
    struct bp_tensor *held = floats_at(s.device, 14 << 18);

    FAILS(BP_ERR_MEMORY, "node add_0", bp_program_run(program, s.stream, &x, 1, &y, 1));
    cr_assert_eq(info_of(program).compiled, 0);
    cr_assert(strstr(info_of(program).not_compiled, "out of memory"));
    bp_tensor_destroy(held);
    OK(bp_program_run(program, s.stream, &x, 1, &y, 1));
    cr_assert_eq(info_of(program).compiled, 1, "%s", info_of(program).not_compiled);
    OK(bp_stream_synchronize(s.stream));
    bp_program_destroy(program);
    bp_tensor_destroy(x), bp_tensor_destroy(y);
    spot_finish(&s);
}

Test(program_streams, a_failure_names_the_node_where_each_launch_is_waited_for, .timeout = 60)
{
    static const enum place at[] = {GATED, PLAIN, SINGLE};

    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        struct spot s = spot_at(at[i], "BP_SYNC", "launch");
        struct bp_program *program = sums_of(&s, N);
        struct bp_tensor *x = floats_from(&s, s.stream, 1), *y = NULL;
        OK(bp_program_run(program, s.stream, &x, 1, &y, 1));
        expect_sums(s.stream, y, 1);
        s.gate->fail(BP_ERR_DEVICE);
        FAILS(BP_ERR_DEVICE, "node add", bp_program_run(program, s.stream, &x, 1, &y, 1));
        FAILS(BP_ERR_DEVICE, "has failed before", bp_program_run(program, s.stream, &x, 1, &y, 1));
        bp_program_destroy(program);
        bp_tensor_destroy(x), bp_tensor_destroy(y);
        spot_finish(&s);
    }
}

Test(program_streams, a_later_failure_names_the_launches, .timeout = 60)
{
    struct spot s = spot_at(GATED, NULL, NULL);
    struct bp_program *program = sums_of(&s, N);
    struct bp_tensor *x = floats_from(&s, s.stream, 1), *y = NULL;

    OK(bp_stream_synchronize(s.stream));
    s.gate->hold(1);
    OK(bp_program_run(program, s.stream, &x, 1, &y, 1));
    s.gate->hold(0);
    s.gate->fail(BP_ERR_DEVICE);
    s.gate->open();
    FAILS(BP_ERR_DEVICE, "2 to 3: add, add", bp_stream_synchronize(s.stream));
    bp_program_destroy(program);
    bp_tensor_destroy(x), bp_tensor_destroy(y);
    spot_finish(&s);
}

/* A fault in a queue is found when the task runs. */
Test(program_streams, a_fault_in_a_queue_names_its_node, .timeout = 60)
{
    struct spot s = spot_at(QUEUE, NULL, NULL);
    struct bp_tensor *in[2], *x, *index, *y = NULL, *out = NULL;
    const int64_t wrong[2] = {1, 9};
    struct bp_program *program;
    struct bp_graph *graph;

    OK(bp_graph_create(s.core, &graph));
    OK(bp_graph_input(graph, "x", BP_F32, 1, SHAPE(4), &x));
    OK(bp_graph_input(graph, "index", BP_I64, 1, SHAPE(2), &index));
    OK(bp_op_gather(bp_graph_scope(graph), x, index, NULL, &y));
    OK(bp_graph_name(graph, y, "chosen"));
    OK(bp_graph_output(graph, y, NULL));
    OK(bp_program_create(graph, s.device, &program));
    bp_tensor_destroy(x), bp_tensor_destroy(index), bp_tensor_destroy(y);
    in[0] = floats_at(s.device, 4);
    OK(bp_tensor_create(s.device, BP_I64, 1, SHAPE(2), &in[1]));
    OK(bp_tensor_write(s.stream, in[1], wrong, sizeof wrong));
    OK(bp_program_run(program, s.stream, in, 2, &out, 1));
    cr_assert_eq(info_of(program).compiled, 1, "%s", info_of(program).not_compiled);
    FAILS(BP_ERR_FAULT, "a program: node chosen", bp_stream_synchronize(s.stream));
    bp_program_destroy(program), bp_graph_destroy(graph);
    bp_tensor_destroy(in[0]), bp_tensor_destroy(in[1]), bp_tensor_destroy(out);
    spot_finish(&s);
}

static void count_launch(void *ctx, const struct bp_watched_launch *launch)
{
    uint32_t *seen = ctx;

    cr_assert_eq(launch->launch, *seen % 2);
    cr_assert_str_eq(launch->info->op, "add");
    ++*seen;
}

/* The watcher has seen all launches when the run returns. */
Test(program_streams, a_watcher_sees_each_launch, .timeout = 60)
{
    for (size_t i = 0; i < sizeof places_late / sizeof *places_late; i++) {
        struct spot s = spot_at(places_late[i], NULL, NULL);
        struct bp_program *program = sums_of(&s, N);
        struct bp_tensor *x = floats_from(&s, s.stream, 3), *y = NULL;
        uint32_t seen = 0;
        OK(bp_program_watch(program, count_launch, &seen));
        for (uint32_t k = 1; k < 4; k++) {
            OK(bp_program_run(program, s.stream, &x, 1, &y, 1));
            cr_assert_eq(seen, 2 * k, "%u launches seen", seen);
        }
        OK(bp_program_watch(program, NULL, NULL));
        OK(bp_program_run(program, s.stream, &x, 1, &y, 1));
        cr_assert_eq(seen, 6);
        expect_sums(s.stream, y, 3);
        bp_program_destroy(program);
        bp_tensor_destroy(x), bp_tensor_destroy(y);
        spot_finish(&s);
    }
}

Test(program_streams, a_cancelled_queue_skips_the_run, .timeout = 60)
{
    struct spot s = spot_at(QUEUE, NULL, NULL);
    struct bp_program *program = sums_of(&s, N);
    struct bp_tensor *x = floats_from(&s, s.stream, 3), *y = NULL;
    struct latch latch;

    hold_queue(s.stream, &latch);
    OK(bp_program_run(program, s.stream, &x, 1, &y, 1));
    OK(bp_stream_cancel(s.stream));
    FAILS(BP_ERR_CANCELLED, "cancelled", bp_program_run(program, s.stream, &x, 1, &y, 1));
    sem_post(&latch.end);
    OK(bp_stream_resume(s.stream));
    OK(bp_program_run(program, s.stream, &x, 1, &y, 1));
    cr_assert_eq(info_of(program).compiled, 1, "%s", info_of(program).not_compiled);
    expect_sums(s.stream, y, 3);
    bp_program_destroy(program);
    bp_tensor_destroy(x), bp_tensor_destroy(y);
    spot_finish(&s);
}
