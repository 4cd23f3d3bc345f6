/* SPDX-License-Identifier: Apache-2.0 */
/* generator.h: declares the state of random numbers inside the core: a seed and an offset. */
#ifndef BP_GENERATOR_PRIVATE_H
#define BP_GENERATOR_PRIVATE_H

#include "base.h"

struct bp_generator {
    uint32_t magic;
    _Atomic uint32_t refs; /* references: the app's, and one for each stream that uses it */
    pthread_mutex_t lock;  /* guards the two below */
    uint64_t seed, offset;
};

static inline bool bp_generator_is(const struct bp_generator *g)
{
    return bp_magic_is(g ? g->magic : 0, BP_MAGIC_GENERATOR);
}
void bp_generator_release(struct bp_generator *generator);

/* Reserves the next blocks of random numbers, each of four words, and returns their seed and
 * offset. */
void bp_generator_reserve(struct bp_generator *generator, uint64_t blocks, uint64_t *out_seed,
                          uint64_t *out_offset);

#endif
