/* SPDX-License-Identifier: Apache-2.0 */
/* shape_view.c: has the rules of views along the axes of a tensor, of slice_grad and of concat. The
 * rule of a VIEW output sets the layout of the output in the memory of the input. */
#include <call/shape.h>

#include <backplane/attrs.h>
#include <inttypes.h>
#include <string.h>

static void extents_of(const struct bp_view *x, struct bp_extents *e)
{
    e->rank = x->rank;
    e->offset = 0;
    memcpy(e->shape, x->shape, x->rank * sizeof *x->shape);
    memcpy(e->stride, x->stride, x->rank * sizeof *x->stride);
}

static void take_extents(struct bp_invocation *inv, const struct bp_extents *e)
{
    inv->out[0].rank = e->rank;
    memcpy(inv->out[0].shape, e->shape, sizeof e->shape);
    memcpy(inv->view_stride, e->stride, sizeof e->stride);
    inv->view_offset[0] = e->offset;
}

static enum bp_status check_entries(const struct bp_invocation *inv, const char *name, int64_t n)
{
    if (n <= BP_RANK_MAX) return BP_OK;
    return bp_error(BP_ERR_INVALID, "%s: attribute %s has %" PRId64 " entries, expected at most %d",
                    inv->row->info.name, name, n, BP_RANK_MAX);
}

/* Where the strides of x do not allow a view, the result is a view of a dense copy. */
enum bp_status bp_infer_reshape(struct bp_invocation *inv)
{
    const struct bp_reshape_attrs *a = inv->attrs;
    const char *name = inv->row->info.name;
    struct bp_extents from, to;
    enum bp_status status;

    TRY(check_entries(inv, "shape", a->shape.n));
    extents_of(bp_invocation_in(inv, 0), &from);
    status = bp_extents_reshape(name, &from, (uint32_t)a->shape.n, a->shape.at, &to);
    inv->view_copies = status == BP_ERR_UNSUPPORTED;
    if (inv->view_copies) {
        bp_type_strides(from.rank, from.shape, from.stride);
        status = bp_extents_reshape(name, &from, (uint32_t)a->shape.n, a->shape.at, &to);
    }
    if (status == BP_OK) take_extents(inv, &to);
    return status;
}

enum bp_status bp_infer_transpose(struct bp_invocation *inv)
{
    const struct bp_transpose_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);
    struct bp_extents from, to;

    if (a->perm.n && a->perm.n != x->rank)
        return bp_error(BP_ERR_INVALID,
                        "transpose: attribute perm has %" PRId64 " entries, expected %u or none",
                        a->perm.n, x->rank);
    extents_of(x, &from);
    TRY(bp_extents_transpose("transpose", &from, a->perm.n ? a->perm.at : NULL, &to));
    take_extents(inv, &to);
    return BP_OK;
}

/* Computes a slice. The attributes of slice and of its gradient have one layout. */
static enum bp_status view_slice(const struct bp_invocation *inv, const struct bp_slice_attrs *a,
                                 const struct bp_view *x, struct bp_extents *out)
{
    const char *name = inv->row->info.name;
    int64_t offset = 0;
    uint32_t seen = 0;

    if (a->starts.n != a->ends.n || (a->axes.n && a->axes.n != a->starts.n) ||
        (a->steps.n && a->steps.n != a->starts.n) || a->starts.n > x->rank)
        return bp_error(BP_ERR_INVALID,
                        "%s: starts has %" PRId64 " entries, ends %" PRId64 ", axes %" PRId64
                        ", steps %" PRId64 ": expected as many each, at most %u; axes and steps "
                        "may have none",
                        name, a->starts.n, a->ends.n, a->axes.n, a->steps.n, x->rank);
    extents_of(x, out);
    for (int64_t i = 0; i < a->starts.n; i++) {
        int64_t axis = a->axes.n ? a->axes.at[i] : i;
        if (axis < 0) axis += x->rank;
        if (axis >= 0 && axis < x->rank && seen >> axis & 1)
            return bp_error(BP_ERR_INVALID, "%s: attribute axes names axis %" PRId64 " twice",
                            name, axis);
        if (axis >= 0 && axis < x->rank) seen |= 1u << axis;
        TRY(bp_extents_slice(name, out, axis, a->starts.at[i], a->ends.at[i],
                             a->steps.n ? a->steps.at[i] : 1, out));
        offset += out->offset; /* the offset along this axis */
    }
    out->offset = offset;
    return BP_OK;
}

enum bp_status bp_infer_slice(struct bp_invocation *inv)
{
    struct bp_extents to;

    TRY(view_slice(inv, inv->attrs, bp_invocation_in(inv, 0), &to));
    take_extents(inv, &to);
    return BP_OK;
}

enum bp_status bp_infer_slice_grad(struct bp_invocation *inv)
{
    const struct bp_slice_grad_attrs *g = inv->attrs;
    const struct bp_view *dy = bp_invocation_in(inv, 0), *x = bp_invocation_in(inv, 1);
    struct bp_slice_attrs a = {sizeof a, g->starts, g->ends, g->axes, g->steps};
    struct bp_extents to;

