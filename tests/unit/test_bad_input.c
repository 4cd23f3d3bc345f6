/* SPDX-License-Identifier: Apache-2.0 */
/* test_bad_input.c: tests each public call with each wrong argument: the right status, a message
 * with the expected value, and unchanged outputs. */
#include "fixture.h"

#include <backplane/op.h>

/* A handle of another kind, as long as any handle, with a different magic. */
static uint64_t stranger[64] = {0x1234567812345678};
#define AS(type) ((struct bp_##type *)(void *)stranger)

Test(bad_input, handles_null_and_strange)
{
    struct fixture f = fixture_init();
    struct bp_tensor *t = tensor_of(&f, BP_F32, 1, SHAPE(1), F32(1)), *out = NULL;
    struct bp_device_properties p = {.size = sizeof p};
    struct bp_memory_stats m = {.size = sizeof m};
    struct bp_tensor_info ti = {.size = sizeof ti};
    struct bp_plugin_info pi = {.size = sizeof pi};
    struct bp_stream *stream = NULL;
    struct bp_event *event = NULL;
    struct bp_device *device = NULL;
    uint32_t index;
    float x;

    for (int i = 0; i < 2; i++) {
        bool strange = i;
#define H(type) (strange ? AS(type) : NULL)
        FAILS(BP_ERR_INVALID, "core", bp_device_create(H(core), "cpu", &device));
        FAILS(BP_ERR_INVALID, "core", bp_device_create_at(H(core), 0, 0, &device));
        FAILS(BP_ERR_INVALID, "core", bp_core_plugin(H(core), 0, &pi));
        FAILS(BP_ERR_INVALID, "core", bp_core_load(H(core), 0));
        FAILS(BP_ERR_INVALID, "core", bp_core_load_path(H(core), "/x.so", &index));
        FAILS(BP_ERR_INVALID, "device", bp_device_get_properties(H(device), &p));
        FAILS(BP_ERR_INVALID, "device", bp_device_memory(H(device), &m));
        FAILS(BP_ERR_INVALID, "device", bp_device_synchronize(H(device)));
        FAILS(BP_ERR_INVALID, "device", bp_stream_create(H(device), &stream));
        FAILS(BP_ERR_INVALID, "device", bp_event_create(H(device), &event));
        FAILS(BP_ERR_INVALID, "device", bp_tensor_create(H(device), BP_F32, 0, NULL, &out));
        FAILS(BP_ERR_INVALID, "stream", bp_stream_synchronize(H(stream)));
        FAILS(BP_ERR_INVALID, "stream", bp_tensor_write(H(stream), t, F32(1), 4));
        FAILS(BP_ERR_INVALID, "stream", bp_tensor_read(H(stream), t, &x, 4));
        FAILS(BP_ERR_INVALID, "stream", bp_tensor_copy(H(stream), t, t));
        FAILS(BP_ERR_INVALID, "event", bp_event_record(H(event), f.stream));
        FAILS(BP_ERR_INVALID, "event", bp_event_query(H(event)));
        FAILS(BP_ERR_INVALID, "event", bp_event_wait(H(event), 0));
        FAILS(BP_ERR_INVALID, "event", bp_stream_wait(f.stream, H(event)));
        FAILS(BP_ERR_INVALID, "tensor", bp_tensor_get_info(H(tensor), &ti));
        FAILS(BP_ERR_INVALID, "tensor", bp_tensor_view(H(tensor), 0, 0, NULL, NULL, &out));
        FAILS(BP_ERR_INVALID, "tensor", bp_tensor_write(f.stream, H(tensor), F32(1), 4));
        FAILS(BP_ERR_INVALID, "tensor", bp_tensor_copy(f.stream, t, H(tensor)));
        FAILS(BP_ERR_INVALID, "scope", bp_op_add(H(scope), t, t, &out));
        FAILS(BP_ERR_INVALID, "input y", bp_op_add(f.scope, t, H(tensor), &out));
        FAILS(BP_ERR_INVALID, "prepared",
              bp_prepared_run(H(prepared), f.stream, NULL, 0, NULL, 0, NULL));
        bp_core_destroy(H(core));
        bp_device_destroy(H(device));
        bp_stream_destroy(H(stream));
        bp_event_destroy(H(event));
        bp_tensor_destroy(H(tensor));
        bp_prepared_destroy(H(prepared));
        cr_assert_str_eq(bp_device_name(H(device)), "");
        cr_assert_eq(bp_stream_last(H(stream)), 0);
        cr_assert_null(bp_stream_scope(H(stream)));
#undef H
    }
    cr_assert_null(out);
    cr_assert_null(device);
    cr_assert_null(stream);
    cr_assert_null(event);
    bp_tensor_destroy(t);
    fixture_finish(&f);
}

