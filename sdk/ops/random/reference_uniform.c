/* SPDX-License-Identifier: Apache-2.0 */
/* reference_uniform.c: computes uniform random numbers bit for bit. Arithmetic is in float and
 * double, with one rounding for each statement. */
#include "../common/reference.h"
#include "reference_philox.h"
#include <math.h>

/* One round of the cipher (Salmon et al. 2011, section 3.3): the left word of each pair is
 * multiplied by a constant; the high half is combined with the right word of the other pair and a
 * key. */
static void one_round(uint32_t *w, const uint32_t *key)
{
    static const uint64_t multiplier[2] = {0xD2511F53, 0xCD9E8D57};
    uint64_t p[2] = {multiplier[0] * w[0], multiplier[1] * w[2]};
    uint32_t next[4] = {(uint32_t)(p[1] >> 32) ^ w[1] ^ key[0], (uint32_t)p[1],
                        (uint32_t)(p[0] >> 32) ^ w[3] ^ key[1], (uint32_t)p[0]};

    for (int i = 0; i < 4; i++) w[i] = next[i];
}

void ref_philox(const uint32_t *counter, const uint32_t *key, uint32_t *out)
{
    static const uint32_t weyl[2] = {0x9E3779B9, 0xBB67AE85};

    for (int i = 0; i < 4; i++) out[i] = counter[i];
    for (uint32_t r = 0; r < 10; r++) {
        uint32_t now[2] = {key[0] + r * weyl[0], key[1] + r * weyl[1]};
        one_round(out, now);
    }
}

/* Returns word i % 4 of block offset + i / 4. */
static uint32_t ref_uniform_word(uint64_t seed, uint64_t offset, int64_t i)
{
    uint64_t block = offset + (uint64_t)i / 4;
    uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), 0, 0};
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, out[4];

    ref_philox(counter, key, out);
    return out[i % 4];
}

static long double in_f32(double low, double high, uint32_t w)
{
    float a = (float)low, b = (float)high, u = (float)(w >> 8) / 16777216.0f;
    float width = b - a;
    float step = width * u;
    float y = a + step;

    return y;
}

static double in_f64(double low, double high, uint32_t w)
{
    double u = (double)(w >> 8) / 16777216.0, width = high - low;
    double step = width * u;

    return low + step;
}

/* The largest number of the type below limit: limit rounded to the type, or, if this is not below
 * limit, the number one step below. */
static long double ref_uniform_below(const struct num_type *type, long double limit)
{
    char at[8];
    long double y;

    num_set_float(type, at, limit);
    y = num_get_float(type, at);
    if (y < limit) return y;
    if (isinf(y)) return num_max(type);
    /* Below a power of two, a step is half as long. */
    num_set_float(type, at, y - num_ulp(type, y) / 2);
    if (num_get_float(type, at) < limit) return num_get_float(type, at);
    num_set_float(type, at, y - num_ulp(type, y));
    return num_get_float(type, at);
}

void ref_uniform(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_uniform_attrs *a = attrs;
    bool wide = a->dtype == BP_F64;
    long double limit = wide ? a->high : (float)a->high, low = wide ? a->low : (float)a->low;

    ref_array_init(out, (uint32_t)a->dtype, (int)a->shape.n, a->shape.at);
    for (int64_t i = 0; i < out->count; i++) {
        uint32_t w = ref_uniform_word(in->u[0], in->u[1], i);
        long double y = wide ? in_f64(a->low, a->high, w) : in_f32(a->low, a->high, w);
        char at[8];
        num_set_float(out->type, at, y);
        out->v[i] = num_get_float(out->type, at);
        if (out->v[i] >= limit && limit > low) out->v[i] = ref_uniform_below(out->type, limit);
    }
}
