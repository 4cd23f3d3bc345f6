/* SPDX-License-Identifier: Apache-2.0 */
/* test_program.c: tests programs that run from a compiled schedule: the memory of their values, the
 * runs that go node by node, and failures. */
#include "fixture.h"

#include <stdlib.h>

struct compiled {
    struct fixture f;
    struct bp_graph *graph;
    struct bp_scope *scope;
    struct bp_program *program;
};

/* The tests are about values between nodes, which a group of nodes does not have. */
static void program_without_fusion(void)
{
    setenv("BP_PASSES", "-fuse", 1);
}

TestSuite(program, .init = program_without_fusion);

static struct compiled compiled_begin(void)
{
    struct compiled c = {.f = fixture_init()};

    OK(bp_graph_create(c.f.core, &c.graph));
    c.scope = bp_graph_scope(c.graph);
    return c;
}

static void compiled_finish(struct compiled *c)
{
    bp_program_destroy(c->program);
    bp_graph_destroy(c->graph);
    fixture_finish(&c->f);
}

static struct bp_program_info info_of(const struct compiled *c)
{
    struct bp_program_info info = {.size = sizeof info};

    OK(bp_program_get_info(c->program, &info));
    return info;
}

/* y = 2^n x, by n sums. */
static void record_doublings(struct compiled *c, int64_t elements, int n)
{
    struct bp_tensor *x, *y = NULL;

    OK(bp_graph_input(c->graph, "x", BP_F32, 1, &elements, &x));
    for (int i = 0; i < n; i++) {
        OK(bp_op_add(c->scope, x, x, &y));
        bp_tensor_destroy(x);
        x = y;
        y = NULL;
    }
    OK(bp_graph_output(c->graph, x, "y"));
    bp_tensor_destroy(x);
    OK(bp_program_create(c->graph, c->f.device, &c->program));
}

static void run_doublings(struct compiled *c, struct bp_tensor *x, float first, float expected)
{
    struct bp_tensor *y = NULL, *head;
    float got;

    OK(bp_tensor_slice(x, 0, 0, 1, 1, &head));
    OK(bp_tensor_write(c->f.stream, head, &first, sizeof first));
    bp_tensor_destroy(head);
    OK(bp_program_run(c->program, c->f.stream, &x, 1, &y, 1));
    OK(bp_tensor_slice(y, 0, 0, 1, 1, &head));
    OK(bp_tensor_read(c->f.stream, head, &got, sizeof got));
    cr_assert_eq(got, expected, "%g, expected %g", (double)got, (double)expected);
    bp_tensor_destroy(head);
    bp_tensor_destroy(y);
}

Test(program, values_with_separate_lifetimes_share_memory)
{
    struct compiled c = compiled_begin();
    struct bp_tensor *x = tensor_of(&c.f, BP_F32, 1, SHAPE(1024), NULL);
    struct bp_program_info info;

    record_doublings(&c, 1024, 10);
    run_doublings(&c, x, 3, 3072);
    info = info_of(&c);
    cr_assert_eq(info.compiled, 1, "%s", info.not_compiled);
    cr_assert_str_empty(info.not_compiled);
    cr_assert_eq(info.launches, 10);
    cr_assert_eq(info.unplanned, 9 * 4096); /* the tenth sum is the output */
    cr_assert_eq(info.arena, 2 * 4096);
    cr_assert_eq(info.runs, 1);
    cr_assert_eq(info.replays, 0);
    bp_tensor_destroy(x);
    compiled_finish(&c);
}

/* The arena has 8 of 24 MiB. A tensor of 14 MiB gets the arena's memory between two runs, and the
 * next run gets an arena again. */
