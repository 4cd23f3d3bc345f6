/* SPDX-License-Identifier: Apache-2.0 */
/* rows_softmax.c: builds the rows of softmax, of its gradients, and of what language models make of
 * it: attention, rotary embeddings, gates. */
#include "compose.h"

#include <math.h>

/* dx = dy - exp(y) sum(dy). */
enum bp_status npu_build_log_softmax_grad(struct kit_build *b)
{
    const struct bp_log_softmax_grad_attrs *a = b->attrs;
    struct kit_arg y, dy, t;

    if (npu_is_empty(b, NPU_OUT(0))) return b->status;
    y = npu_wide(b, NPU_IN(0));
    dy = npu_wide(b, NPU_IN(1));
    t = npu_sum(b, dy, 1u << npu_axis(a->axis, npu_type(b, dy)->rank));
    t = npu_mul(b, part_one(b, "Exp", y), t);
    npu_finish(b, part_sub(b, dy, t), NPU_OUT(0));
    return b->status;
}

static struct kit_arg softmax_hidden(struct kit_build *b, struct kit_arg scores,
                                     struct kit_arg hidden, double value)
{
    KIT_STEP(b, "InplaceMaskedFillScalar", kit_as(scores, KIT_UPDATES), hidden,
             KIT_NUMBER_IS(value));
    return scores;
}

/* A matrix that is true from a diagonal on (Triu), or up to it (Tril); 0 is the main one. */
static struct kit_arg softmax_triangle(struct kit_build *b, const char *function, int64_t rows,
                                       int64_t columns, int64_t diagonal)
{
    const int64_t shape[2] = {rows, columns};
    struct kit_arg all = npu_filled(b, BP_BOOL, 2, shape, 1), part = npu_like(b, all, BP_BOOL);

    KIT_STEP(b, function, all, KIT_INT_IS(diagonal), part);
    return part;
}

/* The keys that a query sees, relative to its own position: at most `before` before it and `after`
 * behind it. Negative numbers: all. The last query has the position of the last key. */
struct softmax_window {
    int64_t before, after;
};

static bool softmax_hides_lines(const struct softmax_window *w, const struct bp_view *scores)
{
    int64_t rows = scores->shape[scores->rank - 2], columns = scores->shape[scores->rank - 1];

    for (int64_t i = 0; i < rows; i++) {
        int64_t at = i + columns - rows, first = w->before < 0 ? 0 : at - w->before;
        int64_t last = w->after < 0 ? columns - 1 : at + w->after;
        if (last < first || last < 0 || first > columns - 1) return true;
    }
    return false;
}

static struct kit_arg softmax_windowed(struct kit_build *b, struct kit_arg scores,
                                       const struct softmax_window *w)
{
    const struct bp_view *type = npu_type(b, scores);
    int64_t rows = type->shape[type->rank - 2], columns = type->shape[type->rank - 1];

    if (w->after >= 0)
        softmax_hidden(b, scores,
                       softmax_triangle(b, "Triu", rows, columns, columns - rows + w->after + 1),
                       -INFINITY);
    if (w->before >= 0)
        softmax_hidden(b, scores,
                       softmax_triangle(b, "Tril", rows, columns, columns - rows - w->before - 1),
                       -INFINITY);
    return scores;
}

static struct kit_arg softmax_add_mask(struct kit_build *b, struct kit_arg scores,
                                       struct kit_arg mask)
{
    if (!npu_is_given(b, mask)) return scores;
    if (npu_type(b, mask)->dtype == BP_BOOL)
        return softmax_hidden(b, scores, part_one(b, "LogicalNot", mask), -INFINITY);
    return part_add(b, scores, npu_wide(b, mask));
}

/* Softmax along the last axis. zeros: a line of which nothing is seen is 0. */
static struct kit_arg softmax_lines(struct kit_build *b, struct kit_arg scores, bool zeros)
{
    const struct bp_view *type = npu_type(b, scores);
    uint32_t last = type->rank - 1u;
    struct kit_arg p = npu_like(b, scores, type->dtype), most, least, none;
    int64_t shape[KIT_AXES_MAX], axis[1] = {last};

