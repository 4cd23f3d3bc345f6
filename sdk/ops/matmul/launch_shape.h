/* SPDX-License-Identifier: Apache-2.0 */
/* launch_shape.h: describes the two sides of a product as matrices, for the host code of every
 * plugin. */
#ifndef BP_OPS_MATMUL_LAUNCH_SHAPE_H
#define BP_OPS_MATMUL_LAUNCH_SHAPE_H

#include <backplane/kernel.h>
#include <stdbool.h>

/* The last two axes of a view as a matrix; the axes before them are the batch. A side of rank 1 is
 * one row (a) or one column (b), and transposing does not change it. */
struct matrix {
    int64_t rows, columns, row, column;
    int batch; /* number of axes before the matrix */
};

static inline struct matrix matrix_of(const struct bp_view *view, bool transpose,
                                      bool row_if_vector)
{
    int r = view->rank;

    if (r == 1 && row_if_vector) return (struct matrix){1, view->shape[0], 0, view->stride[0], 0};
    if (r == 1) return (struct matrix){view->shape[0], 1, view->stride[0], 0, 0};
    int rows = transpose ? r - 1 : r - 2, columns = transpose ? r - 2 : r - 1;
    return (struct matrix){view->shape[rows], view->shape[columns], view->stride[rows],
                           view->stride[columns], r - 2};
}

/* Returns the arguments of the kernels of kernel.h, for plugins of devices: a and b as in operator
 * matmul, c of the result's shape. */
struct matmul_args matmul_of(const struct bp_view *a, bool transpose_a, const struct bp_view *b,
                             bool transpose_b, const struct bp_view *c);

#endif
