/* SPDX-License-Identifier: Apache-2.0 */
/* test_gradient_graph.c: tests recorded gradients. Those of norms read the statistics that the
 * recorded forward computes. Those of matmul with operands of one axis run like eager ones, and are
 * differentiated again, node by node, eagerly and recorded.
 *
 * The numbers are small integers, so that each sum is exact in any order. With c = a b and dc its
 * gradient, da and db are linear in dc. For L = sum(u da) + sum(v db) it follows that
 *
 *     dL/da = the gradient of a v in a,  dL/db = that of u b in b,  dL/d(dc) = u b + a v. */
#include "fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_VALUES = 64, MAX_COUNT = 64, A = 0, B = 1, DC = 2, U = 3, V = 4, INPUTS = 5 };

static const struct pair {
    uint32_t rank[3]; /* of a, b, c */
    int64_t shape[3][3];
} pairs[] = {
    {{1, 1, 0}, {{4}, {4}, {0}}},
    {{1, 2, 1}, {{4}, {4, 3}, {3}}},
    {{2, 1, 1}, {{3, 4}, {4}, {3}}},
    {{1, 3, 2}, {{4}, {2, 4, 3}, {2, 3}}},
    {{3, 1, 2}, {{2, 3, 4}, {4}, {2, 3}}},
    {{2, 2, 2}, {{3, 4}, {4, 2}, {3, 2}}},
};
enum { PAIRS = sizeof pairs / sizeof *pairs };

/* The operand of the pair whose shape an input has. */
static const int like[INPUTS] = {A, B, DC, A, B};

static struct bp_tensor *gradient_graph_numbers(struct fixture *f, uint32_t rank,
                                                const int64_t *shape)
{
    static unsigned state = 1;
    double data[MAX_COUNT];

    for (int i = 0; i < MAX_COUNT; i++) {
        state = state * 1103515245u + 12345u;
        data[i] = (double)(state >> 16 & 7) - 3;
    }
    return tensor_of(f, BP_F64, rank, shape, data);
}

static void gradient_graph_destroy(struct bp_tensor **t, size_t n)
{
    for (size_t i = 0; i < n; i++) bp_tensor_destroy(t[i]), t[i] = NULL;
}

static void expect_same(struct fixture *f, struct bp_tensor *got, struct bp_tensor *expected,
                        const char *what, int pair)
{
    struct bp_tensor_info a = {.size = sizeof a}, b = {.size = sizeof b};
    double x[MAX_COUNT], y[MAX_COUNT];

    OK(bp_tensor_get_info(got, &a));
    OK(bp_tensor_get_info(expected, &b));
    cr_assert_eq(a.rank, b.rank, "%s of pair %d: rank %u, expected %u", what, pair, a.rank, b.rank);
    for (uint32_t i = 0; i < a.rank; i++) cr_assert_eq(a.shape[i], b.shape[i]);
    OK(bp_tensor_read(f->stream, got, x, a.bytes));
    OK(bp_tensor_read(f->stream, expected, y, a.bytes));
    for (int64_t i = 0; i < a.count; i++)
        cr_assert_eq(x[i], y[i], "%s of pair %d: element %lld is %g, expected %g", what, pair,
                     (long long)i, x[i], y[i]);
}

/* Computes the gradients of matmul. */
static void first_order(struct bp_scope *scope, struct bp_tensor *a, struct bp_tensor *b,
                        struct bp_tensor *dc, struct bp_tensor **dx)
{
    struct bp_arg in[2] = {{&a, 1}, {&b, 1}};
    struct bp_call call = {.size = sizeof call, .op = "matmul", .in = in, .n_in = 2};
    struct bp_tensor *c = NULL;

    OK(bp_op_matmul(scope, a, b, NULL, &c));
    OK(bp_call_gradient(scope, &call, &c, &dc, 1, (uint8_t[]){1, 1}, dx, 2));
    bp_tensor_destroy(c);
}

/* A pass over a recorded graph on another scope: the value and the gradient of each of its
 * values. */
struct sweep {
    struct bp_scope *scope;
    struct bp_graph *graph;
    struct bp_tensor *value[MAX_VALUES], *d[MAX_VALUES];
};

static struct bp_node_info node_of(const struct sweep *s, uint32_t number)
{
    struct bp_node_info node = {.size = sizeof node};

    OK(bp_graph_node(s->graph, number, &node));
    cr_assert_eq(node.n_out, 1);
    return node;
}

