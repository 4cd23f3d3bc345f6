/* SPDX-License-Identifier: Apache-2.0 */
/* shape_axes.c: has the rules of operators that view a tensor with other axes, and their
 * gradients. */
#include <call/compose.h>
#include "shape_axes.h"

#include <backplane/attrs.h>
#include <inttypes.h>

enum bp_status bp_rule_reshaped(struct bp_invocation *inv, uint32_t rank, const int64_t *shape)
{
    const char *name = inv->row->info.name;
    struct bp_extents from = bp_rule_extents(bp_invocation_in(inv, 0)), to;
    enum bp_status status = bp_extents_reshape(name, &from, rank, shape, &to);

    inv->view_copies = status == BP_ERR_UNSUPPORTED;
    if (inv->view_copies) {
        bp_type_strides(from.rank, from.shape, from.stride);
        status = bp_extents_reshape(name, &from, rank, shape, &to);
    }
    return status ? status : bp_rule_view(inv, &to);
}

enum bp_status bp_rule_axes(const struct bp_invocation *inv, struct bp_dims list, uint32_t rank,
                            uint32_t *out_axes)
{
    uint32_t axes = 0, axis;

    for (int64_t i = 0; i < list.n; i++) {
        TRY(bp_shape_axis(inv, list.at[i], rank, &axis));
        if (axes >> axis & 1)
            return bp_error(BP_ERR_INVALID, "%s: attribute axes names axis %u twice",
                            inv->row->info.name, axis);
        axes |= 1u << axis;
    }
    *out_axes = axes;
    return BP_OK;
}

static enum bp_status too_many_axes(const struct bp_invocation *inv, int64_t rank)
{
    return bp_error(BP_ERR_INVALID,
                    "%s: the result would have %" PRId64 " axes, at most %d are allowed",
                    inv->row->info.name, rank, BP_RANK_MAX);
}

enum bp_status bp_infer_squeeze(struct bp_invocation *inv)
{
    const struct bp_squeeze_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);
    struct bp_extents to = {.rank = 0};
    uint32_t axes;

    TRY(bp_rule_axes(inv, a->axes, x->rank, &axes));
    if (!a->axes.n) axes = ~0u;
    for (uint32_t i = 0; i < x->rank; i++) {
        if (axes >> i & 1 && x->shape[i] == 1) continue;
        to.shape[to.rank] = x->shape[i];
        to.stride[to.rank++] = x->stride[i];
    }
    return bp_rule_view(inv, &to);
}

enum bp_status bp_infer_unsqueeze(struct bp_invocation *inv)
{
    const struct bp_unsqueeze_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);
    struct bp_extents to = {.rank = 0};
    uint32_t axes, at = 0;

    if (a->axes.n + x->rank > BP_RANK_MAX) return too_many_axes(inv, a->axes.n + x->rank);
    TRY(bp_rule_axes(inv, a->axes, x->rank + (uint32_t)a->axes.n, &axes));
    for (uint32_t i = 0; i < x->rank + (uint32_t)a->axes.n; i++) {
        bool added = axes >> i & 1;
        to.shape[to.rank] = added ? 1 : x->shape[at];
        to.stride[to.rank++] = added ? 0 : x->stride[at];
        at += !added;
    }
    /* The stride of an axis of extent 1 is never used; this value keeps a dense tensor dense. */
    for (uint32_t i = to.rank; i-- > 0;)
        if (axes >> i & 1) to.stride[i] = i + 1 < to.rank ? to.shape[i + 1] * to.stride[i + 1] : 1;
    return bp_rule_view(inv, &to);
}

enum bp_status bp_infer_atleast(struct bp_invocation *inv)
{
    const struct bp_atleast_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);
    struct bp_extents to = bp_rule_extents(x);
    uint32_t rank = (uint32_t)a->rank, added, front;

    if (a->rank < 1 || a->rank > 3)
        return bp_error(BP_ERR_INVALID, "atleast: attribute rank is %" PRId64 ", expected 1 to 3",
                        a->rank);
    if (x->rank >= rank) return bp_rule_view(inv, &to);
    added = rank - x->rank;
    front = rank < 3 ? added : x->rank == 2 ? 0 : 1;
    for (uint32_t i = 0; i < rank; i++) {
        bool own = i >= front && i < front + x->rank;
        to.shape[i] = own ? x->shape[i - front] : 1;
        to.stride[i] = own ? x->stride[i - front] : 1;
    }
    to.rank = rank;
    return bp_rule_view(inv, &to);
}

