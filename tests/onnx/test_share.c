/* SPDX-License-Identifier: Apache-2.0 */
/* test_share.c: tests models that share weights: their memory on the device, their results, and a
 * graph that uses a model's weight. */
#include "../unit/fixture.h"
#include "small_models.h"
#include <backplane/model.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 128, BYTES = N * N * 4 };

/* Writes one field of a serialised message: a number of at most 14 bits, and bytes. */
static size_t share_number(unsigned char *at, unsigned tag, unsigned value)
{
    at[0] = (unsigned char)tag;
    at[1] = (unsigned char)(value | 128);
    at[2] = (unsigned char)(value >> 7);
    return 3;
}

/* Serialises a model: y = x w, of f32 [2, N] and [N, N]. w[i] = factor (i % 7), and w is called by
 * a name of one letter. With the name 'n', y = x n and n = Neg(w) is computed at load. Returns the
 * size. */
static size_t share_model(char name, float factor, unsigned char *out)
{
    const char negation[] = "\x0a\x0b\x0a\x01w\x12\x01n\"\x03Neg";
    const char node[] = "\x0a\x11\x0a\x01x\x0a\x01w\x12\x01y\"\x06MatMul";
    const char ports[] = "Z\x14\x0a\x01x\x12\x0f\x0a\x0d\x08\x01\x12\x09\x0a\x02\x08\x02\x0a\x03"
                         "\x08\x80\x01\x62\x07\x0a\x01y\x12\x02\x0a\x00";
    unsigned char graph[BYTES + 512], *at = graph, *w, weight = (unsigned char)name;
    size_t size, n;

    if (name == 'n') {
        memcpy(at, negation, sizeof negation - 1);
        at += sizeof negation - 1;
        weight = 'w';
    }
    memcpy(at, node, sizeof node - 1);
    at[7] = (unsigned char)name;
    at += sizeof node - 1;
    /* initializer: dims N, dims N, data_type 1, name, raw_data of BYTES (3 bytes of length) */
    *at++ = 0x2a;
    n = 3 + 3 + 2 + 3 + 4 + BYTES;
    *at++ = (unsigned char)(n & 127) | 128;
    *at++ = (unsigned char)(n >> 7 & 127) | 128;
    *at++ = (unsigned char)(n >> 14);
    at += share_number(at, 0x08, N);
    at += share_number(at, 0x08, N);
    memcpy(at, (const unsigned char[]){0x10, 1, 0x42, 1, weight, 0x4a}, 6);
    at += 6;
    *at++ = (unsigned char)(BYTES & 127) | 128;
    *at++ = (unsigned char)(BYTES >> 7 & 127) | 128;
    *at++ = (unsigned char)(BYTES >> 14);
    w = at;
    for (int i = 0; i < N * N; i++) {
        float value = factor * (float)(i % 7);
        memcpy(w + 4 * i, &value, 4);
    }
    at += BYTES;
    memcpy(at, ports, sizeof ports - 1);
    at += sizeof ports - 1;
    n = (size_t)(at - graph);
    memcpy(out, (const unsigned char[]){0x08, 8, 0x3a, (unsigned char)(n & 127) | 128,
                                        (unsigned char)(n >> 7 & 127) | 128,
                                        (unsigned char)(n >> 14)}, 6);
    memcpy(out + 6, graph, n);
    size = 6 + n;
    memcpy(out + size, "\x42\x02\x10\x0d", 4);
    return size + 4;
}

static struct bp_model *share_load(struct fixture *f, char name, float factor,
                                   struct bp_model *share)
{
    struct bp_model_options options = {.size = sizeof options, .share = share};
    unsigned char *data = malloc(BYTES + 1024);
    struct bp_model *model = NULL;
    size_t size;

    cr_assert(data);
    size = share_model(name, factor, data);
    OK(bp_model_load_memory(f->device, data, size, &options, &model));
    free(data);
    return model;
}

static uint64_t share_memory(struct fixture *f)
{
    struct bp_memory_stats stats = {.size = sizeof stats};

    OK(bp_stream_synchronize(f->stream));
    OK(bp_device_memory(f->device, &stats));
    return stats.allocated + stats.plans;
}

