/* SPDX-License-Identifier: Apache-2.0 */
/* recurrent.c: runs all steps of a recurrent layer, or a cell, in one launch, for one float dtype
 * (elem.h). recurrent.h explains panels.
 *
 * The products of x are computed for many steps at a time, which reads the weights of x once. Each
 * step then computes, for each panel, the product of the state, the gates and the next state. A
 * task is a panel for some sequences: its results do not depend on other tasks of the step. Half
 * types are computed in f32, and states stay f32 between steps. */
#include "recurrent.h"
#include "cpu.h"
#include "kernels.h"
#include "recurrent_product.h"
#include <dialect/maths.h>
#include <string.h>

enum {
    X_ROWS = 256,   /* rows of x that are multiplied at a time, about */
    X_TASK = 64,    /* rows of a task of this product */
    STATE_TASK = 8, /* sequences of a task of a step */
    PLAIN_ROWS = 4, /* steps of all sequences for which weights are not packed at each launch */
    PACK_STEPS = 4, /* fewer steps are faster decomposed than if many weights are packed for them */
    PACK_MANY = 1 << 15,
};

/* A launch. length: the steps of a sequence, or NULL. */
struct recurrent {
    const struct recurrent_plan *plan;
    const struct recurrent_call *call;
    const struct bp_launch *launch;
    const acc *w, *r, *last, *bias, *apart; /* packed weights */
    acc *x, *gates, *h, *c, *reset;         /* workspace */
    int64_t padded;                         /* units of all panels */
    int64_t first, count; /* steps whose products with x are in `gates`, counted in their order */
    int64_t step;         /* the current step, counted in the order of the run */
    bool second;          /* the second pass of a step, over the reset states */
};

/* Vectors of a panel of the state's weights. The gate n of a GRU without reset_after has its own
 * panels. */
static int state_vectors(const struct recurrent_call *c)
{
    return c->kind == RECURRENT_GRU && !c->reset_after ? 2 : c->gates;
}

static struct recurrent_parts recurrent_lay_out(const struct recurrent_call *c)
{
    int64_t padded = (c->units + UNITS - 1) / UNITS * UNITS;
    struct recurrent_parts p = {.w = 0};

    p.r = p.w + padded * c->gates * c->inputs;
    p.last = p.r + padded * state_vectors(c) * c->units;
    p.bias = p.last + padded * (c->gates - state_vectors(c)) * c->units;
    p.apart = p.bias + padded * c->gates;
    p.all = p.apart + padded * (c->kind == RECURRENT_LSTM ? 3 : 1);
    return p;
}

/* Packs n gates from gate number `first` on of a matrix with k columns. */
static void pack_matrix(const struct recurrent_call *c, const struct bp_view *m, int64_t k,
                        int first, int n, acc *to)
{
    const elem *from = m->data;

    for (int64_t unit = 0; unit < c->units; unit += UNITS)
        for (int64_t i = 0; i < k; i++)
            for (int g = first; g < first + n; g++, to += UNITS)
                for (int64_t j = 0; j < UNITS; j++) {
                    int64_t row = c->gate[g] * c->units + unit + j;
                    to[j] = unit + j < c->units
                                ? elem_get(from[row * m->stride[0] + i * m->stride[1]])
                                : 0;
                }
}

/* Adds block number `from` of a vector to gate g of each panel of n vectors. */
static void pack_add(const struct recurrent_call *c, const struct bp_view *v, int from, int g,
                     int n, acc *to)
{
    if (!v) return;
    for (int64_t unit = 0; unit < c->units; unit++)
        to[(unit / UNITS * n + g) * UNITS + unit % UNITS] += elem_get(
            ((const elem *)v->data)[(from * c->units + unit) * v->stride[0]]);
}

static const struct bp_view *recurrent_in(const struct bp_view *const *in, int port)
{
    return port < 0 ? NULL : in[port];
}

