/* SPDX-License-Identifier: Apache-2.0 */
/* row.h: processes rows of adjacent elements, of which each lane of a team holds packs: a pack is
 * RUN adjacent elements, which a GPU reads and writes 16 bytes at a time. A team processes a row in
 * chunks of ROW_CHUNK elements, PACKS packs per lane: pack number k of a lane begins k PACK_STEP
 * elements after the lane's first element, which lies LANE RUN elements after the first of the
 * chunk.
 *
 * A lane has the same elements whatever the address of the row, so that results have the same bits:
 * in rows that are not aligned (row_is_even) a lane reads the elements of a pack one by one. */
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

/* Stands before a loop over packs that rotates them (packs_transpose): the code for one pack is
 * long, and is compiled once. */
#ifdef ROW_WORDS
#define ROW_ROLLED _Pragma("unroll 1")
#else
#define ROW_ROLLED
#endif

typedef union {
    elem at[RUN];
    u32 word[(RUN * sizeof(elem) + 3) / 4];
} pack;

/* Returns whether the address of a row is a multiple of 16 bytes. */
KFN int row_is_even(GLOBAL const void *row)
{
    return !((u64)(uintptr_t)row & 15);
}

/* Returns how many elements a pack has, if so many are left in the row. */
KFN int pack_size(i64 left)
{
    return left >= RUN ? RUN : left > 0 ? (int)left : 0;
}

/* Loads the first n elements of a pack; the elements behind them are 0. */
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

/* Loads the lane's packs of a chunk; x is the lane's first element, and the row has `left` elements
 * from x on. */
KFN void packs_load(pack *v, GLOBAL const elem *x, i64 left, int even)
{
    UNROLL
    for (int k = 0; k < PACKS; k++)
        pack_load(&v[k], x + k * PACK_STEP, pack_size(left - k * PACK_STEP), even);
}

/* Rotates the packs: the first becomes the last. After PACKS rotations all are at their former
 * places. */
KFN void packs_transpose(pack *v)
{
    pack first = v[0];

    UNROLL
    for (int k = 0; k + 1 < PACKS; k++) v[k] = v[k + 1];
    v[PACKS - 1] = first;
}

#endif