enum bp_status bp_infer_flatten(struct bp_invocation *inv)
{
    const struct bp_flatten_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);
    int64_t shape[BP_RANK_MAX];
    uint32_t start, stop, rank = 0;

    if (!x->rank) return bp_rule_reshaped(inv, 1, (int64_t[]){1});
    TRY(bp_shape_axis(inv, a->start_axis, x->rank, &start));
    TRY(bp_shape_axis(inv, a->stop_axis, x->rank, &stop));
    if (start > stop)
        return bp_error(BP_ERR_INVALID,
                        "flatten: start_axis is %" PRId64 " and stop_axis %" PRId64
                        ": expected the first not behind the second",
                        a->start_axis, a->stop_axis);
    for (uint32_t i = 0; i < x->rank; i++) {
        if (i <= start || i > stop) shape[rank++] = x->shape[i];
        else if (__builtin_mul_overflow(shape[rank - 1], x->shape[i], &shape[rank - 1]))
            return bp_error(BP_ERR_INVALID, "flatten: an extent would reach past 63 bits");
    }
    return bp_rule_reshaped(inv, rank, shape);
}

enum bp_status bp_infer_expand_as(struct bp_invocation *inv)
{
    struct bp_extents from = bp_rule_extents(bp_invocation_in(inv, 0)), to;
    const struct bp_view *like = bp_invocation_in(inv, 1);

    TRY(bp_extents_expand("expand_as", &from, like->rank, like->shape, &to));
    return bp_rule_view(inv, &to);
}

enum bp_status bp_grad_expand_as(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    if (g->want[0]) bp_compose_keep(&c, bp_compose_sum_to(&c, g->dy[0], g->in[0]), &g->dx[0]);
    return bp_compose_end(&c);
}

enum bp_status bp_infer_crop(struct bp_invocation *inv)
{
    const struct bp_crop_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);
    struct bp_extents to = bp_rule_extents(x);

    if (a->shape.n != x->rank || (a->offsets.n && a->offsets.n != x->rank))
        return bp_error(BP_ERR_INVALID,
                        "crop: shape has %" PRId64 " entries, offsets %" PRId64
                        ": expected %u, one for each axis of x; offsets may have none",
                        a->shape.n, a->offsets.n, x->rank);
    for (uint32_t i = 0; i < x->rank; i++) {
        int64_t first = a->offsets.n ? a->offsets.at[i] : 0, n = a->shape.at[i];
        if (n == -1 && first >= 0 && first <= x->shape[i]) n = x->shape[i] - first;
        if (first < 0 || n < 0 || first > x->shape[i] || n > x->shape[i] - first)
            return bp_error(BP_ERR_INVALID,
                            "crop: along axis %u %" PRId64 " elements from %" PRId64
                            " on do not lie in the extent %" PRId64 " of x",
                            i, a->shape.at[i], first, x->shape[i]);
        to.shape[i] = n;
        to.offset += n ? first * x->stride[i] : 0;
    }
    for (uint32_t i = 0; i < x->rank; i++)
        if (!to.shape[i]) to.offset = 0; /* an empty view may start anywhere */
    return bp_rule_view(inv, &to);
}

enum bp_status bp_grad_crop(struct bp_grad *g)
{
    const struct bp_crop_attrs *f = g->attrs;
    struct bp_slice_grad_attrs a = {.size = sizeof a};
    struct bp_compose c = bp_compose_begin(g->scope);
    int64_t start[BP_RANK_MAX], end[BP_RANK_MAX], rank = g->in[0]->view.rank;

    for (int64_t i = 0; i < rank; i++) {
        start[i] = f->offsets.n ? f->offsets.at[i] : 0;
        end[i] = start[i] + g->dy[0]->shape[i];
    }
    a.starts = (struct bp_dims){start, rank};
    a.ends = (struct bp_dims){end, rank};
    if (g->want[0]) bp_compose_keep(&c, MAKE(&c, slice_grad, &a, g->dy[0], g->in[0]), &g->dx[0]);
    return bp_compose_end(&c);
}

enum bp_status bp_infer_swapaxes(struct bp_invocation *inv)
{
    const struct bp_swapaxes_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);
    struct bp_extents to = bp_rule_extents(x);
    uint32_t p, q;

    TRY(bp_shape_axis(inv, a->axis0, x->rank, &p));
    TRY(bp_shape_axis(inv, a->axis1, x->rank, &q));
    to.shape[p] = x->shape[q];
    to.stride[p] = x->stride[q];
    to.shape[q] = x->shape[p];
    to.stride[q] = x->stride[p];
    return bp_rule_view(inv, &to);
}

enum bp_status bp_grad_swapaxes(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    if (g->want[0]) bp_compose_keep(&c, MAKE(&c, swapaxes, g->attrs, g->dy[0]), &g->dx[0]);
    return bp_compose_end(&c);
}

