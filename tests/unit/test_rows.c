/* SPDX-License-Identifier: Apache-2.0 */
/* test_rows.c: tests kernel rows whose calls are more than a launch: they overwrite an input, have
 * extents that depend on data, draw random numbers, read attributes from tensors, or run other
 * operators. */
#include "fixture.h"

#include <math.h>

#include <stdlib.h>

static struct bp_tensor_info rows_info_of(struct bp_tensor *t)
{
    struct bp_tensor_info info = {.size = sizeof info};

    OK(bp_tensor_get_info(t, &info));
    return info;
}

/* Creates the fixture with a stream of another kind. */
static struct fixture fixture_with(uint32_t flags)
{
    struct fixture f = fixture_init();

    bp_stream_destroy(f.stream);
    OK(bp_stream_create_with(f.device, flags, &f.stream));
    f.scope = bp_stream_scope(f.stream);
    return f;
}
static const uint32_t modes[2] = {BP_STREAM_INLINE, BP_STREAM_ASYNC};

/* sgd updates the parameters in place. */

Test(rows, sgd_updates_its_parameters)
{
    for (int mode = 0; mode < 2; mode++) {
        struct fixture f = fixture_with(modes[mode]);
        struct bp_tensor *p = tensor_of(&f, BP_F32, 1, SHAPE(3), F32(1, 2, 3)),
                         *g = tensor_of(&f, BP_F32, 1, SHAPE(3), F32(4, 0, -8)),
                         *lr = tensor_of(&f, BP_F64, 0, NULL, F64(0.25)), *out = NULL;
        uint64_t version = rows_info_of(p).version;

        OK(bp_op_sgd(f.scope, p, g, lr, &out));
        cr_assert_eq(rows_info_of(out).buffer, rows_info_of(p).buffer);
        cr_assert_eq(rows_info_of(out).offset, rows_info_of(p).offset);
        cr_assert_gt(rows_info_of(p).version, version);
        expect_bytes(&f, p, F32(0, 2, 5), 12);
        bp_tensor_destroy(p);
        expect_bytes(&f, out, F32(0, 2, 5), 12);
        bp_tensor_destroy(out);
        bp_tensor_destroy(g);
        bp_tensor_destroy(lr);
        fixture_finish(&f);
    }
}

Test(rows, sgd_takes_the_parameters_as_output_and_nothing_else)
{
    struct fixture f = fixture_init();
    struct bp_tensor *p = tensor_of(&f, BP_F32, 1, SHAPE(2), F32(1, 2)),
                     *g = tensor_of(&f, BP_F32, 1, SHAPE(2), F32(1, 1)),
                     *lr = tensor_of(&f, BP_F32, 1, SHAPE(1), F32(1)), *out = p;
    struct bp_arg in[3] = {{&p, 1}, {&g, 1}, {&lr, 1}};
    struct bp_call call = {.size = sizeof call, .op = "sgd", .in = in, .n_in = 3};

    OK(bp_call_run(f.scope, &call, &out, 1, NULL));
    cr_assert_eq(out, p);
    expect_bytes(&f, p, F32(0, 1), 8);
    out = g;
    FAILS(BP_ERR_INVALID, "must be input param itself", bp_call_run(f.scope, &call, &out, 1, NULL));
    OK(bp_tensor_freeze(p));
    out = NULL;
    FAILS(BP_ERR_INVALID, "frozen", bp_call_run(f.scope, &call, &out, 1, NULL));
    cr_assert_null(out);
    expect_bytes(&f, p, F32(0, 1), 8);
    bp_tensor_destroy(p);
    bp_tensor_destroy(g);
    bp_tensor_destroy(lr);
    fixture_finish(&f);
}

