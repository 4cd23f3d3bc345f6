/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: infers shapes of medians, quantiles, masked_scatter, clip_by_norm and accuracy, and
 * decomposes them; medians and quantiles sort. */
#include <call/compose.h>
#include <call/shape.h>

#include <backplane/attrs.h>
#include <inttypes.h>
#include <math.h>

/* The first attributes of median, nanmedian and quantile. */
struct middle {
    size_t size;
    int64_t axis, flatten, keep;
};

/* Sets the type of x without the axis, and the length n of a line. Fails if n is 0. */
static enum bp_status quantile_lines_of(struct bp_invocation *inv, struct bp_type *out,
                                        int64_t *out_n)
{
    const struct middle *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);
    uint32_t axis = 0;

    if (!a->flatten) TRY(bp_shape_axis(inv, a->axis, x->rank, &axis));
    *out_n = a->flatten ? x->count : x->shape[axis];
    if (!*out_n)
        return bp_error(BP_ERR_INVALID, "%s: there are no values along axis, expected one or more",
                        inv->row->info.name);
    return bp_shape_reduce(inv, x, (struct bp_dims){&(int64_t){axis}, !a->flatten}, a->keep, out);
}

enum bp_status bp_infer_median(struct bp_invocation *inv)
{
    int64_t n;

    TRY(quantile_lines_of(inv, &inv->out[0], &n));
    if (n <= 1 << 23 || inv->row == &bp_opdef[BP_ROW_median]) return BP_OK;
    return bp_error(BP_ERR_INVALID, "nanmedian: %" PRId64 " values along axis, at most %d", n,
                    1 << 23);
}

enum bp_status bp_infer_quantile(struct bp_invocation *inv)
{
    const struct bp_view *q = bp_invocation_in(inv, 1);
    struct bp_type one, *out = &inv->out[0];
    int64_t n;

    TRY(quantile_lines_of(inv, &one, &n));
    if (q->rank > 1)
        return bp_error(BP_ERR_INVALID, "quantile: q has %u axes, expected one or none", q->rank);
    if (one.rank + q->rank > BP_RANK_MAX)
        return bp_error(BP_ERR_INVALID, "quantile: the result would have %u axes, at most %d",
                        one.rank + q->rank, BP_RANK_MAX);
    out->rank = one.rank + q->rank;
    if (q->rank) out->shape[0] = q->shape[0];
    for (uint32_t i = 0; i < one.rank; i++) out->shape[q->rank + i] = one.shape[i];
    return BP_OK;
}

/* Sorted lines; half types are sorted in f32. */
struct lines {
    struct bp_tensor *x, *sorted;
    int64_t axis, n;
};

static struct lines sorted_of(struct bp_compose *c, struct bp_tensor *x, const struct middle *a)
{
    struct bp_sort_attrs sort = {.size = sizeof sort};
    struct lines l = {NULL, NULL, 0, 1};
    static const int64_t line = -1;

    if (a->flatten) x = bp_compose_reshape(c, x, 1, &line);
    l.x = x = bp_compose_widen(c, x);
    if (c->status) return l;
    l.axis = a->flatten ? 0 : a->axis < 0 ? a->axis + x->view.rank : a->axis;
    l.n = x->view.shape[l.axis];
    sort.axis = l.axis;
    l.sorted = MAKE(c, sort, &sort, x);
    return l;
}

/* Returns element i of each sorted line; the axis stays, with extent 1. */
static struct bp_tensor *quantile_at(struct bp_compose *c, const struct lines *l, int64_t i)
{
    int64_t end = i + 1;
    struct bp_slice_attrs one = {
        .size = sizeof one, .starts = {&i, 1}, .ends = {&end, 1}, .axes = {&l->axis, 1}};

    return MAKE(c, slice, &one, l->sorted);
}

/* Returns y, or NaN where the last element of a sorted line is NaN. */
static struct bp_tensor *or_nan(struct bp_compose *c, const struct lines *l, struct bp_tensor *y)
{
    struct bp_tensor *last = quantile_at(c, l, l->n - 1);

    return MAKE(c, where, NULL, MAKE(c, isnan, NULL, last), last, y);
}

