/* SPDX-License-Identifier: Apache-2.0 */
/* row.h: rows of elements that lie side by side, of which each lane of a team has packs: RUN
 * neighbours, which a GPU reads and writes by 16 bytes. A team goes through a row by chunks of
 * ROW_CHUNK elements, PACKS packs a lane: pack number k of a lane begins k PACK_STEP elements after
 * the lane's first, which lies LANE RUN elements after the first of the chunk.
 *
 * A lane has the same elements wherever the row lies, so that results have the same bits: of rows
 * that are not even (row_is_even) a lane reads the elements of a pack one by one. */
#ifndef BP_DIALECT_ROW_H
#define BP_DIALECT_ROW_H

#include "run.h"

#if defined(ON_HOST) || defined(ON_PROCESSOR)
enum { ROW_LANES = 1 };
#else
#define ROW_WORDS
enum { ROW_LANES = MAX_LANES };
#endif
enum { PACKS = 4, PACK_STEP = ROW_LANES * RUN, ROW_CHUNK = PACKS * PACK_STEP };

/* Before a loop over packs, which turn (packs_turn): the code of one is long, and there once. */
#ifdef ROW_WORDS
#define ROW_ROLLED _Pragma("unroll 1")
#else
#define ROW_ROLLED
#endif

typedef union {
    elem at[RUN];
    u32 word[(RUN * sizeof(elem) + 3) / 4];
} pack;

/* Whether a row lies at a multiple of 16 bytes. */
KFN int row_is_even(GLOBAL const void *row)
{
    return !((u64)(uintptr_t)row & 15);
}

/* How many elements a pack has, where so many are left. */
KFN int pack_size(i64 left)
{
    return left >= RUN ? RUN : left > 0 ? (int)left : 0;
}

/* The first n elements; those behind them are 0. */
KFN void pack_load(pack *p, GLOBAL const elem *x, int n, int even)
{
#ifdef ROW_WORDS
    if (even && n == RUN) {
        run_load(p->word, (int)sizeof p->at, x);
        return;
    }
#endif
    (void)even;
    UNROLL
    for (int i = 0; i < RUN; i++) {
        p->at[i] = elem_put(acc_zero());
        if (i < n) p->at[i] = x[i];
    }
}

KFN void pack_store(GLOBAL elem *y, const pack *p, int n, int even)
{
#ifdef ROW_WORDS
    if (even && n == RUN) {
        run_store(y, (int)sizeof p->at, p->word);
        return;
    }
#endif
    (void)even;
    UNROLL
    for (int i = 0; i < RUN; i++)
        if (i < n) y[i] = p->at[i];
}

/* The lane's packs of a chunk; x is the lane's first element, behind which the row has so many. */
KFN void packs_load(pack *v, GLOBAL const elem *x, i64 left, int even)
{
    UNROLL
    for (int k = 0; k < PACKS; k++)
        pack_load(&v[k], x + k * PACK_STEP, pack_size(left - k * PACK_STEP), even);
}

/* The first becomes the last: after PACKS turns all are where they were. */
KFN void packs_turn(pack *v)
{
    pack first = v[0];

    UNROLL
    for (int k = 0; k + 1 < PACKS; k++) v[k] = v[k + 1];
    v[PACKS - 1] = first;
}

#endif
