/* SPDX-License-Identifier: Apache-2.0 */
/* transformer.c: runs the layers of a sentence encoder (as large as MiniLM's), and steps of a
 * decoder with caches of keys and values, on ipu or npu and on the cpu: results must agree, and
 * 95 % of the nodes must run by rows of the plugin. Groups of its engine count. On the stand-in for
 * Poplar, which counts the bytes that streams copy, the caches must stay on the device between
 * steps. Prints TAP.
 *
 *     transformer DEVICE [STANDIN]      STANDIN: the library of the stand-in for Poplar */
#include <backplane/backplane.h>
#include <backplane/ops.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LENGTH = 7, /* of a sentence */
    BATCH = 2,
    PLACES = 8, /* of a cache */
    RESULTS = 1024,
    OBJECTS = 400
};

struct net_sizes {
    int64_t layers, words, width, heads, depth, inner;
};
/* MiniLM has 30,522 words, and random weights; the rows of other words would only be copied. */
static const struct net_sizes minilm = {6, 2000, 384, 12, 32, 1536};
static const struct net_sizes small = {2, 50, 32, 4, 8, 64};
static struct bp_core *core;
static struct bp_tensor *object[OBJECTS]; /* to be destroyed */
static struct net_sizes size;
static int objects, number, failures;
/* Of the stand-in for Poplar: bytes that its streams have copied. NULL: another device. */
static uint64_t (*copied)(int to_host);
/* Of the decoder's steps after the first one: bytes to and from the device. */
static uint64_t step_bytes[2];
static const int64_t net_axes[] = {0, 2, 1, 3};

/* The network that is being recorded. */
static struct {
    struct bp_device *device;
    struct bp_stream *stream;
    struct bp_graph *graph;
    struct bp_scope *scope;
    uint32_t seed;
} net;

static void net_need(enum bp_status status, const char *what)
{
    if (!status) return;
    printf("Bail out! %s: %s: %s\n", what, bp_status_name(status), bp_error_message());
    exit(1);
}

static void net_check(int good, const char *name)
{
    printf("%s %d - %s\n", good ? "ok" : "not ok", ++number, name);
    failures += !good;
}

static struct bp_tensor *net_hold(struct bp_tensor *t)
{
    if (objects == OBJECTS) net_need(BP_ERR_MEMORY, "objects");
    object[objects++] = t;
    return t;
}

/* A frozen tensor of numbers from base - spread to base + spread; spread 0: zeros that are not
 * frozen, for a cache. */
static struct bp_tensor *net_numbers(uint32_t rank, const int64_t *shape, float spread, float base)
{
    struct bp_tensor *t = NULL;
    size_t count = 1;
    float *values;

    for (uint32_t i = 0; i < rank; i++) count *= (size_t)shape[i];
    values = calloc(count, sizeof *values);
    if (!values) net_need(BP_ERR_MEMORY, "numbers");
    for (size_t i = 0; i < count && spread > 0; i++) {
        net.seed = net.seed * 1664525u + 1013904223u;
        values[i] = base + spread * ((float)(net.seed >> 8) / 8388608 - 1);
    }
    net_need(bp_tensor_create(net.device, BP_F32, rank, shape, &t), "tensor");
    net_need(bp_tensor_write(net.stream, t, values, count * sizeof *values), "write");
    if (spread > 0) net_need(bp_tensor_freeze(t), "freeze");
    free(values);
    return net_hold(t);
}

static struct bp_tensor *net_vector(int64_t n, float spread, float base)
{
    return net_numbers(1, &n, spread, base);
}

static struct bp_tensor *net_input(const char *name, uint32_t dtype, uint32_t rank,
                                   const int64_t *shape)
{
    struct bp_tensor *t = NULL;

    net_need(bp_graph_input(net.graph, name, dtype, rank, shape, &t), name);
    return net_hold(t);
}

static struct bp_tensor *net_add(struct bp_tensor *x, struct bp_tensor *y)
{
    struct bp_tensor *z = NULL;

    net_need(bp_op_add(net.scope, x, y, &z), "add");
    return net_hold(z);
}

static struct bp_tensor *net_matmul(struct bp_tensor *x, struct bp_tensor *y, int turned)
{
    struct bp_matmul_attrs attrs = bp_matmul_defaults();
    struct bp_tensor *z = NULL;

    attrs.transpose_b = turned;
    net_need(bp_op_matmul(net.scope, x, y, &attrs, &z), "matmul");
    return net_hold(z);
}