/* Sets the output to y, in the shape of x without the axis and in the dtype of x. */
static enum bp_status quantile_give(struct bp_decomposition *e, struct bp_compose *c,
                                    const struct lines *l, struct bp_tensor *y)
{
    const struct middle *a = e->attrs;
    const struct bp_view *x = &e->in[0]->view;
    int64_t shape[BP_RANK_MAX], axis = l->axis;
    uint32_t rank = 0;

    for (uint32_t i = 0; i < x->rank; i++) {
        bool goes = a->flatten || (int64_t)i == axis;
        if (!goes || a->keep) shape[rank++] = goes ? 1 : x->shape[i];
    }
    y = bp_compose_cast(c, bp_compose_reshape(c, y, rank, shape), x->dtype);
    bp_compose_keep(c, y, &e->out[0]);
    return bp_compose_end(c);
}

static struct bp_tensor *mean_of(struct bp_compose *c, struct bp_tensor *a, struct bp_tensor *b)
{
    return bp_compose_scale(c, MAKE(c, add, NULL, a, b), 0.5, 0);
}

enum bp_status bp_decompose_median(struct bp_decomposition *e)
{
    const struct bp_median_attrs *a = e->attrs;
    struct bp_compose c = bp_compose_begin(e->scope);
    struct lines l = sorted_of(&c, e->in[0], e->attrs);
    struct bp_tensor *y = quantile_at(&c, &l, (l.n - 1) / 2);

    if (l.n % 2 == 0 && !a->lower) y = mean_of(&c, y, quantile_at(&c, &l, l.n / 2));
    return quantile_give(e, &c, &l, or_nan(&c, &l, y));
}

/* Gathers the sorted values at positions, which are integers in a float dtype. */
static struct bp_tensor *at_places(struct bp_compose *c, const struct lines *l,
                                   struct bp_tensor *place)
{
    struct bp_clip_attrs ends = {.size = sizeof ends, .min = 0, .max = (double)(l->n - 1)};
    struct bp_take_along_axis_attrs along = {.size = sizeof along, .axis = l->axis};

    place = bp_compose_cast(c, MAKE(c, clip, &ends, place), BP_I64);
    return MAKE(c, take_along_axis, &along, l->sorted, place);
}

/* The two middle positions of m numbers are ceil(m / 2) - 1 and floor(m / 2). */
enum bp_status bp_decompose_nanmedian(struct bp_decomposition *e)
{
    const struct bp_nanmedian_attrs *a = e->attrs;
    struct bp_compose c = bp_compose_begin(e->scope);
    struct lines l = sorted_of(&c, e->in[0], e->attrs);
    struct bp_count_nonzero_attrs count = {.size = sizeof count, .axes = {&l.axis, 1}, .keep = 1};
    struct bp_tensor *half, *y;

    half = MAKE(&c, logical_not, NULL, MAKE(&c, isnan, NULL, l.x));
    half = bp_compose_cast(&c, MAKE(&c, count_nonzero, &count, half), BP_F32);
    half = bp_compose_scale(&c, half, 0.5, 0);
    y = at_places(&c, &l, bp_compose_scale(&c, MAKE(&c, ceil, NULL, half), 1, -1));
    if (!a->lower) y = mean_of(&c, y, at_places(&c, &l, MAKE(&c, floor, NULL, half)));
    return quantile_give(e, &c, &l, y);
}

/* Gathers the sorted values at positions along the axis of the lines, where q becomes the axis. */
static struct bp_tensor *quantile_gathered(struct bp_compose *c, const struct lines *l,
                                           struct bp_tensor *place)
{
    struct bp_gather_attrs along = {.size = sizeof along, .axis = l->axis};

    return MAKE(c, gather, &along, l->sorted, bp_compose_cast(c, place, BP_I64));
}

