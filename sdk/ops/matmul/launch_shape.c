/* SPDX-License-Identifier: Apache-2.0 */
/* launch_shape.c: fills in the extents and strides of a product of matrices from its views. */
#include "kernel.h"
#include "launch_shape.h"

/* Sets an operand's strides along the batch axes, aligned at the last axis; an axis of extent 1
 * repeats. */
static void batch_of(struct matmul_args *a, int operand, const struct bp_view *view, int batch)
{
    for (int axis = 0; axis < batch; axis++)
        a->stride[operand][a->rank - batch + axis] =
            view->shape[axis] == 1 ? 0 : view->stride[axis];
}

struct matmul_args matmul_of(const struct bp_view *a, bool transpose_a, const struct bp_view *b,
                             bool transpose_b, const struct bp_view *c)
{
    struct matrix ma = matrix_of(a, transpose_a, true), mb = matrix_of(b, transpose_b, false);
    int batch = ma.batch > mb.batch ? ma.batch : mb.batch, axis = batch;
    struct matmul_args out = {.m = ma.rows, .n = mb.columns, .k = ma.columns, .rank = batch,
                              .row = {0, ma.row, mb.row}, .column = {0, ma.column, mb.column}};

    if (a->rank > 1) out.row[MATMUL_C] = c->stride[axis++];
    if (b->rank > 1) out.column[MATMUL_C] = c->stride[axis];
    for (int i = 0; i < batch; i++) out.shape[i] = c->shape[i];
    batch_of(&out, MATMUL_C, c, batch);
    batch_of(&out, MATMUL_A, a, ma.batch);
    batch_of(&out, MATMUL_B, b, mb.batch);
    return out;
}