static struct bp_tensor *net_dense(struct bp_tensor *x, int64_t in, int64_t out, int has_bias)
{
    struct bp_tensor *w = net_numbers(2, (const int64_t[]){in, out}, 1 / sqrtf((float)in), 0);
    struct bp_tensor *y = net_matmul(x, w, 0);

    return has_bias ? net_add(y, net_vector(out, 0.1f, 0)) : y;
}

static struct bp_tensor *net_norm(struct bp_tensor *x, int has_mean)
{
    struct bp_tensor *scale = net_vector(size.width, 0.2f, 1), *y = NULL;

    if (has_mean)
        net_need(bp_op_layer_norm(net.scope, x, scale, net_vector(size.width, 0.1f, 0), NULL, &y,
                                  NULL, NULL),
                 "layer_norm");
    else net_need(bp_op_rms_norm(net.scope, x, scale, NULL, &y, NULL), "rms_norm");
    return net_hold(y);
}

static struct bp_tensor *net_shape(struct bp_tensor *x, uint32_t rank, const int64_t *shape)
{
    struct bp_reshape_attrs attrs = {.size = sizeof attrs, .shape = {shape, rank}};
    struct bp_tensor *y = NULL;

    net_need(bp_op_reshape(net.scope, x, NULL, &attrs, &y), "reshape");
    return net_hold(y);
}

static struct bp_tensor *net_turn(struct bp_tensor *x)
{
    struct bp_transpose_attrs attrs = {.size = sizeof attrs, .perm = {net_axes, 4}};
    struct bp_tensor *y = NULL;

    net_need(bp_op_transpose(net.scope, x, &attrs, &y), "transpose");
    return net_hold(y);
}

/* batch, length, width -> batch, heads, length, depth */
static struct bp_tensor *net_heads(struct bp_tensor *x, int64_t batch, int64_t length)
{
    return net_turn(net_shape(x, 4, (const int64_t[]){batch, length, size.heads, size.depth}));
}

static struct bp_tensor *net_attend(struct bp_tensor *q, struct bp_tensor *k, struct bp_tensor *v,
                                    struct bp_tensor *mask, int64_t batch, int64_t length)
{
    const int64_t flat[] = {batch, length, size.width};
    struct bp_tensor *scores = NULL, *p = NULL;
    struct bp_scale_attrs scale = bp_scale_defaults();

    scale.factor = 1 / sqrt((double)size.depth);
    net_need(bp_op_scale(net.scope, net_matmul(q, k, 1), &scale, &scores), "scale");
    net_hold(scores);
    net_need(bp_op_softmax(net.scope, net_add(scores, mask), NULL, &p), "softmax");
    return net_shape(net_turn(net_matmul(net_hold(p), v, 0)), 3, flat);
}

static struct bp_tensor *net_embed(struct bp_tensor *ids)
{
    struct bp_tensor *y = NULL;

    net_need(bp_op_embedding(net.scope,
                             net_numbers(2, (const int64_t[]){size.words, size.width}, 1, 0), ids,
                             NULL, &y),
             "embedding");
    return net_hold(y);
}

/* Inputs: ids, and a mask that is added to scores. The result: the mean of the last layer. */
static void encoder_record(void)
{
    const int64_t ids[] = {BATCH, LENGTH}, mask_shape[] = {BATCH, 1, 1, LENGTH}, axes[] = {1};
    struct bp_mean_attrs over = bp_mean_defaults();
    struct bp_tensor *x = net_embed(net_input("ids", BP_I64, 2, ids)), *y = NULL;
    struct bp_tensor *mask = net_input("mask", BP_F32, 4, mask_shape);

    x = net_norm(net_add(x, net_numbers(2, (const int64_t[]){LENGTH, size.width}, 1, 0)), 1);
    for (int64_t layer = 0; layer < size.layers; layer++) {
        struct bp_tensor *q = net_heads(net_dense(x, size.width, size.width, 1), BATCH, LENGTH);
        struct bp_tensor *k = net_heads(net_dense(x, size.width, size.width, 1), BATCH, LENGTH);
        struct bp_tensor *v = net_heads(net_dense(x, size.width, size.width, 1), BATCH, LENGTH);
        struct bp_tensor *a = net_attend(q, k, v, mask, BATCH, LENGTH), *inner = NULL;
        x = net_norm(net_add(x, net_dense(a, size.width, size.width, 1)), 1);
        net_need(bp_op_gelu(net.scope, net_dense(x, size.width, size.inner, 1), NULL, &inner),
                 "gelu");
        x = net_norm(net_add(x, net_dense(net_hold(inner), size.inner, size.width, 1)), 1);
    }
    over.axes = (struct bp_dims){axes, 1};
    net_need(bp_op_mean(net.scope, x, &over, &y), "mean");
    net_need(bp_graph_output(net.graph, net_hold(y), "y"), "output");
}

