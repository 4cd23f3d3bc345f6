/* SPDX-License-Identifier: Apache-2.0 */
/* motifs_effects.c: adds motifs of updates in place, of random numbers and of gradients. */
#include "graphs.h"

#include <string.h>

/* ---- updates ---- */

/* A value that may be updated: an input or a constant that is not frozen, and sometimes a result
 * or a view of one of these. */
static uint32_t update_target(struct fuzz_generator *m)
{
    uint32_t v = FUZZ_BAD;

    for (int tries = 0; tries < 10 && m->recipe->n_value; tries++) {
        const struct fuzz_value *value;
        v = fuzz_below(m, m->recipe->n_value);
        value = &m->recipe->value[v];
        if (!fuzz_is_float(value->dtype) || value->frozen || fuzz_elements(m, v) > FUZZ_ELEMENTS)
            continue;
        if (value->kind != FUZZ_RESULT || fuzz_chance(m, 12)) return v;
    }
    return fuzz_new(m, fuzz_chance(m, 60) ? FUZZ_CONSTANT : FUZZ_INPUT, FUZZ_PLAIN,
                    fuzz_float_dtype(m), 2,
                    (int64_t[]){2 + fuzz_below(m, 4), 2 + fuzz_below(m, 5)});
}

static uint32_t update_rate(struct fuzz_generator *m, uint32_t dtype)
{
    int64_t one = 1;

    dtype = dtype == BP_F64 ? BP_F64 : BP_F32;
    return fuzz_new(m, fuzz_chance(m, 70) ? FUZZ_CONSTANT : FUZZ_INPUT, FUZZ_RATE, dtype, 1, &one);
}

/* A view of the target, through which it is updated; an expanded one is refused. */
static uint32_t update_part(struct fuzz_generator *m, uint32_t w)
{
    const struct fuzz_value v = *fuzz_value_of(m, w);

    if (fuzz_chance(m, 25) && v.rank < 4) {
        int64_t shape[REF_RANK] = {2};
        memcpy(shape + 1, v.shape, v.rank * sizeof *shape);
        fuzz_begin(m, "expand");
        fuzz_in(m, w);
        fuzz_list(m, "shape", v.rank + 1, shape);
        return fuzz_end(m, 0);
    }
    if (fuzz_chance(m, 25)) return fuzz_unary(m, "transpose", w);
    fuzz_begin(m, "slice");
    fuzz_in(m, w);
    fuzz_list(m, "starts", 1, (int64_t[]){v.shape[0] > 1 && fuzz_chance(m, 50)});
    fuzz_list(m, "ends", 1, (int64_t[]){2});
    fuzz_list(m, "axes", 1, (int64_t[]){0});
    return fuzz_end(m, 0);
}

static uint32_t update_node(struct fuzz_generator *m, uint32_t w, uint32_t gradient)
{
    uint32_t kind = fuzz_below(m, 4), rate = update_rate(m, fuzz_value_of(m, w)->dtype);

    if (kind == 3) {
        fuzz_begin(m, "fill");
        fuzz_in(m, w);
        fuzz_f64(m, "value", 0.25 * fuzz_below(m, 5));
        return fuzz_end(m, 0);
    }
    fuzz_begin(m, kind == 2 ? "momentum" : "sgd");
    fuzz_in(m, w);
    fuzz_in(m, gradient);
    fuzz_in(m, rate);
    if (kind == 2) {
        const struct fuzz_value *v = fuzz_value_of(m, w);
        uint32_t dtype = v->dtype == BP_F64 ? BP_F64 : BP_F32;
        struct fuzz_node *node = m->node; /* fuzz_new makes no node */
        uint32_t velocity = fuzz_new(m, FUZZ_CONSTANT, FUZZ_PLAIN, dtype, v->rank, v->shape);
        m->node = node;
        fuzz_in(m, velocity);
    }
    return fuzz_end(m, 0);
}

/* Equal reads before and after an update, and reads of its result. */
void fuzz_motif_update(struct fuzz_generator *m)
{
    uint32_t w = update_target(m), before, after = FUZZ_BAD, gradient, target = w;

    before = fuzz_unary(m, "relu", w);
    if (fuzz_chance(m, 15)) w = fuzz_alias(m, w);
    if (fuzz_chance(m, 20)) fuzz_output(m, w);
    if (fuzz_chance(m, 30) && fuzz_value_of(m, w)->rank) target = update_part(m, w);
    gradient = fuzz_chance(m, 50) ? fuzz_new_like(m, target) : fuzz_pick_like(m, target);
    if (fuzz_chance(m, 30)) gradient = fuzz_activation(m, gradient);
    target = update_node(m, target, gradient);
    after = fuzz_unary(m, "relu", fuzz_chance(m, 60) ? w : target);
    if (fuzz_chance(m, 30)) fuzz_output(m, target);
    if (fuzz_chance(m, 50)) fuzz_binary(m, "sub", after, before);
}

