/* SPDX-License-Identifier: Apache-2.0 */
/* test_gradient_given.c: tests gradients that bp_call_gradient writes into tensors of the app. */
#include "fixture.h"

struct call_of {
    struct fixture f;
    struct bp_tensor *x[2], *z, *dz;
    struct bp_arg in[2];
    struct bp_call call;
};

static void call_init(struct call_of *c, const char *op)
{
    *c = (struct call_of){.f = fixture_init()};
    c->x[0] = tensor_of(&c->f, BP_F32, 2, SHAPE(2, 2), F32(1, 2, 3, 4));
    c->x[1] = tensor_of(&c->f, BP_F32, 1, SHAPE(2), F32(5, 7));
    c->dz = tensor_of(&c->f, BP_F32, 2, SHAPE(2, 2), F32(1, 10, 100, 1000));
    for (int i = 0; i < 2; i++) c->in[i] = (struct bp_arg){&c->x[i], 1};
    c->call = (struct bp_call){.size = sizeof c->call, .op = op, .in = c->in, .n_in = 2};
    OK(bp_call_run(c->f.scope, &c->call, &c->z, 1, NULL));
}

static void call_finish(struct call_of *c)
{
    bp_tensor_destroy(c->x[0]), bp_tensor_destroy(c->x[1]);
    bp_tensor_destroy(c->z), bp_tensor_destroy(c->dz);
    fixture_finish(&c->f);
}

static enum bp_status given_differentiate(struct call_of *c, struct bp_tensor **dx)
{
    return bp_call_gradient(c->f.scope, &c->call, &c->z, &c->dz, 1, (const uint8_t[]){1, 1}, dx, 2);
}

Test(gradient_given, is_written_in_any_layout)
{
    struct call_of c;
    struct bp_tensor *dense, *across, *dx[2], *before[2];

    call_init(&c, "mul");
    dense = tensor_of(&c.f, BP_F32, 2, SHAPE(2, 2), F32(-1, -1, -1, -1));
    OK(bp_tensor_transpose(dense, (const int64_t[]){1, 0}, &across));
    dx[0] = before[0] = across;
    dx[1] = before[1] = tensor_of(&c.f, BP_F32, 1, SHAPE(2), F32(-1, -1));
    OK(given_differentiate(&c, dx));
    cr_assert(dx[0] == before[0] && dx[1] == before[1], "the entries were replaced");
    expect_bytes(&c.f, across, F32(5, 70, 500, 7000), 16);
    expect_bytes(&c.f, dense, F32(5, 500, 70, 7000), 16);
    expect_bytes(&c.f, dx[1], F32(301, 4020), 8);
    bp_tensor_destroy(across), bp_tensor_destroy(dense), bp_tensor_destroy(dx[1]);
    call_finish(&c);
}

/* One gradient is given, the other one is a new tensor. The given tensor is one that the rule
 * reads. */
Test(gradient_given, may_be_a_tensor_that_the_rule_reads)
{
    struct call_of c;
    struct bp_tensor *dx[2] = {NULL, NULL};

    call_init(&c, "mul");
    dx[0] = c.dz;
    OK(given_differentiate(&c, dx));
    expect_bytes(&c.f, c.dz, F32(5, 70, 500, 7000), 16);
    expect_bytes(&c.f, dx[1], F32(301, 4020), 8);
    bp_tensor_destroy(dx[1]);
    call_finish(&c);
}

/* The gradient of x - y in x is dz itself; the one in y is written into dz. */
Test(gradient_given, may_be_the_memory_of_another_gradient)
{
    struct call_of c;
    struct bp_tensor *y, *dx[2] = {NULL, NULL};

    call_init(&c, "sub");
    y = c.x[1];
    c.x[1] = tensor_of(&c.f, BP_F32, 2, SHAPE(2, 2), F32(0, 0, 0, 0));
    dx[1] = c.dz;
    OK(given_differentiate(&c, dx));
    expect_bytes(&c.f, dx[0], F32(1, 10, 100, 1000), 16);
    expect_bytes(&c.f, c.dz, F32(-1, -10, -100, -1000), 16);
    bp_tensor_destroy(dx[0]), bp_tensor_destroy(y);
    call_finish(&c);
}

/* The given view has other elements of dz than the gradient, dz itself. */
Test(gradient_given, may_be_a_view_of_its_gradient)
{
    struct call_of c;
    struct bp_tensor *across, *dx[2] = {NULL, NULL};

    call_init(&c, "add");
    OK(bp_tensor_transpose(c.dz, NULL, &across));
    dx[0] = across;
    OK(given_differentiate(&c, dx));
    expect_bytes(&c.f, across, F32(1, 10, 100, 1000), 16);
    expect_bytes(&c.f, dx[1], F32(101, 1010), 8);
    bp_tensor_destroy(across), bp_tensor_destroy(dx[1]);
    call_finish(&c);
}