/* Moves the axis of q to the front, reshapes to the result's shape, and sets the output. */
static enum bp_status give_quantiles(struct bp_decomposition *e, struct bp_compose *c,
                                     const struct lines *l, struct bp_tensor *y)
{
    const struct middle *a = e->attrs;
    const struct bp_view *x = &e->in[0]->view, *q = &e->in[1]->view;
    int64_t shape[BP_RANK_MAX], perm[BP_RANK_MAX];
    struct bp_transpose_attrs order = {.size = sizeof order};
    uint32_t rank = 0;

    if (c->status) return bp_compose_end(c);
    for (uint32_t i = 0; i < y->view.rank; i++)
        perm[i] = i == 0 ? l->axis : (int64_t)i <= l->axis ? (int64_t)i - 1 : (int64_t)i;
    order.perm = (struct bp_dims){perm, y->view.rank};
    if (q->rank) shape[rank++] = q->shape[0];
    for (uint32_t i = 0; i < x->rank; i++) {
        bool goes = a->flatten || (int64_t)i == l->axis;
        if (!goes || a->keep) shape[rank++] = goes ? 1 : x->shape[i];
    }
    y = bp_compose_reshape(c, MAKE(c, transpose, &order, y), rank, shape);
    bp_compose_keep(c, bp_compose_cast(c, y, x->dtype), &e->out[0]);
    return bp_compose_end(c);
}

enum bp_status bp_decompose_quantile(struct bp_decomposition *e)
{
    struct bp_compose c = bp_compose_begin(e->scope);
    struct lines l = sorted_of(&c, e->in[0], e->attrs);
    struct bp_clip_attrs ends = {.size = sizeof ends, .min = 0, .max = 1};
    struct bp_tensor *place, *low, *part, *v, *w;
    int64_t shape[BP_RANK_MAX], n = e->in[1]->view.count;

    if (c.status) return bp_compose_end(&c);
    place = bp_compose_reshape(&c, bp_compose_widen(&c, e->in[1]), 1, &n);
    place = bp_compose_scale(&c, MAKE(&c, clip, &ends, place), (double)(l.n - 1), 0);
    low = MAKE(&c, floor, NULL, place);
    for (uint32_t i = 0; i < l.x->view.rank; i++) shape[i] = (int64_t)i == l.axis ? n : 1;
    part = bp_compose_reshape(&c, MAKE(&c, sub, NULL, place, low), l.x->view.rank, shape);
    v = quantile_gathered(&c, &l, low);
    w = quantile_gathered(&c, &l, MAKE(&c, ceil, NULL, place));
    v = MAKE(&c, where, NULL, MAKE(&c, equal, NULL, v, w), v,
             MAKE(&c, add, NULL, v, MAKE(&c, mul, NULL, part, MAKE(&c, sub, NULL, w, v))));
    return give_quantiles(e, &c, &l, or_nan(&c, &l, v));
}

enum bp_status bp_infer_masked_scatter(struct bp_invocation *inv)
{
    static const uint32_t both[] = {0, 1};
    const struct bp_view *x = bp_invocation_in(inv, 0), *mask = bp_invocation_in(inv, 1);
    struct bp_type *out = &inv->out[0];

    TRY(bp_shape_broadcast(inv, both, 2, 0, out));
    if (out->rank != x->rank || memcmp(out->shape, x->shape, x->rank * sizeof *x->shape)) {
        char a[BP_TYPE_TEXT], b[BP_TYPE_TEXT];
        return bp_error(BP_ERR_INVALID,
                        "masked_scatter: mask is %s, which does not broadcast to x, %s",
                        bp_type_text(mask->dtype, mask->rank, mask->shape, a, sizeof a),
                        bp_type_text(x->dtype, x->rank, x->shape, b, sizeof b));
    }
    if (x->count && !bp_invocation_in(inv, 2)->count)
        return bp_error(BP_ERR_INVALID, "masked_scatter: source has no elements, expected some");
    return BP_OK;
}

/* The index into `source` for an element of x is the number of true mask elements before it: for a
 * running count k that includes the element, ~(-k) is k - 1. An index of -1 counts from the end;
 * `where` discards its value. */
enum bp_status bp_decompose_masked_scatter(struct bp_decomposition *e)
{
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *x = e->in[0], *place, *put;
    struct bp_expand_attrs all = {.size = sizeof all, .shape = {x->shape, x->view.rank}};
    struct bp_cumsum_attrs sum = {.size = sizeof sum, .axis = 0};
    int64_t line = x->view.count, whole = e->in[2]->view.count;

