/* SPDX-License-Identifier: Apache-2.0 */
/* test_step.c: tests random numbers, optimizers and quantisation where the suite `kernel` does not:
 * inputs that fail a launch, arguments that are refused, and results that were computed by hand. */
#include "fixture.h"

#include <math.h>

/* Makes one call of an operator on up to eight inputs. */
static enum bp_status step_call(struct fixture *f, const char *op, const void *attrs, size_t n,
                                struct bp_tensor *const *in, struct bp_tensor **out, size_t n_out)
{
    struct bp_arg arg[8];
    struct bp_call c = {.size = sizeof c, .op = op, .in = arg, .n_in = n, .attrs = attrs};

    for (size_t i = 0; i < n; i++) arg[i] = (struct bp_arg){&in[i], in[i] != NULL};
    return bp_call_run(f->scope, &c, out, n_out, NULL);
}

static struct bp_tensor *line_of(struct fixture *f, int64_t n, const float *at)
{
    return tensor_of(f, BP_F32, 1, &n, at);
}

static void step_destroy(struct bp_tensor **t, size_t n)
{
    for (size_t i = 0; i < n; i++) bp_tensor_destroy(t[i]), t[i] = NULL;
}

/* Tests invalid weights, and fewer nonzero weights than samples. */
Test(step, multinomial_fails_on_bad_weights)
{
    static const float bad[][3] = {{1, -1, 2}, {1, NAN, 2}, {1, INFINITY, 2}, {0, 0, 0}};
    static const float few[] = {0, 1, 0};
    struct fixture f = fixture_init();
    struct bp_multinomial_attrs two = bp_multinomial_defaults();
    struct bp_tensor *out = NULL, *x;

    two.n = 2;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        for (two.replacement = 0; two.replacement < 2; two.replacement++) {
            x = line_of(&f, 3, bad[i]);
            FAILS(BP_ERR_FAULT, "bad values", step_call(&f, "multinomial", &two, 1, &x, &out, 1));
            bp_tensor_destroy(out);
            bp_tensor_destroy(x);
            out = NULL;
        }
    x = line_of(&f, 3, few);
    two.replacement = 0;
    FAILS(BP_ERR_FAULT, "bad values", step_call(&f, "multinomial", &two, 1, &x, &out, 1));
    bp_tensor_destroy(out);
    out = NULL;
    two.replacement = 1;
    OK(step_call(&f, "multinomial", &two, 1, &x, &out, 1));
    expect_bytes(&f, out, ((const int64_t[]){1, 1}), 16);
    bp_tensor_destroy(out);
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

Test(step, masked_scatter_fails_on_a_short_source)
{
    static const uint8_t mask[] = {1, 0, 1, 1};
    struct fixture f = fixture_init();
    struct bp_tensor *in[3], *out = NULL;

    in[0] = line_of(&f, 4, (const float[]){1, 2, 3, 4});
    in[1] = tensor_of(&f, BP_BOOL, 1, SHAPE(4), mask);
    in[2] = line_of(&f, 2, (const float[]){5, 6});
    FAILS(BP_ERR_FAULT, "bad values", step_call(&f, "masked_scatter", NULL, 3, in, &out, 1));
    step_destroy(&out, 1);
    bp_tensor_destroy(in[2]);
    in[2] = line_of(&f, 3, (const float[]){5, 6, 7});
    OK(step_call(&f, "masked_scatter", NULL, 3, in, &out, 1));
    expect_bytes(&f, out, ((const float[]){5, 2, 6, 7}), 16);
    step_destroy(&out, 1);
    step_destroy(in, 3);
    fixture_finish(&f);
}

/* The first step of adam has the length of the learning rate, for any gradient. */
Test(step, adam_begins_with_a_step_of_lr)
{
    struct fixture f = fixture_init();
    struct bp_tensor *in[8] = {NULL}, *out[6] = {NULL};
    float p[2], power;

    in[0] = line_of(&f, 2, (const float[]){1, 1});
    in[1] = line_of(&f, 2, (const float[]){0.5f, -20});
    in[2] = line_of(&f, 1, (const float[]){0.125f});
    in[3] = line_of(&f, 2, (const float[]){0, 0});
    in[4] = line_of(&f, 2, (const float[]){0, 0});
    in[5] = line_of(&f, 1, (const float[]){0.9f});
    in[6] = line_of(&f, 1, (const float[]){0.999f});
    OK(step_call(&f, "adam", NULL, 7, in, out, 5));
    OK(bp_tensor_read(f.stream, in[0], p, sizeof p));
    OK(bp_tensor_read(f.stream, in[5], &power, sizeof power));
    cr_assert_float_eq(p[0], 0.875, 1e-5);
    cr_assert_float_eq(p[1], 1.125, 1e-5);
    cr_assert_float_eq(power, 0.81, 1e-6);
    step_destroy(out, 6);
    FAILS(BP_ERR_INVALID, "which is absent",
          step_call(&f, "adam", NULL, 7, in, out, 6)); /* output 5 updates an absent input */
    step_destroy(out, 6);
    step_destroy(in, 8);
    fixture_finish(&f);
}

Test(step, wrong_states_are_refused)
{
    struct fixture f = fixture_init();
    struct bp_dropout_attrs drop = bp_dropout_defaults();
    struct bp_randint_attrs ints = bp_randint_defaults();
    struct bp_adam_attrs adam = bp_adam_defaults();
    struct bp_tensor *x = line_of(&f, 2, (const float[]){1, 2}), *out[6] = {NULL};
    struct bp_tensor *wide = tensor_of(&f, BP_F64, 1, SHAPE(1), NULL);
    struct bp_tensor *in[7] = {x, x, wide, x, x, wide, wide}, *none = NULL;

    drop.p = 1.5;
    FAILS(BP_ERR_INVALID, "p is 1.5, expected 0 to 1",
          step_call(&f, "dropout", &drop, 1, &x, out, 2));
    ints.low = ints.high = 3;
    FAILS(BP_ERR_INVALID, "expected low below high",
          step_call(&f, "randint", &ints, 1, &none, out, 1));
    adam.beta1 = 1;
    FAILS(BP_ERR_INVALID, "beta1 is 1", step_call(&f, "adam", &adam, 7, in, out, 5));
    FAILS(BP_ERR_INVALID, "expected", step_call(&f, "adam", NULL, 7, in, out, 5));
    bp_tensor_destroy(wide);
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

/* The example of ONNX's specification of QuantizeLinear. */
Test(step, quantize_linear_as_onnx_has_it)
{
    static const uint8_t zero = 128, expected[] = {128, 129, 130, 255, 1, 0};
    struct fixture f = fixture_init();
    struct bp_tensor *in[3], *out = NULL;

    in[0] = line_of(&f, 6, (const float[]){0, 2, 3, 1000, -254, -1000});
    in[1] = tensor_of(&f, BP_F32, 0, NULL, (const float[]){2});
    in[2] = tensor_of(&f, BP_U8, 0, NULL, &zero);
    OK(step_call(&f, "quantize_linear", NULL, 3, in, &out, 1));
    expect_bytes(&f, out, expected, sizeof expected);
    step_destroy(&out, 1);
    step_destroy(in, 3);
    fixture_finish(&f);
}
