/* SPDX-License-Identifier: Apache-2.0 */
/* decompose.c: decomposes recurrent operators into other operators: one product with x for all
 * steps, then a product and the gates for each step. */
#include <call/compose.h>
#include <call/shape.h>
#include "shape.h"

#include <backplane/ops.h>
#include <stdlib.h>

enum {
    PARTS_MAX = 256 /* most outputs of a split, and inputs of a concat */
};

struct state {
    struct bp_tensor *h, *c; /* c is NULL for a kind without memory */
};

/* The weights of a layer, with half types converted to f32; absent weights are NULL. */
struct cell {
    struct bp_compose *c;
    const struct bp_recurrent *k;
    struct bp_tensor *w, *r, *bias, *recurrent_bias, *peephole;
    struct bp_tensor *part[8]; /* GRU: blocks of r, then of recurrent_bias; else: of the peephole */
    int64_t batch, units;
};

static void recurrent_cut(struct bp_compose *c, struct bp_tensor *x, int64_t axis, int64_t n,
                          struct bp_tensor **out)
{
    struct bp_split_attrs a = {.size = sizeof a, .axis = axis, .sections = n};

    for (int64_t i = 0; i < n; i++) out[i] = NULL;
    if (c->status == BP_OK) c->status = bp_op_split(c->scope, x, NULL, &a, out, (size_t)n);
    for (int64_t i = 0; i < n; i++) out[i] = c->status ? NULL : bp_compose_take(c, out[i]);
}

/* Splits x into its n slices along the first axis. */
static void recurrent_slices(struct bp_compose *c, struct bp_tensor *x, int64_t n,
                             struct bp_tensor **out)
{
    int64_t size[PARTS_MAX], parts = (n + PARTS_MAX - 1) / PARTS_MAX;
    struct bp_split_attrs a = {.size = sizeof a, .sizes = {size, parts}};
    struct bp_tensor *part[PARTS_MAX] = {NULL};

    if (parts == 1) {
        recurrent_cut(c, x, 0, n, out);
        return;
    }
    for (int64_t i = 0; i < parts; i++) size[i] = i + 1 < parts ? PARTS_MAX : n - i * PARTS_MAX;
    if (c->status == BP_OK) c->status = bp_op_split(c->scope, x, NULL, &a, part, (size_t)parts);
    for (int64_t i = 0; i < parts; i++) {
        struct bp_tensor *of = c->status ? NULL : bp_compose_take(c, part[i]);
        recurrent_cut(c, of, 0, size[i], out + i * PARTS_MAX);
    }
}

static struct bp_tensor *recurrent_joined(struct bp_compose *c, struct bp_tensor *const *x,
                                          int64_t n, int64_t axis)
{
    struct bp_concat_attrs a = {.size = sizeof a, .axis = axis};
    struct bp_tensor *part[PARTS_MAX] = {NULL};
    int64_t parts = (n + PARTS_MAX - 1) / PARTS_MAX;

    for (int64_t i = 0; i < parts; i++) {
        int64_t size = i + 1 < parts ? PARTS_MAX : n - i * PARTS_MAX;
        part[i] = size == 1 ? x[i * PARTS_MAX]
                            : bp_compose_all(c, BP_ROW_concat, &a, x + i * PARTS_MAX, (size_t)size);
    }
    return parts == 1 ? part[0] : bp_compose_all(c, BP_ROW_concat, &a, part, (size_t)parts);
}

static struct bp_tensor *recurrent_add(struct bp_compose *c, struct bp_tensor *a,
                                       struct bp_tensor *b)
{
    return b ? MAKE(c, add, NULL, a, b) : a;
}

static struct bp_tensor *recurrent_mul(struct bp_compose *c, struct bp_tensor *a,
                                       struct bp_tensor *b)
{
    return MAKE(c, mul, NULL, a, b);
}

