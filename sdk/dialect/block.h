/* SPDX-License-Identifier: Apache-2.0 */
/* block.h: computes the block of a matrix product that a team owns, from panels of both sides with
 * BLOCK lines each, stored k after k, of type acc. If lanes share memory, they load BLOCK_STEP
 * terms of both sides into it together, each lane 16 bytes of a side (of f64 32), while they
 * compute with the previous terms; a lane has 64 results in registers, for which it reads 16
 * numbers per term. A team of a single lane computes the results of one lane after the other,
 * directly from the panels. */
#ifndef BP_DIALECT_BLOCK_H
#define BP_DIALECT_BLOCK_H

#include "block_size.h"
#include "entry.h"

enum {
    BLOCK_SIDE = BLOCK * BLOCK_STEP, /* numbers of one side in one step */
    BLOCK_SCRATCH = 4 * BLOCK_SIDE,  /* two steps of both sides: for TEAM_SCRATCH */
};

/* First row and first column of the results of a lane. The results are four squares of 4 x 4, BLOCK
 * / 2 apart, so that the lanes that read at the same time (32 of them, or 64) read the numbers of a
 * side from few, adjacent addresses. */
KFN int block_row(int lane)
{
    return (lane / 64 * 4 + lane / 8 % 4) * 4;
}
KFN int block_column(int lane)
{
    return (lane / 32 % 2 * 8 + lane % 8) * 4;
}
/* Returns the row or column with this number among the eight of a lane. */
KFN int block_at(int first, int number)
{
    return first + number % 4 + number / 4 * (BLOCK / 2);
}

#if defined(ON_HOST) || defined(ON_PROCESSOR)

#define EACH_BLOCK_LANE(lane) for (int lane = 0; lane < BLOCK_LANES; lane++)

KFN void block_make(acc *s, int lane, i64 k, GLOBAL const acc *a, GLOBAL const acc *b,
                    LOCAL acc *scratch)
{
    (void)scratch;
    for (int i = 0; i < BLOCK_EDGE * BLOCK_EDGE; i++) s[i] = acc_zero();
    for (; k > 0; k--, a += BLOCK, b += BLOCK)
        for (int r = 0; r < BLOCK_EDGE; r++)
            for (int q = 0; q < BLOCK_EDGE; q++)
                s[r * BLOCK_EDGE + q] =
                    acc_mul_add(s[r * BLOCK_EDGE + q], a[block_at(block_row(lane), r)],
                                b[block_at(block_column(lane), q)]);
}

#else

#ifdef FEW_LANES
/* This team has fewer lanes than a block needs: each lane does the work of several, one after the
 * other; all lanes make equally many rounds. */
#define EACH_BLOCK_LANE(lane) for (int lane = (int)LANE; lane < BLOCK_LANES; lane += MAX_LANES)
#else
/* The loop over lanes is this lane alone: all lanes of a team together execute the code that
 * follows. */
#define EACH_BLOCK_LANE(lane) int lane = (int)LANE;
#endif

typedef struct __attribute__((aligned(16))) {
    acc at[4];
} quad;

/* Adds one term: loads the quads of both sides, and adds their products. */
KFN void block_add(acc *s, LOCAL const acc *a, LOCAL const acc *b)
{
    quad row[2], column[2];

    UNROLL
    for (int i = 0; i < 2; i++) {
        row[i] = ((LOCAL const quad *)a)[i * (BLOCK / 8)];
        column[i] = ((LOCAL const quad *)b)[i * (BLOCK / 8)];
    }
    UNROLL
    for (int r = 0; r < BLOCK_EDGE; r++) {
        UNROLL
        for (int q = 0; q < BLOCK_EDGE; q++)
            s[r * BLOCK_EDGE + q] = acc_mul_add(s[r * BLOCK_EDGE + q], row[r / 4].at[r % 4],
                                                column[q / 4].at[q % 4]);
    }
}

#ifdef FEW_LANES
KFN void block_bring(LOCAL acc *side, GLOBAL const acc *from)
{
    for (int i = (int)LANE; i < BLOCK_LANES; i += MAX_LANES)
        ((LOCAL quad *)side)[i] = ((GLOBAL const quad *)from)[i];
}

/* Like block_make below, but a lane loads several quads of a step, and does not load the next step
 * in advance. */
KFN void block_make(acc *s, int lane, i64 k, GLOBAL const acc *a, GLOBAL const acc *b,
                    LOCAL acc *scratch)
{
    UNROLL
    for (int i = 0; i < BLOCK_EDGE * BLOCK_EDGE; i++) s[i] = acc_zero();
    for (i64 at = 0; at < k; at += BLOCK_STEP) {
        LOCAL acc *side = scratch + (at / BLOCK_STEP & 1) * 2 * BLOCK_SIDE;
        LOCAL const acc *at_a = side + block_row(lane);
        LOCAL const acc *at_b = side + BLOCK_SIDE + block_column(lane);
        block_bring(side, a + at * BLOCK);
        block_bring(side + BLOCK_SIDE, b + at * BLOCK);
        BARRIER(); /* no lane reads the other buffer once all lanes have reached the next step */
        UNROLL
        for (int i = 0; i < BLOCK_STEP; i++) block_add(s, at_a + i * BLOCK, at_b + i * BLOCK);
    }
    BARRIER();
}
#else
/* The result in s is complete when all lanes have finished; scratch may be reused immediately. k is
 * a multiple of BLOCK_STEP. */
KFN void block_make(acc *s, int lane, i64 k, GLOBAL const acc *a, GLOBAL const acc *b,
                    LOCAL acc *scratch)
{
    GLOBAL const quad *from_a = (GLOBAL const quad *)a + lane;
    GLOBAL const quad *from_b = (GLOBAL const quad *)b + lane;
    LOCAL quad *to = (LOCAL quad *)scratch + lane;
    i64 steps = k / BLOCK_STEP;
    quad next_a = *from_a, next_b = *from_b;

    UNROLL
    for (int i = 0; i < BLOCK_EDGE * BLOCK_EDGE; i++) s[i] = acc_zero();
    for (i64 step = 0; step < steps; step++) {
        int buffer = (int)(step & 1) * 2 * BLOCK_SIDE;
        LOCAL const acc *at_a = scratch + buffer + block_row(lane);
        LOCAL const acc *at_b = scratch + buffer + BLOCK_SIDE + block_column(lane);
        to[buffer / 4] = next_a;
        to[(buffer + BLOCK_SIDE) / 4] = next_b;
        BARRIER(); /* no lane reads the other buffer once all lanes have reached the next step */
        if (step + 1 < steps) {
            next_a = from_a[(step + 1) * BLOCK_LANES];
            next_b = from_b[(step + 1) * BLOCK_LANES];
        }
        UNROLL
        for (int i = 0; i < BLOCK_STEP; i++) block_add(s, at_a + i * BLOCK, at_b + i * BLOCK);
    }
    BARRIER();
}
#endif

#endif

#endif
