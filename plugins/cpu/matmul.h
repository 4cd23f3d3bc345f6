/* SPDX-License-Identifier: Apache-2.0 */
/* matmul.h: describes a matmul as plain matrices, without ranks, transposition and broadcasting. */
#ifndef CPU_MATMUL_H
#define CPU_MATMUL_H

#include "walk.h"
#include <backplane/attrs.h>
#include <stdbool.h>

/* c (m x n) = a (m x k) b (k x n), for each index of batch (views c, a, b). Strides are in
 * elements. */
struct matmul {
    int64_t m, n, k;
    int64_t a_row, a_column, b_row, b_column, c_row, c_column;
    struct walk batch; /* collapsed by walk_collapse */
};

/* A vector times a matrix: y[j] = the sum over i < k of x[i] matrix(i, j). A matrix times a vector
 * is the same product with the transposed matrix. */
struct matmul_line {
    int64_t n, k, x_step, y_step;
    int64_t row, column; /* strides of the matrix along i and j; one of them is 1 */
    bool swapped;        /* x is the second input */
    struct walk batch;   /* views: y, x, matrix */
};

/* Whether a product is a vector times a matrix that can be read in long streams. */
bool matmul_is_line(const struct matmul *s, struct matmul_line *out);

/* Products that share one side become one product of more rows or columns, if the strides of the
 * other side and of the result permit. */
void matmul_init(struct matmul *out, const struct bp_view *a, const struct bp_view *b,
                 const struct bp_view *c, const struct bp_matmul_attrs *attrs);

#endif
