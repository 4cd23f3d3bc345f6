/* SPDX-License-Identifier: Apache-2.0 */
/* test_graph_only.c: tests calls on a device without kernels, each of which an engine compiles as a
 * graph of one node: graphonly:0, whose engine does what BP_ENGINED says
 * (../plugins/engined/engined.h). */
#include "../unit/fixture.h"

#include "../plugins/engined/engined.h"

#include <backplane/ops.h>
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

struct graph_only {
    struct fixture f;
    struct engined *did;
};

/* Opens the device; deny: another device or dtype must not help. */
static struct graph_only graph_only_open(const char *words, bool deny)
{
    void *library = dlopen(GRAPHONLY, RTLD_NOW | RTLD_LOCAL);
    struct graph_only g = {.did = library ? dlsym(library, "engined") : NULL};

    cr_assert_not_null(g.did);
    setenv("BP_ENGINED", words, 1);
    setenv("BP_FALLBACK", deny ? "deny" : "allow", 1);
    OK(bp_core_create(NULL, &g.f.core));
    OK(bp_device_create(g.f.core, "graphonly:0", &g.f.device));
    OK(bp_stream_create(g.f.device, &g.f.stream));
    g.f.scope = bp_stream_scope(g.f.stream);
    return g;
}

static void graph_only_close(struct graph_only *g)
{
    fixture_finish(&g->f);
    cr_assert_eq(atomic_load(&g->did->engines), 0, "an engine is left");
    cr_assert_eq(atomic_load(&g->did->contexts), 0, "a context is left");
}

static struct bp_tensor *floats_of(struct graph_only *g, int64_t n, const float *data)
{
    return tensor_of(&g->f, BP_F32, 1, &n, data);
}

/* Asserts that y has these elements, and destroys it. */
static void expect_floats(struct graph_only *g, struct bp_tensor *y, size_t n, const float *data)
{
    expect_bytes(&g->f, y, data, n * sizeof *data);
    bp_tensor_destroy(y);
}

static int compiles_of(const struct graph_only *g)
{
    return atomic_load(&g->did->compiles);
}

/* The kernel that a prepared call of relu on three floats has. */
static void expect_kernel(struct graph_only *g, const char *kernel)
{
    struct bp_tensor *x = floats_of(g, 3, NULL);
    const struct bp_arg in = {&x, 1};
    const struct bp_call call = {.size = sizeof call, .op = "relu", .in = &in, .n_in = 1};
    struct bp_prepared *p;

    OK(bp_prepared_create(g->f.device, &call, NULL, 0, &p));
    cr_expect_str_eq(bp_prepared_kernel(p), kernel);
    bp_prepared_destroy(p);
    bp_tensor_destroy(x);
}

Test(graph_only, a_call_is_compiled_once)
{
    struct graph_only g = graph_only_open("", true);
    struct bp_tensor *x = floats_of(&g, 3, F32(-1, 0, 2)), *y;

    for (int i = 0; i < 3; i++) {
        y = NULL;
        OK(bp_op_relu(g.f.scope, x, &y));
        expect_floats(&g, y, 3, F32(0, 0, 2));
    }
    cr_expect_eq(compiles_of(&g), 1);
    cr_expect_eq(atomic_load(&g.did->runs), 3);
    bp_tensor_destroy(x);
    x = floats_of(&g, 2, F32(5, -5)); /* another shape */
    y = NULL;
    OK(bp_op_relu(g.f.scope, x, &y));
    expect_floats(&g, y, 2, F32(5, 0));
    cr_expect_eq(compiles_of(&g), 2);
    bp_tensor_destroy(x);
    expect_kernel(&g, "graphonly_engine_relu");
    graph_only_close(&g);
}

/* Constants are inputs of a call's graph, and equal graphs have one plan. */
Test(graph_only, one_plan_serves_all_frozen_constants)
{
    struct graph_only g = graph_only_open("", true);

    for (int i = 1; i < 4; i++) {
        struct bp_tensor *x = floats_of(&g, 2, F32(1, 2)), *y = NULL;
        struct bp_tensor *w = floats_of(&g, 2, F32((float)i, 10));
        OK(bp_tensor_freeze(w));
        OK(bp_op_mul(g.f.scope, x, w, &y));
        expect_floats(&g, y, 2, F32((float)i, 20));
        bp_tensor_destroy(x);
        bp_tensor_destroy(w);
    }
    cr_expect_eq(compiles_of(&g), 1);
    graph_only_close(&g);
}

