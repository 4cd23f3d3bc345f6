/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: has the shape rules and decompositions of operators on vectors and matrices; each
 * decomposition is made of products and sums. */
#include <call/compose.h>
#include <call/shape.h>

#include <backplane/attrs.h>
#include <inttypes.h>

static const uint32_t both[] = {0, 1};

static struct bp_tensor *linalg_product(struct bp_compose *c, struct bp_tensor *a,
                                        struct bp_tensor *b, bool transpose_b)
{
    struct bp_matmul_attrs attrs = {.size = sizeof attrs, .transpose_b = transpose_b};

    return MAKE(c, matmul, &attrs, a, b);
}

static enum bp_status needs_rank(const struct bp_invocation *inv, uint32_t port, uint32_t low,
                                 uint32_t high)
{
    const struct bp_opinfo *op = &inv->row->info;
    uint32_t rank = bp_invocation_in(inv, port)->rank;

    if (rank >= low && rank <= high) return BP_OK;
    if (low == high)
        return bp_error(BP_ERR_INVALID, "%s: input %s has %u axes, expected %u", op->name,
                        op->in[port].name, rank, low);
    return bp_error(BP_ERR_INVALID, "%s: input %s has %u axes, expected %u to %u", op->name,
                    op->in[port].name, rank, low, high);
}

/* Checks that axis a of one input is as long as axis b of another. */
static enum bp_status same_extent(const struct bp_invocation *inv, uint32_t port, uint32_t a,
                                  uint32_t other, uint32_t b)
{
    const struct bp_view *x = bp_invocation_in(inv, port), *y = bp_invocation_in(inv, other);
    const struct bp_opinfo *op = &inv->row->info;

    if (x->shape[a] == y->shape[b]) return BP_OK;
    return bp_error(BP_ERR_INVALID,
                    "%s: axis %u of %s is %" PRId64 " long, expected %" PRId64
                    " as axis %u of %s",
                    op->name, a, op->in[port].name, x->shape[a], y->shape[b], b,
                    op->in[other].name);
}

enum bp_status bp_infer_trace(struct bp_invocation *inv)
{
    const struct bp_trace_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);

    TRY(needs_rank(inv, 0, 2, BP_RANK_MAX));
    return bp_shape_reduce(inv, x, (struct bp_dims){(int64_t[]){a->axis1, a->axis2}, 2}, false,
                           &inv->out[0]);
}

/* A diagonal is every m + 1st element of a matrix of m columns in row-major order. */
enum bp_status bp_decompose_trace(struct bp_decomposition *e)
{
    const struct bp_trace_attrs *a = e->attrs;
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *x = bp_compose_widen(&c, e->in[0]);
    int64_t rank = e->in[0]->view.rank, perm[BP_RANK_MAX], shape[BP_RANK_MAX], at = 0;
    int64_t row = a->axis1 < 0 ? a->axis1 + rank : a->axis1;
    int64_t column = a->axis2 < 0 ? a->axis2 + rank : a->axis2;
    int64_t n = e->in[0]->shape[row], m = e->in[0]->shape[column], offset = a->offset;
    int64_t first = offset < 0 ? -offset * m : offset;
    int64_t rows = offset < 0 ? n + offset : n, columns = offset < 0 ? m : m - offset;
    int64_t length = rows < columns ? rows : columns, step = m + 1, axis, end;
    struct bp_transpose_attrs order = {.size = sizeof order, .perm = {perm, rank}};
    struct bp_slice_attrs diagonal = {.size = sizeof diagonal, .starts = {&first, 1},
                                      .ends = {&end, 1}, .axes = {&axis, 1}, .steps = {&step, 1}};

    for (int64_t i = 0; i < rank; i++)
        if (i != row && i != column) perm[at++] = i;
    perm[at] = row;
    perm[at + 1] = column;
    for (int64_t i = 0; i < at; i++) shape[i] = e->in[0]->shape[perm[i]];
    shape[at] = n * m;
    axis = at;
    if (length <= 0) first = length = 0;
    end = length ? first + (length - 1) * step + 1 : 0;
    x = bp_compose_reshape(&c, MAKE(&c, transpose, &order, x), (uint32_t)rank - 1, shape);
    return bp_compose_give(e, &c,
                           bp_compose_sum(&c, MAKE(&c, slice, &diagonal, x), &axis, 1, false));
}

enum bp_status bp_infer_dot(struct bp_invocation *inv)
{
    const struct bp_view *x = bp_invocation_in(inv, 0);

