/* SPDX-License-Identifier: Apache-2.0 */
/* test_libraries.c: tests kernel rows that call vendors' libraries in plugins/gpu, on the
 * simulator's stand-ins. Each call of a library fails once, at each place where it is made: the row
 * must be passed over or the launch must fail, the message must name the call and its code, nothing
 * may leak, and later calls must work. Also tests libraries that are missing or lack functions, and
 * TF32.
 *
 *   test_libraries PLUGIN DRIVER A_LIBRARY_WITHOUT_FUNCTIONS CUDNN_WITHOUT_ITS_VERSION
 *                  ROCBLAS_WITHOUT_WORKSPACE NCCL_THAT_WAITS
 *
 * CUDNN_WITHOUT_ITS_VERSION lacks a function of graphs, too. */
#include "kit.h"
#include "libraries_work.h"
#include <backplane/ccl.h>
#include "simulator/number.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *other_library, *few_library, *few_rocblas, *few_nccl;

static void all_work(const void *arg)
{
    struct world w;

    (void)arg;
    begin(&w);
    for (int twice = 0; twice < 2; twice++)
        for (int i = 0; i < RECIPES; i++)
            expect(run_recipe(&w, &recipes[i]) == WORKS, "%s: %s", recipes[i].row, error_text);
    end(&w);
    expect(!*error_text, "it said: %s", error_text);
}

/* The caller's current context belongs to another device. */
static void caller_keeps_its_context(const void *arg)
{
    struct world w;

    (void)arg;
    setenv("BP_SIM_DEVICES", "2", 1);
    caller_begin(driver_path, 1);
    begin(&w);
    for (int i = 0; i < RECIPES; i++) {
        expect(run_recipe(&w, &recipes[i]) == WORKS, "%s: %s", recipes[i].row, error_text);
        caller_stays(recipes[i].row);
    }
    world_end(&w);
    caller_stays("destroy");
    caller_end();
    expect(!driver_live(driver_path), "%zu things of the driver's are left",
           driver_live(driver_path));
}

/* ---- the choice of an algorithm of cuDNN ---- */

/* The interface or graph by which cuDNN computes a convolution of a half type. Of the graphs that
 * the stand-in's heuristic names, the first eight do not fit, the next one needs 2 KiB and aligned
 * addresses, the last one 4 KiB. The older interface needs 1 KiB. */
struct way {
    const char *name;
    int recipe;
    const char *failure; /* a list of failures for BP_SIM_FAIL, with a comma at its end */
    bool lacks_graphs;   /* the library lacks a function of graphs */
    uint64_t workspace;
    bool is_graph;
};

/* If two failures of one call are listed, the call that fails by the first is not counted for the
 * second. */
static const struct way ways[] = {
    {"a graph of cuDNN's: the first way that will do", GRAPHS, "", false, 2048, true},
    {"a graph of cuDNN's: not for odd addresses", GRAPHS + 1, "", false, 2048, false},
    {"a graph of cuDNN's: the next way", GRAPHS, "cudnnBackendFinalize:14:3000,", false, 4096,
     true},
    {"no graph of cuDNN's: no way will do", GRAPHS,
     "cudnnBackendFinalize:14:3000,cudnnBackendFinalize:14:9,", false, 1024, false},
    {"no graph of cuDNN's: there is no way", GRAPHS, "cudnnBackendFinalize:11:3000,", false, 1024,
     false},
    {"a graph of cuDNN's: there is nothing else", GRAPHS,
     "cudnnGetConvolutionForwardAlgorithm_v7:1:3000,", false, 4096, true},
    {"a graph of cuDNN's for odd addresses, too", GRAPHS + 1,
     "cudnnGetConvolutionForwardAlgorithm_v7:1:3000,", false, 4096, true},
    {"a graph of cuDNN's: uneven pads", UNEVEN, "", false, 4096, true},
    {"a graph of cuDNN's: copies, as there is none for odd addresses", UNEVEN,
     "cudnnBackendFinalize:21:3000,", false, 2048 + 3 * 256, true},
    {"no graph of cuDNN's: it lacks a function", GRAPHS, "", true, 1024, false},
    {"no graph of cuDNN's: f32", 7, "", false, 1024, false},
    {"a graph of cuDNN's with relu: not by an engine that loses NaN", FUSED_CONVS, "", false,
     2048 + 5 * 256, true},
    {"a graph of cuDNN's without relu, where no engine keeps NaN", FUSED_CONVS,
     "cudnnBackendFinalize:19:3000,cudnnBackendFinalize:19:3000,", false, 2048 + 5 * 256, true},
    {"a graph of cuDNN's with attention", ATTENTION, "", false, 2048 + 4 * 256, true},
    {"a graph of cuDNN's with attention: copies", ATTENTION + 1, "", false, 2048 + 4 * 256, true},
    {"a graph of cuDNN's with attention and a mask: copies", MASKED, "", false, 2048 + 5 * 256,
     true},
    {"a graph of cuDNN's with layer_norm", NORM, "", false, 2048 + 4 * 256, true},
    {"a graph of cuDNN's with layer_norm: copies", NORM + 1, "", false, 2048 + 4 * 256, true},
    {"no graph of cuDNN's with a residual", FUSED_CONVS, "", true, 1024, false},
};

