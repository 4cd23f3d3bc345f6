/* SPDX-License-Identifier: Apache-2.0 */
/* test_threads.c: tests the number of threads that each core sets for its launches. */
#include "fixture.h"

#include <dirent.h>
#include <stdlib.h>

/* The threads of this process. The cpu plugin's team keeps those that a launch has started. */
static int threads_now(void)
{
    DIR *directory = opendir("/proc/self/task");
    int n = 0;

    cr_assert_not_null(directory);
    for (struct dirent *entry; (entry = readdir(directory));) n += entry->d_name[0] != '.';
    closedir(directory);
    return n;
}

static struct fixture fixture_of(uint32_t threads)
{
    const struct bp_core_options options = {.size = sizeof options, .threads = threads};
    struct fixture f;

    OK(bp_core_create(&options, &f.core));
    OK(bp_device_create(f.core, "cpu:0", &f.device));
    OK(bp_stream_create(f.device, &f.stream));
    f.scope = bp_stream_scope(f.stream);
    return f;
}

/* Runs launches that are worth several threads: a kernel of the plugin, and a product. */
static void threads_work(struct fixture *f)
{
    enum { N = 512 };
    struct bp_tensor *x = NULL, *y = NULL, *z = NULL;

    OK(bp_tensor_create(f->device, BP_F32, 2, SHAPE(N, N), &x));
    OK(bp_op_sin(f->scope, x, &y));
    OK(bp_op_matmul(f->scope, y, y, NULL, &z));
    bp_tensor_destroy(x), bp_tensor_destroy(y), bp_tensor_destroy(z);
}

/* One thread needs no other; the team of three has two more; a core with fewer threads beside it
 * does not change it. */
Test(threads, are_set_for_each_core)
{
    struct fixture one, three;
    int before;

    setenv("BP_THREADS", "4", 1); /* the option replaces it */
    one = fixture_of(1);
    three = fixture_of(3);
    before = threads_now();
    threads_work(&one);
    cr_assert_eq(threads_now(), before);
    threads_work(&three);
    cr_assert_eq(threads_now(), before + 2);
    threads_work(&one);
    threads_work(&three);
    cr_assert_eq(threads_now(), before + 2);
    fixture_finish(&one);
    fixture_finish(&three);
}

Test(threads, come_from_the_environment_without_the_option)
{
    struct fixture f;
    int before;

    setenv("BP_THREADS", "4", 1);
    f = fixture_of(0);
    before = threads_now();
    threads_work(&f);
    cr_assert_eq(threads_now(), before + 3);
    fixture_finish(&f);
}

/* Results do not depend on the number of threads, and two cores work at the same time. */
Test(threads, do_not_change_results)
{
    enum { N = 300000 };
    struct fixture one = fixture_of(1), four = fixture_of(4), *each[2] = {&one, &four};
    static float x[N], result[2];

    for (int i = 0; i < N; i++) x[i] = (float)(i % 977) * 0.001f;
    for (int i = 0; i < 2; i++) {
        struct bp_tensor *t = tensor_of(each[i], BP_F32, 1, SHAPE(N), x), *sum = NULL;
        OK(bp_op_sum(each[i]->scope, t, NULL, &sum));
        OK(bp_tensor_read(each[i]->stream, sum, &result[i], sizeof *result));
        bp_tensor_destroy(t), bp_tensor_destroy(sum);
    }
    cr_assert_eq(result[0], result[1]);
    fixture_finish(&one);
    fixture_finish(&four);
}

/* A vector times a matrix is divided by terms, and with more threads also by results. */
Test(threads, do_not_change_a_product_of_a_vector)
{
    enum { K = 331, N = 1203, WIDEST = 7 };
    static float x[K], matrix[K * N], y[WIDEST + 1][N];

    for (int i = 0; i < K; i++) x[i] = (float)(i % 89) * 0.013f - 0.5f;
    for (int i = 0; i < K * N; i++) matrix[i] = (float)(i % 977) * 0.001f - 0.4f;
    for (uint32_t width = 1; width <= WIDEST; width++) {
        struct fixture f = fixture_of(width);
        struct bp_tensor *a = tensor_of(&f, BP_F32, 2, SHAPE(1, K), x),
                         *b = tensor_of(&f, BP_F32, 2, SHAPE(K, N), matrix), *product = NULL;
        OK(bp_op_matmul(f.scope, a, b, NULL, &product));
        OK(bp_tensor_read(f.stream, product, y[width], sizeof *y));
        bp_tensor_destroy(a), bp_tensor_destroy(b), bp_tensor_destroy(product);
        fixture_finish(&f);
        cr_expect_arr_eq(y[width], y[1], sizeof *y, "with %u threads", width);
    }
    for (int j = 0; j < N; j++) {
        double sum = 0;
        for (int i = 0; i < K; i++) sum += (double)x[i] * matrix[i * N + j];
        cr_expect(y[1][j] - sum < 1e-3 && sum - y[1][j] < 1e-3, "result %d", j);
    }
}
