/* SPDX-License-Identifier: Apache-2.0 */
/* test_call.c: tests operator calls by type, by name, and prepared. The conformance suite tests the
 * results of kernels. */
#include "fixture.h"

Test(call, typed_calls_give_new_tensors)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = tensor_of(&f, BP_F32, 2, SHAPE(2, 2), F32(1, 2, 3, 4)),
                     *y = tensor_of(&f, BP_F32, 1, SHAPE(2), F32(10, 20));
    struct bp_tensor *z = NULL, *s = NULL, *c = NULL;
    struct bp_sum_attrs sum = bp_sum_defaults();
    struct bp_cast_attrs cast = bp_cast_defaults();

    OK(bp_op_add(f.scope, x, y, &z));
    expect_bytes(&f, z, F32(11, 22, 13, 24), 16);
    sum.axes = (struct bp_dims){SHAPE(0), 1};
    OK(bp_op_sum(f.scope, z, &sum, &s));
    expect_bytes(&f, s, F32(24, 46), 8);
    cast.to = BP_I64;
    OK(bp_op_cast(f.scope, s, &cast, &c));
    expect_bytes(&f, c, (const int64_t[]){24, 46}, 16);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    bp_tensor_destroy(z);
    bp_tensor_destroy(s);
    bp_tensor_destroy(c);
    fixture_finish(&f);
}

Test(call, by_name_or_alias_into_a_given_tensor)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = tensor_of(&f, BP_F32, 1, SHAPE(3), F32(1, 2, 3)),
                     *wide = tensor_of(&f, BP_F32, 2, SHAPE(3, 2), F32(0, 0, 0, 0, 0, 0));
    struct bp_tensor *column;
    struct bp_arg in[2] = {{&x, 1}, {&x, 1}};
    struct bp_call call = {.size = sizeof call, .op = "elementwise_add", .in = in, .n_in = 2};

    OK(bp_tensor_view(wide, 1, 1, SHAPE(3), SHAPE(2), &column));
    OK(bp_call_run(f.scope, &call, &column, 1, NULL));
    expect_bytes(&f, wide, F32(0, 2, 0, 4, 0, 6), 24);
    bp_tensor_destroy(column);
    bp_tensor_destroy(wide);
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

Test(call, in_place_where_the_row_allows_it)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = tensor_of(&f, BP_F32, 1, SHAPE(3), F32(1, 2, 3)),
                     *y = tensor_of(&f, BP_F32, 1, SHAPE(3), F32(1, 1, 1));
    struct bp_tensor *out = x;
    struct bp_arg in[2] = {{&x, 1}, {&y, 1}};
    struct bp_call call = {.size = sizeof call, .op = "add", .in = in, .n_in = 2};

    OK(bp_call_run(f.scope, &call, &out, 1, NULL));
    expect_bytes(&f, x, F32(2, 3, 4), 12);
    out = y; /* add may overwrite x, but not y */
    FAILS(BP_ERR_INVALID, "overlaps input 1", bp_call_run(f.scope, &call, &out, 1, NULL));
    expect_bytes(&f, y, F32(1, 1, 1), 12);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    fixture_finish(&f);
}

Test(call, every_row_can_be_requested)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = tensor_of(&f, BP_F32, 1, SHAPE(3), F32(1, 2, 3));
    struct bp_arg in[2] = {{&x, 1}, {&x, 1}};
    uint32_t ran = 0;

    for (uint32_t i = 0; i < bp_device_kernels(f.device); i++) {
        struct bp_kernel_info info = {.size = sizeof info};
        struct bp_call call = {.size = sizeof call, .op = "add", .in = in, .n_in = 2};
        struct bp_prepared *prepared;
        struct bp_tensor *z = NULL;
        OK(bp_device_kernel(f.device, i, &info));
        if (strcmp(info.op, "add") || *info.reason || !(info.types[0] & BP_M(F32))) continue;
        call.kernel = info.name;
        OK(bp_prepared_create(f.device, &call, NULL, 0, &prepared));
        cr_assert_str_eq(bp_prepared_kernel(prepared), info.name);
        bp_prepared_destroy(prepared);
        OK(bp_call_run(f.scope, &call, &z, 1, NULL));
        expect_bytes(&f, z, F32(2, 4, 6), 12);
        bp_tensor_destroy(z);
        ran++;
    }
    cr_assert_gt(ran, 0);
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