static struct bp_tensor *net_cache(struct bp_tensor *update, struct bp_tensor *at)
{
    const int64_t shape[] = {1, size.heads, PLACES, size.depth};
    struct bp_tensor *cache = net_numbers(4, shape, 0, 0), *y = NULL;
    struct bp_cache_write_attrs attrs = bp_cache_write_defaults();

    net_need(bp_op_cache_write(net.scope, cache, update, at, &attrs, &y), "cache_write");
    net_hold(y);
    return cache; /* with the update, for nodes that are recorded later */
}

/* Inputs: one id, its place, and a mask of the places of the caches. */
static void decoder_record(void)
{
    const int64_t one[] = {1, 1}, mask_shape[] = {1, 1, 1, PLACES};
    struct bp_tensor *x = net_embed(net_input("id", BP_I64, 2, one));
    struct bp_tensor *at = net_input("at", BP_I64, 0, NULL);
    struct bp_tensor *mask = net_input("mask", BP_F32, 4, mask_shape);

    for (int64_t layer = 0; layer < size.layers; layer++) {
        struct bp_tensor *h = net_norm(x, 0), *gate = NULL, *inner = NULL;
        struct bp_tensor *q = net_heads(net_dense(h, size.width, size.width, 0), 1, 1);
        struct bp_tensor *k = net_cache(net_heads(net_dense(h, size.width, size.width, 0), 1, 1),
                                        at);
        struct bp_tensor *v = net_cache(net_heads(net_dense(h, size.width, size.width, 0), 1, 1),
                                        at);
        struct bp_tensor *a = net_attend(q, k, v, mask, 1, 1);
        x = net_add(x, net_dense(a, size.width, size.width, 0));
        h = net_norm(x, 0);
        net_need(bp_op_silu(net.scope, net_dense(h, size.width, size.inner, 0), &gate), "silu");
        net_need(
            bp_op_mul(net.scope, net_hold(gate), net_dense(h, size.width, size.inner, 0), &inner),
            "mul");
        x = net_add(x, net_dense(net_hold(inner), size.inner, size.width, 0));
    }
    net_need(bp_graph_output(net.graph, net_dense(net_norm(x, 0), size.width, size.words, 0), "y"),
             "output");
}

/* ---- runs ---- */

static struct bp_tensor *run_tensor(uint32_t dtype, uint32_t rank, const int64_t *shape,
                                    const void *values, size_t bytes)
{
    struct bp_tensor *t = NULL;

    net_need(bp_tensor_create(net.device, dtype, rank, shape, &t), "tensor");
    net_need(bp_tensor_write(net.stream, t, values, bytes), "write");
    return t;
}

static void run_and_read(struct bp_program *program, struct bp_tensor **in, size_t n_in, float *to,
                         size_t n)
{
    struct bp_tensor *y = NULL;

    net_need(bp_program_run(program, net.stream, in, n_in, &y, 1), "run");
    net_need(bp_tensor_read(net.stream, y, to, (size_t)n * sizeof *to), "read");
    bp_tensor_destroy(y);
    for (size_t i = 0; i < n_in; i++) bp_tensor_destroy(in[i]);
}

static void encoder_run(struct bp_program *program, float *to)
{
    int64_t ids[BATCH * LENGTH];
    float mask[BATCH * LENGTH] = {0};
    struct bp_tensor *in[2];

    for (int i = 0; i < BATCH * LENGTH; i++) ids[i] = i * 17 % size.words;
    mask[2 * LENGTH - 1] = mask[2 * LENGTH - 2] = -1e9f;
    in[0] = run_tensor(BP_I64, 2, (const int64_t[]){BATCH, LENGTH}, ids, sizeof ids);
    in[1] = run_tensor(BP_F32, 4, (const int64_t[]){BATCH, 1, 1, LENGTH}, mask, sizeof mask);
    run_and_read(program, in, 2, to, BATCH * size.width);
}

