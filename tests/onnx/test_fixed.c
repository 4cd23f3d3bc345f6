/* SPDX-License-Identifier: Apache-2.0 */
/* test_fixed.c: tests plans that fix the values of small integer inputs, which nodes read while the
 * model is recorded. */
#include "../unit/fixture.h"
#include "fixed_models.h"
#include <backplane/model.h>
#include <pthread.h>

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

/* Whether the model has a program for the present values of its inputs. */
static bool fixed_is_planned(struct fixed *t)
{
    struct bp_program *program = NULL;
    enum bp_status status = bp_model_program(t->model, t->in, 2, &program);

    cr_expect(status == BP_OK || status == BP_ERR_UNSUPPORTED, "%s", bp_error_message());
    return status == BP_OK;
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

/* A graph for types alone does not exist, and a request for it leaves the model as it was. */
Test(fixed, no_graph_is_for_types_alone)
{
    struct fixed t = fixed_init(choose_model, sizeof choose_model);
    struct bp_graph *graph;

    for (int64_t k = 0; k < 4; k++) {
        graph = NULL;
        OK(bp_model_planned(t.model, t.in, 2, &graph));
        cr_expect(!graph);
        fixed_run(&t, k & 1, fixed_chosen);
        cr_expect(fixed_is_planned(&t));
    }
    fixed_finish(&t);
}

/* The second output depends on k alone, so that it is computed when the model is planned. */
Test(fixed, outputs_belong_to_the_caller)
{
    struct fixed t = fixed_init(counted_model, sizeof counted_model);
    const int64_t k = 3, other = 77;

    OK(bp_tensor_write(t.f.stream, t.in[1], &k, sizeof k));
    for (int i = 0; i < 3; i++) {
        struct bp_tensor *out[2] = {NULL, NULL};
        int64_t twice = 0;
        OK(bp_model_run(t.model, t.f.stream, t.in, 2, out, 2));
        OK(bp_tensor_read(t.f.stream, out[1], &twice, sizeof twice));
        cr_expect_eq(twice, 2 * k);
        OK(bp_tensor_write(t.f.stream, out[1], &other, sizeof other));
        for (int n = 0; n < 2; n++) bp_tensor_destroy(out[n]);
    }
    fixed_finish(&t);
}

Test(fixed, plans_do_not_keep_large_values)
{
    struct fixed t = fixed_init(wide_model, sizeof wide_model);
    static const int64_t counts[] = {100, 8 << 20, 50};

    for (int i = 0; i < 3; i++) {
        struct bp_tensor_info info = {.size = sizeof info};
        struct bp_tensor *y = NULL;
        OK(bp_tensor_write(t.f.stream, t.in[1], &counts[i], sizeof counts[i]));
        OK(bp_model_run(t.model, t.f.stream, t.in, 2, &y, 1));
        OK(bp_tensor_get_info(y, &info));
        cr_expect_eq(info.count, counts[i]);
        cr_expect_eq(fixed_is_planned(&t), counts[i] <= 100);
        bp_tensor_destroy(y);
    }
    fixed_finish(&t);
}

enum {
    THREADS = 16
};

struct starter {
    pthread_barrier_t *all;
    struct fixed *t;
};

static void *starter_run(void *arg)
{
    struct starter *s = arg;
    struct bp_stream *stream;
    struct bp_tensor *y = NULL;

    OK(bp_stream_create(s->t->f.device, &stream));
    pthread_barrier_wait(s->all);
    OK(bp_model_run(s->t->model, stream, s->t->in, 2, &y, 1));
    OK(bp_stream_synchronize(stream));
    bp_tensor_destroy(y);
    bp_stream_destroy(stream);
    return NULL;
}

/* Threads whose first runs have one value make one plan. */
Test(fixed, threads_share_plans)
{
    struct fixed t = fixed_init(repeat_model, sizeof repeat_model);
    pthread_t thread[THREADS];
    pthread_barrier_t all;
    struct starter starter = {&all, &t};
    const int64_t one = 1;

    OK(bp_tensor_write(t.f.stream, t.in[1], &one, sizeof one));
    pthread_barrier_init(&all, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, starter_run, &starter);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    pthread_barrier_destroy(&all);
    fixed_run(&t, 5, fixed_repeated);
    cr_expect(fixed_is_planned(&t));
    fixed_finish(&t);
}
