/* SPDX-License-Identifier: Apache-2.0 */
/* test_index.c: tests operators on indices and sorting: indices out of range, gradients where
 * extents depend on data, and results that were computed by hand. */
#include "fixture.h"

#include <math.h>

#define I64(...) ((const int64_t[]){__VA_ARGS__})
#define I32(...) ((const int32_t[]){__VA_ARGS__})

/* Makes one call of an operator on up to four inputs. */
static enum bp_status index_call(struct fixture *f, const char *op, const void *attrs, size_t n,
                                 struct bp_tensor *const *in, struct bp_tensor **out, size_t n_out)
{
    struct bp_arg arg[4];
    struct bp_call c = {.size = sizeof c, .op = op, .in = arg, .n_in = n, .attrs = attrs};

    for (size_t i = 0; i < n; i++) arg[i] = (struct bp_arg){&in[i], in[i] != NULL};
    return bp_call_run(f->scope, &c, out, n_out, NULL);
}

static void index_destroy(struct bp_tensor **t, size_t n)
{
    for (size_t i = 0; i < n; i++) bp_tensor_destroy(t[i]), t[i] = NULL;
}

static void expect_fault(struct fixture *f, const char *op, const void *attrs, struct bp_tensor *a,
                         struct bp_tensor *b, struct bp_tensor *c)
{
    struct bp_tensor *out[1] = {NULL}, *in[] = {a, b, c};

    FAILS(BP_ERR_FAULT, "found bad values in its inputs",
          index_call(f, op, attrs, 3 - !c - !b, in, out, 1));
    index_destroy(out, 1);
}

/* The indices for three rows are one past the end, one before the beginning, and far outside, in
 * i32 and i64. */
Test(index, fails_where_an_index_is_outside)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = tensor_of(&f, BP_F32, 2, SHAPE(3, 2), F32(1, 2, 3, 4, 5, 6));
    struct bp_tensor *u = tensor_of(&f, BP_F32, 2, SHAPE(3, 2), F32(1, 2, 3, 4, 5, 6));
    struct bp_tensor *none = tensor_of(&f, BP_F32, 2, SHAPE(0, 2), NULL);
    struct bp_one_hot_attrs hot = bp_one_hot_defaults();
    struct bp_segment_pool_attrs pool = bp_segment_pool_defaults();
    struct bp_bincount_attrs count = bp_bincount_defaults();
    struct bp_shard_index_attrs shard = bp_shard_index_defaults();
    struct bp_cache_write_attrs write = bp_cache_write_defaults();

    write.axis = 1;
    hot.depth = pool.segments = count.bins = shard.index_num = 3;
    for (int wide = 0; wide < 2; wide++)
        for (int which = 0; which < 3; which++) {
            static const int64_t bad[3][3] = {{0, 3, 2}, {0, -4, 2}, {INT32_MAX, 1, INT32_MIN}};
            int32_t narrow[3] = {(int32_t)bad[which][0], (int32_t)bad[which][1],
                                 (int32_t)bad[which][2]};
            const void *data = wide ? (const void *)bad[which] : narrow;
            uint32_t dtype = wide ? BP_I64 : BP_I32;
            struct bp_tensor *line = tensor_of(&f, dtype, 1, SHAPE(3), data);
            struct bp_tensor *column = tensor_of(&f, dtype, 2, SHAPE(3, 1), data);
            expect_fault(&f, "gather", NULL, x, line, NULL);
            expect_fault(&f, "gather", NULL, none, line, NULL);
            expect_fault(&f, "index_select", NULL, x, line, NULL);
            expect_fault(&f, "index_sample", NULL, x, column, NULL);
            expect_fault(&f, "take_along_axis", NULL, x, column, NULL);
            expect_fault(&f, "gather_nd", NULL, x, column, NULL);
            expect_fault(&f, "embedding", NULL, x, line, NULL);
            expect_fault(&f, "gather_grad", NULL, u, line, x);
            expect_fault(&f, "embedding_grad", NULL, u, line, x);
            expect_fault(&f, "gather_nd_grad", NULL, u, column, x);
            expect_fault(&f, "index_add", NULL, x, line, u);
            expect_fault(&f, "scatter", NULL, x, line, u);
            expect_fault(&f, "scatter_nd_add", NULL, x, column, u);
            expect_fault(&f, "scatter_nd_update", NULL, x, column, u);
            expect_fault(&f, "cache_write", &write, x, u, line);
            expect_fault(&f, "one_hot", &hot, line, NULL, NULL);
            expect_fault(&f, "multiplex", NULL, line, x, NULL);
            expect_fault(&f, "segment_pool", &pool, x, line, NULL);
            expect_fault(&f, "bincount", &count, line, NULL, NULL);
            expect_fault(&f, "shard_index", &shard, line, NULL, NULL);
            index_destroy(&line, 1);
            index_destroy(&column, 1);
        }
    index_destroy(&x, 1);
    index_destroy(&u, 1);
    index_destroy(&none, 1);
    fixture_finish(&f);
}

