/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: infers shapes of recurrent operators; decompose.c has the decompositions. */
#include "shape.h"
#include <call/shape.h>

#include <backplane/attrs.h>
#include <inttypes.h>

/* Describes a call of a cell, layer or net of each kind. Ports that a kind lacks are -1. */
struct bp_recurrent bp_recurrent_of(const struct bp_opdef *row, const void *attrs)
{
    enum bp_row_number number = (enum bp_row_number)(row - bp_opdef);

#define CELL(kind_, blocks_, w_) \
    { \
        .kind = BP_RECURRENT_##kind_, .blocks = (blocks_), .h0 = 1, .c0 = -1, .w = (w_), \
        .r = (w_) + 1, .bias = (w_) + 2, .recurrent_bias = (w_) + 3, .peephole = -1, .lengths = -1 \
    }
#define LAYER(kind_, blocks_) \
    { \
        .kind = BP_RECURRENT_##kind_, .blocks = (blocks_), .w = 1, .r = 2, .bias = 3, \
        .recurrent_bias = 4, .h0 = 5, .c0 = -1, .peephole = -1, .lengths = 6, \
        .reverse = a->reverse, .batch_first = a->batch_first \
    }
#define NET(kind_, blocks_) \
    { \
        .kind = BP_RECURRENT_##kind_, .blocks = (blocks_), .h0 = 1, .c0 = -1, .lengths = 2, \
        .w = 3, .r = -1, .bias = -1, .recurrent_bias = -1, .peephole = -1, .layers = a->layers, \
        .direction = a->direction, .biases = a->biases, .batch_first = a->batch_first \
    }
    switch (number) {
    case BP_ROW_lstm_cell: {
        struct bp_recurrent k = CELL(LSTM, 4, 3);
        k.c0 = 2;
        k.peephole = 7;
        k.gates = ((const struct bp_lstm_cell_attrs *)attrs)->gates;
        return k;
    }
    case BP_ROW_gru_cell: {
        const struct bp_gru_cell_attrs *a = attrs;
        struct bp_recurrent k = CELL(GRU, 3, 2);
        k.gates = a->gates;
        k.reset_after = a->reset_after;
        return k;
    }
    case BP_ROW_rnn_cell: {
        struct bp_recurrent k = CELL(RNN, 1, 2);
        k.activation = ((const struct bp_rnn_cell_attrs *)attrs)->activation;
        return k;
    }
    case BP_ROW_lstm_layer: {
        const struct bp_lstm_layer_attrs *a = attrs;
        struct bp_recurrent k = LAYER(LSTM, 4);
        k.c0 = 6;
        k.peephole = 7;
        k.lengths = 8;
        k.gates = a->gates;
        return k;
    }
    case BP_ROW_gru_layer: {
        const struct bp_gru_layer_attrs *a = attrs;
        struct bp_recurrent k = LAYER(GRU, 3);
        k.gates = a->gates;
        k.reset_after = a->reset_after;
        return k;
    }
    case BP_ROW_rnn_layer: {
        const struct bp_rnn_layer_attrs *a = attrs;
        struct bp_recurrent k = LAYER(RNN, 1);
        k.activation = a->activation;
        return k;
    }
    case BP_ROW_lstm: {
        const struct bp_lstm_attrs *a = attrs;
        struct bp_recurrent k = NET(LSTM, 4);
        k.c0 = 2;
        k.lengths = 3;
        k.w = 4;
        k.gates = a->gates;
        return k;
    }
    case BP_ROW_gru: {
        const struct bp_gru_attrs *a = attrs;
        struct bp_recurrent k = NET(GRU, 3);
        k.gates = a->gates;
        k.reset_after = a->reset_after;
        return k;
    }
    default: {
        const struct bp_rnn_attrs *a = attrs;
        struct bp_recurrent k = NET(RNN, 1);
        k.activation = a->activation;
        return k;
    }
    }
#undef CELL
#undef LAYER
#undef NET
}

static enum bp_status check_choice(const struct bp_invocation *inv, const char *attr, int64_t value,
                                   int64_t most)
{
    if (value >= 0 && value <= most) return BP_OK;
    return bp_error(BP_ERR_INVALID, "%s: attribute %s is %" PRId64 ", expected 0 to %" PRId64,
                    inv->row->info.name, attr, value, most);
}

