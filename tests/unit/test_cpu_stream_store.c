/* SPDX-License-Identifier: Apache-2.0 */
/* test_cpu_stream_store.c: tests results of the cpu plugin that are large enough for streaming
 * stores: their bits equal those of the same row for a few elements at a time, at any start
 * address, and no byte around them is written. */
#include "cpu_kit.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 128, MARK = 0xa5, FEW = 4096, LARGE = 16 << 20 };

/* The operator, attributes and dtypes of one trial. */
struct trial {
    const char *op;
    const void *attrs;
    int from, to, from_size, to_size; /* dtypes; sizes of an element in bytes */
    uint32_t n_in;
};

/* n elements with distance y_step in y; the first operand has one element for all if x_step is
 * 0. */
struct place {
    int64_t n, y_step, x_step;
    size_t y_off;
};

static struct bp_view stream_store_view_of(void *data, int dtype, const int64_t *n,
                                           const int64_t *step)
{
    return (struct bp_view){.data = data, .dtype = (uint8_t)dtype, .rank = 1, .shape = n,
                            .stride = step, .count = *n,
                            .flags = *step == 1 ? 0 : BP_VIEW_STRIDED};
}

/* Launches a row for the elements from number `first` on. */
static void stream_store_launch(const struct bp_kernel *row, const struct trial *t,
                                const struct place *p, unsigned char *y, unsigned char *x,
                                int64_t first, uint32_t width)
{
    const int64_t one = 1, *x_shape = p->x_step ? &p->n : &one;
    struct bp_view a = stream_store_view_of(x + first * p->x_step * t->from_size, t->from, x_shape,
                                            &one);
    struct bp_view b = stream_store_view_of(x + (first + 1) * t->from_size, t->from, &p->n, &one);
    struct bp_view out = stream_store_view_of(y + first * p->y_step * t->to_size, t->to, &p->n,
                                              &p->y_step);
    const struct bp_view *in[] = {&a, &b}, *outs[] = {&out};
    struct bp_launch l = {.self = kit_self, .kernel = row, .in = in, .n_in = t->n_in, .out = outs,
                          .n_out = 1, .attrs = t->attrs, .width = width};

    cr_assert_eq(row->launch(&l), BP_OK);
}

static void stream_store_compare(const struct bp_kernel *row, const struct trial *t,
                                 const struct place *p, unsigned char *x)
{
    size_t bytes = (size_t)(p->n * p->y_step * t->to_size), all = bytes + 2 * GUARD;
    unsigned char *memory[2];

    for (int large = 0; large < 2; large++) {
        memory[large] = aligned_alloc(64, all / 64 * 64 + 64);
        cr_assert(memory[large]);
        memset(memory[large], MARK, all);
        unsigned char *y = memory[large] + GUARD / 2 + p->y_off;
        if (large) stream_store_launch(row, t, p, y, x, 0, 2);
        for (int64_t i = 0; !large && i < p->n; i += FEW) {
            struct place some = *p;
            some.n = p->n - i < FEW ? p->n - i : FEW;
            stream_store_launch(row, t, &some, y, x, i, 1);
        }
    }
    cr_expect(!memcmp(memory[0], memory[1], all), "%s: y %zu bytes off, step %d, x step %d",
              row->name, p->y_off, (int)p->y_step, (int)p->x_step);
    free(memory[0]);
    free(memory[1]);
}

/* Fills memory with bytes that are finite numbers of each float dtype, and integers. */
static void stream_store_fill(unsigned char *x, size_t size)
{
    uint32_t state = 1;

    for (size_t i = 0; i < size; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (unsigned char)(state >> 24 & 0xbb); /* no exponent has all bits set */
    }
}

static void stream_store_try(const struct trial *t)
{
    int64_t n = LARGE / t->to_size + 37;
    size_t size = (size_t)((n + 1) * t->from_size) / 64 * 64 + 64;
    unsigned char *x = aligned_alloc(64, size);
    struct place places[] = {{n, 1, 1, 0}, {n, 1, 1, (size_t)t->to_size}, {n, 2, 1, 0},
                             {n, 1, 0, 0}};
    int rows = 0;

    cr_assert(x);
    stream_store_fill(x, size);
    for (size_t i = 0; i < kit_plugin->kernels->count; i++) {
        const struct bp_kernel *row = &kit_plugin->kernels->first[i];
        if (strcmp(row->op, t->op) || kit_plugin->kernels->usable(kit_self, row)) continue;
        if (!(row->types[0] >> t->from & 1)) continue;
        for (int k = 0; k < 3 + (t->n_in > 1); k++) stream_store_compare(row, t, &places[k], x);
        rows++;
    }
    cr_expect(rows, "no row of %s", t->op);
    free(x);
}

Test(stream_store, formulas)
{
    struct bp_scale_attrs scale = {.factor = 1.5, .bias = 0.25};
    struct bp_cast_attrs to_f16 = {.to = BP_F16}, to_f32 = {.to = BP_F32};
    const struct trial trials[] = {
        {"add", NULL, BP_F32, BP_F32, 4, 4, 2},    {"add", NULL, BP_F16, BP_F16, 2, 2, 2},
        {"mul", NULL, BP_I8, BP_I8, 1, 1, 2},      {"relu", NULL, BP_F32, BP_F32, 4, 4, 1},
        {"relu", NULL, BP_F64, BP_F64, 8, 8, 1},   {"scale", &scale, BP_F32, BP_F32, 4, 4, 1},
        {"cast", &to_f16, BP_F32, BP_F16, 4, 2, 1}, {"cast", &to_f32, BP_F16, BP_F32, 2, 4, 1},
    };

    kit_load();
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) stream_store_try(&trials[i]);
    kit_unload();
}