/* The number of bins is not found from x: without one, only an x without elements has a result. */
Test(index, bincount_expects_a_number_of_bins)
{
    struct fixture f = fixture_init();
    struct bp_bincount_attrs none = bp_bincount_defaults();
    struct bp_tensor *x = tensor_of(&f, BP_I64, 1, SHAPE(2), ((const int64_t[]){0, 1}));
    struct bp_tensor *empty = tensor_of(&f, BP_I64, 1, SHAPE(0), NULL), *y = NULL;
    struct bp_tensor_info info = {.size = sizeof info};
    struct bp_graph *graph;
    struct bp_tensor *input;

    FAILS(BP_ERR_INVALID, "bins is 0", bp_op_bincount(f.scope, x, NULL, NULL, NULL, &y));
    FAILS(BP_ERR_INVALID, "bins is 0", bp_op_bincount(f.scope, x, NULL, NULL, &none, &y));
    OK(bp_graph_create(f.core, &graph));
    OK(bp_graph_input(graph, "x", BP_I64, 1, SHAPE(2), &input));
    FAILS(BP_ERR_INVALID, "bins is 0",
          bp_op_bincount(bp_graph_scope(graph), input, NULL, NULL, &none, &y));
    OK(bp_op_bincount(f.scope, empty, NULL, NULL, &none, &y));
    OK(bp_tensor_get_info(y, &info));
    cr_expect(info.rank == 1 && info.shape[0] == 0);
    bp_tensor_destroy(input);
    bp_graph_destroy(graph);
    index_destroy(&x, 1);
    index_destroy(&empty, 1);
    index_destroy(&y, 1);
    fixture_finish(&f);
}

/* Tests that a batch whose position is out of range is not written, the others are. */
Test(index, writes_the_batches_of_a_cache_that_fit)
{
    struct fixture f = fixture_init();
    struct bp_cache_write_attrs write = bp_cache_write_defaults();
    static const float zeros[9];
    struct bp_tensor *in[3] = {tensor_of(&f, BP_F32, 2, SHAPE(3, 3), zeros),
                               tensor_of(&f, BP_F32, 2, SHAPE(3, 2), F32(1, 2, 3, 4, 5, 6)),
                               tensor_of(&f, BP_I64, 1, SHAPE(3), I64(1, 2, 0))};
    struct bp_tensor *out[1] = {NULL};

    write.axis = 1;
    FAILS(BP_ERR_FAULT, "found bad values in its inputs",
          index_call(&f, "cache_write", &write, 3, in, out, 1));
    expect_bytes(&f, in[0], F32(0, 1, 2, 0, 0, 0, 5, 6, 0), 36);
    write.circular = 1;
    OK(index_call(&f, "cache_write", &write, 3, in, out, 1));
    expect_bytes(&f, out[0], F32(0, 1, 2, 4, 0, 3, 5, 6, 0), 36);
    cr_expect(out[0] == in[0]);
    bp_tensor_destroy(out[0]);
    index_destroy(in, 3);
    fixture_finish(&f);
}

/* Tests ids in range that do not ascend, and a negative id, which embedding does not count from the
 * end. */
