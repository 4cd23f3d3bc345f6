/* SPDX-License-Identifier: Apache-2.0 */
/* test_across.c: tests devices of several kinds in one process. Tensors move between each two of
 * them, an event of one blocks a stream of another, a call with inputs of two devices is refused by
 * name, and threads use both. */
#include "../unit/fixture.h"

#include <pthread.h>
#include <stdlib.h>

enum { PLACES = 3, N = 100003, ROUNDS = 20 };
static const char *const names[PLACES] = {"cpu:0", "xpu:0", "xpu:1"};

struct world {
    struct fixture at[PLACES];
};

static struct world world_init(void)
{
    struct world w;

    OK(bp_core_create(NULL, &w.at[0].core));
    for (int i = 0; i < PLACES; i++) {
        struct fixture *f = &w.at[i];
        f->core = w.at[0].core;
        OK(bp_device_create(f->core, names[i], &f->device));
        OK(bp_stream_create(f->device, &f->stream));
        f->scope = bp_stream_scope(f->stream);
    }
    return w;
}

static void world_finish(struct world *w)
{
    for (int i = 0; i < PLACES; i++) {
        bp_stream_destroy(w->at[i].stream);
        bp_device_destroy(w->at[i].device);
    }
    bp_core_destroy(w->at[0].core);
}

static float *across_numbers(float first)
{
    float *x = malloc(N * sizeof *x);

    cr_assert_not_null(x);
    for (int i = 0; i < N; i++) x[i] = first + (float)(i % 1000);
    return x;
}

static void expect_numbers(struct fixture *f, struct bp_tensor *t, float first, const char *what)
{
    float *x = malloc(N * sizeof *x);

    cr_assert_not_null(x);
    OK(bp_tensor_read(f->stream, t, x, N * sizeof *x));
    for (int i = 0; i < N; i++)
        cr_assert_eq(x[i], first + (float)(i % 1000), "%s: element %d is %g", what, i,
                     (double)x[i]);
    free(x);
}

static struct bp_tensor *across_filled(struct fixture *f, float first)
{
    float *x = across_numbers(first);
    struct bp_tensor *t = tensor_of(f, BP_F32, 1, SHAPE(N), x);

    free(x);
    return t;
}

Test(across, tensors_move_between_each_two)
{
    struct world w = world_init();

    for (int from = 0; from < PLACES; from++)
        for (int to = 0; to < PLACES; to++) {
            float first = (float)(10 * from + to);
            struct bp_tensor *src = across_filled(&w.at[from], first),
                             *dst = across_filled(&w.at[to], 777);
            OK(bp_tensor_copy(w.at[to].stream, dst, src));
            expect_numbers(&w.at[to], dst, first, names[to]);
            bp_tensor_destroy(src);
            bp_tensor_destroy(dst);
        }
    world_finish(&w);
}

/* Adds 1 ROUNDS times in a stream of one device; a stream of another device waits for the event and
 * copies the result. */
Test(across, an_event_of_one_holds_up_a_stream_of_another)
{
    struct world w = world_init();

    for (int from = 0; from < PLACES; from++)
        for (int to = 0; to < PLACES; to++) {
            struct fixture *a = &w.at[from], *b = &w.at[to];
            struct bp_tensor *x = across_filled(a, 1),
                             *one = tensor_of(a, BP_F32, 1, SHAPE(1), F32(1)),
                             *dst = across_filled(b, 777);
            struct bp_event *event;
            OK(bp_event_create(a->device, &event));
            for (int i = 0; i < ROUNDS; i++) {
                struct bp_tensor *sum = NULL;
                OK(bp_op_add(a->scope, x, one, &sum));
                bp_tensor_destroy(x);
                x = sum;
            }
            OK(bp_event_record(event, a->stream));
            OK(bp_stream_wait(b->stream, event));
            OK(bp_tensor_copy(b->stream, dst, x));
            expect_numbers(b, dst, 1 + ROUNDS, names[to]);
            OK(bp_event_query(event));
            bp_event_destroy(event);
            bp_tensor_destroy(x);
            bp_tensor_destroy(one);
            bp_tensor_destroy(dst);
        }
    world_finish(&w);
}

Test(across, inputs_of_two_devices_are_refused_by_name)
{
    struct world w = world_init();

    for (int from = 0; from < PLACES; from++)
        for (int to = 0; to < PLACES; to++) {
            struct bp_tensor *x, *y, *z = NULL;
            if (from == to) continue;
            x = across_filled(&w.at[to], 1);
            y = across_filled(&w.at[from], 1);
            FAILS(BP_ERR_INVALID, names[from], bp_op_add(w.at[to].scope, x, y, &z));
            cr_assert(strstr(bp_error_message(), names[to]), "%s", bp_error_message());
            cr_assert_null(z);
            bp_tensor_destroy(x);
            bp_tensor_destroy(y);
        }
    world_finish(&w);
}

