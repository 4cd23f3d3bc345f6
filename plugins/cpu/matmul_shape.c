/* SPDX-License-Identifier: Apache-2.0 */
/* matmul_shape.c: see matmul.h. */
#include "matmul.h"
#include <stdbool.h>

/* The last two axes of a view as a matrix; the axes before them stay. A rank 1 side is one row
 * (a) or one column (b); transposition does not touch it. */
struct matrix {
    int64_t rows, columns, row, column;
    int batch; /* axes before */
};

static struct matrix matrix_of(const struct bp_view *view, bool transpose, bool row_if_vector)
{
    int r = view->rank;

    if (r == 1 && row_if_vector) return (struct matrix){1, view->shape[0], 0, view->stride[0], 0};
    if (r == 1) return (struct matrix){view->shape[0], 1, view->stride[0], 0, 0};
    int rows = transpose ? r - 1 : r - 2, columns = transpose ? r - 2 : r - 1;
    return (struct matrix){view->shape[rows], view->shape[columns], view->stride[rows],
                           view->stride[columns], r - 2};
}

void matmul_init(struct matmul *out, const struct bp_view *a, const struct bp_view *b,
                 const struct bp_view *c, const struct bp_matmul_attrs *attrs)
{
    struct matrix ma = matrix_of(a, attrs->transpose_a, true),
                  mb = matrix_of(b, attrs->transpose_b, false);
    int batch = ma.batch > mb.batch ? ma.batch : mb.batch, axis = batch;

    *out = (struct matmul){.m = ma.rows,
                           .n = mb.columns,
                           .k = ma.columns,
                           .a_row = ma.row,
                           .a_column = ma.column,
                           .b_row = mb.row,
                           .b_column = mb.column};
    if (a->rank > 1) out->c_row = c->stride[axis++];
    if (b->rank > 1) out->c_column = c->stride[axis];
    walk_init(&out->batch, batch, c->shape);
    walk_broadcast(&out->batch, 0, batch, c->shape, c->stride);
    walk_broadcast(&out->batch, 1, ma.batch, a->shape, a->stride);
    walk_broadcast(&out->batch, 2, mb.batch, b->shape, b->stride);
    walk_collapse(&out->batch);
}