/* x w^T, for matrices. */
static struct bp_tensor *recurrent_times(struct bp_compose *c, struct bp_tensor *x,
                                         struct bp_tensor *w)
{
    struct bp_matmul_attrs a = {.size = sizeof a, .transpose_b = 1};

    return MAKE(c, matmul, &a, x, w);
}

static struct bp_tensor *recurrent_sigmoid(struct bp_compose *c, struct bp_tensor *x)
{
    return MAKE(c, sigmoid, NULL, x);
}

static struct bp_tensor *recurrent_widened(struct bp_compose *c, struct bp_tensor *x)
{
    return x ? bp_compose_widen(c, x) : NULL;
}

/* Begins a cell whose weights are the inputs of a call that `k` names. */
static void begin_cell(struct cell *l, struct bp_compose *c, const struct bp_recurrent *k,
                       struct bp_tensor *const *in, int64_t batch)
{
    *l = (struct cell){.c = c, .k = k, .batch = batch, .units = in[k->r]->shape[1]};
    l->w = recurrent_widened(c, in[k->w]);
    l->r = recurrent_widened(c, in[k->r]);
    l->bias = recurrent_widened(c, in[k->bias]);
    l->recurrent_bias = recurrent_widened(c, in[k->recurrent_bias]);
    if (k->peephole >= 0) l->peephole = recurrent_widened(c, in[k->peephole]);
    if (l->peephole) recurrent_cut(c, l->peephole, 0, 3, l->part);
    if (k->kind != BP_RECURRENT_GRU || k->reset_after) return;
    recurrent_cut(c, l->r, 0, 3, l->part);
    if (l->recurrent_bias) recurrent_cut(c, l->recurrent_bias, 0, 3, l->part + 3);
}

/* The contribution of rows of x to all blocks. */
static struct bp_tensor *of_inputs(const struct cell *l, struct bp_tensor *x)
{
    struct bp_tensor *a = recurrent_add(l->c, recurrent_times(l->c, x, l->w), l->bias);

    return l->k->kind == BP_RECURRENT_GRU ? a : recurrent_add(l->c, a, l->recurrent_bias);
}

static struct bp_tensor *of_state(const struct cell *l, struct bp_tensor *h)
{
    return recurrent_times(l->c, h, l->r);
}

static struct state lstm_step(const struct cell *l, struct bp_tensor *a, struct state s)
{
    static const int order[2][4] = {{0, 1, 2, 3}, {0, 2, 3, 1}}; /* index of i f g o */
    struct bp_compose *c = l->c;
    const int *at = order[l->k->gates];
    struct bp_tensor *block[4], *i, *f, *g, *o;

    recurrent_cut(c, recurrent_add(c, a, of_state(l, s.h)), 1, 4, block);
    i = block[at[0]];
    f = block[at[1]];
    g = block[at[2]];
    o = block[at[3]];
    if (l->peephole) {
        i = recurrent_add(c, i, recurrent_mul(c, s.c, l->part[0]));
        f = recurrent_add(c, f, recurrent_mul(c, s.c, l->part[1]));
    }
    s.c = recurrent_add(c, recurrent_mul(c, recurrent_sigmoid(c, f), s.c),
                        recurrent_mul(c, recurrent_sigmoid(c, i), MAKE(c, tanh, NULL, g)));
    if (l->peephole) o = recurrent_add(c, o, recurrent_mul(c, s.c, l->part[2]));
    s.h = recurrent_mul(c, recurrent_sigmoid(c, o), MAKE(c, tanh, NULL, s.c));
    return s;
}

/* The contribution of the state to block number i, for a GRU whose reset is applied before the
 * product. */
static struct bp_tensor *state_block(const struct cell *l, struct bp_tensor *h, int i)
{
    return recurrent_add(l->c, recurrent_times(l->c, h, l->part[i]), l->part[3 + i]);
}

static struct state gru_step(const struct cell *l, struct bp_tensor *a, struct state s)
{
    struct bp_compose *c = l->c;
    int at_r = l->k->gates ? 1 : 0, at_z = 1 - at_r;
    struct bp_tensor *x[3], *b[3], *r, *z, *n;

