/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c: computes reference results of recurrent operators, one sequence and one step after
 * the other. */
#include "../common/reference_running.h"
#include <stdlib.h>
#include <string.h>

enum kind {
    RNN,
    GRU,
    LSTM
};

/* One layer in one direction. Index of x and states: step, sequence, unit. An absent array has type
 * NULL. */
struct layer {
    enum kind kind;
    int64_t steps, batch, inputs, units;
    const struct ref_array *w, *r, *bias, *recurrent_bias, *peephole, *lengths;
    bool other_gates, reset_after, relu, reverse;
    const struct running *x;
    struct running *y, *h, *c; /* h, c: first states on entry, last states afterwards */
};

static const struct ref_array absent;

static struct running *ref_recurrent_numbers(int64_t n)
{
    struct running *at = calloc((size_t)n + 1, sizeof *at);

    if (!at) abort();
    return at;
}

/* Row i of a matrix with n columns, times vector a: a sum of n products. */
static struct running ref_recurrent_dot(const struct ref_array *m, int64_t i,
                                        const struct running *a, int64_t n)
{
    long double v = 0, e = 0, size = 0;
    int64_t terms = 0;

    for (int64_t j = 0; j < n; j++) {
        long double w = m->v[i * n + j];
        terms += w != 0 && !run_is_zero(a[j]);
        v += w * a[j].v;
        e += run_part(a[j].e, w);
        size += fabsl(w * a[j].v);
    }
    return run_total(v, size, e, terms, terms > 0);
}

static struct running bias_of(const struct ref_array *bias, int64_t i)
{
    return run_of(bias->type ? bias->v[i] : 0);
}

/* of_x: w x + bias; of_h: r h + recurrent_bias; for unit i of a block. */
static struct running of_x(const struct layer *l, int64_t block, int64_t i, const struct running *x)
{
    int64_t row = block * l->units + i;

    return run_add(ref_recurrent_dot(l->w, row, x, l->inputs), bias_of(l->bias, row));
}
static struct running of_h(const struct layer *l, int64_t block, int64_t i, const struct running *h)
{
    int64_t row = block * l->units + i;

    return run_add(ref_recurrent_dot(l->r, row, h, l->units), bias_of(l->recurrent_bias, row));
}

/* The input of a gate: all of these terms and the peephole's term `seen`, added up in any order. */
static struct running ref_recurrent_gate(const struct layer *l, int64_t block, int64_t i,
                                         const struct running *x, const struct running *h,
                                         struct running seen)
{
    int64_t row = block * l->units + i;
    struct running part[] = {ref_recurrent_dot(l->w, row, x, l->inputs),
                             ref_recurrent_dot(l->r, row, h, l->units), bias_of(l->bias, row),
                             bias_of(l->recurrent_bias, row), seen};

    return run_sum(part, sizeof part / sizeof *part);
}

/* The term of peephole number `which` for c; 0 if there is no peephole. */
static struct running ref_recurrent_peep(const struct layer *l, int64_t which, int64_t i,
                                         struct running c)
{
    if (!l->peephole->type) return run_of(0);
    return run_mul(run_of(l->peephole->v[which * l->units + i]), c);
}

static void lstm_unit(const struct layer *l, int64_t i, const struct running *x,
                      const struct running *h, struct running *c, struct running *next)
{
    int64_t f = l->other_gates ? 2 : 1, g = l->other_gates ? 3 : 2, o = l->other_gates ? 1 : 3;
    struct running in = run_sigmoid(
        ref_recurrent_gate(l, 0, i, x, h, ref_recurrent_peep(l, 0, i, c[i])));
    struct running forget = run_sigmoid(
        ref_recurrent_gate(l, f, i, x, h, ref_recurrent_peep(l, 1, i, c[i])));
    struct running cell = run_tanh(ref_recurrent_gate(l, g, i, x, h, run_of(0))), out;

    c[i] = run_add(run_mul(forget, c[i]), run_mul(in, cell));
    out = run_sigmoid(ref_recurrent_gate(l, o, i, x, h, ref_recurrent_peep(l, 2, i, c[i])));
    next[i] = run_mul(out, run_tanh(c[i]));
}

