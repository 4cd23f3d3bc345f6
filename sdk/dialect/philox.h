/* SPDX-License-Identifier: Apache-2.0 */
/* philox.h: computes four random words from a counter of 128 bits and a key of 64, by Philox4x32-10
 * (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011). */
#ifndef BP_DIALECT_PHILOX_H
#define BP_DIALECT_PHILOX_H

#include "dialect.h"

/* Replaces the counter in word by the four random words of that counter. */
KFN void philox(u32 *word, u64 key)
{
    u32 key_low = (u32)key, key_high = (u32)(key >> 32);

    HOST_UNROLL
    for (int round = 0; round < 10; round++) {
        u64 a = (u64)0xd2511f53 * word[0], b = (u64)0xcd9e8d57 * word[2];
        u32 w1 = word[1], w3 = word[3];
        word[0] = (u32)(b >> 32) ^ w1 ^ key_low;
        word[1] = (u32)b;
        word[2] = (u32)(a >> 32) ^ w3 ^ key_high;
        word[3] = (u32)a;
        key_low += 0x9e3779b9;
        key_high += 0xbb67ae85;
    }
}

/* Compute the four words of a block. The block's number is the low half of the counter. The high
 * half is 0, or the number of further words of the block's elements. */
KFN void philox_further(u64 seed, u64 block, u64 number, u32 *word)
{
    word[0] = (u32)block;
    word[1] = (u32)(block >> 32);
    word[2] = (u32)number;
    word[3] = (u32)(number >> 32);
    philox(word, seed);
}
KFN void philox_block(u64 seed, u64 block, u32 *word)
{
    philox_further(seed, block, 0, word);
}

/* Returns word `number` of element i. */
KFN u32 philox_word(u64 seed, u64 offset, i64 i, u64 number)
{
    u32 word[4];

    philox_further(seed, offset + (u64)i / 4, number, word);
    return word[i & 3];
}

#endif