Test(index, fails_where_ids_do_not_fit)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = tensor_of(&f, BP_F32, 1, SHAPE(3), F32(1, 2, 3));
    struct bp_tensor *ids = tensor_of(&f, BP_I64, 1, SHAPE(3), I64(0, 2, 1));
    struct bp_tensor *last = tensor_of(&f, BP_I64, 1, SHAPE(1), I64(-1)), *y = NULL;
    struct bp_tensor *weight = tensor_of(&f, BP_F32, 2, SHAPE(3, 1), F32(1, 2, 3));
    struct bp_segment_pool_attrs pool = bp_segment_pool_defaults();

    pool.segments = 3;
    expect_fault(&f, "segment_pool", &pool, x, ids, NULL);
    expect_fault(&f, "embedding", NULL, weight, last, NULL);
    OK(bp_op_gather(f.scope, weight, last, NULL, &y));
    expect_bytes(&f, y, F32(3), 4);
    index_destroy((struct bp_tensor *[]){x, ids, last, weight, y}, 5);
    fixture_finish(&f);
}

/* The extent of y is 2, and the upper bound that inference computes is 4. */
Test(index, gradient_of_data_dependent_shapes)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = tensor_of(&f, BP_F32, 2, SHAPE(2, 2), F32(1, 2, 3, 4)), *y = NULL;
    struct bp_tensor *dx[2] = {NULL};
    struct bp_tensor *mask = tensor_of(&f, BP_BOOL, 2, SHAPE(2, 2), (const uint8_t[]){0, 1, 1, 0});
    struct bp_tensor *dy = tensor_of(&f, BP_F32, 1, SHAPE(2), F32(10, 20));
    struct bp_tensor *long_dy = tensor_of(&f, BP_F32, 1, SHAPE(5), F32(1, 2, 3, 4, 5));
    struct bp_arg in[] = {{&x, 1}, {&mask, 1}};
    struct bp_call c = {.size = sizeof c, .op = "masked_select", .in = in, .n_in = 2};

    OK(bp_op_masked_select(f.scope, x, mask, &y));
    expect_bytes(&f, y, F32(2, 3), 8);
    OK(bp_call_gradient(f.scope, &c, &y, &dy, 1, (const uint8_t[]){1, 0}, dx, 2));
    expect_bytes(&f, dx[0], F32(0, 10, 20, 0), 16);
    FAILS(BP_ERR_INVALID, "dy[0] is f32 [5]",
          bp_call_gradient(f.scope, &c, &y, &long_dy, 1, (const uint8_t[]){1, 0}, dx, 2));
    index_destroy((struct bp_tensor *[]){x, mask, dy, long_dy, y, dx[0]}, 6);
    fixture_finish(&f);
}

Test(index, puts_in_order)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = tensor_of(&f, BP_F32, 2, SHAPE(2, 2), F32(1, 2, 3, 4)), *y = NULL;
    struct bp_tensor *index = tensor_of(&f, BP_I32, 1, SHAPE(3), I32(1, -1, 0));
    struct bp_tensor *u = tensor_of(&f, BP_F32, 2, SHAPE(3, 2), F32(10, 20, 30, 40, 50, 60));
    struct bp_scatter_attrs sum = bp_scatter_defaults();
    struct bp_index_add_attrs add = bp_index_add_defaults();

    OK(bp_op_scatter(f.scope, x, index, u, NULL, &y));
    expect_bytes(&f, y, F32(50, 60, 30, 40), 16);
    index_destroy(&y, 1);
    sum.overwrite = 0;
    OK(bp_op_scatter(f.scope, x, index, u, &sum, &y));
    expect_bytes(&f, y, F32(50, 60, 40, 60), 16);
    index_destroy(&y, 1);
    OK(bp_op_index_add(f.scope, x, index, u, &add, &y));
    expect_bytes(&f, y, F32(51, 62, 43, 64), 16);
    index_destroy((struct bp_tensor *[]){x, index, u, y}, 4);
    fixture_finish(&f);
}

