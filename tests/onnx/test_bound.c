/* SPDX-License-Identifier: Apache-2.0 */
/* test_bound.c: tests bound models whose graph differs at some lengths of the caches, or is none:
 * each run must return what the same model returns without bindings. */
#include "../unit/fixture.h"
#include "bound_models.h"
#include <backplane/model.h>
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    ELEMENTS = 4,   /* of a key */
    PORT_COUNT = 3, /* inputs, and outputs */
    TOKENS = 40
};

/* A model twice: bound, and not. */
struct bound {
    struct fixture f;
    struct bp_model *bound, *plain;
    struct bp_tensor *past[2], *plain_past[2]; /* the key and the value */
    int64_t at;                                /* tokens so far */
};

/* Gives both models the same past of up to 4 places. */
static void bound_begin(struct bound *b, int64_t places)
{
    float data[4 * ELEMENTS];

    for (int i = 0; i < 4 * ELEMENTS; i++) data[i] = cosf(0.7f * (float)i);
    for (int i = 0; i < 2; i++) {
        struct bp_tensor **past[] = {&b->past[i], &b->plain_past[i]};
        for (int k = 0; k < 2; k++) {
            bp_tensor_destroy(*past[k]);
            *past[k] = tensor_of(&b->f, BP_F32, 4, SHAPE(1, 1, places, ELEMENTS),
                                 places ? data : NULL);
        }
    }
    b->at = places;
}

/* cache: the folder of the bound model's programs, or "". */
static struct bound bound_init(const char *data, size_t size, int64_t capacity, const char *cache)
{
    struct bound b = {.f = fixture_init()};
    struct bp_model_options options = {.size = sizeof options, .cache = cache};

    OK(bp_model_load_memory(b.f.device, data, size - 1, &options, &b.bound));
    options.cache = "";
    OK(bp_model_load_memory(b.f.device, data, size - 1, &options, &b.plain));
    OK(bp_model_bind(b.bound, "present.*", "past.*", capacity));
    bound_begin(&b, 0);
    return b;
}

static void bound_finish(struct bound *b)
{
    for (int i = 0; i < 2; i++) {
        bp_tensor_destroy(b->past[i]);
        bp_tensor_destroy(b->plain_past[i]);
    }
    bp_model_destroy(b->bound);
    bp_model_destroy(b->plain);
    fixture_finish(&b->f);
}

static struct bp_model_bind_info bound_info(const struct bound *b)
{
    struct bp_model_bind_info info = {.size = sizeof info};

    OK(bp_model_get_bind_info(b->bound, &info));
    return info;
}

static void bound_expect_near(struct bound *b, struct bp_tensor *got, struct bp_tensor *like,
                              int output)
{
    struct bp_tensor_info a = {.size = sizeof a}, e = {.size = sizeof e};
    float x[64 * ELEMENTS], y[64 * ELEMENTS];

    OK(bp_tensor_get_info(got, &a));
    OK(bp_tensor_get_info(like, &e));
    cr_assert(a.rank == e.rank && !memcmp(a.shape, e.shape, a.rank * sizeof *a.shape),
              "output %d has another shape behind %lld", output, (long long)b->at);
    cr_assert(a.bytes <= sizeof x);
    OK(bp_tensor_read(b->f.stream, got, x, a.bytes));
    OK(bp_tensor_read(b->f.stream, like, y, e.bytes));
    for (int64_t i = 0; i < a.count; i++)
        cr_assert(fabsf(x[i] - y[i]) <= 1e-5f * (1 + fabsf(y[i])),
                  "output %d: element %lld is %g, expected %g, behind %lld", output, (long long)i,
                  (double)x[i], (double)y[i], (long long)b->at);
}

/* Runs both models for `tokens` tokens, compares all outputs, and passes the caches on. */
static void bound_step(struct bound *b, int64_t tokens)
{
    struct bp_tensor *x, *out[PORT_COUNT] = {NULL}, *like[PORT_COUNT] = {NULL};
    float data[16 * ELEMENTS];

    for (int64_t i = 0; i < tokens * ELEMENTS; i++)
        data[i] = sinf(0.9f * (float)(b->at * ELEMENTS + i));
    x = tensor_of(&b->f, BP_F32, 4, SHAPE(1, 1, tokens, ELEMENTS), data);
    OK(bp_model_run(b->bound, b->f.stream, (struct bp_tensor *[]){x, b->past[0], b->past[1]},
                    PORT_COUNT, out, PORT_COUNT));
    OK(bp_model_run(b->plain, b->f.stream,
                    (struct bp_tensor *[]){x, b->plain_past[0], b->plain_past[1]}, PORT_COUNT, like,
                    PORT_COUNT));
    for (int i = 0; i < PORT_COUNT; i++) bound_expect_near(b, out[i], like[i], i);
    for (int i = 0; i < 2; i++) {
        bp_tensor_destroy(b->past[i]);
        bp_tensor_destroy(b->plain_past[i]);
        b->past[i] = out[i + 1];
        b->plain_past[i] = like[i + 1];
    }
    bp_tensor_destroy(x);
    bp_tensor_destroy(out[0]);
    bp_tensor_destroy(like[0]);
    b->at += tokens;
}