/* A prepared call is not bound to the constant with which it was prepared. */
Test(graph_only, a_prepared_call_takes_other_constants)
{
    struct graph_only g = graph_only_open("", true);
    struct bp_tensor *w[2] = {floats_of(&g, 1, F32(3)), floats_of(&g, 1, F32(5))};
    struct bp_tensor *x = floats_of(&g, 1, F32(2)), *y = floats_of(&g, 1, NULL);
    const struct bp_arg in[2] = {{&x, 1}, {&w[0], 1}};
    const struct bp_call call = {.size = sizeof call, .op = "mul", .in = in, .n_in = 2};
    struct bp_prepared *p;

    for (int i = 0; i < 2; i++) OK(bp_tensor_freeze(w[i]));
    OK(bp_prepared_create(g.f.device, &call, NULL, 0, &p));
    for (int i = 0; i < 2; i++) {
        struct bp_tensor *both[2] = {x, w[i]};
        OK(bp_prepared_run(p, g.f.stream, both, 2, &y, 1, NULL));
        expect_bytes(&g.f, y, F32(i ? 10 : 6), 4);
        bp_tensor_destroy(w[i]);
    }
    bp_prepared_destroy(p);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    graph_only_close(&g);
}

/* An input that is read for its shape only and an absent optional input are no inputs of run. */
Test(graph_only, run_gets_the_tensors_of_the_graph)
{
    struct graph_only g = graph_only_open("", true);
    struct bp_full_like_attrs seven = {.size = sizeof seven, .value = 7};
    struct bp_tensor *x = tensor_of(&g.f, BP_F32, 2, SHAPE(1, 2), F32(1, 3)), *y = NULL;
    struct bp_tensor *bias = floats_of(&g, 2, F32(10, 20));

    OK(bp_op_full_like(g.f.scope, x, &seven, &y));
    expect_floats(&g, y, 2, F32(7, 7));
    y = NULL;
    OK(bp_op_layer_norm(g.f.scope, x, NULL, bias, NULL, &y, NULL, NULL));
    {
        float got[2];
        OK(bp_tensor_read(g.f.stream, y, got, sizeof got));
        cr_expect_float_eq(got[0], 9, 1e-3);
        cr_expect_float_eq(got[1], 21, 1e-3);
    }
    bp_tensor_destroy(y);
    bp_tensor_destroy(x);
    bp_tensor_destroy(bias);
    graph_only_close(&g);
}

/* The bounds of clip may change from run to run without a new plan, but the engine has compiled
 * them. */
Test(graph_only, attributes_of_a_run_are_compiled)
{
    struct graph_only g = graph_only_open("", true);
    struct bp_clip_attrs attrs = {.size = sizeof attrs, .min = 0, .max = 1};
    struct bp_tensor *x = floats_of(&g, 2, F32(-100, 100)), *y = floats_of(&g, 2, NULL);
    const struct bp_arg in = {&x, 1};
    const struct bp_call call = {
        .size = sizeof call, .op = "clip", .in = &in, .n_in = 1, .attrs = &attrs};
    struct bp_prepared *p;
    int before;

    OK(bp_prepared_create(g.f.device, &call, NULL, 0, &p));
    for (int i = 0; i < 60; i++) {
        attrs.max = 1 + i % 30;
        OK(bp_prepared_run(p, g.f.stream, &x, 1, &y, 1, &attrs));
        expect_bytes(&g.f, y, F32(0, (float)(1 + i % 30)), 8);
    }
    cr_expect_leq(atomic_load(&g.did->engines), 17, "some are destroyed");
    before = compiles_of(&g);
    cr_expect_geq(before, 30);
    OK(bp_prepared_run(p, g.f.stream, &x, 1, &y, 1, &attrs));
    cr_expect_eq(compiles_of(&g), before, "the last one is kept");
    bp_tensor_destroy(y);
    for (int i = 0; i < 4; i++) {
        attrs.max = 200 + i % 2;
        attrs.min = 50;
        y = NULL;
        OK(bp_op_clip(g.f.scope, x, &attrs, &y));
        expect_floats(&g, y, 2, F32(50, 100));
    }
    bp_prepared_destroy(p);
    bp_tensor_destroy(x);
    graph_only_close(&g);
}

