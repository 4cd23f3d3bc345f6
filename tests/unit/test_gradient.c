/* SPDX-License-Identifier: Apache-2.0 */
/* test_gradient.c: tests the gradient rules against finite differences in double.
 *
 * For L = sum(c * op(inputs)) with a fixed random c, the rule with dy = c gives dL/dx. The test
 * compares it with (L(x + h) - L(x - h)) / 2h. The operators here are smooth, with third
 * derivatives of order 1: at h = 1e-5 the difference has an error of about h^2 = 1e-10 from
 * truncation and 1e-16 / h = 1e-11 from rounding, relative to sums of some ten terms of order 1; a
 * tolerance of 1e-7 covers these sums. */
#include "fixture.h"

#include <math.h>
#include <stdlib.h>

enum { MAX = 512, INPUTS = 4 };
static const double h = 1e-5, tolerance = 1e-7;

static uint64_t state = 42;

static double gradient_uniform(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) / 9007199254740992.0 * 2 - 1;
}

static double values[INPUTS][MAX];

static int64_t gradient_count_of(struct bp_tensor *t)
{
    struct bp_tensor_info info = {.size = sizeof info};

    OK(bp_tensor_get_info(t, &info));
    cr_assert_leq(info.count, MAX);
    return info.count;
}

static void gradient_fill(struct fixture *f, struct bp_tensor *t, double *v)
{
    int64_t n = gradient_count_of(t);

    for (int64_t i = 0; i < n; i++) { /* both signs, none near 0: quotients are small */
        v[i] = gradient_uniform();
        v[i] += v[i] < 0 ? -0.5 : 0.5;
    }
    OK(bp_tensor_write(f->stream, t, v, (uint64_t)n * 8));
}

static double gradient_loss(struct fixture *f, const struct bp_call *call, const double *c)
{
    struct bp_tensor *y = NULL;
    double v[MAX], sum = 0;
    int64_t n;

    OK(bp_call_run(f->scope, call, &y, 1, NULL));
    n = gradient_count_of(y);
    OK(bp_tensor_read(f->stream, y, v, (uint64_t)n * 8));
    for (int64_t i = 0; i < n; i++) sum += c[i] * v[i];
    bp_tensor_destroy(y);
    return sum;
}

/* Compares the gradient of one input with differences in each of its elements. */
static void check_input(struct fixture *f, const struct bp_call *call, size_t i,
                        struct bp_tensor *x, struct bp_tensor *dx, const double *c)
{
    int64_t n = gradient_count_of(x);
    double got[MAX];

    cr_assert_eq(gradient_count_of(dx), n, "%s: gradient of input %zu", call->op, i);
    OK(bp_tensor_read(f->stream, dx, got, (uint64_t)n * 8));
    for (int64_t k = 0; k < n; k++) {
        double at = values[i][k], up, down, expected;
        values[i][k] = at + h;
        OK(bp_tensor_write(f->stream, x, values[i], (uint64_t)n * 8));
        up = gradient_loss(f, call, c);
        values[i][k] = at - h;
        OK(bp_tensor_write(f->stream, x, values[i], (uint64_t)n * 8));
        down = gradient_loss(f, call, c);
        values[i][k] = at;
        expected = (up - down) / (2 * h);
        cr_assert(fabs(got[k] - expected) <= tolerance * (1 + fabs(expected)),
                  "%s: input %zu element %lld: got %.12g, expected %.12g", call->op, i,
                  (long long)k, got[k], expected);
    }
    OK(bp_tensor_write(f->stream, x, values[i], (uint64_t)n * 8));
}

/* Lists all input tensors; absent ones are NULL. */
static size_t gradient_flatten(const struct bp_call *call, struct bp_tensor **x)
{
    size_t n = 0;

    for (size_t i = 0; i < call->n_in; i++)
        for (size_t k = 0; k < call->in[i].n; k++) x[n++] = call->in[i].at[k];
    cr_assert_leq(n, INPUTS);
    return n;
}

