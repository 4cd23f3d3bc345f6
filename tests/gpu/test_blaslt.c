/* SPDX-License-Identifier: Apache-2.0 */
/* test_blaslt.c: tests how rows of cuBLASLt and hipBLASLt choose an algorithm, and the special
 * cases of hipBLASLt, on the simulator's stand-ins for these libraries.
 *
 *   test_blaslt PLUGIN DRIVER */
#include "kit.h"
#include "libraries_work.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The first plan of a shape queries cuBLASLt twice, and hipBLASLt, whose query ignores addresses,
 * once. A further query would fail. */
static void queries_once(const void *arg)
{
    const int *recipe = arg;
    struct world w;
    struct recipe other = recipes[*recipe];
    uint64_t workspace;

    setenv("BP_SIM_FAIL", *recipe ? "hipblasLtMatmulAlgoGetHeuristic:2:999"
                                  : "cublasLtMatmulAlgoGetHeuristic:3:999", 1);
    begin(&w);
    for (int i = 0; i < 3; i++) {
        expect(plan_recipe(&w, &recipes[*recipe], &workspace) == BP_OK, "plan %d: %s", i,
               error_text);
        expect(workspace == 4096, "plan %d: workspace %d", i, (int)workspace);
    }
    expect(run_recipe(&w, &recipes[*recipe]) == WORKS, "%s", error_text);
    other.attrs = &transposed;
    other.shape[1][0] = 2;
    other.shape[1][1] = 3;
    expect(plan_recipe(&w, &other, &workspace) == BP_ERR_UNSUPPORTED, "another shape asks nothing");
    expect(plan_recipe(&w, &other, &workspace) == BP_OK, "a failure is kept: %s", error_text);
    end(&w);
}

/* Microseconds that the slow algorithm takes more: far above the delays of threads on a machine
 * with much other work. */
static const char slow[] = "30000";

/* The fastest algorithm, which the heuristic names second, needs 2 KiB. */
static void fastest_is_taken(const void *arg)
{
    static const char *const setting[] = {"0", "1"};
    static const int recipe[] = {0, 2, 3, 4, 10, HIP, HIP + 2, HIP + 3, HIP + 5};
    struct world w;
    uint64_t workspace;

    (void)arg;
    setenv("BP_SIM_SLOW", slow, 1);
    for (int i = 0; i < 2; i++) {
        setenv("BP_SIM_TRIAL", setting[i], 1);
        begin(&w);
        for (size_t k = 0; k < sizeof recipe / sizeof *recipe; k++) {
            const struct recipe *r = &recipes[recipe[k]];
            expect(plan_recipe(&w, r, &workspace) == BP_OK, "%s: %s", r->row, error_text);
            expect(workspace == (i ? 2048 : 4096), "BP_SIM_TRIAL=%d: %s takes that of %d bytes", i,
                   r->row, (int)workspace);
            expect(run_recipe(&w, r) == WORKS, "%s: %s", r->row, error_text);
        }
        end(&w);
    }
    expect(!*error_text, "it said: %s", error_text);
}

/* A failure in a trial is not a failure of the plan: without a trial the heuristic's first choice
 * is used, and if the first algorithm fails in the trial, the other one is used. */
static void trial_fails(const void *arg)
{
    static const struct {
        const char *failure;
        uint64_t workspace;
        int recipe;
    } cases[] = {{"memory_allocate:5:2", 4096, 0}, {"stream_create:3:999", 4096, 0},
                 {"cublasLtMatmul:1:14", 2048, 0}, {"stream_synchronize:1:999", 2048, 0},
                 {"hipblasLtMatmul:1:5", 2048, HIP}};
    uint64_t workspace;
    struct world w;

    (void)arg;
    setenv("BP_SIM_TRIAL", "1", 1);
    setenv("BP_SIM_SLOW", slow, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv("BP_SIM_FAIL", cases[i].failure, 1);
        begin(&w);
        expect(plan_recipe(&w, &recipes[cases[i].recipe], &workspace) == BP_OK, "%s: %s",
               cases[i].failure, error_text);
        expect(workspace == cases[i].workspace, "%s: workspace %d", cases[i].failure,
               (int)workspace);
        end(&w);
    }
}

/* hipBLASLt's heuristic names no algorithm for a device that it does not support: then its rows,
 * which come first, are passed over, and rocBLAS' rows are used. rocBLAS guarantees bitwise equal
 * results, hipBLASLt does not. */
static void rocblas_is_behind(const void *arg)
{
    struct world w;
    const struct bp_kernel *first, *then;

    (void)arg;
    setenv("BP_SIM_ALGORITHMS", "0", 1);
    begin(&w);
    for (int i = HIP; i < GRAPHS; i++)
        expect(run_recipe(&w, &recipes[i]) == PASSED_OVER, "%s works", recipes[i].row);
    expect(run_recipe(&w, &recipes[5]) == WORKS, "%s: %s", recipes[5].row, error_text);
    first = find_named(&w, "sim_matmul_f32_hipblaslt");
    then = find_named(&w, "sim_matmul_f32_rocblas");
    expect(first < then && first->priority >= then->priority, "rocBLAS' row is the first");
    expect(!(first->flags & BP_KERNEL_DETERMINISTIC) && then->flags & BP_KERNEL_DETERMINISTIC,
           "flags %x and %x", first->flags, then->flags);
    end(&w);
    expect(!*error_text, "it said: %s", error_text);
}