/* Plans of equal convolutions share a graph. A graph that no plan uses is kept for later plans,
 * until eight others came after it. A graph needs 14 descriptors; the first of the tenth graph
 * fails. */
static void graphs_are_kept(const void *arg)
{
    struct recipe r = recipes[GRAPHS];
    uint64_t workspace;
    struct world w;

    (void)arg;
    setenv("BP_SIM_FAIL", "cudnnBackendFinalize:127:3000", 1);
    begin(&w);
    for (int i = 1; i <= 18; i++) {
        r.shape[0][0] = r.shape[3][0] = i <= 9 ? i : 19 - i; /* 1 to 9, and back */
        expect(plan_recipe(&w, &r, &workspace) == BP_OK, "plan %d: %s", i, error_text);
        expect(workspace == (i < 18 ? 2048 : 1024), "plan %d: workspace %d", i, (int)workspace);
    }
    end(&w);
}

/* Where the graph interface is used, a failure of its execution is a failure of the launch. */
static void way_is_taken(const void *arg)
{
    const struct way *way = arg;
    const struct recipe *r = &recipes[way->recipe];
    uint64_t workspace = 0;
    char failure[160];
    struct world w;

    if (way->lacks_graphs) setenv("BP_SIM_CUDNN", few_library, 1);
    setenv("BP_SIM_FAIL", way->failure, 1);
    begin(&w);
    expect(plan_recipe(&w, r, &workspace) == BP_OK, "%s: %s", r->row, error_text);
    expect(workspace == way->workspace, "%s: workspace %d", r->row, (int)workspace);
    end(&w);
    begin(&w);
    expect(run_recipe(&w, r) == WORKS, "%s: %s", r->row, error_text);
    end(&w);
    expect(!*error_text, "it said: %s", error_text);
    snprintf(failure, sizeof failure, "%scudnnBackendExecute:1:5000", way->failure);
    setenv("BP_SIM_FAIL", failure, 1);
    begin(&w);
    expect((run_recipe(&w, r) == WORKS) == !way->is_graph, "it is %sa graph: %s",
           way->is_graph ? "not " : "", error_text);
    end(&w);
}

/* ---- failures ---- */

/* The first handle of a library is made only once, whether that fails or not. */
static bool is_first_handle(const struct failing_call *f)
{
    static const char *const calls[] = {"cublasLtCreate", "hipblasLtCreate", "cudnnCreate",
                                        "rocblas_create_handle", "rocblas_set_atomics_mode"};

    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (f->n == 1 && !strcmp(f->call, calls[i])) return true;
    return false;
}

static void libraries_fails(const void *arg)
{
    const struct failing_call *f = arg;
    struct world w, again;
    bool graphs = strstr(f->call, "cudnnBackend") != NULL; /* that recipe has many of them */
    bool adds_bias = strstr(f->call, "Activation") != NULL; /* a call of the older interface */
    int from = graphs ? GRAPHS : adds_bias ? GRAPHS + 2 : 0, not_working = 0;
    int to = from ? from + 1 : GRAPHS;
    char text[96];

    snprintf(text, sizeof text, "%s:%d:%d", f->call, f->n, f->code);
    setenv("BP_SIM_FAIL", text, 1);
    begin(&w);
    for (int i = from; i < to; i++) {
        if (run_recipe(&w, &recipes[i]) == WORKS) continue;
        not_working++;
        if (!is_first_handle(f))
            expect(run_recipe(&w, &recipes[i]) == WORKS, "%s, done again: %s", recipes[i].row,
                   error_text);
    }
    end(&w);
    if (!not_working && !*error_text) exit(NOT_REACHED);
    snprintf(text, sizeof text, "sim:0: %s answers %d: a failure", f->call, f->code);
    expect(strstr(error_text, text) != NULL, "expected '%s', it said: %s", text, error_text);
    expect(not_working <= 1 || is_first_handle(f), "%d rows did not work", not_working);
    unsetenv("BP_SIM_FAIL");
    expect_no_error();
    begin(&again);
    for (int i = from; i < to; i++)
        expect(run_recipe(&again, &recipes[i]) == WORKS, "afterwards, %s: %s", recipes[i].row,
               error_text);
    end(&again);
}