static void recurrent_pack_matrices(const struct recurrent_call *c, const struct recurrent_parts *p,
                                    const struct bp_view *const *in, acc *to)
{
    int vectors = state_vectors(c);

    pack_matrix(c, in[c->w], c->inputs, 0, c->gates, to + p->w);
    pack_matrix(c, in[c->r], c->units, 0, vectors, to + p->r);
    if (vectors < c->gates) pack_matrix(c, in[c->r], c->units, vectors, 1, to + p->last);
}

/* Packs biases and the peephole. */
static void recurrent_pack_biases(const struct recurrent_call *c, const struct recurrent_parts *p,
                                  const struct bp_view *const *in, acc *to)
{
    const struct bp_view *recurrent_bias = recurrent_in(in, c->recurrent_bias);

    memset(to + p->bias, 0, sizeof *to * (size_t)(p->all - p->bias));
    for (int g = 0; g < c->gates; g++) {
        bool apart = c->kind == RECURRENT_GRU && c->reset_after && g == 2;
        pack_add(c, recurrent_in(in, c->bias), c->gate[g], g, c->gates, to + p->bias);
        if (apart) pack_add(c, recurrent_bias, c->gate[g], 0, 1, to + p->apart);
        else pack_add(c, recurrent_bias, c->gate[g], g, c->gates, to + p->bias);
    }
    for (int g = 0; g < 3 && c->peephole >= 0; g++)
        pack_add(c, in[c->peephole], g, g, 3, to + p->apart);
}

/* Packs constant weights, or finds the pack of another plan. */
static enum bp_status recurrent_plan_pack(struct cpu *self, struct recurrent_plan *p,
                                          const struct bp_prep *prep)
{
    enum bp_status status = BP_OK;
    struct recurrent_key key;

    if (!recurrent_is_constant(&p->call, prep, &key)) return BP_OK;
    key.lanes = UNITS;
    pthread_mutex_lock(&self->packs_lock);
    p->pack = recurrent_pack_find(self, &key);
    if (!p->pack) status = recurrent_constants_read(self, &p->call, prep);
    if (!p->pack && !status) {
        p->pack = recurrent_pack_make(self, &key, sizeof(acc) * (uint64_t)p->parts.all);
        if (p->pack) {
            p->packed = p->pack->bytes;
            recurrent_pack_matrices(&p->call, &p->parts, prep->in, p->pack->data);
            recurrent_pack_biases(&p->call, &p->parts, prep->in, p->pack->data);
        }
    }
    pthread_mutex_unlock(&self->packs_lock);
    if (p->pack || status) return status;
    return bp_fail(self->host, BP_ERR_MEMORY, "cpu: no memory for the weights of %s",
                   prep->kernel->op);
}

/* Whether weights are used for so few rows that packing would take longer than the products, and
 * rows of weights are contiguous. */
static bool recurrent_is_plain(const struct recurrent_call *c, const struct bp_prep *prep)
{
    return sizeof(elem) == sizeof(acc) && c->steps * c->batch <= PLAIN_ROWS &&
           prep->in[c->w]->stride[1] == 1 && prep->in[c->r]->stride[1] == 1;
}

/* Whether packing many weights at each launch would take longer than a decomposition. */
static bool recurrent_declines(const struct recurrent_plan *p)
{
    const struct recurrent_call *c = &p->call;

    return sizeof(elem) == sizeof(acc) && !p->pack && !p->plain && c->steps < PACK_STEPS &&
           c->gates * c->units * (c->inputs + c->units) >= PACK_MANY;
}

/* Adds a part of n elements to the workspace; parts begin at a multiple of 64 bytes. */
static int64_t workspace_add(int64_t *used, int64_t n)
{
    int64_t at = *used, line = 64 / (int64_t)sizeof(acc);

    *used += (n + line - 1) / line * line;
    return at;
}