Test(bad_input, out_is_null)
{
    struct fixture f = fixture_init();
    struct bp_tensor *t = tensor_of(&f, BP_F32, 1, SHAPE(1), F32(1));

    FAILS(BP_ERR_INVALID, "out_core", bp_core_create(NULL, NULL));
    FAILS(BP_ERR_INVALID, "out_device", bp_device_create(f.core, "cpu", NULL));
    FAILS(BP_ERR_INVALID, "out_stream", bp_stream_create(f.device, NULL));
    FAILS(BP_ERR_INVALID, "out_event", bp_event_create(f.device, NULL));
    FAILS(BP_ERR_INVALID, "out_tensor", bp_tensor_create(f.device, BP_F32, 0, NULL, NULL));
    FAILS(BP_ERR_INVALID, "size field", bp_tensor_get_info(t, NULL));
    FAILS(BP_ERR_INVALID, "size field", bp_device_get_properties(f.device, NULL));
    FAILS(BP_ERR_INVALID, "output z", bp_op_add(f.scope, t, t, NULL));
    bp_tensor_destroy(t);
    fixture_finish(&f);
}

Test(bad_input, device_names)
{
    struct fixture f = fixture_init();
    struct bp_device *d = NULL;

    FAILS(BP_ERR_INVALID, "name", bp_device_create(f.core, NULL, &d));
    FAILS(BP_ERR_INVALID, "kind:index", bp_device_create(f.core, "", &d));
    FAILS(BP_ERR_INVALID, "kind:index", bp_device_create(f.core, "cpu:", &d));
    FAILS(BP_ERR_INVALID, "kind:index", bp_device_create(f.core, "cpu:-1", &d));
    FAILS(BP_ERR_INVALID, "kind:index", bp_device_create(f.core, "cpu:0x", &d));
    FAILS(BP_ERR_INVALID, "kind:index", bp_device_create(f.core, "cpu:99999999999999999999", &d));
    FAILS(BP_ERR_NOT_FOUND, "has 1", bp_device_create(f.core, "cpu:7", &d));
    FAILS(BP_ERR_NOT_FOUND, "no plugin serves it", bp_device_create(f.core, "warp", &d));
    FAILS(BP_ERR_INVALID, "no plugin 999", bp_device_create_at(f.core, 999, 0, &d));
    FAILS(BP_ERR_NOT_FOUND, "no such device", bp_device_create(f.core, "cpu:4000000000", &d));
    cr_assert_null(d);
    fixture_finish(&f);
}

Test(bad_input, options_without_size)
{
    struct bp_core_options options = {0};
    struct bp_allocator half = {NULL, NULL, NULL};
    struct bp_core *core = NULL;

    FAILS(BP_ERR_INVALID, "sizeof", bp_core_create(&options, &core));
    options.size = sizeof options;
    options.allocator = &half;
    FAILS(BP_ERR_INVALID, "allocate and release", bp_core_create(&options, &core));
    cr_assert_null(core);
}