    TRY(needs_rank(inv, 0, 1, BP_RANK_MAX - 1));
    bp_shape_copy(&inv->out[0], x);
    TRY(bp_shape_expect(inv, 1, &inv->out[0]));
    inv->out[0].rank--;
    return BP_OK;
}

enum bp_status bp_decompose_dot(struct bp_decomposition *e)
{
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *x = e->in[0], *y = e->in[1];
    int64_t row[BP_RANK_MAX], column[BP_RANK_MAX];
    uint32_t rank = x->view.rank;

    if (rank == 1) return bp_compose_give(e, &c, linalg_product(&c, x, y, false));
    for (uint32_t i = 0; i + 1 < rank; i++) row[i] = column[i] = x->shape[i];
    row[rank - 1] = column[rank] = 1;
    row[rank] = column[rank - 1] = x->shape[rank - 1];
    x = linalg_product(&c, bp_compose_reshape(&c, x, rank + 1, row),
                       bp_compose_reshape(&c, y, rank + 1, column), false);
    return bp_compose_give(e, &c, bp_compose_reshape(&c, x, rank - 1, row));
}

enum bp_status bp_infer_outer(struct bp_invocation *inv)
{
    inv->out[0].rank = 2;
    for (uint32_t i = 0; i < 2; i++) inv->out[0].shape[i] = bp_invocation_in(inv, i)->count;
    return BP_OK;
}

enum bp_status bp_decompose_outer(struct bp_decomposition *e)
{
    struct bp_compose c = bp_compose_begin(e->scope);
    int64_t column[] = {e->in[0]->view.count, 1}, row[] = {1, e->in[1]->view.count};

    return bp_compose_give(e, &c, MAKE(&c, mul, NULL, bp_compose_reshape(&c, e->in[0], 2, column),
                            bp_compose_reshape(&c, e->in[1], 2, row)));
}

enum bp_status bp_infer_inner(struct bp_invocation *inv)
{
    const struct bp_view *x = bp_invocation_in(inv, 0), *y = bp_invocation_in(inv, 1);
    struct bp_type *out = &inv->out[0];

    if (!x->rank || !y->rank) return bp_shape_broadcast(inv, both, 2, 0, out);
    TRY(same_extent(inv, 1, y->rank - 1u, 0, x->rank - 1u));
    if (x->rank + y->rank - 2 > BP_RANK_MAX)
        return bp_error(BP_ERR_INVALID,
                        "inner: the result would have %u axes, at most %d are allowed",
                        x->rank + y->rank - 2u, BP_RANK_MAX);
    out->rank = 0;
    for (uint32_t i = 0; i + 1 < x->rank; i++) out->shape[out->rank++] = x->shape[i];
    for (uint32_t i = 0; i + 1 < y->rank; i++) out->shape[out->rank++] = y->shape[i];
    return BP_OK;
}

enum bp_status bp_decompose_inner(struct bp_decomposition *e)
{
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *side[2] = {e->in[0], e->in[1]}, *z;
    int64_t shape[2 * BP_RANK_MAX];
    uint32_t rank = 0;

    if (!side[0]->view.rank || !side[1]->view.rank)
        return bp_compose_give(e, &c, MAKE(&c, mul, NULL, side[0], side[1]));
    for (int s = 0; s < 2; s++) {
        struct bp_tensor *t = side[s];
        int64_t last = t->shape[t->view.rank - 1u], rows = 1;
        for (uint32_t i = 0; i + 1 < t->view.rank; i++) rows *= shape[rank++] = t->shape[i];
        side[s] = bp_compose_reshape(&c, t, 2, (int64_t[]){rows, last});
    }
    z = linalg_product(&c, side[0], side[1], true);
    return bp_compose_give(e, &c, bp_compose_reshape(&c, z, rank, shape));
}

enum bp_status bp_infer_mv(struct bp_invocation *inv)
{
    TRY(needs_rank(inv, 0, 2, 2));
    TRY(needs_rank(inv, 1, 1, 1));
    TRY(same_extent(inv, 1, 0, 0, 1));
    inv->out[0].rank = 1;
    inv->out[0].shape[0] = bp_invocation_in(inv, 0)->shape[0];
    return BP_OK;
}

enum bp_status bp_decompose_mv(struct bp_decomposition *e)
{
    struct bp_compose c = bp_compose_begin(e->scope);