static struct bp_tensor *share_x(struct fixture *f)
{
    static float x[2 * N];

    for (int i = 0; i < 2 * N; i++) x[i] = (float)(i % 3);
    return tensor_of(f, BP_F32, 2, SHAPE(2, N), x);
}

/* Runs a model, and checks the first results. */
static void share_run(struct fixture *f, struct bp_model *model, float factor)
{
    struct bp_tensor *x = share_x(f), *y;
    float got[2 * N];

    OK(bp_model_run(model, f->stream, &x, 1, &y, 1));
    OK(bp_tensor_read(f->stream, y, got, sizeof got));
    for (int k = 0; k < N; k++) {
        float sum = 0;
        for (int i = 0; i < N; i++) sum += (float)(i % 3) * factor * (float)((i * N + k) % 7);
        cr_assert_eq(got[k], sum, "column %d: got %g, expected %g", k, (double)got[k],
                     (double)sum);
    }
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
}

static uint64_t share_bytes(struct bp_model *model)
{
    struct bp_model_info info = {.size = sizeof info};

    OK(bp_model_get_info(model, &info));
    return info.shared_bytes;
}

Test(share, equal_weights_have_one_memory)
{
    struct fixture f = fixture_init();
    struct bp_model *first = share_load(&f, 'w', 1, NULL), *second, *alone;
    uint64_t before, with, without;

    share_run(&f, first, 1);
    before = share_memory(&f);
    second = share_load(&f, 'v', 1, first); /* the name does not matter */
    share_run(&f, second, 1);
    with = share_memory(&f) - before;
    cr_expect(with < BYTES / 4, "%llu bytes beside a shared weight", (unsigned long long)with);
    cr_expect_eq(share_bytes(second), BYTES);
    before = share_memory(&f);
    alone = share_load(&f, 'w', 1, NULL);
    share_run(&f, alone, 1);
    without = share_memory(&f) - before;
    cr_expect(without >= BYTES, "%llu bytes for an own weight", (unsigned long long)without);
    cr_expect_eq(share_bytes(alone), 0);
    bp_model_destroy(first); /* the second one keeps the memory */
    share_run(&f, second, 1);
    bp_model_destroy(second);
    bp_model_destroy(alone);
    fixture_finish(&f);
}

Test(share, values_computed_at_load_are_shared)
{
    struct fixture f = fixture_init();
    struct bp_model *first = share_load(&f, 'n', 1, NULL), *second;
    uint64_t before;

    share_run(&f, first, -1);
    before = share_memory(&f);
    second = share_load(&f, 'n', 1, first);
    share_run(&f, second, -1);
    cr_expect(share_memory(&f) - before < BYTES / 4);
    cr_expect_eq(share_bytes(second), 2 * BYTES);
    bp_model_destroy(first);
    share_run(&f, second, -1);
    bp_model_destroy(second);
    fixture_finish(&f);
}

Test(share, other_weights_have_their_own)
{
    struct fixture f = fixture_init();
    struct bp_model *first = share_load(&f, 'w', 1, NULL), *other = share_load(&f, 'w', 2, first);
    struct bp_model *third = share_load(&f, 'u', 2, other);

    cr_expect_eq(share_bytes(other), 0);
    cr_expect_eq(share_bytes(third), BYTES);
    share_run(&f, other, 2);
    share_run(&f, first, 1);
    bp_model_destroy(first);
    bp_model_destroy(other);
    share_run(&f, third, 2);
    bp_model_destroy(third);
    fixture_finish(&f);
}