Test(bad_input, shapes)
{
    struct fixture f = fixture_init();
    struct bp_tensor *t = NULL;
    int64_t big = INT64_C(1) << 40;

    FAILS(BP_ERR_INVALID, "shape", bp_tensor_create(f.device, BP_F32, 1, NULL, &t));
    FAILS(BP_ERR_INVALID, "rank is 9",
          bp_tensor_create(f.device, BP_F32, 9, SHAPE(1, 1, 1, 1, 1, 1, 1, 1, 1), &t));
    FAILS(BP_ERR_INVALID, "extent 1 is -3",
          bp_tensor_create(f.device, BP_F32, 2, SHAPE(2, -3), &t));
    FAILS(BP_ERR_INVALID, "63 bits", bp_tensor_create(f.device, BP_F32, 2, SHAPE(big, big), &t));
    FAILS(BP_ERR_INVALID, "63 bits", bp_tensor_create(f.device, BP_F32, 3, SHAPE(big, big, 0), &t));
    FAILS(BP_ERR_INVALID, "63 bits",
          bp_tensor_create(f.device, BP_F64, 1, SHAPE(INT64_MAX / 4), &t));
    FAILS(BP_ERR_INVALID, "99 is no dtype", bp_tensor_create(f.device, 99, 0, NULL, &t));
    FAILS(BP_ERR_MEMORY, "asked for",
          bp_tensor_create(f.device, BP_U8, 1, SHAPE(INT64_C(1) << 60), &t));
    cr_assert_null(t);
    fixture_finish(&f);
}

Test(bad_input, views)
{
    struct fixture f = fixture_init();
    struct bp_tensor *t = tensor_of(&f, BP_F32, 1, SHAPE(6), NULL), *v = NULL, *repeated;
    float x[4] = {0};

    FAILS(BP_ERR_INVALID, "stride", bp_tensor_view(t, 0, 1, SHAPE(2), NULL, &v));
    FAILS(BP_ERR_INVALID, "rank is 9",
          bp_tensor_view(t, 0, 9, x == NULL ? NULL : SHAPE(1), SHAPE(1), &v));
    FAILS(BP_ERR_INVALID, "stride 0 is -1", bp_tensor_view(t, 5, 1, SHAPE(2), SHAPE(-1), &v));
    FAILS(BP_ERR_INVALID, "offset is -1", bp_tensor_view(t, -1, 1, SHAPE(2), SHAPE(1), &v));
    FAILS(BP_ERR_INVALID, "ends after 6", bp_tensor_view(t, 5, 1, SHAPE(2), SHAPE(1), &v));
    FAILS(BP_ERR_INVALID, "ends after 6", bp_tensor_view(t, 0, 2, SHAPE(2, 2), SHAPE(5, 1), &v));
    FAILS(BP_ERR_INVALID, "63 bits", bp_tensor_view(t, 0, 2, SHAPE(3, 3), SHAPE(INT64_MAX, 1), &v));
    FAILS(BP_ERR_INVALID, "ends after 6", bp_tensor_view(t, INT64_MAX, 1, SHAPE(1), SHAPE(1), &v));
    OK(bp_tensor_view(t, 0, 1, SHAPE(4), SHAPE(0), &repeated));
    FAILS(BP_ERR_INVALID, "may overlap itself", bp_tensor_write(f.stream, repeated, x, sizeof x));
    cr_assert_null(v);
    bp_tensor_destroy(repeated);
    bp_tensor_destroy(t);
    fixture_finish(&f);
}

Test(bad_input, sizes_of_copies)
{
    struct fixture f = fixture_init();
    struct bp_tensor *t = tensor_of(&f, BP_F32, 1, SHAPE(2), NULL);
    float x[3] = {0};

    FAILS(BP_ERR_INVALID, "has 8 bytes", bp_tensor_write(f.stream, t, x, 12));
    FAILS(BP_ERR_INVALID, "has 8 bytes", bp_tensor_read(f.stream, t, x, 4));
    FAILS(BP_ERR_INVALID, "host is NULL", bp_tensor_read(f.stream, t, NULL, 8));
    bp_tensor_destroy(t);
    fixture_finish(&f);
}

