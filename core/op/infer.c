/* SPDX-License-Identifier: Apache-2.0 */
/* infer.c: shapes and dtypes of results, one rule for each INFER word. convolution: infer_conv.c.
 */
#include "op.h"

#include <backplane/attrs.h>
#include <inttypes.h>
#include <string.h>

static void shape_of(struct bp_type *type, const struct bp_view *view)
{
    type->rank = view->rank;
    memcpy(type->shape, view->shape, view->rank * sizeof *view->shape);
}

/* The extent of axis rank - 1 - i; 1 beyond the first. */
static int64_t extent_back(const struct bp_view *v, uint32_t i)
{
    return i < v->rank ? v->shape[v->rank - 1 - i] : 1;
}

static enum bp_status no_broadcast(const struct bp_site *site, uint32_t back)
{
    const struct bp_view *a = bp_site_in(site, 0), *b = bp_site_in(site, 1);
    const struct bp_opinfo *op = &site->row->info;
    char x[BP_TYPE_TEXT], y[BP_TYPE_TEXT];

    return bp_error(
        BP_ERR_INVALID,
        "%s: %s is %s and %s is %s: axis -%u does not broadcast (%" PRId64 " and %" PRId64 ")",
        op->name, op->in[0].name, bp_type_text(a->dtype, a->rank, a->shape, x, sizeof x),
        op->in[1].name, bp_type_text(b->dtype, b->rank, b->shape, y, sizeof y), back + 1,
        extent_back(a, back), extent_back(b, back));
}

/* Broadcasts the axes from `skip` on, counted from the last. */
static enum bp_status broadcast(const struct bp_site *site, uint32_t skip, uint32_t rank,
                                int64_t *out_shape)
{
    const struct bp_view *a = bp_site_in(site, 0), *b = bp_site_in(site, 1);

    for (uint32_t i = skip; i < rank; i++) {
        int64_t x = extent_back(a, i), y = extent_back(b, i);
        if (x != y && x != 1 && y != 1) return no_broadcast(site, i);
        out_shape[rank - 1 - i] = x == 1 ? y : x;
    }
    return BP_OK;
}

enum bp_status bp_infer_broadcast(struct bp_site *site)
{
    const struct bp_view *a = bp_site_in(site, 0), *b = bp_site_in(site, 1);
    uint32_t rank = a->rank > b->rank ? a->rank : b->rank;

    TRY(broadcast(site, 0, rank, site->out[0].shape));
    site->out[0].rank = rank;
    return BP_OK;
}

enum bp_status bp_infer_cast(struct bp_site *site)
{
    const struct bp_cast_attrs *a = site->attrs;
    const struct bp_opinfo *op = &site->row->info;

    if (a->to > 63 || !(op->types[BP_VAR_U] >> a->to & 1))
        return bp_error(BP_ERR_INVALID, "cast: attribute to is %s, which cast does not make",
                        bp_dtype_name((uint32_t)a->to));
    shape_of(&site->out[0], bp_site_in(site, 0));
    site->out[0].dtype = (uint32_t)a->to;
    return BP_OK;
}

static enum bp_status check_axis(const struct bp_site *site, int64_t axis, uint32_t rank,
                                 uint32_t *out_axis)
{
    if (!rank)
        return bp_error(BP_ERR_INVALID,
                        "%s: axis is %" PRId64 ", but a tensor of rank 0 has no axes",
                        site->row->info.name, axis);
    if (axis < -(int64_t)rank || axis >= (int64_t)rank)
        return bp_error(BP_ERR_INVALID, "%s: axis is %" PRId64 ", expected %d to %d for rank %u",
                        site->row->info.name, axis, -(int)rank, (int)rank - 1, rank);
    *out_axis = (uint32_t)(axis < 0 ? axis + rank : axis);
    return BP_OK;
}

/* The result of a sum of x over axes. */
static enum bp_status reduce(const struct bp_site *site, const struct bp_view *x,
                             struct bp_dims axes, bool keep, struct bp_type *out)
{
    uint32_t summed = 0, axis;

