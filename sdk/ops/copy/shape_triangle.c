/* SPDX-License-Identifier: Apache-2.0 */
/* shape_triangle.c: has the rules of diagonals and triangles of matrices. The rule of diagonal,
 * which is a view, is in shape_axes.c. */
#include <call/compose.h>
#include <call/shape.h>

#include <backplane/attrs.h>
#include <inttypes.h>

static enum bp_status triangle_keep(struct bp_grad *g, enum bp_row_number row, const void *attrs)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    if (g->want[0]) bp_compose_keep(&c, bp_compose(&c, row, attrs, g->dy, 1), &g->dx[0]);
    return bp_compose_end(&c);
}

enum bp_status bp_infer_triangle(struct bp_invocation *inv)
{
    const struct bp_view *x = bp_invocation_in(inv, 0);

    bp_shape_copy(&inv->out[0], x);
    if (x->rank >= 2) return BP_OK;
    return bp_error(BP_ERR_INVALID, "%s: x has %u axes, expected two or more", inv->row->info.name,
                    x->rank);
}

enum bp_status bp_grad_tril(struct bp_grad *g)
{
    return triangle_keep(g, BP_ROW_tril, g->attrs);
}

enum bp_status bp_grad_triu(struct bp_grad *g)
{
    return triangle_keep(g, BP_ROW_triu, g->attrs);
}

/* Sets *out_side to n plus the magnitude of the offset of a diagonal. */
static enum bp_status triangle_side_of(const struct bp_invocation *inv, int64_t n, int64_t offset,
                                       int64_t *out_side)
{
    if (offset != INT64_MIN && !__builtin_add_overflow(n, offset < 0 ? -offset : offset, out_side))
        return BP_OK;
    return bp_error(BP_ERR_INVALID, "%s: attribute offset is %" PRId64 ": the matrix has no size",
                    inv->row->info.name, offset);
}

enum bp_status bp_infer_diag_embed(struct bp_invocation *inv)
{
    const struct bp_diag_embed_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);
    struct bp_type *out = &inv->out[0];
    uint32_t p, q;
    int64_t side;

    if (!x->rank || x->rank == BP_RANK_MAX)
        return bp_error(BP_ERR_INVALID, "diag_embed: x has %u axes, expected 1 to %d", x->rank,
                        BP_RANK_MAX - 1);
    TRY(bp_shape_axis(inv, a->axis1, x->rank + 1u, &p));
    TRY(bp_shape_axis(inv, a->axis2, x->rank + 1u, &q));
    if (p == q)
        return bp_error(BP_ERR_INVALID,
                        "diag_embed: axis1 and axis2 are both axis %u, expected two", p);
    TRY(triangle_side_of(inv, x->shape[x->rank - 1], a->offset, &side));
    out->rank = x->rank + 1u;
    for (uint32_t i = 0, at = 0; i < out->rank; i++)
        out->shape[i] = i == p || i == q ? side : x->shape[at++];
    return BP_OK;
}

enum bp_status bp_grad_diag_embed(struct bp_grad *g)
{
    const struct bp_diag_embed_attrs *f = g->attrs;
    struct bp_diagonal_attrs a = {
        .size = sizeof a, .offset = f->offset, .axis1 = f->axis1, .axis2 = f->axis2};

    return triangle_keep(g, BP_ROW_diagonal, &a);
}

/* Makes a square with dy on its diagonal, then cuts off or adds rows and columns at its end to
 * match x. */
enum bp_status bp_grad_diagonal(struct bp_grad *g)
{
    const struct bp_diagonal_attrs *f = g->attrs;
    struct bp_diag_embed_attrs put = {
        .size = sizeof put, .offset = f->offset, .axis1 = f->axis1, .axis2 = f->axis2};
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *x = g->in[0], *d = g->dy[0];
    int64_t after[BP_RANK_MAX] = {0}, rank = x->view.rank;
    struct bp_pad_attrs fit = {.size = sizeof fit, .after = {after, rank}};

    if (!g->want[0] || !d->view.count) return BP_OK; /* the diagonal is empty */
    d = MAKE(&c, diag_embed, &put, d);
    for (int64_t i = 0; i < rank && d; i++) after[i] = x->shape[i] - d->shape[i];
    d = MAKE(&c, pad, &fit, d);
    bp_compose_keep(&c, d, &g->dx[0]);
    return bp_compose_end(&c);
}

enum bp_status bp_infer_diag(struct bp_invocation *inv)
{
    const struct bp_diag_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);
    struct bp_type *out = &inv->out[0];
    int64_t rows, columns;

    if (x->rank == 1) {
        out->rank = 2;
        TRY(triangle_side_of(inv, x->shape[0], a->offset, &out->shape[0]));
        out->shape[1] = out->shape[0];
        return BP_OK;
    }
    if (x->rank != 2)
        return bp_error(BP_ERR_INVALID, "diag: x has %u axes, expected 1 or 2", x->rank);
    rows = x->shape[0] +
           (a->offset < 0 ? (a->offset < -x->shape[0] ? -x->shape[0] : a->offset) : 0);
    columns = x->shape[1] -
              (a->offset > 0 ? (a->offset > x->shape[1] ? x->shape[1] : a->offset) : 0);
    out->rank = 1;
    out->shape[0] = rows < columns ? rows : columns;
    return BP_OK;
}

enum bp_status bp_decompose_diag(struct bp_decomposition *e)
{
    const struct bp_diag_attrs *a = e->attrs;
    struct bp_diag_embed_attrs put = {
        .size = sizeof put, .offset = a->offset, .axis1 = -2, .axis2 = -1, .value = a->value};
    struct bp_diagonal_attrs take = {.size = sizeof take, .offset = a->offset, .axis2 = 1};
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *x = e->in[0];

    if (x->view.rank == 1) x = MAKE(&c, diag_embed, &put, x);
    else x = MAKE(&c, assign, NULL, MAKE(&c, diagonal, &take, x));
    bp_compose_keep(&c, x, &e->out[0]);
    return bp_compose_end(&c);
}

enum bp_status bp_infer_fill_diagonal(struct bp_invocation *inv)
{
    const struct bp_fill_diagonal_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);
    char text[BP_TYPE_TEXT];
    bool cube = true;

    for (uint32_t i = 1; i < x->rank; i++) cube &= x->shape[i] == x->shape[0];
    bp_shape_copy(&inv->out[0], x);
    if (x->rank == 2 || (x->rank > 2 && cube && !a->offset)) return BP_OK;
    return bp_error(BP_ERR_INVALID,
                    "fill_diagonal: x is %s and offset %" PRId64
                    ": expected two axes, or more of one extent and no offset",
                    bp_type_text(x->dtype, x->rank, x->shape, text, sizeof text), a->offset);
}

enum bp_status bp_grad_fill_diagonal(struct bp_grad *g)
{
    struct bp_fill_diagonal_attrs a = *(const struct bp_fill_diagonal_attrs *)g->attrs;

    a.value = 0;
    return triangle_keep(g, BP_ROW_fill_diagonal, &a);
}