/* Each line is a call with one mistake. */
Test(bad_input, operators)
{
    struct fixture f = fixture_init();
    struct bp_tensor *a = tensor_of(&f, BP_F32, 2, SHAPE(2, 3), NULL),
                     *b = tensor_of(&f, BP_F32, 1, SHAPE(4), NULL);
    struct bp_tensor *d = tensor_of(&f, BP_F64, 2, SHAPE(2, 3), NULL),
                     *flag = tensor_of(&f, BP_BOOL, 1, SHAPE(4), NULL);
    struct bp_tensor *scalar = tensor_of(&f, BP_F32, 0, NULL, NULL), *out = NULL;
    struct bp_cast_attrs cast = bp_cast_defaults();
    struct bp_sum_attrs sum = bp_sum_defaults();
    struct bp_softmax_attrs softmax = bp_softmax_defaults();
    struct bp_matmul_attrs matmul = bp_matmul_defaults();

    FAILS(BP_ERR_INVALID, "axis -1 does not broadcast (3 and 4)", bp_op_add(f.scope, a, b, &out));
    FAILS(BP_ERR_INVALID, "expected f32", bp_op_add(f.scope, a, d, &out));
    FAILS(BP_ERR_INVALID, "input x is bool", bp_op_add(f.scope, flag, flag, &out));
    FAILS(BP_ERR_INVALID, "not optional", bp_op_add(f.scope, NULL, a, &out));
    cast.to = 77;
    FAILS(BP_ERR_INVALID, "77, which is no dtype", bp_op_cast(f.scope, a, &cast, &out));
    cast.to = (INT64_C(1) << 32) + BP_F32;
    FAILS(BP_ERR_INVALID, "4294967307, which is no dtype", bp_op_cast(f.scope, a, &cast, &out));
    cast.to = BP_C64;
    FAILS(BP_ERR_INVALID, "c64", bp_op_cast(f.scope, a, &cast, &out));
    cast.to = BP_F8E8M0;
    cast.round = 3;
    FAILS(BP_ERR_INVALID, "round is 3, expected 0 to 2", bp_op_cast(f.scope, a, &cast, &out));
    cast.round = -1;
    FAILS(BP_ERR_INVALID, "round is -1, expected 0 to 2", bp_op_cast(f.scope, a, &cast, &out));
    sum.axes = (struct bp_dims){SHAPE(2), 1};
    FAILS(BP_ERR_INVALID, "axis is 2, expected -2 to 1", bp_op_sum(f.scope, a, &sum, &out));
    sum.axes = (struct bp_dims){SHAPE(1, -1), 2};
    FAILS(BP_ERR_INVALID, "axis 1 twice", bp_op_sum(f.scope, a, &sum, &out));
    sum.axes = (struct bp_dims){NULL, 2};
    FAILS(BP_ERR_INVALID, "axes has 2 entries", bp_op_sum(f.scope, a, &sum, &out));
    sum = bp_sum_defaults();
    sum.keep = 2;
    FAILS(BP_ERR_INVALID, "keep is 2", bp_op_sum(f.scope, a, &sum, &out));
    softmax.axis = -3;
    FAILS(BP_ERR_INVALID, "axis is -3", bp_op_softmax(f.scope, a, &softmax, &out));
    FAILS(BP_ERR_INVALID, "rank 0 has no axes", bp_op_softmax(f.scope, scalar, NULL, &out));
    FAILS(BP_ERR_INVALID, "3 columns", bp_op_matmul(f.scope, a, a, NULL, &out));
    FAILS(BP_ERR_INVALID, "at least one axis", bp_op_matmul(f.scope, a, scalar, NULL, &out));
    matmul.transpose_b = 1;
    FAILS(BP_ERR_INVALID, "cannot be transposed", bp_op_matmul(f.scope, a, b, &matmul, &out));
    cr_assert_null(out);
    bp_tensor_destroy(a);
    bp_tensor_destroy(b);
    bp_tensor_destroy(d);
    bp_tensor_destroy(flag);
    bp_tensor_destroy(scalar);
    fixture_finish(&f);
}

