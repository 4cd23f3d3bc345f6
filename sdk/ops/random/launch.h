/* SPDX-License-Identifier: Apache-2.0 */
/* launch.h: passes the key and the first block of random numbers to kernels, for launch code. */
#ifndef BP_OPS_RANDOM_LAUNCH_H
#define BP_OPS_RANDOM_LAUNCH_H

#include "../../dialect/portable.h"
#include "kernel_words.h"

static inline struct random_source random_source(const struct bp_launch *launch)
{
    return (struct random_source){launch->seed, launch->offset};
}

/* Adds the last operand: the address of key and block in device memory, or NULL. */
static inline void random_operand(struct portable *p, const struct bp_launch *launch)
{
    p->operand[p->n_operand++] = (struct portable_operand){(void *)(uintptr_t)launch->rng, NULL};
}

static inline int64_t random_blocks(const struct bp_view *y)
{
    return (y->count + 3) / 4;
}

#endif