Test(rows, sgd_of_wrong_types)
{
    struct fixture f = fixture_init();
    struct bp_tensor *p = tensor_of(&f, BP_F32, 1, SHAPE(2), F32(1, 2)),
                     *g = tensor_of(&f, BP_F64, 1, SHAPE(2), F64(1, 1)),
                     *lr = tensor_of(&f, BP_F32, 1, SHAPE(2), F32(1, 1)), *out = NULL;

    FAILS(BP_ERR_INVALID, "input grad is f64, expected f32", bp_op_sgd(f.scope, p, g, lr, &out));
    FAILS(BP_ERR_INVALID, "lr has 2 elements, expected 1", bp_op_sgd(f.scope, p, p, lr, &out));
    bp_tensor_destroy(p);
    bp_tensor_destroy(g);
    bp_tensor_destroy(lr);
    fixture_finish(&f);
}

/* nonzero: the extents are known when it has run. */

Test(rows, nonzero_waits_for_its_extents)
{
    for (int mode = 0; mode < 2; mode++) {
        struct fixture f = fixture_with(modes[mode]);
        struct bp_tensor *x = tensor_of(&f, BP_F32, 2, SHAPE(2, 3), F32(0, 5, -0.0f, 7, 0, -1)),
                         *none = tensor_of(&f, BP_F32, 1, SHAPE(2), F32(0, 0)), *index = NULL;

        for (int i = 0; i < 2; i++) { /* first prepared, then from the cache */
            OK(bp_op_nonzero(f.scope, x, &index));
            cr_assert(rows_info_of(index).shape[0] == 3 && rows_info_of(index).shape[1] == 2);
            expect_bytes(&f, index, SHAPE(0, 1, 1, 0, 1, 2), 48);
            bp_tensor_destroy(index), index = NULL;
        }
        OK(bp_op_nonzero(f.scope, none, &index));
        cr_assert_eq(rows_info_of(index).count, 0);
        bp_tensor_destroy(index), index = NULL;
        bp_tensor_destroy(x);
        bp_tensor_destroy(none);
        fixture_finish(&f);
    }
}

