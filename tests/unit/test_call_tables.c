/* SPDX-License-Identifier: Apache-2.0 */
/* test_call_tables.c: tests how many plans the tables of calls keep, and that plans in use stay.
 * The fake device "partial" counts its plans: each subtraction has one, and so has each mse_loss,
 * which runs as four steps there. */
#include "../devices/fake.h"
#include "fixture.h"

#include <semaphore.h>
#include <stdlib.h>

enum {
    STREAM = 4096,                     /* steps that the table of a stream keeps */
    DEVICE = 16384,                    /* the same of the table of a device */
    STEPS = 4,                         /* of mse_loss */
    LOSSES = (DEVICE + STREAM) / STEPS /* calls of mse_loss that both tables keep together */
};

static struct fixture tables_open(uint32_t flags)
{
    struct fixture f;
    uint32_t index;

    setenv("BP_FALLBACK", "deny", 1);
    setenv("BP_LOG", "error", 1);
    OK(bp_core_create(NULL, &f.core));
    OK(bp_core_load_path(f.core, HOSTILE_DIR "/bp_partial.so", &index));
    OK(bp_device_create_at(f.core, index, 0, &f.device));
    OK(bp_stream_create_with(f.device, flags, &f.stream));
    f.scope = bp_stream_scope(f.stream);
    return f;
}

static int tables_plans(void)
{
    struct fake *fake = fake_of(HOSTILE_DIR "/bp_partial.so");

    cr_assert_not_null(fake);
    return fake->plans;
}

static struct bp_call_stats tables_calls(struct fixture *f)
{
    struct bp_call_stats s = {.size = sizeof s};

    OK(bp_stream_calls(f->stream, &s));
    return s;
}

/* Closes the fixture, and expects that no plan is left. */
static void tables_close(struct fixture *f)
{
    fixture_finish(f);
    cr_assert_eq(tables_plans(), 0);
}

/* Calls sub or mse_loss with tensors of shape number n, which have few elements: up to 21,875
 * numbers are different shapes. */
static void call_of(struct fixture *f, bool loss, int64_t n)
{
    int64_t shape[6] = {1 + n % 5,       1 + n / 5 % 5,   1 + n / 25 % 5,
                        1 + n / 125 % 5, 1 + n / 625 % 5, 1 + n / 3125};
    struct bp_tensor *x, *z = NULL;

    OK(bp_tensor_create(f->device, BP_F32, 6, shape, &x));
    OK(loss ? bp_op_mse_loss(f->scope, x, x, &z) : bp_op_sub(f->scope, x, x, &z));
    bp_tensor_destroy(z);
    bp_tensor_destroy(x);
}

/* Which of several calls goes depends on hashes. The stream's table may keep calls that the
 * device's table has forgotten. */
Test(call_tables, one_operator_with_many_shapes)
{
    struct fixture f = tables_open(BP_STREAM_INLINE);

    for (int64_t n = 1; n <= DEVICE + STREAM + 300; n++) call_of(&f, false, n);
    cr_assert_geq(tables_plans(), DEVICE);
    cr_assert_leq(tables_plans(), DEVICE + STREAM);
    cr_assert_eq(tables_calls(&f).entries, STREAM);
    tables_close(&f);
}

Test(call_tables, a_call_counts_as_its_steps)
{
    struct fixture f = tables_open(BP_STREAM_INLINE);
    uint64_t prepared;

    for (int64_t n = 2; n <= LOSSES + 300; n++) {
        call_of(&f, true, n);
        call_of(&f, true, 1);
    }
    cr_assert_geq(tables_plans(), DEVICE / STEPS);
    cr_assert_leq(tables_plans(), LOSSES);
    cr_assert_eq(tables_calls(&f).entries, STREAM / STEPS);
    prepared = tables_calls(&f).prepared;
    call_of(&f, true, 1);
    call_of(&f, true, LOSSES + 300);
    cr_assert_eq(tables_calls(&f).prepared, prepared, "a call in use was forgotten");
    tables_close(&f);
}

/* A call of several steps takes the place of as many calls of one step. It is called twice, so that
 * calls which are unused go first. */