    for (int64_t i = 0; i < axes.n; i++) {
        TRY(check_axis(site, axes.at[i], x->rank, &axis));
        if (summed >> axis & 1)
            return bp_error(BP_ERR_INVALID, "%s: attribute axes names axis %u twice",
                            site->row->info.name, axis);
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

enum bp_status bp_infer_sum(struct bp_site *site)
{
    const struct bp_sum_attrs *a = site->attrs;

    return reduce(site, bp_site_in(site, 0), a->axes, a->keep, &site->out[0]);
}

static enum bp_status expect_shape(const struct bp_site *site, uint32_t port,
                                   const struct bp_type *expected)
{
    const struct bp_view *got = bp_site_in(site, port);
    char x[BP_TYPE_TEXT], y[BP_TYPE_TEXT];

    if (got->rank == expected->rank &&
        !memcmp(got->shape, expected->shape, got->rank * sizeof *got->shape))
        return BP_OK;
    return bp_error(BP_ERR_INVALID, "%s: input %s is %s, expected %s", site->row->info.name,
                    site->row->info.in[port].name,
                    bp_type_text(got->dtype, got->rank, got->shape, x, sizeof x),
                    bp_type_text(got->dtype, expected->rank, expected->shape, y, sizeof y));
}

enum bp_status bp_infer_sum_grad(struct bp_site *site)
{
    const struct bp_sum_grad_attrs *a = site->attrs;
    const struct bp_view *x = bp_site_in(site, 1);
    struct bp_type sum;

    TRY(reduce(site, x, a->axes, a->keep, &sum));
    TRY(expect_shape(site, 0, &sum));
    shape_of(&site->out[0], x);
    return BP_OK;
}

enum bp_status bp_infer_softmax(struct bp_site *site)
{
    const struct bp_softmax_attrs *a = site->attrs;
    uint32_t axis;

    TRY(check_axis(site, a->axis, bp_site_in(site, 0)->rank, &axis));
    shape_of(&site->out[0], bp_site_in(site, 0));
    return BP_OK;
}

enum bp_status bp_infer_softmax_grad(struct bp_site *site)
{
    const struct bp_softmax_grad_attrs *a = site->attrs;
    uint32_t axis;

    TRY(check_axis(site, a->axis, bp_site_in(site, 0)->rank, &axis));
    shape_of(&site->out[0], bp_site_in(site, 0));
    return expect_shape(site, 1, &site->out[0]);
}

/* Rows and columns of a side: a rank 1 a is a row, a rank 1 b a column. */
static void matrix(const struct bp_view *v, bool right, bool transpose, int64_t *out_rows,
                   int64_t *out_columns)
{
    int64_t rows = extent_back(v, 1), columns = extent_back(v, 0);

    if (v->rank == 1 && right) {
        rows = columns;
        columns = 1;
    }
    *out_rows = transpose ? columns : rows;
    *out_columns = transpose ? rows : columns;
}

enum bp_status bp_infer_matmul(struct bp_site *site)
{
    const struct bp_matmul_attrs *t = site->attrs;
    const struct bp_view *a = bp_site_in(site, 0), *b = bp_site_in(site, 1);
    struct bp_type *out = &site->out[0];
    int64_t m, k, k2, n;
    uint32_t rank = a->rank > b->rank ? a->rank : b->rank, at;

    if (!a->rank || !b->rank)
        return bp_error(BP_ERR_INVALID, "matmul: a and b need at least one axis");
    if ((a->rank == 1 && t->transpose_a) || (b->rank == 1 && t->transpose_b))
        return bp_error(BP_ERR_INVALID, "matmul: a side of one axis cannot be transposed");
    matrix(a, false, t->transpose_a, &m, &k);
    matrix(b, true, t->transpose_b, &k2, &n);
    if (k != k2) {
        char x[BP_TYPE_TEXT], y[BP_TYPE_TEXT];
        return bp_error(BP_ERR_INVALID,
                        "matmul: a is %s%s and b is %s%s: a has %" PRId64 " columns, b %" PRId64
                        " rows",
                        bp_type_text(a->dtype, a->rank, a->shape, x, sizeof x),
                        t->transpose_a ? " transposed" : "",
                        bp_type_text(b->dtype, b->rank, b->shape, y, sizeof y),
                        t->transpose_b ? " transposed" : "", k, k2);
    }
    if (rank < 2) rank = 2;
    TRY(broadcast(site, 2, rank, out->shape));
    at = rank - 2;
    if (a->rank > 1) out->shape[at++] = m;
    if (b->rank > 1) out->shape[at++] = n;
    out->rank = at;
    return BP_OK;
}