Test(rows, nonzero_is_refused_where_nothing_may_wait)
{
    struct fixture f;
    struct bp_tensor *x, *index = NULL;

    setenv("BP_BLOCK", "deny", 1);
    f = fixture_with(BP_STREAM_INLINE);
    x = tensor_of(&f, BP_F32, 1, SHAPE(2), NULL);
    OK(bp_op_nonzero(f.scope, x, &index)); /* an inline stream needs no wait */
    bp_tensor_destroy(index);
    bp_stream_destroy(f.stream);
    OK(bp_stream_create_with(f.device, BP_STREAM_ASYNC, &f.stream));
    index = NULL;
    FAILS(BP_ERR_BLOCKED, "BP_BLOCK=deny", bp_op_nonzero(bp_stream_scope(f.stream), x, &index));
    cr_assert_null(index);
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

/* uniform: the numbers depend on the seed alone. */

enum { N = 100003 };

static float *rows_draw(struct fixture *f, uint64_t seed, float *numbers)
{
    struct bp_uniform_attrs attrs = bp_uniform_defaults();
    struct bp_generator *generator;
    struct bp_tensor *y = NULL;

    attrs.shape = (struct bp_dims){SHAPE(N), 1};
    OK(bp_generator_create(seed, &generator));
    OK(bp_stream_set_generator(f->stream, generator));
    OK(bp_op_uniform(f->scope, NULL, &attrs, &y));
    OK(bp_tensor_read(f->stream, y, numbers, N * sizeof *numbers));
    bp_tensor_destroy(y);
    bp_generator_destroy(generator); /* the stream keeps the generator */
    return numbers;
}

Test(rows, uniform_is_the_same_at_any_width_and_on_any_stream)
{
    static float first[N], numbers[N];

    for (int i = 0; i < 4; i++) {
        struct fixture f;
        setenv("BP_THREADS", i & 1 ? "2" : "1", 1);
        f = fixture_with(modes[i / 2]);
        rows_draw(&f, 0, i ? numbers : first);
        cr_assert(!i || !memcmp(first, numbers, sizeof first), "run %d differs", i);
        rows_draw(&f, 1, numbers);
        cr_assert(memcmp(first, numbers, sizeof first), "another seed gives the same");
        fixture_finish(&f);
    }
    /* The first block of key 0 is 6627e8d5 e169c58d bc57ac4c 9b00dbd8. */
    cr_assert(first[0] == (float)0x6627e8 * 0x1p-24f && first[1] == (float)0xe169c5 * 0x1p-24f &&
              first[2] == (float)0xbc57ac * 0x1p-24f && first[3] == (float)0x9b00db * 0x1p-24f);
}

Test(rows, uniform_moves_the_generator)
{
    struct fixture f = fixture_init();
    struct bp_uniform_attrs attrs = bp_uniform_defaults();
    struct bp_generator *generator;
    struct bp_tensor *y[3] = {NULL};
    uint64_t seed, offset;

    attrs.shape = (struct bp_dims){SHAPE(5), 1};
    OK(bp_generator_create(11, &generator));
    OK(bp_stream_set_generator(f.stream, generator));
    for (int i = 0; i < 2; i++) OK(bp_op_uniform(f.scope, NULL, &attrs, &y[i]));
    OK(bp_generator_get(generator, &seed, &offset));
    cr_assert(seed == 11 && offset == 4, "two calls of 5 numbers take 2 blocks each");
    OK(bp_generator_set(generator, 11, 2));
    OK(bp_op_uniform(f.scope, NULL, &attrs, &y[2]));
    float a[3][5];
    for (int i = 0; i < 3; i++) {
        OK(bp_tensor_read(f.stream, y[i], a[i], sizeof a[i]));
        bp_tensor_destroy(y[i]);
    }
    cr_assert(memcmp(a[0], a[1], sizeof a[0]) && !memcmp(a[1], a[2], sizeof a[1]));
    bp_generator_destroy(generator);
    fixture_finish(&f);
}

Test(rows, uniform_of_a_core_follows_its_seed)
{
    float a[3][4];

    for (int i = 0; i < 3; i++) {
        struct bp_uniform_attrs attrs = bp_uniform_defaults();
        struct bp_tensor *y = NULL;
        struct fixture f;
        setenv("BP_SEED", i < 2 ? "77" : "78", 1);
        f = fixture_init();
        attrs.shape = (struct bp_dims){SHAPE(4), 1};
        OK(bp_op_uniform(f.scope, NULL, &attrs, &y));
        OK(bp_tensor_read(f.stream, y, a[i], sizeof a[i]));
        bp_tensor_destroy(y);
        fixture_finish(&f);
    }
    cr_assert(!memcmp(a[0], a[1], sizeof a[0]) && memcmp(a[0], a[2], sizeof a[0]));
}

Test(rows, uniform_of_wrong_attributes)
{
    struct fixture f = fixture_init();
    struct bp_uniform_attrs attrs = bp_uniform_defaults();
    struct bp_tensor *y = NULL;

    attrs.dtype = BP_I32;
    FAILS(BP_ERR_INVALID, "i32", bp_op_uniform(f.scope, NULL, &attrs, &y));
    attrs.dtype = BP_F32;
    attrs.shape = (struct bp_dims){SHAPE(-1), 1};
    FAILS(BP_ERR_INVALID, "-1", bp_op_uniform(f.scope, NULL, &attrs, &y));
    fixture_finish(&f);
}

/* Bounds are read and checked in each run, also if the call was prepared with valid ones. */
static const struct {
    double low, high;
    uint32_t dtype;
    bool good;
} bounds[] = {
    {0, 1, BP_F32, true},           {1.5, 1.5, BP_F32, true},
    {1.5, 1.5, BP_F64, true},       {0, 0, BP_F16, true},
    {-1e30, 1e30, BP_BF16, true},   {-1e300, 1e300, BP_F64, true},
    {1, 0, BP_F32, false},          {1, 0.9999999999, BP_F32, false},
    {0, NAN, BP_F32, false},        {NAN, 1, BP_F32, false},
    {NAN, NAN, BP_F64, false},      {0, INFINITY, BP_F32, false},
    {-INFINITY, 0, BP_F64, false},  {INFINITY, INFINITY, BP_F64, false},
    {-1e300, 1e300, BP_F32, false}, {-3e38, 3e38, BP_F32, false},
    {-3e38, 3e38, BP_F16, false},   {-1.5e308, 1.5e308, BP_F64, false},
};

static void try_bounds(struct fixture *f, size_t i)
{
    struct bp_uniform_attrs attrs = bp_uniform_defaults();
    struct bp_call call = {.size = sizeof call, .op = "uniform", .attrs = &attrs};
    struct bp_prepared *prepared;
    struct bp_tensor *y = NULL, *z = NULL, *none[1] = {NULL}; /* none: the shape is an attribute */
    double got[3];

    attrs.shape = (struct bp_dims){SHAPE(3), 1};
    attrs.dtype = bounds[i].dtype;
    OK(bp_op_uniform(f->scope, NULL, &attrs, &y));
    OK(bp_prepared_create(f->device, &call, NULL, 0, &prepared));
    attrs.low = bounds[i].low;
    attrs.high = bounds[i].high;
    if (bounds[i].good) {
        OK(bp_prepared_run(prepared, f->stream, none, 1, &y, 1, &attrs));
        OK(bp_op_uniform(f->scope, NULL, &attrs, &z));
        if (attrs.low == attrs.high && attrs.dtype == BP_F64) {
            OK(bp_tensor_read(f->stream, z, got, sizeof got));
            cr_assert(got[0] == attrs.low && got[1] == attrs.low && got[2] == attrs.low);
        }
    } else {
        FAILS(BP_ERR_INVALID, "attribute low", bp_op_uniform(f->scope, NULL, &attrs, &z));
        FAILS(BP_ERR_INVALID, "attribute low",
              bp_prepared_run(prepared, f->stream, none, 1, &y, 1, &attrs));
        cr_assert_null(z);
    }
    bp_prepared_destroy(prepared);
    bp_tensor_destroy(y);
    bp_tensor_destroy(z);
}

Test(rows, uniform_of_wrong_bounds)
{
    struct fixture f = fixture_init();

    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) try_bounds(&f, i);
    fixture_finish(&f);
}

