/* SPDX-License-Identifier: Apache-2.0 */
/* test_bind.c: tests models whose caches are bound: each run must return what the same model
 * returns without bindings, and must copy no more than it reports. */
#include "../unit/fixture.h"
#include "decoder_models.h"
#include <backplane/model.h>
#include <math.h>
#include <stdlib.h>

enum {
    WORDS = 16,
    PORTS = 8,
    PAIRS = 4,
    PLACE = 8
}; /* PLACE: numbers of a cache and a token */

/* A model twice: bound, and not. */
struct decoder {
    struct fixture f;
    struct bp_model *bound, *plain;
    uint32_t n_in; /* with ids, and a mask if it has one */
    int64_t batch, past;
    struct bp_tensor *bound_past[PAIRS], *plain_past[PAIRS];
};

/* Fills a weight. ctx: a counter, so that each weight has other numbers. */
static void decoder_weights(void *ctx, const char *name, uint32_t rank, const int64_t *shape,
                            int64_t fan_in, float *data, int64_t count)
{
    uint32_t *state = ctx;

    (void)name, (void)rank, (void)shape, (void)fan_in;
    for (int64_t i = 0; i < count; i++) {
        *state = *state * 1664525 + 1013904223;
        data[i] = (float)(*state >> 8) / (float)(1 << 24) - 0.5f;
    }
}

static struct bp_model *decoder_load(struct fixture *f, const char *data, size_t size)
{
    uint32_t state = 1;
    struct bp_model_options options = {
        .size = sizeof options, .weights = decoder_weights, .weights_ctx = &state};
    struct bp_model *model;

    OK(bp_model_load_memory(f->device, data, size - 1, &options, &model));
    return model;
}

/* Numbers that depend on the past: a random past of the app, or nothing. */
static struct bp_tensor *decoder_past(struct decoder *d, int64_t past, float seed)
{
    int64_t count = d->batch * past * PLACE;
    float *data = malloc((size_t)count * sizeof *data + 1);
    struct bp_tensor *t;

    cr_assert(data);
    for (int64_t i = 0; i < count; i++) data[i] = sinf((float)i * 0.7f + seed);
    t = tensor_of(&d->f, BP_F32, 4, SHAPE(d->batch, 2, past, 4), past ? data : NULL);
    free(data);
    return t;
}

/* Gives both models the same past. */
static void decoder_begin(struct decoder *d, int64_t past, float seed)
{
    for (int i = 0; i < PAIRS; i++) {
        bp_tensor_destroy(d->bound_past[i]);
        bp_tensor_destroy(d->plain_past[i]);
        d->bound_past[i] = decoder_past(d, past, seed + (float)i);
        d->plain_past[i] = decoder_past(d, past, seed + (float)i);
    }
    d->past = past;
}

static struct decoder decoder_init(const char *data, size_t size, int64_t batch, int64_t capacity)
{
    struct decoder d = {.f = fixture_init(), .batch = batch};

    d.bound = decoder_load(&d.f, data, size);
    d.plain = decoder_load(&d.f, data, size);
    d.n_in = bp_model_inputs(d.plain);
    if (capacity) OK(bp_model_bind(d.bound, "present.*", "past.*", capacity));
    decoder_begin(&d, 0, 0);
    return d;
}

static void decoder_finish(struct decoder *d)
{
    for (int i = 0; i < PAIRS; i++) {
        bp_tensor_destroy(d->bound_past[i]);
        bp_tensor_destroy(d->plain_past[i]);
    }
    bp_model_destroy(d->bound);
    bp_model_destroy(d->plain);
    fixture_finish(&d->f);
}

static struct bp_model_bind_info decoder_info(const struct decoder *d)
{
    struct bp_model_bind_info info = {.size = sizeof info};

    OK(bp_model_get_bind_info(d->bound, &info));
    return info;
}

