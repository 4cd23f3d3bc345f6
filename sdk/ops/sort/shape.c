/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: infers shapes of operators that sort, count and suppress, and builds their gradients. */
#include <call/compose.h>
#include <call/shape.h>

#include <backplane/attrs.h>
#include <inttypes.h>
#include <math.h>

/* Sets y and index to the shape of x. */
static enum bp_status sort_ordered(struct bp_invocation *inv, int64_t axis, uint32_t *out_axis)
{
    TRY(bp_shape_axis(inv, axis, bp_invocation_in(inv, 0)->rank, out_axis));
    for (uint32_t i = 0; i < inv->row->info.n_out; i++)
        bp_shape_copy(&inv->out[i], bp_invocation_in(inv, 0));
    inv->out[inv->row->info.n_out - 1].dtype = BP_I64;
    return BP_OK;
}

enum bp_status bp_infer_sort(struct bp_invocation *inv)
{
    const struct bp_sort_attrs *a = inv->attrs;
    uint32_t axis;

    return sort_ordered(inv, a->axis, &axis);
}

enum bp_status bp_infer_argsort(struct bp_invocation *inv)
{
    const struct bp_argsort_attrs *a = inv->attrs;
    uint32_t axis;

    return sort_ordered(inv, a->axis, &axis);
}

enum bp_status bp_infer_topk(struct bp_invocation *inv)
{
    const struct bp_topk_attrs *a = inv->attrs;
    uint32_t axis;

    TRY(sort_ordered(inv, a->axis, &axis));
    if (a->k < 0 || a->k > inv->out[0].shape[axis])
        return bp_error(BP_ERR_INVALID,
                        "topk: attribute k is %" PRId64
                        ", expected 0 to the extent of axis %u, %" PRId64,
                        a->k, axis, inv->out[0].shape[axis]);
    inv->out[0].shape[axis] = inv->out[1].shape[axis] = a->k;
    return BP_OK;
}

/* Sets the outputs to one value for each line along axis. */
static enum bp_status sort_picked(struct bp_invocation *inv, int64_t axis, bool keep)
{
    struct bp_dims one = {&axis, 1};
    const struct bp_view *x = bp_invocation_in(inv, 0);

    for (int i = 0; i < 2; i++) TRY(bp_shape_reduce(inv, x, one, keep, &inv->out[i]));
    inv->out[1].dtype = BP_I64;
    return BP_OK;
}

enum bp_status bp_infer_kthvalue(struct bp_invocation *inv)
{
    const struct bp_kthvalue_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);
    uint32_t axis;

    TRY(bp_shape_axis(inv, a->axis, x->rank, &axis));
    if (a->k < 1 || a->k > x->shape[axis])
        return bp_error(BP_ERR_INVALID,
                        "kthvalue: attribute k is %" PRId64
                        ", expected 1 to the extent of axis %u, %" PRId64,
                        a->k, axis, x->shape[axis]);
    return sort_picked(inv, a->axis, a->keep);
}

enum bp_status bp_infer_mode(struct bp_invocation *inv)
{
    const struct bp_mode_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);
    uint32_t axis;

    TRY(bp_shape_axis(inv, a->axis, x->rank, &axis));
    if (!x->shape[axis])
        return bp_error(BP_ERR_INVALID, "mode: axis %u has extent 0, expected one or more", axis);
    return sort_picked(inv, a->axis, a->keep);
}

/* The length of each output is bounded by the number of elements. */
enum bp_status bp_infer_unique(struct bp_invocation *inv)
{
    for (uint32_t i = 0; i < inv->row->info.n_out; i++) {
        inv->out[i].rank = 1;
        inv->out[i].shape[0] = bp_invocation_in(inv, 0)->count;
        if (i) inv->out[i].dtype = BP_I64;
    }
    return BP_OK;
}

static enum bp_status index_dtype(struct bp_invocation *inv, uint64_t dtype)
{
    if (dtype != BP_I32 && dtype != BP_I64)
        return bp_error(BP_ERR_INVALID, "%s: attribute dtype is %s, expected i64 or i32",
                        inv->row->info.name, bp_dtype_name((uint32_t)dtype));
    inv->out[0].dtype = (uint32_t)dtype;
    return BP_OK;
}