static struct bp_call gradient_graph_call_of(const struct sweep *s, const struct bp_node_info *node,
                                             struct bp_tensor **in, struct bp_arg *arg)
{
    for (uint32_t i = 0; i < node->n_in; i++) {
        in[i] = node->in[i] == UINT32_MAX ? NULL : s->value[node->in[i]];
        arg[i] = (struct bp_arg){&in[i], 1};
    }
    return (struct bp_call){.size = sizeof(struct bp_call), .op = node->op, .in = arg,
                            .n_in = node->n_in, .attrs = node->attrs};
}

static void add_to(struct sweep *s, uint32_t value, struct bp_tensor *d)
{
    struct bp_tensor *sum = NULL;

    if (s->d[value]) {
        OK(bp_op_add(s->scope, s->d[value], d, &sum));
        bp_tensor_destroy(d);
        bp_tensor_destroy(s->d[value]);
    }
    s->d[value] = sum ? sum : d;
}

static void go_forward(struct sweep *s, uint32_t n_node)
{
    for (uint32_t n = 0; n < n_node; n++) {
        struct bp_node_info node = node_of(s, n);
        struct bp_tensor *in[8];
        struct bp_arg arg[8];
        struct bp_call call = gradient_graph_call_of(s, &node, in, arg);
        OK(bp_call_run(s->scope, &call, &s->value[node.out[0]], 1, NULL));
    }
}

static void go_back(struct sweep *s, uint32_t n_node)
{
    for (uint32_t n = n_node; n-- > 0;) {
        struct bp_node_info node = node_of(s, n);
        struct bp_tensor *in[8], *dx[8] = {NULL};
        struct bp_arg arg[8];
        struct bp_call call = gradient_graph_call_of(s, &node, in, arg);
        uint8_t want[8];
        if (!s->d[node.out[0]]) continue;
        for (uint32_t i = 0; i < node.n_in; i++) want[i] = in[i] != NULL;
        OK(bp_call_gradient(s->scope, &call, &s->value[node.out[0]], &s->d[node.out[0]], 1, want,
                            dx, node.n_in));
        for (uint32_t i = 0; i < node.n_in; i++)
            if (dx[i]) add_to(s, node.in[i], dx[i]);
    }
}

/* Values 0 to 2 of the graph are a, b, dc; out: dL/da, dL/db, dL/d(dc). */
static void second_order(struct bp_scope *scope, struct bp_graph *graph, struct bp_tensor **x,
                         const uint32_t *result, struct bp_tensor **out)
{
    struct sweep s = {.scope = scope, .graph = graph};
    struct bp_graph_info info = {.size = sizeof info};

    OK(bp_graph_get_info(graph, &info));
    cr_assert(info.values <= MAX_VALUES);
    for (int i = 0; i < 3; i++) s.value[i] = x[i];
    go_forward(&s, info.nodes);
    for (int i = 0; i < 2; i++) { /* the gradients of da and db are u and v */
        struct bp_tensor *own = NULL;
        struct bp_arg arg = {&x[U + i], 1};
        struct bp_call call = {.size = sizeof call, .op = "assign", .in = &arg, .n_in = 1};
        OK(bp_call_run(scope, &call, &own, 1, NULL));
        add_to(&s, result[i], own);
    }
    go_back(&s, info.nodes);
    for (int i = 0; i < 3; i++) out[i] = s.d[i], s.d[i] = s.value[i] = NULL;
    gradient_graph_destroy(s.value, MAX_VALUES);
    gradient_graph_destroy(s.d, MAX_VALUES);
}

/* Computes the second order by the formulas above. */
static void expected_second(struct fixture *f, struct bp_tensor **x, struct bp_tensor **out)
{
    struct bp_tensor *of_av[2] = {NULL}, *of_ub[2] = {NULL}, *ub = NULL, *av = NULL;

    first_order(f->scope, x[A], x[V], x[DC], of_av);
    first_order(f->scope, x[U], x[B], x[DC], of_ub);
    OK(bp_op_matmul(f->scope, x[U], x[B], NULL, &ub));
    OK(bp_op_matmul(f->scope, x[A], x[V], NULL, &av));
    out[0] = of_av[0];
    out[1] = of_ub[1];
    out[2] = NULL;
    OK(bp_op_add(f->scope, ub, av, &out[2]));
    bp_tensor_destroy(of_av[1]);
    bp_tensor_destroy(of_ub[0]);
    bp_tensor_destroy(ub);
    bp_tensor_destroy(av);
}

/* Creates a graph with inputs a, b and dc (for 5 inputs: u and v too). */
static struct bp_graph *new_graph(struct fixture *f, const struct pair *p, int inputs,
                                  struct bp_tensor **x)
{
    struct bp_graph *graph;

    OK(bp_graph_create(f->core, &graph));
    for (int i = 0; i < inputs; i++)
        OK(bp_graph_input(graph, NULL, BP_F64, p->rank[like[i]], p->shape[like[i]], &x[i]));
    return graph;
}