Test(bad_input, convolutions)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = tensor_of(&f, BP_F32, 4, SHAPE(1, 4, 5, 5), NULL),
                     *w = tensor_of(&f, BP_F32, 4, SHAPE(6, 4, 3, 3), NULL);
    struct bp_tensor *w2 = tensor_of(&f, BP_F32, 4, SHAPE(6, 2, 3, 3), NULL),
                     *flat = tensor_of(&f, BP_F32, 2, SHAPE(4, 5), NULL);
    struct bp_tensor *bias = tensor_of(&f, BP_F32, 1, SHAPE(5), NULL),
                     *big = tensor_of(&f, BP_F32, 4, SHAPE(6, 4, 7, 3), NULL);
    struct bp_tensor *out = NULL;
    struct bp_conv_attrs a = bp_conv_defaults();

    FAILS(BP_ERR_INVALID, "x has 2 axes", bp_op_conv(f.scope, flat, w, NULL, NULL, &out));
    FAILS(BP_ERR_INVALID, "w has 2 axes", bp_op_conv(f.scope, x, flat, NULL, NULL, &out));
    FAILS(BP_ERR_INVALID, "4 channels", bp_op_conv(f.scope, x, w2, NULL, NULL, &out));
    FAILS(BP_ERR_INVALID, "one axis of 6", bp_op_conv(f.scope, x, w, bias, NULL, &out));
    FAILS(BP_ERR_INVALID, "window spans 7", bp_op_conv(f.scope, x, big, NULL, NULL, &out));
    a.groups = 0;
    FAILS(BP_ERR_INVALID, "groups is 0", bp_op_conv(f.scope, x, w, NULL, &a, &out));
    a.groups = INT64_MAX;
    FAILS(BP_ERR_INVALID, "channels", bp_op_conv(f.scope, x, w, NULL, &a, &out));
    a = bp_conv_defaults();
    a.stride[1] = 0;
    FAILS(BP_ERR_INVALID, "stride[1] is 0", bp_op_conv(f.scope, x, w, NULL, &a, &out));
    a = bp_conv_defaults();
    a.dilation[0] = -1;
    FAILS(BP_ERR_INVALID, "dilation[0] -1", bp_op_conv(f.scope, x, w, NULL, &a, &out));
    a = bp_conv_defaults();
    a.dilation[0] = INT64_MAX;
    FAILS(BP_ERR_INVALID, "63 bits", bp_op_conv(f.scope, x, w, NULL, &a, &out));
    a = bp_conv_defaults();
    a.pad[0] = a.pad[1] = a.pad[2] = a.pad[3] = 1; /* pads of 2-D are at other indices */
    FAILS(BP_ERR_INVALID, "pad[2] is set, but x has 2 spatial axes",
          bp_op_conv(f.scope, x, w, NULL, &a, &out));
    a = bp_conv_defaults();
    a.pad[5] = 1;
    FAILS(BP_ERR_INVALID, "pad[5] is set", bp_op_conv(f.scope, x, w, NULL, &a, &out));
    a = bp_conv_defaults();
    a.stride[2] = 0;
    FAILS(BP_ERR_INVALID, "stride[2] is set", bp_op_conv(f.scope, x, w, NULL, &a, &out));
    a = bp_conv_defaults();
    a.dilation[2] = 2;
    FAILS(BP_ERR_INVALID, "dilation[2] is set", bp_op_conv(f.scope, x, w, NULL, &a, &out));
    a = bp_conv_defaults();
    a.pad[3] = -1;
    FAILS(BP_ERR_INVALID, "pad[3] -1", bp_op_conv(f.scope, x, w, NULL, &a, &out));
    a.pad[3] = INT64_MAX;
    FAILS(BP_ERR_INVALID, "63 bits", bp_op_conv(f.scope, x, w, NULL, &a, &out));
    cr_assert_null(out);
    bp_tensor_destroy(x);
    bp_tensor_destroy(w);
    bp_tensor_destroy(w2);
    bp_tensor_destroy(flat);
    bp_tensor_destroy(bias);
    bp_tensor_destroy(big);
    fixture_finish(&f);
}