enum bp_status bp_infer_searchsorted(struct bp_invocation *inv)
{
    const struct bp_searchsorted_attrs *a = inv->attrs;
    const struct bp_view *sorted = bp_invocation_in(inv, 0), *x = bp_invocation_in(inv, 1);
    bool fits = sorted->rank == 1 || (sorted->rank && sorted->rank == x->rank);

    for (uint32_t i = 0; fits && sorted->rank > 1 && i + 1 < x->rank; i++)
        fits = sorted->shape[i] == x->shape[i];
    if (!fits) {
        char s[BP_TYPE_TEXT], v[BP_TYPE_TEXT];
        return bp_error(BP_ERR_INVALID,
                        "searchsorted: sorted is %s and x is %s: expected sorted of one axis, or "
                        "the same extents but for the last",
                        bp_type_text(sorted->dtype, sorted->rank, sorted->shape, s, sizeof s),
                        bp_type_text(x->dtype, x->rank, x->shape, v, sizeof v));
    }
    bp_shape_copy(&inv->out[0], x);
    return index_dtype(inv, (uint64_t)a->dtype);
}

enum bp_status bp_infer_bucketize(struct bp_invocation *inv)
{
    const struct bp_bucketize_attrs *a = inv->attrs;

    if (bp_invocation_in(inv, 1)->rank != 1)
        return bp_error(BP_ERR_INVALID, "bucketize: edges has %u axes, expected one",
                        bp_invocation_in(inv, 1)->rank);
    bp_shape_copy(&inv->out[0], bp_invocation_in(inv, 0));
    return index_dtype(inv, (uint64_t)a->dtype);
}

static enum bp_status bins_of(struct bp_invocation *inv, int64_t bins, int64_t least)
{
    if (bins < least)
        return bp_error(BP_ERR_INVALID,
                        "%s: attribute bins is %" PRId64 ", expected %" PRId64 " or more",
                        inv->row->info.name, bins, least);
    inv->out[0].rank = 1;
    inv->out[0].shape[0] = bins;
    return BP_OK;
}

enum bp_status bp_infer_bincount(struct bp_invocation *inv)
{
    const struct bp_bincount_attrs *a = inv->attrs;
    struct bp_type same;

    bp_shape_copy(&same, bp_invocation_in(inv, 0));
    if (bp_invocation_in(inv, 1)) TRY(bp_shape_expect(inv, 1, &same));
    else inv->out[0].dtype = BP_I64;
    if (!a->bins && bp_invocation_in(inv, 0)->count)
        return bp_error(BP_ERR_INVALID,
                        "bincount: attribute bins is 0, its default, and x has elements: expected "
                        "more than the largest x, which the library does not look for");
    return bins_of(inv, a->bins, 0);
}

enum bp_status bp_grad_bincount(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    if (g->want[1])
        bp_compose_keep(&c, MAKE(&c, gather, NULL, g->dy[0], g->in[0]), &g->dx[1]);
    return bp_compose_end(&c);
}

enum bp_status bp_values_histogram(const void *attrs)
{
    const struct bp_histogram_attrs *a = attrs;

    if (isfinite(a->low) && isfinite(a->high)) return BP_OK;
    return bp_error(BP_ERR_INVALID, "histogram: low is %g and high is %g: expected finite numbers",
                    a->low, a->high);
}

enum bp_status bp_infer_histogram(struct bp_invocation *inv)
{
    const struct bp_histogram_attrs *a = inv->attrs;

    inv->out[0].dtype = BP_I64;
    return bins_of(inv, a->bins, 1);
}

/* The length of the output is bounded by the number of boxes. */
enum bp_status bp_infer_nms(struct bp_invocation *inv)
{
    const struct bp_view *boxes = bp_invocation_in(inv, 0), *scores = bp_invocation_in(inv, 1);
    char text[BP_TYPE_TEXT];

    if (boxes->rank != 2 || boxes->shape[1] != 4)
        return bp_error(BP_ERR_INVALID, "nms: boxes is %s, expected N 4",
                        bp_type_text(boxes->dtype, boxes->rank, boxes->shape, text, sizeof text));
    if (scores && (scores->rank != 1 || scores->shape[0] != boxes->shape[0]))
        return bp_error(BP_ERR_INVALID, "nms: scores is %s, expected one for each box",
                        bp_type_text(scores->dtype, scores->rank, scores->shape, text,
                                     sizeof text));
    inv->out[0].dtype = BP_I64;
    inv->out[0].rank = 1;
    inv->out[0].shape[0] = boxes->shape[0];
    return BP_OK;
}