/* Records the graph of the first order and checks it against the eager gradients. result: the
 * values of da and db. */
static struct bp_graph *record_first(struct fixture *f, int pair, struct bp_tensor **real,
                                     uint32_t *result)
{
    struct bp_tensor *x[3], *dx[2] = {NULL}, *got[2] = {NULL}, *expected[2] = {NULL};
    struct bp_graph *graph = new_graph(f, &pairs[pair], 3, x);
    struct bp_node_info node = {.size = sizeof node};
    struct bp_graph_info info = {.size = sizeof info};

    first_order(f->scope, real[A], real[B], real[DC], expected);
    first_order(bp_graph_scope(graph), x[A], x[B], x[DC], dx);
    for (int i = 0; i < 2; i++) OK(bp_graph_output(graph, dx[i], i ? "db" : "da"));
    OK(bp_graph_run(graph, f->stream, real, 3, got, 2));
    expect_same(f, got[0], expected[0], "da", pair);
    expect_same(f, got[1], expected[1], "db", pair);
    OK(bp_graph_get_info(graph, &info));
    for (uint32_t n = 0; n < info.nodes; n++) {
        OK(bp_graph_node(graph, n, &node));
        for (int i = 0; i < 2; i++)
            if (!strcmp(node.name, i ? "db" : "da")) result[i] = node.out[0];
    }
    gradient_graph_destroy(x, 3);
    gradient_graph_destroy(dx, 2);
    gradient_graph_destroy(got, 2);
    gradient_graph_destroy(expected, 2);
    return graph;
}

static void check_pair(struct fixture *f, int pair)
{
    static const char *const what[] = {"dL/da", "dL/db", "dL/d(dc)"};
    struct bp_tensor *real[INPUTS], *x[INPUTS], *expected[3], *eager[3], *dx[3], *got[3] = {NULL};
    uint32_t result[2] = {UINT32_MAX, UINT32_MAX};
    struct bp_graph *first, *second;

    for (int i = 0; i < INPUTS; i++)
        real[i] = gradient_graph_numbers(f, pairs[pair].rank[like[i]], pairs[pair].shape[like[i]]);
    first = record_first(f, pair, real, result);
    expected_second(f, real, expected);
    second_order(f->scope, first, real, result, eager);
    second = new_graph(f, &pairs[pair], INPUTS, x);
    second_order(bp_graph_scope(second), first, x, result, dx);
    for (int i = 0; i < 3; i++) OK(bp_graph_output(second, dx[i], NULL));
    OK(bp_graph_run(second, f->stream, real, INPUTS, got, 3));
    for (int i = 0; i < 3; i++) {
        expect_same(f, eager[i], expected[i], what[i], pair);
        expect_same(f, got[i], expected[i], what[i], pair);
    }
    bp_graph_destroy(first);
    bp_graph_destroy(second);
    gradient_graph_destroy(real, INPUTS);
    gradient_graph_destroy(x, INPUTS);
    gradient_graph_destroy(expected, 3);
    gradient_graph_destroy(eager, 3);
    gradient_graph_destroy(dx, 3);
    gradient_graph_destroy(got, 3);
}

Test(gradient_graph, matmul_of_every_pair_of_ranks)
{
    struct fixture f = fixture_init();

    for (int pair = 0; pair < PAIRS; pair++) check_pair(&f, pair);
    fixture_finish(&f);
}

/* Norms, the number of inputs and outputs of their calls, and of saved statistics. */
static const struct norm {
    const char *op, *grad;
    size_t n_in, n_out;
    uint32_t saved;
} norms[] = {
    {"layer_norm", "layer_norm_grad", 1, 1, 2},
    {"rms_norm", "rms_norm_grad", 1, 1, 1},
    {"group_norm", "group_norm_grad", 1, 1, 2},
    {"batch_norm_train", "batch_norm_grad", 5, 3, 2},
};

/* Returns the only node of an operator. */
static struct bp_node_info only_node(struct bp_graph *graph, const char *op)
{
    struct bp_graph_info info = {.size = sizeof info};
    struct bp_node_info found = {.size = sizeof found};
    uint32_t n = 0;

    OK(bp_graph_get_info(graph, &info));
    for (uint32_t i = 0; i < info.nodes; i++) {
        struct bp_node_info node = {.size = sizeof node};
        OK(bp_graph_node(graph, i, &node));
        if (strcmp(node.op, op)) continue;
        found = node;
        n++;
    }
    cr_assert_eq(n, 1, "%u nodes are %s, expected 1", n, op);
    return found;
}

