/* SPDX-License-Identifier: Apache-2.0 */
/* test_outputs.c: tests runs of a model with tensors of the caller as outputs, and with a part of
 * the outputs. */
#include "../unit/fixture.h"
#include "output_models.h"
#include <backplane/model.h>

static const float x_data[8] = {1, -2, 0, 4, -5, 6, 7, 0};

static struct bp_model *outputs_load(struct fixture *f, const char *data, size_t size)
{
    struct bp_model *model;

    OK(bp_model_load_memory(f->device, data, size - 1, NULL, &model));
    return model;
}

static struct bp_tensor *outputs_x(struct fixture *f)
{
    return tensor_of(f, BP_F32, 2, (const int64_t[]){2, 4}, x_data);
}

static struct bp_tensor *outputs_index(struct fixture *f, int64_t i)
{
    return tensor_of(f, BP_I64, 0, NULL, &i);
}

static struct bp_tensor *outputs_new(struct fixture *f, enum bp_dtype dtype, uint32_t rank,
                                     const int64_t *shape)
{
    struct bp_tensor *t;

    OK(bp_tensor_create(f->device, dtype, rank, shape, &t));
    return t;
}

/* The allocations of a run whose outputs are destroyed afterwards, unless they are given. */
static uint64_t outputs_allocations(struct fixture *f, struct bp_model *model,
                                    struct bp_tensor **in, struct bp_tensor *given)
{
    struct bp_memory_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    struct bp_tensor *out[2] = {given, NULL};

    OK(bp_device_memory(f->device, &before));
    OK(bp_model_run_into(model, f->stream, in, 2, out, (const uint8_t[]){1, 0}, 2));
    OK(bp_device_memory(f->device, &after));
    if (!given) bp_tensor_destroy(out[0]);
    return after.allocations - before.allocations;
}

Test(outputs, given_tensor_is_written_without_a_copy)
{
    struct fixture f = fixture_init();
    struct bp_model *model = outputs_load(&f, two_outputs, sizeof two_outputs);
    struct bp_tensor *in[2] = {outputs_x(&f), outputs_index(&f, 1)};
    struct bp_tensor *y = outputs_new(&f, BP_F32, 2, (const int64_t[]){2, 4}), *out[2] = {y, NULL};
    float got[8];

    OK(bp_model_run_into(model, f.stream, in, 2, out, NULL, 2));
    cr_expect(out[0] == y && out[1]);
    OK(bp_tensor_read(f.stream, y, got, sizeof got));
    for (int i = 0; i < 8; i++) cr_expect(got[i] == 2 * x_data[i]);
    OK(bp_tensor_read(f.stream, out[1], got, 4 * sizeof *got));
    for (int i = 0; i < 4; i++) cr_expect(got[i] == x_data[4 + i]);
    (void)outputs_allocations(&f, model, in, NULL); /* plans it */
    cr_expect_eq(outputs_allocations(&f, model, in, NULL), 1);
    cr_expect_eq(outputs_allocations(&f, model, in, y), 0);
    for (int i = 0; i < 2; i++) bp_tensor_destroy(out[i]);
    for (int i = 0; i < 2; i++) bp_tensor_destroy(in[i]);
    bp_model_destroy(model);
    fixture_finish(&f);
}

/* Runs a model whose output 1 cannot be computed: row 9 of 2. */
static void outputs_part(const char *data, size_t size, const float *expected, int64_t count)
{
    struct fixture f = fixture_init();
    struct bp_model *model = outputs_load(&f, data, size);
    struct bp_tensor *in[2] = {outputs_x(&f), outputs_index(&f, 9)}, *mark = in[0];
    struct bp_tensor *out[2] = {NULL, mark};
    float got[8];

    for (int round = 0; round < 2; round++) {
        OK(bp_model_run_into(model, f.stream, in, 2, out, (const uint8_t[]){2, 0}, 2));
        cr_expect(out[1] == mark, "an output that is not wanted was set");
        OK(bp_tensor_read(f.stream, out[0], got, (size_t)count * sizeof *got));
        cr_expect_arr_eq(got, expected, (size_t)count * sizeof *got);
        bp_tensor_destroy(out[0]);
        out[0] = out[1] = NULL;
        cr_expect(bp_model_run_into(model, f.stream, in, 2, out, NULL, 2) ||
                  bp_stream_synchronize(f.stream), "row 9 of 2 was computed");
        cr_expect(strstr(bp_error_message(), "gather"), "%s", bp_error_message());
        for (int i = 0; i < 2; i++) bp_tensor_destroy(out[i]);
        bp_stream_destroy(f.stream);
        OK(bp_stream_create(f.device, &f.stream));
        out[0] = NULL;
        out[1] = mark;
    }
    for (int i = 0; i < 2; i++) bp_tensor_destroy(in[i]);
    bp_model_destroy(model);
    fixture_finish(&f);
}

Test(outputs, nodes_of_unwanted_outputs_are_not_run)
{
    float twice[8];
    const float indices = 12; /* two for each of six elements */

    for (int i = 0; i < 8; i++) twice[i] = 2 * x_data[i];
    outputs_part(two_outputs, sizeof two_outputs, twice, 8);
    outputs_part(two_of_data, sizeof two_of_data, &indices, 1);
}