Test(graph_only, empty_results_need_no_engine)
{
    struct graph_only g = graph_only_open("claim=none", true);
    struct bp_tensor *x = tensor_of(&g.f, BP_F32, 2, SHAPE(2, 0), NULL), *y = NULL, *z = NULL;

    OK(bp_op_relu(g.f.scope, x, &y));
    OK(bp_op_clip(g.f.scope, x, NULL, &z));
    cr_expect_eq(compiles_of(&g), 0);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    bp_tensor_destroy(z);
    graph_only_close(&g);
}

/* A view costs nothing; a node that reads it gets a dense copy, which the core makes. */
Test(graph_only, strided_tensors_are_copied)
{
    struct graph_only g = graph_only_open("", true);
    struct bp_tensor *x = tensor_of(&g.f, BP_F32, 2, SHAPE(2, 2), F32(1, -2, 3, 4));
    struct bp_tensor *t = NULL, *y = NULL;

    OK(bp_op_transpose(g.f.scope, x, NULL, &t));
    OK(bp_op_relu(g.f.scope, t, &y));
    expect_floats(&g, y, 4, F32(1, 3, 0, 4));
    bp_tensor_destroy(t);
    bp_tensor_destroy(x);
    graph_only_close(&g);
}

/* Returns why another device ran relu. */
static const char *why_fallen(struct graph_only *g)
{
    struct bp_fallback_info info = {.size = sizeof info};

    for (uint32_t i = 0; i < bp_device_fallbacks(g->f.device); i++) {
        OK(bp_device_fallback(g->f.device, i, &info));
        if (!strcmp(info.op, "relu")) return info.why;
    }
    return "none";
}

/* A call that the engine refuses runs on the cpu, or fails; both say what the engine said. */
static void expect_refused(const char *words, const char *why)
{
    struct graph_only g = graph_only_open(words, false);
    struct bp_tensor *x = floats_of(&g, 2, F32(-1, 2)), *y = NULL;
    uint32_t before;

    OK(bp_op_relu(g.f.scope, x, &y));
    expect_floats(&g, y, 2, F32(0, 2));
    cr_expect_not_null(strstr(why_fallen(&g), why), "%s: '%s'", words, why_fallen(&g));
    bp_tensor_destroy(x);
    OK(bp_thread_set_fallback(BP_CORE_FALLBACK_DENY, &before));
    x = floats_of(&g, 3, F32(-1, 2, 3));
    y = NULL;
    FAILS(BP_ERR_NO_KERNEL, why, bp_op_relu(g.f.scope, x, &y));
    bp_tensor_destroy(x);
    graph_only_close(&g);
}

Test(graph_only, the_reason_of_a_claim)
{
    expect_refused("refuse=relu", "the engine of graphonly does not compile it: it is refused");
}

Test(graph_only, a_claim_without_a_reason)
{
    expect_refused("claim=none", "the engine does not claim it");
}

Test(graph_only, the_reason_of_a_failed_compilation)
{
    expect_refused("compile=fails", "out of registers");
}

Test(graph_only, a_wrong_result_of_compile)
{
    expect_refused("compile=types", "another type than the inferred one");
}

/* The tensors of a call have the order of the app. */
Test(graph_only, calls_have_no_other_layout)
{
    struct graph_only g = graph_only_open("last", true);
    struct bp_tensor *x = tensor_of(&g.f, BP_F32, 4, SHAPE(1, 2, 2, 1), F32(1, 2, 3, 4));
    struct bp_tensor *y = NULL;

    FAILS(BP_ERR_NO_KERNEL, "wants another layout than row-major for a call",
          bp_op_relu(g.f.scope, x, &y));
    cr_expect_eq(atomic_load(&g.did->engines), 0, "the compiled graph is destroyed");
    bp_tensor_destroy(x);
    graph_only_close(&g);
}

/* Operators that update, draw random numbers or find extents have no row. */
Test(graph_only, rows_are_those_that_calls_can_use)
{
    struct graph_only g = graph_only_open("", true);
    struct bp_kernel_info info = {.size = sizeof info};
    uint32_t n = bp_device_kernels(g.f.device), adds = 0;

    for (uint32_t i = 0; i < n; i++) {
        OK(bp_device_kernel(g.f.device, i, &info));
        adds += !strcmp(info.op, "add");
        cr_expect(strcmp(info.op, "sgd") && strcmp(info.op, "uniform") &&
                      strcmp(info.op, "nonzero") && strcmp(info.op, "reshape"),
                  "%s", info.op);
        if (!strcmp(info.op, "add")) cr_expect_str_eq(info.plugin, "graphonly");
        if (!strcmp(info.op, "digamma"))
            cr_expect_eq(info.types[0] >> BP_I32 & 1, 0, "a dtype that no row computes");
    }
    cr_expect_eq(adds, 1, "of several rows of the cpu");
    graph_only_close(&g);
}