Test(program, an_idle_arena_goes_when_memory_runs_out)
{
    struct compiled c;
    struct bp_tensor *x, *large;

    setenv("BP_MEM_LIMIT", "25165824", 1);
    c = compiled_begin();
    x = tensor_of(&c.f, BP_F32, 1, SHAPE(1 << 20), NULL);
    record_doublings(&c, 1 << 20, 8);
    run_doublings(&c, x, 1, 256);
    cr_assert_eq(info_of(&c).compiled, 1);
    large = tensor_of(&c.f, BP_F32, 1, SHAPE(14 << 18), NULL);
    bp_tensor_destroy(large);
    run_doublings(&c, x, 2, 512);
    cr_assert_eq(info_of(&c).compiled, 1);
    bp_tensor_destroy(x);
    compiled_finish(&c);
}

/* The arena, the output and the tensors need 26 of 24 MiB; a run node by node needs 22 at a
 * time. */
Test(program, a_run_without_memory_for_its_arena_goes_node_by_node)
{
    struct compiled c;
    struct bp_tensor *x, *held;

    setenv("BP_MEM_LIMIT", "25165824", 1);
    c = compiled_begin();
    x = tensor_of(&c.f, BP_F32, 1, SHAPE(1 << 20), NULL);
    held = tensor_of(&c.f, BP_F32, 1, SHAPE(10 << 18), NULL);
    record_doublings(&c, 1 << 20, 3);
    run_doublings(&c, x, 1, 8);
    cr_assert_eq(info_of(&c).runs, 1);
    cr_assert_eq(info_of(&c).compiled, 0);
    cr_assert(strstr(info_of(&c).not_compiled, "out of memory"), "%s", info_of(&c).not_compiled);
    bp_tensor_destroy(held);
    bp_tensor_destroy(x);
    compiled_finish(&c);
}

Test(program, a_failure_of_a_compiled_run_names_its_node)
{
    struct compiled c = compiled_begin();
    struct bp_tensor *x, *index, *y = NULL, *in[2], *out = NULL;

    OK(bp_graph_input(c.graph, "x", BP_F32, 1, SHAPE(4), &x));
    OK(bp_graph_input(c.graph, "index", BP_I64, 1, SHAPE(2), &index));
    OK(bp_op_gather(c.scope, x, index, NULL, &y));
    OK(bp_graph_name(c.graph, y, "chosen"));
    OK(bp_graph_output(c.graph, y, NULL));
    OK(bp_program_create(c.graph, c.f.device, &c.program));
    in[0] = tensor_of(&c.f, BP_F32, 1, SHAPE(4), F32(1, 2, 3, 4));
    in[1] = tensor_of(&c.f, BP_I64, 1, SHAPE(2), SHAPE(1, 7));
    FAILS(BP_ERR_FAULT, "node chosen", bp_program_run(c.program, c.f.stream, in, 2, &out, 1));
    cr_assert_null(out);
    OK(bp_tensor_write(c.f.stream, in[1], SHAPE(3, 0), 16));
    OK(bp_program_run(c.program, c.f.stream, in, 2, &out, 1));
    expect_bytes(&c.f, out, F32(4, 1), 8);
    bp_tensor_destroy(out);
    for (int i = 0; i < 2; i++) bp_tensor_destroy(in[i]);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    bp_tensor_destroy(index);
    compiled_finish(&c);
}

/* The results are those of a run node by node, and the program gives the reason. */
Test(program, a_run_with_other_tensors_goes_node_by_node)
{
    struct compiled c = compiled_begin();
    struct bp_tensor *whole = tensor_of(&c.f, BP_F32, 1, SHAPE(4), F32(1, 9, 2, 9)), *half;
    struct bp_tensor *y = NULL;

    record_doublings(&c, 2, 2);
    OK(bp_tensor_view(whole, 0, 1, SHAPE(2), SHAPE(2), &half));
    OK(bp_program_run(c.program, c.f.stream, &half, 1, &y, 1));
    expect_bytes(&c.f, y, F32(4, 8), 8);
    cr_assert_eq(info_of(&c).compiled, 0);
    cr_assert(strstr(info_of(&c).not_compiled, "strided"), "%s", info_of(&c).not_compiled);
    bp_tensor_destroy(y);
    bp_tensor_destroy(half);
    bp_tensor_destroy(whole);
    compiled_finish(&c);
}