Test(index, sorts_nan_as_the_largest)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = tensor_of(&f, BP_F32, 1, SHAPE(6), F32(2, NAN, -0.0f, 0, INFINITY, 2));
    struct bp_tensor *y[2] = {NULL}, *index = NULL;
    struct bp_sort_attrs down = bp_sort_defaults();
    struct bp_topk_attrs top = bp_topk_defaults();
    struct bp_mode_attrs mode = bp_mode_defaults();

    OK(bp_op_sort(f.scope, x, NULL, &y[0], &y[1]));
    expect_bytes(&f, y[0], F32(-0.0f, 0, 2, 2, INFINITY, NAN), 24);
    expect_bytes(&f, y[1], I64(2, 3, 0, 5, 4, 1), 48);
    index_destroy(y, 2);
    down.descending = 1;
    OK(bp_op_sort(f.scope, x, &down, &y[0], &y[1]));
    expect_bytes(&f, y[1], I64(1, 4, 0, 5, 2, 3), 48);
    index_destroy(y, 2);
    OK(bp_op_argsort(f.scope, x, NULL, &index));
    expect_bytes(&f, index, I64(2, 3, 0, 5, 4, 1), 48);
    top.k = 2;
    OK(bp_op_topk(f.scope, x, NULL, &top, &y[0], &y[1]));
    expect_bytes(&f, y[1], I64(1, 4), 16);
    index_destroy(y, 2);
    OK(bp_op_mode(f.scope, x, &mode, &y[0], &y[1]));
    expect_bytes(&f, y[1], I64(3), 8); /* +0 and -0 are equal; the index is the last one */
    index_destroy(y, 2);
    index_destroy((struct bp_tensor *[]){x, index}, 2);
    fixture_finish(&f);
}

Test(index, unique_and_its_parts)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = tensor_of(&f, BP_I32, 2, SHAPE(2, 3), I32(7, -1, 7, 7, 3, -1)),
                     *y[4] = {NULL};

    OK(bp_op_unique(f.scope, x, &y[0], &y[1], &y[2], &y[3]));
    expect_bytes(&f, y[0], I32(-1, 3, 7), 12);
    expect_bytes(&f, y[1], I64(1, 4, 0), 24);
    expect_bytes(&f, y[2], I64(2, 0, 2, 2, 1, 0), 48);
    expect_bytes(&f, y[3], I64(2, 1, 3), 24);
    index_destroy(y, 4);
    OK(bp_op_unique_consecutive(f.scope, x, &y[0], &y[1], &y[2]));
    expect_bytes(&f, y[0], I32(7, -1, 7, 3, -1), 20);
    expect_bytes(&f, y[1], I64(0, 1, 2, 2, 3, 4), 48);
    expect_bytes(&f, y[2], I64(1, 1, 2, 1, 1), 40);
    index_destroy(y, 3);
    index_destroy(&x, 1);
    fixture_finish(&f);
}

Test(index, searches_and_counts)
{
    struct fixture f = fixture_init();
    struct bp_tensor *edges = tensor_of(&f, BP_F64, 1, SHAPE(4), F64(1, 3, 3, 5)), *y = NULL;
    struct bp_tensor *x = tensor_of(&f, BP_F64, 1, SHAPE(5), F64(3, 0, 5, 9, NAN));
    struct bp_searchsorted_attrs right = bp_searchsorted_defaults();
    struct bp_histogram_attrs bins = bp_histogram_defaults();

    OK(bp_op_searchsorted(f.scope, edges, x, NULL, &y));
    expect_bytes(&f, y, I64(1, 0, 3, 4, 4), 40);
    index_destroy(&y, 1);
    right.right = 1;
    right.dtype = BP_I32;
    OK(bp_op_searchsorted(f.scope, edges, x, &right, &y));
    expect_bytes(&f, y, I32(3, 0, 4, 4, 4), 20);
    index_destroy(&y, 1);
    bins.bins = 3; /* bins over 0 to 9: 0; 3 and 5; 9 in the last */
    OK(bp_op_histogram(f.scope, x, NULL, &bins, &y));
    expect_bytes(&f, y, I64(1, 2, 1), 24);
    index_destroy((struct bp_tensor *[]){edges, x, y}, 3);
    fixture_finish(&f);
}

