/* SPDX-License-Identifier: Apache-2.0 */
/* test_split.c: tests an operator with any number of outputs, split, in each kind of call. */
#include "fixture.h"

#include <stdlib.h>

static struct bp_tensor_info split_info_of(struct bp_tensor *t)
{
    struct bp_tensor_info info = {.size = sizeof info};

    OK(bp_tensor_get_info(t, &info));
    return info;
}

static struct bp_split_attrs split_into(int64_t axis, int64_t sections, int64_t n,
                                        const int64_t *sizes)
{
    struct bp_split_attrs a = bp_split_defaults();

    a.axis = axis;
    a.sections = sections;
    a.sizes = (struct bp_dims){sizes, n};
    return a;
}

static void split_destroy(struct bp_tensor **t, size_t n)
{
    for (size_t i = 0; i < n; i++) bp_tensor_destroy(t[i]), t[i] = NULL;
}

static struct bp_tensor *split_matrix(struct fixture *f)
{
    return tensor_of(f, BP_F32, 2, SHAPE(2, 3), F32(1, 2, 3, 4, 5, 6));
}

Test(split, makes_views_of_its_input)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = split_matrix(&f), *y[3] = {NULL};
    struct bp_split_attrs rows = split_into(0, 2, 0, NULL), columns = split_into(-1, 3, 0, NULL);
    struct bp_split_attrs open = split_into(1, 0, 3, SHAPE(0, -1, 1));
    struct bp_tensor *sizes = tensor_of(&f, BP_I32, 1, SHAPE(2), (const int32_t[]){1, 2});

    OK(bp_op_split(f.scope, x, NULL, &columns, y, 3));
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(split_info_of(y[i]).buffer, split_info_of(x).buffer);
        cr_assert_eq(split_info_of(y[i]).offset, 4u * (unsigned)i);
        expect_bytes(&f, y[i], F32((float)(1 + i), (float)(4 + i)), 8);
    }
    split_destroy(y, 3);
    OK(bp_op_split(f.scope, x, NULL, &open, y, 3));
    cr_assert(split_info_of(y[0]).shape[0] == 2 && split_info_of(y[0]).shape[1] == 0);
    expect_bytes(&f, y[1], F32(1, 2, 4, 5), 16);
    expect_bytes(&f, y[2], F32(3, 6), 8);
    split_destroy(y, 3);
    OK(bp_op_split(f.scope, x, NULL, &rows, y, 2));
    expect_bytes(&f, y[0], F32(1, 2, 3), 12);
    expect_bytes(&f, y[1], F32(4, 5, 6), 12);
    split_destroy(y, 2);
    columns.sections = 0;
    OK(bp_op_split(f.scope, x, sizes, &columns, y, 2));
    expect_bytes(&f, y[0], F32(1, 4), 8);
    expect_bytes(&f, y[1], F32(2, 3, 5, 6), 16);
    split_destroy(y, 2);
    bp_tensor_destroy(sizes);
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

