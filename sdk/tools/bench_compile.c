/* SPDX-License-Identifier: Apache-2.0 */
/* bench_compile.c: measures how long the compiler of programs takes, beside its lowering alone:
 * ResNet-50, and 20,000 small nodes. */
#include "bench.h"
#include <backplane/ops.h>

struct compiled {
    struct bench *bench;
    struct bp_graph *graph;
    uint32_t flags; /* enum bp_program_flags */
};

/* Compiles the graph `calls` times; returns the seconds of one compilation, without those of
 * bp_program_create and bp_program_destroy. */
static double compile_block(void *ctx, int calls)
{
    const struct compiled *c = ctx;
    const struct bp_program_options options = {
        .size = sizeof options, .flags = c->flags, .cache = ""};
    double seconds = 0;

    for (int i = 0; i < calls; i++) {
        struct bp_program *program;
        enum bp_status status;
        double begin;

        if (bp_program_create_with(c->graph, c->bench->device, &options, &program)) return -1;
        begin = bench_now();
        status = bp_program_compile(program);
        seconds += bench_now() - begin;
        bp_program_destroy(program);
        if (status) return -1;
    }
    return seconds / calls;
}

typedef bool compile_record(struct bench *bench, struct bp_graph *graph);

static void compile_row(struct bench *bench, const char *name, compile_record *record)
{
    struct compiled whole = {.bench = bench}, lowering;
    struct bench_case c = {.name = name,
                           .unit = "ns",
                           .figure = BENCH_TIME,
                           .side = {.block = compile_block, .ctx = &whole},
                           .reference_name = "lowering alone",
                           .reference = {.block = compile_block, .ctx = &lowering}};
    bool ok;

    if (!bench_wants(bench, name)) return;
    ok = !bp_graph_create(bench->core, &whole.graph) && record(bench, whole.graph);
    lowering = whole;
    lowering.flags = BP_PROGRAM_NO_PASSES;
    if (ok) bench_run(bench, &c);
    else bench_failed(bench, name);
    bp_graph_destroy(whole.graph);
}

/* Destroys *value and puts next in its place. */
static void compile_replace(struct bp_tensor **value, struct bp_tensor *next)
{
    bp_tensor_destroy(*value);
    *value = next;
}

/* --- ResNet-50 -------------------------------------------------------------------------------- */

struct resnet {
    struct bench *bench;
    struct bp_graph *graph;
    struct bp_scope *scope;
};

/* Creates a frozen tensor of n ones: a vector of a norm. */
static bool resnet_ones(const struct resnet *r, int64_t n, struct bp_tensor **out)
{
    float one[2048];

    for (int64_t i = 0; i < n; i++) one[i] = 1;
    return !bp_tensor_create(r->bench->device, BP_F32, 1, &n, out) &&
           !bp_tensor_write(r->bench->stream, *out, one, (uint64_t)n * sizeof *one) &&
           !bp_tensor_freeze(*out);
}

/* *out = the norm of the convolution of x. The filters are an input of the graph: no kernel packs
 * them in advance. */
static bool resnet_conv(const struct resnet *r, struct bp_tensor *x, const int64_t *filters,
                        int64_t stride, struct bp_tensor **out)
{
    struct bp_conv_attrs attrs = bp_conv_defaults();
    struct bp_tensor *w = NULL, *y = NULL, *ones = NULL;
    bool ok;

    attrs.stride[0] = attrs.stride[1] = stride;
    attrs.pad[0] = attrs.pad[1] = attrs.pad[3] = attrs.pad[4] = filters[2] / 2;
    ok = !bp_graph_input(r->graph, NULL, BP_F32, 4, filters, &w) &&
         !bp_op_conv(r->scope, x, w, NULL, &attrs, &y) && resnet_ones(r, filters[0], &ones) &&
         !bp_op_batch_norm(r->scope, y, ones, ones, ones, ones, NULL, out);
    bp_tensor_destroy(w);
    bp_tensor_destroy(y);
    bp_tensor_destroy(ones);
    return ok;
}

/* Replaces *x by relu of itself, after it has added `more` (NULL: nothing). */
static bool resnet_relu(const struct resnet *r, struct bp_tensor *more, struct bp_tensor **x)
{
    struct bp_tensor *sum = NULL, *y = NULL;
    bool ok = (!more || !bp_op_add(r->scope, *x, more, &sum)) &&
              !bp_op_relu(r->scope, more ? sum : *x, &y);

    bp_tensor_destroy(sum);
    compile_replace(x, y);
    return ok;
}

/* A bottleneck: 1x1, 3x3 with the stride, and 1x1 to 4 n channels; the first block of a stage also
 * convolves the values that it adds. */