/* Boxes 0 and 1 overlap by 8 of 12, and box 2 is separate; of the first two, the better one is
 * kept. */
Test(index, nms_keeps_the_best)
{
    struct fixture f = fixture_init();
    struct bp_tensor *boxes = tensor_of(&f, BP_F32, 2, SHAPE(3, 4),
                                        F32(0, 0, 5, 2, 1, 0, 6, 2, 9, 9, 10, 10));
    struct bp_tensor *scores = tensor_of(&f, BP_F32, 1, SHAPE(3), F32(0.5f, 0.75f, 0.25f)),
                     *y = NULL;
    struct bp_nms_attrs a = bp_nms_defaults();

    OK(bp_op_nms(f.scope, boxes, scores, NULL, &y));
    expect_bytes(&f, y, I64(1, 2), 16);
    index_destroy(&y, 1);
    OK(bp_op_nms(f.scope, boxes, NULL, NULL, &y));
    expect_bytes(&f, y, I64(0, 2), 16);
    index_destroy(&y, 1);
    a.iou_threshold = 0.7;
    OK(bp_op_nms(f.scope, boxes, scores, &a, &y));
    expect_bytes(&f, y, I64(1, 0, 2), 24);
    index_destroy((struct bp_tensor *[]){boxes, scores, y}, 3);
    fixture_finish(&f);
}

/* Two classes of the boxes above, with their corners in any order, or as centres and extents. */
Test(index, non_max_suppression_by_class)
{
    struct fixture f = fixture_init();
    struct bp_tensor *boxes = tensor_of(&f, BP_F32, 3, SHAPE(1, 3, 4),
                                        F32(5, 2, 0, 0, 1, 0, 6, 2, 9, 10, 10, 9));
    struct bp_tensor *centres = tensor_of(&f, BP_F32, 3, SHAPE(1, 3, 4),
                                          F32(2.5f, 1, 5, 2, 3.5f, 1, 5, 2, 9.5f, 9.5f, 1, 1));
    struct bp_tensor *scores = tensor_of(&f, BP_F32, 3, SHAPE(1, 2, 3),
                                         F32(0.5f, 0.75f, 0.25f, 0.5f, 0.125f, 0.75f));
    struct bp_tensor *two = tensor_of(&f, BP_I64, 0, NULL, I64(2)), *y = NULL;
    struct bp_non_max_suppression_attrs a = bp_non_max_suppression_defaults();

    OK(bp_op_non_max_suppression(f.scope, boxes, scores, NULL, NULL, NULL, NULL, &y));
    expect_bytes(&f, y, NULL, 0);
    index_destroy(&y, 1);
    a.iou_threshold = 0.5;
    OK(bp_op_non_max_suppression(f.scope, boxes, scores, two, NULL, NULL, &a, &y));
    expect_bytes(&f, y, I64(0, 0, 1, 0, 0, 2, 0, 1, 2, 0, 1, 0), 96);
    index_destroy(&y, 1);
    a.max_boxes = 3;
    a.iou_threshold = 0.7;
    a.score_threshold = 0.25;
    a.center_point_box = 1;
    OK(bp_op_non_max_suppression(f.scope, centres, scores, NULL, NULL, NULL, &a, &y));
    expect_bytes(&f, y, I64(0, 0, 1, 0, 0, 0, 0, 1, 2, 0, 1, 0), 96);
    a.max_boxes = -1;
    index_destroy(&y, 1);
    FAILS(BP_ERR_INVALID, "max_boxes",
          bp_op_non_max_suppression(f.scope, boxes, scores, NULL, NULL, NULL, &a, &y));
    FAILS(BP_ERR_INVALID, "B N 4",
          bp_op_non_max_suppression(f.scope, scores, boxes, two, NULL, NULL, NULL, &y));
    index_destroy((struct bp_tensor *[]){boxes, centres, scores, two}, 4);
    fixture_finish(&f);
}