Test(program, extents_that_depend_on_data_are_not_compiled)
{
    struct compiled c = compiled_begin();
    struct bp_tensor *x, *y = NULL, *in = tensor_of(&c.f, BP_F32, 1, SHAPE(3), F32(0, 5, 6)),
                         *out = NULL;

    OK(bp_graph_input(c.graph, "x", BP_F32, 1, SHAPE(3), &x));
    OK(bp_op_nonzero(c.scope, x, &y));
    OK(bp_graph_output(c.graph, y, NULL));
    OK(bp_program_create(c.graph, c.f.device, &c.program));
    OK(bp_program_run(c.program, c.f.stream, &in, 1, &out, 1));
    expect_bytes(&c.f, out, SHAPE(1, 2), 16);
    cr_assert_eq(info_of(&c).compiled, 0);
    cr_assert(strstr(info_of(&c).not_compiled, "node nonzero_0: the extents of nonzero"), "%s",
              info_of(&c).not_compiled);
    bp_tensor_destroy(out);
    bp_tensor_destroy(in);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    compiled_finish(&c);
}

/* A run node by node refuses the update; so must the program. */
Test(program, an_update_of_a_view_that_overlaps_itself_is_refused)
{
    struct compiled c = compiled_begin();
    const struct bp_expand_attrs expand = {.size = sizeof expand, .shape = {SHAPE(2, 3), 2}};
    struct bp_tensor *x, *wide = NULL, *y = NULL, *in, *out = NULL;

    in = tensor_of(&c.f, BP_F32, 1, SHAPE(3), F32(1, 2, 3));
    OK(bp_graph_input(c.graph, "x", BP_F32, 1, SHAPE(3), &x));
    OK(bp_op_expand(c.scope, x, NULL, &expand, &wide));
    OK(bp_op_fill(c.scope, wide, NULL, &y));
    OK(bp_graph_output(c.graph, y, NULL));
    cr_assert_eq(bp_graph_run(c.graph, c.f.stream, &in, 1, &out, 1), BP_ERR_INVALID);
    OK(bp_program_create(c.graph, c.f.device, &c.program));
    cr_assert_eq(bp_program_run(c.program, c.f.stream, &in, 1, &out, 1), BP_ERR_INVALID);
    cr_assert(strstr(bp_error_message(), "overlap itself"), "%s", bp_error_message());
    expect_bytes(&c.f, in, F32(1, 2, 3), 12);
    bp_tensor_destroy(in);
    bp_tensor_destroy(x);
    bp_tensor_destroy(wide);
    bp_tensor_destroy(y);
    compiled_finish(&c);
}

/* The graph reads its constants before it writes outputs, as a run node by node does. */
Test(program, an_output_over_a_constant_is_written_last)
{
    struct compiled c = compiled_begin();
    struct bp_tensor *constant = tensor_of(&c.f, BP_F32, 1, SHAPE(2), F32(2, 3)), *x, *y = NULL;
    struct bp_tensor *z = NULL, *in = tensor_of(&c.f, BP_F32, 1, SHAPE(2), F32(1, 1));
    struct bp_tensor *out[2] = {constant, NULL};

    OK(bp_graph_input(c.graph, "x", BP_F32, 1, SHAPE(2), &x));
    OK(bp_op_add(c.scope, x, constant, &y));
    OK(bp_op_mul(c.scope, y, constant, &z));
    OK(bp_graph_output(c.graph, y, NULL));
    OK(bp_graph_output(c.graph, z, NULL));
    OK(bp_program_create(c.graph, c.f.device, &c.program));
    OK(bp_program_run(c.program, c.f.stream, &in, 1, out, 2));
    expect_bytes(&c.f, out[0], F32(3, 4), 8);
    expect_bytes(&c.f, out[1], F32(6, 12), 8);
    bp_tensor_destroy(out[1]);
    bp_tensor_destroy(constant);
    bp_tensor_destroy(in);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    bp_tensor_destroy(z);
    compiled_finish(&c);
}