/* Attributes given as tensors. */

static void expect_shape(struct fixture *f, struct bp_tensor *x, struct bp_tensor *shape,
                         uint32_t rank, const int64_t *expected)
{
    struct bp_tensor *y = NULL;

    OK(bp_op_reshape(f->scope, x, shape, NULL, &y));
    cr_assert_eq(rows_info_of(y).rank, rank);
    for (uint32_t i = 0; i < rank; i++) cr_assert_eq(rows_info_of(y).shape[i], expected[i]);
    cr_assert_eq(rows_info_of(y).buffer, rows_info_of(x).buffer);
    bp_tensor_destroy(y);
    bp_tensor_destroy(shape);
}

Test(rows, attributes_may_be_tensors)
{
    for (int mode = 0; mode < 2; mode++) {
        struct fixture f = fixture_with(modes[mode]);
        struct bp_tensor *x = tensor_of(&f, BP_F32, 2, SHAPE(2, 3), F32(1, 2, 3, 4, 5, 6)),
                         *y = NULL;
        struct bp_tensor *starts = tensor_of(&f, BP_I64, 1, SHAPE(1), SHAPE(-2)),
                         *ends = tensor_of(&f, BP_I32, 0, NULL, (const int32_t[]){3}),
                         *axes = tensor_of(&f, BP_I64, 1, SHAPE(1), SHAPE(1));
        struct bp_slice_attrs attrs = bp_slice_defaults();

        expect_shape(&f, x, tensor_of(&f, BP_I64, 1, SHAPE(2), SHAPE(3, -1)), 2, SHAPE(3, 2));
        expect_shape(&f, x, tensor_of(&f, BP_I32, 1, SHAPE(3), (const int32_t[]){1, -1, 3}), 3,
                     SHAPE(1, 2, 3));
        expect_shape(&f, x, tensor_of(&f, BP_I64, 0, NULL, SHAPE(6)), 1, SHAPE(6));
        OK(bp_op_slice(f.scope, x, starts, ends, axes, NULL, NULL, &y));
        cr_assert(rows_info_of(y).shape[0] == 2 && rows_info_of(y).shape[1] == 2);
        expect_bytes(&f, y, F32(2, 3, 5, 6), 16);
        bp_tensor_destroy(y), y = NULL;
        /* Attributes that are given as tensors count; the others are those of the struct. */
        attrs.axes = (struct bp_dims){SHAPE(0), 1};
        attrs.starts = attrs.ends = (struct bp_dims){SHAPE(1), 1};
        OK(bp_op_slice(f.scope, x, NULL, ends, NULL, NULL, &attrs, &y));
        expect_bytes(&f, y, F32(4, 5, 6), 12);
        bp_tensor_destroy(y), y = NULL;
        bp_tensor_destroy(starts);
        bp_tensor_destroy(ends);
        bp_tensor_destroy(axes);
        bp_tensor_destroy(x);
        fixture_finish(&f);
    }
}