Test(share, graph_uses_a_weight)
{
    struct fixture f = fixture_init();
    struct bp_model *model = share_load(&f, 'w', 1, NULL);
    struct bp_tensor_info info = {.size = sizeof info};
    struct bp_tensor *x = share_x(&f), *w, *in, *out = NULL, *y = NULL;
    struct bp_graph *graph;
    uint64_t before;
    float got[2 * N];

    share_run(&f, model, 1);
    before = share_memory(&f);
    OK(bp_model_weight(model, "w", &w));
    OK(bp_tensor_get_info(w, &info));
    cr_expect(info.frozen && info.rank == 2 && info.shape[1] == N);
    OK(bp_graph_create(f.core, &graph));
    OK(bp_graph_input(graph, "x", BP_F32, 2, SHAPE(2, N), &in));
    OK(bp_op_matmul(bp_graph_scope(graph), in, w, NULL, &out));
    OK(bp_graph_output(graph, out, NULL));
    OK(bp_graph_run(graph, f.stream, &x, 1, &y, 1));
    OK(bp_tensor_read(f.stream, y, got, sizeof got));
    cr_expect(share_memory(&f) - before < BYTES / 4);
    cr_expect(got[0] > 0);
    FAILS(BP_ERR_NOT_FOUND, "no initialiser v", bp_model_weight(model, "v", &w));
    bp_model_destroy(model);
    bp_tensor_destroy(y);
    OK(bp_graph_run(graph, f.stream, &x, 1, (y = NULL, &y), 1));
    for (struct bp_tensor **t = (struct bp_tensor *[]){x, w, in, out, y, NULL}; *t; t++)
        bp_tensor_destroy(*t);
    bp_graph_destroy(graph);
    fixture_finish(&f);
}

Test(share, other_handles_are_refused)
{
    struct bp_model_options options = {.size = sizeof options};
    struct fixture f = fixture_init();
    struct bp_model *model = NULL;

    options.share = (struct bp_model *)f.stream;
    FAILS(BP_ERR_INVALID, "options->share: expected a model",
          bp_model_load_memory(f.device, "x", 1, &options, &model));
    cr_expect(!model);
    fixture_finish(&f);
}

/* A tensor of the app takes the place of an initialiser, without a copy. */
Test(constants, take_the_place_of_initialisers)
{
    struct fixture f = fixture_init();
    struct bp_model_options options = {.size = sizeof options};
    unsigned char *data = malloc(BYTES + 1024);
    float *twice = malloc(BYTES);
    struct bp_model_constant of[2] = {{"unknown", NULL}, {"w", NULL}};
    struct bp_model *model = NULL;
    uint64_t before;
    size_t size;

    cr_assert(data && twice);
    for (int i = 0; i < N * N; i++) twice[i] = 2 * (float)(i % 7);
    of[1].tensor = tensor_of(&f, BP_F32, 2, SHAPE(N, N), twice);
    options.constant = of;
    options.n_constant = 2;
    size = share_model('w', 1, data);
    before = share_memory(&f);
    OK(bp_model_load_memory(f.device, data, size, &options, &model));
    cr_expect_eq(share_memory(&f), before, "the weight was copied");
    bp_tensor_destroy(of[1].tensor);
    share_run(&f, model, 2);
    bp_model_destroy(model);
    of[1].tensor = tensor_of(&f, BP_F32, 1, SHAPE(N * N), twice);
    cr_expect_eq(bp_model_load_memory(f.device, data, size, &options, &model), BP_ERR_INVALID);
    cr_expect(strstr(bp_error_message(), "constant w"), "%s", bp_error_message());
    bp_tensor_destroy(of[1].tensor);
    free(twice);
    free(data);
    fixture_finish(&f);
}

struct lacks {
    int n;
    size_t node;
    char text[80];
};

static void share_lack(void *ctx, size_t node, const char *text)
{
    struct lacks *l = ctx;

    l->n++;
    l->node = node;
    snprintf(l->text, sizeof l->text, "%s", text);
}

/* The search for missing things goes node by node. The model is y = MatMul(x, w); z = Add(y, w). */
Test(constants, missing_nodes_are_listed)
{
    static const char *const text[] = {SMALL_MODELS};
    char data[256];
    size_t size = strlen(text[0]);
    struct lacks l = {0};
    char *add;

    memcpy(data, text[0], size);
    OK(bp_model_missing_nodes(data, size, share_lack, &l));
    cr_assert_eq(l.n, 0, "%s", l.text);
    add = memmem(data, size, "Add", 3);
    cr_assert(add);
    memcpy(add, "Adx", 3);
    OK(bp_model_missing_nodes(data, size, share_lack, &l));
    cr_assert_eq(l.n, 1);
    cr_assert_eq(l.node, 1);
    cr_assert_str_eq(l.text, "operator Adx of opset 13");
}