    if (!line) {
        bp_compose_keep(&c, MAKE(&c, assign, NULL, x), &e->out[0]);
        return bp_compose_end(&c);
    }
    place = MAKE(&c, assign, NULL, MAKE(&c, expand, &all, e->in[1], NULL));
    place = bp_compose_cast(&c, bp_compose_reshape(&c, place, 1, &line), BP_I64);
    place = MAKE(&c, neg, NULL, MAKE(&c, cumsum, &sum, place));
    place = MAKE(&c, bitwise_not, NULL, place);
    put = MAKE(&c, gather, NULL, bp_compose_reshape(&c, e->in[2], 1, &whole), place);
    put = bp_compose_reshape(&c, put, x->view.rank, x->shape);
    bp_compose_keep(&c, MAKE(&c, where, NULL, e->in[1], put, x), &e->out[0]);
    return bp_compose_end(&c);
}

enum bp_status bp_infer_clip_by_norm(struct bp_invocation *inv)
{
    const struct bp_clip_by_norm_attrs *a = inv->attrs;

    if (!(a->max_norm > 0 && isfinite(a->max_norm)))
        return bp_error(BP_ERR_INVALID,
                        "clip_by_norm: attribute max_norm is %g, expected a finite number above 0",
                        a->max_norm);
    bp_shape_copy(&inv->out[0], bp_invocation_in(inv, 0));
    return BP_OK;
}

enum bp_status bp_decompose_clip_by_norm(struct bp_decomposition *e)
{
    const struct bp_clip_by_norm_attrs *a = e->attrs;
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_norm_attrs whole = {.size = sizeof whole, .p = 2};
    struct bp_clip_attrs below = {.size = sizeof below, .min = a->max_norm, .max = INFINITY},
                         above = {.size = sizeof above, .min = -INFINITY, .max = a->max_norm};
    struct bp_tensor *x = bp_compose_widen(&c, e->in[0]), *norm = MAKE(&c, norm, &whole, x), *y;

    y = MAKE(&c, reciprocal, NULL, MAKE(&c, clip, &below, norm));
    y = MAKE(&c, mul, NULL, x, bp_compose_scale(&c, y, a->max_norm, 0));
    y = MAKE(&c, where, NULL, MAKE(&c, less_equal, NULL, norm, MAKE(&c, clip, &above, norm)), x, y);
    bp_compose_keep(&c, bp_compose_cast(&c, y, e->in[0]->view.dtype), &e->out[0]);
    return bp_compose_end(&c);
}

enum bp_status bp_infer_accuracy(struct bp_invocation *inv)
{
    const struct bp_view *index = bp_invocation_in(inv, 0), *label = bp_invocation_in(inv, 1);
    bool fits = index->rank == 2 && index->shape[0] && index->shape[1] &&
                (label->rank == 1 || (label->rank == 2 && label->shape[1] == 1));
    char a[BP_TYPE_TEXT], b[BP_TYPE_TEXT];

    inv->out[0].dtype = BP_F32;
    inv->out[1].dtype = inv->out[2].dtype = BP_I32;
    if (fits && label->shape[0] == index->shape[0]) return BP_OK;
    return bp_error(BP_ERR_INVALID,
                    "accuracy: index is %s and label is %s: expected N k and N, or N 1, with N and "
                    "k not 0",
                    bp_type_text(index->dtype, index->rank, index->shape, a, sizeof a),
                    bp_type_text(label->dtype, label->rank, label->shape, b, sizeof b));
}

enum bp_status bp_decompose_accuracy(struct bp_decomposition *e)
{
    struct bp_compose c = bp_compose_begin(e->scope);
    int64_t column[] = {e->in[0]->view.shape[0], 1}, last = 1;
    struct bp_any_attrs row = {.size = sizeof row, .axes = {&last, 1}};
    struct bp_tensor *label = bp_compose_reshape(&c, e->in[1], 2, column), *hit, *correct;

    hit = MAKE(&c, any, &row, MAKE(&c, equal, NULL, e->in[0], label));
    correct = MAKE(&c, sum, NULL, bp_compose_cast(&c, hit, BP_I32));
    bp_compose_keep(
        &c, bp_compose_scale(&c, bp_compose_cast(&c, correct, BP_F32), 1 / (double)column[0], 0),
        &e->out[0]);
    if (e->want >> 1 & 1) bp_compose_keep(&c, correct, &e->out[1]);
    if (e->want >> 2 & 1) {
        hit = MAKE(&c, logical_or, NULL, hit, MAKE(&c, logical_not, NULL, hit));
        bp_compose_keep(&c, MAKE(&c, sum, NULL, bp_compose_cast(&c, hit, BP_I32)), &e->out[2]);
    }
    return bp_compose_end(&c);
}
