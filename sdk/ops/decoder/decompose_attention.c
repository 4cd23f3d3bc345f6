/* SPDX-License-Identifier: Apache-2.0 */
/* decompose_attention.c: decomposes linear_attention into other operators, step by step. Its
 * gradient is computed from this decomposition. */
#include <call/compose.h>

#include <backplane/attrs.h>
#include <math.h>
#include <stdlib.h>

enum { STEPS_AT_ONCE = 256 /* most inputs of a concat */ };

/* The inputs, in the type for computation; decay is the factor. Absent ones are NULL. */
struct attention {
    struct bp_compose *c;
    struct bp_tensor *q, *k, *v, *decay, *beta;
    double scale;
};

/* Takes step t of x, N T A B, in the shape N and three more extents. */
static struct bp_tensor *attention_step(const struct attention *a, struct bp_tensor *x, int64_t t,
                                        int64_t heads, int64_t rows, int64_t columns)
{
    static const int64_t axis = 1;
    int64_t end = t + 1, shape[] = {x ? x->shape[0] : 0, heads, rows, columns};
    struct bp_slice_attrs part = {.size = sizeof part, .starts = {&t, 1}, .ends = {&end, 1},
                                  .axes = {&axis, 1}};

    if (a->c->status) return NULL;
    return bp_compose_reshape(a->c, MAKE(a->c, slice, &part, x), 4, shape);
}

/* Writes step t to the state: N H D E. */
static struct bp_tensor *attention_written(const struct attention *a, struct bp_tensor *state,
                                           int64_t t)
{
    struct bp_compose *c = a->c;
    struct bp_matmul_attrs turned = {.size = sizeof turned, .transpose_a = 1};
    int64_t heads = a->k->shape[2];
    struct bp_tensor *k = attention_step(a, a->k, t, heads, a->k->shape[3], 1);
    struct bp_tensor *u = attention_step(a, a->v, t, heads, 1, a->v->shape[3]);

    if (a->decay)
        state = MAKE(c, mul, NULL, state,
                     attention_step(a, a->decay, t, heads, a->decay->shape[3], 1));
    if (a->beta)
        u = MAKE(c, mul, NULL, MAKE(c, sub, NULL, u, MAKE(c, matmul, &turned, k, state)),
                 attention_step(a, a->beta, t, a->beta->shape[2], 1, 1));
    return MAKE(c, add, NULL, state, MAKE(c, mul, NULL, k, u));
}

/* Reads the state for all heads of q: N 1, heads of q, E. */
static struct bp_tensor *attention_result(const struct attention *a, struct bp_tensor *state,
                                          int64_t t)
{
    const int64_t *q = a->q->shape;
    int64_t heads = a->k->shape[2], shape[] = {q[0], 1, q[2], a->v->shape[3]};
    struct bp_tensor *y = MAKE(
        a->c, matmul, NULL, attention_step(a, a->q, t, heads, q[2] / heads, q[3]), state);

    return bp_compose_scale(a->c, bp_compose_reshape(a->c, y, 4, shape), a->scale, 0);
}

/* Joins n parts along the steps, which replace them in part. */
static int64_t attention_join(struct bp_compose *c, struct bp_tensor **part, int64_t n)
{
    struct bp_concat_attrs join = {.size = sizeof join, .axis = 1};
    int64_t groups = 0;

    for (int64_t i = 0; i < n; i += STEPS_AT_ONCE, groups++) {
        int64_t some = n - i < STEPS_AT_ONCE ? n - i : STEPS_AT_ONCE;
        part[groups] = some == 1 ? part[i]
                                 : bp_compose_all(c, BP_ROW_concat, &join, part + i, (size_t)some);
    }
    return groups;
}

static struct bp_tensor *attention_widened(struct bp_compose *c, struct bp_tensor *x)
{
    return x ? bp_compose_widen(c, x) : NULL;
}

enum bp_status bp_decompose_linear_attention(struct bp_decomposition *e)
{
    const struct bp_linear_attention_attrs *attrs = e->attrs;
    struct bp_compose c = bp_compose_begin(e->scope);
    struct attention a = {.c = &c, .scale = attrs->scale};
    struct bp_tensor *state = bp_compose_widen(&c, e->in[3]), **y;
    int64_t steps = e->in[0]->shape[1], n = steps;

    y = malloc((size_t)steps * sizeof *y);
    if (!y && c.status == BP_OK)
        c.status = bp_error(BP_ERR_MEMORY, "linear_attention: no memory for %lld steps",
                            (long long)steps);
    if (!a.scale) a.scale = 1 / sqrt((double)e->in[0]->shape[3]);
    a.q = bp_compose_widen(&c, e->in[0]);
    a.k = bp_compose_widen(&c, e->in[1]);
    a.v = bp_compose_widen(&c, e->in[2]);
    a.decay = attention_widened(&c, e->in[4]);
    if (a.decay) a.decay = MAKE(&c, exp, NULL, a.decay);
    a.beta = attention_widened(&c, e->in[5]);
    for (int64_t t = 0; t < steps && c.status == BP_OK; t++) {
        state = attention_written(&a, state, t);
        y[t] = c.status ? NULL : attention_result(&a, state, t);
    }
    if (e->want >> 1 & 1 && c.status == BP_OK)
        bp_compose_keep(&c, bp_compose_cast(&c, state, e->in[3]->view.dtype), &e->out[1]);
    while (n > 1 && c.status == BP_OK) n = attention_join(&c, y, n);
    if (e->want & 1 && c.status == BP_OK)
        bp_compose_keep(&c, bp_compose_cast(&c, y[0], e->in[0]->view.dtype), &e->out[0]);
    free(y);
    return bp_compose_end(&c);
}