    recurrent_cut(c, a, 1, 3, x);
    if (l->k->reset_after) {
        recurrent_cut(c, recurrent_add(c, of_state(l, s.h), l->recurrent_bias), 1, 3, b);
    } else {
        b[0] = state_block(l, s.h, 0);
        b[1] = state_block(l, s.h, 1);
    }
    r = recurrent_sigmoid(c, recurrent_add(c, x[at_r], b[at_r]));
    z = recurrent_sigmoid(c, recurrent_add(c, x[at_z], b[at_z]));
    n = l->k->reset_after ? recurrent_mul(c, r, b[2]) : state_block(l, recurrent_mul(c, r, s.h), 2);
    n = MAKE(c, tanh, NULL, recurrent_add(c, x[2], n));
    s.h = recurrent_add(c, recurrent_mul(c, bp_compose_scale(c, z, -1, 1), n),
                        recurrent_mul(c, z, s.h));
    return s;
}

static struct state recurrent_step(const struct cell *l, struct bp_tensor *a, struct state s)
{
    if (l->k->kind == BP_RECURRENT_LSTM) return lstm_step(l, a, s);
    if (l->k->kind == BP_RECURRENT_GRU) return gru_step(l, a, s);
    a = recurrent_add(l->c, a, of_state(l, s.h));
    s.h = l->k->activation ? MAKE(l->c, relu, NULL, a) : MAKE(l->c, tanh, NULL, a);
    return s;
}

static void recurrent_keep(struct bp_decomposition *e, struct bp_compose *c, uint32_t i,
                           struct bp_tensor *t)
{
    if (e->want >> i & 1)
        bp_compose_keep(c, bp_compose_cast(c, t, e->in[0]->view.dtype), &e->out[i]);
}

enum bp_status bp_decompose_recurrent_cell(struct bp_decomposition *e)
{
    struct bp_recurrent k = bp_recurrent_of(e->row, e->attrs);
    struct bp_compose c = bp_compose_begin(e->scope);
    struct state s = {recurrent_widened(&c, e->in[k.h0]), NULL};
    struct cell l;

    if (k.c0 >= 0) s.c = recurrent_widened(&c, e->in[k.c0]);
    begin_cell(&l, &c, &k, e->in, e->in[0]->shape[0]);
    s = recurrent_step(&l, of_inputs(&l, recurrent_widened(&c, e->in[0])), s);
    recurrent_keep(e, &c, 0, s.h);
    if (k.c0 >= 0) recurrent_keep(e, &c, 1, s.c);
    return bp_compose_end(&c);
}

/* Returns zeros in the shape of a state. They are made from a, whose values may be anything, NaN
 * too. */
static struct bp_tensor *no_state(const struct cell *l, struct bp_tensor *a)
{
    struct bp_mask_attrs none = {.size = sizeof none};
    struct bp_tensor *block[4];

    recurrent_cut(l->c, a, 1, l->k->blocks, block);
    return MAKE(l->c, mask, &none, block[0], MAKE(l->c, less_than, NULL, block[0], block[0]));
}

/* Returns which sequences have step number t, with shape B 1. */
static struct bp_tensor *recurrent_having(struct bp_compose *c, struct bp_tensor *lengths,
                                          int64_t t)
{
    struct bp_clip_attrs all = {.size = sizeof all, .min = (double)t, .max = (double)t};
    struct bp_tensor *has = MAKE(c, greater_than, NULL, lengths, MAKE(c, clip, &all, lengths));

    return c->status ? NULL : bp_compose_reshape(c, has, 2, (int64_t[]){lengths->shape[0], 1});
}

/* Runs one step of a layer. Returns the step's slice of y. */
static struct bp_tensor *layer_step(const struct cell *l, struct bp_tensor *a, struct state *s,
                                    struct bp_tensor *lengths, int64_t t)
{
    struct state next = recurrent_step(l, a, *s);
    struct bp_mask_attrs masked = {.size = sizeof masked};
    struct bp_tensor *has, *y = next.h;