/* Lays out the workspace. Returns its elements. */
static int64_t recurrent_plan_work(struct recurrent_plan *p)
{
    const struct recurrent_call *c = &p->call;
    int64_t padded = p->panels * UNITS, states = c->batch * padded, used = 0, rows;

    p->steps = c->batch < X_ROWS && c->batch > 0 ? X_ROWS / c->batch : 1;
    if (p->steps > c->steps) p->steps = c->steps;
    rows = p->steps * c->batch;
    p->weights = workspace_add(&used, p->pack ? 0 : p->parts.all);
    p->x = workspace_add(&used, rows * c->inputs);
    p->gates = workspace_add(&used, rows * padded * c->gates);
    p->h = workspace_add(&used, 2 * states);
    p->c = workspace_add(&used, c->kind == RECURRENT_LSTM ? states : 0);
    p->reset = workspace_add(&used, state_vectors(c) < c->gates ? states : 0);
    return used;
}

enum bp_status NAME(recurrent_prepare)(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    struct cpu *cpu = self;
    const struct bp_host *host = cpu->host;
    struct recurrent_plan *p = host->allocate(host->ctx, sizeof *p,
                                              _Alignof(struct recurrent_plan));
    enum bp_status status;

    if (!p)
        return bp_fail(host, BP_ERR_MEMORY, "cpu: no memory for a plan of %s", prep->kernel->op);
    *p = (struct recurrent_plan){.call = recurrent_describe(prep)};
    p->parts = recurrent_lay_out(&p->call);
    p->panels = (p->call.units + UNITS - 1) / UNITS;
    status = recurrent_plan_pack(cpu, p, prep);
    if (status != BP_OK) {
        cpu_recurrent_destroy(self, prep->kernel, p);
        return status;
    }
    p->plain = !p->pack && recurrent_is_plain(&p->call, prep);
    if (recurrent_declines(p)) {
        cpu_recurrent_destroy(self, prep->kernel, p);
        return BP_ERR_UNSUPPORTED;
    }
    out->plan = p;
    out->bytes = p->packed;
    out->workspace = sizeof(acc) * (uint64_t)recurrent_plan_work(p);
    out->workspace_alignment = 64;
    if (p->pack && BP_HAS(out, unread)) out->unread = recurrent_weights(&p->call);
    return BP_OK;
}

/* The index of a step that the run reaches as number i. */
static int64_t step_of(const struct recurrent_call *c, int64_t i)
{
    return c->reverse ? c->steps - 1 - i : i;
}

/* Copies rows of x to the workspace. */
static void recurrent_copy_x(struct recurrent *s)
{
    const struct recurrent_call *c = s->call;
    const struct bp_view *x = s->launch->in[0];
    int64_t row = x->stride[c->cell ? 0 : !c->batch_first], unit = x->stride[c->cell ? 1 : 2];
    acc *to = s->x;

    for (int64_t i = s->first; i < s->first + s->count; i++)
        for (int64_t b = 0; b < c->batch; b++, to += c->inputs) {
            const elem *from = x->data;
            from += b * row;
            if (!c->cell) from += step_of(c, i) * x->stride[c->batch_first];
            if (unit == 1)
                for (int64_t j = 0; j < c->inputs; j++) to[j] = elem_get(from[j]);
            else
                for (int64_t j = 0; j < c->inputs; j++) to[j] = elem_get(from[j * unit]);
        }
}

/* A product of rows with gates `gate` to gate + n - 1 of a panel: `weights` packed, or else the
 * input `port`. */
struct panel_product {
    int64_t panel, rows, k, a_row, to_row;
    int port, gate, n;
    const acc *a, *weights;
    acc *to;
};

static void recurrent_multiply(const struct recurrent *s, const struct panel_product *p)
{
#ifdef ELEM_HALF
    (void)s; /* weights of half types are always packed */
#else
    const struct recurrent_call *c = s->call;
    const struct bp_view *w = s->launch->in[p->port];
    int64_t unit = p->panel * UNITS, m = c->units - unit < UNITS ? c->units - unit : UNITS;

    for (int64_t r = 0; s->plan->plain && r < p->rows; r++)
        for (int g = 0; g < p->n; g++)
            product_plain(
                m, (const elem *)w->data + (c->gate[p->gate + g] * c->units + unit) * w->stride[0],
                w->stride[0], p->a + r * p->a_row, p->k, p->to + r * p->to_row + g * UNITS);
    if (s->plan->plain) return;
#endif
    product_panel(p->rows, p->n, p->a, p->a_row, p->k, p->weights + p->panel * p->n * UNITS * p->k,
                  p->to, p->to_row);
}