    KIT_STEP(b, "Softmax", scores, KIT_INT_IS(last), p);
    if (!zeros || b->status) return p;
    for (uint32_t i = 0; i < last; i++) shape[i] = type->shape[i];
    shape[last] = 1;
    most = kit_temporary(b, type->dtype, type->rank, shape);
    KIT_STEP(b, "Amax", scores, kit_array(b, axis, 1), KIT_INT_IS(1), most);
    least = npu_filled(b, type->dtype, 0, NULL, -INFINITY);
    none = kit_temporary(b, BP_BOOL, type->rank, shape);
    KIT_STEP(b, "EqTensor", most, least, none);
    return softmax_hidden(b, p, none, 0);
}

/* A copy of x as f32 for half types, which steps may change. */
static struct kit_arg softmax_scores(struct kit_build *b, struct kit_arg x)
{
    struct kit_arg copy;

    if (part_is_half(npu_type(b, x)->dtype)) return npu_wide(b, x);
    copy = npu_like(b, x, npu_type(b, x)->dtype);
    KIT_STEP(b, "InplaceCopy", copy, x);
    return copy;
}

enum bp_status npu_build_masked_softmax(struct kit_build *b)
{
    const struct bp_masked_softmax_attrs *a = b->attrs;
    const struct softmax_window window = {-1, a->causal ? 0 : -1};
    struct kit_arg scores;
    bool zeros;

    if (npu_is_empty(b, NPU_OUT(0))) return b->status;
    scores = softmax_add_mask(b, softmax_scores(b, NPU_IN(0)), NPU_IN(1));
    zeros = npu_is_given(b, NPU_IN(1)) ||
            (a->causal && softmax_hides_lines(&window, npu_type(b, NPU_IN(0))));
    if (a->causal) softmax_windowed(b, scores, &window);
    npu_finish(b, softmax_lines(b, scores, zeros), NPU_OUT(0));
    return b->status;
}

/* k or v of heads that several heads of q share: for each head of q. */
static struct kit_arg attention_heads(struct kit_build *b, struct kit_arg x, int64_t shared)
{
    const struct bp_view *type = npu_type(b, x);
    uint32_t r = type->rank;
    int64_t apart[KIT_AXES_MAX], many[KIT_AXES_MAX], together[KIT_AXES_MAX];
    struct kit_arg all;

    if (shared == 1) return x;
    if (r == KIT_AXES_MAX) {
        kit_refuse(b);
        return x;
    }
    for (uint32_t i = 0, at = 0; i < r; i++) {
        together[i] = i == r - 3 ? type->shape[i] * shared : type->shape[i];
        apart[at] = many[at] = type->shape[i];
        at++;
        if (i != r - 3) continue;
        apart[at] = 1;
        many[at++] = shared;
    }
    all = kit_temporary(b, type->dtype, r + 1, many);
    KIT_STEP(b, "Expand", kit_reshaped(b, x, r + 1, apart), kit_array(b, many, r + 1), all);
    return kit_reshaped(b, all, r, together);
}

/* Matrices in one axis. */
static struct kit_arg attention_flat(struct kit_build *b, struct kit_arg x)
{
    const struct bp_view *type = npu_type(b, x);
    int64_t shape[3] = {1, 0, 0};

    if (b->status) return x;
    for (uint32_t i = 0; i + 2 < type->rank; i++) shape[0] *= type->shape[i];
    shape[1] = type->shape[type->rank - 2];
    shape[2] = type->shape[type->rank - 1];
    return kit_reshaped(b, x, 3, shape);
}

static struct kit_arg attention_soft(struct kit_build *b, struct kit_arg scores, double cap)
{
    if (cap == 0) return scores;
    return npu_times(b, part_one(b, "Tanh", npu_times(b, scores, 1 / cap)), cap);
}

static struct softmax_window attention_window(const struct bp_attention_attrs *a)
{
    struct softmax_window w = {-1, -1};

    if (a->window.n) w = (struct softmax_window){a->window.at[0], a->window.at[1]};
    if (a->causal) w.after = 0;
    return w;
}

/* Hides the scores for which a comparison of j - i, or of j, with a number for each list of queries
 * is true; i and j are the numbers of query and key. */