/* Adds on one device, in its own thread. */
static void *across_sums(void *arg)
{
    struct fixture *f = arg;
    struct bp_tensor *x = across_filled(f, 3), *one = tensor_of(f, BP_F32, 1, SHAPE(1), F32(1));

    for (int i = 0; i < 10 * ROUNDS; i++) {
        struct bp_tensor *sum = NULL;
        OK(bp_op_add(f->scope, x, one, &sum));
        bp_tensor_destroy(x);
        x = sum;
    }
    expect_numbers(f, x, 3 + 10 * ROUNDS, "a thread");
    bp_tensor_destroy(x);
    bp_tensor_destroy(one);
    return NULL;
}

Test(across, threads_use_devices_of_two_kinds_at_once)
{
    struct world w = world_init();
    pthread_t thread[PLACES];

    for (int i = 0; i < PLACES; i++)
        cr_assert_eq(pthread_create(&thread[i], NULL, across_sums, &w.at[i]), 0);
    for (int i = 0; i < PLACES; i++) pthread_join(thread[i], NULL);
    world_finish(&w);
}

/* Eight-bit floats can be stored and copied, but no kernel computes with them: the call fails with
 * a message that names the dtype. */
Test(across, a_dtype_that_no_kernel_takes_is_refused_by_name)
{
    struct world w = world_init();
    struct fixture *f = &w.at[1];
    const uint8_t bytes[4] = {1, 2, 3, 4};
    uint8_t got[4] = {0};
    struct bp_tensor *x = tensor_of(f, BP_F8E4M3, 1, SHAPE(4), bytes), *y = NULL;

    cr_assert_neq(bp_op_add(f->scope, x, x, &y), BP_OK);
    cr_assert(strstr(bp_error_message(), "f8e4m3"), "%s", bp_error_message());
    cr_assert_null(y);
    OK(bp_tensor_read(f->stream, x, got, sizeof got));
    cr_assert_eq(got[3], 4);
    bp_tensor_destroy(x);
    world_finish(&w);
}

/* The driver allocates at most 256 MiB in one block. A larger request fails with numbers in the
 * message, each time; then the device works as before. */
Test(across, memory_that_is_exhausted_is_there_again)
{
    const int64_t n = 128 << 20;
    struct bp_tensor *large = NULL, *x;
    struct fixture *f;
    struct world w;

    setenv("POCL_MEMORY_LIMIT", "1", 1);
    w = world_init();
    f = &w.at[1];
    for (int i = 0; i < 3; i++) {
        FAILS(BP_ERR_MEMORY, "536870912", bp_tensor_create(f->device, BP_F32, 1, &n, &large));
        cr_assert_null(large);
        x = across_filled(f, 5);
        expect_numbers(f, x, 5, "after exhaustion");
        bp_tensor_destroy(x);
    }
    world_finish(&w);
}

/* The kernel finds a bad index on a device whose fault word the host cannot read directly; the
 * failure names the kernel. */
Test(across, a_bad_index_is_a_failure_of_the_stream_that_names_the_kernel)
{
    struct world w = world_init();
    struct fixture *f = &w.at[1];
    struct bp_tensor *x = across_filled(f, 1),
                     *index = tensor_of(f, BP_I64, 1, SHAPE(2), ((const int64_t[]){5, N})),
                     *y = NULL;
    struct bp_gather_attrs attrs = bp_gather_defaults();

    OK(bp_op_gather(f->scope, x, index, &attrs, &y));
    FAILS(BP_ERR_FAULT, "gather", bp_stream_synchronize(f->stream));
    bp_tensor_destroy(x);
    bp_tensor_destroy(index);
    bp_tensor_destroy(y);
    world_finish(&w);
}

static void *open_alone(void *failed)
{
    struct bp_core *core = NULL;
    struct bp_device *device = NULL;

    if (bp_core_create(NULL, &core) || bp_device_create(core, "xpu:0", &device))
        *(int *)failed = 1;
    bp_device_destroy(device);
    bp_core_destroy(core);
    return NULL;
}

/* Each test runs in a new process: no code has opened the driver before. */
Test(across, cores_on_threads_open_the_driver_at_once)
{
    enum { THREADS = 4 };
    pthread_t thread[THREADS];
    int failed[THREADS] = {0};

    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&thread[i], NULL, open_alone, &failed[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        cr_expect_eq(failed[i], 0, "thread %d found no device", i);
    }
}