static enum bp_status check_attrs(const struct bp_invocation *inv, const struct bp_recurrent *k)
{
    TRY(check_choice(inv, "gates", k->gates, 1));
    TRY(check_choice(inv, "activation", k->activation, 1));
    return check_choice(inv, "direction", k->direction, 2);
}

static enum bp_status check_rank(const struct bp_invocation *inv, uint32_t port, uint32_t rank)
{
    const struct bp_view *v = bp_invocation_in(inv, port);
    char text[BP_TYPE_TEXT];

    if (v->rank == rank) return BP_OK;
    return bp_error(BP_ERR_INVALID, "%s: input %s is %s, expected %u axes", inv->row->info.name,
                    inv->row->info.in[port].name,
                    bp_type_text(v->dtype, v->rank, v->shape, text, sizeof text), rank);
}

/* Checks that an input has these extents, if it is present. */
static enum bp_status recurrent_check(const struct bp_invocation *inv, int port, uint32_t rank,
                                      int64_t a, int64_t b, int64_t c)
{
    struct bp_type type = {.rank = rank, .shape = {a, b, c}};

    if (port < 0 || !bp_invocation_in(inv, (uint32_t)port)) return BP_OK;
    return bp_shape_expect(inv, (uint32_t)port, &type);
}

static void recurrent_give(struct bp_type *out, uint32_t rank, int64_t a, int64_t b, int64_t c)
{
    *out = (struct bp_type){.dtype = out->dtype, .rank = rank, .shape = {a, b, c}};
}

/* Checks the weights of a cell or layer with this number of inputs; sets H. */
static enum bp_status check_weights(const struct bp_invocation *inv, const struct bp_recurrent *k,
                                    int64_t inputs, int64_t *out_units)
{
    int64_t units, rows;

    TRY(check_rank(inv, (uint32_t)k->r, 2));
    units = bp_invocation_in(inv, (uint32_t)k->r)->shape[1];
    rows = k->blocks * units;
    TRY(recurrent_check(inv, k->w, 2, rows, inputs, 0));
    TRY(recurrent_check(inv, k->r, 2, rows, units, 0));
    TRY(recurrent_check(inv, k->bias, 1, rows, 0, 0));
    TRY(recurrent_check(inv, k->recurrent_bias, 1, rows, 0, 0));
    *out_units = units;
    return recurrent_check(inv, k->peephole, 1, 3 * units, 0, 0);
}

enum bp_status bp_infer_recurrent_cell(struct bp_invocation *inv)
{
    struct bp_recurrent k = bp_recurrent_of(inv->row, inv->attrs);
    const struct bp_view *x = bp_invocation_in(inv, 0);
    int64_t units;

    TRY(check_attrs(inv, &k));
    TRY(check_rank(inv, 0, 2));
    TRY(check_weights(inv, &k, x->shape[1], &units));
    TRY(recurrent_check(inv, k.h0, 2, x->shape[0], units, 0));
    TRY(recurrent_check(inv, k.c0, 2, x->shape[0], units, 0));
    for (uint32_t i = 0; i < inv->row->info.n_out; i++)
        recurrent_give(&inv->out[i], 2, x->shape[0], units, 0);
    return BP_OK;
}

/* Sets the number of steps and of sequences of x. */
static enum bp_status check_sequences(const struct bp_invocation *inv, const struct bp_recurrent *k,
                                      int64_t *out_steps, int64_t *out_batch)
{
    const struct bp_view *x = bp_invocation_in(inv, 0);

    TRY(check_attrs(inv, k));
    TRY(check_rank(inv, 0, 3));
    *out_steps = x->shape[k->batch_first ? 1 : 0];
    *out_batch = x->shape[k->batch_first ? 0 : 1];
    if (*out_steps < 1 || *out_steps > 65536)
        return bp_error(BP_ERR_INVALID, "%s: x has %" PRId64 " steps, expected 1 to 65536",
                        inv->row->info.name, *out_steps);
    return recurrent_check(inv, k->lengths, 1, *out_batch, 0, 0);
}