Test(rows, attributes_as_tensors_refused)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = tensor_of(&f, BP_F32, 1, SHAPE(6), NULL), *y = NULL;
    struct bp_tensor *real = tensor_of(&f, BP_F32, 1, SHAPE(1), F32(6)),
                     *square = tensor_of(&f, BP_I64, 2, SHAPE(1, 1), SHAPE(6)),
                     *wrong = tensor_of(&f, BP_I64, 1, SHAPE(1), SHAPE(5)),
                     *right = tensor_of(&f, BP_I64, 1, SHAPE(2), SHAPE(2, 3));
    struct bp_arg in[2] = {{&x, 1}, {&right, 1}};
    struct bp_call call = {.size = sizeof call, .op = "reshape", .in = in, .n_in = 2};
    struct bp_prepared *prepared = NULL;

    FAILS(BP_ERR_INVALID, "expected i32 or i64", bp_op_reshape(f.scope, x, real, NULL, &y));
    FAILS(BP_ERR_INVALID, "rank 0 or 1", bp_op_reshape(f.scope, x, square, NULL, &y));
    FAILS(BP_ERR_INVALID, "reshape", bp_op_reshape(f.scope, x, wrong, NULL, &y));
    FAILS(BP_ERR_UNSUPPORTED, "as the attribute",
          bp_prepared_create(f.device, &call, NULL, 0, &prepared));
    cr_assert(!y && !prepared);
    bp_tensor_destroy(x);
    bp_tensor_destroy(real);
    bp_tensor_destroy(square);
    bp_tensor_destroy(wrong);
    bp_tensor_destroy(right);
    fixture_finish(&f);
}

/* The gradient reads the attribute tensors too. */
Test(rows, attributes_as_tensors_in_a_gradient)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = tensor_of(&f, BP_F32, 1, SHAPE(3), F32(1, 2, 3)),
                     *starts = tensor_of(&f, BP_I64, 1, SHAPE(1), SHAPE(1)),
                     *ends = tensor_of(&f, BP_I64, 1, SHAPE(1), SHAPE(2)),
                     *dy = tensor_of(&f, BP_F32, 1, SHAPE(1), F32(9)), *y = NULL, *dx[3] = {NULL};
    struct bp_arg in[3] = {{&x, 1}, {&starts, 1}, {&ends, 1}};
    struct bp_call call = {.size = sizeof call, .op = "slice", .in = in, .n_in = 3};

    OK(bp_call_run(f.scope, &call, &y, 1, NULL));
    OK(bp_call_gradient(f.scope, &call, &y, &dy, 1, (const uint8_t[]){1, 0, 0}, dx, 3));
    expect_bytes(&f, dx[0], F32(0, 9, 0), 12);
    bp_tensor_destroy(dx[0]);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    bp_tensor_destroy(dy);
    bp_tensor_destroy(starts);
    bp_tensor_destroy(ends);
    fixture_finish(&f);
}

/* Views. */

