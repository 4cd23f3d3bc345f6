/* SPDX-License-Identifier: Apache-2.0 */
/* matmul_shape.c: computes the shape and strides of a matmul; see matmul.h. */
#include "matmul.h"
#include <ops/matmul/launch_shape.h>

bool matmul_is_line(const struct matmul *s, struct matmul_line *out)
{
    bool row = s->m == 1; /* otherwise one column */

    if (!row && s->n != 1) return false;
    *out = (struct matmul_line){.k = s->k, .swapped = !row, .batch = s->batch,
                                .n = row ? s->n : s->m,
                                .x_step = row ? s->a_column : s->b_row,
                                .y_step = row ? s->c_column : s->c_row,
                                .row = row ? s->b_row : s->a_column,
                                .column = row ? s->b_column : s->a_row};
    for (int a = 0; a < s->batch.rank && !row; a++) {
        out->batch.stride[1][a] = s->batch.stride[2][a];
        out->batch.stride[2][a] = s->batch.stride[1][a];
    }
    return out->column == 1 || (out->row == 1 && out->x_step == 1);
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
