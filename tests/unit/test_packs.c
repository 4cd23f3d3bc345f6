/* SPDX-License-Identifier: Apache-2.0 */
/* test_packs.c: tests the packed copies of frozen weights in plans: one copy for all batch sizes,
 * kept as long as the weights exist, and within BP_MEM_LIMIT. */
#include "fixture.h"
#include <math.h>
#include <stdlib.h>

enum { IN = 32, OUT = 48, SIDE = 8 };

static float packs_number(int i)
{
    return (float)(i * 37 % 101 - 50) / 64;
}

static struct bp_tensor *packs_numbers(struct fixture *f, const int64_t *shape)
{
    size_t n = (size_t)(shape[0] * shape[1] * shape[2] * shape[3]);
    float *data = malloc(n * sizeof *data);
    struct bp_tensor *t;

    for (size_t i = 0; i < n; i++) data[i] = packs_number((int)i);
    t = tensor_of(f, BP_F32, 4, shape, data);
    free(data);
    return t;
}

static uint64_t plans_of(struct fixture *f)
{
    struct bp_memory_stats stats = {.size = sizeof stats};

    OK(bp_device_memory(f->device, &stats));
    return stats.plans;
}

/* Returns the largest difference between the convolutions of a batch with the two weights. */
static float packs_difference(struct fixture *f, int64_t batch, struct bp_tensor *w,
                              struct bp_tensor *same)
{
    enum { IMAGE = OUT * (SIDE - 2) * (SIDE - 2) };
    struct bp_tensor *x = packs_numbers(f, SHAPE(batch, IN, SIDE, SIDE)), *y[2] = {NULL};
    float *got = malloc((size_t)batch * 2 * IMAGE * sizeof *got), most = 0;
    size_t n = (size_t)batch * IMAGE;

    OK(bp_op_conv(f->scope, x, w, NULL, NULL, &y[0]));
    OK(bp_op_conv(f->scope, x, same, NULL, NULL, &y[1]));
    for (int i = 0; i < 2; i++) {
        struct bp_tensor *dense;
        OK(bp_tensor_create(f->device, BP_F32, 4, SHAPE(batch, OUT, SIDE - 2, SIDE - 2), &dense));
        OK(bp_tensor_copy(f->stream, dense, y[i]));
        OK(bp_tensor_read(f->stream, dense, got + (size_t)i * n, n * sizeof *got));
        bp_tensor_destroy(dense);
        bp_tensor_destroy(y[i]);
    }
    for (size_t i = 0; i < n; i++) {
        float d = fabsf(got[i] - got[n + i]);
        cr_assert(isfinite(d));
        if (d > most) most = d;
    }
    free(got);
    bp_tensor_destroy(x);
    return most;
}

Test(packs, one_for_all_batches_and_none_without_weights)
{
    struct fixture f = fixture_init();
    struct bp_tensor *w = packs_numbers(&f, SHAPE(OUT, IN, 3, 3)),
                     *same = packs_numbers(&f, SHAPE(OUT, IN, 3, 3));
    uint64_t once = 0;

    OK(bp_tensor_freeze(w));
    for (int64_t batch = 1; batch <= 6; batch++) {
        cr_expect_lt(packs_difference(&f, batch, w, same), 1e-3f);
        if (batch == 1) once = plans_of(&f);
        cr_expect_eq(plans_of(&f), once, "batch %d: %llu bytes, one keeps %llu", (int)batch,
                     (unsigned long long)plans_of(&f), (unsigned long long)once);
    }
    if (!once) cr_skip("no row packs weights here: oneDNN is not installed, or off");
    cr_expect_geq(once, OUT * IN * 9 * sizeof(float));
    bp_tensor_destroy(w);
    cr_expect_eq(plans_of(&f), 0, "%llu bytes", (unsigned long long)plans_of(&f));
    w = packs_numbers(&f, SHAPE(OUT, IN, 3, 3)); /* at the old address: no old pack is used */
    OK(bp_tensor_freeze(w));
    cr_expect_lt(packs_difference(&f, 2, w, same), 1e-3f);
    cr_expect_eq(plans_of(&f), once);
    bp_tensor_destroy(w);
    bp_tensor_destroy(same);
    fixture_finish(&f);
}

Test(packs, the_limit_counts_them)
{
    enum { WIDE = 512 };
    struct bp_tensor *x, *w, *y = NULL;
    struct fixture f;

    setenv("BP_MEM_LIMIT", "32M", 1);
    f = fixture_init();
    x = packs_numbers(&f, SHAPE(1, WIDE, 4, 4));
    w = packs_numbers(&f, SHAPE(WIDE, WIDE, 3, 3)); /* 9 MiB; the same again when packed */
    OK(bp_tensor_freeze(w));
    OK(bp_op_conv(f.scope, x, w, NULL, NULL, &y));
    if (!plans_of(&f)) cr_skip("no row packs weights here: oneDNN is not installed, or off");
    bp_tensor_destroy(y), y = NULL;
    bp_tensor_destroy(x);
    bp_tensor_destroy(w);
    fixture_finish(&f);

    setenv("BP_MEM_LIMIT", "14M", 1);
    f = fixture_init();
    x = packs_numbers(&f, SHAPE(1, WIDE, 4, 4));
    w = packs_numbers(&f, SHAPE(WIDE, WIDE, 3, 3));
    OK(bp_tensor_freeze(w));
    FAILS(BP_ERR_MEMORY, "BP_MEM_LIMIT", bp_op_conv(f.scope, x, w, NULL, NULL, &y));
    cr_expect_eq(plans_of(&f), 0);
    bp_tensor_destroy(x);
    bp_tensor_destroy(w);
    fixture_finish(&f);
}
