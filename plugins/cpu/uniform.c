/* SPDX-License-Identifier: Apache-2.0 */
/* uniform.c: generates uniform random numbers. Every device must generate the same bits, so each
 * product and each sum is rounded: this file is compiled without contraction to fused
 * multiply-add. */
#include "cpu.h"
#include "dtype.h"
#include <dialect/half.h>
#include <dialect/philox.h>
#include "kernels.h"
#include "walk.h"
#include <backplane/attrs.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { RUN = 256 }; /* words of one step; a multiple of 4 */

struct uniform {
    struct walk walk; /* y, and the number of the element */
    char *y;
    uint64_t seed, offset;
    double low, high;
    float low_f, high_f;
    uint8_t dtype; /* enum bp_dtype */
};

/* The largest f32 below x; x is not the smallest f32. */
static float f32_below(float x)
{
    return nextafterf(x, -INFINITY);
}

/* The next smaller number of a half type, by its 16 bits. */
static uint16_t half_down(uint16_t h)
{
    if (!(h & 0x7fff)) return 0x8001;
    return (uint16_t)(h & 0x8000 ? h + 1 : h - 1);
}

static inline float in_f32(const struct uniform *u, uint32_t word)
{
    float y = u->low_f + (u->high_f - u->low_f) * ((float)(word >> 8) * 0x1p-24f);

    return y >= u->high_f && u->high_f > u->low_f ? f32_below(u->high_f) : y;
}

static inline double in_f64(const struct uniform *u, uint32_t word)
{
    double y = u->low + (u->high - u->low) * ((double)(word >> 8) * 0x1p-24);

    return y >= u->high && u->high > u->low ? nextafter(u->high, -INFINITY) : y;
}

static uint16_t in_f16(const struct uniform *u, uint32_t word)
{
    uint16_t h = f16_from_f32(in_f32(u, word));

    while (u->high_f > u->low_f && f16_to_f32(h) >= u->high_f) h = half_down(h);
    return h;
}

static uint16_t in_bf16(const struct uniform *u, uint32_t word)
{
    uint16_t h = bf16_from_f32(in_f32(u, word));

    while (u->high_f > u->low_f && bf16_to_f32(h) >= u->high_f) h = half_down(h);
    return h;
}

/* Converts n words to elements at a stride of `step`. */
static void uniform_put(const struct uniform *u, const uint32_t *word, int64_t n, char *y,
                        int64_t step)
{
    uint16_t *y16 = (void *)y;
    float *float32 = (void *)y;
    double *float64 = (void *)y;

    switch (u->dtype) {
    case BP_F16: for (int64_t i = 0; i < n; i++) y16[i * step] = in_f16(u, word[i]); break;
    case BP_BF16: for (int64_t i = 0; i < n; i++) y16[i * step] = in_bf16(u, word[i]); break;
    case BP_F32: for (int64_t i = 0; i < n; i++) float32[i * step] = in_f32(u, word[i]); break;
    default: for (int64_t i = 0; i < n; i++) float64[i * step] = in_f64(u, word[i]); break;
    }
}

/* Writes elements at[1] to at[1] + n - 1. */
static void uniform_span(void *ctx, int64_t n, const int64_t *at)
{
    const struct uniform *u = ctx;
    int64_t step = u->walk.stride[0][u->walk.rank - 1], size = dtype_size(u->dtype);
    char *y = u->y + at[0] * size;
    uint32_t word[RUN];

    for (int64_t done = 0; done < n;) {
        int64_t element = at[1] + done, skip = element % 4, now = RUN - skip;
        uint64_t block = u->offset + (uint64_t)(element / 4);
        if (now > n - done) now = n - done;
        for (int64_t b = 0; 4 * b < skip + now; b++)
            philox_block(u->seed, block + (uint64_t)b, word + 4 * b);
        uniform_put(u, word + skip, now, y + done * step * size, step);
        done += now;
    }
}

enum bp_status cpu_uniform(const struct bp_launch *launch)
{
    const struct bp_uniform_attrs *attrs = launch->attrs;
    const struct bp_view *y = launch->out[0];
    struct uniform u = {.y = y->data,
                        .seed = launch->seed,
                        .offset = launch->offset,
                        .low = attrs->low,
                        .high = attrs->high,
                        .low_f = (float)attrs->low,
                        .high_f = (float)attrs->high,
                        .dtype = y->dtype};

    if (launch->rng) {
        u.seed = launch->rng[0];
        u.offset += launch->rng[1];
    }
    walk_init(&u.walk, y->rank, y->shape);
    walk_broadcast(&u.walk, 0, y->rank, y->shape, y->stride);
    walk_number(&u.walk, 1);
    walk_collapse(&u.walk);
    walk_run(&u.walk, launch, uniform_span, &u);
    return BP_OK;
}