/* Checks the rule of call for the inputs whose bits are set in `which`. */
static void check_rule(struct fixture *f, struct bp_call *call, unsigned which)
{
    struct bp_tensor *y = NULL, *dy, *x[INPUTS], *dx[INPUTS] = {NULL};
    struct bp_tensor_info info = {.size = sizeof info};
    size_t n = gradient_flatten(call, x);
    uint8_t want[INPUTS];
    double c[MAX];

    for (size_t i = 0; i < n; i++) {
        want[i] = which >> i & 1;
        if (x[i]) gradient_fill(f, x[i], values[i]);
    }
    OK(bp_call_run(f->scope, call, &y, 1, NULL));
    OK(bp_tensor_get_info(y, &info));
    dy = tensor_of(f, BP_F64, info.rank, info.shape, NULL);
    gradient_fill(f, dy, c);
    OK(bp_call_gradient(f->scope, call, &y, &dy, 1, want, dx, n));
    for (size_t i = 0; i < n; i++) {
        if (want[i]) check_input(f, call, i, x[i], dx[i], c);
        else cr_assert_null(dx[i]);
        bp_tensor_destroy(dx[i]);
    }
    bp_tensor_destroy(y);
    bp_tensor_destroy(dy);
}

static void check_binary(struct fixture *f, const char *op, uint32_t ra, const int64_t *sa,
                         uint32_t rb, const int64_t *sb, const void *attrs, unsigned which)
{
    struct bp_tensor *a = tensor_of(f, BP_F64, ra, sa, NULL),
                     *b = tensor_of(f, BP_F64, rb, sb, NULL);
    struct bp_arg in[2] = {{&a, 1}, {&b, 1}};
    struct bp_call call = {.size = sizeof call, .op = op, .in = in, .n_in = 2, .attrs = attrs};

    check_rule(f, &call, which);
    bp_tensor_destroy(a);
    bp_tensor_destroy(b);
}

static void check_unary(struct fixture *f, const char *op, uint32_t rank, const int64_t *shape,
                        const void *attrs)
{
    struct bp_tensor *a = tensor_of(f, BP_F64, rank, shape, NULL);
    struct bp_arg in[1] = {{&a, 1}};
    struct bp_call call = {.size = sizeof call, .op = op, .in = in, .n_in = 1, .attrs = attrs};

    check_rule(f, &call, 1);
    bp_tensor_destroy(a);
}

Test(gradient, add)
{
    struct fixture f = fixture_init();

    check_binary(&f, "add", 2, SHAPE(2, 3), 2, SHAPE(2, 3), NULL, 3);
    check_binary(&f, "add", 3, SHAPE(4, 1, 3), 2, SHAPE(2, 1), NULL, 3);
    check_binary(&f, "add", 0, NULL, 2, SHAPE(2, 2), NULL, 3);
    check_binary(&f, "add", 2, SHAPE(2, 2), 1, SHAPE(1), NULL, 2);
    fixture_finish(&f);
}

Test(gradient, cast)
{
    struct fixture f = fixture_init();
    struct bp_cast_attrs attrs = bp_cast_defaults();

    attrs.to = BP_F64;
    check_unary(&f, "cast", 2, SHAPE(2, 3), &attrs);
    fixture_finish(&f);
}

/* The result is constant around each input: the gradient is zero, as NULL. */
Test(gradient, cast_to_integer_is_zero)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = tensor_of(&f, BP_F64, 1, SHAPE(2), F64(1.5, 2.5)), *y = NULL,
                     *dx = NULL;
    struct bp_cast_attrs attrs = bp_cast_defaults();
    struct bp_arg in[1] = {{&x, 1}};
    struct bp_call call = {.size = sizeof call, .op = "cast", .in = in, .n_in = 1, .attrs = &attrs};

    attrs.to = BP_I32;
    OK(bp_call_run(f.scope, &call, &y, 1, NULL));
    OK(bp_call_gradient(f.scope, &call, &y, &y, 1, (const uint8_t[]){1}, &dx, 1));
    cr_assert_null(dx);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    fixture_finish(&f);
}

