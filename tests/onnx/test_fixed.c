/* SPDX-License-Identifier: Apache-2.0 */
/* test_fixed.c: tests plans that fix the values of small integer inputs, which nodes read while the
 * model is recorded. */
#include "../unit/fixture.h"
#include "fixed_models.h"
#include <backplane/model.h>

static const float x_data[4] = {1, -2, 3, 0.5f};

/* A model with its inputs x and k. */
struct fixed {
    struct fixture f;
    struct bp_model *model;
    struct bp_tensor *in[2];
};

static struct fixed fixed_init(const char *data, size_t size)
{
    struct fixed t = {.f = fixture_init()};
    const int64_t zero = 0;

    OK(bp_model_load_memory(t.f.device, data, size - 1, NULL, &t.model));
    t.in[0] = tensor_of(&t.f, BP_F32, 1, (const int64_t[]){4}, x_data);
    t.in[1] = tensor_of(&t.f, BP_I64, 0, NULL, &zero);
    return t;
}

static void fixed_finish(struct fixed *t)
{
    for (int i = 0; i < 2; i++) bp_tensor_destroy(t->in[i]);
    bp_model_destroy(t->model);
    fixture_finish(&t->f);
}

/* Runs the model with k, and compares each element i with expected(x[i], k). */
static void fixed_run(struct fixed *t, int64_t k, float (*expected)(float x, int64_t k))
{
    struct bp_tensor *y = NULL;
    float got[4];

    OK(bp_tensor_write(t->f.stream, t->in[1], &k, sizeof k));
    OK(bp_model_run(t->model, t->f.stream, t->in, 2, &y, 1));
    OK(bp_tensor_read(t->f.stream, y, got, sizeof got));
    for (int i = 0; i < 4; i++)
        cr_expect(got[i] == expected(x_data[i], k), "k %d: element %d is %g, expected %g", (int)k,
                  i, (double)got[i], (double)expected(x_data[i], k));
    bp_tensor_destroy(y);
}

/* Whether the model is recorded for the present values of its inputs. */
static bool fixed_is_planned(struct fixed *t)
{
    struct bp_graph *graph = NULL;

    OK(bp_model_planned(t->model, t->in, 2, &graph));
    return graph != NULL;
}

static float fixed_chosen(float x, int64_t k)
{
    return k ? x + x : x * x;
}

static float fixed_repeated(float x, int64_t k)
{
    return x * (float)(1 << k);
}

static float fixed_of_both(float x, int64_t k)
{
    return k < 3 ? x + x : x * x;
}

Test(fixed, branch_follows_an_input)
{
    static const int64_t order[] = {1, 0, 1, 1, 0, 2, 0};
    struct fixed t = fixed_init(choose_model, sizeof choose_model);

    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        fixed_run(&t, order[i], fixed_chosen);
        cr_expect(fixed_is_planned(&t), "k %d: no graph", (int)order[i]);
    }
    fixed_finish(&t);
}

Test(fixed, trip_count_follows_an_input)
{
    struct fixed t = fixed_init(repeat_model, sizeof repeat_model);

    for (int64_t k = 0; k < 5; k++) {
        fixed_run(&t, k, fixed_repeated);
        cr_expect(fixed_is_planned(&t), "k %d: no graph", (int)k);
    }
    fixed_finish(&t);
}

Test(fixed, input_that_changes_with_each_run_is_not_fixed_for_long)
{
    struct fixed t = fixed_init(repeat_model, sizeof repeat_model);

    for (int round = 0; round < 3; round++)
        for (int64_t k = 0; k < 20; k++) fixed_run(&t, k, fixed_repeated);
    cr_expect(!fixed_is_planned(&t));
    fixed_finish(&t);
}

/* x is no integer, so the condition is not known before a run. */
Test(fixed, condition_on_other_data_is_computed_in_each_run)
{
    struct fixed t = fixed_init(of_both_model, sizeof of_both_model);

    for (int64_t k = 1; k < 6; k++) {
        fixed_run(&t, k, fixed_of_both);
        cr_expect(!fixed_is_planned(&t), "k %d: it has a graph", (int)k);
    }
    fixed_finish(&t);
}

/* A second model of the same file writes into a tensor of the caller. */
Test(fixed, given_output_follows_an_input)
{
    struct fixed t = fixed_init(choose_model, sizeof choose_model);
    struct bp_model *again;
    struct bp_tensor *y = NULL;
    float got[4];

    fixed_run(&t, 1, fixed_chosen);
    OK(bp_model_load_memory(t.f.device, choose_model, sizeof choose_model - 1, NULL, &again));
    OK(bp_tensor_create(t.f.device, BP_F32, 1, (const int64_t[]){4}, &y));
    for (int64_t k = 0; k < 4; k++) {
        const int64_t given = k & 1;
        OK(bp_tensor_write(t.f.stream, t.in[1], &given, sizeof given));
        OK(bp_model_run_into(again, t.f.stream, t.in, 2, &y, NULL, 1));
        OK(bp_tensor_read(t.f.stream, y, got, sizeof got));
        for (int i = 0; i < 4; i++) cr_expect(got[i] == fixed_chosen(x_data[i], given));
    }
    bp_tensor_destroy(y);
    bp_model_destroy(again);
    fixed_finish(&t);
}
