/* SPDX-License-Identifier: Apache-2.0 */
/* test_dispatch.c: tests which calls are found in the call cache, and which fallback runs if the
 * device has no kernel. The device with few kernels is the fake one, partial. */
#include "../devices/fake.h"
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>

static struct bp_call_stats calls_of(struct fixture *f)
{
    struct bp_call_stats s = {.size = sizeof s};

    OK(bp_stream_calls(f->stream, &s));
    return s;
}

static struct fixture open_partial_with(const char *policy, uint32_t fallback)
{
    const struct bp_core_options options = {.size = sizeof options, .fallback = fallback};
    struct fixture f;
    uint32_t index;

    setenv("BP_FALLBACK", policy, 1);
    setenv("BP_LOG", "error", 1);
    OK(bp_core_create(&options, &f.core));
    OK(bp_core_load_path(f.core, HOSTILE_DIR "/bp_partial.so", &index));
    OK(bp_device_create_at(f.core, index, 0, &f.device));
    OK(bp_stream_create(f.device, &f.stream));
    f.scope = bp_stream_scope(f.stream);
    return f;
}

static struct fixture open_partial(const char *policy)
{
    return open_partial_with(policy, BP_CORE_FALLBACK_SET);
}

static struct fake *dispatch_counters(void)
{
    struct fake *fake = fake_of(HOSTILE_DIR "/bp_partial.so");

    cr_assert_not_null(fake);
    return fake;
}

/* Counts the fallback steps of a kind that ran for an operator. */
static uint64_t dispatch_fallbacks(struct fixture *f, const char *op, uint32_t kind,
                                   uint64_t *bytes)
{
    struct bp_fallback_info info = {.size = sizeof info};

    for (uint32_t i = 0; i < bp_device_fallbacks(f->device); i++) {
        OK(bp_device_fallback(f->device, i, &info));
        if (strcmp(info.op, op) || info.kind != kind) continue;
        if (bytes) *bytes = info.bytes;
        return info.calls;
    }
    return 0;
}

/* Expects where the fallback steps of an operator ran, and a word of the reason. */
static void dispatch_explained(struct fixture *f, const char *op, uint32_t kind, const char *where,
                               const char *word)
{
    struct bp_fallback_info info = {.size = sizeof info};

    for (uint32_t i = 0; i < bp_device_fallbacks(f->device); i++) {
        OK(bp_device_fallback(f->device, i, &info));
        if (strcmp(info.op, op) || info.kind != kind) continue;
        cr_expect_str_eq(info.where, where);
        cr_expect(strstr(info.why, word), "'%s' is not in: %s", word, info.why);
        return;
    }
    cr_expect(false, "%s did not run by this fallback", op);
}

Test(dispatch, a_call_is_prepared_once_for_a_signature)
{
    struct fixture f = fixture_init();
    struct bp_tensor *a = tensor_of(&f, BP_F32, 1, SHAPE(3), F32(1, 2, 3));
    struct bp_tensor *b = tensor_of(&f, BP_F32, 1, SHAPE(3), F32(4, 5, 6)), *z = NULL;

    for (int i = 0; i < 5; i++) {
        OK(bp_op_add(f.scope, a, b, &z));
        expect_bytes(&f, z, F32(5, 7, 9), 12);
        bp_tensor_destroy(z), z = NULL;
    }
    cr_assert_eq(calls_of(&f).prepared, 1);
    cr_assert_eq(calls_of(&f).hits, 4);
    bp_tensor_destroy(a);
    bp_tensor_destroy(b);
    fixture_finish(&f);
}

/* The calls that a watcher has received. */
struct watch {
    struct fixture *f;
    char seen[400];
};

static void dispatch_note(void *ctx, const struct bp_watched *call)
{
    struct watch *w = ctx;
    size_t used = strlen(w->seen);
    struct bp_tensor *z = NULL;

    snprintf(w->seen + used, sizeof w->seen - used, "%s%s%u/%u ", call->op->name,
             call->out ? "." : "?", call->n_in, call->n_out);
    OK(bp_op_neg(w->f->scope, call->in[0], &z)); /* the watcher's own calls are not reported */
    bp_tensor_destroy(z);
    if (strcmp(call->op->name, "sum") || !call->out) return;
    cr_assert_eq(((const struct bp_sum_attrs *)call->attrs)->keep, 1);
    expect_bytes(w->f, call->out[0], F32(6), 4);
}