Test(gradient, sum_and_its_gradient)
{
    struct fixture f = fixture_init();
    struct bp_sum_attrs sum = bp_sum_defaults();
    struct bp_sum_grad_attrs grad = bp_sum_grad_defaults();

    check_unary(&f, "sum", 3, SHAPE(2, 3, 2), &sum);
    sum.axes = grad.axes = (struct bp_dims){SHAPE(0, -1), 2};
    check_unary(&f, "sum", 3, SHAPE(2, 3, 2), &sum);
    check_binary(&f, "sum_grad", 1, SHAPE(3), 3, SHAPE(2, 3, 2), &grad, 1);
    sum.keep = grad.keep = 1;
    check_unary(&f, "sum", 3, SHAPE(2, 3, 2), &sum);
    check_binary(&f, "sum_grad", 3, SHAPE(1, 3, 1), 3, SHAPE(2, 3, 2), &grad, 1);
    fixture_finish(&f);
}

Test(gradient, softmax_and_its_gradient)
{
    struct fixture f = fixture_init();
    struct bp_softmax_attrs attrs = bp_softmax_defaults();
    struct bp_softmax_grad_attrs grad = bp_softmax_grad_defaults();

    check_unary(&f, "softmax", 2, SHAPE(3, 4), &attrs);
    check_binary(&f, "softmax_grad", 2, SHAPE(3, 4), 2, SHAPE(3, 4), &grad, 3);
    check_binary(&f, "softmax_grad", 2, SHAPE(3, 4), 2, SHAPE(3, 4), &grad, 1);
    check_binary(&f, "softmax_grad", 2, SHAPE(3, 4), 2, SHAPE(3, 4), &grad, 2);
    attrs.axis = grad.axis = 0;
    check_unary(&f, "softmax", 2, SHAPE(3, 4), &attrs);
    check_binary(&f, "softmax_grad", 2, SHAPE(3, 4), 2, SHAPE(3, 4), &grad, 3);
    fixture_finish(&f);
}

Test(gradient, sub_mul_and_div)
{
    static const char *const op[] = {"sub", "mul", "div"};
    struct fixture f = fixture_init();

    for (int i = 0; i < 3; i++) {
        check_binary(&f, op[i], 2, SHAPE(2, 3), 2, SHAPE(2, 3), NULL, 3);
        check_binary(&f, op[i], 3, SHAPE(4, 1, 3), 2, SHAPE(2, 1), NULL, 3);
        check_binary(&f, op[i], 0, NULL, 2, SHAPE(2, 2), NULL, 3);
        check_binary(&f, op[i], 2, SHAPE(2, 2), 1, SHAPE(1), NULL, 1);
        check_binary(&f, op[i], 2, SHAPE(2, 2), 1, SHAPE(1), NULL, 2);
    }
    fixture_finish(&f);
}

/* The gradient of x y in x is c y, summed to the shape of x, which is again a call of y. The
 * gradient of this call is compared with differences of the results of bp_call_gradient. */