    if (lengths) {
        has = recurrent_having(l->c, lengths, t);
        y = MAKE(l->c, mask, &masked, next.h, has);
        next.h = MAKE(l->c, where, NULL, has, next.h, s->h);
        if (next.c) next.c = MAKE(l->c, where, NULL, has, next.c, s->c);
    }
    *s = next;
    return y;
}

/* Runs all steps. at: one tensor for each step; on entry the contribution of x, afterwards the
 * slice of y. */
static void recurrent_run_steps(struct bp_decomposition *e, const struct cell *l,
                                struct bp_tensor **at, int64_t steps)
{
    const struct bp_recurrent *k = l->k;
    struct bp_compose *c = l->c;
    int64_t width = k->blocks * l->units, flat[2] = {l->batch, width};
    int64_t one[3] = {k->batch_first ? l->batch : 1, k->batch_first ? 1 : l->batch, l->units};
    struct state s = {NULL, NULL};

    for (int64_t i = 0; i < steps; i++) at[i] = bp_compose_reshape(c, at[i], 2, flat);
    s.h = e->in[k->h0] ? recurrent_widened(c, e->in[k->h0]) : no_state(l, at[0]);
    if (k->c0 >= 0) s.c = e->in[k->c0] ? recurrent_widened(c, e->in[k->c0]) : no_state(l, at[0]);
    for (int64_t i = 0; i < steps; i++) {
        int64_t t = k->reverse ? steps - 1 - i : i;
        at[t] = bp_compose_reshape(c, layer_step(l, at[t], &s, e->in[k->lengths], t), 3, one);
    }
    recurrent_keep(e, c, 0, recurrent_joined(c, at, steps, k->batch_first ? 1 : 0));
    recurrent_keep(e, c, 1, s.h);
    if (s.c) recurrent_keep(e, c, 2, s.c);
}

enum bp_status bp_decompose_recurrent_layer(struct bp_decomposition *e)
{
    static const int64_t exchange[] = {1, 0, 2};
    struct bp_recurrent k = bp_recurrent_of(e->row, e->attrs);
    struct bp_transpose_attrs transposed = {.size = sizeof transposed, .perm = {exchange, 3}};
    struct bp_compose c = bp_compose_begin(e->scope);
    const int64_t *shape = e->in[0]->shape;
    int64_t steps = shape[k.batch_first ? 1 : 0], batch = shape[k.batch_first ? 0 : 1];
    struct bp_tensor *x = recurrent_widened(&c, e->in[0]), **at = calloc((size_t)steps, sizeof *at);
    struct cell l;

    if (!at && c.status == BP_OK)
        c.status = bp_error(BP_ERR_MEMORY, "no memory for %lld steps", (long long)steps);
    begin_cell(&l, &c, &k, e->in, batch);
    if (k.batch_first) x = MAKE(&c, transpose, &transposed, x);
    x = of_inputs(&l, bp_compose_reshape(&c, x, 2, (int64_t[]){steps * batch, shape[2]}));
    x = bp_compose_reshape(&c, x, 3, (int64_t[]){steps, batch, k.blocks * l.units});
    if (at) {
        recurrent_slices(&c, x, steps, at);
        recurrent_run_steps(e, &l, at, steps);
    }
    free(at);
    return bp_compose_end(&c);
}