/* Tests the largest number of outputs of a call: 256, of one element each. */
Test(split, makes_as_many_as_there_are)
{
    enum { N = 256 };
    struct fixture f = fixture_init();
    struct bp_split_attrs a = split_into(0, N, 0, NULL);
    struct bp_tensor *x, *y[N + 1] = {NULL}, *joined = NULL;
    int32_t data[N];

    for (int i = 0; i < N; i++) data[i] = 7 * i;
    x = tensor_of(&f, BP_I32, 1, SHAPE(N), data);
    OK(bp_op_split(f.scope, x, NULL, &a, y, N));
    for (int i = 0; i < N; i++) expect_bytes(&f, y[i], &data[i], 4);
    OK(bp_op_concat(f.scope, y, N - 1, NULL, &joined)); /* an absent tensor would count too */
    expect_bytes(&f, joined, data, sizeof data - 4);
    bp_tensor_destroy(joined);
    split_destroy(y, N);
    a.sections = N + 1;
    FAILS(BP_ERR_INVALID, "at most 256", bp_op_split(f.scope, x, NULL, &a, y, N));
    FAILS(BP_ERR_INVALID, "room for 257 outputs ys",
          bp_op_split(f.scope, x, NULL, &a, y, N + 1));
    cr_assert_null(y[0]);
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

Test(split, errors_name_the_argument)
{
    const struct {
        struct bp_split_attrs a;
        size_t room;
        const char *word;
    } wrong[] = {
        {{.axis = 1}, 1, "sections is 0 and sizes has 0 entries"},
        {{.axis = 1, .sections = -1}, 1, "sections is -1"},
        {{.axis = 1, .sections = 3, .sizes = {SHAPE(3), 1}}, 3, "sections is 3 and sizes has 1"},
        {{.axis = 2, .sections = 1}, 1, "axis is 2, expected -2 to 1 for rank 2"},
        {{.axis = -3, .sections = 1}, 1, "axis is -3"},
        {{.axis = 1, .sections = 2}, 2, "does not divide the extent 3"},
        {{.axis = 1, .sizes = {SHAPE(1, 1), 2}}, 2, "add up to 2, expected the extent 3"},
        {{.axis = 1, .sizes = {SHAPE(4, -1), 2}}, 2, "add up to 4"},
        {{.axis = 1, .sizes = {SHAPE(-1, -1), 2}}, 2, "sizes[1] is -1"},
        {{.axis = 1, .sizes = {SHAPE(5, -2), 2}}, 2, "sizes[1] is -2"},
        {{.axis = 1, .sizes = {SHAPE(INT64_MAX, INT64_MAX, 5), 3}}, 3, "add up to 92233720368547"},
        {{.axis = 1, .sections = 3}, 2, "output ys has 3 tensors"},
        {{.axis = 1, .sections = 3}, 0, "output ys has 3 tensors"},
        {{.axis = 1, .sections = 3}, 4, "4 outputs asked for, 3 made"},
    };
    struct fixture f = fixture_init();
    struct bp_tensor *x = split_matrix(&f), *symbol, *y[4] = {NULL};
    struct bp_split_attrs fine = split_into(1, 3, 0, NULL);
    struct bp_graph_info info = {.size = sizeof info};
    struct bp_graph *graph;

    OK(bp_graph_create(f.core, &graph));
    OK(bp_graph_input(graph, NULL, BP_F32, 2, SHAPE(2, 3), &symbol));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct bp_split_attrs a = wrong[i].a;
        a.size = sizeof a;
        FAILS(BP_ERR_INVALID, wrong[i].word,
              bp_op_split(f.scope, x, NULL, &a, y, wrong[i].room));
        FAILS(BP_ERR_INVALID, wrong[i].word,
              bp_op_split(bp_graph_scope(graph), symbol, NULL, &a, y, wrong[i].room));
        for (int k = 0; k < 4; k++) cr_assert_null(y[k]);
    }
    FAILS(BP_ERR_INVALID, "output ys has 3", bp_op_split(f.scope, x, NULL, &fine, NULL, 3));
    OK(bp_graph_get_info(graph, &info));
    cr_assert_eq(info.nodes, 0);
    bp_tensor_destroy(symbol);
    bp_graph_destroy(graph);
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

/* Preallocated outputs are copies; the outputs beside them are then copies too. */
Test(split, writes_outputs_that_are_given)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = split_matrix(&f), *own = tensor_of(&f, BP_F32, 2, SHAPE(2, 1), F32(0, 0));
    struct bp_tensor *other = tensor_of(&f, BP_F32, 2, SHAPE(1, 2), NULL), *part;
    struct bp_tensor *y[3] = {NULL, own, NULL};
    struct bp_split_attrs a = split_into(1, 3, 0, NULL);
    struct bp_arg in[1] = {{&x, 1}};
    struct bp_call call = {.size = sizeof call, .op = "split", .in = in, .n_in = 1, .attrs = &a};

    for (int i = 0; i < 2; i++) {
        OK(bp_call_run(f.scope, &call, y, 3, NULL));
        cr_assert_eq(y[1], own);
        expect_bytes(&f, y[0], F32(1, 4), 8);
        expect_bytes(&f, own, F32(2, 5), 8);
        expect_bytes(&f, y[2], F32(3, 6), 8);
        cr_assert_neq(split_info_of(y[0]).buffer, split_info_of(x).buffer);
        split_destroy(&y[0], 1);
        split_destroy(&y[2], 1);
    }
    y[2] = own;
    FAILS(BP_ERR_INVALID, "outputs ys and ys overlap", bp_call_run(f.scope, &call, y, 3, NULL));
    y[2] = other;
    FAILS(BP_ERR_INVALID, "output ys is f32 [1, 2], expected f32 [2, 1]",
          bp_call_run(f.scope, &call, y, 3, NULL));
    OK(bp_tensor_slice(x, 1, 2, 3, 1, &part));
    y[2] = part;
    FAILS(BP_ERR_INVALID, "output ys overlaps input 0", bp_call_run(f.scope, &call, y, 3, NULL));
    y[2] = NULL;
    FAILS(BP_ERR_INVALID, "all to be asked for",
          bp_call_run(f.scope, &call, y, 3, (const uint8_t[]){1, 1, 0}));
    cr_assert(!y[0] && !y[2]);
    bp_tensor_destroy(part);
    bp_tensor_destroy(other);
    bp_tensor_destroy(own);
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

Test(split, is_prepared)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = split_matrix(&f), *t, *y[2], *in_flat[2] = {NULL}; /* x, no sizes */
    struct bp_split_attrs a = split_into(0, 0, 2, SHAPE(1, 2));
    struct bp_tensor_info out = {.size = sizeof out};
    struct bp_arg in[1] = {{&t, 1}};
    struct bp_call call = {.size = sizeof call, .op = "split", .in = in, .n_in = 1, .attrs = &a};
    struct bp_prepared *p;

    OK(bp_tensor_transpose(x, NULL, &t));
    OK(bp_prepared_create(f.device, &call, NULL, 0, &p));
    for (uint32_t i = 0; i < 2; i++) {
        OK(bp_prepared_output(p, i, &out));
        cr_assert(out.rank == 2 && out.shape[0] == 1 + (int64_t)i && out.shape[1] == 2);
        y[i] = tensor_of(&f, BP_F32, 2, out.shape, NULL);
    }
    FAILS(BP_ERR_INVALID, "no output 2", bp_prepared_output(p, 2, &out));
    in_flat[0] = t;
    FAILS(BP_ERR_INVALID, "2 and 2 prepared",
          bp_prepared_run(p, f.stream, in_flat, 2, y, 1, NULL));
    OK(bp_prepared_run(p, f.stream, in_flat, 2, y, 2, NULL));
    expect_bytes(&f, y[0], F32(1, 4), 8);
    expect_bytes(&f, y[1], F32(2, 5, 3, 6), 16);
    split_destroy(y, 2);
    bp_prepared_destroy(p);
    bp_tensor_destroy(t);
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

/* The outputs as values: one is an output of the graph, one is read by another node, and one is not
 * used. */
Test(split, is_recorded)
{
    struct fixture f = fixture_init();
    struct bp_tensor *real = split_matrix(&f), *x, *y[3] = {NULL}, *z = NULL, *out[2] = {NULL};
    struct bp_split_attrs a = split_into(1, 3, 0, NULL);
    struct bp_node_info node = {.size = sizeof node};
    struct bp_value_info value = {.size = sizeof value};
    struct bp_graph *graph;

    OK(bp_graph_create(f.core, &graph));
    OK(bp_graph_input(graph, "x", BP_F32, 2, SHAPE(2, 3), &x));
    OK(bp_op_split(bp_graph_scope(graph), x, NULL, &a, y, 3));
    OK(bp_op_add(bp_graph_scope(graph), y[2], y[2], &z));
    OK(bp_graph_output(graph, y[1], "middle"));
    OK(bp_graph_output(graph, z, NULL));
    OK(bp_graph_node(graph, 0, &node));
    cr_assert_eq(node.n_out, 3);
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert_eq(node.out[i], 1 + i);
        OK(bp_graph_value(graph, node.out[i], &value));
        cr_assert(value.rank == 2 && value.shape[0] == 2 && value.shape[1] == 1);
    }
    for (int i = 0; i < 2; i++) {
        OK(bp_graph_run(graph, f.stream, &real, 1, out, 2));
        expect_bytes(&f, out[0], F32(2, 5), 8);
        expect_bytes(&f, out[1], F32(6, 12), 8);
        cr_assert_eq(split_info_of(out[0]).buffer, split_info_of(real).buffer);
        split_destroy(out, 2);
    }
    out[0] = tensor_of(&f, BP_F32, 2, SHAPE(2, 1), NULL);
    OK(bp_graph_run(graph, f.stream, &real, 1, out, 2));
    expect_bytes(&f, out[0], F32(2, 5), 8);
    split_destroy(out, 2);
    split_destroy(y, 3);
    bp_tensor_destroy(z);
    bp_tensor_destroy(x);
    bp_graph_destroy(graph);
    bp_tensor_destroy(real);
    fixture_finish(&f);
}

