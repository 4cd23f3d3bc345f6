/* SPDX-License-Identifier: Apache-2.0 */
/* decompose.c: decomposes masked_softmax and attention into other operators. */
#include <call/compose.h>

#include <backplane/attrs.h>
#include <math.h>

/* Which keys a query sees, besides the mask. Query i has the position i + keys - rows. */
struct visibility {
    int64_t left, right;      /* how many keys before and after its position; -1: all */
    struct bp_tensor *length; /* replaces the number of keys; i32 or i64, or NULL */
};

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

/* Gives the lengths the axes of heads, queries and keys, with one place each, and a dtype. */
static struct bp_tensor *attention_lengths(struct bp_compose *c, struct bp_tensor *length,
                                           uint32_t dtype)
{
    int64_t shape[BP_RANK_MAX];
    uint32_t rank = length->view.rank;

    for (uint32_t i = 0; i < rank + 3; i++) shape[i] = i < rank ? length->shape[i] : 1;
    return bp_compose_reshape(c, bp_compose_cast(c, length, dtype), rank + 3, shape);
}

/* Sets scores to -infinity where a query must not see a key by its position. Positions are counted
 * from 1, which is exact in f32 up to 2^24, in f64 beyond. */
static struct bp_tensor *attention_hide(struct bp_compose *c, struct bp_tensor *scores,
                                        struct bp_tensor *none, const struct visibility *w)
{
    int64_t rows = scores->shape[scores->view.rank - 2];
    int64_t columns = scores->shape[scores->view.rank - 1];
    struct bp_tensor *one = attention_constant(c, scores, 1), *length = NULL, *bound;
    struct bp_tensor *key = count_up(c, one, columns, false), *place;

    if (w->length && c->status == BP_OK) {
        length = attention_lengths(c, w->length, scores->view.dtype);
        scores = MAKE(c, masked_fill, NULL, scores, MAKE(c, greater_than, NULL, key, length), none);
    }
    if (c->status || (w->left < 0 && w->right < 0)) return scores;
    place = bp_compose_scale(c, count_up(c, one, rows, true), 1,
                             length ? (double)-rows : (double)(columns - rows));
    if (length) place = MAKE(c, add, NULL, place, length);
    if (w->right >= 0) {
        bound = w->right ? bp_compose_scale(c, place, 1, (double)w->right) : place;
        scores = MAKE(c, masked_fill, NULL, scores, MAKE(c, greater_than, NULL, key, bound), none);
    }
    if (w->left >= 0) {
        bound = bp_compose_scale(c, place, 1, -(double)w->left);
        scores = MAKE(c, masked_fill, NULL, scores, MAKE(c, greater_than, NULL, bound, key), none);
    }
    return scores;
}

/* Sets scores to -infinity where a query must not see a key. */
static struct bp_tensor *attention_apply_mask(struct bp_compose *c, struct bp_tensor *scores,
                                              struct bp_tensor *mask, const struct visibility *w)
{
    bool additive = mask && mask->view.dtype != BP_BOOL, hides;
    struct bp_tensor *none;

    if (c->status) return NULL;
    hides = w->left >= 0 || w->right >= 0 || w->length;
    if (additive) scores = MAKE(c, add, NULL, scores, bp_compose_widen(c, mask));
    if (c->status || !((mask && !additive) || hides)) return scores;
    none = attention_constant(c, scores, -INFINITY);
    if (mask && !additive) scores = MAKE(c, where, NULL, mask, scores, none);
    return c->status || !hides ? scores : attention_hide(c, scores, none, w);
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

/* Whether a query may see no key: because of the mask or a length, or because there are more
 * queries than keys and the keys after a position are hidden. */
static bool may_hide(const struct bp_tensor *scores, const struct bp_tensor *mask,
                     const struct visibility *w)
{
    uint32_t rank = scores ? scores->view.rank : 0;

    return mask || w->length ||
           (rank && w->right >= 0 && scores->shape[rank - 2] > scores->shape[rank - 1]);
}

enum bp_status bp_decompose_masked_softmax(struct bp_decomposition *e)
{
    const struct bp_masked_softmax_attrs *a = e->attrs;
    struct visibility w = {.left = -1, .right = a->causal ? 0 : -1};
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *x = bp_compose_widen(&c, e->in[0]);
    bool hides = may_hide(x, e->in[1], &w);

    return bp_compose_give(
        e, &c, attention_softmax(&c, attention_apply_mask(&c, x, e->in[1], &w), hides));
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

/* Computes cap tanh(s / cap). */
static struct bp_tensor *attention_capped(struct bp_compose *c, struct bp_tensor *s, double cap)
{
    if (cap == 0) return s;
    return bp_compose_scale(c, MAKE(c, tanh, NULL, bp_compose_scale(c, s, 1 / cap, 0)), cap, 0);
}

enum bp_status bp_decompose_attention(struct bp_decomposition *e)
{
    const struct bp_attention_attrs *a = e->attrs;
    struct bp_matmul_attrs across = {.size = sizeof across, .transpose_b = 1},
                           plain = {.size = sizeof plain};
    struct visibility w = {.left = a->window.n ? a->window.at[0] : -1,
                           .right = a->window.n ? a->window.at[1] : -1, .length = e->in[4]};
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *q = e->in[0], *s;
    int64_t depth = q->shape[q->view.rank - 1];
    double scale = a->scale != 0 ? a->scale : depth ? 1 / sqrt((double)depth) : 1;
    bool hides;

    if (a->causal) w.right = 0;
    s = bp_compose_scale(&c, bp_compose_widen(&c, q), scale, 0);
    s = MAKE(&c, matmul, &across, s, for_heads(&c, e->in[1], q));
    s = attention_capped(&c, s, a->softcap);
    hides = may_hide(s, e->in[3], &w);
    s = attention_softmax(&c, attention_apply_mask(&c, s, e->in[3], &w), hides);
    return bp_compose_give(e, &c, MAKE(&c, matmul, &plain, s, for_heads(&c, e->in[2], q)));
}