static void decoder_expect_near(struct decoder *d, struct bp_tensor *got, struct bp_tensor *like,
                                int output)
{
    struct bp_tensor_info a = {.size = sizeof a}, b = {.size = sizeof b};
    float *x, *y;

    OK(bp_tensor_get_info(got, &a));
    OK(bp_tensor_get_info(like, &b));
    cr_assert(a.rank == b.rank && !memcmp(a.shape, b.shape, a.rank * sizeof *a.shape),
              "output %d has another shape at %lld", output, (long long)d->past);
    x = malloc(a.bytes + 1);
    y = malloc(a.bytes + 1);
    cr_assert(x && y);
    OK(bp_tensor_read(d->f.stream, got, x, a.bytes));
    OK(bp_tensor_read(d->f.stream, like, y, b.bytes));
    for (int64_t i = 0; i < a.count; i++)
        cr_assert(fabsf(x[i] - y[i]) <= 1e-5f * (1 + fabsf(y[i])),
                  "output %d: element %lld is %g, expected %g, behind %lld", output, (long long)i,
                  (double)x[i], (double)y[i], (long long)d->past);
    free(x);
    free(y);
}

/* Runs both models for `tokens` tokens, compares all outputs, and passes the caches on. */
static void decoder_step(struct decoder *d, int64_t tokens)
{
    struct bp_tensor *in[PORTS], *out[5] = {NULL}, *like[5] = {NULL};
    uint32_t first = d->n_in - PAIRS;
    int64_t ids[64], total = d->past + tokens;
    float mask[512];

    for (int64_t i = 0; i < d->batch * tokens; i++) ids[i] = (3 * d->past + 5 * i) % WORDS;
    for (int64_t i = 0; i < d->batch * total; i++) mask[i] = i % total % 3 != 1;
    in[0] = tensor_of(&d->f, BP_I64, 2, SHAPE(d->batch, tokens), ids);
    if (first > 1) in[1] = tensor_of(&d->f, BP_F32, 2, SHAPE(d->batch, total), mask);
    for (int i = 0; i < PAIRS; i++) in[first + i] = d->bound_past[i];
    OK(bp_model_run(d->bound, d->f.stream, in, d->n_in, out, 5));
    for (int i = 0; i < PAIRS; i++) in[first + i] = d->plain_past[i];
    OK(bp_model_run(d->plain, d->f.stream, in, d->n_in, like, 5));
    for (int i = 0; i < 5; i++) decoder_expect_near(d, out[i], like[i], i);
    for (uint32_t i = 0; i < first; i++) bp_tensor_destroy(in[i]);
    for (int i = 0; i < PAIRS; i++) {
        bp_tensor_destroy(d->bound_past[i]);
        bp_tensor_destroy(d->plain_past[i]);
        d->bound_past[i] = out[i + 1];
        d->plain_past[i] = like[i + 1];
    }
    bp_tensor_destroy(out[0]);
    bp_tensor_destroy(like[0]);
    d->past = total;
}

/* Runs a prompt, then 40 tokens. most: plans that this may make. */
static void decoder_generate(const char *data, size_t size, int64_t batch, int64_t prompt,
                             int64_t capacity, uint64_t most)
{
    struct decoder d = decoder_init(data, size, batch, capacity);
    struct bp_model_bind_info info;

    if (prompt) decoder_step(&d, prompt);
    for (int i = 0; i < 40; i++) decoder_step(&d, 1);
    info = decoder_info(&d);
    cr_expect_eq(info.pairs, PAIRS);
    cr_expect_eq(info.length, prompt + 40);
    cr_expect(info.capacity >= info.length && info.capacity <= 2 * info.length);
    cr_expect_eq(info.in_place, info.runs);
    cr_expect_eq(info.copies, 0);
    cr_expect(info.plans <= most, "%llu plans", (unsigned long long)info.plans);
    decoder_finish(&d);
}

