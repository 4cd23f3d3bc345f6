/* SPDX-License-Identifier: Apache-2.0 */
/* test_onednn_fused.c: tests how the cpu plugin computes fused_conv by oneDNN: large results image
 * by image, and never by an implementation that an addition makes slow. */
#include "fixture.h"

#include <backplane/ops.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Results of 4 MiB, 512 KiB an image: these are computed one by one. */
static const int64_t x_shape[] = {8, 2, 128, 128}, w_shape[] = {8, 2, 1, 1},
                     y_shape[] = {8, 8, 128, 128};
enum { ELEMENTS = 8 * 8 * 128 * 128 };

/* Creates numbers whose sums are exact, with a NaN; channels are innermost if `last`. */
static struct bp_tensor *fused_numbers(struct fixture *f, const int64_t *shape, bool last)
{
    int64_t count = shape[0] * shape[1] * shape[2] * shape[3];
    const int64_t stride[] = {count / shape[0], 1, shape[1] * shape[3], shape[1]};
    struct bp_tensor_options options = {.size = sizeof options, .dtype = BP_F32, .rank = 4,
                                        .shape = shape, .stride = last ? stride : NULL};
    float *data = malloc((size_t)count * sizeof *data);
    struct bp_tensor *dense, *t;

    cr_assert(data);
    for (int64_t i = 0; i < count; i++) data[i] = (float)(i * 37 % 101 % 9 - 4);
    if (last) data[count / 2] = NAN;
    dense = tensor_of(f, BP_F32, 4, shape, data);
    free(data);
    OK(bp_tensor_create_with(f->device, &options, &t));
    OK(bp_tensor_copy(f->stream, t, dense));
    bp_tensor_destroy(dense);
    return t;
}

static float *fused_read(struct fixture *f, struct bp_tensor *y)
{
    float *to = malloc(ELEMENTS * sizeof *to);
    struct bp_tensor *dense;

    cr_assert(to);
    OK(bp_tensor_create(f->device, BP_F32, 4, y_shape, &dense));
    OK(bp_tensor_copy(f->stream, dense, y));
    OK(bp_tensor_read(f->stream, dense, to, ELEMENTS * sizeof *to));
    bp_tensor_destroy(dense);
    return to;
}

static float *fused_expected(struct fixture *f, struct bp_tensor *x, struct bp_tensor *w,
                             struct bp_tensor *residual)
{
    struct bp_conv_attrs plain = bp_conv_defaults();
    struct bp_tensor *y = NULL, *sum = NULL, *result = NULL;
    float *to;

    OK(bp_op_conv(f->scope, x, w, NULL, &plain, &y));
    if (residual) OK(bp_op_add(f->scope, y, residual, &sum));
    OK(bp_op_relu(f->scope, residual ? sum : y, &result));
    to = fused_read(f, result);
    bp_tensor_destroy(y), bp_tensor_destroy(sum), bp_tensor_destroy(result);
    return to;
}

/* Runs the row of oneDNN; false: it is not there. */
static bool fused_run(struct fixture *f, struct bp_tensor *x, struct bp_tensor *w,
                      struct bp_tensor *residual, struct bp_tensor **y)
{
    struct bp_fused_conv_attrs attrs = bp_fused_conv_defaults();
    struct bp_arg in[] = {{&x, 1}, {&w, 1}, {NULL, 0}, {&residual, 1}};
    struct bp_call call = {.size = sizeof call, .op = "fused_conv", .in = in,
                           .n_in = residual ? 4 : 3, .attrs = &attrs,
                           .kernel = "cpu_fused_conv_f32_dnnl"};
    enum bp_status status;

    attrs.activation = BP_ACTIVATION_RELU;
    status = bp_call_run(f->scope, &call, y, 1, NULL);
    if (status == BP_ERR_NO_KERNEL) return false;
    OK(status);
    return true;
}

static void fused_compare(float *got, float *expected, const char *what)
{
    int64_t wrong = 0, nan = 0;

    for (int64_t i = 0; i < ELEMENTS; i++) {
        nan += isnan(expected[i]);
        wrong += isnan(expected[i]) ? !isnan(got[i]) : got[i] != expected[i];
    }
    cr_expect_eq(wrong, 0, "%s: %lld elements are wrong", what, (long long)wrong);
    cr_expect(nan > 0, "%s: the input has no NaN", what);
    free(got);
    free(expected);
}