static void gru_units(const struct layer *l, const struct running *x, const struct running *h,
                      struct running *next)
{
    int64_t at_r = l->other_gates ? 1 : 0, n = l->units;
    struct running *reset = ref_recurrent_numbers(n);

    for (int64_t i = 0; i < n; i++) {
        reset[i] = run_sigmoid(ref_recurrent_gate(l, at_r, i, x, h, run_of(0)));
        if (!l->reset_after) reset[i] = run_mul(reset[i], h[i]);
    }
    for (int64_t i = 0; i < n; i++) {
        struct running z = run_sigmoid(ref_recurrent_gate(l, 1 - at_r, i, x, h, run_of(0))), a;
        a = l->reset_after ? run_mul(reset[i], of_h(l, 2, i, h)) : of_h(l, 2, i, reset);
        a = run_tanh(run_add(of_x(l, 2, i, x), a));
        next[i] = run_add(run_mul(run_sub(run_of(1), z), a), run_mul(z, h[i]));
    }
    free(reset);
}

/* Runs one step of one sequence. */
static void ref_recurrent_step(const struct layer *l, const struct running *x, struct running *h,
                               struct running *c)
{
    struct running *next = ref_recurrent_numbers(l->units);

    if (l->kind == GRU) gru_units(l, x, h, next);
    for (int64_t i = 0; i < l->units; i++) {
        struct running a;
        if (l->kind == LSTM) lstm_unit(l, i, x, h, c, next);
        if (l->kind != RNN) continue;
        a = ref_recurrent_gate(l, 0, i, x, h, run_of(0));
        next[i] = l->relu ? run_relu(a) : run_tanh(a);
    }
    memcpy(h, next, (size_t)l->units * sizeof *h);
    free(next);
}

static void run_layer(struct layer *l)
{
    int64_t n = l->units;

    for (int64_t b = 0; b < l->batch; b++)
        for (int64_t i = 0; i < l->steps; i++) {
            int64_t t = l->reverse ? l->steps - 1 - i : i;
            int64_t length = l->lengths->type ? (int64_t)l->lengths->u[b] : l->steps;
            if (t >= length) continue; /* y stays 0 */
            ref_recurrent_step(l, l->x + (t * l->batch + b) * l->inputs, l->h + b * n,
                               l->c + b * n);
            memcpy(l->y + (t * l->batch + b) * n, l->h + b * n, (size_t)n * sizeof *l->h);
        }
}

/* Sets a state to the values of an input, or to zeros if the input is absent. */
static void ref_recurrent_start(struct running *state, const struct ref_array *given, int64_t from,
                                int64_t n)
{
    for (int64_t i = 0; i < n; i++) state[i] = run_of(given->type ? given->v[from + i] : 0);
}

/* Converts x to an array that is ordered by step. */
static struct running *steps_of(const struct ref_array *x, bool batch_first, int64_t steps,
                                int64_t batch, int64_t width)
{
    struct running *at = ref_recurrent_numbers(x->count);

    for (int64_t t = 0; t < steps; t++)
        for (int64_t b = 0; b < batch; b++)
            for (int64_t i = 0; i < width; i++)
                at[(t * batch + b) * width + i] = run_of(
                    x->v[(batch_first ? b * steps + t : t * batch + b) * width + i]);
    return at;
}

/* Writes the states to part number `side`, of `sides`, of the last axis of y. */
static void put_states(const struct layer *l, bool batch_first, int64_t side, int64_t sides,
                       struct ref_array *y)
{
    for (int64_t t = 0; t < l->steps; t++)
        for (int64_t b = 0; b < l->batch; b++)
            for (int64_t i = 0; i < l->units; i++) {
                int64_t row = batch_first ? b * l->steps + t : t * l->batch + b;
                run_put(y, (row * sides + side) * l->units + i,
                        l->y[(t * l->batch + b) * l->units + i]);
            }
}

