/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c: computes reference results of random distributions from the words of the generator.
 * in[0] holds the seed and the offset. */
#include "../common/reference.h"
#include "reference_philox.h"
#include <math.h>
#include <stdlib.h>

static const long double root_two = 1.41421356237309504880L, pi = 3.14159265358979323846L;

/* Returns word i % 4 of block offset + i / 4. number: the upper half of the counter. */
static uint32_t word_of(const struct ref_array *from, int64_t i, uint64_t number)
{
    uint64_t block = from->u[1] + (uint64_t)i / 4;
    uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)number,
                           (uint32_t)(number >> 32)};
    uint32_t key[2] = {(uint32_t)from->u[0], (uint32_t)(from->u[0] >> 32)}, out[4];

    ref_philox(counter, key, out);
    return out[i % 4];
}

/* 24 bits as a fraction below 1; above_of returns a fraction from 2^-24 to 1. */
static long double ref_random_part_of(const struct ref_array *from, int64_t i)
{
    return (long double)(word_of(from, i, 0) >> 8) / 16777216;
}
static long double above_of(const struct ref_array *from, int64_t i)
{
    return ((long double)(word_of(from, i, 0) >> 8) + 1) / 16777216;
}

/* Rounds to the type in which a kernel computes. */
static long double ref_random_rounded(const struct num_type *type, long double value)
{
    char at[16];

    num_set_float(num_accumulate(type), at, value);
    return num_get_float(num_accumulate(type), at);
}

/* The cosine of a part of a full turn. Whole quarters are taken away first, which is exact, so that
 * results near 0 have all digits too. */
static long double ref_random_cos(long double part)
{
    long double quarters = roundl(4 * part), rest = 2 * pi * (part - quarters / 4);

    switch ((int)quarters & 3) {
    case 0: return cosl(rest);
    case 1: return -sinl(rest);
    case 2: return -cosl(rest);
    default: return sinl(rest);
    }
}

/* Errors in ulp: the logarithm 2, so the root 1, plus a rounding; the angle's product; sine and
 * cosine 2; and the two products with them. */
void ref_normal(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_normal_attrs *a = attrs;

    ref_array_init(out, (uint32_t)a->dtype, (int)a->shape.n, a->shape.at);
    for (int64_t i = 0; i < out->count; i++) {
        int64_t first = i - i % 2;
        long double r = sqrtl(-2 * logl(above_of(in, first)));
        long double part = ref_random_part_of(in, first + 1);
        long double z = r * ref_random_cos(i % 2 ? part - 0.25L : part);
        long double scaled = ref_random_rounded(out->type, a->std) * z;
        out->v[i] = ref_random_rounded(out->type, a->mean) + scaled;
        out->bound[i] = 7 * fabsl(scaled);
    }
}

/* Finds z with erf(z / sqrt(2)) = t by bisection. */
static long double ref_random_inverse(long double t)
{
    long double low = -14, high = 14;

    for (int i = 0; i < 200 && low < high; i++) {
        long double z = (low + high) / 2;
        bool below = t > 0.5L ? erfcl(z / root_two) > 1 - t : erfl(z / root_two) < t;
        if (z == low || z == high) break;
        if (below) low = z;
        else high = z;
    }
    return (low + high) / 2;
}

/* Error: that of t times the slope of z at t; that of z; and two products. */
void ref_truncated_normal(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_truncated_normal_attrs *a = attrs;
    long double base = erfl(a->low / root_two), end = erfl(a->high / root_two);

    ref_array_init(out, (uint32_t)a->dtype, (int)a->shape.n, a->shape.at);
    for (int64_t i = 0; i < out->count; i++) {
        long double more = (end - base) * ref_random_part_of(in, i), t = base + more,
                    z = ref_random_inverse(t), scaled;
        long double slope = sqrtl(pi / 2) * expl(z * z / 2), off;
        z = z < a->low ? a->low : z > a->high ? a->high : z;
        scaled = ref_random_rounded(out->type, a->std) * z;
        off = slope * (fabsl(base) + 2 * fabsl(more) + fabsl(t)) + 6 * fabsl(z);
        out->v[i] = ref_random_rounded(out->type, a->mean) + scaled;
        out->bound[i] = ref_random_rounded(out->type, a->std) * off;
    }
}

void ref_exponential(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_exponential_attrs *a = attrs;

    ref_array_init(out, (uint32_t)a->dtype, (int)a->shape.n, a->shape.at);
    for (int64_t i = 0; i < out->count; i++)
        out->v[i] = -logl(above_of(in, i)) / ref_random_rounded(out->type, a->rate);
}