/* The attributes of a layer operator. layer_of sets them and returns the operator's number. */
union layer_attrs {
    struct bp_lstm_layer_attrs lstm;
    struct bp_gru_layer_attrs gru;
    struct bp_rnn_layer_attrs rnn;
};
static enum bp_row_number layer_of(const struct bp_recurrent *k, bool reverse,
                                   union layer_attrs *out)
{
    switch (k->kind) {
    case BP_RECURRENT_LSTM:
        out->lstm = (struct bp_lstm_layer_attrs){.size = sizeof out->lstm,
                                                 .reverse = reverse,
                                                 .batch_first = k->batch_first,
                                                 .gates = k->gates};
        return BP_ROW_lstm_layer;
    case BP_RECURRENT_GRU:
        out->gru = (struct bp_gru_layer_attrs){.size = sizeof out->gru,
                                               .reverse = reverse,
                                               .batch_first = k->batch_first,
                                               .gates = k->gates,
                                               .reset_after = k->reset_after};
        return BP_ROW_gru_layer;
    default:
        out->rnn = (struct bp_rnn_layer_attrs){.size = sizeof out->rnn,
                                               .reverse = reverse,
                                               .batch_first = k->batch_first,
                                               .activation = k->activation};
        return BP_ROW_rnn_layer;
    }
}

/* The states of all layers: first states on entry, last states after a layer has run. */
struct net {
    struct bp_decomposition *e;
    struct bp_compose c;
    struct bp_recurrent k;
    struct bp_tensor *h[128], *memory[128];
};

static struct bp_tensor *one_state(struct net *n, struct bp_tensor *first)
{
    if (!first || n->c.status) return NULL;
    return bp_compose_reshape(&n->c, first, 2, (int64_t[]){first->shape[1], first->shape[2]});
}

/* Adds layer number i, counted over layers and directions, with input x. */
static struct bp_tensor *net_layer(struct net *n, struct bp_tensor *x, uint32_t i)
{
    uint32_t directions = bp_recurrent_directions(&n->k), each = bp_recurrent_weights(&n->k);
    bool lstm = n->k.kind == BP_RECURRENT_LSTM, both = directions == 2;
    struct bp_tensor *in[9] = {x}, *out[3] = {NULL};
    struct bp_tensor *const *weights = n->e->in + n->k.w + i * each;
    union layer_attrs attrs;
    enum bp_row_number row = layer_of(&n->k, both ? i % 2 : n->k.direction == 1, &attrs);

    for (uint32_t w = 0; w < each; w++) in[1 + w] = weights[w];
    in[5] = one_state(n, n->h[i]);
    if (lstm) in[6] = one_state(n, n->memory[i]);
    in[lstm ? 8 : 6] = n->e->in[n->k.lengths];
    bp_compose_outputs(&n->c, row, &attrs, in, lstm ? 9 : 7, lstm ? 7 : 3, out);
    for (uint32_t o = 1; o < (lstm ? 3u : 2u) && !n->c.status; o++) {
        int64_t shape[3] = {1, out[o]->shape[0], out[o]->shape[1]};
        struct bp_tensor *last = bp_compose_reshape(&n->c, out[o], 3, shape);
        if (o == 1) n->h[i] = last;
        else n->memory[i] = last;
    }
    return out[0];
}

enum bp_status bp_decompose_recurrent_net(struct bp_decomposition *e)
{
    struct net n = {
        .e = e, .c = bp_compose_begin(e->scope), .k = bp_recurrent_of(e->row, e->attrs)};
    uint32_t directions = bp_recurrent_directions(&n.k);
    int64_t all = n.k.layers * directions;
    struct bp_tensor *x = e->in[0], *side[2];

    if (e->in[n.k.h0]) recurrent_cut(&n.c, e->in[n.k.h0], 0, all, n.h);
    if (n.k.c0 >= 0 && e->in[n.k.c0]) recurrent_cut(&n.c, e->in[n.k.c0], 0, all, n.memory);
    for (uint32_t i = 0; i < all; i += directions) {
        for (uint32_t d = 0; d < directions; d++) side[d] = net_layer(&n, x, i + d);
        x = recurrent_joined(&n.c, side, directions, 2);
    }
    recurrent_keep(e, &n.c, 0, x);
    recurrent_keep(e, &n.c, 1, recurrent_joined(&n.c, n.h, all, 0));
    if (n.k.c0 >= 0) recurrent_keep(e, &n.c, 2, recurrent_joined(&n.c, n.memory, all, 0));
    return bp_compose_end(&n.c);
}
