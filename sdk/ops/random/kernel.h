/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h: draws random numbers of floating-point distributions from words of the generator;
 * schema.def defines the formulas. Spans count blocks of four elements. */
#ifndef BP_OPS_RANDOM_KERNEL_H
#define BP_OPS_RANDOM_KERNEL_H

#include "kernel_words.h"
#include "../common/kernel_formulas.h"

/* A draw of n elements; a span counts blocks of four elements. a to d: the attributes, in order. */
struct draw_args {
    struct random_source from;
    i64 n, op;
    host_real a, b, c, d;
    host_real base, width; /* truncated_normal: erf at the lower end; erf of upper end minus base */
};
struct bernoulli_args {
    struct random_source from;
    i64 n;
};

/* An element is dropped if the upper 24 bits of its word are below `limit`. */
struct dropout_args {
    struct random_source from;
    i64 n, limit;
    host_real factor;
};
struct dropout_grad_args {
    host_real factor;
};
struct poisson_args {
    struct random_source from;
};

/* n draws from m categories, in each row. again: with replacement. */
struct multinomial_args {
    struct random_source from;
    i64 n, m, again;
};

#ifdef ELEM
#include "../../dialect/entry.h"
#include "../../dialect/maths.h"
#include "../../dialect/special.h"

/* random_unit returns the upper 24 bits of a word as a fraction, 0 or more and below 1;
 * random_above adds 1 to the bits first, so that it returns a fraction above 0, up to 1. */
KFN acc random_unit(u32 word)
{
    return (acc)(i32)(word >> 8) * (acc)0x1p-24;
}
KFN acc random_above(u32 word)
{
    return (acc)(i32)((word >> 8) + 1) * (acc)0x1p-24;
}

/* sin(x) and cos(x) for |x| up to pi / 4, from their series. */
KFN acc random_sin(acc x)
{
#ifdef ELEM_f64
    return sin(x);
#else
    acc s = x * x;

    return x + x * s *
                   (-0x1.555556p-3f +
                    s * (0x1.111112p-7f + s * (-0x1.a01a02p-13f + s * 0x1.71de3ap-19f)));
#endif
}
KFN acc random_cos(acc x)
{
#ifdef ELEM_f64
    return cos(x);
#else
    acc s = x * x;

    return 1 -
           s * (0.5f + s * (-0x1.555556p-5f +
                            s * (0x1.6c16c2p-10f + s * (-0x1.a01a02p-16f + s * 0x1.27e4fcp-22f))));
#endif
}

/* Computes two independent numbers of mean 0 and standard deviation 1. The angle is 2 pi times a
 * fraction of 24 bits: its distance from a multiple of a quarter turn is exact. */
KFN void random_pair(u32 one, u32 other, acc *y, acc *z)
{
    u32 turn = other >> 8, quarter = (turn + ((u32)1 << 21)) >> 22;
    acc rest = (acc)(i32)(turn - (quarter << 22)) * (acc)0x1.921fb54442d18p-22;
    acc r = MATH(sqrt)((acc)-2 * FUNC(log)(random_above(one)));
    acc s = random_sin(rest), c = random_cos(rest);
    acc first = quarter & 1 ? s : c, second = quarter & 1 ? c : s;

    *y = r * (((quarter + 1) & 2) ? -first : first);
    *z = r * ((quarter & 2) ? -second : second);
}

/* n, the number of words, is even. */
KFN void draw_normal(const struct draw_args *a, i64 n, const u32 *word, acc *made)
{
    acc mean = number(a->a), deviation = number(a->b);

    SIMD for (i64 i = 0; i < n / 2; i++)
    {
        acc y, z;
        random_pair(word[2 * i], word[2 * i + 1], &y, &z);
        made[2 * i] = mean + deviation * y;
        made[2 * i + 1] = mean + deviation * z;
    }
}

KFN void draw_truncated(const struct draw_args *a, i64 n, const u32 *word, acc *made)
{
    acc mean = number(a->a), deviation = number(a->b), low = number(a->c), high = number(a->d);
    acc base = number(a->base), width = number(a->width);

    for (i64 i = 0; i < n; i++) {
        acc z = (acc)1.4142135623730951 * acc_erfinv(base + width * random_unit(word[i]));
        made[i] = mean + deviation * acc_clip(z, low, high);
    }
}

KFN void draw_exponential(const struct draw_args *a, i64 n, const u32 *word, acc *made)
{
    acc rate = number(a->a);

    SIMD for (i64 i = 0; i < n; i++) made[i] = -FUNC(log)(random_above(word[i])) / rate;
}

KFN void draw_made(const struct draw_args *a, i64 n, const u32 *word, acc *made)
{
    if (a->op == DRAW_normal) draw_normal(a, n, word, made);
    else if (a->op == DRAW_exponential) draw_exponential(a, n, word, made);
    else draw_truncated(a, n, word, made);
}