static void attention_compare(struct kit_build *b, struct kit_arg scores, struct kit_arg place,
                              const char *function, struct kit_arg number, int64_t plus)
{
    const struct bp_view *type = npu_type(b, scores), *limits = npu_type(b, number);
    int64_t shape[KIT_AXES_MAX];
    uint32_t rank = type->rank;
    struct kit_arg limit = npu_like(b, number, limits->dtype), hidden;

    if (b->status) return;
    KIT_STEP(b, "Adds", number, KIT_SCALAR_IS(plus), KIT_SCALAR_IS(1), limit);
    for (uint32_t i = 0; i < rank; i++) shape[i] = limits->shape[i];
    shape[rank - 1] = npu_type(b, place)->shape[1];
    shape[rank - 2] = npu_type(b, place)->shape[0];
    hidden = kit_temporary(b, BP_BOOL, rank, shape);
    KIT_STEP(b, function, place, limit, hidden);
    softmax_hidden(b, scores, hidden, -INFINITY);
}

/* Hides keys by the lengths: those from the length on, and by windows that end at it. */
static void attention_lengths(struct kit_build *b, struct kit_arg scores,
                              const struct softmax_window *w)
{
    const struct bp_view *type = npu_type(b, scores), *given = npu_type(b, NPU_IN(4));
    int64_t shape[KIT_AXES_MAX], rows = type->shape[type->rank - 2];
    int64_t columns = type->shape[type->rank - 1];
    const int64_t line[2] = {1, columns}, column[2] = {rows, 1}, flat[1] = {columns};
    const int64_t flat_rows[1] = {rows}, both[2] = {rows, columns};
    struct kit_arg length, key, query, place;

    for (uint32_t i = 0; i < type->rank; i++) shape[i] = i < given->rank ? given->shape[i] : 1;
    length = part_cast(b, kit_reshaped(b, NPU_IN(4), type->rank, shape), BP_I64);
    key = kit_temporary(b, BP_I64, 1, flat);
    KIT_STEP(b, "Arange", KIT_SCALAR_IS(0), KIT_SCALAR_IS(columns), KIT_SCALAR_IS(1), key);
    key = kit_reshaped(b, key, 2, line);
    attention_compare(b, scores, key, "GeTensor", length, 0);
    if (w->before < 0 && w->after < 0) return;
    query = kit_temporary(b, BP_I64, 1, flat_rows);
    KIT_STEP(b, "Arange", KIT_SCALAR_IS(0), KIT_SCALAR_IS(rows), KIT_SCALAR_IS(1), query);
    place = kit_temporary(b, BP_I64, 2, both);
    KIT_STEP(b, "Sub", key, kit_reshaped(b, query, 2, column), KIT_SCALAR_IS(1), place);
    if (w->after >= 0) attention_compare(b, scores, place, "GtTensor", length, w->after - rows);
    if (w->before >= 0) attention_compare(b, scores, place, "LtTensor", length, -rows - w->before);
}

/* q k^T for each head, in the dtype of the computation. */
static struct kit_arg attention_scores(struct kit_build *b, double scale, int64_t shared)
{
    const struct bp_view *q = npu_type(b, NPU_IN(0)), *k = npu_type(b, NPU_IN(1));
    uint32_t r = q->rank;
    int64_t shape[KIT_AXES_MAX];
    struct kit_arg left, keys, scores;

    for (uint32_t i = 0; i + 1 < r; i++) shape[i] = q->shape[i];
    shape[r - 1] = k->shape[r - 2];
    scores = kit_temporary(b, part_is_half(q->dtype) ? BP_F32 : q->dtype, r, shape);
    if (!q->count) {
        npu_fill(b, scores, 0);
        return scores;
    }
    left = npu_times(b, npu_wide(b, NPU_IN(0)), scale);
    keys = attention_heads(b, npu_wide(b, NPU_IN(1)), shared);
    KIT_STEP(b, "BatchMatMul", attention_flat(b, left), npu_swapped(b, attention_flat(b, keys)),
             attention_flat(b, scores), NPU_CUBE);
    return scores;
}

static double attention_scale(const struct bp_attention_attrs *a, const struct bp_view *q)
{
    return a->scale != 0 ? a->scale : 1 / sqrt((double)q->shape[q->rank - 1]);
}