Test(call, prepared_runs_again_with_other_tensors)
{
    struct fixture f = fixture_init();
    struct bp_tensor *a = tensor_of(&f, BP_F32, 2, SHAPE(1, 2), F32(1, 2)),
                     *b = tensor_of(&f, BP_F32, 2, SHAPE(2, 1), F32(3, 4));
    struct bp_tensor *c = tensor_of(&f, BP_F32, 2, SHAPE(1, 1), NULL),
                     *a2 = tensor_of(&f, BP_F32, 2, SHAPE(1, 2), F32(10, 10));
    struct bp_arg in[2] = {{&a, 1}, {&b, 1}};
    struct bp_call call = {.size = sizeof call, .op = "matmul", .in = in, .n_in = 2};
    struct bp_tensor_info info = {.size = sizeof info};
    struct bp_matmul_attrs other = bp_matmul_defaults();
    struct bp_prepared *p;

    OK(bp_prepared_create(f.device, &call, NULL, 0, &p));
    OK(bp_prepared_output(p, 0, &info));
    cr_assert_eq(info.rank, 2);
    cr_assert_eq(info.bytes, 4);
    OK(bp_prepared_run(p, f.stream, (struct bp_tensor *[]){a, b}, 2, &c, 1, NULL));
    expect_bytes(&f, c, F32(11), 4);
    OK(bp_prepared_run(p, f.stream, (struct bp_tensor *[]){a2, b}, 2, &c, 1, NULL));
    expect_bytes(&f, c, F32(70), 4);
    FAILS(BP_ERR_INVALID, "input 1 is f32 [1, 2], prepared for f32 [2, 1]",
          bp_prepared_run(p, f.stream, (struct bp_tensor *[]){a, a2}, 2, &c, 1, NULL));
    FAILS(BP_ERR_INVALID, "1 inputs and 1 outputs given",
          bp_prepared_run(p, f.stream, &a, 1, &c, 1, NULL));
    FAILS(BP_ERR_INVALID, "output 0: expected a tensor",
          bp_prepared_run(p, f.stream, (struct bp_tensor *[]){a, b}, 2,
                          (struct bp_tensor *[]){NULL}, 1, NULL));
    OK(bp_prepared_run(p, f.stream, (struct bp_tensor *[]){a, b}, 2, &c, 1, &other));
    other.transpose_a = 1;
    FAILS(BP_ERR_INVALID, "transpose_a differs",
          bp_prepared_run(p, f.stream, (struct bp_tensor *[]){a, b}, 2, &c, 1, &other));
    FAILS(BP_ERR_INVALID, "no output 1", bp_prepared_output(p, 1, &info));
    bp_prepared_destroy(p);
    bp_tensor_destroy(a);
    bp_tensor_destroy(b);
    bp_tensor_destroy(c);
    bp_tensor_destroy(a2);
    fixture_finish(&f);
}

/* Names a kernel row with dtypes of another row. */
Test(call, unsupported_dtypes_list_each_row_and_reason)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = tensor_of(&f, BP_F64, 1, SHAPE(2), F64(1, 2)), *y = NULL;
    struct bp_arg in[1] = {{&x, 1}};
    struct bp_call call = {.size = sizeof call, .op = "sum", .in = in, .n_in = 1};
    struct bp_kernel_info info = {.size = sizeof info};

    for (uint32_t i = 0; !call.kernel; i++) {
        OK(bp_device_kernel(f.device, i, &info));
        if (!strcmp(info.op, "sum") && !*info.reason && !(info.types[0] & BP_M(F64)))
            call.kernel = info.name;
    }
    FAILS(BP_ERR_NO_KERNEL, "does not take the dtypes", bp_call_run(f.scope, &call, &y, 1, NULL));
    cr_assert(strstr(bp_error_message(), call.kernel), "'%s' names the row", bp_error_message());
    cr_assert_null(y);
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

Test(call, conv_takes_an_optional_bias)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = tensor_of(&f, BP_F32, 3, SHAPE(1, 1, 4), F32(1, 2, 3, 4)),
                     *w = tensor_of(&f, BP_F32, 3, SHAPE(1, 1, 2), F32(1, -1));
    struct bp_tensor *bias = tensor_of(&f, BP_F32, 1, SHAPE(1), F32(100)), *plain = NULL,
                     *biased = NULL;

    OK(bp_op_conv(f.scope, x, w, NULL, NULL, &plain));
    expect_bytes(&f, plain, F32(-1, -1, -1), 12);
    OK(bp_op_conv(f.scope, x, w, bias, NULL, &biased));
    expect_bytes(&f, biased, F32(99, 99, 99), 12);
    bp_tensor_destroy(x);
    bp_tensor_destroy(w);
    bp_tensor_destroy(bias);
    bp_tensor_destroy(plain);
    bp_tensor_destroy(biased);
    fixture_finish(&f);
}

