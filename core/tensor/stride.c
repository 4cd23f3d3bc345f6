/* SPDX-License-Identifier: Apache-2.0 */
/* stride.c: computes views as arithmetic, from the extents and strides of a tensor to those of
 * another one in the same memory. It uses no memory or device, so that inference rules for view
 * operators call the same functions. */
#include "tensor.h"

#include <inttypes.h>
#include <string.h>

/* Returns the axes of `from` that matter, outermost first: extents of 1 are dropped, and adjacent
 * axes that one stride covers are merged. No extent is 0. */
static uint32_t stride_merge(const struct bp_extents *from, int64_t *out_shape, int64_t *out_stride)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < from->rank; i++) {
        if (from->shape[i] == 1) continue;
        if (n && out_stride[n - 1] == from->shape[i] * from->stride[i]) {
            out_shape[n - 1] *= from->shape[i];
            out_stride[n - 1] = from->stride[i];
            continue;
        }
        out_shape[n] = from->shape[i];
        out_stride[n++] = from->stride[i];
    }
    return n;
}

/* Computes the strides of `out` from the innermost axis: each takes a part of the innermost merged
 * axis that is not used up yet. false: an extent would reach beyond the end of a merged axis. */
static bool stride_distribute(const struct bp_extents *from, struct bp_extents *out)
{
    int64_t shape[BP_RANK_MAX], stride[BP_RANK_MAX], left = 1, step = 1;
    uint32_t n = stride_merge(from, shape, stride);

    for (uint32_t i = out->rank; i-- > 0;) {
        if (out->shape[i] != 1 && left == 1) {
            left = shape[--n];
            step = stride[n];
        }
        if (left % out->shape[i]) return false;
        left /= out->shape[i];
        out->stride[i] = step;
        step *= out->shape[i];
    }
    return true;
}

/* Returns the number of elements of a shape; INT64_MAX if it overflows. */
static int64_t stride_count_of(uint32_t rank, const int64_t *shape)
{
    int64_t count = 1;

    for (uint32_t i = 0; i < rank; i++)
        if (shape[i] == 0) return 0;
    for (uint32_t i = 0; i < rank; i++)
        if (__builtin_mul_overflow(count, shape[i], &count)) return INT64_MAX;
    return count;
}

static enum bp_status stride_check_rank(const char *call, uint32_t rank)
{
    if (rank > BP_RANK_MAX)
        return bp_error(BP_ERR_INVALID, "%s: rank is %u, expected at most %d", call, rank,
                        BP_RANK_MAX);
    return BP_OK;
}

/* Replaces the one extent that is -1 by the value that follows from the count. */
static enum bp_status stride_fill_open(const char *call, int64_t count, struct bp_extents *out)
{
    int64_t open = -1, rest;

    for (uint32_t i = 0; i < out->rank; i++) {
        if (out->shape[i] >= 0) continue;
        if (out->shape[i] != -1)
            return bp_error(BP_ERR_INVALID,
                            "%s: extent %u is %" PRId64 ", expected 0 or more, or one -1", call, i,
                            out->shape[i]);
        if (open >= 0)
            return bp_error(BP_ERR_INVALID, "%s: extents %" PRId64 " and %u are -1: one may be",
                            call, open, i);
        open = i;
        out->shape[i] = 1;
    }
    rest = stride_count_of(out->rank, out->shape);
    if (open < 0) return BP_OK;
    if (rest == 0)
        return bp_error(BP_ERR_INVALID,
                        "%s: extent %" PRId64 " is -1, but another is 0: any number would fit; say "
                        "which",
                        call, open);
    out->shape[open] = count / rest; /* if it does not divide, the counts will differ */
    return BP_OK;
}

/* Fills the strides of an empty view. They are those of a shape with 1 in place of each 0, and must
 * fit into 63 bits. */
static enum bp_status stride_fill_empty(const char *call, struct bp_extents *out)
{
    int64_t cover[BP_RANK_MAX];

