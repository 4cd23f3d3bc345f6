/* SPDX-License-Identifier: Apache-2.0 */
/* test_shape.c: tests operators on shapes and creation: numpy's results for inputs 0, 1, 2, ...,
 * and the messages for extents or attributes that do not fit. */
#include "fixture.h"

#define DIMS(...) \
    { \
        SHAPE(__VA_ARGS__), sizeof SHAPE(__VA_ARGS__) / sizeof(int64_t) \
    }

/* Makes a call with an input 0, 1, 2, ... of a shape; NULL: without an input. */
static enum bp_status shape_call(struct fixture *f, const char *op, uint32_t rank,
                                 const int64_t *shape, const void *attrs, struct bp_tensor **out)
{
    float values[64];
    struct bp_tensor *x = NULL;
    struct bp_arg in = {&x, 1};
    struct bp_call c = {
        .size = sizeof c, .op = op, .in = &in, .n_in = shape != NULL, .attrs = attrs};
    enum bp_status status;

    for (int i = 0; i < 64; i++) values[i] = (float)i;
    if (shape) x = tensor_of(f, BP_F32, rank, shape, values);
    status = bp_call_run(f->scope, &c, out, 1, NULL);
    bp_tensor_destroy(x);
    return status;
}

static void shape_expect(struct fixture *f, const char *op, uint32_t rank, const int64_t *shape,
                         uint32_t want_rank, const int64_t *want_shape, const float *want,
                         const void *attrs)
{
    struct bp_tensor_info info = {.size = sizeof info};
    struct bp_tensor *y = NULL;
    size_t n = 1;

    OK(shape_call(f, op, rank, shape, attrs, &y));
    OK(bp_tensor_get_info(y, &info));
    cr_assert_eq(info.rank, want_rank, "%s: rank %u", op, info.rank);
    for (uint32_t i = 0; i < want_rank; i++) {
        cr_assert_eq(info.shape[i], want_shape[i], "%s: extent %u is %lld", op, i,
                     (long long)info.shape[i]);
        n *= (size_t)want_shape[i];
    }
    expect_bytes(f, y, want, n * sizeof *want);
    bp_tensor_destroy(y);
}