#define DECODER(kind) kind##_decoder, sizeof kind##_decoder

Test(bind, one_plan_serves_all_lengths)
{
    decoder_generate(DECODER(plain), 1, 0, 64, 2);
    decoder_generate(DECODER(plain), 1, 7, 64, 2);
    decoder_generate(DECODER(plain), 2, 3, 64, 2);
}

Test(bind, positions_are_computed_from_the_length)
{
    decoder_generate(DECODER(placed), 1, 1, 48, 2);
    decoder_generate(DECODER(placed), 2, 4, 48, 2);
}

Test(bind, mask_grows_with_the_caches)
{
    decoder_generate(DECODER(masked), 1, 6, 48, 2);
    decoder_generate(DECODER(masked), 2, 0, 48, 2);
}

Test(bind, capacity_is_doubled)
{
    struct decoder d = decoder_init(DECODER(masked), 2, 4);

    for (int i = 0; i < 40; i++) decoder_step(&d, 1);
    cr_expect_eq(decoder_info(&d).capacity, 64);
    cr_expect_eq(decoder_info(&d).grown, 4);
    cr_expect_eq(decoder_info(&d).copies, 0);
    decoder_finish(&d);
}

/* A model that reads its caches in another way has a plan for each length, and writes the caches in
 * place. */
Test(bind, other_models_write_in_place_too)
{
    decoder_generate(DECODER(sorted), 1, 0, 48, 40);
    decoder_generate(DECODER(sorted), 2, 5, 48, 41);
}

Test(bind, caches_of_the_app_are_copied)
{
    struct decoder d = decoder_init(DECODER(plain), 2, 16);

    decoder_step(&d, 3);
    decoder_begin(&d, 9, 1);
    decoder_step(&d, 1);
    cr_expect_eq(decoder_info(&d).copies, PAIRS);
    decoder_step(&d, 1);
    cr_expect_eq(decoder_info(&d).copies, PAIRS);
    decoder_begin(&d, 21, 2); /* longer than the capacity */
    decoder_step(&d, 2);
    cr_expect_eq(decoder_info(&d).copies, 2 * PAIRS);
    cr_expect_eq(decoder_info(&d).capacity, 32);
    d.batch = 1; /* another batch */
    decoder_begin(&d, 2, 3);
    for (int i = 0; i < 3; i++) decoder_step(&d, 1);
    cr_expect_eq(decoder_info(&d).copies, 3 * PAIRS);
    decoder_finish(&d);
}

/* The first places of a cache, and places behind the first: only the latter are copied. */
Test(bind, parts_of_a_cache_go_on)
{
    struct decoder d = decoder_init(DECODER(plain), 2, 32);

    decoder_step(&d, 10);
    for (int begin = 0; begin < 2; begin++) {
        for (int i = 0; i < PAIRS; i++) {
            struct bp_tensor **past[] = {&d.bound_past[i], &d.plain_past[i]};
            for (int k = 0; k < 2; k++) {
                struct bp_tensor *part;
                OK(bp_tensor_slice(*past[k], 2, begin, 6 + begin, 1, &part));
                bp_tensor_destroy(*past[k]);
                *past[k] = part;
            }
        }
        d.past = 6;
        decoder_step(&d, 1);
        decoder_step(&d, 1);
        cr_expect_eq(decoder_info(&d).copies, begin ? PAIRS : 0);
    }
    decoder_finish(&d);
}

Test(bind, a_reset_begins_anew)
{
    struct decoder d = decoder_init(DECODER(plain), 1, 32);

    for (int i = 0; i < 5; i++) decoder_step(&d, 1);
    OK(bp_model_reset(d.bound));
    cr_expect_eq(decoder_info(&d).length, 0);
    decoder_begin(&d, 0, 0);
    for (int i = 0; i < 5; i++) decoder_step(&d, 1);
    cr_expect_eq(decoder_info(&d).length, 5);
    cr_expect_eq(decoder_info(&d).plans, 2);
    decoder_finish(&d);
}