/* The number of rows is bounded by the number of scores, and by max_boxes. */
enum bp_status bp_infer_non_max_suppression(struct bp_invocation *inv)
{
    const struct bp_non_max_suppression_attrs *a = inv->attrs;
    const struct bp_view *boxes = bp_invocation_in(inv, 0), *scores = bp_invocation_in(inv, 1);
    char b[BP_TYPE_TEXT], s[BP_TYPE_TEXT];

    if (boxes->rank != 3 || boxes->shape[2] != 4 || scores->rank != 3 ||
        scores->shape[0] != boxes->shape[0] || scores->shape[2] != boxes->shape[1])
        return bp_error(BP_ERR_INVALID,
                        "non_max_suppression: boxes is %s and scores is %s, expected B N 4 and "
                        "B C N",
                        bp_type_text(boxes->dtype, boxes->rank, boxes->shape, b, sizeof b),
                        bp_type_text(scores->dtype, scores->rank, scores->shape, s, sizeof s));
    if (a->max_boxes < 0)
        return bp_error(BP_ERR_INVALID,
                        "non_max_suppression: attribute max_boxes is %" PRId64
                        ", expected 0 or more",
                        a->max_boxes);
    inv->out[0].dtype = BP_I64;
    inv->out[0].rank = 2;
    inv->out[0].shape[0] = scores->count;
    if (a->max_boxes < scores->shape[2])
        inv->out[0].shape[0] = scores->count / scores->shape[2] * a->max_boxes;
    inv->out[0].shape[1] = 3;
    return BP_OK;
}

/* Builds dx = dy at the elements from which the values were taken. */
static enum bp_status back_along(struct bp_grad *g, struct bp_compose *c, struct bp_tensor *dy,
                                 struct bp_tensor *index, int64_t axis)
{
    struct bp_take_along_axis_grad_attrs a = {.size = sizeof a, .axis = axis};

    if (g->want[0] && g->dy[0])
        bp_compose_keep(c, MAKE(c, take_along_axis_grad, &a, dy, index, g->in[0]), &g->dx[0]);
    return bp_compose_end(c);
}

/* The output index may be absent: then argsort computes it again. */
enum bp_status bp_grad_sort(struct bp_grad *g)
{
    const struct bp_sort_attrs *a = g->attrs;
    struct bp_argsort_attrs again = {.size = sizeof again, .axis = a->axis,
                                     .descending = a->descending};
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *index = g->out[1];

    if (!index && g->want[0] && g->dy[0]) index = MAKE(&c, argsort, &again, g->in[0]);
    return back_along(g, &c, g->dy[0], index, a->axis);
}

enum bp_status bp_grad_topk(struct bp_grad *g)
{
    const struct bp_topk_attrs *a = g->attrs;
    struct bp_compose c = bp_compose_begin(g->scope);

    return back_along(g, &c, g->dy[0], g->out[1], a->axis);
}

/* For kthvalue and mode: reshapes dy and index so that axis has extent 1. axis is the first
 * attribute of mode, and the second, after k, of kthvalue. */
enum bp_status bp_grad_pick(struct bp_grad *g)
{
    const struct bp_kthvalue_attrs *kth = g->attrs;
    const struct bp_mode_attrs *mode = g->attrs;
    bool is_mode = g->row == &bp_opdef[BP_ROW_mode];
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *x = g->in[0], *dy = g->dy[0], *index = g->out[1];
    int64_t axis = is_mode ? mode->axis : kth->axis, shape[BP_RANK_MAX];

    if (axis < 0) axis += x->view.rank;
    if (!g->want[0] || !dy) return BP_OK;
    for (uint32_t i = 0; i < x->view.rank; i++) shape[i] = (int64_t)i == axis ? 1 : x->shape[i];
    dy = bp_compose_reshape(&c, dy, x->view.rank, shape);
    index = bp_compose_reshape(&c, index, x->view.rank, shape);
    return back_along(g, &c, dy, index, axis);
}