/* softmax(scale q k^T + mask) v, by products of matrices. */
enum bp_status npu_build_attention(struct kit_build *b)
{
    const struct bp_attention_attrs *a = b->attrs;
    const struct bp_view *q = npu_type(b, NPU_IN(0)), *k = npu_type(b, NPU_IN(1));
    struct softmax_window w = attention_window(a);
    bool length = npu_is_given(b, NPU_IN(4)), zeros = length || npu_is_given(b, NPU_IN(3));
    struct kit_arg scores, p, y = NPU_OUT(0);
    int64_t shared;

    if (b->status || npu_is_empty(b, y)) return b->status;
    if (q->rank < 3) return kit_refuse(b);
    if (!k->shape[k->rank - 2]) {
        npu_fill(b, y, 0);
        return b->status;
    }
    shared = q->shape[q->rank - 3] / k->shape[k->rank - 3];
    scores = attention_scores(b, attention_scale(a, q), shared);
    scores = softmax_add_mask(b, attention_soft(b, scores, a->softcap), NPU_IN(3));
    if (length) attention_lengths(b, scores, &w);
    else softmax_windowed(b, scores, &w);
    zeros |= softmax_hides_lines(&w, npu_type(b, scores));
    p = softmax_lines(b, scores, zeros);
    if (part_is_half(q->dtype)) y = npu_like(b, NPU_OUT(0), BP_F32);
    KIT_STEP(b, "BatchMatMul", attention_flat(b, p),
             attention_flat(b, attention_heads(b, npu_wide(b, NPU_IN(2)), shared)),
             attention_flat(b, y), NPU_CUBE);
    if (part_is_half(q->dtype)) npu_cast(b, y, NPU_OUT(0));
    return b->status;
}

/* By the vendor's one function, which has no rule for queries that see nothing: only without masks,
 * and where each query sees a key. */
enum bp_status npu_build_attention_flash(struct kit_build *b)
{
    const struct bp_attention_attrs *a = b->attrs;
    const struct bp_view *q = npu_type(b, NPU_IN(0)), *k = npu_type(b, NPU_IN(1));
    const struct bp_view *v = npu_type(b, NPU_IN(2));
    int64_t shape[4];
    struct kit_arg hidden = NPU_NONE;

    if (b->status || npu_is_empty(b, NPU_OUT(0))) return b->status;
    if (npu_is_given(b, NPU_IN(3)) || npu_is_given(b, NPU_IN(4)) || a->window.n ||
        a->softcap != 0 || q->rank != 4 || !q->count || !k->count || v->shape[3] != q->shape[3] ||
        (a->causal && q->shape[2] > k->shape[2]))
        return kit_refuse(b);
    if (a->causal)
        hidden = softmax_triangle(b, "Triu", q->shape[2], k->shape[2],
                                  k->shape[2] - q->shape[2] + 1);
    for (int i = 0; i < 3; i++) shape[i] = q->shape[i];
    shape[3] = 8; /* the vendor's function keeps each statistic eight times */
    return KIT_STEP(b, "FlashAttentionScore", NPU_IN(0), NPU_IN(1), NPU_IN(2), NPU_NONE, NPU_NONE,
                    NPU_NONE, hidden, NPU_NONE, KIT_DOUBLE_IS(attention_scale(a, q)),
                    KIT_DOUBLE_IS(1), KIT_INT_IS(INT32_MAX), KIT_INT_IS(INT32_MAX),
                    KIT_INT_IS(q->shape[1]), KIT_TEXT_IS("BNSD"), KIT_INT_IS(0), KIT_INT_IS(0),
                    kit_temporary(b, BP_F32, 4, shape), kit_temporary(b, BP_F32, 4, shape),
                    NPU_NONE, NPU_OUT(0));
}

/* Writes a part of the result of a rotation: to an output of a half type by a cast. */
static void rotary_write(struct kit_build *b, struct kit_arg left, struct kit_arg right,
                         const char *function, struct kit_arg out)
{
    if (part_is_half(npu_type(b, out)->dtype))
        npu_cast(b, function[0] == 'A' ? part_add(b, left, right) : part_sub(b, left, right), out);
    else KIT_STEP(b, function, left, right, KIT_SCALAR_IS(1), out);
}

/* A part of the last axis: the first or the second elements of all pairs. */
static struct kit_arg rotary_part(struct kit_build *b, struct kit_arg x, int64_t pairs,
                                  bool interleaved, int64_t which)
{
    if (interleaved) return npu_part(b, x, 3, which, pairs, 2);
    return npu_part(b, x, 3, which * pairs, pairs, 1);
}