Test(gradient, second_order_of_mul)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = tensor_of(&f, BP_F64, 2, SHAPE(2, 3), NULL),
                     *y = tensor_of(&f, BP_F64, 1, SHAPE(3), NULL),
                     *c = tensor_of(&f, BP_F64, 2, SHAPE(2, 3), NULL), *z = NULL, *dx[2] = {NULL};
    struct bp_tensor *e = tensor_of(&f, BP_F64, 2, SHAPE(2, 3), NULL), *first = NULL;
    struct bp_arg in[2] = {{&x, 1}, {&y, 1}}, again[2] = {{&c, 1}, {&y, 1}};
    struct bp_call call = {.size = sizeof call, .op = "mul", .in = in, .n_in = 2},
                   second = {.size = sizeof second, .op = "mul", .in = again, .n_in = 2};
    double vx[6], vy[3], vc[6], ve[6], got[3], at[2][6];

    gradient_fill(&f, x, vx);
    gradient_fill(&f, y, vy);
    gradient_fill(&f, c, vc);
    gradient_fill(&f, e, ve);
    OK(bp_call_run(f.scope, &second, &first, 1, NULL));
    OK(bp_call_gradient(f.scope, &second, &first, &e, 1, (const uint8_t[]){0, 1}, dx, 2));
    OK(bp_tensor_read(f.stream, dx[1], got, sizeof got));
    bp_tensor_destroy(dx[1]), dx[1] = NULL;
    OK(bp_call_run(f.scope, &call, &z, 1, NULL));
    for (int k = 0; k < 3; k++) {
        double expected = 0, kept = vy[k];
        for (int s = 0; s < 2; s++) {
            vy[k] = kept + (s ? h : -h);
            OK(bp_tensor_write(f.stream, y, vy, sizeof vy));
            OK(bp_call_gradient(f.scope, &call, &z, &c, 1, (const uint8_t[]){1, 0}, dx, 2));
            OK(bp_tensor_read(f.stream, dx[0], at[s], sizeof at[s]));
            bp_tensor_destroy(dx[0]), dx[0] = NULL;
        }
        vy[k] = kept;
        OK(bp_tensor_write(f.stream, y, vy, sizeof vy));
        for (int i = 0; i < 6; i++) expected += ve[i] * (at[1][i] - at[0][i]) / (2 * h);
        cr_assert(fabs(got[k] - expected) <= tolerance, "element %d: got %.12g, expected %.12g", k,
                  got[k], expected);
    }
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    bp_tensor_destroy(z);
    bp_tensor_destroy(c);
    bp_tensor_destroy(e);
    bp_tensor_destroy(first);
    fixture_finish(&f);
}

Test(gradient, scale_and_assign)
{
    struct fixture f = fixture_init();
    struct bp_scale_attrs scale = bp_scale_defaults();

    scale.factor = -1.75;
    scale.bias = 3;
    check_unary(&f, "scale", 2, SHAPE(2, 3), &scale);
    check_unary(&f, "assign", 2, SHAPE(2, 3), NULL);
    fixture_finish(&f);
}

Test(gradient, views)
{
    struct fixture f = fixture_init();
    struct bp_reshape_attrs reshape = bp_reshape_defaults();
    struct bp_transpose_attrs transpose = bp_transpose_defaults();
    struct bp_expand_attrs expand = bp_expand_defaults();

    reshape.shape = (struct bp_dims){SHAPE(3, -1), 2};
    check_unary(&f, "reshape", 3, SHAPE(2, 3, 2), &reshape);
    reshape.shape = (struct bp_dims){NULL, 0};
    check_unary(&f, "reshape", 2, SHAPE(1, 1), &reshape);
    check_unary(&f, "transpose", 3, SHAPE(2, 3, 4), &transpose);
    transpose.perm = (struct bp_dims){SHAPE(2, 0, 1), 3};
    check_unary(&f, "transpose", 3, SHAPE(2, 3, 4), &transpose);
    expand.shape = (struct bp_dims){SHAPE(4, 2, 3), 3};
    check_unary(&f, "expand", 2, SHAPE(2, 1), &expand);
    check_unary(&f, "expand", 0, NULL, &expand);
    fixture_finish(&f);
}

Test(gradient, slice_and_its_gradient)
{
    struct fixture f = fixture_init();
    struct bp_slice_attrs slice = bp_slice_defaults();
    struct bp_slice_grad_attrs grad = bp_slice_grad_defaults();

    slice.starts = grad.starts = (struct bp_dims){SHAPE(1, -4), 2};
    slice.ends = grad.ends = (struct bp_dims){SHAPE(3, 5), 2};
    slice.axes = grad.axes = (struct bp_dims){SHAPE(0, -1), 2};
    slice.steps = grad.steps = (struct bp_dims){SHAPE(1, 2), 2};
    check_unary(&f, "slice", 3, SHAPE(3, 2, 5), &slice);
    check_binary(&f, "slice_grad", 3, SHAPE(2, 2, 2), 3, SHAPE(3, 2, 5), &grad, 1);
    fixture_finish(&f);
}

