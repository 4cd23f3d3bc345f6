/* SPDX-License-Identifier: Apache-2.0 */
/* shape_rows.c: has the rules of losses of vectors along the last axis, and of lists of classes. */
#include <call/shape.h>
#include "shape.h"

#include <backplane/attrs.h>
#include <inttypes.h>
#include <math.h>

static const int64_t last_axis = -1;

/* Sets out to the shape of x, of one axis or more, without its last axis. */
static enum bp_status rows_of(const struct bp_invocation *inv, struct bp_type *out)
{
    const struct bp_view *x = bp_invocation_in(inv, 0);

    if (!x->rank)
        return bp_error(BP_ERR_INVALID, "%s: x has no axes, expected one or more",
                        inv->row->info.name);
    bp_shape_copy(out, x);
    out->rank--;
    return BP_OK;
}

/* Checks that input port has the shape of x. */
static enum bp_status like_x(const struct bp_invocation *inv, uint32_t port)
{
    struct bp_type same;

    bp_shape_copy(&same, bp_invocation_in(inv, 0));
    return bp_shape_expect(inv, port, &same);
}

/* Checks that there is a factor for each entry of the last axis. */
static enum bp_status check_weight(const struct bp_invocation *inv, uint32_t port)
{
    const struct bp_view *x = bp_invocation_in(inv, 0);
    struct bp_type classes = {.rank = 1, .shape = {x->shape[x->rank - 1]}};

    return bp_invocation_in(inv, port) ? bp_shape_expect(inv, port, &classes) : BP_OK;
}

enum bp_status bp_infer_multi_label_soft(struct bp_invocation *inv)
{
    struct bp_type rows;

    TRY(rows_of(inv, &rows));
    TRY(like_x(inv, 1));
    TRY(check_weight(inv, 2));
    return bp_loss_result(inv, &rows, 2);
}

enum bp_status bp_infer_cosine_embedding(struct bp_invocation *inv)
{
    struct bp_type rows;

    TRY(rows_of(inv, &rows));
    TRY(like_x(inv, 1));
    TRY(bp_shape_expect(inv, 2, &rows));
    return bp_loss_result(inv, &rows, 2);
}

enum bp_status bp_infer_triplet_margin_loss(struct bp_invocation *inv)
{
    struct bp_type rows;

    TRY(rows_of(inv, &rows));
    TRY(like_x(inv, 1));
    TRY(like_x(inv, 2));
    return bp_loss_result(inv, &rows, 2);
}

enum bp_status bp_infer_multi_margin_loss(struct bp_invocation *inv)
{
    const struct bp_multi_margin_loss_attrs *a = inv->attrs;
    struct bp_type rows;

    if (a->p != 1 && a->p != 2)
        return bp_error(BP_ERR_INVALID,
                        "multi_margin_loss: attribute p is %" PRId64 ", expected 1 or 2", a->p);
    TRY(rows_of(inv, &rows));
    TRY(bp_shape_expect(inv, 1, &rows));
    TRY(check_weight(inv, 2));
    return bp_loss_result(inv, &rows, 2);
}

enum bp_status bp_infer_multi_label_margin(struct bp_invocation *inv)
{
    struct bp_type rows;

    TRY(rows_of(inv, &rows));
    TRY(like_x(inv, 1));
    if (rows.rank + 2 > BP_RANK_MAX)
        return bp_error(BP_ERR_INVALID,
                        "multi_label_margin_loss: x has %u axes, expected at most "
                        "%d",
                        rows.rank + 1, BP_RANK_MAX - 1);
    return bp_loss_result(inv, &rows, 2);
}

enum bp_status bp_infer_dice_loss(struct bp_invocation *inv)
{
    const struct bp_view *x = bp_invocation_in(inv, 0);
    struct bp_type rows, first = {.rank = 1};

    TRY(rows_of(inv, &rows));
    if (!rows.rank)
        return bp_error(BP_ERR_INVALID, "dice_loss: x has one axis, expected two or more");
    rows.shape[rows.rank++] = 1;
    TRY(bp_shape_expect(inv, 1, &rows));
    first.shape[0] = x->shape[0];
    return bp_loss_result(inv, &first, 2);
}

enum bp_status bp_infer_npair_loss(struct bp_invocation *inv)
{
    struct bp_type rows;

    TRY(rows_of(inv, &rows));
    if (rows.rank != 1)
        return bp_error(BP_ERR_INVALID, "npair_loss: x has %u axes, expected 2", rows.rank + 1);
    TRY(like_x(inv, 1));
    TRY(bp_shape_expect(inv, 2, &rows));
    inv->out[0].rank = 0;
    return BP_OK;
}

static struct bp_tensor *last_sum(struct bp_compose *c, struct bp_tensor *x, bool keep)
{
    return bp_compose_sum(c, x, &last_axis, 1, keep);
}

/* Divides t by the extent of the last axis of x. */
static struct bp_tensor *per_class(struct bp_loss *l, struct bp_tensor *t)
{
    const struct bp_tensor *x = l->e->in[0];