Test(bad_input, calls_by_name)
{
    struct fixture f = fixture_init();
    struct bp_tensor *t = tensor_of(&f, BP_F32, 1, SHAPE(2), NULL),
                     *other = tensor_of(&f, BP_F32, 1, SHAPE(3), NULL);
    struct bp_tensor *out[3] = {NULL, NULL, NULL}, *pair[] = {t, t};
    struct bp_arg in[3] = {{&t, 1}, {&t, 1}, {&t, 1}}, twice[2] = {{pair, 2}, {&t, 1}},
                  nowhere[2] = {{NULL, 1}, {&t, 1}};
    struct bp_call call = {.size = sizeof call, .op = "add", .in = in, .n_in = 2};
    struct bp_call bad;

    FAILS(BP_ERR_INVALID, "call is NULL", bp_call_run(f.scope, NULL, out, 1, NULL));
    FAILS(BP_ERR_INVALID, "2 outputs asked for, 1 declared",
          bp_call_run(f.scope, &call, out, 2, NULL));
    FAILS(BP_ERR_INVALID, "output z is not optional", bp_call_run(f.scope, &call, out, 0, NULL));
    FAILS(BP_ERR_INVALID, "out is NULL", bp_call_run(f.scope, &call, NULL, 1, NULL));
    bad = call, bad.size = 0;
    FAILS(BP_ERR_INVALID, "sizeof", bp_call_run(f.scope, &bad, out, 1, NULL));
    bad = call, bad.op = NULL;
    FAILS(BP_ERR_INVALID, "op is NULL", bp_call_run(f.scope, &bad, out, 1, NULL));
    bad = call, bad.op = "addd";
    FAILS(BP_ERR_NOT_FOUND, "'addd'", bp_call_run(f.scope, &bad, out, 1, NULL));
    bad = call, bad.n_in = 3;
    FAILS(BP_ERR_INVALID, "3 inputs given, 2 declared", bp_call_run(f.scope, &bad, out, 1, NULL));
    bad = call, bad.in = NULL;
    FAILS(BP_ERR_INVALID, "in is NULL", bp_call_run(f.scope, &bad, out, 1, NULL));
    bad = call, bad.in = twice;
    FAILS(BP_ERR_INVALID, "takes one tensor, got 2", bp_call_run(f.scope, &bad, out, 1, NULL));
    bad = call, bad.in = nowhere;
    FAILS(BP_ERR_INVALID, "at NULL", bp_call_run(f.scope, &bad, out, 1, NULL));
    bad = call, bad.attrs = &call;
    FAILS(BP_ERR_INVALID, "takes no attributes", bp_call_run(f.scope, &bad, out, 1, NULL));
    bad = call, bad.kernel = "no_such_row";
    FAILS(BP_ERR_NOT_FOUND, "no_such_row", bp_call_run(f.scope, &bad, out, 1, NULL));
    out[0] = other;
    FAILS(BP_ERR_INVALID, "output z is f32 [3], expected f32 [2]",
          bp_call_run(f.scope, &call, out, 1, NULL));
    out[0] = (struct bp_tensor *)(void *)stranger;
    FAILS(BP_ERR_INVALID, "expected NULL or a tensor", bp_call_run(f.scope, &call, out, 1, NULL));
    bp_tensor_destroy(t);
    bp_tensor_destroy(other);
    fixture_finish(&f);
}

/* The attribute struct of an older app is shorter, that of a newer app longer. */
Test(bad_input, attributes_of_other_versions)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = tensor_of(&f, BP_F32, 2, SHAPE(2, 2), F32(1, 2, 3, 4)), *y = NULL;
    struct {
        struct bp_sum_attrs attrs;
        int64_t newer;
    } longer = {bp_sum_defaults(), 0};
    struct bp_sum_attrs shorter = bp_sum_defaults();

    longer.attrs.size = sizeof longer;
    OK(bp_op_sum(f.scope, x, &longer.attrs, &y));
    expect_bytes(&f, y, F32(10), 4);
    bp_tensor_destroy(y);
    y = NULL;
    longer.newer = 1;
    FAILS(BP_ERR_UNSUPPORTED, "byte 32 is newer", bp_op_sum(f.scope, x, &longer.attrs, &y));
    shorter.size = offsetof(struct bp_sum_attrs, keep);
    shorter.keep = 1; /* beyond its size: not read */
    OK(bp_op_sum(f.scope, x, &shorter, &y));
    expect_bytes(&f, y, F32(10), 4);
    shorter.size = 9;
    FAILS(BP_ERR_INVALID, "bp_sum_defaults", bp_op_sum(f.scope, x, &shorter, &y));
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    fixture_finish(&f);
}