enum bp_status bp_infer_moveaxis(struct bp_invocation *inv)
{
    const struct bp_moveaxis_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);
    struct bp_extents to = {.rank = x->rank};
    uint32_t from[BP_RANK_MAX] = {0}, taken, placed, axis, next = 0;

    if (a->source.n != a->destination.n)
        return bp_error(BP_ERR_INVALID,
                        "moveaxis: source has %" PRId64 " entries and destination %" PRId64
                        ", expected as many",
                        a->source.n, a->destination.n);
    TRY(bp_rule_axes(inv, a->source, x->rank, &taken));
    TRY(bp_rule_axes(inv, a->destination, x->rank, &placed));
    for (int64_t i = 0; i < a->source.n; i++) {
        TRY(bp_shape_axis(inv, a->destination.at[i], x->rank, &axis));
        TRY(bp_shape_axis(inv, a->source.at[i], x->rank, &from[axis]));
    }
    for (uint32_t i = 0; i < x->rank; i++) { /* the other axes, in order */
        if (placed >> i & 1) continue;
        while (taken >> next & 1) next++;
        from[i] = next++;
    }
    for (uint32_t i = 0; i < x->rank; i++) {
        to.shape[i] = x->shape[from[i]];
        to.stride[i] = x->stride[from[i]];
    }
    return bp_rule_view(inv, &to);
}

enum bp_status bp_grad_moveaxis(struct bp_grad *g)
{
    const struct bp_moveaxis_attrs *f = g->attrs;
    struct bp_moveaxis_attrs a = {
        .size = sizeof a, .source = f->destination, .destination = f->source};
    struct bp_compose c = bp_compose_begin(g->scope);

    if (g->want[0]) bp_compose_keep(&c, MAKE(&c, moveaxis, &a, g->dy[0]), &g->dx[0]);
    return bp_compose_end(&c);
}

/* Checks and returns two axes, which must differ. */
static enum bp_status two_axes(const struct bp_invocation *inv, int64_t axis0, int64_t axis1,
                               uint32_t rank, uint32_t *p, uint32_t *q)
{
    TRY(bp_shape_axis(inv, axis0, rank, p));
    TRY(bp_shape_axis(inv, axis1, rank, q));
    if (*p != *q) return BP_OK;
    return bp_error(BP_ERR_INVALID, "%s: axis1 and axis2 are both axis %u, expected two",
                    inv->row->info.name, *p);
}

enum bp_status bp_infer_diagonal(struct bp_invocation *inv)
{
    const struct bp_diagonal_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);
    struct bp_extents to = {.rank = 0};
    int64_t rows, columns, n;
    uint32_t p, q;

    TRY(two_axes(inv, a->axis1, a->axis2, x->rank, &p, &q));
    for (uint32_t i = 0; i < x->rank; i++) {
        if (i == p || i == q) continue;
        to.shape[to.rank] = x->shape[i];
        to.stride[to.rank++] = x->stride[i];
    }
    rows = x->shape[p];
    columns = x->shape[q];
    n = a->offset <= -rows || a->offset >= columns ? 0
        : a->offset < 0 ? (rows + a->offset < columns ? rows + a->offset : columns)
                        : (columns - a->offset < rows ? columns - a->offset : rows);
    to.shape[to.rank] = n;
    to.stride[to.rank++] = n > 1 ? x->stride[p] + x->stride[q] : 1;
    if (n && x->count)
        to.offset = a->offset < 0 ? -a->offset * x->stride[p] : a->offset * x->stride[q];
    return bp_rule_view(inv, &to);
}

enum bp_status bp_infer_unstack(struct bp_invocation *inv)
{
    const struct bp_unstack_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);
    uint32_t axis;

    TRY(bp_shape_axis(inv, a->axis, x->rank, &axis));
    TRY(bp_invocation_count(inv, x->shape[axis]));
    for (uint32_t i = 0, at = 0; i < x->rank; i++)
        if (i != axis) inv->view_stride[at++] = x->stride[i];
    for (int64_t n = 0; n < x->shape[axis]; n++) {
        struct bp_type *out = &inv->out[n];
        out->rank = 0;
        for (uint32_t i = 0; i < x->rank; i++)
            if (i != axis) out->shape[out->rank++] = x->shape[i];
        inv->view_offset[n] = x->count ? n * x->stride[axis] : 0;
    }
    return BP_OK;
}

/* Stacks the gradients of the parts again; an absent one, which means zero, is made as zeros. */
enum bp_status bp_grad_unstack(struct bp_grad *g)
{
    const struct bp_unstack_attrs *f = g->attrs;
    struct bp_stack_attrs join = {.size = sizeof join, .axis = f->axis};
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *part[BP_FLAT_MAX];

    if (!g->want[0] || !g->n_out) return bp_compose_end(&c);
    for (uint32_t i = 0; i < g->n_out; i++)
        part[i] = g->dy[i] ? g->dy[i] : MAKE(&c, full_like, NULL, g->out[i]);
    bp_compose_keep(&c, bp_compose_all(&c, BP_ROW_stack, &join, part, g->n_out), &g->dx[0]);
    return bp_compose_end(&c);
}