/* Runs a model for 40 tokens: one by one, in chunks, and with a capacity that grows. */
static void bound_generate(const char *data, size_t size)
{
    const struct {
        int64_t tokens, capacity;
    } way[] = {{1, 48}, {5, 48}, {1, 2}, {5, 4}};

    for (size_t k = 0; k < sizeof way / sizeof *way; k++) {
        struct bound b = bound_init(data, size, way[k].capacity, "");
        while (b.at < TOKENS) bound_step(&b, way[k].tokens);
        cr_expect_eq(bound_info(&b).length, TOKENS);
        bound_finish(&b);
    }
}

#define MODEL(kind) kind##_model, sizeof kind##_model

Test(bound, a_mask_cut_to_the_length_hides_keys_of_long_caches)
{
    bound_generate(MODEL(window));
}

Test(bound, positions_have_a_limit)
{
    bound_generate(MODEL(place));
}

Test(bound, an_if_changes_at_a_short_or_a_long_past)
{
    bound_generate(MODEL(early));
    bound_generate(MODEL(branch));
}

Test(bound, an_if_changes_a_constant_at_a_long_past)
{
    bound_generate(MODEL(factor));
}

/* The first run makes a plan for every past that is not empty: it does not serve an empty one. */
Test(bound, an_if_knows_an_empty_past_after_a_reset)
{
    struct bound b = bound_init(MODEL(first), 48, "");

    for (int k = 0; k < 3; k++) {
        bound_begin(&b, k ? 0 : 3);
        for (int i = 0; i < 5; i++) bound_step(&b, 1);
        cr_expect_eq(bound_info(&b).plans, k ? 2 : 1);
        OK(bp_model_reset(b.bound));
    }
    bound_finish(&b);
    bound_generate(MODEL(first));
}

/* Replaces the pasts by 6 of their places, from the second on. */
static void bound_shift(struct bound *b)
{
    struct bp_tensor **all[] = {&b->past[0], &b->past[1], &b->plain_past[0], &b->plain_past[1]};

    for (int i = 0; i < 4; i++) {
        struct bp_tensor *part;
        OK(bp_tensor_slice(*all[i], 2, 1, 7, 1, &part));
        bp_tensor_destroy(*all[i]);
        *all[i] = part;
    }
    b->at = 6;
}

static void bound_swap(struct bound *b)
{
    struct bp_tensor *t = b->past[0], *u = b->plain_past[0];

    b->past[0] = b->past[1];
    b->past[1] = t;
    b->plain_past[0] = b->plain_past[1];
    b->plain_past[1] = u;
}

/* A past that lies in the buffers: each model must read it as it was before the run. */
static void bound_move(const char *data, size_t size, void (*move)(struct bound *b), bool in_place)
{
    struct bound b = bound_init(data, size, 32, "");

    bound_step(&b, 10);
    move(&b);
    bound_step(&b, 1);
    cr_expect_eq(bound_info(&b).copies, 2);
    bound_step(&b, 1);
    cr_expect_eq(bound_info(&b).copies, 2);
    cr_expect_eq(bound_info(&b).in_place, in_place ? 3 : 0);
    bound_finish(&b);
}

Test(bound, later_places_of_a_cache_are_a_past)
{
    bound_move(MODEL(place), bound_shift, true);
    bound_move(MODEL(count), bound_shift, false); /* its runs copy the caches */
}

Test(bound, the_key_and_the_value_are_exchanged)
{
    bound_move(MODEL(place), bound_swap, true);
    bound_move(MODEL(count), bound_swap, false);
}

/* Removes a folder; returns how many files it had. */
static int bound_clear(const char *folder)
{
    DIR *dir = opendir(folder);
    int count = 0;

    cr_assert_not_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (*entry->d_name == '.') continue;
        cr_assert_eq(unlinkat(dirfd(dir), entry->d_name, 0), 0);
        count++;
    }
    closedir(dir);
    cr_assert_eq(rmdir(folder), 0);
    return count;
}

Test(bound, programs_are_saved_in_the_folder_of_the_options)
{
    char folder[] = "/tmp/bp-bound-XXXXXX";
    struct bound b;

    cr_assert(mkdtemp(folder));
    b = bound_init(MODEL(first), 16, folder);
    for (int i = 0; i < 3; i++) bound_step(&b, 1);
    cr_expect_eq(bound_info(&b).in_place, 3);
    bound_finish(&b);
    cr_expect(bound_clear(folder) >= 2, "a program of an empty past, one of every other");
}

static void bound_count_fills(void *ctx, const struct bp_watched *call)
{
    uint64_t *fills = ctx;

    *fills += !strcmp(call->op->name, "fill");
}

/* To find a plan for every length, the library records the model behind pasts of zeros, which it
 * fills on the stream of the run. A run of one length needs none. */
Test(bound, a_plan_for_every_length_is_sought_once)
{
    struct bound b = bound_init(MODEL(branch), 48, "");
    uint64_t fills = 0;

    bound_step(&b, 1);
    OK(bp_stream_watch(b.f.stream, bound_count_fills, &fills));
    bound_step(&b, 1);
    cr_expect(fills > 0);
    fills = 0;
    for (int i = 2; i < 20; i++) bound_step(&b, 1);
    cr_expect_eq(fills, 0, "%llu pasts were filled", (unsigned long long)fills);
    bound_step(&b, 3); /* another number of tokens is tried too */
    cr_expect(fills > 0);
    OK(bp_stream_watch(b.f.stream, NULL, NULL));
    cr_expect_eq(bound_info(&b).plans, 21);
    bound_finish(&b);
}
