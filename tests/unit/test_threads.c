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