Test(gradient, concat)
{
    struct fixture f = fixture_init();
    struct bp_tensor *xs[3] = {tensor_of(&f, BP_F64, 2, SHAPE(2, 3), NULL),
                               tensor_of(&f, BP_F64, 2, SHAPE(2, 1), NULL),
                               tensor_of(&f, BP_F64, 2, SHAPE(2, 2), NULL)};
    struct bp_concat_attrs attrs = bp_concat_defaults();
    struct bp_arg in[1] = {{xs, 3}};
    struct bp_call call = {
        .size = sizeof call, .op = "concat", .in = in, .n_in = 1, .attrs = &attrs};

    attrs.axis = -1;
    check_rule(&f, &call, 7);
    check_rule(&f, &call, 5);
    for (int i = 0; i < 3; i++) bp_tensor_destroy(xs[i]);
    fixture_finish(&f);
}

/* mse_loss has no gradient rule: its decomposition is differentiated. */
Test(gradient, mse_loss)
{
    struct fixture f = fixture_init();

    check_binary(&f, "mse_loss", 2, SHAPE(2, 3), 2, SHAPE(2, 3), NULL, 3);
    check_binary(&f, "mse_loss", 2, SHAPE(2, 3), 2, SHAPE(2, 3), NULL, 2);
    check_binary(&f, "mse_loss", 0, NULL, 0, NULL, NULL, 1);
    fixture_finish(&f);
}

Test(gradient, matmul)
{
    struct fixture f = fixture_init();

    for (int64_t i = 0; i < 4; i++) {
        struct bp_matmul_attrs attrs = bp_matmul_defaults();
        attrs.transpose_a = i & 1;
        attrs.transpose_b = i >> 1;
        check_binary(&f, "matmul", 2, i & 1 ? SHAPE(4, 2) : SHAPE(2, 4), 2,
                     i >> 1 ? SHAPE(3, 4) : SHAPE(4, 3), &attrs, 3);
        check_binary(&f, "matmul", 3, i & 1 ? SHAPE(3, 4, 2) : SHAPE(3, 2, 4), 2,
                     i >> 1 ? SHAPE(3, 4) : SHAPE(4, 3), &attrs, 3);
        check_binary(&f, "matmul", 4, i & 1 ? SHAPE(2, 1, 4, 2) : SHAPE(2, 1, 2, 4), 3,
                     i >> 1 ? SHAPE(3, 3, 4) : SHAPE(3, 4, 3), &attrs, 3);
    }
    check_binary(&f, "matmul", 1, SHAPE(4), 1, SHAPE(4), NULL, 3);
    check_binary(&f, "matmul", 1, SHAPE(4), 3, SHAPE(2, 4, 3), NULL, 3);
    check_binary(&f, "matmul", 3, SHAPE(2, 3, 4), 1, SHAPE(4), NULL, 3);
    fixture_finish(&f);
}

static struct bp_conv_attrs conv_attrs(void)
{
    struct bp_conv_attrs a = bp_conv_defaults();

    a.stride[0] = 2;
    a.dilation[1] = 2;
    a.pad[0] = 1;
    a.pad[4] = 2;
    a.groups = 2;
    return a;
}

Test(gradient, conv)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = tensor_of(&f, BP_F64, 4, SHAPE(2, 4, 5, 4), NULL),
                     *w = tensor_of(&f, BP_F64, 4, SHAPE(2, 2, 3, 2), NULL);
    struct bp_tensor *bias = tensor_of(&f, BP_F64, 1, SHAPE(2), NULL), *none = NULL;
    struct bp_arg in[3] = {{&x, 1}, {&w, 1}, {&bias, 1}};
    struct bp_conv_attrs attrs = conv_attrs();
    struct bp_call call = {.size = sizeof call, .op = "conv", .in = in, .n_in = 3, .attrs = &attrs};

    check_rule(&f, &call, 7);
    in[2].at = &none;
    check_rule(&f, &call, 3);
    call.n_in = 2;
    check_rule(&f, &call, 3);
    bp_tensor_destroy(x);
    bp_tensor_destroy(w);
    bp_tensor_destroy(bias);
    fixture_finish(&f);
}