    for (uint32_t i = 0; i < out->rank; i++) cover[i] = out->shape[i] ? out->shape[i] : 1;
    if (stride_count_of(out->rank, cover) == INT64_MAX)
        return bp_error(BP_ERR_INVALID, "%s: the shape reaches past 63 bits", call);
    bp_type_strides(out->rank, out->shape, out->stride);
    return BP_OK;
}

enum bp_status bp_extents_reshape(const char *call, const struct bp_extents *from, uint32_t rank,
                                  const int64_t *shape, struct bp_extents *out)
{
    int64_t count = stride_count_of(from->rank, from->shape);
    struct bp_extents to = {.rank = rank};
    char text[BP_SHAPE_TEXT];

    TRY(stride_check_rank(call, rank));
    if (rank) memcpy(to.shape, shape, rank * sizeof *shape);
    TRY(stride_fill_open(call, count, &to));
    if (stride_count_of(rank, to.shape) != count)
        return bp_error(BP_ERR_INVALID,
                        "%s: the shape %s does not hold the %" PRId64 " elements of the tensor",
                        call, bp_shape_text(rank, shape, text, sizeof text), count);
    if (count == 0) TRY(stride_fill_empty(call, &to));
    else if (!stride_distribute(from, &to))
        return bp_error(BP_ERR_UNSUPPORTED,
                        "%s: no strides give the shape %s over this memory; copy the tensor to a "
                        "contiguous one first (bp_tensor_copy)",
                        call, bp_shape_text(rank, to.shape, text, sizeof text));
    *out = to;
    return BP_OK;
}

/* Interprets a start or stop as Python does: negative values count from the end, and values outside
 * are moved to the nearest end. */
static int64_t stride_clamp(int64_t at, int64_t extent)
{
    if (at < 0) at += extent;
    return at < 0 ? 0 : at > extent ? extent : at;
}

enum bp_status bp_extents_slice(const char *call, const struct bp_extents *from, int64_t axis,
                                int64_t start, int64_t stop, int64_t step, struct bp_extents *out)
{
    struct bp_extents to = *from;
    int64_t extent;
    uint32_t a;

    if (axis < -(int64_t)from->rank || axis >= (int64_t)from->rank)
        return bp_error(BP_ERR_INVALID, "%s: axis is %" PRId64 ", but the tensor has rank %u", call,
                        axis, from->rank);
    if (step <= 0)
        return bp_error(BP_ERR_INVALID, "%s: step is %" PRId64 ", expected 1 or more%s", call, step,
                        step ? ": strides are never negative; flip copies" : "");
    a = (uint32_t)(axis < 0 ? axis + (int64_t)from->rank : axis);
    extent = from->shape[a];
    start = stride_clamp(start, extent);
    stop = stride_clamp(stop, extent);
    to.shape[a] = start < stop ? (stop - start - 1) / step + 1 : 0;
    to.offset = to.shape[a] ? start * from->stride[a] : 0;
    if (to.shape[a] > 1) to.stride[a] *= step; /* else unused, and may overflow */
    *out = to;
    return BP_OK;
}

enum bp_status bp_extents_transpose(const char *call, const struct bp_extents *from,
                                    const int64_t *perm, struct bp_extents *out)
{
    struct bp_extents to = {.rank = from->rank};
    uint32_t seen = 0;

    for (uint32_t i = 0; i < from->rank; i++) {
        int64_t axis = perm ? perm[i] : (int64_t)(from->rank - 1 - i);
        if (axis < 0 || axis >= (int64_t)from->rank)
            return bp_error(BP_ERR_INVALID,
                            "%s: perm[%u] is %" PRId64 ", expected an axis from 0 to %u", call, i,
                            axis, from->rank - 1);
        if (seen >> axis & 1)
            return bp_error(BP_ERR_INVALID,
                            "%s: perm names axis %" PRId64 " twice, expected each axis once", call,
                            axis);
        seen |= 1u << axis;
        to.shape[i] = from->shape[axis];
        to.stride[i] = from->stride[axis];
    }
    *out = to;
    return BP_OK;
}