Test(dispatch, a_watcher_sees_each_call_before_and_after_it_runs)
{
    struct fixture f = fixture_init();
    struct watch w = {&f, ""};
    struct bp_tensor *a = tensor_of(&f, BP_F32, 1, SHAPE(3), F32(1, 2, 3)), *b = NULL, *z = NULL;
    struct bp_expand_attrs wide = {.size = sizeof wide, .shape = {SHAPE(3), 1}};
    struct bp_sum_attrs sum = bp_sum_defaults();

    sum.keep = 1;
    for (int i = 0; i < 2; i++) { /* the second call uses the cache and the fast path */
        OK(bp_op_add(f.scope, a, a, &z));
        bp_tensor_destroy(z), z = NULL;
    }
    OK(bp_stream_watch(f.stream, dispatch_note, &w));
    OK(bp_op_add(f.scope, a, a, &z));
    bp_tensor_destroy(z), z = NULL;
    OK(bp_op_sum(f.scope, a, &sum, &z));
    OK(bp_op_expand(f.scope, z, NULL, &wide, &b));
    cr_assert_eq(bp_op_add(f.scope, a, NULL, &z), BP_ERR_INVALID);
    OK(bp_stream_watch(f.stream, NULL, NULL));
    bp_tensor_destroy(z), z = NULL;
    OK(bp_op_add(f.scope, a, a, &z));
    cr_assert_str_eq(w.seen, "add?2/1 add.2/1 sum?1/1 sum.1/1 expand?2/1 expand.2/1 ");
    bp_tensor_destroy(z);
    bp_tensor_destroy(b);
    bp_tensor_destroy(a);
    fixture_finish(&f);
}

