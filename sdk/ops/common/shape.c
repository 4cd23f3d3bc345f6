/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: shapes and dtypes of results, one rule for each INFER word. convolution: conv/shape.c.
 */
#include <op/rules.h>

#include <backplane/attrs.h>
#include <inttypes.h>
#include <string.h>

static const uint32_t both[] = {0, 1};

enum bp_status bp_infer_broadcast(struct bp_site *site)
{
    return bp_rule_broadcast(site, both, 2, 0, &site->out[0]);
}

enum bp_status bp_infer_cast(struct bp_site *site)
{
    const struct bp_cast_attrs *a = site->attrs;
    const struct bp_opinfo *op = &site->row->info;

    if (a->to > 63 || !(op->types[BP_VAR_U] >> a->to & 1))
        return bp_error(BP_ERR_INVALID, "cast: attribute to is %s, which cast does not make",
                        bp_dtype_name((uint32_t)a->to));
    bp_rule_shape(&site->out[0], bp_site_in(site, 0));
    site->out[0].dtype = (uint32_t)a->to;
    return BP_OK;
}

enum bp_status bp_infer_sum(struct bp_site *site)
{
    const struct bp_sum_attrs *a = site->attrs;

    return bp_rule_reduce(site, bp_site_in(site, 0), a->axes, a->keep, &site->out[0]);
}

enum bp_status bp_infer_sum_grad(struct bp_site *site)
{
    const struct bp_sum_grad_attrs *a = site->attrs;
    const struct bp_view *x = bp_site_in(site, 1);
    struct bp_type sum;

    TRY(bp_rule_reduce(site, x, a->axes, a->keep, &sum));
    TRY(bp_rule_expect(site, 0, &sum));
    bp_rule_shape(&site->out[0], x);
    return BP_OK;
}

enum bp_status bp_infer_softmax(struct bp_site *site)
{
    const struct bp_softmax_attrs *a = site->attrs;
    uint32_t axis;

    TRY(bp_rule_axis(site, a->axis, bp_site_in(site, 0)->rank, &axis));
    bp_rule_shape(&site->out[0], bp_site_in(site, 0));
    return BP_OK;
}

enum bp_status bp_infer_softmax_grad(struct bp_site *site)
{
    const struct bp_softmax_grad_attrs *a = site->attrs;
    uint32_t axis;

    TRY(bp_rule_axis(site, a->axis, bp_site_in(site, 0)->rank, &axis));
    bp_rule_shape(&site->out[0], bp_site_in(site, 0));
    return bp_rule_expect(site, 1, &site->out[0]);
}

/* Rows and columns of a side: a rank 1 a is a row, a rank 1 b a column. */
static void matrix(const struct bp_view *v, bool right, bool transpose, int64_t *out_rows,
                   int64_t *out_columns)
{
    int64_t rows = bp_rule_extent_back(v, 1), columns = bp_rule_extent_back(v, 0);

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
    TRY(bp_rule_broadcast(site, both, 2, 2, out));
    at = rank > 2 ? rank - 2 : 0;
    if (a->rank > 1) out->shape[at++] = m;
    if (b->rank > 1) out->shape[at++] = n;
    out->rank = at;
    return BP_OK;
}