/* Returns a b / 2^64. For each bit of a, from the lowest: adds b if the bit is set, then halves. */
static uint64_t ref_random_upper(uint64_t a, uint64_t b)
{
    uint64_t high = 0;

    for (int bit = 0; bit < 64; bit++) {
        uint64_t more = a >> bit & 1 ? high + b : high, carry = more < high;
        high = more >> 1 | carry << 63;
    }
    return high;
}

static uint64_t scaled_word(const struct ref_array *from, int64_t i, uint64_t range)
{
    uint64_t word = (uint64_t)word_of(from, i, 0) << 32;

    return ref_random_upper(range > UINT64_C(1) << 32 ? word | word_of(from, i, 1) : word, range);
}

void ref_randint(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_randint_attrs *a = attrs;

    ref_array_init(out, (uint32_t)a->dtype, (int)a->shape.n, a->shape.at);
    for (int64_t i = 0; i < out->count; i++)
        out->u[i] = (uint64_t)a->low + scaled_word(in, i, (uint64_t)a->high - (uint64_t)a->low);
}

/* The position of each number is the count of numbers that sort before it. */
void ref_randperm(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_randperm_attrs *a = attrs;

    ref_array_init(out, (uint32_t)a->dtype, 1, &a->n);
    for (int64_t i = 0; i < a->n; i++) {
        uint64_t mine = scaled_word(in, i, UINT64_C(1) << 63);
        int64_t place = 0;
        for (int64_t j = 0; j < a->n; j++) {
            uint64_t other = scaled_word(in, j, UINT64_C(1) << 63);
            place += other < mine || (other == mine && j < i);
        }
        out->u[place] = (uint64_t)i;
    }
}

void ref_bernoulli(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct ref_array *p = &in[1];

    (void)attrs;
    ref_array_init(out, p->type->dtype, p->rank, p->shape);
    for (int64_t i = 0; i < out->count; i++) out->v[i] = ref_random_part_of(in, i) < p->v[i];
}

/* Sums of floats or doubles, with a rounding for each statement. taken: flags of the row's
 * categories. */
static int64_t draw_float(const struct ref_array *x, int64_t row, int64_t m, const bool *taken,
                          float part)
{
    float total = 0, limit, s = 0;
    int64_t last = 0;

    for (int64_t j = 0; j < m; j++)
        if (!taken[j]) total += (float)x->v[row * m + j];
    limit = part * total;
    for (int64_t j = 0; j < m; j++) {
        if (taken[j]) continue;
        s += (float)x->v[row * m + j];
        if (s > limit) return j;
        if (x->v[row * m + j] > 0) last = j;
    }
    return last;
}
static int64_t draw_double(const struct ref_array *x, int64_t row, int64_t m, const bool *taken,
                           double part)
{
    double total = 0, limit, s = 0;
    int64_t last = 0;

    for (int64_t j = 0; j < m; j++)
        if (!taken[j]) total += (double)x->v[row * m + j];
    limit = part * total;
    for (int64_t j = 0; j < m; j++) {
        if (taken[j]) continue;
        s += (double)x->v[row * m + j];
        if (s > limit) return j;
        if (x->v[row * m + j] > 0) last = j;
    }
    return last;
}

void ref_multinomial(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_multinomial_attrs *a = attrs;
    const struct ref_array *x = &in[1];
    int64_t m = x->shape[x->rank - 1], shape[2] = {x->shape[0], a->n};
    bool *taken = calloc((size_t)m + 1, sizeof *taken);

    if (!taken) abort();
    if (x->rank == 1) shape[0] = a->n;
    ref_array_init(out, BP_I64, x->rank, shape);
    for (int64_t i = 0; i < out->count; i++) {
        int64_t row = i / a->n, found;
        double part = (double)ref_random_part_of(in, i);
        for (int64_t j = 0; j < m && i % a->n == 0; j++) taken[j] = false;
        found = x->type->dtype == BP_F64 ? draw_double(x, row, m, taken, part)
                                         : draw_float(x, row, m, taken, (float)part);
        taken[found] = !a->replacement;
        out->u[i] = (uint64_t)found;
    }
    free(taken);
}

static long double ref_random_next(const struct ref_array *from, int64_t i, uint64_t *number)
{
    return ((long double)(word_of(from, i, (*number)++) >> 8) + 1) / 16777216;
}

/* W. Hoermann, "The transformed rejection method for generating Poisson random variables", 1993. */
static long double poisson_many(const struct ref_array *from, int64_t i, long double rate)
{
    long double b = 0.931L + 2.53L * sqrtl(rate), a = 0.02483L * b - 0.059L;
    long double c = 0.9277L - 3.6224L / (b - 2);
    uint64_t number = 0;

    for (;;) {
        long double x = ref_random_next(from, i, &number) - 0.5L,
                    u = ref_random_next(from, i, &number);
        long double h = 0.5L - fabsl(x), k, left;
        if (h == 0) continue;
        k = floorl((2 * a / h + b) * x + rate + 0.43L);
        if (h >= 0.07L && u <= c) return k;
        if (k < 0 || (h < 0.013L && u > h)) continue;
        left = logl(u) + logl(1.1239L + 1.1328L / (b - 3.4L)) - logl(a / (h * h) + b);
        if (left <= k * logl(rate) - rate - lgammal(k + 1)) return k;
    }
}