    return bp_compose_scale(&l->c, t, 1 / (double)x->shape[x->view.rank - 1], 0);
}

static struct bp_tensor *rows_mul(struct bp_compose *c, struct bp_tensor *a, struct bp_tensor *b)
{
    return MAKE(c, mul, NULL, a, b);
}

enum bp_status bp_decompose_multi_label_soft(struct bp_decomposition *e)
{
    struct bp_loss l = bp_loss_begin(e);
    struct bp_tensor *x = l.in[0], *y = l.in[1], *t, *rest;

    t = rows_mul(&l.c, y, MAKE(&l.c, log_sigmoid, NULL, x));
    rest = MAKE(&l.c, log_sigmoid, NULL, MAKE(&l.c, neg, NULL, x));
    rest = rows_mul(&l.c, bp_compose_scale(&l.c, y, -1, 1), rest);
    t = MAKE(&l.c, neg, NULL, MAKE(&l.c, add, NULL, t, rest));
    if (l.in[2]) t = rows_mul(&l.c, t, l.in[2]);
    return bp_loss_end(&l, per_class(&l, last_sum(&l.c, t, false)));
}

enum bp_status bp_decompose_cosine_embedding(struct bp_decomposition *e)
{
    double margin = ((const struct bp_cosine_embedding_loss_attrs *)e->attrs)->margin;
    struct bp_cosine_similarity_attrs a = {.size = sizeof a, .axis = -1, .epsilon = 1e-8};
    struct bp_loss l = bp_loss_begin(e);
    struct bp_tensor *cosine = MAKE(&l.c, cosine_similarity, &a, l.in[0], l.in[1]);
    struct bp_tensor *far = MAKE(&l.c, relu, NULL, bp_compose_scale(&l.c, cosine, 1, -margin));

    return bp_loss_end(&l, MAKE(&l.c, where, NULL, bp_loss_above(&l.c, l.in[2], 0),
                                bp_compose_scale(&l.c, cosine, -1, 1), far));
}

enum bp_status bp_decompose_triplet_margin(struct bp_decomposition *e)
{
    const struct bp_triplet_margin_loss_attrs *f = e->attrs;
    struct bp_pairwise_distance_attrs a = {.size = sizeof a, .p = f->p, .epsilon = f->epsilon};
    struct bp_loss l = bp_loss_begin(e);
    struct bp_tensor *near = MAKE(&l.c, pairwise_distance, &a, l.in[0], l.in[1]);
    struct bp_tensor *far = MAKE(&l.c, pairwise_distance, &a, l.in[0], l.in[2]);

    if (f->swap)
        far = MAKE(&l.c, minimum, NULL, far, MAKE(&l.c, pairwise_distance, &a, l.in[1], l.in[2]));
    near = bp_compose_scale(&l.c, MAKE(&l.c, sub, NULL, near, far), 1, f->margin);
    return bp_loss_end(&l, MAKE(&l.c, relu, NULL, near));
}

/* Truth values with a new last axis of extent n: true where its index is the class. */
static struct bp_tensor *rows_classes(struct bp_compose *c, struct bp_tensor *label, int64_t n)
{
    struct bp_one_hot_attrs hot = {
        .size = sizeof hot, .depth = n, .axis = -1, .dtype = BP_BOOL, .on = 1};

    return MAKE(c, one_hot, &hot, label);
}

enum bp_status bp_decompose_multi_margin(struct bp_decomposition *e)
{
    const struct bp_multi_margin_loss_attrs *a = e->attrs;
    struct bp_loss l = bp_loss_begin(e);
    struct bp_tensor *x = l.in[0], *hot, *own, *t;

    hot = rows_classes(&l.c, l.in[1], e->in[0]->shape[e->in[0]->view.rank - 1]);
    own = last_sum(&l.c, bp_loss_mask(&l.c, x, hot, false), true);
    t = bp_compose_scale(&l.c, MAKE(&l.c, sub, NULL, x, own), 1, a->margin);
    t = MAKE(&l.c, relu, NULL, t);
    if (a->p == 2) t = rows_mul(&l.c, t, t);
    t = last_sum(&l.c, bp_loss_mask(&l.c, t, hot, true), false);
    if (l.in[2])
        t = rows_mul(&l.c, t, last_sum(&l.c, bp_loss_mask(&l.c, l.in[2], hot, false), false));
    return bp_loss_end(&l, per_class(&l, t));
}

/* Returns which labels of a line count: those before the first negative one. *out_safe: the labels,
 * with 0 in place of those that do not count. */
static struct bp_tensor *rows_counting(struct bp_compose *c, struct bp_tensor *label,
                                       struct bp_tensor **out_safe)
{
    struct bp_cumprod_attrs along = {.size = sizeof along, .axis = -1};
    struct bp_tensor *counts = MAKE(c, greater_equal, NULL, label, bp_loss_clip(c, label, 0, 0));

