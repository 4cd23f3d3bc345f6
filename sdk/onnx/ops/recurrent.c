/* SPDX-License-Identifier: Apache-2.0 */
/* recurrent.c: runs RNN, GRU and LSTM, as one layer of Backplane for each direction. The weights of
 * a direction are sliced here, so that slices of constant weights are constants too. */
#include "body.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A kind of layer: the number of its gates and its default activations. */
struct kind {
    uint32_t gates, n_activation;
    const char *activation[3];
};

/* A node: its inputs, and the operands and results of the direction that is being run. */
struct layer {
    struct onnx_call *c;
    const struct kind *kind;
    struct onnx_list keep;
    int64_t directions, hidden;
    bool batch_first, backwards;
    struct bp_tensor *x, *lengths;
    struct bp_tensor *w, *r, *bias, *recurrent_bias, *h0, *c0, *peephole;
    int64_t activation;  /* of RNN: 0: tanh; 1: relu */
    struct onnx_list y[3]; /* of each direction: states, last states, last cell states */
};

typedef enum bp_status run_layer(struct layer *l, struct bp_tensor **made);

/* Compares activation number i, or the kind's default if the node names none. */
static bool is_activation(const struct layer *l, uint32_t i, const char *name)
{
    const Onnx__AttributeProto *a = onnx_attr(l->c->node, "activations");

    if (!a || i >= a->n_strings)
        return !strcmp(name, l->kind->activation[i % l->kind->n_activation]);
    return a->strings[i].len == strlen(name) &&
           !strncasecmp((const char *)a->strings[i].data, name, strlen(name));
}

static enum bp_status recurrent_begin(struct onnx_call *c, const struct kind *kind, struct layer *l)
{
    bool reverse = onnx_attr_is(c, "direction", "reverse", "forward");
    bool both = onnx_attr_is(c, "direction", "bidirectional", "forward");
    struct bp_tensor_info w, r;

    *l = (struct layer){.c = c, .kind = kind, .directions = both ? 2 : 1, .backwards = reverse,
                        .batch_first = onnx_attr_int(c, "layout", 0) != 0, .x = onnx_in(c, 0),
                        .lengths = onnx_in(c, 4)};
    if (!l->x || !onnx_in(c, 1) || !onnx_in(c, 2))
        return onnx_error(BP_ERR_INVALID, "x, w and r are expected");
    w = onnx_info(onnx_in(c, 1));
    r = onnx_info(onnx_in(c, 2));
    if (w.rank != 3 || r.rank != 3 || w.shape[0] != l->directions || r.shape[0] != w.shape[0])
        return onnx_error(BP_ERR_INVALID, "w and r have %u and %u axes, 3 are expected, the first "
                          "of extent %lld", w.rank, r.rank, (long long)l->directions);
    l->hidden = r.shape[2];
    if (w.shape[1] != kind->gates * l->hidden)
        return onnx_error(BP_ERR_INVALID, "w has %lld rows, expected %u times %lld",
                          (long long)w.shape[1], kind->gates, (long long)l->hidden);
    return BP_OK;
}

static void recurrent_finish(struct layer *l)
{
    onnx_list_finish(&l->keep);
    for (int i = 0; i < 3; i++) onnx_list_finish(&l->y[i]);
}

/* Slices the part of input i for one direction; NULL if the input is absent. */
static enum bp_status recurrent_take(struct layer *l, uint32_t i, int64_t axis, int64_t direction,
                                     struct onnx_value **out)
{
    struct onnx_value *v;

    *out = NULL;
    if (!onnx_in(l->c, i)) return BP_OK;
    TRY(onnx_expect(l->c, i, &v));
    if (onnx_info(v->tensor).rank <= axis || onnx_info(v->tensor).shape[axis] != l->directions)
        return onnx_error(BP_ERR_INVALID, "input %u has no axis %lld for %lld directions", i,
                          (long long)axis, (long long)l->directions);
    TRY(onnx_at(l->c, v, axis, direction, out));
    return onnx_list_add(&l->keep, *out);
}

static enum bp_status take_tensor(struct layer *l, uint32_t i, int64_t axis, int64_t direction,
                                  struct bp_tensor **out)
{
    struct onnx_value *v;

    TRY(recurrent_take(l, i, axis, direction, &v));
    *out = v ? v->tensor : NULL;
    return BP_OK;
}

/* Slices blocks begin to begin + n, of H elements each. */
static enum bp_status recurrent_blocks(struct layer *l, const struct onnx_value *v, int64_t begin,
                                       int64_t n, struct onnx_value **out)
{
    TRY(onnx_part(l->c, v, 0, begin * l->hidden, n * l->hidden, out));
    return onnx_list_add(&l->keep, *out);
}

static enum bp_status take_bias(struct layer *l, int64_t direction)
{
    int64_t gates = l->kind->gates;
    struct onnx_value *both, *part;

    l->bias = l->recurrent_bias = NULL;
    TRY(recurrent_take(l, 3, 0, direction, &both));
    if (!both) return BP_OK;
    if (onnx_info(both->tensor).count != 2 * gates * l->hidden)
        return onnx_error(BP_ERR_INVALID, "b has %lld elements, expected %lld",
                          (long long)onnx_info(both->tensor).count,
                          (long long)(2 * gates * l->hidden));
    TRY(recurrent_blocks(l, both, 0, gates, &part));
    l->bias = part->tensor;
    TRY(recurrent_blocks(l, both, gates, gates, &part));
    l->recurrent_bias = part->tensor;
    return BP_OK;
}