/* Outputs that are given, and outputs that are not wanted. */
Test(bind, outputs_are_given)
{
    struct decoder d = decoder_init(DECODER(plain), 1, 32);
    int64_t id = 3;
    struct bp_tensor *in[5], *out[5] = {NULL}, *like[5] = {NULL};
    uint8_t want[5] = {1, 1, 0, 1, 1};

    decoder_step(&d, 4);
    in[0] = tensor_of(&d.f, BP_I64, 2, SHAPE(1, 1), &id);
    for (int i = 0; i < PAIRS; i++) in[i + 1] = d.plain_past[i];
    OK(bp_model_run(d.plain, d.f.stream, in, 5, like, 5));
    for (int i = 0; i < PAIRS; i++) in[i + 1] = d.bound_past[i];
    out[0] = tensor_of(&d.f, BP_F32, 3, SHAPE(1, 1, WORDS), NULL);
    out[1] = tensor_of(&d.f, BP_F32, 4, SHAPE(1, 2, 5, 4), NULL);
    OK(bp_model_run_into(d.bound, d.f.stream, in, 5, out, want, 5));
    for (int i = 0; i < 5; i++) {
        cr_expect(!out[i] == !want[i]);
        if (out[i]) decoder_expect_near(&d, out[i], like[i], i);
        bp_tensor_destroy(out[i]);
        bp_tensor_destroy(like[i]);
    }
    bp_tensor_destroy(in[0]);
    decoder_finish(&d);
}

Test(bind, mistakes_have_messages)
{
    struct decoder d = decoder_init(DECODER(plain), 1, 0);
    struct bp_model_bind_info info = {.size = sizeof info};
    struct bp_tensor *in[5], *out[5] = {NULL};
    int64_t id = 3;

    OK(bp_model_get_bind_info(d.bound, &info));
    cr_expect_eq(info.pairs, 0);
    FAILS(BP_ERR_INVALID, "no bindings", bp_model_reset(d.bound));
    FAILS(BP_ERR_NOT_FOUND, "no output now.* has an input past.*",
          bp_model_bind(d.bound, "now.*", "past.*", 8));
    FAILS(BP_ERR_INVALID, "expected '*' in both", bp_model_bind(d.bound, "present.*", "ids", 8));
    FAILS(BP_ERR_INVALID, "capacity is 0", bp_model_bind(d.bound, "present.*", "past.*", 0));
    FAILS(BP_ERR_INVALID, "differ in their type", bp_model_bind(d.bound, "logits", "ids", 8));
    FAILS(BP_ERR_INVALID, "no bindings", bp_model_reset(d.bound));
    OK(bp_model_bind(d.bound, "present.0.*", "past.0.*", 8));
    FAILS(BP_ERR_INVALID, "is bound", bp_model_bind(d.bound, "present.*", "past.*", 8));
    OK(bp_model_bind(d.bound, "present.1.key", "past.1.key", 8));
    OK(bp_model_bind(d.bound, "present.1.value", "past.1.value", 8));
    OK(bp_model_get_bind_info(d.bound, &info));
    cr_expect_eq(info.pairs, PAIRS);
    in[0] = tensor_of(&d.f, BP_I64, 2, SHAPE(1, 1), &id);
    for (int i = 0; i < PAIRS; i++) in[i + 1] = decoder_past(&d, i == 2 ? 4 : 3, 0);
    FAILS(BP_ERR_INVALID, "bound inputs have one length",
          bp_model_run(d.bound, d.f.stream, in, 5, out, 5));
    for (int i = 0; i < 5; i++) bp_tensor_destroy(in[i]);
    decoder_step(&d, 1);
    FAILS(BP_ERR_INVALID, "has run", bp_model_bind(d.bound, "logits", "ids", 8));
    decoder_finish(&d);
}