/* Tests the second order: the gradients of the gradients. */
Test(gradient, conv_gradients)
{
    struct fixture f = fixture_init();
    struct bp_conv_attrs attrs = conv_attrs();
    struct bp_tensor *x = tensor_of(&f, BP_F64, 4, SHAPE(1, 4, 4, 4), NULL),
                     *w = tensor_of(&f, BP_F64, 4, SHAPE(2, 2, 3, 2), NULL);
    struct bp_tensor *y = NULL, *dy;
    struct bp_tensor_info info = {.size = sizeof info};
    struct bp_arg in[3] = {{&dy, 1}, {&w, 1}, {&x, 1}};
    struct bp_call call = {
        .size = sizeof call, .op = "conv_grad_input", .in = in, .n_in = 3, .attrs = &attrs};

    OK(bp_op_conv(f.scope, x, w, NULL, &attrs, &y));
    OK(bp_tensor_get_info(y, &info));
    dy = tensor_of(&f, BP_F64, info.rank, info.shape, NULL);
    check_rule(&f, &call, 3);
    call.op = "conv_grad_weight";
    in[1].at = &x;
    in[2].at = &w;
    check_rule(&f, &call, 3);
    bp_tensor_destroy(x);
    bp_tensor_destroy(w);
    bp_tensor_destroy(y);
    bp_tensor_destroy(dy);
    fixture_finish(&f);
}

Test(gradient, bad_arguments)
{
    struct fixture f = fixture_init();
    struct bp_tensor *a = tensor_of(&f, BP_F64, 1, SHAPE(2), F64(1, 2)), *y = NULL,
                     *dx[2] = {NULL, NULL}, *zero = NULL;
    struct bp_tensor *wrong = tensor_of(&f, BP_F64, 1, SHAPE(3), NULL);
    struct bp_arg in[2] = {{&a, 1}, {&a, 1}};
    struct bp_call call = {.size = sizeof call, .op = "add", .in = in, .n_in = 2};
    const uint8_t want[2] = {1, 1};

    OK(bp_call_run(f.scope, &call, &y, 1, NULL));
    FAILS(BP_ERR_INVALID, "is NULL", bp_call_gradient(f.scope, &call, &y, &y, 1, NULL, dx, 2));
    FAILS(BP_ERR_INVALID, "room for 1", bp_call_gradient(f.scope, &call, &y, &y, 1, want, dx, 1));
    OK(bp_call_gradient(f.scope, &call, &y, &zero, 1, want, dx, 2)); /* of zero: zero */
    cr_assert(!dx[0] && !dx[1]);
    FAILS(BP_ERR_INVALID, "dy[0] is f64 [3], expected f64 [2]",
          bp_call_gradient(f.scope, &call, &y, &wrong, 1, want, dx, 2));
    cr_assert_null(dx[0]);
    bp_tensor_destroy(a);
    bp_tensor_destroy(y);
    bp_tensor_destroy(wrong);
    fixture_finish(&f);
}

/* The gradient also reads an attribute value that was given as a tensor. */
Test(gradient, host_values)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = tensor_of(&f, BP_F32, 2, SHAPE(2, 3), F32(1, 2, 3, 4, 5, 6)),
                     *shape = tensor_of(&f, BP_I64, 1, SHAPE(1), SHAPE(6)), *y = NULL, *dx = NULL;
    struct bp_arg in[2] = {{&x, 1}, {&shape, 1}};
    struct bp_call call = {.size = sizeof call, .op = "reshape", .in = in, .n_in = 2};

    OK(bp_call_run(f.scope, &call, &y, 1, NULL));
    OK(bp_call_gradient(f.scope, &call, &y, &y, 1, (const uint8_t[]){1, 0}, &dx, 1));
    expect_bytes(&f, dx, F32(1, 2, 3, 4, 5, 6), 24);
    bp_tensor_destroy(dx);
    bp_tensor_destroy(y);
    bp_tensor_destroy(shape);
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

