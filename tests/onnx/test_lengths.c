/* SPDX-License-Identifier: Apache-2.0 */
/* test_lengths.c: tests models that run with inputs of many lengths: plans for new lengths are made
 * from those of others, and each run must return the results of a model that has run with no other
 * length. */
#include "../unit/fixture.h"
#include "decoder_models.h"
#include "length_models.h"
#include <backplane/model.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    WORDS = 16,
    PAIRS = 4,
    PORTS = 2 + PAIRS,
    OUTPUTS = 1 + PAIRS,
    PLACE = 8 /* numbers of a cache and a token */
};

struct lengths {
    struct fixture f;
    struct bp_model *model; /* runs with all lengths */
    const char *data;
    size_t size;
};

/* Fills a weight. ctx: a counter, so that each weight has other numbers. */
static void lengths_weights(void *ctx, const char *name, uint32_t rank, const int64_t *shape,
                            int64_t fan_in, float *data, int64_t count)
{
    uint32_t *state = ctx;

    (void)name, (void)rank, (void)shape, (void)fan_in;
    for (int64_t i = 0; i < count; i++) {
        *state = *state * 1664525 + 1013904223;
        data[i] = (float)(*state >> 8) / (float)(1 << 24) - 0.5f;
    }
}

static struct bp_model *lengths_load(struct lengths *l)
{
    uint32_t state = 1;
    struct bp_model_options options = {
        .size = sizeof options, .weights = lengths_weights, .weights_ctx = &state};
    struct bp_model *model;

    OK(bp_model_load_memory(l->f.device, l->data, l->size - 1, &options, &model));
    return model;
}

static struct lengths lengths_init(const char *data, size_t size)
{
    struct lengths l = {.f = fixture_init(), .data = data, .size = size};

    l.model = lengths_load(&l);
    return l;
}

static void lengths_finish(struct lengths *l)
{
    bp_model_destroy(l->model);
    fixture_finish(&l->f);
}

static struct bp_model_info lengths_info(struct bp_model *model)
{
    struct bp_model_info info = {.size = sizeof info};

    OK(bp_model_get_info(model, &info));
    return info;
}

/* Fills the inputs for a past and new tokens. */
static void lengths_inputs(struct lengths *l, int64_t batch, int64_t past, int64_t tokens,
                           struct bp_tensor *in[PORTS])
{
    uint32_t n_in = bp_model_inputs(l->model), first = n_in - PAIRS;
    int64_t total = past + tokens, count = batch * past * PLACE;
    int64_t *ids = malloc((size_t)(batch * tokens) * sizeof *ids);
    float *mask = malloc((size_t)(batch * total) * sizeof *mask);
    float *keys = malloc((size_t)count * sizeof *keys + 1);

    cr_assert(ids && mask && keys);
    for (int64_t i = 0; i < batch * tokens; i++) ids[i] = (3 * past + 5 * i) % WORDS;
    for (int64_t i = 0; i < batch * total; i++) mask[i] = i % total % 3 != 1;
    in[0] = tensor_of(&l->f, BP_I64, 2, SHAPE(batch, tokens), ids);
    if (first > 1) in[1] = tensor_of(&l->f, BP_F32, 2, SHAPE(batch, total), mask);
    for (int k = 0; k < PAIRS; k++) {
        for (int64_t i = 0; i < count; i++) keys[i] = sinf((float)i * 0.7f + (float)k);
        in[first + (uint32_t)k] = tensor_of(&l->f, BP_F32, 4, SHAPE(batch, 2, past, 4),
                                            past ? keys : NULL);
    }
    free(ids);
    free(mask);
    free(keys);
}

static void lengths_compare(struct lengths *l, struct bp_tensor *got, struct bp_tensor *like,
                            const char *where)
{
    struct bp_tensor_info a = {.size = sizeof a}, b = {.size = sizeof b};
    float *x, *y;

    OK(bp_tensor_get_info(got, &a));
    OK(bp_tensor_get_info(like, &b));
    cr_assert(a.rank == b.rank && !memcmp(a.shape, b.shape, a.rank * sizeof *a.shape),
              "%s: another shape", where);
    x = malloc(a.bytes + 1);
    y = malloc(a.bytes + 1);
    cr_assert(x && y);
    OK(bp_tensor_read(l->f.stream, got, x, a.bytes));
    OK(bp_tensor_read(l->f.stream, like, y, b.bytes));
    for (int64_t i = 0; i < a.count; i++)
        cr_assert_eq(x[i], y[i], "%s: element %lld is %.9g, expected %.9g", where, (long long)i,
                     (double)x[i], (double)y[i]);
    free(x);
    free(y);
}

/* Runs the model, and one that has not run before. */
static void lengths_run(struct lengths *l, int64_t batch, int64_t past, int64_t tokens)
{
    struct bp_model *fresh = lengths_load(l);
    struct bp_tensor *in[PORTS], *out[OUTPUTS] = {NULL}, *like[OUTPUTS] = {NULL};
    uint32_t n_in = bp_model_inputs(fresh);
    char where[96];

    lengths_inputs(l, batch, past, tokens, in);
    OK(bp_model_run(l->model, l->f.stream, in, n_in, out, OUTPUTS));
    OK(bp_model_run(fresh, l->f.stream, in, n_in, like, OUTPUTS));
    cr_assert_eq(lengths_info(fresh).recorded, 1);
    for (int i = 0; i < OUTPUTS; i++) {
        snprintf(where, sizeof where, "output %d, %lld tokens behind %lld", i, (long long)tokens,
                 (long long)past);
        lengths_compare(l, out[i], like[i], where);
        bp_tensor_destroy(out[i]);
        bp_tensor_destroy(like[i]);
    }
    for (uint32_t i = 0; i < n_in; i++) bp_tensor_destroy(in[i]);
    bp_model_destroy(fresh);
}