/* A library that reports that it has no algorithm is passed over, without a message. */
static void has_nothing(const void *arg)
{
    struct world w;

    (void)arg;
    setenv("BP_SIM_FAIL", "cublasLtMatmulAlgoGetHeuristic:1:15,hipblasLtMatmulAlgoGetHeuristic:1:7,"
                          "cudnnGetConvolutionForwardAlgorithm_v7:1:3000", 1);
    begin(&w);
    expect(run_recipe(&w, &recipes[0]) == PASSED_OVER, "cuBLASLt works");
    expect(run_recipe(&w, &recipes[HIP]) == PASSED_OVER, "hipBLASLt works");
    expect(run_recipe(&w, &recipes[7]) == PASSED_OVER, "cuDNN works");
    end(&w);
    expect(!*error_text, "it said: %s", error_text);
}

/* Work of a library fails on the device: the driver's error is reported, and the device is lost. */
static void work_fails(const void *arg)
{
    struct world w;
    enum outcome outcome;

    (void)arg;
    setenv("BP_SIM_FAIL", "work:3:719", 1); /* the third: the first two copy inputs */
    begin(&w);
    outcome = run_recipe(&w, &recipes[5]);
    expect(outcome == WORKS && unmet, "the copy of the result works");
    unmet = 0;
    expect(w.r->synchronize(w.self, 0, NULL) == BP_ERR_DEVICE_LOST, "synchronize: %s", error_text);
    end(&w);
}

/* The library reports a failure, and the driver that the device is lost. */
static void device_is_lost(const void *arg)
{
    struct world w;

    (void)arg;
    setenv("BP_SIM_FAIL", "cublasLtMatmul:1:13,memory_info:1:700", 1);
    begin(&w);
    expect(run_recipe(&w, &recipes[0]) == FAILS, "it works");
    expect(strstr(error_text, "sim_memory_info answers 700") &&
               !strstr(error_text, "cublasLtMatmul"),
           "it said: %s", error_text);
    end(&w);
}

/* ---- libraries that are missing, or are other libraries ---- */

static void is_off(const void *arg)
{
    static const char *const rows[] = {"sim_matmul_f32_cublaslt", "sim_conv_f32_cudnn",
                                       "sim_matmul_f32_rocblas", "sim_linear_f16_hipblaslt"};
    static const char *const variables[] = {"BP_SIM_CUBLASLT", "BP_SIM_CUDNN", "BP_SIM_ROCBLAS",
                                            "BP_SIM_HIPBLASLT"};
    struct world w;

    (void)arg;
    begin(&w);
    for (int i = 0; i < 4; i++) {
        const struct bp_kernel *row = find_named(&w, rows[i]);
        expect(w.plugin->kernels->usable(w.self, row) == BP_OK, "%s: %s", rows[i], error_text);
        setenv(variables[i], "off", 1);
        expect_no_error();
        expect(w.plugin->kernels->usable(w.self, row) == BP_ERR_UNSUPPORTED, "%s", rows[i]);
        expect(strstr(error_text, rows[i]) && strstr(error_text, variables[i]), "it said: %s",
               error_text);
    }
    expect(w.plugin->kernels->usable(w.self, find_named(&w, "sim_matmul")) == BP_OK, "%s",
           error_text);
    end(&w);
}

/* Records a recipe's launch on a stream, replays it, and checks the result. */
static enum bp_status record_recipe(struct world *w, const struct recipe *r, void *stream)
{
    struct views v = {.port = {0, 1, 2, 3}};
    const struct bp_kernel *row = find_named(w, r->row);
    struct bp_plan plan = {.size = sizeof plan};
    struct bp_launch launch = {.self = w->self, .kernel = row, .in = v.at, .out = v.at + r->n_in,
                               .in_at = v.port, .out_at = v.port, .n_in = (uint32_t)r->n_in,
                               .n_out = 1, .attrs = r->attrs, .workspace = w->workspace.data,
                               .stream = stream, .width = 1};
    enum bp_status status;