/* Expects the strides of channels-last: axis 1 is the innermost. */
static void expect_channels_last(struct bp_tensor *t)
{
    struct bp_tensor_info info = {.size = sizeof info};

    OK(bp_tensor_get_info(t, &info));
    cr_assert_eq(info.rank, 4);
    cr_expect_eq(info.stride[1], 1);
    cr_expect_eq(info.stride[3], info.shape[1]);
    cr_expect_eq(info.stride[2], info.shape[1] * info.shape[3]);
    cr_expect_eq(info.stride[0], info.shape[1] * info.shape[3] * info.shape[2]);
}

/* Operators that keep the layout return channels-last results for a channels-last input, twice (the
 * second time from the stream's cache); a row-major operand beside it does not change that. */
Test(call, keeps_channels_last)
{
    struct fixture f = fixture_init();
    struct bp_tensor *base = tensor_of(
        &f, BP_F32, 1, SHAPE(24),
        F32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23));
    struct bp_tensor *w = tensor_of(&f, BP_F32, 4, SHAPE(2, 3, 1, 1), F32(1, 0, 0, 0, 0, 1));
    struct bp_tensor *x, *y = NULL, *z = NULL, *sum = NULL, *transposed;
    float got[16];

    OK(bp_tensor_view(base, 0, 4, SHAPE(2, 3, 2, 2), SHAPE(12, 1, 6, 3), &x));
    for (int i = 0; i < 2; i++) {
        OK(bp_op_conv(f.scope, x, w, NULL, NULL, &y));
        expect_channels_last(y);
        OK(bp_op_relu(f.scope, y, &z));
        expect_channels_last(z);
        OK(bp_tensor_read(f.stream, z, got, sizeof got));
        cr_expect_eq(got[0], 0); /* image 0, channel 0; then along a row */
        cr_expect_eq(got[1], 3);
        cr_expect_eq(got[4], 2);
        cr_expect_eq(got[8], 12);
        OK(bp_tensor_create(f.device, BP_F32, 4, SHAPE(2, 2, 2, 2), &transposed));
        OK(bp_op_add(f.scope, transposed, z, &sum));
        expect_channels_last(sum);
        bp_tensor_destroy(transposed);
        bp_tensor_destroy(sum), sum = NULL;
        bp_tensor_destroy(y), y = NULL;
        bp_tensor_destroy(z), z = NULL;
    }
    bp_tensor_destroy(x);
    bp_tensor_destroy(w);
    bp_tensor_destroy(base);
    fixture_finish(&f);
}

static struct bp_tensor *call_pooled(struct fixture *f, struct bp_tensor *x, bool max)
{
    struct bp_max_pool_attrs most = bp_max_pool_defaults();
    struct bp_avg_pool_attrs mean = bp_avg_pool_defaults();
    struct bp_tensor *y = NULL;

    most.window[0] = most.window[1] = mean.window[0] = mean.window[1] = 2;
    OK(max ? bp_op_max_pool(f->scope, x, &most, &y) : bp_op_avg_pool(f->scope, x, &mean, &y));
    return y;
}

/* The same through pools, a norm and a concat; the concat has the values in logical order. */
Test(call, keeps_channels_last_in_pools_norms_and_joins)
{
    struct fixture f = fixture_init();
    float number[2 * 3 * 3 * 3], got[2 * 6 * 2 * 2];
    struct bp_tensor *base, *x, *max, *mean, *normed = NULL, *joined = NULL, *one;
    struct bp_tensor *xs[2];
    struct bp_concat_attrs along = bp_concat_defaults();

    for (int i = 0; i < 54; i++) /* stored N H W C */
        number[i] = (float)(i / 27 * 27 + i % 3 * 9 + i % 27 / 3);
    base = tensor_of(&f, BP_F32, 1, SHAPE(54), number);
    one = tensor_of(&f, BP_F32, 1, SHAPE(3), F32(1, 1, 1));
    OK(bp_tensor_view(base, 0, 4, SHAPE(2, 3, 3, 3), SHAPE(27, 1, 9, 3), &x));
    along.axis = 1;
    for (int i = 0; i < 2; i++) {
        max = call_pooled(&f, x, true);
        mean = call_pooled(&f, x, false);
        OK(bp_op_batch_norm(f.scope, max, one, one, one, one, NULL, &normed));
        xs[0] = max, xs[1] = mean;
        OK(bp_op_concat(f.scope, xs, 2, &along, &joined));
        expect_channels_last(max);
        expect_channels_last(mean);
        expect_channels_last(normed);
        expect_channels_last(joined);
        OK(bp_tensor_read(f.stream, joined, got, sizeof got));
        for (int n = 0; n < 2; n++)
            for (int c = 0; c < 6; c++) /* windows begin at elements 0, 1, 3, 4 of a plane */
                for (int k = 0; k < 4; k++)
                    cr_expect_float_eq(got[(n * 6 + c) * 4 + k],
                                       27 * n + 9 * (c % 3) + k + k / 2 + (c < 3 ? 4 : 2), 1e-5);
        bp_tensor_destroy(max);
        bp_tensor_destroy(mean);
        bp_tensor_destroy(normed), normed = NULL;
        bp_tensor_destroy(joined), joined = NULL;
    }
    bp_tensor_destroy(x);
    bp_tensor_destroy(one);
    bp_tensor_destroy(base);
    fixture_finish(&f);
}