/* Reorders the gates: ONNX has i o f, lstm_layer has i f o. */
static enum bp_status take_peephole(struct layer *l, int64_t direction)
{
    struct onnx_value *all, *part[3], *transposed;

    l->peephole = NULL;
    TRY(recurrent_take(l, 7, 0, direction, &all));
    if (!all) return BP_OK;
    if (onnx_info(all->tensor).count != 3 * l->hidden)
        return onnx_error(BP_ERR_INVALID, "p has %lld elements, expected %lld",
                          (long long)onnx_info(all->tensor).count, (long long)(3 * l->hidden));
    TRY(recurrent_blocks(l, all, 0, 1, &part[0]));
    TRY(recurrent_blocks(l, all, 2, 1, &part[1]));
    TRY(recurrent_blocks(l, all, 1, 1, &part[2]));
    TRY(onnx_join(l->c, part, 3, 0, false, &transposed));
    TRY(onnx_list_add(&l->keep, transposed));
    l->peephole = transposed->tensor;
    return BP_OK;
}

static enum bp_status run_rnn(struct layer *l, struct bp_tensor **made)
{
    struct bp_rnn_layer_attrs attrs = bp_rnn_layer_defaults();

    attrs.reverse = l->backwards;
    attrs.batch_first = l->batch_first;
    attrs.activation = l->activation;
    return bp_op_rnn_layer(l->c->scope, l->x, l->w, l->r, l->bias, l->recurrent_bias, l->h0,
                           l->lengths, &attrs, &made[0], &made[1]);
}

static enum bp_status run_gru(struct layer *l, struct bp_tensor **made)
{
    struct bp_gru_layer_attrs attrs = bp_gru_layer_defaults();

    attrs.reverse = l->backwards;
    attrs.batch_first = l->batch_first;
    attrs.gates = 1; /* z r n */
    attrs.reset_after = onnx_attr_int(l->c, "linear_before_reset", 0) != 0;
    return bp_op_gru_layer(l->c->scope, l->x, l->w, l->r, l->bias, l->recurrent_bias, l->h0,
                           l->lengths, &attrs, &made[0], &made[1]);
}

static enum bp_status run_lstm(struct layer *l, struct bp_tensor **made)
{
    struct bp_lstm_layer_attrs attrs = bp_lstm_layer_defaults();

    attrs.reverse = l->backwards;
    attrs.batch_first = l->batch_first;
    attrs.gates = 1; /* i o f g */
    return bp_op_lstm_layer(l->c->scope, l->x, l->w, l->r, l->bias, l->recurrent_bias, l->h0,
                            l->c0, l->peephole, l->lengths, &attrs, &made[0], &made[1], &made[2]);
}

static enum bp_status one_direction(struct layer *l, run_layer *run, int64_t d)
{
    int64_t states = l->batch_first; /* axis of directions in initial states */
    struct bp_tensor *made[3] = {NULL};
    enum bp_status status = BP_OK;

    TRY(take_tensor(l, 1, 0, d, &l->w));
    TRY(take_tensor(l, 2, 0, d, &l->r));
    TRY(take_bias(l, d));
    TRY(take_tensor(l, 5, states, d, &l->h0));
    if (l->kind->gates == 4) {
        TRY(take_tensor(l, 6, states, d, &l->c0));
        TRY(take_peephole(l, d));
    }
    l->backwards |= d > 0;
    l->activation = l->kind->gates == 1 && is_activation(l, (uint32_t)d, "Relu");
    TRY(run(l, made));
    for (int i = 0; i < 3; i++) {
        struct onnx_value *v = NULL;
        enum bp_status kept;
        if (!made[i]) continue;
        kept = onnx_value_tensor(l->c->run, made[i], l->c->symbolic, &v);
        if (kept == BP_OK) kept = onnx_list_add(&l->y[i], v);
        if (status == BP_OK) status = kept;
    }
    return status;
}

/* The axis of directions in the states is behind the axis of steps, or of batches and steps. In the
 * last states it is the first axis, or behind the axis of batches. */
static enum bp_status give_layer(struct layer *l)
{
    const int64_t axis[3] = {1 + l->batch_first, l->batch_first, l->batch_first};

    for (uint32_t i = 0; i < 3; i++) {
        struct onnx_value *all;
        if (!onnx_wants(l->c, i)) continue;
        TRY(onnx_join(l->c, l->y[i].at, l->y[i].n, axis[i], true, &all));
        TRY(onnx_give_value(l->c, i, all));
    }
    return BP_OK;
}

static enum bp_status recurrent_emit(struct onnx_call *c, const struct kind *kind, run_layer *run)
{
    struct layer l;
    enum bp_status status = recurrent_begin(c, kind, &l);

    for (int64_t d = 0; d < l.directions && status == BP_OK; d++)
        status = one_direction(&l, run, d);
    if (status == BP_OK) status = give_layer(&l);
    recurrent_finish(&l);
    return status;
}

enum bp_status onnx_rnn(struct onnx_call *c)
{
    static const struct kind kind = {1, 1, {"Tanh"}};

    return recurrent_emit(c, &kind, run_rnn);
}

enum bp_status onnx_gru(struct onnx_call *c)
{
    static const struct kind kind = {3, 2, {"Sigmoid", "Tanh"}};

    return recurrent_emit(c, &kind, run_gru);
}

enum bp_status onnx_lstm(struct onnx_call *c)
{
    static const struct kind kind = {4, 3, {"Sigmoid", "Tanh", "Tanh"}};

    return recurrent_emit(c, &kind, run_lstm);
}