KFN void draw_span(const struct draw_args *a, i64 begin, i64 n, GLOBAL elem *y,
                   GLOBAL const u64 *rng)
{
    struct random_source from = random_from(a->from, rng);
    u32 word[4 * RANDOM_BLOCKS];
    acc made[4 * RANDOM_BLOCKS];

    for (i64 b = begin; b < begin + n; b += RANDOM_BLOCKS) {
        i64 blocks = begin + n - b < RANDOM_BLOCKS ? begin + n - b : RANDOM_BLOCKS;
        i64 count = random_elements(a->n, b, blocks);
        GLOBAL elem *to = y + 4 * b;
        random_words(from, b, blocks, word);
        draw_made(a, 4 * blocks, word, made);
        SIMD for (i64 i = 0; i < count; i++) to[i] = elem_put(made[i]);
    }
}
ENTRY_SPANS_2(draw, elem, const u64)

KFN void bernoulli_span(const struct bernoulli_args *a, i64 begin, i64 n, GLOBAL elem *y,
                        GLOBAL const elem *p, GLOBAL const u64 *rng)
{
    struct random_source from = random_from(a->from, rng);
    u32 word[4 * RANDOM_BLOCKS];

    for (i64 b = begin; b < begin + n; b += RANDOM_BLOCKS) {
        i64 blocks = begin + n - b < RANDOM_BLOCKS ? begin + n - b : RANDOM_BLOCKS;
        i64 count = random_elements(a->n, b, blocks);
        random_words(from, b, blocks, word);
        SIMD for (i64 i = 0; i < count; i++)
            y[4 * b + i] = elem_put(random_unit(word[i]) < elem_get(p[4 * b + i]) ? 1 : 0);
    }
}
ENTRY_SPANS_3(bernoulli, elem, const elem, const u64)

/* y may be x. */
KFN void dropout_span(const struct dropout_args *a, i64 begin, i64 n, GLOBAL elem *y,
                      GLOBAL u8 *kept, GLOBAL const elem *x, GLOBAL const u64 *rng)
{
    struct random_source from = random_from(a->from, rng);
    u32 word[4 * RANDOM_BLOCKS], limit = (u32)a->limit;
    acc factor = number(a->factor);

    for (i64 b = begin; b < begin + n; b += RANDOM_BLOCKS) {
        i64 blocks = begin + n - b < RANDOM_BLOCKS ? begin + n - b : RANDOM_BLOCKS;
        i64 count = random_elements(a->n, b, blocks);
        random_words(from, b, blocks, word);
        SIMD for (i64 i = 0; i < count; i++)
        {
            u8 keep = (word[i] >> 8) >= limit;
            acc value = elem_get(x[4 * b + i]) * factor;
            kept[4 * b + i] = keep;
            y[4 * b + i] = elem_put(keep ? value : 0);
        }
    }
}
ENTRY_SPANS_4(dropout, elem, u8, const elem, const u64)

KFN void dropout_grad_span(const struct dropout_grad_args *a, i64 begin, i64 n, GLOBAL elem *dx,
                           GLOBAL const elem *dy, GLOBAL const u8 *kept)
{
    acc factor = number(a->factor);

    SIMD for (i64 i = begin; i < begin + n; i++)
    {
        acc value = elem_get(dy[i]) * factor;
        dx[i] = elem_put(kept[i] ? value : 0);
    }
}
ENTRY_SPANS_3(dropout_grad, elem, const elem, const u8)

/* log(k!), by Stirling's series from 10 on. */
KFN real poisson_log_factorial(real k)
{
    real x = k + 1, part = 1, s;

    for (; x < 10; x += 1) part *= x;
    s = 1 / (x * x);
    s = (((real)(-1.0 / 1680) * s + (real)(1.0 / 1260)) * s - (real)(1.0 / 360)) * s +
        (real)(1.0 / 12);
    return (x - (real)0.5) * log(x) - x + (real)0.91893853320467274 + s / x - log(part);
}

/* The generator of one element: `number` counts the words that it has drawn. */
struct poisson_draws {
    struct random_source from;
    i64 at;
    u64 number;
};
KFN real poisson_next(struct poisson_draws *d)
{
    u32 word = philox_word(d->from.seed, d->from.offset, d->at, d->number++);

    return (real)(i32)((word >> 8) + 1) * (real)0x1p-24;
}

KFN real poisson_few(struct poisson_draws *d, real rate)
{
    real end = exp(-rate), product = poisson_next(d), k = 0;

    for (; product > end; k += 1) product *= poisson_next(d);
    return k;
}