    return bp_compose_give(e, &c, linalg_product(&c, e->in[0], e->in[1], false));
}

enum bp_status bp_infer_addmm(struct bp_invocation *inv)
{
    const struct bp_view *a = bp_invocation_in(inv, 1), *b = bp_invocation_in(inv, 2),
                         *input = bp_invocation_in(inv, 0);
    int64_t shape[2];

    TRY(needs_rank(inv, 0, 0, 2));
    TRY(needs_rank(inv, 1, 2, 2));
    TRY(needs_rank(inv, 2, 2, 2));
    TRY(same_extent(inv, 2, 0, 1, 1));
    shape[0] = a->shape[0];
    shape[1] = b->shape[1];
    inv->out[0].rank = 2;
    for (uint32_t i = 0; i < 2; i++) {
        int64_t extent = bp_shape_extent_back(input, 1 - i);
        if (extent != 1 && extent != shape[i])
            return bp_error(BP_ERR_INVALID,
                            "addmm: axis %u of the product is %" PRId64
                            " long, to which input with %" PRId64 " does not broadcast",
                            i, shape[i], extent);
        inv->out[0].shape[i] = shape[i];
    }
    return BP_OK;
}

static struct bp_tensor *linalg_times(struct bp_compose *c, struct bp_tensor *t, double factor)
{
    return factor == 1 ? t : bp_compose_scale(c, t, factor, 0);
}

enum bp_status bp_decompose_addmm(struct bp_decomposition *e)
{
    const struct bp_addmm_attrs *a = e->attrs;
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *ab = linalg_product(&c, bp_compose_widen(&c, e->in[1]),
                                          bp_compose_widen(&c, e->in[2]), false);

    return bp_compose_give(e, &c, MAKE(&c, add, NULL,
                            linalg_times(&c, bp_compose_widen(&c, e->in[0]), a->beta),
                            linalg_times(&c, ab, a->alpha)));
}

enum bp_status bp_infer_kron(struct bp_invocation *inv)
{
    const struct bp_view *x = bp_invocation_in(inv, 0), *y = bp_invocation_in(inv, 1);
    uint32_t rank = x->rank > y->rank ? x->rank : y->rank;

    TRY(needs_rank(inv, 0, 0, BP_RANK_MAX / 2));
    TRY(needs_rank(inv, 1, 0, BP_RANK_MAX / 2));
    inv->out[0].rank = rank;
    for (uint32_t i = 0; i < rank; i++) {
        int64_t m = bp_shape_extent_back(x, i), n = bp_shape_extent_back(y, i);
        if (__builtin_mul_overflow(m, n, &inv->out[0].shape[rank - 1 - i]))
            return bp_error(BP_ERR_INVALID,
                            "kron: extents %" PRId64 " and %" PRId64 " of axis %u make one past "
                            "63 bits", m, n, rank - 1 - i);
    }
    return BP_OK;
}

/* Treats each axis as two: the axis of x, then that of y. */
enum bp_status bp_decompose_kron(struct bp_decomposition *e)
{
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *x = e->in[0], *y = e->in[1], *z;
    uint32_t rank = x->view.rank > y->view.rank ? x->view.rank : y->view.rank;
    int64_t of_x[BP_RANK_MAX], of_y[BP_RANK_MAX], shape[BP_RANK_MAX];

    for (uint32_t i = 0; i < rank; i++) {
        uint32_t at = 2 * (rank - 1 - i);
        of_x[at] = bp_shape_extent_back(&x->view, i);
        of_y[at + 1] = bp_shape_extent_back(&y->view, i);
        of_x[at + 1] = of_y[at] = 1;
        shape[rank - 1 - i] = of_x[at] * of_y[at + 1];
    }
    z = MAKE(&c, mul, NULL, bp_compose_reshape(&c, x, 2 * rank, of_x),
             bp_compose_reshape(&c, y, 2 * rank, of_y));
    return bp_compose_give(e, &c, bp_compose_reshape(&c, z, rank, shape));
}

enum bp_status bp_infer_cross(struct bp_invocation *inv)
{
    const struct bp_cross_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);
    uint32_t axis;

    TRY(bp_shape_axis(inv, a->axis, x->rank, &axis));
    if (x->shape[axis] != 3)
        return bp_error(BP_ERR_INVALID, "cross: axis %u is %" PRId64 " long, expected 3", axis,
                        x->shape[axis]);
    bp_shape_copy(&inv->out[0], x);
    return bp_shape_expect(inv, 1, &inv->out[0]);
}