static bool resnet_block(const struct resnet *r, struct bp_tensor **x, int64_t channels, int64_t n,
                         int64_t stride)
{
    const int64_t shape[4][4] = {
        {n, channels, 1, 1}, {n, n, 3, 3}, {4 * n, n, 1, 1}, {4 * n, channels, 1, 1}};
    struct bp_tensor *v[4] = {NULL};
    bool ok = resnet_conv(r, *x, shape[0], 1, &v[0]) && resnet_relu(r, NULL, &v[0]) &&
              resnet_conv(r, v[0], shape[1], stride, &v[1]) && resnet_relu(r, NULL, &v[1]) &&
              resnet_conv(r, v[1], shape[2], 1, &v[2]) &&
              (channels == 4 * n || resnet_conv(r, *x, shape[3], stride, &v[3])) &&
              resnet_relu(r, v[3] ? v[3] : *x, &v[2]);

    bp_tensor_destroy(v[0]);
    bp_tensor_destroy(v[1]);
    bp_tensor_destroy(v[3]);
    compile_replace(x, v[2]);
    return ok;
}

static bool resnet_begin(const struct resnet *r, struct bp_tensor **x)
{
    const int64_t image[4] = {1, 3, 224, 224}, filters[4] = {64, 3, 7, 7};
    struct bp_max_pool_attrs attrs = bp_max_pool_defaults();
    struct bp_tensor *y = NULL, *pooled = NULL;
    bool ok;

    attrs.window[0] = attrs.window[1] = 3;
    attrs.stride[0] = attrs.stride[1] = 2;
    attrs.pad[0] = attrs.pad[1] = attrs.pad[3] = attrs.pad[4] = 1;
    ok = !bp_graph_input(r->graph, "x", BP_F32, 4, image, x) &&
         resnet_conv(r, *x, filters, 2, &y) && resnet_relu(r, NULL, &y) &&
         !bp_op_max_pool(r->scope, y, &attrs, &pooled);
    bp_tensor_destroy(y);
    compile_replace(x, pooled);
    return ok;
}

static bool resnet_end(const struct resnet *r, struct bp_tensor *x)
{
    const int64_t weight[2] = {1000, 2048};
    struct bp_tensor *v[4] = {NULL};
    bool ok = !bp_op_global_avg_pool(r->scope, x, NULL, &v[0]) &&
              !bp_op_flatten(r->scope, v[0], NULL, &v[1]) &&
              !bp_graph_input(r->graph, NULL, BP_F32, 2, weight, &v[2]) &&
              !bp_op_linear(r->scope, v[1], v[2], NULL, &v[3]) &&
              !bp_graph_output(r->graph, v[3], NULL);

    for (int i = 0; i < 4; i++) bp_tensor_destroy(v[i]);
    return ok;
}

static bool resnet_record(struct bench *bench, struct bp_graph *graph)
{
    static const int blocks[4] = {3, 4, 6, 3};
    const struct resnet r = {bench, graph, bp_graph_scope(graph)};
    struct bp_tensor *x = NULL;
    int64_t channels = 64;
    bool ok = resnet_begin(&r, &x);

    for (int stage = 0; stage < 4; stage++) {
        int64_t n = (int64_t)64 << stage;
        for (int i = 0; ok && i < blocks[stage]; i++) {
            ok = resnet_block(&r, &x, channels, n, stage && !i ? 2 : 1);
            channels = 4 * n;
        }
    }
    ok = ok && resnet_end(&r, x);
    bp_tensor_destroy(x);
    return ok;
}

/* --- 20,000 nodes ----------------------------------------------------------------------------- */

enum {
    ROUNDS = 4000,
    BACK = 40
};

/* *out = the sum of two values: of a function of y that is computed twice, and the value of BACK
 * rounds before, so that many values live at once. A fifth node is not read. */
static bool many_round(struct bp_scope *scope, struct bp_tensor *y, struct bp_tensor *before,
                       struct bp_tensor **out)
{
    struct bp_tensor *v[4] = {NULL};
    bool ok = !bp_op_tanh(scope, y, &v[0]) && !bp_op_tanh(scope, y, &v[1]) &&
              !bp_op_sub(scope, v[0], v[1], &v[2]) && !bp_op_neg(scope, v[2], &v[3]) &&
              !bp_op_add(scope, v[2], before, out);

    for (int i = 0; i < 4; i++) bp_tensor_destroy(v[i]);
    return ok;
}

static bool many_record(struct bench *bench, struct bp_graph *graph)
{
    const int64_t shape[1] = {16};
    struct bp_tensor *x = NULL, *kept[BACK] = {NULL}, *y;
    bool ok = !bp_graph_input(graph, "x", BP_F32, 1, shape, &x);

    (void)bench;
    y = x;
    for (int i = 0; ok && i < ROUNDS; i++) {
        struct bp_tensor **place = &kept[i % BACK], *next = NULL;
        ok = many_round(bp_graph_scope(graph), y, *place ? *place : x, &next);
        if (ok) compile_replace(place, next);
        y = *place;
    }
    ok = ok && !bp_graph_output(graph, y, NULL);
    for (int i = 0; i < BACK; i++) bp_tensor_destroy(kept[i]);
    bp_tensor_destroy(x);
    return ok;
}

void bench_compile(struct bench *bench)
{
    compile_row(bench, "compile/ResNet-50", resnet_record);
    compile_row(bench, "compile/20000 nodes", many_record);
}