/* The products of x with one panel, for X_TASK rows. */
static void recurrent_x_task(void *arg, int64_t task)
{
    const struct recurrent *s = arg;
    const struct recurrent_call *c = s->call;
    int64_t rows = s->count * c->batch, parts = (rows + X_TASK - 1) / X_TASK;
    int64_t panel = task / parts, row = task % parts * X_TASK, width = c->gates * UNITS;
    int64_t n = rows - row < X_TASK ? rows - row : X_TASK, each = s->padded * c->gates;
    acc *to = s->gates + row * each + panel * width;

    for (int64_t i = 0; i < n; i++)
        memcpy(to + i * each, s->bias + panel * width, sizeof *to * (size_t)width);
    recurrent_multiply(s, &(struct panel_product){.panel = panel,
                                                  .rows = n,
                                                  .k = c->inputs,
                                                  .a_row = c->inputs,
                                                  .to_row = each,
                                                  .port = c->w,
                                                  .n = c->gates,
                                                  .a = s->x + row * c->inputs,
                                                  .weights = s->w,
                                                  .to = to});
}

/* Computes the products of x for the next steps. */
static void recurrent_multiply_x(struct recurrent *s, int64_t first)
{
    const struct recurrent_call *c = s->call;
    int64_t rows, parts;

    s->first = first;
    s->count = c->steps - first < s->plan->steps ? c->steps - first : s->plan->steps;
    rows = s->count * c->batch;
    parts = (rows + X_TASK - 1) / X_TASK;
    recurrent_copy_x(s);
    cpu_team_run(recurrent_x_task, s, parts * s->plan->panels,
                 cpu_team_width(s->launch,
                                (double)rows * (double)c->inputs * (double)(s->padded * c->gates)));
}

/* The state before (0) and after (1) the current step. */
static acc *recurrent_state(const struct recurrent *s, int after)
{
    return s->h + (s->step + after) % 2 * s->call->batch * s->padded;
}

/* The units of one panel of an LSTM, for one sequence. a: the gates i f g o. */
static inline __attribute__((always_inline)) void lstm_lanes(const acc *a, const acc *peephole,
                                                             acc *c, acc *h, const bool peeps)
{
#pragma omp simd
    for (int j = 0; j < UNITS; j++) {
        acc in = a[j], forget = a[UNITS + j], out = a[3 * UNITS + j], memory = c[j];
        if (peeps) {
            in += peephole[j] * memory;
            forget += peephole[UNITS + j] * memory;
        }
        memory = acc_sigmoid(forget) * memory + acc_sigmoid(in) * FUNC(tanh)(a[2 * UNITS + j]);
        if (peeps) out += peephole[2 * UNITS + j] * memory;
        c[j] = memory;
        h[j] = acc_sigmoid(out) * FUNC(tanh)(memory);
    }
}

/* The same of a GRU with reset_after. a: the gates r and z, and the product of the state for n; n:
 * that of x. */
static void gru_lanes(const acc *a, const acc *n, const acc *before, acc *h)
{
#pragma omp simd
    for (int j = 0; j < UNITS; j++) {
        acc r = acc_sigmoid(a[j]), z = acc_sigmoid(a[UNITS + j]);
        h[j] = (1 - z) * FUNC(tanh)(n[j] + r * a[2 * UNITS + j]) + z * before[j];
    }
}

/* The first pass of a GRU without reset_after. a: the gates r and z. z remains in h. */
static void gru_reset_lanes(const acc *a, const acc *before, acc *reset, acc *h)
{
#pragma omp simd
    for (int j = 0; j < UNITS; j++) {
        reset[j] = acc_sigmoid(a[j]) * before[j];
        h[j] = acc_sigmoid(a[UNITS + j]);
    }
}

/* The second pass. */
static void gru_last_lanes(const acc *n, const acc *before, acc *h)
{
#pragma omp simd
    for (int j = 0; j < UNITS; j++) h[j] = (1 - h[j]) * FUNC(tanh)(n[j]) + h[j] * before[j];
}