static void ref_recurrent_finish(struct layer *l)
{
    free(l->y);
    free(l->h);
    free(l->c);
}

static void ref_recurrent_make_room(struct layer *l)
{
    l->y = ref_recurrent_numbers(l->steps * l->batch * l->units);
    l->h = ref_recurrent_numbers(l->batch * l->units);
    l->c = ref_recurrent_numbers(l->batch * l->units);
}

static enum kind kind_of(const char *op)
{
    return !strncmp(op, "lstm", 4) ? LSTM : !strncmp(op, "gru", 3) ? GRU : RNN;
}

/* Sets the attributes that come last: gates and reset_after, or activation. */
static void set_gates(struct layer *l, int64_t first, const int64_t *second)
{
    if (l->kind == RNN) l->relu = first != 0;
    else l->other_gates = first != 0;
    if (l->kind == GRU) l->reset_after = *second != 0;
}

static void ref_recurrent_cell(enum kind kind, const struct ref_array *in, const int64_t *attr,
                               struct ref_array *out)
{
    int w = kind == LSTM ? 3 : 2;
    struct layer l = {.kind = kind,
                      .steps = 1,
                      .batch = in->shape[0],
                      .inputs = in->shape[1],
                      .units = in[1].shape[1],
                      .w = &in[w],
                      .r = &in[w + 1],
                      .bias = &in[w + 2],
                      .recurrent_bias = &in[w + 3],
                      .lengths = &absent,
                      .peephole = kind == LSTM ? &in[7] : &absent};
    int64_t shape[2] = {l.batch, l.units}, n = l.batch * l.units;
    struct running *x = steps_of(in, false, 1, l.batch, l.inputs);

    set_gates(&l, attr[0], &attr[1]);
    ref_recurrent_make_room(&l);
    ref_recurrent_start(l.h, &in[1], 0, n);
    ref_recurrent_start(l.c, kind == LSTM ? &in[2] : &absent, 0, n);
    l.x = x;
    run_layer(&l);
    for (int o = 0; o < (kind == LSTM ? 2 : 1); o++) {
        ref_array_init(&out[o], in->type->dtype, 2, shape);
        for (int64_t i = 0; i < n; i++) run_put(&out[o], i, o ? l.c[i] : l.h[i]);
    }
    free(x);
    ref_recurrent_finish(&l);
}

static void one_layer(enum kind kind, const struct ref_array *in, const int64_t *attr,
                      struct ref_array *out)
{
    bool batch_first = attr[1] != 0;
    struct layer l = {.kind = kind,
                      .steps = in->shape[batch_first],
                      .w = &in[1],
                      .r = &in[2],
                      .batch = in->shape[!batch_first],
                      .inputs = in->shape[2],
                      .bias = &in[3],
                      .recurrent_bias = &in[4],
                      .units = in[2].shape[1],
                      .reverse = attr[0] != 0,
                      .peephole = kind == LSTM ? &in[7] : &absent,
                      .lengths = &in[kind == LSTM ? 8 : 6]};
    int64_t n = l.batch * l.units, last[2] = {l.batch, l.units};
    int64_t all[3] = {in->shape[0], in->shape[1], l.units};
    struct running *x = steps_of(in, batch_first, l.steps, l.batch, l.inputs);

    set_gates(&l, attr[2], &attr[3]);
    ref_recurrent_make_room(&l);
    ref_recurrent_start(l.h, &in[5], 0, n);
    ref_recurrent_start(l.c, kind == LSTM ? &in[6] : &absent, 0, n);
    l.x = x;
    run_layer(&l);
    ref_array_init(&out[0], in->type->dtype, 3, all);
    put_states(&l, batch_first, 0, 1, &out[0]);
    for (int o = 1; o < (kind == LSTM ? 3 : 2); o++) {
        ref_array_init(&out[o], in->type->dtype, 2, last);
        for (int64_t i = 0; i < n; i++) run_put(&out[o], i, o == 1 ? l.h[i] : l.c[i]);
    }
    free(x);
    ref_recurrent_finish(&l);
}