Test(call_tables, large_calls_take_the_place_of_several_small_ones)
{
    enum {
        N = 100
    };
    struct fixture f = tables_open(BP_STREAM_INLINE);

    for (int64_t n = 1; n <= STREAM; n++) call_of(&f, false, n);
    cr_assert_eq(tables_calls(&f).entries, STREAM);
    for (int64_t n = 1; n <= N; n++) {
        call_of(&f, true, n);
        call_of(&f, true, n);
    }
    cr_assert_eq(tables_calls(&f).entries, STREAM - N * STEPS + N);
    tables_close(&f);
}

/* Plans of streams that are destroyed go; those of the device's table stay. */
Test(call_tables, streams_share_plans)
{
    struct fixture f = tables_open(BP_STREAM_INLINE), g = f;

    OK(bp_stream_create_with(f.device, BP_STREAM_INLINE, &g.stream));
    g.scope = bp_stream_scope(g.stream);
    for (int64_t n = 1; n <= 50; n++) {
        call_of(&f, false, n);
        call_of(&g, false, n);
    }
    cr_assert_eq(tables_plans(), 50);
    bp_stream_destroy(g.stream);
    cr_assert_eq(tables_plans(), 50);
    tables_close(&f);
}

Test(call_tables, a_prepared_call_stays)
{
    struct fixture f = tables_open(BP_STREAM_INLINE);
    struct bp_tensor *x = tensor_of(&f, BP_F32, 1, SHAPE(2), F32(1, 5));
    struct bp_tensor *y = tensor_of(&f, BP_F32, 1, SHAPE(2), F32(3, 2));
    struct bp_tensor *z = tensor_of(&f, BP_F32, 1, SHAPE(2), NULL);
    struct bp_arg in[2] = {{&x, 1}, {&y, 1}};
    struct bp_call call = {.size = sizeof call, .op = "sub", .in = in, .n_in = 2};
    struct bp_prepared *p;

    OK(bp_prepared_create(f.device, &call, NULL, 0, &p));
    for (int64_t n = 1; n <= LOSSES + 300; n++) call_of(&f, true, n);
    cr_assert_leq(tables_plans(), LOSSES + 1);
    OK(bp_prepared_run(p, f.stream, (struct bp_tensor *[]){x, y}, 2, &z, 1, NULL));
    expect_bytes(&f, z, F32(-2, 3), 8);
    bp_prepared_destroy(p);
    bp_tensor_destroy(x), bp_tensor_destroy(y), bp_tensor_destroy(z);
    tables_close(&f);
}

static void callback_wait(void *ctx, enum bp_status status)
{
    cr_expect_eq(status, BP_OK);
    while (sem_wait(ctx)) continue;
}

static void callback_report(void *ctx, enum bp_status status)
{
    cr_expect_eq(status, BP_OK);
    sem_post(ctx);
}

/* A launch that waits in a queue keeps its plan, although its stream is destroyed, and the table of
 * the device has forgotten the call: so many others come that it replaces all its calls. */
Test(call_tables, the_plan_of_a_queued_launch_stays)
{
    struct fixture f = tables_open(BP_STREAM_INLINE);
    struct bp_tensor *x = tensor_of(&f, BP_F32, 1, SHAPE(2), F32(1, 5)), *z = NULL, *again = NULL;
    struct bp_tensor *y = tensor_of(&f, BP_F32, 1, SHAPE(2), F32(3, 2));
    struct bp_stream *queued;
    uint64_t prepared;
    sem_t go, done;

    sem_init(&go, 0, 0);
    sem_init(&done, 0, 0);
    OK(bp_stream_create_with(f.device, BP_STREAM_ASYNC, &queued));
    OK(bp_stream_callback(queued, callback_wait, &go));
    OK(bp_op_sub(bp_stream_scope(queued), x, y, &z));
    OK(bp_stream_callback(queued, callback_report, &done));
    bp_stream_destroy(queued);
    for (int64_t n = 1; n <= 3 * DEVICE / STEPS; n++) call_of(&f, true, n);
    sem_post(&go);
    callback_wait(&done, BP_OK);
    expect_bytes(&f, z, F32(-2, 3), 8);
    prepared = tables_calls(&f).prepared;
    OK(bp_op_sub(f.scope, x, y, &again));
    cr_assert_eq(tables_calls(&f).prepared, prepared + 1, "the call was not forgotten");
    bp_tensor_destroy(x), bp_tensor_destroy(y), bp_tensor_destroy(z), bp_tensor_destroy(again);
    tables_close(&f);
    sem_destroy(&go);
    sem_destroy(&done);
}