    make_views(&v, r);
    place_views(w, &v, r);
    expect(write_inputs(w, &v, r), "%s: %s", r->row, error_text);
    expect(make_plan(w, r, &v, &plan) == BP_OK, "%s: %s", r->row, error_text);
    launch.plan = plan.plan;
    launch.workspace_size = plan.workspace;
    expect(w->g->capture_begin(w->self, 0, stream) == BP_OK, "%s", error_text);
    status = row->launch(&launch);
    if (status) {
        w->g->capture_abort(w->self, 0, stream);
    } else if (expect(w->g->capture_end(w->self, 0, stream, &w->recording) == BP_OK, "%s: %s",
                      r->row, error_text)) {
        expect(w->g->replay(w->self, 0, w->recording, stream) == BP_OK, "%s", error_text);
        expect(w->r->synchronize(w->self, 0, stream) == BP_OK, "%s", error_text);
        compare(w, &v, r);
        w->g->recording_destroy(w->self, 0, w->recording);
        w->recording = NULL;
    }
    row->plan_destroy(w->self, row, plan.plan);
    return status;
}

/* No library allocates memory itself: all rows can be recorded. */
static void libraries_recorded(const void *arg)
{
    struct world w;

    (void)arg;
    begin(&w);
    for (size_t i = 0; i < RECIPES; i++) {
        const struct bp_kernel *row = find_named(&w, recipes[i].row);
        expect(!(row->flags & BP_KERNEL_NO_CAPTURE), "%s", recipes[i].row);
        expect(run_recipe(&w, &recipes[i]) == WORKS, "%s: %s", recipes[i].row, error_text);
        expect(record_recipe(&w, &recipes[i], w.stream[0]) == BP_OK, "%s: %s", recipes[i].row,
               error_text);
    }
    end(&w);
    expect(!*error_text, "it said: %s", error_text);
}

/* The first launch on each of two streams is recorded. */
static void first_is_recorded(const void *arg)
{
    static const int recipe[] = {7, 5, HIP};
    struct world w;

    (void)arg;
    begin(&w);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < STREAMS; k++)
            expect(record_recipe(&w, &recipes[recipe[i]], w.stream[k]) == BP_OK, "%s: %s",
                   recipes[recipe[i]].row, error_text);
    end(&w);
    expect(!*error_text, "it said: %s", error_text);
}

/* A library that a device has not used before is passed over while a stream is captured, and used
 * afterwards; the capture remains valid. */
static void begins_in_a_capture(const void *arg)
{
    static const int recipe[] = {7, 5, HIP};
    struct world w;
    uint64_t workspace;

    (void)arg;
    begin(&w);
    for (int i = 0; i < 3; i++) {
        const struct recipe *r = &recipes[recipe[i]];
        expect(w.g->capture_begin(w.self, 0, w.stream[0]) == BP_OK, "%s", error_text);
        expect(plan_recipe(&w, r, &workspace) == BP_ERR_UNSUPPORTED, "%s: it is used", r->row);
        expect(strstr(log_text, "while a stream is captured") != NULL, "it said: %s", log_text);
        expect_no_error();
        expect(w.g->capture_end(w.self, 0, w.stream[0], &w.recording) == BP_OK, "%s", error_text);
        w.g->recording_destroy(w.self, 0, w.recording);
        w.recording = NULL;
        expect(run_recipe(&w, r) == WORKS, "%s: %s", r->row, error_text);
    }
    end(&w);
    expect(!*error_text, "it said: %s", error_text);
}

/* A spare handle cannot be created: a message is logged, and the stream works without it. */
static void no_spare(const void *arg)
{
    struct world w;

    (void)arg;
    setenv("BP_SIM_FAIL", "rocblas_create_handle:2:999", 1);
    begin(&w);
    expect(record_recipe(&w, &recipes[5], w.stream[0]) == BP_OK, "%s", error_text);
    end(&w);
    expect(strstr(error_text, "rocblas_create_handle answers 999") != NULL, "it said: %s",
           error_text);
}