Test(rows, views_share_memory_and_copies_do_not)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = tensor_of(&f, BP_F32, 2, SHAPE(2, 3), F32(1, 2, 3, 4, 5, 6)), *t = NULL,
                     *flat = NULL, *dense = NULL,
                     *out = tensor_of(&f, BP_F32, 2, SHAPE(3, 2), NULL);
    struct bp_reshape_attrs reshape = bp_reshape_defaults();
    struct bp_arg in[1] = {{&x, 1}};
    struct bp_call call = {.size = sizeof call, .op = "transpose", .in = in, .n_in = 1};

    OK(bp_op_transpose(f.scope, x, NULL, &t));
    cr_assert_eq(rows_info_of(t).buffer, rows_info_of(x).buffer);
    expect_bytes(&f, t, F32(1, 4, 2, 5, 3, 6), 24);
    reshape.shape = (struct bp_dims){SHAPE(6), 1};
    OK(bp_op_reshape(f.scope, t, NULL, &reshape, &flat)); /* no strides allow a view: a copy */
    cr_assert_neq(rows_info_of(flat).buffer, rows_info_of(x).buffer);
    expect_bytes(&f, flat, F32(1, 4, 2, 5, 3, 6), 24);
    OK(bp_op_assign(f.scope, t, &dense));
    cr_assert(rows_info_of(dense).contiguous &&
              rows_info_of(dense).buffer != rows_info_of(x).buffer);
    expect_bytes(&f, dense, F32(1, 4, 2, 5, 3, 6), 24);
    OK(bp_call_run(f.scope, &call, &out, 1, NULL));
    expect_bytes(&f, out, F32(1, 4, 2, 5, 3, 6), 24);
    bp_tensor_destroy(x);
    expect_bytes(&f, t, F32(1, 4, 2, 5, 3, 6), 24);
    bp_tensor_destroy(t);
    bp_tensor_destroy(flat);
    bp_tensor_destroy(dense);
    bp_tensor_destroy(out);
    fixture_finish(&f);
}

/* An operator that runs as its decomposition. */

Test(rows, mse_loss_runs_as_its_parts)
{
    struct fixture f;
    struct bp_tensor *x, *y, *loss = NULL;
    struct bp_arg in[2];
    struct bp_call call = {.size = sizeof call, .op = "mse_loss", .in = in, .n_in = 2};
    struct bp_fallback_info info = {.size = sizeof info};
    struct bp_prepared *prepared;

    setenv("BP_FALLBACK", "deny", 1);
    f = fixture_init();
    x = tensor_of(&f, BP_F32, 2, SHAPE(2, 2), F32(1, 2, 3, 4));
    y = tensor_of(&f, BP_F32, 2, SHAPE(2, 2), F32(2, 2, 1, 8));
    in[0] = (struct bp_arg){&x, 1};
    in[1] = (struct bp_arg){&y, 1};
    OK(bp_op_mse_loss(f.scope, x, y, &loss));
    cr_assert_eq(rows_info_of(loss).rank, 0);
    expect_bytes(&f, loss, F32(5.25f), 4);
    OK(bp_prepared_create(f.device, &call, NULL, 0, &prepared));
    cr_assert_eq(bp_prepared_steps(prepared), 4);
    OK(bp_prepared_run(prepared, f.stream, (struct bp_tensor *[]){y, x}, 2, &loss, 1, NULL));
    expect_bytes(&f, loss, F32(5.25f), 4);
    cr_assert_eq(bp_device_fallbacks(f.device), 1);
    OK(bp_device_fallback(f.device, 0, &info));
    cr_assert(!strcmp(info.op, "mse_loss") && info.kind == BP_FALLBACK_DECOMPOSE);
    bp_prepared_destroy(prepared);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    bp_tensor_destroy(loss);
    fixture_finish(&f);
}

/* Sums of squares that exceed the range of f16. */
Test(rows, mse_loss_of_half_types_is_summed_in_f32)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x, *y, *loss = NULL;
    uint16_t x16[512], y16[512] = {0}, expected = 0x7400;

    for (int i = 0; i < 512; i++) x16[i] = 0x5800; /* 128, whose square is 16384 */
    x = tensor_of(&f, BP_F16, 1, SHAPE(512), x16);
    y = tensor_of(&f, BP_F16, 1, SHAPE(512), y16);
    OK(bp_op_mse_loss(f.scope, x, y, &loss));
    expect_bytes(&f, loss, &expected, 2);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    bp_tensor_destroy(loss);
    fixture_finish(&f);
}

