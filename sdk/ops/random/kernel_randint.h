/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_randint.h: draws random integers of a range. Spans count blocks of four elements. */
#ifndef BP_OPS_RANDOM_KERNEL_RANDINT_H
#define BP_OPS_RANDOM_KERNEL_RANDINT_H

#include "kernel_words.h"

/* range: number of values; 0 means 2^64. */
struct randint_args {
    struct random_source from;
    i64 n;
    u64 low, range;
};

#ifdef ELEM
#include "../../dialect/entry.h"

/* The upper half of a product of two numbers of 64 bits, by products of 32 bits. */
KFN u64 randint_high(u64 a, u64 b)
{
    u64 a0 = (u32)a, a1 = a >> 32, b0 = (u32)b, b1 = b >> 32;
    u64 middle = a1 * b0 + (a0 * b0 >> 32), other = a0 * b1 + (u32)middle;

    return a1 * b1 + (middle >> 32) + (other >> 32);
}

KFN void randint_span(const struct randint_args *a, i64 begin, i64 n, GLOBAL elem *y,
                      GLOBAL const u64 *rng)
{
    struct random_source from = random_from(a->from, rng);
    u64 low = a->low, range = a->range;
    u32 word[4 * RANDOM_BLOCKS];

    for (i64 b = begin; b < begin + n; b += RANDOM_BLOCKS) {
        i64 blocks = begin + n - b < RANDOM_BLOCKS ? begin + n - b : RANDOM_BLOCKS;
        i64 count = random_elements(a->n, b, blocks);
        random_words(from, b, blocks, word);
        if (range <= (u64)1 << 32) {
            SIMD for (i64 i = 0; i < count; i++)
                y[4 * b + i] = (elem)(low + ((u64)word[i] * range >> 32));
            continue;
        }
        for (i64 i = 0; i < count; i++) {
            u32 lower = philox_word(from.seed, from.offset, 4 * b + i, 1);
            y[4 * b + i] = (elem)(low + randint_high((u64)word[i] << 32 | lower, range));
        }
    }
}
ENTRY_SPANS_2(randint, elem, const u64)
#endif

#endif