/* rocBLAS reports how much memory a product needs, unless its query needs an address. */
static void requests_workspace(const void *arg)
{
    struct world w;
    uint64_t workspace;

    (void)arg;
    setenv("BP_SIM_FAIL", "rocblas_gemm_strided_batched_ex:2:3", 1);
    begin(&w);
    expect(plan_recipe(&w, &recipes[5], &workspace) == BP_OK, "%s", error_text);
    expect(workspace == 1024, "it wants %d bytes", (int)workspace);
    expect(plan_recipe(&w, &recipes[5], &workspace) == BP_OK, "%s", error_text);
    expect(workspace == 32 << 20, "it wants %d bytes, not as much as rocBLAS takes by itself",
           (int)workspace);
    end(&w);
    expect(!*error_text, "it said: %s", error_text);
}

/* With a version that cannot be given a workspace, products run, but cannot be recorded. */
static void cannot_be_recorded(const void *arg)
{
    struct world w;

    (void)arg;
    setenv("BP_SIM_ROCBLAS", few_rocblas, 1);
    begin(&w);
    expect(run_recipe(&w, &recipes[5]) == WORKS, "%s", error_text);
    expect(!*error_text, "it said: %s", error_text);
    expect(record_recipe(&w, &recipes[5], w.stream[0]) == BP_ERR_UNSUPPORTED, "it is recorded");
    expect(strstr(error_text, "no function rocblas_set_workspace") != NULL, "it said: %s",
           error_text);
    expect(run_recipe(&w, &recipes[5]) == WORKS, "%s", error_text);
    end(&w);
}

/* An NCCL older than 2.14 can only create communicators that block until all ranks have joined. */
static void can_only_wait(const void *arg)
{
    const struct bp_ccl *ccl;
    struct bp_ccl_id id;
    struct world w;
    uint32_t version;
    void *comm = NULL;

    (void)arg;
    setenv("BP_SIM_NCCL", few_nccl, 1);
    begin(&w);
    ccl = w.plugin->ccl;
    expect(!ccl->version(w.self, &version), "version: %s", error_text);
    expect(!ccl->unique_id(w.self, &id), "unique_id: %s", error_text);
    expect(ccl->comm_begin(w.self, 0, &id, 0, 1, &comm) == BP_ERR_UNSUPPORTED, "it need not wait");
    expect(!ccl->comm_create(w.self, 0, &id, 0, 1, &comm), "comm_create: %s", error_text);
    ccl->comm_destroy(w.self, comm);
    end(&w);
    expect(!*error_text, "it said: %s", error_text);
}

static void is_in_path(const void *arg)
{
    struct world w;
    char path[4096];

    (void)arg;
    snprintf(path, sizeof path, "relative::/nowhere:%.*s", (int)(strrchr(driver_path, '/') -
                                                                 driver_path), driver_path);
    setenv("LD_LIBRARY_PATH", path, 1);
    begin(&w);
    expect(run_recipe(&w, &recipes[0]) == WORKS, "%s", error_text);
    end(&w);
}

static void lacks_functions(const void *arg)
{
    static const int recipe[] = {0, 5, 7, HIP};
    struct world w;

    (void)arg;
    setenv("BP_SIM_CUBLASLT", other_library, 1);
    setenv("BP_SIM_HIPBLASLT", other_library, 1);
    setenv("BP_SIM_CUDNN", "/dev/null", 1);
    setenv("BP_SIM_ROCBLAS", "/nowhere/librocblas.so", 1);
    begin(&w);
    for (int twice = 0; twice < 2; twice++)
        for (int i = 0; i < 4; i++)
            expect(run_recipe(&w, &recipes[recipe[i]]) == PASSED_OVER, "recipe %d", i);
    end(&w);
    expect(strstr(error_text, "has no function cublasLtCreate: its rows are passed over") != NULL &&
               strstr(error_text, "has no function hipblasLtCreate: its rows are passed over") &&
               strstr(error_text, "cuDNN: /dev/null cannot be opened: ") &&
               strstr(error_text, "rocBLAS: /nowhere/librocblas.so cannot be opened: there is no"),
           "it said: %s", error_text);
}

/* Whether only cuDNN's graph interface can compute a recipe: pads that differ, attention, norms,
 * and gradients of images in f16, which the algorithm of the older interface adds in f16. */
static bool needs_graphs(int recipe)
{
    return recipe == UNEVEN || recipe >= ATTENTION ||
           !strcmp(recipes[recipe].row, "sim_conv_grad_input_f16_cudnn");
}