void ref_poisson(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct ref_array *rate = &in[1];

    (void)attrs;
    ref_array_init(out, rate->type->dtype, rate->rank, rate->shape);
    for (int64_t i = 0; i < out->count; i++) {
        uint64_t number = 0;
        long double r = rate->v[i], product, k = 0;
        char at[8];
        if (!(r >= 0)) k = NAN;
        else if (r > 0x1p40L) k = r;
        else if (r >= 10) k = poisson_many(in, i, r);
        else
            for (product = ref_random_next(in, i, &number); product > expl(-r); k++)
                product *= ref_random_next(in, i, &number);
        num_set_float(out->type, at, k);
        out->v[i] = num_get_float(out->type, at);
    }
}

static long double factor_of(const struct bp_dropout_attrs *a)
{
    if (a->training) return a->mode ? 1 : a->p < 1 ? 1 / (1 - (long double)a->p) : 0;
    return a->mode ? 1 - (long double)a->p : 1;
}

/* The factor is 1, or has an error of a rounding or two. */
static void ref_random_put(struct ref_array *out, int64_t i, long double x, long double factor,
                           bool kept)
{
    out->v[i] = kept ? x * factor : 0;
    if (isfinite(out->v[i]) && factor != 1) out->bound[i] = 2 * fabsl(out->v[i]);
}

void ref_dropout(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_dropout_attrs *a = attrs;
    const struct ref_array *x = &in[1];

    ref_array_init(&out[0], x->type->dtype, x->rank, x->shape);
    ref_array_init(&out[1], BP_BOOL, x->rank, x->shape);
    for (int64_t i = 0; i < x->count; i++) {
        bool kept = !a->training || !(ref_random_part_of(in, i) < (long double)a->p);
        ref_random_put(&out[0], i, x->v[i], factor_of(a), kept);
        out[1].u[i] = kept;
    }
}

void ref_dropout_grad(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    ref_array_init(out, in->type->dtype, in->rank, in->shape);
    for (int64_t i = 0; i < out->count; i++)
        ref_random_put(out, i, in[0].v[i], factor_of(attrs), in[1].u[i] != 0);
}

/* Computes the exponents z of one line, and the error of each. */
static void ref_random_line(const struct ref_array *in, const struct bp_gumbel_softmax_attrs *a,
                            int64_t from, int64_t step, int64_t n, struct ref_array *out)
{
    long double top = -INFINITY, sum = 0, off = 0;
    long double *z = malloc((size_t)n * 2 * sizeof *z), *miss = z + n;
    int64_t best = 0;

    if (!z) abort();
    for (int64_t j = 0; j < n; j++) {
        int64_t i = from + j * step;
        long double g = -logl(-logl(ref_random_part_of(in, i)));
        z[j] = (in[1].v[i] + g) / (long double)a->temperature;
        miss[j] = 2 * fabsl(z[j]) + (3 + 3 * fabsl(g)) / (long double)a->temperature;
        if (z[j] > top) best = j;
        top = z[j] > top ? z[j] : top;
    }
    for (int64_t j = 0; j < n; j++) sum += expl(z[j] - top);
    for (int64_t j = 0; j < n; j++)
        if (z[j] > -INFINITY) off += expl(z[j] - top) / sum * (top - z[j] + miss[j]);
    for (int64_t j = 0; j < n; j++) {
        int64_t i = from + j * step;
        out[0].v[i] = expl(z[j] - top) / sum;
        out[1].v[i] = j == best;
        if (z[j] > -INFINITY)
            out[0].bound[i] = out[0].v[i] * (ref_growth(n - 1) + top - z[j] + miss[j] + off);
    }
    free(z);
}

void ref_gumbel_softmax(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_gumbel_softmax_attrs *a = attrs;
    const struct ref_array *x = &in[1];
    int axis = ref_axis(a->axis, x->rank);
    int64_t step = 1;

    for (int i = 0; i < 2; i++) ref_array_init(&out[i], x->type->dtype, x->rank, x->shape);
    out[0].flush = true;
    for (int i = axis + 1; i < x->rank; i++) step *= x->shape[i];
    for (int64_t i = 0; i < x->count; i++)
        if (i / step % x->shape[axis] == 0) ref_random_line(in, a, i, step, x->shape[axis], out);
}