Test(gradient_given, may_be_a_scalar)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = tensor_of(&f, BP_F32, 0, NULL, F32(3)), *dy = NULL, *y = NULL;
    struct bp_tensor *dx = tensor_of(&f, BP_F32, 0, NULL, F32(-1));
    struct bp_arg in = {&x, 1};
    struct bp_call call = {.size = sizeof call, .op = "square", .in = &in, .n_in = 1};

    OK(bp_call_run(f.scope, &call, &y, 1, NULL));
    dy = tensor_of(&f, BP_F32, 0, NULL, F32(10));
    OK(bp_call_gradient(f.scope, &call, &y, &dy, 1, (const uint8_t[]){1}, &dx, 1));
    expect_bytes(&f, dx, F32(60), 4);
    bp_tensor_destroy(x), bp_tensor_destroy(y), bp_tensor_destroy(dy), bp_tensor_destroy(dx);
    fixture_finish(&f);
}

Test(gradient_given, is_zeroed_for_a_gradient_of_zero)
{
    struct call_of c;
    struct bp_tensor *none = NULL, *dx[2] = {NULL, NULL};

    call_init(&c, "mul");
    dx[0] = tensor_of(&c.f, BP_F32, 2, SHAPE(2, 2), F32(-1, -1, -1, -1));
    OK(bp_call_gradient(c.f.scope, &c.call, &c.z, &none, 1, (const uint8_t[]){1, 1}, dx, 2));
    expect_bytes(&c.f, dx[0], F32(0, 0, 0, 0), 16);
    cr_assert_null(dx[1]);
    bp_tensor_destroy(dx[0]);
    call_finish(&c);
}

/* All tensors are as before. */
Test(gradient_given, must_fit)
{
    struct call_of c;
    struct bp_tensor *dx[2] = {NULL, NULL}, *half, *x;
    struct bp_arg in[2] = {{&x, 1}, {&x, 1}};
    struct bp_call call = {.size = sizeof call, .op = "mul", .in = in, .n_in = 2};
    struct bp_graph *graph;

    call_init(&c, "mul");
    half = tensor_of(&c.f, BP_F16, 2, SHAPE(2, 2), ((const uint16_t[]){1, 2, 3, 4}));
    dx[0] = half;
    FAILS(BP_ERR_INVALID, "out_dx[0] is f16 [2, 2], expected f32 [2, 2]",
          given_differentiate(&c, dx));
    dx[0] = c.x[1];
    FAILS(BP_ERR_INVALID, "out_dx[0] is f32 [2], expected f32 [2, 2]", given_differentiate(&c, dx));
    dx[0] = (struct bp_tensor *)c.f.stream;
    FAILS(BP_ERR_INVALID, "out_dx[0]: expected NULL or a tensor", given_differentiate(&c, dx));
    dx[0] = tensor_of(&c.f, BP_F32, 2, SHAPE(2, 2), F32(7, 7, 7, 7));
    OK(bp_tensor_view(dx[0], 0, 1, SHAPE(2), SHAPE(2), &dx[1]));
    FAILS(BP_ERR_INVALID, "out_dx[1] and out_dx[0] share memory", given_differentiate(&c, dx));
    bp_tensor_destroy(dx[1]);
    dx[1] = tensor_of(&c.f, BP_F32, 1, SHAPE(2), F32(7, 7));
    OK(bp_tensor_freeze(dx[1]));
    FAILS(BP_ERR_INVALID, "out_dx[1]: the tensor's memory is frozen", given_differentiate(&c, dx));
    expect_bytes(&c.f, dx[0], F32(7, 7, 7, 7), 16);
    bp_tensor_destroy(dx[0]), bp_tensor_destroy(dx[1]), dx[1] = NULL;
    expect_bytes(&c.f, half, ((const uint16_t[]){1, 2, 3, 4}), 8);
    expect_bytes(&c.f, c.x[1], F32(5, 7), 8);
    cr_assert_null(dx[1]);

    OK(bp_graph_create(c.f.core, &graph));
    OK(bp_graph_input(graph, NULL, BP_F32, 1, SHAPE(2), &x));
    dx[0] = c.x[1];
    FAILS(BP_ERR_INVALID, "out_dx[0]: expected NULL, as the scope is a graph",
          bp_call_gradient(bp_graph_scope(graph), &call, &x, &x, 1, (const uint8_t[]){1, 0}, dx,
                           2));
    bp_tensor_destroy(x), bp_tensor_destroy(half);
    bp_graph_destroy(graph);
    call_finish(&c);
}
