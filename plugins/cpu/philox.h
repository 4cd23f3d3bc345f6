/* SPDX-License-Identifier: Apache-2.0 */
/* philox.h: Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1,
 * 2, 3", SC 2011): from a counter of 128 bits and a key of 64, four words. */
#ifndef CPU_PHILOX_H
#define CPU_PHILOX_H

#include <stdint.h>

/* Replaces the counter in word by its four random words. */
static inline void philox(uint32_t word[4], uint64_t key)
{
    uint32_t key_low = (uint32_t)key, key_high = (uint32_t)(key >> 32);

    for (int round = 0; round < 10; round++) {
        uint64_t a = UINT64_C(0xd2511f53) * word[0], b = UINT64_C(0xcd9e8d57) * word[2];
        uint32_t w1 = word[1], w3 = word[3];
        word[0] = (uint32_t)(b >> 32) ^ w1 ^ key_low;
        word[1] = (uint32_t)b;
        word[2] = (uint32_t)(a >> 32) ^ w3 ^ key_high;
        word[3] = (uint32_t)a;
        key_low += 0x9e3779b9;
        key_high += 0xbb67ae85;
    }
}

/* The four words of a block, by number: the low half of the counter; the high half is 0. */
static inline void philox_block(uint64_t seed, uint64_t block, uint32_t word[4])
{
    word[0] = (uint32_t)block;
    word[1] = (uint32_t)(block >> 32);
    word[2] = word[3] = 0;
    philox(word, seed);
}

#endif