    counts = MAKE(c, cumprod, &along, bp_compose_cast(c, counts, BP_I32));
    counts = bp_compose_cast(c, counts, BP_BOOL);
    *out_safe = bp_loss_mask(c, label, counts, false);
    return counts;
}

/* For each pair of a label j and a class i: max(0, 1 - x[j] + x[i]) where j counts and i is no
 * label. */
enum bp_status bp_decompose_multi_label_margin(struct bp_decomposition *e)
{
    struct bp_loss l = bp_loss_begin(e);
    struct bp_compose *c = &l.c;
    uint32_t rank = e->in[0]->view.rank;
    int64_t n = e->in[0]->shape[rank - 1], column[BP_RANK_MAX], line[BP_RANK_MAX], second = -2;
    struct bp_any_attrs any = {.size = sizeof any, .axes = {&second, 1}, .keep = 1};
    struct bp_take_along_axis_attrs take = {.size = sizeof take, .axis = -1};
    struct bp_tensor *safe, *counts = rows_counting(c, l.in[1], &safe), *hot, *labels, *t;

    for (uint32_t i = 0; i < rank; i++) column[i] = line[i] = e->in[0]->shape[i];
    column[rank] = 1;
    line[rank - 1] = 1;
    line[rank] = n;
    t = MAKE(c, take_along_axis, &take, l.in[0], safe);
    t = MAKE(c, sub, NULL, bp_compose_reshape(c, l.in[0], rank + 1, line),
             bp_compose_reshape(c, t, rank + 1, column));
    t = MAKE(c, relu, NULL, bp_compose_scale(c, t, 1, 1));
    counts = bp_compose_reshape(c, counts, rank + 1, column);
    hot = bp_loss_mask(c, rows_classes(c, safe, n), counts, false);
    labels = MAKE(c, any, &any, hot);
    t = bp_loss_mask(c, bp_loss_mask(c, t, counts, false), labels, true);
    return bp_loss_end(&l, per_class(&l, last_sum(c, last_sum(c, t, false), false)));
}

/* Sums over all axes except the first. */
static struct bp_tensor *rest_sum(struct bp_compose *c, struct bp_tensor *x)
{
    int64_t axes[BP_RANK_MAX], n = 0;

    if (c->status) return NULL;
    for (uint32_t i = 1; i < x->view.rank; i++) axes[n++] = i;
    return bp_compose_sum(c, x, axes, n, false);
}

enum bp_status bp_decompose_dice_loss(struct bp_decomposition *e)
{
    double epsilon = ((const struct bp_dice_loss_attrs *)e->attrs)->epsilon;
    struct bp_loss l = bp_loss_begin(e);
    const struct bp_tensor *x = e->in[0];
    uint32_t rank = x->view.rank;
    struct bp_tensor *label = bp_compose_reshape(&l.c, l.in[1], rank - 1, x->shape), *t, *all;
    double labels = 1;

    for (uint32_t i = 1; i + 1 < rank; i++) labels *= (double)x->shape[i];
    t = rest_sum(&l.c,
                 bp_loss_mask(&l.c, l.in[0], rows_classes(&l.c, label, x->shape[rank - 1]), false));
    all = bp_compose_scale(&l.c, rest_sum(&l.c, l.in[0]), 1, labels + epsilon);
    t = MAKE(&l.c, div, NULL, bp_compose_scale(&l.c, t, 2, 0), all);
    return bp_loss_end(&l, bp_compose_scale(&l.c, t, -1, 1));
}

enum bp_status bp_decompose_npair_loss(struct bp_decomposition *e)
{
    double reg = ((const struct bp_npair_loss_attrs *)e->attrs)->l2_reg;
    struct bp_loss l = bp_loss_begin(e);
    struct bp_compose *c = &l.c;
    int64_t n = e->in[0]->shape[0];
    uint32_t dtype = l.in[0] ? l.in[0]->view.dtype : BP_F32;
    struct bp_matmul_attrs transposed = {.size = sizeof transposed, .transpose_b = 1};
    struct bp_soft_cross_entropy_attrs soft = {.size = sizeof soft, .reduction = 1, .axis = -1};
    struct bp_tensor *x = l.in[0], *positive = l.in[1], *same, *t;

    same = MAKE(c, equal, NULL, bp_compose_reshape(c, l.in[2], 2, (int64_t[]){n, 1}),
                bp_compose_reshape(c, l.in[2], 2, (int64_t[]){1, n}));
    same = bp_compose_cast(c, same, dtype);
    same = MAKE(c, div, NULL, same, last_sum(c, same, true));
    t = MAKE(c, soft_cross_entropy, &soft, MAKE(c, matmul, &transposed, x, positive), same);
    x = MAKE(c, add, NULL, bp_loss_sum(c, rows_mul(c, x, x)),
             bp_loss_sum(c, rows_mul(c, positive, positive)));
    t = MAKE(c, add, NULL, t, bp_compose_scale(c, x, reg / 4 / (double)n, 0));
    bp_compose_keep(c, bp_compose_cast(c, t, e->in[0]->view.dtype), &e->out[0]);
    return bp_compose_end(c);
}