static void rnn_lanes(const acc *a, acc *h, bool relu)
{
    if (relu) {
        for (int j = 0; j < UNITS; j++) h[j] = acc_relu(a[j]);
        return;
    }
#pragma omp simd
    for (int j = 0; j < UNITS; j++) h[j] = FUNC(tanh)(a[j]);
}

/* Whether sequence b has the current step. */
static bool recurrent_has(const struct recurrent *s, int64_t b)
{
    const struct bp_view *v = recurrent_in(s->launch->in, s->call->lengths);
    int64_t t = step_of(s->call, s->step);

    if (!v) return true;
    return t < (v->dtype == BP_I32 ? ((const int32_t *)v->data)[b * v->stride[0]]
                                   : ((const int64_t *)v->data)[b * v->stride[0]]);
}

/* Writes the units of a panel to y; `h` NULL: zeros. */
static void recurrent_put(const struct recurrent *s, int64_t b, int64_t unit, const acc *h)
{
    const struct recurrent_call *c = s->call;
    const struct bp_view *y = c->cell ? NULL : s->launch->out[0];
    int64_t n = c->units - unit < UNITS ? c->units - unit : UNITS;
    elem *to;

    if (!y) return;
    to = (elem *)y->data + step_of(c, s->step) * y->stride[c->batch_first] +
         b * y->stride[!c->batch_first] + unit * y->stride[2];
    for (int64_t j = 0; j < n; j++) to[j * y->stride[2]] = elem_put(h ? h[j] : 0);
}

/* Computes the next state of one panel and sequence from its gates. x: the products of x for all
 * gates. */
static void recurrent_unit(const struct recurrent *s, int64_t panel, int64_t b, const acc *a,
                           const acc *x)
{
    const struct recurrent_call *c = s->call;
    int64_t at = b * s->padded + panel * UNITS;
    const acc *before = recurrent_state(s, 0) + at, *apart = s->apart + 3 * panel * UNITS;
    acc *h = recurrent_state(s, 1) + at;
    bool first = c->kind == RECURRENT_GRU && !c->reset_after && !s->second;

    if (!recurrent_has(s, b)) {
        memcpy(h, before, sizeof *h * UNITS);
        if (first) memset(s->reset + at, 0, sizeof *h * UNITS);
        else recurrent_put(s, b, panel * UNITS, NULL);
        return;
    }
    if (c->kind == RECURRENT_RNN) rnn_lanes(a, h, c->relu);
    else if (c->kind == RECURRENT_LSTM && c->peephole >= 0 && s->launch->in[c->peephole])
        lstm_lanes(a, apart, s->c + at, h, true);
    else if (c->kind == RECURRENT_LSTM) lstm_lanes(a, NULL, s->c + at, h, false);
    else if (c->reset_after) gru_lanes(a, x + 2 * UNITS, before, h);
    else if (first) gru_reset_lanes(a, before, s->reset + at, h);
    else gru_last_lanes(a, before, h);
    if (!first) recurrent_put(s, b, panel * UNITS, h);
}

/* One panel of the current step, for STATE_TASK sequences. */
static void recurrent_state_task(void *arg, int64_t task)
{
    const struct recurrent *s = arg;
    const struct recurrent_call *c = s->call;
    _Alignas(64) acc a[STATE_TASK * RECURRENT_GATES * UNITS];
    int64_t parts = (c->batch + STATE_TASK - 1) / STATE_TASK, panel = task / parts;
    int64_t first = task % parts * STATE_TASK, each = s->padded * c->gates;
    int64_t n = c->batch - first < STATE_TASK ? c->batch - first : STATE_TASK;
    int vectors = s->second ? 1 : state_vectors(c), skip = s->second ? 2 : 0;
    const acc *x = s->gates + ((s->step - s->first) * c->batch + first) * each +
                   panel * c->gates * UNITS;
    const acc *from = s->second ? s->reset : recurrent_state(s, 0);
    const acc *weights = s->second ? s->last : s->r;
    bool apart = c->kind == RECURRENT_GRU && c->reset_after;

    for (int64_t i = 0; i < n; i++) {
        acc *to = a + i * vectors * UNITS;
        memcpy(to, x + i * each + skip * UNITS, sizeof *to * (size_t)(vectors * UNITS));
        if (apart) memcpy(to + 2 * UNITS, s->apart + panel * UNITS, sizeof *to * UNITS);
    }
    recurrent_multiply(s, &(struct panel_product){.panel = panel,
                                                  .rows = n,
                                                  .k = c->units,
                                                  .a_row = s->padded,
                                                  .to_row = vectors * UNITS,
                                                  .port = c->r,
                                                  .gate = skip,
                                                  .n = vectors,
                                                  .a = from + first * s->padded,
                                                  .weights = weights,
                                                  .to = a});
    for (int64_t i = 0; i < n; i++)
        recurrent_unit(s, panel, first + i, a + i * vectors * UNITS, x + i * each);
}

