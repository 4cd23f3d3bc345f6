/* SPDX-License-Identifier: Apache-2.0 */
/* cases_random.h: generates the numbers of cases; one seed and one id give equal numbers on every
 * machine. */
#ifndef BP_OPS_COMMON_CASES_RANDOM_H
#define BP_OPS_COMMON_CASES_RANDOM_H

#include <stdint.h>

struct random {
    uint64_t state;
};

/* Seeds the generator from the id of a case up to '@', so that all rows of an operator get equal
 * inputs. */
static inline struct random random_of(const char *id, uint64_t seed)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ seed * UINT64_C(0x9e3779b97f4a7c15);

    for (; *id && *id != '@'; id++) hash = (hash ^ (unsigned char)*id) * UINT64_C(0x100000001b3);
    return (struct random){hash};
}

/* Returns 64 random bits: a counter, mixed by two multiplications and three shifts. */
static inline uint64_t random_bits(struct random *r)
{
    uint64_t x = r->state += UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* Returns a number from 0 to n - 1. */
static inline uint64_t random_below(struct random *r, uint64_t n)
{
    return random_bits(r) % n;
}

/* Returns a number from 0 to below 1, of 53 binary digits. */
static inline double random_unit(struct random *r)
{
    return (double)(random_bits(r) >> 11) * 0x1p-53;
}

#endif