KFN real poisson_many(struct poisson_draws *d, real rate)
{
    real b = (real)0.931 + (real)2.53 * sqrt(rate), a = (real)0.02483 * b - (real)0.059;
    real scale = log((real)1.1239 + (real)1.1328 / (b - (real)3.4)), log_rate = log(rate);
    real c = (real)0.9277 - (real)3.6224 / (b - 2);

    for (;;) {
        real x = poisson_next(d) - (real)0.5, u = poisson_next(d);
        real h = (real)0.5 - (x < 0 ? -x : x), k;
        if (h == 0) continue;
        k = floor((2 * a / h + b) * x + rate + (real)0.43);
        if (h >= (real)0.07 && u <= c) return k;
        if (k < 0 || (h < (real)0.013 && u > h)) continue;
        if (log(u) + scale - log(a / (h * h) + b) <= k * log_rate - rate - poisson_log_factorial(k))
            return k;
    }
}

KFN void poisson_span(const struct poisson_args *a, i64 begin, i64 n, GLOBAL elem *y,
                      GLOBAL const elem *x, GLOBAL const u64 *rng)
{
    struct poisson_draws d = {random_from(a->from, rng), 0, 0};

    for (i64 i = begin; i < begin + n; i++) {
        real rate = (real)elem_get(x[i]);
        d.at = i;
        d.number = 0;
        if (rate >= 0 && rate < 10) rate = poisson_few(&d, rate);
        else if (rate >= 10 && rate <= (real)0x1p40) rate = poisson_many(&d, rate);
        else if (!(rate > 0)) rate = (real)acc_infinity() - (real)acc_infinity();
        y[i] = elem_put((acc)rate);
    }
}
ENTRY_SPANS_3(poisson, elem, const elem, const u64)

/* Converts the weights of a row to type acc; weights that are negative or not finite set the fault
 * and become 0. Returns the number of weights above 0. */
KFN i64 multinomial_weights(i64 m, GLOBAL acc *weight, GLOBAL const elem *x, GLOBAL u32 *fault)
{
    i64 above = 0;

    for (i64 j = 0; j < m; j++) {
        acc w = elem_get(x[j]);
        if (!(w >= 0 && w < acc_infinity())) {
            fault_set(fault, 1);
            w = 0;
        }
        above += w > 0;
        weight[j] = w;
    }
    return above;
}

/* Draws one category and removes it: its weight becomes 0. */
KFN i64 multinomial_take(i64 m, GLOBAL acc *weight, acc part)
{
    acc total = 0, s = 0, limit;
    i64 found = 0;

    for (i64 j = 0; j < m; j++) total += weight[j];
    limit = part * total;
    for (i64 j = 0; j < m; j++) {
        s += weight[j];
        if (weight[j] > 0) found = j;
        if (s > limit) break;
    }
    weight[found] = 0;
    return found;
}

/* Returns the first index whose running sum is above limit, or `last` if none is. */
KFN i64 multinomial_find(i64 m, GLOBAL const acc *sum, acc limit, i64 last)
{
    i64 low = 0, high = m;

    while (low < high) {
        i64 middle = low + (high - low) / 2;
        if (sum[middle] > limit) high = middle;
        else low = middle + 1;
    }
    return low < m ? low : last;
}

KFN void multinomial_row(const struct multinomial_args *a, struct random_source from, i64 row,
                         GLOBAL i64 *index, GLOBAL acc *weight, i64 above)
{
    i64 last = 0, first = row * a->n;

    if (a->again)
        for (i64 j = 0; j < a->m; j++) {
            if (weight[j] > 0) last = j;
            if (j) weight[j] += weight[j - 1];
        }
    for (i64 i = 0; i < a->n; i++) {
        acc part = random_unit(philox_word(from.seed, from.offset, first + i, 0));
        if (above < (a->again ? 1 : i + 1)) index[first + i] = 0;
        else if (!a->again) index[first + i] = multinomial_take(a->m, weight, part);
        else index[first + i] = multinomial_find(a->m, weight, part * weight[a->m - 1], last);
    }
}

KFN void multinomial_span(const struct multinomial_args *a, i64 begin, i64 n, GLOBAL i64 *index,
                          GLOBAL acc *weight, GLOBAL const elem *x, GLOBAL u32 *fault,
                          GLOBAL const u64 *rng)
{
    struct random_source from = random_from(a->from, rng);

    for (i64 row = begin; row < begin + n; row++) {
        GLOBAL acc *mine = weight + row * a->m;
        i64 above = multinomial_weights(a->m, mine, x + row * a->m, fault);
        if (above < (a->again ? a->n > 0 : a->n)) fault_set(fault, 1);
        multinomial_row(a, from, row, index, mine, above);
    }
}
ENTRY_SPANS_5(multinomial, i64, acc, const elem, u32, const u64)
#endif

#endif