static void recurrent_run_steps(struct recurrent *s)
{
    const struct recurrent_call *c = s->call;
    int64_t tasks = s->plan->panels * ((c->batch + STATE_TASK - 1) / STATE_TASK);
    double work = (double)c->batch * (double)c->units * (double)(s->padded * c->gates);
    uint32_t width = cpu_team_width(s->launch, work);

    for (s->step = 0; s->step < c->steps; s->step++) {
        if (s->step == s->first + s->count) recurrent_multiply_x(s, s->step);
        cpu_team_run(recurrent_state_task, s, tasks, width);
        if (state_vectors(c) == c->gates) continue;
        s->second = true;
        cpu_team_run(recurrent_state_task, s, tasks, width);
        s->second = false;
    }
}

/* Sets a state to an input, or to zeros. */
static void recurrent_load(const struct recurrent *s, int port, acc *to)
{
    const struct bp_view *v = recurrent_in(s->launch->in, port);

    memset(to, 0, sizeof *to * (size_t)(s->call->batch * s->padded));
    for (int64_t b = 0; v && b < s->call->batch; b++)
        for (int64_t j = 0; j < s->call->units; j++)
            to[b * s->padded + j] = elem_get(
                ((const elem *)v->data)[b * v->stride[0] + j * v->stride[1]]);
}

static void recurrent_save(const struct recurrent *s, uint32_t out, const acc *from)
{
    const struct bp_view *v = s->launch->out[out];

    for (int64_t b = 0; v && b < s->call->batch; b++)
        for (int64_t j = 0; j < s->call->units; j++)
            ((elem *)v->data)[b * v->stride[0] + j * v->stride[1]] = elem_put(
                from[b * s->padded + j]);
}

enum bp_status NAME(recurrent)(const struct bp_launch *launch)
{
    const struct recurrent_plan *p = launch->plan;
    const struct recurrent_call *c = &p->call;
    acc *work = launch->workspace, *weights = p->pack ? p->pack->data : work + p->weights;
    uint32_t out = c->cell ? 0 : 1;

    if (!c->batch || !c->units) return BP_OK;
    struct recurrent s = {.plan = p,
                          .call = c,
                          .launch = launch,
                          .w = weights + p->parts.w,
                          .r = weights + p->parts.r,
                          .last = weights + p->parts.last,
                          .bias = weights + p->parts.bias,
                          .apart = weights + p->parts.apart,
                          .x = work + p->x,
                          .gates = work + p->gates,
                          .h = work + p->h,
                          .c = work + p->c,
                          .reset = work + p->reset,
                          .padded = p->panels * UNITS};
    if (!p->pack && !p->plain) recurrent_pack_matrices(c, &p->parts, launch->in, weights);
    if (!p->pack) recurrent_pack_biases(c, &p->parts, launch->in, weights);
    recurrent_load(&s, c->h0, s.h);
    if (c->kind == RECURRENT_LSTM) recurrent_load(&s, c->c0, s.c);
    recurrent_run_steps(&s);
    recurrent_save(&s, out, recurrent_state(&s, 0));
    if (c->kind == RECURRENT_LSTM) recurrent_save(&s, out + 1, s.c);
    return BP_OK;
}