enum bp_status bp_extents_expand(const char *call, const struct bp_extents *from, uint32_t rank,
                                 const int64_t *shape, struct bp_extents *out)
{
    struct bp_extents to = {.rank = rank};

    TRY(stride_check_rank(call, rank));
    if (rank < from->rank)
        return bp_error(BP_ERR_INVALID, "%s: rank is %u, expected %u or more, the tensor's", call,
                        rank, from->rank);
    for (uint32_t i = 0; i < rank; i++) {
        bool is_new = i < rank - from->rank;
        uint32_t axis = is_new ? 0 : i - (rank - from->rank);
        int64_t extent = is_new ? 1 : from->shape[axis];
        to.shape[i] = shape[i] == -1 && !is_new ? extent : shape[i];
        if (to.shape[i] < 0)
            return bp_error(BP_ERR_INVALID, "%s: extent %u is %" PRId64 ", expected 0 or more%s",
                            call, i, shape[i],
                            is_new ? "; a new axis has nothing to keep" : ", or -1");
        if (to.shape[i] != extent && extent != 1)
            return bp_error(BP_ERR_INVALID,
                            "%s: extent %u is %" PRId64 ", but the tensor has %" PRId64
                            " there: only extents of 1 expand",
                            call, i, to.shape[i], extent);
        to.stride[i] = to.shape[i] == extent && !is_new ? from->stride[axis] : 0;
    }
    *out = to;
    return BP_OK;
}

/* The steps of one axis of either view, in the search for a common element. */
struct axis_range {
    int64_t stride, low, high; /* low, high: the allowed steps */
};

enum {
    SEARCH_STEPS = 10000
};

/* Division that rounds down; b > 0. */
static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* Whether steps of n axes can add up to rest. lowest[i] and highest[i]: the range that the axes
 * from i on can reach. For views made of one tensor, few steps of an axis leave a rest in reach. */
static bool stride_search(const struct axis_range *axis, const int64_t *lowest,
                          const int64_t *highest, uint32_t n, int64_t rest, int64_t *budget)
{
    int64_t first, last;

    if (n == 0) return rest == 0;
    if (--*budget < 0) return true;
    first = -floor_div(highest[1] - rest, axis->stride);
    last = floor_div(rest - lowest[1], axis->stride);
    if (first < axis->low) first = axis->low;
    if (last > axis->high) last = axis->high;
    for (; first <= last; first++)
        if (stride_search(axis + 1, lowest + 1, highest + 1, n - 1, rest - first * axis->stride,
                          budget))
            return true;
    return false;
}

/* Adds the axes of a view, sorted by stride, largest first. Axes with equal strides are merged:
 * their ranges of steps add up. */
static uint32_t stride_add_axes(const struct bp_extents *of, bool negative, struct axis_range *axis,
                                uint32_t n)
{
    for (uint32_t i = 0; i < of->rank; i++) {
        int64_t last = of->shape[i] - 1;
        struct axis_range r = {of->stride[i], negative ? -last : 0, negative ? 0 : last};
        uint32_t at = 0;
        if (last == 0 || r.stride == 0) continue;
        while (at < n && axis[at].stride > r.stride) at++;
        if (at < n && axis[at].stride == r.stride) {
            axis[at].low += r.low;
            axis[at].high += r.high;
            continue;
        }
        memmove(axis + at + 1, axis + at, (n - at) * sizeof *axis);
        axis[at] = r;
        n++;
    }
    return n;
}

bool bp_extents_overlap(const struct bp_extents *a, const struct bp_extents *b)
{
    struct axis_range axis[2 * BP_RANK_MAX];
    int64_t lowest[2 * BP_RANK_MAX + 1] = {0}, highest[2 * BP_RANK_MAX + 1] = {0};
    int64_t budget = SEARCH_STEPS;
    uint32_t n;

    if (!stride_count_of(a->rank, a->shape) || !stride_count_of(b->rank, b->shape)) return false;
    n = stride_add_axes(b, true, axis, stride_add_axes(a, false, axis, 0));
    for (uint32_t i = n; i-- > 0;) {
        lowest[i] = lowest[i + 1] + axis[i].low * axis[i].stride;
        highest[i] = highest[i + 1] + axis[i].high * axis[i].stride;
    }
    return stride_search(axis, lowest, highest, n, b->offset - a->offset, &budget);
}
