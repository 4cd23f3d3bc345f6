/* SPDX-License-Identifier: Apache-2.0 */
/* recurrent.h: defines calls, packed weights and plans of recurrent layers, which recurrent_plan.c
 * describes and shares, and recurrent.c packs and runs.
 *
 * A panel is a group of neighbouring units, as many as a vector register has elements. Weights are
 * packed by panels: for each panel and each input, one vector for each gate. One pass over a panel
 * thereby computes all gates of its units. Units behind the last have weights 0. */
#ifndef CPU_RECURRENT_H
#define CPU_RECURRENT_H

#include "cpu.h"
#include <stdbool.h>

enum recurrent_kind {
    RECURRENT_RNN,
    RECURRENT_GRU,
    RECURRENT_LSTM
};

enum {
    RECURRENT_GATES = 4,
    RECURRENT_WEIGHTS = 5
};

/* A call of a layer or a cell; a cell is a layer of one step without y. Ports that the operator
 * lacks are -1. gate: the block of weights of each gate, in the order i f g o or r z n. */
struct recurrent_call {
    enum recurrent_kind kind;
    bool cell, reverse, batch_first, reset_after, relu;
    int w, r, bias, recurrent_bias, peephole, h0, c0, lengths;
    int gates, gate[RECURRENT_GATES];
    int64_t steps, batch, inputs, units;
};

/* Where the parts of packed weights begin, in elements of the type for arithmetic. w: of x; r: of
 * h; last: of the reset state, for the gate n of a GRU without reset_after; bias: the sum of the
 * biases that a gate adds to its product with x; apart: of a GRU with reset_after the recurrent
 * bias of the gate n, of an LSTM the peephole. */
struct recurrent_parts {
    int64_t w, r, last, bias, apart, all;
};

/* Packed weights that several plans share. The key: the numbers, addresses and strides of the
 * constants, and what determines the form. */
struct recurrent_key {
    uint64_t constant[RECURRENT_WEIGHTS];
    const void *from[RECURRENT_WEIGHTS];
    int64_t stride[RECURRENT_WEIGHTS][2], inputs, units;
    int32_t kind, first_gate, reset_after, dtype, lanes;
};

struct recurrent_pack {
    struct recurrent_pack *next;
    struct recurrent_key key;
    int64_t plans; /* that use the pack */
    void *data;
    uint64_t bytes;
};

/* steps: of which the products with x are computed at a time. The other members say where the parts
 * of the workspace begin, in elements. */
struct recurrent_plan {
    struct recurrent_call call;
    struct recurrent_parts parts;
    struct recurrent_pack *pack; /* NULL: weights are not constant; each launch packs them */
    uint64_t packed; /* bytes of the pack, if the plan has made it */
    bool plain;                  /* weights are not packed at all: they are used for few rows */
    int64_t panels, steps;
    int64_t weights, x, gates, h, c, reset;
};

/* Describes the call of a configuration. */
struct recurrent_call recurrent_describe(const struct bp_prep *prep);

/* Whether all weights of the call are constant. Sets the key, but for `lanes`. */
bool recurrent_is_constant(const struct recurrent_call *call, const struct bp_prep *prep,
                           struct recurrent_key *out_key);

/* The inputs that packs copy, as a bit mask. */
uint64_t recurrent_weights(const struct recurrent_call *call);

/* Finds the pack with this key, or makes one with memory that the caller fills; both while the
 * caller holds packs_lock. NULL: there is none, or no memory. */
struct recurrent_pack *recurrent_pack_find(struct cpu *self, const struct recurrent_key *key);
struct recurrent_pack *recurrent_pack_make(struct cpu *self, const struct recurrent_key *key,
                                           uint64_t bytes);
/* Makes sure of the contents of all weights, before they are packed. */
enum bp_status recurrent_constants_read(const struct cpu *self, const struct recurrent_call *call,
                                        const struct bp_prep *prep);

#endif