/* The cosines or sines for each position of x: rows of a table, or a table as it is. */
static struct kit_arg rotary_table(struct kit_build *b, struct kit_arg table, struct kit_arg rows)
{
    const struct bp_view *type = npu_type(b, table), *at = npu_type(b, NPU_IN(3));
    int64_t shape[4] = {type->shape[0], 1, type->shape[1], type->shape[type->rank - 1]};
    struct kit_arg taken = table;

    if (npu_is_given(b, rows)) {
        const int64_t flat[2] = {at->count, shape[3]};
        shape[0] = at->shape[0], shape[2] = at->shape[1];
        taken = kit_temporary(b, type->dtype, 2, flat);
        KIT_STEP(b, "IndexSelect", table, KIT_INT_IS(0), rows, taken);
    }
    return npu_wide(b, kit_reshaped(b, taken, 4, shape));
}

enum bp_status npu_build_rotary_embedding(struct kit_build *b)
{
    const struct bp_rotary_embedding_attrs *a = b->attrs;
    const struct bp_view *x = npu_type(b, NPU_IN(0)), *table = npu_type(b, NPU_IN(1));
    struct kit_arg first, second, cosine, sine, wide, y = NPU_OUT(0), rows = NPU_NONE;
    int64_t pairs;

    if (b->status || npu_is_empty(b, y)) return b->status;
    pairs = table->shape[table->rank - 1];
    if (2 * pairs < x->shape[3])
        KIT_STEP(b, "InplaceCopy", npu_part(b, y, 3, 2 * pairs, x->shape[3] - 2 * pairs, 1),
                 npu_part(b, NPU_IN(0), 3, 2 * pairs, x->shape[3] - 2 * pairs, 1));
    if (npu_is_given(b, NPU_IN(3)))
        rows = npu_guard(b, kit_reshaped(b, NPU_IN(3), 1, &npu_type(b, NPU_IN(3))->count),
                         table->shape[0], false);
    if (!pairs) return b->status;
    wide = npu_wide(b, NPU_IN(0));
    cosine = rotary_table(b, NPU_IN(1), rows);
    sine = rotary_table(b, NPU_IN(2), rows);
    first = rotary_part(b, wide, pairs, a->interleaved, 0);
    second = rotary_part(b, wide, pairs, a->interleaved, 1);
    rotary_write(b, npu_mul(b, first, cosine), npu_mul(b, second, sine), "Sub",
                 rotary_part(b, y, pairs, a->interleaved, 0));
    rotary_write(b, npu_mul(b, first, sine), npu_mul(b, second, cosine), "Add",
                 rotary_part(b, y, pairs, a->interleaved, 1));
    return b->status;
}

/* x gate s(alpha gate), s the logistic function. */
enum bp_status npu_build_swiglu(struct kit_build *b)
{
    const struct bp_swiglu_attrs *a = b->attrs;
    struct kit_arg gate, t;

    if (npu_is_empty(b, NPU_OUT(0))) return b->status;
    gate = npu_wide(b, NPU_IN(0));
    if (a->alpha == 1) t = part_one(b, "Silu", gate);
    else t = npu_mul(b, gate, part_one(b, "Sigmoid", npu_times(b, gate, a->alpha)));
    npu_finish(b, npu_mul(b, npu_wide(b, NPU_IN(1)), t), NPU_OUT(0));
    return b->status;
}

enum bp_status npu_build_glu(struct kit_build *b)
{
    const struct bp_glu_attrs *a = b->attrs;
    const struct bp_view *x = npu_type(b, NPU_IN(0));
    struct kit_arg wide;
    uint32_t axis;
    int64_t half;

    if (b->status || npu_is_empty(b, NPU_OUT(0))) return b->status;
    axis = npu_axis(a->axis, x->rank);
    half = x->shape[axis] / 2;
    wide = npu_wide(b, NPU_IN(0));
    npu_finish(b,
               npu_mul(b, npu_part(b, wide, axis, 0, half, 1),
                       part_one(b, "Sigmoid", npu_part(b, wide, axis, half, half, 1))),
               NPU_OUT(0));
    return b->status;
}