Test(graph_only, a_run_that_fails)
{
    struct graph_only g = graph_only_open("run=fails", true);
    struct bp_tensor *x = floats_of(&g, 2, F32(-1, 2)), *y = NULL;

    FAILS(BP_ERR_DEVICE, "the chip is too hot", bp_op_relu(g.f.scope, x, &y));
    cr_expect_null(y);
    bp_tensor_destroy(x);
    graph_only_close(&g);
}

/* ---- contexts ---- */

struct caller {
    struct graph_only *g;
    pthread_barrier_t *met; /* by all callers, before their first call */
    pthread_t thread;
    int bad;
};

static void *caller_run(void *ctx)
{
    struct caller *c = ctx;
    struct bp_stream *stream;
    struct bp_tensor *x, *y;
    float got[2] = {0};

    if (bp_stream_create_with(c->g->f.device, BP_STREAM_INLINE, &stream)) c->bad++;
    pthread_barrier_wait(c->met);
    for (int i = 1; i < 50 && !c->bad; i++) {
        y = NULL;
        c->bad += bp_tensor_create(c->g->f.device, BP_F32, 1, SHAPE(2), &x) != BP_OK ||
                  bp_tensor_write(stream, x, F32((float)-i, (float)i), sizeof got) ||
                  bp_op_relu(bp_stream_scope(stream), x, &y) ||
                  bp_tensor_read(stream, y, got, sizeof got) || got[0] != 0 || got[1] != (float)i;
        bp_tensor_destroy(x);
        bp_tensor_destroy(y);
    }
    bp_stream_destroy(stream);
    return NULL;
}

Test(graph_only, runs_at_once_have_contexts_of_their_own)
{
    struct graph_only g = graph_only_open("contexts", true);
    struct caller caller[3] = {{&g, NULL, 0, 0}, {&g, NULL, 0, 0}, {&g, NULL, 0, 0}};
    struct bp_tensor *x = floats_of(&g, 2, F32(1, 2)), *y = NULL;
    pthread_barrier_t met;

    OK(bp_op_relu(g.f.scope, x, &y)); /* so that all callers have one plan */
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    cr_assert_eq(pthread_barrier_init(&met, NULL, 3), 0);
    for (int i = 0; i < 3; i++) caller[i].met = &met;
    for (int i = 0; i < 3; i++)
        cr_assert_eq(pthread_create(&caller[i].thread, NULL, caller_run, &caller[i]), 0);
    for (int i = 0; i < 3; i++) {
        pthread_join(caller[i].thread, NULL);
        cr_expect_eq(caller[i].bad, 0, "%s", bp_error_message());
    }
    pthread_barrier_destroy(&met);
    cr_expect_eq(atomic_load(&g.did->busy), 0, "two runs at once had one context");
    cr_expect(atomic_load(&g.did->contexts) >= 1 && atomic_load(&g.did->contexts) <= 3,
              "contexts are used again");
    graph_only_close(&g);
}

/* ---- programs ---- */

/* Compiles y = tanh(relu(x)), or of the transposed x, and runs it twice. kernels: of its launches;
 * "*" at the beginning: any. */