/* A threshold as a tensor is one float, with no axis or one; other tensors are refused. */
Test(index, thresholds_as_tensors)
{
    struct fixture f = fixture_init();
    struct bp_tensor *boxes = tensor_of(&f, BP_F32, 3, SHAPE(1, 2, 4),
                                        F32(0, 0, 5, 2, 1, 0, 6, 2));
    struct bp_tensor *scores = tensor_of(&f, BP_F32, 3, SHAPE(1, 1, 2), F32(0.5f, 0.75f));
    struct bp_tensor *two = tensor_of(&f, BP_I32, 1, SHAPE(1), I32(2));
    struct bp_tensor *iou = tensor_of(&f, BP_F64, 0, NULL, F64(0.7)), *y = NULL;
    struct bp_tensor *least = tensor_of(&f, BP_F32, 1, SHAPE(1), F32(0.625f));

    OK(bp_op_non_max_suppression(f.scope, boxes, scores, two, iou, NULL, NULL, &y));
    expect_bytes(&f, y, I64(0, 0, 1, 0, 0, 0), 48);
    index_destroy(&y, 1);
    OK(bp_op_non_max_suppression(f.scope, boxes, scores, two, iou, least, NULL, &y));
    expect_bytes(&f, y, I64(0, 0, 1), 24);
    index_destroy(&y, 1);
    FAILS(BP_ERR_INVALID, "expected f32 or f64",
          bp_op_non_max_suppression(f.scope, boxes, scores, two, two, NULL, NULL, &y));
    FAILS(BP_ERR_INVALID, "expected i32 or i64",
          bp_op_non_max_suppression(f.scope, boxes, scores, iou, iou, NULL, NULL, &y));
    index_destroy((struct bp_tensor *[]){boxes, scores, two, iou, least}, 5);
    fixture_finish(&f);
}

/* Tests sequences of 2, 0 and 3 steps in one tensor, and invalid lengths. */
Test(index, reverse_sequence_by_lengths)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = tensor_of(&f, BP_F32, 2, SHAPE(3, 3), F32(1, 2, 3, 4, 5, 6, 7, 8, 9)),
                     *y = NULL;
    struct bp_tensor *lengths = tensor_of(&f, BP_I64, 1, SHAPE(3), I64(2, 0, 3));
    struct bp_reverse_sequence_attrs a = bp_reverse_sequence_defaults();

    OK(bp_op_reverse_sequence(f.scope, x, lengths, NULL, &y));
    expect_bytes(&f, y, F32(4, 2, 9, 1, 5, 6, 7, 8, 3), 36);
    index_destroy(&y, 1);
    a.batch_axis = 0;
    FAILS(BP_ERR_INVALID, "expected two", bp_op_reverse_sequence(f.scope, x, lengths, &a, &y));
    a.time_axis = 1;
    OK(bp_op_reverse_sequence(f.scope, x, lengths, &a, &y));
    expect_bytes(&f, y, F32(2, 1, 3, 4, 5, 6, 9, 8, 7), 36);
    index_destroy((struct bp_tensor *[]){y, lengths}, 2);
    for (int i = 0; i < 2; i++) {
        lengths = tensor_of(&f, BP_I32, 1, SHAPE(3), i ? I32(1, 4, 1) : I32(1, 1, -1));
        expect_fault(&f, "reverse_sequence", NULL, x, lengths, NULL);
        bp_tensor_destroy(lengths);
    }
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

/* Selects slices along the last axis by a condition: nonzero, and gather. */
Test(index, a_condition_selects_slices)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = tensor_of(&f, BP_F32, 2, SHAPE(2, 3), F32(1, 2, 3, 4, 5, 6));
    struct bp_tensor *condition = tensor_of(&f, BP_BOOL, 1, SHAPE(3), (char[]){1, 0, 1});
    struct bp_tensor *rows = NULL, *at = NULL, *y = NULL;
    struct bp_reshape_attrs line = {sizeof line, {I64(-1), 1}};
    struct bp_gather_attrs last = {sizeof last, -1};

    OK(bp_op_nonzero(f.scope, condition, &rows));
    OK(bp_op_reshape(f.scope, rows, NULL, &line, &at));
    OK(bp_op_gather(f.scope, x, at, &last, &y));
    expect_bytes(&f, y, F32(1, 3, 4, 6), 16);
    index_destroy((struct bp_tensor *[]){x, condition, rows, at, y}, 5);
    fixture_finish(&f);
}

