/* SPDX-License-Identifier: Apache-2.0 */
/* test_graph_gradient.c: tests gradients of a recorded graph, which are added to it as nodes. The
 * numbers are small integers, so that each result is exact. */
#include "fixture.h"

struct recorded {
    struct fixture f;
    struct bp_graph *graph;
    struct bp_scope *scope;
    struct bp_tensor *x, *y; /* inputs f64 [3] */
};

static struct recorded graph_gradient_begin(void)
{
    struct recorded r = {.f = fixture_init()};

    OK(bp_graph_create(r.f.core, &r.graph));
    r.scope = bp_graph_scope(r.graph);
    OK(bp_graph_input(r.graph, "x", BP_F64, 1, SHAPE(3), &r.x));
    OK(bp_graph_input(r.graph, "y", BP_F64, 1, SHAPE(3), &r.y));
    return r;
}

static void graph_gradient_finish(struct recorded *r)
{
    bp_tensor_destroy(r->x);
    bp_tensor_destroy(r->y);
    bp_graph_destroy(r->graph);
    fixture_finish(&r->f);
}

static uint32_t graph_gradient_nodes(struct recorded *r)
{
    struct bp_graph_info info = {.size = sizeof info};

    OK(bp_graph_get_info(r->graph, &info));
    return info.nodes;
}

/* Runs the graph with x = 1 2 3 and y = 4 5 6; all outputs are f64 [3]. */
static void expect_outputs(struct recorded *r, size_t n, const double (*expected)[3])
{
    struct bp_tensor *in[2] = {tensor_of(&r->f, BP_F64, 1, SHAPE(3), F64(1, 2, 3)),
                               tensor_of(&r->f, BP_F64, 1, SHAPE(3), F64(4, 5, 6))};
    struct bp_tensor *out[8] = {NULL};
    double got[3];

    OK(bp_graph_run(r->graph, r->f.stream, in, 2, out, n));
    for (size_t i = 0; i < n; i++) {
        OK(bp_tensor_read(r->f.stream, out[i], got, sizeof got));
        for (int k = 0; k < 3; k++)
            cr_expect_eq(got[k], expected[i][k], "output %zu, element %d: %g, expected %g", i, k,
                         got[k], expected[i][k]);
        bp_tensor_destroy(out[i]);
    }
    for (int i = 0; i < 2; i++) bp_tensor_destroy(in[i]);
}

/* L = sum of dz z, z = (x + y) x: two nodes read x, one of them through another node. */
Test(graph_gradient, readers_add_up)
{
    struct recorded r = graph_gradient_begin();
    struct bp_tensor *dz = tensor_of(&r.f, BP_F64, 1, SHAPE(3), F64(1, 10, 100)), *s = NULL,
                     *z = NULL, *d[3];
    const double expected[3][3] = {{6, 90, 1200}, {1, 20, 300}, {1, 20, 300}};

    OK(bp_op_add(r.scope, r.x, r.y, &s));
    OK(bp_op_mul(r.scope, s, r.x, &z));
    OK(bp_graph_gradient(r.graph, &z, &dz, 1, (struct bp_tensor *[]){r.x, r.y, s}, 3, d));
    for (int i = 0; i < 3; i++) OK(bp_graph_output(r.graph, d[i], NULL));
    expect_outputs(&r, 3, expected);
    for (int i = 0; i < 3; i++) bp_tensor_destroy(d[i]);
    bp_tensor_destroy(s), bp_tensor_destroy(z), bp_tensor_destroy(dz);
    graph_gradient_finish(&r);
}

/* The gradients of several values are added, also if one value is given twice; dy is symbolic, real
 * or NULL. */