/* ---- random numbers ---- */

void fuzz_motif_random(struct fuzz_generator *m)
{
    uint32_t x = fuzz_pick(m, FUZZ_ABSENT), y;
    const struct fuzz_value v = *fuzz_value_of(m, x);

    switch (fuzz_below(m, 4)) {
    case 0:
    case 1:
        fuzz_begin(m, "dropout");
        fuzz_in(m, x);
        fuzz_f64(m, "p", fuzz_chance(m, 50) ? 0.25 : 0.5);
        fuzz_i64(m, "training", fuzz_chance(m, 90));
        break;
    case 2:
        fuzz_begin(m, fuzz_chance(m, 50) ? "uniform" : "normal");
        fuzz_list(m, "shape", v.rank, v.shape);
        fuzz_i64(m, "dtype", v.dtype);
        break;
    default:
        fuzz_begin(m, "bernoulli");
        fuzz_in(m, fuzz_new(m, FUZZ_INPUT, FUZZ_RATE, v.dtype, v.rank, v.shape));
    }
    y = fuzz_end(m, 0);
    if (fuzz_chance(m, 25)) return; /* without a reader; later numbers must not change */
    fuzz_binary(m, "mul", x, y);
}

/* ---- gradients ---- */

/* Whether node n depends on value x. */
static void mark_ancestors(const struct fuzz_recipe *r, bool *marked)
{
    for (uint32_t n = r->n_node; n-- > 0;) {
        const struct fuzz_node *node = &r->node[n];
        bool is_needed = false;
        for (uint32_t i = 0; i < node->n_out; i++) is_needed = is_needed || marked[node->out[i]];
        for (uint32_t i = 0; i < node->n_in && is_needed; i++)
            if (node->in[i] != FUZZ_ABSENT) marked[node->in[i]] = true;
    }
}

/* Picks up to three values that the result depends on: inputs and constants, rarely results. */
static uint32_t pick_roots(struct fuzz_generator *m, uint32_t y, uint32_t *x)
{
    const struct fuzz_recipe *r = m->recipe;
    bool marked[FUZZ_VALUES] = {false};
    uint32_t n = 0;

    marked[y] = true;
    mark_ancestors(r, marked);
    for (uint32_t v = 0; v < r->n_value; v++) {
        const struct fuzz_value *value = &r->value[v];
        if (!marked[v] || !fuzz_is_float(value->dtype) || v == y) continue;
        if (value->kind == FUZZ_RESULT && !fuzz_chance(m, 5)) continue;
        if (n < 3) x[n++] = v;
        else if (fuzz_chance(m, 30)) x[fuzz_below(m, 3)] = v;
    }
    return n;
}

/* Gradients of one result, which later nodes and updates may read. */
void fuzz_motif_gradient(struct fuzz_generator *m)
{
    struct fuzz_recipe *r = m->recipe;
    uint32_t y = FUZZ_BAD, x[3], n, dx, dy;
    struct fuzz_node *node;

    for (int tries = 0; tries < 10 && y == FUZZ_BAD && r->n_value; tries++) {
        uint32_t v = r->n_value - 1 - fuzz_below(m, r->n_value < 12 ? r->n_value : 12);
        if (r->value[v].kind == FUZZ_RESULT && fuzz_is_float(r->value[v].dtype)) y = v;
    }
    if (y == FUZZ_BAD || r->n_node == FUZZ_NODES) return;
    n = pick_roots(m, y, x);
    dy = fuzz_new(m, fuzz_chance(m, 50) ? FUZZ_INPUT : FUZZ_CONSTANT, FUZZ_PLAIN, r->value[y].dtype,
                  r->value[y].rank, r->value[y].shape);
    if (!n || dy == FUZZ_BAD) return;
    node = m->node = &r->node[r->n_node];
    memset(node, 0, sizeof *node);
    m->bad = false;
    node->n_y = 1;
    node->in[0] = y;
    node->in[1] = dy;
    memcpy(node->in + 2, x, n * sizeof *x);
    node->n_in = 2 + n;
    dx = fuzz_end(m, n);
    if (dx == FUZZ_BAD) return;
    for (uint32_t i = 0; i < n; i++)
        if (fuzz_chance(m, 75)) fuzz_output(m, dx + i);
    if (fuzz_chance(m, 30) && !r->value[x[0]].frozen && r->value[x[0]].kind != FUZZ_RESULT)
        update_node(m, x[0], dx);
}
