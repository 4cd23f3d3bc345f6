/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: infers the shape of matmul's result. */
#include <call/shape.h>

#include <backplane/attrs.h>
#include <inttypes.h>

/* Rows and columns of a side: an `a` of rank 1 is a row, a `b` of rank 1 is a column. */
static void matmul_matrix(const struct bp_view *v, bool right, bool transpose, int64_t *out_rows,
                          int64_t *out_columns)
{
    int64_t rows = bp_shape_extent_back(v, 1), columns = bp_shape_extent_back(v, 0);

    if (v->rank == 1 && right) {
        rows = columns;
        columns = 1;
    }
    *out_rows = transpose ? columns : rows;
    *out_columns = transpose ? rows : columns;
}

enum bp_status bp_infer_matmul(struct bp_invocation *inv)
{
    const struct bp_matmul_attrs *t = inv->attrs; /* or those of an operator that begin so */
    const char *op = inv->row->info.name;
    const struct bp_view *a = bp_invocation_in(inv, 0), *b = bp_invocation_in(inv, 1);
    static const uint32_t both[] = {0, 1};
    struct bp_type *out = &inv->out[0];
    int64_t m, k, k2, n;
    uint32_t rank = a->rank > b->rank ? a->rank : b->rank, at;

    if (!a->rank || !b->rank)
        return bp_error(BP_ERR_INVALID, "%s: a and b need at least one axis", op);
    if ((a->rank == 1 && t->transpose_a) || (b->rank == 1 && t->transpose_b))
        return bp_error(BP_ERR_INVALID, "%s: a side of one axis cannot be transposed", op);
    matmul_matrix(a, false, t->transpose_a, &m, &k);
    matmul_matrix(b, true, t->transpose_b, &k2, &n);
    if (k != k2) {
        char x[BP_TYPE_TEXT], y[BP_TYPE_TEXT];
        return bp_error(BP_ERR_INVALID,
                        "%s: a is %s%s and b is %s%s: a has %" PRId64 " columns, b %" PRId64
                        " rows",
                        op, bp_type_text(a->dtype, a->rank, a->shape, x, sizeof x),
                        t->transpose_a ? " transposed" : "",
                        bp_type_text(b->dtype, b->rank, b->shape, y, sizeof y),
                        t->transpose_b ? " transposed" : "", k, k2);
    }
    TRY(bp_shape_broadcast(inv, both, 2, 2, out));
    at = rank > 2 ? rank - 2 : 0;
    if (a->rank > 1) out->shape[at++] = m;
    if (b->rank > 1) out->shape[at++] = n;
    out->rank = at;
    return BP_OK;
}