Test(graph_gradient, of_several_values)
{
    struct recorded r = graph_gradient_begin();
    struct bp_tensor *one = tensor_of(&r.f, BP_F64, 1, SHAPE(3), F64(1, 1, 1)), *z = NULL,
                     *q = NULL, *d;
    const double expected[1][3] = {{4 + 4 + 2, 5 + 5 + 4, 6 + 6 + 6}};

    OK(bp_op_mul(r.scope, r.x, r.y, &z));
    OK(bp_op_mul(r.scope, r.x, r.x, &q));
    OK(bp_graph_gradient(r.graph, (struct bp_tensor *[]){z, q, z, r.y},
                         (struct bp_tensor *[]){one, one, one, NULL}, 4, &r.x, 1, &d));
    OK(bp_graph_output(r.graph, d, "d"));
    expect_outputs(&r, 1, expected);
    bp_tensor_destroy(d);
    OK(bp_graph_gradient(r.graph, (struct bp_tensor *[]){z, r.x}, (struct bp_tensor *[]){NULL, r.y},
                         2, &r.x, 1, &d));
    OK(bp_graph_output(r.graph, d, NULL)); /* the gradient of a value in itself is dy */
    expect_outputs(&r, 2, (const double[2][3]){{10, 14, 18}, {4, 5, 6}});
    bp_tensor_destroy(d), bp_tensor_destroy(z), bp_tensor_destroy(q), bp_tensor_destroy(one);
    graph_gradient_finish(&r);
}

/* z = x^3: its derivatives are 3 x^2, 6 x, 6, 0. Each is computed from the previous one. */
Test(graph_gradient, gradients_of_gradients)
{
    struct recorded r = graph_gradient_begin();
    struct bp_tensor *one = tensor_of(&r.f, BP_F64, 1, SHAPE(3), F64(1, 1, 1)), *s = NULL,
                     *d[4] = {NULL};
    const double expected[3][3] = {{3, 12, 27}, {6, 12, 18}, {6, 6, 6}};

    OK(bp_op_mul(r.scope, r.x, r.x, &s));
    OK(bp_op_mul(r.scope, s, r.x, &d[0]));
    for (int i = 1; i < 4; i++) {
        OK(bp_graph_gradient(r.graph, &d[i - 1], &one, 1, &r.x, 1, &d[i]));
        OK(bp_graph_output(r.graph, d[i], NULL));
    }
    expect_outputs(&r, 3, expected);
    for (int i = 0; i < 4; i++) bp_tensor_destroy(d[i]);
    bp_tensor_destroy(s), bp_tensor_destroy(one);
    graph_gradient_finish(&r);
}

/* A weight is a constant of the graph; as x, it is identified by its tensor. */
Test(graph_gradient, of_constants)
{
    struct recorded r = graph_gradient_begin();
    struct bp_tensor *w = tensor_of(&r.f, BP_F64, 1, SHAPE(3), F64(7, 8, 9)), *z = NULL, *d[2];
    struct bp_tensor *other = tensor_of(&r.f, BP_F64, 1, SHAPE(3), F64(0, 0, 0));
    const double expected[2][3] = {{4, 10, 18}, {28, 40, 54}};

    OK(bp_op_mul(r.scope, r.x, w, &z));
    OK(bp_graph_gradient(r.graph, &z, &r.y, 1, (struct bp_tensor *[]){w, r.x}, 2, d));
    for (int i = 0; i < 2; i++) OK(bp_graph_output(r.graph, d[i], NULL));
    expect_outputs(&r, 2, expected);
    FAILS(BP_ERR_INVALID, "x[0] is a tensor that no call of this graph was given",
          bp_graph_gradient(r.graph, &z, &r.y, 1, &other, 1, d));
    for (int i = 0; i < 2; i++) bp_tensor_destroy(d[i]);
    bp_tensor_destroy(w), bp_tensor_destroy(z), bp_tensor_destroy(other);
    graph_gradient_finish(&r);
}

/* If a value does not depend on x, the gradient is zero and adds no node; integers have no
 * gradient. */