/* An input that is updated may be the tensor of a constant, which the update then reads. */
Test(program, an_update_of_a_constant_passed_as_input_is_refused)
{
    struct compiled c = compiled_begin();
    struct bp_tensor *constant = tensor_of(&c.f, BP_F32, 1, SHAPE(2), F32(2, 3)), *x, *y = NULL;
    struct bp_tensor *rate = tensor_of(&c.f, BP_F32, 1, SHAPE(1), F32(1)), *out = NULL;

    OK(bp_graph_input(c.graph, "x", BP_F32, 1, SHAPE(2), &x));
    OK(bp_op_sgd(c.scope, x, constant, rate, &y));
    OK(bp_graph_output(c.graph, y, NULL));
    OK(bp_program_create(c.graph, c.f.device, &c.program));
    cr_assert_eq(bp_program_run(c.program, c.f.stream, &constant, 1, &out, 1), BP_ERR_INVALID);
    expect_bytes(&c.f, constant, F32(2, 3), 8);
    bp_tensor_destroy(constant);
    bp_tensor_destroy(rate);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    compiled_finish(&c);
}

/* A product with 1 is no copy where a node updates it: the input keeps its contents. */
Test(program, an_update_of_a_product_with_one_leaves_the_input_alone)
{
    struct compiled c = compiled_begin();
    struct bp_tensor *one = tensor_of(&c.f, BP_F32, 1, SHAPE(2), F32(1, 1)), *x, *y = NULL;
    struct bp_tensor *rate = tensor_of(&c.f, BP_F32, 1, SHAPE(1), F32(1)), *u = NULL, *z = NULL;
    struct bp_tensor *in = tensor_of(&c.f, BP_F32, 1, SHAPE(2), F32(2, 3)), *out = NULL;

    OK(bp_tensor_freeze(one));
    OK(bp_graph_input(c.graph, "x", BP_F32, 1, SHAPE(2), &x));
    OK(bp_op_mul(c.scope, x, one, &y));
    OK(bp_op_sgd(c.scope, y, one, rate, &u));
    OK(bp_op_neg(c.scope, u, &z));
    OK(bp_graph_output(c.graph, z, NULL));
    OK(bp_program_create(c.graph, c.f.device, &c.program));
    OK(bp_program_run(c.program, c.f.stream, &in, 1, &out, 1));
    cr_assert_eq(info_of(&c).compiled, 1, "%s", info_of(&c).not_compiled);
    expect_bytes(&c.f, out, F32(-1, -2), 8);
    expect_bytes(&c.f, in, F32(2, 3), 8);
    bp_tensor_destroy(one), bp_tensor_destroy(rate), bp_tensor_destroy(in);
    bp_tensor_destroy(x), bp_tensor_destroy(y), bp_tensor_destroy(u), bp_tensor_destroy(z);
    bp_tensor_destroy(out);
    compiled_finish(&c);
}