/* present: a bit for each part whose gradient is not zero. */
static void check_gradient(struct fixture *f, struct bp_scope *scope, struct bp_tensor *x,
                           struct bp_tensor **dy, unsigned present, struct bp_tensor **dx)
{
    struct bp_split_attrs a = split_into(-1, 0, 3, SHAPE(1, 2, 1));
    struct bp_tensor *y[3] = {NULL}, *given[3];
    struct bp_arg in[1] = {{&x, 1}};
    struct bp_call call = {.size = sizeof call, .op = "split", .in = in, .n_in = 1, .attrs = &a};

    (void)f;
    OK(bp_op_split(scope, x, NULL, &a, y, 3));
    for (int i = 0; i < 3; i++) given[i] = present >> i & 1 ? dy[i] : NULL;
    OK(bp_call_gradient(scope, &call, y, given, 3, (const uint8_t[]){1}, dx, 1));
    FAILS(BP_ERR_INVALID, "output ys has 3",
          bp_call_gradient(scope, &call, y, given, 2, (const uint8_t[]){1}, dx, 1));
    split_destroy(y, 3);
}

/* The gradient concatenates the parts' gradients, with zeros for absent ones; recorded and eager
 * alike. */
Test(split, has_a_gradient)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = tensor_of(&f, BP_F32, 2, SHAPE(2, 4), NULL), *symbol[4], *dx, *got;
    struct bp_tensor *real[4] = {x, tensor_of(&f, BP_F32, 2, SHAPE(2, 1), F32(1, 2)),
                                 tensor_of(&f, BP_F32, 2, SHAPE(2, 2), F32(3, 4, 5, 6)),
                                 tensor_of(&f, BP_F32, 2, SHAPE(2, 1), F32(7, 8))};

    for (unsigned present = 0; present < 8; present++) {
        float a = present & 1 ? 1 : 0, b = present & 2 ? 1 : 0, c = present & 4 ? 1 : 0;
        const float *expected = F32(1 * a, 3 * b, 4 * b, 7 * c, 2 * a, 5 * b, 6 * b, 8 * c);
        struct bp_graph *graph;
        dx = got = NULL;
        check_gradient(&f, f.scope, x, real + 1, present, &dx);
        cr_assert_eq(!dx, !present);
        if (dx) expect_bytes(&f, dx, expected, 32);
        bp_tensor_destroy(dx);
        OK(bp_graph_create(f.core, &graph));
        for (int i = 0; i < 4; i++)
            OK(bp_graph_input(graph, NULL, BP_F32, 2, split_info_of(real[i]).shape, &symbol[i]));
        dx = NULL;
        check_gradient(&f, bp_graph_scope(graph), symbol[0], symbol + 1, present, &dx);
        cr_assert_eq(!dx, !present);
        if (dx) {
            OK(bp_graph_output(graph, dx, NULL));
            OK(bp_graph_run(graph, f.stream, real, 4, &got, 1));
            expect_bytes(&f, got, expected, 32);
        }
        bp_tensor_destroy(got);
        bp_tensor_destroy(dx);
        split_destroy(symbol, 4);
        bp_graph_destroy(graph);
    }
    split_destroy(real, 4);
    fixture_finish(&f);
}
