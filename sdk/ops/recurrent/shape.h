/* SPDX-License-Identifier: Apache-2.0 */
/* shape.h: describes calls of recurrent operators, for shape inference and decomposition. */
#ifndef BP_OPS_RECURRENT_SHAPE_H
#define BP_OPS_RECURRENT_SHAPE_H

#include <schema/op.h>

enum bp_recurrent_kind {
    BP_RECURRENT_RNN,
    BP_RECURRENT_GRU,
    BP_RECURRENT_LSTM
};

/* A call: input numbers by meaning (-1: absent) and attributes. */
struct bp_recurrent {
    enum bp_recurrent_kind kind;
    int h0, c0, w, r, bias, recurrent_bias, peephole, lengths;
    int64_t blocks; /* number of blocks of H rows in weights */
    int64_t gates, reset_after, activation, reverse, batch_first;
    int64_t layers, direction, biases; /* of a net */
};

/* Describes a call of a cell, layer or net, from its operator and attributes. */
struct bp_recurrent bp_recurrent_of(const struct bp_opdef *row, const void *attrs);

static inline uint32_t bp_recurrent_directions(const struct bp_recurrent *net)
{
    return net->direction == 2 ? 2 : 1;
}
static inline uint32_t bp_recurrent_weights(const struct bp_recurrent *net)
{
    return net->biases ? 4 : 2;
}

#endif
