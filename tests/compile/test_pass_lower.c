/* SPDX-License-Identifier: Apache-2.0 */
/* test_pass_lower.c: tests how graphs are lowered to schedules: the launches, results in the memory
 * of inputs, fused operators on devices without a kernel for them, and the time that it takes. */
#include "pass_kit.h"

#include <stdio.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

static const double lower_terms = 3 * 41 * 2.25; /* as in test_pass_epilogue.c */

/* ---- launches ---- */

struct lower_case {
    const char *text, *launches;
    uint64_t arena; /* bytes */
};

/* The tests are about launches of single operators. */
static void lower_without_fusion(void)
{
    setenv("BP_PASSES", "-fuse", 1);
}

TestSuite(lower, .init = lower_without_fusion);

static void expect_launches(uint32_t dtype, const struct lower_case *c, bool arena)
{
    struct text_graph g = text_begin();
    struct bp_schedule *s;
    char launches[256];

    g.dtype = dtype;
    text_record(&g, c->text);
    setenv("BP_VALIDATE", "passes", 1); /* with the word arena, values have bytes behind them */
    OK(bp_compile(g.graph, g.f.device, &s));
    setenv("BP_VALIDATE", "passes,arena", 1);
    pass_list_launches(s, launches, sizeof launches);
    cr_assert_str_eq(launches, c->launches, "%s, %s: %s", c->text, bp_dtype_name(dtype), launches);
    if (arena)
        cr_assert_eq(s->arena, c->arena, "%s: an arena of %llu bytes, expected %llu", c->text,
                     (unsigned long long)s->arena, (unsigned long long)c->arena);
    bp_schedule_destroy(s);
    pass_check_values(&g, lower_terms);
    text_finish(&g);
}

/* ---- results in the memory of inputs ---- */

/* A value of 4x4x4 elements has 256 bytes. A result that lies in the memory of an input has none of
 * its own; the results of a run are not in the arena. */
