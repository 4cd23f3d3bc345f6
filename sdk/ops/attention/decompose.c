/* SPDX-License-Identifier: Apache-2.0 */
/* decompose.c: decomposes masked_softmax and attention into other operators. */
#include <call/compose.h>

#include <backplane/attrs.h>
#include <math.h>

/* Makes one number of the dtype of t, which may be empty: the sum of no elements, plus value. */
static struct bp_tensor *attention_constant(struct bp_compose *c, struct bp_tensor *t, double value)
{
    static const int64_t first = 0;
    struct bp_slice_attrs none = {.size = sizeof none, .starts = {&first, 1}, .ends = {&first, 1}};
    struct bp_sum_attrs whole = {.size = sizeof whole};
    struct bp_tensor *zero;

    if (c->status) return NULL;
    zero = MAKE(c, slice, &none, bp_compose_reshape(c, t, 1, &t->view.count));
    return bp_compose_scale(c, MAKE(c, sum, &whole, zero), 1, value);
}

/* Makes the numbers 1 to n, as a column or a row. */
static struct bp_tensor *count_up(struct bp_compose *c, struct bp_tensor *one, int64_t n,
                                  bool column)
{
    int64_t shape[2] = {column ? n : 1, column ? 1 : n};
    struct bp_expand_attrs all = {.size = sizeof all, .shape = {shape, 2}};
    struct bp_cumsum_attrs along = {.size = sizeof along, .axis = column ? 0 : 1};

    return MAKE(c, cumsum, &along, MAKE(c, assign, NULL, MAKE(c, expand, &all, one)));
}

/* Sets scores to -infinity where a query must not see a key. Counting is exact in f32 up to 2^24,
 * in f64 beyond. */
static struct bp_tensor *attention_apply_mask(struct bp_compose *c, struct bp_tensor *scores,
                                              struct bp_tensor *mask, bool causal)
{
    bool additive = mask && mask->view.dtype != BP_BOOL;
    struct bp_tensor *none, *row, *column;
    int64_t rows, columns;

    if (c->status) return NULL;
    if (additive) scores = MAKE(c, add, NULL, scores, bp_compose_widen(c, mask));
    if (c->status || !((mask && !additive) || causal)) return scores;
    none = attention_constant(c, scores, -INFINITY);
    if (mask && !additive) scores = MAKE(c, where, NULL, mask, scores, none);
    if (c->status || !causal) return scores;
    rows = scores->shape[scores->view.rank - 2];
    columns = scores->shape[scores->view.rank - 1];
    row = attention_constant(c, scores, 1);
    column = count_up(c, row, rows, true);
    row = count_up(c, row, columns, false);
    column = bp_compose_scale(c, column, 1, (double)(columns - rows));
    return MAKE(c, masked_fill, NULL, scores, MAKE(c, greater_than, NULL, row, column), none);
}

/* Turns scores into probabilities. If `hides`, a query may have all its keys hidden: the
 * probabilities of that query are 0. Its scores are replaced by 0 before softmax, so that the
 * gradient has no infinities either. */
static struct bp_tensor *attention_softmax(struct bp_compose *c, struct bp_tensor *x, bool hides)
{
    static const int64_t along = -1;
    struct bp_softmax_attrs last = {.size = sizeof last, .axis = -1};
    struct bp_max_attrs largest = {.size = sizeof largest, .axes = {&along, 1}, .keep = 1};
    struct bp_tensor *none, *zero;

    if (c->status || !hides || !x->view.count) return MAKE(c, softmax, &last, x);
    none = MAKE(c, equal, NULL, MAKE(c, max, &largest, x), attention_constant(c, x, -INFINITY));
    zero = attention_constant(c, x, 0);
    x = MAKE(c, softmax, &last, MAKE(c, masked_fill, NULL, x, none, zero));
    return MAKE(c, masked_fill, NULL, x, none, zero);
}

/* Whether a query may see no key: because of the mask, or causal with more queries than keys. */
static bool may_hide(const struct bp_tensor *scores, const struct bp_tensor *mask, bool causal)
{
    uint32_t rank = scores ? scores->view.rank : 0;

    return mask || (rank && causal && scores->shape[rank - 2] > scores->shape[rank - 1]);
}

enum bp_status bp_decompose_masked_softmax(struct bp_decomposition *e)
{
    const struct bp_masked_softmax_attrs *a = e->attrs;
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *x = bp_compose_widen(&c, e->in[0]);
    bool hides = may_hide(x, e->in[1], a->causal);

    return bp_compose_give(
        e, &c, attention_softmax(&c, attention_apply_mask(&c, x, e->in[1], a->causal), hides));
}

/* Makes k or v with one head for each head of q, by repetition. */
static struct bp_tensor *for_heads(struct bp_compose *c, struct bp_tensor *t,
                                   const struct bp_tensor *q)
{
    int64_t heads = q->shape[q->view.rank - 3], mine = t->shape[t->view.rank - 3];
    struct bp_repeat_interleave_attrs a = {.size = sizeof a, .axis = -3};

    t = bp_compose_widen(c, t);
    if (mine == heads) return t;
    a.repeats = mine ? heads / mine : 1;
    return MAKE(c, repeat_interleave, &a, t);
}

enum bp_status bp_decompose_attention(struct bp_decomposition *e)
{
    const struct bp_attention_attrs *a = e->attrs;
    struct bp_matmul_attrs across = {.size = sizeof across, .transpose_b = 1},
                           plain = {.size = sizeof plain};
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *q = e->in[0], *s;
    int64_t depth = q->shape[q->view.rank - 1];
    double scale = a->scale != 0 ? a->scale : depth ? 1 / sqrt((double)depth) : 1;
    bool hides;

    s = bp_compose_scale(&c, bp_compose_widen(&c, q), scale, 0);
    s = MAKE(&c, matmul, &across, s, for_heads(&c, e->in[1], q));
    hides = may_hide(s, e->in[3], a->causal);
    s = attention_softmax(&c, attention_apply_mask(&c, s, e->in[3], a->causal), hides);
    return bp_compose_give(e, &c, MAKE(&c, matmul, &plain, s, for_heads(&c, e->in[2], q)));
}