/* Each line makes one change that gives the call a different signature. */
Test(dispatch, whatever_a_plan_may_depend_on_is_in_the_signature)
{
    struct fixture f = fixture_init();
    float zeros[64] = {0};
    struct bp_tensor *x = tensor_of(&f, BP_F32, 2, SHAPE(2, 3), zeros), *y, *z = NULL;
    struct bp_softmax_attrs soft = bp_softmax_defaults();
    struct bp_sum_attrs sum = bp_sum_defaults();
    uint64_t n = 0;

#define NEW(call) \
    do { \
        z = NULL; \
        OK(call); \
        bp_tensor_destroy(z); \
        cr_assert_eq(calls_of(&f).prepared, ++n, #call " was taken for another"); \
        z = NULL; \
        OK(call); \
        bp_tensor_destroy(z); \
        cr_assert_eq(calls_of(&f).prepared, n, #call " was not found again"); \
    } while (0)
    NEW(bp_op_add(f.scope, x, x, &z));
    NEW(bp_op_mul(f.scope, x, x, &z));
    y = tensor_of(&f, BP_F32, 2, SHAPE(3, 2), zeros);
    NEW(bp_op_add(f.scope, y, y, &z));
    bp_tensor_destroy(y);
    y = tensor_of(&f, BP_F32, 1, SHAPE(6), zeros);
    NEW(bp_op_add(f.scope, y, y, &z));
    bp_tensor_destroy(y);
    y = tensor_of(&f, BP_F64, 2, SHAPE(2, 3), zeros);
    NEW(bp_op_add(f.scope, y, y, &z));
    bp_tensor_destroy(y);
    y = tensor_of(&f, BP_F32, 2, SHAPE(1, 3), zeros);
    NEW(bp_op_add(f.scope, x, y, &z));
    NEW(bp_op_add(f.scope, y, x, &z));
    bp_tensor_destroy(y);
    OK(bp_tensor_view(x, 0, 2, SHAPE(2, 3), SHAPE(0, 1), &y));
    NEW(bp_op_add(f.scope, y, y, &z));
    bp_tensor_destroy(y);
    NEW(bp_op_softmax(f.scope, x, &soft, &z));
    soft.axis = 0;
    NEW(bp_op_softmax(f.scope, x, &soft, &z));
    NEW(bp_op_sum(f.scope, x, &sum, &z));
    sum.axes = (struct bp_dims){SHAPE(0), 1};
    NEW(bp_op_sum(f.scope, x, &sum, &z));
    sum.axes = (struct bp_dims){SHAPE(1), 1};
    NEW(bp_op_sum(f.scope, x, &sum, &z));
    sum.axes = (struct bp_dims){SHAPE(0, 1), 2};
    NEW(bp_op_sum(f.scope, x, &sum, &z));
    sum.keep = 1;
    NEW(bp_op_sum(f.scope, x, &sum, &z));
#undef NEW
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

Test(dispatch, a_run_attribute_is_not_in_the_signature)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = tensor_of(&f, BP_F32, 1, SHAPE(2), F32(1, 2)), *y = NULL;
    struct bp_scale_attrs a = bp_scale_defaults();

    for (int i = 1; i <= 3; i++) {
        a.factor = i;
        a.bias = -i;
        OK(bp_op_scale(f.scope, x, &a, &y));
        expect_bytes(&f, y, F32(0, (float)i), 8);
        bp_tensor_destroy(y), y = NULL;
    }
    cr_assert_eq(calls_of(&f).prepared, 1);
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

Test(dispatch, outputs_that_are_given_and_those_in_place_are_calls_of_their_own)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = tensor_of(&f, BP_F32, 1, SHAPE(2), F32(1, 2));
    struct bp_tensor *y = tensor_of(&f, BP_F32, 1, SHAPE(2), F32(0, 0)), *z = NULL, *out;
    struct bp_tensor *w = tensor_of(&f, BP_F32, 1, SHAPE(2), F32(10, 20));
    struct bp_arg in[2] = {{&x, 1}, {&w, 1}};
    struct bp_call call = {.size = sizeof call, .op = "add", .in = in, .n_in = 2};

    OK(bp_call_run(f.scope, &call, &z, 1, NULL));
    out = y;
    OK(bp_call_run(f.scope, &call, &out, 1, NULL));
    expect_bytes(&f, y, F32(11, 22), 8);
    out = x;
    OK(bp_call_run(f.scope, &call, &out, 1, NULL));
    expect_bytes(&f, x, F32(11, 22), 8);
    OK(bp_call_run(f.scope, &call, &out, 1, NULL));
    expect_bytes(&f, x, F32(21, 42), 8);
    cr_assert_eq(calls_of(&f).prepared, 3);
    out = w;
    FAILS(BP_ERR_INVALID, "overlaps input 1", bp_call_run(f.scope, &call, &out, 1, NULL));
    bp_tensor_destroy(w);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    bp_tensor_destroy(z);
    fixture_finish(&f);
}

Test(dispatch, streams_of_a_device_share_prepared_calls)
{
    struct fixture f = fixture_init(), g = f;
    struct bp_tensor *x = tensor_of(&f, BP_F32, 1, SHAPE(2), F32(1, 2)), *z = NULL;

    OK(bp_stream_create(f.device, &g.stream));
    g.scope = bp_stream_scope(g.stream);
    OK(bp_op_add(f.scope, x, x, &z));
    bp_tensor_destroy(z), z = NULL;
    OK(bp_op_add(g.scope, x, x, &z));
    expect_bytes(&g, z, F32(2, 4), 8);
    bp_tensor_destroy(z);
    cr_assert_eq(calls_of(&g).prepared, 1);
    cr_assert_eq(calls_of(&g).entries, 1);
    bp_stream_destroy(g.stream);
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

Test(dispatch, the_table_forgets_the_least_used_when_it_is_full)
{
    enum { N = 6000 };
    struct fixture f = fixture_init();
    struct bp_tensor *kept = tensor_of(&f, BP_I8, 1, SHAPE(1), "\1"), *z = NULL;

    for (int64_t n = 2; n < N; n++) {
        struct bp_tensor *x = tensor_of(&f, BP_I8, 1, &n, NULL);
        OK(bp_op_add(f.scope, x, x, &z));
        bp_tensor_destroy(z), z = NULL;
        bp_tensor_destroy(x);
        OK(bp_op_add(f.scope, kept, kept, &z));
        expect_bytes(&f, z, "\2", 1);
        bp_tensor_destroy(z), z = NULL;
    }
    cr_assert_leq(calls_of(&f).entries, 4096);
    cr_assert_geq(calls_of(&f).evicted, N - 4100);
    cr_assert_geq(calls_of(&f).hits, N - 10, "what is used all the time was forgotten");
    bp_tensor_destroy(kept);
    fixture_finish(&f);
}

Test(dispatch, plans_go_with_the_device)
{
    struct fixture f = open_partial("deny");
    struct bp_tensor *x = tensor_of(&f, BP_F32, 2, SHAPE(2, 2), F32(1, 2, 3, 4)), *z = NULL;
    int *plans = &dispatch_counters()->plans;

    OK(bp_op_matmul(f.scope, x, x, NULL, &z));
    expect_bytes(&f, z, F32(7, 10, 15, 22), 16);
    cr_assert_eq(*plans, 1);
    bp_tensor_destroy(z);
    bp_tensor_destroy(x);
    bp_stream_destroy(f.stream);
    bp_device_destroy(f.device);
    bp_core_destroy(f.core);
    cr_assert_eq(*plans, 0);
}

Test(dispatch, the_option_of_the_core_replaces_the_variable)
{
    struct fixture strict = open_partial_with("allow", BP_CORE_FALLBACK_DENY);
    struct fixture loose = open_partial_with("deny", BP_CORE_FALLBACK_ALLOW);
    struct bp_tensor *x = tensor_of(&strict, BP_F16, 1, SHAPE(2), NULL), *z = NULL;
    struct bp_tensor *y = tensor_of(&loose, BP_F16, 1, SHAPE(2), NULL);

    FAILS(BP_ERR_NO_KERNEL, "partial_add", bp_op_add(strict.scope, x, x, &z));
    OK(bp_op_add(loose.scope, y, y, &z));
    bp_tensor_destroy(x), bp_tensor_destroy(y), bp_tensor_destroy(z);
    fixture_finish(&strict);
    fixture_finish(&loose);
}

/* A plan that has packed a constant is valid for this constant only. */
Test(dispatch, a_plan_is_bound_to_the_constants_it_read)
{
    struct fixture f = open_partial("deny");
    struct bp_tensor *x = tensor_of(&f, BP_F32, 2, SHAPE(2, 2), F32(1, 0, 0, 1)), *z = NULL;
    struct bp_tensor *w[2] = {tensor_of(&f, BP_F32, 2, SHAPE(2, 2), F32(1, 2, 3, 4)),
                              tensor_of(&f, BP_F32, 2, SHAPE(2, 2), F32(5, 6, 7, 8))};
    const float *expected[2] = {F32(1, 2, 3, 4), F32(5, 6, 7, 8)};
    int *packed = &dispatch_counters()->packed;

    for (int i = 0; i < 2; i++) OK(bp_tensor_freeze(w[i]));
    for (int i = 0; i < 4; i++) {
        OK(bp_op_matmul(f.scope, x, w[i % 2], NULL, &z));
        expect_bytes(&f, z, expected[i % 2], 16);
        bp_tensor_destroy(z), z = NULL;
    }
    cr_assert_eq(*packed, 2);
    FAILS(BP_ERR_INVALID, "frozen", bp_tensor_write(f.stream, w[0], expected[1], 16));
    for (int i = 0; i < 2; i++) bp_tensor_destroy(w[i]);
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

Test(dispatch, a_prepared_call_refuses_another_constant)
{
    struct fixture f = open_partial("deny");
    struct bp_tensor *x = tensor_of(&f, BP_F32, 2, SHAPE(2, 2), F32(1, 0, 0, 1));
    struct bp_tensor *z = tensor_of(&f, BP_F32, 2, SHAPE(2, 2), NULL);
    struct bp_tensor *w[2] = {tensor_of(&f, BP_F32, 2, SHAPE(2, 2), F32(1, 2, 3, 4)),
                              tensor_of(&f, BP_F32, 2, SHAPE(2, 2), F32(5, 6, 7, 8))};
    struct bp_arg in[2] = {{&x, 1}, {&w[0], 1}};
    struct bp_call call = {.size = sizeof call, .op = "matmul", .in = in, .n_in = 2};
    struct bp_prepared *p;

    for (int i = 0; i < 2; i++) OK(bp_tensor_freeze(w[i]));
    OK(bp_prepared_create(f.device, &call, NULL, 0, &p));
    OK(bp_prepared_run(p, f.stream, (struct bp_tensor *[]){x, w[0]}, 2, &z, 1, NULL));
    expect_bytes(&f, z, F32(1, 2, 3, 4), 16);
    FAILS(BP_ERR_INVALID, "another constant",
          bp_prepared_run(p, f.stream, (struct bp_tensor *[]){x, w[1]}, 2, &z, 1, NULL));
    bp_prepared_destroy(p);
    for (int i = 0; i < 2; i++) bp_tensor_destroy(w[i]);
    bp_tensor_destroy(x);
    bp_tensor_destroy(z);
    fixture_finish(&f);
}

Test(dispatch, a_strided_tensor_is_copied_for_a_kernel_that_takes_dense_ones)
{
    struct fixture f = open_partial("deny");
    struct bp_tensor *x = tensor_of(&f, BP_F32, 2, SHAPE(2, 2), F32(1, 2, 3, 4)), *t, *z = NULL;
    uint64_t bytes = 0;

    OK(bp_tensor_transpose(x, NULL, &t));
    OK(bp_op_add(f.scope, t, x, &z));
    expect_bytes(&f, z, F32(2, 5, 5, 8), 16);
    cr_assert_eq(dispatch_fallbacks(&f, "add", BP_FALLBACK_LAYOUT, &bytes), 1);
    cr_assert_eq(bytes, 16);
    bp_tensor_destroy(z);
    bp_tensor_destroy(t);
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

Test(dispatch, an_operator_runs_as_those_it_is_defined_in)
{
    struct fixture f = open_partial("deny");
    struct bp_tensor *x = tensor_of(&f, BP_F32, 1, SHAPE(4), F32(1, 2, 3, 4)), *z = NULL;
    struct bp_tensor *y = tensor_of(&f, BP_F32, 1, SHAPE(4), F32(0, 0, 3, 8));
    struct bp_arg in[2] = {{&x, 1}, {&y, 1}};
    struct bp_call call = {.size = sizeof call, .op = "mse_loss", .in = in, .n_in = 2};
    struct bp_prepared *p;

    OK(bp_op_mse_loss(f.scope, x, y, &z));
    expect_bytes(&f, z, F32(21.0f / 4), 4);
    cr_assert_eq(dispatch_fallbacks(&f, "mse_loss", BP_FALLBACK_DECOMPOSE, NULL), 4);
    OK(bp_prepared_create(f.device, &call, NULL, 0, &p));
    cr_assert_eq(bp_prepared_steps(p), 4);
    bp_prepared_destroy(p);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    bp_tensor_destroy(z);
    fixture_finish(&f);
}

static const uint16_t halves[] = {8, 16}; /* 1 and 2, in the private f16 format of partial */

Test(dispatch, a_half_type_is_converted_where_the_policy_lets_it)
{
    struct fixture f = open_partial("allow");
    struct bp_tensor *x = tensor_of(&f, BP_F16, 1, SHAPE(2), halves), *z = NULL;

    OK(bp_op_add(f.scope, x, x, &z));
    expect_bytes(&f, z, (uint16_t[]){16, 32}, 4);
    cr_assert_eq(dispatch_fallbacks(&f, "add", BP_FALLBACK_DTYPE, NULL), 3);
    dispatch_explained(&f, "add", BP_FALLBACK_DTYPE, bp_device_name(f.device),
                       "does not take the dtypes");
    bp_tensor_destroy(z);
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

Test(dispatch, another_device_runs_unsupported_calls)
{
    struct fixture f = open_partial("warn");
    struct bp_tensor *x = tensor_of(&f, BP_F32, 1, SHAPE(2), F32(0, 0)), *z = NULL;
    uint64_t bytes = 0;

    for (int i = 0; i < 2; i++) {
        OK(bp_op_softmax(f.scope, x, NULL, &z));
        expect_bytes(&f, z, F32(0.5f, 0.5f), 8);
        bp_tensor_destroy(z), z = NULL;
    }
    cr_assert_eq(dispatch_fallbacks(&f, "softmax", BP_FALLBACK_DEVICE, &bytes), 2);
    cr_assert_eq(bytes, 16);
    dispatch_explained(&f, "softmax", BP_FALLBACK_DEVICE, "cpu:0",
                       "partial_softmax: does not take this configuration");
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

Test(dispatch, failure_of_a_composite_names_the_missing_part)
{
    struct fixture f = open_partial("deny");
    struct bp_tensor *x = tensor_of(&f, BP_F32, 1, SHAPE(2), F32(0, 0)), *z = NULL;

    FAILS(BP_ERR_NO_KERNEL, "hardmax: partial:0 has no kernel for it",
          bp_op_hardmax(f.scope, x, NULL, &z));
    cr_expect(strstr(bp_error_message(), "in another way: "), "%s", bp_error_message());
    cr_expect(strstr(bp_error_message(), "argmax: partial:0 has no kernel"), "%s",
              bp_error_message());
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

/* A regression test: this device once allocated memory for dense copies of the tensors first,
 * without need. */
Test(dispatch, another_device_runs_a_strided_call_as_it_is)
{
    struct fixture f = open_partial("allow");
    struct bp_tensor *x = tensor_of(&f, BP_F32, 2, SHAPE(2, 2), F32(0, 0, 1000, 1000)),
                     *transposed = NULL;
    struct bp_tensor *y = tensor_of(&f, BP_F32, 2, SHAPE(2, 2), F32(9, 9, 9, 9)), *z = NULL;
    struct bp_arg in = {&transposed, 1};
    struct bp_call call = {.size = sizeof call, .op = "softmax", .in = &in, .n_in = 1};

    OK(bp_op_transpose(f.scope, x, NULL, &transposed));
    OK(bp_op_transpose(f.scope, y, NULL, &z));
    OK(bp_call_run(f.scope, &call, &z, 1, NULL));
    expect_bytes(&f, y, F32(0, 0, 1, 1), 16);
    cr_assert_eq(dispatch_fallbacks(&f, "softmax", BP_FALLBACK_DEVICE, NULL), 1);
    cr_assert_eq(dispatch_fallbacks(&f, "assign", BP_FALLBACK_LAYOUT, NULL), 0);
    bp_tensor_destroy(z);
    bp_tensor_destroy(y);
    bp_tensor_destroy(transposed);
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

Test(dispatch, denied_fallbacks_are_errors_with_reasons)
{
    struct fixture f = open_partial("deny");
    struct bp_tensor *x = tensor_of(&f, BP_F16, 1, SHAPE(2), halves);
    struct bp_tensor *y = tensor_of(&f, BP_F32, 1, SHAPE(2), F32(0, 0)), *z = NULL;

    FAILS(BP_ERR_NO_KERNEL, "partial_add: does not take the dtypes", bp_op_add(f.scope, x, x, &z));
    FAILS(BP_ERR_NO_KERNEL, "does not take this configuration",
          bp_op_softmax(f.scope, y, NULL, &z));
    cr_assert_null(z);
    cr_assert_eq(bp_device_fallbacks(f.device), 0);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    fixture_finish(&f);
}

static void expect_info(const char *op, uint32_t rows)
{
    struct bp_error_info info = {.size = sizeof info};

    OK(bp_error_get_info(&info));
    cr_assert_str_eq(info.op, op);
    cr_assert_eq(info.rows, rows, "%s: %u rows, expected %u", op, info.rows, rows);
    cr_assert_str_eq(info.kernel, "");
}

/* bp_error_get_info also returns the facts of the message: for an operator without rows, and for
 * one whose rows all decline. It has none for another error. */
Test(dispatch, a_missing_kernel_has_its_own_status)
{
    struct fixture f = open_partial("deny");
    struct bp_tensor *x = tensor_of(&f, BP_F16, 1, SHAPE(2), halves), *y = NULL;

    FAILS(BP_ERR_NO_KERNEL, "takes this call", bp_op_add(f.scope, x, x, &y));
    expect_info("add", 2);
    bp_error_set(BP_ERR_NO_KERNEL, "a library on top says it in words of its own");
    expect_info("add", 2);
    FAILS(BP_ERR_NO_KERNEL, "has no kernel for it", bp_op_tanh(f.scope, x, &y));
    expect_info("tanh", 0);
    FAILS(BP_ERR_INVALID, "shape", bp_tensor_create(f.device, BP_F32, 1, NULL, &y));
    expect_info("", 0);
    cr_assert_null(y);
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

/* Also if fallbacks are allowed, arguments are not copied to another device without a request of
 * the app. */
Test(dispatch, tensors_of_two_devices_are_an_error_that_names_both)
{
    struct fixture f = open_partial("allow");
    struct fixture g = {.core = f.core};
    struct bp_tensor *x = tensor_of(&f, BP_F32, 1, SHAPE(2), F32(0, 0)), *y, *z = NULL;

    OK(bp_device_create(f.core, "cpu", &g.device));
    OK(bp_stream_create(g.device, &g.stream));
    y = tensor_of(&g, BP_F32, 1, SHAPE(2), F32(0, 0));
    FAILS(BP_ERR_INVALID, "input y is on cpu:0, but the call goes to partial:0",
          bp_op_add(f.scope, x, y, &z));
    FAILS(BP_ERR_INVALID, "input x is on partial:0, but the call goes to cpu:0",
          bp_op_add(bp_stream_scope(g.stream), x, y, &z));
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    bp_stream_destroy(g.stream);
    bp_device_destroy(g.device);
    fixture_finish(&f);
}

/* An allocation beyond the limit frees all plans except the last one used. */
Test(dispatch, plans_are_given_up_when_memory_is_short)
{
    struct fixture f = (setenv("BP_MEM_LIMIT", "1M", 1), open_partial("deny"));
    struct bp_tensor *x = tensor_of(&f, BP_F32, 2, SHAPE(2, 2), F32(1, 2, 3, 4)), *z = NULL, *w[3];
    int *plans = &dispatch_counters()->plans;

    for (int i = 0; i < 3; i++) {
        w[i] = tensor_of(&f, BP_F32, 2, SHAPE(2, 2), F32(1, 0, 0, 1));
        OK(bp_tensor_freeze(w[i]));
        OK(bp_op_matmul(f.scope, x, w[i], NULL, &z));
        bp_tensor_destroy(z), z = NULL;
    }
    cr_assert_eq(*plans, 3);
    FAILS(BP_ERR_MEMORY, "out of memory",
          bp_tensor_create(f.device, BP_U8, 1, SHAPE(1 << 20), &z));
    cr_assert_eq(*plans, 1, "%d plans are left", *plans);
    cr_assert_eq(calls_of(&f).entries, 1);
    for (int i = 0; i < 3; i++) {
        OK(bp_op_matmul(f.scope, x, w[i], NULL, &z));
        expect_bytes(&f, z, F32(1, 2, 3, 4), 16);
        bp_tensor_destroy(z), z = NULL;
        bp_tensor_destroy(w[i]);
    }
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

/* Bad values cause no trap: the kernel reports them, and the call fails, or its stream. */
Test(dispatch, a_fault_that_a_kernel_found_is_the_failure_of_its_call)
{
    struct fixture f = open_partial("deny");
    struct bp_tensor *bad = tensor_of(&f, BP_F32, 1, SHAPE(1), F32(0.0f / 0.0f)), *y = NULL;
    struct bp_tensor *good = tensor_of(&f, BP_F32, 1, SHAPE(1), F32(3));

    for (int i = 0; i < 2; i++) { /* the first call prepares, the second uses the cache */
        FAILS(BP_ERR_FAULT, "partial_scale found bad values in its inputs (code 7)",
              bp_op_scale(f.scope, bad, NULL, &y));
        cr_assert_null(y);
    }
    OK(bp_op_scale(f.scope, good, NULL, &y));
    expect_bytes(&f, y, F32(3), 4);
    bp_tensor_destroy(y), y = NULL;
    bp_stream_destroy(f.stream);
    OK(bp_stream_create_with(f.device, BP_STREAM_ASYNC, &f.stream));
    OK(bp_op_scale(bp_stream_scope(f.stream), bad, NULL, &y));
    FAILS(BP_ERR_FAULT, "launch 1, scale: scale: kernel partial_scale found bad values",
          bp_stream_synchronize(f.stream));
    bp_tensor_destroy(y);
    bp_tensor_destroy(bad);
    bp_tensor_destroy(good);
    fixture_finish(&f);
}

/* A fault of a launch that failed does not count for the next launch. */
Test(dispatch, a_fault_is_of_one_launch)
{
    static const uint32_t flags[] = {BP_STREAM_INLINE, BP_STREAM_ASYNC};

    for (int i = 0; i < 2; i++) {
        struct fixture f = open_partial("deny");
        struct bp_tensor *bad = tensor_of(&f, BP_F32, 1, SHAPE(1), F32(1.0f / 0.0f)), *y = NULL;
        struct bp_tensor *good = tensor_of(&f, BP_F32, 1, SHAPE(1), F32(3));
        bp_stream_destroy(f.stream);
        OK(bp_stream_create_with(f.device, flags[i], &f.stream));
        f.scope = bp_stream_scope(f.stream);
        for (int round = 0; round < 2; round++) {
            if (i) OK(bp_op_scale(f.scope, bad, NULL, &y));
            FAILS(BP_ERR_PLUGIN, "partial_scale",
                  i ? bp_stream_synchronize(f.stream) : bp_op_scale(f.scope, bad, NULL, &y));
            if (i) { /* the stream keeps its failure */
                bp_tensor_destroy(y), y = NULL;
                bp_stream_destroy(f.stream);
                OK(bp_stream_create_with(f.device, flags[i], &f.stream));
                f.scope = bp_stream_scope(f.stream);
            }
            OK(bp_op_scale(f.scope, good, NULL, &y));
            OK(bp_stream_synchronize(f.stream));
            bp_tensor_destroy(y), y = NULL;
        }
        bp_tensor_destroy(bad);
        bp_tensor_destroy(good);
        fixture_finish(&f);
    }
}

static void expect_updates(int n)
{
    cr_assert_eq(dispatch_counters()->updates, n, "%d updates ran", dispatch_counters()->updates);
    cr_assert_eq(dispatch_counters()->apart, 0, "%d outputs were not the input that they update",
                 dispatch_counters()->apart);
}

/* With each fallback between the call and the kernel, the kernel gets one view as input and
 * output. */
Test(dispatch, an_update_is_given_the_input_itself)
{
    struct fixture f = open_partial("allow");
    struct bp_tensor *half = tensor_of(&f, BP_F16, 1, SHAPE(2), halves), *t, *z = NULL;
    struct bp_tensor *dh = tensor_of(&f, BP_F16, 1, SHAPE(2), (uint16_t[]){4, 8});
    struct bp_tensor *x = tensor_of(&f, BP_F32, 2, SHAPE(2, 2), F32(1, 2, 3, 4));
    struct bp_tensor *g = tensor_of(&f, BP_F32, 2, SHAPE(2, 2), F32(10, 20, 30, 40));
    struct bp_tensor *lr = tensor_of(&f, BP_F32, 0, NULL, F32(0.5f));
    struct bp_tensor *x0 = tensor_of(&f, BP_F32, 2, SHAPE(2, 2), F32(0, 0, 0, 0));
    struct bp_arg in[3] = {{&half, 1}, {&dh, 1}, {&lr, 1}};
    struct bp_call call = {.size = sizeof call, .op = "sgd", .in = in, .n_in = 3};
    struct bp_prepared *p;

    OK(bp_op_sgd(f.scope, x, g, lr, &z)); /* directly, without BP_KERNEL_IN_PLACE */
    bp_tensor_destroy(z), z = NULL;
    expect_bytes(&f, x, F32(-4, -8, -12, -16), 16);
    expect_updates(1);
    OK(bp_op_sgd(f.scope, x, x0, lr, &z));
    bp_tensor_destroy(z), z = NULL;
    expect_updates(2);
    cr_assert_eq(calls_of(&f).prepared, 1, "it was not found again");
    cr_assert_eq(dispatch_fallbacks(&f, "sgd", BP_FALLBACK_LAYOUT, NULL), 0);
    OK(bp_tensor_transpose(x, NULL, &t)); /* through a dense copy */
    OK(bp_op_sgd(f.scope, t, g, lr, &z));
    bp_tensor_destroy(z), z = NULL;
    expect_bytes(&f, x, F32(-9, -23, -22, -36), 16);
    expect_updates(3);
    OK(bp_op_sgd(f.scope, half, dh, lr, &z)); /* through f32 */
    bp_tensor_destroy(z), z = NULL;
    expect_bytes(&f, half, (uint16_t[]){6, 12}, 4);
    expect_updates(4);
    OK(bp_prepared_create(f.device, &call, NULL, 0, &p));
    OK(bp_prepared_run(p, f.stream, (struct bp_tensor *[]){half, dh, lr}, 3, &half, 1, NULL));
    expect_bytes(&f, half, (uint16_t[]){4, 8}, 4);
    expect_updates(5);
    bp_prepared_destroy(p);
    bp_stream_destroy(f.stream);
    OK(bp_stream_create_with(f.device, BP_STREAM_ASYNC, &f.stream));
    OK(bp_op_sgd(bp_stream_scope(f.stream), half, dh, lr, &z));
    bp_tensor_destroy(z);
    expect_bytes(&f, half, (uint16_t[]){2, 4}, 4);
    expect_updates(6);
    bp_tensor_destroy(half);
    bp_tensor_destroy(x0);
    bp_tensor_destroy(dh);
    bp_tensor_destroy(t);
    bp_tensor_destroy(x);
    bp_tensor_destroy(g);
    bp_tensor_destroy(lr);
    fixture_finish(&f);
}

/* Records x + x by the named row, twice; then by the best row. */
static struct bp_graph *record_sums(struct fixture *f, struct bp_call *add, struct bp_arg *in,
                                    struct bp_tensor **out_x, struct bp_tensor **out_y)
{
    struct bp_tensor *x, *y = NULL, *twice;
    struct bp_graph *graph;

    OK(bp_graph_create(f->core, &graph));
    OK(bp_graph_input(graph, "x", BP_F32, 1, SHAPE(2), &x));
    in[0] = in[1] = (struct bp_arg){&x, 1};
    y = NULL;
    OK(bp_call_run(bp_graph_scope(graph), add, &y, 1, NULL));
    in[0] = in[1] = (struct bp_arg){&y, 1};
    twice = NULL;
    OK(bp_call_run(bp_graph_scope(graph), add, &twice, 1, NULL));
    bp_tensor_destroy(y), y = NULL;
    OK(bp_op_add(bp_graph_scope(graph), twice, twice, &y));
    OK(bp_graph_output(graph, y, NULL));
    bp_tensor_destroy(twice);
    *out_x = x;
    *out_y = y;
    return graph;
}

static const char *kernel_of_node(struct bp_graph *graph, uint32_t index)
{
    struct bp_node_info info = {.size = sizeof info};

    OK(bp_graph_node(graph, index, &info));
    return info.kernel;
}

Test(dispatch, a_recorded_call_keeps_the_kernel_that_it_names)
{
    struct fixture f = open_partial("deny");
    int *slow = &dispatch_counters()->slow, before = *slow;
    char name[] = "partial_add_slow";
    struct bp_arg in[2];
    struct bp_call add = {.size = sizeof add, .op = "add", .in = in, .n_in = 2, .kernel = name};
    struct bp_tensor *x, *y, *dx = NULL, *real, *out[2] = {NULL};
    struct bp_graph *graph = record_sums(&f, &add, in, &x, &y);
    struct bp_program *program;

    memset(name, 'x', sizeof name - 1); /* the graph has copied the name */
    real = tensor_of(&f, BP_F32, 1, SHAPE(2), F32(1, 2));
    OK(bp_graph_gradient(graph, &y, &real, 1, &x, 1, &dx));
    OK(bp_graph_output(graph, dx, NULL));
    cr_assert_str_eq(kernel_of_node(graph, 0), "partial_add_slow");
    cr_assert_str_eq(kernel_of_node(graph, 1), "partial_add_slow");
    cr_assert_null(kernel_of_node(graph, 2));
    OK(bp_graph_run(graph, f.stream, &real, 1, out, 2));
    cr_assert_eq(*slow, before + 2);
    expect_bytes(&f, out[0], F32(8, 16), 8);
    expect_bytes(&f, out[1], F32(8, 16), 8);
    bp_tensor_destroy(out[0]), bp_tensor_destroy(out[1]);
    OK(bp_program_create(graph, f.device, &program));
    for (int run = 1; run <= 3; run++) {
        out[0] = out[1] = NULL;
        OK(bp_program_run(program, f.stream, &real, 1, out, 2));
        cr_assert_eq(*slow, before + 2 + 2 * run);
        expect_bytes(&f, out[0], F32(8, 16), 8);
        bp_tensor_destroy(out[0]), bp_tensor_destroy(out[1]);
    }
    bp_program_destroy(program);
    bp_tensor_destroy(x), bp_tensor_destroy(y), bp_tensor_destroy(dx), bp_tensor_destroy(real);
    bp_graph_destroy(graph);
    fixture_finish(&f);
}