Test(onednn_fused, images_one_by_one_equal_separate_calls)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = fused_numbers(&f, x_shape, true), *w = fused_numbers(&f, w_shape, false);
    struct bp_tensor *residual = fused_numbers(&f, y_shape, true), *y = NULL, *over = residual;

    if (!fused_run(&f, x, w, NULL, &y))
        cr_skip("no plan is of oneDNN here: it is not installed, or off");
    fused_compare(fused_read(&f, y), fused_expected(&f, x, w, NULL), "without a residual");
    bp_tensor_destroy(y);
    y = NULL;
    cr_assert(fused_run(&f, x, w, residual, &y));
    float *expected = fused_expected(&f, x, w, residual);
    fused_compare(fused_read(&f, y), expected, "with a residual");
    expected = fused_expected(&f, x, w, residual);
    cr_assert(fused_run(&f, x, w, residual, &over));
    fused_compare(fused_read(&f, residual), expected, "over the residual");
    bp_tensor_destroy(x), bp_tensor_destroy(w), bp_tensor_destroy(residual), bp_tensor_destroy(y);
    fixture_finish(&f);
}

/* Returns how many primitives were created by the lines of the library's log in `file`, and expects
 * that none is a reference implementation and none that adds is GEMM. */
static int fused_check_log(FILE *file, const char *what)
{
    char line[1024];
    int made = 0;

    rewind(file);
    while (fgets(line, sizeof line, file)) {
        const char *kind = strstr(line, ",cpu,");
        if (!kind || !strstr(line, "create")) continue;
        made++;
        cr_expect(!strstr(kind, ",ref") && !strstr(kind, ":ref"), "%s: %s", what, line);
        cr_expect(!strstr(kind, "gemm") || !strstr(kind, "sum"), "%s: %s", what, line);
    }
    return made;
}

/* Prepares a convolution whose channels are innermost or not, on whichever row takes it. */
static void fused_prepare(struct fixture *f, bool last, bool point)
{
    const int64_t x_of[] = {1, 32, 16, 16}, w_of[] = {48, 32, point ? 1 : 3, point ? 1 : 3},
                  y_of[] = {1, 48, point ? 16 : 14, point ? 16 : 14};
    struct bp_tensor *x = fused_numbers(f, x_of, last), *w = fused_numbers(f, w_of, false),
                     *residual = fused_numbers(f, y_of, last);
    struct bp_fused_conv_attrs attrs = bp_fused_conv_defaults();
    struct bp_arg in[] = {{&x, 1}, {&w, 1}, {NULL, 0}, {&residual, 1}};
    struct bp_call call = {.size = sizeof call, .op = "fused_conv", .in = in, .n_in = 4,
                           .attrs = &attrs};
    struct bp_prepared *p;

    attrs.activation = BP_ACTIVATION_RELU;
    OK(bp_prepared_create(f->device, &call, NULL, 0, &p));
    bp_prepared_destroy(p);
    bp_tensor_destroy(x), bp_tensor_destroy(w), bp_tensor_destroy(residual);
}

Test(onednn_fused, additions_never_slow_an_implementation)
{
    int made = 0;

    setenv("DNNL_VERBOSE", "2", 1); /* 2: logs creations too */
    for (int i = 0; i < 4; i++) {
        struct fixture f = fixture_init();
        FILE *file = tmpfile();
        int stdout_was = dup(STDOUT_FILENO);
        cr_assert(file && stdout_was >= 0);
        fflush(stdout);
        dup2(fileno(file), STDOUT_FILENO);
        fused_prepare(&f, i & 1, i & 2);
        fflush(stdout);
        dup2(stdout_was, STDOUT_FILENO);
        close(stdout_was);
        made += fused_check_log(file, i & 1 ? "channels innermost" : "row-major");
        fclose(file);
        fixture_finish(&f);
    }
    if (!made) cr_skip("no plan is of oneDNN here: it is not installed, or off");
}
