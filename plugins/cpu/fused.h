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

/* The cheap operators of chains, of the value v in a register and an operand w; a and b are
 * numbers. */
enum fused_link_op {
    FUSED_ADD, FUSED_SUB, FUSED_SUB_FROM /* w - v */, FUSED_MUL, FUSED_MAX, FUSED_MAX_OF /* w, v */,
    FUSED_MIN, FUSED_MIN_OF, FUSED_ABS, FUSED_NEG, FUSED_SQUARE, FUSED_RELU, FUSED_CLIP,
    FUSED_SCALE,
    /* With a number in place of w. The number of the last two is neither 0 nor NaN, so that its
     * place does not matter. */
    FUSED_ADD_NUMBER, FUSED_SUB_NUMBER, FUSED_SUB_FROM_NUMBER, FUSED_MUL_NUMBER,
    FUSED_MAX_NUMBER, FUSED_MAX_OF_NUMBER, FUSED_MIN_NUMBER, FUSED_MIN_OF_NUMBER, FUSED_AT_LEAST,
    FUSED_AT_MOST
};

/* One operator of a chain. w: the elements of the other operand, or NULL. */
struct fused_link {
    int op;
    const void *w;
    double a, b;
};

/* Computes n elements of y from x by all links of a chain. y may be an operand. streams: y begins a
 * cache line, is no operand, and is written with streaming stores. */
typedef void cpu_chain(const struct fused_link *link, int n_link, int64_t n, void *y, const void *x,
                       bool streams);

/* The logic of truth values, which cpu_fused_truth (a cpu_span) computes. */
enum fused_truth_op { FUSED_AND, FUSED_OR, FUSED_XOR, FUSED_NOT };
cpu_span cpu_fused_truth;

/* Several instructions as a chain, or one as a span. */
struct fused_call {
    cpu_span *span;
    int op;
    uint8_t to, from[BP_FUSED_FROM]; /* places of fused.h; of a chain, from[0] is x */
    double number[BP_FUSED_FROM];
    int link, n_link; /* of a chain: its links in the plan; n_link 0: a span */
    bool streams;     /* a chain whose result is an output that no later call reads */
};

struct fused_plan {
    int n_in, n_out, n_call;
    int64_t count, size, tile; /* elements; bytes of an element; elements of a tile */
    int slot[BP_FUSED_PLACES]; /* the buffer of each place, in units of a tile; -1: none yet. Truth
                                  values, of a byte each, take the first part of a buffer */
    int n_slot;
    struct fused_operand in[BP_FUSED_IN], out[BP_FUSED_OUT];
    struct fused_call call[BP_FUSED_STEPS];
    cpu_chain *chain;
    struct fused_link link[BP_FUSED_STEPS]; /* without addresses */
    uint8_t other[BP_FUSED_STEPS];          /* the place of each link's w, or BP_FUSED_NONE */
    int n_link;
    uint32_t streamed; /* a bit for each output that a chain may write with streaming stores */
};

/* fused_link.c: adds a chain that begins with instruction i of n to the plan. Returns the number of
 * its instructions; 0: there is no chain. */
int cpu_fused_add_chain(struct fused_plan *p, const struct bp_fused_step *step, int n, int i,
                        int level, uint32_t dtype);

/* Replaces the operand w of a link by a number, which all its elements are. */
void cpu_fused_number_link(struct fused_link *link, double number);

/* Buffers of a tile: together about this size, or FUSED_SLOTS times the smallest tile. */
enum {
    FUSED_L1 = 24576,
    FUSED_SMALLEST = 1024,
    FUSED_LARGEST = 4096,
    FUSED_SLOTS = BP_FUSED_PLACES,
    FUSED_ROOM = FUSED_SLOTS * FUSED_SMALLEST
};

#endif
