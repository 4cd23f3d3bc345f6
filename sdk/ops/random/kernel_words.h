/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_words.h: computes words of the random generator for runs of blocks. A host computes many
 * blocks at a time; a lane of a GPU computes one block, which is four elements. */
#ifndef BP_OPS_RANDOM_KERNEL_WORDS_H
#define BP_OPS_RANDOM_KERNEL_WORDS_H

#include "../../dialect/philox.h"

/* The key and the first block. If the last operand of a kernel is present, it holds two numbers:
 * the key, and an addend for the block. */
struct random_source {
    u64 seed, offset;
};

#ifdef ELEM
#ifdef ON_HOST
enum {
    RANDOM_BLOCKS = 64
};
#else
enum {
    RANDOM_BLOCKS = 1
};
#endif

KFN struct random_source random_from(struct random_source from, GLOBAL const u64 *rng)
{
    if (rng) {
        from.seed = rng[0];
        from.offset += rng[1];
    }
    return from;
}

/* Writes the words of n blocks, at most RANDOM_BLOCKS, from block number `block` on, in the order
 * of the elements. */
KFN void random_words(struct random_source from, i64 block, i64 n, u32 *word)
{
    SIMD for (i64 b = 0; b < n; b++)
    {
        u32 one[4];
        philox_block(from.seed, from.offset + (u64)(block + b), one);
        for (int k = 0; k < 4; k++) word[4 * b + k] = one[k];
    }
}

/* The number of the n elements that are in `count` blocks from block number `block` on. */
KFN i64 random_elements(i64 n, i64 block, i64 count)
{
    return n - 4 * block < 4 * count ? n - 4 * block : 4 * count;
}
#endif

#endif