static void expect_program(const char *words, bool transposed, const char *kernels)
{
    struct graph_only g = graph_only_open(words, *kernels != '*');
    struct bp_program_info info = {.size = sizeof info};
    struct bp_launch_info launch = {.size = sizeof launch};
    struct bp_tensor *value[4] = {NULL}, *x;
    struct bp_program *program;
    struct bp_graph *graph;
    char text[512] = "";

    OK(bp_graph_create(g.f.core, &graph));
    OK(bp_graph_input(graph, "x", BP_F32, 2, SHAPE(2, 2), &value[0]));
    if (transposed) OK(bp_op_transpose(bp_graph_scope(graph), value[0], NULL, &value[1]));
    OK(bp_op_relu(bp_graph_scope(graph), value[transposed], &value[2]));
    OK(bp_op_tanh(bp_graph_scope(graph), value[2], &value[3]));
    OK(bp_graph_output(graph, value[3], "y"));
    OK(bp_program_create(graph, g.f.device, &program));
    OK(bp_program_compile(program));
    OK(bp_program_get_info(program, &info));
    for (uint32_t i = 0; i < info.launches; i++) {
        OK(bp_program_launch(program, i, &launch));
        if (*kernels == '*') cr_expect_eq(launch.fallback, i ? 0 : BP_FALLBACK_DEVICE);
        strcat(strcat(text, i ? " " : ""), launch.kernel);
    }
    if (*kernels == '*') cr_expect_not_null(strstr(text, kernels + 1), "%s: %s", words, text);
    else cr_expect_str_eq(text, kernels, "%s: %s", words, text);
    x = tensor_of(&g.f, BP_F32, 2, SHAPE(2, 2), F32(-1, INFINITY, 0, -5));
    for (int i = 0; i < 2; i++) {
        struct bp_tensor *y = NULL;
        OK(bp_program_run(program, g.f.stream, &x, 1, &y, 1));
        expect_floats(&g, y, 4, transposed ? F32(0, 0, 1, 0) : F32(0, 1, 0, 0));
        OK(bp_program_get_info(program, &info));
        cr_expect(info.compiled, "%s: %s", words, info.not_compiled);
    }
    bp_tensor_destroy(x);
    bp_program_destroy(program);
    for (int i = 0; i < 4; i++) bp_tensor_destroy(value[i]);
    bp_graph_destroy(graph);
    graph_only_close(&g);
}

Test(graph_only, programs_have_groups)
{
    expect_program("", false, "graphonly_engine");
}

/* A group that fails is compiled node by node, like calls. */
Test(graph_only, nodes_of_groups_that_fail_are_compiled_alone)
{
    expect_program("compile=single", false, "graphonly_engine_relu graphonly_engine_tanh");
    expect_program("compile=single contexts", false, "graphonly_engine_relu graphonly_engine_tanh");
}

/* A node that the engine refuses runs on the cpu; the others stay with the engine. */
Test(graph_only, programs_with_a_node_of_another_device)
{
    expect_program("refuse=relu", false, "* graphonly_engine");
    expect_program("refuse=relu contexts", true, "* graphonly_engine");
}

/* The core makes the dense copy of a view, for which the device has no kernel. */
Test(graph_only, programs_with_a_copy)
{
    expect_program("", true, "(copy) graphonly_engine");
}

/* The engine gets nodes of constants with the others: no call is compiled for them. */
Test(graph_only, constants_are_left_to_the_engine)
{
    struct graph_only g = graph_only_open("", true);
    struct bp_tensor *w = floats_of(&g, 3, F32(-1, 2, 3)), *x = floats_of(&g, 3, F32(1, 1, 1));
    struct bp_tensor *value[3] = {NULL}, *y = NULL;
    struct bp_program *program;
    struct bp_graph *graph;

    OK(bp_tensor_freeze(w));
    OK(bp_graph_create(g.f.core, &graph));
    OK(bp_graph_input(graph, "x", BP_F32, 1, SHAPE(3), &value[0]));
    OK(bp_op_relu(bp_graph_scope(graph), w, &value[1]));
    OK(bp_op_add(bp_graph_scope(graph), value[0], value[1], &value[2]));
    OK(bp_graph_output(graph, value[2], "y"));
    OK(bp_program_create(graph, g.f.device, &program));
    OK(bp_program_compile(program));
    cr_expect_eq(compiles_of(&g), 1);
    OK(bp_program_run(program, g.f.stream, &x, 1, &y, 1));
    expect_floats(&g, y, 3, F32(1, 3, 4));
    bp_program_destroy(program);
    for (int i = 0; i < 3; i++) bp_tensor_destroy(value[i]);
    bp_tensor_destroy(w);
    bp_tensor_destroy(x);
    bp_graph_destroy(graph);
    graph_only_close(&g);
}

/* ---- the flag ---- */

Test(graph_only, the_flag_needs_an_engine)
{
    struct bp_core *core;
    struct bp_device *device;

    setenv("BP_ENGINED", "flag=lone", 1);
    OK(bp_core_create(NULL, &core));
    FAILS(BP_ERR_PLUGIN, "GRAPH_ONLY: expected a plugin with engines",
          bp_device_create(core, "graphonly:0", &device));
    bp_core_destroy(core);
}
