/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_uniform.h: draws random numbers of a range, in floating-point types. Spans count blocks of
 * four elements. Every device returns the same bits: products and sums must be rounded one by one,
 * whether or not a compiler fuses them. Therefore the last factor of the product that is added is a
 * power of two. (In a range shorter than 2^-102 this product may be subnormal, and then it is
 * rounded, too.) */
#ifndef BP_OPS_RANDOM_KERNEL_UNIFORM_H
#define BP_OPS_RANDOM_KERNEL_UNIFORM_H

#include "kernel_words.h"

struct uniform_args {
    struct random_source from;
    i64 n;
    host_real low, high;
};

#ifdef ELEM
#include "../../dialect/entry.h"

/* The largest number below x, where x is not the smallest number. */
KFN acc uniform_below(acc x)
{
#ifdef ELEM_f64
    u64 bits = f64_bits(x), sign = (u64)1 << 63;

    return f64_from_bits(x == 0 ? sign | 1 : bits & sign ? bits + 1 : bits - 1);
#else
    u32 bits = f32_bits(x), sign = (u32)1 << 31;

    return f32_from_bits(x == 0 ? sign | 1 : bits & sign ? bits + 1 : bits - 1);
#endif
}

/* The number that belongs to a word: low + (high - low) times the word's upper 24 bits as a
 * fraction. */
KFN elem uniform_of(acc low, acc high, u32 word)
{
    acc width = high - low, part = (acc)(i32)(word >> 8);
    int wide = width > 1; /* scaled, so that products neither overflow nor become too small */
    acc product = (wide ? width * (acc)0x1p-25 : width) * part;
    acc y = low + product * (wide ? (acc)2 : (acc)0x1p-24);
    elem e;

    if (y >= high && high > low) y = uniform_below(high);
    e = elem_put(y);
#ifdef ELEM_HALF
    while (high > low && elem_get(e) >= high) /* the next number below, in 16 bits */
        e = (elem)(!(e & 0x7fff) ? 0x8001 : e & 0x8000 ? e + 1 : e - 1);
#endif
    return e;
}

KFN void uniform_span(const struct uniform_args *a, i64 begin, i64 n, GLOBAL elem *y,
                      GLOBAL const u64 *rng)
{
    struct random_source from = random_from(a->from, rng);
    acc low = number(a->low), high = number(a->high);
    u32 word[4 * RANDOM_BLOCKS];

    for (i64 b = begin; b < begin + n; b += RANDOM_BLOCKS) {
        i64 blocks = begin + n - b < RANDOM_BLOCKS ? begin + n - b : RANDOM_BLOCKS;
        i64 count = random_elements(a->n, b, blocks);
        random_words(from, b, blocks, word);
        for (i64 i = 0; i < count; i++) y[4 * b + i] = uniform_of(low, high, word[i]);
    }
}
ENTRY_SPANS_2(uniform, elem, const u64)
#endif

#endif
