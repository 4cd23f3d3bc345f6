/* SPDX-License-Identifier: Apache-2.0 */
/* test_typed_given.c: tests typed calls whose result pointers refer to tensors of the app. */
#include "fixture.h"

static struct bp_tensor *row_of(struct fixture *f, float a, float b)
{
    return tensor_of(f, BP_F32, 1, SHAPE(2), F32(a, b));
}

/* The first call is prepared, the next ones are found; a call with NULL between them makes a new
 * tensor. */
Test(typed_given, gets_the_result)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = row_of(&f, 1, 2), *y = row_of(&f, 10, 20), *given = row_of(&f, 0, 0);
    struct bp_tensor *z = given, *fresh = NULL;

    for (int i = 0; i < 3; i++) {
        OK(bp_tensor_write(f.stream, given, F32(-1, -1), 8));
        OK(bp_op_add(f.scope, x, y, &z));
        cr_assert(z == given, "the pointer was replaced");
        expect_bytes(&f, given, F32(11, 22), 8);
        OK(bp_op_add(f.scope, x, y, &fresh));
        cr_assert(fresh != given);
        expect_bytes(&f, fresh, F32(11, 22), 8);
        bp_tensor_destroy(fresh), fresh = NULL;
    }
    bp_tensor_destroy(x), bp_tensor_destroy(y), bp_tensor_destroy(given);
    fixture_finish(&f);
}

/* Also if the result is an input, or strided. */
Test(typed_given, may_be_an_input_or_a_view)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = row_of(&f, 1, 2), *y = row_of(&f, 1, 2), *z = x, *view;
    struct bp_tensor *wide = tensor_of(&f, BP_F32, 1, SHAPE(4), F32(7, 7, 7, 7));

    OK(bp_op_add(f.scope, x, y, &z));
    expect_bytes(&f, x, F32(2, 4), 8);
    OK(bp_tensor_slice(wide, 0, 0, 4, 2, &view));
    z = view;
    OK(bp_op_neg(f.scope, x, &z));
    expect_bytes(&f, wide, F32(-2, 7, -4, 7), 16);
    z = view;
    OK(bp_op_transpose(f.scope, x, NULL, &z)); /* a view otherwise */
    cr_assert(z == view);
    expect_bytes(&f, wide, F32(2, 7, 4, 7), 16);
    bp_tensor_destroy(x), bp_tensor_destroy(y), bp_tensor_destroy(view), bp_tensor_destroy(wide);
    fixture_finish(&f);
}

/* Some outputs of a call are given, others are made. An output that updates its input is given
 * without a new reference. */
Test(typed_given, may_be_some_of_the_outputs)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = row_of(&f, 3, 9), *own = row_of(&f, 0, 0), *values = NULL, *part[2];
    struct bp_tensor *index = tensor_of(&f, BP_I64, 1, SHAPE(1), SHAPE(-1)), *at = index;
    struct bp_tensor *rate = tensor_of(&f, BP_F32, 0, NULL, F32(1)), *w = own;
    struct bp_tensor *head = tensor_of(&f, BP_F32, 1, SHAPE(1), F32(0));
    struct bp_topk_attrs top = bp_topk_defaults();
    struct bp_split_attrs halves = bp_split_defaults();

    top.k = 1;
    OK(bp_op_topk(f.scope, x, NULL, &top, &values, &at));
    cr_assert(at == index);
    expect_bytes(&f, index, SHAPE(1), 8);
    expect_bytes(&f, values, F32(9), 4);
    OK(bp_op_sgd(f.scope, own, x, rate, &w));
    cr_assert(w == own);
    expect_bytes(&f, own, F32(-3, -9), 8);
    halves.sections = 2;
    part[0] = head, part[1] = NULL;
    OK(bp_op_split(f.scope, x, NULL, &halves, part, 2));
    cr_assert(part[0] == head && part[1]);
    expect_bytes(&f, head, F32(3), 4);
    expect_bytes(&f, part[1], F32(9), 4);
    bp_tensor_destroy(part[1]), bp_tensor_destroy(head), bp_tensor_destroy(values);
    bp_tensor_destroy(x), bp_tensor_destroy(own), bp_tensor_destroy(index), bp_tensor_destroy(rate);
    fixture_finish(&f);
}

Test(typed_given, must_fit)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = row_of(&f, 1, 2), *in = NULL, *z;
    struct bp_tensor *longer = tensor_of(&f, BP_F32, 1, SHAPE(3), F32(7, 7, 7));
    struct bp_graph *graph;

    z = longer;
    FAILS(BP_ERR_INVALID, "output z is f32 [3], expected f32 [2]", bp_op_add(f.scope, x, x, &z));
    cr_assert(z == longer);
    z = (struct bp_tensor *)f.stream;
    FAILS(BP_ERR_INVALID, "output z: expected NULL or a tensor", bp_op_add(f.scope, x, x, &z));
    expect_bytes(&f, longer, F32(7, 7, 7), 12);
    OK(bp_graph_create(f.core, &graph));
    OK(bp_graph_input(graph, NULL, BP_F32, 1, SHAPE(2), &in));
    z = x;
    FAILS(BP_ERR_INVALID, "give NULL", bp_op_add(bp_graph_scope(graph), in, in, &z));
    bp_tensor_destroy(in), bp_tensor_destroy(x), bp_tensor_destroy(longer);
    bp_graph_destroy(graph);
    fixture_finish(&f);
}