Test(graph_gradient, zero)
{
    struct recorded r = graph_gradient_begin();
    struct bp_cast_attrs to = bp_cast_defaults();
    struct bp_tensor *z = NULL, *whole = NULL, *index = NULL, *square = NULL, *d[2] = {r.x, r.x};
    uint32_t n;

    to.to = BP_I64;
    OK(bp_op_add(r.scope, r.y, r.y, &z));
    OK(bp_op_cast(r.scope, r.x, &to, &whole));
    to.to = BP_F64;
    OK(bp_op_cast(r.scope, whole, &to, &index));
    OK(bp_op_mul(r.scope, index, index, &square));
    n = graph_gradient_nodes(&r);
    OK(bp_graph_gradient(r.graph, &z, &r.y, 1, &r.x, 1, d));
    cr_assert_null(d[0]);
    OK(bp_graph_gradient(r.graph, (struct bp_tensor *[]){index, whole},
                         (struct bp_tensor *[]){r.y, whole}, 2,
                         (struct bp_tensor *[]){r.x, whole}, 2, d));
    cr_assert(!d[0] && !d[1]);
    OK(bp_graph_gradient(r.graph, &square, &r.y, 1, &r.x, 1, d));
    cr_assert_null(d[0]);
    d[0] = r.x;
    OK(bp_graph_gradient(r.graph, &z, (struct bp_tensor *[]){NULL}, 1, &r.y, 1, d));
    cr_assert_null(d[0]);
    OK(bp_graph_gradient(r.graph, NULL, NULL, 0, &r.y, 1, d));
    OK(bp_graph_gradient(r.graph, &z, &r.y, 1, NULL, 0, NULL));
    cr_assert_eq(graph_gradient_nodes(&r), n);
    bp_tensor_destroy(z), bp_tensor_destroy(whole), bp_tensor_destroy(index);
    bp_tensor_destroy(square);
    graph_gradient_finish(&r);
}

/* Indices may come from an operator without a gradient if the gradient need not pass through the
 * operator. */
Test(graph_gradient, an_operator_without_one_is_named)
{
    struct recorded r = graph_gradient_begin();
    struct bp_cast_attrs to = bp_cast_defaults();
    struct bp_tensor *lr = tensor_of(&r.f, BP_F64, 0, NULL, F64(1)), *p = NULL, *z = NULL,
                     *index = NULL, *d = NULL;

    to.to = BP_F64;
    OK(bp_op_nonzero(r.scope, r.x, &index));
    OK(bp_op_cast(r.scope, index, &to, &z));
    bp_tensor_destroy(index);
    index = z;
    z = NULL;
    OK(bp_op_sum(r.scope, index, NULL, &z));
    OK(bp_graph_gradient(r.graph, &z, &lr, 1, &r.x, 1, &d));
    cr_assert_null(d);
    bp_tensor_destroy(z), z = NULL;
    OK(bp_op_sgd(r.scope, r.x, r.y, lr, &p));
    OK(bp_graph_name(r.graph, p, "step"));
    OK(bp_op_add(r.scope, p, r.y, &z));
    d = r.x;
    FAILS(BP_ERR_UNSUPPORTED, "node step: sgd: it has no gradient",
          bp_graph_gradient(r.graph, &z, &r.y, 1, &r.y, 1, &d));
    cr_assert_eq(d, r.x);
    OK(bp_graph_gradient(r.graph, &z, &r.y, 1, &p, 1, &d)); /* from p on */
    cr_assert(d != r.x && d);
    bp_tensor_destroy(d);
    bp_tensor_destroy(p), bp_tensor_destroy(z), bp_tensor_destroy(index), bp_tensor_destroy(lr);
    graph_gradient_finish(&r);
}

/* The gradient of a product reads x, which an update has overwritten when the gradient runs. */
Test(graph_gradient, gradients_of_overwritten_values_are_refused)
{
    struct recorded r = graph_gradient_begin();
    struct bp_reshape_attrs flat = bp_reshape_defaults();
    struct bp_tensor *lr = tensor_of(&r.f, BP_F64, 0, NULL, F64(1)), *p = NULL, *z = NULL,
                     *v = NULL, *s = NULL, *d = NULL;

    flat.shape = (struct bp_dims){SHAPE(3, 1), 2};
    OK(bp_op_mul(r.scope, r.x, r.y, &z));
    OK(bp_op_reshape(r.scope, r.x, NULL, &flat, &v));
    OK(bp_op_mul(r.scope, v, v, &s));
    OK(bp_op_sgd(r.scope, r.x, r.y, lr, &p));
    FAILS(BP_ERR_INVALID, "node mul_0: bp_graph_gradient: value x is written over",
          bp_graph_gradient(r.graph, &z, &r.y, 1, &r.y, 1, &d));
    FAILS(BP_ERR_INVALID, "is written over",
          bp_graph_gradient(r.graph, &s, &s, 1, &v, 1, &d));
    FAILS(BP_ERR_INVALID, "value x is written over",
          bp_graph_gradient(r.graph, &z, &r.x, 1, &r.y, 1, &d));
    cr_assert_null(d);
    bp_tensor_destroy(z), z = NULL;
    OK(bp_op_mul(r.scope, p, r.y, &z)); /* of the updated x */
    OK(bp_graph_gradient(r.graph, &z, &r.y, 1, &p, 1, &d));
    bp_tensor_destroy(d);
    bp_tensor_destroy(p), bp_tensor_destroy(z), bp_tensor_destroy(v), bp_tensor_destroy(s);
    bp_tensor_destroy(lr);
    graph_gradient_finish(&r);
}