/* Beam 0 of the last step came from beam 1, which came from beam 0, two steps back. */
Test(index, follows_beams_and_segments)
{
    struct fixture f = fixture_init();
    struct bp_tensor *ids = tensor_of(&f, BP_I64, 3, SHAPE(3, 1, 2), I64(2, 3, 4, 5, 6, 7)),
                     *y = NULL;
    struct bp_tensor *parents = tensor_of(&f, BP_I64, 3, SHAPE(3, 1, 2), I64(0, 0, 1, 0, 1, 0));
    struct bp_tensor *x = tensor_of(&f, BP_F32, 2, SHAPE(3, 2), F32(1, 2, 3, 6, 5, 4));
    struct bp_tensor *rows = tensor_of(&f, BP_I32, 1, SHAPE(3), I32(0, 2, 2));
    struct bp_segment_pool_attrs pool = bp_segment_pool_defaults();

    OK(bp_op_gather_tree(f.scope, ids, parents, &y));
    expect_bytes(&f, y, I64(2, 3, 5, 4, 6, 7), 48);
    index_destroy(&y, 1);
    pool.segments = 3;
    for (pool.mode = 0; pool.mode < 4; pool.mode++) {
        static const float expected[4][2] = {{8, 10}, {4, 5}, {5, 6}, {3, 4}};
        OK(bp_op_segment_pool(f.scope, x, rows, NULL, &pool, &y));
        expect_bytes(&f, y, F32(1, 2, 0, 0, expected[pool.mode][0], expected[pool.mode][1]), 24);
        index_destroy(&y, 1);
    }
    index_destroy((struct bp_tensor *[]){ids, parents, x, rows}, 4);
    fixture_finish(&f);
}

/* As x[5:1:-2] = [10, 20] and x[::-1] = value of Python; the gradients take the same elements. */
Test(index, set_value_goes_down)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = tensor_of(&f, BP_F32, 1, SHAPE(7), F32(0, 1, 2, 3, 4, 5, 6)),
                     *value = tensor_of(&f, BP_F32, 1, SHAPE(2), F32(10, 20)), *y = NULL,
                     *dx[2] = {NULL};
    struct bp_set_value_attrs a = bp_set_value_defaults();
    struct bp_arg in[2] = {{&x, 1}, {&value, 1}};
    struct bp_call call = {
        .size = sizeof call, .op = "set_value", .in = in, .n_in = 2, .attrs = &a};

    a.starts = (struct bp_dims){SHAPE(5), 1};
    a.ends = (struct bp_dims){SHAPE(1), 1};
    a.steps = (struct bp_dims){SHAPE(-2), 1};
    OK(bp_call_run(f.scope, &call, &y, 1, NULL));
    expect_bytes(&f, y, F32(0, 1, 2, 20, 4, 10, 6), 28);
    OK(bp_call_gradient(f.scope, &call, &y, &x, 1, (const uint8_t[]){1, 1}, dx, 2));
    expect_bytes(&f, dx[0], F32(0, 1, 2, 0, 4, 0, 6), 28);
    expect_bytes(&f, dx[1], F32(5, 3), 8);
    bp_tensor_destroy(y), bp_tensor_destroy(dx[0]), bp_tensor_destroy(dx[1]);
    y = NULL;
    a.starts = (struct bp_dims){SHAPE(-1), 1};
    a.ends = (struct bp_dims){SHAPE(INT64_MIN), 1};
    a.steps = (struct bp_dims){SHAPE(-1), 1};
    in[1].at = &x;
    OK(bp_call_run(f.scope, &call, &y, 1, NULL));
    expect_bytes(&f, y, F32(6, 5, 4, 3, 2, 1, 0), 28);
    a.steps = (struct bp_dims){SHAPE(0), 1};
    FAILS(BP_ERR_INVALID, "steps[0] is 0", bp_call_run(f.scope, &call, &y, 1, NULL));
    bp_tensor_destroy(x), bp_tensor_destroy(value), bp_tensor_destroy(y);
    fixture_finish(&f);
}