/* hipBLASLt's sizes have 32 bits, and its strides must not be negative. */
static void is_too_wide(const void *arg)
{
    const int64_t rows = INT64_C(1) << 31;
    struct recipe back = recipes[2];
    struct recipe wide = {recipes[0].row, &product, 2, {{rows, 1}, {1, 2}, {rows, 2}}};
    struct world w;
    uint64_t workspace;

    (void)arg;
    back.gap = -8;
    begin(&w);
    expect(plan_recipe(&w, &back, &workspace) == BP_OK, "cuBLASLt, backwards: %s", error_text);
    expect(plan_recipe(&w, &wide, &workspace) == BP_OK, "cuBLASLt, wide: %s", error_text);
    back.row = wide.row = recipes[HIP].row;
    expect(plan_recipe(&w, &back, &workspace) == BP_ERR_UNSUPPORTED, "hipBLASLt goes backwards");
    expect(plan_recipe(&w, &wide, &workspace) == BP_ERR_UNSUPPORTED, "hipBLASLt is wide");
    end(&w);
    expect(!*error_text, "it said: %s", error_text);
}

/* hipBLASLt has no function that describes its status codes. */
static void result_text(const void *arg)
{
    struct world w;

    (void)arg;
    setenv("BP_SIM_FAIL", "hipblasLtMatmul:1:5", 1);
    begin(&w);
    expect(run_recipe(&w, &recipes[HIP]) == FAILS, "it works");
    expect(strstr(error_text, "sim:0: hipblasLtMatmul answers 5: the device failed") != NULL,
           "it said: %s", error_text);
    end(&w);
}

/* ---- several streams and threads ---- */

enum { LAUNCHES = 100 };

/* The launches of one plan; each thread has a separate result. */
struct thread {
    struct views views;
    struct bp_launch launch;
    int failed;
};

static void thread_init(struct thread *t, struct world *w, const struct recipe *r, int stream)
{
    *t = (struct thread){.views.port = {0, 1, 2, 3}};
    make_views(&t->views, r);
    place_views(w, &t->views, r);
    t->views.view[r->n_in].data = (char *)t->views.view[r->n_in].data + 512 * stream;
    t->launch = (struct bp_launch){
        .self = w->self, .kernel = find_named(w, r->row), .in = t->views.at,
        .out = t->views.at + r->n_in, .in_at = t->views.port, .out_at = t->views.port,
        .n_in = (uint32_t)r->n_in, .n_out = 1, .attrs = r->attrs, .workspace = w->workspace.data,
        .stream = w->stream[stream], .width = 1};
}

static void *launch_often(void *arg)
{
    struct thread *t = arg;

    for (int i = 0; i < LAUNCHES; i++) t->failed += t->launch.kernel->launch(&t->launch) != BP_OK;
    return NULL;
}

/* Two threads use one plan on two streams. Each launch uses a handle that has no work on another
 * stream, and one thread at a time writes hipBLASLt's operation. */
static void on_two_streams(const void *arg)
{
    const struct recipe *r = &recipes[*(const int *)arg];
    struct bp_plan plan = {.size = sizeof plan};
    struct thread thread[STREAMS];
    pthread_t id[STREAMS];
    struct world w;

    begin(&w);
    for (int i = 0; i < STREAMS; i++) thread_init(&thread[i], &w, r, i);
    expect(write_inputs(&w, &thread[0].views, r) &&
               w.r->synchronize(w.self, 0, w.stream[0]) == BP_OK,
           "%s", error_text);
    expect(make_plan(&w, r, &thread[0].views, &plan) == BP_OK, "%s", error_text);
    for (int i = 0; i < STREAMS; i++) {
        thread[i].launch.plan = plan.plan;
        thread[i].launch.workspace_size = plan.workspace;
        expect(!pthread_create(&id[i], NULL, launch_often, &thread[i]), "no thread");
    }
    for (int i = 0; i < STREAMS; i++) {
        pthread_join(id[i], NULL);
        expect(!thread[i].failed, "stream %d: %d launches failed: %s", i, thread[i].failed,
               error_text);
        expect(w.r->synchronize(w.self, 0, w.stream[i]) == BP_OK, "%s", error_text);
        compare(&w, &thread[i].views, r);
    }
    thread[0].launch.kernel->plan_destroy(w.self, thread[0].launch.kernel, plan.plan);
    end(&w);
    expect(!*error_text, "it said: %s", error_text);
}

int main(int argc, char **argv)
{
    static const int lt[] = {0, HIP, HIP + 4};

    if (argc != 3) return 2;
    plugin_path = argv[1];
    driver_path = argv[2];
    run_case("a shape is asked for once", queries_once, &lt[0]);
    run_case("a shape is asked for once, of hipBLASLt", queries_once, &lt[1]);
    run_case("the fastest algorithm, on demand", fastest_is_taken, NULL);
    run_case("trials that fail", trial_fails, NULL);
    run_case("rocBLAS behind hipBLASLt", rocblas_is_behind, NULL);
    run_case("what is too wide for hipBLASLt", is_too_wide, NULL);
    run_case("an answer of hipBLASLt's in words", result_text, NULL);
    run_case("a plan of cuBLASLt on two streams", on_two_streams, &lt[0]);
    run_case("a plan of hipBLASLt on two streams", on_two_streams, &lt[1]);
    run_case("a plan of hipBLASLt with a bias on two streams", on_two_streams, &lt[2]);
    return cases_end();
}