Test(bad_input, products_with_an_epilogue)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = tensor_of(&f, BP_F32, 3, SHAPE(1, 2, 5), NULL),
                     *w = tensor_of(&f, BP_F32, 3, SHAPE(3, 2, 2), NULL);
    struct bp_tensor *a = tensor_of(&f, BP_F32, 2, SHAPE(2, 5), NULL),
                     *column = tensor_of(&f, BP_F32, 1, SHAPE(5), NULL),
                     *bias = tensor_of(&f, BP_F32, 1, SHAPE(2), NULL);
    struct bp_fused_conv_attrs conv = bp_fused_conv_defaults();
    struct bp_fused_matmul_attrs matmul = bp_fused_matmul_defaults();
    struct bp_tensor *y = NULL;

    FAILS(BP_ERR_INVALID, "fused_conv: x has 2 axes",
          bp_op_fused_conv(f.scope, a, w, NULL, NULL, NULL, &y));
    FAILS(BP_ERR_INVALID, "bias", bp_op_fused_conv(f.scope, x, w, bias, NULL, NULL, &y));
    FAILS(BP_ERR_INVALID, "residual", bp_op_fused_conv(f.scope, x, w, NULL, x, NULL, &y));
    conv.activation = BP_ACTIVATION_SOFTPLUS + 1;
    FAILS(BP_ERR_INVALID, "activation is 14",
          bp_op_fused_conv(f.scope, x, w, NULL, NULL, &conv, &y));
    FAILS(BP_ERR_INVALID, "fused_matmul: a is",
          bp_op_fused_matmul(f.scope, a, a, NULL, NULL, NULL, &y));
    FAILS(BP_ERR_INVALID, "bias for columns",
          bp_op_fused_matmul(f.scope, a, column, bias, NULL, NULL, &y));
    FAILS(BP_ERR_INVALID, "residual",
          bp_op_fused_matmul(f.scope, a, column, NULL, column, NULL, &y));
    matmul.activation = -1;
    FAILS(BP_ERR_INVALID, "activation is -1",
          bp_op_fused_matmul(f.scope, a, column, NULL, NULL, &matmul, &y));
    cr_assert_null(y);
    bp_tensor_destroy(x), bp_tensor_destroy(w), bp_tensor_destroy(a);
    bp_tensor_destroy(column), bp_tensor_destroy(bias);
    fixture_finish(&f);
}

Test(bad_input, outputs_that_overlap)
{
    struct fixture f = fixture_init();
    struct bp_tensor *t = tensor_of(&f, BP_F32, 1, SHAPE(4), F32(1, 2, 3, 4)), *head, *tail,
                     *repeated;
    struct bp_arg in[2] = {{&head, 1}, {&head, 1}};
    struct bp_call call = {.size = sizeof call, .op = "add", .in = in, .n_in = 2};

    OK(bp_tensor_view(t, 0, 1, SHAPE(3), SHAPE(1), &head));
    OK(bp_tensor_view(t, 1, 1, SHAPE(3), SHAPE(1), &tail));
    OK(bp_tensor_view(t, 3, 1, SHAPE(3), SHAPE(0), &repeated));
    FAILS(BP_ERR_INVALID, "output z overlaps input 0", bp_call_run(f.scope, &call, &tail, 1, NULL));
    FAILS(BP_ERR_INVALID, "may overlap itself", bp_call_run(f.scope, &call, &repeated, 1, NULL));
    bp_tensor_destroy(head);
    bp_tensor_destroy(tail);
    bp_tensor_destroy(repeated);
    bp_tensor_destroy(t);
    fixture_finish(&f);
}