/* Rotates the entries of the vectors: 1 2 0, or 2 0 1. */
static struct bp_tensor *linalg_transposed(struct bp_compose *c, struct bp_tensor *t, int64_t axis,
                                           int64_t by)
{
    struct bp_tensor *part[2];
    struct bp_concat_attrs join = {.size = sizeof join, .axis = axis};

    for (int i = 0; i < 2; i++) {
        int64_t start = i ? 0 : by, end = i ? by : 3;
        struct bp_slice_attrs a = {.size = sizeof a, .starts = {&start, 1}, .ends = {&end, 1},
                                   .axes = {&axis, 1}};
        part[i] = MAKE(c, slice, &a, t);
    }
    return bp_compose_all(c, BP_ROW_concat, &join, part, 2);
}

enum bp_status bp_decompose_cross(struct bp_decomposition *e)
{
    const struct bp_cross_attrs *a = e->attrs;
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *x = bp_compose_widen(&c, e->in[0]), *y = bp_compose_widen(&c, e->in[1]);
    struct bp_tensor *plus = MAKE(&c, mul, NULL, linalg_transposed(&c, x, a->axis, 1),
                                  linalg_transposed(&c, y, a->axis, 2));
    struct bp_tensor *minus = MAKE(&c, mul, NULL, linalg_transposed(&c, x, a->axis, 2),
                                   linalg_transposed(&c, y, a->axis, 1));

    return bp_compose_give(e, &c, MAKE(&c, sub, NULL, plus, minus));
}

enum bp_status bp_infer_bilinear(struct bp_invocation *inv)
{
    const struct bp_view *x = bp_invocation_in(inv, 0), *w = bp_invocation_in(inv, 2),
                         *bias = bp_invocation_in(inv, 3);

    TRY(needs_rank(inv, 0, 2, 2));
    TRY(needs_rank(inv, 1, 2, 2));
    TRY(needs_rank(inv, 2, 3, 3));
    TRY(same_extent(inv, 1, 0, 0, 0));
    TRY(same_extent(inv, 2, 1, 0, 1));
    TRY(same_extent(inv, 2, 2, 1, 1));
    if (bias) {
        TRY(needs_rank(inv, 3, 1, 2));
        TRY(same_extent(inv, 3, bias->rank - 1u, 2, 0));
        if (bias->rank == 2 && bias->shape[0] != 1)
            return bp_error(BP_ERR_INVALID, "bilinear: axis 0 of bias is %" PRId64
                            " long, expected 1", bias->shape[0]);
    }
    inv->out[0].rank = 2;
    inv->out[0].shape[0] = x->shape[0];
    inv->out[0].shape[1] = w->shape[0];
    return BP_OK;
}

/* x [B, 1, 1, M] times w [O, M, N] is [B, O, 1, N]; times y [B, 1, N, 1] it is [B, O, 1, 1]. */
enum bp_status bp_decompose_bilinear(struct bp_decomposition *e)
{
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *x = bp_compose_widen(&c, e->in[0]), *y = bp_compose_widen(&c, e->in[1]),
                     *w = bp_compose_widen(&c, e->in[2]), *z;
    const int64_t *sx = e->in[0]->shape, *sy = e->in[1]->shape;

    x = bp_compose_reshape(&c, x, 4, (int64_t[]){sx[0], 1, 1, sx[1]});
    y = bp_compose_reshape(&c, y, 4, (int64_t[]){sy[0], 1, sy[1], 1});
    z = linalg_product(&c, linalg_product(&c, x, w, false), y, false);
    z = bp_compose_reshape(&c, z, 2, (int64_t[]){sx[0], e->in[2]->shape[0]});
    if (e->in[3]) z = MAKE(&c, add, NULL, z, bp_compose_widen(&c, e->in[3]));
    return bp_compose_give(e, &c, z);
}

enum bp_status bp_infer_det(struct bp_invocation *inv)
{
    const struct bp_view *x = bp_invocation_in(inv, 0);
    char text[BP_TYPE_TEXT];

    if (x->rank < 2 || x->shape[x->rank - 2] != x->shape[x->rank - 1])
        return bp_error(BP_ERR_INVALID,
                        "det: x is %s, expected square matrices in the last two axes",
                        bp_type_text(x->dtype, x->rank, x->shape, text, sizeof text));
    bp_shape_copy(&inv->out[0], x);
    inv->out[0].rank -= 2;
    return BP_OK;
}
