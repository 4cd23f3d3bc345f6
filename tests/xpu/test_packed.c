/* SPDX-License-Identifier: Apache-2.0 */
/* test_packed.c: tests the packed copies of frozen weights in the plans of portable kernels on xpu:
 * they change no result, plans of all batch sizes share one, and no plan outlives its weights. */
#include "../unit/fixture.h"

#include <backplane/ops.h>
#include <stdlib.h>

enum {
    IN = 24,
    OUT = 40,
    SIDE = 9,
    DEPTH = 96,
    WIDE = 72
};

/* Creates a tensor whose numbers depend on `seed`. */
static struct bp_tensor *packed_numbers(struct fixture *f, uint32_t rank, const int64_t *shape,
                                        int seed)
{
    size_t n = 1;
    struct bp_tensor *t;
    float *data;

    for (uint32_t a = 0; a < rank; a++) n *= (size_t)shape[a];
    data = malloc(n * sizeof *data);
    for (size_t i = 0; i < n; i++) data[i] = (float)((int)i * 37 % 101 + seed) / 64;
    t = tensor_of(f, BP_F32, rank, shape, data);
    free(data);
    return t;
}

static uint64_t packed_bytes(struct fixture *f)
{
    struct bp_memory_stats stats = {.size = sizeof stats};

    OK(bp_device_memory(f->device, &stats));
    return stats.plans;
}

/* The calls: a convolution by filters w, and products of which w is the right or left side. */
enum packed_call {
    CONV,
    RIGHT,
    LEFT,
    CALLS
};

static struct bp_tensor *packed_weights(struct fixture *f, enum packed_call call, int seed)
{
    if (call == CONV) return packed_numbers(f, 4, SHAPE(OUT, IN, 3, 3), seed);
    if (call == RIGHT) return packed_numbers(f, 2, SHAPE(DEPTH, WIDE), seed);
    return packed_numbers(f, 2, SHAPE(WIDE, DEPTH), seed);
}

static struct bp_tensor *packed_run(struct fixture *f, enum packed_call call, int64_t batch,
                                    struct bp_tensor *w)
{
    struct bp_tensor *x, *y = NULL;

    if (call == CONV) x = packed_numbers(f, 4, SHAPE(batch, IN, SIDE, SIDE), 0);
    else if (call == RIGHT) x = packed_numbers(f, 3, SHAPE(batch, 33, DEPTH), 0);
    else x = packed_numbers(f, 3, SHAPE(batch, DEPTH, 33), 0);
    if (call == CONV) OK(bp_op_conv(f->scope, x, w, NULL, NULL, &y));
    else if (call == RIGHT) OK(bp_op_matmul(f->scope, x, w, NULL, &y));
    else OK(bp_op_matmul(f->scope, w, x, NULL, &y));
    bp_tensor_destroy(x);
    return y;
}

/* Compares the calls with frozen weights and with `same`, which are not frozen, bit by bit. */
static void packed_compare(struct fixture *f, enum packed_call call, int64_t batch,
                           struct bp_tensor *w, struct bp_tensor *same)
{
    struct bp_tensor_info info = {.size = sizeof info};
    struct bp_tensor *y[2] = {packed_run(f, call, batch, w), packed_run(f, call, batch, same)};
    char *got[2];

    OK(bp_tensor_get_info(y[0], &info));
    for (int i = 0; i < 2; i++) {
        got[i] = malloc(info.bytes);
        OK(bp_tensor_read(f->stream, y[i], got[i], info.bytes));
        bp_tensor_destroy(y[i]);
    }
    cr_expect_arr_eq(got[0], got[1], info.bytes, "call %d, batch %d", (int)call, (int)batch);
    free(got[0]);
    free(got[1]);
}

Test(packed, one_copy_for_all_batches_and_none_without_weights)
{
    struct fixture f = fixture_on("xpu:0");

    for (enum packed_call call = 0; call < CALLS; call++) {
        struct bp_tensor *w = packed_weights(&f, call, 1), *same = packed_weights(&f, call, 1);
        uint64_t once = 0;
        OK(bp_tensor_freeze(w));
        for (int64_t batch = 1; batch <= 4; batch++) {
            packed_compare(&f, call, batch, w, same);
            if (batch == 1) once = packed_bytes(&f);
            cr_expect_eq(packed_bytes(&f), once, "call %d, batch %d: %llu bytes", (int)call,
                         (int)batch, (unsigned long long)packed_bytes(&f));
        }
        cr_expect_geq(once, DEPTH * WIDE * sizeof(float), "call %d", (int)call);
        bp_tensor_destroy(w);
        bp_tensor_destroy(same);
        cr_expect_eq(packed_bytes(&f), 0, "call %d", (int)call);
    }
    fixture_finish(&f);
}

Test(packed, weights_of_equal_shapes_have_their_own_copies)
{
    enum {
        WEIGHTS = 3
    };
    struct fixture f = fixture_on("xpu:0");

    for (enum packed_call call = 0; call < CALLS; call++) {
        struct bp_tensor *w[WEIGHTS], *same[WEIGHTS];
        for (int i = 0; i < WEIGHTS; i++) {
            w[i] = packed_weights(&f, call, i);
            same[i] = packed_weights(&f, call, i);
            OK(bp_tensor_freeze(w[i]));
        }
        for (int i = 0; i < WEIGHTS; i++) packed_compare(&f, call, 2, w[i], same[i]);
        for (int i = 0; i < WEIGHTS; i++) {
            bp_tensor_destroy(same[i]);
            bp_tensor_destroy(w[i]);
        }
        w[0] = packed_weights(&f, call, 7); /* perhaps where other weights were */
        same[0] = packed_weights(&f, call, 7);
        OK(bp_tensor_freeze(w[0]));
        packed_compare(&f, call, 2, w[0], same[0]);
        bp_tensor_destroy(same[0]);
        bp_tensor_destroy(w[0]);
    }
    fixture_finish(&f);
}