/* linear decomposes into matmul and add. */
Test(call, a_call_is_prepared_as_its_decomposition)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = tensor_of(&f, BP_F32, 2, SHAPE(1, 2), F32(1, 2)),
                     *w = tensor_of(&f, BP_F32, 2, SHAPE(1, 2), F32(3, 4)),
                     *y = tensor_of(&f, BP_F32, 2, SHAPE(1, 1), NULL);
    struct bp_arg in[2] = {{&x, 1}, {&w, 1}};
    struct bp_call call = {.size = sizeof call, .op = "linear", .in = in, .n_in = 2};
    struct bp_prepare_options o = {
        .size = sizeof o, .step_kernel = "cpu_matmul_f32", .flags = BP_PREPARE_DECOMPOSE};
    struct bp_prepared *p;

    OK(bp_prepared_create_with(f.device, &call, &o, &p));
    cr_assert_geq(bp_prepared_steps(p), 1);
    cr_assert_str_eq(bp_prepared_step(p, 0), "cpu_matmul_f32");
    cr_assert_str_eq(bp_prepared_step(p, bp_prepared_steps(p)), "");
    OK(bp_prepared_run(p, f.stream, (struct bp_tensor *[]){x, w, NULL}, 3, &y, 1, NULL));
    expect_bytes(&f, y, F32(11), 4);
    bp_prepared_destroy(p);
    o.step_kernel = "cpu_add_f32"; /* does not take the product: the best row does */
    OK(bp_prepared_create_with(f.device, &call, &o, &p));
    cr_assert(strstr(bp_prepared_step(p, 0), "matmul"));
    bp_prepared_destroy(p);
    call.kernel = "cpu_matmul_f32";
    FAILS(BP_ERR_INVALID, "with the kernel", bp_prepared_create_with(f.device, &call, &o, &p));
    call.kernel = NULL;
    call.op = "add";
    FAILS(BP_ERR_INVALID, "not defined in other operators",
          bp_prepared_create_with(f.device, &call, &o, &p));
    o.flags = 2;
    FAILS(BP_ERR_INVALID, "options->flags is 2", bp_prepared_create_with(f.device, &call, &o, &p));
    bp_tensor_destroy(x);
    bp_tensor_destroy(w);
    bp_tensor_destroy(y);
    fixture_finish(&f);
}

/* BP_PREPARE_DECOMPOSE runs an operator as its several parts, although the device has a kernel for
 * it. */
Test(call, a_decomposition_skips_kernels_of_its_operator)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = tensor_of(&f, BP_F32, 2, SHAPE(1, 2), F32(3, 4)), *y = NULL,
                     *z = tensor_of(&f, BP_F32, 2, SHAPE(1, 2), NULL);
    struct bp_arg in[1] = {{&x, 1}};
    struct bp_call call = {.size = sizeof call, .op = "rms_norm", .in = in, .n_in = 1};
    struct bp_prepare_options o = {.size = sizeof o, .n_want = 1};
    struct bp_prepared *p;
    float by_row[2], by_parts[2];

    OK(bp_prepared_create_with(f.device, &call, &o, &p));
    cr_assert_eq(bp_prepared_steps(p), 1);
    bp_prepared_destroy(p);
    o.flags = BP_PREPARE_DECOMPOSE;
    OK(bp_prepared_create_with(f.device, &call, &o, &p));
    cr_assert_gt(bp_prepared_steps(p), 1);
    OK(bp_call_run(f.scope, &call, &y, 1, NULL));
    OK(bp_prepared_run(p, f.stream, (struct bp_tensor *[]){x, NULL}, 2,
                       (struct bp_tensor *[]){z, NULL}, 2, NULL));
    OK(bp_tensor_read(f.stream, y, by_row, sizeof by_row));
    OK(bp_tensor_read(f.stream, z, by_parts, sizeof by_parts));
    for (int i = 0; i < 2; i++) cr_assert_float_eq(by_parts[i], by_row[i], 1e-6);
    cr_assert_float_eq(by_parts[0], 0.8485281, 1e-5);
    bp_prepared_destroy(p);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    bp_tensor_destroy(z);
    fixture_finish(&f);
}
