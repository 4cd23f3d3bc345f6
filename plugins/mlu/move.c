/* SPDX-License-Identifier: Apache-2.0 */
/* move.c: builds the plans of rows that move elements. */
#include "rows.h"
#include <limits.h>
#include <string.h>

/* Moves elements without a change: cnnlCopy. */
static void move_copy(struct mlu_build *b, struct mlu_tensor x, struct mlu_tensor y)
{
    mlu_step_unary(b, FN_cnnlCopy, mlu_flat(x), mlu_flat(y));
}

/* Sorts the axes of a view from the largest stride to the smallest, and leaves out those of extent
 * 1. Axes of stride 0 come first. Returns how many there are. */
static uint32_t move_order(const struct bp_view *v, uint32_t order[8])
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < v->rank; i++) {
        uint32_t at = n;
        if (v->shape[i] == 1) continue;
        for (; at && v->stride[i] && v->stride[order[at - 1]] &&
               v->stride[order[at - 1]] < v->stride[i];
             at--)
            order[at] = order[at - 1];
        if (!v->stride[i])
            for (at = n; at && v->stride[order[at - 1]]; at--) order[at] = order[at - 1];
        order[at] = i;
        n++;
    }
    return n;
}

/* Takes views whose elements in memory are dense, in any order of axes: x is expanded along the
 * axes of stride 0, and then its axes are put into their order. */
void mlu_build_assign(struct mlu_build *b)
{
    const struct bp_view *x = b->prep->in[0], *y = b->prep->out[0];
    int64_t dense[8], expanded[8], result[8], at = 1;
    uint32_t order[8], n = move_order(x, order);
    struct mlu_tensor from = mlu_in(b, 0), to = mlu_out(b, 0);
    bool expands = false, turns = false;
    int turn[8];

    if (y->flags & BP_VIEW_STRIDED) {
        mlu_refuse(b);
        return;
    }
    if (!n) {
        move_copy(b, mlu_flat(from), mlu_flat(to));
        return;
    }
    for (uint32_t i = n; i-- > 0;) {
        int64_t stride = x->stride[order[i]];
        expanded[i] = x->shape[order[i]];
        dense[i] = stride ? expanded[i] : 1;
        expands |= !stride;
        if (stride && stride != at) mlu_refuse(b);
        if (stride) at *= expanded[i];
    }
    /* turn: for each axis of y, its place in the order of x. */
    for (uint32_t k = 0, i = 0; k < x->rank; k++)
        for (uint32_t j = 0; j < n; j++)
            if (order[j] == k) {
                turns |= j != i;
                result[i] = x->shape[k];
                turn[i++] = (int)j;
            }
    from = mlu_shaped(from, n, dense);
    if (expands) {
        struct mlu_tensor wide = turns ? mlu_temporary(b, x->dtype, n, expanded)
                                       : mlu_shaped(to, n, expanded);
        mlu_step_unary(b, FN_cnnlExpand, from, wide);
        from = wide;
    }
    if (turns) mlu_step_transpose(b, from, mlu_shaped(to, n, result), turn);
    else if (!expands) move_copy(b, from, to);
}

void mlu_build_full(struct mlu_build *b)
{
    mlu_step_full(b, offsetof(struct bp_full_attrs, value), mlu_out(b, 0));
}

void mlu_build_full_like(struct mlu_build *b)
{
    mlu_step_full(b, offsetof(struct bp_full_like_attrs, value), mlu_out(b, 0));
}

void mlu_build_fill(struct mlu_build *b)
{
    mlu_step_full(b, offsetof(struct bp_fill_attrs, value), mlu_out(b, 0));
}

void mlu_build_zeros(struct mlu_build *b)
{
    mlu_step_fill(b, 0, mlu_flat(mlu_out(b, 0)));
}

void mlu_build_ones(struct mlu_build *b)
{
    mlu_step_fill(b, 1, mlu_flat(mlu_out(b, 0)));
}

/* Joins n tensors of three axes into a temporary one. */
static struct mlu_tensor move_join_some(struct mlu_build *b, uint32_t n, const struct mlu_tensor *t)
{
    struct mlu_tensor y = t[0];