/* Tests several outputs, some without a gradient; an operator with a decomposition; and the result
 * of a view as x. */
Test(graph_gradient, parts_and_expansions)
{
    struct recorded r = graph_gradient_begin();
    struct bp_split_attrs cut = bp_split_defaults();
    struct bp_tensor *part[3] = {NULL}, *loss = NULL, *d[3];
    struct bp_tensor *nine = tensor_of(&r.f, BP_F64, 0, NULL, F64(9));
    struct bp_tensor *in[2] = {tensor_of(&r.f, BP_F64, 1, SHAPE(3), F64(1, 2, 3)),
                               tensor_of(&r.f, BP_F64, 1, SHAPE(3), F64(4, 5, 6))};
    struct bp_tensor *out[3] = {NULL};

    cut.sections = 3;
    OK(bp_op_split(r.scope, r.x, NULL, &cut, part, 3));
    OK(bp_op_mse_loss(r.scope, part[1], part[2], &loss));
    OK(bp_graph_gradient(r.graph, &loss, &nine, 1,
                         (struct bp_tensor *[]){r.x, part[1], part[0]}, 3, d));
    cr_assert_null(d[2]);
    for (int i = 0; i < 2; i++) OK(bp_graph_output(r.graph, d[i], NULL));
    OK(bp_graph_run(r.graph, r.f.stream, in, 2, out, 2));
    expect_bytes(&r.f, out[0], F64(0, -18, 18), 24);
    expect_bytes(&r.f, out[1], F64(-18), 8);
    for (int i = 0; i < 2; i++) {
        bp_tensor_destroy(in[i]), bp_tensor_destroy(out[i]), bp_tensor_destroy(d[i]);
        bp_tensor_destroy(part[i]);
    }
    bp_tensor_destroy(part[2]), bp_tensor_destroy(loss), bp_tensor_destroy(nine);
    graph_gradient_finish(&r);
}

Test(graph_gradient, bad_arguments)
{
    struct recorded r = graph_gradient_begin();
    struct bp_tensor *z = NULL, *flat = NULL, *d = NULL, *foreign;
    struct bp_graph *other;

    OK(bp_op_mul(r.scope, r.x, r.y, &z));
    OK(bp_op_sum(r.scope, z, NULL, &flat));
    OK(bp_graph_create(r.f.core, &other));
    OK(bp_graph_input(other, "x", BP_F64, 1, SHAPE(3), &foreign));
    FAILS(BP_ERR_INVALID, "dy[0] is f64 [3], expected f64 []",
          bp_graph_gradient(r.graph, &flat, &r.x, 1, &r.x, 1, &d));
    FAILS(BP_ERR_INVALID, "y[1] is a value of another graph",
          bp_graph_gradient(r.graph, (struct bp_tensor *[]){z, foreign},
                            (struct bp_tensor *[]){r.x, r.x}, 2, &r.x, 1, &d));
    FAILS(BP_ERR_INVALID, "x[0] is a value of another graph",
          bp_graph_gradient(r.graph, &z, &r.x, 1, &foreign, 1, &d));
    FAILS(BP_ERR_INVALID, "dy[0] is a value of another graph",
          bp_graph_gradient(r.graph, &z, &foreign, 1, &r.x, 1, &d));
    FAILS(BP_ERR_INVALID, "x[0]: expected a value of the graph, got NULL",
          bp_graph_gradient(r.graph, &z, &r.x, 1, (struct bp_tensor *[]){NULL}, 1, &d));
    FAILS(BP_ERR_INVALID, "n_y is 5 and n_x is 1, the graph has 4 values",
          bp_graph_gradient(r.graph, &z, &r.x, 5, &r.x, 1, &d));
    cr_assert_null(d);
    cr_assert_eq(graph_gradient_nodes(&r), 2);
    bp_tensor_destroy(z), bp_tensor_destroy(flat), bp_tensor_destroy(foreign);
    bp_graph_destroy(other);
    graph_gradient_finish(&r);
}