static void lengths_expect(struct lengths *l, uint64_t recorded, uint64_t derived)
{
    struct bp_model_info info = lengths_info(l->model);

    cr_expect(info.recorded == recorded && info.derived == derived,
              "%llu plans recorded and %llu derived, expected %llu and %llu",
              (unsigned long long)info.recorded, (unsigned long long)info.derived,
              (unsigned long long)recorded, (unsigned long long)derived);
}

static const struct {
    const char *data;
    size_t size;
} lengths_models[] = {
    {plain_decoder, sizeof plain_decoder},
    {placed_decoder, sizeof placed_decoder},
    {masked_decoder, sizeof masked_decoder},
    {sorted_decoder, sizeof sorted_decoder},
};
#define EACH_MODEL(i) \
    size_t i = 0; \
    i < sizeof lengths_models / sizeof *lengths_models; \
    i++

/* The fourth length and all later ones up to twice the longest are derived, and kept. */
Test(lengths, a_past_that_grows)
{
    for (EACH_MODEL(i)) {
        struct lengths l = lengths_init(lengths_models[i].data, lengths_models[i].size);
        for (int64_t past = 4; past < 40; past++) lengths_run(&l, 1, past, 1);
        lengths_expect(&l, 3, 33);
        for (int64_t past = 10; past < 20; past++) lengths_run(&l, 1, past, 1);
        lengths_expect(&l, 3, 33);
        lengths_finish(&l);
    }
}

Test(lengths, texts_of_many_lengths)
{
    static const int64_t tokens[] = {8, 24, 16, 20, 9, 23, 12, 40, 33, 8, 24};

    for (EACH_MODEL(i)) {
        struct lengths l = lengths_init(lengths_models[i].data, lengths_models[i].size);
        for (size_t k = 0; k < sizeof tokens / sizeof *tokens; k++)
            lengths_run(&l, 1, 0, tokens[k]);
        lengths_expect(&l, 3, 6);
        lengths_finish(&l);
    }
}

/* Batches and lengths are two directions. A place on no line through three plans is recorded. */
Test(lengths, two_directions)
{
    struct lengths l = lengths_init(masked_decoder, sizeof masked_decoder);

    for (int64_t past = 5; past < 9; past++) lengths_run(&l, 2, past, 1);
    lengths_expect(&l, 3, 1);
    lengths_run(&l, 3, 6, 1);
    lengths_run(&l, 4, 6, 1); /* on the line of batches with 2 and 3 */
    lengths_expect(&l, 5, 1);
    lengths_run(&l, 5, 6, 1);
    lengths_run(&l, 6, 6, 1);
    lengths_run(&l, 2, 12, 1);
    lengths_run(&l, 3, 11, 1);
    lengths_finish(&l);
}

/* An axis of one place, or of none, is no part of a line. */
Test(lengths, one_place_is_recorded)
{
    struct lengths l = lengths_init(placed_decoder, sizeof placed_decoder);

    for (int64_t tokens = 3; tokens < 7; tokens++) lengths_run(&l, 1, 0, tokens);
    lengths_expect(&l, 3, 1);
    lengths_run(&l, 1, 0, 1);
    lengths_expect(&l, 4, 1);
    lengths_run(&l, 1, 0, 2); /* below the samples */
    lengths_expect(&l, 5, 1);
    lengths_finish(&l);
}

/* Runs a model of one input, and one that has not run before, with x of shape [1, n]. */
static void lengths_run_one(struct lengths *l, int64_t n)
{
    struct bp_model *fresh = lengths_load(l);
    struct bp_tensor *in, *out = NULL, *like = NULL;
    float *x = malloc((size_t)n * sizeof *x);
    char where[32];

    cr_assert(x);
    for (int64_t i = 0; i < n; i++) x[i] = (float)(1 + i % 3);
    in = tensor_of(&l->f, BP_F32, 2, SHAPE(1, n), x);
    OK(bp_model_run(l->model, l->f.stream, &in, 1, &out, 1));
    OK(bp_model_run(fresh, l->f.stream, &in, 1, &like, 1));
    snprintf(where, sizeof where, "length %lld", (long long)n);
    lengths_compare(l, out, like, where);
    bp_tensor_destroy(in);
    bp_tensor_destroy(out);
    bp_tensor_destroy(like);
    bp_model_destroy(fresh);
    free(x);
}

/* Nodes that run while a model is recorded leave no trace in the samples. */
Test(lengths, models_that_treat_single_lengths_apart)
{
    static const struct {
        const char *data;
        size_t size;
        int64_t length[4]; /* the first three are samples */
    } models[] = {
        {branch_at_13, sizeof branch_at_13, {5, 9, 20, 13}},
        {scale_by_rest, sizeof scale_by_rest, {4, 6, 7, 5}},
        {scale_in_window, sizeof scale_in_window, {5, 25, 30, 15}},
        {add_rests, sizeof add_rests, {6, 8, 9, 7}},
        {clipped_places, sizeof clipped_places, {8, 11, 39, 20}},
        {add_cubic, sizeof add_cubic, {5, 9, 20, 13}},
        {moving_part, sizeof moving_part, {5, 9, 40, 15}},
    };

    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct lengths l = lengths_init(models[i].data, models[i].size);
        for (int k = 0; k < 4; k++) lengths_run_one(&l, models[i].length[k]);
        lengths_expect(&l, 4, 0);
        lengths_finish(&l);
    }
}