/* The tensor given for a view is the app's: another output does not lie in it. */
Test(program, a_tensor_given_for_a_view_is_no_other_output)
{
    struct compiled c = compiled_begin();
    struct bp_reshape_attrs reshape = {.size = sizeof reshape, .shape = {SHAPE(2, 1), 2}};
    struct bp_tensor *given = tensor_of(&c.f, BP_F32, 2, SHAPE(2, 1), F32(0, 0));
    struct bp_tensor *in = tensor_of(&c.f, BP_F32, 1, SHAPE(2), F32(2, 3)), *x, *y = NULL;
    struct bp_tensor *v = NULL, *out[2] = {NULL, given};

    OK(bp_graph_input(c.graph, "x", BP_F32, 1, SHAPE(2), &x));
    OK(bp_op_add(c.scope, x, x, &y));
    OK(bp_op_reshape(c.scope, y, NULL, &reshape, &v));
    OK(bp_graph_output(c.graph, y, NULL));
    OK(bp_graph_output(c.graph, v, NULL));
    OK(bp_program_create(c.graph, c.f.device, &c.program));
    OK(bp_program_run(c.program, c.f.stream, &in, 1, out, 2));
    cr_assert_eq(info_of(&c).compiled, 1, "%s", info_of(&c).not_compiled);
    expect_bytes(&c.f, given, F32(4, 6), 8);
    OK(bp_tensor_write(c.f.stream, given, F32(7, 7), 8));
    expect_bytes(&c.f, out[0], F32(4, 6), 8);
    bp_tensor_destroy(out[0]), bp_tensor_destroy(given), bp_tensor_destroy(in);
    bp_tensor_destroy(x), bp_tensor_destroy(y), bp_tensor_destroy(v);
    compiled_finish(&c);
}

/* Bounds of clip are doubles, so that a large integer is none. */
Test(program, large_bounds_of_integers_stay_exact)
{
    struct compiled c = compiled_begin();
    const int64_t large = INT64_C(9007199254740993);
    struct bp_tensor *low = tensor_of(&c.f, BP_I64, 1, SHAPE(1), &(const int64_t){0});
    struct bp_tensor *high = tensor_of(&c.f, BP_I64, 1, SHAPE(1), &large), *y = NULL, *z = NULL;
    struct bp_tensor *x, *out = NULL;
    struct bp_tensor *in = tensor_of(&c.f, BP_I64, 1, SHAPE(1), &(const int64_t){INT64_MAX});

    OK(bp_tensor_freeze(low));
    OK(bp_tensor_freeze(high));
    OK(bp_graph_input(c.graph, "x", BP_I64, 1, SHAPE(1), &x));
    OK(bp_op_maximum(c.scope, x, low, &y));
    OK(bp_op_minimum(c.scope, y, high, &z));
    OK(bp_graph_output(c.graph, z, NULL));
    OK(bp_program_create(c.graph, c.f.device, &c.program));
    OK(bp_program_run(c.program, c.f.stream, &in, 1, &out, 1));
    expect_bytes(&c.f, out, &large, 8);
    bp_tensor_destroy(low), bp_tensor_destroy(high), bp_tensor_destroy(in), bp_tensor_destroy(x);
    bp_tensor_destroy(y), bp_tensor_destroy(z), bp_tensor_destroy(out);
    compiled_finish(&c);
}

/* No fused operator takes integers: the product and the addition stay. */
Test(program, products_of_integers_are_compiled)
{
    struct compiled c = compiled_begin();
    struct bp_tensor *x, *product = NULL, *sum = NULL, *y = NULL;
    struct bp_tensor *in = tensor_of(&c.f, BP_I64, 2, SHAPE(2, 2), ((const int64_t[]){1, 2, 3, 4}));

    OK(bp_graph_input(c.graph, "x", BP_I64, 2, SHAPE(2, 2), &x));
    OK(bp_op_matmul(c.scope, x, x, NULL, &product));
    OK(bp_op_add(c.scope, product, x, &sum));
    OK(bp_graph_output(c.graph, sum, "y"));
    OK(bp_program_create(c.graph, c.f.device, &c.program));
    OK(bp_program_run(c.program, c.f.stream, &in, 1, &y, 1));
    cr_assert_eq(info_of(&c).compiled, 1, "%s", info_of(&c).not_compiled);
    expect_bytes(&c.f, y, ((const int64_t[]){8, 12, 18, 26}), 32);
    bp_tensor_destroy(in), bp_tensor_destroy(x), bp_tensor_destroy(product);
    bp_tensor_destroy(sum), bp_tensor_destroy(y);
    compiled_finish(&c);
}