/* A library that lacks only functions that the plugin does not need is used. */
static void runs_without_optional_functions(const void *arg)
{
    struct world w;

    (void)arg;
    setenv("BP_SIM_CUDNN", few_library, 1);
    begin(&w);
    for (int i = 7; i < RECIPES; i++)
        expect(run_recipe(&w, &recipes[i]) == (needs_graphs(i) ? PASSED_OVER : WORKS), "%s: %s",
               recipes[i].row, error_text);
    end(&w);
    expect(!*error_text, "it said: %s", error_text);
}

/* TF32 has 11 bits: 1 + 2^-12 is 1. */
static void libraries_tf32(const void *arg)
{
    static const char *const setting[] = {"0", "1"};
    struct recipe r = recipes[0];
    struct world w;

    (void)arg;
    for (int i = 0; i < 2; i++) {
        setenv("BP_SIM_TF32", setting[i], 1);
        begin(&w);
        struct views v = {.port = {0}};
        struct bp_plan plan = {.size = sizeof plan};
        const struct bp_kernel *row = find_named(&w, r.row);
        struct bp_prep prep = {.size = sizeof prep, .kernel = row, .in = v.at, .out = v.at + 2,
                               .n_in = 2, .n_out = 1, .attrs = &product, .width = 1};
        const float fine[6] = {1 + 0x1p-12f}, one[6] = {1};
        float got = 0;
        make_views(&v, &r);
        place_views(&w, &v, &r);
        expect(row->prepare(w.self, &prep, &plan) == BP_OK, "%s", error_text);
        put(&w, (struct bp_memory){NULL, v.view[0].data}, fine, sizeof fine);
        put(&w, (struct bp_memory){NULL, v.view[1].data}, one, sizeof one);
        struct bp_launch l = {.self = w.self, .kernel = row, .plan = plan.plan, .in = v.at,
                              .out = v.at + 2, .n_in = 2, .n_out = 1, .attrs = &product,
                              .workspace = w.workspace.data, .workspace_size = plan.workspace,
                              .stream = w.stream[0]};
        expect(row->launch(&l) == BP_OK, "%s", error_text);
        get(&w, &got, (struct bp_memory){NULL, v.view[2].data}, sizeof got);
        expect(got == (i ? 1 : fine[0]), "BP_SIM_TF32=%d: %.9g", i, (double)got);
        row->plan_destroy(w.self, row, plan.plan);
        end(&w);
    }
}

int main(int argc, char **argv)
{
    static const char *const calls[] = {
#define CALL(result, verb, parameters) "cublasLt" #verb,
#include "gpu/blaslt.def"
#define CALL(result, verb, parameters) "hipblasLt" #verb,
#define CALL_OF_ONE(result, verb, parameters)
#include "gpu/blaslt.def"
#define CALL(result, name, parameters) #name,
#include "gpu/cudnn.def"
#define CALL(result, name, parameters) #name,
#include "gpu/rocblas.def"
    };

    if (argc != 7) return 2;
    plugin_path = argv[1];
    driver_path = argv[2];
    other_library = argv[3];
    few_library = argv[4];
    few_rocblas = argv[5];
    few_nccl = argv[6];
    run_case("all works where nothing fails", all_work, NULL);
    run_case("a caller's context of another device stays", caller_keeps_its_context, NULL);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (!strstr(calls[i], "String") && !strstr(calls[i], "_to_string") &&
            !strstr(calls[i], "Version"))
            each_place(calls[i], 999, libraries_fails, NULL);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        run_case(ways[i].name, way_is_taken, &ways[i]);
    run_case("graphs of cuDNN's are kept", graphs_are_kept, NULL);
    run_case("libraries that have nothing", has_nothing, NULL);
    run_case("work of a library's that fails", work_fails, NULL);
    run_case("a library on a lost device", device_is_lost, NULL);
    run_case("libraries that are off", is_off, NULL);
    run_case("what may be recorded", libraries_recorded, NULL);
    run_case("the first launch of a stream is recorded", first_is_recorded, NULL);
    run_case("a library that begins in a capture", begins_in_a_capture, NULL);
    run_case("no spare handle", no_spare, NULL);
    run_case("memory that rocBLAS asks for", requests_workspace, NULL);
    run_case("a rocBLAS that cannot be recorded", cannot_be_recorded, NULL);
    run_case("an NCCL that can only wait", can_only_wait, NULL);
    run_case("libraries in LD_LIBRARY_PATH", is_in_path, NULL);
    run_case("libraries that lack functions", lacks_functions, NULL);
    run_case("a library that lacks what is not needed", runs_without_optional_functions, NULL);
    run_case("TF32", libraries_tf32, NULL);
    return cases_end();
}