/* Joins the states of a layer's directions along the last axis, rounded to the type of x. */
static struct running *ref_recurrent_beside(const struct layer *side, int sides,
                                            const struct num_type *type)
{
    int64_t rows = side->steps * side->batch, n = side->units;
    long double unit = num_unit(num_accumulate(type));
    struct running *at = ref_recurrent_numbers(rows * n * sides);

    for (int64_t row = 0; row < rows; row++)
        for (int s = 0; s < sides; s++)
            for (int64_t i = 0; i < n; i++) {
                struct running *to = &at[(row * sides + s) * n + i];
                *to = side[s].y[row * n + i];
                if (num_is_half(type))
                    to->e += fmaxl(num_unit(type) * fabsl(to->v), num_ulp(type, to->v) / 2) / unit;
            }
    return at;
}

static void ref_recurrent_net(enum kind kind, const struct ref_array *in, const int64_t *attr,
                              struct ref_array *out)
{
    int sides = attr[1] == 2 ? 2 : 1, each = attr[2] ? 4 : 2, lengths = kind == LSTM ? 3 : 2;
    bool batch_first = attr[3] != 0;
    const struct ref_array *weights = &in[lengths + 1];
    struct layer side[2] = {{.kind = kind,
                             .steps = in->shape[batch_first],
                             .batch = in->shape[!batch_first],
                             .inputs = in->shape[2],
                             .units = weights[1].shape[1],
                             .lengths = &in[lengths],
                             .bias = &absent,
                             .recurrent_bias = &absent,
                             .peephole = &absent}};
    int64_t n = side->batch * side->units;
    int64_t all[3] = {in->shape[0], in->shape[1], side->units * sides};
    int64_t last[3] = {attr[0] * sides, side->batch, side->units};
    struct running *x = steps_of(in, batch_first, side->steps, side->batch, side->inputs), *next;

    ref_array_init(&out[0], in->type->dtype, 3, all);
    for (int o = 1; o < (kind == LSTM ? 3 : 2); o++)
        ref_array_init(&out[o], in->type->dtype, 3, last);
    set_gates(&side[0], attr[4], &attr[5]);
    for (int64_t layer = 0; layer < attr[0]; layer++) {
        for (int s = 0; s < sides; s++) {
            const struct ref_array *w = weights + (layer * sides + s) * each;
            int64_t from = (layer * sides + s) * n;
            side[s] = side[0];
            side[s].w = &w[0];
            side[s].r = &w[1];
            if (attr[2]) side[s].bias = &w[2];
            if (attr[2]) side[s].recurrent_bias = &w[3];
            side[s].reverse = attr[1] == 1 || s == 1;
            side[s].x = x;
            ref_recurrent_make_room(&side[s]);
            ref_recurrent_start(side[s].h, &in[1], from, n);
            ref_recurrent_start(side[s].c, kind == LSTM ? &in[2] : &absent, from, n);
            run_layer(&side[s]);
            for (int64_t i = 0; i < n; i++) run_put(&out[1], from + i, side[s].h[i]);
            for (int64_t i = 0; kind == LSTM && i < n; i++)
                run_put(&out[2], from + i, side[s].c[i]);
            if (layer + 1 == attr[0]) put_states(&side[s], batch_first, s, sides, &out[0]);
        }
        next = ref_recurrent_beside(side, sides, in->type);
        for (int s = 0; s < sides; s++) ref_recurrent_finish(&side[s]);
        free(x);
        x = next;
        side[0].inputs = side[0].units * sides;
    }
    free(x);
}

/* attrs are integers, one after the other. */
void ref_family_recurrent(const char *op, const struct ref_array *in, const void *attrs,
                          struct ref_array *out)
{
    const int64_t *attr = (const int64_t *)attrs + 1;

    if (strstr(op, "_cell")) ref_recurrent_cell(kind_of(op), in, attr, out);
    else if (strstr(op, "_layer")) one_layer(kind_of(op), in, attr, out);
    else ref_recurrent_net(kind_of(op), in, attr, out);
}
