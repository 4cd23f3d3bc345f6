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

static void batch_remove(struct walk *batch, int axis)
{
    batch->count /= batch->shape[axis];
    batch->rank--;
    for (int a = axis; a < batch->rank; a++) {
        batch->shape[a] = batch->shape[a + 1];
        for (int i = 0; i < WALK_VIEWS; i++) batch->stride[i][a] = batch->stride[i][a + 1];
    }
}

/* Whether indices of batch axis `axis` continue the rows (or columns) of the result and of one
 * side, which have n of them at these distances, while the other side is the same for all. */
static bool axis_continues(const struct walk *batch, int axis, int side, int64_t n, int64_t step,
                           int64_t c_step)
{
    int64_t of_side = batch->stride[side][axis], of_c = batch->stride[0][axis];

    if (batch->stride[3 - side][axis] || !of_side || !of_c) return false;
    return n == 1 || (of_side == n * step && of_c == n * c_step);
}

/* Makes products that share one side a single product of more rows or columns: the shared side is
 * read once instead of once for each product. */
static void matmul_merge(struct matmul *s)
{
    for (int a = s->batch.rank - 1; a >= 0; a--) {
        int64_t times = s->batch.shape[a];

        if (times < 2) continue;
        if (axis_continues(&s->batch, a, 1, s->m, s->a_row, s->c_row)) {
            if (s->m == 1) {
                s->a_row = s->batch.stride[1][a];
                s->c_row = s->batch.stride[0][a];
            }
            s->m *= times;
        } else if (axis_continues(&s->batch, a, 2, s->n, s->b_column, s->c_column)) {
            if (s->n == 1) {
                s->b_column = s->batch.stride[2][a];
                s->c_column = s->batch.stride[0][a];
            }
            s->n *= times;
        } else {
            continue;
        }
        batch_remove(&s->batch, a);
    }
    walk_collapse(&s->batch);
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
    matmul_merge(out);
}