#define EXPECT(op, rank, shape, want_rank, want_shape, want, ...) \
    shape_expect(&f, #op, rank, shape, want_rank, want_shape, want, \
           &(struct bp_##op##_attrs){.size = sizeof(struct bp_##op##_attrs), __VA_ARGS__})

Test(shape, copies_are_as_numpy_has_them)
{
    struct fixture f = fixture_init();

    EXPECT(pad, 2, SHAPE(2, 3), 2, SHAPE(3, 5), F32(9, 9, 9, 9, 9, 0, 1, 2, 9, 9, 3, 4, 5, 9, 9),
           .before = DIMS(1, 0), .after = DIMS(0, 2), .mode = 0, .value = 9);
    EXPECT(pad, 2, SHAPE(2, 3), 2, SHAPE(3, 5), F32(3, 4, 5, 4, 3, 0, 1, 2, 1, 0, 3, 4, 5, 4, 3),
           .before = DIMS(1, 0), .after = DIMS(0, 2), .mode = BP_PAD_MODE_REFLECT, .value = 9);
    EXPECT(pad, 2, SHAPE(2, 3), 2, SHAPE(3, 5), F32(0, 1, 2, 2, 2, 0, 1, 2, 2, 2, 3, 4, 5, 5, 5),
           .before = DIMS(1, 0), .after = DIMS(0, 2), .mode = 2, .value = 9);
    EXPECT(pad, 2, SHAPE(2, 3), 2, SHAPE(3, 5), F32(3, 4, 5, 3, 4, 0, 1, 2, 0, 1, 3, 4, 5, 3, 4),
           .before = DIMS(1, 0), .after = DIMS(0, 2), .mode = 3, .value = 9);
    EXPECT(strided_slice, 2, SHAPE(3, 4), 2, SHAPE(3, 2), F32(10, 9, 6, 5, 2, 1),
           .starts = DIMS(-1, 2), .ends = DIMS(INT64_MIN, 0), .steps = DIMS(-1, -1));
    EXPECT(strided_slice, 2, SHAPE(2, 5), 2, SHAPE(2, 2), F32(3, 1, 8, 6), .starts = DIMS(-2),
           .ends = DIMS(-9), .axes = DIMS(1), .steps = DIMS(-2));
    EXPECT(tile, 2, SHAPE(2, 3), 2, SHAPE(4, 6),
           F32(0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5, 0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5),
           .repeats = DIMS(2, 2));
    EXPECT(flip, 2, SHAPE(2, 3), 2, SHAPE(2, 3), F32(2, 1, 0, 5, 4, 3), .axes = DIMS(1));
    EXPECT(roll, 2, SHAPE(2, 3), 2, SHAPE(2, 3), F32(4, 5, 3, 1, 2, 0), .shifts = DIMS(1, -1),
           .axes = DIMS(0, 1));
    EXPECT(roll, 2, SHAPE(2, 3), 2, SHAPE(2, 3), F32(4, 5, 0, 1, 2, 3), .shifts = DIMS(2));
    EXPECT(rot90, 2, SHAPE(2, 3), 2, SHAPE(3, 2), F32(2, 5, 1, 4, 0, 3), .k = 1, .axis0 = 0,
           .axis1 = 1);
    EXPECT(rot90, 2, SHAPE(2, 3), 2, SHAPE(3, 2), F32(3, 0, 4, 1, 5, 2), .k = -1, .axis0 = 0,
           .axis1 = 1);
    fixture_finish(&f);
}

Test(shape, triangles_axes_and_blocks_are_as_numpy_has_them)
{
    struct fixture f = fixture_init();

    EXPECT(tril, 2, SHAPE(3, 4), 2, SHAPE(3, 4), F32(0, 1, 0, 0, 4, 5, 6, 0, 8, 9, 10, 11),
           .diagonal = 1);
    EXPECT(triu, 2, SHAPE(3, 4), 2, SHAPE(3, 4), F32(0, 1, 2, 3, 4, 5, 6, 7, 0, 9, 10, 11),
           .diagonal = -1);
    EXPECT(diag, 1, SHAPE(3), 2, SHAPE(4, 4), F32(0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 2, 0),
           .offset = -1);
    EXPECT(diag, 2, SHAPE(3, 4), 1, SHAPE(3), F32(1, 6, 11), .offset = 1);
    EXPECT(diagonal, 3, SHAPE(2, 2, 3), 2, SHAPE(2, 2), F32(1, 8, 4, 11), .offset = 1, .axis1 = 0,
           .axis2 = 2);
    EXPECT(fill_diagonal, 2, SHAPE(7, 2), 2, SHAPE(7, 2),
           F32(9, 1, 2, 9, 4, 5, 9, 7, 8, 9, 10, 11, 9, 13), .value = 9, .wrap = 1);
    EXPECT(moveaxis, 3, SHAPE(2, 3, 1), 3, SHAPE(3, 1, 2), F32(0, 3, 1, 4, 2, 5), .source = DIMS(0),
           .destination = DIMS(-1));
    EXPECT(squeeze, 3, SHAPE(1, 2, 1), 2, SHAPE(2, 1), F32(0, 1), .axes = DIMS(0));
    EXPECT(unsqueeze, 1, SHAPE(2), 3, SHAPE(1, 2, 1), F32(0, 1), .axes = DIMS(0, -1));
    EXPECT(depth_to_space, 4, SHAPE(1, 8, 1, 2), 4, SHAPE(1, 2, 2, 4),
           F32(0, 4, 1, 5, 8, 12, 9, 13, 2, 6, 3, 7, 10, 14, 11, 15), .block = 2);
    EXPECT(depth_to_space, 4, SHAPE(1, 8, 1, 2), 4, SHAPE(1, 2, 2, 4),
           F32(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15), .block = 2, .crd = 1);
    fixture_finish(&f);
}

Test(shape, numbers_are_made_as_numpy_has_them)
{
    struct fixture f = fixture_init();
    struct bp_tril_indices_attrs low = {sizeof low, 3, 4, 1, BP_I32};
    struct bp_triu_indices_attrs high = {sizeof high, 3, 4, 1, BP_I32};
    static const int32_t lower[] = {0, 0, 1, 1, 1, 2, 2, 2, 2, 0, 1, 0, 1, 2, 0, 1, 2, 3};
    static const int32_t upper[] = {0, 0, 0, 1, 1, 2, 1, 2, 3, 2, 3, 3};
    struct bp_tensor *y = NULL;

    EXPECT(arange, 0, NULL, 1, SHAPE(4), F32(3, 2.25, 1.5, 0.75), .start = 3, .end = 0,
           .step = -0.75, .num = -1, .dtype = BP_F32);
    EXPECT(linspace, 0, NULL, 1, SHAPE(5), F32(-1, -0.25, 0.5, 1.25, 2), .start = -1, .stop = 2,
           .num = 5, .dtype = BP_F32);
    EXPECT(logspace, 0, NULL, 1, SHAPE(4), F32(1, 2, 4, 8), .start = 0, .stop = 3, .num = 4,
           .base = 2, .dtype = BP_F32);
    EXPECT(eye, 0, NULL, 2, SHAPE(2, 3), F32(0, 1, 0, 0, 0, 1), .rows = 2, .columns = 3,
           .diagonal = 1, .dtype = BP_F32);
    OK(shape_call(&f, "tril_indices", 0, NULL, &low, &y));
    expect_bytes(&f, y, lower, sizeof lower);
    bp_tensor_destroy(y);
    y = NULL;
    OK(shape_call(&f, "triu_indices", 0, NULL, &high, &y));
    expect_bytes(&f, y, upper, sizeof upper);
    bp_tensor_destroy(y);
    fixture_finish(&f);
}

#define REFUSED(op, word, rank, shape, ...) \
    do { \
        struct bp_tensor *y = NULL; \
        struct bp_##op##_attrs a = {.size = sizeof a, __VA_ARGS__}; \
        FAILS(BP_ERR_INVALID, word, shape_call(&f, #op, rank, shape, &a, &y)); \
    } while (0)

Test(shape, wrong_axes_are_named)
{
    struct fixture f = fixture_init();

    REFUSED(squeeze, "axis 0 twice", 2, SHAPE(1, 2), .axes = DIMS(0, -2));
    REFUSED(squeeze, "axis is 2, expected -2 to 1", 2, SHAPE(1, 2), .axes = DIMS(2));
    REFUSED(unsqueeze, "would have 9 axes", 8, SHAPE(1, 1, 1, 1, 1, 1, 1, 1), .axes = DIMS(0));
    REFUSED(flatten, "not behind the second", 2, SHAPE(1, 2), .start_axis = 1, .stop_axis = 0);
    REFUSED(crop, "do not lie in the extent 3", 1, SHAPE(3), .offsets = DIMS(2), .shape = DIMS(2));
    REFUSED(crop, "expected 2, one for each axis", 2, SHAPE(3, 3), .shape = DIMS(2));
    REFUSED(moveaxis, "expected as many", 2, SHAPE(3, 3), .source = DIMS(0));
    REFUSED(diagonal, "both axis 1", 2, SHAPE(3, 3), .axis1 = 1, .axis2 = -1);
    REFUSED(atleast, "expected 1 to 3", 1, SHAPE(3), .rank = 4);
    REFUSED(rot90, "both axis 0", 1, SHAPE(3), .axis1 = 0);
    REFUSED(tril, "expected two or more", 1, SHAPE(3), .diagonal = 0);
    REFUSED(diag, "expected 1 or 2", 3, SHAPE(1, 1, 1), .offset = 0);
    REFUSED(diag_embed, "the matrix has no size", 1, SHAPE(3), .axis1 = 0, .axis2 = 1,
            .offset = INT64_MIN);
    REFUSED(fill_diagonal, "more of one extent", 3, SHAPE(2, 2, 3), .value = 1);
    fixture_finish(&f);
}

Test(shape, wrong_extents_are_named)
{
    struct fixture f = fixture_init();

    REFUSED(strided_slice, "steps[0] is 0", 1, SHAPE(3), .starts = DIMS(0), .ends = DIMS(1),
            .steps = DIMS(0));
    REFUSED(strided_slice, "axis 0 twice", 1, SHAPE(3), .starts = DIMS(0, 0), .ends = DIMS(1, 1),
            .axes = DIMS(0, -1));
    REFUSED(tile, "repeats[0] is -1", 1, SHAPE(3), .repeats = DIMS(-1));
    REFUSED(pad, "attribute mode is 4", 1, SHAPE(3), .mode = 4);
    REFUSED(pad, "before[0] is 3, expected at most 2", 1, SHAPE(3),
            .before = DIMS(3), .mode = BP_PAD_MODE_REFLECT);
    REFUSED(pad, "after[0] is 4, expected at most 3", 1, SHAPE(3), .after = DIMS(4), .mode = 3);
    REFUSED(pad, "after[0] is 1, expected at most 0", 1, SHAPE(0), .after = DIMS(1), .mode = 2);
    REFUSED(pad, "add up to -1", 1, SHAPE(3), .after = DIMS(-4), .mode = 0);
    REFUSED(pad, "no less than -2^62", 1, SHAPE(3), .before = DIMS(INT64_MIN),
            .after = DIMS(INT64_MAX));
    REFUSED(roll, "shifts has 2 entries", 1, SHAPE(3), .shifts = DIMS(1, 2));
    REFUSED(depth_to_space, "do not divide the 6 channels", 4, SHAPE(1, 6, 1, 1), .block = 2);
    REFUSED(space_to_depth, "do not divide the 3 columns", 4, SHAPE(1, 1, 2, 3), .block = 2);
    REFUSED(channel_shuffle, "a divisor of the 6", 4, SHAPE(1, 6, 1, 1), .groups = 4);
    REFUSED(temporal_shift, "ratio is 0.75", 4, SHAPE(2, 4, 1, 1), .segments = 2, .ratio = 0.75);
    REFUSED(unfold, "does not fit into the extent 2", 4, SHAPE(1, 1, 2, 2), .kernel = {3, 1},
            .stride = {1, 1}, .dilation = {1, 1});
    REFUSED(unfold, "stride 0", 4, SHAPE(1, 1, 2, 2), .kernel = {1, 1}, .stride = {1, 0},
            .dilation = {1, 1});
    REFUSED(fold, "a multiple of 4, and 1 windows", 3, SHAPE(1, 4, 2), .image = {2, 2},
            .kernel = {2, 2}, .stride = {1, 1}, .dilation = {1, 1});
    REFUSED(arange, "without num a step that is not 0", 0, NULL, .end = 1, .num = -1,
            .dtype = BP_F32);
    REFUSED(arange, "expected integers", 0, NULL, .end = 1, .step = 0.5, .num = -1,
            .dtype = BP_I32);
    REFUSED(arange, "too many", 0, NULL, .end = 1e300, .step = 1, .num = -1, .dtype = BP_F32);
    REFUSED(linspace, "num is -1", 0, NULL, .num = -1, .dtype = BP_F32);
    REFUSED(logspace, "base is -1", 0, NULL, .num = 1, .base = -1, .dtype = BP_F32);
    REFUSED(linspace, "is i32, which linspace does not make", 0, NULL, .dtype = BP_I32);
    fixture_finish(&f);
}
