/* SPDX-License-Identifier: Apache-2.0 */
/* test_thread_policy.c: tests the policy of a thread for calls without a kernel, on a device with
 * few kernels, the fake one partial. */
#include "fixture.h"

#include <pthread.h>
#include <stdlib.h>

static struct fixture policy_open(const char *policy)
{
    struct fixture f;
    uint32_t index;

    setenv("BP_FALLBACK", policy, 1);
    setenv("BP_LOG", "error", 1);
    OK(bp_core_create(NULL, &f.core));
    OK(bp_core_load_path(f.core, HOSTILE_DIR "/bp_partial.so", &index));
    OK(bp_device_create_at(f.core, index, 0, &f.device));
    OK(bp_stream_create(f.device, &f.stream));
    f.scope = bp_stream_scope(f.stream);
    return f;
}

/* Runs a softmax, for which another device is needed, and an add of halves, for which another dtype
 * is. Returns whether they run; otherwise both fail. */
static bool policy_falls_back(struct fixture *f, int64_t n)
{
    static const float zeros[4];
    struct bp_tensor *x = tensor_of(f, BP_F32, 1, SHAPE(n), zeros),
                     *h = tensor_of(f, BP_F16, 1, SHAPE(n), zeros), *z[2] = {NULL, NULL};
    enum bp_status status[2] = {bp_op_softmax(f->scope, x, NULL, &z[0]),
                                bp_op_add(f->scope, h, h, &z[1])};

    cr_assert_eq(status[0], status[1], "%d and %d", status[0], status[1]);
    cr_assert(!status[0] || status[0] == BP_ERR_NO_KERNEL, "%s", bp_error_message());
    for (int i = 0; i < 2; i++) bp_tensor_destroy(z[i]);
    bp_tensor_destroy(h);
    bp_tensor_destroy(x);
    return !status[0];
}

static void *policy_of_other_thread(void *ctx)
{
    return policy_falls_back(ctx, 3) ? ctx : NULL;
}

Test(thread_policy, a_policy_of_the_thread_replaces_that_of_the_core)
{
    struct fixture f = policy_open("allow");
    uint32_t before = 9;
    pthread_t other;
    void *ran;

    cr_assert(policy_falls_back(&f, 2));
    OK(bp_thread_set_fallback(BP_CORE_FALLBACK_DENY, &before));
    cr_assert_eq(before, BP_CORE_FALLBACK_SET);
    cr_assert_not(policy_falls_back(&f, 4)); /* a new call */
    cr_assert_not(policy_falls_back(&f, 2)); /* a call that was prepared before */
    cr_expect(strstr(bp_error_message(), "policy of this thread"), "%s", bp_error_message());
    cr_expect(strstr(bp_error_message(), "does not take the dtypes"), "%s", bp_error_message());
    cr_assert_eq(pthread_create(&other, NULL, policy_of_other_thread, &f), 0);
    pthread_join(other, &ran);
    cr_assert_not_null(ran, "the policy holds for another thread");
    OK(bp_thread_set_fallback(BP_CORE_FALLBACK_SET, &before));
    cr_assert_eq(before, BP_CORE_FALLBACK_DENY);
    cr_assert(policy_falls_back(&f, 2));
    cr_assert(policy_falls_back(&f, 4));
    fixture_finish(&f);

    f = policy_open("deny");
    cr_assert_not(policy_falls_back(&f, 2));
    OK(bp_thread_set_fallback(BP_CORE_FALLBACK_ALLOW, NULL));
    cr_assert(policy_falls_back(&f, 2));
    OK(bp_thread_set_fallback(BP_CORE_FALLBACK_SET, NULL));
    cr_assert_not(policy_falls_back(&f, 2));
    fixture_finish(&f);
}

Test(thread_policy, a_program_is_compiled_under_the_policy_of_its_thread)
{
    struct fixture f = policy_open("allow");
    struct bp_tensor *x = tensor_of(&f, BP_F32, 1, SHAPE(2), F32(0, 0)), *z = NULL, *y = NULL,
                     *in;
    struct bp_program *program;
    struct bp_graph *graph;

    OK(bp_graph_create(f.core, &graph));
    OK(bp_graph_input(graph, "x", BP_F32, 1, SHAPE(2), &in));
    OK(bp_op_softmax(bp_graph_scope(graph), in, NULL, &y));
    OK(bp_graph_output(graph, y, "y"));
    OK(bp_program_create(graph, f.device, &program));
    OK(bp_thread_set_fallback(BP_CORE_FALLBACK_DENY, NULL));
    FAILS(BP_ERR_NO_KERNEL, "softmax", bp_program_run(program, f.stream, &x, 1, &z, 1));
    OK(bp_thread_set_fallback(BP_CORE_FALLBACK_SET, NULL));
    OK(bp_program_run(program, f.stream, &x, 1, &z, 1));
    expect_bytes(&f, z, F32(0.5f, 0.5f), 8);
    bp_tensor_destroy(z);
    bp_tensor_destroy(y);
    bp_tensor_destroy(in);
    bp_program_destroy(program);
    bp_graph_destroy(graph);
    bp_tensor_destroy(x);
    fixture_finish(&f);
}