static void decoder_run(struct bp_program *program, float *to)
{
    int64_t id = 3;

    for (int64_t at = 0; at < PLACES; at++, to += size.words) {
        float mask[PLACES];
        struct bp_tensor *in[3];
        for (int i = 0; i < PLACES; i++) mask[i] = i > at ? -1e9f : 0;
        in[0] = run_tensor(BP_I64, 2, (const int64_t[]){1, 1}, &id, sizeof id);
        in[1] = run_tensor(BP_I64, 0, NULL, &at, sizeof at);
        in[2] = run_tensor(BP_F32, 4, (const int64_t[]){1, 1, 1, PLACES}, mask, sizeof mask);
        for (int way = 0; copied && at == 1 && way < 2; way++) step_bytes[way] = copied(way);
        run_and_read(program, in, 3, to, size.words);
        for (int i = 0; i < size.words; i++)
            if (to[i] > to[id]) id = i; /* the next word */
    }
    for (int way = 0; copied && way < 2; way++) step_bytes[way] = copied(way) - step_bytes[way];
}

/* The part of the nodes whose launches are rows of the plugin, or groups of its engine. Prints the
 * others. */
static double net_share(struct bp_program *program, const char *device)
{
    struct bp_launch_info launch = {.size = sizeof launch};
    size_t kind = strcspn(device, ":");
    uint32_t own = 0, all = 0;

    for (uint32_t i = 0; !bp_program_launch(program, i, &launch); i++) {
        int is_own = !strncmp(launch.kernel, device, kind) && launch.kernel[kind] == '_';
        all += launch.sources;
        own += is_own ? launch.sources : 0;
        if (!is_own) printf("# %s runs by %s\n", launch.node, launch.kernel);
    }
    printf("# %u of %u nodes run by rows of the plugin\n", own, all);
    return all ? (double)own / all : 0;
}

static double net_make(const char *device, void (*record)(void),
                       void (*run)(struct bp_program *program, float *to), float *to)
{
    struct bp_program *program = NULL;
    double share;

    net.seed = 7;
    net_need(bp_device_create(core, device, &net.device), device);
    net_need(bp_stream_create(net.device, &net.stream), "stream");
    net_need(bp_graph_create(core, &net.graph), "graph");
    net.scope = bp_graph_scope(net.graph);
    record();
    net_need(bp_program_create(net.graph, net.device, &program), "program");
    net_need(bp_program_compile(program), "compile");
    share = net_share(program, device);
    run(program, to);
    bp_program_destroy(program);
    bp_graph_destroy(net.graph);
    while (objects) bp_tensor_destroy(object[--objects]);
    bp_stream_destroy(net.stream);
    bp_device_destroy(net.device);
    return share;
}

static void net_test(const char *name, const char *device, void (*record)(void),
                     void (*run)(struct bp_program *program, float *to), int n)
{
    static float got[RESULTS], want[RESULTS];
    char text[100];
    int good = 1;

    net_make("cpu:0", record, run, want);
    snprintf(text, sizeof text, "%s: 95 %% of the nodes run by rows of the plugin", name);
    net_check(net_make(device, record, run, got) >= 0.95, text);
    for (int i = 0; i < n && good; i++) {
        good = fabsf(got[i] - want[i]) <= 1e-4f * (1 + fabsf(want[i]));
        if (!good) printf("# element %d is %g, expected %g\n", i, (double)got[i], (double)want[i]);
    }
    snprintf(text, sizeof text, "%s: the results are those of the cpu", name);
    net_check(good, text);
}

/* Steps copy an id and a place, which are i32 on the device, a mask and scores; and to the host the
 * flag of a wrong index. */
static void state_test(void)
{
    const uint64_t steps = PLACES - 1, in = 2 * sizeof(int32_t) + PLACES * sizeof(float);
    const uint64_t out = (uint64_t)size.words * sizeof(float) + 1;

    printf("# %u steps copy %u bytes to the device and %u back\n", (unsigned)steps,
           (unsigned)step_bytes[0], (unsigned)step_bytes[1]);
    net_check(step_bytes[0] == steps * in,
              "a decoder with caches: steps copy no cache to the device");
    net_check(step_bytes[1] == steps * out,
              "a decoder with caches: steps copy no cache to the host");
}

int main(int argc, char **argv)
{
    const char *device = argc > 1 ? argv[1] : "ipu:0";
    void *library;

    net_need(bp_core_create(NULL, &core), "core");
    library = argc > 2 ? dlopen(argv[2], RTLD_NOW) : NULL;
    if (library) *(void **)&copied = dlsym(library, "standin_poplar_copied");
    if (argc > 2 && !copied) {
        puts("Bail out! the stand-in is not loaded");
        return 1;
    }
    size = minilm;
    net_test("MiniLM's encoder", device, encoder_record, encoder_run, (int)(BATCH * size.width));
    size = small;
    net_test("a decoder with caches", device, decoder_record, decoder_run,
             (int)(PLACES * size.words));
    if (copied) state_test();
    bp_core_destroy(core);
    printf("1..%d\n", number);
    return failures > 0;
}