Test(lower, a_result_may_lie_in_an_input_that_is_not_read_again)
{
    static const struct lower_case cases[] = {
        {"abs(neg(abs(neg(x))))", "neg abs neg abs", 0},
        {"sigmoid(tanh(neg(x)))", "neg tanh sigmoid", 0},
        {"add(neg(x), y)", "neg add", 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_launches(BP_F32, &cases[i], true);
}

Test(lower, a_result_does_not_lie_in_an_input_that_is_read_again)
{
    static const struct lower_case cases[] = {
        {"y = neg(x)\nz = abs(y)\nreturn tanh(add(z, y))", "neg abs add tanh", 256},
        {"y = neg(x)\nz = abs(y)\nreturn add(y, z)", "neg abs add", 256},
        {"y = neg(x)\nz = abs(y)\nreturn z, y", "neg abs", 0},
        {"y = neg(x)\nreturn add(y, y)", "neg add", 256},
        {"abs(x)", "abs", 0},
        {"y = abs(c!)\nadd(x, tanh(y))", "add", 0},
        {"abs(c~[4,4,4])", "abs", 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_launches(BP_F32, &cases[i], true);
}

/* A view of a value keeps it. */
Test(lower, a_result_does_not_lie_in_a_value_that_has_a_view)
{
    static const struct lower_case cases[] = {
        {"y = neg(x)\nv = transpose(y; perm=0_2_1)\nz = abs(y)\nreturn add(z, v)", "neg abs add",
         0},
        {"y = neg(x)\nv = transpose(y; perm=0_2_1)\nz = tanh(v)\nw = abs(y)\nreturn add(w, z)",
         "neg tanh abs add", 0},
        {"y = neg(x)\nv = reshape(y; shape=16_4)\nz = abs(v)\nw = tanh(y)\n"
         "return add(reshape(z; shape=4_4_4), w)",
         "neg abs tanh add", 0},
        {"y = neg(x)\nv = slice(y; starts=1, ends=3)\nz = abs(v)\nw = tanh(y)\nreturn z, w",
         "neg abs tanh", 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_launches(BP_F32, &cases[i], false);
}

/* A residual may be overwritten by the product that reads it only if nothing reads it later. */
/* Each result of a group may lie in any one of its inputs, and no two in the same. All values of
 * these graphs lie in the memory of results of the run; an input that is read again keeps its
 * value. */
Test(lower, results_of_groups_lie_in_inputs)
{
    static const struct lower_case cases[] = {
        {"a = softmax(x)\nb = relu(add(y, a))\nreturn softmax(b)", "softmax fused softmax", 0},
        {"a = softmax(x)\nb = add(y, a)\nc = relu(b)\nreturn softmax(b), softmax(c)",
         "softmax fused softmax softmax", 0},
        {"a = softmax(x)\nd = softmax(y)\nb = sub(d, a)\nc = relu(b)\nreturn softmax(b), "
         "softmax(c)",
         "softmax softmax fused softmax softmax", 0},
        {"a = softmax(x)\nb = relu(add(y, a))\nreturn softmax(b), softmax(a)",
         "softmax fused softmax softmax", 0},
    };

    unsetenv("BP_PASSES");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_launches(BP_F32, &cases[i], true);
}

Test(lower, residuals_that_are_read_again_stay)
{
    static const struct lower_case cases[] = {
        {"r = neg(y[32,32])\nz = relu(add(matmul(x[32,40], w[40,32]), r))\nreturn add(z, r)",
         "neg fused_matmul add", 0},
        {"r = neg(y[2,8,14,14])\nz = relu(add(conv(x[2,4,16,16], w[8,4,3,3], _), r))\n"
         "return add(z, r)",
         "neg fused_conv add", 0},
        {"r = neg(y[32,32])\nz = relu(add(matmul(x[32,40], w[40,32]), r))\nreturn z",
         "neg fused_matmul", 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_launches(BP_F32, &cases[i], false);
}

/* An update writes to the memory of its parameter; what was read before it keeps its numbers. */
Test(lower, updates_of_intermediate_results)
{
    static const struct lower_case cases[] = {
        {"p = neg(x)\na = abs(p)\nq = sgd(p, g[4,4,4], 0.25)\nreturn add(a, q)", "neg abs sgd add",
         0},
        {"p = neg(x)\nq = sgd(p, g[4,4,4], 0.25)\nr = tanh(q)\nreturn add(r, q)",
         "neg sgd tanh add", 0},
        {"p = neg(x)\nv = transpose(p; perm=0_2_1)\na = abs(v)\nq = sgd(p, g[4,4,4], 0.25)\n"
         "return add(a, v), q",
         "neg abs sgd add", 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_launches(BP_F32, &cases[i], false);
}

/* ---- expansion ---- */

/* The cpu has no fused kernels for f64 and for small tensors. */
Test(lower, fused_operators_are_expanded_without_a_kernel)
{
    static const struct lower_case cases[] = {
        {"relu(add(conv(x[2,4,5,5], w[6,4,3,3], c[6]), r[2,6,3,3]))", "conv add relu", 0},
        {"clip(matmul(x[3,5], w[5,4]); min=-0.5, max=0.75)", "matmul clip", 0},
        {"r = neg(y[3,4])\nz = tanh(add(matmul(x[3,5], w[5,4]), r))\nreturn add(z, r)",
         "neg matmul add tanh add", 0},
        {"r = neg(y[3,4])\nz = tanh(add(matmul(x[3,5], w[5,4]), r))\nreturn abs(z)",
         "neg matmul add tanh abs", 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        expect_launches(BP_F32, &cases[i], false);
        expect_launches(BP_F64, &cases[i], false);
    }
}

/* The nodes of an expansion share memory as recorded ones do: all three lie in the result. */
Test(lower, an_expansion_needs_no_memory_of_its_own)
{
    static const struct lower_case c = {"tanh(add(matmul(x[3,5], w[5,4]), r[3,4]))",
                                        "matmul add tanh", 0};

    expect_launches(BP_F32, &c, true);
    expect_launches(BP_F64, &c, true);
}

/* ---- time ---- */

static double lower_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Compiles, and returns the number of launches; --verbose prints the time. The limit only finds
 * steps whose time grows with the square of the graph: it is many times what the compiler takes on
 * a slow machine. */
static uint32_t timed_compile(struct bp_graph *graph, struct bp_device *device, const char *what)
{
    double begin = lower_seconds(), took;
    struct bp_schedule *s;
    uint32_t n;

    OK(bp_compile(graph, device, &s));
    took = lower_seconds() - begin;
    n = s->n_launch;
    bp_schedule_destroy(s);
    cr_log_info("%s: compiled to %u launches in %.3f s of processor time", what, n, took);
    cr_assert_lt(took, 5.0, "%s: compiled in %.2f s", what, took);
    return n;
}

static struct bp_tensor *replace_tensor(struct bp_tensor **value, struct bp_tensor *next)
{
    bp_tensor_destroy(*value);
    return *value = next;
}

/* Adds an operator of two inputs, or of one. */
static struct bp_tensor *long_call(struct bp_scope *scope, const char *op, struct bp_tensor *a,
                                   struct bp_tensor *b)
{
    struct bp_arg in[2] = {{&a, 1}, {&b, 1}};
    struct bp_call call = {.size = sizeof call, .op = op, .in = in, .n_in = b ? 2 : 1};
    struct bp_tensor *y = NULL;

    OK(bp_call_run(scope, &call, &y, 1, NULL));
    return y;
}

/* Each round adds 5 nodes: a sum with the value of 40 rounds before, so that many values live at
 * once; an equal computation; and an unread node. */
Test(lower, a_graph_of_20000_nodes_compiles_soon)
{
    enum {
        ROUNDS = 4000,
        BACK = 40
    };
    struct text_graph g = text_begin();
    struct bp_tensor *x, *kept[BACK], *y, *t;

    OK(bp_graph_input(g.graph, "x", BP_F32, 1, SHAPE(16), &x));
    for (int i = 0; i < BACK; i++) kept[i] = bp_tensor_retain(x);
    y = bp_tensor_retain(x);
    for (int i = 0; i < ROUNDS; i++) {
        struct bp_tensor *same = long_call(g.scope, "tanh", y, NULL);
        t = long_call(g.scope, "tanh", y, NULL);
        replace_tensor(&t, long_call(g.scope, "sub", t, same));
        bp_tensor_destroy(long_call(g.scope, "neg", t, NULL));
        replace_tensor(&y, long_call(g.scope, "add", t, kept[i % BACK]));
        replace_tensor(&kept[i % BACK], bp_tensor_retain(y));
        bp_tensor_destroy(same);
        bp_tensor_destroy(t);
    }
    OK(bp_graph_output(g.graph, y, NULL));
    cr_assert_eq(timed_compile(g.graph, g.f.device, "20,000 nodes"), 3 * ROUNDS);
    for (int i = 0; i < BACK; i++) bp_tensor_destroy(kept[i]);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    text_finish(&g);
}

/* Records x + c for each of n constants. Returns the processor time. */
static double timed_constants(struct text_graph *g, struct bp_tensor *const *constant, int n)
{
    struct bp_graph *graph;
    struct bp_tensor *x;
    double took;

    OK(bp_graph_create(g->f.core, &graph));
    OK(bp_graph_input(graph, "x", BP_F32, 1, SHAPE(1), &x));
    took = lower_seconds();
    for (int i = 0; i < n; i++)
        bp_tensor_destroy(long_call(bp_graph_scope(graph), "add", x, constant[i]));
    took = lower_seconds() - took;
    bp_tensor_destroy(x);
    bp_graph_destroy(graph);
    return took;
}

/* Eight times the constants take about eight times the time; with a search through all
 * values they take up to 64 times the time. */
Test(lower, many_constants_are_recorded_soon)
{
    enum {
        MANY = 24000,
        FEW = MANY / 8
    };
    static struct bp_tensor *constant[MANY];
    struct text_graph g = text_begin();
    double few = INFINITY, many = INFINITY;

    for (int i = 0; i < MANY; i++)
        constant[i] = tensor_of(&g.f, BP_F32, 1, SHAPE(1), (float[]){(float)i});
    for (int round = 0; round < 3; round++) {
        few = fmin(few, timed_constants(&g, constant, FEW));
        many = fmin(many, timed_constants(&g, constant, MANY));
    }
    cr_log_info("%d constants: %.4f s, %d: %.4f s of processor time", FEW, few, MANY, many);
    cr_assert_lt(many, 24 * few, "%.4f s and %.4f s", few, many);
    for (int i = 0; i < MANY; i++) bp_tensor_destroy(constant[i]);
    text_finish(&g);
}

/* ---- ResNet-50 ---- */

static struct bp_tensor *frozen_fill(struct text_graph *g, uint32_t rank, const int64_t *shape)
{
    struct bp_tensor *t;
    size_t n = 1;
    float *number;

    for (uint32_t a = 0; a < rank; a++) n *= (size_t)shape[a];
    number = malloc(n * sizeof *number);
    for (size_t i = 0; i < n; i++) number[i] = 0.5;
    t = tensor_of(&g->f, BP_F32, rank, shape, number);
    OK(bp_tensor_freeze(t));
    free(number);
    return t;
}

/* conv without a bias, and batch_norm. Destroys x. */
static struct bp_tensor *resnet_conv(struct text_graph *g, struct bp_tensor *x, int64_t filters,
                                     int64_t window, int64_t step)
{
    struct bp_tensor_info info = {.size = sizeof info};
    struct bp_conv_attrs attrs = {
        .size = sizeof attrs, .stride = {step, step, 1}, .dilation = {1, 1, 1}, .groups = 1};
    struct bp_tensor *w, *norm[4], *y = NULL, *z = NULL;

    OK(bp_tensor_get_info(x, &info));
    for (int i = 0; i < 6; i++) attrs.pad[i] = i % 3 == 2 ? 0 : window / 2;
    w = frozen_fill(g, 4, SHAPE(filters, info.shape[1], window, window));
    for (int i = 0; i < 4; i++) norm[i] = frozen_fill(g, 1, &filters);
    OK(bp_op_conv(g->scope, x, w, NULL, &attrs, &y));
    OK(bp_op_batch_norm(g->scope, y, norm[0], norm[1], norm[2], norm[3], NULL, &z));
    for (int i = 0; i < 4; i++) bp_tensor_destroy(norm[i]);
    bp_tensor_destroy(w);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    return z;
}

static struct bp_tensor *resnet_relu(struct text_graph *g, struct bp_tensor *x)
{
    return replace_tensor(&x, long_call(g->scope, "relu", x, NULL));
}

/* Three convolutions, and their input or its projection. Destroys x. */
static struct bp_tensor *resnet_block(struct text_graph *g, struct bp_tensor *x, int64_t width,
                                      int64_t step, bool projects)
{
    struct bp_tensor *side = bp_tensor_retain(x), *y = x;

    y = resnet_relu(g, resnet_conv(g, y, width, 1, 1));
    y = resnet_relu(g, resnet_conv(g, y, width, 3, step));
    y = resnet_conv(g, y, 4 * width, 1, 1);
    if (projects) side = resnet_conv(g, side, 4 * width, 1, step);
    replace_tensor(&y, long_call(g->scope, "add", y, side));
    bp_tensor_destroy(side);
    return resnet_relu(g, y);
}

/* The schedule has one launch for each of the 53 convolutions, and a copy of the image to
 * channels-last and one of the result from it. */
Test(lower, resnet_50_compiles_soon)
{
    static const int blocks[] = {3, 4, 6, 3};
    struct text_graph g = text_begin();
    struct bp_tensor *x;

    OK(bp_graph_input(g.graph, "x", BP_F32, 4, SHAPE(1, 3, 224, 224), &x));
    x = resnet_relu(&g, resnet_conv(&g, x, 64, 7, 2));
    for (int stage = 0; stage < 4; stage++)
        for (int i = 0; i < blocks[stage]; i++)
            x = resnet_block(&g, x, 64 << stage, stage && !i ? 2 : 1, !i);
    OK(bp_graph_output(g.graph, x, NULL));
    cr_assert_eq(timed_compile(g.graph, g.f.device, "ResNet-50"), 55);
    bp_tensor_destroy(x);
    text_finish(&g);
}