    for (uint32_t i = 1; i < n; i++) y.shape[1] += t[i].shape[1];
    y = mlu_temporary(b, y.dtype, 3, y.shape);
    mlu_step_concat(b, n, t, y);
    return y;
}

/* Joins all inputs: each is outer x its extent of axis x inner, or x 1 x without an axis. A call
 * takes at most MLU_PARTS tensors: more are joined in groups first. */
static void move_join(struct mlu_build *b, int64_t outer, int64_t inner, int64_t axis)
{
    struct mlu_tensor group[MLU_PARTS], t[MLU_PARTS];
    uint32_t groups = 0, n = 0;
    int64_t all = 0;

    for (uint32_t i = 0; i < b->prep->n_in; i++) {
        int64_t extent = axis < 0 ? 1 : b->prep->in[i]->shape[axis];
        if (!extent) continue;
        if (n == MLU_PARTS) {
            if (groups == MLU_PARTS - 1) {
                mlu_refuse(b);
                return;
            }
            group[groups++] = move_join_some(b, n, t);
            n = 0;
        }
        all += extent;
        t[n++] = mlu_shaped(mlu_in(b, i), 3, (int64_t[]){outer, extent, inner});
    }
    if (groups) {
        group[groups++] = move_join_some(b, n, t);
        n = groups;
    }
    mlu_step_concat(b, n, groups ? group : t,
                    mlu_shaped(mlu_out(b, 0), 3, (int64_t[]){outer, all, inner}));
}

/* The products of the extents in front of an axis and behind it. */
static void move_around(const struct bp_view *v, int64_t axis, int64_t *outer, int64_t *inner)
{
    *outer = *inner = 1;
    for (int64_t i = 0; i < v->rank; i++) {
        if (i < axis) *outer *= v->shape[i];
        if (i > axis) *inner *= v->shape[i];
    }
}

void mlu_build_concat(struct mlu_build *b)
{
    const struct bp_concat_attrs *attrs = b->prep->attrs;
    const struct bp_view *y = b->prep->out[0];
    int64_t axis = mlu_axis(attrs->axis, y->rank), outer, inner;

    move_around(y, axis, &outer, &inner);
    move_join(b, outer, inner, axis);
}

void mlu_build_stack(struct mlu_build *b)
{
    const struct bp_stack_attrs *attrs = b->prep->attrs;
    const struct bp_view *y = b->prep->out[0];
    int64_t axis = mlu_axis(attrs->axis, y->rank), outer, inner;

    move_around(y, axis, &outer, &inner);
    move_join(b, outer, inner, -1);
}

void mlu_build_tile(struct mlu_build *b)
{
    struct mlu_tensor y = mlu_out(b, 0);

    mlu_step_unary(b, FN_cnnlTile, mlu_ranked(mlu_in(b, 0), y.rank), y);
}

static int move_call_tri(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlTri(r->handle, (int)s->i[0], s->i[1] != 0, mlu_desc(s, 0),
                                 mlu_address(r, s, 0), mlu_desc(s, 1), mlu_address(r, s, 1));
}

/* Diagonals beyond the matrix are moved to its corners, which changes nothing. */
static void move_tri(struct mlu_build *b, int64_t diagonal, bool upper)
{
    const struct bp_view *x = b->prep->in[0];
    int64_t rows = x->shape[x->rank - 2], columns = x->shape[x->rank - 1];
    struct mlu_step *s = mlu_step(b, FN_cnnlTri, move_call_tri,
                                  MLU_TENSORS(mlu_in(b, 0), mlu_out(b, 0)));

    if (!s) return;
    if (rows > INT_MAX || columns > INT_MAX) mlu_refuse(b);
    s->i[0] = diagonal < -rows ? -rows : diagonal > columns ? columns : diagonal;
    s->i[1] = upper;
}

void mlu_build_tril(struct mlu_build *b)
{
    move_tri(b, ((const struct bp_tril_attrs *)b->prep->attrs)->diagonal, false);
}

void mlu_build_triu(struct mlu_build *b)
{
    move_tri(b, ((const struct bp_triu_attrs *)b->prep->attrs)->diagonal, true);
}