    TRY(view_slice(inv, &a, x, &to));
    if (to.rank != dy->rank || memcmp(to.shape, dy->shape, to.rank * sizeof *to.shape)) {
        char got[BP_TYPE_TEXT], expected[BP_TYPE_TEXT];
        return bp_error(BP_ERR_INVALID, "slice_grad: dy is %s, expected %s",
                        bp_type_text(dy->dtype, dy->rank, dy->shape, got, sizeof got),
                        bp_type_text(dy->dtype, to.rank, to.shape, expected, sizeof expected));
    }
    inv->out[0].rank = x->rank;
    memcpy(inv->out[0].shape, x->shape, x->rank * sizeof *x->shape);
    return BP_OK;
}

enum bp_status bp_infer_expand(struct bp_invocation *inv)
{
    const struct bp_expand_attrs *a = inv->attrs;
    struct bp_extents from, to;

    TRY(check_entries(inv, "shape", a->shape.n));
    extents_of(bp_invocation_in(inv, 0), &from);
    TRY(bp_extents_expand("expand", &from, (uint32_t)a->shape.n, a->shape.at, &to));
    take_extents(inv, &to);
    return BP_OK;
}

static enum bp_status view_differs(const struct bp_invocation *inv, uint32_t i, uint32_t axis)
{
    const struct bp_view *x = inv->in[0], *y = inv->in[i];
    char a[BP_TYPE_TEXT], b[BP_TYPE_TEXT];

    return bp_error(BP_ERR_INVALID,
                    "concat: xs[0] is %s and xs[%u] is %s: expected equal extents but for axis %u",
                    bp_type_text(x->dtype, x->rank, x->shape, a, sizeof a), i,
                    bp_type_text(y->dtype, y->rank, y->shape, b, sizeof b), axis);
}

enum bp_status bp_infer_concat(struct bp_invocation *inv)
{
    const struct bp_concat_attrs *a = inv->attrs;
    const struct bp_view *x = inv->n_in ? inv->in[0] : NULL;
    struct bp_type *out = &inv->out[0];
    uint32_t axis;

    if (!x) return bp_error(BP_ERR_INVALID, "concat: xs has no tensors, expected one or more");
    TRY(bp_shape_axis(inv, a->axis, x->rank, &axis));
    out->rank = x->rank;
    memcpy(out->shape, x->shape, x->rank * sizeof *x->shape);
    for (uint32_t i = 1; i < inv->n_in; i++) {
        const struct bp_view *y = inv->in[i];
        if (y->rank != x->rank) return view_differs(inv, i, axis);
        for (uint32_t k = 0; k < x->rank; k++)
            if (k != axis && y->shape[k] != x->shape[k]) return view_differs(inv, i, axis);
        if (__builtin_add_overflow(out->shape[axis], y->shape[axis], &out->shape[axis]))
            return bp_error(BP_ERR_INVALID, "concat: the extents add up to more than 63 bits");
    }
    return BP_OK;
}

/* Computes the extents of the n parts; a size of -1 is the rest of `extent` that the others
 * leave. */
static enum bp_status part_sizes(const struct bp_split_attrs *a, int64_t extent, int64_t *size,
                                 int64_t n)
{
    int64_t sum = 0, open = -1;

    if (a->sections && extent % n)
        return bp_error(BP_ERR_INVALID,
                        "split: sections is %" PRId64 ", which does not divide the extent %" PRId64
                        ": say sizes",
                        n, extent);
    for (int64_t i = 0; i < n; i++) {
        size[i] = a->sections ? extent / n : a->sizes.at[i];
        if (size[i] < -1 || (size[i] < 0 && open >= 0))
            return bp_error(BP_ERR_INVALID,
                            "split: sizes[%" PRId64 "] is %" PRId64
                            ": expected 0 or more, and -1 at most once",
                            i, size[i]);
        if (size[i] < 0) open = i;
        else if (__builtin_add_overflow(sum, size[i], &sum)) sum = INT64_MAX;
    }
    if (sum > extent || (sum < extent && open < 0))
        return bp_error(BP_ERR_INVALID,
                        "split: sizes add up to %" PRId64 ", expected the extent %" PRId64, sum,
                        extent);
    if (open >= 0) size[open] = extent - sum;
    return BP_OK;
}

enum bp_status bp_infer_split(struct bp_invocation *inv)
{
    const struct bp_split_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);
    int64_t size[BP_FLAT_MAX], n = a->sections ? a->sections : a->sizes.n, at = 0;
    uint32_t axis;

    if (a->sections < 0 || !a->sections == !a->sizes.n)
        return bp_error(BP_ERR_INVALID,
                        "split: sections is %" PRId64 " and sizes has %" PRId64
                        " entries: expected one of them, sections 1 or more",
                        a->sections, a->sizes.n);
    TRY(bp_shape_axis(inv, a->axis, x->rank, &axis));
    TRY(bp_invocation_count(inv, n));
    TRY(part_sizes(a, x->shape[axis], size, n));
    memcpy(inv->view_stride, x->stride, x->rank * sizeof *x->stride);
    for (int64_t i = 0; i < n; i++) {
        inv->out[i].rank = x->rank;
        memcpy(inv->out[i].shape, x->shape, x->rank * sizeof *x->shape);
        inv->out[i].shape[axis] = size[i];
        inv->view_offset[i] = size[i] ? at * x->stride[axis] : 0; /* empty: at any offset */
        at += size[i];
    }
    return BP_OK;
}
