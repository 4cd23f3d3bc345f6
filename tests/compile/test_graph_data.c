/* SPDX-License-Identifier: Apache-2.0 */
/* test_graph_data.c: tests graphs as flat arrays, which plugins get: of whole graphs and of
 * parts. */
#include "pass_kit.h"

#include <backplane/attrs.h>
#include <compile/graph_data.h>

/* A graph from text as flat arrays. */
struct data {
    struct text_graph g;
    struct bp_ir *ir;
    struct bp_graph_copy *copy;
    const struct bp_graph_data *d;
};

static struct data data_of(const char *text, const uint32_t *nodes, uint32_t n)
{
    struct data x = {.g = text_begin()};

    text_record(&x.g, text);
    OK(bp_ir_create(x.g.graph, x.g.f.device, &x.ir));
    OK(bp_graph_copy_create(x.ir, nodes, n, &x.copy));
    x.d = &x.copy->data;
    return x;
}

static void data_finish(struct data *x)
{
    bp_graph_copy_destroy(x->copy);
    bp_ir_destroy(x->ir);
    text_finish(&x->g);
}

static const struct bp_data_value *value_at(const struct data *x, uint32_t v)
{
    cr_assert(v < x->d->n_value);
    return BP_ROW(struct bp_data_value, x->d->value, x->d->value_stride, v);
}

static const struct bp_data_node *node_at(const struct data *x, uint32_t n)
{
    cr_assert(n < x->d->n_node);
    return BP_ROW(struct bp_data_node, x->d->node, x->d->node_stride, n);
}

Test(graph_data, values_and_nodes_of_a_graph)
{
    struct data x = data_of("y = concat(x[2,3], w![2,3]; axis=1)\n"
                            "relu(scale(y; factor=3))",
                            NULL, 0);
    const struct bp_data_node *concat = node_at(&x, 0), *scale = node_at(&x, 1);
    const struct bp_data_value *w, *y;
    float number[6];

    cr_assert_eq(x.d->n_node, 3);
    cr_assert_eq(x.d->n_in, 1);
    cr_assert_eq(x.d->n_out, 1);
    cr_assert_str_eq(concat->op, "concat");
    cr_assert_str_eq(concat->info->name, "concat");
    cr_assert_eq(((const struct bp_concat_attrs *)concat->attrs)->axis, 1);
    cr_assert(((const struct bp_scale_attrs *)scale->attrs)->factor == 3);
    cr_assert_eq(concat->n_in, 2);
    cr_assert_eq(concat->in_at[1], 2, "a variadic group is flat");
    cr_assert_eq(concat->in[0], x.d->in[0]);
    cr_assert_eq(value_at(&x, x.d->in[0])->flags, BP_DATA_INPUT);
    cr_assert_eq(value_at(&x, x.d->in[0])->node, BP_DATA_NONE);
    y = value_at(&x, concat->out[0]);
    cr_assert(y->rank == 2 && y->shape[0] == 2 && y->shape[1] == 6 && y->dtype == BP_F32);
    cr_assert(y->node == 0 && y->output == 0 && y->flags == 0);
    cr_assert_str_eq(y->name, concat->name);
    cr_assert_eq(value_at(&x, x.d->out[0])->node, 2);
    cr_assert_eq(value_at(&x, x.d->out[0])->flags, BP_DATA_OUTPUT | BP_DATA_RETURNED);
    w = value_at(&x, concat->in[1]);
    cr_assert_eq(w->flags, BP_DATA_FROZEN);
    cr_assert(w->id && w->bytes == sizeof number && !w->stride);
    OK(bp_tensor_read(x.g.f.stream, text_find(&x.g, "w"), number, sizeof number));
    cr_assert_eq(memcmp(w->data, number, sizeof number), 0);
    data_finish(&x);
}

/* The copy has all that it points to. */
Test(graph_data, a_copy_outlives_the_graph)
{
    struct data x = data_of("sum(reshape(x[2,6]; shape=3_4); axes=0_1)", NULL, 0);
    const struct bp_reshape_attrs *shape;

    bp_ir_destroy(x.ir);
    x.ir = NULL;
    shape = node_at(&x, 0)->attrs;
    cr_assert(shape->shape.n == 2 && shape->shape.at[0] == 3 && shape->shape.at[1] == 4);
    cr_assert_str_eq(node_at(&x, 0)->op, "reshape");
    bp_graph_copy_destroy(x.copy);
    text_finish(&x.g);
}

Test(graph_data, borders_of_a_part)
{
    /* 0 a, 1 b, 2 c, 3 d; the part is b and c: it reads a and a parameter, and d reads b. */
    const uint32_t part[] = {1, 2};
    struct data x = data_of("a = relu(x)\nb = add(a, p~[4])\nc = mul(b, w![4])\n"
                            "return sub(c, b)",
                            part, 2);
    const struct bp_data_node *b = node_at(&x, 0), *c = node_at(&x, 1);

    cr_assert_eq(x.d->n_node, 2);
    cr_assert_eq(x.d->n_in, 2, "the frozen constant is no input");
    cr_assert_eq(x.d->in[0], b->in[0]);
    cr_assert_eq(x.d->in[1], b->in[1]);
    cr_assert_eq(value_at(&x, b->in[1])->flags, BP_DATA_INPUT | BP_DATA_STATE);
    cr_assert_eq(x.d->n_out, 2);
    cr_assert(x.d->out[0] == b->out[0] && x.d->out[1] == c->out[0]);
    cr_assert_eq(value_at(&x, b->out[0])->flags, BP_DATA_OUTPUT);
    cr_assert_eq(x.copy->node_of[0], 1);
    data_finish(&x);
}

/* Each reader of memory that a node updates is ordered. */
Test(graph_data, order_that_no_value_states)
{
    struct data x = data_of("a = relu(p~[4,4,4])\nsgd(p~, g[4,4,4], 0.5)\nb = relu(p~)\n"
                            "return a, b",
                            NULL, 0);

    cr_assert_eq(node_at(&x, 1)->flags, BP_DATA_UPDATE);
    cr_assert_eq(value_at(&x, node_at(&x, 0)->in[0])->flags & BP_DATA_STATE, BP_DATA_STATE);
    cr_assert_eq(x.d->n_before, 2);
    cr_assert(x.d->before[0] == 0 && x.d->before[1] == 1, "the reader before the update");
    cr_assert(x.d->before[2] == 1 && x.d->before[3] == 2, "the update before the later reader");
    data_finish(&x);
}

Test(graph_data, equal_graphs_have_equal_hashes)
{
    static const char *const text[] = {
        "relu(scale(x; factor=3))", "relu(scale(y; factor=3))", "relu(scale(x; factor=4))",
        "tanh(scale(x; factor=3))", "relu(scale(x[4,4]; factor=3))"};
    uint8_t hash[sizeof text / sizeof *text][32];

    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        struct data x = data_of(text[i], NULL, 0);
        memcpy(hash[i], x.d->hash, 32);
        data_finish(&x);
    }
    cr_assert_eq(memcmp(hash[0], hash[1], 32), 0, "names do not matter");
    cr_assert_neq(memcmp(hash[0], hash[0] + 16, 16), 0);
    for (size_t i = 2; i < sizeof text / sizeof *text; i++)
        cr_assert_neq(memcmp(hash[0], hash[i], 32), 0, "%s", text[i]);
}