/* A device without these rows: another device runs the calls. */

static struct fixture template_init(const char *policy)
{
    struct fixture f;
    uint32_t index;

    setenv("BP_FALLBACK", policy, 1);
    OK(bp_core_create(NULL, &f.core));
    OK(bp_core_load_path(f.core, TEMPLATE, &index));
    OK(bp_device_create_at(f.core, index, 0, &f.device));
    OK(bp_stream_create(f.device, &f.stream));
    f.scope = bp_stream_scope(f.stream);
    return f;
}

Test(rows, run_on_another_device)
{
    struct fixture f = template_init("allow");
    struct bp_tensor *x = tensor_of(&f, BP_F32, 1, SHAPE(4), F32(0, 1, 0, 2)), *index = NULL,
                     *out = NULL, *y = NULL;
    struct bp_tensor *lr = tensor_of(&f, BP_F32, 0, NULL, F32(0.5f)),
                     *g = tensor_of(&f, BP_F32, 1, SHAPE(4), F32(0, 1, 0, 4));
    struct bp_uniform_attrs attrs = bp_uniform_defaults();
    struct bp_generator *generator;
    uint64_t seed, offset;

    OK(bp_op_nonzero(f.scope, x, &index));
    cr_assert_eq(rows_info_of(index).shape[0], 2);
    expect_bytes(&f, index, SHAPE(1, 3), 16);
    OK(bp_op_sgd(f.scope, x, g, lr, &out));
    cr_assert_eq(rows_info_of(out).buffer, rows_info_of(x).buffer);
    expect_bytes(&f, x, F32(0, 0.5f, 0, 0), 16);
    attrs.shape = (struct bp_dims){SHAPE(3), 1};
    OK(bp_generator_create(0, &generator));
    OK(bp_stream_set_generator(f.stream, generator));
    OK(bp_op_uniform(f.scope, NULL, &attrs, &y));
    expect_bytes(&f, y, F32((float)0x6627e8 * 0x1p-24f, (float)0xe169c5 * 0x1p-24f,
                            (float)0xbc57ac * 0x1p-24f), 12);
    OK(bp_generator_get(generator, &seed, &offset));
    cr_assert_eq(offset, 1);
    bp_generator_destroy(generator);
    bp_tensor_destroy(index);
    bp_tensor_destroy(out);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    bp_tensor_destroy(lr);
    bp_tensor_destroy(g);
    fixture_finish(&f);
}

/* Without another device, the search for a fallback ends, also where each fallback begins with a
 * copy. Copies need no row. */
Test(rows, are_refused_where_parts_lack)
{
    struct fixture f = template_init("deny");
    struct bp_tensor *x = tensor_of(&f, BP_F32, 2, SHAPE(2, 3), F32(1, 2, 3, 4, 5, 6)), *t = NULL,
                     *y = NULL;
    struct bp_reshape_attrs attrs = bp_reshape_defaults();

    OK(bp_op_transpose(f.scope, x, NULL, &t));
    expect_bytes(&f, t, F32(1, 4, 2, 5, 3, 6), 24);
    FAILS(BP_ERR_NO_KERNEL, "no kernel", bp_op_mse_loss(f.scope, t, t, &y));
    FAILS(BP_ERR_NO_KERNEL, "no kernel", bp_op_exp(f.scope, t, &y));
    cr_assert_null(y);
    attrs.shape = (struct bp_dims){SHAPE(6), 1};
    OK(bp_op_reshape(f.scope, t, NULL, &attrs, &y));
    expect_bytes(&f, y, F32(1, 4, 2, 5, 3, 6), 24);
    bp_tensor_destroy(y), y = NULL;
    OK(bp_op_assign(f.scope, t, &y));
    expect_bytes(&f, y, F32(1, 4, 2, 5, 3, 6), 24);
    bp_tensor_destroy(y);
    bp_tensor_destroy(x);
    bp_tensor_destroy(t);
    fixture_finish(&f);
}
