/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: implements the helpers that shape inference rules share (shape.h). */
#include "shape.h"

#include <inttypes.h>
#include <stdio.h>

static enum bp_status no_broadcast(const struct bp_invocation *inv, const uint32_t *port,
                                   uint32_t n, uint32_t back, int64_t a, int64_t b)
{
    const struct bp_opinfo *op = &inv->row->info;
    char text[4][BP_TYPE_TEXT], list[4 * (BP_TYPE_TEXT + 40)] = "";
    size_t used = 0;

    for (uint32_t i = 0; i < n && i < 4; i++) {
        const struct bp_view *v = bp_invocation_in(inv, port[i]);
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s is %s",
                                 !i ? "" : i + 1 < n ? ", " : " and ", op->in[port[i]].name,
                                 bp_type_text(v->dtype, v->rank, v->shape, text[i],
                                              sizeof text[i]));
    }
    return bp_error(BP_ERR_INVALID,
                    "%s: %s: axis -%u does not broadcast (%" PRId64 " and %" PRId64 ")", op->name,
                    list, back + 1, a, b);
}

enum bp_status bp_shape_broadcast(const struct bp_invocation *inv, const uint32_t *port, uint32_t n,
                                  uint32_t skip, struct bp_type *out)
{
    uint32_t rank = 0;

    for (uint32_t i = 0; i < n; i++) {
        const struct bp_view *v = bp_invocation_in(inv, port[i]);
        if (v && v->rank > rank) rank = v->rank;
    }
    for (uint32_t back = skip; back < rank; back++) {
        int64_t extent = 1;
        for (uint32_t i = 0; i < n; i++) {
            const struct bp_view *v = bp_invocation_in(inv, port[i]);
            int64_t mine = v ? bp_shape_extent_back(v, back) : 1;
            if (mine == 1 || mine == extent) continue;
            if (extent != 1) return no_broadcast(inv, port, n, back, extent, mine);
            extent = mine;
        }
        out->shape[rank - 1 - back] = extent;
    }
    out->rank = rank;
    return BP_OK;
}

enum bp_status bp_shape_axis(const struct bp_invocation *inv, int64_t axis, uint32_t rank,
                             uint32_t *out_axis)
{
    if (!rank)
        return bp_error(BP_ERR_INVALID,
                        "%s: axis is %" PRId64 ", but a tensor of rank 0 has no axes",
                        inv->row->info.name, axis);
    if (axis < -(int64_t)rank || axis >= (int64_t)rank)
        return bp_error(BP_ERR_INVALID, "%s: axis is %" PRId64 ", expected %d to %d for rank %u",
                        inv->row->info.name, axis, -(int)rank, (int)rank - 1, rank);
    *out_axis = (uint32_t)(axis < 0 ? axis + rank : axis);
    return BP_OK;
}

enum bp_status bp_shape_check_slices(const struct bp_invocation *inv,
                                     const struct bp_shape_slices *s, uint32_t rank,
                                     uint32_t out_axis[BP_RANK_MAX])
{
    const char *name = inv->row->info.name;
    int64_t n = s->starts.n;
    uint32_t seen = 0;

    if (n != s->ends.n || (s->axes.n && s->axes.n != n) || (s->steps.n && s->steps.n != n))
        return bp_error(BP_ERR_INVALID,
                        "%s: starts has %" PRId64 " entries, ends %" PRId64 ", axes %" PRId64
                        ", steps %" PRId64 ": expected as many each; axes and steps may have none",
                        name, n, s->ends.n, s->axes.n, s->steps.n);
    for (int64_t i = 0; i < n; i++) {
        uint32_t axis;
        if (s->steps.n && !s->steps.at[i])
            return bp_error(BP_ERR_INVALID, "%s: steps[%" PRId64 "] is 0, expected another number",
                            name, i);
        TRY(bp_shape_axis(inv, s->axes.n ? s->axes.at[i] : i, rank, &axis));
        if (seen >> axis & 1)
            return bp_error(BP_ERR_INVALID, "%s: attribute axes names axis %u twice", name, axis);
        seen |= 1u << axis;
        out_axis[i] = axis; /* axes are distinct, so i is below rank */
    }
    return BP_OK;
}

/* Returns i, counted from the end if it is negative, clamped to the range low to high. */
static int64_t shape_clamp(int64_t i, int64_t extent, int64_t low, int64_t high)
{
    if (i < 0) i += extent;
    return i < low ? low : i > high ? high : i;
}

int64_t bp_shape_slice_extent(int64_t start, int64_t end, int64_t step, int64_t extent)
{
    int64_t low = step < 0 ? -1 : 0, high = step < 0 ? extent - 1 : extent;

    start = shape_clamp(start, extent, low, high);
    end = shape_clamp(end, extent, low, high);
    if (step > 0) return start < end ? (end - start - 1) / step + 1 : 0;
    return start > end ? (start - end - 1) / -(step + (step == INT64_MIN)) + 1 : 0;
}

enum bp_status bp_shape_reduce(const struct bp_invocation *inv, const struct bp_view *x,
                               struct bp_dims axes, bool keep, struct bp_type *out)
{
    uint32_t summed = 0, axis;

    for (int64_t i = 0; i < axes.n; i++) {
        TRY(bp_shape_axis(inv, axes.at[i], x->rank, &axis));
        if (summed >> axis & 1)
            return bp_error(BP_ERR_INVALID, "%s: attribute axes names axis %u twice",
                            inv->row->info.name, axis);
        summed |= 1u << axis;
    }
    if (!axes.n) summed = ~0u;
    out->rank = 0;
    for (uint32_t i = 0; i < x->rank; i++) {
        if (!(summed >> i & 1)) out->shape[out->rank++] = x->shape[i];
        else if (keep) out->shape[out->rank++] = 1;
    }
    return BP_OK;
}

enum bp_status bp_shape_expect(const struct bp_invocation *inv, uint32_t port,
                               const struct bp_type *expected)
{
    const struct bp_view *got = bp_invocation_in(inv, port);
    char x[BP_TYPE_TEXT], y[BP_TYPE_TEXT];

    if (got->rank == expected->rank &&
        !memcmp(got->shape, expected->shape, got->rank * sizeof *got->shape))
        return BP_OK;
    return bp_error(BP_ERR_INVALID, "%s: input %s is %s, expected %s", inv->row->info.name,
                    inv->row->info.in[port].name,
                    bp_type_text(got->dtype, got->rank, got->shape, x, sizeof x),
                    bp_type_text(got->dtype, expected->rank, expected->shape, y, sizeof y));
}
