/* SPDX-License-Identifier: Apache-2.0 */
/* fused.h: declares the plan of `fused`: its instructions as calls of spans, and how each operand
 * is read or written in tiles. A tile is a run of elements in the order of the result's memory; all
 * registers of a tile stay in the L1 cache. */
#ifndef CPU_FUSED_H
#define CPU_FUSED_H

#include "cpu.h"
#include "walk.h"
#include <backplane/fused.h>
#include <stdbool.h>

/* How an operand lies in memory, in the order of the result's elements. */
enum fused_kind {
    FUSED_DIRECT, /* contiguous: spans read or write it in place */
    FUSED_SCALAR, /* one element, repeated */
    FUSED_REPEAT, /* equal in each tile */
    FUSED_MOVED   /* copied to or from a buffer for each tile */
};

struct fused_operand {
    enum fused_kind kind;
    struct walk walk; /* view 0: the number of the element; view 1: its offset in the operand */
    int64_t period;   /* its elements repeat after this number of elements; 0: they do not */
};

struct fused_call {
    cpu_span *span;
    int op;
    uint8_t to, from[BP_FUSED_FROM]; /* places of fused.h */
    double number[BP_FUSED_FROM];
};

struct fused_plan {
    int n_in, n_out, n_call;
    int64_t count, size, tile; /* elements; bytes of an element; elements of a tile */
    int slot[BP_FUSED_PLACES]; /* the buffer of each place, in units of a tile; -1: none yet */
    int n_slot;
    struct fused_operand in[BP_FUSED_IN], out[BP_FUSED_OUT];
    struct fused_call call[BP_FUSED_STEPS];
};

/* Buffers of a tile: together about this size, or FUSED_SLOTS times the smallest tile. */
enum {
    FUSED_L1 = 24576,
    FUSED_SMALLEST = 1024,
    FUSED_LARGEST = 4096,
    FUSED_SLOTS = BP_FUSED_PLACES,
    FUSED_ROOM = FUSED_SLOTS * FUSED_SMALLEST
};

#endif