/* A model that depends on data, a view, a constant and one value twice are copied. */
Test(outputs, given_tensors_of_all_kinds_are_written)
{
    struct fixture f = fixture_init();
    struct bp_model *same = outputs_load(&f, same_outputs, sizeof same_outputs);
    struct bp_model *of_data = outputs_load(&f, two_of_data, sizeof two_of_data);
    struct bp_tensor *in[2] = {outputs_x(&f), outputs_index(&f, 0)};
    struct bp_tensor *out[4] = {outputs_new(&f, BP_F32, 2, (const int64_t[]){2, 4}),
                                outputs_new(&f, BP_F32, 2, (const int64_t[]){2, 4}),
                                outputs_new(&f, BP_F32, 2, (const int64_t[]){4, 2}),
                                outputs_new(&f, BP_F32, 1, (const int64_t[]){2})};
    struct bp_tensor *two[2] = {outputs_new(&f, BP_F32, 0, NULL), NULL};
    float y[8], z[8], t[8], c[2], n;

    OK(bp_model_run_into(same, f.stream, in, 1, out, NULL, 4));
    OK(bp_tensor_read(f.stream, out[0], y, sizeof y));
    OK(bp_tensor_read(f.stream, out[1], z, sizeof z));
    OK(bp_tensor_read(f.stream, out[2], t, sizeof t));
    OK(bp_tensor_read(f.stream, out[3], c, sizeof c));
    for (int i = 0; i < 8; i++) {
        float expected = x_data[i] > 0 ? x_data[i] : 0;
        cr_expect(y[i] == expected && z[i] == expected && t[i % 4 * 2 + i / 4] == expected);
    }
    cr_expect(c[0] == 5 && c[1] == 6);
    OK(bp_model_run_into(of_data, f.stream, in, 2, two, (const uint8_t[]){1, 0}, 2));
    OK(bp_tensor_read(f.stream, two[0], &n, sizeof n));
    cr_expect_eq(n, 12);
    for (int i = 0; i < 4; i++) bp_tensor_destroy(out[i]);
    for (int i = 0; i < 2; i++) bp_tensor_destroy(in[i]);
    bp_tensor_destroy(two[0]);
    bp_model_destroy(same);
    bp_model_destroy(of_data);
    fixture_finish(&f);
}

/* Expects that a given tensor for output 0 is refused, and that the other output is not set. */
static void outputs_refuse(struct fixture *f, struct bp_model *model, struct bp_tensor *given,
                           const char *word)
{
    struct bp_tensor *in[2] = {outputs_x(f), outputs_index(f, 0)}, *out[2] = {given, NULL};

    cr_expect_eq(bp_model_run_into(model, f->stream, in, 2, out, NULL, 2), BP_ERR_INVALID);
    cr_expect(strstr(bp_error_message(), word), "'%s' is not in: %s", word, bp_error_message());
    cr_expect(out[0] == given && !out[1]);
    for (int i = 0; i < 2; i++) bp_tensor_destroy(in[i]);
}

Test(outputs, wrong_tensors_are_refused)
{
    struct fixture f = fixture_init();
    struct bp_model *model[2] = {outputs_load(&f, two_outputs, sizeof two_outputs),
                                 outputs_load(&f, two_of_data, sizeof two_of_data)};
    struct bp_tensor *wide = outputs_new(&f, BP_F32, 2, (const int64_t[]){2, 5});
    struct bp_tensor *whole = outputs_new(&f, BP_I32, 2, (const int64_t[]){2, 4});

    outputs_refuse(&f, model[0], wide, "output y: the given tensor is f32 [2, 5], expected f32 [2, "
                                       "4]");
    outputs_refuse(&f, model[0], whole, "is i32 [2, 4], expected f32 [2, 4]");
    outputs_refuse(&f, model[1], wide, "output y: the given tensor is f32 [2, 5], expected f32 []");
    outputs_refuse(&f, model[0], (struct bp_tensor *)f.stream, "output y: expected NULL or a "
                                                               "tensor");
    bp_tensor_destroy(wide);
    bp_tensor_destroy(whole);
    for (int i = 0; i < 2; i++) bp_model_destroy(model[i]);
    fixture_finish(&f);
}

/* The types of outputs are known before a run: for all values of the inputs, for the given ones
 * only, or, if they depend on data, not at all. */
Test(outputs, types_are_known_before_a_run)
{
    struct fixture f = fixture_init();
    struct bp_model *same = outputs_load(&f, same_outputs, sizeof same_outputs),
                    *data = outputs_load(&f, nonzero_output, sizeof nonzero_output);
    struct bp_tensor *x = outputs_x(&f), *made[4];
    struct bp_model_type type[4];
    uint32_t by_values = 7;

    OK(bp_model_output_types(same, f.stream, &x, 1, type, 4, &by_values));
    cr_expect_eq(by_values, 0);
    OK(bp_model_run(same, f.stream, &x, 1, made, 4));
    for (int i = 0; i < 4; i++) {
        struct bp_tensor_info info = {.size = sizeof info};
        OK(bp_tensor_get_info(made[i], &info));
        cr_expect(type[i].is_known && type[i].dtype == info.dtype && type[i].rank == info.rank);
        cr_expect_arr_eq(type[i].shape, info.shape, info.rank * sizeof(int64_t));
        bp_tensor_destroy(made[i]);
    }
    OK(bp_model_output_types(data, f.stream, &x, 1, type, 1, NULL));
    cr_expect_eq(type[0].is_known, 0, "an upper bound is no extent");
    bp_tensor_destroy(x);
    bp_model_destroy(same), bp_model_destroy(data);
    fixture_finish(&f);
}