/* Runs the call. y and the gradients are finite, and those of the inputs after the first are 0. */
static void expect_finite(struct fixture *f, const struct bp_call *call, const double *expected_y,
                          const double *expected_dx)
{
    struct bp_tensor *y = NULL, *dx[INPUTS] = {NULL};
    const uint8_t want[INPUTS] = {1, 1, 1, 1};
    double zeros[MAX] = {0};

    OK(bp_call_run(f->scope, call, &y, 1, NULL));
    expect_bytes(f, y, expected_y, (uint64_t)gradient_count_of(y) * 8);
    OK(bp_call_gradient(f->scope, call, &y, call->in[0].at, 1, want, dx, call->n_in));
    for (size_t i = 0; i < call->n_in; i++) {
        if (dx[i])
            expect_bytes(f, dx[i], i ? zeros : expected_dx, (uint64_t)gradient_count_of(dx[i]) * 8);
        bp_tensor_destroy(dx[i]);
    }
    bp_tensor_destroy(y);
}

/* A query whose mask adds -infinity to all keys has the result 0, and all its gradients are 0. */
Test(gradient, of_a_query_without_keys)
{
    struct fixture f = fixture_init();
    const double none[] = {-INFINITY, -INFINITY}, zero[] = {0, 0};
    struct bp_tensor *q = tensor_of(&f, BP_F64, 3, SHAPE(1, 1, 2), F64(1, 2)),
                     *k = tensor_of(&f, BP_F64, 3, SHAPE(1, 2, 2), F64(1, -1, 2, 3)),
                     *v = tensor_of(&f, BP_F64, 3, SHAPE(1, 2, 2), F64(5, 6, 7, 8)),
                     *mask = tensor_of(&f, BP_F64, 2, SHAPE(1, 2), none),
                     *x = tensor_of(&f, BP_F64, 2, SHAPE(1, 2), F64(1, 2));
    struct bp_arg in[4] = {{&q, 1}, {&k, 1}, {&v, 1}, {&mask, 1}}, pair[2] = {{&x, 1}, {&mask, 1}};

    expect_finite(&f, &(struct bp_call){.size = sizeof(struct bp_call), .op = "attention", .in = in,
                                        .n_in = 4}, zero, zero);
    expect_finite(&f, &(struct bp_call){.size = sizeof(struct bp_call), .op = "masked_softmax",
                                        .in = pair, .n_in = 2}, zero, zero);
    bp_tensor_destroy(q);
    bp_tensor_destroy(k);
    bp_tensor_destroy(v);
    bp_tensor_destroy(mask);
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

/* With epsilon 0, a vector of zeros is divided by 1. */
Test(gradient, of_a_vector_of_zeros)
{
    struct fixture f = fixture_init();
    struct bp_lp_normalize_attrs attrs = bp_lp_normalize_defaults();
    struct bp_tensor *x = tensor_of(&f, BP_F64, 2, SHAPE(1, 3), F64(0, 0, 0));
    struct bp_arg in[1] = {{&x, 1}};
    const double p[] = {1, 2, 3, INFINITY};

    attrs.epsilon = 0;
    for (int i = 0; i < 4; i++) {
        attrs.p = p[i];
        expect_finite(&f, &(struct bp_call){.size = sizeof(struct bp_call), .op = "lp_normalize",
                                            .in = in, .n_in = 1, .attrs = &attrs},
                      F64(0, 0, 0), F64(0, 0, 0));
    }
    bp_tensor_destroy(x);
    fixture_finish(&f);
}