/* Records a norm of in[0], with in[1] and in[2] as running statistics. */
static void record_norm(struct bp_scope *scope, const struct norm *norm,
                        struct bp_tensor *const *in, struct bp_tensor **out)
{
    struct bp_tensor *const five[5] = {in[0], NULL, NULL, in[1], in[2]};
    struct bp_arg arg[5];
    struct bp_call call = {.size = sizeof call, .op = norm->op, .in = arg, .n_in = norm->n_in};

    for (size_t i = 0; i < norm->n_in; i++) arg[i] = (struct bp_arg){&five[i], five[i] != NULL};
    OK(bp_call_run(scope, &call, out, norm->n_out, NULL));
}

/* Checks that the gradient reads statistics of the forward, and runs like one that does not. */
static void check_saved(struct fixture *f, const struct norm *norm)
{
    static const double expected_within = 1e-12;
    int64_t shape[2] = {4, 6};
    struct bp_tensor *in[4], *real[4], *out[3] = {NULL}, *other[3] = {NULL}, *dx = NULL;
    struct bp_tensor *got = NULL, *dy, *expected = NULL;
    struct bp_graph *graph;
    struct bp_node_info node;
    double x[24], y[24];

    OK(bp_graph_create(f->core, &graph));
    for (int i = 0; i < 4; i++) {
        uint32_t rank = i == 1 || i == 2 ? 1 : 2;
        real[i] = gradient_graph_numbers(f, rank, shape + 2 - rank);
        OK(bp_graph_input(graph, NULL, BP_F64, rank, shape + 2 - rank, &in[i]));
    }
    record_norm(bp_graph_scope(graph), norm, in, out);
    dy = in[3];
    OK(bp_graph_gradient(graph, out, &dy, 1, in, 1, &dx));
    node = only_node(graph, norm->grad);
    for (uint32_t i = 3; i < 3 + norm->saved; i++) {
        struct bp_value_info value = {.size = sizeof value};
        struct bp_node_info from = {.size = sizeof from};
        cr_assert_neq(node.in[i], UINT32_MAX, "%s: input %u is absent", norm->grad, i);
        OK(bp_graph_value(graph, node.in[i], &value));
        OK(bp_graph_node(graph, value.node, &from));
        cr_assert_str_eq(from.op, norm->op);
        cr_assert_eq(from.out[from.n_out - norm->saved + i - 3], node.in[i]);
    }
    record_norm(bp_graph_scope(graph), norm, in, other); /* no gradient of this one */
    OK(bp_graph_output(graph, dx, NULL));
    OK(bp_graph_run(graph, f->stream, real, 4, &got, 1));
    {
        struct bp_arg arg[5] = {{&real[0], 1}, {NULL, 0}, {&real[3], 1}};
        struct bp_call call = {.size = sizeof call, .op = norm->grad, .in = arg, .n_in = 3};
        OK(bp_call_run(f->scope, &call, &expected, 1, NULL));
    }
    OK(bp_tensor_read(f->stream, got, x, sizeof x));
    OK(bp_tensor_read(f->stream, expected, y, sizeof y));
    for (int i = 0; i < 24; i++)
        cr_assert(fabs(x[i] - y[i]) <= expected_within, "%s: element %d is %g, expected %g",
                  norm->grad, i, x[i], y[i]);
    gradient_graph_destroy(in, 4);
    gradient_graph_destroy(real, 4);
    gradient_graph_destroy(out, 3);
    gradient_graph_destroy(other, 3);
    bp_tensor_destroy(dx);
    bp_tensor_destroy(got);
    bp_tensor_destroy(expected);
    bp_graph_destroy(graph);
}

Test(gradient_graph, norms_save_statistics_for_their_gradients)
{
    struct fixture f = fixture_init();

    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++) check_saved(&f, &norms[i]);
    fixture_finish(&f);
}

/* A node that is not between x and y keeps its outputs. */
Test(gradient_graph, other_norms_save_nothing)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x, *a = NULL, *b = NULL, *dx = NULL;
    struct bp_graph *graph;
    struct bp_node_info node;

    OK(bp_graph_create(f.core, &graph));
    OK(bp_graph_input(graph, NULL, BP_F64, 2, (int64_t[]){4, 6}, &x));
    OK(bp_op_layer_norm(bp_graph_scope(graph), x, NULL, NULL, NULL, &a, NULL, NULL));
    OK(bp_op_neg(bp_graph_scope(graph), x, &b));
    OK(bp_graph_gradient(graph, &b, &x, 1, &x, 1, &dx));
    node = only_node(graph, "layer_norm");
    cr_assert_eq(node.out[1], UINT32_MAX);
    cr_assert_eq(node.out[2], UINT32_MAX);
    gradient_graph_destroy((struct bp_tensor *[]){x, a, b, dx}, 4);
    bp_graph_destroy(graph);
    fixture_finish(&f);
}