static void give_states(struct bp_type *out, const struct bp_recurrent *k, int64_t steps,
                        int64_t batch, int64_t width)
{
    if (k->batch_first) recurrent_give(out, 3, batch, steps, width);
    else recurrent_give(out, 3, steps, batch, width);
}

enum bp_status bp_infer_recurrent_layer(struct bp_invocation *inv)
{
    struct bp_recurrent k = bp_recurrent_of(inv->row, inv->attrs);
    int64_t steps, batch, units;

    TRY(check_sequences(inv, &k, &steps, &batch));
    TRY(check_weights(inv, &k, bp_invocation_in(inv, 0)->shape[2], &units));
    TRY(recurrent_check(inv, k.h0, 2, batch, units, 0));
    TRY(recurrent_check(inv, k.c0, 2, batch, units, 0));
    give_states(&inv->out[0], &k, steps, batch, units);
    for (uint32_t i = 1; i < inv->row->info.n_out; i++)
        recurrent_give(&inv->out[i], 2, batch, units, 0);
    return BP_OK;
}

static enum bp_status recurrent_check_tensor(const struct bp_invocation *inv, uint32_t i,
                                             uint32_t rank, int64_t a, int64_t b)
{
    const struct bp_view *v = inv->in[i];
    char got[BP_TYPE_TEXT], expected[BP_TYPE_TEXT];
    int64_t shape[2] = {a, b};

    if (v->rank == rank && v->shape[0] == a && (rank < 2 || v->shape[1] == b)) return BP_OK;
    return bp_error(BP_ERR_INVALID, "%s: weights[%u] is %s, expected %s", inv->row->info.name,
                    i - inv->in_at[inv->row->info.n_in - 1],
                    bp_type_text(v->dtype, v->rank, v->shape, got, sizeof got),
                    bp_type_text(v->dtype, rank, shape, expected, sizeof expected));
}

/* Checks all weights of a net; sets H, from the second weight. */
static enum bp_status check_net(const struct bp_invocation *inv, const struct bp_recurrent *k,
                                int64_t *out_units)
{
    uint32_t port = inv->row->info.n_in - 1u, first = inv->in_at[port];
    uint32_t n = inv->in_at[port + 1] - first, each = bp_recurrent_weights(k);
    uint32_t directions = bp_recurrent_directions(k);
    int64_t units, inputs = bp_invocation_in(inv, 0)->shape[2];

    if (k->layers < 1 || k->layers > 64 || n != (uint32_t)k->layers * directions * each)
        return bp_error(BP_ERR_INVALID,
                        "%s: weights has %u tensors and layers is %" PRId64
                        ": expected %u for each layer, of which there are 1 to 64",
                        inv->row->info.name, n, k->layers, directions * each);
    if (inv->in[first + 1]->rank != 2)
        return bp_error(BP_ERR_INVALID, "%s: weights[1] has %u axes, expected 2",
                        inv->row->info.name, inv->in[first + 1]->rank);
    *out_units = units = inv->in[first + 1]->shape[1];
    for (uint32_t i = first; i < first + n; i += each) {
        if (i >= first + directions * each) inputs = units * directions;
        TRY(recurrent_check_tensor(inv, i, 2, k->blocks * units, inputs));
        TRY(recurrent_check_tensor(inv, i + 1, 2, k->blocks * units, units));
        for (uint32_t b = 2; b < each; b++)
            TRY(recurrent_check_tensor(inv, i + b, 1, k->blocks * units, 0));
    }
    return BP_OK;
}

enum bp_status bp_infer_recurrent_net(struct bp_invocation *inv)
{
    struct bp_recurrent k = bp_recurrent_of(inv->row, inv->attrs);
    uint32_t directions = bp_recurrent_directions(&k);
    int64_t steps, batch, units, all = k.layers * directions;

    TRY(check_sequences(inv, &k, &steps, &batch));
    TRY(check_net(inv, &k, &units));
    TRY(recurrent_check(inv, k.h0, 3, all, batch, units));
    TRY(recurrent_check(inv, k.c0, 3, all, batch, units));
    give_states(&inv->out[0], &k, steps, batch, units * directions);
    for (uint32_t i = 1; i < inv->row->info.n_out; i++)
        recurrent_give(&inv->out[i], 3, all, batch, units);
    return BP_OK;
}
